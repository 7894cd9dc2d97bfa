//! Which of the shards that an index reports a document would be in.
//!
//! There is one shard; errors and searches show the number, as Elasticsearch 2 and later work it out: murmur3 (32 bits,
//! seed 0) over the routing value in UTF-16LE, modulo the number of shards.

use crate::error::{Error, Result};

/// The shard of a routing value (the id, where none was given). `shards` of 0 counts as 1.
pub fn shard_of(routing: &str, shards: u64) -> u64 {
    let bytes: Vec<u8> = routing.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let hash = i64::from(murmur3(&bytes).cast_signed());
    let shards = i64::try_from(shards.max(1)).unwrap_or(i64::MAX);
    hash.rem_euclid(shards).unsigned_abs()
}

/// Do two routings of the document `id` (the id itself, where none was given) lead to the same of so many shards?
pub fn lead_together(id: &str, one: Option<&str>, other: Option<&str>, shards: u64) -> bool {
    let shard = |routing: Option<&str>| shard_of(routing.unwrap_or(id), shards);
    shards < 2 || shard(one) == shard(other)
}

/// The routing of a request through a name: that of the alias `name`, if it has one, or the one given.
///
/// # Errors
/// An alias whose routing is another.
pub fn through(name: &str, own: Option<&str>, given: Option<String>) -> Result<Option<String>> {
    match (own, given) {
        (None, given) => Ok(given),
        (Some(own), Some(given)) if own != given => Err(Error::illegal(format!(
            "Alias [{name}] has index routing associated with it [{own}], and was provided with routing value [{given}], rejecting operation"
        ))),
        (Some(own), _) => Ok(Some(own.to_owned())),
    }
}

/// MurmurHash3_x86_32 with seed 0.
fn murmur3(bytes: &[u8]) -> u32 {
    let mix = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut h = 0_u32;
    for block in blocks {
        h = (h ^ mix(u32::from_le_bytes(*block)))
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let k = tail.iter().rev().fold(0_u32, |k, byte| k << 8 | u32::from(*byte));
        h ^= mix(k);
    }
    h ^= u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards() {
        // The answers of a real server.
        for (id, shard) in [("global", 2), ("/a/b", 4), ("/clinton", 0), ("1", 3)] {
            assert_eq!(shard_of(id, 5), shard, "{id}");
        }
        assert_eq!(shard_of("anything", 1), 0);
        for (one, other, shards, together) in [
            (None, None, 5, true),
            (None, Some("1"), 5, true),
            (None, Some("global"), 5, false),
            (Some("global"), Some("global"), 5, true),
            (Some("/a/b"), Some("global"), 5, false),
            (Some("/a/b"), Some("global"), 1, true),
            (Some("/a/b"), Some("global"), 0, true),
        ] {
            assert_eq!(lead_together("1", one, other, shards), together, "{one:?} {other:?} {shards}");
        }
    }
}
