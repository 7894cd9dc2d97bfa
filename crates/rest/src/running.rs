//! Searches that run: each is a task while it does, ends with its request, and has its deadline from when it came.
//!
//! Not here: where searches look at it (the engine), how tasks are shown (`handlers/tasks`).

use crate::Rest;
use dsl::search::SearchRequest;
use engine::tasks::Task;
use model::{Cancellation, Error, ErrorKind, Result, Target};
use std::sync::Arc;
use std::time::Instant;

/// The name of search tasks.
const ACTION: &str = "indices:data/read/search";
/// The name of the task of a request with several searches, while it is read.
const ACTION_OF_MANY: &str = "indices:data/read/msearch";
/// Ids that a client gives its request, by header.
pub(crate) type TaskHeaders = Vec<(&'static str, String)>;
/// Bytes of the body that a description shows.
const SHOWN_BYTES: usize = 1024;

/// Is it the action of a task that searches, and not of a job, which goes on after a restart?
pub(crate) fn is_search(action: &str) -> bool {
    [ACTION, ACTION_OF_MANY].contains(&action)
}

/// A search that runs. When it is dropped, because it is over or because its client is gone, the task ends and whoever
/// still works for it is told to stop.
#[derive(Debug)]
pub(crate) struct Running {
    rest: Arc<Rest>,
    task: Arc<Task>,
}

impl Running {
    /// A search is a task from here on, before its body is parsed. `headers`: the ids that its client gave the request.
    pub(crate) fn begin(rest: &Arc<Rest>, headers: TaskHeaders, body: &[u8], target: &Target) -> Running {
        Running::start(rest, headers, body, target, ACTION)
    }

    /// The same for a request of several searches, each of which has a task of its own when it runs.
    pub(crate) fn begin_many(rest: &Arc<Rest>, headers: TaskHeaders, body: &[u8], target: &Target) -> Running {
        Running::start(rest, headers, body, target, ACTION_OF_MANY)
    }

    fn start(rest: &Arc<Rest>, headers: TaskHeaders, body: &[u8], target: &Target, action: &str) -> Running {
        let rest = rest.clone();
        let now_ms = rest.clock.wall_ms();
        let task = rest.tasks.start_for(action, description(body, target), headers, now_ms);
        Running { rest, task }
    }

    /// Ties a search to the task; its time counts from when its request had `begun`.
    pub(crate) fn tie(&self, request: &mut SearchRequest, begun: Instant) {
        let deadline = request.timeout.and_then(|timeout| begun.checked_add(timeout));
        request.cancellation = self.task.cancellation().with_deadline(deadline);
    }

    /// The cancellation that its work checks.
    pub(crate) fn cancellation(&self) -> &Cancellation {
        self.task.cancellation()
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// 400 `task_cancelled_exception`.
    pub(crate) fn check(cancellation: &Cancellation) -> Result<()> {
        match cancellation.is_cancelled() {
            true => Err(Error::new(ErrorKind::TaskCancelled, "The task is cancelled.")),
            false => Ok(()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.cancel();
        self.rest.tasks.remove(self.task.id);
    }
}

/// As Elasticsearch describes a search.
fn description(body: &[u8], target: &Target) -> String {
    let mut end = body.len().min(SHOWN_BYTES);
    while end > 0 && end < body.len() && body[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    let body = String::from_utf8_lossy(&body[..end]);
    format!(
        "indices[{}], types[{}], search_type[QUERY_THEN_FETCH], source[{}]",
        target.expressions.join(","),
        target.types.join(","),
        body.trim()
    )
}
