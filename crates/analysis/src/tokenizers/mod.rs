//! Tokenizers: they cut a text into pieces.

mod by_class;
mod classic;
mod keyword;
mod ngram;
mod path_hierarchy;
mod pattern;
mod standard;
mod uax_url_email;

pub(crate) use by_class::{ByClass, CharClass};
pub(crate) use classic::ClassicTokenizer;
pub(crate) use keyword::Keyword;
pub(crate) use ngram::NGram;
pub(crate) use path_hierarchy::PathHierarchy;
pub(crate) use pattern::{Matches, Pattern};
pub(crate) use standard::Standard;
pub(crate) use uax_url_email::UaxUrlEmail;

use crate::token::TokenKind;

/// A piece of a text, not yet a token: its term is borrowed.
pub(crate) struct Piece<'a> {
    pub(crate) term: &'a str,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) position: u32,
    pub(crate) kind: TokenKind,
}

impl<'a> Piece<'a> {
    /// The piece of `text` from `start` to `end`.
    pub(crate) fn of(text: &'a str, start: usize, end: usize, position: u32, kind: TokenKind) -> Piece<'a> {
        Piece {
            term: &text[start..end],
            start,
            end,
            position,
            kind,
        }
    }
}

/// Cuts a text into pieces.
pub(crate) trait Tokenizer: Send + Sync {
    /// Hands each piece of the text to `f`, in order.
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>));
    /// Its change of single characters, for terms that are not cut: only `lowercase` has one.
    fn normalize(&self, _term: &mut String) {}
    /// Whether its pieces overlap, so that they may be much longer together than the text.
    fn grows(&self) -> bool {
        false
    }
    /// The longest piece that it cuts a text into, in UTF-16 units; `None`: there is no such length.
    fn longest(&self) -> Option<usize> {
        None
    }
}
