//! Changes against a disk that stops at every step, and a lock that is broken between its check and the write: by one record
//! of the log and by the portable path, the same tests.
//!
//! | row of the matrix | here |
//! |---|---|
//! | before append | the disk stops before the first call of the change |
//! | after append, torn | it stops between that and the last sync, and power fails: what was not synced is lost or torn |
//! | after fsync, before flip, before answer | it stops after the last sync of the record |
//! | during checkpoint | it stops at any step of a flush |
//! | during replay | it stops at any step of the next start, and power fails again |
//!
//! `PLEACH_TEST_CELL` is the number of seeds a cell (2). Not here: kill -9 of the real binary (package `tests`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fixtures;
mod stopping_disk;

use async_trait::async_trait;
use disk::FaultyDisk;
use dsl::search::SearchRequest;
use embedded::EmbeddedEngine;
use engine::clock::SystemClock;
use engine::tasks::{Task, Tasks};
use engine::{
    Alteration, Around, AtomicWrites, Clock, Engine, EngineExt as _, Gate, Looker, Newest, Outcome, Refresh, See, Source,
    TxnBody, TxnOptions, TxnResult, Update, Write, WriteOp, address,
};
use fixtures::{Sleep, commits};
use model::{DocAddress, DocId, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use relations::jobs::{Begun, Counts, Job, JobAction, JobStep, Order, Run, TaskState, Whole};
use relations::leases::{Ask, Asked, OnExpire, Wanted};
use relations::locks::{LockTarget, Mode};
use relations::transactions::{Change, Digest, Key, Operation, Verdict};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stopping_disk::{create_index, engine_on, in_time, seeds};

const BEGIN: i64 = 100;

/// How changes are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Record,
    Portable,
}

const WAYS: [Way; 2] = [Way::Record, Way::Portable];

fn relations_over(engine: Arc<dyn Engine>, way: Way) -> Relations {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let relations = Relations::new(engine, clock, Arc::new(Tasks::new(10)), "n1");
    match way {
        Way::Record => relations,
        Way::Portable => relations.by_portable_path(Arc::new(Sleep)),
    }
}

fn account(n: usize) -> DocAddress {
    address(["left", "right"][n % 2], DocId::plain(n.to_string()))
}

async fn accounts(engine: &dyn Engine) {
    for index in ["left", "right"] {
        create_index(engine, index, json!({ "n": { "type": "long" } })).await;
    }
    let first = (0..4).map(|n| Write::new(account(n), WriteOp::Put(Source::from_value(&json!({ "n": BEGIN })))));
    for outcome in engine.write(first.collect(), Refresh::No).await.unwrap() {
        assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
    }
}

fn add(at: DocAddress, by: i64) -> Operation {
    let script = script::compile("ctx._source.n += params.by", script::Lang::Painless).unwrap();
    let params = json!({ "by": by });
    let update = Update {
        doc: None,
        script: Some((script, script::Params::from_json(params.as_object().unwrap()))),
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
    Operation {
        label: "update",
        write: Write::new(at, WriteOp::Update(Box::new(update))),
        creates: None,
        wants_source: false,
        error: None,
    }
}

/// One from account 0 to account 1, and a document made and one deleted, so that every kind of operation is in it.
fn transfer(key: &str) -> Change {
    let put = |id: &str| Operation {
        label: "index",
        write: Write::new(
            address("left", DocId::plain(id)),
            WriteOp::Put(Source::from_value(&json!({ "n": 0 }))),
        ),
        creates: None,
        wants_source: false,
        error: None,
    };
    let key = Key::new("", key, Digest::of(&[key.as_bytes()])).unwrap();
    Change {
        key: Some(key),
        ..Change::of(vec![add(account(0), -1), add(account(1), 1), put("made")])
    }
}

async fn number(engine: &dyn Engine, at: DocAddress) -> Option<i64> {
    let document = engine.read_one(at).await.unwrap()?;
    document.source.parse().unwrap()["n"].as_i64()
}

/// How many transfers the documents show; they must agree.
async fn shown(engine: &dyn Engine, what: &str) -> i64 {
    let (left, right) = (
        number(engine, account(0)).await.unwrap(),
        number(engine, account(1)).await.unwrap(),
    );
    assert_eq!(left + right, 2 * BEGIN, "{what}: half a change");
    let made = number(engine, address("left", DocId::plain("made"))).await.is_some();
    assert_eq!(made, right > BEGIN, "{what}: another half");
    for n in 2..4 {
        assert_eq!(number(engine, account(n)).await, Some(BEGIN), "{what}");
    }
    right - BEGIN
}

/// A new start after power failed; what was left is finished before anything is answered.
async fn restarted(disk: &FaultyDisk, way: Way) -> (Arc<EmbeddedEngine>, Relations) {
    disk.crash();
    let engine = engine_on(disk).unwrap();
    let relations = relations_over(engine.clone(), way);
    relations.recover().await.unwrap();
    (engine, relations)
}

/// The disk stops at every step of one change; then power fails. All of it or none; what was told is there; the key, repeated,
/// brings it to exactly once.
#[test]
fn contract_08_the_disk_stops_at_every_step_of_a_change() {
    for way in WAYS {
        for seed in 0..seeds() {
            in_time(8, 120, async {
                let mut told = 0;
                let mut lost = 0;
                let mut struck = 0;
                for stop in 0.. {
                    let what = format!("{way:?}, seed {seed}, stopped after {stop} steps");
                    let disk = FaultyDisk::new(seed * 1000 + stop);
                    let engine = engine_on(&disk).unwrap();
                    let relations = relations_over(engine.clone(), way);
                    relations.recover().await.unwrap();
                    accounts(&*engine).await;
                    disk.stop_after(stop);
                    let before = disk.steps();
                    // Who coordinated is dead with the process, so nobody waits for it long.
                    let change = transfer("once");
                    let verdict = tokio::time::timeout(Duration::from_millis(700), relations.change(&change)).await;
                    let committed = matches!(verdict, Ok(Ok(Verdict::Committed(_))));
                    let whole = disk.steps() - before <= stop && committed;
                    drop((relations, engine));
                    let (engine, relations) = restarted(&disk, way).await;
                    let now = shown(&*engine, &what).await;
                    assert!(now <= 1, "{what}: applied twice");
                    assert!(!committed || now == 1, "{what}: told and lost");
                    (told, lost) = (told + i64::from(committed), lost + 1 - now);
                    struck += 1;
                    let again = relations.change(&change).await;
                    assert!(
                        matches!(again, Ok(Verdict::Committed(ref done)) if done.replayed == (now == 1)),
                        "{what}: {again:?}"
                    );
                    assert_eq!(shown(&*engine, &what).await, 1, "{what}: repeated");
                    if whole {
                        break;
                    }
                }
                eprintln!("{way:?}, seed {seed}: stopped at each of {struck} steps, {lost} changes lost whole, {told} told");
                assert!(lost > 0 && told > 0 && struck > 2, "no step was struck");
            });
        }
    }
}

/// A job of several batches, each of two documents: `n += 1` on everything.
fn counting() -> Job {
    let script = script::compile("ctx._source.n += 1", script::Lang::Painless).unwrap();
    Job {
        target: Target::of(vec!["left".to_owned(), "right".to_owned()]),
        query: dsl::query::Query::all(),
        action: JobAction::Update {
            source: None,
            script: Some((script, script::Params::from_json(&serde_json::Map::new()))),
        },
        proceed: false,
        max_docs: None,
        batch: 2,
        refresh: false,
        guards: Vec::new(),
        whole: None,
        free: Vec::new(),
        caller: relations::leases::Caller::default(),
    }
}

async fn to_its_end(relations: &Relations, run: &mut Run, task: &Task) -> Result<()> {
    while relations.step(run, task).await? == JobStep::More {}
    Ok(())
}

/// The disk stops at every step of a by-query job; then power fails, and a new start goes on. Every document is changed once,
/// though marks of a batch that came to nothing have gone over it; what is counted is what was done.
#[test]
fn contract_31_the_disk_stops_at_every_step_of_a_job() {
    for (way, whole) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        // A change of one record has few steps, and what is not synced may survive each: more seeds show both ends.
        let seeds = if whole { 4 * seeds() } else { seeds() };
        let (mut all_halfway, mut all_lost) = (0, 0);
        for seed in 0..seeds {
            in_time(8, 120, async {
                let job = || Job {
                    whole: whole.then_some(Whole {
                        operations_max: 100,
                        bytes_max: 1 << 20,
                        operations_setting: "operations",
                        bytes_setting: "bytes",
                    }),
                    ..counting()
                };
                let order = Order {
                    request: Value::Null,
                    key: None,
                    keep: true,
                };
                let (mut struck, mut halfway, mut lost) = (0, 0, 0);
                for stop in 0.. {
                    let what = format!("{way:?}, whole: {whole}, seed {seed}, stopped after {stop} steps");
                    let disk = FaultyDisk::new(seed * 1000 + stop);
                    let engine = engine_on(&disk).unwrap();
                    let relations = relations_over(engine.clone(), way);
                    relations.recover().await.unwrap();
                    accounts(&*engine).await;
                    // A job is about what searches see.
                    engine.refresh(&Target::of(Vec::new()), None).await.unwrap();
                    let tasks = Tasks::new(10);
                    let task = tasks.start("indices:data/write/update/byquery", String::new(), 0);
                    disk.stop_after(stop);
                    let before = disk.steps();
                    let ran = tokio::time::timeout(Duration::from_millis(700), async {
                        let Begun::Run(mut run) = relations.begin(job(), &task, &order).await? else {
                            panic!("no key leads anywhere")
                        };
                        to_its_end(&relations, &mut run, &task).await?;
                        Ok::<Counts, model::Error>(run.counts)
                    });
                    let ran = ran.await;
                    let ended = matches!(ran, Ok(Ok(_)));
                    let untouched = ended && disk.steps() - before <= stop;
                    drop((relations, engine));
                    let (engine, relations) = restarted(&disk, way).await;
                    let mut done = 0;
                    for n in 0..4 {
                        let now = number(&*engine, account(n)).await.unwrap();
                        assert!(now == BEGIN || now == BEGIN + 1, "{what}: document {n} has {now}");
                        done += i64::from(now > BEGIN);
                    }
                    assert!(!ended || done == 4, "{what}: told and lost");
                    assert!(!whole || done % 4 == 0, "{what}: half of one change");
                    halfway += i64::from(done > 0 && done < 4);
                    let found = relations.tasks_found().await.unwrap();
                    assert!(done == 0 || !found.is_empty(), "{what}: changed and not remembered");
                    // The registry of the process that goes on.
                    let tasks = Tasks::new(10);
                    for left in found {
                        let TaskState::Unfinished { kept, .. } = left.state else {
                            panic!("{what}: nobody wrote its end down")
                        };
                        let task = tasks.restore(left.number, &left.action, left.description, left.start_ms);
                        let mut run = relations.resume(job(), &task, &kept).await.unwrap();
                        to_its_end(&relations, &mut run, &task).await.unwrap();
                        for n in 0..4 {
                            assert_eq!(number(&*engine, account(n)).await, Some(BEGIN + 1), "{what}: document {n}");
                        }
                        assert_eq!((run.counts.updated, run.counts.conflicts), (4, 0), "{what}: {:?}", run.counts);
                        lost += i64::from(done < 4);
                    }
                    struck += 1;
                    if untouched {
                        break;
                    }
                }
                eprintln!("{way:?}, whole: {whole}, seed {seed}: {struck} steps, {halfway} halfway, {lost} gone on with");
                assert!(struck > 3, "no step was struck");
                all_halfway += halfway;
                all_lost += lost;
            });
        }
        assert!(all_lost > 0, "{way:?}, whole: {whole}: no job was gone on with");
        assert!(whole || all_halfway > 0, "{way:?}: no job stopped halfway");
    }
}

fn lock_document(id: &str) -> DocAddress {
    address("locks", DocId::plain(id))
}

async fn lock_index(engine: &dyn Engine) {
    let create = Alteration::CreateIndex {
        name: "locks".to_owned(),
        settings: json!({ "index.pleach.lock_index": "true" }).as_object().unwrap().clone(),
        mappings: None,
        aliases: serde_json::Map::new(),
        typed: false,
        if_absent: true,
    };
    engine.alter(create).await.unwrap();
}

fn operation(label: &'static str, write: Write) -> Operation {
    Operation {
        label,
        write,
        creates: None,
        wants_source: false,
        error: None,
    }
}

fn take(id: &str) -> Operation {
    let write = Write {
        expect: engine::Expect::Absent,
        ..Write::new(lock_document(id), WriteOp::Put(Source::from_value(&json!({}))))
    };
    operation("create", write)
}

fn give(id: &str) -> Operation {
    operation("delete", Write::new(lock_document(id), WriteOp::Delete))
}

/// The documents of locks that are held, as the table has them; each has one lease.
fn held(relations: &Relations) -> Vec<String> {
    let leases = relations.leases().into_iter();
    let ids = leases.map(|(lease, _)| lease.lock_document.as_ref().unwrap().at.id.id.to_string());
    let mut ids: Vec<String> = ids.collect();
    ids.sort_unstable();
    ids
}

/// The disk stops at every step of a change that gives one lock document back, takes another and writes data: there is the lock
/// if and only if there is its document, and both go with the data.
#[test]
fn contract_29_and_33_the_disk_stops_at_every_step_of_a_change_of_lock_documents() {
    for way in WAYS {
        for seed in 0..seeds() {
            in_time(8, 120, async {
                let (mut struck, mut before_it, mut after_it) = (0, 0, 0);
                for stop in 0.. {
                    let what = format!("{way:?}, seed {seed}, stopped after {stop} steps");
                    let disk = FaultyDisk::new(seed * 1000 + stop);
                    let engine = engine_on(&disk).unwrap();
                    let relations = relations_over(engine.clone(), way);
                    relations.recover().await.unwrap();
                    accounts(&*engine).await;
                    lock_index(&*engine).await;
                    let first = relations.change(&Change::of(vec![take("a"), add(account(0), 1)])).await;
                    assert!(matches!(first, Ok(Verdict::Committed(_))), "{what}: {first:?}");
                    assert_eq!(held(&relations), ["a"], "{what}");
                    disk.stop_after(stop);
                    let before = disk.steps();
                    let change = Change::of(vec![give("a"), take("b"), add(account(0), 1)]);
                    let verdict = tokio::time::timeout(Duration::from_millis(700), relations.change(&change)).await;
                    let committed = matches!(verdict, Ok(Ok(Verdict::Committed(_))));
                    if committed {
                        assert_eq!(held(&relations), ["b"], "{what}");
                    }
                    let whole = disk.steps() - before <= stop && committed;
                    drop((relations, engine));
                    let (engine, relations) = restarted(&disk, way).await;
                    let done = number(&*engine, account(0)).await == Some(BEGIN + 2);
                    assert!(done || !committed, "{what}: told and lost");
                    for (id, there) in [("a", !done), ("b", done)] {
                        let found = engine.read_one(lock_document(id)).await.unwrap();
                        assert_eq!(found.is_some(), there, "{what}: document {id}");
                    }
                    assert_eq!(held(&relations), [if done { "b" } else { "a" }], "{what}");
                    *(if done { &mut after_it } else { &mut before_it }) += 1;
                    // They are locks as others are: whose they are not cannot take them, and they can be given back.
                    let taken = relations
                        .change(&Change::of(vec![take("a"), take("b"), add(account(1), 1)]))
                        .await;
                    assert!(matches!(taken, Ok(Verdict::Failed(_))), "{what}: {taken:?}");
                    let given = relations
                        .change(&Change::of(vec![give(if done { "b" } else { "a" }), add(account(1), 1)]))
                        .await;
                    assert!(matches!(given, Ok(Verdict::Committed(_))), "{what}: {given:?}");
                    assert_eq!(held(&relations), Vec::<String>::new(), "{what}");
                    struck += 1;
                    if whole {
                        break;
                    }
                }
                eprintln!("{way:?}, seed {seed}: {struck} steps, {before_it} before the commit, {after_it} after it");
                assert!(before_it > 0 && after_it > 0 && struck > 2, "no step was struck");
            });
        }
    }
}

/// Many take two lock documents with one change, count under them, and give them back with another: never two at once.
#[test]
fn contract_29_changes_of_lock_documents_beside_each_other() {
    for way in WAYS {
        in_time(8, 120, async {
            let engine = engine_on(&FaultyDisk::new(7)).unwrap();
            let relations = relations_over(engine.clone(), way);
            relations.recover().await.unwrap();
            accounts(&*engine).await;
            lock_index(&*engine).await;
            let mut tasks = Vec::new();
            let inside = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let refused = Arc::new(std::sync::atomic::AtomicUsize::new(0));
            for client in 0..6_usize {
                let (relations, inside, refused, engine) = (relations.clone(), inside.clone(), refused.clone(), engine.clone());
                tasks.push(tokio::spawn(async move {
                    let mut done = 0;
                    while done < 5 {
                        // In either order.
                        let mut both = vec![take("x"), take("y"), add(account(0), 1)];
                        both.swap(0, client % 2);
                        match relations.change(&Change::of(both)).await {
                            Ok(Verdict::Committed(_)) => {}
                            Ok(Verdict::Failed(_)) => {
                                refused.fetch_add(1, Ordering::SeqCst);
                                tokio::time::sleep(Duration::from_millis(2)).await;
                                continue;
                            }
                            other => panic!("{way:?}: {other:?}"),
                        }
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{way:?}: two hold them at once");
                        assert_eq!(held(&relations), ["x", "y"], "{way:?}");
                        // Long enough that somebody else tries.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        let n = number(&*engine, account(1)).await.unwrap();
                        let plain = Write::new(account(1), WriteOp::Put(Source::from_value(&json!({ "n": n + 1 }))));
                        let written = relations.write(vec![plain], Refresh::No).await.unwrap();
                        assert!(matches!(written[0], Outcome::Written(_)), "{written:?}");
                        inside.fetch_sub(1, Ordering::SeqCst);
                        let given = relations
                            .change(&Change::of(vec![give("y"), give("x"), add(account(2), 1)]))
                            .await;
                        assert!(matches!(given, Ok(Verdict::Committed(_))), "{way:?}: {given:?}");
                        done += 1;
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            for n in 0..3 {
                assert_eq!(number(&*engine, account(n)).await, Some(BEGIN + 30), "{way:?}: document {n}");
            }
            assert_eq!(held(&relations), Vec::<String>::new(), "{way:?}");
            assert!(refused.load(Ordering::SeqCst) > 0, "{way:?}: nobody was in the way");
        });
    }
}

/// It stops at every step of a checkpoint after changes, and of the start after that.
#[test]
fn contract_33_the_disk_stops_in_a_checkpoint_and_in_the_replay() {
    for way in WAYS {
        for seed in 0..seeds() {
            in_time(8, 120, async {
                for stop in 0..40 {
                    let what = format!("{way:?}, seed {seed}, checkpoint stopped after {stop} steps");
                    let disk = FaultyDisk::new(seed * 1000 + stop);
                    let engine = engine_on(&disk).unwrap();
                    let relations = relations_over(engine.clone(), way);
                    relations.recover().await.unwrap();
                    accounts(&*engine).await;
                    for n in 0..3 {
                        let done = relations.change(&transfer(&format!("k{n}"))).await;
                        assert!(matches!(done, Ok(Verdict::Committed(_))), "{what}: {done:?}");
                    }
                    disk.stop_after(stop);
                    let flushed = engine.alter(Alteration::Flush(Target::of(Vec::new()))).await.is_ok();
                    drop((relations, engine));
                    // The first start is stopped as well.
                    disk.crash();
                    disk.stop_after(stop / 2);
                    if let Ok(engine) = engine_on(&disk) {
                        drop(tokio::time::timeout(Duration::from_millis(500), relations_over(engine, way).recover()).await);
                    }
                    let (engine, relations) = restarted(&disk, way).await;
                    assert_eq!(shown(&*engine, &what).await, 3, "{what}");
                    let again = relations.change(&transfer("k1")).await;
                    assert!(
                        matches!(again, Ok(Verdict::Committed(ref done)) if done.replayed),
                        "{what}: {again:?}"
                    );
                    assert_eq!(shown(&*engine, &what).await, 3, "{what}");
                    if flushed && stop > 5 {
                        break;
                    }
                }
            });
        }
    }
}

/// Halts once, between the check of a change and its append: inside the critical section, or before the first mark.
struct Halting {
    inner: Arc<EmbeddedEngine>,
    /// The first guarded decision halts: where, and until when.
    halt: AtomicBool,
    reached: Mutex<Option<tokio::sync::oneshot::Sender<()>>>,
    go_on: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    /// Forget to exclude those who grant and end locks.
    without_gate: bool,
    /// Halt at the record's commit, not in the decision.
    at_commit: bool,
}

impl std::fmt::Debug for Halting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Halting")
    }
}

impl Halting {
    fn halts(&self) {
        if self.halt.swap(false, Ordering::SeqCst) {
            // Whoever waits at the other end fails by itself if it is gone.
            let _ = self.reached.lock().unwrap().take().unwrap().send(());
            let go_on = self.go_on.lock().unwrap().take().unwrap();
            let _ = go_on.recv_timeout(Duration::from_secs(20));
        }
    }
}

#[async_trait]
impl Around for Halting {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    async fn writes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        if self.at_commit && writes.iter().any(commits) {
            tokio::task::block_in_place(|| self.halts());
        }
        self.inner.write(writes, refresh).await
    }
    fn section(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}

#[async_trait]
impl AtomicWrites for Halting {
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        let guarded = how.gate == Gate::Shared && !self.at_commit;
        let how = TxnOptions {
            gate: if self.without_gate { Gate::None } else { how.gate },
            ..how
        };
        let mut checked = |newest: &mut dyn Newest| {
            let checked = plan(newest);
            // The locks have been looked at; nothing is in the log.
            if guarded && checked.is_ok() {
                self.halts();
            }
            checked
        };
        let atomic = self.inner.atomic().unwrap();
        atomic.decide(&mut checked, how).await
    }
    async fn look(&self, look: &mut Looker<'_>) {
        self.inner.atomic().unwrap().look(look).await;
    }
}

/// What the client was told, whether the break was answered while the change was halted, and what the document shows.
async fn broken_between(way: Way, without_gate: bool) -> (std::result::Result<Verdict, ErrorKind>, bool, i64) {
    let inner = engine_on(&FaultyDisk::new(1)).unwrap();
    let (reached, is_reached) = tokio::sync::oneshot::channel();
    let (go, go_on) = std::sync::mpsc::channel();
    let engine = Arc::new(Halting {
        inner: inner.clone(),
        halt: AtomicBool::new(false),
        reached: Mutex::new(Some(reached)),
        go_on: Mutex::new(Some(go_on)),
        without_gate,
        at_commit: way == Way::Portable,
    });
    let relations = relations_over(engine.clone(), way);
    relations.recover().await.unwrap();
    accounts(&*engine).await;
    let ask = Ask {
        lock: None,
        owner: String::new(),
        targets: vec![Wanted {
            target: LockTarget::Index(IndexName::new("left")),
            mode: Mode::Exclusive,
        }],
        keep_alive: None,
        on_expire: OnExpire::Release,
        on_disconnect_release: false,
        connection: None,
        wait: false,
        place: None,
    };
    let Asked::Granted(lease) = relations.acquire(&ask).await.unwrap() else {
        panic!("nobody else asks")
    };
    engine.halt.store(true, Ordering::SeqCst);
    let change = Change {
        guards: vec![lease.id.to_string()],
        ..Change::of(vec![add(account(0), 1)])
    };
    let writing = tokio::spawn({
        let relations = relations.clone();
        async move { relations.change(&change).await }
    });
    is_reached.await.unwrap();
    let breaking = tokio::spawn({
        let (relations, id) = (relations.clone(), lease.id.to_string());
        async move { relations.break_lock(&id).await.map(|_| ()) }
    });
    tokio::time::sleep(Duration::from_millis(400)).await;
    let answered = breaking.is_finished();
    go.send(()).unwrap();
    let verdict = writing.await.unwrap().map_err(|error| error.kind());
    breaking.await.unwrap().unwrap();
    let shown = number(&*inner, account(0)).await.unwrap() - BEGIN;
    (verdict, answered, shown)
}

/// Between the check of the lock and the append another client breaks it. By one record the break waits for the write that has
/// been checked; by the portable path it aborts the change, which is refused. In neither is a write done after a
/// break that was answered. Without the gate just that happens: the test can fail.
#[test]
fn contract_25_a_lock_broken_between_check_and_append() {
    in_time(8, 120, async {
        let (verdict, answered, shown) = broken_between(Way::Record, false).await;
        assert!(matches!(verdict, Ok(Verdict::Committed(_))), "{verdict:?}");
        assert!(
            !answered && shown == 1,
            "the break was answered while a write stood between check and append"
        );

        let (verdict, answered, shown) = broken_between(Way::Portable, false).await;
        assert!(
            matches!(verdict, Err(ErrorKind::LockBroken)),
            "the write is refused: {verdict:?}"
        );
        assert!(answered && shown == 0, "{shown}");

        let (verdict, answered, shown) = broken_between(Way::Record, true).await;
        assert!(matches!(verdict, Ok(Verdict::Committed(_))), "{verdict:?}");
        assert!(
            answered && shown == 1,
            "without the gate the write passes a break that was answered"
        );
    });
}

/// Changes beside each other on the same documents: none is lost, each whole; and what one cannot do leaves nothing.
#[test]
fn contract_01_changes_beside_each_other_by_both_ways() {
    for way in WAYS {
        in_time(8, 120, async {
            let engine = engine_on(&FaultyDisk::new(7)).unwrap();
            let relations = relations_over(engine.clone(), way);
            relations.recover().await.unwrap();
            accounts(&*engine).await;
            let mut tasks = Vec::new();
            for client in 0..8 {
                let (relations, engine) = (relations.clone(), engine.clone());
                tasks.push(tokio::spawn(async move {
                    for n in 0..10_usize {
                        let (from, to) = ((client + n) % 4, (client + n + 1 + n % 3) % 4);
                        let change = Change::of(vec![add(account(from), -1), add(account(to), 1)]);
                        let verdict = relations.change(&change).await;
                        assert!(matches!(verdict, Ok(Verdict::Committed(_))), "{way:?}: {verdict:?}");
                        // A bad operation beside good ones.
                        let bad = Operation {
                            label: "index",
                            write: Write::new(account(from), WriteOp::Put(Source::from_value(&json!({ "n": { "x": 1 } })))),
                            creates: None,
                            wants_source: false,
                            error: None,
                        };
                        let failed = relations.change(&Change::of(vec![add(account(to), 50), bad])).await;
                        assert!(matches!(failed, Ok(Verdict::Failed(_))), "{way:?}: {failed:?}");
                        // A plain writer beside them.
                        let at = address("right", DocId::plain("plain"));
                        let write = Write::new(at, WriteOp::Put(Source::from_value(&json!({ "n": n }))));
                        let written = relations.write(vec![write], Refresh::No).await.unwrap();
                        assert!(matches!(written[0], Outcome::Written(_)), "{way:?}: {written:?}");
                        let _ = &engine;
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            let mut sum = 0;
            for n in 0..4 {
                sum += number(&*engine, account(n)).await.unwrap();
            }
            assert_eq!(sum, 4 * BEGIN, "{way:?}");
        });
    }
}

/// Every second one a delete and a creation of the same document, so that tombstones and stubs come and go.
#[test]
fn deletes_and_creations_by_both_ways() {
    for way in WAYS {
        in_time(8, 120, async {
            let disk = FaultyDisk::new(3);
            let engine = engine_on(&disk).unwrap();
            let relations = relations_over(engine.clone(), way);
            relations.recover().await.unwrap();
            accounts(&*engine).await;
            let at = || address("left", DocId::plain("x"));
            let operation = |label: &'static str, write: Write| Operation {
                label,
                write,
                creates: None,
                wants_source: false,
                error: None,
            };
            for n in 0..6 {
                let create = Write {
                    expect: engine::Expect::Absent,
                    ..Write::new(at(), WriteOp::Put(Source::from_value(&json!({ "n": n }))))
                };
                let created = relations
                    .change(&Change::of(vec![operation("create", create.clone()), add(account(1), 1)]))
                    .await;
                assert!(matches!(created, Ok(Verdict::Committed(_))), "{way:?}: {created:?}");
                assert_eq!(number(&*engine, at()).await, Some(n));
                let twice = relations.change(&Change::of(vec![operation("create", create)])).await;
                assert!(matches!(twice, Ok(Verdict::Failed(_))), "{way:?}: {twice:?}");
                let delete = Change::of(vec![
                    operation("delete", Write::new(at(), WriteOp::Delete)),
                    add(account(1), -1),
                ]);
                let deleted = relations.change(&delete).await;
                assert!(matches!(deleted, Ok(Verdict::Committed(_))), "{way:?}: {deleted:?}");
                assert_eq!(number(&*engine, at()).await, None);
                engine.refresh(&Target::index("left"), None).await.unwrap();
                let seen = engine
                    .search(&Target::index("left"), SearchRequest::default(), See::Plain)
                    .await
                    .unwrap();
                assert!(
                    seen.hits.hits.iter().all(|hit| &*hit.id.id != "x"),
                    "{way:?}: a tombstone is seen"
                );
            }
            let (engine, _) = restarted(&disk, way).await;
            assert_eq!(number(&*engine, account(1)).await, Some(BEGIN), "{way:?}");
            let shown: Value = json!(number(&*engine, at()).await);
            assert_eq!(shown, Value::Null, "{way:?}");
        });
    }
}
