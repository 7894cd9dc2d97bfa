//! One scored term.

use super::block_max::{ScoredClause, ScoredClauses};
use super::constant::or_none;
use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::lucene_string::with_boost;
use super::node::Node;
use super::similarity::{Counted, Counting, Similarity, explain_at};
use model::Result;
use segment::doc_bits::DocBits;
use segment::error::broken;
use segment::filter_cache::Filters;
use segment::segment_view::{SegmentView, postings};
use std::sync::Arc;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::Scorer;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The norms of a field in a segment, if it has any.
pub(crate) fn norms(segment: &SegmentView, field: Field) -> Result<Option<FieldNormReader>> {
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
    /// Only root documents have the field.
    pub of_roots: bool,
    /// Sets of terms that are asked for often.
    pub(crate) filters: Arc<Filters>,
}

/// The documents of a term, scored.
pub(crate) struct TermScorer {
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
    pub(crate) fn open(&self, segment: &SegmentView) -> Result<Option<TermScorer>> {
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
        Some(with_boost(&self.what, self.similarity.boost()))
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
        let found = explain_at(
            self.open(segment)?,
            (segment, doc),
            &self.similarity,
            &self.what,
            Counted::Term,
        );
        Ok(found.unwrap_or_else(|| Explained::no_match("no matching term")))
    }

    fn as_term(&self) -> Option<&TermNode> {
        Some(self)
    }

    fn opens_quickly(&self) -> bool {
        true
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

    fn scored_clauses(&self) -> Option<ScoredClauses> {
        let bm25 = self.similarity.as_bm25().filter(|_| self.norms)?;
        let clause = ScoredClause {
            terms: vec![self.term.clone()],
            bm25: bm25.clone(),
        };
        Some(ScoredClauses {
            clauses: vec![clause],
            all_required: false,
            roundings: 0,
        })
    }
}
