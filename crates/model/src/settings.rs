//! Limits and settings: name, default, scope, whether they may change, in one table.
//!
//! Node settings are the same for the whole process and fixed while it runs: [`fix_node`] is called once, before
//! anything reads one, and [`node`] reads them wherever they bound something. Not here: where values come from.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

/// Where a setting may be given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Flag, variable, TOML file; fixed while the process runs.
    Node,
    /// `_cluster/settings`.
    Cluster,
    /// Index settings; fixed at creation.
    IndexStatic,
    /// Index settings; may change.
    IndexDynamic,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Elasticsearch's dotted name where it has one.
    pub name: &'static str,
    /// As text.
    pub default: &'static str,
    /// Where it may be given.
    pub scope: Scope,
    /// The quantity that it bounds, or the choice.
    pub about: &'static str,
}

macro_rules! settings {
    ($($ident:ident: $name:literal = $default:literal, $scope:ident, $about:literal;)*) => {
        $(#[doc = $about] pub const $ident: Setting = Setting { name: $name, default: $default, scope: Scope::$scope, about: $about };)*
        /// Every setting.
        pub const ALL: &[Setting] = &[$($ident,)*];
    };
}

settings! {
    HTTP_MAX_CONTENT_LENGTH: "http.max_content_length" = "100mb", Node, "Largest request body.";
    HTTP_MAX_ANSWER: "http.max_answer_bytes" = "100mb", Node, "What one _mget or _msearch answers; documents and searches beyond it are answered 429 each.";
    HTTP_MAX_CONNECTIONS: "http.max_connections" = "16384", Node, "Open connections; who comes beyond them is told 503 and goes. Lowered at the start to what the limit of open files leaves beside the log and segments, a quarter of it and at most 4096.";
    HTTP_MAX_IN_FLIGHT: "http.max_in_flight_bytes" = "10%", Node, "Bytes of all request bodies being read or worked on.";
    HTTP_READ_TIMEOUT: "http.read_timeout" = "2m", Node, "How long a request may take to come, from its first byte to the end of its body; then it is answered 408. 0: as long as it likes.";
    HTTP_WRITE_TIMEOUT: "http.write_timeout" = "2m", Node, "How long an answer may wait for a client that takes none of its bytes; then the connection is cut. 0: as long as it likes.";
    HTTP2_MAX_STREAMS: "http.http2.max_concurrent_streams" = "100", Node, "Requests of one HTTP/2 connection at once; more wait at the client. 0: HTTP/1.1 alone is spoken.";
    HTTP2_MAX_HEADERS: "http.http2.max_header_list_size" = "64kb", Node, "Headers of one request over HTTP/2, as RFC 9113 counts them; more are answered 431.";
    HTTP2_MAX_RESETS: "http.http2.max_resets" = "20", Node, "Requests of one HTTP/2 connection that its client took back before they were looked at; more end the connection.";
    HTTP_BUSY_POLL: "http.busy_poll" = "50micros", Node, "How long a connection whose client is alone and asks again at once looks for its next request before it sleeps, at most 1ms. 0: not at all.";
    PREEMPTION_TICK: "threads.preemption_tick" = "500micros", Node, "While long work runs on half of the processors: how often the kernel is made to choose which thread runs, so that short requests do not wait for its own tick. 100micros to 100ms. 0: never.";
    LOGIN_MAX_WAITING: "security.login.max_waiting" = "64", Node, "Requests that wait at once for their password to be compared; more are answered 429.";
    CREDENTIALS_CACHE: "security.credentials_cache.size" = "10000", Node, "Credentials that were compared lately and are kept, as a keyed hash.";
    CREDENTIALS_CACHE_TTL: "security.credentials_cache.ttl" = "1m", Node, "How long they are kept. A changed password, a disabled user and an ended key are noticed at once.";
    SECURITY_MAX_RECORDS: "security.max_records" = "100000", Node, "Users, roles and API keys together.";
    AUDIT_MAX_BYTES: "security.audit.max_bytes" = "64mb", Node, "Length of `audit.log` in the data folder beyond which it becomes `audit.log.1`, in place of an older one.";
    TOTAL_BREAKER: "indices.breaker.total.limit" = "70%", Node, "Memory of the process, measured and booked, beyond which requests of more than 64 kB are answered 429 by the breaker `parent`. A percentage is of the machine's or the cgroup's memory.";
    REQUEST_BREAKER: "indices.breaker.request.limit" = "60%", Node, "Memory that running requests book: what they build, and their answers until they are sent.";
    JSON_MAX_DEPTH: "json.max_depth" = "128", Node, "Depth of arrays and objects in a request body.";
    QUERY_MAX_DEPTH: "indices.query.max_nested_depth" = "30", Node, "Depth of queries in queries.";
    MAX_CLAUSE_COUNT: "indices.query.bool.max_clause_count" = "1024", Cluster, "Clauses of one query, expanded terms included.";
    ALLOW_EXPENSIVE_QUERIES: "search.allow_expensive_queries" = "true", Cluster, "Prefix, wildcard, regexp and fuzzy queries, ranges of strings, nested queries and scripts as queries.";
    MAX_BUCKETS: "search.max_buckets" = "65535", Cluster, "Buckets of one answer.";
    MAX_PHRASE_WAYS: "search.max_phrase_suggest_ways" = "1000000", Cluster, "Ways through the candidates of one phrase suggestion; each word of a text is at least one.";
    MAX_AGG_DEPTH: "search.max_aggregation_depth" = "32", Node, "Depth of aggregations in aggregations.";
    MAX_OPEN_SCROLL: "search.max_open_scroll_context" = "500", Cluster, "Open scrolls and points in time.";
    MAX_KEEP_ALIVE: "search.max_keep_alive" = "24h", Cluster, "Longest keep alive of a scroll or point in time.";
    MAX_CONCURRENT_SEARCHES: "search.max_concurrent" = "64", Node, "Searches running or waiting; more are answered 429.";
    REQUESTS_CACHE: "indices.requests.cache.size" = "16mb", Node, "Answers of aggregations without hits that are kept.";
    DOCUMENTS_CACHE: "indices.documents.cache.size" = "32mb", Node, "Stored documents that are kept unpacked after they were read: half of it for those read by id, half for those that searches show.";
    QUERIES_CACHE: "indices.queries.cache.size" = "16mb", Node, "Sets of documents of terms that filters ask for often.";
    FIELDDATA_CACHE: "indices.fielddata.cache.size" = "256mb", Node, "What is derived from segments and kept with them: keys of joins, families, columns made of terms, numbers of strings.";
    MAX_JOIN_KEYS: "search.max_join_keys" = "1000000", Cluster, "Keys of one join.";
    JOIN_MEMORY: "search.join_memory" = "256mb", Cluster, "Memory of all joins' key sets together.";
    MAX_JOIN_DEPTH: "search.max_join_depth" = "5", Cluster, "Joins inside joins.";
    SCRIPT_MAX_SIZE: "script.max_size_in_bytes" = "65535", Node, "Length of a script's source.";
    SCRIPT_MAX_STEPS: "script.max_steps" = "1000000", Node, "Steps of one run of a script.";
    SCRIPT_MAX_MEMORY: "script.max_memory" = "1mb", Node, "Memory of one run of a script.";
    ANALYSIS_MAX_TOKEN_BYTES: "indices.analysis.max_token_bytes" = "128mb", Node, "What analysis makes of one text by ngrams, paths, shingles, synonyms and the like: the bytes of its terms, and 64 for each.";
    LOG_QUEUE: "log.queue_max_bytes" = "32mb", Node, "Records waiting for the log; writes wait for up to 5 s while half of it is taken, and more than all of it is answered 429.";
    LOG_CHECKPOINT: "log.checkpoint_bytes" = "64mb", Node, "Log since the last checkpoint that starts the next.";
    LOG_CHECKPOINT_OPS: "log.checkpoint_ops" = "200000", Node, "Operations since the last checkpoint that start the next.";
    LOG_MAX: "log.max_bytes" = "128mb", Node, "Log since the last checkpoint beyond which writes wait for it, then are answered 429.";
    CHANGES_RETENTION_BYTES: "changes.retention.bytes" = "64mb", Node, "Log that stays behind the last checkpoint for readers of `_changes`; a full disk takes it back.";
    CHANGES_RETENTION_AGE: "changes.retention.age" = "1d", Node, "How long a file of the log stays for readers of `_changes` after its last record, or after a start.";
    FEED_MAX_OPERATIONS: "changes.feed.max_operations" = "10000", Node, "The most that `limit` of `_changes` may be.";
    FEED_MAX_BYTES: "changes.feed.max_bytes" = "8mb", Node, "An answer of `_changes` ends behind the change with which it has so many bytes.";
    FEED_MAX_WAIT: "changes.feed.max_wait" = "5m", Node, "The most that `timeout` of `_changes` may be.";
    FEED_LINGER: "changes.feed.linger" = "2ms", Node, "A request to `_changes` with a `timeout` is answered so long after it came at the earliest, unless its answer is full: followers of a busy server ask for many changes at a time.";
    FEED_KEEP_ALIVE: "changes.feed.keep_alive" = "5m", Node, "How long the initial copy of `_changes` stays open after its last part was read.";
    CONSUMERS_MAX: "changes.consumers.max" = "1000", Node, "Named consumers of `_changes`.";
    CONSUMERS_MAX_BYTES: "changes.consumers.max_bytes" = "1gb", Node, "Log that stays beyond the retention because a consumer of `_changes` has not read it; a full disk takes it back.";
    RAM_SEGMENTS: "indexing.ram_segments_max_bytes" = "32mb", Node, "Segments kept in memory until a checkpoint, all indices together; more go to files.";
    PENDING: "indexing.pending_max_bytes" = "64mb", Node, "Acknowledged writes not yet in a segment, all indices together, beyond which writes wait for up to 5 s, then are answered 429.";
    AUTO_CREATE_INDEX: "action.auto_create_index" = "true", Cluster, "A write to a missing index creates it.";
    DESTRUCTIVE_REQUIRES_NAME: "action.destructive_requires_name" = "true", Cluster, "Indices are deleted, closed, opened and blocked by name only, not by wildcard. Unless it is given, also as a setting of the node, false for es2, es7 and OpenSearch.";
    MAX_TASKS: "tasks.max_kept" = "1000", Node, "Finished tasks that are remembered.";
    TASKS_MAX_RUNNING: "tasks.max_running" = "256", Node, "By-query jobs running at once; more are answered 429.";
    LOCKS_MAX_TARGETS: "locks.max_targets" = "1000", Node, "Targets of one lock.";
    LOCKS_MAX: "locks.max" = "100000", Node, "Locks of the whole store.";
    LOCKS_MAX_BYTES: "locks.max_bytes" = "64mb", Node, "Texts of the targets of all locks together; more are answered 429.";
    LOCKS_MAX_WAITERS: "locks.max_waiters" = "256", Node, "Waiters of one target; more are answered 429.";
    LOCKS_MAX_TEXT_BYTES: "locks.max_text_bytes" = "4096", Node, "Bytes of a name, an id or a path that is locked, and of an owner's words.";
    LOCKS_MAX_PATH_DEPTH: "locks.max_path_depth" = "64", Node, "Components of a locked path, or of a document's lock_path.";
    LOCKS_MAX_PLACES: "locks.max_places" = "100", Node, "Places of one document, whose lock_path has several values.";
    LINKS_MAX_POLICIES: "links.max_policies" = "100", Node, "Link policies of the store.";
    LINKS_MAX_DEPTH: "links.max_depth" = "8", Node, "Link policies in one chain, where the target of one is the source of the next.";
    LINKS_MAX_SYNC: "links.max_sync" = "1000", Node, "Documents that follow in one change by link policies in mode sync.";
    LINKS_MAX_PENDING: "links.max_pending" = "100000", Node, "Changed sources whose copies are still to follow by link policies in mode async; more are answered 429.";
    TTL_INTERVAL: "indices.ttl.interval" = "60s", Cluster, "How often documents whose _ttl is over are deleted.";
    DISK_THRESHOLD_ENABLED: "cluster.routing.allocation.disk.threshold_enabled" = "true", Cluster, "Whether the watermarks below are watched; without them no index is blocked for its disk.";
    DISK_LOW: "cluster.routing.allocation.disk.watermark.low" = "85%", Cluster, "Use of the data folder's disk beyond which a line of the log says so: a percentage, a ratio, or the bytes that are to stay free.";
    DISK_LOW_HEADROOM: "cluster.routing.allocation.disk.watermark.low.max_headroom" = "200gb", Cluster, "The most that the watermark as a share keeps free; -1: no bound. The default holds where the watermark is not given; where only its own machine can reach the server it is 4gb, 2gb (high) and 1gb (flood_stage).";
    DISK_HIGH: "cluster.routing.allocation.disk.watermark.high" = "90%", Cluster, "The same with a line of its own; below it indices that were blocked are released, and health is green again.";
    DISK_HIGH_HEADROOM: "cluster.routing.allocation.disk.watermark.high.max_headroom" = "150gb", Cluster, "The same for the high watermark.";
    DISK_FLOOD: "cluster.routing.allocation.disk.watermark.flood_stage" = "95%", Cluster, "Use of the disk beyond which every index is given index.blocks.read_only_allow_delete: documents can be deleted and not written.";
    DISK_FLOOD_HEADROOM: "cluster.routing.allocation.disk.watermark.flood_stage.max_headroom" = "100gb", Cluster, "The same for flood stage.";
    DISK_UPDATE_INTERVAL: "cluster.info.update.interval" = "30s", Cluster, "How often the disk is looked at; at least 10s.";
    MAX_INDICES: "cluster.max_indices" = "10000", Cluster, "Indices in one data folder.";
    TREE_MAX_LISTED: "tree.max_listed" = "1000", Node, "Directories that one answer of `_tree` or `_cat/tree` lists.";
    TREE_MAX_DOCUMENTS: "tree.max_documents" = "1000000", Node, "Documents of one `_tree/_copy`, or of one move or removal where paths are keywords.";
    TREE_MAX_BYTES: "tree.max_bytes" = "256mb", Node, "Their sources together; all are in memory until the change is made.";
    REPOSITORIES_MAX: "repositories.max" = "100", Node, "Snapshot repositories that are registered.";
    REPOSITORIES_MAX_DESCRIPTION: "repositories.max_description_bytes" = "64mb", Node, "A repository's list of snapshots, and the contents of each: names, mappings and files of its indices.";
    SNAPSHOT_MAX_CONCURRENT: "snapshot.max_concurrent_operations" = "1000", Cluster, "Snapshots and restores running or waiting; more are answered 503.";
    CHANGES_PATH: "changes.path" = "auto", Node, "auto: one record of the log a change; portable: compare-and-set of single documents, as over a cluster. Fixed when the data folder is made.";
    CHANGES_MAX_OPERATIONS: "changes.max_operations" = "10000", Cluster, "Operations of one change, or staged in one transaction.";
    CHANGES_MAX_BYTES: "changes.max_bytes" = "32mb", Cluster, "Body of one change; staged writes of one transaction.";
    TRANSACTIONS_MAX_OPEN: "transactions.max_open" = "500", Cluster, "Transactions held open; more are answered 429.";
    TRANSACTIONS_MAX_BYTES: "transactions.max_bytes" = "256mb", Cluster, "Staged writes of all open transactions together; more are answered 429.";
    TRANSACTIONS_MAX_READS: "transactions.max_reads" = "100000", Cluster, "Documents that one transaction reads by id.";
    TRANSACTIONS_KEEP_ALIVE: "transactions.keep_alive" = "1m", Cluster, "How long a transaction lives after its last use, unless it says otherwise.";
    TRANSACTIONS_MAX_KEEP_ALIVE: "transactions.max_keep_alive" = "10m", Cluster, "Longest keep alive of a transaction.";
    REFRESH_INTERVAL: "index.refresh_interval" = "1s", IndexDynamic, "How soon a search sees a write; -1: only by refresh.";
    NUMBER_OF_SHARDS: "index.number_of_shards" = "1", IndexStatic, "Reported; there is one shard.";
    NUMBER_OF_REPLICAS: "index.number_of_replicas" = "1", IndexDynamic, "Reported; there is one process.";
    MAX_RESULT_WINDOW: "index.max_result_window" = "10000", IndexDynamic, "from + size of a search.";
    MAX_INNER_RESULT_WINDOW: "index.max_inner_result_window" = "100", IndexDynamic, "from + size of inner hits and top_hits.";
    MAX_TERMS_COUNT: "index.max_terms_count" = "65536", IndexDynamic, "Values of one terms query.";
    MAX_DOCVALUE_FIELDS: "index.max_docvalue_fields_search" = "100", IndexDynamic, "docvalue_fields of one search.";
    MAX_SLICES: "index.max_slices_per_scroll" = "1024", IndexDynamic, "Slices of one search.";
    MAX_SCRIPT_FIELDS: "index.max_script_fields" = "32", IndexDynamic, "script_fields of one search.";
    MAX_NGRAM_DIFF: "index.max_ngram_diff" = "1", IndexDynamic, "max_gram - min_gram of the ngram tokenizer and filter.";
    MAX_SHINGLE_DIFF: "index.max_shingle_diff" = "3", IndexDynamic, "max_shingle_size - min_shingle_size.";
    MAX_REGEX_LENGTH: "index.max_regex_length" = "1000", IndexDynamic, "Length of a regexp.";
    MAX_ANALYZED_OFFSET: "index.highlight.max_analyzed_offset" = "1000000", IndexDynamic, "Characters of a field that highlighting reads.";
    MAX_ANALYZE_TOKENS: "index.analyze.max_token_count" = "10000", IndexDynamic, "Tokens of one _analyze.";
    MAPPING_TOTAL_FIELDS: "index.mapping.total_fields.limit" = "1000", IndexDynamic, "Fields of a mapping; at most 100000, as a refresh takes a millisecond or two for each.";
    MAPPING_DEPTH: "index.mapping.depth.limit" = "20", IndexDynamic, "Depth of objects in a mapping.";
    MAPPING_NESTED_FIELDS: "index.mapping.nested_fields.limit" = "50", IndexDynamic, "Nested mappings of an index.";
    MAPPING_NESTED_OBJECTS: "index.mapping.nested_objects.limit" = "10000", IndexDynamic, "Nested objects of one document.";
    MAPPING_FIELD_NAME: "index.mapping.field_name_length.limit" = "32766", IndexDynamic, "Length of a field's name.";
    GC_DELETES: "index.gc_deletes" = "60s", IndexDynamic, "How long a deleted document keeps its version.";
    DEFAULT_PIPELINE: "index.default_pipeline" = "_none", IndexDynamic, "Not supported: ingest pipelines come later.";
    TRANSLOG_DURABILITY: "index.translog.durability" = "request", IndexDynamic, "request: answers wait for the disk; async: synced every 5 s.";
    QUERY_STRING_LENIENT: "index.query_string.lenient" = "false", IndexDynamic, "Whether a query_string that does not say passes over what a field cannot answer.";
    QUERY_DEFAULT_FIELD: "index.query.default_field" = "*", IndexDynamic, "Fields of a query_string that names none.";
    SIMILARITY_FACTOR: "index.similarity.default.type" = "LegacyBM25", IndexStatic, "LegacyBM25 (with the factor k1+1) or BM25 (OpenSearch 3).";
    DELETES_PCT_ALLOWED: "index.merge.policy.deletes_pct_allowed" = "30", IndexDynamic, "Percents of a segment that are deleted before it is written anew.";
    SEGMENTS_PER_TIER: "index.merge.policy.segments_per_tier" = "10", IndexDynamic, "Segments of one size (powers of ten) before they are merged.";
    TTL_DISABLE_PURGE: "index.ttl.disable_purge" = "false", IndexDynamic, "Documents stay when their _ttl is over.";
    WARMERS: "index.pleach.warmers" = "{}", IndexDynamic, "Warmers of 2015 as JSON, by name: what _warmer writes and shows.";
    PLEACH_LOCKS: "index.pleach.locks" = "off", IndexDynamic, "off, advisory or enforced.";
    PLEACH_LOCK_PATH: "index.pleach.lock_path" = "", IndexDynamic, "The field, or fields joined by /, that say where a document is.";
    PLEACH_LOCK_INDEX: "index.pleach.lock_index" = "false", IndexStatic, "Its documents, or those of these types, are locks: see docs/relations/locks.md.";
    PLEACH_LOCK_TTL: "index.pleach.lock_ttl" = "-1", IndexDynamic, "How long a lock document lives that its owner does not ask for again; -1: until it is released.";
    TREE_MAX_NODES: "index.pleach.tree.max_nodes" = "10000000", IndexDynamic, "Directories that are ever made for the tree_path fields of an index; each takes about 150 bytes of memory.";
    PLEACH_LOCK_STRICT: "index.pleach.lock_strict" = "true", IndexDynamic, "Only its owner releases a lock document.";
}

static FIXED: OnceLock<BTreeMap<&'static str, u64>> = OnceLock::new();

/// Fixes node settings for this process, as numbers (of bytes, where they are sizes). Only the first call counts.
pub fn fix_node(values: impl IntoIterator<Item = (Setting, u64)>) {
    let given = values.into_iter().map(|(setting, value)| {
        assert!(setting.scope == Scope::Node, "only node settings are fixed for the process");
        (setting.name, value)
    });
    drop(FIXED.set(given.collect()));
}

/// A node setting as a number: as fixed for this process, else its default.
pub fn node(setting: Setting) -> u64 {
    debug_assert!(
        setting.scope == Scope::Node,
        "[{}] is no setting of the process",
        setting.name
    );
    let fixed = FIXED.get().and_then(|fixed| fixed.get(setting.name)).copied();
    let default = || {
        let text = setting.default;
        let bytes = || crate::units::parse_bytes(text, setting.name).ok();
        text.parse().ok().or_else(bytes).unwrap_or(0)
    };
    fixed.unwrap_or_else(default)
}

/// A node setting as a count.
pub fn node_count(setting: Setting) -> usize {
    usize::try_from(node(setting)).unwrap_or(usize::MAX)
}

/// Is it a time? Fixed for the process in nanoseconds.
pub fn is_duration(setting: Setting) -> bool {
    setting.default.parse::<u64>().is_err() && crate::units::parse_duration(setting.default, setting.name).is_ok()
}

/// The most that `http.busy_poll` may be.
pub const BUSY_POLL_MOST: Duration = Duration::from_millis(1);

/// The values of `threads.preemption_tick` beside 0, which is never.
pub const PREEMPTION_TICKS: std::ops::RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_millis(100);

/// A node setting as a time: as fixed for this process, else its default.
pub fn node_duration(setting: Setting) -> Duration {
    debug_assert!(
        setting.scope == Scope::Node && is_duration(setting),
        "[{}] is no time that is fixed for the process",
        setting.name
    );
    let fixed = FIXED.get().and_then(|fixed| fixed.get(setting.name)).copied();
    match fixed {
        Some(nanos) => Duration::from_nanos(nanos),
        None => crate::units::parse_duration(setting.default, setting.name).unwrap_or_default(),
    }
}

crate::assert_names_differ!(ALL, "each setting has one row");

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    ALL.iter().find(|s| s.name == name)
}

/// A setting's value in a flat map of them, else its default, as text.
pub fn text(settings: &Map<String, Value>, setting: Setting) -> String {
    match settings.get(setting.name) {
        Some(Value::String(s)) => s.clone(),
        Some(Value::Null) | None => setting.default.to_owned(),
        Some(other) => other.to_string(),
    }
}

/// A setting's value as a whole number.
pub fn number(settings: &Map<String, Value>, setting: Setting) -> u64 {
    text(settings, setting)
        .parse()
        .unwrap_or_else(|_| setting.default.parse().unwrap_or(0))
}
