//! A change that is a list of operations: foreign locks, conditions, operations folded, a rehearsal.
//!
//! Not here: what operations come to (`plan`), running an attempt (`runner`).

use super::attempt::{Attempt, Change, Ended, Planned, Planning, Verdict};
use super::growing::rehearsed;
use super::plan::{Before, Failure, Folded, fold, touched, unmet};
use super::record::{Effects, Token, record_address};
use super::runner::{Runner, lock_address};
use crate::locks::{Blocker, Lock, LockKey, Owner, write_claims};
use async_trait::async_trait;
use engine::{Hide, Read, Write, WriteOp};
use model::{DocAddress, Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Operations of one change, `changes.max_operations`.
pub const OPERATIONS_MAX: usize = 10_000;

impl Runner {
    /// Runs one attempt to its end. An `Aborted` verdict is for the caller to try again, under a new id and the age.
    ///
    /// # Errors
    /// The engine's. The change is then undecided or decided; whoever resolves it learns which.
    pub async fn run(&self, change: &Change) -> Result<Verdict> {
        if change.operations.len().max(change.otherwise.len()) > OPERATIONS_MAX {
            return Err(Error::illegal(format!(
                "a change of {} operations is larger than [changes.max_operations] = {OPERATIONS_MAX}",
                change.operations.len()
            )));
        }
        let all: Vec<Write> = change.operations.iter().chain(&change.otherwise).cloned().collect();
        let attempt = Attempt {
            id: change.id.clone(),
            age: change.age,
            addresses: touched(&all, &change.conditions),
            locks: change.locks.clone(),
            under: Vec::new(),
            digest: change.digest.clone(),
            deadline: change.deadline,
        };
        let mut folding = Folding {
            runner: self,
            change,
            addresses: &attempt.addresses,
            why: None,
        };
        let ended = self.attempt(&attempt, &mut folding).await?;
        Ok(match (ended, folding.why) {
            (Ended::Committed { token, .. }, Some(Verdict::Committed { items, otherwise, .. })) => {
                Verdict::Committed { token, items, otherwise }
            }
            (Ended::Stopped, Some(why)) => why,
            (Ended::Refused { error, .. }, _) => return Err(error),
            (Ended::LockEnded { lock, state }, _) => Verdict::LockEnded { lock, state },
            (Ended::Aborted { age }, _) => Verdict::Aborted { age },
            (Ended::TimedOut, _) => Verdict::TimedOut,
            (ended, why) => unreachable!("{ended:?} comes from a plan, which is {why:?}"),
        })
    }

    /// Foreign owners of locks that cover a document of the change. Read after the record was acknowledged, and before
    /// the commit, in one read that shows the record too: a copy that does not is not the real one.
    async fn foreign_locks(&self, change: &Change, addresses: &BTreeSet<DocAddress>) -> Result<Vec<(LockKey, Vec<Blocker>)>> {
        let mut wanted: BTreeMap<LockKey, crate::locks::Mode> = BTreeMap::new();
        for claim in addresses.iter().flat_map(|at| write_claims(at, &[])) {
            let mode = wanted.get(&claim.key).map_or(claim.mode, |known| known.join(claim.mode));
            wanted.insert(claim.key, mode);
        }
        let mut turn = 1;
        let documents = loop {
            let reads = wanted.keys().map(lock_address).chain([record_address(&change.id)]);
            let mut documents = self.engine.read(reads.map(Read::whole).collect()).await?;
            if documents.pop().flatten().is_some() {
                break documents;
            }
            self.rest(turn).await;
            turn += 1;
        };
        let own: Vec<Owner> = change.locks.iter().cloned().chain([change.id.clone()]).collect();
        let mut blocked = Vec::new();
        for ((key, mode), document) in wanted.iter().zip(documents) {
            let Some(document) = document else { continue };
            let lock = Lock::parse(&document.source.parse()?)?;
            if lock.key != *key {
                continue;
            }
            let blockers: Vec<Blocker> = lock
                .against(*mode, &own)
                .map(|(owner, holder)| Blocker {
                    owner: owner.clone(),
                    mode: holder.mode,
                    session: holder.session.clone(),
                    age: holder.age,
                    waiting: false,
                })
                .collect();
            if !blockers.is_empty() {
                blocked.push((key.clone(), blockers));
            }
        }
        Ok(blocked)
    }

    /// Would the outcomes be taken? Who wrote a refused one last is told.
    async fn rehearse(&self, folded: &mut Folded) -> Result<()> {
        let mut writes = Vec::new();
        let mut items = Vec::new();
        for (at, item) in &folded.writers {
            if let Some(Effects::Put {
                source,
                routing,
                parent,
                timing,
            }) = folded.outcomes.get_mut(at)
            {
                writes.push(Write {
                    hide: Hide::Drop,
                    routing: routing.clone(),
                    parent: parent.clone(),
                    timing: timing.clone(),
                    ..Write::new(at.clone(), WriteOp::Put(source.clone()))
                });
                items.push(*item);
                if at.id.doc_type.is_some() {
                    *timing = std::mem::take(timing).judged(self.clock.wall_ms());
                }
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        for (item, refused) in items.into_iter().zip(rehearsed(&*self.engine, &writes).await?) {
            if let Some(error) = refused {
                folded.items[item] = Err(Failure::Refused(error));
            }
        }
        Ok(())
    }
}

/// The plan of a [`Change`]: foreign locks, conditions, operations folded, a rehearsal.
struct Folding<'a> {
    runner: &'a Runner,
    change: &'a Change,
    addresses: &'a BTreeSet<DocAddress>,
    /// What the caller is told; of a commit without its token.
    why: Option<Verdict>,
}

#[async_trait]
impl Planning for Folding<'_> {
    async fn plan(&mut self, before: &BTreeMap<DocAddress, Before>) -> Result<Planned> {
        let change = self.change;
        let blocked = self.runner.foreign_locks(change, self.addresses).await?;
        if !blocked.is_empty() {
            self.why = Some(Verdict::Locked(blocked));
            return Ok(Planned::Stop);
        }
        let condition = unmet(&change.conditions, before);
        let otherwise = condition.is_some();
        let mut folded = fold(if otherwise { &change.otherwise } else { &change.operations }, before);
        self.runner.rehearse(&mut folded).await?;
        if let Some((condition, conflict)) = condition.filter(|_| change.otherwise.is_empty()) {
            self.why = Some(Verdict::Unmet { condition, conflict });
            return Ok(Planned::Impossible);
        }
        if folded.items.iter().any(Result::is_err) {
            self.why = Some(Verdict::Failed(folded.items));
            return Ok(Planned::Impossible);
        }
        self.why = Some(Verdict::Committed {
            token: Token { term: 0, seq: 0 },
            items: folded.items.iter().filter_map(|item| item.as_ref().ok().copied()).collect(),
            otherwise,
        });
        Ok(Planned::Commit(folded.outcomes))
    }
}
