//! Changes: several operations on any documents, all of them or none, decided in one critical section of the engine.
//!
//! `fold` works out what the operations come to, each document once; `record` keeps outcomes under the client's
//! keys; `run` decides; `held` has those that are held open over many requests. Every outcome is a value; a refusal of
//! the whole request is an error.
//!
//! `portable` does the same without a critical section over the documents, where `changes.path` says so.
//!
//! Not here: marks and records of the portable path (`changes`), reading request bodies, wording answers.

mod evaluation;
mod fold;
pub mod held;
mod levels;
pub(crate) mod portable;
mod record;
mod run;

pub use fold::{Condition, Operation};
pub use levels::{Look, ReadLevel};
pub use portable::{Resolution, ShownChange};
pub(crate) use record::KEPT_MS;
pub use record::{Digest, Key};

use crate::leases::{Caller, Place, Turn, Wanted};
use engine::{Conflict, Outcome, Refresh, Written};
use model::{CommitSeq, Error, ErrorKind};

/// A change as it is asked for.
#[derive(Clone, Debug)]
pub struct Change {
    /// All of them hold when it commits, else `otherwise` is the change.
    pub conditions: Vec<Condition>,
    /// What is done, in order.
    pub operations: Vec<Operation>,
    /// What is done if a condition does not hold; empty: the change is refused.
    pub otherwise: Vec<Operation>,
    /// Locks that the client holds: one of them covers each document that is written.
    pub guards: Vec<String>,
    /// Targets that are locked for this change alone.
    pub locks: Vec<Wanted>,
    /// What it is to foreign locks.
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
    /// These operations, nothing else.
    pub fn of(operations: Vec<Operation>) -> Change {
        Change {
            conditions: Vec::new(),
            operations,
            otherwise: Vec::new(),
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

/// A change of several documents, or one plain write on its way through the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Foreign locks are respected; no external versions.
    Change,
    /// Foreign locks are what the index's `index.pleach.locks` makes of them.
    Plain,
}

/// What came of a change.
#[derive(Debug)]
pub enum Verdict {
    /// Its targets are not free: wait, then ask again with the place.
    Waits(Turn, Place),
    /// All of it is done and durable.
    Committed(Committed),
    /// Nothing of it is.
    Failed(Failures),
}

/// Why nothing of a change was done.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// Of the operations of `otherwise`.
    pub otherwise: bool,
    /// One entry for each operation, at least one of them not `NotApplied`.
    pub operations: Vec<NotDone>,
}

/// A change that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Its place among all changes of the store.
    pub commit_seq: CommitSeq,
    /// `otherwise` was done.
    pub otherwise: bool,
    /// One for each operation.
    pub items: Vec<Item>,
    /// It was done before, under the same key.
    pub replayed: bool,
    /// Foreign locks that it passed in advisory indices.
    pub warnings: Vec<String>,
}

/// One operation of a change that is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// `index`, `create`, `update`, `delete`.
    pub label: &'static str,
    /// What it did. Several of one document have one stamp.
    pub written: Written,
}

/// One operation of a change that failed.
#[derive(Clone, Debug)]
pub enum NotDone {
    /// It would have been possible.
    NotApplied,
    /// What it expected was not there.
    Conflict(Conflict),
    /// It was not possible.
    Refused(Error),
}

impl NotDone {
    /// Why an engine did not do it. `None`: it was done, or nobody knows.
    fn of(outcome: &Outcome) -> Option<NotDone> {
        Some(match outcome {
            Outcome::Written(_) | Outcome::Unknown => return None,
            Outcome::Conflict(conflict) => NotDone::Conflict(conflict.clone()),
            Outcome::Refused(error) => NotDone::Refused(error.clone()),
            Outcome::Held(_) => NotDone::Refused(Error::new(
                ErrorKind::VersionConflict,
                "the document is held by a change that is not finished",
            )),
        })
    }
}
