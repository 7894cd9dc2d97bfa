//! One file an API group. A handler takes parameters, reads its body, calls down once, renders.

pub(crate) mod aliases;
pub(crate) mod analyze;
pub(crate) mod apis_2015;
pub(crate) mod bulk;
pub(crate) mod by_query;
pub(crate) mod cat;
pub(crate) mod cat_2015;
pub(crate) mod changes;
pub(crate) mod cluster;
pub(crate) mod documents;
pub(crate) mod explain;
pub(crate) mod indices;
pub(crate) mod jobs;
pub(crate) mod locks;
pub(crate) mod mappings;
pub(crate) mod resolve;
pub(crate) mod rollover;
pub(crate) mod scroll;
pub(crate) mod search;
pub(crate) mod search_templates;
pub(crate) mod settings;
pub(crate) mod stored_scripts;
pub(crate) mod tasks;
pub(crate) mod templates;
pub(crate) mod unsupported;
mod visibility;
mod writes;
