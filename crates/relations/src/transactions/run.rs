//! TxnOptions a change: locks, conditions, folding and the kept outcome in one critical section, one record.

use super::evaluation::{ATTEMPTS_MAX, Evaluations, Place as Where};
use super::fold::{Folded, Step, fold, refused, unmet};
use super::portable::{Asked, TIMEOUT};
use super::{Change, Committed, Failures, Item, Key, Kind, NotDone, Verdict};
use crate::leases::guard::Guard;
use crate::leases::handover::asking;
use crate::leases::ledger::{Alone, Ledger};
use crate::leases::literal::LockWrite;
use crate::leases::{Locks, Place, Wanted, claims_of, full, in_the_way, resolved};
use crate::locks::{AllAnswer, Claim, LockPath, Request};
use crate::schema;
use engine::{
    Alteration, Clock, Decision, Effect, EngineExt as _, Expect, Gate, Newest, Outcome, Plan, Refresh, See, Source, TxnOptions,
    Write, WriteOp, Written,
};
use model::lock_index::LockIndex;
use model::{DocAddress, Error, ErrorKind, Result, Stamp, Target};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};

/// What planning came to; the plan of the engine holds the rest.
pub(super) enum Planned {
    /// These operations, unless the engine refuses one.
    Possible {
        folded: Folded,
        otherwise: bool,
        warnings: Vec<String>,
    },
    /// Nothing is done.
    Failed(Failures),
    /// It was done before.
    Done(Committed),
    /// Its own targets are not free; this is what it is to wait for, and as whom.
    Waits(Vec<Claim>, Box<Request>),
    /// It makes these indices, some for lock documents, and is to be planned again when they are there.
    Makes(Vec<Alteration>),
    /// It writes these lock documents: it is to be planned again with no other decision beside it.
    Alone(Vec<LockWrite>),
    /// Its updates take too long here: they are to be evaluated where nothing is locked.
    TooLong,
}

impl crate::Relations {
    /// Decides a change.
    ///
    /// # Errors
    /// A condition that does not hold, a lock that is not alive, a key used for another request, an engine that cannot.
    pub async fn change(&self, change: &Change) -> Result<Verdict> {
        self.check_control()?;
        let place = match &change.place {
            Some(place) => place.clone(),
            None => self.new_place("c"),
        };
        if let Some(portable) = &self.portable
            && !Box::pin(self.is_decided_at_once(change)).await?
        {
            return match Box::pin(self.change_portably(portable, change, &place, None)).await? {
                Asked::Verdict(verdict) => Ok(verdict),
                Asked::Beside(..) | Asked::Alone => unreachable!("nothing is written beside it"),
            };
        }
        let mut alone = None;
        let until = self.clock.monotonic() + TIMEOUT;
        let mut evaluations = Evaluations::default();
        let mut attempts = 0;
        loop {
            match self.decide_once(change, &place, alone.as_ref(), &mut evaluations).await? {
                Decided::Verdict(verdict) => return Ok(verdict),
                Decided::TooLong => {
                    attempts += 1;
                    if attempts <= ATTEMPTS_MAX {
                        self.evaluate(change, &place, alone.as_ref(), &mut evaluations).await?;
                        evaluations.begin(Where::Inside);
                    } else {
                        evaluations.begin(Where::InsideUnbounded);
                    }
                }
                Decided::Alone(ready) => alone = Some(ready),
                Decided::Makes(indices) => {
                    for index in indices {
                        self.engine.alter(index).await?;
                    }
                }
                Decided::Held if self.clock.monotonic() < until => self.breathe().await,
                Decided::Held => {
                    let reason = format!("a change of the same document did not end within {TIMEOUT:?}; nothing was changed");
                    return Err(Error::new(ErrorKind::Timeout, reason));
                }
            }
        }
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

    /// Evaluates the updates of a change on what is there now, while nothing is locked. What else comes of the plan is not
    /// looked at: the decision finds it again.
    async fn evaluate(&self, change: &Change, place: &Place, alone: Option<&Alone>, evaluations: &mut Evaluations) -> Result<()> {
        let planning = self.planning(change, place, alone);
        evaluations.begin(Where::Outside);
        let mut look = |newest: &mut dyn Newest| drop(planning.plan(newest, evaluations));
        self.atomic()?.look(&mut look).await;
        Ok(())
    }

    fn planning<'a>(&'a self, change: &'a Change, place: &'a Place, alone: Option<&'a Alone>) -> Planning<'a> {
        Planning {
            change,
            locks: &self.locks,
            place,
            clock: &self.clock,
            alone,
            now_ms: self.clock.wall_ms(),
            kept_now: self.kept_now(),
        }
    }

    async fn decide_once(
        &self,
        change: &Change,
        place: &Place,
        alone: Option<&Alone>,
        evaluations: &mut Evaluations,
    ) -> Result<Decided> {
        let how = TxnOptions {
            touches: touches(change)
                .into_iter()
                .chain(alone.into_iter().flat_map(Alone::touches))
                .collect(),
            gate: if alone.is_some() { Gate::Exclusive } else { Gate::Shared },
            refresh: change.refresh,
            plain: change.kind == Kind::Plain && alone.is_none(),
            makes_room: false,
        };
        let planning = self.planning(change, place, alone);
        let turn = Arc::new(Mutex::new(None));
        let mut planned = None;
        let decided = {
            let mut plan = |newest: &mut dyn Newest| {
                let (what, mut plan) = planning.plan(newest, evaluations)?;
                if let Planned::Waits(claims, request) = &what {
                    let (shared, turn, claims, request) = (self.locks.clone(), turn.clone(), claims.clone(), request.clone());
                    plan.reveals_nothing = true;
                    plan.then = Some(Box::new(move |_: &Decision<'_>| {
                        let told = shared.table().queued(&claims, &request, None);
                        *turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared.turn(&request.owner, told));
                    }));
                }
                planned = Some(what);
                Ok(plan)
            };
            self.atomic()?.decide(&mut plan, how).await?
        };
        match planned {
            Some(Planned::Possible {
                folded,
                otherwise,
                warnings,
            }) => {
                if self.portable.is_some() && decided.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Held(_))) {
                    return Ok(Decided::Held);
                }
                if let Some(operations) = refused(&folded, &decided.outcomes) {
                    return Ok(Decided::Verdict(Verdict::Failed(Failures { otherwise, operations })));
                }
                // What is written beside the documents: leases, the kept outcome.
                for outcome in decided.outcomes.iter().skip(folded.writers.len()) {
                    if let Outcome::Refused(error) = outcome {
                        return Err(error.clone());
                    }
                }
                if decided.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unknown)) {
                    let reason = "the outcome of the change is unknown: the log failed; repeat it with its idempotency key";
                    return Err(Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown"));
                }
                let stamp = |outcome: &Outcome| match outcome {
                    Outcome::Written(written) => written.stamp,
                    _ => Stamp::default(),
                };
                let stamps: Vec<Stamp> = decided.outcomes.iter().map(stamp).collect();
                let mut items = items(&folded, &stamps);
                if change.refresh == Refresh::Now {
                    for item in items.iter_mut().filter(|item| item.written.effect != Effect::Noop) {
                        item.written.forced_refresh = true;
                    }
                }
                Ok(Decided::Verdict(Verdict::Committed(Committed {
                    commit_seq: decided.commit_seq,
                    otherwise,
                    items,
                    replayed: false,
                    warnings,
                })))
            }
            Some(Planned::Failed(failures)) => Ok(Decided::Verdict(Verdict::Failed(failures))),
            Some(Planned::Done(committed)) => Ok(Decided::Verdict(Verdict::Committed(committed))),
            Some(Planned::Makes(indices)) => Ok(Decided::Makes(indices)),
            Some(Planned::TooLong) => Ok(Decided::TooLong),
            Some(Planned::Alone(locks)) => Ok(Decided::Alone(self.alone(&locks))),
            Some(Planned::Waits(..)) => {
                let turn = turn.lock().unwrap_or_else(PoisonError::into_inner).take();
                let turn = turn.ok_or_else(|| Error::new(ErrorKind::Internal, "a place in the queue was not taken"))?;
                Ok(Decided::Verdict(Verdict::Waits(turn, place.clone())))
            }
            None => unreachable!("who decides has planned"),
        }
    }
}

/// What one decision came to.
enum Decided {
    Verdict(Verdict),
    /// These are to be made first.
    Makes(Vec<Alteration>),
    /// It is to be made again, excluding all others.
    Alone(Alone),
    /// Its updates are to be evaluated first.
    TooLong,
    /// A change by the portable path has not finished with the document.
    Held,
}

/// Everything that the plan reads or writes, whichever way it goes.
fn touches(change: &Change) -> Vec<DocAddress> {
    let written = change.operations.iter().chain(&change.otherwise).map(|o| o.write.at.clone());
    let compared = change.conditions.iter().map(|condition| condition.at.clone());
    let kept = change.key.iter().map(Key::at);
    written.chain(compared).chain(kept).collect()
}

pub(super) struct Planning<'a> {
    pub(super) change: &'a Change,
    pub(super) locks: &'a Locks,
    pub(super) place: &'a Place,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// No other decision is made beside this one: it may write lock documents.
    pub(super) alone: Option<&'a Alone>,
    pub(super) now_ms: i64,
    /// By the time of kept outcomes.
    pub(super) kept_now: i64,
}

impl Planning<'_> {
    /// What is possible has its writes in the plan, before all others.
    pub(super) fn plan(&self, newest: &mut dyn Newest, evaluations: &mut Evaluations) -> Result<(Planned, Plan)> {
        let change = self.change;
        evaluations.begin_plan();
        let mut control_is_missing = false;
        if let Some(key) = &change.key {
            match newest.read(&key.at(), See::Everything) {
                Ok(None) => {}
                Ok(Some(document)) => {
                    if let Some(done) = key.recall(&document.source, self.kept_now)? {
                        return Ok((Planned::Done(done), Plan::default()));
                    }
                }
                Err(e) if e.kind() == ErrorKind::IndexNotFound => control_is_missing = true,
                Err(e) => return Err(e),
            }
        }
        let targets = if change.locks.is_empty() {
            Vec::new()
        } else {
            resolved(newest, &change.locks)?
        };
        let mut guard = Guard::new(self.locks, self.clock, &change.guards, change.kind == Kind::Change)
            .map_err(|e| self.unchanged(e))?
            .of(&change.caller);
        if let Some(waits) = self.own_targets(&targets, &guard)? {
            return Ok((waits, Plan::default()));
        }
        let otherwise = match unmet(newest, &change.conditions)? {
            None => false,
            Some(reason) if change.otherwise.is_empty() => return Err(Error::new(ErrorKind::PreconditionFailed, reason)),
            Some(_) => true,
        };
        let operations = if otherwise { &change.otherwise } else { &change.operations };
        let mut folded = fold(newest, (operations, otherwise), change, &mut guard, evaluations)?;
        if folded.too_long {
            // Nobody is told anything by it.
            let reveals_nothing = Plan {
                reveals_nothing: true,
                ..Plan::default()
            };
            return Ok((Planned::TooLong, reveals_nothing));
        }
        let failed = |operations| Ok((Planned::Failed(Failures { otherwise, operations }), Plan::default()));
        if !folded.failures.is_empty() {
            return failed(folded.failures);
        }
        if folded.locks_to_be {
            return Ok((Planned::Makes(std::mem::take(&mut folded.alterations)), Plan::default()));
        }
        // Alone, nobody else asks for the table for long; without lock documents it is not taken at all.
        let table = (!folded.locks.is_empty() && self.alone.is_some()).then(|| self.locks.now(self.clock).0);
        let ledger = match (table.as_deref(), self.alone) {
            _ if folded.locks.is_empty() => None,
            (_, None) | (None, _) => return Ok((Planned::Alone(folded.locks), Plan::default())),
            // It goes another way than when this was made ready.
            (_, Some(alone)) if !alone.suffices(&folded.locks) => {
                return Ok((Planned::Alone(folded.locks), Plan::default()));
            }
            (Some(table), Some(alone)) => {
                let mut ledger = Ledger::new(table, &change.caller, alone, self.now_ms);
                let mut failures: Vec<NotDone> = folded.steps.iter().map(|_| NotDone::NotApplied).collect();
                let mut refused = false;
                for write in &folded.locks {
                    if let Err(error) = ledger.turn(write) {
                        failures[write.operation] = NotDone::Refused(error);
                        refused = true;
                    }
                }
                if refused {
                    return failed(failures);
                }
                Some(ledger)
            }
        };
        let mut plan = Plan {
            alterations: folded.alterations.clone(),
            writes: std::mem::take(&mut folded.writes),
            numbered: change.kind == Kind::Change,
            ..Plan::default()
        };
        if let Some(key) = &change.key {
            if control_is_missing {
                plan.alterations.push(schema::make_control());
            }
            self.keep(key.clone(), folded.clone(), otherwise, &mut plan);
        }
        let warnings = guard.warnings;
        if let Some(ledger) = ledger {
            ledger.into_plan(newest, &mut plan, self.locks, self.clock)?;
        }
        Ok((
            Planned::Possible {
                folded,
                otherwise,
                warnings,
            },
            plan,
        ))
    }

    /// Looks for the change's own targets; what it is to wait for, if they are not free. Nothing of them is kept: the change
    /// begins and ends in this very section. What its own client holds is not in its way.
    fn own_targets(&self, targets: &[(Wanted, Vec<LockPath>)], guard: &Guard<'_>) -> Result<Option<Planned>> {
        if targets.is_empty() {
            return Ok(None);
        }
        let (table, _) = self.locks.now(self.clock);
        let claims = claims_of(targets);
        let request = asking(self.place.owner.clone(), self.place.age, false);
        let impossible = |what: &str| Err(Error::new(ErrorKind::Internal, what));
        match table.look(&claims, &request, guard.own()) {
            AllAnswer::Granted => Ok(None),
            AllAnswer::Busy(_) if self.change.wait => {
                let waiting = asking(self.place.owner.clone(), self.place.age, true);
                match table.look(&claims, &waiting, &[]) {
                    AllAnswer::Queued(_) => Ok(Some(Planned::Waits(claims, Box::new(waiting)))),
                    AllAnswer::Full(key) => Err(full(&key)),
                    _ => impossible("a lock that was busy cannot be waited for"),
                }
            }
            AllAnswer::Busy(blocked) => Err(in_the_way(&table, &blocked)),
            AllAnswer::Full(key) => Err(full(&key)),
            AllAnswer::Queued(_) | AllAnswer::Deadlock { .. } => {
                impossible("who holds nothing and does not wait is granted or refused")
            }
        }
    }

    /// Adds the document that keeps the outcome; what is in it is known with the stamps.
    fn keep(&self, key: Key, folded: Folded, otherwise: bool, plan: &mut Plan) {
        let now_ms = self.kept_now;
        let place = Source::from_value(&json!({ "kind": "key", "at": now_ms }));
        let write = Write::new(key.at(), WriteOp::Put(place));
        let seal = move |decision: &Decision<'_>| {
            let outcome = Committed {
                commit_seq: decision.commit_seq,
                otherwise,
                items: items(&folded, decision.stamps),
                replayed: false,
                warnings: Vec::new(),
            };
            key.keep(&outcome, now_ms)
        };
        plan.seal = Some((plan.writes.len(), Box::new(seal)));
        plan.writes.push(write);
    }

    /// The refusal of a lock that is not alive says what became of the request.
    fn unchanged(&self, error: Error) -> Error {
        let all: Vec<&DocAddress> = self.change.operations.iter().map(|o| &o.write.at).collect();
        let what = match all.as_slice() {
            [one] => format!("[{}][{}] is unchanged", one.index, one.id.id),
            _ => "nothing was changed".to_owned(),
        };
        let mut out = Error::new(error.kind(), format!("{}; {what}", error.reason()));
        for (name, value) in error.details() {
            out = out.with(name, value.clone());
        }
        out
    }
}

/// One for each operation; the stamps are those of the writes.
pub(super) fn items(folded: &Folded, stamps: &[Stamp]) -> Vec<Item> {
    let item = |step: &Step| Item {
        label: step.label,
        written: Written {
            effect: step.effect,
            at: step.at.clone(),
            stamp: step.place.map_or(step.stamp, |place| stamps[place]),
            source: step.source.clone(),
            forced_refresh: false,
        },
    };
    folded.steps.iter().map(item).collect()
}
