//! Puts the layers together: engine, relations and REST, from a configuration.
//!
//! The only place that names a concrete engine. Not here: listening, signals (`commands::serve`).

use crate::config::Config;
use embedded::EmbeddedEngine;
use engine::breaker::CircuitBreakers;
use engine::clock::{SystemClock, uuid};
use engine::{Clock, Engine};
use model::{Error, ErrorKind, Result};
use rest::{Limits, Names, Rest};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// A server that is ready to answer.
pub(crate) struct Wired {
    pub(crate) engine: Arc<EmbeddedEngine>,
    pub(crate) rest: Arc<Rest>,
}

/// Opens the data folder and stacks the layers on it.
///
/// # Errors
/// A folder that another process has, that cannot be written, or whose data cannot be read.
pub(crate) fn wire(config: &Config, address: &str) -> Result<Wired> {
    model::settings::fix_node(config.fixed.iter().copied());
    embedded::at_rest(crate::give_back);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = Arc::new(EmbeddedEngine::open(
        &config.data,
        clock.clone(),
        config.engine_limits.clone(),
    )?);
    let identity = identity(&config.data, clock.as_ref(), &config.changes_path)?;
    let names = Names {
        cluster: config.cluster_name.clone(),
        cluster_uuid: identity.cluster_uuid,
        node: config.node_name.clone(),
        node_id: identity.node_id,
        product_header: config.product_header,
        address: address.to_owned(),
    };
    let limits = Limits {
        body_max_bytes: config.body_max_bytes,
        breakers: CircuitBreakers::new(config.breaker_limits, crate::memory::resident()),
        depths: config.depths,
        tasks_kept_max: config.tasks_kept_max,
    };
    let shared: Arc<dyn Engine> = engine.clone();
    let mut rest = Rest::new(shared, clock, names, limits);
    if identity.changes_path == "portable" {
        rest = rest.by_portable_path(Arc::new(Sleep(tokio::runtime::Handle::current())));
    }
    let rest = Arc::new(rest);
    // Before the first answer: locks are held again, or somebody could pass.
    futures::executor::block_on(rest.recover())?;
    crate::give_back();
    Ok(Wired { rest, engine })
}

/// Who this data folder is, the same after every start.
struct Identity {
    cluster_uuid: String,
    node_id: String,
    /// The two paths number commits differently, so a folder stays with the one that it was made with.
    changes_path: String,
}

/// Waiting, also for threads that are none of the runtime's.
#[derive(Debug)]
struct Sleep(tokio::runtime::Handle);

#[async_trait::async_trait]
impl relations::changes::Pause for Sleep {
    async fn pause(&self, duration: std::time::Duration) {
        // It ends early only with the runtime.
        let _ = self.0.spawn(tokio::time::sleep(duration)).await;
    }
}

/// Reads the folder's identity, or gives it one. The caller holds the folder.
///
/// # Errors
/// A file that cannot be read or written; a folder that was made for the other path of changes.
fn identity(data: &Path, clock: &dyn Clock, changes_path: &str) -> Result<Identity> {
    let path = data.join("identity.json");
    let failed = |doing: &str, cause: std::io::Error| {
        Error::new(ErrorKind::Internal, format!("{doing} [{}] failed: {cause}", path.display()))
    };
    let known = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(cause) => return Err(failed("reading", cause)),
    };
    let text = |name: &str| known.get(name).and_then(Value::as_str).map(str::to_owned);
    if let (Some(cluster_uuid), Some(node_id)) = (text("cluster_uuid"), text("node_id")) {
        let made_with = text("changes_path").unwrap_or_else(|| "auto".to_owned());
        if made_with != changes_path {
            return Err(Error::illegal(format!(
                "[changes.path] is [{changes_path}], but the data folder [{}] was made with [{made_with}]; the two number commits differently",
                data.display()
            )));
        }
        return Ok(Identity {
            cluster_uuid,
            node_id,
            changes_path: made_with,
        });
    }
    // Nothing depends on these but their looks, so a file lost in a crash is made anew.
    let fresh = Identity {
        cluster_uuid: uuid(clock),
        node_id: uuid(clock),
        changes_path: changes_path.to_owned(),
    };
    let body = json!({
        "cluster_uuid": fresh.cluster_uuid, "node_id": fresh.node_id, "changes_path": fresh.changes_path,
    });
    std::fs::write(&path, format!("{body}\n")).map_err(|cause| failed("writing", cause))?;
    Ok(fresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_identity() {
        let dir = std::env::temp_dir().join(format!("pleach-identity-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let clock = SystemClock::default();
        let first = identity(&dir, &clock, "auto").unwrap();
        let again = identity(&dir, &clock, "auto").unwrap();
        assert_eq!((first.cluster_uuid, first.node_id), (again.cluster_uuid, again.node_id));
        let other = identity(&dir, &clock, "portable").err().map(|e| e.reason().to_owned());
        assert!(other.is_some_and(|why| why.contains("was made with [auto]")));
        std::fs::write(dir.join("identity.json"), "{").unwrap();
        assert_eq!(identity(&dir, &clock, "portable").unwrap().node_id.len(), 22);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
