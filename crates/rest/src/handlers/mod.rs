//! One folder an API group. A handler takes parameters, reads its body, calls down once, renders; no handler imports another.
//!
//! Each is `#[boxed]`: the table of endpoints holds it, and its body is compiled in its own module and nowhere else.
//!
//! Not here: what several share (`actions`, `render`, `targets`).

pub(crate) mod cat;
pub(crate) mod changes;
pub(crate) mod cluster;
pub(crate) mod documents;
pub(crate) mod es2;
pub(crate) mod indices;
pub(crate) mod jobs;
pub(crate) mod links;
pub(crate) mod locks;
pub(crate) mod search;
pub(crate) mod security;
pub(crate) mod snapshots;
pub(crate) mod stubs;
pub(crate) mod transactions;
pub(crate) mod trees;
pub(crate) mod unsupported;
