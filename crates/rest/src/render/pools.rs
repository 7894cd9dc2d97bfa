//! The threads of this server under the names of Elasticsearch's pools, for `_nodes`, `_nodes/stats` and `_cat/thread_pool`.
//!
//! Three pools have threads here: `search`, `write` and `generic` (refreshes, merges that were asked for, the catalog). What
//! other pools are for is done by these or by the task of the request; they are listed, because clients look for them, and idle.

use engine::PoolStats;
use model::Dialect;
use serde_json::{Map, Value, json};

/// Pools of today with their types.
const POOLS: &[(&str, &str)] = &[
    ("analyze", "fixed"),
    ("fetch_shard_started", "scaling"),
    ("fetch_shard_store", "scaling"),
    ("flush", "scaling"),
    ("force_merge", "fixed"),
    ("generic", "scaling"),
    ("get", "fixed"),
    ("management", "scaling"),
    ("refresh", "scaling"),
    ("search", "fixed"),
    ("search_throttled", "fixed"),
    ("snapshot", "scaling"),
    ("system_read", "fixed"),
    ("system_write", "fixed"),
    ("warmer", "scaling"),
    ("write", "fixed"),
];

/// Pools of 2015. What is one pool today was two: deletions and single writes went to `index`.
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

model::assert_words_differ!(POOLS; 0, "each pool of today is listed once");
model::assert_words_differ!(POOLS_2015, "each pool of 2015 is listed once");

/// Each pool that a dialect lists, with its type and what its threads do.
pub(crate) fn all(own: &[PoolStats], dialect: Dialect) -> Vec<(&'static str, &'static str, PoolStats)> {
    let of = |name: &str| {
        let own = own.iter().find(|pool| pool.name == name);
        own.cloned().unwrap_or_default()
    };
    if !dialect.rules.former_node_statistics {
        return POOLS.iter().map(|&(name, kind)| (name, kind, of(name))).collect();
    }
    let today = |name: &'static str| if name == "index" || name == "bulk" { "write" } else { name };
    // Writes are counted once: as single ones.
    let own = |name: &'static str| {
        if name == "bulk" {
            PoolStats::default()
        } else {
            of(today(name))
        }
    };
    POOLS_2015.iter().map(|&name| (name, "fixed", own(name))).collect()
}

/// For `_nodes/stats`.
pub(crate) fn stats(own: &[PoolStats], dialect: Dialect) -> Map<String, Value> {
    let row = |(name, _, pool): (&str, &str, PoolStats)| {
        let body = json!({ "threads": pool.threads, "queue": pool.queue, "active": pool.active, "rejected": pool.rejected,
            "largest": pool.largest, "completed": pool.completed });
        (name.to_owned(), body)
    };
    all(own, dialect).into_iter().map(row).collect()
}

/// For `_nodes`.
pub(crate) fn info(own: &[PoolStats], dialect: Dialect) -> Map<String, Value> {
    let row = |(name, kind, pool): (&str, &str, PoolStats)| {
        let queue = pool.queue_max.map_or(json!(-1), Value::from);
        let body = match kind {
            "fixed" => json!({ "type": kind, "size": pool.threads, "queue_size": queue }),
            _ => json!({ "type": kind, "core": pool.threads, "max": pool.threads, "keep_alive": "5m", "queue_size": queue }),
        };
        (name.to_owned(), body)
    };
    all(own, dialect).into_iter().map(row).collect()
}
