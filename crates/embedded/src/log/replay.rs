//! Reading the log after a start: what is there, what was cut, what is damaged.
//!
//! Two passes. The scan (at [`super::Log::open`]) checks every frame and decides what a bad one
//! means (write-path.md 2); [`Recovered::replay`] then gives the records, in order.
//!
//! A bad frame at position f is a **torn tail** if no later frame was written after f was synced, neither the manifest
//! nor a note in the file says that the log reached beyond f, and some sector of the frame was never written: nobody was
//! told that it is durable, so it is cut. Else it is **corruption**: bytes that were once durable are gone. Who is touched
//! is read from the headers of its records; where these are unreadable too, from the gaps that it leaves in the ordinals
//! of later records and heads. A lost stretch that no heads frame follows might concern anyone, so it concerns the whole
//! folder.
//!
//! A file that is shorter than it was made, and not cut by a start, has lost whatever stood behind its end. One flipped
//! bit in the header of a frame or of a record costs nothing: its checksum says which bit.
//!
//! Bytes of a file beyond the next file's `previous_end` are dead, whatever they look like.
//!
//! Not here: stopping indices, applying parts.

use super::Record;
use super::format::{
    FILE_HEADER_BYTES, FORMAT_VERSION_1, FRAME_HEADER_BYTES, FRAME_MAGIC, FileHeader, FrameHeader, FrameKind, Head, RawRecord,
    corrupt, read_heads,
};
use disk::{Disk, Image, refusal};
use model::{Error, ErrorKind, Result};
use rustc_hash::FxHashMap;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The log as a start found it.
pub struct Recovered {
    /// Where the log ended.
    pub end: u64,
    /// Where this run begins: above every position that was ever given out.
    pub start: u64,
    /// Bytes cut from the log's tail: written, but not known to be durable by anyone.
    pub torn_bytes: u64,
    /// Whether all that was durable is still there.
    pub verdict: Verdict,
    /// Files whose headers cannot be read: they stay until somebody looks at them.
    pub unreadable: Vec<PathBuf>,
    disk: Arc<dyn Disk>,
    chunks: Vec<Chunk>,
}

/// Whether all that was durable is still there.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// All there, and nothing was cut.
    Clean,
    /// All there; a tail that nobody relied on was cut.
    Torn,
    /// Something durable is lost.
    Corrupt(Vec<Damage>),
}

/// One place where durable bytes are lost. An index whose `flushed_pos` is at or above `end` loses
/// nothing by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// The first position lost.
    pub start: u64,
    /// The first position after it that is known again.
    pub end: u64,
    /// The indices that lost something.
    pub indices: BTreeSet<u32>,
    /// Index 0 lost something, or it cannot be told who did: nothing in the folder may be trusted.
    pub whole_folder: bool,
    /// The damage in words.
    pub reason: String,
}

/// A record and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Its first position: its `commit_seq`.
    pub start: u64,
    /// The position after it.
    pub end: u64,
    /// The record.
    pub record: Record,
}

impl Recovered {
    /// Gives every record that starts at `from` or later, in order; the first error of `apply` ends
    /// it. Errors of its own: Internal (reading), Corruption (bytes changed since the scan).
    pub fn replay(&self, from: u64, mut apply: impl FnMut(Replayed) -> Result<()>) -> Result<()> {
        let mut read: Option<(&Path, Image)> = None;
        for chunk in self.chunks.iter().filter(|chunk| chunk.position + chunk.bytes > from) {
            if read.as_ref().is_none_or(|(path, _)| *path != chunk.path.as_path()) {
                read = Some((&chunk.path, read_file(self.disk.as_ref(), &chunk.path)?));
            }
            let content: &[u8] = read.as_ref().map_or(&[], |(_, content)| content);
            let changed = || corrupt(format!("[{}] changed while it was replayed", disk::display_path(&chunk.path)));
            let (mut at, mut position) = (chunk.offset as usize, chunk.position);
            while position < chunk.position + chunk.bytes {
                let raw = RawRecord::read_mended(content.get(at..).ok_or_else(changed)?).ok_or_else(changed)?;
                let end = position + u64::from(raw.bytes);
                if position >= from {
                    apply(Replayed {
                        start: position,
                        end,
                        record: raw.record()?,
                    })?;
                }
                (at, position) = (at + raw.bytes as usize, end);
            }
        }
        Ok(())
    }
}

/// A file of the log that lies in the folder.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    /// Position of its first record.
    pub(super) start: u64,
    /// Position after its last record; `None` while it is written.
    pub(super) end: Option<u64>,
    /// Its length.
    pub(super) bytes: u64,
    /// When it was left for the next file, or found by a start.
    pub(super) since: Instant,
}

/// The end of a file whose header cannot be read: nobody knows it.
const UNKNOWN_END: u64 = u64::MAX;

impl LogFile {
    /// Can its header be read?
    pub(super) fn is_readable(&self) -> bool {
        self.end != Some(UNKNOWN_END)
    }
}

/// The last file that an earlier run wrote to, and what the scan found in it.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) header: FileHeader,
    /// Where its sound frames end: what lies behind was cut.
    pub(super) used: u64,
    /// Where the frames begin that no later frame says were synced.
    pub(super) unsynced: u64,
    /// No record lies in it.
    pub(super) is_empty: bool,
}

/// The result of scanning one file.
struct Scanned {
    /// The position where its sound frames end.
    end: u64,
    /// The position after its last record: heads that follow are not needed again.
    record_end: u64,
    used: u64,
    unsynced: u64,
    is_empty: bool,
}

impl Scanned {
    /// All below `end` is in segments: the file was not looked into.
    fn without_reading(end: u64) -> Scanned {
        Scanned {
            end,
            record_end: end,
            used: 0,
            unsynced: 0,
            is_empty: false,
        }
    }
}

/// The result of a scan: the records to replay, the files by number, and the last of them.
pub(super) struct ScanResult {
    pub(super) recovered: Recovered,
    pub(super) files: Vec<LogFile>,
    /// `None`: there is no readable file, or it is not the last, or something durable is lost.
    pub(super) tail: Option<Tail>,
}

/// The length of a stretch whose length is unknown: more than a heads frame.
const LOST_TAIL: u64 = 2;

/// The name of a file of the log.
pub(super) fn file_name(number: u64) -> String {
    format!("{number:012}.log")
}

/// The facts of a log that the manifest knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// The folder it belongs to.
    pub(super) folder_id: u128,
    /// Everything below is in segments.
    pub(super) from: u64,
    /// It reached this position at least.
    pub(super) least_end: u64,
    /// A file of this number or a later one was there.
    pub(super) least_file: u64,
    /// It was closed, and ended at `least_end`.
    pub(super) is_closed: bool,
}

/// Scans the log in `dir`.
pub(super) fn scan(disk: &Arc<dyn Disk>, dir: &Path, expected: &Expected, jump: u64) -> Result<ScanResult> {
    let (from, least) = (expected.from, expected.least_end);
    let mut scan = Scan::default();
    let (headers, unreadable) = read_headers(disk.as_ref(), dir, expected.folder_id, &mut scan)?;
    scan.check_numbers(dir, from, &headers);
    let newest = headers.iter().map(|(header, _)| header.number);
    let newest = newest.chain(unreadable.iter().map(|file| file.number)).max().unwrap_or(0);
    // Each file names the one that was begun after it; the manifest names the newest of each start and checkpoint.
    let noted = headers.iter().map(|(header, _)| header.note.next_file);
    let least_file = noted.chain([expected.least_file]).max().unwrap_or(0);
    if newest < least_file {
        scan.file_gone(dir, least_file, from);
    }
    let ScannedFiles {
        mut files,
        mut tail,
        reached,
    } = scan.files(disk.as_ref(), &headers, expected)?;
    files.extend(unreadable.iter().cloned());
    files.sort_by_key(|file| file.number);
    debug_assert!(
        files.is_sorted_by(|a, b| a.number < b.number),
        "2: each file of the log has a number of its own"
    );
    let damages = scan.damages.into_iter().map(|(damage, _)| damage).collect();
    let is_closed = expected.is_closed && headers.iter().all(|(header, _)| header.start <= least);
    let (verdict, gap) = judge(damages, scan.torn_bytes, from, is_closed.then_some(least));
    // Positions given out but never seen on disk are fewer than one jump; a file whose header
    // is unreadable may hide a run of its own, hence two more for each.
    let start = reached.max(scan.end).max(from) + jump * (1 + 2 * unreadable.len() as u64);
    if matches!(verdict, Verdict::Corrupt(_)) || files.last().map(|file| file.number) != tail.as_ref().map(|tail| tail.number) {
        tail = None;
    }
    let recovered = Recovered {
        // Also behind heads that end the last file.
        end: if gap > 0 {
            reached.max(scan.end).max(from) + gap
        } else {
            scan.end
        },
        unreadable: unreadable.iter().map(|file| file.path.clone()).collect(),
        start,
        torn_bytes: scan.torn_bytes,
        verdict,
        disk: disk.clone(),
        chunks: scan.chunks,
    };
    assert!(
        recovered.start >= recovered.end,
        "1.3: a run begins at {}, where the log that was found goes on to {}",
        recovered.start,
        recovered.end
    );
    Ok(ScanResult { recovered, files, tail })
}

/// The verdict about a log that is needed from `from` on, and how far behind its end the next run begins. `closed_at`: nothing
/// stands behind, since the log was closed there and nobody began a file since.
fn judge(mut damages: Vec<Damage>, torn_bytes: u64, from: u64, closed_at: Option<u64>) -> (Verdict, u64) {
    if let Some(end) = closed_at {
        damages.iter_mut().for_each(|damage| damage.end = damage.end.min(end));
    }
    damages.retain(|damage| damage.end > from && (damage.whole_folder || !damage.indices.is_empty()));
    // The next start must find the damage, too: it sees that the log ended behind what is left of it.
    let gap = if damages.iter().any(|damage| damage.end == u64::MAX) {
        LOST_TAIL
    } else {
        0
    };
    let verdict = match (damages.is_empty(), torn_bytes) {
        (false, _) => Verdict::Corrupt(damages),
        (true, 0) => Verdict::Clean,
        (true, _) => Verdict::Torn,
    };
    (verdict, gap)
}

/// Whole records one after the other in a file.
struct Chunk {
    path: PathBuf,
    offset: u64,
    bytes: u64,
    position: u64,
}

#[derive(Default)]
struct Scan {
    end: u64,
    torn_bytes: u64,
    chunks: Vec<Chunk>,
    /// With whether it is still open who is touched.
    damages: Vec<(Damage, bool)>,
    run_id: Option<u64>,
    next_frame_no: Option<u64>,
    /// In this run, the ordinal that each index's next record must have.
    ordinals: FxHashMap<u32, u64>,
    /// Whether this run was seen from its first frame, so that an unknown index is at 0.
    from_first: bool,
}

/// The readable files of a log, as they were scanned.
struct ScannedFiles {
    files: Vec<LogFile>,
    /// The last of them.
    tail: Option<Tail>,
    /// The position where the sound frames of the last one end.
    reached: u64,
}

impl Scan {
    /// Scans the files with these headers, in their order.
    fn files(&mut self, disk: &dyn Disk, headers: &[(FileHeader, PathBuf)], expected: &Expected) -> Result<ScannedFiles> {
        debug_assert!(
            headers.is_sorted_by(|(a, _), (b, _)| a.number < b.number),
            "2: the files of the log are scanned in the order of their numbers"
        );
        let mut files = Vec::with_capacity(headers.len());
        let mut tail = None;
        let mut reached = 0;
        for (i, (header, path)) in headers.iter().enumerate() {
            if i > 0 && headers[i - 1].0.number + 1 != header.number {
                self.next_frame_no = None; // the file between is gone, which has been noted
            }
            let known_end = headers.get(i + 1).map(|(next, _)| next.previous_end);
            if self.run_id != Some(header.run_id) {
                self.finish_run();
                self.run_id = Some(header.run_id);
            }
            let scanned = match known_end {
                Some(end) if end <= expected.from => Scanned::without_reading(end),
                _ => {
                    let content = read_file(disk, path)?;
                    let least = expected.least_end.max(header.note.synced);
                    self.file(path, &content, header, known_end, least)
                }
            };
            reached = scanned.end;
            self.end = scanned.record_end;
            files.push(LogFile {
                number: header.number,
                path: path.clone(),
                start: header.start,
                since: Instant::now(),
                end: Some(scanned.record_end),
                bytes: disk.len(path).map_err(|e| refusal("reading the log", path, &e))?,
            });
            tail = known_end.is_none().then(|| Tail {
                number: header.number,
                path: path.clone(),
                header: *header,
                used: scanned.used,
                unsynced: scanned.unsynced,
                is_empty: scanned.is_empty,
            });
        }
        self.finish_run();
        Ok(ScannedFiles { files, tail, reached })
    }

    /// Scans one file. The log reached `least` at least.
    fn file(&mut self, path: &Path, content: &[u8], header: &FileHeader, known_end: Option<u64>, least: u64) -> Scanned {
        let mut record_end = None;
        // Each frame that may not have been synced: its end, and where it begins in the file.
        let mut unsynced: VecDeque<(u64, usize)> = VecDeque::new();
        let written = content.len() - zeros_at_end(content);
        let (mut at, mut position) = (FILE_HEADER_BYTES as usize, header.start);
        while known_end.is_none_or(|end| position < end) {
            let found = self.frame(content, at, header, position);
            if let Some((frame, body)) = found.and_then(|frame| Some((frame, frame.body(content, at)?))) {
                self.sound_frame(path, at, &frame, body);
                unsynced.push_back((frame.end(), at));
                while unsynced.front().is_some_and(|(end, _)| *end <= frame.synced) {
                    unsynced.pop_front();
                }
                if frame.kind == FrameKind::Records {
                    record_end = Some(frame.end());
                }
                (at, position) = (at + FRAME_HEADER_BYTES + body.len(), frame.end());
                continue;
            }
            let is_short = known_end.is_none() && (content.len() as u64) < header.least_bytes();
            if is_short && (at >= content.len() || written > at) {
                self.cut_short(path, content.len(), header, position);
            } else if known_end.is_none() && position >= least && !was_durable(content, at, header, position, found) {
                self.torn_bytes += written.saturating_sub(at) as u64;
                break;
            }
            // Corruption: go on behind it, where the frame's own header says, else where the next one is.
            let next = match found {
                Some(frame) => Some((at + FRAME_HEADER_BYTES + frame.body_bytes as usize, frame.end())),
                None => later_frames(content, at, header, position)
                    .next()
                    .map(|(offset, frame)| (offset, frame.position)),
            };
            let (next_at, next_position) = next.unwrap_or((content.len(), known_end.unwrap_or(least).max(position)));
            let is_heads = found.is_some_and(|frame| frame.kind == FrameKind::Heads);
            self.bad_frame(
                path,
                &content[..next_at.min(content.len())],
                at,
                position..next_position,
                is_heads,
            );
            self.next_frame_no = found.map(|frame| frame.frame_no + 1);
            record_end = Some(next_position);
            (at, position) = (next_at, next_position);
            if next.is_none() {
                break;
            }
        }
        Scanned {
            end: position,
            record_end: record_end.unwrap_or(header.start),
            used: at as u64,
            unsynced: unsynced.front().map_or(at, |(_, at)| *at) as u64,
            is_empty: record_end.is_none(),
        }
    }

    /// The header of the frame that stands at `at`, if it is sound or lacks one bit.
    fn frame(&self, content: &[u8], at: usize, header: &FileHeader, position: u64) -> Option<FrameHeader> {
        let bytes = content.get(at..).unwrap_or_default();
        let follows = |frame: &FrameHeader| self.follows(frame, header, position);
        FrameHeader::read(bytes).filter(follows).or_else(|| {
            let is_blank = bytes.iter().take(FRAME_HEADER_BYTES).all(|byte| *byte == 0);
            let mended = if is_blank { None } else { FrameHeader::read_mended(bytes) };
            mended.filter(follows)
        })
    }

    /// The file is shorter than it was made: what stood behind its end is lost, and nobody knows whose it was.
    fn cut_short(&mut self, path: &Path, bytes: usize, header: &FileHeader, position: u64) {
        let reason = format!(
            "[{}] ends at byte [{bytes}] and was made with [{}]: what stood behind that byte is lost",
            disk::display_path(path),
            header.least_bytes()
        );
        let damage = Damage {
            path: path.to_owned(),
            offset: bytes as u64,
            start: position,
            end: u64::MAX,
            indices: BTreeSet::new(),
            whole_folder: true,
            reason,
        };
        self.damages.push((damage, false));
    }

    fn follows(&self, frame: &FrameHeader, header: &FileHeader, position: u64) -> bool {
        frame.run_id == header.run_id
            && frame.position == position
            && frame.kind != FrameKind::Manifest
            && self.next_frame_no.is_none_or(|next| next == frame.frame_no)
    }

    fn sound_frame(&mut self, path: &Path, at: usize, frame: &FrameHeader, body: &[u8]) {
        self.from_first |= frame.frame_no == 0;
        self.next_frame_no = Some(frame.frame_no + 1);
        let offset = (at + FRAME_HEADER_BYTES) as u64;
        if frame.kind == FrameKind::Heads {
            self.heads(body);
            return;
        }
        let length = u64::from(frame.advance);
        let walked = self.walk(path, body, offset, frame.position, length, None);
        if walked != length {
            // Its checksum holds and its records do not: nobody wrote it so, and nobody knows whom the rest concerns.
            let lost = frame.position + walked..frame.position + length;
            self.damage(path, at, lost, BTreeSet::new(), true);
        }
    }

    /// Saves what a damaged stretch still holds and notes whom the rest concerns.
    fn bad_frame(&mut self, path: &Path, content: &[u8], at: usize, lost: std::ops::Range<u64>, is_heads: bool) {
        let length = lost.end - lost.start;
        if is_heads || length == 1 {
            return; // Heads take one byte and no record is that short: nothing is lost.
        }
        let body = content.get(at + FRAME_HEADER_BYTES..).unwrap_or_default();
        let mut touched = BTreeSet::new();
        let walked = self.walk(
            path,
            body,
            (at + FRAME_HEADER_BYTES) as u64,
            lost.start,
            length,
            Some(&mut touched),
        );
        self.damage(path, at, lost, touched, walked != length);
    }

    /// Notes what is lost; `open`: others than those named may be touched.
    fn damage(&mut self, path: &Path, at: usize, lost: std::ops::Range<u64>, touched: BTreeSet<u32>, open: bool) {
        let damage = Damage {
            path: path.to_owned(),
            offset: at as u64,
            start: lost.start,
            end: lost.end,
            whole_folder: touched.contains(&0),
            indices: touched,
            reason: format!(
                "[{}] is damaged at byte [{at}]: positions [{}] to [{}]",
                disk::display_path(path),
                lost.start,
                lost.end
            ),
        };
        self.damages.push((damage, open));
    }

    /// Goes through records; gives how many bytes of them have sound headers. Damaged ones are
    /// noted in `touched`, whole ones are kept for the replay.
    fn walk(
        &mut self,
        path: &Path,
        body: &[u8],
        offset: u64,
        position: u64,
        length: u64,
        mut touched: Option<&mut BTreeSet<u32>>,
    ) -> u64 {
        let mut done = 0;
        while done < length {
            let rest = body.get(done as usize..).unwrap_or_default();
            // Only a damaged frame has damaged headers.
            let raw = match touched {
                Some(_) => RawRecord::read_mended(rest),
                None => RawRecord::read(rest),
            };
            let Some(raw) = raw else {
                break;
            };
            let bytes = u64::from(raw.bytes);
            for (participant, ordinal) in &raw.participants {
                self.ordinal(participant.index_no, *ordinal);
                self.ordinals.insert(participant.index_no, ordinal + 1);
            }
            let whole = raw.is_whole();
            if whole {
                self.keep(path, offset + done, bytes, position + done);
            } else if let Some(touched) = &mut touched {
                touched.extend(raw.participants.iter().map(|(participant, _)| participant.index_no));
            }
            done += bytes;
        }
        done
    }

    fn keep(&mut self, path: &Path, offset: u64, bytes: u64, position: u64) {
        debug_assert!(
            self.chunks.last().is_none_or(|last| last.position + last.bytes <= position),
            "1.1: records are replayed in the order of the log"
        );
        match self.chunks.last_mut() {
            Some(last) if last.path == path && last.offset + last.bytes == offset => last.bytes += bytes,
            _ => self.chunks.push(Chunk {
                path: path.to_owned(),
                offset,
                bytes,
                position,
            }),
        }
    }

    /// A record or heads frame says that the index has had `ordinal` records before: fewer seen
    /// means that one is lost.
    fn ordinal(&mut self, index_no: u32, ordinal: u64) {
        let unsure = self.damages.iter().any(|(_, open)| *open);
        let seen = self.ordinals.get(&index_no).copied();
        // Mid-run, an index that was not seen yet tells nothing, unless something may be missing.
        let expected = seen.or((self.from_first || unsure).then_some(0));
        if expected.is_some_and(|expected| ordinal > expected) {
            for (damage, _) in self.damages.iter_mut().filter(|(_, open)| *open) {
                damage.indices.insert(index_no);
                damage.whole_folder |= index_no == 0;
            }
        }
    }

    fn heads(&mut self, body: &[u8]) {
        let Ok(heads) = read_heads(body) else { return };
        for (index_no, Head { next_ordinal, .. }) in heads {
            self.ordinal(index_no, next_ordinal);
            self.ordinals.insert(index_no, next_ordinal);
        }
        for (_, open) in &mut self.damages {
            *open = false; // every index has now spoken
        }
    }

    fn finish_run(&mut self) {
        for (damage, open) in &mut self.damages {
            damage.whole_folder |= std::mem::take(open);
        }
        self.ordinals.clear();
        self.next_frame_no = None;
        self.from_first = false;
    }

    /// The newest file is gone: nobody knows how much was in it.
    fn file_gone(&mut self, dir: &Path, number: u64, from: u64) {
        let path = dir.join(file_name(number));
        let reason = format!("[{}] is missing: what stood in it is lost", disk::display_path(&path));
        let damage = Damage {
            path,
            offset: 0,
            start: from,
            end: u64::MAX,
            indices: BTreeSet::new(),
            whole_folder: true,
            reason,
        };
        self.damages.push((damage, false));
    }

    /// Notes files that should be there and are not.
    fn check_numbers(&mut self, dir: &Path, from: u64, headers: &[(FileHeader, PathBuf)]) {
        let mut missing = |path: PathBuf, start: u64, end: u64, what: &str| {
            let reason = format!("[{}]: {what}", disk::display_path(&path));
            let damage = Damage {
                path,
                offset: 0,
                start,
                end,
                indices: BTreeSet::new(),
                whole_folder: true,
                reason,
            };
            self.damages.push((damage, false));
        };
        match headers.first() {
            None if from > 0 => missing(dir.to_owned(), from, u64::MAX, "the log's files are gone"),
            Some((first, path)) if first.previous_end > from => {
                missing(
                    path.clone(),
                    from,
                    first.previous_end,
                    "the files of the log before this one are gone",
                );
            }
            _ => {}
        }
        for pair in headers.windows(2) {
            let ((before, _), (after, path)) = (&pair[0], &pair[1]);
            if before.number + 1 != after.number && after.previous_end > from {
                missing(
                    path.clone(),
                    before.start,
                    after.previous_end,
                    "the file of the log before this one is gone",
                );
            }
        }
    }
}

type Headers = Vec<(FileHeader, PathBuf)>;

/// Reads the header of every file, in order of their numbers. A damaged one is noted and left out.
fn read_headers(disk: &dyn Disk, dir: &Path, folder_id: u128, scan: &mut Scan) -> Result<(Headers, Vec<LogFile>)> {
    let mut headers: Headers = Vec::new();
    let mut unreadable = Vec::new();
    for name in disk.list(dir).map_err(|e| refusal("listing the log", dir, &e))? {
        let Some(number) = name.strip_suffix(".log").and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        let path = dir.join(&name);
        let failed = |cause: &std::io::Error| refusal("reading the log", &path, cause);
        let mut bytes = vec![0; FILE_HEADER_BYTES as usize];
        let read = disk
            .open(&path)
            .and_then(|file| file.read_at(&mut bytes, 0))
            .map_err(|e| failed(&e))?;
        match FileHeader::read(&bytes[..read]) {
            Ok(header) if header.folder_id != folder_id => {
                let reason = format!("[{}] belongs to another data folder", disk::display_path(&path));
                return Err(Error::new(ErrorKind::IllegalState, reason));
            }
            Ok(header) if header.number == number => headers.push((header, path)),
            Err(refused) if refused.kind() != ErrorKind::Corruption => return Err(refused),
            damaged => {
                let what = damaged
                    .err()
                    .map_or_else(|| "it was renamed".to_owned(), |e| e.reason().to_owned());
                let reason = format!("[{}]: {what}", disk::display_path(&path));
                let start = headers.last().map_or(0, |(before, _)| before.start);
                let damage = Damage {
                    path: path.clone(),
                    offset: 0,
                    start,
                    end: u64::MAX,
                    indices: BTreeSet::new(),
                    whole_folder: true,
                    reason,
                };
                scan.damages.push((damage, false));
                // Never deleted by `truncate_below`: someone will want to look at it.
                unreadable.push(LogFile {
                    number,
                    bytes: disk.len(&path).map_err(|e| failed(&e))?,
                    path,
                    start: 0,
                    since: Instant::now(),
                    end: Some(UNKNOWN_END),
                });
            }
        }
    }
    headers.sort_by_key(|(header, _)| header.number);
    // The next file says where an unreadable one ended.
    for (file, (damage, _)) in unreadable.iter().zip(&mut scan.damages) {
        let next = headers.iter().find(|(header, _)| header.number > file.number);
        damage.end = next.map_or(u64::MAX, |(next, _)| next.previous_end);
    }
    Ok((headers, unreadable))
}

/// Was a bad frame at the end of the log durable once? A later frame says so, or it was written whole.
fn was_durable(content: &[u8], at: usize, header: &FileHeader, position: u64, found: Option<FrameHeader>) -> bool {
    let is_marked = header.version > FORMAT_VERSION_1;
    is_marked && found.is_some_and(|frame| frame.was_written_whole(content, at))
        || later_frames(content, at, header, position).any(|(_, later)| later.synced > position)
}

/// The sound frame headers of this run after `at` that stand later in the log.
fn later_frames<'a>(
    content: &'a [u8],
    at: usize,
    header: &'a FileHeader,
    position: u64,
) -> impl Iterator<Item = (usize, FrameHeader)> + 'a {
    let written = content.len() - zeros_at_end(content);
    (at + 1..written.saturating_sub(FRAME_MAGIC.len())).filter_map(move |offset| {
        if content[offset] != FRAME_MAGIC[0] || content[offset..offset + 4] != FRAME_MAGIC {
            return None;
        }
        let frame = FrameHeader::read(&content[offset..])?;
        (frame.run_id == header.run_id && frame.position > position).then_some((offset, frame))
    })
}

/// How many zeros a file ends in.
pub(super) fn zeros_at_end(content: &[u8]) -> usize {
    let mut zeros = 0;
    for chunk in content.rchunks(4096) {
        // Without an early exit this is one vector instruction for many bytes.
        if chunk.iter().fold(0, |all, byte| all | byte) != 0 {
            return zeros + chunk.iter().rev().take_while(|byte| **byte == 0).count();
        }
        zeros += chunk.len();
    }
    zeros
}

/// A file of an earlier run: this one writes to files of its own.
fn read_file(disk: &dyn Disk, path: &Path) -> Result<Image> {
    disk.map(path).map_err(|e| refusal("reading the log", path, &e))
}
