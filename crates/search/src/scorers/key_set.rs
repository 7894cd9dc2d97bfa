//! Documents that have a key of a join.

use super::constant::NoScorer;
use super::node::Node;
use super::term_set::any_of;
use crate::child_score::Totals;
use crate::joins::{Joined, KeyReader, Place};
use dsl::query::ScoreMode;
use model::Result;
use segment::key_columns::Key;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED, Term};
/// A lookup by text costs about as much as this many looks at a column.
const LOOKUP: u64 = 2000;

/// Documents with a key.
pub(crate) struct JoinNode {
    pub(crate) place: Place,
    pub(crate) keys: Arc<Joined>,
    pub(crate) mode: ScoreMode,
    pub(crate) boost: f32,
    /// The terms of the field, where there are few keys.
    pub(crate) terms: Option<Vec<Term>>,
}

struct JoinScorer {
    candidates: Box<dyn Scorer>,
    reader: KeyReader,
    keys: Arc<Joined>,
    mode: ScoreMode,
    boost: f32,
    score: f32,
    own: Vec<Key>,
}

impl JoinScorer {
    fn settle(&mut self) -> DocId {
        let mut doc = self.candidates.doc();
        while doc != TERMINATED {
            let mut totals: Option<Totals> = None;
            self.reader.distinct(doc, &mut self.own);
            for key in &self.own {
                if let Some(found) = self.keys.get(*key) {
                    match &mut totals {
                        Some(totals) => totals.add(&found),
                        None => totals = Some(found),
                    }
                }
            }
            if let Some(totals) = totals {
                self.score = totals.score(self.mode) * self.boost;
                break;
            }
            doc = self.candidates.advance();
        }
        doc
    }
}

impl DocSet for JoinScorer {
    fn advance(&mut self) -> DocId {
        self.candidates.advance();
        self.settle()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.candidates.doc() < target {
            self.candidates.seek(target);
        }
        self.settle()
    }
    fn doc(&self) -> DocId {
        self.candidates.doc()
    }
    fn size_hint(&self) -> u32 {
        self.candidates.size_hint()
    }
    fn cost(&self) -> u64 {
        // Each look costs more than a step of a list of documents.
        self.candidates.cost().saturating_mul(2)
    }
}

impl Scorer for JoinScorer {
    fn score(&mut self) -> f32 {
        self.score
    }
}

impl Node for JoinNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let Some(reader) = KeyReader::open(segment, &self.place)? else {
            return Ok(Box::new(NoScorer));
        };
        let max_doc = segment.reader.max_doc();
        let candidates: Box<dyn Scorer> = match &self.terms {
            Some(terms) if terms.len() as u64 * LOOKUP < u64::from(max_doc) => any_of(segment, terms)?,
            _ => crate::scorers::constant::every(segment),
        };
        let mut join = JoinScorer {
            candidates,
            reader,
            keys: self.keys.clone(),
            mode: self.mode,
            boost: self.boost,
            score: 0.0,
            own: Vec::new(),
        };
        join.settle();
        Ok(Box::new(join))
    }
}
