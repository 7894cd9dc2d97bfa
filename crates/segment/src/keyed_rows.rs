//! Documents of a segment that may have a key of a set, read from the rows of a column.
//!
//! To look for the keys of each document in a set takes two misses of the processor's cache. Strings of a column are fewer than documents, and
//! their keys stand in a row: each is looked for once, and then the ordinals of documents are read in a row, too. Where few strings are
//! found, their documents are looked up by ordinal (`ordinal_docs`). Whole numbers pass a filter of one bit for each number.
//!
//! Not here: the keys of a column (`key_columns`), when this takes less time (`scorers::keyed_docs` of `search`).

use crate::doc_bits::DocBits;
use crate::key_columns::{ByKey, Keys, filter_multiplier};
use crate::ordinal_docs::OrdinalDocs;
use crate::segment_view::SegmentCore;
use std::ops::Range;
use std::sync::Arc;
use tantivy::columnar::Column;
use tantivy::{BitSet, DocId};

/// Bits of a filter for each key. A key that is not there passes it with a chance of 1 in 16.
const FILTER_BITS: usize = 16;
/// A filter has no more bits, so that it stays in the processor's cache.
const FILTER_BITS_MAX: u32 = 1 << 22;
/// Rows of a column that are read at once.
const ROWS: usize = 4096;
/// To look up the documents of one string takes as long as to read so many rows, and so does each of its documents.
const LOOKUP_ROWS: u64 = if cfg!(debug_assertions) { 1 } else { 8 };

/// A column of strings whose documents may be looked up by ordinal.
#[derive(Clone)]
pub struct NamedColumn {
    /// The segment.
    pub core: Arc<SegmentCore>,
    /// The name of the column, which stands for its strings among what the segment keeps.
    pub name: Arc<str>,
}

/// One half of some keys, a bit each: most keys that are not among them are told apart by it. The multiplier is one of the process, so
/// nobody can choose numbers that all pass.
struct HalfFilter {
    bits: BitSet,
    multiplier: u64,
    shift: u32,
}

impl HalfFilter {
    fn of(halves: impl ExactSizeIterator<Item = u64>) -> HalfFilter {
        let wanted = (halves.len() * FILTER_BITS).next_power_of_two().max(64);
        let count = u32::try_from(wanted).map_or(FILTER_BITS_MAX, |wanted| wanted.min(FILTER_BITS_MAX));
        let mut filter = HalfFilter {
            bits: BitSet::with_max_value(count),
            multiplier: filter_multiplier(),
            shift: u64::BITS - count.trailing_zeros(),
        };
        for half in halves {
            filter.bits.insert(filter.at(half));
        }
        filter
    }
    #[inline]
    fn at(&self, half: u64) -> u32 {
        (half.wrapping_mul(self.multiplier) >> self.shift) as u32
    }
    #[inline]
    fn passes(&self, half: u64) -> bool {
        self.bits.contains(self.at(half))
    }
    /// Which of at most 64 halves pass, a bit each: no branch depends on one of them.
    #[inline]
    fn passing(&self, halves: impl Iterator<Item = u64>) -> u64 {
        let bits = halves.zip(0..64).map(|(half, at)| u64::from(self.passes(half)) << at);
        bits.fold(0, |all, bit| all | bit)
    }
}

/// The rows of a column that may have a key of a set.
pub struct KeyedRows {
    values: Values,
    /// Rows that were read last and may have one.
    rows: Vec<u32>,
}

enum Values {
    /// The documents themselves, exactly.
    Docs(DocBits),
    /// The wanted ordinals, exactly.
    Text { keys: Keys, wanted: BitSet, read: Vec<u64> },
    Whole {
        column: Column<i64>,
        filter: HalfFilter,
        read: Vec<i64>,
    },
    Unsigned {
        column: Column<u64>,
        filter: HalfFilter,
        read: Vec<u64>,
    },
}

impl KeyedRows {
    /// Looks for each key of a column of strings in a set; `column` says where their documents may be looked up.
    pub fn of_text<V>(keys: Keys, set: &ByKey<V>, column: Option<&NamedColumn>) -> KeyedRows {
        let filter = HalfFilter::of(set.keys().map(|key| key.place()));
        let mut ordinals = Vec::new();
        // A segment has fewer strings than rows, whose numbers are `u32`.
        for (first, part) in (0u32..).step_by(64).zip(keys.by_ordinal().chunks(64)) {
            let mut passing = filter.passing(part.iter().map(|key| key.place()));
            while passing != 0 {
                let at = passing.trailing_zeros();
                passing &= passing - 1;
                if set.contains_key(&part[at as usize]) {
                    ordinals.push(first + at);
                }
            }
        }
        if let Some(docs) = column.and_then(|column| look_up(&keys, &ordinals, column)) {
            return KeyedRows::new(Values::Docs(docs));
        }
        let mut wanted = BitSet::with_max_value(keys.by_ordinal().len() as u32);
        for ordinal in ordinals {
            wanted.insert(ordinal);
        }
        KeyedRows::new(Values::Text {
            keys,
            wanted,
            read: Vec::new(),
        })
    }

    /// The rows of a column of whole numbers.
    pub fn of_whole<V>(column: Column<i64>, set: &ByKey<V>) -> KeyedRows {
        KeyedRows::new(Values::Whole {
            column,
            filter: HalfFilter::of(set.keys().map(|key| key.check())),
            read: Vec::new(),
        })
    }

    /// The rows of a column of whole numbers without sign.
    pub fn of_unsigned<V>(column: Column<u64>, set: &ByKey<V>) -> KeyedRows {
        KeyedRows::new(Values::Unsigned {
            column,
            filter: HalfFilter::of(set.keys().map(|key| key.check())),
            read: Vec::new(),
        })
    }

    fn new(values: Values) -> KeyedRows {
        KeyedRows {
            values,
            rows: Vec::new(),
        }
    }

    /// Whether no document is shown without a key of the set.
    pub fn is_exact(&self) -> bool {
        matches!(self.values, Values::Docs(_) | Values::Text { .. })
    }

    /// The first document from one on that has a key of the set, where all of them are known.
    pub fn next(&self, from: DocId) -> Option<DocId> {
        match &self.values {
            Values::Docs(docs) => Some(docs.next(from)),
            _ => None,
        }
    }

    /// Calls `show` with at least each of these documents that has a key of the set, in their order; one with several may come several times.
    pub fn each(&mut self, docs: Range<DocId>, show: impl FnMut(DocId)) {
        let rows = &mut self.rows;
        match &mut self.values {
            Values::Docs(found) => docs.filter(|doc| found.contains(*doc)).for_each(show),
            Values::Text { keys, wanted, read } => {
                each_row(
                    keys.column().ords(),
                    docs,
                    (read, rows),
                    |ordinal| wanted.contains(ordinal as u32),
                    show,
                );
            }
            Values::Whole { column, filter, read } => {
                let passes = |number: i64| filter.passes(number.cast_unsigned());
                each_row(column, docs, (read, rows), passes, show);
            }
            Values::Unsigned { column, filter, read } => {
                // Keys of greater numbers are those of their texts.
                let passes = |number: u64| number > i64::MAX.cast_unsigned() || filter.passes(number);
                each_row(column, docs, (read, rows), passes, show);
            }
        }
    }
}

/// The documents of some strings, where that takes less time than to read the column.
fn look_up(keys: &Keys, ordinals: &[u32], column: &NamedColumn) -> Option<DocBits> {
    let rows = u64::from(keys.column().ords().values.num_vals());
    if ordinals.len() as u64 * LOOKUP_ROWS >= rows {
        return None;
    }
    let by_ordinal = OrdinalDocs::from_second_request(&column.core, &column.name, keys.column())?;
    let lookups: u64 = ordinals.iter().map(|ordinal| 1 + by_ordinal.of(*ordinal).len() as u64).sum();
    if lookups * LOOKUP_ROWS >= rows {
        return None;
    }
    let mut docs = DocBits::new(keys.column().ords().num_docs());
    for ordinal in ordinals {
        by_ordinal.of(*ordinal).iter().for_each(|doc| docs.insert(*doc));
    }
    Some(docs)
}

/// Calls `show` with each of these documents whose value is wanted.
fn each_row<T: Copy + Default + PartialOrd + std::fmt::Debug + Send + Sync + 'static>(
    column: &Column<T>,
    docs: Range<DocId>,
    (read, rows): (&mut Vec<T>, &mut Vec<u32>),
    is_wanted: impl Fn(T) -> bool,
    mut show: impl FnMut(DocId),
) {
    let mut left = column.index.docid_range_to_rowids(docs.clone());
    while !left.is_empty() {
        let part = left.start..left.end.min(left.start + ROWS as u32);
        left.start = part.end;
        read.resize(part.len(), T::default());
        column.values.get_range(u64::from(part.start), read);
        rows.clear();
        rows.extend(
            part.zip(read.iter())
                .filter(|(_, value)| is_wanted(**value))
                .map(|(row, _)| row),
        );
        column.index.select_batch_in_place(docs.start, rows);
        debug_assert!(
            rows.iter().all(|doc| docs.contains(doc)),
            "a row of these documents belongs to one of them"
        );
        rows.iter().for_each(|doc| show(*doc));
    }
}
