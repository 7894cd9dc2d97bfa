//! The indices that a request names.
//!
//! Not here: what is done with them.

pub(crate) mod administration;
pub(crate) mod destructive;
