//! Puts the layers together: engine, relations and REST, from a configuration.
//!
//! The only place that names a concrete engine. Not here: listening, signals (`commands::serve`).

use crate::config::Config;
use crate::identity::identity;
use crate::private;
use crate::users::FirstLogin;
use embedded::EmbeddedEngine;
use engine::breaker::CircuitBreakers;
use engine::clock::SystemClock;
use engine::long_work::LongWork;
use engine::{Clock, Engine};
use model::settings::{self, node_duration};
use model::{Error, ErrorKind, Result};
use rest::{Limits, Names, Rest};
use std::sync::Arc;
use tokio::runtime::Handle;
use tracing::warn;

/// The name of the server. A data folder belongs to one process, so there is no other to tell it from.
pub(crate) const SERVER: &str = "n1";

/// A server that is ready to answer.
pub(crate) struct Wired {
    pub(crate) engine: Arc<EmbeddedEngine>,
    pub(crate) rest: Arc<Rest>,
    /// How to log in, where nobody could until now.
    pub(crate) first_login: Option<FirstLogin>,
}

/// Opens the data folder and stacks the layers on it. Requests with long bodies run on `long_requests`.
///
/// # Errors
/// A folder that another process has, that cannot be written, or whose data cannot be read.
pub(crate) fn wire(config: &Config, address: &str, long_requests: Handle) -> Result<Wired> {
    settings::fix_node(config.fixed.iter().copied());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    if let Err(cause) = private::mend(&config.data) {
        warn!(target: "server", "others on this machine may read files of the data folder: {cause}");
    }
    let breakers = breakers(config)?;
    let long_work = LongWork::default();
    crate::preemption_tick::start(node_duration(settings::PREEMPTION_TICK), long_work.clone())?;
    let engine_limits = embedded::Limits {
        breakers: breakers.clone(),
        at_rest: Some(crate::memory::give_back),
        long_work: long_work.clone(),
        ..config.engine_limits.clone()
    };
    let engine = Arc::new(EmbeddedEngine::open(&config.data, clock.clone(), engine_limits)?);
    let identity = identity(
        &config.data,
        &engine,
        clock.as_ref(),
        &config.changes_path,
        |told| warn!(target: "server", "{told}"),
    )?;
    let names = Names {
        cluster: config.cluster_name.clone(),
        cluster_uuid: identity.cluster_uuid,
        node: config.node_name.clone(),
        node_id: identity.node_id,
        server: SERVER.to_owned(),
        product_header: config.product_header,
        address: address.to_owned(),
    };
    let limits = Limits {
        body_max_bytes: config.body_max_bytes,
        breakers,
        depths: config.depths,
        tasks_kept_max: config.tasks_kept_max,
    };
    let shared: Arc<dyn Engine> = engine.clone();
    let mut rest = Rest::new(shared, clock.clone(), names, limits)
        .sharing_clients(engine.client_activity())
        .with_long_requests_on(long_requests, long_work)
        .open_to(config.access.clone())
        .behind(config.proxies.clone())
        .with_cluster_defaults(config.cluster_defaults.clone())
        .reached_from(config.reach())
        .destructive_by_name(config.destructive_requires_name);
    let secured = match config.security {
        true => Some(crate::users::open(config, &engine, &clock)?),
        false => None,
    };
    let mut first_login = None;
    if let Some((security, first)) = secured {
        rest = rest.with_security(security);
        first_login = first;
    }
    if identity.changes_path == "portable" {
        if config.security {
            let reason = "[security.enabled] and [changes.path] = [portable] do not go together: changes by the portable path are not \
                          looked at for rights";
            return Err(Error::illegal(reason));
        }
        rest = rest.by_portable_path(Arc::new(Sleep(Handle::current())));
    }
    let rest = Arc::new(rest);
    // Before the first answer: locks are held again, or somebody could pass.
    if let Some(reason) = futures::executor::block_on(rest.recover_or_refuse()) {
        warn!(target: "server", "{reason}");
    }
    crate::memory::give_back();
    Ok(Wired {
        rest,
        engine,
        first_login,
    })
}

/// The account of the memory of the process.
///
/// # Errors
/// A thread that cannot be started.
fn breakers(config: &Config) -> Result<Arc<CircuitBreakers>> {
    let resident = crate::memory::resident(config.breaker_limits.total).map_err(|cause| {
        let reason = format!("starting the thread [release-pages] failed: {cause}");
        Error::new(ErrorKind::Internal, reason)
    })?;
    Ok(CircuitBreakers::reclaiming(
        config.breaker_limits,
        resident,
        crate::memory::reclaim,
    ))
}

/// Waiting, also for threads that are none of the runtime's.
#[derive(Debug)]
struct Sleep(Handle);

#[async_trait::async_trait]
impl relations::intents::Pause for Sleep {
    async fn pause(&self, duration: std::time::Duration) {
        // It ends early only with the runtime.
        let _ = self.0.spawn(tokio::time::sleep(duration)).await;
    }
}
