//! The keys at the root of a mapping beside its fields, of today and of 2015.

use crate::mapping::Root;
use crate::times;
use crate::wording::{java, mapper_parsing, text_of};
use model::{Error, Result};
use serde_json::Value;

const ROOT_KEYS: &[&str] = &[
    "_source",
    "_routing",
    "_meta",
    "_field_names",
    "_data_stream_timestamp",
    "date_detection",
    "numeric_detection",
    "dynamic_date_formats",
    "dynamic_templates",
];
const ROOT_KEYS_TYPED: &[&str] = &[
    "_all",
    "_parent",
    "_ttl",
    "_timestamp",
    "_index",
    "_type",
    "_id",
    "_version",
    "transform",
    "include_in_all",
    "numeric_detection",
    "date_formats",
];
/// The keys of the first list that 2015 had not.
const NEVER_TYPED: &[&str] = &["_data_stream_timestamp"];

/// Is it a key of the root?
pub(crate) fn is_key(key: &str, former: bool) -> bool {
    ROOT_KEYS.contains(&key) && !(former && NEVER_TYPED.contains(&key)) || former && ROOT_KEYS_TYPED.contains(&key)
}

/// Checks the root of a mapping of today, and brings it into the form that is rendered.
pub(crate) fn check(top: &mut Root) -> Result<()> {
    for (section, keys) in [
        ("_source", &["enabled", "includes", "excludes"][..]),
        ("_routing", &["required"]),
    ] {
        let Some(given) = top.get(section) else { continue };
        let Value::Object(given) = given else {
            return Err(Error::illegal(format!("[{section}] must be an object")));
        };
        for (key, value) in given {
            if !keys.contains(&key.as_str()) {
                return Err(mapper_parsing(format!(
                    "unknown parameter [{key}] on mapper [{section}] of type [null]"
                )));
            }
            let right = match key.as_str() {
                "includes" | "excludes" => value.is_array(),
                _ => ["true", "false"].contains(&text_of(value).as_str()),
            };
            if !right {
                return Err(match value.is_array() || key.ends_with("cludes") {
                    true => Error::illegal(format!("[{key}] of [{section}] must be a list, but was [{}]", java(value))),
                    false => Error::no_boolean(&java(value)),
                });
            }
        }
    }
    if let Some(meta) = top.get("_meta").filter(|meta| !meta.is_object()) {
        return Err(Error::illegal(format!("[_meta] must be an object, but was [{}]", java(meta))));
    }
    for key in ["date_detection", "numeric_detection"] {
        if let Some(given) = top.get(key).map(text_of)
            && given != "true"
            && given != "false"
        {
            return Err(Error::illegal(format!("Could not convert [{key}] to boolean: [{given}]")));
        }
    }
    if let Some(formats) = top.get_mut("dynamic_date_formats") {
        if formats.is_string() {
            *formats = Value::Array(vec![formats.take()]);
        }
        let items = formats.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(wrong) = items.iter().find(|item| !item.is_string()) {
            return Err(Error::illegal(format!(
                "Invalid format: [{}]: expected string value",
                java(wrong)
            )));
        }
        if !formats.is_array() {
            return Err(Error::illegal(format!(
                "Invalid format: [{}]: expected string value",
                java(formats)
            )));
        }
    }
    Ok(())
}

/// Checks the root of a type of 2015, and brings it into the form that is rendered.
pub(crate) fn check_typed(top: &mut Root) -> Result<()> {
    for name in ["_id", "_type"] {
        if top.get(name).and_then(Value::as_object).is_some_and(|o| !o.is_empty()) {
            return Err(mapper_parsing(format!("{name} is not configurable")));
        }
        top.remove(name);
    }
    top.remove("_version");
    if let Some(Value::Object(options)) = top.get("_index")
        && let Some((key, value)) = options.iter().next()
    {
        return Err(mapper_parsing(format!(
            "Mapping definition for [_index] has unsupported parameters:  [{key} : {}]",
            java(value)
        )));
    }
    for (section, known) in [
        ("_parent", &["type", "fielddata"][..]),
        ("_routing", &["required", "store", "index"]),
    ] {
        let options = top.get(section).and_then(Value::as_object);
        if let Some((key, value)) = options.and_then(|all| all.iter().find(|(key, _)| !known.contains(&key.as_str()))) {
            return Err(mapper_parsing(format!(
                "Mapping definition for [{section}] has unsupported parameters:  [{key} : {}]",
                java(value)
            )));
        }
    }
    if let Some(parent) = top.get("_parent") {
        if parent.get("type").is_none_or(Value::is_null) {
            return Err(mapper_parsing("[_parent] field mapping must contain the [type] option"));
        }
        top.insert("_routing".into(), serde_json::json!({"required": true}));
    }
    for section in ["_all", "_source", "_routing", "_ttl", "_timestamp", "_parent"] {
        if let Some(value) = top.get(section).filter(|v| !v.is_object()) {
            return Err(mapper_parsing(format!(
                "[{section}] must be an object but is [{}]",
                java(value)
            )));
        }
    }
    times::check(top)?;
    if let Some(format @ Value::String(_)) = top.get_mut("dynamic_date_formats") {
        *format = Value::Array(vec![format.clone()]);
    }
    for template in top.get("dynamic_templates").and_then(Value::as_array).into_iter().flatten() {
        let body = template.as_object().and_then(|t| t.values().next());
        let said = |key: &str| body.is_some_and(|b| b.get(key).is_some());
        if !["match", "path_match", "match_mapping_type"].into_iter().any(said) {
            return Err(mapper_parsing(
                "template must have match, path_match or match_mapping_type set",
            ));
        }
    }
    Ok(())
}
