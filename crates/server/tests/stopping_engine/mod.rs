//! A server over an engine that stops in the middle of applying a change, or refuses what it comes to.
//!
//! Not here: what is asked of it (`read_levels`, `stuck_changes`).

#![allow(dead_code, reason = "each of those who share it uses a part")]

use crate::fixtures::{Sleep, commits};
use async_trait::async_trait;
use disk::FaultyDisk;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::{
    Around, AtomicWrites, Clock, Engine, Gate, Hide, Looker, Outcome, Refresh, Staging, TxnBody, TxnOptions, TxnResult, Write,
};
use model::{DocAddress, Error, Persona, Result};
use rest::{Names, Rest};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// Runs on every way out: a thread that others wait for must not wait for a test that has failed.
pub(crate) struct Finally<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Applies the first document of a change that is committed, then stops.
#[derive(Debug)]
pub(crate) struct Halfway {
    /// Written once, before the next decision that excludes all others.
    pub(crate) before_exclusive: Mutex<Option<Write>>,
    inner: Arc<EmbeddedEngine>,
    armed: AtomicBool,
    committed: AtomicBool,
    reached: AtomicBool,
    /// What brings an outcome to this document is refused so.
    pub(crate) refuses: Mutex<Option<(DocAddress, Error)>>,
    pub(crate) go_on: Notify,
}

impl Halfway {
    pub(crate) fn arm(&self) {
        self.reached.store(false, Ordering::SeqCst);
        self.committed.store(false, Ordering::SeqCst);
        self.armed.store(true, Ordering::SeqCst);
    }
    /// The change that was stopped goes on if the test has failed.
    pub(crate) fn let_go(&self) -> Finally<impl FnMut() + '_> {
        Finally(|| {
            if std::thread::panicking() {
                self.go_on.notify_one();
            }
        })
    }
    pub(crate) fn wait(&self) {
        let began = Instant::now();
        while !self.reached.load(Ordering::SeqCst) {
            assert!(began.elapsed() < Duration::from_secs(20), "the change is applied");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Halfway {
    async fn as_it_likes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        let refuses = self.refuses.lock().unwrap().clone();
        let Some((at, error)) = refuses else {
            return self.inner.write(writes, refresh).await;
        };
        let mut outcomes = Vec::with_capacity(writes.len());
        for write in writes {
            let brings = match &write.hide {
                Hide::Set(hidden) => !hidden.held && hidden.body["t"].is_array() && hidden.body["since"].is_null(),
                _ => false,
            };
            match brings && write.at == at {
                true => outcomes.push(Outcome::Refused(error.clone())),
                false => outcomes.extend(self.inner.write(vec![write], refresh).await?),
            }
        }
        Ok(outcomes)
    }
}

#[async_trait]
impl Around for Halfway {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    async fn writes(&self, writes: Vec<Write>, refresh: Refresh) -> Result<Vec<Outcome>> {
        if self.armed.load(Ordering::SeqCst) && writes.iter().any(commits) {
            self.committed.store(true, Ordering::SeqCst);
        }
        let applies = writes.len() > 1 && writes.iter().all(|write| !write.at.index.as_str().starts_with('.'));
        if applies && self.committed.swap(false, Ordering::SeqCst) {
            self.armed.store(false, Ordering::SeqCst);
            let mut rest = writes;
            let first = vec![rest.remove(0)];
            let mut outcomes = self.as_it_likes(first, refresh).await?;
            self.reached.store(true, Ordering::SeqCst);
            self.go_on.notified().await;
            outcomes.extend(self.as_it_likes(rest, refresh).await?);
            return Ok(outcomes);
        }
        self.as_it_likes(writes, refresh).await
    }
    fn section(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
    fn inner_staging(&self) -> Option<&dyn Staging> {
        self.inner.staging()
    }
}

#[async_trait]
impl AtomicWrites for Halfway {
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        let atomic = self.inner.atomic().unwrap();
        if how.gate == Gate::Exclusive {
            let write = self.before_exclusive.lock().unwrap().take();
            if let Some(write) = write {
                self.inner.write(vec![write], Refresh::No).await?;
            }
        }
        atomic.decide(plan, how).await
    }
    async fn wait_exclusive_durable(&self) -> Result<()> {
        self.inner.atomic().unwrap().wait_exclusive_durable().await
    }
    async fn look(&self, look: &mut Looker<'_>) {
        self.inner.atomic().unwrap().look(look).await;
    }
}

pub(crate) struct Served {
    pub(crate) engine: Arc<Halfway>,
    address: String,
}

impl Served {
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = std::net::TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
    pub(crate) fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.send(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }
    pub(crate) fn get(&self, path: &str) -> Value {
        self.ok("GET", path, &Value::Null)
    }
    pub(crate) fn sum(&self, path: &str) -> (i64, Value) {
        let answer = self.ok("POST", path, &json!({"aggs": {"sum": {"sum": {"field": "n"}}}, "size": 0}));
        (
            answer["aggregations"]["sum"]["value"].as_f64().unwrap() as i64,
            answer["_changes"].clone(),
        )
    }
    /// Sends a change; between its commit and its end `shut` is done, so that its outcome is told unknown. What it was told.
    pub(crate) fn shut_in_between(&self, body: &Value, (method, path, shut): &(&str, &str, Value)) -> Value {
        std::thread::scope(|scope| {
            self.engine.arm();
            let _let_go = self.engine.let_go();
            let change = scope.spawn(|| self.send("POST", "/_transaction", body));
            self.engine.wait();
            self.ok(method, path, shut);
            self.engine.go_on.notify_one();
            let (status, answer) = change.join().unwrap();
            assert_eq!((status, &answer["error"]["outcome"]), (503, &json!("unknown")), "{answer}");
            answer
        })
    }
    pub(crate) fn transfer(&self) -> Value {
        let add = |index: &str, id: &str, by: i64| json!({"update": {"_index": index, "_id": id, "script": {"source": "ctx._source.n += params.by", "params": {"by": by}}}});
        let body = json!({"operations": [add("left", "0", -1), add("right", "1", 1)]});
        self.ok("POST", "/_transaction", &body)
    }
}

/// A server by the portable path over an engine that can be stopped, and what is done with it.
pub(crate) fn with_server(test: impl FnOnce(&Served) + Send) {
    with_server_by(true, test);
}

/// The same, by the portable path or not.
pub(crate) fn with_server_by(portable: bool, test: impl FnOnce(&Served) + Send) {
    started(&FaultyDisk::new(1), portable, |served| {
        for (index, id) in [("left", "0"), ("right", "1"), ("other", "2")] {
            served.ok("PUT", &format!("/{index}/_doc/{id}"), &json!({"n": 100}));
        }
        test(served);
    });
}

/// A server on what is on this disk.
pub(crate) fn started(disk: &FaultyDisk, portable: bool, test: impl FnOnce(&Served) + Send) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let limits = Limits {
        log_file_bytes: 4 << 20,
        queue_bytes: 1 << 20,
        ..Limits::default()
    };
    let inner = EmbeddedEngine::open_on(Arc::new(disk.of_one_process()), Path::new("/data"), clock.clone(), limits).unwrap();
    let engine = Arc::new(Halfway {
        before_exclusive: Mutex::default(),
        inner: Arc::new(inner),
        armed: AtomicBool::default(),
        committed: AtomicBool::default(),
        reached: AtomicBool::default(),
        refuses: Mutex::default(),
        go_on: Notify::new(),
    });
    serving(engine.clone(), clock, portable, |address| test(&Served { engine, address }));
}

/// A server over this engine; the test is told its address.
pub(crate) fn serving(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, portable: bool, test: impl FnOnce(String) + Send) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let names = Names {
        cluster: "c".into(),
        cluster_uuid: "u".into(),
        node: "n".into(),
        node_id: "i".into(),
        server: "n1".into(),
        product_header: true,
        address: String::new(),
    };
    let bounds = rest::Limits {
        body_max_bytes: 1 << 20,
        breakers: engine::breaker::CircuitBreakers::without_limits(),
        depths: model::Depths::default(),
        tasks_kept_max: 10,
    };
    let rest = Rest::new(engine, clock, names, bounds);
    let rest = Arc::new(match portable {
        true => rest.by_portable_path(Arc::new(Sleep)),
        false => rest,
    });
    let (stop, stopped) = watch::channel(false);
    let address = runtime.block_on(async {
        rest.recover().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(rest::serve(
            rest,
            vec![rest::Listener {
                socket: rest::ListeningSocket::Tcp(listener),
                persona: Persona::Es8,
                tls: None,
            }],
            stopped,
            Duration::from_secs(1),
        ));
        address
    });
    test(address);
    stop.send(true).unwrap();
    runtime.shutdown_timeout(Duration::from_secs(5));
}
