//! The allocator: mimalloc, asked for an alignment only where one is needed.
//!
//! A request with an alignment gets more memory from mimalloc and a slower way back, whenever the size is not a power of two and
//! more than 1 kB: it is not known there that what C's `malloc` promises would do.
//!
//! Zeroed memory of one size is the kernel's (`arenas`), and so are the buffers of connections (`buffers`).

mod arenas;
mod buffers;
mod places;

use arenas::ARENAS;
use buffers::BUFFERS;
use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

unsafe extern "C" {
    fn mi_malloc(size: usize) -> *mut c_void;
    fn mi_zalloc(size: usize) -> *mut c_void;
    fn mi_realloc(old: *mut c_void, size: usize) -> *mut c_void;
}

/// The alignment of `malloc`: `max_align_t` of every platform that we run on.
const NATURAL_ALIGN: usize = 16;

/// mimalloc.
pub(crate) struct Allocator;

/// Memory of that size has that alignment by itself.
fn is_natural(size: usize, align: usize) -> bool {
    align <= NATURAL_ALIGN && align <= size
}

// SAFETY: what is asked of mimalloc by itself is of a size for which it promises the alignment; all of it may be given
// back by `mi_free`, however it was asked for.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() == buffers::BYTES
            && layout.align() <= NATURAL_ALIGN
            && let Some(place) = BUFFERS.take()
        {
            return place;
        }
        if is_natural(layout.size(), layout.align()) {
            // SAFETY: any size may be asked for.
            unsafe { mi_malloc(layout.size()).cast() }
        } else {
            // SAFETY: as the caller promises.
            unsafe { MiMalloc.alloc(layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() == arenas::BYTES
            && layout.align() <= NATURAL_ALIGN
            && let Some(place) = ARENAS.take()
        {
            return place;
        }
        if is_natural(layout.size(), layout.align()) {
            // SAFETY: any size may be asked for.
            unsafe { mi_zalloc(layout.size()).cast() }
        } else {
            // SAFETY: as the caller promises.
            unsafe { MiMalloc.alloc_zeroed(layout) }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.size() == arenas::BYTES && ARENAS.holds(memory) {
            // SAFETY: as the caller promises.
            return unsafe { arenas::give_back(memory) };
        }
        if layout.size() == buffers::BYTES && BUFFERS.holds(memory) {
            // SAFETY: as the caller promises.
            return unsafe { BUFFERS.give_back(memory) };
        }
        // SAFETY: as the caller promises.
        unsafe { MiMalloc.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() == arenas::BYTES && ARENAS.holds(memory) || layout.size() == buffers::BYTES && BUFFERS.holds(memory) {
            // SAFETY: both are as large as what is copied, and the old one is given back once.
            return unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !new.is_null() {
                    new.copy_from_nonoverlapping(memory, size.min(layout.size()));
                    self.dealloc(memory, layout);
                }
                new
            };
        }
        if is_natural(size, layout.align()) {
            // SAFETY: it is mimalloc's, as the caller promises.
            unsafe { mi_realloc(memory.cast(), size).cast() }
        } else {
            // SAFETY: as the caller promises.
            unsafe { MiMalloc.realloc(memory, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_aligned() {
        for size in (1..5000).step_by(7).chain([1 << 16, (1 << 20) + 24]) {
            for align in [1usize, 2, 4, 8, 16, 32, 128, 4096] {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: sizes are not 0; each is given back once, by its layout.
                unsafe {
                    let plain = Allocator.alloc(layout);
                    let zeroed = Allocator.alloc_zeroed(layout);
                    assert_eq!((plain as usize % align, zeroed as usize % align), (0, 0), "{size} by {align}");
                    assert!((0..size).all(|at| *zeroed.add(at) == 0), "{size} by {align}");
                    plain.write_bytes(7, size);
                    let grown = Allocator.realloc(plain, layout, size * 3);
                    assert_eq!(grown as usize % align, 0, "{size} by {align}, grown");
                    assert!((0..size).all(|at| *grown.add(at) == 7), "{size} by {align}, grown");
                    let grown_layout = Layout::from_size_align(size * 3, align).expect("a layout");
                    Allocator.dealloc(grown, grown_layout);
                    Allocator.dealloc(zeroed, layout);
                }
            }
        }
    }

    #[test]
    fn places_are_zeroed_each_time() {
        let layout = Layout::from_size_align(arenas::BYTES, 1).expect("a layout");
        for round in 0..3 {
            // More than there are places: the others are mimalloc's.
            // SAFETY: each is given back once, by its layout.
            unsafe {
                let all: Vec<*mut u8> = (0..40).map(|_| Allocator.alloc_zeroed(layout)).collect();
                for (n, memory) in all.iter().enumerate() {
                    let bytes = std::slice::from_raw_parts_mut(*memory, arenas::BYTES);
                    assert!(bytes.iter().all(|byte| *byte == 0), "{n} in round {round}");
                    bytes.fill(u8::try_from(n).expect("few") | 1);
                }
                for (n, memory) in all.iter().enumerate() {
                    let bytes = std::slice::from_raw_parts(*memory, arenas::BYTES);
                    assert!(bytes.iter().all(|byte| usize::from(*byte) == n | 1), "{n} is nobody else's");
                    if n % 3 == 0 {
                        let grown = Allocator.realloc(*memory, layout, 2 * arenas::BYTES);
                        let bytes = std::slice::from_raw_parts(grown, arenas::BYTES);
                        assert!(
                            bytes.iter().all(|byte| usize::from(*byte) == n | 1),
                            "{n} keeps what it holds"
                        );
                        let layout = Layout::from_size_align(2 * arenas::BYTES, 1).expect("a layout");
                        Allocator.dealloc(grown, layout);
                    } else {
                        Allocator.dealloc(*memory, layout);
                    }
                }
            }
        }
    }

    #[test]
    fn buffers_are_nobody_elses() {
        let layout = Layout::from_size_align(buffers::BYTES, 1).expect("a layout");
        std::thread::scope(|scope| {
            for thread in 1..5u8 {
                scope.spawn(move || {
                    for _ in 0..50 {
                        // More than there are places for all threads: the others are mimalloc's.
                        // SAFETY: each is given back once, by its layout.
                        unsafe {
                            let all: Vec<*mut u8> = (0..100).map(|_| Allocator.alloc(layout)).collect();
                            for memory in &all {
                                memory.write_bytes(thread, buffers::BYTES);
                            }
                            std::thread::yield_now();
                            for (n, memory) in all.into_iter().enumerate() {
                                let grown = layout.size() << (n % 2);
                                let memory = Allocator.realloc(memory, layout, grown);
                                let bytes = std::slice::from_raw_parts(memory, buffers::BYTES);
                                assert!(bytes.iter().all(|byte| *byte == thread), "{n} of thread {thread}");
                                Allocator.dealloc(memory, Layout::from_size_align(grown, 1).expect("a layout"));
                            }
                        }
                    }
                });
            }
        });
        let place = BUFFERS.take().expect("places come back");
        assert!(BUFFERS.holds(place) && !BUFFERS.holds(std::ptr::null()));
        // SAFETY: it was taken here, and is not used.
        unsafe { BUFFERS.give_back(place) };
    }

    #[test]
    fn threads_never_share_a_place() {
        let layout = Layout::from_size_align(arenas::BYTES, 1).expect("a layout");
        std::thread::scope(|scope| {
            for thread in 1..5u8 {
                scope.spawn(move || {
                    for _ in 0..200 {
                        // SAFETY: each is given back once, by its layout.
                        unsafe {
                            let all: Vec<*mut u8> = (0..6).map(|_| Allocator.alloc_zeroed(layout)).collect();
                            for memory in &all {
                                assert_eq!((**memory, *memory.add(70_000)), (0, 0));
                                memory.write(thread);
                                memory.add(70_000).write(thread);
                            }
                            std::thread::yield_now();
                            for memory in all {
                                assert_eq!((*memory, *memory.add(70_000)), (thread, thread));
                                Allocator.dealloc(memory, layout);
                            }
                        }
                    }
                });
            }
        });
    }
}
