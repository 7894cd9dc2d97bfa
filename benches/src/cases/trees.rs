//! Directories: a move whatever is below it, queries and loading beside the mapping of 2015, memory and the start.
//!
//! `PLEACH_BENCH_FILES` is the number of files of the largest of three directories (1,000,000); the others have 1,000 and
//! 120,000. Ten files lie in each directory.
//!
//! Not here: whether moves are right (`tests/tests/trees.rs`).

use crate::commits::{bulk, put};
use crate::load::{Http, median, request};
use crate::postgres::Postgres;
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Instant;
use tests::Server;

/// Files of one directory.
const EACH: usize = 10;
/// Files of one bulk.
const BULK: usize = 5_000;
const SMALL: usize = 1_000;
const MIDDLE: usize = 120_000;
/// Moves of each size in one round.
const MOVES: usize = 40;

pub(super) fn trees(options: &Options, report: &mut Report) {
    let largest = std::env::var("PLEACH_BENCH_FILES").ok().and_then(|text| text.parse().ok());
    let sizes = [("small", SMALL), ("middle", MIDDLE), ("large", largest.unwrap_or(1_000_000))];
    let folder = super::folder();
    let server = super::started(folder.path());
    make_indices(&server);
    load(&server, &sizes, report);
    queries(options, &server, &sizes, report);
    moves(options, &server, &sizes, report);
    postgres(options, report);
    drop(server);
    memory(sizes[2].1, report);
}

fn make_indices(server: &Server) {
    let tree = json!({ "mappings": { "properties": { "path": { "type": "tree_path" }, "name": { "type": "keyword" } } } });
    let keyword = json!({ "type": "keyword", "fields": { "tree": { "type": "text", "analyzer": "paths" } } });
    let flat = json!({
        "settings": { "analysis": { "analyzer": { "paths": { "tokenizer": "path_hierarchy" } } } },
        "mappings": { "properties": { "path": keyword, "name": { "type": "keyword" } } },
    });
    put(server, "/tree", &tree.to_string());
    put(server, "/flat", &flat.to_string());
}

fn path_of(top: &str, n: usize) -> String {
    let dir = n / EACH;
    format!("/{top}/{}/{}/{dir}", dir % 100, dir / 100 % 100)
}

/// Loads both indices, a bulk in turns.
fn load(server: &Server, sizes: &[(&str, usize)], report: &mut Report) {
    let mut ratios = Vec::new();
    let mut rate = Vec::new();
    for (top, files) in sizes {
        for first in (0..*files).step_by(BULK) {
            let mut body = String::new();
            for n in first..(first + BULK).min(*files) {
                let _ = writeln!(
                    body,
                    "{{\"index\":{{\"_id\":\"{top}{n}\"}}}}\n{{\"path\":\"{}\",\"name\":\"file{n}.txt\"}}",
                    path_of(top, n)
                );
            }
            let mut times = [0.0; 2];
            for turn in 0..2 {
                let at = (turn + first / BULK) % 2;
                let begun = Instant::now();
                bulk(server, ["/tree/_bulk", "/flat/_bulk"][at], &body);
                times[at] = begun.elapsed().as_secs_f64();
            }
            ratios.push(times[1] / times[0]);
            rate.push(BULK as f64 / times[0]);
        }
    }
    report.row(
        "trees: load",
        &format!("{:.0} documents/s", median(rate)),
        "keyword and path_hierarchy",
        median(ratios),
        "",
        Bar::AtLeast(0.9),
    );
    for index in ["tree", "flat"] {
        let merged = server.send("POST", &format!("/{index}/_forcemerge?max_num_segments=1"), "");
        assert_eq!(merged.expect("the server answers").status, 200);
    }
}

/// The median of a request over rounds, in microseconds.
fn timed(http: &mut Http, requests: &[Vec<u8>]) -> f64 {
    let times = requests.iter().map(|one| {
        let begun = Instant::now();
        http.send(one);
        begun.elapsed().as_secs_f64() * 1e6
    });
    median(times.collect())
}

fn searches(index: &str, bodies: &[Value]) -> Vec<Vec<u8>> {
    let one = |body: &Value| {
        let mut out = Vec::new();
        request(
            &mut out,
            "POST",
            &format!("/{index}/_search?request_cache=false"),
            &body.to_string(),
        );
        out
    };
    bodies.iter().map(one).collect()
}

fn queries(options: &Options, server: &Server, sizes: &[(&str, usize)], report: &mut Report) {
    let mut http = Http::open(server.address(""));
    let count = |path: String| json!({ "size": 0, "track_total_hits": true, "query": { "term": { "path.tree": path } } });
    let page = |path: String| json!({ "size": 10, "query": { "term": { "path.tree": path } } });
    let large = sizes[2].0;
    let some = |f: &dyn Fn(String) -> Value, from: &str| (0..40).map(|n| f(format!("/{from}/{n}"))).collect::<Vec<_>>();
    let cases = [
        ("trees: path.tree, 1 % of the files", some(&count, large), 1.10),
        (
            "trees: path.tree, all directories below",
            vec![count(format!("/{large}")); 40],
            1.25,
        ),
        ("trees: page of 10 hits", some(&page, large), 1.10),
        (
            "trees: page of 10 hits in one directory",
            {
                let leaf = |n: usize| json!({ "size": 10, "query": { "term": { "path": path_of(large, n * 1000) } } });
                (0..40).map(leaf).collect()
            },
            1.10,
        ),
    ];
    for (name, bodies, bar) in cases {
        let (tree, flat) = (searches("tree", &bodies), searches("flat", &bodies));
        timed(&mut http, &tree);
        timed(&mut http, &flat);
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..options.rounds * 3 {
            let (one, other) = (timed(&mut http, &tree), timed(&mut http, &flat));
            ours.push(one);
            theirs.push(other);
            ratios.push(one / other);
        }
        report.row(
            name,
            &format!("p50 {:.0} µs", median(ours)),
            &format!("keyword and path_hierarchy p50 {:.0} µs", median(theirs)),
            median(ratios),
            "",
            Bar::AtMost(bar),
        );
    }
}

fn moves(options: &Options, server: &Server, sizes: &[(&str, usize)], report: &mut Report) {
    let mut http = Http::open(server.address(""));
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
    for _ in 0..options.rounds {
        for ((top, _), times) in sizes.iter().zip(&mut times) {
            for n in 0..MOVES {
                let (from, to) = match n % 2 {
                    0 => (format!("/{top}"), format!("/moved/{top}")),
                    _ => (format!("/moved/{top}"), format!("/{top}")),
                };
                times.push(move_directory(&mut http, &from, &to));
            }
        }
    }
    let smallest = median(times[0].clone());
    for ((_, files), times) in sizes.iter().zip(&times) {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let p99 = sorted[(sorted.len() * 99 / 100).min(sorted.len() - 1)];
        let p50 = median(times.clone());
        report.row(
            &format!("trees: move of {files} documents, p99"),
            &format!("p50 {p50:.2} ms"),
            "",
            p99,
            "ms",
            Bar::AtMost(2.0),
        );
        report.row(
            &format!("trees: move of {files} documents beside {SMALL}"),
            &format!("p50 {p50:.2} ms"),
            &format!("p50 {smallest:.2} ms"),
            p50 / smallest,
            "",
            Bar::AtMost(1.10),
        );
    }
}

/// Milliseconds of a move.
fn move_directory(http: &mut Http, from: &str, to: &str) -> f64 {
    http.timed("POST", "/tree/_tree/_move", &json!({ "from": from, "to": to }).to_string())
}

/// A way to keep paths in PostgreSQL.
struct Rows {
    name: &'static str,
    /// Makes the table `files` out of `paths`.
    table: &'static str,
    /// Moves `FROM` to `TO`.
    update: &'static str,
}

const ROWS: [Rows; 2] = [
    Rows {
        name: "UPDATE … LIKE",
        table: "create table files (id int primary key, path text not null); create index on files (path text_pattern_ops); \
                insert into files select id, '/' || path from paths",
        update: "update files set path = '/TO' || substr(path, length('/FROM') + 1) where path like '/FROM/%'",
    },
    Rows {
        name: "ltree",
        table: "create extension ltree; create table files (id int primary key, path ltree not null); \
                create index on files using gist (path); insert into files select id, replace(path, '/', '.')::ltree from paths",
        update: "update files set path = 'TO' || subpath(path, 1) where path <@ 'FROM'",
    },
];

/// The same move as an update of rows, where PostgreSQL is.
fn postgres(options: &Options, report: &mut Report) {
    let folder = super::folder();
    let Some(postgres) = Postgres::start(folder.path()) else {
        return say("PostgreSQL is not here: its move is left out");
    };
    let mut rows = String::from("create table paths (id int primary key, path text not null); insert into paths values ");
    for n in 0..MIDDLE {
        let path = path_of("middle", n);
        let _ = write!(rows, "{}({n},'{}')", if n == 0 { "" } else { "," }, &path[1..]);
    }
    postgres.execute(&rows);
    let own = folder.path().join("own");
    std::fs::create_dir(&own).expect("a folder is made");
    let server = super::started(&own);
    make_indices(&server);
    for first in (0..MIDDLE).step_by(BULK) {
        let mut body = String::new();
        for n in first..first + BULK {
            let _ = writeln!(body, "{{\"index\":{{}}}}\n{{\"path\":\"{}\"}}", path_of("middle", n));
        }
        bulk(&server, "/tree/_bulk", &body);
    }
    let mut http = Http::open(server.address(""));
    for kept_as in ROWS {
        postgres.execute(&format!("drop table if exists files; {}; analyze files", kept_as.table));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // Even, so that the directory has its first name again.
        for n in 0..options.rounds.next_multiple_of(2) {
            let (from, to) = if n % 2 == 0 {
                ("middle", "moved")
            } else {
                ("moved", "middle")
            };
            let begun = Instant::now();
            postgres.execute(&kept_as.update.replace("FROM", from).replace("TO", to));
            theirs.push(begun.elapsed().as_secs_f64() * 1e3);
            // PostgreSQL writes its pages out here: neither its own time nor that of our moves has them.
            postgres.execute("checkpoint");
            let (from, to) = (format!("/{from}"), format!("/{to}"));
            // Odd, so that the directory has its new name.
            for m in 0..MOVES + 1 - MOVES % 2 {
                let (from, to) = if m % 2 == 0 { (&from, &to) } else { (&to, &from) };
                ours.push(move_directory(&mut http, from, to));
            }
        }
        let (ours, theirs) = (median(ours), median(theirs));
        report.row(
            &format!("trees: move of {MIDDLE} files beside PostgreSQL, {}", kept_as.name),
            &format!("p50 {ours:.2} ms"),
            &format!("update of as many rows {theirs:.0} ms"),
            theirs / ours,
            "",
            Bar::AtLeast(200.0),
        );
    }
}

/// A directory each for as many documents: memory and the start.
fn memory(directories: usize, report: &mut Report) {
    let folder = super::folder();
    let mut server = super::started(folder.path());
    let idle = super::anonymous(&server);
    make_indices(&server);
    for first in (0..directories).step_by(BULK) {
        let mut body = String::new();
        for n in first..(first + BULK).min(directories) {
            let _ = writeln!(
                body,
                "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"path\":\"/{}/{}/{n}\"}}",
                n % 100,
                n / 100 % 100
            );
        }
        bulk(&server, "/tree/_bulk", &body);
    }
    let flushed = server.send("POST", "/tree/_flush", "").expect("the server answers");
    assert_eq!(flushed.status, 200);
    super::stop(&mut server);
    drop(server);
    let begun = Instant::now();
    let server = super::started(folder.path());
    let (started_ms, anonymous) = (begun.elapsed().as_secs_f64() * 1e3, super::anonymous(&server));
    let listed = server.send("GET", "/tree/_tree?size=0", "").expect("the server answers");
    assert_eq!(listed.body["total"].as_u64(), Some(directories as u64), "{}", listed.body);
    let both_ms = begun.elapsed().as_secs_f64() * 1e3;
    report.row(
        &format!("trees: start with {directories} directories"),
        &format!("with a first count of all documents {both_ms:.0} ms"),
        "",
        started_ms,
        "ms",
        Bar::AtMost(1000.0),
    );
    report.row(
        "trees: memory of a directory",
        "",
        &format!("idle {idle:.0} MB"),
        (anonymous - idle) * 1024.0 * 1024.0 / directories as f64,
        "bytes",
        Bar::AtMost(150.0),
    );
}
