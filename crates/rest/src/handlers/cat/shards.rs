//! Tables about what shards are made of: segments, recoveries.

use crate::call::Call;
use crate::render::cat::{prepare, stats};
use crate::render::shards::{LUCENE, count_of, recovered_from, segments_of};
use crate::respond::Answer;
use crate::tables::{Cell, Column, Layout, col, extra, extra_text, num};
use async_recursion::async_recursion as boxed;
use model::Result;

const SEGMENTS: &[Column] = &[
    col("index", &["i", "idx"], "index name"),
    col("shard", &["s", "sh"], "shard name"),
    col("prirep", &["p", "pr", "primaryOrReplica"], "primary or replica"),
    col("ip", &[], "ip of node where it lives"),
    extra_text("id", &[], "unique id of node where it lives"),
    col("segment", &["seg"], "segment name"),
    num("generation", &["g", "gen"], "segment generation"),
    num("docs.count", &["dc", "docsCount"], "number of docs in segment"),
    num("docs.deleted", &["dd", "docsDeleted"], "number of deleted docs in segment"),
    num("size", &["si"], "segment size in bytes"),
    num("size.memory", &["sm", "sizeMemory"], "segment memory in bytes"),
    col("committed", &["ic", "isCommitted"], "is segment committed"),
    col("searchable", &["is", "isSearchable"], "is segment searched"),
    col("version", &["v", "ver"], "version"),
    col("compound", &["ico", "isCompound"], "is segment compound"),
];

/// `_cat/segments`.
#[boxed]
pub(crate) async fn segments(mut call: Call) -> Result<Answer> {
    let layout = Layout::take(&mut call.params, call.wants_json)?;
    let target = call.target()?;
    call.params.finish()?;
    let mut rows = Vec::new();
    for (info, s) in stats(&call, target).await? {
        for shard in 0..count_of(&info) {
            rows.extend(segments_of(&s, shard).map(|(no, one)| {
                vec![
                    Cell::of(&info.name),
                    Cell::of(shard),
                    Cell::of("p"),
                    Cell::of("127.0.0.1"),
                    Cell::of(&call.rest.names.node_id),
                    Cell::of(format!("_{no}")),
                    Cell::of(no),
                    Cell::of(one.docs),
                    Cell::of(one.deleted),
                    Cell::Bytes(one.size_bytes),
                    Cell::of(0),
                    Cell::of(one.committed),
                    Cell::of(true),
                    Cell::of(LUCENE),
                    Cell::of(true),
                ]
            }));
        }
    }
    layout.write(SEGMENTS, rows)
}

const RECOVERY: &[Column] = &[
    col("index", &["i", "idx"], "index name"),
    col("shard", &["s", "sh"], "shard name"),
    extra_text("start_time", &["start"], "recovery start time"),
    extra(
        "start_time_millis",
        &["start_millis"],
        "recovery start time in epoch milliseconds",
    ),
    extra_text("stop_time", &["stop"], "recovery stop time"),
    extra(
        "stop_time_millis",
        &["stop_millis"],
        "recovery stop time in epoch milliseconds",
    ),
    col("time", &["t", "ti"], "recovery time"),
    col("type", &["ty"], "recovery type"),
    col("stage", &["st"], "recovery stage"),
    col("source_host", &["shost"], "source host"),
    col("source_node", &["snode"], "source node name"),
    col("target_host", &["thost"], "target host"),
    col("target_node", &["tnode"], "target node name"),
    col("repository", &["rep"], "repository"),
    col("snapshot", &["snap"], "snapshot"),
    col("files", &["f"], "number of files to recover"),
    col("files_recovered", &["fr"], "files recovered"),
    col("files_percent", &["fp"], "percent of files recovered"),
    col("files_total", &["tf"], "total number of files"),
    col("bytes", &["b"], "number of bytes to recover"),
    col("bytes_recovered", &["br"], "bytes recovered"),
    col("bytes_percent", &["bp"], "percent of bytes recovered"),
    col("bytes_total", &["tb"], "total number of bytes"),
    col("translog_ops", &["to"], "number of translog ops to recover"),
    col("translog_ops_recovered", &["tor"], "translog ops recovered"),
    col("translog_ops_percent", &["top"], "percent of translog ops recovered"),
];

/// `_cat/recovery`: everything is here, and nothing is on its way.
#[boxed]
pub(crate) async fn recovery(mut call: Call) -> Result<Answer> {
    let active_only = call.params.flag("active_only")?;
    let (layout, target) = prepare(&mut call)?;
    let mut rows = Vec::new();
    let now = call.rest.clock.wall_ms();
    for info in call.rest.indices(&target).await?.iter().filter(|_| !active_only) {
        let from = recovered_from(info, now).to_ascii_lowercase();
        let date = crate::human::date_text(info.created_ms);
        for shard in 0..count_of(info) {
            let mut row = vec![
                Cell::of(&info.name),
                Cell::of(shard),
                Cell::of(&date),
                Cell::of(info.created_ms),
                Cell::of(&date),
                Cell::of(info.created_ms),
                Cell::Millis(0),
                Cell::of(&from),
                Cell::of("done"),
                Cell::of("n/a"),
                Cell::of("n/a"),
                Cell::of("127.0.0.1"),
                Cell::of(&call.rest.names.node),
                Cell::of("n/a"),
                Cell::of("n/a"),
            ];
            for percent in ["0.0%", "0.0%"] {
                row.extend([Cell::of(0), Cell::of(0), Cell::of(percent), Cell::of(0)]);
            }
            row.extend([Cell::of(0), Cell::of(0), Cell::of("100.0%")]);
            rows.push(row);
        }
    }
    layout.write(RECOVERY, rows)
}
