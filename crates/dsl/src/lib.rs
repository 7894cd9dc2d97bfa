//! Requests as types: queries, aggregations, searches, bulk lines, update bodies.
//!
//! Parsing reads JSON through [`json`] and yields types that cannot be wrong; rendering is its inverse.
//! Not here: mappings, indices, execution. A clause does not know whether its field exists.

pub mod aggs;
pub mod document;
pub mod interruption;
pub mod json;
pub mod query;
pub mod query_string;
pub mod rank_eval;
pub mod search;
mod shape;
pub mod template;
