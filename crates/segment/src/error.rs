//! Failures of segments: while they are read, and while they are built.

use model::{Error, ErrorKind};
use std::fmt;

/// A failure of tantivy while reading: files that are not as they were written.
pub fn broken(cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Corruption, format!("reading a segment failed: {cause}"))
}

/// A failure of tantivy while writing.
pub fn build_error(cause: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("building a segment failed: {cause}"))
}
