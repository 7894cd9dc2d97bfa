//! Phrases: exact ones, sloppy ones with Lucene's frequencies, ones whose last term is a prefix.

use super::block_max::{ScoredClause, ScoredClauses};
use super::constant::or_none;
use super::explain::Explained;
use super::node::Node;
use super::similarity::{Counted, Counting, Similarity, explain_at};
use super::term::norms;
use model::Result;
use segment::segment_view::{SegmentView, postings};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED, Term};

/// One place of a phrase: any of these terms, so many positions after the first.
#[derive(Clone, Debug)]
pub(crate) struct PhrasePosition {
    /// Alternatives.
    pub terms: Vec<Term>,
    /// Position in the phrase.
    pub offset: u32,
}

/// A phrase in one field.
pub(crate) struct PhraseNode {
    /// At least two places.
    pub places: Vec<PhrasePosition>,
    /// How far terms may be moved.
    pub slop: u32,
    /// The scoring, for the summed idf of all terms.
    pub similarity: Similarity,
    /// For explanations: `field:"a b"`.
    pub what: String,
}

struct PlaceDocs {
    sets: Vec<SegmentPostings>,
    doc: DocId,
    offset: u32,
    positions: Vec<u32>,
    next: usize,
    /// Which places have the same terms; `None` for one that stands alone.
    group: Option<usize>,
}

impl PlaceDocs {
    fn lowest(&mut self) -> DocId {
        self.doc = self.sets.iter().map(DocSet::doc).min().unwrap_or(TERMINATED);
        self.doc
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        for set in &mut self.sets {
            if set.doc() < target {
                set.seek(target);
            }
        }
        self.lowest()
    }
    fn cost(&self) -> u32 {
        self.sets.iter().map(DocSet::size_hint).sum()
    }
    fn load(&mut self) {
        self.positions.clear();
        self.next = 0;
        let mut several = false;
        for set in &mut self.sets {
            if set.doc() == self.doc {
                several |= !self.positions.is_empty();
                set.append_positions_with_offset(0, &mut self.positions);
            }
        }
        if several {
            self.positions.sort_unstable();
        }
        debug_assert!(
            !self.positions.is_empty() && self.positions.is_sorted(),
            "search.md S8: a place of a phrase has positions in each of its documents, in order: they are matched in one pass"
        );
    }
    /// The next position, counted from where the phrase would begin.
    fn step(&mut self) -> Option<i64> {
        let position = *self.positions.get(self.next)?;
        self.next += 1;
        Some(i64::from(position) - i64::from(self.offset))
    }
}

struct PhraseScorer {
    places: Vec<PlaceDocs>,
    order: Vec<usize>,
    slop: u32,
    norms: Option<FieldNormReader>,
    similarity: Similarity,
    doc: DocId,
    freq: f32,
    starts: Vec<i64>,
}

impl PhraseScorer {
    fn settle(&mut self, mut candidate: DocId) -> DocId {
        'candidates: while candidate != TERMINATED {
            for i in 0..self.order.len() {
                let place = self.order[i];
                let at = self.places[place].seek(candidate);
                if at > candidate {
                    candidate = at;
                    continue 'candidates;
                }
            }
            if self.is_phrase() {
                break;
            }
            candidate += 1;
        }
        self.doc = candidate;
        candidate
    }

    /// Counts the phrase in the document that all places are at, if it is there.
    fn is_phrase(&mut self) -> bool {
        debug_assert!(
            self.places.iter().all(|place| place.doc == self.places[0].doc),
            "search.md S8: all places of a phrase are at one document when its positions are compared"
        );
        for place in &mut self.places {
            place.load();
        }
        self.freq = if self.slop == 0 { self.exact() } else { self.sloppy() };
        self.freq > 0.0
    }

    /// How often all places follow each other exactly.
    fn exact(&mut self) -> f32 {
        let PhraseScorer {
            places, order, starts, ..
        } = self;
        starts.clear();
        let Some((first, rest)) = order.split_first() else {
            return 0.0;
        };
        let first = &places[*first];
        starts.extend(first.positions.iter().map(|p| i64::from(*p) - i64::from(first.offset)));
        for i in rest {
            let place = &places[*i];
            let mut at = 0;
            starts.retain(|start| {
                let wanted = start + i64::from(place.offset);
                while place.positions.get(at).is_some_and(|p| i64::from(*p) < wanted) {
                    at += 1;
                }
                place.positions.get(at).is_some_and(|p| i64::from(*p) == wanted)
            });
            if starts.is_empty() {
                return 0.0;
            }
        }
        starts.len() as f32
    }

    /// Lucene's sloppy frequency: every minimal window counts 1 / (1 + its length).
    fn sloppy(&mut self) -> f32 {
        let places = &mut self.places;
        let mut at: Vec<i64> = Vec::with_capacity(places.len());
        for place in places.iter_mut() {
            match place.step() {
                Some(position) => at.push(position),
                None => return 0.0,
            }
        }
        // Places with the same term must not stand on the same word: each is moved behind the ones before it.
        for i in 0..places.len() {
            let Some(group) = places[i].group else { continue };
            for _ in 0..(0..i).filter(|j| places[*j].group == Some(group)).count() {
                match places[i].step() {
                    Some(position) => at[i] = position,
                    None => return 0.0,
                }
            }
        }
        let slop = i64::from(self.slop);
        let mut end = at.iter().copied().max().unwrap_or(0);
        let lowest = |at: &[i64], places: &[PlaceDocs], but: Option<usize>| {
            (0..at.len())
                .filter(|i| Some(*i) != but)
                .min_by_key(|i| (at[*i], places[*i].offset, *i))
        };
        let mut freq = 0f32;
        let Some(mut current) = lowest(&at, places, None) else {
            return 0.0;
        };
        let mut length = end - at[current];
        let mut next = lowest(&at, places, Some(current)).map_or(i64::MAX, |i| at[i]);
        'windows: while let Some(position) = places[current].step() {
            at[current] = position;
            end = end.max(position);
            // Repeated terms that meet: the lesser of the two moves on.
            let mut moved = current;
            while let Some(other) = collision(moved, &at, places) {
                moved = if (at[other], places[other].offset) < (at[moved], places[moved].offset) {
                    other
                } else {
                    moved
                };
                let Some(position) = places[moved].step() else {
                    break 'windows;
                };
                at[moved] = position;
                end = end.max(position);
            }
            // `next` stays what it was before another place moved on, as in Lucene.
            if at[current] > next {
                if length <= slop {
                    freq += 1.0 / (1.0 + length as f32);
                }
                let Some(lowest_now) = lowest(&at, places, None) else { break };
                current = lowest_now;
                next = lowest(&at, places, Some(current)).map_or(i64::MAX, |i| at[i]);
                length = end - at[current];
            } else {
                length = length.min(end - at[current]);
            }
        }
        if length <= slop {
            freq += 1.0 / (1.0 + length as f32);
        }
        freq
    }

    fn norm(&self) -> u8 {
        self.norms.as_ref().map_or(1, |n| n.fieldnorm_id(self.doc))
    }
}

/// Another place of the same group that stands on the same word.
fn collision(i: usize, at: &[i64], places: &[PlaceDocs]) -> Option<usize> {
    let group = places[i].group?;
    let word = at[i] + i64::from(places[i].offset);
    (0..at.len()).find(|j| *j != i && places[*j].group == Some(group) && at[*j] + i64::from(places[*j].offset) == word)
}

impl DocSet for PhraseScorer {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        self.settle(self.doc + 1)
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target { self.doc } else { self.settle(target) }
    }
    /// Looks at the one document: the next phrase may be far.
    fn seek_danger(&mut self, target: DocId) -> SeekDangerResult {
        if target >= TERMINATED || self.doc == TERMINATED {
            return SeekDangerResult::SeekLowerBound(TERMINATED);
        }
        if self.doc == target {
            return SeekDangerResult::Found;
        }
        for i in 0..self.order.len() {
            let at = self.places[self.order[i]].seek(target);
            if at > target {
                return SeekDangerResult::SeekLowerBound(at);
            }
        }
        if self.is_phrase() {
            self.doc = target;
            SeekDangerResult::Found
        } else {
            SeekDangerResult::SeekLowerBound(target + 1)
        }
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.order.first().map_or(0, |i| self.places[*i].cost() / 4)
    }
    fn cost(&self) -> u64 {
        self.order.first().map_or(0, |i| u64::from(self.places[*i].cost()) * 8)
    }
}

impl Counting for PhraseScorer {
    fn parts(&self) -> (f32, u8) {
        (self.freq, self.norm())
    }
}

impl Scorer for PhraseScorer {
    fn score(&mut self) -> f32 {
        self.similarity.score(self.freq, self.norm())
    }
}

impl PhraseNode {
    fn open(&self, segment: &SegmentView) -> Result<Option<PhraseScorer>> {
        let mut places: Vec<PlaceDocs> = Vec::with_capacity(self.places.len());
        for (i, place) in self.places.iter().enumerate() {
            let mut sets = Vec::new();
            for term in &place.terms {
                sets.extend(postings(segment, term, IndexRecordOption::WithFreqsAndPositions)?);
            }
            if sets.is_empty() {
                return Ok(None);
            }
            let shares = |other: &PhrasePosition| other.terms.iter().any(|t| place.terms.contains(t));
            let repeated = self.places.iter().enumerate().any(|(j, other)| i != j && shares(other));
            let group = repeated.then(|| self.places.iter().position(shares).unwrap_or(i));
            let mut docs = PlaceDocs {
                sets,
                doc: 0,
                offset: place.offset,
                positions: Vec::new(),
                next: 0,
                group,
            };
            docs.lowest();
            places.push(docs);
        }
        let Some(field) = self.places.first().and_then(|p| p.terms.first()).map(Term::field) else {
            return Ok(None);
        };
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|i| places[*i].cost());
        debug_assert!(
            self.places
                .iter()
                .flat_map(|place| &place.terms)
                .all(|term| term.field() == field),
            "a phrase is in one field, whose lengths score it"
        );
        let norms = norms(segment, field)?;
        let first = order.first().map_or(TERMINATED, |i| places[*i].doc);
        let mut scorer = PhraseScorer {
            places,
            order,
            slop: self.slop,
            norms,
            similarity: self.similarity.clone(),
            doc: 0,
            freq: 0.0,
            starts: Vec::new(),
        };
        scorer.settle(first);
        Ok(Some(scorer))
    }
}

impl Node for PhraseNode {
    fn says(&self) -> Option<String> {
        Some(crate::scorers::lucene_string::with_boost(&self.what, self.similarity.boost()))
    }
    fn squares(&self) -> f32 {
        self.similarity.squares()
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(or_none(self.open(segment)?))
    }

    // A phrase is in a document at most as often as each of its words, where words may not move.
    fn scored_clauses(&self) -> Option<ScoredClauses> {
        let bm25 = self.similarity.as_bm25().filter(|_| self.slop == 0)?;
        if self.places.iter().any(|place| place.terms.len() != 1) {
            return None;
        }
        let clause = ScoredClause {
            terms: self.places.iter().flat_map(|place| place.terms.clone()).collect(),
            bm25: bm25.clone(),
        };
        Some(ScoredClauses {
            clauses: vec![clause],
            all_required: true,
            roundings: 0,
        })
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let found = explain_at(
            self.open(segment)?,
            (segment, doc),
            &self.similarity,
            &self.what,
            Counted::Phrase,
        );
        Ok(found.unwrap_or_else(|| Explained::no_match("no matching phrase")))
    }
}
