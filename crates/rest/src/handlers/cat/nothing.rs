//! Tables of what this server has none of: fielddata in memory, tasks that wait. Each has its columns, so that who reads it by
//! name finds them.

use crate::call::Call;
use crate::render::cat::layout_only;
use crate::respond::Answer;
use crate::tables::{Column, col, num};
use async_recursion::async_recursion as boxed;
use model::Result;

const FIELDDATA: &[Column] = &[
    col("id", &[], "node id"),
    col("host", &["h"], "host name"),
    col("ip", &[], "ip address"),
    col("node", &["n"], "node name"),
    col("field", &["f"], "field name"),
    num("size", &["s"], "field data usage"),
];

/// `_cat/fielddata`: columns are read from the disk's pages, none is loaded.
#[boxed]
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
#[boxed]
pub(crate) async fn pending_tasks(mut call: Call) -> Result<Answer> {
    layout_only(&mut call)?.write(PENDING_TASKS, Vec::new())
}
