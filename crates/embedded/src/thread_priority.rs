//! The priorities of threads, as `nice` counts them: short requests go before long ones, and these before merges.
//!
//! A thread that wakes preempts one of a lower priority at once. Beside one of the same priority it waits for the end of a slice, 3 ms:
//! a GET in a hundred did so beside bulks and builds. One that has used up its own slice waits for the kernel's next tick, also beside a
//! lower priority. While long work runs, `server::preemption_tick` makes the kernel choose each half millisecond.
//!
//! Beside other services they lose nothing, because Linux divides time between control groups and sessions first.
//!
//! Not here: which work is long (`lanes`, `rest::long_requests`).

/// Threads of short requests and of searches that are expected to be short.
pub const REQUESTS: i32 = 0;
/// Threads of requests with long bodies: with short requests to do, they get a quarter of a processor.
pub const LONG_REQUESTS: i32 = 5;
/// Threads of batches of writes: they get as much as the requests that wait for them.
pub const WRITES: i32 = LONG_REQUESTS;
/// The threads of builds in time and of checkpoints: they get as much as the writes that they make room for.
pub const BUILDS: i32 = LONG_REQUESTS;
/// Threads of long searches, and their helpers: they leave the processors to short requests and get as much as writes.
pub const LONG_SEARCHES: i32 = WRITES;
/// The thread of merges.
pub const MERGES: i32 = 10;
/// Threads that read and write the files of snapshots.
pub const SNAPSHOTS: i32 = 10;

/// The lowest priority that the system has.
const LOWEST: i32 = 19;

/// Lowers the priority of this thread alone, by so much below that of the process (`nice pleach`, `Nice=` of a unit). Where the system
/// refuses, nothing depends on it.
pub fn lower(by: i32) {
    debug_assert!((0..20).contains(&by), "a priority is lowered, within what the system has");
    if by == REQUESTS {
        return;
    }
    let process = libc::id_t::from(std::process::id());
    // SAFETY: both calls take numbers only. The id of a process is that of its first thread; 0 is the calling thread.
    unsafe {
        let usual = libc::getpriority(libc::PRIO_PROCESS, process);
        libc::setpriority(libc::PRIO_PROCESS, 0, (usual + by).min(LOWEST));
    }
}
