//! Failed logins: who fails again and again waits longer and longer, by user and address, and by address alone.
//!
//! Bounded: of many the oldest are forgotten. A login that succeeds forgets its name's failures.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Failures without a wait: people mistype.
const FREE: u32 = 3;
/// An address may be that of many.
const FREE_OF_ADDRESS: u32 = 30;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// After so long without another a failure is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);
/// Names and addresses that are remembered.
const KEPT_MAX: usize = 10_000;

const _: () = assert!(
    FREE <= FREE_OF_ADDRESS,
    "an address may be that of many, who fail more often than one"
);
const _: () = assert!(
    FIRST_WAIT.as_millis() <= LONGEST_WAIT.as_millis() && LONGEST_WAIT.as_millis() < FORGOTTEN_AFTER.as_millis(),
    "waits grow up to the longest, and end before what they are for is forgotten"
);

#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<(String, String), Failures>>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Duration,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the next attempt waits.
    pub(super) fn delay(&self, name: &str, peer: &str, now: Duration) -> Duration {
        let known = self.lock();
        let of = |name: &str, free: u32| {
            let failures = known.get(&(name.to_owned(), peer.to_owned()));
            let recent = failures.filter(|failures| now.saturating_sub(failures.last) < FORGOTTEN_AFTER);
            let count = recent.map_or(0, |failures| failures.count);
            match count.checked_sub(free) {
                None | Some(0) => Duration::ZERO,
                Some(over) => FIRST_WAIT
                    .saturating_mul(2u32.saturating_pow((over - 1).min(10)))
                    .min(LONGEST_WAIT),
            }
        };
        of(name, FREE).max(of("", FREE_OF_ADDRESS))
    }

    pub(super) fn fail(&self, name: &str, peer: &str, now: Duration) {
        let mut known = self.lock();
        // The name of a user is bounded by the request's head; what is kept is less.
        let name: String = name.chars().take(256).collect();
        for key in [(name, peer.to_owned()), (String::new(), peer.to_owned())] {
            if known.len() >= KEPT_MAX && !known.contains_key(&key) {
                known.retain(|_, failures| now.saturating_sub(failures.last) < FORGOTTEN_AFTER);
                let oldest = known
                    .iter()
                    .min_by_key(|(_, failures)| failures.last)
                    .map(|(key, _)| key.clone());
                if let Some(oldest) = oldest.filter(|_| known.len() >= KEPT_MAX) {
                    known.remove(&oldest);
                }
            }
            let failures = known.entry(key).or_insert(Failures { count: 0, last: now });
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
        debug_assert!(known.len() <= KEPT_MAX, "names and addresses that are remembered are bounded");
    }

    pub(super) fn forget(&self, name: &str, peer: &str) {
        self.lock().remove(&(name.to_owned(), peer.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_waits() {
        let attempts = Attempts::default();
        let at = Duration::from_secs(1000);
        let millis = |now| attempts.delay("u", "p", now).as_millis();
        for (failures, expected) in [(3, 0), (1, 100), (1, 200), (1, 400), (10, 5000)] {
            for _ in 0..failures {
                attempts.fail("u", "p", at);
            }
            assert_eq!(millis(at), expected);
        }
        assert_eq!(attempts.delay("u", "q", at).as_millis(), 0, "another address");
        assert_eq!(millis(at + FORGOTTEN_AFTER), 0);
        attempts.forget("u", "p");
        assert_eq!(millis(at), 0);
        for n in 0..2 * KEPT_MAX {
            attempts.fail(&n.to_string(), &n.to_string(), at);
        }
        assert!(attempts.lock().len() <= KEPT_MAX);
    }
}
