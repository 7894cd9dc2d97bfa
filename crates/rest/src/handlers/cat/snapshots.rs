//! Tables of repositories and snapshots.

use crate::actions::snapshots::{choice, repositories_of, snapshots_of};
use crate::call::Call;
use crate::human::date_text;
use crate::query_params::split_list;
use crate::render::cat::layout_only;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, extra_text, num};
use async_recursion::async_recursion as boxed;
use model::{Error, ErrorKind, Result};
use snapshot::{State, Summary};

const REPOSITORIES: &[Column] = &[
    col("id", &["repoId"], "unique repository id"),
    col("type", &["t"], "repository type"),
];

/// `_cat/repositories`.
#[boxed]
pub(crate) async fn repositories(mut call: Call) -> Result<Answer> {
    let layout = layout_only(&mut call)?;
    let all = repositories_of(&call.rest);
    let rows = all.into_iter().map(|one| vec![Cell::of(one.name), Cell::of(one.kind)]);
    layout.write(REPOSITORIES, rows.collect())
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
#[boxed]
pub(crate) async fn snapshots(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let lenient = call.params.flag("ignore_unavailable")?;
    let named = call.params.take("repository");
    call.params.finish()?;
    if layout.is_help() {
        return layout.write(SNAPSHOTS, Vec::new());
    }
    let named = call.arg("repository").map(str::to_owned).or(named);
    if named.is_none() && call.dialect.persona.is_opensearch() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: repository is missing;",
        ));
    }
    let names = named.as_deref().map(split_list).unwrap_or_default();
    let mut rows = Vec::new();
    for repository in choice::repositories(repositories_of(&call.rest), &names, lenient)? {
        let listed = snapshots_of(&call.rest)?.list(&repository.name).await?;
        rows.extend(listed.iter().map(|one| row(one)));
    }
    layout.write(SNAPSHOTS, rows)
}

fn row(one: &Summary) -> Vec<Cell> {
    let time = |ms: i64| Cell::of(date_text(ms).get(11..19).unwrap_or_default());
    let seconds = |ms: i64| Cell::of(ms / 1000);
    let is_over = one.state != State::InProgress;
    let took = u64::try_from(one.end_ms - one.start_ms).unwrap_or(0);
    let reason = one
        .failures
        .first()
        .map(|failure| format!("{}: {}", failure.index, failure.reason));
    vec![
        Cell::of(&one.name),
        Cell::of(one.state.wire()),
        seconds(one.start_ms),
        time(one.start_ms),
        if is_over { seconds(one.end_ms) } else { Cell::Nothing },
        if is_over { time(one.end_ms) } else { Cell::Nothing },
        if is_over { Cell::Millis(took) } else { Cell::Nothing },
        Cell::of(one.indices.len()),
        Cell::of(one.shards - one.failed_shards),
        Cell::of(one.failed_shards),
        Cell::of(one.shards),
        Cell::if_any(reason),
    ]
}
