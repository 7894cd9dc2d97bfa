//! `has_child` and `parent_id`.

use super::{Clause, InnerHits, Parsing, Query, ScoreMode, render::add_related, render::object};
use crate::json::Node;
use model::{Error, Result, Topic};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct HasChildQuery {
    pub child_type: String,
    pub query: Box<Query>,
    pub score_mode: ScoreMode,
    pub min_children: u32,
    pub max_children: Option<u32>,
    pub ignore_unmapped: bool,
    pub inner_hits: Option<Box<InnerHits>>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let at = (node.line, node.col);
    let mut fields = cx.options(node, "has_child")?;
    let rules = cx.dialect.rules;
    let child_type = fields.take_any(if rules.takes_former_options {
        &["type", "child_type"]
    } else {
        &["type"]
    });
    let child_type = child_type.map(|n| n.string("type")).transpose()?;
    let query = cx.related_query(&mut fields, Parsing::inner)?;
    let mode = fields.take_any(if rules.takes_former_options {
        &["score_mode", "score_type"]
    } else {
        &["score_mode"]
    });
    let score_mode = match mode {
        Some(node) => {
            let word = node.string("score_mode").map_err(|error| error.about(Topic::ScoreMode))?;
            ScoreMode::of_children(&word, cx.dialect)?
        }
        None => ScoreMode::None,
    };
    let count = |node: Option<Node>, name: &str| -> Result<Option<u32>> {
        let Some(node) = node else { return Ok(None) };
        let wrong = |_| Error::illegal(format!("[has_child] requires non-negative '{name}' field"));
        // 2015 took less than none for none.
        let given = node.i64(name)?;
        u32::try_from(if rules.tolerates_value_bounds { given.max(0) } else { given })
            .map(Some)
            .map_err(wrong)
    };
    let min_children = count(fields.take("min_children"), "min_children")?;
    let max_children = count(fields.take("max_children"), "max_children")?;
    // 2015 wrote 0 for no limit.
    let max_children = max_children.filter(|n| !(rules.zero_children_is_unlimited && *n == 0));
    let ignore_unmapped = fields.take_bool("ignore_unmapped")?.unwrap_or(false);
    let inner_hits = cx.inner_hits_of(&mut fields)?;
    let common = cx.common(&mut fields, "has_child", Clause::MatchAll)?;
    if rules.takes_former_options {
        fields.take("short_circuit_cutoff");
    }
    fields.finish()?;
    let lacks = |sentence| cx.lacks(at, sentence, sentence);
    let child_type = child_type.ok_or_else(|| lacks("[has_child] requires 'type' field"))?;
    let query = Box::new(query.ok_or_else(|| lacks("[has_child] requires 'query' field"))?);
    let min_children = min_children.unwrap_or(1);
    if max_children.is_some_and(|max| max < min_children) {
        return Err(lacks("[has_child] 'max_children' is less than 'min_children'"));
    }
    let clause = HasChildQuery {
        child_type,
        query,
        score_mode,
        min_children,
        max_children,
        ignore_unmapped,
        inner_hits,
    };
    Ok(Query {
        clause: Clause::HasChild(clause),
        ..common
    })
}

pub(super) fn parse_parent_id(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(node, "parent_id")?;
    let child_type = fields
        .take_string("type")?
        .ok_or_else(|| Error::illegal("[parent_id] requires 'type' field"))?;
    let id = fields
        .take_string("id")?
        .ok_or_else(|| Error::illegal("[parent_id] requires 'id' field"))?;
    let ignore_unmapped = fields.take_bool("ignore_unmapped")?.unwrap_or(false);
    cx.finish(
        fields,
        "parent_id",
        Clause::ParentId {
            child_type,
            id,
            ignore_unmapped,
        },
    )
}

pub(super) fn render(q: &HasChildQuery) -> Map<String, Value> {
    let mut body = object(json!({"type": q.child_type, "query": q.query.render()}));
    if q.score_mode != ScoreMode::None {
        body.insert("score_mode".into(), q.score_mode.word().into());
    }
    if q.min_children != 1 {
        body.insert("min_children".into(), q.min_children.into());
    }
    if let Some(max) = q.max_children {
        body.insert("max_children".into(), max.into());
    }
    add_related(&mut body, q.ignore_unmapped, q.inner_hits.as_deref());
    body
}

pub(super) fn render_parent_id(child_type: &str, id: &str, ignore_unmapped: bool) -> Map<String, Value> {
    let mut body = object(json!({"type": child_type, "id": id}));
    add_related(&mut body, ignore_unmapped, None);
    body
}
