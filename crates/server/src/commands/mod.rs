//! One file a subcommand.

pub(crate) mod import;
pub(crate) mod serve;
