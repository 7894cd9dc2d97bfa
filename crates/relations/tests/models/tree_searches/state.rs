//! What the store holds, what servers know and what processes carry.

use crate::lying::{Document, Read};

/// The moves of a run, and the files of the directory, at most.
pub(super) const MOVES_MAX: usize = 2;
pub(super) const FILES: usize = 3;
/// The file that is not there at the beginning.
pub(super) const LATE: usize = 2;

/// One of the directories that the moved directory can be in.
pub(super) type Place = u8;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Register {
    pub(super) n: u8,
    /// Where move `k` put the directory is at `k - 1`.
    pub(super) moves: [Place; MOVES_MAX],
    /// The move after which the files are not rewritten yet; 0: none.
    pub(super) moving: u8,
}

impl Register {
    pub(super) fn tree(&self, n: u8) -> Tree {
        let place = n.checked_sub(1).map_or(0, |at| self.moves[usize::from(at)]);
        Tree { n, place }
    }
    pub(super) fn newest(&self) -> Tree {
        self.tree(self.n)
    }
    /// The number of the move to there.
    pub(super) fn number(&self, place: Place) -> Option<u8> {
        (1..=self.n).find(|n| self.tree(*n).place == place)
    }
    pub(super) fn with(mut self, place: Place) -> Register {
        self.moves[usize::from(self.n)] = place;
        self.n += 1;
        self
    }
}

/// A tree: the number of its newest move, and where the directory is in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tree {
    pub(super) n: u8,
    pub(super) place: Place,
}

/// Of a file: `anc` is the place in the tree that it was computed with, `av` its number. `dir` never changes.
pub(super) type Anc = Tree;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role {
    /// Moves the directory to this place.
    Mover(Place),
    Rewriter,
    Writer,
    Searcher,
}

impl Role {
    /// Does its server have a session? The other servers neither search nor write files for users.
    pub(super) fn has_session(self) -> bool {
        matches!(self, Role::Writer | Role::Searcher)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Pc {
    /// A writer computes `anc`, a searcher is asked.
    Begin,
    Read,
    Touch,
    Commit,
    /// Of a rewriter.
    List,
    ReadFile,
    WriteFile,
    Scan,
    Leave,
    /// Of a writer.
    Index,
    /// Of a searcher.
    Count,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Process {
    pub(super) role: Role,
    pub(super) pc: Pc,
    pub(super) register: Option<Read<Register>>,
    /// The files that a rewriter has on its list, a bit each.
    pub(super) list: u8,
    /// The file that it read, and whether nobody wrote it since.
    pub(super) file: Option<(usize, bool)>,
    /// The tree that its server has, and has published.
    pub(super) published: Tree,
    /// The tree that a search or a write that is under way works with.
    pub(super) works_with: Option<Tree>,
    /// A searcher looks at `dir`, not at `anc`.
    pub(super) by_dir: bool,
    /// The newest acknowledged move when the search began.
    pub(super) began: u8,
    /// What the mutant with two requests counted below the old name.
    pub(super) counted: Option<u8>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(super) register: Document<Register>,
    pub(super) files: [Option<Anc>; FILES],
    /// The newest move that its author knows of.
    pub(super) acknowledged: u8,
    pub(super) lost: u8,
    pub(super) isolations: u8,
    pub(super) error: Option<&'static str>,
    pub(super) processes: Vec<Process>,
}

impl State {
    /// The files whose `anc` is older than a move, a bit each.
    pub(super) fn behind(&self, n: u8) -> u8 {
        let behind = |file: &usize| self.files[*file].is_some_and(|anc| anc.n < n);
        (0..FILES).filter(behind).map(|file| 1 << file).sum()
    }
    /// A file is written, and what others have read of it is old.
    pub(super) fn write(&mut self, file: usize, anc: Anc) {
        self.files[file] = Some(anc);
        for (held, fresh) in self.processes.iter_mut().filter_map(|p| p.file.as_mut()) {
            *fresh &= *held != file;
        }
    }
}
