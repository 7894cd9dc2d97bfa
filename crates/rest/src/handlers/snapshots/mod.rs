//! `_snapshot`: repositories, snapshots, and restores.
//!
//! Not here: what several of them share (`actions::snapshots`), tables (`handlers::cat`).

pub(crate) mod read;
pub(crate) mod repositories;
pub(crate) mod restore;
pub(crate) mod take;
