//! Span and interval queries: clauses compiled to a tree of matchers, one per segment, and their scores.
//!
//! Not here: what lists of positions make of each other (`positions`).

use super::constant::NoScorer;
use super::explain::Explained;
use super::interval_script::IntervalScript;
use super::node::Node;
use super::positions::{self, NearPart, Span};
use super::similarity::{Counted, Similarity};
use super::term::norms;
use crate::scripts::Failure;
use dsl::query::IntervalRelation;
use model::Result;
use segment::segment_view::{SegmentView, postings};
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// How a matcher combines the lists of the matchers below it.
#[derive(Clone, PartialEq)]
pub(crate) enum Op {
    /// Any of these terms; nothing is below.
    Words(Vec<Term>),
    Near {
        slop: i64,
        in_order: bool,
        gaps: Vec<(usize, i64)>,
    },
    Any,
    First(i64),
    Not {
        pre: i64,
        post: i64,
    },
    Containing,
    Within,
    AnyMinimal,
    Block,
    Ordered,
    Unordered,
    Repeated(usize),
    /// So many positions before count as part of it.
    Extended(i64),
    MaxGaps(i64),
    Related(IntervalRelation),
    Script(Arc<IntervalScript>),
}

/// A matcher that is not bound to a segment yet.
#[derive(Clone, PartialEq)]
pub(crate) struct Tree {
    pub(crate) op: Op,
    pub(crate) below: Vec<Tree>,
}

impl Tree {
    pub(crate) fn words(terms: Vec<Term>) -> Tree {
        Tree {
            op: Op::Words(terms),
            below: Vec::new(),
        }
    }
    fn open(&self, segment: &SegmentView) -> Result<Matcher> {
        let mut sets = Vec::new();
        if let Op::Words(terms) = &self.op {
            for term in terms {
                sets.extend(postings(segment, term, IndexRecordOption::WithFreqsAndPositions)?);
            }
        }
        Ok(Matcher {
            op: self.op.clone(),
            below: self.below.iter().map(|t| t.open(segment)).collect::<Result<_>>()?,
            sets,
        })
    }
    /// The fewest positions that a match has.
    pub(crate) fn extent(&self) -> i64 {
        let mut below = self.below.iter().map(Tree::extent);
        match &self.op {
            Op::Words(_) => 1,
            Op::Any | Op::AnyMinimal => below.min().unwrap_or(0),
            Op::Block | Op::Ordered | Op::Unordered | Op::Near { .. } => below.sum(),
            Op::Extended(before) => below.next().unwrap_or(0) + before,
            _ => below.next().unwrap_or(0),
        }
    }
}

/// A matcher in one segment.
struct Matcher {
    op: Op,
    below: Vec<Matcher>,
    sets: Vec<SegmentPostings>,
}

impl Matcher {
    /// The first document from `target` on that comes into question.
    fn seek(&mut self, target: DocId) -> DocId {
        match self.op {
            Op::Words(_) => {
                for set in &mut self.sets {
                    if set.doc() < target {
                        set.seek(target);
                    }
                }
                self.sets.iter().map(DocSet::doc).min().unwrap_or(TERMINATED)
            }
            Op::Any | Op::AnyMinimal => self.below.iter_mut().map(|m| m.seek(target)).min().unwrap_or(TERMINATED),
            // Only the first operand decides which documents match.
            Op::Not { .. }
            | Op::Related(
                IntervalRelation::NotContaining | IntervalRelation::NotContainedBy | IntervalRelation::NotOverlapping,
            ) => self.below.first_mut().map_or(TERMINATED, |m| m.seek(target)),
            _ => {
                let mut candidate = target;
                'candidates: loop {
                    if self.below.is_empty() {
                        return TERMINATED;
                    }
                    for matcher in &mut self.below {
                        let at = matcher.seek(candidate);
                        if at == TERMINATED {
                            return TERMINATED;
                        }
                        if at > candidate {
                            candidate = at;
                            continue 'candidates;
                        }
                    }
                    return candidate;
                }
            }
        }
    }

    /// The spans of a document.
    fn load(&mut self, doc: DocId) -> Result<Vec<Span>> {
        if let Op::Words(_) = self.op {
            let mut all = Vec::new();
            let mut some = Vec::new();
            for set in &mut self.sets {
                if set.doc() < doc {
                    set.seek(doc);
                }
                if set.doc() == doc {
                    set.append_positions_with_offset(0, &mut some);
                    all.extend(some.drain(..).map(Span::word));
                }
            }
            all.sort_by_key(|s| s.start);
            return Ok(all);
        }
        let lists: Vec<Vec<Span>> = self.below.iter_mut().map(|m| m.load(doc)).collect::<Result<_>>()?;
        let empty = Vec::new();
        let first = lists.first().unwrap_or(&empty);
        let second = lists.get(1).unwrap_or(&empty);
        let is_repeated = |n: usize| matches!(self.below[n].op, Op::Repeated(_));
        Ok(match &self.op {
            Op::Words(_) => empty,
            Op::Near {
                slop,
                in_order: true,
                gaps,
            } => positions::near_in_order(&near_parts(&lists, gaps), *slop),
            Op::Near { slop, .. } => positions::near_in_any_order(&lists, *slop),
            Op::Any => positions::any(&lists),
            Op::First(end) => first.iter().copied().filter(|s| s.end <= *end).collect(),
            Op::Not { pre, post } => positions::without(first, second, *pre, *post),
            Op::Containing => positions::containing(first, second),
            Op::Within => positions::within(first, second),
            Op::AnyMinimal => positions::any_minimal(&lists),
            Op::Block => positions::block(&lists),
            Op::Ordered => positions::in_order(&lists, is_repeated),
            Op::Unordered => positions::in_any_order(&lists, is_repeated),
            Op::Repeated(times) => positions::repeat(first, *times),
            Op::Extended(before) => first
                .iter()
                .map(|s| Span {
                    start: (s.start - before).max(0),
                    ..*s
                })
                .collect(),
            Op::MaxGaps(max) => first.iter().copied().filter(|s| s.gaps <= *max).collect(),
            Op::Related(relation) => positions::filter_by_relation(first, second, *relation),
            Op::Script(script) => {
                let mut kept = Vec::new();
                for span in first {
                    if script.accepts(*span)? {
                        kept.push(*span);
                    }
                }
                kept
            }
        })
    }
}

/// The operands of an ordered `span_near`, with so many positions of anything before some of them, or behind all.
fn near_parts<'l>(lists: &'l [Vec<Span>], gaps: &[(usize, i64)]) -> Vec<NearPart<'l>> {
    let gaps_before = |i: usize| {
        let own = gaps.iter().filter(move |(before, _)| *before == i);
        own.map(|(_, width)| NearPart::Gap(*width))
    };
    let mut parts: Vec<NearPart<'l>> = Vec::new();
    for (i, list) in lists.iter().enumerate() {
        parts.extend(gaps_before(i));
        parts.push(NearPart::Spans(list));
    }
    let behind = gaps.iter().filter(|(before, _)| *before >= lists.len());
    parts.extend(behind.map(|(_, width)| NearPart::Gap(*width)));
    parts
}

/// How found positions become a score.
#[derive(Clone)]
pub(crate) enum Scoring {
    /// The similarity over the frequency; every span counts 1 / (1 + how much it was stretched).
    Spans(Similarity),
    /// Saturation of the frequency; every interval counts by how much longer it is than it need be.
    Intervals { boost: f32, extent: i64 },
}

impl Scoring {
    fn frequency(&self, found: &[Span]) -> f32 {
        let mut freq = 0f32;
        for span in found {
            match self {
                Scoring::Spans(_) => freq += 1.0 / (1.0 + span.gaps as f32),
                Scoring::Intervals { extent, .. } => freq += 1.0 / (span.length() - extent + 1).max(1) as f32,
            }
        }
        freq
    }
    fn score(&self, freq: f32, norm: u8) -> f32 {
        match self {
            Scoring::Spans(similarity) => similarity.score(freq, norm),
            Scoring::Intervals { boost, .. } => boost * (1.0 - 1.0 / (1.0 + freq)),
        }
    }
    fn explain(&self, what: &str, freq: f32, norm: u8) -> Explained {
        match self {
            Scoring::Spans(similarity) => similarity.explain(what, Counted::Phrase, freq, norm),
            Scoring::Intervals { boost, .. } => Explained::new(
                self.score(freq, norm),
                "Saturation function on interval frequency, computed as w * S / (S + k) from:",
            )
            .of(vec![
                Explained::new(*boost, "w, weight of this function"),
                Explained::new(
                    1.0,
                    "k, pivot feature value that would give a score contribution equal to w/2",
                ),
                Explained::new(freq, format!("S, the sloppy frequency of the interval query {what}")),
            ]),
        }
    }
}

pub(crate) struct PositionalNode {
    pub(crate) tree: Tree,
    pub(crate) field: tantivy::schema::Field,
    pub(crate) scoring: Scoring,
    pub(crate) what: String,
    pub(crate) failure: Failure,
}

struct PositionalScorer {
    matcher: Matcher,
    scoring: Scoring,
    norms: Option<FieldNormReader>,
    failure: Failure,
    doc: DocId,
    freq: f32,
}

impl PositionalScorer {
    fn settle(&mut self, mut candidate: DocId) -> DocId {
        loop {
            let from = candidate;
            candidate = self.matcher.seek(from);
            debug_assert!(candidate >= from, "search.md S8: a seek ends at its target or behind it");
            if candidate == TERMINATED {
                break;
            }
            match self.matcher.load(candidate) {
                Ok(found) if !found.is_empty() => {
                    debug_assert!(
                        found.iter().all(|span| span.start <= span.end),
                        "a span ends behind its beginning: {found:?}"
                    );
                    self.freq = self.scoring.frequency(&found);
                    debug_assert!(
                        self.freq > 0.0 && self.freq.is_finite(),
                        "search.md S9: a document that matches has a frequency that can be scored: {}",
                        self.freq
                    );
                    break;
                }
                Ok(_) => candidate += 1,
                Err(error) => {
                    self.failure.note(error);
                    candidate = TERMINATED;
                    break;
                }
            }
        }
        self.doc = candidate;
        candidate
    }
    fn norm(&self) -> u8 {
        self.norms.as_ref().map_or(1, |n| n.fieldnorm_id(self.doc))
    }
}

impl DocSet for PositionalScorer {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.settle(self.doc + 1)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target { self.doc } else { self.settle(target) }
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        1
    }
}

impl Scorer for PositionalScorer {
    fn score(&mut self) -> f32 {
        self.scoring.score(self.freq, self.norm())
    }
}

impl PositionalNode {
    fn open(&self, segment: &SegmentView) -> Result<PositionalScorer> {
        let mut scorer = PositionalScorer {
            matcher: self.tree.open(segment)?,
            scoring: self.scoring.clone(),
            norms: norms(segment, self.field)?,
            failure: self.failure.clone(),
            doc: 0,
            freq: 0.0,
        };
        scorer.settle(0);
        Ok(scorer)
    }
}

impl Node for PositionalNode {
    fn squares(&self) -> f32 {
        match &self.scoring {
            Scoring::Spans(similarity) => similarity.squares(),
            Scoring::Intervals { boost, .. } => boost.powi(2),
        }
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let scorer = self.open(segment)?;
        Ok(if scorer.doc == TERMINATED {
            Box::new(NoScorer)
        } else {
            Box::new(scorer)
        })
    }
    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let mut scorer = self.open(segment)?;
        if scorer.doc != TERMINATED && scorer.seek(doc) == doc {
            let what = format!("{} in {}", self.what, segment.shown_number(doc));
            return Ok(self.scoring.explain(&what, scorer.freq, scorer.norm()));
        }
        Ok(Explained::no_match(format!("no matching positions of {}", self.what)))
    }
}
