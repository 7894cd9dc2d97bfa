//! `synonym`: synonyms beside the tokens they match; those of several words run alongside what follows.

use super::Synonyms;
use crate::filters::All;
use crate::room::Room;
use crate::token::{Token, TokenKind, increments, positions_from_increments};

/// Puts synonyms in, without a graph.
pub(crate) struct SynonymFilter {
    pub(crate) synonyms: Synonyms,
    pub(crate) ignore_case: bool,
}

/// A synonym's word, waiting for its place.
struct Waiting<'a> {
    term: &'a str,
    /// The end of the match, for a synonym of one word; else that of the token there.
    end: Option<usize>,
    length: u32,
}

impl All for SynonymFilter {
    fn grows(&self) -> u32 {
        2
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let steps = increments(&tokens);
        // The tokens for each token's place, and past the last token's.
        let mut waiting: Vec<Vec<Waiting<'_>>> = tokens.iter().map(|_| Vec::new()).collect();
        let mut dropped = vec![false; tokens.len()];
        let (mut at, mut room) = (0, Room::new());
        'tokens: while at < tokens.len() {
            let Some((matched, outputs)) = self.synonyms.longest(&tokens[at..], self.ignore_case) else {
                at += 1;
                continue;
            };
            let end = tokens[at + matched - 1].end;
            for phrase in &outputs.phrases {
                for (i, term) in phrase.iter().enumerate() {
                    if waiting.len() <= at + i {
                        waiting.push(Vec::new());
                    }
                    let single = phrase.len() == 1;
                    let length = if single && outputs.keep_original { matched } else { 1 };
                    waiting[at + i].push(Waiting {
                        term,
                        end: single.then_some(end),
                        length: u32::try_from(length).unwrap_or(1),
                    });
                    if !room.take(term.len()) {
                        break 'tokens;
                    }
                }
            }
            if !outputs.keep_original {
                dropped[at..at + matched].fill(true);
            }
            at += matched;
        }
        let (mut out, mut out_steps) = (Vec::new(), Vec::new());
        let last = tokens.last().map(|token| (token.start, token.end)).unwrap_or_default();
        for (i, words) in waiting.iter().enumerate() {
            let mut step = 1;
            let (start, token_end) = tokens.get(i).map_or(last, |token| (token.start, token.end));
            if i < tokens.len() && !dropped[i] {
                out.push(tokens[i].clone());
                out_steps.push(steps[i]);
                step = 0;
            }
            for word in words {
                out.push(Token {
                    term: word.term.to_owned(),
                    start,
                    end: word.end.unwrap_or(token_end),
                    position: 0,
                    position_length: word.length,
                    kind: TokenKind::Synonym,
                    keyword: false,
                });
                out_steps.push(step);
                step = 0;
            }
        }
        positions_from_increments(&mut out, &out_steps);
        out
    }
}
