//! Matches that the threads of one search count together.
//!
//! A count is exact up to `track_total_hits` (search.md S13). Each thread adds what it finds to one total from time to time, so that
//! none counts on where all of them together have enough. The total never exceeds what the threads have counted, and none stops before it
//! is enough: so a count that is not enough is whole.
//!
//! Not here: what is counted (`top`).

use std::sync::atomic::{AtomicU64, Ordering};

/// Matches that a thread keeps for itself before it adds them to the total.
const SHARED_EACH: u64 = 128;

/// The count of one thread, while it goes through a segment.
pub(crate) struct MatchCount<'a> {
    own: &'a mut u64,
    total: &'a AtomicU64,
    unshared: u64,
}

impl<'a> MatchCount<'a> {
    pub(crate) fn new(own: &'a mut u64, total: &'a AtomicU64) -> MatchCount<'a> {
        MatchCount { own, total, unshared: 0 }
    }

    pub(crate) fn add(&mut self, matches: u64) {
        *self.own += matches;
        self.unshared += matches;
        if self.unshared >= SHARED_EACH {
            self.share();
        }
    }

    /// The matches of all threads, except those that other threads have not added to the total yet.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed) + self.unshared
    }

    /// More than so many are counted.
    pub(crate) fn exceeds(&self, most: u64) -> bool {
        self.total() > most
    }

    fn share(&mut self) {
        self.total.fetch_add(std::mem::take(&mut self.unshared), Ordering::Relaxed);
    }
}

impl Drop for MatchCount<'_> {
    fn drop(&mut self) {
        self.share();
    }
}
