//! `_bulk`: many writes in one request, each on its own.

use super::changes;
use super::documents::normalized;
use super::update::{after, refuse_conditional_upsert, update_conditions, update_op};
use super::writes::{
    Guarded, answer, conflict_error, head, is_members, placed, refuse_pipeline, send_in, settled, status, with_warnings,
    write_members,
};
use crate::answers_of_2015;
use crate::call::Call;
use crate::envelope;
use crate::first_type;
use crate::params::{ExpectParts, given_seq_no, given_term};
use crate::respond::Answer;
use crate::words_2015;
use dsl::document::{BulkAction, BulkDefaults, BulkItem, UpdateBody, parse_bulk};
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
    if !call.dialect.typed && call.params.take_number::<i32>("batch_size")?.is_some_and(|size| size < 1) {
        return Err(Error::illegal("batch_size must be greater than 0"));
    }
    let refresh = call.params.take_refresh()?;
    let transaction = call.params.take("transaction");
    let atomic = call.params.flag("atomic")?;
    let options = if atomic {
        Some(changes::Options::take(&mut call)?)
    } else {
        // Clients send it with every bulk; a write that is answered is durable, and nobody else has to be waited for.
        call.params.take_duration("timeout")?;
        None
    };
    super::transactions::refuse_atomic(options.as_ref(), transaction.as_deref())?;
    let default_source = super::get::source_params(&mut call)?;
    let routing = call.params.take("routing");
    let locks = call.take_locks()?;
    let require_alias = call.params.flag("require_alias")?;
    let default_fields = call.params.take_2015("fields").map(|f| crate::params::split_list(&f));
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
    let limits = match &options {
        Some(_) => Some(changes::Limits::of(&call).await?),
        None => None,
    };
    if let Some(limits) = &limits {
        limits.check_bytes(call.body.len())?;
    }
    let items = parse_bulk(&call.body, &defaults).map_err(|e| {
        // Each line was known by its first brace.
        let bad = |line: &&[u8]| !line.trim_ascii().is_empty() && dsl::json::check(line, call.reading()).is_err();
        let line = call.body.split(|b| *b == b'\n').find(bad).unwrap_or_default();
        words_2015::unread_if(e, line, call.dialect)
    })?;
    if items.is_empty() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no requests added;",
        ));
    }
    if let Some(limits) = &limits {
        limits.check_operations(items.len())?;
    }
    let mut planned = Vec::with_capacity(items.len());
    for item in items {
        let item = Planned::new(&call, item, default_fields.as_deref()).await;
        match item.write {
            // What is no update, or could never be one operation, is no bulk: nothing of it is written.
            Err(error) if item.invalid && options.is_none() && !answers_of_2015(call.dialect) => {
                return Err(error);
            }
            _ => planned.push(item),
        }
    }
    for planned in planned.iter_mut().filter(|planned| planned.locks.is_empty()) {
        planned.locks = locks.clone();
    }
    if let (Some(options), Some(limits)) = (options, limits) {
        return changes::atomic_bulk(&call, planned, &default_source, options, &limits, refresh).await;
    }
    let mut answers: Vec<Option<Item>> = (0..planned.len()).map(|_| None).collect();
    let mut errors = false;
    let mut warnings = Vec::new();
    // One document may stand several times in a request: they are sent in order, and each sees what those before it did.
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
                errors = true;
                answers[i] = Some(Item::Tree(failed(item, error, &call).await));
            }
        }
    }
    let done = send_in(&call, transaction.as_deref(), writes, refresh).await?;
    let refreshed = transaction.is_none() && matches!(refresh, Refresh::Now) && !answers_of_2015(call.dialect);
    // A bulk is refreshed as a whole: also for those of its updates that changed nothing.
    let mut unchanged: Vec<IndexName> = Vec::new();
    for (i, sent) in sent.into_iter().zip(done) {
        if let (Outcome::Written(written), None) = (&sent.outcome, &transaction)
            && planned[i].locks.is_empty()
            && planned[i].says_no_more(&call, written, &default_source)?
        {
            let mut told = String::with_capacity(256);
            text(&mut told, &call.rest, planned[i].label, written, call.dialect).await;
            answers[i] = Some(Item::Text(told));
            warnings.extend(sent.warnings);
            continue;
        }
        let (mut body, bad) = settle(&planned[i], sent.outcome, &default_source, &call).await?;
        warnings.extend(sent.warnings);
        if refreshed && body.get("result").is_some_and(|result| result == "noop") {
            body.insert("forced_refresh".into(), true.into());
            unchanged.push(planned[i].at.index.clone());
        }
        if let Some(id) = planned[i].locks.first().filter(|_| !bad) {
            body.insert("lock".into(), id.as_str().into());
        }
        errors |= bad;
        answers[i] = Some(Item::Tree(body));
    }
    unchanged.sort_unstable();
    unchanged.dedup();
    for index in unchanged {
        call.rest.engine.refresh(&Target::index(index.as_str()), None).await?;
    }
    let took = (call.rest.clock.monotonic() - start).as_millis();
    let mut body = format!("{{\"took\":{took},\"errors\":{errors},\"items\":[");
    for (n, (planned, answer)) in planned.iter().zip(answers).enumerate() {
        if n > 0 {
            body.push(',');
        }
        match answer {
            Some(Item::Text(text)) => body.push_str(&text),
            Some(Item::Tree(tree)) => body.push_str(&json!({ planned.label: tree }).to_string()),
            None => body.push_str("{}"),
        }
    }
    body.push(']');
    if let Some(id) = transaction {
        body.push_str(",\"transaction\":");
        body.push_str(&Value::from(id).to_string());
    }
    body.push('}');
    // A header is no place for thousands.
    warnings.truncate(16);
    Ok(with_warnings(Answer::raw(body), &warnings))
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
            None => call.dialect.typed || item.doc_type.as_deref().is_some_and(|t| t != "_doc"),
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
            BulkAction::Index if generated && answers_of_2015(call.dialect) => "create",
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
    if item.action == BulkAction::Update && !call.dialect.typed && (item.version.is_some() || !internal) {
        return Err(Error::illegal(
            "Update requests do not support versioning. Please use `if_seq_no` and `if_primary_term` instead",
        ));
    }
    let parts = ExpectParts {
        version: match item.version {
            Some(given) if call.dialect.typed => crate::params::written_version(given, item.version_type.as_deref())?,
            given => given,
        },
        version_type: item.version_type.clone(),
        if_seq_no: given_seq_no(item.if_seq_no)?,
        if_primary_term: given_term(item.if_primary_term)?,
        create: item.action == BulkAction::Create || generated,
    };
    parts.expect(call.dialect.typed)
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
            update_conditions(write.expect, Some(item.retry_on_conflict), call.dialect.typed)?;
            refuse_conditional_upsert(write.expect, &body, call.dialect.typed)?;
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
    if answers_of_2015(call.dialect) && planned.label == "delete" {
        body.insert("found".into(), (written.effect == Effect::Deleted).into());
    }
    Ok((body, false))
}

pub(super) async fn failed(planned: &Planned, error: Error, call: &Call) -> Map<String, Value> {
    let error = match &planned.write {
        // A missing document of a bulk had no shard.
        Ok(_) if answers_of_2015(call.dialect) && error.kind() == ErrorKind::DocumentMissing => error.with("shard", "-1"),
        Ok(write) if answers_of_2015(call.dialect) => placed(&call.rest, words_2015::in_update(error), write).await,
        _ => error,
    };
    let at = match answers_of_2015(call.dialect) {
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
