//! `unique` and `remove_duplicates`: a term once.

use super::All;
use crate::token::{Token, increments, positions_from_increments};
use std::collections::HashSet;

/// A term once in the text, or once at each position. Dropped tokens leave no hole.
pub(crate) struct Unique {
    pub(crate) only_on_same_position: bool,
}

impl All for Unique {
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let steps = increments(&tokens);
        let mut seen = HashSet::new();
        let (mut kept, mut kept_steps) = (Vec::new(), Vec::new());
        for (token, step) in tokens.into_iter().zip(steps) {
            if self.only_on_same_position && step > 0 {
                seen.clear();
            }
            if seen.insert(token.term.clone()) {
                kept.push(token);
                kept_steps.push(step);
            }
        }
        positions_from_increments(&mut kept, &kept_steps);
        kept
    }
}

/// A term once at each position.
pub(crate) struct RemoveDuplicates;

impl All for RemoveDuplicates {
    fn all(&self, mut tokens: Vec<Token>) -> Vec<Token> {
        let mut seen: HashSet<String> = HashSet::new();
        let mut position = None;
        tokens.retain(|token| {
            if position != Some(token.position) {
                position = Some(token.position);
                seen.clear();
            }
            seen.insert(token.term.clone())
        });
        tokens
    }
}
