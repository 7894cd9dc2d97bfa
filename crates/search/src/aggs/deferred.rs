//! Documents that wait until it is known which buckets they are in, and are then shown to what is below.
//!
//! Not here: how buckets are chosen (`bucket`).

use super::blocks::Block;
use super::{AggregationContext, At, Subs};
use crate::scorers::fill::BLOCK_DOCS;
use model::Result;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;

/// A document that waits: the number of its segment, itself, its bucket, its score.
pub(super) type Waiting = (u32, DocId, u32, f32);

/// The segments whose documents wait, in the order in which they were collected.
#[derive(Default)]
pub(super) struct Segments(Vec<(Arc<IndexView>, Arc<SegmentView>)>);

impl Segments {
    /// The next documents are of this segment.
    pub(super) fn begin(&mut self, at: &At<'_>) {
        self.0.push((at.view.clone(), at.segment.clone()));
    }

    /// The number of the segment that is collected.
    pub(super) fn current(&self) -> u32 {
        self.0.len().saturating_sub(1) as u32
    }

    /// Shows documents, which come by the numbers of their segments, to what is below.
    ///
    /// # Errors
    /// Sub-aggregations refuse them.
    pub(super) fn show(
        &self,
        waiting: impl IntoIterator<Item = Waiting>,
        subs: &mut Subs,
        cx: &AggregationContext<'_>,
    ) -> Result<()> {
        let mut waiting = waiting.into_iter().peekable();
        for (number, (view, segment)) in (0..).zip(&self.0) {
            subs.segment(&At { cx, view, segment })?;
            loop {
                let (mut docs, mut scores, mut buckets) = (Vec::new(), Vec::new(), Vec::new());
                while docs.len() < BLOCK_DOCS
                    && let Some((_, doc, bucket, score)) = waiting.next_if(|next| next.0 == number)
                {
                    docs.push(doc);
                    scores.push(score);
                    buckets.push(bucket);
                }
                if docs.is_empty() {
                    break;
                }
                cx.plan.check_cancelled()?;
                subs.collect_block(&Block::among(&docs, &scores, &buckets))?;
            }
        }
        debug_assert!(waiting.next().is_none(), "documents come by their segments");
        subs.finish_collecting(cx)
    }
}
