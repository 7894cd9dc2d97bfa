//! The sets that searches see: one value with the sets of all indices, and the records that are not wholly in it.
//!
//! Not here: building the sets (`publish`), when (`scheduler`).

use crate::lock_order::{LockRank, Mutex, MutexGuard};
use arc_swap::{ArcSwap, Guard};
use rustc_hash::FxHashSet;
use segment::searchable::{IndexView, Searchable};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;

/// The published sets (write-path.md 1.7).
pub(crate) struct Publication {
    shown: ArcSwap<Searchable>,
    flipping: Mutex<()>,
    /// Records with several indices that are not wholly published: end → indices.
    shared: Mutex<VecDeque<(u64, Vec<u32>)>>,
    /// Counts flips.
    flips: watch::Sender<u64>,
}

/// The publish lock. Every change of what is shown takes it as proof.
pub(crate) struct PublishGuard<'a> {
    _guard: MutexGuard<'a, ()>,
}

impl Default for Publication {
    fn default() -> Publication {
        Publication {
            shown: ArcSwap::from_pointee(Searchable::default()),
            flipping: Mutex::new(LockRank::Publish, ()),
            shared: Mutex::default(),
            flips: watch::Sender::new(0),
        }
    }
}

impl Publication {
    pub(crate) fn now(&self) -> Arc<Searchable> {
        self.shown.load_full()
    }
    /// The published sets, for a short look.
    pub(crate) fn load(&self) -> Guard<Arc<Searchable>> {
        self.shown.load()
    }
    /// The published set of an index.
    pub(crate) fn set_of(&self, no: u32) -> Option<Arc<IndexView>> {
        self.shown.load().indices.get(&no).cloned()
    }
    pub(crate) fn lock(&self) -> PublishGuard<'_> {
        PublishGuard {
            _guard: self.flipping.lock(),
        }
    }
    /// Changes with every flip.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.flips.subscribe()
    }
    /// A record of several indices ends at `end`. Records come in the order of the log.
    pub(crate) fn add_shared(&self, end: u64, indices: Vec<u32>) {
        let mut shared = self.shared.lock();
        assert!(
            shared.back().is_none_or(|(last, _)| *last < end),
            "1.1: a record that ends at {end} comes after a later one"
        );
        shared.push_back((end, indices));
    }
    /// Adds the indices that share an unpublished record up to `target` with one of `all`, until there are no more.
    pub(crate) fn close_over(&self, all: &mut FxHashSet<u32>, target: u64) {
        let shared = self.shared.lock();
        loop {
            let before = all.len();
            for (_, indices) in shared.iter().take_while(|(end, _)| *end <= target) {
                if indices.iter().any(|no| all.contains(no)) {
                    all.extend(indices.iter().copied());
                }
            }
            if all.len() == before {
                return;
            }
        }
    }
    /// Shows these sets, which have all operations up to `target`.
    pub(crate) fn flip(&self, _: &PublishGuard<'_>, sets: Vec<Arc<IndexView>>, target: u64) -> Arc<Searchable> {
        let old = self.shown.load_full();
        let mut indices = old.indices.clone();
        let mut done: FxHashSet<u32> = FxHashSet::default();
        for set in sets {
            assert!(
                indices.get(&set.no).is_none_or(|old| old.position <= set.position),
                "1.7: a flip shows index {} as it was before, at {}",
                set.no,
                set.position
            );
            assert!(
                set.position >= target,
                "1.7: a flip to {target} shows index {} only up to {}: half a record might be seen",
                set.no,
                set.position
            );
            debug_assert!(
                set.has_distinct_segments(),
                "search.md S2: a segment is in a view at most once"
            );
            done.insert(set.no);
            indices.insert(set.no, set);
        }
        debug_assert!(
            self.shared
                .lock()
                .iter()
                .take_while(|(end, _)| *end <= target)
                .all(|(_, participants)| {
                    let is_shown = |no: &u32| done.contains(no) || indices.get(no).is_none_or(|set| set.position < target);
                    !participants.iter().any(|no| done.contains(no)) || participants.iter().all(is_shown)
                }),
            "1.7: a flip to {target} shows each record whole: of {done:?}"
        );
        let flipped = Arc::new(Searchable {
            indices,
            position: old.position.max(target),
        });
        self.shown.store(flipped.clone());
        self.shared
            .lock()
            .retain(|(end, participants)| *end > target || !participants.iter().any(|no| done.contains(no)));
        self.flips.send_modify(|count| *count += 1);
        flipped
    }
    /// Puts a new set in place of a published one that shows the same documents (after a merge, an alteration).
    pub(crate) fn replace(&self, _: &PublishGuard<'_>, set: &Arc<IndexView>) {
        let old = self.shown.load_full();
        assert!(
            old.indices.get(&set.no).is_none_or(|old| old.position == set.position),
            "1.7: a set of index {} up to {} takes the place of one that shows something else",
            set.no,
            set.position
        );
        debug_assert!(
            set.has_distinct_segments(),
            "search.md S2: a segment is in a view at most once"
        );
        let mut indices = old.indices.clone();
        indices.insert(set.no, set.clone());
        self.shown.store(Arc::new(Searchable {
            indices,
            position: old.position,
        }));
    }
    /// An index is gone.
    pub(crate) fn remove(&self, _: &PublishGuard<'_>, no: u32) {
        let old = self.shown.load_full();
        let mut indices = old.indices.clone();
        indices.remove(&no);
        self.shown.store(Arc::new(Searchable {
            indices,
            position: old.position,
        }));
        for (_, participants) in self.shared.lock().iter_mut() {
            participants.retain(|n| *n != no);
        }
    }
    /// At a start: the sets of the manifest.
    pub(crate) fn open(&self, sets: Searchable) {
        self.shown.store(Arc::new(sets));
    }
}
