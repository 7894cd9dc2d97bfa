//! What each way of relating documents costs, beside the flat query of the same term, in one run.
//!
//! All commits with their files lie in three shapes: nested, parents and children, two indices. A class is a list of
//! requests, each asked once a round; classes take turns, a figure is the median over rounds of the ratio of medians.
//! `--copies N` loads all of them so many times, under ids of their own.
//!
//! Not here: the same questions beside another server (`peers`).

use crate::commits::{self, bulk, put};
use crate::load::{Http, median, request};
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Instant;
use tests::Server;

/// Requests of one kind; an operation may be several, one after the other.
struct Class {
    name: &'static str,
    operations: Vec<Vec<Vec<u8>>>,
}

/// How many requests a class has.
const QUESTIONS: usize = 40;
/// Ids that travel in a two-step join.
const IDS: usize = 10_000;

impl Class {
    fn new(name: &'static str, operations: Vec<Vec<(String, Value)>>) -> Class {
        let one = |(path, body): (String, Value)| {
            let mut out = Vec::new();
            request(&mut out, "POST", &path, &body.to_string());
            out
        };
        let operations = operations.into_iter().map(|list| list.into_iter().map(one).collect());
        Class {
            name,
            operations: operations.collect(),
        }
    }
    /// The median over its operations, in microseconds.
    fn once(&self, http: &mut Http) -> f64 {
        let times = self.operations.iter().map(|requests| {
            let begun = Instant::now();
            for one in requests {
                http.send(one);
            }
            begun.elapsed().as_secs_f64() * 1e6
        });
        median(times.collect())
    }
}

pub(super) fn relations(options: &Options, report: &mut Report) {
    let folder = super::folder();
    let server = super::started(folder.path());
    let drawn = load(&server, options.copies.unwrap_or(1));
    let mut http = Http::open(server.address(""));
    http.timed("POST", "/_forcemerge?max_num_segments=1", "");
    let page = |query: Value| json!({ "size": 10, "_source": false, "query": query });
    let single = |index: &str, body: Value| vec![(format!("/{index}/_search"), body)];
    let each = |f: &dyn Fn(&Question) -> Vec<(String, Value)>| drawn.iter().map(f).collect::<Vec<_>>();
    let dir = |prefix: &str, q: &Question| json!({ "term": { format!("{prefix}dir"): q.dir } });
    let said = |q: &Question| json!({ "match": { "subject": q.word } });
    let classes = [
        Class::new("flat term", each(&|q| single("files", page(dir("", q))))),
        Class::new(
            "nested",
            each(&|q| {
                single(
                    "nested",
                    page(json!({ "nested": { "path": "files", "query": dir("files.", q) } })),
                )
            }),
        ),
        Class::new(
            "has_child",
            each(&|q| {
                single(
                    "family",
                    page(json!({ "has_child": { "type": "file", "query": dir("", q) } })),
                )
            }),
        ),
        Class::new(
            "has_parent",
            each(&|q| {
                single(
                    "family",
                    page(json!({ "has_parent": { "parent_type": "commit", "query": said(q) } })),
                )
            }),
        ),
        Class::new("flat match", each(&|q| single("commits", page(said(q))))),
        Class::new(
            "collapse",
            each(&|q| {
                let mut body = page(said(q));
                body["collapse"] = json!({ "field": "by", "inner_hits": { "name": "of", "size": 3, "_source": false } });
                single("commits", body)
            }),
        ),
        Class::new(
            "terms and top_hits",
            each(&|q| {
                let mut body = page(said(q));
                body["size"] = 0.into();
                let top = json!({ "top_hits": { "size": 3, "_source": false } });
                body["aggs"] = json!({ "by": { "terms": { "field": "by" }, "aggs": { "top": top } } });
                single("commits", body)
            }),
        ),
    ];
    for class in &classes {
        class.once(&mut http);
    }
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); classes.len()];
    for _ in 0..options.rounds * 3 {
        for (class, times) in classes.iter().zip(&mut times) {
            times.push(class.once(&mut http));
        }
    }
    for (what, beside, bar) in [
        (1, 0, 2.0), // nested beside flat
        (2, 1, 2.0),
        (3, 1, 2.0),
        (5, 4, 3.0),
        (6, 4, 3.0),
    ] {
        compared(
            report,
            classes[what].name,
            &times[what],
            classes[beside].name,
            &times[beside],
            bar,
        );
    }
    after_refresh(options, report, &classes[2], &mut http);
    two_steps(options, report, &server, &mut http);
    many_keys(options, report, &mut http);
}

fn compared(report: &mut Report, name: &str, ours: &[f64], beside: &str, theirs: &[f64], bar: f64) {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs);
    report.row(
        &format!("relations: {name}"),
        &format!("p50 {:.0} µs", median(ours.to_vec())),
        &format!("{beside} p50 {:.0} µs", median(theirs.to_vec())),
        median(ratios.collect()),
        "",
        Bar::AtMost(bar),
    );
}

/// The first of each question after a write with a refresh, beside the same again: at once, and after nothing but a pause as
/// long as the write took. Who asks has written, by the same connection. The pause tells what the machine makes of it that
/// client and server slept meanwhile from what the refresh makes of it.
fn after_refresh(options: &Options, report: &mut Report, class: &Class, http: &mut Http) {
    let (mut first, mut warm, mut rested) = (Vec::new(), Vec::new(), Vec::new());
    let mut write = Vec::new();
    for (n, requests) in class.operations.iter().take(8 * options.rounds).enumerate() {
        let ask = |http: &mut Http| {
            let begun = Instant::now();
            for one in requests {
                http.send(one);
            }
            begun.elapsed().as_secs_f64() * 1e6
        };
        let child = r#"{"rel":{"name":"file","parent":"none"},"dir":"/"}"#;
        let path = format!("/family/_doc/new{n}?routing=r&refresh=true");
        request(&mut write, "PUT", &path, child);
        let begun = Instant::now();
        http.send(&write);
        let paused = begun.elapsed();
        first.push(ask(http));
        for _ in 0..3 {
            warm.push(ask(http));
            std::thread::sleep(paused);
            rested.push(ask(http));
        }
    }
    let (first, warm, rested) = (median(first), median(warm), median(rested));
    let name = "has_child, first after a refresh";
    compared(report, name, &[first], "warm", &[warm], 1.5);
    let name = "has_child, first after a refresh (rested)";
    compared(report, name, &[first], "warm, after as long a pause", &[rested], 1.5);
}

/// A join in one request beside the two requests of an application: the ids, then terms with them.
fn two_steps(options: &Options, report: &mut Report, server: &Server, http: &mut Http) {
    let newest = json!({ "range": { "n": { "lt": IDS } } });
    let ids = json!({ "size": IDS, "_source": false, "query": newest, "sort": ["_doc"] });
    let found = server
        .send("POST", "/commits/_search", &ids.to_string())
        .expect("the server answers");
    let hits = found.body["hits"]["hits"].as_array().cloned().unwrap_or_default();
    assert_eq!(hits.len(), IDS, "{}", found.body["hits"]["total"]);
    let ids_found: Vec<Value> = hits.iter().map(|hit| hit["_id"].clone()).collect();
    let page = |query: Value| json!({ "size": 10, "_source": false, "track_total_hits": true, "query": query });
    let join = page(json!({ "join": { "index": "commits", "on": { "commit": "_id" }, "query": newest } }));
    let terms = page(json!({ "terms": { "commit": ids_found } }));
    let one = Class::new("", vec![vec![("/files/_search".to_owned(), join)]]);
    let two = Class::new(
        "",
        vec![vec![
            ("/commits/_search".to_owned(), ids),
            ("/files/_search".to_owned(), terms),
        ]],
    );
    let (mut together, mut apart) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds * 5 + 1 {
        together.push(one.once(http));
        apart.push(two.once(http));
    }
    // The first of each warms.
    compared(
        report,
        "two-step join, 10,000 ids, in one request",
        &together[1..],
        "its parts as two requests",
        &apart[1..],
        1.5,
    );
}

/// A join of 100,000 keys, which meet the documents of another index.
fn many_keys(options: &Options, report: &mut Report, http: &mut Http) {
    let keys = json!({ "range": { "n": { "lt": 100_000 } } });
    let body = json!({ "size": 10, "_source": false, "query":
        { "join": { "index": "files", "on": { "_id": "_id" }, "query": keys } } });
    let join = Class::new("", vec![vec![("/commits/_search".to_owned(), body)]]);
    join.once(http);
    let times: Vec<f64> = (0..options.rounds * 5).map(|_| join.once(http) / 1000.0).collect();
    report.row(
        "relations: join of 100,000 keys",
        "",
        "",
        median(times),
        "ms",
        Bar::AtMost(40.0),
    );
}

/// A word of a commit and the folder of one of its files.
struct Question {
    word: String,
    dir: String,
}

/// Loads all shapes; answers what to ask.
fn load(server: &Server, copies: usize) -> Vec<Question> {
    let keyword = json!({ "type": "keyword" });
    let whole = json!({ "type": "integer" });
    let leaf = json!({ "dir": keyword, "ext": keyword, "status": keyword, "name": keyword, "path": keyword });
    let subject = json!({ "type": "text" });
    let mut family = leaf.clone();
    family["rel"] = json!({ "type": "join", "relations": { "commit": "file" } });
    family["subject"] = subject.clone();
    let mut apart = leaf.clone();
    apart["commit"] = keyword.clone();
    apart["n"] = whole.clone();
    let nested = json!({ "subject": subject, "files": { "type": "nested", "properties": leaf } });
    for (index, properties) in [
        ("nested", nested),
        ("family", family),
        ("commits", json!({ "subject": subject, "by": keyword, "n": whole })),
        ("files", apart),
    ] {
        let body = json!({ "settings": { "number_of_shards": 1, "number_of_replicas": 0 },
            "mappings": { "dynamic": false, "properties": properties } });
        put(server, &format!("/{index}"), &body.to_string());
    }
    let mut drawn = Vec::new();
    let (mut commit_no, mut file_no) = (0usize, 0usize);
    let parts = commits::bulks();
    for (copy, part) in (0..copies).flat_map(|copy| parts.iter().map(move |part| (copy, part))) {
        let mut out = String::new();
        let mut lines = part.lines();
        while let (Some(action), Some(source)) = (lines.next(), lines.next()) {
            let action: Value = serde_json::from_str(action).expect("actions are JSON");
            let source: Value = serde_json::from_str(source).expect("commits are JSON");
            let id = action["index"]["_id"].as_str().unwrap_or_default();
            let id = if copy == 0 { id.to_owned() } else { format!("{id}-{copy}") };
            let text = source["subject"].as_str().unwrap_or_default();
            let files = source["files"].as_array().cloned().unwrap_or_default();
            let mut add = |at: Value, doc: Value| {
                let _ = writeln!(out, "{}\n{doc}", json!({ "index": at }));
            };
            add(
                json!({ "_index": "nested", "_id": id }),
                json!({ "subject": text, "files": files }),
            );
            let of_commit = json!({ "subject": text, "rel": "commit" });
            add(json!({ "_index": "family", "_id": id, "routing": id }), of_commit);
            let own = json!({ "subject": text, "by": source["author"]["id"], "n": commit_no });
            add(json!({ "_index": "commits", "_id": id }), own);
            for (n, file) in files.iter().enumerate() {
                let file_id = format!("{id}:{n}");
                let mut child = file.clone();
                child["rel"] = json!({ "name": "file", "parent": id });
                add(json!({ "_index": "family", "_id": file_id, "routing": id }), child);
                let mut other = file.clone();
                other["commit"] = json!(id);
                other["n"] = file_no.into();
                add(json!({ "_index": "files", "_id": file_id }), other);
                file_no += 1;
            }
            if copy == 0
                && commit_no.is_multiple_of(commits::COUNT / QUESTIONS)
                && let (Some(word), Some(file)) = (text.split_whitespace().next(), files.first())
            {
                drawn.push(Question {
                    word: word.to_owned(),
                    dir: file["dir"].as_str().unwrap_or_default().to_owned(),
                });
            }
            commit_no += 1;
        }
        bulk(server, "/_bulk", &out);
    }
    say(&format!("{commit_no} commits with {file_no} files"));
    let done = server.send("POST", "/_refresh", "").expect("the server answers");
    assert_eq!(done.status, 200, "{:?}", done.body);
    drawn
}
