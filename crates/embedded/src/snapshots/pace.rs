//! The pace of a copy: so many bytes a second, until somebody ends it.

use crate::maintenance::Maintenance;
use engine::tasks::Task;
use model::{Error, ErrorKind, Result};
use snapshot::Pace;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a copy that is too fast sleeps before it looks whether it is to end.
const NAP: Duration = Duration::from_millis(50);

/// The pace of one snapshot or restore.
pub(crate) struct CopyPace<'a> {
    pub(crate) task: &'a Task,
    pub(crate) maintenance: &'a Maintenance,
    /// Somebody deletes what is being written.
    pub(crate) given_up: Option<&'a AtomicBool>,
    /// Bytes a second; `None`: as fast as it goes.
    pub(crate) rate: Option<u64>,
    pub(crate) begun: Instant,
    pub(crate) moved: AtomicU64,
    /// Told how many bytes were moved so far.
    pub(crate) told: Option<&'a AtomicU64>,
}

impl CopyPace<'_> {
    /// # Errors
    /// TaskCancelled, SnapshotFailed: the work is to end.
    pub(crate) fn check(&self) -> Result<()> {
        if self.task.is_cancelled() {
            return Err(Error::new(ErrorKind::TaskCancelled, "task cancelled [by user request]"));
        }
        if self.given_up.is_some_and(|given_up| given_up.load(Ordering::Acquire)) {
            return Err(Error::new(ErrorKind::SnapshotFailed, "Snapshot was aborted by deletion"));
        }
        if self.maintenance.is_stopping() {
            return Err(Error::new(ErrorKind::SnapshotFailed, "the server is stopping").status_of(503));
        }
        Ok(())
    }
}

impl Pace for CopyPace<'_> {
    fn on_bytes(&self, bytes: u64) -> Result<()> {
        let moved = self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(told) = self.told {
            told.fetch_add(bytes, Ordering::Relaxed);
        }
        self.check()?;
        let Some(rate) = self.rate else { return Ok(()) };
        let due = Duration::from_secs_f64(moved as f64 / rate as f64);
        while let Some(early) = due.checked_sub(self.begun.elapsed()).filter(|early| !early.is_zero()) {
            std::thread::sleep(early.min(NAP));
            self.check()?;
        }
        Ok(())
    }
}
