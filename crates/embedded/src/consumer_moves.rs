//! Moves of consumers of the feed: checked, logged, and then told to the log, which keeps what they have not read.
//!
//! Not here: the positions (`consumers`), reading the feed (`change_feed`).

use crate::change_feed::beyond;
use crate::consumers::delta;
use crate::log::{Durability, Part, Participant, Record};
use crate::store::Store;
use engine::changes::changes_gone;
use model::settings::CONSUMERS_MAX;
use model::{CommitSeq, Error, Result};

impl Store {
    /// Notes how far a consumer is; gives the position to wait for.
    ///
    /// # Errors
    /// As `engine::changes::ChangeFeed::put_consumer`.
    pub(crate) fn put_consumer(&self, name: &str, position: CommitSeq, consumers_max: usize) -> Result<u64> {
        let _altering = self.catalog.alter_alone();
        let (others, is_known) = self.consumers.beside(name);
        if others >= consumers_max && !is_known {
            let reason = format!(
                "there are [{others}] consumers of the feed, and consumer [{name}] would be one more; the most is the setting [{}]",
                CONSUMERS_MAX.name
            );
            return Err(Error::illegal(reason));
        }
        let retained = self.retained_changes();
        if position > retained.newest {
            return Err(beyond(position, retained.newest));
        }
        if position < retained.oldest {
            return Err(changes_gone(position, retained.oldest));
        }
        self.move_consumer(name, Some(position))
    }

    /// Forgets a consumer; gives the position to wait for, `None` if there was no such consumer.
    ///
    /// # Errors
    /// A log without room.
    pub(crate) fn delete_consumer(&self, name: &str) -> Result<Option<u64>> {
        let _altering = self.catalog.alter_alone();
        if !self.consumers.beside(name).1 {
            return Ok(None);
        }
        self.move_consumer(name, None).map(Some)
    }

    /// The caller holds the lock of alterations, so consumers move in the order of the log.
    fn move_consumer(&self, name: &str, position: Option<CommitSeq>) -> Result<u64> {
        let delta = delta(name, position);
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
