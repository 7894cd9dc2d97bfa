//! Writing a file from its beginning to its end.

use super::DiskFile;
use std::io;

/// Writes to an empty file, each time behind what was written before.
pub struct SequentialWriter<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
}

impl<'a> SequentialWriter<'a> {
    /// Begins at the beginning.
    pub fn new(file: &'a dyn DiskFile) -> SequentialWriter<'a> {
        SequentialWriter { file, offset: 0 }
    }
}

impl io::Write for SequentialWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_some_at(bytes, self.offset)?;
        self.offset += written as u64;
        Ok(written)
    }
    /// Nothing is kept back. Durable is another matter ([`DiskFile::sync_data`]).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
