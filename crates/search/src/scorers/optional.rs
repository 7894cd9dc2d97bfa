//! Documents of a set; those that are in another one score more.

use super::node::seek_to;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// A set whose score may be raised by another one.
pub(crate) struct WithOption {
    set: Box<dyn Scorer>,
    option: Box<dyn Scorer>,
}

/// `set`, with the score of `option` added where it matches.
pub(crate) fn with_option(set: Box<dyn Scorer>, option: Box<dyn Scorer>) -> Box<dyn Scorer> {
    if option.doc() == TERMINATED {
        set
    } else {
        Box::new(WithOption { set, option })
    }
}

impl DocSet for WithOption {
    fn advance(&mut self) -> DocId {
        self.set.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        seek_to(self.set.as_mut(), target)
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint()
    }
    fn cost(&self) -> u64 {
        self.set.cost()
    }
}

impl Scorer for WithOption {
    fn score(&mut self) -> f32 {
        let doc = self.set.doc();
        let score = self.set.score();
        if seek_to(self.option.as_mut(), doc) == doc {
            score + self.option.score()
        } else {
            score
        }
    }
}
