//! Bloom filters over the ids of a segment: a document that is new to the index is looked for in every segment, and found in none.
//!
//! A lookup in a dictionary takes some 500 ns a segment, one here some 50. The filter has blocks of 512 bits, each a cache line; an id sets
//! `PROBES` bits of one block. At `BITS_EACH` bits an id, one absent id in a hundred is looked for in the dictionary after all.
//! Sources: B. Bloom: Space/time trade-offs in hash coding with allowable errors (1970); F. Putze, P. Sanders, J. Singler: Cache-, hash- and
//! space-efficient Bloom filters (2007).
//!
//! **Invariant** (search.md S27): a filter passes every id of its segment, asserted at each lookup of a debug build
//! (`stored_document::locate`).
//!
//! Not here: when a segment gets one (`absent_ids`).

use crate::derived::Footprint;
use rustc_hash::FxHasher;
use std::hash::Hasher as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bits for each id.
const BITS_EACH: usize = 12;
/// Bits that an id sets.
const PROBES: u32 = 6;
/// So many lookups in vain show that documents are added by ids of their own.
const ABSENT_MIN: u64 = 1_000;
const WORDS: usize = 8;

/// The filter.
pub struct IdFilter {
    blocks: Box<[[u64; WORDS]]>,
}

impl Footprint for IdFilter {
    fn heap_bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }
}

/// The hash of an id, for the filters of all segments.
#[derive(Clone, Copy)]
pub struct IdHash(u64);

impl IdHash {
    /// Hashes a stored id.
    pub fn of(uid: &[u8]) -> IdHash {
        let mut hasher = FxHasher::default();
        hasher.write(uid);
        // The finalizer of MurmurHash3: each bit of the input changes each of the output.
        let mut hash = hasher.finish();
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 33;
        hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        IdHash(hash ^ (hash >> 33))
    }

    /// The block of so many, by the upper half of the hash.
    fn block(self, count: usize) -> usize {
        (((self.0 >> 32) * count as u64) >> 32) as usize
    }

    /// The bits in the block, by the lower half: each as a word and a mask.
    fn bits(self) -> impl Iterator<Item = (usize, u64)> {
        // A second hash is the step from one to the next; the upper 9 bits of 32 are the place of each.
        let (start, step) = (self.0 as u32, (self.0 as u32).rotate_left(15) | 1);
        (0..PROBES).map(move |n| {
            let bit = start.wrapping_add(n.wrapping_mul(step)) >> 23;
            ((bit >> 6) as usize, 1 << (bit & 63))
        })
    }
}

impl IdFilter {
    /// Empty, for so many ids.
    pub(crate) fn with_room_for(ids: usize) -> IdFilter {
        let blocks = (ids * BITS_EACH).div_ceil(64 * WORDS).max(1);
        IdFilter {
            blocks: vec![[0; WORDS]; blocks].into(),
        }
    }

    /// From here on the id passes.
    pub(crate) fn insert(&mut self, hash: IdHash) {
        let block = hash.block(self.blocks.len());
        for (word, mask) in hash.bits() {
            self.blocks[block][word] |= mask;
        }
    }

    /// Whether the segment may have the id. `false`: it has not.
    pub fn may_contain(&self, hash: IdHash) -> bool {
        let block = &self.blocks[hash.block(self.blocks.len())];
        hash.bits().all(|(word, mask)| block[word] & mask != 0)
    }
}

/// What a segment knows about lookups of ids.
#[derive(Debug, Default)]
pub struct IdLookups {
    /// Ids that its dictionary was asked for in vain.
    absent: AtomicU64,
    /// A filter was made.
    has_filter: AtomicBool,
}

impl IdLookups {
    /// The dictionary lacks an id.
    pub(crate) fn note_absent(&self) {
        self.absent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_filter(&self) {
        self.has_filter.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.has_filter.load(Ordering::Relaxed)
    }

    /// Whether a filter would be of use: documents are added by ids of their own.
    pub(crate) fn wants_filter(&self) -> bool {
        self.has_filter() || self.absent.load(Ordering::Relaxed) >= ABSENT_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_passes_and_few_others() {
        for count in [1usize, 1_000, 100_000] {
            let mut filter = IdFilter::with_room_for(count);
            let of = |n: usize| IdHash::of(format!("{n}-7").as_bytes());
            (0..count).for_each(|n| filter.insert(of(n)));
            assert!((0..count).all(|n| filter.may_contain(of(n))), "{count}");
            let others = 100_000;
            let passed = (count..count + others).filter(|n| filter.may_contain(of(*n))).count();
            assert!(
                passed * 50 < others,
                "{passed} of {others} absent ids pass a filter of {count}"
            );
        }
    }
}
