//! A stored file, known by its content.

use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::fmt;

/// The BLAKE3 hash of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; 32]);

/// A file by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its hash.
    pub hash: Hash,
    /// Its length.
    pub bytes: u64,
}

impl Hash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }
    pub(crate) fn finalize(hasher: &blake3::Hasher) -> Hash {
        Hash(*hasher.finalize().as_bytes())
    }
    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Hash> {
        blake3::Hash::from_hex(text).ok().map(|hash| Hash(*hash.as_bytes()))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Blob {
    pub(crate) fn to_json(self) -> Value {
        json!([self.hash.to_string(), self.bytes])
    }
    pub(crate) fn from_json(value: &Value) -> Result<Blob> {
        let hash = value[0].as_str().and_then(Hash::parse);
        match (hash, value[1].as_u64()) {
            (Some(hash), Some(bytes)) => Ok(Blob { hash, bytes }),
            _ => Err(unsound("a file")),
        }
    }
}

/// The refusal of a description that is not one of ours, though its checksum is right.
pub(crate) fn unsound(what: &str) -> Error {
    Error::new(
        ErrorKind::Corruption,
        format!("the repository's description of {what} is not sound"),
    )
}
