//! `composite`: a bucket for each combination of the values of its sources, page by page.

use super::AggKind;
use super::histogram::{parse_date_histogram, parse_histogram};
use super::options::{one, put};
use super::terms::parse_terms;
use super::value_source::{check_source, option};
use crate::json::{Fields, Node};
use crate::shape;
use model::{Dialect, Error, Result};
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct CompositeSource {
    pub name: String,
    /// `Terms`, `Histogram` or `DateHistogram`.
    pub kind: AggKind,
    pub ascending: bool,
    pub missing_bucket: bool,
    /// `first`, `last` or absent.
    pub missing_order: Option<String>,
}

pub(super) fn parse_composite(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let size = option(fields, "composite", "size", |n| match n.i64("size")? {
        number if number > 0 => n.usize("size"),
        number => Err(Error::illegal(format!("[size] must be greater than 0. Found [{number}]"))),
    })?;
    let sources = option(fields, "composite", "sources", |node| {
        let mut out: Vec<CompositeSource> = Vec::new();
        for item in node.clone().items() {
            for (name, definition) in shape::object(item, "sources")? {
                if out.iter().any(|other| other.name == name) {
                    return Err(Error::illegal(format!(
                        "Composite source names must be unique, found duplicates: [{name}]"
                    )));
                }
                out.push(parse_composite_source(name, definition, dialect)?);
            }
        }
        if out.is_empty() {
            Err(Error::illegal("Composite [sources] cannot be null or empty"))
        } else {
            Ok(out)
        }
    })?;
    let after: Option<Map<String, Value>> = fields.take_map("after")?;
    Ok(AggKind::Composite {
        size: size.unwrap_or(10),
        sources: sources.ok_or_else(|| shape::missing_required("sources"))?,
        after,
    })
}

fn parse_composite_source(name: String, definition: Node, dialect: Dialect) -> Result<CompositeSource> {
    let empty = definition.error(format!("Missing definition for composite source [{name}]"));
    let (kind, body) = shape::object(definition, "sources")?.into_iter().next().ok_or(empty)?;
    let unknown = body.error(format!("invalid source type: {kind}"));
    let mut fields = body.fields(&kind)?;
    let ascending = option(&mut fields, &kind, "order", |n| {
        match n.string("order")?.to_ascii_lowercase().as_str() {
            "asc" => Ok(true),
            "desc" => Ok(false),
            other => Err(Error::illegal(format!("Unknown sort order [{other}]"))),
        }
    })?;
    let missing_bucket = fields.take_bool("missing_bucket")?.unwrap_or(false);
    let missing_order = fields.take_string("missing_order")?.filter(|order| order != "default");
    let parsed = match kind.as_str() {
        "terms" => AggKind::Terms(parse_terms(&mut fields, &kind, &name, dialect)?),
        "histogram" => AggKind::Histogram(parse_histogram(&mut fields, &name, dialect)?),
        "date_histogram" => AggKind::DateHistogram(parse_date_histogram(&mut fields, dialect)?),
        _ => return Err(unknown),
    };
    fields.finish()?;
    check_source(&parsed, dialect)?;
    Ok(CompositeSource {
        name,
        kind: parsed,
        ascending: ascending.unwrap_or(true),
        missing_bucket,
        missing_order,
    })
}

pub(super) fn render(size: usize, sources: &[CompositeSource], after: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut body = one("size", size);
    body.insert("sources".into(), sources.iter().map(render_source).collect());
    put(&mut body, "after", after.cloned());
    body
}

fn render_source(source: &CompositeSource) -> Value {
    let (kind, mut body) = source.kind.render();
    if let Some(body) = body.as_object_mut() {
        // Options of the aggregation that a source does not have.
        for name in ["size", "min_doc_count", "order"] {
            body.remove(name);
        }
        body.insert("order".into(), if source.ascending { "asc" } else { "desc" }.into());
        if source.missing_bucket {
            body.insert("missing_bucket".into(), true.into());
        }
        put(body, "missing_order", source.missing_order.as_deref());
    }
    json!({ source.name.as_str(): { kind: body } })
}
