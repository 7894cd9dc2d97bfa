//! The mapping as a value that is looked up by path.
//!
//! Fields keep the order in which they came, so that positions given by it stay. Not here: its tables (`build`), how a body
//! is read (`read`) and shown (`render`), documents (`document`), merging (`merge`).

use crate::field::{FieldType, Kind, Params};
use crate::limits::MappingLimits;
use crate::tree::PathSyntax;
use crate::wording::text_of;
use analysis::Registry;
use model::compat::IndexRules;
use model::path::{SourceFilter, matches};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The treatment of fields that the mapping does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Dynamic {
    /// They are added.
    #[default]
    True,
    /// They are kept in the source only.
    False,
    /// They are refused.
    Strict,
    /// Fields that match a dynamic template are added, others refused.
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
    pub(crate) fn parse_in(value: &Value, lenient: bool) -> Result<Dynamic> {
        match Dynamic::parse(value) {
            Err(_) if lenient && value.as_str() != Some("runtime") => Ok(Dynamic::True),
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
    /// Fields of nested objects are the enclosing document's too.
    pub include_in_parent: bool,
    /// Fields of nested objects are the root document's too.
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

/// The keys of the root beside `properties` and `dynamic`, as given.
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
    pub(crate) by_path: FxHashMap<Arc<str>, usize>,
    pub(crate) objects: FxHashMap<String, ObjectInfo>,
    pub(crate) nested: Vec<String>,
    /// Positions of the `tree_path` fields.
    pub(crate) trees: Vec<usize>,
    pub(crate) source: SourceFilter,
}

/// A field at its full path, with the positions of its multi-fields.
pub(crate) struct Leaf {
    pub(crate) path: Arc<str>,
    pub(crate) field: Arc<FieldType>,
    pub(crate) multi: Vec<usize>,
    /// In the typed dialect: its values are part of `_all`.
    pub(crate) in_all: bool,
}

impl Mapping {
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
            .filter(|(path, _)| !crate::names::is_hidden(path) && matches(pattern, path))
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

    /// The part of the source that is kept.
    pub fn source_filter(&self) -> &SourceFilter {
        &self.0.source
    }

    /// Whether writes must name a routing.
    pub fn routing_required(&self) -> bool {
        self.0.flag("_routing", "required", false)
    }

    /// The treatment of unknown fields at the root.
    pub fn dynamic(&self) -> Dynamic {
        self.0.root.dynamic.unwrap_or_default()
    }

    /// The `_meta` object.
    pub fn meta(&self) -> Option<&Value> {
        self.0.top.get("_meta")
    }

    /// The type of the parents of a type, in the typed dialect.
    pub fn parent_type(&self) -> Option<&str> {
        self.0.top.get("_parent")?.get("type")?.as_str()
    }

    /// Whether it is of the typed dialect.
    pub fn is_typed(&self) -> bool {
        self.0.typed
    }

    /// The dialect rules of its index.
    pub fn rules(&self) -> &'static IndexRules {
        self.0.rules()
    }

    /// The `tree_path` fields, with how they write paths.
    pub fn tree_fields(&self) -> impl Iterator<Item = (&Arc<str>, PathSyntax)> {
        let own = self.0.trees.iter().map(|at| &self.0.leaves[*at]);
        own.filter_map(|leaf| Some((&leaf.path, leaf.field.tree?.syntax)))
    }

    /// How a `tree_path` field writes its paths.
    pub fn tree_syntax(&self, field: &str) -> PathSyntax {
        let own = self.field(field).and_then(|field| field.tree);
        own.map(|tree| tree.syntax).unwrap_or_default()
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
    /// The dialect rules of its index.
    pub(crate) fn rules(&self) -> &'static IndexRules {
        IndexRules::of(self.typed)
    }

    /// Adds a field at its full path; its position.
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

    /// The innermost nested object around a path.
    pub(crate) fn nested_around(&self, path: &str) -> Option<&str> {
        let inside = |nested: &&String| path.strip_prefix(nested.as_str()).is_some_and(|rest| rest.starts_with('.'));
        let around = self.nested.iter().filter(inside).max_by_key(|nested| nested.len());
        around.map(String::as_str)
    }

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
