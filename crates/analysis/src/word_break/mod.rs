//! Classes of characters at word boundaries (UAX #29), and the scripts that tokenizers and filters ask for.
//!
//! ASCII from a table of 128 bytes, the Basic Multilingual Plane from one byte a character, the rest from ranges.

mod ranges;

use ranges::RANGES;
use std::sync::OnceLock;

/// The class of a character in the rules of word boundaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Class {
    Other,
    Letter,
    HebrewLetter,
    Hangul,
    Katakana,
    Digit,
    Underscore,
    MidLetter,
    MidNum,
    MidNumLet,
    SingleQuote,
    DoubleQuote,
    Extend,
    Han,
    Hiragana,
    SouthEastAsian,
    RegionalIndicator,
    Emoji,
    Pictograph,
}
use Class::*;

/// The classes of ASCII.
pub(crate) const ASCII: [Class; 128] = {
    let mut table = [Other; 128];
    let mut i = 0;
    while i < 128 {
        let b = i as u8;
        table[i] = match b {
            b'a'..=b'z' | b'A'..=b'Z' => Letter,
            b'0'..=b'9' => Digit,
            b'_' => Underscore,
            b':' => MidLetter,
            b'.' => MidNumLet,
            b'\'' => SingleQuote,
            b'"' => DoubleQuote,
            b',' | b';' => MidNum,
            _ => Other,
        };
        i += 1;
    }
    table
};

const _: () = {
    let mut at = 0;
    while at < RANGES.len() {
        assert!(RANGES[at].0 <= RANGES[at].1, "a range begins before it ends");
        assert!(
            at == 0 || RANGES[at - 1].1 < RANGES[at].0,
            "ranges are looked up by bisection, so they rise"
        );
        at += 1;
    }
};

fn in_ranges(code: u32) -> Class {
    let at = RANGES.partition_point(|range| range.1 < code);
    match RANGES.get(at) {
        Some(range) if range.0 <= code => range.2,
        _ => Other,
    }
}

/// The classes of the Basic Multilingual Plane, one byte a character.
fn plane() -> &'static [Class] {
    static PLANE: OnceLock<Vec<Class>> = OnceLock::new();
    PLANE.get_or_init(|| {
        let mut plane = vec![Other; 0x10000];
        for &(first, last, class) in RANGES.iter().filter(|range| range.1 < 0x10000) {
            plane[first as usize..=last as usize].fill(class);
        }
        plane[..128].copy_from_slice(&ASCII);
        plane
    })
}

/// The class of a character.
pub(crate) fn class_of(c: char) -> Class {
    match u32::from(c) {
        code @ 0..0x80 => ASCII[code as usize],
        code @ 0x80..0x10000 => plane()[code as usize],
        code => in_ranges(code),
    }
}

/// Whether it is a Han character.
pub(crate) fn is_han(c: char) -> bool {
    class_of(c) == Han
}

/// Whether it is a Hiragana character.
pub(crate) fn is_hiragana(c: char) -> bool {
    class_of(c) == Hiragana
}

/// Whether it is a Katakana character.
pub(crate) fn is_katakana(c: char) -> bool {
    class_of(c) == Katakana
}

/// Whether it is a Hangul character.
pub(crate) fn is_hangul(c: char) -> bool {
    class_of(c) == Hangul
}

impl Class {
    /// A letter of an alphabet, with Hangul.
    pub(crate) fn is_letter(self) -> bool {
        matches!(self, Letter | HebrewLetter | Hangul)
    }
    /// Joins its like to words.
    pub(crate) fn is_wordly(self) -> bool {
        matches!(self, Letter | HebrewLetter | Hangul | Katakana | Digit | Underscore)
    }
    /// One bit a class, for sets of them.
    pub(crate) fn bit(self) -> u32 {
        1 << self as u8
    }
}
