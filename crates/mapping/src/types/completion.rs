//! `completion`: inputs with a weight, to be found by their beginnings.
//!
//! Each input is one entry: what its analyzer makes of it, its weight, and the input itself. Entries are kept in the order of
//! their analyzed forms, so all that begin alike stand together. Not here: what stands before them in fields with contexts
//! (`contexts`).

use super::contexts;
use crate::field::FieldType;
use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use analysis::Analyzer;
use model::{Error, ErrorKind, Result};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("analyzer", Text, "", false),
    Param("contexts", Any, "", false),
    Param("max_input_length", Int, "50", true),
    Param("preserve_position_increments", Bool, "true", true),
    Param("preserve_separators", Bool, "true", true),
    Param("search_analyzer", Text, "", true),
    // As they were given in 2015.
    Param("index_analyzer", Text, "", true),
    Param("payloads", Bool, "false", true),
];

/// Longer inputs are cut.
const INPUT_CHARS_MAX: usize = 50;
/// Between the parts of an entry.
const SEPARATOR: char = '\u{1f}';

/// The prefix that is looked for: the words of a text as the field's analyzer has them.
pub fn key(analyzer: Option<&Analyzer>, text: &str) -> String {
    match analyzer {
        Some(analyzer) => {
            let tokens = analyzer.analyze(text);
            let words: Vec<&str> = tokens.iter().map(|token| token.term.as_str()).collect();
            words.join(" ")
        }
        None => text.to_lowercase(),
    }
}

/// An entry taken apart: analyzed form, weight, input. `None` for what is none.
pub fn entry(text: &str) -> Option<(&str, u32, &str)> {
    let (key, rest) = text.split_once(SEPARATOR)?;
    let (weight, input) = rest.split_once(SEPARATOR)?;
    Some((key, weight.parse().ok()?, input))
}

/// The inputs of a document: a text, or an object with `input` and `weight`.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let mut weight = 1;
    let mut inputs = Vec::new();
    let mut given = None;
    let told_apart = contexts::of(field);
    match value {
        Value::String(text) => inputs.push(text.as_str()),
        Value::Object(object) => {
            for (name, part) in object {
                match (name.as_str(), part) {
                    ("input", Value::String(text)) => inputs.push(text),
                    ("input", Value::Array(list)) => {
                        for item in list {
                            inputs.push(
                                item.as_str().ok_or_else(|| {
                                    Error::illegal("input array must have string values, but was something else")
                                })?,
                            );
                        }
                    }
                    ("weight", part) => weight = read_weight(part)?,
                    // The text that 2015 showed instead of the input.
                    ("output" | "payload", _) => {}
                    ("contexts" | "context", _) if told_apart.is_empty() => {
                        return Err(Error::illegal(
                            "contexts field is not supported for a completion field without contexts",
                        ));
                    }
                    ("contexts", Value::Object(object)) => given = Some(object),
                    ("contexts" | "context", _) => {
                        return Err(Error::illegal("contexts must be an object or an array of objects"));
                    }
                    (other, _) => {
                        return Err(Error::illegal(format!(
                            "unknown field name [{other}], must be one of [input, weight, contexts]"
                        )));
                    }
                }
            }
        }
        other => return Err(super::not_a_text(other)),
    }
    let beginnings = if told_apart.is_empty() {
        Vec::new()
    } else {
        contexts::beginnings(&told_apart, given)?
    };
    let mut entries = Vec::with_capacity(inputs.len());
    for input in inputs {
        check_input(input)?;
        let cut: String = input.chars().take(INPUT_CHARS_MAX).collect();
        let key = key(field.analyzer.as_ref(), &cut);
        if key.is_empty() {
            continue;
        }
        if told_apart.is_empty() {
            entries.push(format!("{key}{SEPARATOR}{weight}{SEPARATOR}{input}"));
        }
        for beginning in &beginnings {
            let end = contexts::CONTEXT_END;
            entries.push(format!("{beginning}{end}{key}{SEPARATOR}{weight}{SEPARATOR}{input}"));
        }
    }
    Ok(FieldValue::Completion(entries))
}

/// # Errors
/// An empty input; a character that separates the parts of an entry.
fn check_input(input: &str) -> Result<()> {
    if input.trim().is_empty() {
        return Err(Error::illegal("value must have a length > 0"));
    }
    match input.chars().find(|c| matches!(*c, '\u{0}' | '\u{1e}' | SEPARATOR)) {
        None => Ok(()),
        Some(bad) => Err(Error::illegal(format!(
            "Illegal input [{input}] UTF-16 codepoint [0x{:x}] is a reserved character",
            u32::from(bad)
        ))),
    }
}

fn read_weight(value: &Value) -> Result<u32> {
    let refuse = || Error::illegal(format!("weight must be an integer, but was [{value}]"));
    let number = match value {
        Value::Number(n) => n.as_i64().ok_or_else(refuse)?,
        Value::String(text) => text.trim().parse().map_err(|_| refuse())?,
        _ => return Err(refuse()),
    };
    let range = || {
        Error::new(
            ErrorKind::IllegalArgument,
            format!("weight must be in the interval [0..2147483647], but was [{number}]"),
        )
    };
    u32::try_from(number).ok().filter(|n| *n <= i32::MAX as u32).ok_or_else(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        assert_eq!(entry("a b\u{1f}7\u{1f}A B"), Some(("a b", 7, "A B")));
        assert_eq!(entry("a b"), None);
        assert!(read_weight(&serde_json::json!(-1)).is_err() && read_weight(&serde_json::json!("12")).is_ok());
    }
}
