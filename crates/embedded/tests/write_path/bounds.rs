//! What is bounded: memory, log, queues, time; beyond each bound a refusal that names its setting.

use super::*;
use engine::Refresh;
use model::ErrorKind;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn more_pending_than_allowed_is_refused_by_name() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        pending_bytes: 64 << 10,
        ..small()
    };
    let engine = try_open(&disk, limits).unwrap();
    create(&engine, "a", json!({ "refresh_interval": "-1" })).await;
    // Builds make room: a writer is held up, not refused.
    let long = "word ".repeat(800);
    for n in 0..200 {
        write(&engine, put("a", &n.to_string(), json!({ "text": long }))).await;
        assert!(node(&engine).await.pending_bytes < 128 << 10, "pending stays near its bound");
    }
    refresh(&engine, "a").await;
    assert_eq!(count(&engine, "a", json!({ "match_all": {} })).await, 200);
}

/// Each of these batches passes the bound by itself, and all begin while there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_at_once_wait_for_room_inside_their_batches() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        pending_bytes: 64 << 10,
        ..small()
    };
    let engine = Arc::new(try_open(&disk, limits).unwrap());
    create(&*engine, "a", json!({ "refresh_interval": "-1" })).await;
    let long = "word ".repeat(800);
    let tasks = (0..8).map(|writer| {
        let (engine, long) = (engine.clone(), long.clone());
        tokio::spawn(async move {
            for round in 0..3 {
                let writes: Vec<_> = (0..40)
                    .map(|n| put("a", &format!("{writer}-{round}-{n}"), json!({ "text": long })))
                    .collect();
                let outcomes = match writer % 2 {
                    0 => engine.write(writes, Refresh::No).await,
                    _ => engine.write_together(writes, Refresh::No).await,
                };
                for (n, outcome) in outcomes.unwrap().into_iter().enumerate() {
                    let Outcome::Written(written) = outcome else {
                        panic!("{writer}-{round}-{n}: {outcome:?}");
                    };
                    assert_eq!(
                        *written.at.id.id,
                        format!("{writer}-{round}-{n}"),
                        "outcomes stand in the order of the writes"
                    );
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    refresh(&*engine, "a").await;
    assert_eq!(count(&*engine, "a", json!({ "match_all": {} })).await, 8 * 3 * 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_checkpoints_stops_writers_by_name() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        log_file_bytes: 8 << 20,
        queue_bytes: 1 << 20,
        log_max_bytes: 128 << 10,
        ..Limits::default()
    };
    let engine = try_open(&disk, limits).unwrap();
    create(&engine, "a", json!({})).await;
    disk.set_full_below(Some(Path::new(DIR).join("segments")));
    let long = "word ".repeat(800);
    let mut n = 0;
    let refused = loop {
        match try_write(&engine, put("a", &n.to_string(), json!({ "text": long }))).await {
            Ok(()) => n += 1,
            Err(e) => break e,
        }
        assert!(n < 100, "the bound holds");
    };
    // The disk is the cause, and later is no better while it is full.
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    assert!(refused.reason().contains("[log.max_bytes]"), "{refused}");
    assert!(source(&engine, "a", "0").await.is_some(), "reads go on");
    disk.set_full_below(None);
    // The checkpoint is tried again, and the writer waits for it.
    write(&engine, put("a", "after", json!({ "text": "after" }))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_start_a_checkpoint_too() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        checkpoint_ops: 50,
        ..small()
    };
    let engine = try_open(&disk, limits).unwrap();
    create(&engine, "a", json!({})).await;
    for n in 0..60 {
        write(&engine, put("a", &n.to_string(), json!({ "n": n }))).await;
    }
    let begun = Instant::now();
    while stats(&engine, "a").await.1.flush_total == 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "a checkpoint comes by itself");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_in_memory_have_their_fill() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        ram_segment_bytes: 40 << 10,
        checkpoint_bytes: 1 << 30,
        ..small()
    };
    let engine = try_open(&disk, limits).unwrap();
    for index in 0..30 {
        let name = format!("i{index}");
        create(&engine, &name, json!({})).await;
        for n in 0..5 {
            write(
                &engine,
                put(&name, &n.to_string(), json!({ "n": n, "text": "some words of text" })),
            )
            .await;
        }
        refresh(&engine, &name).await;
        assert!(node(&engine).await.ram_segment_bytes <= 40 << 10);
    }
    for index in 0..30 {
        assert_eq!(
            count(&engine, &format!("i{index}"), json!({ "match": { "text": "words" } })).await,
            5
        );
    }
}

/// One old write, endless load: checkpoints flush the cold index too.
#[tokio::test(flavor = "multi_thread")]
async fn a_cold_index_does_not_pin_the_log() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    create(&engine, "cold", json!({ "refresh_interval": "-1" })).await;
    create(&engine, "hot", json!({})).await;
    write(&engine, put("cold", "1", json!({ "n": 1 }))).await;
    let long = "word ".repeat(400);
    let mut most = 0;
    for round in 0..40 {
        let writes = (0..50)
            .map(|n| put("hot", &format!("{}", n + round % 3), json!({ "text": long })))
            .collect();
        for outcome in engine.write(writes, Refresh::No).await.unwrap() {
            assert!(matches!(outcome, Outcome::Written(_)), "{outcome:?}");
        }
        most = most.max(node(&engine).await.log_bytes);
    }
    flush(&engine).await.unwrap();
    let least = node(&engine).await.log_bytes;
    eprintln!("40 rounds of 100 kB: at most {most} bytes of log, {least} after a flush");
    assert!(
        most <= 8 << 20 && least <= 2 << 20,
        "4 MB were written; [{most}], then [{least}] bytes of log were kept"
    );
    assert_eq!(
        count(&engine, "cold", json!({ "match_all": {} })).await,
        0,
        "a checkpoint publishes nothing"
    );
    disk.crash();
    drop(engine);
    assert_eq!(source(&open(&disk), "cold", "1").await.unwrap()["n"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn refreshes_stay_as_fast_as_they_were() {
    let engine = open(&FaultyDisk::new(1));
    create(&engine, "a", json!({ "refresh_interval": "-1" })).await;
    let all = rounds("PLEACH_REFRESHES", 600);
    let mut times = Vec::new();
    for n in 0..all {
        write(&engine, put("a", &(n % 10).to_string(), json!({ "n": n }))).await;
        let from = Instant::now();
        refresh(&engine, "a").await;
        times.push(from.elapsed());
    }
    let median = |part: &[Duration]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let fifth = times.len() / 5;
    let (first, last) = (median(&times[fifth..2 * fifth]), median(&times[4 * fifth..]));
    eprintln!("{all} refreshes: median {first:?} in the second fifth, {last:?} in the last");
    assert!(last < first * 4 + Duration::from_millis(2), "{first:?} became {last:?}");
}

/// How much memory the process has for itself.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0) << 10
}

/// No thread and no fixed memory for an index. Measured by itself: `PLEACH_INDICES=1000`, `--exact
/// bounds::a_thousand_indices_cost_little --nocapture`, in a release build.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_indices_cost_little() {
    let indices = rounds("PLEACH_INDICES", 100);
    let dir = tempfile::tempdir().unwrap();
    let start = || EmbeddedEngine::open(dir.path(), Arc::new(SystemClock::default()), Limits::default()).unwrap();
    let engine = start();
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count());
    let before = threads();
    let fields: Map<String, Value> = (0..20).map(|n| (format!("field{n}"), json!({ "type": "keyword" }))).collect();
    let document: Map<String, Value> = (0..20).map(|n| (format!("field{n}"), json!(format!("value {n}")))).collect();
    for index in 0..indices {
        let name = format!("i{index}");
        try_create(&engine, &name, json!({}), json!({ "properties": fields }))
            .await
            .unwrap();
        let writes = (0..10)
            .map(|n| put(&name, &n.to_string(), Value::Object(document.clone())))
            .collect();
        engine.write(writes, Refresh::No).await.unwrap();
    }
    // Engines of other tests come and go beside this one.
    let most = before + indices as usize / 2;
    assert!(threads() < most, "no thread for an index: {before} became {}", threads());
    engine.close().unwrap();
    drop(engine);
    let open = |what: &str| {
        let (bytes, from) = (anonymous_bytes(), Instant::now());
        let engine = start();
        let took = from.elapsed();
        let more = anonymous_bytes().saturating_sub(bytes);
        eprintln!(
            "{indices} indices of 20 fields and 10 documents, {what}: opened in {took:?}, {} kB more memory",
            more >> 10
        );
        (engine, took, more)
    };
    // Figures of a debug build on a busy machine say nothing.
    let check = |took: Duration, more: u64| {
        if !cfg!(debug_assertions) {
            assert!(took < Duration::from_secs(2) && more < 60 << 20, "{took:?}, {more} bytes");
        }
    };
    let (engine, took, more) = open("closed in order");
    assert_eq!(count(&engine, "i0", json!({ "term": { "field3": "value 3" } })).await, 10);
    check(took, more);
    // One old unflushed write pins the log.
    write(&engine, put("i0", "old", json!({ "field0": "old" }))).await;
    drop(engine);
    let (engine, took, more) = open("with one unflushed write");
    assert_eq!(source(&engine, "i0", "old").await.unwrap()["field0"], "old");
    check(took, more);
}
