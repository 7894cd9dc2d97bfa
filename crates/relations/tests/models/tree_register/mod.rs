//! The tree register: moves of directories through one document, on a store that lies.
//!
//! The *register* is one document. It has the number `n` of the newest move, the moves themselves, and `applied`: up to
//! there every move is in its *directory document*, which has the place of a directory and the number of the move that
//! put it there. Nobody takes a lock or a lease. A mover
//!
//! 1. reads the register; if a move is not applied yet, replaces the very version that it read (a *touch*; without its
//!    acknowledgement the move that was read may never have happened), and applies the move as in 4;
//! 2. has the tree of exactly this number: from the moves in the register, or by a barrier scan of the directory documents;
//! 3. asks that tree whether the move can be done, and commits it by a compare-and-set of the register with `n + 1`.
//!    To refuse is a decision as well: the version that was read is touched before;
//! 4. applies it: a newer number in the directory document stays, an equal one is confirmed by a compare-and-set, a
//!    lower one is replaced; `applied` rises over acknowledged writes only.
//!
//! Whoever stops after 3 is helped by the next. A mover learns from the moves in the register what an unknown commit came to.
//! Whether a move can be done, and what it makes, is what the product's `Tree::plan_move` says. The product's tree takes
//! every committed move, too. A touch, a scan, a decision or a compare-and-set is one step.
//!
//! Not here: several moves in one commit, directories that are made or removed.
//!
//! `places.rs` asks the product, `state.rs` is what there is, `mover.rs` the steps.

mod mover;
mod places;
mod state;

use self::mover::Step;
use self::places::{DIRS, Place, Places, Wish, unsound};
use self::state::{Directory, MOVES_MAX, Pc, Process, Register, State, outdate_directory};
use crate::explore::Protocol;
use crate::lying::{Document, Read};

/// A rule left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A move that was only read is applied.
    NoConfirm,
    /// A move of another is not applied before the next is committed.
    NoHelp,
    /// The commit does not compare.
    NoCas,
    /// A newer number in a directory document does not stay.
    NoGuard,
    /// "Applied" is believed from a read.
    DirtySkip,
    /// `applied` rises over a write that was not acknowledged.
    UnacknowledgedApply,
    /// A name that is taken is no obstacle.
    NoNameCheck,
    /// A move is planned on the tree of the beginning, if that allows it.
    StaleTree,
    /// The directory documents are read without a barrier.
    ScanWithoutBarrier,
    /// A move is refused by a register that was only read.
    RefuseUnconfirmed,
    /// The register keeps the newest move only.
    ShortRing,
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct TreeRegister {
    begin: Places,
    wishes: Vec<Wish>,
    helpers: usize,
    lost: u8,
    register_isolations: u8,
    directory_isolations: u8,
    mutant: Option<Mutant>,
}

const ROOT: u8 = 0;
const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;

fn place(parent: u8, name: char) -> Place {
    Place { parent, name }
}
fn wish(dir: u8, parent: u8, name: char) -> Wish {
    let to = place(parent, name);
    Wish { dir, to }
}

impl TreeRegister {
    fn of(wishes: Vec<Wish>) -> TreeRegister {
        TreeRegister {
            begin: [place(ROOT, 'a'), place(ROOT, 'b'), place(A, 'c')],
            wishes,
            helpers: 0,
            lost: 0,
            register_isolations: 0,
            directory_isolations: 0,
            mutant: None,
        }
    }
    /// a goes into b, b into c, which is below a, and a back to the root.
    pub(crate) fn circle() -> TreeRegister {
        TreeRegister::of(vec![wish(A, B, 'a'), wish(B, C, 'b'), wish(A, ROOT, 'a')])
    }
    /// b and c become /d; a becomes /b once that is free.
    pub(crate) fn names() -> TreeRegister {
        TreeRegister::of(vec![wish(B, ROOT, 'd'), wish(C, ROOT, 'd'), wish(A, ROOT, 'b')])
    }
    /// Fault budgets: lost answers, isolations of the register and of directory documents.
    pub(crate) fn faults(self, lost: u8, register_isolations: u8, directory_isolations: u8) -> TreeRegister {
        TreeRegister {
            lost,
            register_isolations,
            directory_isolations,
            ..self
        }
    }
    pub(crate) fn with_helper(self) -> TreeRegister {
        TreeRegister { helpers: 1, ..self }
    }
    pub(crate) fn with_mutant(self, mutant: Mutant) -> TreeRegister {
        TreeRegister {
            mutant: Some(mutant),
            ..self
        }
    }
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
    fn begin(&self) -> [Directory; DIRS] {
        self.begin.map(|place| Directory { place, n: 0 })
    }
}

impl Protocol for TreeRegister {
    type State = State;

    fn init(&self) -> State {
        let process = Process {
            pc: Pc::Idle,
            register: None,
            is_confirmed: false,
            directory: None,
            may_refuse: false,
        };
        State {
            register: Document::new(Register {
                n: 0,
                applied: 0,
                moves: [None; MOVES_MAX + 1],
            }),
            directories: self.begin().map(Document::new),
            serial: self.begin,
            commits: [0; MOVES_MAX],
            lost: self.lost,
            register_isolations: self.register_isolations,
            directory_isolations: self.directory_isolations,
            error: None,
            processes: vec![process; self.wishes.len() + self.helpers],
        }
    }

    fn next(&self, s: &State, out: &mut Vec<(bool, State)>) {
        if s.error.is_some() {
            return;
        }
        if s.register_isolations > 0 && !s.register.is_isolated() {
            let mut state = s.clone();
            state.register.isolate();
            state.register_isolations -= 1;
            let held = state.processes.iter_mut().filter_map(|p| p.register.as_mut());
            held.for_each(Read::isolate);
            out.push((false, state));
        }
        for dir in 0..DIRS {
            if s.directory_isolations > 0 && !s.directories[dir].is_isolated() {
                let mut state = s.clone();
                state.directories[dir].isolate();
                state.directory_isolations -= 1;
                outdate_directory(&mut state, dir, usize::MAX, &Read::isolate);
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
        let register = s.register.durable;
        let durable = s.directories.map(|document| document.durable);
        let places = register.replay(register.applied, durable);
        if let Some(why) = unsound(&places) {
            return Some(why.to_owned());
        }
        if places != s.serial {
            return Some(format!(
                "S12: the tree is {places:?}, the committed moves make {:?}",
                s.serial
            ));
        }
        s.commits
            .iter()
            .any(|commits| *commits > 1)
            .then(|| "a move is committed twice".to_owned())
    }

    /// Every committed move is in its directory document.
    fn is_clean(&self, s: &State) -> bool {
        s.directories.map(|document| document.durable.place) == s.serial
    }
}
