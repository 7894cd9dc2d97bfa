//! The server itself: what it is, how it does, its settings.

use super::indices::{mappings_of, shards_of, summed};
use crate::Names;
use crate::call::Call;
use crate::machine::{Machine, percent};
use crate::respond::Answer;
use engine::{Alteration, IndexInfo, Inspected, Inspection, NodeStats, TemplateKind, Trouble};
use model::settings::{ALL, Scope, find, number};
use model::{Error, ErrorKind, Persona, Result, Target, nearest};
use serde_json::{Map, Value, json};

/// `GET /`.
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

/// Shards and status of some indices: primaries are here, replicas are nowhere.
pub(super) struct Health {
    pub(super) active: u64,
    pub(super) unassigned: u64,
    /// Some index is damaged.
    stopped: bool,
    /// Something behind the scenes does not succeed.
    troubled: bool,
}

impl Health {
    pub(super) fn of(infos: &[IndexInfo]) -> Health {
        let shards = |i: &IndexInfo| number(&i.settings, model::settings::NUMBER_OF_SHARDS);
        let replicas = |i: &IndexInfo| number(&i.settings, model::settings::NUMBER_OF_REPLICAS);
        Health {
            active: infos.iter().filter(|i| i.stopped.is_none()).map(shards).sum(),
            unassigned: infos
                .iter()
                .map(|i| shards(i) * (replicas(i) + u64::from(i.stopped.is_some())))
                .sum(),
            stopped: infos.iter().any(|i| i.stopped.is_some()),
            troubled: infos.iter().any(|i| i.troubled),
        }
    }
    pub(super) fn status(&self) -> &'static str {
        if self.stopped {
            "red"
        } else if self.unassigned > 0 || self.troubled {
            "yellow"
        } else {
            "green"
        }
    }
    pub(super) fn percent(&self) -> f64 {
        let all = self.active + self.unassigned;
        if all == 0 {
            100.0
        } else {
            self.active as f64 * 100.0 / all as f64
        }
    }
}

/// `_cluster/health`.
pub(crate) async fn health(mut call: Call) -> Result<Answer> {
    let wait_status = call.params.take("wait_for_status");
    let wait_nodes = call.params.take("wait_for_nodes");
    let wait_active = call.params.take("wait_for_active_shards");
    let of_2015 = crate::answers_of_2015(call.dialect);
    let mut level = call.params.take("level").unwrap_or_else(|| "cluster".into());
    if of_2015 && !["cluster", "indices", "shards"].contains(&level.as_str()) {
        level = "cluster".into();
    }
    let timeout = call.params.take_duration("timeout")?;
    let mut target = Target::of(call.arg("index").map(crate::params::split_list).unwrap_or_default());
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
    let health = Health::of(&infos);
    let rank = |s: &str| ["green", "yellow", "red"].iter().position(|x| *x == s).unwrap_or(2);
    if let Some(wanted) = &wait_status
        && !["green", "yellow", "red"].contains(&wanted.to_lowercase().as_str())
    {
        let then = format!(
            "No enum constant org.elasticsearch.cluster.health.ClusterHealthStatus.{}",
            wanted.to_uppercase()
        );
        let today = format!("unknown cluster health status [{wanted}]");
        return Err(Error::illegal(if of_2015 { then } else { today }));
    }
    if let Some(wanted) = wait_nodes
        .as_deref()
        .filter(|wanted| of_2015 && !wanted.contains(|c: char| c.is_ascii_digit()))
    {
        return Err(Error::no_number(wanted));
    }
    let nodes_ok = wait_nodes.as_deref().is_none_or(nodes_hold);
    let shards_ok = wait_active.as_deref().is_none_or(|w| match w {
        "all" => health.unassigned == 0,
        n => n.parse::<u64>().is_ok_and(|n| n <= health.active),
    });
    let timed_out = wait_status
        .as_deref()
        .is_some_and(|w| rank(health.status()) > rank(&w.to_lowercase()))
        || !nodes_ok
        || !shards_ok;
    if timed_out {
        // What is waited for cannot come while one process serves: waiting is cut short at a second.
        tokio::time::sleep(timeout.unwrap_or_default().min(std::time::Duration::from_secs(1))).await;
    }
    let mut out = health_body(&call, health.status(), &health, timed_out);
    let stopped: Map<String, Value> = infos
        .iter()
        .filter_map(|i| Some((i.name.to_string(), i.stopped.as_deref()?.into())))
        .collect();
    if !stopped.is_empty() {
        out["stopped"] = Value::Object(stopped);
    }
    if level != "cluster" {
        let indices: Map<String, Value> = infos
            .iter()
            .map(|i| (i.name.to_string(), index_health(i, level == "shards")))
            .collect();
        out["indices"] = Value::Object(indices);
    }
    Ok(Answer::of(if timed_out { 408 } else { 200 }, out))
}

/// What waiting for an index that is not there comes to.
async fn missing_health(call: &Call, timeout: Option<std::time::Duration>) -> Answer {
    tokio::time::sleep(timeout.unwrap_or_default().min(std::time::Duration::from_secs(1))).await;
    let none = Health {
        active: 0,
        unassigned: 0,
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

fn index_health(info: &IndexInfo, shards: bool) -> Value {
    let health = Health::of(std::slice::from_ref(info));
    let count = number(&info.settings, model::settings::NUMBER_OF_SHARDS);
    let mut out = json!({
        "status": health.status(), "number_of_shards": count, "number_of_replicas": number(&info.settings, model::settings::NUMBER_OF_REPLICAS),
        "active_primary_shards": health.active, "active_shards": health.active, "relocating_shards": 0, "initializing_shards": 0,
        "unassigned_shards": health.unassigned });
    if shards {
        let one = |_| {
            json!({ "status": health.status(), "primary_active": info.stopped.is_none(), "active_shards": u64::from(info.stopped.is_none()), "relocating_shards": 0, "initializing_shards": 0,
            "unassigned_shards": number(&info.settings, model::settings::NUMBER_OF_REPLICAS) })
        };
        let list: Map<String, Value> = (0..count.min(1024)).map(|i| (i.to_string(), one(i))).collect();
        out["shards"] = Value::Object(list);
    }
    out
}

/// `_cluster/state`.
pub(crate) async fn state(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let lenient = crate::answers_of_2015(call.dialect);
    let target = call.target_with(|t| {
        (t.expand_closed, t.forbid_closed, t.expand_hidden) = (true, false, true);
        t.ignore_unavailable |= lenient;
    })?;
    call.params.finish()?;
    let metrics = call
        .arg("metric")
        .map(crate::params::split_list)
        .unwrap_or_else(|| vec!["_all".into()]);
    let known = [
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
    if let Some(unknown) = metrics
        .iter()
        .find(|m| !known.contains(&m.as_str()))
        .filter(|_| !call.dialect.typed)
    {
        let near = nearest::nearest(unknown, known)
            .map(|n| format!(" -> did you mean [{n}]?"))
            .unwrap_or_default();
        return Err(Error::illegal(format!(
            "request [{}] contains unrecognized metric: [{unknown}]{near}",
            call.params.path()
        )));
    }
    let wants = |m: &str| metrics.iter().any(|x| x == m || x == "_all");
    let names = &call.rest.names;
    let infos = call.rest.indices(&target).await?;
    let mut out = Map::new();
    out.insert("cluster_name".into(), names.cluster.as_str().into());
    if !call.dialect.typed {
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
        let closed: Map<String, Value> = infos
            .iter()
            .filter(|i| !i.open)
            .map(|i| {
                (
                    i.name.to_string(),
                    json!({ "4": { "description": "index closed", "retryable": false, "levels": ["read", "write"] } }),
                )
            })
            .collect();
        out.insert(
            "blocks".into(),
            if closed.is_empty() {
                json!({})
            } else {
                json!({ "indices": closed })
            },
        );
    }
    if wants("nodes") {
        out.insert(
            "nodes".into(),
            json!({ names.node_id.clone(): { "name": names.node, "transport_address": names.address, "attributes": {} } }),
        );
    }
    if wants("metadata") {
        out.insert("metadata".into(), metadata(&call, &infos, flat).await?);
    }
    if wants("routing_table") || wants("routing_nodes") {
        let table: Map<String, Value> = infos
            .iter()
            .map(|i| {
                let shards: Map<String, Value> = if call.dialect.typed {
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

/// The part of the state that is about indices and templates.
pub(super) async fn metadata(call: &Call, infos: &[IndexInfo], flat: bool) -> Result<Value> {
    let indices: Map<String, Value> = infos
        .iter()
        .map(|i| {
            let aliases: Vec<&String> = i.aliases.keys().collect();
            let settings = super::settings::render(i, call.dialect, flat, &[]);
            let state = if i.open { "open" } else { "close" };
            let mappings = mappings_of(i, call.dialect);
            let body = json!({ "state": state, "settings": settings, "mappings": mappings, "aliases": aliases });
            (i.name.to_string(), body)
        })
        .collect();
    let templates: Map<String, Value> = match call.rest.engine.inspect(Inspection::Templates(TemplateKind::Legacy)).await? {
        Inspected::Templates(list) => list.into_iter().collect(),
        _ => Map::new(),
    };
    Ok(json!({ "cluster_uuid": call.rest.names.cluster_uuid, "templates": templates, "indices": indices }))
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

fn shard(call: &Call, info: &IndexInfo) -> Value {
    json!({ "state": "STARTED", "primary": true, "node": call.rest.names.node_id, "relocating_node": null, "shard": 0, "index": info.name.as_str(),
        "allocation_id": { "id": info.uuid } })
}

/// `_search_shards`.
pub(crate) async fn search_shards(mut call: Call) -> Result<Answer> {
    let lenient = crate::answers_of_2015(call.dialect);
    let target = call.target_with(|target| {
        target.ignore_unavailable |= lenient;
        target.allow_no_indices |= lenient;
    })?;
    let routing = call.params.take_2015("routing").filter(|_| lenient);
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    let names = &call.rest.names;
    let shards: Vec<Value> = if call.dialect.typed {
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
    let mut nodes =
        json!({ names.node_id.clone(): { "name": names.node, "transport_address": names.address, "attributes": {} } });
    if lenient && shards.is_empty() {
        nodes = json!({});
    }
    let mut out = json!({ "nodes": nodes, "shards": shards });
    if !call.dialect.typed {
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
                    let query = dsl::query::Query::parse(node, &mut dsl::query::Parsing::new(call.dialect)).ok()?;
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
pub(crate) async fn stats(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let mut target = Target::of(Vec::new());
    target.forbid_closed = false;
    let stats = match call.rest.engine.inspect(Inspection::Stats(target)).await? {
        Inspected::Stats(stats) => stats,
        _ => Vec::new(),
    };
    let infos: Vec<IndexInfo> = stats.iter().map(|(i, _)| i.clone()).collect();
    let sections = summed(&stats, call.dialect.typed);
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
    let mut out = json!({
        "_nodes": { "total": 1, "successful": 1, "failed": 0 }, "cluster_name": names.cluster, "cluster_uuid": names.cluster_uuid,
        "timestamp": call.rest.clock.wall_ms(), "status": Health::of(&infos).status(), "indices": indices,
        "nodes": { "count": if call.dialect.typed {
                json!({ "total": 1, "master_only": 0, "data_only": 0, "master_data": 1, "client": 0 })
            } else {
                let mut count = json!({ "total": 1, "coordinating_only": 0 });
                for role in roles(call.dialect.persona) {
                    count[*role] = 1.into();
                }
                // The manager's old name stays beside its new one.
                count["master"] = 1.into();
                count
            }, "versions": [call.dialect.persona.version()],
            "os": { "available_processors": 1, "allocated_processors": 1, "names": [], "mem": { "total_in_bytes": 0, "free_in_bytes": 0, "used_in_bytes": 0 } },
            "process": { "cpu": { "percent": 0 }, "open_file_descriptors": { "min": 0, "max": 0, "avg": 0 } },
            "jvm": { "max_uptime_in_millis": 0, "versions": [], "mem": { "heap_used_in_bytes": 0, "heap_max_in_bytes": 0 }, "threads": 0 },
            "fs": { "total_in_bytes": 0, "free_in_bytes": 0, "available_in_bytes": 0 }, "plugins": [] } });
    if !call.dialect.typed || call.dialect.persona == Persona::Es7 {
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

/// Takes out what answers of 2015 did not have.
fn without_of_2015(call: &Call, out: &mut Value, names: &[&str]) {
    if let Some(out) = out.as_object_mut().filter(|_| crate::answers_of_2015(call.dialect)) {
        names.iter().for_each(|name| {
            out.remove(*name);
        });
    }
}

/// `GET /_cluster/settings`.
pub(crate) async fn get_settings(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    // 2015 had no place for them.
    let defaults = call.params.flag("include_defaults")? && !crate::answers_of_2015(call.dialect);
    call.params.finish()?;
    let (persistent, transient) = current(&call).await?;
    let mut out = json!({ "persistent": shape(persistent, flat), "transient": shape(transient, flat) });
    if defaults {
        let rows = ALL
            .iter()
            .filter(|s| s.scope == Scope::Cluster)
            .map(|s| (s.name.to_owned(), Value::from(s.default)))
            .collect();
        out["defaults"] = shape(rows, flat);
    }
    Ok(Answer::ok(out))
}

async fn current(call: &Call) -> Result<(Map<String, Value>, Map<String, Value>)> {
    match call.rest.engine.inspect(Inspection::ClusterSettings).await? {
        Inspected::ClusterSettings { persistent, transient } => Ok((persistent, transient)),
        other => Err(Error::new(ErrorKind::Internal, format!("{other:?} does not tell settings"))),
    }
}

fn shape(settings: Map<String, Value>, flat: bool) -> Value {
    if flat {
        return Value::Object(settings);
    }
    let mut out = Value::Object(Map::new());
    for (name, value) in settings {
        model::path::set(&mut out, &name, value);
    }
    out
}

/// `PUT /_cluster/settings`.
pub(crate) async fn put_settings(mut call: Call) -> Result<Answer> {
    let flat = call.params.flag("flat_settings")?;
    let node = match call.json_needed() {
        Err(error) if crate::answers_of_2015(call.dialect) => {
            return Err(match error.kind() {
                ErrorKind::Parse => crate::words_2015::underivable(),
                _ => crate::words_2015::unread(error, &call.content()),
            });
        }
        node => node?,
    };
    call.params.finish()?;
    let Value::Object(mut body) = node.into_value() else {
        return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
    };
    let mut part = |name: &str| -> Result<Map<String, Value>> {
        match body.remove(name) {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) => Ok(flattened(map)),
            Some(_) => Err(Error::new(ErrorKind::Parse, format!("[{name}] must be an object"))),
        }
    };
    let (mut persistent, mut transient) = (part("persistent")?, part("transient")?);
    if let Some(other) = body.keys().next() {
        if call.dialect.typed {
            return Err(Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: no settings to update;",
            ));
        }
        return Err(Error::illegal(format!(
            "unknown key [{other}] in cluster settings: use persistent or transient"
        )));
    }
    if persistent.is_empty() && transient.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no settings to update;",
        ));
    }
    for (kind, map) in [("persistent", &mut persistent), ("transient", &mut transient)] {
        let unknown: Vec<String> = map.keys().filter(|n| !known(n)).cloned().collect();
        for name in unknown {
            if !call.dialect.typed {
                let near = nearest::hint(&name, ALL.iter().map(|s| s.name));
                return Err(Error::illegal(format!("{kind} setting [{name}], not recognized{near}")));
            }
            map.remove(&name);
        }
    }
    let answered = (strings(&persistent), strings(&transient));
    call.rest.alter(Alteration::ClusterSettings { persistent, transient }).await?;
    Ok(Answer::ok(
        json!({ "acknowledged": true, "persistent": shape(answered.0, flat), "transient": shape(answered.1, flat) }),
    ))
}

/// Settings of ours, and families that real clusters have and that concern shards and nodes that we do not.
fn known(name: &str) -> bool {
    find(name).is_some_and(|s| s.scope == Scope::Cluster)
        || [
            "cluster.",
            "indices.",
            "discovery.",
            "logger.",
            "search.",
            "script.",
            "action.",
            "persistent_tasks.",
            "ingest.",
        ]
        .iter()
        .any(|p| name.starts_with(p))
        || name.contains('*')
}

fn strings(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter()
        .filter(|(_, v)| !v.is_null())
        .map(|(k, v)| (k.clone(), if v.is_string() { v.clone() } else { v.to_string().into() }))
        .collect()
}

/// Nested names as dotted ones. The depth is the reader's.
fn flattened(map: Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    let mut open: Vec<(String, Value)> = map.into_iter().collect();
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(inner) => open.extend(inner.into_iter().map(|(k, v)| (format!("{name}.{k}"), v))),
            value => {
                out.insert(name, value);
            }
        }
    }
    out
}

/// `_cluster/pending_tasks`: nothing waits.
pub(crate) async fn pending_tasks(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::ok(json!({ "tasks": [] })))
}

pub(super) async fn node_stats(call: &Call) -> Result<NodeStats> {
    match call.rest.engine.inspect(Inspection::Node).await? {
        Inspected::Node(stats) => Ok(stats),
        _ => Ok(NodeStats::default()),
    }
}

/// `_nodes`. Leaves that only a JVM has are zero.
pub(crate) async fn nodes(mut call: Call) -> Result<Answer> {
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
fn roles(persona: Persona) -> &'static [&'static str] {
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
fn of_node(call: &Call, chosen: bool, node: Value) -> Answer {
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
pub(crate) async fn nodes_stats(mut call: Call) -> Result<Answer> {
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
    let own = node_stats(&call).await?;
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
