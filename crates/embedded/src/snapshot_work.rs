//! The snapshots that are being written, and what is known of each repository: its last generation, and who changes it.
//!
//! Not here: changing it (`snapshots`).

use crate::lock_order::{LockRank, Mutex};
use engine::snapshots::{Running, SnapshotOrder};
use model::{Error, ErrorKind, Result};
use snapshot::{Root, State, Summary};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One snapshot that is being written.
pub(crate) struct RunningSnapshot {
    pub(crate) order: SnapshotOrder,
    pub(crate) uuid: String,
    pub(crate) start_ms: i64,
    /// Somebody deletes it.
    pub(crate) given_up: AtomicBool,
    /// Names as they were when it was begun.
    pub(crate) indices: Vec<String>,
    pub(crate) shards: u64,
    pub(crate) indices_done: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) files: AtomicU64,
}

impl RunningSnapshot {
    /// As far as it is known.
    pub(crate) fn summary(&self) -> Summary {
        Summary {
            name: self.order.name.clone(),
            uuid: self.uuid.clone(),
            state: State::InProgress,
            start_ms: self.start_ms,
            end_ms: 0,
            indices: self.indices.clone(),
            include_global_state: self.order.global.is_some(),
            metadata: self.order.metadata.clone(),
            failures: Vec::new(),
            shards: self.shards,
            failed_shards: 0,
            commit_seq: 0,
            is_clone: false,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            contents: None,
        }
    }

    pub(crate) fn status(&self) -> Running {
        Running {
            repository: self.order.repository.clone(),
            summary: Arc::new(self.summary()),
            indices_done: self.indices_done.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
        }
    }
}

/// The work on repositories of one store.
#[derive(Default)]
pub(crate) struct SnapshotWork {
    running: Mutex<Vec<Arc<RunningSnapshot>>>,
    /// Restores that run or wait.
    restoring: AtomicU64,
    /// By the name of a repository: its id and generation as they were last seen.
    seen: Mutex<HashMap<String, (String, u64)>>,
    /// By the place of a repository.
    writers: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// A restore that runs or waits.
pub(crate) struct Restoring<'a>(&'a SnapshotWork);

impl Drop for Restoring<'_> {
    fn drop(&mut self) {
        let before = self.0.restoring.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "a restore that ends was counted when it began");
    }
}

impl SnapshotWork {
    /// Notes a snapshot that begins.
    ///
    /// # Errors
    /// ConcurrentSnapshot: too many run or wait. InvalidSnapshotName: one of this name does.
    pub(crate) fn begin(&self, snapshot: RunningSnapshot, most: u64) -> Result<Arc<RunningSnapshot>> {
        let mut running = self.running.lock();
        let (repository, name) = (&snapshot.order.repository, &snapshot.order.name);
        if running
            .iter()
            .any(|one| one.order.repository == *repository && one.order.name == *name)
        {
            let reason = format!(
                "[{repository}:{name}] Invalid snapshot name [{name}], snapshot with the same name is already in-progress"
            );
            return Err(Error::new(ErrorKind::InvalidSnapshotName, reason));
        }
        self.check_count(running.len(), most, repository, name)?;
        debug_assert!(
            running.iter().all(|one| one.uuid != snapshot.uuid),
            "snapshots.md S1: a snapshot has a uuid of its own"
        );
        let snapshot = Arc::new(snapshot);
        running.push(snapshot.clone());
        Ok(snapshot)
    }
    /// Notes a restore.
    ///
    /// # Errors
    /// ConcurrentSnapshot: too many run or wait.
    pub(crate) fn begin_restore(&self, most: u64, repository: &str, name: &str) -> Result<Restoring<'_>> {
        let running = self.running.lock().len();
        self.check_count(running, most, repository, name)?;
        self.restoring.fetch_add(1, Ordering::AcqRel);
        Ok(Restoring(self))
    }
    fn check_count(&self, running: usize, most: u64, repository: &str, name: &str) -> Result<()> {
        let count = running as u64 + self.restoring.load(Ordering::Acquire);
        if count < most {
            return Ok(());
        }
        let setting = model::settings::SNAPSHOT_MAX_CONCURRENT.name;
        let reason = format!(
            "[{repository}:{name}] [{count}] snapshots and restores are running already; the limit is the setting [{setting}]"
        );
        Err(Error::new(ErrorKind::ConcurrentSnapshot, reason))
    }
    /// It has ended, however it did.
    pub(crate) fn end(&self, uuid: &str) {
        self.running.lock().retain(|one| one.uuid != uuid);
    }
    pub(crate) fn find(&self, uuid: &str) -> Option<Arc<RunningSnapshot>> {
        self.running.lock().iter().find(|one| one.uuid == uuid).cloned()
    }
    /// All, oldest first.
    pub(crate) fn running(&self) -> Vec<Arc<RunningSnapshot>> {
        self.running.lock().clone()
    }
    /// Those of one repository.
    pub(crate) fn running_in(&self, repository: &str) -> Vec<Arc<RunningSnapshot>> {
        let running = self.running.lock();
        running
            .iter()
            .filter(|one| one.order.repository == repository)
            .cloned()
            .collect()
    }

    /// The id and the generation that a repository had when it was last looked at.
    pub(crate) fn last_seen(&self, repository: &str) -> Option<(String, u64)> {
        self.seen.lock().get(repository).cloned()
    }
    pub(crate) fn see(&self, repository: &str, root: &Root) {
        let seen = (root.id.clone(), root.generation);
        self.seen.lock().insert(repository.to_owned(), seen);
    }
    pub(crate) fn forget(&self, repository: &str) {
        self.seen.lock().remove(repository);
    }

    /// The lock of changes of a repository's place.
    pub(crate) fn writer_of(&self, place: &str) -> Arc<Mutex<()>> {
        let mut writers = self.writers.lock();
        // Locks that nobody holds need not be kept.
        writers.retain(|_, lock| Arc::strong_count(lock) > 1);
        let fresh = || Arc::new(Mutex::new(LockRank::Repository, ()));
        writers.entry(place.to_owned()).or_insert_with(fresh).clone()
    }
}
