//! The state of an index beside its catalog entry, and the table of all indices of a folder.
//!
//! Not here: the work that changes it (`commit`, `publish`, `merging`, `checkpoint`).

use crate::counts::Counts;
use crate::lock_order::{LockRank, Mutex, MutexGuard, RwLock};
use crate::pending_queue::PendingQueue;
use arc_swap::{ArcSwap, Guard};
use model::{Error, Result};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The parts of an index beside its catalog entry.
pub(crate) struct IndexState {
    no: u32,
    term: u64,
    pending: Mutex<PendingQueue>,
    build: Mutex<()>,
    /// Taken before `build`.
    merging: Mutex<()>,
    /// Everything built; published or not.
    built: ArcSwap<IndexView>,
    /// When it was last searched, in monotonic milliseconds + 1; 0: never.
    searched_ms: AtomicU64,
    /// When a build ended last, in monotonic milliseconds.
    built_ms: AtomicU64,
    waiters: AtomicU64,
    counts: Counts,
    /// The set and the catalog's revision that the manifest has.
    flushed: Mutex<Option<(Arc<IndexView>, u64)>>,
    /// The manifest has it up to here: replaying it begins here.
    flushed_to: AtomicU64,
    /// Corrupt: why nothing may be asked of it.
    stopped: Mutex<Option<Error>>,
}

/// The build lock of an index. Every change of its built set takes it as proof.
pub(crate) struct BuildGuard<'a> {
    no: u32,
    _guard: MutexGuard<'a, ()>,
}

/// Counts a request that waits for a refresh, until it is dropped.
pub(crate) struct RefreshWaiter(Arc<IndexState>);

impl IndexState {
    /// `flushed_to`: where replaying it begins.
    pub(crate) fn new(no: u32, term: u64, built: IndexView, flushed_to: u64) -> IndexState {
        assert_eq!(built.no, no, "1.8: an index begins with a set of its own");
        assert!(term > 0, "4: primary terms begin at 1");
        IndexState {
            no,
            flushed_to: AtomicU64::new(flushed_to),
            term,
            pending: Mutex::new(LockRank::Queue, PendingQueue::default()),
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
    /// The number of the index.
    pub(crate) fn no(&self) -> u32 {
        self.no
    }
    /// The primary term of this run, without the turns of its entry.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
    /// The operations that no segment has.
    pub(crate) fn pending(&self) -> MutexGuard<'_, PendingQueue> {
        self.pending.lock()
    }

    /// Nobody else changes the built set while the guard lives.
    pub(crate) fn lock_build(&self) -> BuildGuard<'_> {
        BuildGuard {
            no: self.no,
            _guard: self.build.lock(),
        }
    }
    /// One merge at a time: two at once would each take the segments that the other replaces.
    pub(crate) fn lock_merge(&self) -> MutexGuard<'_, ()> {
        self.merging.lock()
    }
    /// As [`IndexState::lock_merge`]; `None`: somebody merges already.
    pub(crate) fn try_lock_merge(&self) -> Option<MutexGuard<'_, ()>> {
        self.merging.try_lock()
    }
    /// The built set.
    pub(crate) fn built_view(&self) -> Arc<IndexView> {
        self.built.load_full()
    }
    /// The built set, for a short look.
    pub(crate) fn load_built(&self) -> Guard<Arc<IndexView>> {
        self.built.load()
    }
    /// Stores the next built set, which has every operation of the one before.
    pub(crate) fn set_built(&self, building: &BuildGuard<'_>, next: Arc<IndexView>) {
        assert_eq!(building.no, self.no, "1.5: a set is stored under the build lock of its index");
        assert_eq!(next.no, self.no, "1.8: a set belongs to its index");
        debug_assert!(
            next.has_distinct_segments(),
            "search.md S2: a segment is in a set at most once"
        );
        let before = self.built.load();
        assert!(
            next.position >= before.position,
            "1.5: a built set up to {} replaces one up to {}",
            next.position,
            before.position
        );
        drop(before);
        self.built.store(next);
    }

    /// Notes a build that ended now.
    pub(crate) fn note_build(&self, now_ms: u64) {
        self.built_ms.store(now_ms, Ordering::Relaxed);
    }
    /// Milliseconds since the last build.
    pub(crate) fn built_ago(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.built_ms.load(Ordering::Relaxed))
    }
    /// Notes a search, or somebody who waits for a refresh as one does.
    pub(crate) fn note_search(&self, now_ms: u64) {
        self.searched_ms.store(now_ms + 1, Ordering::Relaxed);
    }
    pub(crate) fn was_searched_within(&self, now_ms: u64, within_ms: u64) -> bool {
        match self.searched_ms.load(Ordering::Relaxed) {
            0 => false,
            searched => now_ms.saturating_sub(searched - 1) < within_ms,
        }
    }
    /// Requests that wait for a refresh.
    pub(crate) fn waiters(&self) -> u64 {
        self.waiters.load(Ordering::Relaxed)
    }
    pub(crate) fn wait_for_refresh(self: &Arc<Self>) -> RefreshWaiter {
        self.waiters.fetch_add(1, Ordering::AcqRel);
        RefreshWaiter(self.clone())
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
        assert_eq!(set.no, self.no, "1.9: the manifest has a set of this index");
        *self.flushed.lock() = Some((set.clone(), revision));
    }
    /// The manifest has every operation below.
    pub(crate) fn flushed_position(&self) -> u64 {
        self.flushed_to.load(Ordering::Acquire)
    }
    pub(crate) fn set_flushed_to(&self, position: u64) {
        let before = self.flushed_to.swap(position, Ordering::AcqRel);
        assert!(before <= position, "1.9: flushed goes back from {before} to {position}");
    }
}

impl Drop for RefreshWaiter {
    fn drop(&mut self) {
        let before = self.0.waiters.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "6: more requests stop waiting for a refresh than began");
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
        assert!(before.is_none(), "1.1: the number of an index is given once");
    }
    pub(crate) fn remove(&self, no: u32) -> Option<Arc<IndexState>> {
        self.0.write().remove(&no)
    }
}
