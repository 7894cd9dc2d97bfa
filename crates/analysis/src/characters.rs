//! Properties of single characters: lower case, digits, lengths as Lucene counts them.
//!
//! Not here: the classes by which `standard` breaks words (`word_break`).

/// The lower case of one character, as Java's `Character.toLowerCase` has it.
pub(crate) fn lower(c: char) -> char {
    // The one character whose lower case is two in full mapping is one in Java's.
    if c == 'İ' {
        return 'i';
    }
    c.to_lowercase().next().unwrap_or(c)
}

/// Lower case in place; ASCII without allocation.
pub(crate) fn lowercase(term: &mut String) {
    if term.is_ascii() {
        term.make_ascii_lowercase();
    } else if term.chars().any(|c| lower(c) != c) {
        *term = term.chars().map(lower).collect();
    }
}

/// The zero of each script; its nine followers come after it.
#[rustfmt::skip]
const ZEROS: &[u32] = &[0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x10d40, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x116d0, 0x116da, 0x11730, 0x118e0, 0x11950, 0x11bf0, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16130, 0x16a60, 0x16ac0, 0x16b50, 0x16d70, 0x1ccf0, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e5f1, 0x1e950, 0x1fbf0];

const _: () = {
    let mut at = 1;
    while at < ZEROS.len() {
        assert!(
            ZEROS[at - 1] + 10 <= ZEROS[at],
            "the digits of one script end before those of the next"
        );
        at += 1;
    }
};

/// The value of a decimal digit of any script but ASCII's.
pub(crate) fn digit_value(c: char) -> Option<u8> {
    let code = u32::from(c);
    let zero = ZEROS.get(ZEROS.partition_point(|zero| *zero <= code).checked_sub(1)?)?;
    u8::try_from(code - zero).ok().filter(|value| *value < 10)
}

/// The byte offset after at most `units` UTF-16 units from `start`, but at least one character.
/// Lucene counts term lengths in these units.
pub(crate) fn after_units(text: &str, start: usize, units: usize) -> usize {
    let mut left = units;
    for (at, c) in text[start..].char_indices() {
        if c.len_utf16() > left && at > 0 {
            return start + at;
        }
        left = left.saturating_sub(c.len_utf16());
    }
    text.len()
}
