//! Texts that begin nearly as another one does.
//!
//! Not here: how near two whole words are (`crate::automata::levenshtein`).

use crate::automata::levenshtein::Levenshtein;
use tantivy_fst::Automaton;

/// Texts of which some beginning matches.
pub(super) struct Begins(pub(super) Levenshtein);

impl Automaton for Begins {
    /// `None`: a beginning has matched.
    type State = Option<<Levenshtein as Automaton>::State>;

    fn start(&self) -> Self::State {
        let state = self.0.start();
        (!self.0.is_match(&state)).then_some(state)
    }
    fn is_match(&self, state: &Self::State) -> bool {
        state.is_none()
    }
    fn can_match(&self, state: &Self::State) -> bool {
        state.as_ref().is_none_or(|state| self.0.can_match(state))
    }
    fn will_always_match(&self, state: &Self::State) -> bool {
        state.is_none()
    }
    fn accept(&self, state: &Self::State, byte: u8) -> Self::State {
        let next = self.0.accept(state.as_ref()?, byte);
        (!self.0.is_match(&next)).then_some(next)
    }
}

/// How far a fuzzy match goes: what it has in common with the text, from the beginning.
pub(super) fn common(own: &str, key: &str) -> f32 {
    own.chars().zip(key.chars()).take_while(|(a, b)| a == b).count() as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings() {
        let automaton = Begins(Levenshtein::new("hamer", 1, 1, true));
        let matches = |text: &str| {
            let end = text
                .bytes()
                .fold(automaton.start(), |state, byte| automaton.accept(&state, byte));
            automaton.is_match(&end)
        };
        assert!(matches("hammer and nail") && matches("hamer") && !matches("kamer") && !matches("horn"));
    }
}
