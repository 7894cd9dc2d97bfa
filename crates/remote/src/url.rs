//! The address of a cluster as people write it: `[http://][user:password@]host[:port][/]`.
//!
//! Not here: connecting.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Error, Result};
use percent_encoding::percent_decode_str;
use std::fmt;

/// Where HTTP is spoken if nothing else is said.
const PORT: &str = "9200";

/// A cluster, and as whom it is spoken to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    /// `host:port`. Messages name it.
    pub(crate) address: String,
    /// The value of `authorization`. It is shown nowhere.
    pub(crate) authorization: Option<String>,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorization = self.authorization.as_ref().map(|_| "..");
        f.debug_struct("Url")
            .field("address", &self.address)
            .field("authorization", &authorization)
            .finish()
    }
}

impl Url {
    /// Parses a text. User and password are percent-encoded where they must be.
    ///
    /// # Errors
    /// Another scheme than `http`; a path; a host that is none. The text is not repeated: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Url> {
        let rest = match text.split_once("://") {
            None => text,
            Some(("http", rest)) => rest,
            Some(("https", _)) => return Err(crate::unsupported_error("TLS")),
            Some(_) => {
                return Err(Error::illegal(
                    "the address of a cluster begins with [http://] or has no scheme",
                ));
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, host) = match rest.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, rest),
        };
        let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
        if !is_host {
            let reason = "the address of a cluster is [http://][user:password@]host[:port], without a path";
            return Err(Error::illegal(reason));
        }
        // Behind an IPv6 address in brackets only what follows the brackets is a port.
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let address = if has_port { host.to_owned() } else { format!("{host}:{PORT}") };
        let authorization = user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let mut pair: Vec<u8> = percent_decode_str(name).collect();
            pair.push(b':');
            pair.extend(percent_decode_str(password));
            format!("Basic {}", STANDARD.encode(pair))
        });
        Ok(Url { address, authorization })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, address, authorization) in [
            ("localhost:9200", "localhost:9200", None),
            ("http://localhost", "localhost:9200", None),
            ("http://[::1]:9400/", "[::1]:9400", None),
            ("[::1]", "[::1]:9200", None),
            ("http://admin:secret@h:1", "h:1", Some("Basic YWRtaW46c2VjcmV0")),
            // A colon and an at in a password, and bytes that are no UTF-8.
            ("u:p%40%3A%FF@h:1", "h:1", Some("Basic dTpwQDr/")),
            ("u:a:b@c@h", "h:9200", Some("Basic dTphOmJAYw==")),
            ("u@h", "h:9200", Some("Basic dTo=")),
        ] {
            let url = Url::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
            assert_eq!(
                (url.address.as_str(), url.authorization.as_deref()),
                (address, authorization),
                "{text}"
            );
            assert!(!format!("{url:?}").contains("Basic"), "a password is not shown");
        }
        for text in ["https://h", "ftp://h", "http://", "h/path", "u:secret@", "h:1?x", "a b"] {
            let error = Url::parse(text).expect_err(text);
            assert!(!error.reason().contains("secret"), "{error:?}");
        }
    }
}
