//! Names of the indices that we keep ourselves. Clients may not write to them.

pub use model::system_index::{CONTROL_INDEX as CONTROL, forbidden, is_system};

pub(crate) use engine::control_index as make_control;
