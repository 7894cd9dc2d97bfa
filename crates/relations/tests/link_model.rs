//! Link policies beside a fold: random writes of sources and targets, chains of policies, transactions and restarts, and after each
//! step every document is as a fold over all of them makes it. `PLEACH_LINK_CASES` says how many runs (2,000).
//!
//! The model keeps documents in maps and knows one rule: a copy is what its source says, as soon as there is one.

use async_trait::async_trait;
use dsl::json::Node;
use dsl::query::Query;
use engine::clock::SystemClock;
use engine::memory::MemoryEngine;
use engine::tasks::Tasks;
use engine::{Alteration, Around, AtomicWrites, Barrier, Clock, Document, Engine, EngineExt as _, See, Source, Write, WriteOp};
use futures::executor::block_on;
use futures::stream::BoxStream;
use model::random::random;
use model::{DocAddress, DocId, IndexName, Result, Target};
use relations::Relations;
use relations::transactions::{Change, Operation, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const STEPS: usize = 25;
const IDS: u64 = 4;

/// All documents, by index and id.
type World = BTreeMap<(&'static str, String), Value>;

/// What the two policies say.
#[derive(Clone, Copy, Debug)]
struct Rules {
    on_delete: &'static str,
    on_missing: &'static str,
    mode: &'static str,
}

/// One write: an index, an id, and the document; `None`: it goes.
type Op = (&'static str, String, Option<Value>);

struct Played {
    engine: Arc<MemoryEngine>,
    relations: Relations,
    clock: Arc<dyn Clock>,
}

fn relations(engine: Arc<dyn Engine>, clock: &Arc<dyn Clock>) -> Relations {
    let relations = Relations::new(engine, clock.clone(), Arc::new(Tasks::new(10)), "n1");
    block_on(relations.recover()).expect("the policies can be read");
    relations
}

impl Played {
    /// user → post → comment
    fn new(rules: Rules) -> Played {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let engine = Arc::new(MemoryEngine::new(clock.clone()));
        let keyword = json!({ "type": "keyword" });
        for (name, properties) in [
            ("user", json!({ "name": keyword })),
            (
                "post",
                json!({ "title": keyword, "user": { "properties": { "id": keyword, "name": keyword } } }),
            ),
            (
                "comment",
                json!({ "post_id": keyword, "post": { "properties": { "title": keyword, "user": { "properties": { "name": keyword } } } } }),
            ),
        ] {
            let make = Alteration::CreateIndex {
                name: name.to_owned(),
                settings: serde_json::Map::new(),
                mappings: Some(json!({ "properties": properties })),
                aliases: serde_json::Map::new(),
                typed: false,
                if_absent: false,
            };
            block_on(engine.alter(make)).expect("an index");
        }
        let played = Played {
            relations: relations(engine.clone(), &clock),
            engine,
            clock,
        };
        let put = |name: &str, source: Value, target: Value| {
            let body = json!({
                "source": source, "target": target, "mode": rules.mode, "on_delete": rules.on_delete, "on_missing": rules.on_missing,
            });
            let put = played.relations.put_link_policy(name, Node::from_value(body));
            assert!(block_on(put).expect("a policy"), "it is new");
        };
        put(
            "author",
            json!({ "index": "user", "fields": ["name"] }),
            json!({ "index": "post", "on": { "user.id": "_id" }, "into": "user" }),
        );
        put(
            "post",
            json!({ "index": "post", "fields": ["title", "user.name"] }),
            json!({ "index": "comment", "on": { "post_id": "_id" }, "into": "post" }),
        );
        played
    }

    fn restart(&mut self) {
        self.relations = relations(self.engine.clone(), &self.clock);
    }

    fn at(index: &str, id: &str) -> DocAddress {
        DocAddress {
            index: IndexName::new(index),
            id: DocId::plain(id),
        }
    }

    /// All of the operations or none; true if they were done.
    fn change(&self, ops: &[Op]) -> Result<bool> {
        let operation = |(index, id, document): &Op| {
            let (label, op) = match document {
                Some(document) => ("index", WriteOp::Put(Source::from_value(document))),
                None => ("delete", WriteOp::Delete),
            };
            Operation::of(label, Write::new(Played::at(index, id), op))
        };
        let verdict = block_on(self.relations.change(&Change::of(ops.iter().map(operation).collect())))?;
        Ok(matches!(verdict, Verdict::Committed(_)))
    }

    fn documents(&self) -> World {
        let mut out = World::new();
        for index in ["user", "post", "comment"] {
            for id in 0..IDS {
                let found = block_on(self.engine.read_one(Played::at(index, &id.to_string()))).expect("a read");
                if let Some(found) = found {
                    out.insert((index, id.to_string()), found.source.parse().expect("JSON"));
                }
            }
        }
        out
    }
}

/// The references of a document: the object that has the key, the key, and the index that it is of.
fn references(index: &str, document: &Value) -> Vec<String> {
    let objects = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let keys = match index {
        "post" => objects(&document["user"]).iter().map(|user| user["id"].clone()).collect(),
        "comment" => vec![document["post_id"].clone()],
        _ => Vec::new(),
    };
    keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect()
}

fn source_of(index: &str) -> &'static str {
    if index == "post" { "user" } else { "post" }
}

/// Every copy whose source is there is as the source.
fn fill(world: &mut World) {
    for index in ["post", "comment"] {
        let before = world.clone();
        for ((of, _), document) in world.iter_mut().filter(|((of, _), _)| *of == index) {
            debug_assert_eq!(*of, index);
            if index == "post" {
                let users: Vec<&mut Value> = match &mut document["user"] {
                    Value::Array(items) => items.iter_mut().collect(),
                    Value::Null => Vec::new(),
                    one => vec![one],
                };
                for user in users {
                    let source = user["id"].as_str().and_then(|key| before.get(&("user", key.to_owned())));
                    if let Some(source) = source {
                        copy(user, "name", source.get("name").cloned());
                    }
                }
            } else if let Some(post) = document["post_id"]
                .as_str()
                .and_then(|key| before.get(&("post", key.to_owned())))
            {
                let name = match &post["user"] {
                    Value::Array(users) => {
                        let names: Vec<Value> = users.iter().filter_map(|user| user.get("name").cloned()).collect();
                        (!names.is_empty()).then_some(Value::Array(names))
                    }
                    one => one.get("name").cloned(),
                };
                let title = post.get("title").cloned();
                if !document["post"].is_object() && (title.is_some() || name.is_some()) {
                    document["post"] = json!({});
                }
                if document["post"].is_object() {
                    copy(&mut document["post"], "title", title);
                    if name.is_some() && !document["post"]["user"].is_object() {
                        document["post"]["user"] = json!({});
                    }
                    if document["post"]["user"].is_object() {
                        copy(&mut document["post"]["user"], "name", name);
                    }
                }
            }
        }
    }
}

fn copy(object: &mut Value, name: &str, value: Option<Value>) {
    let object = object.as_object_mut().expect("an object");
    match value {
        Some(value) => drop(object.insert(name.to_owned(), value)),
        None => drop(object.shift_remove(name)),
    }
}

/// The world after a change; `None`: it is refused.
fn fold(before: &World, ops: &[Op], rules: Rules) -> Option<World> {
    let mut after = before.clone();
    for (index, id, document) in ops {
        match document {
            Some(document) => drop(after.insert((index, id.clone()), document.clone())),
            None => drop(after.remove(&(*index, id.clone()))),
        }
    }
    let written = |at: &(&'static str, String)| ops.iter().any(|(index, id, _)| *index == at.0 && *id == at.1);
    for index in ["post", "comment"] {
        let source = source_of(index);
        let gone: Vec<String> = before
            .keys()
            .filter(|at| at.0 == source && !after.contains_key(*at))
            .map(|at| at.1.clone())
            .collect();
        for key in gone {
            let linked: Vec<_> = after
                .iter()
                .filter(|(at, document)| at.0 == index && references(index, document).contains(&key))
                .map(|(at, _)| at.clone())
                .collect();
            match rules.on_delete {
                "restrict" if !linked.is_empty() => return None,
                "cascade" if linked.iter().any(written) => return None,
                "cascade" => linked.iter().for_each(|at| drop(after.remove(at))),
                "unset" => linked
                    .iter()
                    .for_each(|at| unset(index, after.get_mut(at).expect("it is there"), &key)),
                _ => {}
            }
        }
    }
    if rules.on_missing == "reject" {
        for (at, document) in after.iter().filter(|(at, _)| at.0 != "user" && written(at)) {
            let had = before.get(at).map(|document| references(at.0, document)).unwrap_or_default();
            let is_missing = |key: &String| !had.contains(key) && !after.contains_key(&(source_of(at.0), key.clone()));
            if references(at.0, document).iter().any(is_missing) {
                return None;
            }
        }
    }
    fill(&mut after);
    Some(after)
}

fn unset(index: &str, document: &mut Value, key: &str) {
    if index == "comment" {
        copy(document, "post_id", None);
        if document["post"].is_object() {
            copy(&mut document["post"], "title", None);
            if document["post"]["user"].is_object() {
                copy(&mut document["post"]["user"], "name", None);
            }
        }
        return;
    }
    let users: Vec<&mut Value> = match &mut document["user"] {
        Value::Array(items) => items.iter_mut().collect(),
        one => vec![one],
    };
    for user in users.into_iter().filter(|user| user["id"] == key) {
        copy(user, "id", None);
        copy(user, "name", None);
    }
}

/// A write without what the model would have to index with `null`.
fn op(below: &mut impl FnMut(u64) -> u64) -> Op {
    let id = below(IDS).to_string();
    let index = ["user", "post", "post", "comment"][below(4) as usize];
    if below(5) == 0 {
        return (index, id, None);
    }
    let key = below(IDS).to_string();
    let document = match index {
        "user" if below(6) == 0 => json!({ "other": below(100) }),
        "user" => json!({ "name": format!("n{}", below(100)) }),
        "post" => {
            let title = format!("t{}", below(100));
            match below(4) {
                0 => json!({ "title": title, "user": null }),
                1 => json!({ "title": title, "user": [{ "id": key }, { "id": below(IDS).to_string(), "name": "wrong" }] }),
                2 => json!({ "title": title, "user": { "name": "free" } }),
                _ => json!({ "title": title, "user": { "id": key } }),
            }
        }
        _ => json!({ "post_id": key, "post": { "user": {} } }),
    };
    (index, id, Some(document))
}

fn play(seed: u64) {
    let mut below = random(seed);
    let rules = Rules {
        on_delete: ["restrict", "cascade", "unset", "ignore"][below(4) as usize],
        on_missing: ["reject", "allow"][below(2) as usize],
        mode: "sync",
    };
    let mut played = Played::new(rules);
    let mut world = World::new();
    for step in 0..STEPS {
        let say = format!("seed {seed}, step {step}, {rules:?}");
        let mut ops: Vec<Op> = Vec::new();
        for _ in 0..1 + below(3) {
            let next = op(&mut below);
            // One operation a document: what several come to is not what is looked at here.
            if !ops.iter().any(|(index, id, _)| (*index, id) == (next.0, &next.1)) {
                ops.push(next);
            }
        }
        let expected = fold(&world, &ops, rules);
        let done = played.change(&ops).unwrap_or_else(|error| panic!("{say}: {ops:?}: {error}"));
        assert_eq!(done, expected.is_some(), "{say}: {ops:?} on {world:?}");
        world = expected.unwrap_or(world);
        assert_eq!(played.documents(), world, "{say}: {ops:?}");
        if below(8) == 0 {
            played.restart();
        }
    }
}

#[test]
fn copies_are_as_a_fold_makes_them() {
    let cases = std::env::var("PLEACH_LINK_CASES").ok().and_then(|text| text.parse().ok());
    (1..=cases.unwrap_or(2_000)).for_each(play);
}

/// In mode async copies follow later: once the work is done they are as the newest sources, restarts between or not.
fn play_later(seed: u64) {
    let mut below = random(seed);
    let rules = Rules {
        on_delete: ["cascade", "unset", "ignore"][below(3) as usize],
        on_missing: "allow",
        mode: "async",
    };
    let mut played = Played::new(rules);
    for _ in 0..STEPS {
        let next = op(&mut below);
        assert!(played.change(&[next]).expect("a change"), "nothing refuses it");
        match below(6) {
            0 => played.restart(),
            1 => block_on(played.relations.run_link_jobs()),
            _ => {}
        }
    }
    block_on(played.relations.run_link_jobs());
    for policy in ["author", "post"] {
        let stats = block_on(played.relations.link_stats(policy)).expect("figures");
        assert_eq!(
            (stats.pending, stats.failed),
            (0, 0),
            "seed {seed}, {policy}: {:?}",
            stats.failure
        );
        let checked = block_on(played.relations.check_links(policy, 5)).expect("a check");
        assert!(checked.different == 0, "seed {seed}, {policy}, {rules:?}: {checked:?}");
    }
    let world = played.documents();
    let mut filled = world.clone();
    fill(&mut filled);
    assert_eq!(world, filled, "seed {seed}");
}

/// An engine whose next scan panics.
#[derive(Debug)]
struct PanickingScan {
    inner: Arc<MemoryEngine>,
    is_next: AtomicBool,
}

#[async_trait]
impl Around for PanickingScan {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }

    async fn scans(
        &self,
        target: &Target,
        query: Query,
        see: See,
        barrier: Barrier,
    ) -> Result<BoxStream<'static, Result<Document>>> {
        assert!(!self.is_next.swap(false, Ordering::Relaxed), "the next scan panics");
        self.inner.scan(target, query, see, barrier).await
    }

    fn section(&self) -> Option<&dyn AtomicWrites> {
        self.inner.atomic()
    }
}

/// A panic ends one try of a job; the next try does the work.
#[test]
fn a_job_that_panics_is_tried_again() {
    let mut played = Played::new(Rules {
        on_delete: "ignore",
        on_missing: "allow",
        mode: "async",
    });
    let put = |index: &'static str, document: Value| played.change(&[(index, "1".to_owned(), Some(document))]);
    put("post", json!({ "title": "t", "user": { "id": "1" } })).expect("a post");
    put("user", json!({ "name": "n" })).expect("its user");
    let engine = Arc::new(PanickingScan {
        inner: played.engine.clone(),
        is_next: AtomicBool::new(false),
    });
    played.relations = relations(engine.clone(), &played.clock);
    engine.is_next.store(true, Ordering::Relaxed);
    let pending = || block_on(played.relations.link_stats("author")).expect("figures").pending;
    assert_eq!(pending(), 1);
    // The second try comes after a wait.
    while pending() > 0 {
        block_on(played.relations.run_link_jobs());
    }
    assert!(!engine.is_next.load(Ordering::Relaxed), "a scan panicked");
    assert_eq!(played.documents()[&("post", "1".to_owned())]["user"]["name"], "n");
}

#[test]
fn copies_follow_later() {
    let cases: u64 = std::env::var("PLEACH_LINK_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2_000);
    (1..=cases.div_ceil(4)).for_each(play_later);
}
