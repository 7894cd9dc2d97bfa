//! Waiting for a lock, or working for long, on a thread that serves requests: its other tasks go on with another thread.
//!
//! Not here: threads for what always takes long (`workers`).

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs `work` where it is, and has another thread take over the tasks of this one meanwhile. That costs about 10 µs, so it
/// is for what is known to take longer. Outside of a runtime, and where there is one thread alone, it just runs.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
