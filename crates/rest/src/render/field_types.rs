//! Types of fields that Elasticsearch 2 does not know.
//!
//! Not here: the endpoints that use it (`handlers`).

use model::{Error, ErrorKind, Result};
use serde_json::Value;

/// Types of fields that came after 2015.
pub(crate) const NEWER: &[&str] = &[
    "alias",
    "constant_keyword",
    "date_nanos",
    "date_range",
    "double_range",
    "flat_object",
    "flattened",
    "float_range",
    "half_float",
    "integer_range",
    "ip_range",
    "join",
    "keyword",
    "long_range",
    "match_only_text",
    "scaled_float",
    "search_as_you_type",
    "text",
    "unsigned_long",
    "wildcard",
];

/// Refuses fields of types that came later; the depth of a body is limited.
///
/// # Errors
/// The first such field.
pub(crate) fn check_types_of_2015(mapping: &Value, depth: usize) -> Result<()> {
    if depth > 100 {
        return Ok(());
    }
    for (part, no) in [("properties", "No"), ("fields", "no")] {
        for (field, body) in mapping.get(part).and_then(Value::as_object).into_iter().flatten() {
            if let Some(kind) = body.get("type").and_then(Value::as_str)
                && NEWER.contains(&kind)
            {
                let reason = format!("{no} handler for type [{kind}] declared on field [{field}]");
                return Err(Error::new(ErrorKind::MapperParsing, reason));
            }
            check_types_of_2015(body, depth + 1)?;
        }
    }
    Ok(())
}
