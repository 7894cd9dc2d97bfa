//! Changes by the portable path over a real OpenSearch: transfers that never lose or make money, coordinators that
//! stop at every step and are finished by others, plain writers beside them.
//!
//! Skipped, and said so, where there is no JDK (`tests::opensearch`). Not here: the laws of the engine
//! (`remote/tests/contract.rs`), a store that lies (`relations/tests/sim`).

use async_trait::async_trait;
use dsl::query::Query;
use dsl::search::SearchRequest;
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{
    Alteration, Around, Barrier, Clock, Document, Engine, EngineExt as _, Expect, Hide, Outcome, Read, Refresh, See, Source,
    Update, Write, WriteOp,
};
use futures::StreamExt as _;
use model::{DocAddress, DocId, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use relations::intents::{CONTROL_INDEX, Effects, Mark, Pause, Record, RecordState, Room, Runner, session_address};
use relations::sessions::Session;
use relations::transactions::{Change, Condition, Operation, Verdict};
use remote::{Options, RemoteEngine};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

const ACCOUNTS: usize = 6;
const BEGIN: i64 = 100;

#[derive(Debug)]
struct Sleep;

#[async_trait]
impl Pause for Sleep {
    async fn pause(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Stops its coordinator at the n-th call of `write`: before it reaches the cluster, or before the answer is seen.
#[derive(Debug)]
struct Stopping {
    inner: Arc<dyn Engine>,
    left: AtomicI64,
    after: bool,
}

#[async_trait]
impl Around for Stopping {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    async fn writes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let last = self.left.fetch_sub(1, Ordering::Relaxed) == 1;
        if last && !self.after {
            std::future::pending::<()>().await;
        }
        let answer = self.inner.write(writes, refresh).await;
        if last {
            std::future::pending::<()>().await;
        }
        answer
    }
}

/// One cluster with accounts in two indices.
struct Bank {
    engine: Arc<dyn Engine>,
    clock: Arc<SystemClock>,
    names: AtomicU64,
}

fn account(bank: &str, n: usize) -> DocAddress {
    DocAddress {
        index: IndexName::new(format!("{bank}-{}", n % 2)),
        id: DocId::plain(n.to_string()),
    }
}

fn put(at: DocAddress, source: &Value) -> Write {
    Write::new(at, WriteOp::Put(Source::from_value(source)))
}

async fn create(engine: &dyn Engine, name: &str, mappings: Value) {
    let settings = json!({ "index.number_of_shards": 1, "index.number_of_replicas": 0, "index.refresh_interval": "-1" });
    let create = Alteration::CreateIndex {
        name: name.to_owned(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        mappings: Some(mappings),
        aliases: Map::new(),
        typed: false,
        if_absent: true,
    };
    engine.alter(create).await.expect("an index can be made");
}

impl Bank {
    async fn open(engine: Arc<dyn Engine>, bank: &str) -> Bank {
        create(&*engine, CONTROL_INDEX, json!({ "dynamic": false })).await;
        for n in 0..2 {
            create(
                &*engine,
                &format!("{bank}-{n}"),
                json!({ "properties": { "n": { "type": "long" } } }),
            )
            .await;
        }
        let first = (0..ACCOUNTS).map(|n| put(account(bank, n), &json!({ "n": BEGIN, "log": [] })));
        let outcomes = engine.write(first.collect(), Refresh::No).await.expect("accounts are opened");
        assert!(outcomes.iter().all(|o| matches!(o, Outcome::Written(_))), "{outcomes:?}");
        Bank {
            engine,
            clock: Arc::new(SystemClock::default()),
            names: AtomicU64::new(0),
        }
    }

    /// A server with a session of its own.
    async fn server(&self, engine: Arc<dyn Engine>) -> (Relations, String) {
        let session = format!("n{:x}", self.clock.random());
        let open = Session::open(Duration::from_secs(5), Arc::from("n"));
        let write = put(session_address(&session), &open.render());
        let outcome = self.engine.write_one(write, Refresh::No).await.expect("a session");
        assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
        let relations = Relations::new(engine, self.clock.clone(), Arc::new(Tasks::new(1)), "n1");
        let name = Arc::from(session.as_str());
        (relations.by_portable_path_in(Arc::new(Sleep), name, Room::default()), session)
    }

    /// Finishes what ended sessions have left.
    async fn sweep(&self) {
        let session = Arc::from("sweeper");
        let sweeper = Runner::new(self.engine.clone(), self.clock.clone(), Arc::new(Sleep), session);
        sweeper.sweep().await.expect("a sweep");
    }

    /// Ends it, as an observer does that has not seen it beat.
    async fn expire(&self, session: &str) {
        let at = session_address(session);
        let document = self.engine.read_one(at.clone()).await.expect("a read").expect("a session");
        let found = Session::parse(&document.source.parse().expect("JSON")).expect("a session");
        let ended = found.expire(Arc::from("test"), Arc::from("m"));
        let outcome = self
            .engine
            .write_one(put(at, &ended.render()), Refresh::No)
            .await
            .expect("a write");
        assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
    }

    /// Moves money and says so in both accounts; by scripts, so that what is written depends on what was read.
    fn transfer(&self, bank: &str, from: usize, to: usize, amount: i64) -> Change {
        let name = format!("c-{bank}-{}", self.names.fetch_add(1, Ordering::Relaxed));
        let booked = |n: usize, amount: i64| {
            let script = script::compile(
                "ctx._source.n += params.n; ctx._source.log.add(params.c)",
                script::Lang::Painless,
            );
            let params = json!({ "n": amount, "c": name });
            let update = Update {
                doc: None,
                script: Some((
                    script.expect("a script"),
                    script::Params::from_json(params.as_object().expect("params")),
                )),
                upsert: None,
                doc_as_upsert: false,
                scripted_upsert: false,
                moves: false,
                detect_noop: true,
                lenient_op: false,
                of_2015: false,
                budget: script::Budget::default(),
                now_ms: 0,
            };
            Write::new(account(bank, n), WriteOp::Update(Box::new(update)))
        };
        let there = Condition {
            at: account(bank, from),
            exists: Some(true),
            expect: Expect::Anything,
        };
        Change {
            conditions: vec![there],
            ..Change::of(vec![operation(booked(from, -amount)), operation(booked(to, amount))])
        }
    }

    /// True if it was committed, false if others were in its way for too long.
    async fn insist(&self, relations: &Relations, change: &Change) -> bool {
        match relations.change(change).await {
            Ok(Verdict::Committed(_)) => true,
            Err(error) if error.kind() == ErrorKind::Timeout => false,
            other => panic!("a transfer is always possible: {other:?}"),
        }
    }

    /// All records are decided and finished, no mark is left, and the accounts hold what the committed changes make.
    async fn audit(&self, bank: &str) -> usize {
        let target = Target::index(CONTROL_INDEX);
        self.engine.refresh(&target, None).await.expect("a refresh");
        let found = self
            .engine
            .scan(&target, Query::all(), See::Everything, Barrier::None)
            .await
            .expect("a scan");
        let documents: Vec<Result<Document>> = found.collect().await;
        let mut done = Vec::new();
        for document in documents {
            let document = document.expect("a document");
            let source = document.source.parse().expect("JSON");
            let id = &*document.at.id.id;
            if source["kind"] != "change" {
                continue;
            }
            let record = Record::parse(&source).expect("a record");
            let own = format!("{bank}-");
            if !record
                .documents
                .iter()
                .any(|touched| touched.at.index.as_str().starts_with(&own))
            {
                continue;
            }
            match record.state {
                RecordState::Done => done.extend(name_of(&record)),
                RecordState::Aborted => {}
                other => panic!("{id} is {other:?}"),
            }
        }
        let names = done.len();
        done.sort();
        done.dedup();
        assert_eq!(done.len(), names, "two attempts of one change committed");
        let reads = (0..ACCOUNTS).map(|n| Read {
            see: See::Everything,
            ..Read::whole(account(bank, n))
        });
        let mut total = 0;
        let mut entries = Vec::new();
        for document in self.engine.read(reads.collect()).await.expect("accounts are read") {
            let document = document.expect("an account");
            let mark = Mark::of(document.hidden.as_ref()).expect("a mark");
            assert!(
                mark.intent.is_none() && !mark.stub,
                "{:?} still carries {mark:?}",
                document.at
            );
            let source = document.source.parse().expect("JSON");
            total += source["n"].as_i64().expect("a number");
            entries.extend(
                source["log"]
                    .as_array()
                    .expect("a list")
                    .iter()
                    .map(|v| v.as_str().expect("text").to_owned()),
            );
        }
        assert_eq!(total, BEGIN * ACCOUNTS as i64, "money was lost or made");
        entries.sort();
        let twice: Vec<String> = done.iter().flat_map(|name| [name.clone(), name.clone()]).collect();
        assert_eq!(
            entries, twice,
            "each committed change stands in both accounts, once, and no other"
        );
        names
    }
}

/// The name that a committed transfer has written into its accounts.
fn name_of(record: &Record) -> Option<String> {
    record.documents.iter().find_map(|touched| match &touched.effect {
        Some(Effects::Put { source, .. }) => {
            let source = source.parse().expect("JSON");
            source["log"].as_array()?.last()?.as_str().map(str::to_owned)
        }
        _ => None,
    })
}

fn operation(write: Write) -> Operation {
    Operation {
        label: "index",
        write,
        creates: None,
        wants_source: false,
        error: None,
    }
}

/// Coordinators beside each other, on few accounts; some are cut off in the middle and never come back.
async fn transfers(engine: Arc<dyn Engine>) {
    let bank = Arc::new(Bank::open(engine.clone(), "transfers").await);
    let mut tasks = Vec::new();
    for worker in 0..6_usize {
        let (bank, engine) = (bank.clone(), engine.clone());
        tasks.push(tokio::spawn(async move {
            let (relations, session) = bank.server(engine.clone()).await;
            let mut committed = 0_usize;
            for n in 0..15_usize {
                let (from, to) = ((worker + n) % ACCOUNTS, (worker + 2 * n + 1 + (n % 2)) % ACCOUNTS);
                if from == to {
                    continue;
                }
                let change = bank.transfer("transfers", from, to, n as i64 % 7 + 1);
                if n % 5 == 4 {
                    // Somebody else's coordinator, which stops somewhere; the answer is nobody's.
                    let stopping = Stopping {
                        inner: engine.clone(),
                        left: AtomicI64::new(1 + ((worker * 3 + n) % 5) as i64),
                        after: n % 2 == 0,
                    };
                    let (other, other_session) = bank.server(Arc::new(stopping)).await;
                    drop(tokio::time::timeout(Duration::from_millis(700), other.change(&change)).await);
                    bank.expire(&other_session).await;
                } else {
                    committed += usize::from(bank.insist(&relations, &change).await);
                }
            }
            bank.expire(&session).await;
            committed
        }));
    }
    let mut told = 0;
    for task in tasks {
        told += task.await.expect("a worker ends");
    }
    bank.sweep().await;
    let committed = bank.audit("transfers").await;
    eprintln!("transfers: {told} told committed, {committed} committed");
    assert!(committed >= told && told > 40, "{told} of 90 were told");
}

/// Contract 34: a coordinator that stops before or after each of its writes is finished by others, all of it or none.
async fn stops(engine: Arc<dyn Engine>) {
    let bank = Bank::open(engine.clone(), "stops").await;
    let mut committed = 0;
    for call in 1..=6 {
        for after in [false, true] {
            let change = bank.transfer("stops", 0, 1, 1);
            let stopping = Stopping {
                inner: engine.clone(),
                left: AtomicI64::new(call),
                after,
            };
            let (relations, session) = bank.server(Arc::new(stopping)).await;
            let ran = tokio::time::timeout(Duration::from_secs(2), relations.change(&change)).await;
            // W1 record, W4 marks, W5 record, W6 documents, W7 record.
            assert_eq!(ran.is_err(), call <= 5, "call {call} is one of five: {ran:?}");
            bank.expire(&session).await;
            bank.sweep().await;
            let now = bank.audit("stops").await;
            // The commit is the third write; what reached the cluster counts, not what was seen of it.
            let decided = call > 3 || call == 3 && after;
            assert_eq!(
                now - committed,
                usize::from(decided),
                "stopped at call {call}, after: {after}"
            );
            committed = now;
        }
    }
}

/// Contract 35: plain writers keep marks, wait for what is pending, and leave tombstones.
async fn plain_writers(engine: Arc<dyn Engine>) {
    let bank = Bank::open(engine.clone(), "plain").await;
    let at = account("plain", 0);
    let (relations, _) = bank.server(engine.clone()).await;
    assert!(bank.insist(&relations, &bank.transfer("plain", 0, 1, 5)).await);
    let plain = async |write: Write| {
        let outcomes = relations.write(vec![write], Refresh::No).await;
        outcomes.expect("a write").remove(0)
    };
    // A mark of a change that is finished stays through a plain write, and through a plain delete as a tombstone.
    let token = |document: Option<Document>| {
        Mark::of(document.as_ref().and_then(|d| d.hidden.as_ref()))
            .expect("a mark")
            .token
    };
    let whole = || Read {
        see: See::Everything,
        ..Read::whole(at.clone())
    };
    let read = async || engine.read(vec![whole()]).await.expect("a read").remove(0);
    let before = token(read().await);
    assert!(before.is_some());
    let outcome = plain(put(at.clone(), &json!({ "n": 1, "log": [] }))).await;
    assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
    assert_eq!(token(read().await), before);
    let outcome = plain(Write::new(at.clone(), WriteOp::Delete)).await;
    assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
    assert!(engine.read_one(at.clone()).await.expect("a read").is_none());
    assert_eq!(token(read().await), before, "a tombstone");
    // One that meets an intent of a dead coordinator finishes it first: it was committed.
    let other = account("plain", 2);
    let stopping = Stopping {
        inner: engine.clone(),
        left: AtomicI64::new(3),
        after: true,
    };
    let (dying, session) = bank.server(Arc::new(stopping)).await;
    let change = bank.transfer("plain", 2, 3, 5);
    drop(tokio::time::timeout(Duration::from_secs(2), dying.change(&change)).await);
    bank.expire(&session).await;
    let held = engine
        .write_one(put(other.clone(), &json!({})), Refresh::No)
        .await
        .expect("an answer");
    assert!(matches!(held, Outcome::Held(_)), "{held:?}");
    let add = put(other.clone(), &json!({ "n": 0, "log": ["plain"] }));
    let outcome = plain(add).await;
    assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
    let partner = engine
        .read_one(account("plain", 3))
        .await
        .expect("a read")
        .expect("an account");
    assert_eq!(
        partner.source.parse().expect("JSON")["n"],
        BEGIN + 5,
        "the other half was done before the write"
    );
    // An absent document of a change is a stub: plain readers and searches do not see it, plain creators wait.
    let fresh = account("plain", 8);
    let create = Change::of(vec![operation(put(fresh.clone(), &json!({ "n": 1 })))]);
    let stopping = Stopping {
        inner: engine.clone(),
        left: AtomicI64::new(2),
        after: true,
    };
    let (dying, session) = bank.server(Arc::new(stopping)).await;
    drop(tokio::time::timeout(Duration::from_secs(2), dying.change(&create)).await);
    assert!(engine.read_one(fresh.clone()).await.expect("a read").is_none());
    let index = Target::index(fresh.index.as_str());
    engine.refresh(&index, None).await.expect("a refresh");
    let found = engine
        .search(&index, SearchRequest::default(), See::Plain)
        .await
        .expect("a search");
    assert!(found.hits.hits.iter().all(|hit| &*hit.id.id != "8"), "a stub is seen");
    bank.expire(&session).await;
    let absent = Write {
        expect: Expect::Absent,
        ..put(fresh.clone(), &json!({ "n": 2 }))
    };
    let outcome = plain(absent).await;
    assert!(
        matches!(outcome, Outcome::Written(_)),
        "the aborted stub is out of the way: {outcome:?}"
    );
}

/// A scan with a barrier in each of several shards sees everything acknowledged, and leaves no trace.
async fn barriers(engine: Arc<dyn Engine>) {
    let settings = json!({ "index.number_of_shards": 5, "index.number_of_replicas": 0, "index.refresh_interval": "-1" });
    let create = Alteration::CreateIndex {
        name: "barriers".to_owned(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        mappings: None,
        aliases: Map::new(),
        typed: false,
        if_absent: false,
    };
    engine.alter(create).await.expect("an index can be made");
    let at = |n: usize| DocAddress {
        index: IndexName::new("barriers"),
        id: DocId::plain(n.to_string()),
    };
    let writes = (0..700).map(|n| Write {
        hide: Hide::Drop,
        ..put(at(n), &json!({ "n": n }))
    });
    engine
        .write(writes.collect(), Refresh::No)
        .await
        .expect("writes are answered");
    let target = Target::index("barriers");
    for proof in ["a", "b"] {
        let barrier = Barrier::Proof { id: proof.to_owned() };
        let found = engine.scan(&target, Query::all(), See::Plain, barrier).await.expect("a scan");
        let found: Vec<Result<Document>> = found.collect().await;
        assert!(
            found.iter().all(Result::is_ok) && found.len() == 700,
            "{} documents",
            found.len()
        );
    }
    engine.refresh(&target, None).await.expect("a refresh");
    let left = engine
        .scan(&target, Query::all(), See::Everything, Barrier::None)
        .await
        .expect("a scan");
    assert_eq!(left.count().await, 700, "barriers are taken away");
}

#[test]
fn contract_34_and_35_changes_over_a_cluster() {
    let Some(cluster) = tests::opensearch::start() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let engine = RemoteEngine::connect(&cluster.address, Options::default())
            .await
            .expect("the cluster answers");
        let engine: Arc<dyn Engine> = Arc::new(engine);
        stops(engine.clone()).await;
        plain_writers(engine.clone()).await;
        transfers(engine.clone()).await;
        barriers(engine).await;
    });
}
