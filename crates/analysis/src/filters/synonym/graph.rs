//! `synonym_graph`: synonyms of several words as paths beside the tokens they match, for searching phrases.

use super::Synonyms;
use crate::filters::All;
use crate::room::Room;
use crate::token::{Token, TokenKind, increments};

/// Puts synonyms in, as a graph.
pub(crate) struct SynonymGraphFilter {
    pub(crate) synonyms: Synonyms,
    pub(crate) ignore_case: bool,
}

/// Puts a token between two nodes of the graph.
fn place(out: &mut Vec<Token>, token: Token, from: usize, to: usize) {
    let cast = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    out.push(Token {
        position: cast(from),
        position_length: cast(to - from),
        ..token
    });
}

impl All for SynonymGraphFilter {
    fn grows(&self) -> u32 {
        2
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let steps = increments(&tokens);
        let mut out = Vec::new();
        // The last node a token began at, counted from -1, and the one the next begins at.
        let (mut last, mut next) = (-1_i64, 0_usize);
        let (mut at, mut room) = (0, Room::new());
        while at < tokens.len() {
            let Some((matched, outputs)) = self.synonyms.longest(&tokens[at..], self.ignore_case) else {
                last += i64::from(steps[at]);
                let from = usize::try_from(last).unwrap_or(0);
                next = from + tokens[at].position_length as usize;
                place(&mut out, tokens[at].clone(), from, next);
                at += 1;
                continue;
            };
            let originals = &tokens[at..at + matched];
            let fits = outputs.phrases.iter().flatten().all(|term| room.take(term.len()));
            let mut paths: Vec<Vec<Token>> = outputs
                .phrases
                .iter()
                .map(|phrase| {
                    let word = |term: &String| Token {
                        term: term.clone(),
                        start: originals[0].start,
                        end: originals[matched - 1].end,
                        kind: TokenKind::Synonym,
                        keyword: false,
                        ..originals[0]
                    };
                    phrase.iter().map(word).collect()
                })
                .collect();
            if outputs.keep_original {
                paths.push(originals.to_vec());
            }
            paths.retain(|path| !path.is_empty());
            let inner: usize = paths.iter().map(|path| path.len() - 1).sum();
            let (start, end) = (next, next + inner + 1);
            // First the first word of every path, then the rest of each.
            let mut node = start + 1;
            let mut rests = Vec::new();
            for path in paths {
                let length = path.len();
                let mut words = path.into_iter();
                let Some(first) = words.next() else { continue };
                let to = if length == 1 { end } else { node };
                place(&mut out, first, start, to);
                rests.push((words, to));
                node += length - 1;
            }
            for (words, from) in rests {
                let count = words.len();
                for (i, word) in words.enumerate() {
                    let from = from + i;
                    let to = if i + 1 == count { end } else { from + 1 };
                    place(&mut out, word, from, to);
                }
            }
            last = out.last().map_or(last, |token| i64::from(token.position));
            next = end;
            at += matched;
            if !fits {
                return out;
            }
        }
        out
    }
}
