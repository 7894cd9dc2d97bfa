//! Scratch files: where a merge puts its large components until the file of the merged segment is written.
//!
//! tantivy writes several components of a segment at once, so none of them can go to its place in that file. Held in memory they
//! took as much as the segment, and twice that while an array grew: a forced merge of a whole index had no bound.
//!
//! A scratch file is mapped and loses its name when it is complete; its room is free as soon as nobody reads it. A start removes
//! those of a process that was killed.
//!
//! Not here: which components there are (`directory`), the file of the segment (`disk::blockfile`).

use disk::{Disk, DiskFile, Image};
use stable_deref_trait::StableDeref;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tantivy::directory::OwnedBytes;

/// Bytes of a component that wait in memory; a smaller component has no file. Debug builds have few, so that most merges of the
/// tests use files.
pub(crate) const BUFFER_BYTES: usize = if cfg!(debug_assertions) { 16 << 10 } else { 1 << 20 };

/// The place of the scratch files of one merge.
pub struct Scratch {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The number of the merged segment.
    id: u64,
    cancelled: Arc<AtomicBool>,
}

impl Scratch {
    /// For the merge that makes the segment `id`. Once `cancelled` is true, its next write fails.
    pub fn new(disk: &Arc<dyn Disk>, dir: &Path, id: u64, cancelled: Arc<AtomicBool>) -> Scratch {
        Scratch {
            disk: disk.clone(),
            dir: dir.to_owned(),
            id,
            cancelled,
        }
    }

    /// # Errors
    /// The merge was cancelled.
    pub(crate) fn check_cancelled(&self) -> io::Result<()> {
        match self.cancelled.load(Ordering::Acquire) {
            true => Err(io::Error::other("the merge was cancelled")),
            false => Ok(()),
        }
    }

    /// An empty file for the component of this extension.
    pub(crate) fn begin(&self, extension: &str) -> io::Result<ScratchFile> {
        let path = self.dir.join(format!("{:012}-{extension}.scratch", self.id));
        Ok(ScratchFile {
            file: self.disk.create(&path)?,
            disk: self.disk.clone(),
            path,
            bytes: 0,
        })
    }
}

/// A component on its way to a file.
pub(crate) struct ScratchFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl ScratchFile {
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// All that was appended, mapped.
    pub(crate) fn finish(self) -> io::Result<OwnedBytes> {
        let image = self.disk.map(&self.path)?;
        assert_eq!(
            image.len() as u64,
            self.bytes,
            "write-path.md 8: a scratch file has what was appended to it"
        );
        Ok(OwnedBytes::new(ScratchBytes(image)))
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // If it cannot be removed now, the next start removes it.
        drop(self.disk.remove(&self.path));
    }
}

struct ScratchBytes(Image);

impl Deref for ScratchBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
// SAFETY: both kinds of `Image` own bytes at a fixed address outside of themselves, and nobody changes them.
unsafe impl StableDeref for ScratchBytes {}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::FaultyDisk;

    const DIR: &str = "/segments";

    fn scratch(disk: &FaultyDisk, cancelled: &Arc<AtomicBool>) -> Scratch {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        disk.create_dir(Path::new(DIR)).unwrap();
        Scratch::new(&disk, Path::new(DIR), 7, cancelled.clone())
    }

    #[test]
    fn a_complete_file_has_its_bytes_and_no_name() {
        let disk = FaultyDisk::new(1);
        let mut file = scratch(&disk, &Arc::default()).begin("pos").unwrap();
        file.append(b"one ").unwrap();
        file.append(b"two").unwrap();
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["000000000007-pos.scratch"]);
        let bytes = file.finish().unwrap();
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), Vec::<String>::new());
        assert_eq!(bytes.as_slice(), b"one two");
    }

    #[test]
    fn a_file_that_is_given_up_is_removed() {
        let disk = FaultyDisk::new(1);
        let mut file = scratch(&disk, &Arc::default()).begin("pos").unwrap();
        file.append(b"one").unwrap();
        disk.set_writes_full(true);
        assert!(disk::is_full(&file.append(b"two").unwrap_err()));
        drop(file);
        assert_eq!(disk.list(Path::new(DIR)).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_cancelled_merge_is_told() {
        let cancelled = Arc::<AtomicBool>::default();
        let scratch = scratch(&FaultyDisk::new(1), &cancelled);
        scratch.check_cancelled().unwrap();
        cancelled.store(true, Ordering::Release);
        assert!(scratch.check_cancelled().unwrap_err().to_string().contains("cancelled"));
    }
}
