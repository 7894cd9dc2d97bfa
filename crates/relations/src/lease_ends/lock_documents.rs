//! Leases of lock documents that end other than by a write of the document: their time is over, somebody breaks them,
//! or their index is gone. The document follows in the same record.
//!
//! Not here: leases of `_lock` (`expire`), writes of lock documents (`lock_documents`).

use crate::atomically::Step;
use crate::leases::{Ending, Lease};
use crate::lock_documents::release::release;
use async_recursion::async_recursion as boxed;
use engine::{Decision, EngineExt as _, Gate, Newest, Plan, TxnOptions, Write, WriteOp};
use model::{Result, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// So many end in one record.
const TOGETHER: usize = 500;
/// A lease that cannot be released now (its index is closed, or takes no writes) is tried again after so long.
const LATER: Duration = Duration::from_secs(1);

impl crate::Relations {
    /// The time of these is over. What cannot be released now is held on.
    pub(super) async fn expire_lock_documents(&self, overdue: &[Lease]) {
        for some in overdue.chunks(TOGETHER) {
            if self.write_expired_lock_documents(some).await.is_ok() {
                continue;
            }
            // One of them is in the way of the others.
            for one in some {
                if self.write_expired_lock_documents(std::slice::from_ref(one)).await.is_err() {
                    let until = self.clock.monotonic() + LATER;
                    self.locks.table().put_off(&one.id, until);
                }
            }
        }
    }

    async fn write_expired_lock_documents(&self, leases: &[Lease]) -> Result<()> {
        let ended_at = self.ends_now();
        let ids: Vec<Arc<str>> = leases.iter().map(|lease| lease.id.clone()).collect();
        self.finish_changes_under(&ids, true).await?;
        let documents = leases
            .iter()
            .filter_map(|lease| Some(lease.lock_document.as_ref()?.at.clone()));
        let options = TxnOptions {
            touches: documents.chain(ids.iter().map(|id| Lease::at(id))).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let body = |newest: &mut dyn Newest| {
            // Who was asked for again meanwhile lives.
            let over: Vec<Lease> = {
                let table = self.locks.table();
                let ending = leases.iter().filter(|lease| table.is_ending(&lease.id));
                ending.cloned().collect()
            };
            let mut writes = release(newest, &over)?;
            let document = |lease: &Lease| WriteOp::Put(lease.document(Some((Ending::Expired, ended_at))));
            writes.extend(over.iter().map(|lease| Write::new(Lease::at(&lease.id), document(lease))));
            let shared = self.locks.clone();
            let end = move |_: &Decision<'_>| {
                let mut table = shared.table();
                for lease in over {
                    table.end(&lease.id, Some((Ending::Expired, Some(lease.deadline))));
                }
            };
            Ok(Step::CommitWith(Plan::of(writes), Box::new(end)))
        };
        self.atomically_once(options, body).await
    }

    /// Lock documents whose index is gone are no locks. To be called when indices may have been deleted.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn forget_gone(&self) -> Result<()> {
        let indices: BTreeSet<(String, String)> = {
            let table = self.locks.table();
            if !table.has_lock_documents() {
                return Ok(());
            }
            let lock_documents = table.leases().filter_map(|lease| lease.lock_document.as_ref());
            lock_documents.map(|l| (l.at.index.to_string(), l.uuid.clone())).collect()
        };
        let mut there: BTreeMap<&str, Option<String>> = BTreeMap::new();
        for (name, _) in &indices {
            if there.contains_key(name.as_str()) {
                continue;
            }
            let target = Target {
                ignore_unavailable: true,
                forbid_closed: false,
                expand_closed: true,
                ..Target::index(name.as_str())
            };
            let found = self.engine.indices(&target).await?;
            let own = found.into_iter().find(|info| info.name.as_str() == name);
            there.insert(name, own.map(|info| info.uuid));
        }
        let is_gone = |name: &str, uuid: &str| there.get(name).is_some_and(|found| found.as_deref() != Some(uuid));
        let gone: Vec<Arc<str>> = {
            let table = self.locks.table();
            let of = table.leases().filter(|lease| {
                let lock_document = lease.lock_document.as_ref();
                lock_document.is_some_and(|l| is_gone(l.at.index.as_str(), &l.uuid))
            });
            of.map(|lease| lease.id.clone()).collect()
        };
        self.forget_leases(&gone).await
    }

    /// Leases that protect nothing any more.
    pub(super) async fn forget_leases(&self, gone: &[Arc<str>]) -> Result<()> {
        for some in gone.chunks(TOGETHER) {
            let options = TxnOptions {
                touches: some.iter().map(|id| Lease::at(id)).collect(),
                gate: Gate::Exclusive,
                ..TxnOptions::default()
            };
            let body = |_: &mut dyn Newest| {
                let (shared, ids) = (self.locks.clone(), some.to_vec());
                let deletions = some.iter().map(|id| Write::new(Lease::at(id), WriteOp::Delete));
                let end = move |_: &Decision<'_>| {
                    let mut table = shared.table();
                    ids.iter().for_each(|id| table.end(id, None));
                };
                Ok(Step::CommitWith(Plan::of(deletions.collect()), Box::new(end)))
            };
            self.atomically_once(options, body).await?;
        }
        Ok(())
    }
}
