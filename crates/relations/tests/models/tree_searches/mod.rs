//! Searches below a directory that moves, on a cluster.
//!
//! A file is a document. It has the number of its directory (`dir`, never stale), the numbers of the directories above
//! (`anc`) and the number of the tree that these were computed with (`av`). A move is one compare-and-set of the register,
//! which takes the directory into `moving` as well. The protocol:
//!
//! 1. A strict searcher confirms the register: by a touch where its primary can be isolated, else by a read. If the
//!    directory is in `moving`, it looks for files by `dir`, with the tree of that register; else by `anc`, but still by
//!    `dir` for files whose `av` is newer than its tree. It counts below all names at one moment.
//! 2. A server publishes in its session the number of its newest confirmed tree, once no write is under way in it that
//!    works with an older one.
//! 3. A rewriter confirms the register and gives the files their new `anc` and `av`, each by a compare-and-set, in any
//!    order. A list that it works on may be old. When every open session has published the number of the move, and a
//!    scan with a barrier after that finds no file with an older `av`, the directory leaves `moving`.
//!
//! The promise, S13: a search finds all files below one of the names. That name is one that the directory had since the search
//! began. Sessions are not documents here: what a server published is true of it, however it is read, and never less later.
//! Directory documents have no part in this: the tree is that of the moves in the register (`tree_register`).
//!
//! `state.rs` is what there is, `steps.rs` what processes do.

mod state;
mod steps;

use self::state::{FILES, LATE, MOVES_MAX, Pc, Process, Register, Role, State, Tree};
use self::steps::Step;
use crate::explore::Protocol;
use crate::lying::{Document, Read};

/// A rule left out, or another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// A rewriter waits for nobody.
    NoWait,
    /// It waits, but after its last scan.
    WaitsTooLate,
    /// It works off one list and does not look again.
    NoBarrierScan,
    /// It believes a register that it only read.
    RewritesUnconfirmed,
    /// The directory is taken into `moving` after its move.
    MovingLater,
    /// A searcher looks at `anc` always.
    IgnoresMoving,
    /// It believes an `anc` that is newer than its tree.
    BelievesNewerAnc,
    /// It takes the tree that its server has.
    CachedTree,
    /// It reads the register where that can be isolated.
    NoTouch,
    /// Old and new name are counted by two requests.
    TwoRequests,
    /// A server publishes a tree that it only read.
    PublishesUnconfirmed,
    /// A server publishes its tree whatever is under way in it.
    PublishesAtOnce,
    /// A session ends while its server's write is under way. No rule forbids that: the write is found by a later scan, which takes
    /// the directory into `moving` again, and until then S13 is broken.
    SessionEnds,
}

/// What happens in a run.
#[derive(Clone, Debug)]
pub(crate) struct TreeSearches {
    pub(crate) moves: usize,
    /// The files that are there at the beginning.
    pub(crate) files: usize,
    pub(crate) rewriters: usize,
    pub(crate) searchers: usize,
    pub(crate) writers: usize,
    /// A writer writes a file that is there; otherwise a new one.
    pub(crate) rewrites: bool,
    pub(crate) lost: u8,
    pub(crate) isolations: u8,
    pub(crate) mutant: Option<Mutant>,
}

impl TreeSearches {
    /// One move beside a writer of a new file and a searcher.
    pub(crate) fn late_file() -> TreeSearches {
        TreeSearches {
            moves: 1,
            files: LATE,
            rewriters: 1,
            searchers: 1,
            writers: 1,
            rewrites: false,
            lost: 0,
            isolations: 0,
            mutant: None,
        }
    }
    /// The same beside a writer of a file that is there.
    pub(crate) fn late_rewrite() -> TreeSearches {
        TreeSearches {
            rewrites: true,
            ..TreeSearches::late_file()
        }
    }
    /// Two moves of the same directory.
    pub(crate) fn two_moves() -> TreeSearches {
        TreeSearches {
            moves: MOVES_MAX,
            ..TreeSearches::late_file()
        }
    }
    /// The same with one file, beside a writer of it.
    pub(crate) fn two_moves_one_file() -> TreeSearches {
        TreeSearches {
            files: 1,
            rewrites: true,
            ..TreeSearches::two_moves()
        }
    }
    /// The same beside no writer.
    pub(crate) fn two_moves_alone() -> TreeSearches {
        TreeSearches {
            writers: 0,
            ..TreeSearches::two_moves()
        }
    }
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
    /// Must what was read of the register be confirmed by searchers?
    fn touches(&self) -> bool {
        self.isolations > 0 && !self.is(Mutant::NoTouch)
    }
}

const BEGIN: Tree = Tree { n: 0, place: 0 };

impl Protocol for TreeSearches {
    type State = State;

    fn init(&self) -> State {
        let process = |role| Process {
            role,
            pc: if Role::has_session(role) { Pc::Begin } else { Pc::Read },
            register: None,
            list: 0,
            file: None,
            published: BEGIN,
            works_with: None,
            by_dir: false,
            began: 0,
            counted: None,
        };
        let mut roles: Vec<Role> = (1..=self.moves as u8).map(Role::Mover).collect();
        roles.extend((0..self.rewriters).map(|_| Role::Rewriter));
        roles.extend((0..self.writers).map(|_| Role::Writer));
        roles.extend((0..self.searchers).map(|_| Role::Searcher));
        let mut files = [None; FILES];
        files[..self.files].fill(Some(BEGIN));
        State {
            register: Document::new(Register {
                n: 0,
                moves: [0; MOVES_MAX],
                moving: 0,
            }),
            files,
            acknowledged: 0,
            lost: self.lost,
            isolations: self.isolations,
            error: None,
            processes: roles.into_iter().map(process).collect(),
        }
    }

    fn next(&self, s: &State, out: &mut Vec<(bool, State)>) {
        if s.error.is_some() {
            return;
        }
        if s.isolations > 0 && !s.register.is_isolated() {
            let mut state = s.clone();
            state.register.isolate();
            state.isolations -= 1;
            let held = state.processes.iter_mut().filter_map(|p| p.register.as_mut());
            held.for_each(Read::isolate);
            out.push((false, state));
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
        s.error.map(str::to_owned)
    }

    /// The directory has left `moving`, and its files are as the register says.
    fn is_clean(&self, s: &State) -> bool {
        let register = s.register.durable;
        register.moving == 0 && s.files.iter().flatten().all(|anc| *anc == register.newest())
    }
}
