//! The lock form of a change, over a store that lies: documents are covered by one lock, and applying goes by the
//! token of the commit (guard a) and by a touch of the record between read and write (guard b).
//!
//! Two changes on the same two documents, each with a coordinator, and recoverers. Faults: every interleaving;
//! anybody may stop for ever; anybody may be suspected; *lost* replies; *ghosts*, writes on an isolated primary,
//! readable and never durable; the first version of a document may always be read.

use crate::explore::Protocol;
use relations::changes::{self, RecordState, Then};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Form {
    Live,
    Tomb,
    Stub(u8),
}

/// Token of the last change, effects in order (a digit each), form.
type Body = (u8, u32, Form);

/// The digit of a plain write.
const PLAIN: u32 = 7;

fn effects(content: u32) -> impl Iterator<Item = u8> {
    let digits = (0..8u32).map(move |place| (content >> (3 * place)) & 7);
    let mut newest_first: Vec<u8> = digits
        .filter(|digit| *digit > 0 && *digit != PLAIN)
        .map(|digit| digit as u8 - 1)
        .collect();
    newest_first.reverse();
    newest_first.into_iter()
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Op {
    Update,
    Create,
    Delete,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    Record,
    Lock,
    Plan,
    Stub,
    Commit,
    Outcome,
    Resolve,
    LateDecision,
    ApplyRead,
    Touch,
    ApplyWrite,
    Done,
    Release,
    Purge,
    Idle,
    PlainRead,
    PlainWrite,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Process {
    recovers: bool,
    own: u8,
    pc: Pc,
    at: u8,
    j: u8,
    /// Version (none: a hint that no compare-and-set will take) and body.
    read: Option<(Option<u8>, Option<Body>)>,
}

type Record = (u8, Option<RecordState>, u8);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    records: [Record; 2],
    ghost_records: [Option<(RecordState, u8)>; 2],
    holders: [bool; 2],
    docs: [(u8, Option<Body>); 2],
    ghost_docs: [Option<Option<Body>>; 2],
    tokens: u8,
    lost: u8,
    ghosts: (u8, u8),
    processes: Vec<Process>,
}

/// A rule left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A decision that was only read is acted on.
    NoConfirm,
    /// Locks go before the change is decided.
    PurgeFirst,
    /// Guard (a) off: only the last writer is looked at.
    NoToken,
    /// Guard (b) off: no touch between read and write.
    NoTouch,
    /// `done` is believed from a read.
    DirtyDone,
    /// "Already applied" is believed from a read.
    DirtySkip,
    /// A create leaves no stub.
    NoStub,
    /// A delete leaves nothing.
    HardDelete,
    /// A plain write drops the token (M1).
    PlainDropsToken,
    // Ours.
    /// Locks are given to everybody who asks.
    NoLock,
    /// A recoverer takes the lock away and leaves the record alone.
    ForgetRecord,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct LockForm {
    /// Change 0 creates document 1, change 1 deletes it; else both update both.
    pub(crate) creates: bool,
    pub(crate) lost: u8,
    pub(crate) ghost_records: u8,
    pub(crate) ghost_docs: u8,
    pub(crate) recoverers: usize,
    /// A client that appends to document 0, without a lock.
    pub(crate) plain: bool,
    pub(crate) mutants: Vec<Mutant>,
    /// Recoverers begin anew when they are through.
    pub(crate) tireless: bool,
}

impl LockForm {
    pub(crate) fn updates() -> LockForm {
        LockForm {
            creates: false,
            lost: 0,
            ghost_records: 0,
            ghost_docs: 0,
            recoverers: 1,
            plain: false,
            mutants: Vec::new(),
            tireless: false,
        }
    }
    pub(crate) fn creates() -> LockForm {
        LockForm {
            creates: true,
            ..LockForm::updates()
        }
    }
    fn is(&self, mutant: Mutant) -> bool {
        self.mutants.contains(&mutant)
    }
    fn ops(&self, change: u8) -> [(Op, usize); 2] {
        let second = match (self.creates, change) {
            (false, _) => Op::Update,
            (true, 0) => Op::Create,
            (true, _) => Op::Delete,
        };
        [(Op::Update, 0), (second, 1)]
    }
    fn initial(&self, doc: usize) -> (u8, Option<Body>) {
        if doc == 1 && self.creates {
            (0, None)
        } else {
            (1, Some((0, 0, Form::Live)))
        }
    }
    fn read_doc(&self, s: &State, doc: usize) -> Vec<(Option<u8>, Option<Body>)> {
        let (version, body) = s.docs[doc];
        let mut found = vec![(Some(version), body)];
        found.extend(s.ghost_docs[doc].map(|ghost| (None, ghost)));
        if self.initial(doc).1 != body {
            found.push((None, self.initial(doc).1));
        }
        found
    }
}

fn read_record(s: &State, change: u8) -> Vec<(Option<u8>, Option<RecordState>)> {
    let i = usize::from(change);
    let mut found = vec![(Some(s.records[i].0), s.records[i].1)];
    found.extend(s.ghost_records[i].map(|(state, _)| (None, Some(state))));
    found
}

struct Step<'a> {
    model: &'a LockForm,
    s: &'a State,
    n: usize,
    p: Process,
    out: &'a mut Vec<(bool, State)>,
}

impl Step<'_> {
    fn emit(&mut self, p: Process, with: impl FnOnce(&mut State)) {
        let mut state = self.s.clone();
        with(&mut state);
        state.processes[self.n] = p;
        self.out.push((self.p.recovers, state));
    }
    /// The process at `pc` and operation `j`, its read forgotten.
    fn at(&self, pc: Pc, j: u8) -> Process {
        Process {
            pc,
            j,
            read: None,
            ..self.p
        }
    }
    fn cas_record(&mut self, change: u8, version: Option<u8>, new: RecordState, ok: Process, unknown: Process) {
        let (s, i) = (self.s, usize::from(change));
        let (now, old, token) = s.records[i];
        if version != Some(now) {
            return self.emit(unknown, |_| {});
        }
        let commits = new == RecordState::Committed && old == Some(RecordState::Pending);
        let token = if commits { s.tokens + 1 } else { token };
        let happens = |state: &mut State| {
            state.records[i] = (now + 1, Some(new), token);
            state.tokens = state.tokens.max(token);
        };
        self.emit(ok, happens);
        if s.lost > 0 {
            self.emit(unknown, |state| {
                happens(state);
                state.lost -= 1;
            });
        }
        if s.ghosts.0 > 0 && s.ghost_records[i].is_none() {
            self.emit(unknown, |state| {
                state.ghost_records[i] = Some((new, token));
                state.ghosts.0 -= 1;
            });
        }
    }
    fn cas_doc(&mut self, doc: usize, version: Option<u8>, body: Option<Body>, ok: Process, unknown: Process) {
        let s = self.s;
        let now = s.docs[doc].0;
        if version != Some(now) {
            return self.emit(unknown, |_| {});
        }
        let happens = |state: &mut State| state.docs[doc] = (now + 1, body);
        self.emit(ok, happens);
        if s.lost > 0 {
            self.emit(unknown, |state| {
                happens(state);
                state.lost -= 1;
            });
        }
        if s.ghosts.1 > 0 && s.ghost_docs[doc].is_none() {
            self.emit(unknown, |state| {
                state.ghost_docs[doc] = Some(body);
                state.ghosts.1 -= 1;
            });
        }
    }

    fn run(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let mine = !p.recovers && p.at == p.own;
        let after = if mine { Pc::Release } else { Pc::Purge };
        match p.pc {
            Pc::Record => {
                let own = usize::from(p.own);
                self.emit(self.at(Pc::Lock, 0), |state| {
                    state.records[own] = (1, Some(RecordState::Pending), 0)
                });
            }
            Pc::Lock => {
                let other = 1 - p.own;
                if !s.holders[usize::from(other)] || s.holders[usize::from(p.own)] || m.is(Mutant::NoLock) {
                    let next = Process {
                        at: p.own,
                        ..self.at(Pc::Plan, 0)
                    };
                    self.emit(next, |state| state.holders[usize::from(p.own)] = true);
                } else {
                    let next = Process {
                        at: other,
                        ..self.at(Pc::Resolve, 0)
                    };
                    self.emit(next, |_| {});
                }
            }
            Pc::Plan => {
                let live = s.docs[1].1.is_some_and(|body| body.2 == Form::Live);
                if m.creates && p.own == 1 && !live {
                    return;
                }
                let stubs = m.creates && p.own == 0 && !m.is(Mutant::NoStub);
                self.emit(self.at(if stubs { Pc::Stub } else { Pc::Commit }, 0), |_| {});
            }
            Pc::Stub => match s.docs[1] {
                (version, None) => self.emit(self.at(Pc::Commit, 0), |state| {
                    state.docs[1] = (version + 1, Some((0, 0, Form::Stub(p.own))));
                }),
                (_, Some((_, _, form))) if form == Form::Stub(p.own) => self.emit(self.at(Pc::Commit, 0), |_| {}),
                _ => {}
            },
            Pc::Commit => self.cas_record(
                p.own,
                Some(1),
                RecordState::Committed,
                self.at(Pc::ApplyRead, 0),
                self.at(Pc::Outcome, 0),
            ),
            Pc::Outcome => {
                for (version, state) in read_record(s, p.own) {
                    let unknown = self.at(Pc::Outcome, 0);
                    match state {
                        Some(RecordState::Done) if m.is(Mutant::DirtyDone) => self.emit(self.at(Pc::Release, 0), |_| {}),
                        Some(RecordState::Done) => {
                            self.cas_record(p.own, version, RecordState::Done, self.at(Pc::Release, 0), unknown);
                        }
                        Some(RecordState::Committed) if m.is(Mutant::NoConfirm) => self.emit(self.at(Pc::ApplyRead, 0), |_| {}),
                        Some(RecordState::Committed | RecordState::Pending) => {
                            self.cas_record(p.own, version, RecordState::Committed, self.at(Pc::ApplyRead, 0), unknown);
                        }
                        _ => {}
                    }
                }
            }
            Pc::Resolve => {
                if s.records[usize::from(p.at)].1.is_none() {
                    return;
                }
                if m.is(Mutant::PurgeFirst) && !p.recovers {
                    return self.emit(self.at(Pc::LateDecision, 0), |state| state.holders[usize::from(p.at)] = false);
                }
                if m.is(Mutant::ForgetRecord) {
                    return self.emit(self.at(Pc::Purge, 0), |_| {});
                }
                for (version, read) in read_record(s, p.at) {
                    let Some(state) = read else { continue };
                    let decided = changes::decide(Some(state));
                    let next = match decided.then {
                        Then::Apply => self.at(Pc::ApplyRead, 0),
                        Then::Purge | Then::Wait => self.at(Pc::Purge, 0),
                    };
                    let believed = match state {
                        RecordState::Committed | RecordState::Aborted => m.is(Mutant::NoConfirm),
                        RecordState::Done => m.is(Mutant::DirtyDone),
                        RecordState::Pending | RecordState::Stuck => false,
                    };
                    if believed {
                        self.emit(next, |_| {});
                    } else {
                        self.cas_record(p.at, version, decided.write, next, self.at(Pc::Resolve, 0));
                    }
                }
            }
            Pc::LateDecision => {
                let (version, state, _) = s.records[usize::from(p.at)];
                if state == Some(RecordState::Pending) {
                    self.cas_record(
                        p.at,
                        Some(version),
                        RecordState::Aborted,
                        self.at(Pc::Lock, 0),
                        self.at(Pc::LateDecision, 0),
                    );
                } else {
                    let next = Process {
                        at: p.own,
                        ..self.at(Pc::Lock, 0)
                    };
                    self.emit(next, |_| {});
                }
            }
            Pc::ApplyRead => {
                if p.j == 2 {
                    return self.emit(self.at(Pc::Done, p.j), |_| {});
                }
                let pc = if m.is(Mutant::NoTouch) { Pc::ApplyWrite } else { Pc::Touch };
                for read in m.read_doc(s, m.ops(p.at)[usize::from(p.j)].1) {
                    let next = Process {
                        read: Some(read),
                        ..self.at(pc, p.j)
                    };
                    self.emit(next, |_| {});
                }
            }
            Pc::Touch => match s.records[usize::from(p.at)].1 {
                Some(RecordState::Done) if !m.is(Mutant::NoConfirm) => self.emit(self.at(after, p.j), |_| {}),
                state if state == Some(RecordState::Committed) || m.is(Mutant::NoConfirm) => {
                    let next = Process {
                        read: p.read,
                        ..self.at(Pc::ApplyWrite, p.j)
                    };
                    self.emit(next, |_| {});
                }
                _ => {}
            },
            Pc::ApplyWrite => self.apply_write(),
            Pc::Done => {
                for (version, state) in read_record(s, p.at) {
                    match state {
                        Some(RecordState::Done) if m.is(Mutant::DirtyDone) => self.emit(self.at(after, p.j), |_| {}),
                        Some(RecordState::Done | RecordState::Committed) => {
                            self.cas_record(p.at, version, RecordState::Done, self.at(after, 0), self.at(Pc::Done, 0));
                        }
                        _ => {}
                    }
                }
            }
            Pc::Release => self.emit(self.at(Pc::End, p.j), |state| state.holders[usize::from(p.own)] = false),
            Pc::Purge => {
                let pc = match (p.recovers, p.at == p.own) {
                    (true, _) => Pc::Idle,
                    (false, true) => Pc::End,
                    (false, false) => Pc::Lock,
                };
                let next = Process {
                    at: p.own,
                    ..self.at(pc, 0)
                };
                let aborted = s.records[usize::from(p.at)].1 == Some(RecordState::Aborted);
                self.emit(next, |state| {
                    state.holders[usize::from(p.at)] = false;
                    if let (version, Some((_, _, form))) = state.docs[1]
                        && aborted
                        && form == Form::Stub(p.at)
                    {
                        state.docs[1] = (version + 1, None);
                    }
                });
            }
            Pc::Idle => {
                let open = matches!(
                    s.records[usize::from(p.at)].1,
                    Some(RecordState::Pending | RecordState::Committed)
                );
                if m.tireless && (open || s.holders[usize::from(p.at)]) {
                    self.emit(self.at(Pc::Resolve, p.j), |_| {});
                }
            }
            Pc::PlainRead => {
                for read in m.read_doc(s, 0) {
                    let next = Process {
                        read: Some(read),
                        ..self.at(Pc::PlainWrite, 0)
                    };
                    self.emit(next, |_| {});
                }
            }
            Pc::PlainWrite => {
                let Some((version, Some((token, content, form)))) = p.read else {
                    return;
                };
                let token = if m.is(Mutant::PlainDropsToken) { 0 } else { token };
                let (ok, again) = (self.at(Pc::End, 0), self.at(Pc::PlainRead, 0));
                self.cas_doc(0, version, Some((token, content * 8 + PLAIN, form)), ok, again);
            }
            Pc::End => {}
        }
    }

    fn apply_write(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let (op, doc) = m.ops(p.at)[usize::from(p.j)];
        let Some((version, body)) = p.read else { return };
        let i = usize::from(p.at);
        let token = match s.records[i].2 {
            0 => s.ghost_records[i].map_or(0, |(_, token)| token),
            token => token,
        };
        let (next, again) = (self.at(Pc::ApplyRead, p.j + 1), self.at(Pc::ApplyRead, p.j));
        let digit = u32::from(p.at) + 1;
        let Some((found, content, form)) = body else {
            return match op {
                Op::Delete if m.is(Mutant::HardDelete) => self.emit(next, |_| {}),
                Op::Create if m.is(Mutant::NoStub) => {
                    let version = s.docs[doc].1.is_none().then_some(s.docs[doc].0);
                    self.cas_doc(doc, version, Some((token, digit, Form::Live)), next, again);
                }
                // Stub, document or tombstone must be there: a stale read.
                _ => self.emit(again, |_| {}),
            };
        };
        let mine = if m.is(Mutant::NoToken) {
            content % 8 == digit && (form == Form::Tomb) == (op == Op::Delete)
        } else {
            found == token
        };
        if !m.is(Mutant::NoToken) && found > token {
            self.emit(next, |_| {});
        } else if mine && m.is(Mutant::DirtySkip) {
            self.emit(next, |_| {});
        } else if mine {
            self.cas_doc(doc, version, body, next, again);
        } else if op == Op::Create && m.is(Mutant::NoStub) {
            self.emit(next, |_| {});
        } else {
            let form = if op == Op::Delete { Form::Tomb } else { Form::Live };
            let new = Some((token, content * 8 + digit, form));
            let new = if op == Op::Delete && m.is(Mutant::HardDelete) {
                None
            } else {
                new
            };
            self.cas_doc(doc, version, new, next, again);
        }
    }
}

impl Protocol for LockForm {
    type State = State;

    fn init(&self) -> State {
        let process = |recovers, own, pc| Process {
            recovers,
            own,
            pc,
            at: own,
            j: 0,
            read: None,
        };
        let mut processes = vec![process(false, 0, Pc::Record), process(false, 1, Pc::Record)];
        for change in 0..2 {
            processes.extend((0..self.recoverers).map(|_| process(true, change, Pc::Resolve)));
        }
        if self.plain {
            processes.push(process(false, 0, Pc::PlainRead));
        }
        State {
            records: [(0, None, 0); 2],
            ghost_records: [None; 2],
            holders: [false; 2],
            docs: [self.initial(0), self.initial(1)],
            ghost_docs: [None; 2],
            tokens: 0,
            lost: self.lost,
            ghosts: (self.ghost_records, self.ghost_docs),
            processes,
        }
    }

    fn next(&self, s: &State, out: &mut Vec<(bool, State)>) {
        let tombstone = s.docs[1].1.is_some_and(|body| body.2 == Form::Tomb);
        if self.creates && s.records[1].1 == Some(RecordState::Done) && tombstone {
            let mut state = s.clone();
            state.docs[1] = (s.docs[1].0 + 1, None);
            // Collecting is a recoverer's work too, but nothing waits for it.
            out.push((true, state));
        }
        for n in 0..s.processes.len() {
            let mut step = Step {
                model: self,
                s,
                n,
                p: s.processes[n],
                out,
            };
            step.run();
        }
    }

    fn broken(&self, s: &State) -> Option<String> {
        let lists: Vec<Vec<u8>> = s
            .docs
            .iter()
            .map(|(_, body)| body.map_or(Vec::new(), |body| effects(body.1).collect()))
            .collect();
        let form = |doc: usize| s.docs[doc].1.map(|body| body.2);
        let state = |change: u8| s.records[usize::from(change)].1;
        let has = |doc: usize, change: u8| lists[doc].contains(&change);
        for change in [0, 1u8] {
            let open = !matches!(state(change), Some(RecordState::Committed | RecordState::Done));
            let deleted = self.creates && change == 1 && form(1) == Some(Form::Tomb);
            if open && (has(0, change) || has(1, change) || deleted) {
                return Some("S1: effect of an undecided or aborted change".to_owned());
            }
            if lists.iter().any(|list| list.iter().filter(|c| **c == change).count() > 1) {
                return Some("S2: applied twice".to_owned());
            }
        }
        let done = |change| state(change) == Some(RecordState::Done);
        if self.creates {
            let decided = matches!(state(1), Some(RecordState::Committed | RecordState::Done));
            if done(0) && !decided && !(form(1) == Some(Form::Live) && has(1, 0) && has(0, 0)) {
                return Some("S1: done but not applied".to_owned());
            }
            if done(1) && (form(1) == Some(Form::Live) || !has(0, 1)) {
                return Some("S8: a deleted document is alive again".to_owned());
            }
            if has(0, 1) && !has(0, 0) {
                return Some("S3: order".to_owned());
            }
            return None;
        }
        let token = |change: u8| s.records[usize::from(change)].2;
        for (doc, list) in lists.iter().enumerate() {
            if [0, 1].iter().any(|change| done(*change) && !has(doc, *change)) {
                return Some("S1: done but not applied everywhere".to_owned());
            }
            if !list.is_sorted_by_key(|change| token(*change)) {
                return Some("S3: order".to_owned());
            }
            for change in [0, 1u8] {
                let other = 1 - change;
                if has(doc, change) && token(other) > 0 && token(other) < token(change) && !has(doc, other) {
                    return Some("S4: a later change ran on a half-applied one".to_owned());
                }
            }
        }
        None
    }

    fn is_clean(&self, s: &State) -> bool {
        let decided = |r: &Record| matches!(r.1, None | Some(RecordState::Aborted | RecordState::Done));
        s.records.iter().all(decided) && s.holders == [false; 2]
    }
}
