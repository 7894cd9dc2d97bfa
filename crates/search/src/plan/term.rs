//! Terms: one scored term, several as one (synonyms), sets of terms with one score.

use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::lucene_string::boosted;
use super::node::{ConstantScorer, NoScorer, Node, broken, or_none, score_at};
use super::prune::Numbers;
use super::similarity::{Counted, Counting, Similarity, explained_at};
use model::Result;
pub use segment::doc_bits::{BitsDocs, DocBits};
use segment::filter_cache::Filters;
use segment::segment_view::{SegmentView, postings};
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::Scorer;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The norms of a field in a segment, if it has any.
pub fn norms(segment: &SegmentView, field: Field) -> Result<Option<FieldNormReader>> {
    if let Some(lengths) = segment.core.lengths(field) {
        return Ok(Some(lengths));
    }
    segment.reader.fieldnorms_readers().get_field(field).map_err(broken)
}

/// One term, scored by its similarity.
pub struct TermNode {
    /// The term.
    pub term: Term,
    /// Its scoring.
    pub similarity: Similarity,
    /// The field keeps frequencies and lengths; otherwise both are 1.
    pub norms: bool,
    /// For explanations: `field:term`.
    pub what: String,
    /// What tantivy multiplies its own BM25 with to give the same, if it can.
    pub boost: Option<f32>,
    /// Only root documents have the field.
    pub of_roots: bool,
    /// Sets of terms that are asked for often.
    pub(crate) filters: Arc<Filters>,
}

/// The documents of a term, scored.
pub(super) struct TermScorer {
    postings: SegmentPostings,
    norms: Option<FieldNormReader>,
    freqs: bool,
    similarity: Similarity,
}

impl Counting for TermScorer {
    fn parts(&self) -> (f32, u8) {
        let doc = self.postings.doc();
        let freq = if self.freqs { self.postings.term_freq() as f32 } else { 1.0 };
        (freq, self.norms.as_ref().map_or(1, |n| n.fieldnorm_id(doc)))
    }
}

impl DocSet for TermScorer {
    fn advance(&mut self) -> DocId {
        self.postings.advance()
    }
    fn seek(&mut self, target: DocId) -> DocId {
        if self.postings.doc() >= target {
            self.postings.doc()
        } else {
            self.postings.seek(target)
        }
    }
    fn doc(&self) -> DocId {
        self.postings.doc()
    }
    fn size_hint(&self) -> u32 {
        self.postings.size_hint()
    }
}

impl Scorer for TermScorer {
    fn score(&mut self) -> f32 {
        let (freq, norm) = self.parts();
        self.similarity.score(freq, norm)
    }
}

impl TermNode {
    /// Whether every document of the term is visible.
    pub fn sees_all_of(&self, sight: &LiveDocs) -> bool {
        sight.sees_all() || self.of_roots && sight.sees_all_roots()
    }

    /// Its documents in a segment, if there are any.
    ///
    /// # Errors
    /// Unreadable files.
    pub(super) fn open(&self, segment: &SegmentView) -> Result<Option<TermScorer>> {
        let option = if self.norms {
            IndexRecordOption::WithFreqs
        } else {
            IndexRecordOption::Basic
        };
        let Some(postings) = postings(segment, &self.term, option)? else {
            return Ok(None);
        };
        let norms = if self.norms {
            norms(segment, self.term.field())?
        } else {
            None
        };
        Ok(Some(TermScorer {
            postings,
            norms,
            freqs: self.norms,
            similarity: self.similarity.clone(),
        }))
    }
}

impl Node for TermNode {
    fn says(&self) -> Option<String> {
        Some(boosted(&self.what, self.similarity.boost()))
    }
    fn squares(&self) -> f32 {
        self.similarity.squares()
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        self.filters.of(segment, &self.term)
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(or_none(self.open(segment)?))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let found = explained_at(self.open(segment)?, doc, &self.similarity, &self.what, Counted::Term);
        Ok(found.unwrap_or_else(|| Explained::no_match("no matching term")))
    }

    fn as_term(&self) -> Option<&TermNode> {
        Some(self)
    }

    fn most_score(&self) -> Option<f32> {
        // Without frequencies and lengths every match scores the same.
        (!self.norms).then(|| self.similarity.score(1.0, 1))
    }

    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, _most: u64) -> Result<Option<u64>> {
        let index = segment.reader.inverted_index(self.term.field()).map_err(broken)?;
        if self.sees_all_of(sight) {
            return Ok(Some(u64::from(index.doc_freq(&self.term).map_err(broken)?)));
        }
        let Some(mut docs) = index.read_postings(&self.term, IndexRecordOption::Basic).map_err(broken)? else {
            return Ok(Some(0));
        };
        let mut count = 0;
        while docs.doc() != TERMINATED {
            count += u64::from(sight.sees(docs.doc()));
            docs.advance();
        }
        Ok(Some(count))
    }

    fn prunable(&self, numbers: &mut Numbers) -> Option<Box<dyn tantivy::query::Query>> {
        if !self.norms {
            return None;
        }
        let boost = self.boost?;
        let bm25 = self.similarity.as_bm25()?;
        numbers.add(&self.term, bm25, bm25.doc_freq()?);
        let query = Box::new(tantivy::query::TermQuery::new(
            self.term.clone(),
            IndexRecordOption::WithFreqs,
        ));
        Some(if boost == 1.0 {
            query
        } else {
            Box::new(tantivy::query::BoostQuery::new(query, boost))
        })
    }
}

/// Several terms of one field, scored as if they were one.
pub struct SynonymNode {
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
        for set in &mut self.sets {
            if set.doc() == self.doc {
                set.advance();
            }
        }
        self.lowest()
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
        Some(boosted(&self.what, self.similarity.boost()))
    }
    fn squares(&self) -> f32 {
        self.similarity.squares()
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(or_none(self.open(segment)?))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let found = explained_at(self.open(segment)?, doc, &self.similarity, &self.what, Counted::Synonyms);
        Ok(found.unwrap_or_else(|| Explained::no_match("no matching term")))
    }
}

/// The documents of one of several terms, all with one score.
pub(crate) struct TermsNode {
    /// What they are, with their score.
    pub(crate) terms: Vec<Term>,
    pub(crate) boost: f32,
    /// For explanations.
    pub(crate) what: String,
    /// Sets of terms that are asked for often.
    pub(crate) filters: Arc<Filters>,
}

impl Node for TermsNode {
    fn says(&self) -> Option<String> {
        Some(boosted(&self.what, self.boost))
    }
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(ConstantScorer::new(any_of(segment, &self.terms)?, self.boost)))
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        match self.terms.as_slice() {
            [term] => self.filters.of(segment, term),
            _ => Ok(None),
        }
    }

    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        chosen(score_at(self.scorer(segment)?, doc), self.boost, &self.what, doc)
    }
}

/// Why a document has the one score of a set, or is not in it.
fn chosen(score: Option<f32>, boost: f32, what: &str, doc: DocId) -> Result<Explained> {
    Ok(match score {
        Some(score) if boost == 1.0 => Explained::new(score, what),
        Some(score) => Explained::new(score, format!("{what}^{boost:?}")),
        None => Explained::no_match(format!("{what} doesn't match id {doc}")),
    })
}

/// Documents chosen by a function of the segment, all with one score.
pub struct FilterNode<F> {
    /// The score.
    pub boost: f32,
    /// For explanations.
    pub what: String,
    /// The documents.
    pub docs: F,
}

impl<F> Node for FilterNode<F>
where
    F: Fn(&SegmentView) -> Result<Box<dyn Scorer>> + Send + Sync,
{
    fn says(&self) -> Option<String> {
        Some(boosted(&self.what, self.boost))
    }
    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        Ok(Box::new(ConstantScorer::new((self.docs)(segment)?, self.boost)))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        chosen(score_at(self.scorer(segment)?, doc), self.boost, &self.what, doc)
    }
}

/// The documents of any of the terms of one field, as a set.
pub fn any_of(segment: &SegmentView, terms: &[Term]) -> Result<Box<dyn Scorer>> {
    let mut first: Option<SegmentPostings> = None;
    let mut bits: Option<DocBits> = None;
    for term in terms {
        let Some(list) = postings(segment, term, IndexRecordOption::Basic)? else {
            continue;
        };
        if first.is_none() && bits.is_none() {
            first = Some(list);
            continue;
        }
        // A list of documents is large: of many terms only bits are kept.
        let bits = bits.get_or_insert_with(|| DocBits::new(segment.reader.max_doc()));
        for mut list in first.take().into_iter().chain([list]) {
            while list.doc() != TERMINATED {
                bits.insert(list.doc());
                list.advance();
            }
        }
    }
    Ok(match (first, bits) {
        (_, Some(bits)) => Box::new(ConstantScorer::new(BitsDocs::new(Arc::new(bits)), 1.0)),
        (Some(list), None) => Box::new(ConstantScorer::new(list, 1.0)),
        (None, None) => Box::new(NoScorer),
    })
}

/// The documents of any of several lists.
pub fn union(segment: &SegmentView, mut lists: Vec<SegmentPostings>) -> Box<dyn Scorer> {
    match lists.len() {
        0 => Box::new(NoScorer),
        1 => match lists.pop() {
            Some(list) => Box::new(ConstantScorer::new(list, 1.0)),
            None => Box::new(NoScorer),
        },
        _ => {
            let mut bits = DocBits::new(segment.reader.max_doc());
            for mut list in lists {
                while list.doc() != TERMINATED {
                    bits.insert(list.doc());
                    list.advance();
                }
            }
            Box::new(ConstantScorer::new(BitsDocs::new(std::sync::Arc::new(bits)), 1.0))
        }
    }
}
