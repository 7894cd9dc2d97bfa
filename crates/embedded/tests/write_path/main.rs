//! The write path against what goes wrong: a test a row of the table of its design, and the bounds.
//!
//! | Goes wrong | Caught by |
//! |---|---|
//! | acknowledged write lost | `faults::nothing_acknowledged_is_lost_at_any_step`, the kill loop of the package `tests` |
//! | what was told is taken back | `durability` |
//! | stale frame revived | `log::tests::stale_frames_never_revive` |
//! | delete lost in merge | `races::no_delete_is_lost_in_a_merge` |
//! | half a batch seen | `races::no_search_sees_half_a_change` |
//! | GET falls between map and set | `races::no_read_falls_between_map_and_set` |
//! | document before its mapping | `faults::the_tail_cut_at_every_byte` |
//! | poison blocks refresh | `index::build::tests` |
//! | cold index pins log | `bounds::a_cold_index_does_not_pin_the_log` |
//! | handle leak | `bounds::refreshes_stay_as_fast_as_they_were` |
//! | a bit flips | `damage` |
//! | old-schema reader panics | `races::fields_grow_under_searches` |
//!
//! Not here: what goes right (`laws`), the contract that engines share (`contract`).

#![allow(clippy::unwrap_used, reason = "a law that cannot be asked has failed")]

mod bounds;
mod damage;
mod durability;
mod faults;
mod parts;
mod races;

use disk::FaultyDisk;
use dsl::json::Node;
use dsl::search::{SearchRequest, SearchResponse};
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{
    Alteration, Engine, EngineExt, IndexInfo, IndexStats, Inspected, Inspection, NodeStats, Outcome, Refresh, See, Source, Write,
    WriteOp, address,
};
use model::{DocId, Error, Result, Target};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/data";

fn small() -> Limits {
    Limits {
        log_file_bytes: 1 << 20,
        queue_bytes: 512 << 10,
        checkpoint_bytes: 256 << 10,
        ..Limits::default()
    }
}

fn try_open(disk: &FaultyDisk, limits: Limits) -> Result<EmbeddedEngine> {
    EmbeddedEngine::open_on(
        Arc::new(disk.of_one_process()),
        Path::new(DIR),
        Arc::new(SystemClock::default()),
        limits,
    )
}

fn open(disk: &FaultyDisk) -> EmbeddedEngine {
    try_open(disk, small()).unwrap()
}

/// So many rounds of a test, or as the variable says.
fn rounds(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

async fn try_create(engine: &dyn Engine, name: &str, settings: Value, mappings: Value) -> Result<()> {
    let wish = Alteration::CreateIndex {
        name: name.into(),
        settings: settings.as_object().cloned().unwrap_or_default(),
        mappings: Some(mappings),
        aliases: Map::new(),
        typed: false,
        if_absent: false,
    };
    engine.alter(wish).await.map(drop)
}

async fn create(engine: &dyn Engine, name: &str, settings: Value) {
    try_create(engine, name, settings, json!({})).await.unwrap();
}

fn put(index: &str, id: &str, source: Value) -> Write {
    Write::new(address(index, DocId::plain(id)), WriteOp::Put(Source::from_value(&source)))
}

fn delete(index: &str, id: &str) -> Write {
    Write::new(address(index, DocId::plain(id)), WriteOp::Delete)
}

/// A refusal as an error; done is done.
async fn try_write(engine: &dyn Engine, write: Write) -> Result<()> {
    match engine.write_one(write, Refresh::No).await? {
        Outcome::Written(_) => Ok(()),
        Outcome::Refused(error) => Err(error),
        Outcome::Unknown => Err(Error::illegal("unknown")),
        other => panic!("{other:?}"),
    }
}

async fn write(engine: &dyn Engine, one: Write) {
    try_write(engine, one).await.unwrap();
}

async fn source(engine: &dyn Engine, index: &str, id: &str) -> Option<Value> {
    let read = engine.read_one(address(index, DocId::plain(id))).await.unwrap();
    read.map(|document| document.source.parse().unwrap())
}

async fn try_search(engine: &dyn Engine, indices: &[&str], body: Value) -> Result<SearchResponse> {
    let request = SearchRequest::parse(Node::from_value(body), model::Dialect::default()).unwrap();
    let target = Target::of(indices.iter().map(|name| (*name).to_owned()).collect());
    engine.search(&target, request, See::Plain).await
}

/// As [`try_search`], all or nothing.
async fn search_whole(engine: &dyn Engine, indices: &[&str], body: Value) -> Result<SearchResponse> {
    let request = SearchRequest::parse(Node::from_value(body), model::Dialect::default()).unwrap();
    let target = Target::of(indices.iter().map(|name| (*name).to_owned()).collect());
    let allow_partial = false;
    engine
        .search(
            &target,
            SearchRequest {
                allow_partial,
                ..request
            },
            See::Plain,
        )
        .await
}

async fn count(engine: &dyn Engine, index: &str, query: Value) -> u64 {
    let answer = try_search(engine, &[index], json!({ "query": query, "size": 0 }))
        .await
        .unwrap();
    answer.hits.total.unwrap().value
}

async fn refresh(engine: &dyn Engine, index: &str) {
    engine.refresh(&Target::index(index), None).await.unwrap();
}

async fn flush(engine: &dyn Engine) -> Result<()> {
    engine.alter(Alteration::Flush(Target::of(vec!["*".into()]))).await.map(drop)
}

async fn stats(engine: &dyn Engine, index: &str) -> (IndexInfo, IndexStats) {
    match engine.inspect(Inspection::Stats(Target::index(index))).await.unwrap() {
        Inspected::Stats(mut all) => all.remove(0),
        other => panic!("{other:?}"),
    }
}

async fn node(engine: &dyn Engine) -> NodeStats {
    match engine.inspect(Inspection::Node).await.unwrap() {
        Inspected::Node(node) => *node,
        other => panic!("{other:?}"),
    }
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
