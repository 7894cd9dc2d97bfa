//! Tables of what this server has none of: fielddata in memory, tasks that wait, repositories and snapshots, pools of threads
//! that requests queue for. Each has its columns, so that who reads it by name finds them.

use super::layout_only;
use crate::call::Call;
use crate::handlers::absent::is_pattern;
use crate::handlers::apis_2015::missing_repository;
use crate::params::split_list;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, extra, extra_text, num};
use model::{Error, ErrorKind, Result, path};

const FIELDDATA: &[Column] = &[
    col("id", &[], "node id"),
    col("host", &["h"], "host name"),
    col("ip", &[], "ip address"),
    col("node", &["n"], "node name"),
    col("field", &["f"], "field name"),
    num("size", &["s"], "field data usage"),
];

/// `_cat/fielddata`: columns are read from the disk's pages, none is loaded.
pub(crate) async fn fielddata(mut call: Call) -> Result<Answer> {
    layout_only(&mut call)?.write(FIELDDATA, Vec::new())
}

const PENDING_TASKS: &[Column] = &[
    num("insertOrder", &["o"], "task insertion order"),
    num("timeInQueue", &["t"], "how long task has been in queue"),
    col("priority", &["p"], "task priority"),
    col("source", &["s"], "task source"),
];

/// `_cat/pending_tasks`: nothing waits.
pub(crate) async fn pending_tasks(mut call: Call) -> Result<Answer> {
    layout_only(&mut call)?.write(PENDING_TASKS, Vec::new())
}

const REPOSITORIES: &[Column] = &[
    col("id", &["repoId"], "unique repository id"),
    col("type", &["t"], "repository type"),
];

/// `_cat/repositories`.
pub(crate) async fn repositories(mut call: Call) -> Result<Answer> {
    layout_only(&mut call)?.write(REPOSITORIES, Vec::new())
}

const SNAPSHOTS: &[Column] = &[
    col("id", &["snapshot"], "unique snapshot"),
    col("status", &["s"], "snapshot name"),
    num(
        "start_epoch",
        &["ste", "startEpoch"],
        "start time in seconds since 1970-01-01 00:00:00",
    ),
    num("start_time", &["sti", "startTime"], "start time in HH:MM:SS"),
    num(
        "end_epoch",
        &["ete", "endEpoch"],
        "end time in seconds since 1970-01-01 00:00:00",
    ),
    num("end_time", &["eti", "endTime"], "end time in HH:MM:SS"),
    num("duration", &["dur"], "duration"),
    num("indices", &["i"], "number of indices"),
    num("successful_shards", &["ss"], "number of successful shards"),
    num("failed_shards", &["fs"], "number of failed shards"),
    num("total_shards", &["ts"], "number of total shards"),
    extra_text("reason", &["r"], "reason for failures"),
];

/// `_cat/snapshots/{repository}`.
pub(crate) async fn snapshots(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let lenient = call.params.flag("ignore_unavailable")?;
    let named = call.params.take("repository");
    call.params.finish()?;
    if layout.is_help() {
        return layout.write(SNAPSHOTS, Vec::new());
    }
    match call.arg("repository").map(str::to_owned).or(named) {
        None if call.dialect.persona.is_opensearch() => Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: repository is missing;",
        )),
        Some(name) if !lenient && !is_pattern(&name) => Err(missing_repository(&name)),
        _ => layout.write(SNAPSHOTS, Vec::new()),
    }
}

const THREAD_POOL: &[Column] = &[
    col("node_name", &["nn"], "node name"),
    extra_text("node_id", &["id"], "persistent node id"),
    extra_text("ephemeral_node_id", &["eid"], "ephemeral node id"),
    extra("pid", &["p"], "process id"),
    extra_text("host", &["h"], "host name"),
    extra_text("ip", &["i"], "ip address"),
    extra("port", &["po"], "bound transport port"),
    col("name", &["n"], "thread pool name"),
    extra_text("type", &["t"], "thread pool type"),
    num("active", &["a"], "number of active threads"),
    extra("pool_size", &["psz"], "number of threads"),
    num("queue", &["q"], "number of tasks currently in queue"),
    extra("queue_size", &["qs"], "maximum number of tasks permitted in queue"),
    num("rejected", &["r"], "number of rejected tasks"),
    extra("largest", &["l"], "highest number of seen active threads"),
    extra("completed", &["c"], "number of completed tasks"),
    extra("core", &["cr"], "core number of threads in a scaling thread pool"),
    extra("max", &["mx"], "maximum number of threads in a scaling thread pool"),
    extra("size", &["sz"], "number of threads in a fixed thread pool"),
    extra("keep_alive", &["ka"], "thread keep alive time"),
];

/// The pools that clients ask after, with their types. There are none of that kind here: a request is worked on by the
/// task of its connection, so that nothing waits in them.
const POOLS: &[(&str, &str)] = &[
    ("analyze", "fixed"),
    ("fetch_shard_started", "scaling"),
    ("fetch_shard_store", "scaling"),
    ("flush", "scaling"),
    ("force_merge", "fixed"),
    ("generic", "scaling"),
    ("get", "fixed"),
    ("management", "scaling"),
    ("refresh", "scaling"),
    ("search", "fixed"),
    ("search_throttled", "fixed"),
    ("snapshot", "scaling"),
    ("system_read", "fixed"),
    ("system_write", "fixed"),
    ("warmer", "scaling"),
    ("write", "fixed"),
];

/// `_cat/thread_pool`.
pub(crate) async fn thread_pool(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let named = call.params.take_list("thread_pool_patterns").unwrap_or_default();
    call.params.finish()?;
    let wanted = call.arg("thread_pool_patterns").map_or(named, split_list);
    let names = &call.rest.names;
    let rows = POOLS
        .iter()
        .filter(|(pool, _)| wanted.is_empty() || wanted.iter().any(|w| path::matches(w, pool)))
        .map(|(pool, kind)| {
            let column = |column: &Column| match column.name {
                "node_name" => Cell::of(&names.node),
                "node_id" | "ephemeral_node_id" => Cell::of(&names.node_id),
                "pid" => Cell::of(std::process::id()),
                "host" | "ip" => Cell::of("127.0.0.1"),
                "port" => Cell::if_any(names.address.rsplit(':').next()),
                "name" => Cell::of(pool),
                "type" => Cell::of(kind),
                "queue_size" => Cell::of(-1),
                "core" | "max" | "keep_alive" if *kind == "fixed" => Cell::Nothing,
                "size" if *kind != "fixed" => Cell::Nothing,
                _ => Cell::of(0),
            };
            THREAD_POOL.iter().map(column).collect()
        })
        .collect();
    layout.write(THREAD_POOL, rows)
}
