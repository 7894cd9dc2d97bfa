//! Geohashes: a cell of the earth as up to twelve digits of five bits, which halve the longitude and the latitude in turns.

use std::ops::Range;

/// Around the equator, and from pole to pole, in metres.
const EQUATOR_METRES: f64 = 40_075_016.685_578_49;
const POLAR_METRES: f64 = 19_970_326.371_122_5;

/// The longest.
pub const LENGTH_MAX: usize = 12;

const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// The bits of the cell that a place lies in, of so many digits, the first digit's highest.
pub fn code(lat: f64, lon: f64, length: usize) -> u64 {
    let (mut lats, mut lons) = (-90.0..90.0, -180.0..180.0);
    (0..5 * length.min(LENGTH_MAX)).fold(0, |code, bit| {
        let (range, value) = turn(bit, (&mut lons, lon), (&mut lats, lat));
        let middle = f64::midpoint(range.start, range.end);
        let upper = value >= middle;
        halve(range, middle, upper);
        code << 1 | u64::from(upper)
    })
}

/// A code of so many digits as text.
pub fn text(code: u64, length: usize) -> String {
    debug_assert!(
        code >> (5 * length.min(LENGTH_MAX)) == 0,
        "a code of [{length}] digits has five bits for each"
    );
    let digit = |at: usize| char::from(DIGITS[(code >> (at * 5) & 31) as usize]);
    (0..length.min(LENGTH_MAX)).rev().map(digit).collect()
}

/// The centre of a cell, as latitude and longitude; `None` if the text is no geohash.
pub fn centre(text: &str) -> Option<(f64, f64)> {
    if text.is_empty() || text.len() > LENGTH_MAX {
        return None;
    }
    let (mut lats, mut lons) = (-90.0..90.0, -180.0..180.0);
    for (no, c) in text.bytes().enumerate() {
        let digit = DIGITS.iter().position(|known| *known == c.to_ascii_lowercase())?;
        for bit in 0..5 {
            let (range, ()) = turn(5 * no + bit, (&mut lons, ()), (&mut lats, ()));
            let middle = f64::midpoint(range.start, range.end);
            halve(range, middle, digit >> (4 - bit) & 1 == 1);
        }
    }
    Some((f64::midpoint(lats.start, lats.end), f64::midpoint(lons.start, lons.end)))
}

/// How many digits a cell has that is no larger than so many metres, as Elasticsearch reckons it.
pub fn digits_of(metres: f64) -> usize {
    if metres <= 0.0 {
        return LENGTH_MAX;
    }
    let width = metres / (1.0 + POLAR_METRES / EQUATOR_METRES);
    let parts = (EQUATOR_METRES / width).ceil().max(1.0) as u64;
    let bits = parts.ilog2() as usize;
    let (full, left) = (bits / 5, bits % 5);
    (2 * full + usize::from(left > 0) + usize::from(left > 3)).clamp(1, LENGTH_MAX)
}

/// Longitudes at even bits, latitudes at odd ones.
fn turn<T>(bit: usize, lon: T, lat: T) -> T {
    if bit.is_multiple_of(2) { lon } else { lat }
}

fn halve(range: &mut Range<f64>, middle: f64, upper: bool) {
    if upper {
        range.start = middle;
    } else {
        range.end = middle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        let of = |lat, lon, length| text(code(lat, lon, length), length);
        assert_eq!(of(57.649_11, 10.407_44, 11), "u4pruydqqvj");
        assert_eq!(of(52.5, 13.4, 4), "u33d");
        assert_eq!(of(-90.0, -180.0, 12), "000000000000");
        for hash in ["u33d", "ezs42", "7", "U33D"] {
            let (lat, lon) = centre(hash).unwrap();
            assert_eq!(of(lat, lon, hash.len()), hash.to_lowercase());
        }
        assert_eq!((centre(""), centre("a"), centre("u33du33du33du")), (None, None, None));
    }
}
