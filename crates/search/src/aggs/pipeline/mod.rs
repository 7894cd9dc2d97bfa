//! Pipelines: aggregations of other aggregations' answers, worked out on the finished tree.

mod moving_average;
mod parent;
mod path;
mod sibling;

use super::AggregationContext;
use dsl::aggs::{Agg, AggKind};
use model::Result;
use serde_json::{Map, Value};

/// The prefix of a pipeline in `typed_keys`.
pub(super) fn typed_keys_prefix(kind: &str) -> &str {
    match kind {
        "max_bucket" | "min_bucket" => "bucket_metric_value",
        "stats_bucket" | "extended_stats_bucket" | "percentiles_bucket" | "derivative" => kind,
        _ => "simple_value",
    }
}

/// Works out every pipeline of a level and below: first those further down, then those that look at the buckets
/// of one aggregation, then those beside it.
pub(super) fn run(aggs: &[Agg], level: &mut Map<String, Value>, cx: &AggregationContext<'_>) -> Result<()> {
    for agg in aggs.iter().filter(|agg| !agg.subs.is_empty()) {
        let Some(value) = level.get_mut(&agg.name) else { continue };
        match value.get_mut("buckets") {
            Some(Value::Array(list)) => {
                for bucket in list.iter_mut().filter_map(Value::as_object_mut) {
                    run(&agg.subs, bucket, cx)?;
                }
                parent::run(agg, list, cx)?;
            }
            Some(Value::Object(map)) => {
                let (names, mut list): (Vec<String>, Vec<Value>) = std::mem::take(map).into_iter().unzip();
                for bucket in list.iter_mut().filter_map(Value::as_object_mut) {
                    run(&agg.subs, bucket, cx)?;
                }
                // Buckets may be dropped or moved: each keeps its name inside for a while.
                for (name, bucket) in names.into_iter().zip(&mut list) {
                    if let Some(bucket) = bucket.as_object_mut() {
                        bucket.insert(NAME.into(), name.into());
                    }
                }
                parent::run(agg, &mut list, cx)?;
                for mut bucket in list {
                    if let Some(Value::String(name)) = bucket.as_object_mut().and_then(|bucket| bucket.shift_remove(NAME)) {
                        map.insert(name, bucket);
                    }
                }
            }
            _ => {
                if let Some(bucket) = value.as_object_mut() {
                    run(&agg.subs, bucket, cx)?;
                }
            }
        }
    }
    for agg in aggs {
        if let AggKind::Pipeline {
            kind,
            buckets_path,
            body,
        } = &agg.kind
            && kind.ends_with("_bucket")
        {
            let mut value = sibling::run(kind, buckets_path, body, level, cx)?;
            if let (Some(meta), Some(object)) = (&agg.meta, value.as_object_mut()) {
                object.insert("meta".into(), Value::Object(meta.clone()));
            }
            level.insert(agg.name.clone(), value);
        }
    }
    Ok(())
}

/// No aggregation can have this name.
const NAME: &str = "[name]";
