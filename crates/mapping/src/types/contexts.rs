//! `contexts` of `completion` fields: categories and places that divide the inputs.
//!
//! Each input is kept once for each value of each context, behind the context's number and the value; places are geohashes of
//! the context's length. A context may be read off another field of the document too (`path`). Not here: what a request asks
//! of them (the engine).

use crate::field::FieldType;
use crate::value::FieldValue;
use model::geohash::{self, LENGTH_MAX};
use model::{Error, ErrorKind, Result, units};
use serde_json::{Map, Value, json};

/// Contexts of one field.
const MOST: usize = 64;
/// Between the value of a context and the input.
pub const CONTEXT_END: char = '\u{1e}';

/// One context of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionContext {
    /// Its name.
    pub name: String,
    /// The length of the geohashes of places; a category has none.
    pub precision: Option<usize>,
    /// The field whose values are contexts too.
    pub path: Option<String>,
}

fn refuse(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::Parse, reason.into())
}

/// Reads the parameter of a mapping.
pub(crate) fn parse(value: &Value) -> Result<Vec<CompletionContext>> {
    let one;
    let list = match value {
        Value::Array(list) => list,
        Value::Object(_) => {
            one = vec![value.clone()];
            &one
        }
        _ => return Err(refuse("expected a list or an entry of context mapping")),
    };
    if list.is_empty() {
        return Err(refuse("expected at least one context mapping"));
    }
    if list.len() > MOST {
        return Err(Error::illegal(format!("a completion field has at most [{MOST}] contexts")));
    }
    list.iter().map(context).collect()
}

fn context(value: &Value) -> Result<CompletionContext> {
    let object = value
        .as_object()
        .ok_or_else(|| refuse("expected a list or an entry of context mapping"))?;
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let name = text("name").ok_or_else(|| refuse("missing [name] in context mapping"))?;
    let kind = text("type").ok_or_else(|| refuse("missing [type] in context mapping"))?;
    let geo = match kind.to_ascii_lowercase().as_str() {
        "category" => false,
        "geo" => true,
        _ => return Err(Error::illegal(format!("No context type for [{kind}]"))),
    };
    let known = |key: &str| matches!(key, "name" | "type" | "path") || geo && key == "precision";
    let unknown: Vec<String> = object
        .iter()
        .filter(|(key, _)| !known(key))
        .map(|(key, value)| format!("[{key} : {}]", crate::wording::text_of(value)))
        .collect();
    if !unknown.is_empty() {
        let reason = format!(
            "Mapping definition for [{name}] has unsupported parameters:  {}",
            unknown.join(" ")
        );
        return Err(Error::new(ErrorKind::MapperParsing, reason));
    }
    let precision = match object.get("precision") {
        _ if !geo => None,
        None => Some(6),
        Some(given) => Some(length(given)?),
    };
    Ok(CompletionContext {
        name: name.to_owned(),
        precision,
        path: object.get("path").map(crate::wording::text_of),
    })
}

/// The length of geohashes for a precision: a length, or a distance.
///
/// # Errors
/// Neither.
pub fn length(value: &Value) -> Result<usize> {
    let bad = || refuse(format!("cannot parse precision [{value}]"));
    let text = match value {
        Value::Number(number) => return number.as_u64().map(|n| n as usize).ok_or_else(bad),
        Value::String(text) => text.trim(),
        _ => return Err(bad()),
    };
    if let Ok(levels) = text.parse::<usize>() {
        return Ok(levels);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
    let amount: f64 = text[..split].parse().map_err(|_| bad())?;
    let unit = text[split..].trim();
    let metres = amount * units::metres_of(unit).ok_or_else(bad)?;
    Ok(geohash::digits_of(metres))
}

/// As mappings show it.
pub(crate) fn render(contexts: &[CompletionContext]) -> Value {
    let one = |context: &CompletionContext| {
        let mut out = match context.precision {
            Some(precision) => json!({ "name": context.name, "type": "GEO", "precision": precision }),
            None => json!({ "name": context.name, "type": "CATEGORY" }),
        };
        if let Some(path) = &context.path {
            out["path"] = path.as_str().into();
        }
        out
    };
    contexts.iter().map(one).collect()
}

/// The contexts of a field; none of most.
pub fn of(field: &FieldType) -> Vec<CompletionContext> {
    field
        .params
        .get("contexts")
        .and_then(|given| parse(given).ok())
        .unwrap_or_default()
}

/// A value of a completion with the contexts that are read off other fields of its document; `None` where there are none.
pub(crate) fn from_paths(field: &FieldType, value: &Value, document: &Map<String, Value>) -> Option<Value> {
    let mut object = match value {
        Value::String(_) => Map::from_iter([("input".to_owned(), value.clone())]),
        Value::Object(object) => object.clone(),
        _ => return None,
    };
    let mut any = false;
    for context in of(field) {
        let Some(path) = &context.path else { continue };
        let (mut found, places) = (Vec::new(), context.precision.is_some());
        in_object(document, path, places, &mut found);
        if found.is_empty() {
            continue;
        }
        any = true;
        let contexts = object.entry("contexts").or_insert_with(|| Map::new().into());
        let given = contexts.as_object_mut()?.entry(context.name).or_insert_with(|| json!([]));
        let one_place = places
            && given
                .as_array()
                .is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_number));
        match given {
            Value::Array(list) if !one_place => list.extend(found),
            one => {
                found.push(one.take());
                *one = found.into();
            }
        }
    }
    any.then_some(Value::Object(object))
}

/// The values at a path of an object, through lists; names may have dots. A place as two numbers is one value.
fn in_object(object: &Map<String, Value>, path: &str, places: bool, out: &mut Vec<Value>) {
    for (name, value) in object {
        match path.strip_prefix(name.as_str()) {
            Some("") => leaves(value, places, out),
            Some(rest) => {
                if let Some(rest) = rest.strip_prefix('.') {
                    below(value, rest, places, out);
                }
            }
            None => {}
        }
    }
}

fn below(value: &Value, path: &str, places: bool, out: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| below(item, path, places, out)),
        Value::Object(object) => in_object(object, path, places, out),
        _ => {}
    }
}

fn leaves(value: &Value, places: bool, out: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Array(items) if places && items.first().is_some_and(Value::is_number) => out.push(value.clone()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, places, out)),
        value => out.push(value.clone()),
    }
}

/// The prefixes of the inputs of a document: each value of each context.
pub(crate) fn beginnings(contexts: &[CompletionContext], given: Option<&Map<String, Value>>) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for (name, value) in given.into_iter().flatten() {
        let Some(no) = contexts.iter().position(|context| context.name == *name) else {
            let names: Vec<&str> = contexts.iter().map(|context| context.name.as_str()).collect();
            return Err(Error::illegal(format!(
                "Unknown context name [{name}], must be one of [{}]",
                names.join(", ")
            )));
        };
        for text in values(&contexts[no], value)? {
            out.push(beginning(no, &text)?);
        }
    }
    if out.is_empty() {
        return Err(Error::illegal("Contexts are mandatory in context enabled completion fields"));
    }
    out.sort_unstable();
    out.dedup();
    Ok(out)
}

/// The number of a context and a value of it.
///
/// # Errors
/// Characters that separate.
pub fn beginning(no: usize, value: &str) -> Result<String> {
    if value.chars().any(|c| c < ' ') {
        return Err(Error::illegal(format!("context value [{value}] has a reserved character")));
    }
    let mark = char::from_u32('0' as u32 + no as u32).unwrap_or('0');
    Ok(format!("{mark}{value}"))
}

fn values(context: &CompletionContext, value: &Value) -> Result<Vec<String>> {
    let point = |value: &Value| match super::geo::read(value)? {
        FieldValue::Geo { lat, lon } => Ok(lat_lon_hash(lat, lon, context.precision.unwrap_or(LENGTH_MAX))),
        _ => Err(refuse("a context of places needs a place")),
    };
    let category = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err(refuse("category context must be a string, number or boolean")),
    };
    match (value, context.precision) {
        (Value::Array(list), Some(_)) if !list.iter().all(Value::is_number) => list.iter().map(point).collect(),
        (value, Some(_)) => Ok(vec![point(value)?]),
        (Value::Array(list), None) => list.iter().map(category).collect(),
        (Value::Object(_), None) => Err(refuse(
            "contexts must be a string, number or boolean or a list of string, number or boolean",
        )),
        (value, None) => Ok(vec![category(value)?]),
    }
}

/// The geohash of a place.
pub fn lat_lon_hash(lat: f64, lon: f64, length: usize) -> String {
    geohash::text(geohash::code(lat, lon, length), length)
}

/// The cells around that of a place, of the same length.
pub fn around(lat: f64, lon: f64, length: usize) -> Vec<String> {
    let (east, north) = ((5 * length).div_ceil(2) as i32, (5 * length / 2) as i32);
    let (width, height) = (360.0 / 2f64.powi(east), 180.0 / 2f64.powi(north));
    let middle = |value: f64, from: f64, step: f64| ((value - from) / step).floor() * step + from + step / 2.0;
    let (lat, lon) = (middle(lat, -90.0, height), middle(lon, -180.0, width));
    let mut out = Vec::new();
    for dy in [-1.0, 0.0, 1.0] {
        for dx in [-1.0, 0.0, 1.0] {
            let near = lat + dy * height;
            let across = (lon + dx * width + 540.0).rem_euclid(360.0) - 180.0;
            if (-90.0..=90.0).contains(&near) && (dx, dy) != (0.0, 0.0) {
                out.push(lat_lon_hash(near, across, length));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        // Worked out by hand: 100 km are cells of 66.7 km, 601 around the equator, 9 bits: one whole level of 5, and 4.
        for (given, expected) in [
            (json!("1km"), 6),
            (json!("5km"), 5),
            (json!("100km"), 4),
            (json!(4), 4),
            (json!("5"), 5),
        ] {
            assert_eq!(length(&given).ok(), Some(expected), "{given}");
        }
    }

    #[test]
    fn cells() {
        assert_eq!(lat_lon_hash(57.649_11, 10.407_44, 11), "u4pruydqqvj");
        assert_eq!(lat_lon_hash(52.5, 13.4, 4), "u33d");
        let mut near = around(52.5, 13.4, 1);
        near.sort();
        assert_eq!(near, ["e", "g", "s", "t", "v"]);
    }
}
