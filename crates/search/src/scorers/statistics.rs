//! Numbers of terms and fields over all segments of an index, as Lucene counts them: deleted documents
//! included, and only documents that have the field.

use super::similarity::{FieldStatistics, Rarity};
use crate::fields::column::Column;
use crate::fields::target::Target;
use crate::seen;
use model::Result;
use rustc_hash::FxHashMap;
use segment::derived::Footprint;
use segment::error::broken;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use std::cell::{Cell, RefCell};
use tantivy::Term;

/// The statistics of one view, worked out as they are asked for.
pub(crate) struct Statistics<'a> {
    view: &'a IndexView,
    fields: RefCell<FxHashMap<u32, FieldStatistics>>,
    /// Scores are asked for.
    needed: Cell<bool>,
}

/// Statistics of clauses without a score: they are not counted, and scores from them mean nothing.
const NOT_COUNTED: FieldStatistics = FieldStatistics {
    docs: u32::MAX as u64,
    tokens: u32::MAX as u64,
};

/// The numbers of a field in a segment by its column, if it has one.
fn by_column(segment: &SegmentView, target: &Target<'_>) -> Result<Option<FieldStatistics>> {
    let Some(column) = Column::open(segment, target)? else {
        return Ok(None);
    };
    let docs = column.docs_with_value();
    let tokens = if column.is_multivalued() {
        once_a_document(segment, target)?
    } else {
        docs
    };
    Ok(Some(FieldStatistics { docs, tokens }))
}

/// The tokens of a field that keeps no frequencies: each term counts once a document.
fn once_a_document(segment: &SegmentView, target: &Target<'_>) -> Result<u64> {
    let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
    let mut terms = index.terms().stream().map_err(broken)?;
    let mut tokens = 0;
    while terms.advance() {
        tokens += u64::from(terms.value().doc_freq);
    }
    Ok(tokens)
}

/// The same of a text without frequencies.
fn by_terms(segment: &SegmentView, target: &Target<'_>) -> Result<Option<FieldStatistics>> {
    Ok(Some(FieldStatistics {
        docs: segment.core.doc_count(&segment.reader, target.slot.field)?,
        tokens: once_a_document(segment, target)?,
    }))
}

impl Footprint for FieldStatistics {
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The numbers of a field over the documents that a reader sees.
fn seen_of_field(view: &IndexView, target: &Target<'_>) -> Result<FieldStatistics> {
    let mut all = FieldStatistics { docs: 0, tokens: 0 };
    for segment in &view.segments {
        let index = segment.reader.inverted_index(target.slot.field).map_err(broken)?;
        let here = seen::living_with(segment, &index, target.slot.shape.freqs)?;
        all.docs += here.docs;
        all.tokens += here.tokens;
    }
    Ok(all)
}

impl<'a> Statistics<'a> {
    /// Nothing counted yet.
    pub(crate) fn new(view: &'a IndexView) -> Statistics<'a> {
        Statistics {
            view,
            fields: RefCell::default(),
            needed: Cell::new(true),
        }
    }

    /// Nothing counted yet, of the same view and as much needed.
    pub(crate) fn beginning(&self) -> Statistics<'a> {
        Statistics {
            needed: self.needed.clone(),
            ..Statistics::new(self.view)
        }
    }

    /// Whether scores are asked for.
    pub(crate) fn is_needed(&self) -> bool {
        self.needed.get()
    }

    /// From now on scores are asked for, or not; whether they were.
    pub(crate) fn need(&self, needed: bool) -> bool {
        self.needed.replace(needed)
    }

    /// The numbers of a field.
    pub(crate) fn field(&self, target: &Target<'_>) -> Result<FieldStatistics> {
        if !self.is_needed() {
            return Ok(NOT_COUNTED);
        }
        let field = target.slot.field;
        if let Some(known) = self.fields.borrow().get(&field.field_id()) {
            return Ok(*known);
        }
        if self.view.is_restricted() {
            let counted = self
                .view
                .once(&format!("counted {}", field.field_id()), || seen_of_field(self.view, target))?;
            self.fields.borrow_mut().insert(field.field_id(), *counted);
            return Ok(*counted);
        }
        let mut all = FieldStatistics { docs: 0, tokens: 0 };
        for segment in &self.view.segments {
            let index = segment.reader.inverted_index(field).map_err(broken)?;
            if index.terms().num_terms() == 0 {
                continue;
            }
            if target.slot.shape.positions && self.overlaps(target) {
                segment.core.count_places(&segment.reader, field)?;
            }
            // A column takes longer to open than most queries take to run.
            let kept = |count: fn(&SegmentView, &Target<'_>) -> Result<Option<FieldStatistics>>| {
                let name = format!("counted {}", field.field_id());
                segment.core.once(&name, || count(segment, target))
            };
            let counted = match target.kind.kind.is_text() {
                true if target.slot.shape.freqs => None,
                true => *kept(by_terms)?,
                false => *kept(by_column)?,
            };
            match counted {
                Some(FieldStatistics { docs, tokens }) => {
                    all.docs += docs;
                    all.tokens += tokens;
                }
                None => {
                    all.docs += segment.core.doc_count(&segment.reader, field)?;
                    all.tokens += index.total_num_tokens();
                }
            }
        }
        self.fields.borrow_mut().insert(field.field_id(), all);
        Ok(all)
    }

    /// Whether tokens of a field may stand at one position: then tantivy's lengths are not Lucene's.
    pub(crate) fn overlaps(&self, target: &Target<'_>) -> bool {
        if !target.kind.kind.is_text() {
            return false;
        }
        let own = target.kind.analyzer.as_ref();
        match own {
            Some(analyzer) => analyzer.overlaps(),
            None => self
                .view
                .registry
                .analyzer("default")
                .is_some_and(|analyzer| analyzer.overlaps()),
        }
    }

    /// How many documents have a term.
    pub(crate) fn doc_freq(&self, term: &Term) -> Result<u64> {
        seen::doc_freq(self.view, term)
    }

    /// A term's rarity.
    pub(crate) fn rarity(&self, term: &Term, text: &str) -> Result<Rarity> {
        Ok(Rarity {
            term: text.to_owned(),
            doc_freq: self.doc_freq(term)?,
        })
    }
}
