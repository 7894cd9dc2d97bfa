//! Scrolls and points in time: one view of the engine, read page by page.

use crate::Rest;
use crate::actions::scroll::{check_keep_alive, check_view_id, missing, page};
use crate::actions::search::run_search;
use crate::call::Call;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::search::SearchRequest;
use model::{Error, ErrorKind, Result, Target};
use serde_json::{Value, json};
use std::time::Duration;

fn view_of(call: &Call, scroll_id: &str) -> Result<String> {
    use base64::Engine as _;
    let malformed = || match call.dialect.rules.scroll_refusal_words {
        true => Error::illegal(format!("Malformed scrollId [{scroll_id}]")),
        false => Error::illegal("Cannot parse scroll id"),
    };
    let bytes = base64::engine::general_purpose::URL_SAFE
        .decode(scroll_id.trim())
        .map_err(|_| malformed())?;
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    text.strip_prefix("scroll:").map(str::to_owned).ok_or_else(malformed)
}

/// Ids by URL, query, JSON (string or list) or raw text.
fn take_ids(call: &mut Call, clears: bool) -> Result<(Vec<String>, Option<Duration>)> {
    let mut ids = Vec::new();
    for given in [call.arg("scroll_id").map(str::to_owned), call.params.take("scroll_id")]
        .into_iter()
        .flatten()
    {
        ids.extend(crate::query_params::split_list(&given));
    }
    let mut keep_alive = match call.params.has_row("scroll") {
        true => call.params.take_duration("scroll")?,
        false => None,
    };
    let content = call.content()?;
    if !content.iter().all(u8::is_ascii_whitespace) {
        let body = dsl::document::ScrollBody::parse(&content, clears)?;
        if !body.ids.is_empty() {
            ids = body.ids;
        }
        keep_alive = body.keep_alive.or(keep_alive);
    }
    Ok((ids, keep_alive))
}

/// The next page.
#[boxed]
pub(crate) async fn scroll(mut call: Call) -> Result<Answer> {
    let (ids, keep_alive) = take_ids(&mut call, false)?;
    call.params.finish()?;
    let Some(id) = ids.first() else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: scrollId is missing;",
        ));
    };
    let view = view_of(&call, id)?;
    let known = call.rest.scrolls.lock().get(&view).cloned();
    let Some(mut scroll) = known else { return Err(missing(&view)) };
    if let Some(keep_alive) = keep_alive {
        check_keep_alive(&call, keep_alive).await?;
        scroll.keep_alive = keep_alive;
    }
    scroll.used = call.rest.clock.monotonic();
    if call.rest.engine.renew_view(&view, scroll.keep_alive).await.is_err() {
        call.rest.scrolls.end(&view, call.rest.clock.monotonic());
        return Err(missing(&view));
    }
    page(&call, &view, scroll, false).await
}

/// `DELETE /_search/scroll`.
#[boxed]
pub(crate) async fn clear(mut call: Call) -> Result<Answer> {
    let (ids, _) = take_ids(&mut call, true)?;
    call.params.finish()?;
    if ids.is_empty() && !call.dialect.rules.tolerates_missing_options {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: no scroll ids specified;",
        ));
    }
    let all = ids.iter().any(|id| id == "_all") || ids.is_empty();
    let views = if all {
        call.rest.scrolls.lock().keys().cloned().collect()
    } else {
        ids.iter().map(|id| view_of(&call, id)).collect::<Result<Vec<_>>>()?
    };
    let mut freed = 0;
    for view in views {
        call.rest.scrolls.end(&view, call.rest.clock.monotonic());
        freed += u32::from(call.rest.engine.close_view(&view).await?);
    }
    let status = if freed > 0 || all { 200 } else { 404 };
    let body = if call.dialect.rules.omits_later_members {
        json!({})
    } else {
        json!({ "succeeded": true, "num_freed": freed })
    };
    Ok(Answer::of(status, body))
}

/// `POST /i/_pit`.
#[boxed]
pub(crate) async fn open_pit(mut call: Call) -> Result<Answer> {
    let keep_alive = call.params.take_duration("keep_alive")?;
    let target = call.target()?;
    // OpenSearch leaves out what cannot be read unless it is told not to, Elasticsearch only if it is told to.
    let takes_parts = match call.dialect.persona.is_opensearch() {
        true => call.params.take_bool("allow_partial_pit_creation")?.unwrap_or(true),
        false => call.params.take_bool("allow_partial_search_results")?.unwrap_or(false),
    };
    call.params.finish()?;
    let Some(keep_alive) = keep_alive else {
        return Err(if call.dialect.persona.is_opensearch() {
            Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: Keep Alive cannot be null or empty;",
            )
        } else {
            Error::new(
                ErrorKind::ActionRequestValidation,
                "Validation Failed: 1: [keep_alive] is not specified;",
            )
        });
    };
    check_keep_alive(&call, keep_alive).await?;
    let view = call
        .rest
        .engine
        .open_view(&target, keep_alive, engine::ViewPromise::MomentPerShard)
        .await?;
    if view.indices.is_empty() && call.dialect.persona.is_opensearch() {
        // There is no id for a moment of nothing.
        call.rest.engine.close_view(&view.id).await?;
        return Err(Error::illegal("invalid id: [null]"));
    }
    let mut shards = json!({ "total": view.indices.len(), "successful": view.indices.len(), "skipped": 0, "failed": 0 });
    if view.indices.len() < call.rest.indices(&target).await?.len() {
        // Some cannot be read; a search in the view says which, or is refused.
        let request = SearchRequest {
            size: 0,
            view: Some(view.id.clone()),
            allow_partial: takes_parts,
            ..SearchRequest::new(call.dialect)
        };
        match run_search(&call, &Target::of(Vec::new()), request).await {
            Ok(response) => shards = response.render(call.dialect).remove("_shards").unwrap_or(shards),
            Err(error) => {
                call.rest.engine.close_view(&view.id).await?;
                return Err(error);
            }
        }
    }
    let mut uuids = Vec::with_capacity(view.indices.len());
    for index in &view.indices {
        uuids.extend(call.rest.index_facts(index.as_str()).await.map(|known| known.uuid.clone()));
    }
    let now = call.rest.clock.monotonic();
    call.rest.points_in_time.open(&view.id, uuids, keep_alive, now);
    Ok(Answer::ok(if call.dialect.persona.is_opensearch() {
        json!({ "pit_id": view.id, "_shards": shards, "creation_time": view.created_ms })
    } else {
        json!({ "id": view.id, "_shards": shards })
    }))
}

/// `DELETE /_pit`.
#[boxed]
pub(crate) async fn close_pit(mut call: Call) -> Result<Answer> {
    let opensearch = call.dialect.persona.is_opensearch();
    let none = || {
        let reason = "Validation Failed: 1: no pit ids specified;";
        Error::new(ErrorKind::ActionRequestValidation, reason)
    };
    let node = match call.json()? {
        None if opensearch => return Err(none()),
        Some(node) => node,
        None => call.json_needed()?,
    };
    call.params.finish()?;
    let mut fields = node.fields("point_in_time")?;
    let ids: Vec<String> = match fields.take_any(&["id", "pit_id"]) {
        Some(node) => node.items().into_iter().map(|n| n.string("id")).collect::<Result<_>>()?,
        None if opensearch => Vec::new(),
        None => return Err(Error::illegal("[id] is missing")),
    };
    dsl::document::unknown_in_cursor(&mut fields)?;
    if opensearch && ids.is_empty() {
        return Err(none());
    }
    ids.iter().try_for_each(|id| check_view_id(id))?;
    let mut closed = Vec::new();
    for id in ids {
        let freed = call.rest.engine.close_view(&id).await?;
        call.rest.points_in_time.close(&id, call.rest.clock.monotonic());
        closed.push((id, freed));
    }
    if call.dialect.persona.is_opensearch() {
        let pits: Vec<Value> = closed
            .iter()
            .map(|(id, _)| json!({ "pit_id": id, "successful": true }))
            .collect();
        return Ok(Answer::ok(json!({ "pits": pits })));
    }
    let freed = closed.iter().filter(|(_, f)| *f).count();
    Ok(Answer::of(
        if freed > 0 { 200 } else { 404 },
        json!({ "succeeded": true, "num_freed": freed }),
    ))
}

async fn pits(rest: &Rest) -> Result<Vec<engine::View>> {
    let scrolls: Vec<String> = rest.scrolls.lock().keys().cloned().collect();
    Ok(rest
        .engine
        .views()
        .await?
        .into_iter()
        .filter(|v| !scrolls.contains(&v.id))
        .collect())
}

/// `GET /_search/point_in_time/_all`.
#[boxed]
pub(crate) async fn list_pits(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let list: Vec<Value> = pits(&call.rest)
        .await?
        .iter()
        .map(|v| json!({ "pit_id": v.id, "creation_time": v.created_ms, "keep_alive": u64::try_from(v.keep_alive.as_millis()).unwrap_or(u64::MAX) }))
        .collect();
    Ok(Answer::ok(json!({ "pits": list })))
}

/// `DELETE /_search/point_in_time/_all`.
#[boxed]
pub(crate) async fn close_all_pits(call: Call) -> Result<Answer> {
    call.params.finish()?;
    let mut closed = Vec::new();
    for view in pits(&call.rest).await? {
        call.rest.engine.close_view(&view.id).await?;
        call.rest.points_in_time.close(&view.id, call.rest.clock.monotonic());
        closed.push(json!({ "pit_id": view.id, "successful": true }));
    }
    Ok(Answer::ok(json!({ "pits": closed })))
}
