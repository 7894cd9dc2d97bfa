//! The log and the manifest against a disk that fails (write-path.md 9: what goes wrong).

use super::format::{
    FILE_HEADER_BYTES, FORMAT_VERSION_1, FileHeader, FileNote, FrameHeader, FrameKind, begin_frame, finish_frame, write_entry_1,
};
use super::*;
use disk::{Disk, FaultyDisk, RealDisk};
use model::ErrorKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DIR: &str = "/log";

fn options() -> LogOptions {
    LogOptions {
        file_bytes: 64 << 10,
        queue_max_bytes: 32 << 10,
        heads_each_bytes: 4 << 10,
        retry_each: Duration::from_millis(10),
        kept_for_deletes_bytes: 4 << 10,
        ..LogOptions::new(7, 0)
    }
}

fn open(disk: &FaultyDisk) -> (Log, Recovered) {
    Log::open(Path::new(DIR), Arc::new(disk.clone()), options()).unwrap()
}

fn put(index_no: u32, seq_no: u64, bytes: usize) -> Record {
    let part = Part::Put {
        index_no,
        seq_no,
        version: 1,
        term: 1,
        mapping_version: 3,
        uid: format!("t#{seq_no}").into(),
        routing: seq_no.is_multiple_of(2).then(|| "r".into()),
        hidden: seq_no.is_multiple_of(3).then(|| vec![1, 2]),
        source: vec![b'x'; bytes].into(),
    };
    Record {
        participants: vec![Participant {
            index_no,
            first_seq_no: seq_no,
            count: 1,
        }],
        parts: vec![part],
        idempotency_key: None,
    }
}

/// Who writes a record: the log's thread at once, whoever waits for it while nobody else writes, or the log's thread after
/// the end of its batch.
#[derive(Clone, Copy, Debug)]
enum By {
    Thread,
    Waiter,
    Batch,
}

impl By {
    const ALL: [By; 3] = [By::Thread, By::Waiter, By::Batch];

    fn enqueue(self, log: &Log, record: Record) -> Result<Ticket, model::Error> {
        let start = match self {
            By::Thread => WriteStart::Enqueue,
            By::Waiter => WriteStart::Waiter,
            By::Batch => WriteStart::Batch,
        };
        let mut room = log.reserve(record.log_bytes())?.with_start(start);
        log.enqueue(&mut room, record, Durability::Request)
    }
    fn wait(self, log: &Log, ticket: Ticket) -> Result<(), model::Error> {
        match self {
            By::Thread => {}
            By::Waiter => log.lead(),
            By::Batch => log.end_batch(),
        }
        log.wait_durable(ticket.end)
    }
}

fn enqueue(log: &Log, record: Record) -> Result<Ticket, model::Error> {
    By::Thread.enqueue(log, record)
}

fn write(log: &Log, record: Record) -> Ticket {
    let ticket = enqueue(log, record).unwrap();
    log.wait_durable(ticket.end).unwrap();
    ticket
}

fn records(recovered: &Recovered, from: u64) -> Vec<Record> {
    let mut records = Vec::new();
    let mut position = from;
    recovered
        .replay(from, |replayed| {
            assert!(replayed.start >= position && replayed.end == replayed.start + replayed.record.log_bytes());
            position = replayed.end;
            records.push(replayed.record);
            Ok(())
        })
        .unwrap();
    records
}

/// Ends the process without a close: the disk refuses everything, then power returns.
fn kill(log: Log, disk: &FaultyDisk) {
    disk.stop_after(0);
    drop(log);
    disk.crash();
}

fn last_file(disk: &FaultyDisk) -> PathBuf {
    let names = disk.list(Path::new(DIR)).unwrap();
    Path::new(DIR).join(names.iter().rfind(|name| name.ends_with(".log")).unwrap())
}

#[test]
fn every_part_comes_back() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    let mut first = put(4, 0, 10);
    first.parts.insert(
        0,
        Part::Alter {
            index_no: 4,
            delta: b"{}".to_vec(),
        },
    );
    first.parts.push(Part::Delete {
        index_no: 5,
        seq_no: 9,
        version: 2,
        term: 1,
        uid: "a".into(),
        hidden: Some(vec![9]),
    });
    first.participants.push(Participant {
        index_no: 5,
        first_seq_no: 9,
        count: 1,
    });
    first.idempotency_key = Some("key".into());
    let all = vec![first, put(4, 1, 0), put(4, 2, 100_000), put(4, 3, 3)]; // the third has its own file
    let tickets: Vec<Ticket> = all.iter().map(|record| write(&log, record.clone())).collect();
    log.close().unwrap();
    assert_eq!(enqueue(&log, put(4, 4, 1)).unwrap_err().kind(), ErrorKind::LogFailed);
    drop(log);
    let (log, recovered) = open(&disk);
    assert_eq!(recovered.verdict, Verdict::Clean);
    assert_eq!(records(&recovered, 0), all);
    assert_eq!(records(&recovered, tickets[0].end), all[1..]);
    assert!(recovered.start > tickets[3].end);
    log.truncate_below(log.end_position()).unwrap();
    assert_eq!(
        disk.list(Path::new(DIR))
            .unwrap()
            .iter()
            .filter(|name| name.ends_with(".log"))
            .count(),
        1
    );
}

#[test]
fn a_position_told_beforehand_is_the_records() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    let mut after_heads = 0;
    for seq_no in 0..200 {
        let end = log.end_position();
        let told = log.next_position();
        after_heads += u32::from(told != end);
        assert_eq!(write(&log, put(1, seq_no, 100)).position, told);
    }
    assert!(after_heads > 3, "heads became due between");
}

#[test]
fn tail_cut_at_every_byte() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    let mut ends = vec![];
    for seq_no in 0..4 {
        write(&log, put(1, seq_no, 20));
        ends.push(FILE_HEADER_BYTES as usize + (56 + put(1, 0, 20).log_bytes() as usize) * ends.len());
    }
    disk.stop_after(0);
    drop(log);
    let path = last_file(&disk);
    let content = disk.content(&path).unwrap();
    let written = content.len() - super::replay::zeros_at_end(&content);
    for cut in FILE_HEADER_BYTES as usize..=written {
        let copy = FaultyDisk::new(1);
        let mut torn = content.clone();
        torn[cut..].fill(0);
        copy.put(&path, torn);
        let (_log, recovered) = open(&copy);
        let found = records(&recovered, 0);
        assert!(
            !matches!(recovered.verdict, Verdict::Corrupt(_)),
            "a cut at {cut} is no corruption: {:?}",
            recovered.verdict
        );
        for (seq_no, record) in found.iter().enumerate() {
            assert_eq!(*record, put(1, seq_no as u64, 20), "cut at {cut}");
        }
        assert_eq!(
            found.len() == 4,
            cut == written || content[cut..written].iter().all(|b| *b == 0),
            "cut at {cut}"
        );
        drop(_log);
        copy.crash();
        let (_log, again) = open(&copy); // the torn file is now followed by another
        assert_eq!(records(&again, 0), found, "cut at {cut}");
    }
}

#[test]
fn every_flipped_bit_is_classified() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    for seq_no in 0..3 {
        for index_no in 1..4 {
            write(&log, put(index_no, seq_no, 10));
        }
    }
    log.close().unwrap();
    let path = last_file(&disk);
    let content = disk.content(&path).unwrap();
    let written = content.len() - super::replay::zeros_at_end(&content);
    let frame = 57 + put(1, 0, 10).log_bytes() as usize;
    let records_end = FILE_HEADER_BYTES as usize + 9 * frame;
    // The heads frame of the close stands behind; flipping it harms nobody.
    for at in FILE_HEADER_BYTES as usize..written {
        let copy = FaultyDisk::new(1);
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        copy.put(&path, flipped);
        let (_log, recovered) = open(&copy);
        let found = records(&recovered, 0);
        let lost: Vec<u64> = match &recovered.verdict {
            Verdict::Corrupt(damages) => {
                assert!(damages.iter().all(|damage| !damage.whole_folder), "byte {at}: {damages:?}");
                damages
                    .iter()
                    .flat_map(|damage| damage.indices.iter().map(|no| u64::from(*no)))
                    .collect()
            }
            _ => vec![],
        };
        if at >= records_end {
            assert_eq!((found.len(), lost.len()), (9, 0), "byte {at}");
        } else {
            let harmed = (at - FILE_HEADER_BYTES as usize) / frame;
            assert_eq!(found.len() + lost.len(), 9, "byte {at}: what is not replayed is named");
            assert!(lost.is_empty() || lost == [harmed as u64 % 3 + 1], "byte {at}: {lost:?}");
        }
    }
}

#[test]
fn a_lost_stretch_without_heads_concerns_all() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    for seq_no in 0..3 {
        write(&log, put(1, seq_no, 10));
    }
    disk.stop_after(0);
    drop(log);
    let path = last_file(&disk);
    let frame = 57 + put(1, 0, 10).log_bytes();
    // One bit of a header is mended, two are not.
    for bit in 0..2 {
        disk.flip(&path, FILE_HEADER_BYTES + frame + 3, bit); // frame header
        disk.flip(&path, FILE_HEADER_BYTES + frame + 60, bit); // record header
    }
    disk.crash();
    let (_log, recovered) = open(&disk);
    let Verdict::Corrupt(damages) = &recovered.verdict else {
        panic!("{:?}", recovered.verdict)
    };
    assert!(
        damages.len() == 1 && damages[0].whole_folder && damages[0].indices.contains(&1),
        "{damages:?}"
    );
}

#[test]
fn stale_frames_never_revive() {
    for seed in 0..20 {
        let disk = FaultyDisk::new(seed);
        let mut kept = Vec::new();
        for (life, sizes) in [&[900, 900, 900, 900][..], &[30], &[5, 5]].iter().enumerate() {
            let (log, recovered) = open(&disk);
            let found = records(&recovered, 0);
            assert!(found.starts_with(&kept), "seed {seed} life {life}");
            kept = found;
            let seq_no = kept.len() as u64;
            for (i, bytes) in sizes.iter().enumerate() {
                let record = put(1, seq_no + i as u64, *bytes);
                if i == 0 {
                    write(&log, record.clone());
                    kept.push(record);
                } else {
                    let mut room = log.reserve(record.log_bytes()).unwrap();
                    let ticket = log.enqueue(&mut room, record, Durability::Async).unwrap();
                    log.wait_written(ticket.end).unwrap();
                }
            }
            kill(log, &disk);
        }
        let (_log, recovered) = open(&disk);
        let found = records(&recovered, 0);
        assert!(
            found.starts_with(&kept) && !matches!(recovered.verdict, Verdict::Corrupt(_)),
            "seed {seed}: {:?}",
            recovered.verdict
        );
        for (seq_no, record) in found.iter().enumerate() {
            let Part::Put { seq_no: found, .. } = &record.parts[0] else {
                panic!()
            };
            assert_eq!(*found, seq_no as u64, "seed {seed}: a record came twice or late");
        }
    }
}

#[test]
fn nothing_durable_is_lost_by_crashes() {
    for (seed, by) in (0..50).flat_map(|seed| By::ALL.map(|by| (seed, by))) {
        let disk = FaultyDisk::new(seed);
        disk.set_short_writes(seed % 2 == 0);
        let mut acknowledged = 0;
        for life in 0..3 {
            let (log, recovered) = open(&disk);
            let found = records(&recovered, 0).len() as u64;
            assert!(
                !matches!(recovered.verdict, Verdict::Corrupt(_)),
                "seed {seed} life {life}: {:?}",
                recovered.verdict
            );
            assert!(found >= acknowledged, "seed {seed} life {life}: {found} of {acknowledged}");
            acknowledged = found;
            disk.stop_after(disk_steps(seed, life));
            for seq_no in found.. {
                let Ok(ticket) = by.enqueue(&log, put(1, seq_no, (seed * 37 % 3000) as usize)) else {
                    break;
                };
                if seq_no % 3 == 0 {
                    if by.wait(&log, ticket).is_err() {
                        break;
                    }
                    acknowledged = seq_no + 1;
                }
            }
            kill(log, &disk);
        }
    }
}

fn disk_steps(seed: u64, life: u64) -> u64 {
    20 + (seed * 31 + life * 17) % 90
}

/// Kills the process, not the machine: what was written is read by the next one, synced or not.
fn kill_and_restart(log: Log, disk: &FaultyDisk) {
    disk.stop_after(0);
    drop(log);
    disk.restart();
}

fn enqueue_unsynced(log: &Log, record: Record) {
    let mut room = log.reserve(record.log_bytes()).unwrap();
    let ticket = log.enqueue(&mut room, record, Durability::Async).unwrap();
    log.wait_written(ticket.end).unwrap();
}

/// Written, not synced, survived one restart, lost in the second: what a start found is synced before it is served and
/// before the next file's header says that the log reaches so far.
#[test]
fn a_tail_that_a_start_found_survives_a_loss_of_power() {
    for (seed, failed_sync) in (0..30).flat_map(|seed| [(seed, false), (seed, true)]) {
        let disk = FaultyDisk::new(seed);
        let (log, _) = open(&disk);
        write(&log, put(1, 0, 40));
        for seq_no in 1..4 {
            enqueue_unsynced(&log, put(1, seq_no, 700));
        }
        if failed_sync {
            disk.set_syncs_failing(true);
            let end = log.end_position();
            assert!(log.wait_durable(end).is_err());
        }
        kill_and_restart(log, &disk);
        let (log, recovered) = open(&disk);
        let served = records(&recovered, 0);
        assert_eq!(served.len(), 4, "seed {seed}: a killed process leaves what it wrote");
        // Once more without a record of its own, so that an empty file is replaced.
        kill_and_restart(log, &disk);
        let (log, recovered) = open(&disk);
        assert_eq!(records(&recovered, 0), served, "seed {seed}");
        write(&log, put(1, 4, 10));
        kill(log, &disk);
        let (_log, recovered) = open(&disk);
        assert!(
            !matches!(recovered.verdict, Verdict::Corrupt(_)),
            "seed {seed}: {:?}",
            recovered.verdict
        );
        let found = records(&recovered, 0);
        assert_eq!(found[..4], served, "seed {seed}: what was served is there");
        assert_eq!(found.len(), 5, "seed {seed}");
    }
}

/// The manifest as well: a start removes files that no entry names.
#[test]
fn a_manifest_that_a_start_read_survives_a_loss_of_power() {
    for seed in 0..40 {
        let disk = FaultyDisk::new(seed);
        let (manifest, _) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
        manifest.write(vec![("a".into(), Some(vec![1]))]).unwrap();
        disk.set_syncs_failing(true);
        assert!(manifest.write(vec![("b".into(), Some(vec![2; 3000]))]).is_err());
        disk.restart();
        let (_, read) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
        disk.crash();
        let (_, again) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
        assert_eq!(read.live, again.live, "seed {seed}");
    }
}

/// However often the process is killed the log takes no more than what is to be replayed and two files above it.
#[test]
fn unclean_starts_leave_no_files_behind() {
    let lives = std::env::var("PLEACH_TEST_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(40);
    for (writes, power) in [(0, false), (3, false), (3, true), (0, true)] {
        let disk = FaultyDisk::new(5);
        let mut unflushed = 0;
        for life in 0..lives {
            let (log, recovered) = open(&disk);
            assert_eq!(records(&recovered, 0).len() as u64, life * writes, "life {life}");
            for n in 0..writes {
                let record = put(1, life * writes + n, 50);
                unflushed += record.log_bytes() + 2000;
                write(&log, record);
            }
            match power {
                true => kill(log, &disk),
                false => kill_and_restart(log, &disk),
            }
        }
        let (log, _) = open(&disk);
        let names = disk.list(Path::new(DIR)).unwrap();
        let bytes: u64 = names.iter().map(|name| disk.len(&Path::new(DIR).join(name)).unwrap()).sum();
        let bound = unflushed + 3 * options().file_bytes;
        assert!(bytes <= bound, "{bytes} bytes in {names:?}, the bound is {bound}");
        assert!(log.kept_bytes() <= unflushed + options().file_bytes, "{}", log.kept_bytes());
        if writes == 0 {
            let logs = names.iter().filter(|name| name.ends_with(".log")).count();
            assert_eq!(logs, 1, "{names:?}: empty files are replaced");
        }
    }
}

#[test]
fn group_commit_serves_many() {
    for by in By::ALL {
        let disk = FaultyDisk::new(3);
        let (log, _) = open(&disk);
        let sequencer = parking_lot::Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mut next = sequencer.lock();
                        let ticket = by.enqueue(&log, put(1, *next, 20)).unwrap();
                        *next += 1;
                        drop(next);
                        by.wait(&log, ticket).unwrap();
                        assert!(log.durable_position() >= ticket.end);
                    }
                });
            }
        });
        kill(log, &disk);
        let (_log, recovered) = open(&disk);
        assert_eq!(
            records(&recovered, 0),
            (0..3200).map(|seq_no| put(1, seq_no, 20)).collect::<Vec<_>>(),
            "{by:?}"
        );
    }
}

/// Nobody is woken by a record whose writer waits himself; who waits for it instead of him still sees it written.
#[test]
fn a_record_that_nobody_leads_is_written_for_whoever_waits() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    let first = By::Waiter.enqueue(&log, put(1, 0, 20)).unwrap();
    log.wait_durable(first.end).unwrap();
    // Left behind: the next record takes it along, and so does the close.
    By::Waiter.enqueue(&log, put(1, 1, 20)).unwrap();
    let third = enqueue(&log, put(1, 2, 20)).unwrap();
    log.wait_durable(third.end).unwrap();
    By::Waiter.enqueue(&log, put(1, 3, 20)).unwrap();
    log.close().unwrap();
    drop(log);
    assert_eq!(records(&open(&disk).1, 0).len(), 4);
}

/// Records of a batch are written together: after its end, with a record of somebody else, or when many bytes are queued.
#[test]
fn a_batch_is_written_when_it_ends() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    let first = write(&log, put(1, 0, 20));
    let batched = |seq_no, bytes| By::Batch.enqueue(&log, put(1, seq_no, bytes)).unwrap();
    let is_written = |ticket: Ticket| {
        std::thread::sleep(Duration::from_millis(20));
        log.written_position() >= ticket.end
    };
    batched(1, 20);
    let last = batched(2, 20);
    assert!(!is_written(last), "the batch goes on");
    assert_eq!(log.written_position(), first.end);
    log.end_batch();
    log.wait_durable(last.end).unwrap();
    let (own, other) = (batched(3, 20), write(&log, put(1, 4, 20)));
    assert!(
        own.end < other.end && log.durable_position() >= other.end,
        "its neighbour took it along"
    );
    let asked = batched(5, 20);
    log.wait_written(asked.end).unwrap();
    // A quarter of the queue of these options.
    let many: Vec<Ticket> = (6..11).map(|seq_no| batched(seq_no, 2000)).collect();
    assert!(is_written(many[3]), "a long batch is written in parts");
    batched(11, 20);
    log.close().unwrap();
    drop(log);
    assert_eq!(records(&open(&disk).1, 0).len(), 12, "the close writes what is left");
}

/// A leader writes on its own thread, and syncs what was only written before it.
#[test]
fn a_leader_writes_and_syncs_what_is_there() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    let later = put(1, 0, 20);
    let mut room = log.reserve(later.log_bytes()).unwrap();
    let later = log.enqueue(&mut room, later, Durability::Async).unwrap();
    log.wait_written(later.end).unwrap();
    assert!(log.durable_position() < later.end);
    while !log.is_quiet() {
        std::thread::yield_now();
    }
    let own = By::Waiter.enqueue(&log, put(1, 1, 20)).unwrap();
    log.lead();
    assert!(log.durable_position() >= own.end, "when it returns");
}

#[tokio::test]
async fn an_async_write_becomes_durable_when_asked() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    let record = put(1, 0, 20);
    let mut room = log.reserve(record.log_bytes()).unwrap();
    let ticket = log.enqueue(&mut room, record, Durability::Async).unwrap();
    log.until_written(ticket.end).await.unwrap();
    assert!(log.durable_position() < ticket.end);
    log.durable(ticket.end).await.unwrap();
    assert_eq!(
        log.durable(ticket.end + 1).await.unwrap_err().kind(),
        ErrorKind::IllegalArgument
    );
}

#[test]
fn the_queue_has_a_limit() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    let held = log.reserve(32_000).unwrap();
    let refused = log.reserve(1000).err().unwrap();
    assert!(
        refused.kind() == ErrorKind::RejectedExecution && refused.reason().contains("log.queue_max_bytes"),
        "{refused}"
    );
    drop(held);
    write(&log, put(1, 0, 1000));
}

#[test]
fn a_full_disk_refuses_and_recovers() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    // The room of what is there: no further spare file can be made.
    while !disk
        .list(Path::new(DIR))
        .unwrap()
        .iter()
        .any(|name| name.starts_with("spare-") && !name.ends_with("partial"))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    disk.set_room(Some(disk.used_bytes()));
    let mut written = 0;
    let refused = loop {
        match enqueue(&log, put(1, written, 500)) {
            Ok(ticket) => log.wait_durable(ticket.end).unwrap(),
            Err(refused) => break refused,
        }
        written += 1;
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(
        refused.kind() == ErrorKind::DiskFull && written > 64,
        "{refused} after {written}"
    );
    drop(log.reserve_delete(500).expect("deletes have room kept for them"));
    disk.set_room(None);
    let begun = Instant::now();
    while log.reserve(put(1, written, 500).log_bytes()).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "room is found again");
        std::thread::sleep(Duration::from_millis(5));
    }
    write(&log, put(1, written, 500));
    log.close().unwrap();
    drop(log);
    assert_eq!(records(&open(&disk).1, 0).len() as u64, written + 1);
}

/// Not a byte is free at the start: what was written is read, records are refused until there is room, and the first one
/// begins the file that the start could not begin.
#[test]
fn a_start_without_room_begins_its_file_later() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    write(&log, put(1, 0, 10));
    disk.stop_after(0);
    drop(log);
    disk.restart();
    for name in disk.list(Path::new(DIR)).unwrap() {
        if name.starts_with("spare-") || name.starts_with("reserve-") {
            disk.remove(&Path::new(DIR).join(name)).unwrap();
        }
    }
    disk.set_room(Some(0));
    let (log, found) = open(&disk);
    assert_eq!(records(&found, 0).len(), 1);
    assert!(log.is_starved());
    let refused = log.reserve_delete(10).err().expect("there is no file to write to");
    assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
    disk.set_room(None);
    let begun = Instant::now();
    while log.reserve(put(1, 1, 10).log_bytes()).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5), "room is found again");
        std::thread::sleep(Duration::from_millis(5));
    }
    write(&log, put(1, 1, 10));
    log.close().unwrap();
    drop(log);
    disk.crash();
    let (_, found) = open(&disk);
    assert_eq!(found.verdict, Verdict::Clean);
    assert_eq!(records(&found, 0).len(), 2);
}

/// The log comes to the end of a file while no descriptor is to be had: its records wait, and nothing fails.
#[test]
fn a_rotation_waits_for_descriptors() {
    for spare_is_there in [true, false] {
        let disk = FaultyDisk::new(3);
        let (log, _) = open(&disk);
        if spare_is_there {
            while !disk.list(Path::new(DIR)).unwrap().iter().any(|name| name == "spare-1") {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        disk.set_opens_failing(true);
        let mut last = None;
        for n in 0..100 {
            match enqueue(&log, put(1, n, 1000)) {
                Ok(ticket) => last = Some(ticket),
                Err(refused) => {
                    assert_eq!(refused.kind(), ErrorKind::RejectedExecution, "{refused}");
                    break;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let last = last.expect("some are taken");
        std::thread::sleep(Duration::from_millis(50));
        assert!(log.failure().is_none());
        disk.set_opens_failing(false);
        log.wait_durable(last.end).unwrap();
        let begun = Instant::now();
        while log.reserve(1000).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(5), "writes work again");
            std::thread::sleep(Duration::from_millis(5));
        }
        log.close().unwrap();
    }
}

/// The disk's fullness is waited out by the log's thread, not by the writer that led.
#[test]
fn a_leader_does_not_wait_for_room() {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    write(&log, put(1, 0, 10));
    while !log.is_quiet() {
        std::thread::yield_now();
    }
    disk.set_writes_full(true);
    let own = By::Waiter.enqueue(&log, put(1, 1, 10)).unwrap();
    log.lead();
    assert!(log.written_position() < own.end && log.failure().is_none());
    let next = By::Waiter.enqueue(&log, put(1, 2, 10)).unwrap();
    log.lead();
    assert!(!log.is_quiet(), "it is the thread's turn");
    disk.set_writes_full(false);
    log.wait_durable(next.end).unwrap();
    log.close().unwrap();
    drop(log);
    assert_eq!(records(&open(&disk).1, 0).len(), 3);
}

#[test]
fn a_failed_sync_stops_all_writes() {
    By::ALL.into_iter().for_each(a_failed_sync);
}

fn a_failed_sync(by: By) {
    let disk = FaultyDisk::new(3);
    let (log, _) = open(&disk);
    write(&log, put(1, 0, 10));
    disk.set_syncs_failing(true);
    while !log.is_quiet() {
        std::thread::yield_now();
    }
    let ticket = by.enqueue(&log, put(1, 1, 10)).unwrap();
    let unknown = by.wait(&log, ticket).unwrap_err();
    assert!(
        unknown.kind() == ErrorKind::LogFailed && unknown.reason().contains("unknown"),
        "{unknown}"
    );
    disk.set_syncs_failing(false);
    assert_eq!(
        log.reserve(1).err().map(|e| e.kind()),
        Some(ErrorKind::LogFailed),
        "until a restart"
    );
    assert!(log.close().is_err());
    kill(log, &disk);
    let (log, recovered) = open(&disk);
    assert!(!records(&recovered, 0).is_empty());
    write(&log, put(1, 2, 10));
}

#[test]
fn a_disk_that_breaks_before_a_rotation_leaves_nobody_waiting() {
    for (steps, by) in (0..40).flat_map(|steps| By::ALL.map(|by| (steps, by))) {
        let disk = FaultyDisk::new(3);
        let (log, _) = open(&disk);
        disk.stop_after(steps);
        let failed = (0..1000).find_map(|seq_no| {
            by.enqueue(&log, put(1, seq_no, 3000))
                .and_then(|ticket| by.wait(&log, ticket))
                .err()
        });
        assert_eq!(
            failed.map(|e| e.kind()),
            Some(ErrorKind::LogFailed),
            "stopped after {steps} steps, written by {by:?}"
        );
    }
}

#[test]
fn another_folders_log_is_refused() {
    let disk = FaultyDisk::new(3);
    drop(open(&disk));
    let other = LogOptions {
        folder_id: 8,
        ..options()
    };
    assert_eq!(
        Log::open(Path::new(DIR), Arc::new(disk), other).err().map(|e| e.kind()),
        Some(ErrorKind::IllegalState)
    );
}

#[test]
fn the_manifest_survives_a_stop_at_every_step() {
    let big = |i: u64| vec![i as u8; 20_000];
    let run = |disk: &FaultyDisk| {
        let mut durable: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut under_way = durable.clone();
        let Ok((manifest, _)) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())) else {
            return (durable, under_way);
        };
        for i in 0..12 {
            let (key, gone) = (format!("k{}", i % 2), format!("g{}", i % 3));
            let entries = vec![(key.clone(), Some(big(i))), (gone.clone(), (i % 5 == 0).then(|| vec![1]))];
            for (key, value) in &entries {
                match value {
                    Some(value) => drop(under_way.insert(key.clone(), value.clone())),
                    None => drop(under_way.remove(key)),
                }
            }
            if manifest.write(entries).is_err() {
                break;
            }
            durable = under_way.clone();
        }
        (durable, under_way)
    };
    let whole = FaultyDisk::new(0);
    let (all, _) = run(&whole);
    assert_eq!(all.keys().collect::<Vec<_>>(), ["g1", "k0", "k1"]);
    assert!(
        whole.len(&Path::new(DIR).join("manifest")).unwrap() < 240_000,
        "it has been rewritten"
    );
    for steps in 0..=whole.steps() {
        for seed in 0..4 {
            let disk = FaultyDisk::new(seed);
            disk.stop_after(steps);
            let (durable, under_way) = run(&disk);
            disk.crash();
            let (manifest, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
            assert!(
                found.live == durable || found.live == under_way,
                "stopped after {steps} steps, seed {seed}"
            );
            manifest.write(vec![("last".into(), Some(vec![1]))]).unwrap();
            disk.crash();
            let (_, again) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
            assert!(
                again.live.len() == found.live.len() + 1,
                "stopped after {steps} steps, seed {seed}"
            );
            assert!(
                again.mended.is_empty(),
                "stopped after {steps} steps, seed {seed}: {:?}",
                again.mended
            );
        }
    }
}

/// Three keys, and the two files.
fn a_manifest(disk: &FaultyDisk) -> [PathBuf; 2] {
    let (manifest, _) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
    for i in 0..3 {
        manifest.write(vec![(format!("k{i}"), Some(vec![i; 40]))]).unwrap();
    }
    ["manifest", "manifest-2"].map(|name| Path::new(DIR).join(name))
}

fn three_keys() -> BTreeMap<String, Vec<u8>> {
    (0..3).map(|i| (format!("k{i}"), vec![i; 40])).collect()
}

/// Whatever becomes of one file costs nothing; what was damaged is written again.
#[test]
fn a_damaged_manifest_costs_nothing() {
    let whole = FaultyDisk::new(0);
    let files = a_manifest(&whole);
    for path in &files {
        let content = whole.content(path).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for at in 0..=end {
            let disk = FaultyDisk::new(0);
            for other in &files {
                disk.put(other, whole.content(other).unwrap());
            }
            if at < end {
                disk.flip(path, at as u64, 5);
            } else {
                disk.remove(path).unwrap();
            }
            let (_, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
            assert_eq!(found.live, three_keys(), "{path:?}, byte {at}");
            assert!(found.damaged.is_empty() && found.unknown.is_none(), "{path:?}, byte {at}");
            let (_, again) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
            assert!(
                again.live == found.live && again.mended.is_empty(),
                "{path:?}, byte {at}: {again:?}"
            );
        }
        for length in (0..end).step_by(7) {
            let disk = FaultyDisk::new(0);
            for other in &files {
                disk.put(other, whole.content(other).unwrap());
            }
            disk.put(path, content[..length].to_vec());
            let (_, found) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
            assert_eq!(found.live, three_keys(), "{path:?} cut to {length}");
        }
    }
}

/// The same bytes in both files: an entry is lost, the others are not.
#[test]
fn what_is_damaged_in_both_manifests_costs_its_entry() {
    let whole = FaultyDisk::new(0);
    let files = a_manifest(&whole);
    let content = whole.content(&files[0]).unwrap();
    let disk = FaultyDisk::new(0);
    for path in &files {
        let mut content = whole.content(path).unwrap();
        let at = content.windows(40).position(|bytes| bytes == [1; 40]).unwrap();
        content[at + 3] ^= 1;
        disk.put(path, content);
    }
    for life in 0..2 {
        let (manifest, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
        assert_eq!(found.live.keys().collect::<Vec<_>>(), ["k0", "k2"], "life {life}");
        let damage = &found.damaged["k1"];
        assert!(
            damage.kind() == ErrorKind::Corruption && damage.reason().contains("[k1]") && damage.reason().contains("byte ["),
            "life {life}: {damage}"
        );
        assert_eq!(manifest.read("k1"), None);
        manifest.write(vec![("k0".into(), Some(vec![9]))]).unwrap();
        if life == 1 {
            manifest.write(vec![("k1".into(), Some(vec![1]))]).unwrap();
        }
    }
    let (_, found) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
    assert!(
        found.damaged.is_empty() && found.live["k1"] == [1],
        "a new value takes the place of a lost one"
    );
    // Headers of both files: nothing is readable, and nothing is overwritten.
    let disk = FaultyDisk::new(0);
    for path in &files {
        disk.put(path, vec![7; content.len()]);
    }
    let refused = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).err().unwrap();
    assert!(
        refused.kind() == ErrorKind::Corruption && refused.reason().contains("byte [0]"),
        "{refused}"
    );
    assert_eq!(disk.content(&files[0]).unwrap(), vec![7; content.len()]);
}

/// The full disk tears the first file; the start needs no room to go on.
#[test]
fn a_manifest_torn_on_a_full_disk_opens() {
    for torn in 0..2 {
        let disk = FaultyDisk::new(3);
        let files = a_manifest(&disk);
        let mut content = disk.content(&files[torn]).unwrap();
        let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        content[end..end + 30].fill(0xf7);
        disk.put(&files[torn], content);
        disk.set_room(Some(0));
        let (manifest, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
        assert_eq!(found.live, three_keys());
        // Zeros were written ahead.
        manifest.write(vec![("k3".into(), Some(vec![3; 40]))]).unwrap();
        disk.crash();
        let (_, found) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
        assert_eq!(found.live.len(), 4);
    }
}

/// A full disk that takes the first file and not the second: the second is written as soon as there is room.
#[test]
fn one_manifest_is_enough_while_the_disk_is_full() {
    let disk = FaultyDisk::new(3);
    let files = a_manifest(&disk);
    disk.remove(&files[1]).unwrap();
    disk.set_room(Some(0));
    let (manifest, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
    assert_eq!(found.live, three_keys());
    manifest.write(vec![("k3".into(), Some(vec![3]))]).unwrap();
    assert!(disk.content(&files[1]).is_none());
    disk.set_room(None);
    manifest.write(vec![("k4".into(), Some(vec![4]))]).unwrap();
    drop(manifest);
    disk.remove(&files[0]).unwrap();
    let (_, found) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
    assert_eq!(found.live.len(), 5, "the second file has every change");
}

/// A file header as format version 1 wrote it.
fn old_header(folder_id: u128) -> FileHeader {
    FileHeader {
        version: FORMAT_VERSION_1,
        folder_id,
        number: 1,
        run_id: 9,
        start: FILE_HEADER_BYTES,
        previous_end: 0,
        allocated: 0,
        cut: 0,
        note: FileNote::default(),
    }
}

/// A manifest as format version 1 wrote it: one file, entries without checksums.
fn old_manifest() -> Vec<u8> {
    let mut content = old_header(3).write();
    for i in 0..3u8 {
        let mut frame = Vec::new();
        let at = begin_frame(&mut frame);
        write_entry_1(&mut frame, &format!("k{i}"), Some(&[i; 40]));
        let header = FrameHeader {
            kind: FrameKind::Manifest,
            run_id: 9,
            frame_no: u64::from(i),
            position: content.len() as u64,
            synced: content.len() as u64,
            body_bytes: 0,
            advance: frame.len() as u32,
            body_crc: 0,
        };
        finish_frame(&mut frame, at, header);
        content.extend_from_slice(&frame);
    }
    content
}

/// A folder of before opens, also on a full disk, and is written anew as soon as there is room.
#[test]
fn an_old_folder_opens() {
    let path = Path::new(DIR).join("manifest");
    for full in [false, true] {
        let disk = FaultyDisk::new(1);
        disk.put(&path, old_manifest());
        if full {
            disk.set_room(Some(disk.used_bytes() + 300));
        }
        let (manifest, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
        assert_eq!(found.live, three_keys(), "full: {full}");
        assert!(found.mended.is_empty(), "an old folder has one file: {:?}", found.mended);
        manifest.write(vec![("k3".into(), Some(vec![3]))]).unwrap();
        drop(manifest);
        let (manifest, found) = Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap();
        assert_eq!(found.live.len(), 4, "full: {full}");
        disk.set_room(None);
        manifest.write(vec![("k4".into(), Some(vec![4]))]).unwrap();
        drop(manifest);
        drop(Manifest::open(Path::new(DIR), Arc::new(disk.clone())).unwrap());
        disk.remove(&path).unwrap();
        let (_, found) = Manifest::open(Path::new(DIR), Arc::new(disk)).unwrap();
        assert_eq!(found.live.len(), 5, "full: {full}: the second file is there");
    }
    // Its log.
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    write(&log, put(1, 0, 100));
    kill(log, &disk);
    let path = last_file(&disk);
    let mut content = disk.content(&path).unwrap();
    let header = FileHeader {
        version: FORMAT_VERSION_1,
        ..FileHeader::read(&content).unwrap()
    };
    content[..FILE_HEADER_BYTES as usize].copy_from_slice(&header.write());
    let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // Such a file did not say how long it was made.
    content.truncate(end);
    let disk = FaultyDisk::new(1);
    disk.put(&path, content);
    for _ in 0..2 {
        let (log, recovered) = open(&disk);
        assert_eq!((records(&recovered, 0).len(), recovered.verdict), (1, Verdict::Clean));
        kill(log, &disk);
    }
}

/// A cut file is named, whatever was cut; a start's own cut is none.
#[test]
fn a_log_that_is_too_short_is_damaged() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    for n in 0..5 {
        write(&log, put(1, n, 100));
    }
    kill(log, &disk);
    let path = last_file(&disk);
    let content = disk.content(&path).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for length in [end - 1, end - 60, end - 300, FILE_HEADER_BYTES as usize] {
        let disk = FaultyDisk::new(1);
        disk.put(&path, content[..length].to_vec());
        let (_, recovered) = open(&disk);
        let Verdict::Corrupt(damages) = &recovered.verdict else {
            panic!("cut to {length}: {:?}", recovered.verdict);
        };
        let reason = &damages[0].reason;
        assert!(
            damages[0].whole_folder && reason.contains(&format!("byte [{length}]")),
            "cut to {length}: {reason}"
        );
    }
    // It stays damaged, however often it is opened.
    let disk = FaultyDisk::new(1);
    disk.put(&path, content[..end - 60].to_vec());
    for life in 0..3 {
        let (log, recovered) = open(&disk);
        let Verdict::Corrupt(damages) = &recovered.verdict else {
            panic!("life {life}: {:?}", recovered.verdict);
        };
        assert!(damages.iter().any(|damage| damage.whole_folder), "life {life}: {damages:?}");
        kill(log, &disk);
    }
    // A newest file that is gone.
    let disk = FaultyDisk::new(1);
    for _ in 0..3 {
        let gone = LogOptions {
            least_file: 1,
            ..options()
        };
        let (log, recovered) = Log::open(Path::new(DIR), Arc::new(disk.clone()), gone).unwrap();
        assert!(matches!(recovered.verdict, Verdict::Corrupt(_)), "{:?}", recovered.verdict);
        kill(log, &disk);
    }
    // Zeros that nobody wrote anything to are no loss.
    let disk = FaultyDisk::new(1);
    disk.put(&path, content[..end + 200].to_vec());
    for _ in 0..3 {
        let (log, recovered) = open(&disk);
        assert_eq!(records(&recovered, 0).len(), 5);
        assert_eq!(recovered.verdict, Verdict::Clean);
        kill(log, &disk);
    }
    // The manifest says how far it reached.
    let disk = FaultyDisk::new(1);
    disk.put(&path, content[..end + 200].to_vec());
    let options = LogOptions {
        least_end: (1 << 30) + 100_000,
        ..options()
    };
    for _ in 0..2 {
        let (log, recovered) = Log::open(Path::new(DIR), Arc::new(disk.clone()), options.clone()).unwrap();
        let Verdict::Corrupt(damages) = &recovered.verdict else {
            panic!("{:?}", recovered.verdict);
        };
        assert_eq!(damages[0].end, options.least_end, "{damages:?}");
        kill(log, &disk);
    }
}

/// Waits for the note of a file that says so much, then gives the file's content.
fn noted(disk: &FaultyDisk, path: &Path, synced: u64) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        let content = disk.content(path).unwrap();
        if FileHeader::read(&content).unwrap().note.synced >= synced {
            return content;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the file is noted");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Zeros in place of frames that were synced, with nothing behind them, are damage once the file has a note of them;
/// whoever writes.
#[test]
fn zeros_in_place_of_noted_frames_are_damage() {
    for by in By::ALL {
        let disk = FaultyDisk::new(1);
        let noting = LogOptions {
            note_each: Duration::from_millis(1),
            ..options()
        };
        let (log, _) = Log::open(Path::new(DIR), Arc::new(disk.clone()), noting).unwrap();
        let path = last_file(&disk);
        let (mut ends, mut content) = (Vec::new(), Vec::new());
        for n in 0..4 {
            let ticket = by.enqueue(&log, put(1, n, 100)).unwrap();
            by.wait(&log, ticket).unwrap();
            content = noted(&disk, &path, ticket.end);
            ends.push(content.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        }
        kill(log, &disk);
        for from in &ends[..3] {
            let disk = FaultyDisk::new(1);
            let mut zeroed = content.clone();
            zeroed[*from..].fill(0);
            disk.put(&path, zeroed);
            for life in 0..3 {
                let (log, recovered) = open(&disk);
                let Verdict::Corrupt(damages) = &recovered.verdict else {
                    panic!("{by:?}, zeros from {from}, life {life}: {:?}", recovered.verdict);
                };
                assert!(damages[0].whole_folder, "{damages:?}");
                assert!(damages[0].reason.contains(&format!("byte [{from}]")), "{damages:?}");
                kill(log, &disk);
            }
        }
        // A note that is damaged costs nothing: there are two, and the frames are there.
        for at in [128, 384] {
            let disk = FaultyDisk::new(1);
            disk.put(&path, content.clone());
            disk.flip(&path, at, 3);
            let (log, recovered) = open(&disk);
            assert_eq!(
                (records(&recovered, 0).len(), &recovered.verdict),
                (4, &Verdict::Clean),
                "{at}"
            );
            kill(log, &disk);
        }
    }
}

/// Each file names the one that was begun after it, before anything stands in that.
#[test]
fn a_newest_file_that_is_gone_is_missed() {
    for by in By::ALL {
        let disk = FaultyDisk::new(1);
        let (log, _) = open(&disk);
        let first = last_file(&disk);
        let mut n = 0;
        while last_file(&disk) == first || n < 3 {
            let ticket = by.enqueue(&log, put(1, n, 5_000)).unwrap();
            by.wait(&log, ticket).unwrap();
            n += 1;
        }
        kill(log, &disk);
        let (log, recovered) = open(&disk.clone());
        assert_eq!((records(&recovered, 0).len() as u64, recovered.verdict), (n, Verdict::Clean));
        drop(log);
        disk.restart();
        // The start above has begun a file, too, which its caller's manifest names.
        let begun = last_file(&disk);
        disk.remove(&begun).unwrap();
        let newest = last_file(&disk);
        assert_ne!(newest, first);
        disk.remove(&newest).unwrap();
        for life in 0..3 {
            let (log, recovered) = open(&disk);
            let Verdict::Corrupt(damages) = &recovered.verdict else {
                panic!("{by:?}, life {life}: {:?}", recovered.verdict);
            };
            assert!(damages.iter().any(|damage| damage.whole_folder), "{damages:?}");
            if life == 0 {
                let name = newest.file_name().unwrap().to_str().unwrap();
                assert!(damages[0].reason.contains(name), "{damages:?}");
            }
            kill(log, &disk);
        }
    }
}

/// A frame at the very end that was written whole is damaged and not torn; the flip names its index, or costs nothing.
#[test]
fn a_flip_in_the_last_frame_is_damage() {
    let disk = FaultyDisk::new(1);
    let (log, _) = open(&disk);
    write(&log, put(1, 0, 700));
    let before = disk.content(&last_file(&disk)).unwrap();
    let begin = before.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    // Not the first of its index, which may be what makes that: such records are mended.
    write(&log, put(2, 5, 700));
    kill(log, &disk);
    let path = last_file(&disk);
    let content = disk.content(&path).unwrap();
    let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (mut harmless, mut named) = (0, 0);
    for at in begin..end {
        for bit in [0, 6] {
            let copy = FaultyDisk::new(1);
            copy.put(&path, content.clone());
            copy.flip(&path, at as u64, bit);
            let (log, recovered) = open(&copy);
            match &recovered.verdict {
                Verdict::Corrupt(damages) => {
                    assert!(!damages[0].whole_folder, "byte {at}: {damages:?}");
                    assert_eq!(damages[0].indices.iter().copied().collect::<Vec<_>>(), [2], "byte {at}");
                    assert_eq!(records(&recovered, 0).len(), 1, "byte {at}");
                    named += 1;
                }
                Verdict::Clean => {
                    assert_eq!(records(&recovered, 0).len(), 2, "byte {at}: nothing is lost silently");
                    harmless += 1;
                }
                Verdict::Torn => panic!("byte {at}: a frame that was synced is no torn tail"),
            }
            kill(log, &copy);
        }
    }
    assert!(harmless > 100 && named > 1000, "{harmless} {named}");
}

/// `cargo test --release -- --ignored commits_per_second --nocapture`
#[test]
#[ignore = "a measurement"]
fn commits_per_second() {
    for (threads, by) in [1, 16].into_iter().flat_map(|threads| By::ALL.map(|by| (threads, by))) {
        let dir = tempfile::tempdir().unwrap();
        let (log, _) = Log::open(dir.path(), Arc::new(RealDisk), LogOptions::new(7, 0)).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let sequencer = parking_lot::Mutex::new((0, Duration::ZERO));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while begun.elapsed() < Duration::from_secs(3) {
                        let record = put(1, 0, 400);
                        let mut next = sequencer.lock();
                        let at = Instant::now();
                        let ticket = by.enqueue(&log, record).unwrap();
                        next.1 += at.elapsed();
                        next.0 += 1;
                        drop(next);
                        by.wait(&log, ticket).unwrap();
                    }
                });
            }
        });
        let (count, enqueueing) = *sequencer.lock();
        println!(
            "{threads} threads, written by {by:?}: {:.0} durable commits/s, enqueue {:?} each",
            count as f64 / begun.elapsed().as_secs_f64(),
            enqueueing / count
        );
    }
}

/// Bytes that nobody wrote, in files and behind right checksums: classified or refused, never a panic. For
/// `PLEACH_FUZZ_SECONDS` (1); `PLEACH_FUZZ_SEED` begins elsewhere.
#[test]
fn mutated_logs_are_classified() {
    let from_env = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(1)
    };
    let (seed, seconds) = (
        from_env("PLEACH_FUZZ_SEED"),
        Duration::from_secs(from_env("PLEACH_FUZZ_SECONDS")),
    );
    let disk = FaultyDisk::new(seed);
    let (log, _) = open(&disk);
    let written: Vec<Record> = (0..12)
        .map(|n| put(1 + n % 3, u64::from(n / 3), 30 + n as usize * 7))
        .collect();
    for record in &written {
        write(&log, record.clone());
    }
    log.close().unwrap();
    let path = last_file(&disk);
    let content = disk.content(&path).unwrap();
    let end = content.len() - super::replay::zeros_at_end(&content);
    let (manifest, _) = Manifest::open(Path::new("/m"), Arc::new(disk.clone())).unwrap();
    for n in 0..4 {
        manifest.write(vec![(format!("key{n}"), Some(vec![n; 50]))]).unwrap();
    }
    let entries = Path::new("/m").join(disk.list(Path::new("/m")).unwrap().pop().unwrap());
    let listed = disk.content(&entries).unwrap();
    let mut random = model::random::random(seed);
    let mut below = |bound: usize| random(bound as u64) as usize;
    let begun = Instant::now();
    let (mut runs, mut corrupt, mut refused, mut forged) = (0u64, 0u64, 0u64, 0u64);
    while begun.elapsed() < seconds {
        runs += 1;
        let mut bytes = content.clone();
        let forging = below(3) == 0;
        if forging {
            forge(&mut bytes, &mut below);
            forged += 1;
        } else {
            mutate(&mut bytes, end, &mut below);
        }
        let copy = FaultyDisk::new(1);
        copy.put(&path, bytes);
        match Log::open(Path::new(DIR), Arc::new(copy.clone()), options()) {
            Err(_) => refused += 1,
            Ok((log, recovered)) => {
                corrupt += u64::from(matches!(recovered.verdict, Verdict::Corrupt(_)));
                let mut found = Vec::new();
                let replayed = recovered.replay(0, |replayed| {
                    found.push(replayed.record);
                    Ok(())
                });
                if !forging {
                    assert!(
                        found.iter().all(|record| written.contains(record)),
                        "seed {seed}, run {runs}: a record that nobody wrote"
                    );
                    replayed.unwrap();
                }
                log.close().unwrap();
            }
        }
        let mut bytes = listed.clone();
        let length = bytes.len();
        mutate(&mut bytes, length, &mut below);
        let copy = FaultyDisk::new(1);
        copy.put(&entries, bytes);
        if let Ok((manifest, ManifestEntries { live, .. })) = Manifest::open(Path::new("/m"), Arc::new(copy)) {
            assert!(
                live.values().all(|value| value.len() == 50),
                "seed {seed}, run {runs}: an entry that nobody wrote"
            );
            manifest.write(vec![("after".into(), Some(Vec::new()))]).unwrap();
        }
    }
    eprintln!("log: seed {seed}, {runs} runs, {corrupt} corrupt, {refused} refused, {forged} forged");
}

/// Flips, fills, moves and copies some bytes below `end`.
fn mutate(bytes: &mut [u8], end: usize, below: &mut impl FnMut(usize) -> usize) {
    for _ in 0..1 + below(3) {
        let (at, length) = (below(end), 1 + below(80));
        let to = (at + length).min(bytes.len());
        match below(5) {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at..to].fill(below(256) as u8),
            2 => bytes[at..].fill(0),
            3 => {
                let from = below(end.saturating_sub(to - at).max(1));
                bytes.copy_within(from..from + (to - at).min(end - from), at);
            }
            _ => {
                let number = (below(1 << 20) as u32).to_le_bytes();
                let last = to.min(at + 4);
                bytes[at..last].copy_from_slice(&number[..last - at]);
            }
        }
    }
}

/// Changes a record's header or body and makes all its checksums right again.
fn forge(bytes: &mut [u8], below: &mut impl FnMut(usize) -> usize) {
    use super::format::{FRAME_HEADER_BYTES, FrameHeader, finish_frame};
    let mut at = FILE_HEADER_BYTES as usize;
    for _ in 0..below(8) {
        if let Some(header) = FrameHeader::read(&bytes[at..]) {
            at += FRAME_HEADER_BYTES + header.body_bytes as usize;
        }
    }
    let Some(header) = FrameHeader::read(&bytes[at..]) else {
        return;
    };
    let end = at + FRAME_HEADER_BYTES + header.body_bytes as usize;
    let record = at + FRAME_HEADER_BYTES;
    for _ in 0..1 + below(4) {
        let place = record + below(end - record);
        bytes[place] = [0, 1, 0x7f, 0x80, 0xff, below(256) as u8][below(6)];
    }
    // One participant: 8 bytes, 24 of it, two checksums, the body.
    if end - record > 40 {
        let body = crc32fast::hash(&bytes[record + 40..end]);
        bytes[record + 32..record + 36].copy_from_slice(&body.to_le_bytes());
        let head = crc32fast::hash(&bytes[record..record + 36]);
        bytes[record + 36..record + 40].copy_from_slice(&head.to_le_bytes());
    }
    finish_frame(&mut bytes[..end], at, header);
}

/// Everything behind a position, read in parts of at most `bytes_max`.
fn follow(log: &Log, since: u64, bytes_max: u64) -> Option<Vec<Record>> {
    let (mut since, mut out) = (since, Vec::new());
    loop {
        let followed = log.read_after(since, bytes_max).unwrap()?;
        for pair in followed.records.windows(2) {
            assert!(pair[0].end <= pair[1].start, "records are in order");
        }
        if let Some(first) = followed.records.first() {
            assert!(first.start >= since, "{} before {since}", first.start);
        }
        if followed.next == since {
            return Some(out);
        }
        since = followed.next;
        out.extend(followed.records.into_iter().map(|replayed| replayed.record));
    }
}

#[test]
fn the_log_is_read_behind_its_writer() {
    const RECORDS: u64 = 60;
    let disk = FaultyDisk::new(29);
    let mut all = Vec::new();
    let mut ends = Vec::new();
    for run in 0..3 {
        let (log, _) = open(&disk);
        for n in run * RECORDS..(run + 1) * RECORDS {
            // Some fill a file of their own.
            let bytes = [10, 300, 9_000, 70_000][(n % 4) as usize];
            let record = put(4, n, bytes);
            ends.push(write(&log, record.clone()).end);
            all.push(record);
        }
        // While it is written, and from any record on.
        for bytes_max in [1, 10_000, u64::MAX] {
            assert!(follow(&log, 0, bytes_max).unwrap() == all, "parts of {bytes_max}");
        }
        for (at, end) in ends.iter().enumerate().step_by(7) {
            assert!(follow(&log, *end, 20_000).unwrap() == all[at + 1..], "behind record {at}");
        }
        assert!(follow(&log, log.durable_position(), 1).unwrap().is_empty());
        log.close().unwrap();
    }
}

#[test]
fn files_stay_within_the_retention() {
    /// Counts the records that are left when replay needs none of them.
    fn check(bytes: u64, age: Duration, expected: impl Fn(usize) -> bool) {
        let disk = FaultyDisk::new(30);
        let retention = Retention {
            bytes,
            age,
            unread_bytes: 0,
        };
        let (log, _) = Log::open(Path::new(DIR), Arc::new(disk.clone()), LogOptions { retention, ..options() }).unwrap();
        let ends: Vec<u64> = (0..40).map(|n| write(&log, put(4, n, 9_000)).end).collect();
        log.truncate_below(log.durable_position()).unwrap();
        let oldest = log.oldest_position();
        let left = ends.iter().filter(|end| **end > oldest).count();
        assert!(expected(left), "{bytes} bytes for {age:?} left {left}");
        let kept = follow(&log, oldest, u64::MAX).unwrap();
        assert_eq!(kept.len(), left);
        if oldest > 0 {
            assert!(follow(&log, 0, u64::MAX).is_none(), "what is gone is told");
        }
        // A full disk takes all that can go.
        log.give_up_retained();
        assert!(follow(&log, log.oldest_position(), u64::MAX).unwrap().len() <= 7);
        log.close().unwrap();
    }
    let (short, long) = (Duration::ZERO, Duration::from_secs(3600));
    // A file of 64 KiB takes seven of them; the one that is written stays.
    check(0, long, |left| left <= 7);
    check(u64::MAX, short, |left| left <= 7);
    check(128 << 10, long, |left| (14..=21).contains(&left));
    check(u64::MAX, long, |left| left == 40);
}

#[test]
fn unread_files_stay_within_their_own_bound() {
    /// Counts the records that are left when replay needs none of them and nobody but a consumer wants them.
    fn check(unread_bytes: u64, unread_record: Option<usize>, expected: impl Fn(usize) -> bool) {
        let disk = FaultyDisk::new(32);
        let retention = Retention {
            unread_bytes,
            ..Retention::NONE
        };
        let (log, _) = Log::open(Path::new(DIR), Arc::new(disk.clone()), LogOptions { retention, ..options() }).unwrap();
        let ends: Vec<u64> = (0..40).map(|n| write(&log, put(4, n, 9_000)).end).collect();
        log.set_unread_from(unread_record.map(|at| ends[at]));
        log.truncate_below(log.durable_position()).unwrap();
        let left = ends.iter().filter(|end| **end > log.oldest_position()).count();
        assert!(expected(left), "{unread_bytes} bytes behind {unread_record:?} left {left}");
        log.give_up_retained();
        assert!(follow(&log, log.oldest_position(), u64::MAX).unwrap().len() <= 7);
        log.close().unwrap();
    }
    // A file of 64 KiB takes seven of them; the one that is written stays.
    check(u64::MAX, None, |left| left <= 7);
    check(u64::MAX, Some(0), |left| left == 40);
    check(u64::MAX, Some(20), |left| (19..=27).contains(&left));
    check(128 << 10, Some(0), |left| (14..=21).contains(&left));
    check(0, Some(0), |left| left <= 7);
}

#[test]
fn damage_ends_the_reading_and_is_told() {
    let disk = FaultyDisk::new(31);
    let (log, _) = open(&disk);
    let ends: Vec<u64> = (0..3).map(|n| write(&log, put(4, n, 100)).end).collect();
    let name = disk
        .list(Path::new(DIR))
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".log"))
        .unwrap();
    let file = disk.open(&Path::new(DIR).join(name)).unwrap();
    let mut content = vec![0; 2048];
    let read = file.read_at(&mut content, 0).unwrap();
    // In the source of the last document.
    let at = content[..read].windows(8).rposition(|bytes| bytes == b"xxxxxxxx").unwrap() as u64;
    file.write_all_at(b"y", at).unwrap();
    assert_eq!(follow(&log, ends[2], 1), Some(Vec::new()));
    let refused = log.read_after(ends[1], 1).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);
    assert!(refused.reason().contains("the feed cannot go on there"), "{refused}");
}
