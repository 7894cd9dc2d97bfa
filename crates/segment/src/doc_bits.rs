//! Sets of documents of one segment, one bit each, and what is done with 64 of them at once.
//!
//! Not here: which sets are kept (`filter_cache`), scores.

use crate::derived::Footprint;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, DocSet, TERMINATED};

/// A set of documents, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocBits {
    words: Vec<u64>,
    count: u32,
}

impl Footprint for DocBits {
    fn heap_bytes(&self) -> usize {
        self.words.heap_bytes()
    }
}

impl DocBits {
    /// None of `max_doc` documents.
    pub fn new(max_doc: DocId) -> DocBits {
        DocBits {
            words: vec![0; max_doc as usize / 64 + 1],
            count: 0,
        }
    }
    /// Whether the set was made for segments of this many documents.
    pub fn is_sized_for(&self, max_doc: DocId) -> bool {
        self.words.len() == max_doc as usize / 64 + 1
    }
    /// The documents of a set.
    pub fn of(max_doc: DocId, docs: &mut dyn Scorer) -> DocBits {
        let mut bits = DocBits::new(max_doc);
        while docs.doc() != TERMINATED {
            bits.insert(docs.doc());
            docs.advance();
        }
        bits
    }
    /// Adds one.
    pub fn insert(&mut self, doc: DocId) {
        debug_assert!(
            (doc as usize) / 64 < self.words.len(),
            "document [{doc}] is one of the segment"
        );
        if let Some(word) = self.words.get_mut(doc as usize / 64) {
            let bit = 1u64 << (doc % 64);
            self.count += u32::from(*word & bit == 0);
            *word |= bit;
        }
    }
    /// Takes all out.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.count = 0;
    }
    /// Whether it is in.
    #[inline]
    pub fn contains(&self, doc: DocId) -> bool {
        self.words
            .get(doc as usize / 64)
            .is_some_and(|word| word >> (doc % 64) & 1 == 1)
    }
    /// How many.
    pub fn len(&self) -> u32 {
        self.count
    }
    /// None.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// The documents that are in all of several sets of one segment.
    pub fn all_of(sets: &[Arc<DocBits>]) -> DocBits {
        let all = DocBits::collect(sets, DocBits::each_in_all);
        debug_assert!(
            sets.iter().all(|set| all.count <= set.count),
            "what is in all sets is in each, as their counts say"
        );
        all
    }
    /// The documents that are in any of several sets of one segment.
    pub fn any_of(sets: &[Arc<DocBits>]) -> DocBits {
        let any = DocBits::collect(sets, DocBits::each_in_any);
        debug_assert!(
            sets.iter().all(|set| set.count <= any.count),
            "what is in one set is in any, as their counts say"
        );
        any
    }
    fn collect(sets: &[Arc<DocBits>], each: impl FnOnce(&[Arc<DocBits>], &mut dyn FnMut(usize, &[u64]) -> bool)) -> DocBits {
        let Some(first) = sets.first() else {
            return DocBits::new(0);
        };
        let mut words = Vec::with_capacity(first.words.len());
        each(sets, &mut |_, part| {
            words.extend_from_slice(part);
            true
        });
        DocBits::of_words(words)
    }
    /// The documents of this set that are in none of several others of its segment.
    pub fn without(&self, others: &[Arc<DocBits>]) -> DocBits {
        let mut words = self.words.clone();
        for other in others {
            debug_assert_eq!(words.len(), other.words.len(), "sets of one segment");
            words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= !other);
        }
        DocBits::of_words(words)
    }
    /// The block ends whose block contains a document of `inside`. `self` has the last document of each block, which begins behind the
    /// one before. A sum does it for 64 documents at once: to a block's row of ones anything added carries into the bit
    /// above it, which is its last document's.
    pub fn around(&self, inside: &DocBits) -> DocBits {
        debug_assert_eq!(self.words.len(), inside.words.len(), "sets of one segment");
        let mut carried = false;
        let words = self.words.iter().zip(&inside.words).map(|(last, inside)| {
            debug_assert_eq!(last & inside, 0, "what is inside is not last");
            let (sum, over) = (!last).overflowing_add(*inside);
            let (sum, again) = sum.overflowing_add(u64::from(carried));
            carried = over || again;
            sum & last
        });
        let around = DocBits::of_words(words.collect());
        debug_assert!(
            around.count <= self.count.min(inside.count),
            "a block has one end, whatever of it is inside"
        );
        around
    }
    /// The block heads whose block contains a document of both `inside` and `these`. `self` has the first of each block, which
    /// goes on until the next one. [`DocBits::around`] backwards.
    pub fn ahead_of(&self, inside: &DocBits, these: &DocBits) -> DocBits {
        debug_assert_eq!(self.words.len(), inside.words.len(), "sets of one segment");
        debug_assert_eq!(self.words.len(), these.words.len(), "sets of one segment");
        let mut carried = false;
        let blocks = self.words.iter().zip(&inside.words).zip(&these.words).rev();
        let words = blocks.map(|((first, inside), these)| {
            debug_assert_eq!(first & inside & these, 0, "what is inside is not first");
            let (first, inside) = (first.reverse_bits(), (inside & these).reverse_bits());
            let (sum, over) = (!first).overflowing_add(inside);
            let (sum, again) = sum.overflowing_add(u64::from(carried));
            carried = over || again;
            (sum & first).reverse_bits()
        });
        let mut words: Vec<u64> = words.collect();
        words.reverse();
        let ahead = DocBits::of_words(words);
        debug_assert!(
            ahead.count <= self.count.min(these.count),
            "a block has one head, whatever of it is among these"
        );
        ahead
    }
    /// The documents of `inside` whose block has its head among `these`. `self` has the first of each block, which goes on until the next
    /// one. To the row of ones behind such a head one is added, which turns it into zeros and ends at the next head.
    pub fn behind(&self, these: &DocBits, inside: &DocBits) -> DocBits {
        debug_assert_eq!(self.words.len(), inside.words.len(), "sets of one segment");
        debug_assert_eq!(self.words.len(), these.words.len(), "sets of one segment");
        let (mut carried, mut is_behind) = (false, false);
        let words = self.words.iter().zip(&inside.words).zip(&these.words);
        let words = words.map(|((first, inside), these)| {
            let these = these & first;
            let starts = these << 1 | u64::from(is_behind);
            is_behind = these >> 63 == 1;
            let (sum, over) = (!first).overflowing_add(starts);
            let (sum, again) = sum.overflowing_add(u64::from(carried));
            carried = over || again;
            !sum & !first & inside
        });
        let behind = DocBits::of_words(words.collect());
        debug_assert!(behind.count <= inside.count, "what stands behind a head is inside");
        behind
    }
    /// Calls `show` with the documents that are in all of several sets of one segment, some words of bits at a time: the number of the
    /// first word, and the words. `false` ends it.
    pub fn each_in_all(sets: &[Arc<DocBits>], show: &mut dyn FnMut(usize, &[u64]) -> bool) {
        each_combined(sets, |word, other| *word &= other, show);
    }
    /// The same of the documents that are in any of them.
    pub fn each_in_any(sets: &[Arc<DocBits>], show: &mut dyn FnMut(usize, &[u64]) -> bool) {
        each_combined(sets, |word, other| *word |= other, show);
    }
    fn of_words(words: Vec<u64>) -> DocBits {
        let count = words.iter().map(|word| word.count_ones()).sum();
        DocBits { words, count }
    }
    /// Calls `f` with each, in order.
    pub fn each(&self, mut f: impl FnMut(DocId)) {
        for (base, word) in (0..).step_by(64).zip(&self.words) {
            let mut word = *word;
            while word != 0 {
                f(base + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }
    /// The first one from `doc` on.
    pub fn next(&self, doc: DocId) -> DocId {
        let mut at = doc as usize / 64;
        let Some(word) = self.words.get(at) else { return TERMINATED };
        let mut word = word & (!0u64 << (doc % 64));
        loop {
            if word != 0 {
                return u32::try_from(at * 64).unwrap_or(TERMINATED) + word.trailing_zeros();
            }
            at += 1;
            match self.words.get(at) {
                Some(next) => word = *next,
                None => return TERMINATED,
            }
        }
    }
    /// The last one before `doc`, which may lie behind all of them.
    pub fn before(&self, doc: DocId) -> Option<DocId> {
        let bits = u32::try_from(self.words.len() * 64).unwrap_or(TERMINATED);
        let last = doc.min(bits).checked_sub(1)?;
        let mut at = last as usize / 64;
        let mut word = self.words.get(at)? & (!0u64 >> (63 - last % 64));
        loop {
            if word != 0 {
                return u32::try_from(at * 64).ok().map(|base| base + 63 - word.leading_zeros());
            }
            at = at.checked_sub(1)?;
            word = *self.words.get(at)?;
        }
    }
}

/// Words of several sets that are combined at a time.
const WORDS: usize = 256;

fn each_combined(sets: &[Arc<DocBits>], combine: impl Fn(&mut u64, u64), show: &mut dyn FnMut(usize, &[u64]) -> bool) {
    let Some((first, others)) = sets.split_first() else { return };
    let mut words = [0; WORDS];
    for (number, part) in first.words.chunks(WORDS).enumerate() {
        let start = number * WORDS;
        let words = &mut words[..part.len()];
        words.copy_from_slice(part);
        for other in others {
            debug_assert_eq!(first.words.len(), other.words.len(), "sets of one segment");
            let of_other = other.words.get(start..).unwrap_or_default();
            words.iter_mut().zip(of_other).for_each(|(word, other)| combine(word, *other));
        }
        if !show(start, words) {
            return;
        }
    }
}

/// The documents of a [`DocBits`].
pub struct BitsDocs {
    bits: std::sync::Arc<DocBits>,
    doc: DocId,
}

impl BitsDocs {
    /// From the first one.
    pub fn new(bits: std::sync::Arc<DocBits>) -> BitsDocs {
        let doc = bits.next(0);
        BitsDocs { bits, doc }
    }
}

impl DocSet for BitsDocs {
    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            self.doc = self.bits.next(self.doc + 1);
        }
        self.doc
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = self.bits.next(target);
        }
        self.doc
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.bits.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(max_doc: DocId, docs: impl IntoIterator<Item = DocId>) -> DocBits {
        let mut bits = DocBits::new(max_doc);
        docs.into_iter().for_each(|doc| bits.insert(doc));
        bits
    }

    /// Around by the sum, and document by document.
    fn check(max_doc: DocId, last: &[DocId], inside: &[DocId]) {
        let (lasts, insides) = (bits(max_doc, last.iter().copied()), bits(max_doc, inside.iter().copied()));
        let mut expected: Vec<DocId> = inside
            .iter()
            .map(|doc| lasts.next(*doc))
            .filter(|doc| *doc != TERMINATED)
            .collect();
        expected.dedup();
        let mut found = Vec::new();
        let around = lasts.around(&insides);
        around.each(|doc| found.push(doc));
        assert_eq!(found, expected, "of {last:?} around {inside:?}");
        assert_eq!(around.len() as usize, expected.len());
        // Backwards, each is the first of its block.
        let mut expected: Vec<DocId> = inside.iter().filter_map(|doc| lasts.before(*doc)).collect();
        expected.dedup();
        let mut found = Vec::new();
        let ahead = lasts.ahead_of(&insides, &insides);
        ahead.each(|doc| found.push(doc));
        assert_eq!(found, expected, "of {last:?} ahead of {inside:?}");
        assert_eq!(ahead.len() as usize, expected.len());
        // Forwards, those behind every second head.
        let heads: Vec<DocId> = last.iter().copied().step_by(2).collect();
        let is_behind = |doc: &&DocId| lasts.before(**doc).is_some_and(|head| heads.contains(&head));
        let expected: Vec<DocId> = inside.iter().filter(is_behind).copied().collect();
        let mut found = Vec::new();
        let behind = lasts.behind(&bits(max_doc, heads.iter().copied()), &insides);
        behind.each(|doc| found.push(doc));
        assert_eq!(found, expected, "behind {heads:?} of {last:?}");
    }

    #[test]
    fn several_sets_are_combined_part_by_part() {
        let max_doc = 64 * WORDS as DocId * 2 + 100;
        let mut random = model::random::random(8);
        let mut set = |part: u64| Arc::new(bits(max_doc, (0..max_doc).filter(|_| random(part) == 0).collect::<Vec<_>>()));
        let sets = [set(2), set(3), set(50)];
        type Each = fn(&[Arc<DocBits>], &mut dyn FnMut(usize, &[u64]) -> bool);
        let check = |each: Each, combined: DocBits, is_in: &dyn Fn(DocId) -> bool| {
            let (mut words, mut calls) = (Vec::new(), 0);
            each(&sets, &mut |start, part| {
                assert_eq!(start, words.len());
                words.extend_from_slice(part);
                true
            });
            let expected = bits(max_doc, (0..max_doc).filter(|doc| is_in(*doc)));
            assert_eq!(DocBits::of_words(words), expected);
            assert_eq!(combined, expected);
            each(&sets, &mut |_, _| {
                calls += 1;
                calls < 2
            });
            assert_eq!(calls, 2, "it ends where nobody wants more");
        };
        check(DocBits::each_in_all, DocBits::all_of(&sets), &|doc| {
            sets.iter().all(|set| set.contains(doc))
        });
        check(DocBits::each_in_any, DocBits::any_of(&sets), &|doc| {
            sets.iter().any(|set| set.contains(doc))
        });
        DocBits::each_in_all(&[], &mut |_, _| panic!("there is no set"));
    }

    #[test]
    fn the_last_one_before() {
        let set = bits(200, [3, 64, 130]);
        let cases = [
            (0, None),
            (3, None),
            (4, Some(3)),
            (65, Some(64)),
            (200, Some(130)),
            (9_999, Some(130)),
            (TERMINATED, Some(130)),
        ];
        for (doc, expected) in cases {
            assert_eq!(set.before(doc), expected, "before {doc}");
        }
        assert_eq!(bits(200, []).before(TERMINATED), None);
    }

    #[test]
    fn around_is_the_next_last() {
        check(10, &[], &[]);
        check(10, &[9], &[0, 3, 8]);
        check(10, &[0, 1, 4, 5, 9], &[2, 6]);
        check(200, &[63, 64, 127, 128, 199], &[62, 65, 129]);
        check(200, &[130], &[0]);
        check(200, &[199], &[]);
        check(300, &[255], &[64, 260]);
        // Blocks of every length over words' ends.
        let mut random = model::random::random(7);
        for _ in 0..200 {
            let (part, some) = (1 + random(90), 1 + random(20));
            let (mut last, mut inside) = (Vec::new(), Vec::new());
            for doc in 0..1000 {
                if random(part) == 0 {
                    last.push(doc);
                } else if random(some) == 0 {
                    inside.push(doc);
                }
            }
            check(1000, &last, &inside);
        }
    }
}
