//! The state of an index beside its catalog entry, and the table of all indices of a folder.
//!
//! Not here: what changes it (`commit`, `publish`, `merging`, `checkpoint`).

use crate::counts::Counts;
use crate::lock_order::{LockRank, Mutex, RwLock};
use crate::pending::PendingOp;
use arc_swap::ArcSwap;
use model::{Error, Result};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What an index has beside its catalog entry.
pub(crate) struct IndexState {
    /// Its number.
    pub(crate) no: u32,
    pub(crate) term: u64,
    pub(crate) queue: Mutex<Queue>,
    /// One build or merge flip at a time.
    pub(crate) build: Mutex<()>,
    /// One merge at a time; taken before `build`.
    pub(crate) merging: Mutex<()>,
    /// Everything built; published or not.
    pub(crate) built: ArcSwap<IndexView>,
    /// When it was last searched, in monotonic milliseconds; 0 never.
    pub(crate) searched_ms: AtomicU64,
    /// When something was built last, in monotonic milliseconds.
    pub(crate) built_ms: AtomicU64,
    pub(crate) waiters: AtomicU64,
    pub(crate) counts: Counts,
    /// The set and the catalog's revision that the manifest has.
    flushed: Mutex<Option<(Arc<IndexView>, u64)>>,
    /// The manifest has it up to here: replaying it begins here.
    flushed_to: AtomicU64,
    /// Corrupt: why nothing may be asked of it.
    stopped: Mutex<Option<Error>>,
}

/// Operations that no segment has.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) next_seq_no: u64,
    pub(crate) ops: VecDeque<Arc<PendingOp>>,
    pub(crate) bytes: u64,
    /// When the oldest that is not published was acknowledged (monotonic).
    pub(crate) oldest: Option<Duration>,
    /// What was replayed at the start was acknowledged long ago: the first search publishes it, whatever the interval.
    pub(crate) overdue: bool,
    /// Position of the newest operation.
    pub(crate) last: u64,
}

impl IndexState {
    /// `flushed_to`: where replaying it begins.
    pub(crate) fn new(no: u32, term: u64, built: IndexView, flushed_to: u64) -> IndexState {
        IndexState {
            no,
            flushed_to: AtomicU64::new(flushed_to),
            term,
            queue: Mutex::new(LockRank::Queue, Queue::default()),
            build: Mutex::new(LockRank::Build, ()),
            merging: Mutex::new(LockRank::Merge, ()),
            built: ArcSwap::from_pointee(built),
            searched_ms: AtomicU64::new(0),
            built_ms: AtomicU64::new(0),
            waiters: AtomicU64::new(0),
            counts: Counts::default(),
            flushed: Mutex::default(),
            stopped: Mutex::default(),
        }
    }
    /// Refuses an index that is stopped.
    ///
    /// # Errors
    /// Why it is stopped.
    pub(crate) fn check(&self) -> Result<()> {
        self.stopped.lock().as_ref().map_or(Ok(()), |e| Err(e.clone()))
    }
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.lock().is_some()
    }
    /// Stops the index; false if it was stopped before, for a cause that stays.
    pub(crate) fn stop(&self, cause: &Error) -> bool {
        let mut stopped = self.stopped.lock();
        let is_new = stopped.is_none();
        stopped.get_or_insert_with(|| cause.clone());
        is_new
    }
    /// Does the manifest have this set and this revision of the catalog entry?
    pub(crate) fn is_flushed(&self, set: &Arc<IndexView>, revision: u64) -> bool {
        let flushed = self.flushed.lock();
        flushed
            .as_ref()
            .is_some_and(|(known, of)| Arc::ptr_eq(known, set) && *of == revision)
    }
    /// The manifest has this set.
    pub(crate) fn set_flushed(&self, set: &Arc<IndexView>, revision: u64) {
        *self.flushed.lock() = Some((set.clone(), revision));
    }
    /// The manifest has every operation below.
    pub(crate) fn flushed_to(&self) -> u64 {
        self.flushed_to.load(Ordering::Acquire)
    }
    pub(crate) fn set_flushed_to(&self, position: u64) {
        let before = self.flushed_to.swap(position, Ordering::AcqRel);
        debug_assert!(
            before <= position,
            "write-path.md 1.9: flushed goes back from {before} to {position}"
        );
    }
}

/// The indices of a folder, by number.
pub(crate) struct IndexTable(RwLock<FxHashMap<u32, Arc<IndexState>>>);

impl Default for IndexTable {
    fn default() -> IndexTable {
        IndexTable(RwLock::new(LockRank::Indices, FxHashMap::default()))
    }
}

impl IndexTable {
    pub(crate) fn get(&self, no: u32) -> Option<Arc<IndexState>> {
        self.0.read().get(&no).cloned()
    }
    pub(crate) fn contains(&self, no: u32) -> bool {
        self.0.read().contains_key(&no)
    }
    /// Every index, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<IndexState>> {
        self.0.read().values().cloned().collect()
    }
    /// The indices of these numbers, in their order, without those that are not there.
    pub(crate) fn each_of(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<Arc<IndexState>> {
        let table = self.0.read();
        numbers.into_iter().filter_map(|no| table.get(&no).cloned()).collect()
    }
    pub(crate) fn insert(&self, state: Arc<IndexState>) {
        let before = self.0.write().insert(state.no, state);
        debug_assert!(before.is_none(), "the number of an index is given once");
    }
    pub(crate) fn remove(&self, no: u32) -> Option<Arc<IndexState>> {
        self.0.write().remove(&no)
    }
}
