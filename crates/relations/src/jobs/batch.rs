//! One batch: its writes, how far the job is and what it has counted, in one decision.
//!
//! Foreign locks and what has been written since the job looked are found inside the critical section. What cannot be
//! written is left out and counted, and the rest is decided again; a job that is one change is left whole, or undone.

use super::record::TaskRecord;
use super::run::{Destinations, Progress, Run};
use super::{Counts, Job, JobAction, WARNINGS_MAX};
use crate::atomically::{Refused, Step, Transaction};
use crate::leases::guard::{Guard, check_linked};
use crate::leases::place_fields;
use crate::links::States;
use crate::lock_documents::apply::{PreparedLocks, TableChanges};
use crate::lock_documents::format::LockWrite;
use crate::schema;
use crate::trees::DirectoryCondition;
use engine::{
    Alteration, Conflict, Document, Effect, Expect, Found, Gate, Newest, Outcome, Plan, See, TxnOptions, Write, WriteIndex,
    WriteOp,
};
use model::lock_index::LockIndex;
use model::{DocAddress, Error, ErrorKind, IndexName, Result};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// One document of a batch.
pub(super) struct BatchItem {
    /// As it was found.
    pub(super) document: Document,
    /// The index that it was found in, by uuid.
    pub(super) source: Arc<str>,
    /// Its write; `None`: nothing is to be done.
    pub(super) write: Option<Write>,
    /// It was written after the job began: in a destination it may be already.
    pub(super) later: bool,
    pub(super) fate: Option<ItemOutcome>,
}

impl BatchItem {
    pub(super) fn new(document: Document, source: Arc<str>, write: Option<Write>, later: bool) -> BatchItem {
        BatchItem {
            document,
            source,
            write,
            later,
            fate: None,
        }
    }
}

/// Every index that a batch reads or writes, by the name it is called by, with the uuid that it had when the job met it first.
pub(super) fn indices_of(items: &[BatchItem]) -> BTreeSet<(&str, &str)> {
    let read = items.iter().map(|item| (item.document.at.index.as_str(), &*item.source));
    let written = items.iter().filter_map(|item| item.write.as_ref());
    let written = written.filter_map(|write| Some((write.at.index.as_str(), write.index_uuid.as_deref()?)));
    read.chain(written).collect()
}

/// The result of one item.
#[derive(Clone, Debug)]
pub(super) enum ItemOutcome {
    Wrote(Effect),
    Noop,
    Conflict(Error),
    Failed(Error),
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is written, but for what could not be.
    Written {
        /// The job ends by what could not be.
        ended: bool,
    },
    /// The job was cancelled before it.
    Stopped,
    /// The job is as far as the run says now: nothing was written, or an earlier attempt was.
    Elsewhere,
}

impl crate::Relations {
    /// Commits a batch, and takes the job as far as `to`.
    ///
    /// # Errors
    /// A lock of the job that is over; an engine that cannot. Then nothing was written.
    pub(super) async fn commit(&self, run: &mut Run, items: &mut [BatchItem], to: &Progress) -> Result<Settled> {
        if let Some(settled) = self.commit_portably(run, items, to).await? {
            return Ok(settled);
        }
        let mut batch = Batch {
            relations: self,
            job: &run.job,
            record: run.record.as_ref(),
            counts: &run.counts,
            destinations: &run.destinations,
            to,
            items,
            prepared: None,
            writers: Vec::new(),
            now_ms: self.clock.wall_ms(),
        };
        let done = match self.atomically(&mut batch).await {
            // An index went between the judgement of the batch and its place in the log.
            Err(error) if error.kind() == ErrorKind::IndexNotFound => {
                let Some(gone) = self.replaced_index_of(items).await? else {
                    return Err(error);
                };
                run.counts.fail(&gone);
                return Ok(Settled::Written { ended: true });
            }
            done => done?,
        };
        match done.answer {
            BatchOutcome::Stopped => Ok(Settled::Stopped),
            BatchOutcome::Gone(error) => {
                run.counts.fail(&error);
                Ok(Settled::Written { ended: true })
            }
            BatchOutcome::Undone(counts) => {
                run.counts = *counts;
                Ok(Settled::Written { ended: true })
            }
            BatchOutcome::Written { counts, ended } => {
                if let (Some(record), Some(stamp)) = (&mut run.record, done.stamps.last()) {
                    record.at = Some(*stamp);
                }
                run.counts = *counts;
                if run.job.whole.is_some() {
                    run.counts.commit_seq = Some(done.commit_seq);
                }
                Ok(Settled::Written { ended })
            }
        }
    }
}

/// The result of a batch.
enum BatchOutcome {
    /// The job was cancelled before it.
    Stopped,
    /// An index of the batch is gone: nothing is written.
    Gone(Error),
    /// One change, of which something cannot be: nothing is written.
    Undone(Box<Counts>),
    Written {
        /// After this batch.
        counts: Box<Counts>,
        /// The job ends by it.
        ended: bool,
    },
}

/// A batch as a transaction on the critical section.
struct Batch<'a> {
    relations: &'a crate::Relations,
    job: &'a Job,
    record: Option<&'a TaskRecord>,
    counts: &'a Counts,
    destinations: &'a Destinations,
    to: &'a Progress,
    items: &'a mut [BatchItem],
    /// It writes lock documents: no other decision is made beside it.
    prepared: Option<PreparedLocks>,
    /// For each write of the last plan its item; `None`: the record of the job.
    writers: Vec<Option<usize>>,
    now_ms: i64,
}

/// Indices by the name that was used; `None`: missing.
type Known = HashMap<String, Option<(WriteIndex, LockIndex)>>;

impl Transaction for Batch<'_> {
    type Answer = BatchOutcome;

    fn options(&self) -> TxnOptions {
        let written = self.items.iter().filter_map(|item| Some(item.write.as_ref()?.at.clone()));
        let kept = self.record.into_iter().flat_map(TaskRecord::touches);
        let leases = self.prepared.iter().flat_map(PreparedLocks::touches);
        TxnOptions {
            touches: written.chain(kept).chain(leases).collect(),
            gate: if self.prepared.is_some() {
                Gate::Exclusive
            } else {
                Gate::Shared
            },
            makes_room: matches!(self.job.action, JobAction::Delete),
            ..TxnOptions::default()
        }
    }

    fn run(&mut self, newest: &mut dyn Newest) -> Result<Step<BatchOutcome>> {
        self.now_ms = self.relations.clock.wall_ms();
        self.plan(newest)
    }

    /// Refused writes are left out and counted, and the rest is decided again.
    fn on_refusal(&mut self, outcomes: &[Outcome]) -> Result<Refused<BatchOutcome>> {
        for (outcome, writer) in outcomes.iter().zip(&self.writers) {
            let fate = match outcome {
                Outcome::Written(_) | Outcome::Unknown => continue,
                Outcome::Conflict(conflict) => ItemOutcome::Conflict(conflict_error(conflict)),
                Outcome::Refused(error) => ItemOutcome::Failed(error.clone()),
                Outcome::Held(_) => ItemOutcome::Conflict(Error::new(
                    ErrorKind::VersionConflict,
                    "the document is held by a change that is not finished",
                )),
            };
            let Some(n) = *writer else {
                let reason = format!("the record of the task could not be written: {fate:?}");
                return Err(Error::new(ErrorKind::Internal, reason));
            };
            self.items[n].fate = Some(fate);
        }
        Ok(Refused::Again)
    }

    fn unknown(&self) -> Error {
        let reason = "the outcome of a batch is unknown: the log failed; the task goes on after a restart";
        Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown")
    }

    fn check_linked(&self, index: &WriteIndex, at: &DocAddress, states: &States<'_>) -> Result<()> {
        let (relations, job) = (self.relations, self.job);
        let guard = Guard::new(&relations.locks, &relations.clock, &job.guards, job.whole.is_some())?.of(&job.caller);
        check_linked(guard, index, at, states)
    }
}

/// Applies writes of lock documents to the table. A refusal is the outcome of its document.
fn apply_locks(table_changes: &mut TableChanges<'_>, lock_writes: &[LockWrite], all: &mut [ItemOutcome]) {
    for lock in lock_writes {
        if let Err(error) = table_changes.apply(lock) {
            all[lock.operation] = match error.kind() {
                ErrorKind::LockNotOwned | ErrorKind::LockConflict => ItemOutcome::Conflict(error),
                _ => ItemOutcome::Failed(error),
            };
        }
    }
}

impl Batch<'_> {
    fn plan(&mut self, newest: &mut dyn Newest) -> Result<Step<BatchOutcome>> {
        if let Some(record) = self.record
            && newest.read(&record.stop(), See::Everything)?.is_some()
        {
            return Ok(Step::Reply(BatchOutcome::Stopped));
        }
        if let Some(gone) = self.replaced_index(newest)? {
            return Ok(Step::Reply(BatchOutcome::Gone(gone)));
        }
        let trees = self.check_free(newest)?;
        let (locks, clock) = (&self.relations.locks, &self.relations.clock);
        let mut guard = Guard::new(locks, clock, &self.job.guards, self.job.whole.is_some())?.of(&self.job.caller);
        let mut known = Known::new();
        let (mut all, lock_writes) = self.outcomes(newest, &mut guard, &mut known)?;
        if self.prepared.is_none() && !lock_writes.is_empty() {
            self.prepared = Some(self.relations.prepare_locks(&lock_writes));
            return Ok(Step::Exclusive);
        }
        // The table is held only where there are lock documents: no other decision is made then.
        let table = self.prepared.as_ref().map(|prepared| (locks.now(clock).0, prepared));
        let mut table_changes = table
            .as_ref()
            .map(|(table, prepared)| TableChanges::new(table, &self.job.caller, prepared, self.now_ms));
        if let Some(table_changes) = &mut table_changes {
            apply_locks(table_changes, &lock_writes, &mut all);
        }
        let mut plan = Plan {
            trees,
            ..Plan::default()
        };
        let mut writers = Vec::new();
        for (n, (item, done)) in self.items.iter().zip(&all).enumerate() {
            if let (ItemOutcome::Wrote(_), Some(write)) = (done, &item.write) {
                self.make(&known, write, &mut plan);
                plan.writes.push(write.clone());
                writers.push(Some(n));
            }
        }
        let mut counts = self.counts.clone();
        let failed = tally(&mut counts, self.items, &all, self.job);
        for warning in guard.warnings {
            if counts.warnings.len() < WARNINGS_MAX {
                counts.warnings.push(warning);
            }
        }
        if failed && self.job.whole.is_some() {
            return Ok(Step::Reply(BatchOutcome::Undone(Box::new(self.undone(counts)))));
        }
        // One change as a whole has a number of its own, also if it changes nothing.
        plan.numbered = self.job.whole.is_some();
        if let Some(table_changes) = table_changes {
            table_changes.into_plan(newest, &mut plan, locks, clock)?;
        }
        writers.resize(plan.writes.len(), None);
        if let Some(record) = self.record {
            plan.writes.push(record.progress(self.to, &counts, self.destinations, failed));
            writers.push(None);
        }
        self.writers = writers;
        let counts = Box::new(counts);
        Ok(Step::Commit(plan, BatchOutcome::Written { counts, ended: failed }))
    }

    /// Checks that the directories which the job is to make are free. Gives the trees that this rests on.
    fn check_free(&self, newest: &mut dyn Newest) -> Result<Vec<(IndexName, u64)>> {
        let mut trees = Vec::new();
        for at in &self.job.free {
            if let Some(reason) = DirectoryCondition::free(at.clone()).unmet(newest, &mut trees)? {
                return Err(Error::new(ErrorKind::TreeExists, reason).with("path", at.path.as_str()));
            }
        }
        Ok(trees)
    }

    /// The outcome of each item, as far as it can be told before the engine judges it, and the lock documents among them.
    fn outcomes(
        &self,
        newest: &mut dyn Newest,
        guard: &mut Guard<'_>,
        known: &mut Known,
    ) -> Result<(Vec<ItemOutcome>, Vec<LockWrite>)> {
        let mut lock_writes = Vec::new();
        let mut all = Vec::with_capacity(self.items.len());
        for (n, item) in self.items.iter().enumerate() {
            let done = match (&item.fate, &item.write) {
                (Some(fate), _) => fate.clone(),
                (None, None) => ItemOutcome::Noop,
                (None, Some(write)) => self.one(newest, guard, known, item, write)?,
            };
            if let (ItemOutcome::Wrote(_), Some(write)) = (&done, &item.write) {
                lock_writes.extend(self.lock_write(newest, known, item, write, n)?);
            }
            all.push(done);
        }
        Ok((all, lock_writes))
    }

    /// The refusal where an index of the batch is no longer the one that its documents were found in.
    fn replaced_index(&self, newest: &mut dyn Newest) -> Result<Option<Error>> {
        for (name, uuid) in indices_of(self.items) {
            let is_there = match newest.index(name) {
                Ok(index) => *index.uuid == *uuid,
                Err(e) if e.kind() == ErrorKind::IndexNotFound => false,
                Err(e) => return Err(e),
            };
            if !is_there {
                return Ok(Some(engine::catalog::index_replaced(name, uuid)));
            }
        }
        Ok(None)
    }

    /// The counts of a change as a whole that failed: what went wrong, and nothing that was written.
    fn undone(&self, counts: Counts) -> Counts {
        Counts {
            total: counts.total,
            conflicts: counts.conflicts,
            failures: counts.failures,
            ..self.counts.clone()
        }
    }

    /// The result of a write, as far as it can be told before the engine judges it.
    fn one(
        &self,
        newest: &mut dyn Newest,
        guard: &mut Guard<'_>,
        known: &mut Known,
        item: &BatchItem,
        write: &Write,
    ) -> Result<ItemOutcome> {
        let name = write.at.index.as_str();
        if schema::is_system(name) {
            return Ok(ItemOutcome::Failed(schema::forbidden(name)));
        }
        let copies = matches!(self.job.action, JobAction::Reindex { .. });
        if !known.contains_key(name) {
            match find_index(newest, name) {
                Ok(found) => drop(known.insert(name.to_owned(), found)),
                Err(e) => return Ok(ItemOutcome::Failed(e)),
            }
        }
        let found = known.get(name).and_then(Option::as_ref);
        let is_lock = found.is_some_and(|(_, locks)| locks.has(write.at.id.doc_type.as_deref()));
        if !copies && (guard.is_open() || is_lock) {
            return Ok(ItemOutcome::Wrote(effect(true, &write.op)));
        }
        let index = found.map(|(index, _)| index);
        let mut at = write.at.clone();
        let before = match index {
            None => None,
            Some(index) => {
                at.index = index.name.clone();
                at.id = match newest.identity(&at) {
                    Ok(id) => id,
                    Err(e) => return Ok(ItemOutcome::Failed(e)),
                };
                if copies {
                    newest.read(&at, See::Plain)?
                } else {
                    Some(item.document.clone())
                }
            }
        };
        if !guard.is_open() && !is_lock {
            let settings = index.map(|index| &*index.settings);
            match check_locks(guard, settings, &at, before.as_ref(), &write.op) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::LockConflict => return Ok(ItemOutcome::Conflict(e)),
                Err(e) => return Ok(ItemOutcome::Failed(e)),
            }
        }
        if !copies {
            return Ok(ItemOutcome::Wrote(effect(true, &write.op)));
        }
        match (&before, &write.op, write.expect) {
            (None, WriteOp::Delete, _) => Ok(ItemOutcome::Noop),
            // It was copied before a restart, and written again at its source.
            (Some(_), _, Expect::Absent) if item.later => Ok(ItemOutcome::Noop),
            (Some(there), _, Expect::Absent) => Ok(ItemOutcome::Conflict(conflict_error(&Conflict {
                at,
                expect: Expect::Absent,
                found: Found::Here(there.stamp),
            }))),
            (before, op, _) => Ok(ItemOutcome::Wrote(effect(before.is_some(), op))),
        }
    }

    /// The write of a lock document, if it is one.
    fn lock_write(
        &self,
        newest: &mut dyn Newest,
        known: &Known,
        item: &BatchItem,
        write: &Write,
        n: usize,
    ) -> Result<Option<LockWrite>> {
        let Some((index, locks)) = known.get(write.at.index.as_str()).and_then(Option::as_ref) else {
            return Ok(None);
        };
        if locks.is_none() {
            return Ok(None);
        }
        let mut at = write.at.clone();
        at.id = newest.identity(&at)?;
        if !locks.has(at.id.doc_type.as_deref()) {
            return Ok(None);
        }
        at.index = index.name.clone();
        let before = match self.job.action {
            JobAction::Reindex { .. } => newest.read(&at, See::Plain)?.map(|document| document.source),
            // Written since, it is a conflict anyway.
            JobAction::Delete | JobAction::Update { .. } => Some(item.document.source.clone()),
        };
        let after = match &write.op {
            WriteOp::Put(source) => Some(source.clone()),
            WriteOp::Delete => None,
            WriteOp::Update(_) => {
                let reason = "a job writes what its script came to";
                return Err(Error::new(ErrorKind::Internal, reason));
            }
        };
        Ok(Some(LockWrite {
            after,
            process_id: LockWrite::process_of(&write.op),
            steps: 1,
            operation: n,
            ..LockWrite::new(&at, index, before.as_ref())
        }))
    }

    /// An index that is missing and may be made is made with the batch.
    fn make(&self, known: &Known, write: &Write, plan: &mut Plan) {
        let JobAction::Reindex { makes: true, typed, .. } = self.job.action else {
            return;
        };
        let name = write.at.index.as_str();
        let missing = matches!(known.get(name), Some(None));
        if missing {
            Alteration::make(&mut plan.alterations, name, typed);
        }
    }
}

/// The index of this name, and which of its documents are locks; `None`: it is missing.
fn find_index(newest: &mut dyn Newest, name: &str) -> Result<Option<(WriteIndex, LockIndex)>> {
    match newest.index(name) {
        Ok(index) => {
            let locks = LockIndex::of(&index.settings)?;
            Ok(Some((index, locks)))
        }
        Err(e) if e.kind() == ErrorKind::IndexNotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Checks the locks of others on a document, and on where it was and will be. `settings`: those of its index.
///
/// # Errors
/// `lock_conflict_exception`; a source whose places cannot be read.
fn check_locks(
    guard: &mut Guard<'_>,
    settings: Option<&Map<String, Value>>,
    at: &DocAddress,
    before: Option<&Document>,
    op: &WriteOp,
) -> Result<()> {
    let mut places = Vec::new();
    let fields = settings.map(place_fields).transpose()?;
    if let Some(fields) = fields.filter(|fields| !fields.is_unset()) {
        let after = match op {
            WriteOp::Put(source) => Some(source),
            _ => None,
        };
        for source in before.map(|document| &document.source).into_iter().chain(after) {
            places.extend(fields.places(&source.parse()?)?);
        }
    }
    guard.check(settings, at, &places)
}

fn effect(there: bool, op: &WriteOp) -> Effect {
    match (there, op) {
        (_, WriteOp::Delete) => Effect::Deleted,
        (true, _) => Effect::Updated,
        (false, _) => Effect::Created,
    }
}

/// Counts what came of a batch; true if the job ends by it.
pub(super) fn tally(counts: &mut Counts, items: &[BatchItem], all: &[ItemOutcome], job: &Job) -> bool {
    debug_assert_eq!(items.len(), all.len(), "each document of a batch has its outcome");
    let mut ended = false;
    let before = counts.count_settled();
    for (item, done) in items.iter().zip(all) {
        let at = item.write.as_ref().map_or(&item.document.at, |write| &write.at);
        let of_index = counts.by_index.entry(item.document.at.index.to_string()).or_default();
        of_index.0 += 1;
        let failure = match done {
            ItemOutcome::Noop => {
                counts.noops += 1;
                continue;
            }
            ItemOutcome::Wrote(effect) => {
                match effect {
                    Effect::Created => counts.created += 1,
                    Effect::Deleted => {
                        counts.deleted += 1;
                        of_index.1 += 1;
                    }
                    _ => counts.updated += 1,
                }
                continue;
            }
            ItemOutcome::Conflict(error) => {
                counts.conflicts += 1;
                if job.proceed {
                    continue;
                }
                error
            }
            ItemOutcome::Failed(error) => error,
        };
        ended = true;
        let mut entry = Map::new();
        entry.insert("index".into(), at.index.as_str().into());
        if let Some(doc_type) = &at.id.doc_type {
            entry.insert("type".into(), (&**doc_type).into());
        }
        entry.insert("id".into(), (&*at.id.id).into());
        entry.insert("cause".into(), Value::Object(failure.to_json()));
        entry.insert("status".into(), failure.status().into());
        counts.failures.push(Value::Object(entry));
    }
    debug_assert_eq!(
        counts.count_settled() - before + all.iter().filter(|done| matches!(done, ItemOutcome::Failed(_))).count() as u64,
        items.len() as u64,
        "each document of a batch is counted once"
    );
    counts.add_done(items.len() as u64, job.batch);
    ended
}

/// The conflict of one document as an error.
pub(super) fn conflict_error(conflict: &Conflict) -> Error {
    let id = &conflict.at.id.id;
    let stamp = conflict.found.stamp().filter(|_| !matches!(conflict.found, Found::Nothing));
    let reason = match (conflict.expect, stamp) {
        (Expect::Absent, Some(stamp)) => {
            format!(
                "[{id}]: version conflict, document already exists (current version [{}])",
                stamp.version
            )
        }
        (Expect::Unchanged { seq_no, primary_term }, Some(stamp)) if conflict.found.is_here() => format!(
            "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. current document has seqNo [{}] \
             and primary term [{}]",
            stamp.seq_no, stamp.primary_term
        ),
        (Expect::Unchanged { seq_no, primary_term }, _) => format!(
            "[{id}]: version conflict, required seqNo [{seq_no}], primary term [{primary_term}]. but no document was found"
        ),
        (Expect::NewerThan { version, or_equal }, Some(stamp)) => {
            let how = if or_equal { "higher" } else { "higher or equal to" };
            let than = if or_equal { " than" } else { "" };
            format!(
                "[{id}]: version conflict, current version [{}] is {how}{than} the one provided [{version}]",
                stamp.version
            )
        }
        (_, Some(stamp)) => format!("[{id}]: version conflict, current version [{}] differs", stamp.version),
        (_, None) => format!("[{id}]: version conflict, no document was found"),
    };
    Error::new(ErrorKind::VersionConflict, reason)
        .with("index", conflict.at.index.as_str())
        .with("shard", "0")
}
