//! Small files of a repository: JSON with its hash behind it.
//!
//! A file is written under another name, synced and renamed, so it is the old one or the new one and never half.

use crate::blob::Hash;
use disk::{Disk, display_path, refusal};
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::io;
use std::path::Path;

/// Between the JSON and its hash.
const MARK: &[u8] = b"\nblake3 ";
/// Digits of a hash and the last newline.
const HASH_BYTES: usize = 64 + 1;

/// The bytes of a file, and the hash of its content.
pub(crate) fn bytes_of(content: &Value) -> (Vec<u8>, Hash) {
    let mut bytes = content.to_string().into_bytes();
    let hash = Hash::of(&bytes);
    bytes.extend_from_slice(MARK);
    bytes.extend_from_slice(hash.to_string().as_bytes());
    bytes.push(b'\n');
    (bytes, hash)
}

/// Writes a file under a temporary name beside others, then gives it its own.
pub(crate) fn write(disk: &dyn Disk, temporary: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e: &io::Error| refusal("writing", path, e);
    let write = || {
        let file = disk.create(temporary)?;
        file.write_all_at(bytes, 0)?;
        file.sync_data()?;
        disk.rename(temporary, path)
    };
    write().map_err(|e| {
        // The first failure is the one to tell of.
        drop(disk.remove(temporary));
        failed(&e)
    })?;
    let parent = path.parent().unwrap_or(path);
    disk.sync_dir(parent).map_err(|e| refusal("syncing", parent, &e))
}

/// The content of a file; `None`: there is none.
///
/// # Errors
/// Corruption: it does not match its hash. IllegalArgument: it is longer than `bytes_max`, the limit of the setting.
pub(crate) fn read(disk: &dyn Disk, path: &Path, bytes_max: u64) -> Result<Option<(Value, Hash)>> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refusal("opening", path, &e)),
    };
    let length = file.bytes().map_err(|e| refusal("reading", path, &e))?;
    if length > bytes_max {
        let setting = model::settings::REPOSITORIES_MAX_DESCRIPTION.name;
        return Err(Error::illegal(format!(
            "[{}] has [{length}] bytes; the limit of [{bytes_max}] is the setting [{setting}]",
            display_path(path)
        )));
    }
    let bytes = file.read_whole().map_err(|e| refusal("reading", path, &e))?;
    let damaged = || {
        Error::new(
            ErrorKind::Corruption,
            format!("[{}] does not match its checksum", display_path(path)),
        )
    };
    let content_bytes = bytes.len().checked_sub(MARK.len() + HASH_BYTES).ok_or_else(damaged)?;
    let (content, rest) = bytes.split_at(content_bytes);
    let hash = rest
        .strip_prefix(MARK)
        .and_then(|rest| std::str::from_utf8(rest).ok())
        .and_then(|text| Hash::parse(text.trim_end()))
        .filter(|hash| *hash == Hash::of(content))
        .ok_or_else(damaged)?;
    let value = serde_json::from_slice(content).map_err(|_| damaged())?;
    Ok(Some((value, hash)))
}
