//! `bool`: what must, should and must not be.

use super::{Clause, Parsing, Query, parse::field_error, words};
use crate::json::{Node, unsupported_value};
use model::{ErrorKind, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct BoolQuery {
    pub must: Vec<Query>,
    pub should: Vec<Query>,
    pub filter: Vec<Query>,
    pub must_not: Vec<Query>,
    pub minimum_should_match: Option<String>,
    /// `adjust_pure_negative: false`: exclusions alone find nothing.
    pub nothing_of_exclusions: bool,
    /// 2015: how many clauses match changes no score.
    pub disable_coord: bool,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(node, "bool")?.of_object(!cx.dialect.rules.tolerates_value_types);
    let mut q = BoolQuery::default();
    for (name, old, list) in [
        ("must", "must", &mut q.must),
        ("should", "should", &mut q.should),
        ("filter", "filter", &mut q.filter),
        ("must_not", "mustNot", &mut q.must_not),
    ] {
        let Some(node) = fields.take_any(&[name, old]) else {
            continue;
        };
        if node.is_null() {
            continue;
        }
        for item in node.items() {
            let at = (item.line, item.col);
            let rules = cx.dialect.rules;
            cx.count_clause()?;
            let read = if matches!(name, "filter" | "must_not") {
                cx.filtering(|cx| Query::parse_optional(item, cx))
            } else {
                Query::parse_optional(item, cx)
            };
            match read {
                Ok(Some(query)) => list.push(query),
                // 2015 left an empty clause out.
                Ok(None) if rules.allows_empty_clauses => {}
                Ok(None) => {
                    return Err(field_error(
                        "bool",
                        name,
                        model::Error::illegal("query malformed, empty clause found"),
                        at,
                    ));
                }
                // Who counts is not the clause that is counted.
                Err(error) if rules.refusals_are_unwrapped || error.kind() == ErrorKind::TooManyClauses => return Err(error),
                Err(error) => return Err(field_error("bool", name, error, at)),
            }
        }
    }
    let minimum = if cx.dialect.rules.takes_former_options {
        fields.take_any(&["minimum_should_match", "minimum_number_should_match"])
    } else {
        fields.take("minimum_should_match")
    };
    if let Some(node) = minimum {
        if fields.is_of_object() && (node.is_object() || node.is_array()) {
            return Err(unsupported_value("bool", "minimum_should_match", &node));
        }
        q.minimum_should_match = words::minimum(&node)?;
        // 2015 never asked for more clauses than there are.
        if let Some(wanted) = q.minimum_should_match.as_ref().and_then(|m| m.parse::<usize>().ok())
            && cx.dialect.rules.caps_minimum_should_match
            && wanted > q.should.len()
        {
            q.minimum_should_match = Some(q.should.len().to_string());
        }
    }
    if cx.dialect.rules.filters_need_a_should && cx.in_filter && q.minimum_should_match.is_none() && !q.should.is_empty() {
        q.minimum_should_match = Some("1".to_owned());
    }
    if cx.dialect.rules.takes_former_options {
        q.disable_coord = fields.take_bool("disable_coord")?.unwrap_or(false);
    }
    q.nothing_of_exclusions = fields.take_bool("adjust_pure_negative")? == Some(false);
    let query = cx.common(&mut fields, "bool", Clause::Bool(q))?;
    fields.finish_as_object()?;
    Ok(query)
}

pub(super) fn render(q: &BoolQuery) -> Map<String, Value> {
    let mut body = Map::new();
    for (name, list) in [
        ("must", &q.must),
        ("should", &q.should),
        ("filter", &q.filter),
        ("must_not", &q.must_not),
    ] {
        if !list.is_empty() {
            body.insert(name.into(), list.iter().map(Query::render).collect());
        }
    }
    if let Some(minimum) = &q.minimum_should_match {
        body.insert("minimum_should_match".into(), minimum.clone().into());
    }
    if q.nothing_of_exclusions {
        body.insert("adjust_pure_negative".into(), false.into());
    }
    if q.disable_coord {
        body.insert("disable_coord".into(), true.into());
    }
    body
}
