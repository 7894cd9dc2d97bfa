//! `fingerprint`: all terms, sorted and once each, in one token.

use super::All;
use crate::token::{Token, TokenKind};
use std::collections::BTreeSet;

/// Joins all terms.
pub(crate) struct Fingerprint {
    pub(crate) separator: String,
    /// A longer result is dropped.
    pub(crate) max_output_size: usize,
}

impl All for Fingerprint {
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let Some(end) = tokens.iter().map(|token| token.end).max() else {
            return tokens;
        };
        let terms: BTreeSet<&str> = tokens.iter().map(|token| token.term.as_str()).collect();
        let term = terms.into_iter().collect::<Vec<_>>().join(&self.separator);
        if term.encode_utf16().count() > self.max_output_size {
            return Vec::new();
        }
        vec![Token {
            term,
            end,
            kind: TokenKind::Fingerprint,
            ..Token::empty()
        }]
    }
}
