//! By-query jobs: delete, update, reindex.
//!
//! A job goes through the documents that matched when it began, by sequence number. Each batch is one change: the
//! writes, how far the job is, and what it has counted are one record of the log. So a document that matched at the
//! start is changed at most once, and exactly once if nobody else writes it, wherever the server is stopped: what has
//! been changed has another sequence number than the job looks for, and what is counted has been written.
//!
//! `plan` says what becomes of one document, `batch` commits some of them, `by_intents` does where changes are made by the
//! portable path, `record` is what a restarted server finds, `run` goes from the beginning to the end. Not here: threads, waiting, the words of requests and answers.

mod batch;
mod by_intents;
mod plan;
mod record;
mod run;

pub(crate) use record::is_sound;
pub use record::{Found, Kept, Order, TaskState};
pub use run::{Begun, JobStep, Run};

use crate::leases::Caller;
use dsl::query::Query;
use engine::DirectoryAt;
use model::path::SourceFilter;
use model::{CommitSeq, Error, Target};
use script::{Params, Program};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Documents of one batch.
pub const BATCH_MAX: usize = 1_000;
/// Warnings that are kept of a job.
const WARNINGS_MAX: usize = 16;

/// The action of a job on each document.
#[derive(Clone, Debug)]
pub enum JobAction {
    /// It goes.
    Delete,
    /// Script, or re-index as it is.
    Update {
        script: Option<(Program, Params)>,
        /// The part of the source that is kept; `None`: all.
        source: Option<SourceFilter>,
    },
    /// It is written elsewhere.
    Reindex {
        index: String,
        create: bool,
        /// External versions: those of the source must be newer, or may be equal.
        external: Option<bool>,
        script: Option<(Program, Params)>,
        routing: Option<String>,
        typed: bool,
        /// The part of the source that is copied; `None`: all.
        source: Option<SourceFilter>,
        /// A missing index that a script names is made.
        makes: bool,
    },
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which indices are scanned.
    pub target: Target,
    /// Which documents.
    pub query: Query,
    /// The action on each document.
    pub action: JobAction,
    /// Conflicts are counted, not fatal.
    pub proceed: bool,
    /// At most this many documents.
    pub max_docs: Option<u64>,
    /// Documents a batch, as asked for; batches are counted by it.
    pub batch: usize,
    /// Refresh afterwards.
    pub refresh: bool,
    /// Locks that the client holds: one of them covers each document that is written.
    pub guards: Vec<String>,
    /// All of it as one change, within these bounds, or nothing.
    pub whole: Option<Whole>,
    /// Directories that must not be there when it commits; only of a job that is one change.
    pub free: Vec<DirectoryAt>,
    /// Who asks: whose lock documents are.
    pub caller: Caller,
}

/// Bounds of a job that is one change.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// Documents.
    pub operations_max: u64,
    /// Bytes of their sources.
    pub bytes_max: u64,
    /// The names of the settings of both.
    pub operations_setting: &'static str,
    pub bytes_setting: &'static str,
}

/// The counters of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    pub total: u64,
    pub created: u64,
    pub updated: u64,
    pub deleted: u64,
    pub noops: u64,
    pub batches: u64,
    pub conflicts: u64,
    /// Documents that were looked at.
    pub done: u64,
    pub failures: Vec<Value>,
    pub took_ms: i64,
    pub cancelled: bool,
    /// For each index how many were found, and how many of them deleted.
    pub by_index: BTreeMap<String, (u64, u64)>,
    /// Foreign locks that it passed in advisory indices.
    pub warnings: Vec<String>,
    /// The number of a job that was one change.
    pub commit_seq: Option<CommitSeq>,
}

impl Counts {
    /// The status of a task and the core of its answer.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("total".into(), self.total.into());
        out.insert("updated".into(), self.updated.into());
        out.insert("created".into(), self.created.into());
        out.insert("deleted".into(), self.deleted.into());
        out.insert("batches".into(), self.batches.into());
        out.insert("version_conflicts".into(), self.conflicts.into());
        out.insert("noops".into(), self.noops.into());
        out.insert("retries".into(), json!({ "bulk": 0, "search": 0 }));
        out.insert("throttled_millis".into(), 0.into());
        out.insert("requests_per_second".into(), json!(-1.0));
        out.insert("throttled_until_millis".into(), 0.into());
        out
    }

    /// Documents of which it is counted what became of them, failures aside.
    fn count_settled(&self) -> u64 {
        self.created + self.updated + self.deleted + self.noops + self.conflicts
    }

    /// As the record of a job has them.
    fn keep(&self) -> Value {
        json!({
            "numbers": [self.total, self.created, self.updated, self.deleted, self.noops, self.conflicts, self.done],
            "failures": self.failures, "warnings": self.warnings, "commit_seq": self.commit_seq,
        })
    }

    /// The inverse of `keep`.
    fn recall(kept: &Value, batch: usize) -> Option<Counts> {
        let number = |n: usize| kept["numbers"][n].as_u64();
        let mut out = Counts {
            total: number(0)?,
            created: number(1)?,
            updated: number(2)?,
            deleted: number(3)?,
            noops: number(4)?,
            conflicts: number(5)?,
            failures: kept["failures"].as_array()?.clone(),
            warnings: serde_json::from_value(kept["warnings"].clone()).ok()?,
            commit_seq: kept["commit_seq"].as_u64(),
            ..Counts::default()
        };
        out.add_done(number(6)?, batch);
        Some(out)
    }

    /// The job ends by this: an index of it is gone.
    fn fail(&mut self, error: &Error) {
        let members = error.to_json();
        let index = members.get("index").cloned().unwrap_or_default();
        let status = error.status();
        self.failures
            .push(json!({ "index": index, "cause": members, "status": status }));
    }

    fn add_done(&mut self, more: u64, batch: usize) {
        self.done += more;
        self.batches = self.done.div_ceil(batch.max(1) as u64);
    }
}

impl crate::Relations {
    /// The registry of tasks.
    pub fn tasks(&self) -> &std::sync::Arc<engine::tasks::Tasks> {
        &self.tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_recalled() {
        let mut counts = Counts {
            total: 9,
            created: 1,
            updated: 2,
            deleted: 3,
            noops: 4,
            conflicts: 5,
            failures: vec![json!({ "id": "1" })],
            warnings: vec!["w".into()],
            commit_seq: Some(7),
            ..Counts::default()
        };
        counts.add_done(2001, 1000);
        assert_eq!(counts.batches, 3);
        assert_eq!(Counts::recall(&counts.keep(), 1000), Some(counts.clone()));
        assert_eq!(Counts::recall(&json!({}), 1000), None);
    }
}
