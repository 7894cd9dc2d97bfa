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
pub struct Pruning {
    weight: Box<dyn Weight>,
    /// Fields with the mean length that their terms are scored with.
    means: Vec<(Field, f64)>,
}

impl Pruning {
    /// `query` with these numbers.
    ///
    /// # Errors
    /// tantivy's.
    pub fn new(query: &dyn Query, numbers: &Numbers, schema: &IndexSchema) -> Result<Pruning> {
        let scoring = EnableScoring::enabled_from_statistics_provider(numbers, schema.searcher()?);
        let means = numbers.fields.iter().map(|(field, statistics)| {
            let docs = statistics.docs.max(1) as f64;
            (Field::from_field_id(*field), statistics.tokens as f64 / docs)
        });
        let means = means.collect();
        let weight = query.weight(scoring).map_err(broken)?;
        Ok(Pruning { weight, means })
    }

    /// By how much tantivy's bound of a block of this segment may be too small, as a factor; `None`: by anything.
    ///
    /// tantivy keeps of each block the pair of length and frequency that scored best when it was written, with the
    /// segment's own mean length over *all* its documents. With another mean another pair may be the best. Of two
    /// means a and b, the lengths' parts of the scores, `1 - 0.75 + 0.75 n/a` and the same with b, have a ratio
    /// between 1 and `b/a` for every length n, so the best pair scores at most max(a/b, b/a) times the kept one.
    fn slack(&self, segment: &SegmentView) -> Result<Option<f32>> {
        let docs = f64::from(segment.reader.max_doc().max(1));
        let mut most = 1.0f64;
        for (field, mean) in &self.means {
            let tokens = segment.reader.inverted_index(*field).map_err(broken)?.total_num_tokens();
            let written = tokens as f64 / docs;
            if tokens == 0 {
                continue; // Nothing of this field is in the segment.
            }
            if *mean <= 0.0 {
                return Ok(None);
            }
            most = most.max(written / mean).max(mean / written);
        }
        // A little more, for what is lost in rounding.
        Ok(Some((most * 1.0001) as f32))
    }

    /// Shows at least the documents of a segment that score more than the threshold, in order; the answer is the
    /// threshold from there on. Others are left out where that is cheap.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn for_each(&self, segment: &SegmentView, threshold: f32, f: &mut dyn FnMut(DocId, f32) -> f32) -> Result<()> {
        let slack = self.slack(segment)?;
        let lower = |threshold: f32| match slack {
            Some(slack) if threshold > 0.0 => threshold / slack,
            Some(_) => threshold,
            None => f32::MIN,
        };
        let mut lowered = |doc: DocId, score: f32| lower(f(doc, score));
        self.weight
            .for_each_pruning(lower(threshold), &segment.reader, &mut lowered)
            .map_err(broken)
    }
}
