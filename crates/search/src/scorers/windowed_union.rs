//! Documents that are in any of many sets, window by window.
//!
//! The sets are combined as bits for [`WINDOW`] documents at a time, when one of these is asked for. So a search that ends early reads
//! only the beginning of the lists, and one that goes through all documents reads each list once. Source: Lucene's disjunctions of
//! filters, which do the same for 4,096 documents.
//!
//! Not here: sets that score (`disjunction`), sets that are kept (`filter_cache` of `segment`).

use segment::doc_bits::DocBits;
use tantivy::{DocId, DocSet, TERMINATED};

/// Documents of a window.
const WINDOW: DocId = 32_768;

/// Documents that are in any of many sets.
pub(crate) struct WindowedUnion<S> {
    /// The sets that go on behind the window.
    sets: Vec<S>,
    /// The documents of the window, counted from `start` on.
    window: DocBits,
    /// The first document of the window.
    start: DocId,
    doc: DocId,
    /// At most so many documents are in it.
    cost: u64,
}

impl<S: DocSet> WindowedUnion<S> {
    /// Any of these sets, in a segment of `max_doc` documents.
    pub(crate) fn new(sets: Vec<S>, max_doc: DocId) -> WindowedUnion<S> {
        let sum: u64 = sets.iter().map(|set| u64::from(set.size_hint())).sum();
        let mut union = WindowedUnion {
            sets,
            window: DocBits::new(WINDOW - 1),
            start: 0,
            doc: 0,
            cost: sum.min(u64::from(max_doc)),
        };
        union.fill(0);
        union.settle(union.start);
        union
    }

    /// Makes the next window that has a document from `target` on; `false`: there is none.
    fn fill(&mut self, target: DocId) -> bool {
        let mut first = TERMINATED;
        self.sets.retain_mut(|set| {
            let doc = if set.doc() < target { set.seek(target) } else { set.doc() };
            first = first.min(doc);
            doc != TERMINATED
        });
        if first == TERMINATED {
            return false;
        }
        self.window.clear();
        self.start = first;
        let end = self.start.saturating_add(WINDOW).min(TERMINATED);
        for set in &mut self.sets {
            let mut doc = set.doc();
            while doc < end {
                self.window.insert(doc - self.start);
                doc = set.advance();
            }
        }
        true
    }

    /// Goes on to the first document from `target` on.
    fn settle(&mut self, target: DocId) -> DocId {
        let mut target = target;
        loop {
            debug_assert!(
                target >= self.start,
                "search.md S8: windows are made in the order of documents"
            );
            let place = self.window.next(target - self.start);
            if place != TERMINATED {
                self.doc = self.start + place;
                return self.doc;
            }
            target = target.max(self.start.saturating_add(WINDOW));
            if !self.fill(target) {
                self.doc = TERMINATED;
                return TERMINATED;
            }
            target = target.max(self.start);
        }
    }
}

impl<S: DocSet> DocSet for WindowedUnion<S> {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.settle(self.doc + 1)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        if target == TERMINATED {
            self.doc = TERMINATED;
            return TERMINATED;
        }
        self.settle(target)
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

#[cfg(test)]
mod tests {
    use super::*;
    use segment::doc_bits::BitsDocs;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// Walks and seeks through a union beside the same of a set of numbers.
    fn check(max_doc: DocId, sets: &[Vec<DocId>], steps: impl Iterator<Item = DocId>) {
        let open = || {
            let bits = |docs: &Vec<DocId>| {
                let mut bits = DocBits::new(max_doc);
                docs.iter().for_each(|doc| bits.insert(*doc));
                BitsDocs::new(Arc::new(bits))
            };
            WindowedUnion::new(sets.iter().map(bits).collect(), max_doc)
        };
        let expected: BTreeSet<DocId> = sets.iter().flatten().copied().collect();
        let (mut union, mut found) = (open(), Vec::new());
        while union.doc() != TERMINATED {
            found.push(union.doc());
            union.advance();
        }
        assert_eq!(found, expected.iter().copied().collect::<Vec<_>>());
        assert_eq!(union.advance(), TERMINATED);
        let mut sought = open();
        for step in steps {
            let target = sought.doc().saturating_add(step);
            let next = expected.range(target.min(TERMINATED)..).next().copied().unwrap_or(TERMINATED);
            assert_eq!(sought.seek(target.min(TERMINATED)), next, "from {target} on");
            if next == TERMINATED {
                break;
            }
        }
    }

    #[test]
    fn windows_give_what_the_sets_have() {
        let mut random = model::random::random(5);
        for round in 0..60 {
            let max_doc = [70, WINDOW - 1, WINDOW, WINDOW + 1, 4 * WINDOW + 33][round % 5];
            let part = [2, 50, 5_000, 100_000][round % 4];
            let sets: Vec<Vec<DocId>> = (0..random(6))
                .map(|_| {
                    let all = 0..max_doc;
                    all.filter(|_| random(part) == 0).collect()
                })
                .collect();
            let width = [1, 100, u64::from(WINDOW)][round % 3];
            let steps: Vec<DocId> = (0..2_000).map(|_| random(width) as DocId + 1).collect();
            check(max_doc, &sets, steps.into_iter());
        }
        check(100, &[vec![3], vec![99]], [TERMINATED].into_iter());
    }
}
