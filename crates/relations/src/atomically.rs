//! The driver of everything that is decided as one: it runs a transaction, runs it again where that is needed, waits, and gives
//! up in time.
//!
//! A [`Transaction`] reads and says what comes next ([`Step`]). Over `AtomicWrites` the driver runs it in the engine's critical
//! section; it alone calls `decide`, and keeps what a run came to, so that no caller needs a loop, an enum of its own or a
//! variable that its closure captures. Link policies add to the plan what they ask for (`links`), whoever made it. Over an engine without a section a transaction is a change by intents
//! (`transactions::by_intents::without_section`).
//!
//! Not here: what transactions do, changes by intents.

use crate::Relations;
use crate::links::{ExpansionEnd, Origin, Policy, States, Upkeep};
use crate::outcomes::{all_written, log_failed};
use crate::schema::is_lease;
use async_recursion::async_recursion as boxed;
use engine::{Alteration, AtomicWrites, Decision, Gate, Newest, Outcome, Plan, Source, TxnOptions, TxnResult, WriteIndex};
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Waiting for other transactions, all attempts together.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Made inside the section once the record has its place: it may alter the memory that the record stands for.
pub(crate) type Answer<T> = Box<dyn FnOnce(&Decision<'_>) -> T + Send>;

/// The end of one run: it says what comes next.
pub(crate) enum Step<T> {
    /// Write this. The answer holds once all of it is durable.
    Commit(Plan, T),
    /// Write this, and make the answer inside the section.
    CommitWith(Plan, Answer<T>),
    /// Write nothing.
    Reply(T),
    /// Run again as the options say now: with no other decision beside it, for one.
    Exclusive,
    /// Make these indices, then run again.
    CreateFirst(Vec<Alteration>),
    /// Evaluate what takes long where nothing is locked, then run again.
    EvaluateFirst,
    /// Finish the transactions under these leases, then run again.
    FinishFirst(Vec<Arc<str>>),
    /// Somebody is in the way for a moment: wait, then run again. The error is for who has waited too long.
    Busy(Error),
}

/// The next step after the engine refused a write, and so wrote none.
pub(crate) enum Refused<T> {
    /// Run again.
    Again,
    /// Answer this.
    Reply(T),
}

/// Something that is decided as one.
pub(crate) trait Transaction: Send {
    /// Its result.
    type Answer: Send + 'static;
    /// The documents that it may touch, and its gate. Asked before each run.
    fn options(&self) -> TxnOptions;
    /// Reads, and says what comes next. It may run several times; the last run counts.
    ///
    /// # Errors
    /// Nothing is written.
    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<Self::Answer>>;
    /// Runs where nothing is locked, after [`Step::EvaluateFirst`].
    fn evaluate(&mut self, newest: &mut dyn Newest) {
        let _ = newest;
    }
    /// The engine did not write. By default that is an error.
    ///
    /// # Errors
    /// The first refusal; a conflict where nothing was expected.
    fn on_refusal(&mut self, outcomes: &[Outcome]) -> Result<Refused<Self::Answer>> {
        all_written(outcomes, "a document that nothing was expected of was in conflict")?;
        Err(Error::new(ErrorKind::Internal, "a decision was refused without a refusal"))
    }
    /// The error if the log failed: whether it is written nobody knows before a restart.
    fn unknown(&self) -> Error {
        log_failed()
    }
    /// The policy whose copies its writes have already.
    fn filling_policy(&self) -> Option<&Arc<Policy>> {
        None
    }
    /// May a document be written that a link policy brings into the plan, and that was and will be like this?
    ///
    /// # Errors
    /// Locks of others refuse it, as they refuse the transaction's own writes.
    fn check_linked(&self, index: &WriteIndex, at: &DocAddress, states: &States<'_>) -> Result<()> {
        let _ = (index, at, states);
        Ok(())
    }
}

/// The result of a transaction.
#[derive(Debug)]
pub(crate) struct Done<T> {
    /// The answer of its last run.
    pub(crate) answer: T,
    /// Its place among all records of the store.
    pub(crate) commit_seq: CommitSeq,
    /// For each write of the plan the stamp it got; none if nothing was to be written.
    pub(crate) stamps: Vec<Stamp>,
    /// The sources of those writes of the plan that link policies altered.
    pub(crate) altered: Vec<(usize, Source)>,
}

/// The last run, while the engine carries it out.
enum Ran<T> {
    Commit(T),
    CommitWith,
    Reply(T),
    Exclusive,
    CreateFirst(Vec<Alteration>),
    EvaluateFirst,
    FinishFirst(Vec<Arc<str>>),
    Busy(Error),
}

impl<T: Send + 'static> Step<T> {
    /// The plan for the engine, and what is kept here meanwhile.
    fn split(self, made: &Arc<Mutex<Option<T>>>) -> (Plan, Ran<T>) {
        match self {
            Step::Commit(plan, answer) => (plan, Ran::Commit(answer)),
            Step::CommitWith(mut plan, answer) => {
                assert!(plan.then.is_none(), "T15: a plan alters memory in one place");
                let made = made.clone();
                plan.then = Some(Box::new(move |decision: &Decision<'_>| {
                    *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer(decision));
                }));
                (plan, Ran::CommitWith)
            }
            Step::Reply(answer) => (Plan::default(), Ran::Reply(answer)),
            Step::Exclusive => (Plan::revealing_nothing(), Ran::Exclusive),
            Step::CreateFirst(indices) => (Plan::revealing_nothing(), Ran::CreateFirst(indices)),
            Step::EvaluateFirst => (Plan::revealing_nothing(), Ran::EvaluateFirst),
            Step::FinishFirst(leases) => (Plan::revealing_nothing(), Ran::FinishFirst(leases)),
            Step::Busy(error) => (Plan::revealing_nothing(), Ran::Busy(error)),
        }
    }
}

impl Relations {
    /// Runs a transaction to its end.
    ///
    /// # Errors
    /// Those of its runs; what the engine refused; a log that failed; a transaction that rests on the table of locks over an engine
    /// without a critical section; others that were in the way for longer than [`TIMEOUT`].
    #[boxed]
    pub(crate) async fn atomically<T: Transaction>(&self, transaction: &mut T) -> Result<Done<T::Answer>> {
        self.check_control()?;
        let Some(atomic) = self.engine.atomic() else {
            return self.atomically_by_intents(transaction).await;
        };
        let until = self.clock.monotonic() + TIMEOUT;
        let mut upkeep: Option<Upkeep> = None;
        loop {
            // A policy that is put waits until this decision has its place.
            let policies = self.links.table();
            if !upkeep.as_ref().is_some_and(|upkeep| upkeep.is_of(&policies)) {
                upkeep = Upkeep::of(&self.links, &policies, self.clock.wall_ms());
            }
            let made: Arc<Mutex<Option<T::Answer>>> = Arc::default();
            let Decided { mut result, ran, linked } = decide_once(atomic, transaction, upkeep.as_mut(), &made).await?;
            let altered = match self.after_links(linked, &mut upkeep, &mut result, until).await? {
                AfterRun::Done(altered) => altered,
                AfterRun::Again => continue,
                AfterRun::Wait(at) => {
                    // Who waits keeps nobody else waiting.
                    drop((upkeep.take(), policies));
                    self.links.latches.until_released(&at).await;
                    continue;
                }
            };
            let Some(ran) = ran else {
                // The engine refused before it ran anything: for want of room, for one.
                all_written(&result.outcomes, "a document that nothing was expected of was in conflict")?;
                return Err(Error::new(ErrorKind::Internal, "a decision did not run its body"));
            };
            let late = self.clock.monotonic() >= until;
            match ran {
                Ran::Commit(_) | Ran::CommitWith if !is_written(&result) => {
                    // A change by intents has not finished with a document.
                    if self.portable.is_some() && !late && is_held(&result) {
                        self.breathe().await;
                    } else if let Refused::Reply(answer) = transaction.on_refusal(&result.outcomes)? {
                        return Ok(finish(answer, &result, altered));
                    }
                }
                Ran::Commit(_) | Ran::CommitWith if is_unknown(&result) => return Err(transaction.unknown()),
                Ran::Commit(answer) | Ran::Reply(answer) => return Ok(finish(answer, &result, altered)),
                Ran::CommitWith => {
                    let answer = made.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let answer = answer.ok_or_else(|| transaction.unknown())?;
                    return Ok(finish(answer, &result, altered));
                }
                Ran::Exclusive => {}
                Ran::CreateFirst(indices) => {
                    for index in indices {
                        self.engine.alter(index).await?;
                    }
                }
                Ran::EvaluateFirst => atomic.look(&mut |newest| transaction.evaluate(newest)).await,
                Ran::FinishFirst(leases) => self.finish_under(&leases).await?,
                Ran::Busy(error) if late => return Err(error),
                Ran::Busy(_) => {
                    self.finish_what_was_left().await;
                    self.breathe().await;
                }
            }
        }
    }

    /// The next step after a run, as far as link policies say.
    ///
    /// # Errors
    /// Documents that cannot be looked for; others that are in the way for too long.
    #[boxed]
    async fn after_links(
        &self,
        linked: Option<ExpansionEnd>,
        upkeep: &mut Option<Upkeep>,
        result: &mut TxnResult,
        until: Duration,
    ) -> Result<AfterRun> {
        match linked {
            None => {}
            Some(ExpansionEnd::Whole { own, origins, altered }) => {
                result.outcomes = own_outcomes(std::mem::take(&mut result.outcomes), own, &origins);
                // The sources that were looked for are latched no longer.
                *upkeep = None;
                return Ok(AfterRun::Done(altered));
            }
            Some(ExpansionEnd::Refused(n, error)) => result.outcomes = refusal_at(n, error),
            Some(_) if self.clock.monotonic() >= until => return Err(too_busy()),
            Some(ExpansionEnd::Find(wanted)) => {
                if let Some(upkeep) = upkeep {
                    upkeep.find(self.engine.as_ref(), wanted, result.commit_seq).await?;
                }
                return Ok(AfterRun::Again);
            }
            Some(ExpansionEnd::Wait(at)) => return Ok(AfterRun::Wait(at)),
        }
        Ok(AfterRun::Done(Vec::new()))
    }

    /// Runs a transaction that is one closure and takes the default for everything else.
    ///
    /// # Errors
    /// As [`Relations::atomically`].
    pub(crate) async fn atomically_once<T: Send + 'static>(
        &self,
        options: TxnOptions,
        body: impl FnMut(&mut dyn Newest) -> Result<Step<T>> + Send,
    ) -> Result<T> {
        let mut once = Once { options, body };
        Ok(self.atomically(&mut once).await?.answer)
    }
}

/// One decision of the engine, and the last run in it.
struct Decided<T> {
    result: TxnResult,
    ran: Option<Ran<T>>,
    linked: Option<ExpansionEnd>,
}

async fn decide_once<T: Transaction>(
    atomic: &dyn AtomicWrites,
    transaction: &mut T,
    mut upkeep: Option<&mut Upkeep>,
    made: &Arc<Mutex<Option<T::Answer>>>,
) -> Result<Decided<T::Answer>> {
    let options = options_with(transaction.options(), upkeep.as_deref());
    let is_exclusive = options.gate == Gate::Exclusive;
    let (mut ran, mut linked) = (None, None);
    let mut body = |newest: &mut dyn Newest| {
        let (mut plan, last) = transaction.run(newest)?.split(made);
        assert!(
            is_exclusive || !plan.writes.iter().any(|write| is_lease(&write.at)),
            "T15, T26: a lease is written by an exclusive decision, which alters the table of locks"
        );
        linked = None;
        if let (Some(upkeep), Ran::Commit(_) | Ran::CommitWith) = (upkeep.as_deref_mut(), &last) {
            let mut check =
                |index: &WriteIndex, at: &DocAddress, states: &States<'_>| transaction.check_linked(index, at, states);
            let filling_policy = transaction.filling_policy();
            linked = Some(add_linked(upkeep, newest, &mut plan, filling_policy, &mut check)?);
        }
        ran = Some(last);
        Ok(plan)
    };
    let result = atomic.decide(&mut body, options).await?;
    debug_assert!(
        linked.is_none() || matches!(ran, Some(Ran::Commit(_) | Ran::CommitWith)),
        "links.md K1: policies add to what a run commits, and to nothing else"
    );
    Ok(Decided { result, ran, linked })
}

/// The next step after a run.
enum AfterRun {
    /// The engine's answer holds; policies altered these sources.
    Done(Vec<(usize, Source)>),
    /// Run again.
    Again,
    /// Run again once nobody looks for the references to this source.
    Wait(DocAddress),
}

/// The options of a run beside link policies: what they found is read, and locks are looked at.
fn options_with(mut options: TxnOptions, upkeep: Option<&Upkeep>) -> TxnOptions {
    if let Some(upkeep) = upkeep {
        options.touches.extend(upkeep.touches());
        if options.gate == Gate::None {
            options.gate = Gate::Shared;
        }
    }
    options
}

/// Adds what policies ask for to a plan, which is dropped where it cannot be carried out yet, or at all.
fn add_linked(
    upkeep: &mut Upkeep,
    newest: &mut dyn Newest,
    plan: &mut Plan,
    filling_policy: Option<&Arc<Policy>>,
    check: &mut crate::links::LockCheck<'_>,
) -> Result<ExpansionEnd> {
    let next = upkeep.expand(newest, plan, filling_policy, check)?;
    match &next {
        ExpansionEnd::Whole { .. } => {}
        // The refusal rests on what was read.
        ExpansionEnd::Refused(..) => *plan = Plan::default(),
        ExpansionEnd::Find(_) | ExpansionEnd::Wait(_) => *plan = Plan::revealing_nothing(),
    }
    Ok(next)
}

/// The outcomes of a transaction's own writes: one is refused where a write that follows from it was.
fn own_outcomes(mut outcomes: Vec<Outcome>, own: usize, origins: &[Origin]) -> Vec<Outcome> {
    if outcomes.len() <= own {
        return outcomes;
    }
    assert_eq!(
        outcomes.len(),
        own + origins.len(),
        "links.md K1: each write that was added has its origin"
    );
    for (outcome, origin) in outcomes.split_off(own).into_iter().zip(origins) {
        let refusal = match outcome {
            Outcome::Written(_) | Outcome::Unknown => continue,
            Outcome::Refused(error) => origin.refusal(error),
            Outcome::Conflict(_) | Outcome::Held(_) => {
                let reason = "a document that was read in the same decision has changed";
                origin.refusal(Error::new(ErrorKind::Internal, reason))
            }
        };
        assert!(
            origin.cause < own,
            "links.md K1: a write that was added follows from one of the transaction's own"
        );
        outcomes[origin.cause] = Outcome::Refused(refusal);
    }
    outcomes
}

/// A write of the plan cannot be, so none of it was written.
fn refusal_at(n: usize, error: Error) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = (0..n).map(|_| Outcome::Unknown).collect();
    outcomes.push(Outcome::Refused(error));
    outcomes
}

fn too_busy() -> Error {
    let reason = format!("changes of linked documents were in the way for longer than {TIMEOUT:?}; nothing was changed");
    Error::new(ErrorKind::Timeout, reason)
}

struct Once<F> {
    options: TxnOptions,
    body: F,
}

impl<T: Send + 'static, F: FnMut(&mut dyn Newest) -> Result<Step<T>> + Send> Transaction for Once<F> {
    type Answer = T;
    fn options(&self) -> TxnOptions {
        self.options.clone()
    }
    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<T>> {
        (self.body)(newest)
    }
}

fn finish<T>(answer: T, result: &TxnResult, altered: Vec<(usize, Source)>) -> Done<T> {
    let stamp = |outcome: &Outcome| match outcome {
        Outcome::Written(written) => written.stamp,
        _ => Stamp::default(),
    };
    Done {
        answer,
        commit_seq: result.commit_seq,
        stamps: result.outcomes.iter().map(stamp).collect(),
        altered,
    }
}

/// Did the engine refuse nothing?
fn is_written(result: &TxnResult) -> bool {
    let mut outcomes = result.outcomes.iter();
    outcomes.all(|outcome| matches!(outcome, Outcome::Written(_) | Outcome::Unknown))
}

fn is_held(result: &TxnResult) -> bool {
    result.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Held(_)))
}

fn is_unknown(result: &TxnResult) -> bool {
    result.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unknown))
}
