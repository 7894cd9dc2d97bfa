//! Features that clients ask about and this server has none of: data streams, ingest pipelines.
//!
//! Nothing is there, so reading and deleting are answered as the reference answers where there is nothing; making one is refused
//! (`unsupported`).

use crate::call::Call;
use crate::missing_index;
use crate::query_params::split_list;
use crate::render::patterns::is_pattern;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::Result;
use serde_json::json;

/// `GET /_data_stream/{name}`.
#[boxed]
pub(crate) async fn data_streams(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let names = call.arg("name").map(split_list).unwrap_or_default();
    match names.iter().find(|name| !is_pattern(name)) {
        Some(name) => Err(missing_index(name)),
        None => Ok(Answer::ok(json!({ "data_streams": [] }))),
    }
}

/// `GET /_remote/info`: no other cluster is known.
#[boxed]
pub(crate) async fn remote_clusters(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::ok(json!({})))
}

/// `GET /_dangling`: every index in the folder is in the catalog.
#[boxed]
pub(crate) async fn dangling(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::ok(
        json!({ "_nodes": { "total": 1, "successful": 1, "failed": 0 }, "cluster_name": call.rest.names.cluster, "dangling_indices": [] }),
    ))
}

/// `DELETE /_data_stream/{name}`.
#[boxed]
pub(crate) async fn delete_data_streams(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `GET /_ingest/pipeline/{id}`.
#[boxed]
pub(crate) async fn pipelines(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::of(404, json!({})))
}
