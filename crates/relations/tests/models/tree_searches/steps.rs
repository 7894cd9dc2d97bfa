//! The steps of movers, rewriters, writers and searchers.

use super::state::{Anc, FILES, LATE, Pc, Process, Register, Role, State, Tree};
use super::{Mutant, TreeSearches};
use crate::lying::{Outcome, Read};

/// Successors of one process's step.
pub(super) struct Step<'a> {
    pub(super) model: &'a TreeSearches,
    pub(super) s: &'a State,
    pub(super) n: usize,
    pub(super) p: Process,
    pub(super) out: &'a mut Vec<(bool, State)>,
}

impl Step<'_> {
    fn is(&self, mutant: Mutant) -> bool {
        self.model.is(mutant)
    }
    fn emit(&mut self, p: Process, with: impl FnOnce(&mut State)) {
        let mut state = self.s.clone();
        with(&mut state);
        state.processes[self.n] = match p.pc {
            Pc::Read | Pc::Count | Pc::End => Process { register: None, ..p },
            _ => p,
        };
        self.out.push((!matches!(p.role, Role::Mover(_)), state));
    }
    fn to(&mut self, pc: Pc) {
        self.emit(Process { pc, ..self.p }, |_| {});
    }
    fn hold(&mut self, read: Read<Register>, pc: Pc) {
        let register = Some(read);
        self.emit(Process { pc, register, ..self.p }, |_| {});
    }
    fn held(&self) -> Read<Register> {
        self.p.register.expect("it read the register")
    }

    pub(super) fn run(&mut self) {
        match self.p.role {
            Role::Mover(place) => self.mover(place),
            Role::Rewriter => self.rewriter(),
            Role::Writer => self.writer(),
            Role::Searcher => self.searcher(),
        }
        if self.p.role.has_session() {
            self.publish();
        }
    }

    /// A compare-and-set of the register at what it holds. `go`: how it goes on, told that it is done or not.
    fn cas_register(&mut self, body: Register, go: impl Fn(&mut Process, Option<Read<Register>>)) {
        let (s, n, held) = (self.s, self.n, self.held());
        for (outcome, register) in s.register.cas(&held, body, s.lost > 0) {
            let told = (outcome == Outcome::Done).then(|| register.read_after_write());
            let mut p = Process {
                register: told,
                ..self.p
            };
            go(&mut p, told);
            // Its author knows what it touched, or committed, if the directory is in `moving` by now.
            let own = match (p.role, told) {
                (Role::Mover(place), Some(read)) if p.pc == Pc::End => read.body.number(place),
                _ => None,
            };
            self.emit(p, |state| {
                state.register = register;
                state.lost -= u8::from(outcome == Outcome::Lost);
                state.acknowledged = state.acknowledged.max(own.unwrap_or(0));
                let others = state.processes.iter_mut().enumerate().filter(|(other, _)| *other != n);
                others.for_each(|(_, p)| p.register.iter_mut().for_each(|read| read.outdate(outcome)));
            });
        }
    }

    fn mover(&mut self, place: u8) {
        let later = self.is(Mutant::MovingLater);
        match self.p.pc {
            Pc::Read => {
                for read in self.s.register.reads() {
                    let is_own = read.body.number(place).is_some();
                    self.hold(read, if is_own { Pc::Touch } else { Pc::Commit });
                }
            }
            Pc::Touch => {
                let mut body = self.held().body;
                body.moving = if later { body.n } else { body.moving };
                self.cas_register(body, |p, told| p.pc = if told.is_some() { Pc::End } else { Pc::Read });
            }
            Pc::Commit => {
                let mut body = self.held().body.with(place);
                body.moving = if later { body.moving } else { body.n };
                self.cas_register(body, |p, told| {
                    p.pc = match told {
                        Some(_) if later => Pc::Touch,
                        Some(_) => Pc::End,
                        None => Pc::Read,
                    };
                });
            }
            _ => {}
        }
    }

    /// Has every open session published the move of the register that a rewriter holds?
    fn is_published(&self) -> bool {
        let moving = self.held().body.moving;
        let mut open = self.s.processes.iter().filter(|p| match p.role {
            Role::Writer => !self.is(Mutant::SessionEnds),
            role => role.has_session(),
        });
        open.all(|p| p.published.n >= moving)
    }

    fn rewriter(&mut self) {
        let scans_early = self.is(Mutant::NoWait) || self.is(Mutant::WaitsTooLate);
        let waits_late = self.is(Mutant::WaitsTooLate);
        match self.p.pc {
            Pc::Read => {
                for read in self.s.register.reads() {
                    if read.body.moving > 0 {
                        let confirms = !self.is(Mutant::RewritesUnconfirmed);
                        self.hold(read, if confirms { Pc::Touch } else { Pc::List });
                    }
                }
            }
            Pc::Touch => {
                let body = self.held().body;
                self.cas_register(body, |p, told| p.pc = if told.is_some() { Pc::List } else { Pc::Read });
            }
            Pc::List => {
                let all = self.s.behind(self.held().body.moving);
                // A search that does not show the newest file yet.
                let old = all & !(1 << LATE);
                self.list(all);
                if old != all {
                    self.list(old);
                }
            }
            Pc::ReadFile => self.read_file(),
            Pc::WriteFile => self.write_file(),
            Pc::Scan if scans_early || self.is_published() => match self.s.behind(self.held().body.moving) {
                0 => self.to(Pc::Leave),
                behind => self.list(behind),
            },
            Pc::Leave if !waits_late || self.is_published() => {
                let mut body = self.held().body;
                body.moving = 0;
                self.cas_register(body, |p, _| p.pc = Pc::Read);
            }
            _ => {}
        }
    }

    fn list(&mut self, list: u8) {
        let pc = Pc::ReadFile;
        self.emit(Process { pc, list, ..self.p }, |_| {});
    }

    fn read_file(&mut self) {
        let (p, moving) = (self.p, self.held().body.moving);
        if p.list == 0 {
            return self.to(match self.is(Mutant::NoBarrierScan) {
                true => Pc::Leave,
                false => Pc::Scan,
            });
        }
        for file in (0..FILES).filter(|file| p.list & 1 << file != 0) {
            if self.s.behind(moving) & 1 << file == 0 {
                self.list(p.list & !(1 << file));
            } else {
                let (pc, file) = (Pc::WriteFile, Some((file, true)));
                self.emit(Process { pc, file, ..p }, |_| {});
            }
        }
    }

    fn write_file(&mut self) {
        let register = self.held().body;
        let (file, fresh) = self.p.file.expect("it read a file");
        let again = Process {
            pc: Pc::ReadFile,
            file: None,
            ..self.p
        };
        let anc = register.tree(register.moving);
        if !fresh {
            return self.emit(again, |_| {});
        }
        let list = again.list & !(1 << file);
        self.emit(Process { list, ..again }, |state| state.write(file, anc));
        self.losing(again, file, anc);
    }

    /// A file is written, and the answer lost.
    fn losing(&mut self, p: Process, file: usize, anc: Anc) {
        if self.s.lost > 0 {
            self.emit(p, |state| {
                state.write(file, anc);
                state.lost -= 1;
            });
        }
    }

    fn writer(&mut self) {
        match self.p.pc {
            Pc::Begin => {
                let (pc, works_with) = (Pc::Index, Some(self.p.published));
                self.emit(
                    Process {
                        pc,
                        works_with,
                        ..self.p
                    },
                    |_| {},
                );
            }
            Pc::Index => {
                let file = if self.model.rewrites { 0 } else { LATE };
                let anc = self.p.works_with.expect("it computed what it writes");
                let (pc, works_with) = (Pc::End, None);
                self.emit(
                    Process {
                        pc,
                        works_with,
                        ..self.p
                    },
                    |state| state.write(file, anc),
                );
                // It writes the same again.
                self.losing(self.p, file, anc);
            }
            _ => {}
        }
    }

    fn searcher(&mut self) {
        match self.p.pc {
            Pc::Begin => {
                let began = self.s.acknowledged;
                let mut p = Process {
                    pc: Pc::Read,
                    began,
                    ..self.p
                };
                if self.is(Mutant::CachedTree) {
                    // As far as the server knows, every move is still in `moving`.
                    p.by_dir = p.published.n > 0;
                    (p.pc, p.works_with) = (Pc::Count, Some(p.published));
                }
                self.emit(p, |_| {});
            }
            Pc::Read => {
                for read in self.s.register.reads() {
                    // A tree never goes back.
                    if read.body.n < self.p.published.n {
                        continue;
                    }
                    if self.model.touches() {
                        self.hold(read, Pc::Touch);
                    } else {
                        let mut p = self.p;
                        self.choose(&mut p, &read.body);
                        self.emit(p, |_| {});
                    }
                }
            }
            Pc::Touch => {
                let (body, ignores) = (self.held().body, self.is(Mutant::IgnoresMoving));
                self.cas_register(body, |p, told| match told {
                    Some(read) => chosen(p, &read.body, ignores),
                    None => p.pc = Pc::Read,
                });
            }
            Pc::Count => self.count(),
            _ => {}
        }
    }

    fn choose(&self, p: &mut Process, register: &Register) {
        chosen(p, register, self.is(Mutant::IgnoresMoving));
    }

    /// All names at one moment.
    fn count(&mut self) {
        let s = self.s;
        let tree = self.p.works_with.expect("it has a tree");
        let mut below = [0u8; FILES];
        for anc in s.files.iter().flatten() {
            let is_newer = anc.n > tree.n && !self.is(Mutant::BelievesNewerAnc);
            let place = if self.p.by_dir || is_newer { tree.place } else { anc.place };
            below[usize::from(place)] += 1;
        }
        let mut p = Process {
            pc: Pc::End,
            works_with: None,
            by_dir: false,
            counted: None,
            began: 0,
            ..self.p
        };
        if self.is(Mutant::TwoRequests) {
            match self.p.counted {
                Some(counted) => below[0] = counted,
                None => {
                    p.pc = Pc::Read;
                    p.began = self.p.began;
                    p.counted = Some(below[0]);
                    return self.emit(p, |_| {});
                }
            }
        }
        let error = judge(below, self.p.began, &s.register.durable);
        self.emit(p, |state| state.error = error);
    }

    /// The newest tree in the session of its server.
    fn publish(&mut self) {
        let confirmed = self
            .s
            .register
            .reads()
            .into_iter()
            .take(match self.is(Mutant::PublishesUnconfirmed) {
                true => usize::MAX,
                false => 1,
            });
        for read in confirmed {
            let published: Tree = read.body.newest();
            let works_with = self.p.works_with.filter(|_| self.p.role == Role::Writer);
            let writes = works_with.is_some_and(|tree| tree.n < published.n);
            if published.n > self.p.published.n && (!writes || self.is(Mutant::PublishesAtOnce)) {
                self.emit(Process { published, ..self.p }, |_| {});
            }
        }
    }
}

/// A searcher has the register, and counts.
fn chosen(p: &mut Process, register: &Register, ignores_moving: bool) {
    p.pc = Pc::Count;
    p.works_with = Some(register.newest());
    p.by_dir = register.moving > 0 && !ignores_moving;
}

/// What a search that ends now must not say.
fn judge(below: [u8; FILES], began: u8, register: &Register) -> Option<&'static str> {
    let mut found = (0..below.len() as u8).filter(|place| below[usize::from(*place)] > 0);
    let (Some(place), None) = (found.next(), found.next()) else {
        return Some("S13: files below two names, or below none");
    };
    let mut names = (began..=register.n).map(|n| register.tree(n).place);
    (!names.any(|name| name == place)).then_some("S13: files below a name that the directory had not")
}
