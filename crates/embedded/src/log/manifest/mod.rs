//! The manifest: a small durable map from keys to bytes; what is durable of every index.
//!
//! It lies in two files, written in turn: a change is appended to the first and synced, which makes it durable, then to
//! the second. A folder opens with either; what is damaged in one is taken from the other, entry by entry, and an entry
//! that is damaged in both costs the part that it describes (`read`).
//!
//! A file consists of the log's frames: one frame holds all of one [`Manifest::write`], so that is whole or not there,
//! and carries the number of the change. When a file has grown to four times what lives in it, it is rewritten:
//! temporary file, sync, rename, sync of the folder (write-path.md 7). Zeros are written ahead of need, so that
//! changes find room on a full disk.
//!
//! Invariant: a file in use has no bytes of a torn tail: an open that finds some overwrites them with zeros, so that no
//! stale frame comes to lie behind a new one.
//!
//! Not here: what entries mean. `disk::RealDisk` and one process are assumed (`FolderLock`).

mod entries;
mod read;

use super::format::{
    FILE_HEADER_BYTES, FORMAT_VERSION, FORMAT_VERSION_1, FRAME_HEADER_BYTES, FileHeader, FileNote, FrameHeader, FrameKind,
    begin_frame, corrupt, finish_frame, write_entry_1,
};
use crate::lock_order::{LockRank, Mutex};
use disk::{Disk, DiskFile, display_path, is_full, refusal, sync_dir_patiently};
use entries::{Entry, entry_bytes, read_entries, write_entry};
use model::{Error, ErrorKind, Result};
use read::{FileContent, Merged, merge};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// In the order in which they are written.
const NAMES: [&str; 2] = ["manifest", "manifest-2"];
const TEMPORARY: &str = "manifest.partial";
/// Below this a rewrite is not worth two syncs.
const REWRITE_MIN_BYTES: u64 = 64 << 10;
/// A frame of a rewrite ends when it has so many bytes.
const REWRITE_FRAME_BYTES: usize = 4 << 20;
/// Zeros that are written behind the last frame.
const AHEAD_BYTES: usize = 64 << 10;

/// How often and how long a rewrite waits for a descriptor: after its rename it cannot be taken back.
const SHORT_OF_HANDLES_EACH: Duration = Duration::from_millis(100);
const SHORT_OF_HANDLES_MOST: Duration = Duration::from_secs(30);

/// A small durable map. Every method may be called from any thread; writes are one after the other.
pub struct Manifest {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    folder_id: u128,
    state: Mutex<State>,
}

/// The entries that an open found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManifestEntries {
    /// By key.
    pub live: BTreeMap<String, Vec<u8>>,
    /// Keys whose bytes are lost in both files, and why.
    pub damaged: BTreeMap<String, Error>,
    /// Entries whose keys nobody knows are lost in both files.
    pub unknown: Option<Error>,
    /// Damage that cost nothing, as the other file has it; in words.
    pub mended: Vec<String>,
    /// There was no manifest.
    pub is_new: bool,
}

#[derive(Default)]
struct State {
    /// `None`: it lacks changes, and is rewritten as soon as that works.
    files: [Option<Written>; 2],
    /// The number of the last change.
    seq: u64,
    /// Counts rewrites.
    number: u64,
    live: BTreeMap<String, Entry>,
    live_bytes: u64,
    failed: Option<Error>,
}

/// A file that has every change.
struct Written {
    file: Arc<dyn DiskFile>,
    header: FileHeader,
    /// Where the next frame goes: the file's sound bytes.
    end: u64,
    frame_no: u64,
    /// Bytes that were written, zeros ahead among them.
    room: u64,
}

/// A failed write of one file.
enum Failure {
    /// Nothing changed.
    Full(io::Error),
    /// Nobody knows what is on the disk.
    Unknown(io::Error),
}

impl Manifest {
    /// Does a folder have one?
    pub fn is_in(dir: &Path, disk: &dyn Disk) -> bool {
        NAMES.iter().any(|name| disk.len(&dir.join(name)).is_ok())
    }

    /// Opens the manifest in `dir` or makes an empty one with a new folder id; gives its entries. Makes both files
    /// whole again, as far as there is room.
    /// Errors: Corruption (no file is readable), IllegalState (unknown format version, files of two folders),
    /// DiskFull, Internal.
    pub fn open(dir: &Path, disk: Arc<dyn Disk>) -> Result<(Manifest, ManifestEntries)> {
        disk.create_dir(dir).map_err(|e| refusal("making", dir, &e))?;
        let mut found = find(disk.as_ref(), dir)?;
        let Some(merged) = merge(&mut found.contents) else {
            // One that cannot be read is not overwritten by an empty one.
            if let Some(refused) = found.unreadable {
                return Err(refused);
            }
            return Manifest::create(dir, disk);
        };
        if let [one, other] = &found.contents[..]
            && one.header.folder_id != other.header.folder_id
        {
            let reason = format!(
                "[{}] belongs to another data folder than [{}]",
                display_path(&other.path),
                display_path(&one.path)
            );
            return Err(Error::new(ErrorKind::IllegalState, reason));
        }
        let Merged { seq, live, unknown } = merged;
        let mut mended: Vec<String> = found.contents.iter().flat_map(|content| content.damages.clone()).collect();
        mended.extend(found.unreadable.as_ref().map(|e| e.reason().to_owned()));
        let is_old = found
            .contents
            .iter()
            .all(|content| content.header.version == FORMAT_VERSION_1);
        if found.contents.len() == 1 && found.unreadable.is_none() && !is_old {
            let missing = NAMES.iter().find(|name| dir.join(name) != found.contents[0].path);
            mended.extend(missing.map(|name| format!("the manifest [{name}] is missing")));
        }
        let mut state = State {
            seq,
            number: found.contents.iter().map(|content| content.header.number).max().unwrap_or(0),
            ..State::default()
        };
        let folder_id = found.contents[0].header.folder_id;
        for (key, entry) in live {
            state.apply(key, entry);
        }
        for content in found.contents {
            let slot = usize::from(content.path != dir.join(NAMES[0]));
            if content.seq == seq && content.is_sound() {
                state.files[slot] = Some(content.make_durable(disk.as_ref(), dir)?);
            }
        }
        let manifest = Manifest {
            dir: dir.to_owned(),
            disk,
            folder_id,
            state: Mutex::new(LockRank::Manifest, state),
        };
        // A manifest that lost entries without a name must not be taken for a whole one by the next start.
        if unknown.is_none() {
            manifest.complete_files(&mut manifest.state.lock())?;
        }
        let mut entries = ManifestEntries {
            unknown,
            mended,
            ..ManifestEntries::default()
        };
        for (key, entry) in &manifest.state.lock().live {
            match entry {
                Entry::Value(bytes) => drop(entries.live.insert(key.clone(), bytes.clone())),
                Entry::Damaged(reason) => drop(entries.damaged.insert(key.clone(), corrupt(reason.clone()))),
                Entry::Removed => {}
            }
        }
        Ok((manifest, entries))
    }

    fn create(dir: &Path, disk: Arc<dyn Disk>) -> Result<(Manifest, ManifestEntries)> {
        let manifest = Manifest {
            dir: dir.to_owned(),
            disk,
            folder_id: new_id(),
            state: Mutex::new(LockRank::Manifest, State::default()),
        };
        manifest.complete_files(&mut manifest.state.lock())?;
        let entries = ManifestEntries {
            is_new: true,
            ..ManifestEntries::default()
        };
        Ok((manifest, entries))
    }

    /// The folder's own number, made with its manifest: what every log file must carry.
    pub fn folder_id(&self) -> u128 {
        self.folder_id
    }

    /// Replaces (or with `None` removes) entries, all or none, and returns when that is durable.
    ///
    /// Errors: DiskFull (nothing changed, try again later), LogFailed (a write or sync failed: whether
    /// it is durable is unknown, and every later call says so until a restart).
    pub fn write(&self, entries: Vec<(String, Option<Vec<u8>>)>) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let entries: Vec<(String, Entry)> = entries
            .into_iter()
            .map(|(key, value)| (key, value.map_or(Entry::Removed, Entry::Value)))
            .collect();
        debug_assert!(
            (1..entries.len()).all(|n| entries[..n].iter().all(|(key, _)| *key != entries[n].0)),
            "7: one change of the manifest says one thing about each key"
        );
        if state.files.iter().all(Option::is_none) {
            self.complete_files(&mut state)?;
        }
        let seq = state.seq + 1;
        let mut durable = false;
        for (n, name) in NAMES.iter().enumerate() {
            let Some(file) = &mut state.files[n] else { continue };
            match file.append(seq, &entries) {
                Ok(()) => durable = true,
                // The other file has it; this one is rewritten later.
                Err(Failure::Full(_)) if durable => state.files[n] = None,
                Err(Failure::Full(e)) => return Err(refusal("writing", &self.dir.join(name), &e)),
                Err(Failure::Unknown(e)) => return Err(state.fail(&self.dir.join(name), &e)),
            }
        }
        assert!(durable, "7: one of the manifest's files has every change");
        state.seq = seq;
        for (key, entry) in entries {
            state.apply(key, entry);
        }
        let most = REWRITE_MIN_BYTES.max(4 * state.live_bytes);
        for n in 0..NAMES.len() {
            if state.files[n].as_ref().is_none_or(|file| file.end > most) {
                self.rewrite(&mut state, n)?;
            }
        }
        Ok(())
    }

    /// Why nothing can be written until a restart.
    pub fn failure(&self) -> Option<Error> {
        self.state.lock().failed.clone()
    }

    /// An entry as it is now.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        match self.state.lock().live.get(key) {
            Some(Entry::Value(bytes)) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// The keys that begin so, damaged ones too.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let state = self.state.lock();
        let keys = state.live.range(prefix.to_owned()..).map(|(key, _)| key);
        keys.take_while(|key| key.starts_with(prefix)).cloned().collect()
    }

    /// Bytes in the files.
    pub fn bytes(&self) -> u64 {
        self.state.lock().files.iter().flatten().map(|file| file.end).sum()
    }

    /// Writes what is missing or of an old version. On a full disk one file is enough.
    fn complete_files(&self, state: &mut State) -> Result<()> {
        for (n, name) in NAMES.iter().enumerate() {
            if state.files[n]
                .as_ref()
                .is_some_and(|file| file.header.version == FORMAT_VERSION)
            {
                continue;
            }
            let path = self.dir.join(name);
            let made = self.prepare(state).and_then(|made| self.publish(&path).map(|()| made));
            match made {
                Ok(made) => {
                    state.number = made.header.number;
                    state.files[n] = Some(made);
                }
                Err(e) if is_full(&e) && state.files.iter().any(Option::is_some) => {}
                Err(e) => return Err(refusal("writing", &path, &e)),
            }
        }
        Ok(())
    }

    /// The entries are durable already, so a rewrite that fails before its rename only means a longer
    /// file; after it nobody knows which file a restart would find.
    fn rewrite(&self, state: &mut State, n: usize) -> Result<()> {
        let path = self.dir.join(NAMES[n]);
        match self.prepare(state) {
            Ok(made) => match self.publish(&path) {
                Ok(()) => {
                    state.number = made.header.number;
                    state.files[n] = Some(made);
                }
                Err(e) => return Err(state.fail(&path, &e)),
            },
            // Left behind or not, the next rewrite begins it anew.
            Err(_) => drop(self.disk.remove(&self.dir.join(TEMPORARY))),
        }
        Ok(())
    }

    /// Writes a whole manifest under the temporary name and syncs it.
    fn prepare(&self, state: &State) -> io::Result<Written> {
        let header = FileHeader {
            version: FORMAT_VERSION,
            folder_id: self.folder_id,
            number: state.number + 1,
            run_id: new_id() as u64,
            start: FILE_HEADER_BYTES,
            previous_end: 0,
            allocated: 0,
            cut: 0,
            note: FileNote::default(),
        };
        let file = self.disk.create(&self.dir.join(TEMPORARY))?;
        file.write_all_at(&header.write(), 0)?;
        let mut made = Written {
            file,
            header,
            end: FILE_HEADER_BYTES,
            frame_no: 0,
            room: FILE_HEADER_BYTES,
        };
        let mut entries = state.live.iter().peekable();
        // Also an empty map has a number.
        while entries.peek().is_some() || made.frame_no == 0 {
            let mut bytes = 0;
            let mut some = Vec::new();
            while bytes < REWRITE_FRAME_BYTES
                && let Some((key, entry)) = entries.next()
            {
                bytes += entry_bytes(key, entry) as usize;
                some.push((key.as_str(), entry));
            }
            made.write_frame(state.seq, some.into_iter())?;
        }
        made.write_ahead();
        made.file.sync_data()?;
        Ok(made)
    }

    /// Gives the temporary file its name, durably.
    fn publish(&self, path: &Path) -> io::Result<()> {
        self.disk.rename(&self.dir.join(TEMPORARY), path)?;
        let begun = Instant::now();
        let over = || begun.elapsed() > SHORT_OF_HANDLES_MOST;
        sync_dir_patiently(self.disk.as_ref(), &self.dir, SHORT_OF_HANDLES_EACH, over)
    }
}

impl Written {
    /// Appends a change and makes it durable.
    fn append(&mut self, seq: u64, entries: &[(String, Entry)]) -> Result<(), Failure> {
        let before = (self.end, self.frame_no);
        let written = self.write_frame(seq, entries.iter().map(|(key, entry)| (key.as_str(), entry)));
        let done = match written {
            // A part of the frame may lie there; the next one overwrites it.
            Err(e) if is_full(&e) => Err(Failure::Full(e)),
            Err(e) => Err(Failure::Unknown(e)),
            Ok(()) => {
                if self.end > self.room {
                    self.write_ahead();
                }
                self.file.sync_data().map_err(Failure::Unknown)
            }
        };
        if done.is_err() {
            (self.end, self.frame_no) = before;
        }
        done
    }

    fn write_frame<'a>(&mut self, seq: u64, entries: impl Iterator<Item = (&'a str, &'a Entry)>) -> io::Result<()> {
        let is_old = self.header.version == FORMAT_VERSION_1;
        let mut out = Vec::new();
        let at = begin_frame(&mut out);
        for (key, entry) in entries {
            match (is_old, entry) {
                (false, _) => write_entry(&mut out, key, entry),
                (true, Entry::Value(bytes)) => write_entry_1(&mut out, key, Some(bytes)),
                (true, _) => write_entry_1(&mut out, key, None),
            }
        }
        debug_assert!(
            is_old || read_entries(&out[at + FRAME_HEADER_BYTES..]).is_ok(),
            "7: entries of the manifest read as they were written"
        );
        let header = FrameHeader {
            kind: FrameKind::Manifest,
            run_id: self.header.run_id,
            frame_no: self.frame_no,
            position: self.end,
            synced: if is_old { self.end } else { seq },
            body_bytes: 0,
            advance: u32::try_from(out.len()).expect("7: a frame of the manifest is bounded by its rewrite"),
            body_crc: 0,
        };
        finish_frame(&mut out, at, header);
        self.file.write_all_at(&out, self.end)?;
        self.end += out.len() as u64;
        self.frame_no += 1;
        Ok(())
    }

    /// Zeros for the frames to come; on a full disk there are none.
    fn write_ahead(&mut self) {
        self.room = match self.file.write_all_at(&[0; AHEAD_BYTES], self.end) {
            Ok(()) => self.end + AHEAD_BYTES as u64,
            Err(_) => self.end,
        };
    }
}

impl State {
    fn apply(&mut self, key: String, entry: Entry) {
        if let Some(old) = self.live.get(&key) {
            let bytes = entry_bytes(&key, old);
            assert!(
                bytes <= self.live_bytes,
                "7: an entry of [{bytes}] bytes leaves a manifest of [{}]",
                self.live_bytes
            );
            self.live_bytes -= bytes;
        }
        if entry == Entry::Removed {
            self.live.remove(&key);
        } else {
            self.live_bytes += entry_bytes(&key, &entry);
            self.live.insert(key, entry);
        }
    }

    fn fail(&mut self, path: &Path, cause: &io::Error) -> Error {
        let reason = format!(
            "writing the manifest [{}] failed: {cause}. Whether its last change is durable is unknown; writes stop until a restart",
            display_path(path)
        );
        let failed = Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown");
        self.failed = Some(failed.clone());
        failed
    }
}

impl FileContent {
    /// The process that wrote the last frame may have ended before its sync: what a start acts on (it removes files that
    /// no entry names) must not be taken back. The frame is written again, because after a failed sync the system takes
    /// its bytes for clean; those before it were synced before it was written. A torn tail becomes zeros.
    fn make_durable(self, disk: &dyn Disk, dir: &Path) -> Result<Written> {
        let failed = |e: &io::Error| refusal("syncing", &self.path, e);
        let file = disk.open(&self.path).map_err(|e| failed(&e))?;
        let write = || {
            let (at, frame) = &self.last;
            file.write_all_at(frame, *at)?;
            if let Some(tail) = &self.tail {
                let zeros = vec![0; usize::try_from(tail.bytes).map_err(io::Error::other)?];
                file.write_all_at(&zeros, self.end)?;
            }
            file.sync_data()?;
            disk.sync_dir(dir)
        };
        write().map_err(|e| failed(&e))?;
        Ok(Written {
            room: file.bytes().map_err(|e| failed(&e))?,
            file,
            header: self.header,
            end: self.end,
            frame_no: self.frame_no,
        })
    }
}

/// The files of a folder.
struct ManifestFiles {
    contents: Vec<FileContent>,
    /// Why one of them cannot be read.
    unreadable: Option<Error>,
}

fn find(disk: &dyn Disk, dir: &Path) -> Result<ManifestFiles> {
    let mut found = ManifestFiles {
        contents: Vec::new(),
        unreadable: None,
    };
    for name in NAMES {
        let path = dir.join(name);
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(refusal("opening", &path, &e)),
        };
        let bytes = file.read_whole().map_err(|e| refusal("reading", &path, &e))?;
        match read::read(&path, &bytes) {
            Ok(content) => found.contents.push(content),
            Err(e) if e.kind() == ErrorKind::Corruption => found.unreadable = Some(e),
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// A number nobody else has made.
fn new_id() -> u128 {
    use std::hash::{BuildHasher, Hasher};
    let half = || {
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u128(
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos()),
        );
        hasher.finish()
    };
    u128::from(half()) << 64 | u128::from(half())
}
