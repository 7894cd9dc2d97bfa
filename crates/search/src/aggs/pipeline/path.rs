//! `buckets_path`: from an aggregation to a number.

use serde_json::{Map, Value};

/// The number at the end of a path inside one bucket; NaN where there is none.
pub(super) fn value(bucket: &Map<String, Value>, path: &str) -> f64 {
    find(bucket, path).and_then(|value| value.as_f64()).unwrap_or(f64::NAN)
}

/// The buckets of an aggregation as (key, bucket).
pub(super) fn buckets(value: &Value) -> Option<Vec<(String, &Map<String, Value>)>> {
    match value.get("buckets")? {
        Value::Array(list) => Some(
            list.iter()
                .filter_map(|bucket| Some((key(bucket), bucket.as_object()?)))
                .collect(),
        ),
        Value::Object(map) => Some(
            map.iter()
                .filter_map(|(key, bucket)| Some((key.clone(), bucket.as_object()?)))
                .collect(),
        ),
        _ => None,
    }
}

/// A bucket's key as text.
pub(super) fn key(bucket: &Value) -> String {
    match (bucket.get("key_as_string"), bucket.get("key")) {
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => text.clone(),
        (_, Some(key)) => key.to_string(),
        _ => String::new(),
    }
}

/// Splits `a>b['key']>c.d` at the first aggregation: its name, a bucket's key, the rest.
pub(super) fn step<'a>(level: &Map<String, Value>, path: &'a str) -> (&'a str, Option<&'a str>, &'a str) {
    let (first, rest) = path.split_once('>').unwrap_or((path, ""));
    if level.contains_key(first) {
        return (first, None, rest);
    }
    if let Some((name, tail)) = first.split_once('[') {
        let (inner, after) = tail.split_once(']').unwrap_or((tail, ""));
        let rest = if rest.is_empty() {
            after.trim_start_matches('.')
        } else {
            rest
        };
        return (name, Some(inner.trim_matches(['\'', '"'])), rest);
    }
    match first.split_once('.') {
        Some((name, _)) => (name, None, path.get(name.len() + 1..).unwrap_or("")),
        None => (first, None, rest),
    }
}

fn find<'a>(bucket: &'a Map<String, Value>, path: &str) -> Option<std::borrow::Cow<'a, Value>> {
    use std::borrow::Cow::{Borrowed, Owned};
    match path {
        "_count" | "doc_count" => return bucket.get("doc_count").map(Borrowed),
        "_key" => return bucket.get("key").map(Borrowed),
        _ => {}
    }
    let (name, key, rest) = step(bucket, path);
    let value = bucket.get(name)?;
    if rest == "_bucket_count" {
        return Some(Owned(buckets(value)?.len().into()));
    }
    if let Some(wanted) = key {
        return match buckets(value) {
            Some(list) => {
                let (_, bucket) = list.into_iter().find(|(key, _)| key == wanted)?;
                find(bucket, if rest.is_empty() { "_count" } else { rest })
            }
            None => value
                .get("values")
                .and_then(|values| values.get(wanted))
                .or_else(|| value.get(wanted))
                .map(Borrowed),
        };
    }
    let object = value.as_object()?;
    if rest.is_empty() {
        return object.get("value").or_else(|| object.get("doc_count")).map(Borrowed);
    }
    object
        .get(rest)
        .filter(|value| !value.is_object())
        .or_else(|| object.get("values").and_then(|values| values.get(rest)))
        .or_else(|| {
            object
                .get("std_deviation_bounds")
                .and_then(|bounds| bounds.get(rest.trim_start_matches("std_")))
        })
        .map(Borrowed)
        .or_else(|| find(object, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let bucket = json!({
            "doc_count": 7,
            "m": {"value": 2.5},
            "s": {"count": 3, "avg": 1.5, "std_deviation_bounds": {"upper": 9.0}},
            "p": {"values": {"50.0": 4.0}},
            "f": {"doc_count": 5, "m": {"value": 6.0}},
            "t": {"buckets": [{"key": "x", "doc_count": 8, "m": {"value": 1.0}}]},
        });
        let rows = [
            ("_count", 7.0),
            ("m", 2.5),
            ("m.value", 2.5),
            ("s.avg", 1.5),
            ("p.50.0", 4.0),
            ("p[50.0]", 4.0),
            ("f>m", 6.0),
            ("f>_count", 5.0),
            ("t['x']>m", 1.0),
            ("t['x']>_count", 8.0),
            ("t._bucket_count", 1.0),
        ];
        let bucket = bucket.as_object().expect("an object");
        for (path, expected) in rows {
            assert_eq!(value(bucket, path), expected, "{path}");
        }
        assert!(value(bucket, "nothing").is_nan());
    }
}
