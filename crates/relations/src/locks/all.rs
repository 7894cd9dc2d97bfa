//! The step over all targets of a request at once: all are granted, or none.
//!
//! For a critical section that has all the lock documents in its hands. Who waits holds none of them, but stands in
//! every queue, so that nobody younger passes at a target that happens to be free.
//!
//! Not here: the portable form, which takes one lock document after the other in the order of acquisition.

use super::lock::{Lock, Owner};
use super::step::{Action, Answer, Blocker, Request, step};
use super::{LockKey, Mode};

/// What came of it.
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

/// Asks for every lock in the mode beside it. The action of `request` says only whether to wait; its mode is not used.
/// The locks come back in their order.
///
/// # Panics
/// If the action of the request is not [`Action::Acquire`].
pub fn acquire_all(asked: Vec<(Lock, Mode)>, request: &Request, dead: &[Owner]) -> (Vec<Lock>, AllAnswer) {
    let Action::Acquire { wait, .. } = request.action else {
        panic!("all targets are acquired; releasing needs no agreement among them")
    };
    let with = |action| Request {
        action,
        ..request.clone()
    };
    let mut granted = Vec::with_capacity(asked.len());
    let mut blocked = Vec::new();
    let mut crossing = None;
    for (lock, mode) in &asked {
        let (next, answer) = step(
            lock.clone(),
            &with(Action::Acquire {
                mode: *mode,
                wait: false,
            }),
            dead,
        );
        match answer {
            Answer::Granted { .. } => granted.push(next),
            Answer::Busy { blockers } => blocked.push((lock.key.clone(), blockers)),
            Answer::Deadlock { with } => crossing = crossing.or(Some((lock.key.clone(), with))),
            Answer::Queued { .. } | Answer::Full | Answer::Released { .. } => {
                unreachable!("who does not wait is granted or refused")
            }
        }
    }
    if granted.len() == asked.len() {
        return (granted, AllAnswer::Granted);
    }
    if let Some((key, other)) = crossing {
        let withdraw = with(Action::Withdraw);
        let locks = asked.into_iter().map(|(lock, _)| step(lock, &withdraw, dead).0).collect();
        return (locks, AllAnswer::Deadlock { key, with: other });
    }
    if !wait {
        return (asked.into_iter().map(|(lock, _)| lock).collect(), AllAnswer::Busy(blocked));
    }
    let mut queued = Vec::with_capacity(asked.len());
    for (lock, mode) in &asked {
        // A withdrawal purges the dead and marks the write; the entry is then made anew.
        let (mut next, _) = step(lock.clone(), &with(Action::Withdraw), dead);
        let want = next.want(&request.owner, *mode);
        if !next.enqueue(request, want) {
            let key = lock.key.clone();
            return (asked.into_iter().map(|(lock, _)| lock).collect(), AllAnswer::Full(key));
        }
        queued.push(next);
    }
    (queued, AllAnswer::Queued(blocked))
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
            nonce: Arc::from("n"),
            action: Action::Acquire {
                mode: Mode::Exclusive,
                wait,
            },
        }
    }
    fn name(name: &str) -> Lock {
        Lock::new(LockKey::Name(name.to_owned()))
    }
    fn pair(a: Lock, b: Lock) -> Vec<(Lock, Mode)> {
        vec![(a, Mode::Exclusive), (b, Mode::Exclusive)]
    }
    fn two(locks: Vec<Lock>) -> [Lock; 2] {
        locks.try_into().expect("two locks")
    }

    #[test]
    fn all_or_none() {
        let (a, _) = step(name("a"), &request("one", 1, false), &[]);
        let (locks, answer) = acquire_all(pair(a.clone(), name("b")), &request("two", 2, false), &[]);
        assert!(
            matches!(&answer, AllAnswer::Busy(at) if at.len() == 1 && at[0].0 == a.key),
            "{answer:?}"
        );
        assert_eq!(two(locks), [a.clone(), name("b")], "a refusal leaves nothing behind");

        let (locks, answer) = acquire_all(pair(a, name("b")), &request("two", 2, true), &[]);
        assert!(matches!(answer, AllAnswer::Queued(_)));
        let [a, b] = two(locks);
        assert!(
            b.holders.is_empty() && b.waiters.len() == 1 && a.waiters.len() == 1,
            "waiting, nothing is held"
        );

        // The younger third does not pass at b, which is free.
        let (_, answer) = step(b.clone(), &request("three", 3, true), &[]);
        assert!(matches!(&answer, Answer::Queued { position: 1, blockers } if blockers[0].owner.as_str() == "two"));
        // The death of the first lets the second in.
        let (locks, answer) = acquire_all(pair(a, b), &request("two", 2, true), &[Owner::new("one")]);
        assert_eq!(answer, AllAnswer::Granted);
        assert!(locks.iter().all(|lock| lock.waiters.is_empty() && lock.holders.len() == 1));
    }

    #[test]
    fn a_circle_of_waits_is_found() {
        let (a, _) = step(name("a"), &request("one", 1, false), &[]);
        let (b, _) = step(name("b"), &request("two", 2, false), &[]);
        let (a, _) = step(a, &request("two", 2, true), &[]);
        assert_eq!(super::super::cycle(&waits([&a, &b]), &Owner::new("two")), None);
        let (b, _) = step(b, &request("one", 1, true), &[]);
        let found = super::super::cycle(&waits([&a, &b]), &Owner::new("one")).expect("a circle");
        assert_eq!(found, [Owner::new("one"), Owner::new("two")]);
    }

    #[test]
    fn a_full_queue_refuses_all() {
        let (mut full, _) = step(name("a"), &request("holder", 0, false), &[]);
        for n in 0..256u64 {
            full = step(full, &request(&format!("w{n}"), n + 1, true), &[]).0;
        }
        let (locks, answer) = acquire_all(pair(name("b"), full.clone()), &request("late", 999, true), &[]);
        assert_eq!(answer, AllAnswer::Full(full.key.clone()));
        assert_eq!(two(locks), [name("b"), full]);
    }
}
