//! The numbers of new segments, and the account of those in memory.

use segment::directory::{Held, SegmentData};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Segments of one folder.
pub(crate) struct SegmentAccount {
    next: AtomicU64,
    ram_bytes: Arc<AtomicU64>,
}

impl Default for SegmentAccount {
    fn default() -> SegmentAccount {
        SegmentAccount {
            next: AtomicU64::new(1),
            ram_bytes: Arc::default(),
        }
    }
}

impl SegmentAccount {
    /// A number that no segment of the folder had.
    pub(crate) fn fresh_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
    /// The number of the next segment.
    pub(crate) fn next_number(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }
    /// At a start: numbers go on from here.
    pub(crate) fn begin_at(&self, number: u64) {
        let before = self.next.swap(number, Ordering::Relaxed);
        assert!(
            before <= number,
            "search.md S19: segment numbers go back from {before} to {number}"
        );
    }
    /// Bytes of segments in memory.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.ram_bytes.load(Ordering::Relaxed)
    }
    /// Counts a segment in memory for as long as it lives.
    pub(crate) fn hold(&self, data: Arc<SegmentData>) -> Arc<SegmentData> {
        if data.memory().is_none() || data.held.is_some() {
            return data;
        }
        let held = Some(Held::new(&self.ram_bytes, data.bytes()));
        Arc::new(SegmentData { held, ..(*data).clone() })
    }
}
