//! The mapping as a value: parsed from a body, looked up by path, rendered again.
//!
//! Fields keep the order in which they came, so that positions given by it stay; rendering sorts by name,
//! as Elasticsearch does. Not here: reading documents (`document`), merging (`merge`).

use crate::field::{FieldType, Kind, malformed};
use crate::limits::MappingLimits;
use crate::parameters::{self, Context, Params, java, text_of};
use analysis::Registry;
use model::path::{SourceFilter, matches};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

/// What happens to fields that the mapping does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dynamic {
    /// They are added.
    #[default]
    True,
    /// They are kept in the source only.
    False,
    /// They are refused.
    Strict,
    /// Those that a dynamic template is for are added, the others refused.
    StrictAllowTemplates,
}

impl Dynamic {
    fn parse(value: &Value) -> Result<Dynamic> {
        match text_of(value).as_str() {
            "true" | "yes" | "1" | "on" => Ok(Dynamic::True),
            "false" | "no" | "0" | "off" => Ok(Dynamic::False),
            "strict" => Ok(Dynamic::Strict),
            "strict_allow_templates" => Ok(Dynamic::StrictAllowTemplates),
            "runtime" => Err(Error::illegal("dynamic [runtime] is not supported yet")),
            other => Err(Error::illegal(format!("Could not convert [dynamic] to boolean: [{other}]"))),
        }
    }
    /// The same; 2015 took every other word for yes.
    fn parse_in(value: &Value, typed: bool) -> Result<Dynamic> {
        match Dynamic::parse(value) {
            Err(_) if typed && value.as_str() != Some("runtime") => Ok(Dynamic::True),
            read => read,
        }
    }
    fn render(self) -> &'static str {
        match self {
            Dynamic::True => "true",
            Dynamic::False => "false",
            Dynamic::Strict => "strict",
            Dynamic::StrictAllowTemplates => "strict_allow_templates",
        }
    }
}

/// The refusal of a field that the mapping does not know.
pub(crate) fn strict(dynamic: Dynamic, key: &str, within: &str) -> Error {
    let how = dynamic.render();
    Error::new(
        ErrorKind::StrictDynamicMapping,
        format!("mapping set to {how}, dynamic introduction of [{key}] within [{within}] is not allowed"),
    )
}

/// An object of the mapping, with what it has from the objects around it.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// Each of its objects is a document of its own.
    pub nested: bool,
    /// Its own setting or that of the nearest object around it.
    pub dynamic: Dynamic,
    /// False: its contents are kept in the source only.
    pub enabled: bool,
    /// Of nested objects: fields are the enclosing document's too.
    pub include_in_parent: bool,
    /// Of nested objects: fields are the root document's too.
    pub include_in_root: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectNode {
    pub(crate) nested: bool,
    pub(crate) dynamic: Option<Dynamic>,
    pub(crate) enabled: Option<bool>,
    pub(crate) include_in_parent: bool,
    pub(crate) include_in_root: bool,
    pub(crate) extras: Params,
    pub(crate) properties: Vec<(String, Node)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Object(ObjectNode),
    Field(Arc<FieldType>),
}

/// What stands at the root beside `properties` and `dynamic`, as given; read where it matters.
pub(crate) type Root = Map<String, Value>;

const ROOT_KEYS: &[&str] = &[
    "_source",
    "_routing",
    "_meta",
    "_field_names",
    "_data_stream_timestamp",
    "date_detection",
    "numeric_detection",
    "dynamic_date_formats",
    "dynamic_templates",
];
const ROOT_KEYS_TYPED: &[&str] = &[
    "_all",
    "_parent",
    "_ttl",
    "_timestamp",
    "_index",
    "_type",
    "_id",
    "_version",
    "transform",
    "include_in_all",
    "numeric_detection",
    "date_formats",
];
/// Of the first, what 2015 had not.
const NEVER_TYPED: &[&str] = &["_data_stream_timestamp"];
/// Objects deeper than this are refused while parsing, whatever the limits say.
const DEPTH_MAX: usize = 64;

/// The mapping of one index, or of one type of a typed index. Immutable and cheap to clone.
#[derive(Clone)]
pub struct Mapping(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) root: ObjectNode,
    pub(crate) top: Root,
    pub(crate) registry: Registry,
    pub(crate) limits: MappingLimits,
    pub(crate) typed: bool,
    pub(crate) leaves: Vec<Leaf>,
    by_path: FxHashMap<Arc<str>, usize>,
    pub(crate) objects: FxHashMap<String, ObjectInfo>,
    nested: Vec<String>,
    source: SourceFilter,
}

/// A field at its full path, with the positions of its multi-fields.
pub(crate) struct Leaf {
    pub(crate) path: Arc<str>,
    pub(crate) field: Arc<FieldType>,
    pub(crate) multi: Vec<usize>,
    /// In the typed dialect: its values are part of `_all`.
    pub(crate) in_all: bool,
}

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

/// The error of a mapping that cannot be read when its index is created: the same, with the type in front. The root cause is
/// the innermost of the server's own kinds, which an illegal argument is not.
pub(crate) fn failed_at_creation(error: Error, type_name: &str) -> Error {
    let outer = malformed(format!("Failed to parse mapping [{type_name}]: {}", error.reason())).caused_by(error.clone());
    match error.kind() {
        ErrorKind::IllegalArgument => outer,
        _ => outer.rooted_in(error),
    }
}

/// A mapping that has been read, field by field, and not yet looked at as a whole.
struct Read<'a> {
    root: ObjectNode,
    top: Root,
    registry: &'a Registry,
    limits: &'a MappingLimits,
    typed: bool,
}

impl<'a> Read<'a> {
    fn of(body: &Value, registry: &'a Registry, limits: &'a MappingLimits, typed: bool) -> Result<Read<'a>> {
        let empty = Map::new();
        let body = match body {
            Value::Object(body) => body,
            Value::Null => &empty,
            other => {
                return Err(malformed(format!("Expected map for mapping but got [{}]", java(other))));
            }
        };
        let context = Context { registry, limits, typed };
        let mut root = ObjectNode::default();
        let mut top = Root::new();
        for (key, value) in body {
            match key.as_str() {
                "properties" => root.properties = parse_properties(&context, "", value, 1)?,
                "dynamic" => root.dynamic = Some(Dynamic::parse_in(value, typed)?),
                "enabled" => root.enabled = Some(text_of(value) != "false"),
                "runtime" if value.as_object().is_some_and(Map::is_empty) => {}
                "runtime" => return Err(malformed("runtime fields are not supported yet")),
                // Elasticsearch accepts a type beside the properties of the root if it says the obvious.
                "type" if value == "object" => {}
                key if ROOT_KEYS.contains(&key) && !(typed && NEVER_TYPED.contains(&key))
                    || typed && ROOT_KEYS_TYPED.contains(&key) =>
                {
                    top.insert(key.to_owned(), value.clone());
                }
                key => {
                    return Err(malformed(format!(
                        "Root mapping definition has unsupported parameters:  [{key} : {}]",
                        java(value)
                    )));
                }
            }
        }
        if typed {
            crate::typed::read_root(&mut top)?;
        } else {
            check_root(&mut top)?;
        }
        crate::dynamic::check(&top, typed)?;
        Ok(Read {
            root,
            top,
            registry,
            limits,
            typed,
        })
    }

    /// The mapping; fields that lead to others are not looked up.
    fn build(self) -> Result<Mapping> {
        let inner = build(self.root, self.top, self.registry.clone(), self.limits.clone(), self.typed)?;
        Ok(Mapping(Arc::new(inner)))
    }

    /// The mapping, whose fields lead to fields that there are.
    fn whole(self) -> Result<Mapping> {
        let mapping = self.build()?;
        mapping.0.check_references()?;
        Ok(mapping)
    }
}

impl Mapping {
    /// Reads a mapping body: `{"properties": …, "dynamic": …, …}`.
    pub fn parse(body: &Value, registry: &Registry, limits: &MappingLimits) -> Result<Mapping> {
        Read::of(body, registry, limits, false)?.whole()
    }

    /// Reads the mapping that an index is created with. What cannot be read is told as a failure of its type; what is wrong
    /// with the whole once it has been read (limits, fields that lead to others) is told as it is.
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

    /// A mapping without fields.
    pub fn empty(registry: &Registry, limits: &MappingLimits) -> Mapping {
        let built = build(ObjectNode::default(), Root::new(), registry.clone(), limits.clone(), false);
        // Nothing in it can be refused.
        Mapping(Arc::new(
            built.unwrap_or_else(|e| unreachable!("an empty mapping is sound: {e}")),
        ))
    }

    pub(crate) fn parse_in(body: &Value, registry: &Registry, limits: &MappingLimits, typed: bool) -> Result<Mapping> {
        Read::of(body, registry, limits, typed)?.build()
    }

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
            out.insert("properties".into(), render_properties(&self.0.root.properties, self.0.typed));
        }
        Value::Object(out)
    }

    /// The field at a full path, multi-fields (`name.raw`) included. Aliases are given as they are.
    pub fn field(&self, path: &str) -> Option<&FieldType> {
        self.0.leaf(path).map(|leaf| &*leaf.field)
    }

    /// The field that a path leads to, through an alias if it is one, and its own path.
    pub fn resolve<'a>(&'a self, path: &'a str) -> Option<(&'a str, &'a FieldType)> {
        let leaf = self.0.leaf(path)?;
        match &leaf.field.alias_path {
            None => Some((&leaf.path, &leaf.field)),
            Some(target) => self.0.leaf(target).map(|leaf| (&*leaf.path, &*leaf.field)),
        }
    }

    /// Every field, multi-fields and aliases included, in a stable order: new ones come last in their object.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &FieldType)> {
        self.0.leaves.iter().map(|leaf| (&*leaf.path, &*leaf.field))
    }

    /// The paths that a pattern names, multi-fields and aliases included; a path without wildcard as it is,
    /// if there is such a field.
    pub fn expand(&self, pattern: &str) -> Vec<String> {
        if !pattern.contains('*') {
            return self.field(pattern).map(|_| pattern.to_owned()).into_iter().collect();
        }
        self.fields()
            .filter(|(path, _)| !crate::typed::is_hidden(path) && matches(pattern, path))
            .map(|(path, _)| path.to_owned())
            .collect()
    }

    /// The multi-fields of a field, by full path.
    pub fn multi_fields<'a>(&'a self, path: &str) -> impl Iterator<Item = (&'a str, &'a FieldType)> {
        let multi = self.0.leaf(path).map_or(&[][..], |leaf| leaf.multi.as_slice());
        multi.iter().map(|at| (&*self.0.leaves[*at].path, &*self.0.leaves[*at].field))
    }

    /// The innermost nested object that encloses a field or object (a nested object does not enclose itself).
    pub fn nested_path_of(&self, path: &str) -> Option<&str> {
        self.0.nested_around(path)
    }

    /// Whether there is a nested object at that path.
    pub fn is_nested(&self, path: &str) -> bool {
        self.object(path).is_some_and(|object| object.nested)
    }

    /// Whether there is an object, nested or not, at that path.
    pub fn is_object(&self, path: &str) -> bool {
        self.0.objects.contains_key(path)
    }

    /// The object at that path.
    pub fn object(&self, path: &str) -> Option<&ObjectInfo> {
        self.0.objects.get(path)
    }

    /// Every object with its path, in no particular order.
    pub fn objects(&self) -> impl Iterator<Item = (&str, &ObjectInfo)> {
        self.0.objects.iter().map(|(path, object)| (path.as_str(), object))
    }

    /// The paths of all nested objects, outer ones first.
    pub fn nested_paths(&self) -> impl Iterator<Item = &str> {
        self.0.nested.iter().map(String::as_str)
    }

    /// The path and type of the join field, if there is one.
    pub fn join_field(&self) -> Option<(&str, &FieldType)> {
        self.fields().find(|(_, field)| field.kind == Kind::Join)
    }

    /// Whether documents keep their source.
    pub fn source_enabled(&self) -> bool {
        self.0.flag("_source", "enabled", true)
    }

    /// What of the source is kept.
    pub fn source_filter(&self) -> &SourceFilter {
        &self.0.source
    }

    /// Whether writes must name a routing.
    pub fn routing_required(&self) -> bool {
        self.0.flag("_routing", "required", false)
    }

    /// What happens to unknown fields at the root.
    pub fn dynamic(&self) -> Dynamic {
        self.0.root.dynamic.unwrap_or_default()
    }

    /// The `_meta` object.
    pub fn meta(&self) -> Option<&Value> {
        self.0.top.get("_meta")
    }

    /// Of a type of the typed dialect: the type of its parents.
    pub fn parent_type(&self) -> Option<&str> {
        self.0.top.get("_parent")?.get("type")?.as_str()
    }

    /// Whether it is of the typed dialect.
    pub fn is_typed(&self) -> bool {
        self.0.typed
    }

    /// Whether nothing has been said in it.
    pub fn is_empty(&self) -> bool {
        self.0.root.properties.is_empty() && self.0.top.is_empty() && self.0.root.dynamic.is_none()
    }

    /// The analyzers it was parsed with.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }
}

impl Inner {
    pub(crate) fn leaf(&self, path: &str) -> Option<&Leaf> {
        self.by_path.get(path).map(|at| &self.leaves[*at])
    }

    fn flag(&self, section: &str, key: &str, default: bool) -> bool {
        self.top
            .get(section)
            .and_then(|s| s.get(key))
            .map_or(default, |value| text_of(value) == "true")
    }

    /// Aliases must lead to fields.
    pub(crate) fn check_references(&self) -> Result<()> {
        for leaf in self.leaves.iter().filter(|leaf| leaf.field.kind == Kind::Completion) {
            for context in crate::types::contexts::of(&leaf.field) {
                let (Some(path), Some(_)) = (&context.path, context.precision) else {
                    continue;
                };
                let why = match self.leaf(path).map(|target| target.field.kind) {
                    Some(Kind::GeoPoint) => continue,
                    Some(other) => format!("must be mapped to geo_point, found [{}]", other.wire()),
                    None => "is not defined in the mapping".to_owned(),
                };
                let reason = format!("field [{path}] referenced in context [{}] {why}", context.name);
                return Err(Error::new(ErrorKind::Parse, reason));
            }
        }
        for leaf in &self.leaves {
            let Some(target) = &leaf.field.alias_path else {
                continue;
            };
            let path = &leaf.path;
            let refuse = |why: &str| {
                Err(malformed(format!(
                    "Invalid [path] value [{target}] for field alias [{path}]: {why}"
                )))
            };
            if **target == **path {
                return refuse("an alias cannot refer to itself.");
            }
            match self.leaf(target) {
                None => return refuse("an alias must refer to an existing field in the mappings."),
                Some(target) if target.field.kind == Kind::Alias => {
                    return refuse("an alias cannot refer to another alias.");
                }
                Some(_) if !self.typed && self.nested_around(target) != self.nested_around(path) => {
                    let scope = |path: &str, what: &str| match self.nested_around(path) {
                        Some(nested) => format!("{what} nested scope is [{nested}]"),
                        None => format!("{what} is not nested").replace("'s is", " is"),
                    };
                    let reason = format!(
                        "Invalid [path] value [{target}] for field alias [{path}]: an alias must have the same nested scope as its target. {}, but {}.",
                        scope(path, "The alias's"),
                        scope(target, "the target's")
                    );
                    return Err(Error::illegal(reason));
                }
                Some(_) => {}
            }
        }
        let joins = || self.leaves.iter().filter(|leaf| leaf.field.kind == Kind::Join);
        if let Some(inside) = joins().find(|leaf| !self.typed && leaf.path.contains('.')) {
            return Err(Error::illegal(format!(
                "join field [{}] cannot be added inside an object or in a multi-field",
                inside.path
            )));
        }
        if joins().count() > 1 {
            return Err(match self.typed {
                true => Error::illegal("Only one [parent-join] field can be defined per index"),
                false => malformed("Field [_parent_join] is defined more than once"),
            });
        }
        if self.typed { Ok(()) } else { self.check_copies() }
    }

    /// Copies go to fields of their own document or of one around it.
    fn check_copies(&self) -> Result<()> {
        let multi = |path: &str| {
            self.leaves
                .iter()
                .any(|leaf| leaf.multi.iter().any(|at| *self.leaves[*at].path == *path))
        };
        for leaf in self.leaves.iter().filter(|leaf| !leaf.field.copy_to.is_empty()) {
            for target in &leaf.field.copy_to {
                if self.objects.contains_key(target.as_str()) {
                    return Err(Error::illegal(format!(
                        "Cannot copy to field [{target}] since it is mapped as an object"
                    )));
                }
                if multi(target) {
                    return Err(Error::illegal(format!(
                        "[copy_to] may not be used to copy to a multi-field: [{target}]"
                    )));
                }
                let (from, to) = (self.nested_around(&leaf.path), self.nested_around(target));
                let within = to.is_none_or(|to| {
                    from.is_some_and(|from| from == to || from.strip_prefix(to).is_some_and(|rest| rest.starts_with('.')))
                });
                if !within {
                    return Err(Error::illegal(format!(
                        "Illegal combination of [copy_to] and [nested] mappings: [copy_to] may only copy data to the current nested document or any of its parents, however one [copy_to] directive is trying to copy data from nested object [{}] to [{}]",
                        from.unwrap_or("null"),
                        to.unwrap_or("null")
                    )));
                }
            }
        }
        Ok(())
    }

    /// The innermost nested object around a path.
    fn nested_around(&self, path: &str) -> Option<&str> {
        let inside = |nested: &&String| path.strip_prefix(nested.as_str()).is_some_and(|rest| rest.starts_with('.'));
        let around = self.nested.iter().filter(inside).max_by_key(|nested| nested.len());
        around.map(String::as_str)
    }
}

/// What stands at the root of a mapping of today, beside its fields.
fn check_root(top: &mut Root) -> Result<()> {
    for (section, keys) in [
        ("_source", &["enabled", "includes", "excludes"][..]),
        ("_routing", &["required"]),
    ] {
        let Some(given) = top.get(section) else { continue };
        let Value::Object(given) = given else {
            return Err(Error::illegal(format!("[{section}] must be an object")));
        };
        for (key, value) in given {
            if !keys.contains(&key.as_str()) {
                return Err(malformed(format!(
                    "unknown parameter [{key}] on mapper [{section}] of type [null]"
                )));
            }
            let right = match key.as_str() {
                "includes" | "excludes" => value.is_array(),
                _ => ["true", "false"].contains(&text_of(value).as_str()),
            };
            if !right {
                return Err(Error::illegal(match value.is_array() || key.ends_with("cludes") {
                    true => format!("[{key}] of [{section}] must be a list, but was [{}]", java(value)),
                    false => format!(
                        "Failed to parse value [{}] as only [true] or [false] are allowed.",
                        java(value)
                    ),
                }));
            }
        }
    }
    if let Some(meta) = top.get("_meta").filter(|meta| !meta.is_object()) {
        return Err(Error::illegal(format!("[_meta] must be an object, but was [{}]", java(meta))));
    }
    for key in ["date_detection", "numeric_detection"] {
        if let Some(given) = top.get(key).map(text_of)
            && given != "true"
            && given != "false"
        {
            return Err(Error::illegal(format!("Could not convert [{key}] to boolean: [{given}]")));
        }
    }
    if let Some(formats) = top.get_mut("dynamic_date_formats") {
        if formats.is_string() {
            *formats = Value::Array(vec![formats.take()]);
        }
        let items = formats.as_array().map_or(&[][..], Vec::as_slice);
        if let Some(wrong) = items.iter().find(|item| !item.is_string()) {
            return Err(Error::illegal(format!(
                "Invalid format: [{}]: expected string value",
                java(wrong)
            )));
        }
        if !formats.is_array() {
            return Err(Error::illegal(format!(
                "Invalid format: [{}]: expected string value",
                java(formats)
            )));
        }
    }
    Ok(())
}

fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().map(text_of).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![text_of(one)],
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
        return Err(too_deep(context.limits, prefix));
    }
    // Before anything is made of them: names are looked for among those before.
    if object.len() > context.limits.total_fields {
        return Err(too_many(context.limits));
    }
    let mut properties = Vec::with_capacity(object.len());
    for (name, body) in object {
        // An empty list is an empty map.
        if body.as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let Value::Object(body) = body else {
            return Err(malformed(format!(
                "Expected map for property [fields] on field [{name}] but got a {}",
                if context.typed {
                    "class java.lang.String".into()
                } else {
                    java(body)
                }
            )));
        };
        // What points at the end stand for is nothing.
        let name = match context.typed {
            false if !name.trim_end_matches('.').is_empty() => name.trim_end_matches('.'),
            _ => name.as_str(),
        };
        check_name(context, name)?;
        if prefix.is_empty() && depth == 1 && !context.typed && crate::document::METADATA.contains(&name) {
            return Err(malformed(format!("Field [{name}] is defined more than once")));
        }
        let (mut segments, mut last) = (Vec::new(), name);
        if name.contains('.') {
            segments = name.split('.').collect();
            last = segments.pop().unwrap_or_default();
            if depth + segments.len() > DEPTH_MAX {
                return Err(too_deep(context.limits, name));
            }
        }
        let node = parse_node(context, last, body, depth + segments.len())?;
        insert(&mut properties, &segments, last, node, context.typed)?;
    }
    Ok(properties)
}

pub(crate) fn too_many(limits: &MappingLimits) -> Error {
    Error::illegal(format!("Limit of total fields [{}] has been exceeded", limits.total_fields))
        .with("setting", "index.mapping.total_fields.limit")
}

fn too_deep(limits: &MappingLimits, path: &str) -> Error {
    Error::illegal(format!(
        "Limit of mapping depth [{}] has been exceeded due to object field [{path}]",
        limits.depth
    ))
    .with("setting", "index.mapping.depth.limit")
}

fn check_name(context: &Context<'_>, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::illegal("field name cannot be an empty string"));
    }
    if name.contains('.') && context.typed {
        return Err(malformed(format!("Field name [{name}] cannot contain '.'")));
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

/// Puts a node under objects that are made if they are not there.
fn insert(properties: &mut Vec<(String, Node)>, way: &[&str], name: &str, node: Node, typed: bool) -> Result<()> {
    match way.split_first() {
        None => match properties.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => {
                *known = crate::merge::node(name, known, &node, typed)?;
                Ok(())
            }
            None => {
                properties.push((name.to_owned(), node));
                Ok(())
            }
        },
        Some((first, rest)) => {
            let at = match properties.iter().position(|(known, _)| known == first) {
                Some(at) => at,
                None => {
                    properties.push(((*first).to_owned(), Node::Object(ObjectNode::default())));
                    properties.len() - 1
                }
            };
            match &mut properties[at].1 {
                Node::Object(object) => insert(&mut object.properties, rest, name, node, typed),
                Node::Field(_) => Err(Error::illegal(format!(
                    "can't merge a non object mapping [{first}] with an object mapping"
                ))),
            }
        }
    }
}

fn parse_node(context: &Context<'_>, name: &str, body: &Map<String, Value>, depth: usize) -> Result<Node> {
    let single = if context.typed {
        crate::typed::without_multi_field(name, body)
    } else {
        None
    };
    let body = single.as_ref().unwrap_or(body);
    let type_name = body.get("type").map(text_of);
    match type_name.as_deref() {
        None if !looks_like_an_object(body, context.typed) => {
            // Elasticsearch takes a body without type for an object only if it looks like one.
            Err(malformed(format!("No type specified for field [{name}]")))
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
                    "dynamic" => object.dynamic = Some(Dynamic::parse_in(value, context.typed)?),
                    "enabled" => object.enabled = Some(text_of(value) != "false"),
                    "include_in_parent" if object.nested => object.include_in_parent = text_of(value) == "true",
                    "include_in_root" if object.nested => object.include_in_root = text_of(value) == "true",
                    "include_in_all" | "path" if context.typed => {
                        object.extras.insert(key.clone(), value.clone());
                    }
                    key => {
                        return Err(malformed(format!(
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
fn looks_like_an_object(body: &Map<String, Value>, typed: bool) -> bool {
    if typed {
        let keys = ["properties", "dynamic", "enabled", "include_in_all"];
        return keys.iter().any(|key| body.contains_key(*key));
    }
    body.contains_key("properties") || body.len() == 1 && body.contains_key("enabled")
}

fn render_properties(properties: &[(String, Node)], typed: bool) -> Value {
    let mut sorted: Vec<_> = properties.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(
        sorted
            .into_iter()
            .map(|(name, node)| (name.clone(), render_node(node, typed)))
            .collect(),
    )
}

fn render_node(node: &Node, typed: bool) -> Value {
    let object = match node {
        Node::Field(field) => {
            let mut rendered = field.render();
            // Elasticsearch 2 writes the default format out.
            if typed
                && field.kind == Kind::Date
                && let Some(out) = rendered.as_object_mut()
            {
                out.entry("format").or_insert_with(|| model::date::FORMAT_DEFAULT.into());
            }
            // Texts had none anyway.
            if typed
                && field.string
                && field.kind.is_text()
                && let Some(out) = rendered.as_object_mut()
                && out.get("doc_values").is_some_and(|v| text_of(v) == "false")
            {
                out.remove("doc_values");
            }
            if typed
                && !field.string
                && let Some(out) = rendered.as_object_mut()
                && out.get("index").is_some_and(|index| index == "not_analyzed")
            {
                out.remove("index");
            }
            if typed
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
        out.insert("properties".into(), render_properties(&object.properties, typed));
    }
    Value::Object(out)
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
        source: filter,
    };
    let in_all = inner.top.get("include_in_all").map(|v| text_of(v) != "false");
    inner.collect(&root, "", root.dynamic.unwrap_or_default(), in_all, 1)?;
    inner.root = root;
    let total = inner.leaves.len() + inner.objects.len();
    if typed {
        inner.add_times()?;
        inner.add_all()?;
    }
    if total > inner.limits.total_fields {
        return Err(too_many(&inner.limits));
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
                    for (name, field) in &field.fields {
                        let child = self.add(&format!("{path}.{name}"), field.clone());
                        self.leaves[at].multi.push(child);
                    }
                }
                Node::Object(inner) => {
                    if depth >= self.limits.depth {
                        return Err(too_deep(&self.limits, &path));
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

    /// `_all`, unless the type does without: a text field that is in no list of properties.
    fn add_all(&mut self) -> Result<()> {
        let given = self.top.get(crate::typed::ALL);
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
            typed: true,
        };
        let field = parameters::parse(&context, crate::typed::ALL, &body, false)?;
        self.add(crate::typed::ALL, Arc::new(field));
        Ok(())
    }

    pub(crate) fn add(&mut self, path: &str, field: Arc<FieldType>) -> usize {
        let path: Arc<str> = path.into();
        self.by_path.insert(path.clone(), self.leaves.len());
        self.leaves.push(Leaf {
            path,
            field,
            multi: Vec::new(),
            in_all: false,
        });
        self.leaves.len() - 1
    }
}
