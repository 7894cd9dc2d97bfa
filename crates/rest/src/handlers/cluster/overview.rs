//! The server itself: what it is, how it does, what it holds.
//!
//! Not here: its one node (`nodes`), its settings (`cluster_settings`).

use crate::call::Call;
use crate::machine::{Machine, percent};
use crate::render::cluster::{Health, control_damage, metadata, missing_replicas, shard, without_of_2015};
use crate::render::indices::{shards_of, sum_sections};
use crate::render::nodes::{node_stats, roles};
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::IndexInfo;
use model::settings::number;
use model::{Error, Persona, Result, Target, nearest};
use serde_json::{Map, Value, json};

/// `GET /`.
#[boxed]
pub(crate) async fn info(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let names = &call.rest.names;
    let persona = call.dialect.persona;
    let version = match persona {
        Persona::Es2 => json!({
            "number": persona.version(), "build_hash": env!("CARGO_PKG_VERSION"), "build_timestamp": "2026-11-21T00:00:00Z",
            "build_snapshot": false, "lucene_version": "5.5.4" }),
        p if p.is_opensearch() => json!({
            "distribution": "opensearch", "number": p.version(), "build_type": "tar", "build_hash": env!("CARGO_PKG_VERSION"),
            "build_date": "2026-11-21T00:00:00Z", "build_snapshot": false, "lucene_version": "9.12.2",
            "minimum_wire_compatibility_version": "7.10.0", "minimum_index_compatibility_version": "7.0.0" }),
        p => json!({
            "number": p.version(), "build_flavor": "default", "build_type": "tar", "build_hash": env!("CARGO_PKG_VERSION"),
            "build_date": "2026-11-21T00:00:00Z", "build_snapshot": false, "lucene_version": "9.12.2",
            "minimum_wire_compatibility_version": "7.17.0", "minimum_index_compatibility_version": "7.0.0" }),
    };
    let tagline = if persona.is_opensearch() {
        "The OpenSearch Project: https://opensearch.org/"
    } else {
        "You Know, for Search"
    };
    Ok(Answer::ok(json!({
        "name": names.node, "cluster_name": names.cluster, "cluster_uuid": names.cluster_uuid, "version": version, "tagline": tagline })))
}

/// `_cluster/health`.
#[boxed]
pub(crate) async fn health(mut call: Call) -> Result<Answer> {
    let wait_status = call.params.take("wait_for_status");
    let wait_nodes = call.params.take("wait_for_nodes");
    let wait_active = call.params.take("wait_for_active_shards");
    let of_2015 = call.dialect.rules.former_cluster_answers;
    let mut level = call.params.take("level").unwrap_or_else(|| "cluster".into());
    if call.dialect.rules.tolerates_unknown_levels && !["cluster", "indices", "shards"].contains(&level.as_str()) {
        level = "cluster".into();
    }
    let timeout = call.params.take_duration("timeout")?;
    let mut target = Target::of(call.arg("index").map(crate::query_params::split_list).unwrap_or_default());
    (target.expand_closed, target.forbid_closed, target.expand_hidden) = (true, false, true);
    call.params.take_expand_wildcards(&mut target)?;
    call.params.finish()?;
    if !["cluster", "indices", "shards", "awareness_attributes"].contains(&level.as_str()) {
        return Err(Error::illegal(format!(
            "level must be one of [cluster], [indices], [shards], not [{level}]"
        )));
    }
    let infos: Vec<IndexInfo> = match call.rest.indices(&target).await {
        // An index that is not there is waited for, in vain.
        Err(error) if error.status() == 404 => {
            return Ok(missing_health(&call, timeout).await);
        }
        found => found?,
    };
    let health = Health::of_all(&infos, &call).await;
    let rank = |s: &str| ["green", "yellow", "red"].iter().position(|x| *x == s).unwrap_or(2);
    if let Some(wanted) = &wait_status {
        check_status(wanted, of_2015)?;
    }
    if let Some(wanted) = wait_nodes
        .as_deref()
        .filter(|wanted| of_2015 && !wanted.contains(|c: char| c.is_ascii_digit()))
    {
        return Err(Error::no_number(wanted));
    }
    let nodes_ok = wait_nodes.as_deref().is_none_or(nodes_hold);
    let shards_ok = wait_active.as_deref().is_none_or(|wanted| shards_hold(wanted, &health));
    let is_worse = |wanted: &str| rank(health.status()) > rank(&wanted.to_lowercase());
    let timed_out = wait_status.as_deref().is_some_and(is_worse) || !nodes_ok || !shards_ok;
    if timed_out {
        // No other node can join, so waiting ends after a second.
        tokio::time::sleep(timeout.unwrap_or_default().min(std::time::Duration::from_secs(1))).await;
    }
    let mut out = health_body(&call, health.status(), &health, timed_out);
    let mut stopped: Map<String, Value> = infos
        .iter()
        .filter_map(|i| Some((i.name.to_string(), i.stopped.as_deref()?.into())))
        .collect();
    if let Some(reason) = control_damage(&call.rest).await {
        stopped.insert(relations::schema::CONTROL.to_owned(), reason.into());
    }
    if !stopped.is_empty() {
        out["stopped"] = Value::Object(stopped);
    }
    if level != "cluster" {
        let indices: Map<String, Value> = infos
            .iter()
            .map(|i| (i.name.to_string(), index_health(i, level == "shards", call.dialect.persona)))
            .collect();
        out["indices"] = Value::Object(indices);
    }
    Ok(Answer::of(if timed_out { 408 } else { 200 }, out))
}

/// Is what `wait_for_active_shards` waits for the case?
fn shards_hold(wanted: &str, health: &Health) -> bool {
    match wanted {
        "all" => health.unassigned == 0,
        number => number.parse::<u64>().is_ok_and(|number| number <= health.active),
    }
}

/// Refuses a status that there is not.
fn check_status(wanted: &str, of_2015: bool) -> Result<()> {
    if ["green", "yellow", "red"].contains(&wanted.to_lowercase().as_str()) {
        return Ok(());
    }
    Err(Error::illegal(if of_2015 {
        let name = wanted.to_uppercase();
        format!("No enum constant org.elasticsearch.cluster.health.ClusterHealthStatus.{name}")
    } else {
        format!("unknown cluster health status [{wanted}]")
    }))
}

/// The health of an index that is missing, after waiting for it.
async fn missing_health(call: &Call, timeout: Option<std::time::Duration>) -> Answer {
    tokio::time::sleep(timeout.unwrap_or_default().min(std::time::Duration::from_secs(1))).await;
    let none = Health {
        active: 0,
        unassigned: 0,
        unassigned_primaries: 0,
        stopped: false,
        troubled: false,
    };
    Answer::of(408, health_body(call, "red", &none, true))
}

fn health_body(call: &Call, status: &str, health: &Health, timed_out: bool) -> Value {
    let out = json!({
        "cluster_name": call.rest.names.cluster, "status": status, "timed_out": timed_out,
        "number_of_nodes": 1, "number_of_data_nodes": 1, "active_primary_shards": health.active, "active_shards": health.active,
        "relocating_shards": 0, "initializing_shards": 0, "unassigned_shards": health.unassigned, "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0, "number_of_in_flight_fetch": 0, "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": health.percent() });
    let out = with_primaries(out, health.unassigned_primaries, call.dialect.persona);
    if call.dialect.persona.is_opensearch() {
        let mut with = Map::new();
        for (key, value) in out.as_object().into_iter().flatten() {
            with.insert(key.clone(), value.clone());
            if key == "number_of_data_nodes" {
                with.insert("discovered_master".into(), true.into());
                with.insert("discovered_cluster_manager".into(), true.into());
            }
        }
        return Value::Object(with);
    }
    out
}

/// Elasticsearch 8 also tells how many of the unassigned shards are primaries.
fn with_primaries(mut health: Value, primaries: u64, persona: Persona) -> Value {
    if matches!(persona, Persona::Es8 | Persona::Es9) {
        health["unassigned_primary_shards"] = primaries.into();
    }
    health
}

fn nodes_hold(wanted: &str) -> bool {
    let (op, n) = wanted
        .find(|c: char| c.is_ascii_digit())
        .map_or((wanted, ""), |i| wanted.split_at(i));
    let n: u64 = n.trim_end_matches(')').parse().unwrap_or(1);
    match op.trim_end_matches('(') {
        ">=" | "ge" => 1 >= n,
        "<=" | "le" => 1 <= n,
        ">" | "gt" => 1 > n,
        "<" | "lt" => 1 < n,
        _ => n == 1,
    }
}

fn index_health(info: &IndexInfo, shards: bool, persona: Persona) -> Value {
    let health = Health::of(std::slice::from_ref(info), persona);
    let count = number(&info.settings, model::settings::NUMBER_OF_SHARDS);
    let out = json!({
        "status": health.status(), "number_of_shards": count, "number_of_replicas": number(&info.settings, model::settings::NUMBER_OF_REPLICAS),
        "active_primary_shards": health.active, "active_shards": health.active, "relocating_shards": 0, "initializing_shards": 0,
        "unassigned_shards": health.unassigned });
    let mut out = with_primaries(out, health.unassigned_primaries, persona);
    if shards {
        let one = |_| {
            let primaries = u64::from(info.stopped.is_some());
            let shard = json!({ "status": health.status(), "primary_active": info.stopped.is_none(), "active_shards": u64::from(info.stopped.is_none()), "relocating_shards": 0, "initializing_shards": 0,
            "unassigned_shards": missing_replicas(info, persona) + primaries });
            with_primaries(shard, primaries, persona)
        };
        let list: Map<String, Value> = (0..count.min(1024)).map(|i| (i.to_string(), one(i))).collect();
        out["shards"] = Value::Object(list);
    }
    out
}

/// `_cluster/state`.
#[boxed]
pub(crate) async fn state(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let lenient = call.dialect.rules.skips_missing_indices;
    let target = call.target_with(|t| {
        (t.expand_closed, t.forbid_closed, t.expand_hidden) = (true, false, true);
        t.ignore_unavailable |= lenient;
    })?;
    call.params.finish()?;
    let metrics = call
        .arg("metric")
        .map(crate::query_params::split_list)
        .unwrap_or_else(|| vec!["_all".into()]);
    check_metrics(&call, &metrics)?;
    let wants = |m: &str| metrics.iter().any(|x| x == m || x == "_all");
    let names = &call.rest.names;
    let infos = call.rest.indices(&target).await?;
    let mut out = Map::new();
    out.insert("cluster_name".into(), names.cluster.as_str().into());
    if !call.dialect.rules.omits_later_members {
        out.insert("cluster_uuid".into(), names.cluster_uuid.as_str().into());
    }
    if wants("version") {
        out.insert("version".into(), 1.into());
        out.insert("state_uuid".into(), names.cluster_uuid.as_str().into());
    }
    if wants("master_node") || wants("cluster_manager_node") {
        out.insert("master_node".into(), names.node_id.as_str().into());
        if call.dialect.persona.is_opensearch() {
            out.insert("cluster_manager_node".into(), names.node_id.as_str().into());
        }
    }
    if wants("blocks") {
        out.insert("blocks".into(), blocks_of_closed(&infos));
    }
    if wants("nodes") {
        out.insert("nodes".into(), json!({ names.node_id.clone(): node_of(&call) }));
    }
    if wants("metadata") {
        out.insert("metadata".into(), metadata(&call, &infos, flat).await?);
    }
    if wants("routing_table") || wants("routing_nodes") {
        let table: Map<String, Value> = infos
            .iter()
            .map(|i| {
                let shards: Map<String, Value> = if call.dialect.rules.shows_all_shards {
                    (0..)
                        .zip(shards_of_2015(&call, i))
                        .map(|(n, one): (u64, _)| (n.to_string(), json!([one])))
                        .collect()
                } else {
                    Map::from_iter([("0".to_owned(), json!([shard(&call, i)]))])
                };
                (i.name.to_string(), json!({ "shards": shards }))
            })
            .collect();
        if wants("routing_table") {
            out.insert("routing_table".into(), json!({ "indices": table }));
        }
        if wants("routing_nodes") {
            let list: Vec<Value> = infos.iter().map(|i| shard(&call, i)).collect();
            out.insert(
                "routing_nodes".into(),
                json!({ "unassigned": [], "nodes": { names.node_id.clone(): list } }),
            );
        }
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// The parts of the cluster state.
const STATE_METRICS: [&str; 10] = [
    "_all",
    "version",
    "master_node",
    "cluster_manager_node",
    "blocks",
    "nodes",
    "metadata",
    "routing_table",
    "routing_nodes",
    "customs",
];

/// Refuses an unknown part of the cluster state, with the nearest known one.
fn check_metrics(call: &Call, metrics: &[String]) -> Result<()> {
    let unknown = metrics.iter().find(|m| !STATE_METRICS.contains(&m.as_str()));
    let Some(unknown) = unknown.filter(|_| !call.dialect.rules.tolerates_unknown_words) else {
        return Ok(());
    };
    let near = nearest::nearest(unknown, STATE_METRICS)
        .map(|n| format!(" -> did you mean [{n}]?"))
        .unwrap_or_default();
    Err(Error::illegal(format!(
        "request [{}] contains unrecognized metric: [{unknown}]{near}",
        call.params.path()
    )))
}

/// The blocks of closed indices.
fn blocks_of_closed(infos: &[IndexInfo]) -> Value {
    let block = json!({ "4": { "description": "index closed", "retryable": false, "levels": ["read", "write"] } });
    let closed = infos.iter().filter(|i| !i.open);
    let closed: Map<String, Value> = closed.map(|i| (i.name.to_string(), block.clone())).collect();
    match closed.is_empty() {
        true => json!({}),
        false => json!({ "indices": closed }),
    }
}

/// This node where shards are told to be. 2015 had no second id that changes with each start; here it is the same.
fn node_of(call: &Call) -> Value {
    let names = &call.rest.names;
    let mut node =
        json!({ "name": names.node, "ephemeral_id": names.node_id, "transport_address": names.address, "attributes": {} });
    without_of_2015(call, &mut node, &["ephemeral_id"]);
    node
}

/// The shards that an index reports, as 2015 told of them.
fn shards_of_2015(call: &Call, info: &IndexInfo) -> Vec<Value> {
    let count = number(&info.settings, model::settings::NUMBER_OF_SHARDS).min(1024);
    let one = |no: u64| {
        let mut out = shard(call, info);
        out["shard"] = no.into();
        out["version"] = 1.into();
        out
    };
    (0..count).map(one).collect()
}

/// `_search_shards`.
#[boxed]
pub(crate) async fn search_shards(mut call: Call) -> Result<Answer> {
    let lenient = call.dialect.rules.skips_missing_indices;
    let target = call.target_with(|target| {
        target.ignore_unavailable |= lenient;
        target.allow_no_indices |= lenient;
    })?;
    let routing = call.params.take_2015("routing").filter(|_| lenient);
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    let names = &call.rest.names;
    let shards: Vec<Value> = if call.dialect.rules.shows_all_shards {
        infos
            .iter()
            .flat_map(|i| {
                let shards = shards_of_2015(&call, i);
                let count = shards.len() as u64;
                let asked: Option<Vec<u64>> = routing
                    .as_deref()
                    .map(|list| list.split(',').map(|one| model::routing::shard_of(one, count)).collect());
                shards.into_iter().filter(move |shard| {
                    let no = shard["shard"].as_u64().unwrap_or(0);
                    asked.as_ref().is_none_or(|asked| asked.contains(&no))
                })
            })
            .map(|one| json!([one]))
            .collect()
    } else {
        infos.iter().map(|i| json!([shard(&call, i)])).collect()
    };
    let mut nodes = json!({ names.node_id.clone(): node_of(&call) });
    if lenient && shards.is_empty() {
        nodes = json!({});
    }
    let mut out = json!({ "nodes": nodes, "shards": shards });
    if !call.dialect.rules.omits_later_members {
        let indices: Map<String, Value> = infos
            .iter()
            .map(|i| {
                let used: Vec<&String> = i
                    .aliases
                    .keys()
                    .filter(|a| target.expressions.iter().any(|e| e == *a))
                    .collect();
                let mut body = Map::new();
                // Only if every way to it is through a filter.
                let filters: Option<Vec<&Value>> = used.iter().map(|a| i.aliases[*a].get("filter")).collect();
                let read = |filter: &&Value| {
                    let node = dsl::json::Node::from_value((*filter).clone());
                    let query = dsl::query::Query::parse(node, &mut dsl::query::Parsing::of_filter(call.dialect)).ok()?;
                    Some(with_defaults(query))
                };
                let filters: Vec<Value> = filters.unwrap_or_default().iter().filter_map(read).collect();
                match filters.as_slice() {
                    [] => {}
                    [one] => drop(body.insert("filter".into(), one.clone())),
                    several => drop(body.insert(
                        "filter".into(),
                        json!({ "bool": { "should": several, "adjust_pure_negative": true, "boost": 1.0 } }),
                    )),
                }
                if !used.is_empty() {
                    body.insert("aliases".into(), json!(used));
                }
                (i.name.to_string(), Value::Object(body))
            })
            .collect();
        out["indices"] = Value::Object(indices);
    }
    Ok(Answer::ok(out))
}

/// A query as servers show what they have read: its options in an object, its boost with them.
fn with_defaults(query: dsl::query::Query) -> Value {
    let boost = query.boost;
    let mut shown = query.render();
    let one = shown.as_object_mut().and_then(|clause| clause.iter_mut().next());
    if let Some((kind, body)) = one {
        let by_field = [
            "term",
            "match",
            "prefix",
            "wildcard",
            "regexp",
            "range",
            "fuzzy",
            "match_phrase",
        ];
        let options = match by_field.contains(&kind.as_str()) {
            true => body.as_object_mut().and_then(|fields| fields.values_mut().next()),
            false => Some(body),
        };
        if let Some(options) = options {
            if !options.is_object() {
                *options = json!({ (if kind == "term" { "value" } else { "query" }): options.take() });
            }
            options["boost"] = boost.into();
        }
    }
    shown
}

/// `_cluster/stats`.
#[boxed]
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let mut target = Target::of(Vec::new());
    target.forbid_closed = false;
    let stats = call.rest.stats(target).await?;
    let infos: Vec<IndexInfo> = stats.iter().map(|(i, _)| i.clone()).collect();
    let (machine, own) = (Machine::look(), node_stats(&call).await?);
    let sections = sum_sections(&stats, call.dialect);
    let names = &call.rest.names;
    let mut indices = Map::new();
    indices.insert("count".into(), infos.len().into());
    let shards = shards_of(&infos, false)["successful"].clone();
    indices.insert(
        "shards".into(),
        json!({ "total": shards, "primaries": shards, "replication": 0.0 }),
    );
    for part in [
        "docs",
        "store",
        "fielddata",
        "query_cache",
        "completion",
        "segments",
        "percolate",
    ] {
        if let Some(section) = sections.get(part) {
            indices.insert(part.into(), section.clone());
        }
    }
    let status = Health::of_all(&infos, &call).await.status();
    let mut out = json!({
        "_nodes": { "total": 1, "successful": 1, "failed": 0 }, "cluster_name": names.cluster, "cluster_uuid": names.cluster_uuid,
        "timestamp": call.rest.clock.wall_ms(), "status": status, "indices": indices,
        "nodes": { "count": count_of_nodes(&call), "versions": [call.dialect.persona.version()],
            "os": { "available_processors": machine.processors, "allocated_processors": machine.processors,
                "names": [{ "name": std::env::consts::OS, "count": 1 }], "pretty_names": [{ "pretty_name": machine.system_name(), "count": 1 }],
                "architectures": [{ "arch": std::env::consts::ARCH, "count": 1 }],
                "mem": { "total_in_bytes": machine.memory_total_bytes, "free_in_bytes": machine.memory_available_bytes,
                    "used_in_bytes": machine.memory_used_bytes(), "free_percent": percent(machine.memory_available_bytes, machine.memory_total_bytes),
                    "used_percent": percent(machine.memory_used_bytes(), machine.memory_total_bytes) } },
            "process": { "cpu": { "percent": machine.cpu_percent() },
                "open_file_descriptors": { "min": machine.open_files, "max": machine.open_files, "avg": machine.open_files } },
            "jvm": { "max_uptime_in_millis": machine.uptime_ms, "versions": [],
                "mem": { "heap_used_in_bytes": machine.resident_bytes, "heap_max_in_bytes": machine.memory_total_bytes }, "threads": machine.threads },
            "fs": { "total_in_bytes": own.disk_total_bytes, "free_in_bytes": own.disk_free_bytes, "available_in_bytes": own.disk_available_bytes },
            "plugins": [], "network_types": { "transport_types": { "none": 1 }, "http_types": { "pleach": 1 } },
            "ingest": { "number_of_pipelines": 0, "processor_stats": {} } } });
    if call.dialect.persona == Persona::Es2
        && let Some(nodes) = out["nodes"].as_object_mut()
    {
        nodes.retain(|name, _| !["network_types", "ingest"].contains(&name.as_str()));
    }
    if !call.dialect.rules.former_cluster_answers {
        out["nodes"]["discovery_types"] = json!({ "single-node": 1 });
        let packaging = match call.dialect.persona.is_opensearch() {
            true => json!({ "type": "tar", "count": 1 }),
            false => json!({ "flavor": "default", "type": "tar", "count": 1 }),
        };
        out["nodes"]["packaging_types"] = json!([packaging]);
    }
    without_of_2015(&call, &mut out, &["_nodes", "cluster_uuid"]);
    Ok(Answer::ok(out))
}

/// How many nodes have each role: there is one, which has all of the persona.
fn count_of_nodes(call: &Call) -> Value {
    if call.dialect.rules.former_cluster_answers {
        return json!({ "total": 1, "master_only": 0, "data_only": 0, "master_data": 1, "client": 0 });
    }
    let mut count = json!({ "total": 1, "coordinating_only": 0 });
    for role in roles(call.dialect.persona) {
        count[*role] = 1.into();
    }
    // The manager's old name stays beside its new one.
    count["master"] = 1.into();
    count
}

/// `_cluster/pending_tasks`: nothing waits.
#[boxed]
pub(crate) async fn pending_tasks(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::ok(json!({ "tasks": [] })))
}
