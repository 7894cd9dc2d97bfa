//! The positions that an answer waits for (write-path.md 1.3).
//!
//! Not here: waiting (`durability`).

use crate::log::Durability;

/// An answer leaves when these positions are reached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitFor {
    /// Once durable up to here.
    pub(crate) durable: u64,
    /// Once written up to here (`async`).
    pub(crate) written: u64,
}

impl WaitFor {
    /// The wait for a record that ends at `end`.
    pub(crate) fn of(durability: Durability, end: u64) -> WaitFor {
        WaitFor {
            durable: match durability {
                Durability::Async => 0,
                Durability::Request => end,
            },
            written: end,
        }
    }
    pub(crate) fn also(&mut self, other: WaitFor) {
        self.durable = self.durable.max(other.durable);
        self.written = self.written.max(other.written);
    }
}
