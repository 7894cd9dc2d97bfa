//! `filters` and `adjacency_matrix`: a bucket for each filter, or for each two of them.

use super::AggKind;
use super::options::{one, put};
use crate::json::{Fields, Node};
use crate::query::{Parsing, Query};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value};

pub(super) fn parse_filters(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let (nodes, mut keyed): (Vec<(String, Node)>, _) = match fields.take("filters") {
        Some(node) if node.is_object() => (shape::object(node, "filters")?.into_iter().collect(), true),
        Some(node) => {
            let positions = node.items().into_iter().enumerate();
            (
                positions.map(|(position, query)| (position.to_string(), query)).collect(),
                false,
            )
        }
        None => (Vec::new(), true),
    };
    if let Some(most) = dialect.clauses_max.map(|most| most as usize)
        && nodes.len() > most
    {
        return Err(crate::query::too_many_filters(most, nodes.len()));
    }
    let mut filters = Vec::with_capacity(nodes.len());
    for (name, query) in nodes {
        filters.push((name, Query::parse(query, &mut Parsing::of_filter(dialect))?));
    }
    if filters.is_empty() {
        return Err(Error::illegal("[filters] cannot be empty."));
    }
    let other = fields.take_bool("other_bucket")?;
    let key = fields.take_string("other_bucket_key")?;
    keyed = fields.take_bool("keyed")?.unwrap_or(true) && keyed;
    let other_bucket_key = match (other, key) {
        (Some(false), _) | (None, None) => None,
        (_, Some(key)) => Some(key),
        (Some(true), None) => Some("_other_".to_owned()),
    };
    Ok(AggKind::Filters {
        filters,
        keyed,
        other_bucket_key,
    })
}

pub(super) fn parse_adjacency(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let mut cx = Parsing::of_filter(dialect);
    let separator = fields.take_string("separator")?.unwrap_or_else(|| "&".into());
    let show_only_intersecting = fields.take_bool("show_only_intersecting")?.unwrap_or(false);
    let mut filters: Vec<(String, Query)> = Vec::new();
    fields.read("filters", &["START_OBJECT"], |node| {
        for (name, query) in shape::object(node.clone(), "filters")? {
            filters.push((name, Query::parse(query, &mut cx)?));
        }
        Ok(())
    })?;
    if filters.is_empty() {
        return Err(Error::illegal("[adjacency_matrix] needs at least one of [filters]"));
    }
    Ok(AggKind::AdjacencyMatrix {
        filters,
        separator,
        show_only_intersecting,
    })
}

pub(super) fn render(filters: &[(String, Query)], keyed: bool, other_bucket_key: Option<&str>) -> Map<String, Value> {
    let filters = if keyed {
        Value::Object(filters.iter().map(|(name, query)| (name.clone(), query.render())).collect())
    } else {
        filters.iter().map(|(_, query)| query.render()).collect()
    };
    let mut body = one("filters", filters);
    put(&mut body, "other_bucket_key", other_bucket_key);
    body
}

pub(super) fn render_adjacency(filters: &[(String, Query)], separator: &str, only_intersecting: bool) -> Map<String, Value> {
    let filters = filters.iter().map(|(name, query)| (name.clone(), query.render())).collect();
    let mut body = one("filters", Value::Object(filters));
    body.insert("separator".into(), separator.into());
    if only_intersecting {
        body.insert("show_only_intersecting".into(), true.into());
    }
    body
}
