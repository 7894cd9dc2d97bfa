//! `binary`: Base64 in the document, bytes inside. Not searchable.

use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use model::{Error, Result};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("doc_values", Bool, "false", false),
    Param("store", Bool, "false", false),
];

/// The decoded bytes.
pub(crate) fn read(value: &Value) -> Result<FieldValue> {
    let Value::String(text) = value else {
        return Err(super::not_a_text(value));
    };
    match STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text)) {
        Ok(bytes) => Ok(FieldValue::Binary(bytes)),
        Err(e) => Err(Error::illegal(format!("Illegal base64 value: {e}"))),
    }
}

/// As Base64 again.
pub(crate) fn render(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
