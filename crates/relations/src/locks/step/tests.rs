//! Steps by example, and what holds after any sequence of them.

use super::*;
use crate::locks::LockKey;
use Mode::{Exclusive, IntentExclusive, IntentShared, Shared, SharedIntentExclusive};
use proptest::prelude::*;

fn request(owner: &str, seq: u64, action: LockAction) -> Request {
    Request {
        owner: Owner::new(owner),
        session: Arc::from(format!("s-{owner}")),
        age: Age { term: 1, seq },
        action,
    }
}

fn lock(holders: &[(&str, Mode)]) -> Lock {
    let mut lock = Lock::new(LockKey::Index(model::IndexName::new("fs")));
    for (n, (owner, mode)) in holders.iter().enumerate() {
        let action = LockAction::Acquire {
            mode: *mode,
            wait: false,
        };
        lock = step(lock, &request(owner, n as u64 + 1, action)).0;
    }
    assert_eq!(lock.holders.len(), holders.len(), "the example is impossible");
    lock
}

/// The answer to "me" (youngest) when it asks for `mode` without waiting.
fn check(holders: &[(&str, Mode)], mode: Mode, granted: Option<Mode>) {
    let asked = request("me", 99, LockAction::Acquire { mode, wait: false });
    let (after, answer) = step(lock(holders), &asked);
    match (answer, granted) {
        (Answer::Granted { mode }, Some(expected)) => {
            assert_eq!(mode, expected, "{holders:?}");
            assert_eq!(after.holders[&Owner::new("me")].mode, mode);
        }
        (Answer::Busy { blockers }, None) => assert!(!blockers.is_empty()),
        (answer, _) => panic!("{holders:?} asked for {mode}: {answer:?}"),
    }
}

#[test]
fn grants() {
    check(&[], Exclusive, Some(Exclusive));
    check(&[("a", Shared)], Exclusive, None);
    check(&[("a", Shared)], Shared, Some(Shared));
    check(
        &[("a", IntentExclusive), ("b", IntentExclusive)],
        IntentExclusive,
        Some(IntentExclusive),
    );
    check(&[("a", IntentExclusive)], Shared, None);
    check(&[("me", Shared)], Exclusive, Some(Exclusive));
    check(&[("me", Shared)], IntentExclusive, Some(SharedIntentExclusive));
    check(&[("me", Exclusive)], IntentShared, Some(Exclusive));
    check(&[("me", Shared), ("a", Shared)], Exclusive, None);
}

fn acquire(lock: Lock, owner: &str, seq: u64, mode: Mode) -> (Lock, Answer) {
    step(lock, &request(owner, seq, LockAction::Acquire { mode, wait: true }))
}

#[test]
fn the_queue_is_by_age() {
    let held = lock(&[("h", Exclusive)]);
    let (held, _) = acquire(held, "young", 30, Exclusive);
    let (held, old) = acquire(held, "old", 20, Exclusive);
    assert!(matches!(old, Answer::Queued { position: 0, .. }), "{old:?}");
    let (held, young) = acquire(held, "young", 30, Exclusive);
    let Answer::Queued { position: 1, blockers } = young else {
        panic!("{young:?}")
    };
    let names: Vec<(&str, bool)> = blockers.iter().map(|b| (b.owner.as_str(), b.waiting)).collect();
    assert_eq!(names, [("h", false), ("old", true)]);
    let (free, _) = step(held, &request("h", 1, LockAction::Release));
    let ready: Vec<&str> = free.ready().map(|w| w.owner.as_str()).collect();
    assert_eq!(ready, ["old"]);
    // Nobody passes: not even one who asks for the first time while the old one is on its way.
    let (free, new) = acquire(free, "new", 40, Shared);
    assert!(matches!(new, Answer::Queued { .. }));
    let (free, _) = step(free, &request("old", 20, LockAction::Withdraw));
    let (free, young) = acquire(free, "young", 30, Exclusive);
    assert!(matches!(young, Answer::Granted { .. }), "{young:?}");
    assert_eq!(free.waiters.len(), 1);
}

#[test]
fn conversions_go_first_and_the_younger_of_two_gives_up() {
    let both = lock(&[("a", Shared), ("b", Shared)]);
    let (both, _) = acquire(both, "c", 3, Exclusive);
    let (both, a) = acquire(both, "a", 1, Exclusive);
    assert!(matches!(&a, Answer::Queued { blockers, .. } if blockers.len() == 1), "{a:?}");
    let (both, b) = acquire(both, "b", 2, Exclusive);
    assert_eq!(b, Answer::Deadlock { with: Owner::new("a") });
    let (one, _) = step(both, &request("b", 2, LockAction::Release));
    let ready: Vec<&str> = one.ready().map(|w| w.owner.as_str()).collect();
    assert_eq!(ready, ["a"]);
    let (one, a) = acquire(one, "a", 1, Exclusive);
    assert!(matches!(a, Answer::Granted { mode: Exclusive, .. }));
    assert_eq!(one.waiters.len(), 1, "c waits still");

    // The younger one asked first: it is told at its next step, when the older one waits too.
    let both = lock(&[("a", Shared), ("b", Shared)]);
    let (both, b) = acquire(both, "b", 2, Exclusive);
    assert!(matches!(b, Answer::Queued { .. }));
    let (both, a) = acquire(both, "a", 1, Exclusive);
    assert!(matches!(a, Answer::Queued { .. }), "the older one is never the victim: {a:?}");
    let (_, b) = acquire(both, "b", 2, Exclusive);
    assert_eq!(b, Answer::Deadlock { with: Owner::new("a") });
}

#[test]
fn the_queue_is_bounded() {
    let mut full = lock(&[("h", Exclusive)]);
    for n in 0..waiters_max() as u64 {
        full = acquire(full, &format!("w{n}"), n + 10, Shared).0;
    }
    let (after, answer) = acquire(full.clone(), "late", 9_999, Shared);
    assert_eq!(answer, Answer::Full);
    assert_eq!(after.waiters, full.waiters);
    let (_, again) = acquire(full, "w0", 10, Shared);
    assert!(
        matches!(again, Answer::Queued { position: 0, .. }),
        "who stands in it may ask again"
    );
}

fn actions() -> impl Strategy<Value = (usize, LockAction)> {
    let action = prop_oneof![
        6 => (0..5usize, any::<bool>()).prop_map(|(m, wait)| LockAction::Acquire { mode: Mode::ALL[m], wait }),
        1 => Just(LockAction::Withdraw),
        2 => Just(LockAction::Release),
    ];
    (0..6usize, action)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// After every step of any sequence: compatible holders, an ordered queue, nobody's entry touched but the
    /// asker's, no overtaking (S7, S9).
    #[test]
    fn steps_keep_their_promises(steps in proptest::collection::vec(actions(), 1..40)) {
        let mut lock = lock(&[]);
        for (who, action) in steps {
            let asked = request(&format!("o{who}"), 10 + who as u64, action);
            let before = lock.clone();
            let (after, answer) = step(lock, &asked);
            prop_assert!(after.is_sound());
            let untouched = |owner: &&Owner| **owner != asked.owner;
            for owner in before.holders.keys().filter(untouched) {
                prop_assert_eq!(before.holders.get(owner), after.holders.get(owner), "another's entry");
            }
            for waiter in before.waiters.iter().filter(|w| untouched(&&w.owner)) {
                prop_assert!(after.waiters.contains(waiter), "another's place in the queue");
            }
            let held = before.holders.get(&asked.owner);
            match (&answer, action) {
                (Answer::Granted { mode }, LockAction::Acquire { mode: asked_mode, .. }) => {
                    prop_assert!(mode.covers(asked_mode));
                    prop_assert!(held.is_none_or(|h| mode.covers(h.mode)));
                    let passed = after.waiters.iter().any(|w| w.age < asked.age && !w.mode.is_compatible(*mode));
                    prop_assert!(held.is_some() || !passed, "an older waiter was passed");
                    // Asking again changes nothing.
                    let (again, answer) = step(after.clone(), &asked);
                    let same = matches!(answer, Answer::Granted { mode: again, .. } if again == *mode);
                    prop_assert!(same, "asked again: {:?}", answer);
                    prop_assert_eq!(&again.waiters, &after.waiters);
                }
                (Answer::Queued { blockers, .. }, _) => {
                    prop_assert!(!blockers.is_empty());
                    prop_assert!(after.waiters.iter().any(|w| w.owner == asked.owner));
                    prop_assert_eq!(held, after.holders.get(&asked.owner), "what was held stays held");
                }
                (Answer::Busy { .. } | Answer::Deadlock { .. }, _) => {
                    prop_assert!(after.waiters.iter().all(|w| w.owner != asked.owner));
                    prop_assert_eq!(held, after.holders.get(&asked.owner));
                }
                (Answer::Released { .. }, LockAction::Release) => {
                    prop_assert!(!after.holders.contains_key(&asked.owner));
                }
                (Answer::Released { .. }, LockAction::Withdraw) => {}
                other => prop_assert!(false, "{:?}", other),
            }
            // Somebody can always go on: if nobody holds, the oldest waiter is ready.
            prop_assert!(!after.holders.is_empty() || after.waiters.is_empty() || after.ready().next().is_some());
            lock = after;
        }
    }
}
