//! Endpoints of indices: administration, mappings, settings, aliases, templates.

pub(crate) mod admin;
pub(crate) mod aliases;
pub(crate) mod analyze;
pub(crate) mod mappings;
pub(crate) mod resolve;
pub(crate) mod rollover;
pub(crate) mod settings;
pub(crate) mod shards;
pub(crate) mod simulate;
pub(crate) mod templates;
