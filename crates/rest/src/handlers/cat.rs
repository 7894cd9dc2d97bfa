//! `_cat`: the same facts as tables.

use super::cluster::Health;
use crate::call::Call;
use crate::params::split_list;
use crate::respond::Answer;
use crate::tables::{Column, Layout, col, extra, num};
use engine::{IndexInfo, IndexStats, Inspected, Inspection, TemplateKind};
use model::settings::number;
use model::units::render_bytes;
use model::{Result, Target, path};
use serde_json::Value;

/// `GET /_cat`.
pub(crate) async fn help(call: Call) -> Result<Answer> {
    call.params.finish()?;
    Ok(Answer::text(crate::routes::cat_paths()))
}

/// Takes the layout and the indices, refuses what is left.
fn prepare(call: &mut Call) -> Result<(Layout, Target)> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params.accept(&[
        "pri",
        "health",
        "include_unloaded_segments",
        "full_id",
        "request_timeout",
        "include_hidden",
    ]);
    let mut target = super::indices::admin_target(call)?;
    target.types.clear();
    call.params.finish()?;
    Ok((layout, target))
}

async fn stats(call: &Call, target: Target) -> Result<Vec<(IndexInfo, IndexStats)>> {
    match call.rest.engine.inspect(Inspection::Stats(target)).await? {
        Inspected::Stats(stats) => Ok(stats),
        _ => Ok(Vec::new()),
    }
}

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

const INDICES: &[Column] = &[
    col("health", &["h"], "current health status"),
    col("status", &["s"], "open/close status"),
    col("index", &["i", "idx"], "index name"),
    col("uuid", &["id", "uuid"], "index uuid"),
    num("pri", &["p", "shards.primary", "shardsPrimary"], "number of primary shards"),
    num("rep", &["r", "shards.replica", "shardsReplica"], "number of replica shards"),
    num("docs.count", &["dc", "docsCount"], "available docs"),
    num("docs.deleted", &["dd", "docsDeleted"], "deleted docs"),
    extra("creation.date", &["cd"], "index creation date (millisecond value)"),
    num("store.size", &["ss", "storeSize"], "store size of primaries & replicas"),
    num("pri.store.size", &[], "store size of primaries"),
    extra("segments.count", &["sc", "segmentsCount"], "number of segments"),
];

/// `_cat/indices`.
pub(crate) async fn indices(mut call: Call) -> Result<Answer> {
    let (layout, target) = prepare(&mut call)?;
    let rows = stats(&call, target)
        .await?
        .into_iter()
        .map(|(info, s)| {
            let health = Health::of(std::slice::from_ref(&info));
            let open = |v: String| if info.open { Some(v) } else { None };
            vec![
                some(health.status()),
                some(if info.open { "open" } else { "close" }),
                some(&info.name),
                some(&info.uuid),
                some(number(&info.settings, model::settings::NUMBER_OF_SHARDS)),
                some(number(&info.settings, model::settings::NUMBER_OF_REPLICAS)),
                open(s.lucene_docs.to_string()),
                open(s.deleted.to_string()),
                some(info.created_ms),
                open(render_bytes(s.size_bytes)),
                open(render_bytes(s.size_bytes)),
                open(s.segments.to_string()),
            ]
        })
        .collect();
    let columns: Vec<Column> = INDICES
        .iter()
        .filter(|c| !(call.dialect.typed && c.name == "uuid"))
        .copied()
        .collect();
    if call.dialect.typed {
        let rows: Vec<Vec<Option<String>>> = rows;
        return layout.write(
            &columns,
            rows.into_iter()
                .map(|r| r.into_iter().enumerate().filter(|(i, _)| *i != 3).map(|(_, c)| c).collect())
                .collect(),
        );
    }
    layout.write(&columns, rows)
}

/// Seconds since 1970 and the time of day.
fn now(call: &Call) -> (Option<String>, Option<String>) {
    let seconds = call.rest.clock.wall_ms() / 1000;
    let day = seconds.rem_euclid(86_400);
    (
        some(seconds),
        Some(format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)),
    )
}

const COUNT: &[Column] = &[
    num("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
    col("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
    num("count", &["dc", "docs.count", "docsCount"], "the document count"),
];

/// `_cat/count`.
pub(crate) async fn count(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let target = call.target()?;
    call.params.finish()?;
    let docs: u64 = stats(&call, target).await?.iter().map(|(_, s)| s.docs).sum();
    let (epoch, time) = now(&call);
    layout.write(COUNT, vec![vec![epoch, time, some(docs)]])
}

const HEALTH: &[Column] = &[
    num("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
    col("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
    col("cluster", &["cl"], "cluster name"),
    col("status", &["st"], "health status"),
    num("node.total", &["nt", "nodeTotal"], "total number of nodes"),
    num("node.data", &["nd", "nodeData"], "number of nodes that can store data"),
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
    col(
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

/// `_cat/health`.
pub(crate) async fn health(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params.finish()?;
    let mut target = Target::of(Vec::new());
    target.forbid_closed = false;
    let infos = call.rest.indices(&target).await?;
    let health = Health::of(&infos);
    let (epoch, time) = now(&call);
    let row = vec![
        epoch,
        time,
        some(&call.rest.names.cluster),
        some(health.status()),
        some(1),
        some(1),
        some(health.active),
        some(health.active),
        some(0),
        some(0),
        some(health.unassigned),
        some(0),
        some("-"),
        Some(format!("{:.1}%", health.percent())),
    ];
    layout.write(HEALTH, vec![row])
}

const ALIASES: &[Column] = &[
    col("alias", &["a"], "alias name"),
    col("index", &["i", "idx"], "index alias points to"),
    col("filter", &["f", "fi"], "filter"),
    col("routing.index", &["ri", "routingIndex"], "index routing"),
    col("routing.search", &["rs", "routingSearch"], "search routing"),
    col("is_write_index", &["w", "isWriteIndex"], "write index"),
];

/// `_cat/aliases`.
pub(crate) async fn aliases(mut call: Call) -> Result<Answer> {
    let (layout, target) = prepare(&mut call)?;
    let names = call.arg("name").map(split_list).unwrap_or_default();
    let typed = call.dialect.typed;
    let mut rows = Vec::new();
    for info in call.rest.indices(&target).await? {
        for (alias, body) in &info.aliases {
            if !names.is_empty() && !names.iter().any(|n| path::matches(n, alias)) {
                continue;
            }
            let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
            let write = body
                .get("is_write_index")
                .and_then(Value::as_bool)
                .map_or("-".to_owned(), |b| b.to_string());
            let mut row = vec![
                some(alias),
                some(&info.name),
                some(if body.get("filter").is_some() { "*" } else { "-" }),
                some(text("index_routing")),
                some(text("search_routing")),
            ];
            if !typed {
                row.push(Some(write));
            }
            rows.push(row);
        }
    }
    rows.sort();
    layout.write(if typed { &ALIASES[..5] } else { ALIASES }, rows)
}

const SHARDS: &[Column] = &[
    col("index", &["i", "idx"], "index name"),
    num("shard", &["s", "sh"], "shard name"),
    col("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
    col("state", &["st"], "shard state"),
    num("docs", &["d", "dc"], "number of docs in shard"),
    num("store", &["sto"], "store size of shard (how much disk it uses)"),
    col("ip", &[], "ip of node where it lives"),
    col("node", &["n"], "name of node where it lives"),
];

/// `_cat/shards`: the first shard holds everything, the others are empty, replicas are unassigned.
pub(crate) async fn shards(mut call: Call) -> Result<Answer> {
    let (layout, target) = prepare(&mut call)?;
    let mut rows = Vec::new();
    for (info, s) in stats(&call, target).await? {
        for shard in 0..number(&info.settings, model::settings::NUMBER_OF_SHARDS).min(1024) {
            let (docs, size) = if shard == 0 { (s.lucene_docs, s.size_bytes) } else { (0, 0) };
            rows.push(vec![
                some(&info.name),
                some(shard),
                some("p"),
                some("STARTED"),
                some(docs),
                some(render_bytes(size)),
                some("127.0.0.1"),
                some(&call.rest.names.node),
            ]);
            for _ in 0..number(&info.settings, model::settings::NUMBER_OF_REPLICAS).min(100) {
                rows.push(vec![
                    some(&info.name),
                    some(shard),
                    some("r"),
                    some("UNASSIGNED"),
                    None,
                    None,
                    None,
                    None,
                ]);
            }
        }
    }
    layout.write(SHARDS, rows)
}

const NODES: &[Column] = &[
    col("ip", &["i"], "ip address"),
    num("heap.percent", &["hp", "heapPercent"], "used heap ratio"),
    num("ram.percent", &["rp", "ramPercent"], "used machine memory ratio"),
    num("cpu", &[], "recent cpu usage"),
    num("load_1m", &["l"], "1m load avg"),
    num("load_5m", &["l"], "5m load avg"),
    num("load_15m", &["l"], "15m load avg"),
    col("node.role", &["r", "role", "nodeRole"], "roles"),
    col("master", &["m"], "*:current master"),
    col("name", &["n"], "node name"),
    Column {
        name: "id",
        aliases: &["nodeId"],
        about: "unique node id",
        shown: false,
        right: false,
    },
    Column {
        name: "version",
        aliases: &["v"],
        about: "version",
        shown: false,
        right: false,
    },
];

/// `_cat/nodes`.
pub(crate) async fn nodes(mut call: Call) -> Result<Answer> {
    let (layout, _) = prepare(&mut call)?;
    let names = &call.rest.names;
    let row = vec![
        some("127.0.0.1"),
        some(0),
        some(0),
        some(0),
        some("0.00"),
        some("0.00"),
        some("0.00"),
        some("dim"),
        some("*"),
        some(&names.node),
        some(&names.node_id),
        some(call.dialect.persona.version()),
    ];
    layout.write(NODES, vec![row])
}

const MASTER: &[Column] = &[
    col("id", &[], "node id"),
    col("host", &["h"], "host name"),
    col("ip", &[], "ip address"),
    col("node", &["n"], "node name"),
];

/// `_cat/master`.
pub(crate) async fn master(mut call: Call) -> Result<Answer> {
    let (layout, _) = prepare(&mut call)?;
    let names = &call.rest.names;
    layout.write(
        MASTER,
        vec![vec![
            some(&names.node_id),
            some("127.0.0.1"),
            some("127.0.0.1"),
            some(&names.node),
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
    num("running_time_ns", &["time"], "running time ns"),
    col("ip", &["i"], "ip address"),
    col("node", &["n"], "node name"),
];

/// `_cat/tasks`.
pub(crate) async fn tasks(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    call.params
        .accept(&["actions", "detailed", "nodes", "node_id", "parent_task_id", "parent_task"]);
    call.params.finish()?;
    let rest = &call.rest;
    let wall = rest.clock.wall_ms();
    let rows = rest
        .tasks
        .list()
        .iter()
        .filter(|t| t.outcome().is_none())
        .map(|t| {
            let day = (t.start_ms / 1000).rem_euclid(86_400);
            vec![
                some(&t.action),
                Some(format!("{}:{}", rest.names.node_id, t.id)),
                some("-"),
                some("transport"),
                some(t.start_ms),
                Some(format!("{:02}:{:02}:{:02}", day / 3600, day / 60 % 60, day % 60)),
                some(t.running_ms(wall).max(0) * 1_000_000),
                some("127.0.0.1"),
                some(&rest.names.node),
            ]
        })
        .collect();
    layout.write(TASKS, rows)
}

const TEMPLATES: &[Column] = &[
    col("name", &["n"], "template name"),
    col("index_patterns", &["t"], "template index patterns"),
    num("order", &["o", "p"], "template application order/priority number"),
    col("version", &["v"], "version"),
    col("composed_of", &["c"], "component templates comprising index template"),
];

/// `_cat/templates`.
pub(crate) async fn templates(mut call: Call) -> Result<Answer> {
    let (layout, _) = prepare(&mut call)?;
    let names = call.arg("name").map(split_list).unwrap_or_default();
    let mut rows = Vec::new();
    for kind in [TemplateKind::Legacy, TemplateKind::Index] {
        let Inspected::Templates(list) = call.rest.engine.inspect(Inspection::Templates(kind)).await? else {
            continue;
        };
        for (name, body) in list {
            if !names.is_empty() && !names.iter().any(|n| path::matches(n, &name)) {
                continue;
            }
            let patterns = match body.get("index_patterns").or_else(|| body.get("template")) {
                Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                Some(Value::String(one)) => one.clone(),
                _ => String::new(),
            };
            let order = body
                .get("order")
                .or_else(|| body.get("priority"))
                .and_then(Value::as_i64)
                .unwrap_or(0);
            let composed = body.get("composed_of").map(ToString::to_string).unwrap_or_default();
            rows.push(vec![
                some(name),
                Some(format!("[{patterns}]")),
                some(order),
                body.get("version").map(ToString::to_string),
                Some(composed.replace('"', "")),
            ]);
        }
    }
    layout.write(TEMPLATES, rows)
}
