//! The memory of this process and the memory that it may use, as the kernel says.
//!
//! Requests are refused for anonymous memory alone: the kernel takes pages of files back. Those of mapped files are
//! released when they and the anonymous memory together are more than the limit, so that the process stays near it.
//!
//! Not here: what becomes of a request when there is too little (`engine::breaker`).

use embedded::thread_priority;
use engine::breaker::ResidentMemory;
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

/// How old a measure may be: in a millisecond two cores touch a few megabytes at most.
const MEASURE_EACH: Duration = Duration::from_millis(1);

/// How often the resident memory is looked at while it is more than half of the limit.
const RELEASE_EACH: Duration = Duration::from_millis(25);

/// A measure of anonymous resident memory, in bytes; constantly 0 where the kernel does not tell.
///
/// Where resident memory with the pages of files is more than `limit`, the pages of mapped files are released. A thread of
/// its own does it, which sleeps until a request's measure finds more than half of the limit. Below that half the process has no huge
/// pages.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn resident(limit: u64) -> std::io::Result<ResidentMemory> {
    let watch = std::thread::Builder::new().name("release-pages".to_owned()).spawn(move || {
        // It frees for milliseconds at a time.
        thread_priority::lower(thread_priority::LONG_REQUESTS);
        watch_mapped_pages(limit);
    })?;
    let huge_pages = HugePages::forbid();
    Ok(measure(move |all| {
        huge_pages.allow(all > limit / 2);
        if all > limit / 2 {
            watch.thread().unpark();
        }
    }))
}

fn watch_mapped_pages(limit: u64) {
    let Some(source) = statm() else { return };
    let mut seen_shortages = 0;
    loop {
        // What other threads gave up is still resident until somebody purges it.
        let shortages = SHORTAGES.load(Ordering::Relaxed);
        if std::mem::replace(&mut seen_shortages, shortages) != shortages {
            give_back();
        }
        match resident_pages(&source) {
            Some(pages) if pages.all * page_bytes() > limit => disk::release_mapped_pages(),
            Some(pages) if pages.all * page_bytes() > limit / 2 => {}
            _ => std::thread::park(),
        }
        std::thread::sleep(RELEASE_EACH);
    }
}

/// A measure of anonymous resident memory; each measure gives `all_resident` the bytes with those of files.
fn measure(all_resident: impl Fn(u64) + Send + Sync + 'static) -> ResidentMemory {
    let start = Instant::now();
    let measured_at = AtomicU64::new(u64::MAX);
    let measured = AtomicU64::new(0);
    let source = statm();
    Arc::new(move || {
        let Some(source) = &source else { return 0 };
        let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        let last = measured_at.load(Ordering::Acquire);
        let is_fresh = last != u64::MAX && now.saturating_sub(last) < MEASURE_EACH.as_nanos() as u64;
        if !is_fresh {
            if let Some(pages) = resident_pages(source) {
                measured.store((pages.all - pages.of_files) * page_bytes(), Ordering::Release);
                all_resident(pages.all * page_bytes());
            }
            measured_at.store(now, Ordering::Release);
        }
        measured.load(Ordering::Acquire)
    })
}

/// How often a thread gives memory back at most: it looks through all that it holds.
const RECLAIM_EACH: Duration = Duration::from_millis(100);

thread_local! {
    static RECLAIMED: Cell<Option<Instant>> = const { Cell::new(None) };
    static SEEN_SHORTAGES: Cell<u64> = const { Cell::new(0) };
}

/// How often memory was short.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

/// mimalloc's `mi_option_purge_delay`: its place in the options of version 3, which a test compares.
const PURGE_DELAY_OPTION: c_int = 15;
/// How long mimalloc keeps free pages before it gives them back, in milliseconds. With its own 1,000 a server that is loaded
/// by two clients holds 75 MB more, as fast; with 0 it loads 7 % slower.
const PURGE_DELAY_MS: c_long = 50;

unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Free pages go back to the system after [`PURGE_DELAY_MS`], unless the environment has another `MIMALLOC_PURGE_DELAY`. To be
/// called before threads start.
pub(crate) fn purge_soon() {
    // SAFETY: the allocator's own function, of this signature; an option that does not exist is left alone.
    unsafe { mi_option_set_default(PURGE_DELAY_OPTION, PURGE_DELAY_MS) };
}

/// Whether this process may have transparent huge pages; `MIMALLOC_ALLOW_THP` in the environment leaves that to the system.
///
/// Of a huge page of 2 MB that is touched all is resident, and mimalloc gives back only what it has used: 1,000 indices took 61 MB with
/// huge pages and 28 without, loads and searches as long (docs/performance.md). Where most of the memory is taken by large requests,
/// huge pages are touched and given back with less work. What is touched already stays as it is.
#[derive(Debug)]
struct HugePages {
    are_allowed: AtomicBool,
    /// The system decides.
    is_fixed: bool,
}

impl HugePages {
    /// Forbids them.
    fn forbid() -> HugePages {
        let pages = HugePages {
            are_allowed: AtomicBool::new(true),
            is_fixed: std::env::var_os("MIMALLOC_ALLOW_THP").is_some(),
        };
        pages.allow(false);
        pages
    }

    /// Allows or forbids them for what is touched from here on.
    fn allow(&self, allowed: bool) {
        if self.is_fixed || self.are_allowed.swap(allowed, Ordering::Relaxed) == allowed {
            return;
        }
        #[cfg(target_os = "linux")]
        // SAFETY: the call changes a flag of the process and touches no memory. A kernel without the flag refuses it.
        unsafe {
            libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!allowed), 0, 0, 0)
        };
    }
}

/// Gives memory back to the system: what this thread freed, and what the allocator keeps for all threads. It takes
/// milliseconds for each 100 MB.
pub(crate) fn give_back() {
    // SAFETY: the allocator's own function, of this signature; it may be called at any time.
    unsafe { mi_collect(true) };
}

/// Gives what this thread freed to the allocator of all threads, which purges it later.
fn give_up() {
    // SAFETY: as in `give_back`.
    unsafe { mi_collect(false) };
}

/// Gives memory back ([`give_back`]), if that was not done just now, and asks the other threads to give up theirs when they
/// rest ([`reclaim_at_rest`]): each has a heap of its own. Requests that share the thread go to another one meanwhile.
pub(crate) fn reclaim() {
    let now = Instant::now();
    let is_due = |last: Instant| now.duration_since(last) >= RECLAIM_EACH;
    if RECLAIMED.get().is_some_and(|last| !is_due(last)) {
        return;
    }
    RECLAIMED.set(Some(now));
    SHORTAGES.fetch_add(1, Ordering::Relaxed);
    let give_back = || {
        give_back();
        // The next question measures anew.
        std::thread::sleep(MEASURE_EACH);
    };
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(give_back),
        _ => give_back(),
    }
}

/// A thread that rests gives up what it freed, if memory was short since it last did. The thread of [`resident`] purges it:
/// a request that comes meanwhile does not wait for the system.
pub(crate) fn reclaim_at_rest() {
    let shortages = SHORTAGES.load(Ordering::Relaxed);
    if SEEN_SHORTAGES.replace(shortages) != shortages {
        give_up();
    }
}

/// Resident pages, and those of them that belong to files.
struct ResidentPages {
    all: u64,
    of_files: u64,
}

fn resident_pages(statm: &std::fs::File) -> Option<ResidentPages> {
    use std::os::unix::fs::FileExt as _;
    let mut text = [0; 128];
    let length = statm.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(|n| n.parse::<u64>().ok());
    let (all, shared) = (pages.next()??, pages.next()??);
    Some(ResidentPages {
        all,
        of_files: shared.min(all),
    })
}

fn statm() -> Option<std::fs::File> {
    std::fs::File::open("/proc/self/statm").ok()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf reads a constant and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

/// The memory that the process may use: the machine's, or its cgroup's where that is less; 1 GB where neither is known.
pub(crate) fn available_bytes() -> u64 {
    let limits = [
        // cgroup v2, then v1.
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let cgroup = limits
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok())
        .min();
    let machine = machine_bytes().unwrap_or(1 << 30);
    cgroup.map_or(machine, |cgroup| cgroup.min(machine))
}

fn machine_bytes() -> Option<u64> {
    // SAFETY: sysconf reads a constant and touches no memory of ours.
    let pages = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) };
    let pages = u64::try_from(pages).ok().filter(|pages| *pages > 0)?;
    Some(pages * page_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mi_option_get(option: c_int) -> c_long;
    }

    #[test]
    fn what_is_touched_is_measured() {
        if statm().is_none() {
            return;
        }
        let resident = measure(|_| ());
        let before = resident();
        // Other tests give memory back meanwhile, but not so much.
        let held = vec![7_u8; 256 << 20];
        std::thread::sleep(2 * MEASURE_EACH);
        let after = resident();
        assert!(after >= before + (128 << 20), "{before} then {after}");
        drop(held);
    }

    #[test]
    fn the_delay_of_purges_is_that_of_the_allocator() {
        // SAFETY: as in `purge_soon`.
        let delay = || unsafe { mi_option_get(PURGE_DELAY_OPTION) };
        // No other option has this default: a new version of the allocator has not moved it.
        assert_eq!(delay(), 1_000);
        purge_soon();
        assert_eq!(delay(), PURGE_DELAY_MS);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn huge_pages_are_allowed_and_forbidden() {
        // SAFETY: the call reads a flag of the process.
        let are_disabled = || unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) } == 1;
        let pages = HugePages {
            are_allowed: AtomicBool::new(true),
            is_fixed: false,
        };
        for allowed in [false, true, true, false] {
            pages.allow(allowed);
            assert_eq!(are_disabled(), !allowed);
        }
        HugePages { is_fixed: true, ..pages }.allow(true);
        assert!(are_disabled());
    }

    #[test]
    fn some_memory_is_available() {
        assert!(available_bytes() > 1 << 20);
    }
}
