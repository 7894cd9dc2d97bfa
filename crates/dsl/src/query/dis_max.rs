//! `dis_max`: the best of several queries.

use super::{Clause, Parsing, Query, render::number, words::not_created};
use crate::json::Node;
use model::Result;
use serde_json::{Map, Value};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("[dis_max] requires 'queries' field with at least one clause");
    let mut fields = cx.options(node, "dis_max")?;
    let list = fields.take("queries");
    let mut queries = Vec::new();
    if let Some(node) = list {
        let nothing = node.error("[_na] query malformed, must start with start_object");
        for item in node.items() {
            cx.count_clause()?;
            queries.push(cx.inner(item)?);
        }
        if queries.is_empty() && !cx.dialect.rules.allows_empty_clauses {
            return Err(nothing);
        }
    }
    let tie_breaker = fields.take_f32("tie_breaker")?.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&tie_breaker) && !cx.dialect.rules.tolerates_value_bounds {
        return Err(not_created("tieBreakerMultiplier must be in [0, 1]"));
    }
    let empty = queries.is_empty();
    let query = cx.finish(fields, "dis_max", Clause::DisMax { queries, tie_breaker })?;
    if empty { Err(missing) } else { Ok(query) }
}

pub(super) fn render(queries: &[Query], tie_breaker: f32) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("queries".into(), queries.iter().map(Query::render).collect());
    if tie_breaker != 0.0 {
        body.insert("tie_breaker".into(), number(tie_breaker));
    }
    body
}
