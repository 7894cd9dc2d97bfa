//! Every endpoint in one table. The router, `OPTIONS`, 405 answers and the compatibility page are derived from it.

use crate::call::Call;
use crate::handlers::{
    cat, changes, cluster, documents, es2, indices, jobs, links, locks, search, security, snapshots, stubs, transactions, trees,
    unsupported,
};
use crate::path_args::PathArgs;
use crate::respond::Answer;
use crate::right::*;
use futures::future::BoxFuture;
use model::{Persona, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{LazyLock, OnceLock};

/// The function that answers a request: an `async fn` that is `#[boxed]`.
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
    /// The right without which nobody is answered, where security is on.
    pub right: Right,
    /// The handler.
    pub handler: Handler,
}

macro_rules! endpoints {
    ($($api:literal $methods:tt $paths:tt $right:ident => $($handler:ident)::+;)*) => {
        /// Every endpoint.
        pub static ENDPOINTS: &[Endpoint] = &[$(Endpoint {
            api: $api, methods: &$methods, paths: &$paths, right: $right, handler: $($handler)::+,
        },)*];
    };
}

endpoints! {
    "info" ["GET", "HEAD"] ["/"] ANY_USER => cluster::overview::info;

    "index" ["PUT", "POST"] ["/{index}/_doc/{id}", "/{index}/{type}/{id}"] INDEX => documents::write::index;
    "index" ["POST"] ["/{index}/_doc", "/{index}/{type}"] INDEX => documents::write::index;
    "create" ["PUT", "POST"] ["/{index}/_create/{id}", "/{index}/_doc/{id}/_create", "/{index}/{type}/{id}/_create"] CREATE => documents::write::create;
    "get" ["GET", "HEAD"] ["/{index}/_doc/{id}", "/{index}/{type}/{id}"] READ => documents::get::get;
    "get_source" ["GET", "HEAD"] ["/{index}/_source/{id}", "/{index}/_doc/{id}/_source", "/{index}/{type}/{id}/_source"] READ => documents::get::get_source;
    "delete" ["DELETE"] ["/{index}/_doc/{id}", "/{index}/{type}/{id}"] DELETE => documents::write::delete;
    "update" ["POST"] ["/{index}/_update/{id}", "/{index}/_doc/{id}/_update", "/{index}/{type}/{id}/_update"] UPDATE => documents::update::update;
    "mget" ["GET", "POST"] ["/_mget", "/{index}/_mget", "/{index}/{type}/_mget"] READ => documents::mget::mget;
    "bulk" ["PUT", "POST"] ["/_bulk", "/{index}/_bulk", "/{index}/{type}/_bulk"] WRITE => documents::bulk::bulk;

    "transaction" ["POST"] ["/_transaction"] TRANSACTION => transactions::transaction::transaction;
    "transaction.begin" ["POST"] ["/_transaction/_begin"] TRANSACTION => transactions::transaction_session::begin;
    "transaction.commit" ["POST"] ["/_transaction/{transaction_id}/_commit"] TRANSACTION => transactions::transaction_session::commit;
    "transaction.abort" ["POST"] ["/_transaction/{transaction_id}/_abort"] TRANSACTION => transactions::transaction_session::abort;
    "transaction.get" ["GET"] ["/_transaction/{transaction_id}"] TRANSACTION => transactions::transaction_session::get;
    "transaction.resolve" ["POST"] ["/_transaction/{transaction_id}/_resolve"] CLUSTER_MANAGE => transactions::transaction_session::resolve;
    "changes" ["GET"] ["/_changes"] FOLLOW_CHANGES => changes::feed::changes;
    "changes.get_consumer" ["GET"] ["/_changes/consumer", "/_changes/consumer/{name}"] CLUSTER_MONITOR => changes::consumers::get;
    "changes.put_consumer" ["PUT"] ["/_changes/consumer/{name}"] CLUSTER_MANAGE => changes::consumers::put;
    "changes.delete_consumer" ["DELETE"] ["/_changes/consumer/{name}"] CLUSTER_MANAGE => changes::consumers::delete;
    "lock.open" ["POST"] ["/_lock"] LOCK => locks::leases::open;
    "lock.get" ["GET"] ["/_lock", "/_lock/{lock_id}"] LOCK => locks::leases::get;
    "lock.release" ["DELETE"] ["/_lock/{lock_id}"] LOCK => locks::leases::release;
    "lock.renew" ["POST"] ["/_lock/{lock_id}/_renew"] LOCK => locks::leases::renew;
    "lock.break" ["POST"] ["/_lock/{lock_id}/_break"] BREAK_LOCK => locks::leases::break_lock;

    "link.put_policy" ["PUT"] ["/_link/policy/{name}"] CLUSTER_MANAGE => links::policies::put;
    "link.get_policy" ["GET"] ["/_link/policy", "/_link/policy/{name}"] CLUSTER_MONITOR => links::policies::get;
    "link.delete_policy" ["DELETE"] ["/_link/policy/{name}"] CLUSTER_MANAGE => links::policies::delete;
    "link.execute_policy" ["POST"] ["/_link/policy/{name}/_execute"] CLUSTER_MANAGE => links::upkeep::execute;
    "link.check_policy" ["GET"] ["/_link/policy/{name}/_check"] CLUSTER_MONITOR => links::upkeep::check;
    "link.stats" ["GET"] ["/_link/policy/{name}/_stats"] CLUSTER_MONITOR => links::upkeep::stats;

    "tree.list" ["GET"] ["/{index}/_tree"] READ => trees::list::list;
    "tree.remove" ["DELETE"] ["/{index}/_tree"] MOVE => trees::removals::remove_directory;
    "tree.move" ["POST"] ["/{index}/_tree/_move"] MOVE => trees::moves::move_directory;
    "tree.copy" ["POST"] ["/{index}/_tree/_copy"] MOVE => trees::copies::copy_directory;

    "search" ["GET", "POST"] ["/_search", "/{index}/_search", "/{index}/{type}/_search"] READ => search::query::search;
    "search_template" ["GET", "POST"] ["/_search/template", "/{index}/_search/template", "/{index}/{type}/_search/template"] READ => search::templates::search;
    "render_search_template" ["GET", "POST"] ["/_render/template", "/_render/template/{id}"] READ => search::templates::render;
    "put_template_2015" ["PUT", "POST"] ["/_search/template/{id}"] CLUSTER_MANAGE => search::templates::put;
    "get_template_2015" ["GET"] ["/_search/template/{id}"] CLUSTER_MONITOR => search::templates::get;
    "delete_template_2015" ["DELETE"] ["/_search/template/{id}"] CLUSTER_MANAGE => search::templates::delete;
    "suggest_2015" ["GET", "POST"] ["/_suggest", "/{index}/_suggest"] READ => search::query::suggest;
    "search_exists" ["GET", "POST"] ["/_search/exists", "/{index}/_search/exists", "/{index}/{type}/_search/exists"] READ => search::query::exists;
    "msearch_template" ["GET", "POST"] ["/_msearch/template", "/{index}/_msearch/template"] READ => search::templates::msearch;
    "msearch" ["GET", "POST"] ["/_msearch", "/{index}/_msearch", "/{index}/{type}/_msearch"] READ => search::query::msearch;
    "count" ["GET", "POST"] ["/_count", "/{index}/_count", "/{index}/{type}/_count"] READ => search::query::count;
    "explain" ["GET", "POST"] ["/{index}/_explain/{id}", "/{index}/{type}/{id}/_explain"] READ => search::explain::explain;
    "termvectors" ["GET", "POST"] ["/{index}/_termvectors", "/{index}/_termvectors/{id}", "/{index}/{type}/{id}/_termvectors",
        "/{index}/_doc/{id}/_termvectors", "/{index}/{type}/_termvectors"] READ => documents::term_vectors::one;
    "mtermvectors" ["GET", "POST"] ["/_mtermvectors", "/{index}/_mtermvectors", "/{index}/{type}/_mtermvectors"] READ => documents::term_vectors::many;
    "indices.validate_query" ["GET", "POST"] ["/_validate/query", "/{index}/_validate/query", "/{index}/{type}/_validate/query"] VIEW_METADATA => search::explain::validate;
    "field_caps" ["GET", "POST"] ["/_field_caps", "/{index}/_field_caps"] READ_OR_VIEW => indices::mappings::field_caps;
    "search_shards" ["GET", "POST"] ["/_search_shards", "/{index}/_search_shards", "/{index}/{type}/_search_shards"] VIEW_METADATA => cluster::overview::search_shards;
    "scroll" ["GET", "POST"] ["/_search/scroll", "/_search/scroll/{scroll_id}"] READ => search::scroll::scroll;
    "clear_scroll" ["DELETE"] ["/_search/scroll", "/_search/scroll/{scroll_id}"] READ => search::scroll::clear;
    "open_point_in_time" ["POST"] ["/{index}/_pit", "/{index}/_search/point_in_time"] READ => search::scroll::open_pit;
    "close_point_in_time" ["DELETE"] ["/_pit", "/_search/point_in_time"] READ => search::scroll::close_pit;
    "delete_all_pits" ["DELETE"] ["/_search/point_in_time/_all"] CLUSTER_MANAGE => search::scroll::close_all_pits;
    "get_all_pits" ["GET"] ["/_search/point_in_time/_all"] CLUSTER_MANAGE => search::scroll::list_pits;

    "percolate" ["GET", "POST"] ["/{index}/{type}/_percolate", "/{index}/{type}/{id}/_percolate"] READ => es2::percolate::percolate;
    "count_percolate" ["GET", "POST"] ["/{index}/{type}/_percolate/count", "/{index}/{type}/{id}/_percolate/count"] READ => es2::percolate::count;
    "mpercolate" ["GET", "POST"] ["/_mpercolate", "/{index}/_mpercolate", "/{index}/{type}/_mpercolate"] READ => es2::percolate::several;

    "delete_by_query" ["POST"] ["/{index}/_delete_by_query", "/{index}/{type}/_delete_by_query"] DELETE => jobs::by_query::delete;
    "delete_by_query_2015" ["DELETE"] ["/{index}/_query", "/{index}/{type}/_query"] DELETE => jobs::by_query::delete_2015;
    "update_by_query" ["POST"] ["/{index}/_update_by_query", "/{index}/{type}/_update_by_query"] UPDATE => jobs::by_query::update;
    "reindex" ["POST"] ["/_reindex"] READ => jobs::by_query::reindex;
    "rethrottle" ["POST"] ["/_reindex/{task_id}/_rethrottle", "/_update_by_query/{task_id}/_rethrottle",
        "/_delete_by_query/{task_id}/_rethrottle"] CLUSTER_MANAGE => jobs::tasks::rethrottle;
    "tasks.list" ["GET"] ["/_tasks"] CLUSTER_MONITOR => jobs::tasks::list;
    "tasks.get" ["GET"] ["/_tasks/{task_id}"] CLUSTER_MONITOR => jobs::tasks::get;
    "tasks.cancel" ["POST"] ["/_tasks/_cancel", "/_tasks/{task_id}/_cancel"] CLUSTER_MANAGE => jobs::tasks::cancel;

    "put_script" ["PUT", "POST"] ["/_scripts/{id}", "/_scripts/{id}/{context}"] CLUSTER_MANAGE => cluster::stored_scripts::put;
    "scripts_painless_execute" ["GET", "POST"] ["/_scripts/painless/_execute"] CLUSTER_MANAGE => search::script_execution::execute;
    "get_script_context" ["GET"] ["/_script_context"] CLUSTER_MONITOR => cluster::stored_scripts::contexts;
    "get_script_languages" ["GET"] ["/_script_language"] CLUSTER_MONITOR => cluster::stored_scripts::languages;
    "get_script" ["GET"] ["/_scripts/{id}", "/_scripts/{id}/{context}"] CLUSTER_MONITOR => cluster::stored_scripts::get;
    "delete_script" ["DELETE"] ["/_scripts/{id}", "/_scripts/{id}/{context}"] CLUSTER_MANAGE => cluster::stored_scripts::delete;

    "indices.create" ["PUT", "POST"] ["/{index}"] CREATE_INDEX => indices::admin::create;
    "indices.delete" ["DELETE"] ["/{index}"] DELETE_INDEX => indices::admin::delete;
    "indices.exists" ["HEAD"] ["/{index}"] VIEW_METADATA => indices::admin::exists;
    "indices.exists_type" ["HEAD"] ["/{index}/{type}"] VIEW_METADATA => indices::admin::exists_type;
    "indices.get" ["GET"] ["/{index}"] VIEW_METADATA => indices::admin::get;
    "indices.open" ["POST"] ["/_open", "/{index}/_open"] MANAGE => indices::admin::open;
    "indices.close" ["POST"] ["/_close", "/{index}/_close"] MANAGE => indices::admin::close;
    "indices.refresh" ["GET", "POST"] ["/_refresh", "/{index}/_refresh"] MAINTENANCE => indices::admin::refresh;
    "indices.flush" ["GET", "POST"] ["/_flush", "/{index}/_flush", "/_flush/synced", "/{index}/_flush/synced"] MAINTENANCE => indices::admin::flush;
    "indices.forcemerge" ["GET", "POST"] ["/_forcemerge", "/{index}/_forcemerge", "/_optimize", "/{index}/_optimize"] MAINTENANCE => indices::admin::forcemerge;
    "indices.clear_cache" ["GET", "POST"] ["/_cache/clear", "/{index}/_cache/clear"] MAINTENANCE => indices::admin::clear_cache;
    "indices.stats" ["GET"] ["/_stats", "/_stats/{metric}", "/{index}/_stats", "/{index}/_stats/{metric}"] MONITOR => indices::admin::stats;
    "indices.put_mapping" ["PUT", "POST"] ["/{index}/_mapping", "/{index}/_mappings", "/_mapping/{type}", "/_mappings/{type}",
        "/{index}/_mapping/{type}", "/{index}/_mappings/{type}", "/{index}/{type}/_mapping", "/{index}/{type}/_mappings"] MANAGE => indices::mappings::put;
    "indices.get_mapping" ["GET", "HEAD"] ["/_mapping", "/_mappings", "/{index}/_mapping", "/{index}/_mappings", "/_mapping/{type}", "/_mappings/{type}",
        "/{index}/_mapping/{type}", "/{index}/_mappings/{type}", "/{index}/{type}/_mapping"] VIEW_METADATA => indices::mappings::get;
    "indices.get_field_mapping" ["GET"] ["/_mapping/field/{fields}", "/{index}/_mapping/field/{fields}", "/_mapping/{type}/field/{fields}",
        "/{index}/{type}/_mapping/field/{fields}",
        "/{index}/_mapping/{type}/field/{fields}"] VIEW_METADATA => indices::mappings::get_field;
    "indices.add_block" ["PUT"] ["/{index}/_block/{block}"] MANAGE => indices::settings::block;
    "indices.put_settings" ["PUT"] ["/_settings", "/{index}/_settings"] MANAGE => indices::settings::put;
    "indices.get_settings" ["GET"] ["/_settings", "/{index}/_settings", "/{index}/_settings/{name}", "/_settings/{name}"] VIEW_METADATA => indices::settings::get;
    "indices.put_warmer" ["PUT", "POST"] ["/_warmer/{name}", "/_warmers/{name}", "/{index}/_warmer/{name}", "/{index}/_warmers/{name}",
        "/{index}/{type}/_warmer/{name}", "/{index}/{type}/_warmers/{name}"] MANAGE => es2::warmers::put;
    "indices.get_warmer" ["GET"] ["/_warmer", "/_warmers", "/_warmer/{name}", "/_warmers/{name}", "/{index}/_warmer", "/{index}/_warmers",
        "/{index}/_warmer/{name}", "/{index}/_warmers/{name}", "/{index}/{type}/_warmer/{name}", "/{index}/{type}/_warmers/{name}"] VIEW_METADATA => es2::warmers::get;
    "indices.delete_warmer" ["DELETE"] ["/{index}/_warmer", "/{index}/_warmers", "/{index}/_warmer/{name}", "/{index}/_warmers/{name}"] MANAGE => es2::warmers::delete;
    "indices.upgrade" ["POST"] ["/_upgrade", "/{index}/_upgrade"] MAINTENANCE => es2::apis::upgrade;
    "indices.get_upgrade" ["GET"] ["/_upgrade"] MONITOR => es2::apis::all_upgrades;
    "indices.segments" ["GET"] ["/_segments", "/{index}/_segments"] MONITOR => indices::shards::segments;
    "indices.recovery" ["GET"] ["/_recovery", "/{index}/_recovery"] MONITOR => indices::shards::recovery;
    "indices.shard_stores" ["GET"] ["/_shard_stores", "/{index}/_shard_stores"] MONITOR => indices::shards::stores;
    "snapshot.get_repository" ["GET"] ["/_snapshot", "/_snapshot/{repository}"] MONITOR_SNAPSHOT => snapshots::repositories::get;
    "snapshot.create_repository" ["PUT", "POST"] ["/_snapshot/{repository}"] CLUSTER_MANAGE => snapshots::repositories::put;
    "snapshot.delete_repository" ["DELETE"] ["/_snapshot/{repository}"] CLUSTER_MANAGE => snapshots::repositories::delete;
    "snapshot.verify_repository" ["POST"] ["/_snapshot/{repository}/_verify"] CLUSTER_MANAGE => snapshots::repositories::verify;
    "snapshot.cleanup_repository" ["POST"] ["/_snapshot/{repository}/_cleanup"] CLUSTER_MANAGE => snapshots::repositories::cleanup;
    "snapshot.create" ["PUT", "POST"] ["/_snapshot/{repository}/{snapshot}", "/_snapshot/{repository}/{snapshot}/_create"] CREATE_SNAPSHOT => snapshots::take::create;
    "snapshot.clone" ["PUT"] ["/_snapshot/{repository}/{snapshot}/_clone/{target}"] CLUSTER_MANAGE => snapshots::take::clone;
    "snapshot.get" ["GET"] ["/_snapshot/{repository}/{snapshot}"] MONITOR_SNAPSHOT => snapshots::read::get;
    "snapshot.delete" ["DELETE"] ["/_snapshot/{repository}/{snapshot}"] CLUSTER_MANAGE => snapshots::take::delete;
    "snapshot.status" ["GET"] ["/_snapshot/_status", "/_snapshot/{repository}/_status", "/_snapshot/{repository}/{snapshot}/_status"] MONITOR_SNAPSHOT => snapshots::read::status;
    "snapshot.restore" ["POST"] ["/_snapshot/{repository}/{snapshot}/_restore"] CLUSTER_MANAGE => snapshots::restore::restore;
    "indices.update_aliases" ["POST"] ["/_aliases"] MANAGE => indices::aliases::update;
    "indices.put_alias" ["PUT", "POST"] ["/_alias", "/{index}/_alias/{name}", "/{index}/_aliases/{name}", "/_alias/{name}", "/_aliases/{name}", "/{index}/_alias", "/{index}/_aliases"] MANAGE => indices::aliases::put;
    "indices.get_alias" ["GET"] ["/_alias", "/_aliases", "/_alias/{name}", "/{index}/_alias", "/{index}/_alias/{name}", "/{index}/_aliases",
        "/_aliases/{name}", "/{index}/_aliases/{name}"] VIEW_METADATA => indices::aliases::get;
    "indices.exists_alias" ["HEAD"] ["/_alias/{name}", "/{index}/_alias/{name}", "/{index}/_alias"] VIEW_METADATA => indices::aliases::exists;
    "indices.delete_alias" ["DELETE"] ["/{index}/_alias/{name}", "/{index}/_aliases/{name}"] MANAGE => indices::aliases::delete;
    "indices.put_template" ["PUT", "POST"] ["/_template/{name}"] TEMPLATES => indices::templates::put_legacy;
    "indices.get_template" ["GET"] ["/_template", "/_template/{name}"] SEE_TEMPLATES => indices::templates::get_legacy;
    "indices.exists_template" ["HEAD"] ["/_template/{name}"] SEE_TEMPLATES => indices::templates::exists_legacy;
    "indices.delete_template" ["DELETE"] ["/_template/{name}"] TEMPLATES => indices::templates::delete_legacy;
    "indices.put_index_template" ["PUT", "POST"] ["/_index_template/{name}"] TEMPLATES => indices::templates::put_index;
    "indices.get_index_template" ["GET"] ["/_index_template", "/_index_template/{name}"] SEE_TEMPLATES => indices::templates::get_index;
    "indices.exists_index_template" ["HEAD"] ["/_index_template/{name}"] SEE_TEMPLATES => indices::templates::exists_index;
    "indices.simulate_template" ["POST"] ["/_index_template/_simulate", "/_index_template/_simulate/{name}"] TEMPLATES => indices::simulate::template;
    "indices.simulate_index_template" ["POST"] ["/_index_template/_simulate_index/{name}"] TEMPLATES => indices::simulate::index;
    "indices.delete_index_template" ["DELETE"] ["/_index_template/{name}"] TEMPLATES => indices::templates::delete_index;
    "cluster.put_component_template" ["PUT", "POST"] ["/_component_template/{name}"] TEMPLATES => indices::templates::put_component;
    "cluster.get_component_template" ["GET"] ["/_component_template", "/_component_template/{name}"] SEE_TEMPLATES => indices::templates::get_component;
    "cluster.exists_component_template" ["HEAD"] ["/_component_template/{name}"] SEE_TEMPLATES => indices::templates::exists_component;
    "cluster.delete_component_template" ["DELETE"] ["/_component_template/{name}"] TEMPLATES => indices::templates::delete_component;
    "indices.rollover" ["POST"] ["/{index}/_rollover", "/{index}/_rollover/{new_index}"] MANAGE => indices::rollover::rollover;
    "indices.resolve_index" ["GET", "POST"] ["/_resolve/index/{name}"] VIEW_METADATA => indices::resolve::resolve;
    "indices.analyze" ["GET", "POST"] ["/_analyze", "/{index}/_analyze"] VIEW_METADATA => indices::analyze::analyze;

    "cluster.health" ["GET"] ["/_cluster/health", "/_cluster/health/{index}"] CLUSTER_MONITOR => cluster::overview::health;
    "health_report" ["GET"] ["/_health_report", "/_health_report/{indicator}"] CLUSTER_MONITOR => cluster::health_report::report;
    "livez" ["GET", "HEAD"] ["/livez"] PROBE => cluster::health_report::live;
    "readyz" ["GET", "HEAD"] ["/readyz"] PROBE => cluster::health_report::ready;
    "prometheus.metrics" ["GET"] ["/_prometheus/metrics"] CLUSTER_MONITOR => cluster::prometheus::metrics;
    "cluster.state" ["GET"] ["/_cluster/state", "/_cluster/state/{metric}", "/_cluster/state/{metric}/{index}"] SEE_CLUSTER => cluster::overview::state;
    "cluster.stats" ["GET"] ["/_cluster/stats", "/_cluster/stats/nodes/{node_id}"] CLUSTER_MONITOR => cluster::overview::stats;
    "cluster.get_settings" ["GET"] ["/_cluster/settings"] CLUSTER_MONITOR => cluster::settings::get;
    "cluster.put_settings" ["PUT"] ["/_cluster/settings"] CLUSTER_MANAGE => cluster::settings::put;
    "cluster.reroute" ["POST"] ["/_cluster/reroute"] CLUSTER_MANAGE => es2::apis::reroute;
    "field_stats" ["GET", "POST"] ["/_field_stats", "/{index}/_field_stats"] READ => es2::apis::field_stats;
    "cluster.pending_tasks" ["GET"] ["/_cluster/pending_tasks"] CLUSTER_MONITOR => cluster::overview::pending_tasks;
    "nodes.info" ["GET"] ["/_nodes", "/_nodes/{node_id}", "/_nodes/{node_id}/{metric}"] CLUSTER_MONITOR => cluster::nodes::info;
    "nodes.stats" ["GET"] ["/_nodes/stats", "/_nodes/stats/{metric}", "/_nodes/{node_id}/stats", "/_nodes/{node_id}/stats/{metric}",
        "/_nodes/stats/{metric}/{index_metric}", "/_nodes/{node_id}/stats/{metric}/{index_metric}"] CLUSTER_MONITOR => cluster::nodes::stats;

    "security.authenticate" ["GET"] ["/_security/_authenticate"] ANY_USER => security::own::authenticate;
    "security.put_user" ["PUT", "POST"] ["/_security/user/{username}"] SECURITY => security::users::put;
    "security.get_user" ["GET"] ["/_security/user", "/_security/user/{username}"] SEE_SECURITY => security::users::get;
    "security.delete_user" ["DELETE"] ["/_security/user/{username}"] SECURITY => security::users::delete;
    "security.change_password" ["PUT", "POST"] ["/_security/user/_password", "/_security/user/{username}/_password"] ANY_USER => security::users::change_password;
    "security.enable_user" ["PUT", "POST"] ["/_security/user/{username}/_enable"] SECURITY => security::users::enable;
    "security.disable_user" ["PUT", "POST"] ["/_security/user/{username}/_disable"] SECURITY => security::users::disable;
    "security.has_privileges" ["GET", "POST"] ["/_security/user/_has_privileges", "/_security/user/{user}/_has_privileges"] ANY_USER => security::own::has_privileges;
    "security.get_user_privileges" ["GET"] ["/_security/user/_privileges"] ANY_USER => security::own::privileges;
    "security.put_role" ["PUT", "POST"] ["/_security/role/{name}"] SECURITY => security::roles::put;
    "security.get_role" ["GET"] ["/_security/role", "/_security/role/{name}"] SEE_SECURITY => security::roles::get;
    "security.delete_role" ["DELETE"] ["/_security/role/{name}"] SECURITY => security::roles::delete;
    "security.create_api_key" ["PUT", "POST"] ["/_security/api_key"] OWN_KEYS => security::api_keys::create;
    "security.get_api_key" ["GET"] ["/_security/api_key"] SEE_KEYS => security::api_keys::get;
    "security.invalidate_api_key" ["DELETE"] ["/_security/api_key"] OWN_KEYS => security::api_keys::invalidate;
    "security.get_builtin_privileges" ["GET"] ["/_security/privilege/_builtin"] SEE_SECURITY => security::own::builtin_privileges;

    "cat.help" ["GET"] ["/_cat"] CLUSTER_MONITOR => cat::help;
    "cat.indices" ["GET"] ["/_cat/indices", "/_cat/indices/{index}"] SEE_INDICES => cat::indices;
    "cat.count" ["GET", "POST"] ["/_cat/count", "/_cat/count/{index}"] READ => cat::count;
    "cat.health" ["GET"] ["/_cat/health"] CLUSTER_MONITOR => cat::health;
    "cat.aliases" ["GET"] ["/_cat/aliases", "/_cat/aliases/{name}"] SEE_ALIASES => cat::aliases;
    "cat.shards" ["GET"] ["/_cat/shards", "/_cat/shards/{index}"] SEE_INDICES => cat::shards;
    "cat.segments" ["GET"] ["/_cat/segments", "/_cat/segments/{index}"] SEE_INDICES => cat::segments;
    "cat.recovery" ["GET"] ["/_cat/recovery", "/_cat/recovery/{index}"] SEE_INDICES => cat::recovery;
    "cat.plugins" ["GET"] ["/_cat/plugins"] CLUSTER_MONITOR => cat::plugins;
    "cat.nodeattrs" ["GET"] ["/_cat/nodeattrs"] CLUSTER_MONITOR => cat::attributes;
    "cat.nodes" ["GET"] ["/_cat/nodes"] CLUSTER_MONITOR => cat::nodes;
    "cat.locks" ["GET"] ["/_cat/locks"] CLUSTER_MONITOR => locks::leases::cat;
    "cat.transactions" ["GET"] ["/_cat/transactions"] CLUSTER_MONITOR => transactions::transaction_session::cat;
    "cat.tree" ["GET"] ["/_cat/tree/{index}"] READ => trees::list::cat;
    "cat.tasks" ["GET"] ["/_cat/tasks"] CLUSTER_MONITOR => cat::tasks;
    "cat.templates" ["GET"] ["/_cat/templates", "/_cat/templates/{name}"] SEE_TEMPLATES => cat::templates;
    "cat.allocation" ["GET"] ["/_cat/allocation", "/_cat/allocation/{node_id}"] CLUSTER_MONITOR => cat::allocation;
    "cat.component_templates" ["GET"] ["/_cat/component_templates", "/_cat/component_templates/{name}"] SEE_TEMPLATES => cat::component_templates;
    "cat.fielddata" ["GET"] ["/_cat/fielddata", "/_cat/fielddata/{fields}"] CLUSTER_MONITOR => cat::fielddata;
    "cat.pending_tasks" ["GET"] ["/_cat/pending_tasks"] CLUSTER_MONITOR => cat::pending_tasks;
    "cat.repositories" ["GET"] ["/_cat/repositories"] MONITOR_SNAPSHOT => cat::repositories;
    "cat.snapshots" ["GET"] ["/_cat/snapshots", "/_cat/snapshots/{repository}"] MONITOR_SNAPSHOT => cat::snapshots;
    "cat.thread_pool" ["GET"] ["/_cat/thread_pool", "/_cat/thread_pool/{thread_pool_patterns}"] CLUSTER_MONITOR => cat::thread_pool;
    "cat.master" ["GET"] ["/_cat/master", "/_cat/cluster_manager"] CLUSTER_MONITOR => cat::master;

    "indices.shrink" ["PUT", "POST"] ["/{index}/_shrink/{target}"] MANAGE => unsupported::refuse;
    "indices.split" ["PUT", "POST"] ["/{index}/_split/{target}"] MANAGE => unsupported::refuse;
    "indices.clone" ["PUT", "POST"] ["/{index}/_clone/{target}"] MANAGE => unsupported::refuse;
    "indices.get_data_stream" ["GET"] ["/_data_stream", "/_data_stream/{name}"] VIEW_METADATA => stubs::data_streams;
    "indices.delete_data_stream" ["DELETE"] ["/_data_stream/{name}"] DELETE_INDEX => stubs::delete_data_streams;
    "indices.create_data_stream" ["PUT"] ["/_data_stream/{name}"] CREATE_INDEX => unsupported::refuse;
    "ingest.get_pipeline" ["GET"] ["/_ingest/pipeline", "/_ingest/pipeline/{id}"] CLUSTER_MONITOR => stubs::pipelines;
    "ingest.pipeline" ["PUT", "DELETE"] ["/_ingest/pipeline/{id}"] PIPELINES => unsupported::refuse;
    "ingest.simulate" ["GET", "POST"] ["/_ingest/pipeline/_simulate", "/_ingest/pipeline/{id}/_simulate"] PIPELINES => unsupported::refuse;
    "rank_eval" ["GET", "POST"] ["/_rank_eval", "/{index}/_rank_eval"] READ => search::rank_eval::rank_eval;
    "cluster.allocation_explain" ["GET", "POST"] ["/_cluster/allocation/explain"] CLUSTER_MONITOR => unsupported::refuse;
    "cluster.remote_info" ["GET"] ["/_remote/info"] CLUSTER_MONITOR => stubs::remote_clusters;
    "cluster.post_voting_config_exclusions" ["POST"] ["/_cluster/voting_config_exclusions"] CLUSTER_MANAGE => unsupported::refuse;
    "dangling_indices.list" ["GET"] ["/_dangling"] CLUSTER_MONITOR => stubs::dangling;
    "nodes.hot_threads" ["GET"] ["/_nodes/hot_threads", "/_nodes/{node_id}/hot_threads", "/_cluster/nodes/hot_threads",
        "/_cluster/nodes/{node_id}/hot_threads", "/_nodes/hotthreads", "/_nodes/{node_id}/hotthreads",
        "/_cluster/nodes/hotthreads", "/_cluster/nodes/{node_id}/hotthreads"] CLUSTER_MONITOR => cluster::hot_threads::hot_threads;
    "nodes.reload_secure_settings" ["POST"] ["/_nodes/reload_secure_settings", "/_nodes/{node_id}/reload_secure_settings"] CLUSTER_MANAGE => cluster::hot_threads::reload_secure_settings;
}

const _: () = {
    let mut at = 0;
    while at < ENDPOINTS.len() {
        let row = &ENDPOINTS[at];
        assert!(!row.methods.is_empty() && !row.paths.is_empty(), "each endpoint can be asked");
        let mut path = 0;
        while path < row.paths.len() {
            let bytes = row.paths[path].as_bytes();
            assert!(
                !bytes.is_empty() && bytes[0] == b'/',
                "a path begins with a slash: what stands before the first one is passed over"
            );
            path += 1;
        }
        at += 1;
    }
};

/// The first row of an API.
pub(crate) fn endpoint(api: &str) -> Option<&'static Endpoint> {
    ENDPOINTS.iter().find(|endpoint| endpoint.api == api)
}

/// Is it a probe of an orchestrator, which has no credentials?
pub(crate) fn is_probe(method: &str, path: &str) -> bool {
    let name = path.strip_prefix('/').unwrap_or(path);
    matches!(method, "GET" | "HEAD") && PROBES.contains(&name)
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
        match crate::query_params::decode_path(segment) {
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
                let (PathSegment::Name(name) | PathSegment::Other(name)) = *part else {
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
            debug_assert!(
                allowed.iter().all(|known| *known != method),
                "a path that is known with a method is found by it: [{method}] [{path}]"
            );
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
    all: Vec<Route>,
    /// Of each method all of them, and those that may begin with a name, the best first.
    by_method: Vec<(&'static str, [Vec<Route>; 2])>,
}

/// A pattern of the table, taken apart once.
#[derive(Clone)]
struct Route {
    endpoint: &'static Endpoint,
    pattern: &'static str,
    parts: Vec<PathSegment>,
}

/// One segment of a pattern.
#[derive(Clone, Copy)]
enum PathSegment {
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
                let parts: Vec<PathSegment> = pattern.split('/').skip(1).map(part).collect();
                if rows.len() <= parts.len() {
                    rows.resize_with(parts.len() + 1, Rows::default);
                }
                rows[parts.len()].add(Route {
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
    fn add(&mut self, row: Route) {
        assert!(
            row.parts.len() <= u32::BITS as usize,
            "[{}] has more segments than its rank has bits",
            row.pattern
        );
        let underscored = match row.parts.first() {
            Some(PathSegment::Literal(first)) => {
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

fn part(text: &'static str) -> PathSegment {
    match text.strip_prefix('{').and_then(|p| p.strip_suffix('}')) {
        None => PathSegment::Literal(text),
        Some(name @ ("index" | "type")) => PathSegment::Name(name),
        Some(name) => PathSegment::Other(name),
    }
}

/// How good a pattern is where it fits: one bit a literal segment, the first the highest.
fn rank(parts: &[PathSegment]) -> u32 {
    let bit = |part: &PathSegment| u32::from(matches!(part, PathSegment::Literal(_)));
    parts.iter().fold(0, |rank, part| rank << 1 | bit(part))
}

/// Is it a path of an API below a type, in which all but the type fits? The second segment is `_doc`.
fn is_of_type_doc(parts: &[PathSegment], segments: &[Cow<'_, str>]) -> bool {
    let [PathSegment::Name("index"), PathSegment::Name("type"), rest @ ..] = parts else {
        return false;
    };
    let literal = matches!(rest.last(), Some(PathSegment::Literal(_)));
    let no_document = !rest.iter().any(|part| matches!(part, PathSegment::Other("id")));
    literal && no_document && !segments[0].starts_with('_') && fits(rest, &segments[2..])
}

fn fits(parts: &[PathSegment], segments: &[Cow<'_, str>]) -> bool {
    debug_assert_eq!(parts.len(), segments.len(), "rows are looked up by the number of their parts");
    let mut after_mapping = false;
    parts.iter().zip(segments).all(|(part, segment)| {
        let of_mapping = std::mem::replace(
            &mut after_mapping,
            matches!(part, PathSegment::Literal("_mapping" | "_mappings")),
        );
        match part {
            PathSegment::Literal(literal) => literal == segment,
            // Names never begin with an underscore; `_all` is every index or type. After `_mapping` a type stands, whatever it is.
            PathSegment::Name(_) if of_mapping && segment.len() > 1 => true,
            PathSegment::Name(_) if segment.starts_with('_') => segment == "_all" || segment == "_default_",
            PathSegment::Name(_) | PathSegment::Other(_) => !segment.is_empty(),
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
