//! Pipelines beside an aggregation: one answer of all its buckets.

use super::path;
use crate::aggs::AggregationContext;
use crate::aggs::format::{Format, number};
use crate::aggs::metric::{Moments, extended_stats, percent_key, stats};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// All numbers at the end of a path, with the keys of their buckets.
fn collect(level: &Map<String, Value>, at: &str, zeros: bool, out: &mut Vec<(String, f64)>) -> Result<()> {
    let (name, key, rest) = path::step(level, at);
    let Some(value) = level.get(name) else { return Ok(()) };
    match path::buckets(value) {
        Some(list) => {
            for (own, bucket) in list {
                if key.is_some_and(|key| key != own) {
                    continue;
                }
                check_single(bucket, rest)?;
                let empty = bucket.get("doc_count").and_then(Value::as_u64) == Some(0) && !matches!(rest, "_count");
                let value = path::value(bucket, rest);
                let value = if value.is_nan() || empty {
                    if zeros { 0.0 } else { f64::NAN }
                } else {
                    value
                };
                if !value.is_nan() {
                    out.push((own, value));
                }
            }
        }
        None => {
            if let Some(object) = value.as_object() {
                collect(object, rest, zeros, out)?;
            }
        }
    }
    Ok(())
}

/// A path must end at one number, not at buckets nor at several values.
fn check_single(bucket: &Map<String, Value>, rest: &str) -> Result<()> {
    let (inner, key, more) = path::step(bucket, rest);
    let Some(value) = bucket.get(inner) else { return Ok(()) };
    let refuse = |why: String| {
        let reason =
            format!("buckets_path must reference either a number value or a single value numeric metric aggregation, {why}");
        Err(Error::new(ErrorKind::AggregationExecution, reason))
    };
    if let (Some(list), None) = (path::buckets(value), key) {
        if more == "_bucket_count" {
            return Ok(());
        }
        let class = match list.first().and_then(|(_, bucket)| bucket.get("key")) {
            _ if !more.is_empty() => "Object[]",
            Some(Value::Number(n)) if n.is_f64() => "DoubleTerms",
            Some(Value::Number(_)) => "LongTerms",
            _ => "StringTerms",
        };
        return refuse(format!("got: [{class}] at aggregation [{inner}]"));
    }
    let several = value.get("value").is_none() && value.get("doc_count").is_none() && value.is_object();
    if several && key.is_none() && more.is_empty() {
        return refuse(format!(
            "but [{inner}] contains multiple values. Please specify which to use."
        ));
    }
    Ok(())
}

/// The answer of one sibling pipeline.
pub(super) fn run(
    kind: &str,
    buckets_path: &Value,
    body: &Map<String, Value>,
    level: &Map<String, Value>,
    cx: &AggregationContext<'_>,
) -> Result<Value> {
    let at = match buckets_path {
        Value::String(path) => path,
        Value::Array(list) if list.len() == 1 => list[0].as_str().unwrap_or_default(),
        _ => return Err(Error::illegal(format!("[{kind}] needs one [buckets_path]"))),
    };
    let zeros = body.get("gap_policy").and_then(Value::as_str) == Some("insert_zeros");
    let mut found = Vec::new();
    collect(level, at, zeros, &mut found)?;
    let mut moments = Moments::default();
    found.iter().for_each(|(_, value)| moments.add(*value));
    let format = match body.get("format").and_then(Value::as_str) {
        Some(pattern) => Format::Decimal(pattern.to_owned()),
        None => Format::Raw,
    };
    let one = |value: Option<f64>| {
        let mut out = Map::new();
        out.insert("value".into(), value.map_or(Value::Null, number));
        if let Some(text) = value.and_then(|value| format.text(value)) {
            out.insert("value_as_string".into(), text.into());
        }
        out
    };
    let some = |value: f64| (moments.count > 0).then_some(value);
    Ok(Value::Object(match kind {
        "avg_bucket" => one(moments.avg()),
        "sum_bucket" => one(Some(moments.sum)),
        "min_bucket" | "max_bucket" => {
            let best = if kind == "min_bucket" { moments.min } else { moments.max };
            let mut out = one(some(best));
            let keys: Vec<&str> = found
                .iter()
                .filter(|(_, value)| *value == best)
                .map(|(key, _)| key.as_str())
                .collect();
            out.insert("keys".into(), json!(keys));
            out
        }
        "stats_bucket" => stats(&moments, &format),
        "extended_stats_bucket" => extended_stats(
            &moments,
            body.get("sigma").and_then(Value::as_f64).unwrap_or(2.0),
            &format,
            cx.dialect.rules.omits_later_members,
        ),
        _ => {
            let values = found.into_iter().map(|(_, value)| value).collect();
            let out = percentiles(values, body, cx.dialect.rules.former_percentiles);
            Map::from_iter([("values".to_owned(), Value::Object(out))])
        }
    }))
}

/// The values at the percents that are asked for: each time the nearest one, not between two.
fn percentiles(mut values: Vec<f64>, body: &Map<String, Value>, former: bool) -> Map<String, Value> {
    values.sort_by(f64::total_cmp);
    let default = || vec![1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];
    let percents = body.get("percents").and_then(Value::as_array);
    let percents: Vec<f64> = percents.map_or_else(default, |list| list.iter().filter_map(Value::as_f64).collect());
    let mut out = Map::new();
    for percent in percents {
        let place = if former {
            (percent / 100.0 * values.len() as f64) as usize
        } else {
            (percent / 100.0 * (values.len().max(1) - 1) as f64).round() as usize
        };
        let value = values.get(place.min(values.len().saturating_sub(1))).copied();
        out.insert(percent_key(percent), value.map_or(Value::Null, number));
    }
    out
}
