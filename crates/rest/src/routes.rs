//! Every endpoint in one table. The router, `OPTIONS`, 405 answers and the compatibility page are derived from it.

use crate::call::Call;
use crate::handlers::{
    cat, changes, cluster, documents, es2, indices, jobs, links, locks, search, snapshots, stubs, transactions, trees,
    unsupported,
};
use crate::path_args::PathArgs;
use crate::respond::Answer;
use futures::future::BoxFuture;
use model::{Persona, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{LazyLock, OnceLock};

/// The function that answers a request.
pub(crate) type Handler = fn(Call) -> BoxFuture<'static, Result<Answer>>;

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Elasticsearch's name of the API.
    pub api: &'static str,
    /// Methods.
    pub methods: &'static [&'static str],
    /// Paths; `{name}` is one segment.
    pub paths: &'static [&'static str],
    /// The handler.
    pub handler: Handler,
}

macro_rules! endpoints {
    ($($api:literal $methods:tt $paths:tt => $($handler:ident)::+;)*) => {
        /// Every endpoint.
        pub const ENDPOINTS: &[Endpoint] = &[$(Endpoint {
            api: $api, methods: &$methods, paths: &$paths, handler: |call| Box::pin($($handler)::+(call)),
        },)*];
    };
}

endpoints! {
    "info" ["GET", "HEAD"] ["/"] => cluster::overview::info;

    "index" ["PUT", "POST"] ["/{index}/_doc/{id}", "/{index}/{type}/{id}"] => documents::write::index;
    "index" ["POST"] ["/{index}/_doc", "/{index}/{type}"] => documents::write::index;
    "create" ["PUT", "POST"] ["/{index}/_create/{id}", "/{index}/_doc/{id}/_create", "/{index}/{type}/{id}/_create"] => documents::write::create;
    "get" ["GET", "HEAD"] ["/{index}/_doc/{id}", "/{index}/{type}/{id}"] => documents::get::get;
    "get_source" ["GET", "HEAD"] ["/{index}/_source/{id}", "/{index}/_doc/{id}/_source", "/{index}/{type}/{id}/_source"] => documents::get::get_source;
    "delete" ["DELETE"] ["/{index}/_doc/{id}", "/{index}/{type}/{id}"] => documents::write::delete;
    "update" ["POST"] ["/{index}/_update/{id}", "/{index}/_doc/{id}/_update", "/{index}/{type}/{id}/_update"] => documents::update::update;
    "mget" ["GET", "POST"] ["/_mget", "/{index}/_mget", "/{index}/{type}/_mget"] => documents::mget::mget;
    "bulk" ["PUT", "POST"] ["/_bulk", "/{index}/_bulk", "/{index}/{type}/_bulk"] => documents::bulk::bulk;

    "transaction" ["POST"] ["/_transaction"] => transactions::transaction::transaction;
    "transaction.begin" ["POST"] ["/_transaction/_begin"] => transactions::transaction_session::begin;
    "transaction.commit" ["POST"] ["/_transaction/{transaction_id}/_commit"] => transactions::transaction_session::commit;
    "transaction.abort" ["POST"] ["/_transaction/{transaction_id}/_abort"] => transactions::transaction_session::abort;
    "transaction.get" ["GET"] ["/_transaction/{transaction_id}"] => transactions::transaction_session::get;
    "transaction.resolve" ["POST"] ["/_transaction/{transaction_id}/_resolve"] => transactions::transaction_session::resolve;
    "changes" ["GET"] ["/_changes"] => changes::feed::changes;
    "changes.get_consumer" ["GET"] ["/_changes/consumer", "/_changes/consumer/{name}"] => changes::consumers::get;
    "changes.put_consumer" ["PUT"] ["/_changes/consumer/{name}"] => changes::consumers::put;
    "changes.delete_consumer" ["DELETE"] ["/_changes/consumer/{name}"] => changes::consumers::delete;
    "lock.open" ["POST"] ["/_lock"] => locks::leases::open;
    "lock.get" ["GET"] ["/_lock", "/_lock/{lock_id}"] => locks::leases::get;
    "lock.release" ["DELETE"] ["/_lock/{lock_id}"] => locks::leases::release;
    "lock.renew" ["POST"] ["/_lock/{lock_id}/_renew"] => locks::leases::renew;
    "lock.break" ["POST"] ["/_lock/{lock_id}/_break"] => locks::leases::break_lock;

    "link.put_policy" ["PUT"] ["/_link/policy/{name}"] => links::policies::put;
    "link.get_policy" ["GET"] ["/_link/policy", "/_link/policy/{name}"] => links::policies::get;
    "link.delete_policy" ["DELETE"] ["/_link/policy/{name}"] => links::policies::delete;
    "link.execute_policy" ["POST"] ["/_link/policy/{name}/_execute"] => links::upkeep::execute;
    "link.check_policy" ["GET"] ["/_link/policy/{name}/_check"] => links::upkeep::check;
    "link.stats" ["GET"] ["/_link/policy/{name}/_stats"] => links::upkeep::stats;

    "tree.list" ["GET"] ["/{index}/_tree"] => trees::list::list;
    "tree.remove" ["DELETE"] ["/{index}/_tree"] => trees::removals::remove_directory;
    "tree.move" ["POST"] ["/{index}/_tree/_move"] => trees::moves::move_directory;
    "tree.copy" ["POST"] ["/{index}/_tree/_copy"] => trees::copies::copy_directory;

    "search" ["GET", "POST"] ["/_search", "/{index}/_search", "/{index}/{type}/_search"] => search::query::search;
    "search_template" ["GET", "POST"] ["/_search/template", "/{index}/_search/template", "/{index}/{type}/_search/template"] => search::templates::search;
    "render_search_template" ["GET", "POST"] ["/_render/template", "/_render/template/{id}"] => search::templates::render;
    "put_template_2015" ["PUT", "POST"] ["/_search/template/{id}"] => search::templates::put;
    "get_template_2015" ["GET"] ["/_search/template/{id}"] => search::templates::get;
    "delete_template_2015" ["DELETE"] ["/_search/template/{id}"] => search::templates::delete;
    "suggest_2015" ["GET", "POST"] ["/_suggest", "/{index}/_suggest"] => search::query::suggest;
    "search_exists" ["GET", "POST"] ["/_search/exists", "/{index}/_search/exists", "/{index}/{type}/_search/exists"] => search::query::exists;
    "msearch_template" ["GET", "POST"] ["/_msearch/template", "/{index}/_msearch/template"] => search::templates::msearch;
    "msearch" ["GET", "POST"] ["/_msearch", "/{index}/_msearch", "/{index}/{type}/_msearch"] => search::query::msearch;
    "count" ["GET", "POST"] ["/_count", "/{index}/_count", "/{index}/{type}/_count"] => search::query::count;
    "explain" ["GET", "POST"] ["/{index}/_explain/{id}", "/{index}/{type}/{id}/_explain"] => search::explain::explain;
    "termvectors" ["GET", "POST"] ["/{index}/_termvectors", "/{index}/_termvectors/{id}", "/{index}/{type}/{id}/_termvectors",
        "/{index}/_doc/{id}/_termvectors", "/{index}/{type}/_termvectors"] => documents::term_vectors::one;
    "mtermvectors" ["GET", "POST"] ["/_mtermvectors", "/{index}/_mtermvectors", "/{index}/{type}/_mtermvectors"] => documents::term_vectors::many;
    "indices.validate_query" ["GET", "POST"] ["/_validate/query", "/{index}/_validate/query", "/{index}/{type}/_validate/query"] => search::explain::validate;
    "field_caps" ["GET", "POST"] ["/_field_caps", "/{index}/_field_caps"] => indices::mappings::field_caps;
    "search_shards" ["GET", "POST"] ["/_search_shards", "/{index}/_search_shards", "/{index}/{type}/_search_shards"] => cluster::overview::search_shards;
    "scroll" ["GET", "POST"] ["/_search/scroll", "/_search/scroll/{scroll_id}"] => search::scroll::scroll;
    "clear_scroll" ["DELETE"] ["/_search/scroll", "/_search/scroll/{scroll_id}"] => search::scroll::clear;
    "open_point_in_time" ["POST"] ["/{index}/_pit", "/{index}/_search/point_in_time"] => search::scroll::open_pit;
    "close_point_in_time" ["DELETE"] ["/_pit", "/_search/point_in_time"] => search::scroll::close_pit;
    "delete_all_pits" ["DELETE"] ["/_search/point_in_time/_all"] => search::scroll::close_all_pits;
    "get_all_pits" ["GET"] ["/_search/point_in_time/_all"] => search::scroll::list_pits;

    "percolate" ["GET", "POST"] ["/{index}/{type}/_percolate", "/{index}/{type}/{id}/_percolate"] => es2::percolate::percolate;
    "count_percolate" ["GET", "POST"] ["/{index}/{type}/_percolate/count", "/{index}/{type}/{id}/_percolate/count"] => es2::percolate::count;
    "mpercolate" ["GET", "POST"] ["/_mpercolate", "/{index}/_mpercolate", "/{index}/{type}/_mpercolate"] => es2::percolate::several;

    "delete_by_query" ["POST"] ["/{index}/_delete_by_query", "/{index}/{type}/_delete_by_query"] => jobs::by_query::delete;
    "delete_by_query_2015" ["DELETE"] ["/{index}/_query", "/{index}/{type}/_query"] => jobs::by_query::delete_2015;
    "update_by_query" ["POST"] ["/{index}/_update_by_query", "/{index}/{type}/_update_by_query"] => jobs::by_query::update;
    "reindex" ["POST"] ["/_reindex"] => jobs::by_query::reindex;
    "rethrottle" ["POST"] ["/_reindex/{task_id}/_rethrottle", "/_update_by_query/{task_id}/_rethrottle",
        "/_delete_by_query/{task_id}/_rethrottle"] => jobs::tasks::rethrottle;
    "tasks.list" ["GET"] ["/_tasks"] => jobs::tasks::list;
    "tasks.get" ["GET"] ["/_tasks/{task_id}"] => jobs::tasks::get;
    "tasks.cancel" ["POST"] ["/_tasks/_cancel", "/_tasks/{task_id}/_cancel"] => jobs::tasks::cancel;

    "put_script" ["PUT", "POST"] ["/_scripts/{id}", "/_scripts/{id}/{context}"] => cluster::stored_scripts::put;
    "scripts_painless_execute" ["GET", "POST"] ["/_scripts/painless/_execute"] => search::script_execution::execute;
    "get_script_context" ["GET"] ["/_script_context"] => cluster::stored_scripts::contexts;
    "get_script_languages" ["GET"] ["/_script_language"] => cluster::stored_scripts::languages;
    "get_script" ["GET"] ["/_scripts/{id}", "/_scripts/{id}/{context}"] => cluster::stored_scripts::get;
    "delete_script" ["DELETE"] ["/_scripts/{id}", "/_scripts/{id}/{context}"] => cluster::stored_scripts::delete;

    "indices.create" ["PUT", "POST"] ["/{index}"] => indices::admin::create;
    "indices.delete" ["DELETE"] ["/{index}"] => indices::admin::delete;
    "indices.exists" ["HEAD"] ["/{index}"] => indices::admin::exists;
    "indices.exists_type" ["HEAD"] ["/{index}/{type}"] => indices::admin::exists_type;
    "indices.get" ["GET"] ["/{index}"] => indices::admin::get;
    "indices.open" ["POST"] ["/_open", "/{index}/_open"] => indices::admin::open;
    "indices.close" ["POST"] ["/_close", "/{index}/_close"] => indices::admin::close;
    "indices.refresh" ["GET", "POST"] ["/_refresh", "/{index}/_refresh"] => indices::admin::refresh;
    "indices.flush" ["GET", "POST"] ["/_flush", "/{index}/_flush", "/_flush/synced", "/{index}/_flush/synced"] => indices::admin::flush;
    "indices.forcemerge" ["GET", "POST"] ["/_forcemerge", "/{index}/_forcemerge", "/_optimize", "/{index}/_optimize"] => indices::admin::forcemerge;
    "indices.clear_cache" ["GET", "POST"] ["/_cache/clear", "/{index}/_cache/clear"] => indices::admin::clear_cache;
    "indices.stats" ["GET"] ["/_stats", "/_stats/{metric}", "/{index}/_stats", "/{index}/_stats/{metric}"] => indices::admin::stats;
    "indices.put_mapping" ["PUT", "POST"] ["/{index}/_mapping", "/{index}/_mappings", "/_mapping/{type}", "/_mappings/{type}",
        "/{index}/_mapping/{type}", "/{index}/_mappings/{type}", "/{index}/{type}/_mapping", "/{index}/{type}/_mappings"] => indices::mappings::put;
    "indices.get_mapping" ["GET", "HEAD"] ["/_mapping", "/_mappings", "/{index}/_mapping", "/{index}/_mappings", "/_mapping/{type}", "/_mappings/{type}",
        "/{index}/_mapping/{type}", "/{index}/_mappings/{type}", "/{index}/{type}/_mapping"] => indices::mappings::get;
    "indices.get_field_mapping" ["GET"] ["/_mapping/field/{fields}", "/{index}/_mapping/field/{fields}", "/_mapping/{type}/field/{fields}",
        "/{index}/{type}/_mapping/field/{fields}",
        "/{index}/_mapping/{type}/field/{fields}"] => indices::mappings::get_field;
    "indices.add_block" ["PUT"] ["/{index}/_block/{block}"] => indices::settings::block;
    "indices.put_settings" ["PUT"] ["/_settings", "/{index}/_settings"] => indices::settings::put;
    "indices.get_settings" ["GET"] ["/_settings", "/{index}/_settings", "/{index}/_settings/{name}", "/_settings/{name}"] => indices::settings::get;
    "indices.put_warmer" ["PUT", "POST"] ["/_warmer/{name}", "/_warmers/{name}", "/{index}/_warmer/{name}", "/{index}/_warmers/{name}",
        "/{index}/{type}/_warmer/{name}", "/{index}/{type}/_warmers/{name}"] => es2::warmers::put;
    "indices.get_warmer" ["GET"] ["/_warmer", "/_warmers", "/_warmer/{name}", "/_warmers/{name}", "/{index}/_warmer", "/{index}/_warmers",
        "/{index}/_warmer/{name}", "/{index}/_warmers/{name}", "/{index}/{type}/_warmer/{name}", "/{index}/{type}/_warmers/{name}"] => es2::warmers::get;
    "indices.delete_warmer" ["DELETE"] ["/{index}/_warmer", "/{index}/_warmers", "/{index}/_warmer/{name}", "/{index}/_warmers/{name}"] => es2::warmers::delete;
    "indices.upgrade" ["POST"] ["/_upgrade", "/{index}/_upgrade"] => es2::apis::upgrade;
    "indices.get_upgrade" ["GET"] ["/_upgrade"] => es2::apis::all_upgrades;
    "indices.segments" ["GET"] ["/_segments", "/{index}/_segments"] => indices::shards::segments;
    "indices.recovery" ["GET"] ["/_recovery", "/{index}/_recovery"] => indices::shards::recovery;
    "indices.shard_stores" ["GET"] ["/_shard_stores", "/{index}/_shard_stores"] => indices::shards::stores;
    "snapshot.get_repository" ["GET"] ["/_snapshot", "/_snapshot/{repository}"] => snapshots::repositories::get;
    "snapshot.create_repository" ["PUT", "POST"] ["/_snapshot/{repository}"] => snapshots::repositories::put;
    "snapshot.delete_repository" ["DELETE"] ["/_snapshot/{repository}"] => snapshots::repositories::delete;
    "snapshot.verify_repository" ["POST"] ["/_snapshot/{repository}/_verify"] => snapshots::repositories::verify;
    "snapshot.cleanup_repository" ["POST"] ["/_snapshot/{repository}/_cleanup"] => snapshots::repositories::cleanup;
    "snapshot.create" ["PUT", "POST"] ["/_snapshot/{repository}/{snapshot}", "/_snapshot/{repository}/{snapshot}/_create"] => snapshots::take::create;
    "snapshot.clone" ["PUT"] ["/_snapshot/{repository}/{snapshot}/_clone/{target}"] => snapshots::take::clone;
    "snapshot.get" ["GET"] ["/_snapshot/{repository}/{snapshot}"] => snapshots::read::get;
    "snapshot.delete" ["DELETE"] ["/_snapshot/{repository}/{snapshot}"] => snapshots::take::delete;
    "snapshot.status" ["GET"] ["/_snapshot/_status", "/_snapshot/{repository}/_status", "/_snapshot/{repository}/{snapshot}/_status"] => snapshots::read::status;
    "snapshot.restore" ["POST"] ["/_snapshot/{repository}/{snapshot}/_restore"] => snapshots::restore::restore;
    "indices.update_aliases" ["POST"] ["/_aliases"] => indices::aliases::update;
    "indices.put_alias" ["PUT", "POST"] ["/_alias", "/{index}/_alias/{name}", "/{index}/_aliases/{name}", "/_alias/{name}", "/_aliases/{name}", "/{index}/_alias", "/{index}/_aliases"] => indices::aliases::put;
    "indices.get_alias" ["GET"] ["/_alias", "/_aliases", "/_alias/{name}", "/{index}/_alias", "/{index}/_alias/{name}", "/{index}/_aliases",
        "/_aliases/{name}", "/{index}/_aliases/{name}"] => indices::aliases::get;
    "indices.exists_alias" ["HEAD"] ["/_alias/{name}", "/{index}/_alias/{name}", "/{index}/_alias"] => indices::aliases::exists;
    "indices.delete_alias" ["DELETE"] ["/{index}/_alias/{name}", "/{index}/_aliases/{name}"] => indices::aliases::delete;
    "indices.put_template" ["PUT", "POST"] ["/_template/{name}"] => indices::templates::put_legacy;
    "indices.get_template" ["GET"] ["/_template", "/_template/{name}"] => indices::templates::get_legacy;
    "indices.exists_template" ["HEAD"] ["/_template/{name}"] => indices::templates::exists_legacy;
    "indices.delete_template" ["DELETE"] ["/_template/{name}"] => indices::templates::delete_legacy;
    "indices.put_index_template" ["PUT", "POST"] ["/_index_template/{name}"] => indices::templates::put_index;
    "indices.get_index_template" ["GET"] ["/_index_template", "/_index_template/{name}"] => indices::templates::get_index;
    "indices.exists_index_template" ["HEAD"] ["/_index_template/{name}"] => indices::templates::exists_index;
    "indices.simulate_template" ["POST"] ["/_index_template/_simulate", "/_index_template/_simulate/{name}"] => indices::simulate::template;
    "indices.simulate_index_template" ["POST"] ["/_index_template/_simulate_index/{name}"] => indices::simulate::index;
    "indices.delete_index_template" ["DELETE"] ["/_index_template/{name}"] => indices::templates::delete_index;
    "cluster.put_component_template" ["PUT", "POST"] ["/_component_template/{name}"] => indices::templates::put_component;
    "cluster.get_component_template" ["GET"] ["/_component_template", "/_component_template/{name}"] => indices::templates::get_component;
    "cluster.exists_component_template" ["HEAD"] ["/_component_template/{name}"] => indices::templates::exists_component;
    "cluster.delete_component_template" ["DELETE"] ["/_component_template/{name}"] => indices::templates::delete_component;
    "indices.rollover" ["POST"] ["/{index}/_rollover", "/{index}/_rollover/{new_index}"] => indices::rollover::rollover;
    "indices.resolve_index" ["GET", "POST"] ["/_resolve/index/{name}"] => indices::resolve::resolve;
    "indices.analyze" ["GET", "POST"] ["/_analyze", "/{index}/_analyze"] => indices::analyze::analyze;

    "cluster.health" ["GET"] ["/_cluster/health", "/_cluster/health/{index}"] => cluster::overview::health;
    "health_report" ["GET"] ["/_health_report", "/_health_report/{indicator}"] => cluster::health_report::report;
    "livez" ["GET", "HEAD"] ["/livez"] => cluster::health_report::live;
    "readyz" ["GET", "HEAD"] ["/readyz"] => cluster::health_report::ready;
    "prometheus.metrics" ["GET"] ["/_prometheus/metrics"] => cluster::prometheus::metrics;
    "cluster.state" ["GET"] ["/_cluster/state", "/_cluster/state/{metric}", "/_cluster/state/{metric}/{index}"] => cluster::overview::state;
    "cluster.stats" ["GET"] ["/_cluster/stats", "/_cluster/stats/nodes/{node_id}"] => cluster::overview::stats;
    "cluster.get_settings" ["GET"] ["/_cluster/settings"] => cluster::settings::get;
    "cluster.put_settings" ["PUT"] ["/_cluster/settings"] => cluster::settings::put;
    "cluster.reroute" ["POST"] ["/_cluster/reroute"] => es2::apis::reroute;
    "field_stats" ["GET", "POST"] ["/_field_stats", "/{index}/_field_stats"] => es2::apis::field_stats;
    "cluster.pending_tasks" ["GET"] ["/_cluster/pending_tasks"] => cluster::overview::pending_tasks;
    "nodes.info" ["GET"] ["/_nodes", "/_nodes/{node_id}", "/_nodes/{node_id}/{metric}"] => cluster::nodes::info;
    "nodes.stats" ["GET"] ["/_nodes/stats", "/_nodes/stats/{metric}", "/_nodes/{node_id}/stats", "/_nodes/{node_id}/stats/{metric}",
        "/_nodes/stats/{metric}/{index_metric}", "/_nodes/{node_id}/stats/{metric}/{index_metric}"] => cluster::nodes::stats;

    "cat.help" ["GET"] ["/_cat"] => cat::help;
    "cat.indices" ["GET"] ["/_cat/indices", "/_cat/indices/{index}"] => cat::indices;
    "cat.count" ["GET", "POST"] ["/_cat/count", "/_cat/count/{index}"] => cat::count;
    "cat.health" ["GET"] ["/_cat/health"] => cat::health;
    "cat.aliases" ["GET"] ["/_cat/aliases", "/_cat/aliases/{name}"] => cat::aliases;
    "cat.shards" ["GET"] ["/_cat/shards", "/_cat/shards/{index}"] => cat::shards;
    "cat.segments" ["GET"] ["/_cat/segments", "/_cat/segments/{index}"] => cat::segments;
    "cat.recovery" ["GET"] ["/_cat/recovery", "/_cat/recovery/{index}"] => cat::recovery;
    "cat.plugins" ["GET"] ["/_cat/plugins"] => cat::plugins;
    "cat.nodeattrs" ["GET"] ["/_cat/nodeattrs"] => cat::attributes;
    "cat.nodes" ["GET"] ["/_cat/nodes"] => cat::nodes;
    "cat.locks" ["GET"] ["/_cat/locks"] => locks::leases::cat;
    "cat.transactions" ["GET"] ["/_cat/transactions"] => transactions::transaction_session::cat;
    "cat.tree" ["GET"] ["/_cat/tree/{index}"] => trees::list::cat;
    "cat.tasks" ["GET"] ["/_cat/tasks"] => cat::tasks;
    "cat.templates" ["GET"] ["/_cat/templates", "/_cat/templates/{name}"] => cat::templates;
    "cat.allocation" ["GET"] ["/_cat/allocation", "/_cat/allocation/{node_id}"] => cat::allocation;
    "cat.component_templates" ["GET"] ["/_cat/component_templates", "/_cat/component_templates/{name}"] => cat::component_templates;
    "cat.fielddata" ["GET"] ["/_cat/fielddata", "/_cat/fielddata/{fields}"] => cat::fielddata;
    "cat.pending_tasks" ["GET"] ["/_cat/pending_tasks"] => cat::pending_tasks;
    "cat.repositories" ["GET"] ["/_cat/repositories"] => cat::repositories;
    "cat.snapshots" ["GET"] ["/_cat/snapshots", "/_cat/snapshots/{repository}"] => cat::snapshots;
    "cat.thread_pool" ["GET"] ["/_cat/thread_pool", "/_cat/thread_pool/{thread_pool_patterns}"] => cat::thread_pool;
    "cat.master" ["GET"] ["/_cat/master", "/_cat/cluster_manager"] => cat::master;

    "indices.shrink" ["PUT", "POST"] ["/{index}/_shrink/{target}"] => unsupported::refuse;
    "indices.split" ["PUT", "POST"] ["/{index}/_split/{target}"] => unsupported::refuse;
    "indices.clone" ["PUT", "POST"] ["/{index}/_clone/{target}"] => unsupported::refuse;
    "indices.get_data_stream" ["GET"] ["/_data_stream", "/_data_stream/{name}"] => stubs::data_streams;
    "indices.delete_data_stream" ["DELETE"] ["/_data_stream/{name}"] => stubs::delete_data_streams;
    "indices.create_data_stream" ["PUT"] ["/_data_stream/{name}"] => unsupported::refuse;
    "ingest.get_pipeline" ["GET"] ["/_ingest/pipeline", "/_ingest/pipeline/{id}"] => stubs::pipelines;
    "ingest.pipeline" ["PUT", "DELETE"] ["/_ingest/pipeline/{id}"] => unsupported::refuse;
    "ingest.simulate" ["GET", "POST"] ["/_ingest/pipeline/_simulate", "/_ingest/pipeline/{id}/_simulate"] => unsupported::refuse;
    "rank_eval" ["GET", "POST"] ["/_rank_eval", "/{index}/_rank_eval"] => search::rank_eval::rank_eval;
    "cluster.allocation_explain" ["GET", "POST"] ["/_cluster/allocation/explain"] => unsupported::refuse;
    "cluster.remote_info" ["GET"] ["/_remote/info"] => stubs::remote_clusters;
    "cluster.post_voting_config_exclusions" ["POST"] ["/_cluster/voting_config_exclusions"] => unsupported::refuse;
    "dangling_indices.list" ["GET"] ["/_dangling"] => stubs::dangling;
    "nodes.hot_threads" ["GET"] ["/_nodes/hot_threads", "/_nodes/{node_id}/hot_threads", "/_cluster/nodes/hot_threads",
        "/_cluster/nodes/{node_id}/hot_threads", "/_nodes/hotthreads", "/_nodes/{node_id}/hotthreads",
        "/_cluster/nodes/hotthreads", "/_cluster/nodes/{node_id}/hotthreads"] => cluster::hot_threads::hot_threads;
    "nodes.reload_secure_settings" ["POST"] ["/_nodes/reload_secure_settings", "/_nodes/{node_id}/reload_secure_settings"] => cluster::hot_threads::reload_secure_settings;
}

/// The list that `GET /_cat` shows.
pub(crate) fn cat_paths() -> String {
    let mut out = String::from("=^.^=\n");
    for path in ENDPOINTS
        .iter()
        .filter(|e| e.api.starts_with("cat.") && e.api != "cat.help")
        .flat_map(|e| e.paths)
    {
        out.push_str(path);
        out.push('\n');
    }
    out
}

/// The result of looking a path up.
#[derive(Debug)]
pub(crate) enum Matched {
    /// A row and the parts of the path (percent-decoded).
    Found(&'static Endpoint, PathArgs),
    /// The path is known with other methods.
    Method(Vec<&'static str>),
    /// No such path.
    Nothing,
}

/// The parts of paths that begin with an underscore, each once.
pub(crate) fn literals() -> &'static BTreeSet<&'static str> {
    static LITERALS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        let paths = ENDPOINTS.iter().flat_map(|endpoint| endpoint.paths);
        paths
            .flat_map(|path| path.split('/'))
            .filter(|part| part.starts_with('_'))
            .collect()
    });
    &LITERALS
}

/// Finds the row of a path; literal segments win over parameters, from the left. The persona decides two things: what `+` was
/// in ids in 2015, and whether `_doc` may stand for a type, so that `/i/_doc/_search` is a search and not a document.
pub(crate) fn find(method: &str, path: &str, persona: Persona) -> Matched {
    let plus_is_space = persona == Persona::Es2;
    // Elasticsearch 2 passes over an empty part between two slashes.
    let collapsed = if plus_is_space && path.contains("//") {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        Cow::Owned(format!("/{}", parts.join("/")))
    } else {
        Cow::Borrowed(path)
    };
    let path = &*collapsed;
    let trimmed = path.strip_suffix('/').filter(|p| !p.is_empty()).unwrap_or(path);
    let mut segments: Vec<Cow<'_, str>> = Vec::with_capacity(8);
    for segment in trimmed.split('/').skip(1) {
        match crate::query_params::decoded(segment) {
            Ok(segment) => segments.push(segment),
            Err(_) => return Matched::Nothing,
        }
    }
    let rows = || by_length().get(segments.len()).into_iter().flat_map(|rows| &rows.all);
    // No name begins with an underscore, and every literal but the probes does: most paths can only be of a few rows.
    let named = segments
        .first()
        .is_some_and(|first| !first.is_empty() && !first.starts_with('_'));
    let fitting = by_length().get(segments.len()).and_then(|rows| {
        let of_method = rows.by_method.iter().find(|(known, _)| *known == method);
        of_method.map(|(_, [any, with_name])| if named { with_name } else { any })
    });
    let rows_of = || fitting.into_iter().flatten();
    let has_types = matches!(persona, Persona::Es2 | Persona::Es7 | Persona::Opensearch1);
    let of_type = match has_types && segments.get(1).is_some_and(|second| second == "_doc") {
        true => rows_of().find(|row| is_of_type_doc(&row.parts, &segments)),
        false => None,
    };
    match of_type.or_else(|| rows_of().find(|row| fits(&row.parts, &segments))) {
        Some(row) => {
            let mut args = PathArgs::with_capacity(row.parts.len());
            for (at, (part, value)) in row.parts.iter().zip(segments).enumerate() {
                let (Part::Name(name) | Part::Other(name)) = *part else {
                    continue;
                };
                let raw = || trimmed.split('/').nth(at + 1).unwrap_or_default();
                let value = match name {
                    "id" if plus_is_space && raw().contains('+') => crate::query_params::decode(raw(), true).unwrap_or_default(),
                    _ => value.into_owned(),
                };
                args.insert(name, value);
            }
            Matched::Found(row.endpoint, args)
        }
        None => {
            let others = rows().filter(|row| fits(&row.parts, &segments));
            let mut allowed: Vec<&'static str> = others.flat_map(|row| row.endpoint.methods).copied().collect();
            allowed.sort_unstable();
            allowed.dedup();
            if allowed.is_empty() {
                Matched::Nothing
            } else {
                Matched::Method(allowed)
            }
        }
    }
}

/// Paths without an underscore, as every orchestrator writes its probes. `GET` of an index of this name is answered by the probe;
/// all other requests reach the index.
const PROBES: [&str; 2] = ["livez", "readyz"];

/// The patterns with so many segments, in the order of the table.
#[derive(Default)]
struct Rows {
    all: Vec<Row>,
    /// Of each method all of them, and those that may begin with a name, the best first.
    by_method: Vec<(&'static str, [Vec<Row>; 2])>,
}

/// A pattern of the table, taken apart once.
#[derive(Clone)]
struct Row {
    endpoint: &'static Endpoint,
    pattern: &'static str,
    parts: Vec<Part>,
}

/// One segment of a pattern.
#[derive(Clone, Copy)]
enum Part {
    Literal(&'static str),
    /// An index or a type, and what it is called.
    Name(&'static str),
    Other(&'static str),
}

/// Every pattern, by its number of segments.
fn by_length() -> &'static [Rows] {
    static ROWS: OnceLock<Vec<Rows>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let mut rows: Vec<Rows> = Vec::new();
        for endpoint in ENDPOINTS {
            for pattern in endpoint.paths {
                let parts: Vec<Part> = pattern.split('/').skip(1).map(part).collect();
                if rows.len() <= parts.len() {
                    rows.resize_with(parts.len() + 1, Rows::default);
                }
                rows[parts.len()].add(Row {
                    endpoint,
                    pattern,
                    parts,
                });
            }
        }
        for (_, lists) in rows.iter_mut().flat_map(|rows| &mut rows.by_method) {
            for list in lists {
                // The first row of the table wins.
                list.sort_by_key(|row| std::cmp::Reverse(rank(&row.parts)));
            }
        }
        rows
    })
}

impl Rows {
    fn add(&mut self, row: Row) {
        let underscored = match row.parts.first() {
            Some(Part::Literal(first)) => {
                assert!(
                    first.is_empty() || first.starts_with('_') || PROBES.contains(first),
                    "[{}] could be an index",
                    row.pattern
                );
                !PROBES.contains(first)
            }
            _ => false,
        };
        for method in row.endpoint.methods {
            let at = self.by_method.iter().position(|(known, _)| known == method);
            let at = at.unwrap_or_else(|| {
                self.by_method.push((method, Default::default()));
                self.by_method.len() - 1
            });
            let (_, [any, with_name]) = &mut self.by_method[at];
            any.push(row.clone());
            if !underscored {
                with_name.push(row.clone());
            }
        }
        self.all.push(row);
    }
}

fn part(text: &'static str) -> Part {
    match text.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
        None => Part::Literal(text),
        Some(name @ ("index" | "type")) => Part::Name(name),
        Some(name) => Part::Other(name),
    }
}

/// How good a pattern is where it fits: one bit a literal segment, the first the highest.
fn rank(parts: &[Part]) -> u32 {
    let bit = |part: &Part| u32::from(matches!(part, Part::Literal(_)));
    parts.iter().fold(0, |rank, part| rank << 1 | bit(part))
}

/// Is it a path of an API below a type, in which all but the type fits? The second segment is `_doc`.
fn is_of_type_doc(parts: &[Part], segments: &[Cow<'_, str>]) -> bool {
    let [Part::Name("index"), Part::Name("type"), rest @ ..] = parts else {
        return false;
    };
    let literal = matches!(rest.last(), Some(Part::Literal(_)));
    let no_document = !rest.iter().any(|part| matches!(part, Part::Other("id")));
    literal && no_document && !segments[0].starts_with('_') && fits(rest, &segments[2..])
}

fn fits(parts: &[Part], segments: &[Cow<'_, str>]) -> bool {
    let mut after_mapping = false;
    parts.iter().zip(segments).all(|(part, segment)| {
        let of_mapping = std::mem::replace(&mut after_mapping, matches!(part, Part::Literal("_mapping" | "_mappings")));
        match part {
            Part::Literal(literal) => literal == segment,
            // Names never begin with an underscore; `_all` is every index or type. After `_mapping` a type stands, whatever it is.
            Part::Name(_) if of_mapping && segment.len() > 1 => true,
            Part::Name(_) if segment.starts_with('_') => segment == "_all" || segment == "_default_",
            Part::Name(_) | Part::Other(_) => !segment.is_empty(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, path: &str, expected: &str) {
        let found = match find(method, path, Persona::Es2) {
            Matched::Found(endpoint, args) => {
                let mut args: Vec<String> = args.iter().map(|(k, v)| format!("{k}={v}")).collect();
                args.sort();
                format!("{} {}", endpoint.api, args.join(" "))
            }
            Matched::Method(allowed) => format!("405 {}", allowed.join(",")),
            Matched::Nothing => "none".to_owned(),
        };
        assert_eq!(found.trim(), expected, "{method} {path}");
    }

    #[test]
    fn personas_without_types_have_documents_of_any_id() {
        for (persona, expected) in [
            (Persona::Es7, "search"),
            (Persona::Es8, "index"),
            (Persona::Opensearch2, "index"),
        ] {
            let Matched::Found(endpoint, _) = find("POST", "/i/_doc/_search", persona) else {
                panic!("{persona:?} has no such path");
            };
            assert_eq!(endpoint.api, expected, "{persona:?}");
        }
    }

    #[test]
    fn paths() {
        check("GET", "/", "info");
        check("PUT", "/i/_doc/1", "index id=1 index=i");
        check("PUT", "/i/t/1", "index id=1 index=i type=t");
        check("PUT", "/i/t/_odd", "index id=_odd index=i type=t");
        check(
            "PUT",
            "/fs/lock/%2Fclinton%2Fprojects/_create",
            "create id=/clinton/projects index=fs type=lock",
        );
        check("GET", "/i/t/_search", "search index=i type=t");
        check("GET", "/_all/_search", "search index=_all");
        check("POST", "/i/t/_query", "index id=_query index=i type=t");
        check("DELETE", "/i/t/_query", "delete_by_query_2015 index=i type=t");
        check("GET", "/_nosuch", "none");
        check("DELETE", "/_cluster/health", "405 GET");
        check("POST", "/i/_doc/_search", "search index=i type=_doc");
        check("POST", "/i/_doc/_update_by_query", "update_by_query index=i type=_doc");
        check("POST", "/i/_doc/_search/template", "search_template index=i type=_doc");
        check("POST", "/i/_doc/_odd", "index id=_odd index=i");
        check("POST", "/i/_doc/1/_update", "update id=1 index=i");
        check("POST", "/i/_doc", "index index=i");
        check("GET", "/i/_doc", "405 POST");
        check("GET", "/livez", "livez");
        check("PUT", "/livez", "indices.create index=livez");
        check("GET", "/readyz/_search", "search index=readyz");
    }
}
