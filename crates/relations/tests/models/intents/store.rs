//! The store that lies: what reads may show, and what a compare-and-set may come to.

use super::Intents;
use super::mutants::Mutant;
use super::state::{Body, Carried, Content, Form, Kind, MOST, Pc, Process, Read, Record, State, resolving, visible};
use relations::intents::RecordState;

impl Intents {
    /// What a read of a document may show.
    pub(super) fn read_doc(&self, s: &State, doc: u8) -> Vec<Read> {
        let i = usize::from(doc);
        let mut found = vec![Read {
            doc,
            fresh: true,
            body: s.docs[i],
        }];
        let mut hint = |body| {
            found.push(Read { doc, fresh: false, body });
        };
        if let Some(ghost) = s.ghosts[i] {
            hint(ghost);
        }
        if self.stale && s.docs[i] != self.initial(i) {
            hint(self.initial(i));
        }
        found
    }
}

/// What a read of a record may show, and whether that is the newest.
pub(super) fn read_record(s: &State, change: u8) -> Vec<(bool, Record)> {
    let i = usize::from(change);
    let mut found = vec![(true, s.records[i])];
    if let Some((records, _)) = &s.isolated
        && records[i] != s.records[i]
    {
        found.push((false, records[i]));
    }
    found
}

/// Successors of one process's step.
pub(super) struct Step<'a> {
    pub(super) model: &'a Intents,
    pub(super) s: &'a State,
    pub(super) n: usize,
    pub(super) p: Process,
    pub(super) out: &'a mut Vec<(bool, State)>,
}

/// How a process goes on: to `pc`, with the rest of its memory as the closure leaves it.
pub(super) type Go<'a> = &'a dyn Fn(&mut Process);

impl Step<'_> {
    /// The state after this process went on and `with` happened to the store.
    pub(super) fn emit(&mut self, go: Go<'_>, with: impl FnOnce(&mut State)) {
        let mut state = self.s.clone();
        let mut p = Process {
            j: 0,
            carried: Carried::Nothing,
            ..self.p
        };
        go(&mut p);
        with(&mut state);
        state.processes[self.n] = p;
        self.out.push((self.p.kind == Kind::Recoverer, state));
    }
    pub(super) fn go(&mut self, go: Go<'_>) {
        self.emit(go, |_| {});
    }
    pub(super) fn to(&mut self, pc: Pc) {
        self.go(&|p| p.pc = pc);
    }
    /// To resolving a change, and back to `back`.
    pub(super) fn resolve(&mut self, change: u8, back: Pc) {
        self.go(&|p| resolving(p, change, back));
    }

    /// A compare-and-set of a record.
    pub(super) fn cas_record(
        &mut self,
        change: u8,
        fresh: bool,
        new: RecordState,
        ops: Option<[Option<(Content, Form)>; MOST]>,
        ok: Go<'_>,
        unknown: Go<'_>,
    ) {
        if !fresh {
            return self.go(unknown);
        }
        let (s, i) = (self.s, usize::from(change));
        let mut record = s.records[i];
        let commit = new == RecordState::Committed
            && (record.state == Some(RecordState::Pending) || self.model.is(Mutant::BlindCommit) && ops.is_some());
        let (mut error, mut serial) = (s.error, s.serial);
        if let (true, Some(ops)) = (commit, ops) {
            let token = 1 + s.records.iter().map(|r| r.token).max().unwrap_or(0);
            record = Record {
                state: Some(RecordState::Committed),
                token,
                ops: Some(ops),
            };
            let touched = self.model.touched(change);
            let sound = match self.p.client {
                Some(read) => Some(read) == serial[usize::from(touched[0])],
                None => self
                    .p
                    .reads
                    .iter()
                    .flatten()
                    .all(|read| visible(read.body) == serial[usize::from(read.doc)]),
            };
            if !sound {
                error = Some("serializability: a change was computed from what is not the serial state");
            }
            if self.alive() && change == 0 {
                error = Some("mutex: a foreign change commits under a live lock");
            }
            for (doc, op) in touched.iter().zip(ops) {
                if let Some((content, form)) = op {
                    serial[usize::from(*doc)] = (form == Form::Live).then_some(content);
                }
            }
        } else {
            record.state = Some(new);
        }
        let happens = |state: &mut State| {
            state.records[i] = record;
            state.serial = serial;
            state.error = error;
        };
        self.emit(ok, happens);
        if s.lost > 0 {
            self.emit(unknown, |state| {
                happens(state);
                state.lost -= 1;
            });
        }
        if let Some((records, lock)) = s.isolated
            && records[i] == s.records[i]
            && record != s.records[i]
        {
            self.emit(unknown, |state| {
                let mut records = records;
                records[i] = record;
                state.isolated = Some((records, lock));
            });
        }
    }

    /// A compare-and-set of a document; `serial` is what a plain write makes of the serial state.
    pub(super) fn cas_doc(
        &mut self,
        doc: u8,
        fresh: bool,
        body: Option<Body>,
        serial: Option<Option<Content>>,
        ok: Go<'_>,
        unknown: Go<'_>,
    ) {
        if !fresh {
            return self.go(unknown);
        }
        let (s, i, n) = (self.s, usize::from(doc), self.n);
        let covered = self.alive() && doc == 0 && self.p.at == 0 && visible(body) != visible(s.docs[0]);
        let happens = |state: &mut State| {
            state.docs[i] = body;
            if let Some(serial) = serial {
                state.serial[i] = serial;
            }
            if covered {
                state.error = Some("mutex: a covered document changed under a live lock");
            }
            outdate(state, doc, n);
        };
        self.emit(ok, happens);
        if s.lost > 0 {
            self.emit(unknown, |state| {
                happens(state);
                state.lost -= 1;
            });
        }
        let ghosts = matches!(self.p.kind, Kind::Coordinator | Kind::Locker | Kind::Recoverer);
        if s.ghost > 0 && s.ghosts[i].is_none() && ghosts {
            self.emit(unknown, |state| {
                state.ghosts[i] = Some(body);
                state.ghost -= 1;
            });
        }
    }

    /// The lock is granted and its lease open.
    pub(super) fn alive(&self) -> bool {
        self.model.locker && self.s.lock.is_some() && self.s.lease.0 && self.s.processes[1].client.is_some()
    }
}

/// Everybody else's reads of this document are old now.
pub(super) fn outdate(state: &mut State, doc: u8, by: usize) {
    for (n, p) in state.processes.iter_mut().enumerate() {
        if n == by {
            continue;
        }
        if let Carried::Read(read) = &mut p.carried
            && read.doc == doc
        {
            read.fresh = false;
        }
        for read in p.reads.iter_mut().flatten().filter(|read| read.doc == doc) {
            read.fresh = false;
        }
    }
}
