//! The `pattern`, `simple_pattern` and `simple_pattern_split` tokenizers: a regular expression says what
//! separates tokens or what they are.

use super::{Piece, Tokenizer};
use crate::token::TokenKind;
use regex::Regex;

/// The role of the pattern's matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Matches {
    /// They separate tokens.
    Separate,
    /// This group of each is a token.
    Group(usize),
}

/// Cuts by a regular expression.
pub(crate) struct Pattern {
    pub(crate) pattern: Regex,
    pub(crate) matches: Matches,
}

impl Tokenizer for Pattern {
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        let mut position = 0;
        let mut emit = |start: usize, end: usize| {
            if start < end {
                f(Piece::of(text, start, end, position, TokenKind::Word));
                position += 1;
            }
        };
        match self.matches {
            Matches::Separate => {
                let mut from = 0;
                for found in self.pattern.find_iter(text) {
                    emit(from, found.start());
                    from = found.end();
                }
                emit(from, text.len());
            }
            Matches::Group(0) => {
                for found in self.pattern.find_iter(text) {
                    emit(found.start(), found.end());
                }
            }
            Matches::Group(group) => {
                for found in self.pattern.captures_iter(text).filter_map(|captures| captures.get(group)) {
                    emit(found.start(), found.end());
                }
            }
        }
    }
}
