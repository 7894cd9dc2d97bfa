//! The steps of who makes a change: W1, R, W4, W5.
//!
//! Not here: what anybody may do with a change that he meets (`resolver.rs`).

use super::mutants::Mutant;
use super::state::{Body, Carried, Form, MOST, Op, Pc, Process, Read, push, visible};
use super::store::{Go, Step, read_record};
use relations::intents::RecordState;

impl Step<'_> {
    /// W1: the record, pending.
    pub(super) fn record(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let reads_locks = self.reads_locks();
        let marks_form = m.is(Mutant::MarksInsteadOfRecords);
        let early = m.is(Mutant::LocksReadEarly);
        if reads_locks && early && p.client.is_none() {
            if s.lock.is_none() {
                self.go(&|p| p.client = Some(0));
            }
            return;
        }
        let pc = if reads_locks && !marks_form && !early {
            Pc::ReadLock
        } else {
            Pc::Plan
        };
        let own = usize::from(p.own);
        self.emit(
            &|p| {
                p.pc = pc;
                p.client = None;
            },
            |state| state.records[own].state = Some(RecordState::Pending),
        );
    }

    /// Is a document under somebody's lock?
    pub(super) fn read_lock(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let marks_form = m.is(Mutant::MarksInsteadOfRecords);
        let mut views = vec![s.lock];
        if marks_form && m.stale {
            views.push(None);
        }
        if let Some((records, lock)) = s.isolated
            && !marks_form
            && (records[usize::from(p.own)].state.is_some() || is(Mutant::NoBarrier))
        {
            views.push(lock);
        }
        views.dedup();
        for lock in views {
            if lock.is_none() {
                self.go(&|p| {
                    p.pc = if marks_form { Pc::Commit } else { Pc::Plan };
                    if !marks_form {
                        p.reads = [None; MOST];
                    }
                    p.carried = Carried::Something;
                });
            } else {
                self.resolve(p.own, Pc::End);
                let back = if marks_form { Pc::Plan } else { Pc::ReadLock };
                self.go(&|p| {
                    p.pc = Pc::Expire;
                    p.back = Some(back);
                });
            }
        }
    }

    /// R: the next document is read, and whose mark it carries resolved first.
    pub(super) fn plan(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let end = self.end();
        let touched = m.touched(p.own);
        let j = usize::from(p.j);
        if j == touched.len() {
            return self.to(Pc::Mark);
        }
        let doc = touched[j];
        let creates = m.op(p.own, doc) == Some(Op::Create);
        for read in m.read_doc(s, doc) {
            let mark = read.body.and_then(|body| body.mark).filter(|mark| *mark != p.own);
            match mark {
                Some(other) if !is(Mutant::PlanOverMarks) => self.resolve(other, Pc::Plan),
                _ if visible(read.body).is_none() != creates => self.resolve(p.own, end),
                _ => self.go(&|p| {
                    if j == 0 {
                        p.reads = [None; MOST];
                    }
                    p.reads[j] = Some(read);
                    p.j = j as u8 + 1;
                    p.carried = Carried::Something;
                }),
            }
        }
    }

    /// W4: a mark on the next document, at the version that was read.
    pub(super) fn mark(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let reads_locks = self.reads_locks();
        let marks_form = m.is(Mutant::MarksInsteadOfRecords);
        let j = usize::from(p.j);
        let Some(Read { doc, fresh, body }) = p.reads.get(j).copied().flatten() else {
            return self.to(if reads_locks && marks_form { Pc::ReadLock } else { Pc::Commit });
        };
        let next = move |p: &mut Process| {
            p.pc = Pc::Mark;
            p.j = j as u8 + 1;
        };
        let op = m.op(p.own, doc);
        let last = p.reads.get(j + 1).copied().flatten().is_none();
        if is(Mutant::NoCheck) && op == Some(Op::Check)
            || is(Mutant::NoStub) && op == Some(Op::Create)
            || is(Mutant::CommitBeforeLastMark) && last
        {
            return self.go(&next);
        }
        let (fresh, body) = if is(Mutant::MarkWithoutCas) {
            (true, s.docs[usize::from(doc)])
        } else {
            (fresh, body)
        };
        let marked = match body {
            None => Body {
                content: 0,
                form: Form::Stub,
                token: 0,
                mark: Some(p.own),
            },
            Some(body) => Body {
                mark: Some(p.own),
                ..body
            },
        };
        let again = |p: &mut Process| {
            p.pc = Pc::Plan;
            p.reads = [None; MOST];
        };
        let unknown: Go<'_> = if is(Mutant::UnacknowledgedMark) { &next } else { &again };
        self.cas_doc(doc, fresh, Some(marked), None, &next, unknown);
    }

    /// W5: the record becomes committed, with every outcome.
    pub(super) fn commit(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let end = self.end();
        let mut ops = [None; MOST];
        for (j, read) in p.reads.iter().flatten().enumerate() {
            let digit = u32::from(p.own) + 1;
            ops[j] = match m.op(p.own, read.doc) {
                Some(Op::Update) => {
                    let base = p.client.unwrap_or_else(|| read.body.map_or(0, |body| body.content));
                    Some((push(base, digit), Form::Live))
                }
                Some(Op::Create) => Some((push(0, digit), Form::Live)),
                Some(Op::Delete) => Some((0, Form::Tomb)),
                Some(Op::Check) | None => None,
            };
        }
        let fresh = s.records[usize::from(p.own)].state == Some(RecordState::Pending) || is(Mutant::BlindCommit);
        let ok = |q: &mut Process| {
            q.pc = Pc::ApplyRead;
            q.at = p.own;
            q.back = Some(end);
            q.reads = [None; MOST];
        };
        let unknown = |q: &mut Process| {
            q.pc = Pc::Outcome;
            if is(Mutant::UnknownIsAborted) {
                q.pc = Pc::Purge;
                q.at = p.own;
                q.back = Some(end);
            }
        };
        self.cas_record(p.own, fresh, RecordState::Committed, Some(ops), &ok, &unknown);
    }

    /// The commit's answer was lost: what does the record say?
    pub(super) fn outcome(&mut self) {
        let (s, p) = (self.s, self.p);
        let end = self.end();
        for (_, record) in read_record(s, p.own) {
            if record.state == Some(RecordState::Pending) {
                self.to(Pc::Commit);
            } else {
                self.resolve(p.own, end);
            }
        }
    }
}
