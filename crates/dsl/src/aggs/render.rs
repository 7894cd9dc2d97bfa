//! Aggregations as a request writes them: the inverse of `parse`, with defaults spelled out where a server's may differ.

use super::options::{one, optional, source_body};
use super::{Agg, AggKind};
use super::{composite, filters, grid, histogram, metric, percentiles, pipeline, places, ranges, scripted, single, terms, top};
use serde_json::{Map, Value};

/// The value of `aggs`.
pub fn render(aggs: &[Agg]) -> Value {
    let all: Map<String, Value> = aggs.iter().map(|agg| (agg.name.clone(), agg.render())).collect();
    Value::Object(all)
}

impl Agg {
    /// Its definition, without its name.
    pub fn render(&self) -> Value {
        let (kind, body) = self.kind.render();
        let mut out = Map::new();
        out.insert(kind, body);
        if !self.subs.is_empty() {
            out.insert("aggs".into(), render(&self.subs));
        }
        if let Some(meta) = &self.meta {
            out.insert("meta".into(), Value::Object(meta.clone()));
        }
        Value::Object(out)
    }
}

impl AggKind {
    /// The name of its type, and its body.
    pub fn render(&self) -> (String, Value) {
        let (name, body) = match self {
            AggKind::Terms(agg) => ("terms", terms::render(agg)),
            AggKind::RareTerms(agg) => ("rare_terms", terms::render_rare(agg)),
            AggKind::MultiTerms(agg) => ("multi_terms", agg.render()),
            AggKind::SignificantTerms(agg) => ("significant_terms", agg.render()),
            AggKind::SignificantText(agg) => ("significant_text", agg.render()),
            AggKind::Sampler { shard_size } => ("sampler", one("shard_size", *shard_size)),
            AggKind::DiversifiedSampler(agg) => ("diversified_sampler", agg.render()),
            AggKind::VariableWidth(agg) => ("variable_width_histogram", agg.render()),
            AggKind::Range { source, ranges, keyed } => ("range", ranges::render(source, ranges, *keyed)),
            AggKind::DateRange {
                source,
                ranges,
                keyed,
                time_zone,
            } => (
                "date_range",
                ranges::render_date(source, ranges, *keyed, time_zone.as_deref()),
            ),
            AggKind::IpRange { source, ranges, keyed } => ("ip_range", ranges::render(source, ranges, *keyed)),
            AggKind::GeoDistance(agg) => ("geo_distance", agg.render()),
            AggKind::Histogram(agg) => ("histogram", histogram::render(agg)),
            AggKind::DateHistogram(agg) => ("date_histogram", histogram::render_date(agg)),
            AggKind::AutoDateHistogram(agg) => ("auto_date_histogram", histogram::render_auto(agg)),
            AggKind::Filter(query) => return ("filter".into(), query.render()),
            AggKind::Filters {
                filters,
                keyed,
                other_bucket_key,
            } => ("filters", filters::render(filters, *keyed, other_bucket_key.as_deref())),
            AggKind::AdjacencyMatrix {
                filters,
                separator,
                show_only_intersecting,
            } => (
                "adjacency_matrix",
                filters::render_adjacency(filters, separator, *show_only_intersecting),
            ),
            AggKind::Global => ("global", Map::new()),
            AggKind::Missing { field, missing } => ("missing", single::render_missing(field, missing.as_ref())),
            AggKind::Nested { path } => ("nested", one("path", path.as_str())),
            AggKind::ReverseNested { path } => ("reverse_nested", optional("path", path.as_deref())),
            AggKind::Children { child_type } => ("children", one("type", child_type.as_str())),
            AggKind::Parent { child_type } => ("parent", one("type", child_type.as_str())),
            AggKind::Composite { size, sources, after } => ("composite", composite::render(*size, sources, after.as_ref())),
            AggKind::Grid(grid) => (if grid.tiles { "geotile_grid" } else { "geohash_grid" }, grid::render(grid)),
            AggKind::Metric(which, source) => (which.name(), source_body(source)),
            AggKind::ExtendedStats { source, sigma } => ("extended_stats", metric::render_extended_stats(source, *sigma)),
            AggKind::Cardinality {
                source,
                precision_threshold,
            } => ("cardinality", metric::render_cardinality(source, *precision_threshold)),
            AggKind::Percentiles {
                source,
                percents,
                keyed,
                hdr,
            } => ("percentiles", percentiles::render(source, "percents", percents, *keyed, *hdr)),
            AggKind::PercentileRanks {
                source,
                values,
                keyed,
                hdr,
            } => (
                "percentile_ranks",
                percentiles::render(source, "values", values, *keyed, *hdr),
            ),
            AggKind::WeightedAvg { value, weight } => ("weighted_avg", metric::render_weighted_avg(value, weight)),
            AggKind::MatrixStats(agg) => ("matrix_stats", agg.render()),
            AggKind::GeoBounds {
                field,
                missing,
                wrap_longitude,
            } => ("geo_bounds", places::render_bounds(field, *missing, *wrap_longitude)),
            AggKind::GeoCentroid { field, missing } => ("geo_centroid", places::render_centroid(field, *missing)),
            AggKind::ScriptedMetric(agg) => ("scripted_metric", scripted::render(agg)),
            AggKind::TopHits(agg) => ("top_hits", top::render_hits(agg)),
            AggKind::TopMetrics { metrics, sort, size } => ("top_metrics", top::render_metrics(metrics, sort, *size)),
            AggKind::Pipeline {
                kind,
                buckets_path,
                body,
            } => (kind.as_str(), pipeline::render(buckets_path, body)),
            AggKind::Opaque { kind, body } => return (kind.clone(), body.clone()),
        };
        (name.to_owned(), Value::Object(body))
    }
}
