//! Beside a real server of the same API: the project's own comparison script, its figures against the bars.

use super::{folder, started};
use crate::commits::shared;
use crate::load::median;
use crate::report::{Bar, Report};
use crate::{Options, say};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Cases that the peer answers from its request cache.
const CACHED: &[&str] = &["get by id", "terms agg", "date histogram"];

/// Starts what is missing, runs the script, reports each case.
pub(crate) fn peers(options: &Options, report: &mut Report) {
    let script = shared().join("bench/es_compare.py");
    if !script.exists() {
        return say("skipped: the comparison script is not beside this checkout");
    }
    let started_here = options.opensearch.then(|| OpenSearch::start(&shared().join("servers")));
    let Some(peer) = options
        .peer
        .clone()
        .or_else(|| started_here.as_ref().map(|os| format!("opensearch=127.0.0.1:{}", os.port)))
    else {
        return say("skipped: give --peer NAME=HOST:PORT or --opensearch");
    };
    let folder = folder();
    let server = started(folder.path());
    let load = folder.path().join("httpload");
    let built = Command::new("rustc")
        .args(["-O", "-o"])
        .arg(&load)
        .arg(shared().join("bench/httpload.rs"))
        .status();
    assert!(built.is_ok_and(|s| s.success()), "the load generator compiles");
    let out = folder.path().join("figures.json");
    let compared = |only: &str| -> Value {
        let mut command = Command::new("python3");
        command.arg(&script).arg("--httpload").arg(&load).arg("--out").arg(&out);
        command.args(["--secs", &options.secs.to_string(), "--rounds", &options.rounds.to_string()]);
        if !only.is_empty() {
            command.args(["--only", only]);
        }
        command.arg(format!("pleach={}", server.address(""))).arg(&peer);
        assert!(command.status().is_ok_and(|s| s.success()), "the comparison runs");
        let text = std::fs::read(&out).expect("the comparison wrote its figures");
        serde_json::from_slice(&text).expect("figures are JSON")
    };
    let name = peer.split('=').next().unwrap_or("peer");
    // A load takes a second or so, and the script makes each once: further rounds are loads alone.
    let mut rounds: Vec<Value> = (1..options.rounds).map(|_| compared(NOTHING)).collect();
    rounds.push(compared(&options.only));
    let last = rounds.last().cloned().unwrap_or_default();
    for (case, by) in last.as_object().into_iter().flatten() {
        match case.strip_prefix("load ") {
            Some(index) => {
                let rates: Vec<(f64, f64)> = rounds.iter().filter_map(|round| loaded(&round[case], name)).collect();
                loads(index, &rates, name, report);
            }
            None => one(case, &by["pleach"], &by[name], name, report),
        }
    }
}

/// A pattern that no case has.
const NOTHING: &str = "(?!)";

/// Documents a second: ours, theirs.
fn loaded(by: &Value, name: &str) -> Option<(f64, f64)> {
    Some((by["pleach"][1].as_f64()?, by[name][1].as_f64()?))
}

/// The medians of loads that took turns, and of their ratios.
fn loads(index: &str, rates: &[(f64, f64)], name: &str, report: &mut Report) {
    let of = |f: fn(&(f64, f64)) -> f64| median(rates.iter().map(f).collect());
    let bar = if index == "cmp-commits" { 2.0 } else { 1.5 };
    let measured = format!("{:.0} documents/s", of(|r| r.0));
    let beside = format!("{name} {:.0}/s", of(|r| r.1));
    let ratio = of(|r| r.0 / r.1.max(1e-9));
    report.row(&format!("load {index}"), &measured, &beside, ratio, "", Bar::AtLeast(bar));
}

/// A case of the script: `["p50 us, p99 us, /s", [p50, p99, rate]]`.
fn one(case: &str, ours: &Value, theirs: &Value, name: &str, report: &mut Report) {
    let number = |value: &Value, at: usize| value[1][at].as_f64().unwrap_or(0.0);
    let measured = format!(
        "p50 {:.0} µs, p99 {:.0} µs, {:.0}/s",
        number(ours, 0),
        number(ours, 1),
        number(ours, 2)
    );
    let beside = format!(
        "{name} p50 {:.0} µs, p99 {:.0} µs, {:.0}/s",
        number(theirs, 0),
        number(theirs, 1),
        number(theirs, 2)
    );
    if case.starts_with("es_") {
        let ratio = number(ours, 2) / number(theirs, 2).max(1e-9);
        // The bar is about 16 clients; one client is told beside it.
        if case.ends_with("c16") {
            report.row(case, &measured, &beside, ratio, "", Bar::AtLeast(1.5));
        } else {
            say(&format!("{case:34} {measured} | {beside} | {ratio:.2}"));
        }
        return;
    }
    let cached = CACHED.iter().any(|cached| case.starts_with(cached));
    let ratio = number(ours, 0) / number(theirs, 0).max(1e-9);
    report.row(
        case,
        &measured,
        &beside,
        ratio,
        "",
        Bar::AtMost(if cached { 0.6 } else { 0.3 }),
    );
}

/// The server that ours is compared with: a running one, or an OpenSearch that is started here and ends with this.
pub(super) struct Peer {
    address: String,
    _started: Option<OpenSearch>,
}

impl Peer {
    /// The one that was asked for, if any.
    pub(super) fn of(options: &Options) -> Option<Peer> {
        let started = options.opensearch.then(|| OpenSearch::start(&shared().join("servers")));
        let running = options.peer.as_ref().and_then(|peer| peer.split_once('='));
        let address = running.map(|(_, address)| address.to_owned());
        Some(Peer {
            address: address.or_else(|| started.as_ref().map(OpenSearch::address))?,
            _started: started,
        })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

/// A real OpenSearch; stopped when dropped.
pub(super) struct OpenSearch {
    servers: std::path::PathBuf,
    data: tempfile::TempDir,
    port: u16,
}

impl OpenSearch {
    /// Starts one node.
    pub(super) fn start(servers: &Path) -> OpenSearch {
        let data = folder();
        let port = 9369;
        let done = Command::new(servers.join("opensearch/start.sh"))
            .args(["1", &port.to_string()])
            .arg(data.path())
            .env("HEAP", std::env::var("HEAP").unwrap_or_else(|_| "2g".to_owned()))
            .status();
        assert!(done.is_ok_and(|s| s.success()), "OpenSearch starts");
        OpenSearch {
            servers: servers.to_owned(),
            data,
            port,
        }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for OpenSearch {
    fn drop(&mut self) {
        let _ = Command::new(self.servers.join("stop.sh")).arg(self.data.path()).status();
    }
}
