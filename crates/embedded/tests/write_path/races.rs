//! Writers, builds, merges, searches and alterations at the same time.

use super::*;
use engine::Plan;
use model::ErrorKind;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn long() -> Duration {
    Duration::from_millis(rounds("PLEACH_RACE_MILLIS", 1500))
}

/// Raised when dropped, so that a failing test ends the others' loops too.
struct Over(Arc<AtomicBool>);

impl Over {
    fn new() -> Over {
        Over(Arc::default())
    }
    fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A refresh that began before its index was deleted shows it no more: its sets would stay in memory for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sets_of_a_deleted_index_leave_with_it() {
    let engine = Arc::new(open(&FaultyDisk::new(11)));
    let mut random = Random(5);
    let begun = Instant::now();
    while begun.elapsed() < long() {
        create(&*engine, "a", json!({})).await;
        for n in 0..20 {
            write(&*engine, put("a", &n.to_string(), json!({ "n": n }))).await;
        }
        let refreshing = engine.clone();
        let refreshed = tokio::spawn(async move { drop(refreshing.refresh(&Target::index("a"), None).await) });
        tokio::time::sleep(Duration::from_micros(random.below(3000))).await;
        engine.alter(Alteration::DeleteIndices(Target::index("a"))).await.unwrap();
        refreshed.await.expect("a refresh beside a deletion does not panic");
        assert_eq!(node(&*engine).await.segments, 0, "segments of a deleted index are shown");
    }
}

/// Deletions that are built and not published are not shown by a merge of published segments.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_merge_shows_no_deletion_before_its_refresh() {
    const DOCS: u64 = 200;
    let engine = Arc::new(open(&FaultyDisk::new(12)));
    create(&*engine, "a", json!({ "refresh_interval": "-1" })).await;
    for n in 0..DOCS {
        write(&*engine, put("a", &n.to_string(), json!({ "n": n }))).await;
    }
    refresh(&*engine, "a").await;
    for n in 0..DOCS / 2 {
        write(&*engine, delete("a", &n.to_string())).await;
    }
    // Builds; and a segment half of which is deleted is due for a merge.
    engine.alter(Alteration::Flush(Target::index("a"))).await.unwrap();
    for _ in 0..20 {
        assert_eq!(count(&*engine, "a", json!({ "match_all": {} })).await, DOCS);
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(stats(&*engine, "a").await.1.troubles.is_empty(), "a merge failed");
    refresh(&*engine, "a").await;
    assert_eq!(count(&*engine, "a", json!({ "match_all": {} })).await, DOCS / 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_delete_is_lost_in_a_merge() {
    let engine = Arc::new(open(&FaultyDisk::new(1)));
    create(&*engine, "a", json!({ "refresh_interval": "5ms" })).await;
    let over = Over::new();
    let (merging, flag) = (engine.clone(), over.flag());
    let merges = tokio::spawn(async move {
        let mut merges = 0;
        while !flag.load(Ordering::Relaxed) {
            let merge = Alteration::ForceMerge {
                target: Target::index("a"),
                max_num_segments: 1,
                only_expunge_deletes: false,
            };
            merging.alter(merge).await.unwrap();
            merges += 1;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        merges
    });
    let mut model: HashMap<u64, u64> = HashMap::new();
    let mut random = Random(3);
    let begun = Instant::now();
    let mut n = 0;
    while begun.elapsed() < long() {
        n += 1;
        let id = random.below(60);
        if random.below(3) == 0 {
            write(&*engine, delete("a", &id.to_string())).await;
            model.remove(&id);
        } else {
            write(&*engine, put("a", &id.to_string(), json!({ "n": n }))).await;
            model.insert(id, n);
        }
        if n % 50 == 0 {
            refresh(&*engine, "a").await;
            let found = try_search(&*engine, &["a"], json!({ "size": 100 })).await.unwrap();
            let mut seen: Vec<_> = found.hits.hits.iter().map(|hit| hit.id.id.parse::<u64>().unwrap()).collect();
            seen.sort_unstable();
            let mut wanted: Vec<_> = model.keys().copied().collect();
            wanted.sort_unstable();
            assert_eq!(seen, wanted, "after {n} writes");
        }
    }
    drop(over);
    let merges = merges.await.unwrap();
    for id in 0..60 {
        let found = source(&*engine, "a", &id.to_string())
            .await
            .map(|body| body["n"].as_u64().unwrap());
        assert_eq!(found, model.get(&id).copied());
    }
    eprintln!("{n} writes over {merges} merges");
    assert!(merges > 2);
}

/// Who refreshes an index while it is deleted is told nothing of a fault: it was there, or it is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_refresh_beside_a_deletion_is_no_fault() {
    let engine = Arc::new(open(&FaultyDisk::new(1)));
    let begun = Instant::now();
    let mut done = 0;
    while begun.elapsed() < long() {
        create(&*engine, "a", json!({ "refresh_interval": "-1" })).await;
        for id in 0..20 {
            write(&*engine, put("a", &id.to_string(), json!({ "text": "some words of a text" }))).await;
        }
        let refreshing = engine.clone();
        let refresh = tokio::spawn(async move { refreshing.refresh(&Target::index("a"), None).await });
        // Now and then it comes in the middle of the build.
        tokio::time::sleep(Duration::from_micros(done % 40 * 100)).await;
        engine.alter(Alteration::DeleteIndices(Target::index("a"))).await.unwrap();
        if let Err(error) = refresh.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::IndexNotFound, "{error}");
        }
        done += 1;
    }
    assert_eq!(node(&*engine).await.pending_bytes, 0, "nothing is left of {done} indices");
}

/// Money moves among three indices, one of which is refreshed only when asked: every search finds the same sum.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_search_sees_half_a_change() {
    let names = ["x", "y", "z"];
    let engine = Arc::new(open(&FaultyDisk::new(1)));
    for (index, interval) in [("x", "1ms"), ("y", "20ms"), ("z", "-1")] {
        create(&*engine, index, json!({ "refresh_interval": interval })).await;
        for id in 0..3 {
            write(&*engine, put(index, &id.to_string(), json!({ "sum": 100 }))).await;
        }
    }
    engine
        .refresh(&Target::of(names.map(str::to_owned).to_vec()), None)
        .await
        .unwrap();
    let over = Over::new();
    let (moving, flag) = (engine.clone(), over.flag());
    let mover = tokio::spawn(async move {
        let mut random = Random(5);
        let mut moved = 0;
        while !flag.load(Ordering::Relaxed) {
            let at = |random: &mut Random| (names[random.below(3) as usize], random.below(3).to_string());
            let (from, to) = (at(&mut random), at(&mut random));
            if from == to {
                continue;
            }
            let mut plan = |newest: &mut dyn engine::Newest| {
                let mut sum = |(index, id): &(&str, String)| {
                    let read = newest.read(&address(index, DocId::plain(id.as_str())), See::Plain)?;
                    Ok::<i64, Error>(read.unwrap().source.parse()?["sum"].as_i64().unwrap())
                };
                let (a, b) = (sum(&from)?, sum(&to)?);
                Ok(Plan::of(vec![
                    put(from.0, &from.1, json!({ "sum": a - 1 })),
                    put(to.0, &to.1, json!({ "sum": b + 1 })),
                ]))
            };
            let decided = moving.atomic().unwrap().decide(&mut plan, Refresh::No.into()).await.unwrap();
            assert!(decided.outcomes.iter().all(|o| matches!(o, Outcome::Written(_))));
            moved += 1;
            if moved % 7 == 0 {
                refresh(&*moving, names[random.below(3) as usize]).await;
            }
        }
        moved
    });
    let begun = Instant::now();
    let mut searches = 0;
    while begun.elapsed() < long() {
        let body = json!({ "size": 0, "aggs": { "all": { "sum": { "field": "sum" } } } });
        let answer = try_search(&*engine, &names, body).await.unwrap();
        let shown = serde_json::to_value(answer.aggregations.map(|aggs| aggs.tree())).unwrap();
        assert_eq!(shown["all"]["value"], json!(900.0), "search {searches}: {shown}");
        searches += 1;
    }
    drop(over);
    eprintln!("{} moves, {searches} searches", mover.await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_read_falls_between_map_and_set() {
    let engine = Arc::new(open(&FaultyDisk::new(1)));
    create(&*engine, "a", json!({ "refresh_interval": "1ms" })).await;
    for id in 0..20 {
        write(&*engine, put("a", &id.to_string(), json!({ "n": 0 }))).await;
    }
    let over = Over::new();
    let acknowledged: Arc<Vec<AtomicU64>> = Arc::new((0..20).map(|_| AtomicU64::new(0)).collect());
    let (writing, flag, told) = (engine.clone(), over.flag(), acknowledged.clone());
    let writer = tokio::spawn(async move {
        let mut random = Random(9);
        let mut n = 0;
        while !flag.load(Ordering::Relaxed) {
            n += 1;
            let id = random.below(20);
            write(&*writing, put("a", &id.to_string(), json!({ "n": n }))).await;
            told[id as usize].store(n, Ordering::Release);
            if n % 10 == 0 {
                refresh(&*writing, "a").await;
            }
        }
        n
    });
    let begun = Instant::now();
    let mut reads = 0u64;
    while begun.elapsed() < long() {
        let id = reads % 20;
        let least = acknowledged[id as usize].load(Ordering::Acquire);
        let found = source(&*engine, "a", &id.to_string()).await.expect("it was never deleted");
        assert!(found["n"].as_u64().unwrap() >= least, "read {reads}: {found} after {least}");
        reads += 1;
    }
    drop(over);
    eprintln!("{} writes, {reads} reads", writer.await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fields_grow_under_searches() {
    let engine = Arc::new(open(&FaultyDisk::new(1)));
    create(
        &*engine,
        "a",
        json!({ "refresh_interval": "1ms", "index.mapping.total_fields.limit": 100_000 }),
    )
    .await;
    let over = Over::new();
    let (writing, flag) = (engine.clone(), over.flag());
    let reached = Arc::new(AtomicU64::new(0));
    let told = reached.clone();
    let writer = tokio::spawn(async move {
        let mut n = 0;
        while !flag.load(Ordering::Relaxed) && n < 400 {
            let body = json!({ format!("t{n}"): "some text", format!("n{n}"): n, "all": n });
            write(&*writing, put("a", &n.to_string(), body)).await;
            told.store(n, Ordering::Release);
            n += 1;
        }
        n
    });
    let begun = Instant::now();
    let mut random = Random(1);
    while begun.elapsed() < long() {
        let n = random.below(reached.load(Ordering::Acquire) + 2);
        let body = json!({
            "query": { "bool": { "should": [{ "match": { format!("t{n}"): "text" } }, { "range": { "all": { "gte": 0 } } }] } },
            "sort": [{ format!("n{n}"): { "unmapped_type": "long" } }],
            "aggs": { "numbers": { "stats": { "field": format!("n{n}") } } },
            "size": 3,
        });
        try_search(&*engine, &["a"], body).await.unwrap();
    }
    drop(over);
    let written = writer.await.unwrap();
    refresh(&*engine, "a").await;
    assert_eq!(count(&*engine, "a", json!({ "match_all": {} })).await, written);
    for n in (0..written).step_by(17) {
        assert_eq!(count(&*engine, "a", json!({ "match": { format!("t{n}"): "text" } })).await, 1);
    }
}
