//! Sets of terms with one score.

use super::constant::{ConstantScorer, NoScorer, or_none};
use super::constant_score::constant_explanation;
use super::explain::Explained;
use super::lucene_string::with_boost;
use super::node::{Node, score_at};
use super::windowed_union::WindowedUnion;
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::error::broken;
use segment::filter_cache::Filters;
use segment::segment_view::{SegmentView, postings};
use std::sync::Arc;
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::query::Scorer;
use tantivy::schema::IndexRecordOption;
use tantivy::termdict::TermStreamer;
use tantivy::{DocId, DocSet, InvertedIndexReader, TERMINATED, Term};
use tantivy_fst::Automaton;

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

    fn opens_quickly(&self) -> bool {
        self.terms.len() <= OPEN_LISTS_MAX
    }

    fn most_score(&self) -> Option<f32> {
        Some(self.boost)
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        constant_explanation(score_at(self.scorer(segment)?, doc), self.boost, &self.what, (segment, doc))
    }
}

/// More lists than this are combined at once: an open list takes about two kilobytes.
const OPEN_LISTS_MAX: usize = 1024;

/// The documents of any of the terms of one field, as a set.
pub(crate) fn any_of(segment: &SegmentView, terms: &[Term]) -> Result<Box<dyn Scorer>> {
    let lists = terms.iter().map(|term| postings(segment, term, IndexRecordOption::Basic));
    union(segment, lists.filter_map(Result::transpose))
}

/// The documents of any of several lists. Many lists are not kept open: they are read into bits one after the other.
fn union(segment: &SegmentView, lists: impl Iterator<Item = Result<SegmentPostings>>) -> Result<Box<dyn Scorer>> {
    let max_doc = segment.reader.max_doc();
    let mut open = Vec::new();
    let mut bits: Option<DocBits> = None;
    for list in lists {
        let mut list = list?;
        if let Some(bits) = &mut bits {
            insert_all(bits, &mut list);
            continue;
        }
        open.push(list);
        if open.len() > OPEN_LISTS_MAX {
            let bits = bits.insert(DocBits::new(max_doc));
            open.drain(..).for_each(|mut list| insert_all(bits, &mut list));
        }
    }
    Ok(match (open.len(), bits) {
        (_, Some(bits)) => Box::new(ConstantScorer::new(BitsDocs::new(Arc::new(bits)), 1.0)),
        (0, None) => Box::new(NoScorer),
        (1, None) => or_none(open.pop().map(|list| ConstantScorer::new(list, 1.0))),
        (_, None) => Box::new(ConstantScorer::new(WindowedUnion::new(open, max_doc), 1.0)),
    })
}

/// The documents of any of the terms that a stream gives.
pub(crate) fn union_of_terms<A: Automaton>(
    segment: &SegmentView,
    index: &InvertedIndexReader,
    mut terms: TermStreamer<'_, A>,
) -> Result<Box<dyn Scorer>>
where
    A::State: Clone,
{
    let next = || {
        let has_next = terms.advance();
        has_next.then(|| {
            let list = index.read_postings_from_terminfo(terms.value(), IndexRecordOption::Basic);
            list.map_err(broken)
        })
    };
    union(segment, std::iter::from_fn(next))
}

/// The documents of several terms of a field, whose places in the index are known.
pub(crate) fn union_of_infos(
    segment: &SegmentView,
    index: &InvertedIndexReader,
    infos: impl Iterator<Item = Result<TermInfo>>,
) -> Result<Box<dyn Scorer>> {
    let list = |info: TermInfo| {
        index
            .read_postings_from_terminfo(&info, IndexRecordOption::Basic)
            .map_err(broken)
    };
    union(segment, infos.map(|info| list(info?)))
}

fn insert_all(bits: &mut DocBits, list: &mut SegmentPostings) {
    while list.doc() != TERMINATED {
        bits.insert(list.doc());
        list.advance();
    }
}
