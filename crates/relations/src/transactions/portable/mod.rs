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

mod names;
mod planning;

use self::planning::{Came, Portably};
use super::fold::Folded;
use super::run::items;
use super::{Change, Committed, Failures, NotDone, Verdict};
use crate::changes::{Attempt, Ended, Mark, Pause, RecordState, Resolved, Runner, Token, is_for_now, session_address};
use crate::leases::Place;
use crate::leases::ledger::Alone;
use crate::leases::table::After;
use crate::locks::{Age, Owner};
use crate::sessions::{Session, SessionKind, SessionState};
use crate::{Relations, schema};
use engine::{
    Clock, Deciding, Decision, Document, Engine, EngineExt as _, Expect, Gate, Hide, Newest, Outcome, Plan, Read, Refresh, See,
    Source, Write, WriteOp,
};
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp, Target};
use std::collections::{BTreeMap, BTreeSet};
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
                    return Err(unknown(error));
                }
            };
            let came = planning.came;
            if let Ended::Committed { token, .. } = &ended {
                if let Err(error) = self.concluded(&id, token.commit_seq()).await {
                    portable.leave(id);
                    return Err(unknown(error));
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
                (Ended::Refused { at, error }, came) => return refused_at(at.as_ref(), error, came.as_ref()).map(Asked::Verdict),
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
        let mut failed = Ok(());
        for change in left {
            match self.brought_to_its_end(portable, &change).await {
                Ok(()) => {}
                Err(error) if is_for_now(&error) => portable.leave(change),
                Err(error) => {
                    portable.leave(change);
                    failed = Err(error);
                }
            }
        }
        failed
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
        for (change, came) in portable.runner.sweep().await? {
            if came.is_none() {
                portable.leave(change);
            }
        }
        Ok(())
    }

    /// Forgets changes that are long finished.
    pub(crate) async fn collect(&self) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        portable.runner.collect(super::KEPT_MS).await.map(|_| ())
    }
}

/// It may be committed: whoever asked cannot know, and is to ask again.
fn unknown(error: Error) -> Error {
    if error.status() == 503 {
        return error.with("outcome", "unknown");
    }
    let reason = format!(
        "the outcome of the change is unknown: {}; repeat it with its idempotency key",
        error.reason()
    );
    Error::new(ErrorKind::TransactionFailed, reason)
        .status_of(503)
        .with("outcome", "unknown")
        .caused_by(error)
}

/// The engine took no mark on a document: the operation that writes it fails by that.
fn refused_at(at: Option<&DocAddress>, error: Error, came: Option<&Came>) -> Result<Verdict> {
    if let Some(Came::Verdict(Verdict::Failed(failures))) = came {
        return Ok(Verdict::Failed(failures.clone()));
    }
    if let Some(Came::Possible { folded, otherwise, .. }) = came
        && let Some(place) = folded.writes.iter().position(|write| Some(&write.at) == at)
    {
        let mut operations: Vec<NotDone> = folded.steps.iter().map(|_| NotDone::NotApplied).collect();
        operations[folded.writers[place]] = NotDone::Refused(error);
        let otherwise = *otherwise;
        return Ok(Verdict::Failed(Failures { otherwise, operations }));
    }
    Err(error)
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
