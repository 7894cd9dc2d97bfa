//! The operating system's disk.
//!
//! Not here: anything that decides; each method is one call.

use super::{Disk, DiskFile, Image, MappedFile};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt as _, FileExt, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

/// Nobody else on the machine reads the data.
pub const FILE_MODE: u32 = 0o600;
pub(crate) const FOLDER_MODE: u32 = 0o700;

/// Files of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(
            OpenOptions::new()
                .create(true)
                .truncate(true)
                .read(true)
                .write(true)
                .mode(FILE_MODE)
                .open(path)?,
        ))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(path)?))
    }
    fn map(&self, path: &Path) -> io::Result<Image> {
        let file = File::open(path)?;
        // The system maps no empty file.
        if file.metadata()?.len() == 0 {
            return Ok(Image::Loaded(Box::default()));
        }
        // SAFETY: a map is sound while nobody changes or shortens the file. Only published files
        // and log files of earlier runs are mapped, the folder lock keeps other processes of ours away, and
        // neither ever changes (write-path.md, invariant 9); removing the name leaves the pages. A start cuts the last
        // log file at its end between its scan and its replay, when no map of it is open.
        let map = unsafe { MappedFile::open(&file)? };
        Ok(Image::Mapped(map))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }
    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(path)?.len())
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        #[allow(clippy::unnecessary_cast, reason = "narrower on some systems")]
        Ok((stat.f_bavail as u64).saturating_mul(stat.f_frsize as u64))
    }
    fn unused_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        #[allow(clippy::unnecessary_cast, reason = "narrower on some systems")]
        Ok((stat.f_bfree as u64).saturating_mul(stat.f_frsize as u64))
    }
    fn total_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        #[allow(clippy::unnecessary_cast, reason = "narrower on some systems")]
        Ok((stat.f_blocks as u64).saturating_mul(stat.f_frsize as u64))
    }
}

fn statvfs(dir: &Path) -> io::Result<libc::statvfs> {
    let dir = CString::new(dir.as_os_str().as_bytes()).map_err(io::Error::other)?;
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `dir` ends in a zero byte and `stat` has room for one `statvfs`.
    if unsafe { libc::statvfs(dir.as_ptr(), stat.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it filled `stat`.
    Ok(unsafe { stat.assume_init() })
}

impl DiskFile for File {
    fn write_some_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }
    fn read_some_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        match self.metadata()?.len() > bytes {
            true => self.set_len(bytes),
            false => Ok(()),
        }
    }
    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}
