//! Pipelines: aggregations of other aggregations' answers. Their options stay as they came.

use super::{Agg, AggKind};
use crate::json::Node;
use crate::search::shape;
use model::Result;
use serde_json::Value;

/// Every pipeline that is read.
pub(crate) const KINDS: &[&str] = &[
    "avg_bucket",
    "sum_bucket",
    "min_bucket",
    "max_bucket",
    "stats_bucket",
    "extended_stats_bucket",
    "percentiles_bucket",
    "derivative",
    "cumulative_sum",
    "bucket_script",
    "bucket_selector",
    "bucket_sort",
    "serial_diff",
    "moving_fn",
    "moving_avg",
];

/// Those that need an order of time or number.
const SEQUENTIAL: &[&str] = &["derivative", "cumulative_sum", "serial_diff", "moving_fn", "moving_avg"];

/// Those with no path of their own.
const PATHLESS: &[&str] = &["bucket_sort"];

/// Reads a pipeline called `name`.
pub(crate) fn parse(name: &str, kind: &str, body: Node) -> Result<AggKind> {
    let missing = |field: &str| body.error(format!("Missing required field [{field}] for aggregation [{name}]"));
    let no_path = missing("buckets_path");
    let no_script = missing("script");
    let mut fields = body.fields(kind)?;
    let buckets_path = match fields.take_value("buckets_path") {
        Some(Value::Null) | None if PATHLESS.contains(&kind) => Value::Null,
        Some(Value::Null) | None => return Err(no_path),
        Some(path) => path,
    };
    let body: serde_json::Map<String, Value> = fields
        .remaining()
        .into_iter()
        .map(|(key, value)| (key, value.into_value()))
        .collect();
    if matches!(kind, "bucket_script" | "bucket_selector" | "moving_fn") && !body.contains_key("script") {
        return Err(no_script);
    }
    Ok(AggKind::Pipeline {
        kind: kind.to_owned(),
        buckets_path,
        body,
    })
}

/// Refuses pipelines in places where they have nothing to work on.
pub(crate) fn validate(aggs: &[Agg], parent: Option<&AggKind>) -> Result<()> {
    let mut problems = Vec::new();
    for agg in aggs {
        if let AggKind::Pipeline { kind, buckets_path, .. } = &agg.kind {
            let name = &agg.name;
            if parent.is_none() && matches!(kind.as_str(), "bucket_sort" | "bucket_script" | "bucket_selector") {
                problems.push(format!(
                    "{kind} aggregation [{name}] must be declared inside of another aggregation"
                ));
            }
            if SEQUENTIAL.contains(&kind.as_str()) && !is_histogram(parent) {
                problems.push(format!(
                    "{kind} aggregation [{name}] must have a histogram, date_histogram or auto_date_histogram as parent"
                ));
            }
            if let (true, Some(path)) = (kind.ends_with("_bucket"), first_path(buckets_path)) {
                let first = path.split(['>', '.', '[']).next().unwrap_or(path);
                if !aggs.iter().any(|other| other.name == first || path.starts_with(&other.name)) {
                    problems.push(format!(
                        "buckets_path aggregation does not exist for aggregation [{name}]: {path}"
                    ));
                }
            }
        }
    }
    if !problems.is_empty() {
        return Err(shape::validation_failed(&problems));
    }
    aggs.iter().try_for_each(|agg| validate(&agg.subs, Some(&agg.kind)))
}

fn first_path(buckets_path: &Value) -> Option<&str> {
    match buckets_path {
        Value::String(path) => Some(path),
        Value::Array(paths) => paths.first()?.as_str(),
        _ => None,
    }
}

fn is_histogram(parent: Option<&AggKind>) -> bool {
    matches!(
        parent,
        Some(AggKind::Histogram(_) | AggKind::DateHistogram(_) | AggKind::AutoDateHistogram(_))
    )
}
