//! The bytes of segments, and the directory through which tantivy sees them.
//!
//! Published bytes never change. A segment is in memory until a checkpoint, or in a file of its own, or with
//! others in a checkpoint's file; readers do not notice which.
//!
//! A fresh `Index` handle is made for every use: tantivy's directory rewrites its whole list of files at every
//! new one.
//!
//! Not here: which segments make an index (`searchable`), CRCs (`disk::blockfile`).

use super::schema::IndexSchema;
use crate::error::build_error;
use crate::scratch::{self, Scratch, ScratchFile};
use disk::{Disk, Image, blockfile};
use model::{Error, Result};
use parking_lot::Mutex;
use stable_deref_trait::StableDeref;
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, FileHandle, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};
use tantivy::index::SegmentId;
use tantivy::tokenizer::TokenizerManager;
use tantivy::{HasLen, Index, IndexSettings};

/// Segments from this size on go to files at once (unsynced until the checkpoint).
pub const SPILL_BYTES: u64 = 64 << 10;

/// A file of the segments' folder. It goes when no manifest names it and nobody holds it.
pub struct DataFile {
    /// Its bytes.
    pub bytes: blockfile::SegmentFile,
    /// Its name in the folder.
    pub name: String,
    disk: Arc<dyn Disk>,
    named: AtomicBool,
    synced: AtomicBool,
    /// Components in which a block did not match its checksum, with what was found.
    damages: Mutex<Vec<(String, Error)>>,
}

impl std::fmt::Debug for DataFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataFile({})", self.name)
    }
}

impl DataFile {
    /// Opens a file that is there; `named`: the manifest names it, so it is synced.
    ///
    /// # Errors
    /// Corruption, or a failing disk.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path, name: &str, named: bool) -> Result<Arc<DataFile>> {
        let bytes = blockfile::SegmentFile::open(disk.as_ref(), &dir.join(name))?;
        Ok(Arc::new(DataFile {
            bytes,
            name: name.to_owned(),
            disk: disk.clone(),
            named: AtomicBool::new(named),
            synced: AtomicBool::new(named),
            damages: Mutex::default(),
        }))
    }
    /// The damage among the components of a prefix: file and offset.
    pub fn damage(&self, prefix: &str) -> Option<Error> {
        let damages = self.damages.lock();
        let found = damages.iter().find(|(component, _)| in_prefix(component, prefix).is_some());
        found.map(|(_, error)| error.clone())
    }
    /// Reads every byte of the components of a prefix; damage is noted.
    ///
    /// # Errors
    /// Corruption naming file and byte.
    pub fn check(&self, prefix: &str) -> Result<()> {
        let components = self.bytes.layout().iter();
        for (component, (_, length)) in components.filter(|(name, _)| in_prefix(name, prefix).is_some()) {
            if let Err(damage) = self.bytes.verify(component, 0..*length as usize) {
                self.note_damage(component, &damage);
                return Err(damage);
            }
        }
        Ok(())
    }
    fn note_damage(&self, component: &str, error: &Error) {
        let mut damages = self.damages.lock();
        if !damages.iter().any(|(known, _)| known == component) {
            damages.push((component.to_owned(), error.clone()));
        }
    }
    /// Whether the manifest names it.
    pub fn set_named(&self, named: bool) {
        self.named.store(named, Ordering::Release);
    }
    /// Makes its bytes durable.
    ///
    /// # Errors
    /// A failing disk: the file must be written anew under another name.
    pub fn sync(&self) -> Result<()> {
        if !self.synced.load(Ordering::Acquire) {
            blockfile::sync_segment(self.disk.as_ref(), self.bytes.path())?;
            self.synced.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if !self.named.load(Ordering::Acquire) {
            // If it cannot be removed now, the next start removes it.
            drop(self.disk.remove(self.bytes.path()));
        }
    }
}

/// Where a segment's components are.
#[derive(Clone, Debug)]
pub enum Place {
    /// In memory, by extension.
    Memory(Arc<HashMap<String, OwnedBytes>>),
    /// In a file, as `prefix/extension`.
    File(Arc<DataFile>, Arc<str>),
}

/// One segment without live documents. Immutable.
#[derive(Clone, Debug)]
pub struct SegmentData {
    /// Ours.
    pub id: u64,
    /// tantivy's, in its files' names.
    pub uuid: SegmentId,
    /// Documents, nested and dead ones too.
    pub max_doc: u32,
    /// Its bytes.
    pub place: Place,
    /// Its part of the memory of segments, while it is there and counted.
    pub held: Option<Arc<Held>>,
}

/// Bytes counted into a sum for as long as this lives.
#[derive(Debug)]
pub struct Held(Arc<AtomicU64>, u64);

impl Held {
    /// Counts them.
    pub fn new(sum: &Arc<AtomicU64>, bytes: u64) -> Arc<Held> {
        sum.fetch_add(bytes, Ordering::Relaxed);
        Arc::new(Held(sum.clone(), bytes))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(self.1, Ordering::Relaxed);
        assert!(before >= self.1, "bytes that are given back were counted");
    }
}

impl SegmentData {
    /// Bytes of all components.
    pub fn bytes(&self) -> u64 {
        match &self.place {
            Place::Memory(parts) => parts.values().map(|part| part.len() as u64).sum(),
            Place::File(file, prefix) => file
                .bytes
                .layout()
                .iter()
                .filter(|(name, _)| in_prefix(name, prefix).is_some())
                .map(|(_, (_, length))| length)
                .sum(),
        }
    }
    /// Its components by extension, checked.
    ///
    /// # Errors
    /// Corruption naming file and byte.
    pub fn components(&self) -> Result<Vec<(String, ComponentBytes)>> {
        let mut out: Vec<(String, ComponentBytes)> = match &self.place {
            Place::Memory(parts) => parts
                .iter()
                .map(|(ext, bytes)| (ext.clone(), ComponentBytes::Memory(bytes.clone())))
                .collect(),
            Place::File(file, prefix) => {
                file.check(prefix)?;
                let names = file.bytes.layout().keys();
                let of_segment = names.filter_map(|name| Some((name, in_prefix(name, prefix)?.to_owned())));
                of_segment
                    .map(|(name, ext)| Ok((ext, ComponentBytes::File(file.bytes.read_whole(name)?))))
                    .collect::<Result<_>>()?
            }
        };
        out.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(out)
    }
    /// Is it in a file?
    pub fn is_on_disk(&self) -> bool {
        matches!(self.place, Place::File(..))
    }
    /// The damage that was found in it, if it is in a file.
    pub fn damage(&self) -> Option<Error> {
        match &self.place {
            Place::Memory(_) => None,
            Place::File(file, prefix) => file.damage(prefix),
        }
    }
    /// Components by extension, while in memory.
    pub fn memory(&self) -> Option<&HashMap<String, OwnedBytes>> {
        match &self.place {
            Place::Memory(parts) => Some(parts),
            Place::File(..) => None,
        }
    }
}

/// The bytes of a component.
pub enum ComponentBytes {
    Memory(OwnedBytes),
    File(blockfile::Slice),
}

impl Deref for ComponentBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            ComponentBytes::Memory(bytes) => bytes,
            ComponentBytes::File(slice) => slice,
        }
    }
}

fn in_prefix<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_prefix('/')
}

/// The settings of all our segments.
pub fn settings() -> IndexSettings {
    IndexSettings {
        docstore_compress_dedicated_thread: false,
        // A hit costs one block: what 16 kB would save on disk, each read of a document would pay.
        docstore_blocksize: 4 << 10,
        ..IndexSettings::default()
    }
}

/// A fresh handle over some segments, with room in memory for new ones.
///
/// # Errors
/// tantivy's.
pub fn handle(
    schema: &IndexSchema,
    tokenizers: Option<&TokenizerManager>,
    segments: &[Arc<SegmentData>],
) -> Result<(Index, SegmentDir)> {
    let dir = SegmentDir::over(segments);
    let mut index = Index::create(dir.clone(), schema.schema.clone(), settings()).map_err(build_error)?;
    // tantivy's list of segments, with the whole schema in it; ours are listed in the manifest.
    dir.new.lock().clear();
    if let Some(tokenizers) = tokenizers {
        index.set_tokenizers(tokenizers.clone());
    }
    Ok((index, dir))
}

/// tantivy's directory over our segments. New files are kept in memory, or in scratch files; `meta.json` and the like go nowhere else.
#[derive(Clone)]
pub struct SegmentDir {
    there: Arc<HashMap<String, Arc<SegmentData>>>,
    /// About how many bytes of documents a new segment will have.
    expected: Arc<AtomicU64>,
    /// Where large components wait; `None`: in memory.
    scratch: Option<Arc<Scratch>>,
    new: Arc<Mutex<HashMap<PathBuf, OwnedBytes>>>,
}

impl std::fmt::Debug for SegmentDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SegmentDir({} segments)", self.there.len())
    }
}

impl SegmentDir {
    /// Without segments; large components of a new one go to scratch files.
    pub(crate) fn empty(scratch: Scratch) -> SegmentDir {
        SegmentDir {
            scratch: Some(Arc::new(scratch)),
            ..SegmentDir::over(&[])
        }
    }
    fn over(segments: &[Arc<SegmentData>]) -> SegmentDir {
        let there = segments.iter().map(|data| (data.uuid.uuid_string(), data.clone())).collect();
        SegmentDir {
            there: Arc::new(there),
            expected: Arc::default(),
            scratch: None,
            new: Arc::default(),
        }
    }
    /// Says about how many bytes of documents a new segment will have, so that their file need not grow.
    pub fn expect(&self, bytes: usize) {
        self.expected.store(bytes as u64, Ordering::Relaxed);
    }
    /// The components of a segment that was written through this directory.
    pub fn components(&self, uuid: SegmentId) -> HashMap<String, OwnedBytes> {
        let name = uuid.uuid_string();
        let new = self.new.lock();
        new.iter()
            .filter_map(|(path, bytes)| {
                split(path)
                    .filter(|(stem, _)| **stem == name)
                    .map(|(_, ext)| (ext.to_owned(), bytes.clone()))
            })
            .collect()
    }
    /// Puts a file in front of the segments' own: an overlay for a merge.
    pub fn overlay(&self, path: PathBuf, bytes: Vec<u8>) {
        self.new.lock().insert(path, OwnedBytes::new(bytes));
    }
    fn find(&self, path: &Path) -> Option<Arc<dyn FileHandle>> {
        if let Some(bytes) = self.new.lock().get(path) {
            return Some(Arc::new(bytes.clone()));
        }
        let (stem, ext) = split(path)?;
        match &self.there.get(stem)?.place {
            Place::Memory(parts) => Some(Arc::new(parts.get(ext)?.clone())),
            Place::File(file, prefix) => {
                let component = format!("{prefix}/{ext}");
                let length = file.bytes.layout().get(&component)?.1 as usize;
                Some(Arc::new(Component {
                    file: file.clone(),
                    component,
                    length,
                }))
            }
        }
    }
}

fn split(path: &Path) -> Option<(&str, &str)> {
    path.file_name()?.to_str()?.split_once('.')
}

#[derive(Debug)]
struct Component {
    file: Arc<DataFile>,
    component: String,
    length: usize,
}

impl HasLen for Component {
    fn len(&self) -> usize {
        self.length
    }
}

/// The file's image, kept by who reads from it.
struct Pages(
    Arc<Image>,
    #[allow(dead_code, reason = "the file lives while its pages are read")] Arc<DataFile>,
);
impl Deref for Pages {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
// SAFETY: both kinds of `Image` own bytes at a fixed address outside of themselves, and nobody changes them.
unsafe impl StableDeref for Pages {}

impl FileHandle for Component {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let within = self.file.bytes.verify(&self.component, range).map_err(|e| {
            self.file.note_damage(&self.component, &e);
            io::Error::other(e)
        })?;
        Ok(OwnedBytes::new(Pages(self.file.bytes.image().clone(), self.file.clone())).slice(within))
    }
}

struct NewFile {
    dir: SegmentDir,
    path: PathBuf,
    /// What the scratch file does not have.
    bytes: Vec<u8>,
    scratch: Option<ScratchFile>,
}
impl NewFile {
    /// Moves what waits to the scratch file.
    fn spill(&mut self, scratch: &Scratch) -> io::Result<()> {
        scratch.check_cancelled()?;
        let file = match &mut self.scratch {
            Some(file) => file,
            none => none.insert(scratch.begin(split(&self.path).map_or("", |(_, extension)| extension))?),
        };
        file.append(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}
impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= scratch::BUFFER_BYTES
            && let Some(scratch) = self.dir.scratch.clone()
        {
            self.spill(&scratch)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
impl TerminatingWrite for NewFile {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        if let (Some(scratch), Some(_)) = (self.dir.scratch.clone(), &self.scratch) {
            self.spill(&scratch)?;
        }
        if let Some(file) = self.scratch.take() {
            self.dir.new.lock().insert(self.path.clone(), file.finish()?);
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        // Small components stay in memory for long, so spare capacity is given back. Large ones go to a file.
        if bytes.len() < SPILL_BYTES as usize {
            bytes.shrink_to_fit();
        }
        self.dir.new.lock().insert(self.path.clone(), OwnedBytes::new(bytes));
        Ok(())
    }
}

impl Directory for SegmentDir {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        self.find(path)
            .ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))
    }
    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.new
            .lock()
            .remove(path)
            .map(drop)
            .ok_or_else(|| DeleteError::FileDoesNotExist(path.to_owned()))
    }
    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        Ok(self.find(path).is_some())
    }
    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        // Documents are compressed to half or less of what they are; room that is not used is never touched.
        let expected = self.expected.load(Ordering::Relaxed) as usize;
        let stored = path.extension().is_some_and(|ext| ext == "store") && expected > SPILL_BYTES as usize;
        Ok(io::BufWriter::new(Box::new(NewFile {
            dir: self.clone(),
            path: path.to_owned(),
            bytes: Vec::with_capacity(if stored { expected / 2 } else { 0 }),
            scratch: None,
        })))
    }
    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.new
            .lock()
            .get(path)
            .map(|bytes| bytes.to_vec())
            .ok_or_else(|| OpenReadError::FileDoesNotExist(path.to_owned()))
    }
    fn atomic_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.new.lock().insert(path.to_owned(), OwnedBytes::new(bytes.to_vec()));
        Ok(())
    }
    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}
