//! Searches beside moves and writes: no search sees half a move, and none loses a document. `PLEACH_TREE_SEARCHES` says how many
//! searches (800); a million is the promise of the documentation.

use model::random::random;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tests::Server;

const SEARCHERS: u64 = 16;
const MOVERS: u64 = 4;
const WRITERS: u64 = 4;
/// Directories between which those of the movers go.
const HOMES: u64 = 8;
/// Documents in the directory of each mover, half of them one level deeper.
const DOCUMENTS: u64 = 20;

fn fill(server: &Server) {
    let properties = json!({ "path": { "type": "tree_path" }, "group": { "type": "keyword" }, "n": { "type": "integer" } });
    server.ok("PUT", "/fs", &json!({ "mappings": { "properties": properties } }));
    for mover in 0..MOVERS {
        for n in 0..DOCUMENTS {
            let path = format!("/top/home0/own{mover}{}", ["", "/deep"][n as usize % 2]);
            let body = json!({ "path": path, "group": format!("own{mover}"), "n": n });
            server.ok("PUT", &format!("/fs/_doc/{mover}-{n}"), &body);
        }
    }
    server.ok("POST", "/fs/_refresh", &Value::Null);
}

/// Moves the own directory from home to home, now and then through another name.
fn moves(server: &Server, mover: u64, over: &AtomicBool, done: &AtomicU64) {
    let mut below = random(mover + 1);
    let mut at = format!("/top/home0/own{mover}");
    while !over.load(Ordering::Relaxed) {
        let to = format!("/top/home{}/own{mover}", below(HOMES));
        if to != at {
            server.ok("POST", "/fs/_tree/_move", &json!({ "from": at, "to": to }));
            done.fetch_add(1, Ordering::Relaxed);
            at = to;
        }
    }
}

/// Rewrites documents where they are.
fn writes(server: &Server, writer: u64, over: &AtomicBool, done: &AtomicU64) {
    let mut below = random(100 + writer);
    while !over.load(Ordering::Relaxed) {
        let id = format!("{}-{}", below(MOVERS), below(DOCUMENTS));
        server.ok("POST", &format!("/fs/_update/{id}"), &json!({ "doc": { "n": below(1000) } }));
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn search(server: &Server, below: &mut impl FnMut(u64) -> u64) {
    let all = server.ok("GET", "/fs/_count", &json!({ "query": { "term": { "path.tree": "/top" } } }));
    assert_eq!(all["count"], MOVERS * DOCUMENTS, "documents below the top");
    let own = format!("own{}", below(MOVERS));
    let body = json!({ "size": 100, "query": { "term": { "group": own } }, "_source": ["path"] });
    let found = server.ok("POST", "/fs/_search", &body);
    let hits = found["hits"]["hits"].as_array().cloned().unwrap_or_default();
    assert_eq!(hits.len() as u64, DOCUMENTS, "{own}");
    let homes: BTreeSet<String> = hits
        .iter()
        .map(|hit| {
            hit["_source"]["path"]
                .as_str()
                .unwrap_or_default()
                .trim_end_matches("/deep")
                .to_owned()
        })
        .collect();
    assert_eq!(homes.len(), 1, "{own} is in one place: {homes:?}");
    let is_known = |home: &String| (0..HOMES).any(|n| *home == format!("/top/home{n}/{own}"));
    assert!(homes.iter().all(is_known), "no such directory: {homes:?}");
    // What is found there by its path is all of it, or it has gone elsewhere since.
    let there = homes.first().cloned().unwrap_or_default();
    let counted = server.ok("GET", "/fs/_count", &json!({ "query": { "term": { "path.tree": there } } }));
    assert!(
        counted["count"] == DOCUMENTS || counted["count"] == 0,
        "half of [{there}]: {counted}"
    );
}

#[test]
fn no_search_sees_half_a_move() {
    let wanted: u64 = std::env::var("PLEACH_TREE_SEARCHES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(800);
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"), &["es8"]);
    fill(&server);
    let over = AtomicBool::new(false);
    let (moved, written) = (AtomicU64::new(0), AtomicU64::new(0));
    let (server, over, moved, written) = (&server, &over, &moved, &written);
    std::thread::scope(|threads| {
        (0..MOVERS).for_each(|n| drop(threads.spawn(move || moves(server, n, over, moved))));
        (0..WRITERS).for_each(|n| drop(threads.spawn(move || writes(server, n, over, written))));
        let searchers: Vec<_> = (0..SEARCHERS)
            .map(|n| {
                threads.spawn(move || {
                    let mut below = random(1000 + n);
                    // Each round is three requests.
                    for _ in 0..wanted.div_ceil(SEARCHERS * 3) {
                        search(server, &mut below);
                    }
                })
            })
            .collect();
        let failed = searchers.into_iter().filter_map(|searcher| searcher.join().err()).count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0, "searchers that saw something wrong");
    });
    let (moved, written) = (moved.load(Ordering::Relaxed), written.load(Ordering::Relaxed));
    eprintln!("{wanted} searches beside {moved} moves and {written} writes");
    assert!(moved > 0 && written > 0, "nothing went on beside the searches");
}
