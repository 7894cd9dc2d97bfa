//! Aggregations as values. Answers are JSON made by the engine's collectors, in the shapes of Elasticsearch.

mod bucket;
mod combined;
mod metric;
mod of_2015;
mod pipeline;
mod places;
mod render;
mod sampled;
mod significant;
mod tree;
mod value_source;

pub use render::render;
pub use tree::parse;

use crate::query::hits::{FieldAndFormat, Highlight, Sort, SourceSpec};
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
        /// So many digits are told apart, as in HDR histograms; exact without.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    Avg,
    Sum,
    Min,
    Max,
    Stats,
    ValueCount,
    MedianAbsoluteDeviation,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TermsAgg {
    pub source: ValueSource,
    pub size: usize,
    pub shard_size: Option<usize>,
    pub min_doc_count: u64,
    /// Rarer terms are dropped before the rest is sorted.
    pub shard_min_doc_count: u64,
    pub order: Vec<BucketOrder>,
    pub include: Option<IncludeExclude>,
    pub exclude: Option<IncludeExclude>,
    pub show_term_doc_count_error: bool,
    pub collect_mode: Option<String>,
    pub execution_hint: Option<String>,
    pub value_type: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SignificantAgg {
    pub terms: TermsAgg,
    pub measure: Significance,
    /// What terms are compared with; all documents without.
    pub background: Option<Query>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SignificantTextAgg {
    pub field: String,
    /// Where in the source its text stands; at the field without.
    pub source_fields: Option<Vec<String>>,
    /// Sequences of words that were seen before do not count.
    pub filter_duplicate_text: bool,
    pub size: usize,
    pub shard_size: Option<usize>,
    pub min_doc_count: u64,
    pub shard_min_doc_count: u64,
    pub include: Option<IncludeExclude>,
    pub exclude: Option<IncludeExclude>,
    pub measure: Significance,
    pub background: Option<Query>,
}

/// How it is measured that a term is more frequent here than elsewhere. `negatives`: terms that are rarer count too;
/// `superset`: the documents here are among those they are compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Significance {
    /// The change of the share, absolute times relative.
    Jlh,
    MutualInformation {
        negatives: bool,
        superset: bool,
    },
    ChiSquare {
        negatives: bool,
        superset: bool,
    },
    /// Google's normalized distance.
    Gnd {
        superset: bool,
    },
    /// The share of a term's documents that are here.
    Percentage,
    /// What a script makes of the four counts.
    Script(ScriptSource),
}

#[derive(Clone, Debug, PartialEq)]
pub struct DiversifiedAgg {
    pub source: ValueSource,
    pub shard_size: usize,
    pub max_docs_per_value: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct VariableWidthAgg {
    pub source: ValueSource,
    pub buckets: usize,
    /// Buckets that are kept before the nearest of them are merged.
    pub shard_size: usize,
    /// Values that wait before they are put into buckets.
    pub initial_buffer: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RareTermsAgg {
    pub source: ValueSource,
    /// No more documents than these.
    pub max_doc_count: u64,
    pub include: Option<IncludeExclude>,
    pub exclude: Option<IncludeExclude>,
    pub value_type: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MultiTermsAgg {
    /// At least two, each with the type of its values where the field is not mapped.
    pub sources: Vec<(ValueSource, Option<String>)>,
    pub size: usize,
    pub shard_size: Option<usize>,
    pub min_doc_count: u64,
    pub shard_min_doc_count: u64,
    pub order: Vec<BucketOrder>,
    pub show_term_doc_count_error: bool,
    pub collect_mode: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GeoDistanceAgg {
    pub field: String,
    pub origin: GeoPlace,
    /// What bounds are given in.
    pub unit: String,
    /// One of them.
    pub metres: f64,
    /// Along the sphere, not the plane; along the sphere without.
    pub arc: Option<bool>,
    pub ranges: Vec<RangeBucket>,
    pub keyed: bool,
}

/// Which of several values of a document counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixMode {
    Avg,
    Min,
    Max,
    Sum,
    Median,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MatrixAgg {
    pub fields: Vec<String>,
    /// What stands in for a field that a document lacks.
    pub missing: std::collections::BTreeMap<String, f64>,
    pub mode: MatrixMode,
}

#[derive(Clone, Debug, PartialEq)]
pub enum IncludeExclude {
    Regex(String),
    Values(Vec<Value>),
    Partition { partition: u64, num_partitions: u64 },
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

/// `{"_count": "desc"}`, `{"_key": "asc"}`, `{"max_score": "desc"}`, `{"stats.avg": "asc"}`, `{"a>b": ..}`.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketOrder {
    /// The word of before 6 that the path was written as.
    pub replaced: Option<&'static str>,
    pub path: String,
    pub ascending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RangeBucket {
    pub key: Option<String>,
    pub from: Option<Value>,
    pub to: Option<Value>,
    /// `ip_range` only.
    pub mask: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HistogramAgg {
    pub source: ValueSource,
    pub interval: f64,
    pub offset: f64,
    pub min_doc_count: u64,
    pub extended_bounds: Option<(Option<f64>, Option<f64>)>,
    pub hard_bounds: Option<(Option<f64>, Option<f64>)>,
    pub order: Vec<BucketOrder>,
    pub keyed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum DateInterval {
    /// "month", "1M", "quarter", ...
    Calendar(String),
    /// "30s", "12h", "7d".
    Fixed(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct DateHistogramAgg {
    pub source: ValueSource,
    pub interval: DateInterval,
    pub time_zone: Option<String>,
    /// "+6h", "-1d".
    pub offset: Option<String>,
    pub min_doc_count: u64,
    /// Dates, or date math, as text or numbers.
    pub extended_bounds: Option<(Option<Value>, Option<Value>)>,
    pub hard_bounds: Option<(Option<Value>, Option<Value>)>,
    pub order: Vec<BucketOrder>,
    pub keyed: bool,
}

/// `geotile_grid` and `geohash_grid`.
#[derive(Clone, Debug, PartialEq)]
pub struct GridAgg {
    pub tiles: bool,
    pub field: String,
    pub precision: u32,
    pub size: usize,
    pub shard_size: Option<usize>,
    /// top, left, bottom, right.
    pub bounds: Option<[f64; 4]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AutoDateAgg {
    pub source: ValueSource,
    pub buckets: usize,
    pub time_zone: Option<String>,
    pub minimum_interval: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScriptedAgg {
    pub init: Option<ScriptSource>,
    pub map: ScriptSource,
    /// Without one (2015) the state itself.
    pub combine: Option<ScriptSource>,
    /// Without one (2015) the list of what was combined.
    pub reduce: Option<ScriptSource>,
    pub params: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CompositeSource {
    pub name: String,
    /// `Terms`, `Histogram` or `DateHistogram`.
    pub kind: AggKind,
    pub ascending: bool,
    pub missing_bucket: bool,
    /// `first`, `last` or absent.
    pub missing_order: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TopHitsAgg {
    pub from: usize,
    pub size: usize,
    pub sort: Vec<Sort>,
    pub source: SourceSpec,
    pub highlight: Option<Highlight>,
    pub explain: bool,
    pub version: bool,
    pub seq_no_primary_term: bool,
    pub track_scores: bool,
    pub docvalue_fields: Vec<FieldAndFormat>,
    pub fields: Vec<FieldAndFormat>,
    pub stored_fields: Option<Vec<String>>,
    pub script_fields: Vec<crate::query::hits::ScriptField>,
}
