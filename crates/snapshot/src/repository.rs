//! Reading a repository: its root, the contents of snapshots, files.
//!
//! Not here: changing it (`writer`).

use crate::blob::{Blob, Hash, unsound};
use crate::checked_file;
use crate::contents::Contents;
use crate::root::{Root, Summary};
use disk::{Disk, DiskFile, display_path, refusal};
use model::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ROOT: &str = "index";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const BLOBS: &str = "blobs";
pub(crate) const TEMPORARY: &str = "temporary";
pub(crate) const WRITING: &str = "writing";
pub(crate) const LOCK: &str = "lock";
/// Bytes that are read or written at once.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// Told of each piece that was moved: it may wait, and may end the work.
pub trait Pace: Sync {
    /// So many more bytes were moved.
    ///
    /// # Errors
    /// The work is to end.
    fn on_bytes(&self, bytes: u64) -> Result<()>;
}

/// A folder with snapshots.
#[derive(Clone)]
pub struct Repository {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// Longer descriptions are not read.
    pub(crate) description_max: u64,
}

/// The result of a look through a repository.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    pub snapshots: u64,
    pub files: u64,
    pub bytes: u64,
    /// In words.
    pub damages: Vec<String>,
}

impl Repository {
    /// The repository in a folder, which need not be there yet.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf, description_max: u64) -> Repository {
        Repository {
            disk,
            dir,
            description_max,
        }
    }

    /// Is there one?
    pub fn is_in(dir: &Path) -> bool {
        dir.join(ROOT).is_file()
    }

    /// Its root; `None`: nothing was written yet.
    ///
    /// # Errors
    /// Corruption; IllegalState: a later version wrote it.
    pub fn root(&self) -> Result<Option<Root>> {
        let read = checked_file::read(self.disk.as_ref(), &self.dir.join(ROOT), self.description_max)?;
        read.map(|(value, _)| Root::from_json(&value)).transpose()
    }

    /// The contents of a snapshot.
    ///
    /// # Errors
    /// Corruption: they are missing, damaged or those of another one.
    pub fn contents(&self, snapshot: &Summary) -> Result<Contents> {
        let path = self.contents_path(&snapshot.uuid);
        let missing = || {
            let reason = format!(
                "[{}] is missing: the repository has lost snapshot [{}]",
                display_path(&path),
                snapshot.name
            );
            Error::new(ErrorKind::Corruption, reason)
        };
        let (value, hash) = checked_file::read(self.disk.as_ref(), &path, self.description_max)?.ok_or_else(missing)?;
        if snapshot.contents.is_none_or(|blob| blob.hash != hash) {
            return Err(unsound(&format!("snapshot [{}]", snapshot.name)));
        }
        Contents::from_json(&value)
    }

    /// Copies a file to `to`, checking it on the way.
    ///
    /// # Errors
    /// Corruption: it is not the file that the description names. A failing disk, the end by `pace`.
    pub fn copy(&self, blob: &Blob, to: &dyn DiskFile, pace: &dyn Pace) -> Result<()> {
        self.read_pieces(blob, pace, |piece, offset| to.write_all_at(piece, offset))
    }

    /// Reads a file and checks it.
    ///
    /// # Errors
    /// As [`Repository::copy`].
    pub fn check(&self, blob: &Blob, pace: &dyn Pace) -> Result<()> {
        self.read_pieces(blob, pace, |_, _| Ok(()))
    }

    fn read_pieces(&self, blob: &Blob, pace: &dyn Pace, mut take: impl FnMut(&[u8], u64) -> io::Result<()>) -> Result<()> {
        let path = self.blob_path(&blob.hash);
        let damaged = |what: &str| {
            let reason = format!("[{}] of the repository {what}", display_path(&path));
            Error::new(ErrorKind::Corruption, reason).with("path", display_path(&path))
        };
        let file = self.disk.open(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => damaged("is missing"),
            _ => refusal("opening", &path, &e),
        })?;
        let length = file.bytes().map_err(|e| refusal("reading", &path, &e))?;
        if length != blob.bytes {
            return Err(damaged(&format!("has [{length}] bytes instead of [{}]", blob.bytes)));
        }
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(length).unwrap_or(PIECE_BYTES)).max(1)];
        let mut done = 0;
        while done < length {
            let wanted = piece.len().min(usize::try_from(length - done).unwrap_or(piece.len()));
            let read = file
                .read_at(&mut piece[..wanted], done)
                .map_err(|e| refusal("reading", &path, &e))?;
            if read == 0 {
                return Err(damaged(&format!("ends at byte [{done}]")));
            }
            hasher.update(&piece[..read]);
            take(&piece[..read], done).map_err(|e| refusal("copying", &path, &e))?;
            done += read as u64;
            pace.on_bytes(read as u64)?;
        }
        match Hash::finalize(&hasher) == blob.hash {
            true => Ok(()),
            false => Err(damaged("does not match its checksum")),
        }
    }

    /// Reads every byte of every file that a snapshot leads to.
    ///
    /// # Errors
    /// A root that cannot be read, the end by `pace`.
    pub fn check_all(&self, pace: &dyn Pace) -> Result<Checked> {
        let mut checked = Checked::default();
        let Some(root) = self.root()? else {
            return Ok(checked);
        };
        let mut seen = BTreeSet::new();
        for snapshot in &root.snapshots {
            checked.snapshots += 1;
            let told = |error: &Error| format!("snapshot [{}] is damaged: {}", snapshot.name, error.reason());
            let contents = match self.contents(snapshot) {
                Ok(contents) => contents,
                Err(error) => {
                    checked.damages.push(told(&error));
                    continue;
                }
            };
            for blob in contents.indices.iter().flat_map(|index| index.blobs()) {
                if !seen.insert(blob.hash) {
                    continue;
                }
                match self.check(blob, pace) {
                    Ok(()) => {
                        checked.files += 1;
                        checked.bytes += blob.bytes;
                    }
                    Err(error) if error.kind() == ErrorKind::Corruption => checked.damages.push(told(&error)),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(checked)
    }

    /// The folder and the file of some content.
    pub(crate) fn blob_path(&self, hash: &Hash) -> PathBuf {
        let name = hash.to_string();
        self.dir.join(BLOBS).join(&name[..2]).join(name)
    }
    pub(crate) fn contents_path(&self, uuid: &str) -> PathBuf {
        self.dir.join(SNAPSHOTS).join(uuid)
    }
    /// The names in a folder of it; none if it is not there.
    pub(crate) fn list(&self, dir: &Path) -> Result<Vec<String>> {
        match self.disk.list(dir) {
            Ok(names) => Ok(names),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(refusal("listing", dir, &e)),
        }
    }
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Repository({})", self.dir.display())
    }
}
