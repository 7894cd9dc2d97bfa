//! The feed of the engine, and its consumers by name.
//!
//! Not here: endpoints (`handlers::changes`), where positions are kept (the engine).

use crate::Rest;
use engine::changes::{ChangeFeed, Consumer};
use model::{CommitSeq, Error, ErrorKind, Result, nearest};

/// The feed of changes.
///
/// # Errors
/// UnsupportedOperation: the engine has none.
pub(crate) fn feed_of(rest: &Rest) -> Result<&dyn ChangeFeed> {
    rest.engine.change_feed().ok_or_else(|| {
        let reason = "the engine of this server keeps no feed of changes";
        Error::new(ErrorKind::UnsupportedOperation, reason)
    })
}

/// The position of a consumer.
///
/// # Errors
/// ResourceNotFound: there is no such consumer.
pub(crate) fn position(feed: &dyn ChangeFeed, name: &str) -> Result<CommitSeq> {
    let consumers = feed.consumers();
    let found = consumers.iter().find(|consumer| consumer.name == name);
    found
        .map(|consumer| consumer.position)
        .ok_or_else(|| missing(name, &consumers))
}

/// The refusal of a consumer that is not there.
pub(crate) fn missing(name: &str, consumers: &[Consumer]) -> Error {
    let hint = nearest::question(name, consumers.iter().map(|consumer| consumer.name.as_str()));
    Error::new(
        ErrorKind::ResourceNotFound,
        format!("there is no consumer [{name}] of the feed{hint}"),
    )
}
