//! Documents that a function finds in a segment, all with one score.

use super::constant::ConstantScorer;
use super::constant_score::constant_explanation;
use super::explain::Explained;
use super::lucene_string::with_boost;
use super::node::{Node, score_at};
use model::Result;
use segment::segment_view::SegmentView;
use tantivy::DocId;
use tantivy::query::Scorer;

/// Documents chosen by a function of the segment, all with one score.
pub(crate) struct FilterNode<F> {
    /// The score.
    pub boost: f32,
    /// For explanations.
    pub what: String,
    /// The documents.
    pub docs: F,
}

impl<F> Node for FilterNode<F>
where
    F: Fn(&SegmentView) -> Result<Box<dyn Scorer>> + Send + Sync,
{
    fn says(&self) -> Option<String> {
        Some(with_boost(&self.what, self.boost))
    }
    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(ConstantScorer::new((self.docs)(segment)?, self.boost)))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        constant_explanation(score_at(self.scorer(segment)?, doc), self.boost, &self.what, (segment, doc))
    }
}
