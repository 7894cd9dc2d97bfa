//! Real data: histories of repositories replayed through `_bulk`, whose end must be the fold of their operations; and
//! the commits of one, indexed and searched.
//!
//! All six histories and all commits; `PLEACH_HISTORIES=some` takes the smallest and the first. Where the data is
//! not at hand it says `skipped: N`.

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tests::{Server, root};

/// Operations of one `_bulk`: whole commits up to about so many.
const BULK_OPS: usize = 1000;

fn everything() -> bool {
    !std::env::var("PLEACH_HISTORIES").is_ok_and(|how| how == "some")
}

fn lines(path: &Path) -> impl Iterator<Item = Value> {
    let reader = BufReader::new(GzDecoder::new(File::open(path).unwrap()));
    reader.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
}

/// Sends a bulk; every item must be done.
fn bulk(server: &Server, index: &str, body: &str) {
    let answer = server.send("POST", &format!("/{index}/_bulk"), body).unwrap();
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let failed = |item: &&Value| item.as_object().unwrap().values().any(|one| one.get("error").is_some());
    let first = answer.body["items"].as_array().unwrap().iter().find(failed);
    assert!(answer.body["errors"] == false && first.is_none(), "{first:?}");
}

/// Every document of an index, by a scroll.
fn all(server: &Server, index: &str) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    let mut page = server
        .send("POST", &format!("/{index}/_search?scroll=1m&size=5000"), "{}")
        .unwrap()
        .body;
    loop {
        let hits = page["hits"]["hits"].as_array().unwrap().clone();
        if hits.is_empty() {
            return out;
        }
        for hit in hits {
            let before = out.insert(hit["_id"].as_str().unwrap().to_owned(), hit["_source"].clone());
            assert!(before.is_none(), "{} came twice", hit["_id"]);
        }
        let next = json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] });
        page = server.send("POST", "/_search/scroll", &next.to_string()).unwrap().body;
    }
}

fn replay(server: &Server, path: &Path, index: &str) {
    let begun = Instant::now();
    let mut tree: BTreeMap<String, Value> = BTreeMap::new();
    let (mut body, mut waiting, mut commits, mut operations) = (String::new(), 0, 0, 0);
    for commit in lines(path) {
        for op in commit["ops"].as_array().unwrap() {
            let (letter, name) = (op[0].as_str().unwrap(), op[1].as_str().unwrap());
            if letter == "D" {
                body.push_str(&format!("{}\n", json!({ "delete": { "_id": name } })));
                tree.remove(name);
            } else {
                let source = json!({ "path": name, "blob": op[2], "sha": commit["sha"] });
                body.push_str(&format!("{}\n{source}\n", json!({ "index": { "_id": name } })));
                tree.insert(name.to_owned(), source);
            }
            waiting += 1;
            operations += 1;
        }
        commits += 1;
        if waiting >= BULK_OPS {
            bulk(server, index, &body);
            (body, waiting) = (String::new(), 0);
        }
    }
    if waiting > 0 {
        bulk(server, index, &body);
    }
    let took = begun.elapsed();
    assert_eq!(server.send("POST", &format!("/{index}/_refresh"), "").unwrap().status, 200);
    let found = all(server, index);
    assert_eq!(found.len(), tree.len(), "{index}: as many files as in the newest tree");
    for (name, source) in &tree {
        assert_eq!(found.get(name), Some(source), "{index}: {name}");
    }
    eprintln!(
        "{index}: {commits} commits, {operations} operations in {took:.1?}, {} files at the end",
        tree.len()
    );
}

#[test]
fn the_end_of_a_history_is_the_fold_of_its_operations() {
    let folder = root().join("../shared/data");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("history-"))
        })
        .collect();
    paths.sort_by_key(|path| std::fs::metadata(path).map(|m| m.len()).unwrap_or(u64::MAX));
    if paths.is_empty() {
        eprintln!("skipped: 6 histories are not at hand");
        return;
    }
    if !everything() {
        paths.truncate(1);
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Server::start(&data, &["es8"]);
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().replace(".ndjson.gz", "");
    for path in &paths {
        replay(&server, path, &name(path));
    }
    // What was acknowledged is there after a kill, too.
    let before = all(&server, &name(&paths[0]));
    server.signal(libc::SIGKILL);
    drop(server);
    let server = Server::start(&data, &["es8"]);
    assert_eq!(all(&server, &name(&paths[0])), before);
}

#[test]
fn commits_are_indexed_and_searched() {
    let path = root().join("../shared/data/commits.ndjson.gz");
    if !path.exists() {
        eprintln!("skipped: 41328 commits are not at hand");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    let mapping = json!({ "mappings": { "properties": {
        "sha": { "type": "keyword" }, "parents": { "type": "keyword" }, "date": { "type": "date", "format": "epoch_second" },
        "author": { "properties": { "id": { "type": "keyword" } } },
        "files": { "type": "nested", "properties": { "path": { "type": "keyword" }, "ext": { "type": "keyword" }, "status": { "type": "keyword" } } } } } });
    assert_eq!(server.send("PUT", "/commits", &mapping.to_string()).unwrap().status, 200);
    let begun = Instant::now();
    let most = if everything() { usize::MAX } else { 1500 };
    let mut commits = Vec::new();
    let mut body = String::new();
    for mut commit in lines(&path).take(most) {
        let id = commit.as_object_mut().unwrap().remove("_id").unwrap();
        body.push_str(&format!("{}\n{commit}\n", json!({ "index": { "_id": id } })));
        commits.push(commit);
        if commits.len().is_multiple_of(500) {
            bulk(&server, "commits", &std::mem::take(&mut body));
        }
    }
    if !body.is_empty() {
        bulk(&server, "commits", &body);
    }
    let took = begun.elapsed();
    assert_eq!(server.send("POST", "/commits/_refresh", "").unwrap().status, 200);
    let count = |query: Value| {
        let answer = server
            .send("POST", "/commits/_count", &json!({ "query": query }).to_string())
            .unwrap();
        answer.body["count"].as_u64().unwrap_or_else(|| panic!("{:?}", answer.body))
    };
    let fold = |holds: &dyn Fn(&Value) -> bool| commits.iter().filter(|commit| holds(commit)).count() as u64;
    assert_eq!(count(json!({ "match_all": {} })), commits.len() as u64);
    let authors: HashSet<&Value> = commits.iter().map(|commit| &commit["author"]["id"]).take(200).collect();
    for author in authors {
        assert_eq!(
            count(json!({ "term": { "author.id": author } })),
            fold(&|commit| commit["author"]["id"] == *author)
        );
    }
    let middle = commits[commits.len() / 2]["date"].as_i64().unwrap();
    assert_eq!(
        count(json!({ "range": { "date": { "gte": middle } } })),
        fold(&|commit| commit["date"].as_i64() >= Some(middle))
    );
    for ext in ["rs", "toml", "md"] {
        let touches = |status: &'static str| {
            move |commit: &Value| {
                let files = commit["files"].as_array().cloned().unwrap_or_default();
                files.iter().any(|file| file["ext"] == ext && file["status"] == status)
            }
        };
        let query = |status: &str| {
            json!({ "nested": { "path": "files", "query": { "bool": { "filter": [
                { "term": { "files.ext": ext } }, { "term": { "files.status": status } } ] } } } })
        };
        for status in ["A", "M", "D"] {
            assert_eq!(count(query(status)), fold(&touches(status)), "{ext} {status}");
        }
    }
    let words = |commit: &Value| -> HashSet<String> {
        let subject = commit["subject"].as_str().unwrap_or_default().to_lowercase();
        subject
            .split(|c: char| !c.is_ascii_alphanumeric())
            .map(str::to_owned)
            .collect()
    };
    // Words that only stand between spaces, so that both ways of cutting agree.
    for word in ["merge", "hover"] {
        let found = count(json!({ "match": { "subject": word } }));
        let least = fold(&|commit| {
            commit["subject"]
                .as_str()
                .unwrap_or_default()
                .to_lowercase()
                .split(' ')
                .any(|w| w == word)
        });
        let most = fold(&|commit| words(commit).contains(word));
        assert!((least..=most).contains(&found), "{word}: {found} of {least} to {most}");
    }
    eprintln!("{} commits in {took:.1?}", commits.len());
}
