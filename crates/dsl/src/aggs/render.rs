//! Aggregations as a request writes them: the inverse of `parse`, with defaults spelled out where a server's may differ.

use super::{
    Agg, AggKind, BucketOrder, CompositeSource, DateHistogramAgg, DateInterval, HistogramAgg, IncludeExclude, RangeBucket,
    TermsAgg, TopHitsAgg, ValueSource, metric,
};
use crate::query::Query;
use crate::query::hits::{FieldAndFormat, Sort};
use serde_json::{Map, Value, json};

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
            AggKind::Terms(terms) => ("terms", terms_body(terms)),
            AggKind::SignificantText(text) => ("significant_text", text.render()),
            AggKind::VariableWidth(variable) => {
                let mut body = source_body(&variable.source);
                body.insert("buckets".into(), variable.buckets.into());
                body.insert("shard_size".into(), variable.shard_size.into());
                body.insert("initial_buffer".into(), variable.initial_buffer.into());
                ("variable_width_histogram", body)
            }
            AggKind::DiversifiedSampler(sampler) => {
                let mut body = source_body(&sampler.source);
                body.insert("shard_size".into(), sampler.shard_size.into());
                body.insert("max_docs_per_value".into(), sampler.max_docs_per_value.into());
                ("diversified_sampler", body)
            }
            AggKind::SignificantTerms(significant) => {
                let mut body = terms_body(&significant.terms);
                body.remove("order");
                let (name, measure) = significant.measure.render();
                body.insert(name.into(), measure);
                put(
                    &mut body,
                    "background_filter",
                    significant.background.as_ref().map(Query::render),
                );
                ("significant_terms", body)
            }
            AggKind::RareTerms(rare) => {
                let mut body = source_body(&rare.source);
                body.insert("max_doc_count".into(), rare.max_doc_count.into());
                put(&mut body, "include", rare.include.as_ref().map(include));
                put(&mut body, "exclude", rare.exclude.as_ref().map(include));
                put(&mut body, "value_type", rare.value_type.as_deref());
                ("rare_terms", body)
            }
            AggKind::MultiTerms(terms) => ("multi_terms", terms.render()),
            AggKind::MatrixStats(matrix) => ("matrix_stats", matrix.render()),
            AggKind::GeoDistance(distance) => ("geo_distance", distance.render()),
            AggKind::GeoBounds {
                field,
                missing,
                wrap_longitude,
            } => {
                let mut body = one("field", field.as_str());
                put(&mut body, "missing", missing.map(|(lat, lon)| format!("{lat},{lon}")));
                body.insert("wrap_longitude".into(), (*wrap_longitude).into());
                ("geo_bounds", body)
            }
            AggKind::GeoCentroid { field, missing } => {
                let mut body = one("field", field.as_str());
                put(&mut body, "missing", missing.map(|(lat, lon)| format!("{lat},{lon}")));
                ("geo_centroid", body)
            }
            AggKind::Range { source, ranges, keyed } => ("range", ranges_body(source, ranges, *keyed)),
            AggKind::DateRange {
                source,
                ranges,
                keyed,
                time_zone,
            } => {
                let mut body = ranges_body(source, ranges, *keyed);
                put(&mut body, "time_zone", time_zone.as_deref());
                ("date_range", body)
            }
            AggKind::IpRange { source, ranges, keyed } => ("ip_range", ranges_body(source, ranges, *keyed)),
            AggKind::Histogram(histogram) => ("histogram", histogram_body(histogram)),
            AggKind::DateHistogram(histogram) => ("date_histogram", date_histogram_body(histogram)),
            AggKind::Filter(query) => return ("filter".into(), query.render()),
            AggKind::Filters {
                filters,
                keyed,
                other_bucket_key,
            } => {
                let filters = if *keyed {
                    Value::Object(filters.iter().map(|(name, query)| (name.clone(), query.render())).collect())
                } else {
                    filters.iter().map(|(_, query)| query.render()).collect()
                };
                let mut body = one("filters", filters);
                put(&mut body, "other_bucket_key", other_bucket_key.as_deref());
                ("filters", body)
            }
            AggKind::Global => ("global", Map::new()),
            AggKind::Missing { field, missing } => {
                let mut body = one("field", field.as_str());
                put(&mut body, "missing", missing.clone());
                ("missing", body)
            }
            AggKind::Nested { path } => ("nested", one("path", path.as_str())),
            AggKind::ReverseNested { path } => {
                let mut body = Map::new();
                put(&mut body, "path", path.as_deref());
                ("reverse_nested", body)
            }
            AggKind::Children { child_type } => ("children", one("type", child_type.as_str())),
            AggKind::Parent { child_type } => ("parent", one("type", child_type.as_str())),
            AggKind::Composite { size, sources, after } => {
                let mut body = one("size", *size);
                body.insert("sources".into(), sources.iter().map(composite_source).collect());
                put(&mut body, "after", after.clone());
                ("composite", body)
            }
            AggKind::AdjacencyMatrix {
                filters,
                separator,
                show_only_intersecting,
            } => {
                let filters = filters.iter().map(|(name, query)| (name.clone(), query.render())).collect();
                let mut body = one("filters", Value::Object(filters));
                body.insert("separator".into(), separator.as_str().into());
                if *show_only_intersecting {
                    body.insert("show_only_intersecting".into(), true.into());
                }
                ("adjacency_matrix", body)
            }
            AggKind::Grid(grid) => {
                let mut body = one("field", grid.field.as_str());
                body.insert("precision".into(), grid.precision.into());
                body.insert("size".into(), grid.size.into());
                put(&mut body, "shard_size", grid.shard_size);
                if let Some([top, left, bottom, right]) = grid.bounds {
                    body.insert(
                        "bounds".into(),
                        json!({ "top": top, "left": left, "bottom": bottom, "right": right }),
                    );
                }
                (if grid.tiles { "geotile_grid" } else { "geohash_grid" }, body)
            }
            AggKind::AutoDateHistogram(auto) => {
                let mut body = source_body(&auto.source);
                body.insert("buckets".into(), auto.buckets.into());
                put(&mut body, "time_zone", auto.time_zone.as_deref());
                put(&mut body, "minimum_interval", auto.minimum_interval.as_deref());
                ("auto_date_histogram", body)
            }
            AggKind::ScriptedMetric(scripted) => {
                let mut body = Map::new();
                put(&mut body, "init_script", scripted.init.as_ref().map(|s| s.render()));
                body.insert("map_script".into(), scripted.map.render());
                put(&mut body, "combine_script", scripted.combine.as_ref().map(|s| s.render()));
                put(&mut body, "reduce_script", scripted.reduce.as_ref().map(|s| s.render()));
                if !scripted.params.is_empty() {
                    body.insert("params".into(), Value::Object(scripted.params.clone()));
                }
                ("scripted_metric", body)
            }
            AggKind::Sampler { shard_size } => ("sampler", one("shard_size", *shard_size)),
            AggKind::Metric(which, source) => {
                let name = metric::PLAIN
                    .iter()
                    .find(|(_, known)| known == which)
                    .map_or("avg", |(name, _)| name);
                (name, source_body(source))
            }
            AggKind::ExtendedStats { source, sigma } => {
                let mut body = source_body(source);
                body.insert("sigma".into(), json!(sigma));
                ("extended_stats", body)
            }
            AggKind::Cardinality {
                source,
                precision_threshold,
            } => {
                let mut body = source_body(source);
                put(&mut body, "precision_threshold", *precision_threshold);
                ("cardinality", body)
            }
            AggKind::Percentiles {
                source,
                percents,
                keyed,
                hdr,
            } => {
                let mut body = numbers_body(source, "percents", percents, *keyed);
                put(&mut body, "hdr", hdr.map(digits));
                ("percentiles", body)
            }
            AggKind::PercentileRanks {
                source,
                values,
                keyed,
                hdr,
            } => {
                let mut body = numbers_body(source, "values", values, *keyed);
                put(&mut body, "hdr", hdr.map(digits));
                ("percentile_ranks", body)
            }
            AggKind::WeightedAvg { value, weight } => {
                let mut inner = source_body(value);
                let format = inner.remove("format");
                let mut body = one("value", inner);
                body.insert("weight".into(), Value::Object(source_body(weight)));
                put(&mut body, "format", format);
                ("weighted_avg", body)
            }
            AggKind::TopHits(hits) => ("top_hits", top_hits_body(hits)),
            AggKind::TopMetrics { metrics, sort, size } => {
                let mut body = one("size", *size);
                body.insert(
                    "metrics".into(),
                    metrics.iter().map(|field| json!({ "field": field })).collect(),
                );
                body.insert("sort".into(), sort.iter().map(Sort::render).collect());
                ("top_metrics", body)
            }
            AggKind::Pipeline {
                kind,
                buckets_path,
                body,
            } => {
                let mut all = body.clone();
                if !buckets_path.is_null() {
                    all.insert("buckets_path".into(), buckets_path.clone());
                }
                (kind.as_str(), all)
            }
            AggKind::Opaque { kind, body } => return (kind.clone(), body.clone()),
        };
        (name.to_owned(), Value::Object(body))
    }
}

fn one(name: &str, value: impl Into<Value>) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value.into())])
}

fn put(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(name.into(), value.into());
    }
}

fn source_body(source: &ValueSource) -> Map<String, Value> {
    let mut body = Map::new();
    source.render_into(&mut body);
    body
}

fn numbers_body(source: &ValueSource, name: &str, numbers: &[f64], keyed: bool) -> Map<String, Value> {
    let mut body = source_body(source);
    body.insert(name.into(), json!(numbers));
    body.insert("keyed".into(), keyed.into());
    body
}

fn digits(digits: u8) -> Value {
    json!({ "number_of_significant_value_digits": digits })
}

pub(super) fn order(order: &[BucketOrder]) -> Value {
    order
        .iter()
        .map(|by| json!({ by.path.as_str(): if by.ascending { "asc" } else { "desc" } }))
        .collect()
}

fn terms_body(terms: &TermsAgg) -> Map<String, Value> {
    let mut body = source_body(&terms.source);
    // What a typed request calls 0, no limit, is the largest number elsewhere.
    body.insert("size".into(), terms.size.min(i32::MAX as usize).into());
    put(
        &mut body,
        "shard_size",
        terms.shard_size.map(|size| size.min(i32::MAX as usize)),
    );
    body.insert("min_doc_count".into(), terms.min_doc_count.into());
    body.insert("order".into(), order(&terms.order));
    put(&mut body, "include", terms.include.as_ref().map(include));
    put(&mut body, "exclude", terms.exclude.as_ref().map(include));
    if terms.show_term_doc_count_error {
        body.insert("show_term_doc_count_error".into(), true.into());
    }
    put(&mut body, "collect_mode", terms.collect_mode.as_deref());
    put(&mut body, "execution_hint", terms.execution_hint.as_deref());
    if terms.shard_min_doc_count > 0 {
        body.insert("shard_min_doc_count".into(), terms.shard_min_doc_count.into());
    }
    put(&mut body, "value_type", terms.value_type.as_deref());
    body
}

pub(super) fn include(which: &IncludeExclude) -> Value {
    match which {
        IncludeExclude::Regex(pattern) => pattern.as_str().into(),
        IncludeExclude::Values(values) => Value::Array(values.clone()),
        IncludeExclude::Partition {
            partition,
            num_partitions,
        } => {
            json!({ "partition": partition, "num_partitions": num_partitions })
        }
    }
}

fn ranges_body(source: &ValueSource, ranges: &[RangeBucket], keyed: bool) -> Map<String, Value> {
    let mut body = source_body(source);
    let ranges = ranges.iter().map(|range| {
        let mut out = Map::new();
        put(&mut out, "key", range.key.as_deref());
        put(&mut out, "from", range.from.clone());
        put(&mut out, "to", range.to.clone());
        put(&mut out, "mask", range.mask.as_deref());
        Value::Object(out)
    });
    body.insert("ranges".into(), ranges.collect());
    body.insert("keyed".into(), keyed.into());
    body
}

fn bounds<T: Clone + Into<Value>>(bounds: &(Option<T>, Option<T>)) -> Value {
    let mut out = Map::new();
    put(&mut out, "min", bounds.0.clone());
    put(&mut out, "max", bounds.1.clone());
    Value::Object(out)
}

fn histogram_body(histogram: &HistogramAgg) -> Map<String, Value> {
    let mut body = source_body(&histogram.source);
    body.insert("interval".into(), json!(histogram.interval));
    if histogram.offset != 0.0 {
        body.insert("offset".into(), json!(histogram.offset));
    }
    body.insert("min_doc_count".into(), histogram.min_doc_count.into());
    put(&mut body, "extended_bounds", histogram.extended_bounds.as_ref().map(bounds));
    put(&mut body, "hard_bounds", histogram.hard_bounds.as_ref().map(bounds));
    body.insert("order".into(), order(&histogram.order));
    if histogram.keyed {
        body.insert("keyed".into(), true.into());
    }
    body
}

fn date_histogram_body(histogram: &DateHistogramAgg) -> Map<String, Value> {
    let mut body = source_body(&histogram.source);
    match &histogram.interval {
        DateInterval::Calendar(unit) => body.insert("calendar_interval".into(), unit.as_str().into()),
        DateInterval::Fixed(length) => body.insert("fixed_interval".into(), length.as_str().into()),
    };
    put(&mut body, "time_zone", histogram.time_zone.as_deref());
    put(&mut body, "offset", histogram.offset.as_deref());
    body.insert("min_doc_count".into(), histogram.min_doc_count.into());
    put(&mut body, "extended_bounds", histogram.extended_bounds.as_ref().map(bounds));
    put(&mut body, "hard_bounds", histogram.hard_bounds.as_ref().map(bounds));
    body.insert("order".into(), order(&histogram.order));
    if histogram.keyed {
        body.insert("keyed".into(), true.into());
    }
    body
}

fn composite_source(source: &CompositeSource) -> Value {
    let (kind, mut body) = source.kind.render();
    if let Some(body) = body.as_object_mut() {
        // Options of the aggregation that a source does not have.
        for name in ["size", "min_doc_count", "order"] {
            body.remove(name);
        }
        body.insert("order".into(), if source.ascending { "asc" } else { "desc" }.into());
        if source.missing_bucket {
            body.insert("missing_bucket".into(), true.into());
        }
        put(body, "missing_order", source.missing_order.as_deref());
    }
    json!({ source.name.as_str(): { kind: body } })
}

fn top_hits_body(hits: &TopHitsAgg) -> Map<String, Value> {
    let mut body = one("size", hits.size);
    body.insert("from".into(), hits.from.into());
    if !hits.sort.is_empty() {
        body.insert("sort".into(), hits.sort.iter().map(Sort::render).collect());
    }
    put(&mut body, "_source", hits.source.render());
    put(
        &mut body,
        "highlight",
        hits.highlight.as_ref().map(|highlight| highlight.render()),
    );
    let flags = [
        ("explain", hits.explain),
        ("version", hits.version),
        ("seq_no_primary_term", hits.seq_no_primary_term),
        ("track_scores", hits.track_scores),
    ];
    for (name, _) in flags.into_iter().filter(|(_, on)| *on) {
        body.insert(name.into(), true.into());
    }
    for (name, list) in [("docvalue_fields", &hits.docvalue_fields), ("fields", &hits.fields)] {
        if !list.is_empty() {
            body.insert(name.into(), list.iter().map(FieldAndFormat::render).collect());
        }
    }
    put(
        &mut body,
        "stored_fields",
        hits.stored_fields.as_ref().map(|fields| json!(fields)),
    );
    if !hits.script_fields.is_empty() {
        let scripts: Map<String, Value> = hits
            .script_fields
            .iter()
            .map(crate::query::hits::ScriptField::render)
            .collect();
        body.insert("script_fields".into(), Value::Object(scripts));
    }
    body
}
