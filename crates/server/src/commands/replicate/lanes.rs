//! Several bulk requests on their way to the target at once.
//!
//! A document belongs to one lane by its address, and a lane sends one request at a time. So the target gets the operations of
//! one document in order, also where a request is sent again. What is in memory is bounded: whoever puts more waits.
//!
//! Not here: which operations (`target`), the position that may be noted (`ledger`).

use super::change::{Address, ChangedOperation};
use super::ledger::Ledger;
use crate::client::{Answer, Client, reason};
use crate::feed_client::{Waits, exchange_raw, refusal};
use model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A bulk request is sent once it has so many bytes, or a part of the bytes in flight if that is less.
const BULK_BYTES: usize = 2 << 20;
/// The media type of a bulk request.
const LINES: &str = "application/x-ndjson";

/// The lanes to a target.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    shared: Arc<Shared>,
    /// Bytes that may be in memory.
    bytes_max: usize,
    bulk_bytes: usize,
    operations: u64,
}

/// One lane: the request that is filled, and the thread that sends those that are full.
#[derive(Debug)]
struct Lane {
    filled: Bulk,
    thread: Sender<Bulk>,
}

/// A bulk request.
#[derive(Debug, Default)]
struct Bulk {
    lines: String,
    /// How many operations of each `commit_seq` are in it.
    counts: Vec<(u64, u64)>,
}

/// The state that lanes share with their owner.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// A request was answered, or a lane has ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ledger: Ledger,
    /// Of requests that are filled, wait or are on their way.
    bytes: usize,
    failure: Option<Error>,
    /// A lane has ended by a failure or a panic.
    is_broken: bool,
}

impl Shared {
    /// The state. A lane that panicked left it sound: it alters it in one step, and sets `is_broken`.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while a condition holds.
    ///
    /// # Errors
    /// A lane has failed.
    fn wait_while(&self, is_to_wait: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        loop {
            state.check()?;
            if !is_to_wait(&state) {
                return Ok(state);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn check(&mut self) -> Result<()> {
        match self.is_broken {
            false => Ok(()),
            true => Err(self
                .failure
                .take()
                .unwrap_or_else(|| Error::new(ErrorKind::Internal, "a thread that sends to the target is gone"))),
        }
    }
}

impl Lanes {
    /// Starts so many lanes to the server of a client.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(client: &Client, count: usize, bytes_max: usize, patience: Duration) -> Result<Lanes> {
        let shared = Arc::new(Shared::default());
        let start = |_| {
            let (thread, bulks) = channel();
            let worker = Worker {
                client: client.another(),
                shared: shared.clone(),
                patience,
            };
            let started = std::thread::Builder::new()
                .name("pleach-lane".to_owned())
                .spawn(move || worker.run(&bulks));
            started.map_err(|cause| Error::new(ErrorKind::Internal, format!("no thread can be started: {cause}")))?;
            Ok(Lane {
                filled: Bulk::default(),
                thread,
            })
        };
        let lanes = (0..count.max(1)).map(start).collect::<Result<Vec<Lane>>>()?;
        Ok(Lanes {
            bulk_bytes: BULK_BYTES.min(bytes_max / (2 * lanes.len())),
            lanes,
            shared,
            bytes_max,
            operations: 0,
        })
    }

    /// Operations that were put.
    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    /// Puts an operation on a document. It goes out with others of its lane; [`Lanes::send_waiting`] does not wait for them.
    ///
    /// # Errors
    /// The target has refused one before; the document cannot be sent.
    pub(super) fn put(
        &mut self,
        operation: &ChangedOperation<'_>,
        address: Address<'_>,
        version: u64,
        doc_type: Option<&str>,
    ) -> Result<()> {
        let number = self.lane_of(address);
        let Some(lane) = self.lanes.get_mut(number) else {
            return Ok(());
        };
        let before = lane.filled.lines.len();
        assert!(
            lane.filled.counts.last().is_none_or(|(last, _)| *last <= version),
            "R4: a lane has change [{version}] behind a later one"
        );
        operation.write_lines(version, doc_type, &mut lane.filled.lines)?;
        match lane.filled.counts.last_mut() {
            Some((last, count)) if *last == version => *count += 1,
            _ => lane.filled.counts.push((version, 1)),
        }
        self.operations += 1;
        let filled = lane.filled.lines.len();
        let is_over = {
            let mut state = self.shared.lock();
            state.check()?;
            state.ledger.put(version);
            state.bytes += filled - before;
            state.bytes > self.bytes_max
        };
        if filled >= self.bulk_bytes {
            self.send_lane(number);
        }
        if is_over {
            self.send_waiting();
            let bytes_max = self.bytes_max;
            self.shared.wait_while(|state| state.bytes > bytes_max).map(drop)?;
        }
        Ok(())
    }

    /// Sends what was put and waits for more.
    pub(super) fn send_waiting(&mut self) {
        for number in 0..self.lanes.len() {
            self.send_lane(number);
        }
    }

    fn send_lane(&mut self, number: usize) {
        let Some(lane) = self.lanes.get_mut(number).filter(|lane| !lane.filled.lines.is_empty()) else {
            return;
        };
        let bulk = std::mem::take(&mut lane.filled);
        // A lane that has ended has said why, and the next look at the state finds it.
        let _ = lane.thread.send(bulk);
    }

    /// Sends everything, and waits until the target has it.
    ///
    /// # Errors
    /// The target refuses an operation, or cannot be reached.
    pub(super) fn drain(&mut self) -> Result<()> {
        self.send_waiting();
        self.shared.wait_while(|state| state.bytes > 0).map(drop)
    }

    /// Looks at the ledger, or alters it.
    ///
    /// # Errors
    /// The target has refused an operation, or cannot be reached.
    pub(super) fn with_ledger<T>(&self, see: impl FnOnce(&mut Ledger) -> T) -> Result<T> {
        let mut state = self.shared.lock();
        state.check()?;
        Ok(see(&mut state.ledger))
    }

    /// The lane of a document: the same for all its operations.
    fn lane_of(&self, address: Address<'_>) -> usize {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(address);
        (hash % self.lanes.len() as u64) as usize
    }
}

/// The thread of a lane.
struct Worker {
    client: Client,
    shared: Arc<Shared>,
    patience: Duration,
}

/// Tells the owner if the thread ends by a panic.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

impl Worker {
    fn run(mut self, bulks: &Receiver<Bulk>) {
        let _ending = Ending(self.shared.clone());
        while let Ok(bulk) = bulks.recv() {
            let sent = self.send(&bulk.lines);
            let mut state = self.shared.lock();
            let is_sent = sent.is_ok();
            match sent {
                Ok(()) => {
                    for (commit_seq, count) in bulk.counts {
                        state.ledger.acknowledge(commit_seq, count);
                    }
                    assert!(
                        state.bytes >= bulk.lines.len(),
                        "R5: [{}] bytes were sent, [{}] were counted",
                        bulk.lines.len(),
                        state.bytes
                    );
                    state.bytes -= bulk.lines.len();
                }
                Err(error) => {
                    state.failure.get_or_insert(error);
                    state.is_broken = true;
                }
            }
            drop(state);
            self.shared.changed.notify_all();
            if !is_sent {
                return;
            }
        }
    }

    /// Sends a request until each of its operations is taken. The target answers once they are durable.
    fn send(&mut self, lines: &str) -> Result<()> {
        let mut waits = Waits::new(self.patience);
        loop {
            let request = ("POST", "/_bulk", LINES);
            let answer = exchange_raw(&mut self.client, request, lines.as_bytes(), self.patience)?;
            if answer.status >= 400 {
                return Err(refusal(self.client.side, &answer.parse(), "POST", "/_bulk"));
            }
            if let Ok(Outcome { errors: false }) = serde_json::from_slice(&answer.body) {
                return Ok(());
            }
            match check_items(&answer.parse())? {
                None => return Ok(()),
                Some(busy) => waits.wait(busy)?,
            }
        }
    }
}

/// The member of a bulk answer that says whether there is more to read.
#[derive(Deserialize)]
struct Outcome {
    errors: bool,
}

/// Looks at the items of a bulk answer. `Some`: the target was busy, and the request is to be sent again.
///
/// # Errors
/// An item was refused for good; the answer has no items.
fn check_items(answer: &Answer) -> Result<Option<Error>> {
    let Some(items) = answer.body["items"].as_array() else {
        let reason = "the answer of the target to [POST /_bulk] has no [items]: it is no Pleach, OpenSearch or Elasticsearch";
        return Err(Error::new(ErrorKind::Internal, reason));
    };
    let mut busy = None;
    for item in items {
        let Some(outcome) = item.as_object().and_then(|members| members.values().next()) else {
            continue;
        };
        let status = outcome["status"].as_u64().unwrap_or_default();
        // 409: the target has this version or a newer one. 404: a deletion of what is not there.
        if status < 400 || status == 409 || status == 404 && outcome["error"].is_null() {
            continue;
        }
        let error = refused_item(outcome, status);
        match status {
            429 | 503 => busy = Some(error),
            _ => return Err(error),
        }
    }
    Ok(busy)
}

fn refused_item(outcome: &Value, status: u64) -> Error {
    let reason = reason(&outcome["error"]).unwrap_or("it gave no reason");
    let (index, id) = (&outcome["_index"], &outcome["_id"]);
    Error::new(
        ErrorKind::Internal,
        format!("the target refused document [{id}] of [{index}] with {status}: {reason}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn items_are_done_busy_or_refused() {
        let check = |item: Value, expected: Option<bool>| {
            let body = json!({ "errors": true, "items": [item] });
            let answer = Answer { status: 200, body };
            assert_eq!(check_items(&answer).ok().map(|busy| busy.is_some()), expected, "{answer:?}");
        };
        check(json!({ "index": { "status": 201 } }), Some(false));
        check(
            json!({ "index": { "status": 409, "error": { "type": "version_conflict_engine_exception" } } }),
            Some(false),
        );
        check(json!({ "delete": { "status": 404, "result": "not_found" } }), Some(false));
        check(
            json!({ "delete": { "status": 404, "error": { "reason": "no such index" } } }),
            None,
        );
        check(
            json!({ "index": { "status": 429, "error": { "reason": "busy" } } }),
            Some(true),
        );
        check(json!({ "index": { "status": 400, "error": { "reason": "mapping" } } }), None);
        check(json!({ "index": { "status": 403, "error": { "reason": "no right" } } }), None);
        let no_items = Answer {
            status: 200,
            body: json!({ "ok": true }),
        };
        assert!(check_items(&no_items).is_err());
    }
}
