//! Slices of a search: which of them a document is in, as Lucene's servers decide it: by a hash of the id or of a number.

use super::Planner;
use crate::fields::column::Column;
use crate::fields::target::{Owned, Target, setting};
use crate::hashes::{id_bytes, mix64, murmur3};
use crate::scorers::filter::FilterNode;
use crate::scorers::node::Shared;
use crate::scorers::rescored::rescore;
use dsl::search::Slice;
use mapping::FieldValue;
use model::{Error, Result};
use segment::open_columns;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// The seed that ids are hashed with.
const SEED: u32 = 7919;

/// One slice in one segment.
struct Slicer {
    id: i64,
    max: i64,
    by: SliceColumn,
    typed: bool,
}

enum SliceColumn {
    Ids(Option<Column>),
    Numbers(Option<Column>),
}

impl Slicer {
    /// Whether a document is in it.
    ///
    /// # Errors
    /// Unreadable files.
    fn has(&self, doc: DocId) -> Result<bool> {
        let hash = match &self.by {
            SliceColumn::Ids(column) => match first(column.as_ref(), doc)? {
                Some(FieldValue::Keyword(id)) => {
                    let bytes = if self.typed { id.into_bytes() } else { id_bytes(&id) };
                    i64::from(murmur3(&bytes, SEED).cast_signed())
                }
                _ => 0,
            },
            SliceColumn::Numbers(column) => match first(column.as_ref(), doc)? {
                Some(value) => i64::from(mix64(bits(&value)).cast_signed()),
                None => 0,
            },
        };
        Ok(hash.rem_euclid(self.max) == self.id)
    }
}

impl Planner<'_> {
    /// One of several parts.
    pub(super) fn slice(&self, slice: &Slice, boost: f32) -> Result<Shared> {
        let most = setting(self.view, "index.max_slices_per_scroll", 1024);
        if slice.max as usize > most {
            return Err(Error::illegal(format!(
                "The number of slices [{}] is too large. It must be less than [{most}]. \
                 This limit can be set by changing the [index.max_slices_per_scroll] index level setting.",
                slice.max
            )));
        }
        let number: Option<Owned> = match slice.field.as_deref() {
            None | Some("_id") => None,
            Some(field) => {
                let Some(target) = Target::of(self.view, field) else {
                    return Err(Error::illegal(format!("field {field} not found")));
                };
                let kind = target.kind.kind;
                if !(kind.is_numeric() || kind.is_date() || kind == mapping::Kind::Boolean) {
                    return Err(Error::illegal(format!("cannot load numeric doc values on {field}")));
                }
                Some(Owned::of(&target))
            }
        };
        let (id, max) = (i64::from(slice.id), i64::from(slice.max.max(1)));
        let (typed, level) = (self.view.typed, self.level());
        Ok(Arc::new(FilterNode {
            boost,
            what: format!("slice {id} of {max}"),
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let by = match &number {
                    None => SliceColumn::Ids(open_columns::strings(segment, "_id")?.map(Column::Str)),
                    Some(field) => SliceColumn::Numbers(field.open(segment)?),
                };
                let slicer = Slicer { id, max, by, typed };
                let set = level.restrict(segment, crate::scorers::constant::every(segment))?;
                // An unreadable document is in no slice; the pass over the documents reports the damage.
                Ok(rescore(set, move |doc, _| slicer.has(doc).unwrap_or(false).then_some(1.0)))
            },
        }))
    }
}

fn first(column: Option<&Column>, doc: DocId) -> Result<Option<FieldValue>> {
    Ok(match column {
        Some(column) => column.values(doc)?.into_iter().next(),
        None => None,
    })
}

/// A number as its doc value has it.
fn bits(value: &FieldValue) -> u64 {
    match value {
        FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => n.cast_unsigned(),
        FieldValue::UnsignedLong(n) => *n,
        FieldValue::Bool(b) => u64::from(*b),
        FieldValue::Double(n) => {
            // As doubles are made sortable: negative ones with all bits but the sign turned.
            let bits = n.to_bits().cast_signed();
            (bits ^ (bits >> 63) & i64::MAX).cast_unsigned()
        }
        _ => 0,
    }
}
