//! The parameters of fields: which there are, their defaults, and whether an update may change them.
//!
//! There is one table for each family (`types`); parsing, rendering and merging go by it.

mod build;
mod check;
mod merge;
mod render;
mod strings;

pub(crate) use merge::merge;
pub(crate) use strings::without_multi_field;

use crate::field::{FieldType, Kind, Params};
use crate::limits::MappingLimits;
use crate::spec::{Param, Shape};
use crate::types;
use crate::wording::{java, java_class, mapper_parsing, text_of};
use analysis::Registry;
use build::build;
use check::{check, check_similarity};
use model::compat::IndexRules;
use model::{Error, Result, Topic};
use serde_json::{Map, Value};
use std::sync::Arc;
use strings::{check_string, string_kind};

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

fn params_of(kind: Kind, former: bool) -> impl Iterator<Item = &'static Param> {
    let own = types::params(kind);
    let common: &[Param] = if kind == Kind::Alias { &[] } else { COMMON };
    let more: &[Param] = if former { TYPED } else { &[] };
    // Some had another shape in 2015, or could change.
    let otherwise = move |param: &&Param| former && OTHERWISE.contains(&param.0);
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
    pub(crate) rules: &'static IndexRules,
}

/// Reads the mapping of one field. `multi` is true below `fields`.
pub(crate) fn parse(context: &Context<'_>, name: &str, body: &Map<String, Value>, multi: bool) -> Result<FieldType> {
    let Some(type_value) = body.get("type") else {
        if context.rules.mapping_refusal_words && multi {
            return Err(mapper_parsing(format!("no type specified for property [{name}]")));
        }
        return Err(mapper_parsing(format!("No type specified for field [{name}]")));
    };
    let type_name = text_of(type_value);
    let (kind, string) = match (type_name.as_str(), context.rules.has_string_fields) {
        ("string", true) => (string_kind(body), true),
        _ => (read_kind(context, name, &type_name, multi)?, false),
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
        let known = params_of(kind, context.rules.takes_former_parameters).find(|param| param.0 == key);
        let only_of_2015 =
            !context.rules.takes_former_parameters && types::keyword::OF_2015.contains(&key.as_str()) && kind.is_keyword();
        let Some(param) = known.filter(|_| !only_of_2015) else {
            return Err(mapper_parsing(if context.rules.mapping_refusal_words {
                format!(
                    "Mapping definition for [{name}] has unsupported parameters:  [{key} : {}]",
                    java(value)
                )
            } else {
                format!("unknown parameter [{key}] on mapper [{name}] of type [{type_name}]")
            }));
        };
        if value.is_null() && key == "null_value" && context.rules.mapping_refusal_words {
            return Err(mapper_parsing("Property [null_value] cannot be null."));
        }
        if value.is_null() && key != "null_value" {
            return Err(mapper_parsing(format!(
                "[{key}] on mapper [{name}] of type [{type_name}] must not have a [null] value"
            )));
        }
        if !context.rules.tolerates_mapping_mistakes {
            check(name, kind, key, value, multi)?;
            if key == "similarity" {
                check_similarity(context, name, value)?;
            }
        }
        let value = read_value(param, value, context.rules)?;
        if param.default() != Some(&value) && !value.is_null() {
            params.insert(key.clone(), value);
        }
    }
    if context.rules.mapping_refusal_words
        && let Some(Value::String(boost)) = body.get("boost")
        && boost.trim().parse::<f32>().is_err()
    {
        return Err(Error::no_number(boost));
    }
    if context.rules.has_string_fields && string {
        check_string(name, &params, body)?;
    }
    if context.rules.mapping_refusal_words && kind == Kind::Boolean && params.get("index").is_some_and(|v| v == "analyzed") {
        return Err(mapper_parsing("bool field can't be tokenized"));
    }
    build(context, name, kind, string, params, fields)
}

/// The kind of a type by its name.
fn read_kind(context: &Context<'_>, name: &str, type_name: &str, multi: bool) -> Result<Kind> {
    let is_2015 = context.rules.mapping_refusal_words;
    match Kind::from_name(type_name) {
        Some(Kind::Object | Kind::Nested | Kind::Alias | Kind::Join) if multi => {
            Err(mapper_parsing(format!("Type [{type_name}] cannot be used in multi field")))
        }
        Some(kind) => Ok(kind),
        None if UNSUPPORTED.contains(&type_name) && !(is_2015 && NEVER_TYPED.contains(&type_name)) => Err(mapper_parsing(
            format!("field type [{type_name}] of field [{name}] is not supported yet"),
        )),
        None if is_2015 && multi => Err(mapper_parsing(format!(
            "no handler for type [{type_name}] declared on field [{name}]"
        ))),
        None => {
            let reason = format!("No handler for type [{type_name}] declared on field [{name}]");
            Err(mapper_parsing(reason).about(Topic::FieldType {
                name: type_name.to_owned(),
                field: name.to_owned(),
            }))
        }
    }
}

/// Types that Elasticsearch has and we have not.
const UNSUPPORTED: &[&str] = &[
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

/// The types of them that 2015 had not.
const NEVER_TYPED: &[&str] = &[
    "murmur3",
    "percolator",
    "flattened",
    "dense_vector",
    "rank_feature",
    "histogram",
    "version",
];

fn parse_fields(context: &Context<'_>, of: &str, value: &Value, multi: bool) -> Result<Vec<(String, Arc<FieldType>)>> {
    let Value::Object(object) = value else {
        if value.as_array().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        return Err(mapper_parsing(format!(
            "expected map for property [fields] on field [{}] or [fields] but got a {}",
            java(value),
            java_class(value)
        )));
    };
    if multi {
        return Err(mapper_parsing("Multi-fields cannot have multi-fields of their own"));
    }
    let mut fields = Vec::with_capacity(object.len());
    for (name, body) in object {
        let Value::Object(body) = body else {
            return Err(mapper_parsing(format!(
                "illegal field [{name}], only fields can be specified inside fields"
            )));
        };
        if name.contains('.') && !context.rules.tolerates_mapping_mistakes {
            return Err(mapper_parsing(format!(
                "Field name [{name}] which is a multi field of [{of}] cannot contain '.'"
            )));
        }
        fields.push((name.clone(), Arc::new(parse(context, name, body, true)?)));
    }
    Ok(fields)
}

fn read_value(param: &Param, value: &Value, rules: &IndexRules) -> Result<Value> {
    let shape = match param.0 {
        "index" if !rules.takes_former_parameters => Bool,
        _ => param.1,
    };
    match (param.0, value) {
        ("copy_to", Value::Array(paths)) if !rules.takes_former_parameters => {
            return Ok(paths.iter().map(|path| Value::String(text_of(path))).collect());
        }
        ("copy_to", path) if !rules.takes_former_parameters => return Ok(Value::Array(vec![Value::String(text_of(path))])),
        _ => {}
    }
    match shape {
        Bool => match (value, value.as_str()) {
            (Value::Bool(b), _) => Ok(Value::Bool(*b)),
            (_, Some("true")) => Ok(Value::Bool(true)),
            (_, Some("false")) => Ok(Value::Bool(false)),
            _ if rules.tolerates_mapping_mistakes => Ok(Value::Bool(!matches!(text_of(value).as_str(), "0" | "off" | "no" | ""))),
            _ => Err(Error::no_boolean(&text_of(value))),
        },
        Int => match text_of(value).parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) if rules.mapping_refusal_words => Err(mapper_parsing(format!("For input string: \"{}\"", text_of(value)))),
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
