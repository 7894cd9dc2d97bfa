//! The intent form of a change, over a store that lies.
//!
//! Reads carry no version: a read is (fresh, body), and every write of a document makes all other reads of it stale;
//! a compare-and-set needs a fresh read. Faults: every interleaving; anybody may stop for ever; anybody may be
//! suspected at any time; a *lost* write is applied and its author not told; a *ghost* is a write on an isolated
//! primary, readable from then on and never durable; the first version of a document may always be read (*stale*);
//! the control shard may once be *isolated*, with a copy that is read and written and never durable.
//!
//! The oracle is `serial`, the state that readers of a serial history would see. A durable commit or plain write
//! changes it. A document must show it unless it carries the mark of a committed change; and at a commit, what the
//! change was computed from must equal it.

use crate::explore::Protocol;
use relations::changes::{self, Apply, Purge, RecordState, Then};
use std::array::from_fn;

const MOST: usize = 3;
type Content = u32;

/// Effects in order, a digit each: change `c` leaves `c + 1`, a plain write `PLAIN`.
const PLAIN: u32 = 7;
fn push(content: Content, digit: u32) -> Content {
    content * 8 + digit
}
fn count(mut content: Content, digit: u32) -> usize {
    let mut n = 0;
    while content > 0 {
        n += usize::from(content % 8 == digit);
        content /= 8;
    }
    n
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Op {
    Update,
    Create,
    Delete,
    Check,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Form {
    Live,
    Tomb,
    Stub,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Body {
    content: Content,
    form: Form,
    token: u8,
    mark: Option<u8>,
}

fn visible(doc: Option<Body>) -> Option<Content> {
    doc.filter(|body| body.form == Form::Live).map(|body| body.content)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Record {
    state: Option<RecordState>,
    token: u8,
    /// Outcomes, beside the change's documents; `None` inside: a check.
    ops: Option<[Option<(Content, Form)>; MOST]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Read {
    doc: u8,
    fresh: bool,
    body: Option<Body>,
}

/// What a process carries from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Carried {
    Nothing,
    Something,
    /// The mutant that purges first is purging, or has.
    First,
    Read(Read),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Coordinator,
    /// Holds a lock and makes a guarded change.
    Locker,
    Recoverer,
    PlainPut,
    PlainDelete,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Pc {
    Record,
    ReadLock,
    Plan,
    Mark,
    Commit,
    Outcome,
    Resolve,
    ApplyRead,
    ApplyWrite,
    Done,
    Purge,
    Finish,
    Idle,
    PlainRead,
    PlainWrite,
    Grant,
    Scan,
    Held,
    Guard,
    Unlock,
    Expire,
    ReadIn,
    Remove(Back),
    End,
}

/// Where one goes on after a lock was removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Back {
    ReadLock,
    Plan,
    Idle,
    End,
}
impl Back {
    fn pc(self) -> Pc {
        match self {
            Back::ReadLock => Pc::ReadLock,
            Back::Plan => Pc::Plan,
            Back::Idle => Pc::Idle,
            Back::End => Pc::End,
        }
    }
    fn of(pc: Option<Pc>) -> Back {
        match pc {
            Some(Pc::ReadLock) => Back::ReadLock,
            Some(Pc::Plan) => Back::Plan,
            Some(Pc::Idle) => Back::Idle,
            _ => Back::End,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Process {
    kind: Kind,
    own: u8,
    pc: Pc,
    /// The change being worked on.
    at: u8,
    j: u8,
    carried: Carried,
    reads: [Option<Read>; MOST],
    back: Option<Pc>,
    /// The content that the change was computed from, read by a client.
    client: Option<Content>,
}

/// A lock entry or lease: held, and whether it names the guarded change.
type Lock = Option<bool>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    records: [Record; MOST],
    docs: [Option<Body>; MOST],
    lock: Lock,
    /// Open, and whether it names the guarded change.
    lease: (bool, bool),
    serial: [Option<Content>; MOST],
    ghosts: [Option<Option<Body>>; MOST],
    isolated: Option<([Record; MOST], Lock)>,
    lost: u8,
    ghost: u8,
    isolations: u8,
    error: Option<&'static str>,
    processes: Vec<Process>,
}

/// One rule less. `None` of them is the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Documents that were only read get no intent.
    NoCheck,
    /// A create leaves no stub.
    NoStub,
    /// Marks are written without comparing.
    MarkWithoutCas,
    /// A mark whose write was not acknowledged counts.
    UnacknowledgedMark,
    /// Marks go before the change is decided.
    PurgeFirst,
    /// A decision that was only read is acted on.
    NoConfirm,
    /// "Already applied" is believed from a read.
    DirtySkip,
    /// Every document without an earlier token is written, mark or not.
    TokenOnly,
    /// A plain write does not look at marks.
    PlainIgnoresMarks,
    /// A plain write drops the mark (M1).
    PlainDropsMark,
    /// A plain delete leaves nothing (M2).
    PlainDeletesAll,
    /// A grant does not look for records (M10).
    GrantWithoutScan,
    /// A change looks for locks before it has written its record (M10).
    LocksReadEarly,
    /// A change does not look for locks.
    NoLockRead,
    /// Reads of the control shard need not show one's own write (M10).
    NoBarrier,
    /// M10 as first written: marks, then locks; a grant, then marks.
    MarksInsteadOfRecords,
    /// A guarded change is not named anywhere (M3).
    Unnamed,
    /// The guarded change is named in the entry, not in the lease (M3).
    NamedInEntry,
    /// A lock goes at its session's expiry without resolving what it guards (M3).
    LockPurgedAtOnce,
    // Ours.
    /// A recoverer aborts what is committed.
    AbortCommitted,
    /// A commit is written without comparing.
    BlindCommit,
    /// `done` is written when all but the last document are applied.
    DoneEarly,
    /// The commit does not wait for the last mark.
    CommitBeforeLastMark,
    /// Applying does not compare the version that was read.
    BlindApply,
    /// Purging leaves a stub as a document.
    StubBecomesDocument,
    /// A mark of another change is taken for one's own.
    AnyMarkIsMine,
    /// An unknown outcome of the commit is taken for a failure, and the change purged.
    UnknownIsAborted,
    /// Planning runs over another change's mark.
    PlanOverMarks,
    /// A committed change's marks are purged by who resolves it.
    PurgeCommitted,
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct Intents {
    /// Of each change, per document.
    pub(crate) changes: Vec<[Option<Op>; MOST]>,
    /// Which documents are there at the beginning.
    pub(crate) present: [bool; MOST],
    pub(crate) docs: usize,
    pub(crate) plain: Option<Kind>,
    /// Change 1 is made under a lock on document 0.
    pub(crate) locker: bool,
    pub(crate) recoverers: usize,
    pub(crate) lost: u8,
    pub(crate) ghost: u8,
    pub(crate) isolations: u8,
    pub(crate) stale: bool,
    pub(crate) mutant: Option<Mutant>,
}

const U: Option<Op> = Some(Op::Update);

impl Intents {
    /// Two changes update the same two documents.
    pub(crate) fn transfers() -> Intents {
        Intents {
            changes: vec![[U, U, None]; 2],
            present: [true, true, false],
            docs: 2,
            plain: None,
            locker: false,
            recoverers: 1,
            lost: 0,
            ghost: 0,
            isolations: 0,
            stale: true,
            mutant: None,
        }
    }
    /// One updates a document and reads another; the other the reverse.
    pub(crate) fn skew() -> Intents {
        Intents {
            changes: vec![[U, Some(Op::Check), None], [Some(Op::Check), U, None]],
            ..Intents::transfers()
        }
    }
    /// One creates a document, the other deletes it.
    pub(crate) fn create() -> Intents {
        Intents {
            changes: vec![[U, Some(Op::Create), None], [U, Some(Op::Delete), None]],
            present: [true, false, false],
            ..Intents::transfers()
        }
    }
    /// A plain writer beside changes.
    pub(crate) fn plain(kind: Kind) -> Intents {
        Intents {
            plain: Some(kind),
            ..Intents::transfers()
        }
    }
    /// One change, and one guarded by a lock on its document.
    pub(crate) fn lock() -> Intents {
        Intents {
            changes: vec![[U, U, None], [U, None, None]],
            locker: true,
            ..Intents::transfers()
        }
    }
    /// Three changes in a ring over three documents.
    pub(crate) fn ring() -> Intents {
        Intents {
            changes: vec![[U, U, None], [None, U, U], [U, None, U]],
            present: [true; MOST],
            docs: 3,
            ..Intents::transfers()
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
    fn op(&self, change: u8, doc: u8) -> Option<Op> {
        self.changes[usize::from(change)][usize::from(doc)]
    }
    /// The documents of a change.
    fn touched(&self, change: u8) -> Vec<u8> {
        (0..self.docs as u8).filter(|doc| self.op(change, *doc).is_some()).collect()
    }
    fn initial(&self, doc: usize) -> Option<Body> {
        self.present[doc].then_some(Body {
            content: 0,
            form: Form::Live,
            token: 0,
            mark: None,
        })
    }
    fn read_doc(&self, s: &State, doc: u8) -> Vec<Read> {
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

fn read_record(s: &State, change: u8) -> Vec<(bool, Record)> {
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
struct Step<'a> {
    model: &'a Intents,
    s: &'a State,
    n: usize,
    p: Process,
    out: &'a mut Vec<(bool, State)>,
}

/// How a process goes on: to `pc`, with the rest of its memory as the closure leaves it.
type Go<'a> = &'a dyn Fn(&mut Process);

impl Step<'_> {
    /// The state after this process went on and `with` happened to the store.
    fn emit(&mut self, go: Go<'_>, with: impl FnOnce(&mut State)) {
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
    fn go(&mut self, go: Go<'_>) {
        self.emit(go, |_| {});
    }
    fn to(&mut self, pc: Pc) {
        self.go(&|p| p.pc = pc);
    }
    /// To resolving a change, and back to `back`.
    fn resolve(&mut self, change: u8, back: Pc) {
        self.go(&|p| resolving(p, change, back));
    }

    /// A compare-and-set of a record.
    fn cas_record(
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
    fn cas_doc(
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
    fn alive(&self) -> bool {
        self.model.locker && self.s.lock.is_some() && self.s.lease.0 && self.s.processes[1].client.is_some()
    }

    #[allow(clippy::too_many_lines, reason = "one arm a step of the protocol")]
    fn run(&mut self) {
        let (m, s, p) = (self.model, self.s, self.p);
        let is = |mutant| m.is(mutant);
        let marks_form = is(Mutant::MarksInsteadOfRecords);
        let reads_locks = m.locker && p.own == 0 && p.kind == Kind::Coordinator && !is(Mutant::NoLockRead);
        let early = is(Mutant::LocksReadEarly);
        let end = if p.kind == Kind::Locker { Pc::Unlock } else { Pc::End };
        match p.pc {
            Pc::Record => {
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
            Pc::ReadLock => {
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
            Pc::Plan => {
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
            Pc::Mark => {
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
            Pc::Commit => {
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
            Pc::Outcome => {
                for (_, record) in read_record(s, p.own) {
                    if record.state == Some(RecordState::Pending) {
                        self.to(Pc::Commit);
                    } else {
                        self.resolve(p.own, end);
                    }
                }
            }
            Pc::Resolve => {
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
                    let mut decided = changes::decide(Some(state));
                    if is(Mutant::AbortCommitted) && state == RecordState::Committed {
                        decided = changes::decide(None);
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
            Pc::ApplyRead => {
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
            Pc::ApplyWrite => self.apply_write(),
            Pc::Done => {
                for (fresh, record) in read_record(s, p.at) {
                    if matches!(record.state, Some(RecordState::Committed | RecordState::Done)) {
                        self.cas_record(p.at, fresh, RecordState::Done, None, &|p| p.pc = Pc::Finish, &|p| {
                            p.pc = Pc::Done
                        });
                    }
                }
            }
            Pc::Purge => {
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
                    let clean = match changes::purge(mark.as_ref(), stub, &p.at) {
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
            Pc::Finish => self.go(&finished),
            Pc::Idle => {
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
            Pc::PlainRead => {
                for read in m.read_doc(s, 0) {
                    match read.body.and_then(|body| body.mark) {
                        Some(mark) if !is(Mutant::PlainIgnoresMarks) => self.resolve(mark, Pc::PlainRead),
                        _ if visible(read.body).is_some() => self.go(&|p| {
                            p.pc = Pc::PlainWrite;
                            p.carried = Carried::Read(read);
                        }),
                        _ if read.fresh => self.to(Pc::End),
                        _ => {}
                    }
                }
            }
            Pc::PlainWrite => {
                let Carried::Read(Read {
                    fresh, body: Some(body), ..
                }) = p.carried
                else {
                    return;
                };
                let kept = if is(Mutant::PlainDropsMark) {
                    Body {
                        token: 0,
                        mark: None,
                        ..body
                    }
                } else {
                    body
                };
                let (new, serial) = if p.kind == Kind::PlainPut {
                    let put = Body {
                        content: PLAIN,
                        form: Form::Live,
                        ..kept
                    };
                    (Some(put), Some(PLAIN))
                } else {
                    let tombstone = Body {
                        content: 0,
                        form: Form::Tomb,
                        ..kept
                    };
                    let unmarked = body.token == 0 || is(Mutant::PlainDeletesAll);
                    ((!unmarked).then_some(tombstone), None)
                };
                self.cas_doc(0, fresh, new, Some(serial), &|p| p.pc = Pc::End, &|p| p.pc = Pc::PlainRead);
            }
            Pc::Grant => {
                if s.lock.is_none() && s.lease.0 {
                    self.emit(&|p| p.pc = Pc::Scan, |state| state.lock = Some(false));
                }
            }
            Pc::Scan => {
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
            Pc::Held => {
                let read = visible(s.docs[0]);
                self.emit(
                    &|p| {
                        p.pc = Pc::Guard;
                        p.client = read;
                    },
                    |state| state.records[1].state = Some(RecordState::Pending),
                );
            }
            Pc::Guard => {
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
            Pc::Unlock => self.go(&|p| {
                p.pc = Pc::Expire;
                p.back = Some(Pc::End);
            }),
            Pc::Expire => {
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
            Pc::ReadIn => {
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
            Pc::Remove(back) => {
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
            Pc::End => {}
        }
    }

    fn apply_write(&mut self) {
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
        let mut decision = changes::apply(body.map(|_| mark.as_ref()), &p.at);
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
}

fn resolving(p: &mut Process, change: u8, back: Pc) {
    p.pc = Pc::Resolve;
    p.at = change;
    p.back = Some(back);
    p.reads = [None; MOST];
}

fn finished(p: &mut Process) {
    p.pc = p.back.unwrap_or(Pc::End);
    p.at = p.own;
    p.back = None;
    p.reads = [None; MOST];
}

/// Everybody else's reads of this document are old now.
fn outdate(state: &mut State, doc: u8, by: usize) {
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

impl Protocol for Intents {
    type State = State;

    fn init(&self) -> State {
        let process = |kind, own, pc| Process {
            kind,
            own,
            pc,
            at: own,
            j: 0,
            carried: Carried::Nothing,
            reads: [None; MOST],
            back: None,
            client: None,
        };
        let mut processes: Vec<Process> = (0..self.changes.len() as u8)
            .map(|c| match self.locker && c == 1 {
                true => process(Kind::Locker, c, Pc::Grant),
                false => process(Kind::Coordinator, c, Pc::Record),
            })
            .collect();
        processes.extend((0..self.recoverers).map(|_| process(Kind::Recoverer, 0, Pc::Idle)));
        processes.extend(self.plain.map(|kind| process(kind, 0, Pc::PlainRead)));
        let docs: [Option<Body>; MOST] = from_fn(|doc| self.initial(doc));
        State {
            records: [Record {
                state: None,
                token: 0,
                ops: None,
            }; MOST],
            docs,
            lock: None,
            lease: (true, false),
            serial: docs.map(visible),
            ghosts: [None; MOST],
            isolated: None,
            lost: self.lost,
            ghost: self.ghost,
            isolations: self.isolations,
            error: None,
            processes,
        }
    }

    fn next(&self, s: &State, out: &mut Vec<(bool, State)>) {
        if s.error.is_some() {
            return;
        }
        if s.isolations > 0 && s.isolated.is_none() {
            let mut state = s.clone();
            state.isolated = Some((s.records, s.lock));
            state.isolations -= 1;
            out.push((false, state));
        }
        // A finished delete's tombstone is collected.
        for doc in 0..self.docs {
            let deleter = (0..self.changes.len()).find(|c| self.changes[*c][doc] == Some(Op::Delete));
            let finished = deleter.is_some_and(|c| s.records[c].state == Some(RecordState::Done));
            if finished && s.docs[doc].is_some_and(|body| body.form == Form::Tomb && body.mark.is_none()) {
                let mut state = s.clone();
                state.docs[doc] = None;
                outdate(&mut state, doc as u8, usize::MAX);
                out.push((false, state));
            }
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
        if let Some(error) = s.error {
            return Some(error.to_owned());
        }
        for doc in 0..self.docs {
            let body = s.docs[doc];
            let mark = body.and_then(|body| body.mark);
            let applying = mark.is_some_and(|c| s.records[usize::from(c)].state == Some(RecordState::Committed));
            if visible(body) != s.serial[doc] && !applying {
                return Some(format!(
                    "document {doc} shows {:?}, serial state {:?}",
                    visible(body),
                    s.serial[doc]
                ));
            }
            let content = visible(body).unwrap_or(0);
            if (0..self.changes.len() as u32).any(|c| count(content, c + 1) > 1) {
                return Some("S2: applied twice".to_owned());
            }
            if mark.is_some_and(|c| s.records[usize::from(c)].state == Some(RecordState::Done)) {
                return Some("done, but marked".to_owned());
            }
        }
        None
    }

    fn is_clean(&self, s: &State) -> bool {
        let decided = |r: &Record| matches!(r.state, None | Some(RecordState::Aborted | RecordState::Done));
        s.records.iter().all(decided) && s.lock.is_none() && s.docs.iter().flatten().all(|body| body.mark.is_none())
    }
}
