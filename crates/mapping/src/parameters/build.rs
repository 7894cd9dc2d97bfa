//! A field type from its checked parameters.

use super::Context;
use crate::field::{FieldType, Kind, Params, TreeField};
use crate::tree::TreePart;
use crate::types;
use crate::wording::{java, mapper_parsing, text_of};
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
    let relations = normalize(name, kind, &mut params)?;
    let flag = |key: &str, default: bool| flag_of(&params, key, default);
    let text = |key: &str| params.get(key).map(text_of);
    let analyzers = read_analyzers(context, name, kind, &params)?;
    let normalizer = text("normalizer")
        .map(|wanted| read_normalizer(context, name, &wanted))
        .transpose()?;
    let format = read_format(context, name, kind, text("format"))?;
    let scaling_factor = read_scaling_factor(name, kind, params.get("scaling_factor"))?;
    let index = is_indexed(&params);
    let tree = read_tree(name, kind, &params, fields.is_empty())?;
    let alias_path = read_alias_path(name, kind, &params)?;
    let copy_to = read_copy_to(name, params.get("copy_to"))?;
    let gap = params.get("position_increment_gap").and_then(Value::as_i64);
    let gap = gap.map_or(Ok(100), u32::try_from);
    let field = FieldType {
        kind,
        string,
        // Postings hold numbers of directories, which no query asks for by itself.
        index: index && tree.is_none(),
        doc_values: has_column(context, kind, string, index, &params),
        store: flag("store", false),
        norms: has_norms(kind, string, &params),
        analyzer: analyzers.index,
        search_analyzer: analyzers.search,
        search_quote_analyzer: analyzers.quote,
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
        alias_path,
        constant: if kind == Kind::ConstantKeyword { text("value") } else { None },
        split_queries_on_whitespace: flag("split_queries_on_whitespace", false),
        tree,
        params,
        fields,
    };
    check_null_value(context, name, &field)?;
    Ok(field)
}

/// Puts relations and contexts into their usual form. Gives the relations of a join; other fields have none.
fn normalize(name: &str, kind: Kind, params: &mut Params) -> Result<Vec<(String, Vec<String>)>> {
    if let Some(given) = params.get("contexts").filter(|_| kind == Kind::Completion) {
        let read = types::contexts::parse(given)?;
        params.insert("contexts".into(), types::contexts::render(&read));
    }
    let Some(given) = params.get("relations").filter(|_| kind == Kind::Join) else {
        return Ok(Vec::new());
    };
    let relations = types::join::relations(name, given)?;
    params.insert("relations".into(), types::join::render(&relations));
    Ok(relations)
}

fn flag_of(params: &Params, key: &str, default: bool) -> bool {
    params.get(key).and_then(Value::as_bool).unwrap_or(default)
}

fn is_indexed(params: &Params) -> bool {
    match params.get("index") {
        Some(Value::Bool(index)) => *index,
        Some(other) => text_of(other) != "no" && text_of(other) != "false",
        None => true,
    }
}

fn has_column(context: &Context<'_>, kind: Kind, string: bool, index: bool, params: &Params) -> bool {
    let may_have = !kind.is_text() && kind != Kind::Binary;
    // Fields without a column were inverted in memory in 2015, when sorted or counted; here they have a column.
    if context.rules.columns_for_indexed_fields && index && may_have {
        return true;
    }
    // A field of 2015 that is not indexed has no column either.
    let for_indexed = string || context.rules.columns_for_indexed_fields;
    flag_of(params, "doc_values", may_have && (!for_indexed || index))
}

fn has_norms(kind: Kind, string: bool, params: &Params) -> bool {
    match (string, params.get("norms")) {
        (true, Some(Value::Object(norms))) => norms.get("enabled").map(text_of).as_deref() != Some("false"),
        (true, None) => !flag_of(params, "omit_norms", kind == Kind::Keyword),
        _ => flag_of(params, "norms", kind == Kind::Text),
    }
}

/// The field that an alias stands for, which it must name; other fields have none.
fn read_alias_path(name: &str, kind: Kind, params: &Params) -> Result<Option<String>> {
    if kind != Kind::Alias {
        return Ok(None);
    }
    let path = params.get("path").map(text_of);
    let missing = || mapper_parsing(format!("The [path] property must be specified for field [{name}]."));
    path.ok_or_else(missing).map(Some)
}

/// The directories of a `tree_path`; other fields have none.
fn read_tree(name: &str, kind: Kind, params: &Params, without_fields: bool) -> Result<Option<TreeField>> {
    if kind != Kind::TreePath {
        return Ok(None);
    }
    if !(without_fields && copy_to_is_empty(params.get("copy_to"))) {
        return Err(mapper_parsing(format!(
            "field [{name}] of type [tree_path] cannot have [fields] or [copy_to]: a move of its directory would not reach them"
        )));
    }
    let text = |key: &str| params.get(key).map(text_of);
    Ok(Some(TreeField {
        part: TreePart::Path,
        syntax: types::tree_path::syntax(name, text("delimiter").as_deref(), text("case").as_deref())?,
    }))
}

/// The analyzers of texts, token counts and completions; other fields have none.
#[derive(Default)]
struct Analyzers {
    index: Option<Analyzer>,
    search: Option<Analyzer>,
    quote: Option<Analyzer>,
}

fn read_analyzers(context: &Context<'_>, name: &str, kind: Kind, params: &Params) -> Result<Analyzers> {
    if !kind.is_text() && !matches!(kind, Kind::TokenCount | Kind::Completion) {
        return Ok(Analyzers::default());
    }
    let analyzer = |key: &str| find_analyzer(context, name, params.get(key));
    let registry = context.registry;
    let default_analyzer = || match kind {
        Kind::Completion => registry.analyzer("simple"),
        _ => registry.analyzer("default").or_else(|| registry.analyzer("standard")),
    };
    let given = match analyzer("analyzer")? {
        None => analyzer("index_analyzer")?,
        given => given,
    };
    let search = match (analyzer("search_analyzer")?, &given) {
        (Some(search), _) => Some(search),
        (None, Some(given)) => Some(given.clone()),
        (None, None) if kind == Kind::Completion => default_analyzer(),
        (None, None) => registry.analyzer("default_search").or_else(default_analyzer),
    };
    Ok(Analyzers {
        index: given.or_else(default_analyzer),
        quote: analyzer("search_quote_analyzer")?.or_else(|| search.clone()),
        search,
    })
}

fn read_normalizer(context: &Context<'_>, name: &str, wanted: &str) -> Result<Analyzer> {
    let found = context.registry.normalizer(wanted);
    found.ok_or_else(|| mapper_parsing(format!("normalizer [{wanted}] not found for field [{name}]")))
}

/// The format of dates; other fields have none.
fn read_format(context: &Context<'_>, name: &str, kind: Kind, pattern: Option<String>) -> Result<Option<DateFormat>> {
    if !kind.is_date() && kind != Kind::DateRange {
        return Ok(None);
    }
    let syntax = PatternSyntax::of(context.rules.joda_patterns);
    match pattern {
        None => Ok(Some(DateFormat::usual(syntax))),
        Some(pattern) => DateFormat::parse_pattern_of(&pattern, syntax)
            .map(Some)
            .map_err(|e| format_refused(context, name, e)),
    }
}

/// The factor of `scaled_float`, which needs one; 1 for others.
fn read_scaling_factor(name: &str, kind: Kind, given: Option<&Value>) -> Result<f64> {
    match (kind, given) {
        (Kind::ScaledFloat, None) => Err(mapper_parsing(format!(
            "Field [{name}] misses required parameter [scaling_factor]"
        ))),
        (Kind::ScaledFloat, Some(value)) => text_of(value)
            .parse()
            .ok()
            .filter(|factor: &f64| *factor > 0.0 && factor.is_finite())
            .ok_or_else(|| Error::illegal("[scaling_factor] must be a positive number")),
        _ => Ok(1.0),
    }
}

fn copy_to_is_empty(given: Option<&Value>) -> bool {
    given.is_none_or(|given| given.as_array().is_some_and(Vec::is_empty))
}

fn read_copy_to(name: &str, given: Option<&Value>) -> Result<Vec<String>> {
    let copy_to = match given {
        None => Vec::new(),
        Some(Value::Array(paths)) => paths.iter().map(text_of).collect(),
        Some(path) => vec![text_of(path)],
    };
    match copy_to.iter().find(|path| path.is_empty()) {
        Some(target) => Err(mapper_parsing(format!(
            "[copy_to] of field [{name}] names no field: [{target}]"
        ))),
        None => Ok(copy_to),
    }
}

/// A null value must be readable as a value.
fn check_null_value(context: &Context<'_>, name: &str, field: &FieldType) -> Result<()> {
    let Some(null_value) = &field.null_value else {
        return Ok(());
    };
    types::read(field, null_value).map(drop).map_err(|e| {
        if context.rules.mapping_refusal_words {
            return mapper_parsing(e.reason());
        }
        mapper_parsing(format!(
            "Failed to parse mapping: null_value [{}] of field [{name}]: {}",
            java(null_value),
            e.reason()
        ))
        .with_cause(e)
    })
}

fn format_refused(context: &Context<'_>, name: &str, e: Error) -> Error {
    if context.rules.mapping_refusal_words {
        return mapper_parsing(e.reason());
    }
    Error::illegal(format!("Error parsing [format] on field [{name}]: {}", e.reason())).with_cause(e)
}

fn find_analyzer(context: &Context<'_>, field: &str, value: Option<&Value>) -> Result<Option<Analyzer>> {
    let Some(value) = value else { return Ok(None) };
    let name = text_of(value);
    match context.registry.analyzer(&name) {
        Some(analyzer) => Ok(Some(analyzer)),
        None if context.rules.mapping_refusal_words => {
            Err(mapper_parsing(format!("analyzer [{name}] not found for field [{field}]")))
        }
        None => Err(mapper_parsing(format!(
            "analyzer [{name}] has not been configured in mappings"
        ))),
    }
}
