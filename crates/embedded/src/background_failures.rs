//! Failures of background work: kept for each index until it works again, logged, tried again later and later.
//!
//! Refreshes, merges and checkpoints that nobody waits for have nobody to tell. What they fail of stands here and
//! in `_stats` and `_nodes/stats`, turns the health yellow, and is tried again after 1 s, 2 s, 4 s, up to a minute.
//!
//! Not here: calls that someone waits for (their caller hears), damage (it stops its index: `store`).

use crate::lock_order::Mutex;
use engine::Trouble;
use model::{Error, ErrorKind, IndexName};
use std::collections::BTreeMap;
use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Work that nobody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    /// Builds and publishing in time.
    Refresh,
    /// Checkpoints.
    Checkpoint,
    /// Merges.
    Merge,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Work::Refresh => "refresh",
            Work::Checkpoint => "checkpoint",
            Work::Merge => "merge",
        }
    }
}

#[derive(Debug)]
struct Failing {
    error: Error,
    failures: u32,
    since_ms: i64,
    next: Duration,
}

/// Present failures, by work and index number (0: the folder).
#[derive(Debug, Default)]
pub(crate) struct BackgroundFailures(Mutex<BTreeMap<(Work, u32), Failing>>);

impl BackgroundFailures {
    /// Is it time to try? Work that has not failed may always be tried.
    pub(crate) fn due(&self, work: Work, no: u32, now: Duration) -> bool {
        self.0.lock().get(&(work, no)).is_none_or(|failing| now >= failing.next)
    }
    /// It failed; `now` is monotonic. The first failure and every doubling of their number are told.
    pub(crate) fn record_failure(
        &self,
        work: Work,
        no: u32,
        name: Option<&IndexName>,
        error: Error,
        now: Duration,
        wall_ms: i64,
    ) {
        let mut all = self.0.lock();
        let failing = all.entry((work, no)).or_insert_with(|| Failing {
            error: error.clone(),
            failures: 0,
            since_ms: wall_ms,
            next: now,
        });
        failing.failures = failing.failures.saturating_add(1);
        let wait = match error.kind() {
            // Room comes back at any time, and writes wait for it.
            ErrorKind::DiskFull => FIRST_WAIT,
            _ => FIRST_WAIT * 2u32.saturating_pow((failing.failures - 1).min(6)),
        };
        failing.next = now + wait.min(LONGEST_WAIT);
        failing.error = error;
        if failing.failures.is_power_of_two() {
            let of = name.map_or_else(String::new, |name| format!(" of [{name}]"));
            tell(&format!(
                "{}{of} failed ({} times): {}; it is tried again",
                work.name(),
                failing.failures,
                failing.error.reason()
            ));
        }
    }
    /// It worked.
    pub(crate) fn record_success(&self, work: Work, no: u32) {
        let mut all = self.0.lock();
        if !all.is_empty() {
            all.remove(&(work, no));
        }
    }
    /// An index went; so does what failed of it.
    pub(crate) fn forget(&self, no: u32) {
        self.0.lock().retain(|(_, n), _| *n != no);
    }
    /// A failure for want of room on the disk, if there is one.
    pub(crate) fn want_of_room(&self) -> Option<Error> {
        let all = self.0.lock();
        let mut errors = all.values().map(|failing| &failing.error);
        errors.find(|error| error.kind() == ErrorKind::DiskFull).cloned()
    }
    /// The failures of an index (0: of the folder).
    pub(crate) fn of(&self, no: u32) -> Vec<Trouble> {
        let all = self.0.lock();
        let row = |((work, _), failing): (&(Work, u32), &Failing)| Trouble {
            work: work.name(),
            reason: failing.error.reason().to_owned(),
            failures: failing.failures,
            since_ms: failing.since_ms,
        };
        all.iter().filter(|((_, n), _)| *n == no).map(row).collect()
    }
}

/// The error that stands for a panic.
pub(crate) fn panic_error(work: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("{work} panicked"))
}

/// A line for whoever runs the server, on standard error; that nobody reads it does not matter.
pub(crate) fn tell(line: &str) {
    tracing::warn!(target: "store", "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tried_again_later_and_later() {
        let troubles = BackgroundFailures::default();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..8 {
            assert!(troubles.due(Work::Refresh, 1, now));
            troubles.record_failure(Work::Refresh, 1, None, Error::illegal("no"), now, 5);
            let before = now;
            while !troubles.due(Work::Refresh, 1, now) {
                now += Duration::from_millis(500);
            }
            waits.push((now - before).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(troubles.due(Work::Merge, 1, Duration::ZERO) && troubles.due(Work::Refresh, 2, Duration::ZERO));
        let told = troubles.of(1);
        assert_eq!((told.len(), told[0].failures, told[0].since_ms), (1, 8, 5));
        troubles.record_success(Work::Refresh, 1);
        assert!(troubles.of(1).is_empty());
    }
}
