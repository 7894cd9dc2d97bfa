//! Searches that run: each is a task while it does, ends with its request, and has its deadline from when it came.
//!
//! Not here: where searches look at it (the engine), how tasks are shown (`handlers/tasks`).

use crate::Rest;
use crate::call::Call;
use dsl::search::SearchRequest;
use engine::tasks::Task;
use model::Target;
use std::sync::Arc;

/// The name of search tasks.
pub(crate) const ACTION: &str = "indices:data/read/search";
/// Bytes of the body that a description shows.
const SHOWN_BYTES: usize = 1024;

/// A search that runs. When it is dropped, because it is over or because its client is gone, the task ends and whoever
/// still works for it is told to stop.
pub(crate) struct Running {
    rest: Arc<Rest>,
    task: Arc<Task>,
}

impl Running {
    /// Enters a search among the tasks, and ties the request to it.
    pub(crate) fn enter(call: &Call, target: &Target, request: &mut SearchRequest) -> Running {
        let rest = call.rest.clone();
        let task = rest.tasks.start(ACTION, description(call, target), rest.clock.wall_ms());
        let deadline = request.timeout.and_then(|timeout| call.begun.checked_add(timeout));
        request.cancellation = task.cancellation().with_deadline(deadline);
        Running { rest, task }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.cancel();
        self.rest.tasks.remove(self.task.id);
    }
}

/// As Elasticsearch describes a search.
fn description(call: &Call, target: &Target) -> String {
    let mut end = call.body.len().min(SHOWN_BYTES);
    while end > 0 && end < call.body.len() && call.body[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    let body = String::from_utf8_lossy(&call.body[..end]);
    format!(
        "indices[{}], types[{}], search_type[QUERY_THEN_FETCH], source[{}]",
        target.expressions.join(","),
        target.types.join(","),
        body.trim()
    )
}
