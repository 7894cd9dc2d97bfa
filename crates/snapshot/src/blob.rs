//! A stored file, known by its content.

use crate::layout::BLOBS;
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
    /// The generation of the root that first led to it, as a part of its name; 0: its name has none.
    pub generation: u64,
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
    /// Where it is in its repository.
    pub(crate) fn file(&self) -> String {
        let name = self.hash.to_string();
        let name = format!("{}/{}", &name[..2], with_generation(&name, self.generation));
        debug_assert_eq!(
            Blob::parse_name(&name),
            Some((self.hash, self.generation)),
            "snapshots.md S3: a cleanup knows a file by its name"
        );
        format!("{BLOBS}/{name}")
    }
    /// The hash and the generation of a name below the folder of blobs; `None`: it is no name of ours.
    pub(crate) fn parse_name(name: &str) -> Option<(Hash, u64)> {
        let (folder, name) = name.split_once('/')?;
        let (hash, generation) = split_generation(name)?;
        let hash = Hash::parse(hash).filter(|_| hash.starts_with(folder) && folder.len() == 2)?;
        Some((hash, generation))
    }

    pub(crate) fn to_json(self) -> Value {
        match self.generation {
            0 => json!([self.hash.to_string(), self.bytes]),
            generation => json!([self.hash.to_string(), self.bytes, generation]),
        }
    }
    pub(crate) fn from_json(value: &Value) -> Result<Blob> {
        let hash = value[0].as_str().and_then(Hash::parse);
        let generation = match &value[2] {
            Value::Null => Some(0),
            generation => generation.as_u64(),
        };
        match (hash, value[1].as_u64(), generation) {
            (Some(hash), Some(bytes), Some(generation)) => Ok(Blob { hash, bytes, generation }),
            _ => Err(unsound("a file")),
        }
    }
}

/// A name, with the generation that it was written for.
pub(crate) fn with_generation(name: &str, generation: u64) -> String {
    match generation {
        0 => name.to_owned(),
        generation => format!("{name}.{generation}"),
    }
}

/// A name without its generation, and that; `None`: what is behind the point is no generation.
pub(crate) fn split_generation(name: &str) -> Option<(&str, u64)> {
    match name.split_once('.') {
        None => Some((name, 0)),
        Some((name, generation)) => Some((name, generation.parse().ok()?)),
    }
}

/// The refusal of a description that is not one of ours, though its checksum is right.
pub(crate) fn unsound(what: &str) -> Error {
    Error::new(
        ErrorKind::Corruption,
        format!("the repository's description of {what} is not sound"),
    )
}
