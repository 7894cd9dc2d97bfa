//! The shape of answers: facts of indices, shards, nodes and the cluster as JSON and tables.
//!
//! Not here: endpoints (`handlers`), what is done (`actions`).

pub(crate) mod cat;
pub(crate) mod cat_figures;
pub(crate) mod changes;
pub(crate) mod cluster;
pub(crate) mod cluster_settings;
pub(crate) mod field_types;
pub(crate) mod indices;
pub(crate) mod nodes;
pub(crate) mod patterns;
pub(crate) mod pools;
pub(crate) mod settings;
pub(crate) mod shards;
pub(crate) mod snapshots;
pub(crate) mod warmers;
