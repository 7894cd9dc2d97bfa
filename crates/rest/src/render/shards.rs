//! Shards and segments, as answers show them.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::call::Call;
use engine::{IndexInfo, IndexStats, SegmentStats};
use model::Result;
use model::settings::{NUMBER_OF_SHARDS, number};

/// The version of Lucene whose segments these stand for.
pub(crate) const LUCENE: &str = "9.12.2";

/// Shards of one index that answers go through.
pub(crate) const SHARDS_MAX: u64 = 1024;

/// How many shards are told of.
pub(crate) fn count_of(info: &IndexInfo) -> u64 {
    number(&info.settings, NUMBER_OF_SHARDS).min(SHARDS_MAX)
}

/// Indices with their figures.
pub(crate) async fn stats(call: &Call, target: model::Target) -> Result<Vec<(IndexInfo, IndexStats)>> {
    call.rest.stats(target).await
}

/// The segments of a shard with their numbers: the first shard holds everything.
pub(crate) fn segments_of(stats: &IndexStats, shard: u64) -> impl Iterator<Item = (usize, &SegmentStats)> {
    let all = if shard == 0 { stats.segment_list.as_slice() } else { &[] };
    all.iter().enumerate()
}

/// Whether the copy that there is of a shard can be used: damage stops an index.
pub(crate) fn shard_state(info: &IndexInfo) -> &'static str {
    match info.stopped {
        None => "STARTED",
        Some(_) => "UNASSIGNED",
    }
}

/// The source of a shard's recovery: empty or a snapshot if it is new since this process began, else the disk.
pub(crate) fn recovered_from(info: &IndexInfo, now_ms: i64) -> &'static str {
    let up = i64::try_from(crate::machine::Machine::look().uptime_ms).unwrap_or(i64::MAX);
    let is_new = |since: i64| info.open && since >= now_ms.saturating_sub(up);
    match &info.restored_from {
        Some(from) if is_new(from.at_ms) => "SNAPSHOT",
        None if is_new(info.created_ms) => "EMPTY_STORE",
        _ => "EXISTING_STORE",
    }
}
