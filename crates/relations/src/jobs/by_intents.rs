//! A batch as a change by the portable path: its documents under marks, and how far the job is as one more document.
//!
//! Each operation expects its document as it was found, by the stamp under which it came to be so: marks of changes that came
//! to nothing, also of earlier attempts at the same batch, raise stamps and change nothing. The batch is committed if and
//! only if the record of the job says so, whatever happens to whoever commits it; so no document is worked on twice.
//!
//! Not here: copies by external versions, which no mark can keep, and lock documents: one decision each (`batch`).

use super::batch::{BatchItem, ItemOutcome, Settled, conflict_error, indices_of, tally};
use super::record::Reached;
use super::run::{Progress, Run};
use super::{Counts, Job, JobAction, WARNINGS_MAX};
use crate::intents::origin;
use crate::transactions::by_intents::{Beside, ChangeReply};
use crate::transactions::{Change, Committed, Kind, NotDone, Operation, Verdict};
use engine::{Document, Effect, EngineExt as _, Expect, Source, WriteOp};
use model::{Error, ErrorKind, Result, Stamp};
use std::sync::{Mutex, PoisonError};

impl crate::Relations {
    /// Commits a batch where changes go by the portable path; `None`: it is to be one decision.
    ///
    /// # Errors
    /// A lock of the job that is over; the engine's.
    pub(super) async fn commit_portably(&self, run: &mut Run, items: &mut [BatchItem], to: &Progress) -> Result<Option<Settled>> {
        let Some(portable) = &self.portable else { return Ok(None) };
        let (external, whole) = (
            matches!(run.job.action, JobAction::Reindex { external: Some(_), .. }),
            run.job.whole.is_some(),
        );
        let Some(record) = run.record.clone().filter(|_| !external) else {
            return Ok(None);
        };
        loop {
            if self.engine.read_one(record.stop()).await?.is_some() {
                return Ok(Some(Settled::Stopped));
            }
            if let Some(error) = self.replaced_index_of(items).await? {
                run.counts.fail(&error);
                return Ok(Some(Settled::Written { ended: true }));
            }
            let (change, places) = change_of(&run.job, items)?;
            let elsewhere: Mutex<Option<Reached>> = Mutex::default();
            let source = |there: Option<&Document>, came: &Committed| -> Result<Source> {
                let found = there
                    .map(|document| Reached::of(&document.source.parse()?, run.job.batch))
                    .transpose()?;
                if let Some(found) = found.filter(|found| found.at != run.at || found.ended) {
                    *elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    let reason = "the job is elsewhere: an attempt whose outcome was not known has been committed";
                    return Err(Error::new(ErrorKind::IllegalState, reason));
                }
                let (counts, ended) = count_batch(&run.counts, &run.job, items, &places, Some(came));
                Ok(record.progress_source(to, &counts, &run.destinations, ended))
            };
            let beside = Beside {
                at: record.progress_at(),
                source: &source,
            };
            let asked = self
                .change_portably(portable, &change, &self.new_place("c"), Some(&beside))
                .await;
            if let Some(found) = elsewhere.into_inner().unwrap_or_else(PoisonError::into_inner) {
                (run.at, run.counts) = (found.at, found.counts);
                run.ended = found.ended || whole;
                return Ok(Some(Settled::Elsewhere));
            }
            let failures = match asked {
                // Others are in its way: a job has time.
                Err(error) if error.kind() == ErrorKind::Timeout => return Ok(Some(Settled::Elsewhere)),
                // Since it was looked for.
                Err(error) if error.kind() == ErrorKind::IndexNotFound && self.replaced_index_of(items).await?.is_some() => {
                    continue;
                }
                Err(error) => return Err(error),
                Ok(ChangeReply::Exclusive) => return Ok(None),
                Ok(ChangeReply::Beside(committed, stamp)) => {
                    let ended = note_batch(run, items, &places, (&committed, stamp));
                    return Ok(Some(Settled::Written { ended }));
                }
                Ok(ChangeReply::Verdict(Verdict::Failed(failures))) => failures.operations,
                Ok(ChangeReply::Verdict(verdict)) => {
                    let reason = format!("a batch without locks and keys of its own came to {verdict:?}");
                    return Err(Error::new(ErrorKind::Internal, reason));
                }
            };
            let is_gone = |failure: &NotDone| matches!(failure, NotDone::Refused(e) if e.kind() == ErrorKind::IndexNotFound);
            if failures.iter().any(is_gone) && self.replaced_index_of(items).await?.is_some() {
                continue;
            }
            leave_out(items, &places, failures);
            if whole && let Some(counts) = counts_if_undone(&run.counts, &run.job, items) {
                run.counts = counts;
                return Ok(Some(Settled::Written { ended: true }));
            }
        }
    }
}

impl crate::Relations {
    /// The refusal of a batch one of whose indices is not the one that the job met first.
    pub(super) async fn replaced_index_of(&self, items: &[BatchItem]) -> Result<Option<Error>> {
        for (name, uuid) in indices_of(items) {
            if !self.is_there(name, uuid).await? {
                return Ok(Some(engine::catalog::index_replaced(name, uuid)));
            }
        }
        Ok(None)
    }
}

/// The change of what is not left out, and for each operation its item.
fn change_of(job: &Job, items: &[BatchItem]) -> Result<(Change, Vec<usize>)> {
    let creates = match &job.action {
        JobAction::Reindex { makes: true, typed, .. } => Some(*typed),
        _ => None,
    };
    let mut operations = Vec::with_capacity(items.len());
    let mut places = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        let Some(write) = item.write.as_ref().filter(|_| item.fate.is_none()) else {
            continue;
        };
        let mut write = write.clone();
        if matches!(write.expect, Expect::Unchanged { .. }) {
            let origin = origin(&item.document)?;
            write.expect = Expect::Unchanged {
                seq_no: origin.seq_no,
                primary_term: origin.primary_term,
            };
        }
        let label = match (&write.op, write.expect) {
            (WriteOp::Delete, _) => "delete",
            (_, Expect::Absent) => "create",
            _ => "index",
        };
        operations.push(Operation {
            label,
            write,
            creates,
            wants_source: false,
            error: None,
        });
        places.push(n);
    }
    let change = Change {
        guards: job.guards.clone(),
        kind: if job.whole.is_some() { Kind::Change } else { Kind::Plain },
        caller: job.caller.clone(),
        ..Change::of(operations)
    };
    Ok((change, places))
}

/// The job is behind a batch that is committed; true if it ends by it.
fn note_batch(run: &mut Run, items: &[BatchItem], places: &[usize], (committed, stamp): (&Committed, Stamp)) -> bool {
    let (counts, ended) = count_batch(&run.counts, &run.job, items, places, Some(committed));
    run.counts = Counts {
        commit_seq: run.job.whole.is_some().then_some(committed.commit_seq),
        ..counts
    };
    if let Some(record) = &mut run.record {
        record.at = Some(stamp);
    }
    ended
}

/// Items whose operations failed are left out of the next attempt. `places`: the item of each operation.
fn leave_out(items: &mut [BatchItem], places: &[usize], failures: Vec<NotDone>) {
    debug_assert_eq!(
        failures.len(),
        places.len(),
        "T2: each operation of a batch has its failure or none"
    );
    for (failure, n) in failures.into_iter().zip(places) {
        items[*n].fate = fate(&items[*n], failure).or(items[*n].fate.take());
    }
}

/// The counts of the job after a batch that came to this, and whether it ends by it.
fn count_batch(before: &Counts, job: &Job, items: &[BatchItem], places: &[usize], came: Option<&Committed>) -> (Counts, bool) {
    let mut all: Vec<ItemOutcome> = items
        .iter()
        .map(|item| item.fate.clone().unwrap_or(ItemOutcome::Noop))
        .collect();
    assert!(
        came.is_none_or(|came| came.items.len() == places.len()),
        "T2: each operation of a batch that is done has its item"
    );
    let done = came.into_iter().flat_map(|came| &came.items);
    for (n, came) in places.iter().zip(done) {
        all[*n] = match came.written.effect {
            Effect::NotFound | Effect::Noop => ItemOutcome::Noop,
            effect => ItemOutcome::Wrote(effect),
        };
    }
    let mut counts = before.clone();
    let ended = tally(&mut counts, items, &all, job);
    let room = WARNINGS_MAX.saturating_sub(counts.warnings.len());
    let warnings = came.into_iter().flat_map(|came| &came.warnings);
    counts.warnings.extend(warnings.take(room).cloned());
    (counts, ended)
}

/// Why an item is left out; `None`: it is not.
fn fate(item: &BatchItem, failure: NotDone) -> Option<ItemOutcome> {
    Some(match failure {
        NotDone::NotApplied => return None,
        // It was copied before a restart, and written again at its source.
        NotDone::Conflict(conflict) if item.later && conflict.expect == Expect::Absent => ItemOutcome::Noop,
        NotDone::Conflict(conflict) => ItemOutcome::Conflict(conflict_error(&conflict)),
        NotDone::Refused(error) if error.kind() == ErrorKind::LockConflict => ItemOutcome::Conflict(error),
        NotDone::Refused(error) => ItemOutcome::Failed(error),
    })
}

/// One change, of which something cannot be: what is told of it.
fn counts_if_undone(before: &Counts, job: &Job, items: &[BatchItem]) -> Option<Counts> {
    let (counts, failed) = count_batch(before, job, items, &[], None);
    failed.then(|| Counts {
        total: counts.total,
        conflicts: counts.conflicts,
        failures: counts.failures,
        ..before.clone()
    })
}
