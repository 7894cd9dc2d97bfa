//! The directories of one document: the numbers that it keeps, and its source with today's paths.
//!
//! The values of a field are counted in the order of the source: [`collect`] and [`todays_source`] walk it alike, so that the
//! n-th text has the n-th number (trees.md D6). Not here: where the numbers lie (`segment`, the log).

use super::{DirId, PathSyntax, Tree};
use crate::wording::text_of;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::sync::Arc;

/// The directories of a document in one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The field.
    pub field: Arc<str>,
    /// The number of operations that the tree had when they were looked up.
    pub seq: u64,
    /// One for each value, in the order of the source.
    pub dirs: Vec<DirId>,
}

impl Placed {
    /// The stored form of `seq` and `dirs`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.seq.to_le_bytes().to_vec();
        out.extend(self.dirs.iter().flat_map(|dir| dir.to_le_bytes()));
        out
    }
    /// From that form.
    pub fn from_bytes(field: Arc<str>, bytes: &[u8]) -> Option<Placed> {
        let (seq, dirs) = bytes.split_at_checked(8)?;
        Some(Placed {
            field,
            seq: u64::from_le_bytes(seq.try_into().ok()?),
            dirs: dirs
                .chunks_exact(4)
                .filter_map(|dir| Some(DirId::from_le_bytes(dir.try_into().ok()?)))
                .collect(),
        })
    }
    /// From the form in the log.
    pub fn from_json(value: &Value) -> Option<Placed> {
        let dirs = value[2].as_array()?.iter();
        Some(Placed {
            field: value[0].as_str()?.into(),
            seq: value[1].as_u64()?,
            dirs: dirs.map(|dir| DirId::try_from(dir.as_u64()?).ok()).collect::<Option<_>>()?,
        })
    }
    /// Whether one of its directories was removed since: then the document is gone (trees.md D10).
    pub fn is_removed(&self, tree: &Tree) -> bool {
        tree.last_removal_seq() > self.seq && self.dirs.iter().any(|dir| tree.find(*dir).is_none())
    }
    /// Whether one of its paths may be another than when it was written.
    fn has_moved(&self, tree: &Tree) -> bool {
        self.dirs.iter().any(|dir| tree.moved_since(*dir, self.seq))
    }
}

/// The form in the log.
impl Serialize for Placed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&*self.field, self.seq, &self.dirs).serialize(serializer)
    }
}

/// The texts of a field in a source, in order.
pub fn collect(source: &Value, field: &str) -> Vec<String> {
    let mut out = Vec::new();
    each_text(source, field, &mut out);
    out
}

/// As [`each_value`], of values that stay.
fn each_text(value: &Value, field: &str, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each_text(item, field, out)),
        Value::Null => {}
        value if field.is_empty() => out.push(text_of(value)),
        Value::Object(object) => {
            for (name, below) in object {
                match field.strip_prefix(name.as_str()) {
                    Some("") => each_text(below, "", out),
                    Some(rest) if rest.starts_with('.') => each_text(below, &rest[1..], out),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The source with today's paths, where one differs from what was written; `None`: none does, or it is no JSON.
/// `syntax`: how the field writes paths.
pub fn todays_source(source: &[u8], placed: &[Placed], tree: &Tree, syntax: &dyn Fn(&str) -> PathSyntax) -> Option<Vec<u8>> {
    if !placed.iter().any(|placed| placed.has_moved(tree)) {
        debug_assert!(
            has_paths_of(source, placed, tree, syntax),
            "trees.md D7: no directory of a document has moved since it was written, and one of its paths differs: {placed:?}"
        );
        return None;
    }
    let mut value: Value = serde_json::from_slice(source).ok()?;
    let mut differs = false;
    for placed in placed {
        let syntax = syntax(&placed.field);
        let mut dirs = placed.dirs.iter();
        each_value(&mut value, &placed.field, &mut |written| {
            let dir = dirs.next();
            debug_assert!(
                dir.is_some(),
                "trees.md D6: a value of [{}] has no number: {placed:?}",
                placed.field
            );
            let Some(components) = dir.and_then(|dir| tree.components(*dir)) else {
                return;
            };
            let path = syntax.join(components);
            let is_todays = |written: &str| syntax.is_same(syntax.canonical(written), &path);
            if !written.as_str().is_some_and(is_todays) {
                *written = Value::String(path);
                differs = true;
            }
        });
    }
    differs.then(|| value.to_string().into_bytes())
}

/// Whether the paths in the source are those that its directories have in a tree. A field is passed over if the source lacks some of
/// its values, and a directory if the tree lacks it.
pub fn has_paths_of(source: &[u8], placed: &[Placed], tree: &Tree, syntax: &dyn Fn(&str) -> PathSyntax) -> bool {
    let Ok(source) = serde_json::from_slice::<Value>(source) else {
        return true;
    };
    placed.iter().all(|placed| {
        let (texts, syntax) = (collect(&source, &placed.field), syntax(&placed.field));
        let is_path = |(text, dir): (&String, &DirId)| {
            let path = tree.components(*dir).map(|components| syntax.join(components));
            path.is_none_or(|path| syntax.is_same(syntax.canonical(text), &path))
        };
        texts.len() != placed.dirs.len() || texts.iter().zip(&placed.dirs).all(is_path)
    })
}

/// Shows every value of a field that is not null, as documents are read: through objects, arrays and names with dots. As deep
/// as the source, which was read within the limit.
fn each_value(value: &mut Value, field: &str, f: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_value(item, field, f)),
        Value::Null => {}
        value if field.is_empty() => f(value),
        Value::Object(object) => {
            for (name, below) in object {
                match field.strip_prefix(name.as_str()) {
                    Some("") => each_value(below, "", f),
                    Some(rest) if rest.starts_with('.') => each_value(below, &rest[1..], f),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
