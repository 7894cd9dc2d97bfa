//! The mappings of a typed index of 2015: one for each type, with `string` fields, agreeing on what they share.
//!
//! Not here: how typed requests look (`rest`), and how types are stored (`embedded`).

use crate::limits::MappingLimits;
use crate::mapping::{Mapping, Root};
use crate::names::ALL;
use crate::parameters;
use crate::read::failed_at_creation;
use crate::times;
use crate::wording::{java, mapper_parsing, text_of};
use analysis::Registry;
use model::compat::IndexRules;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The name of the type that others begin as.
const DEFAULT: &str = "_default_";

/// Names that the top of a typeless mapping may have.
const MAPPING_ROOTS: &[&str] = &[
    "properties",
    "dynamic",
    "_source",
    "_routing",
    "_meta",
    "dynamic_templates",
    "date_detection",
    "numeric_detection",
    "dynamic_date_formats",
    "runtime",
    "_field_names",
    "_data_stream_timestamp",
    "_size",
    "_all",
    "derived",
    "subobjects",
];

/// Is this mapping written with a type level?
pub fn has_type_level(mappings: &Value) -> bool {
    mappings.as_object().is_some_and(|map| {
        !map.is_empty()
            && map
                .iter()
                .all(|(key, value)| !MAPPING_ROOTS.contains(&key.as_str()) && value.is_object())
    })
}

/// Mapping types by name, in the order in which they came. Immutable and cheap to clone.
#[derive(Clone, Debug)]
pub struct TypedMappings {
    types: Arc<Vec<(String, Mapping)>>,
    registry: Registry,
    limits: MappingLimits,
}

impl TypedMappings {
    /// Reads `{"post": {"properties": …}, …}`, the value of `mappings` at creation.
    pub fn parse(body: &Value, registry: &Registry, limits: &MappingLimits) -> Result<TypedMappings> {
        // The default first: the others begin with it.
        TypedMappings::parse_sorted(body, registry, limits, |name| name != DEFAULT)
    }

    /// The inverse of [`TypedMappings::render`]: a type has what it says. It may be older than the default, or say otherwise.
    pub fn parse_rendered(body: &Value, registry: &Registry, limits: &MappingLimits) -> Result<TypedMappings> {
        // The default last: no type begins with it.
        TypedMappings::parse_sorted(body, registry, limits, |name| name == DEFAULT)
    }

    fn parse_sorted(
        body: &Value,
        registry: &Registry,
        limits: &MappingLimits,
        comes_later: fn(&str) -> bool,
    ) -> Result<TypedMappings> {
        let mut mappings = TypedMappings {
            types: Arc::new(Vec::new()),
            registry: registry.clone(),
            limits: limits.clone(),
        };
        let empty = Map::new();
        let body = match body {
            Value::Object(body) => body,
            Value::Null => &empty,
            _ => return Err(mapper_parsing("Expected map for mappings")),
        };
        let (later, first): (Vec<_>, Vec<_>) = body.iter().partition(|(name, _)| comes_later(name));
        for (name, body) in first.into_iter().chain(later) {
            mappings = mappings.put(name, body).map_err(|e| failed_at_creation(e, name))?;
        }
        Ok(mappings)
    }

    /// One type's mapping.
    pub fn get(&self, type_name: &str) -> Option<&Mapping> {
        self.types
            .iter()
            .find(|(name, _)| name == type_name)
            .map(|(_, mapping)| mapping)
    }

    /// Every type but `_default_`.
    pub fn types(&self) -> impl Iterator<Item = (&str, &Mapping)> {
        self.types
            .iter()
            .filter(|(name, _)| name != DEFAULT)
            .map(|(name, mapping)| (name.as_str(), mapping))
    }

    /// The mapping with which documents of a type are read: its own, or the one it would begin with.
    pub fn for_type(&self, type_name: &str) -> Result<Mapping> {
        match self.get(type_name) {
            _ if type_name == DEFAULT => Err(Error::illegal(format!(
                "It is forbidden to index into the default mapping [{DEFAULT}]"
            ))),
            Some(mapping) => Ok(mapping.clone()),
            None => {
                check_name(type_name)?;
                self.beginning()
            }
        }
    }

    /// Adds or updates a type from a body, which may be wrapped in the type's name.
    pub fn put(&self, type_name: &str, body: &Value) -> Result<TypedMappings> {
        check_name(type_name)?;
        let inner = body
            .get(type_name)
            .filter(|_| body.as_object().is_some_and(|o| o.len() == 1))
            .unwrap_or(body);
        let update = Mapping::parse_in(inner, &self.registry, &self.limits, true)?;
        if let Some(field) = METADATA
            .iter()
            .find(|name| update.0.root.properties.iter().any(|(p, _)| p == *name))
        {
            return Err(mapper_parsing(format!("Field [{field}] is defined twice in [{type_name}]")));
        }
        if update.parent_type() == Some(type_name) {
            return Err(Error::illegal("The [_parent.type] option can't point to the same type"));
        }
        if let Some(known) = self.get(type_name) {
            known.check_update(&update)?;
        }
        self.merge(type_name, &update)
    }

    /// Adds the fields that a document brought to a type: fields that other types have are as they have them.
    pub fn grow(&self, type_name: &str, growth: &Mapping) -> Result<TypedMappings> {
        self.merge(type_name, &self.adopt(type_name, growth)?)
    }

    /// Growth with the fields of other types as these have them.
    pub fn adopt(&self, type_name: &str, growth: &Mapping) -> Result<Mapping> {
        let others: Vec<&Mapping> = self
            .types()
            .filter(|(name, _)| *name != type_name)
            .map(|(_, mapping)| mapping)
            .collect();
        growth.adopting(&others)
    }

    /// Adds or updates a type, as when a document made its mapping grow.
    pub fn merge(&self, type_name: &str, update: &Mapping) -> Result<TypedMappings> {
        let merged = match self.get(type_name) {
            // A new default replaces the old one.
            _ if type_name == DEFAULT => match self.get(DEFAULT) {
                Some(known) => known.replace(update)?,
                None => update.clone(),
            },
            Some(known) => known.merge(update)?,
            None => match self.get(DEFAULT) {
                Some(default) => default.begin(update)?,
                None if update.is_typed() => update.clone(),
                None => self.beginning()?.merge(update)?,
            },
        };
        if type_name != DEFAULT {
            self.check_agreement(type_name, &merged)?;
        }
        let mut types = (*self.types).clone();
        match types.iter_mut().find(|(name, _)| name == type_name) {
            Some((_, known)) => *known = merged,
            None => types.push((type_name.to_owned(), merged)),
        }
        Ok(TypedMappings {
            types: Arc::new(types),
            ..self.clone()
        })
    }

    /// `{"post": {…}, "user": {…}}`, types sorted by name.
    pub fn render(&self) -> Value {
        let mut types: Vec<_> = self.types.iter().collect();
        types.sort_by(|a, b| a.0.cmp(&b.0));
        Value::Object(
            types
                .into_iter()
                .map(|(name, mapping)| {
                    let mut shown = mapping.render();
                    // 2015 did not show defaults here.
                    if let Some(shown) = shown.as_object_mut() {
                        let usual = |value: &mut Value| *value == serde_json::json!({ "enabled": true });
                        shown.retain(|key, value| !([ALL, "_source"].contains(&key.as_str()) && usual(value)));
                    }
                    (name.clone(), shown)
                })
                .collect(),
        )
    }

    fn beginning(&self) -> Result<Mapping> {
        match self.get(DEFAULT) {
            Some(mapping) => Ok(mapping.clone()),
            None => Mapping::parse_in(&Value::Null, &self.registry, &self.limits, true),
        }
    }

    /// The same field in two types must be of one type, analyzed alike.
    fn check_agreement(&self, type_name: &str, mapping: &Mapping) -> Result<()> {
        for (_, other) in self.types().filter(|(name, _)| *name != type_name) {
            for (path, field) in mapping.fields() {
                if let Some(known) = other.field(path) {
                    if known.wire() != field.wire() {
                        return Err(Error::illegal(format!(
                            "mapper [{path}] cannot be changed from type [{}] to [{}]",
                            known.wire(),
                            field.wire()
                        )));
                    }
                    parameters::merge(path, known, field, IndexRules::of(true))?;
                    if known.params.get("format") != field.params.get("format") {
                        return Err(Error::illegal(format!(
                            "Mapper for [{path}] conflicts with existing mapping in other types:\n[mapper [{path}] has different [format] values]"
                        )));
                    }
                }
                if other.is_object(path) {
                    return Err(Error::illegal(format!(
                        "[{path}] is defined as a field in mapping [{type_name}] but this name is already used for an object in other types"
                    )));
                }
            }
            for (path, _) in mapping.objects() {
                if other.field(path).is_some() {
                    return Err(Error::illegal(format!(
                        "[{path}] is defined as an object in mapping [{type_name}] but this name is already used for a field in other types"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Names that no property of a type may have.
const METADATA: &[&str] = &[
    "_uid",
    "_id",
    "_routing",
    "_index",
    "_source",
    "_type",
    "_all",
    "_timestamp",
    "_parent",
    "_ttl",
    "_field_names",
    "_version",
];

/// A name that a type may have.
///
/// # Errors
/// `invalid_type_name_exception`.
pub(crate) fn check_name(type_name: &str) -> Result<()> {
    let refuse = |reason: String| Err(Error::new(ErrorKind::InvalidTypeName, reason));
    if type_name.starts_with('_') && type_name != DEFAULT {
        return refuse(format!("mapping type name [{type_name}] can't start with '_'"));
    }
    for never in [',', '#'] {
        if type_name.contains(never) {
            return refuse(format!("mapping type name [{type_name}] should not include '{never}' in it"));
        }
    }
    if type_name.starts_with('.') && type_name != ".percolator" {
        return Err(Error::illegal(format!(
            "mapping type name [{type_name}] must not start with a '.'"
        )));
    }
    Ok(())
}

impl Mapping {
    /// Whether an update may say what it says beside fields.
    fn check_update(&self, update: &Mapping) -> Result<()> {
        let (old, new) = (&self.0.top, &update.0.top);
        times::check_update(old, new)?;
        let flag = |root: &Root, section: &str| root.get(section).and_then(|s| s.get("enabled")).map(text_of);
        if let Some(after) = flag(new, ALL) {
            let before = flag(old, ALL).unwrap_or_else(|| "true".into());
            if before != after {
                return Err(Error::illegal(format!(
                    "mapper [_all] enabled is {before} now encountering {after}"
                )));
            }
        }
        let source =
            |root: &Root, key: &str, or: &str| root.get("_source").and_then(|s| s.get(key)).map_or_else(|| or.into(), java);
        let mut conflicts = Vec::new();
        if new.contains_key("_source") {
            for (key, or) in [("enabled", "true"), ("includes", "[]"), ("excludes", "[]")] {
                if source(old, key, or) != source(new, key, or) {
                    conflicts.push(format!("Cannot update {key} setting for [_source]"));
                }
            }
        }
        if !conflicts.is_empty() {
            return Err(Error::illegal(format!(
                "Can't merge because of conflicts: [{}]",
                conflicts.join(", ")
            )));
        }
        if let (before, Some(after)) = (self.parent_type(), update.parent_type())
            && before != Some(after)
        {
            return Err(Error::illegal(format!(
                "The _parent field's type option can't be changed: [{}]->[{after}]",
                before.unwrap_or("null")
            )));
        }
        Ok(())
    }
}
