//! Updates: conditions, scripts and upserts.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::read::filter_source;
use crate::actions::writes::compile;
use crate::call::Call;
use crate::es2_errors;
use dsl::document::UpdateBody;
use dsl::search::SourceSpec;
use engine::{Expect, Found, Outcome, Read, Update, Write};
use model::{Error, ErrorKind, Result, path};
use script::Budget;
use serde_json::{Map, Value, json};

/// A condition on a document that is not there: what an update misses first is the document.
pub(crate) fn missing_before_conflict(outcome: Outcome, upserts: bool) -> Outcome {
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

/// Conditions that an update cannot have.
pub(crate) fn update_conditions(expect: Expect, retries: Option<u32>, by_version: bool) -> Result<()> {
    let invalid = |what: &str| {
        Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: {what};"),
        ))
    };
    match (expect, retries.unwrap_or(0)) {
        (Expect::NewerThan { .. }, _) if by_version => invalid("version type [EXTERNAL] is not supported by the update API"),
        (Expect::Forced(_), 1..) => invalid("can't provide both retry_on_conflict and a specific version"),
        (Expect::NewerThan { .. }, _) => invalid(
            "internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead",
        ),
        (Expect::Version(_), 1..) => invalid("can't provide both retry_on_conflict and a specific version"),
        (Expect::Unchanged { .. }, 1..) => invalid("compare and write operations can not be retried"),
        _ => Ok(()),
    }
}

/// A condition on what may not be there.
///
/// # Errors
/// An update that makes the document where there is none.
pub(crate) fn refuse_conditional_upsert(expect: Expect, body: &UpdateBody, by_version: bool) -> Result<()> {
    if matches!(expect, Expect::Unchanged { .. }) && (body.doc_as_upsert || body.upsert.is_some()) && !by_version {
        let reason = "Validation Failed: 1: upsert requests don't support `if_seq_no` and `if_primary_term`;";
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    Ok(())
}

/// What was wrong with a script before it ran is told of an update as what goes wrong while it runs.
pub(crate) fn wraps(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Script | ErrorKind::ScriptMissing | ErrorKind::IllegalArgument
    )
}

/// The engine's form of an update body.
///
/// # Errors
/// A script that does not compile; `security_exception`: documents or fields of the index are withheld.
pub(crate) async fn update_op(call: &Call, write: &Write, body: &UpdateBody) -> Result<Update> {
    // Where a decision makes the write, what it comes to looks like a whole document.
    if let Some(scope) = &call.rest.scope {
        scope.check_update(write.at.index.as_str()).await?;
    }
    let script = match &body.script {
        None => None,
        Some(source) => match compile(&call.rest, source).await {
            Ok(script) => Some(script),
            Err(error) if call.dialect.rules.script_failures_are_remote || wraps(&error) => {
                // A script is compiled when there is a document to run it on.
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
                    return Err(if call.dialect.rules.script_failures_are_remote {
                        es2_errors::in_update(error)
                    } else {
                        engine::script_failure(error)
                    });
                }
                None
            }
            Err(error) => return Err(error),
        },
    };
    Ok(Update {
        doc: body.doc.clone(),
        script,
        upsert: body.upsert.clone(),
        doc_as_upsert: body.doc_as_upsert,
        scripted_upsert: body.scripted_upsert,
        moves: false,
        detect_noop: body.detect_noop,
        lenient_op: true,
        of_2015: call.dialect.rules.former_updates,
        budget: Budget::default(),
        now_ms: call.rest.clock.wall_ms(),
    })
}

/// The `get` part of an update's answer, if it was asked for.
pub(crate) fn after(
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
        if dialect.rules.former_document_answers && written.effect == engine::Effect::Deleted {
            return Ok(Some(json!({ "found": true })));
        }
        if !dialect.rules.former_document_answers && written.effect == engine::Effect::Deleted && !written.stamp.is_staged() {
            let (seq_no, term) = (written.stamp.seq_no, written.stamp.primary_term);
            return Ok(Some(json!({ "_seq_no": seq_no, "_primary_term": term, "found": true })));
        }
        return Ok(Some(json!({ "found": false })));
    };
    let value = source.parse()?;
    let mut out = Map::new();
    if !dialect.rules.former_document_answers && !written.stamp.is_staged() {
        out.insert("_seq_no".into(), written.stamp.seq_no.into());
        out.insert("_primary_term".into(), written.stamp.primary_term.into());
    }
    out.insert("found".into(), true.into());
    let wants =
        !matches!(spec, SourceSpec::Default | SourceSpec::None) || fields.is_some_and(|f| f.iter().any(|f| f == "_source"));
    if wants {
        out.insert("_source".into(), filter_source(&value, spec));
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
