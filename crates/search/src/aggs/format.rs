//! How values are shown: numbers, dates and addresses as text, by a format of their field or of the request.
//!
//! Not here: where they come from (`values`).

use crate::decimal_format::decimal;
use model::date::{DateFormat, TimeZone};
use model::{Error, Result};
use serde_json::Value;
use std::net::Ipv6Addr;

/// How a value is shown as text.
#[derive(Clone, Debug)]
pub(crate) enum Format {
    /// Not at all.
    Raw,
    /// As a date.
    Date(DateFormat, Option<TimeZone>),
    /// `true` or `false`.
    Bool,
    /// A pattern of Java's `DecimalFormat`.
    Decimal(String),
}

impl Format {
    /// A number as text, where the format has one of its own.
    pub(crate) fn text(&self, number: f64) -> Option<String> {
        match self {
            Format::Raw => None,
            Format::Date(format, zone) => Some(format.render(number as i64, zone.as_ref())),
            Format::Bool => Some((number != 0.0).to_string()),
            Format::Decimal(pattern) => Some(decimal(pattern, number)),
        }
    }
}

/// A number as JSON; what is none is `null`.
pub(crate) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// An address as text; mapped ones as IPv4.
pub(crate) fn ip_text(ip: Ipv6Addr) -> String {
    ip.to_ipv4_mapped().map_or_else(|| ip.to_string(), |v4| v4.to_string())
}

/// An address of a request.
pub(crate) fn parse_ip(text: &str) -> Result<Ipv6Addr> {
    match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V4(v4)) => Ok(v4.to_ipv6_mapped()),
        Ok(std::net::IpAddr::V6(v6)) => Ok(v6),
        Err(_) => Err(Error::illegal(format!("'{text}' is not an IP string literal."))),
    }
}
