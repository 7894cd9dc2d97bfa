//! Whatever was told to somebody is there after a crash: documents, refusals, repeated outcomes, missing indices. Disks
//! that give an error (EIO) at every write and sync, and that lose what was not synced at every sync.
//!
//! `PLEACH_FAULT_STEP` is the step over the places (7): 1 tries each.

use super::*;
use embedded::log::{Durability, Log, LogOptions, Manifest, Part, Participant, Record};
use engine::{Newest, Plan, TxnOptions};
use model::ErrorKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a client knows of a folder: each fact as it was last told.
type Facts = BTreeMap<String, Option<Value>>;

/// A change of two documents that a key stands for, as `_transaction` makes them: repeated, it only reads.
async fn change(engine: &dyn Engine, key: &str, n: u64) -> Result<bool> {
    let mut replayed = false;
    let mut plan = |newest: &mut dyn Newest| {
        replayed = newest.read(&address("keys", DocId::plain(key)), See::Plain)?.is_some();
        if replayed {
            return Ok(Plan::default());
        }
        Ok(Plan::of(vec![
            put("keys", key, json!({ "n": n })),
            put("a", "changed", json!({ "n": n })),
        ]))
    };
    let decided = engine.atomic().unwrap().decide(&mut plan, TxnOptions::default()).await?;
    match decided.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))) {
        true => Ok(replayed),
        false => Err(Error::new(ErrorKind::LogFailed, "unknown")),
    }
}

/// What it answers to a reader. `None`: it says that it does not know.
async fn told(engine: &dyn Engine, index: &str, id: &str) -> Option<Option<Value>> {
    match engine.read_one(address(index, DocId::plain(id))).await {
        Ok(document) => Some(document.map(|document| document.source.parse().unwrap())),
        Err(e) if e.kind() == ErrorKind::IndexNotFound => Some(Some(json!("no index"))),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::LogFailed, "{e}");
            None
        }
    }
}

const READ: [(&str, &str); 6] = [
    ("a", "1"),
    ("a", "2"),
    ("a", "changed"),
    ("keys", "k"),
    ("gone", "1"),
    ("alias", "1"),
];

/// Writes, a change and its repetition, an index that is deleted and an alias that moves; then everything is asked for.
async fn session(engine: &dyn Engine) -> Facts {
    let mut facts = Facts::new();
    if try_write(engine, put("a", "1", json!({ "n": 2 }))).await.is_ok() {
        facts.insert("a/1".into(), Some(json!({ "n": 2 })));
    }
    if change(engine, "k", 7).await.is_ok() {
        facts.insert("keys/k".into(), Some(json!({ "n": 7 })));
    }
    // The repetition by its key is answered only if the first is there.
    if change(engine, "k", 8).await.is_ok_and(|replayed| replayed) {
        facts.insert("keys/k".into(), Some(json!({ "n": 7 })));
        facts.insert("a/changed".into(), Some(json!({ "n": 7 })));
    }
    let gone = engine.alter(Alteration::DeleteIndices(Target::index("gone"))).await;
    // A second deletion is told that there is no such index.
    let again = engine.alter(Alteration::DeleteIndices(Target::index("gone"))).await;
    if gone.is_ok() || again.is_err_and(|e| e.kind() == ErrorKind::IndexNotFound) {
        facts.insert("gone/1".into(), Some(json!("no index")));
    }
    let refused = engine
        .write_one(put("gone", "1", json!({})), Refresh::No)
        .await
        .is_ok_and(|outcome| matches!(outcome, Outcome::Refused(e) if e.kind() == ErrorKind::IndexNotFound));
    if refused {
        facts.insert("gone/1".into(), Some(json!("no index")));
    }
    // It is deleted, or was not there, or nobody knows.
    drop(try_write(engine, delete("a", "2")).await);
    for (index, id) in READ {
        if let Some(answer) = told(engine, index, id).await {
            let at = format!("{index}/{id}");
            let before = facts.insert(at.clone(), answer.clone());
            assert!(
                before.is_none_or(|before| before == answer),
                "{at}: told twice, and not the same"
            );
        }
    }
    // A search that finds no index has told it as well.
    if try_search(engine, &["gone"], json!({}))
        .await
        .is_err_and(|e| e.kind() == ErrorKind::IndexNotFound)
    {
        let before = facts.insert("gone/1".into(), Some(json!("no index")));
        assert!(before.is_none_or(|before| before == Some(json!("no index"))));
    }
    facts
}

async fn prepared(seed: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    let engine = open(&disk);
    for index in ["a", "keys", "gone"] {
        create(&engine, index, json!({})).await;
    }
    write(&engine, put("gone", "1", json!({ "n": 1 }))).await;
    write(&engine, put("a", "1", json!({ "n": 1 }))).await;
    write(&engine, put("a", "2", json!({ "n": 1 }))).await;
    disk.stop_after(0);
    drop(engine);
    disk.restart();
    disk
}

async fn check(disk: &FaultyDisk, facts: &Facts, at: &str) {
    let engine = try_open(disk, small()).unwrap_or_else(|e| panic!("{at}: the folder does not open: {e}"));
    for (index, id) in READ {
        if let Some(was) = facts.get(&format!("{index}/{id}")) {
            let is = told(&engine, index, id).await.unwrap();
            assert_eq!(is, *was, "{at}: [{index}][{id}] was told and is taken back");
        }
    }
    disk.stop_after(0);
    drop(engine);
}

/// One call of the disk fails, then the process is started again, then the machine.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_told_is_taken_back_after_an_error_of_the_disk() {
    let (step, mut failed) = (rounds("PLEACH_FAULT_STEP", 7), 0);
    for place in (0..90).step_by(usize::try_from(step).unwrap()) {
        for restart in [false, true] {
            let at = format!("EIO at step {place}, restart {restart}");
            let disk = prepared(place).await;
            let engine = open(&disk);
            disk.fail_once_after(place);
            let facts = session(&engine).await;
            failed += u64::from(node(&engine).await.read_only.is_some());
            disk.stop_after(0);
            drop(engine);
            if restart {
                disk.restart();
                check(&disk, &facts, &at).await;
            }
            disk.crash();
            check(&disk, &facts, &at).await;
        }
    }
    assert!(failed > 0, "some of the errors met the log");
}

/// One call of the disk fails in a checkpoint. Whether the manifest names its files is unknown then, so none of them may be
/// missing after a restart or a crash.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_fails_leaves_every_file_that_the_manifest_may_name() {
    let mut failed = 0;
    for place in 0..24 {
        for restart in [false, true] {
            let at = format!("EIO at step {place} of a checkpoint, restart {restart}");
            let disk = FaultyDisk::new(place);
            let engine = open(&disk);
            create(&engine, "a", json!({})).await;
            write(&engine, put("a", "1", json!({ "n": 1 }))).await;
            flush(&engine).await.unwrap();
            write(&engine, put("a", "2", json!({ "n": 1 }))).await;
            disk.fail_once_after(place);
            failed += u64::from(flush(&engine).await.is_err());
            disk.stop_after(0);
            drop(engine);
            match restart {
                true => disk.restart(),
                false => disk.crash(),
            }
            let engine = try_open(&disk, small()).unwrap_or_else(|e| panic!("{at}: the folder does not open: {e}"));
            for id in ["1", "2"] {
                let read = engine.read_one(address("a", DocId::plain(id))).await;
                let read = read.unwrap_or_else(|e| panic!("{at}: [{id}]: {e}"));
                assert!(read.is_some(), "{at}: [{id}] was acknowledged and is lost");
            }
            disk.stop_after(0);
            drop(engine);
        }
    }
    assert!(failed > 4, "only [{failed}] checkpoints failed");
}

/// The process is killed at every step, another serves what it finds, and then power fails.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_told_is_taken_back_after_a_lost_tail() {
    let step = rounds("PLEACH_FAULT_STEP", 7);
    for place in (0..90).step_by(usize::try_from(step).unwrap()) {
        let at = format!("killed at step {place}");
        let disk = prepared(place).await;
        let engine = open(&disk);
        disk.stop_after(place);
        let mut facts = session(&engine).await;
        drop(engine);
        disk.restart();
        let engine = open(&disk);
        for (index, id) in READ {
            let served = told(&engine, index, id).await.unwrap();
            let before = facts.insert(format!("{index}/{id}"), served.clone());
            assert!(before.is_none_or(|before| before == served), "{at}: [{index}][{id}]");
        }
        disk.stop_after(0);
        drop(engine);
        disk.crash();
        check(&disk, &facts, &at).await;
        disk.crash();
        check(&disk, &facts, &at).await;
    }
}

/// A change is synced before it is acknowledged, whatever its index says; a plain write there need not be.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_async_index_is_durable_when_it_is_acknowledged() {
    let (mut kept, mut plain) = (0, 0);
    for seed in 0..16 {
        let disk = FaultyDisk::new(seed);
        let engine = open(&disk);
        create(&engine, "a", json!({ "index.translog.durability": "async" })).await;
        let mut plan = |_: &mut dyn Newest| Ok(Plan::of(vec![put("a", "changed", json!({ "n": seed }))]));
        engine
            .atomic()
            .unwrap()
            .decide(&mut plan, TxnOptions::default())
            .await
            .unwrap();
        write(&engine, put("a", "plain", json!({ "n": seed }))).await;
        disk.crash();
        drop(engine);
        let engine = open(&disk);
        kept += u64::from(source(&engine, "a", "changed").await.is_some());
        plain += u64::from(source(&engine, "a", "plain").await.is_some());
    }
    assert_eq!(kept, 16);
    assert!(plain < 16, "plain writes of an async index are not synced one by one");
}

/// A change that changes nothing has a number of its own, between those before and after it, over restarts too.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_changes_nothing_has_a_number_of_its_own() {
    let disk = FaultyDisk::new(3);
    let mut last = 0;
    for life in 0..3 {
        let engine = open(&disk);
        if life == 0 {
            create(&engine, "a", json!({})).await;
        }
        for n in 0..12 {
            let mut plan = |_: &mut dyn Newest| {
                Ok(Plan {
                    writes: (n % 3 == 0).then(|| put("a", "x", json!({ "n": n }))).into_iter().collect(),
                    numbered: true,
                    ..Plan::default()
                })
            };
            let decided = engine
                .atomic()
                .unwrap()
                .decide(&mut plan, TxnOptions::default())
                .await
                .unwrap();
            assert!(
                decided.commit_seq > last,
                "life {life}, {n}: {} after {last}",
                decided.commit_seq
            );
            last = decided.commit_seq;
            // It can be waited for.
            engine.refresh(&Target::index("a"), Some(last)).await.unwrap();
        }
        disk.stop_after(0);
        drop(engine);
        disk.crash();
    }
}

/// What a start cannot apply stops the index that it names and nothing else; the log keeps it.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_replayed_stops_its_index_alone() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    let typed = Alteration::CreateIndex {
        name: "typed".into(),
        settings: Map::new(),
        mappings: Some(json!({ "t": { "properties": { "n": { "type": "long" } } } })),
        aliases: Map::new(),
        typed: true,
        if_absent: false,
    };
    engine.alter(typed).await.unwrap();
    create(&engine, "good", json!({})).await;
    let at = address("typed", DocId::with_type("t", "1"));
    write(
        &engine,
        Write::new(at.clone(), WriteOp::Put(Source::from_value(&json!({ "n": 1 })))),
    )
    .await;
    // No write of such a type is taken, with routing or parent or without.
    for doc_type in ["t,u", ".x", "..", "_default_", "_x", "a#b"] {
        for with in 0..3 {
            for op in [WriteOp::Delete, WriteOp::Put(Source::from_value(&json!({})))] {
                let mut one = Write::new(address("typed", DocId::with_type(doc_type, "x")), op);
                one.routing = (with == 1).then(|| "1".to_owned());
                one.parent = (with == 2).then(|| "1".to_owned());
                let what = format!("{one:?}");
                let outcome = engine.write_one(one.clone(), Refresh::No).await.unwrap();
                assert!(matches!(outcome, Outcome::Refused(_)), "{what}: {outcome:?}");
                let mut plan = |_: &mut dyn Newest| Ok(Plan::of(vec![one.clone()]));
                let decided = engine
                    .atomic()
                    .unwrap()
                    .decide(&mut plan, TxnOptions::default())
                    .await
                    .unwrap();
                assert!(matches!(decided.outcomes[..], [Outcome::Refused(_)]), "{what}: {decided:?}");
            }
        }
    }
    flush(&engine).await.unwrap();
    write(
        &engine,
        Write::new(at.clone(), WriteOp::Put(Source::from_value(&json!({ "n": 2 })))),
    )
    .await;
    write(&engine, put("good", "1", json!({ "n": 1 }))).await;
    disk.stop_after(0);
    drop(engine);
    disk.restart();
    // A server of before logged such a record.
    let (manifest, entries) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
    let folder: Value = serde_json::from_slice(&entries.live["folder"]).unwrap();
    let mut options = LogOptions::new(manifest.folder_id(), folder["flushed"].as_u64().unwrap());
    (options.file_bytes, options.queue_max_bytes) = (1 << 20, 512 << 10);
    let (log, recovered) = Log::open(&Path::new(DIR).join("log"), Arc::new(disk.clone()), options).unwrap();
    let (mut index_no, mut next) = (0, 0);
    recovered
        .replay(folder["flushed"].as_u64().unwrap(), |replayed| {
            if let Some(first) = replayed.record.participants.first().filter(|_| index_no == 0) {
                (index_no, next) = (first.index_no, first.next_seq_no());
            }
            Ok(())
        })
        .unwrap();
    let poison = Record {
        participants: vec![Participant {
            index_no,
            first_seq_no: next,
            count: 1,
        }],
        parts: vec![Part::Delete {
            index_no,
            seq_no: next,
            version: 1,
            term: 1,
            uid: "t,u#x".into(),
            hidden: None,
        }],
        idempotency_key: None,
    };
    let mut room = log.reserve(poison.log_bytes()).unwrap();
    let ticket = log.enqueue(&mut room, poison, Durability::Request).unwrap();
    log.wait_durable(ticket.end).unwrap();
    drop((log, manifest));
    for life in 0..2 {
        let engine = open(&disk);
        let stopped = engine.read_one(at.clone()).await.unwrap_err();
        assert_eq!(stopped.kind(), ErrorKind::Corruption, "life {life}: {stopped}");
        assert!(stopped.reason().contains("t,u"), "{stopped}");
        assert_eq!(source(&engine, "good", "1").await.unwrap()["n"], 1, "life {life}");
        write(&engine, put("good", "2", json!({ "n": 2 }))).await;
        flush(&engine).await.unwrap();
        engine.close().unwrap();
    }
    // It can be deleted and made anew.
    let engine = open(&disk);
    engine.alter(Alteration::DeleteIndices(Target::index("typed"))).await.unwrap();
    flush(&engine).await.unwrap();
    engine.close().unwrap();
    drop(engine);
    assert_eq!(source(&open(&disk), "good", "2").await.unwrap()["n"], 2);
}

/// A read beside a write that takes long to sync: it waits a little, then answers the newest durable state. Whatever is
/// acknowledged is seen, and several documents are read as they were at one instant.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_of_one_document_does_not_wait_for_a_long_sync() {
    const LONG: Duration = Duration::from_millis(1500);
    let disk = FaultyDisk::new(1);
    let engine = Arc::new(open(&disk));
    create(&*engine, "a", json!({})).await;
    create(&*engine, "b", json!({ "translog.durability": "async" })).await;
    for index in ["a", "b"] {
        write(&*engine, put(index, "built", json!({ "n": 1 }))).await;
        write(&*engine, put(index, "deleted", json!({ "n": 1 }))).await;
        write(&*engine, put(index, "goes", json!({ "n": 1 }))).await;
        refresh(&*engine, index).await;
        write(&*engine, put(index, "pending", json!({ "n": 1 }))).await;
        write(&*engine, delete(index, "deleted")).await;
    }
    // All of it is durable, also what was acknowledged before.
    write(&*engine, put("a", "last", json!({}))).await;
    disk.set_sync_takes(LONG);
    let writes = || {
        let all = ["built", "pending", "deleted", "new"].map(|id| put("a", id, json!({ "n": 2 })));
        all.into_iter().chain([delete("a", "goes")]).collect::<Vec<_>>()
    };
    let begun = Instant::now();
    let writer = engine.clone();
    let writing = tokio::spawn(async move {
        writer.write(writes(), Refresh::No).await.unwrap();
        begun.elapsed()
    });
    tokio::time::sleep(LONG / 10).await;
    let mut seen = Vec::new();
    for id in ["built", "pending", "deleted", "new", "goes"] {
        // From a task of its own, as a connection is.
        let reader = engine.clone();
        let read = tokio::spawn(async move { source(&*reader, "a", id).await });
        seen.push((id, read.await.unwrap().map(|body| body["n"].clone())));
    }
    let took = begun.elapsed();
    let reads = ["built", "new"].map(|id| engine::Read::whole(address("a", DocId::plain(id))));
    let together = engine.read_together(reads.into(), usize::MAX).await.unwrap();
    assert!(begun.elapsed() >= LONG, "documents of one instant wait for the log");
    let together: Vec<_> = together.into_iter().map(|one| one.unwrap().unwrap().stamp.version).collect();
    assert_eq!(together, [2, 1]);
    assert!(writing.await.unwrap() >= LONG, "the sync was slow");
    assert!(took < LONG * 3 / 4, "reads waited for it: {took:?}");
    let one = Some(json!(1));
    let expected = [
        ("built", one.clone()),
        ("pending", one.clone()),
        ("deleted", None),
        ("new", None),
        ("goes", one),
    ];
    assert_eq!(seen, expected);
    // The write is acknowledged: each sees it.
    for (id, n) in [
        ("built", Some(2)),
        ("pending", Some(2)),
        ("deleted", Some(2)),
        ("new", Some(2)),
        ("goes", None),
    ] {
        let found = source(&*engine, "a", id).await.map(|body| body["n"].as_u64().unwrap());
        assert_eq!(found, n, "{id}");
    }
    // Where a write is acknowledged before the sync, its reader waits for it.
    write(&*engine, put("b", "built", json!({ "n": 2 }))).await;
    let reader = engine.clone();
    let read = tokio::spawn(async move { source(&*reader, "b", "built").await });
    assert_eq!(read.await.unwrap(), Some(json!({ "n": 2 })));
    disk.set_sync_takes(Duration::ZERO);
}

/// Writers count documents up beside slow syncs, builds and reads: no read is older than what was acknowledged before it
/// began, and none is older than a read that was over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn reads_beside_slow_syncs_never_go_back() {
    let disk = FaultyDisk::new(3);
    let engine = Arc::new(open(&disk));
    create(&*engine, "a", json!({ "refresh_interval": "5ms" })).await;
    disk.set_sync_takes(Duration::from_millis(45));
    let acknowledged: Arc<[AtomicU64; 3]> = Arc::default();
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for writer in 0..3_usize {
        let (engine, acknowledged, over) = (engine.clone(), acknowledged.clone(), over.clone());
        tasks.push(tokio::spawn(async move {
            let mut n = 0;
            while !over.load(Ordering::Acquire) {
                n += 1;
                write(&*engine, put("a", &writer.to_string(), json!({ "n": n }))).await;
                acknowledged[writer].store(n, Ordering::Release);
            }
            assert!(n > 3, "writer {writer} wrote {n} times");
            0
        }));
    }
    for reader in 0..4_usize {
        let (engine, acknowledged, over) = (engine.clone(), acknowledged.clone(), over.clone());
        tasks.push(tokio::spawn(async move {
            let (mut before, mut older, mut count) = ([0; 3], 0, 0);
            while !over.load(Ordering::Acquire) {
                let of = (count + reader) % 3;
                let least = acknowledged[of].load(Ordering::Acquire).max(before[of]);
                let found = source(&*engine, "a", &of.to_string()).await;
                let n = found.map_or(0, |body| body["n"].as_u64().unwrap());
                assert!(n >= least, "{n} of {of} was read, {least} was known");
                older += usize::from(n == acknowledged[of].load(Ordering::Acquire));
                before[of] = n;
                count += 1;
            }
            older
        }));
    }
    tokio::time::sleep(Duration::from_millis(rounds("PLEACH_RACE_MILLIS", 1500))).await;
    over.store(true, Ordering::Release);
    let mut older = 0;
    for task in tasks {
        older += task.await.unwrap();
    }
    assert!(older > 0, "some reads answered what was durable");
    disk.set_sync_takes(Duration::ZERO);
}
