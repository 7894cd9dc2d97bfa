//! Locks and changes beside what people use for them: etcd and PostgreSQL, in the same run, each durable.
//!
//! * *lock document*: created if absent, deleted: two requests; etcd's are a transaction and a delete.
//! * *lock*: `_lock` and its release; etcd's lock service under a lease of the client.
//! * *hand-over*: 16 clients want one lock.
//! * *tree change*: one request that locks a path, updates a document in it and releases; PostgreSQL's is a
//!   transaction in one message with three shared advisory locks, an exclusive one and an update.
//! * *history*: each commit of a real repository one change; PostgreSQL's is one prepared statement a commit.
//! * *hot counter*: 16 clients add to one document.

use super::{SETTINGS, folder, fresh, started};
use crate::commits::{put, shared};
use crate::etcd::Etcd;
use crate::load::{Compared, Http, Sample, Work, median, request, turns, work};
use crate::postgres::Postgres;
use crate::report::{Bar, Report};
use crate::{Options, say};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::time::Instant;
use tests::Server;

pub(crate) fn changes(options: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    for index in ["locks", "files", "counters", "many"] {
        put(&server, &format!("/{index}"), SETTINGS);
    }
    let tree = r#"{"index":{"pleach":{"lock_path":"path"}}}"#;
    let set = server.send("PUT", "/files/_settings", tree).expect("the server answers");
    assert_eq!(set.status, 200, "{}", set.body);
    match Etcd::start(folder.path()) {
        Some(etcd) => beside_etcd(options, report, &server, &etcd),
        None => say("skipped: no etcd (Debian's etcd-server)"),
    }
    match Postgres::start(folder.path()) {
        Some(postgres) => beside_postgres(options, report, &server, &postgres),
        None => say("skipped: no PostgreSQL"),
    }
    large(options, report, &server);
}

fn row(report: &mut Report, case: &str, peer: &str, seen: &Compared, bar: f64) {
    let told = |s: &Sample| format!("{:.0}/s, p50 {:.0} µs, p99 {:.0} µs", s.per_second, s.p50_us, s.p99_us);
    let beside = format!("{peer} {}", told(&seen.theirs));
    report.row(case, &told(&seen.ours), &beside, seen.rate, "", Bar::AtLeast(bar));
}

fn lock_document(server: &Server, client: usize) -> Work {
    let mut http = Http::open(server.address(""));
    let mut out = Vec::new();
    Box::new(move |_| {
        request(&mut out, "PUT", &format!("/locks/_create/l-{client}"), r#"{"owner":"bench"}"#);
        http.send(&out);
        request(&mut out, "DELETE", &format!("/locks/_doc/l-{client}"), "");
        http.send(&out);
    })
}

fn lock(server: &Server, name: &str) -> Work {
    let mut http = Http::open(server.address(""));
    let body = json!({ "keep_alive": "10m", "targets": [{ "name": name }] }).to_string();
    let mut out = Vec::new();
    Box::new(move |_| {
        request(&mut out, "POST", "/_lock?timeout=60s", &body);
        let granted: Value = serde_json::from_slice(http.send(&out)).expect("JSON");
        let id = granted["id"].as_str().expect("a lock has an id");
        request(&mut out, "DELETE", &format!("/_lock/{id}"), "");
        http.send(&out);
    })
}

fn beside_etcd(options: &Options, report: &mut Report, server: &Server, etcd: &Etcd) {
    for (clients, protocol, bar) in [(1, "HTTP", 2.5), (16, "gRPC", 3.0)] {
        let load = options.load(clients);
        let http = protocol == "HTTP";
        let seen = turns(
            options.rounds,
            || work(load, &|client| lock_document(server, client)),
            || {
                work(load, &|client| {
                    if http {
                        etcd.create_delete_json(client)
                    } else {
                        etcd.create_delete_grpc(client)
                    }
                })
            },
        );
        let case = format!("lock document created and deleted c{clients}");
        row(report, &case, &format!("etcd by {protocol}"), &seen, bar);
        let seen = turns(
            options.rounds,
            || work(load, &|client| lock(server, &format!("own-{client}"))),
            || {
                work(load, &|client| {
                    let name = format!("own-{client}");
                    if http { etcd.lock_json(&name) } else { etcd.lock_grpc(&name) }
                })
            },
        );
        let case = format!("lock taken and released c{clients}");
        row(report, &case, &format!("etcd by {protocol}"), &seen, bar);
    }
    let load = options.load(16);
    let seen = turns(
        options.rounds,
        || work(load, &|_| lock(server, "hot")),
        || work(load, &|_| etcd.lock_json("hot")),
    );
    row(report, "one lock, 16 clients: hand-over", "etcd by HTTP", &seen, 20.0);
}

fn tree_change(server: &Server, client: usize) -> Work {
    let mut http = Http::open(server.address(""));
    put(
        server,
        &format!("/files/_doc/{client}"),
        &format!(r#"{{"path":"/a/b/c/{client}","n":0}}"#),
    );
    let mut out = Vec::new();
    Box::new(move |n| {
        let body = format!(
            r#"{{"locks":[{{"index":"files","path":"/a/b/c/{client}"}}],"operations":[{{"update":{{"_index":"files","_id":"{client}","doc":{{"n":{n}}}}}}}]}}"#
        );
        request(&mut out, "POST", "/_transaction", &body);
        http.send(&out);
    })
}

fn hot_counter(server: &Server) -> Work {
    let mut http = Http::open(server.address(""));
    let mut out = Vec::new();
    let body = r#"{"script":{"source":"ctx._source.n += 1"},"upsert":{"n":1}}"#;
    request(&mut out, "POST", "/counters/_update/hot", body);
    Box::new(move |_| {
        http.send(&out);
    })
}

fn beside_postgres(options: &Options, report: &mut Report, server: &Server, postgres: &Postgres) {
    postgres.execute(
        "create table files (id int primary key, n bigint); create table counters (id int primary key, n bigint); \
         create table tree (path text primary key, blob text, sha text)",
    );
    let load = options.load(1);
    let seen = turns(
        options.rounds,
        || work(load, &|client| tree_change(server, client)),
        || work(load, &|client| postgres.tree_change(client)),
    );
    row(
        report,
        "tree lock, guarded write, release in one request c1",
        "PostgreSQL",
        &seen,
        0.9,
    );
    let load = options.load(16);
    let seen = turns(
        options.rounds,
        || work(load, &|_| hot_counter(server)),
        || work(load, &|_| postgres.hot_counter()),
    );
    row(report, "hot counter c16", "PostgreSQL", &seen, 2.0);
    let Some(commits) = history() else {
        return say("skipped: the histories are not beside this checkout");
    };
    let rates: Vec<(f64, f64)> = (0..options.rounds.min(3))
        .map(|_| (replay_here(server, &commits), replay_there(postgres, &commits)))
        .collect();
    let of = |f: fn(&(f64, f64)) -> f64| median(rates.iter().map(f).collect());
    report.row(
        "history, each commit one change c1",
        &format!("{:.0} commits/s", of(|r| r.0)),
        &format!("PostgreSQL {:.0}/s", of(|r| r.1)),
        of(|r| r.0 / r.1),
        "",
        Bar::AtLeast(0.9),
    );
}

/// Commits of one repository: sha, what is put, what is deleted.
struct Commit {
    sha: String,
    put: Vec<(String, String)>,
    gone: Vec<String>,
}

fn history() -> Option<Vec<Commit>> {
    let file = File::open(shared().join("data/history-tantivy.ndjson.gz")).ok()?;
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let commits = lines.map(|line| {
        let value: Value = serde_json::from_str(&line.expect("lines")).expect("a commit is JSON");
        let mut commit = Commit {
            sha: text(&value["sha"]),
            put: Vec::new(),
            gone: Vec::new(),
        };
        for op in value["ops"].as_array().into_iter().flatten() {
            if op[0] == "D" {
                commit.gone.push(text(&op[1]));
            } else {
                commit.put.push((text(&op[1]), text(&op[2])));
            }
        }
        commit
    });
    Some(commits.collect())
}

/// Commits a second; the index is new each time.
fn replay_here(server: &Server, commits: &[Commit]) -> f64 {
    let index = format!("tree-{}", fresh());
    put(server, &format!("/{index}"), SETTINGS);
    let bodies: Vec<Vec<u8>> = commits
        .iter()
        .map(|commit| {
            let mut lines = String::new();
            for (path, blob) in &commit.put {
                let action = json!({ "index": { "_id": path } });
                let source = json!({ "path": path, "blob": blob, "sha": commit.sha });
                let _ = writeln!(lines, "{action}\n{source}");
            }
            for path in &commit.gone {
                let _ = writeln!(lines, "{}", json!({ "delete": { "_id": path } }));
            }
            let mut out = Vec::new();
            request(&mut out, "POST", &format!("/{index}/_bulk?atomic=true"), &lines);
            out
        })
        .filter(|out| !out.ends_with(b"\r\n\r\n"))
        .collect();
    let mut http = Http::open(server.address(""));
    let begun = Instant::now();
    for body in &bodies {
        http.send(body);
    }
    bodies.len() as f64 / begun.elapsed().as_secs_f64()
}

fn replay_there(postgres: &Postgres, commits: &[Commit]) -> f64 {
    postgres.execute("truncate tree");
    let mut connection = postgres.open();
    let text = "with gone as (delete from tree where path = any($1)) \
                insert into tree select p, b, $4 from unnest($2::text[], $3::text[]) as t(p, b) \
                on conflict (path) do update set blob = excluded.blob, sha = excluded.sha";
    let prepared = connection.prepare(text).expect("a statement");
    let commits: Vec<_> = commits
        .iter()
        .filter(|c| !c.put.is_empty() || !c.gone.is_empty())
        .map(|commit| {
            // The last word on a path within a commit, as a change has it.
            let last: std::collections::BTreeMap<_, _> = commit.put.iter().cloned().collect();
            let (paths, blobs): (Vec<String>, Vec<String>) = last.into_iter().unzip();
            (commit.gone.clone(), paths, blobs, commit.sha.clone())
        })
        .collect();
    let begun = Instant::now();
    for (gone, paths, blobs, sha) in &commits {
        connection.execute(&prepared, &[gone, paths, blobs, sha]).expect("a commit");
    }
    commits.len() as f64 / begun.elapsed().as_secs_f64()
}

/// A change of as many operations as are allowed.
fn large(options: &Options, report: &mut Report, server: &Server) {
    let mut http = Http::open(server.address(""));
    let times: Vec<f64> = (0..options.rounds)
        .map(|_| {
            let turn = fresh();
            let mut lines = String::new();
            for n in 0..10_000 {
                let _ = writeln!(
                    lines,
                    "{{\"index\":{{\"_id\":\"{turn}-{n}\"}}}}\n{{\"n\":{n},\"of\":\"change {turn}\"}}"
                );
            }
            let mut out = Vec::new();
            request(&mut out, "POST", "/many/_bulk?atomic=true", &lines);
            let begun = Instant::now();
            http.send(&out);
            begun.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    let figure = median(times);
    report.row("a change of 10,000 operations", "", "", figure, "ms", Bar::AtMost(500.0));
}
