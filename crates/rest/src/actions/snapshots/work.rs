//! Snapshots and restores as tasks: they go on when their client is gone.

use super::snapshots_of;
use crate::Rest;
use crate::call::Call;
use dsl::json::Node;
use engine::snapshots::{RestoreOrder, Restored, SnapshotOrder};
use engine::tasks::Task;
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};
use snapshot::Summary;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Begins a snapshot; its handle gives the outcome.
///
/// # Errors
/// Those of `engine::snapshots::Snapshots::begin`.
pub(crate) async fn begin_snapshot(call: &Call, order: SnapshotOrder) -> Result<JoinHandle<Result<Arc<Summary>>>> {
    let rest = call.rest.clone();
    let description = format!("snapshot [{}:{}]", order.repository, order.name);
    let uuid = snapshots_of(&rest)?.begin(order).await?;
    let task = call.start_task("cluster:admin/snapshot/create", description);
    Ok(tokio::spawn(async move {
        let done = snapshots_of(&rest)?.run(&uuid, task.clone()).await;
        finish(&rest, &task, done.as_ref().err());
        done
    }))
}

/// Begins a restore that was checked; its handle gives the outcome. `renamed`: names of indices in the snapshot and afterwards.
pub(crate) fn begin_restore(call: &Call, order: RestoreOrder) -> JoinHandle<Result<(Restored, Vec<Value>)>> {
    let rest = call.rest.clone();
    let description = format!("restore of snapshot [{}:{}]", order.repository, order.snapshot);
    let task = call.start_task("cluster:admin/snapshot/restore", description);
    tokio::spawn(async move {
        let renamed = order.indices.clone();
        let done = snapshots_of(&rest)?.restore(order, task.clone()).await;
        rest.forget_known();
        let done = match done {
            Ok(restored) => {
                // A failure is harmless: the next start forgets the locks of an index that is gone.
                let _ = rest.relations.forget_gone().await;
                let refused = put_policies(&rest, restored.global.as_ref(), &renamed).await;
                Ok((restored, refused))
            }
            Err(error) => Err(error),
        };
        finish(&rest, &task, done.as_ref().err());
        done
    })
}

/// Waits for what was begun.
///
/// # Errors
/// Its own; a fault of the server.
pub(crate) async fn outcome<T>(handle: JoinHandle<Result<T>>) -> Result<T> {
    handle.await.unwrap_or_else(|cause| {
        let reason = format!("the work ended by a fault of the server: {cause}");
        Err(Error::new(ErrorKind::Internal, reason))
    })
}

fn finish(rest: &Rest, task: &Task, error: Option<&Error>) {
    let outcome = error.map_or(Ok(Value::Null), |error| Err(error.clone()));
    rest.tasks.finish(task, outcome, false, rest.clock.wall_ms());
}

/// The part of the global state that the engine does not have: link policies.
pub(crate) fn global_of(rest: &Rest) -> Map<String, Value> {
    let policies: Map<String, Value> = rest
        .relations
        .link_policies()
        .iter()
        .map(|policy| (policy.name.clone(), policy.render()))
        .collect();
    let mut out = Map::new();
    if !policies.is_empty() {
        out.insert("link_policies".to_owned(), Value::Object(policies));
    }
    out
}

/// A policy of the same name belonged to the indices of before.
async fn put_policy(rest: &Rest, name: &str, body: Value) -> Result<()> {
    if rest.relations.link_policy(name).is_ok() {
        rest.relations.delete_link_policy(name).await?;
    }
    rest.relations.put_link_policy(name, Node::from_value(body)).await.map(drop)
}

/// Puts the link policies of a snapshot, over the indices as they are named now. Gives those that were refused, in words.
async fn put_policies(rest: &Rest, global: Option<&Value>, renamed: &[(String, String)]) -> Vec<Value> {
    let policies = global
        .and_then(|global| global["link_policies"].as_object())
        .cloned()
        .unwrap_or_default();
    let mut refused = Vec::new();
    for (name, mut body) in policies {
        for end in ["source", "target"] {
            let known = renamed.iter().find(|(from, _)| body[end]["index"] == from.as_str());
            if let Some((_, to)) = known {
                body[end]["index"] = to.as_str().into();
            }
        }
        if let Err(error) = put_policy(rest, &name, body).await {
            refused.push(json!({ "name": name, "reason": error.reason() }));
        }
    }
    refused
}
