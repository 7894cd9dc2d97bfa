//! What shards are made of, as today's servers tell it: segments, recoveries, stores. The shape of Elasticsearch 2 is
//! in `actions::es2_shards`.

use crate::call::Call;
use crate::query_params::split_list;
use crate::render::cluster::missing_replicas;
use crate::render::indices::shards_of;
use crate::render::shards::{LUCENE, count_of, recovered_from, segments_of, shard_state, stats};
use crate::respond::Answer;
use crate::targets::administration::admin_target;
use async_recursion::async_recursion as boxed;
use model::{Error, Result};
use serde_json::{Map, Value, json};

/// `GET /_segments`, `GET /i/_segments`.
#[boxed]
pub(crate) async fn segments(mut call: Call) -> Result<Answer> {
    if call.dialect.rules.former_shard_apis {
        return crate::actions::es2_shards::all_segments(call).await;
    }
    let target = call.target()?;
    call.params.finish()?;
    let stats = stats(&call, target).await?;
    let mut indices = Map::new();
    for (info, s) in &stats {
        let mut shards = Map::new();
        for shard in 0..count_of(info) {
            let segments: Map<String, Value> = segments_of(s, shard)
                .map(|(no, one)| {
                    let body = json!({ "generation": no, "num_docs": one.docs, "deleted_docs": one.deleted, "size_in_bytes": one.size_bytes,
                        "memory_in_bytes": 0, "committed": one.committed, "search": true, "version": LUCENE, "compound": true, "attributes": {} });
                    (format!("_{no}"), body)
                })
                .collect();
            let committed = segments.values().filter(|one| one["committed"] == true).count();
            let copy = json!({ "routing": { "state": shard_state(info), "primary": true, "node": call.rest.names.node_id },
                "num_committed_segments": committed, "num_search_segments": segments.len(), "segments": segments });
            shards.insert(shard.to_string(), json!([copy]));
        }
        indices.insert(info.name.to_string(), json!({ "shards": shards }));
    }
    let infos: Vec<_> = stats.into_iter().map(|(info, _)| info).collect();
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true), "indices": indices })))
}

/// `GET /_recovery`, `GET /i/_recovery`: everything is here, and nothing is on its way.
#[boxed]
pub(crate) async fn recovery(mut call: Call) -> Result<Answer> {
    if call.dialect.rules.former_shard_apis {
        return crate::actions::es2_shards::all_recoveries(call).await;
    }
    let target = admin_target(&mut call)?;
    let active_only = call.params.flag("active_only")?;
    let detailed = call.params.flag("detailed")?;
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    let names = &call.rest.names;
    let node = json!({ "id": names.node_id, "host": "127.0.0.1", "transport_address": names.address, "ip": "127.0.0.1", "name": names.node });
    let now = call.rest.clock.wall_ms();
    let mut out = Map::new();
    for info in infos.iter().filter(|_| !active_only) {
        let from = recovered_from(info, now);
        let date = crate::human::date_text(info.created_ms);
        let source = match info.restored_from.as_ref().filter(|_| from == "SNAPSHOT") {
            Some(restored) => json!({ "repository": restored.repository, "snapshot": restored.snapshot, "index": restored.index,
                "version": call.dialect.persona.version() }),
            None => json!({}),
        };
        let shards: Vec<Value> = (0..count_of(info))
            .map(|id| {
                let mut files = json!({ "total": 0, "reused": 0, "recovered": 0, "percent": "0.0%" });
                if detailed {
                    files["details"] = json!([]);
                }
                let mut shard = json!({ "id": id, "type": from, "stage": "DONE", "primary": true, "start_time_in_millis": info.created_ms,
                    "stop_time_in_millis": info.created_ms, "total_time_in_millis": 0, "source": source, "target": node,
                    "index": { "size": { "total_in_bytes": 0, "reused_in_bytes": 0, "recovered_in_bytes": 0, "percent": "0.0%" },
                        "files": files, "total_time_in_millis": 0, "source_throttle_time_in_millis": 0, "target_throttle_time_in_millis": 0 },
                    "translog": { "recovered": 0, "total": 0, "percent": "100.0%", "total_on_start": 0, "total_time_in_millis": 0 },
                    "verify_index": { "check_index_time_in_millis": 0, "total_time_in_millis": 0 } });
                if call.style.human {
                    (shard["start_time"], shard["stop_time"]) = (date.as_str().into(), date.as_str().into());
                }
                shard
            })
            .collect();
        out.insert(info.name.to_string(), json!({ "shards": shards }));
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `GET /_shard_stores`, `GET /i/_shard_stores`: where the copies of shards of some health are kept.
#[boxed]
pub(crate) async fn stores(mut call: Call) -> Result<Answer> {
    if call.dialect.rules.former_shard_apis {
        return crate::actions::es2_shards::all_stores(call).await;
    }
    let target = admin_target(&mut call)?;
    let wanted = call
        .params
        .take("status")
        .map_or_else(|| vec!["yellow".into(), "red".into()], |list| split_list(&list));
    call.params.finish()?;
    if let Some(other) = wanted
        .iter()
        .find(|one| !["green", "yellow", "red", "all"].contains(&one.as_str()))
    {
        return Err(Error::illegal(format!("unknown cluster health status [{other}]")));
    }
    let names = &call.rest.names;
    let mut indices = Map::new();
    for info in call.rest.indices(&target).await? {
        // A replica that is asked for has no second node to be on.
        let health = match missing_replicas(&info, call.dialect.persona) {
            0 => "green",
            _ => "yellow",
        };
        if !wanted.iter().any(|one| one == health || one == "all") {
            continue;
        }
        let shards: Map<String, Value> = (0..count_of(&info))
            .map(|shard| {
                let store = json!({ names.node_id.clone(): { "name": names.node, "ephemeral_id": names.node_id, "transport_address": names.address, "attributes": {} },
                    "allocation_id": format!("{}-{shard}", info.uuid), "allocation": "primary" });
                (shard.to_string(), json!({ "stores": [store] }))
            })
            .collect();
        indices.insert(info.name.to_string(), json!({ "shards": shards }));
    }
    Ok(Answer::ok(json!({ "indices": indices })))
}
