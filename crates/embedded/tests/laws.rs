//! What the embedded engine promises about documents, on a disk in memory and on a real one.

#![allow(clippy::unwrap_used, reason = "a law that cannot be asked has failed")]

use disk::FaultyDisk;
use dsl::query::{Clause, Query, TermQuery};
use dsl::search::SearchRequest;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{
    Alteration, Effect, Engine, EngineExt, Expect, Found, Outcome, Plan, Refresh, See, Source, Write, WriteOp, address,
};
use futures::StreamExt as _;
use model::{DocId, Target};
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

fn limits() -> Limits {
    Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 2 << 20,
        checkpoint_bytes: 1 << 20,
        ..Limits::default()
    }
}

fn open(disk: &FaultyDisk) -> EmbeddedEngine {
    EmbeddedEngine::open_on(
        Arc::new(disk.of_one_process()),
        Path::new("/data"),
        Arc::new(SystemClock::default()),
        limits(),
    )
    .unwrap()
}

async fn create(engine: &dyn Engine, name: &str, settings: Value, mappings: Value) {
    let settings = settings.as_object().cloned().unwrap_or_default();
    let wish = Alteration::CreateIndex {
        name: name.into(),
        settings,
        mappings: Some(mappings),
        aliases: Map::new(),
        typed: false,
        if_absent: false,
    };
    engine.alter(wish).await.unwrap();
}

fn put(index: &str, id: &str, source: Value) -> Write {
    Write::new(address(index, DocId::plain(id)), WriteOp::Put(Source::from_value(&source)))
}

fn delete(index: &str, id: &str) -> Write {
    Write::new(address(index, DocId::plain(id)), WriteOp::Delete)
}

async fn one(engine: &dyn Engine, write: Write) -> Outcome {
    engine.write_one(write, Refresh::No).await.unwrap()
}

async fn source(engine: &dyn Engine, index: &str, id: &str) -> Option<Value> {
    engine
        .read_one(address(index, DocId::plain(id)))
        .await
        .unwrap()
        .map(|d| d.source.parse().unwrap())
}

fn written(outcome: &Outcome) -> (Effect, u64, u64) {
    match outcome {
        Outcome::Written(w) => (w.effect, w.stamp.version, w.stamp.seq_no),
        other => panic!("not written: {other:?}"),
    }
}

async fn count(engine: &dyn Engine, index: &str, query: Query) -> u64 {
    let request = SearchRequest {
        query: Some(query),
        ..SearchRequest::default()
    };
    engine
        .search(&Target::index(index), request, See::Plain)
        .await
        .unwrap()
        .hits
        .total
        .unwrap()
        .value
}

fn term(field: &str, value: Value) -> Query {
    Clause::Term(TermQuery {
        field: field.into(),
        value,
        case_insensitive: false,
    })
    .into()
}

#[tokio::test]
async fn read_your_write_search_after_refresh_and_reopen() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    create(&engine, "i", json!({}), json!({})).await;
    let first = one(
        &engine,
        put("i", "1", json!({"title": "Red Fox", "n": 7, "tags": ["a", "b"]})),
    )
    .await;
    assert_eq!(written(&first), (Effect::Created, 1, 0));
    assert_eq!(source(&engine, "i", "1").await.unwrap()["n"], 7);
    assert_eq!(engine.refresh(&Target::index("i"), None).await.unwrap(), 1);
    assert_eq!(count(&engine, "i", term("title", json!("fox"))).await, 1);
    assert_eq!(count(&engine, "i", term("n", json!(7))).await, 1);
    assert_eq!(
        written(&one(&engine, put("i", "1", json!({"title": "Blue Cat"}))).await),
        (Effect::Updated, 2, 1)
    );
    assert_eq!(source(&engine, "i", "1").await.unwrap(), json!({"title": "Blue Cat"}));
    engine.refresh(&Target::index("i"), None).await.unwrap();
    assert_eq!(count(&engine, "i", term("title", json!("fox"))).await, 0);
    assert_eq!(count(&engine, "i", term("title", json!("cat"))).await, 1);
    // A clean end, then a crash.
    engine.close().unwrap();
    drop(engine);
    let engine = open(&disk);
    assert_eq!(count(&engine, "i", term("title", json!("cat"))).await, 1);
    assert_eq!(
        written(&one(&engine, put("i", "2", json!({"title": "Green Dog", "new": {"x": 1.5}}))).await),
        (Effect::Created, 1, 2)
    );
    assert_eq!(written(&one(&engine, delete("i", "1")).await), (Effect::Deleted, 3, 3));
    disk.crash();
    drop(engine);
    let engine = open(&disk);
    assert_eq!(source(&engine, "i", "1").await, None);
    assert_eq!(source(&engine, "i", "2").await.unwrap()["new"]["x"], 1.5);
    engine.refresh(&Target::index("i"), None).await.unwrap();
    assert_eq!(count(&engine, "i", Query::all()).await, 1);
    assert_eq!(count(&engine, "i", term("new.x", json!(1.5))).await, 1);
    let Outcome::Written(w) = one(&engine, put("i", "1", json!({"title": "again"}))).await else {
        panic!()
    };
    assert_eq!(
        (w.stamp.version, w.stamp.seq_no, w.stamp.primary_term),
        (4, 4, 2),
        "versions survive deletes, and a crash begins a term"
    );
}

#[tokio::test]
async fn each_expectation() {
    let disk = FaultyDisk::new(2);
    let engine = open(&disk);
    create(&engine, "i", json!({}), json!({})).await;
    let with = |expect: Expect, id: &str| Write {
        expect,
        ..put("i", id, json!({"a": 1}))
    };
    assert_eq!(written(&one(&engine, with(Expect::Absent, "1")).await).0, Effect::Created);
    for refreshed in [false, true] {
        if refreshed {
            engine.refresh(&Target::index("i"), None).await.unwrap();
        }
        for expect in [
            Expect::Absent,
            Expect::Version(9),
            Expect::Unchanged {
                seq_no: 9,
                primary_term: 1,
            },
            Expect::NewerThan {
                version: 1,
                or_equal: false,
            },
        ] {
            let Outcome::Conflict(conflict) = one(&engine, with(expect, "1")).await else {
                panic!("{expect:?}")
            };
            assert!(matches!(conflict.found, Found::Here(_)));
        }
        assert!(matches!(
            one(&engine, with(Expect::Present, "none")).await,
            Outcome::Conflict(_)
        ));
    }
    assert_eq!(
        written(
            &one(
                &engine,
                with(
                    Expect::Unchanged {
                        seq_no: 0,
                        primary_term: 1
                    },
                    "1"
                )
            )
            .await
        )
        .1,
        2
    );
    assert_eq!(
        written(
            &one(
                &engine,
                with(
                    Expect::NewerThan {
                        version: 40,
                        or_equal: false
                    },
                    "1"
                )
            )
            .await
        )
        .1,
        40
    );
    assert_eq!(written(&one(&engine, delete("i", "1")).await), (Effect::Deleted, 41, 3));
    assert_eq!(written(&one(&engine, delete("i", "1")).await).0, Effect::NotFound);
    assert_eq!(
        written(&one(&engine, with(Expect::Absent, "1")).await),
        (Effect::Created, 43, 5)
    );
}

#[tokio::test]
async fn a_bulk_fails_in_parts_and_an_atomic_write_as_a_whole() {
    let disk = FaultyDisk::new(3);
    let engine = open(&disk);
    create(&engine, "a", json!({}), json!({"properties": {"n": {"type": "integer"}}})).await;
    create(&engine, "b", json!({"refresh_interval": "-1"}), json!({})).await;
    let outcomes = engine
        .write(
            vec![
                put("a", "1", json!({"n": 1})),
                put("a", "2", json!({"n": "x"})),
                put("no", "3", json!({})),
            ],
            Refresh::Now,
        )
        .await
        .unwrap();
    assert!(
        matches!(&outcomes[..], [Outcome::Written(_), Outcome::Refused(_), Outcome::Refused(_)]),
        "{outcomes:?}"
    );
    let atomic = engine.atomic().unwrap();
    let mut failing = |_: &mut dyn engine::Newest| {
        Ok(Plan::of(vec![
            put("b", "1", json!({"x": 1})),
            Write {
                expect: Expect::Absent,
                ..put("a", "1", json!({"n": 9}))
            },
        ]))
    };
    let decided = atomic.decide(&mut failing, Refresh::No.into()).await.unwrap();
    assert!(matches!(decided.outcomes[1], Outcome::Conflict(_)));
    assert_eq!(source(&engine, "b", "1").await, None);
    let mut both =
        |_: &mut dyn engine::Newest| Ok(Plan::of(vec![put("a", "1", json!({"n": 5})), put("b", "1", json!({"x": 1}))]));
    let decided = atomic.decide(&mut both, Refresh::No.into()).await.unwrap();
    assert!(decided.outcomes.iter().all(|o| matches!(o, Outcome::Written(_))));
    assert_eq!(count(&engine, "b", Query::all()).await, 0);
    // Refreshing one shows both: no view has half a record.
    engine.refresh(&Target::index("a"), None).await.unwrap();
    assert_eq!(
        (
            count(&engine, "a", term("n", json!(5))).await,
            count(&engine, "b", Query::all()).await
        ),
        (1, 1)
    );
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Random writes, refreshes, merges, checkpoints, clean and unclean ends against a map.
async fn against_a_map(seed: u64) {
    let disk = FaultyDisk::new(seed);
    let mut engine = open(&disk);
    create(&engine, "i", json!({}), json!({"properties": {"kids": {"type": "nested"}}})).await;
    let mut model: HashMap<String, Value> = HashMap::new();
    let mut state = seed;
    for step in 0..400 {
        let id = random(&mut state, 40).to_string();
        match random(&mut state, 20) {
            0..=9 => {
                let n = random(&mut state, 100);
                let kids: Vec<Value> = (0..n % 3).map(|k| json!({"k": k})).collect();
                let mut body = json!({"n": n, "kids": kids});
                body[format!("f{}", n % 7)] = json!(format!("word{n}"));
                one(&engine, put("i", &id, body.clone())).await;
                model.insert(id, body);
            }
            10..=13 => {
                one(&engine, delete("i", &id)).await;
                model.remove(&id);
            }
            14..=16 => drop(engine.refresh(&Target::index("i"), None).await.unwrap()),
            17 => drop(engine.alter(Alteration::Flush(Target::index("i"))).await.unwrap()),
            18 => {
                let wish = Alteration::ForceMerge {
                    target: Target::index("i"),
                    max_num_segments: 1,
                    only_expunge_deletes: false,
                };
                engine.alter(wish).await.unwrap();
            }
            _ => {
                if random(&mut state, 2) == 0 {
                    engine.close().unwrap();
                } else {
                    disk.crash();
                }
                drop(engine);
                engine = open(&disk);
            }
        }
        if step % 10 == 0 {
            for id in 0..40 {
                assert_eq!(
                    source(&engine, "i", &id.to_string()).await.as_ref(),
                    model.get(&id.to_string()),
                    "seed {seed} step {step} id {id}"
                );
            }
            engine.refresh(&Target::index("i"), None).await.unwrap();
            assert_eq!(
                count(&engine, "i", Query::all()).await,
                model.len() as u64,
                "seed {seed} step {step}"
            );
            for n in [3u64, 50, 77] {
                let expected = model.values().filter(|body| body["n"] == n).count() as u64;
                assert_eq!(
                    count(&engine, "i", term("n", json!(n))).await,
                    expected,
                    "seed {seed} step {step} n {n}"
                );
                let field = format!("f{}", n % 7);
                assert_eq!(
                    count(&engine, "i", term(&field, json!(format!("word{n}")))).await,
                    expected,
                    "seed {seed} step {step} text"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_a_map() {
    for seed in 1..=6 {
        against_a_map(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_indices_open_quickly() {
    let dir = tempfile::tempdir().unwrap();
    let start = || EmbeddedEngine::open(dir.path(), Arc::new(SystemClock::default()), Limits::default()).unwrap();
    let engine = start();
    for n in 0..1000 {
        create(
            &engine,
            &format!("i{n}"),
            json!({}),
            json!({"properties": {"a": {"type": "keyword"}}}),
        )
        .await;
    }
    let writes = (0..1000).map(|n| put(&format!("i{n}"), "1", json!({"a": "x"}))).collect();
    engine.write(writes, Refresh::No).await.unwrap();
    let from = std::time::Instant::now();
    engine.close().unwrap();
    let closing = from.elapsed();
    drop(engine);
    let from = std::time::Instant::now();
    let engine = start();
    eprintln!("1,000 indices: checkpoint {closing:?}, opened in {:?}", from.elapsed());
    assert_eq!(source(&engine, "i999", "1").await.unwrap()["a"], "x");
    assert_eq!(count(&engine, "i0", term("a", json!("x"))).await, 1);
    assert!(from.elapsed().as_secs() < 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_are_all_kept() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(EmbeddedEngine::open(dir.path(), Arc::new(SystemClock::default()), Limits::default()).unwrap());
    create(&*engine, "i", json!({}), json!({})).await;
    let from = std::time::Instant::now();
    let writers: Vec<_> = (0..16)
        .map(|w| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for n in 0..250 {
                    let id = format!("{w}-{n}");
                    assert_eq!(
                        written(&one(&*engine, put("i", &id, json!({"w": w, "text": "some words of text here"}))).await).0,
                        Effect::Created
                    );
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let writing = from.elapsed();
    engine.refresh(&Target::index("i"), None).await.unwrap();
    eprintln!("4,000 writes by 16 writers: {writing:?}, with refresh {:?}", from.elapsed());
    assert_eq!(count(&*engine, "i", Query::all()).await, 4000);
    let info = engine
        .write_one(put("i", "last", json!({"w": 1})), Refresh::WaitFor)
        .await
        .unwrap();
    assert_eq!(written(&info).2, 4000);
    assert_eq!(count(&*engine, "i", Query::all()).await, 4001);
}

/// A scan of several parts and segments shows each document of its moment once, and what it read on the way is not taken for
/// today's state of a document: some are written again before the scan comes to them, some after.
#[tokio::test]
async fn a_scan_is_of_one_moment_and_reads_by_id_are_of_now() {
    const DOCUMENTS: usize = 3_600;
    let engine = open(&FaultyDisk::new(39));
    create(&engine, "i", json!({}), json!({"properties": {"group": {"type": "keyword"}}})).await;
    let target = Target::index("i");
    let id = |n: usize| format!("d{n}");
    // Every two hundredth is large: parts end by bytes, too.
    let text = |n: usize| "x".repeat(if n.is_multiple_of(200) { 200_000 } else { 10 });
    let document = |n: usize, round: usize| put("i", &id(n), json!({"group": n % 3, "round": round, "text": text(n)}));
    for n in 0..DOCUMENTS {
        one(&engine, document(n, 0)).await;
        if n % 1_000 == 999 {
            engine.refresh(&target, None).await.unwrap();
        }
    }
    for n in (0..DOCUMENTS).step_by(10) {
        one(&engine, delete("i", &id(n))).await;
    }
    engine.refresh(&target, None).await.unwrap();
    let scan = |query| engine.scan(&target, query, See::Plain, engine::Barrier::None);
    for (query, wanted) in [(Query::all(), None), (term("group", json!("1")), Some(1))] {
        let is_wanted = |n: &usize| !n.is_multiple_of(10) && wanted.is_none_or(|group| n % 3 == group);
        let mut left: HashSet<String> = (0..DOCUMENTS).filter(is_wanted).map(id).collect();
        let mut found = scan(query).await.unwrap();
        while let Some(scanned) = found.next().await {
            let scanned = scanned.unwrap();
            assert!(left.remove(&*scanned.at.id.id), "{} is there once", scanned.at.id.id);
        }
        assert!(left.is_empty(), "they are missing: {left:?}");
    }
    let mut found = scan(Query::all()).await.unwrap();
    let mut scanned = 0;
    while let Some(document) = found.next().await {
        let before = document.unwrap();
        assert_eq!(
            before.source.parse().unwrap()["round"],
            0,
            "a scan is of the moment when it began"
        );
        scanned += 1;
        if scanned == 500 {
            for n in (1..DOCUMENTS).step_by(10) {
                one(&engine, put("i", &id(n), json!({"round": 1}))).await;
                one(&engine, delete("i", &id(n + 1))).await;
            }
            engine.refresh(&target, None).await.unwrap();
        }
    }
    assert_eq!(scanned, DOCUMENTS * 9 / 10);
    for n in 0..DOCUMENTS {
        let round = source(&engine, "i", &id(n)).await.map(|source| source["round"].clone());
        let now = match n % 10 {
            0 | 2 => None,
            1 => Some(json!(1)),
            _ => Some(json!(0)),
        };
        assert_eq!(round, now, "document {n}");
    }
}
