//! The file layer: the few things the engine asks of a disk, behind one trait.
//!
//! Two disks exist: [`RealDisk`], and [`FaultyDisk`] in memory, which loses unsynced bytes, tears
//! writes, fills up and fails on command, so that what write-path.md promises is tested by the hundred.
//!
//! Nothing is durable before it is synced: bytes by [`DiskFile::sync_data`], names (created, renamed,
//! removed) by [`Disk::sync_dir`]. A rename is atomic.
//!
//! Not here: formats, checksums of the log (`log`), retries. Segment files with a CRC for each block
//! are in [`blockfile`], since they too are only bytes on a disk.

pub mod blockfile;
mod faulty;
mod mapped;
pub mod real;
mod sequential_writer;

pub use faulty::FaultyDisk;
pub use mapped::{MappedFile, release_mapped_pages};
pub use real::RealDisk;
pub use sequential_writer::SequentialWriter;

use model::{Error, ErrorKind};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A disk, as the engine uses it. Every path is whole (not relative to a folder of the disk).
pub trait Disk: Send + Sync {
    /// Makes a folder and its parents; one that exists is fine.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes an empty file for reading and writing; one that exists loses its content.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that exists, for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// The content of a file that nobody changes any more, mapped where the disk can.
    fn map(&self, path: &Path) -> io::Result<Image>;
    /// Makes the names in a folder durable: files created, renamed into it, removed from it.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file, replacing one of the new name; atomic.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the files directly in a folder, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Bytes in a file.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// Bytes that may still be written below a folder.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Bytes that nobody uses: with what the file system keeps for its administrator.
    fn unused_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.free_bytes(dir)
    }
    /// Bytes of the whole disk that a folder is on.
    fn total_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// One open file. Reads and writes name their offset, so that one file serves many threads.
pub trait DiskFile: Send + Sync {
    /// Writes some of `bytes` at `offset` and says how many: at least one, or an error.
    fn write_some_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads some bytes at `offset` and says how many; 0 at the file's end.
    fn read_some_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes the written bytes and the length durable. After a failure nothing is known of any
    /// byte written since the last success, and asking again proves nothing (write-path.md 8).
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts the file to its first `bytes`; one that is shorter stays as it is.
    fn truncate(&self, bytes: u64) -> io::Result<()>;
    /// Bytes in the file.
    fn bytes(&self) -> io::Result<u64>;

    /// Writes all of `bytes` at `offset`; after an error any part of them may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write_some_at(&bytes[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done = advance(done, n, bytes.len()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// As [`DiskFile::write_all_at`]; where the system takes less than it was given, that is synced before more is
    /// written. After a crash each sector so has all, a beginning or nothing of its bytes, and zeros behind.
    ///
    /// # Errors
    /// As [`DiskFile::write_all_at`]; a failed sync.
    fn write_in_order_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write_some_at(&bytes[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    done = advance(done, n, bytes.len());
                    if done < bytes.len() {
                        self.sync_data()?;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Fills `into` from `offset` and says how many bytes there were before the file's end.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.read_some_at(&mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done = advance(done, n, into.len()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    /// The whole content.
    fn read_whole(&self) -> io::Result<Vec<u8>> {
        let bytes = usize::try_from(self.bytes()?).map_err(io::Error::other)?;
        let mut content = vec![0; bytes];
        let read = self.read_at(&mut content, 0)?;
        content.truncate(read);
        Ok(content)
    }

    /// Writes `bytes` zeros from the beginning and syncs them, a stretch at a time so that syncs of
    /// other files do not wait behind all of it. Zeros are written, not promised by `fallocate`:
    /// only then does a later overwrite leave the file system's own records alone.
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        // The kernel caches in pieces as large as they were written; each sync of a few bytes goes through all of its piece.
        const CHUNK_BYTES: usize = 16 << 10;
        const SYNC_EACH_BYTES: u64 = 8 << 20;
        let zeros = vec![0; CHUNK_BYTES.min(usize::try_from(bytes).unwrap_or(CHUNK_BYTES))];
        let (mut done, mut synced) = (0, 0);
        while done < bytes {
            let chunk = (bytes - done).min(zeros.len() as u64);
            self.write_all_at(&zeros[..chunk as usize], done)?;
            done += chunk;
            if done - synced >= SYNC_EACH_BYTES {
                self.sync_data()?;
                synced = done;
            }
        }
        self.sync_data()
    }
}

/// The place after `n` more of `all` bytes.
fn advance(done: usize, n: usize, all: usize) -> usize {
    assert!(
        n <= all - done,
        "a disk moves [{n}] bytes where [{}] were asked for",
        all - done
    );
    done + n
}

/// The bytes of a file that does not change: mapped, or held in memory.
#[derive(Debug)]
pub enum Image {
    /// Pages of the file.
    Mapped(MappedFile),
    /// A copy.
    Loaded(Box<[u8]>),
}

impl Deref for Image {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Image::Mapped(map) => map,
            Image::Loaded(bytes) => bytes,
        }
    }
}

/// Data folders of this process, for [`display_path`].
static FOLDERS: parking_lot::RwLock<Vec<PathBuf>> = parking_lot::RwLock::new(Vec::new());

/// From here on paths in this folder are shown relative to it.
pub fn show_relative_to(folder: &Path) {
    let mut folders = FOLDERS.write();
    if !folders.iter().any(|known| known == folder) {
        folders.push(folder.to_owned());
    }
}

/// A path as errors show it: relative to the data folder that it is in. Where a folder lies on the machine is told to nobody
/// who asks over HTTP.
pub fn display_path(path: &Path) -> String {
    let folders = FOLDERS.read();
    let inside = folders.iter().find_map(|folder| path.strip_prefix(folder).ok());
    match inside {
        Some(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Some(inside) => inside.display().to_string(),
        None => path.display().to_string(),
    }
}

/// Whether a failure says that the disk (or the quota) is full.
pub fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a failure says that the process or the machine is short of descriptors or memory. Nothing was done, and the same
/// call works as soon as others have given some back.
pub fn is_short_of_handles(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
}

/// As [`Disk::sync_dir`]; waits while the process is short of descriptors, until `over`.
pub fn sync_dir_patiently(disk: &dyn Disk, dir: &Path, each: Duration, over: impl Fn() -> bool) -> io::Result<()> {
    loop {
        match disk.sync_dir(dir) {
            Err(e) if is_short_of_handles(&e) && !over() => std::thread::sleep(each),
            done => return done,
        }
    }
}

/// A failure of the disk as a refusal: 507 where the disk is full, 429 where descriptors are
/// short, else an internal error; all name what was being done and the path.
pub fn refusal(doing: &str, path: &Path, cause: &io::Error) -> Error {
    let kind = if is_full(cause) {
        ErrorKind::DiskFull
    } else if is_short_of_handles(cause) {
        ErrorKind::RejectedExecution
    } else {
        ErrorKind::Internal
    };
    let path = display_path(path);
    Error::new(kind, format!("{doing} [{path}] failed: {cause}")).with("path", path)
}
