//! Lock documents: documents of an index with `index.pleach.lock_index`, each of which is a lock.
//!
//! The document stays what the client wrote. Each of its holders has a lease beside it, written in the same record (T21).
//!
//! `format` says what one document says, `apply` what a write of one does to the table of locks, `release` what becomes of it
//! when its leases end. Not here: leases themselves (`leases`), ends of leases (`lease_ends`).

pub(crate) mod apply;
pub(crate) mod format;
pub(crate) mod release;

pub use format::not_staged;
