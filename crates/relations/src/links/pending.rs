//! Copies that follow later: for each policy the sources that changed and whose copies are not all rewritten yet.
//!
//! The truth is a document of the control index for each, written in the record of the change (links.md K6); this is the
//! same in memory, with what became of the work. Not here: the work (`link_jobs`).

use super::policy::Policy;
use crate::schema;
use engine::{Source, Write, WriteOp};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Outcomes that are remembered for `propagate=wait_for`.
const FINISHED_MAX: usize = 4_096;
/// The first wait after a failure; it doubles, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A policy by name, and the id of a source.
pub(crate) type JobId = (Arc<str>, Arc<str>);

/// A source whose copies are to be rewritten.
#[derive(Clone, Debug)]
pub(crate) struct LinkJob {
    /// When it changed, in milliseconds since 1970.
    pub(crate) since_ms: i64,
    /// The sequence number of the source after its newest change; 0 after a restart.
    pub(crate) seq_no: u64,
    /// Raised by each change of the source.
    pub(crate) round: u64,
    /// Copies rewritten so far.
    pub(crate) updated: u64,
    pub(crate) failures: u32,
    pub(crate) error: Option<Error>,
    /// Not before, on the monotonic clock.
    next: Duration,
}

/// The outcome for the copies of one source.
#[derive(Clone, Debug)]
pub struct Propagated {
    /// The policy.
    pub policy: Arc<str>,
    /// Copies that were rewritten.
    pub updated: u64,
    /// Why some were not, so far; the work goes on.
    pub failure: Option<Error>,
}

#[derive(Debug, Default)]
struct PendingState {
    jobs: BTreeMap<JobId, LinkJob>,
    finished: HashMap<JobId, (u64, u64)>,
    /// Copies rewritten since the start, by policy.
    propagated: HashMap<Arc<str>, u64>,
    waiting: Vec<Waker>,
}

/// All of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<PendingState>>);

impl Pending {
    fn state(&self) -> MutexGuard<'_, PendingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alter<T>(&self, alter: impl FnOnce(&mut PendingState) -> T) -> T {
        let (out, woken) = {
            let mut state = self.state();
            let out = alter(&mut state);
            (out, std::mem::take(&mut state.waiting))
        };
        woken.into_iter().for_each(Waker::wake);
        out
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.state().jobs.len()
    }

    /// A source has changed.
    pub(crate) fn add(&self, id: JobId, since_ms: i64, seq_no: u64) {
        self.alter(|state| {
            let known = state.jobs.get(&id);
            let job = LinkJob {
                // The oldest copy that is wrong counts.
                since_ms: known.map_or(since_ms, |job| job.since_ms.min(since_ms)),
                seq_no,
                round: known.map_or(0, |job| job.round + 1),
                updated: 0,
                failures: 0,
                error: None,
                next: Duration::ZERO,
            };
            state.jobs.insert(id, job);
        });
    }

    /// Copies were rewritten in the change of the source itself.
    pub(crate) fn note_sync(&self, id: JobId, seq_no: u64, updated: u64) {
        self.alter(|state| {
            *state.propagated.entry(id.0.clone()).or_default() += updated;
            remember(state, id, seq_no, updated);
        });
    }

    /// A job whose time has come: the one that waits longest.
    pub(crate) fn due(&self, now: Duration) -> Option<(JobId, LinkJob)> {
        let state = self.state();
        let due = state.jobs.iter().filter(|(_, job)| job.next <= now);
        due.min_by_key(|(_, job)| (job.failures, job.since_ms))
            .map(|(id, job)| (id.clone(), job.clone()))
    }

    /// Copies were rewritten by a job.
    pub(crate) fn note_progress(&self, id: &JobId, updated: u64) {
        self.alter(|state| {
            *state.propagated.entry(id.0.clone()).or_default() += updated;
            if let Some(job) = state.jobs.get_mut(id) {
                job.updated += updated;
            }
        });
    }

    /// How often the source of a job has changed since the job began; `None`: there is no such job.
    pub(crate) fn round(&self, id: &JobId) -> Option<u64> {
        self.state().jobs.get(id).map(|job| job.round)
    }

    /// A job has ended, unless its source changed meanwhile.
    pub(crate) fn end(&self, id: &JobId, round: u64) {
        self.alter(|state| {
            if state.jobs.get(id).is_some_and(|job| job.round == round)
                && let Some(job) = state.jobs.remove(id)
            {
                remember(state, id.clone(), job.seq_no, job.updated);
            }
        });
    }

    /// A job did not succeed and is tried again.
    pub(crate) fn fail(&self, id: &JobId, error: Error, now: Duration) {
        self.alter(|state| {
            if let Some(job) = state.jobs.get_mut(id) {
                let wait = FIRST_WAIT * 2u32.saturating_pow(job.failures.min(8));
                job.failures = job.failures.saturating_add(1);
                job.error = Some(error);
                job.next = now + wait.min(LONGEST_WAIT);
                debug_assert!(job.next > now, "a job that failed waits before it is tried again");
            }
        });
    }

    /// A policy is gone: so are its jobs. Their ids.
    pub(crate) fn of_policy(&self, name: &str) -> Vec<(JobId, LinkJob)> {
        let state = self.state();
        let own = state.jobs.iter().filter(|((policy, _), _)| **policy == *name);
        own.map(|(id, job)| (id.clone(), job.clone())).collect()
    }

    /// Forgets what is known of a policy.
    pub(crate) fn forget(&self, name: &str) {
        self.alter(|state| {
            state.jobs.retain(|(policy, _), _| **policy != *name);
            state.finished.retain(|(policy, _), _| **policy != *name);
            state.propagated.remove(name);
        });
    }

    /// Copies of a policy rewritten since the start.
    pub(crate) fn propagated_count(&self, name: &str) -> u64 {
        self.state().propagated.get(name).copied().unwrap_or(0)
    }

    /// Resolves once a job is there that has not failed.
    pub(crate) async fn wait_for_job(&self) {
        self.until(|state| state.jobs.values().any(|job| job.failures == 0)).await;
    }

    /// Resolves once none of these is left that has not failed; what became of each since the source had this number.
    pub(crate) async fn wait_for_jobs(&self, ids: &[JobId], seq_no: u64) -> Vec<Propagated> {
        let is_settled = |state: &PendingState, id: &JobId| state.jobs.get(id).is_none_or(|job| job.failures > 0);
        self.until(|state| ids.iter().all(|id| is_settled(state, id))).await;
        let state = self.state();
        let one = |id: &JobId| {
            let (updated, failure) = match (state.jobs.get(id), state.finished.get(id)) {
                (Some(job), _) => (job.updated, job.error.clone()),
                (None, Some((at, updated))) if *at >= seq_no => (*updated, None),
                _ => (0, None),
            };
            Propagated {
                policy: id.0.clone(),
                updated,
                failure,
            }
        };
        ids.iter().map(one).collect()
    }

    /// Resolves once every job that is there now has ended or failed.
    pub(crate) async fn wait_for_all_jobs(&self) {
        let ids: Vec<JobId> = self.state().jobs.keys().cloned().collect();
        self.wait_for_jobs(&ids, 0).await;
    }

    async fn until(&self, mut holds: impl FnMut(&PendingState) -> bool) {
        poll_fn(|context| {
            let mut state = self.state();
            if holds(&state) {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn remember(state: &mut PendingState, id: JobId, seq_no: u64, updated: u64) {
    if state.finished.len() >= FINISHED_MAX {
        state.finished.clear();
    }
    state.finished.insert(id, (seq_no, updated));
}

/// Where a job is kept.
pub(crate) fn job_at(policy: &str, key: &str) -> DocAddress {
    let hash = blake3::hash(key.as_bytes()).to_hex();
    DocAddress {
        index: IndexName::new(schema::CONTROL),
        id: DocId::plain(format!("l:job:{policy}:{hash}")),
    }
}

/// The write that leaves a job behind.
pub(crate) fn job_write(policy: &Policy, key: &str, now_ms: i64) -> Write {
    let source = json!({ "kind": "link_job", "policy": policy.name, "id": key, "at": now_ms });
    debug_assert!(
        recall_job(&source).is_ok_and(|((name, id), since_ms)| (&*name, &*id, since_ms) == (policy.name.as_str(), key, now_ms)),
        "links.md K6: a start reads the document of a job as it was written: {source}"
    );
    Write::new(job_at(&policy.name, key), WriteOp::Put(Source::from_value(&source)))
}

/// A kept job: whose it is, and since when.
///
/// # Errors
/// It is none.
pub(crate) fn recall_job(kept: &Value) -> Result<(JobId, i64)> {
    let text = |name: &str| kept[name].as_str().map(Arc::from);
    let of = || Some(((text("policy")?, text("id")?), kept["at"].as_i64()?));
    of().ok_or_else(|| Error::new(ErrorKind::Corruption, format!("no sound link job: {kept}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_meanwhile_keeps_the_job() {
        let pending = Pending::default();
        let id: JobId = ("author".into(), "1".into());
        pending.add(id.clone(), 5, 10);
        let (_, job) = pending.due(Duration::ZERO).expect("a job");
        pending.add(id.clone(), 7, 11);
        pending.end(&id, job.round);
        let (_, job) = pending.due(Duration::ZERO).expect("it is still there");
        assert_eq!((job.since_ms, job.seq_no), (5, 11));
        pending.note_progress(&id, 3);
        pending.end(&id, job.round);
        let done = futures::executor::block_on(pending.wait_for_jobs(std::slice::from_ref(&id), 11));
        assert_eq!(done[0].updated, 3);
        assert_eq!(
            futures::executor::block_on(pending.wait_for_jobs(&[id], 12))[0].updated,
            0,
            "of an earlier change"
        );
    }

    #[test]
    fn what_fails_waits() {
        let pending = Pending::default();
        let id: JobId = ("author".into(), "1".into());
        pending.add(id.clone(), 5, 10);
        pending.fail(&id, Error::illegal("no"), Duration::ZERO);
        assert!(pending.due(Duration::ZERO).is_none());
        assert!(pending.due(FIRST_WAIT).is_some());
        let done = futures::executor::block_on(pending.wait_for_jobs(&[id], 10));
        assert!(done[0].failure.is_some());
    }
}
