//! What locks and changes are for, seen from outside: clients and servers that are stopped past leases, reads under writers that
//! keep a sum, kills of a server that makes changes by the portable path.
//!
//! `PLEACH_TEST_PAUSES` (50) and `PLEACH_TEST_READS` (400) are the numbers; 1,000 and 100,000 are the long run. Not here:
//! what one client sees (`scenarios/changes`), races of a few clients (`changes.rs`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::{Answer, Server};

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn call(address: &str, method: &str, path: &str, body: &Value) -> std::io::Result<Answer> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    tests::send(address, method, path, &[], text.as_bytes())
}

fn ok(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let answer = call(address, method, path, body).unwrap();
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    answer.body
}

/// Counts up one document under a lock, by reading and writing. Run as a process of its own, to be stopped.
#[test]
fn client_to_be_stopped() {
    let Ok(address) = std::env::var("PLEACH_TEST_CLIENT_OF") else {
        return;
    };
    let id = std::env::var("PLEACH_TEST_COUNTER").unwrap();
    let fenced = std::env::var("PLEACH_TEST_FENCED").unwrap() == "1";
    let say = |text: String| {
        use std::io::Write as _;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).unwrap();
    };
    let ask = json!({ "keep_alive": "1s", "targets": [{ "index": "counters", "id": id }] });
    loop {
        let lock = call(&address, "POST", "/_lock?timeout=50s", &ask);
        let Ok(Answer {
            status: 200 | 201,
            body: lock,
            ..
        }) = lock
        else {
            continue;
        };
        let token = lock["fencing_token"].as_u64().unwrap();
        let lock = lock["id"].as_str().unwrap().to_owned();
        let n = ok(&address, "GET", &format!("/counters/_doc/{id}"), &Value::Null)["_source"]["n"]
            .as_u64()
            .unwrap();
        say("holding".into());
        std::thread::sleep(Duration::from_millis(60));
        let path = if fenced {
            format!("/counters/_doc/{id}?lock={lock}")
        } else {
            format!("/counters/_doc/{id}")
        };
        match call(&address, "PUT", &path, &json!({ "n": n + 1 })) {
            Ok(answer) if answer.status == 200 => say(format!("wrote {} {token}", n + 1)),
            Ok(answer) => {
                assert_eq!(answer.body["error"]["type"], "lock_expired_exception", "{answer:?}");
                say("refused".into());
            }
            Err(_) => return,
        }
        drop(call(&address, "DELETE", &format!("/_lock/{lock}"), &Value::Null));
        // The other's turn.
        std::thread::sleep(Duration::from_millis(15));
    }
}

/// What came of one run.
#[derive(Debug, Default)]
struct Stopped {
    pauses: u64,
    written: u64,
    refused: u64,
    /// Numbers that were written more than once: as many increments are gone.
    lost: u64,
    /// Numbers that were written under a token that is not greater than that of the number before: two held the lock.
    crossed: u64,
    /// How often the server was stopped.
    server_pauses: u64,
}

/// Counters of two clients each; the first of each is stopped past its lease while it holds its lock. With `server_too` the
/// server is stopped at random, for less and for more than half of a lease.
fn stop_clients(pauses: u64, fenced: bool, server_too: bool) -> Stopped {
    const COUNTERS: u64 = 8;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let address = server.address("");
    for n in 0..COUNTERS {
        ok(address, "PUT", &format!("/counters/_doc/{n}"), &json!({ "n": 0 }));
    }
    let left = AtomicU64::new(pauses);
    let all = Mutex::new(Stopped::default());
    let (clients_left, server_pauses) = (AtomicU64::new(COUNTERS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        if server_too {
            let (server, clients_left, server_pauses) = (&server, &clients_left, &server_pauses);
            scope.spawn(move || {
                for n in 0_u64.. {
                    // A fixed walk through short and long: 150 ms to 1.9 s beside a lease of 1 s.
                    std::thread::sleep(Duration::from_millis(300 + n * 7919 % 500));
                    if clients_left.load(Ordering::Relaxed) == 0 {
                        return;
                    }
                    server.signal(libc::SIGSTOP);
                    std::thread::sleep(Duration::from_millis(150 + n * 6151 % 1750));
                    server.signal(libc::SIGCONT);
                    server_pauses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for counter in 0..COUNTERS {
            let (left, all, clients_left) = (&left, &all, &clients_left);
            scope.spawn(move || {
                let mut clients: Vec<Child> = (0..2).map(|_| client(address, counter, fenced)).collect();
                let outs: Vec<_> = clients.iter_mut().map(|client| client.stdout.take().unwrap()).collect();
                let victim = i32::try_from(clients[0].id()).unwrap();
                let (numbers, refused, over) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicBool::new(false));
                std::thread::scope(|scope| {
                    for (n, out) in outs.into_iter().enumerate() {
                        let (numbers, refused, over) = (&numbers, &refused, &over);
                        scope.spawn(move || {
                            for line in std::io::BufReader::new(out).lines().map_while(Result::ok) {
                                // The harness of the tests may begin the line.
                                if let Some((number, token)) = line.rsplit_once("wrote ").and_then(|(_, n)| n.split_once(' ')) {
                                    let wrote: (u64, u64) = (number.parse().unwrap(), token.parse().unwrap());
                                    numbers.lock().unwrap().push(wrote);
                                } else if line.ends_with("refused") {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                } else if n == 0 && line.ends_with("holding") && !over.load(Ordering::Relaxed) {
                                    let take = |left: u64| left.checked_sub(1);
                                    if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
                                        over.store(true, Ordering::Relaxed);
                                        continue;
                                    }
                                    // SAFETY: the child is ours and has not been waited for.
                                    unsafe { libc::kill(victim, libc::SIGSTOP) };
                                    std::thread::sleep(Duration::from_millis(1400));
                                    // SAFETY: as above.
                                    unsafe { libc::kill(victim, libc::SIGCONT) };
                                }
                            }
                        });
                    }
                    let patience = Instant::now() + Duration::from_secs(60 + pauses * 3);
                    while !over.load(Ordering::Relaxed) && Instant::now() < patience {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                    // What was continued last has its say.
                    std::thread::sleep(Duration::from_millis(700));
                    for client in &mut clients {
                        client.kill().unwrap();
                        client.wait().unwrap();
                    }
                });
                clients_left.fetch_sub(1, Ordering::Relaxed);
                let mut numbers = numbers.into_inner().unwrap();
                numbers.sort_unstable();
                let written = numbers.len() as u64;
                let crossed = numbers.windows(2).filter(|two| two[0].1 >= two[1].1).count() as u64;
                numbers.dedup_by_key(|(number, _)| *number);
                let mut all = all.lock().unwrap();
                all.written += written;
                all.lost += written - numbers.len() as u64;
                all.refused += refused.into_inner();
                all.crossed += crossed;
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.pauses = pauses - left.into_inner();
    all.server_pauses = server_pauses.into_inner();
    all
}

fn client(address: &str, counter: u64, fenced: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["client_to_be_stopped", "--exact", "--nocapture"])
        .env("PLEACH_TEST_CLIENT_OF", address)
        .env("PLEACH_TEST_COUNTER", counter.to_string())
        .env("PLEACH_TEST_FENCED", u8::from(fenced).to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Clients stopped past their leases and continued: with `?lock=` no update is lost; without it some are, or the test
/// would show nothing.
#[test]
fn contract_25_pauses_with_and_without_fencing() {
    let pauses = from_environment("PLEACH_TEST_PAUSES", 50);
    let fenced = stop_clients(pauses, true, false);
    let unfenced = stop_clients(pauses.min(40), false, false);
    eprintln!("fenced: {fenced:?}; without fencing: {unfenced:?}");
    assert_eq!((fenced.pauses, fenced.lost), (pauses, 0), "{fenced:?}");
    assert!(
        fenced.refused > pauses / 2,
        "those who were stopped came too late: {fenced:?}"
    );
    assert!(unfenced.lost > 0, "without fencing nothing was lost: {unfenced:?}");
    assert_eq!(fenced.crossed, 0, "two held a lock at once: {fenced:?}");
}

/// Clients and the server stopped at random: no update is lost, no two hold a lock, and the tokens of each counter rise.
/// `PLEACH_TEST_SERVER_PAUSES` (16) pauses of clients; the server is stopped about every second meanwhile.
#[test]
fn contract_23_and_25_and_27_pauses_of_clients_and_server() {
    let pauses = from_environment("PLEACH_TEST_SERVER_PAUSES", 16);
    let stopped = stop_clients(pauses, true, true);
    eprintln!("{stopped:?}");
    assert_eq!((stopped.pauses, stopped.lost, stopped.crossed), (pauses, 0, 0), "{stopped:?}");
    assert!(stopped.server_pauses > 0 && stopped.written > pauses, "{stopped:?}");
}

/// Under writers that keep a sum and one generation over three indices, one of them never refreshed by time: a
/// search over all, a multi-search, a join, an aggregation, a scroll. None sees half a change.
#[test]
fn contract_15_reads_of_every_kind_are_never_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let address = server.address("");
    let mappings = json!({ "properties": { "n": { "type": "integer" }, "g": { "type": "long" } } });
    for (index, interval) in [("s0", "1s"), ("s1", "100ms"), ("s2", "-1")] {
        let settings = json!({ "settings": { "refresh_interval": interval }, "mappings": mappings });
        ok(address, "PUT", &format!("/{index}"), &settings);
    }
    let first = |index: usize| json!({ "index": { "_index": format!("s{index}"), "_id": "x", "doc": { "n": 100, "g": 0 } } });
    let begin = json!({ "operations": [first(0), first(1), first(2)] });
    ok(address, "POST", "/_transaction?refresh=true", &begin);
    let reads = from_environment("PLEACH_TEST_READS", 400);
    let (done, moves) = (AtomicU64::new(0), AtomicU64::new(0));
    // However slow the disk: reads beside writers, not reads alone.
    let over = || done.load(Ordering::Relaxed) >= reads && moves.load(Ordering::Relaxed) > 10;
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            let (over, moves) = (&over, &moves);
            scope.spawn(move || {
                let mut n = writer;
                while !over() {
                    n += 1;
                    let script = |by: i64| {
                        json!({ "source": "ctx._source.n += params.by; ctx._source.g++", "params": { "by": by } })
                    };
                    let add = |index: u64, by: i64| {
                        json!({ "update": { "_index": format!("s{}", index % 3), "_id": "x", "script": script(by) } })
                    };
                    let change = json!({ "operations": [add(n, 7), add(n + 1, -4), add(n + 2, -3)] });
                    let refresh = if n.is_multiple_of(5) { "?refresh=true" } else { "" };
                    ok(address, "POST", &format!("/_transaction{refresh}"), &change);
                    moves.fetch_add(1, Ordering::Relaxed);
                    if n.is_multiple_of(3) {
                        ok(address, "POST", &format!("/s{}/_refresh", n % 3), &Value::Null);
                    }
                }
            });
        }
        for reader in 0..2_u64 {
            let (done, over) = (&done, &over);
            scope.spawn(move || {
                // Who fails stops the others.
                let _stop = Stop(done);
                for n in reader.. {
                    done.fetch_add(1, Ordering::Relaxed);
                    if over() {
                        return;
                    }
                    match n % 5 {
                        0 => whole(&ok(address, "POST", "/s0,s1,s2/_search", &json!({ "size": 3 }))),
                        1 => msearch(address),
                        2 => join(address),
                        3 => {
                            let sums = json!({ "size": 0, "aggs": { "n": { "sum": { "field": "n" } }, "g": { "cardinality": { "field": "g" } } } });
                            let found = ok(address, "POST", "/s0,s1,s2/_search", &sums);
                            let got = (&found["aggregations"]["n"]["value"], &found["aggregations"]["g"]["value"]);
                            assert_eq!((got.0.as_f64(), got.1.as_u64()), (Some(300.0), Some(1)), "{found}");
                        }
                        _ => scroll(address),
                    }
                }
            });
        }
    });
    eprintln!("{reads} reads beside {} changes, none mixed", moves.into_inner());
}

/// Ends the writers, however a reader ends.
struct Stop<'a>(&'a AtomicU64);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX / 2, Ordering::Relaxed);
    }
}

/// Three documents of one moment.
fn whole(found: &Value) {
    let hits = found["hits"]["hits"].as_array().unwrap();
    let sum: i64 = hits.iter().map(|hit| hit["_source"]["n"].as_i64().unwrap()).sum();
    let alike = hits.iter().all(|hit| hit["_source"]["g"] == hits[0]["_source"]["g"]);
    assert!(hits.len() == 3 && sum == 300 && alike, "{found}");
}

/// Each of its searches is of one moment.
fn msearch(address: &str) {
    let lines = "{\"index\":\"s0,s1,s2\"}\n{\"size\":3}\n{\"index\":\"s2,s1,s0\"}\n{\"size\":3,\"sort\":[\"n\"]}\n";
    let headers = [("content-type".to_owned(), "application/x-ndjson".to_owned())];
    let answer = tests::send(address, "POST", "/_msearch", &headers, lines.as_bytes()).unwrap();
    let responses = answer.body["responses"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
    assert_eq!(responses.len(), 2);
    responses.iter().for_each(whole);
}

/// All three have one generation, so each finds its partners by it.
fn join(address: &str) {
    let inner = json!({ "join": { "index": "s2", "on": { "g": "g" }, "query": { "match_all": {} } } });
    let query = json!({ "join": { "index": "s1", "on": { "g": "g" }, "query": inner } });
    let found = ok(address, "POST", "/s0/_search", &json!({ "query": query }));
    assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
}

/// Page by page, while changes go on.
fn scroll(address: &str) {
    let mut page = ok(address, "POST", "/s0,s1,s2/_search?scroll=1m", &json!({ "size": 1 }));
    let mut hits: Vec<Value> = Vec::new();
    loop {
        let found = page["hits"]["hits"].as_array().unwrap().clone();
        let id = page["_scroll_id"].as_str().unwrap().to_owned();
        if found.is_empty() {
            ok(address, "DELETE", "/_search/scroll", &json!({ "scroll_id": id }));
            break;
        }
        hits.extend(found);
        page = ok(
            address,
            "POST",
            "/_search/scroll",
            &json!({ "scroll": "1m", "scroll_id": id }),
        );
    }
    whole(&json!({ "hits": { "hits": hits } }));
}

const ACCOUNTS: u64 = 6;
const PORTABLE: &[&str] = &["changes.path=portable"];

/// By the portable path: transfers with keys beside plain writers, the server killed at any moment, what was not answered
/// repeated; the total never changes, every transfer has one effect, commit numbers grow, and a commit that was told is reached.
#[test]
fn contract_09_and_33_transfers_by_the_portable_path_survive_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let pending: Mutex<Vec<(String, Value)>> = Mutex::new(Vec::new());
    let (sent, newest) = (AtomicU64::new(0), AtomicU64::new(0));
    let rounds = from_environment("PLEACH_TEST_ROUNDS", 3);
    for round in 0..=rounds {
        let server = Server::start_with(&data, &["es8"], PORTABLE);
        let address = server.address("");
        if round == 0 {
            for account in 0..ACCOUNTS {
                ok(
                    address,
                    "PUT",
                    &format!("/bank{}/_doc/{account}", account % 3),
                    &json!({ "balance": 100 }),
                );
            }
        }
        for (path, body) in pending.lock().unwrap().drain(..) {
            let answer = ok(address, "POST", &path, &body);
            assert_eq!(answer["committed"], true, "{answer}");
            let seq = answer["commit_seq"].as_u64().unwrap();
            assert!(answer["replayed"] == true || seq > newest.load(Ordering::Relaxed), "{answer}");
            sent.fetch_add(1, Ordering::Relaxed);
        }
        let balance = |account: u64| {
            let path = format!("/bank{}/_doc/{account}", account % 3);
            ok(address, "GET", &path, &Value::Null)["_source"]["balance"]
                .as_i64()
                .unwrap()
        };
        assert_eq!(
            (0..ACCOUNTS).map(balance).sum::<i64>(),
            100 * ACCOUNTS as i64,
            "round {round}"
        );
        let counted = sent.load(Ordering::Relaxed);
        if counted > 0 {
            let told = newest.load(Ordering::Relaxed);
            let body = json!({ "size": 0, "track_total_hits": true });
            let found = ok(address, "POST", &format!("/log/_search?after={told}"), &body);
            assert_eq!(found["hits"]["total"]["value"], counted, "every transfer has one effect");
        }
        if round == rounds {
            break;
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (over, sent, newest, pending) = (&over, &sent, &newest, &pending);
                scope.spawn(move || {
                    for n in 1_u64.. {
                        if over.load(Ordering::Relaxed) {
                            return;
                        }
                        let (from, to) = ((n + thread) % ACCOUNTS, (n * 3 + 1) % ACCOUNTS);
                        let script = |by: i64| json!({ "source": "ctx._source.balance += params.by", "params": { "by": by } });
                        let add = |account: u64, by: i64| {
                            json!({ "update": { "_index": format!("bank{}", account % 3), "_id": account.to_string(), "script": script(by) } })
                        };
                        let log = json!({ "create": { "_index": "log", "_id": format!("{round}-{thread}-{n}"), "doc": {} } });
                        let path = format!("/_transaction?idempotency_key=k-{round}-{thread}-{n}");
                        let body = json!({ "operations": [add(from, -1), add(to, 1), log] });
                        match call(address, "POST", &path, &body) {
                            Ok(answer) if answer.status == 200 => {
                                sent.fetch_add(1, Ordering::Relaxed);
                                newest.fetch_max(answer.body["commit_seq"].as_u64().unwrap(), Ordering::Relaxed);
                            }
                            Ok(answer) if !over.load(Ordering::Relaxed) => panic!("{answer:?}"),
                            _ => {
                                pending.lock().unwrap().push((path, body));
                                return;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(500 + 230 * round));
            server.signal(libc::SIGKILL);
            over.store(true, Ordering::Relaxed);
        });
    }
    eprintln!("{} transfers in {rounds} rounds", sent.into_inner());
}

/// The same answers by the portable path where the promise is the same: all or nothing, conditions, locks, limits; and
/// a data folder keeps the path that it was made with.
#[test]
fn contract_01_and_25_the_portable_path_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start_with(&data, &["es8"], PORTABLE);
    let address = server.address("");
    let status = |method: &str, path: &str, body: &Value| {
        let answer = call(address, method, path, body).unwrap();
        (answer.status, answer.body)
    };
    ok(
        address,
        "PUT",
        "/a",
        &json!({ "mappings": { "properties": { "n": { "type": "integer" } } } }),
    );
    let index = |id: &str, n: Value| json!({ "index": { "_index": "a", "_id": id, "doc": { "n": n } } });
    let (code, body) = status(
        "POST",
        "/_transaction",
        &json!({ "operations": [index("1", json!(1)), index("2", json!("x"))] }),
    );
    assert_eq!((code, &body["items"][0]["index"]["status"]), (400, &json!(424)), "{body}");
    assert_eq!(status("GET", "/a/_doc/1", &Value::Null).0, 404, "nothing is left");
    let lines =
        "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{\"n\":1}\n{\"create\":{\"_index\":\"b\",\"_id\":\"2\"}}\n{\"n\":2}\n";
    let headers = [("content-type".to_owned(), "application/x-ndjson".to_owned())];
    let bulk = tests::send(address, "POST", "/_bulk?atomic=true&refresh=true", &headers, lines.as_bytes()).unwrap();
    assert_eq!((bulk.status, &bulk.body["atomic"]), (200, &json!(true)), "{bulk:?}");
    assert_eq!(
        ok(address, "GET", "/a,b/_count", &Value::Null)["count"],
        2,
        "seen when it is answered"
    );
    let again = tests::send(address, "POST", "/_bulk?atomic=true", &headers, lines.as_bytes()).unwrap();
    assert_eq!(
        (again.status, &again.body["items"][0]["index"]["status"]),
        (409, &json!(424)),
        "{again:?}"
    );
    let race = json!({ "if": [{ "index": "a", "id": "1", "exists": false }], "operations": [index("1", json!(5))] });
    assert_eq!(status("POST", "/_transaction", &race).0, 412);
    let seen = ok(address, "GET", "/a/_doc/1", &Value::Null);
    let moved = json!({ "operations": [{ "index": { "_index": "a", "_id": "1", "if_seq_no": seen["_seq_no"],
        "if_primary_term": seen["_primary_term"], "doc": { "n": 7 } } }] });
    assert_eq!(
        status("POST", "/_transaction", &moved).0,
        200,
        "what a client was shown is what is compared"
    );
    assert_eq!(status("POST", "/_transaction", &moved).0, 409);
    // Locks.
    let lock = ok(
        address,
        "POST",
        "/_lock",
        &json!({ "targets": [{ "index": "a", "id": "1" }] }),
    );
    let id = lock["id"].as_str().unwrap();
    let foreign = json!({ "operations": [index("1", json!(8))] });
    let (code, body) = status("POST", "/_transaction", &foreign);
    assert_eq!(
        (code, &body["error"]["caused_by"]["type"]),
        (409, &json!("lock_conflict_exception")),
        "{body}"
    );
    assert_eq!(status("POST", &format!("/_transaction?lock={id}"), &foreign).0, 200);
    assert_eq!(status("PUT", &format!("/a/_doc/1?lock={id}"), &json!({ "n": 9 })).0, 200);
    ok(address, "POST", &format!("/_lock/{id}/_break"), &Value::Null);
    let (code, body) = status("PUT", &format!("/a/_doc/1?lock={id}"), &json!({ "n": 10 }));
    assert_eq!(
        (code, &body["error"]["type"]),
        (409, &json!("lock_broken_exception")),
        "{body}"
    );
    assert_eq!(ok(address, "GET", "/a/_doc/1", &Value::Null)["_source"]["n"], 9);
    // Sixteen clients beside plain writers: nothing is lost.
    std::thread::scope(|scope| {
        for client in 0..8_u64 {
            scope.spawn(move || {
                for n in 0..6_u64 {
                    let update = |index: &str| json!({ "update": { "_index": index, "_id": "n", "script": "ctx._source.n++", "upsert": { "n": 1 } } });
                    ok(address, "POST", "/_transaction", &json!({ "operations": [update("left"), update("right")] }));
                    ok(address, "PUT", &format!("/left/_doc/p{}", (client + n) % 3), &json!({ "n": n }));
                }
            });
        }
    });
    for index in ["left", "right"] {
        assert_eq!(
            ok(address, "GET", &format!("/{index}/_doc/n"), &Value::Null)["_source"]["n"],
            48
        );
    }
    let (code, body) = status("GET", "/a/_search?after=9007199254740000", &Value::Null);
    assert_eq!(code, 400, "{body}");
    drop(server);
    let mut other = tests::command();
    other
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .current_dir(folder.path());
    let refused = other.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("[changes.path]"), "{said}");
}
