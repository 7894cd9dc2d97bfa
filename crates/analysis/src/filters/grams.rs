//! The `ngram` and `edge_ngram` filters: substrings of terms, all at the position of their term.

use super::All;
use crate::room::Room;
use crate::token::Token;

/// Substrings of a range of lengths.
pub(crate) struct Grams {
    pub(crate) min: usize,
    pub(crate) max: usize,
    /// Only those that begin a term.
    pub(crate) edges: bool,
    /// Grams at the end of a term instead.
    pub(crate) back: bool,
    pub(crate) preserve_original: bool,
}

impl All for Grams {
    fn grams(&self) -> bool {
        true
    }
    fn grows(&self) -> u32 {
        1
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        debug_assert!(
            1 <= self.min && self.min <= self.max,
            "the registry refuses grams of {} to {} characters",
            self.min,
            self.max
        );
        let (mut out, mut room) = (Vec::new(), Room::new());
        for token in tokens {
            let ends: Vec<usize> = token
                .term
                .char_indices()
                .map(|(at, _)| at)
                .chain([token.term.len()])
                .collect();
            let length = ends.len() - 1;
            let starts = if self.edges { length.min(1) } else { length };
            for first in 0..starts {
                for n in self.min..=self.max.min(length) {
                    let gram = if self.back {
                        &token.term[ends[length - n]..]
                    } else {
                        let Some(&end) = ends.get(first + n) else {
                            break;
                        };
                        &token.term[ends[first]..end]
                    };
                    let fits = room.take(gram.len());
                    out.push(token.with_term(gram));
                    if !fits {
                        return out;
                    }
                }
            }
            if self.preserve_original && !(self.min..=self.max).contains(&length) {
                out.push(token);
            }
        }
        out
    }
}
