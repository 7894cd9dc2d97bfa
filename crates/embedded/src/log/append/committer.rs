//! Writes and syncs what was enqueued: on the log's thread, or on that of a writer that is alone.

use super::*;
use crate::lock_order::Mutex;
use crate::log::format::{
    END_MARK, FILE_HEADER_BYTES, FORMAT_VERSION, FRAME_MAX_BYTES, FRAME_OVERHEAD_BYTES, FileHeader, FileNote, FrameHeader,
    FrameKind, Head, begin_frame, finish_frame, heads_bytes, write_heads,
};
use crate::log::{Part, Record};
use disk::is_full;
use model::{ErrorKind, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The writer of the log, used by whoever has the turn. It alone knows frames, heads and the current file.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) file: OwnFile,
    pub(super) number: u64,
    /// Where the log ended before this start, as long as it has begun no file for want of room.
    pub(super) previous_end: Option<u64>,
    pub(super) run_id: u64,
    /// Where in the file the next frame goes.
    pub(super) offset: u64,
    pub(super) frame_no: u64,
    /// Position of the next frame; everything below is written.
    pub(super) position: u64,
    pub(super) heads: FxHashMap<u32, Head>,
    pub(super) buffer: Vec<u8>,
    /// A frame in the buffer for which the disk had no room when a leader wrote it.
    pub(super) unwritten: Option<Framed>,
    /// When the oldest unsynced frame was written.
    pub(super) unsynced_since: Option<Instant>,
    /// When the oldest sync was that the file has no note of.
    pub(super) unnoted_since: Option<Instant>,
}

impl Committer {
    /// The writer of a run that begins with this file; `None`: the disk has no room for one yet.
    pub(super) fn begin(shared: &Arc<Shared>, file: Option<OwnFile>, header: &FileHeader) -> Committer {
        assert!(
            header.previous_end <= header.start && header.number > 0,
            "2: file {} of a run begins at {}, and the log ended at {}",
            header.number,
            header.start,
            header.previous_end
        );
        let waits = file.is_none();
        Committer {
            shared: shared.clone(),
            file: file.unwrap_or_else(no_file),
            // Rotating counts on.
            number: if waits { header.number - 1 } else { header.number },
            previous_end: waits.then_some(header.previous_end),
            run_id: header.run_id,
            offset: FILE_HEADER_BYTES,
            frame_no: 0,
            position: header.start,
            heads: FxHashMap::default(),
            buffer: Vec::new(),
            unwritten: None,
            unsynced_since: None,
            unnoted_since: None,
        }
    }
}

/// A frame in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framed {
    /// How far it moves the position.
    advance: u64,
    /// The charge of its records.
    charged: u64,
}

/// The next step of the committer.
pub(super) enum Step {
    Write(Vec<Item>),
    /// The frame that a leader could not write.
    WriteAgain(Framed),
    Rotate,
    Sync,
    /// How far the file was synced is noted in it.
    Note,
    Stop,
}

/// The body of the log's thread: takes the turn whenever there is work and nobody has it.
pub(super) fn run(shared: &Arc<Shared>, committer: &Mutex<Committer>) {
    let guard = PanicGuard(shared.clone());
    while shared.wait_for_turn() {
        let mut committer = committer.lock();
        loop {
            let step = {
                let mut queue = shared.queue.lock();
                match committer.next_step(&mut queue) {
                    Some(step) => step,
                    None => {
                        queue.turn = WriterTurn::Free;
                        queue.unsynced_since = committer.unsynced_since;
                        queue.unnoted_since = committer.unnoted_since;
                        break;
                    }
                }
            };
            let done = match step {
                Step::Write(items) => committer.write(&items),
                Step::WriteAgain(frame) => committer.write_frame(frame),
                Step::Rotate => committer.rotate(),
                Step::Sync => committer.sync(),
                Step::Note => committer.note(),
                // The turn is never given up.
                Step::Stop => return drop(guard),
            };
            if let Err(why) = done {
                shared.fail(&why);
                return drop(guard);
            }
        }
    }
    drop(guard);
}

/// One group on the thread of a writer that is alone. What it does not finish it hands to the log's thread.
pub(super) fn lead(shared: &Arc<Shared>, committer: &Mutex<Committer>, late: Option<Late>) {
    let mut asleep = false;
    {
        let mut queue = shared.queue.lock();
        if queue.turn != WriterTurn::Free || queue.closing || queue.items.is_empty() {
            return;
        }
        queue.turn = WriterTurn::Taken;
        if let Some(late) = late {
            queue.watch.led = Some((Instant::now(), late));
            asleep = std::mem::replace(&mut queue.watch.looks, WATCH_LOOKS) == 0;
        }
    }
    if asleep {
        shared.wake.notify_one();
    }
    let guard = PanicGuard(shared.clone());
    let mut committer = committer.lock();
    let step = committer.next_step(&mut shared.queue.lock());
    let led = match step {
        Some(Step::Write(items)) => committer.try_write(&items),
        // Nothing was taken from the queue.
        _ => Ok(()),
    };
    if let Err(why) = led {
        shared.fail(&why);
        return drop(guard);
    }
    let mut queue = shared.queue.lock();
    queue.watch.led = None;
    queue.unsynced_since = committer.unsynced_since;
    // The log's thread sets its alarm.
    let is_first = queue.unnoted_since.is_none() && committer.unnoted_since.is_some();
    queue.unnoted_since = committer.unnoted_since;
    let more = shared.has_work(&queue) || committer.unwritten.is_some() || committer.unsynced_since.is_some();
    queue.turn = if more { WriterTurn::Handed } else { WriterTurn::Free };
    drop(queue);
    drop(committer);
    if more || is_first {
        shared.wake.notify_one();
    }
    drop(guard);
}

impl Shared {
    /// Waits for work and for the turn, and takes it; false once the log has failed.
    fn wait_for_turn(&self) -> bool {
        let mut queue = self.queue.lock();
        loop {
            if self.failed.get().is_some() {
                return false;
            }
            let sync = queue.unsynced_since.map(|since| since + self.options.sync_each);
            let note = queue.unnoted_since.map(|since| since + self.options.note_each);
            let due = sync.into_iter().chain(note).min();
            let free = queue.turn == WriterTurn::Free && (self.has_work(&queue) || due.is_some_and(|due| due <= Instant::now()));
            if free || queue.turn == WriterTurn::Handed {
                queue.turn = WriterTurn::Taken;
                return true;
            }
            if let Some((since, late)) = queue.watch.led.take() {
                if since.elapsed() < WATCH_EACH {
                    queue.watch.led = Some((since, late));
                } else {
                    queue.run_unlocked(late);
                    continue;
                }
            }
            // A leader that has the turn now does not wake anybody for a note.
            let later = note.filter(|_| queue.turn != WriterTurn::Free);
            let later = later.map(|at| at.max(Instant::now() + WATCH_EACH));
            let look = (queue.watch.looks > 0).then(|| Instant::now() + WATCH_EACH);
            match (due.filter(|_| queue.turn == WriterTurn::Free).or(later), look) {
                (None, None) => self.wake.wait(&mut queue),
                (Some(at), None) => {
                    self.wake.wait_until(&mut queue, at);
                }
                (due, Some(look)) => {
                    let at = due.map_or(look, |due| due.min(look));
                    if self.wake.wait_until(&mut queue, at) {
                        queue.watch.looks = queue.watch.looks.saturating_sub(1);
                    }
                }
            }
        }
    }
}

impl Committer {
    /// Takes as much as fits one group and the file. `None`: nothing is to be done now.
    pub(super) fn next_step(&mut self, queue: &mut Queue) -> Option<Step> {
        if let Some(frame) = self.unwritten.take() {
            return Some(Step::WriteAgain(frame));
        }
        let overhead = (3 * FRAME_OVERHEAD_BYTES + heads_bytes(self.heads.len())) as u64;
        assert!(
            self.offset <= self.file.bytes,
            "2: the next frame goes to byte {} of a file of {}",
            self.offset,
            self.file.bytes
        );
        let left = self.file.bytes - self.offset;
        let is_due = self.shared.is_due(queue, self.position);
        if let Some(first) = queue.items.front().filter(|_| is_due) {
            let bytes = |item: &Item| match item {
                Item::Record { bytes, .. } => *bytes,
                Item::Heads => FRAME_OVERHEAD_BYTES as u64 + heads_bytes(self.heads.len()) as u64,
            };
            let fits = |taken: u64| if taken == 0 { 0 } else { overhead };
            let own = matches!(first, Item::Record { own_file: Some(_), .. });
            if own || bytes(first) + FRAME_OVERHEAD_BYTES as u64 > left {
                return Some(Step::Rotate);
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
            if !matches!(items[..], [Item::Heads]) {
                let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
                queue.lately = count.max(queue.lately - queue.lately.div_ceil(4));
            }
            return Some(Step::Write(items));
        }
        let durable = self.shared.durable.reached.load(Ordering::Acquire);
        if self.shared.sync_wanted.load(Ordering::Acquire) > durable && self.position > durable {
            return Some(Step::Sync);
        }
        let due = |since: Instant| since + self.shared.options.sync_each <= Instant::now();
        match (queue.closing, self.unsynced_since) {
            (true, None) => Some(Step::Stop),
            (true, Some(_)) => Some(Step::Sync),
            (false, Some(since)) if due(since) => Some(Step::Sync),
            (false, _) => {
                let due = |since: Instant| since + self.shared.options.note_each <= Instant::now();
                self.unnoted_since.is_some_and(due).then_some(Step::Note)
            }
        }
    }

    /// Writes one frame, and syncs if anyone wants it.
    fn write(&mut self, items: &[Item]) -> Result<(), String> {
        let frame = self.frame(items)?;
        self.write_frame(frame)
    }

    /// As [`Committer::write`], but does not wait for room: the frame is kept for the log's thread.
    fn try_write(&mut self, items: &[Item]) -> Result<(), String> {
        let frame = self.frame(items)?;
        match self.file.file.write_in_order_at(&self.buffer, self.offset) {
            Ok(()) => self.finish_frame(frame),
            Err(e) if is_full(&e) => {
                self.unwritten = Some(frame);
                Ok(())
            }
            Err(e) => {
                self.shared.release(frame.charged);
                Err(format!("write: {e}"))
            }
        }
    }

    fn write_frame(&mut self, frame: Framed) -> Result<(), String> {
        match self.write_patiently(&self.buffer) {
            Ok(()) => self.finish_frame(frame),
            Err(why) => {
                self.shared.release(frame.charged);
                Err(why)
            }
        }
    }

    /// The buffer is these items, as the next frame.
    fn frame(&mut self, items: &[Item]) -> Result<Framed, String> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        // At once: a large record would lie there twice while its room grows by doubling.
        let bytes: u64 = items.iter().map(Item::advance).sum();
        buffer.reserve(usize::try_from(bytes).unwrap_or(0).saturating_add(2 * FRAME_OVERHEAD_BYTES));
        let at = begin_frame(&mut buffer);
        let mut kind = FrameKind::Records;
        let mut advance = 0;
        let mut charged_all = 0;
        for item in items {
            advance += item.advance();
            match item {
                Item::Record {
                    record, bytes, charged, ..
                } => {
                    charged_all += charged;
                    let (heads, at) = (&mut self.heads, buffer.len());
                    record.write(&mut buffer, |index_no| take_ordinal(heads, index_no));
                    assert_eq!(
                        (buffer.len() - at) as u64,
                        *bytes,
                        "2: a record is as long as its place in the log"
                    );
                    note_heads(heads, record);
                }
                Item::Heads => {
                    kind = FrameKind::Heads;
                    write_heads(&mut buffer, self.heads.iter());
                    self.shared.heads_bytes.store(buffer.len() as u64, Ordering::Relaxed);
                }
            }
        }
        buffer.push(END_MARK);
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
            "2: a frame of {} bytes lies within its file of {}, at {}",
            buffer.len(),
            self.file.bytes,
            self.offset
        );
        // The other side of the border: a start reads what is written here.
        debug_assert!(
            FrameHeader::read(&buffer[at..]).is_some_and(|read| {
                read.position == self.position
                    && read.frame_no == self.frame_no
                    && read.end() == self.position + advance
                    && read.body(&buffer, at).is_some()
            }),
            "2: a frame reads as it was written"
        );
        self.buffer = buffer;
        Ok(Framed {
            advance,
            charged: charged_all,
        })
    }

    /// The frame in the buffer is written; syncs if anyone wants it.
    fn finish_frame(&mut self, frame: Framed) -> Result<(), String> {
        self.offset += self.buffer.len() as u64;
        self.shared
            .written_bytes
            .fetch_add(self.buffer.len() as u64, Ordering::Relaxed);
        self.buffer.shrink_to(2 * FRAME_MAX_BYTES as usize);
        // Before anyone is woken, so that whoever saw its write end finds its room free again.
        self.shared.release(frame.charged);
        self.frame_no += 1;
        self.position += frame.advance;
        debug_assert!(
            self.position <= self.shared.queue.lock().end,
            "1.1: a frame is written beyond the last record that was queued"
        );
        self.unsynced_since.get_or_insert_with(Instant::now);
        self.publish_room();
        self.shared.written.reach(self.position);
        let wanted = self.shared.sync_wanted.load(Ordering::Acquire);
        if wanted > self.shared.durable.reached.load(Ordering::Acquire) {
            self.sync()
        } else {
            Ok(())
        }
    }

    /// Writes at the current offset; while the disk is full it tries again (the same bytes at the
    /// same place, nothing of which anyone was told).
    pub(super) fn write_patiently(&self, bytes: &[u8]) -> Result<(), String> {
        loop {
            match self.file.file.write_in_order_at(bytes, self.offset) {
                Ok(()) => {
                    self.shared.unwritable.store(false, Ordering::Release);
                    return Ok(());
                }
                Err(e) if is_full(&e) && !self.shared.closing.load(Ordering::Acquire) => {
                    self.shared.unwritable.store(true, Ordering::Release);
                    std::thread::sleep(self.shared.options.retry_each);
                }
                Err(e) => return Err(format!("write: {e}")),
            }
        }
    }

    pub(super) fn sync(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        self.file.file.sync_data().map_err(|e| format!("fdatasync: {e}"))?;
        self.shared.syncs.record(begun.elapsed());
        self.unsynced_since = None;
        self.unnoted_since.get_or_insert_with(Instant::now);
        assert!(
            self.position <= self.shared.written.reached.load(Ordering::Acquire),
            "1.3: durable is what was written before its sync"
        );
        self.shared.durable.reach(self.position);
        Ok(())
    }

    /// Notes in the file how far it was synced.
    pub(super) fn note(&mut self) -> Result<(), String> {
        self.unnoted_since = None;
        let note = FileNote {
            synced: self.shared.durable.reached.load(Ordering::Acquire),
            next_file: 0,
        };
        assert!(
            note.synced <= self.position,
            "2: a file is noted as synced up to {} and written up to {}",
            note.synced,
            self.position
        );
        let noted = self.shared.note(self.file.file.as_ref(), self.run_id, note);
        noted.map_err(|e| format!("noting the end: {e}"))
    }

    /// Goes on in the next file: the spare one, or the one that the next record brings.
    pub(super) fn rotate(&mut self) -> Result<(), String> {
        // The next header says where this file ends, so this must be durable first.
        if self.unsynced_since.is_some() {
            self.sync()?;
        }
        let mut needed = FILE_HEADER_BYTES + FRAME_OVERHEAD_BYTES as u64;
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
            _ => match self.wait_for_spare(needed)? {
                Some(spare) => spare,
                None => self.wait_for_own(needed)?,
            },
        };
        assert!(
            blank.bytes >= needed,
            "2: a file of {} bytes is begun for a frame that needs {needed}",
            blank.bytes
        );
        self.number += 1;
        let header = FileHeader {
            version: FORMAT_VERSION,
            folder_id: self.shared.options.folder_id,
            number: self.number,
            run_id: self.run_id,
            start: self.position,
            previous_end: self.previous_end.unwrap_or(self.position),
            allocated: 0,
            cut: 0,
            note: FileNote::default(),
        };
        let shared = &self.shared;
        let next = shared
            .begin_file(blank, &header, || shared.closing.load(Ordering::Acquire))
            .map_err(|e| format!("beginning file {}: {e}", self.number))?;
        let before = std::mem::replace(&mut self.file, next);
        // Before anything stands in the next file: should that go, it is missed.
        if self.previous_end.is_none() {
            let note = FileNote {
                synced: self.position,
                next_file: self.number,
            };
            let noted = shared.note(before.file.as_ref(), self.run_id, note);
            noted.map_err(|e| format!("noting file {}: {e}", self.number))?;
        }
        self.unnoted_since = None;
        self.previous_end = None;
        self.offset = FILE_HEADER_BYTES;
        self.publish_room();
        Ok(())
    }

    /// `None`: the spare file is smaller than what is needed, as the disk has little room.
    pub(super) fn wait_for_spare(&self, needed: u64) -> Result<Option<OwnFile>, String> {
        let mut spare = self.shared.spare.lock();
        loop {
            if spare.ready.as_ref().is_some_and(|ready| ready.bytes < needed) {
                return Ok(None);
            }
            if let Some(ready) = spare.ready.take() {
                self.shared.spare_changed.notify_all();
                return Ok(Some(ready));
            }
            // Only deletes were let in without room for them elsewhere.
            let is_starved = self.shared.starved.load(Ordering::Acquire);
            if is_starved && spare.reserve.as_ref().is_some_and(|reserve| reserve.bytes >= needed) {
                return Ok(spare.reserve.take());
            }
            // Room and descriptors come back; a disk that gives other errors need not, and waiters must hear of it.
            if let Some(refused) = spare.refused.as_ref().filter(|refused| !refused.is_passing()) {
                return Err(format!("no spare file: {}", refused.why));
            }
            if self.shared.closing.load(Ordering::Acquire) {
                drop(spare);
                // The other thread has gone or is going; its half-made file is not touched here.
                let path = self.shared.dir.join(format!("last.{PARTIAL}"));
                let bytes = fitting(
                    self.shared.disk.as_ref(),
                    &self.shared.dir,
                    needed,
                    self.shared.options.file_bytes,
                );
                return allocate(self.shared.disk.as_ref(), &path, bytes)
                    .map(Some)
                    .map_err(|e| format!("closing: {e}"));
            }
            self.shared.spare_changed.wait(&mut spare);
        }
    }

    pub(super) fn wait_for_own(&self, bytes: u64) -> Result<OwnFile, String> {
        loop {
            match self.shared.own_file(bytes) {
                Ok(own) => return Ok(own),
                Err(e)
                    if matches!(e.kind(), ErrorKind::DiskFull | ErrorKind::RejectedExecution)
                        && !self.shared.closing.load(Ordering::Acquire) =>
                {
                    std::thread::sleep(self.shared.options.retry_each);
                }
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    pub(super) fn publish_room(&self) {
        self.shared.left.store(self.file.bytes - self.offset, Ordering::Release);
    }
}

/// Says that the log has failed if its thread ends by a panic, so that nobody waits for ever.
pub(super) struct PanicGuard(Arc<Shared>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("its thread panicked");
        }
    }
}

pub(super) fn take_ordinal(heads: &mut FxHashMap<u32, Head>, index_no: u32) -> u64 {
    let head = heads.entry(index_no).or_default();
    head.next_ordinal += 1;
    head.next_ordinal - 1
}

pub(super) fn note_heads(heads: &mut FxHashMap<u32, Head>, record: &Record) {
    for participant in &record.participants {
        let head = heads.entry(participant.index_no).or_default();
        head.next_seq_no = head.next_seq_no.max(participant.next_seq_no());
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
