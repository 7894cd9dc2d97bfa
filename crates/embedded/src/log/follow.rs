//! Reading the log behind its writer: whole records, in order, from any position that is kept.
//!
//! Only frames below the durable position are read, so a frame that is not sound is damage and never a torn tail.
//! A reader that goes on where it stopped finds its place without a search: the last places are kept
//! ([`Places`]). Any other position is found by the frame headers of one file.
//!
//! Not here: the log as a start finds it (`replay`), what records mean.

use super::append::Log;
use super::format::{FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, RawRecord, corrupt};
use super::replay::{LogFile, Replayed};
use crate::lock_order::Mutex;
use disk::{DiskFile, refusal};
use model::Result;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Records behind a position.
#[derive(Debug, Default)]
pub struct Followed {
    /// In order; each begins at the position asked for or later.
    pub records: Vec<Replayed>,
    /// Where to go on: no record begins between the last one and here.
    pub next: u64,
}

/// Places of readers that are kept.
const PLACES: usize = 64;
/// Bytes of a file that are read at once: first so many, as a reader that follows needs them, then up to [`WINDOW_BYTES_MAX`].
const WINDOW_BYTES: usize = 16 << 10;
/// The most of it, for a reader that catches up.
const WINDOW_BYTES_MAX: usize = 256 << 10;

/// Where a frame begins.
#[derive(Clone, Copy, Debug)]
struct FramePlace {
    /// The number of the file.
    number: u64,
    /// In the file.
    offset: u64,
    /// In the log.
    position: u64,
}

/// Where readers stopped, the newest last.
pub(super) struct Places(Mutex<VecDeque<FramePlace>>);

impl Default for Places {
    fn default() -> Places {
        Places(Mutex::leaf(VecDeque::new()))
    }
}

impl Places {
    /// The last known frame of a file that does not begin behind the position.
    fn find(&self, number: u64, position: u64) -> Option<FramePlace> {
        let places = self.0.lock();
        let before = places
            .iter()
            .filter(|place| place.number == number && place.position <= position);
        before.max_by_key(|place| place.position).copied()
    }

    fn note(&self, place: FramePlace) {
        let mut places = self.0.lock();
        places.retain(|known| known.position != place.position);
        if places.len() >= PLACES {
            places.pop_front();
        }
        places.push_back(place);
    }
}

impl Log {
    /// The lowest position from which [`Log::read_after`] can go on.
    pub fn oldest_position(&self) -> u64 {
        let files = self.readable_files();
        match files.first() {
            // Before the first file nothing was ever written.
            Some(first) if first.number == 1 => 0,
            Some(first) => first.start,
            None => self.durable_position(),
        }
    }

    /// Durable records that begin at `since` or later: until their frames have `bytes_max` bytes together, but at least one
    /// if there is one. `None`: some of them lie in files that are gone.
    ///
    /// # Errors
    /// Internal: the disk. Corruption: a durable frame is not sound.
    pub fn read_after(&self, since: u64, bytes_max: u64) -> Result<Option<Followed>> {
        let durable = self.durable_position();
        let mut followed = Followed {
            records: Vec::new(),
            next: since,
        };
        if since >= durable {
            return Ok(Some(followed));
        }
        if since < self.oldest_position() {
            return Ok(None);
        }
        let mut bytes = 0;
        let is_before = |file: &LogFile| file.end.is_some_and(|end| end <= since);
        for file in self.readable_files().iter().skip_while(|file| is_before(file)) {
            match self.read_file(file, durable, bytes_max, &mut bytes, &mut followed) {
                Ok(is_full) if is_full => break,
                Ok(_) => {}
                // It was given up meanwhile.
                Err(FollowError::Gone) if followed.records.is_empty() => return Ok(None),
                Err(FollowError::Gone) => break,
                Err(FollowError::Failed(error)) => return Err(error),
            }
        }
        debug_assert!(
            followed.records.windows(2).all(|two| two[0].end <= two[1].start)
                && followed.records.first().is_none_or(|first| first.start >= since),
            "1.1: the feed has records in the order of the log"
        );
        Ok(Some(followed))
    }

    /// Reads on in one file; true: there is enough.
    fn read_file(
        &self,
        file: &LogFile,
        durable: u64,
        bytes_max: u64,
        bytes: &mut u64,
        followed: &mut Followed,
    ) -> Result<bool, FollowError> {
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::NotFound => FollowError::Gone,
            _ => FollowError::Failed(refusal("reading the log", &file.path, &cause)),
        };
        let mut window = Window::new(self.disk().open(&file.path).map_err(failed)?);
        let header = FileHeader::read(&window.header().map_err(failed)?).map_err(FollowError::Failed)?;
        let end = file.end.unwrap_or(durable).min(durable);
        let since = followed.next;
        let mut place = self.places().find(file.number, since).unwrap_or(FramePlace {
            number: file.number,
            offset: FILE_HEADER_BYTES,
            position: header.start,
        });
        while place.position < end {
            let frame = FrameHeader::read(window.bytes(place.offset, FRAME_HEADER_BYTES).map_err(failed)?)
                .filter(|frame| frame.run_id == header.run_id && frame.position == place.position)
                .ok_or_else(|| damage_error(file, place.offset))?;
            let length = FRAME_HEADER_BYTES + frame.body_bytes as usize;
            if frame.kind == FrameKind::Records && frame.end() > since {
                let content = window.bytes(place.offset, length).map_err(failed)?;
                let body = frame.body(content, 0).ok_or_else(|| damage_error(file, place.offset))?;
                records(body, &frame, since, &mut followed.records).ok_or_else(|| damage_error(file, place.offset))?;
                *bytes += length as u64;
            }
            place.offset += length as u64;
            place.position = frame.end();
            followed.next = followed.next.max(place.position);
            if *bytes >= bytes_max {
                self.places().note(place);
                return Ok(true);
            }
        }
        assert!(
            place.position <= durable,
            "1.4: records are read up to {}, and only {durable} is durable",
            place.position
        );
        // A file that a start made begins behind the last one, and may have no record yet.
        followed.next = followed.next.max(place.position);
        if file.end.is_none() {
            self.places().note(place);
        }
        Ok(false)
    }
}

/// Why a file was not read to its end.
enum FollowError {
    /// It is not there any more.
    Gone,
    Failed(model::Error),
}

fn damage_error(file: &LogFile, offset: u64) -> FollowError {
    let path = disk::display_path(&file.path);
    FollowError::Failed(corrupt(format!(
        "[{path}] is damaged at byte [{offset}]: the feed cannot go on there"
    )))
}

/// Adds the records of a frame that begin at `since` or later; `None` if one is not sound.
fn records(body: &[u8], frame: &FrameHeader, since: u64, out: &mut Vec<Replayed>) -> Option<()> {
    let (mut at, mut position) = (0, frame.position);
    while position < frame.end() {
        let raw = RawRecord::read(body.get(at..)?)?;
        let end = position + u64::from(raw.bytes);
        if position >= since {
            out.push(Replayed {
                start: position,
                end,
                record: raw.record().ok()?,
            });
        }
        (at, position) = (at + raw.bytes as usize, end);
    }
    (position == frame.end()).then_some(())
}

/// A part of a file in memory.
struct Window {
    file: Arc<dyn DiskFile>,
    at: u64,
    content: Vec<u8>,
    /// Bytes of the next read.
    next_bytes: usize,
}

impl Window {
    fn new(file: Arc<dyn DiskFile>) -> Window {
        Window {
            file,
            at: 0,
            content: Vec::new(),
            next_bytes: WINDOW_BYTES,
        }
    }

    /// The header of the file, fewer bytes only if it is shorter.
    fn header(&self) -> io::Result<Vec<u8>> {
        let mut head = vec![0; FILE_HEADER_BYTES as usize];
        let read = self.file.read_at(&mut head, 0)?;
        head.truncate(read);
        Ok(head)
    }

    /// So many bytes at `offset`, fewer only at the file's end.
    fn bytes(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let is_inside = offset >= self.at && offset + length as u64 <= self.at + self.content.len() as u64;
        if !is_inside {
            self.content.resize(length.max(self.next_bytes), 0);
            self.next_bytes = (self.next_bytes * 4).min(WINDOW_BYTES_MAX);
            let read = self.file.read_at(&mut self.content, offset)?;
            self.content.truncate(read);
            self.at = offset;
        }
        let from = (offset - self.at) as usize;
        Ok(&self.content[from..self.content.len().min(from + length)])
    }
}
