//! Ends that somebody asks for: release, break, a lost connection. A lock goes on to who waits for it in the same record.

use crate::Relations;
use crate::atomically::{Refused, Step, Transaction};
use crate::leases::handover::{self, Grant};
use crate::leases::{Ending, Lease};
use crate::lock_documents::release::release;
use crate::outcomes::all_written;
use async_recursion::async_recursion as boxed;
use engine::{Decision, Gate, Newest, Outcome, Plan, TxnOptions, Write, WriteOp};
use model::{DocAddress, Result};
use std::sync::Arc;

impl Relations {
    /// Its owner gives it back.
    ///
    /// # Errors
    /// There is none, or it is over.
    #[boxed]
    pub async fn release(&self, id: &str) -> Result<()> {
        self.end(id, None).await
    }

    /// Somebody ends it.
    ///
    /// # Errors
    /// There is none, or it is over.
    #[boxed]
    pub async fn break_lock(&self, id: &str) -> Result<Lease> {
        if let Some(portable) = self.by_gate() {
            self.bring_table_up(portable).await?;
        }
        let lease = self.lease(id)?.0;
        self.end(id, Some(Ending::Broken)).await?;
        Ok(lease)
    }

    async fn end(&self, id: &str, how: Option<Ending>) -> Result<()> {
        self.check_control()?;
        let (document, expected) = {
            let table = self.locks.table();
            let lease = table.lease(id);
            let lock_document = lease.and_then(|lease| lease.lock_document.as_ref());
            let expected = lease.map(|lease| handover::expected_touches(&table, lease));
            (
                lock_document.map(|lock_document| lock_document.at.clone()),
                expected.unwrap_or_default(),
            )
        };
        let mut end = LeaseEnd {
            relations: self,
            id,
            how,
            under: [Arc::from(id)],
            touches: document.into_iter().chain([Lease::at(id)]).chain(expected).collect(),
            hands_over: true,
            has_heirs: false,
        };
        self.finish_changes_under(&end.under, false).await?;
        let grants = self.atomically(&mut end).await?.answer;
        if !grants.is_empty() {
            handover::announce(grants);
            handover::step_back().await;
        }
        Ok(())
    }

    /// Whether the end of a connection may end locks. It waits for nobody.
    pub fn may_release_on_disconnect(&self) -> bool {
        self.locks.may_have_leases()
    }

    /// A connection is gone: locks that asked for it end at once.
    ///
    /// # Errors
    /// The engine's.
    #[boxed]
    pub async fn release_on_disconnect(&self, connection: u64) -> Result<()> {
        let any = {
            let (mut table, now) = self.locks.now(&self.clock);
            table.hung_up(connection);
            let ids: Vec<Arc<str>> = table
                .leases()
                .filter(|lease| lease.on_disconnect_release && lease.connection == Some(connection))
                .map(|lease| lease.id.clone())
                .collect();
            ids.iter().for_each(|id| table.cut(id, now));
            !ids.is_empty()
        };
        if any { self.sweep().await } else { Ok(()) }
    }
}

/// The end of one lease, with the grants to who waits for it.
struct LeaseEnd<'a> {
    relations: &'a Relations,
    id: &'a str,
    how: Option<Ending>,
    under: [Arc<str>; 1],
    touches: Vec<DocAddress>,
    /// Nothing about those who come next keeps it from ending.
    hands_over: bool,
    /// The last run found heirs.
    has_heirs: bool,
}

impl Transaction for LeaseEnd<'_> {
    type Answer = Vec<Grant>;

    fn options(&self) -> TxnOptions {
        TxnOptions {
            touches: self.touches.clone(),
            gate: Gate::Exclusive,
            ..TxnOptions::default()
        }
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<Vec<Grant>>> {
        let (table, now) = self.relations.locks.now(&self.relations.clock);
        if !table.runs_under(&self.under).is_empty() {
            return Ok(Step::FinishFirst(self.under.to_vec()));
        }
        let lease = table.alive(self.id)?;
        let wall_ms = self.relations.clock.wall_ms();
        let mut writes = release(newest, std::slice::from_ref(lease))?;
        let op = match self.how {
            None => WriteOp::Delete,
            Some(how) => WriteOp::Put(lease.document(Some((how, self.relations.ends_now())))),
        };
        writes.push(Write::new(Lease::at(self.id), op));
        let heirs = match self.hands_over {
            true => handover::heirs(&table, newest, lease, wall_ms),
            false => Vec::new(),
        };
        self.has_heirs = !heirs.is_empty();
        let first = writes.len();
        writes.extend(handover::documents(&heirs));
        let (shared, id) = (self.relations.locks.clone(), self.id.to_owned());
        let how = self.how.map(|how| (how, Some(now)));
        let hand_over = move |decision: &Decision<'_>| {
            let stamps = decision.stamps.get(first..).unwrap_or_default();
            handover::hand_over(&shared, &id, how, now, heirs, stamps)
        };
        Ok(Step::CommitWith(Plan::of(writes), Box::new(hand_over)))
    }

    fn on_refusal(&mut self, outcomes: &[Outcome]) -> Result<Refused<Vec<Grant>>> {
        if self.hands_over && self.has_heirs && outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(_))) {
            self.hands_over = false;
            return Ok(Refused::Again);
        }
        all_written(outcomes, "a document that nothing was expected of was in conflict")?;
        Ok(Refused::Again)
    }
}
