//! `script` and `script_score`.

use super::{Clause, Parsing, Query, render::number, render::object, script_source::ScriptSource};
use crate::json::Node;
use model::{Error, Result};
use serde_json::{Map, Value, json};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = node.error("script must be provided with a [script]");
    let mut fields = cx.options(node, "script")?;
    let script = ScriptSource::take(&mut fields, cx.dialect)?.ok_or(missing)?;
    cx.finish(fields, "script", Clause::Script { script })
}

pub(super) fn parse_score(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx
        .options(node, "script_score")?
        .of_object(!cx.dialect.rules.tolerates_value_types);
    let query = fields.read("query", &["START_OBJECT"], |n| cx.inner(n.clone()))?;
    let script = if fields.is_of_object() {
        fields.read("script", &["START_OBJECT"], |node| {
            ScriptSource::parse(node.clone(), cx.dialect)
        })?
    } else {
        ScriptSource::take(&mut fields, cx.dialect)?
    };
    let min_score = fields.take_f32("min_score")?;
    let common = cx.common(&mut fields, "script_score", Clause::MatchAll)?;
    fields.finish_as_object()?;
    let query = Box::new(query.ok_or_else(|| Error::illegal("Required [query]"))?);
    let script = script.ok_or_else(|| Error::illegal("Required [script]"))?;
    Ok(Query {
        clause: Clause::ScriptScore {
            query,
            script,
            min_score,
        },
        ..common
    })
}

pub(super) fn render_score(query: &Query, script: &ScriptSource, min_score: Option<f32>) -> Map<String, Value> {
    let mut body = object(json!({"query": query.render(), "script": script.render()}));
    if let Some(min_score) = min_score {
        body.insert("min_score".into(), number(min_score));
    }
    body
}
