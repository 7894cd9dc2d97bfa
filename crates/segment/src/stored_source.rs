//! The stored source of a document, and its `store: true` fields that the source lacks.
//!
//! The second is a further value of the stored `_source` that begins with a byte no JSON begins with. It has the form
//! of the source with nothing but those fields in it; arrays keep their length, so that a nested object has its place.
//!
//! Not here: how a hit shows either (`search::fetch`).

use mapping::Mapping;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// Begins the value with the stored fields.
const STORED_FIELDS: u8 = 0;

/// The two stored values; empty if there is nothing to keep.
#[derive(Debug)]
pub struct Kept<'a> {
    /// The part of the source that the mapping keeps: all, nothing, or the paths of its patterns.
    pub source: Cow<'a, [u8]>,
    /// Fields with `store: true`, where the source is not kept whole.
    pub fields: Vec<u8>,
}

/// Decides what is kept of a source.
pub fn stored_part<'a>(mapping: &Mapping, source: &'a [u8]) -> Kept<'a> {
    let (enabled, filter) = (mapping.source_enabled(), mapping.source_filter());
    let whole = Kept {
        source: Cow::Borrowed(source),
        fields: Vec::new(),
    };
    if enabled && filter.is_all() {
        return whole;
    }
    let Ok(value) = serde_json::from_slice(source) else {
        return if enabled {
            whole
        } else {
            Kept {
                source: Cow::Borrowed(&[]),
                fields: Vec::new(),
            }
        };
    };
    let stored: HashSet<&str> = mapping.fields().filter(|(_, f)| f.store).map(|(path, _)| path).collect();
    let fields = only(&value, &stored, "").map_or_else(Vec::new, |fields| {
        let mut out = vec![STORED_FIELDS];
        out.extend(fields.to_string().into_bytes());
        out
    });
    let source = if enabled {
        filter.apply(&value).to_string().into_bytes()
    } else {
        Vec::new()
    };
    Kept {
        source: Cow::Owned(source),
        fields,
    }
}

/// The JSON of the stored fields, if that is what a stored value of `_source` is.
pub fn stored_fields(value: &[u8]) -> Option<&[u8]> {
    match value.split_first() {
        Some((&STORED_FIELDS, json)) => Some(json),
        _ => None,
    }
}

/// The leaves of these paths; nothing if there are none. As deep as the source, which was read within the limit.
fn only(value: &Value, wanted: &HashSet<&str>, path: &str) -> Option<Value> {
    if wanted.contains(path) {
        return Some(value.clone());
    }
    match value {
        Value::Object(object) => {
            let found: Map<String, Value> = object
                .iter()
                .filter_map(|(name, below)| {
                    let path = if path.is_empty() {
                        name.clone()
                    } else {
                        format!("{path}.{name}")
                    };
                    Some((name.clone(), only(below, wanted, &path)?))
                })
                .collect();
            (!found.is_empty()).then_some(Value::Object(found))
        }
        Value::Array(items) => {
            let found: Vec<Option<Value>> = items.iter().map(|item| only(item, wanted, path)).collect();
            let empty = |item: &Value| {
                if item.is_object() {
                    Value::Object(Map::new())
                } else {
                    Value::Null
                }
            };
            let any = found.iter().any(Option::is_some);
            any.then(|| {
                found
                    .into_iter()
                    .zip(items)
                    .map(|(f, item)| f.unwrap_or_else(|| empty(item)))
                    .collect()
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn leaves_keep_their_place() {
        let wanted = HashSet::from(["a.b", "c"]);
        let check = |source: Value, expected: Option<Value>| assert_eq!(only(&source, &wanted, ""), expected, "{source}");
        check(
            json!({ "a": { "b": 1, "x": 2 }, "c": [3, 4], "d": 5 }),
            Some(json!({ "a": { "b": 1 }, "c": [3, 4] })),
        );
        check(
            json!({ "a": [{ "x": 1 }, { "b": 2 }] }),
            Some(json!({ "a": [{}, { "b": 2 }] })),
        );
        check(json!({ "a.b": 1 }), Some(json!({ "a.b": 1 })));
        check(json!({ "a": [{ "x": 1 }], "d": 1 }), None);
    }

    #[test]
    fn a_source_is_not_taken_for_fields() {
        assert_eq!(stored_fields(b"{}"), None);
        assert_eq!(stored_fields(b""), None);
        assert_eq!(stored_fields(b"\0{}"), Some(b"{}".as_slice()));
    }
}
