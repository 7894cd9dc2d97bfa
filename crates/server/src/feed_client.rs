//! A reader of the feed of changes of a running server.
//!
//! It asks for part after part, and waits out a server that restarts. Not here: what is done with changes (`commands`).

use crate::client::{Answer, Client, JSON, RawAnswer, Side, segment};
use crate::console::complain;
use model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Operations of a part.
const LIMIT: usize = 5000;
/// The longest time between two attempts to reach a server.
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Reads the feed from a place on.
#[derive(Debug)]
pub(crate) struct FeedReader {
    client: Client,
    /// Parameters that each request has.
    common: String,
    place: String,
    /// How long to go on asking a server that does not answer.
    patience: Duration,
}

/// A part of the feed.
#[derive(Debug)]
pub(crate) struct FeedPart {
    /// Each with `commit_seq` and `operations`, as the server wrote it.
    pub(crate) changes: Vec<Box<RawValue>>,
    /// The position behind it; `None`: the copy goes on.
    pub(crate) position: Option<u64>,
    /// There was nothing behind it when it was read.
    pub(crate) is_newest: bool,
}

/// The body of an answer.
#[derive(Deserialize)]
struct Body {
    changes: Vec<Box<RawValue>>,
    next: Value,
    newest: Option<u64>,
}

impl FeedReader {
    /// Begins at a place: a position, `now`, or a place in a copy.
    pub(crate) fn new(client: Client, place: &str, index: Option<&str>, with_source: bool, patience: Duration) -> FeedReader {
        let mut common = format!("limit={LIMIT}");
        if let Some(index) = index {
            common.push_str(&format!("&index={}", segment(index)));
        }
        if !with_source {
            common.push_str("&_source=false");
        }
        FeedReader {
            client,
            common,
            place: place.to_owned(),
            patience,
        }
    }

    /// The next part is the first one of a copy of what is there.
    ///
    /// # Errors
    /// As [`FeedReader::next`].
    pub(crate) fn begin_copy(&mut self) -> Result<FeedPart> {
        self.read("since=0&initial=true".to_owned())
    }

    /// The next part; waits so long for a first change.
    ///
    /// # Errors
    /// The server refuses, as a position that is gone, or cannot be reached for as long as the reader's patience.
    pub(crate) fn next(&mut self, wait: Duration) -> Result<FeedPart> {
        self.read(format!("since={}&timeout={}ms", segment(&self.place), wait.as_millis()))
    }

    fn read(&mut self, from: String) -> Result<FeedPart> {
        let path = format!("/_changes?{from}&{}", self.common);
        let answer = exchange_raw(&mut self.client, ("GET", &path, JSON), b"", self.patience)?;
        if answer.status >= 400 {
            return Err(refusal(self.client.side, &answer.parse(), "GET", &path));
        }
        let body: Body = serde_json::from_slice(&answer.body).map_err(|_| unreadable(&path))?;
        let position = body.next.as_u64();
        self.place = match body.next {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => return Err(unreadable(&path)),
        };
        Ok(FeedPart {
            changes: body.changes,
            position,
            is_newest: position.is_some() && position >= body.newest,
        })
    }
}

fn unreadable(path: &str) -> Error {
    let reason = format!("the answer to [GET {path}] is no part of a feed: is the server a Pleach?");
    Error::new(ErrorKind::Internal, reason)
}

/// The position of a consumer; `None`: there is none of this name.
///
/// # Errors
/// As [`FeedReader::next`].
pub(crate) fn consumer_position(client: &mut Client, name: &str, patience: Duration) -> Result<Option<u64>> {
    let body = ask(client, "GET", "/_changes/consumer", b"", patience)?;
    let consumers = body["consumers"].as_array().cloned().unwrap_or_default();
    let found = consumers.iter().find(|consumer| consumer["name"] == name);
    Ok(found.and_then(|consumer| consumer["position"].as_u64()))
}

/// Notes how far a consumer is; gives its position, which `now` leaves to the server.
///
/// # Errors
/// As [`FeedReader::next`].
pub(crate) fn put_consumer(client: &mut Client, name: &str, position: Option<u64>, patience: Duration) -> Result<u64> {
    let body = match position {
        Some(position) => json!({ "position": position }),
        None => json!({ "position": "now" }),
    };
    let path = format!("/_changes/consumer/{}", segment(name));
    let answer = ask(client, "PUT", &path, body.to_string().as_bytes(), patience)?;
    answer["position"].as_u64().ok_or_else(|| unreadable(&path))
}

/// Forgets a consumer, if it is there.
///
/// # Errors
/// As [`FeedReader::next`].
pub(crate) fn delete_consumer(client: &mut Client, name: &str, patience: Duration) -> Result<()> {
    delete_if_there(client, &format!("/_changes/consumer/{}", segment(name)), patience)
}

/// Deletes what is at a path, if it is there.
///
/// # Errors
/// As [`FeedReader::next`].
pub(crate) fn delete_if_there(client: &mut Client, path: &str, patience: Duration) -> Result<()> {
    let answer = exchange(client, ("DELETE", path, JSON), b"", patience)?;
    match answer.status {
        404 => Ok(()),
        status if status < 400 => Ok(()),
        _ => Err(refusal(client.side, &answer, "DELETE", path)),
    }
}

/// Sends a request that may be applied twice, until the server answers it and does not refuse it.
///
/// # Errors
/// A refusal; no answer within the patience.
fn ask(client: &mut Client, method: &str, path: &str, body: &[u8], patience: Duration) -> Result<Value> {
    let answer = exchange(client, (method, path, JSON), body, patience)?;
    match answer.status {
        status if status < 400 => Ok(answer.body),
        _ => Err(refusal(client.side, &answer, method, path)),
    }
}

/// Sends a request that may be applied twice, of a method, a path and a media type, until the server answers it. A server that
/// is gone or busy is asked again.
///
/// # Errors
/// No answer within the patience.
pub(crate) fn exchange(client: &mut Client, request: (&str, &str, &str), body: &[u8], patience: Duration) -> Result<Answer> {
    exchange_raw(client, request, body, patience).map(RawAnswer::parse)
}

/// The same, with the bytes of the answer.
///
/// # Errors
/// As [`exchange`].
pub(crate) fn exchange_raw(
    client: &mut Client,
    request: (&str, &str, &str),
    body: &[u8],
    patience: Duration,
) -> Result<RawAnswer> {
    let (method, path, media) = request;
    let mut waits = Waits::new(patience);
    loop {
        let failure = match client.send_raw(method, path, media, body) {
            Ok(answer) if !matches!(answer.status, 429 | 502 | 503) => return Ok(answer),
            Ok(answer) => refusal(client.side, &answer.parse(), method, path),
            Err(error) => error,
        };
        waits.wait(failure)?;
    }
}

/// The refusal in an answer of this server. Who is not let in is told by which flags to say who they are.
pub(crate) fn refusal(side: Side, answer: &Answer, method: &str, path: &str) -> Error {
    let reason = answer.reason().unwrap_or("it gave no reason");
    let (name, status) = (side.name, answer.status);
    let hint = match status {
        401 => {
            let [user, key, profile] = ["user", "api-key-file", "profile"].map(|flag| side.flag(flag));
            format!("; {name} takes the credentials of {user}, {key} or {profile}")
        }
        403 => format!("; the credentials for {name} lack this right"),
        _ => String::new(),
    };
    Error::new(
        ErrorKind::Internal,
        format!("{name} answered [{method} {path}] with {status}: {reason}{hint}"),
    )
}

/// Growing pauses between attempts, up to a time.
#[derive(Debug)]
pub(crate) struct Waits {
    until: Instant,
    pause: Duration,
    told: bool,
}

impl Waits {
    pub(crate) fn new(patience: Duration) -> Waits {
        Waits {
            until: Instant::now() + patience,
            pause: Duration::from_millis(50),
            told: false,
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// The reason of the last failure, once the time is over.
    pub(crate) fn wait(&mut self, failure: Error) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(failure);
        }
        if !self.told {
            complain(&format!("{}; trying again", failure.reason()));
            self.told = true;
        }
        assert!(
            !self.pause.is_zero() && self.pause <= BACKOFF_MAX,
            "a pause grows up to the longest"
        );
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(BACKOFF_MAX);
        Ok(())
    }
}
