//! Files of the log made ahead of need, so that no write waits for room.

use super::*;
use disk::{Disk, DiskFile, is_full};
use model::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

pub(super) fn allocate(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<OwnFile> {
    let file = disk.create(path)?;
    match file.allocate(bytes) {
        Ok(()) => Ok(OwnFile {
            path: path.to_owned(),
            file,
            bytes,
        }),
        Err(e) => {
            // The room is given back; the first error is the one to tell of.
            drop(disk.remove(path));
            Err(e)
        }
    }
}

/// Makes a spare file. Only a wholly zero-filled and synced file gets such a name. Each has its own:
/// the one before may just be on its way into the log, still under the old name.
pub(super) fn make_spare(disk: &dyn Disk, dir: &Path, number: u64, bytes: u64) -> io::Result<OwnFile> {
    let path = dir.join(format!("{SPARE}{number}"));
    let made = allocate(disk, &dir.join(format!("{SPARE}{number}.{PARTIAL}")), bytes)?;
    disk.rename(&made.path, &path)?;
    Ok(OwnFile { path, ..made })
}

/// The file that is kept for deletes; made while there is room.
pub(super) fn make_reserve(disk: &dyn Disk, dir: &Path, number: u64, file_bytes: u64) -> io::Result<OwnFile> {
    let path = dir.join(format!("{RESERVE}{number}"));
    let bytes = fitting(disk, dir, FIRST_MIN_BYTES, RESERVE_BYTES.min(file_bytes / 4)).max(FIRST_MIN_BYTES);
    let made = allocate(disk, &dir.join(format!("{RESERVE}{number}.{PARTIAL}")), bytes)?;
    disk.rename(&made.path, &path)?;
    Ok(OwnFile { path, ..made })
}

/// Blank files that a start finds.
pub(super) struct Swept {
    pub(super) spares: Vec<OwnFile>,
    pub(super) reserve: Option<OwnFile>,
    /// The number for the next.
    pub(super) next: u64,
}

/// The blank file that a start writes to, and what else lies beside the log.
pub(super) struct Blank {
    /// Where it could not be made, why.
    pub(super) file: io::Result<OwnFile>,
    /// One more, for later.
    pub(super) spare: Option<OwnFile>,
    /// The file for deletes, unless it had to be taken.
    pub(super) reserve: Option<OwnFile>,
    /// The disk is full: the blank file is the one for deletes.
    pub(super) full: Option<io::Error>,
    /// Its number.
    pub(super) number: u64,
}

impl Blank {
    /// Takes a spare that is there, else makes a file, else takes the one for deletes.
    ///
    /// # Errors
    /// The folder cannot be swept.
    pub(super) fn of(disk: &dyn Disk, dir: &Path, file_bytes: u64) -> Result<Blank> {
        let Swept {
            mut spares,
            reserve,
            next: number,
        } = sweep(disk, dir, file_bytes).map_err(|e| refusal("sweeping", dir, &e))?;
        let (file, reserve, full) = match spares.pop() {
            Some(spare) => (Ok(spare), reserve, None),
            None => match (first_file(disk, dir, number, file_bytes), reserve) {
                (Err(e), Some(kept)) if is_full(&e) => (Ok(kept), None, Some(e)),
                (made, kept) => (made, kept, None),
            },
        };
        Ok(Blank {
            file,
            spare: spares.pop(),
            reserve,
            full,
            number,
        })
    }
}

/// The blank files that a start finds beside the log. Sweeps away half-made files and spares that are too small or too large.
/// All that a spare may hold besides zeros is the header of a start that did not get further.
pub(super) fn sweep(disk: &dyn Disk, dir: &Path, file_bytes: u64) -> io::Result<Swept> {
    let (mut spares, mut reserve, mut next) = (Vec::new(), None, 0);
    for name in disk.list(dir)? {
        let path = dir.join(&name);
        let numbered = |prefix: &str| name.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
        if let Some(number) = numbered(RESERVE) {
            next = next.max(number + 1);
            let bytes = disk.len(&path)?;
            if reserve.is_none() && (FIRST_MIN_BYTES..=RESERVE_BYTES.max(FIRST_MIN_BYTES)).contains(&bytes) {
                reserve = Some(OwnFile {
                    file: disk.open(&path)?,
                    path,
                    bytes,
                });
                continue;
            }
        }
        let number = numbered(SPARE);
        if let Some(number) = number {
            next = next.max(number + 1);
            let bytes = disk.len(&path)?;
            if spares.len() < 2 && (FILE_MIN_BYTES.min(file_bytes)..=file_bytes).contains(&bytes) {
                spares.push(OwnFile {
                    file: disk.open(&path)?,
                    path,
                    bytes,
                });
                continue;
            }
        }
        if number.is_some() || numbered(RESERVE).is_some() || name.ends_with(&format!(".{PARTIAL}")) {
            disk.remove(&path)?;
        }
    }
    Ok(Swept { spares, reserve, next })
}

/// How large a file to make: an eighth of what is free, within the bounds. A disk of 64 MB has room for a log, and
/// segments, manifests and the files of a merge find theirs.
pub(super) fn fitting(disk: &dyn Disk, dir: &Path, least: u64, most: u64) -> u64 {
    let free = disk.free_bytes(dir).unwrap_or(u64::MAX);
    most.min((free / 8).max(least))
}

/// The file to start with if no spare is there: a small one, because the start waits for its zeros; the spare is
/// made meanwhile. On a nearly full disk an even smaller one.
pub(super) fn first_file(disk: &dyn Disk, dir: &Path, number: u64, file_bytes: u64) -> io::Result<OwnFile> {
    // On a full disk that is what the cut of the last file gave back: all of it, or each start would have less for deletes.
    let free = disk.free_bytes(dir).unwrap_or(u64::MAX);
    let most = fitting(disk, dir, FILE_MIN_BYTES, file_bytes.min(FIRST_FILE_BYTES));
    let mut bytes = most.min(free.saturating_sub(FIRST_LEAVES_BYTES).max(FIRST_MIN_BYTES));
    loop {
        match make_spare(disk, dir, number, bytes) {
            Err(e) if is_full(&e) && bytes / 2 >= FIRST_MIN_BYTES => bytes /= 2,
            made => return made,
        }
    }
}

/// Stands for the log's file while the disk has no room for one: nothing fits into it, so that the first record
/// takes the first spare file there is.
pub(super) fn no_file() -> OwnFile {
    OwnFile {
        path: PathBuf::new(),
        file: Arc::new(NoFile),
        bytes: FILE_HEADER_BYTES,
    }
}

struct NoFile;

impl DiskFile for NoFile {
    fn write_some_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn read_some_at(&self, _into: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }
    /// Nothing was written.
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
    fn bytes(&self) -> io::Result<u64> {
        Ok(0)
    }
}

/// A number that no other run has: it tells stale frames apart. Positions of starts never recur;
/// time and process make it hard to guess for whoever puts bytes into documents.
pub(super) fn fresh_run_id(start: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(start);
    hasher.write_u32(std::process::id());
    hasher.write_u128(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos()),
    );
    hasher.finish()
}

pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map_err(|e| Error::new(ErrorKind::Internal, format!("starting the thread [{name}] failed: {e}")))
}
