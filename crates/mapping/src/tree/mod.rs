//! The directories of `tree_path` fields as one value, so that a move of a directory is one small operation.
//!
//! A [`Tree`] knows each directory by a number that is never given twice. Documents keep numbers (`placed`), never paths that
//! count. docs/internals/trees.md numbers the invariants; code cites them as "trees.md D1".
//!
//! Not here: IO, locks, the log (`embedded/src/trees.rs`); queries (`search/src/clauses/tree_path.rs`).

mod directories;
mod dump;
mod operation;
mod placed;
mod plan;
mod syntax;
#[cfg(test)]
mod tests;

pub use directories::{DirId, Tree};
pub use operation::Operation;
pub use placed::{Placed, collect, has_paths_of, todays_source};
pub use plan::{Made, Moved, missing};
pub use syntax::{COMPONENTS_MAX, PATH_MAX_BYTES, PathSyntax, TreePart};
