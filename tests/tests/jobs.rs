//! By-query jobs over kills, cancels, restarts and beside other writers: promises that one client cannot show.
//!
//! More kills: `PLEACH_TEST_ROUNDS`.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tests::Server;
use tests::paths::{self, by_both_paths};

fn rounds(default: u64) -> u64 {
    std::env::var("PLEACH_TEST_ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(default)
}

fn start(data: &Path) -> Server {
    Server::start_with(data, &["es8"], &["log.checkpoint_ops=900", &paths::setting()])
}

/// Documents `0..count` with `n: 0`.
fn fill(server: &Server, index: &str, count: u64) {
    let body = json!({"mappings": {"properties": {"n": {"type": "integer"}}}});
    server.ok("PUT", &format!("/{index}"), &body);
    for part in (0..count).collect::<Vec<_>>().chunks(1000) {
        let lines: String = part
            .iter()
            .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":0,\"of\":{n}}}\n"))
            .collect();
        let answer = server.send("POST", &format!("/{index}/_bulk?refresh=true"), &lines).unwrap();
        assert_eq!(answer.body["errors"], false);
    }
}

/// How many documents have each value of `n`.
fn values(server: &Server, index: &str) -> Vec<(i64, u64)> {
    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let body = json!({"size": 0, "aggs": {"n": {"terms": {"field": "n", "size": 100}}}});
    let found = server.ok("POST", &format!("/{index}/_search"), &body);
    let buckets = found["aggregations"]["n"]["buckets"].as_array().unwrap().clone();
    let mut all: Vec<(i64, u64)> = buckets
        .iter()
        .map(|b| (b["key"].as_i64().unwrap(), b["doc_count"].as_u64().unwrap()))
        .collect();
    all.sort_unstable();
    all
}

fn count(server: &Server, index: &str) -> u64 {
    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    server.ok("GET", &format!("/{index}/_count"), &Value::Null)["count"]
        .as_u64()
        .unwrap()
}

/// A script that takes a while, then counts.
fn counting() -> Value {
    slow("ctx._source.n += 1")
}
fn slow(then: &str) -> Value {
    json!({"script": {"source": format!("int x = 0; for (int i = 0; i < 400; i++) {{ x += i }} {then}")}})
}

fn task(server: &Server, id: &str) -> Value {
    server.ok("GET", &format!("/_tasks/{id}"), &Value::Null)
}

fn changed(task: &Value) -> u64 {
    let status = &task["task"]["status"];
    ["updated", "created", "deleted", "noops"]
        .iter()
        .map(|name| status[*name].as_u64().unwrap_or(0))
        .sum()
}

/// Waits until the task has done more than that, or has ended; what it is then.
fn beyond(server: &Server, id: &str, done: u64) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let found = task(server, id);
        if found["completed"] == true || changed(&found) > done {
            return found;
        }
        assert!(Instant::now() < until, "no batch in a minute: {found}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a job with the server killed after each batch, up to a number of kills, then to its end.
fn killed(data: &Path, mut server: Server, id: &str, kills: u64) -> (Server, Value) {
    let mut done = 0;
    for kill in 0..kills {
        let found = beyond(&server, id, done);
        if found["completed"] == true {
            eprintln!("ended after {kill} kills");
            break;
        }
        server.signal(libc::SIGKILL);
        drop(server);
        server = start(data);
        let again = task(&server, id);
        // What was shown as done was durable.
        assert!(
            changed(&again) >= changed(&found) || again["task"]["status"].is_null(),
            "{again}"
        );
        done = changed(&found);
    }
    let last = server.ok(
        "GET",
        &format!("/_tasks/{id}?wait_for_completion=true&timeout=120s"),
        &Value::Null,
    );
    assert_eq!(last["completed"], true, "{last}");
    (server, last)
}

/// `n += 1` over some thousands of documents, the server killed after each batch: every n is exactly 1, and the counts
/// are those of one run.
#[test]
fn contract_31_every_document_once_over_kills() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data);
        fill(&server, "c", 3000);
        let begun = server.ok(
            "POST",
            "/c/_update_by_query?wait_for_completion=false&scroll_size=100",
            &counting(),
        );
        let (server, ended) = killed(&data, server, begun["task"].as_str().unwrap(), rounds(16));
        assert_eq!(values(&server, "c"), [(1, 3000)]);
        let response = &ended["response"];
        assert_eq!(
            (&response["total"], &response["updated"]),
            (&json!(3000), &json!(3000)),
            "{ended}"
        );
        assert_eq!(
            (&response["batches"], &response["version_conflicts"]),
            (&json!(30), &json!(0)),
            "{ended}"
        );
    });
}

/// A copy over kills omits nothing; what is written at the source meanwhile is copied as it is newest.
#[test]
fn contract_31_a_copy_over_kills_omits_none() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data);
        fill(&server, "from", 2000);
        let mut body = slow("ctx._source.n += 1");
        body["source"] = json!({"index": "from"});
        body["dest"] = json!({"index": "to", "op_type": "create"});
        let begun = server.ok(
            "POST",
            "/_reindex?wait_for_completion=false&scroll_size=100",
            &json!({"source": {"index": "from", "size": 100}, "dest": body["dest"], "script": body["script"]}),
        );
        server.ok("POST", "/from/_update/1999?refresh=true", &json!({"doc": {"n": 6}}));
        let (server, ended) = killed(&data, server, begun["task"].as_str().unwrap(), rounds(6));
        assert_eq!(ended["response"]["failures"], json!([]), "{ended}");
        assert_eq!(count(&server, "to"), 2000);
        let n = server.ok("GET", "/to/_doc/1999", &Value::Null)["_source"]["n"].as_i64();
        assert!(n == Some(1) || n == Some(7), "the version of the start, or the newest: {n:?}");
    });
}

/// A deletion over kills deletes what matched and nothing else.
#[test]
fn contract_31_a_deletion_over_kills() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data);
        fill(&server, "d", 3000);
        let query = json!({"query": {"range": {"of": {"lt": 2000}}}});
        let begun = server.ok("POST", "/d/_delete_by_query?wait_for_completion=false&scroll_size=20", &query);
        // Written after the start: not what matched then.
        server.ok("PUT", "/d/_doc/new?refresh=true", &json!({"of": 1}));
        let (server, ended) = killed(&data, server, begun["task"].as_str().unwrap(), rounds(5));
        assert_eq!(ended["response"]["deleted"], 2000, "{ended}");
        assert_eq!(count(&server, "d"), 1001);
        server.ok("GET", "/d/_doc/new", &Value::Null);
    });
}

/// Other writers beside a job: what they wrote first is a conflict if the job meets it, what they write later stays on
/// top; nothing is counted twice, with `proceed`; without it the job stops and keeps what it has done.
#[test]
fn contract_31_other_writers() {
    by_both_paths(|| {
        for (conflicts, proceeds) in [("proceed", true), ("abort", false)] {
            let folder = tempfile::tempdir().unwrap();
            let server = start(&folder.path().join("data"));
            fill(&server, "w", 1000);
            let path = format!("/w/_update_by_query?wait_for_completion=false&scroll_size=50&conflicts={conflicts}");
            let begun = server.ok("POST", &path, &counting());
            let id = begun["task"].as_str().unwrap();
            beyond(&server, id, 0);
            // The last ones have not been reached; the first ones have.
            let lines: String = (0..10)
                .chain(990..1000)
                .map(|n| format!("{{\"update\":{{\"_id\":\"{n}\"}}}}\n{{\"script\":\"ctx._source.n += 10\"}}\n"))
                .collect();
            assert_eq!(server.send("POST", "/w/_bulk", &lines).unwrap().body["errors"], false);
            let ended = server.ok(
                "GET",
                &format!("/_tasks/{id}?wait_for_completion=true&timeout=60s"),
                &Value::Null,
            );
            let response = &ended["response"];
            assert_eq!(response["version_conflicts"], 10, "{ended}");
            assert_eq!(values(&server, "w"), [(1, 980), (10, 10), (11, 10)], "{conflicts}");
            assert_eq!(response["failures"].as_array().unwrap().is_empty(), proceeds, "{ended}");
            assert_eq!(response["updated"], 990);
        }
    });
}

/// Cancelled between batches; after a kill it is still cancelled, and nothing more is done.
#[test]
fn contract_32_cancel_lasts_over_a_kill() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data);
        fill(&server, "c", 2000);
        let begun = server.ok(
            "POST",
            "/c/_update_by_query?wait_for_completion=false&scroll_size=50",
            &counting(),
        );
        let id = begun["task"].as_str().unwrap().to_owned();
        beyond(&server, &id, 0);
        let told = server.ok("POST", &format!("/_tasks/{id}/_cancel"), &Value::Null);
        assert!(told["nodes"].as_object().is_some_and(|nodes| !nodes.is_empty()), "{told}");
        server.signal(libc::SIGKILL);
        drop(server);
        let server = start(&data);
        let ended = server.ok(
            "GET",
            &format!("/_tasks/{id}?wait_for_completion=true&timeout=30s"),
            &Value::Null,
        );
        assert_eq!(ended["response"]["canceled"], "by user request", "{ended}");
        let ones = values(&server, "c")
            .iter()
            .find(|(n, _)| *n == 1)
            .map_or(0, |(_, count)| *count);
        assert_eq!(ended["response"]["updated"], ones, "{ended}");
        assert!(ones < 2000, "it was stopped halfway");
        std::thread::sleep(Duration::from_millis(700));
        let still = values(&server, "c")
            .iter()
            .find(|(n, _)| *n == 1)
            .map_or(0, |(_, count)| *count);
        assert_eq!(ones, still);
    });
}

/// A request that waits for its job goes on too, and a lost connection stops nothing.
#[test]
fn contract_32_and_33_a_waiting_request_goes_on_after_a_restart() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data);
        fill(&server, "s", 1500);
        let text = counting().to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| server.send("POST", "/s/_update_by_query?scroll_size=50", &text));
            let until = Instant::now() + Duration::from_secs(30);
            loop {
                let listed = server.ok("GET", "/_tasks?detailed=true&group_by=none", &Value::Null);
                let mut tasks = listed["tasks"].as_array().unwrap().iter();
                if tasks.any(|task| task["status"]["updated"].as_u64() > Some(0)) {
                    break;
                }
                assert!(Instant::now() < until, "it runs: {listed}");
            }
            server.signal(libc::SIGKILL);
        });
        drop(server);
        let server = start(&data);
        let until = Instant::now() + Duration::from_secs(60);
        while values(&server, "s") != [(1, 1500)] {
            assert!(Instant::now() < until, "it goes on: {:?}", values(&server, "s"));
        }
        // Nobody would ask for its outcome: nothing is left of it.
        let until = Instant::now() + Duration::from_secs(10);
        while !server.ok("GET", "/_tasks?group_by=none&actions=*byquery", &Value::Null)["tasks"]
            .as_array()
            .unwrap()
            .is_empty()
        {
            assert!(Instant::now() < until);
        }
    });
}

/// A job that a start goes on with ends as well when its index was deleted and made again while it was not looking.
#[test]
fn contract_31_a_resumed_job_holds_its_index() {
    by_both_paths(|| {
        for round in 0..rounds(2) {
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data");
            let mut server = start(&data);
            fill(&server, "old", 3000);
            let path = "/old/_update_by_query?wait_for_completion=false&scroll_size=10&conflicts=proceed";
            let begun = server.ok("POST", path, &counting());
            let id = begun["task"].as_str().unwrap().to_owned();
            let found = beyond(&server, &id, 20);
            assert_eq!(found["completed"], false, "it is on: {found}");
            // Before the kill and after the start by turns: the record says which index it was.
            let replace = |server: &Server| {
                server.ok("DELETE", "/old", &Value::Null);
                fill(server, "old", 3000);
            };
            if round % 2 == 0 {
                server.ok("DELETE", "/old", &Value::Null);
                server.ok(
                    "PUT",
                    "/old",
                    &json!({"mappings": {"properties": {"n": {"type": "integer"}}}}),
                );
            }
            server.signal(libc::SIGKILL);
            server.wait(Duration::from_secs(10)).unwrap();
            drop(server);
            server = start(&data);
            match round % 2 {
                0 => drop(server.ok("PUT", "/old/_doc/0?refresh=true", &json!({"n": 0}))),
                _ => replace(&server),
            }
            let waited = format!("/_tasks/{id}?wait_for_completion=true&timeout=60s");
            let ended = server.ok("GET", &waited, &Value::Null);
            assert_eq!(ended["completed"], true, "{ended}");
            let documents = if round % 2 == 0 { 1 } else { 3000 };
            assert_eq!(values(&server, "old"), [(0, documents)], "round {round}: {ended}");
            let text = ended.to_string();
            assert!(text.contains("index_not_found_exception"), "round {round}: {text}");
        }
    });
}

/// A server that is told to end does so at once, and goes on where it was.
#[test]
fn contract_32_an_orderly_end_is_no_end_of_tasks() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut server = start(&data);
        fill(&server, "o", 1500);
        let begun = server.ok(
            "POST",
            "/o/_update_by_query?wait_for_completion=false&scroll_size=50",
            &counting(),
        );
        let id = begun["task"].as_str().unwrap().to_owned();
        beyond(&server, &id, 0);
        server.signal(libc::SIGTERM);
        let status = server.wait(Duration::from_secs(10)).expect("it ends in time");
        assert!(status.success(), "{status}");
        let server = start(&data);
        let ended = server.ok(
            "GET",
            &format!("/_tasks/{id}?wait_for_completion=true&timeout=60s"),
            &Value::Null,
        );
        assert_eq!(ended["response"]["updated"], 1500, "{ended}");
        assert_eq!(values(&server, "o"), [(1, 1500)]);
    });
}

/// One key is one task, whoever asks first, over restarts.
#[test]
fn contract_32_a_key_returns_the_task() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let server = start(&data);
        fill(&server, "k", 500);
        let path = "/k/_update_by_query?idempotency_key=once&scroll_size=100";
        let task_path = format!("{path}&wait_for_completion=false");
        let tasks: Vec<Value> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| server.ok("POST", &task_path, &counting())["task"].clone()))
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        assert!(tasks.iter().all(|task| *task == tasks[0]), "{tasks:?}");
        let waited = server.ok("POST", path, &counting());
        assert_eq!(
            (&waited["updated"], &waited["replayed"]),
            (&json!(500), &json!(true)),
            "{waited}"
        );
        let other = server.call("POST", path, &slow("ctx._source.n += 2"));
        assert_eq!(
            (other.status, &other.body["error"]["type"]),
            (409, &json!("idempotency_key_reused_exception")),
            "{other:?}"
        );
        server.signal(libc::SIGKILL);
        drop(server);
        let server = start(&data);
        assert_eq!(server.ok("POST", &task_path, &counting())["task"], tasks[0]);
        let waited = server.ok("POST", path, &counting());
        assert_eq!(
            (&waited["updated"], &waited["replayed"]),
            (&json!(500), &json!(true)),
            "{waited}"
        );
        assert_eq!(values(&server, "k"), [(1, 500)]);
        // A new task has a new number.
        let fresh = server.ok("POST", "/k/_update_by_query?wait_for_completion=false", &counting());
        assert_ne!(fresh["task"], tasks[0]);
    });
}

/// Long scripts, in a job or in a change, do not keep other requests waiting.
#[test]
fn long_scripts_block_no_other_request() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let server = start(&folder.path().join("data"));
        fill(&server, "l", 400);
        let long = "int x = 0; for (int i = 0; i < 20000; i++) { x += i } ctx._source.n += 1";
        let change = json!({"operations": (0..40).map(|n| json!({"update": {"_index": "l", "_id": n.to_string(), "script": long}})).collect::<Vec<_>>()});
        let job = json!({"script": {"source": long}, "max_docs": 40}).to_string();
        let change = change.to_string();
        std::thread::scope(|scope| {
            let busy: Vec<_> = (0..4)
                .flat_map(|_| {
                    [("/_transaction", &change), ("/l/_update_by_query?conflicts=proceed", &job)]
                        .map(|(path, body)| scope.spawn(|| server.send("POST", path, body).unwrap()))
                })
                .collect();
            let mut slowest = Duration::ZERO;
            let mut asked = 0;
            while busy.iter().any(|client| !client.is_finished()) {
                let begun = Instant::now();
                server.ok("GET", "/", &Value::Null);
                slowest = slowest.max(begun.elapsed());
                asked += 1;
            }
            for client in busy {
                let answer = client.join().unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
            }
            println!("{asked} requests meanwhile, the slowest in {slowest:?}");
            assert!(asked > 3);
        });
    });
}
