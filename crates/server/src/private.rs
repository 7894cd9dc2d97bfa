//! Nobody else on the machine reads the data: files are 0600, folders 0700, also those of folders that older versions made.
//!
//! Not here: who may ask over HTTP (`rest::access`).

use std::fs::{Permissions, read_dir, set_permissions, symlink_metadata};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The files of a data folder. Anything else there is not ours, and keeps its mode.
const FILES: &[&str] = &[
    "manifest",
    "manifest-2",
    "manifest.partial",
    "pleach.lock",
    "identity.json",
    "identity.json.partial",
    "audit.log",
    "audit.log.1",
    "first-login",
];
const FOLDERS: &[&str] = &["log", "segments"];

/// Whatever this process makes from here on is for its user alone.
pub(crate) fn make_files_private() {
    // SAFETY: it sets a number of this process and touches no memory.
    unsafe { libc::umask(0o077) };
}

/// Takes the rights of others away from a data folder and what we keep in it.
///
/// # Errors
/// A file whose mode cannot be changed: it is another user's.
pub(crate) fn mend(data: &Path) -> io::Result<()> {
    if !["manifest", "manifest-2"].iter().any(|name| data.join(name).exists()) {
        // It is none yet, or somebody else's folder.
        return Ok(());
    }
    restrict(data, FOLDER_MODE)?;
    for name in FILES {
        restrict(&data.join(name), FILE_MODE)?;
    }
    for name in FOLDERS {
        let folder = data.join(name);
        restrict(&folder, FOLDER_MODE)?;
        for entry in read_dir(&folder).into_iter().flatten() {
            restrict(&entry?.path(), FILE_MODE)?;
        }
    }
    Ok(())
}

/// Sets the mode of what is there and is no link, if it lets others in.
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    let found = match symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let open = found.permissions().mode() & 0o077 != 0;
    if open && !found.is_symlink() && found.is_dir() == (mode == FOLDER_MODE) {
        set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}
