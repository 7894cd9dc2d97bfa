//! The feed of changes over HTTP: who follows it has what the store has, through kills of the server; how it is read.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::Server;

/// Checkpoints come by themselves several times a round, so that most of the feed is read from files that replay does not
/// need.
const FREQUENT: &[&str] = &["log.checkpoint_ops=60", "log.checkpoint_bytes=64kb"];
/// Kills of the server in the long test.
const ROUNDS: u32 = 3;
/// What a request that waits for something may take.
const LATE: Duration = Duration::from_secs(20);

fn started(data: &Path, settings: &[&str]) -> Server {
    Server::start_with(data, &["es8"], settings)
}

/// Documents by index and id, each with its version, sequence number and source.
type Documents = BTreeMap<(String, String), (u64, u64, Value)>;

/// Applies the feed.
#[derive(Default)]
struct Follower {
    since: u64,
    changes: u64,
    documents: Documents,
}

impl Follower {
    /// Reads one answer; false: nothing was new. `None`: the server was killed meanwhile.
    fn read(&mut self, server: &Server, limit: u32) -> Option<bool> {
        let path = format!("/_changes?since={}&limit={limit}&timeout=50ms", self.since);
        let answer = server.send("GET", &path, "").ok()?;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let next = answer.body["next"].as_u64().unwrap();
        let before = self.since;
        for change in answer.body["changes"].as_array().unwrap() {
            self.apply(change);
        }
        assert!(next >= self.since, "{path}: {next}");
        self.since = next;
        Some(next > before)
    }

    fn apply(&mut self, change: &Value) {
        let commit_seq = change["commit_seq"].as_u64().unwrap();
        assert!(commit_seq > self.since, "{change} behind {}", self.since);
        self.since = commit_seq;
        self.changes += 1;
        let mut pair = Vec::new();
        for operation in change["operations"].as_array().unwrap() {
            let index = operation["_index"].as_str().unwrap().to_owned();
            assert!(!index.starts_with(".pleach"), "{change}");
            if operation["op"] == "delete_index" {
                self.documents.retain(|(of, _), _| *of != index);
                continue;
            }
            let Some(id) = operation["_id"].as_str() else { continue };
            let key = (index, id.to_owned());
            if operation["op"] == "index" {
                let number = |name: &str| operation[name].as_u64().unwrap();
                let source = operation["_source"].clone();
                if id.starts_with("pair") {
                    pair.push(source["n"].clone());
                }
                self.documents.insert(key, (number("_version"), number("_seq_no"), source));
            } else {
                assert_eq!(operation["op"], "delete", "{change}");
                self.documents.remove(&key);
            }
        }
        // A part of a copy is no change: its documents come by index.
        assert!(
            change["initial"] == true || pair.is_empty() || pair.len() == 2 && pair[0] == pair[1],
            "half a change: {change}"
        );
    }
}

/// Every document that the store has.
fn stored(server: &Server) -> Documents {
    server.ok("POST", "/_refresh", &Value::Null);
    let body = json!({ "size": 10_000, "version": true, "seq_no_primary_term": true });
    let found = server.ok("POST", "/_search", &body);
    let hits = found["hits"]["hits"].as_array().unwrap();
    let document = |hit: &Value| {
        let text = |name: &str| hit[name].as_str().unwrap().to_owned();
        let number = |name: &str| hit[name].as_u64().unwrap();
        let stamped = (number("_version"), number("_seq_no"), hit["_source"].clone());
        ((text("_index"), text("_id")), stamped)
    };
    hits.iter().map(document).collect()
}

/// Writes of every kind until the server is gone.
fn write(server: &Server, thread: u64, over: &AtomicBool) {
    let random = RandomState::new();
    for n in 0.. {
        let draw = random.hash_one(n);
        let id = draw % 40;
        let index = ["a", "b"][(draw >> 8) as usize % 2];
        let document = json!({ "n": draw % 1000, "thread": thread }).to_string();
        let lines = format!(
            "{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{id}\"}}}}\n{document}\n{{\"delete\":{{\"_index\":\"a\",\"_id\":\"{}\"}}}}\n",
            id + 1
        );
        let pair = json!({ "operations": [
            { "index": { "_index": "a", "_id": "pair-1", "doc": { "n": draw } } },
            { "index": { "_index": "b", "_id": "pair-2", "doc": { "n": draw } } },
        ] });
        let sent = match (draw >> 16) % 12 {
            0 => server.send("DELETE", &format!("/{index}/_doc/{id}"), ""),
            1 => server.send("POST", "/_bulk", &lines),
            2 => server.send("POST", "/_transaction", &pair.to_string()),
            3 => server.send("POST", &format!("/{index}/_update/{id}"), "{\"doc\":{\"seen\":true}}"),
            4 if thread == 0 => server.send("DELETE", "/gone", ""),
            5 => server.send("PUT", &format!("/gone/_doc/{id}"), &document),
            _ => server.send("PUT", &format!("/{index}/_doc/{id}"), &document),
        };
        if sent.is_err() || over.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn who_follows_has_what_the_store_has() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut follower = Follower::default();
    for round in 0..ROUNDS {
        let server = started(&data, FREQUENT);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (server, over) = (&server, &over);
                scope.spawn(move || write(server, thread, over));
            }
            let (server, over, follower) = (&server, &over, &mut follower);
            scope.spawn(move || while !over.load(Ordering::Relaxed) && follower.read(server, 7).is_some() {});
            std::thread::sleep(Duration::from_millis(800));
            over.store(true, Ordering::Relaxed);
            if round + 1 < ROUNDS {
                server.signal(libc::SIGKILL);
            }
        });
    }
    let server = started(&data, FREQUENT);
    let catch_up = |follower: &mut Follower| while follower.read(&server, 1000).unwrap() {};
    catch_up(&mut follower);
    assert_eq!(follower.documents, stored(&server));
    assert!(follower.changes > 100, "{} changes", follower.changes);
    // From the beginning it comes to the same, by other parts.
    let mut other = Follower::default();
    catch_up(&mut other);
    assert_eq!(other.documents, follower.documents);
    assert_eq!(other.changes, follower.changes);
}

/// A request, and what it is answered.
#[track_caller]
fn check(server: &Server, path: &str, status: u16, told: &str) -> Value {
    let answer = server.send("GET", path, "").unwrap();
    assert_eq!(answer.status, status, "{path}: {answer:?}");
    assert!(answer.text.contains(told), "{path}: {answer:?}");
    answer.body
}

#[test]
fn positions_and_bounds_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["changes.feed.max_operations=20", "changes.feed.keep_alive=2s"];
    let server = started(&folder.path().join("data"), &settings);
    server.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    check(&server, "/_changes", 400, "[since] is missing");
    check(&server, "/_changes?since=never", 400, "[since] is [never]");
    check(&server, "/_changes?since=-1", 400, "[since] is [-1]");
    check(&server, "/_changes?since=99999999999999", 400, "beyond the newest change");
    check(&server, "/_changes?since=0&limit=0", 400, "[limit] is [0]");
    check(&server, "/_changes?since=0&limit=21", 400, "changes.feed.max_operations");
    check(&server, "/_changes?since=0&timeout=1h", 400, "changes.feed.max_wait");
    check(&server, "/_changes?since=1&initial=true", 400, "give [since=0] with it");
    check(&server, "/_changes?since=copy-x", 400, "[since] is [copy-x]");
    let copy = check(&server, "/_changes?since=0&initial=true&limit=1", 200, "copy-");
    let path = format!("/_changes?since={}", copy["next"].as_str().unwrap());
    // The pause is longer than the copy is kept, and the keep-alive is longer than a busy machine takes from opening to reading.
    std::thread::sleep(Duration::from_millis(2500));
    check(&server, &path, 410, "changes.feed.keep_alive");
    check(&server, "/_changes?consumer=none", 404, "there is no consumer [none]");
    check(&server, "/_changes?consumer=none&since=0", 400, "give one of them");
    let now = check(&server, "/_changes?since=now", 200, "\"changes\":[]");
    assert_eq!(now["next"], now["newest"]);
}

#[test]
fn a_part_has_whole_changes_of_the_indices_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(&folder.path().join("data"), &[]);
    let settings = json!({ "mappings": { "properties": { "n": { "type": "long" } } }, "aliases": { "all": {} } });
    server.ok("PUT", "/a", &settings);
    let change = json!({ "operations": [
        { "index": { "_index": "a", "_id": "1", "doc": { "n": 1 }, "routing": "r" } },
        { "index": { "_index": "b", "_id": "2", "doc": { "text": "x" } } },
    ] });
    let committed = server.ok("POST", "/_transaction", &change)["commit_seq"].clone();
    server.ok("DELETE", "/a/_doc/1?routing=r", &Value::Null);
    server.ok("DELETE", "/b", &Value::Null);
    let all = check(&server, "/_changes?since=0", 200, "");
    let ops = |part: &Value| -> Vec<Vec<String>> {
        let of = |change: &Value| {
            let operations = change["operations"].as_array().unwrap().iter();
            operations
                .map(|one| format!("{} {}", one["op"].as_str().unwrap(), one["_index"].as_str().unwrap()))
                .collect()
        };
        part["changes"].as_array().unwrap().iter().map(of).collect()
    };
    let of_transaction = all["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["commit_seq"] == committed);
    let operations = of_transaction.unwrap()["operations"].as_array().unwrap();
    let written: Vec<&Value> = operations.iter().filter(|one| one["op"] == "index").collect();
    assert_eq!(written.len(), 2, "{operations:?}");
    assert_eq!(written[0]["_routing"], "r", "{operations:?}");
    assert_eq!(written[1]["_source"], json!({ "text": "x" }), "{operations:?}");
    assert_eq!(ops(&all)[0], ["create_index a"]);
    let first = &all["changes"][0]["operations"][0];
    assert_eq!(
        first["mappings"],
        json!({ "properties": { "n": { "type": "long" } } }),
        "{first}"
    );
    assert_eq!(first["aliases"], json!({ "all": {} }), "{first}");
    // Of one index, without sources.
    let of_b = check(&server, "/_changes?since=0&index=b,c*&_source=false", 200, "");
    let seen: Vec<String> = ops(&of_b).concat();
    assert_eq!(seen.first().map(String::as_str), Some("create_index b"), "{of_b}");
    assert_eq!(seen.last().map(String::as_str), Some("delete_index b"), "{of_b}");
    assert!(
        !of_b.to_string().contains("_source") && seen.contains(&"index b".to_owned()),
        "{of_b}"
    );
    assert_eq!(of_b["next"], all["next"], "it goes on behind what it left out");
    // One operation at most, but a change whole.
    let (mut since, mut parts) = (0, Vec::new());
    while parts.len() < 100 {
        let part = check(&server, &format!("/_changes?since={since}&limit=1"), 200, "");
        since = part["next"].as_u64().unwrap();
        if part["changes"].as_array().unwrap().is_empty() {
            break;
        }
        assert_eq!(part["changes"].as_array().unwrap().len(), 1, "{part}");
        parts.extend(ops(&part));
    }
    assert_eq!(parts, ops(&all));
}

#[test]
fn an_answer_has_bounded_bytes_and_whole_changes() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(&folder.path().join("data"), &["changes.feed.max_bytes=1kb"]);
    for n in 0..20 {
        server.ok("PUT", &format!("/a/_doc/{n}"), &json!({ "n": n, "text": "x".repeat(300) }));
    }
    let operations =
        |n: usize| json!({ "index": { "_index": "a", "_id": format!("pair-{n}"), "doc": { "text": "x".repeat(600) } } });
    server.ok(
        "POST",
        "/_transaction",
        &json!({ "operations": (0..9).map(operations).collect::<Vec<_>>() }),
    );
    let (mut since, mut documents, mut longest) = (0, 0, 0);
    loop {
        let answer = server
            .send("GET", &format!("/_changes?since={since}&limit=1000"), "")
            .unwrap();
        let changes = answer.body["changes"].as_array().unwrap();
        if changes.is_empty() {
            break;
        }
        let of = |change: &Value| change["operations"].as_array().unwrap().len();
        // One change may have more, and stands at the end.
        let before: usize = changes.iter().rev().skip(1).map(|change| change.to_string().len()).sum();
        assert!(before < 1024, "{} bytes before the last change", before);
        longest = longest.max(of(changes.last().unwrap()));
        let written = changes.iter().flat_map(|change| change["operations"].as_array().unwrap());
        documents += written.filter(|one| one["op"] == "index").count();
        since = answer.body["next"].as_u64().unwrap();
    }
    assert_eq!((documents, longest), (29, 9));
}

/// A start begins a file of the log behind the last one. Who reads to the end is at the newest position all the same, and waits there.
#[test]
fn a_reader_comes_to_the_newest_position_after_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut since = 0;
    for round in 0..3 {
        let server = started(&data, &[]);
        let read = check(&server, &format!("/_changes?since={since}&timeout=50ms"), 200, "");
        assert_eq!(read["next"], read["newest"], "round {round}: {read}");
        server.ok("PUT", &format!("/a/_doc/{round}"), &json!({ "n": round }));
        let read = check(&server, &format!("/_changes?since={}", read["next"]), 200, "");
        assert_eq!(
            read["changes"].as_array().unwrap().len(),
            if round == 0 { 2 } else { 1 },
            "{read}"
        );
        assert_eq!(read["next"], read["newest"], "round {round}: {read}");
        since = read["next"].as_u64().unwrap();
        server.signal(if round == 1 { libc::SIGTERM } else { libc::SIGKILL });
    }
}

#[test]
fn old_changes_are_given_up() {
    let folder = tempfile::tempdir().unwrap();
    for (name, retention, is_kept) in [("kept", "64mb", true), ("gone", "0b", false)] {
        let data = folder.path().join(name);
        let setting = format!("changes.retention.bytes={retention}");
        for round in 0..2 {
            let server = started(&data, &[&setting]);
            server.ok("PUT", &format!("/a/_doc/{round}"), &json!({ "n": round }));
            server.ok("PUT", &format!("/former/_doc/{round}"), &json!({ "n": round }));
            server.ok("DELETE", "/former", &Value::Null);
            server.ok("POST", "/_flush", &Value::Null);
        }
        let server = started(&data, &[&setting]);
        let newest = check(&server, "/_changes?since=now", 200, "");
        let oldest = newest["oldest"].as_u64().unwrap();
        if is_kept {
            let all = check(&server, "/_changes?since=0", 200, "");
            let text = all.to_string();
            // An index that is gone since before the last checkpoint still has its name.
            assert_eq!(text.matches("\"op\":\"delete_index\"").count(), 2, "{text}");
            assert_eq!(
                text.matches("\"_index\":\"former\"").count(),
                text.matches("former").count(),
                "{text}"
            );
            assert_eq!(oldest, 0);
            continue;
        }
        let refused = check(&server, "/_changes?since=0", 410, "changes_gone_exception");
        assert_eq!(refused["error"]["oldest"], oldest, "{refused}");
        assert!(
            refused["error"]["reason"]
                .as_str()
                .unwrap()
                .contains("changes.retention.bytes"),
            "{refused}"
        );
        check(&server, &format!("/_changes?since={oldest}"), 200, "");
    }
}

#[test]
fn a_request_waits_for_the_next_change() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(&folder.path().join("data"), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    let since = check(&server, "/_changes?since=now", 200, "")["next"].clone();
    // Nothing comes: the answer comes with the timeout.
    let begun = Instant::now();
    let nothing = check(
        &server,
        &format!("/_changes?since={since}&timeout=300ms"),
        200,
        "\"changes\":[]",
    );
    assert!(begun.elapsed() >= Duration::from_millis(300), "{nothing}");
    std::thread::scope(|scope| {
        let path = format!("/_changes?since={since}&timeout=1m&index=b");
        let server = &server;
        let waiting = scope.spawn(move || (check(server, &path, 200, "\"_index\":\"b\""), Instant::now()));
        // A change of another index does not end the wait.
        server.ok("PUT", "/a/_doc/2", &json!({ "n": 2 }));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished());
        let written = Instant::now();
        server.ok("PUT", "/b/_doc/1", &json!({ "n": 1 }));
        let (part, answered) = waiting.join().unwrap();
        assert!(answered.duration_since(written) < LATE, "{part}");
    });
}

/// With a long `changes.feed.linger` several writes come in one answer; one that is full does not wait for it.
#[test]
fn a_follower_of_a_busy_server_gets_several_changes_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(folder.path(), &["changes.feed.linger=2s"]);
    server.ok("PUT", "/a/_doc/0", &json!({ "n": 0 }));
    let now = server.ok("GET", "/_changes?since=now", &Value::Null)["next"].clone();
    let path = format!("/_changes?since={now}&timeout=30s");
    let (waited, answer) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let begun = Instant::now();
            let answer = server.ok("GET", &path, &Value::Null);
            (begun.elapsed(), answer)
        });
        for n in 1..=3 {
            server.ok("PUT", &format!("/a/_doc/{n}"), &json!({ "n": n }));
        }
        follower.join().unwrap()
    });
    // A follower that began behind some of the writes has them as well: it is behind `now`.
    let ids: Vec<&Value> = answer["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["operations"][0]["_id"])
        .collect();
    assert_eq!(ids, ["1", "2", "3"], "{answer}");
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    let begun = Instant::now();
    let full = server.ok("GET", &format!("{path}&limit=3"), &Value::Null);
    assert_eq!(full["changes"].as_array().unwrap().len(), 3, "{full}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // Nobody who does not wait waits for it.
    let begun = Instant::now();
    server.ok("GET", &format!("/_changes?since={now}"), &Value::Null);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

/// Reads a copy to its end in parts of so many operations. Gives the documents, and the position behind it.
fn copied(server: &Server, limit: u32, parameters: &str) -> (Documents, u64) {
    let mut follower = Follower::default();
    let mut path = format!("/_changes?since=0&initial=true&limit={limit}{parameters}");
    loop {
        let part = check(server, &path, 200, "");
        for change in part["changes"].as_array().unwrap() {
            assert_eq!(change["initial"], true, "{change}");
            assert!(change["operations"].as_array().unwrap().len() <= limit as usize, "{change}");
            // Every part of a copy is of the same moment.
            follower.since = 0;
            follower.apply(change);
        }
        match &part["next"] {
            Value::String(next) => path = format!("/_changes?since={next}&limit={limit}"),
            next => return (follower.documents, next.as_u64().unwrap()),
        }
    }
}

#[test]
fn who_begins_with_a_copy_misses_nothing_and_sees_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = started(&data, FREQUENT);
    let settings = json!({ "settings": { "refresh_interval": "-1" }, "mappings": { "properties": { "n": { "type": "long" } } } });
    server.ok("PUT", "/a", &settings);
    server.ok("PUT", "/still/_doc/1", &json!({ "n": 1 }));
    server.ok("PUT", "/closed/_doc/1", &json!({ "n": 1 }));
    server.ok("POST", "/closed/_close", &Value::Null);
    let over = AtomicBool::new(false);
    let (copy, since) = std::thread::scope(|scope| {
        for thread in 0..2 {
            let (server, over) = (&server, &over);
            scope.spawn(move || write(server, thread, over));
        }
        std::thread::sleep(Duration::from_millis(300));
        let copied = copied(&server, 9, "");
        std::thread::sleep(Duration::from_millis(200));
        over.store(true, Ordering::Relaxed);
        copied
    });
    assert!(copy.contains_key(&("closed".to_owned(), "1".to_owned())), "{copy:?}");
    // The same moment by the feed from the beginning, and what follows by both.
    let mut fold = Follower::default();
    let all = check(&server, "/_changes?since=0&limit=10000", 200, "");
    assert_eq!(all["next"], all["newest"], "one answer has everything");
    let changes = all["changes"].as_array().unwrap().iter();
    changes
        .filter(|change| change["commit_seq"].as_u64().unwrap() <= since)
        .for_each(|change| fold.apply(change));
    assert_eq!(copy, fold.documents, "at {since}");
    let mut follower = Follower {
        since,
        documents: copy,
        ..Follower::default()
    };
    while follower.read(&server, 100).unwrap() {}
    assert!(follower.changes > 0, "nothing was written behind the copy");
    follower.documents.remove(&("closed".to_owned(), "1".to_owned()));
    assert_eq!(follower.documents, stored(&server));
    // Of some indices alone.
    let (of_still, _) = copied(&server, 100, "&index=st*");
    assert_eq!(
        of_still.keys().map(|(index, _)| index.as_str()).collect::<Vec<_>>(),
        ["still"]
    );
    // A copy ends with its server.
    let begun = check(&server, "/_changes?since=0&initial=true&limit=1", 200, "");
    drop(server);
    let server = started(&data, FREQUENT);
    let path = format!("/_changes?since={}", begun["next"].as_str().unwrap());
    check(&server, &path, 410, "begin again with [since=0&initial=true]");
}

#[test]
fn a_copy_comes_as_events_and_then_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(&folder.path().join("data"), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    let path = "/_changes?since=0&initial=true";
    let mut events = lines(&server, path, "", "text/event-stream");
    let mut next = |prefix: &str| events.find_map(|line| line.strip_prefix(prefix).map(str::to_owned)).unwrap();
    let place = next("id: ");
    let part: Value = serde_json::from_str(&next("data: ")).unwrap();
    assert_eq!(part["operations"].as_array().unwrap().len(), 2, "{part}");
    let end: u64 = next("id: ").parse().unwrap();
    assert_eq!(next("event: "), "copied");
    server.ok("PUT", "/a/_doc/2", &json!({ "n": 2 }));
    let id: u64 = next("id: ").parse().unwrap();
    assert!(id > end, "{id} {end}");
    // A client that lost its connection goes on in the same copy.
    let headers = format!("last-event-id: {place}\r\n");
    let mut again = lines(&server, path, &headers, "text/event-stream");
    let id = again.find_map(|line| line.strip_prefix("id: ").map(str::to_owned));
    assert_eq!(id, Some(end.to_string()));
}

#[test]
fn consumers_keep_their_position_and_their_changes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let settings = [
        "changes.retention.bytes=0b",
        "changes.consumers.max=2",
        "log.checkpoint_ops=60",
    ];
    let put = |server: &Server, name: &str, position: &Value, status: u16, told: &str| {
        let answer = server.call("PUT", &format!("/_changes/consumer/{name}"), &json!({ "position": position }));
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert!(answer.text.contains(told), "{name}: {answer:?}");
        answer.body
    };
    let mut expected = Vec::new();
    let position = {
        let server = started(&data, &settings);
        server.ok("PUT", "/a/_doc/0", &json!({ "n": 0 }));
        let position = put(&server, "one", &json!("now"), 200, "\"is_gone\":false")["position"].clone();
        put(&server, "two", &json!(0), 200, "");
        put(&server, "three", &json!("now"), 400, "changes.consumers.max");
        put(&server, "Two", &json!("now"), 400, "is no name of a consumer");
        put(&server, "two", &json!(-1), 400, "[position] is [-1]");
        put(&server, "two", &json!(1_u64 << 60), 400, "beyond the newest change");
        server.ok("DELETE", "/_changes/consumer/two", &Value::Null);
        check(&server, "/_changes/consumer/two", 404, "there is no consumer [two]");
        let gone = server.call("DELETE", "/_changes/consumer/two", &Value::Null);
        assert_eq!(gone.status, 404, "{gone:?}");
        for n in 1..200 {
            server.ok("PUT", &format!("/a/_doc/{n}"), &json!({ "n": n }));
            expected.push(n.to_string());
        }
        server.ok("POST", "/_flush", &Value::Null);
        server.signal(libc::SIGKILL);
        position
    };
    let server = started(&data, &settings);
    server.ok("POST", "/_flush", &Value::Null);
    let known = check(&server, "/_changes/consumer", 200, "");
    assert_eq!(known["consumers"].as_array().unwrap().len(), 1, "{known}");
    assert_eq!(known["consumers"][0]["position"], position, "{known}");
    let part = check(&server, "/_changes?consumer=one", 200, "");
    let ids: Vec<String> = part["changes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|change| change["operations"].as_array().unwrap().clone())
        .map(|operation| operation["_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids, expected);
    // What it has read may go.
    put(&server, "one", &part["next"], 200, "\"behind_in_bytes\":");
    for n in 0..100 {
        server.ok("PUT", &format!("/a/_doc/{n}"), &json!({ "n": n }));
    }
    server.ok("POST", "/_flush", &Value::Null);
    assert_eq!(check(&server, "/_changes/consumer/one", 200, "")["is_gone"], false);
}

/// Sends a request; gives the lines of its answer's body, of the media type that is expected.
fn lines(server: &Server, path: &str, headers: &str, media_type: &str) -> impl Iterator<Item = String> + use<> {
    let mut stream = TcpStream::connect(server.address("")).unwrap();
    stream.set_read_timeout(Some(LATE)).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\naccept: {media_type}\r\n{headers}\r\n",
        server.address("")
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(head.contains(&format!("content-type: {media_type}")), "{head:?}");
    lines
}

#[test]
fn changes_come_as_lines_and_as_events() {
    let folder = tempfile::tempdir().unwrap();
    let server = started(&folder.path().join("data"), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({ "n": 1 }));
    let all = check(&server, "/_changes?since=0", 200, "");
    let changes = all["changes"].as_array().unwrap();

    let got = lines(&server, "/_changes?since=0", "connection: close\r\n", "application/x-ndjson");
    let got: Vec<Value> = got.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(&got[..changes.len()], changes);
    assert_eq!(got[changes.len()]["next"], all["next"]);

    let events = |headers: &str| {
        let lines = lines(&server, "/_changes?since=0", headers, "text/event-stream");
        lines.filter_map(|line| {
            let data = line.strip_prefix("data: ")?;
            Some(serde_json::from_str::<Value>(data).unwrap())
        })
    };
    let mut stream = events("");
    for change in changes {
        assert_eq!(stream.next().as_ref(), Some(change));
    }
    server.ok("PUT", "/a/_doc/2", &json!({ "n": 2 }));
    let next = stream.next().unwrap();
    assert_eq!(next["operations"].as_array().unwrap().last().unwrap()["_id"], "2", "{next}");
    // A client that lost its connection goes on behind the last event that it saw.
    let last = changes.last().unwrap()["commit_seq"].clone();
    assert_eq!(events(&format!("last-event-id: {last}\r\n")).next(), Some(next));
    // A stream does not keep the server from stopping.
    drop(stream);
    let still_open = events("");
    server.signal(libc::SIGTERM);
    assert!(still_open.count() >= changes.len());
}
