//! Filters by word lists: `stop` and `keep`.

use super::{All, Each};
use crate::characters::lowercase;
use crate::token::Token;
use std::collections::HashSet;

/// A set of words, perhaps whatever their case.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordSet {
    words: HashSet<String>,
    ignore_case: bool,
}

impl WordSet {
    /// The words; with `ignore_case` they match in any case.
    pub(crate) fn new<S: Into<String>>(words: impl IntoIterator<Item = S>, ignore_case: bool) -> WordSet {
        let words = words.into_iter().map(|word| {
            let mut word = word.into();
            if ignore_case {
                lowercase(&mut word);
            }
            word
        });
        WordSet {
            words: words.collect(),
            ignore_case,
        }
    }

    /// Whether the word is one of them.
    pub(crate) fn has(&self, word: &str) -> bool {
        if self.ignore_case {
            let mut word = word.to_owned();
            lowercase(&mut word);
            return self.words.contains(&word);
        }
        self.words.contains(word)
    }
}

/// Drops the words.
pub(crate) struct Stop(pub(crate) WordSet);

impl Each for Stop {
    fn each(&self, token: &mut Token) -> bool {
        !self.0.has(&token.term)
    }
}

/// Drops the words, but not a last token: it may be the beginning of another word.
pub(crate) struct StopButLast(pub(crate) WordSet);

impl All for StopButLast {
    fn keywords(&self) -> bool {
        true
    }
    fn all(&self, mut tokens: Vec<Token>) -> Vec<Token> {
        let last = tokens.pop();
        tokens.retain(|token| !self.0.has(&token.term));
        tokens.extend(last);
        tokens
    }
}

/// `keep`: drops all other words. `keep_types`: keeps or drops tokens of some kinds.
pub(crate) enum Keep {
    Words(WordSet),
    Kinds { kinds: Vec<String>, keep: bool },
}

impl Each for Keep {
    fn each(&self, token: &mut Token) -> bool {
        match self {
            Keep::Words(words) => words.has(&token.term),
            Keep::Kinds { kinds, keep } => kinds.iter().any(|kind| kind == token.kind.as_str()) == *keep,
        }
    }
}
