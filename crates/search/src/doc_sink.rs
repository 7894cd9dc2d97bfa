//! Where a search hands over each document that matches.

use model::Result;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use tantivy::DocId;

/// Something that wants to see every document that matches: aggregations.
pub trait DocSink {
    /// The documents that follow are of this segment of this index.
    ///
    /// # Errors
    /// Unreadable files.
    fn segment(&mut self, view: &IndexView, segment: &SegmentView) -> Result<()>;
    /// Documents that match the query (whatever the post filter says), ascending, with the score of each, or with none where nobody
    /// reads them.
    ///
    /// # Errors
    /// Too many buckets, scripts that fail.
    fn collect_block(&mut self, docs: &[DocId], scores: &[f32]) -> Result<()>;
    /// Whether scores are needed.
    fn wants_scores(&self) -> bool;
    /// Whether a segment without a match is entered, too.
    fn enters_all(&self) -> bool {
        false
    }
}
