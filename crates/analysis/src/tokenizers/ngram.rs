//! The `ngram` and `edge_ngram` tokenizers: substrings of a given range of lengths.

use super::{CharClass, Piece, Tokenizer};
use crate::room::Room;
use crate::token::TokenKind;

/// Substrings of the runs of the given sorts of characters; of the whole text if none is given.
pub(crate) struct NGram {
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) classes: Vec<CharClass>,
    /// Only those that begin a run.
    pub(crate) edges: bool,
}

impl NGram {
    /// The substrings of one run; false: there is no room for more.
    fn run(
        &self,
        text: &str,
        (from, to): (usize, usize),
        position: &mut u32,
        room: &mut Room,
        f: &mut dyn FnMut(Piece<'_>),
    ) -> bool {
        let ends: Vec<usize> = text[from..to].char_indices().map(|(at, _)| from + at).chain([to]).collect();
        let starts = if self.edges { 1 } else { ends.len() - 1 };
        for first in 0..starts {
            for length in self.min..=self.max {
                let Some(&end) = ends.get(first + length) else {
                    break;
                };
                f(Piece::of(text, ends[first], end, *position, TokenKind::Word));
                *position += 1;
                if !room.take(end - ends[first]) {
                    return false;
                }
            }
        }
        true
    }
}

impl Tokenizer for NGram {
    fn grows(&self) -> bool {
        true
    }
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        debug_assert!(
            1 <= self.min && self.min <= self.max,
            "the registry refuses grams of {} to {} characters",
            self.min,
            self.max
        );
        let (mut position, mut room) = (0, Room::new());
        if self.classes.is_empty() {
            if !text.is_empty() {
                self.run(text, (0, text.len()), &mut position, &mut room, f);
            }
            return;
        }
        let mut start = None;
        for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
            let inside = at < text.len() && self.classes.iter().any(|class| class.has(c));
            match start {
                None if inside => start = Some(at),
                Some(from) if !inside => {
                    start = None;
                    if !self.run(text, (from, at), &mut position, &mut room, f) {
                        return;
                    }
                }
                _ => {}
            }
        }
    }
}
