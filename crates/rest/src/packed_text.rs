//! The text of a long answer: deflated part by part as it is made, inflated part by part as it is sent.
//!
//! An item of a bulk's answer may be ten times as long as its lines, and says little: it deflates to a tenth. The text is
//! not sent before it is whole, because it begins with what only its end decides.
//!
//! Not here: what it says (`actions::writes`), who sends it (`serve`).

use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{Read as _, Write as _};

/// Bytes of text that are deflated at once.
const PART_BYTES: usize = 256 << 10;

/// A text that only grows.
#[derive(Clone, Debug, Default)]
pub struct PackedText {
    head: String,
    parts: VecDeque<PackedPart>,
    /// The text behind the parts.
    open: String,
    /// So much of it stays as it is.
    open_max_bytes: usize,
}

#[derive(Clone, Debug)]
struct PackedPart {
    deflated: Bytes,
    /// The length of the text.
    bytes: usize,
}

impl PackedText {
    /// An empty one, of which nothing is packed as long as it has no more than so many bytes. It is to have about `bytes`.
    pub(crate) fn new(bytes: usize, open_max_bytes: usize) -> PackedText {
        let open_max_bytes = open_max_bytes.max(PART_BYTES);
        PackedText {
            // At once: growing by doubling would hold it twice.
            open: String::with_capacity(bytes.min(open_max_bytes + PART_BYTES)),
            open_max_bytes,
            ..PackedText::default()
        }
    }

    /// The most memory that a text of so many bytes takes, if each of its lines deflates to `line_bytes`.
    pub(crate) fn bytes_held(bytes: usize, open_max_bytes: usize, lines: usize, line_bytes: usize) -> usize {
        let packed = lines.saturating_mul(line_bytes);
        bytes.min(open_max_bytes.max(packed).saturating_add(2 * PART_BYTES))
    }

    /// The text that is written to, at its end.
    pub(crate) fn end(&mut self) -> &mut String {
        if self.open.len() > self.open_max_bytes {
            self.pack();
        }
        &mut self.open
    }

    /// Puts a text before all others.
    pub(crate) fn set_head(&mut self, head: String) {
        assert!(self.head.is_empty(), "a text is given one head");
        self.head = head;
    }

    /// Nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.open.is_empty()
    }

    /// Bytes of the text.
    pub(crate) fn bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.bytes).sum();
        self.head.len() + parts + self.open.len()
    }

    /// Bytes that it takes in memory, with the part that is sent.
    pub(crate) fn held_bytes(&self) -> usize {
        let parts: usize = self.parts.iter().map(|part| part.deflated.len()).sum();
        let sent = self.parts.iter().map(|part| part.bytes).max().unwrap_or(0);
        self.head.len() + parts + self.open.capacity() + sent
    }

    fn pack(&mut self) {
        let (before, written) = (self.parts.len(), self.open.len());
        for text in self.open.as_bytes().chunks(PART_BYTES) {
            self.parts.push_back(PackedPart::of(text));
        }
        debug_assert_eq!(
            self.parts.iter().skip(before).map(|part| part.bytes).sum::<usize>(),
            written,
            "all of the text that was open is packed"
        );
        self.open.clear();
        self.open_max_bytes = PART_BYTES;
        self.open.shrink_to(2 * PART_BYTES);
    }

    /// The next piece of the text from its beginning, which is let go; `None` at the end.
    pub(crate) fn next_piece(&mut self) -> Option<Bytes> {
        if !self.head.is_empty() {
            return Some(std::mem::take(&mut self.head).into());
        }
        if let Some(part) = self.parts.pop_front() {
            return Some(part.text());
        }
        let open = std::mem::take(&mut self.open);
        (!open.is_empty()).then(|| open.into())
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Bytes {
        let mut rest = self.clone();
        let mut whole = Vec::with_capacity(self.bytes());
        while let Some(piece) = rest.next_piece() {
            whole.extend_from_slice(&piece);
        }
        debug_assert_eq!(whole.len(), self.bytes(), "the pieces of a text are as long as it is");
        whole.into()
    }
}

impl PackedPart {
    fn of(text: &[u8]) -> PackedPart {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        // Writing to memory does not fail.
        let deflated = encoder.write_all(text).and_then(|()| encoder.finish()).unwrap_or_default();
        debug_assert!(
            text.is_empty() || !deflated.is_empty(),
            "writing to memory does not fail: no part is lost"
        );
        PackedPart {
            deflated: deflated.into_boxed_slice().into(),
            bytes: text.len(),
        }
    }

    fn text(&self) -> Bytes {
        let mut text = Vec::with_capacity(self.bytes);
        // This process deflated it, so it inflates.
        let read = flate2::read::DeflateDecoder::new(&*self.deflated).read_to_end(&mut text);
        debug_assert!(
            read.is_ok_and(|read| read == self.bytes),
            "a part inflates to what it was deflated from"
        );
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_packed_and_comes_back() {
        let mut packed = PackedText::new(1 << 30, 0);
        let mut plain = String::new();
        for n in 0..40_000 {
            let item =
                format!("{{\"index\":{{\"_index\":\"tiny\",\"_id\":\"{n:020}\",\"result\":\"created\",\"status\":201}}}},");
            packed.end().push_str(&item);
            plain.push_str(&item);
        }
        packed.set_head("[".to_owned());
        let plain = format!("[{plain}");
        assert_eq!(packed.bytes(), plain.len());
        assert!(
            packed.held_bytes() < plain.len() / 2,
            "{} of {}",
            packed.held_bytes(),
            plain.len()
        );
        assert_eq!(packed.whole(), plain.as_bytes());
        let mut sent = Vec::new();
        while let Some(piece) = packed.next_piece() {
            assert!(piece.len() <= 2 * PART_BYTES);
            sent.extend_from_slice(&piece);
        }
        assert_eq!(sent, plain.as_bytes());
    }

    #[test]
    fn a_short_text_is_not_packed() {
        let mut packed = PackedText::new(0, 1 << 20);
        packed.end().push_str(&"x".repeat(1 << 20));
        assert!(packed.parts.is_empty() && !packed.is_empty());
        assert_eq!(packed.next_piece().map(|piece| piece.len()), Some(1 << 20));
        assert!(packed.next_piece().is_none());
    }
}
