//! Ranks: documents of one segment are compared by whole numbers in place of keys, the smallest first.
//!
//! A number, date or boolean ranks by its value, a string by its ordinal in the segment, a position (`_doc`) by itself. A block of documents is passed over where
//! its bounds say that no rank in it can matter.
//!
//! Not here: which documents are looked at (`collect::by_rank`).

use super::nested::Children;
use super::reader::{ColumnReader, ReadBy, SortReader};
use super::{Column, Key};
use crate::fields::column::{is_run, read_rows};
use dsl::query::MultiValueMode;
use model::Result;
use segment::column_bounds::{Block, ColumnBounds};
use segment::error::broken;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::columnar::{self, ColumnIndex, MonotonicallyMappableToU64, StrColumn, TermOrdHit};
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId};

/// The ranks of one sort key in one segment.
pub(crate) struct Ranks {
    values: Values,
    ascending: bool,
    /// The greatest of several values counts, else the least.
    greatest: bool,
    /// The rank of a document without a value.
    missing: u64,
    /// The nested documents whose values count, in place of the document's own.
    children: Option<Children>,
    /// The name of the column, if it is a stored one.
    name: Option<Arc<str>>,
}

enum Values {
    Int(columnar::Column<i64>),
    Float(columnar::Column<f64>),
    Bool(columnar::Column<bool>),
    Text(StrColumn),
    /// The place of a document among those of all segments: the segment's first, and how many it has.
    Position(i64, DocId),
}

impl Ranks {
    /// The ranks that a reader's keys have, where whole numbers can stand for them.
    pub(crate) fn of(reader: &SortReader) -> Option<Ranks> {
        if let ReadBy::Doc { first, max_doc } = reader.by {
            return Some(Ranks {
                values: Values::Position(first, max_doc),
                ascending: reader.ascending,
                greatest: false,
                missing: 0,
                children: None,
                name: None,
            });
        }
        let ReadBy::Column(ColumnReader {
            column: Some(column),
            mode,
            missing,
            float,
            children,
            to_nanos: false,
            name,
        }) = &reader.by
        else {
            return None;
        };
        let values = match (column, missing, float) {
            (Column::I64(c) | Column::Date(c) | Column::DateNanos(c), Key::Int(_), false) => Values::Int(c.clone()),
            (Column::F64(c), Key::Float(_), true) => Values::Float(c.clone()),
            (Column::Bool(c), Key::Int(_), false) => Values::Bool(c.clone()),
            (Column::Str(c), Key::None { .. }, _) => Values::Text(c.clone()),
            _ => return None,
        };
        // Strings have no sums: any other mode takes the least of them.
        if !matches!(mode, MultiValueMode::Min | MultiValueMode::Max) && !matches!(values, Values::Text(_)) {
            return None;
        }
        let mut ranks = Ranks {
            values,
            ascending: reader.ascending,
            greatest: *mode == MultiValueMode::Max,
            missing: 0,
            children: children.clone(),
            // The blocks of a column tell nothing of the documents around nested ones.
            name: name.clone().filter(|_| children.is_none()),
        };
        ranks.missing = match missing {
            Key::Int(n) if matches!(ranks.values, Values::Bool(_)) => ranks.of_flag(*n)?,
            Key::Int(n) => ranks.of_place(n.to_u64()),
            Key::Float(n) => ranks.of_place(n.to_u64()),
            Key::None { first: true } => 0,
            _ => u64::MAX,
        };
        Some(ranks)
    }

    /// The rank of a value's place in the order of the column. Strings and booleans leave 0 and the last rank to missing values.
    fn of_place(&self, place: u64) -> u64 {
        match (&self.values, self.ascending) {
            (Values::Text(_) | Values::Bool(_), true) => place.saturating_add(1),
            (Values::Text(_) | Values::Bool(_), false) => (u64::MAX - 1).saturating_sub(place),
            (_, true) => place,
            (_, false) => !place,
        }
    }

    /// The rank of a boolean as a number, or of what stands for a missing one before or behind both; `None` for other numbers.
    fn of_flag(&self, flag: i64) -> Option<u64> {
        match flag {
            0 | 1 => Some(self.of_place(flag.unsigned_abs())),
            _ if is_lowest(flag) => Some(if self.ascending { 0 } else { u64::MAX }),
            _ if is_highest(flag) => Some(if self.ascending { u64::MAX } else { 0 }),
            _ => None,
        }
    }

    /// The rank of a document.
    #[inline]
    pub(crate) fn rank(&self, doc: DocId) -> u64 {
        let place = match &self.values {
            Values::Int(column) => self.place(column, doc),
            Values::Float(column) => self.place(column, doc),
            Values::Bool(column) => self.place(column, doc),
            Values::Text(column) => self.place(column.ords(), doc),
            Values::Position(first, _) => Some(position(*first, doc)),
        };
        place.map_or(self.missing, |place| self.of_place(place))
    }

    /// The ranks of several documents, in ascending order.
    pub(crate) fn read(&self, docs: &[DocId], ranks: &mut [u64]) {
        debug_assert_eq!(docs.len(), ranks.len(), "each document has a rank");
        let is_full = match &self.values {
            _ if self.children.is_some() => false,
            Values::Int(column) => read_full(column, docs, ranks),
            Values::Float(column) => read_full(column, docs, ranks),
            Values::Bool(column) => read_full(column, docs, ranks),
            Values::Text(column) => read_full(column.ords(), docs, ranks),
            Values::Position(..) => false,
        };
        match is_full {
            true => ranks.iter_mut().for_each(|rank| *rank = self.of_place(*rank)),
            false => docs.iter().zip(&mut *ranks).for_each(|(doc, rank)| *rank = self.rank(*doc)),
        }
        debug_assert!(
            docs.iter().zip(ranks).all(|(doc, rank)| *rank == self.rank(*doc)),
            "search.md S24: to read a block is to read its documents one by one"
        );
    }

    #[inline]
    fn place<T>(&self, column: &columnar::Column<T>, doc: DocId) -> Option<u64>
    where
        T: MonotonicallyMappableToU64 + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
    {
        if let Some(children) = &self.children {
            return self.place_in(children, column, doc);
        }
        if matches!(column.index, ColumnIndex::Full) {
            return Some(column.values.get_val(doc).to_u64());
        }
        let places = column.values_for_doc(doc).map(MonotonicallyMappableToU64::to_u64);
        if self.greatest { places.max() } else { places.min() }
    }

    /// The place that counts of those of nested documents.
    fn place_in<T>(&self, children: &Children, column: &columnar::Column<T>, doc: DocId) -> Option<u64>
    where
        T: MonotonicallyMappableToU64 + PartialOrd + Copy + std::fmt::Debug + Send + Sync + 'static,
    {
        let mut found: Option<u64> = None;
        children.of(doc, |child| {
            let mut has = false;
            for place in column.values_for_doc(child).map(MonotonicallyMappableToU64::to_u64) {
                has = true;
                found = Some(found.map_or(place, |found| if self.greatest { found.max(place) } else { found.min(place) }));
            }
            has
        });
        found
    }

    /// The bounds of the column's blocks; `None` where there are none.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn bounds(&self, segment: &SegmentView) -> Result<Option<Arc<ColumnBounds>>> {
        if let Values::Position(first, max_doc) = self.values {
            return Ok(Some(Arc::new(ColumnBounds::of_ascending(max_doc, |doc| {
                position(first, doc)
            }))));
        }
        let Some(name) = &self.name else { return Ok(None) };
        match &self.values {
            Values::Int(column) => ColumnBounds::of(segment, name, column),
            Values::Float(column) => ColumnBounds::of(segment, name, column),
            Values::Bool(column) => ColumnBounds::of(segment, name, column),
            Values::Text(column) => ColumnBounds::of(segment, name, column.ords()),
            Values::Position(..) => Ok(None),
        }
    }

    /// The least and the greatest rank in a block; `None` for a block without documents.
    pub(crate) fn range_in(&self, block: &Block) -> Option<(u64, u64)> {
        let values = (block.least <= block.greatest).then(|| {
            let (least, greatest) = (self.of_place(block.least), self.of_place(block.greatest));
            (least.min(greatest), least.max(greatest))
        });
        let range = match (values, block.has_missing) {
            (Some((least, greatest)), true) => Some((least.min(self.missing), greatest.max(self.missing))),
            (None, true) => Some((self.missing, self.missing)),
            (values, false) => values,
        };
        debug_assert!(
            range.is_none_or(|(least, greatest)| least <= greatest),
            "search.md S10: the bounds of a block hold its ranks"
        );
        range
    }

    /// Where a key stands among the ranks of the segment; `None` for a key of another kind, of another index.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn rank_of(&self, key: &Key) -> Result<Option<KeyRank>> {
        let at = |rank: u64, exact: bool| Ok(Some(KeyRank { rank, exact }));
        match (key, &self.values) {
            (Key::Int(n), Values::Int(_) | Values::Position(..)) => at(self.of_place(n.to_u64()), true),
            (Key::Float(n), Values::Float(_)) => at(self.of_place(n.to_u64()), true),
            (Key::Int(n), Values::Bool(_)) => Ok(self.of_flag(*n).map(|rank| KeyRank { rank, exact: true })),
            (Key::None { first }, Values::Text(_)) => at(if *first { 0 } else { u64::MAX }, true),
            (Key::Text(text), Values::Text(column)) => {
                match column.dictionary().term_ord_or_next(text.as_bytes()).map_err(broken)? {
                    TermOrdHit::Exact(ord) => at(self.of_place(ord), true),
                    // The string would stand before the next ordinal.
                    TermOrdHit::Next(next) if self.ascending => at(self.of_place(next).saturating_sub(1), false),
                    TermOrdHit::Next(next) => at(self.of_place(next), false),
                }
            }
            _ => Ok(None),
        }
    }
}

/// The place of a document of a segment among those of all, as columns of whole numbers order it.
fn position(first: i64, doc: DocId) -> u64 {
    (first + i64::from(doc)).to_u64()
}

/// Whether a number is the least of 32 or of 64 bits, which stands for a missing value.
fn is_lowest(number: i64) -> bool {
    number == i64::MIN || number == i64::from(i32::MIN)
}

fn is_highest(number: i64) -> bool {
    number == i64::MAX || number == i64::from(i32::MAX)
}

/// Reads the places of documents in the order of a column; `false` if some document may have none or several.
fn read_full<T>(column: &columnar::Column<T>, docs: &[DocId], places: &mut [u64]) -> bool
where
    T: MonotonicallyMappableToU64 + PartialOrd + Copy + Default + std::fmt::Debug + Send + Sync + 'static,
{
    if !matches!(column.index, ColumnIndex::Full) {
        return false;
    }
    let mut values = [T::default(); COLLECT_BLOCK_BUFFER_LEN];
    for (docs, places) in docs.chunks(values.len()).zip(places.chunks_mut(values.len())) {
        let values = &mut values[..docs.len()];
        read_rows(column.values.as_ref(), docs, is_run(docs), values);
        for (place, value) in places.iter_mut().zip(values) {
            *place = value.to_u64();
        }
    }
    true
}

/// Where a key stands among the ranks of a segment: documents with a greater rank come after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRank {
    /// The rank.
    pub(crate) rank: u64,
    /// Documents of this rank are equal to the key, else they come before it.
    pub(crate) exact: bool,
}

impl KeyRank {
    /// The greatest rank that comes before the key, or is equal to it where `ties` matter; `None`: no rank does.
    pub(crate) fn reach(self, ties: bool) -> Option<u64> {
        match self.exact && !ties {
            true => self.rank.checked_sub(1),
            false => Some(self.rank),
        }
    }
}
