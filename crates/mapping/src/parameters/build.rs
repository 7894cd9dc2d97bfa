//! A field type from its checked parameters.

use super::Context;
use crate::field::{FieldType, Kind, Params};
use crate::types;
use crate::wording::{java, malformed, text_of};
use analysis::Analyzer;
use model::date::{DateFormat, PatternSyntax};
use model::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn build(
    context: &Context<'_>,
    name: &str,
    kind: Kind,
    string: bool,
    mut params: Params,
    fields: Vec<(String, Arc<FieldType>)>,
) -> Result<FieldType> {
    let relations = match params.get("relations") {
        Some(given) if kind == Kind::Join => {
            let read = types::join::relations(name, given)?;
            params.insert("relations".into(), types::join::render(&read));
            read
        }
        _ => Vec::new(),
    };
    if let Some(given) = params.get("contexts").filter(|_| kind == Kind::Completion) {
        let read = types::contexts::parse(given)?;
        params.insert("contexts".into(), types::contexts::render(&read));
    }
    let flag = |key: &str, default: bool| params.get(key).and_then(Value::as_bool).unwrap_or(default);
    let text = |key: &str| params.get(key).map(text_of);
    let analyzer = |key: &str| find_analyzer(context, name, params.get(key));
    let default_analyzer = || {
        context
            .registry
            .analyzer("default")
            .or_else(|| context.registry.analyzer("standard"))
    };
    let (mut own, mut search, mut quote) = (None, None, None);
    if kind.is_text() || matches!(kind, Kind::TokenCount | Kind::Completion) {
        let default_analyzer = || match kind {
            Kind::Completion => context.registry.analyzer("simple"),
            _ => default_analyzer(),
        };
        let given = match analyzer("analyzer")? {
            None => analyzer("index_analyzer")?,
            given => given,
        };
        search = match (analyzer("search_analyzer")?, &given) {
            (Some(search), _) => Some(search),
            (None, Some(given)) => Some(given.clone()),
            (None, None) if kind == Kind::Completion => default_analyzer(),
            (None, None) => context.registry.analyzer("default_search").or_else(default_analyzer),
        };
        own = given.or_else(default_analyzer);
        quote = analyzer("search_quote_analyzer")?.or_else(|| search.clone());
    }
    let normalizer = match text("normalizer") {
        None => None,
        Some(wanted) => Some(
            context
                .registry
                .normalizer(&wanted)
                .ok_or_else(|| malformed(format!("normalizer [{wanted}] not found for field [{name}]")))?,
        ),
    };
    let format = match (kind.is_date() || kind == Kind::DateRange, text("format")) {
        (false, _) => None,
        (true, None) => Some(DateFormat::usual(PatternSyntax::of(context.typed))),
        (true, Some(pattern)) => {
            let format = DateFormat::parse_pattern_of(&pattern, PatternSyntax::of(context.typed));
            Some(format.map_err(|e| format_refused(context, name, e))?)
        }
    };
    let scaling_factor = match (kind, params.get("scaling_factor")) {
        (Kind::ScaledFloat, None) => {
            return Err(malformed(format!(
                "Field [{name}] misses required parameter [scaling_factor]"
            )));
        }
        (Kind::ScaledFloat, Some(value)) => text_of(value)
            .parse()
            .ok()
            .filter(|factor: &f64| *factor > 0.0 && factor.is_finite())
            .ok_or_else(|| Error::illegal("[scaling_factor] must be a positive number"))?,
        _ => 1.0,
    };
    let index = match params.get("index") {
        Some(Value::Bool(index)) => *index,
        Some(other) => text_of(other) != "no" && text_of(other) != "false",
        None => true,
    };
    if kind == Kind::Alias && !params.contains_key("path") {
        return Err(malformed(format!(
            "The [path] property must be specified for field [{name}]."
        )));
    }
    let norms = match (string, params.get("norms")) {
        (true, Some(Value::Object(norms))) => norms.get("enabled").map(text_of).as_deref() != Some("false"),
        (true, None) => !flag("omit_norms", kind == Kind::Keyword),
        _ => flag("norms", kind == Kind::Text),
    };
    let copy_to = match params.get("copy_to") {
        None => Vec::new(),
        Some(Value::Array(paths)) => paths.iter().map(text_of).collect(),
        Some(path) => vec![text_of(path)],
    };
    if let Some(target) = copy_to.iter().find(|path| path.is_empty()) {
        return Err(malformed(format!("[copy_to] of field [{name}] names no field: [{target}]")));
    }
    let gap = params.get("position_increment_gap").and_then(Value::as_i64);
    let gap = gap.map_or(Ok(100), u32::try_from);
    let field = FieldType {
        kind,
        string,
        index,
        // Fields without a column were inverted in memory in 2015, when sorted or counted; here they have a column.
        doc_values: context.typed && index && !kind.is_text() && kind != Kind::Binary
            || flag(
                "doc_values",
                !kind.is_text() && kind != Kind::Binary && index_gives_columns(string || context.typed, index),
            ),
        store: flag("store", false),
        norms,
        analyzer: own,
        search_analyzer: search,
        search_quote_analyzer: quote,
        normalizer,
        boost: params.get("boost").and_then(|b| text_of(b).parse().ok()).unwrap_or(1.0),
        format,
        scaling_factor,
        null_value: params.get("null_value").cloned(),
        ignore_above: params.get("ignore_above").and_then(Value::as_u64).map(|n| n as usize),
        coerce: flag("coerce", context.limits.coerce),
        ignore_malformed: flag("ignore_malformed", context.limits.ignore_malformed),
        copy_to,
        similarity: text("similarity"),
        relations,
        index_options: text("index_options"),
        fielddata: match params.get("fielddata") {
            Some(Value::Object(how)) if string => how.get("format").is_none_or(|f| f != "disabled"),
            _ => flag("fielddata", string),
        },
        meta: params.get("meta").and_then(Value::as_object).cloned().unwrap_or_default(),
        term_vector: text("term_vector"),
        position_increment_gap: gap.map_err(|_| Error::illegal("[positions_increment_gap] must be a positive number"))?,
        eager_global_ordinals: flag("eager_global_ordinals", kind == Kind::Join),
        alias_path: if kind == Kind::Alias { text("path") } else { None },
        constant: if kind == Kind::ConstantKeyword { text("value") } else { None },
        split_queries_on_whitespace: flag("split_queries_on_whitespace", false),
        params,
        fields,
    };
    if let Some(null_value) = &field.null_value {
        // A null value must be readable as a value.
        types::read(&field, null_value).map_err(|e| {
            if context.typed {
                return malformed(e.reason());
            }
            malformed(format!(
                "Failed to parse mapping: null_value [{}] of field [{name}]: {}",
                java(null_value),
                e.reason()
            ))
            .caused_by(e)
        })?;
    }
    Ok(field)
}

fn format_refused(context: &Context<'_>, name: &str, e: Error) -> Error {
    if context.typed {
        return malformed(e.reason().replace("Unknown pattern letter", "Illegal pattern component"));
    }
    Error::illegal(format!("Error parsing [format] on field [{name}]: {}", e.reason())).caused_by(e)
}

/// A field of 2015 that is not indexed has no column either.
fn index_gives_columns(typed: bool, index: bool) -> bool {
    !typed || index
}

fn find_analyzer(context: &Context<'_>, field: &str, value: Option<&Value>) -> Result<Option<Analyzer>> {
    let Some(value) = value else { return Ok(None) };
    let name = text_of(value);
    match context.registry.analyzer(&name) {
        Some(analyzer) => Ok(Some(analyzer)),
        None if context.typed => Err(malformed(format!("analyzer [{name}] not found for field [{field}]"))),
        None => Err(malformed(format!("analyzer [{name}] has not been configured in mappings"))),
    }
}
