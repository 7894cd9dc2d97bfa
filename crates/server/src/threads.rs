//! The runtimes of the server: one for connections and short requests, one for requests with long bodies.
//!
//! Threads of long requests have a lower priority (nice 5, as long searches): a short request finds a processor within
//! the system's shortest slice, however many long bodies are parsed.
//!
//! Not here: which requests are long (`rest::long_requests`).

use model::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Threads for long work end after so long without any.
const IDLE_THREAD: Duration = Duration::from_secs(1);
/// What threads of long requests add to the process's nice value: about a third of the share of a short request's thread.
const LONG_REQUESTS_NICE: libc::c_int = 5;

/// The runtime of connections and short requests.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn connections() -> Result<Runtime> {
    build(Builder::new_multi_thread().thread_name("requests"))
}

/// The runtime of requests with long bodies.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn long_requests() -> Result<Runtime> {
    build(
        Builder::new_multi_thread()
            .thread_name("long-requests")
            .on_thread_start(lower_priority),
    )
}

fn build(builder: &mut Builder) -> Result<Runtime> {
    builder
        .enable_all()
        // A thread that rests keeps what was freed to its allocator; one that ends gives it back.
        .thread_keep_alive(IDLE_THREAD)
        .on_thread_park(crate::memory::reclaim_at_rest)
        .build()
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("starting threads failed: {cause}")))
}

fn lower_priority() {
    // SAFETY: the call changes the priority of this thread alone. That it fails does not matter.
    unsafe {
        let nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, nice + LONG_REQUESTS_NICE);
    }
}
