//! `filter`, `filters`, `missing`, `global`, samplers: buckets by conditions on documents.

use super::{Counts, place_below, places_below, single, single_order};
use crate::aggs::deferred::Segments;
use crate::aggs::fork::same_kind;
use crate::aggs::values::{ValuesSource, Wants};
use crate::aggs::{AggregationContext, At, Collector, EMPTY, Finish, Subs, check_collected};
use crate::scorers::planned::Part;
use dsl::aggs::{DiversifiedAgg, ValueSource};
use dsl::query::Query;
use model::{Error, Result};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

/// A query that is asked about one document after the other.
pub(super) struct FilterProbe {
    query: Query,
    scope: Option<String>,
    compiled: Option<(Arc<IndexView>, Part)>,
    segment: Option<Arc<SegmentView>>,
    docs: Option<Box<dyn Scorer>>,
    last: DocId,
}

impl FilterProbe {
    pub(super) fn new(query: &Query, scope: Option<&str>) -> FilterProbe {
        FilterProbe {
            query: query.clone(),
            scope: scope.map(str::to_owned),
            compiled: None,
            segment: None,
            docs: None,
            last: 0,
        }
    }
    pub(super) fn segment(&mut self, at: &At<'_>) -> Result<()> {
        if self.compiled.as_ref().is_none_or(|(view, _)| !Arc::ptr_eq(view, at.view)) {
            let part = crate::clauses::filter_part(at.view, &self.query, at.cx.plan, self.scope.as_deref())?;
            self.compiled = Some((at.view.clone(), part));
        }
        self.segment = Some(at.segment.clone());
        self.docs = None;
        Ok(())
    }
    pub(super) fn matches(&mut self, doc: DocId) -> Result<bool> {
        let (Some((_, part)), Some(segment)) = (&self.compiled, &self.segment) else {
            return Ok(false);
        };
        let docs = match &mut self.docs {
            // Below other nested documents the order may go back.
            Some(docs) if doc >= self.last => docs,
            docs => docs.insert(part.node.scorer(segment)?),
        };
        self.last = doc;
        if docs.doc() < doc {
            docs.seek(doc);
        }
        part.check()?;
        debug_assert!(docs.doc() >= doc, "search.md S8: a seek ends at its document or behind it");
        Ok(docs.doc() == doc && doc != TERMINATED)
    }
}

/// Buckets by queries.
pub(in crate::aggs) struct Filters {
    asked: Vec<(String, FilterProbe)>,
    form: Form,
    other: Option<String>,
    counts: Counts,
    subs: Subs,
}

#[derive(PartialEq)]
enum Form {
    One,
    Keyed,
    List,
}

impl Filters {
    pub(in crate::aggs) fn one(query: &Query, scope: Option<&str>, subs: Subs) -> Filters {
        let asked = vec![(String::new(), FilterProbe::new(query, scope))];
        Filters {
            asked,
            form: Form::One,
            other: None,
            counts: Counts::default(),
            subs,
        }
    }
    pub(in crate::aggs) fn several(
        filters: &[(String, Query)],
        keyed: bool,
        other: Option<String>,
        scope: Option<&str>,
        subs: Subs,
        most: usize,
    ) -> Result<Filters> {
        if filters.len() > most {
            return Err(dsl::query::too_many_filters(most, filters.len()));
        }
        let mut asked: Vec<_> = filters
            .iter()
            .map(|(name, query)| (name.clone(), FilterProbe::new(query, scope)))
            .collect();
        let form = if keyed { Form::Keyed } else { Form::List };
        if keyed {
            asked.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Ok(Filters {
            asked,
            form,
            other,
            counts: Counts::default(),
            subs,
        })
    }
    fn width(&self) -> usize {
        self.asked.len() + usize::from(self.other.is_some())
    }
    fn own(&self, bucket: u32, at: usize) -> u32 {
        place_below(bucket, self.width(), at)
    }
    fn add(&mut self, doc: DocId, score: f32, own: u32) -> Result<()> {
        check_collected(own as usize + 1)?;
        self.counts.add(own as usize);
        self.subs.collect(doc, score, own)
    }
    fn count(&self, own: u32) -> u64 {
        if own == EMPTY { 0 } else { self.counts.get(own as usize) }
    }
}

impl Collector for Filters {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.asked.iter_mut().try_for_each(|(_, asked)| asked.segment(at))?;
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let mut any = false;
        for at in 0..self.asked.len() {
            if self.asked[at].1.matches(doc)? {
                any = true;
                self.add(doc, score, self.own(bucket, at))?;
            }
        }
        if !any && self.other.is_some() {
            self.add(doc, score, self.own(bucket, self.asked.len()))?;
        }
        Ok(())
    }
    fn is_divisible(&self) -> bool {
        self.subs.are_divisible()
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: Filters = same_kind(other)?;
        let own = places_below(buckets, self.width())?;
        self.counts.absorb(&other.counts, &own);
        self.subs.absorb(other.subs, &own)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        if self.form == Form::One {
            return single(self.count(self.own(bucket, 0)), self.own(bucket, 0), &mut self.subs, to);
        }
        to.count(self.width())?;
        let mut names: Vec<String> = self.asked.iter().map(|(name, _)| name.clone()).collect();
        names.extend(self.other.clone());
        let mut parts = Vec::new();
        for (at, name) in names.into_iter().enumerate() {
            let own = self.own(bucket, at);
            parts.push((name, single(self.count(own), own, &mut self.subs, to)?));
        }
        let buckets = if self.form == Form::Keyed {
            Value::Object(parts.into_iter().collect())
        } else {
            Value::Array(parts.into_iter().map(|(_, value)| value).collect())
        };
        Ok(Value::Object(Map::from_iter([("buckets".to_owned(), buckets)])))
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        if self.form != Form::One {
            return Err(super::no_order("filters"));
        }
        let own = self.own(bucket, 0);
        single_order(self.count(own), own, rest, &mut self.subs)
    }
    fn wire_type(&self) -> &'static str {
        if self.form == Form::One { "filter" } else { "filters" }
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}

/// One bucket with a condition that needs no query: everything, or documents without a value.
pub(in crate::aggs) struct All {
    wire_type: &'static str,
    without: Option<ValuesSource>,
    counts: Counts,
    subs: Subs,
}

impl All {
    pub(in crate::aggs) fn new(wire_type: &'static str, without: Option<ValuesSource>, subs: Subs) -> All {
        All {
            wire_type,
            without,
            counts: Counts::default(),
            subs,
        }
    }
}

/// `missing`: documents without a value.
pub(in crate::aggs) struct Missing;

impl Missing {
    #[allow(clippy::new_ret_no_self, reason = "it is a form of another")]
    pub(in crate::aggs) fn new(field: &str, missing: Option<&Value>, subs: Subs, cx: &AggregationContext<'_>) -> Result<All> {
        let spec = ValueSource {
            field: Some(field.to_owned()),
            ..ValueSource::default()
        };
        let source = ValuesSource::new(&spec, Wants::Any, "missing", cx)?;
        // With a stand-in no document is without a value.
        Ok(All::new("missing", Some(source).filter(|_| missing.is_none()), subs).but_nothing(missing.is_some()))
    }
}

impl All {
    fn but_nothing(mut self, nothing: bool) -> All {
        if nothing {
            self.wire_type = "missing";
        }
        self
    }
    fn takes(&self, doc: DocId) -> bool {
        match &self.without {
            Some(source) => !source.has(doc),
            None => self.wire_type != "missing",
        }
    }
}

impl Collector for All {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        if let Some(source) = &mut self.without {
            source.segment(at)?;
        }
        self.subs.segment(at)
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        if self.takes(doc) {
            self.counts.add(bucket as usize);
            self.subs.collect(doc, score, bucket)?;
        }
        Ok(())
    }
    fn is_divisible(&self) -> bool {
        self.subs.are_divisible()
    }
    fn absorb(&mut self, other: Box<dyn Collector>, buckets: &[u32]) -> Result<()> {
        let other: All = same_kind(other)?;
        self.counts.absorb(&other.counts, buckets);
        self.subs.absorb(other.subs, buckets)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        single(self.counts.get(bucket as usize), bucket, &mut self.subs, to)
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        single_order(self.counts.get(bucket as usize), bucket, rest, &mut self.subs)
    }
    fn wire_type(&self) -> &'static str {
        self.wire_type
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}

/// A document that may be in a sample: score, segment, document, and the code of its value where that matters.
type Candidate = (f32, u32, DocId, u64);

/// `sampler`, `diversified_sampler`: the best documents of a bucket, kept until all are seen.
pub(in crate::aggs) struct Sampler {
    size: usize,
    /// Where the value is of which only so many documents are taken.
    diverse: Option<(ValuesSource, usize)>,
    /// By bucket.
    best: Vec<Vec<Candidate>>,
    segments: Segments,
    codes: Vec<u64>,
    counts: Counts,
    subs: Subs,
}

impl Sampler {
    pub(in crate::aggs) fn new(size: usize, subs: Subs) -> Sampler {
        Sampler {
            size,
            diverse: None,
            best: Vec::new(),
            segments: Segments::default(),
            codes: Vec::new(),
            counts: Counts::default(),
            subs,
        }
    }

    pub(in crate::aggs) fn diverse(spec: &DiversifiedAgg, subs: Subs, cx: &AggregationContext<'_>) -> Result<Sampler> {
        let source = ValuesSource::new(&spec.source, Wants::Any, "diversified_sampler", cx)?;
        Ok(Sampler {
            diverse: Some((source, spec.max_docs_per_value)),
            ..Sampler::new(spec.shard_size, subs)
        })
    }

    /// The value of a document; what has none counts as what has the least value, or 0.
    fn value(&mut self, doc: DocId, score: f32) -> Result<u64> {
        let Some((source, _)) = &mut self.diverse else { return Ok(0) };
        source.codes(doc, score, &mut self.codes, false)?;
        match self.codes.as_slice() {
            [] => Ok(source.least_code()),
            [code] => Ok(*code),
            _ => Err(Error::illegal("Sample diversifying key must be a single valued-field")),
        }
    }

    /// Sorts candidates and leaves the best, of each value no more than may be.
    fn choose(&self, best: &mut Vec<Candidate>) {
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        if let Some((_, most)) = &self.diverse {
            let mut taken: FxHashMap<u64, usize> = FxHashMap::default();
            best.retain(|(.., code)| {
                let count = taken.entry(*code).or_default();
                *count += 1;
                *count <= *most
            });
        }
        best.truncate(self.size);
    }
}

impl Collector for Sampler {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        if let Some((source, _)) = &mut self.diverse {
            source.segment(at)?;
        }
        self.segments.begin(at);
        Ok(())
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let code = self.value(doc, score)?;
        let at = bucket as usize;
        if at >= self.best.len() {
            self.best.resize_with(at + 1, Vec::new);
        }
        self.best[at].push((score, self.segments.current(), doc, code));
        if self.best[at].len() >= 2 * self.size.max(512) {
            let mut best = std::mem::take(&mut self.best[at]);
            self.choose(&mut best);
            self.best[at] = best;
        }
        Ok(())
    }
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        let mut all = Vec::new();
        for (bucket, mut best) in std::mem::take(&mut self.best).into_iter().enumerate() {
            self.choose(&mut best);
            best.iter().for_each(|_| self.counts.add(bucket));
            let waiting = best.into_iter();
            all.extend(waiting.map(|(score, segment, doc, _)| (segment, doc, bucket as u32, score)));
        }
        all.sort_by_key(|(segment, doc, ..)| (*segment, *doc));
        self.segments.show(all, &mut self.subs, cx)
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        single(self.counts.get(bucket as usize), bucket, &mut self.subs, to)
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        single_order(self.counts.get(bucket as usize), bucket, rest, &mut self.subs)
    }
    fn wants_scores(&self) -> bool {
        true
    }
    fn wire_type(&self) -> &'static str {
        "sampler"
    }
    fn debug(&self) -> Map<String, Value> {
        Map::from_iter([("deferred_aggregators".to_owned(), json!(self.subs.names()))])
    }
    fn subs(&self) -> Option<&Subs> {
        Some(&self.subs)
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        Some(&mut self.subs)
    }
}
