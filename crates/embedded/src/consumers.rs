//! The consumers of the feed: named readers, whose positions outlive restarts and keep changes that they have not read.
//!
//! A position is logged as a part of index 0, as what belongs to no index, and written with each checkpoint. Replay notes
//! positions again in the order of the log, so the newest one counts.
//!
//! Not here: reading the feed (`change_feed`), which files of the log stay (`log`).

use crate::lock_order::Mutex;
use crate::log::{Durability, Part, Participant, Record};
use crate::store::Store;
use engine::changes::{Consumer, gone};
use model::settings::CONSUMERS_MAX;
use model::{CommitSeq, Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The member of a logged alteration that moves a consumer.
const DELTA: &str = "consumer";

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

    /// The lowest position.
    fn lowest(&self) -> Option<CommitSeq> {
        self.0.lock().values().min().copied()
    }

    /// Moves a consumer, or forgets it; false: there was none.
    fn set(&self, name: &str, position: Option<CommitSeq>) -> bool {
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

impl Store {
    /// Notes how far a consumer is; gives the position to wait for.
    ///
    /// # Errors
    /// As `engine::changes::ChangeFeed::put_consumer`.
    pub(crate) fn put_consumer(&self, name: &str, position: CommitSeq, consumers_max: usize) -> Result<u64> {
        let _altering = self.catalog.alter_alone();
        let known = self.consumers.list();
        if known.len() >= consumers_max && known.iter().all(|consumer| consumer.name != name) {
            let reason = format!(
                "there are [{}] consumers of the feed, and consumer [{name}] would be one more; the most is the setting [{}]",
                known.len(),
                CONSUMERS_MAX.name
            );
            return Err(Error::illegal(reason));
        }
        let retained = self.retained_changes();
        if position > retained.newest {
            return Err(crate::change_feed::beyond(position, retained.newest));
        }
        if position < retained.oldest {
            return Err(gone(position, retained.oldest));
        }
        self.move_consumer(name, Some(position))
    }

    /// Forgets a consumer; gives the position to wait for, `None` if there was no such consumer.
    ///
    /// # Errors
    /// A log without room.
    pub(crate) fn delete_consumer(&self, name: &str) -> Result<Option<u64>> {
        let _altering = self.catalog.alter_alone();
        if self.consumers.list().iter().all(|consumer| consumer.name != name) {
            return Ok(None);
        }
        self.move_consumer(name, None).map(Some)
    }

    /// The caller holds the lock of alterations, so consumers move in the order of the log.
    fn move_consumer(&self, name: &str, position: Option<CommitSeq>) -> Result<u64> {
        let delta = json!({ DELTA: { "name": name, "position": position } });
        let record = Record {
            participants: vec![Participant {
                index_no: 0,
                first_seq_no: 0,
                count: 0,
            }],
            parts: vec![Part::Alter {
                index_no: 0,
                delta: delta.to_string().into_bytes(),
            }],
            idempotency_key: None,
        };
        // Who forgets a consumer makes room.
        let mut room = match position {
            Some(_) => self.log.reserve(record.log_bytes())?,
            None => self.log.reserve_delete(record.log_bytes())?,
        };
        let end = {
            let _sequencer = self.write_path.sequence();
            self.log.enqueue(&mut room, record, Durability::Request)?.end
        };
        self.consumers.set(name, position);
        self.keep_unread();
        Ok(end)
    }

    /// Tells the log what consumers have not read: what begins behind the lowest position.
    pub(crate) fn keep_unread(&self) {
        self.log
            .set_unread_from(self.consumers.lowest().map(|position| position.saturating_add(1)));
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
