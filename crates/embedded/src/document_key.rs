//! The key of a document: 128 bits of a keyed hash of its index and uid.

use std::hash::Hasher;

/// A document's identity as 128 bits.
pub(crate) type Key = u128;

/// Makes keys. The seeds are the folder's: tombstones are kept by key, so keys outlive the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentKeys {
    seeds: (u64, u64),
}

impl DocumentKeys {
    pub(crate) fn new(folder_id: u128) -> DocumentKeys {
        DocumentKeys {
            seeds: ((folder_id >> 64) as u64, folder_id as u64),
        }
    }
    /// The key of a document. Keyed hashes: nobody can choose ids that collide.
    #[allow(
        deprecated,
        reason = "the only hasher of the standard library that takes its keys, and they must outlive the process"
    )]
    pub(crate) fn key(&self, no: u32, uid: &str) -> Key {
        let half = |salt: u64| {
            let mut hasher = std::hash::SipHasher::new_with_keys(self.seeds.0 ^ salt, self.seeds.1);
            hasher.write_u32(no);
            hasher.write(uid.as_bytes());
            hasher.finish()
        };
        u128::from(half(0)) << 64 | u128::from(half(0x9E37_79B9_7F4A_7C15))
    }
}
