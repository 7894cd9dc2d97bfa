//! One document: index, create, get, head, source, update, delete; and several at once: mget.

use super::visibility::Visibility;
use super::writes::{Guarded, answer, compile, head, placed, refuse_pipeline, send_in, settled, status, with_warnings};
use crate::answer_room::AnswerRoom;
use crate::call::Call;
use crate::envelope;
use crate::params::split_list;
use crate::respond::{Answer, Body};
use crate::words_2015;
use crate::{answers_of_2015, shows_doc_type};
use dsl::document::{MgetBody, UpdateBody};
use dsl::query::script_source::{ScriptSource, ScriptText};
use dsl::search::SourceSpec;
use engine::{Document, Effect, Expect, Found, Outcome, Read, See, Source, Update, Write, WriteOp};
use model::path::SourceFilter;
use model::routing::lead_together;
use model::{DocAddress, DocId, Error, ErrorKind, IndexName, Result, path};
use script::Budget;
use serde_json::{Map, Value, json};
use std::io::Write as _;

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
    if answers_of_2015(call.dialect)
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
    write.require_alias = call.params.flag("require_alias")?;
    refuse_pipeline(call)?;
    let place = Place::take(call);
    let refresh = call.params.take_refresh()?;
    let expect = call
        .params
        .take_expect_of_put(answers_of_2015(call.dialect), create || generated && !call.dialect.typed)?;
    write.expect = if (create || generated) && expect == Expect::Anything {
        Expect::Absent
    } else {
        expect
    };
    let content = call.content();
    call.params.finish()?;
    check_source(&content, call)?;
    write.op = WriteOp::Put(Source(normalized(&content, call)?));
    let (written, warnings) = done(call, write, &place, refresh).await?;
    let mut body = answer(&call.rest, &written, if create { "create" } else { "index" }, call.dialect).await;
    if answers_of_2015(call.dialect) {
        body.insert("created".into(), (written.effect == Effect::Created).into());
    }
    place.show(&mut body);
    let location = format!(
        "/{}/_doc/{}",
        written.at.index,
        percent_encoding::utf8_percent_encode(&written.at.id.id, percent_encoding::NON_ALPHANUMERIC)
    );
    let done = with_warnings(Answer::of(status(&written), Value::Object(body)), &warnings);
    Ok(if written.effect == Effect::Created {
        done.header("location", location)
    } else {
        done
    })
}

/// Bodies must be one JSON object.
fn check_source(content: &[u8], call: &Call) -> Result<()> {
    if content.iter().all(u8::is_ascii_whitespace) {
        let kind = if call.dialect.typed {
            ErrorKind::MapperParsing
        } else {
            ErrorKind::Parse
        };
        return Err(Error::new(
            kind,
            if call.dialect.typed {
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
    if call.dialect.typed && serde_json::from_slice::<serde::de::IgnoredAny>(content).is_err() {
        let node = dsl::json::read(content, call.reading()).map_err(failed)?;
        return Ok(node.into_value().to_string().into_bytes().into());
    }
    dsl::json::check(content, call.reading()).map_err(failed)?;
    if content.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') {
        return Err(failed(Error::new(ErrorKind::Parsing, "a document must be a JSON object")));
    }
    Ok(content.into())
}

/// Under which locks a write is done, and in which transaction.
struct Place {
    locks: Vec<String>,
    transaction: Option<String>,
}

impl Place {
    fn take(call: &mut Call) -> Place {
        Place {
            locks: call.take_locks(),
            transaction: call.params.take("transaction"),
        }
    }
    /// What the answer says of it.
    fn show(self, body: &mut Map<String, Value>) {
        body.extend(self.locks.into_iter().next().map(|id| ("lock".to_owned(), id.into())));
        body.extend(self.transaction.map(|id| ("transaction".to_owned(), id.into())));
    }
}

/// Sends one write; its refusal in the words of the dialect.
async fn done(call: &Call, write: Write, place: &Place, refresh: engine::Refresh) -> Result<(engine::Written, Vec<String>)> {
    let (outcome, warnings) = one(call, write.clone(), place, refresh).await?;
    match settled(outcome, call.dialect) {
        Err(error) if answers_of_2015(call.dialect) => Err(placed(&call.rest, error, &write).await),
        other => Ok((other?, warnings)),
    }
}

/// One write: what came of it, and whose locks it passed.
async fn one(call: &Call, write: Write, place: &Place, refresh: engine::Refresh) -> Result<(Outcome, Vec<String>)> {
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
    let place = Place::take(&mut call);
    let refresh = call.params.take_refresh()?;
    write.expect = call.params.take_expect(call.dialect.typed)?;
    call.params.finish()?;
    let (written, warnings) = done(&call, write, &place, refresh).await?;
    let body = answer(&call.rest, &written, "delete", call.dialect).await;
    let mut out = Map::new();
    if answers_of_2015(call.dialect) {
        out.insert("found".into(), (written.effect == Effect::Deleted).into());
    }
    out.extend(body);
    place.show(&mut out);
    Ok(with_warnings(Answer::of(status(&written), Value::Object(out)), &warnings))
}

/// What a read takes from the URL besides where.
struct Wanted {
    source: SourceSpec,
    stored: Option<Vec<String>>,
    expect: Expect,
    refresh: bool,
    read: Read,
    visibility: Visibility,
}

fn wanted(call: &mut Call, at: DocAddress) -> Result<Wanted> {
    let mut read = Read {
        at,
        routing: None,
        see: See::Plain,
        searchable_only: false,
    };
    let parent = call.params.take_2015("parent");
    read.routing = call.params.take("routing").or(parent);
    read.searchable_only = call.params.take_bool("realtime")? == Some(false);
    let fields = if answers_of_2015(call.dialect) {
        "fields"
    } else {
        "stored_fields"
    };
    Ok(Wanted {
        source: source_params(call)?,
        stored: if call.params.is_given(fields) && call.params.has_row(fields) {
            call.params.take_list(fields)
        } else {
            None
        },
        // What is forced holds with whatever is there.
        expect: match call.params.take_version()? {
            Expect::Forced(_) => Expect::Anything,
            other => other,
        },
        refresh: call.params.flag("refresh")?,
        visibility: Visibility::take(call)?,
        read,
    })
}

/// `_source`, `_source_includes`, `_source_excludes` and their older names.
pub(super) fn source_params(call: &mut Call) -> Result<SourceSpec> {
    let source = call.params.take("_source");
    let includes = call.params.take_any(&["_source_includes", "_source_include"]);
    let excludes = call.params.take_any(&["_source_excludes", "_source_exclude"]);
    Ok(match (source.as_deref(), includes, excludes) {
        (Some("false"), ..) => SourceSpec::None,
        (Some("true" | ""), None, None) => SourceSpec::All,
        (None, None, None) => SourceSpec::Default,
        (source, includes, excludes) => {
            let mut list = source.filter(|s| *s != "true").map(split_list).unwrap_or_default();
            list.extend(includes.as_deref().map(split_list).unwrap_or_default());
            SourceSpec::Filtered {
                includes: list,
                excludes: excludes.as_deref().map(split_list).unwrap_or_default(),
            }
        }
    })
}

/// `GET /i/_doc/1`.
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    let at = call.address(&id)?;
    let wanted = wanted(&mut call, at.clone())?;
    call.params.finish()?;
    let look = wanted
        .visibility
        .look(&call, &model::Target::index(at.index.as_str()), None)
        .await?;
    let answer = got(&call, &at, &wanted).await;
    look.over(&call, answer).await
}

async fn got(call: &Call, at: &DocAddress, wanted: &Wanted) -> Result<Answer> {
    let document = fetch(call, wanted).await?;
    let Some(document) = document else {
        let mut body = head(at, call.dialect);
        body.insert("found".into(), false.into());
        return Ok(Answer::of(404, Value::Object(body)));
    };
    // Whether it is there is asked of whatever version.
    if call.method != "HEAD" || !answers_of_2015(call.dialect) {
        expected(wanted, &document, call, shards_of(call, &document.at).await)?;
    }
    let kept = kept(call, &document, wanted.stored.as_deref()).await?;
    if kept.source && wanted.stored.is_none() && matches!(wanted.source, SourceSpec::Default | SourceSpec::All) {
        return Ok(whole(&document, call.dialect));
    }
    let mut answer = shown(
        &document,
        if kept.source { &wanted.source } else { &SourceSpec::None },
        wanted.stored.as_deref(),
        &kept.fields,
        call.dialect,
    )?;
    as_indexed(call, &document, &mut answer).await?;
    Ok(Answer::ok(Value::Object(answer)))
}

/// In 2015 the fields of a read were as their types have them, whatever the source wrote.
async fn as_indexed(call: &Call, document: &Document, answer: &mut Map<String, Value>) -> Result<()> {
    let Some(fields) = answer.get_mut("fields").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    if !answers_of_2015(call.dialect) {
        return Ok(());
    }
    let infos = call.rest.indices(&model::Target::index(document.at.index.as_str())).await?;
    for (name, values) in fields {
        let found = infos.first().and_then(|info| info.mapping.resolve(name));
        let (Some((_, field)), Some(values)) = (found, values.as_array_mut()) else {
            continue;
        };
        for value in values {
            let text = value.as_str().map(str::to_owned);
            match (field.kind.wire(), text) {
                ("byte" | "short" | "integer" | "long" | "float" | "double", Some(text)) => {
                    match serde_json::from_str(text.trim()) {
                        Ok(number @ Value::Number(_)) => *value = number,
                        _ => {
                            let said = format!("For input string: \"{text}\"");
                            let error = Error::new(ErrorKind::NumberFormat, said);
                            return Err(words_2015::remote(error, "indices:data/read/get[s]"));
                        }
                    }
                }
                ("boolean", Some(text)) => *value = Value::Bool(!["false", "off", "no", "0", ""].contains(&text.as_str())),
                ("boolean", None) if value.is_number() => *value = Value::Bool(value.as_f64() != Some(0.0)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// What the mapping keeps of a document besides what it finds it by.
#[derive(Default)]
struct Kept {
    /// `_source` is enabled.
    source: bool,
    /// Of the fields asked for those that are stored on their own.
    fields: Vec<String>,
}

async fn kept(call: &Call, document: &Document, stored: Option<&[String]>) -> Result<Kept> {
    let index = document.at.index.as_str();
    let mut source = call.rest.known(index).await.is_none_or(|known| known.source);
    if let (false, Some(doc_type)) = (source, &document.at.id.doc_type) {
        // Another type of the index may do without.
        let infos = call.rest.indices(&model::Target::index(index)).await?;
        let own = infos
            .first()
            .and_then(|info| info.mappings.get(&**doc_type)?.pointer("/_source/enabled"));
        source = !own.is_some_and(|enabled| *enabled == Value::Bool(false) || enabled == "false");
    }
    let Some(wanted) = stored.filter(|_| !answers_of_2015(call.dialect)) else {
        return Ok(Kept {
            source,
            fields: Vec::new(),
        });
    };
    // An index that a transaction makes is not known yet.
    let target = model::Target {
        ignore_unavailable: true,
        ..model::Target::index(index)
    };
    let infos = call.rest.indices(&target).await?;
    let is_stored = |field: &&String| {
        let found = infos.first().and_then(|info| info.mapping.resolve(field));
        found.is_some_and(|(_, field)| field.store)
    };
    Ok(Kept {
        source,
        fields: wanted.iter().filter(is_stored).cloned().collect(),
    })
}

/// A found document with its source byte for byte: nothing of it is parsed.
fn whole(document: &Document, dialect: model::Dialect) -> Answer {
    let mut bytes = Vec::with_capacity(256 + document.source.0.len());
    describe(document, dialect, &mut bytes);
    bytes.extend_from_slice(b",\"_source\":");
    bytes.extend_from_slice(&document.source.0);
    bytes.push(b'}');
    Answer {
        body: Body::Raw(bytes.into()),
        ..Answer::empty(200)
    }
}

async fn fetch(call: &Call, wanted: &Wanted) -> Result<Option<Document>> {
    if wanted.visibility.waits() {
        let target = model::Target::index(wanted.read.at.index.as_str());
        wanted.visibility.reach(call, &target).await?;
    }
    let found = newest(call, wanted).await?;
    super::locks::check_read(call, &wanted.visibility.locks, &wanted.read.at, found.as_ref()).await?;
    Ok(found)
}

/// How many shards an index reports.
async fn shards_of(call: &Call, at: &DocAddress) -> u64 {
    call.rest.known(at.index.as_str()).await.map_or(1, |known| known.shards)
}

/// Among how many shards an index is told to keep its documents, where a routing leads to one of them.
pub(super) async fn routed_among(call: &Call, at: &DocAddress) -> u64 {
    call.rest.known(at.index.as_str()).await.map_or(1, |known| known.routed_among)
}

async fn newest(call: &Call, wanted: &Wanted) -> Result<Option<Document>> {
    let found = newest_anywhere(call, wanted).await?;
    let among = match &found {
        Some(document) => routed_among(call, &document.at).await,
        None => 1,
    };
    let own = match &wanted.read.routing {
        None => call
            .rest
            .known(wanted.read.at.index.as_str())
            .await
            .and_then(|known| known.index_routing),
        given => given.clone(),
    };
    let own = own.as_deref();
    Ok(found.filter(|document| lead_together(&document.at.id.id, own, document.routing.as_deref(), among)))
}

async fn newest_anywhere(call: &Call, wanted: &Wanted) -> Result<Option<Document>> {
    // In 2015 a read that sees what is newest anyway refreshed nothing. A transaction reads its moment.
    if wanted.visibility.transaction.is_none()
        && wanted.refresh
        && (wanted.read.searchable_only || !answers_of_2015(call.dialect))
    {
        call.rest
            .engine
            .refresh(&model::Target::index(wanted.read.at.index.as_str()), None)
            .await?;
    }
    let mut read = wanted.read.clone();
    let seen = |error: Error| {
        if call.dialect.typed {
            words_2015::as_expression(error)
        } else {
            error
        }
    };
    // `/i/_all/1` of the typed dialect: whatever type has that id.
    if read.at.id.doc_type.as_deref() == Some("_all") {
        for doc_type in types_of(call, read.at.index.as_str()).await? {
            read.at.id = DocId::typed(doc_type, read.at.id.id.clone());
            if let Some(found) = wanted.visibility.read(call, read.clone()).await? {
                return Ok(Some(found));
            }
        }
        return Ok(None);
    }
    wanted.visibility.read(call, read).await.map_err(seen)
}

async fn types_of(call: &Call, index: &str) -> Result<Vec<String>> {
    let infos = call.rest.indices(&model::Target::index(index)).await?;
    Ok(infos
        .iter()
        .filter(|i| i.typed)
        .flat_map(|i| i.mappings.as_object().into_iter().flatten())
        .map(|(name, _)| name.clone())
        .collect())
}

/// A version asked for must be the one there.
fn expected(wanted: &Wanted, document: &Document, call: &Call, shards: u64) -> Result<()> {
    let holds = match wanted.expect {
        Expect::NewerThan { version, .. } => version == document.stamp.version,
        other => other.check(&document.at, Found::Here(document.stamp)).is_ok(),
    };
    if holds {
        return Ok(());
    }
    let expect = match wanted.expect {
        Expect::NewerThan { version, .. } => Expect::Version(version),
        other => other,
    };
    let conflict = engine::Conflict {
        at: document.at.clone(),
        expect,
        found: Found::Here(document.stamp),
    };
    let error = super::writes::conflict_error(&conflict, call.dialect);
    if !answers_of_2015(call.dialect) {
        return Err(error);
    }
    // 2015 told the shard in which it was looked for.
    let routing = document.routing.as_deref().unwrap_or(&document.at.id.id);
    Err(error.with("shard", model::routing::shard_of(routing, shards).to_string()))
}

/// What stands before the source of a found document.
fn described(document: &Document, dialect: model::Dialect) -> Map<String, Value> {
    let mut text = Vec::new();
    describe(document, dialect, &mut text);
    text.push(b'}');
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The same as the text of JSON, without the end of the object.
fn describe(document: &Document, dialect: model::Dialect, out: &mut Vec<u8>) {
    let name = |out: &mut Vec<u8>, before: &str, text: &str| {
        out.extend_from_slice(before.as_bytes());
        // Memory takes whatever is JSON.
        let _ = serde_json::to_writer(out, text);
    };
    name(out, "{\"_index\":", document.at.index.as_str());
    match &document.at.id.doc_type {
        Some(doc_type) => name(out, ",\"_type\":", doc_type),
        None if shows_doc_type(dialect) => name(out, ",\"_type\":", "_doc"),
        None => {}
    }
    name(out, ",\"_id\":", &document.at.id.id);
    let stamp = document.stamp;
    let _ = write!(out, ",\"_version\":{}", stamp.version);
    if !answers_of_2015(dialect) && !stamp.is_staged() {
        let _ = write!(out, ",\"_seq_no\":{},\"_primary_term\":{}", stamp.seq_no, stamp.primary_term);
    }
    if let Some(routing) = &document.routing {
        name(out, ",\"_routing\":", routing);
    }
    if let Some(parent) = &document.parent {
        name(out, ",\"_parent\":", parent);
    }
    out.extend_from_slice(b",\"found\":true");
}

/// A found document as `_doc`, `_mget` and `_update`'s `get` show it.
fn shown(
    document: &Document,
    source: &SourceSpec,
    stored: Option<&[String]>,
    kept: &[String],
    dialect: model::Dialect,
) -> Result<Map<String, Value>> {
    let mut out = described(document, dialect);
    // Nothing that is stored was read.
    if *source == SourceSpec::None && stored.is_none() {
        out.remove("_routing");
        out.remove("_parent");
    }
    let wants_source = match (source, stored) {
        (SourceSpec::Default, Some(fields)) => fields.iter().any(|f| f == "_source"),
        (SourceSpec::None, _) => false,
        _ => true,
    };
    let has_source = !document.source.0.is_empty();
    if has_source && (wants_source || stored.is_some()) {
        let value = document.source.parse()?;
        if let Some(fields) = stored.map(|fields| if answers_of_2015(dialect) { fields } else { kept }) {
            let found = leaf_fields(&value, fields)?;
            if !found.is_empty() {
                out.insert("fields".into(), Value::Object(found));
            }
        }
        if wants_source {
            out.insert("_source".into(), filtered(&value, source));
        }
    }
    Ok(out)
}

/// Leaf values of the source by path, as stored fields of 2015 were read from it.
fn leaf_fields(source: &Value, fields: &[String]) -> Result<Map<String, Value>> {
    let mut out = Map::new();
    for field in fields {
        if field.starts_with('_') {
            continue;
        }
        let found = path::read(source, field);
        if found.iter().any(|v| v.is_object()) {
            let error = Error::illegal(format!("field [{field}] isn't a leaf field"));
            return Err(words_2015::remote(error, "indices:data/read/get[s]"));
        }
        let values: Vec<Value> = found.into_iter().filter(|v| !v.is_null()).cloned().collect();
        if !values.is_empty() {
            out.insert(field.clone(), Value::Array(values));
        }
    }
    Ok(out)
}

/// A source through its filter.
pub(super) fn filtered(source: &Value, spec: &SourceSpec) -> Value {
    match spec {
        SourceSpec::Filtered { includes, excludes } => SourceFilter {
            includes: includes.clone(),
            excludes: excludes.clone(),
        }
        .apply(source),
        _ => source.clone(),
    }
}

/// `GET /i/_source/1`.
pub(crate) async fn get_source(mut call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    let at = call.address(&id)?;
    let wanted = wanted(&mut call, at)?;
    call.params.finish()?;
    if wanted.source == SourceSpec::None && !call.dialect.typed {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: fetching source can not be disabled;",
        ));
    }
    let target = model::Target::index(wanted.read.at.index.as_str());
    let look = wanted.visibility.look(&call, &target, None).await?;
    let found = fetch(&call, &wanted).await;
    // A source has no place to tell more.
    look.over(&call, Ok(Answer::empty(200))).await?;
    match found? {
        Some(document)
            if !call
                .rest
                .known(document.at.index.as_str())
                .await
                .is_none_or(|known| known.source) =>
        {
            if call.method == "HEAD" {
                return Ok(Answer::empty(404));
            }
            let at = &document.at;
            Err(Error::new(
                ErrorKind::ResourceNotFound,
                format!("Source not found [{}]/[{}]", at.index, at.id.id),
            ))
        }
        Some(document) => {
            expected(&wanted, &document, &call, shards_of(&call, &document.at).await)?;
            let body = match wanted.source {
                SourceSpec::Filtered { .. } => Body::Json(filtered(&document.source.parse()?, &wanted.source)),
                _ => Body::Raw(bytes::Bytes::copy_from_slice(&document.source.0)),
            };
            Ok(Answer {
                status: 200,
                body,
                headers: Vec::new(),
            })
        }
        None if call.dialect.typed => Ok(Answer {
            status: 404,
            body: Body::Raw(bytes::Bytes::new()),
            headers: Vec::new(),
        }),
        None if call.method == "HEAD" => Ok(Answer::empty(404)),
        None => Err(Error::new(
            ErrorKind::ResourceNotFound,
            format!("Document not found [{}]/[{}]", wanted.read.at.index, wanted.read.at.id.id),
        )),
    }
}

/// `POST /i/_update/1`.
pub(crate) async fn update(mut call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    let at = call.address(&id)?;
    let mut write = Write::new(at, WriteOp::Delete);
    write.routing = call.params.take("routing").filter(|routing| !routing.is_empty());
    write.parent = call.params.take_2015("parent");
    write.require_alias = call.params.flag("require_alias")?;
    write.routed_among = routed_among(&call, &write.at).await;
    refuse_pipeline(&mut call)?;
    let place = Place::take(&mut call);
    let refresh = call.params.take_refresh()?;
    let retries: Option<u32> = call.params.take_number("retry_on_conflict")?;
    write.expect = call.params.take_expect(call.dialect.typed)?;
    let url = UpdateUrl::take(&mut call)?;
    update_conditions(write.expect, retries, call.dialect.typed)?;
    let from_url = source_params(&mut call)?;
    let content = call.content();
    call.params.finish()?;
    let mut body =
        UpdateBody::parse_unvalidated(&content, call.dialect).map_err(|e| words_2015::unread_if(e, &content, call.dialect))?;
    let fields = url.over(&mut body);
    let body = body.validated()?;
    let spec = if from_url == SourceSpec::Default {
        body.source.clone()
    } else {
        from_url
    };
    write.op = WriteOp::Update(Box::new(update_op(&call, &write, &body).await?));
    let (mut outcome, mut warnings) = one(&call, write.clone(), &place, refresh).await?;
    // The engine applies updates inside the critical section: only a stated condition can conflict.
    for _ in 0..retries.unwrap_or(0) {
        if !matches!(outcome, Outcome::Conflict(_)) {
            break;
        }
        (outcome, warnings) = one(&call, write.clone(), &place, refresh).await?;
    }
    let upserts = body.upsert.is_some() || body.doc_as_upsert;
    let written = match settled(missing_before_conflict(outcome, upserts), call.dialect) {
        Err(error) if answers_of_2015(call.dialect) => {
            return Err(placed(&call.rest, words_2015::in_update(error), &write).await);
        }
        other => other?,
    };
    let mut out = answer(&call.rest, &written, "update", call.dialect).await;
    if let Some(get) = after(&written, &spec, fields.as_deref(), call.dialect)? {
        out.insert("get".into(), get);
    }
    place.show(&mut out);
    Ok(with_warnings(Answer::of(status(&written), Value::Object(out)), &warnings))
}

/// A condition on a document that is not there: what an update misses first is the document.
pub(super) fn missing_before_conflict(outcome: Outcome, upserts: bool) -> Outcome {
    match outcome {
        Outcome::Conflict(conflict)
            if !upserts && matches!(conflict.expect, Expect::Unchanged { .. }) && !matches!(conflict.found, Found::Here(_)) =>
        {
            let reason = format!("[{}]: document missing", conflict.at.id.id);
            Outcome::Refused(
                Error::new(ErrorKind::DocumentMissing, reason)
                    .with("index", conflict.at.index.as_str())
                    .with("shard", "0"),
            )
        }
        other => other,
    }
}

/// What the URL of an update could say in 2015, beside the body.
#[derive(Default)]
struct UpdateUrl {
    script: Option<ScriptSource>,
    fields: Option<Vec<String>>,
    detect_noop: Option<bool>,
    doc_as_upsert: bool,
    scripted_upsert: bool,
}

impl UpdateUrl {
    fn take(call: &mut Call) -> Result<UpdateUrl> {
        let mut out = UpdateUrl {
            fields: call.params.take_list("fields"),
            ..UpdateUrl::default()
        };
        let mut flag = |name: &'static str| {
            let given = call.params.take_2015(name);
            given.map(|v| !matches!(v.as_str(), "false" | "0" | "no" | "off"))
        };
        out.detect_noop = flag("detect_noop");
        out.doc_as_upsert = flag("doc_as_upsert").unwrap_or(false);
        out.scripted_upsert = flag("scripted_upsert").unwrap_or(false);
        let lang = call.params.take_2015("lang");
        let text = match (call.params.take_2015("script"), call.params.take_2015("script_id")) {
            (Some(text), _) => Some(ScriptText::Inline(text)),
            (None, id) => id.map(ScriptText::Stored),
        };
        out.script = text.map(|text| ScriptSource {
            text,
            lang,
            params: Map::new(),
            typed: true,
        });
        Ok(out)
    }
    /// Puts it where the body says nothing; answers the fields that the answer shows.
    fn over(self, body: &mut UpdateBody) -> Option<Vec<String>> {
        if body.script.is_none() {
            body.script = self.script;
        }
        body.detect_noop = self.detect_noop.unwrap_or(body.detect_noop);
        body.doc_as_upsert |= self.doc_as_upsert;
        body.scripted_upsert |= self.scripted_upsert;
        self.fields.or_else(|| body.fields.clone())
    }
}

/// Conditions that an update cannot have.
pub(super) fn update_conditions(expect: Expect, retries: Option<u32>, typed: bool) -> Result<()> {
    let invalid = |what: &str| {
        Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: {what};"),
        ))
    };
    match (expect, retries.unwrap_or(0)) {
        (Expect::NewerThan { .. }, _) if typed => invalid("version type [EXTERNAL] is not supported by the update API"),
        (Expect::Forced(_), 1..) => invalid("can't provide both retry_on_conflict and a specific version"),
        (Expect::NewerThan { .. }, _) => invalid(
            "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead",
        ),
        (Expect::Version(_), 1..) => invalid("can't provide both retry_on_conflict and a specific version"),
        (Expect::Unchanged { .. }, 1..) => invalid("compare and write operations can not be retried"),
        _ => Ok(()),
    }
}

/// What was wrong with a script before it ran is told of an update as what goes wrong while it runs.
fn wraps(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Script | ErrorKind::ScriptMissing | ErrorKind::IllegalArgument
    )
}

/// The engine's form of an update body.
pub(super) async fn update_op(call: &Call, write: &Write, body: &UpdateBody) -> Result<Update> {
    let script = match &body.script {
        None => None,
        Some(source) => match compile(&call.rest, source).await {
            Ok(script) => Some(script),
            Err(error) if call.dialect.typed => {
                // In 2015 a script was compiled when there was a document to run it on.
                let read = Read {
                    routing: write.routing.clone().or_else(|| write.parent.clone()),
                    ..Read::whole(write.at.clone())
                };
                let there = call
                    .rest
                    .engine
                    .read(vec![read])
                    .await
                    .is_ok_and(|found| found.iter().any(Option::is_some));
                if there || body.scripted_upsert {
                    return Err(words_2015::in_update(error));
                }
                None
            }
            Err(error) if wraps(&error) => return Err(Error::illegal("failed to execute script").caused_by(error)),
            Err(error) => return Err(error),
        },
    };
    Ok(Update {
        doc: body.doc.clone(),
        script,
        upsert: body.upsert.clone(),
        doc_as_upsert: body.doc_as_upsert,
        scripted_upsert: body.scripted_upsert,
        detect_noop: body.detect_noop,
        lenient_op: true,
        of_2015: call.dialect.typed,
        budget: Budget::default(),
        now_ms: call.rest.clock.wall_ms(),
    })
}

/// The `get` part of an update's answer, if it was asked for.
pub(super) fn after(
    written: &engine::Written,
    spec: &SourceSpec,
    fields: Option<&[String]>,
    dialect: model::Dialect,
) -> Result<Option<Value>> {
    if matches!(spec, SourceSpec::Default | SourceSpec::None) && fields.is_none() {
        return Ok(None);
    }
    let Some(source) = &written.source else {
        // 2015 told of what was deleted that it had been found.
        if answers_of_2015(dialect) && written.effect == engine::Effect::Deleted {
            return Ok(Some(json!({ "found": true })));
        }
        if !answers_of_2015(dialect) && written.effect == engine::Effect::Deleted && !written.stamp.is_staged() {
            let (seq_no, term) = (written.stamp.seq_no, written.stamp.primary_term);
            return Ok(Some(json!({ "_seq_no": seq_no, "_primary_term": term, "found": true })));
        }
        return Ok(Some(json!({ "found": false })));
    };
    let value = source.parse()?;
    let mut out = Map::new();
    if !answers_of_2015(dialect) && !written.stamp.is_staged() {
        out.insert("_seq_no".into(), written.stamp.seq_no.into());
        out.insert("_primary_term".into(), written.stamp.primary_term.into());
    }
    out.insert("found".into(), true.into());
    let wants =
        !matches!(spec, SourceSpec::Default | SourceSpec::None) || fields.is_some_and(|f| f.iter().any(|f| f == "_source"));
    if wants {
        out.insert("_source".into(), filtered(&value, spec));
    }
    if let Some(fields) = fields {
        let mut found = Map::new();
        for field in fields.iter().filter(|f| !f.starts_with('_')) {
            let values: Vec<Value> = path::read(&value, field)
                .into_iter()
                .filter(|v| !v.is_null() && !v.is_object())
                .cloned()
                .collect();
            if !values.is_empty() {
                found.insert(field.clone(), Value::Array(values));
            }
        }
        if !found.is_empty() {
            out.insert("fields".into(), Value::Object(found));
        }
    }
    Ok(Some(Value::Object(out)))
}

/// `_mget`.
pub(crate) async fn mget(mut call: Call) -> Result<Answer> {
    let default_spec = source_params(&mut call)?;
    let default_stored = call.params.take_list(if answers_of_2015(call.dialect) {
        "fields"
    } else {
        "stored_fields"
    });
    let routing = call.params.take("routing");
    let realtime = call.params.take_bool("realtime")?;
    let refresh = call.params.flag("refresh")?;
    let visibility = Visibility::take(&mut call)?;
    let content = call.json()?;
    call.params.finish()?;
    let Some(node) = content else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no documents to get;",
        ));
    };
    let body = MgetBody::parse(node, call.dialect)?;
    if body.docs.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no documents to get;",
        ));
    }
    let names = body
        .docs
        .iter()
        .filter_map(|item| item.index.as_deref().or(call.arg("index")));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    let look = visibility.look(&call, &model::Target::of(names), None).await?;
    let answer = async {
        let (mut docs, mut room) = (Vec::new(), AnswerRoom::new());
        for item in body.docs {
            let index = item.index.or_else(|| call.arg("index").map(str::to_owned));
            let Some(index) = index else {
                return Err(Error::new(
                    ErrorKind::ActionRequestValidation,
                    format!("Validation Failed: 1: index is missing for doc {};", docs.len()),
                ));
            };
            let doc_type = item.doc_type.or_else(|| call.arg("type").map(str::to_owned));
            let typed = call.rest.known(&index).await.map_or(call.dialect.typed, |k| k.typed);
            let id = match (&doc_type, typed) {
                (Some(doc_type), true) => DocId::typed(doc_type.as_str(), item.id.as_str()),
                (None, true) => DocId::typed("_all", item.id.as_str()),
                _ => DocId::plain(item.id.as_str()),
            };
            let at = DocAddress {
                index: IndexName::new(index),
                id,
            };
            let read = Read {
                at: at.clone(),
                routing: item.routing.or_else(|| routing.clone()),
                see: See::Plain,
                searchable_only: realtime == Some(false),
            };
            let expect = crate::params::ExpectParts {
                version: item.version.and_then(|version| u64::try_from(version).ok()),
                version_type: item.version_type.clone(),
                ..crate::params::ExpectParts::default()
            };
            let wanted = Wanted {
                source: SourceSpec::Default,
                stored: None,
                expect: match expect.expect(true)? {
                    Expect::Forced(_) => Expect::Anything,
                    other => other,
                },
                refresh,
                read,
                visibility: visibility.clone(),
            };
            let spec = if item.source == SourceSpec::Default {
                &default_spec
            } else {
                &item.source
            };
            let stored = item.stored_fields.as_ref().or(default_stored.as_ref());
            let found = match room.check() {
                Ok(()) => fetch(&call, &wanted).await,
                Err(full) => Err(full),
            };
            let shards = shards_of(&call, &at).await;
            let found = found.and_then(|document| match document {
                Some(document) => expected(&wanted, &document, &call, shards).map(|()| Some(document)),
                None => Ok(None),
            });
            let doc = match found {
                Ok(Some(document)) => {
                    let stored = stored.map(Vec::as_slice);
                    let kept = kept(&call, &document, stored).await?;
                    let spec = if kept.source { spec } else { &SourceSpec::None };
                    let mut out = shown(&document, spec, stored, &kept.fields, call.dialect)?;
                    as_indexed(&call, &document, &mut out).await?;
                    Value::Object(out)
                }
                Ok(None) => {
                    let mut out = head(&at, call.dialect);
                    if let (Some(doc_type), true) = (&doc_type, call.dialect.typed) {
                        out.insert("_type".into(), doc_type.as_str().into());
                    } else if at.id.doc_type.as_deref() == Some("_all") {
                        out.insert("_type".into(), Value::Null);
                    }
                    out.insert("found".into(), false.into());
                    Value::Object(out)
                }
                Err(error) => {
                    let mut out = head(&at, call.dialect);
                    // Elasticsearch 7 repeats the type of the request, or that there was none.
                    if let (Some(shown), None) = (out.get_mut("_type"), &doc_type) {
                        *shown = Value::Null;
                    }
                    let mut inner = Map::new();
                    let error = if answers_of_2015(call.dialect) {
                        words_2015::in_mget(error)
                    } else {
                        error
                    };
                    let object = envelope::object(&error, call.dialect);
                    inner.insert("root_cause".into(), json!([object.clone()]));
                    inner.extend(object);
                    out.insert("error".into(), Value::Object(inner));
                    Value::Object(out)
                }
            };
            // As text at once: a tree takes several times as much.
            let text = doc.to_string();
            room.take(text.len());
            docs.push(text);
        }
        Ok(Answer::raw(format!("{{\"docs\":[{}]}}", docs.join(","))))
    }
    .await;
    look.over(&call, answer).await
}
