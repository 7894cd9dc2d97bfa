//! Automata over term dictionaries.

pub(crate) mod levenshtein;
pub(crate) mod regexp;
