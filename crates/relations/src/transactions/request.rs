//! A transaction as a client asks for it: conditions, operations, locks, a key. Plain data.

use super::idempotency::Key;
use crate::leases::{Caller, Place, Wanted};
use crate::trees::DirectoryCondition;
use engine::{Expect, Refresh, TreeChange, Write};
use model::{DocAddress, Error};

/// A change as it is asked for.
#[derive(Clone, Debug)]
pub struct Change {
    /// All of them hold when it commits, else `otherwise` is the change.
    pub conditions: Vec<Condition>,
    /// Conditions on directories, each with its place among all conditions.
    pub directories: Vec<(usize, DirectoryCondition)>,
    /// The operations, in order.
    pub operations: Vec<Operation>,
    /// The operations if a condition does not hold; empty: the change is refused.
    pub otherwise: Vec<Operation>,
    /// Changes of directories, after the operations.
    pub moves: Vec<DirectoryChange>,
    /// Locks that the client holds: one of them covers each document that is written.
    pub guards: Vec<String>,
    /// Targets that are locked for this change alone.
    pub locks: Vec<Wanted>,
    /// Its respect for foreign locks.
    pub kind: Kind,
    /// Under which a repetition is answered with the first outcome.
    pub key: Option<Key>,
    /// Wait if its own targets are not free.
    pub wait: bool,
    /// Given by the first attempt, kept by the next ones.
    pub place: Option<Place>,
    /// When searches see it.
    pub refresh: Refresh,
    /// Who asks: whose lock documents are.
    pub caller: Caller,
}

impl Change {
    /// Is there something to do where a condition does not hold?
    pub(in crate::transactions) fn has_otherwise(&self) -> bool {
        !self.otherwise.is_empty() || self.moves.iter().any(|one| one.otherwise)
    }

    /// These operations, nothing else.
    pub fn of(operations: Vec<Operation>) -> Change {
        Change {
            conditions: Vec::new(),
            directories: Vec::new(),
            operations,
            otherwise: Vec::new(),
            moves: Vec::new(),
            guards: Vec::new(),
            locks: Vec::new(),
            kind: Kind::Change,
            key: None,
            wait: false,
            place: None,
            refresh: Refresh::No,
            caller: Caller::default(),
        }
    }
}

/// A change of a directory among the operations of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryChange {
    /// It is one of `otherwise`.
    pub otherwise: bool,
    pub change: TreeChange,
}

/// A change of several documents, or one plain write on its way through the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Foreign locks are respected; no external versions.
    Change,
    /// Foreign locks are what the index's `index.pleach.locks` makes of them.
    Plain,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// `index`, `create`, `update`, `delete`: for the answer.
    pub label: &'static str,
    /// The write. The index may be an alias with one write index.
    pub write: Write,
    /// Makes a missing index; `Some(true)`: a typed one.
    pub creates: Option<bool>,
    /// The answer holds the source as it is after it.
    pub wants_source: bool,
    /// It was found to be impossible before; the change fails by it.
    pub error: Option<Error>,
}

impl Operation {
    /// A write under the name that its answer bears. It makes no index and answers no source.
    pub fn of(label: &'static str, write: Write) -> Operation {
        Operation {
            label,
            write,
            creates: None,
            wants_source: false,
            error: None,
        }
    }
}

/// A condition on a document, written or not.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Which. In a missing index there is no document.
    pub at: DocAddress,
    /// There is one, or there is none.
    pub exists: Option<bool>,
    /// Its stamp.
    pub expect: Expect,
}
