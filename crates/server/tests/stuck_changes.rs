//! Changes by the portable path that the engine refuses after their commit: seen, tried again, skipped; nobody waits for ever.
//!
//! Not here: an index that is closed or blocked for a while (`read_levels`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fixtures;
mod stopping_engine;

use disk::FaultyDisk;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use stopping_engine::{Served, started, with_server};

fn at(index: &str, id: &str) -> DocAddress {
    DocAddress {
        index: IndexName::new(index),
        id: DocId::plain(id),
    }
}

/// From here on the engine refuses what a change makes of this document.
fn refuse(served: &Served, index: &str, id: &str) {
    let error = Error::new(ErrorKind::MapperParsing, "the mapping was made strict");
    *served.engine.refuses.lock().unwrap() = Some((at(index, id), error));
}
fn allow(served: &Served) {
    *served.engine.refuses.lock().unwrap() = None;
}

fn add(index: &str, id: &str, by: i64) -> Value {
    json!({"update": {"_index": index, "_id": id, "script": {"source": "ctx._source.n += params.by", "params": {"by": by}}}})
}
fn n(served: &Served, path: &str) -> i64 {
    served.get(path)["_source"]["n"].as_i64().unwrap()
}
fn cat(served: &Served) -> Vec<Value> {
    served.get("/_cat/transactions?format=json").as_array().unwrap().clone()
}

/// The documents that are changed, and nothing else that makes the health yellow.
fn set_up(served: &Served) {
    for (index, id) in [("left", "0"), ("right", "1"), ("other", "2")] {
        served.ok("PUT", &format!("/{index}/_doc/{id}"), &json!({"n": 100}));
    }
    served.ok("PUT", "/_all/_settings", &json!({"index.number_of_replicas": 0}));
}

/// A change that moves 1 from left/0 to right/1 and is refused at the latter; its name.
fn stuck(served: &Served, query: &str, more: &Value) -> String {
    refuse(served, "right", "1");
    let mut body = json!({"operations": [add("left", "0", -1), add("right", "1", 1)]});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    let (status, answer) = served.send("POST", &format!("/_transaction{query}"), &body);
    assert_eq!((status, &answer["error"]["outcome"]), (503, &json!("unknown")), "{answer}");
    let id = answer["error"]["transaction"].as_str().unwrap().to_owned();
    let began = Instant::now();
    while served.get("/_cluster/health")["status"] != "yellow" {
        assert!(began.elapsed() < Duration::from_secs(5), "it is known to be stuck");
        std::thread::sleep(Duration::from_millis(10));
    }
    id
}

fn is_seen(served: &Served, id: &str) {
    let seen = served.get(&format!("/_transaction/{id}"));
    assert_eq!(
        (&seen["state"], &seen["finisher"]),
        (&json!("stuck"), &json!("operator")),
        "{seen}"
    );
    assert!(seen["commit_seq"].as_u64().is_some(), "{seen}");
    let refused = &seen["refused"];
    assert_eq!(refused.as_array().map(Vec::len), Some(1), "{seen}");
    assert_eq!(
        (&refused[0]["_index"], &refused[0]["_id"], &refused[0]["error"]["type"]),
        (&json!("right"), &json!("1"), &json!("mapper_parsing_exception")),
        "{seen}"
    );
    let rows = cat(served);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["id"], &rows[0]["state"]), (&json!(id), &json!("stuck")));
    assert!(rows[0]["reason"].as_str().unwrap().contains("made strict"), "{rows:?}");
}

fn resolve(served: &Served, id: &str, action: &str) -> Value {
    served.ok("POST", &format!("/_transaction/{id}/_resolve"), &json!({ "action": action }))
}

fn is_over(served: &Served, id: &str) {
    assert_eq!(served.get(&format!("/_transaction/{id}"))["state"], "done");
    assert_eq!(cat(served), Vec::<Value>::new());
    let began = Instant::now();
    served.transfer();
    assert_eq!(served.sum("/left,right/_search?read_level=snapshot").1, Value::Null);
    let lock = served.ok("POST", "/_lock", &json!({"targets": [{"index": "right"}]}))["id"].clone();
    served.ok("DELETE", &format!("/_lock/{}", lock.as_str().unwrap()), &Value::Null);
    let held = served.ok("POST", "/_transaction/_begin", &Value::Null)["id"].clone();
    served.ok(
        "POST",
        &format!("/_transaction/{}/_abort", held.as_str().unwrap()),
        &Value::Null,
    );
    assert!(began.elapsed() < Duration::from_secs(5), "nobody waits any more");
}

/// Tried again in vain as long as the reason lasts, then done; what it did not refuse was done at once.
#[test]
fn contract_35_what_is_stuck_is_seen_and_tried_again() {
    with_server(|served| {
        set_up(served);
        let id = stuck(served, "?idempotency_key=k", &Value::Null);
        is_seen(served, &id);
        assert_eq!((n(served, "/left/_doc/0"), n(served, "/right/_doc/1")), (99, 100));
        let read = served.get("/right/_doc/1");
        assert_eq!(
            read["_changes"]["in_flight"],
            json!([id]),
            "a plain read says what it shows half of"
        );
        // Nothing half done is told as whole.
        for (method, path, body) in [
            ("GET", "/right/_doc/1?read_level=settled", Value::Null),
            ("GET", "/right/_search?read_level=snapshot", Value::Null),
            ("POST", "/_transaction/_begin", Value::Null),
            (
                "POST",
                "/_transaction?idempotency_key=k",
                json!({"operations": [add("left", "0", -1), add("right", "1", 1)]}),
            ),
        ] {
            let began = Instant::now();
            let (status, answer) = served.send(method, path, &body);
            assert_eq!(
                (status, &answer["error"]["transaction"]),
                (503, &json!(id)),
                "{path}: {answer}"
            );
            assert!(began.elapsed() < Duration::from_secs(5), "{path}: it says so at once");
        }
        let (status, answer) = served.send("POST", "/_lock", &json!({"targets": [{"index": "right"}]}));
        assert_eq!((status, &answer["error"]["transaction"]), (409, &json!(id)), "{answer}");
        // What it does not write is free, and so is what it has written.
        served.ok("PUT", "/other/_doc/2", &json!({"n": 1}));
        served.ok("POST", "/_transaction", &json!({"operations": [add("left", "0", 0)]}));
        let again = resolve(served, &id, "retry");
        assert_eq!(
            (&again["stuck"], &again["resolved"]),
            (&json!(true), &json!(false)),
            "{again}"
        );
        is_seen(served, &id);
        allow(served);
        let done = resolve(served, &id, "retry");
        assert_eq!(
            (&done["stuck"], &done["resolved"], &done["state"]),
            (&json!(false), &json!(true), &json!("done")),
            "{done}"
        );
        assert_eq!((n(served, "/left/_doc/0"), n(served, "/right/_doc/1")), (99, 101));
        let told = served.ok(
            "POST",
            "/_transaction?idempotency_key=k",
            &json!({"operations": [add("left", "0", -1), add("right", "1", 1)]}),
        );
        assert_eq!(
            (&told["replayed"], &told["commit_seq"]),
            (&json!(true), &done["commit_seq"]),
            "{told}"
        );
        assert_eq!(n(served, "/right/_doc/1"), 101, "once");
        is_over(served, &id);
        let over = resolve(served, &id, "skip");
        assert_eq!((&over["state"], &over["resolved"]), (&json!("done"), &json!(false)), "{over}");
    });
}

/// What is skipped is listed, stays as it was, and is free; over a restart too.
#[test]
fn contract_35_what_is_skipped_is_listed() {
    let disk = FaultyDisk::new(1);
    let mut id = String::new();
    started(&disk, true, |served| {
        set_up(served);
        id = stuck(
            served,
            "",
            &json!({"operations": [
            add("left", "0", -1), add("right", "1", 1), {"index": {"_index": "right", "_id": "new", "doc": {"n": 5}}}]}),
        );
        is_seen(served, &id);
    });
    started(&disk, true, |served| {
        refuse(served, "right", "1");
        is_seen(served, &id);
        assert_eq!(served.get("/_cluster/health")["status"], "yellow");
        assert_eq!(served.get("/right/_doc/1")["_changes"]["in_flight"], json!([id]));
        let (status, _) = served.send("POST", "/_lock", &json!({"targets": [{"index": "right", "id": "1"}]}));
        assert_eq!(status, 409, "no lock passes over what is half done");
        let skipped = resolve(served, &id, "skip");
        assert_eq!(
            (&skipped["state"], &skipped["resolved"]),
            (&json!("done"), &json!(true)),
            "{skipped}"
        );
        let list = &served.get(&format!("/_transaction/{id}"))["skipped"];
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!((&list[0]["_index"], &list[0]["_id"]), (&json!("right"), &json!("1")));
        assert_eq!(
            (
                n(served, "/left/_doc/0"),
                n(served, "/right/_doc/1"),
                n(served, "/right/_doc/new")
            ),
            (99, 100, 5)
        );
        allow(served);
        assert_eq!(n(served, "/right/_doc/1"), 100, "a later cause does not bring it back");
        is_over(served, &id);
        assert_eq!(served.get("/_cluster/health")["status"], "green");
    });
    started(&disk, true, |served| {
        assert_eq!(
            served.get(&format!("/_transaction/{id}"))["skipped"][0]["_id"],
            "1",
            "for a day"
        );
        assert_eq!(n(served, "/right/_doc/1"), 101);
    });
}

/// A write that would come to a document which a stuck change has waits, and goes on when that is resolved.
#[test]
fn contract_35_writers_of_what_is_stuck_go_on() {
    with_server(|served| {
        set_up(served);
        for action in ["retry", "skip"] {
            let before = n(served, "/right/_doc/1");
            let id = stuck(served, "", &Value::Null);
            std::thread::scope(|scope| {
                let plain = scope.spawn(|| served.send("POST", "/right/_update/1", &json!({"script": "ctx._source.n += 10"})));
                let change =
                    scope.spawn(|| served.send("POST", "/_transaction", &json!({"operations": [add("right", "1", 100)]})));
                std::thread::sleep(Duration::from_millis(300));
                assert!(
                    !plain.is_finished() && !change.is_finished(),
                    "it is not decided what they find"
                );
                if action == "retry" {
                    allow(served);
                }
                resolve(served, &id, action);
                allow(served);
                let (plain, change) = (plain.join().unwrap(), change.join().unwrap());
                assert_eq!((plain.0, change.0), (200, 200), "{} {}", plain.1, change.1);
            });
            let own = i64::from(action == "retry");
            assert_eq!(n(served, "/right/_doc/1"), before + 110 + own, "{action}");
            is_over(served, &id);
        }
    });
}

/// The lock under which it was made does not pass on before it is resolved, and keeps no other lease from its end.
#[test]
fn contract_25_and_35_a_lock_over_what_is_stuck() {
    with_server(|served| {
        set_up(served);
        let lock = |targets: Value| {
            let body = json!({"keep_alive": "1s", "targets": targets});
            served.ok("POST", "/_lock", &body)["id"].as_str().unwrap().to_owned()
        };
        let over = lock(json!([{"name": "over"}, {"index": "left", "id": "0"}, {"index": "right", "id": "1"}]));
        let other = lock(json!([{"name": "other"}]));
        let id = stuck(served, "", &json!({"lock": [over]}));
        let refused = served.send("DELETE", &format!("/_lock/{over}"), &Value::Null);
        assert_eq!(
            (refused.0, &refused.1["error"]["transaction"]),
            (409, &json!(id)),
            "{}",
            refused.1
        );
        std::thread::sleep(Duration::from_millis(1_500));
        let free = |name: &str| served.send("POST", "/_lock", &json!({"targets": [{"name": name}]})).0;
        assert_eq!(free("other"), 201, "its time was over: [{other}]");
        assert_eq!(free("over"), 409, "what was made under it is not finished");
        let (status, late) = served.send("PUT", &format!("/other/_doc/2?lock={over}"), &json!({"n": 1}));
        assert_eq!(
            (status, &late["error"]["type"]),
            (409, &json!("lock_expired_exception")),
            "{late}"
        );
        resolve(served, &id, "skip");
        allow(served);
        let began = Instant::now();
        while free("over") != 201 {
            assert!(began.elapsed() < Duration::from_secs(3), "it passes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over(served, &id);
    });
}

/// An index that is closed or blocked after the commit: seen with the reason, nobody else waits for it, and who will not wait for the
/// index skips it.
#[test]
fn contract_35_what_waits_for_an_index_is_seen_and_skipped() {
    with_server(|served| {
        set_up(served);
        let blocked = |on: bool| json!({"index.blocks.write": on});
        for (shut, open, why) in [
            (
                ("PUT", "/right/_settings", blocked(true)),
                ("PUT", "/right/_settings", blocked(false)),
                "index write (api)",
            ),
            (
                ("POST", "/right/_close", Value::Null),
                ("POST", "/right/_open", Value::Null),
                "closed",
            ),
        ] {
            let (left, right) = (n(served, "/left/_doc/0"), n(served, "/right/_doc/1"));
            let body = json!({"operations": [add("left", "0", -1), add("right", "1", 1), {"create": {"_index": "right", "_id": "new", "doc": {"n": 1}}}]});
            let told = served.shut_in_between(&body, &shut);
            let id = told["error"]["transaction"].as_str().unwrap();
            let began = Instant::now();
            let seen = loop {
                let seen = served.get(&format!("/_transaction/{id}"));
                if seen["reason"].is_string() {
                    break seen;
                }
                assert!(began.elapsed() < Duration::from_secs(5), "{seen}");
                std::thread::sleep(Duration::from_millis(10));
            };
            assert_eq!(
                (&seen["state"], &seen["finisher"]),
                (&json!("committed"), &json!("server")),
                "{seen}"
            );
            assert!(seen["reason"].as_str().unwrap().contains(why), "{seen}");
            let rows = cat(served);
            assert_eq!(
                (&rows[0]["id"], &rows[0]["reason"]),
                (&json!(id), &seen["reason"]),
                "{rows:?}"
            );
            // Whoever has nothing to do with that index is not kept.
            served.ok("POST", "/_transaction", &json!({"operations": [add("left", "0", 10)]}));
            let again = resolve(served, id, "retry");
            assert_eq!(
                (&again["resolved"], &again["state"]),
                (&json!(false), &json!("committed")),
                "{again}"
            );
            let skipped = resolve(served, id, "skip");
            assert_eq!(
                (&skipped["resolved"], &skipped["state"]),
                (&json!(true), &json!("done")),
                "{skipped}"
            );
            assert_eq!(skipped["skipped"].as_array().map(Vec::len), Some(2), "{skipped}");
            served.ok(open.0, open.1, &open.2);
            assert_eq!((n(served, "/left/_doc/0"), n(served, "/right/_doc/1")), (left + 9, right));
            assert_eq!(served.send("GET", "/right/_doc/new", &Value::Null).0, 404);
            served.ok("PUT", "/right/_create/new", &json!({"n": 1}));
            served.ok("DELETE", "/right/_doc/new", &Value::Null);
            is_over(served, id);
        }
    });
}

/// What was taken before a mapping became strict is applied all the same, and can be found.
#[test]
fn contract_08_a_mapping_that_becomes_strict_after_the_commit() {
    with_server(|served| {
        set_up(served);
        served.ok("PUT", "/right/_mapping", &json!({"dynamic": false}));
        let body = json!({"operations": [add("left", "0", -1), {"index": {"_index": "right", "_id": "1", "doc": {"n": 7, "unknown": 1}}}]});
        std::thread::scope(|scope| {
            served.engine.arm();
            let _let_go = served.engine.let_go();
            let change = scope.spawn(|| served.send("POST", "/_transaction", &body));
            served.engine.wait();
            served.ok("PUT", "/right/_mapping", &json!({"dynamic": "strict"}));
            served.engine.go_on.notify_one();
            let (status, answer) = change.join().unwrap();
            assert_eq!((status, &answer["committed"]), (200, &json!(true)), "{answer}");
        });
        served.ok("POST", "/right/_refresh", &Value::Null);
        let found = served.ok("POST", "/right/_search", &json!({"query": {"term": {"n": 7}}}));
        assert_eq!(found["hits"]["hits"][0]["_source"]["unknown"], 1, "{found}");
        // It can be compared with, and deleted: marks alter nothing.
        let here = json!({"if": [{"index": "right", "id": "1", "exists": true}], "operations": [add("left", "0", -1)]});
        served.ok("POST", "/_transaction", &here);
        let found = served.ok("POST", "/right/_search", &json!({"query": {"term": {"n": 7}}}));
        assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
        let refused = served.send(
            "POST",
            "/_transaction",
            &json!({"operations": [{"index": {"_index": "right", "_id": "3", "doc": {"unknown": 1}}}]}),
        );
        assert_eq!(
            (refused.0, &refused.1["error"]["caused_by"]["type"]),
            (400, &json!("strict_dynamic_mapping_exception")),
            "{}",
            refused.1
        );
        served.ok(
            "POST",
            "/_transaction",
            &json!({"operations": [{"delete": {"_index": "right", "_id": "1"}}]}),
        );
    });
}

/// Conditions on documents of an index that takes no writes.
#[test]
fn contract_04_conditions_on_an_index_whose_writes_are_blocked() {
    for portable in [false, true] {
        stopping_engine::with_server_by(portable, |served| {
            let at = served.get("/right/_doc/1");
            served.ok("PUT", "/right/_settings", &json!({"index.blocks.write": true}));
            let stamp = json!({"index": "right", "id": "1", "if_seq_no": at["_seq_no"], "if_primary_term": at["_primary_term"]});
            let change = |condition: &Value| {
                served.send(
                    "POST",
                    "/_transaction",
                    &json!({"if": [condition], "operations": [add("left", "0", 1)]}),
                )
            };
            for round in 0..3 {
                for condition in [
                    &stamp,
                    &json!({"index": "right", "id": "1", "exists": true}),
                    &json!({"index": "right", "id": "none", "exists": false}),
                ] {
                    let (status, answer) = change(condition);
                    assert_eq!(status, 200, "{round} {portable} {condition}: {answer}");
                }
                assert_eq!(change(&json!({"index": "right", "id": "1", "exists": false})).0, 412);
                assert_eq!(change(&json!({"index": "right", "id": "none", "exists": true})).0, 412);
            }
            assert_eq!(n(served, "/left/_doc/0"), 109);
            // What would write there is refused, whatever else it does.
            let (status, answer) = served.send(
                "POST",
                "/_transaction",
                &json!({"operations": [add("left", "0", 1), add("right", "1", 1)]}),
            );
            assert_eq!(
                (status, &answer["error"]["caused_by"]["type"]),
                (403, &json!("cluster_block_exception")),
                "{answer}"
            );
            assert_eq!(n(served, "/left/_doc/0"), 109);
            served.ok("POST", "/right/_refresh", &Value::Null);
            assert_eq!(served.ok("POST", "/right/_count", &Value::Null)["count"], 1);
            // Read by id in a transaction that is held open.
            let held = served.ok("POST", "/_transaction/_begin", &Value::Null)["id"]
                .as_str()
                .unwrap()
                .to_owned();
            served.get(&format!("/right/_doc/1?transaction={held}"));
            served.ok("PUT", &format!("/left/_doc/0?transaction={held}"), &json!({"n": 1}));
            served.ok("POST", &format!("/_transaction/{held}/_commit"), &Value::Null);
            // Opened again, written, and then the condition does not hold.
            served.ok("PUT", "/right/_settings", &json!({"index.blocks.write": false}));
            served.ok("PUT", "/right/_doc/1", &json!({"n": 2}));
            assert_eq!(change(&stamp).0, 412);
        });
    }
}
