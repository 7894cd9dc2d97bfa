//! `pleach tasks`: what a server is doing, and an end to one of it.
//!
//! Not here: which requests are tasks (`rest`), the form of what is printed (`rows`).

use super::rows::{CODES, Common, failure, table};
use crate::client::{JSON, segment};
use crate::console::{complain, say};
use model::{Error, Result, units};
use serde_json::{Map, Value};
use std::process::ExitCode;
use std::time::Duration;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = CODES)]
pub(crate) struct TasksFlags {
    /// Only actions of this name, with commas and `*`, such as `*search`.
    #[arg(long, value_name = "NAMES")]
    actions: Option<String>,
    /// End the task with this id, as the list has it.
    // Ids of nodes are random and may begin with a hyphen.
    #[arg(long, value_name = "TASK", conflicts_with = "actions", allow_hyphen_values = true)]
    cancel: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// The tasks of a server, or the end of one.
///
/// # Errors
/// A server that cannot be reached, an answer that is no list of tasks.
pub(crate) fn run(flags: &TasksFlags) -> Result<ExitCode> {
    match &flags.cancel {
        Some(id) => cancel(flags, id),
        None => list(flags),
    }
}

fn list(flags: &TasksFlags) -> Result<ExitCode> {
    let mut path = "/_tasks?detailed=true&group_by=none".to_owned();
    if let Some(actions) = &flags.actions {
        path.push_str(&format!("&actions={}", segment(actions)));
    }
    let answer = flags.common.client()?.send("GET", &path, JSON, b"")?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let Some(tasks) = answer.body["tasks"].as_array() else {
        return Err(Error::illegal(
            "the answer to [GET /_tasks] is no list of tasks: is the server one of version 5 or later?",
        ));
    };
    let rows: Vec<Map<String, Value>> = tasks.iter().map(row_of_task).collect();
    let columns = ["task", "action", "running", "cancellable", "x_opaque_id", "description"];
    table(&flags.common, &columns, &rows)
}

/// The row of a task in the answer of `_tasks`.
pub(super) fn row_of_task(task: &Value) -> Map<String, Value> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let nanos = task["running_time_in_nanos"].as_u64().unwrap_or_default();
    let members = [
        ("task", format!("{}:{}", text(&task["node"]), task["id"]).into()),
        ("action", task["action"].clone()),
        (
            "running",
            units::render_duration(Duration::from_millis(nanos / 1_000_000)).into(),
        ),
        ("cancellable", task["cancellable"].clone()),
        ("x_opaque_id", task["headers"]["X-Opaque-Id"].clone()),
        ("description", task["description"].clone()),
    ];
    let members = members.into_iter().filter(|(_, value)| !value.is_null());
    members.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn cancel(flags: &TasksFlags, id: &str) -> Result<ExitCode> {
    let path = format!("/_tasks/{}/_cancel", segment(id));
    let answer = flags.common.client()?.send("POST", &path, JSON, b"")?;
    if let Some(code) = failure(&answer) {
        return Ok(code);
    }
    let failures = answer.body["node_failures"].as_array().into_iter().flatten();
    let failures = failures.chain(answer.body["task_failures"].as_array().into_iter().flatten());
    // A task that is not there is a failure of its node, in an answer of status 200.
    if let Some(failure) = failures.into_iter().next() {
        let reason = failure["caused_by"]["reason"].as_str().or_else(|| failure["reason"].as_str());
        complain(reason.unwrap_or("the server gave no reason"));
        return Ok(ExitCode::from(super::rows::NOT_FOUND));
    }
    say(&format!("[{id}] ends\n"));
    Ok(ExitCode::SUCCESS)
}
