//! Facts of the node, as answers show them.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::Names;
use crate::call::Call;
use crate::respond::Answer;
use engine::{Inspected, Inspection, NodeStats, Trouble};
use model::{Persona, Result};
use serde_json::{Map, Value, json};

/// Does one of these name the node that there is?
pub(crate) fn is_this_node(names: &Names, wanted: &[String]) -> bool {
    let own = [
        "_all",
        "_local",
        "_master",
        "_cluster_manager",
        names.node_id.as_str(),
        names.node.as_str(),
        names.address.as_str(),
        "127.0.0.1",
    ];
    wanted.is_empty()
        || wanted
            .iter()
            .any(|w| own.contains(&w.as_str()) || model::path::matches(w, &names.node))
}

pub(crate) async fn node_stats(call: &Call) -> Result<NodeStats> {
    match call.rest.engine.inspect(Inspection::Node).await? {
        Inspected::Node(stats) => Ok(*stats),
        _ => Ok(NodeStats::default()),
    }
}

/// The roles of this node, sorted.
pub(crate) fn roles(persona: Persona) -> &'static [&'static str] {
    match persona {
        Persona::Opensearch1 => &["data", "ingest", "master", "remote_cluster_client"],
        persona if persona.is_opensearch() => &["cluster_manager", "data", "ingest", "remote_cluster_client"],
        Persona::Es7 => &["data", "ingest", "master", "remote_cluster_client"],
        _ => &["data", "ingest", "master"],
    }
}

/// The answer of a request to nodes.
pub(crate) fn of_node(call: &Call, chosen: bool, node: Value) -> Answer {
    let names = &call.rest.names;
    let nodes = if chosen {
        json!({ names.node_id.clone(): node })
    } else {
        json!({})
    };
    if call.dialect.persona == Persona::Es2 {
        return Answer::ok(json!({ "cluster_name": names.cluster, "nodes": nodes }));
    }
    let count = u8::from(chosen);
    Answer::ok(
        json!({ "_nodes": { "total": count, "successful": count, "failed": 0 }, "cluster_name": names.cluster, "nodes": nodes }),
    )
}

/// Adds the memory of all caches: entries of deleted indices stay until they make room.
pub(crate) fn with_caches(indices: &mut Map<String, Value>, own: &NodeStats) {
    let derived = own.breakers.iter().find(|breaker| breaker.name == "fielddata");
    for (section, bytes) in [
        ("query_cache", own.filters_bytes),
        ("request_cache", own.request_cache_bytes),
        ("fielddata", derived.map_or(0, |breaker| breaker.used_bytes)),
    ] {
        if let Some(Value::Object(section)) = indices.get_mut(section) {
            section.insert("memory_size_in_bytes".into(), bytes.into());
        }
    }
}

/// Compiled scripts. Each request compiles its own and none is kept, so no cache evicts one.
pub(crate) fn scripts(call: &Call, own: &NodeStats) -> Value {
    let compilations = own.script_compilations + call.rest.script_compilations();
    json!({ "compilations": compilations, "cache_evictions": 0, "compilation_limit_triggered": 0 })
}

/// Background failures.
pub(crate) fn troubles(all: &[Trouble]) -> Value {
    let row = |t: &Trouble| json!({ "work": t.work, "reason": t.reason, "failures": t.failures, "since_in_millis": t.since_ms });
    all.iter().map(row).collect()
}
