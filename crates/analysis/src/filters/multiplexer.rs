//! `multiplexer`: every token through several chains of filters, the results side by side.

use super::{All, Filter};
use crate::named::Named;
use crate::room::Room;
use crate::token::Token;

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
        let (mut out, mut room): (Vec<Token>, Room) = (Vec::new(), Room::new());
        for token in tokens {
            let first = out.len();
            if self.preserve_original {
                out.push(token.clone());
            }
            for chain in &self.chains {
                let made = chain
                    .iter()
                    .fold(vec![token.clone()], |tokens, filter| filter.part.run(tokens));
                for token in made {
                    let known = out[first..]
                        .iter()
                        .any(|other| other.term == token.term && other.position == token.position);
                    if !known {
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
