//! Names of the indices that we keep ourselves. Clients may not write to them.

/// The prefix of every system index.
pub const SYSTEM_PREFIX: &str = ".pleach-";

/// Is this one of ours?
pub fn is_system(index: &str) -> bool {
    index.starts_with(SYSTEM_PREFIX)
}
