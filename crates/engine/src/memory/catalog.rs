//! The catalog of the memory engine: indices with their mappings, settings and aliases, as an immutable value.
//!
//! An alteration makes another catalog or is refused; then nothing has changed. Not here: documents; templates and
//! date names, which this engine refuses or does not read.

use crate::catalog::{self, Behind, flatten, index_closed, missing};
use crate::{AliasAction, Alteration, Altered, IndexInfo};
use mapping::settings::{limits, registry};
use mapping::{Mapping, MappingLimits, Registry, TypedMappings};
use model::path::matches;
use model::{DocId, Error, ErrorKind, IndexName, Result, Target};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The mappings of an index.
#[derive(Clone, Debug)]
enum Mappings {
    Plain(Mapping),
    Typed(TypedMappings),
}

/// One index.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: IndexName,
    pub(super) uuid: String,
    created_ms: i64,
    pub(super) open: bool,
    pub(super) settings: Map<String, Value>,
    mappings: Mappings,
    /// All types of a typed index together: queries resolve fields with it.
    pub(super) mapping: Mapping,
    registry: Registry,
    pub(super) aliases: Map<String, Value>,
}

/// An index that a target leads to, and the alias filters on the way: `None` if it was also reached without one.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub(super) entry: Arc<Entry>,
    pub(super) filters: Option<Vec<Value>>,
}

/// The time and the uuid of a new index.
pub(super) struct Moment {
    pub(super) now_ms: i64,
    pub(super) uuid: String,
}

/// Indices by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog(pub(super) BTreeMap<String, Arc<Entry>>);

impl Entry {
    pub(super) fn has_types(&self) -> bool {
        matches!(self.mappings, Mappings::Typed(_))
    }

    /// The mapping with which documents of a type are read.
    pub(super) fn mapping_for(&self, id: &DocId) -> Result<Mapping> {
        match (&self.mappings, &id.doc_type) {
            (Mappings::Typed(types), Some(doc_type)) => types.for_type(doc_type),
            _ => Ok(self.mapping.clone()),
        }
    }

    /// The id as this index has it: with a type exactly if the index is typed. Without one the only type is meant.
    pub(super) fn identity(&self, id: &DocId) -> Result<DocId> {
        match (&self.mappings, &id.doc_type) {
            (Mappings::Typed(types), None) => match types.types().map(|(name, _)| name).collect::<Vec<_>>()[..] {
                [only] => Ok(DocId::with_type(only, id.id.clone())),
                _ => Err(Error::new(
                    ErrorKind::ActionRequestValidation,
                    "Validation Failed: 1: type is missing;",
                )),
            },
            (Mappings::Plain(_), Some(_)) => Ok(DocId::plain(id.id.clone())),
            _ => Ok(id.clone()),
        }
    }

    /// Refuses who means an index that had this name before.
    pub(super) fn must_be(&self, uuid: Option<&str>) -> Result<()> {
        match uuid {
            Some(uuid) if uuid != self.uuid => Err(crate::catalog::index_replaced(self.name.as_str(), uuid)),
            _ => Ok(()),
        }
    }

    /// Closed indices are neither read nor written.
    pub(super) fn must_be_open(&self) -> Result<()> {
        if self.open {
            Ok(())
        } else {
            Err(index_closed(&self.name, &self.uuid))
        }
    }

    /// Where the mapping requires routing, there must be one.
    pub(super) fn check_routing(&self, id: &DocId, routing: Option<&str>) -> Result<()> {
        if routing.is_some() || !self.mapping_for(id)?.routing_required() {
            return Ok(());
        }
        let doc_type = id.doc_type.as_deref().unwrap_or("_doc");
        let reason = format!("routing is required for [{}]/[{doc_type}]/[{}]", self.name, id.id);
        Err(Error::new(ErrorKind::RoutingMissing, reason).with("index", self.name.as_str()))
    }

    /// With what a document brought. The mapping of the other types stays.
    pub(super) fn grown(&self, id: &DocId, growth: &Mapping) -> Result<Entry> {
        self.with_mappings(match &self.mappings {
            Mappings::Plain(mapping) => Mappings::Plain(mapping.merge(growth)?),
            Mappings::Typed(types) => Mappings::Typed(types.grow(id.doc_type.as_deref().unwrap_or("_doc"), growth)?),
        })
    }

    /// As the contract tells of it.
    pub(super) fn info(&self) -> IndexInfo {
        IndexInfo {
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            created_ms: self.created_ms,
            open: self.open,
            typed: self.has_types(),
            settings: self.settings.clone(),
            mappings: self.render_mappings(),
            mapping: self.mapping.clone(),
            registry: self.registry.clone(),
            aliases: self.aliases.clone(),
            stopped: None,
            troubled: false,
            restored_from: None,
        }
    }

    fn render_mappings(&self) -> Value {
        match &self.mappings {
            Mappings::Plain(mapping) => mapping.render(),
            Mappings::Typed(types) => types.render(),
        }
    }

    fn with_mappings(&self, mappings: Mappings) -> Result<Entry> {
        let mapping = all_types(&mappings, &self.registry, &limits(&self.settings))?;
        Ok(Entry {
            mappings,
            mapping,
            ..self.clone()
        })
    }

    fn put_mapping(&self, doc_type: Option<&str>, body: &Value) -> Result<Entry> {
        self.with_mappings(match &self.mappings {
            Mappings::Plain(mapping) => {
                let inner = doc_type.and_then(|name| body.get(name)).unwrap_or(body);
                Mappings::Plain(mapping.merge(&Mapping::parse(inner, &self.registry, &limits(&self.settings))?)?)
            }
            Mappings::Typed(types) => {
                let only = body.as_object().filter(|o| o.len() == 1).and_then(|o| o.keys().next());
                let Some(name) = doc_type.or(only.map(String::as_str)) else {
                    return Err(Error::new(
                        ErrorKind::ActionRequestValidation,
                        "Validation Failed: 1: mapping type is missing;",
                    ));
                };
                Mappings::Typed(types.put(name, body)?)
            }
        })
    }

    fn put_settings(&self, given: &Map<String, Value>, preserve: bool) -> Result<Entry> {
        let mut merged = self.settings.clone();
        for (name, value) in given {
            if name == "index.number_of_shards" {
                return Err(Error::illegal(format!(
                    "final {} setting [{name}], not updateable",
                    self.name
                )));
            }
            match value {
                _ if preserve && merged.contains_key(name) => {}
                Value::Null => drop(merged.remove(name)),
                value => drop(merged.insert(name.clone(), value.clone())),
            }
        }
        let registry = registry(&merged)?;
        let rendered = self.render_mappings();
        let mappings = match self.has_types() {
            true => Mappings::Typed(TypedMappings::parse_rendered(&rendered, &registry, &limits(&merged))?),
            false => parse_mappings(&rendered, false, &registry, &limits(&merged))?,
        };
        Entry {
            settings: merged,
            registry,
            ..self.clone()
        }
        .with_mappings(mappings)
    }
}

impl Catalog {
    /// The indices of a target, in the order of their names.
    pub(super) fn resolve(&self, target: &Target) -> Result<Vec<Resolved>> {
        let mut found: BTreeMap<&str, Resolved> = BTreeMap::new();
        let all = ["_all".to_owned()];
        let expressions: &[String] = if target.expressions.iter().all(String::is_empty) {
            &all
        } else {
            &target.expressions
        };
        let mut after_wildcard = false;
        for expression in expressions {
            if let Some(pattern) = expression.strip_prefix('-').filter(|_| after_wildcard) {
                found.retain(|name, r| !(matches(pattern, name) || r.entry.aliases.contains_key(pattern)));
            } else if expression == "_all" || expression.contains('*') {
                after_wildcard = true;
                let pattern = if expression == "_all" { "*" } else { expression };
                if !self.wildcard(pattern, target, &mut found) && !target.allow_no_indices {
                    return Err(missing(expression));
                }
            } else {
                self.resolve_name(expression, target, &mut found)?;
            }
        }
        if found.is_empty() && !target.allow_no_indices {
            return Err(missing(&expressions.join(",")));
        }
        Ok(found.into_values().collect())
    }

    /// True if the pattern matched anything.
    fn wildcard<'a>(&'a self, pattern: &str, target: &Target, found: &mut BTreeMap<&'a str, Resolved>) -> bool {
        let mut any = false;
        for (name, entry) in &self.0 {
            let wanted = if entry.open {
                target.expand_open
            } else {
                target.expand_closed
            };
            let hidden = name.starts_with(".pleach-") || entry.settings.get("index.hidden").is_some_and(|v| v == "true");
            if !wanted {
                continue;
            }
            if matches(pattern, name) && (!hidden || target.expand_hidden || pattern.starts_with('.')) {
                any = true;
                add(found, name, entry, None);
                continue;
            }
            for (alias, options) in entry.aliases.iter().filter(|(alias, _)| matches(pattern, alias)) {
                if options["is_hidden"] != true || target.expand_hidden || pattern.starts_with('.') && alias.starts_with('.') {
                    any = true;
                    add(found, name, entry, options.get("filter"));
                }
            }
        }
        any
    }

    fn resolve_name<'a>(&'a self, wanted: &str, target: &Target, found: &mut BTreeMap<&'a str, Resolved>) -> Result<()> {
        let mut any = false;
        for (name, entry) in &self.0 {
            let filter = match entry.aliases.get(wanted) {
                _ if name == wanted => None,
                Some(options) => options.get("filter"),
                None => continue,
            };
            any = true;
            if entry.open || !target.forbid_closed {
                add(found, name, entry, filter);
            } else if !target.ignore_unavailable {
                return Err(index_closed(&entry.name, &entry.uuid));
            }
        }
        if any || target.ignore_unavailable {
            Ok(())
        } else {
            Err(missing(wanted))
        }
    }

    /// The one index that a write to `name` goes to.
    pub(super) fn write_index(&self, name: &str, require_alias: bool) -> Result<Arc<Entry>> {
        if let Some(entry) = self.0.get(name) {
            if require_alias {
                return Err(catalog::no_alias(name));
            }
            return Ok(entry.clone());
        }
        catalog::writer(name, &self.behind(name)).cloned()
    }

    /// The one index that a read of `name` goes to.
    pub(super) fn read_index(&self, name: &str) -> Result<Arc<Entry>> {
        if let Some(entry) = self.0.get(name) {
            return Ok(entry.clone());
        }
        catalog::reader(name, &self.behind(name)).cloned()
    }

    fn behind(&self, alias: &str) -> Vec<Behind<'_, Arc<Entry>>> {
        let entries = self.0.values();
        let behind = entries.filter_map(|entry| Some((entry.name.as_str(), entry.aliases.get(alias)?, entry)));
        behind.collect()
    }

    /// Replaces an entry by its name.
    pub(super) fn put(&mut self, entry: Entry) {
        self.0.insert(entry.name.as_str().to_owned(), Arc::new(entry));
    }

    /// The catalog after an alteration.
    pub(super) fn apply(&self, wish: &Alteration, moment: Moment) -> Result<(Catalog, Altered)> {
        let mut next = self.clone();
        let mut altered = Altered::default();
        match wish {
            Alteration::CreateIndex {
                name, if_absent: true, ..
            } if next.0.contains_key(name) => {
                altered.indices.push(IndexName::new(name.as_str()));
                return Ok((next, altered));
            }
            Alteration::CreateIndex { .. } => altered.indices = vec![next.create(wish, moment)?],
            Alteration::DeleteIndices(target) => altered.indices = next.delete(target)?,
            Alteration::OpenIndices(target) => {
                altered.indices = next.each(&any_state(target), |entry| {
                    Ok(Entry {
                        open: true,
                        ..entry.clone()
                    })
                })?
            }
            Alteration::CloseIndices(target) => {
                altered.indices = next.each(&any_state(target), |entry| {
                    Ok(Entry {
                        open: false,
                        ..entry.clone()
                    })
                })?
            }
            Alteration::PutMapping { target, doc_type, body } => {
                let strict = Target {
                    allow_no_indices: false,
                    forbid_closed: false,
                    ..target.clone()
                };
                altered.indices = next.each(&strict, |entry| entry.put_mapping(doc_type.as_deref(), body))?;
            }
            Alteration::PutSettings {
                target,
                settings,
                preserve_existing,
            } => {
                let flat = flatten(settings);
                altered.indices = next.each(&any_state(target), |entry| entry.put_settings(&flat, *preserve_existing))?;
            }
            Alteration::UpdateAliases(actions) => {
                for action in actions {
                    altered.indices.extend(next.alias(action)?);
                }
                altered.indices.dedup();
            }
            Alteration::Flush(target) | Alteration::ForceMerge { target, .. } => {
                altered.indices = self.resolve(target)?.into_iter().map(|r| r.entry.name.clone()).collect();
                return Ok((next, altered));
            }
            other => {
                let shown = format!("{other:?}");
                let what = shown.split([' ', '(']).next().unwrap_or_default();
                return Err(super::unsupported_request(format!(
                    "the memory engine does not know the alteration [{what}]"
                )));
            }
        }
        altered.changed = true;
        Ok((next, altered))
    }

    fn each(&mut self, target: &Target, change: impl Fn(&Entry) -> Result<Entry>) -> Result<Vec<IndexName>> {
        let mut names = Vec::new();
        for found in self.resolve(target)? {
            self.put(change(&found.entry)?);
            names.push(found.entry.name.clone());
        }
        Ok(names)
    }

    fn create(&mut self, wish: &Alteration, moment: Moment) -> Result<IndexName> {
        let Alteration::CreateIndex {
            name,
            settings: given,
            mappings,
            aliases,
            typed,
            ..
        } = wish
        else {
            unreachable!("create is called with a wish to create");
        };
        check_index_name(name)?;
        if let Some(there) = self.0.get(name) {
            let reason = format!("index [{name}/{}] already exists", there.uuid);
            return Err(Error::new(ErrorKind::IndexAlreadyExists, reason)
                .with("index_uuid", there.uuid.clone())
                .with("index", name.as_str()));
        }
        if !self.behind(name).is_empty() {
            return Err(bad_name(name, "already exists as alias"));
        }
        let mut settings = flatten(given);
        settings.retain(|_, value| !value.is_null());
        if *typed {
            // Indices of 2015 had five unless told otherwise.
            settings
                .entry(model::settings::NUMBER_OF_SHARDS.name)
                .or_insert_with(|| "5".into());
        }
        let (registry, limits) = (registry(&settings)?, limits(&settings));
        let mappings = parse_mappings(mappings.as_ref().unwrap_or(&Value::Null), *typed, &registry, &limits)?;
        let mapping = all_types(&mappings, &registry, &limits)?;
        let mut placed = Map::new();
        for (alias, body) in aliases {
            self.check_alias(alias, name)?;
            placed.insert(alias.clone(), alias_options(body.as_object().unwrap_or(&Map::new())));
        }
        let index = IndexName::new(name.as_str());
        let Moment {
            uuid,
            now_ms: created_ms,
        } = moment;
        self.put(Entry {
            name: index.clone(),
            uuid,
            created_ms,
            open: true,
            settings,
            mappings,
            mapping,
            registry,
            aliases: placed,
        });
        Ok(index)
    }

    fn delete(&mut self, target: &Target) -> Result<Vec<IndexName>> {
        for name in target.expressions.iter().filter(|name| !name.contains('*')) {
            if !self.behind(name).is_empty() && !target.ignore_unavailable {
                return Err(Error::illegal(format!(
                    "The provided expression [{name}] matches an alias, specify the corresponding concrete indices instead."
                )));
            }
        }
        let mut names = Vec::new();
        for found in self.resolve(&any_state(target))? {
            self.0.remove(found.entry.name.as_str());
            names.push(found.entry.name.clone());
        }
        Ok(names)
    }

    fn alias(&mut self, action: &AliasAction) -> Result<Vec<IndexName>> {
        match action {
            AliasAction::Add { target, alias, body } => {
                let strict = Target {
                    allow_no_indices: false,
                    forbid_closed: false,
                    ..target.clone()
                };
                let options = alias_options(body);
                let mut names = Vec::new();
                for found in self.resolve(&strict)? {
                    let name = &found.entry.name;
                    self.check_alias(alias, name.as_str())?;
                    let writer = self
                        .behind(alias)
                        .into_iter()
                        .find(|(other, options, _)| *other != name.as_str() && options["is_write_index"] == true);
                    if let Some(writer) = writer.filter(|_| options["is_write_index"] == true) {
                        let reason = format!("alias [{alias}] has more than one write index [{},{name}]", writer.0);
                        return Err(Error::new(ErrorKind::IllegalState, reason).status_of(400));
                    }
                    let mut entry = (*found.entry).clone();
                    entry.aliases.insert(alias.clone(), options.clone());
                    names.push(entry.name.clone());
                    self.put(entry);
                }
                Ok(names)
            }
            AliasAction::Remove {
                target,
                alias,
                must_exist,
            } => {
                let mut names = Vec::new();
                for found in self.resolve(&Target {
                    forbid_closed: false,
                    ..target.clone()
                })? {
                    let mut entry = (*found.entry).clone();
                    entry.aliases.retain(|name, _| !matches(alias, name));
                    if entry.aliases.len() < found.entry.aliases.len() {
                        names.push(entry.name.clone());
                        self.put(entry);
                    }
                }
                if names.is_empty() && *must_exist {
                    return Err(Error::new(ErrorKind::AliasesNotFound, format!("aliases [{alias}] missing"))
                        .with("resource.type", "aliases")
                        .with("resource.id", alias.as_str()));
                }
                Ok(names)
            }
            AliasAction::RemoveIndex { target } => self.delete(target),
        }
    }

    fn check_alias(&self, alias: &str, index: &str) -> Result<()> {
        let why = match problem(alias) {
            Some(why) => why,
            None if self.0.contains_key(alias) || alias == index => {
                "an index or data stream exists with the same name as the alias"
            }
            None => return Ok(()),
        };
        Err(Error::new(ErrorKind::InvalidAliasName, format!("Invalid alias name [{alias}]: {why}")).with("index", alias))
    }
}

fn add<'a>(found: &mut BTreeMap<&'a str, Resolved>, name: &'a str, entry: &Arc<Entry>, filter: Option<&Value>) {
    let filter = filter.filter(|filter| !filter.is_null()).cloned();
    match found.get_mut(name) {
        None => drop(found.insert(
            name,
            Resolved {
                entry: entry.clone(),
                filters: filter.map(|f| vec![f]),
            },
        )),
        Some(known) => match (&mut known.filters, filter) {
            (Some(filters), Some(filter)) => filters.push(filter),
            (filters, _) => *filters = None,
        },
    }
}

/// Open or closed, by name or by wildcard.
fn any_state(target: &Target) -> Target {
    Target {
        forbid_closed: false,
        expand_closed: true,
        ..target.clone()
    }
}

fn bad_name(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::InvalidIndexName, format!("Invalid index name [{name}], {why}"))
        .with("index_uuid", "_na_")
        .with("index", name)
}

fn check_index_name(name: &str) -> Result<()> {
    match problem(name).or_else(|| (name.to_lowercase() != name).then_some("must be lowercase")) {
        Some(why) => Err(bad_name(name, why)),
        None => Ok(()),
    }
}

fn problem(name: &str) -> Option<&'static str> {
    let rules = [
        (name.is_empty(), "must not be empty"),
        (
            name.contains(['\\', '/', '*', '?', '"', '<', '>', '|', ' ', ',']),
            "must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]",
        ),
        (name.contains('#'), "must not contain '#'"),
        (name.contains(':'), "must not contain ':'"),
        (name.starts_with(['_', '-', '+']), "must not start with '_', '-', or '+'"),
        (name.len() > 255, "index name is too long, (> 255)"),
        (name == "." || name == "..", "must not be '.' or '..'"),
    ];
    rules.into_iter().find(|(broken, _)| *broken).map(|(_, why)| why)
}

fn alias_options(body: &Map<String, Value>) -> Value {
    let mut out = Map::new();
    for (key, value) in body.iter().filter(|(_, value)| !value.is_null()) {
        if key == "routing" {
            out.entry("index_routing").or_insert_with(|| value.clone());
            out.entry("search_routing").or_insert_with(|| value.clone());
        } else {
            out.insert(key.clone(), value.clone());
        }
    }
    Value::Object(out)
}

fn parse_mappings(body: &Value, typed: bool, registry: &Registry, limits: &MappingLimits) -> Result<Mappings> {
    Ok(if typed {
        Mappings::Typed(TypedMappings::parse(body, registry, limits)?)
    } else {
        Mappings::Plain(Mapping::parse_new(body, registry, limits)?)
    })
}

fn all_types(mappings: &Mappings, registry: &Registry, limits: &MappingLimits) -> Result<Mapping> {
    let types = match mappings {
        Mappings::Plain(mapping) => return Ok(mapping.clone()),
        Mappings::Typed(types) => types,
    };
    let mut properties = json!({});
    for (_, mapping) in types.types() {
        if let Some(fields) = mapping.render().get("properties") {
            crate::merge(&mut properties, fields, 0);
        }
    }
    TypedMappings::parse(&json!({ "all": { "properties": properties } }), registry, limits)?.for_type("all")
}
