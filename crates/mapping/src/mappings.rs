//! The mappings of an index: one, or in the dialect of 2015 one for each type.

use crate::{Mapping, TypedMappings};

/// The mappings of an index.
#[derive(Clone, Debug)]
pub enum Mappings {
    /// One.
    Plain(Mapping),
    /// One for each type.
    Typed(TypedMappings),
}
