//! The manifest: a small durable map from keys to bytes; what is durable of every index.
//!
//! A file of the log's frames: entries are appended and synced, a later one replaces an earlier of
//! the same key; one frame holds all of one [`Manifest::write`], so that is whole or not there. When
//! the file has grown to four times what lives in it, it is rewritten: temporary file, sync, rename,
//! sync of the folder (write-path.md 7).
//!
//! Invariant: the file in use has no bytes of a torn tail: an open that finds one rewrites the file,
//! so that no stale frame comes to lie behind a new one.
//!
//! Not here: what entries mean. `disk::RealDisk` and one process are assumed (`FolderLock`).

use super::format::{
    FILE_HEADER_BYTES, FileHeader, FrameHeader, FrameKind, begin_frame, corrupt, finish_frame, read_entries, write_entry,
};
use crate::disk::{Disk, DiskFile, is_full, refusal, sync_dir_patiently};
use model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NAME: &str = "manifest";
const TEMPORARY: &str = "manifest.partial";
/// Below this a rewrite is not worth two syncs.
const REWRITE_MIN_BYTES: u64 = 64 << 10;
/// A frame of a rewrite ends when it has so many bytes.
const REWRITE_FRAME_BYTES: usize = 4 << 20;

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

struct State {
    file: Arc<dyn DiskFile>,
    header: FileHeader,
    /// Where the next frame goes: the file's sound bytes.
    end: u64,
    frame_no: u64,
    live: BTreeMap<String, Vec<u8>>,
    live_bytes: u64,
    failed: Option<Error>,
}

impl Manifest {
    /// Opens the manifest in `dir` or makes an empty one with a new folder id; gives its entries.
    /// Errors: Corruption (a damaged frame that was durable), IllegalState (unknown format version),
    /// DiskFull, Internal.
    pub fn open(dir: &Path, disk: Arc<dyn Disk>) -> Result<(Manifest, BTreeMap<String, Vec<u8>>)> {
        disk.create_dir(dir).map_err(|e| refusal("making", dir, &e))?;
        let path = dir.join(NAME);
        let found = match disk.open(&path) {
            Ok(file) => Some(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(refusal("opening", &path, &e)),
        };
        let content = match &found {
            Some(file) => Some(file.read_whole().map_err(|e| refusal("reading", &path, &e))?),
            None => None,
        };
        let read = content.map(|content| read(&path, &content)).transpose()?;
        let state = match (found, read) {
            (Some(file), Some(read)) if !read.torn => {
                read.make_durable(disk.as_ref(), dir, file.as_ref())
                    .map_err(|e| refusal("syncing", &path, &e))?;
                read.state(file)
            }
            (_, read) => {
                let (live, header) = read.map_or_else(|| (BTreeMap::new(), new_header()), |read| (read.live, read.header));
                rewrite(
                    disk.as_ref(),
                    dir,
                    live,
                    FileHeader {
                        number: header.number + 1,
                        run_id: new_id() as u64,
                        ..header
                    },
                )?
            }
        };
        let live = state.live.clone();
        Ok((
            Manifest {
                dir: dir.to_owned(),
                disk,
                folder_id: state.header.folder_id,
                state: Mutex::new(state),
            },
            live,
        ))
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
        let path = self.dir.join(NAME);
        let frame = state.frame(entries.iter().map(|(key, value)| (key.as_str(), value.as_deref())));
        if let Err(e) = state.file.write_all_at(&frame, state.end) {
            // A part of the frame may lie there; the next one overwrites it.
            return Err(if is_full(&e) {
                refusal("writing", &path, &e)
            } else {
                state.fail(&path, &e)
            });
        }
        if let Err(e) = state.file.sync_data() {
            return Err(state.fail(&path, &e));
        }
        state.end += frame.len() as u64;
        state.frame_no += 1;
        for (key, value) in entries {
            state.apply(key, value);
        }
        if state.end > REWRITE_MIN_BYTES.max(4 * state.live_bytes) {
            self.rewrite(&mut state)?;
        }
        Ok(())
    }

    /// An entry as it is now.
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.state.lock().live.get(key).cloned()
    }

    /// Bytes in the file.
    pub fn bytes(&self) -> u64 {
        self.state.lock().end
    }

    /// The entries are durable already, so a rewrite that fails before its rename only means a longer
    /// file; after it nobody knows which file a restart would find.
    fn rewrite(&self, state: &mut State) -> Result<()> {
        let header = FileHeader {
            number: state.header.number + 1,
            run_id: new_id() as u64,
            ..state.header
        };
        let live = state.live.clone();
        match prepare(self.disk.as_ref(), &self.dir, live, header) {
            Ok(prepared) => match publish(self.disk.as_ref(), &self.dir) {
                Ok(()) => *state = prepared,
                Err(e) => return Err(state.fail(&self.dir.join(NAME), &e)),
            },
            // Left behind or not, the next rewrite begins it anew.
            Err(_) => drop(self.disk.remove(&self.dir.join(TEMPORARY))),
        }
        Ok(())
    }
}

impl State {
    /// A frame that holds entries, for the place where the next one goes.
    fn frame<'a>(&self, entries: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>) -> Vec<u8> {
        let mut out = Vec::new();
        let at = begin_frame(&mut out);
        for (key, value) in entries {
            write_entry(&mut out, key, value);
        }
        let header = FrameHeader {
            kind: FrameKind::Manifest,
            run_id: self.header.run_id,
            frame_no: self.frame_no,
            position: self.end,
            synced: self.end,
            body_bytes: 0,
            advance: out.len() as u32,
            body_crc: 0,
        };
        finish_frame(&mut out, at, header);
        out
    }

    fn apply(&mut self, key: String, value: Option<Vec<u8>>) {
        let entry_bytes = |key: &str, value: &[u8]| (key.len() + value.len() + 9) as u64;
        if let Some(old) = self.live.get(&key) {
            self.live_bytes -= entry_bytes(&key, old);
        }
        match value {
            Some(value) => {
                self.live_bytes += entry_bytes(&key, &value);
                self.live.insert(key, value);
            }
            None => {
                self.live.remove(&key);
            }
        }
    }

    fn fail(&mut self, path: &Path, cause: &io::Error) -> Error {
        let reason = format!(
            "writing the manifest [{}] failed: {cause}. Whether its last change is durable is unknown; writes stop until a restart",
            crate::disk::shown(path)
        );
        let failed = Error::new(ErrorKind::LogFailed, reason).with("outcome", "unknown");
        self.failed = Some(failed.clone());
        failed
    }
}

/// What a file holds.
struct Read {
    header: FileHeader,
    end: u64,
    frame_no: u64,
    live: BTreeMap<String, Vec<u8>>,
    torn: bool,
    /// Where the last frame begins, and its bytes.
    last: (u64, Vec<u8>),
}

impl Read {
    /// The process that wrote the last frame may have ended before its sync: what a start acts on (it removes files that
    /// no entry names) must not be taken back. The frame is written again, because after a failed sync the system takes
    /// its bytes for clean; those before it were synced before it was written.
    fn make_durable(&self, disk: &dyn Disk, dir: &Path, file: &dyn DiskFile) -> io::Result<()> {
        let (at, frame) = &self.last;
        file.write_all_at(frame, *at)?;
        file.sync_data()?;
        disk.sync_dir(dir)
    }

    fn state(self, file: Arc<dyn DiskFile>) -> State {
        let Read {
            header,
            end,
            frame_no,
            live,
            ..
        } = self;
        let mut state = State {
            file,
            header,
            end,
            frame_no,
            live: BTreeMap::new(),
            live_bytes: 0,
            failed: None,
        };
        for (key, value) in live {
            state.apply(key, Some(value));
        }
        state
    }
}

fn read(path: &Path, content: &[u8]) -> Result<Read> {
    let header = FileHeader::read(content).map_err(|e| in_file(path, &e))?;
    let mut out = Read {
        header,
        end: FILE_HEADER_BYTES,
        frame_no: 0,
        live: BTreeMap::new(),
        torn: false,
        last: (FILE_HEADER_BYTES, Vec::new()),
    };
    while out.end < content.len() as u64 {
        let at = out.end as usize;
        let sound = FrameHeader::read(&content[at..]).filter(|frame| is_next(frame, &out));
        let Some((frame, body)) = sound.and_then(|frame| Some((frame, frame.body(content, at)?))) else {
            // Every frame is synced before the next is written, so one behind means damage.
            let mut behind = (at + 1..content.len()).filter_map(|offset| FrameHeader::read(&content[offset..]));
            if behind.any(|later| later.run_id == out.header.run_id && later.synced > out.end) {
                return Err(corrupt(format!(
                    "the manifest [{}] is damaged at byte [{at}]",
                    crate::disk::shown(path)
                )));
            }
            out.torn = true;
            break;
        };
        for (key, value) in read_entries(body).map_err(|e| in_file(path, &e))? {
            match value {
                Some(value) => drop(out.live.insert(key, value)),
                None => drop(out.live.remove(&key)),
            }
        }
        out.end = frame.end();
        out.frame_no += 1;
        let end = usize::try_from(out.end).unwrap_or(usize::MAX).min(content.len());
        out.last = (at as u64, content[at..end].to_vec());
    }
    Ok(out)
}

fn is_next(frame: &FrameHeader, read: &Read) -> bool {
    frame.kind == FrameKind::Manifest
        && frame.run_id == read.header.run_id
        && frame.position == read.end
        && frame.frame_no == read.frame_no
}

fn in_file(path: &Path, cause: &Error) -> Error {
    Error::new(
        cause.kind(),
        format!("the manifest [{}]: {}", crate::disk::shown(path), cause.reason()),
    )
}

/// Writes a whole manifest under the temporary name and syncs it.
fn prepare(disk: &dyn Disk, dir: &Path, live: BTreeMap<String, Vec<u8>>, header: FileHeader) -> io::Result<State> {
    let file = disk.create(&dir.join(TEMPORARY))?;
    file.write_all_at(&header.write(), 0)?;
    let mut state = State {
        file,
        header,
        end: FILE_HEADER_BYTES,
        frame_no: 0,
        live: BTreeMap::new(),
        live_bytes: 0,
        failed: None,
    };
    let mut entries = live.iter().peekable();
    while entries.peek().is_some() {
        let mut bytes = 0;
        let mut some = Vec::new();
        while bytes < REWRITE_FRAME_BYTES
            && let Some((key, value)) = entries.next()
        {
            bytes += key.len() + value.len();
            some.push((key.as_str(), Some(value.as_slice())));
        }
        let frame = state.frame(some.into_iter());
        state.file.write_all_at(&frame, state.end)?;
        state.end += frame.len() as u64;
        state.frame_no += 1;
    }
    state.file.sync_data()?;
    for (key, value) in live {
        state.apply(key, Some(value));
    }
    Ok(state)
}

/// Gives the temporary file the manifest's name, durably.
fn publish(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    disk.rename(&dir.join(TEMPORARY), &dir.join(NAME))?;
    let begun = Instant::now();
    sync_dir_patiently(disk, dir, SHORT_OF_HANDLES_EACH, || begun.elapsed() > SHORT_OF_HANDLES_MOST)
}

fn rewrite(disk: &dyn Disk, dir: &Path, live: BTreeMap<String, Vec<u8>>, header: FileHeader) -> Result<State> {
    let made = prepare(disk, dir, live, header).and_then(|state| publish(disk, dir).map(|()| state));
    made.map_err(|e| refusal("writing", &dir.join(NAME), &e))
}

fn new_header() -> FileHeader {
    FileHeader {
        folder_id: new_id(),
        number: 0,
        run_id: 0,
        start: FILE_HEADER_BYTES,
        previous_end: 0,
    }
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
