//! Changes and locks under concurrency, kills and pauses: promises of the contract that one client cannot show.
//!
//! A test's name begins with the number of the promise. More rounds: `PLEACH_TEST_ROUNDS`.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::Server;

fn rounds(default: u64) -> u64 {
    std::env::var("PLEACH_TEST_ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(default)
}

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    (folder, server)
}

fn source(server: &Server, path: &str) -> Value {
    server.ok("GET", path, &Value::Null)["_source"].clone()
}

/// Scripted counters in two indices: every change commits, nothing is lost.
#[test]
fn contract_01_sixteen_clients_and_no_conflict() {
    let (_folder, server) = start();
    let each = rounds(15);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..each {
                    let update = |index: &str| json!({"update": {"_index": index, "_id": "n", "script": "ctx._source.n++", "upsert": {"n": 1}}});
                    server.ok("POST", "/_transaction", &json!({"operations": [update("left"), update("right")]}));
                }
            });
        }
    });
    for index in ["left", "right"] {
        assert_eq!(source(&server, &format!("/{index}/_doc/n"))["n"], 16 * each);
    }
}

/// Of many that make the same document under a condition exactly one does.
#[test]
fn contract_04_one_winner_a_race() {
    let (_folder, server) = start();
    for round in 0..rounds(10) {
        let won = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (server, won) = (&server, &won);
                scope.spawn(move || {
                    let body = json!({"if": [{"index": "race", "id": round.to_string(), "exists": false}],
                        "operations": [{"index": {"_index": "race", "_id": round.to_string(), "doc": {"by": client}}},
                                       {"update": {"_index": "sum", "_id": "wins", "script": "ctx._source.n++", "upsert": {"n": 1}}}]});
                    match server.call("POST", "/_transaction", &body).status {
                        200 => drop(won.fetch_add(1, Ordering::Relaxed)),
                        status => assert_eq!(status, 412),
                    }
                });
            }
        });
        assert_eq!(won.load(Ordering::Relaxed), 1);
        assert_eq!(source(&server, "/sum/_doc/wins")["n"], round + 1);
    }
}

const ACCOUNTS: u64 = 8;
const TOTAL: u64 = ACCOUNTS * 100;

/// Transfers with keys, the server killed at any moment, every unanswered request repeated: the total never changes,
/// every transfer has one effect, and commit numbers only grow.
#[test]
fn contract_09_and_16_transfers_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let sent: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let newest = AtomicU64::new(0);
    let pending: Mutex<Vec<(usize, String, Value)>> = Mutex::new(Vec::new());
    for round in 0..rounds(4) {
        let server = Server::start(&data, &["es8"]);
        if round == 0 {
            for account in 0..ACCOUNTS {
                server.ok(
                    "PUT",
                    &format!("/bank{}/_doc/{account}", account % 3),
                    &json!({"balance": 100}),
                );
            }
        }
        // What was not answered is repeated with its key.
        for (thread, path, body) in pending.lock().unwrap().drain(..) {
            let answer = server.ok("POST", &path, &body);
            assert_eq!(answer["committed"], true);
            sent[thread].fetch_add(1, Ordering::Relaxed);
            assert!(answer["replayed"] == true || answer["commit_seq"].as_u64() > Some(newest.load(Ordering::Relaxed)));
        }
        check_bank(&server, &sent);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (server, over, sent, pending, newest) = (&server, &over, &sent, &pending, &newest);
                scope.spawn(move || {
                    let mut n = 0_u64;
                    while !over.load(Ordering::Relaxed) {
                        n += 1;
                        let (from, to) = ((n + thread as u64) % ACCOUNTS, (n * 3 + 1) % ACCOUNTS);
                        let change = |account: u64, by: i64| {
                            json!({"update": {"_index": format!("bank{}", account % 3), "_id": account.to_string(),
                                "script": {"source": "ctx._source.balance += params.by", "params": {"by": by}}}})
                        };
                        let count = json!({"update": {"_index": "counts", "_id": thread.to_string(), "script": "ctx._source.n++", "upsert": {"n": 1}}});
                        let path = format!("/_transaction?idempotency_key=k-{round}-{thread}-{n}");
                        let body = json!({"operations": [change(from, -1), change(to, 1), count]});
                        match server.send("POST", &path, &body.to_string()) {
                            Ok(answer) if answer.status == 200 => {
                                sent[thread].fetch_add(1, Ordering::Relaxed);
                                newest.fetch_max(answer.body["commit_seq"].as_u64().unwrap(), Ordering::Relaxed);
                            }
                            Ok(answer) if !over.load(Ordering::Relaxed) => panic!("{answer:?}"),
                            _ => {
                                pending.lock().unwrap().push((thread, path, body));
                                return;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(300 + 170 * (round % 5)));
            server.signal(libc::SIGKILL);
            over.store(true, Ordering::Relaxed);
        });
    }
    let server = Server::start(&data, &["es8"]);
    for (thread, path, body) in pending.into_inner().unwrap() {
        server.ok("POST", &path, &body);
        sent[thread].fetch_add(1, Ordering::Relaxed);
    }
    check_bank(&server, &sent);
}

fn check_bank(server: &Server, sent: &[AtomicU64]) {
    let sum: i64 = (0..ACCOUNTS)
        .map(|account| {
            source(server, &format!("/bank{}/_doc/{account}", account % 3))["balance"]
                .as_i64()
                .unwrap()
        })
        .sum();
    assert_eq!(sum, TOTAL as i64, "the total never changes");
    for (thread, sent) in sent.iter().enumerate() {
        let expected = sent.load(Ordering::Relaxed);
        if expected > 0 {
            let counted = source(server, &format!("/counts/_doc/{thread}"))["n"].as_u64();
            assert_eq!(counted, Some(expected), "every transfer of {thread} has one effect");
        }
    }
}

/// Under writers that keep a sum over three indices, one of them never refreshed by time, no search sees half a change.
#[test]
fn contract_15_no_search_sees_half_a_change() {
    let (_folder, server) = start();
    let mappings = json!({"properties": {"n": {"type": "integer"}}});
    for (index, interval) in [("s0", "1s"), ("s1", "100ms"), ("s2", "-1")] {
        server.ok(
            "PUT",
            &format!("/{index}"),
            &json!({"settings": {"refresh_interval": interval}, "mappings": mappings}),
        );
        server.ok("PUT", &format!("/{index}/_doc/x?refresh=true"), &json!({"n": 100}));
    }
    let over = AtomicBool::new(false);
    let (searches, moves) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let (server, over, moves) = (&server, &over, &moves);
            scope.spawn(move || {
                let mut n = writer;
                while !over.load(Ordering::Relaxed) {
                    n += 1;
                    let add = |index: u64, by: i64| {
                        json!({"update": {"_index": format!("s{}", index % 3), "_id": "x",
                            "script": {"source": "ctx._source.n += params.by", "params": {"by": by}}}})
                    };
                    let refresh = if n % 5 == 0 { "?refresh=true" } else { "" };
                    server.ok(
                        "POST",
                        &format!("/_transaction{refresh}"),
                        &json!({"operations": [add(n, 7), add(n + 1, -7)]}),
                    );
                    moves.fetch_add(1, Ordering::Relaxed);
                    if n % 3 == 0 {
                        server.ok("POST", &format!("/s{}/_refresh", n % 3), &Value::Null);
                    }
                }
            });
        }
        for _ in 0..2 {
            let (server, over, searches) = (&server, &over, &searches);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let body = json!({"size": 3, "aggs": {"sum": {"sum": {"field": "n"}}}});
                    let found = server.ok("POST", "/s0,s1,s2/_search", &body);
                    assert_eq!(found["aggregations"]["sum"]["value"], 300.0, "{found}");
                    let hits: i64 = found["hits"]["hits"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|h| h["_source"]["n"].as_i64().unwrap())
                        .sum();
                    assert_eq!(hits, 300, "{found}");
                    searches.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_millis(1000 * rounds(3)));
        over.store(true, Ordering::Relaxed);
    });
    println!("{searches:?} searches beside {moves:?} changes, none mixed");
    assert!(searches.into_inner() > 10 && moves.into_inner() > 10);
}

/// As many as may wait for one target.
const WAITERS: i32 = 256;

/// Whoever came first is granted first.
#[test]
fn contract_22_oldest_first() {
    let (_folder, server) = start();
    let holder = server.ok("POST", "/_lock", &json!({"targets": [{"name": "q"}]}));
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..WAITERS {
            let (server, order) = (&server, &order);
            scope.spawn(move || {
                let got = server.ok(
                    "POST",
                    "/_lock?timeout=5m",
                    &json!({"owner": client.to_string(), "targets": [{"name": "q"}]}),
                );
                order.lock().unwrap().push((got["fencing_token"].as_u64().unwrap(), client));
                server.ok("DELETE", &format!("/_lock/{}", got["id"].as_str().unwrap()), &Value::Null);
            });
            // It waits before the next one comes.
            let until = Instant::now() + Duration::from_secs(20);
            while server.ok("GET", "/_lock", &Value::Null)["locks"][0]["waiters"] != client + 1 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        server.ok("DELETE", &format!("/_lock/{}", holder["id"].as_str().unwrap()), &Value::Null);
    });
    let mut order = order.into_inner().unwrap();
    order.sort_unstable();
    let clients: Vec<i32> = order.into_iter().map(|(_, client)| client).collect();
    assert_eq!(clients, (0..WAITERS).collect::<Vec<_>>());
}

/// Two locks that would wait for each other's upgrade: the younger gives up, the older is granted.
#[test]
fn contract_19_crossing_upgrades() {
    let (_folder, server) = start();
    let shared = json!({"targets": [{"name": "u", "mode": "shared"}]});
    let one = server.ok("POST", "/_lock", &shared)["id"].as_str().unwrap().to_owned();
    let two = server.ok("POST", "/_lock", &shared)["id"].as_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            server.call(
                "POST",
                "/_lock?timeout=30s",
                &json!({"lock": one, "targets": [{"name": "u"}]}),
            )
        });
        std::thread::sleep(Duration::from_millis(500));
        let second = server.call(
            "POST",
            "/_lock?timeout=30s",
            &json!({"lock": two, "targets": [{"name": "u"}]}),
        );
        assert_eq!(second.body["error"]["type"], "lock_deadlock_exception", "{second:?}");
        server.ok("DELETE", &format!("/_lock/{two}"), &Value::Null);
        assert_eq!(first.join().unwrap().status, 200);
    });
}

/// A lease ends at its keep alive, a renewal prolongs it and never revives it; who waits is granted.
#[test]
fn contract_23_leases_end_and_are_renewed() {
    let (_folder, server) = start();
    let open = json!({"keep_alive": "1s", "targets": [{"index": "d", "id": "1"}]});
    let one = server.ok("POST", "/_lock", &open)["id"].as_str().unwrap().to_owned();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(500));
        server.ok("POST", &format!("/_lock/{one}/_renew"), &Value::Null);
    }
    let begun = Instant::now();
    let two = server.ok("POST", "/_lock?timeout=20s", &open);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "granted {:?} after the last renewal",
        begun.elapsed()
    );
    let late = server.call("POST", &format!("/_lock/{one}/_renew"), &Value::Null);
    assert_eq!(
        (late.status, &late.body["error"]["type"]),
        (409, &json!("lock_expired_exception")),
        "{late:?}"
    );
    let write = server.call("PUT", &format!("/d/_doc/1?lock={one}"), &json!({}));
    assert_eq!(write.body["error"]["type"], "lock_expired_exception");
    assert!(
        write.body["error"]["reason"]
            .as_str()
            .unwrap()
            .ends_with("[d][1] is unchanged"),
        "{write:?}"
    );
    server.ok("PUT", &format!("/d/_doc/1?lock={}", two["id"].as_str().unwrap()), &json!({}));
    let refused = server.call("POST", "/_lock", &json!({"keep_alive": "500ms", "targets": [{"name": "x"}]}));
    assert_eq!(refused.status, 400);
}

/// A lock outlives its connection unless it asked otherwise; then it is gone within a second.
#[test]
fn contract_23_on_disconnect() {
    let (_folder, server) = start();
    for (on_disconnect, stays) in [("keep", true), ("release", false)] {
        let body = json!({"keep_alive": "60s", "on_disconnect": on_disconnect, "targets": [{"name": on_disconnect}]}).to_string();
        let mut stream = TcpStream::connect(server.address("")).unwrap();
        write!(
            stream,
            "POST /_lock HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..read]).starts_with("HTTP/1.1 201"));
        assert_eq!(
            server
                .call("POST", "/_lock", &json!({"targets": [{"name": on_disconnect}]}))
                .status,
            409
        );
        drop(stream);
        let begun = Instant::now();
        let next = server.call("POST", "/_lock?timeout=2s", &json!({"targets": [{"name": on_disconnect}]}));
        assert_eq!(next.status, if stays { 409 } else { 201 }, "{on_disconnect}: {next:?}");
        assert!(stays || begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}

/// A server that was stopped for longer than a lease lives gives it its time again: its owner could not renew.
#[test]
fn contract_23_a_stopped_server_restarts_the_timers() {
    let (_folder, server) = start();
    let one = server.ok("POST", "/_lock", &json!({"keep_alive": "2s", "targets": [{"name": "x"}]}))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    server.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(3));
    server.signal(libc::SIGCONT);
    server.ok("POST", &format!("/_lock/{one}/_renew"), &Value::Null);
}

/// Once a break is answered, nothing written under the lock appears any more.
#[test]
fn contract_25_nothing_passes_a_broken_lock() {
    let (_folder, server) = start();
    server.ok("PUT", "/f/_doc/1", &json!({}));
    for _ in 0..rounds(8) {
        let id = server.ok("POST", "/_lock", &json!({"targets": [{"index": "f", "id": "1"}]}))["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let broken = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (server, broken, id) = (&server, &broken, &id);
                scope.spawn(move || {
                    for n in 0.. {
                        let too_late = broken.load(Ordering::SeqCst);
                        let answer = server.call("PUT", &format!("/f/_doc/1?lock={id}"), &json!({"writer": writer, "n": n}));
                        match answer.status {
                            200 | 201 => assert!(!too_late, "a write was begun after the break was answered and passed"),
                            status => {
                                assert_eq!(
                                    (status, &answer.body["error"]["type"]),
                                    (409, &json!("lock_broken_exception")),
                                    "{answer:?}"
                                );
                                return;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(40));
            server.ok("POST", &format!("/_lock/{id}/_break"), &Value::Null);
            broken.store(true, Ordering::SeqCst);
            let before = server.ok("GET", "/f/_doc/1", &Value::Null);
            std::thread::sleep(Duration::from_millis(40));
            assert_eq!(server.ok("GET", "/f/_doc/1", &Value::Null)["_seq_no"], before["_seq_no"]);
        });
    }
}

/// The client of the test below: takes the lock, reads, writes one more under it, tells, gives it back.
#[test]
fn client_of_pauses() {
    let Ok(address) = std::env::var("PLEACH_TEST_CLIENT_OF") else {
        return;
    };
    let send = |method: &str, path: &str, body: &str| tests::send(&address, method, path, &[], body.as_bytes()).unwrap();
    loop {
        let got = send(
            "POST",
            "/_lock?timeout=30s",
            r#"{"keep_alive": "1s", "targets": [{"index": "p", "id": "n"}]}"#,
        );
        let Some(id) = got.body["id"].as_str() else { continue };
        let n = send("GET", "/p/_doc/n", "").body["_source"]["n"].as_u64().unwrap_or(0) + 1;
        std::thread::sleep(Duration::from_millis(2));
        let write = send("PUT", &format!("/p/_doc/n?lock={id}"), &format!(r#"{{"n": {n}}}"#));
        if matches!(write.status, 200 | 201) {
            println!("wrote {n}");
        }
        send("DELETE", &format!("/_lock/{id}"), "");
    }
}

/// Clients that are stopped past their lease and go on: no increment is lost, none is made twice.
#[test]
fn contract_25_stopped_clients_lose_no_update() {
    use std::io::BufRead as _;
    let (_folder, server) = start();
    let mut clients: Vec<std::process::Child> = (0..3)
        .map(|_| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["client_of_pauses", "--exact", "--nocapture"])
                .env("PLEACH_TEST_CLIENT_OF", server.address(""))
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let written = Mutex::new(Vec::new());
    let pauses = rounds(9);
    std::thread::scope(|scope| {
        for client in &mut clients {
            let (out, written) = (client.stdout.take().unwrap(), &written);
            scope.spawn(move || {
                for line in std::io::BufReader::new(out).lines().map_while(Result::ok) {
                    // The harness of the tests may begin the line.
                    if let Some(n) = line.rsplit("wrote ").next().and_then(|n| n.parse::<u64>().ok()) {
                        written.lock().unwrap().push(n);
                    }
                }
            });
        }
        for pause in 0..pauses {
            let pid = i32::try_from(clients[usize::try_from(pause).unwrap() % 3].id()).unwrap();
            std::thread::sleep(Duration::from_millis(20 + pause * 7 % 50));
            // SAFETY: the child is ours and has not been waited for.
            unsafe { libc::kill(pid, libc::SIGSTOP) };
            std::thread::sleep(Duration::from_millis(1300));
            unsafe { libc::kill(pid, libc::SIGCONT) };
        }
        std::thread::sleep(Duration::from_millis(300));
        for client in &mut clients {
            client.kill().unwrap();
            client.wait().unwrap();
        }
    });
    let mut written = written.into_inner().unwrap();
    written.sort_unstable();
    let last = source(&server, "/p/_doc/n")["n"].as_u64().unwrap();
    println!("{pauses} pauses, {} increments", written.len());
    let mut once = written.clone();
    once.dedup();
    assert_eq!(once, written, "no number was written twice");
    // A client that was killed between a write and telling it may be missing, one of each.
    assert!(
        last - written.len() as u64 <= 3,
        "{last} is there, {} were told",
        written.len()
    );
}

/// Tokens grow with every grant, over restarts too; what was held is held after a kill, with one fresh keep alive.
#[test]
fn contract_27_and_33_locks_over_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut newest = 0;
    let mut held: Option<String> = None;
    for round in 0..3 {
        let server = Server::start(&data, &["es8"]);
        if let Some(id) = held.take() {
            let there = server.ok("GET", &format!("/_lock/{id}"), &Value::Null);
            assert_eq!(there["owner"], "survivor");
            assert!(
                there["expires_in_millis"].as_u64() > Some(15_000),
                "a fresh keep alive: {there}"
            );
            assert_eq!(server.call("PUT", "/k/_doc/1", &json!({})).status, 409);
            server.ok("PUT", &format!("/k/_doc/1?lock={id}"), &json!({"round": round}));
            server.ok("POST", &format!("/_lock/{id}/_break"), &Value::Null);
        } else {
            server.ok("PUT", "/k", &json!({"settings": {"pleach.locks": "enforced"}}));
        }
        for n in 0..20 {
            let got = server.ok("POST", "/_lock", &json!({"targets": [{"name": format!("{round}-{n}")}]}));
            let token = got["fencing_token"].as_u64().unwrap();
            assert!(token > newest && token < 1 << 53, "{token} after {newest}");
            newest = token;
            server.ok("DELETE", &format!("/_lock/{}", got["id"].as_str().unwrap()), &Value::Null);
        }
        let got = server.ok(
            "POST",
            "/_lock",
            &json!({"owner": "survivor", "keep_alive": "20s", "targets": [{"index": "k", "id": "1"}]}),
        );
        newest = got["fencing_token"].as_u64().unwrap();
        let id = got["id"].as_str().unwrap().to_owned();
        std::thread::sleep(Duration::from_millis(200));
        server.signal(libc::SIGKILL);
        held = Some(id);
    }
    // A lock that was broken is known as such after a restart.
    let server = Server::start(&data, &["es8"]);
    let id = held.unwrap();
    server.ok("POST", &format!("/_lock/{id}/_break"), &Value::Null);
    drop(server);
    let server = Server::start(&data, &["es8"]);
    let late = server.call("PUT", &format!("/k/_doc/1?lock={id}"), &json!({}));
    assert_eq!(late.body["error"]["type"], "lock_broken_exception", "{late:?}");
}

/// Ten thousand operations are one change, and one more is none.
#[test]
fn contract_06_ten_thousand_operations() {
    let (_folder, server) = start();
    let lines = |count: u64| {
        (0..count)
            .map(|n| format!("{{\"index\":{{\"_index\":\"big\",\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"))
            .collect::<String>()
    };
    let begun = Instant::now();
    let done = server.send("POST", "/_bulk?atomic=true", &lines(10_000)).unwrap();
    println!("10,000 operations in {:?}", begun.elapsed());
    assert_eq!((done.status, &done.body["errors"]), (200, &json!(false)));
    let more = server.send("POST", "/_bulk?atomic=true", &lines(10_001)).unwrap();
    assert_eq!(more.status, 400);
    assert!(
        more.body["error"]["reason"]
            .as_str()
            .unwrap()
            .contains("changes.max_operations")
    );
    server.ok("POST", "/big/_refresh", &Value::Null);
    assert_eq!(server.ok("GET", "/big/_count", &Value::Null)["count"], 10_000);
}

/// A connection that is lost while its change waits stops nothing: the change is decided all the same.
#[test]
fn contract_07_a_lost_connection_stops_nothing() {
    let (_folder, server) = start();
    let id = server.ok("POST", "/_lock", &json!({"targets": [{"name": "gate"}]}))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let body =
        json!({"locks": [{"name": "gate"}], "operations": [{"index": {"_index": "lost", "_id": "1", "doc": {}}}]}).to_string();
    let mut stream = TcpStream::connect(server.address("")).unwrap();
    write!(stream, "POST /_transaction?timeout=20s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    std::thread::sleep(Duration::from_millis(400));
    drop(stream);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.call("GET", "/lost/_doc/1", &Value::Null).status, 404);
    server.ok("DELETE", &format!("/_lock/{id}"), &Value::Null);
    let until = Instant::now() + Duration::from_secs(10);
    while server.call("GET", "/lost/_doc/1", &Value::Null).status != 200 {
        assert!(Instant::now() < until, "the change is decided without its client");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One key in flight twice has one effect.
#[test]
fn contract_09_same_key_in_flight() {
    let (_folder, server) = start();
    for round in 0..rounds(5) {
        let replayed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                let (server, replayed) = (&server, &replayed);
                scope.spawn(move || {
                    let body = json!({"operations": [{"update": {"_index": "i", "_id": "n", "script": "ctx._source.n++", "upsert": {"n": 1}}}]});
                    let done = server.ok("POST", &format!("/_transaction?idempotency_key=same-{round}"), &body);
                    replayed.fetch_add(u64::from(done["replayed"] == true), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(replayed.into_inner(), 5);
        assert_eq!(source(&server, "/i/_doc/n")["n"], round + 1);
    }
}

/// Who asks for shared does not pass an older one who waits for exclusive; who holds and wants more does.
#[test]
fn contract_22_nobody_passes_but_upgrades() {
    let (_folder, server) = start();
    let server = &server;
    let target = |mode: &str| json!({"targets": [{"name": "q", "mode": mode}]});
    let id = |answer: &Value| answer["id"].as_str().unwrap().to_owned();
    let waiters = |n: u64| {
        let until = Instant::now() + Duration::from_secs(20);
        while server.ok("GET", "/_lock", &Value::Null)["locks"][0]["waiters"] != n {
            assert!(Instant::now() < until, "[{n}] wait");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let (one, two) = (
        id(&server.ok("POST", "/_lock", &target("shared"))),
        id(&server.ok("POST", "/_lock", &target("shared"))),
    );
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| server.ok("POST", "/_lock?timeout=60s", &target("exclusive")));
        waiters(1);
        let refused = server.call("POST", "/_lock", &target("shared"));
        assert_eq!(refused.status, 409, "what is held would allow it, who waits does not");
        assert!(
            refused.body["error"]["reason"].as_str().unwrap().contains("waited for"),
            "{refused:?}"
        );
        let reader = scope.spawn(|| server.ok("POST", "/_lock?timeout=60s", &target("shared")));
        waiters(2);
        // The upgrade comes last and goes first.
        let mut more = target("exclusive");
        more["lock"] = one.as_str().into();
        let upgrade = scope.spawn(move || server.ok("POST", "/_lock?timeout=60s", &more));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!upgrade.is_finished() && !writer.is_finished() && !reader.is_finished());
        server.ok("DELETE", &format!("/_lock/{two}"), &Value::Null);
        let upgraded = upgrade.join().unwrap();
        assert_eq!(
            (id(&upgraded), &upgraded["targets"][0]["mode"]),
            (one.clone(), &json!("exclusive"))
        );
        std::thread::sleep(Duration::from_millis(200));
        assert!(!writer.is_finished() && !reader.is_finished());
        server.ok("DELETE", &format!("/_lock/{one}"), &Value::Null);
        let written = writer.join().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(!reader.is_finished(), "the older of the two came first");
        server.ok("DELETE", &format!("/_lock/{}", id(&written)), &Value::Null);
        let read = reader.join().unwrap();
        let token = |lock: &Value| lock["fencing_token"].as_u64().unwrap();
        assert!(token(&upgraded) < token(&written) && token(&written) < token(&read));
    });
}

/// A lock that is given back goes on to who waits, to all who share it at once: with tokens that rise, over a kill, and
/// not to who hung up meanwhile, or only until that shows.
#[test]
fn contract_22_a_lock_goes_on_to_who_waits() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let started = Server::start(&data, &["es8"]);
    let server = &started;
    let target = |mode: &str| json!({"targets": [{"name": "q", "mode": mode}]});
    let id = |answer: &Value| answer["id"].as_str().unwrap().to_owned();
    let release = |lock: &Value| server.ok("DELETE", &format!("/_lock/{}", id(lock)), &Value::Null);
    let ask = |mode: &str| server.ok("POST", "/_lock?timeout=60s", &target(mode));
    let waiters = |n: u64| {
        let until = Instant::now() + Duration::from_secs(20);
        while server.ok("GET", "/_lock", &Value::Null)["locks"][0]["waiters"] != n {
            assert!(Instant::now() < until, "[{n}] wait");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    for round in 0..rounds(10) {
        let held = ask("exclusive");
        let mut body = target("exclusive");
        // If it was told already: the end of its connection is the end of its lock.
        body["on_disconnect"] = "release".into();
        body["keep_alive"] = "60s".into();
        let body = body.to_string();
        let mut stream = TcpStream::connect(server.address("")).unwrap();
        write!(
            stream,
            "POST /_lock?timeout=60s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        waiters(1);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| ask("exclusive"));
            waiters(2);
            // Before, while or after the lock goes on to it.
            let hangs_up = scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(200 * round));
                drop(stream);
            });
            let begun = Instant::now();
            release(&held);
            hangs_up.join().unwrap();
            release(&next.join().unwrap());
            assert!(begun.elapsed() < Duration::from_secs(20), "who hung up is not waited for");
        });
    }
    let token = |lock: &Value| lock["fencing_token"].as_u64().unwrap();
    let held = ask("exclusive");
    let last = std::thread::scope(|scope| {
        let one = scope.spawn(|| ask("shared"));
        waiters(1);
        let two = scope.spawn(|| ask("shared"));
        waiters(2);
        let last = scope.spawn(|| ask("exclusive"));
        waiters(3);
        release(&held);
        let (one, two) = (one.join().unwrap(), two.join().unwrap());
        assert!(token(&held) < token(&one) && token(&held) < token(&two) && token(&one) != token(&two));
        assert!(!last.is_finished(), "two share it");
        release(&one);
        std::thread::sleep(Duration::from_millis(100));
        assert!(!last.is_finished(), "one holds it still");
        release(&two);
        let last = last.join().unwrap();
        assert!(token(&last) > token(&one).max(token(&two)));
        last
    });
    server.signal(libc::SIGKILL);
    drop(started);
    let server = Server::start(&data, &["es8"]);
    let there = server.ok("GET", "/_lock", &Value::Null);
    assert_eq!(there["locks"].as_array().map(Vec::len), Some(1), "{there}");
    assert_eq!(
        (id(&there["locks"][0]), token(&there["locks"][0])),
        (id(&last), token(&last)),
        "what was told is there"
    );
}

/// A reader whose lease is over while it did something else is told so.
#[test]
fn contract_26_a_zombie_reader() {
    let (_folder, server) = start();
    server.ok("PUT", "/z/_doc/1?refresh=true", &json!({"n": 1}));
    let lock = server.ok(
        "POST",
        "/_lock",
        &json!({"keep_alive": "1s", "targets": [{"index": "z", "mode": "shared"}]}),
    );
    let id = lock["id"].as_str().unwrap();
    let docs = json!({"docs": [{"_index": "z", "_id": "1"}]});
    let mget = format!("/_mget?lock={id}");
    assert_eq!(server.ok("GET", &format!("/z/_doc/1?lock={id}"), &Value::Null)["found"], true);
    assert_eq!(server.ok("POST", &mget, &docs)["docs"][0]["found"], true);
    std::thread::sleep(Duration::from_millis(1300));
    for path in [
        format!("/z/_doc/1?lock={id}"),
        format!("/z/_search?lock={id}"),
        format!("/z/_count?lock={id}"),
    ] {
        let late = server.call("GET", &path, &Value::Null);
        assert_eq!(
            (late.status, &late.body["error"]["type"]),
            (409, &json!("lock_expired_exception")),
            "{path}"
        );
    }
    let late = server.ok("POST", &mget, &docs);
    assert_eq!(late["docs"][0]["error"]["type"], "lock_expired_exception");
    server.ok("GET", "/z/_doc/1", &Value::Null);
}

/// Who is granted after another was told has the greater number, whoever they are.
#[test]
fn contract_27_order_of_grants() {
    let (_folder, server) = start();
    let newest = AtomicU64::new(0);
    let each = 10 * rounds(6);
    std::thread::scope(|scope| {
        for client in 0..8_u64 {
            let (server, newest) = (&server, &newest);
            scope.spawn(move || {
                for n in 0..each {
                    let before = newest.load(Ordering::SeqCst);
                    let targets =
                        json!({"targets": [{"name": format!("{client}-{n}")}, {"name": "all share", "mode": "shared"}]});
                    let got = server.ok("POST", "/_lock", &targets);
                    let token = got["fencing_token"].as_u64().unwrap();
                    assert!(token > before && token < 1 << 53, "{token} after {before}");
                    newest.fetch_max(token, Ordering::SeqCst);
                    server.ok("DELETE", &format!("/_lock/{}", got["id"].as_str().unwrap()), &Value::Null);
                }
            });
        }
    });
}

/// Changes that begin to wait at the same time are all woken, one after the other.
#[test]
fn contract_22_changes_that_wait_are_all_woken() {
    let (_folder, server) = start();
    for round in 1..=rounds(4) {
        let gate = server.ok("POST", "/_lock", &json!({"targets": [{"name": "gate"}]}));
        let released = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                let (server, released) = (&server, &released);
                scope.spawn(move || {
                    let operation =
                        json!({"update": {"_index": "i", "_id": "n", "script": "ctx._source.n++", "upsert": {"n": 1}}});
                    let body = json!({"locks": [{"name": "gate"}], "operations": [operation]});
                    server.ok("POST", "/_transaction?timeout=50s", &body);
                    let since = released.lock().unwrap().map(|at: Instant| at.elapsed());
                    assert!(since.is_some_and(|since| since < Duration::from_secs(25)), "{since:?}");
                });
            }
            std::thread::sleep(Duration::from_millis(300));
            *released.lock().unwrap() = Some(Instant::now());
            server.ok("DELETE", &format!("/_lock/{}", gate["id"].as_str().unwrap()), &Value::Null);
        });
        assert_eq!(source(&server, "/i/_doc/n")["n"], 16 * round);
    }
}
