//! `_timestamp` and `_ttl` of a document in a segment: they are in the columns of their hidden fields, and nowhere else.
//!
//! Not here: how they come to be (`mapping::Times`), the log (`pending`).

use crate::open_columns;
use crate::searchable::IndexView;
use crate::segment_view::SegmentView;
use mapping::{TIMESTAMP, TTL, Times};
use model::Result;
use tantivy::DocId;

/// The times of a root document.
///
/// # Errors
/// Unreadable files.
pub fn times_of(view: &IndexView, segment: &SegmentView, doc: DocId) -> Result<Times> {
    let read = |path: &str| -> Result<Option<i64>> {
        if !view.rules().keeps_document_times || view.mapping.field(path).is_none() {
            return Ok(None);
        }
        let Some(name) = view.schema.slot(path).and_then(|slot| slot.column.as_deref()) else {
            return Ok(None);
        };
        let column = open_columns::values::<i64>(segment, name)?;
        Ok(column.and_then(|column| column.first(doc)))
    };
    Ok(Times {
        timestamp: read(TIMESTAMP)?,
        expires: read(TTL)?,
    })
}
