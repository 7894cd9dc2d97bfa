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
//!
//! `state.rs` is what there is, `store.rs` how it lies, `coordinator.rs`, `resolver.rs`, `lock.rs` and `plain.rs` the steps,
//! `mutants.rs` the rules that may be missing.

mod coordinator;
mod lock;
mod mutants;
mod plain;
mod resolver;
mod state;
mod store;

use self::state::{Body, Carried, Form, MOST, Op, Pc, Process, Record, State, count, finished, visible};
use self::store::{Step, outdate};
use crate::explore::Protocol;
pub(crate) use mutants::Mutant;
use relations::intents::RecordState;
pub(crate) use state::Kind;
use std::array::from_fn;

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
}

impl Step<'_> {
    /// Every way in which this process may go on.
    fn run(&mut self) {
        match self.p.pc {
            Pc::Record => self.record(),
            Pc::ReadLock => self.read_lock(),
            Pc::Plan => self.plan(),
            Pc::Mark => self.mark(),
            Pc::Commit => self.commit(),
            Pc::Outcome => self.outcome(),
            Pc::Resolve => self.decide(),
            Pc::ApplyRead => self.apply_read(),
            Pc::ApplyWrite => self.apply_write(),
            Pc::Done => self.done(),
            Pc::Purge => self.purge(),
            Pc::Finish => self.go(&finished),
            Pc::Idle => self.idle(),
            Pc::PlainRead => self.plain_read(),
            Pc::PlainWrite => self.plain_write(),
            Pc::Grant => self.grant(),
            Pc::Scan => self.scan(),
            Pc::Held => self.held(),
            Pc::Guard => self.guard(),
            Pc::Unlock => self.go(&|p| {
                p.pc = Pc::Expire;
                p.back = Some(Pc::End);
            }),
            Pc::Expire => self.expire(),
            Pc::ReadIn => self.read_in(),
            Pc::Remove(back) => self.remove(back),
            Pc::End => {}
        }
    }

    /// A change without a lock of its own looks for others' locks.
    fn reads_locks(&self) -> bool {
        self.model.locker && self.p.own == 0 && self.p.kind == Kind::Coordinator && !self.model.is(Mutant::NoLockRead)
    }

    /// Where a change's author goes when it is over.
    fn end(&self) -> Pc {
        if self.p.kind == Kind::Locker { Pc::Unlock } else { Pc::End }
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
