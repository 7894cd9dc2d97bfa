//! Mapped files, and giving their resident pages back.
//!
//! A mapped page counts as resident memory of the process from its first read until the kernel needs the memory. Where
//! the process has a bound, [`release_mapped_pages`] takes the pages out of the process: they stay in the page cache, and
//! the next read maps them again without a read of the disk.
//!
//! Not here: when they are released (`server/src/memory.rs`).

use memmap2::{Mmap, UncheckedAdvice};
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// The maps of this process that are open. Closed ones are dropped when the list has doubled.
static MAPS: Mutex<OpenMaps> = Mutex::new(OpenMaps {
    maps: Vec::new(),
    prune_at: FIRST_PRUNE,
});

const FIRST_PRUNE: usize = 64;

struct OpenMaps {
    maps: Vec<Weak<Mmap>>,
    prune_at: usize,
}

/// One file, mapped for reading as long as this lives.
#[derive(Debug)]
pub struct MappedFile(Arc<Mmap>);

impl MappedFile {
    /// Maps the whole file, shared and for reading only.
    ///
    /// # Safety
    /// Nobody changes or shortens the file while this lives.
    ///
    /// # Errors
    /// Errors of the system; an empty file.
    pub(crate) unsafe fn open(file: &File) -> io::Result<MappedFile> {
        // SAFETY: the caller's promise is that of `Mmap::map`.
        let map = Arc::new(unsafe { Mmap::map(file)? });
        let mut open = MAPS.lock();
        if open.maps.len() >= open.prune_at {
            open.maps.retain(|map| map.strong_count() > 0);
            open.prune_at = (2 * open.maps.len()).max(FIRST_PRUNE);
        }
        open.maps.push(Arc::downgrade(&map));
        Ok(MappedFile(map))
    }
}

impl Deref for MappedFile {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Takes the resident pages of all mapped files out of the process; about 50 ns a page. Readers go on meanwhile: a page
/// that they touch comes back from the page cache.
pub fn release_mapped_pages() {
    let open: Vec<Arc<Mmap>> = MAPS.lock().maps.iter().filter_map(Weak::upgrade).collect();
    for map in open {
        // SAFETY: the map is shared, for reading, and of a file that nobody changes: its pages have the same bytes when
        // they come back. `map` keeps the range mapped during the call.
        let advised = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        debug_assert!(advised.is_ok(), "a mapped range of our own takes advice: {advised:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kilobytes of resident pages of files.
    fn resident_file_kb() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find(|line| line.starts_with("RssFile:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    }

    #[test]
    fn released_pages_leave_the_process_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let bytes: Vec<u8> = (0..64 << 20).map(|i: u32| (i / 4096) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        // SAFETY: nobody changes the file of this test.
        let map = unsafe { MappedFile::open(&File::open(&path).unwrap()).unwrap() };
        assert!(*map == *bytes);
        let Some(read) = resident_file_kb() else { return };
        release_mapped_pages();
        let released = resident_file_kb().unwrap();
        assert!(released + (48 << 10) < read, "{read} kB, then {released}");
        assert!(*map == *bytes, "the same bytes come back");
    }

    #[test]
    fn closed_maps_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"bytes").unwrap();
        for _ in 0..10 * FIRST_PRUNE {
            // SAFETY: nobody changes the file of this test.
            let map = unsafe { MappedFile::open(&File::open(&path).unwrap()).unwrap() };
            assert_eq!(&*map, b"bytes");
        }
        assert!(MAPS.lock().maps.len() <= 2 * FIRST_PRUNE);
    }
}
