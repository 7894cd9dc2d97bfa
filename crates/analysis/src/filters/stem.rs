//! Stemming: a function changes the term, unless the token is marked as a keyword.

use super::Each;
use crate::token::Token;
use rust_stemmers::{Algorithm, Stemmer};
use std::borrow::Cow;

/// The longest term a stemmer looks at, in bytes: no word of a language is longer.
const LONGEST: usize = 1024;

/// How to change a term.
pub(crate) enum Change {
    /// A function of our own.
    Own(fn(&mut String)),
    /// One that knows of no keywords.
    Plain(fn(&mut String)),
    /// One of the Snowball project's.
    Snowball(Stemmer),
}

impl Change {
    /// One of the Snowball project's.
    pub(crate) fn snowball(algorithm: Algorithm) -> Change {
        Change::Snowball(Stemmer::create(algorithm))
    }
}

/// Changes terms that are not keywords.
pub(crate) struct Stem {
    pub(crate) change: Change,
    /// A normalization: it also applies to keywords and to terms that are not analysed.
    pub(crate) normalization: bool,
}

impl Each for Stem {
    fn keywords(&self) -> bool {
        !self.normalization && !matches!(self.change, Change::Plain(_))
    }
    fn each(&self, token: &mut Token) -> bool {
        if token.keyword && self.keywords() || token.term.len() > LONGEST {
            return true;
        }
        match &self.change {
            Change::Own(change) | Change::Plain(change) => change(&mut token.term),
            Change::Snowball(stemmer) => {
                let stem = match stemmer.stem(&token.term) {
                    Cow::Owned(stem) => Ok(stem),
                    Cow::Borrowed(stem) => Err(stem.len()),
                };
                match stem {
                    Ok(stem) => token.term = stem,
                    Err(length) => token.term.truncate(length),
                }
            }
        }
        true
    }
    fn normalizes(&self) -> bool {
        self.normalization
    }
}
