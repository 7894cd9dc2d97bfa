//! Synonym rules: their syntax, and finding them in a stream of tokens.
//!
//! A rule is `a, b => c` (the left becomes the right) or `a, b, c` (each stands for all, or without `expand`
//! for the first). Words of several tokens are allowed on both sides.

pub(super) mod flat;
pub(super) mod graph;
mod parse;

pub(crate) use parse::{Reading, parse};

use crate::room::Room;
use crate::token::Token;
use std::collections::HashMap;

/// The synonyms of a sequence of terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outputs {
    /// Each a sequence of terms.
    pub(crate) phrases: Vec<Vec<String>>,
    /// Whether the original stays.
    pub(crate) keep_original: bool,
}

/// Rules by the first term of what they match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Synonyms {
    rules: HashMap<String, Vec<(Vec<String>, Outputs)>>,
}

impl Synonyms {
    /// Adds a rule to those there are: an input, and what it becomes, each once. False: there is no room for it.
    #[must_use]
    pub(crate) fn add<'a>(
        &mut self,
        input: &[String],
        outputs_of: impl Iterator<Item = &'a Vec<String>>,
        keep_original: bool,
        room: &mut Room,
    ) -> bool {
        let Some((first, rest)) = input.split_first() else {
            return true;
        };
        let rules = self.rules.entry(first.clone()).or_default();
        let at = match rules.iter().position(|(known, _)| known == rest) {
            Some(at) => at,
            None => {
                rules.push((rest.to_vec(), Outputs::default()));
                rules.len() - 1
            }
        };
        let outputs = &mut rules[at].1;
        outputs.keep_original |= keep_original;
        let known = outputs.phrases.len();
        for output in outputs_of {
            if !outputs.phrases[..known].contains(output) {
                if !room.take(output.iter().map(String::len).sum()) {
                    return false;
                }
                outputs.phrases.push(output.clone());
            }
        }
        true
    }

    /// The longest match that begins at the first of the tokens: its length and what it becomes.
    fn longest(&self, tokens: &[Token], ignore_case: bool) -> Option<(usize, &Outputs)> {
        let key = |term: &str| {
            if ignore_case { term.to_lowercase() } else { term.to_owned() }
        };
        let (first, rest) = tokens.split_first()?;
        let rules = if ignore_case {
            self.rules.get(&key(&first.term))
        } else {
            self.rules.get(&first.term)
        }?;
        rules
            .iter()
            .filter(|(words, _)| {
                words.len() <= rest.len()
                    && words
                        .iter()
                        .zip(rest)
                        .all(|(word, token)| *word == token.term || (ignore_case && *word == key(&token.term)))
            })
            .max_by_key(|(words, _)| words.len())
            .map(|(words, outputs)| (words.len() + 1, outputs))
    }
}
