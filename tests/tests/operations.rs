//! How an operator sees the server: metrics as Prometheus reads them, ids of requests, the order of a stop.
//!
//! Not here: what the endpoints refuse (`scenarios/watched.yaml`), signals as such (`process`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};
use tests::{Server, send};

/// Samples by name and labels, from Prometheus' text format. Fails on what the format forbids.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    let mut described = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
            assert!(words.ends_with('.'), "{line}");
            assert!(described.insert(name.to_owned()), "described twice: {name}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(described.contains(name), "a type without help: {line}");
            assert!(
                kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                "typed twice: {name}"
            );
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let name = sample.split('{').next().unwrap();
        assert!(
            name.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "{line}"
        );
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let family = name.strip_suffix(end)?;
            (kinds.get(family).map(String::as_str) == Some("histogram")).then_some(family)
        });
        let kind = kinds.get(family.unwrap_or(name)).unwrap_or_else(|| panic!("no type: {line}"));
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        assert!(samples.insert(sample.to_owned(), value).is_none(), "twice: {line}");
    }
    samples
}

fn metrics(server: &Server, path: &str) -> BTreeMap<String, f64> {
    let answer = server.send("GET", path, "").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    let media = answer.headers.iter().find(|(name, _)| name == "content-type").unwrap();
    assert_eq!(media.1, "text/plain; version=0.0.4; charset=utf-8");
    assert!(answer.text.ends_with('\n'), "the last line ends");
    lint(&answer.text);
    parse(&answer.text)
}

/// `promtool check metrics`, where Prometheus is installed.
fn lint(text: &str) {
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        eprintln!("skipped: promtool is not installed");
        return;
    };
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let done = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.trim().is_empty(), "promtool: {said}");
}

#[test]
fn requests_are_counted_as_prometheus_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    server.ok("PUT", "/books/_doc/1?refresh=true", &json!({ "n": 1 }));
    server.ok("GET", "/books/_search", &Value::Null);
    for _ in 0..2 {
        assert_eq!(server.send("PUT", "/books/_create/1", "{}").unwrap().status, 409);
    }
    assert_eq!(server.send("GET", "/_nothing/of/this", "").unwrap().status, 400);
    let headers = [("origin".to_owned(), "https://evil.example".to_owned())];
    assert_eq!(send(server.address("es8"), "GET", "/", &headers, b"").unwrap().status, 403);
    let lock = json!({ "owner": "a\"b", "targets": [{ "name": "x" }], "keep_alive": "1h" });
    server.ok("POST", "/_lock", &lock);
    assert_eq!(server.call("POST", "/_lock?timeout=30ms", &lock).status, 409);
    let seen = metrics(&server, "/_prometheus/metrics");
    let of = |name: &str| *seen.get(name).unwrap_or_else(|| panic!("no {name} in {seen:#?}"));
    assert_eq!(of(r#"pleach_http_requests_total{endpoint="create",code="409"}"#), 2.0);
    assert_eq!(of(r#"pleach_http_requests_total{endpoint="index",code="201"}"#), 1.0);
    assert_eq!(of(r#"pleach_http_requests_total{endpoint="none",code="400"}"#), 1.0);
    assert_eq!(of(r#"pleach_http_requests_total{endpoint="none",code="403"}"#), 1.0);
    assert_eq!(
        of(r#"pleach_http_errors_total{type="version_conflict_engine_exception"}"#),
        2.0
    );
    assert_eq!(of(r#"pleach_http_errors_total{type="lock_conflict_exception"}"#), 1.0);
    assert_eq!(of(r#"pleach_http_request_duration_seconds_count{endpoint="create"}"#), 2.0);
    assert_eq!(
        of(r#"pleach_http_request_duration_seconds_bucket{endpoint="lock.open",le="+Inf"}"#),
        2.0
    );
    // The refused lock waited until its timeout, which began when the request came: a little longer than the wait.
    assert_eq!(of(r#"pleach_lock_wait_seconds_count{outcome="refused"}"#), 1.0);
    let waited = of(r#"pleach_lock_wait_seconds_sum{outcome="refused"}"#);
    assert!(waited > 0.0 && waited < 30.0, "{waited}");
    assert_eq!(of(r#"pleach_lock_wait_seconds_count{outcome="granted"}"#), 0.0);
    assert_eq!(of("pleach_locks"), 1.0);
    assert_eq!(of(r#"elasticsearch_cluster_health_status{color="green"}"#), 1.0);
    assert_eq!(of("elasticsearch_indices_docs"), 1.0);
    assert_eq!(of("elasticsearch_indices_indexing_index_total"), 1.0);
    assert!(of("elasticsearch_indices_search_query_total") >= 1.0);
    assert!(of("elasticsearch_indices_refresh_total") >= 1.0);
    assert!(of("pleach_log_size_bytes") > 0.0);
    assert!(of("pleach_log_written_bytes_total") > 0.0);
    // The document was durable before its answer.
    assert!(of("pleach_log_sync_duration_seconds_count") >= 1.0 && of("pleach_log_sync_duration_seconds_sum") > 0.0);
    assert!(of("pleach_http_received_bytes_total") > 0.0 && of("pleach_http_sent_bytes_total") > 0.0);
    assert!(of(r#"elasticsearch_breakers_limit_size_bytes{breaker="parent"}"#) > 0.0);
    assert_eq!(of("pleach_writes_refused"), 0.0);
    // The scrape before is counted by the next one.
    let again = metrics(&server, "/_prometheus/metrics?level=indices");
    assert_eq!(
        again[r#"pleach_http_requests_total{endpoint="prometheus.metrics",code="200"}"#],
        1.0
    );
    assert_eq!(again[r#"elasticsearch_indices_docs_primary{index="books"}"#], 1.0);
    assert_eq!(again[r#"pleach_index_stopped{index="books"}"#], 0.0);
}

#[test]
fn buckets_rise_and_end_at_the_count() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    for _ in 0..5 {
        server.ok("GET", "/", &Value::Null);
    }
    let text = server.send("GET", "/_prometheus/metrics", "").unwrap().text;
    let buckets: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with(r#"pleach_http_request_duration_seconds_bucket{endpoint="info""#))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(buckets.len(), 16, "{buckets:?}");
    assert!(buckets.is_sorted(), "{buckets:?}");
    assert_eq!(buckets.last(), Some(&5.0));
}

#[test]
fn ids_of_requests_come_back_and_are_shown_with_tasks() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let ask = |path: &str, trace: &str| {
        let headers = [("X-Opaque-Id", "job-7"), ("traceparent", trace)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        send(server.address("es8"), "GET", path, &headers, b"").unwrap()
    };
    let header = |answer: &tests::Answer, name: &str| answer.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let found = ask("/_tasks?group_by=none", TRACE);
    assert_eq!(header(&found, "x-opaque-id").as_deref(), Some("job-7"));
    assert_eq!(header(&found, "traceparent").as_deref(), Some(TRACE));
    let expected = json!({ "X-Opaque-Id": "job-7", "traceparent": TRACE, "trace.id": "0af7651916cd43dd8448eb211c80319c" });
    assert_eq!(found.body["tasks"][0]["headers"], expected, "{}", found.text);
    // A header that is none is passed over.
    let found = ask("/_tasks?group_by=none", "00-zz");
    assert_eq!(header(&found, "traceparent"), None);
    assert_eq!(found.body["tasks"][0]["headers"], json!({ "X-Opaque-Id": "job-7" }));
    // Refusals carry them, too.
    let refused = ask("/missing/_search", TRACE);
    assert_eq!(
        (refused.status, header(&refused, "traceparent").as_deref()),
        (404, Some(TRACE))
    );
}

/// Names of metrics in a text: words that begin as ours do.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    let ours = |word: &&str| word.starts_with("pleach_") || word.starts_with("elasticsearch_");
    words.filter(ours).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_and_the_docs_name_metrics_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    server.ok("PUT", "/i/_doc/1", &json!({ "a": 1 }));
    let text = server.send("GET", "/_prometheus/metrics?level=indices", "").unwrap().text;
    let found = names(&text);
    let operations = tests::root().join("docs/operations");
    for file in ["grafana-dashboard.json", "monitoring.md"] {
        let text = std::fs::read_to_string(operations.join(file)).unwrap();
        let is_there = |name: &String| {
            // `elasticsearch_breakers_*` stands for every name that begins so.
            let prefix = name.ends_with('_') && found.iter().any(|found| found.starts_with(name.as_str()));
            prefix || found.contains(name)
        };
        let missing: Vec<String> = names(&text).into_iter().filter(|name| !is_there(name)).collect();
        assert!(missing.is_empty(), "{file} names {missing:?}");
    }
    let dashboard: Value = serde_json::from_slice(&std::fs::read(operations.join("grafana-dashboard.json")).unwrap()).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() >= 12);
}

/// A server whose log lines go to a file.
struct Logged {
    server: Server,
    file: std::path::PathBuf,
}

impl Logged {
    fn start(folder: &std::path::Path, settings: &[&str]) -> Logged {
        let file = folder.join("log");
        let errors = std::fs::File::create(&file).unwrap();
        let mut command = tests::command();
        command.current_dir(folder).stderr(errors);
        let server = Server::start_by(command, &folder.join("data"), &["es8"], settings, &[]);
        Logged { server, file }
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.file).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    /// Lines with this in them, once there are any.
    fn wait_for(&self, part: &str) -> Vec<String> {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let found: Vec<String> = self.lines().into_iter().filter(|line| line.contains(part)).collect();
            if !found.is_empty() {
                return found;
            }
            assert!(std::time::Instant::now() < until, "no [{part}] in {:#?}", self.lines());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn slow_searches_and_writes_are_logged_by_the_settings_of_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), &["log.format=json"]);
    let server = &logged.server;
    server.ok("PUT", "/quiet/_doc/1?refresh=true", &json!({ "a": "not logged" }));
    server.ok(
        "PUT",
        "/slow",
        &json!({ "settings": { "index.search.slowlog.threshold.query.warn": "1h", "index.search.slowlog.threshold.query.info": "0ms" } }),
    );
    server.ok("PUT", "/slow/_doc/1?refresh=true", &json!({ "a": "not logged" }));
    let headers = [
        ("x-opaque-id", "report 7"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let body = br#"{ "query": { "match": { "a": "logged" } },
        "size": 3 }"#;
    for path in ["/slow/_search", "/quiet/_search", "/_search"] {
        assert_eq!(
            send(server.address("es8"), "POST", path, &headers, body).unwrap().status,
            200,
            "{path}"
        );
    }
    let lines = logged.wait_for("slowlog");
    let events: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 2, "{events:#?}");
    let event = &events[0];
    assert_eq!(
        (&event["level"], &event["target"]),
        (&json!("INFO"), &json!("index.search.slowlog.query"))
    );
    assert_eq!(
        (&event["message"], &event["total_hits"]),
        (&json!("[slow][0]"), &json!("1 hits"))
    );
    assert_eq!(
        (&event["id"], &event["trace.id"]),
        (&json!("report 7"), &json!("0af7651916cd43dd8448eb211c80319c"))
    );
    assert!(
        event["source"]
            .as_str()
            .unwrap()
            .contains(r#""match": { "a": "logged" } },         "size""#),
        "{event}"
    );
    assert!(event["took_millis"].is_u64() && event["took"].is_string(), "{event}");
    // Changed while it runs: searches are quiet, writes are not.
    let settings = json!({ "index.search.slowlog.threshold.query.info": "-1", "index.search.slowlog.threshold.fetch.debug": "0ms",
        "index.indexing.slowlog.threshold.index.warn": "0ms", "index.indexing.slowlog.source": "8" });
    server.ok("PUT", "/slow/_settings", &settings);
    server.ok("PUT", "/slow/_doc/2", &json!({ "abcdefgh": 1 }));
    server.ok("GET", "/slow/_search", &Value::Null);
    let bulk = "{\"index\":{\"_index\":\"slow\",\"_id\":\"3\"}}\n{\"b\":1}\n{\"index\":{\"_index\":\"quiet\",\"_id\":\"3\"}}\n{\"b\":1}\n";
    assert_eq!(server.send("POST", "/_bulk", bulk).unwrap().body["errors"], false);
    logged.wait_for(r#""document":"3""#);
    let events: Vec<Value> = logged
        .wait_for("slowlog")
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .skip(2)
        .collect();
    let of = |target: &str| {
        events
            .iter()
            .filter(|event| event["target"] == target)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of("index.search.slowlog.query").len(), 0, "{events:#?}");
    assert_eq!(of("index.search.slowlog.fetch").len(), 1, "{events:#?}");
    let writes = of("index.indexing.slowlog.index");
    assert_eq!(writes.len(), 2, "{events:#?}");
    assert_eq!(
        (&writes[0]["document"], &writes[0]["source"]),
        (&json!("2"), &json!(r#"{"abcdef"#))
    );
    assert_eq!(writes[0]["level"], "WARN");
    // Names and values that there are not are refused.
    for (settings, part) in [
        (json!({ "index.search.slowlog.threshold.query.wran": "1s" }), "wran"),
        (json!({ "index.search.slowlog.threshold.query.warn": "soon" }), "soon"),
        (json!({ "index.indexing.slowlog.source": "some" }), "number of characters"),
    ] {
        let refused = server.call("PUT", "/slow/_settings", &settings);
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains(part), "{}", refused.text);
    }
}

#[test]
fn sighup_reads_the_levels_of_the_log_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pleach.toml");
    std::fs::write(&file, "log.level = \"warn\"\n").unwrap();
    let logged = Logged::start(folder.path(), &[]);
    logged.server.ok("GET", "/", &Value::Null);
    assert_eq!(logged.lines(), Vec::<String>::new(), "nothing is worth a warning");
    std::fs::write(&file, "log.level = \"info,http=debug\"\ncluster.name = \"other\"\n").unwrap();
    logged.server.signal(libc::SIGHUP);
    let told = logged.wait_for("a restart makes them take effect");
    assert!(
        told[0].contains("[cluster_name]") && told[0].contains("WARN server"),
        "{told:?}"
    );
    logged.wait_for("[log.level] is in effect");
    logged.server.ok("GET", "/_cluster/health", &Value::Null);
    let line = &logged.wait_for("/_cluster/health")[0];
    assert!(line.contains("DEBUG http: request") && line.contains("status=200"), "{line}");
    // A broken file changes nothing, and is told.
    std::fs::write(&file, "log.level = \"loud\"\n").unwrap();
    logged.server.signal(libc::SIGHUP);
    let told = logged.wait_for("the old ones stay");
    assert!(
        told[0].contains("must be one of [off, error, warn, info, debug, trace]"),
        "{told:?}"
    );
    logged.server.ok("GET", "/_cluster/stats", &Value::Null);
    logged.wait_for("/_cluster/stats");
}

#[test]
fn a_service_manager_learns_of_start_reload_and_stop() {
    use std::os::unix::net::UnixDatagram;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut command = tests::command();
    command
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .current_dir(folder.path());
    let mut server = Server::start_by(command, &folder.path().join("data"), &["es8"], &[], &[]);
    let next = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("it is told in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert_eq!(next(), "READY=1\nSTATUS=serving");
    assert_eq!((next(), next()), ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned()));
    server.signal(libc::SIGHUP);
    let reloading = std::iter::repeat_with(next).find(|told| told != "WATCHDOG=1").unwrap();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let ready = std::iter::repeat_with(next).find(|told| told != "WATCHDOG=1").unwrap();
    assert_eq!(ready, "READY=1\nSTATUS=serving");
    server.signal(libc::SIGTERM);
    let stopping = std::iter::repeat_with(next).find(|told| told != "WATCHDOG=1").unwrap();
    assert_eq!(stopping, "STOPPING=1");
    assert_eq!(
        server.wait(std::time::Duration::from_secs(10)).expect("it ends").code(),
        Some(0)
    );
}

#[test]
fn transient_settings_end_with_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &["es8"]);
    let given = json!({ "persistent": { "search.max_buckets": 7 }, "transient": { "search.max_buckets": 5, "search.max_open_scroll_context": 3 } });
    server.ok("PUT", "/_cluster/settings", &given);
    let settings = |server: &Server| server.ok("GET", "/_cluster/settings?flat_settings=true", &Value::Null);
    assert_eq!(settings(&server)["transient"]["search.max_buckets"], "5");
    // Killed, so that the log is replayed.
    drop(server);
    let server = Server::start(&data, &["es8"]);
    let expected = json!({ "persistent": { "search.max_buckets": "7" }, "transient": {} });
    assert_eq!(settings(&server), expected);
}
