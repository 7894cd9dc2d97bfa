//! Settings of the reference servers that are taken beside those of [`crate::settings`], in one table: what each changes, or why
//! it changes nothing. docs/configuration.md is generated from it.
//!
//! Not here: what values they take (the engine's catalog), settings with a default and a meaning of their own (`settings`).

use crate::settings::Scope;
use crate::{Error, ErrorKind, Result};
use serde_json::Value;

/// The effect of a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It changes this.
    Changes(&'static str),
    /// It is kept and reported, and changes nothing, for this reason.
    Nothing(&'static str),
    /// It is taken with this value alone, which is how everything is done; why no other is.
    Only(&'static str, &'static str),
}

/// One row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// Dotted. One that ends with `.` stands for every setting below it that no other row names.
    pub name: &'static str,
    /// Where it may be given; never `Node`.
    pub scope: Scope,
    /// Its effect.
    pub effect: Effect,
}

macro_rules! accepted {
    ($($name:literal $scope:ident $effect:ident $($words:literal)+;)*) => {
        /// Every row, in the order of the page.
        pub const ALL: &[Accepted] = &[$(Accepted { name: $name, scope: Scope::$scope, effect: Effect::$effect($($words),+) },)*];
    };
}

accepted! {
    "index.analysis." IndexStatic Changes "Analyzers, tokenizers, filters and normalizers of the index.";
    "index.similarity." IndexStatic Changes "How matches are scored: BM25 with numbers of its own, or boolean.";
    "index.blocks." IndexDynamic Changes "What the index refuses: reads, writes, changes of its mapping and settings.";
    "index.hidden" IndexDynamic Changes "Wildcards pass the index by.";
    "index.search.slowlog.threshold.query.warn" IndexDynamic Changes "Searches of the index that take so long, their hits left out, are logged as `warn`.";
    "index.search.slowlog.threshold.query.info" IndexDynamic Changes "Searches of the index that take so long, their hits left out, are logged as `info`.";
    "index.search.slowlog.threshold.query.debug" IndexDynamic Changes "Searches of the index that take so long, their hits left out, are logged as `debug`.";
    "index.search.slowlog.threshold.query.trace" IndexDynamic Changes "Searches of the index that take so long, their hits left out, are logged as `trace`.";
    "index.search.slowlog.threshold.fetch.warn" IndexDynamic Changes "Searches of the index that read their hits for so long are logged as `warn`.";
    "index.search.slowlog.threshold.fetch.info" IndexDynamic Changes "Searches of the index that read their hits for so long are logged as `info`.";
    "index.search.slowlog.threshold.fetch.debug" IndexDynamic Changes "Searches of the index that read their hits for so long are logged as `debug`.";
    "index.search.slowlog.threshold.fetch.trace" IndexDynamic Changes "Searches of the index that read their hits for so long are logged as `trace`.";
    "index.search.slowlog.level" IndexDynamic Changes "Lines of its slow log of searches that are less severe are left out.";
    "index.indexing.slowlog.threshold.index.warn" IndexDynamic Changes "Writes of the index that take so long are logged as `warn`.";
    "index.indexing.slowlog.threshold.index.info" IndexDynamic Changes "Writes of the index that take so long are logged as `info`.";
    "index.indexing.slowlog.threshold.index.debug" IndexDynamic Changes "Writes of the index that take so long are logged as `debug`.";
    "index.indexing.slowlog.threshold.index.trace" IndexDynamic Changes "Writes of the index that take so long are logged as `trace`.";
    "index.indexing.slowlog.level" IndexDynamic Changes "Lines of its slow log of writes that are less severe are left out.";
    "index.indexing.slowlog.source" IndexDynamic Changes "Characters of the document that such a line shows, `true` (all) or `false` (none); 1000 if it is not set.";
    "index.max_rescore_window" IndexDynamic Changes "The largest window of a rescorer.";
    "index.mapping.coerce" IndexStatic Changes "The default of fields that do not say.";
    "index.mapping.ignore_malformed" IndexStatic Changes "The default of fields that do not say.";

    "index.number_of_routing_shards" IndexStatic Nothing "an index has one shard";
    "index.routing_partition_size" IndexStatic Nothing "an index has one shard";
    "index.sort." IndexStatic Nothing "segments keep the order of writing; a search sorts what it answers";
    "index.codec" IndexStatic Nothing "segments are compressed in one way";
    "index.store." IndexStatic Nothing "there is one kind of store";
    "index.format" IndexStatic Nothing "clients keep a number of their own there";
    "index.soft_deletes." IndexStatic Nothing "no replica asks for the history of operations";
    "index.load_fixed_bitset_filters_eagerly" IndexStatic Nothing "the bits of parents are made when a search first needs them";
    "index.shard.check_on_startup" IndexStatic Nothing "checksums of the log are checked at every start";

    "index.replication.type" IndexStatic Nothing "there is one process, and so one copy";
    "index.auto_expand_replicas" IndexDynamic Nothing "there is one process, and so one copy";
    "index.write.wait_for_active_shards" IndexDynamic Nothing "there is one process, and so one copy";
    "index.recovery." IndexDynamic Nothing "there is one process, and so one copy";
    "index.routing.allocation." IndexDynamic Nothing "there is one process, and so one copy";
    "index.routing.rebalance." IndexDynamic Nothing "there is one process, and so one copy";
    "index.unassigned." IndexDynamic Nothing "there is one process, and so one copy";
    "index.priority" IndexDynamic Nothing "all indices are recovered from one log at once";

    "index.translog." IndexDynamic Nothing "all indices share one log, bounded by log.checkpoint_bytes and log.max_bytes";
    "index.merge." IndexDynamic Nothing "merging goes by index.merge.policy.deletes_pct_allowed and segments_per_tier alone";
    "index.search.idle.after" IndexDynamic Nothing "the timer refreshes an index for 30 s after a search; that time is fixed";
    "index.max_refresh_listeners" IndexDynamic Nothing "a thousand requests that wait force a refresh";
    "index.cache." IndexDynamic Nothing "caches belong to the node: indices.*.cache.size";
    "index.queries." IndexDynamic Nothing "caches belong to the node: indices.*.cache.size";
    "index.requests." IndexDynamic Nothing "caches belong to the node: indices.*.cache.size";
    "index.warmer." IndexDynamic Nothing "a warmer runs once, when it is put";

    "index.search.slowlog.include.user" IndexDynamic Nothing "a line of a slow log names no user";
    "index.indexing.slowlog.include.user" IndexDynamic Nothing "a line of a slow log names no user";
    "index.indexing.slowlog.reformat" IndexDynamic Nothing "a line of the slow log is always one line";
    "index.search.slowlog.reformat" IndexDynamic Nothing "a line of the slow log is always one line";
    "index.lifecycle." IndexDynamic Nothing "there is no lifecycle of indices";
    "index.search.default_pipeline" IndexDynamic Only "_none" "search pipelines are not supported";
    "index.final_pipeline" IndexDynamic Only "_none" "ingest pipelines are not supported";

    "index.mapper.dynamic" IndexDynamic Only "true" "each mapping says with `dynamic` what new fields become";
    "index.mapping.source.mode" IndexStatic Only "stored" "sources are kept as they were sent";
    "index.mapping.total_fields.ignore_dynamic_beyond_limit" IndexDynamic Only "false" "a field beyond the limit is refused";
    "index.mapping." IndexDynamic Nothing "the limits of mappings are those of the table above";
    "index.highlight." IndexDynamic Nothing "the limit of highlighting is the one of the table above";
    "index.query.parse.allow_unmapped_fields" IndexDynamic Only "true" "a query of a field that is not mapped matches nothing";
    "index.query." IndexDynamic Nothing "a query says itself how it is parsed";
    "index.query_string." IndexDynamic Nothing "a query says itself how it is parsed";

    "index.uuid" IndexStatic Nothing "the server gives each index its own";
    "index.creation_date" IndexStatic Nothing "the server gives each index its own";
    "index.provided_name" IndexStatic Nothing "the server gives each index its own";
    "index.version.created" IndexStatic Nothing "the server gives each index its own";
    "index.verified_before_close" IndexDynamic Nothing "the server gives each index its own";

    "cluster.routing." Cluster Nothing "there is one process, and so one copy";
    "cluster.routing.allocation.disk.include_relocations" Cluster Nothing "there is one process, and so one copy";
    "cluster.routing.allocation.disk.reroute_interval" Cluster Nothing "there is one process, and so one copy";
    "cluster.routing.allocation.disk.watermark.enable_for_single_data_node" Cluster Nothing "there is one process, and so one copy";
    "cluster.routing.allocation.disk.watermark.flood_stage.frozen" Cluster Nothing "there are no frozen nodes";
    "cluster.routing.allocation.disk.watermark.flood_stage.frozen.max_headroom" Cluster Nothing "there are no frozen nodes";
    "cluster.info." Cluster Nothing "there is one process, and so one copy";
    "cluster.max_shards_per_node" Cluster Nothing "indices are bounded by cluster.max_indices";
    "cluster.metadata." Cluster Nothing "clients keep words of their own there";
    "discovery." Cluster Nothing "there are no other nodes to be found";
    "logger." Cluster Nothing "messages have no levels here";
    "indices." Cluster Nothing "caches and breakers are bounded by settings of the node";
    "search.default_search_timeout" Cluster Only "-1" "a search says with `timeout` how long it may take";
    "search.default_allow_partial_results" Cluster Only "true" "a search says with `allow_partial_search_results` what it wants";
    "search." Cluster Nothing "limits of searches are those of the table above";
}

/// Refuses a value that is not the only one; `null` takes a value back.
///
/// # Errors
/// `unsupported_operation_exception` that names the setting and the value that it can have.
pub fn check(name: &str, value: &Value) -> Result<()> {
    let Some(Effect::Only(only, reason)) = find(name).map(|row| row.effect) else {
        return Ok(());
    };
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text == only {
        return Ok(());
    }
    let reason = format!("[{name}] can only be [{only}], not [{text}]: {reason}");
    Err(Error::new(ErrorKind::UnsupportedOperation, reason).with("setting", name))
}

/// Below it a name has a row of its own or is unknown: a watermark that is misspelt is none.
const WHOLE: &str = "cluster.routing.allocation.disk.";

/// The row of a setting: its own, else that of the longest name above it.
pub fn find(name: &str) -> Option<&'static Accepted> {
    let whole = name.starts_with(WHOLE) && !name.contains('*');
    let fits = |row: &&Accepted| row.name == name || !whole && row.name.ends_with('.') && name.starts_with(row.name);
    ALL.iter().filter(fits).max_by_key(|row| row.name.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_nearest_row_says() {
        for (name, expected) in [
            ("index.mapping.coerce", Some("index.mapping.coerce")),
            ("index.mapping.nested_key", Some("index.mapping.")),
            ("index.hidden", Some("index.hidden")),
            ("index.hiddenly", None),
            ("index.sort.field", Some("index.sort.")),
            ("index.sort", None),
            ("cluster.routing.allocation.enable", Some("cluster.routing.")),
            ("cluster.routing.allocation.disk.watermark.lo", None),
            ("cluster.routing.allocation.disk.*", Some("cluster.routing.")),
            ("logger.org.elasticsearch", Some("logger.")),
        ] {
            assert_eq!(find(name).map(|row| row.name), expected, "{name}");
        }
    }

    #[test]
    fn some_have_one_value() {
        for (name, value, refused) in [
            ("index.final_pipeline", json!("_none"), false),
            ("index.final_pipeline", json!("p"), true),
            ("index.search.default_pipeline", json!(null), false),
            ("index.search.default_pipeline", json!("p"), true),
            ("index.mapper.dynamic", json!(false), true),
            ("index.mapper.dynamic", json!("true"), false),
            ("search.default_search_timeout", json!("5s"), true),
            ("search.default_search_timeout", json!(-1), false),
            ("index.codec", json!("best_compression"), false),
            ("index.unknown", json!(1), false),
        ] {
            let done = check(name, &value);
            assert_eq!(done.is_err(), refused, "{name}: {value}");
            assert!(done.err().is_none_or(|error| error.reason().contains(name)), "{name}");
        }
    }

    #[test]
    fn no_name_stands_twice_or_among_the_settings() {
        for (i, row) in ALL.iter().enumerate() {
            assert!(
                ALL[..i].iter().all(|other| other.name != row.name),
                "{} stands twice",
                row.name
            );
            assert!(crate::settings::find(row.name).is_none(), "{} has a default", row.name);
            assert_ne!(row.scope, Scope::Node, "{}", row.name);
        }
    }
}
