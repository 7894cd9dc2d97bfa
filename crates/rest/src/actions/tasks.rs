//! Requests that go on as a task.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::Rest;
use crate::call::Call;
use crate::render::nodes::is_this_node;
use crate::respond::Answer;
use engine::tasks::Task;
use model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::sync::Arc;

/// The action of listing tasks, which lists itself.
pub(crate) const LIST: &str = "cluster:monitor/tasks/lists";

/// The task of a request that lists tasks. It is in the list as long as this is held.
pub(crate) struct Listing {
    rest: Arc<Rest>,
    task: Arc<Task>,
}

impl Listing {
    pub(crate) fn begin(call: &Call) -> Listing {
        Listing {
            rest: call.rest.clone(),
            task: call.start_task(LIST, String::new()),
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.rest
            .tasks
            .finish(&self.task, Ok(Value::Null), false, self.rest.clock.wall_ms());
    }
}

/// Takes `nodes` (once `node_id`): is this node among them?
pub(crate) fn take_nodes(call: &mut Call) -> bool {
    let given = call.params.take_any(&["nodes", "node_id"]);
    given.is_none_or(|nodes| is_this_node(&call.rest.names, &crate::query_params::split_list(&nodes)))
}

pub(crate) fn number(rest: &Rest, id: &str) -> Result<u64> {
    let malformed = || Error::illegal(format!("malformed task id {id}"));
    let (node, number) = id.rsplit_once(':').ok_or_else(malformed)?;
    let number = number.parse().map_err(|_| malformed())?;
    if node != rest.names.node_id {
        let reason = format!(
            "task [{id}] belongs to the node [{node}] which isn't part of the cluster and there is no record of the task"
        );
        return Err(Error::new(ErrorKind::ResourceNotFound, reason));
    }
    Ok(number)
}

/// In 2015 a task of a node that nobody knows was none.
pub(crate) fn is_elsewhere(call: &Call, id: &str) -> bool {
    let parts = id.rsplit_once(':');
    call.dialect.rules.former_task_answers
        && parts.is_some_and(|(node, number)| node != call.rest.names.node_id && number.parse::<u64>().is_ok())
}

/// Runs catalog work that a client does not want to wait for: the answer is a task.
pub(crate) fn in_background(call: &Call, action: &str, description: String, work: engine::Alteration) -> Answer {
    let rest = call.rest.clone();
    let task = call.start_task(action, description);
    let id = format!("{}:{}", rest.names.node_id, task.id);
    tokio::spawn(async move {
        let done = rest
            .alter(work)
            .await
            .map(|_| json!({ "acknowledged": true, "shards_acknowledged": true }));
        rest.tasks.finish(&task, done, true, rest.clock.wall_ms());
    });
    Answer::ok(json!({ "task": id }))
}
