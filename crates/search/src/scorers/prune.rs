//! Clauses that tantivy can prune: its block-max WAND over terms, with our statistics of their fields.
//!
//! A conjunction is pruned by the bounds of all its words, and so is a phrase: it is in a document no more often than its rarest
//! word there, so it scores no more than its words together.
//!
//! tantivy's BM25 counts every document of a segment as having a field; [`Numbers`] has the count of those that have it.
//!
//! Not here: what is done with the documents (`collect::top`).

use super::constant::ConstantScorer;
use super::node::Shared;
use super::similarity::{Bm25, FieldStatistics};
use mapping::similarity::B;
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::BitsDocs;
use segment::error::broken;
use segment::schema::IndexSchema;
use segment::segment_view::SegmentView;
use std::cell::Cell;
use tantivy::query::{Bm25StatisticsProvider, BooleanQuery, EnableScoring, Occur, Query, Scorer, Weight};
use tantivy::schema::Field;
use tantivy::{DocId, DocSet, SeekDangerResult, TERMINATED, Term};

/// The numbers that the terms of a query are scored with.
#[derive(Default)]
pub struct Numbers {
    fields: FxHashMap<u32, FieldStatistics>,
    terms: FxHashMap<Term, u64>,
    /// No document scores more.
    bound: f32,
    /// A match has all of the terms.
    pub(crate) all_required: bool,
    /// The field asked about last: the number of documents is asked for without one, right after its tokens.
    asked: Cell<u32>,
}

/// A filter with at most one document for so many of the terms leads a scan.
const SELECTIVE: u64 = 16;

/// Going through so many documents takes less than pruning them, which opens each list once more to score and once to count.
pub(crate) const FEW: u64 = 256;

impl Numbers {
    /// How many documents the lists of all terms have.
    pub(crate) fn docs(&self) -> u64 {
        self.terms.values().sum()
    }
    /// A term of a query.
    pub fn add(&mut self, term: &Term, bm25: &Bm25, doc_freq: u64) {
        self.add_all(bm25, std::iter::once((term, doc_freq)));
    }
    /// Terms that are scored together: one, or those of a phrase.
    pub(crate) fn add_all<'a>(&mut self, bm25: &Bm25, terms: impl Iterator<Item = (&'a Term, u64)>) {
        self.bound += bm25.bound();
        for (term, doc_freq) in terms {
            self.add_one(term, bm25, doc_freq);
        }
    }
    fn add_one(&mut self, term: &Term, bm25: &Bm25, doc_freq: u64) {
        let kept = self.fields.entry(term.field().field_id()).or_insert(bm25.field());
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

/// A clause beside those that score: a document must be in it, or must not.
pub struct Restriction {
    /// The clause.
    pub node: Shared,
    /// Its documents do not match.
    pub excludes: bool,
}

/// The restrictions of a query in one segment.
pub struct Checks {
    sets: Vec<(Box<dyn Scorer>, bool)>,
    /// At most about so many documents pass.
    docs_max: u64,
}

impl Checks {
    /// Opens them; `None` if no document passes.
    fn open(restrictions: &[Restriction], segment: &SegmentView) -> Result<Option<Checks>> {
        let mut checks = Checks {
            sets: Vec::new(),
            docs_max: u64::from(segment.reader.max_doc()),
        };
        for Restriction { node, excludes } in restrictions {
            if node.is_all() && !excludes {
                continue;
            }
            let set: Box<dyn Scorer> = match node.bits(segment)? {
                Some(bits) => Box::new(ConstantScorer::new(BitsDocs::new(bits), 0.0)),
                None => node.scorer(segment)?,
            };
            match (set.doc() == TERMINATED, excludes) {
                (true, true) => continue,
                (true, false) => return Ok(None),
                (false, true) => {}
                (false, false) => checks.docs_max = checks.docs_max.min(set.cost()),
            }
            checks.sets.push((set, *excludes));
        }
        Ok(Some(checks))
    }

    /// Whether a document passes all of them. Documents are asked for in ascending order, each once.
    pub fn pass(&mut self, doc: DocId) -> bool {
        let mut sets = self.sets.iter_mut();
        sets.all(|(set, excludes)| matches!(set.seek_danger(doc), SeekDangerResult::Found) != *excludes)
    }
}

/// A little less than a score, by more than what is lost where scores are added up in another order.
pub(crate) fn rounded_down(score: f32) -> f32 {
    if score > 0.0 { score * 0.9999 } else { score }
}

/// A query of documents that have all of these terms.
pub(crate) fn all_of(terms: Vec<Box<dyn Query>>, numbers: &mut Numbers) -> Box<dyn Query> {
    numbers.all_required = true;
    Box::new(BooleanQuery::new(terms.into_iter().map(|term| (Occur::Must, term)).collect()))
}

/// A query that prunes.
pub struct Pruning {
    weight: Box<dyn Weight>,
    restrictions: Vec<Restriction>,
    /// How many documents the lists of all terms have.
    docs: u64,
    /// Fields with the mean length that their terms are scored with.
    means: Vec<(Field, f64)>,
    /// No document scores more.
    bound: f32,
    /// A match has all of the terms, so no list says how many there are.
    all_required: bool,
}

impl Pruning {
    /// `query` with these numbers.
    ///
    /// # Errors
    /// tantivy's.
    pub fn new(query: &dyn Query, numbers: &Numbers, restrictions: Vec<Restriction>, schema: &IndexSchema) -> Result<Pruning> {
        let scoring = EnableScoring::enabled_from_statistics_provider(numbers, schema.searcher()?);
        let means = numbers.fields.iter().map(|(field, statistics)| {
            let docs = statistics.docs.max(1) as f64;
            (Field::from_field_id(*field), statistics.tokens as f64 / docs)
        });
        let means = means.collect();
        let weight = query.weight(scoring).map_err(broken)?;
        Ok(Pruning {
            weight,
            restrictions,
            docs: numbers.docs(),
            means,
            bound: numbers.bound,
            all_required: numbers.all_required,
        })
    }

    /// How many documents the lists of all terms have.
    pub fn docs(&self) -> u64 {
        self.docs
    }

    /// Whether a match has all of the terms. Documents that have them may be no matches: a phrase also asks for their places.
    pub fn is_conjunction(&self) -> bool {
        self.all_required
    }

    /// The restrictions in a segment; `None` if no document passes.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn checks(&self, segment: &SegmentView) -> Result<Option<Checks>> {
        Checks::open(&self.restrictions, segment)
    }

    /// Whether hardly a candidate passes. Then no threshold rises and nothing is pruned: the filter leads a scan instead.
    pub fn is_selective(&self, checks: &Checks) -> bool {
        checks.docs_max.saturating_mul(SELECTIVE) < self.docs
    }

    /// The factor by which a document of this segment may exceed the bound that tantivy keeps of its block; `None`: any.
    ///
    /// tantivy keeps for each block the pair of length and frequency that scored best when it was written, with the
    /// segment's mean length over *all* its documents. With another mean another pair may be the best. A score is
    /// `w x / (1 + x)`, where `x` is the frequency over the length's part `1 - 0.75 + 0.75 n/mean`. For two means a and b the
    /// ratio of these parts lies between 1, near the least length, and `b/a`. So the `x` of any pair is at most that of the
    /// kept pair times the quotient of both ends.
    fn slack(&self, segment: &SegmentView) -> Result<Option<f64>> {
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
            let part = |mean: f64| 1.0 - f64::from(B) + f64::from(B) / mean;
            let (shortest, longest) = (part(written) / part(*mean), mean / written);
            most = most.max(shortest / longest).max(longest / shortest);
        }
        Ok(Some(most))
    }

    /// The threshold that tantivy may compare its bounds with, so that no document above `threshold` is left out.
    ///
    /// With `c` the slack, what a bound `s` of tantivy's stands for scores at most `w c s / (w + (c - 1) s)`, where `w` is
    /// the most that a term gives. That is concave in both and grows with both, so for sums over several terms it holds
    /// with the sum of what all give.
    fn lower_threshold(&self, threshold: f32, slack: Option<f64>) -> f32 {
        let Some(slack) = slack else { return f32::MIN };
        if threshold <= 0.0 || threshold >= self.bound {
            return rounded_down(threshold);
        }
        debug_assert!(slack >= 1.0, "a bound may be exceeded, never undercut: [{slack}]");
        let (most, least) = (f64::from(self.bound), f64::from(threshold));
        let lower = rounded_down((most * least / (slack * most - (slack - 1.0) * least)) as f32);
        debug_assert!(
            lower <= threshold,
            "search.md S10: [{lower}] leaves out what scores above [{threshold}]"
        );
        lower
    }

    /// Shows at least the documents of a segment that score more than the threshold, in order; the answer is the
    /// threshold from there on. Others are left out where that is cheap.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn for_each(&self, segment: &SegmentView, threshold: f32, f: &mut dyn FnMut(DocId, f32) -> f32) -> Result<()> {
        let slack = self.slack(segment)?;
        let lower = |threshold: f32| self.lower_threshold(threshold, slack);
        let mut lowered = |doc: DocId, score: f32| lower(f(doc, score));
        self.weight
            .for_each_pruning(lower(threshold), &segment.reader, &mut lowered)
            .map_err(broken)
    }
}
