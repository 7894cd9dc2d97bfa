//! `constant_score`: a filter that scores its boost.

use super::{Clause, Parsing, Query};
use crate::json::Node;
use model::Result;

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("[constant_score] requires a 'filter' element");
    let mut fields = cx.options(node, "constant_score")?;
    let names: &[&str] = if cx.dialect.rules.has_legacy_clauses {
        &["filter", "query"]
    } else {
        &["filter"]
    };
    let filter = match fields.take_any(names) {
        Some(node) if node.is_array() => return Err(node.error("unexpected token [START_ARRAY]")),
        Some(node) => Some(Box::new(cx.inner_filter(node)?)),
        None => None,
    };
    let query = cx.common(&mut fields, "constant_score", Clause::MatchAll)?;
    fields.finish()?;
    let filter = filter.ok_or(missing)?;
    Ok(Query {
        clause: Clause::ConstantScore { filter },
        ..query
    })
}
