//! A repository of type `s3` by its settings, and those of its client.
//!
//! Buckets and paths become parts of addresses, so each has only characters that an address has there.
//!
//! Not here: clients (`s3_client`), requests (`s3`), settings that every repository has (`embedded`).

#![cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only requests read what is parsed"))]

use crate::s3_client::{DEFAULT_CLIENT, ENDPOINT, Endpoint, PROTOCOL, Protocol, REGION, S3Client, is_region};
use model::{Error, ErrorKind, Result, nearest, units};
use std::collections::BTreeMap;

/// The setting of the process that lets repositories name endpoints.
pub const ALLOW_ENDPOINT: &str = "repositories.s3.allow_endpoint";
/// The most that is sent at once, and is in memory for it.
const PART_MOST: u64 = 8 << 20;
/// S3 takes no smaller part of a file, but the last.
const PART_LEAST: u64 = 5 << 20;

/// Of 3 to 63 letters, digits, points, hyphens and underscores.
fn is_bucket(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let first = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (3..=63).contains(&text.len())
        && text.chars().all(allowed)
        && first(text.chars().next())
        && first(text.chars().last())
        && !text.contains("..")
}

/// Settings of a repository of type `s3`, besides those of every repository.
pub const REPOSITORY_SETTINGS: &[&str] = &[
    "bucket",
    "base_path",
    "client",
    "endpoint",
    "protocol",
    "path_style_access",
    "region",
    "buffer_size",
    "server_side_encryption",
    "storage_class",
    "canned_acl",
];

/// Storage classes whose files can be read at once.
const STORAGE_CLASSES: &[&str] = &[
    "standard",
    "reduced_redundancy",
    "standard_ia",
    "onezone_ia",
    "intelligent_tiering",
];

/// A repository of type `s3` by its settings and its client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct S3Place {
    pub(crate) client: S3Client,
    pub(crate) bucket: String,
    /// Without slashes at its ends; empty: the bucket itself.
    pub(crate) base_path: String,
    pub(crate) part_bytes: usize,
    pub(crate) encrypts: bool,
    /// As S3 calls it; `None`: the bucket's own.
    pub(crate) storage_class: Option<String>,
}

impl S3Place {
    /// # Errors
    /// Repository: a client that is not there, a setting that is not allowed.
    pub(crate) fn parse<'a>(
        repository: &str,
        text: impl Fn(&str) -> Option<&'a str>,
        clients: &BTreeMap<String, S3Client>,
        allows_endpoint: bool,
    ) -> Result<S3Place> {
        let refuse = |why: String| Error::new(ErrorKind::Repository, format!("[{repository}] {why}")).status_of(400);
        let bucket = text("bucket").filter(|bucket| !bucket.is_empty());
        let bucket = bucket.ok_or_else(|| refuse("No bucket defined for s3 repository".to_owned()))?;
        if !is_bucket(bucket) {
            let why = "must be 3 to 63 letters, digits, points and hyphens";
            return Err(refuse(format!("bucket [{bucket}] is no name of a bucket: it {why}")));
        }
        let mut client = find_client(text("client").unwrap_or(DEFAULT_CLIENT), clients).map_err(&refuse)?;
        override_client(&mut client, &text, allows_endpoint).map_err(&refuse)?;
        if client.key.is_none() {
            let name = text("client").unwrap_or(DEFAULT_CLIENT);
            return Err(refuse(format!(
                "client [{name}] has no key: give the process [s3.client.{name}.access_key] and [s3.client.{name}.secret_key]"
            )));
        }
        let part = part_bytes(text("buffer_size"), text("chunk_size")).map_err(|e| refuse(e.reason().to_owned()))?;
        match text("canned_acl") {
            None | Some("private") => {}
            Some(other) => {
                return Err(refuse(format!(
                    "setting [canned_acl] is [{other}], which is not supported: files are [private]; give rights by a policy of the bucket"
                )));
            }
        }
        Ok(S3Place {
            client,
            bucket: bucket.to_owned(),
            base_path: base_path(text("base_path").unwrap_or_default()).map_err(&refuse)?,
            part_bytes: part,
            encrypts: flag("server_side_encryption", text("server_side_encryption"))
                .map_err(&refuse)?
                .unwrap_or(false),
            storage_class: text("storage_class").map(storage_class).transpose().map_err(&refuse)?,
        })
    }

    /// The server with the protocol, and whether buckets are a part of the path.
    pub(crate) fn server(&self) -> (String, bool) {
        let client = &self.client;
        match &client.endpoint {
            None => (
                format!("{}://s3.{}.amazonaws.com", client.protocol.scheme(), client.region),
                client.path_style_access,
            ),
            Some(endpoint) => {
                let protocol = endpoint.protocol.unwrap_or(client.protocol);
                let in_path = client.path_style_access || endpoint.has_no_names();
                (format!("{}://{}", protocol.scheme(), endpoint.authority()), in_path)
            }
        }
    }
}

fn find_client(name: &str, clients: &BTreeMap<String, S3Client>) -> Result<S3Client, String> {
    match clients.get(name) {
        Some(client) => Ok(client.clone()),
        None if name == DEFAULT_CLIENT => S3Client::parse(name, |_| None).map_err(|e| e.reason().to_owned()),
        None => {
            let hint = nearest::hint(name, clients.keys().map(String::as_str));
            let known: Vec<&str> = clients.keys().map(String::as_str).collect();
            Err(format!(
                "Unknown s3 client name [{name}]. Existing client configs: {}{hint}",
                known.join(",")
            ))
        }
    }
}

/// Settings of a repository that take the place of its client's.
fn override_client<'a>(
    client: &mut S3Client,
    text: impl Fn(&str) -> Option<&'a str>,
    allows_endpoint: bool,
) -> Result<(), String> {
    let refuse = |name: &str, value: &str, why: &str| format!("setting [{name}] is [{value}]: {why}");
    if let Some(endpoint) = text("endpoint") {
        if !allows_endpoint {
            return Err(format!(
                "setting [endpoint] is not allowed: give the process [s3.client.NAME.endpoint], or allow repositories to name servers by [{ALLOW_ENDPOINT}]"
            ));
        }
        client.endpoint = Some(Endpoint::parse(endpoint).ok_or_else(|| refuse("endpoint", endpoint, ENDPOINT))?);
    }
    if let Some(protocol) = text("protocol") {
        client.protocol = Protocol::parse(protocol).ok_or_else(|| refuse("protocol", protocol, PROTOCOL))?;
    }
    if let Some(region) = text("region").filter(|region| !region.is_empty()) {
        match is_region(region) {
            true => region.clone_into(&mut client.region),
            false => return Err(refuse("region", region, REGION)),
        }
    }
    if let Some(in_path) = flag("path_style_access", text("path_style_access"))? {
        client.path_style_access = in_path;
    }
    Ok(())
}

fn flag(name: &str, text: Option<&str>) -> Result<Option<bool>, String> {
    match text {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => Err(format!(
            "Failed to parse value [{other}] for setting [{name}] as only [true] or [false] are allowed."
        )),
    }
}

/// Bytes that are sent at once.
fn part_bytes(buffer: Option<&str>, chunk: Option<&str>) -> Result<usize> {
    let size = |name: &str, text: Option<&str>| {
        let text = text.filter(|text| *text != "null");
        let Some(text) = text else { return Ok(None) };
        let bytes = units::parse_bytes(text, name)?;
        match bytes < PART_LEAST {
            true => Err(Error::illegal(format!(
                "failed to parse value [{text}] for setting [{name}], must be >= [5mb]"
            ))),
            false => Ok(Some(bytes)),
        }
    };
    let (buffer, chunk) = (size("buffer_size", buffer)?, size("chunk_size", chunk)?);
    if let (Some(buffer), Some(chunk)) = (buffer, chunk)
        && chunk < buffer
    {
        return Err(Error::illegal(format!(
            "chunk_size ({chunk} bytes) can't be lower than buffer_size ({buffer} bytes)."
        )));
    }
    Ok(usize::try_from(buffer.unwrap_or(PART_MOST).min(PART_MOST)).unwrap_or(PART_LEAST as usize))
}

fn base_path(text: &str) -> Result<String, String> {
    let path = text.trim_matches('/');
    let is_sound = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.chars().any(char::is_control);
    match path.is_empty() || path.len() <= 512 && path.split('/').all(is_sound) {
        true => Ok(path.to_owned()),
        false => Err(format!(
            "base_path [{text}] is no path: it must have at most 512 bytes and no part that is empty, `.` or `..`"
        )),
    }
}

fn storage_class(text: &str) -> Result<String, String> {
    let lower = text.to_lowercase();
    match STORAGE_CLASSES.contains(&lower.as_str()) {
        true => Ok(lower.to_uppercase()),
        false if matches!(lower.as_str(), "glacier" | "deep_archive" | "glacier_ir") => Err(format!(
            "storage_class [{text}] is not supported: its files cannot be read at once"
        )),
        false => {
            let hint = nearest::hint(&lower, STORAGE_CLASSES.iter().copied());
            Err(format!("`{text}` is not a valid S3 Storage Class.{hint}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> BTreeMap<String, S3Client> {
        let key = |name: &str| match name {
            "access_key" | "secret_key" => Some("k".to_owned()),
            "endpoint" => Some("store.example:9000".to_owned()),
            _ => None,
        };
        BTreeMap::from([("default".to_owned(), S3Client::parse("s3.client.default", key).unwrap())])
    }

    /// Settings of a repository: the server and whether buckets are in its path, or a part of the refusal.
    fn check(settings: &[(&str, &'static str)], allows_endpoint: bool, expected: Result<(&str, bool), &str>) {
        let text = |name: &str| settings.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let got = S3Place::parse("r", text, &clients(), allows_endpoint);
        match (&got, expected) {
            (Ok(place), Ok((server, in_path))) => assert_eq!(place.server(), (server.to_owned(), in_path), "{settings:?}"),
            (Err(error), Err(part)) => assert!(error.reason().contains(part), "{settings:?}: {error}"),
            _ => panic!("{settings:?}: {got:?}"),
        }
    }

    #[test]
    fn settings_of_repositories() {
        let bucket = ("bucket", "backups");
        check(&[bucket], false, Ok(("https://store.example:9000", false)));
        check(
            &[bucket, ("protocol", "http")],
            false,
            Ok(("http://store.example:9000", false)),
        );
        check(
            &[bucket, ("path_style_access", "true")],
            false,
            Ok(("https://store.example:9000", true)),
        );
        for (endpoint, server, in_path) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000", true),
            ("https://[::1]:9000/", "https://[::1]:9000", true),
            ("[::1]", "https://[::1]", true),
            ("localhost", "https://localhost", true),
            ("minio.example", "https://minio.example", false),
        ] {
            check(&[bucket, ("endpoint", endpoint)], true, Ok((server, in_path)));
            check(
                &[bucket, ("endpoint", endpoint)],
                false,
                Err("repositories.s3.allow_endpoint"),
            );
        }
        for (settings, part) in [
            (vec![], "No bucket defined"),
            (vec![("bucket", "b")], "is no name of a bucket"),
            (vec![("bucket", "evil.example/x?")], "is no name of a bucket"),
            (
                vec![bucket, ("client", "defualt")],
                "Unknown s3 client name [defualt]. Existing client configs: default",
            ),
            (vec![bucket, ("region", "x.example/")], "setting [region]"),
            (vec![bucket, ("protocol", "ftp")], "must be http or https"),
            (vec![bucket, ("path_style_access", "yes")], "as only [true] or [false]"),
            (vec![bucket, ("base_path", "a/../b")], "is no path"),
            (vec![bucket, ("base_path", "a//b")], "is no path"),
            (vec![bucket, ("buffer_size", "1mb")], "must be >= [5mb]"),
            (
                vec![bucket, ("chunk_size", "5mb"), ("buffer_size", "6mb")],
                "can't be lower than buffer_size",
            ),
            (vec![bucket, ("storage_class", "glacier")], "cannot be read at once"),
            (vec![bucket, ("storage_class", "standart")], "is not a valid S3 Storage Class"),
            (
                vec![bucket, ("canned_acl", "public-read")],
                "[canned_acl] is [public-read], which is not supported",
            ),
        ] {
            check(&settings, false, Err(part));
        }
        for endpoint in ["", "ftp://a", "a/b", "u@a", "a:0", "a:99999", "a b", "http://", "[::1", "a?b"] {
            check(&[bucket, ("endpoint", endpoint)], true, Err("setting [endpoint] is ["));
        }
    }
}
