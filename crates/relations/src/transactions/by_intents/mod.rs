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
//! Where the engine has no critical section, servers agree on that table by one document (`gate`, `gate_table`), and know of each
//! other by their sessions (`beats`).
//!
//! Not here: marks, the record, applying (`intents`), what operations come to (`evaluate`), changes that their coordinator could
//! not finish (`unfinished`).

mod beats;
mod gate;
mod gate_table;
mod names;
mod plan;
mod unfinished;
mod without_section;

use self::beats::Beats;
use self::plan::{IntentPlan, PreflightOutcome};
use self::unfinished::Unfinished;
pub use self::unfinished::{Resolution, ShownChange};
use super::evaluate::Folded;
use super::evaluate::items;
use super::{Change, Committed, Failures, NotDone, Verdict};
use crate::Relations;
use crate::atomically::TIMEOUT;
use crate::intents::{Attempt, Ended, Mark, Pause, Record, RecordState, Resolved, Room, Runner, Token, session_address};
use crate::kept_time::{KEPT_MS, KeptTime};
use crate::leases::Place;
use crate::lock_documents::apply::PreparedLocks;
use crate::lock_documents::format::LockWrite;
use crate::locks::{Age, Owner};
use crate::sessions::{Session, SessionName, SessionState};
use async_recursion::async_recursion as boxed;
use engine::{Clock, Document, Engine, EngineExt as _, Expect, Hide, Outcome, Read, Refresh, See, Source, Write, WriteOp};
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time to live of the server's session without a beat; where one process has the store nobody observes it.
const SESSION_TTL: Duration = Duration::from_secs(5);
/// Between two looks at something that ends soon.
const BREATH: Duration = Duration::from_millis(2);

/// The state of the portable path.
#[derive(Debug)]
pub(crate) struct Portable {
    runner: Runner,
    pause: Arc<dyn Pause>,
    session: SessionName,
    /// Changes whose coordinator met a failure.
    unfinished: Mutex<Unfinished>,
    /// The greatest `commit_seq` that was given out.
    newest: AtomicU64,
    /// The sessions of this server and of others.
    beats: Mutex<Beats>,
}

impl Portable {
    pub(crate) fn new(
        engine: &Arc<dyn Engine>,
        clock: &Arc<dyn Clock>,
        pause: Arc<dyn Pause>,
        kept_time: Arc<KeptTime>,
        session: Arc<str>,
        room: Room,
    ) -> Portable {
        let runner = Runner::new(engine.clone(), clock.clone(), pause.clone(), session);
        Portable {
            session: runner.session(),
            runner: runner.with_kept_time(kept_time).with_room(room),
            pause,
            unfinished: Mutex::default(),
            newest: AtomicU64::new(0),
            beats: Mutex::default(),
        }
    }

    /// When the newest record of a change was written, by the time in which servers ran.
    pub(crate) async fn newest_kept(&self) -> Result<Option<i64>> {
        self.runner.newest_kept().await
    }

    /// The state that its record says.
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
    pub(super) fn note_commit(&self, commit_seq: CommitSeq) {
        assert!(commit_seq < 1 << 53, "T5: a commit_seq beyond 2^53: {commit_seq}");
        self.newest.fetch_max(commit_seq, Ordering::Relaxed);
    }

    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn lock_unfinished(&self) -> MutexGuard<'_, Unfinished> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A document of the control index that a change writes beside those of its operations.
pub(crate) struct Beside<'a> {
    /// Which.
    pub(crate) at: DocAddress,
    /// Makes its new source of what is there and what the change comes to, numbers aside. An error: it is not to be made.
    pub(crate) source: &'a (dyn Fn(Option<&Document>, &Committed) -> Result<Source> + Sync),
}

/// The result of asking for a change.
pub(crate) enum ChangeReply {
    Verdict(Verdict),
    /// Committed, and what was written beside it has this stamp.
    Beside(Committed, Stamp),
    /// It writes lock documents.
    Exclusive,
}

/// The step that follows an attempt.
enum AfterAttempt {
    Reply(ChangeReply),
    /// It writes these lock documents: another attempt, made ready for them.
    Prepare(Vec<LockWrite>),
    /// It was aborted: another attempt with its age (T10).
    Repeat(Age),
    /// There is no time left.
    GiveUp,
}

impl Relations {
    /// Decides a change by marks and a record.
    pub(crate) async fn change_portably(
        &self,
        portable: &Portable,
        change: &Change,
        place: &Place,
        beside: Option<&Beside<'_>>,
    ) -> Result<ChangeReply> {
        if let Some(done) = self.kept_before(change).await? {
            let done = self.complete_stamps(portable, change, done).await?;
            return Ok(ChangeReply::Verdict(Verdict::Committed(done)));
        }
        let names = self.names(change).await?;
        let mut named = self.touched_addresses(change, &names);
        named.extend(beside.map(|beside| beside.at.clone()));
        // Locks of its own stand in no table of another server: no lock is granted while it is decided.
        let marks_gate = self.by_gate().is_some() && !change.locks.is_empty();
        named.extend(marks_gate.then(gate::gate_address));
        let mut prepared: Option<PreparedLocks> = None;
        let deadline = self.clock.monotonic() + TIMEOUT;
        let name = self.clock.random();
        let mut age: Option<Age> = None;
        for attempt in 0u32.. {
            let id = Owner::new(format!("c-{name:016x}.{attempt}"));
            let leases = prepared.iter().flat_map(PreparedLocks::touches);
            let addresses: BTreeSet<DocAddress> = named.iter().cloned().chain(leases).collect();
            let mut planning = IntentPlan {
                relations: self,
                change,
                place,
                names: &names,
                beside,
                addresses: &addresses,
                prepared: prepared.as_ref(),
                leases: Vec::new(),
                id: id.clone(),
                came: None,
            };
            let attempt = Attempt {
                id: id.clone(),
                age,
                addresses: addresses.clone(),
                under: change.guards.iter().map(|lease| Arc::from(lease.as_str())).collect(),
                digest: String::new(),
                deadline,
            };
            let ended = self.run_attempt(portable, &attempt, &mut planning).await?;
            let came = planning.came;
            match self.after_attempt(portable, change, beside, ended, came).await? {
                AfterAttempt::Reply(reply) => return Ok(reply),
                AfterAttempt::Prepare(locks) => prepared = Some(self.prepare_locks(&locks)),
                AfterAttempt::Repeat(kept) => age = Some(kept).filter(|age| *age != Age::default()),
                AfterAttempt::GiveUp => break,
            }
            if self.clock.monotonic() > deadline {
                break;
            }
        }
        let reason = format!("other changes of the same documents did not end within {TIMEOUT:?}; nothing was changed");
        self.waited_for(portable, &named, reason).await
    }

    /// Goes from the end of an attempt, and what it came to before its commit, to the step that follows.
    ///
    /// # Errors
    /// The refusal of the change; the engine's.
    async fn after_attempt(
        &self,
        portable: &Portable,
        change: &Change,
        beside: Option<&Beside<'_>>,
        ended: Ended,
        came: Option<PreflightOutcome>,
    ) -> Result<AfterAttempt> {
        let reply = match (ended, came) {
            (
                Ended::Committed { token, stamps },
                Some(PreflightOutcome::Possible {
                    folded,
                    otherwise,
                    warnings,
                }),
            ) => {
                let committed = self
                    .report_commit(portable, change, &folded, otherwise, warnings, token, &stamps)
                    .await?;
                match beside {
                    None => ChangeReply::Verdict(Verdict::Committed(committed)),
                    Some(beside) => ChangeReply::Beside(committed, stamps.get(&beside.at).copied().unwrap_or_default()),
                }
            }
            (Ended::Stopped, Some(PreflightOutcome::Refused(error))) => return Err(error),
            (Ended::Refused { at, error }, came) => refusal_at(at.as_ref(), error, came.as_ref()).map(ChangeReply::Verdict)?,
            (Ended::Stopped, Some(PreflightOutcome::Exclusive(_))) if beside.is_some() => ChangeReply::Exclusive,
            (Ended::Stopped, Some(PreflightOutcome::Exclusive(locks))) => return Ok(AfterAttempt::Prepare(locks)),
            (Ended::Stopped, Some(PreflightOutcome::Verdict(Verdict::Committed(done)))) => {
                let done = self.complete_stamps(portable, change, done).await?;
                ChangeReply::Verdict(Verdict::Committed(done))
            }
            (Ended::Stopped, Some(PreflightOutcome::Verdict(verdict))) => ChangeReply::Verdict(verdict),
            (Ended::Aborted { age }, _) => return Ok(AfterAttempt::Repeat(age)),
            (Ended::TimedOut, _) => return Ok(AfterAttempt::GiveUp),
            (ended, _) => {
                let reason = format!("an attempt without locks of its own ended as {ended:?}");
                return Err(Error::new(ErrorKind::Internal, reason));
            }
        };
        Ok(AfterAttempt::Reply(reply))
    }

    /// Runs one attempt to its end, and takes it from the running ones.
    ///
    /// # Errors
    /// Nothing happened; or nobody knows what did: then it goes on standing among the running, for it may be committed and not applied.
    async fn run_attempt(&self, portable: &Portable, attempt: &Attempt, planning: &mut IntentPlan<'_>) -> Result<Ended> {
        let id = &attempt.id;
        let is_unknown = |error: Error| {
            portable.lock_unfinished().leave(id);
            unknown(id, error)
        };
        let ended = match portable.runner.attempt(attempt, planning).await {
            Ok(ended) => ended,
            // An index that closed while it was planned: nothing has happened, and nothing will.
            Err(error) if self.is_undone(portable, id).await => return Err(error),
            Err(error) => return Err(is_unknown(error)),
        };
        if let Ended::Committed { token, .. } = &ended {
            self.conclude(id, token.commit_seq()).await.map_err(is_unknown)?;
        } else {
            self.locks.table().stop_running(id);
        }
        Ok(ended)
    }

    #[allow(clippy::too_many_arguments, reason = "all that a change came to, told once")]
    async fn report_commit(
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
            moved: Vec::new(),
            items: items(folded, &stamps_of),
            replayed: false,
            warnings,
        };
        portable.note_commit(done.commit_seq);
        if let Some(key) = &change.key
            && let Some(stamp) = stamps.get(&key.at())
        {
            // A courtesy: without it, who repeats the key works the stamps out.
            let kept = Write {
                expect: expect_unchanged(*stamp),
                ..Write::new(key.at(), WriteOp::Put(key.keep(&done, self.kept_now())))
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

    /// An attempt that failed before its commit is aborted, and that is acknowledged.
    async fn is_undone(&self, portable: &Portable, change: &Owner) -> bool {
        let state = portable.state_of(change).await;
        let is_open = matches!(state, Ok(None | Some(RecordState::Pending | RecordState::Aborted)));
        let is_undone = is_open && matches!(portable.runner.resolve(change).await, Ok(Resolved::Aborted));
        if is_undone {
            self.locks.table().stop_running(change);
        }
        is_undone
    }

    /// The outcome that is kept under its key, if that is decided. One that comes now is found by the plan.
    async fn kept_before(&self, change: &Change) -> Result<Option<Committed>> {
        let Some(key) = &change.key else { return Ok(None) };
        let read = Read {
            see: See::Everything,
            ..Read::whole(key.at())
        };
        let found = match self.engine.read(vec![read]).await {
            Err(error) if error.kind() == ErrorKind::IndexNotFound => None,
            found => found?.pop().flatten(),
        };
        // Under a mark it is not decided, or not applied.
        match found.filter(|document| document.hidden.as_ref().is_none_or(|hidden| hidden.visible && !hidden.held)) {
            Some(document) => key.recall(&document.source, self.kept_now()),
            None => Ok(None),
        }
    }

    /// A kept outcome whose stamps nobody wrote down: from the marks that the change left. It is no answer before all of
    /// the change is applied.
    async fn complete_stamps(&self, portable: &Portable, change: &Change, mut done: Committed) -> Result<Committed> {
        let (0, Some(key)) = (done.commit_seq, &change.key) else {
            return Ok(done);
        };
        let marked = |at: DocAddress| Read {
            see: See::Everything,
            ..Read::whole(at)
        };
        let token = |document: &Option<Document>| Ok(Mark::of(document.as_ref().and_then(|d| d.hidden.as_ref()))?.token);
        let until = self.clock.monotonic() + TIMEOUT;
        let (found, own) = loop {
            let reads = done.items.iter().map(|item| item.written.at.clone()).chain([key.at()]);
            let mut found = self.engine.read(reads.map(marked).collect()).await?;
            match token(&found.pop().flatten())? {
                Some(own) => break (found, own),
                // The outcome was there a moment ago, so this is a stale read.
                None if self.clock.monotonic() < until => self.breathe().await,
                None => return Ok(done),
            }
        };
        done.commit_seq = own.commit_seq();
        for document in found.iter().flatten() {
            let Some(other) = Mark::of(document.hidden.as_ref())?.intent else {
                continue;
            };
            let is_own = |record: &Record, stamp| record.token.unwrap_or(Token::of(stamp)) == own;
            match portable.runner.read_record(&other).await? {
                Some((record, stamp)) if record.state.is_unfinished() && is_own(&record, stamp) => {
                    let why = self.why_held_up(std::slice::from_ref(&other));
                    let reason = || Error::new(ErrorKind::Timeout, format!("change [{other}] is committed and not finished"));
                    return Err(unknown(&other, why.unwrap_or_else(reason)));
                }
                _ => {}
            }
        }
        assert_eq!(found.len(), done.items.len(), "T7: an engine answers each read, in order");
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
    #[boxed]
    pub async fn write(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let Some(portable) = &self.portable else {
            return self.write_beside_links(writes, refresh).await;
        };
        let mut outcomes = Vec::with_capacity(writes.len());
        // A write that waits for a change is not overtaken by a later one of the same document.
        for run in engine::runs(writes, |write| &write.at) {
            let answers = self.engine.write(run.clone(), refresh).await?;
            assert_eq!(answers.len(), run.len(), "T7: an engine answers each write, in order");
            for (write, mut outcome) in run.into_iter().zip(answers) {
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
    #[boxed]
    pub async fn reach(&self, target: &Target, after: u64) -> Result<()> {
        let Some(portable) = &self.portable else {
            return self.engine.refresh(target, Some(after)).await.map(|_| ());
        };
        let mut newest = portable.newest();
        if after > newest && self.engine.atomic().is_none() {
            // Other servers commit as well.
            newest = self.learn_newest(portable).await?;
            portable.runner.finish_committed().await?;
        }
        if after > newest {
            return Err(Error::illegal(format!(
                "commit [{after}] is still to come, the last one is [{newest}]"
            )));
        }
        let before = self.locks.table().running();
        let deadline = self.clock.monotonic() + TIMEOUT;
        loop {
            let mut running = self.locks.table().running();
            running.retain(|change| before.contains(change));
            if running.is_empty() {
                break;
            }
            if let Some(why) = self.why_held_up(&running) {
                return Err(why);
            }
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

    /// The newest commit that this process knows is its own last one. A write of its own session in the index of all records, which
    /// has one shard, gets a number above every commit that was acknowledged before.
    async fn learn_newest(&self, portable: &Portable) -> Result<CommitSeq> {
        let own = portable.session.get();
        let at = session_address(&own);
        let deadline = self.clock.monotonic() + TIMEOUT;
        while self.clock.monotonic() < deadline {
            let found = self.engine.read_one(at.clone()).await?;
            let session = found.map(|document| Ok((Session::parse(&document.source.parse()?)?, document.stamp)));
            let Some((session, stamp)) = session
                .transpose()?
                .filter(|(session, _)| session.state == SessionState::Open)
            else {
                let reason = format!("the session [{own}] of this server has ended: another one took its place");
                return Err(Error::new(ErrorKind::Unavailable, reason));
            };
            let touched = Session {
                nonce: nonce(&*self.clock),
                ..session
            };
            let write = Write {
                expect: expect_unchanged(stamp),
                hide: Hide::Drop,
                ..Write::new(at.clone(), WriteOp::Put(Source::from_value(&touched.render())))
            };
            match self.engine.write_one(write, Refresh::No).await? {
                Outcome::Written(written) => {
                    portable.note_commit(Token::of(written.stamp).commit_seq());
                    return Ok(portable.newest());
                }
                Outcome::Refused(error) => return Err(error),
                Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => self.breathe().await,
            }
        }
        let reason = format!("the newest commit could not be learned within {TIMEOUT:?}");
        Err(Error::new(ErrorKind::Timeout, reason))
    }

    /// A moment; nothing where there is no portable path, whose changes alone are waited for.
    pub(crate) async fn breathe(&self) {
        if let Some(portable) = &self.portable {
            portable.pause.pause(BREATH).await;
        }
    }

    /// Forgets changes that are long finished.
    pub(crate) async fn collect(&self) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        portable.runner.collect(KEPT_MS).await.map(|_| ())
    }
}

/// It may be committed: whoever asked cannot know, and is to ask again.
fn unknown(change: &Owner, error: Error) -> Error {
    let error = match error.details().iter().any(|(name, _)| name == "transaction") {
        true => error,
        false => error.with("transaction", change.as_str()),
    };
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
        .with("transaction", change.as_str())
        .with_cause(error)
}

/// The engine took no mark on a document: the operation that writes it fails by that.
fn refusal_at(at: Option<&DocAddress>, error: Error, came: Option<&PreflightOutcome>) -> Result<Verdict> {
    if let Some(PreflightOutcome::Verdict(Verdict::Failed(failures))) = came {
        return Ok(Verdict::Failed(failures.clone()));
    }
    if let Some(PreflightOutcome::Possible { folded, otherwise, .. }) = came
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

fn expect_unchanged(stamp: Stamp) -> Expect {
    Expect::Unchanged {
        seq_no: stamp.seq_no,
        primary_term: stamp.primary_term,
    }
}
