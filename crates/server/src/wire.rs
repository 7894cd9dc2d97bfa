//! Puts the layers together: engine, relations and REST, from a configuration.
//!
//! The only place that names a concrete engine. Not here: listening, signals (`commands::serve`).

use crate::config::Config;
use embedded::EmbeddedEngine;
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
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let engine = Arc::new(EmbeddedEngine::open(
        &config.data,
        clock.clone(),
        config.engine_limits.clone(),
    )?);
    let identity = identity(&config.data, clock.as_ref())?;
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
        in_flight_max_bytes: config.in_flight_max_bytes,
        depths: config.depths,
        tasks_kept_max: config.tasks_kept_max,
    };
    let shared: Arc<dyn Engine> = engine.clone();
    let rest = Arc::new(Rest::new(shared, clock, names, limits));
    // Before the first answer: locks are held again, or somebody could pass.
    futures::executor::block_on(rest.recover())?;
    crate::give_back();
    Ok(Wired { rest, engine })
}

/// Who this data folder is, the same after every start.
struct Identity {
    cluster_uuid: String,
    node_id: String,
}

/// Reads the folder's identity, or gives it one. The caller holds the folder.
fn identity(data: &Path, clock: &dyn Clock) -> Result<Identity> {
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
        return Ok(Identity { cluster_uuid, node_id });
    }
    // Nothing depends on these but their looks, so a file lost in a crash is made anew.
    let fresh = Identity {
        cluster_uuid: uuid(clock),
        node_id: uuid(clock),
    };
    let body = json!({ "cluster_uuid": fresh.cluster_uuid, "node_id": fresh.node_id });
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
        let first = identity(&dir, &clock).unwrap();
        let again = identity(&dir, &clock).unwrap();
        assert_eq!((first.cluster_uuid, first.node_id), (again.cluster_uuid, again.node_id));
        std::fs::write(dir.join("identity.json"), "{").unwrap();
        assert_eq!(identity(&dir, &clock).unwrap().node_id.len(), 22);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
