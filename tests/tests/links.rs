//! Link policies over HTTP: under many clients at once, under kills, beside locks. `PLEACH_LINK_KILLS` says how many kills (4).
//!
//! Not here: what a copy is (`scenarios/links`), random writes beside a fold (`relations/tests/link_model.rs`).

use serde_json::{Value, json};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tests::Server;

const POSTS: u64 = 20;
/// Checkpoints come by themselves several times a run.
const FREQUENT: &[&str] = &["log.checkpoint_ops=60", "log.checkpoint_bytes=64kb"];

/// user → post → comment, with a source and documents that refer to it.
fn make(server: &Server, mode: &str) {
    let keyword = json!({ "type": "keyword" });
    for (index, properties) in [
        ("user", json!({ "name": keyword })),
        (
            "post",
            json!({ "user": { "properties": { "id": keyword, "name": keyword } } }),
        ),
        (
            "comment",
            json!({ "post_id": keyword, "post": { "properties": { "user": { "properties": { "name": keyword } } } } }),
        ),
    ] {
        server.ok(
            "PUT",
            &format!("/{index}"),
            &json!({ "mappings": { "properties": properties } }),
        );
    }
    put_policy(
        server,
        "author",
        json!({ "index": "user", "fields": ["name"] }),
        json!({ "index": "post", "on": { "user.id": "_id" }, "into": "user" }),
        mode,
    );
    put_policy(
        server,
        "comments",
        json!({ "index": "post", "fields": ["user.name"] }),
        json!({ "index": "comment", "on": { "post_id": "_id" }, "into": "post" }),
        mode,
    );
    server.ok("PUT", "/user/_doc/1", &json!({ "name": "0" }));
    for n in 0..POSTS {
        server.ok("PUT", &format!("/post/_doc/{n}"), &json!({ "user": { "id": "1" } }));
        server.ok("PUT", &format!("/comment/_doc/{n}"), &json!({ "post_id": n.to_string() }));
    }
    server.ok("POST", "/_refresh", &Value::Null);
}

fn put_policy(server: &Server, name: &str, source: Value, target: Value, mode: &str) {
    let body = json!({ "source": source, "target": target, "mode": mode });
    server.ok("PUT", &format!("/_link/policy/{name}"), &body);
}

/// Every copy is as its source.
fn check(server: &Server, say: &str) {
    for policy in ["author", "comments"] {
        let checked = server.ok("GET", &format!("/_link/policy/{policy}/_check"), &Value::Null);
        assert_eq!(checked["different"], 0, "{say}: {policy}: {checked}");
        assert!(checked["copies"].as_u64() >= Some(POSTS), "{say}: {policy}: {checked}");
    }
}

/// Waits until no copy is still to follow.
fn follow(server: &Server, say: &str) {
    for _ in 0..2_000 {
        let pending = |policy: &str| server.ok("GET", &format!("/_link/policy/{policy}/_stats"), &Value::Null)["pending"].clone();
        if pending("author") == 0 && pending("comments") == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{say}: copies do not follow");
}

/// One search over sources and copies shows one name, whatever runs beside it.
#[test]
fn no_reader_sees_a_new_name_beside_an_old_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start_with(&folder.path().join("data"), &["es8"], FREQUENT);
    make(&server, "sync");
    let over = AtomicBool::new(false);
    let searches = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let body = json!({
                    "size": 0, "aggs": {
                        "user": { "terms": { "field": "name" } }, "post": { "terms": { "field": "user.name" } },
                        "comment": { "terms": { "field": "post.user.name" } },
                    },
                });
                while !over.load(Ordering::Relaxed) {
                    let found = server.ok("POST", "/user,post,comment/_search", &body);
                    let of = |name: &str| found["aggregations"][name]["buckets"].clone();
                    let name = of("user")[0]["key"].clone();
                    for (index, count) in [("user", 1), ("post", POSTS), ("comment", POSTS)] {
                        assert_eq!(of(index), json!([{ "key": name, "doc_count": count }]), "{index} in {found}");
                    }
                    searches.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 1..60 {
            let path = if n % 3 == 0 {
                "/user/_doc/1?refresh=true"
            } else {
                "/user/_doc/1"
            };
            server.ok("PUT", path, &json!({ "name": n.to_string() }));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(searches.load(Ordering::Relaxed) > 5, "readers ran beside the renames");
    check(&server, "in the end");
}

/// References that come while a source is renamed have the new name, or are renamed with it.
#[test]
fn references_that_come_meanwhile_are_found() {
    for mode in ["sync", "async"] {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start_with(&folder.path().join("data"), &["es8"], FREQUENT);
        make(&server, mode);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let server = &server;
                scope.spawn(move || {
                    for n in 0..40 {
                        let path = format!("/post/_doc/{thread}-{}", n % 15);
                        if n % 7 == 6 {
                            server.call("DELETE", &path, &Value::Null);
                        } else {
                            server.ok("PUT", &path, &json!({ "user": { "id": "1" }, "n": n }));
                        }
                    }
                });
            }
            for n in 1..40 {
                let rename = server.call("PUT", "/user/_doc/1", &json!({ "name": n.to_string() }));
                assert_eq!(rename.status, 200, "{mode}: {rename:?}");
            }
        });
        follow(&server, mode);
        check(&server, mode);
    }
}

/// The server is killed under renames: all of a change is there or nothing, and what was to follow follows.
#[test]
fn kills_leave_every_copy_as_its_source() {
    let kills = std::env::var("PLEACH_LINK_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(4_u64);
    for mode in ["sync", "async"] {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let mut server = Server::start_with(&data, &["es8"], FREQUENT);
        make(&server, mode);
        let acknowledged = AtomicU64::new(0);
        for round in 0..kills {
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        let next = acknowledged.load(Ordering::Relaxed) + 1;
                        let body = json!({ "name": next.to_string() }).to_string();
                        match server.send("PUT", "/user/_doc/1", &body) {
                            Ok(answer) if answer.status == 200 => acknowledged.store(next, Ordering::Relaxed),
                            Ok(answer) if !over.load(Ordering::Relaxed) => panic!("{answer:?}"),
                            _ => return,
                        }
                    }
                });
                std::thread::sleep(Duration::from_millis(100 + RandomState::new().hash_one(round) % 300));
                server.signal(libc::SIGKILL);
                over.store(true, Ordering::Relaxed);
            });
            drop(server);
            server = Server::start_with(&data, &["es8"], FREQUENT);
            let say = format!("{mode}, kill {round}");
            if mode == "async" {
                follow(&server, &say);
            }
            check(&server, &say);
            let name = server.ok("GET", "/user/_doc/1", &Value::Null)["_source"]["name"].clone();
            let name: u64 = name.as_str().and_then(|name| name.parse().ok()).unwrap_or(0);
            let known = acknowledged.load(Ordering::Relaxed);
            assert!(
                name == known || name == known + 1,
                "{say}: [{name}] is there, [{known}] was acknowledged"
            );
            acknowledged.store(name, Ordering::Relaxed);
        }
        assert!(acknowledged.load(Ordering::Relaxed) > 0, "{mode}: nothing was ever renamed");
    }
}

/// Locks of others on a document that would follow refuse a change, or hold its copy back.
#[test]
fn locks_of_others_are_respected() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    make(&server, "sync");
    server.ok("PUT", "/post/_settings", &json!({ "index.pleach.locks": "enforced" }));
    let lock = |index: &str, id: &str| {
        let lock = server.ok(
            "POST",
            "/_lock",
            &json!({ "targets": [{ "index": index, "id": id }], "keep_alive": "5m" }),
        );
        lock["id"].as_str().unwrap_or_default().to_owned()
    };
    let rename = |name: &str, query: &str| server.call("PUT", &format!("/user/_doc/1{query}"), &json!({ "name": name }));
    let name = |path: &str| server.ok("GET", path, &Value::Null)["_source"].clone();
    let held = lock("post", "3");
    let refused = rename("x", "");
    assert_eq!(
        (refused.status, &refused.body["error"]["type"]),
        (409, &json!("lock_conflict_exception")),
        "{refused:?}"
    );
    assert_eq!(name("/user/_doc/1")["name"], "0", "nothing was changed");
    // Its own lock is in nobody's way.
    let own = lock("user", "1");
    assert_eq!(rename("y", &format!("?lock={own},{held}")).status, 200);
    assert_eq!(name("/comment/_doc/3")["post"]["user"]["name"], "y");
    server.ok("DELETE", &format!("/_lock/{own}"), &Value::Null);
    // In mode async the change is made, and the copy follows when the lock is gone.
    server.ok("DELETE", "/_link/policy/author", &Value::Null);
    put_policy(
        &server,
        "author",
        json!({ "index": "user", "fields": ["name"] }),
        json!({ "index": "post", "on": { "user.id": "_id" }, "into": "user" }),
        "async",
    );
    let done = rename("z", "?propagate=wait_for");
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(
        done.body["links"][0]["failure"]["type"], "lock_conflict_exception",
        "{done:?}"
    );
    assert_eq!(name("/post/_doc/4")["user"]["name"], "z", "the others are done");
    assert_eq!(name("/post/_doc/3")["user"]["name"], "y");
    let stats = server.ok("GET", "/_link/policy/author/_stats", &Value::Null);
    assert_eq!((&stats["pending"], &stats["failed"]), (&json!(1), &json!(1)), "{stats}");
    server.ok("DELETE", &format!("/_lock/{held}"), &Value::Null);
    follow(&server, "the lock is gone");
    check(&server, "the lock is gone");
}
