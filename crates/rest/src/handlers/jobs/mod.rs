//! Endpoints of by-query jobs and tasks.

pub(crate) mod by_query;
pub(crate) mod tasks;
