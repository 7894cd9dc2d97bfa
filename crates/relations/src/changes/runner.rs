//! The portable way of a change: per-document compare-and-set and nothing else, on any engine.
//!
//! ```text
//! W1 record   create {pending, documents}          R  read, plan        W4 a mark on every document, at the version read
//! W5 record   pending → committed {outcomes}       W6 apply by the marks        W7 record   committed → done
//! ```
//!
//! Anybody may stop at any step, and anybody else finishes or undoes the rest with [`Runner::resolve`]. An answer is
//! acted on only when it is an acknowledgement; a conflict or silence is followed by another look.
//!
//! Not here: what to do next (`decide`), what operations come to (`plan`), time (the clock and the `Pause`).

use super::decide::{Apply, Meet, Purge, RecordState, Then, apply, decide, meet, purge};
use super::plan::{Before, Failure, Folded, fold, touched, unmet};
use super::record::{CONTROL_INDEX, Effects, Mark, Record, Token, Touched, record_address};
use crate::locks::{Age, Blocker, Lock, LockKey, Owner, write_claims};
use crate::sessions::{Session, SessionState};
use async_trait::async_trait;
use dsl::query::Query;
use engine::{
    Barrier, Clock, Conflict, Document, Effect, Engine, EngineExt as _, Expect, Hide, Outcome, Read, Refresh, See, Source, Write,
    WriteOp,
};
use futures::StreamExt as _;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp, Target};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Operations of one change, `changes.max_operations`.
pub const OPERATIONS_MAX: usize = 10_000;

/// Writes of one batch while applying.
const BATCH: usize = 1_000;

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

/// Runs changes and finishes those of others.
#[derive(Clone, Debug)]
pub struct Runner {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    pause: Arc<dyn Pause>,
    session: Arc<str>,
}

/// Where the document of a session or lease is.
pub fn session_address(session: &str) -> DocAddress {
    control(&format!("s:{session}"))
}

/// Where a lock document is.
pub fn lock_address(key: &LockKey) -> DocAddress {
    control(&key.document_id())
}

fn control(id: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new(CONTROL_INDEX),
        id: DocId::plain(id),
    }
}

/// A document and its mark, as read.
struct Marked {
    document: Option<Document>,
    mark: Mark,
}

impl Marked {
    fn of(document: Option<Document>) -> Result<Marked> {
        let mark = Mark::of(document.as_ref().and_then(|d| d.hidden.as_ref()))?;
        Ok(Marked { document, mark })
    }
    fn expect(&self) -> Expect {
        self.document.as_ref().map_or(Expect::Absent, |d| unchanged(d.stamp))
    }
    /// As plain readers saw it before the intent that may be on it.
    fn before(&self) -> Before {
        let hidden = self.mark.stub || self.mark.tombstone;
        let stamp = self.mark.before.or(self.document.as_ref().map(|d| d.stamp));
        Before {
            document: self.document.clone().filter(|_| !hidden),
            stamp: stamp.filter(|_| !self.mark.stub),
        }
    }
}

fn unchanged(stamp: Stamp) -> Expect {
    Expect::Unchanged {
        seq_no: stamp.seq_no,
        primary_term: stamp.primary_term,
    }
}

/// A write of the whole document with a mark, over the version that was read.
fn rewrite(at: &DocAddress, read: &Marked, mark: &Mark) -> Write {
    let source = read
        .document
        .as_ref()
        .map_or_else(|| Source((*b"{}").into()), |d| d.source.clone());
    Write {
        expect: read.expect(),
        hide: if mark.is_empty() {
            Hide::Drop
        } else {
            Hide::Set(mark.hidden())
        },
        routing: read.document.as_ref().and_then(|d| d.routing.clone()),
        parent: read.document.as_ref().and_then(|d| d.parent.clone()),
        ..Write::new(at.clone(), WriteOp::Put(source))
    }
}

/// The write that brings an outcome to its document, the mark off.
fn applied(at: &DocAddress, read: &Marked, effect: &Effects, token: Token) -> Write {
    let mark = Mark {
        intent: None,
        stub: false,
        before: None,
        token: Some(token),
        tombstone: *effect == Effects::Delete,
    };
    match effect {
        // What was only read keeps what it was, a stub by leaving nothing.
        Effects::Check if read.mark.stub => Write {
            expect: read.expect(),
            hide: Hide::Drop,
            ..Write::new(at.clone(), WriteOp::Delete)
        },
        Effects::Check => {
            let mark = Mark {
                tombstone: read.mark.tombstone,
                token: read.mark.token,
                ..mark
            };
            rewrite(at, read, &mark)
        }
        Effects::Delete => Write {
            expect: read.expect(),
            hide: Hide::Set(mark.hidden()),
            ..Write::new(at.clone(), WriteOp::Delete)
        },
        Effects::Put { source, routing, parent } => Write {
            expect: read.expect(),
            hide: Hide::Set(mark.hidden()),
            routing: routing.clone(),
            parent: parent.clone(),
            ..Write::new(at.clone(), WriteOp::Put(source.clone()))
        },
    }
}

impl Runner {
    /// Of one server, whose session keeps its changes alive.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, pause: Arc<dyn Pause>, session: Arc<str>) -> Runner {
        Runner {
            engine,
            clock,
            pause,
            session,
        }
    }

    /// Runs one attempt to its end. An `Aborted` verdict is for the caller to try again, under a new id and the age.
    ///
    /// # Errors
    /// The engine's. The change is then undecided or decided; whoever resolves it learns which.
    pub async fn run(&self, change: &Change) -> Result<Verdict> {
        if change.operations.len().max(change.otherwise.len()) > OPERATIONS_MAX {
            return Err(Error::illegal(format!(
                "a change of {} operations is larger than [changes.max_operations] = {OPERATIONS_MAX}",
                change.operations.len()
            )));
        }
        let all: Vec<Write> = change.operations.iter().chain(&change.otherwise).cloned().collect();
        let attempt = Attempt {
            id: change.id.clone(),
            age: change.age,
            addresses: touched(&all, &change.conditions),
            locks: change.locks.clone(),
            digest: change.digest.clone(),
            deadline: change.deadline,
        };
        let mut folding = Folding {
            runner: self,
            change,
            addresses: &attempt.addresses,
            why: None,
        };
        let ended = self.attempt(&attempt, &mut folding).await?;
        Ok(match (ended, folding.why) {
            (Ended::Committed { token, .. }, Some(Verdict::Committed { items, otherwise, .. })) => {
                Verdict::Committed { token, items, otherwise }
            }
            (Ended::Stopped, Some(why)) => why,
            (Ended::LockEnded { lock, state }, _) => Verdict::LockEnded { lock, state },
            (Ended::Aborted { age }, _) => Verdict::Aborted { age },
            (Ended::TimedOut, _) => Verdict::TimedOut,
            (ended, why) => unreachable!("{ended:?} comes from a plan, which is {why:?}"),
        })
    }

    /// Runs one attempt, planned by the caller.
    ///
    /// # Errors
    /// As for [`Runner::run`]; those of the plan, after which the change is aborted.
    pub async fn attempt(&self, attempt: &Attempt, planning: &mut dyn Planning) -> Result<Ended> {
        let addresses = &attempt.addresses;
        let uuids = self.uuids(addresses).await?;
        let record = Record {
            state: RecordState::Pending,
            session: self.session.clone(),
            age: attempt.age,
            documents: addresses
                .iter()
                .map(|at| Touched {
                    at: at.clone(),
                    index_uuid: uuids[at.index.as_str()].clone(),
                    effect: None,
                })
                .collect(),
            digest: attempt.digest.clone(),
            token: None,
            nonce: self.nonce(),
            written_ms: self.clock.wall_ms(),
            result: Value::Null,
        };
        let Some((record, age)) = self.open(attempt, record).await? else {
            let age = attempt.age.unwrap_or_default();
            return Ok(Ended::Aborted { age });
        };
        for lock in &attempt.locks {
            if let Some(state) = self.guard(lock, &attempt.id).await? {
                self.abort(&attempt.id).await?;
                return Ok(Ended::LockEnded {
                    lock: lock.clone(),
                    state,
                });
            }
        }
        self.decided(attempt, record, age, planning).await
    }

    /// W1. `None` if somebody has aborted it before it could begin.
    async fn open(&self, change: &Attempt, record: Record) -> Result<Option<(Record, Age)>> {
        let mut expect = Expect::Absent;
        let mut record = record;
        loop {
            if let Some(stamp) = self.write_record(&change.id, &record, expect).await? {
                let age = record.age_at(stamp);
                return Ok(Some((record, age)));
            }
            // A conflict or silence may be one's own success; what an isolated primary showed may be gone again.
            match self.read_record(&change.id).await? {
                None => expect = Expect::Absent,
                Some((found, _)) if found.state != RecordState::Pending || found.session != self.session => return Ok(None),
                Some((found, stamp)) => {
                    expect = unchanged(stamp);
                    record = found.touched(stamp, RecordState::Pending, self.nonce());
                }
            }
            self.rest(1).await;
        }
    }

    /// R, W4, W5 and what follows.
    async fn decided(&self, change: &Attempt, record: Record, age: Age, planning: &mut dyn Planning) -> Result<Ended> {
        let mut patience = 1;
        loop {
            if self.clock.monotonic() > change.deadline {
                return match self.abort(&change.id).await? {
                    Resolved::Aborted => Ok(Ended::TimedOut),
                    other => unreachable!("nobody but us commits our change, and it is {other:?}"),
                };
            }
            // The record is looked at first: who has been aborted must not go on leaving marks.
            match self.read_record(&change.id).await? {
                Some((found, _)) if found.state == RecordState::Pending => {}
                Some((found, _)) if found.state == RecordState::Aborted => {
                    self.abort(&change.id).await?;
                    return Ok(Ended::Aborted { age });
                }
                // A stale read.
                _ => {
                    self.rest(patience).await;
                    patience += 1;
                    continue;
                }
            }
            let read = self.read_marked(&change.addresses).await?;
            let mut foreign: BTreeMap<Owner, BTreeSet<DocAddress>> = BTreeMap::new();
            for (at, marked) in &read {
                if let Some(owner) = marked.mark.intent.as_ref().filter(|owner| **owner != change.id) {
                    foreign.entry(owner.clone()).or_default().insert(at.clone());
                }
            }
            if !foreign.is_empty() {
                let mut waits = false;
                for (other, at) in &foreign {
                    waits |= !self.meet(Some(age), other, at).await?;
                }
                if waits {
                    self.rest(patience).await;
                    patience += 1;
                }
                continue;
            }
            let before: BTreeMap<DocAddress, Before> = read.iter().map(|(at, marked)| (at.clone(), marked.before())).collect();
            let planned = match planning.plan(&before).await {
                Ok(planned) => planned,
                Err(error) => {
                    self.abort(&change.id).await?;
                    return Err(error);
                }
            };
            let outcomes = match planned {
                Planned::Stop => {
                    self.abort(&change.id).await?;
                    return Ok(Ended::Stopped);
                }
                Planned::Later => {
                    self.rest(patience).await;
                    patience += 1;
                    continue;
                }
                Planned::Commit(outcomes) => Some(outcomes),
                Planned::Impossible => None,
            };
            // Marks prove what was read, for failures as well as for success.
            let Some(stamps) = self.mark(&change.id, &read).await? else {
                self.rest(patience).await;
                patience += 1;
                continue;
            };
            let Some(outcomes) = outcomes else {
                self.abort(&change.id).await?;
                return Ok(Ended::Stopped);
            };
            let Some((committed, token)) = self.commit(&change.id, &record, age, &outcomes).await? else {
                self.abort(&change.id).await?;
                return Ok(Ended::Aborted { age });
            };
            let mut stamped = BTreeMap::new();
            let state = self.apply_all(&change.id, &committed, token, stamps, &mut stamped).await?;
            debug_assert!(state != Resolved::Aborted, "what is committed goes forward");
            return Ok(Ended::Committed { token, stamps: stamped });
        }
    }

    /// W4: a mark on every document at the version that was read. `None` if one was not acknowledged.
    async fn mark(&self, change: &Owner, read: &BTreeMap<DocAddress, Marked>) -> Result<Option<BTreeMap<DocAddress, Marked>>> {
        let mut writes = Vec::with_capacity(read.len());
        let mut marks = Vec::with_capacity(read.len());
        for (at, marked) in read {
            let mine = marked.mark.intent.is_some();
            let mark = Mark {
                intent: Some(change.clone()),
                stub: marked.document.is_none() || marked.mark.stub,
                before: if mine {
                    marked.mark.before
                } else {
                    marked.document.as_ref().map(|d| d.stamp)
                },
                ..marked.mark.clone()
            };
            writes.push(rewrite(at, marked, &mark));
            marks.push((at, marked, mark));
        }
        let outcomes = self.engine.write(writes, Refresh::No).await?;
        let mut stamped = BTreeMap::new();
        for ((at, marked, mark), outcome) in marks.into_iter().zip(outcomes) {
            let written = match outcome {
                Outcome::Written(written) => written,
                Outcome::Refused(error) => return Err(error),
                Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => return Ok(None),
            };
            let mut document = marked.document.clone().unwrap_or_else(|| Document {
                at: at.clone(),
                stamp: written.stamp,
                source: Source((*b"{}").into()),
                routing: None,
                parent: None,
                hidden: None,
            });
            document.stamp = written.stamp;
            let document = Some(document);
            stamped.insert(at.clone(), Marked { document, mark });
        }
        Ok(Some(stamped))
    }

    /// W5. `None` if somebody has aborted it.
    async fn commit(
        &self,
        change: &Owner,
        opened: &Record,
        age: Age,
        outcomes: &BTreeMap<DocAddress, Effects>,
    ) -> Result<Option<(Record, Token)>> {
        let committed = Record {
            state: RecordState::Committed,
            age: Some(age),
            documents: opened
                .documents
                .iter()
                .map(|touched| Touched {
                    effect: Some(outcomes.get(&touched.at).cloned().unwrap_or(Effects::Check)),
                    ..touched.clone()
                })
                .collect(),
            nonce: self.nonce(),
            ..opened.clone()
        };
        let mut turn = 1;
        loop {
            if let Some((found, stamp)) = self.read_record(change).await? {
                let next = match found.state {
                    RecordState::Pending => committed.clone(),
                    RecordState::Committed | RecordState::Done => found.touched(stamp, found.state, self.nonce()),
                    RecordState::Aborted => return Ok(None),
                    RecordState::Stuck => found.touched(stamp, found.state, self.nonce()),
                };
                if let Some(written) = self.write_record(change, &next, unchanged(stamp)).await? {
                    let token = next.token.unwrap_or(Token::of(written));
                    return Ok(Some((next, token)));
                }
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// W6 and W7: every outcome reaches its document, by the marks. `at_hand` are documents as this process has just
    /// written them; the others, and those that have moved, are read.
    async fn apply_all(
        &self,
        change: &Owner,
        record: &Record,
        token: Token,
        mut at_hand: BTreeMap<DocAddress, Marked>,
        stamped: &mut BTreeMap<DocAddress, Stamp>,
    ) -> Result<Resolved> {
        let mut open: Vec<&Touched> = record.documents.iter().collect();
        let mut turn = 0;
        while !open.is_empty() {
            let batch: Vec<&Touched> = open.iter().copied().take(BATCH).collect();
            let addresses: BTreeSet<DocAddress> = batch
                .iter()
                .map(|touched| touched.at.clone())
                .filter(|at| !at_hand.contains_key(at))
                .collect();
            let gone = self.gone(&batch).await?;
            let missing = addresses.into_iter().filter(|at| !gone.contains(at.index.as_str())).collect();
            let mut read = self.read_marked(&missing).await?;
            // The second guard: what was read before this is not written after somebody else has finished.
            if turn > 0 && !self.still_committed(change).await? {
                return Ok(Resolved::Done);
            }
            let mut writes = Vec::new();
            let mut written = Vec::new();
            let mut acknowledged: BTreeSet<&DocAddress> = BTreeSet::new();
            for touched in batch {
                let at = &touched.at;
                if gone.contains(at.index.as_str()) {
                    acknowledged.insert(at);
                    continue;
                }
                let Some(marked) = at_hand.remove(at).or_else(|| read.remove(at)) else {
                    continue;
                };
                let effect = touched.effect.as_ref().unwrap_or(&Effects::Check);
                let found = marked.document.as_ref().map(|_| marked.mark.intent.as_ref());
                let confirm = Mark {
                    tombstone: true,
                    token: Some(token),
                    ..Mark::default()
                };
                writes.push(match apply(found, change) {
                    Apply::Write => applied(at, &marked, effect, token),
                    Apply::Confirm => rewrite(at, &marked, &marked.mark),
                    Apply::ConfirmAbsence => rewrite(at, &marked, &confirm),
                });
                written.push(at);
            }
            for (at, outcome) in written.into_iter().zip(self.engine.write(writes, Refresh::No).await?) {
                match outcome {
                    Outcome::Written(written) => {
                        stamped.insert(at.clone(), written.stamp);
                        acknowledged.insert(at);
                    }
                    // Somebody else goes on, or we do later: it is committed.
                    Outcome::Refused(error) if error.is_transient() => return Err(error),
                    Outcome::Refused(error) => return self.stick(change, &error).await,
                    Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => {}
                }
            }
            open.retain(|touched| !acknowledged.contains(&touched.at));
            turn += 1;
            if !open.is_empty() {
                self.rest(turn).await;
            }
        }
        self.finish(change, RecordState::Done).await
    }

    /// W7, and the end of any resolution: writes the state over a committed record, or confirms it.
    async fn finish(&self, change: &Owner, state: RecordState) -> Result<Resolved> {
        let mut turn = 1;
        loop {
            let Some((found, stamp)) = self.read_record(change).await? else {
                // Collected, or a stale read; it was committed, so it cannot be absent otherwise.
                return Ok(Resolved::Done);
            };
            if matches!(found.state, RecordState::Committed | RecordState::Done) {
                let next = found.touched(stamp, state.max(found.state), self.nonce());
                if self.write_record(change, &next, unchanged(stamp)).await?.is_some() {
                    return Ok(Resolved::Done);
                }
            } else if found.state == RecordState::Stuck {
                return Ok(Resolved::Stuck);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// An outcome that can never be applied.
    async fn stick(&self, change: &Owner, why: &Error) -> Result<Resolved> {
        if let Some((found, stamp)) = self.read_record(change).await?
            && found.state == RecordState::Committed
        {
            let mut next = found.touched(stamp, RecordState::Stuck, self.nonce());
            next.result = Value::Object(why.to_json());
            self.write_record(change, &next, unchanged(stamp)).await?;
        }
        Ok(Resolved::Stuck)
    }

    /// Touches the record: acknowledged, it is still committed.
    async fn still_committed(&self, change: &Owner) -> Result<bool> {
        let mut turn = 1;
        loop {
            let Some((found, stamp)) = self.read_record(change).await? else {
                return Ok(false);
            };
            let next = found.touched(stamp, found.state, self.nonce());
            if self.write_record(change, &next, unchanged(stamp)).await?.is_some() {
                return Ok(found.state == RecordState::Committed);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// Decides, finishes and cleans up any change, whoever's it is: idempotent, any number of callers at once.
    ///
    /// # Errors
    /// The engine's; another call goes on where this one stopped.
    pub async fn resolve(&self, change: &Owner) -> Result<Resolved> {
        let mut turn = 1;
        loop {
            let read = self.read_record(change).await?;
            let decided = decide(read.as_ref().map(|(record, _)| record.state));
            let (next, expect) = match read {
                Some((record, stamp)) => (record.touched(stamp, decided.write, self.nonce()), unchanged(stamp)),
                None => (self.negation(), Expect::Absent),
            };
            if let Some(stamp) = self.write_record(change, &next, expect).await? {
                return match decided.then {
                    Then::Apply => {
                        let token = next.token.unwrap_or(Token::of(stamp));
                        self.apply_all(change, &next, token, BTreeMap::new(), &mut BTreeMap::new())
                            .await
                    }
                    Then::Purge => {
                        self.purge_all(change, &next).await?;
                        Ok(if next.state == RecordState::Done {
                            Resolved::Done
                        } else {
                            Resolved::Aborted
                        })
                    }
                    Then::Wait => Ok(Resolved::Stuck),
                };
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// One round of a sweeper: finishes what is committed, and aborts what is pending under a session that has ended.
    /// The scan only finds work; what is there is decided by comparing.
    ///
    /// # Errors
    /// The engine's.
    pub async fn sweep(&self) -> Result<Vec<(Owner, Resolved)>> {
        let mut open = Vec::new();
        for (change, record, _) in self.records().await? {
            if matches!(record.state, RecordState::Pending | RecordState::Committed) {
                open.push((change, record));
            }
        }
        let mut resolved = Vec::new();
        for (change, record) in open {
            if self.is_dead(&record.session).await? {
                resolved.push((change.clone(), self.resolve(&change).await?));
            }
        }
        Ok(resolved)
    }

    /// W9: forgets changes that were finished longer ago than `kept_ms`, by the wall clock of who wrote their records:
    /// the tombstones they left, then the records. What comes even later is taken off by whoever meets it.
    ///
    /// # Errors
    /// The engine's; what is left is for the next call.
    pub async fn collect(&self, kept_ms: i64) -> Result<u64> {
        let before = self.clock.wall_ms() - kept_ms;
        let mut collected = 0;
        for (change, record, stamp) in self.records().await? {
            let finished = matches!(record.state, RecordState::Aborted | RecordState::Done);
            if !finished || record.written_ms > before {
                continue;
            }
            let touched: Vec<&Touched> = record.documents.iter().collect();
            let gone = self.gone(&touched).await?;
            let here = touched
                .iter()
                .map(|t| t.at.clone())
                .filter(|at| !gone.contains(at.index.as_str()));
            let mut writes = Vec::new();
            for (at, marked) in self.read_marked(&here.collect()).await? {
                // Its own: a later change's tombstone is that one's to collect.
                if marked.mark.tombstone && marked.mark.intent.is_none() && marked.mark.token == record.token {
                    writes.push(Write {
                        expect: marked.expect(),
                        hide: Hide::Drop,
                        ..Write::new(at, WriteOp::Delete)
                    });
                }
            }
            let outcomes = self.engine.write(writes, Refresh::No).await?;
            if !outcomes
                .iter()
                .all(|outcome| matches!(outcome, Outcome::Written(_) | Outcome::Conflict(_)))
            {
                continue;
            }
            let write = Write {
                expect: unchanged(stamp),
                hide: Hide::Drop,
                ..Write::new(record_address(&change), WriteOp::Delete)
            };
            if let Outcome::Written(_) = self.engine.write_one(write, Refresh::No).await? {
                collected += 1;
            }
        }
        Ok(collected)
    }

    /// Every record, as a search finds it: to look for work, not to act on.
    async fn records(&self) -> Result<Vec<(Owner, Record, Stamp)>> {
        let target = Target::index(CONTROL_INDEX);
        match self.engine.refresh(&target, None).await {
            Err(error) if error.kind() == ErrorKind::IndexNotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = self.engine.scan(&target, Query::all(), See::Plain, Barrier::None).await?;
        let mut out = Vec::new();
        while let Some(document) = found.next().await {
            let document = document?;
            let source = document.source.parse()?;
            if source["kind"] == "change" {
                out.push((Owner::new(document.at.id.id), Record::parse(&source)?, document.stamp));
            }
        }
        Ok(out)
    }

    /// A1 to A3 of one's own change, or what has become of it.
    async fn abort(&self, change: &Owner) -> Result<Resolved> {
        self.resolve(change).await
    }

    /// The marks of an aborted change go, and late ones of a finished one. What a stale read hides is swept later: nobody minds a dead mark.
    async fn purge_all(&self, change: &Owner, record: &Record) -> Result<()> {
        let mut open: BTreeSet<DocAddress> = record.documents.iter().map(|touched| touched.at.clone()).collect();
        let touched: Vec<&Touched> = record.documents.iter().collect();
        let gone = self.gone(&touched).await?;
        open.retain(|at| !gone.contains(at.index.as_str()));
        self.take_off(change, open).await
    }

    /// Takes a decided change's marks off these documents.
    async fn take_off(&self, change: &Owner, mut open: BTreeSet<DocAddress>) -> Result<()> {
        let mut turn = 1;
        while !open.is_empty() {
            let mut writes = Vec::new();
            for (at, marked) in self.read_marked(&open).await? {
                let clean = Mark {
                    intent: None,
                    before: None,
                    ..marked.mark.clone()
                };
                match purge(marked.mark.intent.as_ref(), marked.mark.stub, change) {
                    Purge::Leave => {
                        open.remove(&at);
                    }
                    Purge::TakeOff => writes.push(rewrite(&at, &marked, &clean)),
                    Purge::Remove => writes.push(Write {
                        expect: marked.expect(),
                        hide: Hide::Drop,
                        ..Write::new(at, WriteOp::Delete)
                    }),
                }
            }
            let addresses: Vec<DocAddress> = writes.iter().map(|write| write.at.clone()).collect();
            for (at, outcome) in addresses.into_iter().zip(self.engine.write(writes, Refresh::No).await?) {
                match outcome {
                    Outcome::Refused(error) if error.is_transient() => return Err(error),
                    Outcome::Written(_) | Outcome::Refused(_) => drop(open.remove(&at)),
                    Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => {}
                }
            }
            if !open.is_empty() {
                self.rest(turn).await;
                turn += 1;
            }
        }
        Ok(())
    }

    /// Another's mark is in the way; true if it no longer is.
    async fn meet(&self, age: Option<Age>, other: &Owner, at: &BTreeSet<DocAddress>) -> Result<bool> {
        let read = self.read_record(other).await?;
        let (state, other_age, dead) = match &read {
            None => (None, Age::default(), true),
            Some((record, stamp)) => (
                Some(record.state),
                record.age_at(*stamp),
                self.is_dead(&record.session).await?,
            ),
        };
        match meet(age, other_age, state, dead) {
            Meet::Wait => Ok(false),
            Meet::Resolve if self.resolve(other).await? == Resolved::Stuck => Ok(false),
            Meet::Resolve => {
                // A mark that came so late that its record has been collected is named by nobody but itself.
                if read.is_none() {
                    self.take_off(other, at.clone()).await?;
                }
                Ok(true)
            }
        }
    }

    /// A session that is not open any more. No safety hangs on this: what is pending is aborted by comparing.
    async fn is_dead(&self, session: &str) -> Result<bool> {
        let Some(document) = self.engine.read_one(session_address(session)).await? else {
            return Ok(false);
        };
        Ok(Session::parse(&document.source.parse()?)?.state != SessionState::Open)
    }

    /// A plain write of one document, beside changes: it keeps marks, and waits for pending intents as the youngest.
    ///
    /// # Errors
    /// The engine's; a mark that did not go before the deadline.
    pub async fn write(&self, write: Write, refresh: Refresh, deadline: Duration) -> Result<Outcome> {
        let mut turn = 1;
        let at = BTreeSet::from([write.at.clone()]);
        loop {
            let held = match self.engine.write_one(write.clone(), refresh).await? {
                Outcome::Held(body) => body,
                outcome => return Ok(outcome),
            };
            let Some(other) = held["i"].as_str().map(Owner::new) else {
                return Err(Error::new(ErrorKind::Corruption, format!("held by no change: {held}")));
            };
            if !self.meet(None, &other, &at).await? {
                if self.clock.monotonic() > deadline {
                    let reason = format!("[{}][{}] is held by change [{other}]", write.at.index, write.at.id.id);
                    return Err(Error::new(ErrorKind::Timeout, reason));
                }
                self.rest(turn).await;
                turn += 1;
            }
        }
    }

    /// Foreign owners of locks that cover a document of the change. Read after the record was acknowledged, and before
    /// the commit, in one read that shows the record too: a copy that does not is not the real one.
    async fn foreign_locks(&self, change: &Change, addresses: &BTreeSet<DocAddress>) -> Result<Vec<(LockKey, Vec<Blocker>)>> {
        let mut wanted: BTreeMap<LockKey, crate::locks::Mode> = BTreeMap::new();
        for claim in addresses.iter().flat_map(|at| write_claims(at, &[])) {
            let mode = wanted.get(&claim.key).map_or(claim.mode, |known| known.join(claim.mode));
            wanted.insert(claim.key, mode);
        }
        let mut turn = 1;
        let documents = loop {
            let reads = wanted.keys().map(lock_address).chain([record_address(&change.id)]);
            let mut documents = self.engine.read(reads.map(Read::whole).collect()).await?;
            if documents.pop().flatten().is_some() {
                break documents;
            }
            self.rest(turn).await;
            turn += 1;
        };
        let own: Vec<Owner> = change.locks.iter().cloned().chain([change.id.clone()]).collect();
        let mut blocked = Vec::new();
        for ((key, mode), document) in wanted.iter().zip(documents) {
            let Some(document) = document else { continue };
            let lock = Lock::parse(&document.source.parse()?)?;
            if lock.key != *key {
                continue;
            }
            let blockers: Vec<Blocker> = lock
                .against(*mode, &own)
                .map(|(owner, holder)| Blocker {
                    owner: owner.clone(),
                    mode: holder.mode,
                    session: holder.session.clone(),
                    age: holder.age,
                    waiting: false,
                })
                .collect();
            if !blockers.is_empty() {
                blocked.push((key.clone(), blockers));
            }
        }
        Ok(blocked)
    }

    /// Names the change in the lease that it is made under, before it leaves a mark. `Some` tells why it must not be
    /// made: the lease has ended so, or was never there.
    async fn guard(&self, lock: &Owner, change: &Owner) -> Result<Option<Option<SessionState>>> {
        let at = session_address(lock.as_str());
        let mut turn = 1;
        loop {
            let Some(document) = self.engine.read_one(at.clone()).await? else {
                return Ok(Some(None));
            };
            let lease = Session::parse(&document.source.parse()?)?;
            let named = match lease.guarding(change, self.nonce()) {
                Ok(named) => named,
                Err(ended) => return Ok(Some(Some(ended.0))),
            };
            let write = Write {
                expect: unchanged(document.stamp),
                hide: Hide::Drop,
                ..Write::new(at.clone(), WriteOp::Put(Source::from_value(&named.render())))
            };
            if matches!(self.engine.write_one(write, Refresh::No).await?, Outcome::Written(_)) {
                return Ok(None);
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// Would the outcomes be taken? Who wrote a refused one last is told.
    async fn rehearse(&self, folded: &mut Folded) -> Result<()> {
        let mut writes = Vec::new();
        let mut items = Vec::new();
        for (at, item) in &folded.writers {
            if let Some(Effects::Put { source, routing, parent }) = folded.outcomes.get(at) {
                writes.push(Write {
                    hide: Hide::Drop,
                    routing: routing.clone(),
                    parent: parent.clone(),
                    ..Write::new(at.clone(), WriteOp::Put(source.clone()))
                });
                items.push(*item);
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        for (item, rehearsed) in items.into_iter().zip(self.engine.rehearse(&writes).await?) {
            if let Err(error) = rehearsed {
                folded.items[item] = Err(Failure::Refused(error));
            }
        }
        Ok(())
    }

    /// The uuid of every index named.
    async fn uuids(&self, addresses: &BTreeSet<DocAddress>) -> Result<BTreeMap<String, String>> {
        let names: BTreeSet<&str> = addresses.iter().map(|at| at.index.as_str()).collect();
        let mut uuids = BTreeMap::new();
        for name in names {
            let found = self.engine.indices(&Target::index(name)).await?;
            let Some(info) = found.first() else {
                let reason = format!("no such index [{name}]");
                return Err(Error::new(ErrorKind::IndexNotFound, reason).with("index", name));
            };
            uuids.insert(name.to_owned(), info.uuid.clone());
        }
        Ok(uuids)
    }

    /// Names of indices that are not the ones the change was made for: its operations there count as done.
    async fn gone(&self, touched: &[&Touched]) -> Result<BTreeSet<String>> {
        let mut gone = BTreeSet::new();
        let named: BTreeMap<&str, &str> = touched.iter().map(|t| (t.at.index.as_str(), t.index_uuid.as_str())).collect();
        for (name, uuid) in named {
            let target = Target {
                ignore_unavailable: true,
                ..Target::index(name)
            };
            let found = self.engine.indices(&target).await?;
            if found.first().is_none_or(|info| info.uuid != uuid) {
                gone.insert(name.to_owned());
            }
        }
        Ok(gone)
    }

    async fn read_marked(&self, addresses: &BTreeSet<DocAddress>) -> Result<BTreeMap<DocAddress, Marked>> {
        let reads = addresses.iter().map(|at| Read {
            see: See::Everything,
            ..Read::whole(at.clone())
        });
        let found = self.engine.read(reads.collect()).await?;
        addresses
            .iter()
            .cloned()
            .zip(found)
            .map(|(at, document)| Ok((at, Marked::of(document)?)))
            .collect()
    }

    async fn read_record(&self, change: &Owner) -> Result<Option<(Record, Stamp)>> {
        let Some(document) = self.engine.read_one(record_address(change)).await? else {
            return Ok(None);
        };
        Ok(Some((Record::parse(&document.source.parse()?)?, document.stamp)))
    }

    /// The stamp, if the write was acknowledged. Anything else is no answer.
    async fn write_record(&self, change: &Owner, record: &Record, expect: Expect) -> Result<Option<Stamp>> {
        // No change marks a record: the engine need not look for what to keep.
        let write = Write {
            expect,
            hide: Hide::Drop,
            ..Write::new(record_address(change), WriteOp::Put(Source::from_value(&record.render())))
        };
        match self.engine.write_one(write, Refresh::No).await? {
            Outcome::Written(written) => Ok(Some(written.stamp)),
            Outcome::Refused(error) => Err(error),
            Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => Ok(None),
        }
    }

    /// What stands where no record was: a late creation fails on it.
    fn negation(&self) -> Record {
        Record {
            state: RecordState::Aborted,
            session: self.session.clone(),
            age: None,
            documents: Vec::new(),
            digest: String::new(),
            token: None,
            nonce: self.nonce(),
            written_ms: self.clock.wall_ms(),
            result: Value::Null,
        }
    }

    fn nonce(&self) -> Arc<str> {
        Arc::from(format!("{:016x}", self.clock.random()))
    }

    /// Back-off with jitter: 5 ms at first, a quarter of a second at most.
    async fn rest(&self, turn: u32) {
        let bound = 5u64 << turn.min(6);
        let jitter = self.clock.random() % bound.max(1);
        self.pause.pause(Duration::from_millis((bound / 2 + jitter).min(250))).await;
    }
}

/// The plan of a [`Change`]: foreign locks, conditions, operations folded, a rehearsal.
struct Folding<'a> {
    runner: &'a Runner,
    change: &'a Change,
    addresses: &'a BTreeSet<DocAddress>,
    /// What the caller is told; of a commit without its token.
    why: Option<Verdict>,
}

#[async_trait]
impl Planning for Folding<'_> {
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned> {
        let change = self.change;
        let blocked = self.runner.foreign_locks(change, self.addresses).await?;
        if !blocked.is_empty() {
            self.why = Some(Verdict::Locked(blocked));
            return Ok(Planned::Stop);
        }
        let condition = unmet(&change.conditions, before);
        let otherwise = condition.is_some();
        let mut folded = fold(if otherwise { &change.otherwise } else { &change.operations }, before);
        self.runner.rehearse(&mut folded).await?;
        if let Some((condition, conflict)) = condition.filter(|_| change.otherwise.is_empty()) {
            self.why = Some(Verdict::Unmet { condition, conflict });
            return Ok(Planned::Impossible);
        }
        if folded.items.iter().any(Result::is_err) {
            self.why = Some(Verdict::Failed(folded.items));
            return Ok(Planned::Impossible);
        }
        self.why = Some(Verdict::Committed {
            token: Token { term: 0, seq: 0 },
            items: folded.items.iter().filter_map(|item| item.as_ref().ok().copied()).collect(),
            otherwise,
        });
        Ok(Planned::Commit(folded.outcomes))
    }
}
