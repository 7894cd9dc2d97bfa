//! Snapshots as several endpoints need them: the engine's part, names, bodies, choices by patterns, tasks.
//!
//! Not here: endpoints (`handlers::snapshots`), the shape of answers (`render::snapshots`).

pub(crate) mod body;
pub(crate) mod choice;
pub(crate) mod names;
pub(crate) mod renaming;
pub(crate) mod work;

use crate::Rest;
use engine::snapshots::{Repository, Snapshots};
use model::{Error, ErrorKind, Result};

/// The snapshots of the engine.
///
/// # Errors
/// UnsupportedOperation: it has none.
pub(crate) fn snapshots_of(rest: &Rest) -> Result<&dyn Snapshots> {
    rest.engine.snapshots().ok_or_else(|| {
        let reason = "the engine of this server keeps no snapshots: take them where its data is";
        Error::new(ErrorKind::UnsupportedOperation, reason)
    })
}

/// The repositories that are registered. An engine without snapshots has none.
pub(crate) fn repositories_of(rest: &Rest) -> Vec<Repository> {
    let snapshots = rest.engine.snapshots();
    snapshots.map(|snapshots| snapshots.repositories()).unwrap_or_default()
}
