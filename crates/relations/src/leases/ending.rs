//! Leases of lock documents that end other than by a write of the document: their time is over, somebody breaks them,
//! or their index is gone. The document follows in the same record.
//!
//! Not here: leases of `_lock` (`sweep`), writes of lock documents (`ledger`).

use super::lease::{Ending, Lease};
use super::literal::released;
use crate::outcomes;
use engine::{Decision, EngineExt as _, Gate, Newest, Outcome, Plan, TxnOptions, Write, WriteOp};
use model::{Result, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// So many end in one record.
const TOGETHER: usize = 500;
/// What cannot be released now (its index is closed, or takes no writes) is tried again after so long.
const LATER: Duration = Duration::from_secs(1);

/// Nothing of a decision about leases was refused.
///
/// # Errors
/// What was.
pub(super) fn all_written(outcomes: &[Outcome]) -> Result<()> {
    outcomes::all_written(outcomes, "a document that nothing was expected of was in conflict")
}

impl crate::Relations {
    /// The time of these is over. What cannot be released now is held on.
    pub(super) async fn expire_literal(&self, overdue: &[Lease]) {
        for some in overdue.chunks(TOGETHER) {
            if self.expired_literal(some).await.is_ok() {
                continue;
            }
            // One of them is in the way of the others.
            for one in some {
                if self.expired_literal(std::slice::from_ref(one)).await.is_err() {
                    let until = self.clock.monotonic() + LATER;
                    self.locks.table().put_off(&one.id, until);
                }
            }
        }
    }

    async fn expired_literal(&self, leases: &[Lease]) -> Result<()> {
        let ended_ms = self.clock.wall_ms();
        let ids: Vec<Arc<str>> = leases.iter().map(|lease| lease.id.clone()).collect();
        self.settled(&ids, true).await?;
        let documents = leases.iter().filter_map(|lease| Some(lease.literal.as_ref()?.at.clone()));
        let deciding = TxnOptions {
            touches: documents.chain(ids.iter().map(|id| Lease::at(id))).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let mut planner = |newest: &mut dyn Newest| {
            // Who was asked for again meanwhile lives.
            let over: Vec<Lease> = {
                let table = self.locks.table();
                let ending = leases.iter().filter(|lease| table.is_ending(&lease.id));
                ending.cloned().collect()
            };
            let mut writes = released(newest, &over)?;
            let document = |lease: &Lease| WriteOp::Put(lease.document(Some((Ending::Expired, ended_ms))));
            writes.extend(over.iter().map(|lease| Write::new(Lease::at(&lease.id), document(lease))));
            let shared = self.locks.clone();
            Ok(Plan {
                writes,
                then: Some(Box::new(move |_: &Decision<'_>| {
                    let mut table = shared.table();
                    for lease in over {
                        table.end(&lease.id, Some((Ending::Expired, Some(lease.deadline))));
                    }
                })),
                ..Plan::default()
            })
        };
        all_written(&self.atomic()?.decide(&mut planner, deciding).await?.outcomes)
    }

    /// Lock documents whose index is gone are no locks. To be called when indices may have been deleted.
    ///
    /// # Errors
    /// The engine's.
    pub async fn forget_gone(&self) -> Result<()> {
        let indices: BTreeSet<(String, String)> = {
            let table = self.locks.table();
            if !table.has_literal() {
                return Ok(());
            }
            let literals = table.leases().filter_map(|lease| lease.literal.as_ref());
            literals.map(|l| (l.at.index.to_string(), l.uuid.clone())).collect()
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
                let literal = lease.literal.as_ref();
                literal.is_some_and(|l| is_gone(l.at.index.as_str(), &l.uuid))
            });
            of.map(|lease| lease.id.clone()).collect()
        };
        self.forget_leases(&gone).await
    }

    /// Leases that protect nothing any more.
    pub(super) async fn forget_leases(&self, gone: &[Arc<str>]) -> Result<()> {
        for some in gone.chunks(TOGETHER) {
            let deciding = TxnOptions {
                touches: some.iter().map(|id| Lease::at(id)).collect(),
                gate: Gate::Exclusive,
                ..TxnOptions::default()
            };
            let mut planner = |_: &mut dyn Newest| {
                let (shared, ids) = (self.locks.clone(), some.to_vec());
                Ok(Plan {
                    writes: some.iter().map(|id| Write::new(Lease::at(id), WriteOp::Delete)).collect(),
                    then: Some(Box::new(move |_: &Decision<'_>| {
                        let mut table = shared.table();
                        ids.iter().for_each(|id| table.end(id, None));
                    })),
                    ..Plan::default()
                })
            };
            all_written(&self.atomic()?.decide(&mut planner, deciding).await?.outcomes)?;
        }
        Ok(())
    }
}
