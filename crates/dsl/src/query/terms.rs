//! `terms`: any of several values, in the request or in another document.

use super::{Clause, Parsing, Query};
use crate::json::{Json, Node};
use model::{Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub struct TermsQuery {
    pub field: String,
    pub values: Vec<Value>,
    /// 2015: `minimum_should_match`/`execution` on `terms`.
    pub minimum_should_match: Option<String>,
    /// 2015: how many of them match changes no score.
    pub disable_coord: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TermsLookup {
    pub field: String,
    pub index: Option<String>,
    pub doc_type: Option<String>,
    /// The document to read from; absent with `query`.
    pub id: Option<String>,
    pub path: String,
    pub routing: Option<String>,
    /// All values of `path` in the hits of this query instead of one document.
    pub query: Option<Box<Query>>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let nameless =
        node.error("[terms] query requires a field name, followed by array of terms or a document lookup specification");
    let mut fields = cx.options(node, "terms")?;
    let rules = cx.dialect.rules;
    let mut query = cx.common(&mut fields, "terms", Clause::MatchNone)?;
    if rules.takes_former_options {
        // How 2015 carried it out; the answer was the same.
        fields.take("execution");
    }
    let disable_coord = rules.takes_former_options && fields.take_bool("disable_coord")? == Some(true);
    fields.take("value_type");
    let Some((field, body)) = fields.next_field() else {
        return Err(nameless);
    };
    if let Some((other, node)) = fields.next_field() {
        return Err(match &node.value {
            Json::Array(_) | Json::Object(_) => node.error(format!(
                "[terms] query does not support multiple fields, found [{field}] and [{other}]"
            )),
            _ => node.error(format!("[terms] query does not support [{other}]")),
        });
    }
    query.clause = match &body.value {
        Json::Array(_) => {
            let items = body.items();
            // At once: growing by doubling would hold them twice.
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                crate::interruption::look()?;
                if item.is_null() && !rules.tolerates_value_types {
                    return Err(item.error("No value specified for terms query"));
                }
                if item.is_object() || item.is_array() {
                    return Err(item.error(format!(
                        "[terms] query does not support a value of {} in [{field}]",
                        item.kind_name()
                    )));
                }
                values.push(item.into_value());
            }
            Clause::Terms(TermsQuery {
                field,
                values,
                minimum_should_match: None,
                disable_coord,
            })
        }
        Json::Object(_) => Clause::TermsLookup(lookup(field, body, cx)?),
        _ => return Err(body.error(format!("[terms] query does not support [{field}]"))),
    };
    Ok(query)
}

fn lookup(field: String, body: Node, cx: &mut Parsing) -> Result<TermsLookup> {
    let here = body.error("");
    let at = |sentence: &str| {
        let mut error = Error::new(model::ErrorKind::Parsing, sentence);
        for (name, value) in here.details() {
            error = error.with(name, value.clone());
        }
        error
    };
    let mut fields = body.fields("terms_lookup")?;
    let index = fields.take_string("index")?;
    let doc_type = fields.take_string("type")?;
    let id = match fields.take("id") {
        Some(node) if !cx.dialect.rules.tolerates_value_types && !node.is_null() && !matches!(node.value, Json::String(_)) => {
            let (line, col) = (node.line, node.col);
            return Err(Error::new(
                model::ErrorKind::XContentParse,
                format!(
                    "[{line}:{col}] [terms_lookup] id doesn't support values of type: {}",
                    node.kind_name()
                ),
            ));
        }
        node => node
            .filter(|node| !node.is_null())
            .map(|node| node.string("id"))
            .transpose()?,
    };
    let path = fields.take_string("path")?;
    let routing = fields.take_string("routing")?;
    let query = fields.take("query").map(|node| cx.inner(node).map(Box::new)).transpose()?;
    fields.take("store");
    if cx.dialect.rules.query_parsing_exceptions {
        if let Some((name, node)) = fields.next_field() {
            return Err(node.error(format!("[terms] query does not support [{name}] within lookup element")));
        }
        if doc_type.is_none() && query.is_none() {
            return Err(at("[terms] query lookup element requires specifying the type"));
        }
        if id.is_none() && query.is_none() {
            return Err(at("[terms] query lookup element requires specifying the id"));
        }
    } else {
        fields.finish_as_object()?;
        if index.is_none() {
            return Err(Error::illegal("[terms] query lookup element requires specifying the index."));
        }
        if id.is_none() && query.is_none() {
            return Err(Error::illegal("[terms] query lookup element requires specifying the id."));
        }
    }
    let path = match path {
        Some(path) => path,
        None if cx.dialect.rules.query_parsing_exceptions => {
            return Err(at("[terms] query lookup element requires specifying the path"));
        }
        None => {
            return Err(Error::illegal("[terms] query lookup element requires specifying the path."));
        }
    };
    Ok(TermsLookup {
        field,
        index,
        doc_type,
        id,
        path,
        routing,
        query,
    })
}

pub(super) fn render(q: &TermsQuery) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert(q.field.clone(), Value::Array(q.values.clone()));
    if let Some(minimum) = &q.minimum_should_match {
        body.insert("minimum_should_match".into(), minimum.clone().into());
    }
    if q.disable_coord {
        body.insert("disable_coord".into(), true.into());
    }
    body
}

pub(super) fn render_lookup(q: &TermsLookup) -> Map<String, Value> {
    let mut at = Map::new();
    for (name, value) in [
        ("index", &q.index),
        ("type", &q.doc_type),
        ("id", &q.id),
        ("routing", &q.routing),
    ] {
        if let Some(value) = value {
            at.insert(name.into(), value.clone().into());
        }
    }
    at.insert("path".into(), q.path.clone().into());
    if let Some(query) = &q.query {
        at.insert("query".into(), query.render());
    }
    let mut body = Map::new();
    body.insert(q.field.clone(), Value::Object(at));
    body
}
