//! Shards, recoveries and stores in the shape of Elasticsearch 2.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use crate::render::indices::shards_of;
use crate::respond::Answer;
use engine::{Inspected, Inspection};
use model::settings::{NUMBER_OF_SHARDS, number};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `GET /i/_segments`, of the form of 2015.
pub(crate) async fn segments(call: &mut Call) -> Result<Answer> {
    let target = call.target()?;
    let names = &call.rest.names;
    let Inspected::Stats(stats) = call.rest.engine.inspect(Inspection::Stats(target)).await? else {
        return Err(Error::new(ErrorKind::Internal, "segments are told by stats"));
    };
    let mut indices = Map::new();
    for (info, s) in &stats {
        let mut shards = Map::new();
        for shard in 0..number(&info.settings, NUMBER_OF_SHARDS).min(1024) {
            let count = if shard == 0 { s.segments } else { 0 };
            let mut segments = Map::new();
            for n in 0..count {
                // Every segment shows the same facts.
                let (docs, deleted, size) = if n == 0 {
                    (s.lucene_docs, s.deleted, s.size_bytes)
                } else {
                    (0, 0, 0)
                };
                segments.insert(
                    format!("_{n}"),
                    json!({ "generation": n, "num_docs": docs, "deleted_docs": deleted, "size_in_bytes": size, "memory_in_bytes": 0,
                        "committed": true, "search": true, "version": "5.5.4", "compound": false }),
                );
            }
            shards.insert(
                shard.to_string(),
                json!([{ "routing": { "state": crate::render::shards::shard_state(info), "primary": true, "node": names.node_id },
                    "num_committed_segments": count, "num_search_segments": count, "segments": segments }]),
            );
        }
        indices.insert(info.name.to_string(), json!({ "shards": shards }));
    }
    let infos: Vec<_> = stats.iter().map(|(i, _)| i.clone()).collect();
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true), "indices": indices })))
}

/// `GET /i/_shard_stores`: those of shards that have no copy; there are none.
pub(crate) async fn stores(call: &mut Call) -> Result<Answer> {
    let target = call.target()?;
    call.rest.indices(&target).await?;
    match call.params.take_2015("status").as_deref() {
        None | Some("yellow" | "red" | "yellow,red" | "red,yellow") => Ok(Answer::ok(json!({ "indices": {} }))),
        Some(other) => Err(Error::illegal(format!(
            "[status={other}] is not supported: one of [yellow], [red] is"
        ))),
    }
}

/// `GET /_segments` and the like, of all indices.
pub(crate) async fn all_segments(mut call: Call) -> Result<Answer> {
    let answer = segments(&mut call).await?;
    call.params.finish()?;
    Ok(answer)
}

/// `GET /_recovery`.
pub(crate) async fn all_recoveries(mut call: Call) -> Result<Answer> {
    let answer = recovery(&mut call).await?;
    call.params.finish()?;
    Ok(answer)
}

/// `GET /_shard_stores`.
pub(crate) async fn all_stores(mut call: Call) -> Result<Answer> {
    let answer = stores(&mut call).await?;
    call.params.finish()?;
    Ok(answer)
}

/// `GET /i/_recovery`, of the form of 2015: everything is here since the start.
pub(crate) async fn recovery(call: &mut Call) -> Result<Answer> {
    let target = call.target()?;
    let names = &call.rest.names;
    let node = json!({ "id": names.node_id, "host": "127.0.0.1", "transport_address": names.address, "ip": "127.0.0.1", "name": names.node });
    let mut out = Map::new();
    let infos = call.rest.indices(&target).await?;
    // Nothing is being recovered.
    if call.params.take_2015("active_only").is_some_and(|only| only != "false") {
        return Ok(Answer::ok(Value::Object(out)));
    }
    for info in infos {
        let parts = json!({ "total": 0, "reused": 0, "recovered": 0, "percent": "100.0%" });
        let bytes = json!({ "total_in_bytes": 0, "reused_in_bytes": 0, "recovered_in_bytes": 0, "percent": "100.0%" });
        let shards: Vec<Value> = (0..number(&info.settings, NUMBER_OF_SHARDS).min(1024))
            .map(|id| {
                json!({ "id": id, "type": "STORE", "stage": "DONE", "primary": true, "start_time_in_millis": info.created_ms,
                    "stop_time_in_millis": info.created_ms, "total_time_in_millis": 0, "source": node, "target": node,
                    "index": { "size": bytes, "files": parts, "total_time_in_millis": 0, "source_throttle_time_in_millis": 0, "target_throttle_time_in_millis": 0 },
                    "translog": { "recovered": 0, "total": 0, "percent": "100.0%", "total_on_start": 0, "total_time_in_millis": 0 },
                    "verify_index": { "check_index_time_in_millis": 0, "total_time_in_millis": 0 } })
            })
            .collect();
        out.insert(info.name.to_string(), json!({ "shards": shards }));
    }
    Ok(Answer::ok(Value::Object(out)))
}
