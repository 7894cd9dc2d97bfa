//! Every kind of search that the API has, beside a real server of the same API: each answers a class of `data/catalogue.json` in turns.
//!
//! Documents are commits with more fields: numbers, places, addresses, paths, ranges, nested files, completions. Classes are data: the name
//! of each with its body, in which words, names and numbers are drawn. No two requests are alike, so no answer comes from a cache of answers.
//! The bars are about the worst class and the middle one: a kind of search that is slower than elsewhere shows here.
//!
//! Not here: growth (`size`), relations (`relations`).

use super::peers::Peer;
use super::size::send;
use super::{folder, started};
use crate::commits;
use crate::load::{Http, compare, request};
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies of the commits unless `--copies` says otherwise.
const COPIES: usize = 12;
const BULK_DOCS: usize = 1_000;
/// The bar of each class: a share of the other server's p50.
const EACH: f64 = 1.0;
/// The bar of the middle one.
const MIDDLE: f64 = 0.5;

/// The words of a commit that a search is about.
struct Commit {
    words: Vec<String>,
    directory: String,
    name: String,
    author: String,
    repo: String,
}

/// Loads both servers, and asks.
pub(super) fn catalogue(options: &Options, report: &mut Report) {
    let Some(peer) = Peer::of(options) else {
        return say("skipped: give --peer NAME=HOST:PORT or --opensearch");
    };
    let theirs = peer.address();
    let folder = folder();
    let server = started(folder.path());
    let ours = server.address("");
    let documents = commits::all();
    for address in [ours, theirs] {
        load(address, &documents, options.copies.unwrap_or(COPIES));
    }
    let drawn: Vec<Commit> = documents.iter().step_by(397).filter_map(Commit::of).collect();
    let classes: Map<String, Value> =
        serde_json::from_str(include_str!("../../data/catalogue.json")).expect("the catalogue is JSON");
    let mut ratios = Vec::new();
    for (name, body) in classes.iter().filter(|(name, _)| name.contains(&options.only)) {
        let search = |_: usize, _: u64, out: &mut Vec<u8>| ask(body, &drawn, out);
        let seen = compare(options.rounds, options.load(1), (ours, &search), (theirs, &search));
        say(&format!(
            "{name:34} {:8.0} µs {:8.0} µs {:6.2}",
            seen.ours.p50_us, seen.theirs.p50_us, seen.p50
        ));
        ratios.push((name.as_str(), seen.p50));
    }
    if options.only.is_empty() {
        report_ratios(ratios, report);
    }
}

/// Reports the middle class, the classes that are slower than there, and the one that stands worst.
fn report_ratios(mut ratios: Vec<(&str, f64)>, report: &mut Report) {
    ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (middle, worst) = (ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    let classes = format!("{} classes", ratios.len());
    report.row(
        "catalogue: the class in the middle",
        middle.0,
        &classes,
        middle.1,
        "",
        Bar::AtMost(MIDDLE),
    );
    report.row(
        "catalogue: the class that stands worst",
        worst.0,
        &classes,
        worst.1,
        "",
        Bar::AtMost(EACH),
    );
    let slower = ratios.iter().filter(|(_, ratio)| *ratio > EACH).count();
    report.row(
        "catalogue: classes slower than there",
        "",
        &classes,
        slower as f64,
        "classes",
        Bar::AtMost(0.0),
    );
}

fn index() -> Value {
    let keyword = json!({ "type": "keyword" });
    json!({
        "settings": { "number_of_shards": 1, "number_of_replicas": 0,
            "analysis": { "analyzer": { "paths": { "tokenizer": "path_hierarchy" } } } },
        "mappings": { "properties": {
            "subject": { "type": "text", "fields": { "raw": keyword } },
            "author": { "properties": { "id": keyword, "name": { "type": "text" } } },
            "repo": keyword, "date": { "type": "date", "format": "epoch_second" },
            "n": { "type": "integer" }, "price": { "type": "double" }, "flag": { "type": "boolean" },
            "loc": { "type": "geo_point" }, "ip": { "type": "ip" }, "span": { "type": "integer_range" },
            "path": { "type": "keyword", "fields": { "tree": { "type": "text", "analyzer": "paths", "search_analyzer": "keyword" } } },
            "tags": keyword, "sug": { "type": "completion" },
            "files": { "type": "nested", "properties": {
                "dir": keyword, "name": keyword, "ext": keyword, "status": keyword, "size": { "type": "integer" } } }
        } }
    })
}

fn load(address: &str, documents: &[Value], copies: usize) {
    let mut http = Http::open(address);
    send(&mut http, "PUT", "/catalogue", &index().to_string());
    for copy in 0..copies {
        for (part, commits) in documents.chunks(BULK_DOCS).enumerate() {
            let mut lines = String::new();
            for (n, commit) in commits.iter().enumerate() {
                let id = (copy * documents.len() + part * BULK_DOCS + n) as u64;
                let _ = writeln!(lines, "{{\"index\":{{\"_id\":\"{id}\"}}}}\n{}", document(commit, id));
            }
            let answer = send(&mut http, "POST", "/catalogue/_bulk", &lines);
            assert_eq!(answer["errors"], false, "a bulk is refused");
        }
    }
    send(&mut http, "POST", "/catalogue/_refresh", "");
}

/// A commit with values that its number scatters.
fn document(commit: &Value, id: u64) -> Value {
    let random = id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let files = commit["files"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nested: Vec<Value> = files
        .iter()
        .take(4)
        .zip(0..)
        .map(|(file, at)| {
            let mut file = file.clone();
            file["size"] = json!((random >> at) % 5_000);
            file
        })
        .map(|mut file| {
            file.as_object_mut().map(|file| file.remove("path"));
            file
        })
        .collect();
    let first = files.first().unwrap_or(&Value::Null);
    let mut tags: Vec<String> = files.iter().map(|file| text(&file["ext"])).collect();
    tags.sort();
    tags.dedup();
    let subject = text(&commit["subject"]);
    let input: String = subject.chars().take(40).collect();
    let mut all = json!({
        "subject": subject, "author": { "id": commit["author"]["id"], "name": commit["author"]["name"] },
        "repo": commit["repo"], "date": commit["date"].as_u64().unwrap_or_default() + random % 30_000,
        "n": commit["n_files"], "price": (random % 1_000_003) as f64 / 100.0, "flag": random.is_multiple_of(3),
        "loc": { "lat": (random % 180_000) as f64 / 1_000.0 - 90.0, "lon": (random / 7 % 360_000) as f64 / 1_000.0 - 180.0 },
        "ip": format!("10.{}.{}.{}", random % 256, random / 256 % 256, random / 65_536 % 256),
        "span": { "gte": random % 1_000, "lte": random % 1_000 + random % 50 },
        "path": format!("/{}{}/{}", text(&commit["repo"]), text(&first["dir"]), text(&first["name"])),
        "tags": tags, "files": nested,
    });
    if !input.trim().is_empty() {
        all["sug"] = json!({ "input": [input], "weight": random % 100 });
    }
    all
}

impl Commit {
    fn of(commit: &Value) -> Option<Commit> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let subject = text(&commit["subject"])?;
        let words = subject.split_whitespace();
        let plain = |word: &str| {
            word.chars()
                .filter(|c| c.is_alphanumeric())
                .collect::<String>()
                .to_lowercase()
        };
        let words: Vec<String> = words.map(plain).filter(|word| word.len() > 2).collect();
        (words.len() > 3).then_some(Commit {
            words,
            directory: text(&commit["files"][0]["dir"])?,
            name: text(&commit["files"][0]["name"])?,
            author: text(&commit["author"]["id"])?,
            repo: text(&commit["repo"])?,
        })
    }

    fn beginning(&self, word: usize) -> String {
        self.words[word].chars().take(3).collect()
    }

    /// A text of a class with the words of this commit.
    fn fill(&self, text: &str, n: usize) -> Value {
        if let Some(number) = text.strip_prefix('@').and_then(|range| drawn_number(range, n)) {
            return number.into();
        }
        let filled = text
            .replace("{word}", &self.words[0])
            .replace("{word2}", &self.words[1])
            .replace("{word3}", &self.words[2])
            .replace("{word4}", &self.words[3])
            .replace("{pre}", &self.beginning(0))
            .replace("{pre2}", &self.beginning(1))
            .replace("{dir}", &self.directory)
            .replace("{name}", &self.name)
            .replace("{author}", &self.author)
            .replace("{repo}", &self.repo);
        let Some((before, rest)) = filled.split_once("{@") else {
            return filled.into();
        };
        let (range, behind) = rest.split_once('}').unwrap_or((rest, ""));
        let number = drawn_number(range, n).unwrap_or_default();
        format!("{before}{number}{behind}").into()
    }

    fn fill_all(&self, body: &Value, n: usize) -> Value {
        match body {
            Value::String(text) => self.fill(text, n),
            Value::Array(items) => items.iter().map(|item| self.fill_all(item, n)).collect(),
            Value::Object(parts) => {
                let parts = parts.iter().map(|(name, part)| (name.clone(), self.fill_all(part, n)));
                Value::Object(parts.collect())
            }
            other => other.clone(),
        }
    }
}

/// `LOW+STEP*COUNT`: the number of a request among `COUNT`.
fn drawn_number(range: &str, n: usize) -> Option<u64> {
    let (low, rest) = range.split_once('+')?;
    let (step, count) = rest.split_once('*')?;
    let [low, step, count] = [low, step, count].map(|text| text.parse::<u64>().ok());
    Some(low? + step? * (n as u64 % count?))
}

/// A search that nobody has sent before.
fn ask(body: &Value, drawn: &[Commit], out: &mut Vec<u8>) {
    static SENT: AtomicUsize = AtomicUsize::new(0);
    let n = SENT.fetch_add(1, Ordering::Relaxed);
    let mut body = drawn[n % drawn.len()].fill_all(body, n);
    if body.get("suggest").is_none() {
        let query = body.get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} }));
        let unlike = format!("none-{n}");
        body["query"] = json!({ "bool": { "must": query, "must_not": { "term": { "repo": unlike } } } });
    }
    request(out, "POST", "/catalogue/_search?request_cache=false", &body.to_string());
}
