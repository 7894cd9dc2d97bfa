//! Counters of one index in a cache that all indices share: bytes and entries now, hits and evictions since the start.
//!
//! Relaxed atomics; nobody waits for a counter. Not here: the caches (`filter_cache`, `derived`), how figures are shown (`rest`).

use engine::CacheStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one index and one cache.
#[derive(Debug, Default)]
pub struct CacheFigures {
    hits: AtomicU64,
    misses: AtomicU64,
    added: AtomicU64,
    evicted: AtomicU64,
    /// Entries that nobody can ask for any more: their segment or their view is gone.
    invalidated: AtomicU64,
    bytes: AtomicU64,
}

impl CacheFigures {
    /// An entry was looked for.
    pub fn look_up(&self, found: bool) {
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// An entry of so many bytes came.
    pub fn add(&self, bytes: usize) {
        self.added.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// An entry of so many bytes made room for others.
    pub fn evict(&self, bytes: usize) {
        self.evicted.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// An entry of so many bytes left with what it was made of. The reference counts no eviction.
    pub fn invalidate(&self, bytes: usize) {
        self.invalidated.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// All of them now.
    pub fn stats(&self) -> CacheStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (added, evictions) = (load(&self.added), load(&self.evicted));
        CacheStats {
            hits: load(&self.hits),
            misses: load(&self.misses),
            added,
            evictions,
            entries: added.saturating_sub(evictions).saturating_sub(load(&self.invalidated)),
            bytes: load(&self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_those_that_came_and_did_not_leave() {
        let figures = CacheFigures::default();
        figures.look_up(false);
        figures.look_up(true);
        figures.look_up(true);
        for bytes in [100, 20, 3] {
            figures.add(bytes);
        }
        figures.evict(100);
        figures.invalidate(3);
        let expected = CacheStats {
            hits: 2,
            misses: 1,
            entries: 1,
            added: 3,
            evictions: 1,
            bytes: 20,
        };
        assert_eq!(figures.stats(), expected);
    }
}
