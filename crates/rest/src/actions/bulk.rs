//! Lines of a bulk as writes, and their outcomes as items of the answer.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::documents::normalize_source;
use crate::actions::update::{after, refuse_conditional_upsert, update_conditions, update_op};
use crate::actions::writes::{answer, conflict_error, head, is_members, single_outcome, status, with_shard, write_members};
use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::first_type;
use crate::query_params::{ExpectParts, given_seq_no, given_term};
use dsl::document::{BulkAction, BulkItem, UpdateBody};
use dsl::search::SourceSpec;
use engine::{Effect, Expect, Outcome, Source, Write, WriteOp, Written};
use mapping::{Life, Moment, Timing};
use model::text::push_number;
use model::{Dialect, DocAddress, DocId, Error, ErrorKind, IndexName, Persona, Result};
use serde_json::{Map, Value};

/// Appends what [`settle`] says of a write that was done, as text with its label: most items are this, and there are
/// thousands.
pub(crate) async fn text(out: &mut String, rest: &crate::Rest, label: &str, written: &Written, dialect: Dialect) {
    out.push_str("{\"");
    out.push_str(label);
    out.push_str("\":{");
    write_members(out, rest, written, dialect).await;
    out.push_str(",\"status\":");
    push_number(out, status(written).into());
    out.push_str("}}");
}

/// One item on its way.
pub(crate) struct Planned {
    pub(crate) label: &'static str,
    pub(crate) at: DocAddress,
    pub(crate) write: Result<Write>,
    pub(crate) spec: SourceSpec,
    /// An update that says what to write where there is nothing.
    pub(crate) upserts: bool,
    /// It could never be an operation, wherever it goes; `write` says why.
    pub(crate) invalid: bool,
    pub(crate) locks: Vec<String>,
    /// `fields` of 2015 that an update's answer shows.
    pub(crate) fields: Option<Vec<String>>,
}

impl Planned {
    /// Whether [`text`] is the whole answer of the item.
    pub(crate) fn says_no_more(&self, call: &Call, written: &Written, default: &SourceSpec) -> Result<bool> {
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

    pub(crate) async fn new(call: &Call, item: BulkItem<'_>, fields: Option<&[String]>) -> Planned {
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
        let typed = match call.rest.index_facts(&index).await {
            Some(known) => known.typed,
            // The name of a type is taken and means nothing: the index becomes one of today.
            None if matches!(call.dialect.persona, Persona::Es7 | Persona::Opensearch1) => false,
            None => call.dialect.rules.has_types || item.doc_type.as_deref().is_some_and(|t| t != "_doc"),
        };
        let id = match &item.doc_type {
            Some(doc_type) if typed => DocId::with_type(doc_type.as_str(), id),
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

/// The expectation of an item.
pub(crate) fn expectation(call: &Call, item: &BulkItem<'_>, at: &DocAddress, generated: bool) -> Result<Expect> {
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

pub(crate) async fn write_of(
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
        write.routed_among = crate::actions::read::routed_among(call, &write.at).await;
    }
    if let Some(name) = item.pipeline.as_deref().filter(|p| *p != "_none") {
        return Err(Error::illegal(format!(
            "pipeline with id [{name}] does not exist: ingest pipelines are not supported yet"
        )));
    }
    match item.action {
        BulkAction::Index | BulkAction::Create => {
            crate::actions::percolator::prepare(call, &write.at, item.source).await?;
            write.op = WriteOp::Put(Source(normalize_source(item.source, call)?));
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
            if let Some(looked_at) = crate::actions::percolator::prepare_update(call, &write).await? {
                write.expect = looked_at;
            }
        }
        BulkAction::Delete => {}
    }
    Ok(write)
}

/// The answer of one item, and whether it is an error.
pub(crate) async fn settle(
    planned: &Planned,
    outcome: Outcome,
    default: &SourceSpec,
    call: &Call,
) -> Result<(Map<String, Value>, bool)> {
    let outcome = if planned.label == "update" {
        crate::actions::update::missing_before_conflict(outcome, planned.upserts)
    } else {
        outcome
    };
    let written = match outcome {
        Outcome::Conflict(conflict) => {
            return Ok((
                failure_item(planned, conflict_error(&conflict, call.dialect), call).await,
                true,
            ));
        }
        other => match single_outcome(other, call.dialect) {
            Ok(written) => written,
            Err(error) => return Ok((failure_item(planned, error, call).await, true)),
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

pub(crate) async fn failure_item(planned: &Planned, error: Error, call: &Call) -> Map<String, Value> {
    let error = match &planned.write {
        // A missing document of a bulk had no shard.
        Ok(_) if call.dialect.rules.former_document_answers && error.kind() == ErrorKind::DocumentMissing => {
            error.with("shard", "-1")
        }
        Ok(write) if call.dialect.rules.former_document_answers => {
            with_shard(&call.rest, es2_errors::in_update(error), write).await
        }
        _ => error,
    };
    let at = match call.dialect.rules.former_document_answers {
        true => planned.at.clone(),
        false => crate::actions::read::write_address(call, &planned.at).await,
    };
    let mut body = head(&at, call.dialect);
    body.insert("status".into(), envelope::status(&error, call.dialect).into());
    let mut error = Value::Object(envelope::object(&error, call.dialect));
    envelope::with_uuids(&call.rest, &mut error, call.dialect).await;
    body.insert("error".into(), error);
    body
}
