//! `text` and `match_only_text`: analyzed when indexed, so the value is the text itself.

use crate::field::FieldType;
use crate::spec::{Param, Shape::*};
use crate::wording::text_of;
use model::Result;
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("analyzer", Text, "", false),
    Param("eager_global_ordinals", Bool, "false", true),
    Param("fielddata", Bool, "false", true),
    Param("fielddata_frequency_filter", Any, "", true),
    Param("index", Any, "true", false),
    Param("index_options", Text, "\"positions\"", false),
    Param("index_phrases", Bool, "false", false),
    Param("index_prefixes", Any, "", false),
    Param("norms", Bool, "true", true),
    Param("position_increment_gap", Int, "100", false),
    Param("search_analyzer", Text, "", true),
    Param("search_quote_analyzer", Text, "", true),
    Param("similarity", Text, "", false),
    Param("store", Bool, "false", false),
    Param("term_vector", Text, "\"no\"", false),
];

/// Numbers and booleans are taken as they are written.
pub(crate) fn read(value: &Value) -> Result<String> {
    match value {
        Value::Object(_) | Value::Array(_) => Err(super::not_a_text(value)),
        scalar => Ok(text_of(scalar)),
    }
}

/// The same, of a document: the tokens of its analyzer must be within their bound.
pub(crate) fn read_checked(field: &FieldType, value: &Value) -> Result<String> {
    let text = read(value)?;
    if field.index
        && let Some(analyzer) = &field.analyzer
    {
        analyzer.check(&text)?;
    }
    Ok(text)
}
