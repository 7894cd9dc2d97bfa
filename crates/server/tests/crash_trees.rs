//! Changes of directories against a disk that stops at every step: a move, a merge and a removal are done whole or not at all.
//!
//! | row of the matrix | here |
//! |---|---|
//! | before append; torn; after fsync, before flip, before answer | the disk stops at each step of the change |
//! | during checkpoint | it stops at each step of a flush behind the change |
//! | during replay | it stops at each step of the next start, and power fails again |
//!
//! `PLEACH_TEST_CELL` is the number of seeds a cell (2). Not here: changes of documents (`crash`), kill -9 of the real binary
//! (package `tests`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod stopping_disk;

use disk::FaultyDisk;
use dsl::query::{Clause, Query, TermQuery};
use dsl::search::{SearchRequest, TrackTotal};
use embedded::EmbeddedEngine;
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{Alteration, Clock, Engine, EngineExt as _, Outcome, Refresh, Source, TreeAct, TreeChange, Write, WriteOp, address};
use model::{DocId, Result, Target};
use relations::Relations;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use stopping_disk::{create_index, engine_on, in_time, seeds};

const INDEX: &str = "fs";
/// The documents and their directories before a change.
const BEFORE: [(&str, &str); 5] = [("1", "/a"), ("2", "/a/b"), ("3", "/a/b"), ("4", "/c"), ("5", "/c/b")];

/// A change, and what it makes of the documents.
type Case = (&'static str, TreeAct, &'static [(&'static str, &'static str)]);

fn cases() -> Vec<Case> {
    let move_to = |from: &str, to: &str, merge| TreeAct::Move {
        from: from.to_owned(),
        to: to.to_owned(),
        merge,
    };
    vec![
        (
            "move",
            move_to("/a", "/x/y", false),
            &[("1", "/x/y"), ("2", "/x/y/b"), ("3", "/x/y/b"), ("4", "/c"), ("5", "/c/b")],
        ),
        (
            "merge",
            move_to("/a", "/c", true),
            &[("1", "/c"), ("2", "/c/b"), ("3", "/c/b"), ("4", "/c"), ("5", "/c/b")],
        ),
        (
            "remove",
            TreeAct::Remove { path: "/a".to_owned() },
            &[("4", "/c"), ("5", "/c/b")],
        ),
    ]
}

fn open(disk: &FaultyDisk) -> Result<(Arc<EmbeddedEngine>, Relations)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = engine_on(disk)?;
    let relations = Relations::new(engine.clone(), clock, Arc::new(Tasks::new(10)), "n1");
    Ok((engine, relations))
}

/// Half of the documents are in segments of a checkpoint, half in no segment.
async fn fill(engine: &EmbeddedEngine) {
    create_index(engine, INDEX, json!({ "path": { "type": "tree_path" } })).await;
    for (n, (id, path)) in BEFORE.iter().enumerate() {
        let source = Source::from_value(&json!({ "path": path }));
        let write = Write::new(address(INDEX, DocId::plain(*id)), WriteOp::Put(source));
        let outcomes = engine.write(vec![write], Refresh::No).await.unwrap();
        assert!(matches!(outcomes.as_slice(), [Outcome::Written(_)]), "{outcomes:?}");
        if n == 2 {
            engine.alter(Alteration::Flush(Target::index(INDEX))).await.unwrap();
        }
    }
}

async fn change(relations: &Relations, act: &TreeAct) -> bool {
    let change = TreeChange {
        index: INDEX.to_owned(),
        field: None,
        act: act.clone(),
    };
    relations.change_directory(&change, &[]).await.is_ok()
}

/// The documents by id; searches must agree.
async fn shown(engine: &EmbeddedEngine, relations: &Relations, what: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for (id, _) in BEFORE {
        let read = engine.read_one(address(INDEX, DocId::plain(id))).await.unwrap();
        if let Some(document) = read {
            let source = document.source.parse().unwrap();
            out.insert(id.to_owned(), source["path"].as_str().unwrap().to_owned());
        }
    }
    engine.refresh(&Target::index(INDEX), None).await.unwrap();
    assert_eq!(
        found(relations, Query::all()).await,
        out.len() as u64,
        "{what}: every document"
    );
    for top in ["/a", "/c", "/x"] {
        let below = out.values().filter(|path| {
            path.strip_prefix(top)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        let term = TermQuery {
            field: "path.tree".to_owned(),
            value: top.into(),
            case_insensitive: false,
        };
        let count = found(relations, Clause::Term(term).into()).await;
        assert_eq!(count, below.count() as u64, "{what}: below {top}");
    }
    out
}

async fn found(relations: &Relations, query: Query) -> u64 {
    let request = SearchRequest {
        query: Some(query),
        size: 0,
        track_total_hits: TrackTotal::Exact,
        ..SearchRequest::default()
    };
    let found = relations.search(&Target::index(INDEX), request).await.unwrap();
    found.hits.total.unwrap().value
}

fn map(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(id, path)| ((*id).to_owned(), (*path).to_owned())).collect()
}

/// The disk stops at every step of a change, then power fails.
#[test]
fn the_disk_stops_at_every_step_of_a_change() {
    for ((name, act, after), seed) in cases().iter().flat_map(|case| (0..seeds()).map(move |seed| (case, seed))) {
        in_time(2, 300, async {
            let (mut told, mut lost) = (0, 0);
            for stop in 0.. {
                let what = format!("{name}, seed {seed}, stopped after {stop} steps");
                let disk = FaultyDisk::new(seed * 1000 + stop);
                let (engine, relations) = open(&disk).unwrap();
                fill(&engine).await;
                disk.stop_after(stop);
                let before = disk.steps();
                let done = change(&relations, act).await;
                let whole = done && disk.steps() - before <= stop;
                drop((relations, engine));
                disk.crash();
                let (engine, relations) = open(&disk).unwrap();
                let now = shown(&engine, &relations, &what).await;
                let is_done = now == map(after);
                assert!(is_done || now == map(&BEFORE), "{what}: half of it: {now:?}");
                assert!(is_done || !done, "{what}: told and lost");
                (told, lost) = (told + u64::from(done), lost + u64::from(!is_done));
                if whole {
                    break;
                }
            }
            assert!(told > 0 && lost > 0, "{name}, seed {seed}: no step was struck");
        });
    }
}

/// The same at every step of a flush behind the change, and of the start after it.
#[test]
fn the_disk_stops_at_every_step_of_a_flush_and_of_a_start() {
    for ((name, act, after), seed) in cases().iter().flat_map(|case| (0..seeds()).map(move |seed| (case, seed))) {
        in_time(2, 300, async {
            for stop in 0.. {
                let what = format!("{name}, seed {seed}, stopped after {stop} steps");
                let disk = FaultyDisk::new(seed * 1000 + stop);
                let (engine, relations) = open(&disk).unwrap();
                fill(&engine).await;
                assert!(change(&relations, act).await, "{what}");
                disk.stop_after(stop);
                let before = disk.steps();
                let flushed = engine.alter(Alteration::Flush(Target::index(INDEX))).await.is_ok();
                let whole = flushed && disk.steps() - before <= stop;
                drop((relations, engine));
                disk.crash();
                // The next start stops at the same step, if it has so many.
                disk.stop_after(stop);
                drop(open(&disk));
                disk.crash();
                let (engine, relations) = open(&disk).unwrap();
                assert_eq!(shown(&engine, &relations, &what).await, map(after), "{what}");
                engine.alter(Alteration::Flush(Target::index(INDEX))).await.unwrap();
                drop((relations, engine));
                let (engine, relations) = open(&disk).unwrap();
                assert_eq!(
                    shown(&engine, &relations, &what).await,
                    map(after),
                    "{what}: out of a checkpoint"
                );
                if whole {
                    break;
                }
            }
        });
    }
}
