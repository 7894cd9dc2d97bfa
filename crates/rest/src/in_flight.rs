//! Bytes of request bodies that are being read or worked on, all connections together, and their bound.
//!
//! What a request took is given back when it is dropped, however it ends: answered, or left by its client.

use model::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of one request among all.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl InFlight {
    /// None yet, of what is counted in `all`.
    pub(crate) fn of(all: &Arc<AtomicUsize>) -> InFlight {
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
        if self.all.fetch_add(bytes, Ordering::AcqRel) + bytes <= max {
            return Ok(());
        }
        let reason = format!("request bodies in flight exceed [{max}] bytes, the limit of [http.max_in_flight_bytes]");
        Err(Error::new(ErrorKind::CircuitBreaking, reason))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_given_back() {
        let all = Arc::new(AtomicUsize::new(0));
        let mut first = InFlight::of(&all);
        first.take(60, 100).expect("there is room");
        let mut second = InFlight::of(&all);
        let refused = second.take(60, 100).expect_err("there is none");
        assert!(refused.reason().contains("[http.max_in_flight_bytes]"), "{refused}");
        drop(second);
        first.take(40, 100).expect("a refused one holds nothing");
        drop(first);
        assert_eq!(all.load(Ordering::Acquire), 0);
    }
}
