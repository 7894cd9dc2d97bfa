//! Aggregations: one collector for each, fed document by document, rendered once all segments are done.
//!
//! The search feeds a [`Root`]: [`Root::segment`] for every segment of every index, [`Root::collect_block`] for all matches in order
//! of documents, [`Root::finish`] at the end. Frequent aggregations read a column for a block of documents at once, others read
//! it document by document. Segments without a match count too: `global` and `min_doc_count: 0` read them.
//! Collectors know buckets by dense numbers, so one collector serves all buckets of the aggregation above it. Pipelines work
//! on the finished tree.
//!
//! Not here: requests (`dsl::aggs`), which documents match (`clauses`), how hits are fetched (`fetch`).

mod block_values;
mod blocks;
#[cfg(test)]
mod blocks_tests;
mod bucket;
mod codes;
mod deferred;
mod fork;
mod format;
mod metric;
mod pipeline;
mod profile;
mod scripts;
mod top_hits;
mod values;

use crate::doc_sink::{SinkFork, SinkPart};
use crate::interrupt::Interrupt;
use crate::scorers::fill::{BLOCK_DOCS, fill};
use blocks::Block;
use dsl::aggs::{Agg, AggKind, TopHitsAgg};
use dsl::search::Hit;
use fork::RootFork;
use model::date::PatternSyntax;
use model::{Dialect, Error, ErrorKind, Result};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::{Map, Value};
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use tantivy::DocId;

/// The bucket that nothing was collected into.
pub(crate) const EMPTY: u32 = u32::MAX;

/// How many buckets may be collected at all, returned or not: what memory is for.
const MOST_COLLECTED: usize = 1 << 25;

/// The surroundings of aggregations, beside documents.
pub struct AggregationContext<'a> {
    /// Clock, limits, scripts.
    pub plan: &'a crate::context::Context<'a>,
    /// Every index of the request.
    pub views: &'a [Arc<IndexView>],
    /// The dialect of the request.
    pub dialect: Dialect,
    /// Fetches the hits of `top_hits`.
    pub fetch: &'a dyn FetchHit,
    /// Times and counts are kept of each aggregation.
    pub profile: bool,
}

impl AggregationContext<'_> {
    /// The letters of the date patterns in a request.
    pub(crate) fn pattern_syntax(&self) -> PatternSyntax {
        PatternSyntax::of(self.dialect.rules.joda_request_patterns || self.views.iter().any(|view| view.rules().joda_patterns))
    }
}

/// Turns a document into a hit.
pub trait FetchHit {
    /// The hit without its score and sort values, which are set by the caller.
    ///
    /// # Errors
    /// Unreadable files, scripts that fail.
    fn hit(&self, found: &Found, spec: &TopHitsAgg) -> Result<Hit>;
}

/// A document that is to be fetched.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its index.
    pub view: Arc<IndexView>,
    /// Its segment.
    pub segment: Arc<SegmentView>,
    /// Its number there; a nested one below `nested`.
    pub doc: DocId,
    /// Its score, or that of its root.
    pub score: f32,
}

/// A segment that is being entered.
pub(crate) struct At<'a> {
    pub(crate) cx: &'a AggregationContext<'a>,
    pub(crate) view: &'a Arc<IndexView>,
    pub(crate) segment: &'a Arc<SegmentView>,
}

/// The surroundings of rendering.
pub(crate) struct Finish<'a> {
    pub(crate) cx: &'a AggregationContext<'a>,
    buckets: usize,
}

impl Finish<'_> {
    /// Counts buckets that are about to be made.
    pub(crate) fn count(&mut self, more: usize) -> Result<()> {
        self.buckets = self.buckets.saturating_add(more);
        let most = self.cx.plan.max_buckets;
        if self.buckets > most {
            let found = most.saturating_add(1);
            let reason = format!(
                "Trying to create too many buckets. Must be less than or equal to: [{most}] but was [{found}]. This limit can be set by changing the [search.max_buckets] cluster level setting."
            );
            return Err(Error::new(ErrorKind::TooManyBuckets, reason).with("max_buckets", most));
        }
        Ok(())
    }
}

/// Refuses to collect more buckets than memory is for.
pub(crate) fn check_collected(buckets: usize) -> Result<()> {
    if buckets > MOST_COLLECTED {
        let reason = format!("[request] Data too large, data for [aggregations] would be more than [{MOST_COLLECTED}] buckets");
        return Err(Error::new(ErrorKind::CircuitBreaking, reason));
    }
    Ok(())
}

/// One aggregation while it is worked out.
pub(crate) trait Collector: Any + Send {
    /// Enters a segment.
    fn segment(&mut self, at: &At<'_>) -> Result<()>;
    /// A document falls into a bucket of the aggregation above.
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()>;
    /// Documents fall into buckets of the aggregation above: the same as one call of [`Collector::collect`] for each (search.md S24).
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        block.each(|doc, score, bucket| self.collect(doc, score, bucket))
    }
    /// Whether several threads may collect, each a part of the documents in a collector of its own.
    fn is_divisible(&self) -> bool {
        false
    }
    /// Takes over what another thread has collected of the same aggregation. `buckets`: the bucket here of each bucket of the
    /// aggregation above there (search.md S28).
    fn absorb(&mut self, _other: Box<dyn Collector>, _buckets: &[u32]) -> Result<()> {
        Err(Error::new(ErrorKind::Internal, "this aggregation is collected by one thread"))
    }
    /// All documents of all segments were collected.
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        self.subs_mut().map_or(Ok(()), |subs| subs.finish_collecting(cx))
    }
    /// The answer for one bucket of the aggregation above; [`EMPTY`] for one without documents.
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value>;
    /// The number that `order` compares: `rest` is its path behind this aggregation's name.
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64>;
    /// Needs scores itself.
    fn wants_scores(&self) -> bool {
        false
    }
    /// The prefix of `typed_keys`.
    fn wire_type(&self) -> &'static str;
    /// Its times and counts, where they are kept.
    fn profile(&self) -> Option<&profile::Times> {
        None
    }
    /// How it works, by what it has seen.
    fn debug(&self) -> Map<String, Value> {
        Map::new()
    }
    /// Its sub-aggregations.
    fn subs(&self) -> Option<&Subs> {
        None
    }
    /// Its sub-aggregations.
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        None
    }
}

fn absent(name: &str) -> Error {
    Error::new(
        ErrorKind::AggregationExecution,
        format!(
            "Invalid aggregation order path [{name}]. The provided aggregation [{name}] either does not exist, or is a pipeline aggregation and cannot be used to sort the buckets."
        ),
    )
}

struct Named {
    name: String,
    meta: Option<Map<String, Value>>,
    collector: Box<dyn Collector>,
}

/// The aggregations of one level.
pub(crate) struct Subs {
    list: Vec<Named>,
    interrupt: Interrupt,
}

/// Aggregations of one level between two looks at time and memory: a block may take 20,000 of them 20 ms.
const CHECKED_EACH: usize = 500;

impl Subs {
    /// Collectors for a level. `scope` is the nested path whose documents are collected.
    pub(crate) fn new(aggs: &[Agg], scope: Option<&str>, cx: &AggregationContext<'_>) -> Result<Subs> {
        let mut list = Vec::with_capacity(aggs.len());
        for agg in aggs.iter().filter(|agg| !matches!(agg.kind, AggKind::Pipeline { .. })) {
            cx.plan.check_cancelled()?;
            list.push(Named {
                name: agg.name.clone(),
                meta: agg.meta.clone(),
                collector: build(agg, scope, cx)?,
            });
        }
        Ok(Subs {
            list,
            interrupt: cx.plan.interrupt.clone(),
        })
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
    /// The names of the level.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.list.iter().map(|sub| sub.name.as_str()).collect()
    }
    pub(crate) fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.list.iter_mut().try_for_each(|sub| {
            at.cx.plan.check_cancelled()?;
            sub.collector.segment(at)
        })
    }
    #[inline]
    pub(crate) fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        for sub in &mut self.list {
            sub.collector.collect(doc, score, bucket)?;
        }
        Ok(())
    }
    pub(crate) fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        #[cfg(test)]
        if blocks_tests::ONE_BY_ONE.get() {
            return block.each(|doc, score, bucket| self.collect(doc, score, bucket));
        }
        for (n, part) in self.list.chunks_mut(CHECKED_EACH).enumerate() {
            if n > 0 {
                self.interrupt.check()?;
            }
            part.iter_mut().try_for_each(|sub| sub.collector.collect_block(block))?;
        }
        Ok(())
    }
    /// See [`Collector::is_divisible`].
    pub(crate) fn are_divisible(&self) -> bool {
        self.list.iter().all(|sub| sub.collector.is_divisible())
    }
    /// See [`Collector::absorb`].
    pub(crate) fn absorb(&mut self, other: Subs, buckets: &[u32]) -> Result<()> {
        assert_eq!(
            self.names(),
            other.names(),
            "search.md S28: all threads collect the aggregations of one request"
        );
        let mut pairs = self.list.iter_mut().zip(other.list);
        pairs.try_for_each(|(own, other)| own.collector.absorb(other.collector, buckets))
    }
    pub(crate) fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        self.list.iter_mut().try_for_each(|sub| sub.collector.finish_collecting(cx))
    }
    pub(crate) fn finish(&mut self, bucket: u32, out: &mut Map<String, Value>, to: &mut Finish<'_>) -> Result<()> {
        to.cx.plan.check_cancelled()?;
        for sub in &mut self.list {
            let mut value = sub.collector.finish(bucket, to)?;
            if let (Some(meta), Some(object)) = (&sub.meta, value.as_object_mut()) {
                let mut with = Map::new();
                with.insert("meta".into(), Value::Object(meta.clone()));
                with.append(object);
                *object = with;
            }
            out.insert(sub.name.clone(), value);
        }
        Ok(())
    }
    /// The number that `order` compares at the end of a path.
    pub(crate) fn order(&mut self, bucket: u32, path: &[&str]) -> Result<f64> {
        let Some((name, rest)) = path.split_first() else {
            return Err(absent(""));
        };
        match self.list.iter_mut().find(|sub| sub.name == *name) {
            Some(sub) => sub.collector.order(bucket, rest),
            None => Err(absent(name)),
        }
    }
    /// Refuses an order's path that leads nowhere.
    pub(crate) fn check_path(&self, path: &[&str]) -> Result<()> {
        let Some((name, rest)) = path.split_first() else {
            return Ok(());
        };
        match self.list.iter().find(|sub| sub.name == *name) {
            Some(sub) => sub
                .collector
                .subs()
                .filter(|subs| !subs.is_empty() && !rest.is_empty())
                .map_or(Ok(()), |subs| match rest {
                    ["doc_count" | "_count"] => Ok(()),
                    rest => subs.check_path(rest),
                }),
            None => Err(absent(name)),
        }
    }
    fn wants_scores(&self) -> bool {
        self.list
            .iter()
            .any(|sub| sub.collector.wants_scores() || sub.collector.subs().is_some_and(Subs::wants_scores))
    }
}

/// Parts of an order's path: `a>b.c`, where names may have dots as long as they are found.
pub(crate) fn order_path<'a>(path: &'a str, aggs: &Subs) -> Vec<&'a str> {
    let mut out = Vec::new();
    let mut level = Some(aggs);
    for part in path.split('>') {
        let known = |name: &str| level.and_then(|subs| subs.list.iter().find(|sub| sub.name == name));
        let (name, rest) = if known(part).is_some() {
            (part, None)
        } else if let Some((name, rest)) = part.split_once('[') {
            (name, Some(rest.trim_end_matches(']')))
        } else {
            part.split_once('.').map_or((part, None), |(name, rest)| (name, Some(rest)))
        };
        level = known(name).and_then(|sub| sub.collector.subs());
        out.push(name);
        out.extend(rest);
    }
    out
}

fn build(agg: &Agg, scope: Option<&str>, cx: &AggregationContext<'_>) -> Result<Box<dyn Collector>> {
    if !cx.profile {
        return build_plain(agg, scope, cx);
    }
    let started = std::time::Instant::now();
    let inner = build_plain(agg, scope, cx)?;
    Ok(Box::new(profile::Profiled::new(inner, agg, cx, started.elapsed())))
}

fn build_plain(agg: &Agg, scope: Option<&str>, cx: &AggregationContext<'_>) -> Result<Box<dyn Collector>> {
    if let AggKind::Opaque { kind, .. } = &agg.kind {
        return Err(Error::parsing(format!("Unknown aggregation type [{kind}]"), 1, 1));
    }
    if let Some(collector) = metric::build(agg, cx)? {
        return Ok(collector);
    }
    if let Some(collector) = top_hits::build(agg, scope, cx)? {
        return Ok(collector);
    }
    bucket::build(agg, scope, cx)
}

/// All aggregations of a request.
pub struct Root<'a> {
    cx: &'a AggregationContext<'a>,
    aggs: &'a [Agg],
    subs: Subs,
    globals: Vec<Subs>,
    docs: u64,
    /// Documents between two looks at time and memory: the fewer, the more aggregations see each.
    look_each: u64,
}

impl<'a> Root<'a> {
    /// Collectors for a request's aggregations.
    ///
    /// # Errors
    /// Fields that an aggregation cannot work on, scripts that do not compile.
    pub fn new(aggs: &'a [Agg], cx: &'a AggregationContext<'a>) -> Result<Root<'a>> {
        // Global aggregations see other documents: they are fed apart.
        aggs.iter()
            .try_for_each(|agg| no_global_inside(agg, cx.dialect.rules.aggregations_fail_at_run))?;
        let (global, plain): (Vec<Agg>, Vec<Agg>) = aggs.iter().cloned().partition(|agg| agg.kind == AggKind::Global);
        let subs = Subs::new(&plain, None, cx)?;
        let globals = global
            .iter()
            .map(|agg| Subs::new(std::slice::from_ref(agg), None, cx))
            .collect::<Result<_>>()?;
        Ok(Root {
            cx,
            aggs,
            subs,
            globals,
            docs: 0,
            look_each: ((1 << 14) / (aggs.len() as u64 + 1)).max(1),
        })
    }

    /// Whether [`Root::collect_block`] needs real scores.
    pub fn wants_scores(&self) -> bool {
        self.subs.wants_scores()
    }

    /// Enters a segment.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn segment(&mut self, view: &IndexView, segment: &SegmentView) -> Result<()> {
        let views: &'a [Arc<IndexView>] = self.cx.views;
        let Some(view) = views.iter().find(|known| known.no == view.no) else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("index [{}] is not part of the request", view.name),
            ));
        };
        let Some(segment) = view.segments.iter().find(|known| known.id == segment.id) else {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("segment [{}] is not part of the request", segment.id),
            ));
        };
        let at = At {
            cx: self.cx,
            view,
            segment,
        };
        self.subs.segment(&at)?;
        if self.globals.is_empty() {
            return Ok(());
        }
        let all = crate::clauses::plan(view, None, None, self.cx.plan)?;
        for global in &mut self.globals {
            global.segment(&at)?;
            let mut docs = all.scorer(segment)?;
            let mut block = [0; BLOCK_DOCS];
            loop {
                let len = fill(docs.as_mut(), &mut block);
                global.collect_block(&Block::of(&block[..len], &[1.0; BLOCK_DOCS][..len], 0))?;
                if len < BLOCK_DOCS {
                    break;
                }
                at.cx.plan.check_cancelled()?;
            }
        }
        Ok(())
    }

    /// Matches of the current segment, in order, with the score of each, or with none where nobody reads them.
    ///
    /// # Errors
    /// Scripts that fail, too many buckets, cancellation.
    pub fn collect_block(&mut self, docs: &[DocId], scores: &[f32]) -> Result<()> {
        debug_assert!(
            scores.is_empty() || scores.len() == docs.len(),
            "search.md S24: each document has its score"
        );
        let mut from = 0;
        while from < docs.len() {
            let to = docs.len().min(from + (self.look_each - self.docs % self.look_each) as usize);
            self.docs += (to - from) as u64;
            if self.docs.is_multiple_of(self.look_each) {
                self.cx.plan.check_cancelled()?;
            }
            let scores = scores.get(from..to).unwrap_or_default();
            self.subs.collect_block(&Block::of(&docs[from..to], scores, 0))?;
            from = to;
        }
        Ok(())
    }

    /// The answer, by name.
    ///
    /// # Errors
    /// Too many buckets, scripts that fail, paths that lead nowhere.
    pub fn finish(&mut self) -> Result<Map<String, Value>> {
        let mut parts = Map::new();
        let mut to = Finish { cx: self.cx, buckets: 0 };
        for level in std::iter::once(&mut self.subs).chain(&mut self.globals) {
            level.finish_collecting(self.cx)?;
            level.finish(0, &mut parts, &mut to)?;
        }
        let mut out = Map::new();
        for agg in self.aggs {
            if let Some(value) = parts.remove(&agg.name) {
                out.insert(agg.name.clone(), value);
            }
        }
        debug_assert!(
            parts.is_empty(),
            "each part of an answer is of an aggregation of the request: {parts:?}"
        );
        pipeline::run(self.aggs, &mut out, self.cx)?;
        if self.cx.dialect.typed_keys {
            let mut names = HashMap::new();
            for level in std::iter::once(&self.subs).chain(&self.globals) {
                type_names(level, "", &mut names);
            }
            out = typed_keys(out, self.aggs, "", &names);
        }
        Ok(out)
    }
}

impl Root<'_> {
    /// `profile` of the aggregations, as far as one index (by its place in the request) has gone through them.
    pub fn profile(&self, view: usize) -> Value {
        let levels = std::iter::once(&self.subs).chain(&self.globals);
        levels.flat_map(|level| profile::render(level, view)).collect()
    }
}

fn type_names(subs: &Subs, above: &str, out: &mut HashMap<String, &'static str>) {
    for sub in &subs.list {
        let path = format!("{above}>{}", sub.name);
        if let Some(inner) = sub.collector.subs() {
            type_names(inner, &path, out);
        }
        out.insert(path, sub.collector.wire_type());
    }
}

/// Renames aggregations to `type#name`, all the way down.
fn typed_keys(level: Map<String, Value>, aggs: &[Agg], above: &str, names: &HashMap<String, &'static str>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, mut value) in level {
        let Some(agg) = aggs.iter().find(|agg| agg.name == key) else {
            out.insert(key, value);
            continue;
        };
        let path = format!("{above}>{key}");
        let kind = match &agg.kind {
            AggKind::Pipeline { kind, .. } => pipeline::typed_keys_prefix(kind),
            _ => names.get(&path).copied().unwrap_or_default(),
        };
        let rename = |value: &mut Value| {
            if let Value::Object(map) = value {
                *map = typed_keys(std::mem::take(map), &agg.subs, &path, names);
            }
        };
        if !agg.subs.is_empty() {
            match value.get_mut("buckets") {
                Some(Value::Array(list)) => list.iter_mut().for_each(rename),
                Some(Value::Object(map)) => map.values_mut().for_each(rename),
                _ => rename(&mut value),
            }
        }
        out.insert(format!("{kind}#{key}"), value);
    }
    out
}

impl crate::doc_sink::DocSink for Root<'_> {
    fn segment(&mut self, view: &IndexView, segment: &SegmentView) -> Result<()> {
        Root::segment(self, view, segment)
    }
    fn collect_block(&mut self, docs: &[DocId], scores: &[f32]) -> Result<()> {
        Root::collect_block(self, docs, scores)
    }
    fn wants_scores(&self) -> bool {
        Root::wants_scores(self)
    }
    fn enters_all(&self) -> bool {
        !self.globals.is_empty()
    }
    fn fork(&self) -> Option<Box<dyn SinkFork>> {
        let is_divisible = !self.cx.profile && self.globals.is_empty() && self.subs.are_divisible();
        is_divisible.then(|| Box::new(RootFork::new(self.aggs, self.cx)) as Box<dyn SinkFork>)
    }
    fn absorb(&mut self, part: SinkPart) -> Result<()> {
        let part = part.downcast::<Subs>();
        let part = part.map_err(|_| Error::new(ErrorKind::Internal, "a part of aggregations has collectors"))?;
        // All documents fall into one bucket at the top.
        self.subs.absorb(*part, &[0])
    }
}

/// Refuses `global` inside other aggregations; their depth is bounded by the parser.
fn no_global_inside(agg: &Agg, fails_at_run: bool) -> Result<()> {
    agg.subs.iter().try_for_each(|inner| {
        if inner.kind == AggKind::Global {
            return Err(misplaced_error(fails_at_run, format!(
                "Aggregation [{}] cannot have a global sub-aggregation [{}]. Global aggregations can only be defined as top level \
                 aggregations",
                agg.name, inner.name
            )));
        }
        no_global_inside(inner, fails_at_run)
    })
}

/// An aggregation where none of its kind can be: its type says whether the parser or the run found out.
fn misplaced_error(fails_at_run: bool, reason: impl Into<String>) -> Error {
    if fails_at_run {
        Error::new(model::ErrorKind::AggregationExecution, reason)
    } else {
        Error::illegal(reason)
    }
}
