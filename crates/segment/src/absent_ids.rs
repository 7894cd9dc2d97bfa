//! Ids that a segment lacks: new segments get a filter of their ids where documents are added by ids of their own.
//!
//! A filter is made with its segment, by the build or the merge ([`prepare`]), where ids were looked for in vain in other segments
//! of the index. It lies in the budget of derived values and may leave it: then the dictionary is asked again.
//!
//! Not here: the filter (`id_filter`).

use crate::error::broken;
use crate::id_filter::{IdFilter, IdHash};
use crate::segment_view::SegmentView;
use model::Result;
use std::sync::Arc;
use tantivy::schema::Field;

/// The dictionary of a smaller segment is as fast.
const MIN_DOCS: u32 = 1_000;
/// The name among derived values.
const NAME: &str = "ids";

/// Makes the filter of a new segment before anybody looks for ids in it, if ids were looked for in vain in those beside it.
///
/// # Errors
/// Unreadable files.
pub fn prepare(segment: &SegmentView, id: Field, beside: &[Arc<SegmentView>]) -> Result<()> {
    let is_wanted = || beside.iter().any(|one| one.core.id_lookups().wants_filter());
    if segment.reader.max_doc() < MIN_DOCS || !is_wanted() {
        return Ok(());
    }
    segment.core.once(NAME, || {
        let index = segment.reader.inverted_index(id).map_err(broken)?;
        let mut filter = IdFilter::with_room_for(index.terms().num_terms());
        let mut ids = index.terms().stream().map_err(broken)?;
        while ids.advance() {
            filter.insert(IdHash::of(ids.key()));
        }
        Ok(filter)
    })?;
    segment.core.id_lookups().note_filter();
    Ok(())
}

/// Whether a segment may have an id. `false`: it has not.
pub(crate) fn may_contain(segment: &SegmentView, hash: IdHash) -> bool {
    if !segment.core.id_lookups().has_filter() {
        return true;
    }
    let filter: Option<Arc<IdFilter>> = segment.core.find(NAME);
    filter.is_none_or(|filter| filter.may_contain(hash))
}
