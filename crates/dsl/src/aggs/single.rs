//! Aggregations of one bucket: `filter`, `global`, `missing`, `nested`, `reverse_nested`, `children`, `parent`.

use super::options::{one, put};
use super::table::Context;
use super::value_source::no_value_source;
use super::{AggKind, ValueSource};
use crate::json::{Fields, Node};
use crate::query::{Parsing, Query};
use model::{Dialect, Result};
use serde_json::{Map, Value};

pub(super) fn filter(body: Node, dialect: Dialect) -> Result<AggKind> {
    let filter = Query::parse_unless_empty(body, &mut Parsing::of_filter(dialect))?;
    Ok(AggKind::Filter(Box::new(filter.unwrap_or_else(Query::all))))
}

pub(super) fn global(fields: &mut Fields, cx: &Context<'_>) -> Result<AggKind> {
    if !cx.dialect.rules.tolerates_value_types && !fields.is_empty() {
        let found = fields.next_field().map_or("VALUE_NULL", |(_, node)| node.kind_name());
        return Err(cx.at.error(format!(
            "Expected [FIELD_NAME] under a [START_OBJECT], but got a [{found}] in [{}]",
            cx.name
        )));
    }
    Ok(AggKind::Global)
}

pub(super) fn missing(fields: &mut Fields, dialect: Dialect) -> Result<AggKind> {
    let source = ValueSource::take(fields, dialect)?;
    let field = source.field.ok_or_else(|| no_value_source("[field, script]"))?;
    Ok(AggKind::Missing {
        field,
        missing: source.missing,
    })
}

pub(super) fn nested(fields: &mut Fields, cx: &Context<'_>) -> Result<AggKind> {
    let path = take_path(fields, cx)?;
    let path = path.ok_or_else(|| {
        cx.at
            .error(format!("Missing [path] field for nested aggregation [{}]", cx.name))
    })?;
    refuse_rest(fields, cx)?;
    Ok(AggKind::Nested { path })
}

pub(super) fn reverse_nested(fields: &mut Fields, cx: &Context<'_>) -> Result<AggKind> {
    let path = take_path(fields, cx)?;
    refuse_rest(fields, cx)?;
    Ok(AggKind::ReverseNested { path })
}

pub(super) fn children(fields: &mut Fields, cx: &Context<'_>) -> Result<AggKind> {
    let child_type = take_type(fields, cx)?;
    Ok(AggKind::Children { child_type })
}

pub(super) fn parent(fields: &mut Fields, cx: &Context<'_>) -> Result<AggKind> {
    let child_type = take_type(fields, cx)?;
    Ok(AggKind::Parent { child_type })
}

/// The path of nested documents: a text, today.
fn take_path(fields: &mut Fields, cx: &Context<'_>) -> Result<Option<String>> {
    if let Some(path) = fields
        .member("path")
        .filter(|path| !cx.dialect.rules.tolerates_value_types && path.as_str().is_none())
    {
        let found = path.kind_name();
        return Err(cx.at.error(format!("Unexpected token {found} in [{}].", cx.name)));
    }
    fields.take_string("path")
}

fn take_type(fields: &mut Fields, cx: &Context<'_>) -> Result<String> {
    let Context { kind, name, at, .. } = cx;
    let missing = || at.error(format!("Missing [child_type] field for {kind} aggregation [{name}]"));
    let child_type = fields.take_string("type")?.ok_or_else(missing)?;
    refuse_rest(fields, cx)?;
    Ok(child_type)
}

/// Refuses today an option that was not read.
fn refuse_rest(fields: &mut Fields, cx: &Context<'_>) -> Result<()> {
    if cx.dialect.rules.skips_unknown_keys {
        return Ok(());
    }
    match fields.next_field() {
        Some((option, node)) => Err(node.error(format!("Unexpected token {} [{option}] in [{}].", node.kind_name(), cx.name))),
        None => Ok(()),
    }
}

pub(super) fn render_missing(field: &str, missing: Option<&Value>) -> Map<String, Value> {
    let mut body = one("field", field);
    put(&mut body, "missing", missing.cloned());
    body
}
