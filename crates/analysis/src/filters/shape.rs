//! Filters by the outer shape of a term: `length`, `truncate`, `trim`, `reverse`, `limit`.

use super::{All, Each};
use crate::token::Token;

fn units(term: &str) -> usize {
    if term.is_ascii() {
        term.len()
    } else {
        term.encode_utf16().count()
    }
}

/// Keeps terms of these lengths.
pub(crate) struct Length {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Each for Length {
    fn each(&self, token: &mut Token) -> bool {
        (self.min..=self.max).contains(&units(&token.term))
    }
}

/// Cuts terms.
pub(crate) struct Truncate(pub(crate) usize);

impl Each for Truncate {
    fn keywords(&self) -> bool {
        true
    }
    fn each(&self, token: &mut Token) -> bool {
        if !token.keyword && units(&token.term) > self.0 {
            let end = if self.0 == 0 {
                0
            } else {
                crate::characters::after_units(&token.term, 0, self.0)
            };
            token.term.truncate(end);
        }
        true
    }
}

/// Drops white space around terms.
pub(crate) struct Trim;

impl Each for Trim {
    fn each(&self, token: &mut Token) -> bool {
        let trimmed = token.term.trim();
        if trimmed.len() < token.term.len() {
            token.term = trimmed.to_owned();
        }
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}

/// Turns terms round.
pub(crate) struct Reverse;

impl Each for Reverse {
    fn each(&self, token: &mut Token) -> bool {
        token.term = token.term.chars().rev().collect();
        true
    }
}

/// Keeps the first tokens.
pub(crate) struct Limit(pub(crate) usize);

impl All for Limit {
    fn all(&self, mut tokens: Vec<Token>) -> Vec<Token> {
        tokens.truncate(self.0);
        tokens
    }
}
