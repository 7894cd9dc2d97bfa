//! Keywords that are not indexed, found by their columns: a value's place in the dictionary of a segment tells the documents.
//!
//! Not here: numbers and addresses, which are always found by their columns (`range`).

use super::Planner;
use crate::fields::target::Target;
use crate::scorers::column_range::column_range;
use crate::scorers::constant::{ConstantScorer, NoScorer};
use crate::scorers::filter::FilterNode;
use crate::scorers::node::Shared;
use model::Result;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::error::broken;
use segment::open_columns;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::columnar::StrColumn;
use tantivy::query::Scorer;
use tantivy_fst::Automaton;

/// A bound of a range of texts: the text, and whether it belongs to the range.
pub(super) type TextBound = Option<(String, bool)>;

impl Planner<'_> {
    /// Not indexed, but with a column. In 2015 nothing looked there.
    pub(super) fn by_column(&self, target: &Target<'_>) -> bool {
        target.kind.tree.is_some() || !target.kind.index && !self.view.rules().ignores_columns && target.slot.column.is_some()
    }

    /// Keywords of that sort.
    pub(super) fn is_column_of_keywords(&self, target: &Target<'_>) -> bool {
        self.by_column(target) && target.has_string_terms() && !target.kind.kind.is_text()
    }

    /// Documents with one of the texts that an automaton accepts.
    pub(super) fn texts_accepted<A>(&self, target: &Target<'_>, automaton: A, boost: f32, what: String) -> Shared
    where
        A: Automaton + Send + Sync + 'static,
        A::State: Clone,
    {
        if let Some(field) = target.kind.tree {
            return self.in_directories_accepted(target, field, &automaton, boost, what);
        }
        self.texts(target, boost, what, move |column| {
            let mut stream = column.dictionary().search(&automaton).into_stream().map_err(broken)?;
            let mut found = Vec::new();
            while stream.advance() {
                found.push(stream.term_ord());
            }
            Ok(found)
        })
    }

    /// Documents with a text between two.
    pub(super) fn texts_between(&self, target: &Target<'_>, low: TextBound, high: TextBound, boost: f32, what: String) -> Shared {
        if let Some(field) = target.kind.tree {
            let above = |text: &str| {
                low.as_ref()
                    .is_none_or(|(low, is_in)| text > low.as_str() || *is_in && text == low)
            };
            let below = |text: &str| {
                high.as_ref()
                    .is_none_or(|(high, is_in)| text < high.as_str() || *is_in && text == high)
            };
            return self.in_directories(target, field, &|text| above(text) && below(text), boost, what);
        }
        self.texts(target, boost, what, move |column| {
            let mut range = column.dictionary().range();
            range = match &low {
                Some((text, true)) => range.ge(text.as_bytes()),
                Some((text, false)) => range.gt(text.as_bytes()),
                None => range,
            };
            range = match &high {
                Some((text, true)) => range.le(text.as_bytes()),
                Some((text, false)) => range.lt(text.as_bytes()),
                None => range,
            };
            let mut stream = range.into_stream().map_err(broken)?;
            let mut found = Vec::new();
            while stream.advance() {
                found.push(stream.term_ord());
            }
            Ok(found)
        })
    }

    /// Documents with one of the texts of a segment that `choose` tells the places of, in their order.
    fn texts(
        &self,
        target: &Target<'_>,
        boost: f32,
        what: String,
        choose: impl Fn(&StrColumn) -> Result<Vec<u64>> + Send + Sync + 'static,
    ) -> Shared {
        let name = target.slot.column.clone().unwrap_or_default();
        Arc::new(FilterNode {
            boost,
            what,
            docs: move |segment: &SegmentView| -> Result<Box<dyn Scorer>> {
                let Some(column) = open_columns::strings(segment, &name)? else {
                    return Ok(Box::new(NoScorer));
                };
                let found = choose(&column)?;
                debug_assert!(
                    found.is_sorted_by(|a, b| a < b),
                    "search.md S14: the numbers of chosen texts rise, as the dictionary does"
                );
                let (Some(first), Some(last)) = (found.first().copied(), found.last().copied()) else {
                    return Ok(Box::new(NoScorer));
                };
                if last - first < found.len() as u64 {
                    return column_range(segment, &name, column.ords().clone(), first, last);
                }
                let max_doc = segment.reader.max_doc();
                let mut bits = DocBits::new(max_doc);
                for doc in 0..max_doc {
                    if column.term_ords(doc).any(|ord| found.binary_search(&ord).is_ok()) {
                        bits.insert(doc);
                    }
                }
                Ok(Box::new(ConstantScorer::new(BitsDocs::new(Arc::new(bits)), 1.0)))
            },
        })
    }
}
