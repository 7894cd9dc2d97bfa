//! Users, roles and API keys: `_security`, as Elasticsearch has it.

pub(crate) mod api_keys;
pub(crate) mod own;
pub(crate) mod roles;
pub(crate) mod users;
