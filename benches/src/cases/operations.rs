//! The cost of what an operator sets up: users and rights, snapshots while documents are written, metrics and logs.
//!
//! Each is measured beside a server without it, or the same server without it, in turns.
//!
//! Not here: TLS (the load generator speaks plain HTTP), whether rights and snapshots are right (`tests/`).

use super::{DOCUMENT, SETTINGS, TURN, fresh};
use crate::Options;
use crate::commits::{bulk, put};
use crate::load::{Compared, Http, Sample, compare, request, run, turns};
use crate::report::{Bar, Report};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::secured::{PASSWORD, Secured, basic};
use tests::{Server, send};

/// Documents of the index that is read, and of the one that snapshots take.
const DOCUMENTS: u64 = 100_000;
/// Values of the keyword that rights are told by. A role sees three of ten.
const TEAMS: u64 = 10;
/// How often metrics are asked for: fifteen times as often as a monitoring system does.
const SCRAPE_EACH: Duration = Duration::from_secs(1);
/// One segment: no merge goes on while something is measured.
const MERGE: &str = "/documents/_forcemerge?max_num_segments=1";
/// Clients that write while snapshots are taken.
const WRITERS: usize = 16;

pub(super) fn operations(options: &Options, report: &mut Report) {
    rights(options, report);
    metrics_and_logs(options, report);
    snapshots(options, report);
}

/// Bulk requests of all documents.
fn bodies() -> Vec<String> {
    let mut bodies = Vec::new();
    for from in (0..DOCUMENTS).step_by(1000) {
        let mut body = String::new();
        for n in from..from + 1000 {
            let document = json!({ "team": format!("t{}", n % TEAMS), "n": n, "text": format!("plain words and w{}", n % 1000) });
            let _ = writeln!(body, "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{document}");
        }
        bodies.push(body);
    }
    bodies
}

fn mapping() -> Value {
    json!({
        "settings": { "number_of_shards": 1, "number_of_replicas": 0 },
        "mappings": { "properties": { "team": { "type": "keyword" }, "text": { "type": "text" }, "n": { "type": "long" } } }
    })
}

fn load(server: &Server) {
    put(server, "/documents", &mapping().to_string());
    bodies().iter().for_each(|body| bulk(server, "/documents/_bulk", body));
    let merged = server.send("POST", MERGE, "").expect("the server answers");
    assert_eq!(merged.status, 200);
}

/// A request with an `Authorization`, if there is one.
fn request_as(out: &mut Vec<u8>, authorization: &str, method: &str, path: &str, body: &str) {
    request(out, method, path, body);
    if !authorization.is_empty() {
        let line = format!("authorization: {authorization}\r\n");
        let at = out.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
        out.splice(at..at, line.bytes());
    }
}

/// GET by id and a search, as a user with a role, beside a server without users.
fn rights(options: &Options, report: &mut Report) {
    let folder = super::folder();
    let open = super::started(folder.path());
    load(&open);
    let secured = Secured::start(&["opensearch2"], &[]);
    secured.admin("PUT", "/documents", mapping());
    for body in bodies() {
        let answer = secured.call("admin", "POST", "/documents/_bulk", &Value::String(body));
        assert_eq!(answer.body["errors"], false, "{answer:?}");
    }
    secured.admin("POST", MERGE, Value::Null);
    let seen = json!({ "terms": { "team": ["t1", "t4", "t7"] } });
    let indices = |query: Option<&Value>| {
        let mut entry = json!({ "names": ["documents"], "privileges": ["read"] });
        if let Some(query) = query {
            entry["query"] = query.clone();
        }
        json!({ "indices": [entry] })
    };
    secured.user("reader", &indices(None));
    secured.user("team", &indices(Some(&seen)));
    let as_user = |name: &str| basic(name, PASSWORD);
    let (reader, team) = (as_user("reader"), as_user("team"));
    let get = |authorization: String| {
        move |client: usize, n: u64, out: &mut Vec<u8>| {
            let id = (n * 7919 + client as u64 * 104_729) % DOCUMENTS;
            request_as(out, &authorization, "GET", &format!("/documents/_doc/{id}"), "");
        }
    };
    let search = |authorization: String, filter: Option<Value>| {
        move |client: usize, n: u64, out: &mut Vec<u8>| {
            let word = json!({ "match": { "text": format!("w{}", (n * 37 + client as u64 * 101) % 1000) } });
            let query = match &filter {
                Some(filter) => json!({ "bool": { "must": word, "filter": filter } }),
                None => word,
            };
            let body = json!({ "query": query }).to_string();
            request_as(out, &authorization, "POST", "/documents/_search", &body);
        }
    };
    let load = options.load(1);
    let addresses = (secured.server.address(""), open.address(""));
    let got = compare(
        options.rounds,
        load,
        (addresses.0, &get(reader)),
        (addresses.1, &get(String::new())),
    );
    row(report, "GET by id, a user with a role", "without users", &got, 1.05);
    let filtered = search(String::new(), Some(seen));
    let found = compare(
        options.rounds,
        load,
        (addresses.0, &search(team, None)),
        (addresses.1, &filtered),
    );
    row(
        report,
        "`match`, a role with a query",
        "the query as a filter, without users",
        &found,
        1.3,
    );
}

/// The p50 of one beside that of another.
fn row(report: &mut Report, case: &str, other: &str, seen: &Compared, most: f64) {
    report.row(
        &format!("operations: {case}, 1 client"),
        &format!("p50 {:.1} µs, p99 {:.0} µs", seen.ours.p50_us, seen.ours.p99_us),
        &format!("{other} p50 {:.1} µs", seen.theirs.p50_us),
        seen.p50,
        "",
        Bar::AtMost(most),
    );
}

/// Calls `again` on another thread until `work` is done.
fn beside<T>(again: &(dyn Fn() + Sync), work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                again();
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    })
}

/// GET by id with all logs of level `info` as JSON and metrics that are asked for, beside a server that logs errors alone.
fn metrics_and_logs(options: &Options, report: &mut Report) {
    let folder = super::folder();
    let data = |name: &str| folder.path().join(name);
    let watched = Server::start_with(&data("watched"), &["opensearch2"], &["log.level=info", "log.format=json"]);
    let quiet = Server::start_with(&data("quiet"), &["opensearch2"], &["log.level=error"]);
    [&watched, &quiet].into_iter().for_each(load);
    let slow = json!({ "index.search.slowlog.threshold.query.warn": "1s", "index.indexing.slowlog.threshold.index.warn": "1s" });
    put(&watched, "/documents/_settings", &slow.to_string());
    let get = |client: usize, n: u64, out: &mut Vec<u8>| {
        let id = (n * 7919 + client as u64 * 104_729) % DOCUMENTS;
        request(out, "GET", &format!("/documents/_doc/{id}"), "");
    };
    let scrape = || {
        let metrics = send(watched.address(""), "GET", "/_prometheus/metrics", &[], b"").expect("the server answers");
        assert_eq!(metrics.status, 200);
        std::thread::sleep(SCRAPE_EACH.min(Duration::from_secs_f64(options.secs)));
    };
    let with = || beside(&scrape, || run(watched.address(""), options.load(8), &get));
    let seen = turns(options.rounds, with, || run(quiet.address(""), options.load(8), &get));
    report.row(
        "operations: GET by id with metrics each second, logs and thresholds of slow logs, 8 clients",
        &format!("{:.0}/s", seen.ours.per_second),
        &format!("without {:.0}/s", seen.theirs.per_second),
        seen.rate,
        "",
        Bar::AtLeast(0.98),
    );
}

/// Durable PUT while one snapshot after the other is taken, each of all documents anew, beside the same without.
fn snapshots(options: &Options, report: &mut Report) {
    let folder = super::folder();
    let server = super::started(folder.path());
    load(&server);
    put(&server, "/bench", SETTINGS);
    let write = || -> Sample {
        let put_one = |client: usize, n: u64, out: &mut Vec<u8>| {
            if n == 0 {
                TURN.set(fresh());
            }
            let path = format!("/bench/_doc/{}-{client}-{n}", TURN.get());
            request(out, "PUT", &path, DOCUMENT);
        };
        run(server.address(""), options.load(WRITERS), &put_one)
    };
    let taken = std::sync::Mutex::new((0, Duration::ZERO));
    let take = || {
        let mut http = Http::open(server.address(""));
        let name = format!("r{}", fresh());
        let definition = json!({ "type": "fs", "settings": { "location": name } }).to_string();
        http.timed("PUT", &format!("/_snapshot/{name}"), &definition);
        let begun = Instant::now();
        let body = json!({ "indices": "documents" }).to_string();
        http.timed("PUT", &format!("/_snapshot/{name}/s?wait_for_completion=true"), &body);
        let ended = begun.elapsed();
        // A server has at most `repositories.max` of them.
        http.timed("DELETE", &format!("/_snapshot/{name}"), "");
        let mut taken = taken.lock().expect("no snapshot panicked");
        *taken = (taken.0 + 1, taken.1 + ended);
    };
    let seen = turns(options.rounds, || beside(&take, write), write);
    let (count, time) = *taken.lock().expect("no snapshot panicked");
    report.row(
        &format!("operations: durable PUT while snapshots are taken, {WRITERS} clients"),
        &format!(
            "{:.0}/s, p99 {:.0} µs, {count} snapshots of {DOCUMENTS} documents in {:.2} s each",
            seen.ours.per_second,
            seen.ours.p99_us,
            time.as_secs_f64() / f64::from(count)
        ),
        &format!("without {:.0}/s, p99 {:.0} µs", seen.theirs.per_second, seen.theirs.p99_us),
        seen.rate,
        "",
        Bar::AtLeast(0.85),
    );
}
