//! The names of indices that were deleted, for as long as the log has changes of them: a record names an index by its
//! number alone.
//!
//! Not here: reading such changes (`change_feed`).

use crate::catalog::IndexEntry;
use crate::lock_order::Mutex;
use model::IndexName;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Names that are kept at most; the lowest numbers go first.
const NAMES_MAX: usize = 10_000;

/// The deleted indices by number.
pub(crate) struct DeletedIndices(Mutex<BTreeMap<u32, DeletedIndex>>);

/// The name of an index, and whether its ids have types: what an id in a record does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexIdentity {
    pub(crate) name: IndexName,
    pub(crate) typed: bool,
}

impl IndexIdentity {
    pub(crate) fn of(entry: &IndexEntry) -> IndexIdentity {
        IndexIdentity {
            name: entry.name.clone(),
            typed: entry.has_types(),
        }
    }
}

/// An index that was deleted.
struct DeletedIndex {
    identity: IndexIdentity,
    /// The position after the record that deleted it.
    deleted_at: u64,
}

impl Default for DeletedIndices {
    fn default() -> DeletedIndices {
        DeletedIndices(Mutex::leaf(BTreeMap::new()))
    }
}

impl DeletedIndices {
    /// An index is deleted by the record that ends at `position`.
    pub(crate) fn add(&self, entry: &IndexEntry, position: u64) {
        let deleted = DeletedIndex {
            identity: IndexIdentity::of(entry),
            deleted_at: position,
        };
        let mut all = self.0.lock();
        let before = all.insert(entry.no, deleted);
        // A start replays a deletion that the manifest has.
        debug_assert!(
            before.is_none_or(|before| before.deleted_at == position),
            "1.1: index {} is deleted twice, and its number was given once",
            entry.no
        );
        if all.len() > NAMES_MAX {
            all.pop_first();
        }
    }

    pub(crate) fn get(&self, no: u32) -> Option<IndexIdentity> {
        self.0.lock().get(&no).map(|deleted| deleted.identity.clone())
    }

    /// The indices whose changes the log still has behind `oldest`, for the manifest. The others are forgotten.
    pub(crate) fn to_json(&self, oldest: u64) -> Value {
        let mut all = self.0.lock();
        all.retain(|_, deleted| deleted.deleted_at > oldest);
        all.iter()
            .map(|(no, one)| json!([no, one.identity.name.as_str(), one.identity.typed, one.deleted_at]))
            .collect()
    }

    /// From that form. Rows of another form are left out: no document is lost with a name.
    pub(crate) fn read_json(&self, value: &Value) {
        let mut all = self.0.lock();
        for row in value.as_array().into_iter().flatten() {
            let no = row[0].as_u64().and_then(|no| u32::try_from(no).ok());
            if let (Some(no), Some(name), Some(typed), Some(deleted_at)) =
                (no, row[1].as_str(), row[2].as_bool(), row[3].as_u64())
            {
                let identity = IndexIdentity {
                    name: IndexName::new(name),
                    typed,
                };
                all.insert(no, DeletedIndex { identity, deleted_at });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_long_as_their_changes() {
        let known = DeletedIndices::default();
        known.read_json(&json!([[1, "a", false, 10], [2, "b", true, 20], ["no row"], [3, "c", false]]));
        let name = |known: &DeletedIndices, no| known.get(no).map(|one| (one.name.to_string(), one.typed));
        assert_eq!(name(&known, 1), Some(("a".to_owned(), false)));
        assert_eq!(name(&known, 3), None);
        assert_eq!(known.to_json(10), json!([[2, "b", true, 20]]));
        assert_eq!(name(&known, 1), None);
        let again = DeletedIndices::default();
        again.read_json(&known.to_json(0));
        assert_eq!(again.get(2), known.get(2));
    }
}
