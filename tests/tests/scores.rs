//! Scores against those of a real server: five segments, a fifth of the documents deleted, sparse and nested fields; and
//! explanations, of which each node follows from its children.
//!
//! `fixtures/segments.ndjson` is what the server was asked and answered; `fixtures/record.py` recorded it.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tests::explanation::{Node, close, wrong};
use tests::{Server, root, send};

/// The lines of the fixture.
fn fixture() -> Vec<Value> {
    let text = std::fs::read_to_string(root().join("tests/fixtures/segments.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ask(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let answer = send(server.address(""), method, path, &[], body.to_string().as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{method} {path} {body}: {}", answer.text);
    answer.body
}

/// Plays the lines that make the index.
fn load(server: &Server, lines: &[Value]) {
    for line in lines.iter().filter(|line| line["do"].is_string()) {
        let (method, path) = line["do"].as_str().unwrap().split_once(' ').unwrap();
        let body = match line["lines"].as_array() {
            Some(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
            None => line["body"].to_string(),
        };
        let answer = send(server.address(""), method, path, &[], body.as_bytes()).unwrap();
        assert!(
            answer.status == 200 && answer.body["errors"] != true,
            "{method} {path}: {}",
            answer.text
        );
    }
}

fn started() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["opensearch2"]);
    (folder, server)
}

#[test]
fn scores_of_five_segments_with_deleted_documents() {
    let lines = fixture();
    let (_folder, server) = started();
    load(&server, &lines);
    let segments = ask(&server, "GET", "/workshop/_stats", &json!({}));
    let segments = &segments["_all"]["primaries"]["segments"]["count"];
    assert_eq!(segments, 5, "nothing was merged, or the fixture shows less than it says");
    let (mut bad, mut families) = (Vec::new(), BTreeMap::<String, usize>::new());
    for line in lines.iter().filter(|line| line["ask"].is_string()) {
        *families.entry(line["ask"].as_str().unwrap().to_owned()).or_default() += 1;
        let answer = ask(&server, "POST", "/workshop/_search", &line["body"]);
        let mut say = |what: String| bad.push(format!("{}: {what}", line["body"]["query"]));
        if answer["hits"]["total"]["value"] != line["total"] {
            say(format!("{} hits for {}", answer["hits"]["total"]["value"], line["total"]));
        }
        let hits = answer["hits"]["hits"].as_array().unwrap();
        let recorded = line["hits"].as_array().unwrap();
        let ids = |hits: &[Value], of: &str| -> Vec<String> { hits.iter().map(|hit| hit[of].to_string()).collect() };
        let theirs: Vec<String> = recorded.iter().map(|hit| hit[0].to_string()).collect();
        if ids(hits, "_id") != theirs {
            say(format!("{:?} for {theirs:?}", ids(hits, "_id")));
        }
        for (hit, recorded) in hits.iter().zip(recorded) {
            let (is, was) = (hit["_score"].as_f64().unwrap(), recorded[1].as_f64().unwrap());
            if (is - was).abs() > 1e-5 * was.abs() {
                say(format!("{} scores {is} for {was}", hit["_id"]));
            }
        }
    }
    for line in lines.iter().filter(|line| line["why"].is_string()) {
        let path = format!("/workshop/_explain/{}", line["why"].as_str().unwrap());
        let answer = ask(&server, "POST", &path, &line["body"]);
        let value = answer["explanation"]["value"].as_f64().unwrap();
        let recorded = line["tree"][0].as_f64().unwrap();
        if answer["matched"] != line["matched"] || !close(value, recorded) {
            bad.push(format!("{path} {}: {value} for {recorded}", line["body"]));
        }
    }
    let asked: usize = families.values().sum();
    assert!(asked >= 200 && families.len() >= 15, "the fixture lost queries: {families:?}");
    assert!(bad.is_empty(), "{} of {asked}:\n{}", bad.len(), bad.join("\n"));
}

/// Queries that the fixture has not, of `/family`.
fn others() -> Vec<Value> {
    let place = json!({ "lat": 48.1, "lon": 11.5 });
    vec![
        json!({ "has_child": { "type": "line", "score_mode": "sum", "query": { "match": { "what": "rope" } } } }),
        json!({ "has_child": { "type": "line", "score_mode": "max", "query": { "function_score": {
            "query": { "match": { "what": "rope" } }, "field_value_factor": { "field": "qty" } } } } }),
        json!({ "has_parent": { "parent_type": "order", "score": true, "query": { "match": { "what": "order" } } } }),
        json!({ "parent_id": { "type": "line", "id": "o1" } }),
        json!({ "geo_distance": { "distance": "900km", "at": place } }),
        json!({ "distance_feature": { "field": "at", "origin": place, "pivot": "100km", "boost": 2.5 } }),
        json!({ "distance_feature": { "field": "made", "origin": "2024-03-01", "pivot": "10d" } }),
        json!({ "function_score": { "query": { "match_all": {} }, "functions": [
            { "gauss": { "at": { "origin": place, "scale": "300km" } } },
            { "linear": { "made": { "origin": "2024-03-01", "scale": "20d" } }, "weight": 2 },
            { "random_score": { "seed": 7, "field": "qty" }, "filter": { "exists": { "field": "qty" } } },
            { "script_score": { "script": "_score + 2" }, "weight": 0.5 } ], "score_mode": "sum", "boost_mode": "avg" } }),
        json!({ "terms_set": { "what": { "terms": ["rope", "order", "nail"], "minimum_should_match_field": "least" } } }),
        json!({ "span_or": { "clauses": [ { "span_term": { "what": "rope" } }, { "span_term": { "what": "nail" } } ] } }),
        json!({ "span_first": { "match": { "span_term": { "what": "rope" } }, "end": 2 } }),
        json!({ "intervals": { "what": { "any_of": { "intervals": [ { "match": { "query": "rope" } }, { "prefix": { "prefix": "na" } } ] } } } }),
        json!({ "wildcard": { "what": { "value": "r*e", "boost": 2, "rewrite": "scoring_boolean" } } }),
        json!({ "terms": { "_id": ["o1", "l2"] } }),
        json!({ "ids": { "values": ["o1", "l2"] } }),
        json!({ "range": { "made": { "gte": "2024-02-01", "boost": 3 } } }),
        json!({ "range": { "qty": { "gt": 1 } } }),
        json!({ "exists": { "field": "at" } }),
        json!({ "script": { "script": "doc['qty'].size() > 0 && doc['qty'].value > 1" } }),
        json!({ "bool": { "should": [ { "match": { "what": "rope" } }, { "match_none": {} } ], "must_not": { "term": { "qty": 9 } } } }),
        json!({ "dis_max": { "tie_breaker": 0.4, "queries": [ { "match": { "what": "rope order" } }, { "term": { "kind": "line" } } ] } }),
        json!({ "boosting": { "positive": { "match": { "what": "rope" } }, "negative": { "term": { "qty": 2 } }, "negative_boost": 0.3 } }),
        json!({ "simple_query_string": { "query": "rope | \"big order\" nail*", "fields": ["what^3", "kind"] } }),
        json!({ "more_like_this": { "fields": ["what"], "like": "rope and nail", "min_term_freq": 1, "min_doc_freq": 1 } }),
        json!({ "join": { "index": "family", "on": { "kind": "kind" }, "query": { "match": { "what": "nail" } } } }),
    ]
}

fn family(server: &Server) {
    let mapping = json!({ "mappings": { "properties": {
        "kind": { "type": "keyword" }, "what": { "type": "text" }, "qty": { "type": "integer" }, "least": { "type": "integer" },
        "made": { "type": "date" }, "at": { "type": "geo_point" },
        "of": { "type": "join", "relations": { "order": "line" } } } } });
    ask(server, "PUT", "/family", &mapping);
    let mut lines = String::new();
    for (id, routing, doc) in [
        (
            "o1",
            "o1",
            json!({ "kind": "order", "what": "a big order of rope", "of": "order", "made": "2024-02-10", "least": 1, "at": "48.2,11.4" }),
        ),
        (
            "o2",
            "o2",
            json!({ "kind": "order", "what": "another order", "of": "order", "made": "2024-01-10", "least": 2, "at": "52.5,13.4" }),
        ),
        (
            "l1",
            "o1",
            json!({ "kind": "line", "what": "rope rope", "qty": 2, "of": { "name": "line", "parent": "o1" } }),
        ),
        (
            "l2",
            "o1",
            json!({ "kind": "line", "what": "rope and nail", "qty": 5, "of": { "name": "line", "parent": "o1" }, "least": 2 }),
        ),
        (
            "l3",
            "o2",
            json!({ "kind": "line", "what": "nail", "qty": 1, "of": { "name": "line", "parent": "o2" }, "made": "2024-03-03" }),
        ),
    ] {
        lines.push_str(&format!("{}\n{doc}\n", json!({ "index": { "_id": id, "routing": routing } })));
    }
    let answer = send(
        server.address(""),
        "POST",
        "/family/_bulk?refresh=true",
        &[],
        lines.as_bytes(),
    )
    .unwrap();
    assert_eq!(answer.body["errors"], false, "{}", answer.text);
}

/// Every explanation of a query adds up, and is of the score that its hit has; by `_explain` too, also where there is no
/// match.
fn explained(server: &Server, index: &str, query: &Value, bad: &mut Vec<String>) -> usize {
    let body = json!({ "query": query, "explain": true, "size": 4, "_source": false });
    let answer = ask(server, "POST", &format!("/{index}/_search"), &body);
    let hits = answer["hits"]["hits"].as_array().unwrap();
    let mut say = |what: String| bad.push(format!("{query}: {what}"));
    for hit in hits {
        let (id, score) = (hit["_id"].as_str().unwrap(), hit["_score"].as_f64().unwrap());
        let routing = hit["_routing"].as_str().map_or_else(String::new, |r| format!("?routing={r}"));
        let alone = ask(
            server,
            "POST",
            &format!("/{index}/_explain/{id}{routing}"),
            &json!({ "query": query }),
        );
        if alone["matched"] != true {
            say(format!("_explain says that {id} does not match"));
        }
        for tree in [&hit["_explanation"], &alone["explanation"]] {
            let Some(node) = Node::read(tree) else {
                say(format!("{id} has no explanation: {tree}"));
                continue;
            };
            if !close(node.value, score) {
                say(format!("{id} has {score}, explained is {}", node.value));
            }
            let mut found = Vec::new();
            wrong(&node, &mut found);
            found.into_iter().for_each(|what| say(format!("{id}: {what}")));
        }
    }
    hits.len()
}

#[test]
fn explanations_add_up() {
    let lines = fixture();
    let mut bad = Vec::new();
    // The checker is right if what a real server said adds up, but for what Lucene leaves out: of a block all children
    // but one.
    for line in lines.iter().filter(|line| line["explained"].is_array()) {
        for tree in line["explained"].as_array().unwrap() {
            let mut found = Vec::new();
            wrong(&Node::of_fixture(tree).unwrap(), &mut found);
            let found = found.into_iter().filter(|what| !what.starts_with("[Score based on"));
            bad.extend(found.map(|what| format!("recorded: {what}")));
        }
    }
    let (_folder, server) = started();
    load(&server, &lines);
    family(&server);
    let mut hits = 0;
    for line in lines.iter().filter(|line| line["ask"].is_string()) {
        hits += explained(&server, "workshop", &line["body"]["query"], &mut bad);
    }
    assert!(hits > 600, "only {hits} hits were explained");
    for query in others() {
        let count = explained(&server, "family", &query, &mut bad);
        if count == 0 {
            bad.push(format!("{query}: nothing to explain"));
        }
    }
    for id in ["o1", "l3"] {
        for query in [
            json!({ "match": { "what": "absent" } }),
            json!({ "bool": { "must": { "match": { "what": "absent" } }, "filter": { "term": { "kind": "x" } } } }),
            json!({ "function_score": { "query": { "match_all": {} }, "weight": 2, "min_score": 7 } }),
        ] {
            let answer = send(
                server.address(""),
                "POST",
                &format!("/family/_explain/{id}?routing={}", if id == "o1" { "o1" } else { "o2" }),
                &[],
                json!({ "query": query }).to_string().as_bytes(),
            )
            .unwrap();
            let node = Node::read(&answer.body["explanation"]).unwrap();
            let mut found = Vec::new();
            wrong(&node, &mut found);
            if answer.body["matched"] != false || node.value != 0.0 {
                found.push(format!("matched: {}", answer.text));
            }
            bad.extend(found.into_iter().map(|what| format!("{query}: {what}")));
        }
    }
    assert!(bad.is_empty(), "{}:\n{}", bad.len(), bad.join("\n"));
}
