//! The shapes that search bodies share, and the refusals that name them in Elasticsearch's words.
//!
//! Not here: reading JSON, which is `json`'s.

use crate::json::Node;
pub(crate) use crate::json::failed_field;
use model::nearest;
use model::{Error, ErrorKind, Result, Topic};

/// The members of an object.
pub(crate) fn object(node: Node, owner: &str) -> Result<Vec<(String, Node)>> {
    Ok(node.fields(owner)?.remaining())
}

/// A string or a list of strings.
pub(crate) fn strings(node: Node, name: &str) -> Result<Vec<String>> {
    node.items().into_iter().map(|item| item.string(name)).collect()
}

/// As [`strings`], each of them text.
pub(crate) fn texts(node: Node, name: &str) -> Result<Vec<String>> {
    let one = |item: Node| match item.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(unknown_key(name, &item, &[])),
    };
    node.items().into_iter().map(one).collect()
}

/// `Unknown key for a VALUE_NUMBER in [sise].`, with the nearest known name.
pub(crate) fn unknown_key(key: &str, node: &Node, known: &[&str]) -> Error {
    let hint = nearest::question(key, known.iter().copied());
    node.error(format!("Unknown key for a {} in [{key}].{hint}", node.kind_name()))
}

/// `[1:2] [owner] unknown field [x]`, with the nearest known name.
pub(crate) fn unknown_field(owner: &str, key: &str, node: &Node, known: &[&str]) -> Error {
    let hint = nearest::question(key, known.iter().copied());
    let (line, col) = node.key;
    Error::new(
        ErrorKind::XContentParse,
        format!("[{line}:{col}] [{owner}] unknown field [{key}]{hint}"),
    )
    .about(Topic::UnknownField { name: key.to_owned() })
}

/// `Required [x]`.
pub(crate) fn missing_required(name: &str) -> Error {
    Error::illegal(format!("Required [{name}]"))
}

/// `Validation Failed: 1: a;2: b;`
pub(crate) fn validation_failed(problems: &[String]) -> Error {
    let list: String = problems
        .iter()
        .enumerate()
        .map(|(n, text)| format!("{}: {text};", n + 1))
        .collect();
    Error::new(ErrorKind::ActionRequestValidation, format!("Validation Failed: {list}"))
}

/// A search refused by the shards that were to run it.
pub(crate) fn all_shards_failed(cause: Error) -> Error {
    let status = cause.status();
    Error::new(ErrorKind::SearchPhaseExecution, "all shards failed")
        .status_of(status)
        .with_root_cause(cause)
}
