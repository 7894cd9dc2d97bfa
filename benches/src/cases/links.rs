//! Copies that follow their source: 1,000 in the change itself, and 100,000 by a job.
//!
//! Documents are of some hundred bytes. A figure is the time of a rename until all copies are written and durable.
//! Not here: what a write of a target costs beside a plain one.

use super::{SETTINGS, folder, started};
use crate::Options;
use crate::commits::{bulk, put};
use crate::load::{Http, median};
use crate::report::{Bar, Report};
use std::fmt::Write as _;
use tests::Server;

/// Copies that follow in one change, as many as may.
const SYNC: usize = 1_000;
/// Copies that follow by a job.
const ASYNC: usize = 100_000;

const TARGET: &str = r#"{"settings":{"number_of_shards":1,"number_of_replicas":0},"mappings":{"properties":{"title":{"type":"text"},
    "user":{"properties":{"id":{"type":"keyword"},"name":{"type":"keyword"}}}}}}"#;

pub(super) fn links(options: &Options, report: &mut Report) {
    let folder = folder();
    let server = started(folder.path());
    put(&server, "/user", SETTINGS);
    for (index, copies, mode) in [("synced", SYNC, "sync"), ("later", ASYNC, "async")] {
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
    }
    let took = rename(&server, "synced", options.rounds.max(5), "");
    report.row("link: 1,000 copies in one change", "", "", took, "ms", Bar::AtMost(20.0));
    let took = rename(&server, "later", options.rounds, "?propagate=wait_for");
    let rate = ASYNC as f64 * 1000.0 / took;
    report.row(
        "link: copies by a job",
        &format!("{ASYNC} in {took:.0} ms"),
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

/// Milliseconds of a rename, the median.
fn rename(server: &Server, id: &str, rounds: usize, query: &str) -> f64 {
    let mut http = Http::open(server.address(""));
    let path = format!("/user/_doc/{id}{query}");
    let times = (0..rounds).map(|round| http.timed("PUT", &path, &format!(r#"{{"name":"n{round}"}}"#)));
    median(times.collect())
}
