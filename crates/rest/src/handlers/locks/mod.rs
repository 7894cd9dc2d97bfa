//! Endpoints of locks.

pub(crate) mod leases;
