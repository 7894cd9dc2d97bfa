//! The `keyword` tokenizer: the whole text is one token.

use super::{Piece, Tokenizer};
use crate::token::TokenKind;

/// One token, the text.
pub(crate) struct Keyword;

impl Tokenizer for Keyword {
    fn tokenize(&self, text: &str, f: &mut dyn FnMut(Piece<'_>)) {
        f(Piece::of(text, 0, text.len(), 0, TokenKind::Word));
    }
}
