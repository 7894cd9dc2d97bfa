//! Requests to one bucket, each waited for by the thread that asks.
//!
//! Not here: what is asked for (`s3`, `upload`).

use crate::s3::failure::S3Failure;
use crate::s3::network::Network;
use crate::s3_place::S3Place;
use crate::storage::Version;
use bytes::Bytes;
use model::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, BackoffConfig, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutOptions, RetryConfig,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a file that are asked for at once.
const READ_BYTES: u64 = 4 << 20;
/// How long a request may be repeated.
const RETRY_TIMEOUT: Duration = Duration::from_secs(120);

/// A bucket, or a path in one.
pub(super) struct Objects {
    pub(super) store: AmazonS3,
    network: Arc<Network>,
    base: Path,
    /// Server, bucket and path.
    pub(super) place: String,
    /// Bucket and path as errors name them.
    displayed_base: String,
    pub(super) part_bytes: usize,
    pub(super) attributes: Attributes,
}

impl Objects {
    /// # Errors
    /// Repository: settings that the client does not take.
    pub(super) fn of(place: &S3Place, network: Arc<Network>) -> Result<Objects> {
        let (server, in_path) = place.server();
        let endpoint = match (in_path, server.split_once("://")) {
            (false, Some((scheme, host))) => format!("{scheme}://{}.{host}", place.bucket),
            _ => server.clone(),
        };
        let client = &place.client;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&place.bucket)
            .with_region(&client.region)
            .with_endpoint(endpoint)
            .with_virtual_hosted_style_request(!in_path)
            .with_retry(RetryConfig {
                backoff: BackoffConfig::default(),
                max_retries: client.max_retries,
                retry_timeout: RETRY_TIMEOUT,
            })
            .with_http_connector(network.connector(client.read_timeout));
        if let Some((name, key, token)) = &client.key {
            builder = builder.with_access_key_id(name).with_secret_access_key(key.reveal());
            if let Some(token) = token {
                builder = builder.with_token(token.reveal());
            }
        }
        if place.encrypts {
            let unknown =
                |e: object_store::Error| Error::new(ErrorKind::Internal, format!("the client knows no encryption: {e}"));
            let key: AmazonS3ConfigKey = "aws_server_side_encryption".parse().map_err(unknown)?;
            builder = builder.with_config(key, "AES256");
        }
        let refuse = |e: String| Error::new(ErrorKind::Repository, format!("the bucket cannot be used: {e}"));
        let store = builder
            .build()
            .map_err(|e| refuse(S3Failure::of(&e).error("opening", &place.bucket).reason().to_owned()))?;
        let base = Path::parse(&place.base_path).map_err(|e| refuse(e.to_string()))?;
        let mut attributes = Attributes::new();
        if let Some(class) = &place.storage_class {
            attributes.insert(Attribute::StorageClass, class.clone().into());
        }
        let displayed_base = match place.base_path.is_empty() {
            true => format!("s3://{}", place.bucket),
            false => format!("s3://{}/{}", place.bucket, place.base_path),
        };
        Ok(Objects {
            store,
            network,
            base,
            place: format!("{server} {displayed_base}"),
            displayed_base,
            part_bytes: place.part_bytes,
            attributes,
        })
    }

    pub(super) fn path(&self, file: &str) -> Path {
        file.split('/').fold(self.base.clone(), Path::join)
    }
    /// A file as errors name it.
    pub(super) fn display(&self, file: &str) -> String {
        format!("{}/{file}", self.displayed_base)
    }
    /// Waits for a request.
    pub(super) fn ask<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> Result<T, S3Failure> {
        let answer = self.network.wait(request).ok_or_else(S3Failure::stopping)?;
        answer.map_err(|error| S3Failure::of(&error))
    }
    /// Length and state of a file; `None`: it is not there.
    fn head(&self, file: &str) -> Result<Option<ObjectMeta>> {
        let path = self.path(file);
        match self.ask(self.store.head(&path)) {
            Ok(meta) => Ok(Some(meta)),
            Err(failure) if failure.is_missing_file() => Ok(None),
            Err(failure) => Err(failure.error("reading", &self.display(file))),
        }
    }
    pub(super) fn length(&self, file: &str) -> Result<Option<u64>> {
        Ok(self.head(file)?.map(|meta| meta.size))
    }
    /// The state of a file; `None`: it is not there.
    pub(super) fn state(&self, file: &str) -> Result<Option<Version>> {
        Ok(self.head(file)?.and_then(|meta| meta.e_tag).map(Version))
    }
    pub(super) fn put(&self, file: &str, bytes: Bytes, mode: PutMode) -> Result<(), S3Failure> {
        let options = PutOptions {
            mode,
            attributes: self.attributes.clone(),
            ..PutOptions::default()
        };
        let path = self.path(file);
        self.ask(self.store.put_opts(&path, bytes.into(), options)).map(drop)
    }
    /// Reads a stretch; also the length of the whole, and its state.
    pub(super) fn read(&self, file: &str, from: u64, state: Option<&str>) -> Result<Stretch, S3Failure> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(from..from + READ_BYTES)),
            if_match: state.map(str::to_owned),
            ..GetOptions::default()
        };
        let path = self.path(file);
        self.ask(async {
            let answer = self.store.get_opts(&path, options).await?;
            let (length, state) = (answer.meta.size, answer.meta.e_tag.clone());
            let bytes = answer.bytes().await?;
            Ok(Stretch {
                from,
                bytes,
                length,
                state,
            })
        })
    }

    /// Does a file have these bytes?
    pub(super) fn has(&self, file: &str, bytes: &Bytes) -> Result<bool, S3Failure> {
        let (mut from, mut state) = (0, None);
        loop {
            let stretch = self.read(file, from, state.as_deref())?;
            let end = from + stretch.bytes.len() as u64;
            let expected = bytes.get(from as usize..end as usize);
            if stretch.length != bytes.len() as u64 || expected != Some(&stretch.bytes[..]) {
                return Ok(false);
            }
            if end == stretch.length || stretch.bytes.is_empty() {
                return Ok(end == stretch.length);
            }
            (from, state) = (end, stretch.state);
        }
    }
}

/// A part of a file.
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) bytes: Bytes,
    /// Of the whole file.
    pub(super) length: u64,
    /// The file's ETag.
    pub(super) state: Option<String>,
}
