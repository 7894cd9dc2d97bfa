//! Transactions that are held open, over the critical section whose decisions overlap (`section`): clients begin, read by id,
//! search, stage, commit, abort, go too slow, hang up and leave; other clients change the same documents; servers stop anywhere
//! and start again.
//!
//! The oracle is the list of all records, in their order. There are two levels:
//!
//! | level | of | rule |
//! |---|---|---|
//! | snapshot | everything that a transaction reads | it is as at the beginning, with the transaction's own writes |
//! | serializable | documents that it read by id or writes | they are at its commit as they were at its beginning |
//! | serializable | transactions under the same exclusive lock | none commits between the beginning and the commit of another |
//!
//! | | check |
//! |---|---|
//! | S1 | a committed transaction is one record of all that it staged; of another one nothing is ever written |
//! | S14 | who asks again hears the first outcome, also of another start of the server |
//! | S10 | a transaction begins after everything that was acknowledged before |
//! | L1 | in the end none is open |

use crate::runs::engine_with;
use crate::section::{LogRecord, Mistake, Section};
use crate::world::{Scheduler, SimClock, World};
use async_trait::async_trait;
use dsl::query::Query;
use engine::{Engine, Expect, Outcome, Read, Refresh, Seen, Source, Stage, Staged, Staging, View, Write, WriteOp};
use futures::{FutureExt as _, StreamExt as _};
use model::{DocAddress, DocId, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use relations::leases::{Ask, Asked, OnExpire, Told, Wanted};
use relations::locks::{LockTarget, Mode};
use relations::transactions::interactive::{Begin, Finished, HeldWrite, TransactionState};
use relations::transactions::{Change, Operation, Verdict};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

const KEEP_ALIVE: Duration = Duration::from_secs(2);
const DOCUMENTS: usize = 4;
const TURNS_MAX: u64 = 300_000;

/// Documents by number, with the name of the write that made each.
type Values = BTreeMap<usize, String>;

fn at(n: usize) -> DocAddress {
    DocAddress {
        index: IndexName::new("a"),
        id: DocId::plain(format!("{n}")),
    }
}

fn put(n: usize, name: &str) -> Write {
    Write::new(at(n), WriteOp::Put(Source::from_value(&json!({ "v": name }))))
}

fn name_in(source: &Source) -> String {
    let value = source.parse().expect("JSON");
    value["v"].as_str().expect("a name").to_owned()
}

/// The number of a client's document.
fn number_of(at: &DocAddress) -> Option<usize> {
    (at.index.as_str() == "a").then(|| at.id.id.parse().expect("a number"))
}

#[async_trait]
impl Staging for Section {
    async fn begin(&self) -> Result<View> {
        self.world.turn().await;
        let view = Staging::begin(&self.engine).await;
        self.world.turn().await;
        view
    }
    async fn read(&self, view: &str, reads: Vec<Read>) -> Result<Vec<Result<Seen>>> {
        self.world.turn().await;
        let newest = Engine::read(&self.engine, reads.clone()).await?;
        let mut seen = Staging::read(&self.engine, view, reads).await?;
        for (seen, newest) in seen.iter_mut().zip(newest) {
            match (self.mistake, seen) {
                (Some(Mistake::MovingMoment), Ok(seen)) if !seen.own => seen.document = newest,
                (Some(Mistake::UnnotedReads), Ok(seen)) => seen.own = true,
                _ => {}
            }
        }
        self.world.turn().await;
        Ok(seen)
    }
    async fn stage(&self, view: &str, writes: Vec<Stage>) -> Result<Vec<Outcome>> {
        self.world.turn().await;
        let outcomes = Staging::stage(&self.engine, view, writes).await;
        self.world.turn().await;
        outcomes
    }
    async fn staged_documents(&self, view: &str) -> Result<Vec<Staged>> {
        self.world.turn().await;
        Staging::staged_documents(&self.engine, view).await
    }
    async fn staged_bytes(&self, view: &str) -> Result<u64> {
        Staging::staged_bytes(&self.engine, view).await
    }
}

/// The end of a transaction, as far as its client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    /// Nobody has told, or it never ended.
    Unknown,
    Committed(u64),
    Not,
}

/// One transaction as its client knows it.
#[derive(Clone, Debug)]
struct Held {
    id: String,
    read_seq: u64,
    /// It runs under the one lock that all such transactions take.
    locked: bool,
    /// Read by id before it wrote the document.
    reads: Vec<(usize, Option<String>)>,
    /// A search, and what was staged when it was made.
    searches: Vec<(Values, BTreeMap<usize, Option<String>>)>,
    staged: BTreeMap<usize, Option<String>>,
    ended: Ended,
}

#[derive(Debug, Default)]
struct Heard {
    held: Vec<Held>,
    /// The greatest number that was told.
    acknowledged: u64,
    expired: u64,
}

type Log = Arc<Mutex<Heard>>;

fn heard(log: &Log) -> MutexGuard<'_, Heard> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls a request so often at most; `None`: its client hung up before the answer.
async fn hung_up_after<T>(polls: usize, request: impl Future<Output = T>) -> Option<T> {
    let mut request = std::pin::pin!(request);
    let mut left = polls;
    std::future::poll_fn(move |cx| match request.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

struct Client {
    world: Arc<World>,
    relations: Relations,
    store: Arc<Section>,
    log: Log,
    name: String,
}

/// Why a transaction does not go on.
struct Over;

impl Client {
    async fn dawdle(&self, millis: usize) {
        let millis = self.world.below(millis) as u64;
        self.world.sleep(Duration::from_millis(millis)).await;
    }

    /// The one lock, if it is free soon.
    async fn lock(&self) -> Option<String> {
        let wanted = Wanted {
            target: LockTarget::Name("all".into()),
            mode: Mode::Exclusive,
        };
        let on_expire = [OnExpire::Release, OnExpire::Abort][self.world.below(2)];
        let mut ask = Ask {
            wait: true,
            on_expire,
            ..Ask::of(&self.name, vec![wanted], KEEP_ALIVE)
        };
        for _ in 0..8 {
            match self.relations.acquire(&ask).await.expect("it waits") {
                Asked::Granted(lease) => return Some(lease.id.to_string()),
                Asked::Queued(mut turn, place) => {
                    for _ in 0..1 + self.world.below(80) {
                        self.world.sleep(Duration::from_millis(25)).await;
                        match (&mut turn).now_or_never() {
                            None => {}
                            Some(Told::Granted(lease)) => {
                                turn.keep();
                                return Some(lease.id.to_string());
                            }
                            Some(Told::Again) => {
                                turn.keep();
                                ask.place = Some(place);
                                break;
                            }
                        }
                    }
                    ask.place.as_ref()?;
                }
            }
        }
        None
    }

    /// A transaction from its beginning to whatever end.
    async fn hold(&self, n: usize) {
        let lock = match self.world.once_in(3) {
            true => self.lock().await,
            false => None,
        };
        let begin = Begin {
            keep_alive: KEEP_ALIVE,
            locks: lock.iter().cloned().collect(),
            key: None,
        };
        let before = heard(&self.log).acknowledged;
        let begun = hung_up_after(self.world.below(40) + 2, self.relations.begin_held(&begin)).await;
        let begun = match begun {
            None => return,
            Some(Err(error)) => {
                assert!(lock.is_some(), "nothing else keeps it from beginning: {error}");
                return;
            }
            Some(Ok(begun)) => begun,
        };
        assert!(
            begun.read_seq >= before,
            "S10: {before} was acknowledged, and it reads as of {}",
            begun.read_seq
        );
        let mut held = Held {
            id: begun.id,
            read_seq: begun.read_seq,
            locked: lock.is_some(),
            reads: Vec::new(),
            searches: Vec::new(),
            staged: BTreeMap::new(),
            ended: Ended::Unknown,
        };
        let place = {
            let mut log = heard(&self.log);
            log.held.push(held.clone());
            log.held.len() - 1
        };
        let mut goes_on = true;
        for step in 0..1 + self.world.below(6) {
            goes_on = self.one_step(&mut held, &format!("{}.{n}.{step}", self.name)).await.is_ok();
            heard(&self.log).held[place] = held.clone();
            if !goes_on {
                break;
            }
            let pause = if self.world.once_in(12) { 4_000 } else { 250 };
            self.dawdle(pause).await;
        }
        if goes_on {
            self.end(&mut held).await;
        } else {
            held.ended = Ended::Not;
            heard(&self.log).expired += 1;
        }
        heard(&self.log).held[place].ended = held.ended;
        if let Some(lock) = lock
            && !self.world.once_in(4)
        {
            let _ = self.relations.release(&lock).await;
        }
    }

    /// It is over if a request says so.
    fn goes_on<T>(&self, answer: Result<T>) -> std::result::Result<T, Over> {
        answer.map_err(|error| {
            assert_eq!(error.kind(), ErrorKind::TransactionAborted, "{error}");
            Over
        })
    }

    async fn one_step(&self, held: &mut Held, name: &str) -> std::result::Result<(), Over> {
        let n = self.world.below(DOCUMENTS);
        match self.world.below(6) {
            0 | 1 => {
                let polls = self.world.below(30) + 4;
                let read = self.relations.read_in(&held.id, Read::whole(at(n)));
                // Who hung up has not heard what was read.
                let Some(found) = hung_up_after(polls, read).await else {
                    return Ok(());
                };
                let found = self.goes_on(found)?.map(|document| name_in(&document.source));
                match held.staged.get(&n) {
                    Some(own) => assert_eq!(*own, found, "a transaction reads its own writes"),
                    None => held.reads.push((n, found)),
                }
            }
            2 => {
                let (view, read_seq) = self.goes_on(self.relations.view_in(&held.id).await)?;
                assert_eq!(read_seq, held.read_seq);
                let found = self.store.scan_view(&Target::index("a"), Query::all(), &view).await;
                // It may end between the two.
                let Ok(mut found) = found else { return Ok(()) };
                let mut values = Values::new();
                while let Some(document) = found.next().await {
                    let document = document.expect("a document");
                    values.insert(number_of(&document.at).expect("a client's"), name_in(&document.source));
                }
                held.searches.push((values, held.staged.clone()));
            }
            kind => {
                let (label, write, staged) = match kind {
                    3 => ("delete", Write::new(at(n), WriteOp::Delete), None),
                    _ => ("index", put(n, name), Some(name.to_owned())),
                };
                let create = kind == 4;
                let write = Write {
                    expect: if create { Expect::Absent } else { Expect::Anything },
                    ..write
                };
                let stage = HeldWrite {
                    label,
                    write,
                    creates: None,
                    locks: Vec::new(),
                };
                let outcomes = self.goes_on(self.relations.stage_held(&held.id, vec![stage]).await)?;
                match &outcomes[..] {
                    [Outcome::Written(_)] => drop(held.staged.insert(n, staged)),
                    [Outcome::Conflict(_)] if create => {}
                    other => panic!("a staged write came to {other:?}"),
                }
            }
        }
        Ok(())
    }

    async fn end(&self, held: &mut Held) {
        match self.world.below(8) {
            0 => {
                self.relations
                    .abort_held(&held.id)
                    .await
                    .expect("it is open, or has ended by itself");
                held.ended = Ended::Not;
            }
            // The client has gone.
            1 => held.ended = Ended::Not,
            _ => {
                held.ended = commit(&self.relations, &held.id).await;
                if let Ended::Committed(seq) = held.ended {
                    let mut log = heard(&self.log);
                    log.acknowledged = log.acknowledged.max(seq);
                }
                if self.world.once_in(3) && held.ended != Ended::Not {
                    assert_eq!(commit(&self.relations, &held.id).await, held.ended, "S14");
                }
            }
        }
    }

    /// One or two documents in one change.
    async fn change(&self, n: usize) {
        let name = format!("{}.c{n}", self.name);
        let first = self.world.below(DOCUMENTS);
        let mut operations = vec![Operation::of("index", put(first, &name))];
        if self.world.once_in(2) {
            let other = (first + 1 + self.world.below(DOCUMENTS - 1)) % DOCUMENTS;
            operations.push(Operation::of("delete", Write::new(at(other), WriteOp::Delete)));
        }
        match self.relations.change(&Change::of(operations)).await {
            Ok(Verdict::Committed(done)) => {
                let mut log = heard(&self.log);
                log.acknowledged = log.acknowledged.max(done.commit_seq);
            }
            other => panic!("a change came to {other:?}"),
        }
    }
}

async fn commit(relations: &Relations, id: &str) -> Ended {
    match relations.commit_held(id, Refresh::No).await {
        Ok(Finished::Committed(done)) => Ended::Committed(done.commit_seq),
        Ok(Finished::Moved(moved)) => {
            assert!(!moved.is_empty());
            Ended::Not
        }
        Ok(Finished::Failed(failed)) => panic!("nothing refuses a write: {failed:?}"),
        Err(error) => {
            let over = [
                ErrorKind::TransactionAborted,
                ErrorKind::LockExpired,
                ErrorKind::LockMissing,
                ErrorKind::TransactionMissing,
            ];
            assert!(over.contains(&error.kind()), "a commit fails by {error}");
            Ended::Not
        }
    }
}

/// The outcome of a run: transactions that were committed, those whose search was of what has moved since, and those that were
/// too late.
#[derive(Default)]
struct Came {
    committed: u64,
    skewed: u64,
    expired: u64,
}

fn run(seed: u64, mistake: Option<Mistake>) -> Came {
    let world = World::new(seed);
    let clock = Arc::new(SimClock(world.clone()));
    let engine = engine_with(clock.clone(), &["a"]).expect("an index");
    let store = Arc::new(Section::new(world.clone(), engine, mistake));
    let log = Log::default();
    let servers = world.below(3);
    for server in 0..=servers {
        let relations = Relations::new(store.clone(), clock.clone(), Arc::new(engine::tasks::Tasks::new(1)), "n1");
        let mut scheduler = Scheduler::new(world.clone());
        let starting = relations.clone();
        scheduler.spawn(async move { starting.recover().await.expect("a sound control index") });
        scheduler.run(TURNS_MAX).expect("a start ends");
        ask_again(&world, &relations, &log);
        let is_last = server == servers;
        let mut scheduler = Scheduler::new(world.clone());
        for n in 0..6 {
            let client = Client {
                world: world.clone(),
                relations: relations.clone(),
                store: store.clone(),
                log: log.clone(),
                name: format!("{server}.{n}"),
            };
            scheduler.spawn(async move {
                for turn in 0..3 {
                    if n < 4 {
                        client.hold(turn).await;
                    } else {
                        client.dawdle(1_200).await;
                        client.change(turn).await;
                    }
                }
            });
        }
        let (keeper, tick) = (relations.clone(), world.clone());
        scheduler.spawn(async move {
            for _ in 0..800 {
                tick.sleep(Duration::from_millis(50)).await;
                keeper.sweep().await.expect("transactions and leases end");
            }
        });
        if is_last {
            scheduler.run(TURNS_MAX).expect("L3: it ends");
            let open = relations.transactions().now_or_never();
            let open = open.expect("no waiting").expect("a list");
            assert!(open.is_empty(), "L1: transactions are open: {open:?}");
        } else {
            // It stops somewhere, all of its clients with it.
            drop(scheduler.run(100 + world.below(12_000) as u64));
        }
    }
    check(&store.records(), &heard(&log))
}

/// After a start: clients that the server before did not answer ask once more, by the id of their transactions.
fn ask_again(world: &Arc<World>, relations: &Relations, log: &Log) {
    let unknown: Vec<(usize, String)> = {
        let log = heard(log);
        let open = log.held.iter().enumerate().filter(|(_, held)| held.ended == Ended::Unknown);
        open.map(|(n, held)| (n, held.id.clone())).collect()
    };
    let (relations, log) = (relations.clone(), log.clone());
    let mut scheduler = Scheduler::new(world.clone());
    scheduler.spawn(async move {
        for (n, id) in unknown {
            let state = match relations.transaction(&id).await {
                Ok(shown) => shown.state,
                Err(error) => panic!("a transaction that was begun is known: {error}"),
            };
            let ended = match state {
                TransactionState::Committed(seq) => Ended::Committed(seq),
                TransactionState::Aborted(_) => Ended::Not,
                state => panic!("S14: [{id}] is {state:?} after a restart"),
            };
            heard(&log).held[n].ended = ended;
        }
    });
    scheduler.run(TURNS_MAX).expect("questions are answered");
}

/// The documents of clients after all records up to this number.
fn values_at(records: &[LogRecord], seq: u64) -> Values {
    let mut values = Values::new();
    for record in records.iter().take_while(|record| record.commit_seq <= seq) {
        for (n, value) in written_by(record) {
            match value {
                Some(name) => drop(values.insert(n, name)),
                None => drop(values.remove(&n)),
            }
        }
    }
    values
}

fn written_by(record: &LogRecord) -> BTreeMap<usize, Option<String>> {
    let of_clients = record
        .writes
        .iter()
        .filter_map(|write| Some((number_of(&write.at)?, &write.op)));
    let value = |op: &WriteOp| match op {
        WriteOp::Put(source) => Some(name_in(source)),
        WriteOp::Delete => None,
        WriteOp::Update(_) => panic!("nobody updates"),
    };
    of_clients.map(|(n, op)| (n, value(op))).collect()
}

fn check(records: &[LogRecord], log: &Heard) -> Came {
    assert!(
        records.is_sorted_by(|a, b| a.commit_seq < b.commit_seq),
        "records have rising numbers"
    );
    let mut came = Came {
        expired: log.expired,
        ..Came::default()
    };
    for held in &log.held {
        let began = values_at(records, held.read_seq);
        for (n, found) in &held.reads {
            assert_eq!(began.get(n), found.as_ref(), "snapshot: [{n}] read in {held:?}; {records:#?}");
        }
        for (found, staged) in &held.searches {
            let mut expected = began.clone();
            for (n, value) in staged {
                match value {
                    Some(name) => drop(expected.insert(*n, name.clone())),
                    None => drop(expected.remove(n)),
                }
            }
            assert_eq!(*found, expected, "snapshot: a search in {held:?}; {records:#?}");
        }
        let written: Vec<&String> = held.staged.values().flatten().collect();
        let Ended::Committed(seq) = held.ended else {
            let effect = |record: &LogRecord| written_by(record).values().flatten().any(|name| written.contains(&name));
            let found = records.iter().find(|record| effect(record));
            assert!(found.is_none(), "S1: {held:?} is not committed, and wrote {found:?}");
            continue;
        };
        came.committed += 1;
        let net: BTreeMap<usize, Option<String>> = held
            .staged
            .iter()
            .filter(|(n, value)| value.is_some() || began.contains_key(n))
            .map(|(n, value)| (*n, value.clone()))
            .collect();
        let own = records.iter().find(|record| record.commit_seq == seq);
        let wrote = own.map(written_by).unwrap_or_default();
        assert_eq!(wrote, net, "S1: {held:?} is one record; {records:#?}");
        let between = || {
            records
                .iter()
                .filter(|record| record.commit_seq > held.read_seq && record.commit_seq < seq)
        };
        // One that was not there, and is not, may have been there between.
        let at_commit = values_at(records, seq - 1);
        for n in held.reads.iter().map(|(n, _)| n).chain(held.staged.keys()) {
            let (before, found) = (began.get(n), at_commit.get(n));
            assert_eq!(before, found, "serializable: [{n}] moved under {held:?}; {records:#?}");
        }
        came.skewed += u64::from(!held.searches.is_empty() && between().any(|record| !written_by(record).is_empty()));
        let others = log
            .held
            .iter()
            .filter(|other| other.id != held.id && other.locked && held.locked);
        for other in others {
            if let Ended::Committed(theirs) = other.ended {
                let apart = theirs <= held.read_seq || theirs > seq;
                assert!(
                    apart,
                    "serializable: {other:?} committed inside {held:?}, under the same lock"
                );
            }
        }
    }
    came
}

#[test]
fn transactions_that_are_held_open_hold() {
    let runs = crate::from_environment("PLEACH_SIM_HELD_RUNS", 300);
    let mut all = Came::default();
    for seed in 0..runs {
        let outcome = std::panic::catch_unwind(|| run(seed, None));
        let came = outcome.unwrap_or_else(|_| panic!("seed {seed}"));
        all.committed += came.committed;
        all.skewed += came.skewed;
        all.expired += came.expired;
    }
    println!(
        "{runs} runs, {} transactions committed, {} beside what their searches did not see, {} too late",
        all.committed, all.skewed, all.expired
    );
    assert!(
        all.committed > 3 * runs && all.skewed > runs / 4 && all.expired > runs / 4,
        "the runs show little"
    );
}

#[test]
fn seeded_mistakes_with_transactions_that_are_held_open_are_found() {
    for mistake in [
        Mistake::OpenGate,
        Mistake::LooseDocuments,
        Mistake::MovingMoment,
        Mistake::UnnotedReads,
        Mistake::LostOutcome,
    ] {
        let found = (0..400).find(|seed| std::panic::catch_unwind(|| run(*seed, Some(mistake))).is_err());
        println!("{mistake:?}: seed {found:?}");
        assert!(found.is_some(), "{mistake:?} goes unseen");
    }
}
