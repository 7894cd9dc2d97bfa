//! The bytes of the log (write-path.md 2): file headers, frames, records, heads. Numbers are
//! little-endian.
//!
//! * **File**: a header of [`FILE_HEADER_BYTES`], frames one after the other, then zeros. The header stands there twice,
//!   so that one flipped bit does not cost the file. Files of format version 1 have one header, without lengths. Between
//!   the headers stand [`FileNote`]s, which are written while the file is; older programs do not read them.
//! * **Frame**: a header with its own CRC, a body with another. Kinds: records, heads, manifest entries. The body of the
//!   log's frames ends in [`END_MARK`]: files are zero-filled and written in order, so a frame whose sectors all end in a
//!   byte that is not zero was written whole, and one that does not match its checksum then is damaged and not torn.
//! * **Record**: a header with its own CRC naming the participants, a body with another, so that of a
//!   damaged frame the whole records are still known, and of a damaged record whom it concerned.
//! * Each participant carries an **ordinal**: how many records of this run touched the index before.
//!   A lost record thus shows as a gap also if it took no sequence number.
//! * **Heads**: for each index of this run its next sequence number, mapping version and next ordinal:
//!   shows a lost record that nothing of the same index follows. A heads frame takes one byte of
//!   position, so that no two frames stand at the same position.
//!
//! Zeros are no frame: the magic is not zero. A length is believed only under a right CRC.
//!
//! Not here: files, threads, what a bad frame means (`replay`).

use super::{Part, Participant, Record};
use model::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Bytes before the first frame of a file.
pub(super) const FILE_HEADER_BYTES: u64 = 512;
/// Bytes of a frame before its body.
pub(super) const FRAME_HEADER_BYTES: usize = 56;
/// The last byte of the body of each frame of the log, behind its records or heads.
pub(super) const END_MARK: u8 = 0xa5;
/// Bytes of a frame beside its records.
pub(super) const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + 1;
/// The log's files are zero-filled; a crash leaves a sector as it was or writes it whole.
pub(super) const SECTOR_BYTES: usize = 512;
/// Longer bodies are not mended.
const MENDED_BODY_MAX_BYTES: usize = 256 << 10;
/// Headers of records with more participants are not mended.
const MENDED_HEADER_MAX_BYTES: usize = 2 << 10;
/// A frame's body has no more, unless it is a single bigger record.
pub(super) const FRAME_MAX_BYTES: u64 = 8 << 20;
/// No record is bigger; lengths are `u32`.
pub(super) const RECORD_MAX_BYTES: u64 = 1 << 29;
/// The version that this program writes.
pub(super) const FORMAT_VERSION: u32 = 2;
/// One header a file, without lengths; manifest entries without checksums. Still read.
pub(super) const FORMAT_VERSION_1: u32 = 1;
const FILE_MAGIC: [u8; 8] = *b"PLEACHLG";
/// The first bytes of a frame.
pub(super) const FRAME_MAGIC: [u8; 4] = *b"\xf7PLf";
const FILE_FIELDS_1_BYTES: usize = 8 + 4 + 16 + 8 + 8 + 8 + 8;
const FILE_FIELDS_BYTES: usize = FILE_FIELDS_1_BYTES + 8 + 8;
/// Where the second copy of a file's header stands.
const SECOND_HEADER_AT: usize = 256;
/// Where notes stand, two in turn: a crash damages one of them at most.
const NOTES_AT: [usize; 2] = [128, 384];
const NOTE_BYTES: usize = 8 + 8 + 4;
// Both copies of the header and both notes lie apart, within the header's bytes.
const _: () = assert!(
    FILE_FIELDS_BYTES + 4 <= NOTES_AT[0]
        && NOTES_AT[0] + NOTE_BYTES <= SECOND_HEADER_AT
        && SECOND_HEADER_AT + FILE_FIELDS_BYTES + 4 <= NOTES_AT[1]
        && NOTES_AT[1] + NOTE_BYTES <= FILE_HEADER_BYTES as usize,
    "2: the parts of a file's header do not overlap"
);
const PARTICIPANT_BYTES: usize = 4 + 8 + 4 + 8;
const RECORD_FIXED_BYTES: usize = 4 + 4 + 4 + 4;

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// [`FORMAT_VERSION`], or the one of an older program.
    pub(super) version: u32,
    /// The folder it belongs to.
    pub(super) folder_id: u128,
    /// Which file of the log.
    pub(super) number: u64,
    /// Which run of the process wrote it.
    pub(super) run_id: u64,
    /// Position of its first record.
    pub(super) start: u64,
    /// Where the log ended before this file: what the file before holds beyond is dead.
    pub(super) previous_end: u64,
    /// The length that the file was made with; 0: unknown (version 1, manifests).
    pub(super) allocated: u64,
    /// The length that a later start cut it to; 0: it did not.
    pub(super) cut: u64,
    /// The newest note.
    pub(super) note: FileNote,
}

/// The durable part of a file of the log, noted in it while it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FileNote {
    /// Everything below this position was synced; 0: nothing is noted.
    pub(super) synced: u64,
    /// The number of the file that follows; 0: none was begun.
    pub(super) next_file: u64,
}

impl FileNote {
    /// Its bytes. The run keeps a stale one from being taken for a note of this file.
    fn write(&self, run_id: u64) -> [u8; NOTE_BYTES] {
        let mut out = [0; NOTE_BYTES];
        out[..8].copy_from_slice(&self.synced.to_le_bytes());
        out[8..16].copy_from_slice(&self.next_file.to_le_bytes());
        let crc = self.crc(run_id);
        out[16..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn crc(&self, run_id: u64) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for number in [run_id, self.synced, self.next_file] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize()
    }

    fn read(bytes: &[u8], at: usize, run_id: u64) -> Option<FileNote> {
        let mut input = Input(bytes.get(at..at + NOTE_BYTES)?);
        let note = FileNote {
            synced: input.u64().ok()?,
            next_file: input.u64().ok()?,
        };
        (note.synced > 0 && input.u32().ok()? == note.crc(run_id)).then_some(note)
    }

    /// How far the file has come by this note.
    fn age(&self) -> (u64, u64) {
        (self.next_file, self.synced)
    }

    /// Notes this in a file whose first bytes are `head`: what to write, and where. The older of two notes gives way.
    pub(super) fn placement(&self, head: &[u8], run_id: u64) -> (u64, [u8; NOTE_BYTES]) {
        let age = |at: &usize| FileNote::read(head, *at, run_id).map(|note| note.age());
        debug_assert!(
            NOTES_AT.iter().all(|at| age(at) <= Some(self.age())),
            "2: a note never says less than the one before"
        );
        let at = if age(&NOTES_AT[0]) <= age(&NOTES_AT[1]) {
            NOTES_AT[0]
        } else {
            NOTES_AT[1]
        };
        (at as u64, self.write(run_id))
    }

    fn newest(bytes: &[u8], run_id: u64) -> FileNote {
        let notes = NOTES_AT.iter().filter_map(|at| FileNote::read(bytes, *at, run_id));
        notes.max_by_key(FileNote::age).unwrap_or_default()
    }
}

impl FileHeader {
    /// The length that the file must have at least; 0: unknown.
    pub(super) fn least_bytes(&self) -> u64 {
        if self.cut > 0 { self.cut } else { self.allocated }
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut one = Vec::with_capacity(SECOND_HEADER_AT);
        one.extend_from_slice(&FILE_MAGIC);
        one.extend_from_slice(&self.version.to_le_bytes());
        one.extend_from_slice(&self.folder_id.to_le_bytes());
        for number in [self.number, self.run_id, self.start, self.previous_end] {
            one.extend_from_slice(&number.to_le_bytes());
        }
        debug_assert_eq!(one.len(), FILE_FIELDS_1_BYTES);
        if self.version > FORMAT_VERSION_1 {
            one.extend_from_slice(&self.allocated.to_le_bytes());
            one.extend_from_slice(&self.cut.to_le_bytes());
            debug_assert_eq!(one.len(), FILE_FIELDS_BYTES);
        }
        let crc = crc32fast::hash(&one);
        one.extend_from_slice(&crc.to_le_bytes());
        let mut out = one.clone();
        if self.version > FORMAT_VERSION_1 {
            out.resize(SECOND_HEADER_AT, 0);
            out.extend_from_slice(&one);
        }
        out.resize(FILE_HEADER_BYTES as usize, 0);
        if self.note.synced > 0 {
            let note = self.note.write(self.run_id);
            out[NOTES_AT[0]..NOTES_AT[0] + NOTE_BYTES].copy_from_slice(&note);
        }
        let of = |header: &FileHeader| (header.number, header.run_id, header.start, header.previous_end);
        debug_assert!(
            FileHeader::read(&out).is_ok_and(|read| of(&read) == of(self)),
            "2: a start reads the header of a file as it was written"
        );
        out
    }

    /// Reads a header, from its second copy if the first is damaged. An unknown format version is refused by name;
    /// anything else that is wrong is corruption.
    pub(super) fn read(bytes: &[u8]) -> Result<FileHeader> {
        let first = FileHeader::read_copy(bytes);
        let second = bytes.get(SECOND_HEADER_AT..).map(FileHeader::read_copy);
        let header = match (first, second) {
            (Err(_), Some(Ok(second))) => second,
            (first, _) => first?,
        };
        let note = FileNote::newest(bytes, header.run_id);
        Ok(FileHeader { note, ..header })
    }

    fn read_copy(bytes: &[u8]) -> Result<FileHeader> {
        let mut input = Input(bytes);
        if bytes.len() < FILE_FIELDS_1_BYTES + 4 {
            return Err(corrupt(format!("a file header is cut short at byte [{}]", bytes.len())));
        }
        if input.array::<8>()? != FILE_MAGIC {
            return Err(corrupt("a file header does not begin with the log's mark, at byte [0]"));
        }
        let version = input.u32()?;
        if ![FORMAT_VERSION_1, FORMAT_VERSION].contains(&version) {
            // A damaged version is none that somebody wrote.
            if [FORMAT_VERSION_1, FORMAT_VERSION]
                .iter()
                .any(|known| is_sound_as(bytes, *known))
            {
                return Err(corrupt("a file header does not match its checksum, at byte [8]"));
            }
            let reason = format!("format version [{version}] of the log is unknown, this program writes [{FORMAT_VERSION}]");
            return Err(Error::new(ErrorKind::IllegalState, reason));
        }
        if !is_sound_as(bytes, version) {
            return Err(corrupt("a file header does not match its checksum, at byte [0]"));
        }
        let mut header = FileHeader {
            version,
            folder_id: u128::from_le_bytes(input.array()?),
            number: input.u64()?,
            run_id: input.u64()?,
            start: input.u64()?,
            previous_end: input.u64()?,
            allocated: 0,
            cut: 0,
            note: FileNote::default(),
        };
        if version > FORMAT_VERSION_1 {
            (header.allocated, header.cut) = (input.u64()?, input.u64()?);
        }
        Ok(header)
    }
}

/// Does a file header match its checksum as this version?
fn is_sound_as(bytes: &[u8], version: u32) -> bool {
    let length = if version == FORMAT_VERSION_1 {
        FILE_FIELDS_1_BYTES
    } else {
        FILE_FIELDS_BYTES
    };
    let (Some(fields), Some(crc)) = (bytes.get(..length), bytes.get(length..length + 4)) else {
        return false;
    };
    let mut fields = fields.to_vec();
    fields[8..12].copy_from_slice(&version.to_le_bytes());
    crc32fast::hash(&fields).to_le_bytes() == crc
}

/// The kind of a frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Records = 1,
    Heads = 2,
    Manifest = 3,
}

/// The header before a frame's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    pub(super) run_id: u64,
    /// Counts the run's frames from 0.
    pub(super) frame_no: u64,
    /// Position of its first byte.
    pub(super) position: u64,
    /// Everything below was synced when this frame was written.
    pub(super) synced: u64,
    /// Bytes of the body.
    pub(super) body_bytes: u32,
    /// How far it moves the position.
    pub(super) advance: u32,
    pub(super) body_crc: u32,
}

impl FrameHeader {
    pub(super) fn end(&self) -> u64 {
        self.position + u64::from(self.advance)
    }

    pub(super) fn write(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = [0; FRAME_HEADER_BYTES];
        out[..4].copy_from_slice(&FRAME_MAGIC);
        out[4] = self.kind as u8;
        out[8..16].copy_from_slice(&self.run_id.to_le_bytes());
        out[16..24].copy_from_slice(&self.frame_no.to_le_bytes());
        out[24..32].copy_from_slice(&self.position.to_le_bytes());
        out[32..40].copy_from_slice(&self.synced.to_le_bytes());
        out[40..44].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[44..48].copy_from_slice(&self.advance.to_le_bytes());
        out[48..52].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = crc32fast::hash(&out[..52]);
        out[52..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The header at the beginning of `bytes`, if there is a sound one.
    pub(super) fn read(bytes: &[u8]) -> Option<FrameHeader> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        if bytes[..4] != FRAME_MAGIC || crc32fast::hash(&bytes[..52]).to_le_bytes() != bytes[52..] {
            return None;
        }
        let kind = match bytes[4] {
            1 => FrameKind::Records,
            2 => FrameKind::Heads,
            3 => FrameKind::Manifest,
            _ => return None,
        };
        let mut input = Input(&bytes[8..]);
        let [run_id, frame_no, position, synced] = [input.u64().ok()?, input.u64().ok()?, input.u64().ok()?, input.u64().ok()?];
        let [body_bytes, advance, body_crc] = [input.u32().ok()?, input.u32().ok()?, input.u32().ok()?];
        position.checked_add(u64::from(advance))?;
        Some(FrameHeader {
            kind,
            run_id,
            frame_no,
            position,
            synced,
            body_bytes,
            advance,
            body_crc,
        })
    }

    /// As [`FrameHeader::read`], also where one bit of it is flipped: the checksum says which.
    pub(super) fn read_mended(bytes: &[u8]) -> Option<FrameHeader> {
        let mut copy: [u8; FRAME_HEADER_BYTES] = bytes.get(..FRAME_HEADER_BYTES)?.try_into().ok()?;
        (0..FRAME_HEADER_BYTES * 8).find_map(|bit| {
            copy[bit / 8] ^= 1 << (bit % 8);
            let found = FrameHeader::read(&copy);
            copy[bit / 8] ^= 1 << (bit % 8);
            found
        })
    }

    /// Was all of a frame at `at` written, whatever became of it? False also where that is unknown.
    ///
    /// Frames are written in order into zeros (`DiskFile::write_in_order_at`), so a sector that was not written whole ends
    /// in a zero. A whole one may end so as well; then only one flipped bit is known to be damage.
    pub(super) fn was_written_whole(&self, bytes: &[u8], at: usize) -> bool {
        let end = at + FRAME_HEADER_BYTES + self.body_bytes as usize;
        let Some(frame) = bytes.get(at..end) else { return false };
        let first = (SECTOR_BYTES - at % SECTOR_BYTES).min(frame.len());
        let (head, rest) = frame.split_at(first);
        let is_written = |sector: &[u8]| sector.last().is_some_and(|byte| *byte != 0);
        let body = &frame[FRAME_HEADER_BYTES..];
        let has_one_bit_flipped = || body.len() as u64 <= FRAME_MAX_BYTES && repair_one_bit(body, self.body_crc).is_some();
        is_written(head) && rest.chunks(SECTOR_BYTES).all(is_written) || has_one_bit_flipped()
    }

    /// The body behind a header at `at`, if all of it is there and matches its checksum.
    pub(super) fn body<'a>(&self, bytes: &'a [u8], at: usize) -> Option<&'a [u8]> {
        let from = at + FRAME_HEADER_BYTES;
        let body = bytes.get(from..from.checked_add(self.body_bytes as usize)?)?;
        (crc32fast::hash(body) == self.body_crc).then_some(body)
    }
}

/// Begins a frame: leaves room for its header. Gives what [`finish_frame`] wants back.
pub(super) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.resize(at + FRAME_HEADER_BYTES, 0);
    at
}

/// Fills in the header of a frame whose body has been written since [`begin_frame`].
/// `header` says all but the body's length and checksum.
pub(super) fn finish_frame(out: &mut [u8], at: usize, header: FrameHeader) {
    assert!(
        header.synced <= header.position || header.kind == FrameKind::Manifest,
        "1.3: a frame at {} says that the log is synced up to {}",
        header.position,
        header.synced
    );
    let body = &out[at + FRAME_HEADER_BYTES..];
    let body_bytes = u32::try_from(body.len()).expect("a frame's body is bounded by the record limit");
    let header = FrameHeader {
        body_bytes,
        body_crc: crc32fast::hash(body),
        ..header
    };
    out[at..at + FRAME_HEADER_BYTES].copy_from_slice(&header.write());
}

impl Record {
    /// Its bytes in the log: what to reserve, and how far it moves the position. No frame counted.
    pub fn log_bytes(&self) -> u64 {
        let key = self.idempotency_key.as_ref().map_or(0, |key| 4 + key.len());
        let parts: usize = self.parts.iter().map(part_bytes).sum();
        (RECORD_FIXED_BYTES + PARTICIPANT_BYTES * self.participants.len() + 1 + key + 4 + parts) as u64
    }

    /// Appends the record; `ordinal_of` gives the ordinal for each participant, called once for each.
    pub(super) fn write(&self, out: &mut Vec<u8>, mut ordinal_of: impl FnMut(u32) -> u64) {
        let at = out.len();
        put_u32(out, 0); // length, below
        put_u32(out, self.participants.len() as u32);
        for participant in &self.participants {
            put_u32(out, participant.index_no);
            put_u64(out, participant.first_seq_no);
            put_u32(out, participant.count);
            put_u64(out, ordinal_of(participant.index_no));
        }
        let crcs = out.len();
        put_u64(out, 0); // both CRCs, below
        let body = out.len();
        out.push(u8::from(self.idempotency_key.is_some()));
        if let Some(key) = &self.idempotency_key {
            put_bytes(out, key.as_bytes());
        }
        put_u32(out, self.parts.len() as u32);
        for part in &self.parts {
            write_part(out, part);
        }
        let bytes = out.len() - at;
        assert_eq!(
            bytes as u64,
            self.log_bytes(),
            "2: a record takes the bytes that its position says"
        );
        assert!(
            u32::try_from(bytes).is_ok(),
            "2: the length of a record is 32 bits, and this one has {bytes} bytes"
        );
        debug_assert!(
            self.participants
                .iter()
                .enumerate()
                .all(|(n, one)| self.participants[..n].iter().all(|other| other.index_no != one.index_no)),
            "2: a record counts once for each index, and takes one ordinal of it"
        );
        out[at..at + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
        let body_crc = crc32fast::hash(&out[body..]);
        out[crcs..crcs + 4].copy_from_slice(&body_crc.to_le_bytes());
        let header_crc = crc32fast::hash(&out[at..crcs + 4]);
        out[crcs + 4..body].copy_from_slice(&header_crc.to_le_bytes());
        debug_assert!(
            RawRecord::read(&out[at..]).is_some_and(|raw| raw.record().is_ok_and(|read| read == *self)),
            "2: a start reads a record as it was written: {self:?}"
        );
    }
}

/// A record as it lies in a frame: its header read, its body not yet.
#[derive(Debug)]
pub(super) struct RawRecord<'a> {
    /// With the ordinal of each.
    pub(super) participants: Vec<(Participant, u64)>,
    /// All its bytes.
    pub(super) bytes: u32,
    /// Its body, if that matches its checksum.
    body: Option<Cow<'a, [u8]>>,
}

/// The header of a record.
struct RecordHeader {
    participants: Vec<(Participant, u64)>,
    /// Bytes of the record.
    length: u32,
    body_crc: u32,
    /// Bytes of the header, its checksums among them.
    bytes: usize,
}

impl RecordHeader {
    fn read(bytes: &[u8]) -> Option<RecordHeader> {
        let mut input = Input(bytes);
        let length = input.u32().ok()?;
        let count = input.u32().ok()? as usize;
        let header_bytes = 8usize.checked_add(count.checked_mul(PARTICIPANT_BYTES)?)?.checked_add(4)?;
        let header = bytes.get(..header_bytes)?;
        let mut participants = Vec::with_capacity(count);
        for _ in 0..count {
            let participant = Participant {
                index_no: input.u32().ok()?,
                first_seq_no: input.u64().ok()?,
                count: input.u32().ok()?,
            };
            participants.push((participant, input.u64().ok()?));
        }
        let body_crc = input.u32().ok()?;
        if input.u32().ok()? != crc32fast::hash(header) || (length as usize) < header_bytes + 4 {
            return None;
        }
        Some(RecordHeader {
            participants,
            length,
            body_crc,
            bytes: header_bytes + 4,
        })
    }

    /// As [`RecordHeader::read`], also where one bit is flipped: the checksum says which.
    fn read_mended(bytes: &[u8]) -> Option<RecordHeader> {
        let mut copy = bytes[..bytes.len().min(MENDED_HEADER_MAX_BYTES)].to_vec();
        let mut flipped = |bit: usize| {
            *copy.get_mut(bit / 8)? ^= 1 << (bit % 8);
            let found = RecordHeader::read(&copy);
            copy[bit / 8] ^= 1 << (bit % 8);
            found
        };
        // The count says how long the header is, unless it is what is damaged.
        let count = bytes
            .get(4..8)
            .and_then(|count| count.try_into().ok())
            .map(u32::from_le_bytes)?;
        let most = (16 + PARTICIPANT_BYTES.saturating_mul(count as usize)).min(MENDED_HEADER_MAX_BYTES);
        (0..64).chain(64..most * 8).find_map(&mut flipped)
    }
}

impl<'a> RawRecord<'a> {
    /// The record at the beginning of `bytes`, if its header is sound. Its body need not be.
    pub(super) fn read(bytes: &'a [u8]) -> Option<RawRecord<'a>> {
        RecordHeader::read(bytes).map(|header| RawRecord::behind(header, bytes))
    }

    /// As [`RawRecord::read`], also where one bit of the header is flipped, or of the body of a record that may make an
    /// index: without it nobody would know the name of what is lost. For frames that do not match their checksum.
    pub(super) fn read_mended(bytes: &'a [u8]) -> Option<RawRecord<'a>> {
        let header = RecordHeader::read(bytes).or_else(|| RecordHeader::read_mended(bytes))?;
        let (from, to, body_crc) = (header.bytes, header.length as usize, header.body_crc);
        let mut record = RawRecord::behind(header, bytes);
        let makes = |(participant, _): &(Participant, u64)| participant.count == 0 || participant.first_seq_no == 0;
        if record.body.is_none() && to - from <= MENDED_BODY_MAX_BYTES && record.participants.iter().any(makes) {
            record.body = bytes
                .get(from..to)
                .and_then(|body| repair_one_bit(body, body_crc))
                .map(Cow::Owned);
        }
        Some(record)
    }

    fn behind(header: RecordHeader, bytes: &'a [u8]) -> RawRecord<'a> {
        debug_assert!(
            header.bytes <= header.length as usize,
            "2: a record of {} bytes has a header of {}",
            header.length,
            header.bytes
        );
        let body = bytes
            .get(header.bytes..header.length as usize)
            .filter(|body| crc32fast::hash(body) == header.body_crc)
            .map(Cow::Borrowed);
        RawRecord {
            participants: header.participants,
            bytes: header.length,
            body,
        }
    }

    /// Whether the body matches its checksum.
    pub(super) fn is_whole(&self) -> bool {
        self.body.is_some()
    }

    /// The record itself; corruption if its body is not sound.
    pub(super) fn record(&self) -> Result<Record> {
        let body = self.body.as_deref();
        let mut input = Input(body.ok_or_else(|| corrupt("a record does not match its checksum"))?);
        let idempotency_key = match input.u8()? {
            0 => None,
            _ => Some(input.text()?.to_owned()),
        };
        let count = input.u32()?;
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(read_part(&mut input)?);
        }
        if !input.0.is_empty() {
            return Err(corrupt("a record is longer than its parts"));
        }
        let participants = self.participants.iter().map(|(participant, _)| *participant).collect();
        Ok(Record {
            participants,
            parts,
            idempotency_key,
        })
    }
}

/// The bytes with the one bit flipped back that makes them match their CRC, if there is such a bit. The CRC is linear: what a
/// bit changes in it depends on the bit's distance from the end alone.
fn repair_one_bit(bytes: &[u8], crc: u32) -> Option<Vec<u8>> {
    let wanted = crc32fast::hash(bytes) ^ crc;
    for bit in 0..8 {
        let mut change = crc_step(1 << bit);
        for at in (0..bytes.len()).rev() {
            if change == wanted {
                let mut out = bytes.to_vec();
                out[at] ^= 1 << bit;
                return (crc32fast::hash(&out) == crc).then_some(out);
            }
            change = (change >> 8) ^ crc_step((change & 0xff) as u8);
        }
    }
    None
}

/// The part that a byte adds to a CRC-32 (IEEE 802.3, reflected) of zero.
fn crc_step(byte: u8) -> u32 {
    (0..8).fold(u32::from(byte), |crc, _| {
        (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
    })
}

/// How far an index has come in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Head {
    /// One above the last sequence number.
    pub(super) next_seq_no: u64,
    /// The highest mapping version that a document was read under.
    pub(super) mapping_version: u64,
    /// The ordinal that the next record has.
    pub(super) next_ordinal: u64,
}

/// Bytes of a heads frame's body for `count` indices.
pub(super) fn heads_bytes(count: usize) -> usize {
    4 + 28 * count
}

/// Appends the body of a heads frame.
pub(super) fn write_heads<'a>(out: &mut Vec<u8>, heads: impl ExactSizeIterator<Item = (&'a u32, &'a Head)>) {
    let (at, count) = (out.len(), heads.len());
    put_u32(out, count as u32);
    for (index_no, head) in heads {
        put_u32(out, *index_no);
        put_u64(out, head.next_seq_no);
        put_u64(out, head.mapping_version);
        put_u64(out, head.next_ordinal);
    }
    assert_eq!(
        out.len() - at,
        heads_bytes(count),
        "2: heads take the room that was kept for them"
    );
    debug_assert!(
        read_heads(&out[at..]).is_ok_and(|read| read.len() == count),
        "2: a start reads each of the heads that were written"
    );
}

/// Reads the body of a heads frame.
pub(super) fn read_heads(body: &[u8]) -> Result<Vec<(u32, Head)>> {
    let mut input = Input(body);
    let count = input.u32()?;
    let mut heads = Vec::new();
    for _ in 0..count {
        let index_no = input.u32()?;
        heads.push((
            index_no,
            Head {
                next_seq_no: input.u64()?,
                mapping_version: input.u64()?,
                next_ordinal: input.u64()?,
            },
        ));
    }
    Ok(heads)
}

/// Appends an entry of a manifest of version 1; `None` removes the key.
pub(super) fn write_entry_1(out: &mut Vec<u8>, key: &str, value: Option<&[u8]>) {
    put_bytes(out, key.as_bytes());
    put_optional(out, value);
}

/// The entries of a manifest frame's body, version 1.
pub(super) fn read_entries_1(body: &[u8]) -> Result<Vec<(String, Option<Vec<u8>>)>> {
    let mut input = Input(body);
    let mut entries = Vec::new();
    while !input.0.is_empty() {
        let key = input.text()?.to_owned();
        entries.push((key, input.optional()?.map(<[u8]>::to_vec)));
    }
    Ok(entries)
}

/// A damage as an error.
pub(super) fn corrupt(reason: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corruption, reason)
}

const ALTER: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;

fn part_bytes(part: &Part) -> usize {
    let optional = |bytes: Option<usize>| 1 + bytes.map_or(0, |bytes| 4 + bytes);
    match part {
        Part::Alter { delta, .. } => 1 + 4 + 4 + delta.len(),
        Part::Put {
            uid,
            routing,
            hidden,
            source,
            ..
        } => {
            let optionals = optional(routing.as_ref().map(|r| r.len())) + optional(hidden.as_ref().map(Vec::len));
            1 + 4 + 8 * 4 + 4 + uid.len() + optionals + 4 + source.len()
        }
        Part::Delete { uid, hidden, .. } => 1 + 4 + 8 * 3 + 4 + uid.len() + optional(hidden.as_ref().map(Vec::len)),
    }
}

fn write_part(out: &mut Vec<u8>, part: &Part) {
    match part {
        Part::Alter { index_no, delta } => {
            out.push(ALTER);
            put_u32(out, *index_no);
            put_bytes(out, delta);
        }
        Part::Put {
            index_no,
            seq_no,
            version,
            term,
            mapping_version,
            uid,
            routing,
            hidden,
            source,
        } => {
            out.push(PUT);
            put_u32(out, *index_no);
            for number in [seq_no, version, term, mapping_version] {
                put_u64(out, *number);
            }
            put_bytes(out, uid.as_bytes());
            put_optional(out, routing.as_ref().map(|r| r.as_bytes()));
            put_optional(out, hidden.as_deref());
            put_bytes(out, source);
        }
        Part::Delete {
            index_no,
            seq_no,
            version,
            term,
            uid,
            hidden,
        } => {
            out.push(DELETE);
            put_u32(out, *index_no);
            for number in [seq_no, version, term] {
                put_u64(out, *number);
            }
            put_bytes(out, uid.as_bytes());
            put_optional(out, hidden.as_deref());
        }
    }
}

fn read_part(input: &mut Input<'_>) -> Result<Part> {
    let tag = input.u8()?;
    let index_no = input.u32()?;
    Ok(match tag {
        ALTER => Part::Alter {
            index_no,
            delta: input.bytes()?.to_vec(),
        },
        PUT => Part::Put {
            index_no,
            seq_no: input.u64()?,
            version: input.u64()?,
            term: input.u64()?,
            mapping_version: input.u64()?,
            uid: input.text()?.into(),
            routing: input.optional()?.map(text).transpose()?.map(Into::into),
            hidden: input.optional()?.map(<[u8]>::to_vec),
            source: input.bytes()?.into(),
        },
        DELETE => Part::Delete {
            index_no,
            seq_no: input.u64()?,
            version: input.u64()?,
            term: input.u64()?,
            uid: input.text()?.into(),
            hidden: input.optional()?.map(<[u8]>::to_vec),
        },
        _ => {
            return Err(corrupt(format!("a record has a part of the unknown kind [{tag}]")));
        }
    })
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    out.push(u8::from(bytes.is_some()));
    if let Some(bytes) = bytes {
        put_bytes(out, bytes);
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| corrupt("a text in the log is no UTF-8"))
}

/// The bytes that are left to read; every method refuses to read past the end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, left) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| corrupt("the log's bytes are cut short"))?;
        self.0 = left;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.u32()? as usize;
        self.take(count)
    }
    fn optional(&mut self) -> Result<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Ok(None),
            _ => self.bytes().map(Some),
        }
    }
    fn text(&mut self) -> Result<&'a str> {
        text(self.bytes()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_flipped_bit_is_found() {
        let bytes: Vec<u8> = (0..300u32).map(|n| (n * 7) as u8).collect();
        let crc = crc32fast::hash(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(repair_one_bit(&flipped, crc).as_ref(), Some(&bytes), "bit {bit}");
            flipped[(bit / 8 + 100) % 300] ^= 0x10;
            assert_eq!(repair_one_bit(&flipped, crc), None, "two bits are damage");
        }
    }
}
