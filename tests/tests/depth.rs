//! Requests that are too deep: 400, never an abort; and the settings that bound them do bound them.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::json;
use tests::Server;

/// How deep what nobody means is.
const ABSURD: usize = 100_000;

/// `open` so often around `inner`, and `close` as often behind it.
fn deep(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("{}{inner}{}", open.repeat(times), close.repeat(times))
}

fn check(server: &Server, (method, path): (&str, &str), body: &str, status: u16, words: &str) {
    let answer = server.send(method, path, body).unwrap();
    let shown: String = answer.body.to_string().chars().take(400).collect();
    let begin: String = body.chars().take(60).collect();
    assert_eq!(answer.status, status, "{begin}: {shown}");
    assert!(answer.body.to_string().contains(words), "{begin}: {shown}");
}

#[test]
fn what_is_too_deep_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["opensearch2"]);
    let search = ("POST", "/i/_search");
    check(&server, ("PUT", "/i/_doc/1?refresh=true"), r#"{"a":"b"}"#, 201, "created");
    let bools = |times| {
        format!(
            r#"{{"query":{}}}"#,
            deep(r#"{"bool":{"must":"#, r#"{"match_all":{}}"#, "}}", times)
        )
    };
    let aggs = |times| {
        let inner = r#"{"m":{"max":{"field":"n"}}}"#;
        format!(
            r#"{{"size":0,"aggs":{}}}"#,
            deep(r#"{"f":{"filter":{"match_all":{}},"aggs":"#, inner, "}}", times)
        )
    };
    let text = |name: &str, text: String| json!({ "query": { name: { "query": text } } }).to_string();
    let script = |source: String| json!({ "query": { "script": { "script": { "source": source } } } }).to_string();
    // What is no object is not read any further.
    check(
        &server,
        ("PUT", "/i/_doc/2"),
        &deep("[", "", "]", ABSURD),
        400,
        "not_x_content_exception",
    );
    check(
        &server,
        ("PUT", "/i/_doc/2"),
        &format!(r#"{{"a":{}}}"#, deep("[", "", "]", ABSURD)),
        400,
        "nesting depth",
    );
    check(&server, search, &bools(ABSURD), 400, "nesting depth");
    check(&server, search, &bools(30), 400, "indices.query.max_nested_depth");
    check(&server, search, &bools(29), 200, "hits");
    check(&server, search, &aggs(ABSURD), 400, "nesting depth");
    check(&server, search, &aggs(32), 400, "search.max_aggregation_depth");
    check(&server, search, &aggs(31), 200, "aggregations");
    check(
        &server,
        search,
        &text("query_string", deep("(", "a", ")", ABSURD)),
        400,
        "Failed to parse query",
    );
    // Nothing is wrong in this language: what is too deep is read as words.
    check(
        &server,
        search,
        &text("simple_query_string", deep("(", "a", ")", ABSURD)),
        200,
        "hits",
    );
    check(&server, search, &script(deep("(", "1", ")", 30_000)), 400, "script_exception");
    let phrase = json!({ "field": "a", "token_limit": ABSURD });
    let words = json!({ "suggest": { "text": "b ".repeat(30_000), "s": { "phrase": phrase } } });
    check(&server, search, &words.to_string(), 200, "suggest");
    let spans = deep(r#"{"span_or":{"clauses":["#, r#"{"span_term":{"a":"b"}}"#, "]}}", 31);
    check(
        &server,
        search,
        &format!(r#"{{"query":{spans}}}"#),
        400,
        "indices.query.max_nested_depth",
    );
    check(&server, ("GET", "/i/_doc/1"), "", 200, "found");
}
