//! What a change is answered when it cannot be, and that nothing is left behind: on a store that tells the truth.

use crate::runs::{indices, runner, server, session_write};
use crate::store::{Lies, SimStore};
use crate::world::{Scheduler, SimClock, World};
use dsl::search::SearchRequest;
use engine::{Alteration, Engine as _, EngineExt as _, Expect, Hide, Outcome, Refresh, Source, ViewPromise, Write, WriteOp};
use model::{DocAddress, DocId, ErrorKind, IndexName, Result, Stamp, Target};
use relations::intents::{CONTROL_INDEX, Mark, Record, RecordState, Resolved, origin, record_address};
use relations::leases::{Ask, Asked, Wanted};
use relations::locks::{LockTarget, Mode, Owner};
use relations::sessions::Session;
use relations::transactions::interactive::Begin;
use relations::transactions::{Change, Condition, Digest, Key, Kind, NotDone, Operation, ReadLevel, Verdict};
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

fn change(writes: Vec<Write>) -> Change {
    Change::of(writes.into_iter().map(|write| Operation::of("index", write)).collect())
}

fn exists(at: DocAddress, exists: bool) -> Condition {
    Condition {
        at,
        exists: Some(exists),
        expect: Expect::Anything,
    }
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

/// Runs a change on index `a` with document 1. Unless it is committed, every document is as it was.
fn answer(change: Change) -> Result<Verdict> {
    let answered: Arc<Mutex<Option<Result<Verdict>>>> = Arc::default();
    let out = answered.clone();
    simulated(|world, store| async move {
        let first = vec![put(at("a", "1"), &json!({"n": 1}))];
        let outcomes = store.write(first, Refresh::No).await.expect("the beginning is written");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))));
        let before = store.truth();
        let verdict = server(&world, &store, "n1", 1_000).change(&change).await;
        let changed = !matches!(verdict, Ok(Verdict::Committed(_)));
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
        *out.lock().expect("one thread") = Some(verdict);
    });
    answered.lock().expect("one thread").take().expect("an answer")
}

/// Of each operation of a change that failed: is it the one that could not be?
fn failed(verdict: Result<Verdict>) -> Vec<bool> {
    match verdict {
        Ok(Verdict::Failed(failures)) => failures
            .operations
            .iter()
            .map(|one| !matches!(one, NotDone::NotApplied))
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// An attempt that came to nothing raises the stamps of its documents and leaves them as they were: who found them before may
/// still expect them. What was written in between may not be.
#[test]
fn marks_alone_are_no_change() {
    simulated(|world, store| async move {
        let relations = server(&world, &store, "n1", 1_000);
        let there = || async { store.read_one(at("a", "1")).await.expect("a read").expect("a document") };
        let outcomes = store
            .write(vec![put(at("a", "1"), &json!({"n": 1}))], Refresh::No)
            .await
            .expect("a write");
        assert!(matches!(outcomes[0], Outcome::Written(_)));
        let found = there().await.stamp;
        let expecting = |stamp: Stamp| {
            change(vec![Write {
                expect: Expect::Unchanged {
                    seq_no: stamp.seq_no,
                    primary_term: stamp.primary_term,
                },
                ..put(at("a", "1"), &json!({"n": 2}))
            }])
        };
        for _ in 0..2 {
            let bad = Change {
                conditions: vec![exists(at("a", "2"), true)],
                ..change(vec![put(at("a", "1"), &json!({"n": 9}))])
            };
            let error = relations.change(&bad).await.expect_err("there is no such document");
            assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
        }
        let lifted = there().await;
        assert!(lifted.stamp.seq_no > found.seq_no, "marks went over it");
        assert_eq!(origin(&lifted).expect("a mark"), found);
        // The same words by a plain writer are a write: the mark holds for its own version alone.
        let plain = relations.write(vec![put(at("a", "1"), &json!({"n": 1}))], Refresh::No).await;
        assert!(matches!(plain.as_deref(), Ok([Outcome::Written(_)])), "{plain:?}");
        let verdict = relations.change(&expecting(found)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Failed(_)), "{verdict:?}");
        let written = origin(&there().await).expect("a mark");
        assert!(written.seq_no > lifted.stamp.seq_no);
        // That attempt left it as it was, too.
        let verdict = relations.change(&expecting(written)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
        let verdict = relations.change(&expecting(written)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Failed(_)), "once: {verdict:?}");
    });
}

#[test]
fn refusals() {
    let ops = || vec![put(at("a", "1"), &json!({"n": 2}))];
    let verdict = answer(change(ops()));
    assert!(
        matches!(&verdict, Ok(Verdict::Committed(done)) if !done.otherwise),
        "{verdict:?}"
    );

    let absent = Change {
        conditions: vec![exists(at("a", "2"), false), exists(at("a", "1"), false)],
        ..change(ops())
    };
    let error = answer(absent.clone()).expect_err("the second condition does not hold");
    assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
    assert!(error.reason().contains("if[1]"), "{error}");
    let or_else = Change {
        otherwise: vec![Operation::of("index", put(at("b", "1"), &json!({"n": 3})))],
        ..absent
    };
    let verdict = answer(or_else);
    assert!(
        matches!(&verdict, Ok(Verdict::Committed(done)) if done.otherwise),
        "{verdict:?}"
    );

    let stale = Write {
        expect: Expect::Unchanged {
            seq_no: 99,
            primary_term: 1,
        },
        ..ops().remove(0)
    };
    let verdict = answer(change(vec![put(at("b", "1"), &json!({"n": 1})), stale]));
    assert_eq!(failed(verdict), [false, true]);

    // What could never be applied is refused while planning.
    let verdict = answer(change(vec![ops().remove(0), put(at("a", "3"), &json!({"n": {"x": 1}}))]));
    assert_eq!(failed(verdict), [false, true]);

    let verdict = answer(change(vec![ops().remove(0), put(at("none", "1"), &json!({}))]));
    assert_eq!(failed(verdict), [false, true], "no such index");
}

/// What has no room in a record lies beside it, is found there by whoever finishes the change, and goes with the record,
/// as do chunks that nobody names.
#[test]
fn chunks_are_found_and_forgotten() {
    simulated(|world, store| async move {
        let (relations, runner) = (server(&world, &store, "n1", 2), runner(&world, &store, "n1"));
        let control = || {
            let all = store.truth().into_keys();
            let ours = all.filter(|at| at.index.as_str() == CONTROL_INDEX);
            ours.map(|at| at.id.id.to_string()).collect::<Vec<String>>()
        };
        let operations = (0..5).map(|n| put(at("a", &n.to_string()), &json!({"n": n}))).collect();
        let verdict = relations.change(&change(operations)).await.expect("no failure");
        assert!(matches!(verdict, Verdict::Committed(_)), "{verdict:?}");
        let id = control().into_iter().find(|id| id.starts_with("c-")).expect("a record");
        let id = Owner::new(id);
        let chunks = control()
            .iter()
            .filter(|chunk| chunk.starts_with(&format!("k:{id}:")))
            .count();
        assert_eq!(chunks, 3, "five operations, two a chunk: {:?}", control());

        // As if it had stopped at the commit: another finishes it by the chunks.
        let found = store.read_one(record_address(&id)).await.expect("a read").expect("a record");
        let again = Record {
            state: RecordState::Committed,
            ..Record::parse(&found.source.parse().expect("JSON")).expect("a record")
        };
        let unapplied = |n: usize| Write {
            hide: Hide::Set(
                Mark {
                    intent: Some(id.clone()),
                    ..Mark::default()
                }
                .to_hidden(),
            ),
            ..put(at("a", &n.to_string()), &json!({"n": "before"}))
        };
        let mut writes: Vec<Write> = (0..5).map(unapplied).collect();
        writes.push(put(record_address(&id), &again.render()));
        // And chunks of a change that nobody knows.
        writes.push(put(
            at(CONTROL_INDEX, "k:c-9:x.0"),
            &json!({"kind": "chunk", "change": "c-9", "at": 0, "docs": []}),
        ));
        store.write(writes, Refresh::No).await.expect("a write");
        assert_eq!(runner.resolve(&id).await.expect("no failure"), Resolved::Done);
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

/// A document that the server keeps for a change, and that is deleted when the change is long forgotten, leaves nothing: a
/// kept outcome. What a change that is remembered made stays as a tombstone as long as its record does.
#[test]
fn tombstones_of_forgotten_changes_go() {
    simulated(|world, store| async move {
        let (relations, runner) = (server(&world, &store, "n1", 1_000), runner(&world, &store, "n1"));
        let there = |prefix: &str| {
            let all = store.truth().into_keys().filter(|at| at.index.as_str() == CONTROL_INDEX);
            let all = all.map(|at| at.id.id.to_string());
            all.filter(|id| id.starts_with(prefix)).collect::<Vec<String>>()
        };
        let keyed = Change {
            key: Some(Key::new("", "k", Digest::of(&[])).expect("a short key")),
            ..change(vec![put(at("a", "1"), &json!({"n": 1}))])
        };
        let verdict = relations.change(&keyed).await;
        assert!(matches!(verdict, Ok(Verdict::Committed(_))), "{verdict:?}");
        let kept = there("k:");
        assert_eq!(kept.len(), 1);
        let deletion = Write::new(at(CONTROL_INDEX, &kept[0]), WriteOp::Delete);
        let deleted = store.write(vec![deletion], Refresh::No).await.expect("a write");
        assert!(matches!(deleted.as_slice(), [Outcome::Written(_)]), "{deleted:?}");
        assert_eq!(there("k:"), kept, "a late write of the change must not bring it back");
        // Kept for as long as anything can be.
        assert_eq!(runner.collect(i64::MAX / 4).await.expect("no failure"), 0);
        assert_eq!(there("k:"), kept);
        let record = there("c-").remove(0);
        let record = Write::new(record_address(&Owner::new(record)), WriteOp::Delete);
        store.write(vec![record], Refresh::No).await.expect("a write");
        runner.collect(i64::MAX / 4).await.expect("no failure");
        assert_eq!(there("k:"), Vec::<String>::new());
    });
}

/// A commit of another server is reached, applied, and a number that nobody gave out is refused.
#[test]
fn a_commit_of_another_server_is_reached() {
    simulated(|world, store| async move {
        let (one, other) = (server(&world, &store, "n1", 1_000), server(&world, &store, "n2", 1_000));
        for name in ["n1", "n2"] {
            let open = Session::open(Duration::from_secs(5), Arc::from("n"));
            let opened = store.write_one(session_write(&open, name, Expect::Absent), Refresh::No).await;
            assert!(matches!(opened, Ok(Outcome::Written(_))));
        }
        let committed = match one.change(&change(vec![put(at("a", "1"), &json!({"n": 1}))])).await {
            Ok(Verdict::Committed(committed)) => committed.commit_seq,
            came => panic!("{came:?}"),
        };
        let target = Target::index("a");
        other.reach(&target, committed).await.expect("it was committed");
        let to_come = other
            .reach(&target, committed + (1 << 40))
            .await
            .expect_err("nobody committed it");
        assert_eq!(to_come.kind(), ErrorKind::IllegalArgument, "{to_come}");
        let expired = Session::open(Duration::from_secs(5), Arc::from("n")).expire(Arc::from("n1"), Arc::from("m"));
        store
            .write_one(session_write(&expired, "n2", Expect::Present), Refresh::No)
            .await
            .expect("a write");
        let ended = other
            .reach(&target, committed + (1 << 40))
            .await
            .expect_err("its session has ended");
        assert_eq!(ended.kind(), ErrorKind::Unavailable, "{ended}");
    });
}

/// A lock that one server grants is respected by the other, which may end it; and a server without a session grants none.
#[test]
fn two_servers_have_one_table_of_locks() {
    simulated(|world, store| async move {
        let (one, other) = (server(&world, &store, "n1.s", 1_000), server(&world, &store, "n1.t", 1_000));
        let ask = |owner: &str| {
            let wanted = Wanted {
                target: LockTarget::Document(at("a", "1")),
                mode: Mode::Exclusive,
            };
            Ask::of(owner, vec![wanted], Duration::from_secs(10))
        };
        let refused = one.acquire(&ask("early")).await.expect_err("it has no session");
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        for (relations, name) in [(&one, "n1.s"), (&other, "n1.t")] {
            relations.recover().await.expect(name);
        }
        let granted = |asked| match asked {
            Ok(Asked::Granted(lease)) => *lease,
            came => panic!("{came:?}"),
        };
        // The second start ended the session of the first, which is of the same server: it opens another.
        world.sleep(Duration::from_secs(2)).await;
        one.sweep().await.expect("a tick");
        let first = granted(one.acquire(&ask("one")).await);
        let busy = other.acquire(&ask("other")).await.expect_err("it is held");
        assert_eq!(busy.kind(), ErrorKind::LockConflict, "{busy}");
        let write = |guards: &[&str]| Change {
            guards: guards.iter().map(|id| (*id).to_owned()).collect(),
            ..change(vec![put(at("a", "1"), &json!({"n": 1}))])
        };
        let foreign = other.change(&write(&[])).await.expect("no failure");
        assert!(matches!(foreign, Verdict::Failed(_)), "{foreign:?}");
        let own = other.change(&write(&[&*first.id])).await;
        assert!(matches!(own, Ok(Verdict::Committed(_))), "{own:?}");
        let renewal = other.renew(&first.id, None, None).expect_err("the other server times it");
        assert!(renewal.reason().contains("renew it there"), "{renewal}");
        assert!(one.renew(&first.id, None, None).is_ok());
        // Asked for once more by its id it moves.
        let again = Ask {
            lock: Some(first.id.to_string()),
            ..ask("")
        };
        let moved = granted(other.acquire(&again).await);
        assert!(moved.token > first.token, "{} after {}", moved.token, first.token);
        assert!(other.renew(&first.id, None, None).is_ok());
        one.sweep().await.expect("a tick");
        assert!(one.renew(&first.id, None, None).is_err(), "it is timed by the other now");
        other.release(&first.id).await.expect("it is held");
        let late = one.change(&write(&[&*first.id])).await.expect_err("it is over");
        assert_eq!(late.kind(), ErrorKind::LockMissing, "{late}");
        let second = granted(one.acquire(&ask("one")).await);
        assert!(second.token > moved.token);
        other
            .break_lock(&second.id)
            .await
            .map_err(|error| error.to_string())
            .expect("a tick has shown it");
        let late = one.change(&write(&[&*second.id])).await.expect_err("it is over");
        assert_eq!(late.kind(), ErrorKind::LockBroken, "{late}");
    });
}

/// What rests on memory of one process, or on one moment of all indices, is refused by name.
#[test]
fn what_an_engine_cannot_is_refused_by_name() {
    simulated(|world, store| async move {
        let relations = server(&world, &store, "n1", 1_000);
        let held = Begin {
            keep_alive: Duration::from_secs(10),
            locks: Vec::new(),
            key: None,
        };
        let external = Write {
            expect: Expect::NewerThan {
                version: 7,
                or_equal: false,
            },
            ..put(at("a", "1"), &json!({"n": 1}))
        };
        let external = Change {
            kind: Kind::Plain,
            ..change(vec![external])
        };
        let request = SearchRequest::default();
        let errors = [
            (relations.begin_held(&held).await.map(drop), "keeps no transactions open"),
            (relations.change(&external).await.map(drop), "no critical section"),
            (
                relations
                    .begin_read(&Target::index("a"), ReadLevel::Snapshot, Some(&request))
                    .await
                    .map(drop),
                "a view of one moment of all indices is not supported",
            ),
        ];
        for (came, part) in errors {
            let error = came.expect_err(part);
            assert_eq!(error.kind(), ErrorKind::UnsupportedOperation, "{error}");
            assert!(error.reason().contains(part), "{error}");
        }
        // A lock document is a lock and a document, which are written by one decision.
        let locks = Alteration::CreateIndex {
            name: "locks".to_owned(),
            settings: [("index.pleach.lock_index".to_owned(), json!("true"))].into_iter().collect(),
            mappings: None,
            aliases: serde_json::Map::new(),
            typed: false,
            if_absent: false,
        };
        store.alter(locks).await.expect("an index is made");
        let taken = change(vec![put(at("locks", "1"), &json!({}))]);
        for kind in [Kind::Plain, Kind::Change] {
            let taken = Change { kind, ..taken.clone() };
            let error = relations.change(&taken).await.expect_err("no lock document");
            assert_eq!(error.kind(), ErrorKind::UnsupportedOperation, "{error}");
        }
        // Less is promised, and given.
        let view = relations
            .open_view(&Target::index("a"), &request, Duration::from_secs(60))
            .await;
        assert_eq!(view.expect("a view").promise, ViewPromise::MomentPerShard);
    });
}
