//! Indices: create, delete, get, open and close, refresh, flush, merge, stats.

use super::destructive::check_named;
use super::shards::shard_state;
use crate::call::Call;
use crate::es2_errors;
use crate::missing_index;
use crate::respond::Answer;
use engine::{Alteration, IndexInfo, IndexStats};
use mapping::has_type_level;
use model::{Dialect, Error, ErrorKind, Persona, Result, Target};
use serde_json::{Map, Value, json};

/// `PUT /i`.
pub(crate) async fn create(mut call: Call) -> Result<Answer> {
    let name = call.needed("index")?;
    let include_type_name = call.params.take_bool("include_type_name")?;
    let content = match call.json() {
        Err(_) if call.dialect.rules.creation_refusal_words => {
            return Err(Error::new(ErrorKind::Parse, "failed to parse source for create index"));
        }
        other => other.map_err(no_map)?,
    };
    call.params.finish()?;
    let mut mappings = None;
    let mut settings = Map::new();
    let mut aliases = Map::new();
    let mut warmers = None;
    if let Some(node) = content {
        let Value::Object(body) = node.into_value() else {
            return Err(Error::new(ErrorKind::Parse, "request body must be an object"));
        };
        // Without any of the known parts the whole body is the settings, as the servers of 2015 read it.
        let whole = call.dialect.rules.bodies_are_settings
            && !body
                .keys()
                .any(|k| ["settings", "mappings", "aliases", "warmers"].contains(&k.as_str()));
        for (key, value) in body {
            match key.as_str() {
                _ if whole => {
                    settings.insert(key, value);
                }
                "settings" => settings = object(value, "settings")?,
                "mappings" => mappings = Some(value),
                "aliases" => aliases = object(value, "aliases")?,
                "warmers" if call.dialect.rules.has_warmers => warmers = super::warmers::at_creation(&value)?,
                // Unknown parts were passed over.
                _ if call.dialect.rules.skips_unknown_keys => {}
                other => {
                    let reason = format!("unknown key [{other}] for create index");
                    return Err(Error::new(ErrorKind::Parse, reason));
                }
            }
        }
    }
    settings.extend(warmers);
    let mut typed = call.dialect.rules.has_types;
    if let Some(body) = mappings.take() {
        let body = match body {
            Value::Object(mut map) if !typed && map.len() == 1 && map.contains_key("_doc") && map["_doc"].is_object() => {
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
            typed = true;
        }
        if call.dialect.rules.former_mapping_apis {
            for (name, mapping) in body.as_object().into_iter().flatten() {
                super::mappings::check_types_of_2015(mapping, 0).map_err(|error| {
                    let reason = format!("Failed to parse mapping [{name}]: {}", error.reason());
                    Error::new(error.kind(), reason)
                })?;
            }
        }
        let mut body = body;
        crate::percolator_type::complete(&mut body);
        mappings = Some(body);
    }
    let create = Alteration::CreateIndex {
        name: name.clone(),
        settings,
        mappings,
        aliases,
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

fn object(value: Value, name: &str) -> Result<Map<String, Value>> {
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(Error::new(ErrorKind::Parse, format!("key [{name}] must be an object"))),
    }
}

/// What a body is refused for that is read into a map before anything is looked for in it.
pub(super) fn no_map(error: Error) -> Error {
    match error.kind() {
        ErrorKind::JsonEof | ErrorKind::JsonParse => {
            Error::new(ErrorKind::Parse, "Failed to parse content to map").caused_by(error)
        }
        _ => error,
    }
}

/// Options of catalog requests: wildcards reach closed indices too.
pub(super) fn admin_target(call: &mut Call) -> Result<Target> {
    call.target_with(|t| {
        t.expand_closed = true;
        t.forbid_closed = false;
    })
}

/// `DELETE /i`.
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
    super::locks::check_alter(&call.rest, &target, &locks).await?;
    call.rest.alter(Alteration::DeleteIndices(target)).await?;
    Ok(Answer::ok(json!({ "acknowledged": true })))
}

/// `HEAD /i`.
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
pub(crate) async fn exists_type(mut call: Call) -> Result<Answer> {
    let wanted = call.needed("type")?;
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

/// With or without the level of the type, where `include_type_name` says so: a typeless mapping is of `_doc`, and a
/// typed one of one type may be shown without it.
pub(super) fn type_level(mappings: Value, include: Option<bool>) -> Value {
    let empty = mappings.as_object().is_none_or(Map::is_empty);
    match include {
        Some(true) if !empty && !has_type_level(&mappings) => json!({ "_doc": mappings }),
        Some(false) if has_type_level(&mappings) => match mappings {
            Value::Object(map) if map.len() == 1 => map.into_values().next().unwrap_or_default(),
            several => several,
        },
        _ => mappings,
    }
}

/// Mappings as an index shows them.
pub(super) fn mappings_of(info: &IndexInfo, dialect: Dialect) -> Value {
    if dialect.rules.has_types && !info.typed {
        return if info.mappings.as_object().is_some_and(Map::is_empty) {
            json!({})
        } else {
            json!({ "_doc": info.mappings })
        };
    }
    let mut mappings = info.mappings.clone();
    if !dialect.persona.is_opensearch() {
        without_print_formats(&mut mappings, 0);
    }
    mappings
}

/// Only OpenSearch knows `print_format`. The depth is the mapping's, which is limited.
fn without_print_formats(mappings: &mut Value, depth: usize) {
    let Some(map) = mappings.as_object_mut().filter(|_| depth < 200) else {
        return;
    };
    if map.get("type").and_then(Value::as_str) == Some("date") {
        map.remove("print_format");
    }
    map.values_mut().for_each(|value| without_print_formats(value, depth + 1));
}

/// Aliases as an index shows them.
pub(super) fn aliases_of(info: &IndexInfo, dialect: Dialect) -> Value {
    let mut out = Map::new();
    for (alias, body) in &info.aliases {
        let mut body = body.clone();
        if let (true, Some(map)) = (dialect.rules.omits_later_members, body.as_object_mut()) {
            map.remove("is_write_index");
            map.remove("is_hidden");
        }
        out.insert(alias.clone(), body);
    }
    Value::Object(out)
}

/// `GET /i`, also `GET /i/_mappings,_settings` of the typed dialect by its own route.
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
            "settings": super::settings::render(&info, call.dialect, flat, &[]),
        });
        if defaults {
            entry["defaults"] = super::settings::defaults(&info, flat, &[]);
        }
        if let Some(warmers) = super::warmers::shown(&info, call.dialect) {
            entry["warmers"] = warmers;
        }
        out.insert(info.name.to_string(), entry);
    }
    Ok(Answer::ok(Value::Object(out)))
}

/// `POST /i/_open`.
pub(crate) async fn open(mut call: Call) -> Result<Answer> {
    let wait = call.params.take_bool("wait_for_completion")?.unwrap_or(true);
    let target = admin_target(&mut call)?;
    call.params.finish()?;
    check_named(&call, &target).await?;
    if !wait {
        let description = format!("open indices [{}]", target.expressions.join(", "));
        let open = Alteration::OpenIndices(target);
        return Ok(super::tasks::in_background(&call, "indices:admin/open", description, open));
    }
    call.rest.alter(Alteration::OpenIndices(target)).await?;
    Ok(Answer::ok(if call.dialect.rules.omits_later_members {
        json!({ "acknowledged": true })
    } else {
        json!({ "acknowledged": true, "shards_acknowledged": true })
    }))
}

/// `POST /i/_close`.
pub(crate) async fn close(mut call: Call) -> Result<Answer> {
    let target = admin_target(&mut call)?;
    let locks = call.take_locks()?;
    call.params.finish()?;
    check_named(&call, &target).await?;
    super::locks::check_alter(&call.rest, &target, &locks).await?;
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

/// `_shards` over some indices: one shard is searched, as many as the settings say are reported.
pub(super) fn shards_of(infos: &[IndexInfo], with_replicas: bool) -> Value {
    let shards_in = |i: &IndexInfo| model::settings::number(&i.settings, model::settings::NUMBER_OF_SHARDS);
    let shards: u64 = infos.iter().filter(|i| i.stopped.is_none()).map(shards_in).sum();
    let total: u64 = infos
        .iter()
        .map(|i| {
            let copies = if with_replicas {
                1 + model::settings::number(&i.settings, model::settings::NUMBER_OF_REPLICAS)
            } else {
                1
            };
            copies * model::settings::number(&i.settings, model::settings::NUMBER_OF_SHARDS)
        })
        .sum();
    let mut out = json!({ "total": total, "successful": shards, "failed": 0 });
    // Damaged ones were left out, and why.
    let damaged: Vec<Value> = infos
        .iter()
        .filter_map(|i| {
            let reason = json!({ "type": ErrorKind::Corruption.wire(), "reason": i.stopped.as_ref()? });
            Some(json!({ "shard": 0, "index": i.name.as_str(), "status": "INTERNAL_SERVER_ERROR", "reason": reason }))
        })
        .collect();
    if !damaged.is_empty() {
        out["failed"] = infos
            .iter()
            .filter(|i| i.stopped.is_some())
            .map(shards_in)
            .sum::<u64>()
            .into();
        out["failures"] = damaged.into();
    }
    out
}

/// `POST /i/_refresh`.
pub(crate) async fn refresh(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    call.rest.engine.refresh(&target, None).await?;
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true) })))
}

/// `POST /i/_flush`.
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
        return Ok(super::tasks::in_background(
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
pub(crate) async fn clear_cache(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    call.params.finish()?;
    let infos = call.rest.indices(&target).await?;
    Ok(Answer::ok(json!({ "_shards": shards_of(&infos, true) })))
}

/// Sections of `_stats`. What there is nothing of here, such as throttling, is zero.
pub(super) fn sections(stats: &IndexStats, dialect: Dialect) -> Map<String, Value> {
    let former = dialect.rules.former_statistics;
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let times = &stats.times;
    let found = stats.get_total.saturating_sub(stats.get_missing);
    let (filters, answers) = (&stats.query_cache, &stats.request_cache);
    let query = times.search.saturating_sub(times.fetch).saturating_sub(times.suggest);
    let Value::Object(mut all) = json!({
        "docs": { "count": stats.lucene_docs, "deleted": stats.deleted },
        "store": { "size_in_bytes": stats.size_bytes, "reserved_in_bytes": 0 },
        "indexing": { "index_total": stats.index_total, "index_time_in_millis": ms(times.index), "index_current": 0, "index_failed": stats.index_failed,
            "delete_total": stats.delete_total, "delete_time_in_millis": ms(times.delete), "delete_current": 0, "noop_update_total": stats.noop_total,
            "is_throttled": false, "throttle_time_in_millis": 0 },
        "get": { "total": stats.get_total, "time_in_millis": ms(times.get), "exists_total": found,
            "exists_time_in_millis": ms(times.get.saturating_sub(times.get_missing)),
            "missing_total": stats.get_missing, "missing_time_in_millis": ms(times.get_missing), "current": 0 },
        "search": { "open_contexts": stats.open_contexts, "query_total": stats.search_total, "query_time_in_millis": ms(query),
            "query_current": stats.search_current,
            "fetch_total": stats.search_total, "fetch_time_in_millis": ms(times.fetch), "fetch_current": 0, "scroll_total": stats.scroll_total,
            "scroll_time_in_millis": ms(stats.scroll_time), "scroll_current": stats.scroll_current, "suggest_total": stats.suggest_total, "suggest_time_in_millis": ms(times.suggest),
            "suggest_current": 0 },
        "merges": { "current": 0, "current_docs": 0, "current_size_in_bytes": 0, "total": stats.merge_total, "total_time_in_millis": ms(times.merge),
            "total_docs": stats.merge_docs, "total_size_in_bytes": stats.merge_bytes, "total_stopped_time_in_millis": 0, "total_throttled_time_in_millis": 0,
            "total_auto_throttle_in_bytes": 0 },
        "refresh": { "total": stats.refresh_total, "total_time_in_millis": ms(times.refresh), "external_total": stats.refresh_total,
            "external_total_time_in_millis": ms(times.refresh), "listeners": 0 },
        "flush": { "total": stats.flush_total, "periodic": 0, "total_time_in_millis": ms(times.flush) },
        "warmer": { "current": 0, "total": 0, "total_time_in_millis": 0 },
        "query_cache": { "memory_size_in_bytes": filters.bytes, "total_count": filters.hits + filters.misses, "hit_count": filters.hits,
            "miss_count": filters.misses, "cache_size": filters.entries, "cache_count": filters.added, "evictions": filters.evictions },
        "fielddata": { "memory_size_in_bytes": stats.fielddata.bytes, "evictions": stats.fielddata.evictions },
        "completion": { "size_in_bytes": 0 },
        "segments": { "count": stats.segments, "memory_in_bytes": 0, "terms_memory_in_bytes": 0, "stored_fields_memory_in_bytes": 0,
            "term_vectors_memory_in_bytes": 0, "norms_memory_in_bytes": 0, "points_memory_in_bytes": 0, "doc_values_memory_in_bytes": 0,
            "index_writer_memory_in_bytes": 0, "version_map_memory_in_bytes": 0, "fixed_bit_set_memory_in_bytes": 0,
            "max_unsafe_auto_id_timestamp": -1, "file_sizes": {} },
        "translog": { "operations": stats.translog_ops, "size_in_bytes": stats.translog_bytes, "uncommitted_operations": stats.translog_ops,
            "uncommitted_size_in_bytes": stats.translog_bytes, "earliest_last_modified_age": 0 },
        "request_cache": { "memory_size_in_bytes": answers.bytes, "evictions": answers.evictions, "hit_count": answers.hits,
            "miss_count": answers.misses },
        "recovery": { "current_as_source": 0, "current_as_target": 0, "throttle_time_in_millis": 0 },
    }) else {
        return Map::new();
    };
    if matches!(dialect.persona, Persona::Es8 | Persona::Es9) {
        all["docs"]["total_size_in_bytes"] = stats.size_bytes.into();
    }
    if counts_points_in_time(dialect.persona) {
        let search = &mut all["search"];
        search["point_in_time_total"] = stats.pit_total.into();
        search["point_in_time_time_in_millis"] = ms(stats.pit_time).into();
        search["point_in_time_current"] = stats.pit_current.into();
    }
    if former {
        only_of_2015(&mut all);
        all.insert("percolate".into(), json!({ "total": 0, "time_in_millis": 0, "current": 0, "memory_size_in_bytes": -1, "memory_size": "-1b", "queries": 0 }));
        all.insert(
            "suggest".into(),
            json!({ "total": stats.suggest_total, "time_in_millis": ms(times.suggest), "current": 0 }),
        );
    }
    all
}

/// Statistics tell of points in time: OpenSearch has them since 2.4, Elasticsearch counts them among open contexts only.
pub(super) fn counts_points_in_time(persona: Persona) -> bool {
    matches!(persona, Persona::Opensearch2 | Persona::Opensearch3)
}

/// Stats of 2015 had fewer numbers, and a few others.
fn only_of_2015(all: &mut Map<String, Value>) {
    for (section, gone) in [
        ("store", &["reserved_in_bytes"][..]),
        ("search", &["suggest_total", "suggest_time_in_millis", "suggest_current"]),
        ("refresh", &["external_total", "external_total_time_in_millis", "listeners"]),
        ("flush", &["periodic"]),
        (
            "segments",
            &["points_memory_in_bytes", "max_unsafe_auto_id_timestamp", "file_sizes"],
        ),
        (
            "translog",
            &[
                "uncommitted_operations",
                "uncommitted_size_in_bytes",
                "earliest_last_modified_age",
            ],
        ),
    ] {
        if let Some(Value::Object(map)) = all.get_mut(section) {
            gone.iter().for_each(|name| drop(map.remove(*name)));
        }
    }
    for (section, name) in [
        ("store", "throttle_time_in_millis"),
        ("segments", "index_writer_max_memory_in_bytes"),
    ] {
        if let Some(Value::Object(map)) = all.get_mut(section) {
            map.insert(name.into(), 0.into());
        }
    }
}

fn add(total: &mut Value, part: &Value) {
    match (total, part) {
        (Value::Object(total), Value::Object(part)) => {
            for (key, value) in part {
                match total.get_mut(key) {
                    Some(old) => add(old, value),
                    None => {
                        total.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (total @ Value::Number(_), Value::Number(n)) => {
            *total = json!(total.as_i64().unwrap_or(0) + n.as_i64().unwrap_or(0));
        }
        _ => {}
    }
}

/// Sections of some indices added up, cut to the metrics asked for.
pub(super) fn summed(stats: &[(IndexInfo, IndexStats)], dialect: Dialect) -> Map<String, Value> {
    let mut total = Value::Object(sections(&IndexStats::default(), dialect));
    for (_, one) in stats {
        add(&mut total, &Value::Object(sections(one, dialect)));
    }
    match total {
        Value::Object(map) => map,
        _ => Map::new(),
    }
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
    let mut total = summed(&stats, call.dialect);
    by_type(&mut total, stats.iter().map(|(_, one)| one), &types);
    let total = cut(total);
    let infos: Vec<IndexInfo> = stats.iter().map(|(i, _)| i.clone()).collect();
    let mut out = json!({ "_shards": shards_of(&infos, true), "_all": { "primaries": total, "total": total } });
    if level != "cluster" {
        let mut indices = Map::new();
        for (info, one) in &stats {
            let mut part = sections(one, call.dialect);
            by_type(&mut part, std::iter::once(one), &types);
            let part = cut(part);
            let mut entry = if former {
                json!({ "primaries": part, "total": part })
            } else {
                json!({ "uuid": info.uuid, "primaries": part, "total": part })
            };
            if let Some(why) = &info.stopped {
                entry["stopped"] = why.as_str().into();
            }
            if !one.troubles.is_empty() {
                entry["troubles"] = super::nodes::troubles(&one.troubles);
            }
            if level == "shards" {
                let mut shard = part.clone();
                shard["routing"] = json!({ "state": shard_state(info), "primary": true, "node": call.rest.names.node_id, "relocating_node": null });
                shard["commit"] = commit(info, one);
                entry["shards"] = json!({ "0": [shard] });
            }
            indices.insert(info.name.to_string(), entry);
        }
        out["indices"] = Value::Object(indices);
    }
    Ok(Answer::ok(out))
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

/// `index.blocks.metadata` keeps mappings and settings from being told.
pub(super) fn readable(infos: &[IndexInfo]) -> Result<()> {
    let level = model::blocks::Level::MetadataRead;
    let mut checks = infos
        .iter()
        .map(|info| model::blocks::check(&info.settings, info.name.as_str(), level));
    checks.find(Result::is_err).unwrap_or(Ok(()))
}

/// A concrete index that must be there.
pub(super) fn must_exist(infos: &[IndexInfo], target: &Target) -> Result<()> {
    if infos.is_empty()
        && !target.expressions.is_empty()
        && !target.expressions.iter().any(|e| e.contains('*') || e == "_all")
        && !target.ignore_unavailable
    {
        return Err(missing_index(&target.expressions.join(",")));
    }
    Ok(())
}
