//! Transactions of the driver (`atomically`) on an engine without a critical section.
//!
//! A transaction is first run over documents as they are read, to learn what it reads and writes. A single write that rests on
//! nothing is then one write. Everything else is an attempt of `intents`: the transaction runs again over what the attempt
//! reads, marks prove every read, and the record decides all writes at once. An answer without writes is proved the same way,
//! since a cluster's reads may be stale.
//!
//! One that alters the table of locks ([`Gate::Exclusive`]) has the gate among its documents ([`super::gate`]): its attempt brings the
//! table up to the gate, runs over it, and writes the gate with the next number (T27).
//!
//! Not here: other transactions that rest on the table ([`Gate::Shared`]), which are refused by name. Changes compare the gate
//! themselves (`plan`).

use super::gate::{Gate as LockGate, Passage, gate_address, stamp_at};
use super::names::Names;
use super::{BREATH, Portable, unknown};
use crate::Relations;
use crate::atomically::{Answer, Done, Refused, Step, TIMEOUT, Transaction};
use crate::intents::{Attempt, Before, Effects, Ended, Planned, Planning, rehearse_and_grow};
use crate::leases::TimedBy;
use crate::locks::{Age, Owner};
use crate::schema;
use crate::schema::is_lease;
use async_recursion::async_recursion as boxed;
use async_trait::async_trait;
use engine::{
    Decision, Document, Effect, Expect, Found, Gate, Hide, Newest, Outcome, Read, See, Write, WriteIndex, WriteOp, Written,
};
use model::{CommitSeq, DocAddress, DocId, Error, ErrorKind, Result, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So long one attempt waits at the gate; then its server beats, and looks at the sessions of others: one of them may hold it.
const PATIENCE_AT_GATE: Duration = Duration::from_secs(1);

/// The newest documents as far as they were read, for a run. It notes what else the run asks for.
struct Reading<'a> {
    names: &'a Names,
    before: &'a BTreeMap<DocAddress, Before>,
    /// Every document that the run read.
    read: BTreeSet<DocAddress>,
    asked: MissingReads,
}

/// Names and documents that a run asked for and that were not read yet: the run does not count.
#[derive(Default)]
struct MissingReads {
    names: BTreeSet<String>,
    documents: BTreeSet<DocAddress>,
}

impl MissingReads {
    fn is_nothing(&self) -> bool {
        self.names.is_empty() && self.documents.is_empty()
    }
}

/// Ends a run that does not count.
fn not_read_yet() -> Error {
    Error::new(ErrorKind::Internal, "a transaction was answered from what was not read")
}

impl<'a> Reading<'a> {
    fn new(names: &'a Names, before: &'a BTreeMap<DocAddress, Before>) -> Reading<'a> {
        Reading {
            names,
            before,
            read: BTreeSet::new(),
            asked: MissingReads::default(),
        }
    }
    /// The address by the names that its index gives.
    fn resolve(&mut self, at: &DocAddress) -> Result<DocAddress> {
        self.index(at.index.as_str())?;
        self.names.at(at).ok_or_else(not_read_yet)
    }
}

impl Newest for Reading<'_> {
    fn read(&mut self, at: &DocAddress, _see: See) -> Result<Option<Document>> {
        let at = self.resolve(at)?;
        self.read.insert(at.clone());
        let Some(before) = self.before.get(&at) else {
            self.asked.documents.insert(at);
            return Err(not_read_yet());
        };
        let stamped = |document: Document| Document {
            stamp: before.stamp.unwrap_or(document.stamp),
            ..document
        };
        Ok(before.document.clone().map(stamped))
    }
    fn index(&mut self, name: &str) -> Result<WriteIndex> {
        let Some(known) = self.names.known.get(name) else {
            self.asked.names.insert(name.to_owned());
            return Err(not_read_yet());
        };
        known.clone()
    }
    fn identity(&mut self, at: &DocAddress) -> Result<DocId> {
        Ok(self.resolve(at)?.id)
    }
    /// Done for all of them together, when the plan is made.
    fn rehearse(&mut self, _write: &Write) -> Result<()> {
        Ok(())
    }
}

/// The last run of an attempt.
enum RunOutcome<T> {
    /// It asked for more.
    Asked(MissingReads),
    /// The writes, by their addresses in order, and the answer.
    Commit(Vec<DocAddress>, Made<T>),
    /// The same of a grant or an end, with what passes the gate.
    Pass(Passage, Made<T>),
    /// The engine would refuse some of the writes.
    Refused(Vec<Outcome>),
    /// It failed.
    Failed(Error),
    /// Any other step.
    Step(Box<Step<T>>),
}

/// An answer, or how it is made when the place of the writes is known.
enum Made<T> {
    Now(T),
    Then(Answer<T>),
}

impl<T> Made<T> {
    fn at(self, commit_seq: CommitSeq, stamps: Vec<Stamp>) -> Done<T> {
        let answer = match self {
            Made::Now(answer) => answer,
            Made::Then(answer) => answer(&Decision {
                moves: &[],
                commit_seq,
                stamps: &stamps,
            }),
        };
        Done {
            answer,
            commit_seq,
            stamps,
            // Over such an engine no policy can be put.
            altered: Vec::new(),
        }
    }
}

/// A transaction as the plan of an attempt.
struct RunInAttempt<'a, T: Transaction> {
    relations: &'a Relations,
    transaction: &'a mut T,
    names: &'a Names,
    /// The attempt, and the server by which it passes the gate; `None`: it alters no table.
    gate: Option<(&'a Portable, &'a Owner)>,
    came: Option<RunOutcome<T::Answer>>,
}

#[async_trait]
impl<T: Transaction> Planning for RunInAttempt<'_, T> {
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned> {
        let gate = match self.gate {
            None => None,
            Some((portable, own)) => {
                let found = before.get(&gate_address()).and_then(|before| before.document.as_ref());
                let gate = LockGate::read(found)?;
                // Marks prove that it was read as it is, or the attempt begins anew.
                let own = Some((own, Age::default()));
                if !self.relations.catch_up(portable, own, &gate).await? {
                    return Ok(Planned::Later);
                }
                Some((portable, gate))
            }
        };
        let (step, asked, read) = {
            let mut reading = Reading::new(self.names, before);
            (self.transaction.run(&mut reading), reading.asked, reading.read)
        };
        if !asked.is_nothing() {
            self.came = Some(RunOutcome::Asked(asked));
            return Ok(Planned::Stop);
        }
        debug_assert!(
            read.iter().all(|at| before.contains_key(at)),
            "T25: what an answer rests on is among the documents of its attempt, which marks prove"
        );
        let (plan, made) = match step {
            // Marks prove what a failure rests on, as they prove a success.
            Err(error) => {
                self.came = Some(RunOutcome::Failed(error));
                return Ok(Planned::Impossible);
            }
            Ok(Step::Commit(plan, _) | Step::CommitWith(plan, _)) if !plan.alterations.is_empty() => {
                self.came = Some(RunOutcome::Step(Box::new(Step::CreateFirst(plan.alterations))));
                return Ok(Planned::Stop);
            }
            // Somebody waits from here on: nothing is written, and nothing told that would have to be proved.
            Ok(Step::CommitWith(plan, answer)) if gate.is_some() && plan.writes.is_empty() => {
                let done = Made::Then(answer).at(0, Vec::new());
                self.came = Some(RunOutcome::Step(Box::new(Step::Reply(done.answer))));
                return Ok(Planned::Stop);
            }
            Ok(Step::Commit(plan, answer)) => (plan, Made::Now(answer)),
            Ok(Step::CommitWith(plan, answer)) => (plan, Made::Then(answer)),
            Ok(step) => {
                let planned = match &step {
                    Step::Reply(_) => Planned::Impossible,
                    _ => Planned::Stop,
                };
                self.came = Some(RunOutcome::Step(Box::new(step)));
                return Ok(planned);
            }
        };
        if plan.seal.is_some() || plan.then.is_some() {
            let reason = "a transaction without a critical section alters no memory and seals no document";
            return Err(Error::new(ErrorKind::Internal, reason));
        }
        let (came, planned) = match gate {
            None => {
                assert!(
                    !plan
                        .writes
                        .iter()
                        .any(|write| is_lease(&write.at) || write.at == gate_address()),
                    "T26: a lease or the gate is written by a transaction that does not compare the gate"
                );
                self.effects(before, plan.writes, made).await?
            }
            Some((portable, gate)) => {
                let passage = gate.pass(plan.writes, &portable.session.get())?;
                match self.effects(before, passage.writes.clone(), made).await? {
                    (RunOutcome::Commit(_, made), planned) => (RunOutcome::Pass(passage, made), planned),
                    other => other,
                }
            }
        };
        self.came = Some(came);
        Ok(planned)
    }
}

impl<T: Transaction> RunInAttempt<'_, T> {
    /// The outcomes of the documents that a plan writes; or why it cannot be.
    async fn effects(
        &mut self,
        before: &BTreeMap<DocAddress, Before>,
        writes: Vec<Write>,
        made: Made<T::Answer>,
    ) -> Result<(RunOutcome<T::Answer>, Planned)> {
        let mut asked = MissingReads::default();
        let mut addresses = Vec::with_capacity(writes.len());
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in &writes {
            let mut reading = Reading::new(self.names, before);
            let at = reading.resolve(&write.at);
            asked.names.append(&mut reading.asked.names);
            let Ok(at) = at else { continue };
            match before.get(&at) {
                None => drop(asked.documents.insert(at.clone())),
                Some(before) => outcomes.push(expected_outcome(write, &at, before)),
            }
            addresses.push(at);
        }
        if !asked.is_nothing() {
            return Ok((RunOutcome::Asked(asked), Planned::Stop));
        }
        if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Conflict(_))) {
            // Marks prove that what was read is so.
            return Ok((RunOutcome::Refused(outcomes), Planned::Impossible));
        }
        let plain = |write: &Write| Write {
            hide: Hide::Drop,
            ..write.clone()
        };
        let plain: Vec<Write> = writes.iter().map(plain).collect();
        let refused = rehearse_and_grow(&*self.relations.engine, &plain).await?;
        if refused.iter().any(Option::is_some) {
            let outcome = |refused: Option<Error>| refused.map_or(Outcome::Unknown, Outcome::Refused);
            return Ok((RunOutcome::Refused(refused.into_iter().map(outcome).collect()), Planned::Stop));
        }
        assert_eq!(
            addresses.len(),
            writes.len(),
            "T2: each write has the address that it leads to"
        );
        let mut effects = BTreeMap::new();
        for (at, write) in addresses.iter().zip(&writes) {
            let effect = match &write.op {
                WriteOp::Put(source) => Effects::Put {
                    source: source.clone(),
                    routing: write.routing.clone(),
                    parent: write.parent.clone(),
                    timing: match &at.id.doc_type {
                        Some(_) => write.timing.clone().judge_at(self.relations.clock.wall_ms()),
                        None => mapping::Timing::default(),
                    },
                },
                WriteOp::Delete => Effects::Delete,
                WriteOp::Update(_) => {
                    let reason = "a transaction without a critical section evaluates its updates itself";
                    return Err(Error::new(ErrorKind::Internal, reason));
                }
            };
            let twice = effects.insert(at.clone(), effect);
            assert!(twice.is_none(), "T2: a transaction writes {at:?} twice");
        }
        Ok((RunOutcome::Commit(addresses, made), Planned::Commit(effects)))
    }
}

/// Does the document stand as the write expects? Marks that went over it and left it as it was do not count.
fn expected_outcome(write: &Write, at: &DocAddress, before: &Before) -> Outcome {
    let found = |stamp: Option<Stamp>| match (&before.document, stamp) {
        (Some(_), Some(stamp)) => Found::Here(stamp),
        (None, Some(stamp)) => Found::Deleted(stamp),
        (_, None) => Found::Nothing,
    };
    let stamped = matches!(write.expect, Expect::Unchanged { .. } | Expect::Version(_));
    let since = before.since.filter(|_| stamped);
    let checked = write.expect.check(at, found(before.stamp));
    match checked.or_else(|conflict| since.map_or(Err(conflict), |since| write.expect.check(at, found(Some(since))))) {
        Err(conflict) => Outcome::Conflict(conflict),
        Ok(()) => Outcome::Written(Written {
            effect: Effect::Updated,
            at: at.clone(),
            stamp: Stamp::default(),
            source: None,
            forced_refresh: false,
        }),
    }
}

/// The first run, over documents as they are read: what to do before an attempt, or instead of it.
enum First<T> {
    /// Read these as well, and run again.
    Asked(MissingReads),
    /// An attempt of these documents.
    Attempt(BTreeSet<DocAddress>),
    /// One write that rests on nothing.
    Write(Box<Write>, Made<T>),
    /// A step that rests on no document.
    Step(Box<Step<T>>),
}

impl Relations {
    /// Runs a transaction of the driver where the engine has no critical section.
    ///
    /// # Errors
    /// Its own; one that rests on the table of locks, which needs a section; waiting for others too long.
    pub(crate) async fn atomically_by_intents<T: Transaction>(&self, transaction: &mut T) -> Result<Done<T::Answer>> {
        let mut course = Course {
            relations: self,
            portable: self.portable.as_ref().ok_or_else(no_section)?,
            name: self.clock.random(),
            attempts: 0,
            age: None,
            deadline: self.clock.monotonic() + TIMEOUT,
            names: Names::default(),
            touched: BTreeSet::new(),
        };
        loop {
            if self.clock.monotonic() > course.deadline {
                let reason = format!("others did not leave the documents of a transaction within {TIMEOUT:?}");
                return Err(Error::new(ErrorKind::Timeout, reason));
            }
            if let Some(done) = course.turn(transaction).await? {
                return Ok(done);
            }
        }
    }
}

/// One transaction on its way: everything that its attempts share.
struct Course<'a> {
    relations: &'a Relations,
    portable: &'a Portable,
    /// By which the attempts are named.
    name: u64,
    attempts: u32,
    /// The age of the first attempt.
    age: Option<Age>,
    deadline: Duration,
    names: Names,
    /// The documents that a first run may read.
    touched: BTreeSet<DocAddress>,
}

impl Course<'_> {
    /// Runs the transaction once, and an attempt of it where that is needed. `None`: once more.
    async fn turn<T: Transaction>(&mut self, transaction: &mut T) -> Result<Option<Done<T::Answer>>> {
        let options = transaction.options();
        if options.gate == Gate::Shared {
            return Err(no_section());
        }
        for at in &options.touches {
            self.relations.learn(&mut self.names, at.index.as_str()).await?;
            self.touched.extend(self.names.at(at));
        }
        let relations = self.relations;
        if options.gate == Gate::Exclusive {
            return self.pass_gate(transaction).await;
        }
        match relations.run_first(transaction, &self.names, &self.touched).await? {
            First::Asked(asked) => self.learn_asked(asked).await?,
            First::Step(step) => return self.follow_step(*step).await,
            First::Attempt(addresses) => return self.attempt(transaction, addresses, None).await,
            First::Write(write, made) => {
                let runner = &self.portable.runner;
                match runner.write(*write, options.refresh, self.deadline).await? {
                    Outcome::Written(written) => return Ok(Some(made.at(0, vec![written.stamp]))),
                    // It may be written once more: nobody was answered.
                    Outcome::Unknown => relations.breathe().await,
                    outcome => return handle_refusal(transaction, &[outcome]),
                }
            }
        }
        Ok(None)
    }

    /// One attempt of a transaction that alters the table of locks, which no other one of this server does meanwhile.
    async fn pass_gate<T: Transaction>(&mut self, transaction: &mut T) -> Result<Option<Done<T::Answer>>> {
        self.relations.keep_session(self.portable).await?;
        let turn = self.relations.locks.gate_turn();
        let _turn = turn.lock().await;
        self.relations.learn(&mut self.names, schema::CONTROL).await?;
        let mut addresses = self.touched.clone();
        addresses.insert(gate_address());
        self.attempt(transaction, addresses, Some(self.portable)).await
    }

    /// The gate was passed: the table follows, then what was checked before is decided, then it is told.
    async fn finish_passage<A>(
        &self,
        own: &Owner,
        commit_seq: CommitSeq,
        passage: Passage,
        made: Made<A>,
    ) -> Result<Option<Done<A>>> {
        let Passage { number, writes, .. } = &passage;
        assert!(
            writes.last().is_some_and(|write| write.at == gate_address()),
            "T29: the gate is written last, behind the leases whose stamps are its number"
        );
        // All but the gate.
        let stamps = vec![stamp_at(*number); writes.len() - 1];
        self.relations.locks.table().stand_at(*number);
        let done = made.at(commit_seq, stamps);
        if passage.session != self.portable.session.get() {
            // T30: what was granted names a session that has ended.
            let (mut table, now) = self.relations.locks.now(&self.relations.clock);
            table.adopt(&TimedBy::Here, now);
        }
        if let Err(error) = self.relations.settle_passage(self.portable, own, &passage).await {
            // Nobody hears of what was granted, so it ends.
            let mut table = self.relations.locks.table();
            passage.granted.iter().for_each(|(id, _)| table.cut(id, Duration::ZERO));
            return Err(error);
        }
        Ok(Some(done))
    }

    /// One attempt over these documents. `None`: the transaction runs again.
    #[boxed]
    async fn attempt<T: Transaction>(
        &mut self,
        transaction: &mut T,
        addresses: BTreeSet<DocAddress>,
        gate: Option<&Portable>,
    ) -> Result<Option<Done<T::Answer>>> {
        assert_eq!(
            gate.is_some(),
            addresses.contains(&gate_address()),
            "T26: an attempt that alters the table of locks compares the gate, and no other one does"
        );
        self.touched.extend(addresses.iter().cloned());
        let patience = self.relations.clock.monotonic() + PATIENCE_AT_GATE;
        let attempt = Attempt {
            id: Owner::new(format!("c-{:016x}.{}", self.name, self.attempts)),
            age: self.age,
            addresses,
            under: Vec::new(),
            digest: String::new(),
            deadline: if gate.is_some() {
                patience.min(self.deadline)
            } else {
                self.deadline
            },
        };
        self.attempts += 1;
        let mut run = RunInAttempt {
            relations: self.relations,
            transaction: &mut *transaction,
            names: &self.names,
            gate: gate.map(|portable| (portable, &attempt.id)),
            came: None,
        };
        let ended = self.portable.runner.attempt(&attempt, &mut run).await;
        let came = run.came.take();
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) if self.relations.is_undone(self.portable, &attempt.id).await => return Err(error),
            Err(error) => {
                self.portable.lock_unfinished().leave(&attempt.id);
                return Err(unknown(&attempt.id, error));
            }
        };
        match (ended, came) {
            (Ended::Committed { token, stamps }, Some(RunOutcome::Commit(addresses, made))) => {
                self.portable.note_commit(token.commit_seq());
                assert!(
                    addresses.iter().all(|at| stamps.contains_key(at)),
                    "T25: a commit is answered once each of its documents shows it"
                );
                let stamp = |at: &DocAddress| stamps.get(at).copied().unwrap_or_default();
                let stamps = addresses.iter().map(stamp).collect();
                return Ok(Some(made.at(token.commit_seq(), stamps)));
            }
            (Ended::Committed { token, .. }, Some(RunOutcome::Pass(passage, made))) => {
                let commit_seq = token.commit_seq();
                self.portable.note_commit(commit_seq);
                return self.finish_passage(&attempt.id, commit_seq, passage, made).await;
            }
            (Ended::Stopped, Some(RunOutcome::Asked(asked))) => self.learn_asked(asked).await?,
            (Ended::Stopped, Some(RunOutcome::Refused(outcomes))) => return handle_refusal(transaction, &outcomes),
            (Ended::Stopped, Some(RunOutcome::Step(step))) => return self.follow_step(*step).await,
            (Ended::Stopped, Some(RunOutcome::Failed(error))) | (Ended::Refused { error, .. }, _) => return Err(error),
            (Ended::Aborted { age }, _) => self.age = Some(age).filter(|age| *age != Age::default()),
            // The next turn says so.
            (Ended::TimedOut, _) => {}
            (ended, _) => {
                let reason = format!("an attempt of a transaction ended as {ended:?}");
                return Err(Error::new(ErrorKind::Internal, reason));
            }
        }
        Ok(None)
    }

    /// Follows a step other than a commit; `None`: the transaction runs again.
    async fn follow_step<A>(&mut self, step: Step<A>) -> Result<Option<Done<A>>> {
        let relations = self.relations;
        match step {
            Step::Reply(answer) => return Ok(Some(Made::Now(answer).at(0, Vec::new()))),
            // The options say what it needs now.
            Step::Exclusive => {}
            Step::CreateFirst(indices) => {
                for index in indices {
                    relations.engine.alter(index).await?;
                }
                self.names = Names::default();
            }
            Step::Busy(error) if relations.clock.monotonic() >= self.deadline => return Err(error),
            // Each attempt is a record: they come more and more rarely.
            Step::Busy(_) => self.portable.pause.pause(BREATH * (1 << self.attempts.min(7))).await,
            Step::FinishFirst(leases) => relations.finish_under(&leases).await?,
            Step::Commit(..) | Step::CommitWith(..) | Step::EvaluateFirst => return Err(no_section()),
        }
        Ok(None)
    }

    async fn learn_asked(&mut self, asked: MissingReads) -> Result<()> {
        for name in &asked.names {
            self.relations.learn(&mut self.names, name).await?;
            self.names.note_missing(name);
        }
        self.touched.extend(asked.documents);
        Ok(())
    }
}

/// The engine does not take some of the writes.
fn handle_refusal<T: Transaction>(transaction: &mut T, outcomes: &[Outcome]) -> Result<Option<Done<T::Answer>>> {
    Ok(match transaction.on_refusal(outcomes)? {
        Refused::Again => None,
        Refused::Reply(answer) => Some(Made::Now(answer).at(0, Vec::new())),
    })
}

impl Relations {
    /// Runs it over documents as they are read now, and says what comes next.
    async fn run_first<T: Transaction>(
        &self,
        transaction: &mut T,
        names: &Names,
        touched: &BTreeSet<DocAddress>,
    ) -> Result<First<T::Answer>> {
        let reads = touched.iter().map(|at| Read::whole(at.clone())).collect();
        let found = self.engine.read(reads).await?;
        assert_eq!(found.len(), touched.len(), "T7: an engine answers each read, in order");
        let before = |document: Option<Document>| Before {
            stamp: document.as_ref().map(|document| document.stamp),
            document,
            since: None,
        };
        let before = touched.iter().cloned().zip(found.into_iter().map(before)).collect();
        let mut reading = Reading::new(names, &before);
        let step = transaction.run(&mut reading);
        if !reading.asked.is_nothing() {
            return Ok(First::Asked(reading.asked));
        }
        let read = std::mem::take(&mut reading.read);
        let (plan, made) = match step {
            // An attempt proves what rests on a read, a failure as well.
            Err(_) | Ok(Step::Reply(_)) if !read.is_empty() => return Ok(First::Attempt(read)),
            Err(error) => return Err(error),
            Ok(Step::Commit(plan, _) | Step::CommitWith(plan, _)) if !plan.alterations.is_empty() => {
                return Ok(First::Step(Box::new(Step::CreateFirst(plan.alterations))));
            }
            Ok(Step::Commit(plan, answer)) => (plan, Made::Now(answer)),
            Ok(Step::CommitWith(plan, answer)) => (plan, Made::Then(answer)),
            Ok(step) => return Ok(First::Step(Box::new(step))),
        };
        let is_alone = read.is_empty();
        let mut addresses = read;
        for write in &plan.writes {
            if let Ok(at) = reading.resolve(&write.at) {
                addresses.insert(at);
            }
        }
        if !reading.asked.is_nothing() {
            return Ok(First::Asked(reading.asked));
        }
        let is_blind = |write: &Write| {
            let keeps_marks = matches!(write.hide, Hide::Keep);
            keeps_marks && !write.is_conditional() && !matches!(write.op, WriteOp::Update(_))
        };
        let is_plain = plan.then.is_none() && plan.seal.is_none() && !plan.numbered;
        if let ([one], true) = (plan.writes.as_slice(), is_alone && is_plain)
            && is_blind(one)
        {
            return Ok(First::Write(Box::new(one.clone()), made));
        }
        Ok(First::Attempt(addresses))
    }
}

/// The refusal of what needs a section.
pub(super) fn no_section() -> Error {
    Error::new(
        ErrorKind::UnsupportedOperation,
        "this engine has no critical section; lock documents, external versions and transactions that are held open are not \
         supported without one",
    )
}
