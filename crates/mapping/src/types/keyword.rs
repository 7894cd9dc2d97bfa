//! `keyword`, `wildcard`, `constant_keyword`: a whole string is one term, normalized if the field says so.

use crate::field::{FieldType, Kind};
use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use model::{Error, Result};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("doc_values", Bool, "true", false),
    Param("eager_global_ordinals", Bool, "false", true),
    Param("ignore_above", Int, "", true),
    Param("index", Any, "true", false),
    Param("index_options", Text, "\"docs\"", false),
    Param("norms", Bool, "false", true),
    Param("normalizer", Text, "", false),
    Param("null_value", Any, "", false),
    Param("similarity", Text, "", false),
    Param("split_queries_on_whitespace", Bool, "false", true),
    Param("store", Bool, "false", false),
    // Parameters of strings that are not analyzed, in the typed dialect.
    Param("analyzer", Text, "", true),
    Param("search_analyzer", Text, "", true),
    Param("term_vector", Text, "\"no\"", true),
    Param("position_increment_gap", Int, "100", true),
];

/// The parameters that only strings of 2015 have.
pub(crate) const OF_2015: &[&str] = &["analyzer", "search_analyzer", "term_vector", "position_increment_gap"];

pub(crate) const CONSTANT_PARAMS: &[Param] = &[Param("value", Text, "", false)];

/// The longest term that an index takes, in bytes.
pub(crate) const TERM_BYTES_MAX: usize = 32_766;

/// The value's term.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = super::text::read(value)?;
    if let (Kind::ConstantKeyword, Some(constant)) = (field.kind, &field.constant)
        && *constant != text
    {
        return Err(Error::illegal(format!(
            "[constant_keyword] field only accepts values that are equal to the value defined in the mappings \
             [{constant}], but got [{text}]"
        )));
    }
    Ok(FieldValue::Keyword(match &field.normalizer {
        Some(normalizer) => normalizer.normalize(&text),
        None => text,
    }))
}

/// The term a query looks for.
pub(crate) fn term(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = super::text::read(value)?;
    Ok(FieldValue::Keyword(match &field.normalizer {
        Some(normalizer) => normalizer.normalize(&text),
        None => text,
    }))
}

/// Elasticsearch's refusal of a term that is too long.
pub(crate) fn immense(path: &str, term: &str) -> Error {
    let prefix: Vec<String> = term.bytes().take(30).map(|b| (b as i8).to_string()).collect();
    let got = format!("bytes can be at most {TERM_BYTES_MAX} in length; got {}", term.len());
    Error::illegal(format!(
        "Document contains at least one immense term in field=\"{path}\" (whose UTF8 encoding is longer than the max \
         length {TERM_BYTES_MAX}), all of which were skipped.  Please correct the analyzer to not produce such terms.  \
         The prefix of the first immense term is: '[{}]...', original message: {got}",
        prefix.join(", ")
    ))
    .with_cause(Error::illegal(got))
}
