//! `Authorization` headers, and the challenge of an answer without them.

use model::{Error, ErrorKind};
use security::secrets::decode_pair;
use serde_json::json;

/// What somebody gives to prove who they are.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credentials {
    Password { user: String, password: String },
    Key { id: String, secret: String },
}

/// Secrets are in no log.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.name())
    }
}

/// How credentials are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scheme {
    Password,
    Key,
}

/// A header that is not decoded: its scheme, and the text that stands for both parts of the credentials. A bearer's token is an
/// API key as it is encoded.
pub(crate) fn split(header: &str) -> Option<(Scheme, &str)> {
    let (scheme, text) = header.trim().split_once(' ')?;
    let is = |name: &str| scheme.eq_ignore_ascii_case(name);
    let scheme = match is("basic") {
        true => Scheme::Password,
        false => (is("apikey") || is("bearer")).then_some(Scheme::Key)?,
    };
    Some((scheme, text.trim()))
}

impl Credentials {
    /// `Basic`, `ApiKey` or `Bearer`.
    pub(crate) fn parse(header: &str) -> Option<Credentials> {
        let (scheme, text) = split(header)?;
        Credentials::decode(scheme, text)
    }
    /// What [`split`] gave, decoded.
    pub(crate) fn decode(scheme: Scheme, text: &str) -> Option<Credentials> {
        let (name, secret) = decode_pair(text)?;
        Some(match scheme {
            Scheme::Password => Credentials::Password {
                user: name,
                password: secret,
            },
            Scheme::Key => Credentials::Key { id: name, secret },
        })
    }
    /// The user, or the id of the key.
    pub(crate) fn name(&self) -> &str {
        match self {
            Credentials::Password { user, .. } => user,
            Credentials::Key { id, .. } => id,
        }
    }
}

/// The user that a header of the scheme `Basic` names. Nobody has compared the password.
pub(crate) fn claimed_user(header: &str) -> Option<String> {
    match Credentials::parse(header)? {
        Credentials::Password { user, .. } if !user.is_empty() => Some(user),
        _ => None,
    }
}

/// What an answer of 401 asks for, a header each.
pub(crate) const SCHEMES: [&str; 3] = [
    "Basic realm=\"security\" charset=\"UTF-8\"",
    "Bearer realm=\"security\"",
    "ApiKey",
];

/// The refusal of who has not proved who they are.
pub(crate) fn challenge(reason: String) -> Error {
    Error::new(ErrorKind::Security, reason)
        .status_of(401)
        .with("header", json!({ "WWW-Authenticate": SCHEMES }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let password = Credentials::Password {
            user: "a".into(),
            password: "b:c".into(),
        };
        let key = Credentials::Key {
            id: "a".into(),
            secret: "b:c".into(),
        };
        for (header, expected) in [
            ("Basic YTpiOmM=", Some(password.clone())),
            ("basic  YTpiOmM", Some(password)),
            ("ApiKey YTpiOmM=", Some(key.clone())),
            ("Bearer YTpiOmM=", Some(key)),
            ("Basic", None),
            ("Basic YQ==", None),
            ("Basic !!", None),
            ("Digest YTpiOmM=", None),
            ("", None),
        ] {
            assert_eq!(Credentials::parse(header), expected, "{header}");
        }
    }
}
