//! Every document, or none.

use super::constant::{AllScorer, NoScorer};
use super::explain::Explained;
use super::lucene_string::with_boost;
use super::node::Node;
use model::Result;
use segment::segment_view::SegmentView;
use tantivy::DocId;
use tantivy::query::Scorer;

/// Everything, with one score.
pub(crate) struct AllNode(pub f32);

impl Node for AllNode {
    fn says(&self) -> Option<String> {
        Some(with_boost("*:*", self.0))
    }
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(AllScorer::new(segment.reader.max_doc(), self.0)))
    }
    fn explain(&self, _segment: &SegmentView, _doc: DocId) -> Result<Explained> {
        Ok(Explained::new(self.0, "*:*"))
    }
    fn is_all(&self) -> bool {
        true
    }
    fn opens_quickly(&self) -> bool {
        true
    }
    fn most_score(&self) -> Option<f32> {
        Some(self.0)
    }
}

/// Nothing.
pub(crate) struct NoneNode(pub String);

impl NoneNode {
    const ABSENT: &str = "no words after analysis";

    /// Words that analysis dropped.
    pub(crate) fn absent() -> NoneNode {
        NoneNode(NoneNode::ABSENT.into())
    }
}

impl Node for NoneNode {
    fn says(&self) -> Option<String> {
        Some("MatchNoDocsQuery".into())
    }
    fn scorer(&self, _segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(NoScorer))
    }
    fn explain(&self, _segment: &SegmentView, _doc: DocId) -> Result<Explained> {
        Ok(Explained::no_match(self.0.clone()))
    }
    fn opens_quickly(&self) -> bool {
        true
    }
    fn is_none(&self) -> bool {
        true
    }
    fn squares(&self) -> f32 {
        0.0
    }
    fn is_absent(&self) -> bool {
        self.0 == NoneNode::ABSENT
    }
}

/// A word of a field that an index does not have.
pub(crate) struct UnheldNode {
    /// `field:word`.
    pub what: String,
    /// The boost that it would have.
    pub boost: f32,
    /// The square of its part in the query's norm.
    pub squares: f32,
}

impl Node for UnheldNode {
    fn scorer(&self, _segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(NoScorer))
    }
    fn explain(&self, _segment: &SegmentView, _doc: DocId) -> Result<Explained> {
        Ok(Explained::no_match("no matching term"))
    }
    fn opens_quickly(&self) -> bool {
        true
    }
    fn squares(&self) -> f32 {
        self.squares
    }
    fn says(&self) -> Option<String> {
        Some(with_boost(&self.what, self.boost))
    }
}
