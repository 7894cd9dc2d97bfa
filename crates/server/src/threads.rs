//! The runtimes of the server: one for connections and short requests, one for requests with long bodies.
//!
//! A long body keeps its thread for as long as it is read and parsed. Threads of the first runtime are free for short requests, and
//! connections move between the two (`rest::home_runtime`). Threads of the first one ask the scheduler for a shorter slice
//! ([`PROMPT_SLICE`]), so that they run soon after they wake; those of the second one have a lower priority ([`LONG_REQUESTS`]).
//!
//! Not here: which requests are long (`rest::long_requests`).

use embedded::thread_priority::{self, LONG_REQUESTS};
use model::{Error, ErrorKind, Result};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Threads for long work end after so long without any.
const IDLE_THREAD: Duration = Duration::from_secs(1);
/// The slice of processor time that threads of short requests ask for. Linux from 6.12 on lets a thread that wakes preempt one with
/// a longer slice, 3 ms by default; each still gets the same share of the time. Its least value.
const PROMPT_SLICE: Duration = Duration::from_micros(100);

/// The runtime of connections and short requests.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn connections() -> Result<Runtime> {
    build(
        Builder::new_multi_thread()
            .thread_name("requests")
            .on_thread_start(ask_for_prompt_slices),
    )
}

/// The runtime of requests with long bodies.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn long_requests() -> Result<Runtime> {
    build(
        Builder::new_multi_thread()
            .thread_name("long-requests")
            .on_thread_start(|| thread_priority::lower(LONG_REQUESTS)),
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

/// Asks the scheduler to run this thread soon after it wakes. Threads that it starts, as those of the engine, have usual slices:
/// were all short, none would go before another. Older kernels ignore it, and no request depends on it.
#[cfg(target_os = "linux")]
pub(crate) fn ask_for_prompt_slices() {
    // SAFETY: it takes numbers only; 0 is the calling thread.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let attr = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: PROMPT_SLICE.as_nanos() as u64,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: `attr` is as long as it says, and lives over the call.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ask_for_prompt_slices() {}
