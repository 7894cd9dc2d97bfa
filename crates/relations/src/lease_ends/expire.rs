//! Ends of leases whose time is over.
//!
//! Not here: leases of lock documents (`lock_documents`).

use crate::atomically::Step;
use crate::leases::{Ending, Lease};
use async_recursion::async_recursion as boxed;
use engine::{Decision, Gate, Newest, Plan, TxnOptions, Write, WriteOp};
use model::{Error, ErrorKind, Result};
use std::sync::Arc;

impl crate::Relations {
    /// Ends what is over. To be called often: who waits is woken by it.
    ///
    /// # Errors
    /// The engine's; then nothing has ended, and the next call tries again.
    #[boxed]
    pub async fn sweep(&self) -> Result<()> {
        if let Some(portable) = self.by_gate() {
            self.keep_session(portable).await?;
            self.bring_table_up(portable).await?;
        }
        self.finish_left().await;
        self.expire().await?;
        let overdue = {
            let (mut table, _) = self.locks.now(&self.clock);
            table.take_overdue()
        };
        let (lock_document, overdue): (Vec<Lease>, Vec<Lease>) =
            overdue.into_iter().partition(|lease| lease.lock_document.is_some());
        self.expire_lock_documents(&lock_document).await;
        // They guard nothing any more; what was begun under them is decided and finished before they pass on. One whose change
        // cannot be finished stays, over as it is, and keeps no other from its end.
        let ids: Vec<Arc<str>> = overdue.iter().map(|lease| lease.id.clone()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        if !self.control.may_end(self.clock.monotonic()) {
            self.locks.table().not_ended(&ids);
            return Ok(());
        }
        let (ids, open) = self.split_finished(ids).await;
        self.locks.table().not_ended(&open);
        let (overdue, unfinished): (Vec<Lease>, Vec<Lease>) = overdue.into_iter().partition(|lease| ids.contains(&lease.id));
        let unfinished: Vec<Lease> = unfinished.into_iter().filter(|lease| !lease.over_is_written).collect();
        if !unfinished.is_empty() {
            self.write_over(&unfinished).await?;
        }
        if overdue.is_empty() {
            return Ok(());
        }
        let mut done = self.write_expired(&overdue).await;
        if done.is_err() && overdue.len() > 1 {
            // One of them may be in the way of the others.
            done = Ok(());
            for lease in &overdue {
                done = done.and(self.write_expired(std::slice::from_ref(lease)).await);
            }
        }
        self.control.note_ending(&done, self.clock.monotonic(), self.clock.wall_ms());
        done
    }

    /// Which of these locks are over while that is not written yet. A refusal that says of a lock that it is over waits for its
    /// end, since a start gives every lease that has no end written a fresh keep alive; what is written is durable after
    /// [`crate::Relations::locks_settled`]. To be asked again until none are left.
    ///
    /// # Errors
    /// The end cannot be written now: nobody may be told of it.
    #[boxed]
    pub async fn unwritten_ends(&self, ids: &[String]) -> Result<Vec<String>> {
        let unwritten = || -> Vec<String> {
            let (table, now) = self.locks.now(&self.clock);
            let is_unwritten = |lease: &Lease| lease.is_over(now) && !lease.over_is_written;
            let over = |id: &&String| table.lease(id).is_some_and(is_unwritten);
            ids.iter().filter(over).cloned().collect()
        };
        let refused = |id: &str, reason: &str| {
            let reason = format!("the time of lock [{id}] is over, and its end cannot be written: {reason}");
            Error::new(ErrorKind::Unavailable, reason).with("lock", id)
        };
        let before = unwritten();
        let Some(first) = before.first() else { return Ok(before) };
        if let Err(cause) = self.sweep().await {
            return Err(match cause.kind() {
                ErrorKind::LogFailed => cause,
                _ => refused(first, cause.reason()),
            });
        }
        let after = unwritten();
        if let (Some(id), Some(trouble)) = (
            after.first(),
            self.troubles().into_iter().find(|trouble| trouble.work == "leases"),
        ) {
            return Err(refused(id, &trouble.reason));
        }
        Ok(after)
    }

    /// Writes that the time of leases is over which cannot end yet, since changes under them are not finished: their owners
    /// may be refused then, also after a start.
    ///
    /// # Errors
    /// The engine's; a control index that takes no writes.
    async fn write_over(&self, leases: &[Lease]) -> Result<()> {
        let options = TxnOptions {
            touches: leases.iter().map(|lease| Lease::at(&lease.id)).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let body = |_: &mut dyn Newest| {
            debug_assert!(
                leases
                    .iter()
                    .all(|lease| lease.is_over(self.clock.monotonic()) && !lease.over_is_written),
                "T17: what is written to be over is over, and is written once: {leases:?}"
            );
            let over = |lease: &Lease| Lease {
                over_is_written: true,
                ..lease.clone()
            };
            let writes = leases
                .iter()
                .map(|lease| Write::new(Lease::at(&lease.id), WriteOp::Put(over(lease).document(None))));
            let (shared, ids) = (
                self.locks.clone(),
                leases.iter().map(|lease| lease.id.clone()).collect::<Vec<_>>(),
            );
            let note = move |_: &Decision<'_>| shared.table().over_is_written(&ids);
            Ok(Step::CommitWith(Plan::of(writes.collect()), Box::new(note)))
        };
        self.atomically_once(options, body).await
    }

    /// Ends leases whose time is over, in one record. If that is refused they stay: over for their owners, held for others
    /// until it is written.
    ///
    /// # Errors
    /// The engine's; a control index that takes no writes.
    #[boxed]
    async fn write_expired(&self, overdue: &[Lease]) -> Result<()> {
        let options = TxnOptions {
            touches: overdue.iter().map(|lease| Lease::at(&lease.id)).collect(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        };
        let ended_at = self.ends_now();
        let body = |_: &mut dyn Newest| {
            // Another server may have ended one, or granted it more.
            let gone: Vec<Lease> = {
                let table = self.locks.table();
                overdue.iter().filter(|lease| table.is_ending(&lease.id)).cloned().collect()
            };
            if gone.is_empty() {
                return Ok(Step::Reply(()));
            }
            let document = |lease: &Lease| WriteOp::Put(lease.document(Some((Ending::Expired, ended_at))));
            let writes: Vec<Write> = gone
                .iter()
                .map(|lease| Write::new(Lease::at(&lease.id), document(lease)))
                .collect();
            let shared = self.locks.clone();
            let end = move |_: &Decision<'_>| {
                let mut table = shared.table();
                for lease in gone {
                    table.end(&lease.id, Some((Ending::Expired, Some(lease.deadline))));
                }
            };
            Ok(Step::CommitWith(Plan::of(writes), Box::new(end)))
        };
        let done = self.atomically_once(options, body).await;
        if done.is_err() {
            let ids: Vec<Arc<str>> = overdue.iter().map(|lease| lease.id.clone()).collect();
            self.locks.table().not_ended(&ids);
        }
        done
    }
}
