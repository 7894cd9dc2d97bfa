//! The counts of a link policy: what waits, what is old, what was done, what does not succeed.

use crate::Relations;
use crate::links::carriers::{is_possible, query_of_keys};
use async_recursion::async_recursion as boxed;
use dsl::search::{SearchRequest, TrackTotal};
use engine::See;
use model::{Error, ErrorKind, Result, Target};

/// Changed sources whose copies are counted; of more the count is a lower bound.
const COUNTED_MAX: usize = 1_000;

/// The counts of one policy.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Changed sources whose copies still follow.
    pub pending: u64,
    /// Documents that refer to those, as searches see them.
    pub stale: u64,
    /// How long the oldest of them waits.
    pub lag_ms: u64,
    /// Copies rewritten since the server started.
    pub propagated: u64,
    /// Those of `pending` that did not succeed the last time.
    pub failed: u64,
    /// Why one of them did not.
    pub failure: Option<Error>,
}

impl Relations {
    /// The counts of a policy.
    ///
    /// # Errors
    /// No policy of that name; the engine's.
    #[boxed]
    pub async fn link_stats(&self, name: &str) -> Result<LinkStats> {
        let policy = self.link_policy(name)?;
        let jobs = self.links.pending.of_policy(name);
        let oldest = jobs.iter().map(|(_, job)| job.since_ms).min();
        let lag = oldest.map_or(0, |since| self.clock.wall_ms() - since);
        let keys = jobs
            .iter()
            .map(|((_, key), _)| &**key)
            .filter(|key| is_possible(&policy, key));
        let keys: Vec<&str> = keys.take(COUNTED_MAX).collect();
        let stale = if keys.is_empty() {
            0
        } else {
            let request = SearchRequest {
                query: Some(query_of_keys(&policy, keys)?),
                size: 0,
                track_total_hits: TrackTotal::Exact,
                ..SearchRequest::default()
            };
            match self
                .engine
                .search(&Target::index(&policy.target.index), request, See::Plain)
                .await
            {
                Err(e) if e.kind() == ErrorKind::IndexNotFound => 0,
                found => found?.hits.total.map_or(0, |total| total.value),
            }
        };
        Ok(LinkStats {
            pending: jobs.len() as u64,
            stale,
            lag_ms: u64::try_from(lag).unwrap_or(0),
            propagated: self.links.pending.propagated_count(name),
            failed: jobs.iter().filter(|(_, job)| job.failures > 0).count() as u64,
            failure: jobs.into_iter().find_map(|(_, job)| job.error),
        })
    }
}
