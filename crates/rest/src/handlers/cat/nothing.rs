//! Tables of what this server has none of: fielddata in memory, tasks that wait, repositories and snapshots. Each has its
//! columns, so that who reads it by name finds them.

use crate::actions::es2_shards::missing_repository;
use crate::call::Call;
use crate::render::cat::layout_only;
use crate::render::patterns::is_pattern;
use crate::respond::Answer;
use crate::tables::{Column, Layout, col, extra_text, num};
use model::{Error, ErrorKind, Result};

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
