//! Mappings, aliases and statistics of indices, as answers show them.
//!
//! Not here: the endpoints that use it (`handlers`).

use engine::{IndexInfo, IndexStats};
use mapping::has_type_level;
use model::{Dialect, Error, ErrorKind, Persona};
use serde_json::{Map, Value, json};

/// The refusal of a body that cannot be read into a map.
pub(crate) fn no_map(error: Error) -> Error {
    match error.kind() {
        ErrorKind::JsonEof | ErrorKind::JsonParse => {
            Error::new(ErrorKind::Parse, "Failed to parse content to map").with_cause(error)
        }
        _ => error,
    }
}

/// With or without the level of the type, where `include_type_name` says so: a typeless mapping is of `_doc`, and a
/// typed one of one type may be shown without it.
pub(crate) fn type_level(mappings: Value, include: Option<bool>) -> Value {
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
pub(crate) fn mappings_of(info: &IndexInfo, dialect: Dialect) -> Value {
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
pub(crate) fn without_print_formats(mappings: &mut Value, depth: usize) {
    let Some(map) = mappings.as_object_mut().filter(|_| depth < 200) else {
        return;
    };
    if map.get("type").and_then(Value::as_str) == Some("date") {
        map.remove("print_format");
    }
    map.values_mut().for_each(|value| without_print_formats(value, depth + 1));
}

/// Aliases as an index shows them.
pub(crate) fn aliases_of(info: &IndexInfo, dialect: Dialect) -> Value {
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

/// `_shards` over some indices: one shard is searched, as many as the settings say are reported.
pub(crate) fn shards_of(infos: &[IndexInfo], with_replicas: bool) -> Value {
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

/// Sections of `_stats`. What there is nothing of here, such as throttling, is zero.
pub(crate) fn sections(stats: &IndexStats, dialect: Dialect) -> Map<String, Value> {
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
pub(crate) fn counts_points_in_time(persona: Persona) -> bool {
    matches!(persona, Persona::Opensearch2 | Persona::Opensearch3)
}

/// Stats of 2015 had fewer numbers, and a few others.
pub(crate) fn only_of_2015(all: &mut Map<String, Value>) {
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

pub(crate) fn add(total: &mut Value, part: &Value) {
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
pub(crate) fn sum_sections(stats: &[(IndexInfo, IndexStats)], dialect: Dialect) -> Map<String, Value> {
    let mut total = Value::Object(sections(&IndexStats::default(), dialect));
    for (_, one) in stats {
        add(&mut total, &Value::Object(sections(one, dialect)));
    }
    match total {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
