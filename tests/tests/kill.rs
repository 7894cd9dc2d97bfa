//! Kills the server at random moments under writes, refreshes, checkpoints and merges: nothing that was acknowledged
//! may be lost, and nothing half applied may be seen. `PLEACH_TEST_KILLS` says how often (4).

#![expect(clippy::unwrap_used, reason = "a test's functions are tests too")]

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tests::Server;

const THREADS: u64 = 4;
/// Few, so that documents are also overwritten and deleted.
const KEYS: u64 = 50;
/// Checkpoints come by themselves several times a round.
const FREQUENT: &[&str] = &["log.checkpoint_ops=60", "log.checkpoint_bytes=64kb"];

/// What a thread knows of a document: the last write answered, and the last one sent.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    acknowledged: u64,
    sent: u64,
}

#[test]
fn nothing_acknowledged_is_lost() {
    let rounds = std::env::var("PLEACH_TEST_KILLS")
        .ok()
        .and_then(|r| r.parse().ok())
        .unwrap_or(4_u32);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut known: Vec<HashMap<u64, Known>> = vec![HashMap::new(); THREADS as usize];
    let mut acknowledged = 0;
    for round in 0..rounds {
        let server = Server::start_with(&data, &["es8"], FREQUENT);
        if round == 0 {
            let nested = r#"{"mappings":{"properties":{"parts":{"type":"nested"}}}}"#;
            assert_eq!(server.send("PUT", "/kill", nested).unwrap().status, 200);
        }
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (thread, known) in known.iter_mut().enumerate() {
                let (server, over) = (&server, &over);
                scope.spawn(move || write(server, thread, known, over));
            }
            scope.spawn(|| disturb(&server, &over));
            std::thread::sleep(Duration::from_millis(150 + RandomState::new().hash_one(round) % 900));
            server.signal(libc::SIGKILL);
            over.store(true, Ordering::Relaxed);
        });
        drop(server);
        let server = Server::start(&data, &["es8"]);
        acknowledged = verify(&server, &mut known);
        // The verified server is killed too, without a word.
        server.signal(libc::SIGKILL);
    }
    // Whatever the number of kills: what is to be replayed, the file that was written and the spare one.
    let log: u64 = std::fs::read_dir(data.join("log"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(
        log < 2 * (64 << 20) + (16 << 20),
        "the log takes {log} bytes after {rounds} rounds"
    );
    println!("{rounds} kills, each of the {acknowledged} documents there as it was acknowledged");
    assert!(acknowledged > 0, "nothing was ever acknowledged");
}

/// Refreshes, checkpoints and merges until the server is gone.
fn disturb(server: &Server, over: &AtomicBool) {
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        let path = ["/kill/_refresh", "/kill/_flush", "/kill/_forcemerge?max_num_segments=1"][round % 3];
        match server.send("POST", path, "") {
            Ok(answer) if matches!(answer.status, 200 | 404) => {}
            Ok(answer) if !over.load(Ordering::Relaxed) => panic!("{path}: {answer:?}"),
            _ => return,
        }
        round += 1;
        std::thread::sleep(Duration::from_millis(7));
    }
}

/// Writes until the server is gone. Each key belongs to one thread, and its numbers only grow; every seventh is a delete.
fn write(server: &Server, thread: usize, known: &mut HashMap<u64, Known>, over: &AtomicBool) {
    let mut next = known.values().map(|k| k.sent).max().unwrap_or(0);
    while !over.load(Ordering::Relaxed) {
        next += 1;
        let entry = known.entry(next % KEYS).or_default();
        entry.sent = next;
        let path = format!("/kill/_doc/{thread}-{}", next % KEYS);
        let answer = match next % 7 {
            0 => server.send("DELETE", &path, ""),
            _ => server.send("PUT", &path, &body(next)),
        };
        match answer {
            Ok(answer) if matches!(answer.status, 200 | 201) || (next.is_multiple_of(7) && answer.status == 404) => {
                entry.acknowledged = next
            }
            Ok(answer) if !over.load(Ordering::Relaxed) => panic!("{path}: {answer:?}"),
            _ => return,
        }
    }
}

/// A block of three documents that all say the same number, under a field of its own now and then.
fn body(n: u64) -> String {
    format!(r#"{{"n":{n},"f{}":"w{n}","parts":[{{"n":{n}}},{{"n":{n}}}]}}"#, n % 9)
}

/// Each document is as its last acknowledged write left it, or as a later one that was sent.
fn verify(server: &Server, known: &mut [HashMap<u64, Known>]) -> u64 {
    let mut there = 0;
    let mut sum = 0;
    for (thread, known) in known.iter_mut().enumerate() {
        for (key, known) in known {
            let answer = server.send("GET", &format!("/kill/_doc/{thread}-{key}"), "").unwrap();
            let found = answer.body["_source"]["n"].as_u64();
            if let Some(n) = found {
                let whole: serde_json::Value = serde_json::from_str(&body(n)).unwrap();
                assert_eq!(answer.body["_source"], whole, "half a document");
            }
            // A thread sends a key again only after an answer, so there are but two possibilities.
            let possible = |n: u64| if n == 0 || n.is_multiple_of(7) { None } else { Some(n) };
            let good = found == possible(known.acknowledged) || found == possible(known.sent);
            assert!(good, "document {thread}-{key} is {found:?}, known is {known:?}");
            there += u64::from(found.is_some());
            sum += u64::from(known.acknowledged > 0);
            // What is there now is what the next round starts from.
            known.acknowledged = found.unwrap_or(if possible(known.sent).is_none() {
                known.sent
            } else {
                known.acknowledged
            });
        }
    }
    if there > 0 {
        assert_eq!(server.send("POST", "/kill/_refresh", "").unwrap().status, 200);
        let counted = server.send("GET", "/kill/_count", "").unwrap();
        assert_eq!(counted.body["count"], there, "searches see what reads see");
        let numbers = r#"{"size":0,"aggs":{"roots":{"sum":{"field":"n"}},"parts":{"nested":{"path":"parts"},"aggs":{"sum":{"sum":{"field":"parts.n"}}}}}}"#;
        let sums = server.send("POST", "/kill/_search", numbers).unwrap();
        let sum = |at: &str| sums.body.pointer(at).and_then(serde_json::Value::as_f64).unwrap();
        assert_eq!(
            sum("/aggregations/parts/sum/value"),
            2.0 * sum("/aggregations/roots/value"),
            "blocks are whole"
        );
        assert_eq!(sum("/aggregations/parts/doc_count"), 2.0 * there as f64);
    }
    sum
}
