//! Relations against a fold over all documents: nested, parents and children, joins across indices.
//!
//! The property test draws documents, changes and questions; what the server answers must be what a fold over the
//! documents in memory says. `PLEACH_CASES` sets how many (2,000), `PLEACH_SEED` with which seed (printed). The
//! moment test has writers that keep an invariant over two indices; `PLEACH_SEARCHES` sets how often it is looked
//! at. The shapes test asks real data in three shapes; without the data beside the repository it is skipped.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use tests::{Server, shared};

/// A generator that anybody can continue from its printed seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % below
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.next(100) < percent
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(usual)
}

fn ask(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.send(method, path, &text).unwrap();
    assert!(answer.status < 300, "{method} {path} {body}\n{}", answer.text);
    answer.body
}

fn bulk(server: &Server, lines: &[Value]) {
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}").unwrap();
    }
    let answer = server.send("POST", "/_bulk", &text).unwrap();
    assert_eq!(answer.body["errors"], false, "{}", answer.text);
}

/// Ids of hits with their scores.
fn found(server: &Server, index: &str, query: &Value) -> BTreeMap<String, f64> {
    let answer = ask(
        server,
        "POST",
        &format!("/{index}/_search"),
        &json!({ "size": 1000, "_source": false, "query": query }),
    );
    let hits = answer["hits"]["hits"].as_array().unwrap();
    assert_eq!(answer["hits"]["total"]["value"], hits.len(), "{query}");
    let one = |hit: &Value| (hit["_id"].as_str().unwrap().to_owned(), hit["_score"].as_f64().unwrap_or(0.0));
    hits.iter().map(one).collect()
}

/// A document of the model.
#[derive(Clone, Debug)]
enum Doc {
    /// Stands in a tree by its relation and parent.
    Member {
        relation: &'static str,
        parent: Option<String>,
        n: i64,
    },
    /// Joined by keys of several kinds.
    Joined { word: Vec<String>, whole: Vec<i64>, n: i64 },
    /// Has objects: colour, number, and numbers one level further in.
    Nested { parts: Vec<(String, i64, Vec<i64>)>, n: i64 },
}

/// The documents as a fold reads them, by index and id.
type Model = BTreeMap<(&'static str, String), Doc>;

const WORDS: &[&str] = &["red", "green", "blue", "7", "3"];
const RELATIONS: &[(&str, Option<&str>)] = &[("root", None), ("branch", Some("root")), ("leaf", Some("branch"))];

fn draw_doc(draw: &mut Draw, index: &str) -> Doc {
    let n = i64::try_from(draw.next(10)).unwrap();
    match index {
        "tree" => {
            let (relation, above) = RELATIONS[draw.next(3)];
            Doc::Member {
                relation,
                parent: above.map(|above| format!("{above}{}", draw.next(6))),
                n,
            }
        }
        "nested" => {
            let parts = (0..draw.next(4)).map(|_| {
                let inner = (0..draw.next(3)).map(|_| i64::try_from(draw.next(5)).unwrap()).collect();
                (WORDS[draw.next(3)].to_owned(), i64::try_from(draw.next(10)).unwrap(), inner)
            });
            Doc::Nested {
                parts: parts.collect(),
                n,
            }
        }
        _ => Doc::Joined {
            word: (0..draw.next(3)).map(|_| WORDS[draw.next(5)].to_owned()).collect(),
            whole: (0..draw.next(3)).map(|_| i64::try_from(draw.next(12)).unwrap()).collect(),
            n,
        },
    }
}

fn source(doc: &Doc) -> Value {
    match doc {
        Doc::Member {
            relation,
            parent: None,
            n,
        } => json!({ "rel": relation, "n": n }),
        Doc::Member { relation, parent, n } => json!({ "rel": { "name": relation, "parent": parent }, "n": n }),
        Doc::Joined { word, whole, n } => json!({ "word": word, "whole": whole, "n": n }),
        Doc::Nested { parts, n } => {
            let part = |(colour, m, inner): &(String, i64, Vec<i64>)| {
                let inner: Vec<Value> = inner.iter().map(|k| json!({ "k": k })).collect();
                json!({ "colour": colour, "m": m, "inner": inner })
            };
            json!({ "parts": parts.iter().map(part).collect::<Vec<_>>(), "n": n })
        }
    }
}

/// Ids of a tree's members say what they are, so that a parent can be named before it is there.
fn draw_id(draw: &mut Draw, doc: &Doc) -> String {
    match doc {
        Doc::Member { relation, .. } => format!("{relation}{}", draw.next(if *relation == "leaf" { 20 } else { 6 })),
        _ => draw.next(14).to_string(),
    }
}

fn of<'a>(model: &'a Model, index: &'a str) -> impl Iterator<Item = (&'a String, &'a Doc)> {
    model
        .iter()
        .filter(move |((i, _), _)| *i == index)
        .map(|((_, id), doc)| (id, doc))
}

fn n_of(doc: &Doc) -> i64 {
    match doc {
        Doc::Member { n, .. } | Doc::Joined { n, .. } | Doc::Nested { n, .. } => *n,
    }
}

/// How scores of several become one.
fn combined(mode: &str, scores: &[f64]) -> f64 {
    match mode {
        "sum" => scores.iter().sum(),
        "max" => scores.iter().copied().fold(f64::MIN, f64::max),
        "min" => scores.iter().copied().fold(f64::MAX, f64::min),
        "avg" => scores.iter().sum::<f64>() / scores.len() as f64,
        _ => 1.0,
    }
}

/// Documents with `n` at least so much.
fn at_least(low: i64) -> Value {
    json!({ "range": { "n": { "gte": low } } })
}

/// The same, each with its `n` + 1 as score.
fn valued(low: i64) -> Value {
    json!({ "function_score": { "query": at_least(low), "boost_mode": "replace",
        "script_score": { "script": "doc['n'].value + 1" } } })
}

const MODES: &[&str] = &["none", "sum", "max", "min", "avg"];

/// One question with the answer of the fold.
fn draw_question(draw: &mut Draw, model: &Model) -> (&'static str, Value, BTreeMap<String, f64>) {
    let mode = MODES[draw.next(5)];
    let low = i64::try_from(draw.next(10)).unwrap();
    match draw.next(7) {
        0 => {
            let (child, above) = RELATIONS[1 + draw.next(2)];
            // Half of them ask nothing of children but that they match.
            let is_plain = draw.chance(50);
            let (mode, least, most) = match is_plain {
                true => ("none", 1, usize::MAX),
                false => (mode, 1 + draw.next(3), 2 + draw.next(4)),
            };
            let mut expected = BTreeMap::new();
            for (id, doc) in of(model, "tree") {
                if !matches!(doc, Doc::Member { relation, .. } if Some(*relation) == above) {
                    continue;
                }
                let scores: Vec<f64> = of(model, "tree")
                    .filter(|(_, doc)| matches!(doc, Doc::Member { relation, parent, n } if *relation == child && parent.as_ref() == Some(id) && *n >= low))
                    .map(|(_, doc)| (n_of(doc) + 1) as f64)
                    .collect();
                if scores.len() >= least && scores.len() <= most.max(least) {
                    expected.insert(id.clone(), combined(mode, &scores));
                }
            }
            let query = match is_plain {
                true => json!({ "has_child": { "type": child, "query": at_least(low) } }),
                false => json!({ "has_child": { "type": child, "query": valued(low), "score_mode": mode,
                    "min_children": least, "max_children": most.max(least) } }),
            };
            ("tree", query, expected)
        }
        1 => {
            let (child, above) = RELATIONS[1 + draw.next(2)];
            let scored = draw.chance(50);
            let parent = |id: &String| match model.get(&("tree", id.clone())) {
                Some(Doc::Member { relation, n, .. }) if Some(*relation) == above && *n >= low => Some((n + 1) as f64),
                _ => None,
            };
            let expected = of(model, "tree").filter_map(|(id, doc)| match doc {
                Doc::Member {
                    relation,
                    parent: Some(above),
                    ..
                } if *relation == child => parent(above).map(|score| (id.clone(), if scored { score } else { 1.0 })),
                _ => None,
            });
            let asked = if scored { valued(low) } else { at_least(low) };
            let query = json!({ "has_parent": { "parent_type": above, "query": asked, "score": scored } });
            ("tree", query, expected.collect())
        }
        2 => {
            let above = format!("root{}", draw.next(6));
            let expected = of(model, "tree").filter(
                |(_, doc)| matches!(doc, Doc::Member { relation: "branch", parent: Some(parent), .. } if *parent == above),
            );
            let expected = expected.map(|(id, _)| (id.clone(), 0.0)).collect();
            let query = json!({ "bool": { "filter": { "parent_id": { "type": "branch", "id": above } } } });
            ("tree", query, expected)
        }
        3 => {
            let colour = WORDS[draw.next(3)];
            let mut expected = BTreeMap::new();
            for (id, doc) in of(model, "nested") {
                let Doc::Nested { parts, .. } = doc else { continue };
                let scores: Vec<f64> = parts
                    .iter()
                    .filter(|(own, m, _)| own == colour && *m >= low)
                    .map(|(_, m, _)| (m + 1) as f64)
                    .collect();
                if !scores.is_empty() {
                    let score = if mode == "none" { 0.0 } else { combined(mode, &scores) };
                    expected.insert(id.clone(), score);
                }
            }
            let inside = json!({ "function_score": { "boost_mode": "replace", "script_score": { "script": "doc['parts.m'].value + 1" },
                "query": { "bool": { "filter": [{ "term": { "parts.colour": colour } }, { "range": { "parts.m": { "gte": low } } }] } } } });
            (
                "nested",
                json!({ "nested": { "path": "parts", "score_mode": mode, "query": inside } }),
                expected,
            )
        }
        4 => {
            let (colour, k) = (WORDS[draw.next(3)], i64::try_from(draw.next(5)).unwrap());
            let expected = of(model, "nested").filter(|(_, doc)| {
                let Doc::Nested { parts, .. } = doc else { return false };
                parts.iter().any(|(own, _, inner)| own == colour && inner.contains(&k))
            });
            let expected = expected.map(|(id, _)| (id.clone(), 0.0)).collect();
            let inside = json!({ "bool": { "filter": [{ "term": { "parts.colour": colour } },
                { "nested": { "path": "parts.inner", "query": { "term": { "parts.inner.k": k } } } }] } });
            (
                "nested",
                json!({ "bool": { "filter": { "nested": { "path": "parts", "query": inside } } } }),
                expected,
            )
        }
        kind => {
            // One side's words, numbers or ids with the other's.
            let fields = ["word", "whole", "_id"];
            let (ours, theirs) = (fields[draw.next(3)], fields[draw.next(3)]);
            let kind = ["semi", "anti", "left"][(kind + draw.next(2)) % 3];
            let mut expected = BTreeMap::new();
            for (id, doc) in of(model, "ours") {
                let own = keys(id, doc, ours);
                let mut scores = Vec::new();
                for (id, doc) in of(model, "theirs").filter(|(_, doc)| n_of(doc) >= low) {
                    let shared = keys(id, doc, theirs).intersection(&own).count();
                    scores.extend(std::iter::repeat_n((n_of(doc) + 1) as f64, shared));
                }
                let score = match (kind, scores.is_empty()) {
                    ("semi" | "left", false) => combined(mode, &scores),
                    ("anti" | "left", true) => 0.0,
                    _ => continue,
                };
                expected.insert(id.clone(), score);
            }
            let query = json!({ "join": { "index": "theirs", "on": { ours: theirs }, "type": kind, "score_mode": mode, "query": valued(low) } });
            ("ours", query, expected)
        }
    }
}

/// Asks how many relatives the members of a relation have, by the number of the member, and what the numbers of these add up to.
fn compare_groups(server: &Server, draw: &mut Draw, model: &Model, case: &str) {
    let (child, above) = RELATIONS[1 + draw.next(2)];
    let low = i64::try_from(draw.next(10)).unwrap();
    let is_down = draw.chance(50);
    let collected = if is_down { above.unwrap() } else { child };
    let mut expected: BTreeMap<i64, BTreeSet<&String>> = BTreeMap::new();
    let members = || of(model, "tree").filter(|(_, doc)| n_of(doc) >= low);
    for (id, doc) in members() {
        let Doc::Member { relation, parent, n } = doc else { continue };
        if *relation != collected {
            continue;
        }
        let relatives = expected.entry(*n).or_default();
        let is_child =
            |doc: &Doc| matches!(doc, Doc::Member { relation, parent, .. } if *relation == child && parent.as_ref() == Some(id));
        match is_down {
            true => relatives.extend(of(model, "tree").filter(|(_, doc)| is_child(doc)).map(|(id, _)| id)),
            false => relatives.extend(of(model, "tree").map(|(id, _)| id).filter(|id| Some(*id) == parent.as_ref())),
        }
    }
    let kind = if is_down { "children" } else { "parent" };
    let relatives =
        json!({ kind: { "type": child }, "aggs": { "sum": { "sum": { "field": "n" } }, "by": { "terms": { "field": "n" } } } });
    let body = json!({ "size": 0, "query": { "bool": { "filter": [at_least(low), { "term": { "rel": collected } }] } },
        "aggs": { "groups": { "terms": { "field": "n", "size": 20, "order": { "_key": "asc" } }, "aggs": { "relatives": relatives } } } });
    let answer = ask(server, "POST", "/tree/_search", &body);
    let groups = answer["aggregations"]["groups"]["buckets"].as_array().unwrap();
    assert_eq!(groups.len(), expected.len(), "{case}: {body}");
    for (group, (n, ids)) in groups.iter().zip(&expected) {
        let numbers = ids.iter().map(|id| n_of(&model[&("tree", (*id).clone())]));
        let sum = numbers.sum::<i64>() as f64;
        let found = &group["relatives"];
        let by = found["by"]["buckets"].as_array().unwrap();
        let counted: u64 = by.iter().filter_map(|bucket| bucket["doc_count"].as_u64()).sum();
        let counts = (
            group["key"].as_i64(),
            found["doc_count"].as_u64(),
            found["sum"]["value"].as_f64(),
        );
        assert_eq!(
            counts,
            (Some(*n), Some(ids.len() as u64), Some(sum)),
            "{case}: {body}\n{group}"
        );
        assert_eq!(counted, ids.len() as u64, "{case}: {body}\n{group}");
    }
}

fn keys(id: &str, doc: &Doc, field: &str) -> BTreeSet<String> {
    match (doc, field) {
        (Doc::Joined { word, .. }, "word") => word.iter().cloned().collect(),
        (Doc::Joined { whole, .. }, "whole") => whole.iter().map(i64::to_string).collect(),
        _ => std::iter::once(id.to_owned()).collect(),
    }
}

#[test]
fn answers_are_those_of_a_fold() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    compare_with_a_fold(&server, number("PLEACH_CASES", 2_000));
}

/// The same where the hashes of keys have four values: what lies together must be told apart. A release build has no
/// such switch.
#[test]
fn answers_are_those_of_a_fold_where_hashes_collide() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_among(&folder.path().join("data"), &["es8"], &[], &[("WEAK_JOIN_HASHES", "1")]);
    compare_with_a_fold(&server, number("PLEACH_CASES", 2_000).min(1_000));
}

/// The same where nothing that is derived from segments has room to be kept.
#[test]
fn answers_are_those_of_a_fold_where_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let room = [("PLEACH_INDICES_FIELDDATA_CACHE_SIZE", "1b")];
    let server = Server::start_among(&folder.path().join("data"), &["es8"], &[], &room);
    compare_with_a_fold(&server, number("PLEACH_CASES", 2_000).min(500));
}

fn compare_with_a_fold(server: &Server, cases: u64) {
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = number("PLEACH_SEED", clock | 1);
    println!("{cases} cases, PLEACH_SEED={seed}");
    let joined = json!({ "word": { "type": "keyword" }, "whole": { "type": "long" }, "n": { "type": "integer" } });
    let theirs = json!({ "word": { "type": "keyword" }, "whole": { "type": "double" }, "n": { "type": "integer" } });
    let rel = json!({ "type": "join", "relations": { "root": "branch", "branch": "leaf" } });
    let inner = json!({ "type": "nested", "properties": { "k": { "type": "integer" } } });
    let parts = json!({ "type": "nested", "properties": { "colour": { "type": "keyword" }, "m": { "type": "integer" }, "inner": inner } });
    for (index, properties) in [
        ("tree", json!({ "rel": rel, "n": { "type": "integer" } })),
        ("nested", json!({ "parts": parts, "n": { "type": "integer" } })),
        ("ours", joined),
        ("theirs", theirs),
    ] {
        let body = json!({ "settings": { "refresh_interval": "-1" }, "mappings": { "properties": properties } });
        ask(server, "PUT", &format!("/{index}"), &body);
    }
    let mut draw = Draw(seed);
    let mut model = Model::new();
    for case in 0..cases {
        if case % 10 == 0 {
            let mut lines = Vec::new();
            for _ in 0..1 + draw.next(12) {
                let index = ["tree", "nested", "ours", "theirs"][draw.next(4)];
                let doc = draw_doc(&mut draw, index);
                let id = draw_id(&mut draw, &doc);
                if draw.chance(25) {
                    lines.push(json!({ "delete": { "_index": index, "_id": id } }));
                    model.remove(&(index, id));
                } else {
                    let mut action = json!({ "_index": index, "_id": id });
                    if index == "tree" {
                        action["routing"] = "r".into();
                    }
                    lines.push(json!({ "index": action }));
                    lines.push(source(&doc));
                    model.insert((index, id), doc);
                }
            }
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let answer = server.send("POST", "/_bulk?refresh=true", &text).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text);
            if draw.chance(5) {
                ask(server, "POST", "/_forcemerge?max_num_segments=1", &Value::Null);
            }
        }
        if draw.chance(20) {
            compare_groups(server, &mut draw, &model, &format!("case {case} of PLEACH_SEED={seed}"));
        }
        let (index, mut query, mut expected) = draw_question(&mut draw, &model);
        if draw.chance(30) {
            // Beside another clause a set is asked for single documents.
            let from = i64::try_from(draw.next(10)).unwrap();
            query = json!({ "bool": { "must": query, "filter": at_least(from) } });
            expected.retain(|id, _| model.get(&(index, id.clone())).is_some_and(|doc| n_of(doc) >= from));
        }
        let answer = found(server, index, &query);
        let same = answer.len() == expected.len()
            && answer
                .iter()
                .zip(&expected)
                .all(|((a, score), (b, wanted))| a == b && (score - wanted).abs() <= 1e-5 * wanted.abs().max(1.0));
        assert!(
            same,
            "case {case} of PLEACH_SEED={seed}: {index} {query}\nthe fold says {expected:?}\nthe server      {answer:?}"
        );
    }
}

/// An author's document holds a number; each post holds the number that its author had, written in one bulk.
/// A search for posts joined with authors of another number must never find any.
#[test]
fn a_search_and_its_joins_see_one_moment() {
    let searches = number("PLEACH_SEARCHES", 1_500);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    for index in ["authors", "posts"] {
        let body = json!({ "settings": { "refresh_interval": "5ms" }, "mappings": { "properties": { "key": { "type": "keyword" }, "round": { "type": "long" } } } });
        ask(&server, "PUT", &format!("/{index}"), &body);
    }
    let write = |writer: u64, round: u64| {
        // The post first: a reader between the two bulks sees a post that is ahead, never one that lags behind.
        let doc = json!({ "key": format!("{writer}-{round}"), "round": round });
        bulk(
            &server,
            &[
                json!({ "index": { "_index": "authors", "_id": format!("{writer}-{round}") } }),
                doc.clone(),
            ],
        );
        bulk(
            &server,
            &[
                json!({ "index": { "_index": "posts", "_id": format!("{writer}-{round}") } }),
                doc,
            ],
        );
        if round > 3 {
            let old = format!("{writer}-{}", round - 3);
            bulk(&server, &[json!({ "delete": { "_index": "posts", "_id": old } })]);
            bulk(&server, &[json!({ "delete": { "_index": "authors", "_id": old } })]);
        }
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (ended, write) = (&ended, &write);
            scope.spawn(move || {
                let mut round = 1;
                while !ended.load(Ordering::Relaxed) {
                    write(writer, round);
                    round += 1;
                }
            });
        }
        let orphans = json!({ "size": 3, "query": { "join": { "index": "authors", "on": { "key": "key" }, "type": "anti" } } });
        let mut seen = 0;
        for n in 0..searches {
            let answer = ask(&server, "POST", "/posts/_search", &orphans);
            let lonely = answer["hits"]["total"]["value"].as_u64().unwrap();
            if lonely > 0 {
                ended.store(true, Ordering::Relaxed);
            }
            assert_eq!(lonely, 0, "search {n}: posts without their authors: {answer}");
            seen += 1;
        }
        ended.store(true, Ordering::Relaxed);
        println!("{seen} searches");
    });
    // The writers wrote, and the join finds what there is.
    ask(&server, "POST", "/_refresh", &Value::Null);
    let all = json!({ "query": { "join": { "index": "authors", "on": { "key": "key" } } } });
    assert!(
        ask(&server, "POST", "/posts/_search", &all)["hits"]["total"]["value"]
            .as_u64()
            .unwrap()
            > 0
    );
}

/// Many joins at once stay within `search.join_memory`: the rest is told 429, and everything is given back.
#[test]
fn joins_stay_within_their_memory() {
    let keys = number("PLEACH_JOIN_KEYS", 100_000);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let body = json!({ "mappings": { "properties": { "key": { "type": "long" } } } });
    ask(&server, "PUT", "/theirs", &body);
    ask(&server, "PUT", "/ours", &body);
    bulk(
        &server,
        &[json!({ "index": { "_index": "ours", "_id": "1" } }), json!({ "key": 5 })],
    );
    for part in 0..keys.div_ceil(10_000) {
        let of_part = part * 10_000..((part + 1) * 10_000).min(keys);
        let lines = of_part.flat_map(|key| [json!({ "index": { "_index": "theirs" } }), json!({ "key": key })]);
        bulk(&server, &lines.collect::<Vec<_>>());
    }
    ask(&server, "POST", "/_refresh", &Value::Null);
    // A table of 128-bit keys is 17 bytes a place, an eighth of the places is free, and it grows by doubling.
    let one = (keys * 8).div_ceil(7).next_power_of_two() * 17;
    let limit = |bytes: u64| {
        let body = json!({ "transient": { "search.join_memory": format!("{bytes}b") } });
        ask(&server, "PUT", "/_cluster/settings", &body);
    };
    let join = json!({ "query": { "join": { "index": "theirs", "on": { "key": "key" } } } }).to_string();
    let status = || {
        let answer = server.send("POST", "/ours/_search", &join).unwrap();
        if answer.status == 200 {
            assert_eq!(answer.body["hits"]["total"]["value"], 1, "{}", answer.text);
        } else {
            assert!(answer.text.contains("search.join_memory"), "{}", answer.text);
        }
        answer.status
    };
    for (room, all) in [(2 * one, false), (64 * one, true)] {
        limit(room);
        let answers: Vec<u16> = std::thread::scope(|scope| {
            let asked: Vec<_> = (0..32).map(|_| scope.spawn(status)).collect();
            asked.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let done = answers.iter().filter(|status| **status == 200).count();
        println!("room for {room} bytes: {done} of 32 joins of {keys} keys");
        assert!(answers.iter().all(|status| *status == 200 || *status == 429), "{answers:?}");
        assert!(done > 0 && (done == 32 || !all), "{done} of 32");
        // One alone fits into room for one: nothing is kept of the others.
        limit(one + one / 2);
        assert_eq!(status(), 200);
    }
    limit(one / 2);
    assert_eq!(status(), 429);
}

/// Commits and their files in three shapes: nested documents, parents and children, two indices.
fn shapes(server: &Server, every: usize, most: usize) -> Option<Vec<(Value, Value)>> {
    let file = shared::folder().map(|folder| folder.join("data/commits.ndjson.gz"))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).ok()?)
        .read_to_string(&mut text)
        .ok()?;
    let commits: Vec<Value> = text
        .lines()
        .step_by(every)
        .take(most)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let keyword = json!({ "type": "keyword" });
    let leaf = json!({ "dir": keyword, "ext": keyword, "status": keyword, "name": keyword });
    let mut nested = leaf.clone();
    nested["path"] = keyword.clone();
    let text_field = json!({ "type": "text" });
    let mut family = leaf.clone();
    family["rel"] = json!({ "type": "join", "relations": { "commit": "file" } });
    family["subject"] = text_field.clone();
    let mut apart = leaf;
    apart["commit"] = keyword.clone();
    for (index, properties) in [
        (
            "nested",
            json!({ "subject": text_field, "files": { "type": "nested", "properties": nested } }),
        ),
        ("family", family),
        ("commits", json!({ "subject": text_field, "by": keyword })),
        ("files", apart),
    ] {
        ask(
            server,
            "PUT",
            &format!("/{index}"),
            &json!({ "mappings": { "dynamic": false, "properties": properties } }),
        );
    }
    let mut questions = Vec::new();
    for part in commits.chunks(500) {
        let mut lines = Vec::new();
        for commit in part {
            let (id, subject) = (&commit["_id"], &commit["subject"]);
            let files: Vec<&Value> = commit["files"]
                .as_array()
                .unwrap()
                .iter()
                .take(if every > 1 { 50 } else { 10_000 })
                .collect();
            lines.push(json!({ "index": { "_index": "nested", "_id": id } }));
            lines.push(json!({ "subject": subject, "files": files }));
            lines.push(json!({ "index": { "_index": "family", "_id": id } }));
            lines.push(json!({ "subject": subject, "rel": "commit" }));
            lines.push(json!({ "index": { "_index": "commits", "_id": id } }));
            lines.push(json!({ "subject": subject, "by": commit["author"]["id"] }));
            for (n, file) in files.iter().enumerate() {
                let own = format!("{}:{n}", id.as_str().unwrap());
                let mut child = (*file).clone();
                child["rel"] = json!({ "name": "file", "parent": id });
                lines.push(json!({ "index": { "_index": "family", "_id": own, "routing": id } }));
                lines.push(child);
                let mut other = (*file).clone();
                other["commit"] = id.clone();
                lines.push(json!({ "index": { "_index": "files", "_id": own } }));
                lines.push(other);
                questions.push((subject.clone(), (*file).clone()));
            }
        }
        bulk(server, &lines);
    }
    ask(server, "POST", "/_refresh", &Value::Null);
    Some(questions)
}

#[test]
fn three_shapes_of_real_data_answer_alike() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let Some(questions) = shapes(&server, 10, 3_000) else {
        println!("skipped: no data beside the repository");
        return;
    };
    let mut draw = Draw(number("PLEACH_SEED", 7) | 1);
    let mut some = 0;
    for n in 0..500 {
        let (subject, file) = &questions[draw.next(questions.len())];
        let fields = [["ext", "status"], ["dir", "status"], ["dir", "ext"], ["name", "status"]][draw.next(4)];
        let inside = |prefix: &str| {
            let term = |field: &str| json!({ "term": { format!("{prefix}{field}"): file[field] } });
            json!({ "bool": { "filter": [term(fields[0]), term(fields[1])] } })
        };
        let clauses = [
            ("nested", json!({ "nested": { "path": "files", "query": inside("files.") } })),
            ("family", json!({ "has_child": { "type": "file", "query": inside("") } })),
            (
                "commits",
                json!({ "join": { "index": "files", "on": { "_id": "commit" }, "query": inside("") } }),
            ),
        ];
        let word = subject.as_str().unwrap().split_whitespace().next().unwrap_or("a").to_owned();
        let with_word = draw.chance(40);
        let mut answers = Vec::new();
        for (index, clause) in clauses {
            let mut filter = vec![clause];
            if with_word {
                filter.push(json!({ "match": { "subject": word } }));
            }
            let body = json!({ "size": 50, "_source": false, "track_total_hits": true, "sort": [{ "_id": "asc" }], "query": { "bool": { "filter": filter } } });
            let answer = ask(&server, "POST", &format!("/{index}/_search"), &body);
            let ids: Vec<Value> = answer["hits"]["hits"]
                .as_array()
                .unwrap()
                .iter()
                .map(|hit| hit["_id"].clone())
                .collect();
            answers.push((answer["hits"]["total"]["value"].clone(), ids));
        }
        assert_eq!(
            answers[0], answers[1],
            "question {n}: nested and family differ on {fields:?} of {file}"
        );
        assert_eq!(
            answers[0], answers[2],
            "question {n}: nested and join differ on {fields:?} of {file}"
        );
        some += usize::from(answers[0].0 != 0);
    }
    assert!(some > 250, "most questions have an answer, {some} of 500 do");
    println!("500 questions, {some} with an answer");
}

/// The middle of some times, in microseconds.
fn middle(server: &Server, requests: &[(String, Value)]) -> u128 {
    let mut times: Vec<u128> = requests
        .iter()
        .map(|(path, body)| {
            let text = body.to_string();
            let start = std::time::Instant::now();
            let answer = server.send("POST", path, &text).unwrap();
            let took = start.elapsed().as_micros();
            assert_eq!(answer.status, 200, "{}", answer.text);
            took
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// What each way costs, for docs/relations/choosing.md:
/// `cargo test --release -p tests --test relations -- --ignored --nocapture figures`.
#[test]
#[ignore = "measures, on all of the real data"]
fn figures() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let Some(questions) = shapes(&server, 1, usize::MAX) else {
        println!("skipped: no data beside the repository");
        return;
    };
    ask(&server, "POST", "/_forcemerge?max_num_segments=1", &Value::Null);
    let mut draw = Draw(7);
    let rounds = 60;
    let mut flat = Vec::new();
    let mut kinds: BTreeMap<&str, Vec<(String, Value)>> = BTreeMap::new();
    let page = |query: Value| json!({ "size": 10, "_source": false, "query": query });
    for _ in 0..rounds {
        let (subject, file) = &questions[draw.next(questions.len())];
        let word = subject.as_str().unwrap().split_whitespace().next().unwrap_or("a").to_owned();
        let term = |prefix: &str| json!({ "term": { format!("{prefix}dir"): file["dir"] } });
        let said = json!({ "match": { "subject": word } });
        flat.push(("/files/_search".to_owned(), page(term(""))));
        let mut add = |kind, index: &str, query: Value| {
            let list: &mut Vec<_> = kinds.entry(kind).or_default();
            list.push((format!("/{index}/_search"), page(query)));
        };
        add(
            "nested",
            "nested",
            json!({ "nested": { "path": "files", "query": term("files.") } }),
        );
        add(
            "has_child",
            "family",
            json!({ "has_child": { "type": "file", "query": term("") } }),
        );
        add(
            "has_parent",
            "family",
            json!({ "has_parent": { "parent_type": "commit", "query": said } }),
        );
        add(
            "join",
            "commits",
            json!({ "join": { "index": "files", "on": { "_id": "commit" }, "query": term("") } }),
        );
        add("flat match", "commits", said.clone());
        let list = kinds.entry("collapse").or_default();
        let mut collapse = page(said.clone());
        collapse["collapse"] = json!({ "field": "by", "inner_hits": { "name": "of", "size": 3, "_source": false } });
        list.push(("/commits/_search".into(), collapse));
        let mut top = page(said);
        top["aggs"] =
            json!({ "by": { "terms": { "field": "by" }, "aggs": { "top": { "top_hits": { "size": 3, "_source": false } } } } });
        kinds
            .entry("terms+top_hits")
            .or_default()
            .push(("/commits/_search".into(), top));
    }
    middle(&server, &flat);
    println!("{:<28} {:>8} us", "flat term", middle(&server, &flat));
    for (kind, requests) in &kinds {
        middle(&server, requests);
        println!("{kind:<28} {:>8} us", middle(&server, requests));
    }
    let first: Vec<u128> = kinds["has_child"]
        .iter()
        .take(20)
        .enumerate()
        .map(|(n, request)| {
            let body = json!({ "rel": { "name": "file", "parent": "none" }, "dir": "/" });
            ask(&server, "PUT", &format!("/family/_doc/new{n}?routing=r&refresh=true"), &body);
            middle(&server, std::slice::from_ref(request))
        })
        .collect();
    let mut first = first;
    first.sort_unstable();
    println!("{:<28} {:>8} us", "has_child after a refresh", first[first.len() / 2]);
    let by_word =
        json!({ "join": { "index": "commits", "on": { "commit": "_id" }, "query": { "match": { "subject": "merge" } } } });
    let by_all = json!({ "join": { "index": "files", "on": { "_id": "_id" } } });
    for (index, query) in [("files", by_word), ("commits", by_all)] {
        let body = json!({ "profile": true, "size": 10, "query": query });
        for _ in 0..3 {
            let start = std::time::Instant::now();
            let answer = ask(&server, "POST", &format!("/{index}/_search"), &body);
            println!("join: {} us, {}", start.elapsed().as_micros(), answer["profile"]["join"][0]);
        }
    }
}
