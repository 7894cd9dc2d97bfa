//! Real data: the commits of repositories as they renamed directories, each a move over HTTP. The paths after each such commit
//! must be those of the fold of the history.
//!
//! A directory is renamed where a commit renames every file in it alike; what else the commit did is written file by file. The
//! smallest history; `PLEACH_HISTORIES=all` takes each that has renames. Where the data is not at hand it says `skipped: N`.

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use tests::{Server, shared};

const REPOSITORIES: [&str; 6] = ["tantivy", "meilisearch", "tigerbeetle", "etcd", "git", "rust-analyzer"];

fn lines(path: &Path) -> impl Iterator<Item = Value> {
    let reader = BufReader::new(GzDecoder::new(File::open(path).expect("a file of the data")));
    reader
        .lines()
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
}

/// Renames by commit: from path to path.
type Renames = BTreeMap<String, BTreeMap<String, String>>;

fn renames_of(path: &Path, repository: &str) -> Renames {
    let own = lines(path).filter(|commit| commit["repo"] == repository);
    let one = |commit: Value| {
        let pairs = commit["renames"].as_array().cloned().unwrap_or_default();
        let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
        (
            commit["sha"].as_str().unwrap_or_default().to_owned(),
            pairs.iter().filter_map(pair).collect(),
        )
    };
    own.map(one).collect()
}

/// The files of a repository, each with the id of its document.
#[derive(Default)]
struct Files {
    by_path: BTreeMap<String, u64>,
    next: u64,
}

impl Files {
    fn below(&self, dir: &str) -> Vec<(String, u64)> {
        let start = format!("{dir}/");
        let range = self.by_path.range(start.clone()..);
        let own = range.take_while(|(path, _)| path.starts_with(&start));
        own.map(|(path, id)| (path.clone(), *id)).collect()
    }

    /// The directories that a commit renames: all files below the first go below the second, where no file is.
    fn directories(&self, renames: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let mut tried = BTreeSet::new();
        let mut out: Vec<(String, String)> = Vec::new();
        for (from, to) in renames {
            for pair in pairs(from, to) {
                let (dir, target) = &pair;
                let overlaps = out
                    .iter()
                    .any(|(done, into)| nested(done, dir) || nested(into, target) || nested(into, dir) || nested(done, target));
                if overlaps || !tried.insert(pair.clone()) {
                    continue;
                }
                let files = self.below(dir);
                let alike = |(path, _): &(String, u64)| {
                    let expected = format!("{target}{}", &path[dir.len()..]);
                    renames.get(path) == Some(&expected)
                };
                let is_free = self.below(target).is_empty() && !self.by_path.contains_key(target);
                if !files.is_empty() && is_free && !nested(dir, target) && files.iter().all(alike) {
                    out.push(pair);
                    break;
                }
            }
        }
        out
    }

    fn move_directory(&mut self, from: &str, to: &str) {
        for (path, id) in self.below(from) {
            self.by_path.remove(&path);
            self.by_path.insert(format!("{to}{}", &path[from.len()..]), id);
        }
    }

    /// The other operations of a commit as a bulk.
    fn bulk(&mut self, operations: &[Value]) -> String {
        let mut out = String::new();
        for operation in operations {
            let (letter, path) = (
                operation[0].as_str().unwrap_or_default(),
                operation[1].as_str().unwrap_or_default(),
            );
            if letter == "D" {
                if let Some(id) = self.by_path.remove(path) {
                    out.push_str(&format!("{}\n", json!({ "delete": { "_id": id.to_string() } })));
                }
            } else if !self.by_path.contains_key(path) {
                let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
                let source = json!({ "path": format!("/{dir}"), "name": name });
                out.push_str(&format!(
                    "{}\n{source}\n",
                    json!({ "index": { "_id": self.next.to_string() } })
                ));
                self.by_path.insert(path.to_owned(), self.next);
                self.next += 1;
            }
        }
        out
    }
}

/// Is one below the other, or the same?
fn nested(one: &str, other: &str) -> bool {
    let below = |path: &str, above: &str| {
        path.strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(one, other) || below(other, one)
}

/// The directories that may have been renamed, the highest first: both paths without more and more of what they end with.
fn pairs(from: &str, to: &str) -> Vec<(String, String)> {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let common = from
        .iter()
        .rev()
        .zip(to.iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let cut = |parts: &[&str], count: usize| parts[..parts.len() - count].join("/");
    (1..=common)
        .rev()
        .map(|count| (cut(&from, count), cut(&to, count)))
        .filter(|(dir, target)| !dir.is_empty() && !target.is_empty())
        .collect()
}

fn send(server: &Server, index: &str, body: &str) {
    if body.is_empty() {
        return;
    }
    let answer = server.send("POST", &format!("/{index}/_bulk"), body).expect("an answer");
    assert!(answer.status == 200 && answer.body["errors"] == false, "{answer:?}");
}

/// The paths of all documents by id, as a search shows them.
fn stored(server: &Server, index: &str) -> BTreeMap<u64, String> {
    let mut out = BTreeMap::new();
    server.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    let mut page = server.ok("POST", &format!("/{index}/_search?scroll=1m&size=5000"), &json!({}));
    loop {
        let hits = page["hits"]["hits"].as_array().cloned().unwrap_or_default();
        if hits.is_empty() {
            return out;
        }
        for hit in hits {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let dir = text(&hit["_source"]["path"]);
            let path = format!("{}/{}", dir.trim_end_matches('/'), text(&hit["_source"]["name"]));
            out.insert(
                text(&hit["_id"]).parse().unwrap_or_default(),
                path.trim_start_matches('/').to_owned(),
            );
        }
        page = server.ok(
            "POST",
            "/_search/scroll",
            &json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] }),
        );
    }
}

fn replay(server: &Server, data: &Path, repository: &str) -> u64 {
    let renames = renames_of(&data.join("renames.ndjson.gz"), repository);
    let properties = json!({ "path": { "type": "tree_path" }, "name": { "type": "keyword" } });
    server.ok(
        "PUT",
        &format!("/{repository}"),
        &json!({ "mappings": { "properties": properties } }),
    );
    let (mut files, mut waiting, mut moved) = (Files::default(), String::new(), 0);
    for commit in lines(&data.join(format!("history-{repository}.ndjson.gz"))) {
        let sha = commit["sha"].as_str().unwrap_or_default();
        let operations = commit["ops"].as_array().cloned().unwrap_or_default();
        let directories = renames.get(sha).map(|renames| files.directories(renames)).unwrap_or_default();
        if directories.is_empty() {
            waiting.push_str(&files.bulk(&operations));
            if waiting.len() > 1 << 20 {
                send(server, repository, &std::mem::take(&mut waiting));
            }
            continue;
        }
        send(server, repository, &std::mem::take(&mut waiting));
        for (from, to) in &directories {
            // A directory of which all files were deleted before is still there.
            let body = json!({ "from": format!("/{from}"), "to": format!("/{to}"), "merge": true });
            server.ok("POST", &format!("/{repository}/_tree/_move"), &body);
            files.move_directory(from, to);
            moved += 1;
        }
        send(server, repository, &files.bulk(&operations));
        let expected: BTreeMap<u64, String> = files.by_path.iter().map(|(path, id)| (*id, path.clone())).collect();
        assert_eq!(stored(server, repository), expected, "{repository} at {sha}: {directories:?}");
    }
    send(server, repository, &waiting);
    let expected: BTreeMap<u64, String> = files.by_path.iter().map(|(path, id)| (*id, path.clone())).collect();
    assert_eq!(stored(server, repository), expected, "{repository} at the end");
    moved
}

#[test]
fn directories_are_renamed_as_in_real_histories() {
    let Some(data) = shared::folder()
        .map(|folder| folder.join("data"))
        .filter(|data| data.join("renames.ndjson.gz").is_file())
    else {
        eprintln!("skipped: 1 (the histories are not at hand)");
        return;
    };
    let everything = std::env::var("PLEACH_HISTORIES").is_ok_and(|how| how == "all");
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    for repository in REPOSITORIES.iter().take(if everything { REPOSITORIES.len() } else { 1 }) {
        let moved = replay(&server, &data, repository);
        eprintln!("{repository}: {moved} directories were renamed");
        assert!(moved > 0, "{repository}: no directory was renamed");
    }
}
