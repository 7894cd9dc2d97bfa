//! Aggregations as values. Answers are JSON made by the engine's collectors, in the shapes of Elasticsearch.

mod combined;
mod composite;
mod filters;
mod grid;
mod histogram;
mod metric;
mod of_2015;
mod options;
mod percentiles;
mod pipeline;
mod places;
mod ranges;
mod render;
mod sampled;
mod scripted;
mod significant;
mod single;
mod table;
mod terms;
mod top;
mod tree;
mod value_source;

pub use combined::{MatrixAgg, MatrixMode, MultiTermsAgg};
pub use composite::CompositeSource;
pub use grid::GridAgg;
pub use histogram::{AutoDateAgg, DateHistogramAgg, DateInterval, HistogramAgg};
pub use metric::Metric;
pub use options::{BucketOrder, IncludeExclude};
pub use places::GeoDistanceAgg;
pub use ranges::RangeBucket;
pub use render::render;
pub use sampled::{DiversifiedAgg, VariableWidthAgg};
pub use scripted::ScriptedAgg;
pub use significant::{Significance, SignificantAgg, SignificantTextAgg};
pub use terms::{RareTermsAgg, TermsAgg};
pub use top::TopHitsAgg;
pub use tree::parse;
pub use value_source::no_value_source;

use crate::query::hits::Sort;
use crate::query::{GeoPlace, Query, script_source::ScriptSource};
use serde_json::{Map, Value};

/// A named aggregation with those below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Agg {
    pub name: String,
    pub kind: AggKind,
    pub subs: Vec<Agg>,
    /// Returned as it came.
    pub meta: Option<Map<String, Value>>,
}

/// Where the numbers or terms come from.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ValueSource {
    pub field: Option<String>,
    pub script: Option<ScriptSource>,
    pub missing: Option<Value>,
    pub format: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum AggKind {
    Terms(TermsAgg),
    Range {
        source: ValueSource,
        ranges: Vec<RangeBucket>,
        keyed: bool,
    },
    DateRange {
        source: ValueSource,
        ranges: Vec<RangeBucket>,
        keyed: bool,
        time_zone: Option<String>,
    },
    IpRange {
        source: ValueSource,
        ranges: Vec<RangeBucket>,
        keyed: bool,
    },
    Histogram(HistogramAgg),
    DateHistogram(DateHistogramAgg),
    Filter(Box<Query>),
    Filters {
        filters: Vec<(String, Query)>,
        keyed: bool,
        other_bucket_key: Option<String>,
    },
    Global,
    Missing {
        field: String,
        missing: Option<Value>,
    },
    Nested {
        path: String,
    },
    ReverseNested {
        path: Option<String>,
    },
    Children {
        child_type: String,
    },
    Parent {
        child_type: String,
    },
    Composite {
        size: usize,
        sources: Vec<CompositeSource>,
        after: Option<Map<String, Value>>,
    },
    Sampler {
        shard_size: usize,
    },
    /// The best documents, but no more than some with the same value.
    DiversifiedSampler(Box<DiversifiedAgg>),
    SignificantTerms(Box<SignificantAgg>),
    /// Words of the sources of texts that are more frequent here than elsewhere.
    SignificantText(Box<SignificantTextAgg>),
    /// Values that few documents have.
    RareTerms(Box<RareTermsAgg>),
    /// A bucket for each combination of the values of several fields.
    MultiTerms(Box<MultiTermsAgg>),
    /// Buckets by the distance from a place.
    GeoDistance(Box<GeoDistanceAgg>),
    /// The smallest box around places.
    GeoBounds {
        field: String,
        missing: Option<GeoPlace>,
        /// It may lie across the antimeridian.
        wrap_longitude: bool,
    },
    /// The middle of places.
    GeoCentroid {
        field: String,
        missing: Option<GeoPlace>,
    },
    /// Moments of fields, and how they vary together.
    MatrixStats(Box<MatrixAgg>),
    /// A bucket for each filter and for each two that match together.
    AdjacencyMatrix {
        filters: Vec<(String, Query)>,
        separator: String,
        show_only_intersecting: bool,
    },
    /// `geotile_grid`, `geohash_grid`.
    Grid(GridAgg),
    AutoDateHistogram(AutoDateAgg),
    /// Buckets of numbers that lie near each other.
    VariableWidth(Box<VariableWidthAgg>),
    ScriptedMetric(Box<ScriptedAgg>),
    Metric(Metric, ValueSource),
    ExtendedStats {
        source: ValueSource,
        sigma: f64,
    },
    Cardinality {
        source: ValueSource,
        precision_threshold: Option<u64>,
    },
    Percentiles {
        source: ValueSource,
        percents: Vec<f64>,
        keyed: bool,
        /// The digits that are distinguished, as in HDR histograms; exact without.
        hdr: Option<u8>,
    },
    PercentileRanks {
        source: ValueSource,
        values: Vec<f64>,
        keyed: bool,
        hdr: Option<u8>,
    },
    WeightedAvg {
        value: ValueSource,
        weight: ValueSource,
    },
    TopHits(Box<TopHitsAgg>),
    TopMetrics {
        metrics: Vec<String>,
        sort: Vec<Sort>,
        size: usize,
    },
    /// Pipelines are worked out after the tree is built.
    Pipeline {
        kind: String,
        buckets_path: Value,
        body: Map<String, Value>,
    },
    /// An aggregation that no engine here knows; refused by name.
    Opaque {
        kind: String,
        body: Value,
    },
}

impl AggKind {
    /// Where its values come from, if they come from one field or script.
    pub(crate) fn source(&self) -> Option<&ValueSource> {
        Some(match self {
            AggKind::Terms(terms) => &terms.source,
            AggKind::SignificantTerms(significant) => &significant.terms.source,
            AggKind::RareTerms(rare) => &rare.source,
            AggKind::Range { source, .. }
            | AggKind::DateRange { source, .. }
            | AggKind::IpRange { source, .. }
            | AggKind::Metric(_, source)
            | AggKind::ExtendedStats { source, .. }
            | AggKind::Cardinality { source, .. }
            | AggKind::Percentiles { source, .. }
            | AggKind::PercentileRanks { source, .. } => source,
            AggKind::Histogram(histogram) => &histogram.source,
            AggKind::DateHistogram(histogram) => &histogram.source,
            AggKind::AutoDateHistogram(auto) => &auto.source,
            AggKind::VariableWidth(variable) => &variable.source,
            AggKind::DiversifiedSampler(sampler) => &sampler.source,
            _ => return None,
        })
    }

    /// How its buckets are ordered, where that was asked for.
    pub fn orders(&self) -> &[BucketOrder] {
        match self {
            AggKind::Terms(terms) => &terms.order,
            AggKind::MultiTerms(terms) => &terms.order,
            AggKind::Histogram(histogram) => &histogram.order,
            AggKind::DateHistogram(histogram) => &histogram.order,
            _ => &[],
        }
    }
}
