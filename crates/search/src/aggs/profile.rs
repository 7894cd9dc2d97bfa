//! `profile` of aggregations: how long each took at what, and how often, by index.
//!
//! A [`Profiled`] stands before a collector and looks at the clock around each of its calls; times of an aggregation
//! have those of what is below it in them. Names of collectors are those that readers of such profiles know.

use super::blocks::Block;
use super::{AggregationContext, At, Collector, Finish, Subs};
use dsl::aggs::{Agg, AggKind};
use model::Result;
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tantivy::DocId;

/// The time of one kind of call, summed.
#[derive(Clone, Copy, Default)]
struct CollectTimer {
    nanos: u64,
    count: u64,
}

impl CollectTimer {
    fn add(&mut self, took: Duration) {
        self.add_many(took, 1);
    }
    fn add_many(&mut self, took: Duration, count: usize) {
        self.nanos += u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.count += count as u64;
    }
}

/// The times of one index.
#[derive(Clone, Copy, Default)]
struct Calls {
    initialize: CollectTimer,
    build_leaf_collector: CollectTimer,
    collect: CollectTimer,
    post_collection: CollectTimer,
    build_aggregation: CollectTimer,
}

impl Calls {
    fn all(&self) -> [(&'static str, CollectTimer); 6] {
        [
            ("initialize", self.initialize),
            ("build_leaf_collector", self.build_leaf_collector),
            ("collect", self.collect),
            ("post_collection", self.post_collection),
            ("build_aggregation", self.build_aggregation),
            // Parts of several indices are not put together: one collector goes through all of them.
            ("reduce", CollectTimer::default()),
        ]
    }
}

/// The times of one collector.
pub(crate) struct Times {
    kind: &'static str,
    name: String,
    /// By the place of the index in the request.
    views: Vec<Calls>,
}

/// A collector between two looks at the clock.
pub(super) struct Profiled {
    inner: Box<dyn Collector>,
    times: Times,
    /// The numbers of the indices, in order.
    numbers: Vec<u32>,
    view: usize,
}

impl Profiled {
    pub(super) fn new(inner: Box<dyn Collector>, agg: &Agg, cx: &AggregationContext<'_>, took: Duration) -> Profiled {
        let numbers: Vec<u32> = cx.views.iter().map(|view| view.no).collect();
        let mut views = vec![Calls::default(); numbers.len().max(1)];
        views.iter_mut().for_each(|calls| calls.initialize.add(took));
        Profiled {
            times: Times {
                kind: if is_unmapped(&agg.kind, cx) {
                    "NonCollectingAggregator"
                } else {
                    kind(&agg.kind, inner.wire_type())
                },
                name: agg.name.clone(),
                views,
            },
            inner,
            numbers,
            view: 0,
        }
    }
}

impl Collector for Profiled {
    fn segment(&mut self, at: &At<'_>) -> Result<()> {
        self.view = self.numbers.iter().position(|no| *no == at.view.no).unwrap_or(0);
        let started = Instant::now();
        let done = self.inner.segment(at);
        self.times.views[self.view].build_leaf_collector.add(started.elapsed());
        done
    }
    fn collect(&mut self, doc: DocId, score: f32, bucket: u32) -> Result<()> {
        let started = Instant::now();
        let done = self.inner.collect(doc, score, bucket);
        self.times.views[self.view].collect.add(started.elapsed());
        done
    }
    fn collect_block(&mut self, block: &Block<'_>) -> Result<()> {
        let started = Instant::now();
        let done = self.inner.collect_block(block);
        self.times.views[self.view]
            .collect
            .add_many(started.elapsed(), block.docs.len());
        done
    }
    fn finish_collecting(&mut self, cx: &AggregationContext<'_>) -> Result<()> {
        let started = Instant::now();
        let done = self.inner.finish_collecting(cx);
        let took = started.elapsed();
        self.times.views.iter_mut().for_each(|calls| calls.post_collection.add(took));
        done
    }
    fn finish(&mut self, bucket: u32, to: &mut Finish<'_>) -> Result<Value> {
        let started = Instant::now();
        let done = self.inner.finish(bucket, to);
        let took = started.elapsed();
        self.times
            .views
            .iter_mut()
            .for_each(|calls| calls.build_aggregation.add(took));
        done
    }
    fn order(&mut self, bucket: u32, rest: &[&str]) -> Result<f64> {
        self.inner.order(bucket, rest)
    }
    fn wants_scores(&self) -> bool {
        self.inner.wants_scores()
    }
    fn wire_type(&self) -> &'static str {
        self.inner.wire_type()
    }
    fn profile(&self) -> Option<&Times> {
        Some(&self.times)
    }
    fn debug(&self) -> Map<String, Value> {
        self.inner.debug()
    }
    fn subs(&self) -> Option<&Subs> {
        self.inner.subs()
    }
    fn subs_mut(&mut self) -> Option<&mut Subs> {
        self.inner.subs_mut()
    }
}

/// The aggregations of a level, as one index has gone through them.
pub(super) fn render(subs: &Subs, view: usize) -> Vec<Value> {
    let one = |collector: &dyn Collector| {
        let times = collector.profile()?;
        let calls = times.views.get(view)?;
        let mut breakdown = Map::new();
        let mut all = 0;
        for (name, clock) in calls.all() {
            breakdown.insert(name.to_owned(), clock.nanos.into());
            breakdown.insert(format!("{name}_count"), clock.count.into());
            all += clock.nanos;
        }
        let mut out = Map::new();
        out.insert("type".into(), times.kind.into());
        out.insert("description".into(), times.name.as_str().into());
        out.insert("time_in_nanos".into(), json!(all));
        out.insert("breakdown".into(), Value::Object(breakdown));
        let debug = collector.debug();
        if !debug.is_empty() {
            out.insert("debug".into(), Value::Object(debug));
        }
        let children = collector.subs().map(|subs| render(subs, view)).unwrap_or_default();
        if !children.is_empty() {
            out.insert("children".into(), Value::Array(children));
        }
        Some(Value::Object(out))
    };
    subs.list.iter().filter_map(|sub| one(sub.collector.as_ref())).collect()
}

/// Terms of a field that no index has.
fn is_unmapped(kind: &AggKind, cx: &AggregationContext<'_>) -> bool {
    let source = match kind {
        AggKind::Terms(terms) => &terms.source,
        AggKind::RareTerms(terms) => &terms.source,
        _ => return false,
    };
    let Some(field) = source.field.as_deref().filter(|field| !field.starts_with('_')) else {
        return false;
    };
    let known =
        |view: &std::sync::Arc<segment::searchable::IndexView>| crate::fields::target::Target::with_values(view, field).is_some();
    source.missing.is_none() && !cx.views.iter().any(known)
}

/// The name of an aggregation's class in a profile; `typed` is its name in `typed_keys`.
fn kind(kind: &AggKind, typed: &str) -> &'static str {
    match kind {
        AggKind::Terms(terms) if typed == "sterms" => {
            let by_map = terms.execution_hint.as_deref() == Some("map") || terms.source.script.is_some();
            if by_map {
                "MapStringTermsAggregator"
            } else {
                "GlobalOrdinalsStringTermsAggregator"
            }
        }
        AggKind::Terms(_) => "NumericTermsAggregator",
        AggKind::SignificantTerms(_) if typed == "sigsterms" => "GlobalOrdinalsStringTermsAggregator",
        AggKind::SignificantTerms(_) => "NumericTermsAggregator",
        AggKind::RareTerms(_) if typed == "srareterms" => "StringRareTermsAggregator",
        AggKind::RareTerms(_) => "LongRareTermsAggregator",
        AggKind::MultiTerms(_) => "MultiTermsAggregator",
        AggKind::Range { .. } | AggKind::DateRange { .. } | AggKind::GeoDistance(_) => "RangeAggregator",
        AggKind::IpRange { .. } => "BinaryRangeAggregator",
        AggKind::Histogram(_) => "NumericHistogramAggregator",
        AggKind::DateHistogram(_) => "DateHistogramAggregator",
        AggKind::AutoDateHistogram(_) => "AutoDateHistogramAggregator",
        AggKind::Filter(_) => "FilterAggregator",
        AggKind::Filters { .. } => "FiltersAggregator",
        AggKind::Global => "GlobalAggregator",
        AggKind::Missing { .. } => "MissingAggregator",
        AggKind::Nested { .. } => "NestedAggregator",
        AggKind::ReverseNested { .. } => "ReverseNestedAggregator",
        AggKind::Children { .. } => "ParentToChildrenAggregator",
        AggKind::Parent { .. } => "ChildrenToParentAggregator",
        AggKind::Composite { .. } => "CompositeAggregator",
        AggKind::SignificantText(_) => "SignificantTextAggregator",
        AggKind::VariableWidth(_) => "VariableWidthHistogramAggregator",
        AggKind::DiversifiedSampler(_) => "DiversifiedOrdinalsSamplerAggregator",
        AggKind::Sampler { .. } => "SamplerAggregator",
        AggKind::AdjacencyMatrix { .. } => "AdjacencyMatrixAggregator",
        AggKind::Grid(grid) if grid.tiles => "GeoTileGridAggregator",
        AggKind::Grid(_) => "GeoHashGridAggregator",
        AggKind::GeoBounds { .. } => "GeoBoundsAggregator",
        AggKind::GeoCentroid { .. } => "GeoCentroidAggregator",
        AggKind::MatrixStats(_) => "MatrixStatsAggregator",
        AggKind::ScriptedMetric(_) => "ScriptedMetricAggregator",
        AggKind::TopHits(_) => "TopHitsAggregator",
        AggKind::TopMetrics { .. } => "TopMetricsAggregator",
        AggKind::WeightedAvg { .. } => "WeightedAvgAggregator",
        AggKind::Cardinality { .. } => "CardinalityAggregator",
        AggKind::Percentiles { hdr: Some(_), .. } => "HDRPercentilesAggregator",
        AggKind::Percentiles { .. } => "TDigestPercentilesAggregator",
        AggKind::PercentileRanks { hdr: Some(_), .. } => "HDRPercentileRanksAggregator",
        AggKind::PercentileRanks { .. } => "TDigestPercentileRanksAggregator",
        AggKind::ExtendedStats { .. } => "ExtendedStatsAggregator",
        AggKind::Metric(..) => match typed {
            "avg" => "AvgAggregator",
            "sum" => "SumAggregator",
            "min" => "MinAggregator",
            "max" => "MaxAggregator",
            "value_count" => "ValueCountAggregator",
            "median_absolute_deviation" => "MedianAbsoluteDeviationAggregator",
            _ => "StatsAggregator",
        },
        AggKind::Pipeline { .. } | AggKind::Opaque { .. } => "Aggregator",
    }
}
