//! The documents of a field of ranges with a range whose lower end lies between two keys, and whose upper end between two others.
//!
//! Not here: which keys a query asks for (`clauses::range`).

use super::constant::{ConstantScorer, NoScorer};
use super::node::look_at;
use std::net::Ipv6Addr;
use std::ops::{Range, RangeInclusive};
use tantivy::columnar::{Cardinality, Column};
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, SeekDangerResult, TERMINATED};

/// Documents that are looked at together.
const PART_DOCS: DocId = if cfg!(test) { 16 } else { 1 << 14 };

/// The ends of a field's ranges in a segment, and where they are to lie.
pub(crate) struct RangeEnds {
    /// The lower and the upper ends, in the order of the ranges.
    pub(crate) columns: [Column<Ipv6Addr>; 2],
    pub(crate) wanted: [RangeInclusive<Ipv6Addr>; 2],
}

impl RangeEnds {
    /// The documents with such a range.
    pub(crate) fn into_scorer(self) -> Box<dyn Scorer> {
        let mut docs = DocsByRangeEnds {
            max_doc: self.columns[0].num_docs(),
            ends: self,
            hits: Vec::new(),
            with_upper: Vec::new(),
            next_hit: 0,
            read_until: 0,
            doc: 0,
        };
        match docs.go_to(0) {
            TERMINATED => Box::new(NoScorer),
            _ => Box::new(ConstantScorer::new(docs, 1.0)),
        }
    }

    /// Whether a document has one: both ends must be of one range.
    fn has(&self, doc: DocId) -> bool {
        let [lower, upper] = &self.columns;
        let mut ends = lower.values_for_doc(doc).zip(upper.values_for_doc(doc));
        ends.any(|(low, high)| self.wanted[0].contains(&low) && self.wanted[1].contains(&high))
    }

    /// Finds those of some documents, in order. `with_upper` is a buffer.
    fn find(&self, docs: Range<DocId>, hits: &mut Vec<DocId>, with_upper: &mut Vec<DocId>) {
        let [lower, upper] = &self.columns;
        hits.clear();
        if lower.get_cardinality() == Cardinality::Multivalued {
            hits.extend(docs.filter(|doc| self.has(*doc)));
            return;
        }
        with_upper.clear();
        lower.get_docids_for_value_range(self.wanted[0].clone(), docs.clone(), hits);
        upper.get_docids_for_value_range(self.wanted[1].clone(), docs, with_upper);
        debug_assert!(
            hits.is_sorted_by(|a, b| a < b) && with_upper.is_sorted_by(|a, b| a < b),
            "matches of a part are documents of it, in order"
        );
        let mut others = with_upper.iter().peekable();
        hits.retain(|doc| {
            while others.next_if(|other| *other < doc).is_some() {}
            others.next_if(|other| *other == doc).is_some()
        });
    }
}

/// The documents, found part by part.
struct DocsByRangeEnds {
    ends: RangeEnds,
    max_doc: DocId,
    /// Those of the part that was read last.
    hits: Vec<DocId>,
    with_upper: Vec<DocId>,
    next_hit: usize,
    read_until: DocId,
    doc: DocId,
}

impl DocsByRangeEnds {
    /// Goes on to the first one from `target` on.
    fn go_to(&mut self, target: DocId) -> DocId {
        let mut from = target;
        loop {
            while self.hits.get(self.next_hit).is_some_and(|hit| *hit < from) {
                self.next_hit += 1;
            }
            if let Some(hit) = self.hits.get(self.next_hit) {
                self.doc = *hit;
                return self.doc;
            }
            from = from.max(self.read_until);
            if from >= self.max_doc {
                self.doc = TERMINATED;
                return TERMINATED;
            }
            self.read_until = self.max_doc.min(from.saturating_add(PART_DOCS));
            self.ends.find(from..self.read_until, &mut self.hits, &mut self.with_upper);
            self.next_hit = 0;
        }
    }
}

impl DocSet for DocsByRangeEnds {
    fn advance(&mut self) -> DocId {
        match self.doc {
            TERMINATED => TERMINATED,
            doc => self.go_to(doc + 1),
        }
    }
    fn seek(&mut self, target: DocId) -> DocId {
        match self.doc >= target {
            true => self.doc,
            false => self.go_to(target),
        }
    }
    /// Looks at the one document: the next one that matches may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        let (at, found) = look_at(target, self.max_doc, |doc| self.ends.has(doc));
        self.doc = at;
        found
    }
    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        let mut len = 0;
        while len < buffer.len() && self.doc != TERMINATED {
            // After a look at one document it stands beside those that were read.
            if self.hits.get(self.next_hit) != Some(&self.doc) {
                buffer[len] = self.doc;
                len += 1;
                self.go_to(buffer[len - 1] + 1);
                continue;
            }
            let waiting = &self.hits[self.next_hit..];
            let filled = waiting.len().min(buffer.len() - len);
            buffer[len..len + filled].copy_from_slice(&waiting[..filled]);
            len += filled;
            self.go_to(buffer[len - 1] + 1);
        }
        len
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.max_doc
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{all_filled, all_of, columns_of};
    use super::*;
    use model::random::random;

    /// Ranges walked, filled and sought, beside a look at each document.
    fn check(seed: u64) {
        let mut random = random(seed);
        let max_doc = 1 + random(200) as DocId;
        let (most, one_in) = (1 + random(3), 1 + random(5));
        let spread = 1 + random(40);
        let mut key = |least: u64| Ipv6Addr::from_bits(u128::from(least + random(spread)));
        let lows: Vec<Vec<Ipv6Addr>> = (0..max_doc).map(|_| (0..most).map(|_| key(0)).collect()).collect();
        let highs: Vec<Vec<Ipv6Addr>> = (0..max_doc).map(|_| (0..most).map(|_| key(20)).collect()).collect();
        let counts: Vec<usize> = (0..max_doc)
            .map(|doc| match random(one_in) {
                _ if doc == 0 => 1,
                0 => 0,
                _ => 1 + random(most) as usize,
            })
            .collect();
        let of = |ends: &[Vec<Ipv6Addr>], doc: DocId| ends[doc as usize][..counts[doc as usize]].to_vec();
        let [lower, upper] = columns_of(max_doc, |doc| [of(&lows, doc), of(&highs, doc)]);
        let (a, b) = (random(60), random(60));
        let end = |bits: u64| Ipv6Addr::from_bits(bits.into());
        let wanted = [end(a.saturating_sub(20))..=end(a), end(b)..=end(b + 20)];
        let has = |doc: &DocId| {
            let mut ends = lower.values_for_doc(*doc).zip(upper.values_for_doc(*doc));
            ends.any(|(low, high)| wanted[0].contains(&low) && wanted[1].contains(&high))
        };
        let expected: Vec<DocId> = (0..max_doc).filter(has).collect();
        let open = || {
            let ends = RangeEnds {
                columns: [lower.clone(), upper.clone()],
                wanted: wanted.clone(),
            };
            ends.into_scorer()
        };
        assert_eq!(all_of(&mut *open()), expected, "seed {seed}");
        assert_eq!(all_filled(&mut *open()), expected, "seed {seed}");
        let target = random(u64::from(max_doc)) as DocId;
        let after: Vec<DocId> = expected.iter().copied().filter(|doc| *doc >= target).collect();
        let mut sought = open();
        sought.seek(target);
        assert_eq!(all_of(&mut *sought), after, "seed {seed}");
        let mut looked_at = open();
        if looked_at.doc() < target && matches!(looked_at.seek_danger(target), SeekDangerResult::Found) {
            assert_eq!(all_filled(&mut *looked_at), after, "seed {seed}");
        }
    }

    #[test]
    fn ranges_are_found_by_both_ends() {
        (0..1_000).for_each(check);
    }
}
