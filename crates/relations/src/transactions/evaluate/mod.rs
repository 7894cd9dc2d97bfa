//! Evaluation: what a transaction comes to on the newest state, as a plan for the engine.
//!
//! The same code runs in the engine's critical section (`serial`) and over documents that were read before (`by_intents`):
//! the kept outcome, the transaction's own locks, conditions, operations, lock documents, in this order.
//!
//! `fold` folds operations into one write a document, `updates` bounds what updates may take inside the section. Not here:
//! writing the plan.

mod fold;
mod updates;

pub(super) use fold::{Folded, refusals};
pub(super) use updates::{ATTEMPTS_MAX, Place as Where, Updates};

use self::fold::{Step, fold, unmet};
use super::idempotency::Key;
use super::request::{Change, Kind};
use super::{Committed, Failures, Item, NotDone};
use crate::leases::guard::Guard;
use crate::leases::handover::asking;
use crate::leases::table::Table;
use crate::leases::{Locks, Place, Wanted, claims_of, full, in_the_way, resolve_targets};
use crate::lock_documents::apply::{PreparedLocks, TableChanges};
use crate::lock_documents::format::LockWrite;
use crate::locks::{AllAnswer, Claim, LockPath, Request};
use crate::schema;
use crate::trees::check_change;
use engine::{Alteration, Clock, Decision, Newest, Plan, See, Source, TreeChange, Write, WriteOp, Written};
use model::{DocAddress, Error, ErrorKind, IndexName, Result, Stamp};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of planning; the plan of the engine holds the rest.
pub(in crate::transactions) enum Evaluated {
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
    Exclusive(Vec<LockWrite>),
    /// Its updates take too long here: they are to be evaluated where nothing is locked.
    TooLong,
}

/// The outcome that is kept under the idempotency key of a change.
enum KeptOutcome {
    /// It was done.
    Done(Committed),
    /// Nothing.
    None,
    /// Nothing, and the control index is still to be made.
    NoIndex,
}

pub(in crate::transactions) struct Evaluator<'a> {
    pub(in crate::transactions) change: &'a Change,
    pub(in crate::transactions) locks: &'a Locks,
    pub(in crate::transactions) place: &'a Place,
    pub(in crate::transactions) clock: &'a Arc<dyn Clock>,
    /// No other decision is made beside this one: it may write lock documents.
    pub(in crate::transactions) prepared: Option<&'a PreparedLocks>,
    pub(in crate::transactions) now_ms: i64,
    /// By the time of kept outcomes.
    pub(in crate::transactions) kept_now: i64,
}

impl Evaluator<'_> {
    /// A possible change has its writes in the plan, before all others.
    pub(in crate::transactions) fn evaluate(&self, newest: &mut dyn Newest, updates: &mut Updates) -> Result<(Evaluated, Plan)> {
        let change = self.change;
        updates.begin_plan();
        let control_is_missing = match self.kept_outcome(newest)? {
            KeptOutcome::Done(done) => return Ok((Evaluated::Done(done), Plan::default())),
            KeptOutcome::NoIndex => true,
            KeptOutcome::None => false,
        };
        let targets = if change.locks.is_empty() {
            Vec::new()
        } else {
            resolve_targets(newest, &change.locks)?
        };
        let mut guard = Guard::new(self.locks, self.clock, &change.guards, change.kind == Kind::Change)
            .map_err(|e| self.expect_unchanged(e))?
            .of(&change.caller);
        if let Some(waits) = self.own_targets(&targets, &guard)? {
            return Ok((waits, Plan::default()));
        }
        let mut trees = Vec::new();
        let otherwise = takes_otherwise(newest, change, &mut trees)?;
        let operations = if otherwise { &change.otherwise } else { &change.operations };
        let mut folded = fold(newest, (operations, otherwise), change, &mut guard, updates)?;
        if folded.too_long {
            return Ok((Evaluated::TooLong, Plan::revealing_nothing()));
        }
        let failed = |operations| Ok((Evaluated::Failed(Failures { otherwise, operations }), Plan::default()));
        if !folded.failures.is_empty() {
            return failed(folded.failures);
        }
        if folded.locks_to_be {
            return Ok((Evaluated::Makes(std::mem::take(&mut folded.alterations)), Plan::default()));
        }
        // Alone, nobody else asks for the table for long; without lock documents it is not taken at all.
        let table = (!folded.locks.is_empty() && self.prepared.is_some()).then(|| self.locks.now(self.clock).0);
        // It may go another way than when this was made ready.
        let ready = table.as_deref().zip(self.prepared);
        let table_changes = match ready.filter(|(_, prepared)| prepared.suffices(&folded.locks)) {
            _ if folded.locks.is_empty() => None,
            None => return Ok((Evaluated::Exclusive(folded.locks), Plan::default())),
            Some((table, prepared)) => match self.change_table(table, prepared, &folded) {
                Ok(table_changes) => Some(table_changes),
                Err(failures) => return failed(failures),
            },
        };
        let moves = moves_of(newest, &mut guard, change, otherwise)?;
        let mut plan = self.plan_of(&mut folded, moves, trees);
        if let Some(key) = &change.key {
            if control_is_missing {
                plan.alterations.push(schema::make_control());
            }
            self.keep(key.clone(), folded.clone(), otherwise, &mut plan);
        }
        let warnings = guard.warnings;
        if let Some(table_changes) = table_changes {
            table_changes.into_plan(newest, &mut plan, self.locks, self.clock)?;
        }
        Ok((
            Evaluated::Possible {
                folded,
                otherwise,
                warnings,
            },
            plan,
        ))
    }

    /// The writes, indices and directories of a possible change; the writes are taken from what was folded.
    fn plan_of(&self, folded: &mut Folded, moves: Vec<TreeChange>, trees: Vec<(IndexName, u64)>) -> Plan {
        debug_assert!(
            is_each_written_once(&folded.writes),
            "T2: a transaction writes a document twice: {:?}",
            folded.writes
        );
        Plan {
            alterations: folded.alterations.clone(),
            writes: std::mem::take(&mut folded.writes),
            moves,
            trees,
            numbered: self.change.kind == Kind::Change,
            ..Plan::default()
        }
    }

    /// The outcome that the change's idempotency key stands for.
    fn kept_outcome(&self, newest: &mut dyn Newest) -> Result<KeptOutcome> {
        let Some(key) = &self.change.key else {
            return Ok(KeptOutcome::None);
        };
        match newest.read(&key.at(), See::Everything) {
            Ok(None) => Ok(KeptOutcome::None),
            Ok(Some(document)) => {
                let done = key.recall(&document.source, self.kept_now)?;
                Ok(done.map_or(KeptOutcome::None, KeptOutcome::Done))
            }
            Err(e) if e.kind() == ErrorKind::IndexNotFound => Ok(KeptOutcome::NoIndex),
            Err(e) => Err(e),
        }
    }

    /// The table with the change's writes of lock documents, or what each operation comes to where one is refused.
    fn change_table<'t>(
        &'t self,
        table: &'t Table,
        prepared: &PreparedLocks,
        folded: &Folded,
    ) -> Result<TableChanges<'t>, Vec<NotDone>> {
        let mut table_changes = TableChanges::new(table, &self.change.caller, prepared, self.now_ms);
        let mut refused = None;
        for write in &folded.locks {
            if let Err(error) = table_changes.apply(write) {
                let failures =
                    refused.get_or_insert_with(|| folded.steps.iter().map(|_| NotDone::NotApplied).collect::<Vec<_>>());
                failures[write.operation] = NotDone::Refused(error);
            }
        }
        refused.map_or(Ok(table_changes), Err)
    }

    /// Looks for the change's own targets; what it is to wait for, if they are not free. Nothing of them is kept: the change
    /// begins and ends in this very section. What its own client holds is not in its way.
    fn own_targets(&self, targets: &[(Wanted, Vec<LockPath>)], guard: &Guard<'_>) -> Result<Option<Evaluated>> {
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
                    AllAnswer::Queued(_) => Ok(Some(Evaluated::Waits(claims, Box::new(waiting)))),
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
                moved: Vec::new(),
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
    fn expect_unchanged(&self, error: Error) -> Error {
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

/// Is the alternative to be done, because a condition does not hold? Notes the trees that the answer rests on.
///
/// # Errors
/// A condition that does not hold, where there is no alternative.
fn takes_otherwise(newest: &mut dyn Newest, change: &Change, trees: &mut Vec<(IndexName, u64)>) -> Result<bool> {
    match unmet(newest, change, trees)? {
        None => Ok(false),
        Some(reason) if !change.has_otherwise() => Err(Error::new(ErrorKind::PreconditionFailed, reason)),
        Some(_) => Ok(true),
    }
}

/// The changes of directories of a transaction, or of its alternative.
///
/// # Errors
/// A lock of somebody else.
fn moves_of(newest: &mut dyn Newest, guard: &mut Guard<'_>, change: &Change, otherwise: bool) -> Result<Vec<TreeChange>> {
    let own = change.moves.iter().filter(|one| one.otherwise == otherwise);
    let moves: Vec<TreeChange> = own.map(|one| one.change.clone()).collect();
    for one in &moves {
        check_change(newest, guard, one)?;
    }
    Ok(moves)
}

/// T2.
fn is_each_written_once(writes: &[Write]) -> bool {
    let addresses: BTreeSet<&DocAddress> = writes.iter().map(|write| &write.at).collect();
    addresses.len() == writes.len()
}

/// One for each operation; the stamps are those of the writes.
pub(in crate::transactions) fn items(folded: &Folded, stamps: &[Stamp]) -> Vec<Item> {
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
