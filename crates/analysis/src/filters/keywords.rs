//! Filters that keep words from stemmers: `keyword_marker`, `keyword_repeat`, `stemmer_override`.

use super::{All, Each, WordSet};
use crate::characters::lowercase;
use crate::token::Token;
use regex::Regex;
use std::collections::HashMap;

/// Marks words as keywords.
pub(crate) enum KeywordMarker {
    Words(WordSet),
    /// The pattern matches whole terms.
    Pattern(Regex),
}

impl Each for KeywordMarker {
    fn keywords(&self) -> bool {
        true
    }
    fn each(&self, token: &mut Token) -> bool {
        token.keyword |= match self {
            KeywordMarker::Words(words) => words.has(&token.term),
            KeywordMarker::Pattern(pattern) => pattern.is_match(&token.term),
        };
        true
    }
}

/// Every token twice: once as a keyword.
pub(crate) struct KeywordRepeat;

impl All for KeywordRepeat {
    fn grows(&self) -> u32 {
        1
    }
    fn keywords(&self) -> bool {
        true
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let mut out = Vec::with_capacity(tokens.len() * 2);
        for token in tokens {
            out.push(Token {
                keyword: true,
                ..token.clone()
            });
            out.push(Token { keyword: false, ..token });
        }
        out
    }
}

/// Gives words stems of one's own.
pub(crate) struct StemmerOverride {
    pub(crate) stems: HashMap<String, String>,
    pub(crate) ignore_case: bool,
}

impl Each for StemmerOverride {
    fn keywords(&self) -> bool {
        true
    }
    fn each(&self, token: &mut Token) -> bool {
        if token.keyword {
            return true;
        }
        let found = if self.ignore_case {
            let mut term = token.term.clone();
            lowercase(&mut term);
            self.stems.get(&term)
        } else {
            self.stems.get(&token.term)
        };
        if let Some(stem) = found {
            token.term.clone_from(stem);
            token.keyword = true;
        }
        true
    }
}
