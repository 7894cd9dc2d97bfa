//! `_tasks`: what runs, what has ended, and stopping it.

use crate::Rest;
use crate::actions::tasks::{LIST, Listing, is_elsewhere, number, take_nodes};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::tasks::Task;
use model::{Error, ErrorKind, Result, path};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A task looks at its cancellation in every loop and every script.
const CANCELLED_IN: Duration = Duration::from_secs(60);

fn render(rest: &Rest, task: &Task, detailed: bool) -> Value {
    let mut out = Map::new();
    out.insert("node".into(), rest.names.node_id.as_str().into());
    out.insert("id".into(), task.id.into());
    out.insert("type".into(), "transport".into());
    out.insert("action".into(), task.action.as_str().into());
    let status = task.status();
    if !status.is_null() && detailed {
        out.insert("status".into(), status);
    }
    if detailed {
        out.insert("description".into(), task.description.as_str().into());
    }
    out.insert("start_time_in_millis".into(), task.start_ms.into());
    let nanos = task.running_ms(rest.clock.wall_ms()).max(0) * 1_000_000;
    out.insert("running_time_in_nanos".into(), nanos.into());
    out.insert("cancellable".into(), (task.action != LIST).into());
    out.insert("cancelled".into(), task.is_cancelled().into());
    let headers: Map<String, Value> = task
        .headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
        .collect();
    out.insert("headers".into(), headers.into());
    Value::Object(out)
}

/// Whether an answer waits until the tasks that it is about have ended, and how long.
struct TaskWait {
    wait: bool,
    timeout: Duration,
}

impl TaskWait {
    fn take(call: &mut Call) -> Result<TaskWait> {
        Ok(TaskWait {
            wait: call.params.flag("wait_for_completion")?,
            timeout: call.params.take_duration("timeout")?.unwrap_or(Duration::from_secs(30)),
        })
    }

    /// Lists of tasks are not waited for: they would wait for each other.
    ///
    /// # Errors
    /// One of them takes longer.
    async fn over(&self, rest: &Rest, tasks: &[Arc<Task>]) -> Result<()> {
        let until = rest.clock.monotonic() + self.timeout;
        for task in tasks.iter().filter(|task| self.wait && task.action != LIST) {
            while task.outcome().is_none() {
                if rest.clock.monotonic() > until {
                    let id = format!("{}:{}", rest.names.node_id, task.id);
                    let reason = format!("Timed out waiting for completion of task [{id}]");
                    return Err(Error::new(ErrorKind::Timeout, reason));
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(())
    }
}

/// `GET /_tasks`.
#[boxed]
pub(crate) async fn list(mut call: Call) -> Result<Answer> {
    let actions = call.params.take_list("actions").unwrap_or_default();
    let detailed = call.params.flag("detailed")?;
    let group = call.params.take("group_by").unwrap_or_else(|| "nodes".into());
    let here = take_nodes(&mut call);
    let wait = TaskWait::take(&mut call)?;
    call.params.finish()?;
    let wanted = |task: &Task| here && (actions.is_empty() || actions.iter().any(|a| path::matches(a, &task.action)));
    let rest = &call.rest;
    let _listing = Listing::begin(&call);
    let running: Vec<Arc<Task>> = rest
        .tasks
        .list()
        .into_iter()
        .filter(|t| t.outcome().is_none() && wanted(t))
        .collect();
    wait.over(rest, &running).await?;
    let tasks: Map<String, Value> = running
        .iter()
        .map(|t| (format!("{}:{}", rest.names.node_id, t.id), render(rest, t, detailed)))
        .collect();
    Ok(Answer::ok(match group.as_str() {
        "none" => json!({ "tasks": tasks.into_iter().map(|(_, v)| v).collect::<Vec<_>>() }),
        "parents" => json!({ "tasks": tasks }),
        "nodes" if !here => json!({ "nodes": {} }),
        "nodes" if call.dialect.rules.former_task_answers => json!({ "nodes": { rest.names.node_id.clone(): {
            "name": rest.names.node, "transport_address": rest.names.address, "host": "127.0.0.1", "ip": rest.names.address,
            "tasks": tasks } } }),
        "nodes" => json!({ "nodes": { rest.names.node_id.clone(): {
            "name": rest.names.node, "transport_address": rest.names.address, "host": "127.0.0.1", "ip": rest.names.address,
            "roles": ["data", "ingest", "master"], "tasks": tasks } } }),
        other => {
            return Err(Error::illegal(format!(
                "[group_by] must be one of [nodes], [parents] or [none] but was [{other}]"
            )));
        }
    }))
}

/// `GET /_tasks/{id}`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let id = call.path_part("task_id")?;
    let wait = TaskWait::take(&mut call)?;
    call.params.finish()?;
    if is_elsewhere(&call, &id) {
        return Ok(Answer::ok(json!({ "nodes": {} })));
    }
    let number = number(&call.rest, &id)?;
    let missing = || {
        Error::new(
            ErrorKind::ResourceNotFound,
            format!("task [{id}] isn't running and hasn't stored its results"),
        )
    };
    let task = call.rest.tasks.get(number).ok_or_else(missing)?;
    wait.over(&call.rest, std::slice::from_ref(&task)).await?;
    let mut out = Map::new();
    let outcome = task.outcome();
    out.insert("completed".into(), outcome.is_some().into());
    out.insert("task".into(), render(&call.rest, &task, true));
    match outcome {
        Some(Ok(response)) => out.insert("response".into(), response),
        Some(Err(error)) => out.insert("error".into(), Value::Object(error.to_json())),
        None => None,
    };
    Ok(Answer::ok(Value::Object(out)))
}

/// `POST /_reindex/{id}/_rethrottle`, and of the other jobs: they run as fast as the disk lets them, so that the answer tells
/// of the job and changes nothing.
#[boxed]
pub(crate) async fn rethrottle(mut call: Call) -> Result<Answer> {
    let id = call.path_part("task_id")?;
    let Some(given) = call.params.take("requests_per_second") else {
        return Err(Error::illegal("requests_per_second is a required parameter"));
    };
    call.params.finish()?;
    if given != "-1" && !given.parse::<f32>().is_ok_and(|rate| rate > 0.0) {
        let reason = "[requests_per_second] must be a float greater than 0. Use -1 to disable throttling.";
        return Err(Error::illegal(reason));
    }
    let rest = &call.rest;
    let elsewhere = id
        .rsplit_once(':')
        .filter(|(node, number)| *node != rest.names.node_id && number.parse::<u64>().is_ok());
    if let Some((node, _)) = elsewhere {
        return Ok(Answer::ok(json!({ "nodes": {}, "node_failures": [{
            "type": "failed_node_exception", "reason": format!("Failed node [{node}]"), "node_id": node,
            "caused_by": { "type": "no_such_node_exception", "reason": format!("No such node [{node}]"), "node_id": node } }] })));
    }
    let task = rest.tasks.get(number(rest, &id)?).filter(|task| task.outcome().is_none());
    let task = task.ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, format!("task [{id}] is missing")))?;
    Ok(Answer::ok(json!({ "nodes": { rest.names.node_id.clone(): {
        "name": rest.names.node, "transport_address": rest.names.address, "host": "127.0.0.1", "ip": rest.names.address,
        "roles": ["data", "ingest", "master"], "tasks": { id: render(rest, &task, true) } } } })))
}

/// The task that is to be cancelled, running or kept with its outcome; otherwise what its node says.
///
/// # Errors
/// The refusal of a text that is no id of a task.
fn find_task(rest: &Rest, id: &str) -> Result<std::result::Result<Arc<Task>, Value>> {
    let (node, number) = id
        .rsplit_once(':')
        .and_then(|(node, number)| Some((node, number.parse::<u64>().ok()?)))
        .ok_or_else(|| Error::illegal(format!("malformed task id {id}")))?;
    let failed = |cause: Value| json!({ "type": "failed_node_exception", "reason": format!("Failed node [{node}]"), "node_id": node, "caused_by": cause });
    if node != rest.names.node_id {
        let reason = format!("No such node [{node}]");
        return Ok(Err(failed(
            json!({ "type": "no_such_node_exception", "reason": reason, "node_id": node }),
        )));
    }
    let missing = || failed(json!({ "type": "resource_not_found_exception", "reason": format!("task [{id}] is not found") }));
    Ok(rest.tasks.get(number).ok_or_else(missing))
}

/// `POST /_tasks/{id}/_cancel`. One that has ended stays as it ended.
#[boxed]
pub(crate) async fn cancel(mut call: Call) -> Result<Answer> {
    let actions = call.params.take_list("actions").unwrap_or_default();
    let here = take_nodes(&mut call);
    let wait = call.params.flag("wait_for_completion")?;
    call.params.finish()?;
    let rest = &call.rest;
    let chosen = match call.arg("task_id") {
        Some(id) if is_elsewhere(&call, id) => Vec::new(),
        Some(id) => match find_task(rest, id)? {
            Ok(task) => vec![task],
            // The node says what it could not do; the request as such was carried out.
            Err(failure) => return Ok(Answer::ok(json!({ "node_failures": [failure], "nodes": {} }))),
        },
        None => rest
            .tasks
            .list()
            .into_iter()
            .filter(|t| here && t.action != LIST && t.outcome().is_none())
            .filter(|t| actions.iter().any(|a| path::matches(a, &t.action)))
            .collect(),
    };
    let mut tasks = Map::new();
    for task in &chosen {
        // The durable record first: after the answer no restart goes on with the task.
        if task.outcome().is_none() {
            if !crate::running::is_search(&task.action) {
                rest.relations.stop(task.id).await?;
            }
            task.cancel();
        }
        tasks.insert(format!("{}:{}", rest.names.node_id, task.id), render(rest, task, true));
    }
    let wait = TaskWait {
        wait,
        timeout: CANCELLED_IN,
    };
    wait.over(rest, &chosen).await?;
    if tasks.is_empty() {
        return Ok(Answer::ok(json!({ "nodes": {} })));
    }
    Ok(Answer::ok(
        json!({ "nodes": { rest.names.node_id.clone(): { "name": rest.names.node, "tasks": tasks } } }),
    ))
}
