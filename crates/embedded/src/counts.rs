//! The counts of an index for `_stats`: how often each kind of work was done, and how long it took.
//!
//! Relaxed atomics; nobody waits for a counter. Not here: what threads do (`workers`), how figures are shown (`rest`).

use crate::lock_order::Mutex;
use engine::{IndexStats, WorkTimes};
use search::phases::DurationSum;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters of one index since the process began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) index: AtomicU64,
    pub(crate) delete: AtomicU64,
    pub(crate) noop: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) get: AtomicU64,
    pub(crate) get_missing: AtomicU64,
    pub(crate) search: AtomicU64,
    /// Searches that run now.
    pub(crate) searching: AtomicU64,
    pub(crate) refresh: AtomicU64,
    pub(crate) flush: AtomicU64,
    pub(crate) merge: AtomicU64,
    pub(crate) merge_docs: AtomicU64,
    pub(crate) merge_bytes: AtomicU64,
    pub(crate) index_time: DurationSum,
    pub(crate) delete_time: DurationSum,
    pub(crate) get_time: DurationSum,
    pub(crate) get_missing_time: DurationSum,
    pub(crate) search_time: DurationSum,
    pub(crate) refresh_time: DurationSum,
    pub(crate) flush_time: DurationSum,
    pub(crate) merge_time: DurationSum,
    /// Out of `search_time`.
    pub(crate) fetch_time: DurationSum,
    pub(crate) suggest: AtomicU64,
    /// Out of `search_time`.
    pub(crate) suggest_time: DurationSum,
    /// `index` by type, in typed indices.
    pub(crate) by_type: Mutex<BTreeMap<Arc<str>, u64>>,
}

impl Counts {
    /// A read by id took so long.
    pub(crate) fn read(&self, found: bool, took: Duration) {
        self.get.fetch_add(1, Ordering::Relaxed);
        self.get_time.add(took);
        if !found {
            self.get_missing.fetch_add(1, Ordering::Relaxed);
            self.get_missing_time.add(took);
        }
    }
    /// A write took so long, from its judgement to its place in the log.
    pub(crate) fn wrote(&self, deletes: bool, took: Duration) {
        let time = if deletes { &self.delete_time } else { &self.index_time };
        time.add(took);
    }
    /// Puts the figures where they are told.
    pub(crate) fn fill(&self, stats: &mut IndexStats) {
        for (to, from) in [
            (&mut stats.index_total, &self.index),
            (&mut stats.delete_total, &self.delete),
            (&mut stats.noop_total, &self.noop),
            (&mut stats.index_failed, &self.failed),
            (&mut stats.get_total, &self.get),
            (&mut stats.get_missing, &self.get_missing),
            (&mut stats.search_total, &self.search),
            (&mut stats.search_current, &self.searching),
            (&mut stats.refresh_total, &self.refresh),
            (&mut stats.flush_total, &self.flush),
            (&mut stats.merge_total, &self.merge),
            (&mut stats.merge_docs, &self.merge_docs),
            (&mut stats.merge_bytes, &self.merge_bytes),
            (&mut stats.suggest_total, &self.suggest),
        ] {
            *to = from.load(Ordering::Relaxed);
        }
        stats.times = WorkTimes {
            index: self.index_time.sum(),
            delete: self.delete_time.sum(),
            get: self.get_time.sum(),
            get_missing: self.get_missing_time.sum(),
            search: self.search_time.sum(),
            refresh: self.refresh_time.sum(),
            flush: self.flush_time.sum(),
            merge: self.merge_time.sum(),
            fetch: self.fetch_time.sum(),
            suggest: self.suggest_time.sum(),
        };
        let by_type = self.by_type.lock();
        stats.index_by_type = by_type.iter().map(|(name, count)| (name.to_string(), *count)).collect();
    }
}

/// An equal part of a duration for each of several indices.
pub(crate) fn share(took: Duration, of: usize) -> Duration {
    took / u32::try_from(of.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told() {
        let counts = Counts::default();
        counts.read(true, Duration::from_millis(3));
        counts.read(false, Duration::from_millis(2));
        counts.wrote(false, Duration::from_millis(7));
        counts.wrote(true, share(Duration::from_millis(9), 3));
        let mut stats = IndexStats::default();
        counts.fill(&mut stats);
        assert_eq!((stats.get_total, stats.get_missing), (2, 1));
        let times = stats.times;
        assert_eq!(
            [times.get, times.get_missing, times.index, times.delete].map(|time| time.as_millis()),
            [5, 2, 7, 3]
        );
    }
}
