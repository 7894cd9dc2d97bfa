//! A file on its way into a bucket, in parts that are bounded.

use crate::blob::Blob;
use crate::s3::failure::Failure;
use crate::s3::requests::Objects;
use bytes::Bytes;
use disk::DiskFile;
use model::{Error, Result};
use object_store::{MultipartUpload, ObjectStore, PutMode, PutMultipartOptions};
use parking_lot::Mutex;
use std::io;

/// S3 takes no more parts of one file.
const PARTS_MOST: u64 = 10_000;

/// Takes bytes and keeps none.
pub(super) struct Nowhere;

impl DiskFile for Nowhere {
    fn write_some_at(&self, bytes: &[u8], _: u64) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn read_some_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file that is written from its beginning to its end. It is there once [`Upload::finish`] returns, and not before.
pub(super) struct Upload<'a> {
    objects: &'a Objects,
    file: String,
    state: Mutex<Sending>,
}

struct Sending {
    /// `None`: the file is small enough for one request.
    parts: Option<Box<dyn MultipartUpload>>,
    /// The part that is being filled.
    waiting: Vec<u8>,
    stopped: Option<Error>,
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
                Some(begun.map_err(|failure| failure.error("writing", &objects.shown(&file)))?)
            }
        };
        let most = blob.bytes.min(part);
        Ok(Upload {
            objects,
            file,
            state: Mutex::new(Sending {
                parts,
                waiting: Vec::with_capacity(usize::try_from(most).unwrap_or(0)),
                stopped: None,
            }),
        })
    }

    fn refusal(&self, failure: &Failure) -> Error {
        failure.error("writing", &self.objects.shown(&self.file))
    }

    fn send_part(&self, sending: &mut Sending) -> Result<()> {
        let part = Bytes::from(std::mem::take(&mut sending.waiting));
        let Some(parts) = &mut sending.parts else { return Ok(()) };
        let sent = parts.put_part(part.into());
        self.objects.ask(sent).map_err(|failure| self.refusal(&failure))
    }

    /// # Errors
    /// Repository: the server refuses.
    pub(super) fn finish(&self) -> Result<()> {
        let mut sending = self.state.lock();
        if sending.parts.is_none() {
            let whole = Bytes::from(std::mem::take(&mut sending.waiting));
            let put = self.objects.put(&self.file, whole, PutMode::Overwrite);
            return put.map_err(|failure| self.refusal(&failure));
        }
        if !sending.waiting.is_empty()
            && let Err(error) = self.send_part(&mut sending)
        {
            drop(sending);
            self.give_up();
            return Err(error);
        }
        let completed = sending.parts.as_mut().map(|parts| self.objects.ask(parts.complete()));
        match completed {
            Some(Err(failure)) => {
                drop(sending);
                self.give_up();
                Err(self.refusal(&failure))
            }
            _ => Ok(()),
        }
    }

    /// Takes back the parts that were sent; those of a killed process stay until a rule of the bucket removes them.
    pub(super) fn give_up(&self) {
        let mut sending = self.state.lock();
        if let Some(parts) = &mut sending.parts {
            // The first failure is the one to tell of.
            drop(self.objects.ask(parts.abort()));
        }
    }

    /// What the server refused, if it did.
    pub(super) fn take_error(&self) -> Option<Error> {
        self.state.lock().stopped.take()
    }
}

impl DiskFile for Upload<'_> {
    fn write_some_at(&self, bytes: &[u8], _: u64) -> io::Result<usize> {
        let mut sending = self.state.lock();
        let room = self.objects.part_bytes - sending.waiting.len();
        let taken = bytes.len().min(room);
        sending.waiting.extend_from_slice(&bytes[..taken]);
        // The last part goes with the end, and a small file with one request.
        if sending.waiting.len() == self.objects.part_bytes && sending.parts.is_some() {
            if let Err(error) = self.send_part(&mut sending) {
                let told = io::Error::other(error.reason().to_owned());
                sending.stopped = Some(error);
                return Err(told);
            }
            sending.waiting.reserve_exact(self.objects.part_bytes);
        }
        Ok(taken)
    }
    fn read_some_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
