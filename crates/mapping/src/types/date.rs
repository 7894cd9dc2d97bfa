//! `date` and `date_nanos`: a text in the field's format, or a number of milliseconds.

use crate::field::{FieldType, Kind};
use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::text_of;
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

/// A date, of a document or a query.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = match value {
        Value::String(_) | Value::Number(_) => text_of(value),
        Value::Bool(_) => {
            let format = field.format.clone().unwrap_or_default();
            return Err(format.no_date(&value.to_string()));
        }
        other => return Err(super::not_a_text(other)),
    };
    let (ms, nanos) = match &field.format {
        Some(format) => format.parse_nanos(&text, None)?,
        None => DateFormat::default().parse_nanos(&text, None)?,
    };
    if field.kind != Kind::DateNanos {
        return Ok(FieldValue::Date(ms));
    }
    if ms < 0 {
        let reason = format!("date[{text}] is before the epoch in 1970 and cannot be stored in nanosecond resolution");
        return Err(Error::illegal(reason));
    }
    let all = ms.checked_mul(1_000_000).and_then(|whole| whole.checked_add(nanos));
    all.map(FieldValue::DateNanos).ok_or_else(|| {
        Error::illegal(format!(
            "date[{text}] is after 2262-04-11T23:47:16.854775807 and cannot be stored in nanosecond resolution"
        ))
    })
}

/// A date with nanoseconds in the field's format.
pub(crate) fn render_nanos(field: &FieldType, nanos: i64) -> Value {
    match &field.format {
        Some(format) => format.render_nanos(nanos, None).into(),
        None => nanos.div_euclid(1_000_000).into(),
    }
}

/// A date in the field's format.
pub(crate) fn render(field: &FieldType, ms: i64) -> Value {
    match &field.format {
        Some(format) => format.render(ms, None).into(),
        None => ms.into(),
    }
}
