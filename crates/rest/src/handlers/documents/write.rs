//! One document written whole, or deleted. Not here: `_update` (`update.rs`), reads (`get.rs`, `mget.rs`).

use crate::actions::documents::{WriteScope, normalize_source, timing, write_one};
use crate::actions::read::routed_among;
use crate::actions::writes::{answer, is_members, refuse_pipeline, status, with_warnings, write_members};
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use engine::{Effect, Expect, Source, Write, WriteOp};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// `PUT /i/_doc/1`, `POST /i/_doc`.
#[boxed]
pub(crate) async fn index(mut call: Call) -> Result<Answer> {
    put(&mut call, false).await
}

/// `PUT /i/_create/1`.
#[boxed]
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
    let place = WriteScope::take(call)?;
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
    crate::actions::percolator::prepare(call, &write.at, &content).await?;
    write.op = WriteOp::Put(Source(normalize_source(&content, call)?));
    let (written, warnings) = write_one(call, write, &place, refresh).await?;
    let body = match place.says_nothing() && is_members(&written, call.dialect) {
        true => as_text(call, &written).await,
        false => {
            let mut body = answer(&call.rest, &written, if create { "create" } else { "index" }, call.dialect).await;
            if call.dialect.rules.former_document_answers {
                body.insert("created".into(), (written.effect == Effect::Created).into());
            }
            place.show_links(call, &written, &mut body).await;
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

/// The answer of a write that was done, as most are.
async fn as_text(call: &Call, written: &engine::Written) -> Answer {
    let mut out = String::with_capacity(192);
    out.push('{');
    write_members(&mut out, &call.rest, written, call.dialect).await;
    out.push('}');
    Answer::raw(out)
}

/// `DELETE /i/_doc/1`.
#[boxed]
pub(crate) async fn delete(mut call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    let mut write = Write::new(call.address(&id)?, WriteOp::Delete);
    write.routing = call.params.take("routing").filter(|routing| !routing.is_empty());
    write.parent = call.params.take_2015("parent");
    refuse_pipeline(&mut call)?;
    write.routed_among = routed_among(&call, &write.at).await;
    let place = WriteScope::take(&mut call)?;
    let refresh = call.params.take_refresh()?;
    let expect = call.params.take_expect(call.dialect.rules.guards_updates_by_version)?;
    call.params.finish()?;
    write.expect = expect.expect(call.dialect.rules.guards_updates_by_version)?;
    let (written, warnings) = write_one(&call, write, &place, refresh).await?;
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
    place.show_links(&call, &written, &mut out).await;
    place.show(&mut out);
    Ok(with_warnings(Answer::of(status(&written), Value::Object(out)), &warnings))
}
