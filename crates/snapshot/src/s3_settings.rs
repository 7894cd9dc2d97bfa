//! The settings of clients of S3, which belong to the process, and of repositories of type `s3`, which name one.
//!
//! Texts are read once, here: regions, buckets and endpoints become parts of addresses, so each has only characters that an address
//! has there.
//!
//! Not here: requests (`s3`), settings that every repository has (`embedded`).

#![cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only requests read what is parsed"))]

use model::{Error, ErrorKind, Result, nearest, units};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// The client of a repository that names none.
pub const DEFAULT_CLIENT: &str = "default";
/// The setting of the process that lets repositories name endpoints.
pub const ALLOW_ENDPOINT: &str = "repositories.s3.allow_endpoint";
/// The most that is sent at once, and is in memory for it.
const PART_MOST: u64 = 8 << 20;
/// S3 takes no smaller part of a file, but the last.
const PART_LEAST: u64 = 5 << 20;

/// Settings of a client, below `s3.client.NAME`: name, default, meaning.
pub const CLIENT_SETTINGS: &[(&str, &str, &str)] = &[
    (
        "access_key",
        "",
        "Name of the key that signs requests. For the client `default` also AWS_ACCESS_KEY_ID.",
    ),
    (
        "secret_key",
        "",
        "The key itself; shown nowhere. For the client `default` also AWS_SECRET_ACCESS_KEY.",
    ),
    (
        "session_token",
        "",
        "Token of a key that ends soon. For the client `default` also AWS_SESSION_TOKEN.",
    ),
    (
        "endpoint",
        "",
        "Host, HOST:PORT or URL of the server. Empty: that of AWS for the region.",
    ),
    ("region", "us-east-1", "Region that requests are signed for."),
    ("protocol", "https", "https or http, where the endpoint does not say."),
    (
        "path_style_access",
        "false",
        "Buckets are a part of the path, and of the host's name otherwise. An endpoint that is an address or localhost always has them in the path.",
    ),
    (
        "max_retries",
        "3",
        "How often a request that failed by the server or the network is sent again.",
    ),
    (
        "read_timeout",
        "50s",
        "How long an answer is waited for, beside a second for each 100 kB that is sent.",
    ),
];

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }
    #[cfg(feature = "s3")]
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A client of S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Client {
    /// The name of the key, the key, and its token.
    pub key: Option<(String, Secret, Option<Secret>)>,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) region: String,
    pub(crate) protocol: Protocol,
    pub(crate) path_style_access: bool,
    pub(crate) max_retries: usize,
    pub(crate) read_timeout: Duration,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Https,
}

/// A server: its protocol if it says so, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    protocol: Option<Protocol>,
    authority: String,
}

impl Default for S3Client {
    fn default() -> S3Client {
        S3Client {
            key: None,
            endpoint: None,
            region: "us-east-1".to_owned(),
            protocol: Protocol::Https,
            path_style_access: false,
            max_retries: 3,
            read_timeout: Duration::from_secs(50),
        }
    }
}

impl S3Client {
    /// From settings by the last part of their names; those that are empty or not there have their default.
    ///
    /// # Errors
    /// IllegalArgument: a value that cannot be read, a key without its name; named by `prefix` and the setting.
    pub fn parse(prefix: &str, text: impl Fn(&str) -> Option<String>) -> Result<S3Client> {
        let given = |name: &str| text(name).filter(|value| !value.is_empty());
        let refuse = |name: &str, value: &str, why: &str| Error::illegal(format!("[{prefix}.{name}] is [{value}]: {why}"));
        let default = S3Client::default();
        let secret = |name: &str| given(name).map(Secret);
        let key = match (given("access_key"), secret("secret_key"), secret("session_token")) {
            (Some(access), Some(secret), token) => Some((access, secret, token)),
            (None, None, None) => None,
            (Some(_), None, _) => {
                return Err(Error::illegal(format!(
                    "[{prefix}.access_key] is given without [{prefix}.secret_key]"
                )));
            }
            (None, Some(_), _) => {
                return Err(Error::illegal(format!(
                    "[{prefix}.secret_key] is given without [{prefix}.access_key]"
                )));
            }
            (None, None, Some(_)) => {
                return Err(Error::illegal(format!(
                    "[{prefix}.session_token] is given without [{prefix}.access_key]"
                )));
            }
        };
        let parsed = |name: &str, why: &str, parse: fn(&str) -> bool| match given(name) {
            Some(value) if !parse(&value) => Err(refuse(name, &value, why)),
            value => Ok(value),
        };
        let number = parsed("max_retries", "must be a whole number up to 100", |text| {
            text.parse::<usize>().is_ok_and(|n| n <= 100)
        })?;
        let flag = parsed("path_style_access", "must be true or false", |text| {
            text.parse::<bool>().is_ok()
        })?;
        let region = parsed("region", REGION, is_region)?;
        let endpoint = match given("endpoint") {
            Some(value) => Some(Endpoint::parse(&value).ok_or_else(|| refuse("endpoint", &value, ENDPOINT))?),
            None => None,
        };
        let protocol = match given("protocol") {
            Some(value) => Some(Protocol::parse(&value).ok_or_else(|| refuse("protocol", &value, PROTOCOL))?),
            None => None,
        };
        let timeout = match given("read_timeout") {
            Some(value) => Some(units::parse_duration(&value, &format!("{prefix}.read_timeout"))?),
            None => None,
        };
        Ok(S3Client {
            key,
            endpoint,
            region: region.unwrap_or(default.region),
            protocol: protocol.unwrap_or(default.protocol),
            path_style_access: flag.map_or(default.path_style_access, |flag| flag == "true"),
            max_retries: number.and_then(|n| n.parse().ok()).unwrap_or(default.max_retries),
            read_timeout: timeout.unwrap_or(default.read_timeout),
        })
    }
}

const REGION: &str = "must be a name of letters, digits and hyphens";
const ENDPOINT: &str = "must be HOST, HOST:PORT, http://HOST:PORT or https://HOST:PORT";
const PROTOCOL: &str = "must be http or https";

fn is_region(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

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

impl Protocol {
    fn parse(text: &str) -> Option<Protocol> {
        match text {
            "http" => Some(Protocol::Http),
            "https" => Some(Protocol::Https),
            _ => None,
        }
    }
    fn scheme(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Https => "https",
        }
    }
}

impl Endpoint {
    fn parse(text: &str) -> Option<Endpoint> {
        let (protocol, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(Protocol::parse(scheme)?), rest),
            None => (None, text),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an address between brackets.
            Some((_, port)) if port.ends_with(']') => (authority, None),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let is_name = |host: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            !host.is_empty() && host.len() <= 253 && host.chars().all(allowed)
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match inner {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_name(host),
        };
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        (is_host && is_port).then(|| Endpoint {
            protocol,
            authority: authority.to_owned(),
        })
    }
    /// Is it an address or this machine, of which no bucket can be a part?
    fn has_no_names(&self) -> bool {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => &self.authority,
        };
        host == "localhost" || host.starts_with('[') || host.parse::<IpAddr>().is_ok()
    }
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
                (format!("{}://{}", protocol.scheme(), endpoint.authority), in_path)
            }
        }
    }
}

fn find_client(name: &str, clients: &BTreeMap<String, S3Client>) -> Result<S3Client, String> {
    match clients.get(name) {
        Some(client) => Ok(client.clone()),
        None if name == DEFAULT_CLIENT => Ok(S3Client::default()),
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

    #[test]
    fn settings_of_clients() {
        let check = |given: &[(&str, &str)], part: Option<&str>| {
            let text = |name: &str| {
                given
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            let got = S3Client::parse("s3.client.c", text);
            match (got, part) {
                (Ok(client), None) => assert!(!format!("{client:?}").contains("hidden"), "{client:?}"),
                (Err(error), Some(part)) => {
                    assert!(error.reason().contains(part) && !error.reason().contains("hidden"), "{error}");
                }
                (got, part) => panic!("{given:?}: {got:?} instead of {part:?}"),
            }
        };
        check(&[], None);
        check(
            &[("access_key", "a"), ("secret_key", "hidden"), ("session_token", "hidden")],
            None,
        );
        check(&[("access_key", "a")], Some("is given without [s3.client.c.secret_key]"));
        check(&[("secret_key", "hidden")], Some("is given without [s3.client.c.access_key]"));
        check(
            &[("session_token", "hidden")],
            Some("[s3.client.c.session_token] is given without"),
        );
        check(&[("endpoint", "a/b")], Some("[s3.client.c.endpoint] is [a/b]"));
        check(&[("protocol", "x")], Some("must be http or https"));
        check(&[("max_retries", "many")], Some("whole number"));
        check(&[("read_timeout", "5")], Some("read_timeout"));
        check(&[("path_style_access", "1")], Some("must be true or false"));
    }
}
