//! The names of a repository's files.

pub(crate) const ROOT: &str = "index";
pub(crate) const SNAPSHOTS: &str = "snapshots";
pub(crate) const BLOBS: &str = "blobs";
pub(crate) const TEMPORARY: &str = "temporary";
pub(crate) const WRITING: &str = "writing";
pub(crate) const LOCK: &str = "lock";
/// Bytes that are read or written at once.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
