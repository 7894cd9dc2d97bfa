//! Views in which writes are staged, held against a map of what they should show, beside writers that change the store, and
//! searches that make a layer of an overlay each. More seeds: `PLEACH_STAGING_SEEDS`.

#![allow(clippy::unwrap_used, reason = "a law that cannot be asked has failed")]

use disk::FaultyDisk;
use dsl::search::SearchRequest;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{
    Alteration, Effect, Engine, Expect, Outcome, Read, Refresh, See, Source, Stage, StagedIndex, Staging, Write, WriteOp, address,
};
use model::{Dialect, DocId, ErrorKind, Target};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// By index and id.
type Shown = BTreeMap<(&'static str, String), Value>;

const INDICES: [&str; 2] = ["often", "never"];

fn open(disk: &FaultyDisk) -> EmbeddedEngine {
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 2 << 20,
        ..Limits::default()
    };
    let clock = Arc::new(SystemClock::default());
    EmbeddedEngine::open_on(Arc::new(disk.of_one_process()), Path::new("/data"), clock, limits).unwrap()
}

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    fn write(&mut self) -> (Write, (&'static str, String), Option<Value>) {
        let at = (INDICES[self.below(2) as usize], self.below(12).to_string());
        let place = address(at.0, DocId::plain(at.1.as_str()));
        if self.below(4) == 0 {
            return (Write::new(place, WriteOp::Delete), at, None);
        }
        let mut source = json!({ "n": self.below(100), "tag": format!("t{}", self.below(3)), "notes": [{ "k": self.below(5) }] });
        if self.below(5) == 0 {
            source[format!("extra{}", self.below(3))] = json!("more");
        }
        (Write::new(place, WriteOp::Put(Source::from_value(&source))), at, Some(source))
    }
}

async fn make(engine: &dyn Engine) {
    for (name, interval) in INDICES.into_iter().zip(["1s", "-1"]) {
        let settings = json!({ "index.refresh_interval": interval });
        let mappings = json!({ "properties": { "n": { "type": "integer" }, "tag": { "type": "keyword" },
            "notes": { "type": "nested", "properties": { "k": { "type": "integer" } } } } });
        let wish = Alteration::CreateIndex {
            name: name.into(),
            settings: settings.as_object().cloned().unwrap(),
            mappings: Some(mappings),
            aliases: Map::new(),
            typed: false,
            if_absent: false,
        };
        engine.alter(wish).await.unwrap();
    }
}

async fn search(engine: &dyn Engine, indices: &[&str], view: &str, body: Value) -> Value {
    let node = dsl::json::read(body.to_string().as_bytes(), dsl::json::Reading::default()).unwrap();
    let mut request = SearchRequest::parse(node, Dialect::default()).unwrap();
    request.view = Some(view.to_owned());
    let target = Target::of(indices.iter().map(|i| (*i).to_owned()).collect());
    let found = engine.search(&target, request, See::Plain).await.unwrap();
    Value::Object(found.render(Dialect::default()))
}

async fn stage(engine: &EmbeddedEngine, view: &str, write: Write) -> Outcome {
    let one = Stage {
        write,
        creates: Some(false),
    };
    engine.stage(view, vec![one]).await.unwrap().pop().unwrap()
}

/// Everything that a view shows is what the map says: hits, sums, nested documents, reads by id.
async fn check(engine: &EmbeddedEngine, view: &str, shown: &Shown, told: &str) {
    let body = json!({ "size": 100, "aggs": { "n": { "sum": { "field": "n" } },
        "notes": { "nested": { "path": "notes" }, "aggs": { "k": { "sum": { "field": "notes.k" } } } } } });
    let found = search(engine, &INDICES, view, body).await;
    let text = |hit: &Value, name: &str| hit[name].as_str().unwrap().to_owned();
    let hits = found["hits"]["hits"].as_array().unwrap().iter();
    let mut hits: Vec<((String, String), Value)> = hits
        .map(|hit| ((text(hit, "_index"), text(hit, "_id")), hit["_source"].clone()))
        .collect();
    hits.sort_by(|a, b| a.0.cmp(&b.0));
    let expected: Vec<((String, String), Value)> = shown
        .iter()
        .map(|((index, id), source)| (((*index).to_owned(), id.clone()), source.clone()))
        .collect();
    assert_eq!(hits, expected, "{told}");
    let sum = |pointer: &str| shown.values().filter_map(|s| s.pointer(pointer)?.as_f64()).sum::<f64>();
    let aggs = &found["aggregations"];
    assert_eq!(aggs["n"]["value"], sum("/n"), "{told}");
    assert_eq!(aggs["notes"]["k"]["value"], sum("/notes/0/k"), "{told}");
    for index in INDICES {
        for id in 0..12 {
            let read = Read::whole(address(index, DocId::plain(id.to_string())));
            let seen = Staging::read(engine, view, vec![read]).await.unwrap().pop().unwrap().unwrap();
            let source = seen.document.map(|document| document.source.parse().unwrap());
            assert_eq!(
                source.as_ref(),
                shown.get(&(index, id.to_string())),
                "{told}: [{index}][{id}]"
            );
        }
    }
}

async fn run(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9) + 1);
    let engine = open(&FaultyDisk::new(seed));
    make(&engine).await;
    let mut now: Shown = BTreeMap::new();
    let write = |random: &mut Random, now: &mut Shown| {
        let (write, at, source) = random.write();
        match source {
            Some(source) => drop(now.insert(at, source)),
            None => drop(now.remove(&at)),
        }
        write
    };
    for n in 0..40 {
        let refresh = if n % 9 == 0 { Refresh::Now } else { Refresh::No };
        engine.write(vec![write(&mut random, &mut now)], refresh).await.unwrap();
    }
    let view = engine.begin().await.unwrap();
    let before = now.clone();
    let mut shown = before.clone();
    check(&engine, &view.id, &shown, "at the beginning").await;
    for n in 0..60 {
        let told = format!("seed {seed}, step {n}");
        // Others write, refresh and merge.
        engine.write(vec![write(&mut random, &mut now)], Refresh::No).await.unwrap();
        if n % 11 == 0 {
            engine.refresh(&Target::index("often"), None).await.unwrap();
        }
        if n == 30 {
            let merge = Alteration::ForceMerge {
                target: Target::index("often"),
                max_num_segments: 1,
                only_expunge_deletes: false,
            };
            engine.alter(merge).await.unwrap();
        }
        let (write, at, source) = random.write();
        let there = shown.contains_key(&at);
        let outcome = stage(&engine, &view.id, write).await;
        let effect = match (&source, there) {
            (Some(_), true) => Effect::Updated,
            (Some(_), false) => Effect::Created,
            (None, true) => Effect::Deleted,
            (None, false) => Effect::NotFound,
        };
        assert!(
            matches!(&outcome, Outcome::Written(w) if w.effect == effect && w.stamp.is_staged()),
            "{told}: {outcome:?}"
        );
        match source {
            Some(source) => drop(shown.insert(at, source)),
            None => drop(shown.remove(&at)),
        }
        if random.below(3) == 0 {
            check(&engine, &view.id, &shown, &told).await;
        }
    }
    check(&engine, &view.id, &shown, "in the end").await;
    // What all of it comes to makes the one of the other.
    let mut made = before;
    for staged in engine.staged_documents(&view.id).await.unwrap() {
        assert!(matches!(staged.index, StagedIndex::Known { .. }));
        let index = INDICES.into_iter().find(|i| *i == staged.at.index.as_str()).unwrap();
        let at = (index, staged.at.id.id.to_string());
        assert_eq!(
            staged.before.is_some(),
            made.contains_key(&at),
            "it was there at the beginning, or not"
        );
        match staged.put {
            Some(put) => drop(made.insert(at, put.source.parse().unwrap())),
            None => drop(made.remove(&at)),
        }
    }
    assert_eq!(made, shown, "seed {seed}");
    assert!(engine.close_view(&view.id).await.unwrap());
    assert!(!engine.close_view(&view.id).await.unwrap());
    assert!(engine.views().await.unwrap().is_empty());
    let gone = engine.staged_documents(&view.id).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::SearchContextMissing);
    engine.close().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_shows_its_moment_and_what_was_staged() {
    let seeds = std::env::var("PLEACH_STAGING_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(6);
    for seed in 0..seeds {
        run(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_leaves_nothing() {
    let engine = open(&FaultyDisk::new(1));
    make(&engine).await;
    let put = |index: &str, id: &str, source: Value| {
        let at = address(index, DocId::plain(id));
        Write::new(at, WriteOp::Put(Source::from_value(&source)))
    };
    engine
        .write(vec![put("often", "1", json!({ "n": 1 }))], Refresh::No)
        .await
        .unwrap();
    let view = engine.begin().await.unwrap().id;
    let check = async |write: Write, refused: bool| {
        let outcome = stage(&engine, &view, write).await;
        let is = matches!(outcome, Outcome::Refused(_) | Outcome::Conflict(_));
        assert_eq!(is, refused, "{outcome:?}");
    };
    check(put("often", "2", json!({ "n": "no number" })), true).await;
    check(put("made", "2", json!({ "a": { "b": 1 }, "a.b.c": 2 })), true).await;
    check(put("UPPER", "2", json!({})), true).await;
    let mut create = put("often", "1", json!({}));
    create.expect = Expect::Absent;
    check(create, true).await;
    assert!(engine.staged_documents(&view).await.unwrap().is_empty());
    assert_eq!(engine.staged_bytes(&view).await.unwrap(), 0);
    // A condition means what the view began with, whatever was staged since.
    let conditional = |n: u64| {
        let mut write = put("often", "1", json!({ "n": n }));
        write.expect = Expect::Unchanged {
            seq_no: 0,
            primary_term: 1,
        };
        write
    };
    check(conditional(2), false).await;
    check(conditional(3), false).await;
    check(put("made", "1", json!({ "a": 1 })), false).await;
    let staged = engine.staged_documents(&view).await.unwrap();
    assert_eq!(staged.len(), 2);
    assert!(matches!(&staged[1].index, StagedIndex::Made { name, typed: false } if name.as_str() == "made"));
    let found = search(&engine, &["made"], &view, json!({ "query": { "term": { "a": 1 } } })).await;
    assert_eq!(found["hits"]["total"]["value"], 1);
    let outside = engine
        .search(&Target::index("made"), SearchRequest::new(Dialect::default()), See::Plain)
        .await;
    assert_eq!(outside.unwrap_err().kind(), ErrorKind::IndexNotFound);
    engine.close_view(&view).await.unwrap();
    engine.close().unwrap();
}
