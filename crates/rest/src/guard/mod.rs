//! The engine as one principal may use it: the one place where names become indices is where rights are asked for.
//!
//! Each request of a user has a [`GuardedEngine`] of its own around the server's. Every call names documents or indices; names
//! without the right are refused before the engine sees them, wildcards become the names that the principal may see. `scope`
//! decides, `targets` rewrites, `engine` guards single calls, `descriptions` shows indices, `jobs` looks at by-query jobs, `sections` at
//! the critical section and staged views, `feed` at the changes. Not here: which endpoint needs which right (`routes`), privileges (`security`).

mod alterations;
mod descriptions;
mod engine;
mod feed;
mod jobs;
mod scope;
mod sections;
mod targets;

pub(crate) use engine::GuardedEngine;
pub(crate) use scope::Scope;
