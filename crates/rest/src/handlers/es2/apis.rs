//! APIs that 2015 had and later servers dropped or moved: features of an index by list, warmers, segments, recoveries,
//! rerouting, field statistics, percolation of nothing.
//!
//! Not here: search templates and suggesters (`search`), tables (`cat`), shards in that version's shape (`actions::es2_shards`).

use crate::actions::es2_shards::{recovery, segments, stores};
use crate::call::Call;
use crate::render::indices::{aliases_of, mappings_of, shards_of};
use crate::respond::Answer;
use crate::targets::administration::admin_target;
use async_recursion::async_recursion as boxed;
use engine::{Inspected, Inspection};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `GET /i/_mappings,_aliases`: parts of what `GET /i` shows.
pub(crate) async fn features(call: &mut Call, list: &str) -> Result<Answer> {
    let flat = call.params.peek("flat_settings").is_some_and(|v| v != "false");
    let mut wanted = Vec::new();
    for name in list.split(',') {
        wanted.push(match name {
            "_settings" => "settings",
            "_mapping" | "_mappings" => "mappings",
            "_alias" | "_aliases" => "aliases",
            "_warmer" | "_warmers" => "warmers",
            other => return Err(Error::illegal(format!("No feature for name [{other}]"))),
        });
    }
    let target = admin_target(call)?;
    let mut out = Map::new();
    for info in call.rest.indices(&target).await? {
        let mut entry = Map::new();
        for part in &wanted {
            let value = match *part {
                "settings" => crate::render::settings::render(&info, call.dialect, flat, &[]),
                "mappings" => mappings_of(&info, call.dialect),
                "aliases" => aliases_of(&info, call.dialect),
                _ => Value::Object(crate::render::warmers::of_index(&info)),
            };
            entry.insert((*part).to_owned(), value);
        }
        out.insert(info.name.to_string(), Value::Object(entry));
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `_cluster/reroute`: shards are where they are; commands to move them are refused.
#[boxed]
pub(crate) async fn reroute(mut call: Call) -> Result<Answer> {
    let metrics = call.params.take_list("metric");
    let explain = call.params.flag("explain")?;
    let content = call.json()?;
    call.params.finish()?;
    if let Some(node) = content {
        let body = node.into_value();
        let commands = body.get("commands").and_then(Value::as_array);
        if let Some(first) = commands.and_then(|list| list.first()).and_then(Value::as_object) {
            let name = first.keys().next().cloned().unwrap_or_default();
            let known = ["move", "cancel", "allocate"].contains(&name.as_str());
            return Err(Error::illegal(if known {
                format!("[{name}] is not possible: there is one node, and every shard is on it")
            } else {
                format!("No allocation command factory registered for name [{name}]")
            }));
        }
    }
    let names = &call.rest.names;
    let mut out = json!({ "acknowledged": true, "state": {
        "version": 1, "state_uuid": names.cluster_uuid, "master_node": names.node_id, "blocks": {},
        "nodes": { names.node_id.clone(): { "name": names.node, "transport_address": names.address, "attributes": {} } },
        "routing_table": { "indices": {} }, "routing_nodes": { "unassigned": [], "nodes": {} } } });
    if call.dialect.persona.is_opensearch() {
        out["state"]["cluster_manager_node"] = names.node_id.as_str().into();
    }
    // Without a list everything but the metadata.
    if let Some(metrics) = metrics.filter(|metrics| !metrics.iter().any(|m| m == "_all")) {
        if metrics.iter().any(|m| m == "metadata") {
            let mut all = model::Target::of(Vec::new());
            (all.expand_closed, all.forbid_closed, all.expand_hidden) = (true, false, true);
            let infos = call.rest.indices(&all).await?;
            out["state"]["metadata"] = crate::render::cluster::metadata(&call, &infos, false).await?;
        }
        if let Some(state) = out["state"].as_object_mut() {
            state.retain(|part, _| metrics.iter().any(|m| m == part));
        }
    }
    if explain {
        out["explanations"] = json!([]);
    }
    Ok(Answer::ok(out))
}

/// `GET /i/_upgrade`: what would have to be written anew; nothing does.
async fn upgrades(call: &mut Call) -> Result<Answer> {
    let target = call.target()?;
    let Inspected::Stats(stats) = call.rest.engine.inspect(Inspection::Stats(target)).await? else {
        return Err(Error::new(ErrorKind::Internal, "sizes are told by stats"));
    };
    let sizes =
        |bytes: u64| json!({ "size_in_bytes": bytes, "size_to_upgrade_in_bytes": 0, "size_to_upgrade_ancient_in_bytes": 0 });
    let mut out = sizes(stats.iter().map(|(_, s)| s.size_bytes).sum());
    let indices: Map<String, Value> = stats
        .iter()
        .map(|(info, s)| (info.name.to_string(), sizes(s.size_bytes)))
        .collect();
    out["indices"] = Value::Object(indices);
    Ok(Answer::ok(out))
}

/// `POST /i/_upgrade`: nothing is of an older form, which the answer tells by the versions.
#[boxed]
pub(crate) async fn upgrade(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    let one = json!({ "upgrade_version": call.dialect.persona.version(), "oldest_lucene_segment_version": "5.5.4" });
    let upgraded: Map<String, Value> = infos.iter().map(|info| (info.name.to_string(), one.clone())).collect();
    Ok(Answer::ok(
        json!({ "_shards": shards_of(&infos, false), "upgraded_indices": upgraded }),
    ))
}

/// `GET /_upgrade`.
#[boxed]
pub(crate) async fn all_upgrades(mut call: Call) -> Result<Answer> {
    let answer = upgrades(&mut call).await?;
    call.params.finish()?;
    Ok(answer)
}

/// `GET /i/_field_stats?fields=a,b`: what is in the index of some fields, by asking for it.
#[boxed]
pub(crate) async fn field_stats(mut call: Call) -> Result<Answer> {
    call.params.set_api("search");
    let fields = call.params.take_list("fields");
    let level = call.params.take_2015("level").unwrap_or_else(|| "cluster".into());
    let target = call.target()?;
    let content = call.json()?;
    call.params.finish()?;
    let fields = match (fields, content) {
        (Some(fields), _) => fields,
        (None, Some(node)) => match node.into_value().get("fields") {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    if fields.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no fields specified;",
        ));
    }
    if level != "cluster" && level != "indices" {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: invalid level option [{level}];"),
        ));
    }
    let infos = call.rest.indices(&target).await?;
    let mut by_index: Vec<(String, Map<String, Value>)> = Vec::new();
    let mut failures = Vec::new();
    for info in &infos {
        let mut out = Map::new();
        for field in &fields {
            match info.mapping.resolve(field) {
                None => failures.push(
                    json!({ "shard": 0, "index": info.name.as_str(), "status": "BAD_REQUEST", "reason": {
                    "type": "illegal_argument_exception", "reason": format!("field [{field}] doesn't exist") } }),
                ),
                Some((path, kind)) => {
                    if let Some(stats) = of_field(&call, info.name.as_str(), path, kind).await? {
                        out.insert(field.clone(), stats);
                    }
                }
            }
        }
        if failures.is_empty() {
            by_index.push((info.name.to_string(), out));
        }
    }
    let failed = failures.len().min(infos.len());
    let mut shards = json!({ "total": infos.len(), "successful": infos.len() - failed, "failed": failed });
    if failed > 0 {
        shards["failures"] = Value::Array(failures);
    }
    if level == "cluster" && !by_index.is_empty() {
        let all = by_index.into_iter().map(|(_, fields)| fields);
        by_index = vec![("_all".to_owned(), widest(all))];
    }
    let indices: Map<String, Value> = by_index
        .into_iter()
        .map(|(name, fields)| (name, json!({ "fields": fields })))
        .collect();
    Ok(Answer::ok(json!({ "_shards": shards, "indices": indices })))
}

/// The statistics of each field over all indices.
fn widest(indices: impl Iterator<Item = Map<String, Value>>) -> Map<String, Value> {
    let mut all: Map<String, Value> = Map::new();
    for (name, stats) in indices.flatten() {
        match all.get_mut(&name) {
            Some(known) => widen(known, &stats),
            None => drop(all.insert(name, stats)),
        }
    }
    all
}

/// Counts and bounds of one field of one index; `None` if no document has it.
async fn of_field(call: &Call, index: &str, path: &str, kind: &mapping::FieldType) -> Result<Option<Value>> {
    let target = model::Target::index(index);
    let numeric = kind.kind.is_numeric();
    let body = json!({ "size": 0, "query": { "exists": { "field": path } },
        "aggs": { "n": { "value_count": { "field": path } } } });
    let ask = |body: Value| dsl::search::SearchRequest::parse(dsl::json::Node::from_value(body), call.dialect);
    let found = crate::actions::search::run_search(call, &target, ask(body)?).await?;
    let docs = found.hits.total.map_or(0, |t| t.value);
    if docs == 0 {
        return Ok(None);
    }
    let all = crate::actions::search::run_search(call, &target, ask(json!({ "size": 0 }))?).await?;
    let max_doc = all.hits.total.map_or(0, |t| t.value);
    let values = found
        .aggregations
        .and_then(|a| a.tree().get("n")?.get("value")?.as_u64())
        .unwrap_or(docs);
    // Numbers were indexed in 2015 at several precisions: a term for each.
    let steps = match kind.kind.wire() {
        "long" | "double" | "date" => 4,
        "integer" | "float" => 4,
        "short" => 2,
        _ => 1,
    };
    let mut out = json!({ "max_doc": max_doc, "doc_count": docs, "density": docs * 100 / max_doc.max(1), "sum_doc_freq": values * steps,
        "sum_total_term_freq": -1 });
    for (name, order) in [("min_value", "asc"), ("max_value", "desc")] {
        let body = json!({ "size": 1, "sort": [{ path: { "order": order } }], "_source": false, "query": { "exists": { "field": path } } });
        let found = crate::actions::search::run_search(call, &target, ask(body)?).await?;
        let value = found
            .hits
            .hits
            .first()
            .and_then(|h| h.sort.first())
            .cloned()
            .unwrap_or(Value::Null);
        if numeric || kind.kind.wire() == "date" {
            let text = match (&value, kind.kind.wire()) {
                (Value::Number(n), "date") => model::date::DateFormat::default().render(n.as_i64().unwrap_or(0), None),
                (value, _) => value.to_string(),
            };
            out[format!("{name}_as_string")] = text.into();
        }
        out[name] = value;
    }
    Ok(Some(out))
}

/// One index's field beside another's.
fn widen(known: &mut Value, more: &Value) {
    for name in ["max_doc", "doc_count", "sum_doc_freq"] {
        known[name] = (known[name].as_u64().unwrap_or(0) + more[name].as_u64().unwrap_or(0)).into();
    }
    known["density"] = (known["doc_count"].as_u64().unwrap_or(0) * 100 / known["max_doc"].as_u64().unwrap_or(1).max(1)).into();
    let number = |v: &Value| v.as_f64();
    for (name, larger) in [("min_value", false), ("max_value", true)] {
        let replace = match (number(&known[name]), number(&more[name])) {
            (Some(a), Some(b)) => (b > a) == larger && b != a,
            _ => (more[name].as_str() > known[name].as_str()) == larger,
        };
        if replace {
            known[name] = more[name].clone();
            let text = format!("{name}_as_string");
            if let Some(value) = more.get(&text) {
                known[text] = value.clone();
            }
        }
    }
}

/// `GET /i/{feature}` where the second segment begins with an underscore: what 2015 answered there.
pub(crate) async fn feature(mut call: Call, name: &str) -> Result<Answer> {
    match name {
        "_segments" => segments(&mut call).await,
        "_recovery" => recovery(&mut call).await,
        "_shard_stores" => stores(&mut call).await,
        "_upgrade" => upgrades(&mut call).await,
        list => features(&mut call, list).await,
    }
}
