//! Link policies against a disk that stops at every step of a change and its copies, of the job that follows, and of the next start.
//!
//! | row of the matrix | here |
//! |---|---|
//! | a rename and its copies, one record | all of it is there or nothing |
//! | a rename whose copies follow | the rename and its job are there, or neither; the next start goes on |
//! | a deletion that takes documents along, at once or by a job | the same |
//!
//! `PLEACH_TEST_CELL` is the number of seeds a cell (2). Not here: kill -9 of the real binary (package `tests`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod stopping_disk;

use disk::FaultyDisk;
use dsl::json::Node;
use embedded::EmbeddedEngine;
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Clock, Engine, EngineExt as _, Source, Write, WriteOp, address};
use model::{DocId, Result};
use relations::Relations;
use relations::transactions::{Change, Operation, Verdict};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use stopping_disk::{create_index, engine_on, in_time, seeds};

const POSTS: usize = 3;

/// What is done to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Rename,
    Delete,
}

async fn relations_over(engine: &Arc<EmbeddedEngine>) -> Result<Relations> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let shared: Arc<dyn Engine> = engine.clone();
    let relations = Relations::new(shared, clock, Arc::new(Tasks::new(10)), "n1");
    relations.recover().await?;
    Ok(relations)
}

fn put(index: &str, id: &str, document: &Value) -> Operation {
    let write = Write::new(address(index, DocId::plain(id)), WriteOp::Put(Source::from_value(document)));
    Operation::of("index", write)
}

async fn done(relations: &Relations, operation: Operation) -> bool {
    matches!(
        relations.change(&Change::of(vec![operation])).await,
        Ok(Verdict::Committed(_))
    )
}

/// A user, posts that name it, and a policy between them.
async fn set_up(engine: &EmbeddedEngine, relations: &Relations, mode: &str) {
    let keyword = json!({ "type": "keyword" });
    for (index, properties) in [
        ("user", json!({ "name": keyword })),
        (
            "post",
            json!({ "user": { "properties": { "id": keyword, "name": keyword } } }),
        ),
    ] {
        create_index(engine, index, properties).await;
    }
    let policy = json!({
        "source": { "index": "user", "fields": ["name"] }, "target": { "index": "post", "on": { "user.id": "_id" }, "into": "user" },
        "mode": mode, "on_delete": "cascade",
    });
    assert!(relations.put_link_policy("author", Node::from_value(policy)).await.unwrap());
    assert!(done(relations, put("user", "1", &json!({ "name": "old" }))).await);
    for n in 0..POSTS {
        assert!(done(relations, put("post", &n.to_string(), &json!({ "user": { "id": "1" } }))).await);
    }
}

/// The name of the source and those of the copies; `None`: it is not there.
async fn names(engine: &EmbeddedEngine) -> (Option<String>, Vec<Option<String>>) {
    let mut copies = Vec::new();
    for n in 0..POSTS {
        let found = engine.read_one(address("post", DocId::plain(n.to_string()))).await.unwrap();
        let source = found.map(|document| document.source.parse().unwrap());
        copies.push(source.and_then(|source| source["user"]["name"].as_str().map(str::to_owned)));
    }
    let found = engine.read_one(address("user", DocId::plain("1"))).await.unwrap();
    let name = found.and_then(|document| document.source.parse().unwrap()["name"].as_str().map(str::to_owned));
    (name, copies)
}

/// One run against a disk that stops after so many steps: was the change told, did it reach its end, is it there?
async fn struck(mode: &str, act: Act, seed: u64, stop: u64) -> (bool, bool, bool) {
    let what = format!("{mode}, {act:?}, seed {seed}, stopped after {stop} steps");
    let disk = FaultyDisk::new(seed * 1000 + stop);
    let engine = engine_on(&disk).unwrap();
    let relations = relations_over(&engine).await.unwrap();
    set_up(&engine, &relations, mode).await;
    disk.stop_after(stop);
    let before = disk.steps();
    let operation = match act {
        Act::Rename => put("user", "1", &json!({ "name": "new" })),
        Act::Delete => Operation::of("delete", Write::new(address("user", DocId::plain("1")), WriteOp::Delete)),
    };
    let told = tokio::time::timeout(Duration::from_millis(700), async {
        let told = done(&relations, operation).await;
        relations.run_link_jobs().await;
        told
    });
    let told = told.await.unwrap_or(false);
    let whole = told && disk.steps() - before <= stop;
    drop((relations, engine));
    // The first start is stopped as well.
    disk.crash();
    disk.stop_after(stop / 2);
    if let Ok(engine) = engine_on(&disk)
        && let Ok(relations) = relations_over(&engine).await
    {
        let _ = tokio::time::timeout(Duration::from_millis(300), relations.run_link_jobs()).await;
    }
    disk.crash();
    let engine = engine_on(&disk).unwrap();
    let relations = relations_over(&engine).await.unwrap();
    if mode == "sync" {
        assert_eq!(relations.link_stats("author").await.unwrap().pending, 0, "{what}");
    }
    relations.run_link_jobs().await;
    let stats = relations.link_stats("author").await.unwrap();
    assert_eq!((stats.pending, stats.failed), (0, 0), "{what}: {:?}", stats.failure);
    let (name, copies) = names(&engine).await;
    let copied = (act == Act::Rename || name.is_some()).then_some(name.clone()).flatten();
    assert!(
        copies.iter().all(|copy| *copy == copied),
        "{what}: {name:?} beside {copies:?}"
    );
    let there = name.as_deref() != Some("old");
    assert!(there || !told, "{what}: told and lost");
    (told, whole, there)
}

#[test]
fn the_disk_stops_at_every_step_of_a_change_and_its_copies() {
    for (mode, act) in [
        ("sync", Act::Rename),
        ("sync", Act::Delete),
        ("async", Act::Rename),
        ("async", Act::Delete),
    ] {
        let (mut steps, mut lost, mut kept) = (0, 0, 0);
        for seed in 0..seeds() {
            in_time(4, 120, async {
                for stop in 0.. {
                    let (_, whole, there) = struck(mode, act, seed, stop).await;
                    steps += 1;
                    *(if there { &mut kept } else { &mut lost }) += 1;
                    if whole {
                        break;
                    }
                }
            });
        }
        eprintln!("{mode}, {act:?}: stopped at each of {steps} steps, {lost} changes lost whole, {kept} there");
        assert!(lost > 0 && kept > 0 && steps > 2, "{mode}, {act:?}: no step was struck");
    }
}
