//! `join`: which relation a document is in, and its parent's id.

use crate::field::malformed;
use crate::parameters::{Param, Shape::*, text_of};
use crate::value::FieldValue;
use model::{Error, Result};
use serde_json::Value;

pub(crate) const PARAMS: &[Param] = &[
    Param("eager_global_ordinals", Bool, "true", true),
    Param("relations", Any, "", true),
];

/// Parents and their children, in order, from the `relations` parameter.
pub(crate) type Relations = Vec<(String, Vec<String>)>;

pub(crate) fn relations(field: &str, value: Option<&Value>) -> Result<Relations> {
    let object = match value {
        None => return Ok(Vec::new()),
        Some(Value::Object(object)) => object,
        Some(_) => {
            return Err(malformed(format!("[relations] of join field [{field}] must be an object")));
        }
    };
    let mut out = Relations::new();
    for (parent, children) in object {
        let children: Vec<String> = match children {
            Value::Array(names) => names.iter().map(text_of).collect(),
            name => vec![text_of(name)],
        };
        for child in &children {
            if out.iter().any(|(_, known)| known.contains(child)) {
                return Err(malformed(format!("[{child}] cannot have multiple parents")));
            }
        }
        out.push((parent.clone(), children));
    }
    Ok(out)
}

/// Relations may be added, not taken away, and no child may change its parent.
pub(crate) fn merge(field: &str, old: &Relations, new: &Relations) -> Result<Relations> {
    for (parent, children) in old {
        let Some((_, kept)) = new.iter().find(|(name, _)| name == parent) else {
            return Err(Error::illegal(format!(
                "cannot remove parent [{parent}] in join field [{field}]"
            )));
        };
        if let Some(child) = children.iter().find(|child| !kept.contains(child)) {
            return Err(Error::illegal(format!(
                "cannot remove child [{child}] in join field [{field}]"
            )));
        }
    }
    Ok(new.clone())
}

/// `"question"` or `{"name": "answer", "parent": "1"}`. Whether the names fit is the reader's to check.
pub(crate) fn read(value: &Value) -> Result<FieldValue> {
    match value {
        Value::String(name) => Ok(FieldValue::Join {
            name: name.clone(),
            parent: None,
        }),
        Value::Object(object) => {
            let part = |key: &str| object.get(key).filter(|v| v.is_string() || v.is_number()).map(text_of);
            if let Some(key) = object.keys().find(|key| !matches!(key.as_str(), "name" | "parent")) {
                return Err(Error::illegal(format!("unknown field name [{key}] in join field")));
            }
            match part("name") {
                Some(name) => Ok(FieldValue::Join {
                    name,
                    parent: part("parent"),
                }),
                None => Err(Error::illegal("null join name in field")),
            }
        }
        other => Err(Error::illegal(format!(
            "Expected START_OBJECT or VALUE_STRING, got [{}]",
            text_of(other)
        ))),
    }
}
