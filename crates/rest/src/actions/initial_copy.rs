//! The initial copy of the feed, a part at a time: every index with its documents, and then the position to go on behind.
//!
//! A place in a copy is a text that the client gives back. It names the view, so the server keeps nothing beside that.
//!
//! Not here: the view (`engine::changes`), how parts are answered (`handlers::changes`).

use crate::Rest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use dsl::query::Clause;
use engine::changes::{ChangeFeed, Operation};
use engine::{Cursor, Part};
use model::settings::{FEED_KEEP_ALIVE, node_duration};
use model::{Cancellation, CommitSeq, Error, ErrorKind, IndexName, Result, Target, units};
use serde_json::{Value, json};

/// How a place is told from a position.
const PREFIX: &str = "copy-";
/// Documents that are read at once.
const DOCS: usize = 1000;

/// A place in an initial copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyPlace {
    /// The view that shows the documents.
    view: String,
    /// Where the feed goes on.
    moment: CommitSeq,
    /// The index that was begun last, and how far its documents were read.
    index: Option<(IndexName, Option<Cursor>)>,
}

impl CopyPlace {
    /// The text that a client gives back.
    pub(crate) fn render(&self) -> String {
        let (index, after) = match &self.index {
            Some((index, after)) => (index.as_str().into(), after.as_ref().map_or(Value::Null, Cursor::render)),
            None => (Value::Null, Value::Null),
        };
        let text = json!([self.view, self.moment, index, after]).to_string();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(text))
    }

    /// The inverse; `None`: the text is no place.
    pub(crate) fn parse(text: &str) -> Option<CopyPlace> {
        let text = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        let place: Value = serde_json::from_slice(&text).ok()?;
        let index = match &place[2] {
            Value::Null => None,
            name => {
                let after = match &place[3] {
                    Value::Null => None,
                    after => Some(Cursor::parse(after)?),
                };
                Some((IndexName::new(name.as_str()?), after))
            }
        };
        Some(CopyPlace {
            view: place[0].as_str()?.to_owned(),
            moment: place[1].as_u64()?,
            index,
        })
    }

    /// The position to go on behind once the copy is read.
    pub(crate) fn moment(&self) -> CommitSeq {
        self.moment
    }
}

/// Opens a copy of the indices that match one of the patterns; none: of every index.
///
/// # Errors
/// Damage, too many open views.
pub(crate) async fn open(feed: &dyn ChangeFeed, patterns: &[String]) -> Result<CopyPlace> {
    let copy = feed.open_copy(patterns, node_duration(FEED_KEEP_ALIVE)).await?;
    Ok(CopyPlace {
        view: copy.view.id,
        moment: copy.moment,
        index: None,
    })
}

/// The next operations of a copy, at most `limit` and about `bytes_max` bytes of documents, and the place behind them.
/// No operations: the copy has been read.
///
/// # Errors
/// ChangesGone: the copy is closed.
pub(crate) async fn read(
    rest: &Rest,
    feed: &dyn ChangeFeed,
    mut place: CopyPlace,
    (limit, bytes_max): (usize, u64),
    cancellation: &Cancellation,
) -> Result<(Vec<Operation>, CopyPlace)> {
    // Also closes those that nobody has read for too long.
    rest.engine
        .renew_view(&place.view, node_duration(FEED_KEEP_ALIVE))
        .await
        .map_err(as_gone)?;
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    let (mut operations, mut bytes) = (Vec::new(), 0);
    while operations.len() < limit && bytes < bytes_max {
        let docs_max = (limit - operations.len()).min(DOCS);
        let documents = match &place.index {
            None => Vec::new(),
            Some((index, after)) => {
                let part = Part {
                    index: index.clone(),
                    after: after.clone(),
                    upto: None,
                    docs_max,
                    bytes_max: bytes_max - bytes,
                    now_ms: rest.clock.wall_ms(),
                    cancellation: cancellation.clone(),
                };
                // The copy has indices that are closed, or hidden.
                let target = Target {
                    expand_closed: true,
                    expand_hidden: true,
                    forbid_closed: false,
                    ..Target::index(index.as_str())
                };
                let read = rest
                    .engine
                    .scan_by_seq_no(&target, Clause::MatchAll.into(), &place.view, part)
                    .await;
                read.map_err(as_gone)?
            }
        };
        assert!(
            documents.len() <= docs_max,
            "a part of a copy has no more documents than were asked for"
        );
        match documents.last() {
            Some(last) => {
                place.index = Some((last.document.at.index.clone(), Some(last.cursor.clone())));
                bytes += documents.iter().map(|one| one.document.source.0.len()).sum::<usize>();
                let documents = documents.into_iter().map(|one| Operation::Index(Box::new(one.document)));
                operations.extend(documents);
            }
            None => {
                let before = place.index.as_ref().map(|(index, _)| index);
                let Some(state) = feed.copied_index(&place.view, before).map_err(as_gone)? else {
                    break;
                };
                place.index = Some((state.index.clone(), None));
                operations.push(Operation::CreateIndex(state));
            }
        }
    }
    Ok((operations, place))
}

/// A copy that is closed is refused as a position that is gone is.
fn as_gone(error: Error) -> Error {
    if error.kind() != ErrorKind::SearchContextMissing {
        return error;
    }
    let reason = format!(
        "the initial copy is closed; it stays open for [{}] after a part was read, the setting [{}], and until the server stops: \
         begin again with [since=0&initial=true]",
        units::render_duration(node_duration(FEED_KEEP_ALIVE)),
        FEED_KEEP_ALIVE.name
    );
    Error::new(ErrorKind::ChangesGone, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_were_given() {
        let check = |index: Option<(IndexName, Option<Cursor>)>| {
            let place = CopyPlace {
                view: "v".to_owned(),
                moment: 7,
                index,
            };
            assert_eq!(CopyPlace::parse(&place.render()), Some(place));
        };
        check(None);
        check(Some((IndexName::new("i"), None)));
        check(Some((IndexName::new("i"), Some(Cursor::of_one_shard(3)))));
        for text in ["", "copy-", "copy-x", "7", "copy-W10"] {
            assert_eq!(CopyPlace::parse(text), None, "{text}");
        }
    }
}
