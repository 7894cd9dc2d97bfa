//! The catalog with indices that are made out of a snapshot: their entries, names, aliases and settings. Pure.
//!
//! A restored index has a number of its own, and terms above all that its operations have. It takes the place of a closed index of
//! the same name, and then its uuid, as in the reference.
//!
//! Not here: its segments (`snapshots::restore`).

use super::alter::{Moment, Next, check_alias, check_filter};
use super::{Catalog, IndexEntry, names, settings};
use engine::catalog::flatten;
use engine::snapshots::{RestoreOrder, RestoredFrom};
use model::settings::NUMBER_OF_SHARDS;
use model::system_index::{forbidden, is_system};
use model::{Error, ErrorKind, IndexName, Result, path};
use serde_json::{Map, Value, json};
use snapshot::IndexPart;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Settings that are fixed with the segments.
const FIXED: &[&str] = &[
    "index.number_of_shards",
    "index.version.created",
    "index.uuid",
    "index.creation_date",
    "index.sort.field",
    "index.sort.order",
    model::settings::PLEACH_LOCK_INDEX.name,
];
/// Settings that an index is not without.
const NEEDED: &[&str] = &[
    "index.number_of_replicas",
    "index.auto_expand_replicas",
    "index.version.upgraded",
];

/// An index to make: its part of the snapshot, and its name.
pub type Wanted<'a> = (&'a IndexPart, &'a str);

/// The catalog with these indices, and the number of each.
///
/// # Errors
/// Names that are taken or that no index may have; settings that cannot change; an entry that is not sound.
pub fn restore(
    catalog: &Catalog,
    order: &RestoreOrder,
    wanted: &[Wanted<'_>],
    global: Option<&Value>,
    moment: &Moment,
    uuid: &mut dyn FnMut() -> String,
) -> Result<(Next, Vec<u32>)> {
    let mut next = Next::of(catalog);
    let given = flatten(&order.index_settings);
    check_given(order, &given)?;
    check_names(catalog, order, wanted)?;
    let mut numbers = Vec::new();
    for (part, name) in wanted {
        let old = catalog.indices.get(*name).cloned();
        let mut entry = entry_of(part, order, &given)?;
        entry.no = next.catalog.next_no.max(1);
        assert!(
            next.catalog.by_no(entry.no).is_none(),
            "snapshots.md R4: an index that is restored has a number of its own"
        );
        entry.name = IndexName::new(*name);
        entry.uuid = old.as_ref().map_or_else(&mut *uuid, |old| old.uuid.clone());
        entry.unclean_before = moment.unclean;
        // The term of its first operation is above those of its own and of the index whose place it takes.
        let term_before = old.as_ref().map_or(0, |old| {
            1 + moment.unclean - old.unclean_before.min(moment.unclean) + old.turns
        });
        entry.turns = part.term.max(term_before);
        entry.restored_from = Some(RestoredFrom {
            repository: order.repository.clone(),
            snapshot: order.snapshot.clone(),
            index: part.name.clone(),
            at_ms: moment.now_ms,
        });
        if let Some(old) = &old {
            next.remove(old);
        }
        entry.aliases = aliases_of(&next.catalog, order, &entry)?;
        numbers.push(entry.no);
        next.put(entry);
    }
    check_count(&next.catalog)?;
    if let Some(global) = global {
        take_global(&mut next, global);
    }
    Ok((next, numbers))
}

/// The entry of an index as it was, with the settings that the order asks for; its number and name are those of then.
fn entry_of(part: &IndexPart, order: &RestoreOrder, given: &Map<String, Value>) -> Result<IndexEntry> {
    let unsound = |cause: Error| {
        let reason = format!(
            "the snapshot's entry of index [{}] is not sound: {}",
            part.name,
            cause.reason()
        );
        Error::new(ErrorKind::Corruption, reason)
    };
    let before = IndexEntry::from_json(&part.entry).map_err(unsound)?;
    let mut kept = (*before.settings).clone();
    kept.retain(|name, _| !order.ignore_index_settings.iter().any(|pattern| is_ignored(pattern, name)));
    for (name, value) in given {
        match value {
            Value::Null => drop(kept.remove(name)),
            value => drop(kept.insert(name.clone(), value.clone())),
        }
    }
    settings::check(&kept)?;
    let mut json = IndexEntry {
        settings: Arc::new(kept),
        open: true,
        revision: 1,
        first_seq_no: Some(part.next_seq_no),
        ..before
    }
    .to_json();
    json["shapes"] = part.entry["shapes"].clone();
    IndexEntry::from_json(&json)
}

/// The name of a setting is given with or without `index.`.
fn is_ignored(pattern: &str, name: &str) -> bool {
    path::matches(pattern, name) || name.strip_prefix("index.").is_some_and(|name| path::matches(pattern, name))
}

fn check_given(order: &RestoreOrder, given: &Map<String, Value>) -> Result<()> {
    let refuse = |what: &str, name: &str| Err(refusal(order, &format!("cannot {what} setting [{name}] on restore")));
    if let Some(name) = given.keys().find(|name| FIXED.contains(&name.as_str())) {
        return refuse("modify", name);
    }
    let with_prefix = |name: &String| match name.starts_with("index.") {
        true => name.clone(),
        false => format!("index.{name}"),
    };
    let ignored: Vec<String> = order.ignore_index_settings.iter().map(with_prefix).collect();
    match ignored
        .iter()
        .find(|name| FIXED.iter().chain(NEEDED).any(|fixed| *fixed == name.as_str()))
    {
        Some(name) => refuse("remove", name),
        None => Ok(()),
    }
}

/// May each index have its name?
fn check_names(catalog: &Catalog, order: &RestoreOrder, wanted: &[Wanted<'_>]) -> Result<()> {
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    for (part, name) in wanted {
        if is_system(name) {
            return Err(forbidden(name));
        }
        names::check_index(name)?;
        if !taken.insert(name) {
            let others: Vec<&str> = wanted
                .iter()
                .filter(|(_, to)| to == name)
                .map(|(part, _)| part.name.as_str())
                .collect();
            return Err(refusal(
                order,
                &format!(
                    "indices [{}] are renamed into the same index [{name}]",
                    others.join("] and [")
                ),
            ));
        }
        if catalog.indices.values().any(|entry| entry.aliases.contains_key(*name)) {
            let reason = format!("Invalid index name [{name}], already exists as alias");
            return Err(Error::new(ErrorKind::InvalidIndexName, reason)
                .with("index_uuid", "_na_")
                .with("index", *name));
        }
        let Some(old) = catalog.indices.get(*name) else { continue };
        if old.open {
            return Err(refusal(
                order,
                &format!(
                    "cannot restore index [{name}] because an open index with same name already exists in the cluster. Either close or \
                     delete the existing index or restore the index under a different name by providing a rename pattern and \
                     replacement name"
                ),
            ));
        }
        let shards = model::settings::number(&old.settings, NUMBER_OF_SHARDS);
        if shards != part.shards {
            return Err(refusal(
                order,
                &format!(
                    "cannot restore index [{name}] with [{shards}] shards from a snapshot of index [{}] with [{}] shards",
                    part.name, part.shards
                ),
            ));
        }
    }
    Ok(())
}

fn aliases_of(catalog: &Catalog, order: &RestoreOrder, entry: &IndexEntry) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    if !order.include_aliases {
        return Ok(out);
    }
    for (alias, options) in &entry.aliases {
        let renamed = order.renamed_aliases.iter().find(|(from, _)| from == alias);
        let alias = renamed.map_or(alias, |(_, to)| to);
        check_alias(catalog, alias, entry.name.as_str(), entry.has_types())?;
        check_filter(alias, options.as_object().unwrap_or(&Map::new()), entry.has_types())?;
        let is_writer = |options: &Value| options["is_write_index"] == true;
        let others = catalog.indices.values();
        if let Some(other) = others
            .filter(|_| is_writer(options))
            .find(|other| other.aliases.get(alias).is_some_and(is_writer))
        {
            let reason = format!(
                "alias [{alias}] has more than one write index [{},{}]",
                other.name, entry.name
            );
            return Err(refusal(order, &reason));
        }
        out.insert(alias.clone(), options.clone());
    }
    Ok(out)
}

fn check_count(catalog: &Catalog) -> Result<()> {
    let max = catalog.cluster_number(model::settings::MAX_INDICES);
    let of_clients = catalog.indices.values().filter(|entry| !entry.is_system()).count() as u64;
    if of_clients > max {
        return Err(Error::illegal(format!(
            "there would be [{of_clients}] indices; the limit of [{max}] is the setting [cluster.max_indices]"
        )));
    }
    Ok(())
}

/// Takes over the global state: templates and scripts come beside those that are there, the settings of the cluster take the place of
/// all that were kept.
fn take_global(next: &mut Next, global: &Value) {
    let map = |name: &str| global[name].as_object().cloned().unwrap_or_default();
    next.catalog.templates.extend(map("templates"));
    next.catalog.scripts.extend(map("scripts"));
    next.catalog.persistent = map("persistent");
    next.common();
}

/// The part of the catalog that belongs to no index and goes into snapshots. Repositories do not: they say where snapshots are.
pub fn global_of(catalog: &Catalog) -> Map<String, Value> {
    let all = json!({ "templates": catalog.templates, "scripts": catalog.scripts, "persistent": catalog.persistent });
    all.as_object().cloned().unwrap_or_default()
}

/// `snapshot_restore_exception`.
pub fn refusal(order: &RestoreOrder, why: &str) -> Error {
    Error::new(
        ErrorKind::SnapshotRestore,
        format!("[{}:{}] {why}", order.repository, order.snapshot),
    )
}

pub(super) fn from_to_json(from: &RestoredFrom) -> Value {
    json!([from.repository, from.snapshot, from.index, from.at_ms])
}

pub(super) fn from_of_json(value: &Value) -> Option<RestoredFrom> {
    let text = |n: usize| value[n].as_str().map(str::to_owned);
    Some(RestoredFrom {
        repository: text(0)?,
        snapshot: text(1)?,
        index: text(2)?,
        at_ms: value[3].as_i64()?,
    })
}
