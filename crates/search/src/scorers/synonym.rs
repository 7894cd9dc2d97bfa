//! Several terms scored as one.

use super::constant::or_none;
use super::explain::Explained;
use super::lucene_string::with_boost;
use super::node::Node;
use super::similarity::{Counted, Counting, Similarity, explain_at};
use super::term::norms;
use model::Result;
use segment::segment_view::{SegmentView, postings};
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// Several terms of one field, scored as if they were one.
pub(crate) struct SynonymNode {
    /// The terms, at least one.
    pub terms: Vec<Term>,
    /// Their scoring as one.
    pub similarity: Similarity,
    /// For explanations: `Synonym(field:a field:b)`.
    pub what: String,
}

struct SynonymScorer {
    sets: Vec<SegmentPostings>,
    norms: Option<FieldNormReader>,
    similarity: Similarity,
    doc: DocId,
}

impl SynonymScorer {
    fn lowest(&mut self) -> DocId {
        self.doc = self.sets.iter().map(DocSet::doc).min().unwrap_or(TERMINATED);
        self.doc
    }
}

impl Counting for SynonymScorer {
    fn parts(&self) -> (f32, u8) {
        let freq: u32 = self
            .sets
            .iter()
            .filter(|set| set.doc() == self.doc)
            .map(Postings::term_freq)
            .sum();
        (freq as f32, self.norms.as_ref().map_or(1, |n| n.fieldnorm_id(self.doc)))
    }
}

impl DocSet for SynonymScorer {
    fn advance(&mut self) -> DocId {
        if self.doc == TERMINATED {
            return TERMINATED;
        }
        let before = self.doc;
        for set in &mut self.sets {
            if set.doc() == before {
                set.advance();
            }
        }
        let next = self.lowest();
        debug_assert!(next > before, "search.md S8: documents come in ascending order");
        next
    }
    fn seek(&mut self, target: DocId) -> DocId {
        for set in &mut self.sets {
            if set.doc() < target {
                set.seek(target);
            }
        }
        self.lowest()
    }
    fn doc(&self) -> DocId {
        self.doc
    }
    fn size_hint(&self) -> u32 {
        self.sets.iter().map(DocSet::size_hint).max().unwrap_or(0)
    }
}

impl Scorer for SynonymScorer {
    fn score(&mut self) -> f32 {
        let (freq, norm) = self.parts();
        self.similarity.score(freq, norm)
    }
}

impl SynonymNode {
    fn open(&self, segment: &SegmentView) -> Result<Option<SynonymScorer>> {
        debug_assert!(
            self.terms.windows(2).all(|pair| pair[0].field() == pair[1].field()),
            "synonyms are terms of one field: they share its norms"
        );
        let mut sets = Vec::new();
        for term in &self.terms {
            sets.extend(postings(segment, term, IndexRecordOption::WithFreqs)?);
        }
        let Some(field) = self.terms.first().map(Term::field).filter(|_| !sets.is_empty()) else {
            return Ok(None);
        };
        let mut scorer = SynonymScorer {
            sets,
            norms: norms(segment, field)?,
            similarity: self.similarity.clone(),
            doc: 0,
        };
        scorer.lowest();
        Ok(Some(scorer))
    }
}

impl Node for SynonymNode {
    fn says(&self) -> Option<String> {
        Some(with_boost(&self.what, self.similarity.boost()))
    }
    fn squares(&self) -> f32 {
        self.similarity.squares()
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(or_none(self.open(segment)?))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let found = explain_at(
            self.open(segment)?,
            (segment, doc),
            &self.similarity,
            &self.what,
            Counted::Synonyms,
        );
        Ok(found.unwrap_or_else(|| Explained::no_match("no matching term")))
    }
}
