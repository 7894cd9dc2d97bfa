//! Aggregations that tell one thing, or a few, of all documents of a bucket.

mod distinct;
mod hdr;
mod matrix;
mod numbers;
mod percentiles;
mod places;
mod ranks;
mod scripted;
mod weighted;

use super::format::number;
use super::values::{ValuesSource, Wants};
use super::{AggregationContext, Collector};
use dsl::aggs::{Agg, AggKind, Metric};
use model::{Error, Result, Topic};
use serde_json::{Map, Value};

pub(super) use numbers::{Moments, extended_stats, stats};
pub(super) use percentiles::key as percent_key;

/// The refusal to order buckets by an aggregation of several values.
fn unnamed_metric() -> Error {
    Error::illegal("When ordering on a multi-value metrics aggregation a metric name must be specified.")
        .about(Topic::UnnamedMetric)
}

/// The collector of a metric; `None` if it is none.
pub(super) fn build(agg: &Agg, cx: &AggregationContext<'_>) -> Result<Option<Box<dyn Collector>>> {
    if let Some(percentiles) = percentiles::build(&agg.kind, cx)? {
        return Ok(Some(Box::new(percentiles)));
    }
    let numeric = |spec, kind: &str| ValuesSource::new(spec, Wants::Numbers, kind, cx);
    Ok(Some(match &agg.kind {
        AggKind::Metric(Metric::ValueCount, spec) => {
            Box::new(distinct::Count::new(ValuesSource::new(spec, Wants::Any, "value_count", cx)?))
        }
        AggKind::Metric(metric, spec) => {
            let kind = match metric {
                Metric::Avg => "avg",
                Metric::Sum => "sum",
                Metric::Min => "min",
                Metric::Max => "max",
                _ => "stats",
            };
            Box::new(numbers::Numbers::new(numeric(spec, kind)?, kind, 2.0))
        }
        AggKind::ExtendedStats { source, sigma } => Box::new(numbers::Numbers::new(
            numeric(source, "extended_stats")?,
            "extended_stats",
            *sigma,
        )),
        AggKind::Cardinality { source, .. } => Box::new(distinct::Distinct::new(ValuesSource::new(
            source,
            Wants::Any,
            "cardinality",
            cx,
        )?)),
        AggKind::MatrixStats(spec) => Box::new(matrix::Matrix::new(spec, cx)?),
        AggKind::GeoBounds {
            field,
            missing,
            wrap_longitude,
        } => Box::new(places::Bounds::new(field, *missing, *wrap_longitude, cx)?),
        AggKind::GeoCentroid { field, missing } => Box::new(places::Centroid::new(field, *missing, cx)?),
        AggKind::ScriptedMetric(spec) => Box::new(scripted::Scripted::new(spec, cx)?),
        AggKind::WeightedAvg { value, weight } => Box::new(weighted::Weighted::new(
            numeric(value, "weighted_avg")?,
            numeric(weight, "weighted_avg")?,
        )),
        _ => return Ok(None),
    }))
}

/// `{"value": x}`, with its text if the source has a format.
fn one(value: Option<f64>, source: &ValuesSource) -> Value {
    let mut out = Map::new();
    out.insert("value".into(), value.map_or(Value::Null, number));
    if let Some(text) = value.and_then(|value| source.format.text(value)) {
        out.insert("value_as_string".into(), text.into());
    }
    Value::Object(out)
}
