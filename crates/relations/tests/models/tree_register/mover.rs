//! The steps of movers and helpers.

use super::places::{Decision, Place, Places, Wish, decide};
use super::state::{
    Directory, Entry, MOVES_MAX, Pc, Process, Register, State, cannot, check_refusal, forgetful, outdate_directory, record_commit,
};
use super::{Mutant, TreeRegister};
use crate::lying::{Outcome, Read};

/// Successors of one process's step.
pub(super) struct Step<'a> {
    pub(super) model: &'a TreeRegister,
    pub(super) s: &'a State,
    pub(super) n: usize,
    pub(super) p: Process,
    pub(super) out: &'a mut Vec<(bool, State)>,
}

impl Step<'_> {
    fn is(&self, mutant: Mutant) -> bool {
        self.model.is(mutant)
    }
    /// What it wants to move; a helper wants nothing.
    fn wish(&self) -> Option<Wish> {
        self.model.wishes.get(self.n).copied()
    }
    fn emit(&mut self, p: Process, with: impl FnOnce(&mut State)) {
        let mut state = self.s.clone();
        with(&mut state);
        state.processes[self.n] = match p.pc {
            Pc::End => Process {
                may_refuse: false,
                ..forgetful(p)
            },
            Pc::Read => forgetful(p),
            _ => p,
        };
        self.out.push((self.wish().is_none(), state));
    }
    fn to(&mut self, pc: Pc) {
        self.emit(Process { pc, ..self.p }, |_| {});
    }
    fn held(&self) -> Read<Register> {
        self.p.register.expect("it read the register")
    }
    /// The number of the move that it applies.
    fn number(&self) -> u8 {
        self.held().body.applied + 1
    }

    pub(super) fn run(&mut self) {
        match self.p.pc {
            Pc::Idle => {
                let may_refuse = self.wish().is_some_and(|wish| cannot(&self.s.serial, wish));
                let (pc, p) = (Pc::Read, self.p);
                self.emit(Process { pc, may_refuse, ..p }, |_| {});
            }
            Pc::Read => self.read(),
            Pc::Touch => {
                let pc = match self.is(Mutant::NoHelp) && !self.is_own(&self.held().body) {
                    true => Pc::Check,
                    false => Pc::ApplyRead,
                };
                self.cas_register(self.held().body, None, (pc, Pc::Read));
            }
            Pc::ApplyRead => {
                let dir = usize::from(self.held().body.entry(self.number()).wish.dir);
                for read in self.s.directories[dir - 1].reads() {
                    let (pc, directory) = (Pc::ApplyWrite, Some(read));
                    self.emit(Process { pc, directory, ..self.p }, |_| {});
                }
            }
            Pc::ApplyWrite => self.apply(),
            Pc::Check => self.check(),
            Pc::Commit(to) => self.commit(to),
            Pc::Confirm => self.cas_register(self.held().body, None, (Pc::End, Pc::Read)),
            Pc::Mark => {
                let pc = if self.wish().is_some() { Pc::End } else { Pc::Read };
                self.cas_register(self.held().body, None, (pc, pc));
            }
            Pc::End => {}
        }
    }

    /// Is its own move in the register?
    fn is_own(&self, register: &Register) -> bool {
        let kept = if self.is(Mutant::ShortRing) { 1 } else { MOVES_MAX as u8 };
        let kept = register.n.saturating_sub(kept) + 1..=register.n;
        kept.into_iter()
            .any(|number| usize::from(register.entry(number).by) == self.n)
    }

    fn read(&mut self) {
        for read in self.s.register.reads() {
            let register = read.body;
            let p = Process {
                register: Some(read),
                ..self.p
            };
            if register.applied < register.n {
                let pc = match self.is(Mutant::NoConfirm) {
                    true => Pc::ApplyRead,
                    false => Pc::Touch,
                };
                self.emit(Process { pc, ..p }, |_| {});
            } else if self.is_own(&register) {
                self.to(Pc::End);
            } else if self.wish().is_some() {
                self.emit(Process { pc: Pc::Check, ..p }, |_| {});
            }
        }
    }

    /// A compare-and-set of the register at what it holds, and how it goes on: told that it is done, and not.
    fn cas_register(&mut self, body: Register, commit: Option<Entry>, (told, untold): (Pc, Pc)) {
        let (s, n, before, model, held) = (self.s, self.n, self.p, self.model, self.held());
        let mut outcomes = s.register.cas(&held, body, s.lost > 0);
        if commit.is_some() && self.is(Mutant::NoCas) {
            outcomes = vec![(Outcome::Done, s.register.written(body))];
        }
        for (outcome, register) in outcomes {
            let mut p = Process { pc: untold, ..self.p };
            if outcome == Outcome::Done {
                p.pc = told;
                p.register = Some(register.read_after_write());
                p.is_confirmed = true;
            }
            let refuses = outcome == Outcome::Done && self.p.pc == Pc::Confirm;
            self.emit(p, |state| {
                state.register = register;
                state.lost -= u8::from(outcome == Outcome::Lost);
                let others = state.processes.iter_mut().enumerate().filter(|(other, _)| *other != n);
                others.for_each(|(_, p)| p.register.iter_mut().for_each(|read| read.outdate(outcome)));
                if let Some(entry) = commit.filter(|_| outcome.is_durable()) {
                    record_commit(state, &model.wishes, entry);
                }
                if refuses {
                    check_refusal(state, &before);
                }
            });
        }
    }

    /// The move behind `applied` goes into its directory document.
    fn apply(&mut self) {
        let (held, number) = (self.held(), self.number());
        let wish = held.body.entry(number).wish;
        let read = self.p.directory.expect("it read the directory document");
        let mut done = Process {
            directory: None,
            ..self.p
        };
        let register = done.register.get_or_insert(held);
        register.body.applied = number;
        done.pc = match () {
            () if number < held.body.n => Pc::ApplyRead,
            () if self.wish().is_none() || self.is_own(&held.body) => Pc::Mark,
            () => Pc::Check,
        };
        let guards = !self.is(Mutant::NoGuard);
        if guards && read.body.n > number || self.is(Mutant::DirtySkip) && read.body.n == number {
            return self.emit(done, |_| {});
        }
        let dir = usize::from(wish.dir) - 1;
        let body = Directory {
            place: wish.to,
            n: number,
        };
        let again = Process {
            pc: Pc::ApplyRead,
            directory: None,
            ..self.p
        };
        let (s, n) = (self.s, self.n);
        for (outcome, document) in s.directories[dir].cas(&read, body, s.lost > 0) {
            let told = outcome == Outcome::Done || outcome == Outcome::Ghost && self.is(Mutant::UnacknowledgedApply);
            self.emit(if told { done } else { again }, |state| {
                state.directories[dir] = document;
                state.lost -= u8::from(outcome == Outcome::Lost);
                outdate_directory(state, dir, n, &|read| read.outdate(outcome));
            });
        }
    }

    /// The trees that it may take for that of the register.
    fn trees(&self) -> Vec<Places> {
        let (s, register) = (self.s, self.held().body);
        let wish = self.wish().expect("helpers move nothing");
        if self.is(Mutant::StaleTree) && !cannot(&self.model.begin, wish) {
            return vec![self.model.begin];
        }
        // Every second mover has followed the register; the others begin with a scan.
        if self.n.is_multiple_of(2) {
            return vec![register.replay(0, self.model.begin())];
        }
        let durable = s.directories.map(|document| document.durable);
        let mut scans = vec![durable];
        if self.is(Mutant::ScanWithoutBarrier) {
            for (n, document) in s.directories.iter().enumerate() {
                for read in document.reads().iter().skip(1) {
                    let mut scan = durable;
                    scan[n] = read.body;
                    scans.push(scan);
                }
            }
        }
        scans
            .into_iter()
            .map(|scan| register.replay(register.applied, scan))
            .collect()
    }

    fn check(&mut self) {
        let wish = self.wish().expect("helpers move nothing");
        for tree in self.trees() {
            match decide(&tree, wish) {
                Decision::Move(to) => self.to(Pc::Commit(to)),
                Decision::Exists if self.is(Mutant::NoNameCheck) => self.to(Pc::Commit(wish.to)),
                _ if self.p.is_confirmed || self.is(Mutant::RefuseUnconfirmed) => {
                    let p = self.p;
                    self.emit(Process { pc: Pc::End, ..p }, |state| check_refusal(state, &p));
                }
                _ => self.to(Pc::Confirm),
            }
        }
    }

    fn commit(&mut self, to: Place) {
        let wish = self.wish().expect("helpers move nothing");
        let entry = Entry {
            by: self.n as u8,
            wish: Wish { to, ..wish },
        };
        // What was behind is applied, and that was acknowledged.
        let mut register = self.held().body;
        register.applied = register.n;
        self.cas_register(register.with(entry), Some(entry), (Pc::ApplyRead, Pc::Read));
    }
}
