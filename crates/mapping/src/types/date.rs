//! `date` and `date_nanos`: a text in the field's format, or a number of milliseconds.

use crate::field::{FieldType, Kind};
use crate::parameters::{Param, Shape::*, text_of};
use crate::value::FieldValue;
use model::date::DateFormat;
use model::{Error, Result};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("doc_values", Bool, "true", false),
    Param("format", Text, "", false),
    Param("ignore_malformed", Bool, "", true),
    Param("index", Any, "true", false),
    Param("locale", Text, "", false),
    Param("null_value", Any, "", false),
    Param("print_format", Text, "", true),
    Param("store", Bool, "false", false),
];

/// A date, of a document or a query. Nanoseconds are kept to the millisecond.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = match value {
        Value::String(_) | Value::Number(_) => text_of(value),
        Value::Bool(_) => {
            return Err(Error::illegal(format!("failed to parse date field [{value}]")));
        }
        other => return Err(super::not_a_text(other)),
    };
    let ms = match &field.format {
        Some(format) => format.parse(&text, None)?,
        None => DateFormat::default().parse(&text, None)?,
    };
    match field.kind {
        Kind::DateNanos => ms
            .checked_mul(1_000_000)
            .map(FieldValue::DateNanos)
            .ok_or_else(|| Error::illegal(format!("date[{text}] is outside the range of nanosecond dates, 1677 to 2262"))),
        _ => Ok(FieldValue::Date(ms)),
    }
}

/// A date in the field's format.
pub(crate) fn render(field: &FieldType, ms: i64) -> Value {
    match &field.format {
        Some(format) => format.render(ms, None).into(),
        None => ms.into(),
    }
}
