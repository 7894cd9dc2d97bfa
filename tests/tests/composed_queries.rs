//! A query of several clauses finds what the sets of its clauses say, with the scores that they say.
//!
//! Each clause is asked alone for all of its documents. Random queries of these clauses are then worked out as sets, and asked in every
//! way that a search can go: pruned and in whole, sorted, paged, counted, as a filter, as an exclusion, in aggregations, collapsed,
//! explained. Documents change between the rounds. `PLEACH_COMPOSED_CASES` says how many queries are asked, `PLEACH_TEST_SEED` which.
//!
//! Not here: what one clause finds (`golden`, `scenarios`, `document_rights`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tests::Server;

const CASES: usize = 300;
/// Queries between two changes of the documents.
const CASES_OF_A_ROUND: usize = 150;
/// Changes of an index before a new one is made.
const ROUNDS_OF_AN_INDEX: usize = 6;
/// Documents of an index that keeps its segments: with their nested ones they are too few to be merged when nothing is written.
const DOCS_OF_SEGMENTS: u64 = 1_400;
/// Documents of an index of one segment, whose lists have many blocks.
const DOCS_OF_ONE: u64 = 6_000;
const LEAVES: usize = 40;

/// A bound for the next random number, and that number.
type Random<'a> = &'a mut dyn FnMut(u64) -> u64;

/// A document as far as the checks need it.
#[derive(Clone, Debug)]
struct Doc {
    no: u64,
    group: String,
    tags: BTreeSet<String>,
}

/// The ids of the documents that a query finds, with their scores.
type Found = BTreeMap<String, f64>;

/// A clause that is asked alone.
struct Leaf {
    query: Value,
    found: Found,
}

/// A query of clauses.
#[derive(Debug)]
enum Composed {
    Leaf(usize),
    Bool {
        must: Vec<Composed>,
        filter: Vec<Composed>,
        should: Vec<Composed>,
        must_not: Vec<Composed>,
        least: Option<usize>,
        boost: f64,
    },
    Constant(Box<Composed>, f64),
    DisMax(Vec<Composed>, f64),
    Boosting(Box<Composed>, Box<Composed>, f64),
    Weight(Box<Composed>, f64),
}

fn some(random: Random<'_>, most: u64, depth: u32) -> Vec<Composed> {
    (0..random(most + 1)).map(|_| any_query(random, depth)).collect()
}

fn any_query(random: Random<'_>, depth: u32) -> Composed {
    if depth == 0 || random(4) == 0 {
        return Composed::Leaf(random(LEAVES as u64) as usize);
    }
    let inner = |random: Random<'_>| Box::new(any_query(random, depth - 1));
    match random(12) {
        0 => Composed::Constant(inner(random), 0.5 + random(4) as f64),
        1 => Composed::DisMax(
            (0..1 + random(3)).map(|_| any_query(random, depth - 1)).collect(),
            random(3) as f64 / 2.0,
        ),
        2 => Composed::Boosting(inner(random), inner(random), 0.25 * (1 + random(3)) as f64),
        3 => Composed::Weight(inner(random), 0.5 * (1 + random(4)) as f64),
        _ => {
            let must = some(random, 2, depth - 1);
            let filter = some(random, 2, depth - 1);
            let mut should = some(random, 3, depth - 1);
            let must_not = some(random, 2, depth - 1);
            if must.is_empty() && filter.is_empty() && should.is_empty() && must_not.is_empty() {
                should.push(any_query(random, depth - 1));
            }
            let least = (random(3) == 0 && !should.is_empty()).then(|| random(should.len() as u64 + 1) as usize);
            let boost = [1.0, 1.0, 1.0, 2.0, 0.5][random(5) as usize];
            Composed::Bool {
                must,
                filter,
                should,
                must_not,
                least,
                boost,
            }
        }
    }
}

/// The dialect that is asked. In that of 2015 scores go by coordination and norms of queries: they are not compared.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    Todays,
    Of2015,
}

/// The clauses and documents that a query is evaluated with, and the place where it stands.
#[derive(Clone, Copy)]
struct Within<'a> {
    leaves: &'a [Leaf],
    docs: &'a BTreeMap<String, Doc>,
    dialect: Dialect,
    is_filter: bool,
}

impl Within<'_> {
    fn filter(self) -> Self {
        Within { is_filter: true, ..self }
    }
}

impl Composed {
    /// Only options, at least two: `or` in the words of 2015, whose parts are filters.
    fn is_or_of_2015(&self) -> bool {
        matches!(self, Composed::Bool { must, filter, should, must_not, least: None, .. }
            if must.is_empty() && filter.is_empty() && must_not.is_empty() && should.len() > 1)
    }

    /// The clauses that 2015 had beside `bool`, where one says the same.
    fn of_2015(&self, leaves: &[Leaf]) -> Option<Value> {
        let Composed::Bool {
            must,
            filter,
            should,
            must_not,
            least: None,
            ..
        } = self
        else {
            return None;
        };
        let render = |one: &Composed| one.query(leaves, Dialect::Of2015);
        let all = |list: &[Composed]| list.iter().map(render).collect::<Value>();
        match (must.as_slice(), filter.as_slice(), should.as_slice(), must_not.as_slice()) {
            ([query], [filter], [], []) => Some(json!({ "filtered": { "query": render(query), "filter": render(filter) } })),
            ([], [_, _, ..], [], []) => Some(json!({ "and": all(filter) })),
            _ if self.is_or_of_2015() => Some(json!({ "or": { "filters": all(should) } })),
            ([], [], [], [excluded]) => Some(json!({ "not": render(excluded) })),
            _ => None,
        }
    }

    fn query(&self, leaves: &[Leaf], dialect: Dialect) -> Value {
        if let Some(query) = self.of_2015(leaves).filter(|_| dialect == Dialect::Of2015) {
            return query;
        }
        let all = |list: &[Composed]| list.iter().map(|one| one.query(leaves, dialect)).collect::<Value>();
        match self {
            Composed::Leaf(no) => leaves[*no].query.clone(),
            Composed::Bool {
                must,
                filter,
                should,
                must_not,
                least,
                boost,
            } => {
                let mut body = json!({});
                for (name, list) in [("must", must), ("filter", filter), ("should", should), ("must_not", must_not)] {
                    if !list.is_empty() {
                        body[name] = all(list);
                    }
                }
                if let Some(least) = least {
                    body["minimum_should_match"] = (*least).into();
                }
                if *boost != 1.0 {
                    body["boost"] = (*boost).into();
                }
                json!({ "bool": body })
            }
            Composed::Constant(inner, boost) => {
                json!({ "constant_score": { "filter": inner.query(leaves, dialect), "boost": boost } })
            }
            Composed::DisMax(list, tie) => json!({ "dis_max": { "queries": all(list), "tie_breaker": tie } }),
            Composed::Boosting(positive, negative, by) => json!({ "boosting": {
                "positive": positive.query(leaves, dialect), "negative": negative.query(leaves, dialect), "negative_boost": by
            } }),
            Composed::Weight(inner, weight) => {
                json!({ "function_score": { "query": inner.query(leaves, dialect), "weight": weight } })
            }
        }
    }

    fn evaluate(&self, within: &Within<'_>) -> Found {
        let all = |list: &[Composed]| list.iter().map(|one| one.evaluate(within)).collect::<Vec<Found>>();
        let as_filters = |list: &[Composed]| {
            let within = within.filter();
            list.iter().map(|one| one.evaluate(&within)).collect::<Vec<Found>>()
        };
        match self {
            Composed::Leaf(no) => within.leaves[*no].found.clone(),
            Composed::Bool {
                must,
                filter,
                should,
                must_not,
                least,
                boost,
            } => {
                let least = match least {
                    Some(0) | None if must.is_empty() && filter.is_empty() && !should.is_empty() => 1,
                    // Inside a filter 2015 wants one of the options.
                    None => usize::from(within.is_filter && within.dialect == Dialect::Of2015 && !should.is_empty()),
                    Some(least) => *least,
                };
                let is_or = within.dialect == Dialect::Of2015 && self.is_or_of_2015();
                let (must, filter, must_not) = (all(must), as_filters(filter), as_filters(must_not));
                let should = if is_or { as_filters(should) } else { all(should) };
                let mut out = Found::new();
                for id in within.docs.keys() {
                    let has = |found: &&Found| found.contains_key(id);
                    let options: Vec<&Found> = should.iter().filter(has).collect();
                    let is_match = must.iter().chain(&filter).all(|found| found.contains_key(id))
                        && !must_not.iter().any(|found| found.contains_key(id))
                        && options.len() >= least;
                    if is_match {
                        let score: f64 = must.iter().chain(options).map(|found| found[id]).sum();
                        out.insert(id.clone(), score * boost);
                    }
                }
                out
            }
            Composed::Constant(inner, boost) => {
                let found = inner.evaluate(&within.filter()).into_keys();
                found.map(|id| (id, *boost)).collect()
            }
            Composed::DisMax(list, tie) => {
                let mut scores: BTreeMap<String, Vec<f64>> = BTreeMap::new();
                for (id, score) in all(list).into_iter().flatten() {
                    scores.entry(id).or_default().push(score);
                }
                let one = |(id, scores): (String, Vec<f64>)| {
                    let best = scores.iter().copied().fold(f64::MIN, f64::max);
                    (id, best + tie * (scores.iter().sum::<f64>() - best))
                };
                scores.into_iter().map(one).collect()
            }
            Composed::Boosting(positive, negative, by) => {
                let negative = negative.evaluate(within);
                let one = |(id, score): (String, f64)| {
                    let by = if negative.contains_key(&id) { *by } else { 1.0 };
                    (id, score * by)
                };
                positive.evaluate(within).into_iter().map(one).collect()
            }
            Composed::Weight(inner, weight) => {
                let found = inner.evaluate(within).into_iter();
                found.map(|(id, score)| (id, score * weight)).collect()
            }
        }
    }
}

fn word(random: Random<'_>) -> String {
    let below = 1 + random(20);
    format!("w{}", random(below))
}

fn words(random: Random<'_>, most: u64) -> String {
    (0..1 + random(most)).map(|_| word(random)).collect::<Vec<_>>().join(" ")
}

/// The clauses that 2015 has in the same form.
const CLAUSES_OF_2015: &[&str] = &[
    "term",
    "terms",
    "match",
    "match_phrase",
    "prefix",
    "wildcard",
    "range",
    "exists",
    "ids",
    "nested",
    "query_string",
    "fuzzy",
    "match_all",
    "span_near",
    "multi_match",
    "simple_query_string",
    "match_phrase_prefix",
    "regexp",
];

fn leaf(random: Random<'_>, dialect: Dialect) -> Value {
    loop {
        let leaf = any_leaf(random);
        let is_known = |leaf: &Value| CLAUSES_OF_2015.iter().any(|name| !leaf[name].is_null());
        if dialect == Dialect::Todays || is_known(&leaf) {
            return leaf;
        }
    }
}

fn any_leaf(random: Random<'_>) -> Value {
    let low = random(1_000);
    match random(33) {
        0 => json!({ "term": { "group": format!("g{}", random(12)) } }),
        1 => json!({ "terms": { "tags": [format!("t{}", random(8)), format!("t{}", random(8))] } }),
        2 => json!({ "match": { "text": words(random, 3) } }),
        3 => json!({ "match": { "text": { "query": words(random, 3), "operator": "and" } } }),
        4 => json!({ "match_phrase": { "text": { "query": format!("{} {}", word(random), word(random)), "slop": random(3) } } }),
        5 => json!({ "prefix": { "tags": format!("t{}", random(3)) } }),
        6 => json!({ "wildcard": { "group": format!("*{}", random(10)) } }),
        7 => json!({ "range": { "n": { "gte": low, "lt": low + random(600) } } }),
        8 => json!({ "range": { "price": { "gt": low as f64 / 7.0, "lte": (low + random(900)) as f64 / 7.0 } } }),
        9 => json!({ "range": { "day": { "gte": low * 3_000, "lt": (low + random(900)) * 3_000 } } }),
        10 => json!({ "range": { "group": { "gte": format!("g{}", random(5)), "lte": format!("g{}", 4 + random(5)) } } }),
        11 => {
            let field = ["n", "price", "tags", "text"][random(4) as usize];
            json!({ "exists": { "field": field } })
        }
        12 => json!({ "ids": { "values": (0..random(40)).map(|_| random(DOCS_OF_SEGMENTS).to_string()).collect::<Vec<_>>() } }),
        13 => {
            let mode = ["avg", "sum", "max", "min", "none"][random(5) as usize];
            let query = match random(4) {
                0 => json!({ "term": { "parts.name": format!("p{}", random(8)) } }),
                1 => json!({ "match": { "parts.note": words(random, 2) } }),
                2 => {
                    json!({ "bool": { "must": { "match": { "parts.note": word(random) } }, "filter": { "range": { "parts.size": { "gte": random(9) } } } } })
                }
                _ => json!({ "bool": { "must_not": { "term": { "parts.name": format!("p{}", random(8)) } } } }),
            };
            json!({ "nested": { "path": "parts", "score_mode": mode, "query": query } })
        }
        14 => {
            json!({ "query_string": { "query": format!("{} AND NOT {}", word(random), word(random)), "default_field": "text" } })
        }
        15 => json!({ "fuzzy": { "text": { "value": format!("w{}x", random(20)), "fuzziness": 1 } } }),
        16 => json!({ "match_all": {} }),
        17 => {
            json!({ "script": { "script": { "source": "doc['no'].value % params.by == 0", "params": { "by": 2 + random(5) } } } })
        }
        18 => {
            let mode = ["none", "max", "sum", "avg"][random(4) as usize];
            let query = json!({ "match": { "said": words(random, 2) } });
            json!({ "has_child": { "type": "remark", "score_mode": mode, "query": query } })
        }
        19 => {
            json!({ "has_parent": { "parent_type": "entry", "score": random(2) == 0, "query": { "match": { "text": word(random) } } } })
        }
        20 => json!({ "distance_feature": { "field": "day", "origin": low * 3_000, "pivot": "1000s" } }),
        21 => {
            json!({ "intervals": { "text": { "match": { "query": words(random, 3), "max_gaps": random(4), "ordered": random(2) == 0 } } } })
        }
        22 => {
            let clauses: Vec<Value> = (0..2).map(|_| json!({ "span_term": { "text": word(random) } })).collect();
            json!({ "span_near": { "clauses": clauses, "slop": random(4), "in_order": random(2) == 0 } })
        }
        23 => {
            let kind = ["best_fields", "most_fields", "cross_fields"][random(3) as usize];
            json!({ "multi_match": { "query": words(random, 3), "fields": ["text", "said^2"], "type": kind } })
        }
        24 => {
            json!({ "simple_query_string": { "query": format!("{} +{} -{}", word(random), word(random), word(random)), "fields": ["text"] } })
        }
        25 => json!({ "match_phrase_prefix": { "text": format!("{} w1", word(random)) } }),
        26 => {
            let terms: Vec<String> = (0..1 + random(4)).map(|_| format!("t{}", random(7))).collect();
            json!({ "terms_set": { "tags": { "terms": terms, "minimum_should_match_script": { "source": "2" } } } })
        }
        27 => {
            let query = json!({ "match": { "text": words(random, 2) } });
            json!({ "script_score": { "query": query, "script": { "source": "_score * 2 + doc['no'].value % 3" } } })
        }
        28 => {
            let factor = json!({ "field": "n", "missing": 1, "modifier": "ln2p" });
            json!({ "function_score": { "query": { "match": { "text": words(random, 2) } }, "field_value_factor": factor } })
        }
        29 => {
            let kind = ["semi", "anti"][random(2) as usize];
            let query = json!({ "term": { "group": format!("g{}", random(12)) } });
            json!({ "join": { "index": "docs", "on": { "n": "no" }, "type": kind, "query": query } })
        }
        30 => json!({ "match_bool_prefix": { "text": format!("{} w1", word(random)) } }),
        31 => json!({ "match": { "text": { "query": words(random, 4), "minimum_should_match": 1 + random(3) } } }),
        _ => json!({ "regexp": { "group": format!("g[0-{}]", random(10)) } }),
    }
}

fn document(random: Random<'_>, no: u64) -> (Doc, Value) {
    let group = format!("g{}", random(11));
    let tags: BTreeSet<String> = (0..random(4)).map(|_| format!("t{}", random(7))).collect();
    let parts: Vec<Value> = (0..random(4))
        .map(|_| json!({ "name": format!("p{}", random(7)), "size": random(20), "note": words(random, 4) }))
        .collect();
    let mut source = json!({
        "no": no, "group": group, "tags": tags, "text": words(random, 9), "day": no * 1_000 + random(20_000),
        "parts": parts
    });
    match random(5) {
        0 => {}
        1 => source["n"] = json!([random(1_500), random(1_500)]),
        _ => source["n"] = (no / 3 + random(50)).into(),
    }
    if random(3) > 0 {
        source["price"] = (random(1_900) as f64 / 7.0).into();
    }
    (Doc { no, group, tags }, source)
}

/// A store of documents, and what is known of them.
struct Store<'a> {
    server: &'a Server,
    dialect: Dialect,
    docs: BTreeMap<String, Doc>,
    is_one_segment: bool,
}

impl Store<'_> {
    /// Makes the index anew. No segments are merged while it is asked: what was deleted would leave the statistics of scores.
    fn begin(&mut self, random: Random<'_>) {
        self.docs.clear();
        self.is_one_segment = random(2) == 0;
        self.server.call("DELETE", "/docs", &json!({}));
        let settings = json!({
            "number_of_replicas": 0, "merge.policy.segments_per_tier": 100, "merge.policy.deletes_pct_allowed": 50
        });
        let body = json!({ "settings": settings, "mappings": self.mappings() });
        self.server.ok("PUT", "/docs", &body);
        let docs = if self.is_one_segment { DOCS_OF_ONE } else { DOCS_OF_SEGMENTS };
        self.write(random, &(0..docs).collect::<Vec<_>>());
        if self.is_one_segment {
            self.server.ok("POST", "/docs/_forcemerge?max_num_segments=1", &json!({}));
        }
    }

    /// Deletes some documents, or writes some of them again, fewer than half of a segment in all rounds.
    fn change(&mut self, random: Random<'_>) {
        let some: Vec<u64> = (0..60 * random(3)).map(|_| random(DOCS_OF_SEGMENTS)).collect();
        if !self.is_one_segment {
            return self.write(random, &some);
        }
        let mut lines = String::new();
        for id in some.iter().map(u64::to_string) {
            lines.push_str(&format!("{}\n", json!({ "delete": { "_id": id } })));
            self.docs.remove(&id);
        }
        self.bulk(&lines);
    }

    fn bulk(&self, lines: &str) {
        if !lines.is_empty() {
            let answer = self.server.send("POST", &self.path("_bulk?refresh=true"), lines).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!(answer.body["errors"], false, "{}", answer.body);
        }
        let count = self.server.ok("GET", "/docs/_count", &json!({}));
        assert_eq!(count["count"].as_u64(), Some(self.docs.len() as u64), "{count}");
    }

    fn path(&self, api: &str) -> String {
        let doc_type = if self.dialect == Dialect::Of2015 { "/entry" } else { "" };
        format!("/docs{doc_type}/{api}")
    }

    fn search(&self, body: &Value) -> Value {
        let path = match self.dialect {
            Dialect::Todays => self.path("_search?request_cache=false"),
            Dialect::Of2015 => self.path("_search"),
        };
        self.server.ok("POST", &path, body)
    }

    fn mappings(&self) -> Value {
        let properties = |keyword: Value, text: Value| {
            json!({
                "no": { "type": "integer" }, "group": keyword, "tags": keyword, "text": text, "said": text, "n": { "type": "integer" },
                "price": { "type": "double" }, "day": { "type": "date", "format": "epoch_second" },
                "parts": { "type": "nested", "properties": { "name": keyword, "size": { "type": "integer" }, "note": text } }
            })
        };
        match self.dialect {
            Dialect::Todays => {
                let mut properties = properties(json!({ "type": "keyword" }), json!({ "type": "text" }));
                properties["kind"] = json!({ "type": "join", "relations": { "entry": "remark" } });
                json!({ "properties": properties })
            }
            Dialect::Of2015 => {
                let properties = properties(
                    json!({ "type": "string", "index": "not_analyzed" }),
                    json!({ "type": "string" }),
                );
                json!({ "entry": { "properties": properties } })
            }
        }
    }

    /// Writes or deletes the documents of these numbers, in several refreshes. A tenth are remarks on those before them.
    fn write(&mut self, random: Random<'_>, numbers: &[u64]) {
        for part in numbers.chunks((numbers.len() / 3).max(1)) {
            let mut lines = String::new();
            for no in part.iter().copied() {
                let id = no.to_string();
                if no % 10 == 9 && self.dialect == Dialect::Todays {
                    // The parent lies in the same shard by its routing; it may be gone.
                    let parent = (no - 1 - random(8)).to_string();
                    let action = json!({ "index": { "_id": id, "routing": parent } });
                    let source = json!({ "no": no, "group": "g0", "said": words(random, 4), "kind": { "name": "remark", "parent": parent } });
                    lines.push_str(&format!("{action}\n{source}\n"));
                    let (group, tags) = ("g0".to_owned(), BTreeSet::new());
                    self.docs.insert(id, Doc { no, group, tags });
                } else if random(6) == 0 {
                    lines.push_str(&format!("{}\n", json!({ "delete": { "_id": id } })));
                    self.docs.remove(&id);
                } else {
                    let (doc, mut source) = document(random, no);
                    if self.dialect == Dialect::Todays {
                        source["kind"] = "entry".into();
                    }
                    lines.push_str(&format!("{}\n{source}\n", json!({ "index": { "_id": id } })));
                    self.docs.insert(id, doc);
                }
            }
            self.bulk(&lines);
        }
    }

    /// All that a query finds, with scores, by a page that is larger than the store.
    fn whole(&self, query: &Value) -> (Found, Vec<String>) {
        let answer = self.search(&json!({ "query": query, "size": 10_000, "_source": false }));
        let hits = answer["hits"]["hits"].as_array().unwrap();
        let order = hits.iter().map(id_of).collect();
        let found: Found = hits.iter().map(|hit| (id_of(hit), hit["_score"].as_f64().unwrap())).collect();
        assert_eq!(found.len(), hits.len(), "{query}: a document is found once");
        (found, order)
    }

    fn by_number<'f>(&self, found: &'f Found) -> Vec<&'f String> {
        let mut ids: Vec<&String> = found.keys().collect();
        ids.sort_by_key(|id| self.docs[*id].no);
        ids
    }
}

fn id_of(hit: &Value) -> String {
    hit["_id"].as_str().unwrap().to_owned()
}

/// Scores are sums of single precision, in some order.
fn is_same(ours: f64, expected: f64) -> bool {
    (ours - expected).abs() <= 2e-5 * expected.abs().max(1.0)
}

fn check_whole(store: &Store<'_>, query: &Value, expected: &Found) {
    let (found, order) = store.whole(query);
    let ids = |found: &Found| found.keys().cloned().collect::<BTreeSet<_>>();
    let (ours, theirs) = (ids(&found), ids(expected));
    let surplus: Vec<_> = ours.difference(&theirs).take(5).collect();
    let lacking: Vec<_> = theirs.difference(&ours).take(5).collect();
    assert!(
        surplus.is_empty() && lacking.is_empty(),
        "{query}: found {surplus:?}, not found {lacking:?}"
    );
    for (id, score) in found.iter().filter(|_| store.dialect == Dialect::Todays) {
        assert!(
            is_same(*score, expected[id]),
            "{query}: [{id}] has {score}, not {}",
            expected[id]
        );
    }
    let falls = order.windows(2).all(|two| found[&two[0]] >= found[&two[1]]);
    assert!(falls, "{query}: best first");
}

fn check_pruned(store: &Store<'_>, query: &Value, expected: &Found, random: Random<'_>) {
    let (size, from) = (1 + random(20), random(2) * random(30));
    let mut body = json!({ "query": query, "size": size, "from": from, "_source": false });
    let counted = [json!(null), json!(true), json!(false), json!(random(300))][random(4) as usize].clone();
    if !counted.is_null() {
        body["track_total_hits"] = counted.clone();
    }
    let answer = store.search(&body);
    let total = answer["hits"]["total"]["value"].as_u64();
    match (&counted, answer["hits"]["total"]["relation"].as_str()) {
        (Value::Bool(false), _) => assert_eq!(total, None, "{body}"),
        (Value::Number(most), Some("gte")) => {
            assert_eq!(total, most.as_u64(), "{body}");
            assert!(expected.len() as u64 >= most.as_u64().unwrap(), "{body}: {}", expected.len());
        }
        _ => assert_eq!(total, Some(expected.len() as u64), "{body}"),
    }
    let hits = answer["hits"]["hits"].as_array().unwrap();
    let mut scores: Vec<f64> = expected.values().copied().collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    let page: Vec<f64> = scores.into_iter().skip(from as usize).take(size as usize).collect();
    assert_eq!(hits.len(), page.len(), "{body}");
    for (hit, score) in hits.iter().zip(page) {
        let (id, own) = (id_of(hit), hit["_score"].as_f64().unwrap());
        assert!(is_same(own, score), "{body}: [{id}] has {own} where {score} is due");
        let known = expected.get(&id);
        assert!(
            known.is_some_and(|known| is_same(own, *known)),
            "{body}: [{id}] {own}, {known:?}"
        );
    }
}

/// `filtered`: what the query finds as a filter.
fn check_sorted(store: &Store<'_>, query: &Value, expected: &Found, filtered: &Found, random: Random<'_>) {
    let is_filter = random(2) == 0;
    let expected = if is_filter { filtered } else { expected };
    let mut ids = store.by_number(expected);
    let order = ["asc", "desc"][random(2) as usize];
    if order == "desc" {
        ids.reverse();
    }
    let mut body = json!({ "query": query, "size": 1 + random(30), "sort": [{ "no": order }], "_source": false });
    // Its set may be kept.
    if is_filter {
        body["query"] = json!({ "bool": { "filter": [query] } });
    }
    let mut rest = ids.as_slice();
    if random(2) == 0 && !ids.is_empty() && store.dialect == Dialect::Todays {
        let at = random(ids.len() as u64) as usize;
        body["search_after"] = json!([store.docs[ids[at]].no]);
        rest = &ids[at + 1..];
    }
    let answer = store.search(&body);
    let hits: Vec<String> = answer["hits"]["hits"].as_array().unwrap().iter().map(id_of).collect();
    let size = body["size"].as_u64().unwrap() as usize;
    assert!(
        hits.iter().eq(rest.iter().take(size).copied()),
        "{body}: {hits:?}, not {rest:?}"
    );
    let total = &answer["hits"]["total"];
    let total = total.as_u64().or_else(|| total["value"].as_u64());
    assert_eq!(total, Some(expected.len() as u64), "{body}");
}

fn check_counted(store: &Store<'_>, query: &Value, expected: &Found, filtered: &Found) {
    let count = |query: &Value| {
        let answer = store.server.ok("POST", &store.path("_count"), &json!({ "query": query }));
        answer["count"].as_u64()
    };
    assert_eq!(count(query), Some(expected.len() as u64), "{query}");
    let (all, found) = (store.docs.len() as u64, filtered.len() as u64);
    let excluded = json!({ "bool": { "must_not": [query] } });
    assert_eq!(count(&excluded), Some(all - found), "{excluded}");
    let both = json!({ "bool": { "must": [{ "match_all": {} }, { "bool": { "must": [{ "range": { "no": { "gte": 0 } } }], "must_not": [query] } }] } });
    assert_eq!(count(&both), Some(all - found), "{both}");
}

fn check_aggregated(store: &Store<'_>, query: &Value, expected: &Found, filtered: &Found) {
    let aggs = json!({
        "tags": { "terms": { "field": "tags", "size": 100 } }, "no": { "sum": { "field": "no" } },
        "others": { "filter": { "bool": { "must_not": [query] } } }
    });
    let others = expected.keys().filter(|id| !filtered.contains_key(*id)).count();
    let answer = store.search(&json!({ "query": query, "size": 0, "aggs": aggs }));
    let mut tags: BTreeMap<&str, u64> = BTreeMap::new();
    let mut sum = 0;
    for id in expected.keys() {
        let doc = &store.docs[id];
        sum += doc.no;
        for tag in &doc.tags {
            *tags.entry(tag).or_default() += 1;
        }
    }
    let buckets = answer["aggregations"]["tags"]["buckets"].as_array().unwrap().iter();
    let ours: BTreeMap<&str, u64> = buckets
        .map(|bucket| (bucket["key"].as_str().unwrap(), bucket["doc_count"].as_u64().unwrap()))
        .collect();
    assert_eq!(ours, tags, "{query}");
    assert_eq!(answer["aggregations"]["no"]["value"].as_f64(), Some(sum as f64), "{query}");
    assert_eq!(answer["aggregations"]["others"]["doc_count"], others, "{query}");
    let all = store.search(&json!({ "size": 0, "aggs": { "own": { "filter": query } } }));
    assert_eq!(
        all["aggregations"]["own"]["doc_count"].as_u64(),
        Some(filtered.len() as u64),
        "{query}"
    );
}

fn check_collapsed(store: &Store<'_>, query: &Value, expected: &Found) {
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for (id, score) in expected {
        let group = best.entry(&store.docs[id].group).or_insert(f64::MIN);
        *group = group.max(*score);
    }
    let body = json!({ "query": query, "size": 100, "collapse": { "field": "group" }, "_source": false });
    let answer = store.search(&body);
    let hits = answer["hits"]["hits"].as_array().unwrap();
    assert_eq!(hits.len(), best.len(), "{body}");
    for hit in hits {
        let (group, score) = (hit["fields"]["group"][0].as_str().unwrap(), hit["_score"].as_f64().unwrap());
        assert!(
            is_same(score, best[group]),
            "{body}: the best of [{group}] has {}, not {score}",
            best[group]
        );
    }
}

fn check_explained(store: &Store<'_>, query: &Value, expected: &Found, random: Random<'_>) {
    let ids: Vec<&String> = store
        .docs
        .iter()
        .filter(|(_, doc)| doc.no % 10 != 9)
        .map(|(id, _)| id)
        .collect();
    let id = ids[random(ids.len() as u64) as usize];
    let path = match store.dialect {
        Dialect::Todays => format!("/docs/_explain/{id}"),
        Dialect::Of2015 => format!("/docs/entry/{id}/_explain"),
    };
    let answer = store.server.call("POST", &path, &json!({ "query": query }));
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    assert_eq!(answer.body["matched"], expected.contains_key(id), "{query}: [{id}]");
    if let Some(score) = expected.get(id).filter(|_| store.dialect == Dialect::Todays) {
        let value = answer.body["explanation"]["value"].as_f64().unwrap();
        assert!(
            is_same(value, *score),
            "{query}: [{id}] is explained with {value}, not {score}"
        );
    }
}

fn check_dialect(dialect: Dialect, persona: &str) {
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = given("PLEACH_COMPOSED_CASES").map_or(CASES, |cases| cases as usize);
    let mut random = model::random::random(given("PLEACH_TEST_SEED").unwrap_or(35));
    let random: Random<'_> = &mut random;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[persona]);
    let mut store = Store {
        server: &server,
        dialect,
        docs: BTreeMap::new(),
        is_one_segment: false,
    };
    let mut leaves = Vec::new();
    for case in 0..cases {
        if case % CASES_OF_A_ROUND == 0 {
            if case % (CASES_OF_A_ROUND * ROUNDS_OF_AN_INDEX) == 0 {
                store.begin(random);
            }
            store.change(random);
            let queries: Vec<Value> = (0..LEAVES).map(|_| leaf(random, dialect)).collect();
            leaves = queries
                .into_iter()
                .map(|query| Leaf {
                    found: store.whole(&query).0,
                    query,
                })
                .collect();
        }
        let depth = 1 + random(3) as u32;
        let composed = any_query(random, depth);
        let query = composed.query(&leaves, dialect);
        let within = Within {
            leaves: &leaves,
            docs: &store.docs,
            dialect,
            is_filter: false,
        };
        let (expected, filtered) = (composed.evaluate(&within), composed.evaluate(&within.filter()));
        if random(3) == 0 {
            check_whole(&store, &query, &expected);
        }
        if dialect == Dialect::Todays {
            check_pruned(&store, &query, &expected, random);
        }
        check_sorted(&store, &query, &expected, &filtered, random);
        match random(4) {
            0 => check_counted(&store, &query, &expected, &filtered),
            1 => check_aggregated(&store, &query, &expected, &filtered),
            2 if dialect == Dialect::Todays => check_collapsed(&store, &query, &expected),
            _ => check_explained(&store, &query, &expected, random),
        }
    }
}

#[test]
fn composed_queries_find_what_their_clauses_say() {
    check_dialect(Dialect::Todays, "opensearch2");
}

#[test]
fn composed_queries_of_2015_find_what_their_clauses_say() {
    check_dialect(Dialect::Of2015, "es2");
}
