//! Counters of the process: requests by endpoint and status with their latencies, errors by type, waits for locks.
//!
//! Recording is a few relaxed additions on fixed slots: no lock, no allocation. Not here: what the engine counts of its
//! indices (`IndexStats`), the endpoint that renders all of it (`handlers::prometheus`).

mod exposition;
mod requests;

pub(crate) use engine::histogram::Histogram;
pub(crate) use exposition::{Exposition, MEDIA_TYPE};
pub(crate) use requests::{RequestFigures, Requests};

use model::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every counter that this layer keeps since the process began.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) requests: Requests,
    /// Refusals of whole requests, by the order of [`ErrorKind::ALL`].
    errors: Box<[AtomicU64]>,
    /// Requests that asked for a lock that was not free, until they had it.
    pub(crate) lock_waits: Histogram,
    /// The same, when they gave up.
    pub(crate) lock_waits_in_vain: Histogram,
}

impl Metrics {
    /// Counters at zero for these APIs, as `ENDPOINTS` names them.
    pub(crate) fn new(apis: impl Iterator<Item = &'static str>) -> Metrics {
        Metrics {
            requests: Requests::new(apis),
            errors: ErrorKind::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
            lock_waits: Histogram::default(),
            lock_waits_in_vain: Histogram::default(),
        }
    }

    /// Counts a request that was refused.
    pub(crate) fn count_error(&self, kind: ErrorKind) {
        let count = self.errors.get(kind as usize);
        debug_assert!(
            count.is_some(),
            "each kind of error has a counter, as the list of kinds has each: {kind:?}"
        );
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Refusals by the type in their envelopes. Types that never occurred are left out.
    pub(crate) fn errors(&self) -> Vec<(&'static str, u64)> {
        let counts = ErrorKind::ALL.iter().zip(&self.errors);
        let counts = counts.map(|(kind, count)| (kind.wire(), count.load(Ordering::Relaxed)));
        let mut all: Vec<(&str, u64)> = counts.filter(|(_, count)| *count > 0).collect();
        // Kinds may share a type.
        all.sort_unstable();
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        debug_assert!(
            all.windows(2).all(|two| two[0].0 < two[1].0),
            "each type of error is told once, with the sum of its kinds"
        );
        all
    }
}

/// How long a request waits for a lock, counted when the wait is over or its client hangs up.
#[derive(Debug)]
pub(crate) struct LockWait<'a> {
    metrics: &'a Metrics,
    begun: std::time::Instant,
    granted: bool,
}

impl<'a> LockWait<'a> {
    pub(crate) fn begin(metrics: &'a Metrics) -> LockWait<'a> {
        LockWait {
            metrics,
            begun: std::time::Instant::now(),
            granted: false,
        }
    }

    /// The lock is held: the wait was not in vain.
    pub(crate) fn end_granted(mut self) {
        self.granted = true;
    }
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        let histogram = match self.granted {
            true => &self.metrics.lock_waits,
            false => &self.metrics.lock_waits_in_vain,
        };
        histogram.record(self.begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_list() {
        for (at, kind) in ErrorKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at, "{kind:?}");
        }
    }

    #[test]
    fn errors_are_counted_by_type() {
        let metrics = Metrics::new(["search"].into_iter());
        assert_eq!(metrics.errors(), []);
        for kind in ErrorKind::ALL {
            metrics.count_error(*kind);
        }
        let errors = metrics.errors();
        let total: u64 = errors.iter().map(|(_, count)| count).sum();
        assert_eq!(total, ErrorKind::ALL.len() as u64);
        assert!(errors.windows(2).all(|pair| pair[0].0 < pair[1].0), "{errors:?}");
    }

    #[test]
    fn waits_for_locks_are_counted_by_how_they_ended() {
        let metrics = Metrics::new(["search"].into_iter());
        LockWait::begin(&metrics).end_granted();
        drop(LockWait::begin(&metrics));
        drop(LockWait::begin(&metrics));
        assert_eq!(metrics.lock_waits.observe().count(), 1);
        assert_eq!(metrics.lock_waits_in_vain.observe().count(), 2);
    }
}
