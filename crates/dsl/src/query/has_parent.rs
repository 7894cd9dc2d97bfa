//! `has_parent`.

use super::{Clause, InnerHits, Parsing, Query, render::add_related, render::object};
use crate::json::Node;
use model::{Result, Topic};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct HasParentQuery {
    pub parent_type: String,
    pub query: Box<Query>,
    pub score: bool,
    pub ignore_unmapped: bool,
    pub inner_hits: Option<Box<InnerHits>>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let at = (node.line, node.col);
    let mut fields = cx.options(node, "has_parent")?;
    let former = cx.dialect.rules.takes_former_options;
    let parent_type = fields.take_any(if former {
        &["parent_type", "parentType", "type"]
    } else {
        &["parent_type"]
    });
    let parent_type = parent_type.map(|n| n.string("parent_type")).transpose()?;
    let query = cx.related_query(&mut fields, Parsing::inner)?;
    let mut score = if former {
        false
    } else {
        fields.take_bool("score")?.unwrap_or(false)
    };
    if former && let Some(node) = fields.take_any(&["score_mode", "score_type"]) {
        // 2015 took every other word for no score.
        score = node.string("score_mode").map_err(|error| error.about(Topic::ScoreMode))? == "score";
    }
    let ignore_unmapped = fields.take_bool("ignore_unmapped")?.unwrap_or(false);
    let inner_hits = cx.inner_hits_of(&mut fields)?;
    let common = cx.common(&mut fields, "has_parent", Clause::MatchAll)?;
    fields.finish()?;
    let lacks = |what: &str| {
        let today = format!("[has_parent] requires '{what}' field");
        cx.lacks(at, &today, &format!("[has_parent] query requires '{what}' field"))
    };
    let parent_type = parent_type.ok_or_else(|| lacks("parent_type"))?;
    let query = Box::new(query.ok_or_else(|| lacks("query"))?);
    Ok(Query {
        clause: Clause::HasParent(HasParentQuery {
            parent_type,
            query,
            score,
            ignore_unmapped,
            inner_hits,
        }),
        ..common
    })
}

pub(super) fn render(q: &HasParentQuery) -> Map<String, Value> {
    let mut body = object(json!({"parent_type": q.parent_type, "query": q.query.render()}));
    if q.score {
        body.insert("score".into(), true.into());
    }
    add_related(&mut body, q.ignore_unmapped, q.inner_hits.as_deref());
    body
}
