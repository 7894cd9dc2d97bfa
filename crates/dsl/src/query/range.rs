//! `range`: between two values.

use super::{Clause, Parsing, Query, RangeQuery};
use crate::json::{Fields, Json, Node};
use model::{Error, Result};
use serde_json::{Map, Value};

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut outer = cx.options(node, "range")?;
    let mut query = cx.common_name(&mut outer, "range")?;
    let Some((field, body)) = outer.next_field() else {
        return Err(Error::illegal("field name is null or empty"));
    };
    if !cx.dialect.typed && matches!(&body.value, Json::Array(items) if items.is_empty()) {
        return Err(Error::illegal("field name is null or empty"));
    }
    if !body.is_object() {
        return Err(body.error(format!("[range] query does not support [{field}]")));
    }
    if let Some((other, node)) = outer.next_field() {
        return Err(match node.is_object() {
            true => node.error(format!(
                "[range] query doesn't support multiple fields, found [{field}] and [{other}]"
            )),
            false => node.error(format!("[range] query does not support [{other}]")),
        });
    }
    let mut fields = cx.options(body, "range")?;
    for bound in ["gt", "gte", "lt", "lte", "from", "to"] {
        if let Some(node) = fields.listed(bound).filter(|node| !cx.dialect.typed && node.is_object()) {
            return Err(node.error(format!("[range] query does not support [{bound}]")));
        }
    }
    let mut range = RangeQuery {
        field,
        ..RangeQuery::default()
    };
    let value = |fields: &mut Fields, name: &str| fields.take_value(name).filter(|v| !v.is_null());
    range.gt = value(&mut fields, "gt");
    range.gte = value(&mut fields, "gte").or(if cx.dialect.typed { value(&mut fields, "ge") } else { None });
    range.lt = value(&mut fields, "lt");
    range.lte = value(&mut fields, "lte").or(if cx.dialect.typed { value(&mut fields, "le") } else { None });
    let from = value(&mut fields, "from");
    let to = value(&mut fields, "to");
    let lower = fields.take_bool("include_lower")?;
    let upper = fields.take_bool("include_upper")?;
    if let Some(from) = from {
        (range.gt, range.gte) = if lower == Some(false) {
            (Some(from), None)
        } else {
            (None, Some(from))
        };
    } else if lower == Some(false) {
        range.gt = range.gt.or(range.gte.take());
    }
    if let Some(to) = to {
        (range.lt, range.lte) = if upper == Some(false) {
            (Some(to), None)
        } else {
            (None, Some(to))
        };
    } else if upper == Some(false) {
        range.lt = range.lt.or(range.lte.take());
    }
    range.format = fields.take_string("format")?;
    range.time_zone = fields.take_string("time_zone")?;
    if let Some(zone) = &range.time_zone {
        model::date::parse_zone(zone)?;
    }
    range.relation = fields.take_string("relation")?;
    if let Some(relation) = &range.relation
        && !["INTERSECTS", "CONTAINS", "WITHIN"]
            .iter()
            .any(|r| r.eq_ignore_ascii_case(relation))
    {
        return Err(Error::illegal(format!("{relation} is not a valid relation")));
    }
    let inner = cx.done(fields, "range", Clause::Range(range))?;
    query.clause = inner.clause;
    query.boost *= inner.boost;
    query.name = inner.name.or(query.name);
    Ok(query)
}

pub(super) fn render(q: &RangeQuery) -> Map<String, Value> {
    let mut body = Map::new();
    for (name, value) in [("gt", &q.gt), ("gte", &q.gte), ("lt", &q.lt), ("lte", &q.lte)] {
        if let Some(value) = value {
            body.insert(name.into(), value.clone());
        }
    }
    for (name, value) in [("format", &q.format), ("time_zone", &q.time_zone), ("relation", &q.relation)] {
        if let Some(value) = value {
            body.insert(name.into(), value.clone().into());
        }
    }
    body
}
