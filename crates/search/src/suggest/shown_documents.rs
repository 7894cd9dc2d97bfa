//! The documents of an entry that readers see.
//!
//! Not here: which entries are looked at (`completions`, `contexts`).

use model::Result;
use segment::error::broken;
use segment::segment_view::SegmentView;
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, TERMINATED};

/// The documents of a term that readers see, in order.
pub(super) struct ShownDocuments<'a> {
    segment: &'a SegmentView,
    postings: SegmentPostings,
}

impl<'a> ShownDocuments<'a> {
    /// Those of a term of a field.
    ///
    /// # Errors
    /// Unreadable files.
    pub(super) fn open(segment: &'a SegmentView, field: Field, info: &TermInfo) -> Result<ShownDocuments<'a>> {
        let index = segment.reader.inverted_index(field).map_err(broken)?;
        let postings = index
            .read_postings_from_terminfo(info, IndexRecordOption::Basic)
            .map_err(broken)?;
        Ok(ShownDocuments { segment, postings })
    }
}

impl Iterator for ShownDocuments<'_> {
    type Item = DocId;

    fn next(&mut self) -> Option<DocId> {
        let segment = self.segment;
        while self.postings.doc() != TERMINATED {
            let doc = self.postings.doc();
            self.postings.advance();
            if segment.is_shown(doc) {
                return Some(doc);
            }
        }
        None
    }
}
