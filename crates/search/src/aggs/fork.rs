//! Aggregations that several threads collect: each has collectors of its own for a part of the documents.
//!
//! Not here: how collectors are put together ([`Collector::absorb`](super::Collector::absorb)), which documents a thread takes (`collect`).

use super::{AggregationContext, Collector, FetchHit, Found, Root};
use crate::context::Context;
use crate::doc_sink::{DocSink, SinkFork, SinkPart};
use dsl::aggs::{Agg, TopHitsAgg};
use dsl::search::Hit;
use model::{Dialect, Error, ErrorKind, Result};
use segment::searchable::IndexView;
use std::any::Any;
use std::sync::Arc;

/// The parts of a request that another thread makes its aggregations from.
pub(super) struct RootFork {
    aggs: Vec<Agg>,
    views: Vec<Arc<IndexView>>,
    dialect: Dialect,
    plan: Context<'static>,
}

impl RootFork {
    pub(super) fn new(aggs: &[Agg], cx: &AggregationContext<'_>) -> RootFork {
        RootFork {
            aggs: aggs.to_vec(),
            views: cx.views.to_vec(),
            dialect: cx.dialect,
            plan: cx.plan.detach(),
        }
    }
}

impl SinkFork for RootFork {
    fn collect(&self, feed: &mut dyn FnMut(&mut dyn DocSink) -> Result<()>) -> Result<SinkPart> {
        let cx = AggregationContext {
            plan: &self.plan,
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
