//! The lock of a repository's writer, held by the operating system: it ends with the process.

use disk::display_path;
use disk::real::FILE_MODE;
use model::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Nobody else writes while this lives.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl Lock {
    /// # Errors
    /// ConcurrentSnapshot: another process writes. Repository: the file cannot be made.
    pub(crate) fn take(path: &Path) -> Result<Lock> {
        let failed = |cause: &std::io::Error| {
            let reason = format!("locking the repository by [{}] failed: {cause}", display_path(path));
            Error::new(ErrorKind::Repository, reason)
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(FILE_MODE)
            .open(path)
            .map_err(|e| failed(&e))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(Error::new(
                ErrorKind::ConcurrentSnapshot,
                format!(
                    "another store writes to the repository now: it holds the lock [{}]",
                    display_path(path)
                ),
            )),
            Err(TryLockError::Error(cause)) => Err(failed(&cause)),
        }
    }
}
