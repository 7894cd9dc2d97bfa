//! Commits a transaction in one critical section of the engine, as one record of the log (T1).
//!
//! Not here: what it comes to (`evaluate`), the path by intents (`by_intents`).

use super::by_intents::ChangeReply;
use super::evaluate::{ATTEMPTS_MAX, Evaluated, Evaluator, Folded, Updates, Where, items, refusals};
use super::idempotency::Key;
use super::request::{Change, Kind};
use super::{Committed, Failures, Verdict};
use crate::Relations;
use crate::atomically::{Refused, Step, TIMEOUT, Transaction};
use crate::leases::Place;
use crate::leases::guard::{Guard, check_linked};
use crate::links::States;
use crate::lock_documents::apply::PreparedLocks;
use async_recursion::async_recursion as boxed;
use engine::{Decision, Effect, EngineExt as _, Expect, Gate, Newest, Outcome, Plan, Refresh, TreeMoved, TxnOptions, WriteIndex};
use model::lock_index::LockIndex;
use model::{DocAddress, Error, ErrorKind, Result, Target};
use std::sync::{Arc, Mutex, PoisonError};

impl Relations {
    /// Decides a change.
    ///
    /// # Errors
    /// A condition that does not hold, a lock that is not alive, a key used for another request, an engine that cannot.
    #[boxed]
    pub async fn change(&self, change: &Change) -> Result<Verdict> {
        self.check_control()?;
        if !change.moves.is_empty() || !change.directories.is_empty() {
            self.check_trees()?;
        }
        let place = match &change.place {
            Some(place) => place.clone(),
            None => self.new_place("c"),
        };
        if let Some(portable) = &self.portable
            && !Box::pin(self.is_decided_at_once(change)).await?
        {
            return match Box::pin(self.change_portably(portable, change, &place, None)).await? {
                ChangeReply::Verdict(verdict) => Ok(verdict),
                ChangeReply::Beside(..) | ChangeReply::Exclusive => unreachable!("nothing is written beside it"),
            };
        }
        let mut serial = Serial {
            relations: self,
            change,
            place: &place,
            prepared: None,
            updates: Updates::default(),
            rounds: 0,
            possible: None,
            moved: Arc::default(),
        };
        let done = self.atomically(&mut serial).await?;
        let (folded, otherwise, warnings) = match (done.answer, serial.possible) {
            (Some(verdict), _) => return Ok(verdict),
            (None, Some(possible)) => possible,
            (None, None) => return Err(Error::new(ErrorKind::Internal, "a decision without an outcome")),
        };
        let mut items = items(&folded, &done.stamps);
        for (place, source) in done.altered {
            // The last operation on a document shows it as it is written.
            let item = folded.writers.get(place).and_then(|writer| items.get_mut(*writer));
            if let Some(shown) = item.and_then(|item| item.written.source.as_mut()) {
                *shown = source;
            }
        }
        if change.refresh == Refresh::Now {
            for item in items.iter_mut().filter(|item| item.written.effect != Effect::Noop) {
                item.written.forced_refresh = true;
            }
        }
        Ok(Verdict::Committed(Committed {
            commit_seq: done.commit_seq,
            otherwise,
            items,
            moved: std::mem::take(&mut *serial.moved.lock().unwrap_or_else(PoisonError::into_inner)),
            replayed: false,
            warnings,
        }))
    }

    /// A plain write of one lock document, or with an external version, which a mark would take for its own: one decision
    /// by either path.
    async fn is_decided_at_once(&self, change: &Change) -> Result<bool> {
        let (Kind::Plain, [one]) = (change.kind, change.operations.as_slice()) else {
            return Ok(false);
        };
        if matches!(
            one.write.expect,
            Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
        ) {
            return Ok(true);
        }
        let target = Target {
            ignore_unavailable: true,
            forbid_closed: false,
            ..Target::index(one.write.at.index.as_str())
        };
        let types = LockIndex::of(match self.engine.indices(&target).await?.first() {
            Some(info) => &info.settings,
            None => return Ok(false),
        })?;
        Ok(types.has(one.write.at.id.doc_type.as_deref()))
    }
}

/// A change as a transaction on the critical section.
struct Serial<'a> {
    relations: &'a Relations,
    change: &'a Change,
    place: &'a Place,
    /// It writes lock documents: no other decision is made beside it.
    prepared: Option<PreparedLocks>,
    updates: Updates,
    /// How often updates were evaluated outside.
    rounds: usize,
    /// The result of the last run, if the engine takes it.
    possible: Option<(Folded, bool, Vec<String>)>,
    /// The outcomes of its changes of directories.
    moved: Arc<Mutex<Vec<TreeMoved>>>,
}

impl Serial<'_> {
    fn evaluator(&self) -> Evaluator<'_> {
        Evaluator {
            change: self.change,
            locks: &self.relations.locks,
            place: self.place,
            clock: &self.relations.clock,
            prepared: self.prepared.as_ref(),
            now_ms: self.relations.clock.wall_ms(),
            kept_now: self.relations.kept_now(),
        }
    }
    fn evaluate_once(&mut self, newest: &mut dyn Newest) -> Result<(Evaluated, Plan)> {
        let mut updates = std::mem::take(&mut self.updates);
        let evaluated = self.evaluator().evaluate(newest, &mut updates);
        self.updates = updates;
        evaluated
    }
    /// Has the plan tell what comes of its changes of directories.
    fn note_moves(&self, plan: &mut Plan) {
        let (moved, then) = (self.moved.clone(), plan.then.take());
        plan.then = Some(Box::new(move |decision: &Decision<'_>| {
            *moved.lock().unwrap_or_else(PoisonError::into_inner) = decision.moves.to_vec();
            if let Some(then) = then {
                then(decision);
            }
        }));
    }
}

impl Transaction for Serial<'_> {
    /// `None`: it is done as [`Serial::possible`] says.
    type Answer = Option<Verdict>;

    fn options(&self) -> TxnOptions {
        let leases = self.prepared.iter().flat_map(PreparedLocks::touches);
        TxnOptions {
            touches: touches(self.change).into_iter().chain(leases).collect(),
            gate: if self.prepared.is_some() {
                Gate::Exclusive
            } else {
                Gate::Shared
            },
            refresh: self.change.refresh,
            plain: self.change.kind == Kind::Plain && self.prepared.is_none(),
            makes_room: false,
        }
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<Option<Verdict>>> {
        let (evaluated, mut plan) = self.evaluate_once(newest)?;
        Ok(match evaluated {
            Evaluated::Possible {
                folded,
                otherwise,
                warnings,
            } => {
                self.possible = Some((folded, otherwise, warnings));
                if !plan.moves.is_empty() {
                    self.note_moves(&mut plan);
                }
                Step::Commit(plan, None)
            }
            Evaluated::Failed(failures) => Step::Reply(Some(Verdict::Failed(failures))),
            Evaluated::Done(committed) => Step::Reply(Some(Verdict::Committed(committed))),
            Evaluated::Makes(indices) => Step::CreateFirst(indices),
            Evaluated::TooLong => Step::EvaluateFirst,
            Evaluated::Exclusive(locks) => {
                self.prepared = Some(self.relations.prepare_locks(&locks));
                Step::Exclusive
            }
            Evaluated::Waits(claims, request) => {
                plan.reveals_nothing = true;
                let (shared, place) = (self.relations.locks.clone(), self.place.clone());
                let queue = move |_: &Decision<'_>| {
                    let told = shared.table().enqueue(&claims, &request, None);
                    Some(Verdict::Waits(shared.turn(&request.owner, told), place))
                };
                Step::CommitWith(plan, Box::new(queue))
            }
        })
    }

    /// The updates of the change, on what is there now. What else comes of it is not looked at: the next run finds it again.
    fn evaluate(&mut self, newest: &mut dyn Newest) {
        self.rounds += 1;
        if self.rounds > ATTEMPTS_MAX {
            self.updates.begin(Where::InsideUnbounded);
            return;
        }
        self.updates.begin(Where::Outside);
        drop(self.evaluate_once(newest));
        self.updates.begin(Where::Inside);
    }

    fn on_refusal(&mut self, outcomes: &[Outcome]) -> Result<Refused<Option<Verdict>>> {
        if self.relations.portable.is_some() && outcomes.iter().any(|outcome| matches!(outcome, Outcome::Held(_))) {
            let reason = format!("a change of the same document did not end within {TIMEOUT:?}; nothing was changed");
            return Err(Error::new(ErrorKind::Timeout, reason));
        }
        if let Some((folded, otherwise, _)) = &self.possible
            && let Some(operations) = refusals(folded, outcomes)
        {
            let otherwise = *otherwise;
            return Ok(Refused::Reply(Some(Verdict::Failed(Failures { otherwise, operations }))));
        }
        // Writes beside the documents: leases, the kept outcome.
        for outcome in outcomes {
            if let Outcome::Refused(error) = outcome {
                return Err(error.clone());
            }
        }
        Err(self.unknown())
    }

    fn unknown(&self) -> Error {
        let reason = "the outcome of the change is unknown: the log failed; repeat it with its idempotency key";
        Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown")
    }

    fn check_linked(&self, index: &WriteIndex, at: &DocAddress, states: &States<'_>) -> Result<()> {
        let (relations, change) = (self.relations, self.change);
        let strict = change.kind == Kind::Change;
        let guard = Guard::new(&relations.locks, &relations.clock, &change.guards, strict)?.of(&change.caller);
        check_linked(guard, index, at, states)
    }
}

/// Everything that the plan reads or writes, whichever way it goes.
fn touches(change: &Change) -> Vec<DocAddress> {
    let written = change.operations.iter().chain(&change.otherwise).map(|o| o.write.at.clone());
    let compared = change.conditions.iter().map(|condition| condition.at.clone());
    let kept = change.key.iter().map(Key::at);
    written.chain(compared).chain(kept).collect()
}
