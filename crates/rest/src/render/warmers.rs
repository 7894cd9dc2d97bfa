//! Warmers of Elasticsearch 2, checked and shown.
//!
//! Not here: the endpoints that use it (`handlers`).

use engine::IndexInfo;
use model::settings::{WARMERS, text};
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// The warmers of an index, by name.
pub(crate) fn of_index(info: &IndexInfo) -> Map<String, Value> {
    match serde_json::from_str(&text(&info.settings, WARMERS)) {
        Ok(Value::Object(warmers)) => warmers,
        _ => Map::new(),
    }
}

/// The stored form of `warmers` in a new index or a template.
///
/// # Errors
/// Not an object of objects.
pub(crate) fn check(given: &Value) -> Result<Map<String, Value>> {
    let Value::Object(given) = given else {
        return Err(Error::new(ErrorKind::Parse, "key [warmers] must be an object"));
    };
    let mut warmers = Map::new();
    for (name, body) in given {
        let Value::Object(body) = body else {
            return Err(Error::new(ErrorKind::Parse, format!("warmer [{name}] must be an object")));
        };
        let types = body.get("types").cloned().unwrap_or_else(|| json!([]));
        let source = body.get("source").cloned().unwrap_or_else(|| json!({}));
        warmers.insert(name.clone(), json!({ "types": types, "source": source }));
    }
    Ok(warmers)
}

/// The setting that keeps what `warmers` of a new index says.
///
/// # Errors
/// Not an object of objects.
pub(crate) fn at_creation(given: &Value) -> Result<Option<(String, Value)>> {
    let warmers = check(given)?;
    Ok((!warmers.is_empty()).then(|| (WARMERS.name.to_owned(), Value::Object(warmers).to_string().into())))
}

/// The warmers that `GET /i` shows.
pub(crate) fn render(info: &IndexInfo, dialect: Dialect) -> Option<Value> {
    dialect.rules.has_warmers.then(|| Value::Object(of_index(info)))
}
