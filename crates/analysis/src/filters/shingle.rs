//! `shingle`: neighbouring tokens joined into one.

use super::All;
use crate::room::Room;
use crate::token::{Token, TokenKind};

/// Joins neighbours.
pub(crate) struct Shingle {
    pub(crate) min: usize,
    pub(crate) max: usize,
    pub(crate) unigrams: bool,
    pub(crate) unigrams_if_no_shingles: bool,
    pub(crate) separator: String,
    /// Stands where a token was dropped.
    pub(crate) filler: String,
}

/// The shingles that an analyzer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shingles {
    /// The fewest and the most tokens of one.
    pub min: usize,
    pub max: usize,
    /// Tokens stand beside them.
    pub unigrams: bool,
}

impl All for Shingle {
    fn grows(&self) -> u32 {
        1
    }
    fn shingles(&self) -> Option<Shingles> {
        Some(Shingles {
            min: self.min,
            max: self.max,
            unigrams: self.unigrams,
        })
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        debug_assert!(
            2 <= self.min && self.min <= self.max,
            "the registry refuses shingles of {} to {} tokens",
            self.min,
            self.max
        );
        // Holes become fillers, at most as many as a shingle can span.
        let mut window: Vec<(Token, bool)> = Vec::with_capacity(tokens.len());
        let mut next_position = 0;
        for token in tokens {
            let hole = token.position.saturating_sub(next_position) as usize;
            for _ in 0..hole.min(self.max - 1) {
                let filler = Token {
                    start: token.start,
                    end: token.start,
                    ..token.with_term(&*self.filler)
                };
                window.push((filler, true));
            }
            next_position = token.position + 1;
            window.push((token, false));
        }
        let singles = self.unigrams || (self.unigrams_if_no_shingles && window.len() < self.min);
        let (mut out, mut room) = (Vec::new(), Room::new());
        let mut position = 0;
        for first in 0..window.len() {
            let before = out.len();
            if singles && !window[first].1 {
                out.push(Token {
                    position,
                    position_length: 1,
                    ..window[first].0.clone()
                });
            }
            let longest = self.max.min(window.len() - first);
            for size in self.min..=longest {
                let parts = &window[first..first + size];
                if parts.iter().all(|(_, filler)| *filler) {
                    continue;
                }
                let terms: Vec<&str> = parts.iter().map(|(token, _)| token.term.as_str()).collect();
                let length = if self.unigrams {
                    size
                } else {
                    (size + 1).saturating_sub(self.min).max(1)
                };
                let term = terms.join(&self.separator);
                let fits = room.take(term.len());
                out.push(Token {
                    term,
                    start: parts[0].0.start,
                    end: parts[size - 1].0.end,
                    position,
                    position_length: u32::try_from(length).unwrap_or(u32::MAX),
                    kind: TokenKind::Shingle,
                    keyword: false,
                });
                if !fits {
                    return out;
                }
            }
            position += u32::from(out.len() > before);
        }
        out
    }
}
