//! What one request reads is of one moment: transfers beside every kind of read, by both paths and at each level; list-append
//! histories without cycles; jobs that hold their index.
//!
//! Longer: `PLEACH_TEST_READS` (reads of each path), `PLEACH_TEST_HISTORY` (transactions of each path). Not here: kills
//! (`fencing`), clients that hang up (`server/tests/hangups.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::Server;
use tests::cycles::{Operation, Transaction, findings};
use tests::paths::{self, by_both_paths};

fn size(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("data"), &["es8"], &[&paths::setting()]);
    (folder, server)
}

/// Ends the others, however one ends.
struct Stop<'a>(&'a AtomicU64);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX / 2, Ordering::Relaxed);
    }
}

/// Documents in each of two indices.
const PAIRS: u64 = 6;
const SUM: i64 = 2 * PAIRS as i64 * 100;
const BOTH: &str = "left,right";

/// `left` and `right` have a document for each pair: `n` of all together is constant, and one of each pair has the token. A
/// document of `lists` says which pairs have it on the left. `right` is refreshed by nobody.
fn make_bank(server: &Server) {
    let mappings = json!({"properties": {"n": {"type": "long"}, "pair": {"type": "keyword"}, "token": {"type": "boolean"}}});
    for (index, interval) in [("left", "100ms"), ("right", "-1")] {
        let body = json!({"settings": {"refresh_interval": interval}, "mappings": mappings});
        server.ok("PUT", &format!("/{index}"), &body);
    }
    server.ok("PUT", "/lists", &json!({"settings": {"refresh_interval": "1h"}}));
    let mut operations = Vec::new();
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        pairs.push(format!("p{pair}"));
        for index in ["left", "right"] {
            let doc = json!({"n": 100, "pair": format!("p{pair}"), "token": index == "left"});
            operations.push(json!({"index": {"_index": index, "_id": pair.to_string(), "doc": doc}}));
        }
    }
    operations.push(json!({"index": {"_index": "lists", "_id": "tokens", "doc": {"pairs": pairs}}}));
    server.ok("POST", "/_transaction?refresh=true", &json!({"operations": operations}));
}

/// Moves money between the two indices, and the token of one pair.
fn transfer(server: &Server, n: u64) {
    let by = i64::try_from(n % 9).unwrap() + 1;
    let pair = n % PAIRS;
    let update = |index: &str, id: String, source: &str, by: i64| {
        let script = json!({"source": source, "params": {"by": by, "pair": format!("p{pair}")}});
        json!({"update": {"_index": index, "_id": id, "script": script}})
    };
    let money = "ctx._source.n += params.by";
    let token = "ctx._source.n += params.by; ctx._source.token = !ctx._source.token";
    let list = "if (ctx._source.pairs.contains(params.pair)) { ctx._source.pairs.remove(ctx._source.pairs.indexOf(params.pair)) } \
                else { ctx._source.pairs.add(params.pair) }";
    let operations = match n % 3 {
        0 => json!([
            update("left", ((n + 1) % PAIRS).to_string(), money, by),
            update("right", ((n / 3) % PAIRS).to_string(), money, -by),
        ]),
        _ => json!([
            update("left", pair.to_string(), token, by),
            update("right", pair.to_string(), token, -by),
            update("lists", "tokens".to_owned(), list, 0),
        ]),
    };
    let refresh = if n.is_multiple_of(5) { "?refresh=true" } else { "" };
    server.ok("POST", &format!("/_transaction{refresh}"), &json!({"operations": operations}));
}

const KINDS: &[fn(&Server, &str)] = &[
    by_mget,
    by_search,
    by_msearch,
    by_count,
    by_aggregation,
    by_lookup,
    by_join,
    by_scroll,
    by_point_in_time,
    by_transaction,
    by_shown_mget,
    by_explanation,
];

fn sum_of(hits: &[Value], answer: &Value) {
    let sum: i64 = hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap()).sum();
    let tokens = hits.iter().filter(|hit| hit["_source"]["token"] == true).count();
    assert_eq!(
        (hits.len() as u64, sum, tokens as u64),
        (2 * PAIRS, SUM, PAIRS),
        "mixed: {answer}"
    );
}

fn all_ids() -> Value {
    let ids = (0..PAIRS).flat_map(|id| ["left", "right"].map(|index| json!({"_index": index, "_id": id.to_string()})));
    json!({"docs": ids.collect::<Vec<Value>>()})
}

fn by_mget(server: &Server, level: &str) {
    let found = server.ok("POST", &format!("/_mget?read_level={level}"), &all_ids());
    sum_of(found["docs"].as_array().unwrap(), &found);
}

fn by_shown_mget(server: &Server, level: &str) {
    let found = server.ok("POST", &format!("/_mget?realtime=false&read_level={level}"), &all_ids());
    sum_of(found["docs"].as_array().unwrap(), &found);
}

fn by_search(server: &Server, level: &str) {
    let found = server.ok("POST", &format!("/{BOTH}/_search?size=100&read_level={level}"), &json!({}));
    sum_of(found["hits"]["hits"].as_array().unwrap(), &found);
}

fn by_msearch(server: &Server, level: &str) {
    let lines = "{\"index\":\"left,right\"}\n{\"size\":100}\n{\"index\":[\"right\",\"left\"]}\n{\"size\":100,\"sort\":[\"n\"]}\n";
    let answer = server.send("POST", &format!("/_msearch?read_level={level}"), lines).unwrap();
    let responses = answer.body["responses"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    assert_eq!(responses.len(), 2);
    for found in responses {
        sum_of(found["hits"]["hits"].as_array().unwrap(), found);
    }
}

fn by_count(server: &Server, level: &str) {
    let body = json!({"query": {"term": {"token": true}}});
    let found = server.ok("POST", &format!("/{BOTH}/_count?read_level={level}"), &body);
    assert_eq!(found["count"], PAIRS, "mixed: {found}");
}

fn by_aggregation(server: &Server, level: &str) {
    let body = json!({"size": 0, "aggs": {"sum": {"sum": {"field": "n"}}}});
    let found = server.ok("POST", &format!("/{BOTH}/_search?read_level={level}"), &body);
    assert_eq!(
        found["aggregations"]["sum"]["value"].as_f64(),
        Some(SUM as f64),
        "mixed: {found}"
    );
}

/// Hits and looked up terms of one moment: who has the token on the left is who is listed.
fn by_lookup(server: &Server, level: &str) {
    let listed = json!({"terms": {"pair": {"index": "lists", "id": "tokens", "path": "pairs"}}});
    let has = json!({"term": {"token": true}});
    for (one, other) in [(&listed, &has), (&has, &listed)] {
        let body = json!({"query": {"bool": {"filter": [one], "must_not": [other]}}});
        let found = server.ok("POST", &format!("/left/_search?read_level={level}"), &body);
        assert_eq!(found["hits"]["total"]["value"], 0, "mixed: {found}");
    }
}

/// Of each pair one has the token: nobody has a partner that has it too, and everybody's lacks it.
fn by_join(server: &Server, level: &str) {
    let mine = json!({"term": {"token": true}});
    let theirs = |token: bool| json!({"join": {"index": "right", "on": {"pair": "pair"}, "query": {"term": {"token": token}}}});
    for query in [
        json!({"bool": {"filter": [mine, theirs(true)]}}),
        json!({"bool": {"filter": [mine], "must_not": [theirs(false)]}}),
    ] {
        let found = server.ok("POST", &format!("/left/_search?read_level={level}"), &json!({"query": query}));
        assert_eq!(found["hits"]["total"]["value"], 0, "mixed: {found}");
    }
}

/// The document that is shown, the one it is joined with and the one that is looked up are of one moment: of each pair one
/// has the token.
fn by_explanation(server: &Server, level: &str) {
    let theirs = json!({"join": {"index": "right", "on": {"pair": "pair"}, "query": {"term": {"token": true}}}});
    let listed = json!({"terms": {"pair": {"index": "lists", "id": "tokens", "path": "pairs"}}});
    for pair in 0..PAIRS {
        for (query, with_token) in [(&theirs, false), (&listed, true)] {
            let path = format!("/left/_explain/{pair}?_source=true");
            let found = server.ok("POST", &path, &json!({ "query": query }));
            let token = found["get"]["_source"]["token"] == true;
            assert_eq!(found["matched"] == true, token == with_token, "mixed at {level}: {found}");
        }
    }
}

fn by_scroll(server: &Server, level: &str) {
    let mut page = server.ok(
        "POST",
        &format!("/{BOTH}/_search?scroll=1m&size=5&read_level={level}"),
        &json!({}),
    );
    let mut hits = Vec::new();
    loop {
        let found = page["hits"]["hits"].as_array().unwrap().clone();
        let id = page["_scroll_id"].clone();
        if found.is_empty() {
            server.ok("DELETE", "/_search/scroll", &json!({"scroll_id": id}));
            break;
        }
        hits.extend(found);
        page = server.ok("POST", "/_search/scroll", &json!({"scroll": "1m", "scroll_id": id}));
    }
    sum_of(&hits, &json!(hits));
}

fn by_point_in_time(server: &Server, _level: &str) {
    let opened = server.ok("POST", "/left,right,lists/_pit?keep_alive=1m", &Value::Null);
    let pit = json!({"id": opened["id"], "keep_alive": "1m"});
    let found = server.ok(
        "POST",
        "/_search",
        &json!({"pit": pit, "size": 5, "sort": ["pair"], "query": {"exists": {"field": "n"}}}),
    );
    let mut hits = found["hits"]["hits"].as_array().unwrap().clone();
    let after = &hits.last().unwrap()["sort"];
    let rest = json!({"pit": pit, "size": 100, "sort": ["pair"], "query": {"exists": {"field": "n"}}, "search_after": after});
    let found = server.ok("POST", "/_search", &rest);
    hits.extend(found["hits"]["hits"].as_array().unwrap().iter().cloned());
    sum_of(&hits, &json!(hits));
    // What a lookup finds there is of that moment too.
    let listed = json!({"terms": {"pair": {"index": "lists", "id": "tokens", "path": "pairs"}}});
    let query = json!({"bool": {"filter": [listed, {"term": {"_index": "right"}}, {"term": {"token": true}}]}});
    let found = server.ok("POST", "/_search", &json!({"pit": pit, "query": query}));
    assert_eq!(found["hits"]["total"]["value"], 0, "mixed: {found}");
    server.ok("DELETE", "/_pit", &json!({"id": opened["id"]}));
}

fn by_transaction(server: &Server, _level: &str) {
    let begun = server.ok("POST", "/_transaction/_begin", &Value::Null);
    let id = begun["id"].as_str().unwrap();
    let found = server.ok("POST", &format!("/{BOTH}/_search?size=100&transaction={id}"), &json!({}));
    sum_of(found["hits"]["hits"].as_array().unwrap(), &found);
    let found = server.ok("POST", &format!("/_mget?transaction={id}"), &all_ids());
    sum_of(found["docs"].as_array().unwrap(), &found);
    server.ok("POST", &format!("/_transaction/{id}/_abort"), &Value::Null);
}

/// Under transfers over two indices, one of which nobody refreshes, no kind of read at no level sees half of one.
#[test]
fn transfers_beside_every_kind_of_read() {
    by_both_paths(|| {
        let (_folder, server) = start();
        make_bank(&server);
        let reads = size("PLEACH_TEST_READS", 330);
        let (done, moves) = (AtomicU64::new(0), AtomicU64::new(0));
        // However slow the disk: reads beside writers, not reads alone.
        let over = || done.load(Ordering::Relaxed) >= reads && moves.load(Ordering::Relaxed) > 20;
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (server, done, moves, over) = (&server, &done, &moves, &over);
                scope.spawn(move || {
                    let _stop = (Stop(done), Stop(moves));
                    for n in (writer..).step_by(2) {
                        if over() {
                            return;
                        }
                        transfer(server, n);
                        moves.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for reader in 0..2_usize {
                let (server, done, moves, over) = (&server, &done, &moves, &over);
                scope.spawn(move || {
                    let _stop = (Stop(done), Stop(moves));
                    for n in (reader..).step_by(2) {
                        if over() {
                            return;
                        }
                        let level = ["plain", "settled", "snapshot"][n / KINDS.len() % 3];
                        KINDS[n % KINDS.len()](server, level);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
    });
}

/// Documents of [`reads_one_instant`].
const DOCS: u64 = 24;

/// What a request reads of documents that are all written anew by one change after the other, each with a word of its own:
/// one word, also where one of them is only being made.
fn reads_one_instant(read: impl Fn(&Server, &[Value]) -> Vec<Value>) {
    let (_folder, server) = start();
    let set = |value: u64| {
        let docs = (0..DOCS).map(|id| {
            let doc = json!({"g": format!("w{value}")});
            json!({"index": {"_index": format!("m{}", id % 3), "_id": id.to_string(), "doc": doc}})
        });
        json!({"operations": docs.collect::<Vec<Value>>()})
    };
    let docs: Vec<Value> = (0..DOCS)
        .map(|id| json!({"_index": format!("m{}", id % 3), "_id": id.to_string()}))
        .collect();
    server.ok("POST", "/_transaction", &set(0));
    let reads = size("PLEACH_TEST_READS", 330);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let _stop = Stop(done);
                let mut n = writer;
                while done.load(Ordering::Relaxed) < reads {
                    n += 3;
                    server.ok("POST", "/_transaction", &set(n));
                }
            });
        }
        let _stop = Stop(&done);
        let mut generations = std::collections::BTreeSet::new();
        while done.fetch_add(1, Ordering::Relaxed) < reads {
            let words = read(&server, &docs);
            assert_eq!(words.len() as u64, DOCS, "{words:?}");
            assert!(words[0].is_string(), "{words:?}");
            assert!(words.iter().all(|word| *word == words[0]), "mixed: {words:?}");
            generations.insert(words[0].as_str().map(str::to_owned));
        }
        assert!(generations.len() > 3, "beside writers: {generations:?}");
    });
}

#[test]
fn mget_reads_one_instant() {
    reads_one_instant(|server, docs| {
        let found = server.ok("POST", "/_mget", &json!({"docs": docs}));
        let docs = found["docs"].as_array().unwrap().iter();
        docs.map(|doc| doc["_source"]["g"].clone()).collect()
    });
}

#[test]
fn mtermvectors_read_one_instant() {
    reads_one_instant(|server, docs| {
        let found = server.ok("POST", "/_mtermvectors?fields=g", &json!({"docs": docs}));
        let word = |doc: &Value| {
            let terms = doc["term_vectors"]["g"]["terms"].as_object();
            let one = terms.and_then(|terms| terms.keys().next().cloned());
            one.map_or_else(|| doc.clone(), Value::from)
        };
        found["docs"].as_array().unwrap().iter().map(word).collect()
    });
}

/// Each change writes a document and the query that finds it: whoever percolates the document finds the query.
#[test]
fn a_percolated_document_is_of_the_moment_of_the_queries() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("data"), &["es2"], &[]);
    let mapping = json!({"t": {"properties": {"g": {"type": "string", "index": "not_analyzed"}}}});
    server.ok("PUT", "/p", &json!({"mappings": mapping}));
    let query = |value: u64| json!({"query": {"term": {"g": format!("w{value}")}}});
    server.ok("PUT", "/p/.percolator/q", &query(0));
    server.ok("PUT", "/p/t/1", &json!({"g": "w0"}));
    let reads = size("PLEACH_TEST_READS", 330);
    let (done, moves) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (server, done, moves) = (&server, &done, &moves);
        scope.spawn(move || {
            let _stop = Stop(done);
            while done.load(Ordering::Relaxed) < reads {
                let n = moves.fetch_add(1, Ordering::Relaxed) + 1;
                let doc = json!({"index": {"_index": "p", "_type": "t", "_id": "1", "doc": {"g": format!("w{n}")}}});
                let kept = json!({"index": {"_index": "p", "_type": ".percolator", "_id": "q", "doc": query(n)}});
                server.ok("POST", "/_transaction", &json!({"operations": [doc, kept]}));
            }
        });
        let _stop = Stop(done);
        while done.fetch_add(1, Ordering::Relaxed) < reads {
            let found = server.ok("GET", "/p/t/1/_percolate", &Value::Null);
            assert_eq!(found["total"], 1, "mixed: {found}");
        }
    });
    assert!(moves.into_inner() > 20, "beside a writer");
}

/// Lists of the history, half of them in each index.
const LISTS: u64 = 5;

fn list_of(key: u64) -> (String, String) {
    (format!("lists{}", key % 2), key.to_string())
}

fn values(source: &Value) -> Vec<u64> {
    let values = source["v"].as_array().into_iter().flatten();
    values.map(|value| value.as_u64().unwrap()).collect()
}

/// One change that appends to two lists by scripts, and is told what they are then.
fn append_at_once(server: &Server, keys: [u64; 2], values_of: [u64; 2]) -> Option<Vec<Operation>> {
    let operations = keys.iter().zip(values_of).map(|(key, value)| {
        let (index, id) = list_of(*key);
        let script = json!({"source": "ctx._source.v.add(params.x)", "params": {"x": value}});
        json!({"update": {"_index": index, "_id": id, "script": script, "_source": true}})
    });
    let body = json!({"operations": operations.collect::<Vec<Value>>()});
    let answer = server.call("POST", "/_transaction", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let items = answer.body["items"].as_array().unwrap();
    let mut out: Vec<Operation> = (keys.iter().zip(values_of))
        .map(|(key, value)| Operation::Append { key: *key, value })
        .collect();
    for (key, item) in keys.iter().zip(items) {
        let seen = values(&item["update"]["get"]["_source"]);
        out.push(Operation::Read { key: *key, seen });
    }
    Some(out)
}

/// A transaction that is held open: reads three lists by id, appends to one of them. `None`: it was refused.
fn append_held(server: &Server, keys: [u64; 3], value: u64) -> Option<Vec<Operation>> {
    let begun = server.ok("POST", "/_transaction/_begin", &Value::Null);
    let tx = begun["id"].as_str().unwrap();
    let mut out = Vec::new();
    let mut last = Vec::new();
    for key in keys {
        let (index, id) = list_of(key);
        let found = server.ok("GET", &format!("/{index}/_doc/{id}?transaction={tx}"), &Value::Null);
        last = values(&found["_source"]);
        let seen = last.clone();
        out.push(Operation::Read { key, seen });
    }
    last.push(value);
    let (index, id) = list_of(keys[2]);
    server.ok("PUT", &format!("/{index}/_doc/{id}?transaction={tx}"), &json!({"v": last}));
    out.push(Operation::Append { key: keys[2], value });
    let done = server.call("POST", &format!("/_transaction/{tx}/_commit"), &Value::Null);
    assert!([200, 409].contains(&done.status), "{done:?}");
    (done.status == 200).then_some(out)
}

/// Every list in one `_mget`.
fn read_all(server: &Server) -> Vec<Operation> {
    let docs = (0..LISTS).map(|key| {
        let (index, id) = list_of(key);
        json!({"_index": index, "_id": id})
    });
    let found = server.ok("POST", "/_mget", &json!({"docs": docs.collect::<Vec<Value>>()}));
    let docs = found["docs"].as_array().unwrap().iter();
    (0..LISTS)
        .zip(docs)
        .map(|(key, doc)| Operation::Read {
            key,
            seen: values(&doc["_source"]),
        })
        .collect()
}

/// Changes, transactions that are held open and reads of several documents have one order, which is also that of real time.
#[test]
fn list_append_histories_have_no_cycle() {
    by_both_paths(|| {
        let (_folder, server) = start();
        for key in 0..LISTS {
            let (index, id) = list_of(key);
            server.ok("PUT", &format!("/{index}/_doc/{id}"), &json!({"v": []}));
        }
        let count = size("PLEACH_TEST_HISTORY", 240);
        let (next, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let clock = Instant::now();
        let now = || u64::try_from(clock.elapsed().as_nanos()).unwrap();
        let history: Mutex<Vec<Transaction>> = Mutex::default();
        let note = |began: u64, done: Option<Vec<Operation>>| {
            let Some(operations) = done else {
                refused.fetch_add(1, Ordering::Relaxed);
                return;
            };
            history.lock().unwrap().push(Transaction {
                began,
                ended: Some(now()),
                committed: true,
                operations,
            });
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= count {
                            return;
                        }
                        let began = now();
                        let key = |by: u64| (n * 7 + by) % LISTS;
                        let done = match n % 4 {
                            0 => append_at_once(&server, [key(0), key(1)], [10 * n, 10 * n + 1]),
                            1 => append_held(&server, [key(2), key(0), key(1)], 10 * n),
                            _ => Some(read_all(&server)),
                        };
                        note(began, done);
                    }
                });
            }
        });
        note(now(), Some(read_all(&server)));
        let history = history.into_inner().unwrap();
        let committed = history.len();
        assert_eq!(findings(&history), [], "{committed} transactions");
        let appended = history
            .iter()
            .flat_map(|t| &t.operations)
            .filter(|o| matches!(o, Operation::Append { .. }));
        let refused = refused.into_inner();
        assert!(appended.count() as u64 > count / 4, "{refused} of {count} were refused");
    });
}

/// Documents `0..count` of an index that is made anew.
fn fill(server: &Server, index: &str, count: u64, text: &str) {
    let body = json!({"mappings": {"properties": {"n": {"type": "integer"}, "text": {"type": "keyword"}}}});
    server.ok("PUT", &format!("/{index}"), &body);
    let lines: String = (0..count)
        .map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{}\n", json!({"n": 0, "text": text})))
        .collect();
    let answer = server.send("POST", &format!("/{index}/_bulk?refresh=true"), &lines).unwrap();
    assert_eq!(answer.body["errors"], false);
}

/// How many documents of an index have been changed, or are another's.
fn touched(server: &Server, index: &str, text: &str) -> u64 {
    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let own = json!({"bool": {"filter": [{"term": {"n": 0}}, {"term": {"text": text}}]}});
    let found = server.ok(
        "POST",
        &format!("/{index}/_count"),
        &json!({"query": {"bool": {"must_not": [own]}}}),
    );
    found["count"].as_u64().unwrap()
}

/// A job ends when its index, the one it reads or the one it writes, is deleted and made again under the same name; the new
/// documents, which have the stamps of the old ones, are not touched.
#[test]
fn a_job_holds_its_index() {
    const DOCS: u64 = 300;
    // A batch takes longer than to delete the index and to make it again.
    let slow = "int x = 0; for (int i = 0; i < 10000; i++) { x += i } ctx._source.n = 1";
    let update = json!({"script": {"source": slow}});
    let copy = json!({"source": {"index": "old", "size": 10}, "dest": {"index": "copies"}, "script": {"source": slow}});
    let all = json!({"query": {"match_all": {}}});
    let cases = [
        (
            "/old/_update_by_query?scroll_size=10&conflicts=proceed&refresh=true",
            &update,
            "old",
        ),
        ("/old/_delete_by_query?scroll_size=1&conflicts=proceed", &all, "old"),
        ("/_reindex", &copy, "old"),
        ("/_reindex", &copy, "copies"),
    ];
    by_both_paths(|| {
        let (_folder, server) = start();
        for (path, body, replaced) in cases {
            fill(&server, "old", DOCS, "old");
            fill(&server, "copies", 1, "old");
            let text = body.to_string();
            let answer = std::thread::scope(|scope| {
                let job = scope.spawn(|| server.send("POST", path, &text).unwrap());
                let begun = Instant::now();
                let count = |index: &str, query: Value| {
                    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
                    let found = server.ok("POST", &format!("/{index}/_count"), &json!({"query": query}));
                    found["count"].as_u64().unwrap()
                };
                let is_on = || match path {
                    "/_reindex" => count("copies", json!({"match_all": {}})) > 1,
                    _ => count("old", json!({"term": {"n": 0}})) < DOCS,
                };
                while !is_on() && !job.is_finished() {
                    assert!(begun.elapsed() < Duration::from_secs(20), "{path}: it has begun");
                }
                server.ok("DELETE", &format!("/{replaced}"), &Value::Null);
                fill(&server, replaced, DOCS, "new");
                job.join().unwrap()
            });
            assert_eq!(touched(&server, replaced, "new"), 0, "{path} in [{replaced}]: {answer:?}");
            assert_eq!(answer.status, 404, "{path} in [{replaced}]: {answer:?}");
            let Some(failures) = answer.body["failures"].as_array() else {
                panic!("{path} in [{replaced}]: {answer:?}");
            };
            assert_eq!(failures.len(), 1, "{answer:?}");
            assert_eq!(
                (&failures[0]["index"], &failures[0]["cause"]["type"]),
                (&json!(replaced), &json!("index_not_found_exception")),
                "{answer:?}"
            );
            server.ok("DELETE", "/old,copies", &Value::Null);
        }
    });
}
