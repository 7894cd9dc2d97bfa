//! `ip`: both versions in one 16-byte order. Networks (`10.0.0.0/8`) are for queries, elsewhere.

use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::text_of;
use model::{Error, Result};
use serde_json::Value;
use std::net::{IpAddr, Ipv6Addr};

pub(crate) const PARAMS: &[Param] = &[
    Param("doc_values", Bool, "true", false),
    Param("ignore_malformed", Bool, "", true),
    Param("index", Any, "true", false),
    Param("null_value", Any, "", false),
    Param("store", Bool, "false", false),
];

/// An address.
pub(crate) fn read(value: &Value) -> Result<FieldValue> {
    let text = match value {
        Value::Object(_) | Value::Array(_) => return Err(super::not_a_text(value)),
        scalar => text_of(scalar),
    };
    match text.parse() {
        Ok(IpAddr::V4(v4)) => Ok(FieldValue::Ip(v4.to_ipv6_mapped().octets())),
        Ok(IpAddr::V6(v6)) => Ok(FieldValue::Ip(v6.octets())),
        Err(_) => Err(Error::illegal(format!("'{text}' is not an IP string literal."))),
    }
}

/// An address as text, IPv4 in its own form.
pub(crate) fn render(bytes: [u8; 16]) -> String {
    let v6 = Ipv6Addr::from(bytes);
    match v6.to_ipv4_mapped() {
        Some(v4) => v4.to_string(),
        None => v6.to_string(),
    }
}
