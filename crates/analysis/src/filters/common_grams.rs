//! `common_grams`: a common word and its neighbour in one token, so that phrases with common words are quick.

use super::{All, WordSet};
use crate::token::{Token, TokenKind};

/// Joins common words with their neighbours.
pub(crate) struct CommonGrams {
    pub(crate) common: WordSet,
    /// Leaves out single words that a pair covers.
    pub(crate) query_mode: bool,
}

impl All for CommonGrams {
    fn grows(&self) -> u32 {
        1
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let common: Vec<bool> = tokens.iter().map(|token| self.common.has(&token.term)).collect();
        let pair = |i: usize| i + 1 < tokens.len() && (common[i] || common[i + 1]);
        let mut out = Vec::with_capacity(tokens.len());
        for (i, token) in tokens.iter().enumerate() {
            let covered = pair(i) || (i + 1 == tokens.len() && i > 0 && pair(i - 1));
            if !(self.query_mode && covered) {
                out.push(token.clone());
            }
            if pair(i) {
                let next = &tokens[i + 1];
                out.push(Token {
                    term: format!("{}_{}", token.term, next.term),
                    end: next.end,
                    position_length: if self.query_mode { 1 } else { 2 },
                    kind: TokenKind::Gram,
                    ..*token
                });
            }
        }
        out
    }
}
