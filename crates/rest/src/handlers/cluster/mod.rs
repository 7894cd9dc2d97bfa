//! Endpoints of the cluster and its nodes.

pub(crate) mod health_report;
pub(crate) mod hot_threads;
pub(crate) mod nodes;
pub(crate) mod overview;
pub(crate) mod prometheus;
pub(crate) mod settings;
pub(crate) mod stored_scripts;
