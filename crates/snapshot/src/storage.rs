//! What a repository asks of the place that keeps its files: reading, and a writer with the order of its changes.
//!
//! Files have names relative to the repository, with `/` between folders. Two places exist: a folder (`folder`) and a bucket of an
//! object store (`s3`).
//!
//! Not here: which files there are and when they are written (`repository`, `writer`).

use crate::blob::{Blob, Hash};
use model::Result;
use std::collections::HashMap;
use std::io;

/// Told of each piece that was moved: it may wait, and may end the work.
pub trait Pace: Sync {
    /// So many more bytes were moved.
    ///
    /// # Errors
    /// The work is to end.
    fn on_bytes(&self, bytes: u64) -> Result<()>;
}

/// The place of a repository's files.
pub(crate) trait Storage: Send + Sync {
    /// Its address, which no other place has.
    fn place(&self) -> &str;
    /// A file as errors name it.
    fn display(&self, file: &str) -> String;
    /// Do names carry the generation that they were written for? Then several stores may write at once, and the root decides.
    /// Else a lock keeps writers apart, and a file is named by its content alone.
    fn has_generations(&self) -> bool;
    /// Opens a file; `None`: it is not there.
    ///
    /// # Errors
    /// The place cannot be read.
    fn open(&self, file: &str) -> Result<Option<Box<dyn StoredFile + '_>>>;
    /// The length of a file; `None`: it is not there.
    ///
    /// # Errors
    /// The place cannot be read.
    fn length(&self, file: &str) -> Result<Option<u64>>;
    /// Begins to write.
    ///
    /// # Errors
    /// ConcurrentSnapshot: another process writes, where a lock keeps writers apart. The place cannot be written.
    fn begin(&self) -> Result<Box<dyn StorageWriter>>;
}

/// A file that is open for reading.
pub(crate) trait StoredFile {
    /// Its length.
    ///
    /// # Errors
    /// The place cannot be read.
    fn bytes(&self) -> Result<u64>;
    /// Fills `into` from `offset` and says how many bytes there were before the file's end.
    ///
    /// # Errors
    /// The place cannot be read.
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> Result<usize>;
    /// What the place calls this state of the file, if it has words for that.
    fn version(&self) -> Option<Version> {
        None
    }
}

/// A state of a file, as its place names it (the ETag of an object).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) String);

/// Writes content from its beginning to its end. It may be asked twice, and writes the same bytes again.
pub(crate) type Content<'a> = dyn Fn(&mut dyn io::Write) -> io::Result<()> + 'a;

/// Told of a file that is listed: its name relative to the folder, and its length, which may cost a look at the file.
pub(crate) type Listed<'a> = dyn FnMut(&str, &dyn Fn() -> u64) + 'a;

/// Whoever changes a place.
pub(crate) trait StorageWriter: Send {
    /// Stores content under the name of its hash; false: it was there. `known`: files that the root leads to, or that this writer
    /// has stored. `generation`: that of the root that will lead to it, where names have one; else 0.
    ///
    /// # Errors
    /// The place cannot be written, the end by `pace`.
    fn store(
        &mut self,
        content: &Content<'_>,
        known: &HashMap<Hash, Blob>,
        generation: u64,
        pace: &dyn Pace,
    ) -> Result<(Blob, bool)>;
    /// Makes the stored files durable by their names.
    ///
    /// # Errors
    /// The place cannot be written.
    fn settle(&mut self) -> Result<()>;
    /// Have all stored files been made durable?
    fn is_settled(&self) -> bool;
    /// Writes a whole file, which is durable once this returns.
    ///
    /// # Errors
    /// The place cannot be written.
    fn write(&mut self, file: &str, bytes: &[u8]) -> Result<()>;
    /// Writes the root, if it is still in the state that it was read in (`None`: there was none). It is durable once this returns.
    ///
    /// # Errors
    /// RepositoryChanged: it is in another state. The place cannot be written.
    fn write_root(&mut self, file: &str, bytes: &[u8], read: Option<&Version>) -> Result<()>;
    /// Calls `each` for every file below a folder.
    ///
    /// # Errors
    /// The place cannot be read.
    fn list(&mut self, folder: &str, each: &mut Listed<'_>) -> Result<()>;
    /// Removes files.
    ///
    /// # Errors
    /// The place cannot be written; some may be gone.
    fn remove(&mut self, files: &[String]) -> Result<()>;
}
