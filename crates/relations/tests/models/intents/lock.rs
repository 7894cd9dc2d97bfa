//! A client that holds a lock and makes a guarded change under it; and the end of its lease.

use super::mutants::Mutant;
use super::state::{Back, Pc, Process, resolving, visible};
use super::store::{Step, read_record};
use relations::intents::RecordState;

impl Step<'_> {
    /// The lock is free: it is written.
    pub(super) fn grant(&mut self) {
        let s = self.s;
        if s.lock.is_none() && s.lease.0 {
            self.emit(&|p| p.pc = Pc::Scan, |state| state.lock = Some(false));
        }
    }

    /// After the grant: who wrote a record before he could see the lock?
    pub(super) fn scan(&mut self) {
        let (m, s) = (self.model, self.s);
        let is = |mutant| m.is(mutant);
        let marks_form = m.is(Mutant::MarksInsteadOfRecords);
        let held = |p: &mut Process| {
            p.pc = Pc::Held;
            p.client = Some(0);
        };
        if is(Mutant::GrantWithoutScan) {
            return self.go(&held);
        }
        if marks_form {
            for read in m.read_doc(s, 0) {
                if read.body.is_some_and(|body| body.mark == Some(0)) {
                    self.resolve(0, Pc::Scan);
                } else {
                    self.go(&held);
                }
            }
            return;
        }
        for (fresh, record) in read_record(s, 0) {
            let shows_grant = s.isolated.is_some_and(|(_, lock)| lock.is_some());
            if !fresh && !shows_grant && !is(Mutant::NoBarrier) {
                continue;
            }
            match record.state {
                None | Some(RecordState::Done) => self.go(&held),
                Some(RecordState::Aborted) if is(Mutant::NoConfirm) => self.go(&held),
                _ => self.resolve(0, Pc::Scan),
            }
        }
    }

    /// The client reads, and opens its change.
    pub(super) fn held(&mut self) {
        let s = self.s;
        let read = visible(s.docs[0]);
        self.emit(
            &|p| {
                p.pc = Pc::Guard;
                p.client = read;
            },
            |state| state.records[1].state = Some(RecordState::Pending),
        );
    }

    /// The change is named in the lease, if that is still open.
    pub(super) fn guard(&mut self) {
        let (m, s) = (self.model, self.s);
        let is = |mutant| m.is(mutant);
        let open = if is(Mutant::Unnamed) || is(Mutant::NamedInEntry) {
            s.lock.is_some()
        } else {
            s.lease.0
        };
        if !open {
            return self.resolve(1, Pc::Unlock);
        }
        self.emit(&|p| p.pc = Pc::Plan, |state| {
            if is(Mutant::NamedInEntry) {
                state.lock = Some(true);
            } else if !is(Mutant::Unnamed) {
                state.lease.1 = true;
            }
        });
    }

    /// The lease is closed; what it names is resolved before the lock goes.
    pub(super) fn expire(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let back = Back::of(p.back);
        let named = !is(Mutant::LockPurgedAtOnce) && s.lease.1;
        let go = |p: &mut Process| {
            if is(Mutant::NamedInEntry) {
                p.pc = Pc::ReadIn;
            } else if named {
                resolving(p, 1, Pc::Remove(back));
            } else {
                p.pc = Pc::Remove(back);
            }
        };
        self.emit(&go, |state| state.lease.0 = false);
    }

    /// The mutant that names changes in the entry looks there.
    pub(super) fn read_in(&mut self) {
        let (s, p) = (self.s, self.p);
        let back = Back::of(p.back);
        let mut views = vec![(true, s.lock)];
        views.extend(s.isolated.map(|(_, lock)| (false, lock)));
        for (fresh, lock) in views {
            match lock {
                None => self.go(&|p| {
                    p.pc = back.pc();
                    p.back = None;
                }),
                Some(true) => self.go(&|p| resolving(p, 1, Pc::Remove(back))),
                Some(false) if fresh => self.to(Pc::Remove(back)),
                Some(false) => {
                    let idle = back == Back::Idle;
                    self.emit(
                        &|p| {
                            p.pc = if idle { Pc::Idle } else { Pc::ReadIn };
                            p.back = if idle { None } else { p.back };
                        },
                        |state| state.isolated = state.isolated.map(|(records, _)| (records, None)),
                    );
                }
            }
        }
    }

    /// The entry goes.
    pub(super) fn remove(&mut self, back: Back) {
        let (m, s) = (self.model, self.s);
        let is = |mutant| m.is(mutant);
        let undecided = matches!(s.records[1].state, None | Some(RecordState::Pending | RecordState::Committed));
        if is(Mutant::NamedInEntry) && s.lock == Some(true) && undecided {
            return self.go(&|p| {
                p.pc = Pc::ReadIn;
                p.back = Some(back.pc());
            });
        }
        self.emit(
            &|p| {
                p.pc = back.pc();
                p.back = None;
            },
            |state| state.lock = None,
        );
        if s.isolated.is_some_and(|(_, lock)| lock.is_some()) {
            self.emit(
                &|p| {
                    p.pc = Pc::Expire;
                    p.back = Some(back.pc());
                },
                |state| state.isolated = state.isolated.map(|(records, _)| (records, None)),
            );
        }
    }
}
