//! Endpoints of link policies: `_link/policy`.

pub(crate) mod policies;
pub(crate) mod upkeep;
