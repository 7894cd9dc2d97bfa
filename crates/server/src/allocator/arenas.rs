//! Zeroed memory that hardly anybody touches: tantivy's writers ask for seven pages of a megabyte each before they see their
//! first document, and of one document they fill a few kilobytes. Out of used memory they would have to be zeroed, all of
//! them, and whatever the processor had at hand would be gone; here the kernel zeroes what is touched, when it is.
//!
//! A few places, so that large builds, which fill theirs, get nearly all of them from mimalloc as before.
//!
//! Not here: any other size.

use super::places::Places;

/// The one size that is served: a page of `tantivy_stacker`'s arena.
pub(super) const BYTES: usize = 1 << 20;

/// 16 arenas. An arena that is taken is zeroed and aligned to a page of the system; [`give_back`] takes it back.
pub(super) static ARENAS: Places<BYTES, 1> = Places::new(16);

/// Takes a place back, zeroed.
///
/// # Safety
/// It was given by [`ARENAS`], once, and nobody uses it any more.
pub(super) unsafe fn give_back(memory: *mut u8) {
    // SAFETY: the place is mapped for as long as the process runs, and the caller says that it is not used.
    unsafe {
        if !forget(memory) {
            memory.write_bytes(0, BYTES);
        }
        ARENAS.give_back(memory);
    }
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
