//! The mappings of a typed index of 2015: one for each type, with `string` fields, agreeing on what they share.
//!
//! Not here: how typed requests look (`rest`), and how types are stored (`embedded`).

use crate::field::{FieldType, Kind, malformed};
use crate::limits::MappingLimits;
use crate::mapping::{Mapping, Root};
use crate::parameters::{Params, java, text_of};
use crate::read::failed_at_creation;
use analysis::Registry;
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
            return Err(malformed(format!("Field [{field}] is defined twice in [{type_name}]")));
        }
        if update.parent_type() == Some(type_name) {
            return Err(Error::illegal("The [_parent.type] option can't point to the same type"));
        }
        if let Some(known) = self.get(type_name) {
            known.check_update(&update)?;
        }
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
            _ if type_name == DEFAULT => match self.get(DEFAULT) {
                Some(known) => known.replaced(update)?,
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
                    // What is so anyway was not told.
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
                    crate::parameters::merge(path, known, field, true)?;
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

/// The name of the field that has the text of all others.
pub const ALL: &str = "_all";

/// Is it a field that no list of properties names?
pub(crate) fn is_hidden(path: &str) -> bool {
    [ALL, crate::times::TIMESTAMP, crate::times::TTL].contains(&path)
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

/// What stands at the root of a type beside its properties, checked and as it is rendered.
pub(crate) fn read_root(top: &mut Root) -> Result<()> {
    for name in ["_id", "_type"] {
        if top.get(name).and_then(Value::as_object).is_some_and(|o| !o.is_empty()) {
            return Err(malformed(format!("{name} is not configurable")));
        }
        top.remove(name);
    }
    top.remove("_version");
    if let Some(Value::Object(options)) = top.get("_index")
        && let Some((key, value)) = options.iter().next()
    {
        return Err(malformed(format!(
            "Mapping definition for [_index] has unsupported parameters:  [{key} : {}]",
            java(value)
        )));
    }
    for (section, known) in [
        ("_parent", &["type", "fielddata"][..]),
        ("_routing", &["required", "store", "index"]),
    ] {
        let options = top.get(section).and_then(Value::as_object);
        if let Some((key, value)) = options.and_then(|all| all.iter().find(|(key, _)| !known.contains(&key.as_str()))) {
            return Err(malformed(format!(
                "Mapping definition for [{section}] has unsupported parameters:  [{key} : {}]",
                java(value)
            )));
        }
    }
    if let Some(parent) = top.get("_parent") {
        if parent.get("type").is_none_or(Value::is_null) {
            return Err(malformed("[_parent] field mapping must contain the [type] option"));
        }
        top.insert("_routing".into(), serde_json::json!({"required": true}));
    }
    for section in ["_all", "_source", "_routing", "_ttl", "_timestamp", "_parent"] {
        if let Some(value) = top.get(section).filter(|v| !v.is_object()) {
            return Err(malformed(format!("[{section}] must be an object but is [{}]", java(value))));
        }
    }
    crate::times::check(top)?;
    if let Some(format @ Value::String(_)) = top.get_mut("dynamic_date_formats") {
        *format = Value::Array(vec![format.clone()]);
    }
    for template in top.get("dynamic_templates").and_then(Value::as_array).into_iter().flatten() {
        let body = template.as_object().and_then(|t| t.values().next());
        let said = |key: &str| body.is_some_and(|b| b.get(key).is_some());
        if !["match", "path_match", "match_mapping_type"].into_iter().any(said) {
            return Err(malformed("template must have match, path_match or match_mapping_type set"));
        }
    }
    Ok(())
}

/// The parameters of a `string`, in the words of 2015.
pub(crate) fn check_string(name: &str, params: &Params, body: &Params) -> Result<()> {
    let text = |key: &str| params.get(key).map(text_of);
    // As it was given: a truth value is none of the three.
    let index = body.get("index").map(text_of).or_else(|| text("index"));
    if let Some(index) = &index
        && !["analyzed", "not_analyzed", "no"].contains(&index.as_str())
    {
        return Err(malformed(format!("wrong value for index [{index}] for field [{name}]")));
    }
    let vectors = [
        "no",
        "yes",
        "with_offsets",
        "with_positions",
        "with_positions_offsets",
        "with_positions_payloads",
        "with_positions_offsets_payloads",
    ];
    if let Some(vector) = text("term_vector")
        && !vectors.contains(&vector.as_str())
    {
        return Err(malformed(format!("wrong value for termVector [{vector}] for field [{name}]")));
    }
    if let Some(options) = text("index_options")
        && !["docs", "freqs", "positions", "offsets"].contains(&options.as_str())
    {
        return Err(Error::new(
            ErrorKind::Parse,
            format!("failed to parse index option [{options}]"),
        ));
    }
    let analyzed = index.as_deref().is_none_or(|i| i == "analyzed");
    if analyzed && body.get("doc_values").is_some_and(|v| text_of(v) == "true") {
        return Err(malformed(format!("Field [{name}] cannot be analyzed and have doc values")));
    }
    if params.contains_key("search_analyzer") && !params.contains_key("analyzer") && !params.contains_key("index_analyzer") {
        return Err(malformed(format!(
            "analyzer on field [{name}] must be set when search_analyzer is set"
        )));
    }
    Ok(())
}

/// `{"type": "multi_field", "fields": {…}}` of 1.x as the field of that name with the others below it.
pub(crate) fn without_multi_field(name: &str, body: &Params) -> Option<Params> {
    if body.get("type")?.as_str()? != "multi_field" {
        return None;
    }
    let mut fields = body.get("fields").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut main = match fields.remove(name) {
        Some(Value::Object(main)) => main,
        _ => Params::from_iter([("type".into(), "string".into()), ("index".into(), "no".into())]),
    };
    main.insert("fields".into(), Value::Object(fields));
    Some(main)
}

/// Whether a field may become what an update says.
pub(crate) fn check_change(path: &str, old: &FieldType, new: &FieldType) -> Result<()> {
    if old.wire() != new.wire() {
        return Err(Error::illegal(format!(
            "mapper [{path}] of different type, current_type [{}], merged_type [{}]",
            old.wire(),
            new.wire()
        )));
    }
    let given = |field: &FieldType, key: &str| field.params.get(key).cloned();
    let how = |field: &FieldType| match (field.index, field.kind) {
        (false, _) => 0,
        (true, Kind::Text | Kind::MatchOnlyText) => 1,
        (true, _) => 2,
    };
    // Indexed without lengths; numbers have them only for the sake of a boost.
    let lengths = |field: &FieldType| {
        if field.string {
            field.index && field.norms && field.kind.is_text()
        } else {
            (field.boost - 1.0).abs() > f32::EPSILON
        }
    };
    let analyzer = |field: &FieldType| match &field.analyzer {
        Some(analyzer) if field.string => analyzer.name().to_owned(),
        _ => "keyword".to_owned(),
    };
    let mut conflicts = Vec::new();
    let mut differ = |what: &str| conflicts.push(format!("mapper [{path}] has different {what}"));
    if how(old) != how(new) {
        differ("[index] values");
    }
    if old.store != new.store {
        differ("[store] values");
    }
    let columns = |field: &FieldType| field.doc_values && field.params.get("doc_values").is_none_or(|said| *said != false);
    if !columns(old) && columns(new) && (new.index || !new.string) {
        differ("[doc_values] values, cannot change from disabled to enabled");
    }
    if !lengths(old) && lengths(new) {
        differ("[omit_norms] values, cannot change from disable to enabled");
    }
    for (key, what) in [
        ("term_vector", "[store_term_vector] values"),
        ("index_options", "[index_options] values"),
    ] {
        if given(old, key) != given(new, key) {
            differ(what);
        }
    }
    if old.string && new.index && analyzer(old) != analyzer(new) {
        differ("[analyzer]");
    }
    for (key, what) in [
        ("similarity", "[similarity]"),
        ("position_increment_gap", "[position_increment_gap] values"),
    ] {
        if given(old, key) != given(new, key) {
            differ(what);
        }
    }
    if conflicts.is_empty() {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "Mapper for [{path}] conflicts with existing mapping in other types:\n[{}]",
        conflicts.join(", ")
    )))
}

impl Mapping {
    /// Whether an update may say what it says beside fields.
    fn check_update(&self, update: &Mapping) -> Result<()> {
        let (old, new) = (&self.0.top, &update.0.top);
        crate::times::check_update(old, new)?;
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
