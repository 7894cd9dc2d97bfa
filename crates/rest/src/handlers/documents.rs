//! One document written whole, or deleted. Not here: `_update` (`update.rs`), reads (`get.rs`, `mget.rs`).

use super::get::routed_among;
use super::writes::{
    Guarded, answer, is_members, placed, refuse_pipeline, send_in, settled, status, with_warnings, write_members,
};
use crate::call::Call;
use crate::respond::Answer;
use engine::{Effect, Expect, Outcome, Source, Write, WriteOp};
use mapping::{Life, Moment, Timing};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `PUT /i/_doc/1`, `POST /i/_doc`.
pub(crate) async fn index(mut call: Call) -> Result<Answer> {
    put(&mut call, false).await
}

/// `PUT /i/_create/1`.
pub(crate) async fn create(mut call: Call) -> Result<Answer> {
    put(&mut call, true).await
}

async fn put(call: &mut Call, create: bool) -> Result<Answer> {
    let generated = call.arg("id").is_none();
    if call.dialect.rules.former_document_answers
        && let Some(given) = call.params.peek("op_type")
        && !["index", "create"].iter().any(|known| given.eq_ignore_ascii_case(known))
    {
        let said = format!("opType [{given}] not allowed, either [index] or [create] are allowed");
        return Ok(Answer::of(400, json!({ "error": said })));
    }
    let id = match call.arg("id") {
        Some(id) => id.to_owned(),
        None => engine::clock::generated_id(call.rest.clock.as_ref()),
    };
    let mut write = Write::new(call.address(&id)?, WriteOp::Delete);
    write.routing = call.params.take("routing").filter(|routing| !routing.is_empty());
    write.parent = call.params.take_2015("parent");
    write.timing = timing(call)?;
    write.require_alias = call.params.flag("require_alias")?;
    refuse_pipeline(call)?;
    let place = Place::take(call)?;
    let refresh = call.params.take_refresh()?;
    let expect = call.params.take_expect_of_put(
        call.dialect.rules.guards_writes_by_version,
        create || generated && !call.dialect.rules.generated_ids_are_plain_writes,
    )?;
    let content = call.content()?;
    call.params.finish()?;
    let expect = expect.expect(call.dialect.rules.guards_writes_by_version)?;
    write.expect = if (create || generated) && expect == Expect::Anything {
        Expect::Absent
    } else {
        expect
    };
    check_source(&content, call)?;
    super::percolate::prepare(call, &write.at, &content).await?;
    write.op = WriteOp::Put(Source(normalized(&content, call)?));
    let (written, warnings) = done(call, write, &place, refresh).await?;
    let body = match place.says_nothing() && is_members(&written, call.dialect) {
        true => as_text(call, &written).await,
        false => {
            let mut body = answer(&call.rest, &written, if create { "create" } else { "index" }, call.dialect).await;
            if call.dialect.rules.former_document_answers {
                body.insert("created".into(), (written.effect == Effect::Created).into());
            }
            place.show(&mut body);
            Answer::ok(Value::Object(body))
        }
    };
    let location = format!(
        "/{}/_doc/{}",
        written.at.index,
        percent_encoding::utf8_percent_encode(&written.at.id.id, percent_encoding::NON_ALPHANUMERIC)
    );
    let status = status(&written);
    let done = with_warnings(Answer { status, ..body }, &warnings);
    Ok(if written.effect == Effect::Created {
        done.header("location", location)
    } else {
        done
    })
}

/// `timestamp` and `ttl` of 2015; elsewhere they do nothing, and a warning says so.
pub(super) fn timing(call: &mut Call) -> Result<Timing> {
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

/// Bodies must be one JSON object.
fn check_source(content: &[u8], call: &Call) -> Result<()> {
    if content.iter().all(u8::is_ascii_whitespace) {
        let kind = if call.dialect.rules.empty_documents_fail_to_map {
            ErrorKind::MapperParsing
        } else {
            ErrorKind::Parse
        };
        return Err(Error::new(
            kind,
            if call.dialect.rules.empty_documents_fail_to_map {
                "failed to parse, document is empty"
            } else {
                "request body is required"
            },
        ));
    }
    Ok(())
}

/// The bytes that are kept: as sent, or re-written where the typed dialect was lenient about them.
pub(super) fn normalized(content: &[u8], call: &Call) -> Result<std::sync::Arc<[u8]>> {
    let failed = |error: Error| Error::new(ErrorKind::MapperParsing, "failed to parse").caused_by(error);
    if call.dialect.rules.reads_loose_json && serde_json::from_slice::<serde::de::IgnoredAny>(content).is_err() {
        let node = dsl::json::read(content, call.reading()).map_err(failed)?;
        return Ok(node.into_value().to_string().into_bytes().into());
    }
    // What a document is written in is told by its first sign.
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
const LARGE_BYTES: usize = 1 << 20;

/// Under which locks a write is done, and in which transaction.
pub(super) struct Place {
    locks: Vec<String>,
    transaction: Option<String>,
}

impl Place {
    pub(super) fn take(call: &mut Call) -> Result<Place> {
        Ok(Place {
            locks: call.take_locks()?,
            transaction: call.params.take("transaction"),
        })
    }
    /// The answer says nothing of it.
    fn says_nothing(&self) -> bool {
        self.locks.is_empty() && self.transaction.is_none()
    }
    /// What the answer says of it.
    pub(super) fn show(self, body: &mut Map<String, Value>) {
        body.extend(self.locks.into_iter().next().map(|id| ("lock".to_owned(), id.into())));
        body.extend(self.transaction.map(|id| ("transaction".to_owned(), id.into())));
    }
}

/// The answer of a write that was done, as most are.
async fn as_text(call: &Call, written: &engine::Written) -> Answer {
    let mut out = String::with_capacity(192);
    out.push('{');
    write_members(&mut out, &call.rest, written, call.dialect).await;
    out.push('}');
    Answer::raw(out)
}

/// Sends one write; its refusal in the words of the dialect.
async fn done(call: &Call, write: Write, place: &Place, refresh: engine::Refresh) -> Result<(engine::Written, Vec<String>)> {
    let (outcome, warnings) = one(call, write.clone(), place, refresh).await?;
    match settled(outcome, call.dialect) {
        Err(error) if call.dialect.rules.former_document_answers => Err(placed(&call.rest, error, &write).await),
        other => Ok((other?, warnings)),
    }
}

/// One write: what came of it, and whose locks it passed.
pub(super) async fn one(call: &Call, write: Write, place: &Place, refresh: engine::Refresh) -> Result<(Outcome, Vec<String>)> {
    let locks = place.locks.clone();
    let writes = vec![Guarded { write, locks }];
    let sent = send_in(call, place.transaction.as_deref(), writes, refresh).await?.pop();
    Ok(sent.map_or((Outcome::Unknown, Vec::new()), |sent| (sent.outcome, sent.warnings)))
}

/// `DELETE /i/_doc/1`.
pub(crate) async fn delete(mut call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    let mut write = Write::new(call.address(&id)?, WriteOp::Delete);
    write.routing = call.params.take("routing").filter(|routing| !routing.is_empty());
    write.parent = call.params.take_2015("parent");
    refuse_pipeline(&mut call)?;
    write.routed_among = routed_among(&call, &write.at).await;
    let place = Place::take(&mut call)?;
    let refresh = call.params.take_refresh()?;
    let expect = call.params.take_expect(call.dialect.rules.guards_updates_by_version)?;
    call.params.finish()?;
    write.expect = expect.expect(call.dialect.rules.guards_updates_by_version)?;
    let (written, warnings) = done(&call, write, &place, refresh).await?;
    if place.says_nothing() && is_members(&written, call.dialect) {
        let status = status(&written);
        let body = as_text(&call, &written).await;
        return Ok(with_warnings(Answer { status, ..body }, &warnings));
    }
    let body = answer(&call.rest, &written, "delete", call.dialect).await;
    let mut out = Map::new();
    if call.dialect.rules.former_document_answers {
        out.insert("found".into(), (written.effect == Effect::Deleted).into());
    }
    out.extend(body);
    place.show(&mut out);
    Ok(with_warnings(Answer::of(status(&written), Value::Object(out)), &warnings))
}
