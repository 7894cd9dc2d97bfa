//! Reading the two manifests of a folder: what each holds, and what both together come to.
//!
//! Every change has a number (`seq`) that both files carry. A file that is whole and has the newest number is enough.
//! In a damaged one each entry that still matches its checksum counts; the others come from the second file. An entry
//! that is damaged in both is lost, and costs the part that it describes.
//!
//! A bad frame at the end of a file is a torn tail, unless the other file has that change, or a bad frame in its place:
//! the second file is written after the first is synced, so no crash tears both.
//!
//! Not here: writing.

use super::entries::{Entry, read_entries, salvage};
use crate::log::format::{
    FILE_HEADER_BYTES, FORMAT_VERSION_1, FRAME_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, corrupt, read_entries_1,
};
use crate::log::replay::zeros_at_end;
use disk::display_path;
use model::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The content of one file.
pub(super) struct FileContent {
    pub(super) path: PathBuf,
    pub(super) header: FileHeader,
    /// Where its sound frames end.
    pub(super) end: u64,
    pub(super) frame_no: u64,
    /// The number of its last change.
    pub(super) seq: u64,
    /// For each key the number of its last change and its entry.
    known: BTreeMap<String, (u64, Entry)>,
    /// Changes of unknown keys are lost: the number of the last of them, and where.
    gap: Option<(u64, String)>,
    /// Something in it is damaged.
    pub(super) damages: Vec<String>,
    /// The bytes behind the sound frames.
    pub(super) tail: Option<BadFrame>,
    /// Where the last frame begins, and its bytes.
    pub(super) last: (u64, Vec<u8>),
}

/// A frame that does not match its checksum.
pub(super) struct BadFrame {
    at: usize,
    /// Bytes from there that are not zero.
    pub(super) bytes: u64,
    /// The entries that are left.
    entries: Vec<(String, Entry)>,
    gaps: bool,
}

/// The content of all files of a folder together.
pub(super) struct Merged {
    pub(super) seq: u64,
    pub(super) live: BTreeMap<String, Entry>,
    /// Entries of unknown keys are lost.
    pub(super) unknown: Option<Error>,
}

/// Reads a file. Errors: Corruption (its header), IllegalState (unknown format version).
pub(super) fn read(path: &Path, content: &[u8]) -> Result<FileContent> {
    let header = FileHeader::read(content).map_err(|e| in_file(path, &e))?;
    let mut out = FileContent {
        path: path.to_owned(),
        header,
        end: FILE_HEADER_BYTES,
        frame_no: 0,
        seq: 0,
        known: BTreeMap::new(),
        gap: None,
        damages: Vec::new(),
        tail: None,
        last: (FILE_HEADER_BYTES, Vec::new()),
    };
    let written = content.len() - zeros_at_end(content);
    while (out.end as usize) < written {
        let at = out.end as usize;
        let sound = FrameHeader::read(&content[at..]).filter(|frame| out.is_next(frame));
        if let Some((frame, body)) = sound.and_then(|frame| Some((frame, frame.body(content, at)?))) {
            out.take(&frame, at, body)?;
            continue;
        }
        let next = (at + 1..written).find_map(|offset| {
            let later = FrameHeader::read(&content[offset..])?;
            (later.run_id == header.run_id && later.position == offset as u64).then_some((offset, later))
        });
        let body_end = sound.map_or(written, |frame| at + FRAME_HEADER_BYTES + frame.body_bytes as usize);
        let body_end = next.map_or(body_end, |(offset, _)| body_end.min(offset)).min(content.len());
        let mut bad = out.bad_frame(at, &content[(at + FRAME_HEADER_BYTES).min(body_end)..body_end], written);
        let Some((offset, later)) = next else {
            out.tail = Some(bad);
            break;
        };
        // A frame behind it was written after it was synced.
        let before = out.seq_of(&later).saturating_sub(1);
        let seq = sound.map_or(before, |frame| out.seq_of(&frame)).max(out.seq);
        bad.gaps |= body_end < offset;
        out.take_bad(bad, seq);
        (out.end, out.frame_no) = (offset as u64, later.frame_no);
    }
    Ok(out)
}

impl FileContent {
    fn is_next(&self, frame: &FrameHeader) -> bool {
        frame.kind == FrameKind::Manifest
            && frame.run_id == self.header.run_id
            && frame.position == self.end
            && frame.frame_no == self.frame_no
    }

    /// Version 1 has no numbers: its frames are counted.
    fn seq_of(&self, frame: &FrameHeader) -> u64 {
        match self.header.version {
            FORMAT_VERSION_1 => frame.frame_no + 1,
            _ => frame.synced,
        }
    }

    fn take(&mut self, frame: &FrameHeader, at: usize, body: &[u8]) -> Result<()> {
        let seq = self.seq_of(frame);
        let entries = match self.header.version {
            FORMAT_VERSION_1 => read_entries_1(body).map(|all| {
                let entry = |value: Option<Vec<u8>>| value.map_or(Entry::Removed, Entry::Value);
                all.into_iter().map(|(key, value)| (key, entry(value))).collect()
            }),
            _ => read_entries(body),
        };
        for (key, entry) in entries.map_err(|e| in_file(&self.path, &e))? {
            self.known.insert(key, (seq, entry));
        }
        let bytes = FRAME_HEADER_BYTES + body.len();
        let mut whole = Vec::with_capacity(bytes);
        whole.extend_from_slice(&frame.write());
        whole.extend_from_slice(body);
        self.last = (at as u64, whole);
        self.end = at as u64 + bytes as u64;
        (self.frame_no, self.seq) = (frame.frame_no + 1, seq);
        Ok(())
    }

    fn bad_frame(&self, at: usize, body: &[u8], written: usize) -> BadFrame {
        let (found, gaps) = match self.header.version {
            FORMAT_VERSION_1 => (Vec::new(), true),
            _ => salvage(body),
        };
        let entries = found.into_iter().map(|found| {
            let damaged = || {
                Entry::Damaged(format!(
                    "the entry [{}] of the manifest is damaged at byte [{}] of [{}]",
                    found.key,
                    at + FRAME_HEADER_BYTES + found.at,
                    display_path(&self.path)
                ))
            };
            (found.key.clone(), found.entry.clone().unwrap_or_else(damaged))
        });
        BadFrame {
            at,
            bytes: (written - at) as u64,
            entries: entries.collect(),
            gaps,
        }
    }

    fn take_bad(&mut self, bad: BadFrame, seq: u64) {
        let place = format!("the manifest [{}] is damaged at byte [{}]", display_path(&self.path), bad.at);
        for (key, entry) in bad.entries {
            self.known.insert(key, (seq, entry));
        }
        if bad.gaps {
            self.gap = Some((seq, place.clone()));
        }
        self.damages.push(place);
        self.seq = self.seq.max(seq);
    }

    /// All of it is there.
    pub(super) fn is_sound(&self) -> bool {
        self.damages.is_empty()
    }

    /// The entry of a key; an error with the number up to which it is damaged.
    fn state(&self, key: &str) -> Result<Entry, (u64, String)> {
        let known = self.known.get(key);
        let seq = known.map_or(0, |(seq, _)| *seq);
        match (known, &self.gap) {
            (_, Some((lost, place))) if *lost >= seq => Err((*lost, place.clone())),
            // Found in this file or lost long ago: another file may have it.
            (Some((seq, Entry::Damaged(reason))), _) => Err((*seq, reason.clone())),
            (Some((_, entry)), _) => Ok(entry.clone()),
            (None, _) => Ok(Entry::Removed),
        }
    }
}

/// The content of one or two files together; `None` without any.
pub(super) fn merge(files: &mut [FileContent]) -> Option<Merged> {
    assert!(
        files.len() <= 2,
        "7: a manifest has two files, and [{}] are read",
        files.len()
    );
    if let [one, other] = files
        && one.seq == other.seq
        && one.tail.is_some()
        && other.tail.is_some()
    {
        let seq = one.seq + 1;
        for file in [one, other] {
            if let Some(bad) = file.tail.take() {
                file.take_bad(bad, seq);
            }
        }
    }
    let newest = files.iter().max_by_key(|file| (file.seq, file.is_sound()))?;
    let other = files.iter().find(|file| file.path != newest.path);
    let keys: BTreeSet<&String> = files.iter().flat_map(|file| file.known.keys()).collect();
    let mut live = BTreeMap::new();
    for key in keys {
        let entry = newest.state(key).unwrap_or_else(|(seq, reason)| {
            let spare = other.filter(|other| other.seq >= seq).and_then(|other| other.state(key).ok());
            spare.unwrap_or(Entry::Damaged(reason))
        });
        if entry != Entry::Removed {
            live.insert(key.clone(), entry);
        }
    }
    // Without a gap in one of them every key is known.
    let unknown = newest.gap.as_ref().filter(|(seq, _)| {
        let covers = |other: &FileContent| other.seq >= *seq && other.gap.is_none();
        !other.is_some_and(covers)
    });
    Some(Merged {
        seq: newest.seq,
        live,
        unknown: unknown.map(|(_, place)| corrupt(place.clone())),
    })
}

pub(super) fn in_file(path: &Path, cause: &Error) -> Error {
    Error::new(
        cause.kind(),
        format!("the manifest [{}]: {}", display_path(path), cause.reason()),
    )
}
