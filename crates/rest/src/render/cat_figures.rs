//! Columns of statistics in tables about indices, shards and nodes: what `_stats` tells, one figure a column.
//!
//! A column `search.query_time` is the figure `query_time_in_millis` of the section `search`. Not here: the figures
//! (`indices::sections`).

use crate::render::indices::counts_points_in_time;
use crate::tables::{Cell, Column, Layout, extra};
use model::Persona;
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// Every figure that has a column, in the order in which tables have them.
const FIGURES: &[Column] = &[
    extra("completion.size", &["cs", "completionSize"], "completion: size"),
    extra("fielddata.memory_size", &["fm", "fielddataMemory"], "fielddata: memory size"),
    extra("fielddata.evictions", &["fe", "fielddataEvictions"], "fielddata: evictions"),
    extra(
        "query_cache.memory_size",
        &["qcm", "queryCacheMemory"],
        "query cache: memory size",
    ),
    extra(
        "query_cache.evictions",
        &["qce", "queryCacheEvictions"],
        "query cache: evictions",
    ),
    extra("flush.total", &["ft", "flushTotal"], "flush: total"),
    extra("flush.total_time", &["ftt", "flushTotalTime"], "flush: total time"),
    extra("get.current", &["gc", "getCurrent"], "get: current"),
    extra("get.time", &["gti", "getTime"], "get: time"),
    extra("get.total", &["gto", "getTotal"], "get: total"),
    extra("get.exists_time", &["geti", "getExistsTime"], "get: exists time"),
    extra("get.exists_total", &["geto", "getExistsTotal"], "get: exists total"),
    extra("get.missing_time", &["gmti", "getMissingTime"], "get: missing time"),
    extra("get.missing_total", &["gmto", "getMissingTotal"], "get: missing total"),
    extra(
        "indexing.delete_current",
        &["idc", "indexingDeleteCurrent"],
        "indexing: delete current",
    ),
    extra(
        "indexing.delete_time",
        &["idti", "indexingDeleteTime"],
        "indexing: delete time",
    ),
    extra(
        "indexing.delete_total",
        &["idto", "indexingDeleteTotal"],
        "indexing: delete total",
    ),
    extra(
        "indexing.index_current",
        &["iic", "indexingIndexCurrent"],
        "indexing: index current",
    ),
    extra("indexing.index_time", &["iiti", "indexingIndexTime"], "indexing: index time"),
    extra(
        "indexing.index_total",
        &["iito", "indexingIndexTotal"],
        "indexing: index total",
    ),
    extra(
        "indexing.index_failed",
        &["iif", "indexingIndexFailed"],
        "indexing: index failed",
    ),
    extra("merges.current", &["mc", "mergesCurrent"], "merges: current"),
    extra("merges.current_docs", &["mcd", "mergesCurrentDocs"], "merges: current docs"),
    extra("merges.current_size", &["mcs", "mergesCurrentSize"], "merges: current size"),
    extra("merges.total", &["mt", "mergesTotal"], "merges: total"),
    extra("merges.total_docs", &["mtd", "mergesTotalDocs"], "merges: total docs"),
    extra("merges.total_size", &["mts", "mergesTotalSize"], "merges: total size"),
    extra("merges.total_time", &["mtt", "mergesTotalTime"], "merges: total time"),
    extra("refresh.total", &["rto", "refreshTotal"], "refresh: total"),
    extra("refresh.time", &["rti", "refreshTime"], "refresh: time"),
    extra("refresh.external_total", &["rto", "refreshTotal"], "refresh: external total"),
    extra("refresh.external_time", &["rti", "refreshTime"], "refresh: external time"),
    extra("refresh.listeners", &["rli", "refreshListeners"], "refresh: listeners"),
    extra(
        "search.fetch_current",
        &["sfc", "searchFetchCurrent"],
        "search: fetch current",
    ),
    extra("search.fetch_time", &["sfti", "searchFetchTime"], "search: fetch time"),
    extra("search.fetch_total", &["sfto", "searchFetchTotal"], "search: fetch total"),
    extra("search.open_contexts", &["so", "searchOpenContexts"], "search: open contexts"),
    extra(
        "search.query_current",
        &["sqc", "searchQueryCurrent"],
        "search: query current",
    ),
    extra("search.query_time", &["sqti", "searchQueryTime"], "search: query time"),
    extra("search.query_total", &["sqto", "searchQueryTotal"], "search: query total"),
    extra(
        "search.scroll_current",
        &["scc", "searchScrollCurrent"],
        "search: scroll current",
    ),
    extra("search.scroll_time", &["scti", "searchScrollTime"], "search: scroll time"),
    extra("search.scroll_total", &["scto", "searchScrollTotal"], "search: scroll total"),
    extra(
        "search.point_in_time_current",
        &["searchPointInTimeCurrent"],
        "search: open points in time",
    ),
    extra(
        "search.point_in_time_time",
        &["searchPointInTimeTime"],
        "search: time that points in time were open",
    ),
    extra(
        "search.point_in_time_total",
        &["searchPointInTimeTotal"],
        "search: points in time that ended",
    ),
    extra("segments.count", &["sc", "segmentsCount"], "segments: count"),
    extra("segments.memory", &["sm", "segmentsMemory"], "segments: memory"),
    extra(
        "segments.index_writer_memory",
        &["siwm", "segmentsIndexWriterMemory"],
        "segments: index writer memory",
    ),
    extra(
        "segments.version_map_memory",
        &["svmm", "segmentsVersionMapMemory"],
        "segments: version map memory",
    ),
    extra(
        "segments.fixed_bitset_memory",
        &["sfbm", "fixedBitsetMemory"],
        "segments: fixed bitset memory",
    ),
    extra("warmer.current", &["wc", "warmerCurrent"], "warmer: current"),
    extra("warmer.total", &["wto", "warmerTotal"], "warmer: total"),
    extra("warmer.total_time", &["wtt", "warmerTotalTime"], "warmer: total time"),
    extra(
        "query_cache.hit_count",
        &["qchc", "queryCacheHitCount"],
        "query cache: hit count",
    ),
    extra(
        "query_cache.miss_count",
        &["qcmc", "queryCacheMissCount"],
        "query cache: miss count",
    ),
    extra(
        "request_cache.memory_size",
        &["rcm", "requestCacheMemory"],
        "request cache: memory size",
    ),
    extra(
        "request_cache.evictions",
        &["rce", "requestCacheEvictions"],
        "request cache: evictions",
    ),
    extra(
        "request_cache.hit_count",
        &["rchc", "requestCacheHitCount"],
        "request cache: hit count",
    ),
    extra(
        "request_cache.miss_count",
        &["rcmc", "requestCacheMissCount"],
        "request cache: miss count",
    ),
    extra("suggest.current", &["suc", "suggestCurrent"], "suggest: current"),
    extra("suggest.time", &["suti", "suggestTime"], "suggest: time"),
    extra("suggest.total", &["suto", "suggestTotal"], "suggest: total"),
];

model::assert_names_differ!(FIGURES, "each figure has one column");

/// The columns of a table with those of statistics behind them, once each; `primaries`: each also as that of primaries alone.
fn with_figures(own: &[Column], primaries: bool, points_in_time: bool) -> Vec<Column> {
    let mut out = own.to_vec();
    let shown = |column: &&Column| points_in_time || !column.name.starts_with("search.point_in_time_");
    for column in FIGURES.iter().filter(shown) {
        if !out.iter().any(|known| known.name == column.name) {
            out.push(*column);
        }
        if primaries && !out.iter().any(|known| known.name.strip_prefix("pri.") == Some(column.name)) {
            out.push(Column {
                name: format!("pri.{}", column.name).leak(),
                aliases: &[],
                ..*column
            });
        }
    }
    out
}

/// Columns that a table shows unasked, and all that it has. Made once, without and with those of points in time.
pub(crate) struct Table([OnceLock<Vec<Column>>; 2]);

impl Table {
    pub(crate) const fn new() -> Table {
        Table([OnceLock::new(), OnceLock::new()])
    }
    /// The columns to write a table with: all of them only if the request names some, for each costs a cell a row.
    pub(crate) fn columns(
        &'static self,
        own: &'static [Column],
        primaries: bool,
        layout: &Layout,
        persona: Persona,
    ) -> &'static [Column] {
        if !layout.names_columns() {
            return own;
        }
        let points_in_time = counts_points_in_time(persona);
        self.0[usize::from(points_in_time)].get_or_init(|| with_figures(own, primaries, points_in_time))
    }
}

/// A row with the cells of the columns behind its own.
pub(crate) fn fill(row: &mut Vec<Cell>, columns: &[Column], sections: Option<&Map<String, Value>>) {
    for column in columns.iter().skip(row.len()) {
        let cell = sections.and_then(|sections| figure(sections, column.name));
        row.push(cell.unwrap_or(Cell::Nothing));
    }
    debug_assert_eq!(row.len(), columns.len(), "a row has a cell for each column");
}

/// The figure of a column among the sections of `_stats`.
pub(crate) fn figure(sections: &Map<String, Value>, column: &str) -> Option<Cell> {
    let (section, leaf) = column.strip_prefix("pri.").unwrap_or(column).split_once('.')?;
    let (section, leaf) = match (section, leaf) {
        ("suggest", leaf) if !sections.contains_key("suggest") => ("search", format!("suggest_{leaf}")),
        ("refresh", "time") => ("refresh", "total_time".to_owned()),
        ("refresh", "external_time") => ("refresh", "external_total_time".to_owned()),
        ("segments", "fixed_bitset_memory") => ("segments", "fixed_bit_set_memory".to_owned()),
        (section, leaf) => (section, leaf.to_owned()),
    };
    let section = sections.get(section)?;
    let number = |suffix: &str| section.get(format!("{leaf}{suffix}"))?.as_u64();
    let bytes = || number("_in_bytes").map(Cell::Bytes);
    let time = || number("_in_millis").map(Cell::Millis);
    number("").map(Cell::of).or_else(bytes).or_else(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::IndexStats;
    use model::Dialect;

    #[test]
    fn every_column_has_a_figure() {
        let sections = crate::render::indices::sections(&IndexStats::default(), Dialect::of(Persona::Opensearch2));
        for column in FIGURES {
            assert!(figure(&sections, column.name).is_some(), "{}", column.name);
        }
        let all = with_figures(FIGURES, true, true);
        assert_eq!(all.len(), FIGURES.len() * 2);
    }
}
