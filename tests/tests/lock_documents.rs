//! The chapter's lock documents (`index.pleach.lock_index`): they answer as plain documents do, and they have owners.
//!
//! Not here: who is whose and what is refused, request by request (`scenarios/changes/contract_30_owners.yaml`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tests::{Answer, Server};

const PERSONAS: [&str; 2] = ["es2", "es8"];

fn send(server: &Server, persona: &str, method: &str, path: &str, who: &str, body: &str) -> Answer {
    let headers: Vec<(String, String)> = match who {
        "" => Vec::new(),
        who => vec![("x-opaque-id".to_owned(), who.to_owned())],
    };
    tests::send(server.address(persona), method, path, &headers, body.as_bytes()).unwrap()
}

fn ok(server: &Server, persona: &str, method: &str, path: &str, who: &str, body: &Value) -> Value {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let answer = send(server, persona, method, path, who, &text);
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    answer.body
}

/// The leases of each document: how it is held, and how often.
fn held(server: &Server) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for lock in ok(server, "es8", "GET", "/_lock", "", &Value::Null)["locks"]
        .as_array()
        .unwrap()
    {
        let id = lock["document"]["_id"].as_str().unwrap().to_owned();
        let mode = lock["targets"][0]["mode"].as_str().unwrap().to_owned();
        out.entry(id).or_default().push(mode);
    }
    out
}

/// Two servers, one of which knows that `fs/lock` and `locks` are lock documents.
struct Pair {
    _folder: tempfile::TempDir,
    literal: Server,
    plain: Server,
}

impl Pair {
    fn start() -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let start = |name: &str| Server::start(&folder.path().join(name), &PERSONAS);
        let (literal, plain) = (start("literal"), start("plain"));
        for (server, types, all) in [(&literal, json!(["lock"]), json!(true)), (&plain, json!(false), json!(false))] {
            ok(
                server,
                "es2",
                "PUT",
                "/fs",
                "",
                &json!({"settings": {"pleach.lock_index": types}}),
            );
            ok(
                server,
                "es8",
                "PUT",
                "/locks",
                "",
                &json!({"settings": {"index": {"pleach": {"lock_index": all}}}}),
            );
        }
        Pair {
            _folder: folder,
            literal,
            plain,
        }
    }

    /// Both answer the same.
    fn both(&self, persona: &str, method: &str, path: &str, body: &str) -> Answer {
        let with = send(&self.literal, persona, method, path, "", body);
        let without = send(&self.plain, persona, method, path, "", body);
        let told = |answer: &Answer| (answer.status, comparable(answer.body.clone()));
        assert_eq!(told(&with), told(&without), "{persona} {method} {path} {body}");
        with
    }

    /// Leases are what the documents say.
    fn check(&self, persona: &str, path: &str) {
        let index = path.split('/').nth(1).unwrap();
        ok(
            &self.literal,
            persona,
            "POST",
            &format!("/{index}/_refresh"),
            "",
            &Value::Null,
        );
        let found = ok(
            &self.literal,
            persona,
            "GET",
            &format!("{path}/_search?size=100"),
            "",
            &Value::Null,
        );
        let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for hit in found["hits"]["hits"].as_array().unwrap() {
            let (id, source) = (hit["_id"].as_str().unwrap().to_owned(), &hit["_source"]);
            let holders = match source["lock_type"].as_str() {
                Some("shared") => vec!["shared".to_owned(); usize::try_from(source["lock_count"].as_u64().unwrap()).unwrap()],
                _ => vec!["exclusive".to_owned()],
            };
            said.insert(id, holders);
        }
        assert_eq!(held(&self.literal), said);
    }
}

/// Without what no two servers have in common.
fn comparable(mut body: Value) -> Value {
    // A commit's number is its place in the log, and the leases are in the log too.
    for name in ["took", "_scroll_id", "commit_seq"] {
        if body.get(name).is_some() {
            body[name] = Value::Null;
        }
    }
    without_uuids(&mut body);
    body
}

/// Each server gives its indices uuids of its own.
fn without_uuids(error: &mut Value) {
    match error {
        Value::Object(members) => {
            members.remove("index_uuid");
            members.values_mut().for_each(without_uuids);
        }
        Value::Array(items) => items.iter_mut().for_each(without_uuids),
        _ => {}
    }
}

const SHARE: &str = r#"{"upsert": {"lock_type": "shared", "lock_count": 1},
    "script": "if (ctx._source.lock_type == 'exclusive') { assert false }; ctx._source.lock_count++"}"#;
const LEAVE: &str = r#"{"script": "if (--ctx._source.lock_count == 0) { ctx.op = 'delete' } "}"#;
// Scripts were broken over lines.
const OWN: &str = "{\"upsert\": {\"process_id\": 123}, \"script\": \"if ( ctx._source.process_id != process_id )\n  \
    { assert false }; ctx.op = 'noop';\", \"params\": {\"process_id\": 123}}";
const OTHERS: &str = r#"{"upsert": {"process_id": 7}, "params": {"process_id": 7},
    "script": "if ( ctx._source.process_id != process_id ) { assert false }; ctx.op = 'noop';"}"#;

/// Each request of the chapter, in its order, and what a client does who meets a lock.
#[test]
fn contract_29_the_chapter_answers_alike() {
    let pair = Pair::start();
    let bulk = "{\"create\": {\"_id\": 1}}\n{\"process_id\": 123}\n{\"create\": {\"_id\": 2}}\n{\"process_id\": 123}\n";
    let release = "{\"delete\": {\"_id\": 1}}\n{\"delete\": {\"_id\": 2}}\n";
    let by_process = r#"{"sort": ["_doc"], "query": {"match": {"process_id": 123}}}"#;
    for (method, path, body) in [
        ("PUT", "/fs/lock/global/_create", "{}"),
        ("PUT", "/fs/lock/global/_create", "{}"),
        ("GET", "/fs/lock/global", ""),
        ("DELETE", "/fs/lock/global", ""),
        ("DELETE", "/fs/lock/global", ""),
        ("PUT", "/fs/lock/_bulk", bulk),
        ("PUT", "/fs/lock/_bulk", bulk),
        ("POST", "/fs/lock/1/_update", OWN),
        ("POST", "/fs/lock/1/_update", OTHERS),
        ("POST", "/fs/lock/3/_update", OWN),
        ("GET", "/fs/lock/3", ""),
        (
            "PUT",
            "/fs/file/1",
            r#"{"path": "/clinton", "lock_type": "anything", "lock_count": -3}"#,
        ),
        ("POST", "/fs/_refresh", ""),
        ("GET", "/fs/lock/_search?scroll=1m", by_process),
        ("PUT", "/fs/lock/_bulk", release),
        ("PUT", "/fs/lock/_bulk", release),
        ("DELETE", "/fs/lock/3", ""),
        ("POST", "/fs/lock/%2Fclinton/_update", SHARE),
        ("POST", "/fs/lock/%2Fclinton/_update", SHARE),
        ("GET", "/fs/lock/%2Fclinton", ""),
        ("POST", "/fs/lock/%2Fclinton%2fprojects/_update", SHARE),
        (
            "PUT",
            "/fs/lock/%2Fclinton%2fprojects%2fREADME.txt/_create",
            r#"{"lock_type": "exclusive"}"#,
        ),
        ("PUT", "/fs/lock/%2Fclinton/_create", r#"{"lock_type": "exclusive"}"#),
        ("POST", "/fs/lock/%2Fclinton%2fprojects%2fREADME.txt/_update", SHARE),
        ("DELETE", "/fs/lock/%2Fclinton%2fprojects%2fREADME.txt", ""),
        ("POST", "/fs/lock/%2Fclinton%2fprojects/_update", LEAVE),
        ("POST", "/fs/lock/%2Fclinton%2fprojects/_update", LEAVE),
        ("POST", "/fs/lock/%2Fclinton/_update", LEAVE),
        ("GET", "/fs/lock/%2Fclinton", ""),
        ("POST", "/fs/lock/%2Fclinton/_update", LEAVE),
        ("GET", "/fs/lock/%2Fclinton", ""),
        ("PUT", "/fs/lock/%2Fclinton/_create", r#"{"lock_type": "exclusive"}"#),
        (
            "POST",
            "/fs/_mget",
            r#"{"docs": [{"_type": "lock", "_id": "/clinton"}, {"_type": "lock", "_id": "1"}]}"#,
        ),
    ] {
        pair.both("es2", method, path, body);
        if !path.contains("_search") && !path.contains("/file") {
            pair.check("es2", "/fs/lock");
        }
    }
    assert_eq!(held(&pair.literal).len(), 1);
    assert_eq!(held(&pair.plain).len(), 0, "plain documents are no locks");
}

/// The same in the words of today, and every way to write a document.
#[test]
fn contract_29_todays_requests_answer_alike() {
    let pair = Pair::start();
    let today = |script: &str| {
        script
            .replace("process_id )", "params.process_id )")
            .replace("assert false", "throw new IllegalStateException('held')")
    };
    let scripted = |text: &str, today_lang: bool| {
        let mut body: Value = serde_json::from_str(&text.replace('\n', " ")).unwrap();
        let source = body["script"].as_str().unwrap().to_owned();
        let mut script = json!({"source": if today_lang { today(&source) } else { source }});
        if let Some(params) = body.as_object_mut().unwrap().remove("params") {
            script["params"] = params;
        }
        body["script"] = script;
        body.to_string()
    };
    let (share, leave, own, others) = (
        scripted(SHARE, true),
        scripted(LEAVE, true),
        scripted(OWN, true),
        scripted(OTHERS, true),
    );
    let bulk = "{\"create\": {\"_id\": \"1\"}}\n{\"process_id\": 123}\n{\"create\": {\"_id\": \"1\"}}\n{\"process_id\": 123}\n{\"create\": {\"_id\": \"2\"}}\n{\"process_id\": 123}\n";
    let update = |body: &str| format!("{{\"update\": {{\"_id\": \"/a\"}}}}\n{body}\n");
    let shares = update(&share.replace('\n', " ")).repeat(3);
    let leaves = update(&leave.replace('\n', " ")).repeat(3);
    for (method, path, body) in [
        ("PUT", "/locks/_create/global", "{}"),
        ("PUT", "/locks/_create/global", "{}"),
        ("PUT", "/locks/_doc/global?op_type=create", "{}"),
        ("PUT", "/locks/_doc/global?if_seq_no=0&if_primary_term=1", "{}"),
        ("DELETE", "/locks/_doc/global?if_seq_no=0&if_primary_term=1", ""),
        ("DELETE", "/locks/_doc/global?if_seq_no=1&if_primary_term=1", ""),
        ("POST", "/locks/_bulk", bulk),
        ("POST", "/locks/_update/1", own.as_str()),
        ("POST", "/locks/_update/1", others.as_str()),
        ("POST", "/locks/_update/3", own.as_str()),
        ("POST", "/locks/_refresh", ""),
        (
            "POST",
            "/locks/_delete_by_query?refresh=true",
            r#"{"query": {"term": {"process_id": 123}}}"#,
        ),
        ("GET", "/locks/_search", ""),
        ("POST", "/locks/_bulk", shares.as_str()),
        ("GET", "/locks/_doc/%2Fa", ""),
        ("POST", "/locks/_bulk?atomic=true", shares.as_str()),
        ("GET", "/locks/_doc/%2Fa", ""),
        ("PUT", "/locks/_create/%2Fa", r#"{"lock_type": "exclusive"}"#),
        ("POST", "/locks/_bulk?atomic=true", leaves.as_str()),
        ("POST", "/locks/_bulk", leaves.as_str()),
        ("GET", "/locks/_doc/%2Fa", ""),
        ("POST", "/locks/_bulk", leaves.as_str()),
        (
            "PUT",
            "/locks/_doc/4?version=7&version_type=external",
            r#"{"lock_type": "exclusive"}"#,
        ),
        (
            "PUT",
            "/locks/_doc/4?version=7&version_type=external",
            r#"{"lock_type": "exclusive"}"#,
        ),
        ("DELETE", "/locks/_doc/4?version=8&version_type=external", ""),
        (
            "POST",
            "/locks/_update/5",
            r#"{"doc": {"process_id": 1}, "doc_as_upsert": true}"#,
        ),
        (
            "POST",
            "/locks/_update/5",
            r#"{"doc": {"process_id": 1}, "doc_as_upsert": true}"#,
        ),
    ] {
        let answer = pair.both("es8", method, path, body);
        assert!(answer.status < 500, "{path}: {answer:?}");
        pair.check("es8", "/locks");
    }
}

/// Whatever one client does of what the chapter does, in any order.
#[test]
fn contract_29_any_order_answers_alike() {
    let pair = Pair::start();
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let ids = ["global", "1", "%2Fa", "%2Fa%2Fb"];
    let requests = [
        ("PUT", "/_create", "{}"),
        ("PUT", "/_create", r#"{"process_id": 123}"#),
        ("PUT", "/_create", r#"{"lock_type": "exclusive"}"#),
        ("POST", "/_update", OWN),
        ("POST", "/_update", OTHERS),
        ("POST", "/_update", SHARE),
        ("POST", "/_update", SHARE),
        ("POST", "/_update", LEAVE),
        ("POST", "/_update", LEAVE),
        ("DELETE", "", ""),
        ("GET", "", ""),
    ];
    for n in 0..400 {
        let (id, (method, suffix, body)) = (ids[next(ids.len())], requests[next(requests.len())]);
        pair.both("es2", method, &format!("/fs/lock/{id}{suffix}"), body);
        if n % 50 == 0 {
            pair.check("es2", "/fs/lock");
        }
    }
    pair.check("es2", "/fs/lock");
}

/// Processes that share locks and are told so, the server killed at any moment: what a document counts are its holders.
#[test]
fn contract_29_and_33_counts_are_holders_over_kills() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut newest_token = 0;
    let taken = AtomicU64::new(0);
    for round in 0..3 {
        let server = Server::start(&data, &PERSONAS);
        if round == 0 {
            ok(
                &server,
                "es2",
                "PUT",
                "/fs",
                "",
                &json!({"settings": {"pleach.lock_index": ["lock"]}}),
            );
        }
        let check = |server: &Server| {
            let held = held(server);
            for id in ["/a", "/b"] {
                let path = format!("/fs/lock/{}", id.replace('/', "%2F"));
                let found = send(server, "es2", "GET", &path, "", "");
                let counted = found.body["_source"]["lock_count"].as_u64().unwrap_or(0);
                assert_eq!(counted, held.get(id).map_or(0, Vec::len) as u64, "{id}: {found:?} {held:?}");
            }
        };
        check(&server);
        for lock in ok(&server, "es8", "GET", "/_lock", "", &Value::Null)["locks"]
            .as_array()
            .unwrap()
        {
            newest_token = newest_token.max(lock["fencing_token"].as_u64().unwrap());
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for process in 0..6 {
                let (server, over, taken) = (&server, &over, &taken);
                scope.spawn(move || {
                    let (id, who) = (["%2Fa", "%2Fb"][process % 2], format!("{round}-{process}"));
                    let headers = [("x-opaque-id".to_owned(), who)];
                    let path = format!("/fs/lock/{id}/_update");
                    while !over.load(Ordering::Relaxed) {
                        for body in [SHARE, SHARE, LEAVE] {
                            match tests::send(server.address("es2"), "POST", &path, &headers, body.as_bytes()) {
                                Ok(answer) => assert!(answer.status < 300, "{answer:?}"),
                                Err(_) => return,
                            }
                            taken.fetch_add(1, Ordering::Relaxed);
                        }
                        // Nobody else's go: each leaves as often as it came.
                        let left = tests::send(server.address("es2"), "POST", &path, &headers, LEAVE.as_bytes());
                        if !left.is_ok_and(|answer| answer.status < 300) {
                            return;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(700));
            over.store(round == 2, Ordering::Relaxed);
            if round < 2 {
                server.signal(libc::SIGKILL);
            }
        });
        if round == 2 {
            check(&server);
        }
    }
    assert!(taken.load(Ordering::Relaxed) > 50, "the clients were at work");
    assert!(newest_token > 0);
}

/// A request from an address of this machine that is not the usual one.
fn send_from(local: &str, server: &Server, method: &str, path: &str, body: &str) -> Answer {
    let address = server.address("es8");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream: TcpStream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{local}:0").parse().unwrap()).unwrap();
        socket.connect(address.parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    tests::exchange(stream, address, method, path, &[], body.as_bytes()).unwrap()
}

fn with_locks(settings: &Value) -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &PERSONAS);
    let mut all = json!({"pleach.lock_index": true});
    all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    ok(&server, "es8", "PUT", "/locks", "", &json!({"settings": all}));
    (folder, server)
}

/// The hole of the chapter: who thinks to hold a lock that passed on frees it for everybody.
#[test]
fn contract_30_a_late_delete_from_another_address() {
    let (_folder, server) = with_locks(&json!({}));
    let from = |local: &str, method: &str, path: &str, body: &str| send_from(local, &server, method, path, body);
    assert_eq!(from("127.0.0.2", "PUT", "/locks/_create/global", "{}").status, 201);
    // An operator breaks it, and the next one takes it.
    let lock = ok(&server, "es8", "GET", "/_lock", "", &Value::Null)["locks"][0].clone();
    assert_eq!(lock["caller"], json!({"peer": "127.0.0.2"}));
    ok(
        &server,
        "es8",
        "POST",
        &format!("/_lock/{}/_break", lock["id"].as_str().unwrap()),
        "",
        &Value::Null,
    );
    assert_eq!(from("127.0.0.3", "PUT", "/locks/_create/global", "{}").status, 201);
    // The first one wakes up.
    for (method, path, body) in [
        ("DELETE", "/locks/_doc/global", ""),
        ("PUT", "/locks/_doc/global", "{}"),
        ("POST", "/locks/_update/global", r#"{"script": "ctx.op = 'delete'"}"#),
        ("POST", "/locks/_update/global", r#"{"script": "ctx.op = 'noop'"}"#),
    ] {
        let late = from("127.0.0.2", method, path, body);
        assert_eq!(late.status, 409, "{late:?}");
        assert_eq!(late.body["error"]["type"], "lock_not_owned_exception");
        assert_eq!(late.body["error"]["holder"]["owner"], "peer 127.0.0.3");
    }
    let late = from("127.0.0.2", "POST", "/locks/_bulk", "{\"delete\": {\"_id\": \"global\"}}\n");
    assert_eq!(late.body["items"][0]["delete"]["error"]["type"], "lock_not_owned_exception");
    let late = from(
        "127.0.0.2",
        "POST",
        "/locks/_bulk?atomic=true",
        "{\"delete\": {\"_id\": \"global\"}}\n",
    );
    assert_eq!((late.status, &late.body["committed"]), (409, &Value::Null));
    ok(&server, "es8", "POST", "/locks/_refresh", "", &Value::Null);
    let late = from(
        "127.0.0.2",
        "POST",
        "/locks/_delete_by_query",
        r#"{"query": {"match_all": {}}}"#,
    );
    assert_eq!(late.status, 409);
    assert_eq!(late.body["failures"][0]["cause"]["type"], "lock_not_owned_exception");
    assert_eq!(
        from("127.0.0.3", "GET", "/locks/_doc/global", "").status,
        200,
        "it is still held"
    );
    assert_eq!(from("127.0.0.3", "DELETE", "/locks/_doc/global", "").status, 200);
}

/// A client that is killed with its locks in its hands: they stay, and say so; `_break` ends them, or their time to live.
#[test]
fn contract_30_a_client_that_is_killed() {
    let (_folder, server) = with_locks(&json!({"pleach.lock_ttl": "-1"}));
    ok(
        &server,
        "es8",
        "PUT",
        "/leases",
        "",
        &json!({"settings": {"pleach": {"lock_index": true, "lock_ttl": "1s"}}}),
    );
    for index in ["locks", "leases"] {
        let mut client = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_client", "--ignored", "--nocapture"])
            .env("PLEACH_TEST_CLIENT", format!("{}/{index}", server.address("es8")))
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        let shown = |id: &str| {
            let locks = ok(&server, "es8", "GET", &format!("/_lock?index={index}"), "", &Value::Null);
            locks["locks"]
                .as_array()
                .unwrap()
                .iter()
                .find(|lock| lock["document"]["_id"] == id)
                .cloned()
        };
        // It holds both locks by one connection, and asks for one of them again and again.
        while !(shown("global").is_some() && shown("/a").is_some_and(|lock| lock["connected"] == true)) {
            assert!(began.elapsed() < Duration::from_secs(30), "the client takes its locks");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(1500));
        let kept = shown("global").expect("who asks again keeps it");
        assert_eq!(
            (&kept["connected"], kept.get("expires_in_millis").is_some()),
            (&json!(true), index == "leases")
        );
        client.kill().unwrap();
        client.wait().unwrap();
        let died = Instant::now();
        let refused = send(&server, "es8", "PUT", &format!("/{index}/_create/global"), "next", "{}");
        assert_eq!(refused.status, 409, "the connection's end frees nothing");
        if index == "locks" {
            std::thread::sleep(Duration::from_millis(1500));
            for id in ["global", "/a"] {
                let lock = shown(id).expect("it stays");
                assert_eq!(lock["connected"], false);
                assert!(lock["age_in_millis"].as_u64() > Some(1000));
                ok(
                    &server,
                    "es8",
                    "POST",
                    &format!("/_lock/{}/_break", lock["id"].as_str().unwrap()),
                    "",
                    &Value::Null,
                );
            }
        } else {
            while held(&server).values().flatten().count() > 0 {
                assert!(died.elapsed() < Duration::from_secs(5), "its time to live ends it");
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(died.elapsed() < Duration::from_secs(3), "{:?}", died.elapsed());
        }
        for id in ["global", "%2Fa"] {
            let found = send(&server, "es8", "GET", &format!("/{index}/_doc/{id}"), "", "");
            assert_eq!(found.status, 404, "the document went with its lock: {found:?}");
        }
        ok(&server, "es8", "PUT", &format!("/{index}/_create/global"), "next", &json!({}));
        ok(
            &server,
            "es8",
            "DELETE",
            &format!("/{index}/_doc/global"),
            "next",
            &Value::Null,
        );
        ok(&server, "es8", "POST", &format!("/{index}/_refresh"), "", &Value::Null);
        let left = ok(&server, "es8", "GET", &format!("/{index}/_count"), "", &Value::Null);
        assert_eq!(left["count"], 0);
    }
}

/// The client of the test above: one connection, a lock of its own, a share, and asking again as the chapter does.
#[test]
#[ignore = "started by a_client_that_is_killed, and killed by it"]
fn a_client() {
    use std::io::{Read as _, Write as _};
    let Ok(target) = std::env::var("PLEACH_TEST_CLIENT") else {
        return;
    };
    let (address, index) = target.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut ask = |path: &str, body: &str| {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = [0; 65536];
        let n = stream.read(&mut bytes).unwrap();
        assert!(
            bytes[..n].starts_with(b"HTTP/1.1 20"),
            "{}",
            String::from_utf8_lossy(&bytes[..n])
        );
    };
    let own = r#"{"upsert": {"process_id": 9}, "script": {"source":
        "if (ctx._source.process_id != params.process_id) { throw new IllegalStateException('held') } ctx.op = 'noop'",
        "params": {"process_id": 9}}}"#;
    let share = r#"{"upsert": {"lock_type": "shared", "lock_count": 1}, "script": {"source": "ctx.op = 'noop'"}}"#;
    loop {
        ask(&format!("/{index}/_update/global"), own);
        ask(&format!("/{index}/_update/%2Fa"), share);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A server that is killed between: locks have the owners that they had, and a whole time to live again.
#[test]
fn contract_30_and_33_owners_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let start = || Server::start(&data, &PERSONAS);
    let server = start();
    for (index, ttl) in [("locks", "-1"), ("leases", "2s"), ("gone", "-1")] {
        ok(
            &server,
            "es8",
            "PUT",
            &format!("/{index}"),
            "",
            &json!({"settings": {"pleach": {"lock_index": true, "lock_ttl": ttl}}}),
        );
        ok(
            &server,
            "es8",
            "PUT",
            &format!("/{index}/_create/%2Fa"),
            "one",
            &json!({"lock_type": "exclusive"}),
        );
    }
    ok(&server, "es8", "DELETE", "/gone", "", &Value::Null);
    let shown = |server: &Server| -> Vec<Value> {
        let locks = ok(server, "es8", "GET", "/_lock", "", &Value::Null)["locks"].clone();
        let what = |lock: &Value| {
            json!([
                lock["id"],
                lock["fencing_token"],
                lock["caller"],
                lock["document"],
                lock["targets"]
            ])
        };
        locks.as_array().unwrap().iter().map(what).collect()
    };
    let before = shown(&server);
    assert_eq!(before.len(), 2, "locks of an index that is deleted are none");
    server.signal(libc::SIGKILL);
    drop(server);
    let server = start();
    let began = Instant::now();
    assert_eq!(shown(&server), before);
    for index in ["locks", "leases"] {
        let late = send(&server, "es8", "DELETE", &format!("/{index}/_doc/%2Fa"), "two", "");
        assert_eq!(
            (late.status, &late.body["error"]["type"]),
            (409, &json!("lock_not_owned_exception"))
        );
        let taken = send(&server, "es8", "PUT", &format!("/{index}/_create/%2Fa"), "two", "{}");
        assert_eq!(taken.status, 409);
    }
    // Those who open locks of their own meet it too.
    let asked = json!({"targets": [{"index": "locks", "path": "/a"}]});
    assert_eq!(send(&server, "es8", "POST", "/_lock", "", &asked.to_string()).status, 409);
    ok(&server, "es8", "DELETE", "/locks/_doc/%2Fa", "one", &Value::Null);
    ok(&server, "es8", "POST", "/_lock", "", &asked);
    while send(&server, "es8", "GET", "/leases/_doc/%2Fa", "", "").status == 200 {
        assert!(began.elapsed() < Duration::from_secs(8), "its time to live ends it");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        began.elapsed() > Duration::from_millis(1500),
        "it had all of its time again: {:?}",
        began.elapsed()
    );
    // What ended by itself ended for good, and so did what a kill came after.
    server.signal(libc::SIGKILL);
    drop(server);
    let server = start();
    assert_eq!(send(&server, "es8", "GET", "/leases/_doc/%2Fa", "", "").status, 404);
    ok(&server, "es8", "PUT", "/leases/_create/%2Fa", "two", &json!({}));
}

/// Who waits for a path is granted when the lock document goes, and a lock document is not taken from under a lock.
#[test]
fn contract_30_lock_documents_and_locks_meet() {
    let (_folder, server) = with_locks(&json!({}));
    ok(
        &server,
        "es8",
        "PUT",
        "/locks/_create/%2Fa",
        "one",
        &json!({"lock_type": "exclusive"}),
    );
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let asked = json!({"targets": [{"index": "locks", "path": "/a"}]});
            ok(&server, "es8", "POST", "/_lock?timeout=20s", "", &asked)["id"].clone()
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(!waits.is_finished());
        ok(&server, "es8", "DELETE", "/locks/_doc/%2Fa", "one", &Value::Null);
        let lock = waits.join().unwrap();
        for (path, body) in [("_create/%2Fa", "{}"), ("_update/%2Fa", SHARE)] {
            let refused = send(
                &server,
                "es8",
                if path.starts_with("_c") { "PUT" } else { "POST" },
                &format!("/locks/{path}"),
                "one",
                body,
            );
            assert_eq!(
                (refused.status, &refused.body["error"]["type"]),
                (409, &json!("lock_conflict_exception"))
            );
        }
        ok(
            &server,
            "es8",
            "DELETE",
            &format!("/_lock/{}", lock.as_str().unwrap()),
            "",
            &Value::Null,
        );
        ok(&server, "es8", "PUT", "/locks/_create/%2Fa", "one", &json!({}));
    });
}
