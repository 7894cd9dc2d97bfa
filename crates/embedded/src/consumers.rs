//! The consumers of the feed: named readers, whose positions outlive restarts and keep changes that they have not read.
//!
//! A position is logged as a part of index 0, as what belongs to no index, and written with each checkpoint. Replay notes
//! positions again in the order of the log, so the newest one counts.
//!
//! Not here: logging a move (`consumer_moves`), which files of the log stay (`log`).

use crate::lock_order::Mutex;
use engine::changes::Consumer;
use model::CommitSeq;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The member of a logged alteration that moves a consumer.
const DELTA: &str = "consumer";

/// A move as it is logged; no position: the consumer is forgotten.
pub(crate) fn delta(name: &str, position: Option<CommitSeq>) -> Value {
    json!({ DELTA: { "name": name, "position": position } })
}

/// Positions by name.
pub(crate) struct Consumers(Mutex<BTreeMap<String, CommitSeq>>);

impl Default for Consumers {
    fn default() -> Consumers {
        Consumers(Mutex::leaf(BTreeMap::new()))
    }
}

impl Consumers {
    pub(crate) fn list(&self) -> Vec<Consumer> {
        let all = self.0.lock();
        let consumers = all.iter().map(|(name, position)| Consumer {
            name: name.clone(),
            position: *position,
        });
        consumers.collect()
    }

    /// How many there are besides this one, and whether it is there.
    pub(crate) fn beside(&self, name: &str) -> (usize, bool) {
        let all = self.0.lock();
        let is_known = all.contains_key(name);
        (all.len() - usize::from(is_known), is_known)
    }

    /// The lowest position.
    pub(crate) fn lowest(&self) -> Option<CommitSeq> {
        self.0.lock().values().min().copied()
    }

    /// Moves a consumer, or forgets it; false: there was none.
    pub(crate) fn set(&self, name: &str, position: Option<CommitSeq>) -> bool {
        let mut all = self.0.lock();
        match position {
            Some(position) => all.insert(name.to_owned(), position).is_some(),
            None => all.remove(name).is_some(),
        }
    }

    /// For the manifest.
    pub(crate) fn to_json(&self) -> Value {
        self.0.lock().iter().map(|(name, position)| json!([name, position])).collect()
    }

    /// From that form. Rows of another form are left out: no document is lost with a consumer.
    pub(crate) fn read_json(&self, value: &Value) {
        for row in value.as_array().into_iter().flatten() {
            if let (Some(name), Some(position)) = (row[0].as_str(), row[1].as_u64()) {
                self.set(name, Some(position));
            }
        }
    }

    /// Applies a logged alteration; false: it moves no consumer.
    pub(crate) fn replay(&self, delta: &Value) -> bool {
        let Some(moved) = delta.get(DELTA) else { return false };
        if let Some(name) = moved["name"].as_str() {
            self.set(name, moved["position"].as_u64());
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_kept_by_name() {
        let consumers = Consumers::default();
        consumers.read_json(&json!([["a", 10], ["b", 7], ["no row"]]));
        assert_eq!(consumers.lowest(), Some(7));
        assert!(consumers.replay(&json!({ "consumer": { "name": "b", "position": 12 } })));
        assert!(consumers.replay(&json!({ "consumer": { "name": "a", "position": null } })));
        assert!(!consumers.replay(&json!({ "common": {} })));
        assert_eq!(consumers.to_json(), json!([["b", 12]]));
        let again = Consumers::default();
        again.read_json(&consumers.to_json());
        assert_eq!(again.list(), consumers.list());
    }
}
