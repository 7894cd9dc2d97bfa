//! The table of field types. One file a family has its parameters, how it reads a value, and how it shows one.

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
pub(crate) mod tree_path;

use crate::field::{FieldType, Kind};
use crate::spec::Param;
use crate::value::FieldValue;
use model::{Error, ErrorKind, Result};
use serde_json::Value;

type Read = fn(&FieldType, &Value) -> Result<FieldValue>;

/// `None`: no document can have the value.
type Term = fn(&FieldType, &Value) -> Result<Option<FieldValue>>;

/// One row of the table.
struct TypeSpec {
    kind: Kind,
    params: &'static [Param],
    /// A value of a document.
    read: Read,
    /// A value of a query, where it is read otherwise than those of documents.
    term: Option<Term>,
}

/// A type whose queries are read otherwise than its documents.
const fn with_terms(kind: Kind, params: &'static [Param], read: Read, term: Term) -> TypeSpec {
    TypeSpec {
        kind,
        params,
        read,
        term: Some(term),
    }
}

/// A type whose queries are read as its documents.
const fn values(kind: Kind, params: &'static [Param], read: Read) -> TypeSpec {
    TypeSpec {
        kind,
        params,
        read,
        term: None,
    }
}

const fn texts(kind: Kind) -> TypeSpec {
    let read: Read = |field, value| text::read_checked(field, value).map(FieldValue::Text);
    let term: Term = |_, value| text::read(value).map(|text| Some(FieldValue::Text(text)));
    with_terms(kind, text::PARAMS, read, term)
}

const fn keywords(kind: Kind, params: &'static [Param]) -> TypeSpec {
    with_terms(kind, params, keyword::read, |field, value| {
        keyword::term(field, value).map(Some)
    })
}

const fn numbers(kind: Kind, params: &'static [Param]) -> TypeSpec {
    with_terms(kind, params, numeric::read, numeric::term)
}

/// A type of fields that hold nothing themselves.
const fn empty(kind: Kind, params: &'static [Param]) -> TypeSpec {
    let refuse: Read = |field, _| Err(Error::illegal(format!("[{}] fields have no values", field.wire())));
    values(kind, params, refuse)
}

/// Every field type, in the order of [`Kind`].
const FIELD_TYPES: &[TypeSpec] = &[
    texts(Kind::Text),
    texts(Kind::MatchOnlyText),
    keywords(Kind::Keyword, keyword::PARAMS),
    keywords(Kind::ConstantKeyword, keyword::CONSTANT_PARAMS),
    keywords(Kind::Wildcard, keyword::PARAMS),
    numbers(Kind::Long, numeric::PARAMS),
    numbers(Kind::Integer, numeric::PARAMS),
    numbers(Kind::Short, numeric::PARAMS),
    numbers(Kind::Byte, numeric::PARAMS),
    numbers(Kind::UnsignedLong, numeric::PARAMS),
    numbers(Kind::Double, numeric::PARAMS),
    numbers(Kind::Float, numeric::PARAMS),
    numbers(Kind::HalfFloat, numeric::PARAMS),
    numbers(Kind::ScaledFloat, numeric::SCALED_PARAMS),
    with_terms(
        Kind::Boolean,
        boolean::PARAMS,
        |_, value| boolean::read(value),
        |_, value| boolean::term(value).map(Some),
    ),
    values(Kind::Date, date::PARAMS, date::read),
    values(Kind::DateNanos, date::PARAMS, date::read),
    values(Kind::Ip, ip::PARAMS, |_, value| ip::read(value)),
    values(Kind::IntegerRange, range::PARAMS, range::read),
    values(Kind::LongRange, range::PARAMS, range::read),
    values(Kind::FloatRange, range::PARAMS, range::read),
    values(Kind::DoubleRange, range::PARAMS, range::read),
    values(Kind::DateRange, range::DATE_PARAMS, range::read),
    values(Kind::IpRange, range::PARAMS, range::read),
    values(Kind::Binary, binary::PARAMS, |_, value| binary::read(value)),
    values(Kind::GeoPoint, geo::PARAMS, |_, value| geo::read(value)),
    with_terms(
        Kind::Join,
        join::PARAMS,
        |_, value| join::read(value),
        |_, value| text::read(value).map(|name| Some(FieldValue::Join { name, parent: None })),
    ),
    values(Kind::Completion, completion::PARAMS, completion::read),
    with_terms(Kind::TokenCount, numeric::COUNT_PARAMS, numeric::count, numeric::term),
    with_terms(Kind::TreePath, tree_path::PARAMS, tree_path::read, |field, value| {
        tree_path::term(field, value).map(Some)
    }),
    empty(Kind::Alias, object::ALIAS_PARAMS),
    empty(Kind::Object, &[]),
    empty(Kind::Nested, &[]),
];

// Each kind is the position of its row.
const _: () = {
    assert!(FIELD_TYPES.len() == Kind::ALL.len());
    let mut at = 0;
    while at < FIELD_TYPES.len() {
        assert!(FIELD_TYPES[at].kind as usize == at);
        at += 1;
    }
};

fn spec(kind: Kind) -> &'static TypeSpec {
    &FIELD_TYPES[kind as usize]
}

/// The parameters of a kind.
pub(crate) fn params(kind: Kind) -> &'static [Param] {
    spec(kind).params
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
            _ => match spec(self.kind).term {
                Some(term) => term(self, value),
                None => read(self, value).map(Some),
            },
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
    (spec(field.kind).read)(field, value)
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

/// The refusal of a value that is no text.
fn not_a_text(value: &Value) -> Error {
    let token = match value {
        Value::Array(_) => "START_ARRAY",
        _ => "START_OBJECT",
    };
    Error::new(ErrorKind::IllegalState, format!("Can't get text on a {token}"))
}
