//! Endpoints of documents.

pub(crate) mod bulk;
pub(crate) mod get;
pub(crate) mod mget;
pub(crate) mod term_vectors;
pub(crate) mod update;
pub(crate) mod write;
