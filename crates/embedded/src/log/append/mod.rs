//! Writing the log: room is reserved, records are queued, one thread at a time writes and syncs them.
//!
//! That is the log's own thread, or, for a group, a thread that waits for a record of its own while nobody else does
//! ([`Log::lead`]): waking another thread and being woken by it costs about half of what a sync does. [`WriterTurn`] says
//! whose it is.
//!
//! Invariants:
//! * Records lie in the log in the order of [`Log::enqueue`]; their positions leave no holes but
//!   those between runs and the one byte of each heads frame.
//! * One write is under way at a time: write, `fdatasync`, next. What came meanwhile is the next
//!   group (write-path.md 2).
//! * A position is published as durable after the sync that covers it has succeeded, never before.
//! * After a failed write or sync nothing is written until the next start, and every waiter hears
//!   that its outcome is unknown. A full disk and a want of descriptors are no failures: accepted records wait.
//! * Whoever has the turn looks at the queue again before giving it up, under its lock: what was queued meanwhile is
//!   written by him or handed to the log's thread, and nobody who waits needs to wake anybody.
//! * Records of a batch wait until it ends, until [`BATCH_BYTES`] are queued or until a record behind them is written at once
//!   ([`WriteStart`]). Whoever waits for a record starts its write.
//! * A leader writes one group and waits for nothing but the disk's sync: other files, retries on a full disk and the
//!   closing of the log are the log's thread's.
//!
//! Locks: `queue`, `files`, `spare` and the waiting lines are leaves: none is taken under another,
//! and none is held over IO. The committer's is held over IO by who has the turn, and taken by nobody else; leaves are
//! taken under it (`lock_order`).
//!
//! Not here: reading (`replay`), bytes (`format`).

use crate::lock_order::{LockRank, Mutex, is_held};
use crate::log::Record;
use crate::log::follow::Places;
use crate::log::format::{FILE_HEADER_BYTES, FORMAT_VERSION, FileHeader, FileNote, RECORD_MAX_BYTES};
use crate::log::replay::{Expected, LogFile, Recovered, ScanResult, Tail, scan};
use disk::{Disk, DiskFile, is_full, is_short_of_handles, refusal};
use engine::histogram::Observed;
use model::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

mod allocation;
mod committer;
mod line;
mod recovered;
mod shared;

use allocation::*;
use committer::*;
use line::*;
use recovered::*;
use shared::*;

/// Where the log keeps its files and how much of everything. The defaults are write-path.md's.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The folder it belongs to ([`super::Manifest::folder_id`]); files of another are refused.
    pub folder_id: u128,
    /// The lowest position not built into durable segments: damage below it does not matter.
    pub from: u64,
    /// The log reached this position at least: a shorter one is damaged.
    pub least_end: u64,
    /// A file of this number or a later one was there.
    pub least_file: u64,
    /// It was closed and ended there.
    pub is_closed: bool,
    /// Bytes of one file, zero-filled ahead; at most an eighth of what is free, down to `FILE_MIN_BYTES`.
    pub file_bytes: u64,
    /// Setting `log.queue_max_bytes`: bytes reserved or queued at once, at most half a file.
    pub queue_max_bytes: u64,
    /// Bytes of log between two heads frames.
    pub heads_each_bytes: u64,
    /// How long an asynchronous write may stay unsynced.
    pub sync_each: Duration,
    /// How long after a sync the file has a note of it: damage of what is noted is never taken for a torn tail.
    pub note_each: Duration,
    /// How long to wait before looking for room again when the disk is full.
    pub retry_each: Duration,
    /// Room that is kept for deletes when the disk is full.
    pub kept_for_deletes_bytes: u64,
    /// Files that stay for readers of the feed of changes.
    pub retention: Retention,
}

/// How much of the log stays behind the lowest position that replay needs (`changes.retention.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Bytes of files, at most.
    pub bytes: u64,
    /// How long a file stays after its last record, or after the last start.
    pub age: Duration,
    /// Bytes of files, at most, that stay longer because a consumer has not read them (`changes.consumers.max_bytes`).
    pub unread_bytes: u64,
}

impl Retention {
    /// Nothing stays.
    pub const NONE: Retention = Retention {
        bytes: 0,
        age: Duration::ZERO,
        unread_bytes: 0,
    };
}

impl LogOptions {
    /// The usual options for a folder whose durable segments reach up to `from`.
    pub fn new(folder_id: u128, from: u64) -> LogOptions {
        LogOptions {
            folder_id,
            from,
            least_end: 0,
            least_file: 0,
            is_closed: false,
            file_bytes: 64 << 20,
            queue_max_bytes: 32 << 20,
            heads_each_bytes: 1 << 20,
            sync_each: Duration::from_secs(5),
            note_each: Duration::from_secs(1),
            retry_each: Duration::from_millis(500),
            kept_for_deletes_bytes: 1 << 20,
            retention: Retention::NONE,
        }
    }
}

impl LogOptions {
    fn expectation(&self) -> Expected {
        Expected {
            folder_id: self.folder_id,
            from: self.from,
            least_end: self.least_end,
            least_file: self.least_file,
            is_closed: self.is_closed,
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
    /// Its first position: its `commit_seq`.
    pub position: u64,
    /// The position after it: what to wait for.
    pub end: u64,
}

/// Room in the queue and the log, given back when dropped unless used by [`Log::enqueue`].
pub struct Reservation {
    shared: Arc<Shared>,
    left: u64,
    own_file: Option<OwnFile>,
    start: WriteStart,
}

/// The event that starts the write of an enqueued record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStart {
    /// Its enqueueing, which wakes the log's thread.
    Enqueue,
    /// Its enqueuer, who waits for it at once ([`Log::lead`], [`Log::durable`]): enqueueing wakes nobody. A record that
    /// nobody waits for after all is written with the next.
    Waiter,
    /// The end of its batch ([`Log::end_batch`]), or 256 kB in the queue, or a record that is written at once.
    /// A sync for each few records of a batch would take 8 % of the processor time of a load.
    Batch,
}

impl Reservation {
    /// Sets the event that starts the write of its records; the default is [`WriteStart::Enqueue`].
    #[must_use]
    pub fn with_start(mut self, start: WriteStart) -> Reservation {
        self.start = start;
        self
    }
}

/// The log of a folder, open for writing. Dropping it closes it.
pub struct Log {
    shared: Arc<Shared>,
    committer: Arc<Mutex<Committer>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    places: Places,
}

impl Log {
    /// Scans the log in `dir` (made if it is missing), makes what it found durable, then begins a new file at a fresh
    /// position; a last file without a record is replaced by it.
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
        let ScanResult {
            recovered,
            mut files,
            tail,
        } = scan(&disk, dir, &options.expectation(), START_JUMP)?;
        // Before anything of it is served, and before a header says where it ends.
        make_durable(disk.as_ref(), dir, options.from, &mut files, tail.as_ref())?;
        assert!(
            recovered.start >= recovered.end.max(options.from),
            "2: a run begins at {}, the log reached {} and segments {}: positions are never used twice",
            recovered.start,
            recovered.end,
            options.from
        );
        let header = header_of_run(&options, &recovered, &files, tail.as_ref());
        let Blank {
            file: blank,
            spare,
            reserve,
            full,
            number: blank_number,
        } = Blank::of(disk.as_ref(), dir, options.file_bytes)?;
        let shared = Arc::new(Shared::new(dir, disk, options, &recovered, files));
        shared.found_spare(spare, reserve);
        // The file is for deletes.
        if let Some(e) = &full {
            shared.refuse_spare(e);
        }
        shared.blanks.store(blank_number + 1, Ordering::Relaxed);
        let begun = blank.and_then(|blank| shared.begin_file(blank, &header, || true));
        let file = match begun {
            Ok(file) => Some(file),
            // Reads, and deletes as soon as there is a little room: a full disk is no reason not to start.
            Err(e) if is_full(&e) => {
                shared.refuse_spare(&e);
                None
            }
            Err(e) => return Err(refusal("beginning a log file in", dir, &e)),
        };
        let committer = Committer::begin(&shared, file, &header);
        committer.publish_room();
        let committer = Arc::new(Mutex::new(LockRank::Committer, committer));
        let (writer, spare) = ((shared.clone(), committer.clone()), shared.clone());
        let threads = vec![
            spawn("pleach-log", move || run(&writer.0, &writer.1))?,
            spawn("pleach-log-spare", move || spare.keep_spare())?,
        ];
        Ok((
            Log {
                shared,
                committer,
                threads: Mutex::leaf(threads),
                places: Places::default(),
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

    /// Is more than half of the queue taken? The other half is for writes that do not wait.
    pub fn is_crowded(&self) -> bool {
        self.shared.is_crowded()
    }

    /// Gives the record its place and queues it: no IO, no encoding. Called under the sequencer lock,
    /// so that log order is stamp order. `room` may serve several records; one that is bigger than
    /// what was reserved is taken all the same, as nothing is refused after its stamp.
    ///
    /// Errors: LogFailed if the log has failed or is closed; then no position was taken.
    pub fn enqueue(&self, room: &mut Reservation, record: Record, durability: Durability) -> Result<Ticket> {
        self.shared.enqueue(room, record, durability)
    }

    /// Starts the write of all that is queued: a batch is over.
    pub fn end_batch(&self) {
        self.shared.start_queued();
    }

    /// Is nobody writing, and do writers come one by one? Then whoever waits for a record may as well write it.
    pub fn is_quiet(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.turn == WriterTurn::Free && queue.lately <= LEADS_UP_TO && !queue.closing
    }

    /// Writes and syncs on this thread what is queued, if nobody else is writing; else does nothing. Blocks the thread
    /// for a write and a sync. To be followed by [`Log::durable`], which is over at once if this was enough.
    pub fn lead(&self) {
        lead(&self.shared, &self.committer, None);
    }

    /// As [`Log::lead`]; the log's thread calls `late` if it takes longer than a sync should.
    pub fn lead_watched(&self, late: Late) {
        lead(&self.shared, &self.committer, Some(late));
    }

    /// Waits until everything below `position` (a [`Ticket::end`]) is durable. Blocks the thread.
    /// Errors: LogFailed, meaning that the outcome is unknown; IllegalArgument if no record reaches there.
    pub fn wait_durable(&self, position: u64) -> Result<()> {
        debug_assert!(
            !is_held(LockRank::Sequencer),
            "1, lock order: nobody waits for the disk under the sequencer"
        );
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
        debug_assert!(
            !is_held(LockRank::Sequencer),
            "1, lock order: nobody waits for the log under the sequencer"
        );
        self.shared.want_written(position)?;
        self.shared.written.wait(position, &self.shared.failed)
    }

    /// As [`Log::wait_written`], without blocking.
    pub fn until_written(&self, position: u64) -> impl Future<Output = Result<()>> + Send + use<> {
        let begun = self
            .shared
            .want_written(position)
            .map(|()| self.shared.written.enter(position, &self.shared.failed));
        async move { begun?.finish().await }
    }

    /// Is there no room for the next file?
    pub fn is_starved(&self) -> bool {
        self.shared.starved.load(Ordering::Acquire)
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

    /// Removes the files that lie wholly below `position` (the lowest that is not built durably), but for those that the
    /// retention keeps.
    /// Errors: Internal; files that were not removed are tried again the next time.
    pub fn truncate_below(&self, position: u64) -> Result<()> {
        self.shared.truncate_below(position)
    }

    /// Files with records at `position` or behind it are unread: they stay for consumers, within `Retention::unread_bytes`.
    /// `None`: no consumer waits for any.
    pub fn set_unread_from(&self, position: Option<u64>) {
        self.shared.unread_from.store(position.unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Removes the files that only readers of the past need: the disk is full.
    pub fn give_up_retained(&self) {
        self.shared.give_up_retained();
    }

    /// Waits until something behind `position` is durable.
    ///
    /// # Errors
    /// LogFailed: nothing will be before a restart.
    pub async fn durable_behind(&self, position: u64) -> Result<()> {
        loop {
            let mut advanced = std::pin::pin!(self.shared.durable.advanced.notified());
            advanced.as_mut().enable();
            if self.durable_position() > position {
                return Ok(());
            }
            self.shared.check_failed()?;
            advanced.await;
        }
    }

    /// The files whose headers can be read, in order.
    pub(super) fn readable_files(&self) -> Vec<LogFile> {
        let files = self.shared.files.lock();
        files.iter().filter(|file| file.is_readable()).cloned().collect()
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        self.shared.disk.as_ref()
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// The number of the newest file.
    pub fn file_number(&self) -> u64 {
        self.shared.files.lock().iter().map(|file| file.number).max().unwrap_or(0)
    }

    /// The durations of all syncs since the start.
    pub fn syncs(&self) -> Observed {
        self.shared.syncs.observe()
    }

    /// Bytes written since the start, frames and heads with their headers.
    pub fn written_bytes(&self) -> u64 {
        self.shared.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes in the log's files that are kept for replay, the current one whole.
    pub fn kept_bytes(&self) -> u64 {
        self.shared.files.lock().iter().map(|file| file.bytes).sum()
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
pub(super) const START_JUMP: u64 = 1 << 30;
pub(super) const SPARE: &str = "spare-";
pub(super) const RESERVE: &str = "reserve-";
/// The file that is kept for deletes on a full disk, at most; a quarter of a usual file.
pub(super) const RESERVE_BYTES: u64 = 1 << 20;
pub(super) const PARTIAL: &str = "partial";
/// A first file is made no bigger.
pub(super) const FIRST_FILE_BYTES: u64 = 4 << 20;
/// A spare file is made no smaller, however full the disk is.
pub(super) const FILE_MIN_BYTES: u64 = 1 << 20;
/// A first file is made no smaller: deletes must find room on a disk that is nearly full.
pub(super) const FIRST_MIN_BYTES: u64 = 16 << 10;
/// Room that a first file leaves for the manifest.
pub(super) const FIRST_LEAVES_BYTES: u64 = 16 << 10;

/// A zero-filled file that is no part of the log yet.
pub(super) struct OwnFile {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) bytes: u64,
}

pub(super) enum Item {
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

/// The header of the file that a run begins. A file in which nothing stands yet is begun anew under its number.
fn header_of_run(options: &LogOptions, recovered: &Recovered, files: &[LogFile], tail: Option<&Tail>) -> FileHeader {
    let (number, previous_end) = match tail {
        Some(tail) if tail.is_empty => (tail.number, tail.header.previous_end),
        _ => (
            files.last().map_or(1, |file| file.number + 1).max(options.least_file + 1),
            recovered.end.max(options.from),
        ),
    };
    debug_assert!(
        previous_end <= recovered.start,
        "2: a file begins behind the end of the one before it"
    );
    FileHeader {
        version: FORMAT_VERSION,
        folder_id: options.folder_id,
        number,
        run_id: fresh_run_id(recovered.start),
        start: recovered.start,
        previous_end,
        allocated: 0,
        cut: 0,
        note: FileNote::default(),
    }
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterTurn {
    /// Nobody; who queues something wakes the log's thread, or leads.
    Free,
    /// Somebody, who will look at the queue again.
    Taken,
    /// A leader left work to the log's thread, which has been woken for it.
    Handed,
}

/// Called by the log's thread while somebody leads for too long.
pub type Late = Box<dyn FnOnce() + Send>;

/// The log's thread looks so often after who leads watched, while there are any.
pub(super) const WATCH_EACH: Duration = Duration::from_millis(25);
/// After so many looks at nobody it sleeps until the next one comes.
pub(super) const WATCH_LOOKS: u32 = 40;

/// Who leads, as the log's thread sees it.
#[derive(Default)]
pub(super) struct Watch {
    /// Since when, and whom to tell.
    pub(super) led: Option<(Instant, Late)>,
    /// Looks until the log's thread sleeps; 0: it does.
    pub(super) looks: u32,
}

/// Queued bytes of batches that start a write before the batches end; a quarter of the queue where that is less.
pub(super) const BATCH_BYTES: u64 = 256 << 10;

/// Records in a group beyond which nobody leads: the log's thread writes while others go on working.
pub(super) const LEADS_UP_TO: u32 = 1;

pub(super) struct Queue {
    pub(super) turn: WriterTurn,
    /// Records in the last groups, the largest, a quarter less with each group since.
    pub(super) lately: u32,
    /// When the oldest unsynced frame was written; told by whoever gives the turn up.
    pub(super) unsynced_since: Option<Instant>,
    /// When the oldest sync was that the file has no note of; told like the former.
    pub(super) unnoted_since: Option<Instant>,
    pub(super) items: VecDeque<Item>,
    /// The position after the last item.
    pub(super) end: u64,
    /// Items below are written as soon as somebody has the turn; those behind belong to batches that go on.
    pub(super) started: u64,
    pub(super) since_heads: u64,
    /// The end was told as the next record's position: no heads go before it.
    pub(super) promised: bool,
    pub(super) closing: bool,
    pub(super) watch: Watch,
}

pub(super) struct Spare {
    pub(super) ready: Option<OwnFile>,
    /// Takes the deletes when the disk has no room for another file.
    pub(super) reserve: Option<OwnFile>,
    /// Why the last attempt failed.
    pub(super) refused: Option<SpareRefusal>,
}

/// Why there is no spare file.
#[derive(Clone, Debug)]
pub(super) struct SpareRefusal {
    pub(super) why: String,
    /// The kind of refusal of a write meanwhile: DiskFull, RejectedExecution (short of descriptors), else LogFailed.
    pub(super) kind: ErrorKind,
}

impl SpareRefusal {
    pub(super) fn new(cause: &std::io::Error) -> SpareRefusal {
        let kind = match (is_full(cause), is_short_of_handles(cause)) {
            (true, _) => ErrorKind::DiskFull,
            (_, true) => ErrorKind::RejectedExecution,
            _ => ErrorKind::LogFailed,
        };
        SpareRefusal {
            why: cause.to_string(),
            kind,
        }
    }
    /// Room and descriptors come back; other errors need not.
    pub(super) fn is_passing(&self) -> bool {
        self.kind != ErrorKind::LogFailed
    }
}
