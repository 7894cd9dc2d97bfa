//! Sets of terms with one score.

use super::constant::{ConstantScorer, NoScorer};
use super::constant_score::constant_explanation;
use super::explain::Explained;
use super::lucene_string::with_boost;
use super::node::{Node, score_at};
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::filter_cache::Filters;
use segment::segment_view::{SegmentView, postings};
use std::sync::Arc;
use tantivy::postings::SegmentPostings;
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, TERMINATED, Term};

/// The documents of one of several terms, all with one score.
pub(crate) struct TermsNode {
    /// Their description, with their score.
    pub(crate) terms: Vec<Term>,
    pub(crate) boost: f32,
    /// For explanations.
    pub(crate) what: String,
    /// Sets of terms that are asked for often.
    pub(crate) filters: Arc<Filters>,
}

impl Node for TermsNode {
    fn says(&self) -> Option<String> {
        Some(with_boost(&self.what, self.boost))
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
        constant_explanation(score_at(self.scorer(segment)?, doc), self.boost, &self.what, (segment, doc))
    }
}

/// The documents of any of the terms of one field, as a set.
pub(crate) fn any_of(segment: &SegmentView, terms: &[Term]) -> Result<Box<dyn Scorer>> {
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
pub(crate) fn union(segment: &SegmentView, mut lists: Vec<SegmentPostings>) -> Box<dyn Scorer> {
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
