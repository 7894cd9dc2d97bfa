//! `range`: between two values.

use super::{Clause, Parsing, Query};
use crate::json::{Fields, Json, Node};
use model::{Error, Result};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Default)]
pub struct RangeQuery {
    pub field: String,
    pub gt: Option<Value>,
    pub gte: Option<Value>,
    pub lt: Option<Value>,
    pub lte: Option<Value>,
    pub format: Option<String>,
    pub time_zone: Option<String>,
    pub relation: Option<String>,
}

pub(super) fn parse(node: Node, cx: &mut Parsing) -> Result<Query> {
    let mut outer = cx.options(node, "range")?;
    let mut query = cx.common_name(&mut outer, "range")?;
    let Some((field, body)) = outer.next_field() else {
        return Err(Error::illegal("field name is null or empty"));
    };
    if field.is_empty() && !cx.dialect.rules.tolerates_missing_options {
        return Err(Error::illegal("field name is null or empty"));
    }
    if !cx.dialect.rules.tolerates_missing_options && matches!(&body.value, Json::Array(items) if items.is_empty()) {
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
    let order: Vec<String> = match &body.value {
        Json::Object(members) => members.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    };
    let mut fields = cx.options(body, "range")?;
    for bound in ["gt", "gte", "lt", "lte", "from", "to"] {
        if let Some(node) = fields
            .container(bound)
            .filter(|node| !cx.dialect.rules.tolerates_value_types && node.is_object())
        {
            return Err(node.error(format!("[range] query does not support [{bound}]")));
        }
    }
    let mut range = RangeQuery {
        field,
        ..RangeQuery::default()
    };
    if cx.dialect.rules.range_bounds_ignore_order {
        bounds_of_2015(&mut range, &mut fields)?;
    } else {
        bounds(&mut range, &mut fields, &order)?;
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
    let inner = cx.finish(fields, "range", Clause::Range(range))?;
    query.clause = inner.clause;
    query.boost *= inner.boost;
    query.name = inner.name.or(query.name);
    Ok(query)
}

/// The two ends of a range: what comes later in the body stands in for what came before, and `from` and `to` say nothing
/// about whether their end is included.
fn bounds(range: &mut RangeQuery, fields: &mut Fields, order: &[String]) -> Result<()> {
    let (mut low, mut low_in, mut high, mut high_in) = (None, true, None, true);
    for name in order {
        match name.as_str() {
            "include_lower" => low_in = fields.take_bool(name)?.unwrap_or(low_in),
            "include_upper" => high_in = fields.take_bool(name)?.unwrap_or(high_in),
            "from" => low = fields.take_value(name),
            "to" => high = fields.take_value(name),
            "gt" | "gte" => (low, low_in) = (fields.take_value(name), name == "gte"),
            "lt" | "lte" => (high, high_in) = (fields.take_value(name), name == "lte"),
            _ => {}
        }
    }
    let given = |value: Option<Value>| value.filter(|value| !value.is_null());
    match low_in {
        true => range.gte = given(low),
        false => range.gt = given(low),
    }
    match high_in {
        true => range.lte = given(high),
        false => range.lt = given(high),
    }
    Ok(())
}

fn bounds_of_2015(range: &mut RangeQuery, fields: &mut Fields) -> Result<()> {
    let value = |fields: &mut Fields, name: &str| fields.take_value(name).filter(|v| !v.is_null());
    range.gt = value(fields, "gt");
    range.gte = value(fields, "gte").or(value(fields, "ge"));
    range.lt = value(fields, "lt");
    range.lte = value(fields, "lte").or(value(fields, "le"));
    let from = value(fields, "from");
    let to = value(fields, "to");
    let lower = fields.take_bool("include_lower")?;
    let upper = fields.take_bool("include_upper")?;
    if let Some(from) = from {
        (range.gt, range.gte) = if lower == Some(false) {
            (Some(from), None)
        } else {
            (None, Some(from))
        };
    } else if lower == Some(false) {
        range.gt = range.gt.take().or(range.gte.take());
    }
    if let Some(to) = to {
        (range.lt, range.lte) = if upper == Some(false) {
            (Some(to), None)
        } else {
            (None, Some(to))
        };
    } else if upper == Some(false) {
        range.lt = range.lt.take().or(range.lte.take());
    }
    Ok(())
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
