//! Disjunctions of at most eight scorers: each step looks at all of them, which costs less than a heap.
//!
//! Not here: more scorers (`disjunction`).

use super::disjunction::Sum;
use super::node::seek_to;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// More sets are kept in order.
pub(crate) const SETS_MAX: usize = 8;

/// Documents that are in at least `least` of a few sets.
pub(crate) struct SmallDisjunction {
    sets: Vec<Box<dyn Scorer>>,
    /// Where each of them is: never before `doc`.
    at: Vec<DocId>,
    doc: DocId,
    least: usize,
    how: Sum,
    cost: u64,
}

impl SmallDisjunction {
    pub(crate) fn new(sets: Vec<Box<dyn Scorer>>, least: usize, how: Sum) -> SmallDisjunction {
        debug_assert!(sets.len() <= SETS_MAX, "each step looks at all sets, so they are few");
        let mut few = SmallDisjunction {
            at: sets.iter().map(|set| set.doc()).collect(),
            cost: sets.iter().map(|set| set.cost()).sum(),
            sets,
            doc: 0,
            least,
            how,
        };
        few.doc = few.at.iter().copied().min().unwrap_or(TERMINATED);
        if !few.is_enough() {
            few.advance();
        }
        few
    }

    fn is_enough(&self) -> bool {
        self.least <= 1 || self.doc == TERMINATED || self.at.iter().filter(|at| **at == self.doc).count() >= self.least
    }
}

impl DocSet for SmallDisjunction {
    fn advance(&mut self) -> DocId {
        while self.doc != TERMINATED {
            let mut next = TERMINATED;
            for (set, at) in self.sets.iter_mut().zip(&mut self.at) {
                if *at == self.doc {
                    *at = set.advance();
                }
                next = next.min(*at);
            }
            debug_assert!(next > self.doc, "search.md S8: documents come in ascending order");
            self.doc = next;
            if self.is_enough() {
                break;
            }
        }
        self.doc
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        for (set, at) in self.sets.iter_mut().zip(&mut self.at) {
            *at = seek_to(set.as_mut(), target);
        }
        self.doc = self.at.iter().copied().min().unwrap_or(TERMINATED);
        debug_assert!(self.doc >= target, "search.md S8: a seek ends at its target or behind it");
        if self.is_enough() { self.doc } else { self.advance() }
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        u32::try_from(self.cost).unwrap_or(u32::MAX)
    }
    fn cost(&self) -> u64 {
        self.cost
    }
}

impl Scorer for SmallDisjunction {
    fn score(&mut self) -> f32 {
        let here = self.sets.iter_mut().zip(&self.at).filter(|(_, at)| **at == self.doc);
        self.how.of(here.map(|(set, _)| set.score()))
    }
}
