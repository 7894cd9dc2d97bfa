//! A change as it is asked for, an attempt at it, and what comes of both: plain data, and the two traits by which the runner
//! is planned and made to wait from outside.
//!
//! Not here: running (`runner`).

use super::plan::{Before, Failure};
use super::record::{Effects, Token};
use crate::locks::{Age, Blocker, LockKey, Owner};
use crate::sessions::SessionState;
use async_trait::async_trait;
use engine::{Conflict, Effect, Expect, Write};
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

/// A change as asked for. Addresses name concrete indices that exist.
#[derive(Clone, Debug)]
pub struct Change {
    /// Never used before; a retry has another.
    pub id: Owner,
    /// Of the first attempt; `None` for a first attempt.
    pub age: Option<Age>,
    /// All must hold at the commit.
    pub conditions: Vec<(DocAddress, Expect)>,
    /// In order.
    pub operations: Vec<Write>,
    /// The operations if a condition does not hold; empty: the change fails then.
    pub otherwise: Vec<Write>,
    /// Locks under which it is made: their leases name it, and they are not in its way.
    pub locks: Vec<Owner>,
    /// Of the request.
    pub digest: String,
    /// Waiting for others ends here, by the monotonic clock.
    pub deadline: Duration,
}

/// What came of it. Everything but `Committed` has changed nothing.
#[derive(Debug)]
pub enum Verdict {
    /// It happened, and every document shows it.
    Committed {
        token: Token,
        items: Vec<Effect>,
        otherwise: bool,
    },
    /// An operation failed: per operation, what it would have done or why not.
    Failed(Vec<Result<Effect, Failure>>),
    /// This condition does not hold, and there is no `otherwise`.
    Unmet { condition: usize, conflict: Conflict },
    /// Foreign locks are in the way.
    Locked(Vec<(LockKey, Vec<Blocker>)>),
    /// A lock that it was to be made under has ended, or is not there.
    LockEnded { lock: Owner, state: Option<SessionState> },
    /// Wounded by an older change, or taken for dead: to be tried again with this age.
    Aborted { age: Age },
    /// It waited too long for others.
    TimedOut,
}

/// One attempt at a change, whatever plans it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Never used before.
    pub id: Owner,
    /// Of the first attempt.
    pub age: Option<Age>,
    /// Every document that the plan reads or writes; in indices that exist, by their own names.
    pub addresses: BTreeSet<DocAddress>,
    /// Locks whose leases name it.
    pub locks: Vec<Owner>,
    /// Leases under which it is made where those do not name it: its record does.
    pub under: Vec<Arc<str>>,
    /// Of the request.
    pub digest: String,
    /// Waiting for others ends here, by the monotonic clock.
    pub deadline: Duration,
}

/// Makes a plan of what was read; asked again when that has moved.
#[async_trait]
pub trait Planning: Send {
    /// What becomes of the documents. An error ends the change, undone.
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned>;
    /// Another change is in the way, so what was planned last does not count: there will be another plan before a commit.
    fn waits(&mut self) {}
}

/// What a plan comes to.
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
    /// A lock that it was to be made under has ended, or is not there.
    LockEnded { lock: Owner, state: Option<SessionState> },
    /// Wounded by an older change, or taken for dead: to be tried again with this age.
    Aborted { age: Age },
    /// It waited too long for others.
    TimedOut,
}

/// What a resolver found the change to be, once nothing is left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// Nothing of it happened.
    Aborted,
    /// All of it happened.
    Done,
    /// It waits for an operator.
    Stuck,
}
