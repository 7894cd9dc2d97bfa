//! Where a search hands over each document that matches.

use model::{Error, ErrorKind, Result};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::any::Any;
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
    /// What makes sinks that collect a part of the documents on other threads; `None`: this sink has to see all of them.
    fn fork(&self) -> Option<Box<dyn SinkFork>> {
        None
    }
    /// Takes over what a sink of [`DocSink::fork`] has collected.
    ///
    /// # Errors
    /// Too many buckets, cancellation.
    fn absorb(&mut self, _part: SinkPart) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "a sink without forks has no parts"))
    }
}

/// What a sink has collected of a part of the documents.
pub(crate) type SinkPart = Box<dyn Any + Send>;

/// Makes sinks on other threads.
pub trait SinkFork: Send + Sync {
    /// Makes a sink, has `feed` show documents to it, and gives what it collected.
    ///
    /// # Errors
    /// Those of `feed`.
    fn collect(&self, feed: &mut dyn FnMut(&mut dyn DocSink) -> Result<()>) -> Result<SinkPart>;
}
