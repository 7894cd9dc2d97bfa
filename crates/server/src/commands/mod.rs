//! One file a subcommand.

pub(crate) mod check;
pub(crate) mod import;
pub(crate) mod serve;
