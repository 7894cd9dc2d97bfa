//! The folder lock: one process a data folder.
//!
//! The operating system holds it (`flock`), so it ends with the process however that ends; the pid
//! in the file is only for the sentence that a second process says.
//!
//! Not here: locks of documents; folders over a network, where `flock` may mean nothing.

use disk::real::FILE_MODE;
use disk::refusal;
use model::{Error, ErrorKind, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const NAME: &str = "pleach.lock";

/// Holds a data folder until dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the folder, which must exist. Errors: IllegalState naming the pid of the process that
    /// has it; Internal if the file cannot be written.
    pub fn acquire(dir: &Path) -> Result<FolderLock> {
        let path = dir.join(NAME);
        let failed = |cause: &std::io::Error| refusal("locking the data folder by", &path, cause);
        let options = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(FILE_MODE)
            .open(&path);
        let mut file = options.map_err(|e| failed(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use_error(dir, &mut file)),
            Err(TryLockError::Error(e)) => return Err(failed(&e)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
            .map_err(|e| failed(&e))?;
        Ok(FolderLock { _file: file })
    }
}

fn in_use_error(dir: &Path, file: &mut File) -> Error {
    let mut bytes = [0; 10];
    let read = file.read(&mut bytes).unwrap_or(0);
    let pid = std::str::from_utf8(&bytes[..read])
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    // Without a readable pid the sentence is only less helpful.
    let pid = pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string());
    let reason = format!("the data folder [{}] is in use by process [{pid}]", dir.display());
    Error::new(ErrorKind::IllegalState, reason).with("pid", pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_process_hears_who_was_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(dir.path()).unwrap();
        // Another open file stands for another process: flock tells them apart by that.
        let refused = FolderLock::acquire(dir.path()).unwrap_err();
        assert!(
            refused.reason().contains(&format!("process [{}]", std::process::id())),
            "{refused}"
        );
        let other = std::process::Command::new("flock")
            .arg("-n")
            .arg(dir.path().join(NAME))
            .arg("true")
            .status();
        if let Ok(status) = other {
            assert!(!status.success(), "a real second process is refused too");
        }
        drop(first);
        FolderLock::acquire(dir.path()).unwrap();
    }

    /// The operating system holds the lock: what the file says is only told.
    #[test]
    fn a_damaged_lock_file_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        for damage in [&b""[..], b"\0\0\0", b"\xff\xfe", b"12x4", &[b'7'; 100_000], b"4294967296"] {
            std::fs::write(&path, damage).unwrap();
            let held = FolderLock::acquire(dir.path()).unwrap();
            let own = std::fs::read_to_string(&path).unwrap();
            assert_eq!(own, std::process::id().to_string(), "it is written anew");
            std::fs::write(&path, damage).unwrap();
            let refused = FolderLock::acquire(dir.path()).unwrap_err();
            assert!(refused.reason().ends_with("process [unknown]"), "{refused}");
            // Removed while it is held, it guards nothing any more; removed before a start, it is made again.
            drop(held);
            std::fs::remove_file(&path).unwrap();
            FolderLock::acquire(dir.path()).unwrap();
        }
    }
}
