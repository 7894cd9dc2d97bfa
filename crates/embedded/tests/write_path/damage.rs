//! What damage costs: bits flipped, files cut and removed, over every kind of file of a data folder.
//!
//! Each trial damages a copy of one folder and opens it. Every answer of every index is then what it was, or an error that
//! names the damage; a flipped bit never refuses the start and never stops more than the part that it is in. What is
//! lost is told. `PLEACH_DAMAGE_FLIPS` says how many bits are flipped in each file (2); the table goes to standard error,
//! one of a long run stands in docs/internals/damage.md.

use super::*;
use disk::Disk;
use model::ErrorKind;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

const INDICES: [&str; 4] = ["a", "b", "c", "late"];

/// A folder's files.
type Files = Vec<(PathBuf, Vec<u8>)>;
/// Id → `n`, by index.
type Documents = BTreeMap<&'static str, BTreeMap<String, u64>>;

fn files_of(disk: &FaultyDisk) -> Files {
    let folders = ["", "log", "segments"].map(|folder| Path::new(DIR).join(folder));
    let paths = folders.iter().flat_map(|dir| {
        let names = disk.list(dir).unwrap();
        names.into_iter().map(move |name| dir.join(name))
    });
    paths.map(|path| (path.clone(), disk.content(&path).unwrap())).collect()
}

fn copy_of(files: &Files) -> FaultyDisk {
    let disk = FaultyDisk::new(1);
    for (path, content) in files {
        disk.put(path, content.clone());
    }
    disk
}

/// Two checkpoints, one with deletes; then writes that only the log has, and an index that only the log knows. Ended by a
/// kill or by a close.
async fn folder(closed: bool) -> (Files, Documents) {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    let mut documents = Documents::new();
    for index in INDICES[..3].iter().copied() {
        create(&engine, index, json!({})).await;
    }
    for round in 0..3u64 {
        for index in INDICES[..3].iter().copied() {
            for n in round * 12..round * 12 + 12 {
                let id = format!("{index}{n}");
                let body = json!({ "n": n, "text": format!("word{n} {}", "filling ".repeat(20)) });
                write(&engine, put(index, &id, body)).await;
                documents.entry(index).or_default().insert(id, n);
            }
            if round == 1 {
                write(&engine, delete(index, &format!("{index}3"))).await;
                documents.get_mut(index).unwrap().remove(&format!("{index}3"));
            }
        }
        if round < 2 {
            flush(&engine).await.unwrap();
        }
    }
    create(&engine, "late", json!({})).await;
    write(&engine, put("late", "late1", json!({ "n": 1 }))).await;
    documents.entry("late").or_default().insert("late1".into(), 1);
    if closed {
        engine.close().unwrap();
    } else {
        // The log's file has a note of its end a second after the last sync.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        disk.stop_after(0);
    }
    drop(engine);
    disk.restart();
    // Files that nobody names go with the next start.
    (files_of(&disk), documents)
}

/// What one index answers: all of it, or why not. Panics where an answer is neither what was written nor an error.
async fn answers(engine: &EmbeddedEngine, index: &str, expected: &BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    for (id, n) in expected {
        if let Some(document) = engine.read_one(address(index, DocId::plain(id.as_str()))).await? {
            let source: Value = document.source.parse().unwrap();
            assert_eq!(source["n"], *n, "[{index}][{id}] has another content");
            found.insert(id.clone(), *n);
        }
    }
    engine.refresh(&Target::index(index), None).await?;
    let all = search_whole(engine, &[index], json!({ "size": 100 })).await?;
    let hits: BTreeMap<String, u64> = all
        .hits
        .hits
        .iter()
        .map(|hit| {
            let source: Value = hit.source.as_ref().unwrap().parse().unwrap();
            (hit.id.id.to_string(), source["n"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(hits, found, "[{index}]: a search finds what reads by id find");
    Ok(found)
}

/// What a damage cost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    Nothing,
    /// Indices that stopped; the others answer everything.
    Stopped(Vec<&'static str>),
    /// The start was refused.
    Refused,
}

impl Cost {
    fn words(&self) -> String {
        match self {
            Cost::Nothing => "nothing".to_owned(),
            Cost::Stopped(indices) if indices.len() == 1 => "one index stopped".to_owned(),
            Cost::Stopped(indices) => format!("{} indices stopped", indices.len()),
            Cost::Refused => "start refused".to_owned(),
        }
    }
}

/// Opens a damaged folder as a server does.
async fn start(disk: &FaultyDisk, documents: &Documents, what: &str) -> Cost {
    let opened = std::panic::catch_unwind(AssertUnwindSafe(|| try_open(disk, small())));
    let opened = opened.unwrap_or_else(|_| panic!("{what}: a start panicked"));
    let engine = match opened {
        Ok(engine) => engine,
        Err(refused) => {
            assert_eq!(refused.kind(), ErrorKind::Corruption, "{what}: {refused}");
            let reason = refused.reason();
            assert!(!reason.contains(DIR), "{what}: paths are relative to the folder: {reason}");
            assert!(
                reason.contains("--repair") || reason.contains("backup") || reason.contains("manifest"),
                "{what}: the way out is named: {reason}"
            );
            return Cost::Refused;
        }
    };
    let told = engine.found_damage();
    let mut stopped = Vec::new();
    for index in INDICES {
        let expected = &documents[index];
        match answers(&engine, index, expected).await {
            Ok(found) => assert_eq!(
                &found, expected,
                "{what}: [{index}] lost documents and answers; told was {told:?}"
            ),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: [{index}]: {error}");
                let reason = error.reason();
                assert!(
                    reason.contains("byte [")
                        || reason.contains("offset [")
                        || reason.contains(".log]")
                        || reason.contains("segments"),
                    "{what}: [{index}]: the place is named: {reason}"
                );
                assert!(!reason.contains(DIR), "{what}: {reason}");
                stopped.push(index);
            }
        }
    }
    // The others go on; a refresh of all of them leaves the damaged ones out.
    engine
        .refresh(&Target::of(Vec::new()), None)
        .await
        .unwrap_or_else(|e| panic!("{what}: refreshing all: {e}"));
    match stopped.is_empty() {
        true => Cost::Nothing,
        false => Cost::Stopped(stopped),
    }
}

/// Gives up what is damaged; afterwards the folder is sound and has nothing that was never written.
async fn repair(disk: &FaultyDisk, documents: &Documents, what: &str) -> usize {
    let clock = || Arc::new(SystemClock::default());
    let engine = match EmbeddedEngine::repair_on(Arc::new(disk.of_one_process()), Path::new(DIR), clock(), small()) {
        Ok(engine) => engine,
        Err(refused) => {
            assert!(
                refused.reason().contains("manifest"),
                "{what}: without a manifest nothing can be repaired: {refused}"
            );
            return 0;
        }
    };
    assert!(!engine.found_damage().is_empty(), "{what}: a repair says what it cost");
    engine.close().unwrap_or_else(|e| panic!("{what}: {e}"));
    drop(engine);
    let engine = try_open(disk, small()).unwrap_or_else(|e| panic!("{what}: after the repair: {e}"));
    engine.check_segments();
    let mut lost = 0;
    for (index, expected) in documents {
        if engine.indices(&Target::index(index)).await.is_err() {
            lost += expected.len();
            continue;
        }
        let found = answers(&engine, index, expected)
            .await
            .unwrap_or_else(|e| panic!("{what}: [{index}] after the repair: {e}"));
        lost += expected.len() - found.len();
        write(&engine, put(index, "after", json!({ "n": 1 }))).await;
    }
    lost
}

/// What the name of a file says of its kind.
fn kind(path: &Path) -> &'static str {
    let name = path.file_name().unwrap().to_str().unwrap();
    match () {
        () if name.starts_with("manifest") => "manifest",
        () if name.ends_with(".log") => "log",
        () if name.starts_with("spare") => "spare log file",
        () if name.starts_with("reserve") => "reserve log file",
        () if name.starts_with("checkpoint") => "checkpoint",
        () => "other",
    }
}

/// What the trials of one kind came to.
#[derive(Default)]
struct Row {
    trials: u64,
    /// By its words.
    costs: BTreeMap<String, u64>,
    /// The most documents that a repair gave up.
    given_up: usize,
}

/// By kind of file, damage and how the process ended.
#[derive(Default)]
struct Table(BTreeMap<[String; 3], Row>);

impl Table {
    fn add(&mut self, key: [&str; 3], cost: &Cost, given_up: usize) {
        let row = self.0.entry(key.map(str::to_owned)).or_default();
        row.trials += 1;
        *row.costs.entry(cost.words()).or_default() += 1;
        row.given_up = row.given_up.max(given_up);
    }
    fn print(&self) {
        eprintln!("| file | damage | ended by | trials | what it cost | given up |\n|---|---|---|---|---|---|");
        for ([kind, damage, ended], row) in &self.0 {
            let costs: Vec<String> = row.costs.iter().map(|(cost, n)| format!("{cost}: {n}")).collect();
            eprintln!(
                "| {kind} | {damage} | {ended} | {} | {} | {} |",
                row.trials,
                costs.join(", "),
                row.given_up
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_costs_what_it_must() {
    let flips = rounds("PLEACH_DAMAGE_FLIPS", 2);
    let mut table = Table::default();
    let mut random = Random(rounds("PLEACH_DAMAGE_SEED", 7));
    for closed in [false, true] {
        let ended = if closed { "close" } else { "kill" };
        let (files, documents) = folder(closed).await;
        let whole = copy_of(&files);
        assert_eq!(start(&whole, &documents, "nothing damaged").await, Cost::Nothing);
        for (n, (path, content)) in files.iter().enumerate() {
            let written = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1) as u64;
            let kind = kind(path);
            let mut trials: Vec<(&'static str, Option<Vec<u8>>)> = vec![("removed", None), ("emptied", Some(Vec::new()))];
            for _ in 0..flips {
                let mut flipped = content.clone();
                if written > 0 {
                    flipped[random.below(written) as usize] ^= 1 << random.below(8);
                }
                trials.push(("a flipped bit", Some(flipped)));
                let to = random.below(written.max(1)) as usize;
                trials.push(("cut short", Some(content[..to].to_vec())));
                let mut zeroed = content.clone();
                let page = random.below((written / 4096).max(1)) as usize * 4096;
                let to = (page + 4096).min(zeroed.len());
                zeroed[page..to].fill(0);
                trials.push(("a page of zeros", Some(zeroed)));
                // At the end of the log zeros might be what was never written: its note and the manifest know better.
                let mut ended = content.clone();
                ended[random.below(written.max(1)) as usize..].fill(0);
                trials.push(("zeros to the end", Some(ended)));
            }
            for (damage, content) in trials {
                let what = format!("{ended}, {}, {damage}", path.display());
                let mut damaged = files.clone();
                match content {
                    Some(content) => damaged[n].1 = content,
                    None => drop(damaged.remove(n)),
                }
                let disk = copy_of(&damaged);
                let cost = start(&disk, &documents, &what).await;
                if damage == "a flipped bit" {
                    assert!(
                        matches!(&cost, Cost::Nothing) || matches!(&cost, Cost::Stopped(indices) if indices.len() == 1),
                        "{what}: a bit costs its part and no more: {cost:?}"
                    );
                }
                let is_spare = matches!(kind, "manifest" | "spare log file");
                assert!(!is_spare || cost == Cost::Nothing, "{what}: another file has it: {cost:?}");
                let lost = match cost {
                    Cost::Nothing => 0,
                    _ => repair(&copy_of(&damaged), &documents, &what).await,
                };
                table.add([kind, damage, ended], &cost, lost);
            }
        }
    }
    table.print();
}

/// The same entry in both manifests: its index stops and keeps its name; nobody can make another of that name, and a
/// repair gives it up.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_lost_in_both_manifests_stops_alone() {
    let (mut files, documents) = folder(true).await;
    for (path, content) in &mut files {
        if kind(path) == "manifest" {
            // The last entry of this index; its name stands there as well.
            let needle = b"\"name\":\"b\"";
            let places: Vec<usize> = (0..content.len() - needle.len())
                .filter(|at| content[*at..].starts_with(needle))
                .collect();
            for at in places {
                content[at + 2] ^= 1;
            }
        }
    }
    let disk = copy_of(&files);
    for life in 0..2 {
        assert_eq!(
            start(&disk, &documents, "both manifests").await,
            Cost::Stopped(vec!["b"]),
            "life {life}"
        );
        disk.restart();
    }
    let engine = open(&disk);
    let again = try_create(&engine, "b", json!({}), json!({})).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::IndexAlreadyExists, "{again}");
    let refused = try_write(&engine, put("b", "new", json!({}))).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    assert!(stats(&engine, "b").await.0.stopped.is_some());
    flush(&engine).await.unwrap();
    drop(engine);
    assert!(repair(&disk, &documents, "both manifests").await >= documents["b"].len());
}

/// A folder without its manifests is not taken for an empty one, and nothing of it is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_manifests_is_refused() {
    let (files, documents) = folder(true).await;
    let rest: Files = files.iter().filter(|(path, _)| kind(path) != "manifest").cloned().collect();
    let disk = copy_of(&rest);
    let refused = try_open(&disk, small()).err().unwrap();
    assert!(
        refused.kind() == ErrorKind::Corruption && refused.reason().contains("[manifest-2]"),
        "{refused}"
    );
    assert_eq!(files_of(&disk), rest);
    // Either is enough.
    let one: Files = files.into_iter().filter(|(path, _)| !path.ends_with("manifest")).collect();
    assert_eq!(start(&copy_of(&one), &documents, "one manifest").await, Cost::Nothing);
}

/// The number of the oldest file of the log.
fn log_begins(disk: &FaultyDisk) -> u64 {
    let names = disk.list(&Path::new(DIR).join("log")).unwrap();
    let numbers = names.iter().filter_map(|name| name.strip_suffix(".log")?.parse().ok());
    numbers.min().unwrap_or(0)
}

/// An index whose damage is found after the log was cut: its checkpoints ask for no record that is gone, so that the next
/// start stops it alone.
#[tokio::test(flavor = "multi_thread")]
async fn damage_that_is_found_after_a_cut_stops_one_index() {
    let disk = FaultyDisk::new(1);
    let engine = open(&disk);
    // A text that is stored and not indexed: its damage is found when the document is read, and no sooner.
    let mappings = json!({ "properties": { "text": { "type": "keyword", "index": false, "doc_values": false } } });
    for index in ["hurt", "sound", "busy"] {
        try_create(&engine, index, json!({}), mappings.clone()).await.unwrap();
        // Several blocks of 64 KiB: opening the segment reads the last one.
        let noise: String = (0..40_000u32)
            .map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761)))
            .collect();
        let body = json!({ "n": 1, "text": format!("unmistakable{index}{noise}") });
        write(&engine, put(index, "1", body)).await;
    }
    engine.close().unwrap();
    drop(engine);
    disk.restart();
    let mut flips = 0;
    for (path, mut content) in files_of(&disk).into_iter().filter(|(path, _)| kind(path) != "log") {
        let needle = b"unmistakablehurt";
        let places: Vec<usize> = (0..content.len().saturating_sub(needle.len()))
            .filter(|at| content[*at..].starts_with(needle))
            .collect();
        flips += places.len();
        places.iter().for_each(|at| content[at + 2] ^= 1);
        disk.put(&path, content);
    }
    assert!(flips > 0, "the document lies in a segment");
    let engine = open(&disk);
    let fill = async |from: u64| {
        for n in from..from + 40 {
            let body = json!({ "n": n, "text": "filling ".repeat(8 << 10) });
            write(&engine, put("busy", &n.to_string(), body)).await;
        }
        flush(&engine).await.unwrap();
    };
    fill(100).await;
    let begins = log_begins(&disk);
    assert!(begins > 1, "the log was cut: its first file is number {begins}");
    assert_eq!(stats(&engine, "hurt").await.0.stopped, None, "nobody has read the damage yet");
    let one = BTreeMap::from([("1".to_owned(), 1)]);
    let refused = answers(&engine, "hurt", &one).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    fill(200).await;
    disk.stop_after(0);
    drop(engine);
    disk.restart();
    let engine = open(&disk);
    assert_eq!(answers(&engine, "sound", &one).await.unwrap(), one, "another index is whole");
    assert_eq!(stats(&engine, "sound").await.0.stopped, None);
    assert!(answers(&engine, "hurt", &one).await.is_err());
}
