//! Aggregations as folds over all matching documents: `terms`, and the metrics that `stats` knows.
//!
//! Exact, since there is one shard and nothing is sampled. Everything else is refused by name.

use super::Stored;
use super::catalog::Entry;
use super::order::columns;
use super::query::Scalar;
use dsl::aggs::{Agg, AggKind, Metric, TermsAgg, ValueSource};
use mapping::{FieldType, FieldValue};
use model::Result;
use serde_json::{Map, Value, json};
use std::cmp::Ordering;
use std::sync::Arc;

/// A matching document and its index.
pub(super) type Match = (Arc<Entry>, Arc<Stored>);

/// Refuses what this engine does not aggregate.
pub(super) fn check(aggs: &[Agg]) -> Result<()> {
    for agg in aggs {
        let answered = match &agg.kind {
            AggKind::Terms(terms) => {
                is_plain(&terms.source) && terms.include.is_none() && terms.exclude.is_none() && orders(terms)
            }
            AggKind::Metric(metric, source) => is_plain(source) && *metric != Metric::MedianAbsoluteDeviation,
            _ => false,
        };
        if !answered {
            let rendered = dsl::aggs::render(std::slice::from_ref(agg));
            return Err(super::unsupported_request(format!(
                "the memory engine does not answer the aggregation {rendered}"
            )));
        }
        check(&agg.subs)?;
    }
    Ok(())
}

/// The answers by name.
pub(super) fn run(aggs: &[Agg], docs: &[Match]) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for agg in aggs {
        let mut answer = match &agg.kind {
            AggKind::Terms(terms) => run_terms(terms, &agg.subs, docs)?,
            AggKind::Metric(metric, source) => run_metric(*metric, source, docs)?,
            other => unreachable!("check refuses {other:?}"),
        };
        if let Some(meta) = &agg.meta {
            answer["meta"] = Value::Object(meta.clone());
        }
        out.insert(agg.name.clone(), answer);
    }
    Ok(out)
}

struct Bucket {
    order: Scalar,
    key: Value,
    text: Option<Value>,
    docs: Vec<Match>,
}

fn run_terms(terms: &TermsAgg, subs: &[Agg], docs: &[Match]) -> Result<Value> {
    let mut buckets: Vec<Bucket> = Vec::new();
    for found in docs {
        let Some((kind, values)) = values(&terms.source, found)? else {
            continue;
        };
        let mut seen: Vec<Scalar> = Vec::new();
        for value in values {
            let Some(order) = Scalar::of(value).filter(|order| !seen.contains(order)) else {
                continue;
            };
            seen.push(order.clone());
            match buckets.iter_mut().find(|bucket| bucket.order == order) {
                Some(bucket) => bucket.docs.push(found.clone()),
                None => {
                    let (key, text) = render_key(kind, value);
                    buckets.push(Bucket {
                        order,
                        key,
                        text,
                        docs: vec![found.clone()],
                    });
                }
            }
        }
    }
    buckets.retain(|bucket| bucket.docs.len() as u64 >= terms.min_doc_count);
    buckets.sort_by(|a, b| before(terms, a, b));
    let other: usize = buckets.iter().skip(terms.size).map(|bucket| bucket.docs.len()).sum();
    let mut shown = Vec::new();
    for bucket in buckets.into_iter().take(terms.size) {
        let mut out = json!({ "key": bucket.key });
        if let Some(text) = bucket.text {
            out["key_as_string"] = text;
        }
        out["doc_count"] = bucket.docs.len().into();
        for (name, answer) in run(subs, &bucket.docs)? {
            out[name] = answer;
        }
        shown.push(out);
    }
    Ok(json!({ "doc_count_error_upper_bound": 0, "sum_other_doc_count": other, "buckets": shown }))
}

/// By the orders given, most frequent first if there are none; then by key.
fn before(terms: &TermsAgg, a: &Bucket, b: &Bucket) -> Ordering {
    let by_key = a.order.compare(&b.order).unwrap_or(Ordering::Equal);
    let by_count = a.docs.len().cmp(&b.docs.len());
    if terms.order.is_empty() {
        return by_count.reverse().then(by_key);
    }
    let each = terms.order.iter().map(|order| {
        let way = if order.path == "_count" { by_count } else { by_key };
        if order.ascending { way } else { way.reverse() }
    });
    each.fold(Ordering::Equal, Ordering::then).then(by_key)
}

fn run_metric(metric: Metric, source: &ValueSource, docs: &[Match]) -> Result<Value> {
    let mut numbers: Vec<f64> = Vec::new();
    let mut count = 0u64;
    let mut date: Option<FieldType> = None;
    for found in docs {
        let Some((kind, values)) = values(source, found)? else {
            continue;
        };
        for value in values {
            count += 1;
            match Scalar::of(value) {
                Some(Scalar::Whole(n)) => numbers.push(n as f64),
                Some(Scalar::Fraction(f)) => numbers.push(f),
                _ if metric == Metric::ValueCount => {}
                _ => {
                    let reason = format!(
                        "Field [{}] of type [{}] is not supported for aggregation",
                        source.field.as_deref().unwrap_or(""),
                        kind.wire()
                    );
                    return Err(model::Error::illegal(reason));
                }
            }
            if kind.kind.is_date() {
                date = Some(kind.clone());
            }
        }
    }
    let sum: f64 = numbers.iter().sum();
    let min = numbers.iter().copied().reduce(f64::min);
    let max = numbers.iter().copied().reduce(f64::max);
    let avg = (!numbers.is_empty()).then(|| sum / numbers.len() as f64);
    let rows: Vec<(&str, Option<f64>)> = match metric {
        Metric::ValueCount => return Ok(json!({ "value": count })),
        Metric::Max => vec![("value", max)],
        Metric::Min => vec![("value", min)],
        Metric::Sum => vec![("value", Some(sum))],
        Metric::Avg => vec![("value", avg)],
        Metric::Stats | Metric::MedianAbsoluteDeviation => vec![("min", min), ("max", max), ("avg", avg), ("sum", Some(sum))],
    };
    let mut out = Map::new();
    if metric == Metric::Stats {
        out.insert("count".into(), count.into());
    }
    for (name, number) in &rows {
        out.insert((*name).into(), json!(number));
    }
    for (name, number) in rows {
        if let (Some(kind), Some(number)) = (&date, number) {
            out.insert(
                format!("{name}_as_string"),
                kind.render_value(&FieldValue::Date(number as i64)),
            );
        }
    }
    Ok(Value::Object(out))
}

/// The field's values in a document; `None` where its index does not map it.
fn values<'a>(source: &'a ValueSource, (entry, doc): &'a Match) -> Result<Option<(&'a FieldType, Vec<&'a FieldValue>)>> {
    let Some((path, kind)) = source.field.as_deref().and_then(|field| entry.mapping.resolve(field)) else {
        return Ok(None);
    };
    columns(path, kind)?;
    Ok(Some((kind, doc.root.values(path).collect())))
}

/// A bucket's key, and its text where that says more.
fn render_key(kind: &FieldType, value: &FieldValue) -> (Value, Option<Value>) {
    match value {
        FieldValue::Bool(flag) => (i64::from(*flag).into(), Some(flag.to_string().into())),
        FieldValue::Date(ms) => ((*ms).into(), Some(kind.render_value(value))),
        FieldValue::DateNanos(nanos) => (nanos.div_euclid(1_000_000).into(), Some(kind.render_value(value))),
        _ => (kind.render_value(value), None),
    }
}

fn is_plain(source: &ValueSource) -> bool {
    source.field.is_some() && source.script.is_none() && source.missing.is_none() && source.format.is_none()
}

fn orders(terms: &TermsAgg) -> bool {
    terms.min_doc_count > 0
        && terms
            .order
            .iter()
            .all(|order| matches!(order.path.as_str(), "_count" | "_key"))
}
