//! A repository in a folder: files are written under another name, synced and renamed, and a lock of the operating system keeps
//! writers apart.

use crate::blob::{Blob, Hash};
use crate::hashed_writer::HashedWriter;
use crate::layout::{BLOBS, LOCK, SNAPSHOTS, TEMPORARY};
use crate::lock::Lock;
use crate::storage::{Content, Listed, Pace, Storage, StorageWriter, StoredFile, Version};
use disk::{Disk, DiskFile, SequentialWriter, display_path, refusal};
use model::Result;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder of a disk, which need not be there yet.
pub(crate) struct Folder {
    files: Files,
    place: String,
}

#[derive(Clone)]
struct Files {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl Folder {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Folder {
        Folder {
            place: dir.to_string_lossy().into_owned(),
            files: Files { disk, dir },
        }
    }
}

impl Files {
    fn length(&self, file: &str) -> Result<Option<u64>> {
        let path = self.dir.join(file);
        match self.disk.len(&path) {
            Ok(length) => Ok(Some(length)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(refusal("reading", &path, &e)),
        }
    }
    fn make(&self, dir: &Path) -> Result<()> {
        self.disk.create_dir(dir).map_err(|e| refusal("making", dir, &e))
    }
    fn sync(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir).map_err(|e| refusal("syncing", dir, &e))
    }
    /// The names in a folder; none if it is not there.
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        match self.disk.list(dir) {
            Ok(names) => Ok(names),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(refusal("listing", dir, &e)),
        }
    }
    fn remove(&self, file: &str) -> Result<()> {
        let path = self.dir.join(file);
        self.disk.remove(&path).map_err(|e| refusal("removing", &path, &e))
    }
}

impl Storage for Folder {
    fn place(&self) -> &str {
        &self.place
    }
    fn display(&self, file: &str) -> String {
        display_path(&self.files.dir.join(file))
    }
    fn has_generations(&self) -> bool {
        false
    }
    fn open(&self, file: &str) -> Result<Option<Box<dyn StoredFile + '_>>> {
        let path = self.files.dir.join(file);
        match self.files.disk.open(&path) {
            Ok(file) => Ok(Some(Box::new(OpenFile { file, path }))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(refusal("opening", &path, &e)),
        }
    }
    fn length(&self, file: &str) -> Result<Option<u64>> {
        self.files.length(file)
    }
    fn begin(&self) -> Result<Box<dyn StorageWriter>> {
        let files = self.files.clone();
        files.make(&files.dir)?;
        let lock = Lock::take(&files.dir.join(LOCK))?;
        for name in [SNAPSHOTS, BLOBS, TEMPORARY] {
            files.make(&files.dir.join(name))?;
        }
        let writer = FolderWriter {
            files,
            unsynced: BTreeSet::new(),
            temporaries: 0,
            _lock: lock,
        };
        for name in writer.files.list(&writer.files.dir.join(TEMPORARY))? {
            writer.files.remove(&format!("{TEMPORARY}/{name}"))?;
        }
        Ok(Box::new(writer))
    }
}

struct OpenFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
}

impl StoredFile for OpenFile {
    fn bytes(&self) -> Result<u64> {
        self.file.bytes().map_err(|e| refusal("reading", &self.path, &e))
    }
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.file
            .read_at(into, offset)
            .map_err(|e| refusal("reading", &self.path, &e))
    }
}

/// The one that changes a folder.
struct FolderWriter {
    files: Files,
    /// Folders with files that are not durable by their names yet.
    unsynced: BTreeSet<PathBuf>,
    temporaries: u64,
    _lock: Lock,
}

impl FolderWriter {
    fn temporary(&mut self) -> PathBuf {
        self.temporaries += 1;
        self.files.dir.join(TEMPORARY).join(self.temporaries.to_string())
    }
}

impl StorageWriter for FolderWriter {
    fn store(
        &mut self,
        content: &Content<'_>,
        _: &HashMap<Hash, Blob>,
        generation: u64,
        pace: &dyn Pace,
    ) -> Result<(Blob, bool)> {
        assert_eq!(
            generation, 0,
            "snapshots.md S5: a lock keeps the writers of a folder apart, so names have no generation"
        );
        let temporary = self.temporary();
        let disk = self.files.disk.clone();
        let created = disk.create(&temporary).map_err(|e| refusal("writing", &temporary, &e))?;
        let mut file = SequentialWriter::new(created.as_ref());
        let mut hashed = HashedWriter::new(&mut file, pace);
        let written = content(&mut hashed).and_then(|()| created.sync_data());
        if let Err(e) = written {
            drop(disk.remove(&temporary));
            return Err(hashed.take_error().unwrap_or_else(|| refusal("writing", &temporary, &e)));
        }
        let (hash, bytes) = hashed.totals();
        let blob = Blob { hash, bytes, generation };
        let path = self.files.dir.join(blob.file());
        if disk.len(&path).is_ok_and(|length| length == blob.bytes) {
            drop(disk.remove(&temporary));
            return Ok((blob, false));
        }
        let folder = path.parent().unwrap_or(&path).to_owned();
        self.files.make(&folder)?;
        disk.rename(&temporary, &path).map_err(|e| refusal("writing", &path, &e))?;
        self.unsynced.insert(folder);
        Ok((blob, true))
    }

    fn settle(&mut self) -> Result<()> {
        let folders = std::mem::take(&mut self.unsynced);
        for folder in &folders {
            self.files.sync(folder)?;
        }
        match folders.is_empty() {
            true => Ok(()),
            false => self.files.sync(&self.files.dir.join(BLOBS)),
        }
    }

    fn is_settled(&self) -> bool {
        self.unsynced.is_empty()
    }

    fn write(&mut self, file: &str, bytes: &[u8]) -> Result<()> {
        let temporary = self.temporary();
        let path = self.files.dir.join(file);
        let disk = self.files.disk.as_ref();
        let write = || {
            let created = disk.create(&temporary)?;
            created.write_all_at(bytes, 0)?;
            created.sync_data()?;
            disk.rename(&temporary, &path)
        };
        write().map_err(|e| {
            // The first failure is the one to tell of.
            drop(disk.remove(&temporary));
            refusal("writing", &path, &e)
        })?;
        self.files.sync(path.parent().unwrap_or(&path))
    }

    /// Nobody else has written since it was read: this writer holds the lock.
    fn write_root(&mut self, file: &str, bytes: &[u8], _: Option<&Version>) -> Result<()> {
        self.write(file, bytes)
    }

    fn list(&mut self, folder: &str, each: &mut Listed<'_>) -> Result<()> {
        let inner: Vec<String> = match folder {
            BLOBS => (0..=255u8).map(|first| format!("{first:02x}/")).collect(),
            _ => vec![String::new()],
        };
        for inner in inner {
            let dir = self.files.dir.join(folder).join(&inner);
            for name in self.files.list(&dir)? {
                let length = || self.files.disk.len(&dir.join(&name)).unwrap_or(0);
                each(&format!("{inner}{name}"), &length);
            }
        }
        Ok(())
    }

    fn remove(&mut self, files: &[String]) -> Result<()> {
        assert!(
            self.is_settled(),
            "snapshots.md S3: files are removed after the root, and so after new files are durable"
        );
        files.iter().try_for_each(|file| self.files.remove(file))
    }
}
