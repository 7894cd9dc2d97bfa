//! What the store holds and what processes carry.

use relations::intents::RecordState;

pub(crate) const MOST: usize = 3;
pub(super) type Content = u32;

/// Effects in order, a digit each: change `c` leaves `c + 1`, a plain write `PLAIN`.
pub(super) const PLAIN: u32 = 7;

pub(super) fn push(content: Content, digit: u32) -> Content {
    content * 8 + digit
}

pub(super) fn count(mut content: Content, digit: u32) -> usize {
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
pub(super) enum Form {
    Live,
    Tomb,
    Stub,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Body {
    pub(super) content: Content,
    pub(super) form: Form,
    pub(super) token: u8,
    pub(super) mark: Option<u8>,
}

pub(super) fn visible(doc: Option<Body>) -> Option<Content> {
    doc.filter(|body| body.form == Form::Live).map(|body| body.content)
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Record {
    pub(super) state: Option<RecordState>,
    pub(super) token: u8,
    /// Outcomes, beside the change's documents; `None` inside: a check.
    pub(super) ops: Option<[Option<(Content, Form)>; MOST]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Read {
    pub(super) doc: u8,
    pub(super) fresh: bool,
    pub(super) body: Option<Body>,
}

/// What a process carries from one step to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Carried {
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
pub(super) enum Pc {
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
pub(super) enum Back {
    ReadLock,
    Plan,
    Idle,
    End,
}

impl Back {
    pub(super) fn pc(self) -> Pc {
        match self {
            Back::ReadLock => Pc::ReadLock,
            Back::Plan => Pc::Plan,
            Back::Idle => Pc::Idle,
            Back::End => Pc::End,
        }
    }
    pub(super) fn of(pc: Option<Pc>) -> Back {
        match pc {
            Some(Pc::ReadLock) => Back::ReadLock,
            Some(Pc::Plan) => Back::Plan,
            Some(Pc::Idle) => Back::Idle,
            _ => Back::End,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Process {
    pub(super) kind: Kind,
    pub(super) own: u8,
    pub(super) pc: Pc,
    /// The change being worked on.
    pub(super) at: u8,
    pub(super) j: u8,
    pub(super) carried: Carried,
    pub(super) reads: [Option<Read>; MOST],
    pub(super) back: Option<Pc>,
    /// The content that the change was computed from, read by a client.
    pub(super) client: Option<Content>,
}

/// A lock entry or lease: held, and whether it names the guarded change.
pub(super) type Lock = Option<bool>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(super) records: [Record; MOST],
    pub(super) docs: [Option<Body>; MOST],
    pub(super) lock: Lock,
    /// Open, and whether it names the guarded change.
    pub(super) lease: (bool, bool),
    pub(super) serial: [Option<Content>; MOST],
    pub(super) ghosts: [Option<Option<Body>>; MOST],
    pub(super) isolated: Option<([Record; MOST], Lock)>,
    pub(super) lost: u8,
    pub(super) ghost: u8,
    pub(super) isolations: u8,
    pub(super) error: Option<&'static str>,
    pub(super) processes: Vec<Process>,
}

pub(super) fn resolving(p: &mut Process, change: u8, back: Pc) {
    p.pc = Pc::Resolve;
    p.at = change;
    p.back = Some(back);
    p.reads = [None; MOST];
}

pub(super) fn finished(p: &mut Process) {
    p.pc = p.back.unwrap_or(Pc::End);
    p.at = p.own;
    p.back = None;
    p.reads = [None; MOST];
}
