//! Builds of much at once: parts on several threads, each a segment, of documents that were kept as they were read, or
//! are read again.

use super::*;
use std::ops::Range;

/// A document of about 4 kB.
fn document(n: usize, round: usize) -> Value {
    json!({
        "n": n, "round": round, "text": format!("number{n} {}", "word ".repeat(800)),
        "notes": [{ "at": n }, { "at": n + 1 }],
    })
}

async fn fill(engine: &EmbeddedEngine, range: Range<usize>, round: usize) {
    for n in range {
        write(engine, put("a", &n.to_string(), document(n, round))).await;
    }
}

/// Each document is there once, in its newest state and with its nested ones, and they lie in the order of writing.
async fn check(engine: &EmbeddedEngine, all: usize, again: &Range<usize>) {
    refresh(engine, "a").await;
    assert_eq!(count(engine, "a", json!({ "match_all": {} })).await, all as u64);
    assert_eq!(
        count(engine, "a", json!({ "term": { "round": 2 } })).await,
        again.len() as u64
    );
    for n in (0..all).step_by(37).chain([again.start, all - 1]) {
        assert_eq!(count(engine, "a", json!({ "term": { "n": n } })).await, 1, "{n}");
        assert_eq!(
            count(engine, "a", json!({ "match": { "text": format!("number{n}") } })).await,
            1,
            "{n}"
        );
        let noted = json!({ "nested": { "path": "notes", "query": { "term": { "notes.at": n } } } });
        assert_eq!(count(engine, "a", noted).await, if n == 0 { 1 } else { 2 }, "{n}");
        let round = if again.contains(&n) { 2 } else { 1 };
        assert_eq!(source(engine, "a", &n.to_string()).await, Some(document(n, round)), "{n}");
    }
}

/// Twice: with room for all that was read, and with next to none, so that builds read again.
#[tokio::test(flavor = "multi_thread")]
async fn parts_have_each_document_once() {
    for pending_bytes in [64 << 20, 256 << 10] {
        let disk = FaultyDisk::new(1);
        let limits = Limits {
            pending_bytes,
            ..Limits::default()
        };
        let engine = try_open(&disk, limits.clone()).unwrap();
        let mappings = json!({ "properties": { "notes": { "type": "nested" } } });
        try_create(&engine, "a", json!({ "refresh_interval": "-1" }), mappings)
            .await
            .unwrap();
        fill(&engine, 0..600, 1).await;
        check(&engine, 600, &(0..0)).await;
        let first = try_search(&engine, &["a"], json!({ "size": 600, "_source": false }))
            .await
            .unwrap();
        let ids: Vec<String> = first.hits.hits.iter().map(|hit| hit.id.id.to_string()).collect();
        let written: Vec<String> = (0..600).map(|n| n.to_string()).collect();
        assert_eq!(ids, written, "equal scores come in the order of writing");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores > 1 && pending_bytes > 1 << 20 {
            assert!(
                stats(&engine, "a").await.1.segments > 1,
                "a build that is waited for has parts"
            );
        }
        // What replaces lies in other segments than what it replaces; some are new.
        let again = 100..700;
        fill(&engine, again.clone(), 2).await;
        check(&engine, 700, &again).await;
        drop(engine);
        let engine = try_open(&disk, limits).unwrap();
        check(&engine, 700, &again).await;
    }
}
