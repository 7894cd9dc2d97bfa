//! What the source code of the workspace looks like, in numbers: `cargo run -p xtask -- shape`.
//!
//! `source` reads the crates, `modules` has the graph of their modules, `functions` their functions, assertions and names,
//! `prose` the sentences of documents, `shape` the table. Not here: what must hold, which is asserted by
//! `crates/server/tests/layers.rs`.

pub mod functions;
pub mod modules;
pub mod prose;
pub mod shape;
pub mod source;
