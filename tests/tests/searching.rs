//! Searches end when their time is over, when they are cancelled and when their client is gone, and long ones hold nobody up.
//!
//! Not here: which loops look at the clock (`crates/embedded/src/interrupt.rs` and its tests).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tests::{Server, send};

/// What an answer may take beyond its deadline. The engine's own bound is 100 ms; the rest is for a busy machine.
const LATE: Duration = Duration::from_millis(400);

/// A server with documents, and steps enough for a script to run for minutes.
fn started() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["script.max_steps=100000000000"];
    let server = Server::start_with(&folder.path().join("data"), &["es8"], &settings);
    for id in 0..50 {
        server.ok("PUT", &format!("/i/_doc/{id}"), &json!({ "n": id, "t": "word" }));
    }
    server.ok("POST", "/i/_refresh", &Value::Null);
    (folder, server)
}

/// A script that does not end by itself.
fn looping() -> Value {
    json!({ "source": "long x = 0; while (x >= 0) { x++ } return x" })
}

/// A search by a script that does not end.
fn endless() -> Value {
    json!({ "query": { "script_score": { "query": { "match_all": {} }, "script": looping() } } })
}

/// Searches in which each place that runs scripts does not end.
fn endless_everywhere() -> Vec<Value> {
    let script = looping();
    vec![
        endless(),
        json!({ "query": { "bool": { "filter": { "script": { "script": script } } } } }),
        json!({ "query": { "function_score": { "script_score": { "script": script } } } }),
        json!({ "sort": { "_script": { "type": "number", "script": script } } }),
        json!({ "script_fields": { "f": { "script": script } } }),
        json!({ "size": 0, "aggs": { "a": { "terms": { "script": script } } } }),
        json!({ "size": 0, "aggs": { "a": { "scripted_metric": { "init_script": "state.n = 0", "map_script": script,
            "combine_script": "return state.n", "reduce_script": "return 1" } } } }),
        json!({ "size": 0, "aggs": { "a": { "scripted_metric": { "init_script": "state.n = 0", "map_script": "state.n++",
            "combine_script": "return state.n", "reduce_script": script } } } }),
        json!({ "size": 0, "aggs": { "a": { "histogram": { "field": "n", "interval": 10 },
            "aggs": { "b": { "bucket_script": { "buckets_path": { "c": "_count" }, "script": script } } } } } }),
    ]
}

/// The ids of searches that run.
fn running(server: &Server) -> Vec<String> {
    let tasks = server.ok("GET", "/_tasks?actions=*search&detailed=true&group_by=none", &Value::Null);
    let list = tasks["tasks"].as_array().unwrap().clone();
    for task in &list {
        assert_eq!(task["action"], "indices:data/read/search");
        assert_eq!(task["cancellable"], true);
        assert!(task["description"].as_str().unwrap().starts_with("indices[i]"), "{task}");
    }
    list.iter()
        .map(|task| format!("{}:{}", task["node"].as_str().unwrap(), task["id"]))
        .collect()
}

/// Waits until as many searches run.
fn wait_for(server: &Server, count: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let ids = running(server);
        if ids.len() == count {
            return ids;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{count} searches are to run, but {ids:?} do"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client that sends a search and does not wait for its answer.
fn sent(server: &Server, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(server.address("")).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST /i/_search HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        server.address(""),
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

#[test]
fn a_timeout_holds_whatever_script_runs() {
    let (_folder, server) = started();
    for mut body in endless_everywhere() {
        body["timeout"] = json!("200ms");
        // Twice: the second is known to be long.
        for _ in 0..2 {
            let begun = Instant::now();
            let answer = server.call("POST", "/i/_search", &body);
            let took = begun.elapsed();
            assert_eq!(
                (answer.status, &answer.body["timed_out"]),
                (200, &json!(true)),
                "{body}: {answer:?}"
            );
            assert!(took < Duration::from_millis(200) + LATE, "{body}: {took:?}");
        }
    }
    wait_for(&server, 0);
}

#[test]
fn what_was_found_in_time_is_answered() {
    let (_folder, server) = started();
    let body = json!({ "timeout": "200ms", "sort": ["n"], "query": { "script": { "script": {
        "source": "long x = 0; while (doc['n'].value >= 10) { x++ } return true" } } } });
    let answer = server.ok("POST", "/i/_search", &body);
    assert_eq!(answer["timed_out"], true, "{answer}");
    assert_eq!(answer["hits"]["total"]["value"], 10, "{answer}");
    assert_eq!(answer["_shards"]["total"], 1, "{answer}");
}

#[test]
fn a_search_is_a_task_that_can_be_cancelled() {
    let (_folder, server) = started();
    std::thread::scope(|scope| {
        let search = scope.spawn(|| server.call("POST", "/i/_search", &endless()));
        let ids = wait_for(&server, 1);
        let cancelled = server.ok("POST", &format!("/_tasks/{}/_cancel", ids[0]), &Value::Null);
        assert!(cancelled["nodes"].to_string().contains("\"cancelled\":true"), "{cancelled}");
        let answer = search.join().unwrap();
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.text.contains("task_cancelled_exception"), "{answer:?}");
    });
    wait_for(&server, 0);
}

#[test]
fn a_search_ends_with_its_client() {
    let (_folder, server) = started();
    for body in endless_everywhere() {
        let stream = sent(&server, &body);
        wait_for(&server, 1);
        drop(stream);
        wait_for(&server, 0);
    }
    // The threads are free again: more long searches than there are threads come to their ends.
    for _ in 0..4 {
        let mut body = endless();
        body["timeout"] = json!("50ms");
        assert_eq!(server.ok("POST", "/i/_search", &body)["timed_out"], true);
    }
}

/// A job that is cancelled ends inside its batch, wherever it looks for documents: counting them, or reading the next.
#[test]
fn a_job_ends_inside_a_batch_when_it_is_cancelled() {
    let (_folder, server) = started();
    let query = json!({ "script": { "script": looping() } });
    let update = json!({ "query": query }).to_string();
    let copy = json!({ "source": { "index": "i", "query": query }, "dest": { "index": "copy" } }).to_string();
    for (path, body) in [
        ("/i/_update_by_query", &update),
        ("/i/_delete_by_query", &update),
        ("/_reindex", &copy),
    ] {
        std::thread::scope(|scope| {
            let job = scope.spawn(|| server.send("POST", path, body).unwrap());
            let begun = Instant::now();
            let ids = loop {
                let tasks = server.ok("GET", "/_tasks?actions=indices:data/write/*&group_by=none", &Value::Null);
                let list = tasks["tasks"].as_array().unwrap().clone();
                if !list.is_empty() {
                    break list;
                }
                assert!(begun.elapsed() < Duration::from_secs(10), "{path}: no task");
                std::thread::sleep(Duration::from_millis(5));
            };
            let id = format!("{}:{}", ids[0]["node"].as_str().unwrap(), ids[0]["id"]);
            // It has come to the script by now.
            std::thread::sleep(Duration::from_millis(100));
            let cancelled = Instant::now();
            server.ok("POST", &format!("/_tasks/{id}/_cancel"), &Value::Null);
            let answer = job.join().unwrap();
            assert!(cancelled.elapsed() < LATE, "{path}: {:?}", cancelled.elapsed());
            assert!(
                answer.text.contains("task_cancelled_exception") || answer.text.contains("\"canceled\""),
                "{path}: {answer:?}"
            );
        });
    }
    assert_eq!(server.ok("GET", "/i/_count", &Value::Null)["count"], 50);
}

#[test]
fn long_searches_hold_no_cheap_one_up() {
    let (_folder, server) = started();
    let long: Vec<TcpStream> = (0..6).map(|_| sent(&server, &endless())).collect();
    wait_for(&server, 6);
    // Until each has been found to be long.
    std::thread::sleep(Duration::from_millis(800));
    for word in ["word", "other", "third"] {
        let begun = Instant::now();
        let body = json!({ "query": { "match": { "t": word } }, "aggs": { "n": { "max": { "field": "n" } } } }).to_string();
        let answer = send(server.address(""), "POST", "/i/_search", &[], body.as_bytes()).unwrap();
        assert_eq!(answer.status, 200);
        assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    }
    drop(long);
    wait_for(&server, 0);
}
