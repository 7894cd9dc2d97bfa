//! The documents that a request may see: root documents, alive, not hidden.

use engine::See;
use model::Result;
use segment::doc_bits::DocBits;
use segment::schema::IndexSchema;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::fastfield::AliveBitSet;
use tantivy::query::Scorer;
use tantivy::{COLLECT_BLOCK_BUFFER_LEN, DocId, DocSet, TERMINATED, Term};

/// The documents of one segment that a request may see.
#[derive(Clone)]
pub struct LiveDocs {
    alive: Option<AliveBitSet>,
    max_doc: DocId,
    roots: Arc<tantivy::BitSet>,
    hidden: Option<Arc<tantivy::BitSet>>,
    everything: bool,
}

impl LiveDocs {
    /// Opens the sets of a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn open(segment: &SegmentView, schema: &IndexSchema, see: See) -> Result<LiveDocs> {
        let roots = segment.core.roots(&segment.reader, schema)?.clone();
        let hidden = if see == See::Everything {
            None
        } else {
            segment.core.invisible().cloned()
        };
        let (alive, max_doc) = (segment.reader.alive_bitset().cloned(), segment.reader.max_doc());
        assert_eq!(
            roots.max_value(),
            max_doc,
            "the set of roots has one bit for each document of the segment"
        );
        if let Some(hidden) = &hidden {
            assert_eq!(hidden.max_value(), max_doc, "so has the set of hidden ones");
        }
        debug_assert!(
            alive.as_ref().is_none_or(|alive| alive.num_alive_docs() <= max_doc as usize),
            "no more documents are alive than there are"
        );
        let everything = hidden.is_none() && alive.is_none() && roots.len() == max_doc as usize;
        Ok(LiveDocs {
            alive,
            max_doc,
            roots,
            hidden,
            everything,
        })
    }

    /// Whether a document is a visible root (search.md S5).
    #[inline]
    pub fn sees(&self, doc: DocId) -> bool {
        self.everything
            || self.roots.contains(doc)
                && self.alive.as_ref().is_none_or(|alive| alive.is_alive(doc))
                && !self.hidden.as_ref().is_some_and(|hidden| hidden.contains(doc))
    }

    /// All documents of the segment are visible roots.
    pub fn sees_all(&self) -> bool {
        self.everything
    }

    /// All root documents of the segment are visible.
    pub fn sees_all_roots(&self) -> bool {
        self.everything || self.hidden.is_none() && self.alive.is_none()
    }

    /// How many documents are visible roots.
    pub fn count(&self) -> u64 {
        if self.everything {
            return u64::from(self.max_doc);
        }
        if self.sees_all_roots() {
            return self.roots.len() as u64;
        }
        if let (Some(alive), None) = (&self.alive, &self.hidden)
            && self.roots.len() == self.max_doc as usize
        {
            return alive.num_alive_docs() as u64;
        }
        let mut seen = tantivy::BitSet::clone(&self.roots);
        if let Some(alive) = &self.alive {
            seen.intersect_update(alive.bitset());
        }
        let Some(hidden) = &self.hidden else {
            return seen.len() as u64;
        };
        let seen_of_word = |number| (word_of(&seen, number) & !word_of(hidden, number)).count_ones();
        (0..self.max_doc.div_ceil(64))
            .map(|number| u64::from(seen_of_word(number)))
            .sum()
    }

    /// How many visible roots are in all of several sets; beyond `most` any larger number will do.
    pub fn count_in_all(&self, sets: &[Arc<DocBits>], most: u64) -> u64 {
        match sets {
            [one] if self.everything => u64::from(one.len()),
            _ => self.count_words(most, |show| DocBits::each_in_all(sets, show)),
        }
    }

    /// The same of those that are in any of them.
    pub fn count_in_any(&self, sets: &[Arc<DocBits>], most: u64) -> u64 {
        match sets {
            [one] if self.everything => u64::from(one.len()),
            _ => self.count_words(most, |show| DocBits::each_in_any(sets, show)),
        }
    }

    fn count_words(&self, most: u64, each: impl FnOnce(&mut dyn FnMut(usize, &[u64]) -> bool)) -> u64 {
        let mut count = 0u64;
        each(&mut |first, words| {
            let in_words: u32 = if self.everything {
                words.iter().map(|word| word.count_ones()).sum()
            } else {
                let numbered = words.iter().enumerate();
                numbered.map(|(number, word)| self.visible_in(first + number, *word)).sum()
            };
            count += u64::from(in_words);
            count <= most
        });
        count
    }

    /// How many of 64 documents, one bit each, are visible roots.
    #[inline]
    fn visible_in(&self, number: usize, word: u64) -> u32 {
        if word == 0 {
            return 0;
        }
        let mut word = word & word_of(&self.roots, number as u32);
        if let Some(hidden) = &self.hidden {
            word &= !word_of(hidden, number as u32);
        }
        let Some(alive) = &self.alive else { return word.count_ones() };
        let mut count = 0;
        while word != 0 {
            count += u32::from(alive.is_alive(number as u32 * 64 + word.trailing_zeros()));
            word &= word - 1;
        }
        count
    }
}

/// 64 documents of a set, one bit each.
#[inline]
fn word_of(set: &tantivy::BitSet, number: u32) -> u64 {
    debug_assert!(
        number < set.max_value().div_ceil(64),
        "a set has no documents behind its segment"
    );
    u64::from_le_bytes(set.tinyset(number).into_bytes())
}

/// Which documents a clause is about: visible roots, or live nested documents of a path. Scripts and functions
/// must not run on others: they lack the fields.
#[derive(Clone)]
pub(crate) struct LiveLevel {
    /// Where fields lie.
    pub schema: Arc<IndexSchema>,
    /// The nested path.
    pub path: Option<String>,
    /// Hidden ones too?
    pub see: See,
}

impl LiveLevel {
    /// The documents of a set that are of this level.
    ///
    /// # Errors
    /// Unreadable files.
    pub(crate) fn restrict(&self, segment: &SegmentView, set: Box<dyn Scorer>) -> Result<Box<dyn Scorer>> {
        match &self.path {
            None => Ok(Visible::of(set, LiveDocs::open(segment, &self.schema, self.see)?)),
            Some(path) => {
                let term = Term::from_field_text(self.schema.nested_path, path);
                let nested = crate::scorers::term_set::any_of(segment, &[term])?;
                let reader = segment.reader.clone();
                let set = crate::scorers::conjunction::and(vec![(set, true), (nested, false)]);
                Ok(crate::scorers::rescored::rescore(set, move |doc, set| {
                    (!reader.is_deleted(doc)).then(|| set.score())
                }))
            }
        }
    }
}

/// A set without what may not be seen.
pub(crate) struct Visible {
    set: Box<dyn Scorer>,
    sight: LiveDocs,
}

impl Visible {
    /// The visible roots of `set`.
    pub(crate) fn of(set: Box<dyn Scorer>, sight: LiveDocs) -> Box<dyn Scorer> {
        if sight.everything {
            return set;
        }
        let mut visible = Visible { set, sight };
        let first = visible.set.doc();
        visible.settle(first);
        Box::new(visible)
    }
    /// From where the set is to the next document that is seen.
    fn settle(&mut self, mut doc: DocId) -> DocId {
        while doc != TERMINATED && !self.sight.sees(doc) {
            let next = self.set.advance();
            debug_assert!(next > doc, "documents come in ascending order");
            doc = next;
        }
        debug_assert!(
            doc == TERMINATED || doc < self.sight.max_doc,
            "documents are those of the segment"
        );
        doc
    }
}

impl DocSet for Visible {
    fn advance(&mut self) -> DocId {
        let next = self.set.advance();
        self.settle(next)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        let at = crate::scorers::node::seek_to(self.set.as_mut(), target);
        self.settle(at)
    }
    fn fill_buffer(&mut self, buffer: &mut [DocId; COLLECT_BLOCK_BUFFER_LEN]) -> usize {
        let (filled, mut len) = (self.set.fill_buffer(buffer), 0);
        for at in 0..filled {
            buffer[len] = buffer[at];
            len += usize::from(self.sight.sees(buffer[at]));
        }
        // The places of documents that are not seen are few mostly.
        let mut doc = self.settle(self.set.doc());
        while len < buffer.len() && doc != TERMINATED {
            buffer[len] = doc;
            len += 1;
            doc = self.advance();
        }
        len
    }
    fn doc(&self) -> DocId {
        self.set.doc()
    }
    fn size_hint(&self) -> u32 {
        self.set.size_hint()
    }
    fn cost(&self) -> u64 {
        self.set.cost()
    }
}

impl Scorer for Visible {
    fn score(&mut self) -> f32 {
        self.set.score()
    }
}

#[cfg(test)]
mod tests {
    use super::super::constant::ConstantScorer;
    use super::super::tests::{all_filled, all_of};
    use super::*;
    use model::random::random;
    use segment::doc_bits::BitsDocs;

    /// Counts of sets, by words and document by document.
    fn check(sight: &LiveDocs, random: &mut impl FnMut(u64) -> u64) {
        let seen = (0..sight.max_doc).filter(|doc| sight.sees(*doc)).count();
        assert_eq!(sight.count(), seen as u64);
        let mut set = |part: u64| {
            let mut bits = DocBits::new(sight.max_doc);
            (0..sight.max_doc)
                .filter(|_| random(part) == 0)
                .for_each(|doc| bits.insert(doc));
            Arc::new(bits)
        };
        let sets = [set(2), set(3), set(7)];
        for one in &sets {
            let visible = || {
                let set = ConstantScorer::new(BitsDocs::new(one.clone()), 1.0);
                Visible::of(Box::new(set), sight.clone())
            };
            assert_eq!(all_filled(&mut *visible()), all_of(&mut *visible()));
        }
        for sets in [&sets[..1], &sets[..2], &sets] {
            let seen =
                |is_in: &dyn Fn(DocId) -> bool| (0..sight.max_doc).filter(|doc| sight.sees(*doc) && is_in(*doc)).count() as u64;
            let all = seen(&|doc| sets.iter().all(|set| set.contains(doc)));
            let any = seen(&|doc| sets.iter().any(|set| set.contains(doc)));
            assert_eq!(sight.count_in_all(sets, u64::MAX), all);
            assert_eq!(sight.count_in_any(sets, u64::MAX), any);
            let (few, most) = (sight.count_in_any(sets, 10), any);
            assert!(few <= most && (few > 10 || few == most), "{few} of {most}");
        }
    }

    #[test]
    fn sets_are_counted_by_words_as_by_documents() {
        let mut random = random(23);
        for max_doc in [1, 63, 64, 65, 128, 40_000] {
            let mut set = |part: u64| {
                let mut set = tantivy::BitSet::with_max_value(max_doc);
                (0..max_doc).filter(|_| random(part) != 0).for_each(|doc| {
                    set.insert(doc);
                });
                set
            };
            let alive = |set: &tantivy::BitSet| {
                let mut bytes = Vec::new();
                tantivy::fastfield::write_alive_bitset(set, &mut bytes).unwrap();
                AliveBitSet::open(tantivy::directory::OwnedBytes::new(bytes))
            };
            let (roots, hidden, dead) = (set(3), set(2), set(5));
            let sight = |hidden: Option<tantivy::BitSet>, dead: Option<&tantivy::BitSet>| LiveDocs {
                alive: dead.map(alive),
                max_doc,
                roots: Arc::new(roots.clone()),
                hidden: hidden.map(Arc::new),
                everything: false,
            };
            check(&sight(None, None), &mut random);
            check(&sight(Some(hidden.clone()), None), &mut random);
            check(&sight(None, Some(&dead)), &mut random);
            check(&sight(Some(hidden), Some(&dead)), &mut random);
            let without_nested = LiveDocs {
                roots: Arc::new(tantivy::BitSet::with_max_value_and_full(max_doc)),
                ..sight(None, Some(&dead))
            };
            check(&without_nested, &mut random);
            let all = LiveDocs {
                everything: true,
                ..sight(None, None)
            };
            check(&all, &mut random);
        }
    }
}
