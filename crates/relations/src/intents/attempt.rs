//! An attempt at a change and how it ends: plain data, and the two traits by which the caller gives the runner its plan and
//! its waiting.
//!
//! Not here: running (`runner`), what the operations of a change come to (`transactions`).

use super::record::{Effects, Token};
use crate::locks::{Age, Owner};
use async_trait::async_trait;
use engine::Document;
use model::{DocAddress, Error, Result, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Waiting, from outside: a runtime's sleep, or a scheduler's.
#[async_trait]
pub trait Pause: fmt::Debug + Send + Sync + 'static {
    /// Comes back after this long, or somewhat later.
    async fn pause(&self, duration: Duration);
}

/// A document before the change, as plain readers see it. The stamp is the one that clients saw.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The document, if there is one.
    pub document: Option<Document>,
    /// Its stamp, or that of its deletion where that is known.
    pub stamp: Option<Stamp>,
    /// The stamp that it had before marks of changes went over it and left it as it was.
    pub since: Option<Stamp>,
}

/// One attempt at a change, whatever plans it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Never used before.
    pub id: Owner,
    /// The age of the first attempt.
    pub age: Option<Age>,
    /// Every document that the plan reads or writes; in indices that exist, by their own names.
    pub addresses: BTreeSet<DocAddress>,
    /// Leases under which it is made. The record names them.
    pub under: Vec<Arc<str>>,
    /// The digest of the request.
    pub digest: String,
    /// Waiting for others ends here, by the monotonic clock.
    pub deadline: Duration,
}

/// Makes a plan of what was read; asked again when that has moved.
#[async_trait]
pub trait Planning: Send {
    /// Plans the outcome of each document. An error ends the change, undone.
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned>;
    /// Another change is in the way, so what was planned last does not count: there will be another plan before a commit.
    fn waits(&mut self) {}
}

/// The result of a plan.
#[derive(Debug)]
pub enum Planned {
    /// The outcome of every document that is written; others were only read.
    Commit(BTreeMap<DocAddress, Effects>),
    /// It cannot be, if what was read is true: marks prove it first.
    Impossible,
    /// It is not to be, whatever is true.
    Stop,
    /// Not now: look again.
    Later,
}

/// How an attempt ended. Everything but `Committed` has changed nothing.
#[derive(Debug)]
pub enum Ended {
    /// It happened, and every document shows it, each with this stamp.
    Committed {
        token: Token,
        stamps: BTreeMap<DocAddress, Stamp>,
    },
    /// By its own plan.
    Stopped,
    /// It could not be planned, or the engine refused a mark on this document. Nothing is marked any more.
    Refused { at: Option<DocAddress>, error: Error },
    /// Wounded by an older change, or taken for dead: to be tried again with this age.
    Aborted { age: Age },
    /// It waited too long for others.
    TimedOut,
}

/// The state of a change once a resolver has nothing left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// Nothing of it happened.
    Aborted,
    /// All of it happened.
    Done,
    /// It waits for an operator.
    Stuck,
}
