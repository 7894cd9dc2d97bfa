//! Snapshots of indices: taking them at one moment while writes go on, and making indices out of them.
//!
//! Not here: what is in a repository (`snapshot`), what runs (`snapshot_work`), the set of a restored index in the log
//! (`restored_set`), the calls of the contract (`snapshot_calls`).

pub(crate) mod pace;
pub(crate) mod repositories;
pub(crate) mod restore;
pub(crate) mod take;
