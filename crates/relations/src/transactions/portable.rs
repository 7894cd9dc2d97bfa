//! A change by the portable path: the same plan as in one critical section, made of what was read before and proved by marks.
//!
//! Locks stay where they are, in the table behind the engine's gate. From the moment its locks were checked until it
//! is decided and finished, a change stands among the table's *running* ones: no lock is granted meanwhile on what it
//! writes, and no lock that it is made under ends, or what the lock protects would be half done when it passes on.
//!
//! An outcome kept under a client's key is one more document of its change, so there is the outcome if and only if
//! there is the change. Its stamps are known only when everything is applied: they are written then, and worked out by
//! whoever is answered from it if nobody came to that.
//!
//! Not here: marks, the record, applying (`changes`), what operations come to (`fold`).

use super::fold::{Folded, refused};
use super::run::{Planned as Checked, Planning as Checking, items};
use super::{Change, Committed, NotDone, Operation, Verdict};
use crate::changes::{
    Attempt, Before, Effects, Ended, Mark, Pause, Planned, Planning, RecordState, Resolved, Runner, Token, session_address,
};
use crate::leases::ledger::Alone;
use crate::leases::literal::LockWrite;
use crate::leases::table::{After, Running};
use crate::leases::{Place, claims_of, place_fields, resolved};
use crate::locks::{Age, Claim, LockPath, LockTarget, Owner, plan as together, write_claims};
use crate::sessions::{Session, SessionKind, SessionState};
use crate::{Relations, schema};
use async_trait::async_trait;
use engine::{
    Alteration, Clock, Deciding, Decision, Document, Engine, EngineExt as _, Expect, Found, Gate, Hide, IndexInfo, Newest,
    Outcome, Plan, Read, Refresh, See, Source, Write, WriteIndex, WriteOp,
};
use mapping::Timing;
use model::{CommitSeq, DocAddress, Error, ErrorKind, IndexName, Result, Stamp, Target};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Waiting for other changes, all attempts together.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Time to live of the server's session; on one process nobody observes it.
const SESSION_TTL: Duration = Duration::from_secs(5);
/// Between two looks at something that ends soon.
const BREATH: Duration = Duration::from_millis(2);

/// What the portable path needs of its own.
#[derive(Debug)]
pub(crate) struct Portable {
    runner: Runner,
    pause: Arc<dyn Pause>,
    session: Arc<str>,
    /// Changes whose coordinator met a failure: decided or not, somebody must look.
    left: Mutex<Vec<Owner>>,
    /// The greatest `commit_seq` that was given out.
    newest: AtomicU64,
}

impl Portable {
    pub(crate) fn new(engine: &Arc<dyn Engine>, clock: &Arc<dyn Clock>, pause: Arc<dyn Pause>) -> Portable {
        let session: Arc<str> = Arc::from(format!("n1.{:013x}", clock.random() >> 12));
        Portable {
            runner: Runner::new(engine.clone(), clock.clone(), pause.clone(), session.clone()),
            pause,
            session,
            left: Mutex::default(),
            newest: AtomicU64::new(0),
        }
    }

    /// What its record says.
    pub(super) async fn state_of(&self, change: &Owner) -> Result<Option<RecordState>> {
        Ok(self.runner.read_record(change).await?.map(|(record, _)| record.state))
    }
    /// A change that is decided is applied everywhere.
    pub(super) async fn finish(&self, change: &Owner) -> Result<()> {
        self.runner.resolve(change).await.map(|_| ())
    }

    /// Every commit up to here was given out.
    pub(super) fn newest(&self) -> CommitSeq {
        self.newest.load(Ordering::Relaxed)
    }
    /// This commit was given out.
    pub(super) fn reached(&self, commit_seq: CommitSeq) {
        self.newest.fetch_max(commit_seq, Ordering::Relaxed);
    }

    fn leave(&self, change: Owner) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }
}

/// Names of a change, resolved before it begins.
#[derive(Default)]
struct Names {
    /// A missing index is not in it.
    known: HashMap<String, Result<WriteIndex>>,
}

impl Names {
    fn at(&self, at: &DocAddress) -> Option<DocAddress> {
        let index = self.known.get(at.index.as_str())?.as_ref().ok()?;
        Some(DocAddress {
            index: index.name.clone(),
            id: at.id.clone(),
        })
    }
}

/// What was read before, for a plan that believes it is in a critical section.
struct ReadBefore<'a> {
    names: &'a Names,
    before: &'a BTreeMap<DocAddress, Before>,
}

impl Newest for ReadBefore<'_> {
    fn read(&mut self, at: &DocAddress, _see: See) -> Result<Option<Document>> {
        let name = self.index(at.index.as_str())?.name;
        let at = DocAddress {
            index: name,
            id: at.id.clone(),
        };
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
    /// Done for all of them together, when the plan is made.
    fn rehearse(&mut self, _write: &Write) -> Result<()> {
        Ok(())
    }
}

/// A document of the control index that a change writes beside those of its operations.
pub(crate) struct Beside<'a> {
    /// Which.
    pub(crate) at: DocAddress,
    /// What it becomes, of what is there and what the change comes to, numbers aside. An error: it is not to be made.
    pub(crate) source: &'a (dyn Fn(Option<&Document>, &Committed) -> Result<Source> + Sync),
}

/// What came of asking for a change.
pub(crate) enum Asked {
    Verdict(Verdict),
    /// Committed, and what was written beside it has this stamp.
    Beside(Committed, Stamp),
    /// It writes lock documents.
    Alone,
}

/// Why a change was not made, or what it came to.
enum Came {
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
struct Portably<'a> {
    relations: &'a Relations,
    change: &'a Change,
    place: &'a Place,
    names: &'a Names,
    beside: Option<&'a Beside<'a>>,
    /// Of the attempt.
    addresses: &'a BTreeSet<DocAddress>,
    /// Made ready for lock documents.
    alone: Option<&'a Alone>,
    /// The documents of leases that begin and end with it.
    leases: Vec<Write>,
    id: Owner,
    came: Option<Came>,
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
            now: relations.clock.monotonic(),
            now_ms: relations.clock.wall_ms(),
        };
        let turn = Arc::new(Mutex::new(None));
        let mut checked: Option<Result<(Checked, bool)>> = None;
        let mut leases = Vec::new();
        let alone = self.alone;
        let mut in_the_section = |_: &mut dyn Newest| {
            // Who writes the same lock documents is waited for, as by the other path.
            if let Some(alone) = alone {
                let table = relations.locks.table();
                if table.runs_on(&alone.claims) || !table.runs_under(&alone.known).is_empty() {
                    checked = Some(Ok((Checked::Failed(Vec::new()), false)));
                    return Ok(Plan::default());
                }
            }
            let mut newest = ReadBefore {
                names: self.names,
                before,
            };
            let mut out = Plan::default();
            let mut after = None;
            let what = checking.plan(&mut newest).map(|(mut what, mut plan)| {
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
                    out.unheard = true;
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
                Ok(Checked::Failed(_) | Checked::Done(_) | Checked::Alone(_)) | Err(_) => {}
            }
            checked = Some(what.map(|what| (what, runs)));
            Ok(out)
        };
        match relations.engine.atomic() {
            Some(atomic) => {
                // The gate: no grant and no end of a lock comes between the check and the list of the running.
                let how = Deciding {
                    gate: if alone.is_some() { Gate::Exclusive } else { Gate::Shared },
                    ..Deciding::default()
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
        let mut seen = Vec::with_capacity(folded.writes.len());
        let plain: Vec<Write> = folded
            .writes
            .iter()
            .map(|write| Write {
                hide: Hide::Drop,
                ..write.clone()
            })
            .collect();
        for (write, rehearsed) in folded.writes.iter().zip(self.relations.engine.rehearse(&plain).await?) {
            debug_assert!(
                !matches!(
                    write.expect,
                    Expect::NewerThan { .. } | Expect::AbsentAt { .. } | Expect::Forced(_)
                ),
                "an external version is of a plain write, which is decided at once"
            );
            seen.push(match rehearsed {
                Err(error) => Outcome::Refused(error),
                Ok(_) => Outcome::Unknown,
            });
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
        let superseded: Vec<Write> = folded.superseded.iter().map(|(_, write)| write.clone()).collect();
        for ((n, _), rehearsed) in folded
            .superseded
            .iter()
            .zip(self.relations.engine.rehearse(&superseded).await?)
        {
            if let Err(error) = rehearsed {
                let none = || folded.steps.iter().map(|_| NotDone::NotApplied).collect::<Vec<_>>();
                failures.get_or_insert_with(none)[*n] = NotDone::Refused(error);
            }
        }
        if let Some(failures) = failures {
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
            let kept = Effects::Put {
                source: key.keep(&promise(&[]), self.relations.clock.wall_ms()),
                routing: None,
                parent: None,
                timing: Timing::default(),
            };
            outcomes.insert(key.at(), kept);
        }
        for write in &self.leases {
            let effect = match &write.op {
                WriteOp::Put(source) => Effects::Put {
                    source: source.clone(),
                    routing: None,
                    parent: None,
                    timing: Timing::default(),
                },
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
            let written = Effects::Put {
                source,
                routing: None,
                parent: None,
                timing: Timing::default(),
            };
            outcomes.insert(beside.at.clone(), written);
        }
        Ok((possible, Planned::Commit(outcomes)))
    }
}

/// The same change, expecting the stamps that are there where only marks have gone over what it expects: they raise the
/// stamps of documents that they leave as they were, also those of its own attempts.
fn as_found<'c>(change: &'c Change, names: &Names, before: &BTreeMap<DocAddress, Before>) -> Cow<'c, Change> {
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
        (is_since && expect != mended).then_some(mended)
    };
    let mut out = Cow::Borrowed(change);
    for n in 0..change.operations.len() {
        let write = &change.operations[n].write;
        if let Some(expect) = mend(&write.at, write.expect) {
            out.to_mut().operations[n].write.expect = expect;
        }
    }
    for n in 0..change.otherwise.len() {
        let write = &change.otherwise[n].write;
        if let Some(expect) = mend(&write.at, write.expect) {
            out.to_mut().otherwise[n].write.expect = expect;
        }
    }
    for n in 0..change.conditions.len() {
        let condition = &change.conditions[n];
        if let Some(expect) = mend(&condition.at, condition.expect) {
            out.to_mut().conditions[n].expect = expect;
        }
    }
    out
}

/// What a change holds while it runs.
fn running(newest: &mut dyn Newest, change: &Change, folded: &Folded) -> Result<Running> {
    let mut claims: Vec<Claim> = Vec::new();
    for write in &folded.writes {
        let fields = place_fields(&newest.index(write.at.index.as_str())?.settings)?;
        let mut places: Vec<LockPath> = Vec::new();
        if !fields.is_unset() {
            if let Some(document) = newest.read(&write.at, See::Plain)? {
                places.extend(fields.place(&document.source.parse()?)?);
            }
            if let WriteOp::Put(source) = &write.op {
                places.extend(fields.place(&source.parse()?)?);
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

impl Relations {
    /// Decides a change by marks and a record.
    pub(crate) async fn change_portably(
        &self,
        portable: &Portable,
        change: &Change,
        place: &Place,
        beside: Option<&Beside<'_>>,
    ) -> Result<Asked> {
        let names = self.names(change).await?;
        let mut named = self.touched(change, &names);
        named.extend(beside.map(|beside| beside.at.clone()));
        let mut alone: Option<Alone> = None;
        let deadline = self.clock.monotonic() + TIMEOUT;
        let name = self.clock.random();
        let mut age: Option<Age> = None;
        for attempt in 0u32.. {
            let id = Owner::new(format!("c-{name:016x}.{attempt}"));
            let leases = alone.iter().flat_map(Alone::touches);
            let addresses: BTreeSet<DocAddress> = named.iter().cloned().chain(leases).collect();
            let mut planning = Portably {
                relations: self,
                change,
                place,
                names: &names,
                beside,
                addresses: &addresses,
                alone: alone.as_ref(),
                leases: Vec::new(),
                id: id.clone(),
                came: None,
            };
            let attempt = Attempt {
                id: id.clone(),
                age,
                addresses: addresses.clone(),
                locks: Vec::new(),
                digest: String::new(),
                deadline,
            };
            let ended = match portable.runner.attempt(&attempt, &mut planning).await {
                Ok(ended) => ended,
                Err(error) => {
                    // It may be committed and not applied, so it goes on standing among the running.
                    portable.leave(id);
                    return Err(error.with("outcome", "unknown"));
                }
            };
            let came = planning.came;
            if let Ended::Committed { token, .. } = &ended {
                if let Err(error) = self.concluded(&id, token.commit_seq()).await {
                    portable.leave(id);
                    return Err(error.with("outcome", "unknown"));
                }
            } else {
                self.locks.table().stopped(&id);
            }
            match (ended, came) {
                (
                    Ended::Committed { token, stamps },
                    Some(Came::Possible {
                        folded,
                        otherwise,
                        warnings,
                    }),
                ) => {
                    let committed = self
                        .committed(portable, change, &folded, otherwise, warnings, token, &stamps)
                        .await?;
                    return Ok(match beside {
                        None => Asked::Verdict(Verdict::Committed(committed)),
                        Some(beside) => Asked::Beside(committed, stamps.get(&beside.at).copied().unwrap_or_default()),
                    });
                }
                (Ended::Stopped, Some(Came::Refused(error))) => return Err(error),
                (Ended::Stopped, Some(Came::Alone(_))) if beside.is_some() => return Ok(Asked::Alone),
                (Ended::Stopped, Some(Came::Alone(locks))) => alone = Some(self.alone(&locks)),
                (Ended::Stopped, Some(Came::Verdict(Verdict::Committed(done)))) => {
                    let done = self.completed(change, done).await?;
                    return Ok(Asked::Verdict(Verdict::Committed(done)));
                }
                (Ended::Stopped, Some(Came::Verdict(verdict))) => return Ok(Asked::Verdict(verdict)),
                (Ended::Aborted { age: kept }, _) => age = Some(kept).filter(|age| *age != Age::default()),
                (Ended::TimedOut, _) => break,
                (ended, _) => {
                    let reason = format!("an attempt without locks of its own ended as {ended:?}");
                    return Err(Error::new(ErrorKind::Internal, reason));
                }
            }
            if self.clock.monotonic() > deadline {
                break;
            }
        }
        let reason = format!("other changes of the same documents did not end within {TIMEOUT:?}; nothing was changed");
        Err(Error::new(ErrorKind::Timeout, reason))
    }

    #[allow(clippy::too_many_arguments, reason = "all that a change came to, told once")]
    async fn committed(
        &self,
        portable: &Portable,
        change: &Change,
        folded: &Folded,
        otherwise: bool,
        warnings: Vec<String>,
        token: Token,
        stamps: &BTreeMap<DocAddress, Stamp>,
    ) -> Result<Committed> {
        let of = |write: &Write| stamps.get(&write.at).copied().unwrap_or_default();
        let stamps_of: Vec<Stamp> = folded.writes.iter().map(of).collect();
        let mut done = Committed {
            commit_seq: token.commit_seq(),
            otherwise,
            items: items(folded, &stamps_of),
            replayed: false,
            warnings,
        };
        portable.reached(done.commit_seq);
        if let Some(key) = &change.key
            && let Some(stamp) = stamps.get(&key.at())
        {
            // A courtesy: without it, who repeats the key works the stamps out.
            let kept = Write {
                expect: unchanged(*stamp),
                ..Write::new(key.at(), WriteOp::Put(key.keep(&done, self.clock.wall_ms())))
            };
            drop(self.engine.write_one(kept, Refresh::No).await);
        }
        if change.refresh != Refresh::No {
            // Both mean: searches see it when it is answered.
            let indices: BTreeSet<&str> = folded.writes.iter().map(|write| write.at.index.as_str()).collect();
            if !indices.is_empty() {
                let target = Target::of(indices.into_iter().map(str::to_owned).collect());
                self.engine.refresh(&target, None).await?;
            }
            if change.refresh == Refresh::Now {
                for item in done
                    .items
                    .iter_mut()
                    .filter(|item| item.written.effect != engine::Effect::Noop)
                {
                    item.written.forced_refresh = true;
                }
            }
        }
        Ok(done)
    }

    /// A kept outcome whose stamps nobody wrote down: from the marks that the change left.
    async fn completed(&self, change: &Change, mut done: Committed) -> Result<Committed> {
        let (0, Some(key)) = (done.commit_seq, &change.key) else {
            return Ok(done);
        };
        let marked = |at: DocAddress| Read {
            see: See::Everything,
            ..Read::whole(at)
        };
        let reads = done.items.iter().map(|item| item.written.at.clone()).chain([key.at()]);
        let mut found = self.engine.read(reads.map(marked).collect()).await?;
        let token = |document: &Option<Document>| Ok(Mark::of(document.as_ref().and_then(|d| d.hidden.as_ref()))?.token);
        let Some(own) = token(&found.pop().flatten())? else {
            return Ok(done);
        };
        done.commit_seq = own.commit_seq();
        for (item, document) in done.items.iter_mut().zip(found) {
            if token(&document)? == Some(own)
                && let Some(document) = document
            {
                item.written.stamp = document.stamp;
            }
        }
        Ok(done)
    }

    /// The indices that a change names; missing ones that it may make are made, and stay whatever becomes of it.
    async fn names(&self, change: &Change) -> Result<Names> {
        let mut names = Names::default();
        let all = || change.operations.iter().chain(&change.otherwise);
        for operation in all() {
            let name = operation.write.at.index.as_str();
            self.learn(&mut names, name).await?;
            if let Some(typed) = makes(operation).filter(|_| !names.known.contains_key(name) && !schema::is_system(name)) {
                self.engine.alter(Alteration::index_if_missing(name, typed)).await?;
                self.learn(&mut names, name).await?;
            }
        }
        for condition in &change.conditions {
            self.learn(&mut names, condition.at.index.as_str()).await?;
        }
        for wanted in &change.locks {
            match &wanted.target {
                LockTarget::All | LockTarget::Name(_) => {}
                LockTarget::Index(index) | LockTarget::Path { index, .. } => self.learn(&mut names, index.as_str()).await?,
                LockTarget::Document(at) => self.learn(&mut names, at.index.as_str()).await?,
            }
        }
        if change.key.is_some() {
            self.learn(&mut names, schema::CONTROL).await?;
        }
        // A plan speaks of indices by their own names too.
        let own: Vec<WriteIndex> = names
            .known
            .values()
            .filter_map(|known| known.as_ref().ok().cloned())
            .collect();
        for index in own {
            names.known.entry(index.name.to_string()).or_insert(Ok(index));
        }
        Ok(names)
    }

    async fn learn(&self, names: &mut Names, name: &str) -> Result<()> {
        if names.known.contains_key(name) {
            return Ok(());
        }
        let target = Target {
            forbid_closed: false,
            ..Target::index(name)
        };
        match self.engine.indices(&target).await {
            Ok(found) => drop(names.known.insert(name.to_owned(), write_index(name, &found))),
            Err(error) if error.kind() == ErrorKind::IndexNotFound => {}
            Err(error) => drop(names.known.insert(name.to_owned(), Err(error))),
        }
        Ok(())
    }

    fn touched(&self, change: &Change, names: &Names) -> BTreeSet<DocAddress> {
        let written = change
            .operations
            .iter()
            .chain(&change.otherwise)
            .map(|operation| &operation.write.at);
        let compared = change.conditions.iter().map(|condition| &condition.at);
        let locked = change.locks.iter().filter_map(|wanted| match &wanted.target {
            LockTarget::Document(at) => Some(at),
            _ => None,
        });
        let all = written.chain(compared).chain(locked).filter_map(|at| names.at(at));
        // Records, leases and the like are no documents of clients.
        all.filter(|at| !schema::is_system(at.index.as_str()))
            .chain(change.key.iter().map(super::Key::at))
            .collect()
    }

    /// Writes on the plain way, in order. One that meets a change waits as the youngest, or finishes it.
    ///
    /// # Errors
    /// The engine's.
    pub async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let Some(portable) = &self.portable else {
            return self.engine.write(writes, refresh).await;
        };
        let mut outcomes = Vec::with_capacity(writes.len());
        // What waits for a change is not overtaken by a later write of the same document.
        for run in engine::runs(writes, |write| &write.at) {
            for (write, mut outcome) in run.clone().into_iter().zip(self.engine.write(run, refresh).await?) {
                if matches!(outcome, Outcome::Held(_)) {
                    let deadline = self.clock.monotonic() + TIMEOUT;
                    outcome = portable
                        .runner
                        .write(write, refresh, deadline)
                        .await
                        .unwrap_or_else(Outcome::Refused);
                }
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    }

    /// Searches of the target see this commit, and all before it.
    ///
    /// # Errors
    /// A commit that is still to come.
    pub async fn reach(&self, target: &Target, after: u64) -> Result<()> {
        let Some(portable) = &self.portable else {
            return self.engine.refresh(target, Some(after)).await.map(|_| ());
        };
        let newest = portable.newest();
        if after > newest {
            return Err(Error::illegal(format!(
                "commit [{after}] is still to come, the last one is [{newest}]"
            )));
        }
        let before = self.locks.table().running();
        let deadline = self.clock.monotonic() + TIMEOUT;
        while self.locks.table().running().iter().any(|change| before.contains(change)) {
            if self.clock.monotonic() > deadline {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    format!("changes before [{after}] did not end within {TIMEOUT:?}"),
                ));
            }
            self.breathe().await;
        }
        self.engine.refresh(target, None).await.map(|_| ())
    }

    /// A moment; nothing where there is no portable path, whose changes alone are waited for.
    pub(crate) async fn breathe(&self) {
        if let Some(portable) = &self.portable {
            portable.pause.pause(BREATH).await;
        }
    }

    /// What runs under these leases is decided and finished.
    pub(crate) async fn settled(&self, leases: &[Arc<str>]) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        loop {
            let running = self.locks.table().runs_under(leases);
            if running.is_empty() {
                return Ok(());
            }
            for change in running {
                self.brought_to_its_end(portable, &change).await?;
            }
        }
    }

    /// Decides and finishes it.
    async fn brought_to_its_end(&self, portable: &Portable, change: &Owner) -> Result<()> {
        if portable.runner.resolve(change).await? == Resolved::Done {
            return self.concluded(change, 0).await;
        }
        self.locks.table().stopped(change);
        Ok(())
    }

    /// A change is committed and finished: the table follows it, once, with no decision beside it.
    async fn concluded(&self, change: &Owner, commit_seq: CommitSeq) -> Result<()> {
        let Some((first, begun)) = self.locks.table().begins(change) else {
            self.locks.table().stopped(change);
            return Ok(());
        };
        // As they are now: who finishes a change may write a document again.
        let reads = begun.into_iter().map(|at| Read {
            see: See::Everything,
            ..Read::whole(at)
        });
        let found = self.engine.read(reads.collect()).await?;
        let stamp = |document: Option<Document>| document.map(|document| document.stamp).unwrap_or_default();
        let stamps: Arc<[Stamp]> = std::iter::repeat_n(Stamp::default(), first)
            .chain(found.into_iter().map(stamp))
            .collect();
        let mut plan = |_: &mut dyn Newest| {
            let (shared, change, stamps) = (self.locks.clone(), change.clone(), stamps.clone());
            Ok(Plan {
                unheard: true,
                then: Some(Box::new(move |_: &Decision<'_>| {
                    let after = shared.table().concluded(&change);
                    if let Some(After { then, .. }) = after {
                        then(&Decision {
                            commit_seq,
                            stamps: &stamps,
                        });
                    }
                })),
                ..Plan::default()
            })
        };
        let how = Deciding {
            gate: Gate::Exclusive,
            ..Deciding::default()
        };
        self.atomic()?.decide(&mut plan, how).await.map(|_| ())
    }

    /// What coordinators left behind them is decided and finished.
    pub(crate) async fn finish_left(&self) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        let left = std::mem::take(&mut *portable.left.lock().unwrap_or_else(PoisonError::into_inner));
        for change in left {
            match self.brought_to_its_end(portable, &change).await {
                Ok(()) => {}
                Err(error) if error.is_transient() => portable.leave(change),
                Err(error) => {
                    portable.leave(change);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// After a start, before any answer: every server's session before this one is over, and what it left is finished.
    pub(crate) async fn finish_all(&self) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        self.engine.alter(schema::make_control()).await?;
        let mut writes = Vec::new();
        for document in self.control_documents(&["server"]).await?.unwrap_or_default() {
            let session = Session::parse(&document.source.parse()?)?;
            if session.state == SessionState::Open {
                let ended = session.ended(SessionState::Expired, Some(portable.session.clone()), nonce(&*self.clock));
                writes.push(Write {
                    expect: unchanged(document.stamp),
                    hide: Hide::Drop,
                    ..Write::new(document.at, WriteOp::Put(Source::from_value(&ended.render())))
                });
            }
        }
        let own = Session::open(SessionKind::Server, SESSION_TTL, nonce(&*self.clock));
        writes.push(Write {
            expect: Expect::Absent,
            hide: Hide::Drop,
            ..Write::new(
                session_address(&portable.session),
                WriteOp::Put(Source::from_value(&own.render())),
            )
        });
        for outcome in self.engine.write(writes, Refresh::No).await? {
            match outcome {
                // Of one shard, so above every number that was given out before.
                Outcome::Written(written) => {
                    portable.reached(Token::of(written.stamp).commit_seq());
                }
                Outcome::Refused(error) => return Err(error),
                other => {
                    let reason = format!("a session could not be written: {other:?}");
                    return Err(Error::new(ErrorKind::IllegalState, reason));
                }
            }
        }
        portable.runner.sweep().await.map(|_| ())
    }

    /// Forgets changes that are long finished.
    pub(crate) async fn collect(&self) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        portable.runner.collect(super::KEPT_MS).await.map(|_| ())
    }
}

/// Would this operation make a missing index, and of which dialect?
fn makes(operation: &Operation) -> Option<bool> {
    operation
        .creates
        .filter(|_| operation.error.is_none() && !operation.write.require_alias)
}

/// The one index that a write to this name goes to.
fn write_index(name: &str, found: &[IndexInfo]) -> Result<WriteIndex> {
    let of = |info: &IndexInfo| {
        if !info.open {
            return Err(Error::new(ErrorKind::IndexClosed, "closed").with("index", info.name.as_str()));
        }
        Ok(WriteIndex {
            name: IndexName::new(info.name.as_str()),
            uuid: info.uuid.clone(),
            typed: info.typed,
            settings: Arc::new(info.settings.clone()),
        })
    };
    if let Some(own) = found.iter().find(|info| info.name.as_str() == name) {
        return of(own);
    }
    let flag = |info: &IndexInfo| info.aliases.get(name).and_then(|alias| alias["is_write_index"].as_bool());
    let writers: Vec<&IndexInfo> = found.iter().filter(|info| flag(info) == Some(true)).collect();
    match (writers.as_slice(), found) {
        ([one], _) => of(one),
        ([], [one]) if flag(one) != Some(false) => of(one),
        _ => Err(Error::illegal(format!(
            "no write index is defined for alias [{name}]. The write index may be explicitly disabled using is_write_index=false \
             or the alias points to multiple indices without one being designated as a write index"
        ))),
    }
}

fn nonce(clock: &dyn Clock) -> Arc<str> {
    Arc::from(format!("{:016x}", clock.random()))
}

fn unchanged(stamp: Stamp) -> Expect {
    Expect::Unchanged {
        seq_no: stamp.seq_no,
        primary_term: stamp.primary_term,
    }
}
