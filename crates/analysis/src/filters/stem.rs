//! Stemming: a function changes the term, unless the token is marked as a keyword.

use super::Each;
use crate::token::{Token, TokenKind};
use rust_stemmers::{Algorithm, Stemmer};

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
    /// One of those that the project has added since.
    Newer(snowball_stemmers_rs::Stemmer),
}

/// An algorithm of the Snowball project: where both crates have one, it is the one that stems as Lucene does.
pub(crate) enum Snowball {
    Old(Algorithm),
    Newer(snowball_stemmers_rs::Algorithm),
}

impl Change {
    /// One of the Snowball project's.
    pub(crate) fn snowball(algorithm: Snowball) -> Change {
        match algorithm {
            Snowball::Old(algorithm) => Change::Snowball(Stemmer::create(algorithm)),
            Snowball::Newer(algorithm) => Change::Newer(snowball_stemmers_rs::Stemmer::create(algorithm)),
        }
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
            Change::Snowball(stemmer) => put(stemmer.stem(&token.term).into_owned(), token),
            Change::Newer(stemmer) => put(stemmer.stem(&token.term).into_owned(), token),
        }
        true
    }
    fn normalizes(&self) -> bool {
        self.normalization
    }
}

fn put(stem: String, token: &mut Token) {
    token.term = stem;
}

/// `classic`: takes `'s` off what the `classic` tokenizer found with an apostrophe, and the dots out of acronyms.
pub(crate) struct ClassicFilter;

impl Each for ClassicFilter {
    fn each(&self, token: &mut Token) -> bool {
        match token.kind {
            TokenKind::Apostrophe if token.term.ends_with("'s") || token.term.ends_with("'S") => {
                token.term.truncate(token.term.len() - 2);
            }
            TokenKind::Acronym => token.term.retain(|letter| letter != '.'),
            _ => {}
        }
        true
    }
}
