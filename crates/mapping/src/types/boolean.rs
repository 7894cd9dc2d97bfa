//! `boolean`: `true`, `false`, their texts, and the empty string; anything in the typed dialect.

use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::text_of;
use model::{Error, Result};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("doc_values", Bool, "true", false),
    Param("ignore_malformed", Bool, "", true),
    Param("index", Any, "true", false),
    Param("null_value", Any, "", false),
    Param("store", Bool, "false", false),
];

/// A boolean of a document.
pub(crate) fn read(value: &Value) -> Result<FieldValue> {
    match value {
        Value::String(text) if text.is_empty() => Ok(FieldValue::Bool(false)),
        Value::Object(_) | Value::Array(_) => Err(super::not_a_text(value)),
        _ => term(value),
    }
}

/// A boolean of a query.
pub(crate) fn term(value: &Value) -> Result<FieldValue> {
    match (value, value.as_str()) {
        (Value::Bool(flag), _) => Ok(FieldValue::Bool(*flag)),
        (_, Some("true")) => Ok(FieldValue::Bool(true)),
        (_, Some("false")) => Ok(FieldValue::Bool(false)),
        _ => Err(Error::no_boolean(&text_of(value))),
    }
}

/// A boolean as Elasticsearch 2 reads it: everything is true but `false`, `0`, `off`, `no` and nothing.
pub(crate) fn lenient(value: &Value) -> FieldValue {
    FieldValue::Bool(match value {
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        other => !matches!(text_of(other).as_str(), "" | "false" | "0" | "off" | "no"),
    })
}
