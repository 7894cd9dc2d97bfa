//! A folder whose log has many small files, left by unclean starts before which no checkpoint succeeded: it opens, serves
//! everything over HTTP, and its first checkpoint gives the files back.
//!
//! Not here: the log alone (`embedded::log::tests`), kills of a real process (`tests/kill.rs`).

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod fixtures;
mod stopping_engine;

use disk::{Disk as _, FaultyDisk};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use stopping_engine::{Served, started};

const LIVES: u64 = 30;
/// What the log may have above what no checkpoint has: the file that is written and a spare one.
const FILES_MAX: usize = 2;

fn log_files(disk: &FaultyDisk) -> Vec<String> {
    let mut names = disk.list(Path::new("/data/log")).unwrap();
    names.retain(|name| name.ends_with(".log"));
    names.sort_unstable();
    names
}

/// Every document of these lives, by id and by search.
fn serves_all(served: &Served, lives: u64) {
    for life in 0..lives {
        assert_eq!(served.get(&format!("/i/_doc/{life}"))["_source"]["n"], life, "life {life}");
    }
    served.ok("POST", "/i/_refresh", &Value::Null);
    assert_eq!(served.get("/i/_count")["count"], lives);
    let sum = i64::try_from(lives * (lives - 1) / 2).unwrap();
    assert_eq!(served.sum("/i/_search").0, sum);
}

#[test]
fn a_folder_with_many_log_files_opens_and_gives_them_back() {
    for portable in [false, true] {
        let disk = FaultyDisk::new(17);
        for life in 0..LIVES {
            // No segment can be written, so no checkpoint succeeds and no log file goes.
            disk.set_full_below(Some("/data/segments".into()));
            started(&disk, portable, |served| {
                served.ok("PUT", &format!("/i/_doc/{life}"), &json!({"n": life}));
                // The process is killed here.
                disk.stop_after(0);
            });
            disk.restart();
        }
        let before = log_files(&disk);
        assert!(before.len() as u64 >= LIVES, "{before:?}");
        disk.set_full_below(None);
        started(&disk, portable, |served| {
            serves_all(served, LIVES);
            let began = Instant::now();
            while log_files(&disk).len() > FILES_MAX {
                let left = log_files(&disk);
                assert!(began.elapsed() < Duration::from_secs(30), "portable: {portable}: {left:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
            serves_all(served, LIVES);
            served.ok("PUT", &format!("/i/_doc/{LIVES}"), &json!({"n": LIVES}));
            disk.stop_after(0);
        });
        // After the files went, too, and after a loss of power.
        disk.crash();
        started(&disk, portable, |served| serves_all(served, LIVES + 1));
    }
}
