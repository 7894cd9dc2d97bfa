//! The step over all targets of a request at once: all are granted, or none.
//!
//! For a critical section that has all the locks in its hands. Who waits holds none of them, but stands in every queue, so
//! that nobody younger passes at a target that happens to be free.
//!
//! Looking ([`look_all`]) and doing ([`acquire_all`], [`queue_all`]) are apart: a decision is made by looking at locks
//! where they are, and what was decided is done to them, in place, once it has its record. Nothing is copied for it.

use super::lock::{Lock, Owner};
use super::step::{Answer, Blocker, LockAction, Request, step, waiters_max};
use super::{LockKey, Mode};

/// The result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AllAnswer {
    /// Every target is held.
    Granted,
    /// In the queue of every target; who is in the way, where.
    Queued(Vec<(LockKey, Vec<Blocker>)>),
    /// Nothing was changed; who is in the way, where.
    Busy(Vec<(LockKey, Vec<Blocker>)>),
    /// Nothing was changed: this queue is full.
    Full(LockKey),
    /// Nothing is waited for any more: this conversion and `with`'s would wait for each other.
    Deadlock { key: LockKey, with: Owner },
}

/// The answer of [`acquire_all`], without doing it. Locks of these owners are in nobody's way.
///
/// # Panics
/// If the action of the request is not [`LockAction::Acquire`].
pub fn look_all<'a>(asked: impl Iterator<Item = (&'a Lock, Mode)> + Clone, request: &Request, own: &[Owner]) -> AllAnswer {
    let LockAction::Acquire { wait, .. } = request.action else {
        panic!("all targets are acquired; releasing needs no agreement among them")
    };
    let Request { owner, age, .. } = request;
    let mut blocked = Vec::new();
    for (lock, mode) in asked.clone() {
        let blockers = lock.blockers_but(own, owner, lock.want(owner, mode), *age);
        if !blockers.is_empty() {
            blocked.push((lock.key.clone(), blockers));
        }
    }
    if blocked.is_empty() {
        return AllAnswer::Granted;
    }
    for (lock, mode) in asked
        .clone()
        .filter(|(lock, _)| blocked.iter().any(|(key, _)| *key == lock.key))
    {
        if let Some(with) = lock.crossing(owner, lock.want(owner, mode), *age) {
            let key = lock.key.clone();
            return AllAnswer::Deadlock { key, with };
        }
    }
    if !wait {
        return AllAnswer::Busy(blocked);
    }
    for (lock, _) in asked {
        let others = lock.waiters.iter().filter(|waiter| waiter.owner != *owner);
        if lock.waiters.len() >= waiters_max() && others.count() >= waiters_max() {
            return AllAnswer::Full(lock.key.clone());
        }
    }
    AllAnswer::Queued(blocked)
}

/// Asks for every lock in the mode beside it. The action of `request` says only whether to wait; its mode is not used.
/// The locks come back in their order; of refusals as they were.
///
/// # Panics
/// If the action of the request is not [`LockAction::Acquire`].
pub fn acquire_all(asked: Vec<(Lock, Mode)>, request: &Request) -> (Vec<Lock>, AllAnswer) {
    let answer = look_all(asked.iter().map(|(lock, mode)| (lock, *mode)), request, &[]);
    let count = asked.len();
    let locks: Vec<Lock> = match &answer {
        AllAnswer::Granted => asked.into_iter().map(|(lock, mode)| grant(lock, mode, request)).collect(),
        AllAnswer::Queued(_) => queue_all(asked, request),
        AllAnswer::Busy(_) | AllAnswer::Full(_) => asked.into_iter().map(|(lock, _)| lock).collect(),
        AllAnswer::Deadlock { .. } => {
            let withdraw = with(request, LockAction::Withdraw);
            asked.into_iter().map(|(lock, _)| step(lock, &withdraw).0).collect()
        }
    };
    assert_eq!(locks.len(), count, "T13: each lock that is taken for a step comes back");
    (locks, answer)
}

fn grant(lock: Lock, mode: Mode, request: &Request) -> Lock {
    let (next, answer) = step(lock, &with(request, LockAction::Acquire { mode, wait: false }));
    assert!(
        matches!(answer, Answer::Granted { .. }),
        "what is free is granted, but was answered {answer:?}"
    );
    next
}

/// Into the queue of every lock, whether or not somebody is in the way now: for who was told to wait, by a look that
/// found room. Those who looked at the same time all get in.
pub fn queue_all(asked: Vec<(Lock, Mode)>, request: &Request) -> Vec<Lock> {
    let withdraw = with(request, LockAction::Withdraw);
    let queued = |(lock, mode): (Lock, Mode)| {
        // An entry that it has already is made anew.
        let (mut next, _) = step(lock, &withdraw);
        let want = next.want(&request.owner, mode);
        next.line_up(request, want);
        next
    };
    asked.into_iter().map(queued).collect()
}

fn with(request: &Request, action: LockAction) -> Request {
    Request {
        action,
        ..request.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Age, waits};
    use super::*;
    use std::sync::Arc;

    fn request(owner: &str, seq: u64, wait: bool) -> Request {
        Request {
            owner: Owner::new(owner),
            session: Arc::from("s"),
            age: Age { term: 1, seq },
            action: LockAction::Acquire {
                mode: Mode::Exclusive,
                wait,
            },
        }
    }
    fn name(name: &str) -> Lock {
        Lock::new(LockKey::Name(name.into()))
    }
    fn pair(a: Lock, b: Lock) -> Vec<(Lock, Mode)> {
        vec![(a, Mode::Exclusive), (b, Mode::Exclusive)]
    }
    fn two(locks: Vec<Lock>) -> [Lock; 2] {
        locks.try_into().expect("two locks")
    }

    #[test]
    fn all_or_none() {
        let (a, _) = step(name("a"), &request("one", 1, false));
        let (locks, answer) = acquire_all(pair(a.clone(), name("b")), &request("two", 2, false));
        assert!(
            matches!(&answer, AllAnswer::Busy(at) if at.len() == 1 && at[0].0 == a.key),
            "{answer:?}"
        );
        assert_eq!(two(locks), [a.clone(), name("b")], "a refusal leaves nothing behind");

        let (locks, answer) = acquire_all(pair(a, name("b")), &request("two", 2, true));
        assert!(matches!(answer, AllAnswer::Queued(_)));
        let [a, b] = two(locks);
        assert!(
            b.holders.is_empty() && b.waiters.len() == 1 && a.waiters.len() == 1,
            "waiting, nothing is held"
        );

        // The younger third does not pass at b, which is free.
        let (_, answer) = step(b.clone(), &request("three", 3, true));
        assert!(matches!(&answer, Answer::Queued { position: 1, blockers } if blockers[0].owner.as_str() == "two"));
        // The end of the first lets the second in.
        let (a, _) = step(a, &with(&request("one", 1, false), LockAction::Release));
        let (locks, answer) = acquire_all(pair(a, b), &request("two", 2, true));
        assert_eq!(answer, AllAnswer::Granted);
        assert!(locks.iter().all(|lock| lock.waiters.is_empty() && lock.holders.len() == 1));
    }

    #[test]
    fn a_circle_of_waits_is_found() {
        let (a, _) = step(name("a"), &request("one", 1, false));
        let (b, _) = step(name("b"), &request("two", 2, false));
        let (a, _) = step(a, &request("two", 2, true));
        assert_eq!(super::super::cycle(&waits([&a, &b]), &Owner::new("two")), None);
        let (b, _) = step(b, &request("one", 1, true));
        let found = super::super::cycle(&waits([&a, &b]), &Owner::new("one")).expect("a circle");
        assert_eq!(found, [Owner::new("one"), Owner::new("two")]);
    }

    #[test]
    fn a_full_queue_refuses_all() {
        let (mut full, _) = step(name("a"), &request("holder", 0, false));
        for n in 0..256u64 {
            full = step(full, &request(&format!("w{n}"), n + 1, true)).0;
        }
        let (locks, answer) = acquire_all(pair(name("b"), full.clone()), &request("late", 999, true));
        assert_eq!(answer, AllAnswer::Full(full.key.clone()));
        assert_eq!(two(locks), [name("b"), full]);
    }
}
