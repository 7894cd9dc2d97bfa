//! A mapping body, read field by field.
//!
//! A key that cannot be read is refused here. Limits, and fields that lead to others, are checked when the mapping is built.
//!
//! Not here: the parameters of one field (`parameters`), where fields lead to (`references`).

use crate::build::build;
use crate::limits::MappingLimits;
use crate::mapping::{Dynamic, Mapping, Node, ObjectNode, Root};
use crate::names::METADATA;
use crate::parameters::{self, Context};
use crate::wording::{java, mapper_parsing, text_of};
use crate::{root, templates};
use analysis::Registry;
use model::compat::IndexRules;
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Objects deeper than this are refused while parsing, whatever the limits say.
const DEPTH_MAX: usize = 64;

impl Mapping {
    /// Reads a mapping body: `{"properties": …, "dynamic": …, …}`.
    pub fn parse(body: &Value, registry: &Registry, limits: &MappingLimits) -> Result<Mapping> {
        Read::of(body, registry, limits, false)?.whole()
    }

    /// Reads the mapping that an index is created with. A key that cannot be read is a failure of its type; limits, and fields
    /// that lead to others, are refused in their own words.
    ///
    /// # Errors
    /// As [`Mapping::parse`].
    pub fn parse_new(body: &Value, registry: &Registry, limits: &MappingLimits) -> Result<Mapping> {
        let read = Read::of(body, registry, limits, false).map_err(|e| {
            // Limits bound the reading itself too.
            let of_the_whole = e.details().contains_key("setting");
            if of_the_whole { e } else { failed_at_creation(e, "_doc") }
        });
        read?.whole()
    }

    /// Reads an update of a mapping: its aliases may lead to fields of what it is merged with, which checks them.
    ///
    /// # Errors
    /// As [`Mapping::parse`], aliases excepted.
    pub fn parse_update(body: &Value, registry: &Registry, limits: &MappingLimits) -> Result<Mapping> {
        Mapping::parse_in(body, registry, limits, false)
    }

    /// Reads a mapping, of a type of 2015 where `typed` says so; references are not looked up.
    pub(crate) fn parse_in(body: &Value, registry: &Registry, limits: &MappingLimits, typed: bool) -> Result<Mapping> {
        Read::of(body, registry, limits, typed)?.build()
    }
}

/// The error of a mapping that cannot be read when its index is created: the same, with the type in front. The root cause is
/// the innermost of the server's own kinds, which an illegal argument is not.
pub(crate) fn failed_at_creation(error: Error, type_name: &str) -> Error {
    let outer = mapper_parsing(format!("Failed to parse mapping [{type_name}]: {}", error.reason())).with_cause(error.clone());
    match error.kind() {
        ErrorKind::IllegalArgument => outer,
        _ => outer.with_root_cause(error),
    }
}

/// A mapping that has been read, field by field, and not yet looked at as a whole.
pub(crate) struct Read<'a> {
    root: ObjectNode,
    top: Root,
    registry: &'a Registry,
    limits: &'a MappingLimits,
    typed: bool,
}

impl<'a> Read<'a> {
    pub(crate) fn of(body: &Value, registry: &'a Registry, limits: &'a MappingLimits, typed: bool) -> Result<Read<'a>> {
        let empty = Map::new();
        let body = match body {
            Value::Object(body) => body,
            Value::Null => &empty,
            other => {
                return Err(mapper_parsing(format!("Expected map for mapping but got [{}]", java(other))));
            }
        };
        let rules = IndexRules::of(typed);
        let context = Context { registry, limits, rules };
        let mut object = ObjectNode::default();
        let mut top = Root::new();
        for (key, value) in body {
            match key.as_str() {
                "properties" => object.properties = parse_properties(&context, "", value, 1)?,
                "dynamic" => object.dynamic = Some(Dynamic::parse_in(value, rules.tolerates_mapping_mistakes)?),
                "enabled" => object.enabled = Some(text_of(value) != "false"),
                "runtime" if value.as_object().is_some_and(Map::is_empty) => {}
                "runtime" => return Err(mapper_parsing("runtime fields are not supported yet")),
                // Elasticsearch accepts a type beside the properties of the root if it says the obvious.
                "type" if value == "object" => {}
                key if root::is_key(key, rules.takes_former_parameters) => {
                    top.insert(key.to_owned(), value.clone());
                }
                key => {
                    return Err(mapper_parsing(format!(
                        "Root mapping definition has unsupported parameters:  [{key} : {}]",
                        java(value)
                    )));
                }
            }
        }
        if rules.takes_former_parameters {
            root::check_typed(&mut top)?;
        } else {
            root::check(&mut top)?;
        }
        templates::check(&top, rules)?;
        Ok(Read {
            root: object,
            top,
            registry,
            limits,
            typed,
        })
    }

    /// The mapping; fields that lead to others are not looked up.
    pub(crate) fn build(self) -> Result<Mapping> {
        let inner = build(self.root, self.top, self.registry.clone(), self.limits.clone(), self.typed)?;
        Ok(Mapping(Arc::new(inner)))
    }

    /// The mapping, whose fields lead to fields that there are.
    pub(crate) fn whole(self) -> Result<Mapping> {
        let mapping = self.build()?;
        mapping.0.check_references()?;
        Ok(mapping)
    }
}

fn parse_properties(context: &Context<'_>, prefix: &str, value: &Value, depth: usize) -> Result<Vec<(String, Node)>> {
    let Value::Object(object) = value else {
        if value.as_array().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        return Err(Error::new(model::ErrorKind::Parse, "properties must be a map type"));
    };
    if depth > DEPTH_MAX {
        return Err(context.limits.too_deep(prefix));
    }
    // Before anything is made of them.
    if object.len() > context.limits.total_fields {
        return Err(context.limits.too_many());
    }
    let mut properties = Vec::with_capacity(object.len());
    let mut places = Places::default();
    for (name, body) in object {
        // An empty list is an empty map.
        if body.as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let Value::Object(body) = body else {
            return Err(mapper_parsing(format!(
                "Expected map for property [fields] on field [{name}] but got a {}",
                if context.rules.mapping_refusal_words {
                    "class java.lang.String".into()
                } else {
                    java(body)
                }
            )));
        };
        // Points at the end of a name mean nothing.
        let name = match context.rules.forbids_dots_in_names {
            false if !name.trim_end_matches('.').is_empty() => name.trim_end_matches('.'),
            _ => name.as_str(),
        };
        check_name(context, name)?;
        if prefix.is_empty() && depth == 1 && !context.rules.tolerates_mapping_mistakes && METADATA.contains(&name) {
            return Err(mapper_parsing(format!("Field [{name}] is defined more than once")));
        }
        let (mut segments, mut last) = (Vec::new(), name);
        if name.contains('.') {
            segments = name.split('.').collect();
            last = segments.pop().unwrap_or_default();
            if depth + segments.len() > DEPTH_MAX {
                return Err(context.limits.too_deep(name));
            }
        }
        let node = parse_node(context, last, body, depth + segments.len())?;
        insert(&mut properties, &mut places, &segments, last, node, context.rules)?;
    }
    Ok(properties)
}

fn check_name(context: &Context<'_>, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::illegal("field name cannot be an empty string"));
    }
    if name.contains('.') && context.rules.forbids_dots_in_names {
        return Err(mapper_parsing(format!("Field name [{name}] cannot contain '.'")));
    }
    if name.split('.').any(|part| part.trim().is_empty()) {
        return Err(Error::illegal(format!(
            "Invalid field name [{name}], field names cannot start or end with '.' or be empty"
        )));
    }
    if name.chars().count() > context.limits.field_name_length {
        return Err(Error::illegal(format!(
            "Field name [{name}] is longer than the limit of [{}] characters",
            context.limits.field_name_length
        ))
        .with("setting", "index.mapping.field_name_length.limit"));
    }
    Ok(())
}

/// Where the properties of each object stand in its list, by the object's path: a list of n names is read in n steps.
#[derive(Default)]
struct Places(FxHashMap<String, FxHashMap<String, usize>>);

impl Places {
    /// The places of the object at `path`. It is walked the first time.
    fn of(&mut self, path: &str, properties: &[(String, Node)]) -> &mut FxHashMap<String, usize> {
        self.0.entry(path.to_owned()).or_insert_with(|| {
            let names = properties.iter().enumerate();
            names.map(|(at, (name, _))| (name.clone(), at)).collect()
        })
    }

    /// Forgets an object and everything below it.
    fn forget(&mut self, path: &str) {
        self.0.retain(|known, _| {
            let below = known.strip_prefix(path);
            !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
    }
}

/// Puts a node under objects that are made if they are not there. The way is limited by the depth of mappings.
fn insert(
    properties: &mut Vec<(String, Node)>,
    places: &mut Places,
    way: &[&str],
    name: &str,
    node: Node,
    rules: &IndexRules,
) -> Result<()> {
    let (mut at, mut path) = (properties, String::new());
    for segment in way {
        let known = places.of(&path, at);
        let place = *known.entry((*segment).to_owned()).or_insert_with(|| {
            at.push(((*segment).to_owned(), Node::Object(ObjectNode::default())));
            at.len() - 1
        });
        at = match &mut at[place].1 {
            Node::Object(object) => &mut object.properties,
            Node::Field(_) => {
                return Err(Error::illegal(format!(
                    "can't merge a non object mapping [{segment}] with an object mapping"
                )));
            }
        };
        path.push_str(if path.is_empty() { "" } else { "." });
        path.push_str(segment);
    }
    let known = places.of(&path, at);
    match known.get(name) {
        Some(place) => {
            let known = &mut at[*place].1;
            *known = crate::merge::node(name, known, &node, rules)?;
            if matches!(known, Node::Object(_)) {
                path.push_str(if path.is_empty() { "" } else { "." });
                places.forget(&(path + name));
            }
        }
        None => {
            known.insert(name.to_owned(), at.len());
            at.push((name.to_owned(), node));
        }
    }
    Ok(())
}

fn parse_node(context: &Context<'_>, name: &str, body: &Map<String, Value>, depth: usize) -> Result<Node> {
    let single = if context.rules.takes_former_parameters {
        parameters::without_multi_field(name, body)
    } else {
        None
    };
    let body = single.as_ref().unwrap_or(body);
    let type_name = body.get("type").map(text_of);
    match type_name.as_deref() {
        None if !looks_like_an_object(body, context.rules.takes_former_parameters) => {
            // Elasticsearch takes a body without type for an object only if it looks like one.
            Err(mapper_parsing(format!("No type specified for field [{name}]")))
        }
        None | Some("object" | "nested") => {
            let mut object = ObjectNode {
                nested: type_name.as_deref() == Some("nested"),
                ..ObjectNode::default()
            };
            for (key, value) in body {
                match key.as_str() {
                    "type" => {}
                    "properties" => object.properties = parse_properties(context, name, value, depth + 1)?,
                    "dynamic" => object.dynamic = Some(Dynamic::parse_in(value, context.rules.tolerates_mapping_mistakes)?),
                    "enabled" => object.enabled = Some(text_of(value) != "false"),
                    "include_in_parent" if object.nested => object.include_in_parent = text_of(value) == "true",
                    "include_in_root" if object.nested => object.include_in_root = text_of(value) == "true",
                    "include_in_all" | "path" if context.rules.takes_former_parameters => {
                        object.extras.insert(key.clone(), value.clone());
                    }
                    key => {
                        return Err(mapper_parsing(format!(
                            "Mapping definition for [{name}] has unsupported parameters:  [{key} : {}]",
                            java(value)
                        )));
                    }
                }
            }
            Ok(Node::Object(object))
        }
        Some(_) => Ok(Node::Field(Arc::new(parameters::parse(context, name, body, false)?))),
    }
}

/// A body without a type: today's servers go by its properties, or by `enabled` if that is all.
fn looks_like_an_object(body: &Map<String, Value>, former: bool) -> bool {
    if former {
        let keys = ["properties", "dynamic", "enabled", "include_in_all"];
        return keys.iter().any(|key| body.contains_key(*key));
    }
    body.contains_key("properties") || body.len() == 1 && body.contains_key("enabled")
}
