//! Disk watermarks over HTTP: indices refuse writes at flood stage and take them again when there is room; what shows it.
//!
//! The disk stays as it is: watermarks in bytes that no disk has, or that every disk has, move around it. Not here: the decision
//! (`model/src/watermarks.rs`), a disk that is full indeed (`embedded`).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tests::{Answer, Server, command};

const BASE: &str = "cluster.routing.allocation.disk.";
const MORE_THAN_THERE_IS: &str = "100000tb";

/// A server that watches its disk; its log goes to a file.
fn server(folder: &Path, personas: &[&str]) -> (Server, PathBuf) {
    let log = folder.join("log");
    let mut serve = command();
    serve.stderr(std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap());
    let settings = [
        format!("{BASE}threshold_enabled=true"),
        format!("{BASE}watermark.low=1b"),
        format!("{BASE}watermark.high=1b"),
        format!("{BASE}watermark.flood_stage=1b"),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    (Server::start_by(serve, &folder.join("data"), personas, &settings, &[]), log)
}

/// Sets watermarks; `null` is the one of the start.
fn put(server: &Server, marks: [(&str, Value); 3]) -> Answer {
    let marks: serde_json::Map<String, Value> = marks
        .into_iter()
        .map(|(name, value)| (format!("{BASE}watermark.{name}"), value))
        .collect();
    server.call("PUT", "/_cluster/settings", &json!({ "persistent": marks }))
}

fn flood(server: &Server) {
    let all = ["low", "high", "flood_stage"].map(|name| (name, json!(MORE_THAN_THERE_IS)));
    assert_eq!(put(server, all).status, 200);
}

/// Waits until an answer is as it is expected: the disk is looked at when the settings have changed.
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "it does not become true that {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is_blocked(server: &Server, index: &str) -> bool {
    let settings = server.ok(
        "GET",
        &format!("/{index}/_settings?flat_settings=true&expand_wildcards=all"),
        &Value::Null,
    );
    settings[index]["settings"]["index.blocks.read_only_allow_delete"] == "true"
}

fn metric(server: &Server, name: &str) -> f64 {
    let text = server.send("GET", "/_prometheus/metrics", "").unwrap().text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn indices_are_blocked_at_flood_stage_and_released_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let (server, log) = server(folder.path(), &["es8", "es2"]);
    for id in ["1", "2"] {
        server.ok("PUT", &format!("/i/_doc/{id}?refresh=true"), &json!({ "n": 1 }));
    }
    server.ok("PUT", "/hidden", &json!({ "settings": { "index.hidden": true } }));
    server.ok("PUT", "/closed", &Value::Null);
    server.ok("POST", "/closed/_close", &Value::Null);
    server.ok("PUT", "/gone", &Value::Null);
    let lock = json!({ "owner": "a", "targets": [{ "name": "x" }], "keep_alive": "1h" });
    let held = server.ok("POST", "/_lock", &lock)["id"].as_str().unwrap().to_owned();
    flood(&server);
    until("the index is blocked", || is_blocked(&server, "i"));
    for (method, path, body) in [
        ("PUT", "/i/_doc/3", json!({ "n": 3 })),
        ("POST", "/i/_update/1", json!({ "doc": { "n": 2 } })),
        ("PUT", "/i/_mapping", json!({ "properties": { "m": { "type": "long" } } })),
        (
            "POST",
            "/_transaction",
            json!({ "operations": [{ "index": { "_index": "i", "_id": "3", "doc": {} } }] }),
        ),
    ] {
        let refused = server.call(method, path, &body);
        assert_eq!(refused.status, 429, "{method} {path}: {refused:?}");
        let (error, reason) = (
            &refused.body["error"],
            "index [i] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage \
            watermark, index has read-only-allow-delete block];",
        );
        let found =
            [error, &error["caused_by"], &error["root_cause"][0]].map(|error| error["reason"].as_str().unwrap_or_default());
        assert!(
            found.iter().any(|found| found.contains(reason)),
            "{method} {path}: {refused:?}"
        );
    }
    for index in ["hidden", "closed", "gone"] {
        until("every index is blocked", || is_blocked(&server, index));
    }
    // Reads, deletions and what the server keeps for itself go on.
    assert_eq!(server.ok("GET", "/i/_count", &Value::Null)["count"], 2);
    assert_eq!(server.call("DELETE", "/i/_doc/2", &Value::Null).status, 200);
    assert_eq!(server.call("DELETE", "/gone", &Value::Null).status, 200);
    server.ok("DELETE", &format!("/_lock/{held}"), &Value::Null);
    server.ok("POST", "/_lock", &lock);
    let disk = &server.ok("GET", "/_health_report/disk", &Value::Null)["indicators"]["disk"];
    assert_eq!(disk["status"], "red", "{disk}");
    assert_eq!(disk["details"]["nodes_over_flood_stage_watermark"], 1, "{disk}");
    assert!(
        disk["diagnosis"][0]["affected_resources"]["indices"]
            .as_array()
            .unwrap()
            .contains(&json!("i")),
        "{disk}"
    );
    assert!(metric(&server, "pleach_disk_blocked_indices") >= 1.0);
    assert!(metric(&server, "pleach_disk_watermark_bytes{watermark=\"flood_stage\"}") > 1e15);
    let row = server.ok("GET", "/_cat/allocation?format=json&h=disk.avail,disk.percent", &Value::Null);
    assert!(
        row[0]["disk.percent"].is_string() && row[0]["disk.avail"].is_string(),
        "{row}"
    );
    // Between flood stage and the high watermark nothing changes; below it everything is as before.
    let kept = [
        ("low", json!(MORE_THAN_THERE_IS)),
        ("high", json!(MORE_THAN_THERE_IS)),
        ("flood_stage", json!("1b")),
    ];
    assert_eq!(put(&server, kept).status, 200);
    until("the disk is below flood stage", || {
        let disk = server.ok("GET", "/_health_report/disk", &Value::Null);
        disk["indicators"]["disk"]["details"]["nodes_over_high_watermark"] == 1
    });
    wait_for(&log, "at flood stage all indices refuse writes");
    assert!(is_blocked(&server, "i"));
    assert_eq!(
        put(&server, ["low", "high", "flood_stage"].map(|name| (name, Value::Null))).status,
        200
    );
    until("the index is released", || !is_blocked(&server, "i"));
    until("closed indices are released", || !is_blocked(&server, "closed"));
    server.ok("PUT", "/i/_doc/3", &json!({ "n": 3 }));
    let disk = server.ok("GET", "/_health_report/disk", &Value::Null);
    assert_eq!(disk["indicators"]["disk"]["status"], "green", "{disk}");
    wait_for(&log, "take writes again");
    let told = std::fs::read_to_string(&log).unwrap();
    let warned = told
        .lines()
        .filter(|line| line.contains("watermark.flood_stage] asks for"))
        .count();
    assert_eq!(warned, 1, "once a change: {told}");
}

fn wait_for(log: &Path, part: &str) {
    until(&format!("[{part}] is in the log"), || {
        std::fs::read_to_string(log).unwrap().contains(part)
    });
}

#[test]
fn a_start_releases_what_an_earlier_process_blocked() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = server(folder.path(), &["es8"]);
    first.ok("PUT", "/i/_doc/1", &json!({ "n": 1 }));
    let watch = |server: &Server, on: bool| {
        let setting = json!({ "persistent": { format!("{BASE}threshold_enabled"): on } });
        server.ok("PUT", "/_cluster/settings", &setting);
    };
    flood(&first);
    until("the index is blocked", || is_blocked(&first, "i"));
    // Nothing is blocked for a disk that nobody watches.
    watch(&first, false);
    until("the index is released", || !is_blocked(&first, "i"));
    watch(&first, true);
    until("the index is blocked again", || is_blocked(&first, "i"));
    drop(first);
    // Killed at flood stage: the block is there from the first request on.
    let (second, _) = server(folder.path(), &["es8"]);
    assert_eq!(second.call("PUT", "/i/_doc/2", &json!({})).status, 429);
    watch(&second, false);
    until("the index is released", || !is_blocked(&second, "i"));
    // By hand it stays while the process runs: the disk has room, as far as anybody watches.
    second.ok("PUT", "/i/_settings", &json!({ "index.blocks.read_only_allow_delete": true }));
    drop(second);
    let (third, _) = server(folder.path(), &["es8"]);
    until("the index is released by a start", || !is_blocked(&third, "i"));
    third.ok("PUT", "/i/_doc/2", &json!({}));
}

#[test]
fn watermarks_are_read_as_the_reference_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _) = server(folder.path(), &["es8"]);
    let check = |name: &str, value: Value, part: &str| {
        let refused = server.call(
            "PUT",
            "/_cluster/settings",
            &json!({ "transient": { format!("{BASE}{name}"): value } }),
        );
        let reason = refused.body["error"]["reason"].as_str().unwrap_or_default();
        assert!(
            refused.status == 400 && reason.contains(part) && reason.contains(BASE),
            "{name} {value}: {refused:?}"
        );
    };
    check("watermark.low", json!("much"), "must be a percentage of used space");
    check("watermark.low", json!("85%"), "unable to consistently parse");
    check("watermark.high", json!("2b"), "is less than");
    check("watermark.flood_stage", json!("120%"), "between 0% and 100%");
    check("watermark.flod_stage", json!("95%"), "");
    check("threshold_enabled", json!("maybe"), "only [true] or [false]");
    let interval = json!({ "transient": { "cluster.info.update.interval": "1s" } });
    let refused = server.call("PUT", "/_cluster/settings", &interval);
    assert!(
        refused.status == 400 && refused.text.contains("must be >= [10s]"),
        "{refused:?}"
    );
    let all = json!({ "transient": { "cluster.routing.allocation.disk.watermark": {
        "low": "80%", "low.max_headroom": "9gb", "high": "0.85", "flood_stage": "99%" } } });
    server.ok("PUT", "/_cluster/settings", &all);
    let shown = server.ok("GET", "/_cluster/settings", &Value::Null);
    let marks = &shown["transient"]["cluster"]["routing"]["allocation"]["disk"]["watermark"];
    assert_eq!(
        marks,
        &json!({ "low": "80%", "high": "0.85", "flood_stage": "99%", "low.max_headroom": "9gb" })
    );
    let defaults = server.ok(
        "GET",
        "/_cluster/settings?include_defaults=true&flat_settings=true",
        &Value::Null,
    );
    assert_eq!(defaults["defaults"][format!("{BASE}watermark.low")], "1b", "the node's own");
    let headroom = &defaults["defaults"][format!("{BASE}watermark.flood_stage.max_headroom")];
    assert_eq!(headroom, "1gb", "a server that only its own machine can reach");
}
