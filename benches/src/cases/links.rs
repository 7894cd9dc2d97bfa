//! Copies that follow their source: 1,000 in the change itself, and 100,000 by a job.
//!
//! Documents are of some hundred bytes. A figure is the time of a rename until all copies are written and durable. The copies of one
//! change are measured before those of the job are loaded, whose merges go on for seconds, and after some renames that do not count.
//! Not here: what a write of a target costs beside a plain one.

use super::{SETTINGS, folder, started};
use crate::Options;
use crate::commits::{bulk, put};
use crate::load::{Http, median};
use crate::report::{Bar, Report};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::Server;

/// Copies that follow in one change, as many as may.
const SYNC: usize = 1_000;
/// Renames before those that count.
const WARM_UP: usize = 10;
/// Copies that follow by a job.
const ASYNC: usize = 100_000;

const TARGET: &str = r#"{"settings":{"number_of_shards":1,"number_of_replicas":0},"mappings":{"properties":{"title":{"type":"text"},
    "user":{"properties":{"id":{"type":"keyword"},"name":{"type":"keyword"}}}}}}"#;

pub(super) fn links(options: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    put(&server, "/user", SETTINGS);
    let renames = [
        ("synced", SYNC, "sync", WARM_UP, options.rounds.max(20), ""),
        ("later", ASYNC, "async", 0, options.rounds, "?propagate=wait_for"),
    ];
    let took = renames.map(|(index, copies, mode, warm_up, rounds, query)| {
        put(&server, &format!("/{index}"), TARGET);
        // Each has a source of its own. The first makes the field.
        put(&server, &format!("/user/_doc/{index}"), r#"{"name":"n"}"#);
        fill(&server, index, copies);
        let policy = format!(
            r#"{{"source":{{"index":"user","fields":["name"]}},"target":{{"index":"{index}","on":{{"user.id":"_id"}},"into":"user"}},"mode":"{mode}","on_missing":"reject"}}"#
        );
        let answer = server
            .send("PUT", &format!("/_link/policy/{index}"), &policy)
            .expect("the server answers");
        assert_eq!(answer.status, 201, "{}", answer.body);
        rename(&server, index, warm_up, query);
        rename(&server, index, rounds, query)
    });
    let [in_change, by_job] = took;
    report.row("link: 1,000 copies in one change", "", "", in_change, "ms", Bar::AtMost(20.0));
    let rate = ASYNC as f64 * 1000.0 / by_job;
    report.row(
        "link: copies by a job",
        &format!("{ASYNC} in {by_job:.0} ms"),
        "",
        rate,
        "/s",
        Bar::AtLeast(40_000.0),
    );
}

fn fill(server: &Server, index: &str, copies: usize) {
    let mut body = String::new();
    for n in 0..copies {
        let title = "a post of about one hundred bytes that names its author, who may be renamed";
        let _ = writeln!(
            body,
            "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"title\":\"{title} {n}\",\"user\":{{\"id\":\"{index}\",\"name\":\"n\"}}}}"
        );
        if n % 1_000 == 999 {
            bulk(server, &format!("/{index}/_bulk"), &body);
            body.clear();
        }
    }
    let refreshed = server
        .send("POST", &format!("/{index}/_refresh"), "")
        .expect("the server answers");
    assert_eq!(refreshed.status, 200, "{}", refreshed.body);
}

/// Milliseconds of a rename, the median; each gives a new name.
fn rename(server: &Server, id: &str, rounds: usize, query: &str) -> f64 {
    let mut http = Http::open(server.address(""));
    let path = format!("/user/_doc/{id}{query}");
    static GIVEN: AtomicUsize = AtomicUsize::new(0);
    let body = || format!(r#"{{"name":"n{}"}}"#, GIVEN.fetch_add(1, Ordering::Relaxed));
    let times = (0..rounds).map(|_| http.timed("PUT", &path, &body()));
    median(times.collect())
}
