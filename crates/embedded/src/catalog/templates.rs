//! Templates: what a new index begins with.
//!
//! The index template of the highest priority whose patterns match wins alone, with its components in order;
//! else all legacy templates that match, lowest `order` first. The request comes last.

use super::Catalog;
use model::Result;
use model::path::matches;
use model::settings::{WARMERS, text};
use model::system_index::is_system;
use serde_json::{Map, Value, json};

/// The parts that templates give a new index.
#[derive(Debug, Default)]
pub struct Given {
    /// Flat.
    pub settings: Map<String, Value>,
    /// Mappings to merge, in order; typed bodies have a type level.
    pub mappings: Vec<Value>,
    /// Alias → options.
    pub aliases: Map<String, Value>,
    /// Warmers of 2015, by name.
    pub warmers: Map<String, Value>,
}

impl Given {
    fn add(&mut self, body: &Value) {
        if let Some(given) = body["settings"].as_object() {
            self.settings.extend(engine::catalog::flatten(given));
        }
        if body["mappings"].is_object() {
            self.mappings.push(body["mappings"].clone());
        }
        if let Some(given) = body["aliases"].as_object() {
            self.aliases.extend(given.clone());
        }
        if let Some(given) = body["warmers"].as_object() {
            self.warmers.extend(given.clone());
        }
    }

    /// Puts the warmers of templates with those of the request, which come last, into the setting that keeps them.
    pub fn settle_warmers(warmers: Map<String, Value>, settings: &mut Map<String, Value>) {
        if warmers.is_empty() {
            return;
        }
        let mut all = warmers;
        if let Ok(Value::Object(own)) = serde_json::from_str(&text(settings, WARMERS)) {
            all.extend(own);
        }
        settings.insert(WARMERS.name.to_owned(), Value::Object(all).to_string().into());
    }
}

pub(super) fn patterns(body: &Value) -> Vec<String> {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    match (&body["index_patterns"], &body["template"]) {
        (Value::Array(list), _) => list.iter().filter_map(text).collect(),
        (Value::String(one), _) | (Value::Null, Value::String(one)) => vec![one.clone()],
        _ => Vec::new(),
    }
}

/// The parts that the templates of a catalog give an index of that name; none to a system index.
///
/// # Errors
/// None yet.
pub fn for_index(catalog: &Catalog, name: &str) -> Result<Given> {
    if is_system(name) {
        return Ok(Given::default());
    }
    let of_kind = |kind: &str| {
        let prefix = format!("{kind}/");
        catalog
            .templates
            .iter()
            .filter_map(move |(key, body)| key.strip_prefix(&prefix).map(|name| (name.to_owned(), body)))
    };
    let fits = |body: &Value| patterns(body).iter().any(|pattern| matches(pattern, name));
    let mut given = Given::default();
    let best = of_kind("index")
        .filter(|(_, body)| fits(body))
        .max_by_key(|(_, body)| body["priority"].as_i64().unwrap_or(0));
    if let Some((_, body)) = best {
        for component in body["composed_of"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if let Some(component) = catalog.templates.get(&format!("component/{component}")) {
                given.add(&component["template"]);
            }
        }
        given.add(&body["template"]);
        return Ok(given);
    }
    let mut legacy: Vec<_> = of_kind("legacy").filter(|(_, body)| fits(body)).collect();
    legacy.sort_by_key(|(_, body)| body["order"].as_i64().unwrap_or(0));
    for (_, body) in legacy {
        given.add(body);
    }
    let placed: Map<String, Value> = given
        .aliases
        .iter()
        .map(|(alias, body)| (alias.replace("{index}", name), body.clone()))
        .collect();
    given.aliases = placed;
    Ok(given)
}

/// The kind's word in keys.
pub fn key(kind: engine::TemplateKind, name: &str) -> String {
    let kind = match kind {
        engine::TemplateKind::Legacy => "legacy",
        engine::TemplateKind::Index => "index",
        engine::TemplateKind::Component => "component",
    };
    format!("{kind}/{name}")
}

/// An alias' options as they are kept: `routing` split in two.
pub fn alias_options(body: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "routing" => {
                out.entry("index_routing").or_insert_with(|| value.clone());
                out.entry("search_routing").or_insert_with(|| value.clone());
            }
            "filter" | "index_routing" | "search_routing" | "is_write_index" | "is_hidden" => {
                drop(out.insert(key.clone(), value.clone()))
            }
            _ => {}
        }
    }
    debug_assert!(json!(out).is_object());
    out
}
