//! The feed of changes: how fast it is read and replicated, how late it is, and what its readers cost the writers.
//!
//! `--docs N` takes the first N commits only.
//!
//! Not here: whether readers get everything (`tests/tests/feed.rs`, `tests/tests/replicate.rs`).

use super::{DOCUMENT, SETTINGS, folder, fresh};
use crate::commits::{self, bulk, put};
use crate::load::{Http, Sample, Work, median, request, turns, work};
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tests::{Server, command};

/// Readers that follow while documents are written.
const FOLLOWERS: usize = 4;
/// Clients that write meanwhile.
const WRITERS: usize = 16;
/// Operations of an answer.
const LIMIT: usize = 5000;

pub(super) fn feed(options: &Options, report: &mut Report) {
    let folder = folder();
    let source = start(&folder.path().join("source"));
    // Nothing is given up before it was read.
    let begin = json!({ "position": 0 }).to_string();
    put(&source, "/_changes/consumer/bench", &begin);
    let (documents, written) = load(&source, options.docs);
    say(&format!("{documents} commits loaded by one client: {written:.0}/s"));
    catch_up(options, report, &source, documents, written);
    replicate(options, report, &source, (documents, written), folder.path());
    put(&source, "/bench", SETTINGS);
    delay(options, report, &source);
    beside_followers(options, report, &source);
}

fn start(data: &Path) -> Server {
    Server::start(data, &["es8"])
}

/// Loads commits by one client; gives how many, and documents a second.
fn load(server: &Server, most: usize) -> (usize, f64) {
    let mut bodies = commits::bulks();
    let mut left = most;
    bodies.retain_mut(|body| {
        let documents = (body.lines().count() / 2).min(left);
        *body = body.split_inclusive('\n').take(documents * 2).collect();
        left -= documents;
        documents > 0
    });
    let documents = most - left;
    put(server, "/commits", &commits::index().to_string());
    let begun = Instant::now();
    for body in &bodies {
        bulk(server, "/commits/_bulk", body);
    }
    let rate = documents as f64 / begun.elapsed().as_secs_f64();
    // Builds that the load left are no part of what is measured next.
    let refreshed = server.send("POST", "/commits/_refresh", "").expect("the server answers");
    assert_eq!(refreshed.status, 200);
    (documents, rate)
}

/// Reads the feed from the beginning.
fn catch_up(options: &Options, report: &mut Report, source: &Server, documents: usize, written: f64) {
    let rates = (0..options.rounds.min(3)).map(|_| {
        let mut http = Http::open(source.address(""));
        let (mut since, mut read) = (0, 0);
        let begun = Instant::now();
        while read < documents {
            let (text, next) = next_part(&mut http, since, 0);
            since = next;
            let before = read;
            read += text.matches("\"op\":\"index\"").count();
            assert!(read > before, "the feed ends after {read} of {documents} documents");
        }
        documents as f64 / begun.elapsed().as_secs_f64()
    });
    let rate = median(rates.collect());
    report.row(
        "feed: `_changes` read from the beginning, commits",
        &format!("{rate:.0} operations/s"),
        &format!("their bulk load by 1 client {written:.0}/s"),
        rate / written,
        "",
        Bar::AtLeast(2.0),
    );
}

/// The text of the next part, and where to go on.
fn next_part(http: &mut Http, since: u64, wait_ms: u64) -> (&str, u64) {
    let mut out = Vec::new();
    let path = format!("/_changes?since={since}&limit={LIMIT}&timeout={wait_ms}ms");
    request(&mut out, "GET", &path, "");
    let text = std::str::from_utf8(http.send(&out)).expect("an answer is text");
    let next = text.rsplit_once("\"next\":").map_or("", |(_, rest)| rest);
    let number: String = next.chars().take_while(char::is_ascii_digit).collect();
    let next = number.parse().expect("an answer has its next position");
    (text, next)
}

/// `pleach replicate` into an empty server: by the feed from the beginning, and by a copy.
fn replicate(options: &Options, report: &mut Report, source: &Server, (documents, written): (usize, f64), folder: &Path) {
    for (case, consumer) in [("by the feed from the beginning", Some(0)), ("by a copy", None)] {
        let rates = (0..options.rounds.min(3)).map(|_| {
            let name = format!("replicate-{}", fresh());
            if let Some(position) = consumer {
                let body = json!({ "position": position }).to_string();
                put(source, &format!("/_changes/consumer/{name}"), &body);
            }
            let target = start(&folder.join(&name));
            let begun = Instant::now();
            run_replicate(source, &target, &name);
            let rate = documents as f64 / begun.elapsed().as_secs_f64();
            let refreshed = target.send("POST", "/commits/_refresh", "").expect("the target answers");
            assert_eq!(refreshed.status, 200);
            let found = target.ok("GET", "/commits/_count", &Value::Null);
            assert_eq!(found["count"], documents, "{found}");
            source.ok("DELETE", &format!("/_changes/consumer/{name}"), &Value::Null);
            rate
        });
        let rate = median(rates.collect());
        report.row(
            &format!("feed: `pleach replicate`, commits, {case}"),
            &format!("{rate:.0} documents/s"),
            &format!("their bulk load by 1 client {written:.0}/s"),
            rate / written,
            "",
            Bar::AtLeast(0.8),
        );
    }
}

fn run_replicate(source: &Server, target: &Server, name: &str) {
    let url = |server: &Server| format!("http://{}", server.address(""));
    let mut replicate = command();
    replicate.args([
        "replicate",
        "--url",
        &url(source),
        "--to",
        &url(target),
        "--once",
        "--name",
        name,
    ]);
    let done = replicate
        .args(["--index", "commits"])
        .stdin(Stdio::null())
        .output()
        .expect("the command runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// When something happened to a document, by its id.
type Times = Arc<Mutex<HashMap<String, Instant>>>;

/// How long after its acknowledgement a document is with a follower.
fn delay(options: &Options, report: &mut Report, source: &Server) {
    let (acknowledged, followed) = (Times::default(), Times::default());
    let over = AtomicBool::new(false);
    let prefix = format!("delay-{}-", fresh());
    let written = std::thread::scope(|scope| {
        let (over, prefix, followed) = (&over, &prefix, followed.clone());
        scope.spawn(move || {
            let sought = format!("\"_id\":\"{prefix}");
            follow(source, over, |text| {
                let now = Instant::now();
                let mut followed = followed.lock().expect("no panic");
                for (at, _) in text.match_indices(&sought) {
                    let id = text.get(at + "\"_id\":\"".len()..).and_then(|rest| rest.split('"').next());
                    followed.entry(id.unwrap_or_default().to_owned()).or_insert(now);
                }
            });
        });
        let written = work(options.load(WRITERS), &|client| {
            writer(source, format!("{prefix}{client}-"), acknowledged.clone())
        });
        // The last ones are on their way to the follower.
        std::thread::sleep(Duration::from_secs(1));
        over.store(true, Ordering::Relaxed);
        written
    });
    let followed = followed.lock().expect("no panic");
    let acknowledged = acknowledged.lock().expect("no panic");
    let delay = |(id, at): (&String, &Instant)| {
        let seen = followed
            .get(id)
            .unwrap_or_else(|| panic!("[{id}] was acknowledged and is not in the feed"));
        seen.saturating_duration_since(*at).as_secs_f64() * 1e3
    };
    let mut delays: Vec<f64> = acknowledged.iter().map(delay).collect();
    delays.sort_by(f64::total_cmp);
    let at = |part: f64| delays.get((delays.len() as f64 * part) as usize).copied().unwrap_or(f64::MAX);
    report.row(
        &format!("feed: delay behind the acknowledgement, p99, {WRITERS} writers"),
        &format!("p50 {:.1} ms, of {} documents", at(0.5), delays.len()),
        &format!("durable PUT {:.0}/s", written.per_second),
        at(0.99),
        "ms",
        Bar::AtMost(5.0),
    );
}

/// A client that writes documents of new ids, and notes when each was acknowledged.
fn writer(source: &Server, prefix: String, acknowledged: Times) -> Work {
    let mut http = Http::open(source.address(""));
    let mut out = Vec::new();
    Box::new(move |n| {
        let id = format!("{prefix}{n}");
        request(&mut out, "PUT", &format!("/bench/_doc/{id}"), DOCUMENT);
        http.send(&out);
        acknowledged.lock().expect("no panic").insert(id, Instant::now());
    })
}

/// Follows the feed from now on until it is over, and gives each part.
fn follow(source: &Server, over: &AtomicBool, mut take: impl FnMut(&str)) {
    let now = source.ok("GET", "/_changes?since=now", &Value::Null);
    let mut since = now["next"].as_u64().expect("an answer has its next position");
    let mut http = Http::open(source.address(""));
    while !over.load(Ordering::Relaxed) {
        let (text, next) = next_part(&mut http, since, 100);
        since = next;
        take(text);
    }
}

/// Durable writes with followers, beside the same without.
fn beside_followers(options: &Options, report: &mut Report, source: &Server) {
    let write = || -> Sample {
        let turn = fresh();
        work(options.load(WRITERS), &|client| {
            writer(source, format!("beside-{turn}-{client}-"), Times::default())
        })
    };
    let followed = || {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..FOLLOWERS {
                scope.spawn(|| follow(source, &over, |_| {}));
            }
            let written = write();
            over.store(true, Ordering::Relaxed);
            written
        })
    };
    let seen = turns(options.rounds, followed, write);
    report.row(
        &format!("feed: durable PUT, {WRITERS} clients, with {FOLLOWERS} followers"),
        &format!("{:.0}/s, p99 {:.0} µs", seen.ours.per_second, seen.ours.p99_us),
        &format!("without {:.0}/s, p99 {:.0} µs", seen.theirs.per_second, seen.theirs.p99_us),
        seen.rate,
        "",
        Bar::AtLeast(0.9),
    );
}
