//! Ranges as values: `integer_range`, `long_range`, `float_range`, `double_range`, `date_range`, `ip_range`.
//!
//! Both ends are kept as 128-bit keys whose order is that of the values, included ends only; an end that is open is the
//! least or the greatest value of its type. Not here: how ranges are compared with those of a query (the engine).

use crate::field::{FieldType, Kind};
use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::text_of;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use std::net::IpAddr;

pub(crate) const PARAMS: &[Param] = &[
    Param("coerce", Bool, "", true),
    Param("doc_values", Bool, "true", false),
    Param("index", Any, "true", false),
    Param("store", Bool, "false", false),
];

pub(crate) const DATE_PARAMS: &[Param] = &[
    Param("coerce", Bool, "", true),
    Param("doc_values", Bool, "true", false),
    Param("format", Text, "", false),
    Param("index", Any, "true", false),
    Param("locale", Text, "", false),
    Param("store", Bool, "false", false),
];

impl Kind {
    /// Ranges as values.
    pub fn is_range(self) -> bool {
        self.range_of().is_some()
    }
    /// The kind of a range's ends.
    pub fn range_of(self) -> Option<Kind> {
        ends(self)
    }
    /// The least and the greatest key of a range's ends.
    pub fn range_limits(self) -> (u128, u128) {
        limits(self)
    }
    /// The key next to one, for ends that are not included.
    pub fn next_range_key(self, key: u128, up: bool) -> u128 {
        next(self, key, up)
    }
}

impl FieldType {
    /// The type of a range's ends; of anything else itself.
    #[must_use]
    pub fn of_ends(&self) -> FieldType {
        FieldType {
            kind: self.kind.range_of().unwrap_or(self.kind),
            ..self.clone()
        }
    }
}

impl FieldValue {
    /// The key that a range has for one of its ends, in the order of values; `None` for what is no end of a range.
    pub fn range_key(&self) -> Option<u128> {
        key(self)
    }
}

/// The kind of a range's ends.
pub(crate) fn ends(kind: Kind) -> Option<Kind> {
    Some(match kind {
        Kind::IntegerRange => Kind::Integer,
        Kind::LongRange => Kind::Long,
        Kind::FloatRange => Kind::Float,
        Kind::DoubleRange => Kind::Double,
        Kind::DateRange => Kind::Date,
        Kind::IpRange => Kind::Ip,
        _ => return None,
    })
}

/// The least and the greatest key of a range kind.
pub(crate) fn limits(kind: Kind) -> (u128, u128) {
    match kind {
        Kind::IntegerRange => (whole(i32::MIN.into()), whole(i32::MAX.into())),
        Kind::FloatRange | Kind::DoubleRange => (fraction(f64::NEG_INFINITY), fraction(f64::INFINITY)),
        Kind::IpRange => (0, u128::MAX),
        _ => (whole(i64::MIN), whole(i64::MAX)),
    }
}

fn whole(n: i64) -> u128 {
    u128::from((n as u64) ^ (1 << 63))
}

fn fraction(n: f64) -> u128 {
    let bits = if n == 0.0 { 0 } else { n.to_bits() };
    u128::from(if bits >> 63 == 0 { bits | (1 << 63) } else { !bits })
}

/// The key of a value of an end's kind.
pub(crate) fn key(value: &FieldValue) -> Option<u128> {
    Some(match value {
        FieldValue::Long(n) | FieldValue::Date(n) => whole(*n),
        FieldValue::Double(n) => fraction(*n),
        FieldValue::Ip(bytes) => u128::from_be_bytes(*bytes),
        _ => return None,
    })
}

/// The key after, or before, one: of numbers with a fraction the next one of their size.
pub(crate) fn next(kind: Kind, key: u128, up: bool) -> u128 {
    if kind == Kind::FloatRange {
        let bits = key as u64;
        let value = f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }) as f32;
        return fraction(f64::from(if up { value.next_up() } else { value.next_down() }));
    }
    if up { key.saturating_add(1) } else { key.saturating_sub(1) }
}

/// A range of a document: an object of ends, or a network for addresses.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let Some(kind) = ends(field.kind) else {
        return Err(Error::illegal(format!("[{}] is no range", field.wire())));
    };
    let element = field.of_ends();
    let object = match (value, kind) {
        (Value::Object(object), _) => object,
        (Value::String(text), Kind::Ip) => return network(text),
        _ => {
            let reason = format!("error parsing field, expected an object but got {}", text_of(value));
            return Err(Error::new(ErrorKind::MapperParsing, reason));
        }
    };
    let (low, high) = bounds(field.kind, object, |end, _| super::read(&element, end))?;
    if low > high {
        let shown = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| object.get(*name))
                .map(text_of)
                .unwrap_or_default()
        };
        return Err(Error::illegal(format!(
            "min value ({}) is greater than max value ({})",
            shown(&["gte", "gt", "from"]),
            shown(&["lte", "lt", "to"])
        )));
    }
    Ok(FieldValue::Range { low, high })
}

/// The ends of an object as keys, both included; `read` gets whether an end is the upper one.
fn bounds(kind: Kind, object: &Map<String, Value>, read: impl Fn(&Value, bool) -> Result<FieldValue>) -> Result<(u128, u128)> {
    let (mut low, mut high) = limits(kind);
    let flag = |name: &str| object.get(name).is_none_or(|v| v != &Value::Bool(false));
    for (name, value) in object {
        let (upper, included) = match name.as_str() {
            "gte" => (false, true),
            "gt" => (false, false),
            "lte" => (true, true),
            "lt" => (true, false),
            "from" => (false, flag("include_lower")),
            "to" => (true, flag("include_upper")),
            "include_lower" | "include_upper" => continue,
            other => {
                let reason = format!("error parsing field, with unknown parameter [{other}]");
                return Err(Error::new(ErrorKind::MapperParsing, reason));
            }
        };
        if value.is_null() {
            continue;
        }
        let found = key(&read(value, upper)?).ok_or_else(|| Error::illegal(format!("[{name}] is no end of a range")))?;
        match (upper, included) {
            (false, true) => low = found,
            (false, false) => low = next(kind, found, true),
            (true, true) => high = found,
            (true, false) => high = next(kind, found, false),
        }
    }
    Ok((low, high))
}

/// A network in CIDR notation.
fn network(text: &str) -> Result<FieldValue> {
    let refuse = || Error::illegal(format!("Expected [ip/prefix] but was [{text}]"));
    let (address, prefix) = text.split_once('/').ok_or_else(refuse)?;
    let (address, width): (IpAddr, u32) = (address.parse().map_err(|_| refuse())?, prefix.parse().map_err(|_| refuse())?);
    let (bits, width) = match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), width.checked_add(96).ok_or_else(refuse)?),
        IpAddr::V6(v6) => (v6.octets(), width),
    };
    if width > 128 {
        return Err(refuse());
    }
    let mask = if width == 0 { 0 } else { u128::MAX << (128 - width) };
    let low = u128::from_be_bytes(bits) & mask;
    Ok(FieldValue::Range { low, high: low | !mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, object: &str, expected: Option<(i64, i64)>) {
        let Ok(Value::Object(object)) = serde_json::from_str(object) else {
            panic!("{object}")
        };
        let read = |value: &Value, _: bool| Ok(FieldValue::Long(value.as_i64().unwrap_or_default()));
        let found = bounds(kind, &object, read).ok();
        assert_eq!(found, expected.map(|(low, high)| (whole(low), whole(high))), "{object:?}");
    }

    #[test]
    fn ends_are_included() {
        check(Kind::LongRange, r#"{"gte": 1, "lte": 5}"#, Some((1, 5)));
        check(Kind::LongRange, r#"{"gt": 1, "lt": 5}"#, Some((2, 4)));
        check(
            Kind::LongRange,
            r#"{"from": 1, "to": 5, "include_upper": false}"#,
            Some((1, 4)),
        );
        check(Kind::IntegerRange, r#"{"gte": 1}"#, Some((1, i32::MAX.into())));
        check(Kind::LongRange, r#"{"gte": 1, "above": 5}"#, None);
        assert!(fraction(-1.5) < fraction(-1.0) && fraction(-1.0) < fraction(0.0) && fraction(0.0) < fraction(0.25));
        let all = network("10.0.0.0/8").ok();
        let first = key(&FieldValue::Ip(
            std::net::Ipv4Addr::new(10, 0, 0, 0).to_ipv6_mapped().octets(),
        ));
        assert!(matches!(all, Some(FieldValue::Range { low, high }) if Some(low) == first && high - low == 0xff_ffff));
    }
}
