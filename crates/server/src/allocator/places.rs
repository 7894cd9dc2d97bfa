//! A few places of one size in memory of the system's own, as a bitmap says which are free.
//!
//! The memory has small pages: in huge ones two megabytes would be zeroed at the first touch.
//!
//! Not here: what lies in them (`arenas`, `buffers`).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Places of one word of bits.
const WORD: usize = u64::BITS as usize;

/// So many times 64 places of so many bytes, or fewer in the last word.
pub(super) struct Places<const BYTES: usize, const WORDS: usize> {
    /// Where the first place is; null until it is asked for, and for good where the system gives no such memory.
    first: AtomicPtr<u8>,
    /// Nothing can be mapped: the next ones need not try.
    failed: AtomicBool,
    /// A bit for each place that is free.
    free: [AtomicU64; WORDS],
}

impl<const BYTES: usize, const WORDS: usize> Places<BYTES, WORDS> {
    /// `last`: how many places the last word has.
    pub(super) const fn new(last: usize) -> Self {
        assert!(0 < last && last <= WORD && WORDS > 0);
        let mut free = [const { AtomicU64::new(u64::MAX) }; WORDS];
        free[WORDS - 1] = AtomicU64::new(u64::MAX >> (WORD - last));
        Places {
            first: AtomicPtr::new(null_mut()),
            failed: AtomicBool::new(false),
            free,
        }
    }

    /// Memory of `BYTES`, aligned to a page of the system; `None` if every place is taken.
    pub(super) fn take(&self) -> Option<*mut u8> {
        let first = self.first()?;
        self.free.iter().enumerate().find_map(|(word, free)| {
            if free.load(Ordering::Relaxed) == 0 {
                return None;
            }
            let taken = free.fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| {
                (free != 0).then(|| free & (free - 1))
            });
            let place = word * WORD + taken.ok()?.trailing_zeros() as usize;
            Some(first.wrapping_add(place * BYTES))
        })
    }

    /// Whether memory lies in one of the places.
    #[inline]
    pub(super) fn holds(&self, memory: *const u8) -> bool {
        self.place_of(memory).is_some()
    }

    #[inline]
    fn place_of(&self, memory: *const u8) -> Option<usize> {
        let first = self.first.load(Ordering::Acquire);
        let place = (memory as usize).wrapping_sub(first as usize) / BYTES;
        (!first.is_null() && place < WORDS * WORD).then_some(place)
    }

    /// Takes a place back.
    ///
    /// # Safety
    /// It was given by [`Places::take`], once, and nobody uses it any more.
    pub(super) unsafe fn give_back(&self, memory: *mut u8) {
        let place = self.place_of(memory);
        debug_assert!(place.is_some(), "not of these places");
        let Some(place) = place else { return };
        let bit = 1 << (place % WORD);
        let before = self.free[place / WORD].fetch_or(bit, Ordering::Release);
        debug_assert!(before & bit == 0, "a place is given back once");
    }

    /// Maps the places, once.
    fn first(&self) -> Option<*mut u8> {
        let known = self.first.load(Ordering::Acquire);
        if !known.is_null() {
            return Some(known);
        }
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let Some(mapped) = map(WORDS * WORD * BYTES) else {
            self.failed.store(true, Ordering::Relaxed);
            return None;
        };
        match self
            .first
            .compare_exchange(null_mut(), mapped, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Some(mapped),
            Err(other) => {
                unmap(mapped, WORDS * WORD * BYTES);
                Some(other)
            }
        }
    }
}

/// Memory that nobody else knows. It takes no room before it is touched.
#[cfg(target_os = "linux")]
fn map(bytes: usize) -> Option<*mut u8> {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    );
    // SAFETY: a mapping of its own.
    unsafe {
        let mapped = libc::mmap(null_mut(), bytes, protection, flags, -1, 0);
        if mapped == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(mapped, bytes, libc::MADV_NOHUGEPAGE);
        Some(mapped.cast::<u8>())
    }
}

/// Another thread was quicker.
#[cfg(target_os = "linux")]
fn unmap(mapped: *mut u8, bytes: usize) {
    // SAFETY: it is a mapping of `map`, of that length, which nobody else has seen.
    unsafe { libc::munmap(mapped.cast(), bytes) };
}

#[cfg(not(target_os = "linux"))]
fn map(_: usize) -> Option<*mut u8> {
    None
}

#[cfg(not(target_os = "linux"))]
fn unmap(_: *mut u8, _: usize) {}
