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
/// A search that takes longer than this leaves its processor to threads that wait for it, again and again.
const YIELDS_AFTER: Duration = Duration::from_millis(2);
/// Between two such moments. The kernel looks for others once a tick, 4 ms: a short request that has used up its slice waits for that.
const YIELDS_EACH: Duration = Duration::from_micros(500);
/// A thread that ran for so long meanwhile is no short request, and does not yield itself: it writes or merges.
const LONG_AWAY: Duration = Duration::from_millis(1);
/// Beside such threads a search yields less often. Who yields gives up the rest of its slice; with [`YIELDS_EACH`] it got half of its share.
const YIELDS_BESIDE_WRITES: Duration = Duration::from_millis(10);
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
    /// Nanoseconds after `started` from which on a thread of it leaves its processor to others.
    next_yield: AtomicU64,
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
            next_yield: AtomicU64::new(nanos(YIELDS_AFTER)),
        }))
    }

    /// Whether to go on. A long search lets other threads go first before it does.
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
        self.yield_if_long(elapsed);
        let now = nanos(elapsed);
        if now < deadline {
            return Ok(());
        }
        if now < self.0.own {
            self.0.overdrawn.store(true, Ordering::Relaxed);
        }
        Err(Error::new(ErrorKind::SearchTimeout, "Time exceeded"))
    }

    /// Lets other threads go first if the search is long: for work that is not to stop in its midst.
    pub(crate) fn yield_to_others(&self) {
        self.yield_if_long(self.0.started.elapsed());
    }

    /// Threads of one search take turns: each yields about every [`YIELDS_EACH`] times their number.
    fn yield_if_long(&self, elapsed: Duration) {
        if nanos(elapsed) < self.0.next_yield.load(Ordering::Relaxed) {
            return;
        }
        self.0.next_yield.store(nanos(elapsed + YIELDS_EACH), Ordering::Relaxed);
        std::thread::yield_now();
        let resumed = self.0.started.elapsed();
        let away = resumed.saturating_sub(elapsed);
        let next = resumed + pause_after(away);
        self.0.next_yield.store(nanos(next), Ordering::Relaxed);
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

/// How long a search goes on before it yields again, after other threads ran for so long.
fn pause_after(away: Duration) -> Duration {
    if away < LONG_AWAY { YIELDS_EACH } else { YIELDS_BESIDE_WRITES }
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
    fn a_long_search_lets_others_go_first_now_and_then() {
        let work = Interrupt::new(Cancellation::default(), Some(Duration::from_secs(60)), None);
        let next = || work.0.next_yield.load(Ordering::Relaxed);
        assert_eq!(next(), nanos(YIELDS_AFTER));
        std::thread::sleep(YIELDS_AFTER);
        work.check().expect("it goes on");
        let second = next();
        assert!(second >= nanos(YIELDS_AFTER + YIELDS_EACH), "it yields again at {second} ns");
        std::thread::sleep(YIELDS_BESIDE_WRITES);
        work.yield_to_others();
        assert!(next() >= second + nanos(YIELDS_EACH), "and then at {} ns", next());
    }

    #[test]
    fn beside_writes_a_search_yields_less_often() {
        assert_eq!(pause_after(Duration::from_micros(300)), YIELDS_EACH);
        assert_eq!(pause_after(Duration::from_millis(4)), YIELDS_BESIDE_WRITES);
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
