//! The mapping as a value: parsed from a body, looked up by path, rendered again.
//!
//! Fields keep the order in which they came, so that positions given by it stay; rendering sorts by name,
//! as Elasticsearch does. Not here: how a body is read (`read`) and shown (`render`), documents (`document`), merging (`merge`).

use crate::field::{FieldType, Kind};
use crate::limits::MappingLimits;
use crate::parameters::{self, Context, Params, text_of};
use crate::read::{Read, failed_at_creation, too_deep, too_many};
use crate::render;
use analysis::Registry;
use model::path::{SourceFilter, matches};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
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
    pub(crate) fn parse_in(value: &Value, typed: bool) -> Result<Dynamic> {
        match Dynamic::parse(value) {
            Err(_) if typed && value.as_str() != Some("runtime") => Ok(Dynamic::True),
            read => read,
        }
    }
    pub(crate) fn render(self) -> &'static str {
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
    pub(crate) nested: Vec<String>,
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
            out.insert("properties".into(), render::properties(&self.0.root.properties, self.0.typed));
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
}

fn strings(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(items)) => items.iter().map(text_of).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![text_of(one)],
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
