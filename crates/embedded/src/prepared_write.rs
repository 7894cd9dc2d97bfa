//! A write on its way from `evaluate`, over `growth`, to `commit`.

use crate::accepted::Growth;
use crate::catalog::IndexEntry;
use crate::document_key::Key;
use crate::index_state::IndexState;
use crate::pending::Put;
use engine::{Effect, Source};
use mapping::Parsed;
use model::DocAddress;
use std::sync::Arc;

/// A write that has been checked and only lacks its stamp.
pub(crate) struct PreparedWrite {
    pub(crate) entry: Arc<IndexEntry>,
    pub(crate) at: DocAddress,
    pub(crate) uid: Box<str>,
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) effect: Effect,
    /// The index has nothing of the document: no operation, no segment, no tombstone.
    pub(crate) fresh: bool,
    /// `None`: the document goes.
    pub(crate) put: Option<Put>,
    /// The source as the mapping read it, if it is to be indexed under the mapping that there is.
    pub(crate) parsed: Option<Parsed>,
    /// The source that the answer shows.
    pub(crate) show: Option<Source>,
    pub(crate) growth: Option<Growth>,
}

/// A write of a record, and the state of its index.
pub(crate) struct CommitItem {
    pub(crate) write: PreparedWrite,
    pub(crate) state: Arc<IndexState>,
}
