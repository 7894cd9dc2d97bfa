//! `_bulk`: many writes in one request, each on its own.

use super::documents::normalized;
use super::transaction;
use super::update::{after, refuse_conditional_upsert, update_conditions, update_op};
use super::writes::{
    Guarded, answer, conflict_error, head, is_members, placed, refuse_pipeline, send_in, settled, status, with_warnings,
    write_members,
};
use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::first_type;
use crate::packed_text::PackedText;
use crate::query_params::{ExpectParts, given_seq_no, given_term};
use crate::respond::Answer;
use dsl::document::{BulkAction, BulkDefaults, BulkItem, BulkReader, UpdateBody};
use dsl::search::SourceSpec;
use engine::{Effect, Expect, Outcome, Refresh, Source, Write, WriteOp, Written};
use mapping::{Life, Moment, Timing};
use model::text::push_number;
use model::{Dialect, DocAddress, DocId, Error, ErrorKind, IndexName, Persona, Result, Target};
use serde_json::{Map, Value, json};

/// `POST /_bulk`.
pub(crate) async fn bulk(mut call: Call) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    refuse_pipeline(&mut call)?;
    // A bulk is one batch, of whatever size.
    if !call.dialect.rules.tolerates_value_bounds && call.params.take_number::<i32>("batch_size")?.is_some_and(|size| size < 1) {
        return Err(Error::illegal("batch_size must be greater than 0"));
    }
    let refresh = call.params.take_refresh()?;
    let transaction = call.params.take("transaction");
    let atomic = call.params.flag("atomic")?;
    let options = if atomic {
        Some(transaction::Options::take(&mut call)?)
    } else {
        // Clients send it with every bulk; a write that is answered is durable, and nobody else has to be waited for.
        call.params.take_duration("timeout")?;
        None
    };
    super::transaction_session::refuse_atomic(options.as_ref(), transaction.as_deref())?;
    let default_source = super::get::source_params(&mut call)?;
    let routing = call.params.take("routing");
    let locks = call.take_locks()?;
    let require_alias = call.params.flag("require_alias")?;
    let default_fields = call.params.take_2015("fields").map(|f| crate::query_params::split_list(&f));
    let default_type = call.params.take("type");
    call.params.finish()?;
    let defaults = BulkDefaults {
        index: call.arg("index").map(str::to_owned),
        doc_type: call.arg("type").map(str::to_owned).or(default_type),
        routing,
        pipeline: None,
        require_alias,
        dialect: call.dialect,
    };
    let body = call.body.clone();
    if let Some(options) = options {
        let limits = transaction::Limits::of(&call).await?;
        limits.check_bytes(body.len())?;
        let planned = planned_whole(&call, &defaults, &body, &locks, default_fields.as_deref(), &limits).await?;
        return transaction::atomic_bulk(&call, planned, &default_source, options, &limits, refresh).await;
    }
    let mut request = Request {
        transaction,
        default_source,
        default_fields,
        locks,
        refresh,
    };
    // Before anything is written: an answer that finds no memory afterwards would hide what was done.
    let lines = memchr::memchr_iter(b'\n', &body).count();
    // A delete is an item of one line, others have two.
    let deletes = memchr::memmem::find_iter(&body, b"\"delete\"").count();
    let answered_lines = lines + deletes;
    let text_bytes = answered_lines.saturating_mul(ANSWER_BYTES_OF_A_LINE);
    // An answer that is longer than its body is packed.
    call.book(match call.plain {
        true => PackedText::bytes_held(text_bytes, body.len(), answered_lines, PACKED_BYTES_OF_A_LINE),
        false => text_bytes.saturating_mul(ANSWER_AS_TREES_TIMES),
    })?;
    let mut answered = Answered {
        items: PackedText::new(text_bytes, body.len()),
        ..Answered::default()
    };
    let mut reader = BulkReader::new(&body, &defaults).map_err(|e| unread(&call, e))?;
    if lines <= CHUNK_OPERATIONS && body.len() <= CHUNK_BYTES {
        let chunk = next_chunk(&call, &mut reader, request.default_fields.as_deref()).await;
        let chunk = chunk.map_err(|e| unread(&call, e))?;
        reader.finish().map_err(|e| unread(&call, e))?;
        refuse_invalid(&call, &chunk)?;
        write_chunk(&call, &request, chunk, &mut answered).await?;
    } else {
        validate(&call, &defaults, &body, request.default_fields.as_deref()).await?;
        let wait_for = matches!(request.refresh, Refresh::WaitFor);
        // Each chunk would wait; the whole is made searchable at its end instead.
        request.refresh = if wait_for { Refresh::No } else { request.refresh };
        loop {
            let chunk = next_chunk(&call, &mut reader, request.default_fields.as_deref()).await;
            let chunk = chunk.map_err(|e| unread(&call, e))?;
            if chunk.is_empty() {
                break;
            }
            if wait_for {
                answered
                    .unrefreshed
                    .extend(chunk.iter().map(|planned| planned.at.index.clone()));
            }
            write_chunk(&call, &request, chunk, &mut answered).await?;
        }
    }
    answered.unrefreshed.sort_unstable();
    answered.unrefreshed.dedup();
    for index in answered.unrefreshed {
        call.rest.engine.refresh(&Target::index(index.as_str()), None).await?;
    }
    let took = (call.rest.clock.monotonic() - start).as_millis();
    let mut text = answered.items;
    text.set_head(format!("{{\"took\":{took},\"errors\":{},\"items\":[", answered.errors));
    let end = text.end();
    end.push(']');
    if let Some(id) = request.transaction {
        end.push_str(",\"transaction\":");
        end.push_str(&Value::from(id).to_string());
    }
    end.push('}');
    // A header is no place for thousands.
    answered.warnings.truncate(16);
    Ok(with_warnings(Answer::packed(text), &answered.warnings))
}

/// Operations that are parsed and written at once. A larger bulk is written in several pieces, so that its memory does not
/// depend on how many operations its body holds.
const CHUNK_OPERATIONS: usize = 8192;
/// Bytes of sources that are written at once.
const CHUNK_BYTES: usize = 8 << 20;
/// What the answer takes for a line of the body, about.
const ANSWER_BYTES_OF_A_LINE: usize = 128;
/// What that takes when it is packed: an id that was made is most of it.
const PACKED_BYTES_OF_A_LINE: usize = 16;
/// So many times as much where the answer is filtered or laid out: an item is fifteen values.
const ANSWER_AS_TREES_TIMES: usize = 16;

/// What holds for every item.
struct Request {
    transaction: Option<String>,
    default_source: SourceSpec,
    default_fields: Option<Vec<String>>,
    locks: Vec<String>,
    refresh: Refresh,
}

/// What was answered so far.
#[derive(Default)]
struct Answered {
    /// The items as JSON, with commas between them.
    items: PackedText,
    errors: bool,
    warnings: Vec<String>,
    /// Indices that are refreshed at the end: a bulk is refreshed as a whole, also for its updates that changed nothing.
    unrefreshed: Vec<IndexName>,
}

/// A body that cannot be read, in the words of the dialect.
fn unread(call: &Call, error: Error) -> Error {
    // Each line was known by its first brace.
    let bad = |line: &&[u8]| !line.trim_ascii().is_empty() && dsl::json::check(line, call.reading()).is_err();
    let line = call.body.split(|b| *b == b'\n').find(bad).unwrap_or_default();
    es2_errors::unread_if(error, line, call.dialect)
}

/// The next operations, as many as are written at once; none at the end.
async fn next_chunk(call: &Call, reader: &mut BulkReader<'_, '_>, fields: Option<&[String]>) -> Result<Vec<Planned>> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    while chunk.len() < CHUNK_OPERATIONS && bytes < CHUNK_BYTES {
        let Some(item) = reader.next_item()? else { break };
        bytes += item.source.len();
        chunk.push(Planned::new(call, item, fields).await);
    }
    Ok(chunk)
}

/// What is no update, or could never be one operation, is no bulk: nothing of it is written.
fn refuse_invalid(call: &Call, planned: &[Planned]) -> Result<()> {
    if call.dialect.rules.invalid_items_fail_alone {
        return Ok(());
    }
    let invalid = planned.iter().filter(|item| item.invalid);
    invalid
        .filter_map(|item| item.write.as_ref().err())
        .next()
        .map_or(Ok(()), |error| Err(error.clone()))
}

/// Reads a body of several chunks to its end before any of it is written.
async fn validate(call: &Call, defaults: &BulkDefaults, body: &[u8], fields: Option<&[String]>) -> Result<()> {
    let mut reader = BulkReader::new(body, defaults).map_err(|e| unread(call, e))?;
    loop {
        let chunk = next_chunk(call, &mut reader, fields).await.map_err(|e| unread(call, e))?;
        if chunk.is_empty() {
            return reader.finish().map_err(|e| unread(call, e));
        }
        refuse_invalid(call, &chunk)?;
        // Others go on meanwhile.
        tokio::task::yield_now().await;
    }
}

/// The operations of one change, within its limits.
async fn planned_whole(
    call: &Call,
    defaults: &BulkDefaults,
    body: &[u8],
    locks: &[String],
    fields: Option<&[String]>,
    limits: &transaction::Limits,
) -> Result<Vec<Planned>> {
    let mut reader = BulkReader::new(body, defaults).map_err(|e| unread(call, e))?;
    let mut planned = Vec::new();
    while let Some(item) = reader.next_item().map_err(|e| unread(call, e))? {
        let mut item = Planned::new(call, item, fields).await;
        if item.locks.is_empty() {
            item.locks = locks.to_vec();
        }
        planned.push(item);
        limits.check_operations(planned.len())?;
    }
    reader.finish().map_err(|e| unread(call, e))?;
    Ok(planned)
}

/// Writes some operations and appends their answers. One document may stand several times among them: they are sent in
/// order, and each sees what those before it did.
async fn write_chunk(call: &Call, request: &Request, mut planned: Vec<Planned>, answered: &mut Answered) -> Result<()> {
    for planned in planned.iter_mut().filter(|planned| planned.locks.is_empty()) {
        planned.locks = request.locks.clone();
    }
    let mut answers: Vec<Option<Item>> = (0..planned.len()).map(|_| None).collect();
    let mut writes = Vec::with_capacity(planned.len());
    let mut sent = Vec::with_capacity(planned.len());
    for (i, item) in planned.iter().enumerate() {
        match item.write.clone() {
            Ok(write) => {
                let locks = item.locks.clone();
                writes.push(Guarded { write, locks });
                sent.push(i);
            }
            Err(error) => {
                answered.errors = true;
                answers[i] = Some(Item::Tree(failed(item, error, call).await));
            }
        }
    }
    let transaction = request.transaction.as_deref();
    let done = send_in(call, transaction, writes, request.refresh).await?;
    let refreshed =
        transaction.is_none() && matches!(request.refresh, Refresh::Now) && !call.dialect.rules.former_document_answers;
    for (i, sent) in sent.into_iter().zip(done) {
        answered.warnings.extend(sent.warnings);
        if let (Outcome::Written(written), None) = (&sent.outcome, transaction)
            && planned[i].locks.is_empty()
            && planned[i].says_no_more(call, written, &request.default_source)?
        {
            let mut told = String::with_capacity(256);
            text(&mut told, &call.rest, planned[i].label, written, call.dialect).await;
            answers[i] = Some(Item::Text(told));
            continue;
        }
        let (mut body, bad) = settle(&planned[i], sent.outcome, &request.default_source, call).await?;
        if refreshed && body.get("result").is_some_and(|result| result == "noop") {
            body.insert("forced_refresh".into(), true.into());
            answered.unrefreshed.push(planned[i].at.index.clone());
        }
        if let Some(id) = planned[i].locks.first().filter(|_| !bad) {
            body.insert("lock".into(), id.as_str().into());
        }
        answered.errors |= bad;
        answers[i] = Some(Item::Tree(body));
    }
    for (planned, answer) in planned.iter().zip(answers) {
        let is_first = answered.items.is_empty();
        let items = answered.items.end();
        if !is_first {
            items.push(',');
        }
        match answer {
            Some(Item::Text(text)) => items.push_str(&text),
            Some(Item::Tree(tree)) => items.push_str(&json!({ planned.label: tree }).to_string()),
            None => items.push_str("{}"),
        }
    }
    // A header is no place for thousands.
    answered.warnings.truncate(16);
    answered.unrefreshed.sort_unstable();
    answered.unrefreshed.dedup();
    Ok(())
}

/// The answer of one item.
enum Item {
    /// What goes under its label.
    Tree(Map<String, Value>),
    /// Label and answer as the text of JSON.
    Text(String),
}

/// Appends what [`settle`] says of a write that was done, as text with its label: most items are this, and there are
/// thousands.
pub(super) async fn text(out: &mut String, rest: &crate::Rest, label: &str, written: &Written, dialect: Dialect) {
    out.push_str("{\"");
    out.push_str(label);
    out.push_str("\":{");
    write_members(out, rest, written, dialect).await;
    out.push_str(",\"status\":");
    push_number(out, status(written).into());
    out.push_str("}}");
}

/// One item on its way.
pub(super) struct Planned {
    pub(super) label: &'static str,
    pub(super) at: DocAddress,
    pub(super) write: Result<Write>,
    pub(super) spec: SourceSpec,
    /// An update that says what to write where there is nothing.
    pub(super) upserts: bool,
    /// It could never be an operation, wherever it goes; `write` says why.
    invalid: bool,
    pub(super) locks: Vec<String>,
    /// `fields` of 2015 that an update's answer shows.
    fields: Option<Vec<String>>,
}

impl Planned {
    /// What [`text`] says is all that there is to say of what was done.
    pub(super) fn says_no_more(&self, call: &Call, written: &Written, default: &SourceSpec) -> Result<bool> {
        if !is_members(written, call.dialect) {
            return Ok(false);
        }
        let spec = if self.spec == SourceSpec::Default {
            default
        } else {
            &self.spec
        };
        let shows = self.label == "update" && after(written, spec, self.fields.as_deref(), call.dialect)?.is_some();
        Ok(!shows)
    }

    pub(super) async fn new(call: &Call, item: BulkItem<'_>, fields: Option<&[String]>) -> Planned {
        let generated = item.id.is_none();
        let id = item
            .id
            .clone()
            .unwrap_or_else(|| engine::clock::generated_id(call.rest.clock.as_ref()));
        let index = item.index.clone();
        if let Some(doc_type) = item.doc_type.as_deref()
            && item.action != BulkAction::Delete
            && first_type::applies(call.dialect.persona)
        {
            // Refused, the item is written as before, and its own refusal is told.
            drop(first_type::adopt(&call.rest, &index, doc_type).await);
        }
        let typed = match call.rest.known(&index).await {
            Some(known) => known.typed,
            // The name of a type is taken and means nothing: the index becomes one of today.
            None if matches!(call.dialect.persona, Persona::Es7 | Persona::Opensearch1) => false,
            None => call.dialect.rules.has_types || item.doc_type.as_deref().is_some_and(|t| t != "_doc"),
        };
        let id = match &item.doc_type {
            Some(doc_type) if typed => DocId::typed(doc_type.as_str(), id),
            _ => DocId::plain(id),
        };
        let at = DocAddress {
            index: IndexName::new(index),
            id,
        };
        let label = match item.action {
            BulkAction::Index if generated && call.dialect.rules.former_document_answers => "create",
            BulkAction::Index => "index",
            BulkAction::Create => "create",
            BulkAction::Update => "update",
            BulkAction::Delete => "delete",
        };
        let mut spec = item.source_spec.clone().unwrap_or_default();
        let update = match item.action {
            BulkAction::Update => Some(UpdateBody::parse(item.source, call.dialect)),
            _ => None,
        };
        let unreadable = matches!(&update, Some(Err(_)));
        let expect = expectation(call, &item, &at, generated);
        let conditions_fail = expect.is_err();
        if let (SourceSpec::Default, Some(Ok(body))) = (&spec, &update) {
            spec = body.source.clone();
        }
        let upserts = matches!(&update, Some(Ok(body)) if body.upsert.is_some() || body.doc_as_upsert);
        let of_body = match &update {
            Some(Ok(body)) => body.fields.clone(),
            _ => None,
        };
        let fields = item.fields.clone().or(of_body).or_else(|| fields.map(<[String]>::to_vec));
        let write = match expect {
            Ok(expect) => write_of(call, &item, update, at.clone(), expect).await,
            Err(error) => Err(error),
        };
        let refused = matches!(&write, Err(error) if error.kind() == ErrorKind::ActionRequestValidation);
        Planned {
            label,
            at,
            write,
            spec,
            upserts,
            invalid: unreadable || conditions_fail || refused,
            locks: item.locks,
            fields,
        }
    }
}

/// What an item expects of what is there.
fn expectation(call: &Call, item: &BulkItem<'_>, at: &DocAddress, generated: bool) -> Result<Expect> {
    if at.index.as_str().is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: index is missing;",
        ));
    }
    let internal = matches!(item.version_type.as_deref(), None | Some("internal"));
    if item.action == BulkAction::Update && !call.dialect.rules.guards_updates_by_version && (item.version.is_some() || !internal)
    {
        return Err(Error::illegal(
            "Update requests do not support versioning. Please use `if_seq_no` and `if_primary_term` instead",
        ));
    }
    let parts = ExpectParts {
        version: match item.version {
            Some(given) if call.dialect.rules.guards_updates_by_version => {
                crate::query_params::written_version(given, item.version_type.as_deref())?
            }
            given => given,
        },
        version_type: item.version_type.clone(),
        if_seq_no: given_seq_no(item.if_seq_no)?,
        if_primary_term: given_term(item.if_primary_term)?,
        create: item.action == BulkAction::Create || generated,
    };
    parts.expect(call.dialect.rules.guards_updates_by_version)
}

async fn write_of(
    call: &Call,
    item: &BulkItem<'_>,
    update: Option<Result<UpdateBody>>,
    at: DocAddress,
    expect: Expect,
) -> Result<Write> {
    let mut write = Write::new(at, WriteOp::Delete);
    write.expect = expect;
    write.routing = item.routing.clone();
    write.parent = item.parent.clone();
    write.timing = Timing {
        timestamp: item.timestamp.clone().map(Moment::Said),
        life: item.ttl_ms.map(Life::For),
        judged_ms: None,
    };
    write.require_alias = item.require_alias && item.action != BulkAction::Delete;
    if matches!(item.action, BulkAction::Delete | BulkAction::Update) {
        write.routed_among = super::get::routed_among(call, &write.at).await;
    }
    if let Some(name) = item.pipeline.as_deref().filter(|p| *p != "_none") {
        return Err(Error::illegal(format!(
            "pipeline with id [{name}] does not exist: ingest pipelines are not supported yet"
        )));
    }
    match item.action {
        BulkAction::Index | BulkAction::Create => {
            super::percolate::prepare(call, &write.at, item.source).await?;
            write.op = WriteOp::Put(Source(normalized(item.source, call)?));
        }
        BulkAction::Update => {
            let Some(body) = update else {
                return Err(Error::illegal("an update needs a body"));
            };
            let body = body?;
            if write.expect == Expect::Absent {
                write.expect = Expect::Anything;
            }
            update_conditions(
                write.expect,
                Some(item.retry_on_conflict),
                call.dialect.rules.guards_updates_by_version,
            )?;
            refuse_conditional_upsert(write.expect, &body, call.dialect.rules.guards_updates_by_version)?;
            write.op = WriteOp::Update(Box::new(update_op(call, &write, &body).await?));
            if let Some(looked_at) = super::percolate::prepare_update(call, &write).await? {
                write.expect = looked_at;
            }
        }
        BulkAction::Delete => {}
    }
    Ok(write)
}

/// The answer of one item, and whether it is an error.
pub(super) async fn settle(
    planned: &Planned,
    outcome: Outcome,
    default: &SourceSpec,
    call: &Call,
) -> Result<(Map<String, Value>, bool)> {
    let outcome = if planned.label == "update" {
        super::update::missing_before_conflict(outcome, planned.upserts)
    } else {
        outcome
    };
    let written = match outcome {
        Outcome::Conflict(conflict) => return Ok((failed(planned, conflict_error(&conflict, call.dialect), call).await, true)),
        other => match settled(other, call.dialect) {
            Ok(written) => written,
            Err(error) => return Ok((failed(planned, error, call).await, true)),
        },
    };
    let op = if planned.label == "update" {
        "update in bulk"
    } else {
        planned.label
    };
    let mut body = answer(&call.rest, &written, op, call.dialect).await;
    let spec = if planned.spec == SourceSpec::Default {
        default
    } else {
        &planned.spec
    };
    if planned.label == "update"
        && let Some(get) = after(&written, spec, planned.fields.as_deref(), call.dialect)?
    {
        body.insert("get".into(), get);
    }
    body.insert("status".into(), status(&written).into());
    if call.dialect.rules.former_document_answers && planned.label == "delete" {
        body.insert("found".into(), (written.effect == Effect::Deleted).into());
    }
    Ok((body, false))
}

pub(super) async fn failed(planned: &Planned, error: Error, call: &Call) -> Map<String, Value> {
    let error = match &planned.write {
        // A missing document of a bulk had no shard.
        Ok(_) if call.dialect.rules.former_document_answers && error.kind() == ErrorKind::DocumentMissing => {
            error.with("shard", "-1")
        }
        Ok(write) if call.dialect.rules.former_document_answers => placed(&call.rest, es2_errors::in_update(error), write).await,
        _ => error,
    };
    let at = match call.dialect.rules.former_document_answers {
        true => planned.at.clone(),
        false => super::get::written_to(call, &planned.at).await,
    };
    let mut body = head(&at, call.dialect);
    body.insert("status".into(), envelope::status(&error, call.dialect).into());
    let mut error = Value::Object(envelope::object(&error, call.dialect));
    envelope::with_uuids(&call.rest, &mut error, call.dialect).await;
    body.insert("error".into(), error);
    body
}
