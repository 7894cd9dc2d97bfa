//! `_update`: a document changed in part or by a script.

use super::documents::{Place, one, timing};
use super::get::{filtered, routed_among, source_params};
use super::writes::{answer, compile, placed, refuse_pipeline, settled, status, with_warnings};
use crate::call::Call;
use crate::es2_errors;
use crate::respond::Answer;
use dsl::document::UpdateBody;
use dsl::query::script_source::{ScriptSource, ScriptText};
use dsl::search::SourceSpec;
use engine::{Expect, Found, Outcome, Read, Refresh, Update, Write, WriteOp};
use model::{Error, ErrorKind, Result, path};
use script::Budget;
use serde_json::{Map, Value, json};

/// What an update makes of a kept query is looked at so often, if others write the query meanwhile.
const LOOKS_MAX: usize = 16;

/// `POST /i/_update/1`.
pub(crate) async fn update(mut call: Call) -> Result<Answer> {
    let id = call.needed("id")?;
    let at = call.address(&id)?;
    let mut write = Write::new(at, WriteOp::Delete);
    write.routing = call.params.take("routing").filter(|routing| !routing.is_empty());
    write.parent = call.params.take_2015("parent");
    write.timing = timing(&mut call)?;
    write.require_alias = call.params.flag("require_alias")?;
    write.routed_among = routed_among(&call, &write.at).await;
    refuse_pipeline(&mut call)?;
    let place = Place::take(&mut call)?;
    let refresh = call.params.take_refresh()?;
    let retries: Option<u32> = call.params.take_number("retry_on_conflict")?;
    let expect = call.params.take_expect(call.dialect.rules.guards_updates_by_version)?;
    if !call.dialect.rules.guards_updates_by_version && (expect.version.is_some() || expect.version_type.is_some()) {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: internal versioning can not be used for optimistic concurrency control. Please use `if_seq_no` and `if_primary_term` instead;",
        ));
    }
    let url = UpdateUrl::take(&mut call)?;
    let from_url = source_params(&mut call)?;
    let content = call.content()?;
    let parsed = UpdateBody::parse_unvalidated(&content, call.dialect);
    let mut body = parsed.map_err(|e| es2_errors::unread_if(e, &content, call.dialect))?;
    call.params.finish()?;
    let fields = url.over(&mut body);
    let body = body.validated()?;
    write.expect = expect
        .or(body.if_seq_no, body.if_primary_term)?
        .expect(call.dialect.rules.guards_updates_by_version)?;
    update_conditions(write.expect, retries, call.dialect.rules.guards_updates_by_version)?;
    refuse_conditional_upsert(write.expect, &body, call.dialect.rules.guards_updates_by_version)?;
    let spec = if from_url == SourceSpec::Default {
        body.source.clone()
    } else {
        from_url
    };
    let mut op = update_op(&call, &write, &body).await?;
    // A partial document brings the routing of its URL with it; a script and the lines of a bulk do not.
    op.moves = op.doc.is_some();
    write.op = WriteOp::Update(Box::new(op));
    let (mut outcome, mut warnings) = sent(&call, &write, &place, refresh).await?;
    // The engine applies updates inside the critical section: only a stated condition can conflict.
    for _ in 0..retries.unwrap_or(0) {
        if !matches!(outcome, Outcome::Conflict(_)) {
            break;
        }
        (outcome, warnings) = sent(&call, &write, &place, refresh).await?;
    }
    let upserts = body.upsert.is_some() || body.doc_as_upsert;
    let written = match settled(missing_before_conflict(outcome, upserts), call.dialect) {
        Err(error) if call.dialect.rules.former_document_answers => {
            return Err(placed(&call.rest, es2_errors::in_update(error), &write).await);
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

/// Sends an update; one of a query that is kept for percolation on the condition that the query is still what was looked at.
async fn sent(call: &Call, write: &Write, place: &Place, refresh: Refresh) -> Result<(Outcome, Vec<String>)> {
    let mut looks = 0;
    loop {
        let looked_at = super::percolate::prepare_update(call, write).await?;
        let mut conditional = write.clone();
        conditional.expect = looked_at.unwrap_or(write.expect);
        let (outcome, warnings) = one(call, conditional, place, refresh).await?;
        looks += 1;
        // Somebody else's write came between: another look.
        if looked_at.is_none() || looks == LOOKS_MAX || !matches!(outcome, Outcome::Conflict(_)) {
            return Ok((outcome, warnings));
        }
    }
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
            fields: call
                .params
                .take_2015("fields")
                .map(|given| crate::query_params::split_list(&given)),
            ..UpdateUrl::default()
        };
        let mut flag = |name: &'static str| {
            let given = call.params.take_2015(name);
            given.map(|v| !matches!(v.as_str(), "false" | "0" | "no" | "off"))
        };
        out.detect_noop = flag("detect_noop");
        out.scripted_upsert = flag("scripted_upsert").unwrap_or(false);
        out.doc_as_upsert = call.params.flag("doc_as_upsert")?;
        let lang = call.params.take_2015("lang");
        let text = match (call.params.take_2015("script"), call.params.take_2015("script_id")) {
            (Some(text), _) => Some(ScriptText::Inline(text)),
            (None, id) => id.map(ScriptText::Stored),
        };
        out.script = text.map(|text| ScriptSource {
            text,
            lang,
            params: Map::new(),
            defaults_to_groovy: true,
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
pub(super) fn update_conditions(expect: Expect, retries: Option<u32>, by_version: bool) -> Result<()> {
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
pub(super) fn refuse_conditional_upsert(expect: Expect, body: &UpdateBody, by_version: bool) -> Result<()> {
    if matches!(expect, Expect::Unchanged { .. }) && (body.doc_as_upsert || body.upsert.is_some()) && !by_version {
        let reason = "Validation Failed: 1: upsert requests don't support `if_seq_no` and `if_primary_term`;";
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    Ok(())
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
                        Error::illegal("failed to execute script").caused_by(error)
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
