//! Waiting for a lock, or working for long, on a thread that serves requests: its other tasks go on with another thread.
//!
//! Not here: threads for what always takes long (`workers`).

use crate::lock_order::{Mutex, MutexGuard};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work` where it is, and has another thread take over the tasks of this one meanwhile. That costs about 10 µs, so it
/// is for what is known to take longer. Outside of a runtime, and where there is one thread alone, it just runs.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Locks a mutex that is mostly held for less than 50 µs. A thread that waits longer lets another go on with its tasks.
pub(crate) fn lock_patiently(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    const SHORT_WAIT: Duration = Duration::from_micros(50);
    mutex.try_lock_for(SHORT_WAIT).unwrap_or_else(|| aside(|| mutex.lock()))
}
