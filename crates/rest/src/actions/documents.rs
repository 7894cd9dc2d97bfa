//! One write of a document: its times, its body, its place in a transaction.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::writes::{Guarded, send_in, single_outcome, with_shard};
use crate::call::Call;
use engine::{Outcome, Write};
use mapping::{Life, Moment, Timing};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// `timestamp` and `ttl` of 2015; elsewhere they do nothing, and a warning says so.
pub(crate) fn timing(call: &mut Call) -> Result<Timing> {
    if !call.params.is_lenient() {
        return Ok(Timing::default());
    }
    if call.params.peek("ttl").is_some_and(|ttl| ttl.starts_with('-')) {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: ttl must not be negative;",
        ));
    }
    let life = call.params.take_duration("ttl")?;
    Ok(Timing {
        timestamp: call.params.take("timestamp").map(Moment::Said),
        life: life.map(|life| Life::For(i64::try_from(life.as_millis()).unwrap_or(i64::MAX))),
        judged_ms: None,
    })
}

/// The bytes that are kept: as sent, or re-written where the typed dialect was lenient about them.
pub(crate) fn normalize_source(content: &[u8], call: &Call) -> Result<std::sync::Arc<[u8]>> {
    let failed = |error: Error| Error::new(ErrorKind::MapperParsing, "failed to parse").with_cause(error);
    if call.dialect.rules.reads_loose_json && serde_json::from_slice::<serde::de::IgnoredAny>(content).is_err() {
        let node = dsl::json::read(content, call.reading()).map_err(failed)?;
        return Ok(node.into_value().to_string().into_bytes().into());
    }
    // The first sign of a document tells its format.
    if content
        .iter()
        .find(|b| !b.is_ascii_whitespace())
        .is_some_and(|first| *first != b'{')
    {
        let unknown = "Compressor detection can only be called on some xcontent bytes or compressed xcontent bytes";
        return Err(failed(Error::new(ErrorKind::NotXContent, unknown)));
    }
    if content.len() >= LARGE_BYTES {
        // The bytes that are kept, and those that the log writes.
        call.book(content.len().saturating_mul(2))?;
    }
    dsl::json::check(content, call.reading()).map_err(failed)?;
    Ok(content.into())
}

/// Documents from here on are counted one by one.
pub(crate) const LARGE_BYTES: usize = 1 << 20;

/// Under which locks a write is done, and in which transaction.
pub(crate) struct WriteScope {
    locks: Vec<String>,
    transaction: Option<String>,
    /// The answer waits for the copies that follow the write.
    propagates: bool,
}

impl WriteScope {
    pub(crate) fn take(call: &mut Call) -> Result<WriteScope> {
        let place = WriteScope {
            locks: call.take_locks()?,
            transaction: call.params.take("transaction"),
            propagates: take_propagates(call)?,
        };
        if place.propagates && place.transaction.is_some() {
            return Err(Error::illegal(
                "[propagate] has no place in a transaction: nothing follows before its commit",
            ));
        }
        Ok(place)
    }
    /// Waits for the copies that follow a write, if that was asked, and shows what became of them.
    pub(crate) async fn show_links(&self, call: &Call, written: &engine::Written, body: &mut Map<String, Value>) {
        if !self.propagates {
            return;
        }
        let followed = call.rest.relations.links_followed(&written.at, written.stamp.seq_no).await;
        let one = |link: &relations::links::Propagated| {
            let mut out = Map::new();
            out.insert("policy".into(), (&*link.policy).into());
            out.insert("updated".into(), link.updated.into());
            out.extend(
                link.failure
                    .as_ref()
                    .map(|failure| ("failure".to_owned(), Value::Object(failure.to_json()))),
            );
            Value::Object(out)
        };
        body.insert("links".into(), followed.iter().map(one).collect());
    }
    /// The answer says nothing of it.
    pub(crate) fn says_nothing(&self) -> bool {
        self.locks.is_empty() && self.transaction.is_none() && !self.propagates
    }
    /// The members of the answer.
    pub(crate) fn show(self, body: &mut Map<String, Value>) {
        body.extend(self.locks.into_iter().next().map(|id| ("lock".to_owned(), id.into())));
        body.extend(self.transaction.map(|id| ("transaction".to_owned(), id.into())));
    }
}

/// `?propagate=wait_for`
///
/// # Errors
/// Another word.
pub(crate) fn take_propagates(call: &mut Call) -> Result<bool> {
    match call.params.take("propagate").as_deref() {
        None | Some("false") => Ok(false),
        Some("wait_for") => Ok(true),
        Some(other) => Err(Error::illegal(format!(
            "[propagate] must be [wait_for] or [false], but was [{other}]"
        ))),
    }
}

/// Sends one write; its refusal in the words of the dialect.
pub(crate) async fn write_one(
    call: &Call,
    write: Write,
    place: &WriteScope,
    refresh: engine::Refresh,
) -> Result<(engine::Written, Vec<String>)> {
    let (outcome, warnings) = one(call, write.clone(), place, refresh).await?;
    match single_outcome(outcome, call.dialect) {
        Err(error) if call.dialect.rules.former_document_answers => Err(with_shard(&call.rest, error, &write).await),
        other => Ok((other?, warnings)),
    }
}

/// One write: what came of it, and whose locks it passed.
pub(crate) async fn one(
    call: &Call,
    write: Write,
    place: &WriteScope,
    refresh: engine::Refresh,
) -> Result<(Outcome, Vec<String>)> {
    let locks = place.locks.clone();
    let writes = vec![Guarded { write, locks }];
    let sent = send_in(call, place.transaction.as_deref(), writes, refresh).await?.pop();
    Ok(sent.map_or((Outcome::Unknown, Vec::new()), |sent| (sent.outcome, sent.warnings)))
}
