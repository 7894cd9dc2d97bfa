//! Numbers, whole and with fractions: ranges, coercion, scaling; and `token_count`.

use crate::field::{FieldType, Kind};
use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::text_of;
use model::{Error, ErrorKind, Result, Topic};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("coerce", Bool, "", true),
    Param("doc_values", Bool, "true", false),
    Param("ignore_malformed", Bool, "", true),
    Param("index", Any, "true", false),
    Param("null_value", Any, "", false),
    Param("store", Bool, "false", false),
];

pub(crate) const SCALED_PARAMS: &[Param] = &[
    Param("coerce", Bool, "", true),
    Param("doc_values", Bool, "true", false),
    Param("ignore_malformed", Bool, "", true),
    Param("index", Any, "true", false),
    Param("null_value", Any, "", false),
    Param("scaling_factor", Any, "", false),
    Param("store", Bool, "false", false),
];

pub(crate) const COUNT_PARAMS: &[Param] = &[
    Param("analyzer", Text, "", true),
    Param("doc_values", Bool, "true", false),
    Param("enable_position_increments", Bool, "true", true),
    Param("index", Any, "true", false),
    Param("null_value", Any, "", false),
    Param("store", Bool, "false", false),
];

/// A number before it is made to fit a field.
enum Number {
    Whole(i128),
    Fraction(f64),
}

fn number(value: &Value) -> Result<Number> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        Value::Bool(flag) => {
            let token = if *flag { "VALUE_TRUE" } else { "VALUE_FALSE" };
            return Err(Error::new(
                ErrorKind::JsonParse,
                format!("Current token ({token}) not numeric, can not use numeric value accessors"),
            ));
        }
        other => return Err(super::not_a_text(other)),
    };
    if let Ok(whole) = text.parse::<i128>() {
        return Ok(Number::Whole(whole));
    }
    let spelled = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    match text.parse::<f64>() {
        Ok(number) if spelled => Ok(Number::Fraction(number)),
        _ if text.is_empty() => Err(Error::new(ErrorKind::NumberFormat, "empty String")),
        _ => Err(Error::no_number(&text_of(value))),
    }
}

fn range(kind: Kind) -> (i128, i128, &'static str) {
    match kind {
        Kind::Integer => (i32::MIN.into(), i32::MAX.into(), "an integer"),
        Kind::Short => (i16::MIN.into(), i16::MAX.into(), "a short"),
        Kind::Byte => (i8::MIN.into(), i8::MAX.into(), "a byte"),
        Kind::UnsignedLong => (0, u64::MAX.into(), "an unsigned long"),
        _ => (i64::MIN.into(), i64::MAX.into(), "a long"),
    }
}

fn whole(kind: Kind, value: i128) -> FieldValue {
    let (least, greatest, what) = range(kind);
    debug_assert!((least..=greatest).contains(&value), "[{value}] was checked to be {what}");
    match kind {
        Kind::UnsignedLong => FieldValue::UnsignedLong(value as u64),
        _ => FieldValue::Long(value as i64),
    }
}

/// The double that a field of this kind has for a number. `None` if it is out of range.
fn round(field: &FieldType, value: f64) -> Option<f64> {
    let rounded = match field.kind {
        Kind::ScaledFloat => (value * field.scaling_factor).round() / field.scaling_factor,
        Kind::Float => f64::from(value as f32),
        Kind::HalfFloat => half(value),
        _ => value,
    };
    rounded.is_finite().then_some(rounded)
}

/// The nearest number with an 11-bit significand; infinite above 65,504.
fn half(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = (value.abs().log2().floor() as i32).max(-14);
    let step = 2f64.powi(exponent - 10);
    let rounded = (value / step).round_ties_even() * step;
    if rounded.abs() > 65_504.0 { f64::INFINITY } else { rounded }
}

/// A number of a document.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    if value.is_string() && !field.coerce {
        let name = if field.kind.is_integer() { "Integer" } else { "Float" };
        return Err(Error::illegal(format!("{name} value passed as String")));
    }
    let parsed = number(value)?;
    if field.kind.is_float() {
        let number = match parsed {
            Number::Whole(number) => number as f64,
            Number::Fraction(number) => number,
        };
        return round(field, number).map(FieldValue::Double).ok_or_else(|| {
            Error::illegal(format!(
                "[{}] supports only finite values, but got [{}]",
                field.kind.wire(),
                text_of(value)
            ))
        });
    }
    let (min, max, name) = range(field.kind);
    let number = match parsed {
        Number::Whole(number) => number,
        Number::Fraction(fraction) if fraction.fract() == 0.0 || field.coerce => fraction.trunc() as i128,
        Number::Fraction(_) => {
            return Err(Error::illegal(format!("Value [{}] has a decimal part", text_of(value))));
        }
    };
    if number < min || number > max {
        return Err(out_of_range(value, name));
    }
    Ok(whole(field.kind, number))
}

/// The refusal of a number that the type called `name` cannot hold.
fn out_of_range(value: &Value, name: &str) -> Error {
    Error::illegal(format!("Value [{}] is out of range for {name}", text_of(value))).about(Topic::NumberRange)
}

/// A number of a query.
pub(crate) fn term(field: &FieldType, value: &Value) -> Result<Option<FieldValue>> {
    let parsed = number(value)?;
    if field.kind.is_float() {
        let number = match parsed {
            Number::Whole(number) => number as f64,
            Number::Fraction(number) => number,
        };
        let found = round(field, number).map(FieldValue::Double);
        if found.is_none() && field.kind != Kind::ScaledFloat {
            let (name, text) = (field.kind.wire(), if number < 0.0 { "-Infinity" } else { "Infinity" });
            return Err(Error::illegal(format!(
                "[{name}] supports only finite values, but got [{text}]"
            )));
        }
        return Ok(found);
    }
    let (min, max, _) = range(field.kind);
    let number = match parsed {
        Number::Whole(number) => number,
        Number::Fraction(fraction) if fraction.fract() == 0.0 => fraction as i128,
        Number::Fraction(_) => return Ok(None),
    };
    // A number that no integer type of Lucene's can hold is refused; one that only this type cannot hold is in no document.
    let least = if matches!(field.kind, Kind::Byte | Kind::Short) {
        Kind::Integer
    } else {
        field.kind
    };
    let (low, high, name) = range(least);
    if field.kind.is_integer() && !(low..=high).contains(&number) {
        return Err(out_of_range(value, name));
    }
    Ok((min..=max).contains(&number).then(|| whole(field.kind, number)))
}

/// The number of tokens of a text.
pub(crate) fn count(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = super::text::read(value)?;
    let count = match &field.analyzer {
        Some(analyzer) => analyzer.try_analyze(&text)?.len(),
        None => 0,
    };
    Ok(FieldValue::Long(count as i64))
}
