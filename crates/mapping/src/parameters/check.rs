//! The values that today's dialect refuses for a parameter, beside its shape.

use super::Context;
use crate::field::Kind;
use crate::wording::{java, java_class, mapper_parsing, text_of};
use model::{Error, Result};
use serde_json::Value;

/// A similarity is built in, or defined by the settings.
pub(super) fn check_similarity(context: &Context<'_>, field: &str, value: &Value) -> Result<()> {
    let given = text_of(value);
    match &context.limits.similarities {
        Some(names) if !matches!(given.as_str(), "BM25" | "boolean" | "default") && !names.contains(&given) => {
            let meant = model::nearest::question(&given, names.iter().map(String::as_str).chain(["BM25", "boolean"]));
            Err(mapper_parsing(format!(
                "Unknown Similarity type [{given}] for field [{field}]{meant}"
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses the value of a parameter.
pub(super) fn check(name: &str, kind: Kind, key: &str, value: &Value, multi: bool) -> Result<()> {
    let one_of = |accepted: &[&str]| {
        let given = text_of(value);
        if accepted.contains(&given.as_str()) {
            return Ok(());
        }
        Err(mapper_parsing(format!(
            "Unknown value [{given}] for field [{key}] - accepted values are [{}]",
            accepted.join(", ")
        )))
    };
    match key {
        "meta" => check_meta(name, value),
        "copy_to" if multi => Err(mapper_parsing(format!(
            "copy_to in multi fields is not allowed. Found the copy_to in field [{name}] which is within a multi field."
        ))),
        "boost" if text_of(value).trim().parse::<f32>().is_err() => Err(Error::no_number(&text_of(value))),
        "index_options" if kind == Kind::Text => one_of(&["positions", "docs", "freqs", "offsets"]),
        "index_options" if kind == Kind::Keyword => one_of(&["docs", "freqs"]),
        "term_vector" => one_of(&[
            "no",
            "yes",
            "with_positions",
            "with_offsets",
            "with_positions_offsets",
            "with_positions_payloads",
            "with_positions_offsets_payloads",
        ]),
        "index_prefixes" | "index_phrases" if kind == Kind::MatchOnlyText && value != &Value::Bool(false) => {
            let what = if key == "index_prefixes" { "prefixes" } else { "phrases" };
            Err(Error::illegal(format!(
                "Index {what} cannot be enabled on for match_only_text field. Use text field instead"
            )))
        }
        "index_prefixes" => match value.as_object().and_then(|bounds| {
            let known = |key: &String| ["min_chars", "max_chars"].contains(&key.as_str());
            bounds.iter().find(|(key, _)| !known(key))
        }) {
            Some((unknown, given)) => Err(mapper_parsing(format!(
                "Mapping definition for [{name}] has unsupported parameters:  [{unknown} : {}]",
                java(given)
            ))),
            None => Ok(()),
        },
        "max_input_length" if value.as_i64().is_some_and(|length| length <= 0) => Err(Error::illegal(format!(
            "[max_input_length] must be > 0 but was [{}]",
            java(value)
        ))),
        "similarity" if value == "classic" => Err(Error::illegal(
            "The [classic] similarity may not be used anymore. Please use the [BM25] similarity or build a custom [scripted] similarity instead.",
        )),
        _ => Ok(()),
    }
}

/// `meta` is a few short texts by short names.
fn check_meta(name: &str, value: &Value) -> Result<()> {
    let got = |value: &Value| {
        let class = java_class(value);
        let class = class.trim_start_matches("class ").trim_start_matches("java.lang.");
        format!("{class}[{}]", java(value))
    };
    let Value::Object(meta) = value else {
        return Err(mapper_parsing(format!(
            "[meta] must be an object, got {} for field [{name}]",
            got(value)
        )));
    };
    if meta.len() > 5 {
        let found = meta.len();
        return Err(mapper_parsing(format!(
            "[meta] can't have more than 5 entries, but got {found} on field [{name}]"
        )));
    }
    for (key, value) in meta {
        let why = match value {
            _ if key.chars().count() > 20 => format!("[meta] keys can't be longer than 20 chars, but got [{key}]"),
            Value::String(text) if text.chars().count() > 50 => {
                format!("[meta] values can't be longer than 50 chars, but got [{text}]")
            }
            Value::String(_) => continue,
            Value::Null => format!("[meta] values can't be null (field [{name}])"),
            other => format!("[meta] values can only be strings, but got {}", got(other)),
        };
        return Err(mapper_parsing(format!("{why} for field [{name}]")));
    }
    Ok(())
}
