//! Snapshots over HTTP: what survives them, one moment under writers, kills while one is taken or restored, damaged and crafted
//! repositories, other stores; in a folder and, where Python has moto, in a bucket. `PLEACH_SNAPSHOT_KILLS` says how many kills (3), `PLEACH_SNAPSHOT_MB` how much the measured copy has (12).
//!
//! Not here: what only buckets have (`snapshots_s3.rs`), the reference's answers (`golden`), single requests (`scenarios/snapshots.yaml`), the order of writes (`crates/snapshot`).

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::Server;
use tests::repository_place::Place;

/// A server whose repositories in folders are in `repositories` beside its data.
fn server(folder: &Path, data: &str) -> Server {
    server_with(folder, data, &[])
}

fn server_with(folder: &Path, data: &str, settings: &[&str]) -> Server {
    Server::start_with(&folder.join(data), &["es8", "es2"], settings)
}

/// A server that can use this place.
fn server_at(place: &Place, folder: &Path, data: &str) -> Server {
    let settings = place.server_settings();
    server_with(folder, data, &settings.iter().map(String::as_str).collect::<Vec<_>>())
}

fn register(server: &Server, settings: &Value) {
    Place::folder(Path::new("")).register(server, settings);
}

/// Checks something with a repository in a folder of the test.
fn in_a_folder(check: impl Fn(&Place, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    check(&Place::folder(folder.path()), folder.path());
}

/// The same in a bucket, if there is a server of S3.
fn in_a_bucket(check: impl Fn(&Place, &Path)) {
    let Some(place) = Place::bucket() else { return };
    let folder = tempfile::tempdir().unwrap();
    check(&place, folder.path());
}

fn take(server: &Server, name: &str, body: &Value) -> Value {
    let path = format!("/_snapshot/r/{name}?wait_for_completion=true");
    let answer = server.ok("PUT", &path, body);
    assert_eq!(answer["snapshot"]["state"], "SUCCESS", "{answer}");
    answer["snapshot"].clone()
}

fn restore(server: &Server, name: &str, body: &Value) -> Value {
    let path = format!("/_snapshot/r/{name}/_restore?wait_for_completion=true");
    let answer = server.ok("POST", &path, body);
    assert_eq!(answer["snapshot"]["shards"]["failed"], 0, "{answer}");
    answer["snapshot"].clone()
}

fn commit_seq(server: &Server, name: &str) -> u64 {
    let path = format!("/_snapshot/r/{name}?commit_seq=true");
    server.ok("GET", &path, &Value::Null)["snapshots"][0]["commit_seq"]
        .as_u64()
        .unwrap()
}

/// The files of a repository with their lengths.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut out = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => drop(out.insert(entry.path(), entry.metadata().map_or(0, |meta| meta.len()))),
            }
        }
    }
    out
}

/// Indices of every kind of relation, with documents that were updated and deleted; links between them.
fn fill(server: &Server) {
    let keyword = json!({ "type": "keyword" });
    let made = [
        (
            "fs",
            json!({ "mappings": { "properties": { "path": { "type": "tree_path" }, "n": { "type": "long" } } } }),
        ),
        (
            "nest",
            json!({ "mappings": { "properties": { "k": { "type": "nested" } } }, "settings": { "index.refresh_interval": "5s" } }),
        ),
        (
            "family",
            json!({ "mappings": { "properties": { "j": { "type": "join", "relations": { "question": "answer" } } } },
            "aliases": { "people": { "filter": { "term": { "n": 1 } } }, "all-people": {} } }),
        ),
        ("user", json!({ "mappings": { "properties": { "name": keyword } } })),
        (
            "post",
            json!({ "mappings": { "properties": { "user": { "properties": { "id": keyword, "name": keyword } } } } }),
        ),
    ];
    for (index, body) in made {
        server.ok("PUT", &format!("/{index}"), &body);
    }
    let policy = json!({ "source": { "index": "user", "fields": ["name"] },
        "target": { "index": "post", "on": { "user.id": "_id" }, "into": "user" } });
    server.ok("PUT", "/_link/policy/author", &policy);
    for n in 0..20 {
        server.ok(
            "PUT",
            &format!("/fs/_doc/{n}"),
            &json!({ "path": format!("/a/d{}/f{n}", n % 3), "n": n }),
        );
        server.ok(
            "PUT",
            &format!("/nest/_doc/{n}"),
            &json!({ "n": n, "k": [{ "a": n }, { "a": n + 1 }] }),
        );
        server.ok("PUT", &format!("/user/_doc/{n}"), &json!({ "name": format!("name {n}") }));
        server.ok("PUT", &format!("/post/_doc/{n}"), &json!({ "user": { "id": n.to_string() } }));
    }
    server.ok("PUT", "/family/_doc/q?refresh=true", &json!({ "j": "question", "n": 1 }));
    server.ok(
        "PUT",
        "/family/_doc/a?routing=q&refresh=true",
        &json!({ "j": { "name": "answer", "parent": "q" }, "n": 1 }),
    );
    server.ok("POST", "/_refresh", &Value::Null);
    server.ok("PUT", "/user/_doc/3", &json!({ "name": "changed" }));
    server.ok("DELETE", "/nest/_doc/4", &Value::Null);
    server.ok(
        "PUT",
        "/nest/_doc/5?version=40&version_type=external",
        &json!({ "n": 55, "k": [{ "a": 5 }] }),
    );
    server.ok("POST", "/fs/_tree/_move", &json!({ "from": "/a/d1", "to": "/b/moved" }));
    server.ok("DELETE", "/fs/_tree?path=/a/d2", &Value::Null);
    fill_2015(server);
}

fn fill_2015(server: &Server) {
    let es2 = |method: &str, path: &str, body: Value| {
        let answer = tests::send(server.address("es2"), method, path, &[], body.to_string().as_bytes()).unwrap();
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
    };
    let mappings = json!({ "chapter": { "_parent": { "type": "book" } }, "book": {} });
    es2(
        "PUT",
        "/old",
        json!({ "mappings": mappings, "settings": { "number_of_shards": 2 } }),
    );
    es2("PUT", "/old/book/1", json!({ "title": "one" }));
    es2("PUT", "/old/chapter/1?parent=1", json!({ "title": "first" }));
    es2("PUT", "/old/chapter/2?parent=1", json!({ "title": "second" }));
    es2("DELETE", "/old/chapter/2?parent=1", json!({}));
}

/// Everything that clients can see of these indices, but for what belongs to one making of an index.
fn seen(server: &Server) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    let mut note = |persona: &str, method: &str, path: &str, body: &Value| {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let answer = tests::send(server.address(persona), method, path, &[], text.as_bytes()).unwrap();
        let mut body = answer.body;
        strip(&mut body);
        out.insert(format!("{persona} {method} {path} {text}"), json!([answer.status, body]));
    };
    server.ok("POST", "/_refresh", &Value::Null);
    let all = json!({ "query": { "match_all": {} }, "size": 100, "version": true, "seq_no_primary_term": true });
    for index in ["fs", "nest", "family", "user", "post", "old"] {
        note("es8", "GET", &format!("/{index}"), &Value::Null);
    }
    for index in ["fs", "nest", "family", "user", "post"] {
        note("es8", "POST", &format!("/{index}/_search"), &all);
        for id in ["3", "4", "5", "8", "q"] {
            note("es8", "GET", &format!("/{index}/_doc/{id}"), &Value::Null);
        }
    }
    note("es8", "GET", "/fs/_tree?path=/&depth=3", &Value::Null);
    note(
        "es8",
        "POST",
        "/fs/_search",
        &json!({ "query": { "term": { "path": "/b/moved" } }, "sort": ["n"] }),
    );
    note(
        "es8",
        "POST",
        "/nest/_search",
        &json!({ "query": { "nested": { "path": "k", "query": { "term": { "k.a": 7 } } } }, "sort": ["n"] }),
    );
    note(
        "es8",
        "POST",
        "/people/_search",
        &json!({ "query": { "has_child": { "type": "answer", "query": { "match_all": {} } } } }),
    );
    note("es2", "GET", "/old/chapter/1?parent=1", &Value::Null);
    note("es2", "GET", "/old/chapter/2?parent=1", &Value::Null);
    let children = json!({ "query": { "has_child": { "type": "chapter", "query": { "match": { "title": "first" } } } } });
    note("es2", "POST", "/old/book/_search", &children);
    note("es2", "GET", "/old/_mapping", &Value::Null);
    out
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !["uuid", "took", "provided_name", "_scroll_id"].contains(&name.as_str()));
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

const ALL: &str = "fs,nest,family,user,post,old";

#[test]
fn everything_of_an_index_survives() {
    in_a_folder(check_survival);
}

#[test]
fn everything_of_an_index_survives_in_a_bucket() {
    in_a_bucket(check_survival);
}

fn check_survival(place: &Place, folder: &Path) {
    let first = server_at(place, folder, "first");
    place.register(&first, &json!({}));
    fill(&first);
    let before = seen(&first);
    take(&first, "s", &json!({ "metadata": { "by": "test" } }));
    // Onto the same server, onto another one, and after a restart of that by a kill.
    first.ok("DELETE", &format!("/{ALL}"), &Value::Null);
    restore(&first, "s", &json!({ "include_global_state": true }));
    assert_same(&before, &seen(&first), "on the same server");
    let feed = first.call("GET", "/_changes?since=0&limit=5000", &Value::Null).text;
    assert!(
        feed.contains("\"op\":\"restore_index\""),
        "the feed tells of restored indices"
    );
    let policy = first.ok("GET", "/_link/policy/author", &Value::Null);
    assert_eq!(policy["policies"][0]["target"]["index"], "post", "{policy}");
    first.ok("PUT", "/user/_doc/9?refresh=true", &json!({ "name": "followed" }));
    assert_eq!(
        first.ok("GET", "/post/_doc/9", &Value::Null)["_source"]["user"]["name"],
        "followed"
    );
    let other = server_at(place, folder, "other");
    place.register(&other, &json!({ "readonly": true }));
    restore(&other, "s", &json!({}));
    assert_same(&before, &seen(&other), "on another server");
    other.signal(libc::SIGKILL);
    drop(other);
    let other = server_at(place, folder, "other");
    assert_same(&before, &seen(&other), "after a kill");
    other.ok("POST", "/_flush", &Value::Null);
    other.ok("POST", "/_forcemerge?max_num_segments=1", &Value::Null);
    other.signal(libc::SIGKILL);
    drop(other);
    let other = server_at(place, folder, "other");
    assert_same(&before, &seen(&other), "after a checkpoint, merges and a kill");
    // Writes go on above the old numbers.
    let next = other.ok("PUT", "/nest/_doc/new", &json!({ "n": 1 }));
    assert!(
        next["_primary_term"].as_u64() > Some(1) && next["_seq_no"].as_u64() >= Some(22),
        "{next}"
    );
    other.ok("PUT", "/fs/_doc/new", &json!({ "path": "/b/moved/new", "n": 99 }));
}

fn assert_same(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>, when: &str) {
    for (asked, answer) in before {
        assert_eq!(Some(answer), after.get(asked), "{when}: {asked}");
    }
}

/// The state of each key at a position, by the changes that were acknowledged.
fn fold(log: &[(u64, u64, u64)], up_to: u64) -> BTreeMap<u64, u64> {
    let mut sorted: Vec<_> = log.iter().filter(|(seq, ..)| *seq <= up_to).collect();
    sorted.sort_unstable();
    sorted.into_iter().map(|(_, key, n)| (*key, *n)).collect()
}

fn documents(server: &Server, index: &str) -> BTreeMap<u64, u64> {
    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let found = server.ok("POST", &format!("/{index}/_search"), &json!({ "size": 1000 }));
    let hits = found["hits"]["hits"].as_array().unwrap();
    hits.iter()
        .map(|hit| {
            (
                hit["_id"].as_str().unwrap().parse().unwrap(),
                hit["_source"]["n"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_snapshot_under_writers_is_the_fold_at_its_commit_seq() {
    const WRITERS: u64 = 8;
    const KEYS: u64 = 40;
    let folder = tempfile::tempdir().unwrap();
    let server = server_with(folder.path(), "data", &["log.checkpoint_ops=300"]);
    register(&server, &json!({}));
    for index in ["left", "right"] {
        server.ok("PUT", &format!("/{index}"), &Value::Null);
    }
    let (over, log) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (server, over, log) = (&server, &over, &log);
            scope.spawn(move || {
                let mut n = 0;
                while !over.load(Ordering::Relaxed) {
                    n += 1;
                    let key = writer * KEYS + n % KEYS;
                    let put = |index: &str| json!({ "index": { "_index": index, "_id": key.to_string(), "doc": { "n": n } } });
                    let answer = server.ok("POST", "/_transaction", &json!({ "operations": [put("left"), put("right")] }));
                    log.lock().unwrap().push((answer["commit_seq"].as_u64().unwrap(), key, n));
                }
            });
        }
        for n in 0..4 {
            while log.lock().unwrap().len() < 200 * (n + 1) {
                std::thread::yield_now();
            }
            take(&server, &format!("s{n}"), &json!({ "include_global_state": false }));
        }
        over.store(true, Ordering::Relaxed);
    });
    let log = log.into_inner().unwrap();
    for n in 0..4 {
        let name = format!("s{n}");
        server.ok("DELETE", "/left,right", &Value::Null);
        restore(&server, &name, &json!({}));
        let expected = fold(&log, commit_seq(&server, &name));
        assert!(!expected.is_empty());
        for index in ["left", "right"] {
            assert_eq!(documents(&server, index), expected, "{name}: {index}");
        }
    }
    println!("{} changes, 4 snapshots", log.len());
}

#[test]
fn kills_leave_nothing_half() {
    in_a_folder(check_kills);
}

#[test]
fn kills_leave_nothing_half_in_a_bucket() {
    in_a_bucket(check_kills);
}

fn check_kills(place: &Place, folder: &Path) {
    let rounds = std::env::var("PLEACH_SNAPSHOT_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3_u64);
    let running = server_at(place, folder, "data");
    place.register(
        &running,
        &json!({ "max_snapshot_bytes_per_sec": "4mb", "max_restore_bytes_per_sec": "4mb" }),
    );
    let mut total = 0;
    drop(running);
    let (mut taken, mut restored) = (0, 0);
    for round in 0..rounds {
        let server = server_at(place, folder, "data");
        let lines: String = (0..2000)
            .map(|n| {
                format!(
                    "{{\"index\":{{\"_id\":\"{round}-{n}\"}}}}\n{{\"t\":\"{}\"}}\n",
                    RandomState::new().hash_one(n)
                )
            })
            .collect();
        for index in ["a", "b"] {
            assert_eq!(
                server
                    .send("POST", &format!("/{index}/_bulk?refresh=true"), &lines)
                    .unwrap()
                    .status,
                200
            );
        }
        total += 2000;
        let pause = Duration::from_millis(RandomState::new().hash_one(round) % 400);
        // A snapshot is killed.
        let answer = server.call("PUT", &format!("/_snapshot/r/k{round}"), &json!({ "indices": "a,b" }));
        assert_eq!(answer.body, json!({ "accepted": true }));
        std::thread::sleep(pause);
        server.signal(libc::SIGKILL);
        drop(server);
        let server = server_at(place, folder, "data");
        let listed = server.ok("GET", "/_snapshot/r/_all", &Value::Null);
        let whole = listed["snapshots"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["state"] == "SUCCESS")
            .count();
        assert_eq!(Some(whole), listed["snapshots"].as_array().map(Vec::len), "{listed}");
        taken += usize::from(whole > 0);
        server.ok("DELETE", "/_snapshot/r/*", &Value::Null);
        place.register(&server, &json!({ "max_restore_bytes_per_sec": "4mb" }));
        take(&server, "whole", &json!({ "indices": "a,b" }));
        // A restore is killed.
        server.ok("DELETE", "/a,b", &Value::Null);
        let answer = server.call("POST", "/_snapshot/r/whole/_restore", &Value::Null);
        assert_eq!(answer.body, json!({ "accepted": true }), "{answer:?}");
        std::thread::sleep(pause);
        server.signal(libc::SIGKILL);
        drop(server);
        let server = server_at(place, folder, "data");
        let there = ["a", "b"].map(|index| server.send("HEAD", &format!("/{index}"), "").unwrap().status == 200);
        assert!(there[0] == there[1], "both indices or none: {there:?}");
        restored += u64::from(there[0]);
        if !there[0] {
            // Those of indices that were deleted go with the next checkpoint.
            server.ok("POST", "/_flush", &Value::Null);
            let left = files(&folder.join("data/segments"));
            assert!(
                !left.keys().any(|path| path.to_string_lossy().contains("restored-")),
                "{left:?}"
            );
            restore(&server, "whole", &json!({}));
        }
        for index in ["a", "b"] {
            assert_eq!(
                server.ok("GET", &format!("/{index}/_count"), &Value::Null)["count"],
                total,
                "{index}"
            );
        }
        server.ok("DELETE", "/_snapshot/r/whole", &Value::Null);
        let cleaned = server.ok("POST", "/_snapshot/r/_cleanup", &Value::Null);
        assert_eq!(cleaned["results"]["deleted_blobs"], 0, "{cleaned}");
        for folder in ["blobs", "snapshots", "temporary", "writing"] {
            assert_eq!(place.files(folder), BTreeMap::new(), "{folder}");
        }
        place.register(
            &server,
            &json!({ "max_snapshot_bytes_per_sec": "4mb", "max_restore_bytes_per_sec": "4mb" }),
        );
    }
    println!("{rounds} rounds: {taken} snapshots and {restored} restores came before their kill");
}

#[test]
fn a_snapshot_of_nothing_new_writes_its_description_only() {
    in_a_folder(check_nothing_new);
}

#[test]
fn a_snapshot_of_nothing_new_writes_its_description_only_in_a_bucket() {
    in_a_bucket(check_nothing_new);
}

fn check_nothing_new(place: &Place, folder: &Path) {
    let megabytes = std::env::var("PLEACH_SNAPSHOT_MB")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(12_u64);
    let server = server_at(place, folder, "data");
    place.register(&server, &json!({}));
    server.ok(
        "PUT",
        "/a",
        &json!({ "mappings": { "properties": { "t": { "type": "keyword", "index": false, "doc_values": false } } } }),
    );
    for n in 0..megabytes {
        let lines: String = (0..64)
            .map(|m| {
                let words: String = (0..1024)
                    .map(|w| format!("{:016x}", RandomState::new().hash_one((n, m, w))))
                    .collect();
                format!("{{\"index\":{{}}}}\n{{\"t\":\"{words}\"}}\n")
            })
            .collect();
        assert_eq!(server.send("POST", "/a/_bulk", &lines).unwrap().status, 200);
    }
    let begun = Instant::now();
    take(&server, "one", &json!({}));
    let first = begun.elapsed();
    let before = place.files("blobs");
    let bytes: u64 = before.values().sum();
    let begun = Instant::now();
    take(&server, "two", &json!({}));
    let second = begun.elapsed();
    assert_eq!(place.files("blobs"), before, "no file is stored twice");
    assert!(second < Duration::from_secs(1), "{second:?}");
    let status = server.ok("GET", "/_snapshot/r/two/_status", &Value::Null);
    assert_eq!(status["snapshots"][0]["stats"]["incremental"]["file_count"], 0, "{status}");
    assert_eq!(status["snapshots"][0]["stats"]["total"]["size_in_bytes"], bytes, "{status}");
    server.ok("DELETE", "/a", &Value::Null);
    let begun = Instant::now();
    restore(&server, "two", &json!({}));
    let back = begun.elapsed();
    assert_eq!(server.ok("GET", "/a/_count", &Value::Null)["count"], megabytes * 64);
    let rate = |took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
    println!(
        "{bytes} bytes: {:.0} MB/s into the repository, nothing new in {second:?}, {:.0} MB/s back",
        rate(first),
        rate(back)
    );
    // What only a deleted snapshot had is gone.
    server.ok("DELETE", "/_snapshot/r/one", &Value::Null);
    assert_eq!(place.files("blobs"), before);
    server.ok("DELETE", "/_snapshot/r/two", &Value::Null);
    assert!(place.files("blobs").is_empty());
}

/// What is done to the file of a repository.
enum Harm {
    Flip,
    Cut,
    Remove,
    Replace(&'static str),
}

/// Harms the first file below a folder of the repository, restores, and finds an error of this type and nothing made.
fn check_damage(place: &Place, below: &str, harm: &Harm, status: u16, kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let own = Place::folder(folder.path());
    let place = match place {
        Place::Folder(_) => &own,
        Place::Bucket(_) => place,
    };
    place.files("").keys().for_each(|file| place.remove(file));
    let server = server_at(place, folder.path(), "data");
    place.register(&server, &json!({}));
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({ "n": 1 }));
    server.ok("PUT", "/b/_doc/1?refresh=true", &json!({ "n": 1 }));
    take(&server, "s", &json!({ "indices": "a,b" }));
    server.ok("DELETE", "/a,b", &Value::Null);
    let file = place.files(below).into_keys().next().unwrap();
    let mut bytes = place.read(&file);
    let middle = bytes.len() / 2;
    match harm {
        Harm::Flip => bytes[middle] ^= 1,
        Harm::Cut => bytes.truncate(middle),
        Harm::Remove => {}
        Harm::Replace(text) => {
            // Somebody who can make checksums.
            bytes = text.as_bytes().to_vec();
        }
    }
    match harm {
        Harm::Remove => place.remove(&file),
        _ => place.write(&file, &bytes),
    }
    let answer = server.call("POST", "/_snapshot/r/s/_restore?wait_for_completion=true", &Value::Null);
    assert_eq!(
        (answer.status, &answer.body["error"]["type"]),
        (status, &json!(kind)),
        "{below}: {answer:?}"
    );
    for index in ["a", "b"] {
        assert_eq!(
            server.send("HEAD", &format!("/{index}"), "").unwrap().status,
            404,
            "{below}: {index}"
        );
    }
    let left = files(&folder.path().join("data/segments"));
    assert!(
        !left.keys().any(|path| path.to_string_lossy().contains("restored-")),
        "{below}: {left:?}"
    );
    assert_eq!(server.call("PUT", "/c/_doc/1", &json!({ "n": 1 })).status, 201, "{below}");
}

#[test]
fn damaged_repositories_are_errors_and_make_nothing() {
    in_a_folder(check_damages);
}

#[test]
fn damaged_repositories_are_errors_and_make_nothing_in_a_bucket() {
    in_a_bucket(check_damages);
}

fn check_damages(place: &Place, _: &Path) {
    for (below, harm) in [
        ("blobs", Harm::Flip),
        ("blobs", Harm::Cut),
        ("blobs", Harm::Remove),
        ("snapshots", Harm::Flip),
        ("snapshots", Harm::Cut),
        ("snapshots", Harm::Remove),
        ("index", Harm::Flip),
        ("index", Harm::Cut),
        ("index", Harm::Replace("")),
        ("index", Harm::Replace("{}\nblake3 00\n")),
        ("snapshots", Harm::Replace("[[[[[[[[")),
    ] {
        check_damage(place, below, &harm, 500, "corrupt_index_exception");
    }
    check_damage(place, "index", &Harm::Remove, 404, "snapshot_missing_exception");
}

#[test]
fn a_repository_that_another_store_changed_is_told() {
    in_a_folder(check_another_store);
}

#[test]
fn a_repository_that_another_store_changed_is_told_in_a_bucket() {
    in_a_bucket(check_another_store);
}

fn check_another_store(place: &Place, folder: &Path) {
    let (one, two) = (server_at(place, folder, "one"), server_at(place, folder, "two"));
    place.register(&one, &json!({}));
    place.register(&two, &json!({}));
    one.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    two.ok("PUT", "/b/_doc/1", &json!({ "n": 2 }));
    take(&one, "s1", &json!({}));
    take(&two, "s2", &json!({}));
    let answer = one.call("PUT", "/_snapshot/r/s3?wait_for_completion=true", &Value::Null);
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.body["error"]["type"], "repository_changed_exception", "{answer:?}");
    // Both snapshots are there, and who registers the repository again goes on with it.
    place.register(&one, &json!({}));
    take(&one, "s3", &json!({}));
    let listed = one.ok("GET", "/_snapshot/r/_all", &Value::Null);
    let names: Vec<&str> = listed["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["snapshot"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["s1", "s2", "s3"]);
    restore(&one, "s2", &json!({}));
    assert_eq!(one.ok("GET", "/b/_doc/1", &Value::Null)["_source"]["n"], 2);
}

#[test]
fn locations_stay_below_path_repo() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path(), "data");
    let root = folder.path().join("repositories");
    std::fs::create_dir_all(&root).unwrap();
    let outside = folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
    let whole = |path: &Path| path.to_string_lossy().into_owned();
    let check = |kind: &str, settings: Value, status: u16| {
        let body = json!({ "type": kind, "settings": settings });
        let answer = server.call("PUT", "/_snapshot/x", &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        if status != 200 {
            let is_refusal = ["repository_exception", "illegal_argument_exception", "parse_exception"];
            assert!(
                is_refusal.contains(&answer.body["error"]["type"].as_str().unwrap()),
                "{body}: {answer:?}"
            );
        }
    };
    check("fs", json!({ "location": "fine" }), 200);
    check("fs", json!({ "location": whole(&root.join("a/../b")) }), 200);
    check(
        "fs",
        json!({ "location": "fine", "base_path": "deeper", "compress": false, "chunk_size": "10mb" }),
        200,
    );
    check("fs", json!({ "location": whole(&outside) }), 400);
    check("fs", json!({ "location": "../outside" }), 400);
    check("fs", json!({ "location": whole(&root.join("../outside")) }), 400);
    check("fs", json!({ "location": "link" }), 400);
    check("fs", json!({ "location": "link/deeper" }), 400);
    check("fs", json!({ "location": "fine", "base_path": "../../outside" }), 400);
    check("fs", json!({ "location": "/etc" }), 400);
    check("fs", json!({ "location": "a\u{0}b" }), 400);
    check("fs", json!({}), 400);
    check("fs", json!({ "location": "fine", "locaton": "x" }), 400);
    check("fs", json!({ "location": "fine", "max_snapshot_bytes_per_sec": "fast" }), 400);
    check("fs", json!({ "location": "fine", "readonly": "perhaps" }), 400);
    check("s3", json!({ "bucket": "backups" }), 400);
    check("bogus", json!({ "location": "fine" }), 400);
    assert!(
        std::fs::read_dir(&outside).unwrap().next().is_none(),
        "nothing is written outside"
    );
}

#[test]
fn a_throttled_snapshot_is_a_task_and_can_be_given_up() {
    in_a_folder(check_throttled);
}

#[test]
fn a_throttled_snapshot_is_a_task_and_can_be_given_up_in_a_bucket() {
    in_a_bucket(check_throttled);
}

fn check_throttled(place: &Place, folder: &Path) {
    let server = server_at(place, folder, "data");
    place.register(
        &server,
        &json!({ "max_snapshot_bytes_per_sec": "20kb", "max_restore_bytes_per_sec": "20kb" }),
    );
    let lines: String = (0..3000)
        .map(|n| format!("{{\"index\":{{}}}}\n{{\"t\":\"{}\"}}\n", RandomState::new().hash_one(n)))
        .collect();
    assert_eq!(server.send("POST", "/a/_bulk?refresh=true", &lines).unwrap().status, 200);
    let begin = |name: &str| {
        assert_eq!(
            server.ok("PUT", &format!("/_snapshot/r/{name}"), &Value::Null)["accepted"],
            true
        )
    };
    begin("slow");
    let running = server.ok("GET", "/_snapshot/_status", &Value::Null);
    assert_eq!(running["snapshots"][0]["state"], "STARTED", "{running}");
    let current = server.ok("GET", "/_snapshot/r/_current", &Value::Null);
    assert_eq!(current["snapshots"][0]["state"], "IN_PROGRESS", "{current}");
    let answer = server.call("PUT", "/_snapshot/r/slow", &Value::Null);
    assert_eq!(answer.body["error"]["type"], "invalid_snapshot_name_exception", "{answer:?}");
    let answer = server.call("DELETE", "/_snapshot/r", &Value::Null);
    assert_eq!(answer.status, 409, "{answer:?}");
    // Deleting it gives it up.
    server.ok("DELETE", "/_snapshot/r/slow", &Value::Null);
    assert_eq!(server.ok("GET", "/_snapshot/r/_all", &Value::Null)["snapshots"], json!([]));
    // So does cancelling its task.
    begin("slower");
    let tasks = server.ok("GET", "/_tasks?actions=*snapshot*&detailed=true", &Value::Null);
    let (_, node) = tasks["nodes"].as_object().unwrap().iter().next().unwrap();
    let (id, task) = node["tasks"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(task["action"], "cluster:admin/snapshot/create", "{tasks}");
    server.ok("POST", &format!("/_tasks/{id}/_cancel"), &Value::Null);
    let begun = Instant::now();
    while server.ok("GET", "/_snapshot/_status", &Value::Null)["snapshots"] != json!([]) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.ok("GET", "/_snapshot/r/_all", &Value::Null)["snapshots"], json!([]));
    place.register(&server, &json!({ "max_restore_bytes_per_sec": "20kb" }));
    take(&server, "whole", &Value::Null);
    assert_eq!(place.files("temporary"), BTreeMap::new());
    // A restore that is cancelled makes nothing.
    server.ok("DELETE", "/a", &Value::Null);
    server.ok("POST", "/_snapshot/r/whole/_restore", &Value::Null);
    let tasks = server.ok("GET", "/_tasks?actions=*restore*", &Value::Null);
    let (_, node) = tasks["nodes"].as_object().unwrap().iter().next().unwrap();
    let (id, _) = node["tasks"].as_object().unwrap().iter().next().unwrap();
    server.ok(
        "POST",
        &format!("/_tasks/{id}/_cancel?wait_for_completion=true"),
        &Value::Null,
    );
    assert_eq!(server.send("HEAD", "/a", "").unwrap().status, 404);
}
