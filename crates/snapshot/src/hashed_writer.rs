//! Content that is hashed while it is written.

use crate::blob::Hash;
use crate::layout::PIECE_BYTES;
use crate::storage::Pace;
use model::Error;
use std::io;

/// Passes bytes on to a writer, hashes them and tells the pace (snapshots.md S4).
pub(crate) struct HashedWriter<'a> {
    to: &'a mut dyn io::Write,
    pace: &'a dyn Pace,
    hasher: blake3::Hasher,
    bytes: u64,
    error: Option<Error>,
}

impl<'a> HashedWriter<'a> {
    pub(crate) fn new(to: &'a mut dyn io::Write, pace: &'a dyn Pace) -> HashedWriter<'a> {
        HashedWriter {
            to,
            pace,
            hasher: blake3::Hasher::default(),
            bytes: 0,
            error: None,
        }
    }
    /// The hash and the length of what was written.
    pub(crate) fn totals(&self) -> (Hash, u64) {
        (Hash::finalize(&self.hasher), self.bytes)
    }
    /// Why the pace ended the work, if it did.
    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

impl io::Write for HashedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(&bytes[..bytes.len().min(PIECE_BYTES)])?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        if let Err(error) = self.pace.on_bytes(written as u64) {
            let told = io::Error::other(error.reason().to_owned());
            self.error = Some(error);
            return Err(told);
        }
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
