//! Aggregations that several threads collect: each has collectors of its own for a part of the documents.
//!
//! Not here: how collectors are put together ([`Collector::absorb`](super::Collector::absorb)), which documents a thread takes (`collect`).

use super::{AggregationContext, Collector, FetchHit, Found, Root};
use crate::context::{Context, Scripts};
use crate::doc_sink::{DocSink, SinkFork, SinkPart};
use crate::interrupt::Interrupt;
use dsl::aggs::{Agg, TopHitsAgg};
use dsl::search::Hit;
use model::{Dialect, Error, ErrorKind, Result};
use segment::searchable::IndexView;
use std::any::Any;
use std::sync::Arc;

/// What a request's aggregations are made from on another thread.
pub(super) struct RootFork {
    aggs: Vec<Agg>,
    views: Vec<Arc<IndexView>>,
    dialect: Dialect,
    limits: Limits,
    scripts: Scripts,
    types: Vec<String>,
    interrupt: Interrupt,
}

/// The plain values of a [`Context`].
struct Limits {
    now_ms: i64,
    max_clause_count: usize,
    max_buckets: usize,
    max_phrase_ways: usize,
    see: engine::See,
    bm25_factor: f32,
    opensearch: bool,
    lost_sorts: bool,
    expensive: bool,
}

impl RootFork {
    pub(super) fn new(aggs: &[Agg], cx: &AggregationContext<'_>) -> RootFork {
        let plan = cx.plan;
        RootFork {
            aggs: aggs.to_vec(),
            views: cx.views.to_vec(),
            dialect: cx.dialect,
            limits: Limits {
                now_ms: plan.now_ms,
                max_clause_count: plan.max_clause_count,
                max_buckets: plan.max_buckets,
                max_phrase_ways: plan.max_phrase_ways,
                see: plan.see,
                bm25_factor: plan.bm25_factor,
                opensearch: plan.opensearch,
                lost_sorts: plan.lost_sorts,
                expensive: plan.expensive,
            },
            scripts: plan.scripts.clone(),
            types: plan.types.to_vec(),
            interrupt: plan.interrupt.clone(),
        }
    }
}

impl SinkFork for RootFork {
    fn collect(&self, feed: &mut dyn FnMut(&mut dyn DocSink) -> Result<()>) -> Result<SinkPart> {
        let limits = &self.limits;
        let plan = Context {
            phases: Default::default(),
            now_ms: limits.now_ms,
            max_clause_count: limits.max_clause_count,
            max_buckets: limits.max_buckets,
            max_phrase_ways: limits.max_phrase_ways,
            scripts: self.scripts.clone(),
            see: limits.see,
            interrupt: self.interrupt.clone(),
            helpers: None,
            bm25_factor: limits.bm25_factor,
            opensearch: limits.opensearch,
            lost_sorts: limits.lost_sorts,
            expensive: limits.expensive,
            types: &self.types,
            profile: false.into(),
            filters_score: false.into(),
        };
        let cx = AggregationContext {
            plan: &plan,
            views: &self.views,
            dialect: self.dialect,
            fetch: &NoHits,
            profile: false,
        };
        let mut root = Root::new(&self.aggs, &cx)?;
        feed(&mut root)?;
        Ok(Box::new(root.subs))
    }
}

/// Hits are read at the end, on the thread of the search.
struct NoHits;

impl FetchHit for NoHits {
    fn hit(&self, _found: &Found, _spec: &TopHitsAgg) -> Result<Hit> {
        Err(Error::new(
            ErrorKind::Internal,
            "no hit is read while documents are collected",
        ))
    }
}

/// A collector that another thread made of the same aggregation.
///
/// # Errors
/// It is of another kind.
pub(super) fn same_kind<C: Collector>(other: Box<dyn Collector>) -> Result<C> {
    let other: Box<dyn Any> = other;
    let other = other.downcast::<C>().map(|other| *other);
    other.map_err(|_| Error::new(ErrorKind::Internal, "the collectors of two threads are of two kinds"))
}
