//! A write that is ready for its record: what evaluation hands to the commit, and the position that the answer waits for.
//!
//! Not here: how it is evaluated (`evaluate`), how it gets its stamp and its place in the log (`commit`).

use crate::catalog::{Catalog, IndexEntry};
use crate::log::Durability;
use crate::pending::{Key, Put};
use crate::store::IndexState;
use engine::{Effect, Source};
use mapping::Mapping;
use model::{DocAddress, Stamp};
use serde_json::Value;
use std::sync::Arc;

/// The positions of the log that an answer waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitFor {
    /// The log is durable up to here.
    pub(crate) durable: u64,
    /// The log is written up to here (`async`).
    pub(crate) written: u64,
}

impl WaitFor {
    pub(crate) fn of(durability: Durability, end: u64) -> WaitFor {
        WaitFor {
            durable: match durability {
                Durability::Async => 0,
                Durability::Request => end,
            },
            written: end,
        }
    }
    pub(crate) fn also(&mut self, other: WaitFor) {
        self.durable = self.durable.max(other.durable);
        self.written = self.written.max(other.written);
    }
}

/// A write that has been checked and only lacks its stamp.
pub(crate) struct PreparedWrite {
    pub(crate) entry: Arc<IndexEntry>,
    pub(crate) state: Arc<IndexState>,
    pub(crate) at: DocAddress,
    pub(crate) uid: Box<str>,
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) effect: Effect,
    pub(crate) fresh: bool,
    pub(crate) put: Option<Put>,
    pub(crate) show: Option<Source>,
    pub(crate) growth: Option<Growth>,
}

/// The growth of a mapping: the type of the document, in typed indices, and the fields that it brings.
pub(crate) type Growth = (Option<Arc<str>>, Mapping);

/// The effects of a record beside its writes.
#[derive(Default)]
pub(crate) struct SideEffects {
    /// The catalog with the indices that the record makes; the caller holds the catalog lock.
    pub(crate) catalog: Option<Arc<Catalog>>,
    /// How these are logged.
    pub(crate) deltas: Vec<(u32, Value)>,
    /// These indices, not yet known to anybody.
    pub(crate) made: Vec<(Arc<IndexEntry>, Arc<IndexState>)>,
    /// Told the place of the record and the stamps before it is encoded; may give the source of one of the writes.
    pub(crate) seal: Option<Sealing>,
    /// Told the same once the record has its place.
    pub(crate) then: Option<Settling>,
    /// It is a change: acknowledged once it is synced, whatever the settings of its indices say.
    pub(crate) is_change: bool,
}

/// The write that is sealed, by its number, and its seal.
pub(crate) type Sealing = (usize, Box<dyn FnOnce(u64, &[Stamp]) -> Source + Send>);
/// Runs once the record has its place.
pub(crate) type Settling = Box<dyn FnOnce(u64, &[Stamp]) + Send>;
