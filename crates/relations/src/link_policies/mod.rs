//! Link policies of the store: putting, listing and deleting them, and reading them at a start.
//!
//! A policy is a document of the control index. A policy that is put counts from before its document is written: whoever began
//! by the policies before is waited for (links.md K5). `validate` checks it against mappings, `check` compares copies,
//! `figures` has its counts. Not here: what policies do (`links`), work that follows later (`link_jobs`).

mod check;
mod figures;
mod validate;

pub use check::{Checked, Difference};
pub use figures::LinkStats;

use crate::Relations;
use crate::atomically::Step;
use crate::links::{JobId, Policy, PolicyTable, job_at, no_policy, recall_job};
use crate::schema;
use async_recursion::async_recursion as boxed;
use dsl::json::Node;
use engine::{Document, Newest, Plan, See, Source, TxnOptions, Write, WriteOp};
use model::settings::{LINKS_MAX_DEPTH, LINKS_MAX_POLICIES, node_count};
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

fn policy_at(name: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new(schema::CONTROL),
        id: DocId::plain(format!("l:policy:{name}")),
    }
}

impl Relations {
    /// Does a link policy name this index?
    pub fn is_linked(&self, index: &str) -> bool {
        self.links.table().has(index)
    }

    /// The indices whose documents are copied into those of this one.
    pub fn link_sources(&self, index: &str) -> Vec<String> {
        let policies = self.links.table().to(index);
        policies.iter().map(|policy| policy.source.index.clone()).collect()
    }

    /// Every link policy, by name.
    pub fn link_policies(&self) -> Vec<Arc<Policy>> {
        self.links.table().policies().cloned().collect()
    }

    /// One link policy.
    ///
    /// # Errors
    /// `resource_not_found_exception`.
    pub fn link_policy(&self, name: &str) -> Result<Arc<Policy>> {
        let table = self.links.table();
        table.policy(name).cloned().ok_or_else(|| no_policy(name, &table))
    }

    /// Puts a link policy. False: the same is there already.
    ///
    /// # Errors
    /// A body, an index or a field that it cannot be with; a circle; another policy of that name; an engine that cannot.
    #[boxed]
    pub async fn put_link_policy(&self, name: &str, body: Node) -> Result<bool> {
        if self.portable.is_some() || self.engine.atomic().is_none() {
            let reason = "link policies need one record of the log for a change and its copies, which the portable path \
                          ([changes.path]) does not have";
            return Err(Error::new(ErrorKind::UnsupportedOperation, reason));
        }
        self.check_control()?;
        let policy = validate::check(self.engine.as_ref(), Policy::parse(name, body)?).await?;
        let _alone = self.links.altering.lock().await;
        let before = self.links.table();
        if let Some(known) = before.policy(name) {
            if known.is_same_request(&policy) && known.source == policy.source && known.target == policy.target {
                return Ok(false);
            }
            let reason = format!("link policy [{name}] is there with another definition; delete it first");
            return Err(Error::new(ErrorKind::IndexAlreadyExists, reason).with("policy", name));
        }
        let policy = Arc::new(policy);
        let after =
            PolicyTable::of(before.policies().cloned().chain([policy.clone()])).map_err(|error| circle_error(&error, &policy))?;
        check_limits(&before, &after)?;
        validate::check_beside(&policy, &before)?;
        drop(before);
        self.replace_when_idle(after).await;
        let write = Write::new(policy_at(name), WriteOp::Put(Source::from_value(&policy.keep())));
        let how = TxnOptions {
            touches: vec![write.at.clone()],
            ..TxnOptions::default()
        };
        let body = |newest: &mut dyn Newest| {
            let mut plan = Plan::of(vec![write.clone()]);
            if matches!(newest.index(schema::CONTROL), Err(e) if e.kind() == ErrorKind::IndexNotFound) {
                plan.alterations.push(schema::make_control());
            }
            Ok(Step::Commit(plan, ()))
        };
        let done = self.atomically_once(how, body).await;
        if done.is_err() {
            self.take_out(name).await?;
        }
        done.map(|()| true)
    }

    /// Deletes a link policy, and the work that is left of it. Copies stay as they are.
    ///
    /// # Errors
    /// There is none; an engine that cannot.
    #[boxed]
    pub async fn delete_link_policy(&self, name: &str) -> Result<()> {
        self.check_control()?;
        let _alone = self.links.altering.lock().await;
        self.link_policy(name)?;
        // Nobody leaves work behind from here on.
        self.take_out(name).await?;
        let jobs = self.links.pending.of_policy(name);
        let gone = jobs
            .iter()
            .map(|((policy, key), _)| job_at(policy, key))
            .chain([policy_at(name)]);
        let writes: Vec<Write> = gone.map(|at| Write::new(at, WriteOp::Delete)).collect();
        let how = TxnOptions {
            touches: writes.iter().map(|write| write.at.clone()).collect(),
            makes_room: true,
            ..TxnOptions::default()
        };
        self.atomically_once(how, |_: &mut dyn Newest| Ok(Step::Commit(Plan::of(writes.clone()), ())))
            .await?;
        self.links.pending.forget(name);
        Ok(())
    }

    /// The policies without one.
    async fn take_out(&self, name: &str) -> Result<()> {
        let others: Vec<Arc<Policy>> = self
            .link_policies()
            .into_iter()
            .filter(|policy| policy.name != name)
            .collect();
        let table = PolicyTable::of(others)?;
        self.replace_when_idle(table).await;
        Ok(())
    }

    /// Other policies from now on. Returns once nobody writes by the former ones any more (K5).
    async fn replace_when_idle(&self, table: PolicyTable) {
        let former = self.links.replace(table);
        poll_fn(|context| {
            if Arc::strong_count(&former) == 1 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.links.announce_after(&former);
    }

    /// After a start: the policies and the work that is left, as the control index says.
    ///
    /// # Errors
    /// A document that cannot be read.
    pub(crate) async fn recover_links(&self) -> Result<()> {
        let Some(documents) = self.control_documents(&["link_policy", "link_job"]).await? else {
            return Ok(());
        };
        let (mut policies, mut jobs) = (Vec::new(), Vec::new());
        for document in documents {
            let kept = document.source.parse()?;
            if kept["kind"] == "link_policy" {
                policies.push(Arc::new(Policy::recall(&kept)?));
            } else {
                jobs.push(recall_job(&kept)?);
            }
        }
        self.links.replace(PolicyTable::of(policies)?);
        for (id, since_ms) in jobs {
            self.links.pending.add(id, since_ms, 0);
        }
        Ok(())
    }

    /// The stamp of the document of a job, and its round in memory; `None`: there is no document. A decision reads both: a job is known
    /// from inside the decision that leaves it, and this one waits for that.
    pub(crate) async fn link_job_kept(&self, at: &DocAddress, id: &JobId) -> Result<Option<KeptJob>> {
        let how = TxnOptions {
            touches: vec![at.clone()],
            ..TxnOptions::default()
        };
        let body = |newest: &mut dyn Newest| {
            let found = newest.read(at, See::Everything)?;
            let kept = |document: Document| KeptJob {
                stamp: document.stamp,
                round: self.links.pending.round(id),
            };
            Ok(Step::Reply(found.map(kept)))
        };
        self.atomically_once(how, body).await
    }

    /// The work that one change left is done, unless the change was followed by another one.
    pub(crate) async fn forget_link_job(&self, at: DocAddress, id: &JobId, kept: KeptJob) -> Result<()> {
        let how = TxnOptions {
            touches: vec![at.clone()],
            makes_room: true,
            ..TxnOptions::default()
        };
        let body = |newest: &mut dyn Newest| {
            let found = newest.read(&at, See::Everything)?.map(|document| document.stamp);
            let writes = match found {
                Some(found) if found == kept.stamp => {
                    // A policy that was deleted meanwhile took its jobs out of memory.
                    let round = self.links.pending.round(id);
                    debug_assert!(
                        round.is_none() || round == kept.round,
                        "links.md K6: the document of a job goes, and its source has changed since the job read it"
                    );
                    vec![Write::new(at.clone(), WriteOp::Delete)]
                }
                _ => Vec::new(),
            };
            Ok(Step::Commit(Plan::of(writes), ()))
        };
        self.atomically_once(how, body).await
    }
}

/// A job as the control index and the memory have it at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptJob {
    stamp: model::Stamp,
    round: Option<u64>,
}

/// Is this a sound document of the control index?
///
/// # Errors
/// It is none.
pub(crate) fn check_kept(kept: &serde_json::Value) -> Result<()> {
    match kept["kind"].as_str() {
        Some("link_policy") => Policy::recall(kept).map(drop),
        _ => recall_job(kept).map(drop),
    }
}

/// The circle that a policy would close.
fn circle_error(error: &Error, policy: &Policy) -> Error {
    let (from, to) = (&policy.source.index, &policy.target.index);
    let reason = format!(
        "link policy [{}] from [{from}] to [{to}] would copy an index into itself, by itself or by others",
        policy.name
    );
    Error::new(error.kind(), reason).with("policy", policy.name.as_str())
}

fn check_limits(before: &PolicyTable, after: &PolicyTable) -> Result<()> {
    let count = before.policies().count();
    for (is, setting, what) in [
        (count + 1, LINKS_MAX_POLICIES, "link policies"),
        (after.deepest(), LINKS_MAX_DEPTH, "link policies in one chain"),
    ] {
        let most = node_count(setting);
        if is > most {
            let reason = format!(
                "[{is}] {what} are too many; the limit of [{most}] is the setting [{}]",
                setting.name
            );
            return Err(Error::illegal(reason).with("setting", setting.name));
        }
    }
    Ok(())
}
