//! Documents that are in at least so many of several sets: sums and maxima of scores.

use super::conjunction::and;
use super::constant::NoScorer;
use super::node::seek_to;
use super::small_disjunction::{SETS_MAX, SmallDisjunction};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// How the scores of the sets that have a document become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sum {
    /// All added.
    Added,
    /// The best, and this part of the others.
    Best(f32),
    /// All added, times their number, by so many.
    Coordinated(usize),
}

impl Sum {
    /// One score of those of the sets that have a document.
    pub(crate) fn of(self, scores: impl Iterator<Item = f32>) -> f32 {
        let (mut sum, mut best, mut count) = (0f64, f32::MIN, 0f32);
        for score in scores {
            sum += f64::from(score);
            best = best.max(score);
            count += 1.0;
        }
        match self {
            Sum::Added => sum as f32,
            Sum::Best(tie) => (f64::from(best) + (sum - f64::from(best)) * f64::from(tie)) as f32,
            Sum::Coordinated(all) => sum as f32 * (count / all as f32),
        }
    }
}

/// Documents that are in at least `least` of many sets.
pub(crate) struct Disjunction {
    sets: Vec<Box<dyn Scorer>>,
    heap: BinaryHeap<Reverse<(DocId, u32)>>,
    here: Vec<u32>,
    doc: DocId,
    least: usize,
    how: Sum,
    cost: u64,
}

/// Any of the sets, at least `least` of them.
pub(crate) fn or(sets: Vec<Box<dyn Scorer>>, least: usize, how: Sum) -> Box<dyn Scorer> {
    let mut sets: Vec<Box<dyn Scorer>> = sets.into_iter().filter(|set| set.doc() != TERMINATED).collect();
    if sets.len() < least.max(1) {
        return Box::new(NoScorer);
    }
    let alone = !matches!(how, Sum::Coordinated(_));
    if sets.len() == 1
        && alone
        && let Some(set) = sets.pop()
    {
        return set;
    }
    if sets.len() == least && how == Sum::Added {
        return and(sets.into_iter().map(|set| (set, true)).collect());
    }
    if sets.len() <= SETS_MAX {
        return Box::new(SmallDisjunction::new(sets, least, how));
    }
    debug_assert!(least <= sets.len(), "fewer sets than are asked for match nothing");
    let heap = (0u32..).zip(&sets).map(|(i, set)| Reverse((set.doc(), i))).collect();
    let cost = sets.iter().map(|set| set.cost()).sum();
    let mut or = Disjunction {
        sets,
        heap,
        here: Vec::new(),
        doc: 0,
        least: least.max(1),
        how,
        cost,
    };
    or.settle();
    Box::new(or)
}

impl Disjunction {
    /// Takes the sets of the next document off the heap, until there are enough of them.
    fn settle(&mut self) -> DocId {
        loop {
            self.here.clear();
            let Some(Reverse((doc, _))) = self.heap.peek().copied() else {
                self.doc = TERMINATED;
                return TERMINATED;
            };
            while let Some(Reverse((at, i))) = self.heap.peek().copied() {
                if at != doc {
                    break;
                }
                self.heap.pop();
                self.here.push(i);
            }
            self.doc = doc;
            if self.here.len() >= self.least {
                return doc;
            }
            self.push_back(doc + 1);
        }
    }
    /// Moves the sets that are here to `target` and puts them back on the heap.
    fn push_back(&mut self, target: DocId) {
        for i in self.here.drain(..) {
            let set = self.sets[i as usize].as_mut();
            let at = if set.doc() + 1 == target {
                set.advance()
            } else {
                seek_to(set, target)
            };
            if at != TERMINATED {
                self.heap.push(Reverse((at, i)));
            }
        }
    }
}

impl DocSet for Disjunction {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        let before = self.doc;
        self.push_back(self.doc + 1);
        let next = self.settle();
        debug_assert!(next > before, "documents come in ascending order");
        next
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        self.push_back(target);
        while let Some(Reverse((at, i))) = self.heap.peek().copied() {
            if at >= target {
                break;
            }
            self.heap.pop();
            let at = seek_to(self.sets[i as usize].as_mut(), target);
            if at != TERMINATED {
                self.heap.push(Reverse((at, i)));
            }
        }
        let next = self.settle();
        debug_assert!(next >= target, "search.md S8: a seek ends at its target or behind it");
        next
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

impl Scorer for Disjunction {
    fn score(&mut self) -> f32 {
        let here = self.here.iter();
        self.how.of(here.map(|i| self.sets[*i as usize].score()))
    }
}
