//! The feed with changes of directories: who applies it, path by path, has the documents of the store after every step, through
//! kills of the server. `PLEACH_TREE_RUNS` says how many runs (2).

use model::random::random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::Server;

/// Checkpoints come by themselves several times a run.
const FREQUENT: &[&str] = &["log.checkpoint_ops=20", "log.checkpoint_bytes=16kb"];
const STEPS: usize = 60;

/// The paths of documents by id.
type Paths = BTreeMap<String, Vec<String>>;

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn paths_of(source: &Value) -> Vec<String> {
    let one = |value: &Value| value.as_str().map(|path| path.trim_end_matches('/').to_owned());
    match &source["path"] {
        Value::Array(all) => all.iter().filter_map(one).collect(),
        path => one(path).into_iter().collect(),
    }
}

#[derive(Default)]
struct Follower {
    since: u64,
    documents: Paths,
    /// Changes of directories that it saw, by kind.
    seen: BTreeMap<String, u64>,
}

impl Follower {
    fn read(&mut self, server: &Server) {
        loop {
            let answer = server.ok("GET", &format!("/_changes?since={}&limit=50", self.since), &Value::Null);
            for change in answer["changes"].as_array().into_iter().flatten() {
                for operation in change["operations"].as_array().into_iter().flatten() {
                    self.apply(operation);
                }
            }
            let next = answer["next"].as_u64().unwrap_or_default();
            if next == self.since {
                return;
            }
            self.since = next;
        }
    }

    fn apply(&mut self, operation: &Value) {
        let text = |name: &str| operation[name].as_str().unwrap_or_default().to_owned();
        match operation["op"].as_str() {
            Some("index") => drop(self.documents.insert(text("_id"), paths_of(&operation["_source"]))),
            Some("delete") => drop(self.documents.remove(&text("_id"))),
            Some("move") => {
                let (from, to) = (text("from"), text("to"));
                let moved = self.documents.values_mut().flatten().filter(|path| is_below(path, &from));
                moved.for_each(|path| *path = format!("{to}{}", &path[from.len()..]));
                *self.seen.entry(format!("move, merge {}", operation["merge"])).or_default() += 1;
            }
            Some("remove") => {
                let gone = text("path");
                self.documents
                    .retain(|_, paths| !paths.iter().any(|path| is_below(path, &gone)));
                *self.seen.entry("remove".to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }
}

fn stored(server: &Server) -> Paths {
    server.ok("POST", "/fs/_refresh", &Value::Null);
    let found = server.ok("POST", "/fs/_search?size=10000", &json!({}));
    let hits = found["hits"]["hits"].as_array().cloned().unwrap_or_default();
    let one = |hit: &Value| (hit["_id"].as_str().unwrap_or_default().to_owned(), paths_of(&hit["_source"]));
    hits.iter().map(one).collect()
}

fn path(below: &mut impl FnMut(u64) -> u64) -> String {
    let depth = 1 + below(4);
    (0..depth)
        .map(|_| format!("/{}", ["a", "b", "ab"][below(3) as usize]))
        .collect()
}

fn step(server: &Server, below: &mut impl FnMut(u64) -> u64) {
    let id = below(25);
    match below(10) {
        0..=2 => drop(server.ok("PUT", &format!("/fs/_doc/{id}"), &json!({ "path": path(below) }))),
        3 => {
            let both = json!({ "path": [path(below), format!("{}/", path(below))] });
            server.ok("PUT", &format!("/fs/_doc/{id}"), &both);
        }
        4 => drop(server.call("DELETE", &format!("/fs/_doc/{id}"), &Value::Null)),
        5 => drop(server.call("DELETE", &format!("/fs/_tree?path={}", path(below)), &Value::Null)),
        6 => drop(server.call("POST", "/fs/_tree/_copy", &json!({ "from": path(below), "to": path(below) }))),
        7 => {
            let write = json!({ "index": { "_index": "fs", "_id": id.to_string(), "doc": { "path": path(below) } } });
            let moved = json!({ "move": { "_index": "fs", "from": path(below), "to": path(below), "merge": true } });
            server.call("POST", "/_transaction", &json!({ "operations": [write, moved] }));
        }
        _ => {
            let body = json!({ "from": path(below), "to": path(below), "merge": below(2) == 0 });
            server.call("POST", "/fs/_tree/_move", &body);
        }
    }
}

#[test]
fn who_follows_has_the_paths_of_the_store() {
    let cases = std::env::var("PLEACH_TREE_RUNS").ok().and_then(|text| text.parse().ok());
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=cases.unwrap_or(2) {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let mut below = random(seed);
        let mut server = Server::start_with(&data, &["es8"], FREQUENT);
        let mappings = json!({ "properties": { "path": { "type": "tree_path" } } });
        server.ok("PUT", "/fs", &json!({ "mappings": mappings }));
        let mut follower = Follower::default();
        for n in 0..STEPS {
            step(&server, &mut below);
            if below(12) == 0 {
                server.signal(libc::SIGKILL);
                drop(server);
                server = Server::start_with(&data, &["es8"], FREQUENT);
            }
            follower.read(&server);
            assert_eq!(follower.documents, stored(&server), "seed {seed}, step {n}");
        }
        follower
            .seen
            .into_iter()
            .for_each(|(kind, count)| *seen.entry(kind).or_default() += count);
    }
    assert_eq!(seen.len(), 3, "every kind of change comes by: {seen:?}");
}
