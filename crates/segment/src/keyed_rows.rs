//! Documents of a segment that may have a key of a set, read from the rows of a column.
//!
//! To look for the keys of each document in a set takes two misses of the processor's cache. Strings of a column are fewer than documents, and
//! their keys stand in a row: each is looked for once, and then the ordinals of documents are read in a row, too. Whole numbers pass a
//! filter of one bit for each number.
//!
//! Not here: the keys of a column (`key_columns`), when this takes less time (`scorers::keyed_docs` of `search`).

use crate::key_columns::{ByKey, Keys, filter_multiplier};
use std::ops::Range;
use tantivy::columnar::Column;
use tantivy::{BitSet, DocId};

/// Bits of a filter for each key. A key that is not there passes it with a chance of 1 in 16.
const FILTER_BITS: usize = 16;
/// A filter has no more bits, so that it stays in the processor's cache.
const FILTER_BITS_MAX: u32 = 1 << 22;
/// Rows of a column that are read at once.
const ROWS: usize = 4096;

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
}

/// The rows of a column that may have a key of a set.
pub struct KeyedRows {
    values: Values,
    /// Rows that were read last and may have one.
    rows: Vec<u32>,
}

enum Values {
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
    /// Looks for each key of a column of strings in a set.
    pub fn of_text<V>(keys: Keys, set: &ByKey<V>) -> KeyedRows {
        let filter = HalfFilter::of(set.keys().map(|key| key.place()));
        // A segment has fewer strings than rows, whose numbers are `u32`.
        let mut wanted = BitSet::with_max_value(keys.by_ordinal().len() as u32);
        for (ordinal, key) in (0..).zip(keys.by_ordinal()) {
            if filter.passes(key.place()) && set.contains_key(key) {
                wanted.insert(ordinal);
            }
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

    /// Calls `show` with at least each of these documents that has a key of the set, in their order; one with several may come several times.
    pub fn each(&mut self, docs: Range<DocId>, show: impl FnMut(DocId)) {
        let rows = &mut self.rows;
        match &mut self.values {
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
