//! The outcomes of a decision that provides for nothing but success.

use engine::Outcome;
use model::{Error, ErrorKind, Result};

/// Every one was written; `conflict` says what it means if one was not, and nothing was expected of it.
///
/// # Errors
/// The first refusal, or an unknown outcome.
pub(crate) fn all_written(outcomes: &[Outcome], conflict: &str) -> Result<()> {
    let mut unknown = false;
    for outcome in outcomes {
        match outcome {
            Outcome::Written(_) => {}
            Outcome::Refused(error) => return Err(error.clone()),
            // Also of one that would have been written, had none been refused.
            Outcome::Unknown => unknown = true,
            Outcome::Conflict(_) | Outcome::Held(_) => return Err(Error::new(ErrorKind::Internal, conflict)),
        }
    }
    if unknown { Err(log_failed()) } else { Ok(()) }
}

/// Whether it was written nobody knows before a restart.
pub(crate) fn log_failed() -> Error {
    Error::new(ErrorKind::LogFailed, "the outcome is unknown: the log failed").with("outcome", "unknown")
}
