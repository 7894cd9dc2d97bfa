//! Token filters: they change, drop and add tokens.
//!
//! A filter that looks at one token at a time is an [`Each`]; one that needs the others, or makes more tokens
//! of one, is an [`All`].

mod articles;
mod case;
mod cjk;
mod common_grams;
mod digits;
mod fingerprint;
mod folding;
mod grams;
mod keywords;
mod multiplexer;
mod patterns;
mod shape;
mod shingle;
mod stem;
mod stop;
mod synonym;
mod unique;
mod word_delimiter;

pub(crate) use articles::{Apostrophe, Elision};
pub(crate) use case::{Lowercase, LowercaseLanguage, Uppercase};
pub(crate) use cjk::{CjkBigram, CjkWidth};
pub(crate) use common_grams::CommonGrams;
pub(crate) use digits::DecimalDigit;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use folding::{AsciiFolding, KeepingOriginal};
pub(crate) use grams::Grams;
pub(crate) use keywords::{KeywordMarker, KeywordRepeat, StemmerOverride};
pub(crate) use multiplexer::Multiplexer;
pub(crate) use patterns::{PatternCapture, PatternReplaceFilter};
pub(crate) use shape::{Length, Limit, Reverse, Trim, Truncate};
pub(crate) use shingle::Shingle;
pub use shingle::Shingles;
pub(crate) use stem::{Change, ClassicFilter, Snowball, Stem};
pub(crate) use stop::{Keep, Stop, StopButLast, WordSet};
pub(crate) use synonym::{Reading, flat::SynonymFilter, graph::SynonymGraphFilter, parse};
pub(crate) use unique::{RemoveDuplicates, Unique};
pub(crate) use word_delimiter::{WordDelimiter, WordDelimiterOptions};

use crate::token::Token;

/// Looks at one token at a time.
pub(crate) trait Each: Send + Sync {
    /// Changes the token; false drops it.
    fn each(&self, token: &mut Token) -> bool;
    /// Whether it only changes characters, so that it also applies to terms that are not analysed.
    fn normalizes(&self) -> bool {
        false
    }
    /// Whether it knows of keywords: from it on an explanation tells which tokens are some.
    fn keywords(&self) -> bool {
        false
    }
}

/// Looks at all tokens of a text.
pub(crate) trait All: Send + Sync {
    /// The tokens after this filter.
    fn all(&self, tokens: Vec<Token>) -> Vec<Token>;
    /// Its change of the characters of a term that is not analysed.
    fn normalize(&self, _token: &mut Token) {}
    /// Whether a normalizer may use it.
    fn normalizes(&self) -> bool {
        false
    }
    /// As [`Each::keywords`].
    fn keywords(&self) -> bool {
        false
    }
    /// How much more it makes of a text than it has: 0 nothing, 1 substrings of it or the like, 2 anything.
    fn grows(&self) -> u32 {
        0
    }
    /// The shingles it makes, if it makes some.
    fn shingles(&self) -> Option<Shingles> {
        None
    }
    /// Whether it makes parts of terms.
    fn grams(&self) -> bool {
        false
    }
}

/// A token filter.
pub(crate) enum Filter {
    Each(Box<dyn Each>),
    All(Box<dyn All>),
}

impl Filter {
    /// A filter of single tokens.
    pub(crate) fn each(filter: impl Each + 'static) -> Filter {
        Filter::Each(Box::new(filter))
    }

    /// A filter of whole texts.
    pub(crate) fn all(filter: impl All + 'static) -> Filter {
        Filter::All(Box::new(filter))
    }

    /// Whether a normalizer may use it.
    pub(crate) fn normalizes(&self) -> bool {
        match self {
            Filter::Each(each) => each.normalizes(),
            Filter::All(all) => all.normalizes(),
        }
    }

    /// As [`Each::keywords`].
    pub(crate) fn keywords(&self) -> bool {
        match self {
            Filter::Each(each) => each.keywords(),
            Filter::All(all) => all.keywords(),
        }
    }

    /// As [`All::shingles`].
    pub(crate) fn shingles(&self) -> Option<Shingles> {
        match self {
            Filter::Each(_) => None,
            Filter::All(all) => all.shingles(),
        }
    }

    /// As [`All::grams`].
    pub(crate) fn grams(&self) -> bool {
        match self {
            Filter::Each(_) => false,
            Filter::All(all) => all.grams(),
        }
    }

    /// As [`All::grows`].
    pub(crate) fn grows(&self) -> u32 {
        match self {
            Filter::Each(_) => 0,
            Filter::All(all) => all.grows(),
        }
    }

    /// The tokens after this filter.
    pub(crate) fn run(&self, mut tokens: Vec<Token>) -> Vec<Token> {
        match self {
            Filter::Each(each) => {
                tokens.retain_mut(|token| each.each(token));
                tokens
            }
            Filter::All(all) => all.all(tokens),
        }
    }
}
