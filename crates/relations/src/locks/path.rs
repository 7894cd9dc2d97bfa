//! Literal paths of locks: components, what lies above, what covers what, and where a document says it is.
//!
//! Not here: the mapping's idea of a path; a lock reads the source alone.

use model::{Error, Result, path as field, settings};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Components of a path: each costs a lock document.
pub fn path_depth_max() -> usize {
    settings::node_count(settings::LOCKS_MAX_PATH_DEPTH)
}

/// A path by components. Empty components do not count, so `/a//b/` is `/a/b`; `/` has no component.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LockPath(Arc<[Arc<str>]>);

impl LockPath {
    /// Reads `/a/b`; a leading slash is not needed.
    ///
    /// # Errors
    /// Deeper than [`path_depth_max`].
    pub fn parse(text: &str) -> Result<LockPath> {
        let components: Arc<[Arc<str>]> = text.split('/').filter(|part| !part.is_empty()).map(Arc::from).collect();
        let most = path_depth_max();
        if components.len() > most {
            return Err(Error::illegal(format!(
                "path of {} components is deeper than [locks.max_path_depth] = {most}",
                components.len()
            )));
        }
        Ok(LockPath(components))
    }
    /// `/`, which stands for the whole index.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
    /// Is `other` this path or below it? `/a` covers `/a` and `/a/b`, not `/ab`.
    pub fn covers(&self, other: &LockPath) -> bool {
        other.0.starts_with(&self.0)
    }
    /// Every path above, the longest last, without `/` and without itself.
    pub fn ancestors(&self) -> impl Iterator<Item = LockPath> + '_ {
        (1..self.0.len()).map(|n| LockPath(self.0[..n].into()))
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}

/// `index.pleach.lock_path`: the field, or the fields joined by `/`, that say where a document is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlaceFields(Vec<String>);

/// How many places one document may be in.
fn places_max() -> usize {
    settings::node_count(settings::LOCKS_MAX_PLACES)
}

impl PlaceFields {
    /// Reads the setting: a name, names separated by commas, or an array of names.
    ///
    /// # Errors
    /// Anything else; an empty name.
    pub fn parse(setting: &Value) -> Result<PlaceFields> {
        let wrong = || {
            Error::illegal(format!(
                "[index.pleach.lock_path] must be a field or an array of fields, but is [{setting}]"
            ))
        };
        let names: Vec<String> = match setting {
            Value::Null => Vec::new(),
            Value::String(text) if text.is_empty() => Vec::new(),
            // Settings may arrive as text, an array rendered as JSON among them.
            Value::String(text) if text.starts_with('[') => serde_json::from_str(text).map_err(|_| wrong())?,
            Value::String(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong))
                .collect::<Result<_>>()?,
            _ => return Err(wrong()),
        };
        if names.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(PlaceFields(names))
    }
    /// No field: path locks meet only path, index and whole-store locks.
    pub fn is_unset(&self) -> bool {
        self.0.is_empty()
    }
    /// Where a document is: nowhere if a field has no word, number or truth value, in several places if one has several.
    ///
    /// # Errors
    /// A path deeper than [`path_depth_max`]; more places than `locks.max_places`.
    pub fn places(&self, source: &Value) -> Result<Vec<LockPath>> {
        if self.is_unset() {
            return Ok(Vec::new());
        }
        let mut texts = vec![String::new()];
        for name in &self.0 {
            let word = |value: &Value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
                _ => None,
            };
            let parts: Vec<String> = field::read(source, name).iter().filter_map(|value| word(value)).collect();
            let most = places_max();
            if texts.len().saturating_mul(parts.len()) > most {
                return Err(Error::illegal(format!(
                    "by [index.pleach.lock_path] a document is in more places than [locks.max_places] = {most}"
                )));
            }
            texts = texts
                .iter()
                .flat_map(|text| parts.iter().map(move |part| format!("{text}/{part}")))
                .collect();
        }
        texts.iter().map(|text| LockPath::parse(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> LockPath {
        LockPath::parse(text).expect("a short path")
    }

    #[test]
    fn covering_is_by_components() {
        for (above, below, covers) in [
            ("/a", "/a", true),
            ("/a", "/a/b", true),
            ("/a", "/ab", false),
            ("/a/b", "/a", false),
            ("/", "/a", true),
            ("a//b/", "/a/b/c", true),
        ] {
            assert_eq!(path(above).covers(&path(below)), covers, "{above} over {below}");
        }
    }

    #[test]
    fn ancestors_are_outermost_first() {
        let found: Vec<String> = path("/a/b/c").ancestors().map(|p| p.to_string()).collect();
        assert_eq!(found, ["/a", "/a/b"]);
        assert_eq!(path("/a").ancestors().count() + path("/").ancestors().count(), 0);
        assert!(LockPath::parse(&"/x".repeat(path_depth_max())).is_ok());
        assert!(LockPath::parse(&"/x".repeat(path_depth_max() + 1)).is_err());
    }

    #[test]
    fn places() {
        for (setting, source, places) in [
            (json!("path"), json!({"path": "/a/b"}), &["/a/b"][..]),
            (json!(["path", "name"]), json!({"path": "/a", "name": "f.txt"}), &["/a/f.txt"]),
            (json!("[\"path\",\"name\"]"), json!({"path": "/a", "name": "f"}), &["/a/f"]),
            (json!("path, name"), json!({"path": "/a", "name": 7}), &["/a/7"]),
            (json!("dir.path"), json!({"dir": {"path": "/a"}}), &["/a"]),
            (json!(["path", "name"]), json!({"path": "/a"}), &[]),
            (json!("path"), json!({"path": ["/a", "/b", null]}), &["/a", "/b"]),
            (
                json!("path,name"),
                json!({"path": ["/a", "/b"], "name": ["x", "y"]}),
                &["/a/x", "/a/y", "/b/x", "/b/y"],
            ),
            (json!("path"), json!({"path": {"x": 1}}), &[]),
            (json!(""), json!({"path": "/a"}), &[]),
        ] {
            let fields = PlaceFields::parse(&setting).expect("a good setting");
            let found: Vec<String> = fields
                .places(&source)
                .expect("short paths")
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(found, places, "{setting} {source}");
        }
        let many = json!({ "path": vec!["a"; places_max() + 1] });
        assert!(
            PlaceFields::parse(&json!("path"))
                .expect("a good setting")
                .places(&many)
                .is_err()
        );
        for bad in [json!(7), json!(["a", 1]), json!("a,,b"), json!([""]), json!("[1]")] {
            assert!(PlaceFields::parse(&bad).is_err(), "{bad}");
        }
    }
}
