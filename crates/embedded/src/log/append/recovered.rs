//! Making durable what a start found in the log, before anything rests on it.
//!
//! A process that is killed between a write and its sync leaves frames that the next one reads from the system's cache
//! and the disk does not have. They must not be served, and no header may say that the log reaches so far, before they
//! are synced: after a loss of power they would be missing below a durable end, which is damage.
//!
//! Not here: reading the log (`replay`).

use crate::log::format::{FILE_HEADER_BYTES, FORMAT_VERSION_1, FileHeader};
use crate::log::replay::{LogFile, Tail};
use disk::{Disk, refusal};
use model::Result;
use std::io;
use std::path::Path;

/// Syncs every file that replay reads (those that reach beyond `from`) and the folder. The last file is cut at its end:
/// what lies behind is zeros or a torn frame, and forty starts would keep forty files of full size.
///
/// # Errors
/// Internal, DiskFull: the disk refuses; nothing of the folder may be served.
pub(super) fn make_durable(disk: &dyn Disk, dir: &Path, from: u64, files: &mut [LogFile], tail: Option<&Tail>) -> Result<()> {
    for file in files.iter_mut() {
        let tail = tail.filter(|tail| tail.number == file.number);
        // Replay does not read what is in segments. A file of it that stays for the feed of changes is cut all the same.
        if tail.is_none() && file.end.is_some_and(|end| end <= from) {
            continue;
        }
        let synced = match tail {
            Some(tail) => sync_tail(disk, tail).map(|bytes| file.bytes = bytes),
            None => disk.open(&file.path).and_then(|open| open.sync_data()),
        };
        synced.map_err(|e| refusal("syncing", &file.path, &e))?;
    }
    disk.sync_dir(dir).map_err(|e| refusal("syncing", dir, &e))
}

/// Gives the length of the file. Frames that may be unsynced are written again, the same bytes at the same place: after
/// a sync that failed in an earlier run the system takes them for clean, and a sync alone would not write them.
fn sync_tail(disk: &dyn Disk, tail: &Tail) -> io::Result<u64> {
    let file = disk.open(&tail.path)?;
    assert!(
        tail.used <= file.bytes()?.max(FILE_HEADER_BYTES) && tail.unsynced <= tail.used.max(FILE_HEADER_BYTES),
        "2: a tail is cut and never grown: frames end at {} of {}",
        tail.used,
        disk::display_path(&tail.path)
    );
    let from = tail.unsynced.clamp(FILE_HEADER_BYTES, tail.used.max(FILE_HEADER_BYTES));
    let mut frames = vec![0; usize::try_from(tail.used.saturating_sub(from)).map_err(io::Error::other)?];
    let read = file.read_at(&mut frames, from)?;
    file.write_all_at(&frames[..read], from)?;
    let bytes = tail.used.max(FILE_HEADER_BYTES);
    // First the header: a file that is shorter than its header says was cut by somebody else.
    if tail.header.version > FORMAT_VERSION_1 && bytes < tail.header.least_bytes() {
        let header = FileHeader {
            cut: bytes,
            ..tail.header
        };
        file.write_all_at(&header.write(), 0)?;
        file.sync_data()?;
    }
    file.truncate(bytes)?;
    file.sync_data()?;
    file.bytes()
}
