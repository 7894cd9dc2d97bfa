//! The clauses of 2015 that were dropped later: `filtered`, the filters `and`, `or`, `not`, `missing`, `limit`, `query`, `fquery`, `template`.

use super::{BoolQuery, Clause, Parsing, Query};
use crate::json::{self, Fields, Json, Node, Reading};
use model::Result;

/// `limit` had no effect any more.
pub(super) fn limit(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let missing = body.error("No value specified for limit query");
    let mut fields = cx.options(body, "limit")?;
    let given = fields.take("value").is_some();
    let query = cx.finish(fields, "limit", Clause::MatchAll)?;
    if given { Ok(query) } else { Err(missing) }
}

/// The filters of one node: a list may stand where one is meant.
fn filters(node: Node, cx: &mut Parsing) -> Result<Vec<Query>> {
    cx.filtering(|cx| {
        let mut found = Vec::new();
        for item in node.items() {
            if !item.is_null() {
                found.extend(Query::parse_optional(item, cx)?);
            }
        }
        Ok(found)
    })
}

/// `filtered`: a query that scores and a filter that restricts.
pub(super) fn parse_filtered(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let mut fields = cx.options(body, "filtered")?;
    let query = fields
        .take("query")
        .map(|n| Query::parse_optional(n, cx))
        .transpose()?
        .flatten();
    // In a list of filters the last one counted.
    let filter: Vec<Query> = match fields.take("filter") {
        Some(node) => filters(node, cx)?.pop().into_iter().collect(),
        None => Vec::new(),
    };
    fields.take("strategy");
    let common = cx.common(&mut fields, "filtered", Clause::MatchAll)?;
    fields.finish()?;
    let clause = match (query, filter) {
        (None, filter) if filter.is_empty() => Clause::MatchAll,
        // A filter alone scores 1.0.
        (None, filter) => Clause::ConstantScore {
            filter: Box::new(all_of(filter)),
        },
        (Some(query), filter) => Clause::Bool(BoolQuery {
            must: vec![query],
            filter,
            ..BoolQuery::default()
        }),
    };
    Ok(Query { clause, ..common })
}

fn all_of(mut filters: Vec<Query>) -> Query {
    if filters.len() == 1
        && let Some(only) = filters.pop()
    {
        return only;
    }
    Clause::Bool(BoolQuery {
        filter: filters,
        ..BoolQuery::default()
    })
    .into()
}

/// `and` and `or`: a list, or an object with `filters`.
pub(super) fn list(name: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let wrong = body.error(format!("[{name}] query requires 'filters' to be set on it'"));
    let (filters, common) = if body.is_object() {
        let mut fields = cx.options(body, name)?;
        let node = fields.take_any(&["filters"]);
        let common = cx.common(&mut fields, name, Clause::MatchAll)?;
        let node = match node {
            Some(node) => node,
            // Any other name with a list was taken for them.
            None => first_list(fields).ok_or(wrong)?,
        };
        (filters(node, cx)?, common)
    } else {
        if matches!(&body.value, Json::Array(items) if items.is_empty()) {
            return Err(wrong);
        }
        (filters(body, cx)?, Query::all())
    };
    let clause = match (name, filters) {
        (_, filters) if filters.is_empty() => Clause::MatchNone,
        ("and", filters) => Clause::Bool(BoolQuery {
            filter: filters,
            ..BoolQuery::default()
        }),
        (_, filters) => {
            let either = BoolQuery {
                should: filters,
                minimum_should_match: Some("1".to_owned()),
                ..BoolQuery::default()
            };
            Clause::Bool(either)
        }
    };
    Ok(Query { clause, ..common })
}

fn first_list(mut fields: Fields) -> Option<Node> {
    while let Some((_, node)) = fields.next_field() {
        if node.is_array() {
            return Some(node);
        }
    }
    None
}

/// `not`: a filter, or an object with `filter` or `query`.
pub(super) fn not(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let wrong = body.error("filter is required when using `not` query");
    let inside = |node: &Node| match &node.value {
        Json::Object(members) => members.iter().any(|(name, _)| name == "filter" || name == "query"),
        _ => false,
    };
    let (must_not, common) = if inside(&body) {
        let mut fields = cx.options(body, "not")?;
        let node = fields.take_any(&["filter", "query"]);
        let common = cx.common(&mut fields, "not", Clause::MatchAll)?;
        (node.map(|n| filters(n, cx)).transpose()?.unwrap_or_default(), common)
    } else {
        (filters(body, cx)?, Query::all())
    };
    if must_not.is_empty() {
        return Err(wrong);
    }
    Ok(Query {
        clause: Clause::Bool(BoolQuery {
            must_not: vec![all_of(must_not)],
            ..BoolQuery::default()
        }),
        ..common
    })
}

/// `missing`: documents without a value (`existence`), those with the value that stands for null (`null_value`), or both.
pub(super) fn missing(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let no_field = body.error("missing must be provided with a [field]");
    let neither = body.error("missing must have either existence, or null_value, or both set to true");
    let mut fields = cx.options(body, "missing")?;
    let field = fields.take("field").map(|n| n.string("field")).transpose()?.ok_or(no_field)?;
    let existence = fields.take_bool("existence")?.unwrap_or(true);
    let null_value = fields.take_bool("null_value")?.unwrap_or(false);
    let clause = match (existence, null_value) {
        (false, false) => return Err(neither),
        (true, false) => Clause::Bool(BoolQuery {
            must_not: vec![Clause::Exists { field }.into()],
            ..BoolQuery::default()
        }),
        (existence, true) => Clause::NullValue { field, existence },
    };
    cx.finish(fields, "missing", clause)
}

/// `indices`: one query in the indices named, another (or none, or all) in the others.
pub(super) fn indices(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let no_names = body.error("[indices] requires 'indices' or 'index' element");
    let no_query = body.error("[indices] requires 'query' element");
    let mut fields = cx.options(body, "indices")?;
    let one = fields.take("index").map(|n| n.string("index")).transpose()?;
    let names = match fields.take_strings("indices")? {
        Some(names) => names,
        None => one.into_iter().collect(),
    };
    let query = fields
        .take_any(&["query", "filter"])
        .map(|n| cx.inner(n))
        .transpose()?
        .ok_or(no_query)?;
    let other = match fields.take_any(&["no_match_query", "no_match_filter"]) {
        Some(node) if node.as_str() == Some("none") => Clause::MatchNone.into(),
        Some(node) if node.as_str().is_some() => Query::all(),
        Some(node) => cx.inner(node)?,
        None => Query::all(),
    };
    if names.is_empty() {
        return Err(no_names);
    }
    let values = names.into_iter().map(serde_json::Value::from).collect();
    let here = Query::from(Clause::Terms(super::TermsQuery {
        field: "_index".to_owned(),
        values,
        minimum_should_match: None,
        disable_coord: false,
    }));
    let inside = BoolQuery {
        must: vec![query],
        filter: vec![here.clone()],
        ..BoolQuery::default()
    };
    let outside = BoolQuery {
        must: vec![other],
        must_not: vec![here],
        ..BoolQuery::default()
    };
    let either = BoolQuery {
        should: vec![Clause::Bool(inside).into(), Clause::Bool(outside).into()],
        minimum_should_match: Some("1".to_owned()),
        ..BoolQuery::default()
    };
    cx.finish(fields, "indices", Clause::Bool(either))
}

/// `fquery`: a query as a filter, with a name.
pub(super) fn fquery(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let wrong = body.error("fquery must be provided with a [query]");
    let mut fields = cx.options(body, "fquery")?;
    let query = fields.take("query").map(|n| cx.inner(n)).transpose()?.ok_or(wrong)?;
    let common = cx.common(&mut fields, "fquery", Clause::MatchAll)?;
    Ok(Query {
        name: common.name.or(query.name.clone()),
        ..query
    })
}

/// `template`: a query whose text has `{{name}}` for its parameters.
pub(super) fn template(_: &str, body: Node, cx: &mut Parsing) -> Result<Query> {
    let wrong = body.error("[template] query requires a [query]");
    let mut fields = cx.options(body, "template")?;
    let mut text = match fields.take_any(&["query", "inline", "template"]) {
        Some(Node {
            value: Json::String(text),
            ..
        }) => text,
        Some(node) => node.to_value().to_string(),
        None => return Err(wrong),
    };
    for (name, value) in fields.take_map("params")?.unwrap_or_default() {
        let plain = match &value {
            serde_json::Value::String(s) => model::text::to_json_escapes(s),
            other => other.to_string(),
        };
        text = text.replace(&format!("{{{{{name}}}}}"), &plain);
    }
    let node = json::read(
        text.as_bytes(),
        Reading {
            lenient: true,
            depth_max: usize::from(cx.dialect.depths.json),
            ..Reading::default()
        },
    )?;
    cx.inner(node)
}
