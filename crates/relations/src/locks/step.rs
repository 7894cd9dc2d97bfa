//! One step of one lock: a request in, the next state and an answer out. Pure; there is no time in it.
//!
//! The table of locks runs it inside a critical section. An answer is a fact once the record of the decision is durable.
//!
//! Not here: requests for several targets (`acquire_all`).

use super::lock::{Age, Holder, Lock, Owner, Waiter};
use super::mode::Mode;
use model::settings;
use std::sync::Arc;

/// Waiters of one lock.
pub fn waiters_max() -> usize {
    settings::node_count(settings::LOCKS_MAX_WAITERS)
}

/// Who asks for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The change or lock that asks.
    pub owner: Owner,
    /// The session or lease that keeps the entry alive.
    pub session: Arc<str>,
    /// Its age, kept across retries.
    pub age: Age,
    /// The action.
    pub action: LockAction,
}

/// The actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockAction {
    /// Hold at least `mode`; where that is not possible, wait in the queue or be told why.
    Acquire { mode: Mode, wait: bool },
    /// Leave the queue; what is held stays held.
    Withdraw,
    /// Hold nothing and wait for nothing.
    Release,
}

/// The result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The owner holds `mode`, which is at least what it asked for.
    Granted { mode: Mode },
    /// In the queue, with `position` older or earlier waiters before it.
    Queued { position: usize, blockers: Vec<Blocker> },
    /// Not possible now, and it did not want to wait.
    Busy { blockers: Vec<Blocker> },
    /// The queue holds [`waiters_max`].
    Full,
    /// It and `with` hold shared and both wait to hold more; the older one stays, this one must give up.
    Deadlock { with: Owner },
    /// It holds nothing any more, or waits no more; `was` tells whether there was an entry.
    Released { was: bool },
}

/// Who is in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocker {
    /// The change or lock.
    pub owner: Owner,
    /// The mode that it holds or wants.
    pub mode: Mode,
    /// The lease that keeps it alive.
    pub session: Arc<str>,
    /// Its age: an older asker may wound it.
    pub age: Age,
    /// It does not hold, but waits and was first.
    pub waiting: bool,
}

/// One step.
///
/// An owner that holds already converts: it gets the join of the modes, and does not queue behind those who wait.
/// Nobody else passes an older waiter that it does not go with.
pub fn step(mut lock: Lock, request: &Request) -> (Lock, Answer) {
    assert!(lock.is_orderly(), "T13, T14: a step from an unsound lock: {lock:?}");
    debug_assert!(lock.is_sound(), "a step from an unsound lock: {lock:?}");
    let answer = match request.action {
        LockAction::Acquire { mode, wait } => acquire(&mut lock, request, mode, wait),
        LockAction::Withdraw => Answer::Released {
            was: leave(&mut lock, &request.owner),
        },
        LockAction::Release => {
            let waited = leave(&mut lock, &request.owner);
            let held = lock.holders.remove(&request.owner).is_some();
            Answer::Released { was: waited || held }
        }
    };
    assert!(lock.is_orderly(), "T13, T14: a step to an unsound lock: {lock:?}");
    debug_assert!(lock.is_sound(), "a step to an unsound lock: {lock:?}");
    (lock, answer)
}

impl Lock {
    /// The mode that the owner would hold after being granted `mode` too.
    pub(crate) fn want(&self, owner: &Owner, mode: Mode) -> Mode {
        self.holders.get(owner).map_or(mode, |held| held.mode.join(mode))
    }

    /// Who is in the way of an owner that wants to hold `want` in the end: incompatible holders, and, for one who
    /// does not hold yet, older incompatible waiters.
    pub fn blockers(&self, owner: &Owner, want: Mode, age: Age) -> Vec<Blocker> {
        self.blockers_but(std::slice::from_ref(owner), owner, want, age)
    }

    /// The same, where what these hold is in nobody's way.
    pub(crate) fn blockers_but(&self, own: &[Owner], owner: &Owner, want: Mode, age: Age) -> Vec<Blocker> {
        let holders = self.against(want, own).filter(|(other, _)| *other != owner);
        let holders = holders.map(|(owner, held)| Blocker {
            owner: owner.clone(),
            mode: held.mode,
            session: held.session.clone(),
            age: held.age,
            waiting: false,
        });
        let ahead = self.ahead(owner, want, age).map(|w| Blocker {
            owner: w.owner.clone(),
            mode: w.mode,
            session: w.session.clone(),
            age: w.age,
            waiting: true,
        });
        holders.chain(ahead).collect()
    }

    /// Older incompatible waiters, whom nobody passes but who holds already.
    fn ahead<'a>(&'a self, owner: &'a Owner, want: Mode, age: Age) -> impl Iterator<Item = &'a Waiter> {
        let converts = !self.waiters.is_empty() && self.holders.contains_key(owner);
        let older = self.waiters.iter().take_while(move |w| (w.age, &w.owner) < (age, owner));
        older.filter(move |w| !converts && w.owner != *owner && !w.mode.is_compatible(want))
    }

    /// Nothing is in the way of an owner that wants to hold `want` in the end.
    pub(crate) fn is_open_to(&self, owner: &Owner, want: Mode, age: Age) -> bool {
        self.is_open_but(&[], owner, want, age)
    }
    fn is_open_but(&self, own: &[Owner], owner: &Owner, want: Mode, age: Age) -> bool {
        let mut holders = self.against(want, own).filter(|(other, _)| *other != owner);
        holders.next().is_none() && self.ahead(owner, want, age).next().is_none()
    }

    /// Waiters whom nothing is in the way of any more, oldest first: those to wake.
    pub fn ready(&self) -> impl Iterator<Item = &Waiter> {
        self.ready_but(&[])
    }
    /// Waiters whom nothing but these is in the way of.
    pub(crate) fn ready_but<'a>(&'a self, own: &'a [Owner]) -> impl Iterator<Item = &'a Waiter> {
        self.waiters.iter().filter(|w| self.is_open_but(own, &w.owner, w.mode, w.age))
    }

    /// The owner's entry in the queue, made or brought up to date; false if the queue is full.
    pub(crate) fn enqueue(&mut self, request: &Request, want: Mode) -> bool {
        leave(self, &request.owner);
        let room = self.waiters.len() < waiters_max();
        if room {
            self.line_up(request, want);
        }
        room
    }

    /// An entry in the queue for an owner that has none, however long it is.
    pub(crate) fn line_up(&mut self, request: &Request, want: Mode) {
        debug_assert!(
            self.waiters.iter().all(|waiter| waiter.owner != request.owner),
            "T14: an owner stands in a queue once: {:?}",
            request.owner
        );
        let place = self
            .waiters
            .partition_point(|w| (w.age, &w.owner) < (request.age, &request.owner));
        let waiter = Waiter {
            owner: request.owner.clone(),
            mode: want,
            session: request.session.clone(),
            age: request.age,
        };
        self.waiters.insert(place, waiter);
    }

    /// An older owner with whom this one would wait in a circle, each holding what the other's conversion needs.
    pub(crate) fn crossing(&self, owner: &Owner, want: Mode, age: Age) -> Option<Owner> {
        let held = self.holders.get(owner)?;
        let crossed = self.waiters.iter().find(|w| {
            w.owner != *owner
                && (w.age, &w.owner) < (age, owner)
                && !w.mode.is_compatible(held.mode)
                && self
                    .holders
                    .get(&w.owner)
                    .is_some_and(|other| !other.mode.is_compatible(want))
        });
        crossed.map(|w| w.owner.clone())
    }
}

fn acquire(lock: &mut Lock, request: &Request, mode: Mode, wait: bool) -> Answer {
    let owner = &request.owner;
    let want = lock.want(owner, mode);
    let blockers = lock.blockers(owner, want, request.age);
    debug_assert_eq!(
        blockers.is_empty(),
        lock.is_open_to(owner, want, request.age),
        "T14: who is woken because nothing is in the way is granted: {owner:?}"
    );
    if blockers.is_empty() {
        leave(lock, owner);
        let holder = Holder {
            mode: want,
            session: request.session.clone(),
            age: request.age,
        };
        lock.holders.insert(owner.clone(), holder);
        debug_assert_eq!(want.join(mode), want, "who is granted holds at least what it asked for");
        return Answer::Granted { mode: want };
    }
    if let Some(with) = lock.crossing(owner, want, request.age) {
        leave(lock, owner);
        return Answer::Deadlock { with };
    }
    if !wait {
        leave(lock, owner);
        return Answer::Busy { blockers };
    }
    if !lock.enqueue(request, want) {
        return Answer::Full;
    }
    let position = lock.waiters.iter().position(|w| w.owner == *owner);
    debug_assert!(position.is_some(), "T14: who is told to wait stands in the queue: {owner:?}");
    let position = position.unwrap_or(0);
    Answer::Queued { position, blockers }
}

fn leave(lock: &mut Lock, owner: &Owner) -> bool {
    let before = lock.waiters.len();
    lock.waiters.retain(|waiter| waiter.owner != *owner);
    lock.waiters.len() < before
}

#[cfg(test)]
mod tests;
