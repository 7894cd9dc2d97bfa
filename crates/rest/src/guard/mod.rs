//! The engine as one principal may use it: the one place where names become indices is where rights are asked for.
//!
//! Each request of a user has a [`GuardedEngine`] of its own around the server's. Every call names documents or indices; names
//! without the right are refused before the engine sees them, wildcards become the names that the principal may see. `scope`
//! decides, `targets` rewrites, `engine` guards single calls, `sections` the critical section and staged views, `feed` the
//! changes. Not here: which endpoint needs which right (`routes`), privileges (`security`).

mod alterations;
mod engine;
mod feed;
mod scope;
mod sections;
mod targets;

pub(crate) use engine::GuardedEngine;
pub(crate) use scope::Scope;
