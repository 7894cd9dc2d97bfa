//! How a block of documents lies to what is looked for, as far as its bounds tell.
//!
//! Not here: bounds of columns (`column_range`), boxes of places (`geo`).

/// The part of a block that is in a range or an area. `Some` may be any part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    None,
    Some,
    All,
}
