//! The two ways to make a change beside each other: what a client is told and what is there afterwards is the same, but for
//! the numbers of versions (`changes.path: portable` writes a document more than once).
//!
//! Not here: what a stopped change shows (`server/tests/read_levels.rs`), kills (`fencing.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tests::Server;

const PORTABLE: &[&str] = &["changes.path=portable"];
const IDS: [&str; 3] = ["a", "b", "c"];
const INDICES: [&str; 2] = ["left", "right"];

fn both() -> (tempfile::TempDir, [Server; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let start = |name: &str, settings: &[&str]| Server::start_with(&folder.path().join(name), &["es8", "es2"], settings);
    let servers = [start("record", &[]), start("portable", PORTABLE)];
    (folder, servers)
}

fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.send(method, path, &text).unwrap();
    (answer.status, answer.body)
}

/// Promises that hold alike by both paths, as their scenarios say them.
#[test]
fn contract_03_and_09_and_10_and_11_and_12_and_13_and_16_and_17_and_19_and_20_and_21_and_22_and_24_and_26_and_28_and_30_and_32_scenarios_by_the_portable_path()
 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/changes");
    for name in [
        "contract_03_what_documents_bring",
        "contract_03_which_operation",
        "contract_09_makes_nothing_again",
        "contract_10_reads_one_moment_and_own_writes",
        "contract_11_optimistic_commits",
        "contract_12_by_query",
        "contract_12_lock_documents",
        "contract_12_what_cannot_be_committed",
        "contract_12_staging",
        "contract_13_their_ends",
        "contract_16_commit_seq",
        "contract_17_after",
        "contract_19_owners_and_upgrades",
        "contract_20_targets",
        "contract_21_paths",
        "contract_22_lists",
        "contract_24_on_expire",
        "contract_26_lock_on_reads",
        "contract_28_by_query",
        "contract_28_settings",
        "contract_30_owners",
        "contract_32_atomic_jobs",
    ] {
        let file = folder.join(format!("{name}.yaml"));
        tests::scenario::run_with(&file, PORTABLE).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

/// What of an item must be the same: all but its numbers.
fn told(body: &Value) -> Value {
    let items = body["items"].as_array().into_iter().flatten().map(|item| {
        let (label, of) = item.as_object().unwrap().iter().next().unwrap();
        json!([
            label,
            of["_index"],
            of["_id"],
            of["result"],
            of["status"],
            of["error"]["type"],
            of["get"]["_source"]
        ])
    });
    json!([
        body["committed"],
        body["branch"],
        body["error"]["type"],
        items.collect::<Vec<_>>()
    ])
}

/// Each document that a change writes has one stamp in all its items.
fn check_stamps(body: &Value) {
    let mut stamps: Map<String, Value> = Map::new();
    for item in body["items"].as_array().into_iter().flatten() {
        let of = item.as_object().unwrap().values().next().unwrap();
        if of["_seq_no"].is_null() || of["result"] == "noop" {
            continue;
        }
        let stamp = json!([of["_seq_no"], of["_version"]]);
        let known = stamps
            .entry(format!("{}/{}", of["_index"], of["_id"]))
            .or_insert_with(|| stamp.clone());
        assert_eq!(*known, stamp, "{body}");
    }
}

/// Any operations on few documents, conditions and alternatives: the same outcome, item by item, and the same documents.
#[test]
fn contract_02_and_03_and_04_and_05_and_08_both_paths_come_to_the_same() {
    let (_folder, servers) = both();
    for server in &servers {
        for index in INDICES {
            let mappings = json!({"mappings": {"properties": {"n": {"type": "long"}}}});
            assert_eq!(send(server, "PUT", &format!("/{index}"), &mappings).0, 200);
        }
    }
    let mut seed = 11_u64;
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut outcomes = [0; 3];
    for _ in 0..150 {
        let mut operation = || {
            let at = json!({"_index": INDICES[next(2)], "_id": IDS[next(3)]});
            let with = |label: &str, more: Value| {
                let mut at = at.clone();
                at.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                json!({label: at})
            };
            match next(14) {
                0 | 1 => with("create", json!({"doc": {"n": 1}})),
                2..=4 => with("index", json!({"doc": {"n": next(5)}})),
                5 | 6 => with("delete", json!({})),
                7 => with("update", json!({"doc": {"m": next(3)}, "_source": true})),
                8..=10 => with(
                    "update",
                    json!({"script": "ctx._source.n = (ctx._source.n == null ? 0 : ctx._source.n) + 1", "upsert": {"n": 10}, "_source": true}),
                ),
                11 => with(
                    "update",
                    json!({"script": "if (ctx._source.n > 2) { ctx.op = 'delete' } else { ctx.op = 'none' }"}),
                ),
                12 => with(
                    "update",
                    json!({"script": "throw new IllegalStateException('no')", "upsert": {"n": 3}}),
                ),
                // The mapping takes no object here.
                _ => with("index", json!({"doc": {"n": {"x": 1}}})),
            }
        };
        let count = 1 + operation().to_string().len() % 3;
        let operations: Vec<Value> = (0..count).map(|_| operation()).collect();
        let otherwise: Vec<Value> = (0..count % 2).map(|_| operation()).collect();
        let mut body = json!({"operations": operations, "else": otherwise});
        if next(2) == 0 {
            body["if"] = json!([{"index": INDICES[next(2)], "id": IDS[next(3)], "exists": next(2) == 0}]);
        }
        let answers = servers.each_ref().map(|server| send(server, "POST", "/_transaction", &body));
        let [record, portable] = &answers;
        assert_eq!(
            (record.0, told(&record.1)),
            (portable.0, told(&portable.1)),
            "{body}\n{answers:?}"
        );
        for (_, answer) in &answers {
            check_stamps(answer);
        }
        outcomes[usize::from(record.0 != 200) + usize::from(record.0 == 412)] += 1;
        for index in INDICES {
            for id in IDS {
                let path = format!("/{index}/_doc/{id}");
                let [one, other] = servers.each_ref().map(|server| {
                    let (status, found) = send(server, "GET", &path, &Value::Null);
                    (status, found["_source"].clone())
                });
                assert_eq!(one, other, "{path} after {body}");
            }
        }
    }
    assert!(
        outcomes.iter().all(|n| *n > 5),
        "committed, failed, and conditions that did not hold: {outcomes:?}"
    );
}

/// Documents with a `_timestamp` and a `_ttl` in changes: they have the times that the change was decided with, by both paths, and
/// keep them when a change only looks at them.
#[test]
fn contract_05_times_of_documents_by_both_paths() {
    let (_folder, servers) = both();
    let shown = servers.each_ref().map(|server| {
        let es2 = |method: &str, path: &str, body: &Value| {
            let text = if body.is_null() { String::new() } else { body.to_string() };
            let answer = tests::send(server.address("es2"), method, path, &[], text.as_bytes()).unwrap();
            assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
            answer.body
        };
        let mapping = json!({"mappings": {"t": {"_timestamp": {"enabled": true}, "_ttl": {"enabled": true, "default": "1d"}}}});
        es2("PUT", "/timed", &mapping);
        es2("PUT", "/timed/t/kept?timestamp=2030-01-01", &json!({"n": 1}));
        let operations = json!({"if": [{"index": "timed", "type": "t", "id": "kept", "exists": true}], "operations": [
            {"index": {"_index": "timed", "_type": "t", "_id": "said", "_timestamp": "2031-01-01", "_ttl": "2d", "doc": {"n": 1}}},
            {"index": {"_index": "timed", "_type": "t", "_id": "now", "doc": {"n": 1}}},
            {"update": {"_index": "timed", "_type": "t", "_id": "kept", "script": "ctx._source.n += 1"}},
        ]});
        es2("POST", "/_transaction", &operations);
        es2("POST", "/timed/_refresh", &Value::Null);
        // One that changes nothing, and a job over all of them.
        let failed = json!({"if": [{"index": "timed", "type": "t", "id": "said", "exists": false}], "operations": [
            {"delete": {"_index": "timed", "_type": "t", "_id": "said"}}]});
        let refused = tests::send(server.address("es2"), "POST", "/_transaction", &[], failed.to_string().as_bytes()).unwrap();
        assert_eq!(refused.status, 412, "{refused:?}");
        let job = es2("POST", "/timed/_update_by_query", &json!({"script": {"inline": "ctx._source.n += 10"}}));
        assert_eq!(job["updated"], 3, "{job}");
        let day_ms = 86_400_000_i64;
        ["said", "now", "kept"].map(|id| {
            let path = format!("/timed/t/{id}?fields=_timestamp,_ttl,_source");
            let found = es2("GET", &path, &Value::Null);
            let times = ["_timestamp", "_ttl"].map(|name| found[name].as_i64().unwrap_or_else(|| panic!("{found}")));
            // The rest of a life grows shorter while we look.
            let ends = times[1] + now_ms();
            let days = (ends - times[0] + day_ms / 2) / day_ms;
            let is_now = (now_ms() - times[0]).abs() < 60_000;
            json!([id, if is_now { 0 } else { times[0] }, days, found["_source"]["n"]])
        })
    });
    assert_eq!(shown[0], shown[1]);
    assert_eq!(
        json!(shown[0]),
        json!([
            ["said", 1_924_992_000_000_i64, 2, 11],
            ["now", 0, 1, 11],
            ["kept", 1_893_456_000_000_i64, 1, 12]
        ])
    );
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// The time of a change is over while it waits: it is told so in time, and nothing of it comes later.
#[test]
fn contract_07_a_timeout_changes_nothing_by_both_paths() {
    let (_folder, servers) = both();
    for server in &servers {
        let lock = send(server, "POST", "/_lock", &json!({"targets": [{"name": "gate"}]})).1["id"].clone();
        let change = json!({"locks": [{"name": "gate"}], "operations": [{"index": {"_index": "late", "_id": "1", "doc": {}}}]});
        let began = Instant::now();
        let (status, refused) = send(server, "POST", "/_transaction?timeout=500ms&idempotency_key=k", &change);
        let waited = began.elapsed();
        assert_eq!(
            (status, &refused["error"]["type"]),
            (409, &json!("lock_conflict_exception")),
            "{refused}"
        );
        assert!(
            waited >= Duration::from_millis(450) && waited < Duration::from_secs(10),
            "{waited:?}"
        );
        assert_eq!(
            send(server, "POST", "/_transaction?timeout=0", &change).0,
            409,
            "no time is no wait"
        );
        send(server, "DELETE", &format!("/_lock/{}", lock.as_str().unwrap()), &Value::Null);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(
            send(server, "GET", "/late/_doc/1", &Value::Null).0,
            404,
            "it does not come later"
        );
        // A failure is not kept: the same key runs anew.
        let (status, done) = send(server, "POST", "/_transaction?timeout=500ms&idempotency_key=k", &change);
        assert_eq!((status, done["replayed"].clone()), (200, Value::Null), "{done}");
    }
}

/// A change that has no room in one record, by both paths: all of it, and after a failure in its last line nothing.
#[test]
fn contract_06_many_operations_by_both_paths() {
    let (_folder, servers) = both();
    let text = "x".repeat(400);
    let lines = |last: Value| {
        let puts = (0..2_500).map(|n| json!({"index": {"_index": "many", "_id": n.to_string(), "doc": {"n": n, "text": text}}}));
        json!({ "operations": puts.chain([last]).collect::<Vec<Value>>() })
    };
    for server in &servers {
        let bad = lines(json!({"create": {"_index": "many", "_id": "0", "doc": {}}}));
        let (status, refused) = send(server, "POST", "/_transaction", &bad);
        assert_eq!(status, 409, "{refused}");
        send(server, "POST", "/_refresh", &Value::Null);
        let count = || send(server, "GET", "/many/_count?ignore_unavailable=true", &Value::Null).1["count"].clone();
        assert_eq!(count(), 0);
        let good = lines(json!({"delete": {"_index": "many", "_id": "7"}}));
        let (status, done) = send(server, "POST", "/_transaction?refresh=true", &good);
        assert_eq!(status, 200, "{done}");
        assert_eq!(count(), 2_499);
        assert_eq!(send(server, "GET", "/many/_source/2499", &Value::Null).1["n"], 2_499);
    }
}
