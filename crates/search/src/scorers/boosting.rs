//! `boosting`: clauses that lower the score of documents that match another one.

use super::explain::Explained;
use super::node::{Node, Shared, seek_to};
use super::rescored::rescore;
use model::Result;
use segment::segment_view::SegmentView;
use tantivy::DocId;
use tantivy::query::Scorer;

/// A query whose score is lowered where another one matches.
pub(crate) struct BoostingNode {
    /// Decides what matches.
    pub positive: Shared,
    /// Decides what is lowered.
    pub negative: Shared,
    /// By how much.
    pub negative_boost: f32,
}

impl Node for BoostingNode {
    fn says(&self) -> Option<String> {
        Some(format!("{}/{}", self.positive.says()?, self.negative.says()?))
    }
    fn squares(&self) -> f32 {
        self.positive.squares()
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut negative = self.negative.scorer(segment)?;
        let boost = self.negative_boost;
        Ok(rescore(self.positive.scorer(segment)?, move |doc, set| {
            let score = set.score();
            Some(if seek_to(negative.as_mut(), doc) == doc {
                score * boost
            } else {
                score
            })
        }))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let positive = self.positive.explain(segment, doc)?;
        if !positive.matched || !self.negative.explain(segment, doc)?.matched {
            return Ok(positive);
        }
        let value = positive.value * self.negative_boost;
        let boost = Explained::new(self.negative_boost, "boost");
        Ok(Explained::new(value, "product of:").of(vec![positive, boost]))
    }
}
