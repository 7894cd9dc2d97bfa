//! The mappings of a typed index of 2015: one for each type, with `string` fields, agreeing on what they share.
//!
//! Not here: how typed requests look (`rest`), and how types are stored (`embedded`).

use crate::field::malformed;
use crate::limits::MappingLimits;
use crate::mapping::{Mapping, failed_at_creation};
use analysis::Registry;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The name of the type that others begin as.
const DEFAULT: &str = "_default_";

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
        let mut mappings = TypedMappings {
            types: Arc::new(Vec::new()),
            registry: registry.clone(),
            limits: limits.clone(),
        };
        let empty = Map::new();
        let body = match body {
            Value::Object(body) => body,
            Value::Null => &empty,
            _ => return Err(malformed("Expected map for mappings")),
        };
        // The default first: the others begin with it.
        let (defaults, others): (Vec<_>, Vec<_>) = body.iter().partition(|(name, _)| *name == DEFAULT);
        for (name, body) in defaults.into_iter().chain(others) {
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
            Some(mapping) => Ok(mapping.clone()),
            None => self.beginning(),
        }
    }

    /// Adds or updates a type from a body, which may be wrapped in the type's name.
    pub fn put(&self, type_name: &str, body: &Value) -> Result<TypedMappings> {
        if type_name.starts_with('_') && type_name != DEFAULT {
            return Err(Error::new(
                ErrorKind::InvalidTypeName,
                format!("mapping type name [{type_name}] can't start with '_'"),
            ));
        }
        let inner = body
            .get(type_name)
            .filter(|_| body.as_object().is_some_and(|o| o.len() == 1))
            .unwrap_or(body);
        let update = Mapping::parse_in(inner, &self.registry, &self.limits, true)?;
        self.merge(type_name, &update)
    }

    /// What a document brought to a type: fields that other types have are as they have them.
    pub fn grow(&self, type_name: &str, growth: &Mapping) -> Result<TypedMappings> {
        self.merge(type_name, &self.adopted(type_name, growth)?)
    }

    /// Growth with the fields of other types as these have them.
    pub fn adopted(&self, type_name: &str, growth: &Mapping) -> Result<Mapping> {
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
            _ if type_name == DEFAULT => update.clone(),
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
                .map(|(name, mapping)| (name.clone(), mapping.render()))
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
                    crate::parameters::merge(path, known, field, true)?;
                }
            }
        }
        Ok(())
    }
}
