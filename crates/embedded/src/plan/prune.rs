//! Clauses that tantivy can prune: its block-max WAND over terms, with our statistics of their fields.
//!
//! tantivy counts every document of an index as having a field (engine.md 1.2); [`Numbers`] says what is so.
//!
//! Not here: what is done with the documents (`search::top`).

use super::node::broken;
use super::similarity::FieldStatistics;
use crate::index::schema::IndexSchema;
use crate::searchable::SegmentView;
use model::Result;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use tantivy::query::{Bm25StatisticsProvider, EnableScoring, Query, Weight};
use tantivy::schema::Field;
use tantivy::{DocId, Term};

/// The numbers that the terms of a query are scored with.
#[derive(Default)]
pub struct Numbers {
    fields: FxHashMap<u32, FieldStatistics>,
    terms: FxHashMap<Term, u64>,
    /// The field asked about last: the number of documents is asked for without one, right after its tokens.
    asked: Cell<u32>,
}

impl Numbers {
    /// A term of a query.
    pub fn add(&mut self, term: &Term, field: FieldStatistics, doc_freq: u64) {
        let kept = self.fields.entry(term.field().field_id()).or_insert(field);
        // tantivy insists; ours puts up with a field whose texts had no tokens when they were counted.
        kept.docs = kept.docs.max(doc_freq);
        self.terms.insert(term.clone(), doc_freq);
    }
}

impl Bm25StatisticsProvider for Numbers {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.asked.set(field.field_id());
        Ok(self.fields.get(&field.field_id()).map_or(0, |f| f.tokens))
    }
    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.fields.get(&self.asked.get()).map_or(0, |f| f.docs))
    }
    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(self.terms.get(term).copied().unwrap_or(0))
    }
}

/// A query that prunes.
pub struct Pruning(Box<dyn Weight>);

impl Pruning {
    /// `query` with these numbers.
    ///
    /// # Errors
    /// tantivy's.
    pub fn new(query: &dyn Query, numbers: &Numbers, schema: &IndexSchema) -> Result<Pruning> {
        let scoring = EnableScoring::enabled_from_statistics_provider(numbers, schema.searcher()?);
        query.weight(scoring).map(Pruning).map_err(broken)
    }

    /// Shows documents of a segment that score more than the threshold, in order; the answer is the threshold from
    /// there on. Others are left out where that is cheap.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn for_each(&self, segment: &SegmentView, threshold: f32, f: &mut dyn FnMut(DocId, f32) -> f32) -> Result<()> {
        self.0.for_each_pruning(threshold, &segment.reader, f).map_err(broken)
    }
}
