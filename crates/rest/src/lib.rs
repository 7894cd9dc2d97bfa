//! HTTP outside, typed calls inside: endpoints, parameters, dialects, envelopes.
//!
//! `routes` holds every endpoint in one table; a handler reads its parameters and body, calls `relations` or the
//! engine, and returns an [`respond::Answer`]. Not here: what any of it means to documents.

use engine::breaker::CircuitBreakers;
use engine::tasks::Tasks;
use engine::{Alteration, Altered, Clock, Engine, EngineExt, IndexInfo, IndexStats};
use index_meta_cache::{IndexFacts, KnownIndices};
use model::{Dialect, Error, ErrorKind, IndexName, Result, Target};
use relations::Relations;
use serde_json::{Map, Value};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub mod access;
mod actions;
mod answer_room;
pub mod authentication;
mod authorize;
mod background;
mod blocking;
mod body;
mod busy_poll;
mod call;
mod dialect;
mod disk_monitor;
mod dispatch;
mod envelope;
mod es2_errors;
mod event_stream;
mod exchange;
mod first_type;
mod guard;
mod handlers;
mod home_runtime;
mod http2;
mod human;
mod index_meta_cache;
mod list_style;
mod long_requests;
mod machine;
mod metrics;
mod no_route;
mod outgoing;
mod packed_text;
pub mod parameter_table;
mod path_args;
mod percolator_type;
pub mod proxies;
mod query_params;
mod read_timeout;
mod render;
mod request_line;
mod respond;
mod right;
mod routes;
mod running;
mod self_wake;
mod serve;
mod slow_log;
mod socket;
mod tables;
mod targets;
mod trace_context;
mod transport;
mod yaml;

pub use call::Call;
pub use respond::{Answer, Body};
pub use right::{Right, action_of};
pub use routes::{ENDPOINTS, Endpoint};
pub use serve::{Served, serve};
pub use socket::ListeningSocket;
pub use transport::{ALPN_HTTP2, Listener, TlsConfig};

/// The server as one request sees it: the engine and what spans documents, either as they are or as one principal may use
/// them, and the state that every request shares.
#[derive(Clone, Debug)]
pub struct Rest {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) relations: Relations,
    /// Who asks, where security is on; `None`: the server itself.
    pub(crate) scope: Option<Arc<guard::Scope>>,
    shared: Arc<Shared>,
}

impl Deref for Rest {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// The state that every request shares.
#[derive(Debug)]
pub struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) names: Names,
    pub(crate) limits: Limits,
    pub(crate) access: access::Access,
    /// Whose word about their clients is taken.
    pub(crate) proxies: proxies::TrustedProxies,
    /// Users, roles and keys; `None`: whoever reaches the server may do everything.
    pub(crate) security: Option<Arc<authentication::Security>>,
    /// `action.destructive_requires_name` of the node, if it is given.
    pub(crate) destructive_requires_name: Option<bool>,
    /// Settings of the cluster that the node was given at its start: below those that are set while it runs.
    pub(crate) cluster_defaults: Map<String, Value>,
    /// From where it can be reached.
    pub(crate) reach: model::watermarks::Reach,
    /// Facts about indices, cached until the catalog changes.
    known: KnownIndices,
    pub(crate) scrolls: crate::actions::scroll::Scrolls,
    pub(crate) points_in_time: crate::actions::pit_counts::PointsInTime,
    /// Scripts that this layer compiled since the process began; the engine counts its own.
    script_compilations: AtomicU64,
    /// Connections and bodies, for `_nodes/stats`.
    pub(crate) traffic: Traffic,
    /// Requests, errors and waits, for `/_prometheus/metrics`.
    pub(crate) metrics: metrics::Metrics,
    /// Which client calls: of the engine too, where that has one.
    pub(crate) clients: Arc<engine::client_activity::ClientActivity>,
    /// The threads of requests with long bodies.
    long_requests: long_requests::LongRequests,
    /// Tasks of an earlier process, until somebody goes on with them.
    left: std::sync::Mutex<Vec<crate::actions::jobs::UnfinishedTask>>,
    /// True from the moment when the server is told to stop: whoever waits for somebody else is told so.
    pub(crate) stopping: tokio::sync::watch::Sender<bool>,
    /// The paths below `/_cat` of the table of endpoints, a line each.
    cat_paths: fn() -> String,
}

/// Counts of connections, all listeners together.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Connections that are open.
    open: Arc<AtomicUsize>,
    /// Connections since the process began.
    opened: AtomicU64,
}

impl Traffic {
    pub(crate) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
    pub(crate) fn opened_connections(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

/// How the server calls itself.
#[derive(Clone, Debug)]
pub struct Names {
    pub cluster: String,
    pub cluster_uuid: String,
    pub node: String,
    pub node_id: String,
    /// By which ids of locks, transactions and sessions begin; no other server over the same store has it.
    pub server: String,
    /// `X-Elastic-Product` is sent.
    pub product_header: bool,
    /// Where it listens, for `_nodes`.
    pub address: String,
}

/// Bounds of this layer.
#[derive(Clone, Debug)]
pub struct Limits {
    pub body_max_bytes: usize,
    /// The memory of the process: bodies, what requests build, answers.
    pub breakers: Arc<CircuitBreakers>,
    /// How deep requests may be.
    pub depths: model::Depths,
    /// Finished tasks that are remembered.
    pub tasks_kept_max: usize,
}

impl Rest {
    /// Over an engine.
    pub fn new(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, names: Names, limits: Limits) -> Rest {
        let tasks = Arc::new(Tasks::new(limits.tasks_kept_max));
        Rest {
            relations: Relations::new(engine.clone(), clock.clone(), tasks.clone(), &names.server),
            engine,
            scope: None,
            shared: Arc::new(Shared {
                clock,
                tasks,
                names,
                limits,
                access: access::Access::default(),
                proxies: proxies::TrustedProxies::default(),
                security: None,
                destructive_requires_name: None,
                cluster_defaults: Map::new(),
                reach: model::watermarks::Reach::Network,
                known: KnownIndices::default(),
                scrolls: crate::actions::scroll::Scrolls::default(),
                points_in_time: crate::actions::pit_counts::PointsInTime::default(),
                script_compilations: AtomicU64::new(0),
                traffic: Traffic::default(),
                metrics: metrics::Metrics::new(ENDPOINTS.iter().map(|endpoint| endpoint.api)),
                clients: Arc::default(),
                long_requests: long_requests::LongRequests::default(),
                left: std::sync::Mutex::default(),
                cat_paths: routes::cat_paths,
                stopping: tokio::sync::watch::Sender::new(false),
            }),
        }
    }

    /// With something of the shared state changed. Before anything is answered.
    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Rest {
        let shared = Arc::get_mut(&mut self.shared);
        change(shared.expect("nobody shares what is still being put together"));
        self
    }

    /// Changes by the portable path. Before anything is answered.
    #[must_use]
    pub fn by_portable_path(self, pause: Arc<dyn relations::intents::Pause>) -> Rest {
        Rest {
            relations: self.relations.by_portable_path(pause),
            ..self
        }
    }

    /// With the clients that the engine knows of. Before anything is answered.
    #[must_use]
    pub fn sharing_clients(self, clients: Arc<engine::client_activity::ClientActivity>) -> Rest {
        self.with(|shared| shared.clients = clients)
    }

    /// With requests of long bodies on the threads of this runtime, which takes several, and counted as long work. Before anything is
    /// answered.
    #[must_use]
    pub fn with_long_requests_on(self, threads: tokio::runtime::Handle, long_work: engine::long_work::LongWork) -> Rest {
        self.with(|shared| {
            shared.long_requests = long_requests::LongRequests {
                threads: Some(threads),
                long_work,
            };
        })
    }

    /// With these hosts and origins allowed. Before anything is answered.
    #[must_use]
    pub fn open_to(self, access: access::Access) -> Rest {
        self.with(|shared| shared.access = access)
    }

    /// With these proxies trusted. Before anything is answered.
    #[must_use]
    pub fn behind(self, proxies: proxies::TrustedProxies) -> Rest {
        self.with(|shared| shared.proxies = proxies)
    }

    /// With these users, roles and keys: nobody else is answered. Before anything is answered.
    #[must_use]
    pub fn with_security(self, security: Arc<authentication::Security>) -> Rest {
        self.with(|shared| shared.security = Some(security))
    }

    /// With the node's `action.destructive_requires_name`; `None`: as each persona has it. Before anything is answered.
    #[must_use]
    pub fn destructive_by_name(self, required: Option<bool>) -> Rest {
        self.with(|shared| shared.destructive_requires_name = required)
    }

    /// With these settings of the cluster where none is set while it runs. Before anything is answered.
    #[must_use]
    pub fn with_cluster_defaults(self, defaults: Map<String, Value>) -> Rest {
        self.with(|shared| shared.cluster_defaults = defaults)
    }

    /// With watermarks of a disk as they are where it can be reached from there. Before anything is answered.
    #[must_use]
    pub fn reached_from(self, reach: model::watermarks::Reach) -> Rest {
        self.with(|shared| shared.reach = reach)
    }

    /// As one request of a principal may use it. Work that outlives the request keeps to the same rights.
    pub(crate) fn acting_for(&self, scope: guard::Scope) -> Rest {
        debug_assert!(
            self.scope.is_none(),
            "security.md S1: rights are put around the server's own engine"
        );
        let scope = Arc::new(scope);
        let engine: Arc<dyn Engine> = Arc::new(guard::GuardedEngine { scope: scope.clone() });
        Rest {
            relations: self.relations.acting_on(engine.clone()),
            engine,
            scope: Some(scope),
            shared: self.shared.clone(),
        }
    }

    /// The server's own engine, whoever asks: for records of the server.
    pub(crate) fn own_engine(&self) -> &Arc<dyn Engine> {
        self.scope.as_ref().map_or(&self.engine, |scope| scope.own_engine())
    }

    /// After a start: what outlived it is as it was.
    ///
    /// # Errors
    /// A control index that cannot be read.
    pub async fn recover(&self) -> Result<()> {
        self.relations.recover().await?;
        let left = crate::actions::jobs::restore_tasks(self, self.relations.tasks_found().await?);
        self.left
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend(left);
        Ok(())
    }

    /// The same; where the control index cannot be read, what rests on it is refused from here on, for the reason that is
    /// given.
    pub async fn recover_or_refuse(&self) -> Option<String> {
        let cause = self.recover().await.err()?;
        self.relations.refuse(&cause);
        self.relations.control_failure().map(|error| error.reason().to_owned())
    }

    /// Goes on with the tasks of an earlier process. Called once there is a runtime.
    pub(crate) fn go_on(self: &Arc<Rest>) {
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        crate::actions::jobs::go_on(self, left);
        crate::actions::link_work::begin(self);
    }

    /// The indices behind a target.
    pub(crate) async fn indices(&self, target: &Target) -> Result<Vec<IndexInfo>> {
        self.engine.indices(target).await
    }

    /// Changes the catalog, and forgets what was known of it.
    pub(crate) async fn alter(&self, alteration: Alteration) -> Result<Altered> {
        let deletes = matches!(alteration, Alteration::DeleteIndices(_) | Alteration::UpdateAliases(_));
        let altered = self.engine.alter(alteration).await;
        self.known.forget();
        if deletes && altered.is_ok() {
            // A failure is harmless: the next start forgets the locks, or the next document of that id.
            let _ = self.relations.forget_gone().await;
        }
        altered
    }

    /// Forgets what was known of the catalog.
    pub(crate) fn forget_known(&self) {
        self.known.forget();
    }

    /// Is an index or alias of this name there, as far as anybody looked since the catalog changed?
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.known.has(name)
    }

    /// The facts about one index or alias; `None` if it is missing.
    ///
    /// Who has no right on the name learns nothing: to them it is missing.
    pub(crate) async fn index_facts(&self, name: &str) -> Option<Arc<IndexFacts>> {
        if let Some(scope) = &self.scope
            && !scope.knows_of(name).await
        {
            return None;
        }
        let seen = match self.known.look(name) {
            Ok(known) => return Some(known),
            Err(seen) => seen,
        };
        let mut target = Target::index(name);
        target.forbid_closed = false;
        target.expand_closed = true;
        let infos = self.own_engine().indices(&target).await.ok()?;
        let known = Arc::new(IndexFacts::of(name, &infos)?);
        self.known.learn(&seen, name, known.clone());
        Some(known)
    }

    /// Indices of a target with their figures.
    pub(crate) async fn stats(&self, target: Target) -> Result<Vec<(IndexInfo, IndexStats)>> {
        let mut found = match self.engine.inspect(engine::Inspection::Stats(target)).await? {
            engine::Inspected::Stats(stats) => stats,
            other => {
                let reason = format!("an engine answered {other:?} to a question about statistics");
                return Err(Error::new(ErrorKind::Internal, reason));
            }
        };
        for (info, stats) in &mut found {
            self.scrolls.count_into(&info.uuid, stats, self.clock.monotonic());
            self.points_in_time.count_into(&info.uuid, stats, self.clock.monotonic());
        }
        Ok(found)
    }

    /// Compiles a script and counts it. No program is kept, so `script.cache_evictions` is zero.
    pub(crate) fn compile_script(&self, source: &str, lang: script::Lang) -> Result<script::Program> {
        let program = script::compile(source, lang)?;
        self.script_compilations.fetch_add(1, Ordering::Relaxed);
        Ok(program)
    }

    /// Scripts that this layer compiled since the process began.
    pub(crate) fn script_compilations(&self) -> u64 {
        self.script_compilations.load(Ordering::Relaxed)
    }

    /// Cluster settings that are set: transient over persistent over those of the node.
    pub(crate) async fn cluster_settings(&self) -> Result<Map<String, Value>> {
        Ok(match self.engine.inspect(engine::Inspection::ClusterSettings).await? {
            engine::Inspected::ClusterSettings { persistent, transient } => self.over_defaults(persistent, transient),
            _ => self.cluster_defaults.clone(),
        })
    }

    /// These settings of the cluster, transient over persistent over those of the node.
    pub(crate) fn over_defaults(&self, persistent: Map<String, Value>, transient: Map<String, Value>) -> Map<String, Value> {
        let mut all = self.cluster_defaults.clone();
        all.extend(persistent);
        all.extend(transient);
        all
    }

    /// Creates a missing index for a write, if `action.auto_create_index` allows it.
    pub(crate) async fn auto_create(&self, index: &IndexName, dialect: Dialect) -> Result<()> {
        let settings = self.cluster_settings().await?;
        if model::settings::text(&settings, model::settings::AUTO_CREATE_INDEX) == "false" {
            return Err(missing_index(index.as_str()).with_cause(Error::new(
                ErrorKind::IndexNotFound,
                format!("no such index [{index}] and [action.auto_create_index] is [false]"),
            )));
        }
        let create = Alteration::index_if_missing(index.as_str(), dialect.rules.has_types);
        self.alter(create).await.map(|_| ())
    }
}

/// Which documents are locks, if any are.
/// The refusal for an index that is not there.
pub(crate) fn missing_index(name: &str) -> Error {
    Error::new(ErrorKind::IndexNotFound, format!("no such index [{name}]"))
        .with("index", name)
        .with("resource.id", name)
        .with("resource.type", "index_or_alias")
        .with("index_uuid", "_na_")
}

/// The `_shards` object of a write.
pub(crate) fn write_shards(replicas: u64) -> Value {
    serde_json::json!({ "total": 1 + replicas, "successful": 1, "failed": 0 })
}
