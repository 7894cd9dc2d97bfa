//! The tables by which fields are looked up, and the limits that they keep.

use crate::field::{FieldType, Kind};
use crate::limits::MappingLimits;
use crate::mapping::{Dynamic, Inner, Mapping, Node, ObjectInfo, ObjectNode, Root};
use crate::names::ALL;
use crate::parameters::{self, Context};
use crate::tree::TreePart;
use crate::wording::text_of;
use analysis::Registry;
use model::compat::IndexRules;
use model::path::SourceFilter;
use model::{Error, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::sync::Arc;

impl Mapping {
    /// A mapping without fields.
    pub fn empty(registry: &Registry, limits: &MappingLimits) -> Mapping {
        let built = build(ObjectNode::default(), Root::new(), registry.clone(), limits.clone(), false);
        // Nothing in it can be refused.
        Mapping(Arc::new(
            built.unwrap_or_else(|e| unreachable!("an empty mapping is sound: {e}")),
        ))
    }
}

/// Makes the tables for looking up, and checks the limits.
pub(crate) fn build(root: ObjectNode, top: Root, registry: Registry, limits: MappingLimits, typed: bool) -> Result<Inner> {
    let source = top.get("_source");
    let list = |short: &str, long: &str| strings(source.and_then(|s| s.get(long).or_else(|| s.get(short))));
    let filter = SourceFilter {
        includes: list("include", "includes"),
        excludes: list("exclude", "excludes"),
    };
    let mut inner = Inner {
        root: ObjectNode::default(),
        top,
        registry,
        limits,
        typed,
        leaves: Vec::new(),
        by_path: FxHashMap::default(),
        objects: FxHashMap::default(),
        nested: Vec::new(),
        trees: Vec::new(),
        source: filter,
    };
    let in_all = inner.top.get("include_in_all").map(|v| text_of(v) != "false");
    inner.collect(&root, "", root.dynamic.unwrap_or_default(), in_all, 1)?;
    inner.root = root;
    let total = inner.leaves.len() + inner.objects.len();
    if inner.rules().documents_expire {
        inner.add_times()?;
    }
    if inner.rules().has_all_field {
        inner.add_all()?;
    }
    debug_assert_eq!(
        inner.by_path.len(),
        inner.leaves.len(),
        "write-path.md 3: a path leads to one field"
    );
    debug_assert!(
        inner.nested.is_sorted_by(|one, next| !one.starts_with(&format!("{next}."))),
        "nested objects stand behind those around them"
    );
    if total > inner.limits.total_fields {
        return Err(inner.limits.too_many());
    }
    if inner.nested.len() > inner.limits.nested_fields {
        return Err(Error::illegal(format!(
            "Limit of nested fields [{}] has been exceeded",
            inner.limits.nested_fields
        ))
        .with("setting", "index.mapping.nested_fields.limit"));
    }
    Ok(inner)
}

impl Inner {
    fn collect(&mut self, object: &ObjectNode, prefix: &str, dynamic: Dynamic, in_all: Option<bool>, depth: usize) -> Result<()> {
        for (name, node) in &object.properties {
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}.{name}")
            };
            match node {
                Node::Field(field) => {
                    let own = field.params.get("include_in_all").map(|v| text_of(v) != "false");
                    let at = self.add(&path, field.clone());
                    self.leaves[at].in_all = own.or(in_all).unwrap_or(field.index);
                    if field.kind == Kind::TreePath {
                        self.trees.push(at);
                        self.add_tree_parts(&path, field);
                    }
                    for (name, field) in &field.fields {
                        let child = self.add(&format!("{path}.{name}"), field.clone());
                        self.leaves[at].multi.push(child);
                    }
                }
                Node::Object(inner) => {
                    if depth >= self.limits.depth {
                        return Err(self.limits.too_deep(&path));
                    }
                    let dynamic = inner.dynamic.unwrap_or(dynamic);
                    if inner.nested {
                        self.nested.push(path.clone());
                    }
                    self.objects.insert(
                        path.clone(),
                        ObjectInfo {
                            nested: inner.nested,
                            dynamic,
                            enabled: inner.enabled.unwrap_or(true),
                            include_in_parent: inner.include_in_parent,
                            include_in_root: inner.include_in_root,
                        },
                    );
                    let own = inner.extras.get("include_in_all").map(|v| text_of(v) != "false");
                    self.collect(inner, &path, dynamic, own.or(in_all), depth + 1)?;
                }
            }
        }
        Ok(())
    }

    /// The sub-fields that every `tree_path` field has.
    fn add_tree_parts(&mut self, path: &str, field: &FieldType) {
        for part in TreePart::SUB_FIELDS {
            self.add(&format!("{path}.{}", part.name()), Arc::new(field.sub_field(part)));
        }
    }

    /// `_all`, unless the type does without: a text field that is in no list of properties.
    fn add_all(&mut self) -> Result<()> {
        let given = self.top.get(ALL);
        let option = |name: &str| given.and_then(|all| all.get(name)).cloned();
        if option("enabled").is_some_and(|e| text_of(&e) == "false") {
            return Ok(());
        }
        let mut body = Map::new();
        body.insert("type".into(), "string".into());
        for name in ["analyzer", "search_analyzer", "store"] {
            body.extend(option(name).map(|value| (name.to_owned(), value)));
        }
        let context = Context {
            registry: &self.registry,
            limits: &self.limits,
            rules: IndexRules::of(true),
        };
        let field = parameters::parse(&context, ALL, &body, false)?;
        self.add(ALL, Arc::new(field));
        Ok(())
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().map(text_of).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![text_of(one)],
    }
}
