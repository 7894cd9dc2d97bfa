//! Transactions that are held open, under concurrency and kills: promises that one client cannot show.
//!
//! A test's name begins with the number of the promise. More rounds: `PLEACH_TEST_ROUNDS`.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::paths::{self, by_both_paths};
use tests::{Answer, Server};

fn rounds(default: u64) -> u64 {
    let given = std::env::var("PLEACH_TEST_ROUNDS").ok();
    given.and_then(|r| r.parse().ok()).unwrap_or(default)
}

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(&folder.path().join("data"), &["es8"], &[&paths::setting()]);
    (folder, server)
}

fn begin(server: &Server, query: &str) -> String {
    let begun = server.ok("POST", &format!("/_transaction/_begin{query}"), &Value::Null);
    begun["id"].as_str().unwrap().to_owned()
}

/// Three indices, one of them never refreshed by time, with one document of 100 each, and a mapping.
fn make_sums(server: &Server) {
    let mappings = json!({"properties": {"n": {"type": "integer"}}});
    for (index, interval) in [("s0", "1s"), ("s1", "100ms"), ("s2", "-1")] {
        let body = json!({"settings": {"refresh_interval": interval}, "mappings": mappings});
        server.ok("PUT", &format!("/{index}"), &body);
        server.ok("PUT", &format!("/{index}/_doc/x?refresh=true"), &json!({"n": 100}));
    }
}

/// A change that keeps the sum of the three.
fn keep_sum(server: &Server, n: u64) {
    let add = |index: u64, by: i64| {
        json!({"update": {"_index": format!("s{}", index % 3), "_id": "x",
            "script": {"source": "ctx._source.n += params.by", "params": {"by": by}}}})
    };
    let refresh = if n.is_multiple_of(7) { "?refresh=true" } else { "" };
    let body = json!({"operations": [add(n, 7), add(n + 1, -7)]});
    server.ok("POST", &format!("/_transaction{refresh}"), &body);
}

/// Under writers that keep a sum over three indices, everything that a transaction reads is of one moment: the searches of an
/// `_msearch`, a search over all, GETs, with its own writes among them.
#[test]
fn contract_10_a_transaction_reads_one_moment_under_writers() {
    by_both_paths(|| {
        let (_folder, server) = start();
        make_sums(&server);
        let over = AtomicBool::new(false);
        let (reads, moves, distinct) = (
            AtomicU64::new(0),
            AtomicU64::new(0),
            Mutex::new(std::collections::BTreeSet::new()),
        );
        std::thread::scope(|scope| {
            for writer in 0..2_u64 {
                let (server, over, moves) = (&server, &over, &moves);
                scope.spawn(move || {
                    let mut n = writer;
                    while !over.load(Ordering::Relaxed) {
                        n += 1;
                        keep_sum(server, n);
                        moves.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for reader in 0..2_i64 {
                let (server, over, reads, distinct) = (&server, &over, &reads, &distinct);
                scope.spawn(move || {
                    let mut rounds = 0;
                    while !over.load(Ordering::Relaxed) {
                        rounds += 1;
                        let tx = begin(server, "");
                        let own = if rounds % 2 == 0 { 1000 * (reader + 1) } else { 0 };
                        if own > 0 {
                            let update = json!({"script": {"source": "ctx._source.n += params.by", "params": {"by": own}}});
                            server.ok("POST", &format!("/s1/_update/x?transaction={tx}"), &update);
                            server.ok("PUT", &format!("/s2/_doc/y?transaction={tx}"), &json!({"n": -own}));
                        }
                        let mut seen = Vec::new();
                        for _ in 0..3 {
                            let sum = json!({"size": 3, "aggs": {"sum": {"sum": {"field": "n"}}}});
                            let lines: String = ["s0", "s1", "s2"]
                                .iter()
                                .map(|index| format!("{}\n{sum}\n", json!({"index": index})))
                                .collect();
                            let answer = server.send("POST", &format!("/_msearch?transaction={tx}"), &lines).unwrap();
                            let each: Vec<f64> = answer.body["responses"]
                                .as_array()
                                .unwrap()
                                .iter()
                                .map(|r| r["aggregations"]["sum"]["value"].as_f64().unwrap())
                                .collect();
                            assert_eq!(each.iter().sum::<f64>(), 300.0, "mixed: {answer:?}");
                            let all = server.ok("POST", &format!("/s*/_search?transaction={tx}"), &sum);
                            assert_eq!(all["aggregations"]["sum"]["value"], 300.0, "{all}");
                            let by_id: i64 = (0..3)
                                .map(|n| {
                                    let got = server.ok("GET", &format!("/s{n}/_doc/x?transaction={tx}"), &Value::Null);
                                    got["_source"]["n"].as_i64().unwrap()
                                })
                                .sum();
                            assert_eq!(by_id, 300 + own, "GETs of one moment");
                            seen.push(each);
                            reads.fetch_add(5, Ordering::Relaxed);
                        }
                        assert!(seen.windows(2).all(|w| w[0] == w[1]), "the moment does not move: {seen:?}");
                        distinct.lock().unwrap().insert(seen[0][0] as i64);
                        server.ok("POST", &format!("/_transaction/{tx}/_abort"), &Value::Null);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(1000 * rounds(4)));
            over.store(true, Ordering::Relaxed);
        });
        println!("{reads:?} reads beside {moves:?} changes, none mixed");
        assert!(reads.into_inner() > 20 && moves.into_inner() > 10);
        assert!(
            distinct.into_inner().unwrap().len() > 1,
            "transactions begun later read later moments"
        );
    });
}

/// Clients that read a counter, add one and commit, beginning anew when refused: every commit counts, none is lost. Some
/// of them are refused.
#[test]
fn contract_11_counters_by_read_and_write() {
    by_both_paths(|| {
        let (_folder, server) = start();
        for index in ["left", "right"] {
            server.ok("PUT", &format!("/{index}/_doc/n"), &json!({"n": 0}));
        }
        let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let each = rounds(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let mut committed = 0;
                    while committed < each {
                        let tx = begin(&server, "");
                        for index in ["left", "right"] {
                            let path = format!("/{index}/_doc/n?transaction={tx}");
                            let n = server.ok("GET", &path, &Value::Null)["_source"]["n"].as_u64().unwrap();
                            server.ok("PUT", &path, &json!({"n": n + 1}));
                        }
                        let answer = server.call("POST", &format!("/_transaction/{tx}/_commit"), &Value::Null);
                        match answer.status {
                            200 => {
                                committed += 1;
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            409 => {
                                assert_eq!(answer.body["retryable"], true, "{answer:?}");
                                assert!(!answer.body["error"]["moved"].as_array().unwrap().is_empty());
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            _ => panic!("{answer:?}"),
                        }
                    }
                });
            }
        });
        for index in ["left", "right"] {
            let n = server.ok("GET", &format!("/{index}/_doc/n"), &Value::Null)["_source"]["n"].as_u64();
            assert_eq!(n, Some(6 * each), "{index}");
        }
        println!("{done:?} committed, {refused:?} refused");
        assert!(refused.into_inner() > 0, "six clients on two documents meet");
    });
}

/// Many requests of one transaction at once are one after the other; nothing of them is lost.
#[test]
fn contract_12_requests_of_one_transaction_at_once() {
    by_both_paths(|| {
        let (_folder, server) = start();
        server.ok("PUT", "/i/_doc/n?refresh=true", &json!({"n": 0}));
        let tx = begin(&server, "");
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (server, tx) = (&server, &tx);
                scope.spawn(move || {
                    for n in 0..5 {
                        let add = json!({"script": "ctx._source.n++"});
                        server.ok("POST", &format!("/i/_update/n?transaction={tx}"), &add);
                        server.ok("PUT", &format!("/i/_doc/{client}-{n}?transaction={tx}"), &json!({"m": 1}));
                        server.ok("GET", &format!("/i/_search?transaction={tx}"), &Value::Null);
                    }
                });
            }
        });
        let found = server.ok("GET", &format!("/i/_count?transaction={tx}"), &Value::Null);
        assert_eq!(found["count"], 41);
        let done = server.ok("POST", &format!("/_transaction/{tx}/_commit?refresh=true"), &Value::Null);
        assert_eq!(done["items"].as_array().unwrap().len(), 41);
        assert_eq!(server.ok("GET", "/i/_doc/n", &Value::Null)["_source"]["n"], 40);
        assert_eq!(server.ok("GET", "/i/_count", &Value::Null)["count"], 41);
    });
}

/// It lives by its keep alive, which every use renews.
#[test]
fn contract_13_keep_alive() {
    by_both_paths(|| {
        let (_folder, server) = start();
        server.ok("PUT", "/i/_doc/1?refresh=true", &json!({}));
        let (used, unused) = (begin(&server, "?keep_alive=1500ms"), begin(&server, "?keep_alive=1500ms"));
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(500));
            server.ok("GET", &format!("/i/_search?transaction={used}"), &Value::Null);
        }
        let late = server.call("GET", &format!("/i/_doc/1?transaction={unused}"), &Value::Null);
        assert_eq!(
            (late.status, &late.body["error"]["type"]),
            (409, &json!("transaction_aborted_exception")),
            "{late:?}"
        );
        server.ok("POST", &format!("/_transaction/{used}/_commit"), &Value::Null);
        let state = server.ok("GET", &format!("/_transaction/{unused}"), &Value::Null);
        assert_eq!(state["state"], "aborted");
        // Nobody asks for it, and its room is given back.
        begin(&server, "?keep_alive=1s");
        let until = Instant::now() + Duration::from_secs(20);
        while !server
            .ok("GET", "/_cat/transactions?format=json", &Value::Null)
            .as_array()
            .unwrap()
            .is_empty()
        {
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

const ACCOUNTS: u64 = 6;

/// Transfers in transactions, the server killed at any moment: what was committed stays and is answered again, of what was not
/// there is nothing, and whoever has no answer learns which.
#[test]
fn contract_13_and_33_commits_survive_kills() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        // Transactions without an answer of their commit, and those with one.
        let doubtful: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
        let committed: Mutex<BTreeMap<String, (String, u64)>> = Mutex::new(BTreeMap::new());
        let mut undone = 0;
        let mut recovered = 0;
        let rounds = rounds(4);
        for round in 0..=rounds {
            let server = Server::start_with(&data, &["es8"], &[&paths::setting()]);
            if round == 0 {
                for account in 0..ACCOUNTS {
                    server.ok(
                        "PUT",
                        &format!("/bank{}/_doc/{account}", account % 2),
                        &json!({"balance": 100}),
                    );
                }
            }
            for (tx, mark) in doubtful.lock().unwrap().drain(..) {
                let there = server.call("GET", &format!("/marks/_doc/{mark}"), &Value::Null).status == 200;
                let answer = server.call("POST", &format!("/_transaction/{tx}/_commit"), &Value::Null);
                match answer.status {
                    200 => {
                        assert_eq!(answer.body["replayed"], true);
                        assert!(there, "{mark} was committed and is not there");
                        let seq = answer.body["commit_seq"].as_u64().unwrap();
                        committed.lock().unwrap().insert(mark, (tx, seq));
                        recovered += 1;
                    }
                    409 => {
                        assert_eq!(answer.body["error"]["type"], "transaction_aborted_exception", "{answer:?}");
                        assert!(!there, "{mark} was aborted and is there");
                        undone += 1;
                    }
                    _ => panic!("{answer:?}"),
                }
            }
            let sum: i64 = (0..ACCOUNTS)
                .map(|account| {
                    let got = server.ok("GET", &format!("/bank{}/_doc/{account}", account % 2), &Value::Null);
                    got["_source"]["balance"].as_i64().unwrap()
                })
                .sum();
            assert_eq!(sum, 100 * ACCOUNTS as i64, "the total never changes");
            for (mark, (tx, seq)) in committed.lock().unwrap().iter().rev().take(20) {
                let marked = server.ok("GET", &format!("/marks/_doc/{mark}"), &Value::Null);
                assert_eq!(marked["_source"]["tx"], tx.as_str());
                let again = server.ok("POST", &format!("/_transaction/{tx}/_commit"), &Value::Null);
                assert_eq!(again["commit_seq"], *seq, "the answer is repeated");
                let state = server.ok("GET", &format!("/_transaction/{tx}"), &Value::Null);
                assert_eq!(state["state"], "committed");
            }
            if round == rounds {
                break;
            }
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 0..3_u64 {
                    let (server, over, doubtful, committed) = (&server, &over, &doubtful, &committed);
                    scope.spawn(move || {
                        let mut n = 0;
                        while !over.load(Ordering::Relaxed) {
                            n += 1;
                            let mark = format!("{round}-{thread}-{n}");
                            // Whatever fails for the kill ends this client.
                            let Some((tx, answer)) =
                                transfer(server, &mark, (thread + n) % ACCOUNTS, (n * 5 + 1) % ACCOUNTS, doubtful)
                            else {
                                return;
                            };
                            match answer.status {
                                200 => {
                                    let seq = answer.body["commit_seq"].as_u64().unwrap();
                                    committed.lock().unwrap().insert(mark, (tx, seq));
                                }
                                409 => assert_eq!(answer.body["retryable"], true, "{answer:?}"),
                                _ => panic!("{answer:?}"),
                            }
                        }
                    });
                }
                std::thread::sleep(Duration::from_millis(500 + 130 * (round % 5)));
                server.signal(libc::SIGKILL);
                over.store(true, Ordering::Relaxed);
            });
        }
        let known = committed.into_inner().unwrap().len();
        println!("{known} committed, {recovered} of them learned after a kill, {undone} aborted by one");
        assert!(known > 5);
    });
}

/// One transfer with a mark of its own; `None` if the server was killed meanwhile.
fn transfer(
    server: &Server,
    mark: &str,
    from: u64,
    to: u64,
    doubtful: &Mutex<Vec<(String, String)>>,
) -> Option<(String, Answer)> {
    let begun = server.send("POST", "/_transaction/_begin", "").ok()?;
    let tx = begun.body["id"].as_str()?.to_owned();
    for (account, by) in [(from, -1), (to, 1)] {
        let body = json!({"script": {"source": "ctx._source.balance += params.by", "params": {"by": by}}});
        let path = format!("/bank{}/_update/{account}?transaction={tx}", account % 2);
        server.send("POST", &path, &body.to_string()).ok()?;
    }
    let body = json!({"tx": tx}).to_string();
    server
        .send("PUT", &format!("/marks/_doc/{mark}?transaction={tx}"), &body)
        .ok()?;
    match server.send("POST", &format!("/_transaction/{tx}/_commit"), "") {
        Ok(answer) => Some((tx, answer)),
        Err(_) => {
            doubtful.lock().unwrap().push((tx, mark.to_owned()));
            None
        }
    }
}

/// What readers were shown is there after a kill, by every way of reading and whatever the durability; and no stamp
/// means two things.
#[test]
fn contract_14_no_read_shows_what_a_crash_takes_back() {
    by_both_paths(|| {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        const INDICES: [&str; 2] = ["synced", "late"];
        let stamps: Mutex<BTreeMap<(String, u64, u64), u64>> = Mutex::new(BTreeMap::new());
        let mut compared = 0;
        for round in 0..rounds(4) {
            let server = Server::start_with(&data, &["es8"], &[&paths::setting()]);
            if round == 0 {
                for (index, durability) in INDICES.iter().zip(["request", "async"]) {
                    let body = json!({"settings": {"translog": {"durability": durability}, "refresh_interval": "50ms"},
                    "mappings": {"properties": {"n": {"type": "long"}}}});
                    server.ok("PUT", &format!("/{index}"), &body);
                }
            }
            let over = AtomicBool::new(false);
            // By index and document, the largest value that anybody was shown.
            let shown: Mutex<BTreeMap<(&str, String), u64>> = Mutex::new(BTreeMap::new());
            let see = |index: &'static str, hit: &Value| {
                let n = hit["_source"]["n"].as_u64().unwrap();
                let id = hit["_id"].as_str().unwrap().to_owned();
                let mut shown = shown.lock().unwrap();
                let most = shown.entry((index, id.clone())).or_default();
                *most = n.max(*most);
                if let (Some(seq_no), Some(term)) = (hit["_seq_no"].as_u64(), hit["_primary_term"].as_u64()) {
                    let known = *stamps.lock().unwrap().entry((index.to_owned(), seq_no, term)).or_insert(n);
                    assert_eq!(known, n, "[{index}][{id}] has two values at {seq_no}, {term}");
                }
            };
            std::thread::scope(|scope| {
                for (thread, index) in INDICES.into_iter().enumerate() {
                    let (server, over) = (&server, &over);
                    scope.spawn(move || {
                        // Values grow over all rounds and are of one document each, so that a stamp tells its value.
                        let mut n = round * 1_000_000 + 1;
                        while !over.load(Ordering::Relaxed) {
                            n += 1;
                            let body = json!({"n": n * 2 + thread as u64}).to_string();
                            if server.send("PUT", &format!("/{index}/_doc/{}", n % 3), &body).is_err() {
                                return;
                            }
                        }
                    });
                }
                for way in 0..3 {
                    let (server, over, see) = (&server, &over, &see);
                    scope.spawn(move || {
                        while !over.load(Ordering::Relaxed) {
                            for index in INDICES {
                                let asked = match way {
                                    0 => server.send("GET", &format!("/{index}/_doc/1"), ""),
                                    1 => server.send("GET", &format!("/{index}/_search?seq_no_primary_term=true"), ""),
                                    _ => server.send("POST", "/_transaction/_begin", "").and_then(|begun| {
                                        let tx = begun.body["id"].as_str().unwrap_or_default().to_owned();
                                        let got = server.send("GET", &format!("/{index}/_doc/2?transaction={tx}"), "");
                                        server.send("POST", &format!("/_transaction/{tx}/_abort"), "").and(got)
                                    }),
                                };
                                let Ok(answer) = asked else { return };
                                if let Some(hits) = answer.body["hits"]["hits"].as_array() {
                                    hits.iter().for_each(|hit| see(index, hit));
                                } else if answer.body["found"] == true {
                                    see(index, &answer.body);
                                }
                            }
                        }
                    });
                }
                std::thread::sleep(Duration::from_millis(600 + 110 * (round % 4)));
                server.signal(libc::SIGKILL);
                over.store(true, Ordering::Relaxed);
            });
            drop(server);
            let server = Server::start_with(&data, &["es8"], &[&paths::setting()]);
            let shown = shown.into_inner().unwrap();
            assert!(!shown.is_empty(), "readers saw something");
            for ((index, id), most) in shown {
                let now = server.ok("GET", &format!("/{index}/_doc/{id}"), &Value::Null);
                let n = now["_source"]["n"].as_u64();
                assert!(n >= Some(most), "[{index}][{id}]: {most} was shown, {n:?} is there");
                compared += 1;
            }
            // Killed again, so that the next round begins with another term.
            server.signal(libc::SIGKILL);
        }
        println!("{compared} documents as they were shown, or newer");
    });
}

/// When a lock's time is over: `release` keeps its transaction from committing, `abort` ends it at once.
#[test]
fn contract_24_leases_that_expire() {
    by_both_paths(|| {
        let (_folder, server) = start();
        server.ok("PUT", "/i/_doc/1?refresh=true", &json!({"n": 1}));
        let lock = |how: &str, id: &str| {
            let body = json!({"keep_alive": "1s", "on_expire": how, "targets": [{"index": "i", "id": id}]});
            server.ok("POST", "/_lock", &body)["id"].as_str().unwrap().to_owned()
        };
        let (release, abort) = (lock("release", "1"), lock("abort", "2"));
        let released = begin(&server, &format!("?lock={release}"));
        let aborted = begin(&server, &format!("?lock={abort}"));
        for (tx, id) in [(&released, "1"), (&aborted, "2")] {
            server.ok("PUT", &format!("/i/_doc/{id}?transaction={tx}"), &json!({"n": 2}));
        }
        // Nobody touches either: the one is gone by itself, the other stays.
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let open = server.ok("GET", "/_cat/transactions?format=json", &Value::Null);
            let open: Vec<&str> = open.as_array().unwrap().iter().filter_map(|row| row["id"].as_str()).collect();
            assert!(open.contains(&released.as_str()), "{open:?}");
            if open.len() == 1 {
                break;
            }
            assert!(Instant::now() < until, "{open:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let gone = server.call("GET", &format!("/i/_doc/1?transaction={aborted}"), &Value::Null);
        assert_eq!(
            (gone.status, &gone.body["error"]["type"]),
            (409, &json!("transaction_aborted_exception")),
            "{gone:?}"
        );
        std::thread::sleep(Duration::from_millis(200));
        let late = server.call("POST", &format!("/_transaction/{released}/_commit"), &Value::Null);
        assert_eq!(
            (late.status, &late.body["error"]["type"]),
            (409, &json!("lock_expired_exception")),
            "{late:?}"
        );
        let seen = server.ok("GET", &format!("/i/_doc/1?transaction={released}"), &Value::Null);
        assert_eq!(seen["_source"]["n"], 2, "it still reads");
        assert_eq!(server.ok("GET", "/i/_doc/1", &Value::Null)["_source"]["n"], 1);
    });
}
