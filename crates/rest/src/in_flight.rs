//! Bytes of request bodies that are being read or worked on, all connections together, and their bound.
//!
//! What a request took is given back when it is dropped, however it ends: answered, or left by its client.

use model::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The bytes of all requests together.
#[derive(Debug, Default)]
pub(crate) struct AllInFlight {
    used: AtomicUsize,
    refused: AtomicU64,
}

impl AllInFlight {
    /// Bytes that are being read or worked on.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed) as u64
    }
    /// Requests that found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The bytes of one request among all.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    all: Arc<AllInFlight>,
    own: usize,
}

impl InFlight {
    /// None yet, of what is counted in `all`.
    pub(crate) fn of(all: &Arc<AllInFlight>) -> InFlight {
        InFlight {
            all: all.clone(),
            own: 0,
        }
    }

    /// Takes more.
    ///
    /// # Errors
    /// 429 with the setting's name, beyond `max` for all.
    pub(crate) fn take(&mut self, bytes: usize, max: usize) -> Result<()> {
        self.own += bytes;
        if self.all.used.fetch_add(bytes, Ordering::AcqRel) + bytes <= max {
            return Ok(());
        }
        self.all.refused.fetch_add(1, Ordering::Relaxed);
        let reason = format!("request bodies in flight exceed [{max}] bytes, the limit of [http.max_in_flight_bytes]");
        Err(Error::new(ErrorKind::CircuitBreaking, reason))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.all.used.fetch_sub(self.own, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_given_back() {
        let all = Arc::<AllInFlight>::default();
        let mut first = InFlight::of(&all);
        first.take(60, 100).expect("there is room");
        let mut second = InFlight::of(&all);
        let refused = second.take(60, 100).expect_err("there is none");
        assert!(refused.reason().contains("[http.max_in_flight_bytes]"), "{refused}");
        drop(second);
        first.take(40, 100).expect("a refused one holds nothing");
        drop(first);
        assert_eq!((all.used_bytes(), all.refused()), (0, 1));
    }
}
