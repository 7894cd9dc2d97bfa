//! `span_*`: words by where they stand, put together.
//!
//! A span query is a tree of its own: only spans stand inside spans, and only the outermost has a boost.

use super::{Clause, Parsing, Query, query_of};
use crate::json::{Fields, Json, Node};
use model::{Error, Result};
use serde_json::{Map, Value, json};

/// A clause over positions.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanQuery {
    /// One word, wherever it stands.
    Term { field: String, value: Value },
    /// Clauses near each other.
    Near {
        clauses: Vec<SpanQuery>,
        /// How many positions may be between them.
        slop: i32,
        in_order: bool,
    },
    /// So many positions of anything, inside `span_near` in order.
    Gap { field: String, width: u32 },
    /// Any of the clauses.
    Or(Vec<SpanQuery>),
    /// A clause that ends at or before a position.
    First { inner: Box<SpanQuery>, end: u32 },
    /// A clause that another one does not touch.
    Not {
        include: Box<SpanQuery>,
        exclude: Box<SpanQuery>,
        pre: u32,
        post: u32,
    },
    /// The big one, where it has the little one inside.
    Containing { big: Box<SpanQuery>, little: Box<SpanQuery> },
    /// The little one, where it is inside the big one.
    Within { big: Box<SpanQuery>, little: Box<SpanQuery> },
    /// Any word that `prefix`, `wildcard`, `regexp`, `fuzzy` or `range` finds.
    Multi(Box<Query>),
    /// As if it were of another field.
    Masking { inner: Box<SpanQuery>, field: String },
}

impl SpanQuery {
    /// The field that counts.
    pub fn field(&self) -> &str {
        match self {
            SpanQuery::Term { field, .. } | SpanQuery::Gap { field, .. } | SpanQuery::Masking { field, .. } => field,
            SpanQuery::Near { clauses, .. } | SpanQuery::Or(clauses) => clauses.first().map_or("", SpanQuery::field),
            SpanQuery::First { inner, .. } => inner.field(),
            SpanQuery::Not { include, .. } => include.field(),
            SpanQuery::Containing { big, .. } | SpanQuery::Within { big, .. } => big.field(),
            SpanQuery::Multi(query) => match &query.clause {
                Clause::Prefix(q) | Clause::Wildcard(q) | Clause::Regexp(q) => &q.field,
                Clause::Fuzzy(q) => &q.field,
                Clause::Range(q) => &q.field,
                _ => "",
            },
        }
    }
    /// The fields of two clauses that had to be of one field, and are not.
    pub fn field_mismatch(&self) -> Option<(&str, &str)> {
        let mut found = None;
        let look = |first: &SpanQuery, other: &SpanQuery| first.field() != other.field();
        match self {
            SpanQuery::Term { .. } | SpanQuery::Gap { .. } | SpanQuery::Multi(_) => {}
            SpanQuery::Near { clauses, .. } | SpanQuery::Or(clauses) => {
                found = clauses.iter().find_map(SpanQuery::field_mismatch);
                if let (None, Some(first)) = (found, clauses.first()) {
                    let other = clauses.iter().find(|clause| look(first, clause));
                    found = other.map(|other| (first.field(), other.field()));
                }
            }
            SpanQuery::First { inner, .. } | SpanQuery::Masking { inner, .. } => found = inner.field_mismatch(),
            SpanQuery::Not {
                include: one,
                exclude: other,
                ..
            }
            | SpanQuery::Containing { big: one, little: other }
            | SpanQuery::Within { big: one, little: other } => {
                found = one.field_mismatch().or_else(|| other.field_mismatch());
                if found.is_none() && look(one, other) {
                    found = Some((one.field(), other.field()));
                }
            }
        }
        found
    }
    /// Calls `f` with this span and every one below it.
    pub fn visit(&self, f: &mut dyn FnMut(&SpanQuery)) {
        f(self);
        match self {
            SpanQuery::Term { .. } | SpanQuery::Gap { .. } | SpanQuery::Multi(_) => {}
            SpanQuery::Near { clauses, .. } | SpanQuery::Or(clauses) => clauses.iter().for_each(|c| c.visit(f)),
            SpanQuery::First { inner, .. } | SpanQuery::Masking { inner, .. } => inner.visit(f),
            SpanQuery::Not { include, .. } => include.visit(f),
            SpanQuery::Containing { big, little } | SpanQuery::Within { big, little } => {
                big.visit(f);
                little.visit(f);
            }
        }
    }
}

/// `span_*`: by its name.
pub(super) fn parse(name: &str, node: Node, cx: &mut Parsing) -> Result<Query> {
    if name == "span_term" {
        return parse_term(node, cx);
    }
    let here = node.error("");
    let missing = |what: String| super::parsing_error_at(&here, what);
    let mut fields = cx.options(node, name)?;
    let one = |fields: &mut Fields, key: &str, cx: &mut Parsing| -> Result<Option<Box<SpanQuery>>> {
        fields
            .take(key)
            .map(|node| inner(node, name, key, cx).map(Box::new))
            .transpose()
    };
    let span = match name {
        "span_near" => parse_near(&mut fields, &here, cx)?,
        "span_or" => SpanQuery::Or(take_clauses(name, &mut fields, &here, cx)?),
        "span_first" => {
            let inner =
                one(&mut fields, "match", cx)?.ok_or_else(|| missing("span_first must have [match] span query clause".into()))?;
            let end = fields
                .take_i64("end")?
                .ok_or_else(|| missing("span_first must have [end] set for it".into()))?;
            let end = u32::try_from(end).map_err(|_| Error::illegal("parameter [end] needs to be positive."))?;
            SpanQuery::First { inner, end }
        }
        "span_not" => {
            let include = one(&mut fields, "include", cx)?
                .ok_or_else(|| missing("span_not must have [include] span query clause".into()))?;
            let exclude = one(&mut fields, "exclude", cx)?
                .ok_or_else(|| missing("span_not must have [exclude] span query clause".into()))?;
            let dist = fields.take_u32("dist")?;
            let (pre, post) = (fields.take_u32("pre")?, fields.take_u32("post")?);
            if dist.is_some() && (pre.is_some() || post.is_some()) {
                return Err(missing("span_not can either use [dist] or [pre] & [post] (or none)".into()));
            }
            SpanQuery::Not {
                include,
                exclude,
                pre: dist.or(pre).unwrap_or(0),
                post: dist.or(post).unwrap_or(0),
            }
        }
        "span_containing" | "span_within" => {
            let big = one(&mut fields, "big", cx)?.ok_or_else(|| missing(format!("[{name}] must have [big] clause")))?;
            let little = one(&mut fields, "little", cx)?.ok_or_else(|| missing(format!("[{name}] must have [little] clause")))?;
            if name == "span_within" {
                SpanQuery::Within { big, little }
            } else {
                SpanQuery::Containing { big, little }
            }
        }
        "span_multi" => parse_multi(&mut fields, &here, cx)?,
        _ => {
            let inner = one(&mut fields, "query", cx)?
                .ok_or_else(|| missing("field_masking_span must have [query] span query clause".into()))?;
            let field = fields
                .take_string("field")?
                .ok_or_else(|| missing("field_masking_span must have [field] set for it".into()))?;
            SpanQuery::Masking { inner, field }
        }
    };
    cx.finish(fields, name, Clause::Span(span))
}

/// `span_near`; `here` is its place.
fn parse_near(fields: &mut Fields, here: &Error, cx: &mut Parsing) -> Result<SpanQuery> {
    let clauses = take_clauses("span_near", fields, here, cx)?;
    let slop = fields.take_i64("slop")?.unwrap_or(0);
    fields.take("collect_payloads");
    let in_order = fields.take_bool("in_order")?.unwrap_or(true);
    if !in_order && clauses.iter().any(|c| matches!(c, SpanQuery::Gap { .. })) {
        return Err(Error::illegal("[span_gap] needs a span_near in order"));
    }
    Ok(SpanQuery::Near {
        clauses,
        slop: i32::try_from(slop).unwrap_or(i32::MAX),
        in_order,
    })
}

/// The clauses of `span_near` and `span_or`, at least one.
fn take_clauses(name: &str, fields: &mut Fields, here: &Error, cx: &mut Parsing) -> Result<Vec<SpanQuery>> {
    let mut clauses = Vec::new();
    if let Some(list) = fields.take("clauses") {
        if !list.is_array() {
            return Err(list.error(format!("[{name}] query does not support [clauses]")));
        }
        for item in list.items() {
            clauses.push(match gap(&item, name)? {
                Some(gap) if !clauses.is_empty() => gap,
                Some(_) => return Err(item.error("span_near doesn't support span_gap as its first clause")),
                None => inner(item, name, "clauses", cx)?,
            });
        }
    }
    if clauses.is_empty() {
        return Err(super::parsing_error_at(here, format!("{name} must include [clauses]")));
    }
    Ok(clauses)
}

/// `span_multi`: a query of several terms at one position.
fn parse_multi(fields: &mut Fields, here: &Error, cx: &mut Parsing) -> Result<SpanQuery> {
    let Some(node) = fields.take("match") else {
        let sentence = "[span_multi] must have [match] multi term query clause";
        return Err(super::parsing_error_at(here, sentence.into()));
    };
    let wrong = node.error("[span_multi] [match] must be of type multi term query");
    let query = cx.inner(node)?;
    let multi = matches!(
        query.clause,
        Clause::Prefix(_) | Clause::Wildcard(_) | Clause::Regexp(_) | Clause::Fuzzy(_) | Clause::Range(_)
    );
    if multi {
        Ok(SpanQuery::Multi(Box::new(query)))
    } else {
        Err(wrong)
    }
}

fn parse_term(node: Node, cx: &mut Parsing) -> Result<Query> {
    let (field, body, beside) = cx.one_field(node, "span_term")?;
    let (value, fields) = match &body.value {
        Json::Array(_) => return Err(body.error("[span_term] query does not support array of values")),
        Json::Object(_) => {
            let mut fields = cx.options(body, "span_term")?;
            let value = fields.take_any(&["value", "term"]);
            (value.map_or(Value::Null, Node::into_value), fields.with_missing(beside))
        }
        _ => (body.into_value(), beside),
    };
    if value.is_null() {
        return Err(Error::illegal("value cannot be null"));
    }
    cx.finish(fields, "span_term", Clause::Span(SpanQuery::Term { field, value }))
}

/// A span inside a span.
fn inner(node: Node, owner: &str, key: &str, cx: &mut Parsing) -> Result<SpanQuery> {
    let here = node.error("");
    let query = cx.inner(node)?;
    let refuse = |sentence: String| super::parsing_error_at(&here, sentence);
    let Clause::Span(span) = query.clause else {
        return Err(refuse(format!("{owner} [{key}] must be of type span query")));
    };
    #[allow(clippy::float_cmp, reason = "the exact default")]
    if query.boost != 1.0 && !cx.dialect.rules.tolerates_conflicting_options {
        return Err(refuse(format!(
            "{owner} [{key}] as a nested span clause can't have non-default boost value [{:?}]",
            query.boost
        )));
    }
    Ok(span)
}

/// `span_gap`: `{"span_gap": {"field": width}}`.
fn gap(node: &Node, owner: &str) -> Result<Option<SpanQuery>> {
    let Json::Object(members) = &node.value else { return Ok(None) };
    let [(name, body)] = members.as_slice() else { return Ok(None) };
    if name != "span_gap" || owner != "span_near" {
        return Ok(None);
    }
    let Json::Object(members) = &body.value else {
        return Err(body.error("[span_gap] query malformed, no start_object after query name"));
    };
    let [(field, width)] = members.as_slice() else {
        return Err(body.error("[span_gap] query needs one field"));
    };
    Ok(Some(SpanQuery::Gap {
        field: field.clone(),
        width: width.u32("width")?,
    }))
}

/// As in a request: the name of the clause and its body.
pub(super) fn render(span: &SpanQuery) -> (&'static str, Map<String, Value>) {
    let one = |span: &SpanQuery| {
        let (name, body) = render(span);
        json!({ name: body })
    };
    let all = |spans: &[SpanQuery]| spans.iter().map(one).collect::<Vec<Value>>();
    let (name, body) = match span {
        SpanQuery::Term { field, value } => ("span_term", json!({ field.as_str(): { "value": value } })),
        SpanQuery::Gap { field, width } => ("span_gap", json!({ field.as_str(): width })),
        SpanQuery::Near { clauses, slop, in_order } => (
            "span_near",
            json!({ "clauses": all(clauses), "slop": slop, "in_order": in_order }),
        ),
        SpanQuery::Or(clauses) => ("span_or", json!({ "clauses": all(clauses) })),
        SpanQuery::First { inner, end } => ("span_first", json!({ "match": one(inner), "end": end })),
        SpanQuery::Not {
            include,
            exclude,
            pre,
            post,
        } => (
            "span_not",
            json!({ "include": one(include), "exclude": one(exclude), "pre": pre, "post": post }),
        ),
        SpanQuery::Containing { big, little } => ("span_containing", json!({ "big": one(big), "little": one(little) })),
        SpanQuery::Within { big, little } => ("span_within", json!({ "big": one(big), "little": one(little) })),
        SpanQuery::Multi(query) => ("span_multi", json!({ "match": query_of(query) })),
        SpanQuery::Masking { inner, field } => ("field_masking_span", json!({ "query": one(inner), "field": field })),
    };
    match body {
        Value::Object(body) => (name, body),
        _ => (name, Map::new()),
    }
}
