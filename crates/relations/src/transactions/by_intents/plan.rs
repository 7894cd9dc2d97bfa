//! The plan of one attempt by the portable path: what was read before stands in for what a critical section would read.
//!
//! Not here: attempts and what becomes of them, names (`names`).

use super::names::Names;
use super::without_section::no_section;
use super::{Beside, expect_unchanged};
use crate::Relations;
use crate::atomically::{Step, Transaction};
use crate::intents::{Before, Effects, Planned, Planning, rehearse_and_grow};
use crate::leases::table::{LockEffects, Running};
use crate::leases::{Place, claims_of, place_fields, resolve_targets, respects_locks};
use crate::lock_documents::apply::PreparedLocks;
use crate::lock_documents::format::LockWrite;
use crate::locks::{Claim, LockPath, Owner, plan as together, write_claims};
use crate::transactions::evaluate::{Evaluated, Evaluator, Folded, Updates, Where, items, refusals};
use crate::transactions::{Change, Committed, Failures, Kind, NotDone, Verdict};
use async_trait::async_trait;
use engine::{Decision, Document, Expect, Found, Gate, Hide, Newest, Outcome, Plan, See, TxnOptions, Write, WriteIndex, WriteOp};
use mapping::Timing;
use model::{DocAddress, DocId, Error, ErrorKind, Result, Stamp};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Documents that were read before, for a plan that believes it is in a critical section.
struct ReadBefore<'a> {
    names: &'a Names,
    before: &'a BTreeMap<DocAddress, Before>,
}

impl Newest for ReadBefore<'_> {
    fn read(&mut self, at: &DocAddress, _see: See) -> Result<Option<Document>> {
        let index = self.index(at.index.as_str())?;
        let at = self.names.at(at).unwrap_or_else(|| DocAddress {
            index: index.name,
            id: at.id.clone(),
        });
        let Some(before) = self.before.get(&at) else {
            let reason = format!("index [{}] is kept by the server; no change may rest on it", at.index);
            return Err(Error::new(ErrorKind::Security, reason));
        };
        Ok(before.document.clone().map(|document| Document {
            stamp: before.stamp.unwrap_or(document.stamp),
            ..document
        }))
    }
    fn index(&mut self, name: &str) -> Result<WriteIndex> {
        let missing = || Error::new(ErrorKind::IndexNotFound, format!("no such index [{name}]")).with("index", name);
        self.names.known.get(name).cloned().unwrap_or_else(|| Err(missing()))
    }
    fn identity(&mut self, at: &DocAddress) -> Result<DocId> {
        self.index(at.index.as_str())?;
        Ok(self.names.at(at).map_or_else(|| at.id.clone(), |at| at.id))
    }
    /// Done for all of them together, when the plan is made.
    fn rehearse(&mut self, _write: &Write) -> Result<()> {
        Ok(())
    }
}

/// Why a change was not made, or what it came to.
pub(super) enum PreflightOutcome {
    Verdict(Verdict),
    Refused(Error),
    /// It writes these lock documents, and more is to be made ready for that.
    Exclusive(Vec<LockWrite>),
    Possible {
        folded: Folded,
        otherwise: bool,
        warnings: Vec<String>,
    },
}

/// Plans one attempt.
pub(super) struct IntentPlan<'a> {
    pub(super) relations: &'a Relations,
    pub(super) change: &'a Change,
    pub(super) place: &'a Place,
    pub(super) names: &'a Names,
    pub(super) beside: Option<&'a Beside<'a>>,
    /// The addresses of the attempt.
    pub(super) addresses: &'a BTreeSet<DocAddress>,
    /// Made ready for lock documents.
    pub(super) prepared: Option<&'a PreparedLocks>,
    /// The documents of leases that begin and end with it.
    pub(super) leases: Vec<Write>,
    pub(super) id: Owner,
    pub(super) came: Option<PreflightOutcome>,
}

/// The effects of a folded write, as a record has them.
fn effects_of(write: &Write, now_ms: i64) -> Effects {
    debug_assert!(
        !matches!(
            write.expect,
            Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
        ),
        "an external version is of a plain write, which is decided at once"
    );
    match &write.op {
        WriteOp::Put(source) => Effects::Put {
            source: source.clone(),
            routing: write.routing.clone(),
            parent: write.parent.clone(),
            // Only typed documents have times.
            timing: match &write.at.id.doc_type {
                Some(_) => write.timing.clone().judge_at(now_ms),
                None => Timing::default(),
            },
        },
        WriteOp::Delete => Effects::Delete,
        WriteOp::Update(_) => unreachable!("updates are folded into what they come to"),
    }
}

#[async_trait]
impl Planning for IntentPlan<'_> {
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned> {
        let relations = self.relations;
        relations.locks.table().stop_running(&self.id);
        let change = &*expect_found(self.change, self.names, before);
        let evaluator = Evaluator {
            change,
            locks: &relations.locks,
            place: self.place,
            clock: &relations.clock,
            prepared: self.prepared,
            now_ms: relations.clock.wall_ms(),
            kept_now: relations.kept_now(),
        };
        if let Some(portable) = relations.by_gate()
            && rests_on_locks(change, self.names)
            && !relations.is_table_of_gate(portable, &self.id).await?
        {
            return Ok(Planned::Later);
        }
        let mut updates = Updates::default();
        self.evaluate(&evaluator, before, &mut updates).await;
        let mut check = Check {
            plan: self,
            evaluator: &evaluator,
            before,
            updates,
            leases: Vec::new(),
        };
        let checked = match relations.engine.atomic() {
            Some(_) => relations.atomically(&mut check).await?.answer,
            None => check.outside().await?,
        };
        let leases = check.leases;
        let (came, planned) = match checked {
            SectionCheck::Later => return Ok(Planned::Later),
            SectionCheck::Refused(error) if error.kind() == ErrorKind::PreconditionFailed => {
                (PreflightOutcome::Refused(error), Planned::Impossible)
            }
            SectionCheck::Refused(error) => (PreflightOutcome::Refused(error), Planned::Stop),
            SectionCheck::Failed(failures) => (PreflightOutcome::Verdict(Verdict::Failed(failures)), Planned::Impossible),
            SectionCheck::Verdict(verdict) => (PreflightOutcome::Verdict(verdict), Planned::Stop),
            SectionCheck::Exclusive(_) if relations.by_gate().is_some() => {
                (PreflightOutcome::Refused(no_section()), Planned::Stop)
            }
            SectionCheck::Exclusive(locks) => (PreflightOutcome::Exclusive(locks), Planned::Stop),
            SectionCheck::Runs {
                folded,
                otherwise,
                warnings,
            } => {
                self.leases = leases;
                if self.leases.iter().any(|write| !self.addresses.contains(&write.at)) {
                    // A lock document has another lease than when it was made ready for.
                    self.came = Some(PreflightOutcome::Exclusive(folded.locks));
                    return Ok(Planned::Stop);
                }
                let possible = PreflightOutcome::Possible {
                    folded,
                    otherwise,
                    warnings,
                };
                self.preflight(possible, before).await?
            }
        };
        self.came = Some(came);
        Ok(planned)
    }
    fn waits(&mut self) {
        // Or whom it waits for might wait for it.
        self.relations.locks.table().stop_running(&self.id);
    }
}

/// The result of the check in the section.
enum SectionCheck {
    /// It runs from here on: no grant and no end of a lock passes it.
    Runs {
        folded: Folded,
        otherwise: bool,
        warnings: Vec<String>,
    },
    /// Others that run are in the way.
    Later,
    Refused(Error),
    Failed(Failures),
    Verdict(Verdict),
    Exclusive(Vec<LockWrite>),
}

/// The check of one attempt in the section: locks, conditions and operations over what was read before, and its place among
/// the running (T22). The gate keeps grants and ends of locks from coming between the two.
struct Check<'c, 'a> {
    plan: &'c IntentPlan<'a>,
    evaluator: &'c Evaluator<'c>,
    before: &'c BTreeMap<DocAddress, Before>,
    updates: Updates,
    /// The documents of leases that begin and end with it, of the last run.
    leases: Vec<Write>,
}

impl Transaction for Check<'_, '_> {
    type Answer = SectionCheck;

    fn options(&self) -> TxnOptions {
        let exclusive = self.plan.prepared.is_some();
        TxnOptions {
            gate: if exclusive { Gate::Exclusive } else { Gate::Shared },
            ..TxnOptions::default()
        }
    }

    fn run(&mut self, _: &mut dyn Newest) -> Result<Step<SectionCheck>> {
        let IntentPlan { relations, place, .. } = self.plan;
        // Who writes the same lock documents is waited for, as by the other path.
        if let Some(prepared) = self.plan.prepared {
            let table = relations.locks.table();
            if table.runs_on(&prepared.claims) || !table.runs_under(&prepared.known).is_empty() {
                return Ok(Step::Reply(SectionCheck::Later));
            }
        }
        let mut newest = ReadBefore {
            names: self.plan.names,
            before: self.before,
        };
        let internal = |what: &str| Ok(Step::Reply(SectionCheck::Refused(Error::new(ErrorKind::Internal, what))));
        let (evaluated, plan) = match self.evaluator.evaluate(&mut newest, &mut self.updates) {
            Ok(evaluated) => evaluated,
            Err(error) => return Ok(Step::Reply(SectionCheck::Refused(error))),
        };
        match evaluated {
            Evaluated::Failed(failures) => Ok(Step::Reply(SectionCheck::Failed(failures))),
            Evaluated::Done(done) => Ok(Step::Reply(SectionCheck::Verdict(Verdict::Committed(done)))),
            Evaluated::Exclusive(locks) => Ok(Step::Reply(SectionCheck::Exclusive(locks))),
            // By this path indices are made and updates evaluated before.
            Evaluated::Makes(_) => internal("a plan makes an index"),
            Evaluated::TooLong => internal("an update takes too long where nothing bounds it"),
            Evaluated::Waits(claims, request) => {
                let (shared, place) = (relations.locks.clone(), (*place).clone());
                let queue = move |_: &Decision<'_>| {
                    let told = shared.table().enqueue(&claims, &request, None);
                    SectionCheck::Verdict(Verdict::Waits(shared.turn(&request.owner, told), place))
                };
                Ok(Step::CommitWith(Plan::revealing_nothing(), Box::new(queue)))
            }
            Evaluated::Possible {
                folded,
                otherwise,
                warnings,
            } => {
                let (folded, after) = self.split_leases(folded, plan);
                match self.begin(&mut newest, &folded, after) {
                    Err(error) => Ok(Step::Reply(SectionCheck::Refused(error))),
                    Ok(false) => Ok(Step::Reply(SectionCheck::Later)),
                    Ok(true) => Ok(Step::Reply(SectionCheck::Runs {
                        folded,
                        otherwise,
                        warnings,
                    })),
                }
            }
        }
    }
}

impl Check<'_, '_> {
    /// The same where there is no section. Whoever grants a lock after the look at the gate meets the record of the attempt. Who
    /// may have to wait takes its place while nobody is granted one.
    async fn outside(&mut self) -> Result<SectionCheck> {
        let change = self.evaluator.change;
        let turn = self.plan.relations.locks.gate_turn();
        let waits = change.wait && !change.locks.is_empty();
        let _turn = if waits { Some(turn.lock().await) } else { None };
        let mut none = ReadBefore {
            names: self.plan.names,
            before: self.before,
        };
        match self.run(&mut none)? {
            Step::Reply(checked) => Ok(checked),
            // It takes its place in a queue of this server.
            Step::CommitWith(plan, answer) if plan.writes.is_empty() => Ok(answer(&Decision {
                commit_seq: 0,
                stamps: &[],
                moves: &[],
            })),
            _ => {
                let reason = "the check of a change writes";
                Err(Error::new(ErrorKind::Internal, reason))
            }
        }
    }

    /// The writes of documents stay with what was folded. Leases are documents of the attempt, and the table follows them when
    /// it is finished.
    fn split_leases(&mut self, mut folded: Folded, mut plan: Plan) -> (Folded, Option<LockEffects>) {
        let first = folded.writers.len() + usize::from(self.evaluator.change.key.is_some());
        self.leases = plan.writes.split_off(first.min(plan.writes.len()));
        plan.writes.truncate(folded.writers.len());
        folded.writes = plan.writes;
        let begun = self.leases.iter().filter(|write| matches!(write.op, WriteOp::Put(_)));
        let after = plan.then.map(|then| LockEffects {
            first,
            begun: begun.map(|write| write.at.clone()).collect(),
            then,
        });
        (folded, after)
    }

    /// Takes its place among the running; false, if another that runs is in the way.
    fn begin(&self, newest: &mut dyn Newest, folded: &Folded, after: Option<LockEffects>) -> Result<bool> {
        let mut running = running(newest, self.evaluator.change, folded)?;
        running.after = after;
        if let Some(prepared) = self.plan.prepared {
            running.own.extend(prepared.claims.iter().cloned());
            running.claims = together(running.claims.into_iter().chain(prepared.claims.iter().cloned()));
            running.under.extend(prepared.known.iter().cloned());
        }
        Ok(self.plan.relations.locks.table().run(&self.plan.id, running))
    }
}

impl IntentPlan<'_> {
    /// Evaluates the updates before the section, on what the attempt has read: the plan in the section takes the same.
    async fn evaluate(&self, evaluator: &Evaluator<'_>, before: &BTreeMap<DocAddress, Before>, updates: &mut Updates) {
        let operations = evaluator.change.operations.iter().chain(&evaluator.change.otherwise);
        let is_update = |write: &Write| matches!(write.op, WriteOp::Update(_));
        if let Some(atomic) = self.relations.engine.atomic()
            && operations.map(|operation| &operation.write).any(is_update)
        {
            let mut names = ReadBefore {
                names: self.names,
                before,
            };
            updates.begin(Where::Outside);
            atomic.look(&mut |_| drop(evaluator.evaluate(&mut names, updates))).await;
        }
        updates.begin(Where::InsideUnbounded);
    }

    /// Would the mappings take the writes? They grow by what they take. Gives what each operation comes to where one is refused.
    async fn rehearse(&self, folded: &Folded) -> Result<Option<Vec<NotDone>>> {
        let engine = &*self.relations.engine;
        // Writes that are superseded first: by the others mappings grow.
        let superseded: Vec<Write> = folded.superseded.iter().map(|(_, write)| write.clone()).collect();
        let superseded = engine.rehearse(&superseded).await?;
        let plain = |write: &Write| Write {
            hide: Hide::Drop,
            ..write.clone()
        };
        let plain: Vec<Write> = folded.writes.iter().map(plain).collect();
        let rehearsed: Vec<Option<Error>> = match superseded.iter().all(Result::is_ok) {
            true => rehearse_and_grow(engine, &plain).await?,
            false => engine.rehearse(&plain).await?.into_iter().map(Result::err).collect(),
        };
        debug_assert_eq!(
            rehearsed.len(),
            folded.writes.len(),
            "T2: each write has its answer, in order"
        );
        let outcome = |refused| match refused {
            Some(error) => Outcome::Refused(error),
            None => Outcome::Unknown,
        };
        let outcomes: Vec<Outcome> = rehearsed.into_iter().map(outcome).collect();
        let mut failures = refusals(folded, &outcomes);
        assert_eq!(
            superseded.len(),
            folded.superseded.len(),
            "T2: each write that is superseded has its answer"
        );
        for ((n, _), rehearsed) in folded.superseded.iter().zip(superseded) {
            if let Err(error) = rehearsed {
                let none = || folded.steps.iter().map(|_| NotDone::NotApplied).collect::<Vec<_>>();
                failures.get_or_insert_with(none)[*n] = NotDone::Refused(error);
            }
        }
        Ok(failures)
    }

    /// Would the mapping take it? With a key, its outcome is one more document.
    async fn preflight(
        &self,
        possible: PreflightOutcome,
        before: &BTreeMap<DocAddress, Before>,
    ) -> Result<(PreflightOutcome, Planned)> {
        let PreflightOutcome::Possible {
            folded,
            otherwise,
            warnings,
        } = &possible
        else {
            return Err(Error::new(ErrorKind::Internal, "only what is possible is rehearsed"));
        };
        if let Some(operations) = self.rehearse(folded).await? {
            let failures = Failures {
                otherwise: *otherwise,
                operations,
            };
            return Ok((PreflightOutcome::Verdict(Verdict::Failed(failures)), Planned::Impossible));
        }
        let mut outcomes: BTreeMap<DocAddress, Effects> = BTreeMap::new();
        for write in &folded.writes {
            let known = outcomes.insert(write.at.clone(), effects_of(write, self.relations.clock.wall_ms()));
            debug_assert!(known.is_none(), "T2: a transaction writes {:?} twice", write.at);
        }
        let promise = |warnings: &[String]| Committed {
            commit_seq: 0,
            otherwise: *otherwise,
            moved: Vec::new(),
            items: items(folded, &vec![Stamp::default(); folded.writes.len()]),
            replayed: false,
            warnings: warnings.to_vec(),
        };
        if let Some(key) = &self.change.key {
            let kept = key.keep(&promise(&[]), self.relations.kept_now());
            outcomes.insert(key.at(), Effects::bare(kept));
        }
        for write in &self.leases {
            let effect = match &write.op {
                WriteOp::Put(source) => Effects::bare(source.clone()),
                _ => Effects::Delete,
            };
            outcomes.insert(write.at.clone(), effect);
        }
        if let Some(beside) = self.beside {
            let there = before.get(&beside.at).and_then(|before| before.document.as_ref());
            let source = match (beside.source)(there, &promise(warnings)) {
                Ok(source) => source,
                Err(error) => return Ok((PreflightOutcome::Refused(error), Planned::Stop)),
            };
            outcomes.insert(beside.at.clone(), Effects::bare(source));
        }
        Ok((possible, Planned::Commit(outcomes)))
    }
}

/// The same change, expecting the stamps that are there where only marks have gone over what it expects: they raise the
/// stamps of documents that they leave as they were, also those of its own attempts.
fn expect_found<'c>(change: &'c Change, names: &Names, before: &BTreeMap<DocAddress, Before>) -> Cow<'c, Change> {
    if before.values().all(|before| before.since.is_none()) {
        return Cow::Borrowed(change);
    }
    let mend = |at: &DocAddress, expect: Expect| -> Option<Expect> {
        let at = names.at(at)?;
        let before = before.get(&at)?;
        let (since, now) = (before.since?, before.stamp?);
        let mended = match expect {
            Expect::Unchanged { .. } => expect_unchanged(now),
            Expect::Version(_) => Expect::Version(now.version),
            _ => return None,
        };
        let is_since = before.document.is_some() && expect.check(&at, Found::Here(since)).is_ok();
        is_since.then_some(mended)
    };
    let mut out = change.clone();
    let operations = out.operations.iter_mut().chain(&mut out.otherwise);
    let written = operations.map(|operation| (&operation.write.at, &mut operation.write.expect));
    let compared = out
        .conditions
        .iter_mut()
        .map(|condition| (&condition.at, &mut condition.expect));
    for (at, expect) in written.chain(compared) {
        if let Some(mended) = mend(at, *expect) {
            *expect = mended;
        }
    }
    Cow::Owned(out)
}

/// Do locks of others, or its own, say whether it may be made?
fn rests_on_locks(change: &Change, names: &Names) -> bool {
    let mut indices = names.known.values().filter_map(|index| index.as_ref().ok());
    change.kind == Kind::Change
        || !change.guards.is_empty()
        || !change.locks.is_empty()
        || indices.any(|index| respects_locks(&index.settings))
}

/// The claims of a change while it runs.
fn running(newest: &mut dyn Newest, change: &Change, folded: &Folded) -> Result<Running> {
    let mut claims: Vec<Claim> = Vec::new();
    for write in &folded.writes {
        let fields = place_fields(&newest.index(write.at.index.as_str())?.settings)?;
        let mut places: Vec<LockPath> = Vec::new();
        if !fields.is_unset() {
            if let Some(document) = newest.read(&write.at, See::Plain)? {
                places.extend(fields.places(&document.source.parse()?)?);
            }
            if let WriteOp::Put(source) = &write.op {
                places.extend(fields.places(&source.parse()?)?);
            }
        }
        claims.extend(write_claims(&write.at, &places));
    }
    let own = if change.locks.is_empty() {
        Vec::new()
    } else {
        claims_of(&resolve_targets(newest, &change.locks)?)
    };
    Ok(Running {
        claims: together(claims.into_iter().chain(own.iter().cloned())),
        own,
        under: change.guards.iter().map(|id| Arc::from(id.as_str())).collect(),
        after: None,
    })
}
