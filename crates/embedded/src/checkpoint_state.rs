//! The state that one checkpoint leaves to the next: how far the folder has come, and the indices and files that the
//! manifest names.
//!
//! Not here: making a checkpoint (`checkpoint`), reading the manifest at a start (`recovery`).

use crate::catalog::Catalog;
use rustc_hash::FxHashSet;
use segment::directory::DataFile;
use std::sync::Arc;
use std::time::Duration;

/// The state after the last checkpoint.
#[derive(Default)]
pub(crate) struct CheckpointState {
    /// Everything below is in segments that the manifest names.
    flushed: u64,
    /// A start needs no record below: the log may be cut here.
    needed: u64,
    /// When the last checkpoint ended (monotonic).
    at: Duration,
    /// Indices that the manifest knows.
    named: FxHashSet<u32>,
    /// Files that the manifest names.
    files: Vec<Arc<DataFile>>,
    /// Files of indices that were made out of a snapshot and that the manifest does not know yet: the log's records name them.
    restored: Vec<(u32, Arc<DataFile>)>,
    /// Counts checkpoint files.
    next_file: u64,
}

impl CheckpointState {
    /// The state that a start finds in the manifest.
    pub(crate) fn of_manifest(
        flushed: u64,
        at: Duration,
        named: FxHashSet<u32>,
        files: Vec<Arc<DataFile>>,
        next_file: u64,
    ) -> CheckpointState {
        CheckpointState {
            flushed,
            needed: flushed,
            at,
            named,
            files,
            restored: Vec::new(),
            next_file,
        }
    }
    pub(crate) fn flushed_position(&self) -> u64 {
        self.flushed
    }
    pub(crate) fn needed_position(&self) -> u64 {
        self.needed
    }
    pub(crate) fn at(&self) -> Duration {
        self.at
    }
    pub(crate) fn next_file(&self) -> u64 {
        self.next_file
    }
    /// A number for the next checkpoint file; none is given twice.
    pub(crate) fn take_file_number(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file
    }
    /// Does the manifest know the index?
    pub(crate) fn names(&self, no: u32) -> bool {
        self.named.contains(&no)
    }
    /// Indices that the manifest knows and `catalog` does not.
    pub(crate) fn deleted_indices(&self, catalog: &Catalog) -> Vec<u32> {
        let gone = self.named.iter().filter(|no| catalog.by_no(**no).is_none());
        gone.copied().collect()
    }
    /// The files among these that the manifest does not name yet.
    pub(crate) fn unnamed_files<'f>(&self, files: &'f [Arc<DataFile>]) -> Vec<&'f Arc<DataFile>> {
        let is_named = |file: &Arc<DataFile>| self.files.iter().any(|named| Arc::ptr_eq(named, file));
        files.iter().filter(|file| !is_named(file)).collect()
    }
    /// The manifest knows these indices, and those that are gone no more.
    pub(crate) fn name_indices(&mut self, named: impl IntoIterator<Item = u32>, gone: &[u32]) {
        for no in gone {
            self.named.remove(no);
        }
        self.named.extend(named);
    }
    /// Files that the manifest names.
    pub(crate) fn files(&self) -> &[Arc<DataFile>] {
        &self.files
    }
    /// The manifest names these files and no others; gives those that it named before.
    pub(crate) fn name_files(&mut self, files: Vec<Arc<DataFile>>) -> Vec<Arc<DataFile>> {
        std::mem::replace(&mut self.files, files)
    }
    /// A record of the log names these files of an index. They stay as if the manifest did.
    pub(crate) fn keep_restored(&mut self, no: u32, files: impl IntoIterator<Item = Arc<DataFile>>) {
        debug_assert!(
            !self.names(no),
            "snapshots.md R3: the manifest does not know an index that is being made"
        );
        for file in files {
            file.set_named(true);
            self.files.push(file.clone());
            self.restored.push((no, file));
        }
    }
    /// The files that records of the log name, of indices that `catalog` has and the manifest does not.
    pub(crate) fn restored_files(&mut self, catalog: &Catalog) -> Vec<Arc<DataFile>> {
        let named = &self.named;
        self.restored
            .retain(|(no, _)| !named.contains(no) && catalog.by_no(*no).is_some());
        self.restored.iter().map(|(_, file)| file.clone()).collect()
    }
    /// Everything below `flushed` is in segments that the manifest names, but for damaged indices; those need the records from
    /// `needed` on.
    pub(crate) fn reach(&mut self, flushed: u64, needed: u64, at: Duration) {
        assert!(
            flushed >= self.flushed,
            "1.9: a checkpoint reaches {flushed}, the one before reached {}",
            self.flushed
        );
        assert!(
            self.needed <= needed && needed <= flushed,
            "1.9: a checkpoint up to {flushed} needs records from {needed}, and the log may be cut below {}",
            self.needed
        );
        (self.flushed, self.needed, self.at) = (flushed, needed, at);
    }
}
