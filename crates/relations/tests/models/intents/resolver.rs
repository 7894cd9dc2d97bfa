//! The steps of who meets a change, or has committed one: decide, apply, purge, done.

use super::mutants::Mutant;
use super::state::{Body, Carried, Form, Pc, Process, Read, finished};
use super::store::{Step, read_record};
use relations::intents::{Apply, Purge, RecordState, Then, apply, decide, purge};

impl Step<'_> {
    /// Whoever met a change decides it: `decide`.
    pub(super) fn decide(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        if is(Mutant::PurgeFirst) && p.carried == Carried::Nothing {
            return self.go(&|p| {
                p.pc = Pc::Purge;
                p.carried = Carried::First;
            });
        }
        for (fresh, record) in read_record(s, p.at) {
            let Some(state) = record.state else {
                // Its negation is created; a stale read fails in that, and it does not matter here.
                if fresh {
                    self.go(&finished);
                }
                continue;
            };
            let mut decided = decide(Some(state));
            if is(Mutant::AbortCommitted) && state == RecordState::Committed {
                decided = decide(None);
            }
            if is(Mutant::PurgeCommitted) && state == RecordState::Committed {
                decided.then = Then::Purge;
            }
            let pc = match decided.then {
                Then::Apply => Pc::ApplyRead,
                Then::Purge => Pc::Purge,
                Then::Wait => Pc::Finish,
            };
            if is(Mutant::NoConfirm) && state != RecordState::Pending {
                self.to(pc);
                continue;
            }
            let stay = |q: &mut Process| {
                q.pc = Pc::Resolve;
                q.carried = p.carried;
            };
            self.cas_record(p.at, fresh, decided.write, None, &|p| p.pc = pc, &stay);
        }
    }

    /// W6: the next document of a committed change is read.
    pub(super) fn apply_read(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let touched = m.touched(p.at);
        let short = usize::from(is(Mutant::DoneEarly));
        if usize::from(p.j) == touched.len() - short {
            return self.to(Pc::Done);
        }
        for read in m.read_doc(s, touched[usize::from(p.j)]) {
            self.go(&|q| {
                q.pc = Pc::ApplyWrite;
                q.j = p.j;
                q.carried = Carried::Read(read);
            });
        }
    }

    /// W6: the outcome comes to the document, by its mark: `apply`.
    pub(super) fn apply_write(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let Carried::Read(Read { doc, fresh, body }) = p.carried else {
            return;
        };
        let record = s.records[usize::from(p.at)];
        let Some(ops) = record
            .ops
            .or_else(|| s.isolated.and_then(|(records, _)| records[usize::from(p.at)].ops))
        else {
            return;
        };
        let token = record
            .token
            .max(s.isolated.map_or(0, |(records, _)| records[usize::from(p.at)].token));
        let outcome = ops[usize::from(p.j)];
        let next = |q: &mut Process| {
            q.pc = Pc::ApplyRead;
            q.j = p.j + 1;
        };
        let again = |q: &mut Process| {
            q.pc = Pc::ApplyRead;
            q.j = p.j;
        };
        let written = |mark: Option<u8>| {
            let old = body.unwrap_or(Body {
                content: 0,
                form: Form::Tomb,
                token: 0,
                mark: None,
            });
            let (content, form) = outcome.unwrap_or((old.content, old.form));
            Some(Body {
                content,
                form,
                token,
                mark,
            })
        };
        let mark = body.and_then(|body| body.mark);
        let fresh = fresh || m.is(Mutant::BlindApply);
        let mut decision = apply(body.map(|_| mark.as_ref()), &p.at);
        if m.is(Mutant::AnyMarkIsMine) && mark.is_some() {
            decision = Apply::Write;
        }
        if m.is(Mutant::TokenOnly) && body.is_some_and(|body| body.token < token) {
            return self.cas_doc(doc, fresh, written(mark.filter(|mark| *mark != p.at)), None, &next, &again);
        }
        match decision {
            Apply::Write => self.cas_doc(doc, fresh, written(None), None, &next, &again),
            Apply::ConfirmAbsence if m.is(Mutant::NoStub) => self.cas_doc(doc, fresh, written(None), None, &next, &again),
            _ if m.is(Mutant::DirtySkip) => self.go(&next),
            Apply::Confirm => self.cas_doc(doc, fresh, body, None, &next, &again),
            Apply::ConfirmAbsence => {
                let tombstone = Body {
                    content: 0,
                    form: Form::Tomb,
                    token,
                    mark: None,
                };
                self.cas_doc(doc, fresh, Some(tombstone), None, &next, &again);
            }
        }
    }

    /// W7.
    pub(super) fn done(&mut self) {
        let (s, p) = (self.s, self.p);
        for (fresh, record) in read_record(s, p.at) {
            if matches!(record.state, Some(RecordState::Committed | RecordState::Done)) {
                self.cas_record(p.at, fresh, RecordState::Done, None, &|p| p.pc = Pc::Finish, &|p| {
                    p.pc = Pc::Done
                });
            }
        }
    }

    /// The marks of an aborted change go.
    pub(super) fn purge(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let touched = m.touched(p.at);
        let first = p.carried == Carried::First;
        if usize::from(p.j) == touched.len() {
            return self.go(&|p| {
                p.pc = if first { Pc::Resolve } else { Pc::Finish };
                p.carried = Carried::Something;
            });
        }
        for Read { doc, fresh, body } in m.read_doc(s, touched[usize::from(p.j)]) {
            let next = |q: &mut Process| {
                q.pc = Pc::Purge;
                q.j = p.j + 1;
                q.carried = p.carried;
            };
            let again = |q: &mut Process| {
                q.pc = Pc::Purge;
                q.j = p.j;
                q.carried = p.carried;
            };
            let mark = body.and_then(|body| body.mark);
            let stub = body.is_some_and(|body| body.form == Form::Stub);
            let clean = match purge(mark.as_ref(), stub, &p.at) {
                Purge::Leave => {
                    self.go(&next);
                    continue;
                }
                Purge::Remove if is(Mutant::StubBecomesDocument) => body.map(|body| Body {
                    form: Form::Live,
                    mark: None,
                    ..body
                }),
                Purge::Remove => None,
                Purge::TakeOff => body.map(|body| Body { mark: None, ..body }),
            };
            self.cas_doc(doc, fresh, clean, None, &next, &again);
        }
    }

    /// Any change that is not finished, and any lock, may be taken up.
    pub(super) fn idle(&mut self) {
        let (m, s) = (self.model, self.s);
        for change in 0..m.changes.len() as u8 {
            let open = matches!(
                s.records[usize::from(change)].state,
                Some(RecordState::Pending | RecordState::Committed)
            );
            if open || s.docs.iter().flatten().any(|body| body.mark == Some(change)) {
                self.resolve(change, Pc::Idle);
            }
        }
        if s.lock.is_some() {
            self.go(&|p| {
                p.pc = Pc::Expire;
                p.back = Some(Pc::Idle);
            });
        }
    }
}
