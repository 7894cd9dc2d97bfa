//! `multiplexer`: every token through several chains of filters, the results side by side.

use super::{All, Filter};
use crate::named::Named;
use crate::room::Room;
use crate::token::{Token, increments};

/// Several chains for each token.
pub(crate) struct Multiplexer {
    pub(crate) chains: Vec<Vec<Named<Filter>>>,
    pub(crate) preserve_original: bool,
}

impl All for Multiplexer {
    fn grows(&self) -> u32 {
        2
    }
    fn keywords(&self) -> bool {
        self.chains.iter().flatten().any(|filter| filter.part.keywords())
    }
    fn all(&self, tokens: Vec<Token>) -> Vec<Token> {
        let steps = increments(&tokens);
        let (mut out, mut room): (Vec<Token>, Room) = (Vec::new(), Room::new());
        // The position behind what was made, and what the next token is ahead of it: each chain goes on where the one before
        // it ended, so that positions never go back.
        let (mut at, mut ahead) = (-1_i64, 0);
        for (token, step) in tokens.into_iter().zip(steps) {
            ahead += i64::from(step);
            let first = out.len();
            let original = self.preserve_original.then(|| vec![token.clone()]);
            let run = |chain: &Vec<Named<Filter>>| {
                let tokens = vec![token.clone()];
                chain.iter().fold(tokens, |tokens, filter| filter.part.run(tokens))
            };
            for made in original.into_iter().chain(self.chains.iter().map(run)) {
                let mut before = None;
                for mut token in made {
                    let between = before.map_or(0, |before| i64::from(token.position) - before);
                    before = Some(i64::from(token.position));
                    at += std::mem::take(&mut ahead) + between.max(0);
                    token.position = u32::try_from(at.max(0)).unwrap_or(u32::MAX);
                    let known = |other: &Token| other.term == token.term && other.position == token.position;
                    if !out[first..].iter().any(known) {
                        let fits = room.take(token.term.len());
                        out.push(token);
                        if !fits {
                            return out;
                        }
                    }
                }
            }
        }
        out
    }
}
