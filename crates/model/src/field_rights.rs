//! Which fields of documents may be seen: patterns that grant, and patterns that except.
//!
//! A pattern that matches an object holds for everything in it. Fields of the server itself (`_id`, `_index`, …) are always
//! granted. Not here: which documents (`visibility`).

use crate::path::matches;
use serde_json::{Map, Value};

/// Patterns of one role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Patterns {
    /// Fields that are granted.
    pub grant: Vec<String>,
    /// Fields among them that are withheld.
    pub except: Vec<String>,
}

impl Patterns {
    /// Is a field granted, by its dotted path?
    fn grants(&self, path: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| covers(pattern, path));
        any(&self.grant) && !any(&self.except)
    }
    /// May something in this object be granted?
    fn reaches_into(&self, path: &str) -> bool {
        let below = |pattern: &String| covers(pattern, path) || could_match_below(pattern, path);
        self.grant.iter().any(below) && !self.except.iter().any(|pattern| covers(pattern, path))
    }
}

/// Does a pattern match the path, or an object that it lies in?
fn covers(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    ends.into_iter().any(|end| matches(pattern, &path[..end]))
}

/// Could a pattern match a path that begins with this one and a dot? In doubt yes: each field is asked about itself.
fn could_match_below(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        Some((head, _)) => path.starts_with(head) || head.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')),
        None => pattern.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')),
    }
}

/// The fields that somebody sees: of each list one of the patterns must grant a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldRights(pub Vec<Vec<Patterns>>);

impl FieldRights {
    /// Nothing is withheld.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
    /// Is a field granted, by its dotted path?
    pub fn grants(&self, path: &str) -> bool {
        path.starts_with('_') && !path.contains('.') || self.0.iter().all(|any_of| any_of.iter().any(|one| one.grants(path)))
    }
    /// May something in this object be granted?
    pub fn reaches_into(&self, path: &str) -> bool {
        self.0.iter().all(|any_of| any_of.iter().any(|one| one.reaches_into(path)))
    }
    /// The granted part of a source. Objects of which nothing is granted are left out.
    pub fn filter_source(&self, source: &Value) -> Value {
        match source {
            Value::Object(fields) if !self.is_all() => {
                let shown = self.object(fields, "");
                debug_assert!(
                    self.object(&shown, "") == shown,
                    "security.md S6: everything that is shown of a source is granted: {shown:?}"
                );
                Value::Object(shown)
            }
            other => other.clone(),
        }
    }

    /// The granted part of a source or of stored fields as they are kept; `None`: all of it. Bytes that are no JSON
    /// become `{}`.
    pub fn filter_source_bytes(&self, source: &[u8]) -> Option<Vec<u8>> {
        if self.is_all() || source.is_empty() {
            return None;
        }
        let shown = serde_json::from_slice(source).map(|source: Value| self.filter_source(&source));
        Some(shown.map_or_else(|_| b"{}".to_vec(), |shown| shown.to_string().into_bytes()))
    }

    // The depth of a document is bounded when it is written (`json.max_depth`).
    fn object(&self, fields: &Map<String, Value>, above: &str) -> Map<String, Value> {
        let mut out = Map::new();
        for (name, value) in fields {
            let path = if above.is_empty() {
                name.clone()
            } else {
                format!("{above}.{name}")
            };
            if let Some(value) = self.value(value, &path) {
                out.insert(name.clone(), value);
            }
        }
        out
    }

    fn value(&self, value: &Value, path: &str) -> Option<Value> {
        match value {
            Value::Object(inner) => {
                if !self.reaches_into(path) {
                    return None;
                }
                let kept = self.object(inner, path);
                (!kept.is_empty() || inner.is_empty() && self.grants(path)).then_some(Value::Object(kept))
            }
            Value::Array(items) => {
                let kept: Vec<Value> = items.iter().filter_map(|item| self.value(item, path)).collect();
                (!kept.is_empty() || items.is_empty() && self.grants(path)).then_some(Value::Array(kept))
            }
            leaf => self.grants(path).then(|| leaf.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patterns(grant: &[&str], except: &[&str]) -> Patterns {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        Patterns {
            grant: owned(grant),
            except: owned(except),
        }
    }

    #[test]
    fn sources_show_what_is_granted() {
        let source = json!({ "a": 1, "b": { "c": 2, "d": [ { "e": 3, "f": 4 }, 5 ] }, "g": [], "h": {} });
        let check = |lists: Vec<Vec<Patterns>>, expected: Value| {
            assert_eq!(FieldRights(lists.clone()).filter_source(&source), expected, "{lists:?}");
        };
        check(vec![], source.clone());
        check(
            vec![vec![patterns(&["*"], &["a"])]],
            json!({ "b": source["b"], "g": [], "h": {} }),
        );
        check(
            vec![vec![patterns(&["b"], &["b.d.e"])]],
            json!({ "b": { "c": 2, "d": [ { "f": 4 }, 5 ] } }),
        );
        check(vec![vec![patterns(&["b.d.e"], &[])]], json!({ "b": { "d": [ { "e": 3 } ] } }));
        check(
            vec![vec![patterns(&["b*"], &["b.c"])]],
            json!({ "b": { "d": source["b"]["d"] } }),
        );
        check(
            vec![vec![patterns(&["a"], &[]), patterns(&["b.c"], &[])]],
            json!({ "a": 1, "b": { "c": 2 } }),
        );
        check(
            vec![vec![patterns(&["a", "b.c"], &[])], vec![patterns(&["*"], &["a"])]],
            json!({ "b": { "c": 2 } }),
        );
        check(vec![vec![patterns(&[], &[])]], json!({}));
    }

    #[test]
    fn metadata_is_granted_and_fields_of_a_granted_object_are() {
        let rights = FieldRights(vec![vec![patterns(&["user"], &["user.secret"])]]);
        for (path, granted) in [
            ("_id", true),
            ("user", true),
            ("user.name.keyword", true),
            ("user.secret", false),
            ("user.secret.keyword", false),
            ("username", false),
        ] {
            assert_eq!(rights.grants(path), granted, "{path}");
        }
    }
}
