//! `_cat` of Elasticsearch 2: its own tables, columns and order. The columns stand in `cat_columns.txt`.
//!
//! Not here: how a table is written, which is `tables`'.

use crate::actions::snapshots::repositories_of;
use crate::actions::snapshots::snapshots_of;
use crate::call::Call;
use crate::machine::percent;
use crate::query_params::split_list;
use crate::render::cat_figures::figure;
use crate::render::cluster::{Health, missing_replicas};
use crate::render::nodes::{is_this_node, node_stats};
use crate::render::shards::shard_state;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout};
use engine::{IndexInfo, IndexStats};
use model::settings::{NUMBER_OF_REPLICAS, NUMBER_OF_SHARDS, number};
use model::{Dialect, Error, ErrorKind, Persona, Result, Target, path};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::OnceLock;

/// `[table]`, then a line a column: `*` if it is shown unasked, name, aliases, description.
const COLUMNS: &str = include_str!("cat_columns.txt");

/// The list of `GET /_cat` in the order of 2015.
const PATHS: &[&str] = &[
    "/_cat/allocation",
    "/_cat/shards",
    "/_cat/shards/{index}",
    "/_cat/master",
    "/_cat/nodes",
    "/_cat/indices",
    "/_cat/indices/{index}",
    "/_cat/segments",
    "/_cat/segments/{index}",
    "/_cat/count",
    "/_cat/count/{index}",
    "/_cat/recovery",
    "/_cat/recovery/{index}",
    "/_cat/health",
    "/_cat/pending_tasks",
    "/_cat/aliases",
    "/_cat/aliases/{alias}",
    "/_cat/thread_pool",
    "/_cat/plugins",
    "/_cat/fielddata",
    "/_cat/fielddata/{fields}",
    "/_cat/nodeattrs",
    "/_cat/repositories",
    "/_cat/snapshots/{repository}",
];

/// Columns written to the left: words, and the numbers that 2015 wrote so. The others are numbers, written to the right.
const WORDS: &[&str] = &[
    "alias",
    "index",
    "filter",
    "routing.index",
    "routing.search",
    "host",
    "ip",
    "id",
    "node",
    "name",
    "epoch",
    "timestamp",
    "count",
    "cluster",
    "status",
    "health",
    "attr",
    "value",
    "node.role",
    "master",
    "priority",
    "source",
    "component",
    "version",
    "type",
    "url",
    "description",
    "stage",
    "source_host",
    "target_host",
    "repository",
    "snapshot",
    "prirep",
    "state",
    "segment",
    "committed",
    "searchable",
    "compound",
    "sync_id",
    "unassigned.reason",
    "unassigned.at",
    "unassigned.for",
    "unassigned.details",
    "build",
    "jdk",
];

/// Every table by name.
fn tables() -> &'static HashMap<&'static str, Vec<Column>> {
    static TABLES: OnceLock<HashMap<&'static str, Vec<Column>>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut out: HashMap<&'static str, Vec<Column>> = HashMap::new();
        let mut name = "";
        for line in COLUMNS.lines() {
            if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                name = section;
                continue;
            }
            let (mark, rest) = line.split_at(1);
            let mut parts = rest.splitn(3, '|');
            let (Some(column), Some(aliases), Some(about)) = (parts.next(), parts.next(), parts.next()) else {
                continue;
            };
            let aliases: Vec<&'static str> = aliases.split(',').filter(|a| !a.is_empty()).collect();
            out.entry(name).or_default().push(Column {
                name: column,
                aliases: aliases.leak(),
                about,
                shown: mark == "*",
                right: !WORDS.contains(&column),
            });
        }
        out
    })
}

/// The facts of one row, by column.
type Facts = HashMap<&'static str, Cell>;

/// A fact as a cell of a table: text as it stands, an empty one for null.
trait Fact {
    fn cell(&self) -> Cell;
}

impl<T: std::fmt::Display> Fact for T {
    fn cell(&self) -> Cell {
        let text = self.to_string();
        if text.is_empty() { Cell::Nothing } else { Cell::Text(text) }
    }
}

macro_rules! facts {
    ($($name:literal : $value:expr),* $(,)?) => { HashMap::from([$(($name, $value.cell())),*]) };
}

/// Any table of 2015.
pub(crate) async fn table(mut call: Call, name: &str) -> Result<Answer> {
    let known = tables()
        .get(name)
        .filter(|_| name != "snapshots" || call.arg("index").is_some());
    let Some(columns) = known else {
        return Err(Error::illegal(format!("No feature for name [{name}]")));
    };
    if call.params.flag("help")? {
        return Ok(Answer::text(columns_of(columns)));
    }
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let cells = rows(&mut call, name)
        .await?
        .into_iter()
        .map(|facts| columns.iter().map(|column| cell(name, column, &facts)).collect())
        .collect();
    layout.write(columns, cells)
}

/// `?help`: a line a column.
fn columns_of(columns: &[Column]) -> String {
    let names = columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let aliases: Vec<String> = columns.iter().map(|c| c.aliases.join(",")).collect();
    let width = aliases.iter().map(String::len).max().unwrap_or(0);
    let lines = columns.iter().zip(&aliases);
    lines
        .map(|(c, a)| format!("{:names$} | {a:width$} | {}\n", c.name, c.about))
        .collect()
}

/// The cell of a row in a column; a fact that we do not count is zero in its unit.
fn cell(table: &str, column: &Column, facts: &Facts) -> Cell {
    if let Some(known) = facts.get(column.name) {
        return known.clone();
    }
    let name = column.name;
    let unassigned = facts.contains_key("unassigned") || table == "shards" && name.starts_with("unassigned.");
    if unassigned || name == "sync_id" {
        Cell::Nothing
    } else if name.ends_with("time") {
        Cell::Millis(0)
    } else if name.contains("memory") || (name.ends_with("size") && table != "thread_pool") {
        Cell::Bytes(0)
    } else if column.right {
        Cell::of(0)
    } else {
        Cell::of("-")
    }
}

/// The row of a snapshot.
fn of_snapshot(one: &snapshot::Summary) -> Facts {
    let time = |ms: i64| crate::human::date_text(ms).get(11..19).unwrap_or_default().to_owned();
    let failure = one.failures.first().map_or("", |failure| failure.reason.as_str());
    let mut facts = facts! {
        "id": one.name, "status": one.state.wire(), "start_epoch": one.start_ms / 1000, "start_time": time(one.start_ms),
        "end_epoch": one.end_ms / 1000, "end_time": time(one.end_ms), "indices": one.indices.len(),
        "successful_shards": one.shards - one.failed_shards, "failed_shards": one.failed_shards, "total_shards": one.shards,
        "reason": failure,
    };
    let took = u64::try_from(one.end_ms - one.start_ms).unwrap_or(0);
    facts.insert("duration", Cell::Millis(took));
    facts
}

async fn stats(call: &mut Call, closed: bool) -> Result<Vec<(IndexInfo, IndexStats)>> {
    let mut target = if closed {
        crate::targets::administration::admin_target(call)?
    } else {
        call.target()?
    };
    target.types.clear();
    call.rest.stats(target).await
}

/// The rows of a table.
async fn rows(call: &mut Call, name: &str) -> Result<Vec<Facts>> {
    Ok(match name {
        "master" => vec![node(call)],
        "thread_pool" => {
            let mut facts = node(call);
            facts.extend(thread_pools(call).await?);
            vec![facts]
        }
        "fielddata" => {
            // No field is loaded into memory, so that none has a column of its own.
            let mut facts = node(call);
            facts.insert("total", Cell::Bytes(0));
            vec![facts]
        }
        "nodes" => {
            let mut facts = node(call);
            add_node(&mut facts, call).await?;
            vec![facts]
        }
        "nodeattrs" | "pending_tasks" | "plugins" => Vec::new(),
        "repositories" => {
            let all = repositories_of(&call.rest);
            all.iter().map(|one| facts! { "id": one.name, "type": one.kind }).collect()
        }
        "snapshots" => {
            let listed = snapshots_of(&call.rest)?.list(&call.path_part("index")?).await?;
            listed.iter().map(|one| of_snapshot(one)).collect()
        }
        "allocation" => allocation(call).await?,
        "count" => {
            let docs: u64 = stats(call, false).await?.iter().map(|(_, s)| s.docs).sum();
            let (epoch, time) = epoch_and_time(call);
            vec![facts! { "epoch": epoch, "timestamp": time, "count": docs }]
        }
        "health" => vec![health(call).await?],
        "aliases" => aliases(call).await?,
        "indices" => stats(call, true)
            .await?
            .iter()
            .map(|(info, s)| of_index(info, s, call.dialect.persona))
            .collect(),
        "shards" => {
            let mut out = Vec::new();
            let all = match stats(call, true).await {
                Err(error) if error.kind() == ErrorKind::IndexNotFound => Vec::new(),
                all => all?,
            };
            for (info, s) in all.iter().filter(|(info, _)| info.open) {
                shards(info, s, call, &mut out);
            }
            out
        }
        "segments" => {
            let all = stats(call, false).await?;
            all.iter().flat_map(|(info, s)| segments(info, s, call)).collect()
        }
        "recovery" => {
            let all = stats(call, false).await?;
            all.iter().flat_map(|(info, _)| recovery(info)).collect()
        }
        other => {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("the table [{other}] has columns and no rows"),
            ));
        }
    })
}

/// The address that rows show for this node.
const HOST: &str = "127.0.0.1";

/// Identity and address of this node.
fn node(call: &Call) -> Facts {
    let names = &call.rest.names;
    let port = names.address.rsplit(':').next().unwrap_or_default();
    facts! { "id": names.node_id, "pid": std::process::id(), "host": HOST, "ip": HOST, "port": port, "node": names.node, "name": names.node }
}

/// The clock, as seconds and as a time of day.
fn epoch_and_time(call: &Call) -> (String, String) {
    let now = call.rest.clock.wall_ms();
    ((now / 1000).to_string(), crate::render::cat::time_of_day(now))
}

/// Shards and disk of this node, and a row for the shards that are assigned to none.
async fn allocation(call: &mut Call) -> Result<Vec<Facts>> {
    let chosen = call.arg("node_id").map(split_list).unwrap_or_default();
    let all = stats(call, true).await?;
    let infos: Vec<IndexInfo> = all.iter().map(|(i, _)| i.clone()).filter(|i| i.open).collect();
    let health = Health::of(&infos, call.dialect.persona);
    let disk = node_stats(call).await?;
    let used = disk.disk_total_bytes - disk.disk_available_bytes.min(disk.disk_total_bytes);
    let mut out = Vec::new();
    if is_this_node(&call.rest.names, &chosen) {
        let mut facts = node(call);
        facts.extend(facts! { "shards": health.active, "disk.percent": percent(used, disk.disk_total_bytes) });
        facts.insert("disk.indices", Cell::Bytes(all.iter().map(|(_, s)| s.size_bytes).sum()));
        facts.insert("disk.used", Cell::Bytes(used));
        facts.insert("disk.avail", Cell::Bytes(disk.disk_available_bytes));
        facts.insert("disk.total", Cell::Bytes(disk.disk_total_bytes));
        out.push(facts);
    }
    if health.unassigned > 0 && (chosen.is_empty() || chosen.iter().any(|id| id == "*" || id == "_all")) {
        out.push(facts! { "shards": health.unassigned, "node": "UNASSIGNED", "unassigned": "" });
    }
    Ok(out)
}

/// The health of the cluster, with its time unless `ts=false`.
async fn health(call: &mut Call) -> Result<Facts> {
    let ts = call.params.take_2015("ts").is_none_or(|v| v != "false" && v != "0");
    let infos: Vec<IndexInfo> = stats(call, true)
        .await?
        .into_iter()
        .map(|(i, _)| i)
        .filter(|i| i.open)
        .collect();
    let health = Health::of_all(&infos, call).await;
    let (epoch, time) = if ts { epoch_and_time(call) } else { Default::default() };
    Ok(
        facts! { "epoch": epoch, "timestamp": time, "cluster": call.rest.names.cluster, "status": health.status(), "node.total": 1, "node.data": 1,
        "shards": health.active, "pri": health.active, "unassign": health.unassigned, "max_task_wait_time": "-",
        "active_shards_percent": format!("{:.1}%", health.percent()) },
    )
}

/// The segments of an index. The first one shows the documents of all.
fn segments(info: &IndexInfo, s: &IndexStats, call: &Call) -> Vec<Facts> {
    let row = |n: u64| {
        let (docs, deleted, size) = if n == 0 {
            (s.lucene_docs, s.deleted, s.size_bytes)
        } else {
            (0, 0, 0)
        };
        let mut facts = facts! { "index": info.name, "shard": 0, "prirep": "p", "ip": HOST, "id": call.rest.names.node_id,
        "segment": format!("_{n}"), "generation": n, "docs.count": docs, "docs.deleted": deleted, "size.memory": 0,
        "committed": true, "searchable": true, "version": "5.5.4", "compound": false };
        facts.insert("size", Cell::Bytes(size));
        facts
    };
    (0..s.segments).map(row).collect()
}

/// The shards of an index as recovered from their store.
fn recovery(info: &IndexInfo) -> Vec<Facts> {
    let row = |shard: u64| {
        facts! { "index": info.name, "shard": shard, "time": 0, "type": "store", "stage": "done", "source_host": HOST,
        "target_host": HOST, "repository": "n/a", "snapshot": "n/a", "files_percent": "100.0%", "bytes_percent": "100.0%",
        "translog_percent": "100.0%", "bytes": 0, "files": 0 }
    };
    (0..number(&info.settings, NUMBER_OF_SHARDS).min(1024)).map(row).collect()
}

/// The cells of every thread pool.
async fn thread_pools(call: &Call) -> Result<Facts> {
    let mut facts = Facts::new();
    for (name, kind, pool) in crate::render::pools::all(&node_stats(call).await?.pools, Dialect::of(Persona::Es2)) {
        for column in tables().get("thread_pool").into_iter().flatten() {
            let cell = match column.name.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')) {
                Some("active") => Cell::of(pool.active),
                Some("queue") => Cell::of(pool.queue),
                Some("queueSize") => Cell::if_any(pool.queue_max),
                Some("rejected") => Cell::of(pool.rejected),
                Some("largest") => Cell::of(pool.largest),
                Some("completed") => Cell::of(pool.completed),
                Some("size" | "min" | "max") => Cell::of(pool.threads),
                Some("type") => Cell::of(kind),
                Some("keepAlive") => Cell::of("5m"),
                _ => continue,
            };
            facts.insert(column.name, cell);
        }
    }
    Ok(facts)
}

/// Adds the machine and the figures of all indices to the facts of this node.
async fn add_node(facts: &mut Facts, call: &Call) -> Result<()> {
    let machine = crate::machine::Machine::look();
    facts.extend(
        facts! { "version": call.dialect.persona.version(), "build": env!("CARGO_PKG_VERSION"), "jdk": "-",
        "load": format!("{:.2}", machine.load[0]), "node.role": "d", "master": "*", "cpu": machine.cpu_percent(),
        "heap.percent": percent(machine.resident_bytes, machine.memory_total_bytes),
        "ram.percent": percent(machine.memory_used_bytes(), machine.memory_total_bytes),
        "file_desc.current": machine.open_files, "file_desc.max": machine.open_files_max,
        "file_desc.percent": percent(machine.open_files, machine.open_files_max) },
    );
    let mut target = Target::of(Vec::new());
    (target.forbid_closed, target.expand_closed) = (false, true);
    let own = node_stats(call).await?;
    let mut figures = crate::render::indices::sum_sections(&call.rest.stats(target).await?, Dialect::of(Persona::Es2));
    crate::render::nodes::with_caches(&mut figures, &own);
    figures.insert("script".into(), crate::render::nodes::scripts(call, &own));
    for column in tables().get("nodes").into_iter().flatten() {
        if let Some(figure) = figure(&figures, column.name) {
            facts.entry(column.name).or_insert(figure);
        }
    }
    for (name, bytes) in [
        ("heap.current", machine.resident_bytes),
        ("heap.max", machine.memory_total_bytes),
        ("ram.current", machine.memory_used_bytes()),
        ("ram.max", machine.memory_total_bytes),
    ] {
        facts.insert(name, Cell::Bytes(bytes));
    }
    Ok(())
}

async fn aliases(call: &mut Call) -> Result<Vec<Facts>> {
    let names = call.arg("name").map(split_list).unwrap_or_default();
    let target = crate::targets::administration::admin_target(call)?;
    let mut out = Vec::new();
    for info in call
        .rest
        .indices(&Target {
            types: Vec::new(),
            ..target
        })
        .await?
    {
        for (alias, body) in &info.aliases {
            if !names.is_empty() && !names.iter().any(|n| path::matches(n, alias)) {
                continue;
            }
            let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
            let filter = if body.get("filter").is_some_and(|f| !f.is_null()) {
                "*"
            } else {
                "-"
            };
            out.push(
                facts! { "alias": alias, "index": info.name, "filter": filter, "routing.index": text("index_routing"),
                "routing.search": text("search_routing") },
            );
        }
    }
    Ok(out)
}

fn of_index(info: &IndexInfo, s: &IndexStats, persona: Persona) -> Facts {
    let health = Health::of(std::slice::from_ref(info), persona);
    if !info.open {
        let mut out = facts! { "status": "close", "index": info.name, "creation.date": info.created_ms, "unassigned": "" };
        out.insert("health", Cell::Nothing);
        return out;
    }
    let date = model::date::DateFormat::default().render(info.created_ms, None);
    let mut out = facts! { "health": health.status(), "status": "open", "index": info.name, "pri": number(&info.settings, NUMBER_OF_SHARDS),
    "rep": number(&info.settings, NUMBER_OF_REPLICAS), "docs.count": s.lucene_docs, "docs.deleted": s.deleted,
    "creation.date": info.created_ms, "creation.date.string": date };
    with_figures("indices", &mut out, s);
    out
}

/// Adds the figures of an index to a row of a table that has columns for them.
fn with_figures(table: &str, out: &mut Facts, s: &IndexStats) {
    let sections = crate::render::indices::sections(s, Dialect::of(Persona::Es2));
    for column in tables().get(table).into_iter().flatten() {
        if !out.contains_key(column.name)
            && let Some(figure) = figure(&sections, column.name)
        {
            out.insert(column.name, figure);
        }
    }
}

/// The first shard holds everything, the others are empty, replicas and damaged indices are unassigned.
fn shards(info: &IndexInfo, s: &IndexStats, call: &Call, out: &mut Vec<Facts>) {
    let names = &call.rest.names;
    for shard in 0..number(&info.settings, NUMBER_OF_SHARDS).min(1024) {
        let (docs, size) = if shard == 0 { (s.lucene_docs, s.size_bytes) } else { (0, 0) };
        if info.stopped.is_some() {
            out.push(
                facts! { "index": info.name, "shard": shard, "prirep": "p", "state": shard_state(info),
                "unassigned.reason": "ALLOCATION_FAILED", "unassigned": "" },
            );
            continue;
        }
        let mut facts = facts! { "index": info.name, "shard": shard, "prirep": "p", "state": shard_state(info), "docs": docs, "ip": HOST,
        "id": names.node_id, "node": names.node };
        facts.insert("store", Cell::Bytes(size));
        match shard {
            0 => with_figures("shards", &mut facts, s),
            _ => with_figures("shards", &mut facts, &IndexStats::default()),
        }
        out.push(facts);
        for _ in 0..missing_replicas(info, call.dialect.persona).min(100) {
            out.push(facts! { "index": info.name, "shard": shard, "prirep": "r", "state": "UNASSIGNED", "unassigned.reason": "INDEX_CREATED",
                "unassigned": "" });
        }
    }
}

/// The list of `GET /_cat`.
pub(crate) fn help() -> Answer {
    let mut out = String::from("=^.^=\n");
    for path in PATHS {
        out.push_str(path);
        out.push('\n');
    }
    Answer::text(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_columns_and_shows_some() {
        assert_eq!(tables().len(), 17);
        for (name, columns) in tables() {
            assert!(columns.iter().any(|c| c.shown), "{name}");
        }
    }
}
