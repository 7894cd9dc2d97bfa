//! The control index damaged, and refusing: a start that serves what does not rest on it, the repair, ends of leases that are
//! tried again.
//!
//! Not here: requests of clients that would alter it (package `tests`, `system_indices`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use async_trait::async_trait;
use embedded::{EmbeddedEngine, Limits};
use engine::clock::SystemClock;
use engine::tasks::Tasks;
use engine::{
    Around, AtomicWrites, Clock, Engine, EngineExt as _, Looker, Outcome, Refresh, Source, TxnBody, TxnOptions, TxnResult, Write,
    WriteOp, address,
};
use model::{DocId, Error, ErrorKind, Result};
use relations::Relations;
use relations::leases::{Ask, Asked, Lease, OnExpire, Wanted};
use relations::locks::{LockTarget, Mode};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("pleach-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder.join("data"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(self.0.parent().unwrap()));
    }
}

fn relations_over(engine: Arc<dyn Engine>) -> Relations {
    Relations::new(engine, Arc::new(SystemClock::default()), Arc::new(Tasks::new(10)), "n1")
}

fn opened(folder: &Path) -> Arc<EmbeddedEngine> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    Arc::new(EmbeddedEngine::open(folder, clock, Limits::default()).unwrap())
}

async fn lock(relations: &Relations, name: &str, keep_alive: u64) -> Result<Lease> {
    let ask = Ask {
        lock: None,
        owner: name.to_owned(),
        targets: vec![Wanted {
            target: LockTarget::Name(name.into()),
            mode: Mode::Exclusive,
        }],
        keep_alive: Some(Duration::from_secs(keep_alive)),
        on_expire: OnExpire::Release,
        on_disconnect_release: false,
        connection: None,
        wait: false,
        place: None,
    };
    match relations.acquire(&ask).await? {
        Asked::Granted(lease) => Ok(*lease),
        Asked::Queued(..) => unreachable!("it does not wait"),
    }
}

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

fn check(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let done = pleach().arg("check").arg(folder).args(more).output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    (done.status.code(), said)
}

/// The binary, without the variables of the tests: they are no settings of a server, which would refuse them.
fn pleach() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pleach"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PLEACH_") {
            command.env_remove(name);
        }
    }
    command
}

/// A running server; killed when dropped.
struct Server(Child, String);

impl Server {
    fn start(folder: &Path) -> Server {
        let mut child = pleach()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder)
            .current_dir(folder.parent().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = |line: &String| line.strip_prefix("listening on http://").map(str::to_owned);
        let listening = lines
            .find_map(|line| said(&line.unwrap()))
            .expect("the server says where it listens");
        let address = listening.split(' ').next().unwrap().to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Server(child, address)
    }
    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.1).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n",
            self.1
        );
        stream
            .write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn control(id: &str) -> model::DocAddress {
    address(relations::schema::CONTROL, DocId::plain(id))
}

/// A document that cannot be read: the server starts, says so, refuses what rests on it and nothing else; the repair takes that
/// document out, leaves the others, and tokens rise.
#[test]
fn a_damaged_document_does_not_keep_the_server_from_starting() {
    let folder = Folder::new("damaged");
    let before = in_runtime(async {
        let engine = opened(&folder.0);
        let relations = relations_over(engine.clone());
        relations.recover().await.unwrap();
        let lease = lock(&relations, "kept", 3600).await.unwrap();
        let damaged = Source::from_value(&json!({ "kind": "lease", "at": 1 }));
        let write = Write::new(control("s:bad"), WriteOp::Put(damaged));
        assert!(matches!(
            engine.write_one(write, Refresh::No).await.unwrap(),
            Outcome::Written(_)
        ));
        engine.close().unwrap();
        lease
    });
    // A folder that a server made has it; without it, it would not say by which path changes are made.
    let identity = json!({ "cluster_uuid": "u", "node_id": "n", "changes_path": "auto" });
    std::fs::write(folder.0.join("identity.json"), identity.to_string()).unwrap();
    let (code, said) = check(&folder.0, &[]);
    assert!(
        code == Some(1) && said.contains("1 locks") && said.contains("document [s:bad] is damaged"),
        "{said}"
    );
    {
        let server = Server::start(&folder.0);
        assert_eq!(
            server.call("PUT", "/i/_doc/1?refresh=true", &json!({ "a": 1 })).0,
            201,
            "it serves"
        );
        assert_eq!(server.call("GET", "/i/_search", &Value::Null).1["hits"]["total"]["value"], 1);
        let change = json!({ "operations": [{ "index": { "_index": "i", "_id": "2", "doc": {} } }] });
        assert_eq!(
            server
                .call("PUT", "/enforced", &json!({ "settings": { "pleach.locks": "enforced" } }))
                .0,
            200
        );
        for (method, path, body) in [
            ("POST", "/_lock", json!({ "targets": [{ "name": "x" }] })),
            ("GET", "/_lock", Value::Null),
            ("POST", &*format!("/_lock/{}/_renew", before.id), Value::Null),
            ("DELETE", &*format!("/_lock/{}", before.id), Value::Null),
            ("POST", "/_transaction", change),
            ("POST", "/_transaction/_begin", Value::Null),
            ("PUT", "/enforced/_doc/1", json!({})),
            ("PUT", &*format!("/i/_doc/1?lock={}", before.id), json!({})),
        ] {
            let (status, answer) = server.call(method, path, &body);
            assert_eq!(status, 503, "{method} {path}: {answer}");
            assert!(
                answer.to_string().contains("pleach check DIR --repair-control"),
                "{method} {path}: {answer}"
            );
        }
        assert_eq!(server.call("GET", "/_cluster/health", &Value::Null).1["status"], "red");
        let (_, stats) = server.call("GET", "/_nodes/stats", &Value::Null);
        let nodes = stats["nodes"].as_object().unwrap();
        assert!(
            nodes
                .values()
                .all(|node| node["pleach"]["troubles"].to_string().contains("repair-control")),
            "{stats}"
        );
        let (code, said) = check(&folder.0, &["--repair-control"]);
        assert!(code == Some(1) && said.contains("in use"), "{said}");
    }
    let (code, said) = check(&folder.0, &["--repair-control"]);
    assert!(
        code == Some(0) && said.contains("document [s:bad] was taken out") && said.contains("1 locks"),
        "{said}"
    );
    let (code, said) = check(&folder.0, &[]);
    assert!(
        code == Some(0) && said.contains("1 locks") && said.contains("0 damaged documents"),
        "{said}"
    );
    let token = in_runtime(async {
        let engine = opened(&folder.0);
        let relations = relations_over(engine.clone());
        relations.recover().await.unwrap();
        assert_eq!(
            lock(&relations, "kept", 60).await.unwrap_err().kind(),
            ErrorKind::LockConflict
        );
        let token = lock(&relations, "other", 60).await.unwrap().token;
        assert!(token > before.token);
        // As the repair does with an index that cannot be read at all.
        engine.remake_control().await.unwrap();
        assert_eq!(
            relations.control_contents().await.unwrap().map(|contents| contents.locks),
            Some(0)
        );
        engine.close().unwrap();
        token
    });
    in_runtime(async {
        let relations = relations_over(opened(&folder.0));
        relations.recover().await.unwrap();
        let again = lock(&relations, "kept", 60).await.unwrap();
        assert!(again.token > token, "{} after {token}", again.token);
        // Whatever number of unclean starts is behind it.
        assert!(again.token - token < 1 << 40, "{} after {token}", again.token);
    });
}

#[test]
fn what_is_no_data_folder_is_not_made_one() {
    let folder = Folder::new("none");
    std::fs::create_dir_all(&folder.0).unwrap();
    let (code, said) = check(&folder.0, &["--repair-control"]);
    assert!(code == Some(1) && said.contains("is no data folder"), "{said}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

/// Refuses what is decided, as an engine does that has no room or a block.
#[derive(Debug)]
struct Refusing {
    inner: Arc<EmbeddedEngine>,
    refuses: AtomicBool,
}

#[async_trait]
impl Around for Refusing {
    fn inner(&self) -> &dyn Engine {
        &*self.inner
    }
    fn section(&self) -> Option<&dyn AtomicWrites> {
        Some(self)
    }
}

#[async_trait]
impl AtomicWrites for Refusing {
    async fn decide(&self, plan: &mut TxnBody<'_>, how: TxnOptions) -> Result<TxnResult> {
        if self.refuses.load(Ordering::Relaxed) {
            let refused = Error::new(ErrorKind::DiskFull, "no room for the control index");
            return Ok(TxnResult {
                commit_seq: 0,
                outcomes: vec![Outcome::Refused(refused)],
            });
        }
        self.inner.atomic().unwrap().decide(plan, how).await
    }
    async fn wait_exclusive_durable(&self) -> Result<()> {
        self.inner.atomic().unwrap().wait_exclusive_durable().await
    }
    async fn look(&self, look: &mut Looker<'_>) {
        self.inner.atomic().unwrap().look(look).await;
    }
}

/// A lease whose end is refused stays over for its owner and held for others, and ends once it can be written.
#[test]
fn an_end_that_is_refused_is_tried_again() {
    let folder = Folder::new("refused");
    in_runtime(async {
        let engine = Arc::new(Refusing {
            inner: opened(&folder.0),
            refuses: AtomicBool::new(false),
        });
        let relations = relations_over(engine.clone());
        relations.recover().await.unwrap();
        let one = lock(&relations, "one", 1).await.unwrap();
        let two = lock(&relations, "two", 1).await.unwrap();
        engine.refuses.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        let mut refused = 0;
        while begun.elapsed() < Duration::from_millis(2500) {
            refused += u32::from(relations.sweep().await.is_err());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!((2..=8).contains(&refused), "it is tried again, later and later: {refused}");
        let troubles = relations.troubles();
        assert!(
            troubles
                .iter()
                .any(|t| t.work == "leases" && t.failures >= 2 && t.reason.contains("no room")),
            "{troubles:?}"
        );
        assert_eq!(relations.leases().len(), 2, "held for others");
        for lease in [&one, &two] {
            assert_eq!(relations.lease(&lease.id).unwrap_err().kind(), ErrorKind::LockExpired);
            // What is not written might be otherwise after a restart: nobody is told.
            let untold = relations.unwritten_ends(&[lease.id.to_string()]).await.unwrap_err();
            assert_eq!((untold.status(), untold.kind()), (503, ErrorKind::Unavailable), "{untold}");
            assert!(untold.reason().contains("no room"), "{untold}");
        }
        engine.refuses.store(false, Ordering::Relaxed);
        let until = Instant::now() + Duration::from_secs(5);
        while !relations.leases().is_empty() {
            assert!(Instant::now() < until, "they end once their end can be written");
            drop(relations.sweep().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(relations.troubles().is_empty());
        assert!(lock(&relations, "one", 1).await.unwrap().token > two.token);
    });
}

/// Flips a bit in every place of every segment file that has these bytes.
fn flip_in_segments(folder: &Path, needle: &[u8]) -> usize {
    let mut flipped = 0;
    for file in std::fs::read_dir(folder.join("segments")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(needle)).collect();
        for at in &places {
            bytes[*at] ^= 1;
        }
        if !places.is_empty() {
            std::fs::write(&path, bytes).unwrap();
        }
        flipped += places.len();
    }
    flipped
}

/// One damaged segment: `check` and the server tell of it, by file and byte; everything else works; a repair gives that
/// segment up and says so.
#[test]
fn a_damaged_index_is_told_and_given_up() {
    let folder = Folder::new("segment");
    {
        let server = Server::start(&folder.0);
        for index in ["good", "bad"] {
            let (status, answer) = server.call(
                "PUT",
                &format!("/{index}/_doc/1"),
                &json!({ "text": format!("zz{index}needle") }),
            );
            assert_eq!(status, 201, "{answer}");
        }
        assert_eq!(server.call("POST", "/_flush", &Value::Null).0, 200);
    }
    assert!(flip_in_segments(&folder.0, b"zzbadneedle") > 0);
    std::fs::remove_file(folder.0.join("identity.json")).unwrap();
    let (code, said) = check(&folder.0, &[]);
    assert!(
        code == Some(1)
            && said.contains("index [bad] is damaged: [segments/checkpoint-")
            && said.contains("offset [")
            && said.contains("--repair gives up")
            && said.contains("[identity.json] is missing"),
        "{said}"
    );
    {
        let server = Server::start(&folder.0);
        let (_, found) = server.call("GET", "/bad,good/_search", &Value::Null);
        assert_eq!(found["_shards"]["failed"], 1, "{found}");
        assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
        // Cursors are answered in part as searches are, unless they are to be whole.
        let (status, page) = server.call("GET", "/bad,good/_search?scroll=1m&size=1", &Value::Null);
        assert_eq!((status, &page["_shards"]["failed"]), (200, &json!(1)), "{page}");
        assert_eq!(page["hits"]["total"]["value"], 1, "{page}");
        let next = json!({ "scroll_id": page["_scroll_id"], "scroll": "1m" });
        let (status, page) = server.call("GET", "/_search/scroll", &next);
        assert_eq!((status, &page["_shards"]["failed"]), (200, &json!(1)), "{page}");
        let whole = "/bad,good/_search?scroll=1m&allow_partial_search_results=false";
        assert!(server.call("GET", whole, &Value::Null).0 >= 500);
        assert!(
            server.call("GET", "/bad/_search?scroll=1m", &Value::Null).0 >= 500,
            "nothing is left"
        );
        let pit = "/bad,good/_pit?keep_alive=1m";
        assert!(server.call("POST", pit, &Value::Null).0 >= 500, "a point in time is whole");
        let (status, opened) = server.call("POST", &format!("{pit}&allow_partial_search_results=true"), &Value::Null);
        assert_eq!((status, &opened["_shards"]["failed"]), (200, &json!(1)), "{opened}");
        assert_eq!(opened["_shards"]["failures"][0]["index"], "bad", "{opened}");
        let mut search = json!({ "pit": { "id": opened["id"] } });
        let (status, found) = server.call("POST", "/_search", &search);
        assert_eq!((status, &found["_shards"]["failed"]), (200, &json!(1)), "{found}");
        assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
        search["query"] = json!({ "match_all": {} });
        assert!(server.call("POST", "/_search?allow_partial_search_results=false", &search).0 >= 500);
        let (_, shards) = server.call("GET", "/_cat/shards?format=json&h=index,prirep,state,docs", &Value::Null);
        let mut primaries: Vec<(&str, &str)> = shards
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["prirep"] == "p")
            .map(|row| (row["index"].as_str().unwrap(), row["state"].as_str().unwrap()))
            .collect();
        primaries.sort_unstable();
        assert_eq!(primaries, [("bad", "UNASSIGNED"), ("good", "STARTED")]);
        let (status, all) = server.call("POST", "/_refresh", &Value::Null);
        assert_eq!((status, &all["_shards"]["failed"]), (200, &json!(1)), "{all}");
        let (status, one) = server.call("POST", "/bad/_refresh", &Value::Null);
        assert!(status == 500 && one.to_string().contains("segments/checkpoint-"), "{one}");
        assert!(
            !one.to_string().contains(&*folder.0.to_string_lossy()),
            "no path of the machine: {one}"
        );
        assert_eq!(
            server.call("PUT", "/good/_doc/2?refresh=true", &json!({ "text": "more" })).0,
            201
        );
    }
    assert!(folder.0.join("identity.json").exists(), "a start writes it again");
    let (code, said) = check(&folder.0, &["--repair"]);
    assert!(
        code == Some(0) && said.contains("repaired: ") && said.contains("index [bad] loses a segment with at most [1] documents"),
        "{said}"
    );
    let (code, said) = check(&folder.0, &[]);
    assert!(code == Some(0) && said.contains("0 damaged"), "{said}");
    let server = Server::start(&folder.0);
    for (index, documents) in [("bad", 0), ("good", 2)] {
        let (_, found) = server.call("GET", &format!("/{index}/_count"), &Value::Null);
        assert_eq!(found["count"], documents, "[{index}]: {found}");
    }
}

/// A cut log is named and refuses the start; a repair goes on without what stood behind the cut.
#[test]
fn a_cut_log_is_named_and_given_up() {
    let folder = Folder::new("cut");
    {
        let server = Server::start(&folder.0);
        for n in 0..20 {
            assert_eq!(server.call("PUT", &format!("/i/_doc/{n}"), &json!({ "n": n })).0, 201);
        }
    }
    let log = std::fs::read_dir(folder.0.join("log")).unwrap();
    let logs: Vec<PathBuf> = log
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .collect();
    let written = |path: &Path| std::fs::read(path).unwrap().iter().rposition(|byte| *byte != 0).unwrap();
    let last = logs.iter().max().unwrap();
    let cut = written(last) - 100;
    std::fs::OpenOptions::new()
        .write(true)
        .open(last)
        .unwrap()
        .set_len(cut as u64)
        .unwrap();
    let (code, said) = check(&folder.0, &[]);
    assert!(
        code == Some(1) && said.contains(&format!("ends at byte [{cut}]")) && said.contains("--repair") && said.contains("[log/"),
        "{said}"
    );
    let done = pleach()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&folder.0)
        .output()
        .unwrap();
    assert!(!done.status.success() && String::from_utf8_lossy(&done.stderr).contains("--repair"));
    let (code, said) = check(&folder.0, &["--repair"]);
    assert!(
        code == Some(0) && said.contains("repaired: ") && said.contains("lost"),
        "{said}"
    );
    let server = Server::start(&folder.0);
    assert_eq!(server.call("POST", "/i/_refresh", &Value::Null).0, 200);
    let (_, found) = server.call("GET", "/i/_count", &Value::Null);
    assert!((18..20).contains(&found["count"].as_u64().unwrap()), "{found}");
}
