//! Small files of a repository: JSON with its hash behind it.
//!
//! Not here: how a file gets its name, so that it is the old one or the new one and never half (`storage`).

use crate::blob::Hash;
use crate::storage::{Storage, Version};
use model::{Error, ErrorKind, Result};
use serde_json::Value;

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
    debug_assert!(
        bytes[bytes.len() - HASH_BYTES - MARK.len()..].starts_with(MARK),
        "snapshots.md S4: a reader finds the hash by its length, at the end"
    );
    (bytes, hash)
}

/// What a file has.
pub(crate) struct Read {
    pub(crate) content: Value,
    pub(crate) hash: Hash,
    /// The state of the file that was read.
    pub(crate) version: Option<Version>,
}

/// The content of a file; `None`: there is none.
///
/// # Errors
/// Corruption: it does not match its hash. IllegalArgument: it is longer than `bytes_max`, the limit of the setting.
pub(crate) fn read(storage: &dyn Storage, file: &str, bytes_max: u64) -> Result<Option<Read>> {
    let Some(mut opened) = storage.open(file)? else {
        return Ok(None);
    };
    let length = opened.bytes()?;
    if length > bytes_max {
        let setting = model::settings::REPOSITORIES_MAX_DESCRIPTION.name;
        return Err(Error::illegal(format!(
            "[{}] has [{length}] bytes; the limit of [{bytes_max}] is the setting [{setting}]",
            storage.display(file)
        )));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let read = opened.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    let damaged = || {
        Error::new(
            ErrorKind::Corruption,
            format!("[{}] does not match its checksum", storage.display(file)),
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
    let content = serde_json::from_slice(content).map_err(|_| damaged())?;
    let version = opened.version();
    Ok(Some(Read { content, hash, version }))
}
