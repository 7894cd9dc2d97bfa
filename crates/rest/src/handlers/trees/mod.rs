//! Endpoints of directory trees: `_tree`.

pub(crate) mod list;
pub(crate) mod moves;
