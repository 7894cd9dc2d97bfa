//! The time by which kept outcomes grow old: that in which a server ran.
//!
//! A wall clock that jumps by a day must not forget what a client may still repeat, neither while the server runs nor over
//! a restart. So the time goes on from the newest outcome that is kept, by the monotonic clock alone. While no server runs it
//! stands still: what is kept is kept longer, never shorter.
//!
//! Not here: what is kept (`transactions::idempotency`, `intents`).

use engine::Clock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How long an outcome is kept.
pub(crate) const KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// Milliseconds that only grow, about as many as a wall clock had when the first outcome of the folder was kept.
#[derive(Debug)]
pub(crate) struct KeptTime {
    at_start_ms: AtomicI64,
    started: Duration,
}

impl KeptTime {
    /// The time of a server that knows of no kept outcome.
    pub(crate) fn new(clock: &dyn Clock) -> KeptTime {
        KeptTime {
            at_start_ms: AtomicI64::new(clock.wall_ms()),
            started: clock.monotonic(),
        }
    }
    /// The newest outcome that is there was kept then: time goes on from there.
    pub(crate) fn go_on_from(&self, newest_ms: i64) {
        self.at_start_ms.store(newest_ms, Ordering::Release);
    }
    /// Now.
    pub(crate) fn now_ms(&self, clock: &dyn Clock) -> i64 {
        let run = clock.monotonic().saturating_sub(self.started);
        let run = i64::try_from(run.as_millis()).unwrap_or(i64::MAX);
        self.at_start_ms.load(Ordering::Acquire).saturating_add(run)
    }
}
