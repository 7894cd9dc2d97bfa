//! Rules of every catalog: which index an alias means, and how settings are written.
//!
//! Not here: the catalogs themselves, wildcards, names of dates, what follows from settings (`mapping::settings`).

use model::{Error, ErrorKind, IndexName, Result, Topic};
use serde_json::{Map, Value};

/// `index_not_found_exception`.
pub fn missing(name: &str) -> Error {
    Error::new(ErrorKind::IndexNotFound, format!("no such index [{name}]"))
        .with("resource.type", "index_or_alias")
        .with("resource.id", name)
        .with("index_uuid", "_na_")
        .with("index", name)
}

/// `index_not_found_exception`: the index with this uuid is gone, or not the one of this name.
pub fn index_replaced(name: &str, uuid: &str) -> Error {
    let reason = format!("no such index [{name}] with uuid [{uuid}]: it was deleted, or its name leads to another index by now");
    Error::new(ErrorKind::IndexNotFound, reason)
        .with("index_uuid", uuid)
        .with("index", name)
}

/// `index_closed_exception`.
pub fn index_closed(name: &IndexName, uuid: &str) -> Error {
    Error::new(ErrorKind::IndexClosed, "closed")
        .with("index_uuid", uuid)
        .with("index", name.as_str())
}

/// `require_alias`, and it is an index.
pub fn no_alias(name: &str) -> Error {
    let why = format!("no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias");
    Error::new(ErrorKind::IndexNotFound, why)
        .with("index_uuid", "_na_")
        .with("index", name)
}

/// An index behind an alias: its name, the alias's options there, the catalog's entry.
pub type Behind<'a, T> = (&'a str, &'a Value, &'a T);

/// The one index that a write to an alias goes to.
///
/// # Errors
/// No index behind it, or several and none of them the write index.
pub fn writer<'a, T>(alias: &str, behind: &[Behind<'a, T>]) -> Result<&'a T> {
    let writers: Vec<_> = behind
        .iter()
        .filter(|(_, options, _)| options["is_write_index"] == true)
        .collect();
    match (behind, writers.as_slice()) {
        ([], _) => Err(missing(alias)),
        ([(_, options, one)], _) if options["is_write_index"] != false => Ok(one),
        (_, [(_, _, one)]) => Ok(one),
        _ => Err(Error::illegal(format!(
            "no write index is defined for alias [{alias}]. The write index may be explicitly disabled using is_write_index=false \
             or the alias points to multiple indices without one being designated as a write index"
        ))),
    }
}

/// The one index that a read of an alias goes to.
///
/// # Errors
/// No index behind it, or several.
pub fn reader<'a, T>(alias: &str, behind: &[Behind<'a, T>]) -> Result<&'a T> {
    match behind {
        [] => Err(missing(alias)),
        [(_, _, one)] => Ok(one),
        several => {
            let indices: Vec<String> = several.iter().map(|(name, ..)| (*name).to_owned()).collect();
            let reason = format!(
                "alias [{alias}] has more than one index associated with it [{}], can't execute a single index op",
                indices.join(", ")
            );
            let alias = alias.to_owned();
            Err(Error::illegal(reason).about(Topic::AliasOfSeveral { alias, indices }))
        }
    }
}

/// Nested or flat, with or without `index.`: flat with it. Values as given, numbers and booleans as text.
pub fn flatten(settings: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in settings {
        flat(name, value, &mut out);
    }
    out.into_iter()
        .map(|(name, value)| {
            (
                if name.starts_with("index.") {
                    name
                } else {
                    format!("index.{name}")
                },
                value,
            )
        })
        .collect()
}

fn flat(name: &str, value: &Value, out: &mut Map<String, Value>) {
    match value {
        Value::Object(inner) => inner
            .iter()
            .for_each(|(key, value)| flat(&format!("{name}.{key}"), value, out)),
        Value::Array(list) => {
            let text = |v: &Value| {
                if v.is_object() || v.is_string() {
                    v.clone()
                } else {
                    Value::String(v.to_string())
                }
            };
            out.insert(name.to_owned(), Value::Array(list.iter().map(text).collect()));
        }
        Value::String(_) | Value::Null => drop(out.insert(name.to_owned(), value.clone())),
        other => drop(out.insert(name.to_owned(), Value::String(other.to_string()))),
    }
}
