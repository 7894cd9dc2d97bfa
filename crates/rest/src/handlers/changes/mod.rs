//! Endpoints of the feed of changes.

pub(crate) mod consumers;
pub(crate) mod feed;
