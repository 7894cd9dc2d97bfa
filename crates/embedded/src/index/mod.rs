//! One index: where fields lie, what a document becomes, segments and their building and merging.
//!
//! Not here: names and settings (`catalog`), stamps and acknowledgement (`evaluate`), publishing (`publish`).

pub mod build;
pub mod cache;
pub mod derived;
pub mod document;
pub(crate) mod grid;
pub mod merge;
pub mod schema;
pub mod segment;
pub mod stored;
pub mod stored_source;
pub(crate) mod times;
pub mod tokens;
