//! The mapping as who is granted only some fields sees it: others are as if they were not mapped.
//!
//! Not here: which fields are granted (`model::field_rights`), sources.

use crate::mapping::{Inner, Mapping};
use model::FieldRights;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::sync::Arc;

impl Mapping {
    /// The mapping for reading documents. It renders all fields; [`granted_body`] renders those that are granted.
    #[must_use]
    pub fn restrict_to(&self, rights: &FieldRights) -> Mapping {
        let inner = &*self.0;
        let mut out = Inner {
            root: inner.root.clone(),
            top: inner.top.clone(),
            registry: inner.registry.clone(),
            limits: inner.limits.clone(),
            typed: inner.typed,
            leaves: Vec::with_capacity(inner.leaves.len()),
            by_path: FxHashMap::default(),
            objects: inner.objects.clone(),
            nested: inner.nested.clone(),
            trees: Vec::new(),
            source: inner.source.clone(),
        };
        let mut places = vec![None; inner.leaves.len()];
        for (at, leaf) in inner.leaves.iter().enumerate().filter(|(_, leaf)| rights.grants(&leaf.path)) {
            // Another name of a field that is withheld.
            if leaf.field.alias_path.as_deref().is_some_and(|path| !rights.grants(path)) {
                continue;
            }
            places[at] = Some(out.add(&leaf.path, leaf.field.clone()));
        }
        for (at, leaf) in inner.leaves.iter().enumerate() {
            let Some(place) = places[at] else { continue };
            out.leaves[place].in_all = leaf.in_all;
            out.leaves[place].multi = leaf.multi.iter().filter_map(|multi| places[*multi]).collect();
        }
        out.trees = inner.trees.iter().filter_map(|at| places[*at]).collect();
        out.objects.retain(|path, _| rights.reaches_into(path));
        out.nested.retain(|path| rights.reaches_into(path));
        debug_assert!(
            out.leaves
                .iter()
                .all(|leaf| out.nested_around(&leaf.path) == inner.nested_around(&leaf.path)),
            "search.md S6: a field that is granted lies in the nested object in which it is written"
        );
        Mapping(Arc::new(out))
    }
}

/// The body of a mapping with the fields that are granted. Other members (dynamic templates, `_source`, `_meta`)
/// stay as they are.
pub fn granted_body(rights: &FieldRights, body: &Value) -> Value {
    match body {
        Value::Object(members) if !rights.is_all() => Value::Object(object(rights, members, "")),
        other => other.clone(),
    }
}

/// The mappings of an index: of one body, or of each type.
pub fn granted_mappings(rights: &FieldRights, mappings: &Value, typed: bool) -> Value {
    match mappings {
        Value::Object(types) if typed => {
            let shown = types.iter().map(|(name, body)| (name.clone(), granted_body(rights, body)));
            Value::Object(shown.collect())
        }
        body => granted_body(rights, body),
    }
}

/// An object of the mapping: its own members, and its granted fields. The depth of a mapping is limited when it is written.
fn object(rights: &FieldRights, members: &Map<String, Value>, path: &str) -> Map<String, Value> {
    let mut out = members.clone();
    if let Some(Value::Object(properties)) = out.get_mut("properties") {
        *properties = fields(rights, properties, path);
    }
    out
}

fn fields(rights: &FieldRights, properties: &Map<String, Value>, above: &str) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, body) in properties {
        let path = match above {
            "" => name.clone(),
            above => format!("{above}.{name}"),
        };
        if let Some(shown) = field(rights, body, &path) {
            out.insert(name.clone(), shown);
        }
    }
    out
}

/// One field or object; `None`: nothing of it is granted.
fn field(rights: &FieldRights, body: &Value, path: &str) -> Option<Value> {
    let members = body.as_object()?;
    let kind = members.get("type").and_then(Value::as_str);
    if members.contains_key("properties") || matches!(kind, Some("object" | "nested")) {
        let shown = object(rights, members, path);
        let is_empty = |shown: &Map<String, Value>| shown.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
        // An object of which no field is granted is not there; one that has none may be.
        let is_seen = rights.reaches_into(path) && (!is_empty(&shown) || is_empty(members) && rights.grants(path));
        return is_seen.then_some(Value::Object(shown));
    }
    let leads_to_withheld = kind == Some("alias")
        && members
            .get("path")
            .and_then(Value::as_str)
            .is_some_and(|path| !rights.grants(path));
    if !rights.grants(path) || leads_to_withheld {
        return None;
    }
    let mut out = members.clone();
    if let Some(Value::Object(multi)) = out.get_mut("fields") {
        multi.retain(|name, _| rights.grants(&format!("{path}.{name}")));
        if multi.is_empty() {
            out.remove("fields");
        }
    }
    let is_granted = |to: &Value| to.as_str().is_none_or(|to| rights.grants(to));
    let left = match out.get_mut("copy_to") {
        Some(Value::Array(list)) => {
            list.retain(is_granted);
            !list.is_empty()
        }
        Some(one) => is_granted(one),
        None => true,
    };
    if !left {
        out.remove("copy_to");
    }
    Some(Value::Object(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::field_rights::Patterns;
    use serde_json::json;

    #[test]
    fn bodies_show_what_is_granted() {
        let body = json!({ "dynamic": "false", "_meta": { "m": 1 }, "properties": {
            "a": { "type": "keyword", "copy_to": ["b", "c"] },
            "b": { "type": "text", "fields": { "raw": { "type": "keyword" }, "other": { "type": "keyword" } } },
            "c": { "type": "text" },
            "d": { "type": "alias", "path": "c" },
            "e": { "properties": { "f": { "type": "long" }, "g": { "type": "long" } } },
            "h": { "type": "nested", "properties": { "i": { "type": "long" } } },
            "j": { "type": "object" },
        }});
        let check = |grant: &[&str], except: &[&str], expected: Value| {
            let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
            let rights = FieldRights(vec![vec![Patterns {
                grant: owned(grant),
                except: owned(except),
            }]]);
            let shown = granted_body(&rights, &body);
            assert_eq!(shown["properties"], expected, "{grant:?} but {except:?}");
            assert_eq!(shown["_meta"], body["_meta"]);
        };
        let all = &body["properties"];
        check(&["a"], &[], json!({ "a": { "type": "keyword" } }));
        check(
            &["*"],
            &["c", "h"],
            json!({ "a": { "type": "keyword", "copy_to": ["b"] }, "b": all["b"], "e": all["e"], "j": all["j"] }),
        );
        check(
            &["b*", "e.f", "h.none"],
            &["b.other"],
            json!({ "b": { "type": "text", "fields": { "raw": { "type": "keyword" } } },
                    "e": { "properties": { "f": { "type": "long" } } } }),
        );
        check(&["h", "j"], &[], json!({ "h": all["h"], "j": all["j"] }));
        assert_eq!(granted_body(&FieldRights::default(), &body), body);
    }
}
