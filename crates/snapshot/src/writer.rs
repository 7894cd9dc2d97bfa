//! Changing a repository: storing files, adding and removing snapshots, clearing what no snapshot leads to.
//!
//! One writer at a time, by a lock of the operating system. The order is the invariant (S1 to S3): files synced, their folders
//! synced, the contents written, the root renamed into place, and only then removals.

use crate::blob::{Blob, Hash};
use crate::checked_file;
use crate::contents::{Contents, IndexPart};
use crate::lock::Lock;
use crate::repository::{BLOBS, LOCK, PIECE_BYTES, Pace, ROOT, Repository, SNAPSHOTS, TEMPORARY, WRITING};
use crate::root::{Root, Summary};
use disk::{DiskFile, blockfile, refusal};
use model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Snapshots whose segments are looked at for those that are stored already, newest first.
const KNOWN_SNAPSHOTS: usize = 8;

/// Files that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub files: u64,
    pub bytes: u64,
}

/// The one that changes a repository.
pub struct Writer {
    repository: Repository,
    root: Root,
    /// Files by the segment that they have.
    known: HashMap<String, Blob>,
    /// Folders with files that are not durable by their names yet.
    unsynced: BTreeSet<PathBuf>,
    temporaries: u64,
    _lock: Lock,
}

impl Repository {
    /// Begins a change. `known`: the identity and generation that the caller saw last.
    ///
    /// # Errors
    /// ConcurrentSnapshot: another process writes. RepositoryChanged: another store has written since. A failing disk.
    pub fn writer(&self, known: Option<(&str, u64)>) -> Result<Writer> {
        Writer::begin(self, known)
    }
}

impl Writer {
    fn begin(repository: &Repository, known: Option<(&str, u64)>) -> Result<Writer> {
        let make = |dir: PathBuf| repository.disk.create_dir(&dir).map_err(|e| refusal("making", &dir, &e));
        make(repository.dir.clone())?;
        let lock = Lock::take(&repository.dir.join(LOCK))?;
        for name in [SNAPSHOTS, BLOBS, TEMPORARY] {
            make(repository.dir.join(name))?;
        }
        let root = repository.root()?.unwrap_or_default();
        if let Some((id, generation)) = known
            && (id, generation) != (root.id.as_str(), root.generation)
        {
            let reason = format!(
                "the repository was changed by another store: it has id [{}] and generation [{}], expected were [{id}] and \
                 [{generation}]; register it again to go on with it as it is now",
                root.id, root.generation
            );
            return Err(Error::new(ErrorKind::RepositoryChanged, reason));
        }
        let writer = Writer {
            repository: repository.clone(),
            root,
            known: HashMap::new(),
            unsynced: BTreeSet::new(),
            temporaries: 0,
            _lock: lock,
        };
        writer.remove_temporaries()?;
        Ok(writer)
    }

    /// The root as it is.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Before files are stored: what a writer that was killed left is removed, and the segments that are stored are learned.
    ///
    /// # Errors
    /// A failing disk, a snapshot that cannot be read.
    pub fn begin_snapshot(&mut self) -> Result<()> {
        let mark = self.repository.dir.join(WRITING);
        if self.repository.disk.len(&mark).is_ok() {
            self.clean()?;
        }
        let made = self.repository.disk.create(&mark).and_then(|file| file.sync_data());
        made.map_err(|e| refusal("writing", &mark, &e))?;
        self.sync(&self.repository.dir.clone())?;
        for snapshot in self.root.snapshots.iter().rev().take(KNOWN_SNAPSHOTS) {
            // A damaged snapshot is no reason to take none.
            let Ok(contents) = self.repository.contents(snapshot) else {
                continue;
            };
            for segment in contents.indices.iter().flat_map(|index| &index.segments) {
                self.known.entry(segment.uuid.clone()).or_insert(segment.blob);
            }
        }
        Ok(())
    }

    /// The file of a segment, if it is stored.
    pub fn find_blob(&self, uuid: &str) -> Option<Blob> {
        let blob = self.known.get(uuid)?;
        let length = self.repository.disk.len(&self.repository.blob_path(&blob.hash)).ok();
        (length == Some(blob.bytes)).then_some(*blob)
    }

    /// Stores a file of components; false: it was there.
    ///
    /// # Errors
    /// A failing disk, the end by `pace`.
    pub fn put(&mut self, components: &[(String, &[u8])], pace: &dyn Pace) -> Result<(Blob, bool)> {
        self.temporaries += 1;
        let temporary = self.repository.dir.join(TEMPORARY).join(self.temporaries.to_string());
        let disk = self.repository.disk.clone();
        let created = disk.create(&temporary).map_err(|e| refusal("writing", &temporary, &e))?;
        let hashed = HashedFile::new(created.as_ref(), pace);
        let written = blockfile::write_to(&hashed, components).and_then(|_| created.sync_data());
        if let Err(e) = written {
            drop(disk.remove(&temporary));
            return Err(hashed.take_error().unwrap_or_else(|| refusal("writing", &temporary, &e)));
        }
        let blob = hashed.blob();
        let path = self.repository.blob_path(&blob.hash);
        if disk.len(&path).is_ok_and(|length| length == blob.bytes) {
            drop(disk.remove(&temporary));
            return Ok((blob, false));
        }
        let folder = path.parent().unwrap_or(&path).to_owned();
        disk.create_dir(&folder).map_err(|e| refusal("making", &folder, &e))?;
        disk.rename(&temporary, &path).map_err(|e| refusal("writing", &path, &e))?;
        self.unsynced.insert(folder);
        Ok((blob, true))
    }

    /// Adds a snapshot of these contents, whose files are stored. It is there once this returns.
    ///
    /// # Errors
    /// A failing disk; then it is not there.
    pub fn commit(mut self, summary: Summary, contents: &Contents) -> Result<(Root, Arc<Summary>)> {
        let summary = self.write_contents(summary, contents)?;
        self.root.snapshots.push(summary.clone());
        self.write_root()?;
        self.unmark();
        Ok((self.root, summary))
    }

    /// A snapshot of some indices of another one.
    ///
    /// # Errors
    /// As [`Writer::commit`].
    pub fn clone_of(self, summary: Summary, source: &Summary, indices: &[String]) -> Result<(Root, Arc<Summary>)> {
        let mut contents = self.repository.contents(source)?;
        contents.indices.retain(|index: &IndexPart| indices.contains(&index.name));
        for index in &mut contents.indices {
            (index.new_files, index.new_bytes) = (0, 0);
        }
        self.commit(summary, &contents)
    }

    /// Takes snapshots out, then the files that only they led to.
    ///
    /// # Errors
    /// A failing disk.
    pub fn remove(mut self, names: &[String]) -> Result<(Root, Removed)> {
        let before = self.root.snapshots.len();
        self.root.snapshots.retain(|one| !names.contains(&one.name));
        if self.root.snapshots.len() == before {
            return Ok((self.root, Removed::default()));
        }
        self.write_root()?;
        // The snapshots are gone; files that stay for a failure are removed by the next cleanup.
        let removed = self.clean().unwrap_or_default();
        Ok((self.root, removed))
    }

    /// Removes the files that no snapshot leads to.
    ///
    /// # Errors
    /// A failing disk; a snapshot whose contents cannot be read: nobody knows its files.
    pub fn clean_up(self) -> Result<(Root, Removed)> {
        let removed = self.clean()?;
        self.unmark();
        Ok((self.root, removed))
    }

    /// Writes and removes a file, to see whether that works.
    ///
    /// # Errors
    /// A failing disk.
    pub fn try_out(&self) -> Result<()> {
        let path = self.repository.dir.join(TEMPORARY).join("verification");
        let disk = &self.repository.disk;
        let tried = disk
            .create(&path)
            .and_then(|file| file.write_all_at(b"pleach", 0).and_then(|()| file.sync_data()))
            .and_then(|()| disk.remove(&path));
        tried.map_err(|e| refusal("writing", &path, &e))
    }

    fn write_contents(&mut self, mut summary: Summary, contents: &Contents) -> Result<Arc<Summary>> {
        debug_assert!(summary.indices.is_sorted(), "the indices of a snapshot are sorted by name");
        let (bytes, hash) = checked_file::bytes_of(&contents.to_json());
        self.check_length(bytes.len(), "the contents of the snapshot")?;
        let path = self.repository.contents_path(&summary.uuid);
        let folders = std::mem::take(&mut self.unsynced);
        for folder in &folders {
            self.sync(folder)?;
        }
        if !folders.is_empty() {
            self.sync(&self.repository.dir.join(BLOBS))?;
        }
        let temporary = self.repository.dir.join(TEMPORARY).join("contents");
        checked_file::write(self.repository.disk.as_ref(), &temporary, &path, &bytes)?;
        summary.contents = Some(Blob {
            hash,
            bytes: bytes.len() as u64,
        });
        Ok(Arc::new(summary))
    }

    fn write_root(&mut self) -> Result<()> {
        debug_assert!(
            self.unsynced.is_empty(),
            "snapshots.md S2: the files of a snapshot are durable before the root leads to them"
        );
        debug_assert!(
            self.root.snapshots.iter().all(|one| one.contents.is_some()),
            "snapshots.md S2: the root leads to snapshots whose contents are written"
        );
        debug_assert_eq!(
            self.root.snapshots.iter().map(|one| &one.name).collect::<HashSet<_>>().len(),
            self.root.snapshots.len(),
            "a name stands for one snapshot of a repository"
        );
        if self.root.id.is_empty() {
            self.root.id = self
                .root
                .snapshots
                .first()
                .map_or_else(String::new, |first| first.uuid.clone());
        }
        self.root.generation += 1;
        let (bytes, _) = checked_file::bytes_of(&self.root.to_json());
        self.check_length(bytes.len(), "the list of snapshots")?;
        let temporary = self.repository.dir.join(TEMPORARY).join("root");
        checked_file::write(
            self.repository.disk.as_ref(),
            &temporary,
            &self.repository.dir.join(ROOT),
            &bytes,
        )
    }

    /// Refuses more than a reader would read.
    fn check_length(&self, length: usize, what: &str) -> Result<()> {
        let most = self.repository.description_max;
        if length as u64 <= most {
            return Ok(());
        }
        let setting = model::settings::REPOSITORIES_MAX_DESCRIPTION.name;
        Err(Error::illegal(format!(
            "{what} would have [{length}] bytes; the limit of [{most}] is the setting [{setting}]"
        )))
    }

    /// The files that no snapshot leads to go.
    fn clean(&self) -> Result<Removed> {
        let mut wanted: HashSet<Hash> = HashSet::new();
        let mut described: HashSet<&str> = HashSet::new();
        for snapshot in &self.root.snapshots {
            let contents = self.repository.contents(snapshot)?;
            wanted.extend(contents.indices.iter().flat_map(|index| index.blobs()).map(|blob| blob.hash));
            described.insert(&snapshot.uuid);
        }
        let mut removed = Removed::default();
        let blobs = self.repository.dir.join(BLOBS);
        for folder in (0..=255u8).map(|first| blobs.join(format!("{first:02x}"))) {
            for name in self.repository.list(&folder)? {
                if Hash::parse(&name).is_none_or(|hash| !wanted.contains(&hash)) {
                    self.remove_file(&folder.join(name), &mut removed)?;
                }
            }
        }
        let folder = self.repository.dir.join(SNAPSHOTS);
        for name in self.repository.list(&folder)? {
            if !described.contains(name.as_str()) {
                self.remove_file(&folder.join(name), &mut removed)?;
            }
        }
        Ok(removed)
    }

    fn remove_file(&self, path: &Path, removed: &mut Removed) -> Result<()> {
        let bytes = self.repository.disk.len(path).unwrap_or(0);
        self.repository.disk.remove(path).map_err(|e| refusal("removing", path, &e))?;
        removed.files += 1;
        removed.bytes += bytes;
        Ok(())
    }

    fn remove_temporaries(&self) -> Result<()> {
        let folder = self.repository.dir.join(TEMPORARY);
        for name in self.repository.list(&folder)? {
            self.remove_file(&folder.join(name), &mut Removed::default())?;
        }
        Ok(())
    }

    /// Nothing lies about. If the mark stays, the next snapshot looks in vain.
    fn unmark(&self) {
        drop(self.repository.disk.remove(&self.repository.dir.join(WRITING)));
    }

    fn sync(&self, dir: &Path) -> Result<()> {
        self.repository.disk.sync_dir(dir).map_err(|e| refusal("syncing", dir, &e))
    }
}

/// A file that is written from its beginning to its end, and hashed on the way.
struct HashedFile<'a> {
    file: &'a dyn DiskFile,
    pace: &'a dyn Pace,
    state: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    hasher: blake3::Hasher,
    bytes: u64,
    stopped: Option<Error>,
}

impl<'a> HashedFile<'a> {
    fn new(file: &'a dyn DiskFile, pace: &'a dyn Pace) -> HashedFile<'a> {
        HashedFile {
            file,
            pace,
            state: Mutex::default(),
        }
    }
    fn blob(&self) -> Blob {
        let state = self.state.lock();
        Blob {
            hash: Hash::finalize(&state.hasher),
            bytes: state.bytes,
        }
    }
    fn take_error(&self) -> Option<Error> {
        self.state.lock().stopped.take()
    }
}

impl DiskFile for HashedFile<'_> {
    fn write_some_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        assert_eq!(
            state.bytes, offset,
            "snapshots.md S4: a file is hashed as it is written, in order"
        );
        let written = self.file.write_some_at(&bytes[..bytes.len().min(PIECE_BYTES)], offset)?;
        state.hasher.update(&bytes[..written]);
        state.bytes += written as u64;
        if let Err(error) = self.pace.on_bytes(written as u64) {
            let told = io::Error::other(error.reason().to_owned());
            state.stopped = Some(error);
            return Err(told);
        }
        Ok(written)
    }
    fn read_some_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_some_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}
