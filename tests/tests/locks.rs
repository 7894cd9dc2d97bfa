//! Locks beside what takes long: a server that is stopped, scripts that run for seconds, a server that ends.
//!
//! `PLEACH_TEST_STOPS` (4) is the number of pauses of the server. What bystanders of a large change wait is measured by
//!
//! ```text
//! PLEACH_TEST_BINARY=target/release/pleach PLEACH_TEST_OPERATIONS=900 PLEACH_TEST_TURNS=20000 PLEACH_TEST_WAIT_MAX_MS=50 \
//!     cargo test -p tests --test locks bystanders -- --nocapture
//! ```
//! Not here: what one client sees (`scenarios/changes`), clients
//! that are stopped (`fencing.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tests::{Answer, Server};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn server() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    (folder, server)
}

fn lock(server: &Server, keep_alive: &str, id: &str) -> String {
    let ask = json!({ "keep_alive": keep_alive, "targets": [{ "index": "i", "id": id }] });
    server.ok("POST", "/_lock", &ask)["id"].as_str().unwrap().to_owned()
}

/// What a lock is said to be, by each way of asking.
fn ways(server: &Server, lock: &str, id: &str) -> [(&'static str, Answer); 5] {
    let write = |path: &str, body: Value| server.call("PUT", &format!("/i/_doc/{id}{path}?lock={lock}"), &body);
    let change = json!({ "lock": lock, "operations": [{ "index": { "_index": "i", "_id": id, "doc": {} } }] });
    [
        ("write", write("", json!({}))),
        ("change", server.call("POST", "/_transaction", &change)),
        ("search", server.call("GET", &format!("/i/_search?lock={lock}"), &Value::Null)),
        ("get", server.call("GET", &format!("/_lock/{lock}"), &Value::Null)),
        ("renew", server.call("POST", &format!("/_lock/{lock}/_renew"), &Value::Null)),
    ]
}

fn stop(server: &Server, pause: Duration, meanwhile: impl FnOnce()) {
    server.signal(libc::SIGSTOP);
    meanwhile();
    std::thread::sleep(pause);
    server.signal(libc::SIGCONT);
}

/// A pause of more than half of a keep alive gives all of it again: whoever asks first after it, and in whichever way, is
/// told that the lock is held. What was over before the pause stays over.
#[test]
fn contract_23_a_stopped_server_decides_once() {
    let (_folder, server) = server();
    server.ok("PUT", "/i", &json!({ "settings": { "index.pleach.locks": "enforced" } }));
    for round in 0..from_environment("PLEACH_TEST_STOPS", 4) {
        let id = round.to_string();
        let (alive, over) = (lock(&server, "1s", &id), lock(&server, "1s", &format!("over-{id}")));
        let over_before = format!("/_lock/{over}/_renew");
        // The first is renewed until the pause, the other is not.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1250) {
            server.ok("POST", &format!("/_lock/{alive}/_renew"), &Value::Null);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(server.call("POST", &over_before, &Value::Null).status, 409);
        let first = std::thread::scope(|scope| {
            let mut first = Vec::new();
            stop(&server, Duration::from_millis(1400), || {
                // They wait in the sockets, and are the first that is done after the pause.
                for way in 0..4 {
                    let (server, alive, id) = (&server, &alive, &id);
                    // Each second time only writes, which look at the lock in their decision alone.
                    let way = if round % 2 == 0 { 0 } else { way };
                    first.push(scope.spawn(move || match way {
                        0 => server.call("PUT", &format!("/i/_doc/{id}?lock={alive}"), &json!({})),
                        1 => server.call("GET", &format!("/_lock/{alive}"), &Value::Null),
                        2 => server.call("GET", &format!("/i/_search?lock={alive}"), &Value::Null),
                        _ => server.call("POST", &format!("/_lock/{alive}/_renew"), &Value::Null),
                    }));
                }
                std::thread::sleep(Duration::from_millis(50));
            });
            first.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
        });
        for (way, answer) in first.into_iter().enumerate() {
            assert!(answer.status < 300, "round {round}, way {way}: {answer:?}");
        }
        for (way, answer) in ways(&server, &alive, &id) {
            assert!(answer.status < 300, "round {round}, {way}: {answer:?}");
        }
        for (way, answer) in ways(&server, &over, &format!("over-{id}")) {
            let kind = &answer.body["error"]["type"];
            assert_eq!(
                (answer.status, kind),
                (409, &json!("lock_expired_exception")),
                "round {round}, {way}"
            );
        }
        server.ok("DELETE", &format!("/_lock/{alive}"), &Value::Null);
    }
}

/// A pause of less than half of a keep alive gives nothing: what is over by then is over for everybody who asks.
#[test]
fn contract_23_a_short_pause_gives_nothing() {
    let (_folder, server) = server();
    server.ok("PUT", "/i", &json!({}));
    for round in 0..from_environment("PLEACH_TEST_STOPS", 4).min(2) {
        let id = round.to_string();
        let lock = lock(&server, "4s", &id);
        std::thread::sleep(Duration::from_millis(3000));
        stop(&server, Duration::from_millis(1200), || {});
        for (way, answer) in ways(&server, &lock, &id) {
            let kind = &answer.body["error"]["type"];
            assert_eq!(
                (answer.status, kind),
                (409, &json!("lock_expired_exception")),
                "round {round}, {way}"
            );
        }
    }
}

/// What was told of the end of a lease stays so: a server that is killed right after it has said for the first time that a lock
/// is over says so after its start too, however the lock was asked for.
#[test]
fn contract_23_an_end_that_was_told_survives_a_kill() {
    let (folder, mut server) = server();
    server.ok("PUT", "/i", &json!({ "settings": { "index.pleach.locks": "enforced" } }));
    for round in 0..from_environment("PLEACH_TEST_KILLS", 8) {
        let id = round.to_string();
        let lock = lock(&server, "1s", &id);
        let get = format!("/_lock/{lock}");
        let change = json!({ "lock": lock, "operations": [{ "index": { "_index": "i", "_id": id, "doc": {} } }] });
        let docs = json!({ "docs": [{ "_index": "i", "_id": id }] });
        std::thread::sleep(Duration::from_millis(900));
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let line = json!({ "index": { "_index": "i", "_id": id, "lock": lock } });
            let text = match round % 4 {
                0 => server.call("GET", &get, &Value::Null).text,
                1 => server.call("POST", "/_transaction", &change).text,
                // The answer is a success, of which one part is refused.
                2 => server.send("POST", "/_bulk", &format!("{line}\n{{}}\n")).unwrap().text,
                _ => server.call("POST", &format!("/_mget?lock={lock}"), &docs).text,
            };
            if text.contains("lock_expired_exception") {
                break;
            }
            assert!(Instant::now() < deadline, "round {round}: {text}");
        }
        server.signal(libc::SIGKILL);
        server.wait(Duration::from_secs(10)).unwrap();
        server = Server::start(&folder.path().join("data"), &["es8"]);
        for (way, answer) in ways(&server, &lock, &id) {
            let kind = &answer.body["error"]["type"];
            assert_eq!(
                (answer.status, kind),
                (409, &json!("lock_expired_exception")),
                "round {round}, {way}"
            );
        }
    }
}

/// A script of so many turns. The document counts how often it ran for good.
fn counting(turns: u64) -> Value {
    json!({ "source": format!("int x = 0; for (int i = 0; i < {turns}; i++) {{ x += i }} ctx._source.n += 1") })
}

/// Beside a change whose scripts run for seconds others list, renew, read, write and lock as if it were not there.
#[test]
fn contract_05_scripts_of_a_change_hold_nobody_up() {
    const DOCUMENTS: u64 = 100;
    let (_folder, server) = server();
    let bulk: String = (0..DOCUMENTS)
        .map(|n| format!("{{\"index\":{{\"_index\":\"slow\",\"_id\":\"{n}\"}}}}\n{{\"n\":0}}\n"))
        .collect();
    server.ok("PUT", "/quick/_doc/1", &json!({}));
    let loaded = server.send("POST", "/_bulk?refresh=true", &bulk).unwrap();
    assert_eq!(loaded.body["errors"], false, "{loaded:?}");
    // As many turns as one document needs for about 40 ms, whatever build and machine.
    const TRIALS: u64 = 3;
    let turns = 20_000;
    let trial = |_| {
        let begun = Instant::now();
        server.ok("POST", "/slow/_update/0", &json!({ "script": counting(turns) }));
        begun.elapsed().as_millis() as u64
    };
    let took = (0..TRIALS).map(trial).min().unwrap().max(1);
    let turns = (turns * 40 / took).clamp(2_000, 90_000);
    let update = |n: u64| json!({ "update": { "_index": "slow", "_id": n.to_string(), "script": counting(turns) } });
    let operations: Vec<Value> = (0..DOCUMENTS).map(update).collect();
    let renewed: Vec<String> = (0..4).map(|n| lock(&server, "1m", &format!("r{n}"))).collect();
    let done = AtomicBool::new(false);
    let mut waited: Vec<(String, Duration, u64)> = Vec::new();
    let change = std::thread::scope(|scope| {
        let change = scope.spawn(|| {
            let begun = Instant::now();
            let answer = server.call("POST", "/_transaction", &json!({ "operations": operations }));
            done.store(true, Ordering::Release);
            assert_eq!(answer.body["committed"], true, "{answer:?}");
            begun.elapsed()
        });
        let mut others: Vec<(String, &str, String, Value)> = vec![
            ("root".into(), "GET", "/".into(), Value::Null),
            ("list".into(), "GET", "/_lock".into(), Value::Null),
            ("read".into(), "GET", "/slow/_doc/1".into(), Value::Null),
            ("write".into(), "PUT", "/quick/_doc/1".into(), json!({})),
            (
                "update".into(),
                "POST",
                "/quick/_update/1".into(),
                json!({ "doc": { "a": 1 } }),
            ),
        ];
        for id in &renewed {
            others.push(("renew".into(), "POST", format!("/_lock/{id}/_renew"), Value::Null));
        }
        let bystanders: Vec<_> = others
            .into_iter()
            .map(|(name, method, path, body)| {
                let (server, done) = (&server, &done);
                scope.spawn(move || {
                    let (mut longest, mut count) = (Duration::ZERO, 0);
                    while !done.load(Ordering::Acquire) {
                        let begun = Instant::now();
                        let answer = server.call(method, &path, &body);
                        assert!(answer.status < 300, "{method} {path}: {answer:?}");
                        longest = longest.max(begun.elapsed());
                        count += 1;
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    (name, longest, count)
                })
            })
            .collect();
        let grants = scope.spawn(|| {
            let (mut longest, mut count) = (Duration::ZERO, 0);
            while !done.load(Ordering::Acquire) {
                let begun = Instant::now();
                let id = lock(&server, "1m", "g");
                server.ok("DELETE", &format!("/_lock/{id}"), &Value::Null);
                longest = longest.max(begun.elapsed());
                count += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            ("grant".to_owned(), longest, count)
        });
        waited.extend(bystanders.into_iter().map(|one| one.join().unwrap()));
        waited.push(grants.join().unwrap());
        change.join().unwrap()
    });
    eprintln!("a change of {change:?} beside {waited:?}");
    assert!(
        change > Duration::from_millis(800),
        "it took too short a time to show anything: {change:?}"
    );
    for (name, longest, count) in &waited {
        assert!(
            *longest < change / 2,
            "[{name}] waited {longest:?} for a change of {change:?}"
        );
        assert!(*count > 3, "[{name}] was done {count} times beside a change of {change:?}");
    }
    let sum = json!({ "size": 0, "aggs": { "n": { "sum": { "field": "n" } } } });
    server.ok("POST", "/slow/_refresh", &Value::Null);
    let found = server.ok("POST", "/slow/_search", &sum);
    assert_eq!(
        found["aggregations"]["n"]["value"].as_f64(),
        Some((DOCUMENTS + TRIALS) as f64)
    );
}

/// The longest that each kind of request took, beside a change or without it.
fn longest_of(
    server: &Server,
    requests: &[(&'static str, &'static str, String)],
    until: &AtomicBool,
) -> Vec<(&'static str, Vec<Duration>)> {
    std::thread::scope(|scope| {
        let running: Vec<_> = requests
            .iter()
            .map(|(name, method, path)| {
                scope.spawn(move || {
                    let mut took = Vec::new();
                    while !until.load(Ordering::Acquire) {
                        let begun = Instant::now();
                        let answer = server.call(method, path, &Value::Null);
                        took.push(begun.elapsed());
                        assert!(answer.status < 300, "{method} {path}: {answer:?}");
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    took.sort_unstable();
                    (*name, took)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Bystanders of one change of many updates, of long and of short scripts: how long a list of locks, a renewal and plain reads
/// take. Small here; the head of this file says how it is measured.
#[test]
fn contract_05_bystanders_of_a_large_change() {
    let operations = from_environment("PLEACH_TEST_OPERATIONS", 90);
    let max = std::env::var("PLEACH_TEST_WAIT_MAX_MS")
        .ok()
        .and_then(|text| text.parse().ok());
    let (_folder, server) = server();
    let bulk: String = (0..operations)
        .map(|n| format!("{{\"index\":{{\"_index\":\"slow\",\"_id\":\"{n}\"}}}}\n{{\"n\":0}}\n"))
        .collect();
    let loaded = server.send("POST", "/_bulk?refresh=true", &bulk).unwrap();
    assert_eq!(loaded.body["errors"], false, "{loaded:?}");
    server.ok("PUT", "/quick/_doc/1", &json!({}));
    let held = lock(&server, "1m", "held");
    let requests = [
        ("list", "GET", "/_lock".to_owned()),
        ("renew", "POST", format!("/_lock/{held}/_renew")),
        ("read", "GET", "/quick/_doc/1".to_owned()),
        ("read of the same", "GET", "/slow/_doc/1".to_owned()),
        ("root", "GET", "/".to_owned()),
    ];
    let quiet = {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let measured = scope.spawn(|| longest_of(&server, &requests, &over));
            std::thread::sleep(Duration::from_millis(500));
            over.store(true, Ordering::Release);
            measured.join().unwrap()
        })
    };
    for turns in [1, from_environment("PLEACH_TEST_TURNS", 10_000)] {
        let update = |n: u64| json!({ "update": { "_index": "slow", "_id": n.to_string(), "script": counting(turns) } });
        let change = json!({ "operations": (0..operations).map(update).collect::<Vec<Value>>() });
        let over = AtomicBool::new(false);
        let (took, beside) = std::thread::scope(|scope| {
            let measured = scope.spawn(|| longest_of(&server, &requests, &over));
            std::thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            let answer = server.call("POST", "/_transaction", &change);
            let took = begun.elapsed();
            over.store(true, Ordering::Release);
            assert_eq!(answer.body["committed"], true, "{answer:?}");
            (took, measured.join().unwrap())
        });
        println!("{operations} updates of {turns} turns took {took:?}");
        for ((name, alone), (_, beside)) in quiet.iter().zip(&beside) {
            let last =
                |all: &[Duration], part: usize| all.get((all.len() * part / 100).min(all.len().saturating_sub(1))).copied();
            println!(
                "  {name}: alone at most {:?}; beside it {} times, p50 {:?}, p99 {:?}, at most {:?}",
                last(alone, 100),
                beside.len(),
                last(beside, 50),
                last(beside, 99),
                last(beside, 100)
            );
            let longest = last(beside, 100).unwrap_or_default();
            // Several changes at once share the processors of a test run: what blocks would last as long as the change.
            let bound = max.map_or(took / 2 + Duration::from_millis(500), Duration::from_millis);
            assert!(longest < bound, "[{name}] waited {longest:?} beside a change of {took:?}");
        }
    }
}

/// Scripts that are too long for the critical section, on the same two counters, beside plain updates of them: each counts
/// once, and nobody is refused.
#[test]
fn contract_01_and_05_long_scripts_on_the_same_documents() {
    const CLIENTS: u64 = 4;
    const CHANGES: u64 = 6;
    let (_folder, server) = server();
    for index in ["a", "b"] {
        server.ok("PUT", &format!("/{index}/_doc/1"), &json!({ "n": 0 }));
    }
    let done = AtomicBool::new(false);
    let plain = std::thread::scope(|scope| {
        let plain = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Acquire) {
                server.ok("POST", "/a/_update/1", &json!({ "script": "ctx._source.n += 1" }));
                count += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            count
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let update = |index: &str| json!({ "update": { "_index": index, "_id": "1", "script": counting(2_000) } });
                    for _ in 0..CHANGES {
                        let change = json!({ "operations": [update("a"), update("b"), update("a")] });
                        let answer = server.call("POST", "/_transaction", &change);
                        assert_eq!((answer.status, &answer.body["committed"]), (200, &json!(true)), "{answer:?}");
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        done.store(true, Ordering::Release);
        plain.join().unwrap()
    });
    let n = |index: &str| server.ok("GET", &format!("/{index}/_doc/1"), &Value::Null)["_source"]["n"].as_u64();
    assert_eq!(n("b"), Some(CLIENTS * CHANGES));
    assert_eq!(n("a"), Some(CLIENTS * CHANGES * 2 + plain));
}

/// Whoever waits for a lock when the server is told to stop is answered 503, not cut off.
#[test]
fn contract_22_waiters_are_told_that_the_server_stops() {
    let (_folder, mut server) = server();
    lock(&server, "1m", "1");
    let target = json!([{ "index": "i", "id": "1" }]);
    let change = json!({ "locks": target, "operations": [{ "index": { "_index": "i", "_id": "1", "doc": {} } }] });
    let answers = std::thread::scope(|scope| {
        let waiters = [
            ("/_lock?timeout=50s", json!({ "targets": target })),
            ("/_transaction?timeout=50s", change),
        ];
        let waiters: Vec<_> = waiters
            .into_iter()
            .map(|(path, body)| {
                let address = server.address("").to_owned();
                scope.spawn(move || tests::send(&address, "POST", path, &[], body.to_string().as_bytes()))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(600));
        server.signal(libc::SIGTERM);
        waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect::<Vec<_>>()
    });
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        let reason = answer.body["error"]["reason"].as_str().unwrap();
        assert!(reason.contains("the server stops"), "{reason}");
    }
    let ended = server.wait(Duration::from_secs(10)).unwrap();
    assert!(ended.success(), "{ended:?}");
}
