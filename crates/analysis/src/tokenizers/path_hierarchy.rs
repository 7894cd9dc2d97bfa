//! The `path_hierarchy` tokenizer: `/a/b/c` gives `/a`, `/a/b` and `/a/b/c`, all at one position.
//!
//! Reversed, `www.example.com` gives `www.example.com`, `example.com` and `com`.

use super::{Piece, Tokenizer};
use crate::token::TokenKind;

/// A path and its ancestors.
pub(crate) struct PathHierarchy {
    pub(crate) delimiter: char,
    pub(crate) replacement: char,
    /// How many parts are left out, from the root.
    pub(crate) skip: usize,
    pub(crate) reverse: bool,
}

impl Tokenizer for PathHierarchy {
    fn grows(&self) -> bool {
        true
    }
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        let replaced =
            (self.delimiter != self.replacement).then(|| text.replace(self.delimiter, self.replacement.encode_utf8(&mut [0; 4])));
        let width = (self.delimiter.len_utf8(), self.replacement.len_utf8());
        if self.reverse {
            self.down_to_leaf(text, replaced.as_deref(), width, f);
        } else {
            self.up_from_root(text, replaced.as_deref(), width, f);
        }
    }
}

/// An offset in the text with replaced delimiters, `delimiters` of which stand before it.
fn offset_after_replacement(at: usize, delimiters: usize, (old, new): (usize, usize)) -> usize {
    at + delimiters * new - delimiters * old
}

impl PathHierarchy {
    fn up_from_root(&self, text: &str, replaced: Option<&str>, width: (usize, usize), f: &mut dyn FnMut(Piece<'_>)) {
        if text.is_empty() {
            return;
        }
        let out = replaced.unwrap_or(text);
        // A token ends before each delimiter that does not begin the text, and at the end of the text.
        // A path that begins with a delimiter has its first part after it.
        let mut start = if self.skip == 0 { Some((0, 0)) } else { None };
        let mut parts = 0;
        for (delimiters, (at, _)) in text.match_indices(self.delimiter).enumerate() {
            if at == 0 {
                continue;
            }
            parts += 1;
            if start.is_none() && parts == self.skip {
                start = Some((at, delimiters));
                continue;
            }
            if let Some((from, before)) = start {
                let term = &out[offset_after_replacement(from, before, width)..offset_after_replacement(at, delimiters, width)];
                f(Piece {
                    term,
                    start: from,
                    end: at,
                    position: 0,
                    kind: TokenKind::Word,
                });
            }
        }
        if let Some((from, before)) = start {
            let all = text.matches(self.delimiter).count();
            let term = &out[offset_after_replacement(from, before, width)..offset_after_replacement(text.len(), all, width)];
            f(Piece {
                term,
                start: from,
                end: text.len(),
                position: 0,
                kind: TokenKind::Word,
            });
        }
    }

    fn down_to_leaf(&self, text: &str, replaced: Option<&str>, width: (usize, usize), f: &mut dyn FnMut(Piece<'_>)) {
        if text.is_empty() {
            return;
        }
        let out = replaced.unwrap_or(text);
        // A token begins at the start of the text and after each delimiter; all end at one place.
        let mut starts = vec![0];
        starts.extend(
            text.match_indices(self.delimiter)
                .map(|(at, _)| at + self.delimiter.len_utf8()),
        );
        let all = starts.len() - 1;
        if starts.last().is_some_and(|last| *last < text.len()) {
            starts.push(text.len());
        }
        let Some(last) = (starts.len() - 1).checked_sub(self.skip) else {
            return;
        };
        let (end, delimiters) = (starts[last], last.min(all));
        for (before, &from) in starts[..last].iter().enumerate() {
            let term = &out[offset_after_replacement(from, before, width)..offset_after_replacement(end, delimiters, width)];
            f(Piece {
                term,
                start: from,
                end,
                position: 0,
                kind: TokenKind::Word,
            });
        }
    }
}
