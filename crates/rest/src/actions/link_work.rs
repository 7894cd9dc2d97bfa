//! The task that does the work which link policies leave behind: copies that follow their source later.
//!
//! Not here: the work (`relations`).

use crate::Rest;
use std::sync::Arc;
use std::time::Duration;

/// How long what failed waits at least until somebody looks again.
const LOOK_EACH: Duration = Duration::from_millis(500);

/// Works until the server stops.
pub(crate) fn begin(rest: &Arc<Rest>) {
    let rest = rest.clone();
    let mut stopping = rest.stopping.subscribe();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return,
                _ = tokio::time::timeout(LOOK_EACH, rest.relations.link_work_arrived()) => {}
            }
            // A stop waits for nobody: a job that is cut goes on after the start.
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => return,
                () = rest.relations.run_link_jobs() => {}
            }
        }
    });
}
