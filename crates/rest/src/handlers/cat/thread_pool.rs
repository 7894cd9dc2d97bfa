//! `_cat/thread_pool`: the threads of this server under the names of Elasticsearch's pools.
//!
//! Not here: which pool is which (`render::pools`).

use crate::call::Call;
use crate::query_params::split_list;
use crate::render::nodes::node_stats;
use crate::render::pools;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, extra, extra_text, num};
use async_recursion::async_recursion as boxed;
use model::{Result, path};

const THREAD_POOL: &[Column] = &[
    col("node_name", &["nn"], "node name"),
    extra_text("node_id", &["id"], "persistent node id"),
    extra_text("ephemeral_node_id", &["eid"], "ephemeral node id"),
    extra("pid", &["p"], "process id"),
    extra_text("host", &["h"], "host name"),
    extra_text("ip", &["i"], "ip address"),
    extra("port", &["po"], "bound transport port"),
    col("name", &["n"], "thread pool name"),
    extra_text("type", &["t"], "thread pool type"),
    num("active", &["a"], "number of active threads"),
    extra("pool_size", &["psz"], "number of threads"),
    num("queue", &["q"], "number of tasks currently in queue"),
    extra("queue_size", &["qs"], "maximum number of tasks permitted in queue"),
    num("rejected", &["r"], "number of rejected tasks"),
    extra("largest", &["l"], "highest number of seen active threads"),
    extra("completed", &["c"], "number of completed tasks"),
    extra("core", &["cr"], "core number of threads in a scaling thread pool"),
    extra("max", &["mx"], "maximum number of threads in a scaling thread pool"),
    extra("size", &["sz"], "number of threads in a fixed thread pool"),
    extra("keep_alive", &["ka"], "thread keep alive time"),
];

model::assert_names_differ!(THREAD_POOL, "each column of pools has a name of its own");

/// `_cat/thread_pool`.
#[boxed]
pub(crate) async fn thread_pool(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let named = call.params.take_list("thread_pool_patterns").unwrap_or_default();
    call.params.finish()?;
    let wanted = call.arg("thread_pool_patterns").map_or(named, split_list);
    let names = &call.rest.names;
    let own = node_stats(&call).await?.pools;
    let rows = pools::all(&own, call.dialect)
        .into_iter()
        .filter(|(name, ..)| wanted.is_empty() || wanted.iter().any(|w| path::matches(w, name)))
        .map(|(name, kind, pool)| {
            let column = |column: &Column| match column.name {
                "node_name" => Cell::of(&names.node),
                "node_id" | "ephemeral_node_id" => Cell::of(&names.node_id),
                "pid" => Cell::of(std::process::id()),
                "host" | "ip" => Cell::of("127.0.0.1"),
                "port" => Cell::if_any(names.address.rsplit(':').next()),
                "name" => Cell::of(name),
                "type" => Cell::of(kind),
                "active" => Cell::of(pool.active),
                "queue" => Cell::of(pool.queue),
                "queue_size" => pool.queue_max.map_or_else(|| Cell::of(-1), Cell::of),
                "rejected" => Cell::of(pool.rejected),
                "largest" => Cell::of(pool.largest),
                "completed" => Cell::of(pool.completed),
                "core" | "max" | "keep_alive" if kind == "fixed" => Cell::Nothing,
                "size" if kind != "fixed" => Cell::Nothing,
                "keep_alive" => Cell::of("5m"),
                _ => Cell::of(pool.threads),
            };
            THREAD_POOL.iter().map(column).collect()
        })
        .collect();
    layout.write(THREAD_POOL, rows)
}
