//! Acts that several endpoints share: reads, writes, searches, locks, jobs. Each calls down once and gives a value.
//!
//! Not here: endpoints (`handlers`), the shape of answers (`render`).

pub(crate) mod bulk;
pub(crate) mod by_query;
pub(crate) mod directory_documents;
pub(crate) mod documents;
pub(crate) mod es2_shards;
pub(crate) mod feed;
pub(crate) mod initial_copy;
pub(crate) mod jobs;
pub(crate) mod link_work;
pub(crate) mod locks;
pub(crate) mod path_field;
pub(crate) mod percolator;
pub(crate) mod pit_counts;
pub(crate) mod read;
pub(crate) mod scroll;
pub(crate) mod search;
pub(crate) mod security;
pub(crate) mod snapshots;
pub(crate) mod tasks;
pub(crate) mod template_overlap;
pub(crate) mod templates;
pub(crate) mod transaction;
pub(crate) mod transaction_stage;
pub(crate) mod update;
pub(crate) mod visibility;
pub(crate) mod writes;
