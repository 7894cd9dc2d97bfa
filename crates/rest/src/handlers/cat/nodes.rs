//! Tables about the server: nodes, allocation, health, master, tasks.

use crate::call::Call;
use crate::machine::{Machine, percent};
use crate::query_params::split_list;
use crate::render::cat::{layout_only, stats, time_of_day};
use crate::render::cat_figures::{Table, fill};
use crate::render::cluster::Health;
use crate::render::indices::sum_sections;
use crate::render::nodes::{is_this_node, node_stats};
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, extra, extra_text, num};
use async_recursion::async_recursion as boxed;
use model::{Persona, Result, Target, path};

const HEALTH: &[Column] = &[
    col("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
    col("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
    col("cluster", &["cl"], "cluster name"),
    col("status", &["st"], "health status"),
    num("node.total", &["nt", "nodeTotal"], "total number of nodes"),
    num("node.data", &["nd", "nodeData"], "number of nodes that can store data"),
    num("discovered_cluster_manager", &["dcm"], "discovered cluster manager"),
    num(
        "shards",
        &["t", "sh", "shards.total", "shardsTotal"],
        "total number of shards",
    ),
    num("pri", &["p", "shards.primary", "shardsPrimary"], "number of primary shards"),
    num(
        "relo",
        &["r", "shards.relocating", "shardsRelocating"],
        "number of relocating nodes",
    ),
    num(
        "init",
        &["i", "shards.initializing", "shardsInitializing"],
        "number of initializing nodes",
    ),
    num(
        "unassign",
        &["u", "shards.unassigned", "shardsUnassigned"],
        "number of unassigned shards",
    ),
    num("pending_tasks", &["pt", "pendingTasks"], "number of pending tasks"),
    num(
        "max_task_wait_time",
        &["mtwt", "maxTaskWaitTime"],
        "wait time of longest task pending",
    ),
    num(
        "active_shards_percent",
        &["asp", "activeShardsPercent"],
        "active number of shards in percent",
    ),
];

model::assert_names_differ!(HEALTH, "each column of health has a name of its own");

/// `_cat/health`.
#[boxed]
pub(crate) async fn health(mut call: Call) -> Result<Answer> {
    let with_time = call.params.take_bool("ts")?.unwrap_or(true);
    let layout = layout_only(&mut call)?;
    let mut target = Target::of(Vec::new());
    (target.forbid_closed, target.expand_closed, target.expand_hidden) = (false, true, true);
    let infos = call.rest.indices(&target).await?;
    let health = Health::of_all(&infos, &call).await;
    let now = call.rest.clock.wall_ms();
    let row = [
        Cell::of(now / 1000),
        Cell::of(time_of_day(now)),
        Cell::of(&call.rest.names.cluster),
        Cell::of(health.status()),
        Cell::of(1),
        Cell::of(1),
        Cell::of(true),
        Cell::of(health.active),
        Cell::of(health.active),
        Cell::of(0),
        Cell::of(0),
        Cell::of(health.unassigned),
        Cell::of(0),
        Cell::of("-"),
        Cell::Text(format!("{:.1}%", health.percent())),
    ];
    // OpenSearch 1 called the manager master.
    let renamed = |mut column: Column| {
        if column.name == "discovered_cluster_manager" && call.dialect.persona == Persona::Opensearch1 {
            (column.name, column.aliases, column.about) = ("discovered_master", &["dm"], "discovered master");
        }
        column
    };
    let shown = |name: &str| match name {
        "epoch" | "timestamp" => with_time,
        "discovered_cluster_manager" => call.dialect.persona.is_opensearch(),
        _ => true,
    };
    assert_eq!(HEALTH.len(), row.len(), "a row has a cell for each column");
    let (columns, row): (Vec<Column>, Vec<Cell>) = HEALTH
        .iter()
        .zip(row)
        .filter(|(column, _)| shown(column.name))
        .map(|(column, cell)| (renamed(*column), cell))
        .unzip();
    layout.write(&columns, vec![row])
}

const PLUGINS: &[Column] = &[
    extra_text("id", &[], "unique node id"),
    col("name", &["n"], "node name"),
    col("component", &["c"], "component"),
    col("version", &["v"], "component version"),
    extra_text("description", &["d"], "plugin details"),
];

/// `_cat/plugins`: there are none.
#[boxed]
pub(crate) async fn plugins(mut call: Call) -> Result<Answer> {
    layout_only(&mut call)?.write(PLUGINS, Vec::new())
}

const ATTRIBUTES: &[Column] = &[
    col("node", &["name"], "node name"),
    extra_text("id", &["id", "nodeId"], "unique node id"),
    extra("pid", &["p"], "process id"),
    col("host", &["h"], "host name"),
    col("ip", &["i"], "ip address"),
    extra("port", &["po"], "bound transport port"),
    col("attr", &["attr.name"], "attribute description"),
    col("value", &["attr.value"], "attribute value"),
];

/// `_cat/nodeattrs`: this node has none.
#[boxed]
pub(crate) async fn attributes(mut call: Call) -> Result<Answer> {
    layout_only(&mut call)?.write(ATTRIBUTES, Vec::new())
}

const NODES: &[Column] = &[
    extra_text("id", &["nodeId"], "unique node id"),
    extra("pid", &["p"], "process id"),
    col("ip", &["i"], "ip address"),
    extra("port", &["po"], "bound http port"),
    extra_text("http_address", &["http"], "bound http address"),
    extra_text("version", &["v"], "version"),
    extra("disk.total", &["dt", "diskTotal"], "total disk space"),
    extra("disk.used", &["du", "diskUsed"], "used disk space"),
    extra("disk.avail", &["d", "da", "disk", "diskAvail"], "available disk space"),
    extra("disk.used_percent", &["dup", "diskUsedPercent"], "used disk space percentage"),
    extra("heap.current", &["hc", "heapCurrent"], "used memory of the process"),
    num(
        "heap.percent",
        &["hp", "heapPercent"],
        "used memory of the process in percent of the machine's",
    ),
    extra("heap.max", &["hm", "heapMax"], "memory of the machine"),
    extra("ram.current", &["rc", "ramCurrent"], "used machine memory"),
    num("ram.percent", &["rp", "ramPercent"], "used machine memory ratio"),
    extra("ram.max", &["rm", "ramMax"], "total machine memory"),
    extra(
        "file_desc.current",
        &["fdc", "fileDescriptorCurrent"],
        "used file descriptors",
    ),
    extra(
        "file_desc.percent",
        &["fdp", "fileDescriptorPercent"],
        "used file descriptor ratio",
    ),
    extra("file_desc.max", &["fdm", "fileDescriptorMax"], "max file descriptors"),
    num("cpu", &[], "cpu usage of the process since it started"),
    num("load_1m", &["l"], "1m load avg"),
    num("load_5m", &[], "5m load avg"),
    num("load_15m", &[], "15m load avg"),
    extra("uptime", &["u"], "node uptime"),
    col(
        "node.role",
        &["r", "role", "nodeRole"],
        "d:data node, i:ingest node, m:node that may be elected",
    ),
    col("node.roles", &["rs", "all roles"], "names of the roles"),
    col("cluster_manager", &["m"], "*:current cluster manager"),
    col("name", &["n"], "node name"),
    extra("script.compilations", &["scrcc", "scriptCompilations"], "compiled scripts"),
    extra(
        "script.cache_evictions",
        &["scrce", "scriptCacheEvictions"],
        "scripts that a cache gave up: none is kept",
    ),
    extra(
        "script.compilation_limit_triggered",
        &["scrclt", "scriptCacheCompilationLimitTriggered"],
        "compilations that a limit refused: there is none",
    ),
];

/// `_cat/nodes`.
#[boxed]
pub(crate) async fn nodes(mut call: Call) -> Result<Answer> {
    let full_id = call.params.flag("full_id")?;
    let layout = layout_only(&mut call)?;
    let (names, machine, own) = (&call.rest.names, Machine::look(), node_stats(&call).await?);
    let used = own.disk_total_bytes - own.disk_available_bytes.min(own.disk_total_bytes);
    let load = |n: f64| Cell::Text(format!("{n:.2}"));
    let scripts = crate::render::nodes::scripts(&call, &own);
    let script = |name: &str| Cell::if_any(scripts[name].as_u64());
    let id: String = names.node_id.chars().take(if full_id { usize::MAX } else { 4 }).collect();
    static TABLE: Table = Table::new();
    let all = TABLE.columns(NODES, false, &layout, call.dialect.persona);
    let mut row = vec![
        Cell::Text(id),
        Cell::of(std::process::id()),
        Cell::of("127.0.0.1"),
        Cell::if_any(names.address.rsplit(':').next()),
        Cell::of(&names.address),
        Cell::of(call.dialect.persona.version()),
        Cell::Bytes(own.disk_total_bytes),
        Cell::Bytes(used),
        Cell::Bytes(own.disk_available_bytes),
        Cell::Text(format!("{:.2}", used as f64 * 100.0 / own.disk_total_bytes.max(1) as f64)),
        Cell::Bytes(machine.resident_bytes),
        Cell::of(percent(machine.resident_bytes, machine.memory_total_bytes)),
        Cell::Bytes(machine.memory_total_bytes),
        Cell::Bytes(machine.memory_used_bytes()),
        Cell::of(percent(machine.memory_used_bytes(), machine.memory_total_bytes)),
        Cell::Bytes(machine.memory_total_bytes),
        Cell::of(machine.open_files),
        Cell::of(percent(machine.open_files, machine.open_files_max)),
        Cell::of(machine.open_files_max),
        Cell::of(machine.cpu_percent()),
        load(machine.load[0]),
        load(machine.load[1]),
        load(machine.load[2]),
        Cell::Millis(machine.uptime_ms),
        Cell::of("dim"),
        Cell::of("data,ingest,master"),
        Cell::of("*"),
        Cell::of(&names.node),
        script("compilations"),
        script("cache_evictions"),
        script("compilation_limit_triggered"),
    ];
    if all.len() > row.len() {
        let mut target = Target::of(Vec::new());
        (target.forbid_closed, target.expand_closed, target.expand_hidden) = (false, true, true);
        let mut figures = sum_sections(&stats(&call, target).await?, call.dialect);
        crate::render::nodes::with_caches(&mut figures, &own);
        fill(&mut row, all, Some(&figures));
    }
    let modern = matches!(call.dialect.persona, Persona::Opensearch2 | Persona::Opensearch3);
    assert_eq!(all.len(), row.len(), "a row has a cell for each column");
    let (columns, row): (Vec<Column>, Vec<Cell>) = all
        .iter()
        .zip(row)
        .filter(|(column, _)| modern || column.name != "node.roles")
        .map(|(column, cell)| match column.name {
            "cluster_manager" if !modern => (col("master", &["m"], "*:current master"), cell),
            _ => (*column, cell),
        })
        .unzip();
    layout.write(&columns, vec![row])
}

model::assert_names_differ!(NODES, "each column of nodes has a name of its own");

const ALLOCATION: &[Column] = &[
    num("shards", &["s"], "number of shards on node"),
    num("disk.indices", &["di", "diskIndices"], "disk used by indices"),
    num("disk.used", &["du", "diskUsed"], "disk used (total, not just by indices)"),
    num("disk.avail", &["da", "diskAvail"], "disk available"),
    num("disk.total", &["dt", "diskTotal"], "total capacity of all volumes"),
    num("disk.percent", &["dp", "diskPercent"], "percent disk used"),
    col("host", &["h"], "host of node"),
    col("ip", &[], "ip of node"),
    col("node", &["n"], "name of node"),
];

model::assert_names_differ!(ALLOCATION, "each column of allocation has a name of its own");

/// `_cat/allocation`: this node, and what no node has.
#[boxed]
pub(crate) async fn allocation(mut call: Call) -> Result<Answer> {
    let layout = layout_only(&mut call)?;
    let mut target = Target::of(Vec::new());
    (target.forbid_closed, target.expand_closed, target.expand_hidden) = (false, true, true);
    let stats = stats(&call, target).await?;
    let infos: Vec<_> = stats.iter().map(|(info, _)| info.clone()).collect();
    let health = Health::of_all(&infos, &call).await;
    let own = node_stats(&call).await?;
    let used = own.disk_total_bytes - own.disk_available_bytes.min(own.disk_total_bytes);
    let mut rows = Vec::new();
    if call
        .arg("node_id")
        .is_none_or(|ids| is_this_node(&call.rest.names, &split_list(ids)))
    {
        rows.push(vec![
            Cell::of(health.active),
            Cell::Bytes(stats.iter().map(|(_, s)| s.size_bytes).sum()),
            Cell::Bytes(used),
            Cell::Bytes(own.disk_available_bytes),
            Cell::Bytes(own.disk_total_bytes),
            Cell::of(percent(used, own.disk_total_bytes)),
            Cell::of("127.0.0.1"),
            Cell::of("127.0.0.1"),
            Cell::of(&call.rest.names.node),
        ]);
    }
    if health.unassigned > 0 && call.arg("node_id").is_none_or(|ids| ids == "*" || ids == "_all") {
        let mut row = vec![Cell::of(health.unassigned)];
        row.resize(ALLOCATION.len() - 1, Cell::Nothing);
        row.push(Cell::of("UNASSIGNED"));
        rows.push(row);
    }
    layout.write(ALLOCATION, rows)
}

const MASTER: &[Column] = &[
    col("id", &[], "node id"),
    col("host", &["h"], "host name"),
    col("ip", &[], "ip address"),
    col("node", &["n"], "node name"),
];

/// `_cat/master`.
#[boxed]
pub(crate) async fn master(mut call: Call) -> Result<Answer> {
    let layout = layout_only(&mut call)?;
    let names = &call.rest.names;
    layout.write(
        MASTER,
        vec![vec![
            Cell::of(&names.node_id),
            Cell::of("127.0.0.1"),
            Cell::of("127.0.0.1"),
            Cell::of(&names.node),
        ]],
    )
}

const TASKS: &[Column] = &[
    col("action", &["ac"], "task action"),
    col("task_id", &["ti"], "unique task id"),
    col("parent_task_id", &["pti"], "parent task id"),
    col("type", &["ty"], "task type"),
    num("start_time", &["start"], "start time in ms"),
    col("timestamp", &["ts", "hms", "hhmmss"], "start time in HH:MM:SS"),
    extra("running_time_ns", &[], "running time ns"),
    num("running_time", &["time"], "running time"),
    col("ip", &["i"], "ip address"),
    col("node", &["n"], "node name"),
    col("description", &["desc"], "task description"),
];

const _: () = assert!(
    model::text::is_same(TASKS[TASKS.len() - 1].name, "description"),
    "the last column is the one that is shown with details alone"
);

/// `_cat/tasks`.
#[boxed]
pub(crate) async fn tasks(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let detailed = call.params.flag("detailed")?;
    let actions = call.params.take_list("actions").unwrap_or_default();
    let here = crate::actions::tasks::take_nodes(&mut call);
    call.params.finish()?;
    let rest = &call.rest;
    let wall = rest.clock.wall_ms();
    let _listing = crate::actions::tasks::Listing::begin(&call);
    let columns = if detailed { TASKS } else { &TASKS[..TASKS.len() - 1] };
    let rows = rest
        .tasks
        .list()
        .iter()
        .filter(|t| t.outcome().is_none() && here)
        .filter(|t| actions.is_empty() || actions.iter().any(|a| path::matches(a, &t.action)))
        .map(|t| {
            let running_ms = u64::try_from(t.running_ms(wall)).unwrap_or(0);
            let mut row = vec![
                Cell::of(&t.action),
                Cell::Text(format!("{}:{}", rest.names.node_id, t.id)),
                Cell::of("-"),
                Cell::of("transport"),
                Cell::of(t.start_ms),
                Cell::of(time_of_day(t.start_ms)),
                Cell::of(running_ms * 1_000_000),
                Cell::Millis(running_ms),
                Cell::of("127.0.0.1"),
                Cell::of(&rest.names.node),
                Cell::of(&t.description),
            ];
            row.truncate(columns.len());
            row
        })
        .collect();
    layout.write(columns, rows)
}
