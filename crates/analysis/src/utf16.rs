//! Offsets of a text as Java counts them: byte offset to offset in UTF-16 units, in logarithmic time.
//!
//! Not here: what has offsets (tokens of `_analyze`, of term vectors).

/// One checkpoint every so many bytes: a lookup counts at most this many.
const STEP_BYTES: usize = 64;

/// UTF-16 offsets of one text.
pub struct Utf16Offsets<'a> {
    text: &'a str,
    /// Units before each multiple of [`STEP_BYTES`], the boundary rounded down to a character's; empty for ASCII, where
    /// both offsets are the same.
    checkpoints: Vec<usize>,
}

impl<'a> Utf16Offsets<'a> {
    /// Reads the text once.
    pub fn new(text: &'a str) -> Utf16Offsets<'a> {
        let mut checkpoints = Vec::new();
        if !text.is_ascii() {
            let (mut from, mut units) = (0, 0);
            checkpoints.reserve(text.len() / STEP_BYTES + 1);
            for at in (0..=text.len()).step_by(STEP_BYTES) {
                let to = text.floor_char_boundary(at);
                units += length(&text[from..to]);
                from = to;
                checkpoints.push(units);
            }
        }
        Utf16Offsets { text, checkpoints }
    }

    /// The offset of a byte; inside a character, that of the character's start; beyond the end, the end's.
    pub fn at(&self, byte: usize) -> usize {
        let end = self.text.floor_char_boundary(byte);
        let Some(before) = self.checkpoints.get(end / STEP_BYTES) else {
            return end;
        };
        let from = self.text.floor_char_boundary(end / STEP_BYTES * STEP_BYTES);
        let units = before + length(&self.text[from..end]);
        debug_assert!(units <= end, "a text has no more units of UTF-16 than bytes of UTF-8");
        units
    }
}

fn length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn offsets_are_those_of_utf16() {
        for text in [
            "",
            "plain words",
            &"aä€😀 ".repeat(50),
            &"😀".repeat(100),
            &"x".repeat(64),
            &"é".repeat(64),
        ] {
            let offsets = Utf16Offsets::new(text);
            for byte in 0..text.len() + 3 {
                let head = &text[..text.floor_char_boundary(byte)];
                assert_eq!(offsets.at(byte), head.encode_utf16().count(), "byte {byte} of {text}");
            }
        }
    }

    #[test]
    fn a_long_text_is_read_once() {
        let started = Instant::now();
        for text in ["a ".repeat(1 << 20), "ä ".repeat(1 << 19)] {
            let offsets = Utf16Offsets::new(&text);
            let last = (0..text.len()).step_by(3).map(|byte| offsets.at(byte)).max();
            assert!(last.is_some());
        }
        // Counted from the start each time, this takes minutes.
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
