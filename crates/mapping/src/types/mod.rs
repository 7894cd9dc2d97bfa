//! The field types: one file a family, each with its table of parameters, how it reads a value, and how
//! it shows one.

pub(crate) mod binary;
pub(crate) mod boolean;
pub mod completion;
pub mod contexts;
pub(crate) mod date;
pub(crate) mod geo;
pub(crate) mod ip;
pub(crate) mod join;
pub(crate) mod keyword;
pub(crate) mod numeric;
pub(crate) mod object;
pub(crate) mod range;
pub(crate) mod text;

use crate::field::{FieldType, Kind};
use crate::spec::Param;
use crate::value::FieldValue;
use model::{Error, ErrorKind, Result};
use serde_json::Value;

/// The parameters of a kind.
pub(crate) fn params(kind: Kind) -> &'static [Param] {
    match kind {
        Kind::Text | Kind::MatchOnlyText => text::PARAMS,
        Kind::Keyword | Kind::Wildcard => keyword::PARAMS,
        Kind::ConstantKeyword => keyword::CONSTANT_PARAMS,
        Kind::ScaledFloat => numeric::SCALED_PARAMS,
        Kind::TokenCount => numeric::COUNT_PARAMS,
        kind if kind.is_numeric() => numeric::PARAMS,
        Kind::Boolean => boolean::PARAMS,
        Kind::Date | Kind::DateNanos => date::PARAMS,
        Kind::Ip => ip::PARAMS,
        Kind::DateRange => range::DATE_PARAMS,
        kind if kind.is_range() => range::PARAMS,
        Kind::Binary => binary::PARAMS,
        Kind::GeoPoint => geo::PARAMS,
        Kind::Join => join::PARAMS,
        Kind::Completion => completion::PARAMS,
        Kind::Alias => object::ALIAS_PARAMS,
        _ => &[],
    }
}

impl FieldType {
    /// A query's value as this field has it. `None`: no document can have it (a fraction in an integer
    /// field, a number out of range). Dates are read without date math: see [`model::date::parse_math`].
    pub fn parse_term(&self, value: &Value) -> Result<Option<FieldValue>> {
        match value {
            Value::Null => Ok(None),
            Value::Array(_) | Value::Object(_) => Err(Error::illegal(format!(
                "[{}] fields do not support objects or arrays as values",
                self.wire()
            ))),
            _ => term(self, value),
        }
    }

    /// Latitude and longitude of a point in any of its shapes, a list of numbers or an object among them.
    pub fn parse_point(&self, value: &Value) -> Option<(f64, f64)> {
        match geo::read(value) {
            Ok(FieldValue::Geo { lat, lon }) if self.kind == Kind::GeoPoint => Some((lat, lon)),
            _ => None,
        }
    }

    /// A value as `docvalue_fields`, sorts and buckets show it.
    pub fn render_value(&self, value: &FieldValue) -> Value {
        render(self, value)
    }
}

/// A value of a document.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    match field.kind {
        Kind::Text | Kind::MatchOnlyText => text::checked(field, value).map(FieldValue::Text),
        kind if kind.is_keyword() => keyword::read(field, value),
        Kind::TokenCount => numeric::count(field, value),
        kind if kind.is_numeric() => numeric::read(field, value),
        Kind::Boolean => boolean::read(value),
        Kind::Date | Kind::DateNanos => date::read(field, value),
        Kind::Ip => ip::read(value),
        Kind::Binary => binary::read(value),
        Kind::GeoPoint => geo::read(value),
        Kind::Join => join::read(value),
        Kind::Completion => completion::read(field, value),
        kind if kind.is_range() => range::read(field, value),
        _ => Err(Error::illegal(format!("[{}] fields have no values", field.wire()))),
    }
}

/// A value of a query.
pub(crate) fn term(field: &FieldType, value: &Value) -> Result<Option<FieldValue>> {
    match field.kind {
        Kind::Text | Kind::MatchOnlyText => text::read(value).map(|text| Some(FieldValue::Text(text))),
        kind if kind.is_keyword() => keyword::term(field, value).map(Some),
        kind if kind.is_numeric() => numeric::term(field, value),
        Kind::Boolean => boolean::term(value).map(Some),
        Kind::Date | Kind::DateNanos => date::read(field, value).map(Some),
        Kind::Join => text::read(value).map(|name| Some(FieldValue::Join { name, parent: None })),
        _ => read(field, value).map(Some),
    }
}

/// A value as an answer shows it.
pub(crate) fn render(field: &FieldType, value: &FieldValue) -> Value {
    match value {
        FieldValue::Text(text) | FieldValue::Keyword(text) => Value::String(text.clone()),
        FieldValue::Long(number) => (*number).into(),
        FieldValue::UnsignedLong(number) => (*number).into(),
        FieldValue::Double(number) => (*number).into(),
        FieldValue::Bool(flag) => (*flag).into(),
        FieldValue::Date(ms) => date::render(field, *ms),
        FieldValue::DateNanos(nanos) => date::render_nanos(field, *nanos),
        FieldValue::Ip(bytes) => ip::render(*bytes).into(),
        FieldValue::Geo { lat, lon } => format!("{lat}, {lon}").into(),
        FieldValue::Binary(bytes) => binary::render(bytes).into(),
        FieldValue::Join { name, .. } => Value::String(name.clone()),
        FieldValue::Completion(entries) => {
            // In a field with contexts an input is kept for each of them.
            let inputs = entries.iter().filter_map(|e| completion::entry(e)).map(|e| e.2);
            let mut seen = std::collections::BTreeSet::new();
            inputs.filter(|input| seen.insert(*input)).collect()
        }
        // Answers show ranges as the source has them.
        FieldValue::Range { low, high } => serde_json::json!([low.to_string(), high.to_string()]),
    }
}

/// What stands in the way when a text is wanted.
fn not_a_text(value: &Value) -> Error {
    let token = match value {
        Value::Array(_) => "START_ARRAY",
        _ => "START_OBJECT",
    };
    Error::new(ErrorKind::IllegalState, format!("Can't get text on a {token}"))
}
