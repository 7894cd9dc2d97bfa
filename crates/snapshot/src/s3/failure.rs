//! What a server of S3 refused, in words: its code and its message, and nothing that a refusal repeats of the request.

use model::{Error, ErrorKind};
use object_store::client::HttpError;
use std::error::Error as StdError;

/// The longest that a server's words may be.
const WORDS_MAX: usize = 300;

/// A refusal or a failure.
#[derive(Debug)]
pub(crate) struct S3Failure {
    /// Of HTTP, where there was an answer.
    status: Option<u16>,
    /// As S3 calls it, as `NoSuchBucket`.
    code: Option<String>,
    words: String,
    is_precondition: bool,
    is_missing: bool,
}

impl S3Failure {
    pub(crate) fn of(error: &object_store::Error) -> S3Failure {
        let first: &(dyn StdError + 'static) = error;
        let chain: Vec<_> = std::iter::successors(Some(first), |error: &&(dyn StdError + 'static)| (**error).source()).collect();
        let text = chain.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n");
        let status: Option<u16> = between(&text, "status code: ", " ").and_then(|status| status.parse().ok());
        let code = between(&text, "<Code>", "</Code>").map(cut);
        let message = between(&text, "<Message>", "</Message>").map(cut);
        let transport = chain.iter().find_map(|error| error.downcast_ref::<HttpError>());
        let words = match (transport.and_then(|error| error.source()), status, message) {
            (Some(cause), ..) => cut(&cause.to_string()),
            (None, Some(status), message) => {
                let parts = [Some(status.to_string()), code.clone(), message];
                parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
            }
            // An answer that is no XML of S3, a path that is none: said by the client, which knows no key.
            (None, None, _) => cut(error.to_string().split('<').next().unwrap_or_default()),
        };
        S3Failure {
            status,
            code,
            words,
            is_precondition: matches!(
                error,
                object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }
            ),
            is_missing: matches!(error, object_store::Error::NotFound { .. }),
        }
    }

    /// The server is stopping, and waits for nothing.
    pub(crate) fn stopping() -> S3Failure {
        S3Failure {
            status: None,
            code: None,
            words: "the server is stopping".to_owned(),
            is_precondition: false,
            is_missing: false,
        }
    }

    /// There is no such file, and the bucket is there.
    pub(crate) fn is_missing_file(&self) -> bool {
        self.is_missing && self.code.as_deref() != Some("NoSuchBucket")
    }
    /// The file is not in the state that the request asked for.
    pub(crate) fn is_precondition(&self) -> bool {
        self.is_precondition
    }
    /// The server knows no conditions of writing.
    pub(crate) fn is_unknown_condition(&self) -> bool {
        self.status == Some(501) || self.code.as_deref() == Some("NotImplemented")
    }
    /// The asked range lies behind the end of the file.
    pub(crate) fn is_beyond_end(&self) -> bool {
        self.status == Some(416) || self.code.as_deref() == Some("InvalidRange")
    }

    /// As an error of a repository.
    pub(crate) fn error(&self, doing: &str, shown: &str) -> Error {
        let is_full = self.status == Some(507) || matches!(self.code.as_deref(), Some("XMinioStorageFull" | "QuotaExceeded"));
        let kind = if is_full { ErrorKind::DiskFull } else { ErrorKind::Repository };
        Error::new(kind, format!("{doing} [{shown}] failed: {}", self.words)).with("path", shown.to_owned())
    }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(inside, _)| inside)
}

fn cut(text: &str) -> String {
    text.trim().chars().take(WORDS_MAX).collect()
}
