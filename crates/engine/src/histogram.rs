//! Durations in fixed buckets, as Prometheus reads them: what requests take, and the syncs of an engine.
//!
//! Not here: their names and texts (`rest/src/metrics`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in seconds; one bucket more has no bound.
pub const BUCKETS_SECONDS: [f64; 15] = [
    0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// The same bounds in nanoseconds.
const BUCKETS_NANOS: [u64; BUCKETS_SECONDS.len()] = {
    let mut nanos = [0; BUCKETS_SECONDS.len()];
    let mut at = 0;
    while at < nanos.len() {
        // Each bound is a whole number of microseconds.
        nanos[at] = (BUCKETS_SECONDS[at] * 1_000_000.0 + 0.5) as u64 * 1000;
        at += 1;
    }
    nanos
};

const _: () = {
    let mut at = 1;
    while at < BUCKETS_NANOS.len() {
        assert!(
            BUCKETS_NANOS[at - 1] < BUCKETS_NANOS[at],
            "bounds of buckets are looked up by bisection, so they rise"
        );
        at += 1;
    }
};

/// Counts durations by bucket. Recording is two relaxed additions.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS_SECONDS.len() + 1],
    sum_nanos: AtomicU64,
}

/// The counts of a histogram at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observed {
    /// Observations in each bucket alone, the unbounded one last.
    pub buckets: [u64; BUCKETS_SECONDS.len() + 1],
    /// The sum of all durations.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_NANOS.partition_point(|bound| *bound < nanos);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The counts now; those of a record under way may be in part.
    pub fn observe(&self) -> Observed {
        let mut buckets = [0; BUCKETS_SECONDS.len() + 1];
        for (count, bucket) in buckets.iter_mut().zip(&self.buckets) {
            *count = bucket.load(Ordering::Relaxed);
        }
        Observed {
            buckets,
            sum_seconds: self.sum_nanos.load(Ordering::Relaxed) as f64 / 1e9,
        }
    }
}

impl Observed {
    /// Durations in all.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(micros: u64, bound: f64) {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(micros));
        let observed = histogram.observe();
        let at = observed.buckets.iter().position(|count| *count == 1).expect("one is counted");
        let found = BUCKETS_SECONDS.get(at).copied().unwrap_or(f64::INFINITY);
        assert_eq!(found, bound, "of {micros} µs");
        assert_eq!(observed.count(), 1);
        assert!((observed.sum_seconds - micros as f64 / 1e6).abs() < 1e-9);
    }

    #[test]
    fn bounds_belong_to_their_buckets() {
        check(0, 0.0001);
        check(100, 0.0001);
        check(101, 0.0005);
        check(1000, 0.001);
        check(2500, 0.0025);
        check(2501, 0.005);
        check(10_000_000, 10.0);
        check(10_000_001, f64::INFINITY);
    }

    #[test]
    fn a_duration_without_end_is_counted() {
        let histogram = Histogram::default();
        histogram.record(Duration::MAX);
        assert_eq!(histogram.observe().buckets.last(), Some(&1));
    }
}
