//! Writes of lock documents applied to the table of locks, in one exclusive decision (T15, T21).
//!
//! A document that appears is a lock taken, one that goes is a lock given back, a count that rises or falls is one holder
//! more or less; what is there and is asked for again is renewed. Everything else is refused. The leases are written
//! in the record of the documents themselves, so that there is the one if and only if there is the other.
//!
//! The document decides: holders that it does not count are over, and who it counts without a lease (it was there
//! before anybody looked) is nobody in particular: anybody may release it.
//!
//! Not here: leases that end by themselves or are broken (`lease_ends`).

use super::format::{LockState, LockWrite, lease, target_of};
use crate::leases::Locks;
use crate::leases::caller::{Caller, CallerDifference};
use crate::leases::lease::{Lease, LockDocument, token_of};
use crate::leases::table::Table;
use crate::locks::{Age, Answer, Claim, Lock, LockAction, LockKey, Mode, Owner, Request, step};
use crate::schema;
use engine::{Alteration, Clock, Decision, Newest, Plan, Write, WriteOp};
use model::lock_index::lock_ttl;
use model::{DocAddress, Error, ErrorKind, Result, settings};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The age of who never waits: everybody who waits came first.
const LAST: Age = Age {
    term: u64::MAX,
    seq: u64::MAX,
};

/// Made before a decision about lock documents, which excludes all others: names for new leases, and what it will touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreparedLocks {
    /// Ids of new leases, as many as there may be.
    ids: Vec<Arc<str>>,
    /// Leases of the documents, as far as they are known.
    pub(crate) known: Vec<Arc<str>>,
    /// The claims of the documents.
    pub(crate) claims: Vec<Claim>,
}

impl PreparedLocks {
    /// Was it made for these writes?
    pub(crate) fn suffices(&self, writes: &[LockWrite]) -> bool {
        self.ids.len() as u64 >= steps(writes) && writes.iter().all(|write| self.claims.contains(&claim(write)))
    }

    /// Documents whose stripes are wanted.
    pub(crate) fn touches(&self) -> impl Iterator<Item = DocAddress> + '_ {
        self.ids.iter().chain(&self.known).map(|id| Lease::at(id))
    }
}

impl crate::Relations {
    /// Names and claims for these writes.
    pub(crate) fn prepare_locks(&self, writes: &[LockWrite]) -> PreparedLocks {
        let ids = (0..steps(writes)).map(|_| Arc::from(self.new_id(""))).collect();
        let table = self.locks.table();
        let known = writes
            .iter()
            .flat_map(|write| table.leases_of_document(&write.at).map(|lease| lease.id.clone()));
        PreparedLocks {
            known: known.collect(),
            claims: writes.iter().map(claim).collect(),
            ids,
        }
    }
}

/// New leases that these writes may begin.
fn steps(writes: &[LockWrite]) -> u64 {
    let steps: u64 = writes.iter().map(|write| write.steps).sum();
    steps.min(settings::node(settings::LOCKS_MAX))
}

fn claim(write: &LockWrite) -> Claim {
    Claim {
        key: target_of(&write.at).key(),
        mode: Mode::Exclusive,
        implied: false,
    }
}

/// The changes of the table of locks, before they are made.
pub(crate) struct TableChanges<'a> {
    table: &'a Table,
    caller: &'a Caller,
    ids: VecDeque<Arc<str>>,
    now_ms: i64,
    locks: HashMap<LockKey, Lock>,
    granted: Vec<Lease>,
    gone: Vec<Arc<str>>,
    renewed: Vec<Arc<str>>,
}

/// # Errors
/// A count of holders that rises or falls by more than the operations on it.
fn check_steps(write: &LockWrite, before: u64, after: u64) -> Result<()> {
    if before.abs_diff(after) <= write.steps {
        return Ok(());
    }
    Err(Error::illegal(format!(
        "[lock_count] of lock document {} counts who holds it and changes by one, but from [{before}] to [{after}]",
        name(&write.at)
    )))
}

/// # Errors
/// A write under locks of which none is that of the document.
fn check_under(write: &LockWrite, holders: &[&Lease]) -> Result<()> {
    let is_named = |lease: &&Lease| write.under.iter().any(|id| **id == *lease.id);
    if write.under.is_empty() || holders.iter().any(is_named) {
        return Ok(());
    }
    let reason = format!(
        "lock [{}] is not that of lock document {}",
        write.under.join(", "),
        name(&write.at)
    );
    Err(Error::new(ErrorKind::LockTarget, reason)
        .with("index", write.at.index.as_str())
        .with("id", &*write.at.id.id))
}

/// The refusal of an exclusive lock that would become a shared one, or the other way.
fn mode_changes(write: &LockWrite, before: LockState) -> Error {
    let (was, becomes) = match before {
        LockState::Exclusive => ("exclusive", "shared"),
        LockState::Shared(_) => ("shared", "exclusive"),
    };
    Error::illegal(format!(
        "lock document {} is [{was}] and cannot become [{becomes}]: release it and take it again",
        name(&write.at)
    ))
}

impl<'a> TableChanges<'a> {
    pub(crate) fn new(table: &'a Table, caller: &'a Caller, prepared: &PreparedLocks, now_ms: i64) -> TableChanges<'a> {
        TableChanges {
            table,
            caller,
            ids: prepared.ids.iter().cloned().collect(),
            now_ms,
            locks: HashMap::new(),
            granted: Vec::new(),
            gone: Vec::new(),
            renewed: Vec::new(),
        }
    }

    /// A write of a lock document.
    ///
    /// # Errors
    /// `lock_not_owned_exception`, `lock_conflict_exception`; a source that says nothing a lock can be; limits.
    pub(crate) fn apply(&mut self, write: &LockWrite) -> Result<()> {
        let before = write.before.as_ref().map(LockState::of_stored).transpose()?;
        let after = match &write.after {
            _ if write.noop => before,
            Some(source) => Some(LockState::read(&source.parse()?)?),
            None => None,
        };
        let holders = self.holders(write, before);
        check_under(write, &holders)?;
        let caller = self.caller.as_process(write.process_id.clone());
        let strict = settings::text(&write.settings, settings::PLEACH_LOCK_STRICT) != "false";
        let theirs = |lease: &Lease| match &lease.lock_document {
            Some(lock_document) if strict && !write.proved && write.under.is_empty() => caller.differs(&lock_document.caller),
            _ => None,
        };
        match (before, after) {
            (None, None) => Ok(()),
            (None, Some(says)) => {
                if says.holders() > write.steps {
                    return Err(Error::illegal(format!(
                        "lock document {} begins with one holder: [lock_count] must be [1] but is [{}]",
                        name(&write.at),
                        says.holders()
                    )));
                }
                self.acquire(write, &caller, says.mode(), says.holders())
            }
            (Some(_), None) => {
                for lease in &holders {
                    self.check_owner(write, lease, theirs(lease))?;
                    self.check_idle(lease)?;
                }
                holders.into_iter().for_each(|lease| self.forget(lease));
                Ok(())
            }
            (Some(LockState::Exclusive), Some(LockState::Exclusive)) if holders.is_empty() => {
                self.acquire(write, &caller, Mode::Exclusive, 1)
            }
            (Some(LockState::Exclusive), Some(LockState::Exclusive)) => {
                self.check_owners(write, &holders, &theirs)?;
                self.renew(&holders, theirs);
                Ok(())
            }
            (Some(LockState::Shared(before)), Some(LockState::Shared(after))) => {
                check_steps(write, before, after)?;
                if after > before {
                    return self.acquire(write, &caller, Mode::IntentExclusive, after - before);
                }
                if after < before {
                    return self.leave(write, holders, &caller, theirs, before, before - after);
                }
                // To look at it is no claim.
                if !write.noop {
                    self.check_owners(write, &holders, &theirs)?;
                }
                self.renew(&holders, theirs);
                Ok(())
            }
            (Some(before), Some(_)) => Err(mode_changes(write, before)),
        }
    }

    /// The caller's own leases among these last longer.
    fn renew(&mut self, holders: &[&'a Lease], theirs: impl Fn(&Lease) -> Option<CallerDifference>) {
        let own = holders.iter().filter(|lease| theirs(lease).is_none());
        self.renewed.extend(own.map(|lease| lease.id.clone()));
    }

    /// Who holds the document. Leases that it does not count are over.
    fn holders(&mut self, write: &LockWrite, says: Option<LockState>) -> Vec<&'a Lease> {
        let most = says.map_or(0, LockState::holders);
        let mode = says.map(LockState::mode);
        let mut holders: Vec<&'a Lease> = Vec::new();
        for lease in self.table.leases_of_document(&write.at) {
            let here = lease
                .lock_document
                .as_ref()
                .is_some_and(|lock_document| lock_document.uuid == write.uuid);
            let counted = (holders.len() as u64) < most && lease.claims.first().map(|claim| claim.mode) == mode;
            if here && counted {
                holders.push(lease);
            } else {
                self.forget(lease);
            }
        }
        holders
    }

    fn acquire(&mut self, write: &LockWrite, caller: &Caller, mode: Mode, count: u64) -> Result<()> {
        let ttl = lock_ttl(&write.settings)?;
        let most = settings::node_count(settings::LOCKS_MAX);
        for _ in 0..count {
            if self.table.count() + self.granted.len() >= most + self.gone.len() {
                let reason = format!("there are [{most}] locks already; the limit is the setting [locks.max]");
                return Err(Error::new(ErrorKind::RejectedExecution, reason));
            }
            let Some(id) = self.ids.pop_front() else {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "more locks are taken than were made ready for",
                ));
            };
            let lock_document = LockDocument {
                at: write.at.clone(),
                uuid: write.uuid.clone(),
                caller: caller.clone(),
            };
            let lease = lease(id, lock_document, mode, ttl, self.now_ms);
            if self.table.runs_on(&lease.claims) {
                let reason = "a change that is not finished writes there";
                return Err(Error::new(ErrorKind::LockConflict, reason).with("index", write.at.index.as_str()));
            }
            for claim in &lease.claims {
                let request = Request {
                    owner: Owner::new(lease.id.clone()),
                    session: lease.id.clone(),
                    age: LAST,
                    action: LockAction::Acquire {
                        mode: claim.mode,
                        wait: false,
                    },
                };
                let table = self.table;
                let lock = self.lock(&claim.key);
                let (next, answer) = step(lock.clone(), &request);
                match answer {
                    Answer::Granted { .. } => *lock = next,
                    Answer::Busy { blockers } => {
                        return Err(match blockers.first() {
                            Some(blocker) => table.conflict(&claim.key, blocker),
                            None => Error::new(ErrorKind::LockConflict, "the lock is not free"),
                        });
                    }
                    other => {
                        let reason = format!("who holds nothing and does not wait was answered {other:?}");
                        return Err(Error::new(ErrorKind::Internal, reason));
                    }
                }
            }
            self.granted.push(lease);
        }
        Ok(())
    }

    /// Some of the caller's holders leave, those first of which most is known to be the caller's.
    fn leave(
        &mut self,
        write: &LockWrite,
        mut holders: Vec<&'a Lease>,
        caller: &Caller,
        theirs: impl Fn(&Lease) -> Option<CallerDifference>,
        counted: u64,
        leaving: u64,
    ) -> Result<()> {
        let mut nobodys = counted.saturating_sub(holders.len() as u64);
        let named = |lease: &Lease| write.under.iter().any(|id| **id == *lease.id);
        let agreements = |lease: &Lease| {
            lease
                .lock_document
                .as_ref()
                .map_or(0, |lock_document| caller.agreements(&lock_document.caller))
        };
        holders.sort_by_key(|lease| std::cmp::Reverse((named(lease), agreements(lease), lease.token)));
        let mut left = Vec::new();
        for _ in 0..leaving {
            if let Some(n) = holders.iter().position(|lease| theirs(lease).is_none()) {
                let lease = holders.remove(n);
                self.check_idle(lease)?;
                left.push(lease);
            } else if nobodys > 0 {
                nobodys -= 1;
            } else if let Some(lease) = holders.first() {
                return self.check_owner(write, lease, theirs(lease));
            }
        }
        left.into_iter().for_each(|lease| self.forget(lease));
        Ok(())
    }

    fn check_owners(
        &self,
        write: &LockWrite,
        holders: &[&Lease],
        theirs: &impl Fn(&Lease) -> Option<CallerDifference>,
    ) -> Result<()> {
        holders
            .iter()
            .try_for_each(|lease| self.check_owner(write, lease, theirs(lease)))
    }

    fn check_owner(&self, write: &LockWrite, lease: &Lease, different: Option<CallerDifference>) -> Result<()> {
        let Some(different) = different else { return Ok(()) };
        let CallerDifference {
            name: which,
            caller,
            owner,
        } = different;
        let reason = format!(
            "lock document {} is held by [{}], whose [{which}] is [{owner}], not [{caller}]; its owner may release it, or [POST /_lock/{}/_break]",
            name(&write.at),
            lease.name(),
            lease.id
        );
        Err(Error::new(ErrorKind::LockNotOwned, reason)
            .with("index", write.at.index.as_str())
            .with("id", &*write.at.id.id)
            .with("holder", json!({ "lock": &*lease.id, "owner": lease.owner })))
    }

    /// By the portable path a change may not be finished that is made under it.
    fn check_idle(&self, lease: &Lease) -> Result<()> {
        if self.table.runs_under(std::slice::from_ref(&lease.id)).is_empty() {
            return Ok(());
        }
        let reason = format!("a change under lock [{}] is not finished", lease.id);
        Err(Error::new(ErrorKind::LockConflict, reason).with("lock", &*lease.id))
    }

    fn forget(&mut self, lease: &Lease) {
        if self.gone.contains(&lease.id) {
            return;
        }
        let owner = Owner::new(lease.id.clone());
        for claim in &lease.claims {
            self.lock(&claim.key).holders.remove(&owner);
        }
        self.gone.push(lease.id.clone());
    }

    /// A lock as it will be.
    fn lock(&mut self, key: &LockKey) -> &mut Lock {
        let there = || self.table.lock(key).cloned().unwrap_or_else(|| Lock::new(key.clone()));
        self.locks.entry(key.clone()).or_insert_with(there)
    }

    /// Its leases become part of the plan, and the table follows once the record has its place.
    ///
    /// # Errors
    /// A control index that cannot be written.
    pub(crate) fn into_plan(self, newest: &mut dyn Newest, plan: &mut Plan, locks: &Locks, clock: &Arc<dyn Clock>) -> Result<()> {
        let TableChanges {
            granted, gone, renewed, ..
        } = self;
        debug_assert!(
            granted
                .iter()
                .all(|lease| !gone.contains(&lease.id) && !renewed.contains(&lease.id)),
            "T21: a lease that begins by a record neither ends nor goes on by it"
        );
        debug_assert!(
            (1..gone.len()).all(|n| !gone[..n].contains(&gone[n])) && renewed.iter().all(|id| !gone.contains(id)),
            "T2: a lease ends once by a record, and does not go on by it: {gone:?}"
        );
        if granted.is_empty() && gone.is_empty() && renewed.is_empty() {
            return Ok(());
        }
        if let Err(e) = newest.index(schema::CONTROL) {
            if e.kind() != ErrorKind::IndexNotFound {
                return Err(e);
            }
            let made = |a: &Alteration| matches!(a, Alteration::CreateIndex { name, .. } if name == schema::CONTROL);
            if !granted.is_empty() && !plan.alterations.iter().any(made) {
                plan.alterations.push(schema::make_control());
            }
        }
        let first = plan.writes.len();
        let document = |lease: &Lease| Write::new(Lease::at(&lease.id), WriteOp::Put(lease.document(None)));
        plan.writes.extend(granted.iter().map(document));
        plan.writes
            .extend(gone.iter().map(|id| Write::new(Lease::at(id), WriteOp::Delete)));
        let (locks, clock, connection) = (locks.clone(), clock.clone(), self.caller.connection);
        assert!(plan.then.is_none(), "T15: a plan alters the table in one place");
        plan.then = Some(Box::new(move |decision: &Decision<'_>| {
            debug_assert!(
                decision.stamps.len() >= first + granted.len(),
                "T20: the token of a lease is the stamp of its document"
            );
            let mut table = locks.table();
            let now = clock.monotonic();
            for id in &gone {
                table.end(id, None);
            }
            for id in &renewed {
                table.again(id, now, connection);
            }
            for (n, mut lease) in granted.into_iter().enumerate() {
                lease.token = token_of(decision.stamps.get(first + n));
                lease.deadline = now + lease.keep_alive;
                table.hold(lease, LAST);
            }
        }));
        Ok(())
    }
}

fn name(at: &DocAddress) -> String {
    format!("[{}][{}]", at.index, at.id.id)
}
