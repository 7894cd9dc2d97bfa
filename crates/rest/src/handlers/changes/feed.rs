//! `GET /_changes`: every committed change, in commit order, each whole.
//!
//! An answer is a part of the feed as JSON, the same as lines (`Accept: application/x-ndjson`), or everything that comes
//! from now on as server-sent events (`Accept: text/event-stream`). With `initial=true` a copy of what is there comes before.
//!
//! Not here: the copy (`actions::initial_copy`), the feed (`engine::changes`), changes as JSON (`render::changes`).

use crate::Rest;
use crate::actions::feed::{feed_of, position};
use crate::actions::initial_copy::{self, CopyPlace};
use crate::call::{AnswerForm, Call};
use crate::envelope;
use crate::event_stream::EventStream;
use crate::render::changes;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use engine::changes::{Change, ChangeFeed, Operation, Retained};
use model::settings::{FEED_LINGER, FEED_MAX_BYTES, FEED_MAX_OPERATIONS, FEED_MAX_WAIT, node_count, node_duration};
use model::{Cancellation, CommitSeq, Error, Result, path, units};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// Operations of an answer where the request does not say.
const OPERATIONS: usize = 1000;
/// Bytes of the log that are read at once.
const READ_BYTES: u64 = 1 << 20;
/// Bytes of the log that an operation takes about, at least. Fewer bytes than `limit` operations need do not fill an answer.
const OPERATION_BYTES: u64 = 32;
/// A stream without changes sends a comment so often: who reads it knows that the server is there.
const HEARTBEAT_EACH: Duration = Duration::from_secs(15);

/// `GET /_changes`
#[boxed]
pub(crate) async fn changes(mut call: Call) -> Result<Answer> {
    let feed = feed_of(&call.rest)?;
    let shown = Shown {
        indices: call.params.take_list("index").unwrap_or_default(),
        with_source: call.params.take_bool("_source")?.unwrap_or(true),
    };
    let given = call.params.take("since");
    let consumer = call.params.take("consumer");
    let is_initial = call.params.take_bool("initial")?.unwrap_or(false);
    let limit = operations_limit(call.params.take_number::<usize>("limit")?)?;
    let wait = wait_limit(call.params.take_duration("timeout")?)?;
    call.params.finish()?;
    let place = match is_initial {
        true => begin_copy(&call, feed, given.as_deref(), consumer.as_deref(), &shown).await?,
        false => place(&call, feed, given.as_deref(), consumer.as_deref())?,
    };
    if call.wanted == AnswerForm::Events {
        return stream(&call, place, shown).await;
    }
    let as_lines = call.wanted == AnswerForm::Lines;
    let list = ChangeList::new(as_lines);
    let FeedPart { list, next } = match place {
        ReaderPosition::Copy(place) => copy_part(&call, feed, place, &shown, limit, list).await?,
        ReaderPosition::Position(since) => part(&call, feed, since, &shown, limit, wait, list).await?,
    };
    let Retained { oldest, newest } = feed.retained_range();
    let place = format!("\"next\":{},\"newest\":{newest},\"oldest\":{oldest}", next.to_json());
    let text = list.end(&place);
    match as_lines {
        true => Ok(Answer::lines(text)),
        false => call.raw_answer(text),
    }
}

/// The text of an answer while changes are added: an object with a list of them, or a line each.
struct ChangeList {
    text: String,
    as_lines: bool,
    count: usize,
}

/// How an object with changes begins.
const OBJECT_BEGIN: &str = "{\"changes\":[";

impl ChangeList {
    fn new(as_lines: bool) -> ChangeList {
        ChangeList {
            text: if as_lines { String::new() } else { OBJECT_BEGIN.to_owned() },
            as_lines,
            count: 0,
        }
    }
    /// Adds what `append` appends, which is JSON on one line; says how many bytes that were.
    fn push(&mut self, append: impl FnOnce(&mut String) -> Result<()>) -> Result<usize> {
        let before = self.text.len();
        if !self.as_lines && self.count > 0 {
            self.text.push(',');
        }
        append(&mut self.text)?;
        debug_assert!(!self.text[before..].contains('\n'), "a change is JSON on one line");
        if self.as_lines {
            self.text.push('\n');
        }
        self.count += 1;
        Ok(self.text.len() - before)
    }
    /// The whole text. `place`: the members that say where the reader is.
    fn end(mut self, place: &str) -> String {
        match self.as_lines {
            true => self.text.push_str(&format!("{{{place}}}\n")),
            false => self.text.push_str(&format!("],{place}}}")),
        }
        self.text
    }
}

/// Where a reader is.
#[derive(Clone, Debug)]
enum ReaderPosition {
    Position(CommitSeq),
    Copy(CopyPlace),
}

impl ReaderPosition {
    /// As an answer has it.
    fn to_json(&self) -> Value {
        match self {
            ReaderPosition::Position(position) => Value::from(*position),
            ReaderPosition::Copy(place) => Value::from(place.render()),
        }
    }
}

/// The place to begin behind: a position, `now`, a place in a copy, or the position of a consumer. The id of the last event
/// that a client saw counts before.
fn place(call: &Call, feed: &dyn ChangeFeed, given: Option<&str>, consumer: Option<&str>) -> Result<ReaderPosition> {
    let text = match (&call.last_event_id, given, consumer) {
        (Some(last), _, _) if call.wanted == AnswerForm::Events => last.as_str(),
        (_, Some(_), Some(_)) => {
            return Err(Error::illegal(
                "[since] and [consumer] both say where to begin: give one of them",
            ));
        }
        (_, Some(given), None) => given,
        (_, None, Some(consumer)) => return position(feed, consumer).map(ReaderPosition::Position),
        (_, None, None) => {
            let reason = "[since] is missing: give the [next] of the last answer, [0] or [now]";
            return Err(Error::illegal(reason));
        }
    };
    if let Some(place) = CopyPlace::parse(text) {
        return Ok(ReaderPosition::Copy(place));
    }
    match text {
        "now" => Ok(ReaderPosition::Position(feed.retained_range().newest)),
        number => number.parse().map(ReaderPosition::Position).map_err(|_| {
            Error::illegal(format!(
                "[since] is [{number}] but must be [now], [next] of an answer, or a position, a whole number from 0"
            ))
        }),
    }
}

/// Opens a copy for a reader that has nothing yet; a stream that lost its connection goes on in the one that it has.
async fn begin_copy(
    call: &Call,
    feed: &dyn ChangeFeed,
    given: Option<&str>,
    consumer: Option<&str>,
    shown: &Shown,
) -> Result<ReaderPosition> {
    if call.wanted == AnswerForm::Events && call.last_event_id.is_some() {
        return place(call, feed, given, consumer);
    }
    if given != Some("0") || consumer.is_some() {
        let reason = "[initial] begins with nothing: give [since=0] with it, and no [consumer]";
        return Err(Error::illegal(reason));
    }
    initial_copy::open(feed, &shown.indices).await.map(ReaderPosition::Copy)
}

fn operations_limit(given: Option<usize>) -> Result<usize> {
    let most = node_count(FEED_MAX_OPERATIONS);
    match given {
        None => Ok(OPERATIONS.min(most)),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => Err(Error::illegal(format!(
            "[limit] is [{limit}] but must be between 1 and [{most}]; the most is the setting [{}]",
            FEED_MAX_OPERATIONS.name
        ))),
    }
}

fn wait_limit(given: Option<Duration>) -> Result<Duration> {
    let most = node_duration(FEED_MAX_WAIT);
    let wait = given.unwrap_or_default();
    if wait > most {
        let (given, most) = (units::render_duration(wait), units::render_duration(most));
        let reason = format!(
            "[timeout] is [{given}] but must be at most [{most}]; the most is the setting [{}]",
            FEED_MAX_WAIT.name
        );
        return Err(Error::illegal(reason));
    }
    Ok(wait)
}

/// The parts of changes that a request wants.
#[derive(Clone, Debug)]
struct Shown {
    /// Names and patterns; none: every index.
    indices: Vec<String>,
    with_source: bool,
}

impl Shown {
    /// A change without the operations of other indices; `None` if none is left.
    fn of<'a>(&self, change: &'a Change) -> Option<Cow<'a, Change>> {
        let is_shown = |operation: &Operation| {
            let index = operation.index().as_str();
            self.indices.is_empty() || self.indices.iter().any(|pattern| path::matches(pattern, index))
        };
        if change.operations.iter().all(is_shown) {
            return Some(Cow::Borrowed(change));
        }
        let operations: Vec<Operation> = change.operations.iter().filter(|one| is_shown(one)).cloned().collect();
        let commit_seq = change.commit_seq;
        (!operations.is_empty()).then_some(Cow::Owned(Change { commit_seq, operations }))
    }
}

/// Changes of an answer, and where to go on.
struct FeedPart {
    list: ChangeList,
    next: ReaderPosition,
}

/// The next part of an initial copy, as one change.
async fn copy_part(
    call: &Call,
    feed: &dyn ChangeFeed,
    place: CopyPlace,
    shown: &Shown,
    limit: usize,
    mut list: ChangeList,
) -> Result<FeedPart> {
    let bounds = (limit, READ_BYTES);
    let (operations, place) = initial_copy::read(&call.rest, feed, place, bounds, &call.client_gone).await?;
    if operations.is_empty() {
        return Ok(FeedPart {
            list,
            next: ReaderPosition::Position(place.moment()),
        });
    }
    let append = |out: &mut String| changes::append_initial_part(place.moment(), &operations, shown.with_source, out);
    call.book(list.push(append)?)?;
    Ok(FeedPart {
        list,
        next: ReaderPosition::Copy(place),
    })
}

/// The next changes that a request wants: about `limit` operations, and about `changes.feed.max_bytes`, but whole changes and at
/// least one. Waits for the first; who waits also gets those that follow it within [`FEED_LINGER`] of the request.
async fn part(
    call: &Call,
    feed: &dyn ChangeFeed,
    since: CommitSeq,
    shown: &Shown,
    limit: usize,
    wait: Duration,
    mut list: ChangeList,
) -> Result<FeedPart> {
    let begun = Instant::now();
    let (until, earliest) = (begun + wait, begun + wait.min(node_duration(FEED_LINGER)));
    let mut stopping = call.rest.stopping.subscribe();
    let bytes_max = node_count(FEED_MAX_BYTES);
    let mut next = since;
    let part = |list: ChangeList, next: CommitSeq| FeedPart {
        list,
        next: ReaderPosition::Position(next),
    };
    let mut operations = 0;
    loop {
        let newest = feed.retained_range().newest;
        if lingers(newest.saturating_sub(next), operations, limit) && Instant::now() < earliest {
            tokio::select! {
                () = tokio::time::sleep_until(earliest.into()) => {}
                _ = stopping.changed() => return Ok(part(list, next)),
            }
        }
        let read = feed.changes(next, READ_BYTES).await?;
        // The end is that of the moment before the read. Later changes are read together, before the answer goes.
        let is_end = read.next == next || read.next >= newest;
        for change in read.changes {
            let commit_seq = change.commit_seq;
            assert!(commit_seq > next, "changes come in the order of their commits, each once");
            if let Some(change) = shown.of(&change) {
                if operations > 0 && operations + change.operations.len() > limit {
                    return Ok(part(list, next));
                }
                operations += change.operations.len();
                call.book(list.push(|out| changes::append_change(&change, shown.with_source, out))?)?;
            }
            next = commit_seq;
            if list.text.len() >= bytes_max {
                return Ok(part(list, next));
            }
        }
        next = next.max(read.next);
        if operations >= limit {
            return Ok(part(list, next));
        }
        let now = Instant::now();
        if !is_end || operations > 0 && now < earliest {
            continue;
        }
        let left = until.saturating_duration_since(now);
        if operations > 0 || left.is_zero() {
            return Ok(part(list, next));
        }
        tokio::select! {
            changed = tokio::time::timeout(left, feed.wait_for_changes(next)) => match changed {
                Ok(changed) => changed?,
                Err(_) => return Ok(part(list, next)),
            },
            _ = stopping.changed() => return Ok(part(list, next)),
        }
    }
}

/// Whether an answer waits for more: something is there, or lies in the `unread` bytes of the log, and they cannot fill the answer.
fn lingers(unread: u64, operations: usize, limit: usize) -> bool {
    assert!(operations < limit, "an answer of {operations} operations is full");
    let may_fill = unread / OPERATION_BYTES >= (limit - operations) as u64;
    (operations > 0 || unread > 0) && !may_fill
}

/// Everything from a place on, as it is committed, until the client goes or the server stops.
async fn stream(call: &Call, place: ReaderPosition, shown: Shown) -> Result<Answer> {
    if let ReaderPosition::Position(since) = place {
        // A position that is gone is refused before the stream begins.
        feed_of(&call.rest)?.changes(since, 1).await?;
    }
    let (events, sender) = EventStream::open();
    let (rest, dialect) = (call.rest.clone(), call.dialect);
    tokio::spawn(async move {
        if let Err(error) = follow(&rest, place, &shown, &sender).await {
            let text = format!("event: error\ndata: {}\n\n", envelope::render(&error, dialect));
            // The client is gone if nobody takes it.
            let _ = sender.send(Bytes::from(text)).await;
        }
    });
    Ok(Answer::events(events))
}

/// Sends changes until the client is gone; an error ends the stream.
async fn follow(rest: &Arc<Rest>, place: ReaderPosition, shown: &Shown, sender: &Sender<Bytes>) -> Result<()> {
    let feed = feed_of(rest)?;
    let mut stopping = rest.stopping.subscribe();
    let mut next = match place {
        ReaderPosition::Position(since) => since,
        ReaderPosition::Copy(place) => {
            let moment = place.moment();
            if !send_copy(rest, feed, place, shown, sender).await? {
                return Ok(());
            }
            moment
        }
    };
    let mut earliest = Instant::now();
    loop {
        // What was there before a server stops is read and sent, so the first part does not wait.
        if Instant::now() < earliest {
            tokio::select! {
                () = tokio::time::sleep_until(earliest.into()) => {}
                () = sender.closed() => return Ok(()),
                _ = stopping.changed() => return Ok(()),
            }
        }
        earliest = Instant::now() + node_duration(FEED_LINGER);
        let read = feed.changes(next, READ_BYTES).await?;
        let is_end = read.next == next;
        for change in read.changes {
            let commit_seq = change.commit_seq;
            let Some(change) = shown.of(&change) else { continue };
            let mut event = format!("id: {commit_seq}\nevent: change\ndata: ");
            changes::append_change(&change, shown.with_source, &mut event)?;
            event.push_str("\n\n");
            if sender.send(Bytes::from(event)).await.is_err() {
                return Ok(());
            }
        }
        assert!(read.next >= next, "a feed is read onwards");
        let is_full = read.next.saturating_sub(next) >= READ_BYTES;
        next = next.max(read.next);
        if is_full {
            earliest = Instant::now();
        }
        if !is_end {
            continue;
        }
        tokio::select! {
            changed = tokio::time::timeout(HEARTBEAT_EACH, feed.wait_for_changes(next)) => match changed {
                Ok(changed) => changed?,
                Err(_) if sender.send(Bytes::from_static(b": nothing new\n\n")).await.is_err() => return Ok(()),
                Err(_) => {}
            },
            () = sender.closed() => return Ok(()),
            _ = stopping.changed() => return Ok(()),
        }
    }
}

/// Sends the rest of a copy; false: the client is gone. The id of an event is its place in the copy, the last one's the
/// position behind it.
async fn send_copy(
    rest: &Arc<Rest>,
    feed: &dyn ChangeFeed,
    mut place: CopyPlace,
    shown: &Shown,
    sender: &Sender<Bytes>,
) -> Result<bool> {
    let bounds = (OPERATIONS, READ_BYTES);
    let never = Cancellation::default();
    loop {
        let (operations, next) = initial_copy::read(rest, feed, place, bounds, &never).await?;
        let event = match operations.is_empty() {
            true => format!("id: {}\nevent: copied\ndata: {{}}\n\n", next.moment()),
            false => {
                let mut event = format!("id: {}\nevent: change\ndata: ", next.render());
                changes::append_initial_part(next.moment(), &operations, shown.with_source, &mut event)?;
                event.push_str("\n\n");
                event
            }
        };
        if sender.send(Bytes::from(event)).await.is_err() {
            return Ok(false);
        }
        if operations.is_empty() {
            return Ok(true);
        }
        place = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named() {
        let check = |refused: Result<String>, name: &str| {
            let error = refused.expect_err("it is refused");
            assert!(error.reason().contains(name), "{error}");
        };
        check(operations_limit(Some(0)).map(|n| n.to_string()), FEED_MAX_OPERATIONS.name);
        check(
            operations_limit(Some(usize::MAX)).map(|n| n.to_string()),
            FEED_MAX_OPERATIONS.name,
        );
        check(
            wait_limit(Some(Duration::MAX / 4)).map(|d| format!("{d:?}")),
            FEED_MAX_WAIT.name,
        );
        assert_eq!(
            [lingers(0, 0, 9), lingers(9, 0, 9), lingers(0, 1, 9), lingers(999, 0, 9)],
            [false, true, true, false]
        );
        assert_eq!(operations_limit(None).ok(), Some(OPERATIONS));
        assert_eq!(wait_limit(None).ok(), Some(Duration::ZERO));
    }
}
