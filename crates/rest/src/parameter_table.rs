//! Every URL parameter of every endpoint, in one table: what changes an answer, and what is accepted without effect and why.
//!
//! A handler takes what changes answers; what changes nothing it need not know, and what no row names is refused with the
//! nearest name that does. The tests show each parameter that has an effect having it; the rest is `docs/accepted-without-effect.md`.
//! Not here: how values are read (`query_params`), paths (`routes`).

/// The effect of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes the answer to a request or what the request leaves behind.
    Changes,
    /// It is accepted and does nothing, for this reason.
    Nothing(&'static str),
}

/// One parameter of one endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// As in the URL.
    pub name: &'static str,
    /// Its effect.
    pub effect: Effect,
    /// The name went with 2015: today it is unknown.
    pub of_2015: bool,
}

/// The parameters of an API by its name in `ENDPOINTS`; `*` is every API.
pub fn of(api: &str) -> impl Iterator<Item = &'static Parameter> {
    TABLE
        .iter()
        .filter(move |(apis, _)| apis.contains(&api) || apis.contains(&"*"))
        .flat_map(|(_, groups)| groups.iter().flat_map(|group| group.iter()))
}

/// Every row of these APIs, as `ENDPOINTS` names them: `*` first, then in their order.
pub fn all(of: impl IntoIterator<Item = &'static str>) -> Vec<(&'static str, Parameter)> {
    let mut apis = vec!["*"];
    for api in of {
        if !apis.contains(&api) {
            apis.push(api);
        }
    }
    let own = |api: &'static str| {
        let rows = TABLE.iter().filter(move |(apis, _)| apis.contains(&api));
        rows.flat_map(|(_, groups)| groups.iter().flat_map(|group| group.iter()))
            .map(move |parameter| (api, *parameter))
    };
    apis.into_iter().flat_map(own).collect()
}

macro_rules! changes {
    ($($name:ident)*) => { &[$(Parameter { name: stringify!($name), effect: Effect::Changes, of_2015: false }),*] };
}
macro_rules! nothing {
    ($($reason:literal: $($name:ident)*;)*) => {
        &[$($(Parameter { name: stringify!($name), effect: Effect::Nothing($reason), of_2015: false },)*)*]
    };
}
macro_rules! changed {
    ($($name:ident)*) => { &[$(Parameter { name: stringify!($name), effect: Effect::Changes, of_2015: true }),*] };
}
macro_rules! did_nothing {
    ($($reason:literal: $($name:ident)*;)*) => {
        &[$($(Parameter { name: stringify!($name), effect: Effect::Nothing($reason), of_2015: true },)*)*]
    };
}

type Group = &'static [Parameter];

/// Options of index names.
const TARGET: Group = changes!(ignore_unavailable allow_no_indices expand_wildcards);
const THROTTLED: Group = nothing!("no index is throttled": ignore_throttled;);
/// A JSON body may come in the URL.
const BODY: Group = changes!(source);
const BODY_TYPE: Group = nothing!("every body is JSON": source_content_type;);
/// Catalog changes.
const ACKNOWLEDGED: Group = nothing!(
    "one process: a change is made when it is answered, there is no one to wait for":
        timeout master_timeout cluster_manager_timeout;
);
/// Reading the catalog.
const LOCAL: Group =
    nothing!("one process: what it knows is the state of the cluster": local master_timeout cluster_manager_timeout;);
const WAIT_FOR_SHARDS: Group = nothing!("one process: the copy that is written is the only one": wait_for_active_shards;);
/// Writes of one document.
const WRITE: Group = changes!(refresh routing pipeline);
const PARENT: Group = changed!(parent);
const WRITE_ALIAS: Group = changes!(require_alias);
const CONDITIONS: Group = changes!(version version_type if_seq_no if_primary_term);
const WRITE_WAITS: Group = nothing!(
    "one process: the copy that is written is the only one": wait_for_active_shards;
    "a write is answered when it is durable; there is no primary to wait for": timeout;
);
const COPIES_2015: Group = did_nothing!("one process: the copy that is written is the only one": consistency replication;);
/// `_timestamp` and `_ttl` of types.
const TIMES: Group = changes!(timestamp ttl);
const WRITE_2015: Group = nothing!(
    "the URL tells whether there is a type": include_type_name;
);
/// `q` and its options.
const QUERY: Group = changes!(q df analyzer lenient default_operator);
const WILDCARDS: Group = changes!(analyze_wildcard);
const QUERY_2015: Group =
    nothing!("the field's analyzer decides what becomes of the case of wildcards": lowercase_expanded_terms;);
const SOURCE: Group = changes!(_source _source_includes _source_excludes);
const VECTORS: Group = nothing!("no field holds vectors": _source_exclude_vectors;);
const SOURCE_2015: Group = changed!(_source_include _source_exclude);
const ONE_SHARD: Group = nothing!("there is one shard, which every routing leads to": routing preference;);
const ONE_COPY: Group = nothing!("there is one copy": preference;);
const READ: Group = changes!(routing realtime refresh);
const SYNTHETIC: Group =
    nothing!("_source is always kept as it was sent": force_synthetic_source ignore_errors_on_generated_fields;);
/// Locks under which something is done.
const LOCK: Group = changes!(lock);
/// Parameters that say what a read must see.
const SIGHT: Group = changes!(lock after read_level);
/// The transaction in which something is done.
const HELD: Group = changes!(transaction);
/// Waiting for copies that follow later.
const PROPAGATE: Group = changes!(propagate);
/// Changes of several documents.
const CHANGE: Group = changes!(lock idempotency_key timeout ack);
/// Options of jobs.
const BY_QUERY: Group = changes!(conflicts refresh wait_for_completion max_docs size scroll_size lock atomic idempotency_key);
const JOBS: Group = nothing!(
    "one process: the copy that is written is the only one": wait_for_active_shards;
    "a job waits for no one and reads one view that lasts as long as it does": timeout scroll search_timeout;
    "there is one shard to work through": slices search_type routing preference;
    "answers are not cached": request_cache;
    "searches are not counted by group": stats;
    "a job runs as fast as the disk lets it, and can be cancelled": requests_per_second;
);
/// Tables of `_cat`.
const TABLE_FORM: Group = changes!(h v s help);
const CAT_SIZES: Group = changes!(bytes);
const CAT_TIMES: Group = changes!(time);
const NO_SIZES: Group = nothing!("the table has no sizes": bytes;);
const NO_TIMES: Group = nothing!("the table has no durations": time;);
const NO_INDICES: Group = nothing!("the table is not about indices": expand_wildcards ignore_unavailable allow_no_indices;);
const UNLOADED: Group = nothing!("segments are always loaded": include_unloaded_segments;);

/// `type` is a word of Rust.
const CPU_TYPE: Group = &[Parameter {
    name: "type",
    effect: Effect::Nothing("threads are told by the time they took"),
    of_2015: false,
}];

/// The type of documents that name none.
const DEFAULT_TYPE: Group = &[Parameter {
    name: "type",
    effect: Effect::Changes,
    of_2015: false,
}];

/// APIs and their parameters, in groups.
#[rustfmt::skip]
const TABLE: &[(&[&str], &[Group])] = &[
    (&["*"], &[changes!(pretty human filter_path format error_trace)]),
    // Documents.
    (&["index"], &[WRITE, PARENT, TIMES, WRITE_ALIAS, CONDITIONS, BODY, BODY_TYPE, WRITE_WAITS, COPIES_2015, WRITE_2015, changes!(op_type)]),
    (&["create"], &[WRITE, PARENT, TIMES, WRITE_ALIAS, CONDITIONS, BODY, BODY_TYPE, WRITE_WAITS, COPIES_2015, WRITE_2015, changes!(op_type)]),
    (&["update"], &[WRITE, PARENT, TIMES, WRITE_ALIAS, CONDITIONS, SOURCE, SOURCE_2015, BODY, BODY_TYPE, WRITE_WAITS, COPIES_2015, WRITE_2015,
        changes!(retry_on_conflict doc_as_upsert), changed!(fields),
        did_nothing!("the body has them": lang script script_id detect_noop scripted_upsert;)]),
    (&["delete"], &[WRITE, PARENT, CONDITIONS, WRITE_WAITS, COPIES_2015, WRITE_2015]),
    (&["get", "get_source", "mget", "search"], &[VECTORS]),
    (&["get", "get_source"], &[READ, PARENT, SOURCE, SOURCE_2015, ONE_COPY, SYNTHETIC]),
    (&["get"], &[changes!(version version_type stored_fields fields)]),
    // A source has no version.
    (&["get_source"], &[changed!(version version_type)]),
    (&["mget"], &[SOURCE, SOURCE_2015, BODY, BODY_TYPE, ONE_COPY, changes!(stored_fields fields routing realtime refresh)]),
    (&["bulk"], &[WRITE, WRITE_ALIAS, SOURCE, SOURCE_2015, CHANGE, WAIT_FOR_SHARDS, COPIES_2015, WRITE_2015, changes!(atomic batch_size),
        DEFAULT_TYPE,
        did_nothing!("only updates answer fields, by their own lines": fields;)]),
    // Changes and locks.
    (&["index", "create", "update", "delete"], &[LOCK]),
    (&["indices.delete", "indices.close", "indices.update_aliases", "indices.put_alias", "indices.delete_alias", "indices.rollover"], &[LOCK]),
    (&["get", "get_source", "mget", "search", "count", "msearch", "msearch_template"], &[SIGHT]),
    (&["transaction"], &[CHANGE, changes!(refresh)]),
    (&["index", "create", "update", "delete", "bulk", "get", "get_source", "mget", "search", "count", "msearch", "msearch_template",
        "delete_by_query", "update_by_query"], &[HELD]),
    (&["changes"], &[changes!(since consumer initial index limit timeout _source)]),
    (&["transaction.begin"], &[BODY, BODY_TYPE, changes!(keep_alive lock idempotency_key)]),
    (&["transaction.commit"], &[changes!(refresh)]),
    (&["transaction.resolve"], &[BODY, BODY_TYPE]),
    (&["cat.transactions"], &[TABLE_FORM, CAT_SIZES, CAT_TIMES, LOCAL]),
    (&["index", "create", "update", "delete", "bulk", "transaction"], &[PROPAGATE]),
    (&["link.put_policy"], &[BODY, BODY_TYPE]),
    (&["link.execute_policy"], &[changes!(wait_for_completion refresh)]),
    (&["link.check_policy"], &[changes!(size)]),
    (&["changes.put_consumer"], &[BODY, BODY_TYPE]),
    (&["tree.list", "cat.tree"], &[changes!(field path size after depth)]),
    (&["cat.tree"], &[TABLE_FORM, NO_SIZES, NO_TIMES, LOCAL]),
    (&["tree.remove"], &[LOCK, changes!(field path)]),
    (&["tree.move", "tree.copy"], &[BODY, BODY_TYPE, LOCK]),
    (&["lock.open"], &[BODY, BODY_TYPE, changes!(timeout)]),
    (&["lock.get"], &[changes!(index)]),
    (&["lock.renew"], &[changes!(keep_alive)]),
    (
        &[
            "security.put_user", "security.delete_user", "security.change_password", "security.enable_user", "security.disable_user",
            "security.put_role", "security.delete_role", "security.create_api_key",
        ],
        &[nothing!("a change of users, roles and keys holds from the next request": refresh;)],
    ),
    (&["security.get_api_key"], &[changes!(id name username owner active_only with_limited_by realm_name)]),
    (&["cat.locks"], &[TABLE_FORM, NO_SIZES, CAT_TIMES, LOCAL]),
    // Searches.
    (&["search"], &[TARGET, THROTTLED, QUERY, WILDCARDS, QUERY_2015, SOURCE, SOURCE_2015, BODY, BODY_TYPE, ONE_SHARD,
        changed!(fields fielddata_fields),
        changes!(scroll search_type from size sort stored_fields docvalue_fields track_total_hits
            track_scores version explain seq_no_primary_term timeout terminate_after rest_total_hits_as_int typed_keys
            allow_partial_search_results include_named_queries_score suggest_field suggest_mode suggest_size suggest_text search_pipeline),
        nothing!(
            "an answer that is kept is the one that would be made": request_cache query_cache;
            "there is one shard, and no other cluster": batched_reduce_size max_concurrent_shard_requests pre_filter_shard_size
                ccs_minimize_roundtrips phase_took;
            "searches are not counted by group": stats;
            "timeout ends a search": cancel_after_time_interval;
        )]),
    (&["count", "search_exists"], &[TARGET, THROTTLED, QUERY, WILDCARDS, QUERY_2015, BODY, BODY_TYPE, ONE_SHARD,
        changes!(min_score terminate_after)]),
    // It also takes the parameters of the search that it becomes.
    (&["search_template"], &[changes!(rest_total_hits_as_int typed_keys)]),
    (&["msearch", "msearch_template"], &[TARGET, THROTTLED, BODY, BODY_TYPE, changes!(index search_type rest_total_hits_as_int typed_keys),
        nothing!(
            "the searches of one request run one after the other": max_concurrent_searches;
            "there is one shard, and no other cluster": pre_filter_shard_size max_concurrent_shard_requests
                ccs_minimize_roundtrips;
            "timeout ends a search": cancel_after_time_interval;
        )]),
    (&["suggest_2015"], &[TARGET, THROTTLED, BODY, BODY_TYPE, ONE_SHARD]),
    (&["explain"], &[QUERY, WILDCARDS, QUERY_2015, SOURCE, SOURCE_2015, BODY, BODY_TYPE, ONE_SHARD,
        nothing!(
            "there is one shard, which every routing leads to": parent;
            "the explanation is the answer": stored_fields fields;
        )]),
    (&["termvectors"], &[did_nothing!("there is one shard, whose statistics are all": dfs;)]),
    (&["termvectors", "mtermvectors"], &[BODY, BODY_TYPE, ONE_COPY,
        changes!(fields positions offsets field_statistics term_statistics routing realtime version version_type),
        nothing!(
            "no analyzer makes payloads, so there are none to leave out": payloads;
            "a child's routing is what its parent says": parent;
        )]),
    (&["mtermvectors"], &[changes!(ids)]),
    (&["indices.validate_query"], &[TARGET, THROTTLED, QUERY, WILDCARDS, QUERY_2015, BODY, BODY_TYPE,
        changes!(explain rewrite all_shards),
        nothing!(
            "requests wait for no thread of their own": operation_threading;
        )]),
    (&["field_caps"], &[TARGET, THROTTLED, BODY, BODY_TYPE, changes!(fields include_unmapped types filters),
        nothing!("fields are told from the mapping, whether or not documents have them": include_empty_fields;)]),
    (&["search_shards"], &[TARGET, THROTTLED, ONE_SHARD, LOCAL]),
    (&["scroll"], &[BODY, BODY_TYPE, changes!(scroll scroll_id rest_total_hits_as_int typed_keys)]),
    (&["clear_scroll"], &[BODY, BODY_TYPE, changes!(scroll_id)]),
    (&["open_point_in_time"], &[TARGET, THROTTLED, ONE_SHARD, changes!(keep_alive
            allow_partial_pit_creation allow_partial_search_results),
        nothing!(
            "there is one shard": max_concurrent_shard_requests;
        )]),
    (&["close_point_in_time"], &[BODY, BODY_TYPE]),
    (&["delete_all_pits", "get_all_pits"], &[nothing!("one process: there is no one to wait for": timeout;)]),
    (&["percolate", "count_percolate"], &[TARGET, THROTTLED, BODY, BODY_TYPE,
        changes!(percolate_index percolate_type routing version),
        nothing!("versions of documents that are there are compared": version_type;),
        nothing!("there is one shard, and one copy": preference percolate_preference percolate_routing;)]),
    (&["percolate"], &[changes!(percolate_format size)]),
    (&["mpercolate"], &[BODY, BODY_TYPE,
        did_nothing!("each line names its index": ignore_unavailable allow_no_indices expand_wildcards;)]),
    // By query.
    (&["delete_by_query", "update_by_query"], &[TARGET, THROTTLED, QUERY, WILDCARDS, BODY, BODY_TYPE, BY_QUERY, JOBS,
        changes!(from sort terminate_after),
        nothing!("the answer of a job has no hits": version;)]),
    (&["update_by_query"], &[SOURCE, SOURCE_2015, QUERY_2015,
        did_nothing!(
            "the answer of a job has no hits": explain fields fielddata_fields track_scores suggest_field suggest_mode suggest_size suggest_text;
            "one process: the copy that is written is the only one": consistency;
        )]),
    (&["delete_by_query"], &[nothing!("what is deleted is not shown": _source _source_includes _source_excludes;)]),
    (&["delete_by_query_2015"], &[TARGET, THROTTLED, QUERY, WILDCARDS, QUERY_2015, BODY, BODY_TYPE, ONE_SHARD,
        nothing!("one process: the copy that is written is the only one": consistency replication;)]),
    (&["update_by_query"], &[changes!(pipeline),
        nothing!("a document is written on condition that it is unchanged": version_type;)]),
    (&["reindex"], &[BODY, BODY_TYPE, BY_QUERY, JOBS, nothing!("the destination is named in the body": require_alias;),
        did_nothing!("one process: the copy that is written is the only one": consistency;)]),
    (&["tasks.list"], &[changes!(actions detailed group_by nodes node_id wait_for_completion timeout),
        nothing!("tasks have no parents": parent_task_id parent_task parent_node;)]),
    (&["tasks.get"], &[changes!(wait_for_completion timeout)]),
    (&["rethrottle"], &[changes!(requests_per_second)]),
    (&["rank_eval"], &[TARGET, BODY, BODY_TYPE, changes!(search_type)]),
    (&["tasks.cancel"], &[changes!(actions nodes node_id wait_for_completion),
        nothing!("tasks have no parents": parent_task_id parent_task parent_node;)]),
    // Scripts.
    (&["put_script"], &[BODY, BODY_TYPE, ACKNOWLEDGED, changes!(context)]),
    (&["scripts_painless_execute"], &[BODY, BODY_TYPE]),
    (&["get_script"], &[LOCAL]),
    (&["delete_script"], &[ACKNOWLEDGED]),
    // Indices.
    (&["indices.create"], &[BODY, BODY_TYPE, ACKNOWLEDGED, WAIT_FOR_SHARDS, changes!(include_type_name),
        nothing!("types of one index agree on their fields, or are refused": update_all_types;)]),
    (&["indices.delete"], &[TARGET, THROTTLED, ACKNOWLEDGED]),
    (&["indices.exists"], &[TARGET, THROTTLED, LOCAL, nothing!("the answer has no body": flat_settings include_defaults;)]),
    (&["indices.exists_type"], &[THROTTLED, LOCAL, changes!(ignore_unavailable expand_wildcards),
        nothing!("a type of no index is not there": allow_no_indices;)]),
    (&["indices.get"], &[TARGET, THROTTLED, LOCAL, changes!(flat_settings include_defaults include_type_name),
        nothing!("the parts of an index are one answer": features;)]),
    (&["indices.open"], &[TARGET, THROTTLED, ACKNOWLEDGED, WAIT_FOR_SHARDS, changes!(wait_for_completion),
        nothing!("opening takes no time": task_execution_timeout;)]),
    (&["indices.close"], &[TARGET, THROTTLED, ACKNOWLEDGED, WAIT_FOR_SHARDS]),
    (&["indices.refresh"], &[TARGET, THROTTLED, nothing!("a refresh is never left out": force;)]),
    (&["indices.flush"], &[TARGET, THROTTLED, changes!(force wait_if_ongoing), nothing!("a checkpoint is always full": full;)]),
    (&["indices.forcemerge"], &[TARGET, THROTTLED, changes!(max_num_segments only_expunge_deletes wait_for_completion),
        nothing!(
            "a merge ends with a checkpoint": flush;
            "there is one copy": primary_only;
            "every merge asked for is done": force;
            "the answer waits for the merge unless wait_for_completion is false": wait_for_merge;
            "requests wait for no thread of their own": operation_threading;
        )]),
    (&["indices.clear_cache"], &[TARGET, THROTTLED,
        nothing!(
            "caches have budgets, and no answer depends on them": fielddata field_data query request fields filter file recycler query_cache
                request_cache;
        )]),
    (&["indices.clear_cache", "indices.refresh"], &[changes!(index)]),
    (&["indices.stats"], &[TARGET, THROTTLED, UNLOADED, changes!(level forbid_closed_indices types),
        nothing!(
            "columns are counted as a whole": fields fielddata_fields completion_fields;
            "searches are not counted by group": groups;
            "sizes are of segments": include_segment_file_sizes;
        )]),
    (&["indices.put_mapping"], &[THROTTLED, BODY, BODY_TYPE, ACKNOWLEDGED,
        changes!(ignore_unavailable expand_wildcards write_index_only),
        nothing!(
            "a mapping wants an index": allow_no_indices;
            "the body and the URL tell whether there is a type": include_type_name;
            "types of one index agree on their fields, or are refused": ignore_conflicts update_all_types;
        )]),
    (&["indices.get_mapping"], &[TARGET, THROTTLED, LOCAL, changes!(include_type_name)]),
    (&["indices.get_field_mapping"], &[TARGET, THROTTLED, LOCAL, changes!(include_defaults include_type_name)]),
    (&["indices.add_block"], &[TARGET, THROTTLED, ACKNOWLEDGED]),
    (&["indices.get_data_stream"], &[LOCAL]),
    (&["indices.delete_data_stream"], &[ACKNOWLEDGED]),
    (&["indices.get_data_stream", "indices.delete_data_stream"],
        &[nothing!("there are no data streams": expand_wildcards include_defaults verbose;)]),
    (&["ingest.get_pipeline"], &[LOCAL, nothing!("there are no ingest pipelines": summary;)]),
    (&["snapshot.create_repository"], &[BODY, BODY_TYPE, ACKNOWLEDGED, changes!(verify)]),
    (&["snapshot.delete_repository", "snapshot.verify_repository", "snapshot.cleanup_repository", "snapshot.delete"], &[ACKNOWLEDGED]),
    (&["snapshot.create", "snapshot.restore"], &[BODY, BODY_TYPE, ACKNOWLEDGED, changes!(wait_for_completion)]),
    (&["snapshot.clone"], &[BODY, BODY_TYPE, ACKNOWLEDGED]),
    (&["snapshot.get", "snapshot.status"], &[LOCAL, changes!(ignore_unavailable)]),
    (&["snapshot.get"], &[changes!(verbose), changes!(commit_seq)]),
    (&["indices.put_settings"], &[TARGET, THROTTLED, BODY, BODY_TYPE, ACKNOWLEDGED,
        changes!(preserve_existing refresh_interval lock),
        nothing!(
            "the answer has no settings": flat_settings;
            "static settings want a closed index": reopen;
        )]),
    (&["indices.get_settings"], &[TARGET, THROTTLED, LOCAL, changes!(flat_settings include_defaults)]),
    (&["indices.update_aliases", "indices.put_alias"], &[BODY, BODY_TYPE, ACKNOWLEDGED]),
    (&["indices.put_alias"], &[changes!(index name)]),
    (&["indices.delete_alias"], &[ACKNOWLEDGED]),
    (&["indices.get_alias"], &[TARGET, THROTTLED, LOCAL]),
    (&["indices.exists_alias"], &[THROTTLED, LOCAL, changes!(ignore_unavailable expand_wildcards),
        nothing!("an alias of no index is not there": allow_no_indices;)]),
    (&["indices.put_template", "indices.put_index_template", "cluster.put_component_template"], &[BODY, BODY_TYPE,
            ACKNOWLEDGED, changes!(create),
        nothing!(
            "it is only logged": cause;
            "the answer has no settings": flat_settings;
        )]),
    (&["indices.put_template"], &[changes!(order), nothing!("the body tells whether there is a type": include_type_name;)]),
    (&["indices.get_template", "indices.get_index_template", "cluster.get_component_template"], &[LOCAL,
        changes!(flat_settings)]),
    (&["indices.get_template"], &[changes!(include_type_name)]),
    (&["indices.get_index_template", "cluster.get_component_template"], &[
        nothing!("a template has only what it was given": include_defaults;)]),
    (&["indices.exists_template", "indices.exists_index_template", "cluster.exists_component_template"], &[LOCAL,
        nothing!("the answer has no body": flat_settings;)]),
    (&["indices.delete_template", "indices.delete_index_template", "cluster.delete_component_template"], &[ACKNOWLEDGED]),
    (&["indices.put_warmer"], &[TARGET, THROTTLED, BODY, BODY_TYPE, ACKNOWLEDGED,
        nothing!("an answer that is kept is the one that would be made": request_cache query_cache;)]),
    (&["indices.get_warmer"], &[TARGET, THROTTLED, LOCAL]),
    (&["indices.delete_warmer"], &[TARGET, ACKNOWLEDGED, changes!(name)]),
    (&["indices.upgrade"], &[TARGET, THROTTLED,
        nothing!("nothing is of an older form": only_ancient_segments wait_for_completion;)]),
    (&["indices.get_upgrade"], &[THROTTLED, changes!(allow_no_indices expand_wildcards),
        nothing!("the path names no index": ignore_unavailable;)]),
    (&["indices.segments", "indices.recovery", "indices.shard_stores"], &[TARGET, THROTTLED]),
    (&["indices.segments"], &[nothing!("the answer is of the same length": verbose operation_threading;)]),
    (&["indices.recovery"], &[changes!(detailed active_only)]),
    (&["indices.shard_stores"], &[changes!(status)]),
    (&["indices.simulate_template", "indices.simulate_index_template"], &[BODY, BODY_TYPE,
        nothing!("it is only logged": cause; "one process: there is no one to wait for": master_timeout cluster_manager_timeout;)]),
    (&["indices.simulate_template"], &[changes!(create)]),
    (&["indices.simulate_index_template"], &[nothing!("the template of the body has a name of its own": create;)]),
    (&["snapshot.get_repository"], &[LOCAL]),
    (&["indices.rollover"], &[BODY, BODY_TYPE, ACKNOWLEDGED, WAIT_FOR_SHARDS, changes!(dry_run include_type_name)]),
    (&["indices.resolve_index"], &[TARGET, THROTTLED]),
    (&["indices.analyze"], &[BODY, BODY_TYPE,
        changes!(index analyzer tokenizer field normalizer filter filters token_filters char_filter char_filters explain text
            attributes), nothing!("one process": prefer_local;)]),
    // The server.
    (&["cluster.health"], &[LOCAL,
        changes!(wait_for_status wait_for_nodes wait_for_active_shards level timeout expand_wildcards),
        nothing!(
            "no shard ever moves or starts": wait_for_no_relocating_shards wait_for_no_initializing_shards
                wait_for_relocating_shards;
            "no task waits for another": wait_for_events;
            "one process is in no zone": awareness_attribute ensure_node_weighed_in;
        )]),
    (&["health_report"], &[changes!(verbose size), nothing!("one process: there is no one to wait for": timeout;)]),
    (&["prometheus.metrics"], &[changes!(level)]),
    (&["cluster.state"], &[LOCAL, TARGET, changes!(flat_settings),
        nothing!("one process: its state is the newest": wait_for_metadata_version wait_for_timeout;)]),
    (&["cluster.stats"], &[
        nothing!(
            "one process: there is no one to wait for": timeout;
            "the answer has no settings": flat_settings;
            "there are no remote clusters": include_remotes;
        )]),
    (&["cluster.get_settings"], &[LOCAL, changes!(flat_settings include_defaults),
        nothing!("one process: there is no one to wait for": timeout;)]),
    (&["cluster.put_settings"], &[BODY, BODY_TYPE, ACKNOWLEDGED, changes!(flat_settings)]),
    (&["cluster.reroute"], &[BODY, BODY_TYPE, ACKNOWLEDGED, changes!(metric explain),
        nothing!("there is one node, and every shard is on it": dry_run retry_failed;)]),
    (&["cluster.pending_tasks"], &[LOCAL]),
    (&["nodes.info"], &[changes!(flat_settings), nothing!("one process: there is no one to wait for": timeout;)]),
    (&["nodes.hot_threads"], &[changes!(interval threads ignore_idle_threads),
        nothing!("threads are looked at once in an interval, and answer by themselves": snapshots timeout;), CPU_TYPE]),
    (&["nodes.reload_secure_settings"], &[nothing!("one process: there is no one to wait for": timeout;)]),
    (&["nodes.stats"], &[changes!(level),
        nothing!(
            "columns are counted as a whole": fields fielddata_fields completion_fields;
            "searches are not counted by group": groups;
            "operations are not counted by type": types;
            "sizes are of segments": include_segment_file_sizes;
            "one process: there is no one to wait for": timeout;
        ), UNLOADED]),
    // Tables.
    (&["cat.indices"], &[TABLE_FORM, CAT_SIZES, NO_TIMES, LOCAL, TARGET, THROTTLED, UNLOADED, changes!(health),
        nothing!("there are no copies whose figures could be left out": pri;)]),
    (&["cat.count"], &[TABLE_FORM, NO_SIZES, NO_TIMES, LOCAL, TARGET, THROTTLED]),
    (&["cat.health"], &[TABLE_FORM, NO_SIZES, CAT_TIMES, LOCAL, changes!(ts)]),
    (&["cat.aliases"], &[TABLE_FORM, NO_SIZES, NO_TIMES, LOCAL, THROTTLED, changes!(expand_wildcards),
        nothing!("the path names aliases, not indices": ignore_unavailable allow_no_indices;)]),
    (&["cat.shards"], &[TABLE_FORM, CAT_SIZES, NO_TIMES, LOCAL, TARGET, THROTTLED]),
    (&["cat.segments", "cat.recovery"], &[TABLE_FORM, LOCAL, TARGET, THROTTLED]),
    (&["cat.segments"], &[CAT_SIZES, NO_TIMES]),
    (&["cat.recovery"], &[changes!(active_only index), CAT_TIMES,
        nothing!("all that there is to tell is in the table": detailed; "nothing had to be copied": bytes;)]),
    (&["cat.plugins", "cat.nodeattrs"], &[TABLE_FORM, NO_SIZES, NO_TIMES, LOCAL]),
    (&["cat.nodes"], &[TABLE_FORM, CAT_SIZES, NO_TIMES, LOCAL, changes!(full_id), NO_INDICES]),
    (&["cat.tasks"], &[TABLE_FORM, NO_SIZES, CAT_TIMES, LOCAL, changes!(actions nodes node_id detailed),
        nothing!("tasks have no parents": parent_task_id parent_task parent_node;)]),
    (&["cat.fielddata"], &[TABLE_FORM, CAT_SIZES, NO_TIMES, LOCAL, nothing!("no field is loaded": fields;)]),
    (&["cat.pending_tasks"], &[TABLE_FORM, NO_SIZES, CAT_TIMES, LOCAL]),
    (&["cat.repositories", "cat.component_templates"], &[TABLE_FORM, NO_SIZES, NO_TIMES, LOCAL]),
    (&["cat.snapshots"], &[TABLE_FORM, NO_SIZES, CAT_TIMES, LOCAL, changes!(ignore_unavailable repository)]),
    (&["cat.thread_pool"], &[TABLE_FORM, LOCAL, changes!(thread_pool_patterns),
        nothing!("queues have no sizes here, and nothing waits": size bytes time;)]),
    (&["cat.templates", "cat.master", "cat.allocation"], &[NO_TIMES]),
    (&["cat.allocation"], &[TABLE_FORM, CAT_SIZES, LOCAL]),
    (&["cat.templates", "cat.master"], &[TABLE_FORM, NO_SIZES, LOCAL]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_of_an_endpoint_and_names_a_parameter_once() {
        let apis: BTreeSet<&str> = crate::ENDPOINTS.iter().map(|e| e.api).chain(["*"]).collect();
        let unknown: Vec<&&str> = TABLE
            .iter()
            .flat_map(|(apis, _)| apis.iter())
            .filter(|api| !apis.contains(**api))
            .collect();
        assert!(unknown.is_empty(), "no endpoints: {unknown:?}");
        let mut seen = BTreeSet::new();
        let twice: Vec<_> = all(crate::ENDPOINTS.iter().map(|endpoint| endpoint.api))
            .into_iter()
            .map(|(api, p)| (api, p.name))
            .filter(|row| !seen.insert(*row))
            .collect();
        assert!(twice.is_empty(), "twice: {twice:?}");
    }
}
