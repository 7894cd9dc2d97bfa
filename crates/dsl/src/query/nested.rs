//! `nested`: queries over the objects inside a document.

use super::{Clause, InnerHits, Parsing, Query, ScoreMode, render::add_related, render::object, words};
use crate::json::Node;
use model::Result;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct NestedQuery {
    pub path: String,
    pub query: Box<Query>,
    pub score_mode: ScoreMode,
    pub ignore_unmapped: bool,
    pub inner_hits: Option<Box<InnerHits>>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let at = (node.line, node.col);
    let mut fields = cx.options(node, "nested")?;
    let path = fields.take_string("path")?;
    let query = cx.related_query(&mut fields, Parsing::inner_filter)?;
    let score_mode = match words::take_score_mode(&mut fields)? {
        Some(word) if cx.dialect.rules.query_parsing_exceptions => ScoreMode::of_children(&word, cx.dialect).map_err(|_| {
            let said = format!("illegal score_mode for nested query [{word}]");
            cx.lacks(at, &said, &said)
        })?,
        Some(word) => ScoreMode::of_children(&word, cx.dialect)?,
        None => ScoreMode::Avg,
    };
    let ignore_unmapped = fields.take_bool("ignore_unmapped")?.unwrap_or(false);
    let inner_hits = cx.inner_hits_of(&mut fields)?;
    let common = cx.common(&mut fields, "nested", Clause::MatchAll)?;
    fields.finish()?;
    let lacks = |sentence| cx.lacks(at, sentence, sentence);
    let path = path.ok_or_else(|| lacks("[nested] requires 'path' field"))?;
    let no_query = || {
        cx.lacks(
            at,
            "[nested] requires 'query' field",
            "[nested] requires either 'query' or 'filter' field",
        )
    };
    let query = Box::new(query.ok_or_else(no_query)?);
    Ok(Query {
        clause: Clause::Nested(NestedQuery {
            path,
            query,
            score_mode,
            ignore_unmapped,
            inner_hits,
        }),
        ..common
    })
}

pub(super) fn render(q: &NestedQuery) -> Map<String, Value> {
    let mut body = object(json!({"path": q.path, "query": q.query.render()}));
    if q.score_mode != ScoreMode::Avg {
        body.insert("score_mode".into(), q.score_mode.word().into());
    }
    add_related(&mut body, q.ignore_unmapped, q.inner_hits.as_deref());
    body
}
