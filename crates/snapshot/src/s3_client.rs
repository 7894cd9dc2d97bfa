//! A client of S3 by its settings, which belong to the process.
//!
//! Texts are read once, here: regions and endpoints become parts of addresses, so each has only characters that an address
//! has there.
//!
//! Not here: requests (`s3`), what a repository says beside its client (`s3_place`).

#![cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only requests read what is parsed"))]

use model::{Error, Result, units};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// The client of a repository that names none.
pub const DEFAULT_CLIENT: &str = "default";
/// The most that `max_retries` may be.
const RETRIES_MAX: usize = 100;

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
    pub(crate) protocol: Option<Protocol>,
    /// An address of version 6 stands between brackets.
    host: String,
    port: Option<u16>,
}

pub(crate) const REGION: &str = "must be a name of letters, digits and hyphens";
pub(crate) const ENDPOINT: &str = "must be HOST, HOST:PORT, http://HOST:PORT or https://HOST:PORT";
pub(crate) const PROTOCOL: &str = "must be http or https";

pub(crate) fn is_region(text: &str) -> bool {
    text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

impl S3Client {
    /// From settings by the last part of their names; those that are empty or not there have their default.
    ///
    /// # Errors
    /// IllegalArgument: a value that cannot be read, a key without its name; named by `prefix` and the setting.
    pub fn parse(prefix: &str, text: impl Fn(&str) -> Option<String>) -> Result<S3Client> {
        let values = Values { prefix, text: &text };
        let flag = |text: &str| text.parse::<bool>().ok();
        let count = |text: &str| text.parse().ok().filter(|count| *count <= RETRIES_MAX);
        let endpoint = |text: &str| match text.is_empty() {
            true => Some(None),
            false => Endpoint::parse(text).map(Some),
        };
        let region = |text: &str| is_region(text).then(|| text.to_owned());
        Ok(S3Client {
            key: values.key()?,
            endpoint: values.read("endpoint", ENDPOINT, endpoint)?,
            region: values.read("region", REGION, region)?,
            protocol: values.read("protocol", PROTOCOL, Protocol::parse)?,
            path_style_access: values.read("path_style_access", "must be true or false", flag)?,
            max_retries: values.read("max_retries", "must be a whole number up to 100", count)?,
            read_timeout: units::parse_duration(&values.value("read_timeout"), &format!("{prefix}.read_timeout"))?,
        })
    }
}

/// The values of one client.
struct Values<'a> {
    prefix: &'a str,
    text: &'a dyn Fn(&str) -> Option<String>,
}

impl Values<'_> {
    fn value_of(&self, name: &str) -> Option<String> {
        (self.text)(name).filter(|value| !value.is_empty())
    }

    /// The value that is given, or the default.
    fn value(&self, name: &str) -> String {
        let row = CLIENT_SETTINGS.iter().find(|(known, ..)| *known == name);
        let default = row.map_or("", |(_, default, _)| default);
        self.value_of(name).unwrap_or_else(|| default.to_owned())
    }

    fn read<T>(&self, name: &str, why: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
        let (value, prefix) = (self.value(name), self.prefix);
        parse(&value).ok_or_else(|| Error::illegal(format!("[{prefix}.{name}] is [{value}]: {why}")))
    }

    /// The name of the key, the key and its token.
    fn key(&self) -> Result<Option<(String, Secret, Option<Secret>)>> {
        let secret = |name: &str| self.value_of(name).map(Secret);
        let without = |name: &str, missing: &str| {
            let prefix = self.prefix;
            Err(Error::illegal(format!(
                "[{prefix}.{name}] is given without [{prefix}.{missing}]"
            )))
        };
        match (self.value_of("access_key"), secret("secret_key"), secret("session_token")) {
            (Some(access), Some(secret), token) => Ok(Some((access, secret, token))),
            (None, None, None) => Ok(None),
            (Some(_), None, _) => without("access_key", "secret_key"),
            (None, Some(_), _) => without("secret_key", "access_key"),
            (None, None, Some(_)) => without("session_token", "access_key"),
        }
    }
}

impl Protocol {
    pub(crate) fn parse(text: &str) -> Option<Protocol> {
        match text {
            "http" => Some(Protocol::Http),
            "https" => Some(Protocol::Https),
            _ => None,
        }
    }
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Https => "https",
        }
    }
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Option<Endpoint> {
        let (protocol, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(Protocol::parse(scheme)?), rest),
            None => (None, text),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an address between brackets.
            Some((_, port)) if port.ends_with(']') => (authority, None),
            Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0)?)),
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
        is_host.then(|| Endpoint {
            protocol,
            host: host.to_owned(),
            port,
        })
    }
    /// Is it an address or this machine, of which no bucket can be a part?
    pub(crate) fn has_no_names(&self) -> bool {
        self.host == "localhost" || self.host.starts_with('[') || self.host.parse::<IpAddr>().is_ok()
    }
    /// Host and port.
    pub(crate) fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
