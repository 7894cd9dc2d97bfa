//! While long work runs, the kernel chooses anew each half millisecond which thread has a processor.
//!
//! The scheduler of Linux (EEVDF) lets a thread run until its next tick, 4 ms at `CONFIG_HZ=250`, if the thread that wakes meanwhile has used
//! up its share: threads of short requests often have. One thread for each processor wakes each `threads.preemption_tick`, preempts what runs there
//! and sleeps again, and the kernel chooses among all that wait. It takes 1 to 2 % of a processor while long work runs, and nothing otherwise.
//!
//! Not here: what counts as long work (`engine::long_work`), priorities (`embedded::thread_priority`).

use engine::long_work::LongWork;
use model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether long work runs, while there was some lately. Shorter work ends by itself.
const LOOKS_EACH: Duration = Duration::from_millis(4);
/// Ticks go on for so long without long work: it comes in pieces.
const TICKS_ON: Duration = Duration::from_millis(20);
/// After so long without long work nothing looks until some begins.
const RESTS_AFTER: Duration = Duration::from_secs(1);
/// The stack of each thread.
const STACK_BYTES: usize = 64 << 10;

/// Starts the threads. They end with the process.
///
/// # Errors
/// The system gives no threads.
pub(crate) fn start(each: Duration, long_work: LongWork) -> Result<()> {
    let processors = processors();
    let count = processors.len();
    if each.is_zero() || count == 0 {
        return Ok(());
    }
    let ticking = Arc::new(Ticking::default());
    for processor in processors {
        let ticking = ticking.clone();
        spawn(&format!("tick-{processor}"), move || {
            stay_on(processor);
            crate::threads::ask_for_prompt_slices();
            ticking.tick(each);
        })?;
    }
    spawn("preemption-tick", move || watch(&long_work, count, &ticking))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    builder
        .spawn(run)
        .map(drop)
        .map_err(|cause| Error::new(ErrorKind::Internal, format!("starting the thread [{name}] failed: {cause}")))
}

/// Says when to tick.
fn watch(long_work: &LongWork, processors: usize, ticking: &Ticking) {
    loop {
        long_work.wait_until_begun();
        let mut seen = Instant::now();
        while seen.elapsed() < RESTS_AFTER {
            std::thread::sleep(LOOKS_EACH);
            if is_crowded(long_work.running(), processors) {
                seen = Instant::now();
            }
            ticking.set(seen.elapsed() < TICKS_ON);
        }
    }
}

/// Long work runs on half of the processors at least. Else a thread that wakes finds one that is free.
fn is_crowded(running: usize, processors: usize) -> bool {
    running > 0 && running * 2 >= processors
}

/// Whether threads tick.
#[derive(Default)]
struct Ticking {
    is_on: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Ticking {
    fn set(&self, on: bool) {
        if self.is_on.load(Ordering::Acquire) != on {
            let _lock = self.lock.lock();
            self.is_on.store(on, Ordering::Release);
            self.changed.notify_all();
        }
    }

    /// Wakes again and again while it is on.
    fn tick(&self, each: Duration) {
        loop {
            while self.is_on.load(Ordering::Acquire) {
                std::thread::sleep(each);
            }
            let mut lock = self.lock.lock();
            while !self.is_on.load(Ordering::Acquire) {
                self.changed.wait(&mut lock);
            }
        }
    }
}

/// The numbers of the processors that this process may use.
#[cfg(target_os = "linux")]
fn processors() -> Vec<usize> {
    // SAFETY: a set of bits, of which zeros are one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is as long as it says, and lives over the call; 0 is the calling thread.
    let read = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if read != 0 {
        return Vec::new();
    }
    let has = |number: &usize| {
        // SAFETY: the number is below the length of the set.
        unsafe { libc::CPU_ISSET(*number, &set) }
    };
    (0..libc::CPU_SETSIZE as usize).filter(has).collect()
}

/// Other systems have schedulers of their own.
#[cfg(not(target_os = "linux"))]
fn processors() -> Vec<usize> {
    Vec::new()
}

/// Runs this thread on one processor alone. Where the system refuses, it ticks where it is.
#[cfg(target_os = "linux")]
fn stay_on(processor: usize) {
    // SAFETY: a set of bits, of which zeros are one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is one of `processors`, below the length of the set; `set` lives over the call; 0 is the calling thread.
    unsafe {
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_on(_: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_long_searches_leave_processors_free() {
        for (running, processors, expected) in [
            (0, 1, false),
            (1, 1, true),
            (0, 2, false),
            (1, 2, true),
            (1, 4, false),
            (2, 4, true),
        ] {
            assert_eq!(is_crowded(running, processors), expected, "{running} on {processors}");
        }
    }

    /// Ticks begin with long work, go on while it runs, and end after it.
    #[test]
    fn it_ticks_while_long_work_runs() {
        let (long_work, ticking) = (LongWork::default(), Arc::new(Ticking::default()));
        let (watched, told) = (long_work.clone(), ticking.clone());
        spawn("watch", move || watch(&watched, 2, &told)).expect("a thread");
        let becomes = |on: bool| {
            let begun = Instant::now();
            while ticking.is_on.load(Ordering::Acquire) != on {
                assert!(begun.elapsed() < Duration::from_secs(20), "it is never {on}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for _ in 0..3 {
            let running = long_work.begin();
            becomes(true);
            std::thread::sleep(2 * TICKS_ON);
            assert!(ticking.is_on.load(Ordering::Acquire), "work goes on");
            drop(running);
            becomes(false);
        }
        std::thread::sleep(RESTS_AFTER + 2 * TICKS_ON);
        let _running = long_work.begin();
        becomes(true);
    }

    #[test]
    fn each_processor_of_the_process_is_known() {
        let known = processors();
        if cfg!(target_os = "linux") {
            let available = std::thread::available_parallelism().expect("a number").get();
            // A quota of a control group may leave less.
            assert!(known.len() >= available, "{known:?}");
        }
    }
}
