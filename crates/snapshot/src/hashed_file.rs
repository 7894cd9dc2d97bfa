//! A file that is written from its beginning to its end, and hashed on the way.

use crate::blob::{Blob, Hash};
use crate::layout::PIECE_BYTES;
use crate::storage::Pace;
use disk::DiskFile;
use model::Error;
use parking_lot::Mutex;
use std::io;

/// Passes bytes on to a file, hashes them and tells the pace.
pub(crate) struct HashedFile<'a> {
    file: &'a dyn DiskFile,
    pace: &'a dyn Pace,
    state: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    hasher: blake3::Hasher,
    bytes: u64,
    stopped: Option<Error>,
}

impl<'a> HashedFile<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, pace: &'a dyn Pace) -> HashedFile<'a> {
        HashedFile {
            file,
            pace,
            state: Mutex::default(),
        }
    }
    /// The hash and the length of what was written.
    pub(crate) fn written(&self) -> (Hash, u64) {
        let state = self.state.lock();
        (Hash::finalize(&state.hasher), state.bytes)
    }
    /// The same as a file that is named by its content alone.
    pub(crate) fn blob(&self) -> Blob {
        let (hash, bytes) = self.written();
        Blob {
            hash,
            bytes,
            generation: 0,
        }
    }
    /// Why the pace ended the work, if it did.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.state.lock().stopped.take()
    }
}

impl DiskFile for HashedFile<'_> {
    fn write_some_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock();
        assert_eq!(
            state.bytes, offset,
            "snapshots.md S4: a file is hashed as it is written, in order"
        );
        let written = self.file.write_some_at(&bytes[..bytes.len().min(PIECE_BYTES)], offset)?;
        state.hasher.update(&bytes[..written]);
        state.bytes += written as u64;
        if let Err(error) = self.pace.on_bytes(written as u64) {
            let told = io::Error::other(error.reason().to_owned());
            state.stopped = Some(error);
            return Err(told);
        }
        Ok(written)
    }
    fn read_some_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_some_at(into, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.truncate(bytes)
    }
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}
