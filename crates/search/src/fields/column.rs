//! Columns of a segment, opened once and read a document at a time.

use super::target::Target;
use mapping::tree::TreePart;
use mapping::{FieldValue, Kind};
use model::Result;
use segment::error::broken;
use segment::open_columns;
use segment::segment_view::SegmentView;
use segment::tree_columns;
use std::net::Ipv6Addr;
use tantivy::DocId;
use tantivy::columnar::{Cardinality, ColumnIndex, ColumnValues, RowId, StrColumn};

/// The values of one field in one segment.
#[derive(Clone)]
pub(crate) enum Column {
    /// Whole numbers and booleans.
    I64(tantivy::columnar::Column<i64>),
    /// Epoch milliseconds.
    Date(tantivy::columnar::Column<i64>),
    /// Epoch nanoseconds.
    DateNanos(tantivy::columnar::Column<i64>),
    /// `unsigned_long`.
    U64(tantivy::columnar::Column<u64>),
    /// Numbers with a fraction.
    F64(tantivy::columnar::Column<f64>),
    /// Booleans.
    Bool(tantivy::columnar::Column<bool>),
    /// Addresses.
    Ip(tantivy::columnar::Column<Ipv6Addr>),
    /// Whole strings.
    Str(StrColumn),
    /// Latitudes and longitudes.
    Geo(tantivy::columnar::Column<f64>, tantivy::columnar::Column<f64>),
}

/// Whether each row of an ascending list follows the one before it without a gap.
pub(crate) fn is_run(rows: &[RowId]) -> bool {
    match rows {
        [first, .., last] => (last - first) as usize + 1 == rows.len(),
        _ => true,
    }
}

/// Reads the values of rows in ascending order. Those without a gap are read as a range.
pub(crate) fn read_rows<T: Copy + PartialOrd + 'static>(
    values: &dyn ColumnValues<T>,
    rows: &[RowId],
    is_run: bool,
    out: &mut [T],
) {
    debug_assert_eq!(rows.len(), out.len(), "each row has a value");
    match rows.first() {
        Some(first) if is_run => values.get_range(u64::from(*first), out),
        _ => values.get_vals(rows, out),
    }
}

impl Column {
    /// The column of a field, if the field has one and the segment a value.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn open(segment: &SegmentView, target: &Target<'_>) -> Result<Option<Column>> {
        let Some(name) = target.slot.column.as_deref() else {
            if target.kind.fielddata && target.kind.kind.is_text() {
                return Ok(segment::fielddata::column(segment, target.slot.field)?.map(Column::Str));
            }
            return Ok(None);
        };
        if let Some(field) = target.kind.tree {
            return Ok(match field.part {
                TreePart::Depth => tree_columns::depths(segment, target.slot, field, target.tree)?.map(Column::I64),
                _ => tree_columns::texts(segment, target.slot, field, target.tree)?.map(Column::Str),
            });
        }
        if target.kind.kind.is_range() {
            return Err(model::Error::illegal(format!(
                "Field [{}] of type [{}] has no single values: it cannot be sorted, aggregated or read as a value",
                target.path,
                target.kind.wire()
            )));
        }
        if target.is_relation() {
            let ids = crate::fields::parent_ids::column(segment, target.path, target.kind, target.slot)?;
            return Ok(ids.map(Column::Str));
        }
        Ok(match target.kind.kind {
            Kind::Date => open_columns::values(segment, name)?.map(Column::Date),
            Kind::DateNanos => open_columns::values(segment, name)?.map(Column::DateNanos),
            Kind::UnsignedLong => open_columns::values(segment, name)?.map(Column::U64),
            kind if kind.is_integer() => open_columns::values(segment, name)?.map(Column::I64),
            kind if kind.is_float() => open_columns::values(segment, name)?.map(Column::F64),
            Kind::Boolean => open_columns::values(segment, name)?.map(Column::Bool),
            Kind::Ip => open_columns::values(segment, name)?.map(Column::Ip),
            Kind::GeoPoint => {
                let lat = open_columns::values(segment, name)?;
                let lon = match &target.slot.second {
                    Some((_, lon)) => open_columns::values(segment, lon)?,
                    None => None,
                };
                lat.zip(lon).map(|(lat, lon)| Column::Geo(lat, lon))
            }
            _ => open_columns::strings(segment, name)?.map(Column::Str),
        })
    }

    /// Which rows a document has.
    pub(crate) fn index(&self) -> &ColumnIndex {
        match self {
            Column::I64(c) | Column::Date(c) | Column::DateNanos(c) => &c.index,
            Column::U64(c) => &c.index,
            Column::F64(c) | Column::Geo(c, _) => &c.index,
            Column::Bool(c) => &c.index,
            Column::Ip(c) => &c.index,
            Column::Str(c) => &c.ords().index,
        }
    }

    /// Whether a document has a value.
    pub(crate) fn has(&self, doc: DocId) -> bool {
        self.index().has_value(doc)
    }

    /// Whether a document may have several values.
    pub(crate) fn is_multivalued(&self) -> bool {
        self.index().get_cardinality() == Cardinality::Multivalued
    }

    /// How many documents have a value.
    pub(crate) fn docs_with_value(&self) -> u64 {
        let max_doc = match self {
            Column::I64(c) | Column::Date(c) | Column::DateNanos(c) => c.num_docs(),
            Column::U64(c) => c.num_docs(),
            Column::F64(c) | Column::Geo(c, _) => c.num_docs(),
            Column::Bool(c) => c.num_docs(),
            Column::Ip(c) => c.num_docs(),
            Column::Str(c) => c.ords().num_docs(),
        };
        match self.index().get_cardinality() {
            Cardinality::Full => u64::from(max_doc),
            _ => (0..max_doc).filter(|doc| self.has(*doc)).count() as u64,
        }
    }

    /// The values of a document as numbers; strings as their ordinals, addresses and places not at all.
    pub(crate) fn numbers(&self, doc: DocId, out: &mut Vec<f64>) {
        out.clear();
        match self {
            Column::I64(c) | Column::Date(c) | Column::DateNanos(c) => out.extend(c.values_for_doc(doc).map(|v| v as f64)),
            Column::U64(c) => out.extend(c.values_for_doc(doc).map(|v| v as f64)),
            Column::F64(c) => out.extend(c.values_for_doc(doc)),
            Column::Bool(c) => out.extend(c.values_for_doc(doc).map(|b| f64::from(u8::from(b)))),
            Column::Str(c) => out.extend(c.term_ords(doc).map(|v| v as f64)),
            Column::Ip(_) | Column::Geo(..) => {}
        }
    }

    /// The values of a document, strings in order and each once, as doc values are.
    ///
    /// # Errors
    /// Unreadable dictionaries.
    pub(crate) fn values(&self, doc: DocId) -> Result<Vec<FieldValue>> {
        let mut out: Vec<FieldValue> = Vec::new();
        match self {
            Column::I64(c) => {
                let mut all: Vec<i64> = c.values_for_doc(doc).collect();
                all.sort_unstable();
                out.extend(all.into_iter().map(FieldValue::Long));
            }
            Column::Date(c) => {
                let mut all: Vec<i64> = c.values_for_doc(doc).collect();
                all.sort_unstable();
                out.extend(all.into_iter().map(FieldValue::Date));
            }
            Column::DateNanos(c) => {
                let mut all: Vec<i64> = c.values_for_doc(doc).collect();
                all.sort_unstable();
                out.extend(all.into_iter().map(FieldValue::DateNanos));
            }
            Column::U64(c) => {
                let mut all: Vec<u64> = c.values_for_doc(doc).collect();
                all.sort_unstable();
                out.extend(all.into_iter().map(FieldValue::UnsignedLong));
            }
            Column::F64(c) => {
                let mut all: Vec<f64> = c.values_for_doc(doc).collect();
                all.sort_by(f64::total_cmp);
                out.extend(all.into_iter().map(FieldValue::Double));
            }
            Column::Bool(c) => {
                let mut all: Vec<bool> = c.values_for_doc(doc).collect();
                all.sort_unstable();
                out.extend(all.into_iter().map(FieldValue::Bool));
            }
            Column::Ip(c) => {
                let mut all: Vec<Ipv6Addr> = c.values_for_doc(doc).collect();
                all.sort_unstable();
                all.dedup();
                out.extend(all.into_iter().map(|ip| FieldValue::Ip(ip.octets())));
            }
            Column::Str(c) => {
                let mut ords: Vec<u64> = c.term_ords(doc).collect();
                ords.sort_unstable();
                ords.dedup();
                // The blocks of the dictionary are read once, not for each string.
                let add = |text: &[u8]| out.push(FieldValue::Keyword(String::from_utf8_lossy(text).into_owned()));
                let has_all = c.dictionary().sorted_ords_to_term_cb(&ords, add).map_err(broken)?;
                debug_assert!(has_all, "an ordinal is below the number of terms");
            }
            Column::Geo(lat, lon) => {
                out.extend(
                    lat.values_for_doc(doc)
                        .zip(lon.values_for_doc(doc))
                        .map(|(lat, lon)| FieldValue::Geo { lat, lon }),
                );
            }
        }
        Ok(out)
    }
}
