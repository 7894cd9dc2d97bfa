//! `constant_score`: documents of a filter, all with one score.

use super::constant::ConstantScorer;
use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::lucene_string::with_boost;
use super::node::{Node, Shared, score_at};
use model::Result;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// A filter with one score.
pub(crate) struct ConstantNode {
    /// The filter.
    pub filter: Shared,
    /// The score.
    pub boost: f32,
}

impl Node for ConstantNode {
    fn says(&self) -> Option<String> {
        Some(with_boost(&format!("ConstantScore({})", self.filter.says()?), self.boost))
    }
    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        self.filter.bits(segment)
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(ConstantScorer::new(self.filter.scorer(segment)?, self.boost)))
    }

    fn opens_quickly(&self) -> bool {
        self.filter.opens_quickly()
    }

    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        self.filter.quick_count(segment, sight, most)
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        Ok(match score_at(self.filter.scorer(segment)?, doc) {
            Some(_) if self.boost == 1.0 => Explained::new(self.boost, "ConstantScore"),
            Some(_) => Explained::new(self.boost, format!("ConstantScore^{:?}", self.boost)),
            None => Explained::no_match(format!("ConstantScore doesn't match id {}", segment.shown_number(doc))),
        })
    }

    fn is_none(&self) -> bool {
        self.filter.is_none()
    }
}

/// Why a document has the one score of a set, or is not in it.
pub(crate) fn constant_explanation(
    score: Option<f32>,
    boost: f32,
    what: &str,
    (segment, doc): (&SegmentView, DocId),
) -> Result<Explained> {
    Ok(match score {
        Some(score) if boost == 1.0 => Explained::new(score, what),
        Some(score) => Explained::new(score, format!("{what}^{boost:?}")),
        None => Explained::no_match(format!("{what} doesn't match id {}", segment.shown_number(doc))),
    })
}
