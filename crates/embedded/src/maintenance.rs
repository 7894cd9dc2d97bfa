//! State that the background threads share with everybody else: what is due, what fails, why writes are refused, who waits.
//!
//! Not here: when something is due (`scheduler`), how it is done (`publish`, `merging`, `checkpoint`).

use crate::background_failures::BackgroundFailures;
use crate::checkpoint_state::CheckpointState;
use crate::lock_order::{Condvar, LockRank, Mutex, MutexGuard};
use model::Error;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The state of a folder's background work.
pub(crate) struct Maintenance {
    /// Indices with operations that are not built or not published.
    dirty: Mutex<FxHashSet<u32>>,
    unflushed: Unflushed,
    checkpoints: Mutex<CheckpointState>,
    /// The start replayed records: a checkpoint is due, so that their files go.
    replayed: AtomicBool,
    failures: BackgroundFailures,
    woken: Mutex<bool>,
    work: Condvar,
    stopping: Arc<AtomicBool>,
    /// Why nothing may be written until a restart.
    refusal: Mutex<Option<Error>>,
    /// Changes when a build or a checkpoint made room.
    room: watch::Sender<()>,
}

impl Default for Maintenance {
    fn default() -> Maintenance {
        Maintenance {
            dirty: Mutex::default(),
            unflushed: Unflushed::default(),
            checkpoints: Mutex::new(LockRank::Checkpoint, CheckpointState::default()),
            replayed: AtomicBool::new(false),
            failures: BackgroundFailures::default(),
            woken: Mutex::default(),
            work: Condvar::default(),
            stopping: Arc::default(),
            refusal: Mutex::default(),
            room: watch::Sender::new(()),
        }
    }
}

impl Maintenance {
    pub(crate) fn mark_dirty(&self, numbers: impl IntoIterator<Item = u32>) {
        self.dirty.lock().extend(numbers);
    }
    /// Everything of an index is published, or it is gone.
    pub(crate) fn mark_clean(&self, no: u32) {
        self.dirty.lock().remove(&no);
    }
    pub(crate) fn dirty(&self) -> Vec<u32> {
        self.dirty.lock().iter().copied().collect()
    }
    /// Is one of these dirty?
    pub(crate) fn is_any_dirty(&self, numbers: &[u32]) -> bool {
        let dirty = self.dirty.lock();
        numbers.iter().any(|no| dirty.contains(no))
    }
    pub(crate) fn unflushed_log(&self) -> &Unflushed {
        &self.unflushed
    }
    /// One checkpoint at a time: the state is that of the last one.
    pub(crate) fn lock_checkpoint(&self) -> MutexGuard<'_, CheckpointState> {
        self.checkpoints.lock()
    }
    /// Records were replayed, or a checkpoint has taken care of them.
    pub(crate) fn set_replayed(&self, replayed: bool) {
        self.replayed.store(replayed, Ordering::Release);
    }
    pub(crate) fn has_replayed(&self) -> bool {
        self.replayed.load(Ordering::Acquire)
    }
    pub(crate) fn failures(&self) -> &BackgroundFailures {
        &self.failures
    }
    /// Has the background threads look for work now.
    pub(crate) fn wake(&self) {
        *self.woken.lock() = true;
        self.work.notify_all();
    }
    /// Waits until somebody calls [`Maintenance::wake`], or for so long.
    pub(crate) fn wait_for_work(&self, patience: Duration) {
        let mut woken = self.woken.lock();
        if !*woken {
            self.work.wait_for(&mut woken, patience);
        }
        *woken = false;
    }
    /// The background threads end after their round.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }
    /// Becomes true with [`Maintenance::stop`], for whoever works for long.
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stopping.clone()
    }
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
    /// Refuses all writes until a restart; the first cause stays.
    pub(crate) fn refuse_writes(&self, cause: &Error) {
        self.refusal.lock().get_or_insert_with(|| cause.clone());
    }
    /// Why nothing may be written until a restart.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refusal.lock().clone()
    }
    /// Has writes that wait for room try again.
    pub(crate) fn announce_room(&self) {
        self.room.send_replace(());
    }
    pub(crate) fn subscribe_to_room(&self) -> watch::Receiver<()> {
        self.room.subscribe()
    }
}

/// The part of the log that is in no segment that the manifest names.
#[derive(Debug, Default)]
pub(crate) struct Unflushed {
    bytes: AtomicU64,
    ops: AtomicU64,
    /// When the oldest came, in monotonic milliseconds + 1; 0: there is none.
    since_ms: AtomicU64,
}

impl Unflushed {
    /// A record came.
    pub(crate) fn add(&self, bytes: u64, ops: u64, now: Duration) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed);
        if self.since_ms.load(Ordering::Relaxed) == 0 {
            self.since_ms.store(millis(now) + 1, Ordering::Relaxed);
        }
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
    pub(crate) fn ops(&self) -> u64 {
        self.ops.load(Ordering::Relaxed)
    }
    /// How long the oldest has waited.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        match self.since_ms.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            since => now.saturating_sub(Duration::from_millis(since - 1)),
        }
    }
    /// A checkpoint takes care of it: what comes from here on counts anew.
    pub(crate) fn take(&self, _now: Duration) -> (u64, u64, u64) {
        let since = self.since_ms.swap(0, Ordering::Relaxed);
        (
            self.bytes.swap(0, Ordering::Relaxed),
            self.ops.swap(0, Ordering::Relaxed),
            since,
        )
    }
    /// The checkpoint failed.
    pub(crate) fn give_back(&self, (bytes, ops, since): (u64, u64, u64)) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ops.fetch_add(ops, Ordering::Relaxed);
        if since > 0 {
            self.since_ms.store(since, Ordering::Relaxed);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
