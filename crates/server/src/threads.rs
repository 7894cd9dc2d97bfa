//! The runtimes of the server: one for connections and short requests, one for requests with long bodies.
//!
//! A long body keeps its thread for as long as it is parsed. Threads of the first runtime are free for short requests and for
//! connections whose clients hang up. Both have the same priority: with a lower one long requests starve beside other processes.
//!
//! Not here: which requests are long (`rest::long_requests`).

use model::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Threads for long work end after so long without any.
const IDLE_THREAD: Duration = Duration::from_secs(1);
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
    build(Builder::new_multi_thread().thread_name("long-requests"))
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
