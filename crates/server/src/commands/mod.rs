//! One file a subcommand.

pub(crate) mod backup;
pub(crate) mod cert;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod documents;
pub(crate) mod import;
pub(crate) mod lock;
pub(crate) mod replicate;
mod rows;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod tasks;
pub(crate) mod top;
pub(crate) mod users;
