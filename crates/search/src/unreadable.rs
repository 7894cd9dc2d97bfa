//! Failures of tantivy while it reads.

/// An error of tantivy as ours.
pub fn broken(error: impl std::fmt::Display) -> model::Error {
    model::Error::new(model::ErrorKind::Internal, format!("index cannot be read: {error}"))
}
