//! Digests as they stand in documents.

/// 128 bits of a hash, as 32 hexadecimal digits.
pub(crate) fn short(hash: &blake3::Hash) -> String {
    hash.to_hex()[..32].to_owned()
}
