//! Multiplies scores with the norm of their query: one over the root of the sum of the squares of the weights of its clauses.
//!
//! The similarity of 2015 made scores comparable by it. Not here: finding it (`clauses::query_norm`).

use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::node::{Node, Shared};
use super::rescored::scored_late;
use model::Result;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// A clause whose scores are multiplied by a norm.
pub(crate) struct Normalized {
    pub(crate) inner: Shared,
    pub(crate) norm: f32,
}

impl Node for Normalized {
    fn says(&self) -> Option<String> {
        self.inner.says()
    }
    fn is_several(&self) -> bool {
        self.inner.is_several()
    }
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let norm = self.norm;
        Ok(scored_late(self.inner.scorer(segment)?, move |_, set| set.score() * norm))
    }
    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let one = self.inner.explain(segment, doc)?;
        if !one.matched {
            return Ok(one);
        }
        let norm = Explained::new(self.norm, "queryNorm");
        Ok(Explained::new(one.value * self.norm, "product of:").of(vec![one, norm]))
    }
    fn most_score(&self) -> Option<f32> {
        self.inner.most_score().map(|most| most * self.norm)
    }
    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        self.inner.bits(segment)
    }
    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        self.inner.quick_count(segment, sight, most)
    }
    fn is_none(&self) -> bool {
        self.inner.is_none()
    }
}

pub(crate) fn norm_of(node: &Shared) -> f32 {
    let norm = 1.0 / node.squares().sqrt();
    if norm.is_finite() { norm } else { 1.0 }
}
