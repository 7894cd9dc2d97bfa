//! The log: every change of the folder, in one order, durable before it is acknowledged.
//!
//! A [`Record`] is the unit of atomicity; documents, batches and alterations differ by their parts.
//! The way of a write (write-path.md 3): [`Log::reserve`] (may be refused), then under the caller's
//! sequencer lock [`Log::enqueue`] (no IO, not refused for want of room), then [`Log::durable`] or
//! [`Log::wait_durable`] on the ticket's end. One thread writes and syncs what has gathered meanwhile.
//!
//! *Position*: byte in the one log, only growing, never used twice, also over restarts. It counts
//! the records' bytes, so it is known at enqueueing; where a frame lies in a file is another thing.
//! A record stands at `start..end`, its `commit_seq` is `start`, and an index's `flushed_pos` is the
//! `end` of the last record built: replaying from it gives those that start there or later.
//!
//! Beside it: [`Manifest`], a small durable map (same frames), and [`FolderLock`].
//!
//! Not here: what parts mean, sequence numbers (the caller's sequencer gives them), indices,
//! deciding what to do about damage (the [`Verdict`] only says which indices are touched).

mod append;
mod follow;
mod format;
mod lock;
mod manifest;
mod replay;
#[cfg(test)]
mod tests;

pub use append::{Durability, Late, Log, LogOptions, Reservation, Retention, Ticket, WriteStart};
pub use follow::Followed;
pub use lock::FolderLock;
pub use manifest::{Manifest, ManifestEntries};
pub use replay::{Damage, Recovered, Replayed, Verdict};

use model::Stamp;
use std::sync::Arc;

/// One change, whole or not at all: what it does and to which indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Every index that the parts touch, each once.
    pub participants: Vec<Participant>,
    /// The steps, in order.
    pub parts: Vec<Part>,
    /// The client's key, to answer a repetition with the first outcome.
    pub idempotency_key: Option<String>,
}

impl Part {
    /// The index that it concerns.
    pub fn index_no(&self) -> u32 {
        match self {
            Part::Alter { index_no, .. } | Part::Put { index_no, .. } | Part::Delete { index_no, .. } => *index_no,
        }
    }

    /// The uid and the stamp of a write; `None`: it alters a catalog.
    pub fn write(&self) -> Option<(&str, Stamp)> {
        let (Part::Put {
            uid,
            seq_no,
            version,
            term,
            ..
        }
        | Part::Delete {
            uid,
            seq_no,
            version,
            term,
            ..
        }) = self
        else {
            return None;
        };
        let stamp = Stamp {
            seq_no: *seq_no,
            primary_term: *term,
            version: *version,
        };
        Some((uid, stamp))
    }
}

impl Record {
    /// Does its header name every index that its parts touch, with the sequence numbers of exactly its writes, in their order?
    pub fn is_numbered(&self) -> bool {
        let is_participant = |no: u32| self.participants.iter().any(|one| one.index_no == no);
        self.parts.iter().all(|part| is_participant(part.index_no()))
            && self.participants.iter().all(|one| {
                let of_index = self.parts.iter().filter(|part| part.index_no() == one.index_no);
                of_index
                    .filter_map(|part| part.write().map(|(_, stamp)| stamp.seq_no))
                    .eq(one.first_seq_no..one.next_seq_no())
            })
    }
}

/// An index that a record touches, with the sequence numbers it takes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participant {
    /// The index's number; 0 is names and aliases.
    pub index_no: u32,
    /// The first sequence number taken; with `count` 0 the next that would be.
    pub first_seq_no: u64,
    /// How many are taken.
    pub count: u32,
}

impl Participant {
    /// The first that is not taken.
    pub fn next_seq_no(&self) -> u64 {
        self.first_seq_no + u64::from(self.count)
    }
}

/// One thing that a record does.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Changes a catalog: an idempotent delta.
    Alter {
        /// The index's number; 0 is names and aliases.
        index_no: u32,
        /// JSON, not read here.
        delta: Vec<u8>,
    },
    /// Writes a document.
    Put {
        /// The index's number.
        index_no: u32,
        /// Sequence number.
        seq_no: u64,
        /// Version.
        version: u64,
        /// Primary term.
        term: u64,
        /// Version of the mapping under which the source was read.
        mapping_version: u64,
        /// `_id` (typed: `type#id`).
        uid: Box<str>,
        /// `_routing`.
        routing: Option<Box<str>>,
        /// Bytes that only the engine reads.
        hidden: Option<Vec<u8>>,
        /// The document.
        source: Arc<[u8]>,
    },
    /// Deletes a document.
    Delete {
        /// The index's number.
        index_no: u32,
        /// Sequence number.
        seq_no: u64,
        /// Version.
        version: u64,
        /// Primary term.
        term: u64,
        /// `_id` (typed: `type#id`).
        uid: Box<str>,
        /// Bytes that only the engine reads.
        hidden: Option<Vec<u8>>,
    },
}
