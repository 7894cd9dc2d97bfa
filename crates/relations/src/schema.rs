//! Names of the indices that we keep ourselves. Clients may not write to them.

pub use model::system_index::{CONTROL_INDEX as CONTROL, forbidden, is_system};

pub(crate) use engine::control_index as make_control;

/// Begins the ids of leases, and of sessions.
pub(crate) const LEASE: &str = "s:";

/// Is this where a lease is, or a session? Only who alters the table of locks writes there.
pub(crate) fn is_lease(at: &model::DocAddress) -> bool {
    at.index.as_str() == CONTROL && at.id.id.starts_with(LEASE)
}
