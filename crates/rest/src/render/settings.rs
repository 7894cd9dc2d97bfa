//! Settings of indices, flat and nested.
//!
//! Not here: the endpoints that use it (`handlers`).

use engine::IndexInfo;
use model::settings::{ALL, Scope};
use model::{Dialect, Persona, path};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Settings of an index as `GET` shows them: strings, nested or flat, those that match a pattern.
pub(crate) fn render(info: &IndexInfo, dialect: Dialect, flat: bool, patterns: &[String]) -> Value {
    let mut all: Map<String, Value> = info
        .settings
        .iter()
        // `_warmer` shows them.
        .filter(|(k, v)| !v.is_null() && *k != model::settings::WARMERS.name)
        .map(|(k, v)| (k.clone(), text(v)))
        .collect();
    all.insert("index.creation_date".into(), info.created_ms.to_string().into());
    all.insert("index.uuid".into(), info.uuid.as_str().into());
    all.insert("index.version.created".into(), version(dialect).into());
    if !dialect.rules.omits_later_members {
        all.insert("index.provided_name".into(), info.name.as_str().into());
    }
    if matches!(dialect.persona, Persona::Opensearch2 | Persona::Opensearch3) {
        all.entry("index.replication.type").or_insert_with(|| "DOCUMENT".into());
    }
    for row in [model::settings::NUMBER_OF_SHARDS, model::settings::NUMBER_OF_REPLICAS] {
        all.entry(row.name).or_insert_with(|| row.default.into());
    }
    all.retain(|name, _| patterns.is_empty() || patterns.iter().any(|p| p == "_all" || path::matches(p, name)));
    shape(all, flat)
}

/// Version ids as the servers number them.
pub(crate) fn version(dialect: Dialect) -> String {
    let mut parts = dialect.persona.version().split('.').filter_map(|p| p.parse::<u64>().ok());
    let (a, b, c) = (
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
        parts.next().unwrap_or(0),
    );
    let id = a * 1_000_000 + b * 10_000 + c * 100 + 99;
    (if dialect.persona.is_opensearch() {
        id ^ 0x0800_0000
    } else {
        id
    })
    .to_string()
}

pub(crate) fn text(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        Value::Array(items) => Value::Array(items.iter().map(text).collect()),
        other => Value::String(other.to_string()),
    }
}

/// The settings of a template, as they were given, in the form in which indices show theirs.
pub(crate) fn of_template(given: &Value, flat: bool) -> Value {
    let given = given.as_object().map(flatten).unwrap_or_default();
    let mut found: Map<String, Value> = given.into_iter().map(|(name, value)| (name, text(value))).collect();
    found.sort_keys();
    shape(found, flat)
}

/// Settings of an index by their full flat names, whichever way they were given.
pub(crate) fn flatten(given: &Map<String, Value>) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(String, &Value)> = given.iter().map(|(name, value)| (name.clone(), value)).collect();
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(inner) => open.extend(inner.iter().map(|(key, value)| (format!("{name}.{key}"), value))),
            value if name.starts_with("index.") => drop(found.insert(name, value)),
            value => drop(found.insert(format!("index.{name}"), value)),
        }
    }
    found
}

/// Flat names as they are, or as a tree.
pub(crate) fn shape(flat_map: Map<String, Value>, flat: bool) -> Value {
    if flat {
        return Value::Object(flat_map);
    }
    let mut out = Value::Object(Map::new());
    for (name, value) in flat_map {
        let mut at = &mut out;
        let parts: Vec<&str> = name.split('.').collect();
        for (i, part) in parts.iter().enumerate() {
            let Some(map) = at.as_object_mut() else { break };
            if i + 1 == parts.len() {
                map.insert((*part).to_owned(), value.clone());
                break;
            }
            let next = map.entry((*part).to_owned()).or_insert_with(|| json!({}));
            if !next.is_object() {
                *next = json!({});
            }
            at = next;
        }
    }
    out
}

/// Defaults of every index setting that an index does not set itself and that a pattern is for.
pub(crate) fn defaults(info: &IndexInfo, flat: bool, patterns: &[String]) -> Value {
    let own = |name: &str| {
        let always = [model::settings::NUMBER_OF_SHARDS, model::settings::NUMBER_OF_REPLICAS];
        info.settings.contains_key(name) || always.iter().any(|row| row.name == name)
    };
    let wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| p == "_all" || path::matches(p, name));
    let rows = ALL
        .iter()
        .filter(|s| matches!(s.scope, Scope::IndexStatic | Scope::IndexDynamic))
        .filter(|s| !own(s.name) && wanted(s.name));
    shape(rows.map(|s| (s.name.to_owned(), s.default.into())).collect(), flat)
}
