//! `match_all` and `match_none`.

use super::{Clause, Parsing, Query};
use crate::json::Node;
use model::{Error, Result};

pub(super) fn parse(node: Node, clause: Clause, owner: &str, cx: &mut Parsing) -> Result<Query> {
    let mut fields = node
        .fields(owner)?
        .lenient(cx.dialect.rules.reads_boolean_words)
        .strict()
        .of_object(!cx.dialect.rules.tolerates_value_types);
    let query = cx.common(&mut fields, owner, clause).map_err(|error| match error.kind() {
        model::ErrorKind::XContentParse => as_parsing(error),
        _ => error,
    })?;
    fields.finish().map_err(as_parsing)?;
    Ok(query)
}

/// Queries report what their object parsers refuse as their own.
pub(super) fn as_parsing(error: Error) -> Error {
    let mut own = Error::new(model::ErrorKind::Parsing, error.reason());
    for (name, value) in error.details() {
        own = own.with(name, value.clone());
    }
    own
}
