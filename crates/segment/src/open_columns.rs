//! Columns of a segment, kept open.
//!
//! To open a column reads its description: of some ways to pack it that is a line for each 512 documents, half a millisecond for 4 million
//! documents, which is more than many searches take. A column of a large segment is opened once and kept with what is derived from it.
//!
//! Not here: what the values of a column mean (`fields::column` of `search`).

use crate::derived::Footprint;
use crate::error::broken;
use crate::segment_view::SegmentView;
use model::Result;
use tantivy::columnar::{Column, DynamicColumn, HasAssociatedColumnType, StrColumn};
use tantivy::fastfield::FastFieldReaders;

/// Columns of smaller segments are opened each time: their descriptions are short, and there may be many such segments.
const KEPT_MIN_DOCS: u32 = if cfg!(debug_assertions) { 64 } else { 1 << 14 };
/// Documents of a block, and about what is kept of each block while the column is open.
const BLOCK_DOCS: usize = 512;
const BLOCK_BYTES: usize = 48;

/// A column that is kept open, or that the segment has no such column.
struct KeptColumn<C> {
    column: Option<C>,
    max_doc: u32,
}

impl<C: Send + Sync + 'static> Footprint for KeptColumn<C> {
    fn heap_bytes(&self) -> usize {
        match self.column {
            Some(_) => (self.max_doc as usize / BLOCK_DOCS + 1) * BLOCK_BYTES,
            None => 0,
        }
    }
}

/// The column of numbers, truths or addresses of a name; `None` if the segment has none.
///
/// # Errors
/// Unreadable files.
pub fn values<T>(segment: &SegmentView, name: &str) -> Result<Option<Column<T>>>
where
    T: HasAssociatedColumnType + Send + Sync,
    DynamicColumn: Into<Option<Column<T>>>,
{
    open_once(segment, name, |fields| fields.column_opt::<T>(name))
}

/// The column of strings of a name; `None` if the segment has none.
///
/// # Errors
/// Unreadable files.
pub fn strings(segment: &SegmentView, name: &str) -> Result<Option<StrColumn>> {
    open_once(segment, name, |fields| fields.str(name))
}

fn open_once<C: Clone + Send + Sync + 'static>(
    segment: &SegmentView,
    name: &str,
    open: impl FnOnce(&FastFieldReaders) -> tantivy::Result<Option<C>>,
) -> Result<Option<C>> {
    let max_doc = segment.reader.max_doc();
    let read = || open(segment.reader.fast_fields()).map_err(broken);
    if max_doc < KEPT_MIN_DOCS {
        return read();
    }
    // A name stands for one type among what is kept.
    let of_type = format!("open column of {}: {name}", std::any::type_name::<C>());
    let column = segment.core.once(&of_type, || {
        Ok(KeptColumn {
            column: read()?,
            max_doc,
        })
    })?;
    Ok(column.column.clone())
}
