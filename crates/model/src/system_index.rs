//! Indices that the server keeps for itself: their names, and the refusal of requests that would alter them.
//!
//! Where it is enforced: `embedded::catalog::system` for alterations of the catalog and for names that lead there by
//! detours, `relations` and `rest` for writes of documents by name. Wildcards and aliases never lead there. Not here: how
//! such an index is made (`engine::control_index`).

use crate::{Error, ErrorKind};

/// How the name of every system index begins.
pub const SYSTEM_PREFIX: &str = ".pleach-";

/// Locks, idempotency keys, sessions and tasks.
pub const CONTROL_INDEX: &str = ".pleach-control";

/// Users, roles and API keys. Nobody reads it by a request of documents, whatever their rights are, and whether or not security is
/// on: only a target that is [`internal`](crate::Target::internal) leads there.
pub const SECURITY_INDEX: &str = ".pleach-security";

/// Is this the name of a system index, whether it is there or not?
pub fn is_system(index: &str) -> bool {
    index.starts_with(SYSTEM_PREFIX)
}

/// The refusal of a request that would write to a system index or alter it.
pub fn forbidden(index: &str) -> Error {
    let reason = format!(
        "index [{index}] is kept by the server; clients may not write to it or alter it: it holds locks, idempotency keys, \
         transactions and tasks"
    );
    Error::new(ErrorKind::Security, reason).with("index", index)
}

/// The refusal of a request that would read users and keys as documents.
pub fn unreadable(index: &str) -> Error {
    let reason =
        format!("index [{index}] is kept by the server for users, roles and keys; only the APIs below [_security] read it");
    Error::new(ErrorKind::Security, reason).with("index", index)
}
