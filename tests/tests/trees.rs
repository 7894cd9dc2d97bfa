//! Trees of directories over HTTP: the mapping with `tree_path` and that of 2015 beside each other, with equal answers after every
//! move, removal and copy, through refreshes, merges of segments, scrolls and kills. `PLEACH_TREE_CASES` says how many answers are
//! compared (2,000).

use model::random::random;
use serde_json::{Value, json};
use tests::Server;

/// Checkpoints come by themselves several times a run.
const FREQUENT: &[&str] = &["log.checkpoint_ops=20", "log.checkpoint_bytes=16kb"];
const STEPS: usize = 60;
/// Answers that are compared, of all random trees together.
const CASES: usize = 2_000;

fn make_indices(server: &Server) {
    let tree = json!({ "mappings": { "properties": { "path": { "type": "tree_path" }, "n": { "type": "integer" } } } });
    let keyword = json!({ "type": "keyword", "fields": { "tree": { "type": "text", "analyzer": "paths", "fielddata": true } } });
    let flat = json!({
        "settings": { "analysis": { "analyzer": { "paths": { "tokenizer": "path_hierarchy" } } } },
        "mappings": { "properties": { "path": keyword, "n": { "type": "integer" } } },
    });
    server.ok("PUT", "/tree", &tree);
    server.ok("PUT", "/flat", &flat);
}

/// A path of few names, so that paths meet.
fn path(below: &mut impl FnMut(u64) -> u64) -> String {
    let depth = 1 + below(4);
    (0..depth)
        .map(|_| format!("/{}", ["a", "b", "ab"][below(3) as usize]))
        .collect()
}

/// The hits of a search, in order, and its aggregations.
fn search(server: &Server, index: &str, body: &Value) -> (Vec<Value>, Value) {
    let answer = server.ok("POST", &format!("/{index}/_search?size=1000"), body);
    let hits = answer["hits"]["hits"].as_array().cloned().unwrap_or_default();
    (hits, answer["aggregations"].clone())
}

/// The ids and paths that a search finds, in order.
fn found(server: &Server, index: &str, body: &Value) -> Vec<(String, Value)> {
    let (hits, _) = search(server, index, body);
    let one = |hit: &Value| {
        (
            hit["_id"].as_str().unwrap_or_default().to_owned(),
            hit["_source"]["path"].clone(),
        )
    };
    hits.iter().map(one).collect()
}

/// Sources and fields of the hits, in any order, and the aggregations.
fn sources_and_aggregations(server: &Server, index: &str, body: &Value) -> (Vec<String>, Value) {
    let (hits, aggregations) = search(server, index, body);
    let mut hits: Vec<String> = hits
        .iter()
        .map(|hit| format!("{} {}", hit["_source"], hit["fields"]))
        .collect();
    hits.sort();
    (hits, aggregations)
}

/// Searches with aggregations, fields, scripts and collapsing by path.
fn questions(one: &str) -> Vec<Value> {
    let by_key = json!({ "_key": "asc" });
    let terms = |field: &str| json!({ "terms": { "field": field, "size": 1000, "order": by_key } });
    let aggregations = [
        terms("path"),
        terms("path.tree"),
        json!({ "terms": { "field": "path", "include": format!("{one}.*"), "size": 1000, "order": by_key } }),
        json!({ "terms": { "field": "path", "size": 1000, "order": by_key }, "aggs": { "most": { "max": { "field": "n" } } } }),
        json!({ "filters": { "filters": { "below": { "term": { "path.tree": one } }, "here": { "term": { "path": one } } } } }),
        json!({ "composite": { "size": 1000, "sources": [{ "at": { "terms": { "field": "path" } } }] } }),
        json!({ "cardinality": { "field": "path" } }),
        json!({ "value_count": { "field": "path" } }),
        json!({ "missing": { "field": "path" } }),
    ];
    let starts = json!({ "source": "doc['path'].value.startsWith(params.of)", "params": { "of": one } });
    let mut questions: Vec<Value> = aggregations
        .into_iter()
        .map(|aggregation| json!({ "size": 0, "aggs": { "of": aggregation } }))
        .collect();
    questions.extend([
        json!({ "docvalue_fields": ["path"], "fields": ["path"] }),
        json!({ "script_fields": { "said": { "script": "doc['path'].value + '!'" } } }),
        json!({ "query": { "script": { "script": starts } } }),
        json!({ "collapse": { "field": "path" }, "sort": [{ "path": "desc" }, { "n": "asc" }], "_source": ["path", "n"] }),
        json!({ "query": { "range": { "path": { "gt": one } } }, "sort": [{ "path": "desc" }], "post_filter": { "term": { "path.tree": one } } }),
    ]);
    questions
}

/// Both mappings answer every kind of question alike; the number of answers.
fn compare(server: &Server, below: &mut impl FnMut(u64) -> u64, say: &str) -> usize {
    server.ok("POST", "/tree,flat/_refresh", &Value::Null);
    let (one, other) = (path(below), path(below));
    let queries = [
        json!({ "match_all": {} }),
        json!({ "term": { "path": one } }),
        json!({ "term": { "path.tree": one } }),
        json!({ "terms": { "path": [one, other] } }),
        json!({ "prefix": { "path": &one[..one.len() - 1] } }),
        json!({ "wildcard": { "path": format!("*{one}") } }),
        json!({ "regexp": { "path": format!("{one}.*") } }),
        json!({ "range": { "path": { "gte": one, "lt": format!("{one}~") } } }),
        json!({ "exists": { "field": "path" } }),
        json!({ "bool": { "must_not": { "term": { "path.tree": other } } } }),
    ];
    let questions = questions(&one);
    let cases = queries.len() + questions.len();
    for query in queries {
        let body = json!({ "query": { "bool": { "filter": query } }, "sort": [{ "path": "asc" }, { "n": "asc" }] });
        let [mut tree, mut flat] = ["tree", "flat"].map(|index| found(server, index, &body));
        let paths = |found: &[(String, Value)]| found.iter().map(|(_, path)| path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&tree), paths(&flat), "{say}: {query}");
        // Copies have the numbers of their originals.
        tree.sort_by(|one, other| one.0.cmp(&other.0));
        flat.sort_by(|one, other| one.0.cmp(&other.0));
        assert_eq!(tree, flat, "{say}: {query}");
    }
    for question in questions {
        let [tree, flat] = ["tree", "flat"].map(|index| sources_and_aggregations(server, index, &question));
        assert_eq!(tree, flat, "{say}: {question}");
    }
    cases
}

/// One step on both.
fn step(server: &Server, below: &mut impl FnMut(u64) -> u64, say: &str) {
    let id = below(25);
    match below(10) {
        0..=3 => {
            let body = json!({ "path": path(below), "n": id });
            for index in ["tree", "flat"] {
                server.ok("PUT", &format!("/{index}/_doc/{id}"), &body);
            }
        }
        4 => {
            for index in ["tree", "flat"] {
                server.call("DELETE", &format!("/{index}/_doc/{id}"), &Value::Null);
            }
        }
        5 => {
            let body = json!({ "doc": { "n": id } });
            let both = ["tree", "flat"].map(|index| server.call("POST", &format!("/{index}/_update/{id}"), &body).status);
            assert_eq!(both[0], both[1], "{say}: an update of {id}");
        }
        6 => {
            let gone = path(below);
            let removed = server.call("DELETE", &format!("/tree/_tree?path={gone}"), &Value::Null);
            // A directory without documents is none there.
            if removed.status == 200 {
                let deleted = server.call("DELETE", &format!("/flat/_tree?path={gone}"), &Value::Null);
                assert!([200, 404].contains(&deleted.status), "{say}: {deleted:?}");
            } else {
                assert_eq!(removed.status, 404, "{say}: {removed:?}");
            }
        }
        7 => {
            let prefix = format!("c{}-", below(1 << 40));
            let body = json!({ "from": path(below), "to": path(below), "id_prefix": prefix });
            let copied = server.call("POST", "/tree/_tree/_copy", &body);
            if copied.status == 200 {
                let again = server.call("POST", "/flat/_tree/_copy", &body);
                assert!([200, 404].contains(&again.status), "{say}: {again:?}");
            } else {
                assert!([404, 409].contains(&copied.status), "{say}: {copied:?}");
            }
        }
        _ => {
            let (from, to) = (path(below), path(below));
            let body = json!({ "from": from, "to": to, "merge": below(2) == 0 });
            let moved = server.call("POST", "/tree/_tree/_move", &body);
            if moved.status == 200 {
                // A directory without documents is none there.
                let body = json!({ "from": from, "to": to, "merge": true });
                let rewritten = server.call("POST", "/flat/_tree/_move", &body);
                assert!([200, 404].contains(&rewritten.status), "{say}: {rewritten:?}");
            } else {
                assert!([404, 409].contains(&moved.status), "{say}: {moved:?}");
            }
        }
    }
}

/// Compares after random changes, and says how often.
fn play(seed: u64) -> usize {
    let mut compared = 0;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut below = random(seed);
    let mut server = Server::start_with(&data, &["es8"], FREQUENT);
    make_indices(&server);
    for n in 0..STEPS {
        let say = format!("seed {seed}, step {n}");
        step(&server, &mut below, &say);
        match below(12) {
            0 => {
                server.signal(libc::SIGKILL);
                drop(server);
                server = Server::start_with(&data, &["es8"], FREQUENT);
            }
            1 => drop(server.ok("POST", "/tree/_forcemerge?max_num_segments=1", &Value::Null)),
            2 => drop(server.ok("POST", "/tree/_flush", &Value::Null)),
            _ => {}
        }
        if below(3) == 0 {
            compared += compare(&server, &mut below, &say);
        }
    }
    compared + compare(&server, &mut below, &format!("seed {seed}, the end"))
}

#[test]
fn both_mappings_answer_alike() {
    let cases = std::env::var("PLEACH_TREE_CASES").ok().and_then(|text| text.parse().ok());
    let mut left = cases.unwrap_or(CASES);
    for seed in 1.. {
        left = left.saturating_sub(play(seed));
        if left == 0 {
            break;
        }
    }
}

#[test]
fn moves_survive_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["es8"]);
    make_indices(&server);
    server.ok("PUT", "/tree/_doc/1?refresh=true", &json!({ "path": "/a/b/c" }));
    server.ok("PUT", "/tree/_doc/2", &json!({ "path": "/a/d" }));
    server.ok("POST", "/tree/_tree/_move", &json!({ "from": "/a/b", "to": "/x" }));
    let check = |server: &Server, expected: [&str; 2], how: &str| {
        for (id, path) in [("1", expected[0]), ("2", expected[1])] {
            let read = server.ok("GET", &format!("/tree/_doc/{id}"), &Value::Null);
            assert_eq!(read["_source"]["path"], path, "{how}");
            assert_eq!(read["_version"], 1, "{how}");
            server.ok("POST", "/tree/_refresh", &Value::Null);
            let hits = found(server, "tree", &json!({ "query": { "term": { "path": path } } }));
            assert_eq!(hits, [(id.to_owned(), json!(path))], "{how}");
        }
    };
    let again = |server: Server| {
        server.signal(libc::SIGKILL);
        drop(server);
        Server::start(&data, &["es8"])
    };
    let server = again(server);
    check(&server, ["/x/c", "/a/d"], "out of the log");
    server.ok("POST", "/tree/_flush", &Value::Null);
    let server = again(server);
    check(&server, ["/x/c", "/a/d"], "out of a checkpoint");
    server.ok(
        "POST",
        "/tree/_tree/_move",
        &json!({ "from": "/x", "to": "/a", "merge": true }),
    );
    check(&server, ["/a/c", "/a/d"], "merged");
    let server = again(server);
    check(&server, ["/a/c", "/a/d"], "a checkpoint and the log after it");
    // Numbers are not given twice.
    server.ok("PUT", "/tree/_doc/3", &json!({ "path": "/x/c" }));
    server.ok("POST", "/tree/_flush", &Value::Null);
    let server = again(server);
    check(&server, ["/a/c", "/a/d"], "with another of the old name");
}

#[test]
fn removals_survive_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["es8"]);
    make_indices(&server);
    let check = |server: &Server, how: &str| {
        let gone: Vec<u16> = ["1", "2"]
            .map(|id| server.call("GET", &format!("/tree/_doc/{id}"), &Value::Null).status)
            .into();
        assert_eq!(gone, [404, 404], "{how}");
        assert_eq!(server.ok("GET", "/tree/_count", &Value::Null)["count"], 1, "{how}");
        server.ok("POST", "/tree/_refresh", &Value::Null);
        let hits = found(server, "tree", &json!({ "query": { "match_all": {} } }));
        assert_eq!(hits, [("3".to_owned(), json!("/c"))], "{how}");
    };
    let again = |server: Server| {
        server.signal(libc::SIGKILL);
        drop(server);
        Server::start(&data, &["es8"])
    };
    server.ok("PUT", "/tree/_doc/1", &json!({ "path": "/a/b" }));
    server.ok("POST", "/tree/_flush", &Value::Null);
    server.ok("PUT", "/tree/_doc/2", &json!({ "path": "/a" }));
    server.ok("PUT", "/tree/_doc/3", &json!({ "path": "/c" }));
    server.ok("DELETE", "/tree/_tree?path=/a", &Value::Null);
    check(&server, "at once");
    let server = again(server);
    check(&server, "out of the log");
    server.ok("POST", "/tree/_flush", &Value::Null);
    let server = again(server);
    check(&server, "out of a checkpoint");
    server.ok("POST", "/tree/_forcemerge?max_num_segments=1", &Value::Null);
    let server = again(server);
    check(&server, "merged");
    server.ok("PUT", "/tree/_doc/1?refresh=true", &json!({ "path": "/a/b" }));
    let server = again(server);
    assert_eq!(server.ok("GET", "/tree/_doc/1", &Value::Null)["_source"]["path"], "/a/b");
}

#[test]
fn a_point_in_time_keeps_what_was_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    make_indices(&server);
    server.ok("PUT", "/tree/_doc/1?refresh=true", &json!({ "path": "/a/b" }));
    let pit = server.ok("POST", "/tree/_pit?keep_alive=1m", &Value::Null);
    server.ok("DELETE", "/tree/_tree?path=/a", &Value::Null);
    let old = json!({ "pit": { "id": pit["id"] }, "query": { "term": { "path": "/a/b" } } });
    assert_eq!(server.ok("POST", "/_search", &old)["hits"]["total"]["value"], 1);
    assert_eq!(server.ok("GET", "/tree/_count", &Value::Null)["count"], 0);
}

#[test]
fn a_scroll_keeps_its_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    make_indices(&server);
    for id in 0..4 {
        server.ok(
            "PUT",
            &format!("/tree/_doc/{id}?refresh=true"),
            &json!({ "path": "/a/b", "n": id }),
        );
    }
    let body = json!({ "size": 2, "query": { "term": { "path.tree": "/a" } }, "sort": ["n"] });
    let first = server.ok("POST", "/tree/_search?scroll=1m", &body);
    let pit = server.ok("POST", "/tree/_pit?keep_alive=1m", &Value::Null);
    server.ok("POST", "/tree/_tree/_move", &json!({ "from": "/a", "to": "/z" }));
    let scroll = json!({ "scroll": "1m", "scroll_id": first["_scroll_id"] });
    let next = server.ok("POST", "/_search/scroll", &scroll);
    assert_eq!(next["hits"]["hits"][0]["_source"]["path"], "/a/b");
    let old = json!({ "pit": { "id": pit["id"] }, "query": { "term": { "path": "/a/b" } }, "track_total_hits": true });
    assert_eq!(server.ok("POST", "/_search", &old)["hits"]["total"]["value"], 4);
    let new = json!({ "query": { "term": { "path": "/z/b" } } });
    assert_eq!(server.ok("POST", "/tree/_search", &new)["hits"]["total"]["value"], 4);
}

#[test]
fn locks_guard_moves() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let settings = json!({ "index.pleach.locks": "enforced", "index.pleach.lock_path": "path" });
    let mappings = json!({ "properties": { "path": { "type": "tree_path" } } });
    server.ok("PUT", "/tree", &json!({ "settings": settings, "mappings": mappings }));
    server.ok("PUT", "/tree/_doc/1", &json!({ "path": "/a/b" }));
    let lock = |path: &str| {
        let target = json!({ "index": "tree", "path": path, "mode": "exclusive" });
        let lock = server.ok("POST", "/_lock", &json!({ "targets": [target] }));
        lock["id"].as_str().unwrap_or_default().to_owned()
    };
    let move_to = json!({ "from": "/a", "to": "/z" });
    for path in ["/a/b", "/a", "/z", "/z/deep"] {
        let own = lock(path);
        let refused = server.call("POST", "/tree/_tree/_move", &move_to);
        assert_eq!(
            (refused.status, &refused.body["error"]["type"]),
            (409, &json!("lock_conflict_exception")),
            "{path}"
        );
        server.ok("DELETE", &format!("/_lock/{own}"), &Value::Null);
    }
    let (source, target) = (lock("/a"), lock("/z"));
    let half = server.call("POST", &format!("/tree/_tree/_move?lock={source}"), &move_to);
    assert_eq!(half.status, 400, "{half:?}");
    server.ok("POST", &format!("/tree/_tree/_move?lock={source},{target}"), &move_to);
    let read = server.ok("GET", "/tree/_doc/1", &Value::Null);
    assert_eq!(read["_source"]["path"], "/z/b");
}
