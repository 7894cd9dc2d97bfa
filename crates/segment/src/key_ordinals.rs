//! The ordinals of a column whose keys are in a set, and the documents that have one of them.
//!
//! To look for the key of each document in a set takes two misses of the processor's cache. A column has fewer strings than a segment has
//! documents, and their keys stand in a row: each is looked for once, and then the ordinals of documents are read in a row, too.
//!
//! Not here: the keys of a column (`key_columns`), when this takes less time (`scorers::keyed_docs` of `search`).

use crate::key_columns::{ByKey, Key, Keys};
use std::ops::Range;
use tantivy::DocId;

/// Bits of the first filter for each key. A key that is not there passes it with a chance of 1 in 16.
const FILTER_BITS: usize = 16;
/// The filter has no more bits, so that it stays in the processor's cache.
const FILTER_BITS_MAX: usize = 1 << 22;
/// Rows of a column that are read at once.
const ROWS: usize = 4096;

/// A set of numbers from 0 on, one bit each.
struct Bits(Vec<u64>);

impl Bits {
    /// None of so many.
    fn new(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(64)])
    }
    #[inline]
    fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }
    #[inline]
    fn contains(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// The places of some keys, one bit each: most other keys are told apart by it.
struct PlaceFilter {
    bits: Bits,
    mask: u64,
}

impl PlaceFilter {
    fn of<'a>(keys: impl ExactSizeIterator<Item = &'a Key>) -> PlaceFilter {
        let count = (keys.len() * FILTER_BITS).next_power_of_two().clamp(64, FILTER_BITS_MAX);
        let mut filter = PlaceFilter {
            bits: Bits::new(count),
            mask: count as u64 - 1,
        };
        for key in keys {
            filter.bits.insert(filter.at(*key));
        }
        filter
    }
    #[inline]
    fn at(&self, key: Key) -> usize {
        (key.place() & self.mask) as usize
    }
    #[inline]
    fn passes(&self, key: Key) -> bool {
        self.bits.contains(self.at(key))
    }
}

/// The documents of a segment that have a key of a set.
pub struct KeyOrdinals {
    keys: Keys,
    wanted: Bits,
    /// The ordinals of some rows, and those rows that are wanted.
    ordinals: Vec<u64>,
    rows: Vec<u32>,
}

impl KeyOrdinals {
    /// Looks for each key of a column in a set.
    pub fn new<V>(keys: Keys, set: &ByKey<V>) -> KeyOrdinals {
        let filter = PlaceFilter::of(set.keys());
        let mut wanted = Bits::new(keys.by_ordinal().len());
        for (ordinal, key) in keys.by_ordinal().iter().enumerate() {
            if filter.passes(*key) && set.contains_key(key) {
                wanted.insert(ordinal);
            }
        }
        KeyOrdinals {
            keys,
            wanted,
            ordinals: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Calls `show` with each of these documents that has a wanted key, in their order; one with several may come several times.
    pub fn each(&mut self, docs: Range<DocId>, mut show: impl FnMut(DocId)) {
        let column = self.keys.column().ords();
        let mut rows = column.index.docid_range_to_rowids(docs.clone());
        while !rows.is_empty() {
            let part = rows.start..rows.end.min(rows.start + ROWS as u32);
            rows.start = part.end;
            self.ordinals.resize(part.len(), 0);
            column.values.get_range(u64::from(part.start), &mut self.ordinals);
            let numbered = part.zip(&self.ordinals);
            let wanted = numbered.filter(|(_, ordinal)| self.wanted.contains(**ordinal as usize));
            self.rows.clear();
            self.rows.extend(wanted.map(|(row, _)| row));
            column.index.select_batch_in_place(docs.start, &mut self.rows);
            debug_assert!(
                self.rows.iter().all(|doc| docs.contains(doc)),
                "a row of these documents belongs to one of them"
            );
            self.rows.iter().for_each(|doc| show(*doc));
        }
    }
}
