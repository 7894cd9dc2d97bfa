//! How the control index does: whether it could be read at the start, and whether ends of leases can be written to it.
//!
//! An unreadable document could let a client pass a lock that another holds, so nothing that rests on it is done: locks,
//! changes and jobs are refused with 503. Everything else works. Not here: what its documents say (`leases`,
//! `transactions`, `jobs`), repairing it (`repair`).

use crate::schema;
use engine::Trouble;
use model::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The first wait after a failure; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest: writes may be possible again at any time, and others wait for what the lease holds.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Shared by all who ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct Control {
    unreadable: Arc<OnceLock<Error>>,
    /// Ends of leases that cannot be written.
    endings: Arc<Mutex<Option<Failing>>>,
}

/// Work that failed and is tried again.
#[derive(Clone, Debug)]
struct Failing {
    reason: String,
    failures: u32,
    since_ms: i64,
    /// Not before, on the monotonic clock.
    next: Duration,
}

impl Control {
    /// It could not be read at the start.
    pub(crate) fn fail(&self, cause: &Error) {
        let name = schema::CONTROL;
        let reason = format!(
            "the control index [{name}] cannot be used: {}; locks, changes and jobs are refused until it is repaired: stop the \
             server and run [pleach check DIR --repair-control] on its data folder, which says what it costs",
            cause.reason()
        );
        let error = Error::new(ErrorKind::Unavailable, reason).with("index", name);
        // The first reason counts.
        drop(self.unreadable.set(error));
    }
    fn endings(&self) -> std::sync::MutexGuard<'_, Option<Failing>> {
        self.endings.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// May ends of leases be written now, or did it fail a moment ago?
    pub(crate) fn may_end(&self, now: Duration) -> bool {
        self.endings().as_ref().is_none_or(|failing| now >= failing.next)
    }
    /// Some could be written, or could not. `now` is monotonic.
    pub(crate) fn note_ending(&self, done: &Result<()>, now: Duration, wall_ms: i64) {
        let mut endings = self.endings();
        let Err(error) = done else {
            *endings = None;
            return;
        };
        let failing = endings.get_or_insert_with(|| Failing {
            reason: String::new(),
            failures: 0,
            since_ms: wall_ms,
            next: now,
        });
        let wait = FIRST_WAIT * 2u32.saturating_pow(failing.failures.min(8));
        failing.failures = failing.failures.saturating_add(1);
        failing.reason = error.reason().to_owned();
        failing.next = now + wait.min(LONGEST_WAIT);
    }
}

impl crate::Relations {
    /// Why the control index cannot be used, if it could not be read at the start.
    pub fn control_failure(&self) -> Option<&Error> {
        self.control.unreadable.get()
    }

    /// # Errors
    /// [`crate::Relations::control_failure`].
    pub fn check_control(&self) -> Result<()> {
        self.control_failure().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Work that does not succeed and is tried again, or waits for an operator.
    pub fn troubles(&self) -> Vec<Trouble> {
        let unreadable = self.control_failure().map(|error| Trouble {
            work: "control",
            reason: error.reason().to_owned(),
            failures: 1,
            since_ms: 0,
        });
        let endings = self.control.endings().clone();
        let endings = endings.map(|failing| Trouble {
            work: "leases",
            reason: failing.reason,
            failures: failing.failures,
            since_ms: failing.since_ms,
        });
        unreadable.into_iter().chain(endings).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_tried_again_later_and_later() {
        let control = Control::default();
        let refused = || Err(Error::new(ErrorKind::DiskFull, "no room"));
        let mut now = Duration::from_secs(10);
        for millis in [100, 200, 400, 800, 1600, 2000, 2000] {
            assert!(control.may_end(now));
            control.note_ending(&refused(), now, 5);
            let wait = Duration::from_millis(millis);
            assert!(!control.may_end(now + wait - Duration::from_millis(1)), "{millis}");
            now += wait;
        }
        assert_eq!(
            control.endings().as_ref().map(|failing| (failing.failures, failing.since_ms)),
            Some((7, 5))
        );
        control.note_ending(&Ok(()), now, 6);
        assert!(control.may_end(Duration::ZERO));
    }
}
