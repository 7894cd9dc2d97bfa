//! Names that are patterns.
//!
//! Not here: the endpoints that use it (`handlers`).

/// Whether a name stands for any number of things, none included.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains('*') || name == "_all"
}
