//! The same searches over growing copies of the same documents, beside a real server of the same API.
//!
//! Flat commits are loaded once, ten times and a hundred times (`--copies`), by two connections for each server, one server after
//! the other. After each of these sizes both servers answer every class of searches in turns, for one client and for eight. At the end
//! sixteen clients send all classes while two load. No two requests are alike, so no answer comes from a cache of answers.
//!
//! Not here: small indices in all their shapes (`peers`, `relations`).

use super::peers::Peer;
use super::{folder, started};
use crate::commits;
use crate::load::{Http, Sample, compare, request, run, turns};
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Copies of the commits unless `--copies` says otherwise.
const COPIES: usize = 100;
/// Connections that load a server.
const LOADERS: usize = 2;
/// Documents of a bulk request.
const BULK_DOCS: usize = 2000;
/// The bar of searches that may be pruned: a share of the other server's p50.
const PRUNED: f64 = 0.3;
/// The bar of all others.
const WHOLE: f64 = 0.5;
/// The bar of the slowest hundredth of every class.
const SLOWEST: f64 = 0.5;
/// Ten times the documents may take a pruned class so many times as long.
const GROWTH: f64 = 2.5;
/// Clients that search while two connections load.
const SEARCHERS: usize = 16;

/// A kind of search: its name, its bar, its body without what makes a request unlike any other.
pub(super) struct Class {
    pub(super) name: &'static str,
    bar: f64,
    body: Value,
}

/// Both servers, and how many copies they have.
struct Field<'a> {
    ours: &'a str,
    theirs: &'a str,
    documents: &'a [Value],
    copies: usize,
    /// Copies that were loaded while others searched: their ids and dates follow those of the sizes.
    extra: AtomicUsize,
}

/// The figures of a class.
struct ClassFigures {
    p50_us: f64,
    /// Ours of theirs.
    p99: f64,
}

/// Loads and asks at each size.
pub(super) fn size(options: &Options, report: &mut Report) {
    let Some(peer) = Peer::of(options) else {
        return say("skipped: give --peer NAME=HOST:PORT or --opensearch");
    };
    let folder = folder();
    let server = started(folder.path());
    let documents = commits::flat();
    let mut field = Field {
        ours: server.address(""),
        theirs: peer.address(),
        documents: &documents,
        copies: 0,
        extra: AtomicUsize::new(1_000),
    };
    let index = commits::flat_index().to_string();
    for address in [field.ours, field.theirs] {
        send(&mut Http::open(address), "PUT", "/size", &index);
    }
    let classes = classes(&documents);
    let mut before = Vec::new();
    for copies in [1, 10, 100, 400]
        .into_iter()
        .filter(|copies| *copies <= options.copies.unwrap_or(COPIES))
    {
        field.load(copies, report);
        for clients in [1, 8] {
            let figures: Vec<ClassFigures> = classes
                .iter()
                .map(|class| field.ask(class, clients, options, report))
                .collect();
            let slowest = classes.iter().zip(&figures).max_by(|a, b| a.1.p99.total_cmp(&b.1.p99));
            let (class, of_slowest) = slowest.expect("there are classes");
            let name = format!("size {} c{clients}: p99 of the class that stands worst", field.count());
            report.row(&name, class.name, "", of_slowest.p99, "", Bar::AtMost(SLOWEST));
            if clients == 1 {
                report_growth(&field, &classes, (&before, &figures), report);
                before = figures;
            }
        }
    }
    let segments = send(
        &mut Http::open(field.ours),
        "GET",
        "/_cat/segments/size?h=segment&format=json",
        "",
    );
    let count = segments.as_array().map_or(0, Vec::len);
    report.row(
        &format!("size {}: segments", field.count()),
        "",
        "",
        count as f64,
        "segments",
        Bar::AtMost(12.0),
    );
    field.search_while_loading(&classes, options, report);
}

/// Loads copies of documents by two connections, and refreshes; answers documents a second.
pub(super) fn load_copies(address: &str, documents: &[Value], copies: Range<usize>) -> f64 {
    let begun = Instant::now();
    let next = AtomicUsize::new(copies.start);
    std::thread::scope(|scope| {
        for _ in 0..LOADERS {
            scope.spawn(|| {
                let mut http = Http::open(address);
                loop {
                    let copy = next.fetch_add(1, Ordering::Relaxed);
                    if copy >= copies.end {
                        return;
                    }
                    for (n, part) in documents.chunks(BULK_DOCS).enumerate() {
                        let answer = send(&mut http, "POST", "/size/_bulk", &lines(part, n, copy));
                        assert_eq!(answer["errors"], false, "a bulk is refused");
                    }
                }
            });
        }
    });
    let rate = (copies.len() * documents.len()) as f64 / begun.elapsed().as_secs_f64();
    send(&mut Http::open(address), "POST", "/size/_refresh", "");
    rate
}

impl Field<'_> {
    fn count(&self) -> usize {
        self.copies * self.documents.len()
    }

    /// Brings both servers to so many copies.
    fn load(&mut self, copies: usize, report: &mut Report) {
        let new = self.copies..copies;
        let rate = |address: &str| load_copies(address, self.documents, new.clone());
        let (ours, theirs) = (rate(self.ours), rate(self.theirs));
        self.copies = copies;
        report.row(
            &format!("size {}: load", self.count()),
            &format!("{ours:.0} documents/s"),
            &format!("{theirs:.0}/s"),
            ours / theirs,
            "",
            Bar::AtLeast(2.0),
        );
    }

    /// Asks both servers in turns.
    fn ask(&self, class: &Class, clients: usize, options: &Options, report: &mut Report) -> ClassFigures {
        let search = |_: usize, _: u64, out: &mut Vec<u8>| class.search(out);
        let seen = compare(
            options.rounds,
            options.load(clients),
            (self.ours, &search),
            (self.theirs, &search),
        );
        let figures = |p50: f64, p99: f64| format!("p50 {p50:.0} µs, p99 {p99:.0} µs");
        report.row(
            &format!("size {} c{clients}: {}", self.count(), class.name),
            &figures(seen.ours.p50_us, seen.ours.p99_us),
            &figures(seen.theirs.p50_us, seen.theirs.p99_us),
            seen.p50,
            "",
            Bar::AtMost(class.bar),
        );
        ClassFigures {
            p50_us: seen.ours.p50_us,
            p99: seen.ours.p99_us / seen.theirs.p99_us,
        }
    }

    /// Sends searches of all classes to one server after the other, each while it is loaded.
    fn search_while_loading(&self, classes: &[Class], options: &Options, report: &mut Report) {
        let next = AtomicUsize::new(0);
        let search = |_: usize, _: u64, out: &mut Vec<u8>| {
            let n = next.fetch_add(1, Ordering::Relaxed);
            classes[n % classes.len()].search(out);
        };
        let side = |address: &str| {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..LOADERS {
                    scope.spawn(|| self.load_until(address, &done));
                }
                let sample = run(address, options.load(SEARCHERS), &search);
                done.store(true, Ordering::Relaxed);
                sample
            })
        };
        let seen = turns(options.rounds, || side(self.ours), || side(self.theirs));
        let figures = |sample: Sample| format!("p50 {:.0} µs, p99 {:.0} µs", sample.p50_us, sample.p99_us);
        report.row(
            &format!("size {} c{SEARCHERS} while {LOADERS} load: p99", self.count()),
            &figures(seen.ours),
            &figures(seen.theirs),
            seen.ours.p99_us / seen.theirs.p99_us,
            "",
            Bar::AtMost(SLOWEST),
        );
    }

    /// Sends bulks of new documents until others have done.
    fn load_until(&self, address: &str, done: &AtomicBool) {
        let mut http = Http::open(address);
        while !done.load(Ordering::Relaxed) {
            let copy = self.extra.fetch_add(1, Ordering::Relaxed);
            for (n, part) in self.documents.chunks(BULK_DOCS).enumerate() {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let answer = send(&mut http, "POST", "/size/_bulk", &lines(part, n, copy));
                assert_eq!(answer["errors"], false, "a bulk is refused");
            }
        }
    }
}

impl Class {
    /// A search of this class that nobody has sent before.
    pub(super) fn search(&self, out: &mut Vec<u8>) {
        static SENT: AtomicUsize = AtomicUsize::new(0);
        let unlike = format!("none-{}", SENT.fetch_add(1, Ordering::Relaxed));
        let mut body = self.body.clone();
        let query = body.get("query").cloned().unwrap_or_else(|| json!({ "match_all": {} }));
        body["query"] = json!({ "bool": { "must": query, "must_not": { "term": { "repo": unlike } } } });
        request(out, "POST", "/size/_search?request_cache=false", &body.to_string());
    }
}

/// Reports the pruned class whose p50 grew most since the size before. The first size has none before it.
fn report_growth(field: &Field<'_>, classes: &[Class], (before, now): (&[ClassFigures], &[ClassFigures]), report: &mut Report) {
    let growth = |(before, now): (&ClassFigures, &ClassFigures)| now.p50_us / before.p50_us;
    let all = classes.iter().zip(before.iter().zip(now).map(growth));
    let pruned = all.filter(|(class, _)| class.bar == PRUNED);
    let Some((class, most)) = pruned.max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return;
    };
    let name = format!("size {}: the pruned class that grew most", field.count());
    report.row(
        &name,
        class.name,
        "p50 at the size before",
        most,
        "times",
        Bar::AtMost(GROWTH),
    );
}

pub(super) fn send(http: &mut Http, method: &str, path: &str, body: &str) -> Value {
    let mut out = Vec::new();
    request(&mut out, method, path, body);
    serde_json::from_slice(http.send(&out)).unwrap_or_default()
}

/// Lines of a bulk request: documents of a copy, whose dates differ by a second from those of the copy before.
fn lines(documents: &[Value], part: usize, copy: usize) -> String {
    let mut out = String::new();
    for (n, document) in documents.iter().enumerate() {
        let id = part * BULK_DOCS + n;
        let mut document = document.clone();
        document["date"] = json!(document["date"].as_u64().unwrap_or_default() + copy as u64);
        let _ = writeln!(out, "{{\"index\":{{\"_id\":\"{id}-{copy}\"}}}}\n{document}");
    }
    out
}

pub(super) fn classes(documents: &[Value]) -> Vec<Class> {
    let subject = |text: &str| json!({ "match": { "subject": text } });
    let repo = &documents[documents.len() / 2]["repo"];
    let years = json!({ "range": { "date": { "gte": 1_500_000_000, "lt": 1_600_000_000 } } });
    let both = json!({ "match": { "subject": { "query": "add test", "operator": "and" } } });
    let phrase = |text: &str| json!({ "query": { "match_phrase": { "subject": text } } });
    let by_author = json!({ "terms": { "field": "author_id" } });
    let months = json!({ "date_histogram": { "field": "date", "calendar_interval": "month" } });
    let mean = json!({ "terms": { "field": "repo" }, "aggs": { "s": { "avg": { "field": "n" } } } });
    let top_hits = json!({ "terms": { "field": "repo", "order": { "m": "desc" } }, "aggs": {
        "m": { "max": { "script": { "source": "_score" } } }, "t": { "top_hits": { "size": 2, "_source": ["subject"] } } } });
    let distinct = json!({ "cardinality": { "field": "author_id" } });
    let agg = |query: Value, agg: Value| json!({ "size": 0, "query": query, "aggs": { "a": agg } });
    let filtered = |text: &str, filter: Value| json!({ "query": { "bool": { "must": subject(text), "filter": filter } } });
    let rows = [
        ("term", PRUNED, json!({ "query": subject("fix") })),
        ("and", PRUNED, json!({ "query": both })),
        ("or", PRUNED, json!({ "query": subject("merge branch release") })),
        ("phrase", PRUNED, phrase("pull request")),
        ("phrase, rare", PRUNED, phrase("race condition")),
        (
            "sort by date",
            PRUNED,
            json!({ "query": subject("update"), "sort": [{ "date": "desc" }] }),
        ),
        ("sort all by date", PRUNED, json!({ "sort": [{ "date": "desc" }] })),
        (
            "sort by keyword and number",
            PRUNED,
            json!({ "query": subject("fix"), "sort": [{ "repo": "asc" }, { "n": "desc" }] }),
        ),
        ("filter", PRUNED, filtered("test", json!({ "term": { "repo": repo } }))),
        ("range filter", PRUNED, filtered("add", years.clone())),
        ("prefix", WHOLE, json!({ "query": { "prefix": { "author_id": "a" } } })),
        ("page 100", PRUNED, json!({ "query": subject("fix"), "from": 1000 })),
        (
            "all hits counted",
            WHOLE,
            json!({ "query": subject("fix"), "track_total_hits": true }),
        ),
        ("terms agg", WHOLE, agg(subject("add"), by_author.clone())),
        ("date histogram", WHOLE, agg(subject("fix"), months.clone())),
        ("terms agg with avg, all", WHOLE, agg(json!({ "match_all": {} }), mean)),
        ("terms, max of score, top hits", WHOLE, agg(subject("fix"), top_hits)),
        (
            "collapse",
            WHOLE,
            json!({ "query": subject("fix"), "collapse": { "field": "author_id" } }),
        ),
        ("cardinality", WHOLE, agg(subject("add"), distinct)),
        (
            "hits with a terms agg",
            WHOLE,
            json!({ "query": subject("add"), "aggs": { "a": by_author } }),
        ),
        (
            "newest of a range with a date histogram",
            WHOLE,
            json!({ "query": years, "sort": [{ "date": "desc" }], "aggs": { "a": months } }),
        ),
    ];
    rows.into_iter().map(|(name, bar, body)| Class { name, bar, body }).collect()
}
