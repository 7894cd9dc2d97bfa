//! Is this write allowed: by the locks it is written under, and by those of others?
//!
//! Asked inside the critical section of the write, in a shared decision, so that no grant and no end of a lock
//! passes between the answer and the place of the write in the log.

use super::acquire::{Respect, mode_of};
use super::caller::Caller;
use super::lease::Lease;
use super::table::Table;
use crate::locks::{Blocker, LockPath, LockTarget, Mode, Owner};
use engine::Source;
use model::{DocAddress, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value};
use std::time::Duration;

/// The locks of one request against the table.
pub(crate) struct Guard<'a> {
    table: &'a Table,
    leases: Vec<&'a Lease>,
    own: Vec<Owner>,
    now: Duration,
    /// A change, or a write under a lock: foreign locks count whatever the index says.
    strict: bool,
    /// Whose lock documents are no foreign locks.
    caller: Option<&'a Caller>,
    /// Who holds what was written all the same, in advisory indices.
    pub(crate) warnings: Vec<String>,
}

impl<'a> Guard<'a> {
    /// # Errors
    /// One of the locks is not alive.
    pub(crate) fn new(table: &'a Table, ids: &[String], strict: bool, now: Duration) -> Result<Guard<'a>> {
        let leases: Vec<&Lease> = ids.iter().map(|id| table.alive(id, now)).collect::<Result<_>>()?;
        Ok(Guard {
            own: leases.iter().map(|lease| Owner::new(lease.id.clone())).collect(),
            leases,
            table,
            now,
            strict: strict || !ids.is_empty(),
            caller: None,
            warnings: Vec::new(),
        })
    }
    /// Lock documents that this caller holds are in nobody's way but others'.
    pub(crate) fn of(self, caller: &'a Caller) -> Guard<'a> {
        Guard {
            caller: Some(caller),
            ..self
        }
    }
    fn is_own(&self, lease: &Lease) -> bool {
        let literal = lease.literal.as_ref();
        literal
            .zip(self.caller)
            .is_some_and(|(literal, caller)| caller.agreements(&literal.caller) > 0 && caller.differs(&literal.caller).is_none())
    }
    /// Nothing can be refused.
    pub(crate) fn is_open(&self) -> bool {
        self.leases.is_empty() && self.table.is_idle()
    }
    /// Owners of the locks it is written under.
    pub(crate) fn own(&self) -> &[Owner] {
        &self.own
    }

    /// A write of this document, which is, was or will be at these places.
    ///
    /// # Errors
    /// `lock_target_exception`: no lock of the request covers it in exclusive mode; `lock_conflict_exception`.
    pub(crate) fn check(&mut self, settings: Option<&Map<String, Value>>, at: &DocAddress, places: &[LockPath]) -> Result<()> {
        if !self.leases.is_empty() {
            self.covered(at, places, true)?;
        }
        self.respects(settings, at, places)
    }

    /// The same, but for whether a lock of the request covers it.
    ///
    /// # Errors
    /// `lock_conflict_exception`.
    pub(crate) fn respects(&mut self, settings: Option<&Map<String, Value>>, at: &DocAddress, places: &[LockPath]) -> Result<()> {
        let respect = match settings {
            _ if self.strict => Respect::Enforced,
            Some(settings) => mode_of(settings),
            None => Respect::Off,
        };
        if respect == Respect::Off {
            return Ok(());
        }
        let Some((key, blocker)) = self.table.foreign(at, places, &self.own, |lease| self.is_own(lease)) else {
            return Ok(());
        };
        let conflict = self.table.conflict(&key, &blocker, self.now);
        if respect == Respect::Enforced {
            return Err(conflict);
        }
        self.warnings
            .push(format!("[{}][{}]: {}", at.index, at.id.id, conflict.reason()));
        Ok(())
    }

    /// A target of one of the locks covers the document; for writes in exclusive mode.
    ///
    /// # Errors
    /// `lock_target_exception`
    pub(crate) fn covered(&self, at: &DocAddress, places: &[LockPath], to_write: bool) -> Result<()> {
        let covering = || {
            let wanted = self.leases.iter().flat_map(|lease| &lease.targets);
            wanted.filter(|wanted| wanted.target.covers(at, places))
        };
        if covering().any(|wanted| !to_write || wanted.mode == Mode::Exclusive) {
            return Ok(());
        }
        let ids: Vec<&str> = self.leases.iter().map(|lease| &*lease.id).collect();
        let (ids, name) = (ids.join(", "), format!("[{}][{}]", at.index, at.id.id));
        let reason = match covering().next() {
            Some(_) => format!("lock [{ids}] covers {name} in [shared] mode; a write needs [exclusive]"),
            None => format!("no target of lock [{ids}] covers {name}"),
        };
        Err(Error::new(ErrorKind::LockTarget, reason)
            .with("index", at.index.as_str())
            .with("id", &*at.id.id)
            .with("lock", ids))
    }
}

impl crate::Relations {
    /// A read under locks: they are alive, and one covers the document, in any mode.
    ///
    /// # Errors
    /// As for writes.
    pub fn check_read(
        &self,
        ids: &[String],
        at: &DocAddress,
        settings: &Map<String, Value>,
        found: Option<&Source>,
    ) -> Result<()> {
        self.check_control()?;
        let fields = super::place_fields(settings)?;
        let places: Vec<LockPath> = match found.filter(|_| !fields.is_unset()) {
            Some(source) => fields.places(&source.parse()?)?,
            None => Vec::new(),
        };
        let mut table = self.locks.table();
        let now = self.clock.monotonic();
        table.pulse(now);
        Guard::new(&table, ids, false, now)?.covered(at, &places, false)
    }

    /// Deleting, closing or renaming an index that enforces locks, under these.
    ///
    /// # Errors
    /// Others hold a lock on it or in it.
    pub fn check_alter(&self, index: &IndexName, settings: &Map<String, Value>, ids: &[String]) -> Result<()> {
        if ids.is_empty() && mode_of(settings) != Respect::Enforced {
            return Ok(());
        }
        self.check_control()?;
        let mut table = self.locks.table();
        let now = self.clock.monotonic();
        table.pulse(now);
        let guard = Guard::new(&table, ids, true, now)?;
        if mode_of(settings) != Respect::Enforced {
            return Ok(());
        }
        let claims = LockTarget::Index(index.clone()).claims(Mode::Exclusive, &[]);
        for claim in claims {
            let met = table
                .lock(&claim.key)
                .and_then(|lock| lock.against(claim.mode, guard.own()).next());
            if let Some((owner, holder)) = met {
                let blocker = Blocker {
                    owner: owner.clone(),
                    mode: holder.mode,
                    session: holder.session.clone(),
                    age: holder.age,
                    waiting: false,
                };
                return Err(table.conflict(&claim.key, &blocker, now));
            }
        }
        Ok(())
    }
}
