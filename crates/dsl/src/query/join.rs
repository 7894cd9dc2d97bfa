//! `join`: documents whose field equals a field of documents that a query finds elsewhere.

use super::{Clause, InnerHits, Parsing, Query, ScoreMode, render::add_related, words};
use crate::json::Node;
use model::{Error, Result};
use serde_json::{Map, Value};

/// The clause `join` (docs/relations.md).
#[derive(Clone, Debug, PartialEq)]
pub struct JoinQuery {
    pub index: Vec<String>,
    /// Our field and theirs.
    pub on: (String, String),
    pub query: Box<Query>,
    pub kind: JoinKind,
    pub score_mode: ScoreMode,
    pub inner_hits: Option<Box<InnerHits>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum JoinKind {
    #[default]
    Semi,
    Anti,
    Left,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(node, "join")?;
    let index = match fields.take_any(&["index", "indices"]) {
        Some(node) => {
            let names: Vec<String> = node.items().iter().map(|n| n.string("index")).collect::<Result<_>>()?;
            names
                .iter()
                .flat_map(|n| n.split(','))
                .map(|n| n.trim().to_owned())
                .filter(|n| !n.is_empty())
                .collect()
        }
        None => Vec::new(),
    };
    let on = fields.take("on").map(on).transpose()?;
    // Federate says `request: {query: …}`.
    let request = match fields.take("request") {
        Some(node) => {
            let mut inner = node.fields("join")?.of_query();
            let query = inner.take("query");
            inner.finish()?;
            query
        }
        None => None,
    };
    let query = match fields.take("query").or(request) {
        Some(node) => cx.inner(node)?,
        None => Query::all(),
    };
    let kind = match fields.take_string("type")? {
        Some(word) => JoinKind::from_word(&word)
            .ok_or_else(|| Error::illegal(format!("[join] unknown type [{word}], expected one of [semi, anti, left]")))?,
        None => JoinKind::Semi,
    };
    let score_mode = match words::take_score_mode(&mut fields)? {
        Some(word) => ScoreMode::of_children(&word, cx.dialect)?,
        None => ScoreMode::None,
    };
    let inner_hits = cx.inner_hits_of(&mut fields)?;
    let common = cx.common(&mut fields, "join", Clause::MatchAll)?;
    fields.finish()?;
    if index.is_empty() {
        return Err(Error::illegal("[join] requires 'index' field"));
    }
    let on = on.ok_or_else(|| Error::illegal("[join] requires 'on' field"))?;
    let clause = JoinQuery {
        index,
        on,
        query: Box::new(query),
        kind,
        score_mode,
        inner_hits,
    };
    Ok(Query {
        clause: Clause::Join(clause),
        ..common
    })
}

/// `{ours: theirs}` or `[ours, theirs]`.
fn on(node: Node) -> Result<(String, String)> {
    let wrong = node.error("[join] 'on' must be an object with one field: {our field: their field}");
    if node.is_array() {
        let [ours, theirs] = <[Node; 2]>::try_from(node.items()).map_err(|_| wrong)?;
        return Ok((ours.string("on")?, theirs.string("on")?));
    }
    if !node.is_object() {
        return Err(wrong);
    }
    let mut members = node.fields("join")?.remaining();
    match (members.pop(), members.is_empty()) {
        (Some((ours, theirs)), true) => Ok((ours, theirs.string("on")?)),
        _ => Err(wrong),
    }
}

pub(super) fn render(q: &JoinQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("index".into(), q.index.clone().into());
    let mut on = Map::new();
    on.insert(q.on.0.clone(), q.on.1.clone().into());
    body.insert("on".into(), on.into());
    body.insert("query".into(), q.query.render());
    if q.kind != JoinKind::Semi {
        body.insert("type".into(), q.kind.word().into());
    }
    if q.score_mode != ScoreMode::None {
        body.insert("score_mode".into(), q.score_mode.word().into());
    }
    add_related(&mut body, false, q.inner_hits.as_deref());
    body
}
