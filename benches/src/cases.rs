//! What is measured, one function a name.

use crate::commits::{self, bulk, put};
use crate::floor::Floor;
use crate::load::{Load, compare, median, request, run};
use crate::report::{Bar, Report};
use crate::{Options, say};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::Server;

mod catalogue;
mod changes;
mod feed;
mod in_process;
mod links;
mod millions;
mod operations;
mod peers;
mod relations;
mod size;
mod trees;

/// Every bench by name.
pub(crate) const ALL: &[(&str, fn(&Options, &mut Report))] = &[
    ("write", write),
    ("get", get),
    ("start", start),
    ("memory", memory),
    ("many", many),
    ("changes", changes::changes),
    ("feed", feed::feed),
    ("links", links::links),
    ("operations", operations::operations),
    ("relations", relations::relations),
    ("trees", trees::trees),
    ("peers", peers::peers),
    ("size", size::size),
    ("catalogue", catalogue::catalogue),
    ("in_process", in_process::in_process),
    ("millions", millions::millions),
];

const SETTINGS: &str = r#"{"settings":{"number_of_shards":1,"number_of_replicas":0}}"#;
const DOCUMENT: &str = r#"{"name":"README.txt","path":"/clinton/projects/elasticsearch","contents":"Starting a new Elasticsearch project is easy and this is one hundred bytes"}"#;

impl Options {
    fn load(&self, clients: usize) -> Load {
        Load {
            clients,
            warm: Duration::from_secs_f64(self.secs / 4.0),
            time: Duration::from_secs_f64(self.secs),
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("there is a temporary folder")
}

fn started(folder: &std::path::Path) -> Server {
    Server::start(&folder.join("data"), &["opensearch2"])
}

/// Ids that no other turn uses.
fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn write(options: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    let floor = Floor::durable(folder.path());
    for index in ["bench", "counters", "shown"] {
        put(&server, &format!("/{index}"), SETTINGS);
    }
    let address = server.address("");
    let put_one = |client: usize, n: u64, out: &mut Vec<u8>| {
        if n == 0 {
            TURN.set(fresh());
        }
        let path = format!("/bench/_doc/{}-{client}-{n}", TURN.get());
        request(out, "PUT", &path, DOCUMENT);
    };
    for (clients, bar) in [(1, 0.6), (16, 0.4)] {
        let seen = compare(
            options.rounds,
            options.load(clients),
            (address, &put_one),
            (&floor.address, &put_one),
        );
        report.row(
            &format!("durable PUT, {clients} client{}", if clients == 1 { "" } else { "s" }),
            &format!(
                "{:.0}/s, p50 {:.0} µs, p99 {:.0} µs",
                seen.ours.per_second, seen.ours.p50_us, seen.ours.p99_us
            ),
            &format!("HTTP + group fdatasync {:.0}/s", seen.theirs.per_second),
            seen.rate,
            "",
            Bar::AtLeast(bar),
        );
    }
    let upsert = |client: usize, n: u64, out: &mut Vec<u8>| {
        let id = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(client as u64 * 7919) % 1_000_000;
        let body = r#"{"script":{"source":"ctx._source.n += 1"},"upsert":{"n":1}}"#;
        request(out, "POST", &format!("/counters/_update/{id}"), body);
    };
    let seen = compare(options.rounds, options.load(16), (address, &upsert), (address, &put_one));
    report.row(
        "scripted upsert, 16 clients",
        &format!("{:.0}/s, p50 {:.0} µs", seen.ours.per_second, seen.ours.p50_us),
        &format!("durable PUT {:.0}/s", seen.theirs.per_second),
        seen.rate,
        "",
        Bar::AtLeast(0.5),
    );
    let shown = |client: usize, n: u64, out: &mut Vec<u8>| {
        if n == 0 {
            TURN.set(fresh());
        }
        let path = format!("/shown/_doc/{}-{client}-{n}?refresh=true", TURN.get());
        request(out, "PUT", &path, DOCUMENT);
    };
    let rates: Vec<f64> = (0..options.rounds)
        .map(|_| run(address, options.load(1), &shown).per_second)
        .collect();
    report.row(
        "PUT with refresh=true, 1 client",
        "",
        "",
        median(rates),
        "/s",
        Bar::AtLeast(300.0),
    );
}

thread_local! {
    /// The turn of the client that this thread is.
    static TURN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn get(options: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    let floor = Floor::echo();
    put(&server, "/posts", SETTINGS);
    let mut body = String::new();
    for n in 0..40_000 {
        let _ = writeln!(body, "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{DOCUMENT}");
        if n % 1000 == 999 {
            bulk(&server, "/posts/_bulk", &body);
            body.clear();
        }
    }
    let refreshed = server.send("POST", "/posts/_refresh", "").expect("the server answers");
    assert_eq!(refreshed.status, 200);
    let one = |client: usize, n: u64, out: &mut Vec<u8>| {
        let id = (n * 7919 + client as u64 * 104_729) % 40_000;
        request(out, "GET", &format!("/posts/_doc/{id}"), "");
    };
    for (clients, bar) in [(1, 1.3), (8, 1.3)] {
        let seen = compare(
            options.rounds,
            options.load(clients),
            (server.address(""), &one),
            (&floor.address, &one),
        );
        report.row(
            &format!("GET by id, {clients} client{}", if clients == 1 { "" } else { "s" }),
            &format!(
                "p50 {:.1} µs, p99 {:.0} µs, {:.0}/s",
                seen.ours.p50_us, seen.ours.p99_us, seen.ours.per_second
            ),
            &format!("hyper echo p50 {:.1} µs, {:.0}/s", seen.theirs.p50_us, seen.theirs.per_second),
            seen.p50,
            "",
            Bar::AtMost(bar),
        );
    }
}

/// Starts on a folder and asks until there is the answer; milliseconds from before the start.
fn first_answer(folder: &std::path::Path, method: &str, path: &str, body: &str) -> (Server, f64) {
    let begun = Instant::now();
    let server = started(folder);
    let answer = server.send(method, path, body).expect("the server answers");
    assert!(answer.status < 300, "{path}: {:?}", answer.body);
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    (server, ms)
}

fn start(options: &Options, report: &mut Report) {
    // Not the first start of all: the binary is in memory.
    drop(first_answer(folder().path(), "GET", "/", ""));
    let empty: Vec<f64> = (0..options.rounds.max(3))
        .map(|_| first_answer(folder().path(), "GET", "/", "").1)
        .collect();
    report.row(
        "start to first answer, empty folder",
        "",
        "",
        median(empty),
        "ms",
        Bar::AtMost(50.0),
    );
    let kept = folder();
    let mut server = started(kept.path());
    commits::load(&server);
    stop(&mut server);
    drop(server);
    let search = r#"{"query":{"match":{"subject":"fix"}}}"#;
    let times: Vec<f64> = (0..options.rounds.max(3))
        .map(|_| {
            let (mut server, ms) = first_answer(kept.path(), "POST", "/commits/_search", search);
            stop(&mut server);
            ms
        })
        .collect();
    report.row(
        &format!("start to first search, {} commits", commits::origin()),
        "",
        "",
        median(times),
        "ms",
        Bar::AtMost(500.0),
    );
    let mut ready = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..options.rounds.clamp(1, 3) {
        let folder = folder();
        let server = started(folder.path());
        put(&server, "/torn", SETTINGS);
        let flushed = server.send("POST", "/torn/_flush", "").expect("the server answers");
        assert_eq!(flushed.status, 200);
        let filler = "word and another word ".repeat(44);
        let mut body = String::new();
        for n in 0..40_000 {
            let _ = writeln!(body, "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n},\"text\":\"{filler}\"}}");
            if n % 500 == 499 {
                bulk(&server, "/torn/_bulk", &body);
                body.clear();
            }
        }
        server.signal(libc::SIGKILL);
        drop(server);
        let begun = Instant::now();
        let server = started(folder.path());
        let got = server.send("GET", "/torn/_doc/39999", "").expect("the server answers");
        assert_eq!(got.status, 200, "{:?}", got.body);
        ready[0].push(begun.elapsed().as_secs_f64() * 1000.0);
        put(&server, "/torn/_doc/new", DOCUMENT);
        ready[1].push(begun.elapsed().as_secs_f64() * 1000.0);
        let found = server
            .send("POST", "/torn/_search", search_all())
            .expect("the server answers");
        assert_eq!(found.body["hits"]["total"]["value"].as_u64(), Some(40_001), "{}", found.body);
        ready[2].push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    for ((what, bar), times) in [("GET", 1000.0), ("write", 1000.0), ("search", 3000.0)].iter().zip(ready) {
        report.row(
            &format!("first {what} after kill -9, 40,000 writes of 1 kB unflushed"),
            "",
            "",
            median(times),
            "ms",
            Bar::AtMost(*bar),
        );
    }
}

fn search_all() -> &'static str {
    r#"{"track_total_hits":true,"query":{"match_all":{}}}"#
}

fn stop(server: &mut Server) {
    server.signal(libc::SIGTERM);
    assert!(server.wait(Duration::from_secs(20)).is_some(), "the server ends");
}

/// Resident anonymous memory in megabytes.
fn anonymous(server: &Server) -> f64 {
    tests::memory_kb(server.pid(), "RssAnon:").map_or(f64::MAX, |kb| kb as f64 / 1024.0)
}

fn memory(_: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    for _ in 0..20 {
        let _ = server.send("GET", "/", "");
    }
    std::thread::sleep(Duration::from_secs(1));
    report.row("anonymous memory, idle", "", "", anonymous(&server), "MB", Bar::AtMost(30.0));
    let rate = commits::load(&server);
    let at_once = anonymous(&server);
    std::thread::sleep(Duration::from_secs(10));
    report.row(
        &format!("anonymous memory, {} commits loaded", commits::origin()),
        &format!("{at_once:.0} MB at once; {rate:.0} documents/s"),
        "",
        anonymous(&server),
        "MB",
        Bar::AtMost(200.0),
    );
}

fn many(_: &Options, report: &mut Report) {
    const INDICES: usize = 1000;
    let folder = folder();
    let server = started(folder.path());
    let idle = anonymous(&server);
    let mut properties = String::new();
    for n in 0..20 {
        let kind = ["keyword", "text", "long", "date", "boolean"][n % 5];
        let _ = write!(
            properties,
            "{}\"f{n}\":{{\"type\":\"{kind}\"}}",
            if n == 0 { "" } else { "," }
        );
    }
    let index = format!("{{\"settings\":{{\"number_of_replicas\":0}},\"mappings\":{{\"properties\":{{{properties}}}}}}}");
    let begun = Instant::now();
    for n in 0..INDICES {
        put(&server, &format!("/many-{n}"), &index);
    }
    say(&format!("{INDICES} indices made in {:.1} s", begun.elapsed().as_secs_f64()));
    let begun = Instant::now();
    for first in (0..INDICES).step_by(100) {
        let mut body = String::new();
        for n in first..first + 100 {
            for k in 0..10 {
                let _ = writeln!(
                    body,
                    "{{\"index\":{{\"_index\":\"many-{n}\",\"_id\":\"{k}\"}}}}\n{{\"f0\":\"a{k}\",\"f1\":\"some words\",\"f2\":{k},\"f3\":\"2026-01-01\",\"f4\":true}}"
                );
            }
        }
        bulk(&server, "/_bulk", &body);
    }
    let done = server.send("POST", "/_refresh", "").expect("the server answers");
    assert_eq!(done.status, 200);
    say(&format!("10 documents each in {:.1} s", begun.elapsed().as_secs_f64()));
    std::thread::sleep(Duration::from_secs(3));
    report.row(
        "1,000 indices, memory",
        "",
        &format!("idle {idle:.0} MB"),
        anonymous(&server) - idle,
        "MB",
        Bar::AtMost(60.0),
    );
    let flushed = server.send("POST", "/_flush", "").expect("the server answers");
    assert_eq!(flushed.status, 200);
    // One old write that no segment has: the log cannot go below it.
    put(&server, "/pinning", r#"{"settings":{"refresh_interval":"-1"}}"#);
    put(&server, "/pinning/_doc/1", DOCUMENT);
    let mut server = server;
    server.signal(libc::SIGKILL);
    server.wait(Duration::from_secs(5));
    drop(server);
    let total = (INDICES * 10) as u64;
    let count = |server: &Server| {
        let found = server.send("POST", "/many-*/_count", "").expect("the server answers");
        assert_eq!(found.body["count"].as_u64(), Some(total), "{}", found.body);
    };
    let begun = Instant::now();
    let mut server = started(folder.path());
    count(&server);
    let pinned = begun.elapsed().as_secs_f64();
    stop(&mut server);
    drop(server);
    let begun = Instant::now();
    let server = started(folder.path());
    count(&server);
    let open = begun.elapsed().as_secs_f64();
    report.row(
        "1,000 indices, start to a count over all",
        "",
        "",
        open,
        "s",
        Bar::AtMost(2.0),
    );
    report.row(
        "the same after kill -9 with an old unflushed write",
        "",
        "",
        pinned,
        "s",
        Bar::AtMost(2.0),
    );
    report.row(
        "1,000 indices, memory after the start",
        "",
        &format!("idle {idle:.0} MB"),
        anonymous(&server) - idle,
        "MB",
        Bar::AtMost(60.0),
    );
}
