//! The feed of changes: everything that the engine committed, in commit order, each change whole.
//!
//! A position of the feed is a `commit_seq`: a reader that applied everything up to it goes on behind it. Positions only
//! grow and are never used twice. Old changes are given up by age and bytes (`changes.retention.*`), but those behind the
//! position of a consumer stay longer, up to a bound of their own.
//!
//! Who begins with an initial copy reads the documents of a view, index by index, and goes on behind its moment.
//!
//! Not here: how clients ask (`rest`), where changes are kept (the engine).

use crate::{Document, TreeAct, View};
use async_trait::async_trait;
use model::{CommitSeq, DocAddress, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// An engine whose committed changes can be followed.
#[async_trait]
pub trait ChangeFeed: Send + Sync {
    /// The positions between which changes are kept.
    fn retained_range(&self) -> Retained;

    /// Durable changes behind `since`, the oldest first: about `bytes_max` bytes, but at least one change if there is one.
    ///
    /// # Errors
    /// ChangesGone: changes behind `since` were given up ([`changes_gone`]). IllegalArgument: `since` is beyond the newest change.
    /// Corruption: a change cannot be read.
    async fn changes(&self, since: CommitSeq, bytes_max: u64) -> Result<Changes>;

    /// Waits until something behind `position` is durable.
    ///
    /// # Errors
    /// LogFailed: nothing will be before a restart.
    async fn wait_for_changes(&self, position: CommitSeq) -> Result<()>;

    /// A view of the indices that match one of the patterns (none: every index), all at one moment. It holds everything up to
    /// [`InitialCopy::moment`] and nothing of a later change, so who reads it and goes on behind the moment misses nothing and
    /// sees nothing twice. Indices that are closed are in it, those of the server are not.
    ///
    /// # Errors
    /// Corruption: an index is damaged. Those of [`Engine::open_view`](crate::Engine::open_view).
    async fn open_copy(&self, patterns: &[String], keep_alive: Duration) -> Result<InitialCopy>;

    /// The index of a copy that comes after another one by name; the first one after none.
    ///
    /// # Errors
    /// SearchContextMissing: the view is closed.
    fn copied_index(&self, copy: &str, after: Option<&IndexName>) -> Result<Option<IndexState>>;

    /// The consumers, by name.
    fn consumers(&self) -> Vec<Consumer>;

    /// Notes durably how far a consumer is. Changes behind its position are kept, up to `changes.consumers.max_bytes`.
    ///
    /// # Errors
    /// ChangesGone, IllegalArgument: as [`ChangeFeed::changes`]. IllegalArgument: there are `consumers_max` others.
    async fn put_consumer(&self, name: &str, position: CommitSeq, consumers_max: usize) -> Result<()>;

    /// Forgets a consumer; false: there was none.
    ///
    /// # Errors
    /// A log without room.
    async fn delete_consumer(&self, name: &str) -> Result<bool>;
}

/// A consistent copy of indices, from which a reader goes on with the feed.
#[derive(Clone, Debug)]
pub struct InitialCopy {
    /// The view that shows the documents.
    pub view: View,
    /// Every change up to here is in the view, and no other.
    pub moment: CommitSeq,
}

/// A named reader of the feed, whose position the engine keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// It has applied everything up to here.
    pub position: CommitSeq,
}

/// The positions between which changes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The lowest position that can be gone on from.
    pub oldest: CommitSeq,
    /// Everything up to here is durable.
    pub newest: CommitSeq,
}

/// A part of the feed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// In commit order, shared with other readers of the feed. Changes of the server's own indices are left out.
    pub changes: Vec<Arc<Change>>,
    /// Where to go on; beyond the last change where others were left out.
    pub next: CommitSeq,
}

/// One committed change: all of it or nothing is there.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its position.
    pub commit_seq: CommitSeq,
    /// Its steps, in order.
    pub operations: Vec<Operation>,
}

/// One step of a change.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A document is as given here from now on.
    Index(Box<Document>),
    /// A document is gone.
    Delete {
        /// With the concrete index.
        at: DocAddress,
        /// The stamp of the deletion.
        stamp: Stamp,
    },
    /// An index was made.
    CreateIndex(IndexState),
    /// An index was made out of a snapshot, with documents that are not in the feed: a reader copies the index.
    RestoreIndex(IndexState),
    /// Settings, aliases or the mapping of an index were altered; all of them are given.
    AlterIndex(IndexState),
    /// Fields were added to a mapping.
    PutMapping {
        /// The index.
        index: IndexName,
        /// The type of the fields, in an index with types.
        doc_type: Option<String>,
        /// The new part.
        mapping: Value,
    },
    /// An index was deleted with all that it held.
    DeleteIndex(IndexName),
    /// A directory of a `tree_path` field was changed, after the documents of the same change.
    Directory {
        /// The index.
        index: IndexName,
        /// The field.
        field: String,
        /// A move that merges has `merge`.
        act: TreeAct,
        /// The number of operations that the tree has after it.
        tree_seq: u64,
    },
}

/// An index as the catalog has it.
#[derive(Clone, Debug)]
pub struct IndexState {
    /// Its name.
    pub index: IndexName,
    /// No other index ever had it.
    pub uuid: String,
    /// Flat, names with `index.`.
    pub settings: Value,
    /// As `GET /{index}/_mapping` shows them.
    pub mappings: Value,
    /// By name.
    pub aliases: Value,
    /// Is it open?
    pub open: bool,
}

impl Operation {
    /// The index that it concerns.
    pub fn index(&self) -> &IndexName {
        match self {
            Operation::Index(document) => &document.at.index,
            Operation::Delete { at, .. } => &at.index,
            Operation::CreateIndex(state) | Operation::RestoreIndex(state) | Operation::AlterIndex(state) => &state.index,
            Operation::PutMapping { index, .. } | Operation::DeleteIndex(index) | Operation::Directory { index, .. } => index,
        }
    }
}

/// The refusal of a position whose next changes were given up.
pub fn changes_gone(since: CommitSeq, oldest: CommitSeq) -> Error {
    let reason = format!(
        "the changes behind [{since}] are gone, the oldest position is [{oldest}]; see [changes.retention.bytes] and \
         [changes.retention.age]"
    );
    Error::new(ErrorKind::ChangesGone, reason)
        .with("since", since)
        .with("oldest", oldest)
}
