//! `tree_path`: the directory of a document, as a path. Documents keep the directory's number (`tree`).
//!
//! Not here: which directories there are, how a document finds its own (`embedded/src/trees.rs`).

use crate::field::FieldType;
use crate::spec::{Param, Shape::*};
use crate::tree::PathSyntax;
use crate::value::FieldValue;
use crate::wording::mapper_parsing;
use model::Result;
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("delimiter", Text, "\"/\"", false),
    Param("case", Text, "\"sensitive\"", false),
];

/// The `delimiter` and the `case` of a field.
///
/// # Errors
/// The delimiter is not one character; a case that there is not.
pub(crate) fn syntax(name: &str, delimiter: Option<&str>, case: Option<&str>) -> Result<PathSyntax> {
    let folds = match case {
        None | Some("sensitive") => false,
        Some("insensitive") => true,
        Some(other) => {
            return Err(mapper_parsing(format!(
                "[case] of field [{name}] of type [tree_path] must be one of [sensitive, insensitive], got [{other}]"
            )));
        }
    };
    let Some(text) = delimiter else {
        return Ok(PathSyntax {
            folds,
            ..PathSyntax::default()
        });
    };
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(delimiter), None) => Ok(PathSyntax { delimiter, folds }),
        _ => Err(mapper_parsing(format!(
            "[delimiter] of field [{name}] of type [tree_path] must be one character, got [{text}]"
        ))),
    }
}

/// The path of a document. Limits are those of new directories: a path that is there may be longer after a move.
pub(crate) fn read(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = super::text::read(value)?;
    let syntax = field.tree.map(|tree| tree.syntax).unwrap_or_default();
    syntax.components(&text)?;
    Ok(FieldValue::Keyword(syntax.canonical(&text).to_owned()))
}

/// The path that a query looks for; a text that is no path is no directory's.
pub(crate) fn term(field: &FieldType, value: &Value) -> Result<FieldValue> {
    let text = super::text::read(value)?;
    let syntax = field.tree.map(|tree| tree.syntax).unwrap_or_default();
    Ok(FieldValue::Keyword(syntax.canonical(&text).to_owned()))
}
