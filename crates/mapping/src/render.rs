//! A mapping as `GET _mapping` shows them: sorted by name, as Elasticsearch does.
//!
//! Not here: the parameters of one field (`parameters`).

use crate::field::Kind;
use crate::mapping::{Mapping, Node};
use crate::wording::text_of;
use model::compat::IndexRules;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({})", self.render())
    }
}
impl PartialEq for Mapping {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.render() == other.render()
    }
}

impl Mapping {
    /// As `GET _mapping` gives it.
    pub fn render(&self) -> Value {
        let mut out = Map::new();
        if let Some(dynamic) = self.0.root.dynamic {
            out.insert("dynamic".into(), dynamic.render().into());
        }
        if self.0.root.enabled == Some(false) {
            out.insert("enabled".into(), false.into());
        }
        for (key, value) in &self.0.top {
            out.insert(key.clone(), value.clone());
        }
        if !self.0.root.properties.is_empty() {
            out.insert("properties".into(), properties(&self.0.root.properties, self.0.rules()));
        }
        Value::Object(out)
    }
}

/// `properties`, each field by its name.
pub(crate) fn properties(properties: &[(String, Node)], rules: &IndexRules) -> Value {
    let mut sorted: Vec<_> = properties.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(sorted.into_iter().map(|(name, of)| (name.clone(), node(of, rules))).collect())
}

fn node(of: &Node, rules: &IndexRules) -> Value {
    let object = match of {
        Node::Field(field) => {
            let mut rendered = field.render();
            // Elasticsearch 2 writes the default format out.
            if rules.renders_former_defaults
                && field.kind == Kind::Date
                && let Some(out) = rendered.as_object_mut()
            {
                out.entry("format").or_insert_with(|| model::date::FORMAT_DEFAULT.into());
            }
            // Texts had none anyway.
            if rules.renders_former_defaults
                && field.string
                && field.kind.is_text()
                && let Some(out) = rendered.as_object_mut()
                && out.get("doc_values").is_some_and(|v| text_of(v) == "false")
            {
                out.remove("doc_values");
            }
            if rules.renders_former_defaults
                && !field.string
                && let Some(out) = rendered.as_object_mut()
                && out.get("index").is_some_and(|index| index == "not_analyzed")
            {
                out.remove("index");
            }
            if rules.renders_former_defaults
                && !field.string
                && let Some(out) = rendered.as_object_mut()
                && out.contains_key("boost")
            {
                out.entry("norms").or_insert_with(|| json!({ "enabled": true }));
            }
            return rendered;
        }
        Node::Object(object) => object,
    };
    let mut out = Map::new();
    if object.nested {
        out.insert("type".into(), "nested".into());
    } else if object.properties.is_empty() {
        out.insert("type".into(), "object".into());
    }
    if let Some(dynamic) = object.dynamic {
        out.insert("dynamic".into(), dynamic.render().into());
    }
    if object.enabled == Some(false) {
        out.insert("enabled".into(), false.into());
    }
    for (key, set) in [
        ("include_in_parent", object.include_in_parent),
        ("include_in_root", object.include_in_root),
    ] {
        if set {
            out.insert(key.into(), true.into());
        }
    }
    for (key, value) in &object.extras {
        out.insert(key.clone(), value.clone());
    }
    if !object.properties.is_empty() {
        out.insert("properties".into(), properties(&object.properties, rules));
    }
    Value::Object(out)
}
