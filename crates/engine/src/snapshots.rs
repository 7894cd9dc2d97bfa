//! Snapshots of indices in repositories, as the engine's contract has them.
//!
//! A snapshot has all of its indices at one moment, while writes go on. What is in a repository is `snapshot`.
//!
//! Not here: how clients ask, which of a snapshot's indices they mean and what those are renamed to (`rest`).

use crate::tasks::Task;
use async_trait::async_trait;
use model::{Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Map, Value};
use snapshot::{Contents, IndexFailure, Removed, Summary};
use std::sync::Arc;

/// An engine whose indices can be kept in repositories.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// The repositories that are registered, by name.
    fn repositories(&self) -> Vec<Repository>;

    /// Registers a repository, or another under the same name. `verify`: it must be possible to write there, unless it is
    /// read-only.
    ///
    /// # Errors
    /// Repository: a type or a location that is not allowed. RepositoryVerification. IllegalState: a snapshot is being written to
    /// the one of that name.
    async fn put_repository(&self, repository: Repository, verify: bool) -> Result<()>;

    /// Forgets repositories; their files stay.
    ///
    /// # Errors
    /// RepositoryMissing, IllegalState as above.
    async fn delete_repositories(&self, names: Vec<String>) -> Result<()>;

    /// Writes to a repository, to see whether that works.
    ///
    /// # Errors
    /// RepositoryMissing, RepositoryVerification.
    async fn verify_repository(&self, name: &str) -> Result<()>;

    /// Removes the files that no snapshot leads to.
    ///
    /// # Errors
    /// RepositoryMissing, those of [`Snapshots::delete`].
    async fn clean_repository(&self, name: &str) -> Result<Removed>;

    /// The snapshots of a repository and those that are being written to it, the oldest first.
    ///
    /// # Errors
    /// RepositoryMissing; Corruption: the repository is damaged.
    async fn list(&self, repository: &str) -> Result<Vec<Arc<Summary>>>;

    /// The contents of a snapshot.
    ///
    /// # Errors
    /// RepositoryMissing, SnapshotMissing, Corruption.
    async fn contents(&self, repository: &str, snapshot: &str) -> Result<Contents>;

    /// The snapshots that are being written.
    fn running(&self) -> Vec<Running>;

    /// Checks an order and notes that it runs; gives its uuid, for [`Snapshots::run`].
    ///
    /// # Errors
    /// RepositoryMissing, InvalidSnapshotName, IndexNotFound, ConcurrentSnapshot.
    async fn begin(&self, order: SnapshotOrder) -> Result<String>;

    /// Takes the snapshot that was begun. The task shows how far it is and can cancel it.
    ///
    /// # Errors
    /// SnapshotFailed, RepositoryChanged, Corruption, TaskCancelled; then the repository is as it was.
    async fn run(&self, uuid: &str, task: Arc<Task>) -> Result<Arc<Summary>>;

    /// Removes snapshots; one that is being written is given up.
    ///
    /// # Errors
    /// RepositoryMissing, RepositoryChanged, a repository that is read-only or damaged.
    async fn delete(&self, repository: &str, names: Vec<String>) -> Result<()>;

    /// A snapshot of some indices of another one, which stores no file.
    ///
    /// # Errors
    /// As [`Snapshots::begin`]; SnapshotMissing.
    async fn clone_snapshot(&self, order: CloneOrder) -> Result<()>;

    /// Refuses what [`Snapshots::restore`] would refuse now.
    ///
    /// # Errors
    /// SnapshotRestore, InvalidIndexName and others.
    async fn check_restore(&self, order: &RestoreOrder) -> Result<()>;

    /// Makes indices out of a snapshot, all in one change. Files are checked before anything is made.
    ///
    /// # Errors
    /// As [`Snapshots::check_restore`]; Corruption, DiskFull, TaskCancelled; then nothing was made.
    async fn restore(&self, order: RestoreOrder, task: Arc<Task>) -> Result<Restored>;
}

/// A repository as it was registered.
#[derive(Clone, Debug, PartialEq)]
pub struct Repository {
    pub name: String,
    /// `fs`.
    pub kind: String,
    /// Flat, values as text.
    pub settings: Map<String, Value>,
}

/// A snapshot to take.
#[derive(Clone, Debug)]
pub struct SnapshotOrder {
    pub repository: String,
    pub name: String,
    pub target: Target,
    /// Templates, scripts and settings of the cluster are in it, with this beside those of the engine.
    pub global: Option<Map<String, Value>>,
    /// Indices that cannot be read are left out; else the snapshot fails.
    pub partial: bool,
    /// The client's own.
    pub metadata: Option<Value>,
}

/// A snapshot to make of another one.
#[derive(Clone, Debug)]
pub struct CloneOrder {
    pub repository: String,
    pub source: String,
    pub target: String,
    pub indices: Vec<String>,
}

/// A snapshot that is being written.
#[derive(Clone, Debug)]
pub struct Running {
    pub repository: String,
    /// As far as it is known.
    pub summary: Arc<Summary>,
    /// Indices that are done, of those of the summary.
    pub indices_done: u64,
    /// Bytes of new files.
    pub bytes: u64,
    pub files: u64,
}

/// Indices to make out of a snapshot.
#[derive(Clone, Debug)]
pub struct RestoreOrder {
    pub repository: String,
    pub snapshot: String,
    /// Their names in the snapshot and afterwards.
    pub indices: Vec<(String, String)>,
    /// Aliases of an index as they were; each name is passed through [`RestoreOrder::renamed_aliases`]. False: none.
    pub include_aliases: bool,
    /// Aliases that get another name.
    pub renamed_aliases: Vec<(String, String)>,
    /// Flat, with `index.`; null resets.
    pub index_settings: Map<String, Value>,
    /// Names and patterns of settings that are not taken over.
    pub ignore_index_settings: Vec<String>,
    /// Templates, stored scripts and settings of the cluster, too.
    pub include_global_state: bool,
    /// Indices that failed in the snapshot are passed over.
    pub partial: bool,
}

/// The result of a restore.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// By their names afterwards.
    pub indices: Vec<IndexName>,
    pub shards: u64,
    pub failures: Vec<IndexFailure>,
    /// The part of the global state that is no engine's.
    pub global: Option<Value>,
    /// Bytes of files.
    pub bytes: u64,
}

/// Where an index came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredFrom {
    pub repository: String,
    pub snapshot: String,
    /// Its name in the snapshot.
    pub index: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
}

/// `repository_missing_exception`.
pub fn missing_repository(name: &str) -> Error {
    Error::new(ErrorKind::RepositoryMissing, format!("[{name}] missing"))
}

/// `snapshot_missing_exception`.
pub fn missing_snapshot(repository: &str, name: &str) -> Error {
    Error::new(ErrorKind::SnapshotMissing, format!("[{repository}:{name}] is missing"))
}
