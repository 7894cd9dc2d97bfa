//! The cancellation of running work, and its deadline.
//!
//! Not here: who looks at it, and when (the engine's loops); the clock that deadlines are compared with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A flag that its clones share, and a deadline. It says nothing about what is wanted: any two are equal.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl PartialEq for Cancellation {
    fn eq(&self, _: &Cancellation) -> bool {
        true
    }
}

impl Cancellation {
    /// Asks the work of all clones to end.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }
    /// Was it asked to end?
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }
    /// The same flag with a deadline, after which a result in part is wanted.
    pub fn with_deadline(&self, deadline: Option<Instant>) -> Cancellation {
        Cancellation {
            cancelled: self.cancelled.clone(),
            deadline,
        }
    }
    /// When the time is over.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}
