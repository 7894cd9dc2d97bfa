//! Whatever was sent before it was killed, a server starts again, with every index that it had: nothing lies in the log that
//! replay cannot apply.
//!
//! The recorded requests of other servers are sent, some of them mutated, then the server is killed and started, again and
//! again. `PLEACH_POISON_REQUESTS` is how many are sent before each kill (300), `PLEACH_POISON_KILLS` how often (2),
//! `PLEACH_POISON_SEED` where the mutations begin (1). They lie beside the repository; without them this is skipped.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read as _;
use std::path::Path;
use tests::{Server, send, shared};

/// Names that no type or id may have, or only some.
const HOSTILE: [&str; 12] = [
    "t,u",
    ".x",
    "..",
    "_default_",
    "_x",
    "a%23b",
    "%20",
    "%2C",
    "%00",
    "-",
    "a%2Fb",
    "%E2%80%AE",
];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Kills the server and starts another on the folder: every index is sound.
fn killed_and_started(server: Server, data: &Path, what: &str) -> Server {
    server.signal(libc::SIGKILL);
    drop(server);
    let server = Server::start(data, &["es2", "opensearch2"]);
    let indices = server.call(
        "GET",
        "/_cat/indices?h=health,index&format=json&expand_wildcards=all",
        &Value::Null,
    );
    let unsound: Vec<&Value> = indices
        .body
        .as_array()
        .into_iter()
        .flatten()
        .filter(|index| index["health"] == "red")
        .collect();
    assert!(unsound.is_empty(), "after {what}: {unsound:?}");
    server
}

/// Types that no document can have, by every way that writes.
#[test]
fn a_type_that_cannot_be_is_not_logged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(&data, &["es2", "opensearch2"]);
    server.ok(
        "PUT",
        "/i6",
        &json!({ "mappings": { "t": { "properties": { "n": { "type": "long" } } } } }),
    );
    server.ok("PUT", "/i6/t/1", &json!({ "n": 1 }));
    for name in HOSTILE {
        for parameters in ["", "?routing=1", "?parent=1", "?routing=1&version=3&version_type=external"] {
            for (method, tail) in [("DELETE", ""), ("PUT", ""), ("POST", "/_update")] {
                let body = match method {
                    "DELETE" => "",
                    "PUT" => "{\"n\":1}",
                    _ => "{\"doc\":{\"n\":1},\"upsert\":{\"n\":1}}",
                };
                let answer = server.send(method, &format!("/i6/{name}/x{tail}{parameters}"), body).unwrap();
                assert!(answer.status < 500, "{method} {name}{parameters}: {answer:?}");
            }
        }
        let name = name
            .replace("%23", "#")
            .replace("%2C", ",")
            .replace("%20", " ")
            .replace("%2F", "/");
        for (atomic, more) in [
            ("", "routing"),
            ("?atomic=true", "routing"),
            ("", "parent"),
            ("?atomic=true", "parent"),
        ] {
            let lines = [
                json!({ "delete": { "_index": "i6", "_type": name, "_id": "x", format!("_{more}"): "1" } }),
                json!({ "index": { "_index": "i6", "_type": name, "_id": "y", format!("_{more}"): "1" } }),
                json!({ "n": 2 }),
            ];
            let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let answer = server.send("POST", &format!("/_bulk{atomic}"), &body).unwrap();
            assert!(answer.status < 500, "{name}: {answer:?}");
        }
    }
    server = killed_and_started(server, &data, "hostile types");
    assert_eq!(server.ok("GET", "/i6/t/1", &Value::Null)["_source"]["n"], 1);
}

#[derive(Clone, Debug)]
struct Request {
    typed: bool,
    method: String,
    path: String,
    body: String,
}

/// Every recorded request, in order of the files.
fn recorded(folder: &Path) -> Vec<Request> {
    let mut out = Vec::new();
    for (name, typed) in [("golden", false), ("golden-2015", true)] {
        let mut files: Vec<_> = std::fs::read_dir(folder.join(name))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains(".ndjson"))
            .collect();
        files.sort();
        for file in files {
            let bytes = std::fs::read(&file).unwrap();
            let mut text = String::new();
            match file.extension().is_some_and(|ending| ending == "gz") {
                true => drop(GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap()),
                false => text = String::from_utf8(bytes).unwrap(),
            }
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let line: Value = serde_json::from_str(line).unwrap();
                let steps = line["steps"].as_array().cloned().unwrap_or_else(|| vec![line]);
                out.extend(steps.iter().filter_map(|step| request(step, typed)));
            }
        }
    }
    out
}

fn request(step: &Value, typed: bool) -> Option<Request> {
    let path = step["path"].as_str()?;
    // They wait for something, or speak to the whole server.
    if path.contains("wait_for") || path.contains("timeout") || path.starts_with("/_cluster") || path.starts_with("/_nodes") {
        return None;
    }
    Some(Request {
        typed,
        method: step["method"].as_str()?.to_owned(),
        path: path.to_owned(),
        body: match &step["body"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(lines) => lines.iter().map(|line| format!("{line}\n")).collect(),
            other => other.to_string(),
        },
    })
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

fn mutated(mut request: Request, random: &mut Random) -> Request {
    for _ in 0..1 + random.below(3) {
        match random.below(7) {
            0 => {
                let (path, parameters) = request.path.split_once('?').unwrap_or((&request.path, ""));
                let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
                // Not the index: it would only be another that is not there.
                let at = 2 + random.below(parts.len().saturating_sub(2));
                if let Some(part) = parts.get_mut(at) {
                    *part = HOSTILE[random.below(HOSTILE.len())].to_owned();
                }
                let mark = if parameters.is_empty() { "" } else { "?" };
                request.path = format!("{}{mark}{parameters}", parts.join("/"));
            }
            1 | 2 => {
                const MORE: [&str; 6] = [
                    "routing=1",
                    "parent=1",
                    "version=7&version_type=external",
                    "refresh=true",
                    "atomic=true",
                    "op_type=create",
                ];
                let mark = if request.path.contains('?') { '&' } else { '?' };
                request.path = format!("{}{mark}{}", request.path, MORE[random.below(MORE.len())]);
            }
            3 => request.method = ["PUT", "POST", "DELETE", "GET"][random.below(4)].to_owned(),
            4 | 5 => {
                if let Ok(mut body) = serde_json::from_str::<Value>(&request.body) {
                    change_a_leaf(&mut body, random, 0);
                    request.body = body.to_string();
                }
            }
            _ => {
                let mut at = random.below(request.body.len() + 1);
                while !request.body.is_char_boundary(at) {
                    at -= 1;
                }
                request.body.truncate(at);
            }
        }
    }
    request
}

fn change_a_leaf(value: &mut Value, random: &mut Random, depth: usize) {
    let leaves = [
        json!(null),
        json!(-1),
        json!(1e308),
        json!(u64::MAX),
        json!(""),
        json!("t,u"),
        json!("_default_"),
        json!({}),
        json!([[]]),
        json!("\u{0}#x"),
    ];
    match value {
        Value::Object(members) if !members.is_empty() && depth < 40 => {
            let at = random.below(members.len());
            if let Some(member) = members.values_mut().nth(at) {
                change_a_leaf(member, random, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() && depth < 40 => {
            let at = random.below(items.len());
            change_a_leaf(&mut items[at], random, depth + 1);
        }
        leaf => *leaf = leaves[random.below(leaves.len())].clone(),
    }
}

#[test]
fn every_recorded_request_leaves_a_folder_that_opens() {
    let Some(shared) = shared::folder() else {
        println!("skipped: the recorded requests are not there");
        return;
    };
    let all = recorded(&shared);
    assert!(!all.is_empty(), "no recorded requests in {}", shared.display());
    let (each, kills) = (number("PLEACH_POISON_REQUESTS", 300), number("PLEACH_POISON_KILLS", 2));
    let seed = number("PLEACH_POISON_SEED", 1);
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut server = Server::start(&data, &["es2", "opensearch2"]);
    // Typed requests write most of what may be refused late.
    let typed: Vec<&Request> = all.iter().filter(|request| request.typed).collect();
    let (mut sent, mut failed) = (0, Vec::new());
    for kill in 0..kills {
        let from = random.below(typed.len());
        for n in 0..usize::try_from(each).unwrap() {
            let recorded = match n % 4 {
                3 => &all[random.below(all.len())],
                _ => typed[(from + n) % typed.len()],
            };
            let request = match n % 3 {
                0 => recorded.clone(),
                _ => mutated(recorded.clone(), &mut random),
            };
            let address = server.address(if request.typed { "es2" } else { "opensearch2" }).to_owned();
            let answer = send(&address, &request.method, &request.path, &[], request.body.as_bytes());
            sent += 1;
            match answer {
                Ok(answer) if answer.status == 500 => failed.push(format!("{} {}", request.method, request.path)),
                _ => {}
            }
        }
        let what = format!("seed {seed}, kill {kill}, {sent} requests");
        server = killed_and_started(server, &data, &what);
    }
    println!("seed {seed}: {sent} requests, {kills} kills, {} answered 500", failed.len());
}
