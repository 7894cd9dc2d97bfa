//! A repository in a bucket of S3, or of a server that speaks its protocol.
//!
//! A file appears whole or not at all, by one request or by the last one of an upload in parts. Nothing keeps writers apart: the root
//! is written on the condition that it is as it was read (docs/internals/snapshots.md S5).
//!
//! Not here: settings (`s3_place`), connections (`network`), the order of writes (`writer`).

mod failure;
mod network;
mod requests;
mod upload;

pub(crate) use network::{Network, Trust};

use crate::blob::{Blob, Hash};
use crate::hashed_writer::HashedWriter;
use crate::s3::requests::{Objects, Stretch};
use crate::s3::upload::Upload;
use crate::s3_place::S3Place;
use crate::storage::{Content, Listed, Pace, Storage, StorageWriter, StoredFile, Version};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use model::{Error, ErrorKind, Result};
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMode, UpdateVersion};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// A bucket, or a path in one.
#[derive(Clone)]
pub(crate) struct Bucket {
    objects: Arc<Objects>,
}

impl Bucket {
    /// Asks for nothing yet.
    ///
    /// # Errors
    /// Repository: settings that the client does not take.
    pub(crate) fn open(place: &S3Place, network: Arc<Network>) -> Result<Bucket> {
        let objects = Objects::of(place, network)?;
        Ok(Bucket {
            objects: Arc::new(objects),
        })
    }
}

impl Storage for Bucket {
    fn place(&self) -> &str {
        &self.objects.place
    }
    fn display(&self, file: &str) -> String {
        self.objects.display(file)
    }
    fn has_generations(&self) -> bool {
        true
    }
    fn open(&self, file: &str) -> Result<Option<Box<dyn StoredFile + '_>>> {
        let stretch = match self.objects.read(file, 0, None) {
            Ok(stretch) => stretch,
            Err(failure) if failure.is_missing_file() => return Ok(None),
            Err(failure) if failure.is_beyond_end() => Stretch {
                from: 0,
                bytes: Bytes::new(),
                length: 0,
                state: None,
            },
            Err(failure) => return Err(failure.error("reading", &self.objects.display(file))),
        };
        Ok(Some(Box::new(OpenObject {
            objects: &self.objects,
            file: file.to_owned(),
            stretch,
        })))
    }
    fn length(&self, file: &str) -> Result<Option<u64>> {
        self.objects.length(file)
    }
    fn begin(&self) -> Result<Box<dyn StorageWriter>> {
        Ok(Box::new(BucketWriter {
            objects: self.objects.clone(),
        }))
    }
}

struct OpenObject<'a> {
    objects: &'a Objects,
    file: String,
    /// What was read last.
    stretch: Stretch,
}

impl StoredFile for OpenObject<'_> {
    fn bytes(&self) -> Result<u64> {
        Ok(self.stretch.length)
    }
    fn read_at(&mut self, into: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            if at >= self.stretch.length {
                break;
            }
            let inside = at
                .checked_sub(self.stretch.from)
                .and_then(|inside| usize::try_from(inside).ok());
            let Some(bytes) = inside
                .and_then(|inside| self.stretch.bytes.get(inside..))
                .filter(|bytes| !bytes.is_empty())
            else {
                let read = self.objects.read(&self.file, at, self.stretch.state.as_deref());
                self.stretch = read.map_err(|failure| failure.error("reading", &self.objects.display(&self.file)))?;
                if self.stretch.bytes.is_empty() {
                    break;
                }
                continue;
            };
            let taken = bytes.len().min(into.len() - done);
            into[done..done + taken].copy_from_slice(&bytes[..taken]);
            done += taken;
        }
        Ok(done)
    }
    fn version(&self) -> Option<Version> {
        self.stretch.state.clone().map(Version)
    }
}

/// The one that changes a bucket.
struct BucketWriter {
    objects: Arc<Objects>,
}

/// Ends the work with the pace, and counts nothing.
struct Uncounted<'a>(&'a dyn Pace);

impl Pace for Uncounted<'_> {
    fn on_bytes(&self, _: u64) -> Result<()> {
        self.0.on_bytes(0)
    }
}

impl StorageWriter for BucketWriter {
    /// The content is written twice: its name, which is its hash, is known before its first byte is sent.
    fn store(
        &mut self,
        content: &Content<'_>,
        known: &HashMap<Hash, Blob>,
        generation: u64,
        pace: &dyn Pace,
    ) -> Result<(Blob, bool)> {
        assert!(
            generation > 0,
            "snapshots.md S5: a file in a bucket has the generation of its root in its name"
        );
        let failed = |e: io::Error| {
            let reason = format!("reading what is to be stored in [{}] failed: {e}", self.objects.display(""));
            Error::new(ErrorKind::Internal, reason)
        };
        let (mut nowhere, uncounted) = (io::sink(), Uncounted(pace));
        let mut hashed = HashedWriter::new(&mut nowhere, &uncounted);
        if let Err(e) = content(&mut hashed) {
            return Err(hashed.take_error().unwrap_or_else(|| failed(e)));
        }
        let (hash, bytes) = hashed.totals();
        let there = known.get(&hash).filter(|blob| blob.bytes == bytes);
        if let Some(blob) = there
            && self.objects.length(&blob.file())? == Some(bytes)
        {
            return Ok((*blob, false));
        }
        let blob = Blob { hash, bytes, generation };
        let mut upload = Upload::begin(&self.objects, blob)?;
        let mut hashed = HashedWriter::new(&mut upload, pace);
        let written = content(&mut hashed);
        let (again, stopped) = (hashed.totals(), hashed.take_error());
        let failure = match written {
            Ok(()) if again == (hash, bytes) => return upload.finish().map(|()| (blob, true)),
            Ok(()) => {
                let reason = "a file changed while it was stored: its bytes are not those that its name was made of";
                Error::new(ErrorKind::Corruption, reason)
            }
            Err(e) => upload.take_error().or(stopped).unwrap_or_else(|| failed(e)),
        };
        upload.give_up();
        Err(failure)
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// A file that is there is durable.
    fn is_settled(&self) -> bool {
        true
    }

    fn write(&mut self, file: &str, bytes: &[u8]) -> Result<()> {
        let put = self.objects.put(file, Bytes::copy_from_slice(bytes), PutMode::Overwrite);
        put.map_err(|failure| failure.error("writing", &self.objects.display(file)))
    }

    fn write_root(&mut self, file: &str, bytes: &[u8], read: Option<&Version>) -> Result<()> {
        let mode = match read {
            None => PutMode::Create,
            Some(Version(state)) => PutMode::Update(UpdateVersion {
                e_tag: Some(state.clone()),
                version: None,
            }),
        };
        let bytes = Bytes::copy_from_slice(bytes);
        // Servers that pass over conditions are asked before.
        if self.objects.state(file)? != read.cloned() {
            return Err(root_conflict());
        }
        let failure = match self.objects.put(file, bytes.clone(), mode) {
            Ok(()) => return Ok(()),
            Err(failure) if failure.is_unknown_condition() => {
                return match self.objects.put(file, bytes, PutMode::Overwrite) {
                    Ok(()) => Ok(()),
                    Err(failure) => Err(failure.error("writing", &self.objects.display(file))),
                };
            }
            Err(failure) => failure,
        };
        // A request whose answer was lost may have been repeated, and then met its own root.
        match self.objects.has(file, &bytes) {
            Ok(true) => Ok(()),
            _ if failure.is_precondition() => Err(root_conflict()),
            _ => Err(failure.error("writing", &self.objects.display(file))),
        }
    }

    fn list(&mut self, folder: &str, each: &mut Listed<'_>) -> Result<()> {
        let prefix = self.objects.path(folder);
        let skipped = prefix.as_ref().len() + 1;
        let listed = self.objects.ask(async {
            let mut names = self.objects.store.list(Some(&prefix));
            while let Some(meta) = names.try_next().await? {
                if let Some(name) = meta.location.as_ref().get(skipped..) {
                    each(name, &|| meta.size);
                }
            }
            Ok(())
        });
        listed.map_err(|failure| failure.error("listing", &self.objects.display(folder)))
    }

    fn remove(&mut self, files: &[String]) -> Result<()> {
        if let [file] = files {
            let path = self.objects.path(file);
            return match self.objects.ask(self.objects.store.delete(&path)) {
                Err(failure) if !failure.is_missing_file() => Err(failure.error("removing", &self.objects.display(file))),
                _ => Ok(()),
            };
        }
        let paths: Vec<object_store::Result<Path>> = files.iter().map(|file| Ok(self.objects.path(file))).collect();
        let removed = self.objects.ask(async {
            let mut removed = self.objects.store.delete_stream(futures::stream::iter(paths).boxed());
            while removed.try_next().await?.is_some() {}
            Ok(())
        });
        removed.map_err(|failure| failure.error("removing files of", &self.objects.display("")))
    }
}

/// The root is not as it was read.
fn root_conflict() -> Error {
    let reason = "the repository was changed by another store while this one wrote to it; register it again to go on with it as it \
                  is now";
    Error::new(ErrorKind::RepositoryChanged, reason)
}
