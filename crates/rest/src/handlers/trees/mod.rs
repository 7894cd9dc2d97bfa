//! Endpoints of directory trees: `_tree`.
//!
//! Not here: which field has the paths (`actions::path_field`), changes of documents (`actions::directory_documents`).

pub(crate) mod copies;
pub(crate) mod list;
pub(crate) mod moves;
pub(crate) mod removals;
