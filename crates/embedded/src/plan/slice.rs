//! Slices of a search: equal parts of an index by a hash of the ids, the same in every segment and on every run.

use super::Planner;
use super::boolean::Shared;
use super::node::{ConstantScorer, broken};
use super::term::{BitsDocs, DocBits, FilterNode};
use crate::searchable::SegmentView;
use model::{Error, Result};
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

/// `index.max_slices_per_scroll`.
const MAX_SLICES: usize = 1024;

impl Planner<'_> {
    /// One of `max` parts.
    pub(super) fn slice(&self, id: u32, max: u32, boost: f32) -> Result<Shared> {
        let most = super::field::setting(self.view, "index.max_slices_per_scroll", MAX_SLICES);
        if usize::try_from(max).is_ok_and(|max| max > most) {
            return Err(Error::illegal(format!(
                "The number of slices [{max}] is too large. It must be less than [{most}]. \
                 This limit can be set by changing the [index.max_slices_per_scroll] index level setting."
            )));
        }
        let field = self.view.schema.id;
        Ok(Arc::new(FilterNode {
            boost,
            what: format!("slice {id} of {max}"),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let index = segment.reader.inverted_index(field).map_err(broken)?;
                let mut bits = DocBits::new(segment.reader.max_doc());
                let mut stream = index.terms().stream().map_err(broken)?;
                while stream.advance() {
                    if crc32fast::hash(stream.key()) % max != id {
                        continue;
                    }
                    let list = index.read_postings_from_terminfo(stream.value(), IndexRecordOption::Basic);
                    let mut list = list.map_err(broken)?;
                    while list.doc() != TERMINATED {
                        bits.insert(list.doc());
                        list.advance();
                    }
                }
                Ok(Box::new(ConstantScorer::new(BitsDocs::new(Arc::new(bits)), 1.0)))
            },
        }))
    }
}
