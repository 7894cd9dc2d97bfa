//! The plan of one attempt by the portable path: what was read before stands in for what a critical section would read.
//!
//! Not here: attempts and what becomes of them, names (`names`).

use super::names::Names;
use super::{Beside, unchanged};
use crate::Relations;
use crate::changes::{Before, Effects, Planned, Planning, rehearsed};
use crate::leases::ledger::Alone;
use crate::leases::literal::LockWrite;
use crate::leases::table::{After, Running};
use crate::leases::{Place, claims_of, place_fields, resolved};
use crate::locks::{Claim, LockPath, Owner, plan as together, write_claims};
use crate::transactions::evaluation::{Evaluations, Place as Where};
use crate::transactions::fold::{Folded, refused};
use crate::transactions::run::{Planned as Checked, Planning as Checking, items};
use crate::transactions::{Change, Committed, Failures, NotDone, Verdict};
use async_trait::async_trait;
use engine::{Decision, Document, Expect, Found, Gate, Hide, Newest, Outcome, Plan, See, TxnOptions, Write, WriteIndex, WriteOp};
use mapping::Timing;
use model::{DocAddress, DocId, Error, ErrorKind, Result, Stamp};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What was read before, for a plan that believes it is in a critical section.
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
pub(super) enum Came {
    Verdict(Verdict),
    Refused(Error),
    /// It writes these lock documents, and more is to be made ready for that.
    Alone(Vec<LockWrite>),
    Possible {
        folded: Folded,
        otherwise: bool,
        warnings: Vec<String>,
    },
}

/// Plans one attempt.
pub(super) struct Portably<'a> {
    pub(super) relations: &'a Relations,
    pub(super) change: &'a Change,
    pub(super) place: &'a Place,
    pub(super) names: &'a Names,
    pub(super) beside: Option<&'a Beside<'a>>,
    /// Of the attempt.
    pub(super) addresses: &'a BTreeSet<DocAddress>,
    /// Made ready for lock documents.
    pub(super) alone: Option<&'a Alone>,
    /// The documents of leases that begin and end with it.
    pub(super) leases: Vec<Write>,
    pub(super) id: Owner,
    pub(super) came: Option<Came>,
}

#[async_trait]
impl Planning for Portably<'_> {
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned> {
        let (relations, id) = (self.relations, self.id.clone());
        relations.locks.table().stopped(&id);
        let change = &*as_found(self.change, self.names, before);
        let checking = Checking {
            change,
            locks: &relations.locks,
            place: self.place,
            clock: &relations.clock,
            alone: self.alone,
            now_ms: relations.clock.wall_ms(),
            kept_now: relations.kept_now(),
        };
        let mut evaluations = Evaluations::default();
        self.evaluate(&checking, before, &mut evaluations).await;
        let turn = Arc::new(Mutex::new(None));
        let mut checked: Option<Result<(Checked, bool)>> = None;
        let mut leases = Vec::new();
        let alone = self.alone;
        let mut in_the_section = |_: &mut dyn Newest| {
            // Who writes the same lock documents is waited for, as by the other path.
            if let Some(alone) = alone {
                let table = relations.locks.table();
                if table.runs_on(&alone.claims) || !table.runs_under(&alone.known).is_empty() {
                    checked = Some(Ok((Checked::Failed(Failures::default()), false)));
                    return Ok(Plan::default());
                }
            }
            let mut newest = ReadBefore {
                names: self.names,
                before,
            };
            let mut out = Plan::default();
            let mut after = None;
            let what = checking.plan(&mut newest, &mut evaluations).map(|(mut what, mut plan)| {
                if let Checked::Possible { folded, .. } = &mut what {
                    let first = folded.writers.len() + usize::from(change.key.is_some());
                    leases = plan.writes.split_off(first.min(plan.writes.len()));
                    plan.writes.truncate(folded.writers.len());
                    folded.writes = plan.writes;
                    let begun = leases.iter().filter(|write| matches!(write.op, WriteOp::Put(_)));
                    after = plan.then.map(|then| After {
                        first,
                        begun: begun.map(|write| write.at.clone()).collect(),
                        then,
                    });
                }
                what
            });
            let mut runs = true;
            match &what {
                Ok(Checked::Waits(claims, request)) => {
                    let (shared, turn) = (relations.locks.clone(), turn.clone());
                    let (claims, request) = (claims.clone(), request.clone());
                    out.reveals_nothing = true;
                    out.then = Some(Box::new(move |_: &Decision<'_>| {
                        let told = shared.table().queued(&claims, &request, None);
                        *turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared.turn(&request.owner, told));
                    }));
                }
                Ok(Checked::Possible { folded, .. }) => {
                    let mut running = running(&mut newest, change, folded)?;
                    running.after = after;
                    if let Some(alone) = alone {
                        running.own.extend(alone.claims.iter().cloned());
                        running.claims = together(running.claims.into_iter().chain(alone.claims.iter().cloned()));
                        running.under.extend(alone.known.iter().cloned());
                    }
                    runs = relations.locks.table().run(&id, running);
                }
                Ok(Checked::Failed(_) | Checked::Done(_) | Checked::Alone(_) | Checked::Makes(_) | Checked::TooLong) | Err(_) => {
                }
            }
            checked = Some(what.map(|what| (what, runs)));
            Ok(out)
        };
        match relations.engine.atomic() {
            Some(atomic) => {
                // The gate: no grant and no end of a lock comes between the check and the list of the running.
                let how = TxnOptions {
                    gate: if alone.is_some() { Gate::Exclusive } else { Gate::Shared },
                    ..TxnOptions::default()
                };
                atomic.decide(&mut in_the_section, how).await?;
            }
            // Without one nobody grants locks.
            None => {
                let mut none = ReadBefore {
                    names: self.names,
                    before,
                };
                in_the_section(&mut none)?;
            }
        }
        let (came, planned) = match checked {
            Some(Err(error)) if error.kind() == ErrorKind::PreconditionFailed => (Came::Refused(error), Planned::Impossible),
            Some(Err(error)) => (Came::Refused(error), Planned::Stop),
            Some(Ok((_, false))) => return Ok(Planned::Later),
            Some(Ok((Checked::Failed(failures), _))) => (Came::Verdict(Verdict::Failed(failures)), Planned::Impossible),
            Some(Ok((Checked::Makes(_), _))) => {
                // By this path they are there before it is planned.
                let error = Error::new(ErrorKind::Internal, "a plan makes an index");
                (Came::Refused(error), Planned::Stop)
            }
            Some(Ok((Checked::TooLong, _))) => {
                let error = Error::new(ErrorKind::Internal, "an update takes too long where nothing bounds it");
                (Came::Refused(error), Planned::Stop)
            }
            Some(Ok((Checked::Alone(locks), _))) => (Came::Alone(locks), Planned::Stop),
            Some(Ok((Checked::Done(done), _))) => (Came::Verdict(Verdict::Committed(done)), Planned::Stop),
            Some(Ok((Checked::Waits(..), _))) => {
                let turn = turn.lock().unwrap_or_else(PoisonError::into_inner).take();
                let turn = turn.ok_or_else(|| Error::new(ErrorKind::Internal, "a place in the queue was not taken"))?;
                (Came::Verdict(Verdict::Waits(turn, self.place.clone())), Planned::Stop)
            }
            Some(Ok((
                Checked::Possible {
                    folded,
                    otherwise,
                    warnings,
                },
                _,
            ))) => {
                self.leases = leases;
                if self.leases.iter().any(|write| !self.addresses.contains(&write.at)) {
                    // A lock document has another lease than when it was made ready for.
                    self.came = Some(Came::Alone(folded.locks));
                    return Ok(Planned::Stop);
                }
                let possible = Came::Possible {
                    folded,
                    otherwise,
                    warnings,
                };
                self.rehearsed(possible, before).await?
            }
            None => return Err(Error::new(ErrorKind::Internal, "a decision did not plan")),
        };
        self.came = Some(came);
        Ok(planned)
    }
    fn waits(&mut self) {
        // Or whom it waits for might wait for it.
        self.relations.locks.table().stopped(&self.id);
    }
}

impl Portably<'_> {
    /// Evaluates the updates before the section, on what the attempt has read: the plan in the section takes the same.
    async fn evaluate(&self, checking: &Checking<'_>, before: &BTreeMap<DocAddress, Before>, evaluations: &mut Evaluations) {
        let operations = checking.change.operations.iter().chain(&checking.change.otherwise);
        let updates = |write: &Write| matches!(write.op, WriteOp::Update(_));
        if let Some(atomic) = self.relations.engine.atomic()
            && operations.map(|operation| &operation.write).any(updates)
        {
            let mut names = ReadBefore {
                names: self.names,
                before,
            };
            evaluations.begin(Where::Outside);
            atomic.look(&mut |_| drop(checking.plan(&mut names, evaluations))).await;
        }
        evaluations.begin(Where::InsideUnbounded);
    }

    /// Would the mapping take it? With a key, its outcome is one more document.
    async fn rehearsed(&self, possible: Came, before: &BTreeMap<DocAddress, Before>) -> Result<(Came, Planned)> {
        let Came::Possible {
            folded,
            otherwise,
            warnings,
        } = &possible
        else {
            return Err(Error::new(ErrorKind::Internal, "only what is possible is rehearsed"));
        };
        let mut outcomes: BTreeMap<DocAddress, Effects> = BTreeMap::new();
        // What is never written first: by what is, mappings grow.
        let superseded: Vec<Write> = folded.superseded.iter().map(|(_, write)| write.clone()).collect();
        let superseded = self.relations.engine.rehearse(&superseded).await?;
        let plain: Vec<Write> = folded
            .writes
            .iter()
            .map(|write| Write {
                hide: Hide::Drop,
                ..write.clone()
            })
            .collect();
        let rehearsed = if superseded.iter().all(Result::is_ok) {
            rehearsed(&*self.relations.engine, &plain).await?
        } else {
            let answers = self.relations.engine.rehearse(&plain).await?;
            answers.into_iter().map(Result::err).collect()
        };
        let outcome = |refused| match refused {
            Some(error) => Outcome::Refused(error),
            None => Outcome::Unknown,
        };
        let seen: Vec<Outcome> = rehearsed.into_iter().map(outcome).collect();
        for write in &folded.writes {
            debug_assert!(
                !matches!(
                    write.expect,
                    Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
                ),
                "an external version is of a plain write, which is decided at once"
            );
            let effect = match &write.op {
                WriteOp::Put(source) => Effects::Put {
                    source: source.clone(),
                    routing: write.routing.clone(),
                    parent: write.parent.clone(),
                    // Only typed documents have times.
                    timing: match &write.at.id.doc_type {
                        Some(_) => write.timing.clone().judged(self.relations.clock.wall_ms()),
                        None => Timing::default(),
                    },
                },
                WriteOp::Delete => Effects::Delete,
                WriteOp::Update(_) => unreachable!("updates are folded into what they come to"),
            };
            outcomes.insert(write.at.clone(), effect);
        }
        let mut failures = refused(folded, &seen);
        for ((n, _), rehearsed) in folded.superseded.iter().zip(superseded) {
            if let Err(error) = rehearsed {
                let none = || folded.steps.iter().map(|_| NotDone::NotApplied).collect::<Vec<_>>();
                failures.get_or_insert_with(none)[*n] = NotDone::Refused(error);
            }
        }
        if let Some(failures) = failures {
            let failures = Failures {
                otherwise: *otherwise,
                operations: failures,
            };
            return Ok((Came::Verdict(Verdict::Failed(failures)), Planned::Impossible));
        }
        let promise = |warnings: &[String]| Committed {
            commit_seq: 0,
            otherwise: *otherwise,
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
                Err(error) => return Ok((Came::Refused(error), Planned::Stop)),
            };
            outcomes.insert(beside.at.clone(), Effects::bare(source));
        }
        Ok((possible, Planned::Commit(outcomes)))
    }
}

/// The same change, expecting the stamps that are there where only marks have gone over what it expects: they raise the
/// stamps of documents that they leave as they were, also those of its own attempts.
fn as_found<'c>(change: &'c Change, names: &Names, before: &BTreeMap<DocAddress, Before>) -> Cow<'c, Change> {
    if before.values().all(|before| before.since.is_none()) {
        return Cow::Borrowed(change);
    }
    let mend = |at: &DocAddress, expect: Expect| -> Option<Expect> {
        let at = names.at(at)?;
        let before = before.get(&at)?;
        let (since, now) = (before.since?, before.stamp?);
        let mended = match expect {
            Expect::Unchanged { .. } => unchanged(now),
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

/// What a change holds while it runs.
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
        claims_of(&resolved(newest, &change.locks)?)
    };
    Ok(Running {
        claims: together(claims.into_iter().chain(own.iter().cloned())),
        own,
        under: change.guards.iter().map(|id| Arc::from(id.as_str())).collect(),
        after: None,
    })
}
