//! The parameters of fields: which there are, their defaults, and whether an update may change them.
//!
//! One table a family (`types`); parsing, rendering and merging all go by it.

use crate::field::{FieldType, Kind, malformed};
use crate::limits::MappingLimits;
use crate::types;
use analysis::{Analyzer, Registry};
use model::date::{DateFormat, PatternSyntax};
use model::{Error, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) type Params = Map<String, Value>;

/// How a parameter's value is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Bool,
    Int,
    Text,
    Any,
}

/// One parameter: name, shape, default as JSON text (empty: none), whether it may change.
pub(crate) struct Param(
    pub(crate) &'static str,
    pub(crate) Shape,
    pub(crate) &'static str,
    pub(crate) bool,
);

use Shape::{Any, Bool, Int, Text};

/// Parameters of every field that holds values.
const COMMON: &[Param] = &[
    Param("boost", Any, "1.0", true),
    Param("copy_to", Any, "[]", true),
    Param("meta", Any, "{}", true),
];

/// Further parameters of 2015, accepted and rendered; most have no effect here.
const TYPED: &[Param] = &[
    Param("include_in_all", Bool, "", true),
    Param("doc_values", Bool, "true", true),
    Param("omit_norms", Bool, "", true),
    Param("norms", Any, "", true),
    Param("precision_step", Int, "", true),
    Param("fielddata", Any, "", true),
    Param("ignore_above", Int, "", true),
    Param("null_value", Any, "", true),
    Param("numeric_resolution", Text, "", true),
    Param("lat_lon", Bool, "", true),
    Param("geohash", Bool, "", true),
    Param("geohash_prefix", Bool, "", true),
    Param("geohash_precision", Any, "", true),
    Param("validate", Bool, "", true),
    Param("normalize", Bool, "", true),
    Param("index_options", Text, "", true),
    Param("index_analyzer", Text, "", true),
    Param("ignore_malformed", Bool, "", true),
];

fn params_of(kind: Kind, typed: bool) -> impl Iterator<Item = &'static Param> {
    let own = types::params(kind);
    let common: &[Param] = if kind == Kind::Alias { &[] } else { COMMON };
    let more: &[Param] = if typed { TYPED } else { &[] };
    // Of 2015 some have another shape than today, or may change.
    let otherwise = move |param: &&Param| typed && OTHERWISE.contains(&param.0);
    let (first, rest) = (
        more.iter().filter(otherwise),
        own.iter().filter(move |param| !otherwise(param)),
    );
    first
        .chain(rest)
        .chain(common)
        .chain(more.iter().filter(move |param| !otherwise(param)))
}

/// Parameters that 2015 read in another way.
const OTHERWISE: &[&str] = &["norms", "fielddata", "null_value", "doc_values"];

/// Where a field is declared, for parsing and for messages.
pub(crate) struct Context<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) limits: &'a MappingLimits,
    pub(crate) typed: bool,
}

/// Reads the mapping of one field. `multi` is true below `fields`.
pub(crate) fn parse(context: &Context<'_>, name: &str, body: &Map<String, Value>, multi: bool) -> Result<FieldType> {
    let Some(type_value) = body.get("type") else {
        if context.typed && multi {
            return Err(malformed(format!("no type specified for property [{name}]")));
        }
        return Err(malformed(format!("No type specified for field [{name}]")));
    };
    let type_name = text_of(type_value);
    let (kind, string) = match (type_name.as_str(), context.typed) {
        ("string", true) => (string_kind(body), true),
        _ => match Kind::from_name(&type_name) {
            Some(Kind::Object | Kind::Nested) if multi => {
                return Err(malformed(format!("Type [{type_name}] cannot be used in multi field")));
            }
            Some(Kind::Alias | Kind::Join) if multi => {
                return Err(malformed(format!("Type [{type_name}] cannot be used in multi field")));
            }
            Some(kind) => (kind, false),
            None if UNSUPPORTED.contains(&type_name.as_str())
                && !(context.typed && NEVER_TYPED.contains(&type_name.as_str())) =>
            {
                return Err(malformed(format!(
                    "field type [{type_name}] of field [{name}] is not supported yet"
                )));
            }
            None => {
                let no = if context.typed && multi { "no" } else { "No" };
                return Err(malformed(format!(
                    "{no} handler for type [{type_name}] declared on field [{name}]"
                )));
            }
        },
    };
    let mut params = Params::new();
    let mut fields = Vec::new();
    for (key, value) in body {
        match key.as_str() {
            "type" => continue,
            "fields" => {
                fields = parse_fields(context, name, value, multi)?;
                continue;
            }
            _ => {}
        }
        let known = params_of(kind, context.typed).find(|param| param.0 == key);
        let only_of_2015 = !context.typed && types::keyword::OF_2015.contains(&key.as_str()) && kind.is_keyword();
        let Some(param) = known.filter(|_| !only_of_2015) else {
            return Err(malformed(if context.typed {
                format!(
                    "Mapping definition for [{name}] has unsupported parameters:  [{key} : {}]",
                    java(value)
                )
            } else {
                format!("unknown parameter [{key}] on mapper [{name}] of type [{type_name}]")
            }));
        };
        if value.is_null() && key == "null_value" && context.typed {
            return Err(malformed("Property [null_value] cannot be null."));
        }
        if value.is_null() && key != "null_value" {
            return Err(malformed(format!(
                "[{key}] on mapper [{name}] of type [{type_name}] must not have a [null] value"
            )));
        }
        if !context.typed {
            check(name, kind, key, value, multi)?;
            if key == "similarity" {
                check_similarity(context, name, value)?;
            }
        }
        let value = read_value(param, value, context.typed)?;
        if default_of(param) != Some(&value) && !value.is_null() {
            params.insert(key.clone(), value);
        }
    }
    if context.typed
        && let Some(Value::String(boost)) = body.get("boost")
        && boost.trim().parse::<f32>().is_err()
    {
        return Err(Error::no_number(boost));
    }
    if context.typed && string {
        crate::typed::check_string(name, &params, body)?;
    }
    if context.typed && kind == Kind::Boolean && params.get("index").is_some_and(|v| v == "analyzed") {
        return Err(malformed("bool field can't be tokenized"));
    }
    build(context, name, kind, string, params, fields)
}

/// Types that Elasticsearch has and we have not.
const UNSUPPORTED: &[&str] = &[
    "completion",
    "ip_range",
    "integer_range",
    "long_range",
    "float_range",
    "double_range",
    "date_range",
    "geo_shape",
    "shape",
    "point",
    "flattened",
    "flat_object",
    "percolator",
    "rank_feature",
    "rank_features",
    "dense_vector",
    "sparse_vector",
    "knn_vector",
    "search_as_you_type",
    "histogram",
    "aggregate_metric_double",
    "version",
    "murmur3",
    "semantic_text",
];

/// Of these, what 2015 had not.
const NEVER_TYPED: &[&str] = &[
    "murmur3",
    "percolator",
    "flattened",
    "dense_vector",
    "rank_feature",
    "histogram",
    "version",
];

fn string_kind(body: &Map<String, Value>) -> Kind {
    match body.get("index").map(text_of).as_deref() {
        Some("not_analyzed" | "no" | "false") => Kind::Keyword,
        _ => Kind::Text,
    }
}

fn parse_fields(context: &Context<'_>, of: &str, value: &Value, multi: bool) -> Result<Vec<(String, Arc<FieldType>)>> {
    let Value::Object(object) = value else {
        if value.as_array().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        return Err(malformed(format!(
            "expected map for property [fields] on field [{}] or [fields] but got a {}",
            java(value),
            java_class(value)
        )));
    };
    if multi {
        return Err(malformed("Multi-fields cannot have multi-fields of their own"));
    }
    let mut fields = Vec::with_capacity(object.len());
    for (name, body) in object {
        let Value::Object(body) = body else {
            return Err(malformed(format!(
                "illegal field [{name}], only fields can be specified inside fields"
            )));
        };
        if name.contains('.') && !context.typed {
            return Err(malformed(format!(
                "Field name [{name}] which is a multi field of [{of}] cannot contain '.'"
            )));
        }
        fields.push((name.clone(), Arc::new(parse(context, name, body, true)?)));
    }
    Ok(fields)
}

/// A similarity is built in, or defined by the settings.
fn check_similarity(context: &Context<'_>, field: &str, value: &Value) -> Result<()> {
    let given = text_of(value);
    match &context.limits.similarities {
        Some(names) if !matches!(given.as_str(), "BM25" | "boolean" | "default") && !names.contains(&given) => {
            let meant = model::nearest::question(&given, names.iter().map(String::as_str).chain(["BM25", "boolean"]));
            Err(malformed(format!(
                "Unknown Similarity type [{given}] for field [{field}]{meant}"
            )))
        }
        _ => Ok(()),
    }
}

/// What today's dialect refuses of a parameter's value, beside its shape.
fn check(name: &str, kind: Kind, key: &str, value: &Value, multi: bool) -> Result<()> {
    let one_of = |accepted: &[&str]| {
        let given = text_of(value);
        if accepted.contains(&given.as_str()) {
            return Ok(());
        }
        Err(malformed(format!(
            "Unknown value [{given}] for field [{key}] - accepted values are [{}]",
            accepted.join(", ")
        )))
    };
    match key {
        "meta" => check_meta(name, value),
        "copy_to" if multi => Err(malformed(format!(
            "copy_to in multi fields is not allowed. Found the copy_to in field [{name}] which is within a multi field."
        ))),
        "boost" if text_of(value).trim().parse::<f32>().is_err() => Err(Error::no_number(&text_of(value))),
        "index_options" if kind == Kind::Text => one_of(&["positions", "docs", "freqs", "offsets"]),
        "index_options" if kind == Kind::Keyword => one_of(&["docs", "freqs"]),
        "term_vector" => one_of(&[
            "no",
            "yes",
            "with_positions",
            "with_offsets",
            "with_positions_offsets",
            "with_positions_payloads",
            "with_positions_offsets_payloads",
        ]),
        "index_prefixes" | "index_phrases" if kind == Kind::MatchOnlyText && value != &Value::Bool(false) => {
            let what = if key == "index_prefixes" { "prefixes" } else { "phrases" };
            Err(Error::illegal(format!(
                "Index {what} cannot be enabled on for match_only_text field. Use text field instead"
            )))
        }
        "index_prefixes" => match value.as_object().and_then(|bounds| {
            let known = |key: &String| ["min_chars", "max_chars"].contains(&key.as_str());
            bounds.iter().find(|(key, _)| !known(key))
        }) {
            Some((unknown, given)) => Err(malformed(format!(
                "Mapping definition for [{name}] has unsupported parameters:  [{unknown} : {}]",
                java(given)
            ))),
            None => Ok(()),
        },
        "max_input_length" if value.as_i64().is_some_and(|length| length <= 0) => Err(Error::illegal(format!(
            "[max_input_length] must be > 0 but was [{}]",
            java(value)
        ))),
        "similarity" if value == "classic" => Err(Error::illegal(
            "The [classic] similarity may not be used anymore. Please use the [BM25] similarity or build a custom [scripted] similarity instead.",
        )),
        _ => Ok(()),
    }
}

/// `meta` is a few short texts by short names.
fn check_meta(name: &str, value: &Value) -> Result<()> {
    let got = |value: &Value| {
        let class = java_class(value);
        let class = class.trim_start_matches("class ").trim_start_matches("java.lang.");
        format!("{class}[{}]", java(value))
    };
    let Value::Object(meta) = value else {
        return Err(malformed(format!(
            "[meta] must be an object, got {} for field [{name}]",
            got(value)
        )));
    };
    if meta.len() > 5 {
        let found = meta.len();
        return Err(malformed(format!(
            "[meta] can't have more than 5 entries, but got {found} on field [{name}]"
        )));
    }
    for (key, value) in meta {
        let why = match value {
            _ if key.chars().count() > 20 => format!("[meta] keys can't be longer than 20 chars, but got [{key}]"),
            Value::String(text) if text.chars().count() > 50 => {
                format!("[meta] values can't be longer than 50 chars, but got [{text}]")
            }
            Value::String(_) => continue,
            Value::Null => format!("[meta] values can't be null (field [{name}])"),
            other => format!("[meta] values can only be strings, but got {}", got(other)),
        };
        return Err(malformed(format!("{why} for field [{name}]")));
    }
    Ok(())
}

fn read_value(param: &Param, value: &Value, typed: bool) -> Result<Value> {
    let shape = match param.0 {
        "index" if !typed => Bool,
        _ => param.1,
    };
    match (param.0, value) {
        ("copy_to", Value::Array(paths)) if !typed => {
            return Ok(paths.iter().map(|path| Value::String(text_of(path))).collect());
        }
        ("copy_to", path) if !typed => return Ok(Value::Array(vec![Value::String(text_of(path))])),
        _ => {}
    }
    match shape {
        Bool => match (value, value.as_str()) {
            (Value::Bool(b), _) => Ok(Value::Bool(*b)),
            (_, Some("true")) => Ok(Value::Bool(true)),
            (_, Some("false")) => Ok(Value::Bool(false)),
            _ if typed => Ok(Value::Bool(!matches!(text_of(value).as_str(), "0" | "off" | "no" | ""))),
            _ => Err(Error::illegal(format!(
                "Failed to parse value [{}] as only [true] or [false] are allowed.",
                text_of(value)
            ))),
        },
        Int => match text_of(value).parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) if typed => Err(malformed(format!("For input string: \"{}\"", text_of(value)))),
            Err(_) => Err(Error::illegal(format!(
                "Failed to parse value [{}] for [{}] as an integer",
                text_of(value),
                param.0
            ))),
        },
        Text => Ok(Value::String(text_of(value))),
        Any => Ok(value.clone()),
    }
}

fn default_of(param: &Param) -> Option<&'static Value> {
    use std::collections::HashMap;
    use std::sync::OnceLock;
    static DEFAULTS: OnceLock<HashMap<&'static str, Value>> = OnceLock::new();
    let texts = [
        "true",
        "false",
        "1.0",
        "[]",
        "{}",
        "\"positions\"",
        "\"docs\"",
        "\"no\"",
        "100",
    ];
    DEFAULTS
        .get_or_init(|| {
            texts
                .iter()
                .filter_map(|t| Some((*t, serde_json::from_str(t).ok()?)))
                .collect()
        })
        .get(param.2)
}

fn build(
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
    let analyzer = |key: &str| named(context, name, params.get(key));
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
        // What 2015 kept in no column it turned around when it was sorted or counted; here there is the column.
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

fn named(context: &Context<'_>, field: &str, value: Option<&Value>) -> Result<Option<Analyzer>> {
    let Some(value) = value else { return Ok(None) };
    let name = text_of(value);
    match context.registry.analyzer(&name) {
        Some(analyzer) => Ok(Some(analyzer)),
        None if context.typed => Err(malformed(format!("analyzer [{name}] not found for field [{field}]"))),
        None => Err(malformed(format!("analyzer [{name}] has not been configured in mappings"))),
    }
}

/// The mapping of one field, as `_mapping` has it.
pub(crate) fn render(field: &FieldType) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), field.wire().into());
    for (key, value) in &field.params {
        match key.as_str() {
            "copy_to" if value.is_string() => out.insert(key.clone(), Value::Array(vec![value.clone()])),
            "omit_norms" => out.insert("norms".into(), serde_json::json!({ "enabled": value != &Value::Bool(true) })),
            "search_analyzer" if field.string && Some(value) == field.params.get("analyzer") => None,
            _ => out.insert(key.clone(), value.clone()),
        };
    }
    if field.kind == Kind::Completion {
        for (key, value) in [
            ("analyzer", Value::from("simple")),
            ("preserve_separators", true.into()),
            ("preserve_position_increments", true.into()),
            ("max_input_length", 50.into()),
        ] {
            out.entry(key).or_insert(value);
        }
    }
    if field.kind.is_text() && !field.string && out.contains_key("search_analyzer") {
        out.entry("analyzer").or_insert("default".into());
    }
    if field.kind == Kind::Join {
        out.insert("eager_global_ordinals".into(), field.eager_global_ordinals.into());
    }
    if !field.fields.is_empty() {
        let mut names: Vec<_> = field.fields.iter().collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        let fields = names.into_iter().map(|(name, field)| (name.clone(), render(field))).collect();
        out.insert("fields".into(), Value::Object(fields));
    }
    Value::Object(out)
}

/// An update of a field: the new parameters, with the multi-fields of both.
pub(crate) fn merge(path: &str, old: &FieldType, new: &FieldType, typed: bool) -> Result<FieldType> {
    if typed {
        crate::typed::check_change(path, old, new)?;
    }
    if old.wire() != new.wire() {
        return Err(Error::illegal(format!(
            "mapper [{path}] cannot be changed from type [{}] to [{}]",
            old.wire(),
            new.wire()
        )));
    }
    let mut conflicts = Vec::new();
    for param in params_of(old.kind, typed).filter(|param| !param.3 && !typed) {
        let (before, after) = (old.params.get(param.0), new.params.get(param.0));
        if before != after {
            let shown = |value: Option<&Value>| match (value, default_of(param)) {
                (Some(value), _) | (None, Some(value)) => text_of(value),
                (None, None) if param.0 == "analyzer" => "default".to_owned(),
                (None, None) => "null".to_owned(),
            };
            conflicts.push(format!(
                "Cannot update parameter [{}] from [{}] to [{}]",
                param.0,
                shown(before),
                shown(after)
            ));
        }
    }
    if !conflicts.is_empty() {
        return Err(Error::illegal(format!(
            "Mapper for [{path}] conflicts with existing mapper:\n\t{}",
            conflicts.join("\n\t")
        )));
    }
    if !typed && !old.norms && new.norms {
        return Err(Error::illegal(format!(
            "Mapper for [{path}] conflicts with existing mapper:\n\tCannot update parameter [norms] from [false] to [true]"
        )));
    }
    let mut merged = new.clone();
    if typed {
        // What an update does not say of these stays.
        for key in ["ignore_malformed", "coerce", "include_in_all"] {
            if let (Some(said), None) = (old.params.get(key), new.params.get(key)) {
                merged.params.insert(key.to_owned(), said.clone());
            }
        }
        merged.ignore_malformed = merged
            .params
            .get("ignore_malformed")
            .and_then(Value::as_bool)
            .unwrap_or(new.ignore_malformed);
        merged.coerce = merged.params.get("coerce").and_then(Value::as_bool).unwrap_or(new.coerce);
    }
    if old.kind == Kind::Join {
        merged.relations = types::join::merge(path, &old.relations, &new.relations)?;
    }
    merged.fields = old.fields.clone();
    for (name, field) in &new.fields {
        match merged.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = Arc::new(merge(&format!("{path}.{name}"), known, field, typed)?),
            None => merged.fields.push((name.clone(), field.clone())),
        }
    }
    Ok(merged)
}

/// A scalar as text: strings without quotes.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value as Java's `Map.toString` and `List.toString` write it, cut to a length.
pub(crate) fn java(value: &Value) -> String {
    fn write(value: &Value, out: &mut String) {
        if out.len() > 400 {
            return;
        }
        match value {
            Value::Object(object) => {
                out.push('{');
                for (i, (key, value)) in object.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    out.push_str(key);
                    out.push('=');
                    write(value, out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (i, value) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    write(value, out);
                }
                out.push(']');
            }
            other => out.push_str(&text_of(other)),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

pub(crate) fn java_class(value: &Value) -> &'static str {
    match value {
        Value::Null => "class null",
        Value::Number(number) if number.is_f64() => "class java.lang.Double",
        Value::Number(_) => "class java.lang.Integer",
        Value::Bool(_) => "class java.lang.Boolean",
        Value::Array(_) => "class java.util.ArrayList",
        _ => "class java.lang.String",
    }
}
