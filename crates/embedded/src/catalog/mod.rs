//! The catalog as a value: indices with their mappings, settings and aliases; templates; scripts; cluster settings.
//!
//! Immutable: an alteration makes another catalog and the deltas to log ([`alter`]); applying a delta twice, or
//! one older than what is there, changes nothing. Resolving names is in [`resolve`].
//!
//! Not here: documents, segments, the log.

pub mod alias_filter;
pub mod alter;
pub mod names;
pub mod repositories;
pub mod resolve;
pub mod restored;
pub mod settings;
pub mod system;
pub mod templates;

use engine::snapshots::RestoredFrom;
use mapping::{Mapping, MappingLimits, Mappings, Registry, TypedMappings};
use model::system_index::is_system;
use model::{DocId, Error, ErrorKind, IndexName, Result};
use rustc_hash::FxHasher;
use segment::schema::IndexSchema;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

/// Everything that is known by name.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name.
    pub indices: BTreeMap<String, Arc<IndexEntry>>,
    /// The same by number; [`Catalog::put`] and [`Catalog::remove`] keep both.
    numbers: BTreeMap<u32, Arc<IndexEntry>>,
    /// For each form, by its hash, an index that has it: the next one takes its parts.
    forms: BTreeMap<u64, u32>,
    /// `kind/name` → body.
    pub templates: BTreeMap<String, Value>,
    /// By id.
    pub scripts: BTreeMap<String, Value>,
    /// Snapshot repositories, by name: `type` and `settings`.
    pub repositories: BTreeMap<String, Value>,
    /// Cluster settings, flat.
    pub persistent: Map<String, Value>,
    /// Cluster settings that end with the process; the log and the manifest do not have them.
    pub transient: Map<String, Value>,
    /// The number of the next index.
    pub next_no: u32,
}

/// One index.
#[derive(Clone, Debug)]
pub struct IndexEntry {
    /// Never used twice.
    pub no: u32,
    /// Its name.
    pub name: IndexName,
    /// 22 characters.
    pub uuid: String,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// Open?
    pub open: bool,
    /// Flat, with `index.`.
    pub settings: Arc<Map<String, Value>>,
    /// As they are rendered, typed or not.
    pub mappings: Mappings,
    /// All types of a typed index together, else the one mapping.
    pub mapping: Mapping,
    /// Its analyzers.
    pub registry: Registry,
    /// Where paths lie.
    pub schema: Arc<IndexSchema>,
    /// Alias → filter, index_routing, search_routing, is_write_index, is_hidden.
    pub aliases: Map<String, Value>,
    /// Counts the alterations of this index.
    pub revision: u64,
    /// Unclean starts of the folder before it was made: the primary term counts from there.
    pub unclean_before: u64,
    /// How often it was closed or opened: the primary term counts these too.
    pub turns: u64,
    /// For a system index: where its sequence numbers began, behind those of one that may have been before it. `None`: a version
    /// made it that numbered commits and locks otherwise.
    pub first_seq_no: Option<u64>,
    /// The snapshot that it was made of, if it was.
    pub restored_from: Option<RestoredFrom>,
}

impl IndexEntry {
    /// Identity is (type, id).
    pub fn has_types(&self) -> bool {
        matches!(self.mappings, Mappings::Typed(_))
    }
    /// Kept by the server itself.
    pub fn is_system(&self) -> bool {
        is_system(self.name.as_str())
    }
    /// `.pleach-*` and names that settings hide.
    pub fn is_hidden(&self) -> bool {
        self.is_system() || model::settings::text(&self.settings, HIDDEN) == "true"
    }
    /// The id as this index has it: with a type exactly if the index is typed. Without one the only type is meant.
    ///
    /// # Errors
    /// No type where there are several.
    pub fn identity(&self, id: &DocId) -> Result<DocId> {
        match (&self.mappings, &id.doc_type) {
            (Mappings::Plain(_), Some(_)) => Ok(DocId::plain(id.id.clone())),
            (Mappings::Typed(types), None) => match types.types().map(|(name, _)| name).collect::<Vec<_>>()[..] {
                [only] => Ok(DocId::with_type(only, id.id.clone())),
                _ => Err(Error::new(
                    ErrorKind::ActionRequestValidation,
                    "Validation Failed: 1: type is missing;",
                )),
            },
            _ => Ok(id.clone()),
        }
    }
    /// The mapping with which documents of a type are read.
    ///
    /// # Errors
    /// A `_default_` mapping that cannot begin another.
    pub fn mapping_for(&self, doc_type: Option<&str>) -> Result<Mapping> {
        match (&self.mappings, doc_type) {
            (Mappings::Typed(types), Some(doc_type)) => types.for_type(doc_type),
            _ => Ok(self.mapping.clone()),
        }
    }
    /// The mapping under which replay reads a logged operation on this document. It is asked before an operation is
    /// logged and when it is replayed, so that nothing lies in the log that a start cannot apply.
    ///
    /// # Errors
    /// As [`IndexEntry::mapping_for`]: a type that no document can have.
    pub fn replayed_mapping(&self, uid: &str) -> Result<Mapping> {
        self.mapping_for(DocId::from_uid(uid, self.has_types()).doc_type.as_deref())
    }
    /// Where the mapping requires routing, there must be one.
    ///
    /// # Errors
    /// `routing_missing_exception`.
    pub fn check_routing(&self, id: &DocId, routing: Option<&str>) -> Result<()> {
        if routing.is_some() || !self.mapping_for(id.doc_type.as_deref())?.routing_required() {
            return Ok(());
        }
        let doc_type = id.doc_type.as_deref().unwrap_or("_doc");
        let reason = format!("routing is required for [{}]/[{doc_type}]/[{}]", self.name, id.id);
        Err(Error::new(ErrorKind::RoutingMissing, reason).with("index", self.name.as_str()))
    }
    /// The routing of a write through a name: an alias' own, or the one given.
    ///
    /// # Errors
    /// An alias whose routing is another.
    pub fn routing_through(&self, name: &str, given: Option<String>) -> Result<Option<String>> {
        let own = self
            .aliases
            .get(name)
            .and_then(|alias| alias.get("index_routing"))
            .and_then(Value::as_str);
        model::routing::through(name, own, given)
    }
    /// The mappings as rendered.
    pub fn render_mappings(&self) -> Value {
        match &self.mappings {
            Mappings::Plain(mapping) => mapping.render(),
            Mappings::Typed(types) => types.render(),
        }
    }
    /// Names of the types.
    pub fn types(&self) -> Vec<String> {
        match &self.mappings {
            Mappings::Plain(_) => Vec::new(),
            Mappings::Typed(types) => types.types().map(|(name, _)| name.to_owned()).collect(),
        }
    }
    /// Each type of a typed index that has a parent, and the parent's type.
    pub fn parents(&self) -> Vec<(String, String)> {
        match &self.mappings {
            Mappings::Plain(_) => Vec::new(),
            Mappings::Typed(types) => types
                .types()
                .filter_map(|(name, mapping)| Some((name.to_owned(), mapping.parent_type()?.to_owned())))
                .collect(),
        }
    }
    /// With other mappings; the schema grows with them.
    ///
    /// # Errors
    /// Types that contradict each other.
    pub fn with_mappings(&self, mappings: Mappings) -> Result<IndexEntry> {
        let mapping = union(&mappings, &self.registry, &self.settings)?;
        let schema = if self.schema.covers(&mapping) {
            self.schema.clone()
        } else {
            Arc::new(self.schema.grow(&mapping))
        };
        Ok(IndexEntry {
            mappings,
            mapping,
            schema,
            revision: self.revision + 1,
            ..self.clone()
        })
    }
    /// With the growth that a document brought.
    ///
    /// # Errors
    /// The refusal of the merge.
    pub fn grown(&self, doc_type: Option<&str>, growth: &Mapping) -> Result<IndexEntry> {
        self.with_mappings(match (&self.mappings, doc_type) {
            (Mappings::Plain(mapping), _) => Mappings::Plain(mapping.merge(growth)?),
            (Mappings::Typed(types), doc_type) => Mappings::Typed(types.grow(doc_type.unwrap_or("_doc"), growth)?),
        })
    }

    /// The form that is logged and kept in the manifest.
    pub fn to_json(&self) -> Value {
        json!({
            "no": self.no, "name": self.name.as_str(), "uuid": self.uuid, "created": self.created_ms, "open": self.open,
            "typed": self.has_types(), "settings": *self.settings, "mappings": self.render_mappings(),
            "shapes": self.schema.to_json(), "aliases": self.aliases, "revision": self.revision,
            "unclean_before": self.unclean_before, "turns": self.turns, "first_seq_no": self.first_seq_no,
            "restored_from": self.restored_from.as_ref().map(restored::from_to_json),
        })
    }
    /// From that form.
    ///
    /// # Errors
    /// `Corruption` where it is none.
    pub fn from_json(value: &Value) -> Result<IndexEntry> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corruption, format!("a catalog entry has no sound [{what}]"));
        let number = |name: &str| value[name].as_u64().ok_or_else(|| corrupt(name));
        let object = |name: &str| value[name].as_object().cloned().ok_or_else(|| corrupt(name));
        let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or_else(|| corrupt(name));
        let settings = object("settings")?;
        let registry = mapping::settings::registry(&settings)?;
        let limits = mapping::settings::limits(&settings);
        let mappings = match value["typed"].as_bool().unwrap_or(false) {
            true => Mappings::Typed(TypedMappings::parse_rendered(&value["mappings"], &registry, &limits)?),
            false => parse_mappings(&value["mappings"], false, &registry, &limits)?,
        };
        let mapping = union(&mappings, &registry, &settings)?;
        let schema = IndexSchema::from_json(&value["shapes"])?;
        let schema = if schema.covers(&mapping) {
            schema
        } else {
            schema.grow(&mapping)
        };
        Ok(IndexEntry {
            no: u32::try_from(number("no")?).map_err(|_| corrupt("no"))?,
            name: IndexName::new(text("name")?),
            uuid: text("uuid")?,
            created_ms: value["created"].as_i64().unwrap_or(0),
            open: value["open"].as_bool().unwrap_or(true),
            settings: Arc::new(settings),
            mappings,
            mapping,
            registry,
            schema: Arc::new(schema),
            aliases: object("aliases")?,
            revision: number("revision")?,
            unclean_before: number("unclean_before")?,
            turns: value["turns"].as_u64().unwrap_or(0),
            first_seq_no: value["first_seq_no"].as_u64(),
            restored_from: restored::from_of_json(&value["restored_from"]),
        })
    }
}

const HIDDEN: model::settings::Setting = model::settings::Setting {
    name: "index.hidden",
    default: "false",
    scope: model::settings::Scope::IndexDynamic,
    about: "Wildcards pass it by.",
};

/// Reads mappings, typed or not.
///
/// # Errors
/// The refusal of `mapping`.
pub fn parse_mappings(body: &Value, typed: bool, registry: &Registry, limits: &MappingLimits) -> Result<Mappings> {
    Ok(if typed {
        Mappings::Typed(TypedMappings::parse(body, registry, limits)?)
    } else {
        Mappings::Plain(Mapping::parse_new(body, registry, limits)?)
    })
}

/// All types of a typed index as one mapping: what queries resolve fields with.
fn union(mappings: &Mappings, registry: &Registry, settings: &Map<String, Value>) -> Result<Mapping> {
    match mappings {
        Mappings::Plain(mapping) => Ok(mapping.clone()),
        Mappings::Typed(types) => {
            let mut properties = json!({});
            // `_all` is there if any type has it.
            let (mut whole, mut without) = (None, None);
            for (_, mapping) in types.types() {
                let rendered = mapping.render();
                if let Some(fields) = rendered.get("properties") {
                    engine::merge(&mut properties, fields, 0);
                }
                let options = rendered.get(mapping::ALL).cloned().unwrap_or_else(|| json!({}));
                match options.get("enabled") {
                    Some(Value::Bool(false)) => without = Some(options),
                    _ => whole = whole.or(Some(options)),
                }
            }
            let whole = whole.or(without).unwrap_or_else(|| json!({}));
            let mut every = json!({ "properties": properties, "_all": whole });
            for (_, mapping) in types.types() {
                for name in [mapping::TIMESTAMP, mapping::TTL] {
                    if let (Some(_), Some(options)) = (mapping.field(name), mapping.render().get(name)) {
                        every[name] = options.clone();
                    }
                }
            }
            let all = TypedMappings::parse(&json!({ "all": every }), registry, &mapping::settings::limits(settings))?;
            all.for_type("all")
        }
    }
}

impl Catalog {
    /// The index of that number.
    pub fn by_no(&self, no: u32) -> Option<&Arc<IndexEntry>> {
        self.numbers.get(&no)
    }
    /// With an entry put in (replacing the one of the same number).
    pub fn put(&mut self, entry: IndexEntry) {
        self.next_no = self.next_no.max(entry.no + 1);
        let entry = Arc::new(self.sharing(entry));
        self.numbers.insert(entry.no, entry.clone());
        self.indices.insert(entry.name.as_str().to_owned(), entry);
        debug_assert_eq!(self.indices.len(), self.numbers.len(), "a name and a number for each index");
    }
    /// With the mapping, analyzers, settings and schema of an index that has equal ones: a thousand indices that are
    /// made alike have them once.
    fn sharing(&mut self, entry: IndexEntry) -> IndexEntry {
        let form = |entry: &IndexEntry| (entry.settings.clone(), entry.render_mappings(), entry.schema.to_json());
        let own = form(&entry);
        let mut hasher = FxHasher::default();
        (
            format!("{:?}", own.0),
            own.1.to_string(),
            own.2.to_string(),
            entry.has_types(),
        )
            .hash(&mut hasher);
        let hash = hasher.finish();
        let alike = self.forms.get(&hash).and_then(|no| self.numbers.get(no));
        match alike.filter(|alike| alike.has_types() == entry.has_types() && form(alike) == own) {
            Some(alike) => IndexEntry {
                settings: alike.settings.clone(),
                mappings: alike.mappings.clone(),
                mapping: alike.mapping.clone(),
                registry: alike.registry.clone(),
                schema: alike.schema.clone(),
                ..entry
            },
            None => {
                self.forms.insert(hash, entry.no);
                entry
            }
        }
    }
    /// Without the index of that number.
    pub fn remove(&mut self, no: u32) {
        if let Some(entry) = self.numbers.remove(&no) {
            let named = self.indices.remove(entry.name.as_str());
            debug_assert!(
                named.is_some_and(|named| named.no == no),
                "an index is found by its number and by its name: {no}"
            );
            self.forms.retain(|_, of| *of != no);
        }
    }
    /// A cluster setting, transient before persistent before default.
    pub fn cluster_number(&self, setting: model::settings::Setting) -> u64 {
        let text = self.cluster_text(setting);
        text.parse().unwrap_or_else(|_| setting.default.parse().unwrap_or(0))
    }
    /// The same as text.
    pub fn cluster_text(&self, setting: model::settings::Setting) -> String {
        let given = self.transient.get(setting.name).filter(|value| !value.is_null());
        match given.or_else(|| self.persistent.get(setting.name)) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => setting.default.to_owned(),
            Some(other) => other.to_string(),
        }
    }
    /// A cluster setting that is a number of bytes.
    pub fn cluster_bytes(&self, setting: model::settings::Setting) -> u64 {
        let of = if self.transient.contains_key(setting.name) {
            &self.transient
        } else {
            &self.persistent
        };
        let text = model::settings::text(of, setting);
        let bytes = model::units::parse_bytes(&text, setting.name);
        bytes
            .or_else(|_| model::units::parse_bytes(setting.default, setting.name))
            .unwrap_or(0)
    }
    /// Everything that belongs to no index, for the manifest.
    pub fn common_to_json(&self) -> Value {
        assert!(
            self.numbers.keys().all(|no| *no < self.next_no),
            "1.1: the number [{}] would be given to a second index",
            self.next_no
        );
        json!({
            "templates": self.templates, "scripts": self.scripts, "repositories": self.repositories, "persistent": self.persistent,
            "next_no": self.next_no,
        })
    }
    /// Takes over what is not in indices.
    pub fn take_common(&mut self, value: &Value) {
        let map = |name: &str| {
            value[name]
                .as_object()
                .map(|o| o.iter().map(|(k, v)| (k.clone(), v.clone())).collect())
                .unwrap_or_default()
        };
        self.templates = map("templates");
        self.scripts = map("scripts");
        self.repositories = map("repositories");
        self.persistent = value["persistent"].as_object().cloned().unwrap_or_default();
        self.next_no = u32::try_from(value["next_no"].as_u64().unwrap_or(1)).unwrap_or(1).max(1);
    }
    /// Applies a logged delta; says which index is gone by it.
    ///
    /// # Errors
    /// A delta that is none.
    pub fn apply(&mut self, delta: &Value) -> Result<Option<u32>> {
        if let Some(entry) = delta.get("index") {
            let entry = IndexEntry::from_json(entry)?;
            if self.by_no(entry.no).is_none_or(|known| known.revision < entry.revision) {
                self.put(entry);
            }
        } else if let Some(grow) = delta.get("grow") {
            let no = grow["no"].as_u64().unwrap_or(0);
            let known = self.by_no(u32::try_from(no).unwrap_or(0)).cloned();
            if let Some(known) = known.filter(|known| grow["revision"].as_u64().is_some_and(|r| r > known.revision)) {
                let growth = parse_growth(&known, grow)?;
                let mut shapes = known.schema.to_json();
                if let (Some(all), Some(new)) = (shapes.as_array_mut(), grow["shapes"].as_array()) {
                    all.extend(new.iter().cloned());
                }
                let placed = IndexEntry {
                    schema: Arc::new(IndexSchema::from_json(&shapes)?),
                    ..(*known).clone()
                };
                self.put(placed.grown(grow["type"].as_str(), &growth)?);
            }
        } else if let Some(no) = delta.get("delete").and_then(Value::as_u64) {
            let no = u32::try_from(no).unwrap_or(0);
            self.remove(no);
            self.next_no = self.next_no.max(no + 1);
            return Ok(Some(no));
        } else if let Some(common) = delta.get("common") {
            self.take_common(common);
        } else {
            return Err(Error::new(ErrorKind::Corruption, format!("no catalog delta: {delta}")));
        }
        Ok(None)
    }
}

/// The delta of a mapping's growth: what is new in the mapping, and the places it got.
pub fn growth_delta(before: &IndexEntry, after: &IndexEntry, doc_type: Option<&str>, growth: &Mapping) -> Value {
    assert!(
        after.no == before.no && after.revision == before.revision + 1,
        "3: the delta of a growth leads from one revision of an index to the next, not from {} to {}",
        before.revision,
        after.revision
    );
    debug_assert!(
        before
            .schema
            .slots()
            .iter()
            .zip(after.schema.slots())
            .all(|(before, after)| before.field == after.field && before.shape == after.shape)
            && before.schema.slots().len() <= after.schema.slots().len(),
        "1.8: a schema that grows keeps the places of its fields"
    );
    let shapes = after.schema.to_json();
    let new: Vec<Value> = shapes
        .as_array()
        .map(|all| all[before.schema.slots().len()..].to_vec())
        .unwrap_or_default();
    json!({ "grow": { "no": after.no, "revision": after.revision, "type": doc_type, "mapping": growth.render(), "shapes": new } })
}

/// The type whose fields a logged growth has, in an index with types.
pub(crate) fn growth_type(grow: &Value) -> String {
    let name = grow["type"].as_str().filter(|name| !name.starts_with('_'));
    name.unwrap_or("doc").to_owned()
}

fn parse_growth(entry: &IndexEntry, grow: &Value) -> Result<Mapping> {
    let limits = mapping::settings::limits(&entry.settings);
    match grow["type"].is_string() {
        true if entry.has_types() => {
            let name = growth_type(grow);
            TypedMappings::parse(&json!({ name.as_str(): grow["mapping"] }), &entry.registry, &limits)?.for_type(&name)
        }
        _ => Mapping::parse(&grow["mapping"], &entry.registry, &limits),
    }
}
