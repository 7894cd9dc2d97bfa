//! The hashes that Lucene and its servers use for slices and random scores: answers must be equal, so must these.

/// MurmurHash3, x86, 32 bits (Austin Appleby, public domain).
pub(crate) fn murmur3(bytes: &[u8], seed: u32) -> u32 {
    let (c1, c2) = (0xcc9e_2d51u32, 0x1b87_3593u32);
    let mut h = seed;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let k = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        h ^= k.wrapping_mul(c1).rotate_left(15).wrapping_mul(c2);
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = chunks.remainder();
    let k = tail.iter().rev().fold(0u32, |k, byte| k << 8 | u32::from(*byte));
    if !tail.is_empty() {
        h ^= k.wrapping_mul(c1).rotate_left(15).wrapping_mul(c2);
    }
    h ^= u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

/// The finalizer of MurmurHash3 for 32 bits.
pub(crate) fn mix32(k: u32) -> u32 {
    let k = (k ^ k >> 16).wrapping_mul(0x85eb_ca6b);
    let k = (k ^ k >> 13).wrapping_mul(0xc2b2_ae35);
    k ^ k >> 16
}

/// David Stafford's variant of the finalizer for 64 bits, of which the lower half counts.
pub(crate) fn mix64(z: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
    let low = mix_bits(z).cast_unsigned() as u32;
    low
}

/// The same with all its bits.
pub(crate) fn mix_bits(z: u64) -> i64 {
    let z = (z ^ z >> 32).wrapping_mul(0x4cd6_944c_5cc2_0b6d);
    let z = (z ^ z >> 29).wrapping_mul(0xfc12_c5b1_9d32_59e9);
    (z ^ z >> 32).cast_signed()
}

/// The hash of a long as the JVM computes it.
pub(crate) fn long_hash(n: i64) -> u32 {
    let bits = u64::from_ne_bytes(n.to_ne_bytes());
    #[allow(clippy::cast_possible_truncation, reason = "the lower half is what is asked for")]
    let low = (bits ^ bits >> 32) as u32;
    low
}

/// An id as the bytes of its term: digits packed, base64 decoded, anything else behind 0xff.
pub(crate) fn id_bytes(id: &str) -> Vec<u8> {
    if id.is_empty() {
        return vec![0xff];
    }
    if id.bytes().all(|b| b.is_ascii_digit()) {
        let mut out = vec![0xfe];
        for pair in id.as_bytes().chunks(2) {
            let low = pair.get(1).map_or(0x0f, |b| b - b'0');
            out.push((pair[0] - b'0') << 4 | low);
        }
        return out;
    }
    match decode_base64_url(id) {
        Some(bytes) if bytes.first().is_some_and(|b| *b >= 0xfd) => [&[0xfd], bytes.as_slice()].concat(),
        Some(bytes) => bytes,
        None => [&[0xff], id.as_bytes()].concat(),
    }
}

/// The bytes of a text that is base64 for URLs without padding, and of which no other text has the same bytes.
fn decode_base64_url(id: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(id.len() * 3 / 4);
    let (mut held, mut bits) = (0u32, 0u32);
    for byte in id.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from(held >> bits & 0xff).unwrap_or(0));
            held &= (1 << bits) - 1;
        }
    }
    (id.len() % 4 != 1 && held == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Test vectors of the reference implementation.
        assert_eq!(murmur3(b"", 0), 0);
        assert_eq!(murmur3(b"", 1), 0x514e_28b7);
        assert_eq!(murmur3(b"test", 0), 0xba6b_d213);
        assert_eq!(murmur3(b"Hello, world!", 0x9747_b28c), 0x2488_4cba);
        assert_eq!(long_hash(-1), 0);
    }

    #[test]
    fn slices_of_numbers() {
        // Which of the first 21 numbers are in slice 1 of 3, as a real server answered.
        let there: Vec<u64> = (0..21)
            .filter(|n| i32::from_ne_bytes(mix64(*n).to_ne_bytes()).rem_euclid(3) == 1)
            .collect();
        assert_eq!(there, [6, 9, 13, 14, 16, 18, 19, 20]);
    }

    #[test]
    fn ids() {
        assert_eq!(id_bytes("123"), [0xfe, 0x12, 0x3f]);
        assert_eq!(id_bytes("a b"), [0xff, b'a', b' ', b'b']);
        assert_eq!(id_bytes("AAAA"), [0, 0, 0]);
        // Bits left over: not the one text of its bytes.
        assert_eq!(id_bytes("AB"), [0xff, b'A', b'B']);
        assert_eq!(id_bytes("____"), [0xfd, 0xff, 0xff, 0xff]);
    }
}
