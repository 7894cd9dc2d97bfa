//! Documents to load: the real commits where they are at hand, else as many made ones of their shape.

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use tests::Server;

/// How many there are.
pub(crate) const COUNT: usize = 41_328;

/// What belongs to the project and lies beside the checkout.
pub(crate) fn shared() -> PathBuf {
    match std::env::var_os("PLEACH_SHARED") {
        Some(given) => given.into(),
        None => tests::root().join("../shared"),
    }
}

/// Where they come from, for the report.
pub(crate) fn origin() -> &'static str {
    if file().exists() { "real" } else { "made" }
}

fn file() -> PathBuf {
    shared().join("data/commits.ndjson.gz")
}

/// The mapping of the commits: nested files, keywords, text, dates.
pub(crate) fn index() -> Value {
    let keyword = json!({ "type": "keyword" });
    json!({
        "settings": {
            "number_of_shards": 1, "number_of_replicas": 0,
            "analysis": { "analyzer": { "paths": { "tokenizer": "path_hierarchy" } } },
        },
        "mappings": { "properties": {
            "repo": keyword, "sha": keyword, "parents": keyword,
            "subject": { "type": "text" }, "body": { "type": "text" },
            "author": { "properties": {
                "id": keyword, "email": keyword,
                "name": { "type": "text", "fields": { "raw": keyword } },
            } },
            "date": { "type": "date", "format": "epoch_second" },
            "n_files": { "type": "integer" },
            "files": { "type": "nested", "properties": {
                "path": { "type": "keyword", "fields": { "tree": { "type": "text", "analyzer": "paths" } } },
                "dir": keyword, "ext": keyword, "name": keyword, "status": keyword,
            } },
        } },
    })
}

/// Bulk bodies of 1,000 documents.
pub(crate) fn bulks() -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut add = |n: usize, id: &str, source: &str| {
        if n.is_multiple_of(1000) {
            out.push(String::new());
        }
        if let Some(body) = out.last_mut() {
            let _ = writeln!(body, "{{\"index\":{{\"_id\":{}}}}}\n{source}", Value::from(id));
        }
    };
    match std::fs::File::open(file()) {
        Ok(file) => {
            let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
            for (n, line) in lines.take(COUNT).enumerate() {
                let mut value: Value = serde_json::from_str(&line.expect("the commits can be read")).expect("commits are JSON");
                let id = value["_id"].as_str().unwrap_or_default().to_owned();
                if let Some(object) = value.as_object_mut() {
                    object.remove("_id");
                }
                add(n, &id, &value.to_string());
            }
        }
        Err(_) => (0..COUNT).for_each(|n| add(n, &format!("c{n}"), &made(n).to_string())),
    }
    out
}

/// Flat documents: author, repository, subject, date and number of files of each commit.
pub(crate) fn flat() -> Vec<Value> {
    let flat = |commit: &Value| {
        json!({
            "author_id": commit["author"]["id"], "repo": commit["repo"], "subject": commit["subject"], "date": commit["date"],
            "n": commit["n_files"],
        })
    };
    all().iter().map(flat).collect()
}

/// The commits as they are.
pub(crate) fn all() -> Vec<Value> {
    match std::fs::File::open(file()) {
        Ok(file) => {
            let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
            let commit = |line: std::io::Result<String>| -> Value {
                serde_json::from_str(&line.expect("the commits can be read")).expect("commits are JSON")
            };
            lines.take(COUNT).map(commit).collect()
        }
        Err(_) => (0..COUNT).map(made).collect(),
    }
}

/// The mapping of the flat documents.
pub(crate) fn flat_index() -> Value {
    let keyword = json!({ "type": "keyword" });
    json!({
        "settings": { "number_of_shards": 1, "number_of_replicas": 0 },
        "mappings": { "properties": {
            "author_id": keyword, "repo": keyword, "subject": { "type": "text" },
            "date": { "type": "date", "format": "epoch_second" }, "n": { "type": "integer" },
        } },
    })
}

fn made(n: usize) -> Value {
    const WORDS: [&str; 12] = [
        "fix", "add", "parser", "lexer", "index", "query", "merge", "segment", "cache", "test", "docs", "release",
    ];
    let word = |k: usize| WORDS[(n.wrapping_mul(2_654_435_761).wrapping_add(k * 7919) >> 7) % WORDS.len()];
    let files: Vec<Value> = (0..1 + n % 5)
        .map(|k| {
            json!({
                "path": format!("/crates/{}/src/{}{k}.rs", word(k), word(k + 1)), "dir": format!("/crates/{}/src", word(k)),
                "name": format!("{}{k}.rs", word(k + 1)), "ext": "rs", "status": "M",
            })
        })
        .collect();
    json!({
        "repo": "made", "sha": format!("{n:040x}"), "parents": [format!("{:040x}", n.saturating_sub(1))],
        "author": { "id": format!("a{}", n % 1300), "name": format!("Author {}", n % 1300), "email": format!("a{}@example.org", n % 1300) },
        "date": 1_500_000_000 + n * 3600, "subject": format!("{} {} {} {}", word(1), word(2), word(3), n % 977),
        "body": (0..30).map(word).collect::<Vec<_>>().join(" "), "n_files": files.len(), "files": files,
    })
}

/// Makes the index `commits` and loads it; answers documents a second.
pub(crate) fn load(server: &Server) -> f64 {
    let bodies = bulks();
    put(server, "/commits", &index().to_string());
    let begun = std::time::Instant::now();
    for body in &bodies {
        bulk(server, "/commits/_bulk", body);
    }
    let done = server.send("POST", "/commits/_refresh", "").expect("the server answers");
    assert_eq!(done.status, 200, "{:?}", done.body);
    COUNT as f64 / begun.elapsed().as_secs_f64()
}

/// A request that has to succeed.
pub(crate) fn put(server: &Server, path: &str, body: &str) {
    let done = server.send("PUT", path, body).expect("the server answers");
    assert!(done.status < 300, "{path}: {:?}", done.body);
}

/// A bulk request that has to succeed wholly.
pub(crate) fn bulk(server: &Server, path: &str, body: &str) {
    let done = server.send("POST", path, body).expect("the server answers");
    assert!(done.status == 200 && done.body["errors"] == false, "{path}: {}", done.status);
}
