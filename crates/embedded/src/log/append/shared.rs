//! State that the log's users and its threads share: the queue, the files, the room.

use super::*;
use crate::lock_order::{Condvar, LockRank, Mutex, MutexGuard, is_held};
use crate::log::Record;
use crate::log::format::{FILE_HEADER_BYTES, FRAME_OVERHEAD_BYTES, FileHeader, FileNote, RECORD_MAX_BYTES};
use crate::log::replay::{LogFile, Recovered, file_name};
use disk::{Disk, refusal, sync_dir_patiently};
use engine::histogram::Histogram;
use model::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub(super) struct Shared {
    pub(super) dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: LogOptions,
    pub(super) queue: Mutex<Queue>,
    pub(super) wake: Condvar,
    /// Bytes reserved or queued.
    pub(super) outstanding: AtomicU64,
    /// Bytes left in the current file.
    pub(super) left: AtomicU64,
    /// Bytes of the last heads frame: they must not outgrow what they guard.
    pub(super) heads_bytes: AtomicU64,
    pub(super) spare: Mutex<Spare>,
    pub(super) spare_changed: Condvar,
    /// Whether the disk has refused a spare file and none is ready.
    pub(super) starved: AtomicBool,
    /// Bytes of the last spare file: smaller than [`LogOptions::file_bytes`] where the disk has little room.
    pub(super) spare_bytes: AtomicU64,
    /// Whether the disk has no room for a frame, although its file was made ahead.
    pub(super) unwritable: AtomicBool,
    pub(super) closing: AtomicBool,
    /// Numbers for the names of blank files, each used once.
    pub(super) blanks: AtomicU64,
    pub(super) files: Mutex<Vec<LogFile>>,
    /// Replay needs nothing below.
    pub(super) needed_from: AtomicU64,
    /// Some consumer has not read what begins here or behind; `u64::MAX`: there is none.
    pub(super) unread_from: AtomicU64,
    pub(super) written: Line,
    pub(super) durable: Line,
    /// Someone wants everything below to be durable.
    pub(super) sync_wanted: AtomicU64,
    pub(super) failed: OnceLock<Error>,
    /// The durations of syncs.
    pub(super) syncs: Histogram,
    /// Bytes of written frames.
    pub(super) written_bytes: AtomicU64,
}

/// How large a spare file is to be. Writes that wait for room wait for a small one.
fn spare_bytes(disk: &dyn Disk, dir: &Path, options: &LogOptions, starved: bool) -> u64 {
    let most = match starved {
        true => options.file_bytes.min(FIRST_FILE_BYTES),
        false => options.file_bytes,
    };
    fitting(disk, dir, FILE_MIN_BYTES, most)
}

impl Shared {
    pub(super) fn new(
        dir: &Path,
        disk: Arc<dyn Disk>,
        options: LogOptions,
        recovered: &Recovered,
        files: Vec<LogFile>,
    ) -> Shared {
        let spare_bytes = spare_bytes(disk.as_ref(), dir, &options, false);
        Shared {
            dir: dir.to_owned(),
            disk,
            spare_bytes: AtomicU64::new(spare_bytes),
            unwritable: AtomicBool::new(false),
            needed_from: AtomicU64::new(options.from),
            // Until consumers are known, nothing unread is given up.
            unread_from: AtomicU64::new(0),
            options,
            queue: Mutex::leaf(Queue {
                turn: WriterTurn::Free,
                lately: 0,
                unsynced_since: None,
                unnoted_since: None,
                items: VecDeque::new(),
                end: recovered.start,
                started: recovered.start,
                since_heads: 0,
                promised: false,
                closing: false,
                watch: Watch::default(),
            }),
            wake: Condvar::default(),
            outstanding: AtomicU64::new(0),
            left: AtomicU64::new(0),
            heads_bytes: AtomicU64::new(0),
            spare: Mutex::leaf(Spare {
                ready: None,
                reserve: None,
                refused: None,
            }),
            spare_changed: Condvar::default(),
            starved: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            blanks: AtomicU64::new(0),
            files: Mutex::leaf(files),
            written: Line::new(recovered.start),
            durable: Line::new(recovered.start),
            sync_wanted: AtomicU64::new(0),
            failed: OnceLock::new(),
            syncs: Histogram::default(),
            written_bytes: AtomicU64::new(0),
        }
    }

    /// Why nothing can be written, if so.
    pub(super) fn check_failed(&self) -> Result<()> {
        self.failed.get().map_or(Ok(()), |failed| Err(failed.clone()))
    }

    pub(super) fn reserve(self: &Arc<Self>, bytes: u64, kept: u64) -> Result<Reservation> {
        debug_assert!(
            !is_held(LockRank::Sequencer),
            "3: room is reserved before the stamps: it may take IO, and may be refused"
        );
        self.check_failed()?;
        if bytes > RECORD_MAX_BYTES {
            let reason = format!("a change of [{bytes}] bytes is too large, the limit is [{RECORD_MAX_BYTES}]");
            return Err(Error::new(ErrorKind::ContentTooLong, reason));
        }
        let charged = bytes + FRAME_OVERHEAD_BYTES as u64;
        let file_bytes = self.spare_bytes.load(Ordering::Acquire);
        let limit = self.queue_limit();
        let before = self.outstanding.fetch_add(charged, Ordering::AcqRel);
        let mut reservation = Reservation {
            shared: self.clone(),
            left: charged,
            own_file: None,
            start: WriteStart::Enqueue,
        };
        // One that alone is bigger than the queue passes if no other such is there: it would starve.
        if before + charged > limit && (charged <= limit || before > limit) {
            if self.unwritable.load(Ordering::Acquire) || self.starved.load(Ordering::Acquire) {
                return Err(self.no_room());
            }
            let reason = format!("the log's queue is full: [{before}] bytes wait, [log.queue_max_bytes] is [{limit}]");
            return Err(Error::new(ErrorKind::RejectedExecution, reason).with("setting", "log.queue_max_bytes"));
        }
        if charged + FILE_HEADER_BYTES > file_bytes {
            reservation.own_file = Some(self.own_file(charged)?);
        } else if self.starved.load(Ordering::Acquire) {
            // Each record may have a frame to itself, of which the smallest is about its own size.
            let needed = 2 * (before + charged) + kept;
            let left = self.left.load(Ordering::Acquire);
            if needed > left && !(kept == 0 && self.fits_reserve(needed)) {
                return Err(self.no_room());
            }
        }
        Ok(reservation)
    }

    /// Bytes that may wait: a spare file has room for all that is queued.
    fn queue_limit(&self) -> u64 {
        self.options.queue_max_bytes.min(self.spare_bytes.load(Ordering::Acquire) / 2)
    }

    /// Is more than half of the queue taken?
    pub(super) fn is_crowded(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) > self.queue_limit() / 2
    }

    /// Is there a file for deletes that takes so much?
    fn fits_reserve(&self, needed: u64) -> bool {
        let spare = self.spare.lock();
        spare
            .reserve
            .as_ref()
            .is_some_and(|reserve| needed + FILE_HEADER_BYTES <= reserve.bytes)
    }

    /// The refusal of a write while there is no room for it.
    fn no_room(&self) -> Error {
        let refused = self.spare.lock().refused.clone();
        let (kind, why) = refused.map_or_else(
            || (ErrorKind::DiskFull, "No space left on device".to_owned()),
            |refused| (refused.kind, refused.why),
        );
        let reason = format!("no room for the log in [{}]: {why}", disk::display_path(&self.dir));
        Error::new(kind, reason)
    }

    /// Blank files that a start found.
    pub(super) fn found_spare(&self, found: Option<OwnFile>, reserve: Option<OwnFile>) {
        if let Some(spare) = &found {
            self.spare_bytes.store(spare.bytes, Ordering::Release);
        }
        let mut spare = self.spare.lock();
        (spare.ready, spare.reserve) = (found, reserve);
    }

    /// No spare file could be made.
    pub(super) fn refuse_spare(&self, cause: &io::Error) {
        self.spare.lock().refused = Some(SpareRefusal::new(cause));
        self.starved.store(true, Ordering::Release);
    }

    pub(super) fn release(&self, bytes: u64) {
        let before = self.outstanding.fetch_sub(bytes, Ordering::AcqRel);
        assert!(
            before >= bytes,
            "3: [{bytes}] bytes of the log are given back, [{before}] were reserved"
        );
    }

    /// A zero-filled file for one record that is bigger than a file.
    pub(super) fn own_file(&self, charged: u64) -> Result<OwnFile> {
        let path = self
            .dir
            .join(format!("own-{}.{PARTIAL}", self.blanks.fetch_add(1, Ordering::Relaxed)));
        let made = allocate(self.disk.as_ref(), &path, FILE_HEADER_BYTES + charged);
        made.map_err(|e| refusal("allocating", &path, &e))
    }

    pub(super) fn enqueue(&self, room: &mut Reservation, record: Record, durability: Durability) -> Result<Ticket> {
        let bytes = record.log_bytes();
        let charged = bytes + FRAME_OVERHEAD_BYTES as u64;
        let own_file = if charged + FILE_HEADER_BYTES > self.spare_bytes.load(Ordering::Acquire) {
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
        assert!(
            position >= self.written.reached.load(Ordering::Acquire),
            "1.1: a record is queued at {position}, and the log is written up to {}",
            self.written.reached.load(Ordering::Acquire)
        );
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
        let starts = room.start != WriteStart::Batch || end - queue.started >= self.batch_bytes();
        if starts {
            queue.started = end;
        }
        // Whoever waits at once writes it himself; nobody waits at once for what is synced later.
        let wakes = starts && (room.start != WriteStart::Waiter || durability == Durability::Async);
        let wakes = wakes && queue.turn == WriterTurn::Free;
        drop(queue);
        if wakes {
            self.wake.notify_one();
        }
        Ok(Ticket { position, end })
    }

    /// Heads cost at most a thirty-second of the log, however many indices there are.
    pub(super) fn heads_when_due(&self, queue: &mut Queue) {
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

    /// Sees to it that somebody syncs up to there.
    pub(super) fn want_sync(&self, position: u64) -> Result<()> {
        if self.durable.reached.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        self.writer_for(position, || {
            self.sync_wanted.fetch_max(position, Ordering::AcqRel);
        })
    }

    /// Sees to it that somebody writes up to there.
    pub(super) fn want_written(&self, position: u64) -> Result<()> {
        self.writer_for(position, || {})
    }

    /// Under the lock, so that who has the turn cannot miss it between his last look and giving it up.
    fn writer_for(&self, position: u64, note: impl FnOnce()) -> Result<()> {
        let queue = self.queue.lock();
        if position > queue.end {
            let end = queue.end;
            return Err(Error::illegal(format!(
                "position [{position}] is beyond the end of the log [{end}]"
            )));
        }
        note();
        self.start_below(queue, position);
        Ok(())
    }

    /// Starts the write of all that is queued.
    pub(super) fn start_queued(&self) {
        let queue = self.queue.lock();
        let end = queue.end;
        if self.written.reached.load(Ordering::Acquire) < end {
            self.start_below(queue, end);
        }
    }

    fn start_below(&self, mut queue: MutexGuard<'_, Queue>, position: u64) {
        assert!(
            position <= queue.end,
            "1.1: writes are started up to {position}, and the queue ends at {}",
            queue.end
        );
        queue.started = queue.started.max(position);
        let is_free = queue.turn == WriterTurn::Free;
        drop(queue);
        if is_free {
            self.wake.notify_one();
        }
    }

    /// Is the first queued item to be written now? `written`: the position of that item.
    pub(super) fn is_due(&self, queue: &Queue, written: u64) -> bool {
        !queue.items.is_empty() && (queue.started > written || queue.closing)
    }

    /// Queued bytes of batches that start a write.
    fn batch_bytes(&self) -> u64 {
        BATCH_BYTES.min(self.queue_limit() / 4)
    }

    /// Is there anything to do for whoever writes?
    pub(super) fn has_work(&self, queue: &Queue) -> bool {
        self.is_due(queue, self.written.reached.load(Ordering::Acquire))
            || queue.closing
            || self.sync_wanted.load(Ordering::Acquire) > self.durable.reached.load(Ordering::Acquire)
                && self.written.reached.load(Ordering::Acquire) > self.durable.reached.load(Ordering::Acquire)
    }

    pub(super) fn begin_close(&self) {
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
    pub(super) fn fail(&self, why: &str) {
        let reason = format!(
            "writing the log in [{}] failed: {why}. Whether changes that were under way are durable is unknown; \
             writes stop until a restart, reads go on",
            disk::display_path(&self.dir)
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
        // The log's thread ends, if it was not the one that failed.
        self.wake.notify_one();
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

    /// Makes a blank file a part of the log: header, sync, name, sync of the folder. Waits for a descriptor until `over`.
    pub(super) fn begin_file(&self, blank: OwnFile, header: &FileHeader, over: impl Fn() -> bool) -> io::Result<OwnFile> {
        // From here on the file has this length at least: a shorter one was cut by somebody else.
        let header = FileHeader {
            allocated: blank.bytes,
            ..*header
        };
        blank.file.write_all_at(&header.write(), 0)?;
        blank.file.sync_data()?;
        let path = self.dir.join(file_name(header.number));
        self.disk.rename(&blank.path, &path)?;
        sync_dir_patiently(self.disk.as_ref(), &self.dir, self.options.retry_each, over)?;
        let mut files = self.files.lock();
        // A start gives its file the number of one that was empty.
        files.retain(|file| file.number != header.number);
        assert!(
            files.last().is_none_or(|last| last.number < header.number),
            "2: file {} of the log is begun after file {}",
            header.number,
            files.last().map_or(0, |last| last.number)
        );
        assert!(
            header.start >= header.previous_end,
            "2: a file begins at {}, and the one before ended at {}: positions are never used twice",
            header.start,
            header.previous_end
        );
        if let Some(last) = files.last_mut() {
            last.end = last.end.or(Some(header.previous_end));
            last.since = Instant::now();
        }
        files.push(LogFile {
            number: header.number,
            path: path.clone(),
            start: header.start,
            since: Instant::now(),
            end: None,
            bytes: blank.bytes,
        });
        Ok(OwnFile { path, ..blank })
    }

    /// Notes durably in a file of the log how far it was synced and which file follows it. A disk without room for the
    /// note goes without it: less damage is known then.
    pub(super) fn note(&self, file: &dyn DiskFile, run_id: u64, note: FileNote) -> io::Result<()> {
        let mut head = [0; FILE_HEADER_BYTES as usize];
        file.read_at(&mut head, 0)?;
        let (at, bytes) = note.placement(&head, run_id);
        match file.write_all_at(&bytes, at) {
            Err(e) if is_full(&e) => Ok(()),
            written => written.and_then(|()| file.sync_data()),
        }
    }

    /// The body of the second thread: keeps one blank file ready.
    pub(super) fn keep_spare(&self) {
        loop {
            let mut spare = self.spare.lock();
            while spare.ready.is_some() && spare.reserve.is_some() && !self.closing.load(Ordering::Acquire) {
                self.spare_changed.wait(&mut spare);
            }
            let only_reserve = spare.ready.is_some();
            drop(spare);
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            if only_reserve {
                self.keep_reserve();
                continue;
            }
            let made = make_spare(
                self.disk.as_ref(),
                &self.dir,
                self.blanks.fetch_add(1, Ordering::Relaxed),
                spare_bytes(
                    self.disk.as_ref(),
                    &self.dir,
                    &self.options,
                    self.starved.load(Ordering::Acquire),
                ),
            );
            // Room for writes comes before changes of the past.
            if made.as_ref().is_err_and(is_full) && self.has_retained() && self.remove_unneeded(Retention::NONE).is_ok() {
                continue;
            }
            let mut spare = self.spare.lock();
            match made {
                Ok(file) => {
                    self.spare_bytes.store(file.bytes, Ordering::Release);
                    spare.ready = Some(file);
                    spare.refused = None;
                    self.starved.store(false, Ordering::Release);
                    self.spare_changed.notify_all();
                }
                Err(e) => {
                    spare.refused = Some(SpareRefusal::new(&e));
                    self.starved.store(true, Ordering::Release);
                    self.spare_changed.notify_all();
                    if !self.closing.load(Ordering::Acquire) {
                        self.spare_changed.wait_for(&mut spare, self.options.retry_each);
                    }
                }
            }
        }
    }

    /// Makes the file for deletes, while there is room; without one they are refused sooner on a full disk.
    fn keep_reserve(&self) {
        let number = self.blanks.fetch_add(1, Ordering::Relaxed);
        let made = make_reserve(self.disk.as_ref(), &self.dir, number, self.options.file_bytes);
        let mut spare = self.spare.lock();
        match made {
            Ok(file) => spare.reserve = Some(file),
            Err(_) if self.closing.load(Ordering::Acquire) => {}
            Err(_) => {
                self.spare_changed.wait_for(&mut spare, self.options.retry_each);
            }
        }
    }

    /// Gives up the files that are kept for readers of the past; a failure is tried again with the next checkpoint.
    pub(super) fn give_up_retained(&self) {
        if self.has_retained() {
            drop(self.remove_unneeded(Retention::NONE));
        }
    }

    /// Are there files that replay does not need?
    fn has_retained(&self) -> bool {
        let needed_from = self.needed_from.load(Ordering::Acquire);
        let files = self.files.lock();
        files.iter().any(|file| file.end.is_some_and(|end| end <= needed_from))
    }

    pub(super) fn truncate_below(&self, position: u64) -> Result<()> {
        let durable = self.durable.reached.load(Ordering::Acquire);
        assert!(
            position <= durable,
            "1.9: the log is cut below {position}, and only {durable} is durable"
        );
        self.needed_from.fetch_max(position, Ordering::AcqRel);
        self.remove_unneeded(self.options.retention)
    }

    /// Removes files that replay does not need, the oldest first, until the others are within the retention or unread.
    ///
    /// # Errors
    /// Internal; files that were not removed are tried again the next time.
    fn remove_unneeded(&self, retention: Retention) -> Result<()> {
        let needed_from = self.needed_from.load(Ordering::Acquire);
        let unread_from = self.unread_from.load(Ordering::Acquire);
        let mut below: Vec<LogFile> = self
            .files
            .lock()
            .iter()
            .filter(|file| file.end.is_some_and(|end| end <= needed_from))
            .cloned()
            .collect();
        let mut bytes = 0;
        let newest_first = below.iter().rev();
        let retained = newest_first.take_while(|file| {
            bytes += file.bytes;
            // The next file may begin at a later position than the last one ended at: a reader at its very end still has its place.
            let is_unread = file.end.is_some_and(|end| end >= unread_from);
            bytes <= retention.bytes && file.since.elapsed() < retention.age || is_unread && bytes <= retention.unread_bytes
        });
        let retained = retained.count();
        below.truncate(below.len() - retained);
        assert!(
            below.is_sorted_by_key(|file| file.number) && below.iter().all(|file| file.end.is_some_and(|end| end <= needed_from)),
            "1.9: the log is cut from its oldest file on, below {needed_from}: {:?}",
            below.iter().map(|file| file.number).collect::<Vec<_>>()
        );
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
