//! `terms_set`: several terms, of which each document says how many it must have.

use super::{Clause, Parsing, Query};
use crate::json::Node;
use crate::query::script_source::ScriptSource;
use model::Result;
use serde_json::{Map, Value};

/// The clause.
#[derive(Clone, Debug, PartialEq)]
pub struct TermsSetQuery {
    pub field: String,
    pub terms: Vec<Value>,
    /// A number of the document.
    pub minimum_field: Option<String>,
    /// Worked out for the document; `params.num_terms` is how many terms there are.
    pub minimum_script: Option<ScriptSource>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, "terms_set")?;
    let wrong = body.error(format!("[terms_set] unknown token [{}] after [{field}]", body.kind_name()));
    if !body.is_object() {
        return Err(wrong);
    }
    let mut fields = cx.options(body, "terms_set")?;
    let terms = fields.require("terms")?;
    if !terms.is_array() {
        return Err(terms.error("[terms_set] query does not support [terms] that is no list"));
    }
    let terms = terms.items().into_iter().map(Node::into_value).collect();
    let minimum_field = fields.take_string("minimum_should_match_field")?;
    let minimum_script = fields
        .take("minimum_should_match_script")
        .map(|node| ScriptSource::parse(node, cx.dialect))
        .transpose()?;
    let clause = Clause::TermsSet(TermsSetQuery {
        field,
        terms,
        minimum_field,
        minimum_script,
    });
    cx.finish(fields.with_missing(beside), "terms_set", clause)
}

pub(super) fn render(q: &TermsSetQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("terms".into(), Value::Array(q.terms.clone()));
    if let Some(field) = &q.minimum_field {
        body.insert("minimum_should_match_field".into(), field.clone().into());
    }
    if let Some(script) = &q.minimum_script {
        body.insert("minimum_should_match_script".into(), script.render());
    }
    body
}
