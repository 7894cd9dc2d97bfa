//! `term`: one exact value.

use super::{Clause, Parsing, Query};
use crate::json::{Json, Node};
use model::{Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct TermQuery {
    pub field: String,
    pub value: Value,
    pub case_insensitive: bool,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, "term")?;
    let (value, case_insensitive, fields) = match &body.value {
        Json::Array(_) => return Err(body.error("[term] query does not support array of values")),
        Json::Object(_) => {
            let mut fields = cx.options(body, "term")?;
            let value = if cx.dialect.rules.takes_former_options {
                fields.take_any(&["value", "term"])
            } else {
                fields.take("value")
            };
            let flag = fields.take_bool("case_insensitive")?.unwrap_or(false);
            (value.map_or(Value::Null, Node::into_value), flag, fields.with_missing(beside))
        }
        _ => (body.into_value(), false, beside),
    };
    let query = cx.finish(
        fields,
        "term",
        Clause::Term(TermQuery {
            field,
            value: value.clone(),
            case_insensitive,
        }),
    )?;
    match value {
        Value::Null => Err(Error::illegal("value cannot be null")),
        _ => Ok(query),
    }
}

pub(super) fn render(q: &TermQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("value".into(), q.value.clone());
    if q.case_insensitive {
        body.insert("case_insensitive".into(), true.into());
    }
    body
}
