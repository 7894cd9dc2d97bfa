//! Indices: create, delete, get, open and close, refresh, flush, merge, stats.

use crate::call::Call;
use crate::es2_errors;
use crate::missing_index;
use crate::render::indices::{aliases_of, mappings_of, no_map, sections, shards_of, sum_sections, type_level};
use crate::render::shards::shard_state;
use crate::respond::Answer;
use crate::targets::administration::{admin_target, readable};
use crate::targets::destructive::check_named;
use async_recursion::async_recursion as boxed;
use engine::{Alteration, IndexInfo, IndexStats};
use mapping::has_type_level;
use model::{Dialect, Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `PUT /i`.
#[boxed]
pub(crate) async fn create(mut call: Call) -> Result<Answer> {
    let name = call.path_part("index")?;
    let include_type_name = call.params.take_bool("include_type_name")?;
    let content = match call.json() {
        Err(_) if call.dialect.rules.creation_refusal_words => {
            return Err(Error::new(ErrorKind::Parse, "failed to parse source for create index"));
        }
        other => other.map_err(no_map)?,
    };
    call.params.finish()?;
    let mut body = CreateBody::default();
    if let Some(node) = content {
        let Value::Object(parts) = node.into_value() else {
            return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
        };
        body = CreateBody::read(parts, call.dialect)?;
    }
    let mut typed = call.dialect.rules.has_types;
    let mappings = match body.mappings {
        Some(mappings) => Some(mappings_at_creation(mappings, include_type_name, call.dialect, &mut typed)?),
        None => None,
    };
    let create = Alteration::CreateIndex {
        name: name.clone(),
        settings: body.settings,
        mappings,
        aliases: body.aliases,
        typed,
        if_absent: false,
    };
    match call.rest.alter(create).await {
        Err(error) if call.dialect.rules.creation_refusal_words => return Err(es2_errors::at_creation(error)),
        other => drop(other?),
    }
    let mut out = json!({ "acknowledged": true });
    if !call.dialect.rules.omits_later_members {
        out["shards_acknowledged"] = true.into();
        out["index"] = name.into();
    }
    Ok(Answer::ok(out))
}

/// The parts of the body of a creation.
#[derive(Default)]
struct CreateBody {
    settings: Map<String, Value>,
    mappings: Option<Value>,
    aliases: Map<String, Value>,
}

impl CreateBody {
    fn read(body: Map<String, Value>, dialect: Dialect) -> Result<CreateBody> {
        let mut out = CreateBody::default();
        let mut warmers = None;
        // Without any of the known parts the whole body is the settings, as the servers of 2015 read it.
        let whole = dialect.rules.bodies_are_settings
            && !body
                .keys()
                .any(|k| ["settings", "mappings", "aliases", "warmers"].contains(&k.as_str()));
        for (key, value) in body {
            match key.as_str() {
                _ if whole => {
                    out.settings.insert(key, value);
                }
                "settings" => out.settings = object(value, "settings")?,
                "mappings" => out.mappings = Some(value),
                "aliases" => out.aliases = object(value, "aliases")?,
                "warmers" if dialect.rules.has_warmers => warmers = crate::render::warmers::at_creation(&value)?,
                // Unknown parts were passed over.
                _ if dialect.rules.skips_unknown_keys => {}
                other => {
                    let reason = format!("unknown key [{other}] for create index");
                    return Err(Error::new(ErrorKind::Parse, reason));
                }
            }
        }
        out.settings.extend(warmers);
        Ok(out)
    }
}

/// The mappings of a new index as the engine takes them. A body with a level of types makes the index `typed`.
fn mappings_at_creation(body: Value, include_type_name: Option<bool>, dialect: Dialect, typed: &mut bool) -> Result<Value> {
    let mut body = match body {
        Value::Object(mut map) if !*typed && map.len() == 1 && map.contains_key("_doc") && map["_doc"].is_object() => {
            map.remove("_doc").unwrap_or_default()
        }
        other => other,
    };
    if has_type_level(&body) {
        if include_type_name == Some(false) {
            let name = body.as_object().and_then(|m| m.keys().next()).cloned().unwrap_or_default();
            return Err(Error::illegal(format!(
                "The mapping definition cannot be nested under a type [{name}] unless include_type_name is set to true."
            )));
        }
        *typed = true;
    }
    if dialect.rules.former_mapping_apis {
        for (name, mapping) in body.as_object().into_iter().flatten() {
            crate::render::field_types::check_types_of_2015(mapping, 0).map_err(|error| {
                let reason = format!("Failed to parse mapping [{name}]: {}", error.reason());
                Error::new(error.kind(), reason)
            })?;
        }
    }
    crate::percolator_type::complete(&mut body);
    Ok(body)
}

fn object(value: Value, name: &str) -> Result<Map<String, Value>> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(Error::new(ErrorKind::Parse, format!("key [{name}] must be an object"))),
    }
}

/// `DELETE /i`.
#[boxed]
pub(crate) async fn delete(mut call: Call) -> Result<Answer> {
    let locks = call.take_locks()?;
    let mut target = admin_target(&mut call)?;
    call.params.finish()?;
    check_named(&call, &target).await?;
    // In 2015 an alias stood for its indices here too.
    if call.dialect.rules.removes_through_aliases && !target.expressions.is_empty() {
        let infos = call.rest.indices(&target).await?;
        let reached = |e: &String| infos.iter().any(|info| info.aliases.contains_key(e));
        if target.expressions.iter().any(reached) {
            target.expressions = infos.iter().map(|info| info.name.to_string()).collect();
        }
    }
    crate::actions::locks::check_alter(&call.rest, &target, &locks).await?;
    call.rest.alter(Alteration::DeleteIndices(target)).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `HEAD /i`.
#[boxed]
pub(crate) async fn exists(mut call: Call) -> Result<Answer> {
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let wild = !call.dialect.rules.exists_without_wildcards && target.expressions.iter().any(|e| e.contains('*'));
    let found = match call.rest.indices(&target).await {
        Ok(infos) => !infos.is_empty() || wild && target.allow_no_indices,
        Err(error) if error.status() == 404 => false,
        Err(error) => return Err(error),
    };
    Ok(Answer::empty(if found { 200 } else { 404 }))
}

/// `HEAD /i/t` of the typed dialect.
#[boxed]
pub(crate) async fn exists_type(mut call: Call) -> Result<Answer> {
    let wanted = call.path_part("type")?;
    let mut target = admin_target(&mut call)?;
    target.types.clear();
    call.params.finish()?;
    let types = crate::query_params::split_list(&wanted);
    let found = match call.rest.indices(&target).await {
        Ok(infos) => {
            !infos.is_empty()
                && infos
                    .iter()
                    .all(|i| i.typed && types.iter().all(|t| i.mappings.get(t).is_some()))
        }
        Err(error) if error.status() == 404 => false,
        Err(error) => return Err(error),
    };
    Ok(Answer::empty(if found { 200 } else { 404 }))
}

/// `GET /i`, also `GET /i/_mappings,_settings` of the typed dialect by its own route.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let include_type_name = call.params.take_bool("include_type_name")?;
    let flat = call.params.flag("flat_settings")?;
    let defaults = call.params.flag("include_defaults")?;
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    let mut out = Map::new();
    let infos = call.rest.indices(&target).await?;
    readable(&infos)?;
    for info in infos {
        let mut entry = json!({
            "aliases": aliases_of(&info, call.dialect),
            "mappings": type_level(mappings_of(&info, call.dialect), include_type_name),
            "settings": crate::render::settings::render(&info, call.dialect, flat, &[]),
        });
        if defaults {
            entry["defaults"] = crate::render::settings::defaults(&info, flat, &[]);
        }
        if let Some(warmers) = crate::render::warmers::render(&info, call.dialect) {
            entry["warmers"] = warmers;
        }
        out.insert(info.name.to_string(), entry);
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `POST /i/_open`.
#[boxed]
pub(crate) async fn open(mut call: Call) -> Result<Answer> {
    let wait = call.params.take_bool("wait_for_completion")?.unwrap_or(true);
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    check_named(&call, &target).await?;
    if !wait {
        let description = format!("open indices [{}]", target.expressions.join(", "));
        let open = Alteration::OpenIndices(target);
        return Ok(crate::actions::tasks::in_background(
            &call,
            "indices:admin/open",
            description,
            open,
        ));
    }
    call.rest.alter(Alteration::OpenIndices(target)).await?;
    Ok(Answer::ok(if call.dialect.rules.omits_later_members {
        json!({ "acknowledged": true })
    } else {
        json!({ "acknowledged": true, "shards_acknowledged": true })
    }))
}

/// `POST /i/_close`.
#[boxed]
pub(crate) async fn close(mut call: Call) -> Result<Answer> {
    let target = admin_target(&mut call)?;
    let locks = call.take_locks()?;
    call.params.finish()?;
    check_named(&call, &target).await?;
    crate::actions::locks::check_alter(&call.rest, &target, &locks).await?;
    if call.dialect.rules.closes_something && call.rest.indices(&target).await?.is_empty() && !target.ignore_unavailable {
        return Err(missing_index(&target.expressions.join(",")));
    }
    let altered = call.rest.alter(Alteration::CloseIndices(target)).await?;
    let indices: Map<String, Value> = altered
        .indices
        .iter()
        .map(|i| (i.to_string(), json!({ "closed": true })))
        .collect();
    Ok(Answer::ok(if call.dialect.rules.omits_later_members {
        json!({ "acknowledged": true })
    } else {
        json!({ "acknowledged": true, "shards_acknowledged": true, "indices": indices })
    }))
}

/// `POST /i/_refresh`.
#[boxed]
pub(crate) async fn refresh(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    call.rest.engine.refresh(&target, None).await?;
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true) })))
}

/// `POST /i/_flush`.
#[boxed]
pub(crate) async fn flush(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let force = call.params.flag("force")?;
    let wait = call.params.take_bool("wait_if_ongoing")?.unwrap_or(true);
    call.params.finish()?;
    if force && !wait {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: wait_if_ongoing must be true for a force flush;",
        ));
    }
    let synced = call.params.path().ends_with("/synced");
    let infos = call.rest.indices(&target).await?;
    if call.dialect.rules.flush_refreshes {
        // A flush of 2015 opened a new searcher, too.
        call.rest.engine.refresh(&target, None).await?;
    }
    call.rest.alter(Alteration::Flush(target)).await?;
    let answer = Answer::ok(json!({ "_shards": shards_of(&infos, true) }));
    Ok(if synced && !call.dialect.rules.has_synced_flush {
        answer.warning(
            call.dialect,
            "Synced flush is deprecated and will be removed in 8.0. Use flush at _/flush or /{index}/_flush instead.",
        )
    } else {
        answer
    })
}

/// `POST /i/_forcemerge`, `_optimize`.
#[boxed]
pub(crate) async fn forcemerge(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let max_num_segments = call
        .params
        .take_number::<i64>("max_num_segments")?
        .map_or(1, |n| usize::try_from(n).unwrap_or(1));
    let only_expunge_deletes = call.params.flag("only_expunge_deletes")?;
    let wait = call.params.take_bool("wait_for_completion")?.unwrap_or(true);
    call.params.finish()?;
    let infos = call.rest.indices(&target).await;
    let description = format!(
        "Force-merge indices [{}], maxSegments[{max_num_segments}], onlyExpungeDeletes[{only_expunge_deletes}], flush[true], primaryOnly[false]",
        target.expressions.join(", ")
    );
    let merge = Alteration::ForceMerge {
        target,
        max_num_segments,
        only_expunge_deletes,
    };
    if !wait {
        return Ok(crate::actions::tasks::in_background(
            &call,
            "indices:admin/forcemerge",
            description,
            merge,
        ));
    }
    let infos = infos?;
    call.rest.alter(merge).await?;
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true) })))
}

/// `POST /i/_cache/clear`: caches have budgets, and no answer depends on them.
#[boxed]
pub(crate) async fn clear_cache(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true) })))
}

/// Writes of the types asked for, beside those of all.
fn by_type<'a>(sections: &mut Map<String, Value>, stats: impl Iterator<Item = &'a IndexStats>, types: &[String]) {
    let mut counts: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    for (name, count) in stats.flat_map(|one| &one.index_by_type) {
        if types.iter().any(|t| t == "_all" || model::path::matches(t, name)) {
            *counts.entry(name).or_default() += count;
        }
    }
    if let (false, Some(indexing)) = (counts.is_empty(), sections.get_mut("indexing")) {
        let one = |(name, count): (&str, u64)| {
            let mut own = indexing.clone();
            for (key, value) in own.as_object_mut().into_iter().flatten() {
                if value.is_number() {
                    *value = u64::from(key == "index_total").saturating_mul(count).into();
                }
            }
            (name.to_owned(), own)
        };
        let types: Map<String, Value> = counts.into_iter().map(one).collect();
        indexing["types"] = Value::Object(types);
    }
}

/// `GET /i/_stats`.
#[boxed]
pub(crate) async fn stats(mut call: Call) -> Result<Answer> {
    let metrics = call.arg("metric").map(crate::query_params::split_list).unwrap_or_default();
    let level = call.params.take("level").unwrap_or_else(|| "indices".into());
    let types = call.params.take_list("types").unwrap_or_default();
    let forbid_closed = call.params.take_bool("forbid_closed_indices")?.unwrap_or(true);
    let target = call.target_with(|t| (t.forbid_closed, t.expand_closed) = (forbid_closed, !forbid_closed))?;
    call.params.finish()?;
    let former = call.dialect.rules.former_statistics;
    let known = sections(&IndexStats::default(), call.dialect);
    // The plural and singular names that the URL takes.
    let name = |m: &str| match m {
        "merge" => "merges".to_owned(),
        "suggest" if !former => "search".to_owned(),
        other => other.to_owned(),
    };
    let wanted: Vec<String> = metrics.iter().map(|m| name(m)).collect();
    if wanted.len() > 1 && wanted.iter().any(|m| m == "_all") && !former {
        return Err(Error::illegal(format!(
            "request [{}] contains _all and individual metrics [{}]",
            call.params.path(),
            metrics.join(",")
        )));
    }
    if !["cluster", "indices", "shards"].contains(&level.as_str()) && call.dialect.rules.tolerates_unknown_levels {
        // A level that 2015 did not know showed nothing.
        let infos = call.rest.indices(&target).await?;
        return Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true) })));
    }
    if !["cluster", "indices", "shards"].contains(&level.as_str()) {
        return Err(Error::illegal(format!(
            "level parameter must be one of [cluster] or [indices] or [shards] but was [{level}]"
        )));
    }
    let all = wanted.is_empty() || wanted.iter().any(|m| m == "_all");
    for metric in wanted.iter().filter(|m| *m != "_all") {
        if !known.contains_key(metric) && !former {
            let near = model::nearest::nearest(metric, known.keys().map(String::as_str));
            let hint = near.map(|n| format!(" -> did you mean [{n}]?")).unwrap_or_default();
            return Err(Error::illegal(format!(
                "request [{}] contains unrecognized metric: [{metric}]{hint}",
                call.params.path()
            )));
        }
    }
    let stats = call.rest.stats(target).await?;
    let cut = |map: Map<String, Value>| -> Value { map.into_iter().filter(|(k, _)| all || wanted.contains(k)).collect() };
    let mut total = sum_sections(&stats, call.dialect);
    by_type(&mut total, stats.iter().map(|(_, one)| one), &types);
    let total = cut(total);
    let infos: Vec<IndexInfo> = stats.iter().map(|(i, _)| i.clone()).collect();
    let mut out = json!({ "_shards": shards_of(&infos, true), "_all": { "primaries": total, "total": total } });
    if level != "cluster" {
        let mut indices = Map::new();
        for (info, one) in &stats {
            let mut part = sections(one, call.dialect);
            by_type(&mut part, std::iter::once(one), &types);
            let entry = stats_of_index(&call, info, one, cut(part), level == "shards");
            indices.insert(info.name.to_string(), entry);
        }
        out["indices"] = Value::Object(indices);
    }
    Ok(Answer::ok(out))
}

/// The entry of one index: the sections of `part`, why it is stopped, its troubles, its shard.
fn stats_of_index(call: &Call, info: &IndexInfo, stats: &IndexStats, part: Value, shards: bool) -> Value {
    let mut entry = if call.dialect.rules.former_statistics {
        json!({ "primaries": part, "total": part })
    } else {
        json!({ "uuid": info.uuid, "primaries": part, "total": part })
    };
    if let Some(why) = &info.stopped {
        entry["stopped"] = why.as_str().into();
    }
    if !stats.troubles.is_empty() {
        entry["troubles"] = crate::render::nodes::troubles(&stats.troubles);
    }
    if shards {
        let mut shard = part;
        shard["routing"] =
            json!({ "state": shard_state(info), "primary": true, "node": call.rest.names.node_id, "relocating_node": null });
        shard["commit"] = commit(info, stats);
        entry["shards"] = json!({ "0": [shard] });
    }
    entry
}

/// The last checkpoint, as far as it concerns an index. What it holds whole has a mark that changes with it.
fn commit(info: &IndexInfo, stats: &IndexStats) -> Value {
    let generation = stats.flush_total + 1;
    let mark = |of: &str| {
        let text = format!("{}/{of}/{generation}/{:?}", info.uuid, stats.max_seq_no);
        format!("{:016x}{:08x}", fxhash(&text), generation)
    };
    let mut user_data = json!({ "translog_id": generation.to_string() });
    if stats.translog_ops == 0 && stats.flush_total > 0 {
        user_data["sync_id"] = mark("sync").into();
    }
    json!({ "id": mark("commit"), "generation": generation, "user_data": user_data, "num_docs": stats.lucene_docs })
}

fn fxhash(text: &str) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
