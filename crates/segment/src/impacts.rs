//! Impacts: for each block of a term's list its last document, and the pairs of frequency and length that may score best there.
//!
//! A pair is left out where another pair of the block has no lower frequency and no greater length. So the best of those that
//! are left is the best of the block for every similarity whose scores rise with the frequency and fall with the length. Source:
//! Lucene's impacts (A. Grand, R. Muir, J. Ferenczi, J. Lin: From MaxScore to Block-Max WAND, ECIR 2020). tantivy keeps one pair for
//! each block, the best by its own statistics of the segment.
//!
//! Beside them stands the norm of each document of the list, so that a search reads norms in the order of the list and not from
//! all over the column.
//!
//! Made at first use of a term in a segment, some 136 bytes for each 128 documents, and kept with what is derived from it.
//!
//! Not here: scores, and how searches pass over blocks (`scorers::block_max` of `search`).

use crate::derived::Footprint;
use crate::error::broken;
use crate::segment_view::SegmentView;
use model::Result;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Term};

/// Documents of a block, as tantivy packs them. The last block of a list may have fewer.
pub const BLOCK_DOCS: usize = 128;
/// The impacts of shorter lists are made again each time, which takes some microseconds.
const KEPT_MIN_DOCS: u32 = if cfg!(test) { 128 } else { 1024 };
/// Frequencies from here on are sorted; lower ones have a place each.
const TABLE_FREQS: usize = 16;

/// A frequency and a length of the field, as its norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Impact {
    /// How often the term is in the document.
    pub freq: u32,
    /// The norm of the field's length, which rises with it.
    pub norm: u8,
}

/// The impacts of a term's list in a segment, deleted documents included.
#[derive(Debug, Default)]
pub struct Impacts {
    /// The last document of each block.
    ends: Vec<DocId>,
    /// For each block the number of its pairs in `lists`.
    places: Vec<u32>,
    /// Different lists of pairs: the frequency falls, and so does the length.
    lists: Vec<Box<[Impact]>>,
    /// The norm of each document, in the order of the list.
    norms: Vec<u8>,
}

impl Footprint for Impacts {
    fn heap_bytes(&self) -> usize {
        let pairs: usize = self.lists.iter().map(|list| size_of_val(list.as_ref())).sum();
        self.ends.heap_bytes()
            + self.places.heap_bytes()
            + self.norms.heap_bytes()
            + self.lists.capacity() * size_of::<Box<[Impact]>>()
            + pairs
    }
}

/// The list of a term by blocks, with frequencies.
///
/// # Errors
/// Unreadable files.
pub fn block_postings(segment: &SegmentView, term: &Term) -> Result<Option<BlockSegmentPostings>> {
    let index = segment.reader.inverted_index(term.field()).map_err(broken)?;
    index.read_block_postings(term, IndexRecordOption::WithFreqs).map_err(broken)
}

impl Impacts {
    /// The impacts of a term in a segment, whose list and lengths these are.
    ///
    /// # Errors
    /// None of its own: lists are read from mapped files.
    pub fn of(segment: &SegmentView, term: &Term, list: &BlockSegmentPostings, norms: &FieldNormReader) -> Result<Arc<Impacts>> {
        if list.doc_freq() < KEPT_MIN_DOCS {
            return Ok(Arc::new(Impacts::read(list.clone(), norms)));
        }
        let field = term.field();
        // A field may be given other lengths, which count each position once.
        let lengths = if segment.core.lengths(field).is_some() {
            "counted"
        } else {
            "stored"
        };
        let value = String::from_utf8_lossy(term.serialized_value_bytes());
        let name = format!("impacts:{}:{lengths}:{value}", field.field_id());
        segment.core.once(&name, || Ok(Impacts::read(list.clone(), norms)))
    }

    /// Reads a list from its first block on.
    fn read(mut list: BlockSegmentPostings, norms: &FieldNormReader) -> Impacts {
        let mut impacts = Impacts::default();
        let mut known: FxHashMap<Box<[Impact]>, u32> = FxHashMap::default();
        impacts.norms.reserve_exact(list.doc_freq() as usize);
        while let Some(last) = list.docs().last() {
            debug_assert!(
                impacts.norms.len() == impacts.ends.len() * BLOCK_DOCS,
                "search.md S10: every block but the last is full, so a document's norm is found by its place in the list"
            );
            let pairs = best_pairs((0..list.block_len()).map(|at| {
                let norm = norms.fieldnorm_id(list.doc(at));
                impacts.norms.push(norm);
                Impact {
                    freq: list.freq(at),
                    norm,
                }
            }));
            debug_assert!(
                pairs.is_sorted_by(|a, b| a.freq > b.freq && a.norm > b.norm),
                "search.md S10: of the pairs of a block none dominates another one: {pairs:?}"
            );
            let place = known.get(pairs.as_slice()).copied().unwrap_or_else(|| {
                let (place, pairs): (u32, Box<[Impact]>) = (impacts.lists.len() as u32, pairs.into());
                impacts.lists.push(pairs.clone());
                known.insert(pairs, place);
                place
            });
            impacts.ends.push(*last);
            impacts.places.push(place);
            list.advance();
        }
        debug_assert_eq!(
            impacts.norms.len(),
            list.doc_freq() as usize,
            "search.md S10: each document of a list is in one block"
        );
        debug_assert!(
            impacts.ends.is_sorted_by(|a, b| a < b),
            "search.md S10: blocks stand in the order of documents"
        );
        impacts
    }

    /// The last document of each block.
    pub fn ends(&self) -> &[DocId] {
        &self.ends
    }

    /// For each block the place of its pairs among [`Impacts::lists`].
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// The norms of the documents of a block; none behind the last one.
    #[inline]
    pub fn norms_of(&self, block: usize) -> &[u8] {
        let first = block * BLOCK_DOCS;
        let end = self.norms.len().min(first + BLOCK_DOCS);
        self.norms.get(first..end).unwrap_or_default()
    }

    /// The different lists of pairs.
    pub fn lists(&self) -> &[Box<[Impact]>] {
        &self.lists
    }
}

/// The pairs that no other pair dominates: the frequency falls, and so does the length.
fn best_pairs(all: impl Iterator<Item = Impact>) -> Vec<Impact> {
    const NONE: u16 = u16::MAX;
    let mut shortest = [NONE; TABLE_FREQS];
    let mut others = Vec::new();
    for pair in all {
        match shortest.get_mut(pair.freq as usize) {
            Some(norm) => *norm = (*norm).min(u16::from(pair.norm)),
            None => others.push(pair),
        }
    }
    others.sort_unstable_by_key(|pair| (std::cmp::Reverse(pair.freq), pair.norm));
    let table = shortest.iter().enumerate().rev().filter(|(_, norm)| **norm != NONE);
    let table = table.map(|(freq, norm)| Impact {
        freq: freq as u32,
        norm: *norm as u8,
    });
    let mut best: Vec<Impact> = Vec::new();
    for pair in others.into_iter().chain(table) {
        if best.last().is_none_or(|last| pair.norm < last.norm) {
            best.push(pair);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::random::random;

    #[test]
    fn the_best_pairs_dominate_all_others() {
        let mut random = random(11);
        for _ in 0..500 {
            let all: Vec<Impact> = (0..1 + random(BLOCK_DOCS as u64))
                .map(|_| Impact {
                    freq: 1 + random(30) as u32,
                    norm: random(60) as u8,
                })
                .collect();
            let best = best_pairs(all.iter().copied());
            assert!(best.is_sorted_by(|a, b| a.freq > b.freq && a.norm > b.norm), "{best:?}");
            assert!(best.iter().all(|pair| all.contains(pair)), "{best:?} of {all:?}");
            for pair in all {
                let is_covered = best.iter().any(|one| one.freq >= pair.freq && one.norm <= pair.norm);
                assert!(is_covered, "{pair:?} in {best:?}");
            }
        }
    }
}
