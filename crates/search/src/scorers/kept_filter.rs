//! A filter whose documents are kept as sets of bits once it is asked for often.
//!
//! Not here: which sets are kept, and for how much memory (`filter_cache` of `segment`).

use super::explain::Explained;
use super::node::{Node, Shared};
use model::Result;
use segment::doc_bits::DocBits;
use segment::filter_cache::{FilterKey, Filters};
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// A filter with one score, which follows from its key.
pub(crate) struct KeptFilter {
    /// The filter.
    pub(crate) inner: Shared,
    /// The same for the same documents.
    pub(crate) key: FilterKey,
    /// The sets.
    pub(crate) filters: Arc<Filters>,
    /// The score.
    pub(crate) boost: f32,
}

impl Node for KeptFilter {
    fn says(&self) -> Option<String> {
        self.inner.says()
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        self.filters.of_key(
            segment,
            || self.key.clone(),
            || {
                let mut docs = self.inner.scorer(segment)?;
                Ok(Some(DocBits::of(segment.reader.max_doc(), docs.as_mut())))
            },
        )
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        // Who can use bits asks for them first.
        self.inner.scorer(segment)
    }

    /// Its matches are looked for block by block as they are asked for.
    fn opens_quickly(&self) -> bool {
        true
    }

    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        self.inner.explain(segment, doc)
    }
}
