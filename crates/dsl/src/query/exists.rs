//! `exists`: the field has a value.

use super::{Clause, Parsing, Query};
use crate::json::Node;
use model::Result;

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let sentence = if cx.dialect.rules.query_parsing_exceptions {
        "exists must be provided with a [field]"
    } else {
        "[exists] must be provided with a [field]"
    };
    let missing = node.error(sentence);
    let mut fields = cx.options(node, "exists")?;
    let field = match fields.take("field") {
        // 2015 takes a list of one.
        Some(node) if cx.dialect.rules.tolerates_value_types => node.items().first().map(|n| n.string("field")).transpose()?,
        Some(node) => match node.string("field")? {
            field if field.is_empty() => return Err(model::Error::illegal("field name is null or empty")),
            field => Some(field),
        },
        None => None,
    };
    let query = cx.finish(
        fields,
        "exists",
        Clause::Exists {
            field: field.clone().unwrap_or_default(),
        },
    )?;
    if field.is_some() { Ok(query) } else { Err(missing) }
}
