//! Clients that hang up at every step of a request: whatever the server was doing is carried through, and nothing is left that
//! only this process could end.
//!
//! Not here: servers that stop (`crash`), what a change that is stopped shows (`read_levels`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fixtures;
mod stopping_engine;

use async_trait::async_trait;
use disk::FaultyDisk;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{
    Around, AtomicWrites, Clock, Document, Engine, Looker, Outcome, Read, Refresh, Staging, TxnBody, TxnOptions, TxnResult, Write,
};
use model::Result;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use stopping_engine::serving;

/// No request of these takes so many steps.
const STEPS_MAX: i64 = 80;
/// Until a server has seen that its client is gone.
const SEEN: Duration = Duration::from_millis(15);

/// Stops before one of the calls that the server makes of its store.
#[derive(Debug)]
struct Steps {
    inner: Arc<EmbeddedEngine>,
    /// Calls until it stops.
    left: AtomicI64,
    stops: AtomicBool,
}

impl Steps {
    fn arm(&self, calls: i64) {
        self.stops.store(false, Ordering::SeqCst);
        self.left.store(calls, Ordering::SeqCst);
    }
    fn go_on(&self) {
        self.left.store(i64::MAX, Ordering::SeqCst);
        self.stops.store(false, Ordering::SeqCst);
    }
    async fn step(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) != 0 {
            return;
        }
        self.stops.store(true, Ordering::SeqCst);
        while self.stops.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[async_trait]
impl Around for Steps {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    async fn reads(&self, reads: Vec<Read>) -> Result<Vec<Option<Document>>> {
        self.step().await;
        Engine::read(&*self.inner, reads).await
    }
    async fn writes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        self.step().await;
        self.inner.write(writes, refresh).await
    }
    fn section(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
    fn inner_staging(&self) -> Option<&dyn Staging> {
        self.inner.staging()
    }
}

#[async_trait]
impl AtomicWrites for Steps {
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        self.step().await;
        self.inner.atomic().unwrap().decide(plan, how).await
    }
    async fn wait_exclusive_durable(&self) -> Result<()> {
        self.inner.atomic().unwrap().wait_exclusive_durable().await
    }
    async fn look(&self, look: &mut Looker<'_>) {
        self.inner.atomic().unwrap().look(look).await;
    }
}

struct Client {
    address: String,
}

impl Client {
    /// Sends a request; its answer is not waited for.
    fn begin(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }
    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut text = String::new();
        self.begin(method, path, &body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }
    fn n(&self, path: &str) -> i64 {
        self.ok("GET", path, &Value::Null)["_source"]["n"].as_i64().unwrap()
    }
}

/// Waits until it holds; what it is else, in words.
fn in_time(what: &str, holds: impl Fn() -> std::result::Result<(), String>) {
    let begun = Instant::now();
    while let Err(why) = holds() {
        assert!(begun.elapsed() < Duration::from_secs(5), "{what}: {why}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Nothing is left of a request: no change, no job, and its documents can be written.
fn nothing_is_left(client: &Client, what: &str) {
    let begun = Instant::now();
    for id in ["1", "2"] {
        let (status, answer) = client.send("POST", &format!("/locked/_update/{id}"), &json!({"doc": {"later": true}}));
        assert_eq!(status, 200, "{what}: {answer}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{what}: writes wait");
    in_time(what, || {
        let open = client.ok("GET", "/_cat/transactions?format=json", &Value::Null);
        let jobs = client.ok("GET", "/_tasks?actions=*byquery", &Value::Null);
        let is_idle = open == json!([]) && !jobs.to_string().contains("byquery");
        is_idle.then_some(()).ok_or_else(|| format!("{open} {jobs}"))
    });
}

/// Sends the request again and again, and hangs up before each call of the store in turn; `before` makes the path, `after` looks.
fn at_every_step(
    steps: &Steps,
    client: &Client,
    method: &str,
    body: &str,
    before: impl Fn() -> String,
    after: impl Fn(&str),
) -> i64 {
    for step in 0..STEPS_MAX {
        let path = before();
        steps.arm(step);
        let stream = client.begin(method, &path, body);
        stream.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        let is_answered = loop {
            if steps.stops.load(Ordering::SeqCst) {
                break false;
            }
            if stream.peek(&mut [0]).is_ok() {
                break true;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{method} {path}, step {step}");
            std::thread::sleep(Duration::from_millis(1));
        };
        drop(stream);
        std::thread::sleep(SEEN);
        steps.go_on();
        let what = format!("{method} {path}, hung up at step {step}");
        after(&what);
        nothing_is_left(client, &what);
        if is_answered {
            return step;
        }
    }
    panic!("{method}: more than {STEPS_MAX} steps")
}

fn hang_up(portable: bool) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 1 << 20,
        ..Limits::default()
    };
    let disk = Arc::new(FaultyDisk::new(1));
    let inner = Arc::new(EmbeddedEngine::open_on(disk, Path::new("/data"), clock.clone(), limits).unwrap());
    let steps = Arc::new(Steps {
        inner,
        left: AtomicI64::new(i64::MAX),
        stops: AtomicBool::default(),
    });
    serving(steps.clone(), clock, portable, |address| {
        let client = &Client { address };
        client.ok("PUT", "/locked", &json!({"settings": {"index.pleach.locks": "enforced"}}));
        for id in ["1", "2"] {
            client.ok("PUT", &format!("/locked/_doc/{id}"), &json!({"n": 100}));
        }
        client.ok("POST", "/locked/_refresh", &Value::Null);
        let same = |path: &'static str| move || path.to_owned();
        let none = |_: &str| {};
        let whole = |what: &str| {
            in_time(what, || {
                let sum = client.n("/locked/_doc/1") + client.n("/locked/_doc/2");
                (sum == 200).then_some(()).ok_or_else(|| format!("a sum of {sum}"))
            });
        };
        at_every_step(&steps, client, "PUT", "{\"n\":100}", same("/locked/_doc/1"), none);
        at_every_step(&steps, client, "POST", "{\"doc\":{\"m\":1}}", same("/locked/_update/1"), none);
        let lines = "{\"update\":{\"_id\":\"1\"}}\n{\"doc\":{\"m\":2}}\n{\"update\":{\"_id\":\"2\"}}\n{\"doc\":{\"m\":2}}\n";
        at_every_step(&steps, client, "POST", lines, same("/locked/_bulk"), none);
        let add = |id: &str, by: i64| json!({"update": {"_index": "locked", "_id": id, "script": {"source": "ctx._source.n += params.by", "params": {"by": by}}}});
        let change = json!({"operations": [add("1", -1), add("2", 1)]}).to_string();
        let took = at_every_step(&steps, client, "POST", &change, same("/_transaction"), whole);
        if portable {
            assert!(took > 5, "each step of the protocol: {took}");
        }
        let job = json!({"script": {"source": "ctx._source.m = 3"}}).to_string();
        let by_query = same("/locked/_update_by_query?conflicts=proceed");
        at_every_step(&steps, client, "POST", &job, by_query, none);
        let begin = || {
            let begun = client.ok("POST", "/_transaction/_begin", &Value::Null);
            let id = begun["id"].as_str().unwrap();
            for (doc, by) in [("1", -1), ("2", 1)] {
                let script = json!({"script": {"source": "ctx._source.n += params.by", "params": {"by": by}}});
                client.ok("POST", &format!("/locked/_update/{doc}?transaction={id}"), &script);
            }
            format!("/_transaction/{id}/_commit")
        };
        let asked_again = |what: &str| {
            let path = what.split([' ', ',']).nth(1).unwrap();
            let (status, answer) = client.send("POST", path, &Value::Null);
            assert_eq!(status, 200, "{what}: it was committed: {answer}");
            whole(what);
        };
        at_every_step(&steps, client, "POST", "", begin, asked_again);
    });
}

#[test]
fn clients_that_hang_up_at_every_step() {
    hang_up(false);
}

#[test]
fn clients_that_hang_up_at_every_step_of_the_portable_path() {
    hang_up(true);
}
