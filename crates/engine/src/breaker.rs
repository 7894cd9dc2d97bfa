//! Circuit breakers: the one account of memory of the process.
//!
//! A request books the bytes that it is about to take with a child breaker and gives them back when the [`Booking`] is
//! dropped. Each child has a limit of its own; all together, and what the process really holds, have the parent's
//! (`indices.breaker.total.limit`). The model is Elasticsearch's hierarchy of circuit breakers with
//! `indices.breaker.total.use_real_memory`.
//!
//! Invariants, asserted where they could break:
//! * A child's `used` is the sum of its live bookings: it returns to 0 when all are dropped.
//! * A refused booking holds nothing.
//!
//! Before a request is refused for the parent's limit, caches are given up for it ([`CircuitBreakers::give_up_first`]):
//! what they keep can be read or worked out again.
//!
//! Not here: how resident memory is measured (the server passes a [`ResidentMemory`]), what the caches keep.

use model::settings::{HTTP_MAX_IN_FLIGHT, REQUEST_BREAKER, Setting, TOTAL_BREAKER};
use model::{Error, ErrorKind, Result, units};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Bookings up to so many bytes are not held against the parent: a small request is answered while large ones are refused.
pub const SMALL_REQUEST_BYTES: u64 = 64 << 10;

/// The child breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breaker {
    /// Memory that requests build while they run: parsed bodies, buckets, answers until they are sent.
    Request,
    /// Bodies of requests, decompressed.
    InFlightRequests,
}

impl Breaker {
    /// Every child, in the order of statistics.
    pub const ALL: [Breaker; 2] = [Breaker::Request, Breaker::InFlightRequests];

    /// As errors and `_nodes/stats` name it.
    pub fn name(self) -> &'static str {
        match self {
            Breaker::Request => "request",
            Breaker::InFlightRequests => "in_flight_requests",
        }
    }

    /// The setting of its limit.
    pub fn setting(self) -> Setting {
        match self {
            Breaker::Request => REQUEST_BREAKER,
            Breaker::InFlightRequests => HTTP_MAX_IN_FLIGHT,
        }
    }

    fn index(self) -> usize {
        match self {
            Breaker::Request => 0,
            Breaker::InFlightRequests => 1,
        }
    }
}

/// Measures the process's memory that the kernel cannot take back (not files mapped), in bytes. Cheap: it is asked often.
pub type ResidentMemory = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Gives up about so many bytes of what is kept only to answer sooner; says how many it gave up.
pub type GiveUp = Box<dyn Fn(u64) -> u64 + Send + Sync>;

/// Gives memory back that was freed on the calling thread and stays with its allocator.
pub type Reclaim = fn();

/// Limits in bytes.
#[derive(Clone, Copy, Debug)]
pub struct BreakerLimits {
    /// `indices.breaker.total.limit`.
    pub total: u64,
    /// `indices.breaker.request.limit`.
    pub request: u64,
    /// `http.max_in_flight_bytes`.
    pub in_flight_requests: u64,
}

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerUsage {
    pub limit: u64,
    pub used: u64,
    /// Refusals since the start.
    pub tripped: u64,
}

#[derive(Debug, Default)]
struct Child {
    limit: u64,
    used: AtomicU64,
    tripped: AtomicU64,
}

/// The parent and its children; one a process.
pub struct CircuitBreakers {
    limit: u64,
    tripped: AtomicU64,
    children: [Child; Breaker::ALL.len()],
    resident: ResidentMemory,
    /// Called before a refusal for what the process holds.
    reclaim: Reclaim,
    /// Called before that.
    caches: OnceLock<GiveUp>,
    /// Memory that the process held when requests last held little: its own.
    own: AtomicU64,
}

/// A forced booking looks for room so often before it is made.
const ROOM_EACH: Duration = Duration::from_millis(5);

/// Bookings up to so many bytes are little beside what the process holds for itself.
const LITTLE_BYTES: u64 = 1 << 20;

impl fmt::Debug for CircuitBreakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreakers")
            .field("limit", &self.limit)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}

impl CircuitBreakers {
    /// Breakers with these limits.
    pub fn new(limits: BreakerLimits, resident: ResidentMemory) -> Arc<CircuitBreakers> {
        CircuitBreakers::reclaiming(limits, resident, || ())
    }

    /// As [`CircuitBreakers::new`]; before a request is refused for what the process holds, `reclaim` is called on its
    /// thread: an allocator may keep what a thread freed, and a thread that is refused everything would never free it.
    pub fn reclaiming(limits: BreakerLimits, resident: ResidentMemory, reclaim: Reclaim) -> Arc<CircuitBreakers> {
        let child = |limit| Child {
            limit,
            ..Child::default()
        };
        Arc::new(CircuitBreakers {
            limit: limits.total,
            tripped: AtomicU64::new(0),
            children: [child(limits.request), child(limits.in_flight_requests)],
            resident,
            reclaim,
            caches: OnceLock::new(),
            own: AtomicU64::new(0),
        })
    }

    /// Caches that are given up before a request is refused; the first that are named.
    pub fn give_up_first(&self, caches: GiveUp) {
        drop(self.caches.set(caches));
    }

    /// Makes room for so many bytes: caches are given up, and what was freed goes back to the system.
    fn make_room(&self, bytes: u64) {
        let given_up = self.caches.get().map_or(0, |caches| caches(bytes));
        // Caches are the process's own.
        let less = |own: u64| Some(own.saturating_sub(given_up));
        let _ = self.own.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        (self.reclaim)();
    }

    /// Breakers that refuse nothing, for programs that embed the engine and for tests.
    pub fn without_limits() -> Arc<CircuitBreakers> {
        let limits = BreakerLimits {
            total: u64::MAX,
            request: u64::MAX,
            in_flight_requests: u64::MAX,
        };
        CircuitBreakers::new(limits, Arc::new(|| 0))
    }

    /// Books nothing yet with a child; [`Booking::grow`] does. `label` says in refusals what the bytes are for.
    pub fn open(self: &Arc<Self>, breaker: Breaker, label: &'static str) -> Booking {
        Booking {
            breakers: Some(self.clone()),
            breaker,
            label,
            bytes: 0,
        }
    }

    /// Books bytes with a child.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception` by the child's or the parent's name.
    pub fn book(self: &Arc<Self>, breaker: Breaker, label: &'static str, bytes: u64) -> Result<Booking> {
        let mut booking = self.open(breaker, label);
        booking.grow(bytes)?;
        Ok(booking)
    }

    /// Whether work that allocates without booking each byte may go on: what the process holds is within the parent's limit.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception` by the parent's name.
    pub fn check(&self, label: &str) -> Result<()> {
        let resident = (self.resident)();
        if resident <= self.limit {
            return Ok(());
        }
        self.make_room(resident - self.limit);
        let resident = (self.resident)();
        if resident <= self.limit {
            return Ok(());
        }
        Err(self.parent_refusal(label, resident, 0))
    }

    /// The parent's limit, what the process holds, refusals of the parent.
    pub fn parent(&self) -> BreakerUsage {
        BreakerUsage {
            limit: self.limit,
            used: (self.resident)().max(self.booked_bytes()),
            tripped: self.tripped.load(Ordering::Relaxed),
        }
    }

    /// The state of a child.
    pub fn usage(&self, breaker: Breaker) -> BreakerUsage {
        let child = &self.children[breaker.index()];
        BreakerUsage {
            limit: child.limit,
            used: child.used.load(Ordering::Relaxed),
            tripped: child.tripped.load(Ordering::Relaxed),
        }
    }

    fn booked_bytes(&self) -> u64 {
        let used = self.children.iter().map(|child| child.used.load(Ordering::Relaxed));
        used.fold(0, u64::saturating_add)
    }

    /// Adds to a child. `small`: not held against the parent.
    fn add(&self, breaker: Breaker, label: &str, bytes: u64, small: bool) -> Result<()> {
        let child = &self.children[breaker.index()];
        let used = child.used.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes);
        let refusal = if used > child.limit {
            child.tripped.fetch_add(1, Ordering::Relaxed);
            Some(child_refusal(breaker, label, used, child.limit))
        } else if small {
            None
        } else {
            let mut wanted = self.total_with(bytes);
            if wanted > self.limit {
                self.make_room(wanted - self.limit);
                wanted = self.total_with(bytes);
            }
            (wanted > self.limit).then(|| self.parent_refusal(label, wanted - bytes, bytes))
        };
        match refusal {
            None => Ok(()),
            Some(error) => {
                self.subtract(breaker, bytes);
                Err(error)
            }
        }
    }

    /// Bytes that the process is to hold with so many more, which are booked already. Booked bytes are soon held, beside
    /// what the process holds for itself: the larger of that and of what is held now counts.
    fn total_with(&self, bytes: u64) -> u64 {
        let resident = (self.resident)();
        let booked = self.booked_bytes();
        if booked - bytes.min(booked) <= LITTLE_BYTES {
            self.own.store(resident, Ordering::Relaxed);
        }
        let soon = self.own.load(Ordering::Relaxed).min(resident).saturating_add(booked);
        resident.saturating_add(bytes).max(soon)
    }

    fn subtract(&self, breaker: Breaker, bytes: u64) {
        let before = self.children[breaker.index()].used.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "a breaker gives back what was booked with it, once");
    }

    /// `held`: by the process now, or soon by what was booked before.
    fn parent_refusal(&self, label: &str, held: u64, bytes: u64) -> Error {
        self.tripped.fetch_add(1, Ordering::Relaxed);
        let wanted = held.saturating_add(bytes);
        let usages: Vec<String> = Breaker::ALL
            .iter()
            .map(|breaker| format!("{}={}", breaker.name(), render_size(self.usage(*breaker).used)))
            .collect();
        let reason = format!(
            "[parent] Data too large, data for [{label}] would be [{}], which is larger than the limit of [{}] \
             (setting [{}]), real usage: [{}], new bytes reserved: [{}], usages [{}]",
            render_size(wanted),
            render_size(self.limit),
            TOTAL_BREAKER.name,
            render_size(held),
            render_size(bytes),
            usages.join(", ")
        );
        refusal(reason, wanted, self.limit)
    }
}

fn child_refusal(breaker: Breaker, label: &str, wanted: u64, limit: u64) -> Error {
    let reason = format!(
        "[{}] Data too large, data for [{label}] would be [{}], which is larger than the limit of [{}] (setting [{}])",
        breaker.name(),
        render_size(wanted),
        render_size(limit),
        breaker.setting().name
    );
    refusal(reason, wanted, limit)
}

fn refusal(reason: String, wanted: u64, limit: u64) -> Error {
    Error::new(ErrorKind::CircuitBreaking, reason)
        .with("bytes_wanted", wanted)
        .with("bytes_limit", limit)
        .with("durability", "TRANSIENT")
}

/// `1048576/1mb`, as the reference writes it.
fn render_size(bytes: u64) -> String {
    format!("{bytes}/{}", units::render_bytes(bytes))
}

/// Bytes that are booked with a child until this is dropped.
#[derive(Debug)]
pub struct Booking {
    /// `None`: nobody counts ([`Booking::none`]).
    breakers: Option<Arc<CircuitBreakers>>,
    breaker: Breaker,
    label: &'static str,
    bytes: u64,
}

impl Booking {
    /// A booking with nobody, of nothing.
    pub fn none() -> Booking {
        Booking {
            breakers: None,
            breaker: Breaker::Request,
            label: "",
            bytes: 0,
        }
    }

    /// Books more. A booking that is refused more keeps what it had.
    ///
    /// # Errors
    /// 429 `circuit_breaking_exception` by the child's or the parent's name.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        let Some(breakers) = &self.breakers else { return Ok(()) };
        let small = self.bytes.saturating_add(bytes) <= SMALL_REQUEST_BYTES;
        breakers.add(self.breaker, self.label, bytes, small)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Books what is missing to so many bytes in all.
    ///
    /// # Errors
    /// As [`Booking::grow`].
    pub fn grow_to(&mut self, bytes: u64) -> Result<()> {
        self.grow(bytes.saturating_sub(self.bytes))
    }

    /// Books what is missing to so many bytes in all, whatever the limits are: for bytes that are held already.
    pub fn force_to(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes);
        if let Some(breakers) = &self.breakers {
            breakers.children[self.breaker.index()].used.fetch_add(more, Ordering::AcqRel);
            self.bytes += more;
        }
    }

    /// Books what is missing to so many bytes in all for work that cannot be refused: waits for room, at most for so long,
    /// then books whatever the limits are. Blocks the thread.
    pub fn wait_to(&mut self, bytes: u64, most: Duration) {
        let begun = Instant::now();
        while self.grow_to(bytes).is_err() {
            if begun.elapsed() >= most {
                return self.force_to(bytes);
            }
            std::thread::sleep(ROOM_EACH);
        }
    }

    /// Gives back all but so many bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if let Some(breakers) = &self.breakers {
            breakers.subtract(self.breaker, less);
        }
        self.bytes -= less;
        debug_assert!(self.bytes <= bytes, "no more stays booked than is asked for");
    }

    /// Booked bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Default for Booking {
    fn default() -> Self {
        Booking::none()
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn breakers(resident: u64) -> Arc<CircuitBreakers> {
        let limits = BreakerLimits {
            total: 10 * MB,
            request: 6 * MB,
            in_flight_requests: 8 * MB,
        };
        CircuitBreakers::new(limits, Arc::new(move || resident))
    }

    /// Books in order with all bookings held; whether the last one is refused, and by what name.
    fn check(resident: u64, bookings: &[(Breaker, u64)], expected: Option<&str>) {
        let breakers = breakers(resident);
        let mut held = Vec::new();
        let mut refused = None;
        for (n, (breaker, bytes)) in bookings.iter().enumerate() {
            match breakers.book(*breaker, "test", *bytes) {
                Ok(booking) => held.push(booking),
                Err(error) => {
                    assert_eq!(n + 1, bookings.len(), "only the last one may be refused: {error}");
                    refused = Some(error.reason().to_owned());
                }
            }
        }
        match (&refused, expected) {
            (Some(reason), Some(name)) => assert!(reason.starts_with(&format!("[{name}]")), "{reason}"),
            (refused, expected) => assert_eq!(refused.is_some(), expected.is_some(), "{refused:?}"),
        }
        drop(held);
        for breaker in Breaker::ALL {
            assert_eq!(breakers.usage(breaker).used, 0, "all of {breaker:?} is given back");
        }
    }

    #[test]
    fn bookings_are_bounded_by_child_and_parent() {
        use Breaker::{InFlightRequests, Request};
        check(0, &[(Request, 6 * MB)], None);
        check(0, &[(Request, 6 * MB), (Request, 1)], Some("request"));
        check(0, &[(Request, 5 * MB), (InFlightRequests, 5 * MB)], None);
        check(0, &[(Request, 5 * MB), (InFlightRequests, 5 * MB + 1)], Some("parent"));
        check(0, &[(InFlightRequests, 8 * MB + 1)], Some("in_flight_requests"));
        // Memory that the process really holds counts, whoever holds it.
        check(9 * MB, &[(Request, MB)], None);
        check(9 * MB, &[(Request, MB + 1)], Some("parent"));
        // Booked memory that is not touched yet comes on top of what the process holds for itself.
        check(4 * MB, &[(Request, 3 * MB), (InFlightRequests, 3 * MB)], None);
        check(4 * MB, &[(Request, 3 * MB), (InFlightRequests, 3 * MB + 1)], Some("parent"));
        // A small request passes where the parent is full.
        check(20 * MB, &[(InFlightRequests, SMALL_REQUEST_BYTES)], None);
        check(20 * MB, &[(InFlightRequests, SMALL_REQUEST_BYTES + 1)], Some("parent"));
    }

    /// Caches go first, as much of them as is missing; then requests are refused.
    #[test]
    fn caches_are_given_up_for_requests() {
        let held = Arc::new(AtomicU64::new(8 * MB));
        let measured = held.clone();
        let limits = BreakerLimits {
            total: 10 * MB,
            request: 10 * MB,
            in_flight_requests: 10 * MB,
        };
        let breakers = CircuitBreakers::new(limits, Arc::new(move || measured.load(Ordering::Relaxed)));
        let cached = AtomicU64::new(5 * MB);
        breakers.give_up_first(Box::new(move |wanted| {
            let given_up = wanted.min(cached.load(Ordering::Relaxed));
            cached.fetch_sub(given_up, Ordering::Relaxed);
            held.fetch_sub(given_up, Ordering::Relaxed);
            given_up
        }));
        let first = breakers
            .book(Breaker::Request, "test", 4 * MB)
            .expect("2 MB of the caches go");
        let second = breakers
            .book(Breaker::Request, "test", 2 * MB)
            .expect("the other 3 MB were enough");
        let refused = breakers
            .book(Breaker::Request, "test", 3 * MB)
            .expect_err("nothing is left to give up");
        assert!(refused.reason().starts_with("[parent]"), "{refused}");
        assert_eq!(first.bytes() + second.bytes(), 6 * MB);
        assert_eq!(breakers.parent().tripped, 1);
    }

    #[test]
    fn what_cannot_be_refused_waits_and_is_booked() {
        let breakers = breakers(9 * MB);
        let mut booking = breakers.open(Breaker::Request, "test");
        booking.wait_to(4 * MB, Duration::from_millis(20));
        assert_eq!((booking.bytes(), breakers.usage(Breaker::Request).used), (4 * MB, 4 * MB));
        drop(booking);
        assert_eq!(breakers.usage(Breaker::Request).used, 0);
    }

    #[test]
    fn a_booking_grows_and_keeps_what_it_had() {
        let breakers = breakers(0);
        let mut booking = breakers.open(Breaker::Request, "test");
        booking.grow(2 * MB).expect("there is room");
        booking.grow_to(4 * MB).expect("there is room");
        let refused = booking.grow(3 * MB).expect_err("there is none");
        assert_eq!((refused.status(), booking.bytes()), (429, 4 * MB));
        assert_eq!(breakers.usage(Breaker::Request).used, 4 * MB);
        booking.shrink_to(MB);
        assert_eq!(breakers.usage(Breaker::Request).used, MB);
        assert_eq!(breakers.usage(Breaker::Request).tripped, 1);
    }

    #[test]
    fn work_goes_on_within_the_limit() {
        assert!(breakers(10 * MB).check("test").is_ok());
        let refused = breakers(10 * MB + 1).check("aggregations").expect_err("too much is held");
        assert!(refused.reason().contains("[indices.breaker.total.limit]"), "{refused}");
    }
}
