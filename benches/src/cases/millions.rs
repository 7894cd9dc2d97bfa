//! One server with as many documents as a machine of this size is likely to have: how fast they are loaded, the memory that they take,
//! how soon a start answers, and the time of each class of searches.
//!
//! Not here: the same beside another server (`size`).

use super::size::{classes, load_copies, send};
use super::{anonymous, folder, started, stop};
use crate::commits;
use crate::load::{Http, run};
use crate::report::{Bar, Report};
use crate::{Options, say};
use std::time::Instant;

/// Copies of the commits unless `--copies` says otherwise: 16.5 million documents.
const COPIES: usize = 400;
/// Anonymous memory after the load and after all searches, in megabytes.
const MEMORY_MB: f64 = 300.0;
/// From the start of the process to the count of all documents, in milliseconds.
const START_MS: f64 = 300.0;
/// Documents a second.
const LOAD: f64 = 10_000.0;
/// A search of a class may take so many milliseconds.
const SEARCH_MS: f64 = 1_000.0;

/// Loads, searches and starts again.
pub(super) fn millions(options: &Options, report: &mut Report) {
    let folder = folder();
    let mut server = started(folder.path());
    let documents = commits::flat();
    let copies = options.copies.unwrap_or(COPIES);
    let count = copies * documents.len();
    let of = |what: &str| format!("{count} documents: {what}");
    send(
        &mut Http::open(server.address("")),
        "PUT",
        "/size",
        &commits::flat_index().to_string(),
    );
    let rate = load_copies(server.address(""), &documents, 0..copies);
    report.row(&of("load"), "", "", rate, "documents/s", Bar::AtLeast(LOAD));
    let loaded = anonymous(&server);
    report.row(
        &of("anonymous memory after the load"),
        "",
        "",
        loaded,
        "MB",
        Bar::AtMost(MEMORY_MB),
    );
    for class in classes(&documents) {
        let search = |_: usize, _: u64, out: &mut Vec<u8>| class.search(out);
        let sample = run(server.address(""), options.load(1), &search);
        let figures = format!("p50 {:.0} µs, p99 {:.0} µs", sample.p50_us, sample.p99_us);
        report.row(
            &of(class.name),
            &figures,
            "",
            sample.p50_us / 1e3,
            "ms",
            Bar::AtMost(SEARCH_MS),
        );
    }
    let searched = anonymous(&server);
    report.row(
        &of("anonymous memory after all searches"),
        "",
        "",
        searched,
        "MB",
        Bar::AtMost(MEMORY_MB),
    );
    let segments = send(
        &mut Http::open(server.address("")),
        "GET",
        "/_cat/segments/size?h=segment&format=json",
        "",
    );
    say(&format!("{} segments", segments.as_array().map_or(0, Vec::len)));
    stop(&mut server);
    drop(server);
    let begun = Instant::now();
    let server = started(folder.path());
    let counted = send(&mut Http::open(server.address("")), "GET", "/size/_count", "");
    let start_ms = begun.elapsed().as_secs_f64() * 1e3;
    assert_eq!(counted["count"], count, "a start has every document");
    let memory = format!("{:.0} MB anonymous", anonymous(&server));
    report.row(
        &of("start to the first count"),
        &memory,
        "",
        start_ms,
        "ms",
        Bar::AtMost(START_MS),
    );
}
