//! The portable way of a change: per-document compare-and-set and nothing else, on any engine.
//!
//! ```text
//! W1 record   create {pending, documents}          R  read, plan        W3 chunks of outcomes, if they are many
//! W4 a mark on every document, at the version read
//! W5 record   pending → committed {outcomes}       W6 apply by the marks        W7 record   committed → done
//! ```
//!
//! Anybody may stop at any step, and anybody else finishes or undoes the rest with [`Runner::resolve`]. An answer is
//! acted on only when it is an acknowledgement; a conflict or silence is followed by another look.
//!
//! Here are W1, R, W4, W5 and what every step needs. `chunks` has W3, `apply` W6 and W7, `resolve` what becomes of others' changes,
//! `sweep` their search and garbage.
//!
//! Not here: what to do next (`decide`), what operations come to (`transactions`), time (the clock and the `Pause`).

use super::attempt::{Attempt, Before, Ended, Pause, Planned, Planning, Resolved};
use super::chunks::Room;
use super::decide::RecordState;
use super::intent::{Marked, expect_unchanged, rewrite_as};
use super::record::{CONTROL_INDEX, Effects, Mark, Record, Token, Touched, Uuids, record_address};
use crate::kept_time::KeptTime;
use crate::locks::{Age, Owner};
use crate::sessions::SessionName;
use async_recursion::async_recursion as boxed;
use engine::catalog::index_closed;
use engine::{Clock, Document, Engine, EngineExt as _, Expect, Hide, Outcome, Read, Refresh, See, Source, Write, WriteOp};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, Stamp, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Runs changes and finishes those of others.
#[derive(Clone, Debug)]
pub struct Runner {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) clock: Arc<dyn Clock>,
    /// By which records grow old.
    pub(super) kept_time: Arc<KeptTime>,
    pause: Arc<dyn Pause>,
    session: SessionName,
    pub(super) room: Room,
}

/// The result of one turn of an attempt.
enum AttemptTurn {
    Ended(Ended),
    /// The next one may come at once.
    Again,
    /// The next one comes after a rest.
    Later,
}

/// The result of marking the documents of a change.
enum Marking {
    /// Each, as it is now.
    Done(BTreeMap<DocAddress, Marked>),
    /// One was not acknowledged.
    Moved,
    /// One cannot be.
    Refused(DocAddress, Error),
}

/// How the indices of a change stand.
#[derive(Default)]
pub(super) struct Places {
    /// Names of indices that are not the ones the change was made for.
    pub(super) gone: BTreeSet<String>,
    /// Names of closed indices, with the refusal.
    pub(super) shut: BTreeMap<String, Error>,
}

impl Places {
    /// Whether documents of an index can be written now.
    pub(super) fn is_open(&self, index: &str) -> bool {
        !self.shut.contains_key(index) && !self.gone.contains(index)
    }
}

/// Where the document of a session or lease is.
pub fn session_address(session: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new(CONTROL_INDEX),
        id: DocId::plain(format!("s:{session}")),
    }
}

/// The documents that intents of other changes are on, by the change.
fn foreign_intents(own: &Owner, read: &BTreeMap<DocAddress, Marked>) -> BTreeMap<Owner, BTreeSet<DocAddress>> {
    let mut foreign: BTreeMap<Owner, BTreeSet<DocAddress>> = BTreeMap::new();
    for (at, marked) in read {
        if let Some(owner) = marked.mark.intent.as_ref().filter(|owner| *owner != own) {
            foreign.entry(owner.clone()).or_default().insert(at.clone());
        }
    }
    foreign
}

impl Runner {
    /// The runner of one server, whose session keeps its changes alive.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, pause: Arc<dyn Pause>, session: Arc<str>) -> Runner {
        Runner {
            engine,
            kept_time: Arc::new(KeptTime::new(clock.as_ref())),
            clock,
            pause,
            session: SessionName::new(session),
            room: Room::default(),
        }
    }

    /// The same where records grow old with what else is kept.
    pub(crate) fn with_kept_time(self, kept_time: Arc<KeptTime>) -> Runner {
        Runner { kept_time, ..self }
    }

    /// The session that keeps its changes alive.
    pub(crate) fn session(&self) -> SessionName {
        self.session.clone()
    }

    /// The same with other room in records and chunks.
    pub fn with_room(self, room: Room) -> Runner {
        Runner { room, ..self }
    }

    /// Runs one attempt, planned by the caller.
    ///
    /// # Errors
    /// The engine's. The change is then undecided or decided; whoever resolves it learns which.
    #[boxed]
    pub async fn attempt(&self, attempt: &Attempt, planning: &mut dyn Planning) -> Result<Ended> {
        let addresses = &attempt.addresses;
        let uuids = match self.uuids(addresses).await {
            Ok(uuids) => uuids,
            Err(error) => return Ok(Ended::Refused { at: None, error }),
        };
        let record = Record {
            state: RecordState::Pending,
            session: self.session.get(),
            age: attempt.age,
            documents: addresses
                .iter()
                .map(|at| Touched {
                    at: at.clone(),
                    index_uuid: uuids[at.index.as_str()].clone(),
                    effect: None,
                })
                .collect(),
            chunks: None,
            digest: attempt.digest.clone(),
            token: None,
            nonce: self.nonce(),
            written_ms: self.clock.wall_ms(),
            kept_ms: self.kept_time.now_ms(self.clock.as_ref()),
            under: attempt.under.clone(),
            refused: Vec::new(),
            skipped: Vec::new(),
        };
        let Some((record, age)) = self.open(attempt, record).await? else {
            let age = attempt.age.unwrap_or_default();
            return Ok(Ended::Aborted { age });
        };
        self.run_attempt(attempt, record, age, planning).await
    }

    /// W1. `None` if somebody has aborted it before it could begin.
    async fn open(&self, change: &Attempt, record: Record) -> Result<Option<(Record, Age)>> {
        let mut expect = Expect::Absent;
        let mut record = record;
        loop {
            if let Some(stamp) = self.write_record(&change.id, &record, expect).await? {
                let age = record.age_at(stamp);
                return Ok(Some((record, age)));
            }
            // A conflict or silence may be one's own success; what an isolated primary showed may be gone again.
            match self.read_record(&change.id).await? {
                None => expect = Expect::Absent,
                Some((found, _)) if found.state == RecordState::Aborted => {
                    // An isolated primary may show that too: then it is ours to abort, or it would be pending as long as we live.
                    self.abort(&change.id).await?;
                    return Ok(None);
                }
                Some((found, _)) if found.state != RecordState::Pending || found.session != record.session => return Ok(None),
                Some((found, stamp)) => {
                    expect = expect_unchanged(stamp);
                    record = found.touch(stamp, RecordState::Pending, self.nonce());
                }
            }
            self.rest(1).await;
        }
    }

    /// R, W4, W5 and what follows.
    #[boxed]
    async fn run_attempt(&self, change: &Attempt, record: Record, age: Age, planning: &mut dyn Planning) -> Result<Ended> {
        let mut patience = 1;
        loop {
            if self.clock.monotonic() > change.deadline {
                return match self.abort(&change.id).await? {
                    Resolved::Aborted => Ok(Ended::TimedOut),
                    other => unreachable!("nobody but us commits our change, and it is {other:?}"),
                };
            }
            match self.take_turn(change, &record, age, planning).await? {
                AttemptTurn::Ended(ended) => return Ok(ended),
                AttemptTurn::Again => {}
                AttemptTurn::Later => {
                    self.rest(patience).await;
                    patience += 1;
                }
            }
        }
    }

    /// One turn of an attempt: reads, plans, marks, commits.
    async fn take_turn(&self, change: &Attempt, record: &Record, age: Age, planning: &mut dyn Planning) -> Result<AttemptTurn> {
        let id = &change.id;
        // The record is looked at first: who has been aborted must not go on leaving marks.
        match self.read_record(id).await? {
            Some((found, _)) if found.state == RecordState::Pending => {}
            Some((found, _)) if found.state == RecordState::Aborted => return self.give_up(id, Ended::Aborted { age }).await,
            // A stale read.
            _ => return Ok(AttemptTurn::Later),
        }
        let read = self.read_marked(&change.addresses).await?;
        let foreign = foreign_intents(id, &read);
        if !foreign.is_empty() {
            planning.waits();
            let mut waits = false;
            for (other, at) in &foreign {
                waits |= !self.meet(Some(age), other, at).await?;
            }
            return Ok(if waits { AttemptTurn::Later } else { AttemptTurn::Again });
        }
        let before: BTreeMap<DocAddress, Before> = read.iter().map(|(at, marked)| (at.clone(), marked.before())).collect();
        let committed = match planning.plan(&before).await {
            Err(error) => return self.give_up(id, Ended::Refused { at: None, error }).await,
            Ok(Planned::Stop) => return self.give_up(id, Ended::Stopped).await,
            Ok(Planned::Later) => return Ok(AttemptTurn::Later),
            Ok(Planned::Commit(outcomes)) => Some(self.with_outcomes(id, record, age, &outcomes).await?),
            Ok(Planned::Impossible) => None,
        };
        // Marks prove what was read, for failures as well as for success.
        let stamps = match self.mark(id, &read, &record.uuids()).await? {
            Marking::Done(stamps) => stamps,
            Marking::Moved => return Ok(AttemptTurn::Later),
            Marking::Refused(at, error) => return self.give_up(id, Ended::Refused { at: Some(at), error }).await,
        };
        debug_assert_eq!(
            stamps.len(),
            read.len(),
            "T7, T25: an intent is missing before the commit, or before the answer that rests on what was read"
        );
        let Some(committed) = committed else {
            return self.give_up(id, Ended::Stopped).await;
        };
        let Some((committed, token)) = self.commit(id, committed).await? else {
            return self.give_up(id, Ended::Aborted { age }).await;
        };
        let mut stamped = BTreeMap::new();
        let state = self.apply_all(id, &committed, token, stamps, &mut stamped).await?;
        assert!(state != Resolved::Aborted, "T6: what is committed goes forward");
        if state == Resolved::Stuck {
            return Err(self.why_stuck(id).await?);
        }
        Ok(AttemptTurn::Ended(Ended::Committed { token, stamps: stamped }))
    }

    /// Aborts the change, which ends so.
    async fn give_up(&self, change: &Owner, ended: Ended) -> Result<AttemptTurn> {
        self.abort(change).await?;
        Ok(AttemptTurn::Ended(ended))
    }

    /// W4: a mark on every document at the version that was read, in the index that the record names.
    async fn mark(&self, change: &Owner, read: &BTreeMap<DocAddress, Marked>, uuids: &Uuids) -> Result<Marking> {
        let mut writes = Vec::with_capacity(read.len());
        let mut marks = Vec::with_capacity(read.len());
        for (at, marked) in read {
            assert!(
                marked.mark.intent.as_ref().is_none_or(|owner| owner == change),
                "T7: the mark of another change is met, not written over"
            );
            let mine = marked.mark.intent.is_some();
            let mark = Mark {
                intent: Some(change.clone()),
                stub: marked.document.is_none() || marked.mark.stub,
                before: if mine {
                    marked.mark.before
                } else {
                    marked.document.as_ref().map(|d| d.stamp)
                },
                since: marked.since(),
                ..marked.mark.clone()
            };
            writes.push(uuids.address(rewrite_as(at, marked, &mark)));
            marks.push((at, marked, mark));
        }
        debug_assert!(
            writes.iter().all(|write| write.index_uuid.is_some()),
            "T11: a mark carries the index uuid that the record names"
        );
        let outcomes = self.engine.write(writes, Refresh::No).await?;
        assert_eq!(outcomes.len(), marks.len(), "T7: an engine answers each write, in order");
        let mut stamped = BTreeMap::new();
        for ((at, marked, mark), outcome) in marks.into_iter().zip(outcomes) {
            let written = match outcome {
                Outcome::Written(written) => written,
                Outcome::Refused(error) => return Ok(Marking::Refused(at.clone(), error)),
                Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => return Ok(Marking::Moved),
            };
            let mut document = marked.document.clone().unwrap_or_else(|| Document {
                at: at.clone(),
                stamp: written.stamp,
                source: Source((*b"{}").into()),
                stored_fields: None,
                routing: None,
                parent: None,
                times: mapping::Times::default(),
                tree: None,
                hidden: None,
            });
            document.stamp = written.stamp;
            let document = Some(document);
            stamped.insert(at.clone(), Marked { document, mark });
        }
        Ok(Marking::Done(stamped))
    }

    /// W3, and the record as W5 writes it.
    async fn with_outcomes(
        &self,
        change: &Owner,
        opened: &Record,
        age: Age,
        outcomes: &BTreeMap<DocAddress, Effects>,
    ) -> Result<Record> {
        let named = opened.documents.iter().map(|touched| Touched {
            effect: Some(outcomes.get(&touched.at).cloned().unwrap_or(Effects::Check)),
            ..touched.clone()
        });
        let documents: Vec<Touched> = named.collect();
        debug_assert_eq!(
            documents.iter().filter(|touched| outcomes.contains_key(&touched.at)).count(),
            outcomes.len(),
            "T1: every outcome is of a document that the record names, each once"
        );
        Ok(Record {
            state: RecordState::Committed,
            age: Some(age),
            chunks: self.write_chunks(change, &documents).await?,
            documents,
            nonce: self.nonce(),
            ..opened.clone()
        })
    }

    /// W5. `None` if somebody has aborted it. Nobody else commits it: what is found committed has these outcomes.
    async fn commit(&self, change: &Owner, committed: Record) -> Result<Option<(Record, Token)>> {
        assert_eq!(
            committed.state,
            RecordState::Committed,
            "T1: the record's step from pending decides"
        );
        let mut turn = 1;
        loop {
            if let Some((found, stamp)) = self.read_record(change).await? {
                let next = match found.state {
                    RecordState::Pending => committed.clone(),
                    // Also where it is found aborted: an isolated primary may show an abort that is gone again, after a commit
                    // of ours whose acknowledgement was lost. What is written over it, and acknowledged, is what it is.
                    state => found.touch(stamp, state, self.nonce()),
                };
                if let Some(written) = self.write_record(change, &next, expect_unchanged(stamp)).await? {
                    if next.state == RecordState::Aborted {
                        return Ok(None);
                    }
                    let token = next.token.unwrap_or(Token::of(written));
                    debug_assert_eq!(next.chunks, committed.chunks, "T1: a commit with other outcomes");
                    let documents = committed.documents;
                    return Ok(Some((Record { documents, ..next }, token)));
                }
            }
            self.rest(turn).await;
            turn += 1;
        }
    }

    /// The uuid of every index named.
    pub(super) async fn uuids(&self, addresses: &BTreeSet<DocAddress>) -> Result<BTreeMap<String, String>> {
        let names: BTreeSet<&str> = addresses.iter().map(|at| at.index.as_str()).collect();
        let mut uuids = BTreeMap::new();
        for name in names {
            let found = self.engine.indices(&Target::index(name)).await?;
            let Some(info) = found.first() else {
                let reason = format!("no such index [{name}]");
                return Err(Error::new(ErrorKind::IndexNotFound, reason).with("index", name));
            };
            uuids.insert(name.to_owned(), info.uuid.clone());
        }
        Ok(uuids)
    }

    /// Names of indices that are not the ones the change was made for: its operations there count as done.
    pub(super) async fn replaced_indices(&self, touched: &[&Touched]) -> Result<BTreeSet<String>> {
        Ok(self.places(touched).await?.gone)
    }

    /// How the indices of these documents stand.
    #[boxed]
    pub(super) async fn places(&self, touched: &[&Touched]) -> Result<Places> {
        let mut places = Places::default();
        let named: BTreeMap<&str, &str> = touched.iter().map(|t| (t.at.index.as_str(), t.index_uuid.as_str())).collect();
        for (name, uuid) in named {
            let target = Target {
                ignore_unavailable: true,
                // One that is closed may be opened again.
                forbid_closed: false,
                ..Target::index(name)
            };
            let found = self.engine.indices(&target).await?;
            match found.first().filter(|info| info.uuid == uuid) {
                None => drop(places.gone.insert(name.to_owned())),
                Some(info) if !info.open => drop(places.shut.insert(name.to_owned(), index_closed(&info.name, &info.uuid))),
                Some(_) => {}
            }
        }
        Ok(places)
    }

    pub(super) async fn read_marked(&self, addresses: &BTreeSet<DocAddress>) -> Result<BTreeMap<DocAddress, Marked>> {
        let reads = addresses.iter().map(|at| Read {
            see: See::Everything,
            ..Read::whole(at.clone())
        });
        let found = self.engine.read(reads.collect()).await?;
        assert_eq!(found.len(), addresses.len(), "T7: an engine answers each read, in order");
        addresses
            .iter()
            .cloned()
            .zip(found)
            .map(|(at, document)| Ok((at, Marked::of(document)?)))
            .collect()
    }

    pub(crate) async fn read_record(&self, change: &Owner) -> Result<Option<(Record, Stamp)>> {
        let Some(document) = self.engine.read_one(record_address(change)).await? else {
            return Ok(None);
        };
        Ok(Some((Record::parse(&document.source.parse()?)?, document.stamp)))
    }

    /// The stamp, if the write was acknowledged. Anything else is no answer.
    #[boxed]
    pub(super) async fn write_record(&self, change: &Owner, record: &Record, expect: Expect) -> Result<Option<Stamp>> {
        // No change marks a record: the engine need not look for what to keep.
        let write = Write {
            expect,
            hide: Hide::Drop,
            ..Write::new(record_address(change), WriteOp::Put(Source::from_value(&record.render())))
        };
        match self.engine.write_one(write, Refresh::No).await? {
            Outcome::Written(written) => Ok(Some(written.stamp)),
            Outcome::Refused(error) => Err(error),
            Outcome::Conflict(_) | Outcome::Held(_) | Outcome::Unknown => Ok(None),
        }
    }

    /// The record that is put where none was: a late creation fails on it.
    pub(super) fn negation(&self) -> Record {
        Record {
            state: RecordState::Aborted,
            session: self.session.get(),
            age: None,
            documents: Vec::new(),
            chunks: None,
            digest: String::new(),
            token: None,
            nonce: self.nonce(),
            written_ms: self.clock.wall_ms(),
            kept_ms: self.kept_time.now_ms(self.clock.as_ref()),
            under: Vec::new(),
            refused: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub(super) fn nonce(&self) -> Arc<str> {
        Arc::from(format!("{:016x}", self.clock.random()))
    }

    /// Back-off with jitter: 5 ms at first, a quarter of a second at most.
    pub(super) async fn rest(&self, turn: u32) {
        let bound = 5u64 << turn.min(6);
        let jitter = self.clock.random() % bound.max(1);
        self.pause.pause(Duration::from_millis((bound / 2 + jitter).min(250))).await;
    }
}
