//! `elision` and `apostrophe`: they drop the part before or after an apostrophe.

use super::{Each, WordSet};
use crate::token::Token;

/// Drops articles: `l'avion` becomes `avion`.
pub(crate) struct Elision(pub(crate) WordSet);

impl Each for Elision {
    fn each(&self, token: &mut Token) -> bool {
        if let Some(at) = token.term.find(['\'', '\u{2019}'])
            && self.0.has(&token.term[..at])
        {
            let after = at + token.term[at..].chars().next().map_or(0, char::len_utf8);
            token.term.drain(..after);
        }
        true
    }
    fn normalizes(&self) -> bool {
        true
    }
}

/// Drops an apostrophe and what follows it.
pub(crate) struct Apostrophe;

impl Each for Apostrophe {
    fn each(&self, token: &mut Token) -> bool {
        if let Some(at) = token.term.find(['\'', '\u{2019}']) {
            token.term.truncate(at);
        }
        true
    }
}
