//! `_update`: a document changed in part or by a script.

use crate::actions::documents::{WriteScope, one, timing};
use crate::actions::read::{routed_among, source_params};
use crate::actions::update::{after, missing_before_conflict, refuse_conditional_upsert, update_conditions, update_op};
use crate::actions::writes::{answer, refuse_pipeline, single_outcome, status, with_shard, with_warnings};
use crate::call::Call;
use crate::es2_errors;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::document::UpdateBody;
use dsl::query::script_source::{ScriptSource, ScriptText};
use dsl::search::SourceSpec;
use engine::{Outcome, Refresh, Write, WriteOp};
use model::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// How often an updated percolator query is checked again if others write it meanwhile.
const LOOKS_MAX: usize = 16;

/// `POST /i/_update/1`.
#[boxed]
pub(crate) async fn update(mut call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    let at = call.address(&id)?;
    let mut write = Write::new(at, WriteOp::Delete);
    write.routing = call.params.take("routing").filter(|routing| !routing.is_empty());
    write.parent = call.params.take_2015("parent");
    write.timing = timing(&mut call)?;
    write.require_alias = call.params.flag("require_alias")?;
    write.routed_among = routed_among(&call, &write.at).await;
    refuse_pipeline(&mut call)?;
    let place = WriteScope::take(&mut call)?;
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
    let body = body.validate()?;
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
    let (mut outcome, mut warnings) = send(&call, &write, &place, refresh).await?;
    // The engine applies updates inside the critical section: only a stated condition can conflict.
    for _ in 0..retries.unwrap_or(0) {
        if !matches!(outcome, Outcome::Conflict(_)) {
            break;
        }
        (outcome, warnings) = send(&call, &write, &place, refresh).await?;
    }
    let upserts = body.upsert.is_some() || body.doc_as_upsert;
    let written = match single_outcome(missing_before_conflict(outcome, upserts), call.dialect) {
        Err(error) if call.dialect.rules.former_document_answers => {
            return Err(with_shard(&call.rest, es2_errors::in_update(error), &write).await);
        }
        other => other?,
    };
    let mut out = answer(&call.rest, &written, "update", call.dialect).await;
    if let Some(get) = after(&written, &spec, fields.as_deref(), call.dialect)? {
        out.insert("get".into(), get);
    }
    place.show_links(&call, &written, &mut out).await;
    place.show(&mut out);
    Ok(with_warnings(Answer::of(status(&written), Value::Object(out)), &warnings))
}

/// Sends an update; one of a query that is kept for percolation on the condition that the query is still what was looked at.
async fn send(call: &Call, write: &Write, place: &WriteScope, refresh: Refresh) -> Result<(Outcome, Vec<String>)> {
    let mut looks = 0;
    loop {
        let looked_at = crate::actions::percolator::prepare_update(call, write).await?;
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

/// Parameters of an update's URL in Elasticsearch 2, beside the body.
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
