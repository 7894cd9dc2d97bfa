//! Inputs of megabytes: they are answered or refused within seconds, and delay no other request.
//!
//! Bounds are generous, for a debug build on a busy machine: what was quadratic took minutes.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tests::{Answer, Server};

/// Words of one query, clauses of one query.
const MANY: usize = 100_000;
/// What a request with a long body may take.
const LONG: Duration = Duration::from_secs(30);
/// What another request may take beside it.
const BESIDE: Duration = Duration::from_secs(2);

fn started() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["opensearch2"]);
    let doc = json!({ "text": "some words of text", "tag": "w1" });
    server.ok("PUT", "/i/_doc/1?refresh=true", &doc);
    (folder, server)
}

fn timed(server: &Server, path: &str, body: &Value) -> (Answer, Duration) {
    let begun = Instant::now();
    let answer = server.call("POST", path, body);
    (answer, begun.elapsed())
}

#[test]
fn long_texts_to_analyze_delay_no_other_request() {
    let (_folder, server) = started();
    let text = format!("ä{}", "word with ends ".repeat((2 << 20) / 15));
    for explain in [false, true] {
        let body = json!({ "analyzer": "standard", "text": text, "explain": explain });
        std::thread::scope(|scope| {
            let long: Vec<_> = (0..2).map(|_| scope.spawn(|| timed(&server, "/_analyze", &body))).collect();
            let mut slowest = Duration::ZERO;
            while !long.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let begun = Instant::now();
                assert_eq!(server.call("GET", "/i/_doc/1", &Value::Null).status, 200);
                slowest = slowest.max(begun.elapsed());
            }
            assert!(slowest < BESIDE, "a GET took {slowest:?}");
            for one in long {
                let (answer, took) = one.join().unwrap();
                assert_eq!(answer.status, 400, "{answer:?}");
                assert!(
                    answer.body.to_string().contains("index.analyze.max_token_count"),
                    "{answer:?}"
                );
                assert!(took < LONG, "it took {took:?}");
            }
        });
    }
    // Within the limit every offset is found, however long the text. A smile is two units of UTF-16.
    let words = format!("{} ", "😀".repeat(100)).repeat(5000);
    let body = json!({ "analyzer": "whitespace", "text": format!("{words}end") });
    let (answer, took) = timed(&server, "/_analyze", &body);
    assert!(took < LONG, "it took {took:?}");
    assert_eq!(answer.body["tokens"][5000]["end_offset"], 5000 * 201 + 3);
}

#[test]
fn queries_of_many_words_are_refused_in_time() {
    let (_folder, server) = started();
    let words: Vec<String> = (0..MANY).map(|n| format!("w{n}")).collect();
    let text = words.join(" ");
    let terms: Vec<Value> = words.iter().map(|word| json!({ "term": { "text": word } })).collect();
    let many_fields = json!({ "query": text, "fields": ["text", "tag"], "type": "cross_fields" });
    let queries = [
        ("match", json!({ "match": { "text": text } })),
        (
            "lenient match",
            json!({ "match": { "text": { "query": text, "lenient": true } } }),
        ),
        (
            "fuzzy match",
            json!({ "match": { "text": { "query": text, "fuzziness": "AUTO" } } }),
        ),
        ("match_phrase", json!({ "match_phrase": { "text": text } })),
        ("match_phrase_prefix", json!({ "match_phrase_prefix": { "text": text } })),
        ("match_bool_prefix", json!({ "match_bool_prefix": { "text": text } })),
        ("multi_match", json!({ "multi_match": many_fields })),
        (
            "query_string",
            json!({ "query_string": { "query": text, "fields": ["text"] } }),
        ),
        ("query_string of all fields", json!({ "query_string": { "query": text } })),
        (
            "simple_query_string",
            json!({ "simple_query_string": { "query": text, "fields": ["text"] } }),
        ),
        (
            "intervals",
            json!({ "intervals": { "text": { "match": { "query": text } } } }),
        ),
        ("dis_max", json!({ "dis_max": { "queries": terms } })),
        ("bool", json!({ "bool": { "should": terms } })),
    ];
    for (what, query) in queries {
        let (answer, took) = timed(&server, "/i/_search", &json!({ "query": query }));
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        let told = answer.body.to_string();
        assert!(told.contains("indices.query.bool.max_clause_count"), "{what}: {told:.300}");
        assert!(took < LONG, "{what} took {took:?}");
    }
    let filters = json!({ "size": 0, "aggs": { "a": { "filters": { "filters": terms } } } });
    let (answer, took) = timed(&server, "/i/_search", &filters);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(
        answer.body.to_string().contains("indices.query.bool.max_clause_count"),
        "{answer:?}"
    );
    assert!(took < LONG, "filters took {took:?}");
    // Equal words of one field are as many clauses.
    let same = json!({ "query": { "match": { "text": "word ".repeat(MANY) } } });
    assert_eq!(timed(&server, "/i/_search", &same).0.status, 400);
}

/// Planning looks at the clock: with a timeout it ends long before it would be through.
#[test]
fn a_search_of_many_words_ends_with_its_timeout() {
    let (_folder, server) = started();
    let more = json!({ "persistent": { "indices.query.bool.max_clause_count": 10_000_000 } });
    server.ok("PUT", "/_cluster/settings", &more);
    let words: Vec<String> = (0..MANY / 4).map(|n| format!("w{n}")).collect();
    let query = json!({ "match": { "text": { "query": words.join(" "), "fuzziness": 2 } } });
    let (answer, whole) = timed(&server, "/i/_search", &json!({ "query": query }));
    assert_eq!((answer.status, &answer.body["timed_out"]), (200, &json!(false)), "{answer:?}");
    let body = json!({ "query": query, "timeout": "50ms" });
    let (answer, took) = timed(&server, "/i/_search", &body);
    assert_eq!(answer.body["timed_out"], true, "{answer:?}");
    assert!(took * 3 < whole, "it took {took:?}, and without a timeout {whole:?}");
}

/// Parsing a body looks at the clock, too, wherever the timeout stands: first, last or in the URL.
#[test]
fn parsing_a_search_ends_with_its_timeout() {
    let (_folder, server) = started();
    let sorts = vec!["\"text\""; 1 << 20].join(",");
    let body = |timeout: &str| format!("{{{timeout}\"sort\":[{sorts}],\"collapse\":{{\"no\":1}}}}");
    for (path, body) in [
        ("/i/_search", body("\"timeout\":\"5ms\",")),
        (
            "/i/_search",
            body("").trim_end_matches('}').to_owned() + "},\"timeout\":\"5ms\"}",
        ),
        ("/i/_search?timeout=5ms", body("")),
        ("/i/_search?timeout=5ms", body("\"timeout\":\"1h\",")),
    ] {
        let begun = Instant::now();
        let answer = server.send("POST", path, &body).unwrap();
        let took = begun.elapsed();
        // What stands behind the list is never parsed: it would be refused.
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.body["timed_out"], true, "{path}: {answer:?}");
        assert!(took < BESIDE, "{path} took {took:?}");
    }
    assert_eq!(server.send("POST", "/i/_search", &body("")).unwrap().status, 400);
}

/// A search is a task while its body is parsed, and can be cancelled then.
#[test]
fn a_search_is_a_task_while_it_is_parsed() {
    let (_folder, server) = started();
    let sorts = vec!["\"text\""; 1 << 20].join(",");
    // It would be refused for what stands behind the list.
    let body = format!("{{\"sort\":[{sorts}],\"collapse\":{{\"no\":1}}}}");
    let lines = format!("{{}}\n{body}\n");
    for (path, body, action) in [("/i/_search", &body, "search"), ("/i/_msearch", &lines, "msearch")] {
        std::thread::scope(|scope| {
            let search = scope.spawn(|| server.send("POST", path, body).unwrap());
            let list = format!("/_tasks?actions=indices:data/read/{action}&detailed=true&group_by=none");
            let begun = Instant::now();
            let id = loop {
                let tasks = server.ok("GET", &list, &Value::Null);
                if let Some(task) = tasks["tasks"].as_array().and_then(|tasks| tasks.first()) {
                    assert!(task["description"].as_str().unwrap().starts_with("indices[i]"), "{task:.300}");
                    break format!("{}:{}", task["node"].as_str().unwrap(), task["id"]);
                }
                assert!(begun.elapsed() < Duration::from_secs(10), "{path} was no task");
            };
            server.ok("POST", &format!("/_tasks/{id}/_cancel"), &Value::Null);
            let answer = search.join().unwrap();
            assert_eq!(answer.status, 400, "{path}: {answer:?}");
            assert!(
                answer.text.contains("task_cancelled_exception"),
                "{path}: {:.500}",
                answer.text
            );
        });
    }
}

/// A search ends while it is parsed when its client hangs up: in a small part of the time that parsing takes.
#[test]
fn parsing_a_search_ends_with_its_client() {
    let (_folder, server) = started();
    let sorts = vec!["\"text\""; 1 << 19].join(",");
    let body = format!("{{\"sort\":[{sorts}],\"collapse\":{{\"no\":1}}}}");
    let lines = format!("{{}}\n{body}\n");
    for (path, body, action) in [("/i/_search", &body, "search"), ("/i/_msearch", &lines, "msearch")] {
        let list = format!("/_tasks?actions=indices:data/read/{action}&group_by=none");
        let until = |there: bool| {
            let begun = Instant::now();
            loop {
                let tasks = server.ok("GET", &list, &Value::Null);
                if tasks["tasks"].as_array().is_some_and(|tasks| tasks.is_empty() != there) {
                    return begun.elapsed();
                }
                assert!(begun.elapsed() < LONG, "{path}: a task is to be there: {there}");
            }
        };
        // How long parsing takes where the client waits.
        let whole = std::thread::scope(|scope| {
            let search = scope.spawn(|| server.send("POST", path, body).unwrap());
            until(true);
            let whole = until(false);
            assert_eq!(search.join().unwrap().status, 400, "{path}");
            whole
        });
        let mut stream = TcpStream::connect(server.address("")).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            server.address(""),
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        until(true);
        drop(stream);
        let left = until(false);
        println!("{path}: parsed in {whole:?}, ended {left:?} after its client");
        // The text is looked through for its timeout before it is parsed, and that is not interrupted.
        assert!(left * 4 < whole * 3, "{path}: it takes {whole:?}, and went on for {left:?}");
    }
}

/// A refresh takes processor time in proportion to the fields of its documents.
#[test]
fn a_refresh_takes_as_long_as_there_are_fields() {
    let (_folder, server) = started();
    let settings = json!({ "settings": { "index.mapping.total_fields.limit": 100_000, "index.refresh_interval": -1 } });
    let time_of = |index: &str, fields: usize| {
        server.ok("PUT", index, &settings);
        let doc: serde_json::Map<String, Value> = (0..fields).map(|n| (format!("f{n}"), json!(n))).collect();
        server.ok("PUT", &format!("{index}/_doc/1"), &Value::Object(doc));
        let before = server.processor_time();
        server.ok("POST", &format!("{index}/_refresh"), &Value::Null);
        server.processor_time() - before
    };
    let few = time_of("/few", FIELDS / 5);
    let many = time_of("/many", FIELDS * 8 / 5);
    println!(
        "a refresh of {} fields: {few:?}; of eight times as many: {many:?}",
        FIELDS / 5
    );
    // Eight times as long if it is linear, 64 times if it is quadratic.
    assert!(many < few * 24, "{few:?}, and of eight times as many fields {many:?}");
}

/// A document whose fields are new, each a text with a keyword, takes processor time in proportion to them.
#[test]
fn many_new_fields_take_as_long_as_they_are_many() {
    let (_folder, server) = started();
    let settings = json!({ "settings": { "index.mapping.total_fields.limit": 100_000, "index.refresh_interval": -1 } });
    let too_many = json!({ "settings": { "index.mapping.total_fields.limit": 1_000_000 } });
    let refused = server.call("PUT", "/too_many", &too_many);
    let reason = refused.body["error"]["reason"].as_str().unwrap_or_default();
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        reason.contains("[index.mapping.total_fields.limit] must be <= 100000"),
        "{reason}"
    );
    let time_of = |index: &str, fields: usize| {
        server.ok("PUT", index, &settings);
        let doc: serde_json::Map<String, Value> = (0..fields).map(|n| (format!("f{n}"), json!("some text"))).collect();
        let before = server.processor_time();
        server.ok("PUT", &format!("{index}/_doc/1"), &Value::Object(doc));
        server.processor_time() - before
    };
    let few = time_of("/few", FIELDS);
    let many = time_of("/many", 8 * FIELDS);
    println!("{FIELDS} fields: {few:?}; eight times as many: {many:?}");
    // Eight times as long if it is linear, 64 times if it is quadratic.
    assert!(many < few * 24, "{FIELDS} fields took {few:?}, eight times as many {many:?}");
    assert!(many < LONG, "it took {many:?}");
}

/// New fields of a document that is short beside one that is long.
const FIELDS: usize = 2500;
