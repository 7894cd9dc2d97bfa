//! `GET /_prometheus/metrics`: everything that is counted, as Prometheus scrapes it.
//!
//! Names are those of the Elasticsearch exporter, so far as `promtool check metrics` accepts them: counters end in `_total`,
//! and nothing but a histogram ends in `_count`. Names that begin with `pleach_` are ours. Not here: the text format
//! (`metrics::Exposition`), counting (`metrics`, the engine).

use crate::call::Call;
use crate::machine::Machine;
use crate::metrics::{Exposition, MEDIA_TYPE};
use crate::render::cluster::Health;
use crate::render::nodes::node_stats;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::breaker::{Breaker, BreakerUsage};
use engine::{BreakerStats, IndexInfo, IndexStats, NodeStats};
use model::blocks::{READ_ONLY_ALLOW_DELETE, is_on};
use model::watermarks::Watermarks;
use model::{Error, Result, Target};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sums of the node, or those and some figures of each index.
const LEVELS: [&str; 2] = ["node", "indices"];

#[boxed]
pub(crate) async fn metrics(mut call: Call) -> Result<Answer> {
    let level = call.params.take("level").unwrap_or_else(|| "node".into());
    call.params.finish()?;
    if !LEVELS.contains(&level.as_str()) {
        let hint = model::nearest::question(&level, LEVELS);
        return Err(Error::illegal(format!(
            "[level] must be one of [node, indices] but was [{level}]{hint}"
        )));
    }
    let mut target = Target::of(Vec::new());
    (target.forbid_closed, target.expand_hidden) = (false, true);
    let stats = call.rest.stats(target).await?;
    let infos: Vec<IndexInfo> = stats.iter().map(|(info, _)| info.clone()).collect();
    let health = Health::of_all(&infos, &call).await;
    let node = node_stats(&call).await?;
    let mut out = Exposition::default();
    about_cluster(&mut out, &call, &health, infos.len());
    about_requests(&mut out, &call);
    about_indices(&mut out, &stats, &node);
    if level == "indices" {
        about_each_index(&mut out, &stats);
    }
    about_relations(&mut out, &call).await?;
    about_memory(&mut out, &call, &node);
    about_threads(&mut out, &node);
    about_storage(&mut out, &stats, &node);
    about_disk(&mut out, &stats, &node, &crate::disk_monitor::watermarks(&call.rest).await?);
    about_process(&mut out);
    let text = out.finish();
    call.book(text.len())?;
    Ok(Answer::text(text).header("content-type", MEDIA_TYPE))
}

fn about_cluster(out: &mut Exposition, call: &Call, health: &Health, indices: usize) {
    let names = &call.rest.names;
    out.gauges("pleach_build_info", "The version that runs, as a label; always 1.");
    let persona = call.listener.version();
    out.sample(&[("version", env!("CARGO_PKG_VERSION")), ("answers_as", persona)], 1_u64);
    out.gauges("elasticsearch_node_info", "The node and its cluster, as labels; always 1.");
    out.sample(&[("cluster", &names.cluster), ("node", &names.node)], 1_u64);
    out.gauges(
        "elasticsearch_cluster_health_status",
        "1 for the color that the health of the cluster has.",
    );
    for color in ["green", "yellow", "red"] {
        out.sample(&[("color", color)], health.status() == color);
    }
    out.gauge(
        "elasticsearch_cluster_health_active_primary_shards",
        "Shards that answer.",
        health.active,
    );
    out.gauge(
        "elasticsearch_cluster_health_active_shards",
        "Shards that answer.",
        health.active,
    );
    out.gauge(
        "elasticsearch_cluster_health_unassigned_shards",
        "Shards of damaged indices, and replicas where the persona counts them.",
        health.unassigned,
    );
    out.gauge("elasticsearch_cluster_health_number_of_nodes", "Always 1.", 1_u64);
    out.gauge("elasticsearch_cluster_health_number_of_data_nodes", "Always 1.", 1_u64);
    out.gauge("pleach_indices", "Open and closed indices.", indices);
}

fn about_requests(out: &mut Exposition, call: &Call) {
    let metrics = &call.rest.metrics;
    let counts = metrics.requests.counts();
    out.counters(
        "pleach_http_requests_total",
        "Requests by endpoint and status; endpoint \"none\" is what no endpoint answers.",
    );
    for row in &counts {
        for (status, count) in &row.by_status {
            out.sample(&[("endpoint", row.api), ("code", status)], *count);
        }
    }
    out.histograms(
        "pleach_http_request_duration_seconds",
        "From the end of a request's body to the begin of its answer.",
    );
    for row in &counts {
        out.histogram(&[("endpoint", row.api)], &row.duration);
    }
    out.counters(
        "pleach_http_errors_total",
        "Requests that were refused whole, by the type of the error.",
    );
    for (kind, count) in metrics.errors() {
        out.sample(&[("type", kind)], count);
    }
    out.counter(
        "pleach_http_received_bytes_total",
        "Bytes of request bodies, decompressed.",
        metrics.requests.received_bytes(),
    );
    out.counter(
        "pleach_http_sent_bytes_total",
        "Bytes of answers before their compression.",
        metrics.requests.sent_bytes(),
    );
    let traffic = &call.rest.traffic;
    out.gauge(
        "elasticsearch_http_open_connections",
        "Connections that are open.",
        traffic.open_connections(),
    );
    out.counter(
        "elasticsearch_http_opened_connections_total",
        "Connections since the start.",
        traffic.opened_connections(),
    );
}

/// A counter of `IndexStats` with its name.
type Count = (&'static str, &'static str, fn(&IndexStats) -> u64);
/// A time of `IndexStats` with its name.
type Time = (&'static str, &'static str, fn(&IndexStats) -> Duration);

const COUNTERS: &[Count] = &[
    ("elasticsearch_indices_indexing_index_total", "Documents written.", |s| {
        s.index_total
    }),
    ("elasticsearch_indices_indexing_delete_total", "Documents deleted.", |s| {
        s.delete_total
    }),
    (
        "elasticsearch_indices_indexing_noop_update_total",
        "Updates that changed nothing.",
        |s| s.noop_total,
    ),
    (
        "elasticsearch_indices_indexing_index_failed_total",
        "Writes that a mapping, a condition or a script refused.",
        |s| s.index_failed,
    ),
    ("elasticsearch_indices_get_total", "Documents read by id.", |s| s.get_total),
    (
        "elasticsearch_indices_get_missing_total",
        "Reads by id that found no document.",
        |s| s.get_missing,
    ),
    ("elasticsearch_indices_search_query_total", "Searches.", |s| s.search_total),
    (
        "elasticsearch_indices_search_suggest_total",
        "Searches that suggested something.",
        |s| s.suggest_total,
    ),
    ("elasticsearch_indices_search_scroll_total", "Scrolls begun.", |s| {
        s.scroll_total
    }),
    ("elasticsearch_indices_refresh_total", "Refreshes.", |s| s.refresh_total),
    ("elasticsearch_indices_flush_total", "Checkpoints of an index.", |s| {
        s.flush_total
    }),
    ("elasticsearch_indices_merges_total", "Merges of segments.", |s| s.merge_total),
    (
        "elasticsearch_indices_merges_docs_total",
        "Documents that went into merges.",
        |s| s.merge_docs,
    ),
    (
        "elasticsearch_indices_merges_total_size_bytes_total",
        "Bytes that went into merges.",
        |s| s.merge_bytes,
    ),
    (
        "elasticsearch_indices_query_cache_hits_total",
        "Sets of documents of filters that were found.",
        |s| s.query_cache.hits,
    ),
    (
        "elasticsearch_indices_query_cache_misses_total",
        "Sets that were not found.",
        |s| s.query_cache.misses,
    ),
    (
        "elasticsearch_indices_query_cache_evictions_total",
        "Sets that made room for others.",
        |s| s.query_cache.evictions,
    ),
    (
        "elasticsearch_indices_request_cache_hits_total",
        "Kept answers that were found.",
        |s| s.request_cache.hits,
    ),
    (
        "elasticsearch_indices_request_cache_misses_total",
        "Answers that were not found.",
        |s| s.request_cache.misses,
    ),
    (
        "elasticsearch_indices_request_cache_evictions_total",
        "Kept answers that made room for others.",
        |s| s.request_cache.evictions,
    ),
    (
        "elasticsearch_indices_fielddata_evictions_total",
        "Derived columns that made room for others.",
        |s| s.fielddata.evictions,
    ),
];

const TIMES: &[Time] = &[
    (
        "elasticsearch_indices_indexing_index_time_seconds_total",
        "Time spent writing.",
        |s| s.times.index,
    ),
    (
        "elasticsearch_indices_indexing_delete_time_seconds_total",
        "Time spent deleting.",
        |s| s.times.delete,
    ),
    (
        "elasticsearch_indices_get_time_seconds_total",
        "Time spent reading by id.",
        |s| s.times.get,
    ),
    (
        "elasticsearch_indices_search_query_time_seconds_total",
        "Time spent searching, fetching included.",
        |s| s.times.search,
    ),
    (
        "elasticsearch_indices_search_fetch_time_seconds_total",
        "Time spent reading hits.",
        |s| s.times.fetch,
    ),
    (
        "elasticsearch_indices_search_suggest_time_seconds_total",
        "Time spent on suggestions.",
        |s| s.times.suggest,
    ),
    (
        "elasticsearch_indices_refresh_time_seconds_total",
        "Time spent refreshing.",
        |s| s.times.refresh,
    ),
    (
        "elasticsearch_indices_flush_time_seconds_total",
        "Time spent on checkpoints.",
        |s| s.times.flush,
    ),
    (
        "elasticsearch_indices_merges_total_time_seconds_total",
        "Time spent merging.",
        |s| s.times.merge,
    ),
];

const GAUGES: &[Count] = &[
    ("elasticsearch_indices_docs", "Documents that searches see.", |s| s.docs),
    (
        "elasticsearch_indices_docs_deleted",
        "Deleted documents that merges have not dropped.",
        |s| s.deleted,
    ),
    ("elasticsearch_indices_store_size_bytes", "Bytes of segments.", |s| {
        s.size_bytes
    }),
    ("elasticsearch_indices_segments", "Segments.", |s| s.segments),
    ("elasticsearch_indices_search_current", "Searches that run.", |s| {
        s.search_current
    }),
    (
        "elasticsearch_indices_search_open_contexts",
        "Views that scrolls and points in time hold open.",
        |s| s.open_contexts,
    ),
    (
        "elasticsearch_indices_query_cache_entries",
        "Sets of documents of filters.",
        |s| s.query_cache.entries,
    ),
    ("elasticsearch_indices_request_cache_entries", "Kept answers.", |s| {
        s.request_cache.entries
    }),
    (
        "elasticsearch_indices_translog_operations",
        "Operations of the log that no checkpoint covers.",
        |s| s.translog_ops,
    ),
    (
        "elasticsearch_indices_translog_size_in_bytes",
        "Bytes of those operations.",
        |s| s.translog_bytes,
    ),
];

fn about_indices(out: &mut Exposition, stats: &[(IndexInfo, IndexStats)], node: &NodeStats) {
    for (name, help, of) in COUNTERS {
        out.counter(name, help, stats.iter().map(|(_, stats)| of(stats)).sum::<u64>());
    }
    for (name, help, of) in TIMES {
        let time: Duration = stats.iter().map(|(_, stats)| of(stats)).sum();
        out.counter(name, help, time.as_secs_f64());
    }
    for (name, help, of) in GAUGES {
        out.gauge(name, help, stats.iter().map(|(_, stats)| of(stats)).sum::<u64>());
    }
    out.gauge(
        "elasticsearch_indices_query_cache_memory_size_bytes",
        "Memory of sets of documents of filters.",
        node.filters_bytes,
    );
    out.gauge(
        "elasticsearch_indices_request_cache_memory_size_bytes",
        "Memory of kept answers.",
        node.request_cache_bytes,
    );
    out.gauge(
        "pleach_document_cache_memory_size_bytes",
        "Memory of stored documents that are kept unpacked.",
        node.documents_bytes,
    );
}

/// Figures of each index: those that tell which of them grows or is busy.
fn about_each_index(out: &mut Exposition, stats: &[(IndexInfo, IndexStats)]) {
    const EACH: &[Count] = &[
        (
            "elasticsearch_indices_docs_primary",
            "Documents that searches of the index see.",
            |s| s.docs,
        ),
        (
            "elasticsearch_indices_store_size_bytes_primary",
            "Bytes of its segments.",
            |s| s.size_bytes,
        ),
        ("elasticsearch_indices_segments_primary", "Its segments.", |s| s.segments),
    ];
    const EACH_TOTAL: &[Count] = &[
        (
            "elasticsearch_index_stats_indexing_index_total",
            "Documents written to the index.",
            |s| s.index_total,
        ),
        (
            "elasticsearch_index_stats_indexing_delete_total",
            "Documents deleted from it.",
            |s| s.delete_total,
        ),
        ("elasticsearch_index_stats_search_query_total", "Searches of it.", |s| {
            s.search_total
        }),
    ];
    for (name, help, of) in EACH {
        out.gauges(name, help);
        for (info, stats) in stats {
            out.sample(&[("index", info.name.as_str())], of(stats));
        }
    }
    for (name, help, of) in EACH_TOTAL {
        out.counters(name, help);
        for (info, stats) in stats {
            out.sample(&[("index", info.name.as_str())], of(stats));
        }
    }
    out.gauges("pleach_index_stopped", "1 where an index is stopped for damage.");
    for (info, _) in stats {
        out.sample(&[("index", info.name.as_str())], info.stopped.is_some());
    }
}

/// Locks, transactions that are held open, changes that are not finished, jobs.
async fn about_relations(out: &mut Exposition, call: &Call) -> Result<()> {
    let relations = &call.rest.relations;
    let leases = relations.leases();
    out.gauge("pleach_locks", "Locks that are held.", leases.len());
    let waiters: usize = leases.iter().map(|(_, waiters)| waiters).sum();
    out.gauge(
        "pleach_lock_waiters",
        "Waits for locks, counted at each lock that is waited for.",
        waiters,
    );
    out.histograms(
        "pleach_lock_wait_seconds",
        "How long requests waited for locks that were not free, by how the wait ended.",
    );
    out.histogram(&[("outcome", "granted")], &call.rest.metrics.lock_waits.observe());
    out.histogram(&[("outcome", "refused")], &call.rest.metrics.lock_waits_in_vain.observe());
    let open = relations.transactions().await?;
    let open = open.iter().filter(|shown| shown.open.is_some()).count();
    out.gauge("pleach_transactions_open", "Transactions that are held open.", open);
    out.gauge(
        "pleach_changes_unfinished",
        "Changes of the portable path that are not finished.",
        relations.unfinished_changes().await?.len(),
    );
    out.gauges("pleach_tasks", "Tasks that run, by their action.");
    let mut running: BTreeMap<String, usize> = BTreeMap::new();
    for task in call.rest.tasks.list().iter().filter(|task| !task.is_over()) {
        *running.entry(task.action.clone()).or_default() += 1;
    }
    for (action, count) in &running {
        out.sample(&[("action", action)], *count);
    }
    Ok(())
}

fn about_memory(out: &mut Exposition, call: &Call, node: &NodeStats) {
    let breakers = &call.rest.limits.breakers;
    let of = |name, usage: BreakerUsage| BreakerStats {
        name,
        limit_bytes: usage.limit,
        used_bytes: usage.used,
        tripped: usage.tripped,
    };
    let mut all = node.breakers.clone();
    all.extend(Breaker::ALL.map(|breaker| of(breaker.name(), breakers.usage(breaker))));
    all.push(of("parent", breakers.parent()));
    out.gauges(
        "elasticsearch_breakers_estimated_size_bytes",
        "Memory that is booked with a breaker.",
    );
    for breaker in &all {
        out.sample(&[("breaker", breaker.name)], breaker.used_bytes);
    }
    out.gauges("elasticsearch_breakers_limit_size_bytes", "The limit of a breaker.");
    for breaker in &all {
        out.sample(&[("breaker", breaker.name)], breaker.limit_bytes);
    }
    out.counters("elasticsearch_breakers_tripped_total", "Requests that a breaker refused.");
    for breaker in &all {
        out.sample(&[("breaker", breaker.name)], breaker.tripped);
    }
}

fn about_threads(out: &mut Exposition, node: &NodeStats) {
    out.gauges("elasticsearch_thread_pool_threads", "Threads of a pool.");
    for pool in &node.pools {
        out.sample(&[("type", pool.name)], pool.threads);
    }
    out.gauges("elasticsearch_thread_pool_active", "Jobs that run.");
    for pool in &node.pools {
        out.sample(&[("type", pool.name)], pool.active);
    }
    out.gauges("elasticsearch_thread_pool_queue", "Jobs that wait for a thread.");
    for pool in &node.pools {
        out.sample(&[("type", pool.name)], pool.queue);
    }
    out.counters("elasticsearch_thread_pool_rejected_total", "Jobs that found no room to wait.");
    for pool in &node.pools {
        out.sample(&[("type", pool.name)], pool.rejected);
    }
    out.counters("elasticsearch_thread_pool_completed_total", "Jobs that ended.");
    for pool in &node.pools {
        out.sample(&[("type", pool.name)], pool.completed);
    }
}

/// The log, writes that no segment has, segments in memory, the disk, work that fails.
fn about_storage(out: &mut Exposition, stats: &[(IndexInfo, IndexStats)], node: &NodeStats) {
    out.gauge(
        "pleach_log_size_bytes",
        "Bytes of the log, which checkpoints cut.",
        node.log_bytes,
    );
    out.counter(
        "pleach_log_written_bytes_total",
        "Bytes written to the log.",
        node.log_written_bytes,
    );
    out.histograms(
        "pleach_log_sync_duration_seconds",
        "What each sync of the log took; a durable write waits for one.",
    );
    out.histogram(&[], &node.log_syncs);
    out.gauge(
        "pleach_pending_bytes",
        "Memory of acknowledged writes that no segment has.",
        node.pending_bytes,
    );
    out.gauge(
        "pleach_pending_limit_bytes",
        "Where writes wait for a refresh.",
        node.pending_max_bytes,
    );
    out.gauge(
        "pleach_ram_segments_bytes",
        "Segments in memory until a checkpoint.",
        node.ram_segment_bytes,
    );
    out.gauge("pleach_open_views", "Views that are held open.", node.open_views);
    out.gauge(
        "pleach_writes_refused",
        "1 while all writes are refused, for example because the log cannot be synced.",
        node.read_only.is_some(),
    );
    out.gauges(
        "pleach_background_failures",
        "Attempts of background work in a row that failed, by the work.",
    );
    let mut failures: BTreeMap<&str, u64> = ["refresh", "merge", "checkpoint"].into_iter().map(|work| (work, 0)).collect();
    let of_indices = stats.iter().flat_map(|(_, stats)| &stats.troubles);
    for trouble in node.troubles.iter().chain(of_indices) {
        *failures.entry(trouble.work).or_default() += u64::from(trouble.failures);
    }
    for (work, count) in failures {
        out.sample(&[("work", work)], count);
    }
}

/// The disk of the data folder and its watermarks.
fn about_disk(out: &mut Exposition, stats: &[(IndexInfo, IndexStats)], node: &NodeStats, marks: &Watermarks) {
    let path = [("path", node.data_path.as_str())];
    out.gauges(
        "elasticsearch_filesystem_data_size_bytes",
        "Size of the disk of the data folder.",
    );
    out.sample(&path, node.disk_total_bytes);
    out.gauges("elasticsearch_filesystem_data_free_bytes", "Bytes that are free on it.");
    out.sample(&path, node.disk_free_bytes);
    out.gauges(
        "elasticsearch_filesystem_data_available_bytes",
        "Bytes that are left to this process.",
    );
    out.sample(&path, node.disk_available_bytes);
    out.gauges(
        "pleach_disk_watermark_bytes",
        "Bytes that are to be left of the disk, by the watermark; 0 where none is watched.",
    );
    let named = [("low", marks.low), ("high", marks.high), ("flood_stage", marks.flood_stage)];
    for (name, mark) in named {
        let least = if marks.enabled {
            mark.least_free(node.disk_total_bytes)
        } else {
            0
        };
        out.sample(&[("watermark", name)], least);
    }
    let blocked = stats.iter().filter(|(info, _)| is_on(&info.settings, READ_ONLY_ALLOW_DELETE));
    out.gauge(
        "pleach_disk_blocked_indices",
        "Indices that refuse writes because the disk is at flood stage.",
        blocked.count(),
    );
}

fn about_process(out: &mut Exposition) {
    let machine = Machine::look();
    out.counter(
        "elasticsearch_process_cpu_seconds_total",
        "Time of all processors that the process took.",
        machine.cpu_ms as f64 / 1000.0,
    );
    out.gauge(
        "elasticsearch_process_open_files",
        "Files and sockets that are open.",
        machine.open_files,
    );
    out.gauge(
        "elasticsearch_process_max_files_descriptors",
        "How many may be open.",
        machine.open_files_max,
    );
    out.gauge(
        "elasticsearch_process_mem_resident_size_bytes",
        "Resident memory, with mapped files.",
        machine.resident_bytes,
    );
    out.gauge(
        "elasticsearch_process_mem_virtual_size_bytes",
        "Address space.",
        machine.virtual_bytes,
    );
    out.gauge("pleach_process_threads", "Threads of the process.", machine.threads);
    out.gauge(
        "pleach_process_uptime_seconds",
        "Time since the process began.",
        machine.uptime_ms as f64 / 1000.0,
    );
    out.gauge(
        "elasticsearch_os_load1",
        "Load of the machine over 1 minute.",
        machine.load[0],
    );
    out.gauge(
        "elasticsearch_os_load5",
        "Load of the machine over 5 minutes.",
        machine.load[1],
    );
    out.gauge(
        "elasticsearch_os_load15",
        "Load of the machine over 15 minutes.",
        machine.load[2],
    );
    out.gauge(
        "elasticsearch_os_mem_total_bytes",
        "Memory of the machine.",
        machine.memory_total_bytes,
    );
    out.gauge(
        "elasticsearch_os_mem_free_bytes",
        "Memory of the machine that can be had.",
        machine.memory_available_bytes,
    );
}
