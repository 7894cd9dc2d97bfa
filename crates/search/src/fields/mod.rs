//! Where the values of a field lie in an index.

pub(crate) mod column;
pub(crate) mod field_data;
pub(crate) mod geo_distance;
pub(crate) mod multi_value;
pub(crate) mod parent_ids;
pub(crate) mod target;
