//! How long the phases of a search take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A sum of durations.
#[derive(Debug, Default)]
pub struct DurationSum(AtomicU64);

impl DurationSum {
    /// Adds one; at most 584 years fit.
    pub fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The durations of a search's phases.
#[derive(Debug, Default)]
pub struct Phases {
    /// To read the hits that it shows.
    pub fetch: DurationSum,
    /// To suggest; none if it suggests nothing.
    pub suggest: DurationSum,
}

impl Phases {
    /// Adds the duration of `work` to a phase.
    pub fn time<T>(phase: &DurationSum, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        phase.add(begun.elapsed());
        done
    }
}
