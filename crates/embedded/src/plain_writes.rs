//! Plain writes: each on its own, with a record of its own (write-path.md 3, steps 1 to 5); and rehearsals, which go the
//! same way up to the stamp and write nothing.
//!
//! Not here: writes that are decided together (`atomic_commit`), waiting for the disk (the async side, `lib`).

use crate::commit::{Committed, SideEffects};
use crate::current_document::UnheldDocuments;
use crate::durability::is_of_the_moment;
use crate::evaluate::{Evaluated, evaluate};
use crate::log::WriteStart;
use crate::prepared_write::CommitItem;
use crate::resolved_write::{ResolvedWrite, log_bytes};
use crate::store::{Store, lacks_room};
use crate::trees::Trees;
use crate::wait_for::WaitFor;
use engine::{Alteration, Expect, Outcome, Write, WriteOp};
use model::{Result, Target};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The outcome of a write, what its answer waits for, and the number of the index that was written to.
pub(crate) type WriteDone = (Outcome, WaitFor, Option<u32>);

/// Writes up to the first one that had no room.
pub(crate) struct WrittenInPart {
    /// In the order of the writes.
    pub(crate) done: Vec<WriteDone>,
    /// The writes that were not begun, in their order.
    pub(crate) left: Vec<Write>,
}

impl Store {
    /// Each write on its own. `at_once`: this thread goes on to wait. `waits`: the first write without room, and all behind it, are
    /// left; else those without room are refused.
    pub(crate) fn write(&self, writes: Vec<Write>, at_once: bool, waits: bool) -> WrittenInPart {
        let start = match (at_once, writes.len()) {
            (true, _) => WriteStart::Waiter,
            (false, 0 | 1) => WriteStart::Enqueue,
            (false, _) => WriteStart::Batch,
        };
        let mut left = writes.into_iter();
        let mut done = Vec::with_capacity(left.len());
        while let Some(next) = left.as_slice().first() {
            // Looked at once: others may take the room before a second look.
            let room = self.check_bounds(next);
            if waits && (room.as_ref().is_err_and(lacks_room) || self.must_wait(next)) {
                break;
            }
            let Some(write) = left.next() else { break };
            let mut after = WaitFor::default();
            done.push(match room.and_then(|()| self.write_one(write, start, &mut after)) {
                Ok((outcome, no)) => (outcome, after, no),
                Err(e) => {
                    // A refusal may rest on the documents that it read, and on the catalog.
                    if !is_of_the_moment(e.kind()) {
                        after.durable = after.durable.max(self.catalog.alteration_end());
                    }
                    (Outcome::Refused(self.settle(e)), after, None)
                }
            });
        }
        if start == WriteStart::Batch {
            self.log.end_batch();
        }
        WrittenInPart {
            done,
            left: left.collect(),
        }
    }

    /// Refuses a write beyond the bounds of pending writes and of the log.
    fn check_bounds(&self, write: &Write) -> Result<()> {
        match write.op {
            WriteOp::Delete => self.check_deletable(),
            WriteOp::Put(_) | WriteOp::Update(_) => self.check_writable(),
        }
    }

    /// Whether the log is to write what is queued before this: deletes make room, and go first.
    fn must_wait(&self, write: &Write) -> bool {
        self.log.is_crowded() && !matches!(write.op, WriteOp::Delete)
    }

    /// A write that has room. `after`: what its answer waits for, also if it is refused.
    fn write_one(&self, write: Write, start: WriteStart, after: &mut WaitFor) -> Result<(Outcome, Option<u32>)> {
        let deletes = matches!(write.op, WriteOp::Delete);
        let catalog = self.catalog.now();
        let entry = catalog.write_index(write.at.index.as_str(), write.require_alias, self.env.wall_ms())?;
        let begun = Instant::now();
        let done = ResolvedWrite::within(entry.clone(), write).and_then(|resolved| self.write_to(resolved, start, after));
        if let Ok(state) = self.state(&entry) {
            match &done {
                Ok((Outcome::Written(_), ..)) => state.counts().wrote(deletes, begun.elapsed()),
                _ => drop(state.counts().failed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        done
    }

    /// One write to the index that it is for.
    fn write_to(&self, resolved: ResolvedWrite, start: WriteStart, after: &mut WaitFor) -> Result<(Outcome, Option<u32>)> {
        let source = match &resolved.write.op {
            WriteOp::Put(source) => Some(&*source.0),
            WriteOp::Update(_) | WriteOp::Delete => None,
        };
        let bytes = log_bytes(&resolved.uid, source);
        let room = match resolved.write.op {
            WriteOp::Delete => self.log.reserve_delete(bytes)?,
            _ => self.log.reserve(bytes)?,
        };
        let mut room = room.with_start(start);
        let no = resolved.entry.no;
        let key = self.versions.key(no, &resolved.uid);
        // Nothing that is locked here is changed before the last step that can fail.
        let _stripe = self.write_path.lock_document(key);
        let name = resolved.write.at.index.clone();
        let (state, evaluated) = self.prepare_write(resolved, key, None, after)?;
        let mut write = match evaluated {
            Evaluated::Done(outcome) => {
                after.durable = after.durable.max(self.rests_on([name.as_str()]));
                return Ok((outcome, None));
            }
            Evaluated::Write(write) => *write,
        };
        let growing = write.growth.is_some();
        let _altering = growing.then(|| self.catalog.alter_alone());
        if growing {
            self.settle_growth(&mut write)?;
        }
        let item = CommitItem { write, state };
        let Committed {
            mut outcomes,
            after: waits,
            ..
        } = self.commit(vec![item], SideEffects::default(), &mut room)?;
        assert_eq!(outcomes.len(), 1, "1.2: a write that has its stamp has its outcome");
        after.also(waits);
        Ok((outcomes.pop().unwrap_or(Outcome::Unknown), Some(no)))
    }

    /// Would the mapping take it, and what would grow? Expectations and marks of changes under way are not looked at.
    pub(crate) fn rehearse(&self, write: &Write) -> Result<Option<Alteration>> {
        if matches!(write.op, WriteOp::Delete) {
            return ResolvedWrite::find(&self.catalog.now(), write.clone(), self.env.wall_ms()).map(|_| None);
        }
        let write = Write {
            expect: Expect::Anything,
            ..write.clone()
        };
        let resolved = ResolvedWrite::find(&self.catalog.now(), write, self.env.wall_ms())?;
        let key = self.versions.key(resolved.entry.no, &resolved.uid);
        let Evaluated::Write(write) = evaluate(resolved, key, &UnheldDocuments(self), (&self.env, &Trees::default()))? else {
            return Ok(None);
        };
        Ok(write.growth.map(|(doc_type, growth)| Alteration::PutMapping {
            target: Target::index(write.entry.name.as_str()),
            doc_type: doc_type.as_deref().map(str::to_owned),
            body: growth.render(),
        }))
    }
}
