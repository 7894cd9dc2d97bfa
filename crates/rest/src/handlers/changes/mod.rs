//! Endpoints of the feed of changes.

pub(crate) mod feed;
