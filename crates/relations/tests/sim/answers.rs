//! What a change is answered when it cannot be, and that nothing is left behind: on a store that tells the truth.

use crate::runs::{indices, runner};
use crate::store::{Lies, SimStore};
use crate::world::{Scheduler, SimClock, World};
use engine::{Engine as _, EngineExt as _, Expect, Hide, Outcome, Refresh, Source, Write, WriteOp};
use model::{DocAddress, DocId, ErrorKind, IndexName, Result, Stamp};
use relations::changes::{
    CONTROL_INDEX, Change, Mark, OPERATIONS_MAX, Record, RecordState, Resolved, Room, Verdict, lock_address, origin,
    record_address, session_address,
};
use relations::locks::{Action, Age, Lock, LockKey, Mode, Owner, Request, step};
use relations::sessions::{Session, SessionKind, SessionState};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn at(index: &str, id: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new(index),
        id: DocId::plain(id),
    }
}

fn put(at: DocAddress, source: &Value) -> Write {
    Write::new(at, WriteOp::Put(Source::from_value(source)))
}

fn change(operations: Vec<Write>) -> Change {
    Change {
        id: Owner::new("c-1"),
        age: None,
        conditions: Vec::new(),
        operations,
        otherwise: Vec::new(),
        locks: Vec::new(),
        digest: String::new(),
        deadline: Duration::from_secs(2_000),
    }
}

/// Somebody's lock on index `a`.
fn locked(by: &str, mode: Mode) -> Write {
    let key = LockKey::Index(IndexName::new("a"));
    let request = Request {
        owner: Owner::new(by),
        session: Arc::from(by),
        age: Age::default(),
        nonce: Arc::from("n"),
        action: Action::Acquire { mode, wait: false },
    };
    let (lock, _) = step(Lock::new(key.clone()), &request, &[]);
    put(lock_address(&key), &lock.render())
}

fn lease(id: &str, state: SessionState) -> Write {
    let open = Session::open(SessionKind::Client, Duration::from_secs(30), Arc::from("n"));
    let lease = match state {
        SessionState::Open => open,
        ended => open.ended(ended, None, Arc::from("n")),
    };
    put(session_address(id), &lease.render())
}

/// Runs a test in a world of its own, on a store that tells the truth.
fn simulated<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(Arc<World>, Arc<SimStore>) -> F) {
    let world = World::new(1);
    let engine = indices(Arc::new(SimClock(world.clone()))).expect("indices");
    let store = Arc::new(SimStore::new(world.clone(), engine, Lies::default(), None));
    let mut scheduler = Scheduler::new(world.clone());
    scheduler.spawn(test(world, store));
    scheduler.run(100_000).expect("it ends");
}

/// Runs a change on index `a` with document 1, after `first`. Unless it is committed, every document is as it was.
fn answer(first: Vec<Write>, change: Change) -> (Result<Verdict>, Vec<String>) {
    let answered: Arc<Mutex<Option<(Result<Verdict>, Vec<String>)>>> = Arc::default();
    let out = answered.clone();
    simulated(|world, store| async move {
        let writes = [vec![put(at("a", "1"), &json!({"n": 1}))], first].concat();
        let outcomes = store.write(writes, Refresh::No).await.expect("the beginning is written");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))));
        let before = store.truth();
        let locks = change.locks.clone();
        let verdict = runner(&world, &store, "n1").run(&change).await;
        let changed = !matches!(verdict, Ok(Verdict::Committed { .. }));
        for (at, document) in store.truth() {
            if changed && at.index.as_str() != CONTROL_INDEX {
                let old = before.get(&at).expect("nothing new is there");
                assert_eq!(old.source, document.source, "{at:?}");
                let mark = Mark::of(document.hidden.as_ref()).expect("a mark");
                // Marks may have gone over it, and say since when it is what it is.
                let clean = Mark {
                    since: None,
                    ..mark.clone()
                };
                assert!(clean.is_empty(), "{at:?}: {mark:?}");
                assert_eq!(origin(&document).expect("a mark"), old.stamp, "{at:?}");
            }
        }
        let mut guards = Vec::new();
        for lock in locks {
            if let Some(lease) = store.read_one(session_address(lock.as_str())).await.expect("a read") {
                let lease = Session::parse(&lease.source.parse().expect("JSON")).expect("a lease");
                guards.extend(lease.guards.iter().map(Owner::to_string));
            }
        }
        *out.lock().expect("one thread") = Some((verdict, guards));
    });
    answered.lock().expect("one thread").take().expect("an answer")
}

/// An attempt that came to nothing raises the stamps of its documents and leaves them as they were: who found them before may
/// still expect them. What was written in between may not be.
#[test]
fn marks_alone_are_no_change() {
    simulated(|world, store| async move {
        let runner = runner(&world, &store, "n1");
        let there = || async { store.read_one(at("a", "1")).await.expect("a read").expect("a document") };
        let outcomes = store
            .write(vec![put(at("a", "1"), &json!({"n": 1}))], Refresh::No)
            .await
            .expect("a write");
        assert!(matches!(outcomes[0], Outcome::Written(_)));
        let found = there().await.stamp;
        let expecting = |id: &str, stamp: Stamp| Change {
            id: Owner::new(id),
            ..change(vec![Write {
                expect: Expect::Unchanged {
                    seq_no: stamp.seq_no,
                    primary_term: stamp.primary_term,
                },
                ..put(at("a", "1"), &json!({"n": 2}))
            }])
        };
        for id in ["c-bad1", "c-bad2"] {
            let bad = Change {
                id: Owner::new(id),
                conditions: vec![(at("a", "2"), Expect::Present)],
                ..change(vec![put(at("a", "1"), &json!({"n": 9}))])
            };
            let verdict = runner.run(&bad).await.expect("no failure");
            assert!(matches!(verdict, Verdict::Unmet { .. }), "{verdict:?}");
        }
        let lifted = there().await;
        assert!(lifted.stamp.seq_no > found.seq_no, "marks went over it");
        assert_eq!(origin(&lifted).expect("a mark"), found);
        // The same words by a plain writer are a write: the mark holds for its own version alone.
        let plain = runner
            .write(put(at("a", "1"), &json!({"n": 1})), Refresh::No, Duration::MAX)
            .await;
        assert!(matches!(plain, Ok(Outcome::Written(_))), "{plain:?}");
        let verdict = runner.run(&expecting("c-late", found)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Failed(_)), "{verdict:?}");
        let written = origin(&there().await).expect("a mark");
        assert!(written.seq_no > lifted.stamp.seq_no);
        // That attempt left it as it was, too.
        let verdict = runner.run(&expecting("c-good", written)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Committed { .. }), "{verdict:?}");
        let verdict = runner.run(&expecting("c-again", written)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Failed(_)), "once: {verdict:?}");
    });
}

#[test]
fn refusals() {
    let ops = || vec![put(at("a", "1"), &json!({"n": 2}))];
    let (verdict, _) = answer(Vec::new(), change(ops()));
    assert!(
        matches!(verdict, Ok(Verdict::Committed { otherwise: false, .. })),
        "{verdict:?}"
    );

    let absent = Change {
        conditions: vec![(at("a", "2"), Expect::Absent), (at("a", "1"), Expect::Absent)],
        ..change(ops())
    };
    let (verdict, _) = answer(Vec::new(), absent.clone());
    assert!(matches!(verdict, Ok(Verdict::Unmet { condition: 1, .. })), "{verdict:?}");
    let or_else = Change {
        otherwise: vec![put(at("b", "1"), &json!({"n": 3}))],
        ..absent
    };
    let (verdict, _) = answer(Vec::new(), or_else);
    assert!(
        matches!(verdict, Ok(Verdict::Committed { otherwise: true, .. })),
        "{verdict:?}"
    );

    let stale = Write {
        expect: Expect::Unchanged {
            seq_no: 99,
            primary_term: 1,
        },
        ..ops().remove(0)
    };
    let (verdict, _) = answer(Vec::new(), change(vec![put(at("b", "1"), &json!({"n": 1})), stale]));
    let Ok(Verdict::Failed(items)) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(items.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);

    // What could never be applied is refused while planning.
    let (verdict, _) = answer(
        Vec::new(),
        change(vec![ops().remove(0), put(at("a", "3"), &json!({"n": {"x": 1}}))]),
    );
    let Ok(Verdict::Failed(items)) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(items.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);

    let missing = answer(Vec::new(), change(vec![put(at("none", "1"), &json!({}))])).0;
    assert_eq!(missing.expect_err("no such index").kind(), ErrorKind::IndexNotFound);
    let many = answer(Vec::new(), change(vec![ops().remove(0); OPERATIONS_MAX + 1])).0;
    let error = many.expect_err("too many");
    assert!(error.reason().contains("changes.max_operations"), "{error}");
}

#[test]
fn locks_are_respected() {
    let ops = || vec![put(at("a", "1"), &json!({"n": 2}))];
    let under = |lock: &str| Change {
        locks: vec![Owner::new(lock)],
        ..change(ops())
    };
    for mode in [Mode::Exclusive, Mode::Shared] {
        let (verdict, _) = answer(vec![locked("l-1", mode)], change(ops()));
        let Ok(Verdict::Locked(blocked)) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(blocked[0].1[0].owner.as_str(), "l-1");
    }
    let (verdict, _) = answer(vec![locked("l-1", Mode::IntentExclusive)], change(ops()));
    assert!(
        matches!(verdict, Ok(Verdict::Committed { .. })),
        "an intention is in nobody's way: {verdict:?}"
    );

    let (verdict, guards) = answer(
        vec![locked("l-1", Mode::Exclusive), lease("l-1", SessionState::Open)],
        under("l-1"),
    );
    assert!(matches!(verdict, Ok(Verdict::Committed { .. })), "{verdict:?}");
    assert_eq!(guards, ["c-1"], "the lease names the change before it leaves a mark");
    for state in [SessionState::Expired, SessionState::Broken, SessionState::Closed] {
        let (verdict, guards) = answer(vec![locked("l-1", Mode::Exclusive), lease("l-1", state)], under("l-1"));
        assert!(
            matches!(verdict, Ok(Verdict::LockEnded { state: Some(found), .. }) if found == state),
            "{verdict:?}"
        );
        assert!(guards.is_empty());
    }
    let (verdict, _) = answer(Vec::new(), under("l-9"));
    assert!(matches!(verdict, Ok(Verdict::LockEnded { state: None, .. })), "{verdict:?}");
}

/// What has no room in a record lies beside it, is found there by whoever finishes the change, and goes with the record,
/// as do chunks that nobody names.
#[test]
fn chunks_are_found_and_forgotten() {
    simulated(|world, store| async move {
        let room = Room {
            operations: 2,
            ..Room::default()
        };
        let runner = runner(&world, &store, "n1").with_room(room);
        let control = || {
            let all = store.truth().into_keys();
            let ours = all.filter(|at| at.index.as_str() == CONTROL_INDEX);
            ours.map(|at| at.id.id.to_string()).collect::<Vec<String>>()
        };
        let operations = (0..5).map(|n| put(at("a", &n.to_string()), &json!({"n": n}))).collect();
        let verdict = runner.run(&change(operations)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Committed { .. }), "{verdict:?}");
        let chunks = control().iter().filter(|id| id.starts_with("k:c-1:")).count();
        assert_eq!(chunks, 3, "five operations, two a chunk: {:?}", control());

        // As if it had stopped at the commit: another finishes it by the chunks.
        let (record, _) = {
            let found = store
                .read_one(record_address(&Owner::new("c-1")))
                .await
                .expect("a read")
                .expect("a record");
            let record = Record::parse(&found.source.parse().expect("JSON")).expect("a record");
            (record.clone(), found.stamp)
        };
        let again = Record {
            state: RecordState::Committed,
            ..record
        };
        let unapplied = |n: usize| Write {
            hide: Hide::Set(
                Mark {
                    intent: Some(Owner::new("c-1")),
                    ..Mark::default()
                }
                .hidden(),
            ),
            ..put(at("a", &n.to_string()), &json!({"n": "before"}))
        };
        let mut writes: Vec<Write> = (0..5).map(unapplied).collect();
        writes.push(put(record_address(&Owner::new("c-1")), &again.render()));
        // And chunks of a change that nobody knows.
        writes.push(put(
            at(CONTROL_INDEX, "k:c-9:x.0"),
            &json!({"kind": "chunk", "change": "c-9", "at": 0, "docs": []}),
        ));
        store.write(writes, Refresh::No).await.expect("a write");
        assert_eq!(runner.resolve(&Owner::new("c-1")).await.expect("no failure"), Resolved::Done);
        for n in 0..5 {
            let found = store
                .read_one(at("a", &n.to_string()))
                .await
                .expect("a read")
                .expect("a document");
            assert_eq!(found.source.parse().expect("JSON"), json!({"n": n}));
        }
        // A clock of this world says anything.
        assert_eq!(runner.collect(i64::MIN / 4).await.expect("no failure"), 1);
        assert_eq!(control(), Vec::<String>::new());
        let all = store.truth().into_values();
        let marks = all.filter(|document| document.hidden.as_ref().is_some_and(|h| h.held));
        assert_eq!(marks.count(), 0);
    });
}

/// A document that the server keeps for a change, and that is deleted when the change is long forgotten, leaves nothing:
/// a lease of a lock document that was held for more than a day. What a change that is remembered deleted stays as long as it does.
#[test]
fn tombstones_of_forgotten_changes_go() {
    simulated(|world, store| async move {
        let runner = runner(&world, &store, "n1");
        let there = || {
            let all = store.truth().into_keys().map(|at| at.id.id.to_string());
            all.filter(|id| id.starts_with("s:lease")).collect::<Vec<String>>()
        };
        let lease = at(CONTROL_INDEX, "s:lease-1");
        let verdict = runner.run(&change(vec![put(lease.clone(), &json!({"kind": "lease"}))])).await;
        assert!(matches!(verdict, Ok(Verdict::Committed { .. })), "{verdict:?}");
        let deletion = Write::new(lease, WriteOp::Delete);
        let deleted = store.write(vec![deletion], Refresh::No).await.expect("a write");
        assert!(matches!(deleted.as_slice(), [Outcome::Written(_)]), "{deleted:?}");
        assert_eq!(there(), ["s:lease-1"], "a late write of the change must not bring it back");
        // Kept for as long as anything can be.
        assert_eq!(runner.collect(i64::MAX / 4).await.expect("no failure"), 0);
        assert_eq!(there(), ["s:lease-1"]);
        let record = Write::new(record_address(&Owner::new("c-1")), WriteOp::Delete);
        store.write(vec![record], Refresh::No).await.expect("a write");
        runner.collect(i64::MAX / 4).await.expect("no failure");
        assert_eq!(there(), Vec::<String>::new());
    });
}
