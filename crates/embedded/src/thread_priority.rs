//! The priorities of threads, as `nice` counts them: short requests go before long ones, and these before merges.
//!
//! Beside other services they lose nothing, because Linux divides time between control groups and sessions first.
//!
//! Not here: which work is long (`lanes`, `rest::long_requests`).

/// Threads of requests with long bodies: with short requests to do, they get a quarter of a processor.
pub const LONG_REQUESTS: i32 = 5;
/// Threads of long searches, and their helpers: they leave the processors to all requests.
pub const LONG_SEARCHES: i32 = 10;
/// The thread of merges.
pub const MERGES: i32 = 10;

/// Lowers the priority of this thread alone. Where the system refuses, nothing depends on it.
pub fn lower(nice: i32) {
    debug_assert!((1..20).contains(&nice), "a priority is lowered, within what the system has");
    // SAFETY: it takes numbers only; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}
