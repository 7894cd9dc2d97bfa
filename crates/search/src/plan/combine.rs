//! Scorers made of scorers: and, or (sums and maxima, with a least number), without, with options.

use super::node::{ConstantScorer, NoScorer};
use super::small_disjunction::{Few, SETS_MAX};
use segment::doc_bits::{BitsDocs, DocBits};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// Moves a set forward to `target`, wherever it is.
pub fn seek_to(set: &mut dyn Scorer, target: DocId) -> DocId {
    let at = set.doc();
    if at >= target { at } else { set.seek(target) }
}

/// Documents that are in all of several sets. Scores of the first `scored` of them, as given, are summed.
pub struct And {
    sets: Vec<(Box<dyn Scorer>, bool)>,
    doc: DocId,
}

/// All of the sets; the flag says whether a set's score counts.
pub fn and(mut sets: Vec<(Box<dyn Scorer>, bool)>) -> Box<dyn Scorer> {
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
    let mut and = And { sets, doc: 0 };
    let first = and.sets[0].0.doc();
    and.settle(first);
    Box::new(and)
}

impl And {
    fn settle(&mut self, mut candidate: DocId) -> DocId {
        'candidates: loop {
            if candidate == TERMINATED {
                break;
            }
            for (set, _) in self.sets.iter_mut().skip(1) {
                let at = seek_to(set.as_mut(), candidate);
                if at > candidate {
                    candidate = seek_to(self.sets[0].0.as_mut(), at);
                    continue 'candidates;
                }
            }
            break;
        }
        self.doc = candidate;
        candidate
    }
}

impl DocSet for And {
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

impl Scorer for And {
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
pub fn among(mut set: Box<dyn Scorer>, bits: Arc<DocBits>) -> Box<dyn Scorer> {
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
pub struct Unscored(pub Box<dyn Scorer>);

impl DocSet for Unscored {
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

/// How the scores of the sets that have a document become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sum {
    /// All added.
    Sum,
    /// The best, and this part of the others.
    Best(f32),
    /// All added, times their number, by so many.
    Coordinated(usize),
}

impl Sum {
    /// One score of those of the sets that have a document.
    pub(super) fn of(self, scores: impl Iterator<Item = f32>) -> f32 {
        let (mut sum, mut best, mut count) = (0f64, f32::MIN, 0f32);
        for score in scores {
            sum += f64::from(score);
            best = best.max(score);
            count += 1.0;
        }
        match self {
            Sum::Sum => sum as f32,
            Sum::Best(tie) => (f64::from(best) + (sum - f64::from(best)) * f64::from(tie)) as f32,
            Sum::Coordinated(all) => sum as f32 * (count / all as f32),
        }
    }
}

/// Documents that are in at least `least` of many sets.
pub struct Or {
    sets: Vec<Box<dyn Scorer>>,
    heap: BinaryHeap<Reverse<(DocId, u32)>>,
    here: Vec<u32>,
    doc: DocId,
    least: usize,
    how: Sum,
    cost: u64,
}

/// Any of the sets, at least `least` of them.
pub fn or(sets: Vec<Box<dyn Scorer>>, least: usize, how: Sum) -> Box<dyn Scorer> {
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
    if sets.len() == least && how == Sum::Sum {
        return and(sets.into_iter().map(|set| (set, true)).collect());
    }
    if sets.len() <= SETS_MAX {
        return Box::new(Few::new(sets, least, how));
    }
    let heap = (0u32..).zip(&sets).map(|(i, set)| Reverse((set.doc(), i))).collect();
    let cost = sets.iter().map(|set| set.cost()).sum();
    let mut or = Or {
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

impl Or {
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

impl DocSet for Or {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.push_back(self.doc + 1);
        self.settle()
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
        self.settle()
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

impl Scorer for Or {
    fn score(&mut self) -> f32 {
        let here = self.here.iter();
        self.how.of(here.map(|i| self.sets[*i as usize].score()))
    }
}

/// A set without another one.
pub struct Without {
    set: Box<dyn Scorer>,
    excluded: Box<dyn Scorer>,
}

/// `set` without the documents of `excluded`.
pub fn without(set: Box<dyn Scorer>, excluded: Box<dyn Scorer>) -> Box<dyn Scorer> {
    if excluded.doc() == TERMINATED {
        return set;
    }
    let mut without = Without { set, excluded };
    without.settle();
    Box::new(without)
}

impl Without {
    fn settle(&mut self) -> DocId {
        loop {
            let doc = self.set.doc();
            if doc == TERMINATED || seek_to(self.excluded.as_mut(), doc) != doc {
                return doc;
            }
            self.set.advance();
        }
    }
}

impl DocSet for Without {
    fn advance(&mut self) -> DocId {
        self.set.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        seek_to(self.set.as_mut(), target);
        self.settle()
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

/// A set whose score may be raised by another one.
pub struct WithOption {
    set: Box<dyn Scorer>,
    option: Box<dyn Scorer>,
}

/// `set`, with the score of `option` added where it matches.
pub fn with_option(set: Box<dyn Scorer>, option: Box<dyn Scorer>) -> Box<dyn Scorer> {
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

/// A set with its score changed by a function of the document and the score; `None` drops the document.
pub struct Rescored<F> {
    set: Box<dyn Scorer>,
    f: F,
    score: f32,
}

/// `set` with scores changed by `f`, worked out when a document is reached.
pub fn rescored<F>(set: Box<dyn Scorer>, f: F) -> Box<dyn Scorer>
where
    F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static,
{
    let mut rescored = Rescored { set, f, score: 0.0 };
    rescored.settle();
    Box::new(rescored)
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static> Rescored<F> {
    fn settle(&mut self) -> DocId {
        loop {
            let doc = self.set.doc();
            if doc == TERMINATED {
                return doc;
            }
            if let Some(score) = (self.f)(doc, self.set.as_mut()) {
                self.score = score;
                return doc;
            }
            self.set.advance();
        }
    }
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static> DocSet for Rescored<F> {
    fn advance(&mut self) -> DocId {
        self.set.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.set.doc() < target {
            self.set.seek(target);
            return self.settle();
        }
        self.set.doc()
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint()
    }
    fn cost(&self) -> u64 {
        self.set.cost().saturating_mul(4)
    }
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> Option<f32> + Send + 'static> Scorer for Rescored<F> {
    fn score(&mut self) -> f32 {
        self.score
    }
}

struct Lazy<F> {
    set: Box<dyn Scorer>,
    f: F,
    /// The document that was scored last, and its score.
    known: (DocId, f32),
}

/// `set` with scores changed by `f`, worked out only where somebody asks for one: what is filtered away around it costs
/// nothing, and fails at nothing.
pub fn scored_late<F>(set: Box<dyn Scorer>, f: F) -> Box<dyn Scorer>
where
    F: FnMut(DocId, &mut dyn Scorer) -> f32 + Send + 'static,
{
    let known = (TERMINATED, 0.0);
    Box::new(Lazy { set, f, known })
}

impl<F: FnMut(DocId, &mut dyn Scorer) -> f32 + Send + 'static> DocSet for Lazy<F> {
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

impl<F: FnMut(DocId, &mut dyn Scorer) -> f32 + Send + 'static> Scorer for Lazy<F> {
    fn score(&mut self) -> f32 {
        let doc = self.set.doc();
        if self.known.0 != doc {
            self.known = (doc, (self.f)(doc, self.set.as_mut()));
        }
        self.known.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(docs: &[u32]) -> Arc<DocBits> {
        let mut bits = DocBits::new(64);
        docs.iter().for_each(|doc| bits.insert(*doc));
        Arc::new(bits)
    }

    fn set(docs: &[u32], score: f32) -> Box<dyn Scorer> {
        Box::new(ConstantScorer::new(BitsDocs::new(bits(docs)), score))
    }

    fn check(mut got: Box<dyn Scorer>, expected: &[(u32, f32)]) {
        let mut seen = Vec::new();
        while got.doc() != TERMINATED {
            seen.push((got.doc(), got.score()));
            got.advance();
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn combinations() {
        let (a, b, c) = (&[1, 3, 5, 9][..], &[3, 4, 5][..], &[5, 9][..]);
        check(and(vec![(set(a, 1.0), true), (set(b, 2.0), false)]), &[(3, 1.0), (5, 1.0)]);
        check(among(set(a, 1.0), bits(b)), &[(3, 1.0), (5, 1.0)]);
        check(among(set(a, 1.0), bits(&[])), &[]);
        let many: Vec<u32> = (0..40).collect();
        check(among(set(&many, 1.0), bits(&[7])), &[(7, 1.0)]);
        let mut sought = among(set(a, 1.0), bits(c));
        assert_eq!((sought.seek(2), sought.seek(5), sought.seek(6)), (5, 5, 9));
        check(and(vec![(set(a, 1.0), false), (set(b, 2.0), false)]), &[(3, 0.0), (5, 0.0)]);
        check(
            or(vec![set(a, 1.0), set(b, 2.0), set(c, 4.0)], 1, Sum::Sum),
            &[(1, 1.0), (3, 3.0), (4, 2.0), (5, 7.0), (9, 5.0)],
        );
        check(
            or(vec![set(a, 1.0), set(b, 2.0), set(c, 4.0)], 2, Sum::Sum),
            &[(3, 3.0), (5, 7.0), (9, 5.0)],
        );
        check(
            or(vec![set(a, 1.0), set(b, 2.0)], 1, Sum::Best(0.5)),
            &[(1, 1.0), (3, 2.5), (4, 2.0), (5, 2.5), (9, 1.0)],
        );
        check(without(set(a, 1.0), set(b, 1.0)), &[(1, 1.0), (9, 1.0)]);
        check(
            with_option(set(a, 1.0), set(c, 4.0)),
            &[(1, 1.0), (3, 1.0), (5, 5.0), (9, 5.0)],
        );
        check(
            rescored(set(a, 1.0), |doc, s| (doc > 3).then(|| s.score() * 2.0)),
            &[(5, 2.0), (9, 2.0)],
        );
    }

    /// Few and many sets, walked and sought, give what counting gives. Scores are powers of two: their sums are exact.
    #[test]
    fn unions_are_counts() {
        let mut random = model::random::random(7);
        for round in 0..300 {
            let all = 1 + random(12) as usize;
            let docs: Vec<Vec<u32>> = (0..all).map(|_| (0..64).filter(|_| random(4) == 0).collect()).collect();
            let least = 1 + random(all as u64) as usize;
            let how = [Sum::Sum, Sum::Best(0.5), Sum::Coordinated(all)][round % 3];
            let score_of = |n: usize| f32::from(1u8 << (n % 4));
            let expected: Vec<(u32, f32)> = (0..64)
                .filter_map(|doc| {
                    let has: Vec<usize> = (0..all).filter(|n| docs[*n].contains(&doc)).collect();
                    (has.len() >= least).then(|| (doc, how.of(has.into_iter().map(score_of))))
                })
                .collect();
            let made = || {
                or(
                    docs.iter().zip(0..).map(|(docs, n)| set(docs, score_of(n))).collect(),
                    least,
                    how,
                )
            };
            check(made(), &expected);
            let mut sought = made();
            let mut target = random(8) as u32;
            while target < 64 {
                let next = expected.iter().find(|(doc, _)| *doc >= target.max(sought.doc()));
                assert_eq!(
                    seek_to(sought.as_mut(), target),
                    next.map_or(TERMINATED, |(doc, _)| *doc),
                    "{round}: {target}"
                );
                if let Some((_, score)) = next {
                    assert_eq!(sought.score(), *score, "{round}: {target}");
                }
                target += 1 + random(8) as u32;
            }
        }
    }
}
