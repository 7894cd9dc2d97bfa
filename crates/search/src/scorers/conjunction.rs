//! Documents that are in all of several sets.

use super::constant::{ConstantScorer, NoScorer};
use super::node::seek_to;
use segment::doc_bits::{BitsDocs, DocBits};
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED};

/// Documents that are in all of several sets. Scores of the first `scored` of them, as given, are summed.
pub(crate) struct Conjunction {
    sets: Vec<(Box<dyn Scorer>, bool)>,
    doc: DocId,
}

/// All of the sets; the flag says whether a set's score counts.
pub(crate) fn and(mut sets: Vec<(Box<dyn Scorer>, bool)>) -> Box<dyn Scorer> {
    if sets.iter().any(|(set, _)| set.doc() == TERMINATED) {
        return Box::new(NoScorer);
    }
    if sets.len() == 1
        && let Some((set, scored)) = sets.pop()
    {
        return if scored { set } else { Box::new(Unscored(set)) };
    }
    if sets.is_empty() {
        return Box::new(NoScorer);
    }
    sets.sort_by_key(|(set, _)| set.cost());
    let mut and = Conjunction { sets, doc: 0 };
    let first = and.sets[0].0.doc();
    and.settle(first);
    Box::new(and)
}

impl Conjunction {
    fn settle(&mut self, mut candidate: DocId) -> DocId {
        'candidates: loop {
            if candidate == TERMINATED {
                break;
            }
            for (set, _) in self.sets.iter_mut().skip(1) {
                // The next document of a set may be far, and the first set may not have it.
                if let SeekDangerResult::SeekLowerBound(at) = set.seek_danger(candidate) {
                    debug_assert!(at > candidate, "a set without a document goes on behind it");
                    candidate = seek_to(self.sets[0].0.as_mut(), at);
                    continue 'candidates;
                }
            }
            break;
        }
        debug_assert!(candidate >= self.doc, "documents come in ascending order");
        debug_assert!(
            candidate == TERMINATED || self.sets.iter().all(|(set, _)| set.doc() == candidate),
            "every set stands at the document that all of them have"
        );
        self.doc = candidate;
        candidate
    }
}

impl DocSet for Conjunction {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        let next = self.sets[0].0.advance();
        self.settle(next)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        let next = seek_to(self.sets[0].0.as_mut(), target);
        self.settle(next)
    }
    /// Looks at the one document: the next one that all sets have may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        // The sets were asked for documents up to this one. They cannot be asked for earlier ones.
        if target < self.doc {
            return SeekDangerResult::SeekLowerBound(self.doc);
        }
        for (set, _) in &mut self.sets {
            let at = set.seek_danger(target);
            if !matches!(at, SeekDangerResult::Found) {
                return at;
            }
        }
        self.doc = target;
        SeekDangerResult::Found
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.sets.first().map_or(0, |(set, _)| set.size_hint())
    }
    fn cost(&self) -> u64 {
        self.sets.first().map_or(0, |(set, _)| set.cost())
    }
}

impl Scorer for Conjunction {
    fn score(&mut self) -> f32 {
        let mut sum = 0f64;
        for (set, scored) in &mut self.sets {
            if *scored {
                sum += f64::from(set.score());
            }
        }
        sum as f32
    }
}

/// The documents of a set that are in a set of bits.
struct Among {
    set: Box<dyn Scorer>,
    bits: Arc<DocBits>,
}

/// Where bits are that much fewer than a set is long, they lead and the set follows.
const LEADS_BY: u64 = 16;

/// `set` without the documents that are not in `bits`.
pub(crate) fn among(mut set: Box<dyn Scorer>, bits: Arc<DocBits>) -> Box<dyn Scorer> {
    if bits.is_empty() || set.doc() == TERMINATED {
        return Box::new(NoScorer);
    }
    if set.cost() > u64::from(bits.len()) * LEADS_BY {
        let bits = ConstantScorer::new(BitsDocs::new(bits), 0.0);
        return and(vec![(set, true), (Box::new(bits), false)]);
    }
    let first = set.doc();
    Among::settle(set.as_mut(), &bits, first);
    Box::new(Among { set, bits })
}

impl Among {
    fn settle(set: &mut dyn Scorer, bits: &DocBits, mut doc: DocId) -> DocId {
        while doc != TERMINATED && !bits.contains(doc) {
            doc = set.advance();
        }
        doc
    }
}

impl DocSet for Among {
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        match self.bits.contains(target) {
            true => self.set.seek_danger(target),
            false => SeekDangerResult::SeekLowerBound(self.bits.next(target)),
        }
    }
    fn advance(&mut self) -> DocId {
        let next = self.set.advance();
        Among::settle(self.set.as_mut(), &self.bits, next)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        let at = seek_to(self.set.as_mut(), target);
        Among::settle(self.set.as_mut(), &self.bits, at)
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint().min(self.bits.len())
    }
    fn cost(&self) -> u64 {
        self.set.cost()
    }
}

impl Scorer for Among {
    fn score(&mut self) -> f32 {
        self.set.score()
    }
}

/// A set whose score is 0.
pub(crate) struct Unscored(pub Box<dyn Scorer>);

impl DocSet for Unscored {
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        self.0.seek_danger(target)
    }
    fn advance(&mut self) -> DocId {
        self.0.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        seek_to(self.0.as_mut(), target)
    }
    fn doc(&self) -> DocId {
        self.0.doc()
    }
    fn size_hint(&self) -> u32 {
        self.0.size_hint()
    }
    fn cost(&self) -> u64 {
        self.0.cost()
    }
}

impl Scorer for Unscored {
    fn score(&mut self) -> f32 {
        0.0
    }
}
