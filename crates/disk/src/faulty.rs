//! A disk in memory that fails as disks do, the same way for the same seed.
//!
//! A crash leaves every synced byte and name; of the unsynced bytes any subset of sectors (so
//! writes are lost, torn, reordered); of the unsynced names a prefix in the order they were made.
//! A synced sector is never harmed by a crash: that would be corruption, see [`FaultyDisk::flip`].
//!
//! Not here: time, permissions, folders as things (any path may be written).

use super::{Disk, DiskFile, Image};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that a crash keeps or loses as one.
const SECTOR_BYTES: usize = 512;

/// A disk in memory, with faults on command. A clone is another handle to the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
    /// The only life of the disk in which this handle works; `None`: in each.
    life: Option<u64>,
}

struct State {
    random: u64,
    names: BTreeMap<PathBuf, usize>,
    names_synced: BTreeMap<PathBuf, usize>,
    names_unsynced: Vec<Naming>,
    files: Vec<Content>,
    room_bytes: Option<u64>,
    full_below: Option<PathBuf>,
    short_writes: bool,
    syncs_failing: bool,
    writes_failing: bool,
    writes_full: bool,
    opens_failing: bool,
    sync_takes: Duration,
    steps_left: Option<u64>,
    fails_in: Option<u64>,
    steps: u64,
    life: u64,
}

/// A file's bytes: as read now, and as last synced with the writes since.
#[derive(Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

/// A change of a file's bytes that no sync has covered.
enum Change {
    Written(usize, Vec<u8>),
    Truncated(usize),
}

/// A change of names that no folder sync has covered.
#[derive(Clone)]
enum Naming {
    Made(PathBuf, usize),
    Renamed(PathBuf, PathBuf),
    Removed(PathBuf),
}

impl FaultyDisk {
    /// An empty disk without faults; `seed` decides how crashes tear.
    pub fn new(seed: u64) -> FaultyDisk {
        let state = State {
            random: seed,
            names: BTreeMap::new(),
            names_synced: BTreeMap::new(),
            names_unsynced: Vec::new(),
            files: Vec::new(),
            room_bytes: None,
            full_below: None,
            short_writes: false,
            syncs_failing: false,
            writes_failing: false,
            writes_full: false,
            opens_failing: false,
            sync_takes: Duration::ZERO,
            steps_left: None,
            fails_in: None,
            steps: 0,
            life: 0,
        };
        FaultyDisk {
            state: Arc::new(Mutex::new(state)),
            life: None,
        }
    }
    /// The disk as one process sees it: from the next [`FaultyDisk::crash`] or [`FaultyDisk::restart`] on every call of
    /// [`Disk`] fails. Threads of an engine that a test calls killed thus change nothing below its successor.
    pub fn of_one_process(&self) -> FaultyDisk {
        FaultyDisk {
            state: self.state.clone(),
            life: Some(self.state.lock().life),
        }
    }
    /// The state, unless the process of this handle is gone.
    fn alive(&self) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        let state = self.state.lock();
        match self.life {
            Some(life) if life != state.life => Err(io::Error::other("this process was killed")),
            _ => Ok(state),
        }
    }
    /// Power fails and returns: unsynced bytes and names are lost or torn, faults are switched off,
    /// handles opened before only give errors.
    pub fn crash(&self) {
        self.state.lock().crash();
    }
    /// The process is killed and another one opens the files: what was written is read, synced or not, and what was not
    /// synced is still lost by a later [`FaultyDisk::crash`]. Handles opened before only give errors.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        state.faults_off();
        state.life += 1;
    }
    /// From here on each of the next `steps` calls works; then one call fails (EIO), and later ones work again.
    pub fn fail_once_after(&self, steps: u64) {
        self.state.lock().fails_in = Some(steps);
    }
    /// How many bytes all files together may have; more is ENOSPC. `None`: no bound.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state.lock().room_bytes = bytes;
    }
    /// No file can be made below this folder (ENOSPC), as if it had a disk of its own. `None`: no such folder.
    pub fn set_full_below(&self, dir: Option<PathBuf>) {
        self.state.lock().full_below = dir;
    }
    /// Bytes in all files that have a name.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }
    /// Whether writes take only a part of what they are given (a correct caller notices nothing).
    pub fn set_short_writes(&self, on: bool) {
        self.state.lock().short_writes = on;
    }
    /// Whether syncs of files and folders fail. As on Linux, what a failed sync did not write counts as clean afterwards:
    /// it is still read, and a later sync that succeeds does not write it.
    pub fn set_syncs_failing(&self, on: bool) {
        self.state.lock().syncs_failing = on;
    }
    /// Whether writes fail (EIO), after having written a part.
    pub fn set_writes_failing(&self, on: bool) {
        self.state.lock().writes_failing = on;
    }
    /// Whether writes find no room (ENOSPC), also where it was taken before: a file system that copies on write.
    pub fn set_writes_full(&self, on: bool) {
        self.state.lock().writes_full = on;
    }
    /// Whether whatever needs a new descriptor fails (EMFILE): opening and making files, syncing folders.
    pub fn set_opens_failing(&self, on: bool) {
        self.state.lock().opens_failing = on;
    }
    /// How long each sync of a file takes.
    pub fn set_sync_takes(&self, long: Duration) {
        self.state.lock().sync_takes = long;
    }
    /// After `steps` more changing calls every call fails, as if the process had been stopped there.
    pub fn stop_after(&self, steps: u64) {
        self.state.lock().steps_left = Some(steps);
    }
    /// Changing calls so far: what [`FaultyDisk::stop_after`] counts.
    pub fn steps(&self) -> u64 {
        self.state.lock().steps
    }
    /// Flips one bit, durably; corruption, as no crash makes it. False if there is no such byte.
    pub fn flip(&self, path: &Path, offset: u64, bit: u8) -> bool {
        let mut state = self.state.lock();
        let Some(&file) = state.names.get(path) else {
            return false;
        };
        let file = &mut state.files[file];
        let at = offset as usize;
        let Some(byte) = file.now.get_mut(at) else {
            return false;
        };
        *byte ^= 1 << bit;
        let flipped = *byte;
        if let Some(byte) = file.synced.get_mut(at) {
            *byte = flipped;
        }
        true
    }
    /// Overwrites a file's content, durably: for tests that cut or paste bytes.
    pub fn put(&self, path: &Path, content: Vec<u8>) {
        let mut state = self.state.lock();
        let file = state.files.len();
        state.files.push(Content {
            now: content.clone(),
            synced: content,
            unsynced: Vec::new(),
        });
        state.names.insert(path.to_owned(), file);
        state.names_synced.insert(path.to_owned(), file);
    }
    /// A file's content as read now.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.names.get(path).map(|&file| state.files[file].now.clone())
    }
}

impl State {
    /// splitmix64.
    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|&file| self.files[file].now.len() as u64).sum()
    }

    fn step(&mut self) -> io::Result<()> {
        match &mut self.steps_left {
            Some(0) => return Err(io::Error::other("the disk stopped here")),
            Some(left) => *left -= 1,
            None => {}
        }
        self.steps += 1;
        match &mut self.fails_in {
            Some(0) => {
                self.fails_in = None;
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    /// Takes a descriptor, if there are any.
    fn descriptor(&self) -> io::Result<()> {
        match self.opens_failing {
            true => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            false => Ok(()),
        }
    }

    fn faults_off(&mut self) {
        self.opens_failing = false;
        self.room_bytes = None;
        self.full_below = None;
        (self.short_writes, self.syncs_failing) = (false, false);
        (self.writes_failing, self.writes_full) = (false, false);
        (self.steps_left, self.fails_in) = (None, None);
    }

    /// A sync of this file failed: of what it was to write some is on disk, and none is tried again.
    fn sync_failed(&mut self, file: usize) {
        for change in std::mem::take(&mut self.files[file].unsynced) {
            if self.random(2) == 0 {
                change.apply(&mut self.files[file].synced);
            }
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn crash(&mut self) {
        let kept = self.random(self.names_unsynced.len() + 1);
        let namings = std::mem::take(&mut self.names_unsynced);
        for naming in &namings[..kept] {
            naming.apply(&mut self.names_synced);
        }
        self.names = self.names_synced.clone();
        for file in 0..self.files.len() {
            for change in std::mem::take(&mut self.files[file].unsynced) {
                let (offset, bytes) = match change {
                    Change::Written(offset, bytes) => (offset, bytes),
                    Change::Truncated(_) => {
                        if self.random(2) == 0 {
                            change.apply(&mut self.files[file].synced);
                        }
                        continue;
                    }
                };
                // Sectors are counted from the file's beginning, as the disk has them.
                let mut from = 0;
                let fate = self.random(4); // 0: lost, 1: kept, else each sector for itself
                while from < bytes.len() {
                    let to = (from + SECTOR_BYTES - (offset + from) % SECTOR_BYTES).min(bytes.len());
                    if fate == 1 || fate > 1 && self.random(2) == 0 {
                        place(&mut self.files[file].synced, offset + from, &bytes[from..to]);
                    }
                    from = to;
                }
            }
            self.files[file].now = self.files[file].synced.clone();
        }
        self.faults_off();
        self.life += 1;
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Written(offset, bytes) => place(content, *offset, bytes),
            Change::Truncated(bytes) => content.truncate(*bytes),
        }
    }
}

impl Naming {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Naming::Made(path, file) => {
                names.insert(path.clone(), *file);
            }
            Naming::Renamed(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Naming::Removed(path) => {
                names.remove(path);
            }
        }
    }

    fn dir(&self) -> Option<&Path> {
        match self {
            Naming::Made(path, _) | Naming::Renamed(_, path) | Naming::Removed(path) => path.parent(),
        }
    }
}

fn place(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Disk for FaultyDisk {
    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        self.alive().map(drop)
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.alive()?;
        state.step()?;
        state.descriptor()?;
        if state.full_below.as_ref().is_some_and(|dir| path.starts_with(dir)) {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        // A new inode also where the name exists: what a truncation leaves after a crash is then
        // the old content, the harder case.
        let file = state.files.len();
        state.files.push(Content::default());
        let naming = Naming::Made(path.to_owned(), file);
        naming.apply(&mut state.names);
        state.names_unsynced.push(naming);
        Ok(Arc::new(Handle {
            disk: self.clone(),
            file,
            life: state.life,
        }))
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.alive()?;
        state.descriptor()?;
        Ok(Arc::new(Handle {
            disk: self.clone(),
            file: state.find(path)?,
            life: state.life,
        }))
    }
    fn map(&self, path: &Path) -> io::Result<Image> {
        Ok(Image::Loaded(self.open(path)?.read_whole()?.into()))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.step()?;
        state.descriptor()?;
        if state.syncs_failing {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let namings = std::mem::take(&mut state.names_unsynced);
        for naming in namings {
            if naming.dir() == Some(dir) {
                naming.apply(&mut state.names_synced);
            } else {
                state.names_unsynced.push(naming);
            }
        }
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.step()?;
        state.find(from)?;
        let naming = Naming::Renamed(from.to_owned(), to.to_owned());
        naming.apply(&mut state.names);
        state.names_unsynced.push(naming);
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.step()?;
        state.find(path)?;
        let naming = Naming::Removed(path.to_owned());
        naming.apply(&mut state.names);
        state.names_unsynced.push(naming);
        Ok(())
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.alive()?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside
            .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }
    fn len(&self, path: &Path) -> io::Result<u64> {
        let state = self.alive()?;
        Ok(state.files[state.find(path)?].now.len() as u64)
    }
    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.alive()?;
        Ok(state
            .room_bytes
            .map_or(u64::MAX, |room| room.saturating_sub(state.used_bytes())))
    }
    fn total_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.alive()?.room_bytes.unwrap_or(u64::MAX))
    }
}

struct Handle {
    disk: FaultyDisk,
    file: usize,
    life: u64,
}

impl Handle {
    fn state(&self) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        let state = self.disk.state.lock();
        if state.life == self.life {
            Ok(state)
        } else {
            Err(io::Error::other("a handle from before the crash"))
        }
    }
}

impl DiskFile for Handle {
    fn write_some_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state()?;
        state.step()?;
        let offset = offset as usize;
        let mut length = bytes.len();
        if (state.short_writes || state.writes_failing) && length > 1 {
            length = 1 + state.random(length);
        }
        let grows = (offset + length).saturating_sub(state.files[self.file].now.len()) as u64;
        if state
            .room_bytes
            .is_some_and(|room| grows > 0 && state.used_bytes() + grows > room)
            || state.writes_full
        {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        let file = &mut state.files[self.file];
        place(&mut file.now, offset, &bytes[..length]);
        file.unsynced.push(Change::Written(offset, bytes[..length].to_vec()));
        if state.writes_failing {
            Err(io::Error::from_raw_os_error(libc::EIO))
        } else {
            Ok(length)
        }
    }
    fn read_some_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state()?;
        let content = &state.files[self.file].now;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let length = into.len().min(content.len() - from);
        into[..length].copy_from_slice(&content[from..from + length]);
        Ok(length)
    }
    fn sync_data(&self) -> io::Result<()> {
        let takes = self.state()?.sync_takes;
        std::thread::sleep(takes);
        let mut state = self.state()?;
        let stepped = state.step();
        if state.syncs_failing || stepped.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EIO)) {
            state.sync_failed(self.file);
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        stepped?;
        let file = &mut state.files[self.file];
        for change in std::mem::take(&mut file.unsynced) {
            change.apply(&mut file.synced);
        }
        Ok(())
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.step()?;
        let change = Change::Truncated(usize::try_from(bytes).map_err(io::Error::other)?);
        let file = &mut state.files[self.file];
        change.apply(&mut file.now);
        file.unsynced.push(change);
        Ok(())
    }
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.state()?.files[self.file].now.len() as u64)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
mod tests {
    use super::*;

    /// Calls of a killed process fail and change nothing. The disk itself and its next process go on.
    #[test]
    fn a_killed_process_reaches_the_disk_no_more() {
        let ways: [fn(&FaultyDisk); 2] = [FaultyDisk::restart, FaultyDisk::crash];
        for ends in ways {
            let (disk, dir) = (FaultyDisk::new(1), Path::new("/d"));
            let (file, other) = (dir.join("file"), dir.join("other"));
            let killed = disk.of_one_process();
            killed.create(&file).unwrap();
            killed.sync_dir(dir).unwrap();
            ends(&disk);
            let refused = [
                killed.create(&other).map(drop),
                killed.open(&file).map(drop),
                killed.rename(&file, &other),
                killed.remove(&file),
                killed.sync_dir(dir),
                killed.create_dir(dir),
                killed.list(dir).map(drop),
                killed.len(&file).map(drop),
                killed.free_bytes(dir).map(drop),
            ];
            for (n, refused) in refused.into_iter().enumerate() {
                assert!(refused.is_err(), "call {n}");
            }
            let next = disk.of_one_process();
            next.create(&other).unwrap();
            assert_eq!(next.list(dir).unwrap(), disk.list(dir).unwrap());
            assert_eq!(next.list(dir).unwrap(), ["file", "other"]);
        }
    }
}
