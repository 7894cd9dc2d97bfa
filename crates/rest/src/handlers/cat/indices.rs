//! Tables about indices: indices, shards, count, aliases, templates.

use crate::call::Call;
use crate::query_params::split_list;
use crate::render::cat::{prepare, stats, time_of_day};
use crate::render::cat_figures::{Table, fill};
use crate::render::cluster::{Health, missing_replicas};
use crate::render::indices::sections;
use crate::render::shards::shard_state;
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, extra, extra_text, num};
use async_recursion::async_recursion as boxed;
use engine::{IndexStats, Inspected, Inspection, TemplateKind};
use model::settings::{NUMBER_OF_REPLICAS, NUMBER_OF_SHARDS, number};
use model::{Error, Result, path};
use serde_json::Value;

const INDICES: &[Column] = &[
    col("health", &["h"], "current health status"),
    col("status", &["s"], "open/close status"),
    col("index", &["i", "idx"], "index name"),
    col("uuid", &["id"], "index uuid"),
    num("pri", &["p", "shards.primary", "shardsPrimary"], "number of primary shards"),
    num("rep", &["r", "shards.replica", "shardsReplica"], "number of replica shards"),
    num("docs.count", &["dc", "docsCount"], "available docs"),
    num("docs.deleted", &["dd", "docsDeleted"], "deleted docs"),
    extra("creation.date", &["cd"], "index creation date (millisecond value)"),
    extra_text("creation.date.string", &["cds"], "index creation date (as string)"),
    num("store.size", &["ss", "storeSize"], "store size of primaries & replicas"),
    num("pri.store.size", &[], "store size of primaries"),
    extra("segments.count", &["sc", "segmentsCount"], "number of segments"),
    extra("pri.segments.count", &[], "number of segments of primaries"),
];

model::assert_names_differ!(INDICES, "each column of indices has a name of its own");

/// Position of `uuid`, which 2015 did not show.
const UUID: usize = 3;

const _: () = assert!(
    model::text::is_same(INDICES[UUID].name, "uuid"),
    "2015 is shown all columns but that of the uuid"
);

/// `_cat/indices`.
#[boxed]
pub(crate) async fn indices(mut call: Call) -> Result<Answer> {
    let wanted = call.params.take("health");
    if let Some(health) = wanted.as_deref().filter(|h| !["green", "yellow", "red"].contains(h)) {
        return Err(Error::illegal(format!("unknown cluster health status [{health}]")));
    }
    let (layout, target) = prepare(&mut call)?;
    static TABLE: Table = Table::new();
    let columns = TABLE.columns(INDICES, true, &layout, call.dialect.persona);
    let mut rows = Vec::new();
    for (info, s) in stats(&call, target).await? {
        let health = Health::of(std::slice::from_ref(&info), call.dialect.persona);
        if wanted.as_deref().is_some_and(|wanted| wanted != health.status()) {
            continue;
        }
        let open = |cell: Cell| if info.open { cell } else { Cell::Nothing };
        let mut row = vec![
            Cell::of(health.status()),
            Cell::of(if info.open { "open" } else { "close" }),
            Cell::of(&info.name),
            Cell::of(&info.uuid),
            Cell::of(number(&info.settings, NUMBER_OF_SHARDS)),
            Cell::of(number(&info.settings, NUMBER_OF_REPLICAS)),
            open(Cell::of(s.lucene_docs)),
            open(Cell::of(s.deleted)),
            Cell::of(info.created_ms),
            Cell::of(crate::human::date_text(info.created_ms)),
            open(Cell::Bytes(s.size_bytes)),
            open(Cell::Bytes(s.size_bytes)),
            open(Cell::of(s.segments)),
            open(Cell::of(s.segments)),
        ];
        let figures = (info.open && columns.len() > row.len()).then(|| sections(&s, call.dialect));
        fill(&mut row, columns, figures.as_ref());
        rows.push(row);
    }
    if !call.dialect.rules.former_cat_tables {
        return layout.write(columns, rows);
    }
    let without = |i: &usize| *i != UUID;
    let columns: Vec<Column> = (0..columns.len()).filter(without).map(|i| columns[i]).collect();
    let rows = rows
        .into_iter()
        .map(|row| (0..row.len()).filter(without).map(|i| row[i].clone()).collect());
    layout.write(&columns, rows.collect())
}

const COUNT: &[Column] = &[
    col("epoch", &["t", "time"], "seconds since 1970-01-01 00:00:00"),
    col("timestamp", &["ts", "hms", "hhmmss"], "time in HH:MM:SS"),
    col("count", &["dc", "docs.count", "docsCount"], "the document count"),
];

/// `_cat/count`.
#[boxed]
pub(crate) async fn count(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let target = call.target()?;
    call.params.finish()?;
    let docs: u64 = stats(&call, target).await?.iter().map(|(_, s)| s.docs).sum();
    let now = call.rest.clock.wall_ms();
    layout.write(
        COUNT,
        vec![vec![Cell::of(now / 1000), Cell::of(time_of_day(now)), Cell::of(docs)]],
    )
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
#[boxed]
pub(crate) async fn aliases(mut call: Call) -> Result<Answer> {
    let (layout, target) = prepare(&mut call)?;
    let names = call.arg("name").map(split_list).unwrap_or_default();
    let former = call.dialect.rules.former_cat_tables;
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
                alias.clone(),
                info.name.to_string(),
                if body.get("filter").is_some() { "*" } else { "-" }.to_owned(),
                text("index_routing"),
                text("search_routing"),
            ];
            if !former {
                row.push(write);
            }
            rows.push(row);
        }
    }
    rows.sort();
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(Cell::Text).collect())
        .collect();
    layout.write(if former { &ALIASES[..5] } else { ALIASES }, rows)
}

const SHARDS: &[Column] = &[
    col("index", &["i", "idx"], "index name"),
    num("shard", &["s", "sh"], "shard name"),
    col("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
    col("state", &["st"], "shard state"),
    num("docs", &["d", "dc"], "number of docs in shard"),
    num("store", &["sto"], "store size of shard (how much disk it uses)"),
    col("ip", &[], "ip of node where it lives"),
    extra_text("id", &[], "unique id of node where it lives"),
    col("node", &["n"], "name of node where it lives"),
];

model::assert_names_differ!(SHARDS, "each column of shards has a name of its own");

/// `_cat/shards`: the first shard holds everything, the others are empty, replicas and damaged indices are unassigned.
#[boxed]
pub(crate) async fn shards(mut call: Call) -> Result<Answer> {
    let (layout, target) = prepare(&mut call)?;
    static TABLE: Table = Table::new();
    let columns = TABLE.columns(SHARDS, false, &layout, call.dialect.persona);
    let empty = IndexStats::default();
    let mut rows = Vec::new();
    for (info, s) in stats(&call, target).await? {
        for shard in 0..number(&info.settings, NUMBER_OF_SHARDS).min(1024) {
            let (docs, size) = if shard == 0 { (s.lucene_docs, s.size_bytes) } else { (0, 0) };
            if info.stopped.is_some() {
                let mut row = ["p", shard_state(&info)].map(Cell::of).to_vec();
                row.splice(0..0, [Cell::of(&info.name), Cell::of(shard)]);
                row.resize(columns.len(), Cell::Nothing);
                rows.push(row);
                continue;
            }
            let mut row = vec![
                Cell::of(&info.name),
                Cell::of(shard),
                Cell::of("p"),
                Cell::of(shard_state(&info)),
                Cell::of(docs),
                Cell::Bytes(size),
                Cell::of("127.0.0.1"),
                Cell::of(&call.rest.names.node_id),
                Cell::of(&call.rest.names.node),
            ];
            if columns.len() > row.len() {
                let of_shard = if shard == 0 { &s } else { &empty };
                fill(&mut row, columns, Some(&sections(of_shard, call.dialect)));
            }
            rows.push(row);
            for _ in 0..missing_replicas(&info, call.dialect.persona).min(100) {
                let mut row = vec![Cell::of(&info.name), Cell::of(shard), Cell::of("r"), Cell::of("UNASSIGNED")];
                row.resize(columns.len(), Cell::Nothing);
                rows.push(row);
            }
        }
    }
    layout.write(columns, rows)
}

const COMPONENT_TEMPLATES: &[Column] = &[
    col("name", &["n"], "component template name"),
    num("version", &["v"], "version"),
    num("alias_count", &["a"], "number of aliases in the component template"),
    num("mapping_count", &["m"], "number of mappings in the component template"),
    num("settings_count", &["s"], "number of settings in the component template"),
    num("metadata_count", &["me"], "number of metadata in the component template"),
    col("included_in", &["i"], "index templates included in the component template"),
];

/// `_cat/component_templates`.
#[boxed]
pub(crate) async fn component_templates(mut call: Call) -> Result<Answer> {
    let layout = crate::render::cat::layout_only(&mut call)?;
    let names = call.arg("name").map(split_list).unwrap_or_default();
    let of_kind = async |kind| match call.rest.engine.inspect(Inspection::Templates(kind)).await? {
        Inspected::Templates(list) => Ok::<_, model::Error>(list),
        _ => Ok(Vec::new()),
    };
    let indices = of_kind(TemplateKind::Index).await?;
    let users = |name: &str| {
        let uses = |body: &Value| {
            let of = body["composed_of"].as_array();
            of.is_some_and(|of| of.iter().any(|one| one == name))
        };
        let users: Vec<&str> = indices
            .iter()
            .filter(|(_, body)| uses(body))
            .map(|(user, _)| user.as_str())
            .collect();
        format!("[{}]", users.join(", "))
    };
    let mut rows = Vec::new();
    for (name, body) in of_kind(TemplateKind::Component).await? {
        if !names.is_empty() && !names.iter().any(|n| path::matches(n, &name)) {
            continue;
        }
        let count = |part: &Value| part.as_object().map_or(0, |part| part.len());
        let template = &body["template"];
        rows.push(vec![
            Cell::of(&name),
            Cell::if_any(body.get("version")),
            Cell::of(count(&template["aliases"])),
            Cell::of(count(&template["mappings"])),
            Cell::of(count(&template["settings"])),
            Cell::of(count(&body["_meta"])),
            Cell::Text(users(&name)),
        ]);
    }
    layout.write(COMPONENT_TEMPLATES, rows)
}

const TEMPLATES: &[Column] = &[
    col("name", &["n"], "template name"),
    col("index_patterns", &["t"], "template index patterns"),
    num("order", &["o", "p"], "template application order/priority number"),
    col("version", &["v"], "version"),
    col("composed_of", &["c"], "component templates comprising index template"),
];

/// `_cat/templates`.
#[boxed]
pub(crate) async fn templates(mut call: Call) -> Result<Answer> {
    let layout = crate::render::cat::layout_only(&mut call)?;
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
            let composed = body.get("composed_of").map(ToString::to_string);
            rows.push(vec![
                Cell::of(name),
                Cell::Text(format!("[{patterns}]")),
                Cell::of(order),
                Cell::if_any(body.get("version")),
                Cell::Text(composed.unwrap_or_default().replace('"', "")),
            ]);
        }
    }
    layout.write(TEMPLATES, rows)
}
