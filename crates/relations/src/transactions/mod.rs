//! Transactions: several operations on any documents, all of them or none (docs/internals/transactions.md).
//!
//! `request` is what a client asks for. `evaluate` works out what it comes to, each document once. `serial` commits it in one
//! critical section of the engine, `by_intents` by compare-and-set of single documents, where `changes.path` says so.
//! `interactive` has transactions that are held open over many requests, `isolation` the levels at which reads see those by
//! intents, `idempotency` the outcomes kept under clients' keys, `linked` plain writes beside link policies. Every outcome is a value; a refusal of the whole request is
//! an error.
//!
//! Not here: intents and records (`intents`), reading request bodies, wording answers.

pub(crate) mod by_intents;
mod evaluate;
mod idempotency;
pub mod interactive;
mod isolation;
mod linked;
mod request;
mod serial;

pub use by_intents::{Resolution, ShownChange};
pub use idempotency::{Digest, Key};
pub use isolation::{ReadLevel, ReadScope};
pub use request::{Change, Condition, DirectoryChange, Kind, Operation};

use crate::leases::{Place, Turn};
use engine::{Conflict, Outcome, TreeMoved, Written};
use model::{CommitSeq, Error, ErrorKind, Result};

/// The result of a change.
#[derive(Debug)]
pub enum Verdict {
    /// Its targets are not free: wait, then ask again with the place.
    Waits(Turn, Place),
    /// All of it is done and durable.
    Committed(Committed),
    /// Nothing of it is.
    Failed(Failures),
}

impl Verdict {
    /// The outcome of a change that is one plain write, and the foreign locks that it passed.
    pub fn of_plain_write(decided: Result<Verdict>) -> (Outcome, Vec<String>) {
        let outcome = match decided {
            Ok(Verdict::Committed(mut done)) => {
                let written = done.items.pop().map(|item| Outcome::Written(item.written));
                return (written.unwrap_or(Outcome::Unknown), done.warnings);
            }
            Ok(Verdict::Failed(failures)) => match failures.operations.into_iter().next() {
                Some(NotDone::Conflict(conflict)) => Outcome::Conflict(conflict),
                Some(NotDone::Refused(error)) => Outcome::Refused(error),
                _ => Outcome::Unknown,
            },
            Ok(Verdict::Waits(..)) => Outcome::Refused(Error::new(ErrorKind::Internal, "a plain write waits for nothing")),
            Err(error) => Outcome::Refused(error),
        };
        (outcome, Vec::new())
    }
}

/// Why nothing of a change was done.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// The failures are of the operations of `otherwise`.
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
    /// One for each change of a directory; none where the outcome was kept under a key.
    pub moved: Vec<TreeMoved>,
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
    /// Its effect. Several of one document have one stamp.
    pub written: Written,
}

/// One operation of a change that failed.
#[derive(Clone, Debug)]
pub enum NotDone {
    /// It would have been possible.
    NotApplied,
    /// Its expectation did not hold.
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
