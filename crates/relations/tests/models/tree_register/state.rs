//! What the store holds and what processes carry.

use super::places::{DIRS, Decision, Place, Places, Wish, decide, fits};
use crate::lying::{Document, Read};

/// The moves of a run, at most.
pub(super) const MOVES_MAX: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Entry {
    /// Who moves it.
    pub(super) by: u8,
    pub(super) wish: Wish,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Register {
    pub(super) n: u8,
    pub(super) applied: u8,
    /// Move `k` is at `k - 1`. There is room for a move that is committed twice.
    pub(super) moves: [Option<Entry>; MOVES_MAX + 1],
}

impl Register {
    pub(super) fn entry(&self, number: u8) -> Entry {
        self.moves[usize::from(number) - 1].expect("a move of each number")
    }
    pub(super) fn with(mut self, entry: Entry) -> Register {
        self.moves[usize::from(self.n)] = Some(entry);
        self.n += 1;
        self
    }
    /// The places after its moves from `after` on, if they are newer than what is there.
    pub(super) fn replay(&self, after: u8, mut directories: [Directory; DIRS]) -> Places {
        for number in after + 1..=self.n {
            let Wish { dir, to } = self.entry(number).wish;
            let directory = &mut directories[usize::from(dir) - 1];
            if directory.n < number {
                *directory = Directory { place: to, n: number };
            }
        }
        directories.map(|directory| directory.place)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Directory {
    pub(super) place: Place,
    pub(super) n: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Pc {
    /// Was not asked yet.
    Idle,
    Read,
    Touch,
    ApplyRead,
    ApplyWrite,
    Check,
    Commit(Place),
    /// Touches before it refuses.
    Confirm,
    /// Writes what is applied.
    Mark,
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Process {
    pub(super) pc: Pc,
    pub(super) register: Option<Read<Register>>,
    /// That version was acknowledged.
    pub(super) is_confirmed: bool,
    pub(super) directory: Option<Read<Directory>>,
    /// Since it was asked there was a moment at which its move could not be done.
    pub(super) may_refuse: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(super) register: Document<Register>,
    pub(super) directories: [Document<Directory>; DIRS],
    /// The tree after every committed move.
    pub(super) serial: Places,
    pub(super) commits: [u8; MOVES_MAX],
    pub(super) lost: u8,
    pub(super) register_isolations: u8,
    pub(super) directory_isolations: u8,
    pub(super) error: Option<&'static str>,
    /// A mover for each wish, then helpers.
    pub(super) processes: Vec<Process>,
}

pub(super) fn forgetful(p: Process) -> Process {
    Process {
        register: None,
        directory: None,
        is_confirmed: false,
        ..p
    }
}

pub(super) fn cannot(places: &Places, wish: Wish) -> bool {
    !matches!(decide(places, wish), Decision::Move(_))
}

/// Others' reads of a directory document change.
pub(super) fn outdate_directory(state: &mut State, dir: usize, by: usize, change: &dyn Fn(&mut Read<Directory>)) {
    for (n, p) in state.processes.iter_mut().enumerate() {
        if let (Some(register), Some(read)) = (&p.register, &mut p.directory)
            && n != by
            && usize::from(register.body.entry(register.body.applied + 1).wish.dir) == dir + 1
        {
            change(read);
        }
    }
}

/// A move is durable in the register.
pub(super) fn record_commit(state: &mut State, wishes: &[Wish], entry: Entry) {
    if !fits(&state.serial, entry.wish) {
        state.error = Some("S12: the product's tree does not take a committed move");
    }
    state.serial[usize::from(entry.wish.dir) - 1] = entry.wish.to;
    state.commits[usize::from(entry.by)] += 1;
    for (n, p) in state.processes.iter_mut().enumerate() {
        if let Some(wish) = wishes.get(n)
            && state.commits[n] == 0
            && !matches!(p.pc, Pc::Idle | Pc::End)
        {
            p.may_refuse |= cannot(&state.serial, *wish);
        }
    }
}

/// A move may be refused only if it was impossible at some moment since it began.
pub(super) fn check_refusal(state: &mut State, p: &Process) {
    if !p.may_refuse {
        state.error = Some("a move was refused that could be done all the time");
    }
}
