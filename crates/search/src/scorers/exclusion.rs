//! Documents of a set that are not in another one.

use super::node::seek_to;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// A set without another one.
pub(crate) struct Without {
    set: Box<dyn Scorer>,
    excluded: Box<dyn Scorer>,
    /// The document that [`Without::settle`] found last. Nothing before it is in the set and not excluded.
    settled: DocId,
}

/// `set` without the documents of `excluded`.
pub(crate) fn without(set: Box<dyn Scorer>, excluded: Box<dyn Scorer>) -> Box<dyn Scorer> {
    if excluded.doc() == TERMINATED {
        return set;
    }
    let mut without = Without {
        set,
        excluded,
        settled: 0,
    };
    without.settle();
    Box::new(without)
}

impl Without {
    fn settle(&mut self) -> DocId {
        loop {
            let doc = self.set.doc();
            if doc == TERMINATED || seek_to(self.excluded.as_mut(), doc) != doc {
                self.settled = doc;
                return doc;
            }
            self.set.advance();
        }
    }
}

impl DocSet for Without {
    fn advance(&mut self) -> DocId {
        let before = self.set.doc();
        self.set.advance();
        let next = self.settle();
        debug_assert!(
            next > before || before == TERMINATED,
            "search.md S8: documents come in ascending order"
        );
        next
    }
    fn seek(&mut self, target: DocId) -> DocId {
        seek_to(self.set.as_mut(), target);
        let next = self.settle();
        debug_assert!(next >= target, "search.md S8: a seek ends at its target or behind it");
        next
    }
    /// Looks at the one document: the next one that is left may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        // Documents before it were excluded, and `excluded` stands behind them: it cannot say so again. A range of a column would still
        // find them, because it looks at their values.
        if target < self.settled {
            return SeekDangerResult::SeekLowerBound(self.settled);
        }
        let at = self.set.seek_danger(target);
        if matches!(at, SeekDangerResult::Found) && seek_to(self.excluded.as_mut(), target) == target {
            return SeekDangerResult::SeekLowerBound(target + 1);
        }
        at
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

impl Scorer for Without {
    fn score(&mut self) -> f32 {
        self.set.score()
    }
}
