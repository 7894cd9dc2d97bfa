//! Changes that their coordinator could not finish: they are decided and finished by whoever comes, in the end by an operator.
//!
//! One that waits for an index to be opened is tried again each second. One whose outcome the engine refuses for good is stuck:
//! it is left until somebody resolves it (`_resolve`). Until then both stand among the table's *running*: no lock passes over
//! what they write, and reads name them.
//!
//! Not here: what is written to do so (`intents`).

use super::{Portable, SESSION_TTL, expect_unchanged, nonce};
use crate::atomically::Step;
use crate::intents::{Effects, NotApplied, Record, RecordState, Resolved, Token, is_for_now, is_of_an_index, session_address};
use crate::leases::place_fields;
use crate::leases::table::{LockEffects, Running};
use crate::locks::{Claim, Owner, plan as together, write_claims};
use crate::sessions::{Session, SessionState};
use crate::{Relations, schema};
use async_recursion::async_recursion as boxed;
use engine::{Decision, Document, EngineExt as _, Expect, Gate, Hide, Newest, Outcome, Plan, Read, Refresh, See, TxnOptions};
use engine::{Source, Write, WriteOp};
use futures::future::BoxFuture;
use model::{CommitSeq, DocAddress, Error, ErrorKind, Result, Stamp, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The longest time between two trials.
const LATER: Duration = Duration::from_secs(1);

/// After so many trials, a second or so, nobody waits for an index any more.
const TRIES: u32 = 5;

/// Changes that are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    left: BTreeMap<Owner, Later>,
    stuck: BTreeSet<Owner>,
}

#[derive(Debug, Default)]
struct Later {
    tries: u32,
    /// Not before that.
    next: Duration,
    why: Option<Error>,
}

impl Unfinished {
    /// Decided or not, somebody must look.
    pub(super) fn leave(&mut self, change: &Owner) {
        self.left.entry(change.clone()).or_default();
    }
    fn later(&mut self, change: &Owner, now: Duration, why: Error) {
        let later = self.left.entry(change.clone()).or_default();
        later.tries += 1;
        later.next = now + (Duration::from_millis(25) * (1 << later.tries.min(8))).min(LATER);
        later.why = Some(why);
    }
    fn stick(&mut self, change: &Owner) {
        self.left.remove(change);
        self.stuck.insert(change.clone());
    }
    fn forget(&mut self, change: &Owner) {
        self.left.remove(change);
        self.stuck.remove(change);
    }
    /// Changes that may be tried.
    fn due(&self, now: Duration) -> Vec<Owner> {
        let due = self.left.iter().filter(|(_, later)| later.next <= now);
        due.map(|(change, _)| change.clone()).collect()
    }
    /// It is not to be tried now.
    fn rests(&self, change: &Owner, now: Duration) -> bool {
        self.stuck.contains(change) || self.left.get(change).is_some_and(|later| later.next > now)
    }
    /// Why nobody who waits for it should go on waiting.
    fn holds_up(&self, change: &Owner) -> Option<String> {
        if self.stuck.contains(change) {
            return Some(format!(
                "change [{change}] is committed and stuck; see GET /_transaction/{change}"
            ));
        }
        let left = self.left.get(change).filter(|later| later.tries >= TRIES)?;
        let why = left.why.as_ref().filter(|why| is_of_an_index(why))?;
        Some(format!(
            "change [{change}] is committed and cannot be finished now: {}",
            why.reason()
        ))
    }
}

/// The choice of an operator about a change that cannot be finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// It is tried again.
    Retry,
    /// A document that refuses its outcome is left as it is, and listed.
    Skip,
}

/// A change by the portable path, as lists show it.
#[derive(Clone, Debug)]
pub struct ShownChange {
    /// Its record's.
    pub id: String,
    /// Where it is.
    pub state: RecordState,
    /// The number of one that is committed.
    pub commit_seq: Option<CommitSeq>,
    /// Milliseconds since 1970 when it began.
    pub opened_ms: i64,
    /// How long ago that was.
    pub age: Duration,
    /// The session of the server that began it.
    pub session: String,
    /// Documents that it reads or writes, those of the server's own aside.
    pub documents: usize,
    /// Locks it was made under.
    pub under: Vec<Arc<str>>,
    /// Documents that refuse one that is stuck.
    pub refused: Vec<NotApplied>,
    /// Documents that it was let leave as they are.
    pub skipped: Vec<NotApplied>,
    /// Why it is not finished, if it should be.
    pub waits: Option<Error>,
}

impl ShownChange {
    /// In one sentence: why it is not finished.
    pub fn reason(&self) -> Option<String> {
        let refused = self.refused.first().map(NotApplied::reason);
        refused.or_else(|| self.waits.as_ref().map(|why| why.reason().to_owned()))
    }
    /// Who brings it to its end.
    pub fn finisher(&self) -> &'static str {
        match self.state {
            RecordState::Pending | RecordState::Committed => "server",
            RecordState::Stuck => "operator",
            RecordState::Aborted | RecordState::Done => "none",
        }
    }
}

impl Relations {
    /// Decides and finishes what runs under these leases. `patient`: a change that was tried just now is not tried again.
    ///
    /// # Errors
    /// The transactions that cannot be finished.
    pub(crate) async fn finish_changes_under(&self, leases: &[Arc<str>], patient: bool) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        loop {
            let running = self.locks.table().runs_under(leases);
            if running.is_empty() {
                return Ok(());
            }
            for change in running {
                let rests = portable.lock_unfinished().rests(&change, self.clock.monotonic());
                let resolved = match rests && patient {
                    true => Ok(Resolved::Stuck),
                    false => self.brought_to_its_end(portable, &change).await,
                };
                if matches!(resolved, Ok(Resolved::Aborted | Resolved::Done)) {
                    continue;
                }
                let why = match (portable.lock_unfinished().holds_up(&change), resolved) {
                    (Some(why), _) => why,
                    (None, Err(error)) if !is_of_an_index(&error) => return Err(error),
                    (None, Err(error)) => format!("change [{change}] is not finished: {}", error.reason()),
                    (None, Ok(_)) => format!("change [{change}] is not finished"),
                };
                let error = Error::new(ErrorKind::LockConflict, format!("{why}; it was made under the lock"));
                return Err(error.with("transaction", change.as_str()));
            }
        }
    }

    /// As [`Relations::finish_changes_under`], for the driver of transactions, which finishing a transaction goes through as well.
    pub(crate) fn finish_under<'a>(&'a self, leases: &'a [Arc<str>]) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.finish_changes_under(leases, false))
    }

    /// As [`Relations::finish_left`], for the driver.
    pub(crate) fn finish_what_was_left(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.finish_left())
    }

    /// The leases under which nothing runs any more, and the others.
    pub(crate) async fn split_finished(&self, leases: Vec<Arc<str>>) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        if self.finish_changes_under(&leases, true).await.is_ok() {
            return (leases, Vec::new());
        }
        // One of them is in the way of the others.
        let (mut settled, mut open) = (Vec::new(), Vec::new());
        for lease in leases {
            match self.finish_changes_under(std::slice::from_ref(&lease), true).await {
                Ok(()) => settled.push(lease),
                Err(_) => open.push(lease),
            }
        }
        (settled, open)
    }

    /// Decides and finishes it, as far as can be.
    #[boxed]
    async fn brought_to_its_end(&self, portable: &Portable, change: &Owner) -> Result<Resolved> {
        let resolved = portable.runner.resolve(change).await;
        self.follow_resolution(portable, change, resolved).await
    }

    /// Notes here what has come of a change.
    async fn follow_resolution(&self, portable: &Portable, change: &Owner, resolved: Result<Resolved>) -> Result<Resolved> {
        match &resolved {
            Ok(Resolved::Done) => {
                if let Err(error) = self.conclude(change, 0).await {
                    portable
                        .lock_unfinished()
                        .later(change, self.clock.monotonic(), error.clone());
                    return Err(error);
                }
                portable.lock_unfinished().forget(change);
            }
            Ok(Resolved::Aborted) => {
                self.locks.table().stop_running(change);
                portable.lock_unfinished().forget(change);
            }
            Ok(Resolved::Stuck) => portable.lock_unfinished().stick(change),
            Err(error) => portable
                .lock_unfinished()
                .later(change, self.clock.monotonic(), error.clone()),
        }
        resolved
    }

    /// A change is committed and finished: the table follows it, once, with no decision beside it.
    #[boxed]
    pub(super) async fn conclude(&self, change: &Owner, commit_seq: CommitSeq) -> Result<()> {
        let Some((first, begun)) = self.locks.table().begins(change) else {
            self.locks.table().stop_running(change);
            return Ok(());
        };
        // As they are now: who finishes a change may write a document again.
        let reads = begun.into_iter().map(|at| Read {
            see: See::Everything,
            ..Read::whole(at)
        });
        let all = first + reads.len();
        let found = self.engine.read(reads.collect()).await?;
        let stamp = |document: Option<Document>| document.map(|document| document.stamp).unwrap_or_default();
        let stamps: Arc<[Stamp]> = std::iter::repeat_n(Stamp::default(), first)
            .chain(found.into_iter().map(stamp))
            .collect();
        assert_eq!(
            stamps.len(),
            all,
            "T20: each lease that begins with change [{change}] has the stamp of its own document"
        );
        let body = |_: &mut dyn Newest| {
            let (shared, change, stamps) = (self.locks.clone(), change.clone(), stamps.clone());
            let plan = Plan::revealing_nothing();
            let follow = move |_: &Decision<'_>| {
                let after = shared.table().conclude(&change);
                if let Some(LockEffects { then, .. }) = after {
                    then(&Decision {
                        moves: &[],
                        commit_seq,
                        stamps: &stamps,
                    });
                }
            };
            Ok(Step::CommitWith(plan, Box::new(follow)))
        };
        let options = TxnOptions {
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        self.atomically_once(options, body).await
    }

    /// Decides and finishes changes that coordinators left. One that cannot be finished is kept with the reason.
    pub(crate) async fn finish_left(&self) {
        let Some(portable) = &self.portable else { return };
        let due = portable.lock_unfinished().due(self.clock.monotonic());
        for change in due {
            drop(self.brought_to_its_end(portable, &change).await);
        }
    }

    /// Why none of those who wait for one of these changes should go on waiting.
    pub(crate) fn why_held_up(&self, changes: &[Owner]) -> Option<Error> {
        let unfinished = self.portable.as_ref()?.lock_unfinished();
        let (change, why) = changes
            .iter()
            .find_map(|change| Some((change, unfinished.holds_up(change)?)))?;
        Some(Error::new(ErrorKind::Timeout, why).with("transaction", change.as_str()))
    }

    /// The refusal of whoever waited too long for others' marks on these documents.
    pub(super) async fn waited_for<T>(&self, portable: &Portable, named: &BTreeSet<DocAddress>, reason: String) -> Result<T> {
        let all: Vec<Owner> = {
            let unfinished = portable.lock_unfinished();
            unfinished.stuck.iter().chain(unfinished.left.keys()).cloned().collect()
        };
        for change in all {
            let Some((record, _)) = portable.runner.read_record(&change).await? else {
                continue;
            };
            if record.documents.iter().any(|touched| named.contains(&touched.at))
                && let Some(why) = portable.lock_unfinished().holds_up(&change)
            {
                let error = Error::new(ErrorKind::Timeout, format!("{reason}; {why}"));
                return Err(error.with("transaction", change.as_str()));
            }
        }
        Err(Error::new(ErrorKind::Timeout, reason))
    }

    /// After a start, before any answer: the sessions before this one are over, and what they left is finished. Where one process has
    /// the store these are all sessions, else those of this server's earlier starts: others are observed.
    pub(crate) async fn finish_all(&self) -> Result<()> {
        let Some(portable) = &self.portable else { return Ok(()) };
        self.engine.alter(schema::make_control()).await?;
        let (mut writes, mut ended) = (Vec::new(), Vec::new());
        for document in self.control_documents(&["server"]).await?.unwrap_or_default() {
            let session = Session::parse(&document.source.parse()?)?;
            let name = document.at.id.id.strip_prefix("s:").unwrap_or_default();
            if session.state != SessionState::Open {
                ended.push(Arc::from(name));
                continue;
            }
            let is_own = name.split_once('.').is_some_and(|(server, _)| *server == *self.server);
            if is_own || self.by_gate().is_none() {
                ended.push(Arc::from(name));
                let session = session.expire(portable.session.get(), nonce(&*self.clock));
                writes.push(Write {
                    expect: expect_unchanged(document.stamp),
                    hide: Hide::Drop,
                    ..Write::new(document.at, WriteOp::Put(Source::from_value(&session.render())))
                });
            }
        }
        let own = Session::open(SESSION_TTL, nonce(&*self.clock));
        writes.push(Write {
            expect: Expect::Absent,
            hide: Hide::Drop,
            ..Write::new(
                session_address(&portable.session.get()),
                WriteOp::Put(Source::from_value(&own.render())),
            )
        });
        let sent = self.clock.monotonic();
        let outcomes = self.engine.write(writes, Refresh::No).await?;
        for outcome in outcomes {
            match outcome {
                // The index has one shard, so this is above every number that was given out before.
                Outcome::Written(written) => {
                    portable.note_commit(Token::of(written.stamp).commit_seq());
                }
                Outcome::Refused(error) => return Err(error),
                other => {
                    let reason = format!("a session could not be written: {other:?}");
                    return Err(Error::new(ErrorKind::IllegalState, reason));
                }
            }
        }
        portable.beats().note_opening(sent, ended);
        for (change, came) in portable.runner.sweep().await? {
            if matches!(came, Some(Resolved::Aborted | Resolved::Done)) {
                continue;
            }
            if let Some(running) = self.as_it_ran(portable, &change).await? {
                self.locks.table().run(&change, running);
            }
            match came {
                Some(_) => portable.lock_unfinished().stick(&change),
                None => portable.lock_unfinished().leave(&change),
            }
        }
        Ok(())
    }

    /// The claims of a change that a server before this one committed.
    async fn as_it_ran(&self, portable: &Portable, change: &Owner) -> Result<Option<Running>> {
        let Some((record, _)) = portable.runner.read_record(change).await? else {
            return Ok(None);
        };
        let under = record.under.clone();
        // Chunks are read of one that is committed; of another its documents stand for what is written.
        let record = match record.state {
            RecordState::Committed => portable.runner.whole(change, record).await?,
            _ => Some(record),
        };
        let Some(record) = record else { return Ok(None) };
        let mut claims: Vec<Claim> = Vec::new();
        for touched in &record.documents {
            if touched.effect == Some(Effects::Check) || schema::is_system(touched.at.index.as_str()) {
                continue;
            }
            let target = Target {
                ignore_unavailable: true,
                forbid_closed: false,
                ..Target::index(touched.at.index.as_str())
            };
            let found = self.engine.indices(&target).await?;
            let Some(info) = found.first().filter(|info| info.uuid == touched.index_uuid) else {
                continue;
            };
            let fields = place_fields(&info.settings)?;
            let mut places = Vec::new();
            if !fields.is_unset() {
                if info.open
                    && let Some(document) = self.engine.read_one(touched.at.clone()).await?
                {
                    places.extend(fields.places(&document.source.parse()?)?);
                }
                if let Some(Effects::Put { source, .. }) = &touched.effect {
                    places.extend(fields.places(&source.parse()?)?);
                }
            }
            claims.extend(write_claims(&touched.at, &places));
        }
        Ok(Some(Running {
            claims: together(claims),
            own: Vec::new(),
            under,
            after: None,
        }))
    }

    /// Every change that is not finished, in the order of their names.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn unfinished_changes(&self) -> Result<Vec<ShownChange>> {
        let Some(portable) = &self.portable else {
            return Ok(Vec::new());
        };
        let mut all: BTreeSet<Owner> = self.locks.table().running().into_iter().collect();
        {
            let unfinished = portable.lock_unfinished();
            all.extend(unfinished.stuck.iter().chain(unfinished.left.keys()).cloned());
        }
        let mut shown = Vec::new();
        for change in all {
            if let Some(one) = self.shown_change(portable, &change).await?
                && one.finisher() != "none"
            {
                shown.push(one);
            }
        }
        Ok(shown)
    }

    /// Does a change wait for an operator?
    pub fn is_stuck(&self) -> bool {
        self.portable
            .as_ref()
            .is_some_and(|portable| !portable.lock_unfinished().stuck.is_empty())
    }

    /// A change by the portable path; `None`: this is the name of none.
    ///
    /// # Errors
    /// The engine's; there is none of this name.
    #[boxed]
    pub async fn one_change(&self, id: &str) -> Result<Option<ShownChange>> {
        let (Some(portable), true) = (&self.portable, is_name(id)) else {
            return Ok(None);
        };
        let change = Owner::new(id);
        let missing = || Error::new(ErrorKind::TransactionMissing, format!("no change [{id}]")).with("transaction", id);
        self.shown_change(portable, &change).await?.ok_or_else(missing).map(Some)
    }

    async fn shown_change(&self, portable: &Portable, change: &Owner) -> Result<Option<ShownChange>> {
        let Some((record, stamp)) = portable.runner.read_record(change).await? else {
            return Ok(None);
        };
        let waits = match record.state {
            RecordState::Committed => portable
                .lock_unfinished()
                .left
                .get(change)
                .and_then(|later| later.why.clone()),
            _ => None,
        };
        Ok(Some(self.show(change, record, stamp, waits)))
    }

    fn show(&self, change: &Owner, record: Record, stamp: Stamp, waits: Option<Error>) -> ShownChange {
        let is_committed = !matches!(record.state, RecordState::Pending | RecordState::Aborted);
        let token = record.token.unwrap_or(Token::of(stamp));
        let age = u64::try_from(self.clock.wall_ms() - record.written_ms).unwrap_or(0);
        let of_clients = record.documents.iter().filter(|t| !schema::is_system(t.at.index.as_str()));
        ShownChange {
            id: change.to_string(),
            state: record.state,
            commit_seq: is_committed.then(|| token.commit_seq()),
            opened_ms: record.written_ms,
            age: Duration::from_millis(age),
            session: record.session.to_string(),
            documents: of_clients.count(),
            under: record.under,
            refused: record.refused,
            skipped: record.skipped,
            waits,
        }
    }

    /// An operator's word about a change that is committed and not finished. What it has come to; `false`: there was nothing to
    /// be done.
    ///
    /// # Errors
    /// There is none of this name; the engine's.
    #[boxed]
    pub async fn resolve_change(&self, id: &str, how: Resolution) -> Result<Option<(ShownChange, bool)>> {
        let Some(shown) = self.one_change(id).await? else {
            return Ok(None);
        };
        let (Some(portable), RecordState::Committed | RecordState::Stuck) = (&self.portable, shown.state) else {
            return Ok(Some((shown, false)));
        };
        let change = Owner::new(id);
        let resolved = match how {
            Resolution::Retry => portable.runner.retry(&change).await,
            Resolution::Skip => portable.runner.skip(&change).await,
        };
        match self.follow_resolution(portable, &change, resolved).await {
            Err(error) if !is_for_now(&error) => return Err(error),
            _ => {}
        }
        Ok(self.one_change(id).await?.map(|shown| {
            let done = shown.state == RecordState::Done;
            (shown, done)
        }))
    }
}

/// Is this how changes are named?
fn is_name(id: &str) -> bool {
    let rest = id.strip_prefix("c-").and_then(|rest| rest.split_once('.'));
    rest.is_some_and(|(name, attempt)| {
        name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit()) && attempt.parse::<u32>().is_ok()
    })
}
