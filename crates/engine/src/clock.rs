//! Time, ids and randomness from outside, so that a seeded scheduler can own them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Monotonic; its zero is arbitrary.
    fn monotonic(&self) -> Duration;
    /// Milliseconds since 1970: for people and dates, never for leases.
    fn wall_ms(&self) -> i64;
    /// 64 fresh random bits.
    fn random(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    counter: AtomicU64,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock {
            start: Instant::now(),
            counter: AtomicU64::new(0),
        }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
    fn wall_ms(&self) -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }
    fn random(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(self.counter.fetch_add(1, Ordering::Relaxed));
        hasher.write_u128(self.start.elapsed().as_nanos());
        hasher.finish()
    }
}

/// A document id of 20 URL-safe characters, as Elasticsearch makes them: sortable by time, unique by randomness.
pub fn generated_id(clock: &dyn Clock) -> String {
    encode(
        &[
            &clock.wall_ms().to_be_bytes()[2..],
            &clock.random().to_be_bytes(),
            &clock.random().to_be_bytes()[..1],
        ]
        .concat(),
    )
}

/// An index or cluster uuid of 22 URL-safe characters.
pub fn uuid(clock: &dyn Clock) -> String {
    encode(&[clock.random().to_be_bytes(), clock.random().to_be_bytes()].concat())
}

/// URL-safe base64 without padding.
fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..=chunk.len() {
            out.push(ALPHABET[(word >> (18 - 6 * i) & 63) as usize] as char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_their_length_and_differ() {
        let clock = SystemClock::default();
        let (a, b) = (generated_id(&clock), generated_id(&clock));
        assert_eq!((a.len(), uuid(&clock).len()), (20, 22));
        assert_ne!(a, b);
        assert_eq!(encode(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw");
    }
}
