//! Reading a repository: its root, the contents of snapshots, files.
//!
//! Not here: changing it (`writer`), the place of its files (`folder`, `s3`).

use crate::blob::{Blob, Hash, split_generation, unsound, with_generation};
use crate::checked_file;
use crate::contents::Contents;
use crate::folder::Folder;
use crate::layout::{PIECE_BYTES, ROOT, SNAPSHOTS};
use crate::root::{Root, Summary};
use crate::storage::{Pace, Storage, Version};
use disk::{Disk, DiskFile};
use model::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place with snapshots.
#[derive(Clone)]
pub struct Repository {
    pub(crate) storage: Arc<dyn Storage>,
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
            storage: Arc::new(Folder::new(disk, dir)),
            description_max,
        }
    }

    /// The repository in some place.
    #[cfg(feature = "s3")]
    pub(crate) fn of(storage: Arc<dyn Storage>, description_max: u64) -> Repository {
        Repository {
            storage,
            description_max,
        }
    }

    /// The address of its place, which no other repository has.
    pub fn place(&self) -> &str {
        self.storage.place()
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
        Ok(self.root_in_state()?.map(|(root, _)| root))
    }

    /// The same with the state of its file.
    pub(crate) fn root_in_state(&self) -> Result<Option<(Root, Option<Version>)>> {
        let read = checked_file::read(self.storage.as_ref(), ROOT, self.description_max)?;
        read.map(|read| Ok((Root::from_json(&read.content)?, read.version)))
            .transpose()
    }

    /// The contents of a snapshot.
    ///
    /// # Errors
    /// Corruption: they are missing, damaged or those of another one.
    pub fn contents(&self, snapshot: &Summary) -> Result<Contents> {
        let blob = snapshot
            .contents
            .ok_or_else(|| unsound(&format!("snapshot [{}]", snapshot.name)))?;
        let file = contents_file(&snapshot.uuid, blob.generation);
        let missing = || {
            let reason = format!(
                "[{}] is missing: the repository has lost snapshot [{}]",
                self.storage.display(&file),
                snapshot.name
            );
            Error::new(ErrorKind::Corruption, reason)
        };
        let read = checked_file::read(self.storage.as_ref(), &file, self.description_max)?.ok_or_else(missing)?;
        if blob.hash != read.hash {
            return Err(unsound(&format!("snapshot [{}]", snapshot.name)));
        }
        Contents::from_json(&read.content)
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
        let name = blob.file();
        let damaged = |what: &str| {
            let shown = self.storage.display(&name);
            let reason = format!("[{shown}] of the repository {what}");
            Error::new(ErrorKind::Corruption, reason).with("path", shown)
        };
        let mut file = self.storage.open(&name)?.ok_or_else(|| damaged("is missing"))?;
        let length = file.bytes()?;
        if length != blob.bytes {
            return Err(damaged(&format!("has [{length}] bytes instead of [{}]", blob.bytes)));
        }
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(length).unwrap_or(PIECE_BYTES)).max(1)];
        let mut done = 0;
        while done < length {
            let wanted = piece.len().min(usize::try_from(length - done).unwrap_or(piece.len()));
            let read = file.read_at(&mut piece[..wanted], done)?;
            assert!(
                read <= wanted,
                "snapshots.md S4: a place gives [{read}] bytes where [{wanted}] are wanted"
            );
            if read == 0 {
                return Err(damaged(&format!("ends at byte [{done}]")));
            }
            hasher.update(&piece[..read]);
            take(&piece[..read], done).map_err(|e| disk::refusal("copying", Path::new(&self.storage.display(&name)), &e))?;
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
                if !seen.insert((blob.hash, blob.generation)) {
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
}

/// The file of a snapshot's contents.
pub(crate) fn contents_file(uuid: &str, generation: u64) -> String {
    let name = with_generation(uuid, generation);
    debug_assert_eq!(
        split_generation(&name),
        Some((uuid, generation)),
        "snapshots.md S3: a cleanup knows the contents of a snapshot by their name"
    );
    format!("{SNAPSHOTS}/{name}")
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Repository({})", self.storage.place())
    }
}
