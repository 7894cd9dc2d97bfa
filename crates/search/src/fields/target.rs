//! The field that a path of a query leads to in one index.

use super::column::Column;
use mapping::tree::Tree;
use mapping::{FieldType, FieldValue, Kind, Mapping};
use model::{Error, ErrorKind, Result};
use segment::schema::{IndexSchema, Slot};
use segment::searchable::IndexView;
use segment::segment_view::SegmentView;
use serde_json::Value;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tantivy::Term;

/// A field with where it is stored.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Its own path, aliases followed.
    pub path: &'a str,
    /// Its type.
    pub kind: &'a FieldType,
    /// Its places in segments.
    pub slot: &'a Slot,
    /// The directories of the index.
    pub tree: &'a Arc<Tree>,
}

impl<'a> Target<'a> {
    /// The field behind a path, if the index has it.
    pub(crate) fn of(view: &'a IndexView, path: &'a str) -> Option<Target<'a>> {
        let (path, kind) = view.mapping.resolve(path)?;
        let slot = view.schema.slot(path)?;
        let tree = &view.tree;
        Some(Target { path, kind, slot, tree })
    }

    /// As [`Target::of`], for what reads values: `join_field#relation` has a column too, of parents' ids.
    pub(crate) fn with_values(view: &'a IndexView, path: &'a str) -> Option<Target<'a>> {
        Target::value_in(&view.mapping, &view.schema, &view.tree, path)
    }

    /// The same, of a mapping and its schema and tree.
    pub(crate) fn value_in(
        mapping: &'a Mapping,
        schema: &'a IndexSchema,
        tree: &'a Arc<Tree>,
        path: &'a str,
    ) -> Option<Target<'a>> {
        if let Some((path, kind)) = mapping.resolve(path) {
            let slot = schema.slot(path)?;
            return Some(Target { path, kind, slot, tree });
        }
        let (join, kind) = mapping.join_field()?;
        crate::fields::parent_ids::relation(path, join, kind)?;
        let slot = schema.slot(join)?;
        Some(Target { path, kind, slot, tree })
    }

    /// The name of the column in segments that has the field's values as they are. Those of a relation's ids and of
    /// directories are worked out.
    pub(crate) fn own_column(&self) -> Option<&'a str> {
        let is_own = !self.is_relation() && self.kind.tree.is_none();
        self.slot.column.as_deref().filter(|_| is_own)
    }

    /// Is it `join_field#relation`?
    pub(crate) fn is_relation(&self) -> bool {
        self.kind.kind == Kind::Join && self.path.contains('#')
    }

    /// The term for a whole string: a keyword, or a token of a text.
    pub(crate) fn text_term(&self, text: &str) -> Term {
        Term::from_field_text(self.slot.field, text)
    }

    /// The term for a typed value, where the field has terms for it.
    pub(crate) fn term(&self, value: &FieldValue) -> Option<Term> {
        let field = self.slot.field;
        Some(match value {
            FieldValue::Text(text) | FieldValue::Keyword(text) => self.text_term(text),
            FieldValue::Long(n) | FieldValue::Date(n) | FieldValue::DateNanos(n) => Term::from_field_i64(field, *n),
            FieldValue::UnsignedLong(n) => Term::from_field_u64(field, *n),
            FieldValue::Double(n) => Term::from_field_f64(field, *n),
            FieldValue::Bool(b) => Term::from_field_bool(field, *b),
            FieldValue::Ip(bytes) => Term::from_field_ip_addr(field, Ipv6Addr::from(*bytes)),
            FieldValue::Join { name, .. } => self.text_term(name),
            FieldValue::Geo { .. } | FieldValue::Range { .. } | FieldValue::Completion(_) | FieldValue::Binary(_) => return None,
        })
    }

    /// Terms are strings: text, keyword and their relatives.
    pub(crate) fn has_string_terms(&self) -> bool {
        self.kind.kind.is_text() || self.kind.kind.is_keyword() || self.kind.kind == Kind::Join
    }
}

/// A value of a query as text, as Elasticsearch turns numbers and booleans into terms.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A date of a query as text: a number with a fraction is what Java makes of it, which no format reads.
pub(crate) fn date_text(value: &Value) -> String {
    match value {
        Value::Number(n) if n.is_f64() => {
            let n = n.as_f64().unwrap_or(f64::NAN);
            script::Value::Double(n).text()
        }
        other => text_of(other),
    }
}

/// An error about a query and the index it failed on.
pub(crate) fn query_shard(view: &IndexView, reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::QueryShard, reason).with("index", view.name.as_str())
}

/// A number among the index settings.
pub(crate) fn setting(view: &IndexView, name: &str, default: usize) -> usize {
    match view.settings.get(name) {
        Some(Value::String(text)) => text.parse().unwrap_or(default),
        Some(Value::Number(n)) => n.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(default),
        _ => default,
    }
}

/// A field that outlives its view's borrow.
#[derive(Clone)]
pub(crate) struct Owned {
    pub(crate) path: String,
    pub(crate) kind: FieldType,
    pub(crate) slot: Slot,
    pub(crate) tree: Arc<Tree>,
}

impl Owned {
    pub(crate) fn of(target: &Target<'_>) -> Owned {
        Owned {
            path: target.path.to_owned(),
            kind: target.kind.clone(),
            slot: target.slot.clone(),
            tree: target.tree.clone(),
        }
    }
    pub(crate) fn open(&self, segment: &SegmentView) -> Result<Option<Column>> {
        Column::open(
            segment,
            &Target {
                path: &self.path,
                kind: &self.kind,
                slot: &self.slot,
                tree: &self.tree,
            },
        )
    }
}
