//! Which client calls, and whether it is the only one: the listener polls its socket then, and the engine syncs on its
//! thread. One value is shared by all who ask.
//!
//! A client is a task, which is one connection. Not here: what is done for a client that is alone.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A client is alone after it was the only one to call for so long.
pub const ALONE_AFTER: Duration = Duration::from_millis(20);

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(NonZeroU64);

impl ClientId {
    /// The client of a task, by anything that tells tasks apart.
    pub fn of(task: impl Hash) -> ClientId {
        let mut hasher = DefaultHasher::new();
        task.hash(&mut hasher);
        ClientId(NonZeroU64::MIN | hasher.finish())
    }
}

/// The calls of all clients.
#[derive(Debug)]
pub struct ClientActivity {
    begun: Instant,
    alone_after: Duration,
    /// The last to call; 0: nobody has.
    last: AtomicU64,
    /// When a client called that was not the one before, in nanoseconds since `begun`.
    changed_ns: AtomicU64,
}

impl Default for ClientActivity {
    fn default() -> ClientActivity {
        ClientActivity::alone_after(ALONE_AFTER)
    }
}

impl ClientActivity {
    /// With another time after which a client is alone.
    pub fn alone_after(alone_after: Duration) -> ClientActivity {
        ClientActivity {
            begun: Instant::now(),
            alone_after,
            last: AtomicU64::new(0),
            changed_ns: AtomicU64::new(0),
        }
    }

    /// A client calls.
    pub fn note(&self, client: ClientId) {
        if !self.is_last(client) {
            self.last.store(client.0.get(), Ordering::Relaxed);
            self.changed_ns.store(self.now_ns(), Ordering::Relaxed);
        }
    }

    /// No other client has called since this one.
    pub fn is_last(&self, client: ClientId) -> bool {
        self.last.load(Ordering::Relaxed) == client.0.get()
    }

    /// No other client has called lately.
    pub fn is_alone(&self, client: ClientId) -> bool {
        let since = self.now_ns().saturating_sub(self.changed_ns.load(Ordering::Relaxed));
        self.is_last(client) && u128::from(since) > self.alone_after.as_nanos()
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_is_who_is_the_only_one_for_a_while() {
        const SHORT: Duration = Duration::from_millis(5);
        let activity = ClientActivity::alone_after(SHORT);
        let (one, other) = (ClientId::of(1), ClientId::of(2));
        assert!(!activity.is_alone(one) && !activity.is_last(one), "nobody has called");
        activity.note(one);
        assert!(activity.is_last(one) && !activity.is_alone(one), "not long enough");
        std::thread::sleep(2 * SHORT);
        activity.note(one);
        assert!(activity.is_alone(one) && !activity.is_alone(other));
        activity.note(other);
        activity.note(one);
        assert!(activity.is_last(one) && !activity.is_alone(one), "another came between");
    }
}
