//! Changing a repository: storing files, adding a snapshot, taking snapshots out, removing what nothing leads to.
//!
//! The order is the invariant (S1 to S3): files made durable, the contents written, the root written, and only then removals.
//! Where a lock keeps writers apart, one writes at a time. Elsewhere the root decides between those who write at once: it is written
//! only in the state that its writer read, and files that no root leads to yet carry the generation of the root that will (S5).

use crate::blob::{Blob, Hash, split_generation};
use crate::checked_file;
use crate::contents::{Contents, IndexPart};
use crate::layout::{BLOBS, ROOT, SNAPSHOTS, TEMPORARY, WRITING};
use crate::repository::{Repository, contents_file};
use crate::root::{Root, Summary};
use crate::storage::{Pace, StorageWriter, Version};
use disk::blockfile;
use model::{Error, ErrorKind, Result};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

/// Snapshots whose segments are looked at for those that are stored already, newest first.
const KNOWN_SNAPSHOTS: usize = 8;

/// What a repository is tried out with.
const TRIED: &[u8] = b"pleach";

/// Files that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub files: u64,
    pub bytes: u64,
}

/// The one that changes a repository.
pub struct Writer {
    repository: Repository,
    storage: Box<dyn StorageWriter>,
    root: Root,
    /// The state of the root's file that was read or written last.
    version: Option<Version>,
    /// Files by the segment that they have.
    known: HashMap<String, Blob>,
    /// Files by their content: those that the root leads to, as far as they were looked at, and those that were stored.
    stored: HashMap<Hash, Blob>,
    /// Another writer was killed, or writes now: what no root leads to is removed once this one's root is written.
    cleans_afterwards: bool,
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
        let storage = repository.storage.begin()?;
        let (root, version) = repository.root_in_state()?.unwrap_or_default();
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
        Ok(Writer {
            repository: repository.clone(),
            storage,
            root,
            version,
            known: HashMap::new(),
            stored: HashMap::new(),
            cleans_afterwards: false,
        })
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
        match self.repository.storage.length(WRITING)? {
            Some(_) if self.repository.storage.has_generations() => self.cleans_afterwards = true,
            Some(_) => drop(self.clean()?),
            None => {}
        }
        self.storage.write(WRITING, b"")?;
        for snapshot in self.root.snapshots.iter().rev().take(KNOWN_SNAPSHOTS) {
            // A damaged snapshot is no reason to take none.
            let Ok(contents) = self.repository.contents(snapshot) else {
                continue;
            };
            for segment in contents.indices.iter().flat_map(|index| &index.segments) {
                self.known.entry(segment.uuid.clone()).or_insert(segment.blob);
            }
            for blob in contents.indices.iter().flat_map(IndexPart::blobs) {
                self.stored.entry(blob.hash).or_insert(*blob);
            }
        }
        Ok(())
    }

    /// The file of a segment, if it is stored.
    pub fn find_blob(&self, uuid: &str) -> Option<Blob> {
        let blob = self.known.get(uuid)?;
        let length = self.repository.storage.length(&blob.file()).ok().flatten();
        (length == Some(blob.bytes)).then_some(*blob)
    }

    /// Stores a file of components; false: it was there.
    ///
    /// # Errors
    /// A place that cannot be written, the end by `pace`.
    pub fn put(&mut self, components: &[(String, &[u8])], pace: &dyn Pace) -> Result<(Blob, bool)> {
        let content = |to: &mut dyn io::Write| blockfile::write_to(to, components).map(drop);
        let (blob, is_new) = self.storage.store(&content, &self.stored, self.next_generation(), pace)?;
        assert!(
            !is_new || blob.generation == self.next_generation(),
            "snapshots.md S5: a new file has generation [{}], the root that will lead to it [{}]",
            blob.generation,
            self.next_generation()
        );
        self.stored.insert(blob.hash, blob);
        Ok((blob, is_new))
    }

    /// Adds a snapshot of these contents, whose files are stored. It is there once this returns.
    ///
    /// # Errors
    /// A failing disk; then it is not there.
    pub fn commit(mut self, summary: Summary, contents: &Contents) -> Result<(Root, Arc<Summary>)> {
        let summary = self.write_contents(summary, contents)?;
        self.root.snapshots.push(summary.clone());
        self.write_root()?;
        if self.cleans_afterwards {
            // The snapshot is there; files that stay for a failure are removed by the next cleanup.
            drop(self.clean());
        }
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
    pub fn clean_up(mut self) -> Result<(Root, Removed)> {
        if self.repository.storage.has_generations() {
            // Those who write now have files of the next generation; theirs is refused, and their files go.
            self.write_root()?;
        }
        let removed = self.clean()?;
        self.unmark();
        Ok((self.root, removed))
    }

    /// Writes and removes a file, to see whether that works.
    ///
    /// # Errors
    /// A failing disk.
    pub fn try_out(mut self) -> Result<()> {
        let tried = format!("{TEMPORARY}/verification-{}", fresh_name());
        self.storage.write(&tried, TRIED)?;
        let mut read = vec![0; TRIED.len() + 1];
        let length = match self.repository.storage.open(&tried)? {
            Some(mut file) => file.read_at(&mut read, 0)?,
            None => 0,
        };
        self.storage.remove(std::slice::from_ref(&tried))?;
        match &read[..length] == TRIED {
            true => Ok(()),
            false => {
                let shown = self.repository.storage.display(&tried);
                let reason = format!("[{shown}] was written and is not read as it was written");
                Err(Error::new(ErrorKind::Repository, reason))
            }
        }
    }

    /// The generation of the root that this writer writes, where names have one; else 0.
    fn next_generation(&self) -> u64 {
        match self.repository.storage.has_generations() {
            true => self.root.generation + 1,
            false => 0,
        }
    }

    fn write_contents(&mut self, mut summary: Summary, contents: &Contents) -> Result<Arc<Summary>> {
        debug_assert!(summary.indices.is_sorted(), "the indices of a snapshot are sorted by name");
        debug_assert!(
            contents.indices.iter().map(|index| &index.name).eq(&summary.indices),
            "snapshots.md S1: a snapshot has the indices that its row in the root says"
        );
        debug_assert!(
            !self.root.snapshots.iter().any(|one| one.uuid == summary.uuid),
            "snapshots.md S2: a snapshot does not write over the contents of another one"
        );
        let body = contents.to_json();
        debug_assert!(
            Contents::from_json(&body).is_ok_and(|read| read == *contents),
            "snapshots.md S1: the contents of a snapshot are read as they were written"
        );
        let (bytes, hash) = checked_file::bytes_of(&body);
        self.check_length(bytes.len(), "the contents of the snapshot")?;
        self.storage.settle()?;
        let generation = self.next_generation();
        self.storage.write(&contents_file(&summary.uuid, generation), &bytes)?;
        summary.contents = Some(Blob {
            hash,
            bytes: bytes.len() as u64,
            generation,
        });
        Ok(Arc::new(summary))
    }

    fn write_root(&mut self) -> Result<()> {
        debug_assert!(
            self.storage.is_settled(),
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
        let body = self.root.to_json();
        debug_assert!(
            Root::from_json(&body).is_ok_and(|read| read == self.root),
            "snapshots.md S1: the root is read as it was written"
        );
        let (bytes, _) = checked_file::bytes_of(&body);
        self.check_length(bytes.len(), "the list of snapshots")?;
        self.storage.write_root(ROOT, &bytes, self.version.as_ref())
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

    /// The files that no snapshot leads to go, but those of a generation that is not written yet: their writer may be at work.
    fn clean(&mut self) -> Result<Removed> {
        let mut wanted: HashSet<(Hash, u64)> = HashSet::new();
        let mut described: HashSet<(&str, u64)> = HashSet::new();
        for snapshot in &self.root.snapshots {
            let contents = self.repository.contents(snapshot)?;
            let blobs = contents.indices.iter().flat_map(IndexPart::blobs);
            wanted.extend(blobs.map(|blob| (blob.hash, blob.generation)));
            described.insert((&snapshot.uuid, snapshot.contents.map_or(0, |blob| blob.generation)));
        }
        let is_shared = self.repository.storage.has_generations();
        // Names that are none of ours are left alone where others may write, too.
        let is_over = |generation: Option<u64>| generation.map_or(!is_shared, |generation| generation <= self.root.generation);
        let (mut files, mut removed) = (Vec::new(), Removed::default());
        let mut note = |folder: &str, name: &str, bytes: u64| {
            files.push(format!("{folder}/{name}"));
            removed.files += 1;
            removed.bytes += bytes;
        };
        self.storage.list(BLOBS, &mut |name, bytes| {
            let parsed = Blob::parse_name(name);
            if is_over(parsed.map(|(_, generation)| generation)) && parsed.is_none_or(|parsed| !wanted.contains(&parsed)) {
                note(BLOBS, name, bytes());
            }
        })?;
        self.storage.list(SNAPSHOTS, &mut |name, bytes| {
            let parsed = split_generation(name);
            if is_over(parsed.map(|(_, generation)| generation)) && parsed.is_none_or(|parsed| !described.contains(&parsed)) {
                note(SNAPSHOTS, name, bytes());
            }
        })?;
        self.storage.remove(&files)?;
        Ok(removed)
    }

    /// Nothing lies about. If the mark stays, the next snapshot looks in vain.
    fn unmark(&mut self) {
        drop(self.storage.remove(&[WRITING.to_owned()]));
    }
}

/// A name that no other process gives a file at this time.
fn fresh_name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.as_nanos());
    format!("{}-{nanos}", std::process::id())
}
