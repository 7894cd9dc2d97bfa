//! Alterations: from a catalog and a wish to the next catalog and the deltas that lead there. Pure.
//!
//! Not here: logging the deltas, what becomes of segments; `Flush` and `ForceMerge` are no changes of the catalog.

use super::resolve::Resolved;
use super::{Catalog, IndexEntry, names, parse_mappings, settings, system, templates, union};
use engine::{AliasAction, Alteration, Altered, TemplateKind};
use mapping::{MappingLimits, Mappings, Registry};
use model::blocks::{self, Level};
use model::lock_index::LockIndex;
use model::system_index::is_system;
use model::{Error, ErrorKind, IndexName, Result, Target, Topic, nearest};
use segment::schema::IndexSchema;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The values that an alteration takes from outside the catalog.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub now_ms: i64,
    /// For a new index.
    pub uuid: String,
    /// Unclean starts of the folder so far.
    pub unclean: u64,
}

/// The catalog after an alteration, and how it is logged.
#[derive(Debug)]
pub struct Next {
    /// The catalog.
    pub catalog: Catalog,
    /// Deltas with the index they are of; 0 is none.
    pub deltas: Vec<(u32, Value)>,
    /// Indices that are gone.
    pub removed: Vec<u32>,
    /// For the answer.
    pub altered: Altered,
}

impl Next {
    pub(super) fn of(catalog: &Catalog) -> Next {
        Next {
            catalog: catalog.clone(),
            deltas: Vec::new(),
            removed: Vec::new(),
            altered: Altered::default(),
        }
    }
    pub(super) fn put(&mut self, entry: IndexEntry) {
        assert!(
            self.catalog
                .by_no(entry.no)
                .is_none_or(|before| before.uuid == entry.uuid && before.name == entry.name && before.revision < entry.revision),
            "1.1: revision {} of index {} is no later one of the same index",
            entry.revision,
            entry.no
        );
        let logged = entry.to_json();
        debug_assert!(
            IndexEntry::from_json(&logged).is_ok_and(|read| read.to_json() == logged),
            "2: a start reads the entry of an index as it is logged: {logged}"
        );
        self.deltas.push((entry.no, json!({ "index": logged })));
        if !self.altered.indices.contains(&entry.name) {
            self.altered.indices.push(entry.name.clone());
        }
        self.altered.changed = true;
        self.catalog.put(entry);
    }
    pub(super) fn remove(&mut self, entry: &IndexEntry) {
        self.catalog.remove(entry.no);
        self.deltas.push((entry.no, json!({ "delete": entry.no })));
        self.removed.push(entry.no);
        self.altered.indices.push(entry.name.clone());
        self.altered.changed = true;
    }
    pub(super) fn common(&mut self) {
        self.deltas.push((0, json!({ "common": self.catalog.common_to_json() })));
        self.altered.changed = true;
    }
}

/// Works an alteration out.
///
/// # Errors
/// Refusals in Elasticsearch's words; then nothing has changed.
pub fn alter(catalog: &Catalog, wish: &Alteration, moment: &Moment) -> Result<Next> {
    system::check(wish, moment.now_ms)?;
    let mut next = Next::of(catalog);
    match wish {
        Alteration::CreateIndex { .. } => create(&mut next, wish, moment)?,
        Alteration::DeleteIndices(target) => delete(&mut next, target, moment)?,
        Alteration::OpenIndices(target) => open(&mut next, target, true, moment)?,
        Alteration::CloseIndices(target) => open(&mut next, target, false, moment)?,
        Alteration::PutMapping { target, doc_type, body } => put_mapping(&mut next, target, doc_type.as_deref(), body, moment)?,
        Alteration::PutSettings {
            target,
            settings,
            preserve_existing,
        } => {
            put_settings(&mut next, target, settings, *preserve_existing, moment)?;
        }
        Alteration::UpdateAliases(actions) => aliases(&mut next, actions, moment)?,
        Alteration::PutTemplate {
            name,
            kind,
            body,
            create,
        } => put_template(&mut next, name, *kind, body, *create)?,
        Alteration::DeleteTemplate { name, kind } => delete_template(&mut next, name, *kind)?,
        Alteration::PutScript { id, body } => {
            next.catalog.scripts.insert(id.clone(), body.clone());
            next.common();
        }
        Alteration::DeleteScript { id } => {
            if next.catalog.scripts.remove(id).is_none() {
                return Err(Error::new(
                    ErrorKind::ResourceNotFound,
                    format!("stored script [{id}] does not exist and cannot be deleted"),
                ));
            }
            next.common();
        }
        Alteration::ClusterSettings { persistent, transient } => cluster(&mut next, persistent, transient)?,
        Alteration::Flush(_) | Alteration::ForceMerge { .. } => {}
    }
    Ok(next)
}

fn create(next: &mut Next, wish: &Alteration, moment: &Moment) -> Result<()> {
    let Alteration::CreateIndex {
        name,
        settings: given,
        mappings,
        aliases,
        typed,
        if_absent,
    } = wish
    else {
        return Ok(());
    };
    let name = model::date_name::resolve(name, moment.now_ms)?.into_owned();
    names::check_index(&name)?;
    if let Some(there) = next.catalog.indices.get(&name).filter(|_| *if_absent) {
        next.altered.indices.push(there.name.clone());
        return Ok(());
    }
    check_new(&next.catalog, &name)?;
    let template = templates::for_index(&next.catalog, &name)?;
    let (typed, bodies) = alike(template.mappings, mappings.as_ref(), *typed, &name)?;
    let flat = settings_of(template.settings, template.warmers, given, typed)?;
    let registry = mapping::settings::registry(&flat)?;
    let limits = mapping::settings::limits(&flat);
    let mapped = mappings_of(&bodies, typed, &registry, &limits)?;
    let mapping = union(&mapped, &registry, &flat)?;
    settings::check_sort(&flat, &mapping)?;
    let mut placed = template.aliases;
    placed.extend(aliases.clone());
    let mut checked = Map::new();
    for (alias, body) in placed {
        check_alias(&next.catalog, &alias, &name, typed)?;
        let options = templates::alias_options(body.as_object().unwrap_or(&Map::new()));
        check_filter(&alias, &options, typed)?;
        checked.insert(alias, Value::Object(options));
    }
    let no = next.catalog.next_no.max(1);
    // Fencing tokens count from the terms of the control index. Where another may have been before it (old versions let
    // clients delete it), its terms begin above all of that one's: those counted the unclean starts of the folder at most.
    let (unclean_before, turns, first_seq_no) = if is_system(&name) {
        (0, u64::from(no > 1), Some(system::first_seq_no(no, moment.unclean)))
    } else {
        (moment.unclean, 0, None)
    };
    next.put(IndexEntry {
        no,
        name: IndexName::new(name),
        uuid: moment.uuid.clone(),
        created_ms: moment.now_ms,
        open: true,
        settings: Arc::new(flat),
        schema: Arc::new(IndexSchema::of(&mapping)),
        mappings: mapped,
        mapping,
        registry,
        aliases: checked,
        revision: 1,
        unclean_before,
        turns,
        first_seq_no,
        restored_from: None,
    });
    Ok(())
}

/// Refuses an index whose name is taken, and one more than there may be.
fn check_new(catalog: &Catalog, name: &str) -> Result<()> {
    if let Some(there) = catalog.indices.get(name) {
        let reason = format!("index [{name}/{}] already exists", there.uuid);
        return Err(Error::new(ErrorKind::IndexAlreadyExists, reason)
            .with("index_uuid", there.uuid.clone())
            .with("index", name));
    }
    if catalog.indices.values().any(|entry| entry.aliases.contains_key(name)) {
        let reason = format!("Invalid index name [{name}], already exists as alias");
        return Err(Error::new(ErrorKind::InvalidIndexName, reason)
            .with("index_uuid", "_na_")
            .with("index", name));
    }
    let max = catalog.cluster_number(model::settings::MAX_INDICES);
    let of_clients = catalog.indices.values().filter(|entry| !entry.is_system()).count() as u64;
    if of_clients >= max && !is_system(name) {
        return Err(Error::illegal(format!(
            "there are [{max}] indices already; the limit is the setting [cluster.max_indices]"
        )));
    }
    Ok(())
}

/// The settings of a new index: those of its templates under its own.
fn settings_of(
    of_templates: Map<String, Value>,
    warmers: Map<String, Value>,
    given: &Map<String, Value>,
    typed: bool,
) -> Result<Map<String, Value>> {
    let mut flat = of_templates;
    flat.extend(engine::catalog::flatten(given));
    flat.retain(|_, value| !value.is_null());
    templates::Given::settle_warmers(warmers, &mut flat);
    if typed {
        // Indices of 2015 had five unless told otherwise.
        flat.entry(model::settings::NUMBER_OF_SHARDS.name)
            .or_insert_with(|| "5".into());
    }
    settings::check(&flat)?;
    if let (LockIndex::Types(types), false) = (LockIndex::of(&flat)?, typed) {
        let (name, setting) = (types.join(", "), model::settings::PLEACH_LOCK_INDEX.name);
        return Err(Error::illegal(format!(
            "[{setting}] names the types [{name}], but the index has none: its documents are all locks with [true]"
        )));
    }
    Ok(flat)
}

/// The mappings of a new index, of all bodies together.
fn mappings_of(bodies: &[Value], typed: bool, registry: &Registry, limits: &MappingLimits) -> Result<Mappings> {
    let mut mapped: Option<Mappings> = None;
    for body in bodies {
        let parsed = parse_mappings(body, typed, registry, limits)?;
        mapped = Some(match (mapped, parsed) {
            (None, parsed) => parsed,
            (Some(Mappings::Plain(old)), Mappings::Plain(new)) => Mappings::Plain(old.merge(&new)?),
            (Some(Mappings::Typed(mut old)), Mappings::Typed(new)) => {
                for (doc_type, mapping) in new.types() {
                    old = old.merge(doc_type, mapping)?;
                }
                Mappings::Typed(old)
            }
            (Some(old), _) => old,
        });
    }
    match mapped {
        Some(mapped) => Ok(mapped),
        None => parse_mappings(&Value::Null, typed, registry, limits),
    }
}

/// The bodies of a new index's mappings with a type level everywhere or nowhere, as the request has it. A request without
/// mappings leaves it to the templates.
///
/// # Errors
/// Documents of a type, and templates without one.
fn alike(templates: Vec<Value>, request: Option<&Value>, typed: bool, index: &str) -> Result<(bool, Vec<Value>)> {
    let type_of = |body: &Value| {
        let types = body.as_object().filter(|_| mapping::has_type_level(body))?;
        types.keys().next().filter(|_| types.len() == 1).cloned()
    };
    let typed = typed || request.is_none() && templates.iter().any(|body| type_of(body).is_some());
    let plain = |body: &Value| !mapping::has_type_level(body) && body.as_object().is_some_and(|map| !map.is_empty());
    let name = request.into_iter().chain(&templates).find_map(type_of);
    if typed && name.is_none() && templates.iter().any(plain) {
        return Err(Error::illegal(format!(
            "Rejecting mapping update to [{index}] as the final mapping would have more than 1 type: \
             its template is of [_doc], the documents are of another"
        )));
    }
    let name = name.unwrap_or_default();
    let fitted = templates.into_iter().map(|body| match (typed, type_of(&body)) {
        (true, None) if plain(&body) => json!({ name.clone(): body }),
        (false, Some(other)) => body[&other].clone(),
        _ => body,
    });
    let mut bodies: Vec<Value> = fitted.collect();
    bodies.extend(request.cloned());
    Ok((typed, bodies))
}

/// A filter must be a query.
pub(super) fn check_filter(alias: &str, options: &Map<String, Value>, typed: bool) -> Result<()> {
    let Some(filter) = options.get("filter").filter(|filter| filter.is_object()) else {
        return Ok(());
    };
    crate::catalog::alias_filter::check(filter, typed)
        .map_err(|cause| Error::illegal(format!("failed to parse filter for alias [{alias}]")).with_cause(cause))
}

/// Clients of typed indices are told the index that the alias was for, as they were in 2015.
pub(super) fn check_alias(catalog: &Catalog, alias: &str, index: &str, typed: bool) -> Result<()> {
    names::check_alias(alias)?;
    if catalog.indices.contains_key(alias) || alias == index {
        let reason = format!("Invalid alias name [{alias}]: an index or data stream exists with the same name as the alias");
        return Err(Error::new(ErrorKind::InvalidAliasName, reason)
            .with("index_uuid", "_na_")
            .with("index", if typed { index } else { alias })
            .about(Topic::AliasIsIndex { alias: alias.to_owned() }));
    }
    Ok(())
}

/// Indices named themselves or by wildcards, never through aliases.
fn delete(next: &mut Next, target: &Target, moment: &Moment) -> Result<()> {
    let strict = Target {
        forbid_closed: false,
        expand_closed: true,
        ..target.clone()
    };
    for name in target.expressions.iter().filter(|name| !name.contains('*')) {
        if let Some(entry) = next
            .catalog
            .indices
            .values()
            .find(|entry| entry.aliases.contains_key(name.as_str()))
        {
            if target.ignore_unavailable {
                continue;
            }
            return Err(Error::illegal(format!(
                "The provided expression [{name}] matches an alias, specify the corresponding concrete indices instead."
            ))
            .with("index", entry.name.as_str()));
        }
    }
    let found = next.catalog.without_aliases().resolve(&strict, moment.now_ms)?;
    for one in &found {
        blocks::check(&one.entry.settings, one.entry.name.as_str(), Level::Delete)?;
    }
    for found in found {
        next.remove(&found.entry);
    }
    Ok(())
}

fn open(next: &mut Next, target: &Target, open: bool, moment: &Moment) -> Result<()> {
    let all = Target {
        forbid_closed: false,
        ..target.clone()
    };
    for found in next.catalog.resolve(&all, moment.now_ms)? {
        blocks::check(&found.entry.settings, found.entry.name.as_str(), Level::MetadataWrite)?;
        if found.entry.open != open {
            next.put(IndexEntry {
                open,
                turns: found.entry.turns + 1,
                revision: found.entry.revision + 1,
                ..(*found.entry).clone()
            });
        } else {
            next.altered.indices.push(found.entry.name.clone());
        }
    }
    Ok(())
}

/// Indices whose metadata is to be changed, closed ones among them: at least one.
fn alterable(next: &Next, target: &Target, moment: &Moment) -> Result<Vec<Resolved>> {
    let strict = Target {
        allow_no_indices: false,
        forbid_closed: false,
        ..target.clone()
    };
    next.catalog.resolve(&strict, moment.now_ms)
}

fn put_mapping(next: &mut Next, target: &Target, doc_type: Option<&str>, body: &Value, moment: &Moment) -> Result<()> {
    for found in alterable(next, target, moment)? {
        let entry = &found.entry;
        blocks::check(&entry.settings, entry.name.as_str(), Level::MetadataWrite)?;
        let limits = mapping::settings::limits(&entry.settings);
        let mappings = match &entry.mappings {
            Mappings::Plain(mapping) if doc_type.is_some() => {
                let name = doc_type.unwrap_or_default();
                if !mapping.is_empty() {
                    return Err(more_than_one_type(entry, ["_doc", name]));
                }
                Mappings::Typed(parse_types(&entry.registry, &limits)?.put(name, body)?)
            }
            Mappings::Plain(mapping) => {
                Mappings::Plain(mapping.merge(&mapping::Mapping::parse_update(body, &entry.registry, &limits)?)?)
            }
            Mappings::Typed(types) => {
                let only = body.as_object().filter(|o| o.len() == 1 && mapping::has_type_level(body));
                let only = only.and_then(|o| o.keys().next());
                // A body without a type is of the only type that there is.
                let known = match types.types().map(|(name, _)| name).collect::<Vec<_>>()[..] {
                    [one] => Some(one),
                    _ => None,
                };
                let Some(name) = doc_type.or(only.map(String::as_str)).or(known) else {
                    return Err(Error::new(
                        ErrorKind::ActionRequestValidation,
                        "Validation Failed: 1: mapping type is missing;",
                    ));
                };
                Mappings::Typed(types.put(name, body)?)
            }
        };
        let changed = entry.with_mappings(mappings)?;
        next.put(changed);
    }
    Ok(())
}

/// As Elasticsearch 7 refuses it, where an index has one type.
fn more_than_one_type(entry: &IndexEntry, types: [&str; 2]) -> Error {
    Error::illegal(format!(
        "Rejecting mapping update to [{}] as the final mapping would have more than 1 type: [{}]",
        entry.name,
        types.join(", ")
    ))
}

fn parse_types(registry: &mapping::Registry, limits: &mapping::MappingLimits) -> Result<mapping::TypedMappings> {
    mapping::TypedMappings::parse(&Value::Null, registry, limits)
}

fn put_settings(next: &mut Next, target: &Target, given: &Map<String, Value>, preserve: bool, moment: &Moment) -> Result<()> {
    let flat = engine::catalog::flatten(given);
    let all = Target {
        forbid_closed: false,
        expand_closed: true,
        ..target.clone()
    };
    for found in next.catalog.resolve(&all, moment.now_ms)? {
        let entry = &found.entry;
        if !blocks::lifts(&flat) {
            blocks::check(&entry.settings, entry.name.as_str(), Level::MetadataWrite)?;
        }
        settings::check_update(entry, &flat)?;
        let mut merged = (*entry.settings).clone();
        for (name, value) in &flat {
            if preserve && merged.contains_key(name) {
                continue;
            }
            if value.is_null() {
                merged.remove(name);
            } else {
                merged.insert(name.clone(), value.clone());
            }
        }
        // Analyzers may change while the index is closed, limits at any time: what rests on them is read again.
        let mut json = IndexEntry {
            settings: Arc::new(merged),
            revision: entry.revision + 1,
            ..(**entry).clone()
        }
        .to_json();
        json["shapes"] = entry.schema.to_json();
        next.put(IndexEntry::from_json(&json)?);
    }
    Ok(())
}

/// # Errors
/// Another index is the one that the alias writes to.
fn check_write_index(catalog: &Catalog, alias: &str, entry: &IndexEntry) -> Result<()> {
    let writes_to = |other: &&Arc<IndexEntry>| {
        let alias = other.aliases.get(alias);
        other.no != entry.no && alias.is_some_and(|alias| alias["is_write_index"] == true)
    };
    let Some(other) = catalog.indices.values().find(writes_to) else {
        return Ok(());
    };
    let reason = format!(
        "alias [{alias}] has more than one write index [{},{}]",
        other.name, entry.name
    );
    Err(Error::new(ErrorKind::IllegalState, reason).status_of(400))
}

fn aliases(next: &mut Next, actions: &[AliasAction], moment: &Moment) -> Result<()> {
    for action in actions {
        match action {
            AliasAction::Add { target, alias, body } => {
                for found in alterable(next, target, moment)? {
                    let entry = &found.entry;
                    blocks::check(&entry.settings, entry.name.as_str(), Level::MetadataWrite)?;
                    check_alias(&next.catalog, alias, entry.name.as_str(), entry.has_types())?;
                    let options = templates::alias_options(body);
                    check_filter(alias, &options, entry.has_types())?;
                    if options.get("is_write_index") == Some(&Value::Bool(true)) {
                        check_write_index(&next.catalog, alias, entry)?;
                    }
                    let mut all = entry.aliases.clone();
                    all.insert(alias.clone(), Value::Object(options));
                    next.put(IndexEntry {
                        aliases: all,
                        revision: entry.revision + 1,
                        ..(**entry).clone()
                    });
                }
            }
            AliasAction::Remove {
                target,
                alias,
                must_exist,
            } => {
                let all = Target {
                    forbid_closed: false,
                    ..target.clone()
                };
                let mut any = false;
                for found in next.catalog.resolve(&all, moment.now_ms)? {
                    let entry = &found.entry;
                    blocks::check(&entry.settings, entry.name.as_str(), Level::MetadataWrite)?;
                    let mut kept = entry.aliases.clone();
                    kept.retain(|name, _| !model::path::matches(alias, name));
                    if kept.len() < entry.aliases.len() {
                        any = true;
                        next.put(IndexEntry {
                            aliases: kept,
                            revision: entry.revision + 1,
                            ..(**entry).clone()
                        });
                    }
                }
                if !any && *must_exist {
                    return Err(Error::new(ErrorKind::AliasesNotFound, format!("aliases [{alias}] missing"))
                        .with("resource.type", "aliases")
                        .with("resource.id", alias.as_str()));
                }
            }
            AliasAction::RemoveIndex { target } => delete(next, target, moment)?,
        }
    }
    Ok(())
}

fn put_template(next: &mut Next, name: &str, kind: TemplateKind, body: &Value, create: bool) -> Result<()> {
    let key = templates::key(kind, name);
    if create && next.catalog.templates.contains_key(&key) {
        let what = match kind {
            TemplateKind::Legacy => "index_template",
            TemplateKind::Index => "index template",
            TemplateKind::Component => "component template",
        };
        return Err(Error::illegal(format!("{what} [{name}] already exists")).about(Topic::TemplateExists));
    }
    let inner = if kind == TemplateKind::Legacy {
        body
    } else {
        &body["template"]
    };
    if let Some(given) = inner["settings"].as_object() {
        settings::check(&engine::catalog::flatten(given))?;
    }
    if kind == TemplateKind::Index {
        for component in body["composed_of"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !next
                .catalog
                .templates
                .contains_key(&templates::key(TemplateKind::Component, component))
            {
                return Err(Error::new(
                    ErrorKind::InvalidTemplateOld,
                    format!(
                        "index_template [{name}] invalid, cause [index template [{name}] specifies component templates \
                         [{component}] that do not exist]"
                    ),
                ));
            }
        }
    }
    next.catalog.templates.insert(key, body.clone());
    next.common();
    Ok(())
}

fn delete_template(next: &mut Next, name: &str, kind: TemplateKind) -> Result<()> {
    let pattern = templates::key(kind, name);
    let before = next.catalog.templates.len();
    next.catalog.templates.retain(|key, _| !model::path::matches(&pattern, key));
    if next.catalog.templates.len() == before && !name.contains('*') {
        return Err(Error::new(
            ErrorKind::IndexTemplateMissing,
            format!("index_template [{name}] missing"),
        ));
    }
    next.common();
    Ok(())
}

fn cluster(next: &mut Next, persistent: &Map<String, Value>, transient: &Map<String, Value>) -> Result<()> {
    use model::settings::{ALL, Scope, find};
    let mut change = |given: &Map<String, Value>, persistent: bool| -> Result<()> {
        let mut flat = Map::new();
        flatten_plain("", &Value::Object(given.clone()), &mut flat);
        for (name, value) in flat {
            let ours = find(&name).is_some_and(|s| s.scope == Scope::Cluster);
            let accepted = model::accepted_settings::find(&name).is_some_and(|s| s.scope == Scope::Cluster);
            if !ours && !accepted {
                let scope = if persistent { "persistent" } else { "transient" };
                let known = ALL.iter().filter(|s| s.scope == Scope::Cluster).map(|s| s.name);
                let hint = nearest::hint(&name, known);
                return Err(Error::illegal(format!("{scope} setting [{name}], not recognized{hint}")));
            }
            model::accepted_settings::check(&name, &value)?;
            if let Some(setting) = find(&name) {
                check_cluster_value(setting, &value)?;
            }
            let map = if persistent {
                &mut next.catalog.persistent
            } else {
                &mut next.catalog.transient
            };
            if value.is_null() {
                map.retain(|key, _| !model::path::matches(&name, key));
            } else {
                map.insert(name, value);
            }
        }
        Ok(())
    };
    change(persistent, true)?;
    change(transient, false)?;
    next.common();
    Ok(())
}

/// Refuses what cannot be read, and what only a start can change.
fn check_cluster_value(setting: &model::settings::Setting, value: &Value) -> Result<()> {
    let name = setting.name;
    if setting.scope != model::settings::Scope::Cluster {
        return Err(Error::illegal(format!(
            "setting [{name}] is fixed while the node runs: give it at the start, with -E {name}=VALUE"
        )));
    }
    let Some(text) = value.as_str() else { return Ok(()) };
    if let Some(checked) = model::watermarks::check(name, text) {
        return checked;
    }
    let unreadable = || Error::illegal(format!("Failed to parse value [{text}] for setting [{name}]"));
    if setting.default.parse::<u64>().is_ok() {
        text.parse::<u64>().map(drop).map_err(|_| unreadable())
    } else if matches!(setting.default, "true" | "false") {
        text.parse::<bool>().map(drop).map_err(|_| unreadable())
    } else if setting.default.ends_with('b') {
        model::units::parse_bytes(text, name).map(drop)
    } else {
        model::units::parse_duration(text, name).map(drop)
    }
}

fn flatten_plain(name: &str, value: &Value, out: &mut Map<String, Value>) {
    match value {
        Value::Object(inner) => {
            for (key, value) in inner {
                let path = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                flatten_plain(&path, value, out);
            }
        }
        Value::String(_) | Value::Null | Value::Array(_) => drop(out.insert(name.to_owned(), value.clone())),
        other => drop(out.insert(name.to_owned(), Value::String(other.to_string()))),
    }
}
