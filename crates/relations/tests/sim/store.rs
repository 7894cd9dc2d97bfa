//! A store that lies in every way that a cluster may: an engine over the reference engine.
//!
//! | | how it lies here |
//! |---|---|
//! | E1 | a no-operation is answered by whatever copy it meets, without a write |
//! | E2 | a write to a deposed primary is never acknowledged |
//! | E3 | reads are *stale* (an older version of a document) or *dirty* (a write of an isolated primary, never durable) |
//! | E4 | answers are lost after the write; a retried write conflicts with itself; a write is delivered twice, the second time much later |
//! | E5 | an isolated primary gives the next version and sequence number too, under an older term |
//! | E6 | each write of a bulk is on its own, and others come between |
//! | E7 | searches see what was refreshed, and no more |
//! | E8 | ids of more than 512 bytes are refused |
//! | E9 | (large sets of keys: nothing here sends any) |
//! | E10 | a deleted id may be created again |
//! | E11 | a conditional update with an upsert is refused |
//!
//! The control index lies only while its primary is isolated, and then as one copy: the protocol reads it from its
//! primary. Documents may be read stale at any time.

use crate::runs::Mutant;
use crate::world::World;
use async_trait::async_trait;
use engine::memory::MemoryEngine;
use engine::{Around, Document, Engine, Expect, Hide, Outcome, Read, Refresh, See, ViewPromise, Write, WriteOp};
use futures::FutureExt as _;
use model::{DocAddress, Error, Result};
use relations::intents::CONTROL_INDEX;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often, once in so many; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lies {
    pub(crate) stale: u32,
    pub(crate) lost: u32,
    pub(crate) duplicated: u32,
    pub(crate) isolated: u32,
    pub(crate) killed: u32,
    pub(crate) paused: u32,
}

/// The columns of the crash matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    KillBefore,
    KillAfter,
    LostReply,
    Pause,
    Duplicate,
    Failover,
}

/// The rows: which write of a change it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// W1
    Open,
    /// W3
    Chunk,
    /// W4
    Mark,
    /// W5
    Commit,
    /// W6
    Apply,
    /// W7
    Done,
    /// A1
    Abort,
    Other,
}

/// One fault, at the n-th write of a step by one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) task: usize,
    pub(crate) step: Step,
    pub(crate) nth: usize,
    pub(crate) fault: Fault,
}

#[derive(Debug, Default)]
struct State {
    /// What is durable.
    now: BTreeMap<DocAddress, Document>,
    /// What was, per document.
    history: BTreeMap<DocAddress, Vec<Option<Document>>>,
    /// By index, the copy of an isolated primary.
    isolated: BTreeMap<String, BTreeMap<DocAddress, Document>>,
    /// Writes that will be delivered again.
    delayed: Vec<Write>,
    seen: usize,
    pub(crate) struck: bool,
}

#[derive(Debug)]
pub(crate) struct SimStore {
    world: Arc<World>,
    engine: MemoryEngine,
    lies: Mutex<Lies>,
    mutant: Mutex<Option<Mutant>>,
    planned: Option<Planned>,
    state: Mutex<State>,
}

pub(crate) fn step_of(write: &Write) -> Step {
    let control = write.at.index.as_str() == CONTROL_INDEX;
    match (&write.op, &write.hide) {
        (WriteOp::Put(source), Hide::Drop) if control => match source.parse() {
            Ok(body) if body["kind"] == "chunk" => Step::Chunk,
            Ok(body) if body["kind"] != "change" => Step::Other,
            Ok(body) => match body["state"].as_str() {
                Some("pending") => Step::Open,
                Some("committed") => Step::Commit,
                Some("done") => Step::Done,
                Some("aborted") => Step::Abort,
                _ => Step::Other,
            },
            Err(_) => Step::Other,
        },
        // Kept outcomes are documents of the control index that carry marks, as the documents of clients do.
        (_, Hide::Set(mark)) if mark.held => Step::Mark,
        (_, Hide::Set(_)) => Step::Apply,
        _ => Step::Other,
    }
}

impl SimStore {
    pub(crate) fn new(world: Arc<World>, engine: MemoryEngine, lies: Lies, planned: Option<Planned>) -> SimStore {
        SimStore {
            world,
            engine,
            lies: Mutex::new(lies),
            mutant: Mutex::new(None),
            planned,
            state: Mutex::default(),
        }
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn lies(&self) -> Lies {
        *self.lies.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The lies begin.
    pub(crate) fn begin(&self, lies: Lies, mutant: Option<Mutant>) {
        *self.lies.lock().unwrap_or_else(PoisonError::into_inner) = lies;
        *self.mutant.lock().unwrap_or_else(PoisonError::into_inner) = mutant;
    }
    /// The planned fault has happened.
    pub(crate) fn struck(&self) -> bool {
        self.state().struck
    }
    /// From now on the truth, and the truth alone: isolation ends, and what is still on its way arrives.
    pub(crate) fn settle(&self) {
        *self.lies.lock().unwrap_or_else(PoisonError::into_inner) = Lies::default();
        self.state().isolated.clear();
        // A planned fault that has not struck yet never will: the recoverers at the end are well.
        self.state().seen = usize::MAX / 2;
        let delayed = std::mem::take(&mut self.state().delayed);
        for write in delayed {
            self.perform(&write);
        }
    }
    /// The durable state, marks and all.
    pub(crate) fn truth(&self) -> BTreeMap<DocAddress, Document> {
        self.state().now.clone()
    }

    fn perform(&self, write: &Write) -> Outcome {
        let mutant = *self.mutant.lock().unwrap_or_else(PoisonError::into_inner);
        let mut write = write.clone();
        match mutant {
            Some(Mutant::IgnoresExpectations) if step_of(&write) == Step::Mark => write.expect = Expect::Anything,
            Some(Mutant::ForgetsAcknowledged) if step_of(&write) == Step::Apply && self.world.once_in(3) => {
                return Outcome::Written(engine::Written {
                    effect: engine::Effect::Updated,
                    at: write.at.clone(),
                    stamp: model::Stamp::default(),
                    source: None,
                    forced_refresh: false,
                });
            }
            Some(Mutant::AppliesTwice) if step_of(&write) == Step::Apply => {
                self.perform_truly(&write);
                write.expect = Expect::Anything;
                self.state().delayed.push(write.clone());
                return self.perform_truly(&write);
            }
            _ => {}
        }
        self.perform_truly(&write)
    }

    fn perform_truly(&self, write: &Write) -> Outcome {
        if write.at.id.id.len() > 512 {
            return Outcome::Refused(Error::illegal("id is too long, must be no longer than 512 bytes"));
        }
        if let WriteOp::Update(update) = &write.op
            && update.upsert.is_some()
            && matches!(write.expect, Expect::Unchanged { .. })
        {
            return Outcome::Refused(Error::illegal(
                "upsert requests don't support `if_seq_no` and `if_primary_term`",
            ));
        }
        let answer = self
            .engine
            .write(vec![write.clone()], Refresh::No)
            .now_or_never()
            .expect("the reference engine never waits");
        let outcome = answer.expect("a write of one document").pop().expect("one outcome");
        if let Outcome::Written(_) = &outcome {
            let read = Read {
                see: See::Everything,
                ..Read::whole(write.at.clone())
            };
            let after = self
                .engine
                .read(vec![read])
                .now_or_never()
                .expect("no waiting")
                .expect("a read")
                .pop()
                .flatten();
            let mut state = self.state();
            let before = match after {
                Some(document) => state.now.insert(write.at.clone(), document),
                None => state.now.remove(&write.at),
            };
            state.history.entry(write.at.clone()).or_default().push(before);
        }
        outcome
    }

    /// A write that reaches a primary which is no longer one.
    fn ghost(&self, write: &Write) {
        let mut state = self.state();
        let index = write.at.index.as_str().to_owned();
        let durable: BTreeMap<DocAddress, Document> = state
            .now
            .iter()
            .filter(|(at, _)| at.index == write.at.index)
            .map(|(at, d)| (at.clone(), d.clone()))
            .collect();
        let copy = state.isolated.entry(index).or_insert(durable);
        let old = copy.get(&write.at).cloned();
        let fits = match write.expect {
            Expect::Absent => old.is_none(),
            Expect::Unchanged { seq_no, primary_term } => old
                .as_ref()
                .is_some_and(|d| d.stamp.seq_no == seq_no && d.stamp.primary_term == primary_term),
            _ => true,
        };
        let WriteOp::Put(source) = &write.op else { return };
        if !fits {
            return;
        }
        let stamp = old.as_ref().map(|d| d.stamp).unwrap_or_default();
        let hidden = match &write.hide {
            Hide::Keep => old.and_then(|d| d.hidden),
            Hide::Set(mark) => Some(mark.clone()),
            Hide::Drop => None,
        };
        let document = Document {
            at: write.at.clone(),
            stamp: model::Stamp {
                seq_no: stamp.seq_no + 1,
                primary_term: 0,
                version: stamp.version + 1,
            },
            source: source.clone(),
            stored_fields: None,
            routing: write.routing.clone(),
            parent: write.parent.clone(),
            times: mapping::Times::default(),
            tree: None,
            hidden,
        };
        copy.insert(write.at.clone(), document);
    }

    fn fault(&self, write: &Write) -> Option<Fault> {
        let task = self.world.get().task;
        if let Some(planned) = self.planned
            && planned.task == task
            && planned.step == step_of(write)
        {
            let mut state = self.state();
            state.seen += 1;
            if state.seen == planned.nth {
                state.struck = true;
                return Some(planned.fault);
            }
        }
        let lies = self.lies();
        for (times, fault) in [
            (lies.killed, Fault::KillBefore),
            (lies.killed, Fault::KillAfter),
            (lies.lost, Fault::LostReply),
            (lies.paused, Fault::Pause),
            (lies.duplicated, Fault::Duplicate),
            (lies.isolated, Fault::Failover),
        ] {
            if self.world.once_in(times) {
                return Some(fault);
            }
        }
        None
    }

    async fn one(&self, write: Write) -> Outcome {
        // What was delivered twice arrives some time.
        let late = {
            let mut state = self.state();
            let any = !state.delayed.is_empty() && self.world.once_in(8);
            any.then(|| state.delayed.remove(0))
        };
        if let Some(late) = late {
            self.perform(&late);
        }
        match self.fault(&write) {
            None => self.perform(&write),
            Some(Fault::KillBefore) => {
                self.world.die().await;
                Outcome::Unknown
            }
            Some(Fault::KillAfter) => {
                self.perform(&write);
                self.world.die().await;
                Outcome::Unknown
            }
            Some(Fault::LostReply) => {
                self.perform(&write);
                // The coordinating node gives up, or tries again and meets its own success.
                if self.world.once_in(2) {
                    Outcome::Unknown
                } else {
                    self.perform(&write)
                }
            }
            Some(Fault::Pause) => {
                self.world.sleep(Duration::from_secs(120)).await;
                self.perform(&write)
            }
            Some(Fault::Duplicate) => {
                let outcome = self.perform(&write);
                self.state().delayed.push(write);
                outcome
            }
            Some(Fault::Failover) => {
                self.ghost(&write);
                Outcome::Unknown
            }
        }
    }

    fn look(&self, read: &Read, copy: Option<&BTreeMap<DocAddress, Document>>) -> Result<Option<Document>> {
        let sees = |d: &Document| read.see == See::Everything || d.hidden.as_ref().is_none_or(|mark| mark.visible);
        if let Some(copy) = copy {
            return Ok(copy.get(&read.at).filter(|d| sees(d)).cloned());
        }
        let control = read.at.index.as_str() == CONTROL_INDEX;
        let stale = self.lies().stale;
        if !control && self.world.once_in(stale) {
            let state = self.state();
            if let Some(versions) = state.history.get(&read.at) {
                let old = versions[self.world.below(versions.len())].clone();
                return Ok(old.filter(|d| sees(d)));
            }
        }
        self.engine
            .read(vec![read.clone()])
            .now_or_never()
            .expect("no waiting")
            .map(|mut found| found.pop().flatten())
    }
}

#[async_trait]
impl Around for SimStore {
    fn inner(&self) -> &dyn Engine {
        &self.engine
    }
    fn view_promise(&self) -> ViewPromise {
        ViewPromise::MomentPerShard
    }
    async fn before(&self) {
        self.world.turn().await;
    }
    async fn reads(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.world.turn().await;
        // One call meets one copy of an index.
        let mut copies: BTreeMap<String, Option<BTreeMap<DocAddress, Document>>> = BTreeMap::new();
        for read in &reads {
            let index = read.at.index.as_str();
            if !copies.contains_key(index) {
                let mut state = self.state();
                let copy = state.isolated.get(index).cloned().filter(|_| self.world.once_in(3));
                // Isolation ends some time.
                if self.world.once_in(6) {
                    state.isolated.remove(index);
                }
                copies.insert(index.to_owned(), copy);
            }
        }
        let found = reads
            .iter()
            .map(|read| self.look(read, copies[read.at.index.as_str()].as_ref()))
            .collect();
        self.world.turn().await;
        found
    }

    async fn writes(&self, writes: Vec<Write>, _: Refresh) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            self.world.turn().await;
            outcomes.push(self.one(write).await);
        }
        self.world.turn().await;
        Ok(outcomes)
    }
}
