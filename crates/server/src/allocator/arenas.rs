//! Zeroed memory that hardly anybody touches: tantivy's writers ask for seven pages of a megabyte each before they see their
//! first document, and of one document they fill a few kilobytes. Out of used memory they would have to be zeroed, all of
//! them, and whatever the processor had at hand would be gone; here the kernel zeroes what is touched, when it is.
//!
//! A few places, so that large builds, which fill theirs, get nearly all of them from mimalloc as before.
//!
//! Not here: any other size.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The one size that is served: a page of `tantivy_stacker`'s arena.
pub(super) const BYTES: usize = 1 << 20;
/// How many there are at once.
const PLACES: usize = 16;

/// Where the first place is; null until it is asked for, and for good where the system gives no such memory.
static FIRST: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// A bit for each place that is free.
static FREE: AtomicU32 = AtomicU32::new((1 << PLACES) - 1);

/// Zeroed memory of [`BYTES`], aligned to a page of the system; `None` if every place is taken.
pub(super) fn take() -> Option<*mut u8> {
    let first = first()?;
    let taken = FREE.fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| {
        (free != 0).then(|| free & (free - 1))
    });
    let place = taken.ok()?.trailing_zeros() as usize;
    Some(first.wrapping_add(place * BYTES))
}

/// Whether memory lies in one of the places.
#[inline]
pub(super) fn holds(memory: *const u8) -> bool {
    place_of(memory) < PLACES
}

fn place_of(memory: *const u8) -> usize {
    let first = FIRST.load(Ordering::Acquire);
    if first.is_null() {
        return PLACES;
    }
    (memory as usize).wrapping_sub(first as usize) / BYTES
}

/// Takes a place back.
///
/// # Safety
/// It was given by [`take`], once, and nobody uses it any more.
pub(super) unsafe fn give_back(memory: *mut u8) {
    let place = place_of(memory);
    debug_assert!(place < PLACES, "not of these places");
    // SAFETY: the place is mapped for as long as the process runs, and the caller says that it is not used.
    unsafe {
        if !forget(memory) {
            memory.write_bytes(0, BYTES);
        }
    }
    FREE.fetch_or(1 << place, Ordering::Release);
}

/// Maps the places, once.
#[cfg(target_os = "linux")]
fn first() -> Option<*mut u8> {
    /// Nothing can be mapped: the next ones need not try.
    static FAILED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    let known = FIRST.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    if FAILED.load(Ordering::Relaxed) {
        return None;
    }
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a mapping of its own, which nobody else knows. In huge pages two megabytes would be zeroed at the first touch.
    let mapped = unsafe {
        let mapped = libc::mmap(null_mut(), PLACES * BYTES, protection, flags, -1, 0);
        if mapped == libc::MAP_FAILED {
            FAILED.store(true, Ordering::Relaxed);
            return None;
        }
        libc::madvise(mapped, PLACES * BYTES, libc::MADV_NOHUGEPAGE);
        mapped.cast::<u8>()
    };
    match FIRST.compare_exchange(null_mut(), mapped, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(mapped),
        Err(other) => {
            // SAFETY: another thread was quicker, and nobody saw this mapping.
            unsafe { libc::munmap(mapped.cast(), PLACES * BYTES) };
            Some(other)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn first() -> Option<*mut u8> {
    None
}

/// Gives the pages back, so that they read as zeros again.
///
/// # Safety
/// As [`give_back`].
#[cfg(target_os = "linux")]
unsafe fn forget(memory: *mut u8) -> bool {
    // SAFETY: what is private and anonymous reads as zeros after this; the caller says that nobody uses it.
    unsafe { libc::madvise(memory.cast(), BYTES, libc::MADV_DONTNEED) == 0 }
}

/// There are none to give back.
///
/// # Safety
/// None.
#[cfg(not(target_os = "linux"))]
unsafe fn forget(_memory: *mut u8) -> bool {
    false
}
