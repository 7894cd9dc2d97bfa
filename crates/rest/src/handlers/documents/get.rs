//! A document, or its source, by its id.

use crate::actions::read::{
    ReadOptions, as_indexed, check_version, concrete, describe, fetch, filter_source, kept_parts, parse, render_found,
};
use crate::actions::writes::head;
use crate::call::Call;
use crate::respond::{Answer, Body};
use async_recursion::async_recursion as boxed;
use dsl::search::SourceSpec;
use engine::Document;
use model::{DocAddress, Error, ErrorKind, Result};
use serde_json::Value;

/// `GET /i/_doc/1`.
#[boxed]
pub(crate) async fn get(mut call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    let at = call.address(&id)?;
    let wanted = parse(&mut call, at.clone())?;
    call.params.finish()?;
    let look = wanted
        .visibility
        .look(&call, &model::Target::index(at.index.as_str()), None)
        .await?;
    let answer = got(&call, &at, &wanted).await;
    look.over(&call, answer).await
}

async fn got(call: &Call, at: &DocAddress, wanted: &ReadOptions) -> Result<Answer> {
    let document = fetch(call, wanted).await?;
    let Some(document) = document else {
        let mut body = head(&concrete(call, at).await, call.dialect);
        body.insert("found".into(), false.into());
        return Ok(Answer::of(404, Value::Object(body)));
    };
    // Whether it is there is asked of whatever version.
    if call.method != "HEAD" || !call.dialect.rules.existence_ignores_version {
        check_version(wanted, &document, call).await?;
    }
    let kept = kept_parts(call, &document, wanted.stored.as_deref()).await?;
    if kept.source && wanted.stored.is_none() && matches!(wanted.source, SourceSpec::Default | SourceSpec::All) {
        return Ok(whole(&document, call));
    }
    let mut answer = render_found(
        &document,
        if kept.source { &wanted.source } else { &SourceSpec::None },
        wanted.stored.as_deref(),
        &kept.fields,
        call,
    )?;
    as_indexed(call, &document, &mut answer).await?;
    Ok(Answer::ok(Value::Object(answer)))
}

/// A found document with its source byte for byte: nothing of it is parsed.
fn whole(document: &Document, call: &Call) -> Answer {
    let mut bytes = Vec::with_capacity(256 + document.source.0.len());
    describe(document, call, &mut bytes);
    bytes.extend_from_slice(b",\"_source\":");
    bytes.extend_from_slice(&document.source.0);
    bytes.push(b'}');
    Answer {
        body: Body::Raw(bytes.into()),
        ..Answer::empty(200)
    }
}

/// `GET /i/_source/1`.
#[boxed]
pub(crate) async fn get_source(mut call: Call) -> Result<Answer> {
    let id = call.path_part("id")?;
    let at = call.address(&id)?;
    let wanted = parse(&mut call, at)?;
    call.params.finish()?;
    if wanted.source == SourceSpec::None && !call.dialect.rules.tolerates_conflicting_options {
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
                .index_facts(document.at.index.as_str())
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
            check_version(&wanted, &document, &call).await?;
            let body = match wanted.source {
                SourceSpec::Filtered { .. } => Body::Json(filter_source(&document.source.parse()?, &wanted.source)),
                _ => Body::Raw(bytes::Bytes::copy_from_slice(&document.source.0)),
            };
            Ok(Answer {
                status: 200,
                body,
                headers: Vec::new(),
            })
        }
        None if call.dialect.rules.missing_source_is_empty => Ok(Answer {
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
