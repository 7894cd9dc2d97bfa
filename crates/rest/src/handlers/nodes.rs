//! This node: what it is and what it does, for `_nodes` and `_nodes/stats`.
//!
//! Not here: its busiest threads (`hot_threads`), tables of it (`cat::nodes`).

use super::cluster::without_of_2015;
use super::cluster_settings::shape;
use super::indices::summed;
use crate::Names;
use crate::call::Call;
use crate::machine::{Machine, percent};
use crate::respond::Answer;
use engine::{Inspected, Inspection, NodeStats, Trouble};
use model::{Error, Persona, Result, Target};
use serde_json::{Map, Value, json};

/// Does one of these name the node that there is?
pub(super) fn is_this_node(names: &Names, wanted: &[String]) -> bool {
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

pub(super) async fn node_stats(call: &Call) -> Result<NodeStats> {
    match call.rest.engine.inspect(Inspection::Node).await? {
        Inspected::Node(stats) => Ok(stats),
        _ => Ok(NodeStats::default()),
    }
}

/// `_nodes`. Leaves that only a JVM has are zero.
pub(crate) async fn info(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    call.params.finish()?;
    let (chosen, metrics) = nodes_and_metrics(&call);
    let names = &call.rest.names;
    let roles = roles(call.dialect.persona);
    let machine = Machine::look();
    let settings: Map<String, Value> = [
        ("cluster.name", names.cluster.clone()),
        ("node.name", names.node.clone()),
        ("path.data", node_stats(&call).await?.data_path),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect();
    let mut node = json!({
        "name": names.node, "transport_address": names.address, "host": "127.0.0.1", "ip": "127.0.0.1", "version": call.dialect.persona.version(),
        "build_flavor": "default", "build_type": "tar", "build_hash": env!("CARGO_PKG_VERSION"), "roles": roles, "attributes": {},
        "settings": shape(settings, flat),
        "os": { "name": std::env::consts::OS, "arch": std::env::consts::ARCH, "available_processors": machine.processors, "allocated_processors": machine.processors, "refresh_interval_in_millis": 1000 },
        "process": { "id": std::process::id(), "mlockall": false, "refresh_interval_in_millis": 1000 },
        "jvm": { "pid": std::process::id(), "version": "0", "vm_name": "none", "vm_version": "0", "vm_vendor": "none", "start_time_in_millis": 0,
            "mem": { "heap_init_in_bytes": 0, "heap_max_in_bytes": 0, "non_heap_init_in_bytes": 0, "non_heap_max_in_bytes": 0, "direct_max_in_bytes": 0 },
            "gc_collectors": [], "memory_pools": [] },
        "thread_pool": {}, "transport": { "bound_address": [], "publish_address": "", "profiles": {} },
        "http": { "bound_address": [names.address], "publish_address": names.address, "max_content_length_in_bytes": call.rest.limits.body_max_bytes },
        "plugins": [], "modules": [], "ingest": { "processors": [] } });
    if call.dialect.persona == Persona::Es2
        && let Some(map) = node.as_object_mut()
    {
        for name in ["build_flavor", "build_type", "roles", "attributes", "ingest"] {
            map.remove(name);
        }
        let hash = map.remove("build_hash").unwrap_or_default();
        map.insert("build".into(), hash);
        map.insert("http_address".into(), names.address.as_str().into());
    }
    cut(&mut node, &metrics, NODE_SECTIONS);
    Ok(of_node(&call, chosen, node))
}

/// What this node does, in the words of a server, which sorts them.
pub(super) fn roles(persona: Persona) -> &'static [&'static str] {
    match persona {
        Persona::Opensearch1 => &["data", "ingest", "master", "remote_cluster_client"],
        persona if persona.is_opensearch() => &["cluster_manager", "data", "ingest", "remote_cluster_client"],
        Persona::Es7 => &["data", "ingest", "master", "remote_cluster_client"],
        _ => &["data", "ingest", "master"],
    }
}

/// Parts of `_nodes` that a metric names; the rest is always shown.
const NODE_SECTIONS: &[&str] = &[
    "settings",
    "os",
    "process",
    "jvm",
    "thread_pool",
    "transport",
    "http",
    "plugins",
    "modules",
    "ingest",
    "aggregations",
    "indices",
    "fs",
    "breakers",
    "script",
];

/// What `_nodes/stats` can be asked for; some of it there is nothing to tell of here.
const STATS_METRICS: &[&str] = &[
    "_all",
    "adaptive_selection",
    "admission_control",
    "breaker",
    "breakers",
    "caches",
    "cluster_manager_throttling",
    "discovery",
    "file_cache",
    "fs",
    "http",
    "indexing_pressure",
    "indices",
    "ingest",
    "jvm",
    "os",
    "process",
    "remote_store",
    "repositories",
    "resource_usage_stats",
    "script",
    "script_cache",
    "search_backpressure",
    "search_pipeline",
    "segment_replication_backpressure",
    "shard_indexing_pressure",
    "task_cancellation",
    "thread_pool",
    "transport",
    "weighted_routing",
];

/// The pools of threads of 2015. There are none of that kind here, so that nothing waits in them.
const POOLS_2015: &[&str] = &[
    "bulk",
    "fetch_shard_started",
    "fetch_shard_store",
    "flush",
    "force_merge",
    "generic",
    "get",
    "index",
    "listener",
    "management",
    "percolate",
    "refresh",
    "search",
    "snapshot",
    "suggest",
    "warmer",
];

/// Is this node meant, and which of its parts? One segment of the path may be either.
fn nodes_and_metrics(call: &Call) -> (bool, Vec<String>) {
    let list = |name: &str| call.arg(name).map(crate::params::split_list).unwrap_or_default();
    let (nodes, mut metrics) = (list("node_id"), list("metric"));
    // The URL has the singular.
    for metric in metrics.iter_mut().filter(|metric| *metric == "breaker") {
        *metric = "breakers".to_owned();
    }
    if metrics.is_empty() && !nodes.is_empty() && nodes.iter().all(|n| NODE_SECTIONS.contains(&n.as_str())) {
        return (true, nodes);
    }
    (is_this_node(&call.rest.names, &nodes), metrics)
}

/// Without the sections that were not asked for.
fn cut(node: &mut Value, metrics: &[String], sections: &[&str]) {
    if let Some(map) = node
        .as_object_mut()
        .filter(|_| !metrics.is_empty() && !metrics.iter().any(|m| m == "_all"))
    {
        map.retain(|name, _| !sections.contains(&name.as_str()) || metrics.contains(name));
    }
}

/// The answer of a request to nodes.
pub(super) fn of_node(call: &Call, chosen: bool, node: Value) -> Answer {
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

/// What does not succeed behind the scenes.
pub(super) fn troubles(all: &[Trouble]) -> Value {
    let row = |t: &Trouble| json!({ "work": t.work, "reason": t.reason, "failures": t.failures, "since_in_millis": t.since_ms });
    all.iter().map(row).collect()
}

/// `_nodes/stats`.
pub(crate) async fn stats(mut call: Call) -> Result<Answer> {
    let level = call.params.take("level").unwrap_or_else(|| "node".into());
    call.params.finish()?;
    if !["node", "indices", "shards"].contains(&level.as_str()) {
        return Err(Error::illegal(format!(
            "level parameter must be one of [node] or [indices] or [shards] but was [{level}]"
        )));
    }
    if let Some(list) = call.arg("metric").filter(|_| !call.dialect.typed) {
        let wanted = crate::params::split_list(list);
        if let Some(unknown) = wanted.iter().find(|one| !STATS_METRICS.contains(&one.as_str())) {
            let meant = model::nearest::question(unknown, STATS_METRICS.iter().copied()).replace(" did", " -> did");
            return Err(Error::illegal(format!(
                "request [{}] contains unrecognized metric: [{unknown}]{meant}",
                call.params.path()
            )));
        }
    }
    let (chosen, metrics) = nodes_and_metrics(&call);
    let names = &call.rest.names;
    let mut target = Target::of(Vec::new());
    target.forbid_closed = false;
    let stats = match call.rest.engine.inspect(Inspection::Stats(target)).await? {
        Inspected::Stats(stats) => stats,
        _ => Vec::new(),
    };
    let mut own = node_stats(&call).await?;
    own.troubles.extend(call.rest.relations.troubles());
    let machine = Machine::look();
    let mut indices = summed(&stats, call.dialect.typed);
    if level != "node" {
        let each: Map<String, Value> = stats
            .iter()
            .map(|one| (one.0.name.to_string(), summed(std::slice::from_ref(one), call.dialect.typed)))
            .map(|(name, sections)| match level.as_str() {
                "shards" => (name, json!([{ "0": sections }])),
                _ => (name, Value::Object(sections)),
            })
            .collect();
        indices.insert(level, Value::Object(each));
    }
    let mut node = json!({
        "timestamp": call.rest.clock.wall_ms(), "name": names.node, "transport_address": names.address, "host": "127.0.0.1", "ip": names.address,
        "roles": roles(call.dialect.persona), "attributes": {}, "indices": indices,
        "os": { "timestamp": call.rest.clock.wall_ms(), "cpu": { "percent": machine.cpu_percent(), "load_average": { "1m": machine.load[0], "5m": machine.load[1], "15m": machine.load[2] } },
            "mem": { "total_in_bytes": machine.memory_total_bytes, "free_in_bytes": machine.memory_available_bytes, "used_in_bytes": machine.memory_used_bytes(),
                "free_percent": percent(machine.memory_available_bytes, machine.memory_total_bytes), "used_percent": percent(machine.memory_used_bytes(), machine.memory_total_bytes) } },
        "process": { "timestamp": call.rest.clock.wall_ms(), "open_file_descriptors": machine.open_files, "max_file_descriptors": machine.open_files_max,
            "cpu": { "percent": machine.cpu_percent(), "total_in_millis": machine.cpu_ms }, "mem": { "total_virtual_in_bytes": machine.virtual_bytes } },
        "jvm": { "timestamp": call.rest.clock.wall_ms(), "uptime_in_millis": machine.uptime_ms, "mem": { "heap_used_in_bytes": machine.resident_bytes,
            "heap_used_percent": percent(machine.resident_bytes, machine.memory_total_bytes), "heap_committed_in_bytes": machine.resident_bytes, "heap_max_in_bytes": machine.memory_total_bytes,
            "non_heap_used_in_bytes": 0, "non_heap_committed_in_bytes": 0, "pools": {} }, "threads": { "count": 0, "peak_count": 0 },
            "gc": { "collectors": { "young": { "collection_count": 0, "collection_time_in_millis": 0 }, "old": { "collection_count": 0, "collection_time_in_millis": 0 } } },
            "buffer_pools": {}, "classes": { "current_loaded_count": 0, "total_loaded_count": 0, "total_unloaded_count": 0 } },
        "thread_pool": {}, "fs": { "timestamp": call.rest.clock.wall_ms(), "total": { "total_in_bytes": own.disk_total_bytes, "free_in_bytes": own.disk_free_bytes, "available_in_bytes": own.disk_free_bytes }, "data": [{ "path": own.data_path }] },
        "transport": { "server_open": 0, "rx_count": 0, "rx_size_in_bytes": 0, "tx_count": 0, "tx_size_in_bytes": 0 },
        "http": { "current_open": 0, "total_opened": 0 }, "breakers": {}, "script": { "compilations": 0, "cache_evictions": 0 },
        "pleach": { "pending_in_bytes": own.pending_bytes, "log_in_bytes": own.log_bytes, "open_views": own.open_views, "segments": own.segments,
            "ram_segments_in_bytes": own.ram_segment_bytes, "read_only": own.read_only, "troubles": troubles(&own.troubles) } });
    if crate::answers_of_2015(call.dialect) {
        let idle = json!({ "threads": 0, "queue": 0, "active": 0, "rejected": 0, "largest": 0, "completed": 0 });
        let swap_used = machine.swap_total_bytes.saturating_sub(machine.swap_free_bytes);
        if let Some(os) = node["os"].as_object_mut() {
            os.remove("cpu");
            os.insert("cpu_percent".into(), machine.cpu_percent().into());
            os.insert("load_average".into(), machine.load[0].into());
            os.insert(
                "swap".into(),
                json!({ "total_in_bytes": machine.swap_total_bytes, "free_in_bytes": machine.swap_free_bytes, "used_in_bytes": swap_used }),
            );
        }
        node["fs"]["data"] = json!([{ "path": own.data_path, "total_in_bytes": own.disk_total_bytes,
            "free_in_bytes": own.disk_free_bytes, "available_in_bytes": own.disk_free_bytes }]);
        node["thread_pool"] = POOLS_2015.iter().map(|name| ((*name).to_owned(), idle.clone())).collect();
    }
    if let (Some(only), Some(indices)) = (
        call.arg("index_metric").map(crate::params::split_list),
        node["indices"].as_object_mut(),
    ) {
        indices.retain(|part, _| {
            only.iter()
                .any(|m| m == part || m == "_all" || m == "merge" && part == "merges")
        });
    }
    cut(&mut node, &metrics, NODE_SECTIONS);
    without_of_2015(&call, &mut node, &["attributes", "roles", "pleach"]);
    Ok(of_node(&call, chosen, node))
}
