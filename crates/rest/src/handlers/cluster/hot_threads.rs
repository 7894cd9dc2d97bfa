//! Busy threads and the keystore of a node.
//!
//! Not here: `_nodes` and `_nodes/stats`, which are `nodes`'.

use crate::actions::locks::iso;
use crate::call::Call;
use crate::query_params::split_list;
use crate::render::nodes::{is_this_node, of_node};
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use model::{Error, Result};
use serde_json::json;
use std::collections::HashMap;
use std::time::Duration;

/// The longest that threads are watched.
const WATCH_MAX: Duration = Duration::from_secs(10);

/// A thread as `/proc` tells of it: its name and the ticks of 10 ms that it took.
type Threads = HashMap<u32, (String, u64)>;

/// Every thread of this process; none where there is no `/proc`.
fn threads() -> Threads {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else {
        return Threads::new();
    };
    let each = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name stands in parentheses and may hold some; utime and stime are the 12th and 13th field after it.
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        let fields: Vec<u64> = rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        Some((id, (name.to_owned(), fields.get(11)? + fields.get(12)?)))
    });
    each.collect()
}

/// `_nodes/hot_threads`: the threads that took most of an interval, as text. What they were doing is not told.
#[boxed]
pub(crate) async fn hot_threads(mut call: Call) -> Result<Answer> {
    let interval = call.params.take_duration("interval")?.unwrap_or(Duration::from_millis(500));
    let most = call.params.take_number::<usize>("threads")?.unwrap_or(3);
    let hide_idle = call.params.take_bool("ignore_idle_threads")?.unwrap_or(true);
    call.params.finish()?;
    if interval > WATCH_MAX {
        return Err(Error::illegal(format!(
            "[interval] may be [{}s] at the most",
            WATCH_MAX.as_secs()
        )));
    }
    let names = &call.rest.names;
    let nodes = call.arg("node_id").map(split_list).unwrap_or_default();
    if !is_this_node(names, &nodes) {
        return Ok(Answer::text(String::new()));
    }
    let before = threads();
    tokio::time::sleep(interval).await;
    let took = |id: &u32, ticks: u64| ticks - before.get(id).map_or(0, |(_, ticks)| *ticks).min(ticks);
    let mut hot: Vec<(String, u64)> = threads()
        .into_iter()
        .map(|(id, (name, ticks))| (format!("{name}' [{id}]"), took(&id, ticks) * 10))
        .filter(|(_, ms)| *ms > 0 || !hide_idle)
        .collect();
    hot.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let watched_ms = interval.as_millis().max(1) as u64;
    let mut out = format!(
        "::: {{{}}}{{{}}}{{127.0.0.1}}{{{}}}\n   Hot threads at {}, interval={watched_ms}ms, busiestThreads={most}, ignoreIdleThreads={hide_idle}:\n",
        names.node,
        names.node_id,
        names.address,
        iso(call.rest.clock.wall_ms()),
    );
    for (name, ms) in hot.into_iter().take(most) {
        let percent = (ms * 100) as f64 / watched_ms as f64;
        out.push_str(&format!(
            "\n   {percent:.1}% ({ms}ms out of {watched_ms}ms) cpu usage by thread '{name}\n"
        ));
    }
    Ok(Answer::text(out + "\n"))
}

/// `_nodes/reload_secure_settings`: there is no keystore to read again.
#[boxed]
pub(crate) async fn reload_secure_settings(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let names = &call.rest.names;
    let nodes = call.arg("node_id").map(split_list).unwrap_or_default();
    let here = is_this_node(names, &nodes);
    let node = json!({ "name": names.node,
        "reload_exception": { "type": "illegal_state_exception", "reason": "Keystore is missing" } });
    Ok(of_node(&call, here, node))
}
