//! When a search stops before it is through: it was cancelled, its time is over, it took longer than its thread allows, or
//! the process holds more memory than it may.
//!
//! Parsing, planning, collecting, aggregating and scripts ask [`Interrupt::check`], at least every 10 ms of work (search.md S21). Tables that
//! grow by doubling, and documents that are fetched, are booked with `Interrupt::reserve` before they take memory.
//!
//! Not here: what a search answers that has been stopped (`search`), on which threads it runs (`lanes`).

use engine::breaker::{Booking, Breaker, CircuitBreakers};
use model::{Cancellation, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A search that was stopped by its deadline has so long to answer with what it has.
const GRACE: Duration = Duration::from_millis(50);
/// The clock is looked at before every so many runs of a script. A run looks by itself after some thousand steps.
const RUNS_BETWEEN: u32 = 8;
/// Work that began less than this ago holds little memory: it goes on while others are stopped for what they hold.
const HOLDS_LITTLE: Duration = Duration::from_millis(2);
const NEVER: u64 = u64::MAX;

/// Asked whether to go on; clones are the same.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    cancellation: Cancellation,
    breakers: Option<Arc<CircuitBreakers>>,
    /// Memory that the search holds and knows the size of.
    reserved: Mutex<Booking>,
    started: Instant,
    /// Nanoseconds after `started`: the request's deadline or the end of what the thread allows, whichever is first.
    deadline: AtomicU64,
    /// The request's own.
    own: u64,
    /// The thread's time was over before the request's.
    overdrawn: AtomicBool,
    runs: AtomicU32,
}

impl Default for Interrupt {
    fn default() -> Interrupt {
        Interrupt::new(Cancellation::default(), None, None)
    }
}

impl Interrupt {
    /// Interrupts work that is cancelled, passes its deadline, takes its thread longer than `most`, or when the process holds
    /// more than `breakers` allow.
    pub fn new(cancellation: Cancellation, most: Option<Duration>, breakers: Option<Arc<CircuitBreakers>>) -> Interrupt {
        let started = Instant::now();
        let own = cancellation.deadline().map(|at| at.saturating_duration_since(started));
        let least = own.into_iter().chain(most).min();
        let reserved = breakers
            .as_ref()
            .map_or_else(Booking::none, |breakers| breakers.open(Breaker::Request, "<search>"));
        Interrupt(Arc::new(Inner {
            cancellation,
            breakers,
            reserved: Mutex::new(reserved),
            started,
            deadline: AtomicU64::new(least.map_or(NEVER, nanos)),
            own: own.map_or(NEVER, nanos),
            overdrawn: AtomicBool::new(false),
            runs: AtomicU32::new(0),
        }))
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// `task_cancelled_exception`; `search_timeout_exception`; `circuit_breaking_exception`.
    pub fn check(&self) -> Result<()> {
        if self.0.cancellation.is_cancelled() {
            return Err(Error::new(ErrorKind::TaskCancelled, "The task is cancelled."));
        }
        let deadline = self.0.deadline.load(Ordering::Relaxed);
        if deadline == NEVER && self.0.breakers.is_none() {
            return Ok(());
        }
        let elapsed = self.0.started.elapsed();
        if elapsed > HOLDS_LITTLE
            && let Some(breakers) = &self.0.breakers
        {
            breakers.check("<search>")?;
        }
        let now = nanos(elapsed);
        if now < deadline {
            return Ok(());
        }
        if now < self.0.own {
            self.0.overdrawn.store(true, Ordering::Relaxed);
        }
        Err(Error::new(ErrorKind::SearchTimeout, "Time exceeded"))
    }

    /// Books bytes that the search is about to hold, until [`Interrupt::release`] or its end.
    ///
    /// # Errors
    /// `circuit_breaking_exception`: the process may not hold them.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        self.0.reserved.lock().grow(bytes as u64)
    }

    /// Gives back bytes that were reserved.
    pub(crate) fn release(&self, bytes: usize) {
        let mut reserved = self.0.reserved.lock();
        debug_assert!(
            reserved.bytes() >= bytes as u64,
            "search.md S22: [{bytes}] bytes are released, [{}] are booked",
            reserved.bytes()
        );
        let left = reserved.bytes().saturating_sub(bytes as u64);
        reserved.shrink_to(left);
    }

    /// Was the work stopped because it took longer than its thread allows? Then what it answered is no answer.
    pub fn is_overdrawn(&self) -> bool {
        self.0.overdrawn.load(Ordering::Relaxed)
    }

    /// [`Interrupt::check`], now and then: for what is asked before each run of a script.
    ///
    /// # Errors
    /// As [`Interrupt::check`].
    pub fn check_run(&self) -> Result<()> {
        if self.0.runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(RUNS_BETWEEN) {
            return self.check();
        }
        Ok(())
    }

    /// Gives time to answer with what there is.
    pub fn grant_grace(&self) {
        if self.is_overdrawn() {
            return;
        }
        debug_assert!(
            nanos(self.0.started.elapsed()) >= self.0.own,
            "search.md S23: a search that says that its time was over has reached its own deadline"
        );
        let until = nanos(self.0.started.elapsed() + GRACE);
        self.0.deadline.fetch_max(until, Ordering::Relaxed);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

/// Was the work stopped by its deadline?
pub(crate) fn is_timeout(error: &Error) -> bool {
    error.kind() == ErrorKind::SearchTimeout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_told_or_when_time_is_over() {
        let cancellation = Cancellation::default();
        let free = Interrupt::new(cancellation.clone(), None, None);
        assert!(free.check().is_ok());
        let past = cancellation.with_deadline(Some(Instant::now()));
        let late = Interrupt::new(past, Some(Duration::from_secs(60)), None);
        assert!(late.check().is_err_and(|e| is_timeout(&e)));
        assert!(!late.is_overdrawn());
        late.grant_grace();
        assert!(late.check().is_ok());
        let short = Interrupt::new(cancellation.clone(), Some(Duration::ZERO), None);
        assert!(short.check_run().is_err());
        assert!(short.is_overdrawn());
        short.grant_grace();
        assert!(short.check().is_err());
        cancellation.cancel();
        for one in [&free, &late] {
            assert!(one.check().is_err_and(|e| e.kind() == ErrorKind::TaskCancelled));
        }
    }

    #[test]
    fn it_ends_when_too_much_memory_is_held() {
        use engine::breaker::BreakerLimits;
        let limits = BreakerLimits {
            total: 1 << 20,
            request: 1 << 20,
            in_flight_requests: 1 << 20,
        };
        let held = CircuitBreakers::new(limits, Arc::new(|| 2 << 20));
        let work = Interrupt::new(Cancellation::default(), None, Some(held));
        assert!(work.check().is_ok(), "it has just begun");
        std::thread::sleep(2 * HOLDS_LITTLE);
        let refused = work.check().expect_err("the process holds twice as much");
        assert_eq!(refused.kind(), ErrorKind::CircuitBreaking);
    }

    #[test]
    fn reserved_memory_is_given_back_at_the_end() {
        use engine::breaker::BreakerLimits;
        let limits = BreakerLimits {
            total: u64::MAX,
            request: 1 << 20,
            in_flight_requests: 1 << 20,
        };
        let breakers = CircuitBreakers::new(limits, Arc::new(|| 0));
        let used = || breakers.usage(Breaker::Request).used;
        let work = Interrupt::new(Cancellation::default(), None, Some(breakers.clone()));
        work.reserve(600 << 10).expect("it fits");
        let refused = work.clone().reserve(600 << 10).expect_err("it is beyond the limit");
        assert_eq!((refused.kind(), used()), (ErrorKind::CircuitBreaking, 600 << 10));
        work.release(200 << 10);
        assert_eq!(used(), 400 << 10);
        drop(work);
        assert_eq!(used(), 0);
    }
}
