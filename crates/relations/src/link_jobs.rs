//! Copies that follow their source later: the work that changes of sources in mode async leave behind.
//!
//! One job is one source of one policy. It looks for the documents that refer to the source and writes each anew that is not as
//! it should be, some hundred in one decision. What is right is left alone, so a job that a restart begins again goes on where
//! it was. A job ends when its document in the control index goes, which happens only if the source did not change
//! meanwhile (links.md K6). Not here: leaving a job behind (`links::upkeep`), threads and waiting (`rest`).

use crate::Relations;
use crate::atomically::{Step, Transaction};
use crate::leases::guard::{Guard, check_linked};
use crate::links::carriers::{is_possible, query_of_keys};
use crate::links::references::{Copied, Fate, copied_values, keys, rewrite};
use crate::links::{JobId, LinkJob, OnDelete, Policy, Propagated, States, job_at, states_of};
use async_recursion::async_recursion as boxed;
use engine::{Barrier, Document, Gate, Newest, Plan, See, Source, TxnOptions, Write, WriteIndex, WriteOp};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use model::settings::LINKS_MAX_SYNC;
use model::{DocAddress, Error, ErrorKind, Result, Target};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Documents of one decision.
const BATCH: usize = 1_000;
/// Bytes of their sources, about.
const BATCH_BYTES: usize = 4 << 20;

/// Some documents that refer to one source, made as they should be.
struct LinkBatch<'a> {
    relations: &'a Relations,
    policy: &'a Arc<Policy>,
    source: &'a DocAddress,
    documents: &'a [DocAddress],
}

impl Transaction for LinkBatch<'_> {
    /// How many were written.
    type Answer = u64;

    fn options(&self) -> TxnOptions {
        TxnOptions {
            touches: self.documents.iter().chain([self.source]).cloned().collect(),
            gate: Gate::Shared,
            ..TxnOptions::default()
        }
    }

    fn filling_policy(&self) -> Option<&Arc<Policy>> {
        Some(self.policy)
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<u64>> {
        let target = newest.index(&self.policy.target.index)?;
        let source = match newest.read(self.source, See::Plain) {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => None,
            found => found?,
        };
        let source: Option<Copied> = match source {
            Some(source) => Some(copied_values(self.policy, &source.source.parse()?)),
            None => None,
        };
        let mut writes = Vec::new();
        for at in self.documents {
            let Some(document) = newest.read(at, See::Plain)? else {
                continue;
            };
            let new = match self.fate_of(document.source.parse()?, source.as_ref())? {
                Rewritten::Same => continue,
                Rewritten::Other(new) => Some(new),
                Rewritten::Gone => None,
            };
            self.check_linked(&target, at, &|| states_of(Some(&document), new.as_ref()))?;
            let op = match &new {
                Some(new) => WriteOp::Put(Source::from_value(new)),
                None => WriteOp::Delete,
            };
            writes.push(Write {
                index_uuid: Some(target.uuid.clone()),
                ..Write::over(&document, op)
            });
        }
        let count = writes.len() as u64;
        Ok(Step::Commit(Plan::of(writes), count))
    }

    fn check_linked(&self, index: &WriteIndex, at: &DocAddress, states: &States<'_>) -> Result<()> {
        let guard = Guard::new(&self.relations.locks, &self.relations.clock, &[], false)?;
        check_linked(guard, index, at, states)
    }
}

/// A document as it should be.
enum Rewritten {
    Same,
    Other(Value),
    Gone,
}

impl LinkBatch<'_> {
    fn fate_of(&self, mut document: Value, source: Option<&Copied>) -> Result<Rewritten> {
        let key = &*self.source.id.id;
        let fate = match (source, self.policy.on_delete) {
            (Some(copied), _) => Fate::Copy(copied.clone()),
            (None, OnDelete::Unset) => Fate::Unset,
            (None, OnDelete::Cascade) => {
                let refers = keys(self.policy, &document)?.iter().any(|one| one == key);
                return Ok(if refers { Rewritten::Gone } else { Rewritten::Same });
            }
            (None, OnDelete::Restrict | OnDelete::Ignore) => return Ok(Rewritten::Same),
        };
        let one = &mut |one: &str| Ok(if one == key { fate.clone() } else { Fate::Leave });
        let changed = rewrite(self.policy, &mut document, one)?;
        Ok(if changed {
            Rewritten::Other(document)
        } else {
            Rewritten::Same
        })
    }
}

impl Relations {
    /// Resolves once there is work that link policies left.
    #[boxed]
    pub async fn link_work_arrived(&self) {
        self.links.pending.wait_for_job().await;
    }

    /// Does the work that link policies left, as far as it is due.
    #[boxed]
    pub async fn run_link_jobs(&self) {
        while let Some((id, job)) = self.links.pending.due(self.clock.monotonic()) {
            let done = AssertUnwindSafe(self.run_link_job(&id, &job)).catch_unwind().await;
            // A job that panics fails alone, and is tried again like any other.
            let panicked = |_| {
                Err(Error::new(
                    ErrorKind::Internal,
                    "the job panicked; the log of the server says where",
                ))
            };
            if let Err(error) = done.unwrap_or_else(panicked) {
                self.links.pending.fail(&id, error, self.clock.monotonic());
            }
        }
    }

    /// Waits until the copies of a source have followed its change, which gave it this number.
    #[boxed]
    pub async fn links_followed(&self, at: &DocAddress, seq_no: u64) -> Vec<Propagated> {
        let policies = self.links.table().from(at.index.as_str());
        let id = |policy: Arc<Policy>| -> JobId { (Arc::from(policy.name.as_str()), at.id.id.clone()) };
        let ids: Vec<JobId> = policies.into_iter().map(id).collect();
        self.links.pending.wait_for_jobs(&ids, seq_no).await
    }

    /// Waits until all copies that are still to follow have followed, or cannot yet.
    #[boxed]
    pub async fn all_links_followed(&self) {
        self.links.pending.wait_for_all_jobs().await;
    }

    async fn run_link_job(&self, id: &JobId, job: &LinkJob) -> Result<()> {
        let Some(policy) = self.links.table().policy(&id.0).cloned() else {
            // It was deleted; its jobs go with it.
            self.links.pending.forget(&id.0);
            return Ok(());
        };
        let kept_at = job_at(&id.0, &id.1);
        let Some(kept) = self.link_job_kept(&kept_at, id).await? else {
            self.links.pending.end(id, job.round);
            return Ok(());
        };
        if is_possible(&policy, &id.1) {
            self.rewrite_copies(&policy, id).await?;
        }
        self.forget_link_job(kept_at, id, kept).await?;
        self.links.pending.end(id, job.round);
        Ok(())
    }

    /// Makes every document that refers to a source as it should be.
    async fn rewrite_copies(&self, policy: &Arc<Policy>, id: &JobId) -> Result<()> {
        let target = Target::index(&policy.target.index);
        let source = policy.source_at(&id.1);
        // A document that refers to it since its change was filled in when it was written. Earlier ones are there, also those
        // that nobody was told of yet.
        match self.engine.refresh(&target, Some(0)).await {
            Err(e) if e.kind() == ErrorKind::IndexNotFound => return Ok(()),
            other => drop(other?),
        }
        let query = query_of_keys(policy, [&*id.1])?;
        let mut found = self.engine.scan(&target, query, See::Plain, Barrier::None).await?;
        let mut failed = None;
        let mut documents = next_addresses(&mut found).await?;
        while !documents.is_empty() {
            // The next ones are read while the disk writes.
            let rewritten = self.rewrite_batch(policy, &source, &documents, id);
            let (rewritten, next) = futures::join!(rewritten, next_addresses(&mut found));
            if let Err(error) = rewritten {
                if error.is_transient() || matches!(error.kind(), ErrorKind::LogFailed | ErrorKind::IndexNotFound) {
                    return Err(error);
                }
                // The others go on; this one is tried again.
                failed = Some(error);
            }
            documents = next?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// One batch; where it is refused its halves, down to the documents that cannot be written.
    async fn rewrite_batch(&self, policy: &Arc<Policy>, source: &DocAddress, documents: &[DocAddress], id: &JobId) -> Result<()> {
        let mut left: Vec<&[DocAddress]> = vec![documents];
        let mut failed = None;
        while let Some(documents) = left.pop() {
            let mut batch = LinkBatch {
                relations: self,
                policy,
                source,
                documents,
            };
            match self.atomically(&mut batch).await {
                Ok(done) => self.links.pending.note_progress(id, done.answer),
                Err(error) if documents.len() > 1 && is_of_one(&error) => {
                    let (one, other) = documents.split_at(documents.len() / 2);
                    left.extend([other, one]);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Where the next documents of a scan are; none at its end.
async fn next_addresses(found: &mut BoxStream<'static, Result<Document>>) -> Result<Vec<DocAddress>> {
    let (mut documents, mut bytes) = (Vec::new(), 0);
    while documents.len() < BATCH && bytes < BATCH_BYTES {
        let Some(document) = found.next().await else { break };
        let document = document?;
        bytes += document.source.0.len();
        documents.push(document.at);
    }
    Ok(documents)
}

/// May a part of the documents be written all the same? A chain of policies is bounded by their number.
fn is_of_one(error: &Error) -> bool {
    let by_number = error.details().get("setting").is_some_and(|name| name == LINKS_MAX_SYNC.name);
    by_number
        || !(error.is_transient()
            || matches!(
                error.kind(),
                ErrorKind::LogFailed | ErrorKind::IndexNotFound | ErrorKind::Internal
            ))
}
