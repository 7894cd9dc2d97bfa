//! Writing the log: room is reserved, records are queued, one thread writes and syncs them.
//!
//! Invariants:
//! * Records lie in the log in the order of [`Log::enqueue`]; their positions leave no holes but
//!   those between runs and the one byte of each heads frame.
//! * One write is under way at a time: write, `fdatasync`, next. What came meanwhile is the next
//!   group (write-path.md 2).
//! * A position is published as durable after the sync that covers it has succeeded, never before.
//! * After a failed write or sync nothing is written until the next start, and every waiter hears
//!   that its outcome is unknown. A full disk is no failure: accepted records wait for room.
//!
//! Locks: `queue`, `files`, `spare` and the waiting lines are leaves: none is taken under another,
//! and none is held over IO.
//!
//! Not here: reading (`replay`), bytes (`format`).

use super::format::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FRAME_MAX_BYTES, FileHeader, FrameHeader, FrameKind, Head, RECORD_MAX_BYTES,
    begin_frame, finish_frame, heads_bytes, write_heads,
};
use super::replay::{LogFile, Recovered, file_name, scan};
use super::{Part, Record};
use crate::disk::{Disk, DiskFile, is_full, refusal};
use model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Where the log keeps its files and how much of everything. The defaults are write-path.md's.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The folder it belongs to ([`super::Manifest::folder_id`]); files of another are refused.
    pub folder_id: u128,
    /// The lowest position not built into durable segments: damage below it does not matter.
    pub from: u64,
    /// Bytes of one file, zero-filled ahead.
    pub file_bytes: u64,
    /// Setting `log.queue_max_bytes`: bytes reserved or queued at once, at most half a file.
    pub queue_max_bytes: u64,
    /// Bytes of log between two heads frames.
    pub heads_each_bytes: u64,
    /// How long an asynchronous write may stay unsynced.
    pub sync_each: Duration,
    /// How long to wait before looking for room again when the disk is full.
    pub retry_each: Duration,
    /// Room that is kept for deletes when the disk is full.
    pub kept_for_deletes_bytes: u64,
}

impl LogOptions {
    /// The usual options for a folder whose durable segments reach up to `from`.
    pub fn new(folder_id: u128, from: u64) -> LogOptions {
        LogOptions {
            folder_id,
            from,
            file_bytes: 64 << 20,
            queue_max_bytes: 32 << 20,
            heads_each_bytes: 1 << 20,
            sync_each: Duration::from_secs(5),
            retry_each: Duration::from_secs(1),
            kept_for_deletes_bytes: 1 << 20,
        }
    }
}

/// Whether a record is to be synced at once (`index.translog.durability`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// `request`: with the next group.
    Request,
    /// `async`: within [`LogOptions::sync_each`], or when someone waits for it to be durable.
    Async,
}

/// Where an enqueued record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its first position.
    pub position: u64,
    /// The position after it: what to wait for, and its `commit_seq`.
    pub end: u64,
}

/// Room in the queue and the log, given back when dropped unless used by [`Log::enqueue`].
pub struct Reservation {
    shared: Arc<Shared>,
    left: u64,
    own_file: Option<OwnFile>,
}

/// The log of a folder, open for writing. Dropping it closes it.
pub struct Log {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Log {
    /// Scans the log in `dir` (made if it is missing), then begins a new file at a fresh position.
    /// The caller holds the folder's [`super::FolderLock`].
    ///
    /// Errors: IllegalState (unknown format version, another folder's file), DiskFull, Internal
    /// (IO). Damage is no error: see [`Recovered::verdict`].
    pub fn open(dir: &Path, disk: Arc<dyn Disk>, options: LogOptions) -> Result<(Log, Recovered)> {
        assert!(
            options.queue_max_bytes <= options.file_bytes / 2,
            "a spare file has room for all that is queued"
        );
        assert!(
            options.file_bytes + options.queue_max_bytes + RECORD_MAX_BYTES <= START_JUMP,
            "a start jumps over all that was given out"
        );
        disk.create_dir(dir).map_err(|e| refusal("making", dir, &e))?;
        let (recovered, files) = scan(&disk, dir, options.folder_id, options.from, START_JUMP)?;
        let number = files.last().map_or(1, |file| file.number + 1);
        let header = FileHeader {
            folder_id: options.folder_id,
            number,
            run_id: fresh_run_id(recovered.start),
            start: recovered.start,
            previous_end: recovered.end.max(options.from),
        };
        let swept = sweep(disk.as_ref(), dir, options.file_bytes);
        let (mut spares, blank_number) = swept.map_err(|e| refusal("sweeping", dir, &e))?;
        let blank = match spares.pop() {
            Some(spare) => spare,
            None => first_file(disk.as_ref(), dir, blank_number, options.file_bytes)?,
        };
        let shared = Arc::new(Shared::new(dir, disk, options, &recovered, files));
        shared.spare.lock().ready = spares.pop();
        shared.blanks.store(blank_number + 1, Ordering::Relaxed);
        let file = shared
            .begin_file(blank, &header)
            .map_err(|e| refusal("beginning a log file in", dir, &e))?;
        let committer = Committer {
            shared: shared.clone(),
            file,
            number,
            run_id: header.run_id,
            offset: FILE_HEADER_BYTES,
            frame_no: 0,
            position: recovered.start,
            heads: FxHashMap::default(),
            buffer: Vec::new(),
            unsynced_since: None,
        };
        committer.publish_room();
        let spare = shared.clone();
        let threads = vec![
            spawn("pleach-log", move || committer.run())?,
            spawn("pleach-log-spare", move || spare.keep_spare())?,
        ];
        Ok((
            Log {
                shared,
                threads: Mutex::new(threads),
            },
            recovered,
        ))
    }

    /// Room for records of `bytes` in all ([`Record::log_bytes`]). Call it before the sequencer: a
    /// record bigger than a file gets one here, which is IO.
    ///
    /// Errors: RejectedExecution (429) if the queue is full, DiskFull (507), ContentTooLong, LogFailed.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation> {
        self.shared.reserve(bytes, self.shared.options.kept_for_deletes_bytes)
    }

    /// As [`Log::reserve`], for deletes: they may use the room that a full disk keeps for them.
    pub fn reserve_delete(&self, bytes: u64) -> Result<Reservation> {
        self.shared.reserve(bytes, 0)
    }

    /// Gives the record its place and queues it: no IO, no encoding. Called under the sequencer lock,
    /// so that log order is stamp order. `room` may serve several records; one that is bigger than
    /// what was reserved is taken all the same, as nothing is refused after its stamp.
    ///
    /// Errors: LogFailed if the log has failed or is closed; then no position was taken.
    pub fn enqueue(&self, room: &mut Reservation, record: Record, durability: Durability) -> Result<Ticket> {
        self.shared.enqueue(room, record, durability)
    }

    /// Waits until everything below `position` (a [`Ticket::end`]) is durable. Blocks the thread.
    /// Errors: LogFailed, meaning that the outcome is unknown; IllegalArgument if no record reaches there.
    pub fn wait_durable(&self, position: u64) -> Result<()> {
        self.shared.want_sync(position)?;
        self.shared.durable.wait(position, &self.shared.failed)
    }

    /// As [`Log::wait_durable`], without blocking. The wait begins with the call, not the first poll.
    pub fn durable(&self, position: u64) -> impl Future<Output = Result<()>> + Send + use<> {
        let begun = self
            .shared
            .want_sync(position)
            .map(|()| self.shared.durable.enter(position, &self.shared.failed));
        async move { begun?.finish().await }
    }

    /// Waits until everything below `position` is written (not yet synced). Blocks the thread.
    /// Errors: as [`Log::wait_durable`].
    pub fn wait_written(&self, position: u64) -> Result<()> {
        self.shared.check_position(position)?;
        self.shared.written.wait(position, &self.shared.failed)
    }

    /// As [`Log::wait_written`], without blocking.
    pub fn written(&self, position: u64) -> impl Future<Output = Result<()>> + Send + use<> {
        let begun = self
            .shared
            .check_position(position)
            .map(|()| self.shared.written.enter(position, &self.shared.failed));
        async move { begun?.finish().await }
    }

    /// Everything below is durable.
    pub fn durable_position(&self) -> u64 {
        self.shared.durable.reached.load(Ordering::Acquire)
    }

    /// Everything below is written.
    pub fn written_position(&self) -> u64 {
        self.shared.written.reached.load(Ordering::Acquire)
    }

    /// The position after the last enqueued record.
    pub fn end_position(&self) -> u64 {
        self.shared.queue.lock().end
    }

    /// Where the next record will stand, as long as the caller keeps others from enqueueing one. Heads that are due
    /// go before it, so this is not always [`Log::end_position`].
    pub fn next_position(&self) -> u64 {
        let mut queue = self.shared.queue.lock();
        self.shared.heads_when_due(&mut queue);
        queue.promised = true;
        queue.end
    }

    /// Why writes have stopped, if they have.
    pub fn failure(&self) -> Option<Error> {
        self.shared.failed.get().cloned()
    }

    /// Removes the files that lie wholly below `position` (the lowest that is not built durably).
    /// Errors: Internal; files that were not removed are tried again the next time.
    pub fn truncate_below(&self, position: u64) -> Result<()> {
        self.shared.truncate_below(position)
    }

    /// Bytes in the log's files that are kept for replay, the current one whole.
    pub fn kept_bytes(&self) -> u64 {
        self.shared.files.lock().len() as u64 * self.shared.options.file_bytes
    }

    /// Finishes everything accepted, marks the end, joins the threads. Errors: LogFailed if the log
    /// failed before or meanwhile. Afterwards nothing can be enqueued.
    pub fn close(&self) -> Result<()> {
        self.shared.begin_close();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                self.shared.fail("its thread panicked");
            }
        }
        self.shared.failed.get().map_or(Ok(()), |failed| Err(failed.clone()))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to hear of a failure here closes the log first.
        drop(self.close());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shared.release(self.left);
        if let Some(own) = self.own_file.take() {
            // It has no header and a name that every start sweeps away.
            drop(self.shared.disk.remove(&own.path));
        }
    }
}

/// A start leaves that much room behind the last known position: more than can have been given out
/// without being seen on disk (queue, one unsynced file, one record).
const START_JUMP: u64 = 1 << 30;
const SPARE: &str = "spare-";
const PARTIAL: &str = "partial";
/// A first file is made no bigger.
const FIRST_FILE_BYTES: u64 = 4 << 20;
/// A first file is made no smaller, however full the disk is.
const FILE_MIN_BYTES: u64 = 1 << 20;

/// A zero-filled file that is no part of the log yet.
struct OwnFile {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

enum Item {
    Record {
        record: Box<Record>,
        bytes: u64,
        charged: u64,
        own_file: Option<OwnFile>,
    },
    Heads,
}

impl Item {
    /// How far it moves the position.
    fn advance(&self) -> u64 {
        match self {
            Item::Record { bytes, .. } => *bytes,
            Item::Heads => 1,
        }
    }
}

struct Queue {
    items: VecDeque<Item>,
    /// The position after the last item.
    end: u64,
    since_heads: u64,
    /// The end was told as the next record's position: no heads go before it.
    promised: bool,
    closing: bool,
}

struct Spare {
    ready: Option<OwnFile>,
    /// Why the last attempt failed, and whether that was for want of room.
    refused: Option<(String, bool)>,
}

struct Shared {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    options: LogOptions,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Bytes reserved or queued.
    outstanding: AtomicU64,
    /// Bytes left in the current file.
    left: AtomicU64,
    /// Bytes of the last heads frame: they must not outgrow what they guard.
    heads_bytes: AtomicU64,
    spare: Mutex<Spare>,
    spare_changed: Condvar,
    /// Whether the disk has refused a spare file and none is ready.
    starved: AtomicBool,
    closing: AtomicBool,
    /// Numbers for the names of blank files, each used once.
    blanks: AtomicU64,
    files: Mutex<Vec<LogFile>>,
    written: Line,
    durable: Line,
    /// Someone wants everything below to be durable.
    sync_wanted: AtomicU64,
    failed: OnceLock<Error>,
}

impl Shared {
    fn new(dir: &Path, disk: Arc<dyn Disk>, options: LogOptions, recovered: &Recovered, files: Vec<LogFile>) -> Shared {
        Shared {
            dir: dir.to_owned(),
            disk,
            options,
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                end: recovered.start,
                since_heads: 0,
                promised: false,
                closing: false,
            }),
            wake: Condvar::new(),
            outstanding: AtomicU64::new(0),
            left: AtomicU64::new(0),
            heads_bytes: AtomicU64::new(0),
            spare: Mutex::new(Spare {
                ready: None,
                refused: None,
            }),
            spare_changed: Condvar::new(),
            starved: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            blanks: AtomicU64::new(0),
            files: Mutex::new(files),
            written: Line::new(recovered.start),
            durable: Line::new(recovered.start),
            sync_wanted: AtomicU64::new(0),
            failed: OnceLock::new(),
        }
    }

    /// Why nothing can be written, if so.
    fn check_failed(&self) -> Result<()> {
        self.failed.get().map_or(Ok(()), |failed| Err(failed.clone()))
    }

    fn check_position(&self, position: u64) -> Result<()> {
        let end = self.queue.lock().end;
        if position > end {
            return Err(Error::illegal(format!(
                "position [{position}] is beyond the end of the log [{end}]"
            )));
        }
        Ok(())
    }

    fn reserve(self: &Arc<Self>, bytes: u64, kept: u64) -> Result<Reservation> {
        self.check_failed()?;
        if bytes > RECORD_MAX_BYTES {
            let reason = format!("a change of [{bytes}] bytes is too large, the limit is [{RECORD_MAX_BYTES}]");
            return Err(Error::new(ErrorKind::ContentTooLong, reason));
        }
        let charged = bytes + FRAME_HEADER_BYTES as u64;
        let limit = self.options.queue_max_bytes;
        let before = self.outstanding.fetch_add(charged, Ordering::AcqRel);
        let mut reservation = Reservation {
            shared: self.clone(),
            left: charged,
            own_file: None,
        };
        // One that alone is bigger than the queue passes if no other such is there: it would starve.
        if before + charged > limit && (charged <= limit || before > limit) {
            let reason = format!("the log's queue is full: [{before}] bytes wait, [log.queue_max_bytes] is [{limit}]");
            return Err(Error::new(ErrorKind::RejectedExecution, reason).with("setting", "log.queue_max_bytes"));
        }
        if charged + FILE_HEADER_BYTES > self.options.file_bytes {
            reservation.own_file = Some(self.own_file(charged)?);
        } else if self.starved.load(Ordering::Acquire) {
            // Each record may have a frame to itself, of which the smallest is about its own size.
            let needed = 2 * (before + charged) + kept;
            let left = self.left.load(Ordering::Acquire);
            if needed > left {
                let (why, full) = self.spare.lock().refused.clone().unwrap_or_default();
                let reason = format!("no room for the log in [{}]: {why}", self.dir.display());
                return Err(Error::new(
                    if full { ErrorKind::DiskFull } else { ErrorKind::LogFailed },
                    reason,
                ));
            }
        }
        Ok(reservation)
    }

    fn release(&self, bytes: u64) {
        let before = self.outstanding.fetch_sub(bytes, Ordering::AcqRel);
        assert!(before >= bytes, "no more is given back than was reserved");
    }

    /// A zero-filled file for one record that is bigger than a file.
    fn own_file(&self, charged: u64) -> Result<OwnFile> {
        let path = self
            .dir
            .join(format!("own-{}.{PARTIAL}", self.blanks.fetch_add(1, Ordering::Relaxed)));
        let made = allocate(self.disk.as_ref(), &path, FILE_HEADER_BYTES + charged);
        made.map_err(|e| refusal("allocating", &path, &e))
    }

    fn enqueue(&self, room: &mut Reservation, record: Record, durability: Durability) -> Result<Ticket> {
        let bytes = record.log_bytes();
        let charged = bytes + FRAME_HEADER_BYTES as u64;
        let own_file = if charged + FILE_HEADER_BYTES > self.options.file_bytes {
            room.own_file.take()
        } else {
            None
        };
        let record = Box::new(record);
        let mut queue = self.queue.lock();
        if queue.closing {
            drop(queue);
            room.own_file = own_file;
            self.check_failed()?;
            return Err(Error::new(ErrorKind::LogFailed, "the log is closed"));
        }
        let reserved = charged.min(room.left);
        room.left -= reserved;
        self.outstanding.fetch_add(charged - reserved, Ordering::AcqRel);
        if !std::mem::take(&mut queue.promised) {
            self.heads_when_due(&mut queue);
        }
        let position = queue.end;
        let end = position + bytes;
        queue.items.push_back(Item::Record {
            record,
            bytes,
            charged,
            own_file,
        });
        queue.end = end;
        queue.since_heads += bytes;
        if durability == Durability::Request {
            self.sync_wanted.fetch_max(end, Ordering::AcqRel);
        }
        drop(queue);
        self.wake.notify_one();
        Ok(Ticket { position, end })
    }

    /// Heads cost at most a thirty-second of the log, however many indices there are.
    fn heads_when_due(&self, queue: &mut Queue) {
        let heads_each = self
            .options
            .heads_each_bytes
            .max(32 * self.heads_bytes.load(Ordering::Relaxed));
        if queue.since_heads >= heads_each && !queue.closing {
            queue.items.push_back(Item::Heads);
            queue.end += 1;
            queue.since_heads = 0;
        }
    }

    fn want_sync(&self, position: u64) -> Result<()> {
        if self.sync_wanted.load(Ordering::Acquire) >= position || self.durable.reached.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        self.check_position(position)?;
        // Under the lock, so that the committer cannot miss it between its look and its sleep.
        let queue = self.queue.lock();
        self.sync_wanted.fetch_max(position, Ordering::AcqRel);
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    fn begin_close(&self) {
        let mut queue = self.queue.lock();
        if !queue.closing {
            queue.closing = true;
            if queue.since_heads > 0 {
                // With it, damage to the very last record is told from a torn tail.
                queue.items.push_back(Item::Heads);
                queue.end += 1;
            }
        }
        drop(queue);
        self.wake.notify_one();
        self.closing.store(true, Ordering::Release);
        drop(self.spare.lock());
        self.spare_changed.notify_all();
    }

    /// Stops all writing until the next start.
    fn fail(&self, why: &str) {
        let reason = format!(
            "writing the log in [{}] failed: {why}. Whether changes that were under way are durable is unknown; \
             writes stop until a restart, reads go on",
            self.dir.display()
        );
        // The first failure is the one to tell of.
        let failed = self
            .failed
            .get_or_init(|| Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown"))
            .clone();
        let mut queue = self.queue.lock();
        queue.closing = true;
        let items = std::mem::take(&mut queue.items);
        drop(queue);
        for item in items {
            if let Item::Record { charged, .. } = item {
                self.release(charged);
            }
        }
        self.closing.store(true, Ordering::Release);
        drop(self.spare.lock());
        self.spare_changed.notify_all();
        self.written.fail(&failed);
        self.durable.fail(&failed);
    }

    /// Makes a blank file a part of the log: header, sync, name, sync of the folder.
    fn begin_file(&self, blank: OwnFile, header: &FileHeader) -> io::Result<OwnFile> {
        blank.file.write_all_at(&header.write(), 0)?;
        blank.file.sync_data()?;
        let path = self.dir.join(file_name(header.number));
        self.disk.rename(&blank.path, &path)?;
        self.disk.sync_dir(&self.dir)?;
        let mut files = self.files.lock();
        if let Some(last) = files.last_mut() {
            last.end = last.end.or(Some(header.previous_end));
        }
        files.push(LogFile {
            number: header.number,
            path: path.clone(),
            end: None,
        });
        Ok(OwnFile { path, ..blank })
    }

    /// The body of the second thread: keeps one blank file ready.
    fn keep_spare(&self) {
        loop {
            let mut spare = self.spare.lock();
            while spare.ready.is_some() && !self.closing.load(Ordering::Acquire) {
                self.spare_changed.wait(&mut spare);
            }
            drop(spare);
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            let made = make_spare(
                self.disk.as_ref(),
                &self.dir,
                self.blanks.fetch_add(1, Ordering::Relaxed),
                self.options.file_bytes,
            );
            let mut spare = self.spare.lock();
            match made {
                Ok(file) => {
                    *spare = Spare {
                        ready: Some(file),
                        refused: None,
                    };
                    self.starved.store(false, Ordering::Release);
                    self.spare_changed.notify_all();
                }
                Err(e) => {
                    spare.refused = Some((e.to_string(), is_full(&e)));
                    self.starved.store(true, Ordering::Release);
                    self.spare_changed.notify_all();
                    if !self.closing.load(Ordering::Acquire) {
                        self.spare_changed.wait_for(&mut spare, self.options.retry_each);
                    }
                }
            }
        }
    }

    fn truncate_below(&self, position: u64) -> Result<()> {
        let below: Vec<LogFile> = self
            .files
            .lock()
            .iter()
            .filter(|file| file.end.is_some_and(|end| end <= position))
            .cloned()
            .collect();
        for file in &below {
            match self.disk.remove(&file.path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(refusal("removing", &file.path, &e));
                }
                _ => self.files.lock().retain(|kept| kept.number != file.number),
            }
        }
        if !below.is_empty() {
            self.disk.sync_dir(&self.dir).map_err(|e| refusal("syncing", &self.dir, &e))?;
        }
        Ok(())
    }
}

/// The thread that writes. It alone knows frames, heads and the current file.
struct Committer {
    shared: Arc<Shared>,
    file: OwnFile,
    number: u64,
    run_id: u64,
    /// Where in the file the next frame goes.
    offset: u64,
    frame_no: u64,
    /// Position of the next frame; everything below is written.
    position: u64,
    heads: FxHashMap<u32, Head>,
    buffer: Vec<u8>,
    /// When the oldest unsynced frame was written.
    unsynced_since: Option<Instant>,
}

/// What the committer does next.
enum Step {
    Write(Vec<Item>),
    Rotate,
    Sync,
    Stop,
}

impl Committer {
    fn run(mut self) {
        let guard = PanicGuard(self.shared.clone());
        loop {
            let done = match self.next_step() {
                Step::Write(items) => self.write(items),
                Step::Rotate => self.rotate(),
                Step::Sync => self.sync(),
                Step::Stop => break,
            };
            if let Err(why) = done {
                self.shared.fail(&why);
                break;
            }
        }
        drop(guard);
    }

    /// Waits for work and takes as much as fits one group and the file.
    fn next_step(&mut self) -> Step {
        let overhead = (3 * FRAME_HEADER_BYTES + heads_bytes(self.heads.len())) as u64;
        let left = self.file.bytes - self.offset;
        let shared = self.shared.clone();
        let mut queue = shared.queue.lock();
        loop {
            if let Some(first) = queue.items.front() {
                let bytes = |item: &Item| match item {
                    Item::Record { bytes, .. } => *bytes,
                    Item::Heads => FRAME_HEADER_BYTES as u64 + heads_bytes(self.heads.len()) as u64,
                };
                let fits = |taken: u64| if taken == 0 { 0 } else { overhead };
                let own = matches!(first, Item::Record { own_file: Some(_), .. });
                if own || bytes(first) + FRAME_HEADER_BYTES as u64 > left {
                    return Step::Rotate;
                }
                let mut items = Vec::new();
                let mut taken = 0;
                while let Some(item) = queue.items.front() {
                    let more = taken + bytes(item);
                    let own = matches!(item, Item::Record { own_file: Some(_), .. });
                    if taken > 0 && (own || more > FRAME_MAX_BYTES || more + fits(taken) > left || matches!(item, Item::Heads)) {
                        break;
                    }
                    taken = more;
                    let alone = matches!(item, Item::Heads);
                    items.extend(queue.items.pop_front());
                    if alone {
                        break;
                    }
                }
                return Step::Write(items);
            }
            let durable = shared.durable.reached.load(Ordering::Acquire);
            if shared.sync_wanted.load(Ordering::Acquire) > durable && self.position > durable {
                return Step::Sync;
            }
            if queue.closing {
                return if self.unsynced_since.is_some() {
                    Step::Sync
                } else {
                    Step::Stop
                };
            }
            match self.unsynced_since {
                None => shared.wake.wait(&mut queue),
                Some(since) => {
                    if shared
                        .wake
                        .wait_until(&mut queue, since + shared.options.sync_each)
                        .timed_out()
                    {
                        return Step::Sync;
                    }
                }
            }
        }
    }

    /// Writes one frame, and syncs if anyone wants it.
    fn write(&mut self, items: Vec<Item>) -> Result<(), String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let at = begin_frame(&mut buffer);
        let mut kind = FrameKind::Records;
        let mut advance = 0;
        let mut charged_all = 0;
        for item in &items {
            advance += item.advance();
            match item {
                Item::Record { record, charged, .. } => {
                    charged_all += charged;
                    let heads = &mut self.heads;
                    record.write(&mut buffer, |index_no| take_ordinal(heads, index_no));
                    note_heads(heads, record);
                }
                Item::Heads => {
                    kind = FrameKind::Heads;
                    write_heads(&mut buffer, self.heads.iter());
                    self.shared.heads_bytes.store(buffer.len() as u64, Ordering::Relaxed);
                }
            }
        }
        let header = FrameHeader {
            kind,
            run_id: self.run_id,
            frame_no: self.frame_no,
            position: self.position,
            synced: self.shared.durable.reached.load(Ordering::Acquire),
            body_bytes: 0,
            advance: u32::try_from(advance).map_err(|_| "a frame is too long".to_owned())?,
            body_crc: 0,
        };
        finish_frame(&mut buffer, at, header);
        assert!(
            self.offset + buffer.len() as u64 <= self.file.bytes,
            "a frame lies within its file"
        );
        let written = self.write_patiently(&buffer);
        self.offset += buffer.len() as u64;
        buffer.shrink_to(2 * FRAME_MAX_BYTES as usize);
        self.buffer = buffer;
        // Before anyone is woken, so that whoever saw its write end finds its room free again.
        self.shared.release(charged_all);
        written.and_then(|()| {
            self.frame_no += 1;
            self.position += advance;
            self.unsynced_since.get_or_insert_with(Instant::now);
            self.publish_room();
            self.shared.written.reach(self.position);
            let wanted = self.shared.sync_wanted.load(Ordering::Acquire);
            if wanted > self.shared.durable.reached.load(Ordering::Acquire) {
                self.sync()
            } else {
                Ok(())
            }
        })
    }

    /// Writes at the current offset; while the disk is full it tries again (the same bytes at the
    /// same place, nothing of which anyone was told).
    fn write_patiently(&self, bytes: &[u8]) -> Result<(), String> {
        loop {
            match self.file.file.write_all_at(bytes, self.offset) {
                Ok(()) => return Ok(()),
                Err(e) if is_full(&e) && !self.shared.closing.load(Ordering::Acquire) => {
                    std::thread::sleep(self.shared.options.retry_each)
                }
                Err(e) => return Err(format!("write: {e}")),
            }
        }
    }

    fn sync(&mut self) -> Result<(), String> {
        self.file.file.sync_data().map_err(|e| format!("fdatasync: {e}"))?;
        self.unsynced_since = None;
        self.shared.durable.reach(self.position);
        Ok(())
    }

    /// Goes on in the next file: the spare one, or the one that the next record brings.
    fn rotate(&mut self) -> Result<(), String> {
        // The next header says where this file ends, so this must be durable first.
        if self.unsynced_since.is_some() {
            self.sync()?;
        }
        let mut needed = FILE_HEADER_BYTES + FRAME_HEADER_BYTES as u64;
        let own = match self.shared.queue.lock().items.front_mut() {
            Some(Item::Record { own_file, bytes, .. }) => {
                needed += *bytes;
                own_file.take()
            }
            Some(Item::Heads) => {
                needed += heads_bytes(self.heads.len()) as u64;
                None
            }
            None => None,
        };
        let blank = match own {
            Some(own) if own.bytes >= needed => own,
            // Not reserved as what it is; it was accepted, so it waits for room.
            _ if needed > self.shared.options.file_bytes => self.wait_for_own(needed)?,
            _ => self.wait_for_spare()?,
        };
        self.number += 1;
        let header = FileHeader {
            folder_id: self.shared.options.folder_id,
            number: self.number,
            run_id: self.run_id,
            start: self.position,
            previous_end: self.position,
        };
        self.file = self
            .shared
            .begin_file(blank, &header)
            .map_err(|e| format!("beginning file {}: {e}", self.number))?;
        self.offset = FILE_HEADER_BYTES;
        self.publish_room();
        Ok(())
    }

    fn wait_for_spare(&self) -> Result<OwnFile, String> {
        let mut spare = self.shared.spare.lock();
        loop {
            if let Some(ready) = spare.ready.take() {
                self.shared.spare_changed.notify_all();
                return Ok(ready);
            }
            // Room may come back; a disk that gives other errors need not, and waiters must hear of it.
            if let Some((why, false)) = &spare.refused {
                return Err(format!("no spare file: {why}"));
            }
            if self.shared.closing.load(Ordering::Acquire) {
                drop(spare);
                // The other thread has gone or is going; its half-made file is not touched here.
                let path = self.shared.dir.join(format!("last.{PARTIAL}"));
                return allocate(self.shared.disk.as_ref(), &path, self.shared.options.file_bytes)
                    .map_err(|e| format!("closing: {e}"));
            }
            self.shared.spare_changed.wait(&mut spare);
        }
    }

    fn wait_for_own(&self, bytes: u64) -> Result<OwnFile, String> {
        loop {
            match self.shared.own_file(bytes) {
                Ok(own) => return Ok(own),
                Err(e) if e.kind() == ErrorKind::DiskFull && !self.shared.closing.load(Ordering::Acquire) => {
                    std::thread::sleep(self.shared.options.retry_each);
                }
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    fn publish_room(&self) {
        self.shared.left.store(self.file.bytes - self.offset, Ordering::Release);
    }
}

/// Says that the log has failed if its thread ends by a panic, so that nobody waits for ever.
struct PanicGuard(Arc<Shared>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("its thread panicked");
        }
    }
}

fn take_ordinal(heads: &mut FxHashMap<u32, Head>, index_no: u32) -> u64 {
    let head = heads.entry(index_no).or_default();
    head.next_ordinal += 1;
    head.next_ordinal - 1
}

fn note_heads(heads: &mut FxHashMap<u32, Head>, record: &Record) {
    for participant in &record.participants {
        let head = heads.entry(participant.index_no).or_default();
        head.next_seq_no = head.next_seq_no.max(participant.first_seq_no + u64::from(participant.count));
    }
    for part in &record.parts {
        if let Part::Put {
            index_no,
            mapping_version,
            ..
        } = part
        {
            let head = heads.entry(*index_no).or_default();
            head.mapping_version = head.mapping_version.max(*mapping_version);
        }
    }
}

fn allocate(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<OwnFile> {
    let file = disk.create(path)?;
    match file.allocate(bytes) {
        Ok(()) => Ok(OwnFile {
            path: path.to_owned(),
            file,
            bytes,
        }),
        Err(e) => {
            // What was taken in vain is given back; the first error is the one to tell of.
            drop(disk.remove(path));
            Err(e)
        }
    }
}

/// Makes a spare file. Only a wholly zero-filled and synced file gets such a name. Each has its own:
/// the one before may just be on its way into the log, still under the old name.
fn make_spare(disk: &dyn Disk, dir: &Path, number: u64, bytes: u64) -> io::Result<OwnFile> {
    let path = dir.join(format!("{SPARE}{number}"));
    let made = allocate(disk, &dir.join(format!("{SPARE}{number}.{PARTIAL}")), bytes)?;
    disk.rename(&made.path, &path)?;
    Ok(OwnFile { path, ..made })
}

/// What a start finds besides the log: sweeps away half-made files and spares of another size,
/// gives the spares and the number for the next. All that a spare may hold besides zeros is the
/// header of a start that did not get further.
fn sweep(disk: &dyn Disk, dir: &Path, file_bytes: u64) -> io::Result<(Vec<OwnFile>, u64)> {
    let (mut spares, mut next) = (Vec::new(), 0);
    for name in disk.list(dir)? {
        let path = dir.join(&name);
        let number = name.strip_prefix(SPARE).and_then(|number| number.parse::<u64>().ok());
        if let Some(number) = number {
            next = next.max(number + 1);
            if spares.len() < 2 && disk.len(&path)? == file_bytes {
                spares.push(OwnFile {
                    file: disk.open(&path)?,
                    path,
                    bytes: file_bytes,
                });
                continue;
            }
        }
        if number.is_some() || name.ends_with(&format!(".{PARTIAL}")) {
            disk.remove(&path)?;
        }
    }
    Ok((spares, next))
}

/// The file to start with if no spare is there: a small one, because the start waits for its zeros; the spare is
/// made meanwhile. On a nearly full disk an even smaller one.
fn first_file(disk: &dyn Disk, dir: &Path, number: u64, file_bytes: u64) -> Result<OwnFile> {
    let mut bytes = file_bytes.min(FIRST_FILE_BYTES);
    loop {
        match make_spare(disk, dir, number, bytes) {
            Err(e) if is_full(&e) && bytes / 2 >= FILE_MIN_BYTES => bytes /= 2,
            made => return made.map_err(|e| refusal("allocating a log file in", dir, &e)),
        }
    }
}

/// A number that no other run has: it tells stale frames apart. Positions of starts never recur;
/// time and process make it hard to guess for whoever puts bytes into documents.
fn fresh_run_id(start: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u64(start);
    hasher.write_u32(std::process::id());
    hasher.write_u128(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos()),
    );
    hasher.finish()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.map_err(|e| Error::new(ErrorKind::Internal, format!("starting the thread [{name}] failed: {e}")))
}

/// A position that only grows, and who waits for it. Reaching it wakes those it serves, no others.
struct Line {
    reached: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Vec<Waiter>>>,
}

enum Waiter {
    Thread(Arc<Parked>),
    Task(oneshot::Sender<Result<()>>),
}

#[derive(Default)]
struct Parked {
    outcome: Mutex<Option<Result<()>>>,
    told: Condvar,
}

/// A wait that has begun.
enum Waiting {
    Over(Result<()>),
    For(oneshot::Receiver<Result<()>>),
}

impl Waiting {
    async fn finish(self) -> Result<()> {
        match self {
            Waiting::Over(outcome) => outcome,
            Waiting::For(receiver) => match receiver.await {
                Ok(outcome) => outcome,
                Err(_) => Err(Error::new(ErrorKind::LogFailed, "the log went away; the outcome is unknown")),
            },
        }
    }
}

impl Line {
    fn new(reached: u64) -> Line {
        Line {
            reached: AtomicU64::new(reached),
            waiting: Mutex::new(BTreeMap::new()),
        }
    }

    fn reach(&self, position: u64) {
        assert!(position >= self.reached.load(Ordering::Acquire), "positions only grow");
        // Stored before the lock: whoever joins after it sees it, whoever joined before is woken.
        self.reached.store(position, Ordering::Release);
        let mut waiting = self.waiting.lock();
        if waiting.first_key_value().is_none_or(|(first, _)| *first > position) {
            return;
        }
        let later = waiting.split_off(&(position + 1));
        let served = std::mem::replace(&mut *waiting, later);
        drop(waiting);
        tell(served, &Ok(()));
    }

    fn fail(&self, failed: &Error) {
        let served = std::mem::take(&mut *self.waiting.lock());
        tell(served, &Err(failed.clone()));
    }

    /// The outcome if it is known already, else joins the line.
    fn join(&self, position: u64, failed: &OnceLock<Error>, waiter: impl FnOnce() -> Waiter) -> Option<Result<()>> {
        if self.reached.load(Ordering::Acquire) >= position {
            return Some(Ok(()));
        }
        let mut waiting = self.waiting.lock();
        if self.reached.load(Ordering::Acquire) >= position {
            return Some(Ok(()));
        }
        if let Some(failed) = failed.get() {
            return Some(Err(failed.clone()));
        }
        waiting.entry(position).or_default().push(waiter());
        None
    }

    fn wait(&self, position: u64, failed: &OnceLock<Error>) -> Result<()> {
        let parked = Arc::<Parked>::default();
        if let Some(outcome) = self.join(position, failed, || Waiter::Thread(parked.clone())) {
            return outcome;
        }
        let mut outcome = parked.outcome.lock();
        loop {
            match outcome.take() {
                Some(outcome) => return outcome,
                None => parked.told.wait(&mut outcome),
            }
        }
    }

    fn enter(&self, position: u64, failed: &OnceLock<Error>) -> Waiting {
        let (sender, receiver) = oneshot::channel();
        match self.join(position, failed, || Waiter::Task(sender)) {
            Some(outcome) => Waiting::Over(outcome),
            None => Waiting::For(receiver),
        }
    }
}

fn tell(served: BTreeMap<u64, Vec<Waiter>>, outcome: &Result<()>) {
    for waiter in served.into_values().flatten() {
        match waiter {
            Waiter::Thread(parked) => {
                *parked.outcome.lock() = Some(outcome.clone());
                parked.told.notify_one();
            }
            // Whoever stopped waiting need not hear.
            Waiter::Task(sender) => drop(sender.send(outcome.clone())),
        }
    }
}
