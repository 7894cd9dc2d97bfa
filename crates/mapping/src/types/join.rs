//! `join`: which relation a document is in, and its parent's id.

use crate::spec::{Param, Shape::*};
use crate::value::FieldValue;
use crate::wording::{java, java_class, text_of};
use model::text::java_hash;
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::collections::HashMap;

pub(crate) const PARAMS: &[Param] = &[
    Param("eager_global_ordinals", Bool, "true", true),
    Param("relations", Any, "", true),
];

/// Parents and their children, in order, from the `relations` parameter.
pub(crate) type Relations = Vec<(String, Vec<String>)>;

/// # Errors
/// No object; a child with several parents, or one that is above itself: the reference takes that, and no document could
/// be of it.
pub(crate) fn relations(field: &str, value: &Value) -> Result<Relations> {
    let Value::Object(object) = value else {
        let reason = format!("relations should be a hash but was of type: {}", java_class(value));
        return Err(Error::new(ErrorKind::Parse, reason));
    };
    let mut out = Relations::new();
    for (parent, children) in object {
        let children = match children {
            Value::Array(names) => set(names.iter().map(text_of)),
            Value::Null => {
                return Err(Error::illegal(format!(
                    "[relations] of join field [{field}]: the children of [{parent}] are null"
                )));
            }
            name => vec![java(name)],
        };
        out.push((parent.clone(), children));
    }
    let conflicts = impossible(&out);
    if !conflicts.is_empty() {
        return Err(Error::illegal(format!(
            "invalid definition for join field [{field}]:\n[{}]",
            conflicts.join(", ")
        )));
    }
    Ok(out)
}

/// The faults that no tree of relations has.
fn impossible(relations: &Relations) -> Vec<String> {
    let mut parent_of: HashMap<&str, &str> = HashMap::new();
    let mut conflicts = Vec::new();
    for (parent, children) in relations {
        for child in children {
            if parent_of.insert(child, parent).is_some() {
                conflicts.push(format!("[{child}] cannot have multiple parents"));
            }
        }
    }
    if conflicts.is_empty() {
        for (name, _) in relations {
            let mut above = name.as_str();
            // A relation above itself is met again within as many steps as there are children.
            for _ in 0..parent_of.len() {
                let Some(next) = parent_of.get(above) else { break };
                above = next;
                if above == name {
                    conflicts.push(format!("[{name}] cannot be its own parent"));
                    break;
                }
            }
        }
    }
    conflicts
}

/// The parameter as the reference shows it: one child as its name, several in the order of Java's set of strings.
pub(crate) fn render(relations: &Relations) -> Value {
    let children = |names: &Vec<String>| match names.as_slice() {
        [one] => Value::from(one.clone()),
        several => Value::from(several.to_vec()),
    };
    let entries = relations.iter().map(|(parent, names)| (parent.clone(), children(names)));
    Value::Object(entries.collect())
}

/// Names without repetitions, in the order in which a `java.util.HashSet` that was made of them gives them: by the low
/// bits of their hash, then as they came.
fn set(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut given = 0usize;
    for name in names {
        given += 1;
        if !out.contains(&name) {
            out.push(name);
        }
    }
    let buckets = (given * 4 / 3 + 1).max(16).next_power_of_two() as u32;
    out.sort_by_key(|name| {
        let hash = java_hash(name);
        (hash ^ (hash >> 16)) & (buckets - 1)
    });
    out
}

/// Relations may be added, not taken away, and what is there keeps its place among the others.
pub(crate) fn merge(field: &str, old: &Relations, new: &Relations) -> Result<Relations> {
    fn children<'a>(of: &'a Relations, parent: &str) -> Option<&'a Vec<String>> {
        of.iter().find(|(name, _)| name == parent).map(|(_, kept)| kept)
    }
    let mut conflicts = Vec::new();
    for (parent, _) in old.iter().filter(|(parent, _)| children(new, parent).is_none()) {
        conflicts.push(format!("cannot remove parent [{parent}] in join field [{field}]"));
    }
    for (parent, theirs) in new {
        match children(old, parent) {
            Some(ours) => {
                for child in ours.iter().filter(|child| !theirs.contains(child)) {
                    conflicts.push(format!("cannot remove child [{child}] in join field [{field}]"));
                }
            }
            None => {
                if old.iter().any(|(_, known)| known.contains(parent)) {
                    conflicts.push(format!("cannot create parent [{parent}] from an existing child"));
                }
                for child in theirs.iter().filter(|child| children(old, child).is_some()) {
                    conflicts.push(format!("cannot create child [{child}] from an existing parent"));
                }
            }
        }
    }
    if conflicts.is_empty() {
        return Ok(new.clone());
    }
    Err(Error::illegal(format!(
        "Mapper for [{field}] conflicts with existing mapping:\n[{}]",
        conflicts.join(", ")
    )))
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
