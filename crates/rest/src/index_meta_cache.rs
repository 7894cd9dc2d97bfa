//! A cache of facts about indices that requests need, kept until the catalog changes.
//!
//! **Invariant:** what is learned of a catalog that has changed since is not kept: nobody would ever forget it.

use crate::slow_log::SlowLog;
use arc_swap::ArcSwap;
use engine::IndexInfo;
use model::lock_index::LockIndex;
use model::settings;
use model::{DocId, IndexName};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Names that are kept at most.
const KEPT_MAX: usize = 10_000;

/// Facts about an index that writes and searches need.
#[derive(Clone, Debug)]
pub(crate) struct IndexFacts {
    /// The index that a document is read from by this name, if it is one.
    pub(crate) read: Option<IndexName>,
    /// The index that is written to by this name, if there is one.
    pub(crate) written: Option<IndexName>,
    /// The identity of the first index of that name.
    pub(crate) uuid: Arc<str>,
    pub(crate) typed: bool,
    /// It has no type and no mapping yet: its first typed request may make it typed.
    pub(crate) open_to_types: bool,
    pub(crate) replicas: u64,
    /// `_source` is enabled.
    pub(crate) source: bool,
    /// It keeps queries, for percolation.
    pub(crate) percolates: bool,
    /// Plain writes look at locks.
    pub(crate) locks: bool,
    /// Which of its documents are locks.
    lock_index: Arc<LockIndex>,
    /// Reported; the number that a document's shard is told by.
    pub(crate) shards: u64,
    /// Among how many shards documents are found by their routing. Where joins work the routing out it is not asked for:
    /// then there is one.
    pub(crate) routed_among: u64,
    /// Where documents are read and written through an alias with a routing of its own.
    pub(crate) index_routing: Option<String>,
    /// Slow logs of the open indices behind the name, where they have thresholds.
    pub(crate) slow: Option<Arc<[SlowLog]>>,
}

impl IndexFacts {
    /// The facts about the indices behind a name; `None` if there are none.
    pub(crate) fn of(name: &str, infos: &[IndexInfo]) -> Option<IndexFacts> {
        let first = infos.first()?;
        let alias = first.aliases.get(name);
        // A pattern is no name to read or write by.
        let named = name != "_all" && !name.contains(['*', ',']);
        let shards = settings::number(&first.settings, settings::NUMBER_OF_SHARDS);
        Some(IndexFacts {
            read: (named && infos.len() == 1).then(|| first.name.clone()),
            written: infos
                .iter()
                .find(|info| named && is_written(name, info, infos.len()))
                .map(|info| info.name.clone()),
            uuid: first.uuid.as_str().into(),
            typed: first.typed,
            open_to_types: infos.len() == 1 && !first.typed && first.mapping.is_empty(),
            source: source_enabled(first),
            replicas: settings::number(&first.settings, settings::NUMBER_OF_REPLICAS),
            percolates: infos
                .iter()
                .any(|info| info.typed && info.mappings.get(relations::percolation::TYPE).is_some()),
            locks: infos
                .iter()
                .any(|info| settings::text(&info.settings, settings::PLEACH_LOCKS) != "off"),
            lock_index: Arc::new(infos.iter().find_map(lock_index_of).unwrap_or_default()),
            shards,
            slow: slow_logs(infos),
            index_routing: alias
                .and_then(|options| options.get("index_routing")?.as_str())
                .map(str::to_owned),
            routed_among: match first.mapping.join_field() {
                Some(_) if !first.typed => 1,
                _ => shards,
            },
        })
    }

    /// Is a document of this id a lock? Without a type, where there are types, it may be.
    pub(crate) fn is_lock(&self, id: &DocId) -> bool {
        let untyped = self.typed && id.doc_type.is_none();
        !self.lock_index.is_none() && (untyped || self.lock_index.has(id.doc_type.as_deref()))
    }
}

/// Does a write by `name`, which `count` indices have, go to this one?
fn is_written(name: &str, info: &IndexInfo, count: usize) -> bool {
    let option = info
        .aliases
        .get(name)
        .and_then(|alias| alias.get("is_write_index")?.as_bool());
    option.unwrap_or(count == 1)
}

fn slow_logs(infos: &[IndexInfo]) -> Option<Arc<[SlowLog]>> {
    let open = infos.iter().filter(|info| info.open);
    let logs: Vec<SlowLog> = open.filter_map(|info| SlowLog::of(&info.name, &info.settings)).collect();
    (!logs.is_empty()).then(|| logs.into())
}

fn lock_index_of(info: &IndexInfo) -> Option<LockIndex> {
    LockIndex::of(&info.settings).ok().filter(|locks| !locks.is_none())
}

/// Do documents of the index have a `_source` to show? Of typed indices every type must.
fn source_enabled(info: &IndexInfo) -> bool {
    let disabled = |mapping: &Value| {
        let enabled = mapping.pointer("/_source/enabled");
        enabled.is_some_and(|v| *v == Value::Bool(false) || v == "false")
    };
    match (&info.mappings, info.typed) {
        (Value::Object(types), true) => !types.values().any(disabled),
        (mapping, _) => !disabled(mapping),
    }
}

/// The cached facts, by name.
#[derive(Debug, Default)]
pub(crate) struct KnownIndices(ArcSwap<HashMap<String, Arc<IndexFacts>>>);

/// All that was known when somebody looked.
pub(crate) struct Seen(Arc<HashMap<String, Arc<IndexFacts>>>);

impl KnownIndices {
    /// The facts of a name, or else the state of the cache, which [`KnownIndices::learn`] compares.
    pub(crate) fn look(&self, name: &str) -> Result<Arc<IndexFacts>, Seen> {
        match self.0.load().get(name) {
            Some(known) => Ok(known.clone()),
            None => Err(Seen(self.0.load_full())),
        }
    }

    /// Is a name known?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.load().contains_key(name)
    }

    /// Keeps what was found out since `seen`, unless anything was learned or forgotten meanwhile: then the next one who asks
    /// finds it out again.
    pub(crate) fn learn(&self, seen: &Seen, name: &str, known: Arc<IndexFacts>) {
        let mut all = HashMap::clone(&seen.0);
        if all.len() >= KEPT_MAX {
            all.clear();
        }
        all.insert(name.to_owned(), known);
        // `seen` holds the map, so that no other can have its address.
        self.0.compare_and_swap(&seen.0, Arc::new(all));
    }

    /// The catalog has changed.
    pub(crate) fn forget(&self) {
        self.0.store(Arc::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Arc<IndexFacts> {
        Arc::new(IndexFacts {
            read: None,
            written: None,
            uuid: "u".into(),
            typed: false,
            open_to_types: false,
            replicas: 0,
            source: true,
            percolates: false,
            locks: false,
            lock_index: Arc::default(),
            shards: 1,
            routed_among: 1,
            index_routing: None,
            slow: None,
        })
    }

    #[test]
    fn what_was_found_out_before_a_change_is_not_kept() {
        let all = KnownIndices::default();
        let Err(seen) = all.look("a") else {
            panic!("nothing is known")
        };
        all.learn(&seen, "a", known());
        assert!(all.has("a"));
        let Err(seen) = all.look("b") else {
            panic!("[b] is not known")
        };
        all.forget();
        all.learn(&seen, "b", known());
        assert!(!all.has("a") && !all.has("b"));
        // Also where nothing was known before.
        let Err(seen) = all.look("b") else {
            panic!("nothing is known")
        };
        all.forget();
        all.learn(&seen, "b", known());
        assert!(!all.has("b"));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let all = KnownIndices::default();
        let full: HashMap<String, Arc<IndexFacts>> = (0..KEPT_MAX).map(|n| (n.to_string(), known())).collect();
        all.0.store(Arc::new(full));
        let Err(seen) = all.look("one more") else {
            panic!("it is not known")
        };
        all.learn(&seen, "one more", known());
        assert!(all.has("one more"));
        assert_eq!(all.0.load().len(), 1);
    }
}
