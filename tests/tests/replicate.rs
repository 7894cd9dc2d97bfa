//! `pleach replicate` and `pleach changes`: the target has what the source has, also after kills of either end and of the command.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tests::{Server, command};

/// Rounds of writes, each of which ends with a kill.
const ROUNDS: u32 = 4;
/// Documents that are there before the first copy.
const BEFORE: usize = 3000;
/// Requests are short, so that a kill meets several of them on their way.
const SEVERAL: &[&str] = &["--connections", "6", "--in-flight", "96kb"];

fn started(data: &Path) -> Server {
    Server::start_with(data, &["es8"], &["log.checkpoint_ops=500"])
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address("es8"))
}

fn replicate(source: &Server, target: &Server, more: &[&str]) -> Command {
    let mut replicate = command();
    replicate
        .args(["replicate", "--url", &url(source), "--to", &url(target)])
        .args(more);
    replicate.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    replicate
}

/// Sources by index and id.
fn stored(server: &Server) -> BTreeMap<(String, String), (Value, Value)> {
    server.ok("POST", "/_refresh", &Value::Null);
    let found = server.ok("POST", "/_search", &json!({ "size": 10_000, "track_total_hits": true }));
    let hits = found["hits"]["hits"].as_array().unwrap();
    assert_eq!(found["hits"]["total"]["value"], hits.len());
    let document = |hit: &Value| {
        let text = |name: &str| hit[name].as_str().unwrap().to_owned();
        (
            (text("_index"), text("_id")),
            (hit["_routing"].clone(), hit["_source"].clone()),
        )
    };
    hits.iter().map(document).collect()
}

/// Mappings and aliases by index.
fn shapes(server: &Server) -> Value {
    let mut all = server.ok("GET", "/_all", &Value::Null);
    for (_, index) in all.as_object_mut().unwrap() {
        index.as_object_mut().unwrap().remove("settings");
    }
    all
}

/// Writes of every kind until the server is gone.
fn write(server: &Server, over: &AtomicBool) {
    let random = RandomState::new();
    for n in 0.. {
        let draw = random.hash_one(n);
        let id = draw % 60;
        let index = ["a", "b"][(draw >> 8) as usize % 2];
        let document = json!({ "n": draw % 1000, "word": format!("w{id}") }).to_string();
        let pair = json!({ "operations": [
            { "index": { "_index": "a", "_id": "pair-1", "doc": { "n": draw } } },
            { "index": { "_index": "b", "_id": "pair-2", "doc": { "n": draw } } },
            { "delete": { "_index": index, "_id": format!("{}", id + 1) } },
        ] });
        let grown = json!({ format!("f{}", draw % 30): 1 }).to_string();
        let alias = json!({ "actions": [{ "add": { "index": "b", "alias": format!("alias-{}", draw % 5) } }] });
        let directory = |n: u64| format!("/d{}/e{}", n % 5, n % 3);
        let placed = json!({ "path": directory(draw), "n": draw % 100 }).to_string();
        let moved = json!({ "from": format!("/d{}", draw % 5), "to": format!("{}/f{}", directory(draw >> 4), draw % 4) });
        let sent = match (draw >> 16) % 18 {
            0 | 1 => server.send("DELETE", &format!("/{index}/_doc/{id}"), ""),
            2 => server.send("POST", "/_transaction", &pair.to_string()),
            3 => server.send("POST", &format!("/{index}/_update/{id}"), "{\"doc\":{\"seen\":true}}"),
            4 => server.send("DELETE", "/gone", ""),
            5 => server.send("PUT", &format!("/gone/_doc/{id}"), &document),
            6 => server.send("PUT", &format!("/{index}/_doc/{id}?routing=r{}", draw % 3), &document),
            7 => server.send("PUT", &format!("/{index}/_doc/grown"), &grown),
            8 => server.send("POST", "/_aliases", &alias.to_string()),
            9 | 10 => server.send("PUT", &format!("/tree/_doc/{id}"), &placed),
            11 => server.send("POST", "/tree/_tree/_move", &moved.to_string()),
            12 if n % 7 == 0 => server.send("DELETE", &format!("/tree/_tree?path=/d{}", draw % 5), ""),
            _ => server.send("PUT", &format!("/{index}/_doc/{id}"), &document),
        };
        if sent.is_err() || over.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn the_target_has_what_the_source_has_through_kills() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("source"), folder.path().join("target"));
    let lines: String = (0..BEFORE)
        .map(|n| format!("{{\"index\":{{\"_index\":\"a\",\"_id\":\"before-{n}\"}}}}\n{{\"n\":{n}}}\n"))
        .collect();
    for round in 0..ROUNDS {
        let (source, target) = (started(&from), started(&to));
        if round == 0 {
            let tree = json!({ "mappings": { "properties": { "path": { "type": "tree_path" } } } });
            source.ok("PUT", "/tree", &tree);
            assert_eq!(source.send("POST", "/_bulk", &lines).unwrap().body["errors"], false);
        }
        let mut running: Child = replicate(&source, &target, SEVERAL).spawn().unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| write(&source, &over));
            // The first kill comes in the middle of the copy, or of the second one.
            std::thread::sleep(Duration::from_millis(if round < 2 { 100 } else { 700 }));
            match round % 3 {
                0 => running.kill().unwrap(),
                1 => target.signal(libc::SIGKILL),
                _ => source.signal(libc::SIGKILL),
            }
            over.store(true, Ordering::Relaxed);
        });
        // It would wait for the end that is gone.
        let _ = running.kill();
        running.wait().unwrap();
    }
    let (source, target) = (started(&from), started(&to));
    let done = replicate(&source, &target, &["--once"]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && told.contains("the target has everything"), "{told}");
    let expected = stored(&source);
    assert!(expected.len() > BEFORE, "{} documents", expected.len());
    let found = stored(&target);
    let differs = |key: &&(String, String)| found.get(key) != expected.get(key);
    let different: Vec<_> = found.keys().chain(expected.keys()).filter(differs).collect();
    let described = different.iter().map(|key| (key, found.get(key), expected.get(key)));
    assert!(
        different.is_empty(),
        "target and source: {:#?}",
        described.collect::<Vec<_>>()
    );
    assert_eq!(shapes(&target), shapes(&source));
    // What is new goes there by the same consumer, and nothing else.
    source.ok("PUT", "/a/_doc/new", &json!({ "n": 1 }));
    let done = replicate(&source, &target, &["--once"]).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("1 documents were sent"), "{told}");
    assert_eq!(stored(&target), stored(&source));
}

#[test]
fn a_refusal_of_the_target_ends_the_command_and_names_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let (source, target) = (started(&folder.path().join("source")), started(&folder.path().join("target")));
    source.ok("PUT", "/a/_doc/1", &json!({ "n": "text" }));
    source.ok("PUT", "/b/_doc/1", &json!({ "n": 1 }));
    target.ok("PUT", "/a", &json!({}));
    let run = |more: &[&str]| {
        let done = replicate(&source, &target, more).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, told) = run(&["--once"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("the target has index [a] already"), "{told}");
    // Of other indices alone it works.
    let (code, told) = run(&["--once", "--index", "b", "--name", "of-b"]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(stored(&target).len(), 1);
    target.ok("PUT", "/b/_mapping", &json!({ "properties": { "word": { "type": "long" } } }));
    source.ok("PUT", "/b/_doc/2", &json!({ "word": "text" }));
    let (code, told) = run(&["--once", "--index", "b", "--name", "of-b"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("/b/_mapping") && told.contains("[word]"), "{told}");
    let (code, told) = run(&["--once", "--name", "No", "--index", "nothing"]);
    assert!(code == Some(1) && told.contains("is no name of a consumer"), "{told}");
}

/// Runs `pleach changes`.
fn changes(server: &Server, more: &[&str]) -> (Option<i32>, Vec<Value>, String) {
    let mut changes = command();
    changes
        .args(["changes", "--url", &url(server)])
        .args(more)
        .stdin(Stdio::null());
    let done = changes.output().unwrap();
    let lines = String::from_utf8(done.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (done.status.code(), lines, String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn changes_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(&folder.path().join("data"));
    server.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    let (code, all, told) = changes(&server, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(
        all.last().unwrap()["operations"].as_array().unwrap().last().unwrap()["_id"],
        "1"
    );
    let since = told.rsplit(' ').next().unwrap().trim().to_owned();
    server.ok("PUT", "/a/_doc/2", &json!({ "n": 2 }));
    let (_, later, told) = changes(&server, &["--since", &since, "--no-source"]);
    assert_eq!(later.len(), 1, "{later:?} {told}");
    assert!(
        later[0].to_string().contains("\"_id\":\"2\"") && !later[0].to_string().contains("_source"),
        "{later:?}"
    );
    let (_, copy, _) = changes(&server, &["--initial", "--index", "a"]);
    assert_eq!(copy[0]["initial"], true, "{copy:?}");
    assert_eq!(copy[0]["operations"].as_array().unwrap().len(), 3, "{copy:?}");
    // A consumer goes on where it stopped.
    let (_, first, _) = changes(&server, &["--consumer", "c"]);
    assert_eq!(first.len(), all.len() + 1);
    assert_eq!(changes(&server, &["--consumer", "c"]).1, Vec::<Value>::new());
    server.ok("PUT", "/a/_doc/3", &json!({ "n": 3 }));
    assert_eq!(changes(&server, &["--consumer", "c"]).1.len(), 1);
    let (code, _, told) = changes(&server, &["--since", "never"]);
    assert!(code == Some(1) && told.contains("[since] is [never]"), "{told}");
}
