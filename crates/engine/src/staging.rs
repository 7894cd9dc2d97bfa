//! Writes that wait for a decision: staged on one moment of the store, seen by those who read in that moment alone.
//!
//! A transaction that is held open reads in such a view and stages its writes there; what it comes to is then written by
//! one decision ([`crate::AtomicWrites`]). The engine bounds how many views there are and what is staged in them.
//!
//! Not here: whose view it is, when it ends, whether what it read still holds (`relations`).

use crate::{Document, Outcome, Read, Source, View, Write};
use async_trait::async_trait;
use model::{DocAddress, IndexName, Result, Stamp};

/// How the ids of views begin in which writes are staged.
pub const STAGING: &str = "staging:";

/// Is this the id of such a view?
pub fn is_staging(view: &str) -> bool {
    view.starts_with(STAGING)
}

/// An engine with views in which writes are staged. Searches, scans and keys of joins name them as they name any view
/// and see what is staged, with scores and aggregations as if it were written.
#[async_trait]
pub trait Staging: Send + Sync {
    /// A view of one moment of every index: all that was acknowledged before, and nothing that is not durable. It stays
    /// until [`crate::Engine::close_view`] and is not among the views that clients list.
    ///
    /// # Errors
    /// There are too many.
    async fn begin(&self) -> Result<View>;
    /// Documents as they are in the view, each on its own.
    async fn read(&self, view: &str, reads: Vec<Read>) -> Result<Vec<Result<Seen>>>;
    /// Stages writes, in order, each on its own: one that is refused leaves the others.
    async fn stage(&self, view: &str, writes: Vec<Stage>) -> Result<Vec<Outcome>>;
    /// The result of all staged writes, one for each document, in the order in which they were first written.
    async fn staged_documents(&self, view: &str) -> Result<Vec<Staged>>;
    /// Bytes that are staged in a view.
    async fn staged_bytes(&self, view: &str) -> Result<u64>;
}

/// One document as a view shows it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// With the concrete index.
    pub at: DocAddress,
    /// The uuid of the index; `None`: it was made in the view.
    pub index_uuid: Option<String>,
    /// The document, if there is one.
    pub document: Option<Document>,
    /// It was written in the view.
    pub own: bool,
    /// There is a document, and it is withheld from the reader: what the reader does not see is not compared at a commit.
    pub withheld: bool,
}

/// A write to be staged.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The write. `if_seq_no` and versions mean what the view began with, everything else what it shows now.
    pub write: Write,
    /// Makes a missing index; `Some(true)`: a typed one.
    pub creates: Option<bool>,
}

/// The result of the staged writes of one document.
#[derive(Clone, Debug)]
pub struct Staged {
    /// With the concrete index.
    pub at: DocAddress,
    /// Its index.
    pub index: StagedIndex,
    /// The stamp that the view began with; `None`: there was no such document.
    pub before: Option<Stamp>,
    /// The document as it is to be; `None`: it is to be gone.
    pub put: Option<StagedPut>,
}

/// The index of a staged document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagedIndex {
    /// It was there when the view began.
    Known {
        /// Its uuid.
        uuid: String,
    },
    /// It is to be made.
    Made {
        /// Its name.
        name: IndexName,
        /// Identity is (type, id).
        typed: bool,
    },
}

/// A document that is to be written.
#[derive(Clone, Debug)]
pub struct StagedPut {
    /// Its source.
    pub source: Source,
    /// `_routing`
    pub routing: Option<String>,
    /// `_parent`
    pub parent: Option<String>,
    /// `_timestamp` and `_ttl`
    pub times: mapping::Times,
    /// The directories that the paths of its source are those of.
    pub tree: Option<std::sync::Arc<mapping::tree::Tree>>,
}
