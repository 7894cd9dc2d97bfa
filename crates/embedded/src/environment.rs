//! The surroundings of a store: its folder, the disk, the clock and the limits. Nothing here changes while it is open.

use crate::log::Retention;
use disk::Disk;
use engine::Clock;
use engine::breaker::CircuitBreakers;
use engine::long_work::LongWork;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The limits of an engine, from node settings.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `indexing.pending_max_bytes`.
    pub pending_bytes: u64,
    /// `log.checkpoint_bytes`.
    pub checkpoint_bytes: u64,
    /// `log.queue_max_bytes`.
    pub queue_bytes: u64,
    /// `search.max_concurrent`.
    pub concurrent_searches: usize,
    /// `log.checkpoint_ops`.
    pub checkpoint_ops: u64,
    /// `log.max_bytes`.
    pub log_max_bytes: u64,
    /// `indexing.ram_segments_max_bytes`.
    pub ram_segment_bytes: u64,
    /// `indices.requests.cache.size`.
    pub answers_bytes: usize,
    /// `indices.documents.cache.size`.
    pub documents_bytes: usize,
    /// `indices.queries.cache.size`.
    pub filters_bytes: usize,
    /// `indices.fielddata.cache.size`.
    pub derived_bytes: usize,
    /// Bytes of one log file.
    pub log_file_bytes: u64,
    /// `changes.retention.*`: log that stays for readers of the feed of changes.
    pub retention: Retention,
    /// `path.repo`: folders below which repositories of snapshots may be.
    pub repository_paths: Vec<PathBuf>,
    /// `s3.client.*`: how repositories of snapshots reach buckets of S3.
    pub s3_clients: Arc<snapshot::S3Clients>,
    /// The memory of the process.
    pub breakers: Arc<CircuitBreakers>,
    /// Called once by a thread of the engine that has worked and now rests: an allocator may have memory to give back that
    /// only this thread can reach.
    pub at_rest: Option<fn()>,
    /// Jobs of pools and maintenance count themselves here.
    pub long_work: LongWork,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            pending_bytes: 64 << 20,
            checkpoint_bytes: 64 << 20,
            queue_bytes: 32 << 20,
            concurrent_searches: 64,
            checkpoint_ops: 200_000,
            log_max_bytes: 128 << 20,
            ram_segment_bytes: 32 << 20,
            answers_bytes: 16 << 20,
            documents_bytes: 32 << 20,
            filters_bytes: 16 << 20,
            derived_bytes: 256 << 20,
            log_file_bytes: 64 << 20,
            retention: Retention::NONE,
            repository_paths: Vec::new(),
            s3_clients: Arc::default(),
            breakers: CircuitBreakers::without_limits(),
            at_rest: None,
            long_work: LongWork::default(),
        }
    }
}

/// Folder, disk, clock and limits.
pub(crate) struct Environment {
    dir: PathBuf,
    segments_dir: PathBuf,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl Environment {
    pub(crate) fn new(dir: PathBuf, disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, limits: Limits) -> Environment {
        Environment {
            segments_dir: dir.join("segments"),
            dir,
            disk,
            clock,
            limits,
        }
    }
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
    /// The folder of segment files and checkpoints.
    pub(crate) fn segments_dir(&self) -> &Path {
        &self.segments_dir
    }
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
    /// The account of the memory of the process.
    pub(crate) fn breakers(&self) -> &Arc<CircuitBreakers> {
        &self.limits.breakers
    }
    /// Milliseconds of the epoch.
    pub(crate) fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }
    pub(crate) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }
    /// Monotonic milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }
}
