//! Endpoints that only Elasticsearch 2 has.

pub(crate) mod apis;
pub(crate) mod cat;
pub(crate) mod percolate;
pub(crate) mod warmers;
