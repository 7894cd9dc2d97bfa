//! Operations on their way to the server: collected into bulk requests, sent, counted.
//!
//! Not here: where operations come from (`folder`, `records`, `remote`), what a line means (`lines`).

use super::ImportFlags;
use super::counts::Counts;
use super::lines;
use super::progress::{InputPosition, Progress};
use crate::client::{Answer, Client, RawAnswer, segment};
use model::{Error, ErrorKind, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// The largest bulk body. A single document may be larger.
const BATCH_MAX_BYTES: usize = 5 << 20;
/// A server that is too busy is asked again so many times, waiting longer each time.
const TRIES: u32 = 8;
/// So many documents refused in a row stop the import: what refuses them will refuse the rest.
pub(super) const REFUSED_IN_A_ROW_MAX: u64 = 1000;

/// Documents on their way: collected into bulk bodies, sent when one is full.
pub(super) struct Sender {
    /// `None` in a dry run.
    pub(super) client: Option<Client>,
    path: String,
    body: Vec<u8>,
    names: Vec<String>,
    /// May the operations that were collected be applied twice?
    repeatable: bool,
    /// The indices that are filled.
    pub(super) indices: BTreeSet<String>,
    /// How far the import came, where that is kept.
    progress: Progress,
    /// The place behind the last operation that was put.
    place: InputPosition,
}

impl Sender {
    /// `index` is that of operations that name none.
    pub(super) fn open(flags: &ImportFlags, index: Option<&str>, progress: Progress) -> Result<Sender> {
        let client = if flags.dry_run { None } else { Some(flags.server.client()?) };
        Ok(Sender {
            client,
            path: index.map_or_else(|| "/_bulk".to_owned(), |index| format!("/{}/_bulk", segment(index))),
            body: Vec::new(),
            names: Vec::new(),
            repeatable: true,
            indices: index.map(str::to_owned).into_iter().collect(),
            progress,
            place: InputPosition::default(),
        })
    }

    /// Refuses a listener that would not understand a mapping without types.
    pub(super) fn greet(&mut self) -> Result<()> {
        let Some(client) = &mut self.client else { return Ok(()) };
        if takes_types(client)? {
            let reason = "this listener answers as Elasticsearch 2, with types; import through a listener of another persona (pleach --listen 127.0.0.1:9200 --listen 127.0.0.1:9202=es2 has both)";
            return Err(Error::illegal(reason));
        }
        Ok(())
    }

    /// The id of a document without one, where the progress of the import is kept.
    pub(super) fn id_of_record(&self, number: u64) -> Option<String> {
        self.progress.id_of_record(number)
    }

    /// One operation; a deletion has no source. `name` is what a failure is printed with, `place` where the input goes on behind it.
    pub(super) fn put(
        &mut self,
        name: String,
        place: InputPosition,
        action: &Value,
        source: Option<&[u8]>,
        counts: &mut Counts,
    ) -> Result<()> {
        let line = action.to_string();
        let bytes = source.map_or(0, <[u8]>::len);
        if !self.body.is_empty() && self.body.len() + line.len() + bytes + 2 > BATCH_MAX_BYTES {
            self.flush(counts)?;
        }
        counts.read += 1;
        counts.bytes += bytes as u64;
        self.repeatable &= lines::is_repeatable(action);
        for line in std::iter::once(line.as_bytes()).chain(source) {
            self.body.extend_from_slice(line);
            self.body.push(b'\n');
        }
        self.names.push(name);
        debug_assert_eq!(
            self.names.is_empty(),
            self.body.is_empty(),
            "a failure of each operation can be told by its name"
        );
        self.place = place;
        Ok(())
    }

    /// Sends what was collected and counts the outcomes.
    ///
    /// # Errors
    /// A refusal that concerns what comes next as well: of the whole request, or of each of its documents before any was taken.
    pub(super) fn flush(&mut self, counts: &mut Counts) -> Result<()> {
        let body = std::mem::take(&mut self.body);
        let names = std::mem::take(&mut self.names);
        let (Some(client), Some(first)) = (&mut self.client, names.first()) else {
            return Ok(());
        };
        let repeatable = std::mem::replace(&mut self.repeatable, true);
        let mut pause = Duration::from_millis(100);
        let unanswered = |cause: Error| {
            let again = match repeatable {
                true => "run the command again, which writes them once",
                false => "those of them that are there are written twice if the command is run again",
            };
            Error::new(
                cause.kind(),
                format!(
                    "{}. The request of {} documents from [{first}] on was not answered: nobody knows whether it was applied; \
                     {again}. The import stopped there",
                    cause.reason(),
                    names.len()
                ),
            )
        };
        let mut answer = post(client, &self.path, &body, repeatable).map_err(unanswered)?;
        for _ in 1..TRIES {
            if answer.status != 429 {
                break;
            }
            std::thread::sleep(pause);
            pause *= 2;
            answer = post(client, &self.path, &body, repeatable).map_err(unanswered)?;
        }
        let Some(items) = answer.body.get("items").and_then(Value::as_array) else {
            let reason = sentence(&answer.body);
            if answer.status == 413 && names.len() == 1 {
                counts.fail(format!("{first}: {reason}"));
                return Ok(());
            }
            return Err(Error::illegal(format!(
                "{first}: the server refused the request of {} documents with {}: {reason}. \
                 The import stopped there; mend the cause and run the command again",
                names.len(),
                answer.status
            )));
        };
        for (i, name) in names.iter().enumerate() {
            let item = items.get(i).and_then(Value::as_object).and_then(|o| o.values().next());
            counts.count(name, item);
        }
        let refused = counts.refused_in_a_row;
        if refused > 0 && (counts.accepted_count() == 0 || refused >= REFUSED_IN_A_ROW_MAX) {
            // One message stands for all of them.
            counts.failures.clear();
            return Err(Error::illegal(format!(
                "{}. The server refused {refused} of {refused} documents, so the import stopped; \
                 mend the cause and run the command again",
                counts.first_in_a_row
            )));
        }
        self.progress.advance(&self.place)
    }

    /// Sends the rest and makes it searchable.
    pub(super) fn finish(mut self, counts: &mut Counts) -> Result<()> {
        self.flush(counts)?;
        let Some(client) = &mut self.client else { return Ok(()) };
        if counts.accepted_count() == 0 {
            return self.progress.finish();
        }
        for index in &self.indices {
            let refreshed = client.send("POST", &format!("/{}/_refresh", segment(index)), "", &[])?;
            // An index that only refused has not been made.
            if refreshed.status >= 400 && refreshed.status != 404 {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("refreshing [{index}] failed: {}", sentence(&refreshed.body)),
                ));
            }
        }
        self.progress.finish()
    }
}

/// Does the server answer as Elasticsearch 2, whose indices have types?
///
/// # Errors
/// It cannot be reached.
pub(super) fn takes_types(client: &mut Client) -> Result<bool> {
    let answer = client.send("GET", "/", "", &[])?;
    let number = answer.body["version"]["number"].as_str().unwrap_or_default();
    Ok(number.starts_with("1.") || number.starts_with("2."))
}

/// Sends a bulk request.
fn post(client: &mut Client, path: &str, body: &[u8], repeatable: bool) -> Result<Answer> {
    let media = "application/x-ndjson";
    match repeatable {
        true => client.send("POST", path, media, body),
        false => client.send_alive("POST", path, media, body).map(RawAnswer::parse),
    }
}

/// The reason in an answer or a bulk item.
pub(super) fn sentence(body: &Value) -> String {
    let error = body.get("error").unwrap_or(body);
    let reason = error.get("reason").and_then(Value::as_str).or_else(|| error.as_str());
    let cause = error.pointer("/caused_by/reason").and_then(Value::as_str);
    match (reason, cause) {
        (Some(reason), Some(cause)) => format!("{reason}: {cause}"),
        (Some(reason), None) => reason.to_owned(),
        _ => body.to_string(),
    }
}
