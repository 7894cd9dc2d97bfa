//! `cargo run --release -p bench -- [NAME ...]`: measures the server in release, beside floors and peers that are
//! started in the same run, and writes the table of docs/performance.md.
//!
//! Machines are noisy: contenders take turns, figures are medians, bars are ratios. Nothing has a priority that it would not have in
//! service, because a server's own priorities count too: an idle machine is what figures are taken on.
//!
//! Not here: what is measured (`cases`), how load is made (`load`), what load is compared with (`floor`).

use std::io::Write as _;

mod cases;
mod commits;
mod etcd;
mod floor;
mod load;
mod postgres;
mod report;

const USAGE: &str = "\
usage: cargo run --release -p bench -- [NAME ...] [--rounds N] [--secs S] [--peer NAME=HOST:PORT] [--opensearch] [--docs N]

names (all but peers, size, catalogue, in_process and millions if none is given):
  write    durable PUT, scripted upsert, refresh=true, beside an HTTP server that syncs
  get      GET by id beside a bare hyper echo
  start    start to first answer: empty, with the commits, after kill -9 with 40,000 writes since the checkpoint
  memory   anonymous memory idle and after the commits
  many     1,000 indices: memory, opening, opening with an old unflushed write
  changes  locks and changes beside etcd (Debian's etcd-server) and PostgreSQL (its initdb and runuser), where they are
  feed     the feed of changes: reading it, its delay, what followers cost, `pleach replicate` beside a bulk load; --docs N: the first N
           commits only
  links    copies that follow their source, in one change and by a job
  operations  users and rights, metrics and logs, snapshots, each beside the same without
  relations  nested, parents and children, joins, collapse beside the flat query of the same term; --copies N: N times the commits
  trees    moves, queries, loading, memory and the start of a tree_path, beside the mapping of 2015 and PostgreSQL
  peers    ../shared/bench/es_compare.py beside a server of the same API:
           --peer NAME=HOST:PORT for a running one, --opensearch to start ../shared/servers/opensearch
           --only PATTERN for some of its cases
  size     the same searches over 41 thousand, 413 thousand and 4.1 million commits, beside such a server; --copies N: at most N times
           the commits (1, 10, 100 or 400; 100 if not given)
  catalogue  every kind of search that the API has, beside such a server; --copies N: N times the commits (12 if not given),
           --only NAME for some of the classes
  in_process  the same searches beside tantivy's own collectors without a server; --copies N: N times the commits (10 if not given),
           --only NAME for some of the classes
  millions 16.5 million commits in one server: load, memory, searches, start; --copies N: N times the commits (400 if not given)";

/// What was asked for.
pub(crate) struct Options {
    /// Names of benches.
    pub(crate) names: Vec<String>,
    /// How often contenders take turns.
    pub(crate) rounds: usize,
    /// Seconds a turn.
    pub(crate) secs: f64,
    /// A running server to compare with.
    pub(crate) peer: Option<String>,
    /// Start OpenSearch to compare with.
    pub(crate) opensearch: bool,
    /// For `peers`, `in_process` and `catalogue`: which cases.
    pub(crate) only: String,
    /// For `size`, `in_process`, `millions`, `catalogue` and `relations`: how often the commits are loaded at most.
    pub(crate) copies: Option<usize>,
    /// For `feed`: how many commits are loaded at most.
    pub(crate) docs: usize,
}

/// One line to standard output.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut options = Options {
        names: Vec::new(),
        rounds: 5,
        secs: 1.0,
        peer: None,
        opensearch: false,
        only: String::new(),
        copies: None,
        docs: usize::MAX,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| refuse(&format!("[{arg}] needs a value")));
        match arg.as_str() {
            "floor" => {
                let (kind, address) = (value(), value());
                return floor::serve(&kind, &address);
            }
            "--rounds" => options.rounds = value().parse().unwrap_or_else(|_| refuse("--rounds needs a number")),
            "--secs" => options.secs = value().parse().unwrap_or_else(|_| refuse("--secs needs a number")),
            "--peer" => options.peer = Some(value()),
            "--opensearch" => options.opensearch = true,
            "--only" => options.only = value(),
            "--copies" => options.copies = Some(value().parse().unwrap_or_else(|_| refuse("--copies needs a number"))),
            "--docs" => options.docs = value().parse().unwrap_or_else(|_| refuse("--docs needs a number")),
            "--help" | "-h" => return say(USAGE),
            name if cases::ALL.iter().any(|(known, _)| *known == name) => options.names.push(arg),
            other => refuse(&format!("unknown argument [{other}]")),
        }
    }
    if options.names.is_empty() {
        let default = cases::ALL.iter().map(|(name, _)| (*name).to_owned());
        options.names = default
            .filter(|name| !matches!(name.as_str(), "peers" | "size" | "catalogue" | "in_process" | "millions"))
            .collect();
    }
    if options.rounds == 0 || options.secs <= 0.0 {
        refuse("--rounds and --secs must be more than nothing");
    }
    let mut report = report::Report::new();
    for (name, case) in cases::ALL {
        if options.names.iter().any(|wanted| wanted == name) {
            say(&format!("== {name}"));
            case(&options, &mut report);
        }
    }
    report.write(&tests::root().join("docs/performance.md"));
}

fn refuse(why: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "bench: {why}\n\n{USAGE}");
    std::process::exit(2)
}
