//! Endpoints of searches.

pub(crate) mod explain;
pub(crate) mod query;
pub(crate) mod rank_eval;
pub(crate) mod script_execution;
pub(crate) mod scroll;
pub(crate) mod templates;
