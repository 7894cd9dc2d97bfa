//! Reads beside a change by the portable path that is stopped in the middle of being applied, over HTTP, at each level; and
//! external versions under locks there.
//!
//! Not here: what is seen by one record of the log, where every level is the same (scenarios).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fixtures;
mod stopping_engine;

use engine::{Source, Write, WriteOp};
use model::{DocAddress, DocId, IndexName};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stopping_engine::{Finally, with_server, with_server_by};

/// Stopped between the first and the second document.
#[test]
fn contract_18_levels_beside_a_half_applied_change() {
    with_server(|served| {
        let n = |path: &str| served.get(path)["_source"]["n"].as_i64().unwrap();
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.transfer());
            served.engine.wait();
            // Plain: a mix, which says so.
            assert_eq!((n("/left/_doc/0"), n("/right/_doc/1")), (99, 100));
            let named = served.get("/right/_doc/1")["_changes"]["in_flight"].clone();
            assert_eq!(named.as_array().map(Vec::len), Some(1), "{named}");
            served.ok("POST", "/left,right/_refresh", &Value::Null);
            let (sum, told) = served.sum("/left,right/_search");
            assert_eq!((sum, &told["in_flight"]), (199, &named));
            for path in [
                "/left/_count",
                "/right/_search?scroll=1m",
                "/left/_doc/0?realtime=false",
                "/_count",
            ] {
                assert_eq!(served.get(path)["_changes"]["in_flight"], named, "{path}");
            }
            let docs = json!({"docs": [{"_index": "left", "_id": "0"}, {"_index": "other", "_id": "2"}]});
            assert_eq!(served.ok("POST", "/_mget", &docs)["_changes"]["in_flight"], named);
            let missing = served.send("GET", "/left/_doc/none", &Value::Null);
            assert_eq!((missing.0, &missing.1["_changes"]["in_flight"]), (404, &named));
            assert!(
                served.get("/left/_source/0").get("_changes").is_none(),
                "a source is what was written"
            );
            // Where it does not write nothing is told.
            for path in ["/other/_doc/2", "/other/_search", "/other/_count"] {
                assert!(served.get(path).get("_changes").is_none(), "{path}");
            }
            // Settled: finished first, while its own coordinator stands still.
            let settled = served.get("/right/_doc/1?read_level=settled");
            assert_eq!((&settled["_source"]["n"], settled.get("_changes")), (&json!(101), None));
            assert_eq!(served.sum("/left,right/_search?read_level=settled"), (200, Value::Null));
            assert_eq!(n("/left/_doc/0"), 99, "and once");
            served.engine.go_on.notify_one();
            assert_eq!(change.join().unwrap()["committed"], true);
        });
        assert_eq!((n("/left/_doc/0"), n("/right/_doc/1")), (99, 101));
        assert!(served.get("/right/_doc/1").get("_changes").is_none());

        // Searches too finish it before they look.
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.transfer());
            served.engine.wait();
            assert_eq!(served.sum("/left,right/_search?read_level=settled"), (200, Value::Null));
            assert_eq!(n("/right/_doc/1"), 102);
            served.engine.go_on.notify_one();
            change.join().unwrap();
        });

        // What a change deleted is counted nowhere.
        served.ok(
            "POST",
            "/_transaction",
            &json!({"operations": [{"delete": {"_index": "other", "_id": "2"}}]}),
        );
        served.ok("POST", "/other/_refresh", &Value::Null);
        let stats = served.get("/other/_stats/docs");
        assert_eq!(stats["indices"]["other"]["primaries"]["docs"]["count"], 0, "{stats}");
        served.ok("PUT", "/other/_doc/2", &json!({"n": 100}));

        // A snapshot waits for its end.
        for path in ["/left,right/_search?read_level=snapshot", "/right/_doc/1?read_level=snapshot"] {
            let before = n("/right/_doc/1");
            std::thread::scope(|scope| {
                served.engine.arm();
                let _let_go = served.engine.let_go();
                let change = scope.spawn(|| served.transfer());
                served.engine.wait();
                let read = scope.spawn(move || served.get(path));
                std::thread::sleep(Duration::from_millis(300));
                assert!(!read.is_finished(), "{path}: it looks at one moment");
                served.engine.go_on.notify_one();
                change.join().unwrap();
                let answer = read.join().unwrap();
                assert!(answer.get("_changes").is_none());
                match answer["hits"]["hits"].as_array() {
                    Some(hits) => assert_eq!(hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap()).sum::<i64>(), 200),
                    None => assert_eq!(answer["_source"]["n"], before + 1),
                }
            });
        }
    });
}

/// A transaction that is held open begins at a moment in which nothing is half applied; and its commit does not overtake a change
/// that is decided and has not reached what the transaction read: it waits, and finds that it has moved.
#[test]
fn contract_10_and_11_held_open_beside_a_half_applied_change() {
    with_server(|served| {
        let begin = || served.ok("POST", "/_transaction/_begin", &Value::Null);
        let n = |path: String| served.get(&path)["_source"]["n"].as_i64().unwrap();
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.transfer());
            served.engine.wait();
            let begun = scope.spawn(begin);
            std::thread::sleep(Duration::from_millis(300));
            assert!(!begun.is_finished(), "a change is half applied");
            served.engine.go_on.notify_one();
            let seq = change.join().unwrap()["commit_seq"].as_u64().unwrap();
            let begun = begun.join().unwrap();
            let id = begun["id"].as_str().unwrap();
            assert!(begun["read_seq"].as_u64() >= Some(seq), "{begun}: what is before it is in it");
            assert_eq!(n(format!("/left/_doc/0?transaction={id}")), 99);
            assert_eq!(n(format!("/right/_doc/1?transaction={id}")), 101);
            let body = json!({"aggs": {"sum": {"sum": {"field": "n"}}}, "size": 0});
            let found = served.ok("POST", &format!("/left,right/_search?transaction={id}"), &body);
            assert_eq!(found["aggregations"]["sum"]["value"], 200.0);
            served.ok("PUT", &format!("/other/_doc/2?transaction={id}"), &json!({"n": 7}));
            let done = served.ok("POST", &format!("/_transaction/{id}/_commit"), &Value::Null);
            assert!(done["commit_seq"].as_u64() > Some(seq), "{done}: one order with changes");
            let after = served.transfer()["commit_seq"].as_u64();
            assert!(after > done["commit_seq"].as_u64(), "{done}: and with those that follow");
            assert_eq!(n("/other/_doc/2".to_owned()), 7);
        });
        // The second document is decided and not applied when the commit comes.
        let id = begin()["id"].as_str().unwrap().to_owned();
        assert_eq!(n(format!("/right/_doc/1?transaction={id}")), 102);
        served.ok("PUT", &format!("/other/_doc/2?transaction={id}"), &json!({"n": 8}));
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.transfer());
            served.engine.wait();
            let commit = scope.spawn(|| served.send("POST", &format!("/_transaction/{id}/_commit"), &Value::Null));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!commit.is_finished(), "what it read is being changed");
            served.engine.go_on.notify_one();
            change.join().unwrap();
            let (status, refused) = commit.join().unwrap();
            assert_eq!(
                (status, &refused["error"]["type"]),
                (409, &json!("transaction_conflict_exception")),
                "{refused}"
            );
        });
        assert_eq!(n("/other/_doc/2".to_owned()), 7, "nothing of it happened");
        // Marks that come and go are no movement.
        let id = begin()["id"].as_str().unwrap().to_owned();
        assert_eq!(n(format!("/right/_doc/1?transaction={id}")), 103);
        served.ok("PUT", &format!("/left/_doc/0?transaction={id}"), &json!({"n": 97}));
        let looks = json!({"if": [{"index": "right", "id": "1", "exists": true}, {"index": "left", "id": "0", "exists": false}],
            "operations": [{"delete": {"_index": "right", "_id": "1"}}]});
        assert_eq!(served.send("POST", "/_transaction", &looks).0, 412);
        served.ok("POST", &format!("/_transaction/{id}/_commit"), &Value::Null);
        assert_eq!(n("/left/_doc/0".to_owned()), 97);
    });
}

/// What an answer must hold is waited for: all that was committed before, applied everywhere.
#[test]
fn contract_17_after_waits_for_what_is_half_applied() {
    with_server(|served| {
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.transfer());
            served.engine.wait();
            let body = json!({"operations": [{"index": {"_index": "other", "_id": "2", "doc": {"n": 1}}}]});
            let later = served.ok("POST", "/_transaction", &body)["commit_seq"].as_u64().unwrap();
            let read = scope.spawn(move || served.sum(&format!("/left,right,other/_search?after={later}")));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!read.is_finished(), "an earlier change is half applied");
            served.engine.go_on.notify_one();
            let earlier = change.join().unwrap()["commit_seq"].as_u64().unwrap();
            assert!(earlier < later, "it was committed first");
            assert_eq!(read.join().unwrap().0, 201);
            let (status, _) = served.send("GET", &format!("/left/_doc/0?after={}", later + 1_000_000), &Value::Null);
            assert_eq!(status, 400, "nobody knows that number");
        });
    });
}

/// Under writers that keep a sum, snapshots are never mixed, and writers go on.
#[test]
fn contract_18_snapshots_under_writers() {
    with_server(|served| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = Finally(|| over.store(true, Ordering::Relaxed));
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut done = 0;
                        while !over.load(Ordering::Relaxed) {
                            served.transfer();
                            done += 1;
                        }
                        done
                    })
                })
                .collect();
            for _ in 0..40 {
                assert_eq!(served.sum("/left,right/_search?read_level=snapshot"), (200, Value::Null));
            }
            over.store(true, Ordering::Relaxed);
            let done: i64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
            let moved = 100 - served.get("/left/_doc/0")["_source"]["n"].as_i64().unwrap();
            assert!(done > 3 && moved == done, "{moved} of {done}");
        });
    });
}

/// The version is the client's, the lock is looked at, and a change that is half applied is waited for.
#[test]
fn contract_25_external_versions_under_locks_by_the_portable_path() {
    with_server(|served| {
        let lock = served.ok("POST", "/_lock", &json!({"targets": [{"index": "left", "id": "0"}]}))["id"].clone();
        let lock = lock.as_str().unwrap();
        let put = |version: u64, lock: &str| {
            let path = format!("/left/_doc/0?version={version}&version_type=external&lock={lock}");
            served.send("PUT", &path, &json!({"n": 100}))
        };
        let (status, written) = put(50, lock);
        assert_eq!((status, &written["_version"]), (200, &json!(50)), "{written}");
        let (status, refused) = put(50, lock);
        assert_eq!(
            (status, &refused["error"]["type"]),
            (409, &json!("version_conflict_engine_exception"))
        );
        let other = served.ok("POST", "/_lock", &json!({"targets": [{"index": "right"}]}))["id"].clone();
        assert_eq!(put(60, other.as_str().unwrap()).0, 400, "a lock of something else");
        served.ok("DELETE", &format!("/_lock/{}", other.as_str().unwrap()), &Value::Null);
        served.ok("DELETE", &format!("/_lock/{lock}"), &Value::Null);
        assert_eq!(put(60, lock).0, 404, "a lock that is over");

        // A lock there would keep the change out.
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.transfer());
            served.engine.wait();
            // Who meets a change that is committed finishes it, and then writes.
            let (status, written) = served.send("PUT", "/right/_doc/1?version=70&version_type=external", &json!({"n": 7}));
            assert_eq!((status, &written["_version"]), (200, &json!(70)), "{written}");
            served.engine.go_on.notify_one();
            change.join().unwrap();
        });
        let read = served.get("/right/_doc/1");
        assert_eq!(
            (&read["_source"]["n"], &read["_version"]),
            (&json!(7), &json!(70)),
            "the change came first"
        );
    });
}

/// An index that is closed or blocked after the commit keeps a change from its end, and does not undo half of it: it is not told
/// done, nobody else stands still, and it is finished when it can be.
#[test]
fn contract_08_what_is_committed_outlasts_an_index_that_is_shut() {
    let blocked = |on: bool| json!({"index.blocks.write": on});
    with_server(|served| {
        for (shut, open) in [
            (
                ("PUT", "/right/_settings", blocked(true)),
                ("PUT", "/right/_settings", blocked(false)),
            ),
            (("POST", "/right/_close", Value::Null), ("POST", "/right/_open", Value::Null)),
        ] {
            let before = served.get("/right/_doc/1")["_source"]["n"].as_i64().unwrap();
            let by = |by: i64| json!({"script": {"source": "ctx._source.n += params.by", "params": {"by": by}}});
            let add = |index: &str, id: &str, n: i64| {
                let mut body = by(n);
                (body["_index"], body["_id"]) = (index.into(), id.into());
                json!({ "update": body })
            };
            let body = json!({"operations": [add("left", "0", -1), add("right", "1", 1)]});
            served.shut_in_between(&body, &shut);
            // Leases begin and end meanwhile.
            let lock = served.ok("POST", "/_lock", &json!({"targets": [{"name": "other"}]}))["id"].clone();
            served.ok("DELETE", &format!("/_lock/{}", lock.as_str().unwrap()), &Value::Null);
            served.ok(open.0, open.1, &open.2);
            let settled = served.get("/right/_doc/1?read_level=settled");
            assert_eq!(settled["_source"]["n"], before + 1, "{}: all of it happened", shut.1);
            assert_eq!(served.sum("/left,right/_search?read_level=settled").0, 200);
            served.transfer();
        }
    });
}

/// A change takes another branch than the one that it was made ready for, which writes other lock documents, and more.
#[test]
fn contract_04_and_29_another_branch_takes_more_locks() {
    for portable in [false, true] {
        with_server_by(portable, |served| {
            served.ok("PUT", "/locks", &json!({"settings": {"index.pleach.lock_index": true}}));
            let at = DocAddress {
                index: IndexName::new("other"),
                id: DocId::plain("2"),
            };
            let gone = Write::new(at, WriteOp::Delete);
            let take = |id: &str| json!({"create": {"_index": "locks", "_id": id, "doc": {"process_id": 7}}});
            let body = json!({"if": [{"index": "other", "id": "2", "exists": true}],
                "operations": [take("one")], "else": [take("two"), take("three"), take("four")]});
            *served.engine.before_exclusive.lock().unwrap() = Some(gone);
            let done = served.ok("POST", "/_transaction", &body);
            assert_eq!(
                (&done["branch"], done["items"].as_array().map(Vec::len)),
                (&json!("else"), Some(3)),
                "{done}"
            );
            let held = served.get("/_lock")["locks"].clone();
            assert_eq!(held.as_array().map(Vec::len), Some(3), "{held}");
            assert_eq!(served.get("/locks/_doc/three")["_source"]["process_id"], 7);
            // And the other way round.
            let there = Write::new(
                DocAddress {
                    index: IndexName::new("other"),
                    id: DocId::plain("2"),
                },
                WriteOp::Put(Source::from_value(&json!({"n": 1}))),
            );
            *served.engine.before_exclusive.lock().unwrap() = Some(there);
            let leave = |id: &str| json!({"delete": {"_index": "locks", "_id": id}});
            let body = json!({"if": [{"index": "other", "id": "2", "exists": true}],
                "operations": [leave("two"), leave("three"), take("five"), take("six")], "else": [leave("four")]});
            let done = served.ok("POST", "/_transaction", &body);
            assert_eq!(
                (done.get("branch"), done["items"].as_array().map(Vec::len)),
                (None, Some(4)),
                "{done}"
            );
            let held = served.get("/_lock")["locks"].clone();
            assert_eq!(held.as_array().map(Vec::len), Some(3), "{held}");
        });
    }
}
