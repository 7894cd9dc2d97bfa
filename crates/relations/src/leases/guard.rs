//! Is this write allowed: by the locks it is written under, and by those of others?
//!
//! Asked inside the critical section of the write, in a shared decision, so that no grant and no end of a lock
//! passes between the answer and the place of the write in the log.

use super::Locks;
use super::acquire::{Respect, mode_of};
use super::caller::Caller;
use super::lease::Lease;
use crate::links::States;
use crate::locks::{Blocker, LockPath, LockTarget, Mode, Owner, do_cover};
use engine::{Clock, Source, WriteIndex};
use model::{DocAddress, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The locks of one request against the table. It takes the table for each question and gives it back: between two of them
/// documents are read and scripts run, while others renew and list. The gate keeps grants and ends out meanwhile.
pub(crate) struct Guard<'a> {
    locks: &'a Locks,
    /// The leases that it is written under, as they were when it began.
    leases: Vec<Lease>,
    own: Vec<Owner>,
    /// Nothing was locked when it began.
    idle: bool,
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
    pub(crate) fn new(locks: &'a Locks, clock: &Arc<dyn Clock>, ids: &[String], strict: bool) -> Result<Guard<'a>> {
        let (table, _) = locks.now(clock);
        let leases: Vec<Lease> = ids.iter().map(|id| table.alive(id).cloned()).collect::<Result<_>>()?;
        Ok(Guard {
            own: leases.iter().map(|lease| Owner::new(lease.id.clone())).collect(),
            leases,
            idle: table.is_idle(),
            locks,
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
        let lock_document = lease.lock_document.as_ref();
        lock_document.zip(self.caller).is_some_and(|(lock_document, caller)| {
            caller.agreements(&lock_document.caller) > 0 && caller.differs(&lock_document.caller).is_none()
        })
    }
    /// Nothing can be refused.
    pub(crate) fn is_open(&self) -> bool {
        self.leases.is_empty() && self.idle
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
            self.check_covered(at, places, true)?;
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
        let conflict = {
            let table = self.locks.table();
            let Some((key, blocker)) = table.foreign(at, places, &self.own, |lease| self.is_own(lease)) else {
                return Ok(());
            };
            debug_assert!(
                !self.own.contains(&blocker.owner),
                "T16: nobody is in the way of what is written under their own lock: {key:?}"
            );
            table.conflict(&key, &blocker)
        };
        if respect == Respect::Enforced {
            return Err(conflict);
        }
        self.warnings
            .push(format!("[{}][{}]: {}", at.index, at.id.id, conflict.reason()));
        Ok(())
    }

    /// A move of a directory to another path: it is like a write of everything that is below them.
    ///
    /// # Errors
    /// As [`Guard::check`].
    pub(crate) fn check_directories(
        &mut self,
        settings: &Map<String, Value>,
        index: &IndexName,
        paths: &[LockPath],
    ) -> Result<()> {
        if !self.leases.is_empty() {
            let any = DocAddress {
                index: index.clone(),
                id: model::DocId::plain(""),
            };
            self.check_covered(&any, paths, true)?;
        }
        let respect = if self.strict { Respect::Enforced } else { mode_of(settings) };
        if respect == Respect::Off {
            return Ok(());
        }
        for path in paths {
            let target = LockTarget::Path {
                index: index.clone(),
                path: path.clone(),
            };
            match self.check_unlocked(&target) {
                Err(conflict) if respect != Respect::Enforced => self.warnings.push(format!("{target}: {}", conflict.reason())),
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Nobody else has a lock on it or in it.
    ///
    /// # Errors
    /// `lock_conflict_exception`.
    fn check_unlocked(&self, target: &LockTarget) -> Result<()> {
        let table = self.locks.table();
        for claim in target.claims(Mode::Exclusive, &[]) {
            let met = table
                .lock(&claim.key)
                .and_then(|lock| lock.against(claim.mode, self.own()).next());
            if let Some((owner, holder)) = met {
                let blocker = Blocker {
                    owner: owner.clone(),
                    mode: holder.mode,
                    session: holder.session.clone(),
                    age: holder.age,
                    waiting: false,
                };
                return Err(table.conflict(&claim.key, &blocker));
            }
        }
        Ok(())
    }

    /// Targets of the locks cover the document, each of its places one of them; for writes in exclusive mode.
    ///
    /// # Errors
    /// `lock_target_exception`
    pub(crate) fn check_covered(&self, at: &DocAddress, places: &[LockPath], to_write: bool) -> Result<()> {
        let wanted = || self.leases.iter().flat_map(|lease| &lease.targets);
        let exclusive = wanted().filter(|wanted| !to_write || wanted.mode == Mode::Exclusive);
        if do_cover(exclusive.map(|wanted| &wanted.target), at, places) {
            return Ok(());
        }
        let ids: Vec<&str> = self.leases.iter().map(|lease| &*lease.id).collect();
        let (ids, name) = (ids.join(", "), format!("[{}][{}]", at.index, at.id.id));
        let reason = if do_cover(wanted().map(|wanted| &wanted.target), at, places) {
            format!("lock [{ids}] covers {name} in [shared] mode; a write needs [exclusive]")
        } else {
            let outside = |place: &&LockPath| !wanted().any(|wanted| wanted.target.covers_place(at, place));
            match places.iter().find(outside) {
                Some(place) => format!("no target of lock [{ids}] covers {name} at [{place}]"),
                None => format!("no target of lock [{ids}] covers {name}"),
            }
        };
        Err(Error::new(ErrorKind::LockTarget, reason)
            .with("index", at.index.as_str())
            .with("id", &*at.id.id)
            .with("lock", ids))
    }
}

/// A write that follows from another one by a link policy: locks of others refuse it, as they refuse that one. Which locks it
/// is written under, and what they cover, was asked for the other one.
///
/// # Errors
/// `lock_conflict_exception`; a lock that is not alive.
pub(crate) fn check_linked(mut guard: Guard<'_>, index: &WriteIndex, at: &DocAddress, states: &States<'_>) -> Result<()> {
    if guard.is_open() {
        return Ok(());
    }
    let fields = super::place_fields(&index.settings)?;
    let mut places: Vec<LockPath> = Vec::new();
    if !fields.is_unset() {
        for state in states()? {
            places.extend(fields.places(&state)?);
        }
    }
    guard.respects(Some(&index.settings), at, &places)
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
        Guard::new(&self.locks, &self.clock, ids, false)?.check_covered(at, &places, false)
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
        let guard = Guard::new(&self.locks, &self.clock, ids, true)?;
        if mode_of(settings) != Respect::Enforced {
            return Ok(());
        }
        self.check_unlocked(index, &guard)
    }

    /// Other settings of an index, under these locks: what makes locks in it protect less is like a write of all that they
    /// protect.
    ///
    /// # Errors
    /// Others hold a lock on it or in it, and the new settings respect locks less or look elsewhere for the place of a
    /// document.
    pub fn check_settings(
        &self,
        index: &IndexName,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
        ids: &[String],
    ) -> Result<()> {
        let guard = Guard::new(&self.locks, &self.clock, ids, true)?;
        let weaker = mode_of(after) < mode_of(before);
        // An unreadable setting is refused by whoever takes the settings.
        let moves = match (super::place_fields(before), super::place_fields(after)) {
            (Ok(before), Ok(after)) => before != after,
            _ => false,
        };
        if !weaker && !moves {
            return Ok(());
        }
        self.check_unlocked(index, &guard).map_err(|error| {
            let what = if weaker {
                "index.pleach.locks"
            } else {
                "index.pleach.lock_path"
            };
            let reason = format!(
                "[{what}] of index [{index}] cannot change under a lock: {}; name it with [lock], or break it",
                error.reason()
            );
            let named = Error::new(error.kind(), reason).with("setting", what);
            error
                .details()
                .iter()
                .fold(named, |named, (name, value)| named.with(name, value.clone()))
        })
    }

    /// Nobody else holds a lock on this index or in it.
    fn check_unlocked(&self, index: &IndexName, guard: &Guard<'_>) -> Result<()> {
        guard.check_unlocked(&LockTarget::Index(index.clone()))
    }
}
