//! Disks that stop, tear, fill up, refuse to sync and flip bits.

use super::*;
use disk::Disk;
use engine::Plan;
use model::ErrorKind;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

fn files(disk: &FaultyDisk, folder: &str, ending: &str) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join(folder);
    let names = disk.list(&dir).unwrap();
    names
        .into_iter()
        .filter(|name| name.ends_with(ending))
        .map(|name| dir.join(name))
        .collect()
}

/// Writes of one document, and changes of two indices at once; checkpoints, refreshes and merges between them.
/// The disk stops after so many steps and loses what was not synced; the folder is opened again, twice.
async fn stopped_after(seed: u64, steps: u64) -> bool {
    let disk = FaultyDisk::new(seed);
    let engine = open(&disk);
    create(&engine, "a", json!({})).await;
    create(&engine, "b", json!({ "refresh_interval": "-1" })).await;
    let mut random = Random(seed);
    // Of each document: the last acknowledged, and all that may be there instead.
    let mut known: HashMap<String, (Option<u64>, Vec<Option<u64>>)> = HashMap::new();
    let mut pairs: (u64, u64) = (0, 0);
    disk.set_short_writes(seed.is_multiple_of(2));
    disk.stop_after(steps);
    let mut stopped = false;
    for n in 1..=60u64 {
        let id = format!("d{}", random.below(9));
        let done = match random.below(12) {
            0..=5 => {
                let entry = known.entry(id.clone()).or_default();
                entry.1.push(Some(n));
                let mut body = json!({ "n": n });
                body[format!("f{}", n % 5)] = json!(format!("word{n}"));
                let done = try_write(&engine, put("a", &id, body)).await;
                if done.is_ok() {
                    *known.entry(id).or_default() = (Some(n), Vec::new());
                }
                done
            }
            6 => {
                known.entry(id.clone()).or_default().1.push(None);
                let done = try_write(&engine, delete("a", &id)).await;
                if done.is_ok() {
                    *known.entry(id).or_default() = (None, Vec::new());
                }
                done
            }
            7 | 8 => {
                pairs.1 = n;
                let mut plan = |_: &mut dyn engine::Newest| {
                    Ok(Plan::of(vec![
                        put("a", "left", json!({ "n": n })),
                        put("b", "right", json!({ "n": n })),
                    ]))
                };
                match engine.atomic().unwrap().decide(&mut plan, Refresh::No.into()).await {
                    Ok(decided) if decided.outcomes.iter().all(|o| matches!(o, Outcome::Written(_))) => {
                        pairs.0 = n;
                        Ok(())
                    }
                    Ok(_) => Err(Error::illegal("not written")),
                    Err(e) => Err(e),
                }
            }
            9 => engine.refresh(&Target::index("a"), None).await.map(drop),
            10 => flush(&engine).await,
            _ => {
                let merge = Alteration::ForceMerge {
                    target: Target::index("a"),
                    max_num_segments: 1,
                    only_expunge_deletes: false,
                };
                engine.alter(merge).await.map(drop)
            }
        };
        if done.is_err() {
            stopped = true;
            if random.below(3) == 0 {
                break;
            }
        }
    }
    disk.crash();
    drop(engine);
    for life in 0..2 {
        let engine = open(&disk);
        let at = format!("seed {seed}, stopped after {steps}, life {life}");
        let mut there = 0;
        for (id, (acknowledged, possible)) in &known {
            let found = source(&engine, "a", id).await.map(|body| body["n"].as_u64().unwrap());
            assert!(
                found == *acknowledged || possible.contains(&found),
                "{at}: {id} is {found:?}, acknowledged was {acknowledged:?}, sent {possible:?}"
            );
            there += u64::from(found.is_some());
        }
        let left = source(&engine, "a", "left").await.map(|body| body["n"].as_u64().unwrap());
        let right = source(&engine, "b", "right").await.map(|body| body["n"].as_u64().unwrap());
        assert_eq!(left, right, "{at}: a change is there whole or not at all");
        let sound = left == Some(pairs.0) || left == Some(pairs.1) || (pairs.0 == 0 && left.is_none()) || left > Some(pairs.0);
        assert!(sound, "{at}: {left:?} of {pairs:?}");
        refresh(&engine, "a").await;
        let all = json!({ "match_all": {} });
        assert_eq!(
            count(&engine, "a", all).await,
            there + u64::from(left.is_some()),
            "{at}: searches see what reads see"
        );
        write(&engine, put("a", "after", json!({ "n": life }))).await;
        assert_eq!(source(&engine, "a", "after").await.unwrap()["n"], life);
        known.insert("after".into(), (Some(life), Vec::new()));
        if life == 0 {
            disk.crash();
        }
        drop(engine);
    }
    stopped
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_at_any_step() {
    let mut stopped = 0;
    let seeds = rounds("PLEACH_FAULT_SEEDS", 40);
    for seed in 1..=seeds {
        stopped += u64::from(stopped_after(seed, 1 + (seed * 37) % 400).await);
    }
    eprintln!("{seeds} seeds, {stopped} stopped under way");
    assert!(stopped * 4 > seeds, "most disks stop while something is done");
}

/// Each document brings a field; whatever of the log is left, no document is there without its mapping.
#[tokio::test(flavor = "multi_thread")]
async fn the_tail_cut_at_every_byte() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    create(&engine, "a", json!({})).await;
    write(&engine, put("a", "0", json!({ "f0": "word" }))).await;
    let content = |disk: &FaultyDisk| {
        let path = files(disk, "log", ".log").pop().unwrap();
        let content = disk.content(&path).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        (path, content, end)
    };
    let (_, _, from) = content(&disk);
    for n in 1..3 {
        write(&engine, put("a", &n.to_string(), json!({ format!("f{n}"): "word" }))).await;
    }
    let (path, whole, to) = content(&disk);
    disk.stop_after(0);
    drop(engine);
    let everything: Vec<(PathBuf, Vec<u8>)> = ["", "log", "segments"]
        .iter()
        .flat_map(|folder| {
            let dir = Path::new(DIR).join(folder);
            let names = disk.list(&dir).unwrap();
            names.into_iter().map(move |name| dir.join(name))
        })
        .map(|path| (path.clone(), disk.content(&path).unwrap()))
        .collect();
    let step = usize::try_from(rounds("PLEACH_FAULT_CUT_STEP", 3)).unwrap();
    for cut in (from..=to).step_by(step).chain([to]) {
        let copy = FaultyDisk::new(1);
        for (path, content) in &everything {
            copy.put(path, content.clone());
        }
        let mut torn = whole.clone();
        torn[cut..].fill(0);
        copy.put(&path, torn);
        let engine = open(&copy);
        let mut before = true;
        for n in 0..3 {
            let found = source(&engine, "a", &n.to_string()).await.is_some();
            assert!(before || !found, "cut at {cut}: {n} is there, one before it is not");
            before = found;
            if found {
                refresh(&engine, "a").await;
                let word = json!({ "match": { format!("f{n}"): "word" } });
                assert_eq!(count(&engine, "a", word).await, 1, "cut at {cut}: {n} is found by its field");
            }
        }
        assert!(
            source(&engine, "a", "0").await.is_some(),
            "cut at {cut}: what lies before the cut is there"
        );
        assert_eq!(before, whole[cut..to].iter().all(|byte| *byte == 0), "cut at {cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_log_stops_the_index_it_names() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    for index in ["good", "bad"] {
        create(&engine, index, json!({})).await;
    }
    write(&engine, put("bad", "1", json!({ "marked": "needle in the log" }))).await;
    write(&engine, put("good", "1", json!({ "a": 1 }))).await;
    disk.stop_after(0);
    drop(engine);
    disk.crash();
    let path = files(&disk, "log", ".log").pop().unwrap();
    let content = disk.content(&path).unwrap();
    let at = content.windows(6).position(|bytes| bytes == b"needle").unwrap();
    // One bit of the first record of an index is mended, two are not.
    disk.flip(&path, at as u64, 2);
    disk.flip(&path, at as u64 + 9, 2);
    for life in 0..2 {
        let engine = open(&disk);
        let refused = engine.read_one(address("bad", DocId::plain("1"))).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "life {life}: {refused}");
        let details = format!("{refused:?}");
        assert!(
            details.contains(".log") && details.contains("offset"),
            "life {life}: {details}"
        );
        let refused = try_write(&engine, put("bad", "2", json!({}))).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "life {life}: {refused}");
        assert!(stats(&engine, "bad").await.0.stopped.is_some(), "life {life}");
        // The other goes on, over checkpoints too.
        assert_eq!(source(&engine, "good", "1").await.unwrap()["a"], 1);
        write(&engine, put("good", &format!("new{life}"), json!({ "a": 2 }))).await;
        flush(&engine).await.unwrap();
        refresh(&engine, "good").await;
        assert_eq!(count(&engine, "good", json!({ "match_all": {} })).await, 2 + life);
        engine.close().unwrap();
    }
    // Nothing of it is needed any more: it can be deleted and made anew.
    let engine = open(&disk);
    engine.alter(Alteration::DeleteIndices(Target::index("bad"))).await.unwrap();
    create(&engine, "bad", json!({})).await;
    write(&engine, put("bad", "1", json!({ "a": 3 }))).await;
    flush(&engine).await.unwrap();
    engine.close().unwrap();
    drop(engine);
    assert_eq!(source(&open(&disk), "bad", "1").await.unwrap()["a"], 3);
}

/// The damage lies in a block that opening does not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_segment_stops_its_index_at_first_touch() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    for index in ["good", "bad"] {
        create(&engine, index, json!({})).await;
        let mut random = Random(7);
        for n in 0..60 {
            // Text that does not compress, so that the stored documents fill many blocks.
            let noise: String = (0..3000)
                .map(|_| char::from(33 + u8::try_from(random.below(90)).unwrap()))
                .collect();
            write(
                &engine,
                put(
                    index,
                    &n.to_string(),
                    json!({ "n": n, "noise": noise.replace(['"', '\\'], "x") }),
                ),
            )
            .await;
        }
        // Nothing is left to be merged later: what is merged away is damaged without harm.
        let merge = Alteration::ForceMerge {
            target: Target::index(index),
            max_num_segments: 1,
            only_expunge_deletes: false,
        };
        engine.alter(merge).await.unwrap();
        flush(&engine).await.unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    // What was merged away and not yet removed is removed by the next start: damage there would hurt nobody.
    let engine = open(&disk);
    engine.close().unwrap();
    drop(engine);
    let mut hit = 0;
    for path in files(&disk, "segments", "") {
        let bytes = disk.len(&path).unwrap();
        if bytes < 100_000 {
            continue;
        }
        // Every block of the middle half: components lie in any order, and the stored documents are more than a quarter.
        for at in (bytes / 4..bytes * 3 / 4).step_by(40_000) {
            disk.flip(&path, at, 1);
        }
        hit += 1;
        break;
    }
    assert_eq!(hit, 1, "there is a large segment file");
    let engine = open(&disk);
    let touched = |index: &'static str| {
        let engine = &engine;
        async move {
            for n in 0..60 {
                engine.read_one(address(index, DocId::plain(n.to_string()))).await?;
            }
            try_search(engine, &[index], json!({ "size": 60 })).await
        }
    };
    let mut answers = Vec::new();
    for index in ["good", "bad"] {
        answers.push((index, touched(index).await));
    }
    let broken: Vec<_> = answers
        .iter()
        .filter_map(|(index, answer)| Some((*index, answer.as_ref().err()?)))
        .collect();
    assert_eq!(broken.len(), 1, "one file is damaged, one index stops: {broken:?}");
    let (index, error) = broken[0];
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(
        error.reason().contains("segments") && error.reason().contains("at offset ["),
        "{error}"
    );
    // From now on all calls say so, also those that would not touch the block.
    let refused = try_write(&engine, put(index, "new", json!({}))).await.unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Corruption && refused.reason() == error.reason(),
        "{refused}"
    );
    assert_eq!(stats(&engine, index).await.0.stopped.as_deref(), Some(error.reason()));
    let other = if index == "good" { "bad" } else { "good" };
    // A search of both is answered by the sound one, and tells of the other; all or nothing is refused.
    let both = try_search(&engine, &["good", "bad"], json!({ "size": 0 })).await.unwrap();
    assert_eq!(both.hits.total.map(|t| t.value), Some(60));
    let failed: Vec<_> = both.failures.iter().map(|f| (f.index.as_str(), f.error.reason())).collect();
    assert_eq!(failed, [(index, error.reason())]);
    let whole = search_whole(&engine, &["good", "bad"], json!({ "size": 0 }))
        .await
        .unwrap_err();
    assert_eq!(whole.kind(), ErrorKind::Corruption);
    write(&engine, put(other, "new", json!({ "n": 1000 }))).await;
    refresh(&engine, other).await;
    assert_eq!(count(&engine, other, json!({ "match_all": {} })).await, 61);
    flush(&engine).await.unwrap();
    engine.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_recovers() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        log_file_bytes: 256 << 10,
        queue_bytes: 64 << 10,
        checkpoint_bytes: 1 << 30,
        log_max_bytes: 2 << 30,
        ..Limits::default()
    };
    let engine = try_open(&disk, limits).unwrap();
    create(&engine, "a", json!({})).await;
    write(&engine, put("a", "first", json!({ "text": "first" }))).await;
    refresh(&engine, "a").await;
    // Time for the spare file; from then on there is no more room.
    tokio::time::sleep(Duration::from_millis(200)).await;
    disk.set_room(Some(disk.used_bytes()));
    let long = "x".repeat(8 << 10);
    let mut done = 0;
    let refused = loop {
        match try_write(&engine, put("a", &done.to_string(), json!({ "text": long }))).await {
            Ok(()) => done += 1,
            Err(e) => break e,
        }
        assert!(done < 1000, "a full disk must refuse at last");
    };
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    assert!(refused.reason().contains("log"), "{refused}");
    // Reads and searches go on; what was acknowledged is there.
    assert_eq!(source(&engine, "a", "first").await.unwrap()["text"], "first");
    assert!(source(&engine, "a", &(done - 1).to_string()).await.is_some());
    refresh(&engine, "a").await;
    assert_eq!(count(&engine, "a", json!({ "match_all": {} })).await, done + 1);
    assert!(flush(&engine).await.is_err(), "a checkpoint needs room");
    disk.set_room(None);
    let mut patience = 50;
    while let Err(e) = try_write(&engine, put("a", "after", json!({ "text": "after" }))).await {
        assert!(patience > 0 && e.kind() == ErrorKind::DiskFull, "{e}");
        patience -= 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    flush(&engine).await.unwrap();
    disk.crash();
    drop(engine);
    let engine = open(&disk);
    assert!(source(&engine, "a", "after").await.is_some());
    refresh(&engine, "a").await;
    assert_eq!(count(&engine, "a", json!({ "match_all": {} })).await, done + 2);
}

/// Writes once there is room or descriptors; says how long that took.
async fn write_at_last(engine: &dyn Engine, one: impl Fn() -> Write) -> Duration {
    let begun = std::time::Instant::now();
    while let Err(e) = try_write(engine, one()).await {
        let passing = matches!(e.kind(), ErrorKind::DiskFull | ErrorKind::RejectedExecution);
        assert!(passing && begun.elapsed() < Duration::from_secs(20), "{e}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_full_disk_reads_and_deletes() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    for index in ["a", "b"] {
        create(&engine, index, json!({})).await;
        for n in 0..3 {
            write(&engine, put(index, &n.to_string(), json!({ "n": n }))).await;
        }
    }
    disk.stop_after(0);
    drop(engine);
    for life in 0..3 {
        disk.restart();
        // What the cut of the last file gives back, and nothing else; the spare file has gone as well.
        for spare in files(&disk, "log", "") {
            if spare.to_string_lossy().contains("spare") {
                disk.remove(&spare).unwrap();
            }
        }
        disk.set_room(Some(disk.used_bytes()));
        let engine = open(&disk);
        assert_eq!(source(&engine, "b", "2").await.unwrap()["n"], 2);
        refresh(&engine, "b").await;
        assert_eq!(count(&engine, "b", json!({ "match_all": {} })).await, 3);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let long = json!({ "text": "x".repeat(300 << 10) });
        let mut refused = None;
        for n in 0..8 {
            refused = refused.or(try_write(&engine, put("a", &format!("long{n}"), long.clone())).await.err());
        }
        let refused = refused.expect("there is no room for these");
        assert_eq!(refused.kind(), ErrorKind::DiskFull, "life {life}: {refused}");
        write(&engine, delete("a", &life.to_string())).await;
        assert!(source(&engine, "a", &life.to_string()).await.is_none());
        if life == 2 {
            engine.alter(Alteration::DeleteIndices(Target::index("a"))).await.unwrap();
            disk.set_room(None);
            let took = write_at_last(&engine, || put("b", "after", json!({ "n": 1 }))).await;
            assert!(took < Duration::from_secs(2), "took {took:?}");
        }
        disk.stop_after(0);
        drop(engine);
    }
}

/// Not a byte is left, not even what the log gives back: deletes of documents and of indices have a file of their own,
/// and a deleted index gives its room back.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_any_room_deletes() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    for index in ["a", "b"] {
        create(&engine, index, json!({})).await;
        for n in 0..40 {
            write(
                &engine,
                put(
                    index,
                    &n.to_string(),
                    json!({ "n": n, "text": format!("{n} {}", "x".repeat(9000)) }),
                ),
            )
            .await;
        }
        // A file of its own: one that two indices share stays until both have left it.
        flush(&engine).await.unwrap();
    }
    // Time for the file that is kept for deletes.
    tokio::time::sleep(Duration::from_millis(300)).await;
    disk.stop_after(0);
    drop(engine);
    disk.restart();
    for spare in files(&disk, "log", "") {
        if spare.to_string_lossy().contains("spare") {
            disk.remove(&spare).unwrap();
        }
    }
    disk.set_room(Some(0));
    let begun = std::time::Instant::now();
    let engine = open(&disk);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "a start on a full disk takes no longer: {:?}",
        begun.elapsed()
    );
    for n in 0..20 {
        write(&engine, delete("b", &n.to_string())).await;
    }
    let mut plan = |_: &mut dyn engine::Newest| Ok(Plan::of((20..30).map(|n| delete("b", &n.to_string())).collect()));
    let decided = engine.atomic().unwrap().decide(&mut plan, Refresh::No.into()).await.unwrap();
    assert!(decided.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Written(_))));
    let refused = try_write(&engine, put("b", "new", json!({ "n": 2 }))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    // The room is what the files of the index had.
    let before = disk.used_bytes();
    engine.alter(Alteration::DeleteIndices(Target::index("a"))).await.unwrap();
    drop(flush(&engine).await);
    assert!(disk.used_bytes() < before, "{} of {before} bytes are used", disk.used_bytes());
    refresh(&engine, "b").await;
    assert_eq!(count(&engine, "b", json!({ "match_all": {} })).await, 10);
    disk.set_room(None);
    let took = write_at_last(&engine, || put("b", "new", json!({ "n": 2 }))).await;
    assert!(took < Duration::from_secs(2), "took {took:?}");
    disk.stop_after(0);
    drop(engine);
    disk.restart();
    let engine = open(&disk);
    refresh(&engine, "b").await;
    assert_eq!(count(&engine, "b", json!({ "match_all": {} })).await, 11);
    assert!(engine.indices(&Target::index("a")).await.is_err());
}

/// Not a byte is left, and the file for deletes has gone as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_any_room_reads_and_writes_later() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    create(&engine, "a", json!({})).await;
    write(&engine, put("a", "1", json!({ "n": 1 }))).await;
    disk.stop_after(0);
    drop(engine);
    disk.restart();
    for spare in files(&disk, "log", "") {
        if spare.to_string_lossy().contains("spare") || spare.to_string_lossy().contains("reserve") {
            disk.remove(&spare).unwrap();
        }
    }
    disk.set_room(Some(0));
    let engine = open(&disk);
    assert_eq!(source(&engine, "a", "1").await.unwrap()["n"], 1);
    let refused = try_write(&engine, put("a", "2", json!({ "n": 2 }))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    disk.set_room(None);
    let took = write_at_last(&engine, || put("a", "2", json!({ "n": 2 }))).await;
    assert!(took < Duration::from_secs(2), "took {took:?}");
    drop(engine);
    disk.crash();
    let engine = open(&disk);
    for n in 1..3 {
        assert_eq!(source(&engine, "a", &n.to_string()).await.unwrap()["n"], n);
    }
}

/// With the sizes of a server: much more is written than a small disk holds at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_disk_is_enough() {
    let disk = FaultyDisk::new(1);
    disk.set_room(Some(64 << 20));
    let engine = try_open(&disk, Limits::default()).unwrap();
    try_create(&engine, "a", json!({}), json!({ "enabled": false }))
        .await
        .unwrap();
    let long = "x".repeat(1 << 20);
    let mut longest = Duration::ZERO;
    for n in 0..96 {
        let took = write_at_last(&engine, || put("a", &(n % 4).to_string(), json!({ "n": n, "text": long }))).await;
        longest = longest.max(took);
    }
    assert!(disk.used_bytes() <= 64 << 20);
    for n in 92..96 {
        assert_eq!(source(&engine, "a", &(n % 4).to_string()).await.unwrap()["n"], n);
    }
}

/// While no file can be opened writes wait or are refused; afterwards they work without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_want_of_descriptors_passes() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    create(&engine, "a", json!({})).await;
    let long = json!({ "text": "x".repeat(100 << 10) });
    write(&engine, put("a", "first", long.clone())).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..2 {
        disk.set_opens_failing(true);
        let given_back = disk.clone();
        let back = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(400));
            given_back.set_opens_failing(false);
        });
        // Three files' worth: the log has to begin new ones meanwhile.
        for n in 0..30 {
            write_at_last(&engine, || put("a", &n.to_string(), long.clone())).await;
        }
        back.join().unwrap();
        assert!(node(&engine).await.read_only.is_none());
    }
    flush(&engine).await.unwrap();
    drop(engine);
    disk.crash();
    assert!(source(&open(&disk), "a", "29").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_sync_stops_writes_until_a_restart() {
    for flushing in [false, true] {
        let disk = FaultyDisk::new(1);
        let engine = open(&disk);
        create(&engine, "a", json!({})).await;
        write(&engine, put("a", "1", json!({ "n": 1 }))).await;
        refresh(&engine, "a").await;
        disk.set_syncs_failing(true);
        if flushing {
            flush(&engine).await.unwrap_err();
        } else {
            try_write(&engine, put("a", "2", json!({ "n": 2 }))).await.unwrap_err();
        }
        disk.set_syncs_failing(false);
        if !flushing {
            let refused = try_write(&engine, put("a", "3", json!({ "n": 3 }))).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LogFailed, "{refused}");
            assert!(refused.reason().contains("until a restart"), "{refused}");
            assert!(node(&engine).await.read_only.is_some_and(|why| why.contains("fdatasync")));
        }
        assert_eq!(source(&engine, "a", "1").await.unwrap()["n"], 1);
        assert_eq!(count(&engine, "a", json!({ "match_all": {} })).await, 1);
        disk.crash();
        drop(engine);
        let engine = open(&disk);
        assert_eq!(source(&engine, "a", "1").await.unwrap()["n"], 1);
        write(&engine, put("a", "3", json!({ "n": 3 }))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_behind_the_scenes_is_kept_and_tried_again() {
    let disk = FaultyDisk::new(1);
    let limits = Limits {
        checkpoint_ops: 10,
        ..small()
    };
    let engine = try_open(&disk, limits).unwrap();
    create(&engine, "a", json!({})).await;
    disk.set_full_below(Some(Path::new(DIR).join("segments")));
    for n in 0..20 {
        write(&engine, put("a", &n.to_string(), json!({ "n": n }))).await;
    }
    let mut patience = 100;
    let trouble = loop {
        if let Some(trouble) = node(&engine).await.troubles.pop() {
            break trouble;
        }
        assert!(patience > 0, "a checkpoint is due and cannot be made");
        patience -= 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(trouble.work, "checkpoint");
    assert!(trouble.failures >= 1 && trouble.reason.contains("segments"), "{trouble:?}");
    assert!(stats(&engine, "a").await.0.troubled);
    disk.set_full_below(None);
    while !node(&engine).await.troubles.is_empty() {
        assert!(patience > 0, "once there is room the checkpoint is made");
        patience -= 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!stats(&engine, "a").await.0.troubled);
    assert!(stats(&engine, "a").await.1.flush_total >= 1);
}
