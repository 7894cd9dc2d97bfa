//! The table of locks as a copy of documents: it is brought up to the gate before anything rests on it, and a grant or an end that
//! passed the gate counts only when every change that was checked before is decided.
//!
//! A change writes its record first and reads the gate after that; a grant marks the gate first and looks for records after that.
//! Both are documents of one shard. So of a change and a grant that are in each other's way at least one meets the other.
//!
//! Not here: the gate's content (`gate`), attempts (`without_section`), sessions (`beats`).

use super::Portable;
use super::gate::{Gate, Passage, gate_address, number_of, stamp_at};
use crate::Relations;
use crate::intents::{Mark, Record, RecordState, Resolved, is_for_now, record_address};
use crate::leases::{Ending, Lease};
use crate::locks::{Age, Owner};
use engine::{Document, Read, See};
use model::{DocAddress, Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Relations {
    /// The portable path, where it is all there is: servers over one store agree by the gate.
    pub(crate) fn by_gate(&self) -> Option<&Portable> {
        self.portable.as_deref().filter(|_| self.engine.atomic().is_none())
    }

    /// **Invariant T28**: the table is at least as new as the gate was after the record of the change was opened. False: not yet.
    ///
    /// One read shows the record and the gate, of one shard. A copy that shows the record has everything that was acknowledged
    /// before it.
    pub(super) async fn is_table_of_gate(&self, portable: &Portable, change: &Owner) -> Result<bool> {
        let whole = |at: DocAddress| Read {
            see: See::Everything,
            ..Read::whole(at)
        };
        let found = self
            .engine
            .read(vec![whole(record_address(change)), whole(gate_address())])
            .await?;
        let Ok([record, gate]) = <[Option<Document>; 2]>::try_from(found) else {
            return Err(Error::new(ErrorKind::Internal, "two reads have two answers"));
        };
        let Some(record) = record else { return Ok(false) };
        let age = Record::parse(&record.source.parse()?)?.age_at(record.stamp);
        if self.waits_for(portable, Some((change, age)), gate.as_ref()).await? {
            return Ok(false);
        }
        let gate = Gate::read(gate.as_ref())?;
        if self.locks.table().gate() >= gate.number {
            return Ok(true);
        }
        let turn = self.locks.gate_turn();
        let _turn = turn.lock().await;
        self.catch_up(portable, Some((change, age)), &gate).await
    }

    /// Brings the table up to the gate as it is found now: for those who look, and who wait. What is decided does not rest on it.
    pub(crate) async fn bring_table_up(&self, portable: &Portable) -> Result<()> {
        let read = Read {
            see: See::Everything,
            ..Read::whole(gate_address())
        };
        let found = match self.engine.read(vec![read]).await {
            Err(error) if error.kind() == ErrorKind::IndexNotFound => return Ok(()),
            found => found?.pop().flatten(),
        };
        // Under a mark it is as it was, until that is decided and applied.
        let gate = Gate::read(found.as_ref().filter(|document| is_shown(document)))?;
        let turn = self.locks.gate_turn();
        if gate.number > self.locks.table().gate()
            && let Some(_turn) = turn.try_lock()
        {
            self.catch_up(portable, None, &gate).await?;
        }
        Ok(())
    }

    /// Does the document carry the mark of another change than `own`? Then that was met, and is to be looked at again.
    async fn waits_for(&self, portable: &Portable, own: Option<(&Owner, Age)>, found: Option<&Document>) -> Result<bool> {
        let Some(document) = found else { return Ok(false) };
        match Mark::of(document.hidden.as_ref())?.intent {
            Some(other) if own.is_none_or(|(own, _)| *own != other) => {
                let at = BTreeSet::from([document.at.clone()]);
                let age = own.map(|(_, age)| age);
                portable.runner.meet(age, &other, &at).await.map(|_| true)
            }
            _ => Ok(false),
        }
    }

    /// Reads the leases that have changed since the table was brought up, and ends those that are not in the gate any more. False:
    /// some lease is not as the gate says yet. Whoever calls this has the turn.
    pub(super) async fn catch_up(&self, portable: &Portable, own: Option<(&Owner, Age)>, gate: &Gate) -> Result<bool> {
        let (changed, gone) = {
            let table = self.locks.table();
            if table.gate() >= gate.number {
                return Ok(table.gate() == gate.number);
            }
            let is_known = |id: &Arc<str>, number: u64| table.lease(id).is_some_and(|lease| lease.token == number);
            let changed = gate.leases.iter().filter(|(id, number)| !is_known(id, **number));
            let changed: Vec<Arc<str>> = changed.map(|(id, _)| id.clone()).collect();
            let gone = table.leases().filter(|lease| !gate.leases.contains_key(&lease.id));
            (changed, gone.map(|lease| lease.id.clone()).collect::<Vec<_>>())
        };
        let reads = changed.iter().chain(&gone).map(|id| Read {
            see: See::Everything,
            ..Read::whole(Lease::at(id))
        });
        let found = self.engine.read(reads.collect()).await?;
        assert_eq!(
            found.len(),
            changed.len() + gone.len(),
            "T28: an engine answers each read, in order"
        );
        for document in &found {
            if self.waits_for(portable, own, document.as_ref()).await? {
                return Ok(false);
            }
        }
        let mut found = found.into_iter().map(|document| document.filter(is_shown));
        let now = self.locks.now(&self.clock).1;
        let mut begun: Vec<Lease> = Vec::with_capacity(changed.len());
        for (id, document) in changed.iter().zip(found.by_ref()) {
            let Some(document) = document else { return Ok(false) };
            let source = document.source.parse()?;
            let Some((number, session)) = number_of(&source).filter(|(number, _)| Some(number) == gate.leases.get(id)) else {
                return Ok(false);
            };
            let (lease, ending) = Lease::read(&document.source, stamp_at(number), now)?;
            if ending.is_some() {
                return Ok(false);
            }
            begun.push(Lease {
                timed_by: portable.beats().times(session, &portable.session.get()),
                ..lease
            });
        }
        begun.sort_by_key(|lease| lease.token);
        let mut ended: Vec<(Arc<str>, Option<Ending>)> = Vec::with_capacity(gone.len());
        for (id, document) in gone.into_iter().zip(found) {
            let read = document.map(|document| Lease::read(&document.source, stamp_at(0), now));
            ended.push((id, read.transpose()?.and_then(|(_, ending)| ending)));
        }
        self.follow_gate(gate.number, begun, ended, now)?;
        Ok(true)
    }

    /// Alters the table as other servers have (T15: in the order of the gate).
    fn follow_gate(&self, number: u64, begun: Vec<Lease>, ended: Vec<(Arc<str>, Option<Ending>)>, now: Duration) -> Result<()> {
        debug_assert!(
            begun.last().is_none_or(|lease| lease.token <= number),
            "T27: no lease is newer than its gate"
        );
        let mut table = self.locks.table();
        for (id, how) in ended {
            table.end(&id, how.map(|how| (how, Some(now))));
        }
        for lease in begun {
            if !table.could_hold(&lease) {
                let reason = format!("lock [{}] is not compatible with the others that are stored", lease.id);
                return Err(Error::new(ErrorKind::Corruption, reason));
            }
            let age = table.next_age();
            table.hold(lease, age);
        }
        table.stand_at(number);
        debug_assert!(
            table.leases().all(|lease| lease.token <= number),
            "T28: a table that is brought up to the gate has no lease that is newer: {number}"
        );
        Ok(())
    }

    /// **Invariant T29**: a grant is told, and an end is answered, after every change that may have been checked before it is
    /// decided, and what is committed is applied.
    ///
    /// # Errors
    /// A change that cannot be finished; then nobody may rely on what was granted.
    pub(super) async fn settle_passage(&self, portable: &Portable, own: &Owner, passage: &Passage) -> Result<()> {
        loop {
            let records = portable.runner.records().await?;
            // A search that does not show the commit may not show what came before it.
            let Some((_, own_record)) = records.iter().find(|(change, _)| change == own) else {
                self.breathe().await;
                continue;
            };
            debug_assert!(
                !matches!(own_record.state, RecordState::Pending | RecordState::Aborted),
                "T29: changes are looked for by a search that shows the commit of the grant: {:?}",
                own_record.state
            );
            let open = records.into_iter().filter(|(change, record)| {
                let is_open = !matches!(record.state, RecordState::Aborted | RecordState::Done);
                is_open && change != own && passage.concerns(record)
            });
            for (change, _) in open {
                let why = match portable.runner.resolve(&change).await {
                    Ok(Resolved::Aborted | Resolved::Done) => continue,
                    Ok(Resolved::Stuck) => format!("change [{change}] is committed and stuck; see GET /_transaction/{change}"),
                    Err(error) if is_for_now(&error) => format!("change [{change}] is not finished: {}", error.reason()),
                    Err(error) => return Err(error),
                };
                let error = Error::new(ErrorKind::LockConflict, format!("{why}; it writes what the lock protects"));
                return Err(error.with("transaction", change.as_str()));
            }
            return Ok(());
        }
    }

    /// Leases are granted and renewed by a server whose session is open, as far as it can know.
    ///
    /// # Errors
    /// Another server has ended the session, or it was not renewed in time.
    pub(crate) fn check_session(&self) -> Result<()> {
        match self.by_gate() {
            Some(portable) => portable.beats().check(&portable.session.get(), self.clock.monotonic()),
            None => Ok(()),
        }
    }
}

/// Is it more than a stub or a tombstone?
fn is_shown(document: &Document) -> bool {
    document.hidden.as_ref().is_none_or(|mark| mark.visible)
}
