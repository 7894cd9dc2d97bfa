//! The file of the audit: `audit.log` in the data folder, for its owner alone, and one older one beside it.
//!
//! Not here: which decisions are told, and how (`rest::authentication`).

use model::settings::{AUDIT_MAX_BYTES, node};
use model::{Error, ErrorKind, Result};
use rest::authentication::AuditSink;
use std::fs::{File, OpenOptions, rename};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An open file, with its length.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    open: Mutex<(File, u64)>,
}

fn open(path: &Path) -> std::io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

impl AuditLog {
    /// In this data folder.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn in_folder(data: &Path) -> Result<AuditLog> {
        let path = data.join("audit.log");
        let opened = open(&path).map_err(|cause| {
            let reason = format!("the audit cannot be written to [{}]: {cause}", path.display());
            Error::new(ErrorKind::Internal, reason)
        })?;
        Ok(AuditLog {
            path,
            open: Mutex::new(opened),
        })
    }
}

impl AuditSink for AuditLog {
    fn line(&self, text: &str) {
        let mut held = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{text}\n");
        if held.1 + line.len() as u64 > node(AUDIT_MAX_BYTES) && held.1 > 0 {
            let moved = rename(&self.path, self.path.with_extension("log.1")).and_then(|()| open(&self.path));
            match moved {
                Ok(opened) => *held = opened,
                Err(cause) => tracing::warn!(target: "server", "the audit cannot begin another file: {cause}"),
            }
        }
        match held.0.write_all(line.as_bytes()) {
            Ok(()) => held.1 += line.len() as u64,
            Err(cause) => tracing::warn!(target: "server", "a line of the audit was lost: {cause}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn lines_are_kept_for_the_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::in_folder(folder.path()).expect("a file");
        log.line("{}");
        log.line("{\"a\":1}");
        let path = folder.path().join("audit.log");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "{}\n{\"a\":1}\n");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn another_file_is_begun() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::in_folder(folder.path()).expect("a file");
        log.line("old");
        log.open.lock().expect("held by nobody").1 = node(AUDIT_MAX_BYTES);
        log.line("new");
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("text");
        assert_eq!((text("audit.log.1").as_str(), text("audit.log").as_str()), ("old\n", "new\n"));
    }
}
