//! This node: what it is and what it does, for `_nodes` and `_nodes/stats`.
//!
//! Not here: its busiest threads (`hot_threads`), tables of it (`cat::nodes`).

use crate::call::Call;
use crate::machine::{Machine, percent};
use crate::render::cluster::without_of_2015;
use crate::render::cluster_settings::shape;
use crate::render::indices::sum_sections;
use crate::render::nodes::{is_this_node, node_stats, of_node, roles, scripts, troubles, with_caches};
use crate::render::pools;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::breaker::{Breaker, BreakerUsage};
use engine::{BreakerStats, NodeStats};
use model::units::render_bytes;
use model::{Dialect, Error, Persona, Result, Target};
use serde_json::{Map, Value, json};

/// `_nodes`. Leaves that only a JVM has are zero.
#[boxed]
pub(crate) async fn info(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    call.params.finish()?;
    let (chosen, metrics) = nodes_and_metrics(&call);
    let names = &call.rest.names;
    let roles = roles(call.dialect.persona);
    let machine = Machine::look();
    let own = node_stats(&call).await?;
    let persona = call.dialect.persona;
    // Homes and logs are wherever the process was started; typed decoders want a text there.
    let mut settings: Map<String, Value> = [
        ("client.type", "node".to_owned()),
        ("cluster.name", names.cluster.clone()),
        ("http.type", "pleach".to_owned()),
        ("node.name", names.node.clone()),
        ("path.data", own.data_path.clone()),
        ("path.home", ".".to_owned()),
        ("path.logs", ".".to_owned()),
        ("transport.type", "none".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect();
    if persona != Persona::Es2 {
        settings.insert("cluster.election.strategy".into(), "single_node".into());
    }
    let mut settings = shape(settings, flat);
    if !flat && persona != Persona::Es2 {
        // A setting with its own default is an object in today's servers.
        for part in ["http", "transport"] {
            settings[part]["type"] = json!({ "default": settings[part]["type"] });
        }
    }
    let os = std::env::consts::OS;
    let mut node = json!({
        "name": names.node, "transport_address": names.address, "host": "127.0.0.1", "ip": "127.0.0.1", "version": persona.version(),
        "build_flavor": "default", "build_type": "tar", "build_hash": env!("CARGO_PKG_VERSION"), "total_indexing_buffer": own.pending_max_bytes,
        "roles": roles, "attributes": {}, "settings": settings,
        "os": { "refresh_interval_in_millis": 1000, "name": os, "pretty_name": machine.system_name(), "arch": std::env::consts::ARCH,
            "version": machine.kernel(), "available_processors": machine.processors, "allocated_processors": machine.processors },
        "process": { "refresh_interval_in_millis": 1000, "id": std::process::id(), "mlockall": false },
        "jvm": { "pid": std::process::id(), "version": "0", "vm_name": "none", "vm_version": "0", "vm_vendor": "none", "bundled_jdk": false,
            "using_bundled_jdk": false, "start_time_in_millis": machine.started_ms(call.rest.clock.wall_ms()),
            "mem": { "heap_init_in_bytes": 0, "heap_max_in_bytes": machine.memory_total_bytes, "non_heap_init_in_bytes": 0, "non_heap_max_in_bytes": 0, "direct_max_in_bytes": 0 },
            "gc_collectors": [], "memory_pools": [], "using_compressed_ordinary_object_pointers": "false", "input_arguments": [] },
        "thread_pool": pools::info(&own.pools, call.dialect), "transport": { "bound_address": [names.address], "publish_address": names.address, "profiles": {} },
        "http": { "bound_address": [names.address], "publish_address": names.address, "max_content_length_in_bytes": call.rest.limits.body_max_bytes },
        "plugins": [], "modules": [], "ingest": { "processors": [] }, "aggregations": {} });
    if call.dialect.persona == Persona::Es2
        && let Some(map) = node.as_object_mut()
    {
        for name in [
            "build_flavor",
            "build_type",
            "roles",
            "attributes",
            "ingest",
            "aggregations",
            "total_indexing_buffer",
        ] {
            map.remove(name);
        }
        let hash = map.remove("build_hash").unwrap_or_default();
        map.insert("build".into(), hash);
        map.insert("http_address".into(), names.address.as_str().into());
    }
    cut(&mut node, &metrics, NODE_SECTIONS);
    Ok(of_node(&call, chosen, node))
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
    "script_cache",
    "discovery",
    "adaptive_selection",
    "indexing_pressure",
];

/// Metrics of `_nodes/stats`; some are empty here.
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

/// Is this node meant, and which of its parts? One segment of the path may be either.
fn nodes_and_metrics(call: &Call) -> (bool, Vec<String>) {
    let list = |name: &str| call.arg(name).map(crate::query_params::split_list).unwrap_or_default();
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

/// Adds the members of one object to another.
fn merge(into: &mut Value, from: &Value) {
    if let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) {
        into.extend(from.clone());
    }
}

/// Bounds on memory as breakers: those of requests and of the process, and budgets of the engine that have no other name.
fn breakers(call: &Call, own: &NodeStats) -> Value {
    let persona = call.dialect.persona;
    let breakers = &call.rest.limits.breakers;
    let mut all = own.breakers.clone();
    // Later servers count what segments take with no breaker.
    all.retain(|one| one.name != "accounting" || matches!(persona, Persona::Es7 | Persona::Opensearch1));
    let of = |name, usage: BreakerUsage| BreakerStats {
        name,
        limit_bytes: usage.limit,
        used_bytes: usage.used,
        tripped: usage.tripped,
    };
    all.extend(Breaker::ALL.map(|breaker| of(breaker.name(), breakers.usage(breaker))));
    all.push(of("parent", breakers.parent()));
    let row = |one: BreakerStats| {
        let body = json!({ "limit_size_in_bytes": one.limit_bytes, "limit_size": render_bytes(one.limit_bytes),
            "estimated_size_in_bytes": one.used_bytes, "estimated_size": render_bytes(one.used_bytes), "overhead": 1.0, "tripped": one.tripped });
        (one.name.to_owned(), body)
    };
    Value::Object(all.into_iter().map(row).collect())
}

/// `_nodes/stats`.
#[boxed]
pub(crate) async fn stats(mut call: Call) -> Result<Answer> {
    let level = call.params.take("level").unwrap_or_else(|| "node".into());
    call.params.finish()?;
    if !["node", "indices", "shards"].contains(&level.as_str()) {
        return Err(Error::illegal(format!(
            "level parameter must be one of [node] or [indices] or [shards] but was [{level}]"
        )));
    }
    check_metrics(&call)?;
    let (chosen, metrics) = nodes_and_metrics(&call);
    let names = &call.rest.names;
    let mut target = Target::of(Vec::new());
    target.forbid_closed = false;
    let stats = call.rest.stats(target).await?;
    let mut own = node_stats(&call).await?;
    own.troubles.extend(call.rest.relations.troubles());
    let machine = Machine::look();
    let now = call.rest.clock.wall_ms();
    let traffic = &call.rest.traffic;
    let scripts = scripts(&call, &own);
    let mut indices = sum_sections(&stats, call.dialect);
    with_caches(&mut indices, &own);
    if level != "node" {
        let each: Map<String, Value> = stats
            .iter()
            .map(|one| (one.0.name.to_string(), sum_sections(std::slice::from_ref(one), call.dialect)))
            .map(|(name, sections)| match level.as_str() {
                "shards" => (name, json!([{ "0": sections }])),
                _ => (name, Value::Object(sections)),
            })
            .collect();
        indices.insert(level, Value::Object(each));
    }
    let mut node = json!({
        "timestamp": now, "name": names.node, "transport_address": names.address, "host": "127.0.0.1", "ip": names.address,
        "roles": roles(call.dialect.persona), "attributes": {}, "indices": indices,
        "os": os(&machine, now, call.dialect), "process": process(&machine, now), "jvm": jvm(&machine, now),
        "thread_pool": pools::stats(&own.pools, call.dialect), "fs": file_system(&machine, &own, now),
        "transport": { "server_open": 0, "total_outbound_connections": 0, "rx_count": 0, "rx_size_in_bytes": 0, "tx_count": 0, "tx_size_in_bytes": 0 },
        "http": { "current_open": traffic.open_connections(), "total_opened": traffic.opened_connections() }, "breakers": breakers(&call, &own), "script": scripts,
        "discovery": { "cluster_state_queue": { "total": 0, "pending": 0, "committed": 0 },
            "published_cluster_states": { "full_states": 0, "incompatible_diffs": 0, "compatible_diffs": 0 } },
        "ingest": { "total": { "count": 0, "time_in_millis": 0, "current": 0, "failed": 0 }, "pipelines": {} }, "adaptive_selection": {},
        "script_cache": { "sum": scripts, "contexts": [] },
        "indexing_pressure": indexing_pressure(&own),
        "pleach": { "pending_in_bytes": own.pending_bytes, "log_in_bytes": own.log_bytes, "open_views": own.open_views, "segments": own.segments,
            "ram_segments_in_bytes": own.ram_segment_bytes, "read_only": own.read_only, "troubles": troubles(&own.troubles) } });
    if let (Some(only), Some(indices)) = (
        call.arg("index_metric").map(crate::query_params::split_list),
        node["indices"].as_object_mut(),
    ) {
        indices.retain(|part, _| {
            only.iter()
                .any(|m| m == part || m == "_all" || m == "merge" && part == "merges")
        });
    }
    cut(&mut node, &metrics, NODE_SECTIONS);
    without_of_2015(
        &call,
        &mut node,
        &[
            "attributes",
            "roles",
            "pleach",
            "discovery",
            "ingest",
            "adaptive_selection",
            "script_cache",
            "indexing_pressure",
        ],
    );
    Ok(of_node(&call, chosen, node))
}

/// The section `os`. That of Elasticsearch 2 has the processor first, as two numbers.
fn os(machine: &Machine, now: i64, dialect: Dialect) -> Value {
    let swap_used = machine.swap_total_bytes.saturating_sub(machine.swap_free_bytes);
    let mut out = json!({ "timestamp": now,
        "cpu": { "percent": machine.cpu_percent(), "load_average": { "1m": machine.load[0], "5m": machine.load[1], "15m": machine.load[2] } },
        "mem": { "total_in_bytes": machine.memory_total_bytes, "free_in_bytes": machine.memory_available_bytes, "used_in_bytes": machine.memory_used_bytes(),
            "free_percent": percent(machine.memory_available_bytes, machine.memory_total_bytes), "used_percent": percent(machine.memory_used_bytes(), machine.memory_total_bytes) },
        "swap": { "total_in_bytes": machine.swap_total_bytes, "free_in_bytes": machine.swap_free_bytes, "used_in_bytes": swap_used } });
    if dialect.rules.former_node_statistics
        && let Some(today) = out.as_object_mut()
    {
        let mut of_2015 = Map::new();
        of_2015.insert("cpu_percent".into(), machine.cpu_percent().into());
        of_2015.insert("load_average".into(), machine.load[0].into());
        of_2015.extend(std::mem::take(today).into_iter().filter(|(name, _)| name != "cpu"));
        *today = of_2015;
    }
    out
}

/// The section `process`.
fn process(machine: &Machine, now: i64) -> Value {
    json!({ "timestamp": now, "open_file_descriptors": machine.open_files, "max_file_descriptors": machine.open_files_max,
        "cpu": { "percent": machine.cpu_percent(), "total_in_millis": machine.cpu_ms }, "mem": { "total_virtual_in_bytes": machine.virtual_bytes } })
}

/// The section `jvm`: there is none, so the memory of the process stands for its heap.
fn jvm(machine: &Machine, now: i64) -> Value {
    json!({ "timestamp": now, "uptime_in_millis": machine.uptime_ms,
        "mem": { "heap_used_in_bytes": machine.resident_bytes, "heap_used_percent": percent(machine.resident_bytes, machine.memory_total_bytes),
            "heap_committed_in_bytes": machine.resident_bytes, "heap_max_in_bytes": machine.memory_total_bytes,
            "non_heap_used_in_bytes": 0, "non_heap_committed_in_bytes": 0, "pools": {} },
        "threads": { "count": machine.threads, "peak_count": machine.threads },
        "gc": { "collectors": { "young": { "collection_count": 0, "collection_time_in_millis": 0 }, "old": { "collection_count": 0, "collection_time_in_millis": 0 } } },
        "buffer_pools": {}, "classes": { "current_loaded_count": 0, "total_loaded_count": 0, "total_unloaded_count": 0 } })
}

/// The section `fs`: the disk of the data folder.
fn file_system(machine: &Machine, own: &NodeStats, now: i64) -> Value {
    let disk = json!({ "total_in_bytes": own.disk_total_bytes, "free_in_bytes": own.disk_free_bytes, "available_in_bytes": own.disk_available_bytes });
    let mut folder = json!({ "path": own.data_path, "mount": machine.mount_of(&own.data_path), "type": machine.file_system_of(&own.data_path) });
    merge(&mut folder, &disk);
    json!({ "timestamp": now, "total": disk, "data": [folder], "io_stats": {} })
}

/// The section `indexing_pressure`: the bytes of pending operations.
fn indexing_pressure(own: &NodeStats) -> Value {
    let queued = json!({ "combined_coordinating_and_primary_in_bytes": own.pending_bytes, "coordinating_in_bytes": 0,
        "primary_in_bytes": own.pending_bytes, "replica_in_bytes": 0, "all_in_bytes": own.pending_bytes });
    let total = json!({ "combined_coordinating_and_primary_in_bytes": 0, "coordinating_in_bytes": 0,
        "primary_in_bytes": 0, "replica_in_bytes": 0, "all_in_bytes": 0, "coordinating_rejections": 0, "primary_rejections": 0, "replica_rejections": 0 });
    json!({ "memory": { "current": queued, "total": total, "limit_in_bytes": own.pending_max_bytes } })
}

/// Refuses an unknown metric, with the nearest known one.
fn check_metrics(call: &Call) -> Result<()> {
    let Some(list) = call.arg("metric").filter(|_| !call.dialect.rules.tolerates_unknown_words) else {
        return Ok(());
    };
    let wanted = crate::query_params::split_list(list);
    let Some(unknown) = wanted.iter().find(|one| !STATS_METRICS.contains(&one.as_str())) else {
        return Ok(());
    };
    let meant = model::nearest::question(unknown, STATS_METRICS.iter().copied()).replace(" did", " -> did");
    Err(Error::illegal(format!(
        "request [{}] contains unrecognized metric: [{unknown}]{meant}",
        call.params.path()
    )))
}
