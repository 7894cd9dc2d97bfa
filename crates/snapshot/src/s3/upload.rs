//! A file on its way into a bucket, in parts that are bounded.

use crate::blob::Blob;
use crate::s3::failure::S3Failure;
use crate::s3::requests::Objects;
use bytes::Bytes;
use model::{Error, Result};
use object_store::{MultipartUpload, ObjectStore, PutMode, PutMultipartOptions};
use std::io;

/// S3 takes no more parts of one file.
const PARTS_MOST: u64 = 10_000;

/// A file that is written from its beginning to its end. It is there once [`Upload::finish`] returns, and not before.
pub(super) struct Upload<'a> {
    objects: &'a Objects,
    file: String,
    /// `None`: the file is small enough for one request.
    parts: Option<Box<dyn MultipartUpload>>,
    /// The part that is being filled.
    waiting: Vec<u8>,
    error: Option<Error>,
}

impl<'a> Upload<'a> {
    /// # Errors
    /// Repository: the server refuses, or the file has too many parts.
    pub(super) fn begin(objects: &'a Objects, blob: Blob) -> Result<Upload<'a>> {
        let (file, part) = (blob.file(), objects.part_bytes as u64);
        if blob.bytes > part.saturating_mul(PARTS_MOST) {
            return Err(Error::illegal(format!(
                "a file of [{}] bytes has more than [{PARTS_MOST}] parts of [{part}] bytes, which is what S3 takes; a larger \
                 [buffer_size] up to 8mb makes them fewer",
                blob.bytes
            )));
        }
        let parts = match blob.bytes > part {
            false => None,
            true => {
                let options = PutMultipartOptions {
                    attributes: objects.attributes.clone(),
                    ..PutMultipartOptions::default()
                };
                let path = objects.path(&file);
                let begun = objects.ask(objects.store.put_multipart_opts(&path, options));
                Some(begun.map_err(|failure| failure.error("writing", &objects.display(&file)))?)
            }
        };
        let most = blob.bytes.min(part);
        Ok(Upload {
            objects,
            file,
            parts,
            waiting: Vec::with_capacity(usize::try_from(most).unwrap_or(0)),
            error: None,
        })
    }

    fn refusal(&self, failure: &S3Failure) -> Error {
        failure.error("writing", &self.objects.display(&self.file))
    }

    fn send_part(&mut self) -> Result<()> {
        let part = Bytes::from(std::mem::take(&mut self.waiting));
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let sent = self.objects.ask(parts.put_part(part.into()));
        sent.map_err(|failure| self.refusal(&failure))
    }

    /// # Errors
    /// Repository: the server refuses; then no part is left.
    pub(super) fn finish(mut self) -> Result<()> {
        if self.parts.is_none() {
            let whole = Bytes::from(std::mem::take(&mut self.waiting));
            let put = self.objects.put(&self.file, whole, PutMode::Overwrite);
            return put.map_err(|failure| self.refusal(&failure));
        }
        let completed = self.complete();
        if completed.is_err() {
            self.give_up();
        }
        completed
    }

    /// Sends the last part, and makes a file of all of them.
    fn complete(&mut self) -> Result<()> {
        if !self.waiting.is_empty() {
            self.send_part()?;
        }
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let completed = self.objects.ask(parts.complete());
        completed.map(drop).map_err(|failure| self.refusal(&failure))
    }

    /// Takes back the parts that were sent; those of a killed process stay until a rule of the bucket removes them.
    pub(super) fn give_up(&mut self) {
        if let Some(parts) = &mut self.parts {
            // The first failure is the one to tell of.
            drop(self.objects.ask(parts.abort()));
        }
    }

    /// The refusal of the server, if there was one.
    pub(super) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

impl io::Write for Upload<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(
            self.waiting.len() <= self.objects.part_bytes,
            "no more waits than one part of an upload has"
        );
        let room = self.objects.part_bytes - self.waiting.len();
        let taken = bytes.len().min(room);
        self.waiting.extend_from_slice(&bytes[..taken]);
        // The last part goes with the end, and a small file with one request.
        if self.waiting.len() == self.objects.part_bytes && self.parts.is_some() {
            if let Err(error) = self.send_part() {
                let told = io::Error::other(error.reason().to_owned());
                self.error = Some(error);
                return Err(told);
            }
            self.waiting.reserve_exact(self.objects.part_bytes);
        }
        Ok(taken)
    }
    /// Parts are sent when they are full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
