//! `_search`, `_msearch`, `_count`.

use crate::actions::search::{
    failed_to_parse, index_name, many, named_target, query_only, query_without_body, run_body, run_search, terminate_after,
};
use crate::actions::visibility::Visibility;
use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::long_requests::LONG_BODY_BYTES;
use crate::respond::Answer;
use crate::running::Running;
use async_recursion::async_recursion as boxed;
use dsl::interruption;
use dsl::search::{SearchRequest, TrackTotal};
use model::{Error, ErrorKind, Result, Target};
use serde_json::json;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// `GET /i/_search`.
#[boxed]
pub(crate) async fn search(mut call: Call) -> Result<Answer> {
    let target = named_target(&call);
    call.running = Some(Running::begin(&call.rest, call.task_headers(), &call.body, &target));
    let request = body_of(&mut call, &target)?;
    run_body(call, Box::new(request)).await
}

/// The body of a search. In 2015 the shards read it and refused it.
fn body_of(call: &mut Call, target: &Target) -> Result<SearchRequest> {
    let dialect = call.dialect;
    let content = call.content()?;
    if content.iter().all(u8::is_ascii_whitespace) {
        return Ok(SearchRequest::new(dialect));
    }
    // The timeout of the URL is the one that counts. That of a long body is known before it is parsed, wherever it stands.
    let of_long_body = || match content.len() > LONG_BODY_BYTES {
        true => dsl::json::top_level_string(&content, "timeout"),
        false => None,
    };
    let (begun, known) = (
        call.begun,
        call.params.peek("timeout").or_else(of_long_body).map(str::to_owned),
    );
    let is_over = Rc::new(Cell::new(false));
    let over = is_over.clone();
    let cancellation = call.running.as_ref().map(|running| running.cancellation().clone());
    let still_wanted = call.still_wanted();
    let check = move |of_body: Option<&str>| {
        still_wanted()?;
        let timeout = known.as_deref().or(of_body);
        let timeout = timeout.and_then(|text| model::units::parse_duration_or_never(text, "timeout").ok().flatten());
        over.set(timeout.is_some_and(|timeout| begun.elapsed() > timeout));
        match over.get() {
            true => Err(Error::illegal("the timeout of the search is over")),
            false => Ok(()),
        }
    };
    let parsed = interruption::interruptible(check, || SearchRequest::read(&content, call.reading(), dialect));
    if is_over.get() {
        // It found nothing until then; a timeout of the URL is the same.
        let timeout = Some(Duration::from_millis(1));
        return Ok(SearchRequest {
            timeout,
            ..SearchRequest::new(dialect)
        });
    }
    if let Some(error) = cancellation.as_ref().and_then(|one| Running::check(one).err()) {
        return Err(envelope::all_shards_failed(error, index_name(target), dialect));
    }
    match parsed {
        Err(error) if dialect.rules.shards_parse_bodies => Err(es2_errors::at_shards(error, Some(&content), index_name(target))),
        // Wherever they are counted, the refusal is that of the shards.
        Err(error) if error.kind() == ErrorKind::TooManyClauses => {
            Err(envelope::all_shards_failed(error, index_name(target), dialect))
        }
        other => other,
    }
}

/// `_count`.
#[boxed]
pub(crate) async fn count(mut call: Call) -> Result<Answer> {
    let visibility = Visibility::take(&mut call)?;
    let (target, mut request) = count_request(&mut call, "request")?;
    request.view = visibility.before_search(&call, &target).await?;
    let look = visibility.look(&call, &target, Some(&request)).await?;
    request.view = request.view.or_else(|| look.view());
    let counted = run_search(&call, &target, request).await.map(|response| {
        let mut body = json!({ "count": response.hits.total.map_or(0, |t| t.value) });
        if response.terminated_early == Some(true) && !call.dialect.rules.omits_later_members {
            body["terminated_early"] = true.into();
        }
        body["_shards"] = response.render(call.dialect).remove("_shards").unwrap_or_default();
        Answer::ok(body)
    });
    look.over(&call, counted).await
}

/// `_suggest` of 2015: a search for suggestions alone.
#[boxed]
pub(crate) async fn suggest(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let request = SearchRequest {
        suggest: dsl::search::suggest::parse(node)?,
        size: 0,
        types: target.types.clone(),
        ..SearchRequest::new(call.dialect)
    };
    let response = run_search(&call, &target, request).await?;
    let mut out = serde_json::Map::new();
    out.insert(
        "_shards".into(),
        response.render(call.dialect).remove("_shards").unwrap_or_default(),
    );
    if let Some(serde_json::Value::Object(found)) = response.suggest {
        out.extend(found);
    }
    Ok(Answer::ok(serde_json::Value::Object(out)))
}

/// `_search/exists` of 2015.
#[boxed]
pub(crate) async fn exists(mut call: Call) -> Result<Answer> {
    // Shards that failed found nothing.
    let failed = |error: &Error| error.kind() == ErrorKind::SearchPhaseExecution;
    let response = match count_request(&mut call, "request") {
        Ok((target, request)) => run_search(&call, &target, request).await,
        Err(error) => Err(error),
    };
    let exists = match response {
        Ok(response) => response.hits.total.is_some_and(|t| t.value > 0),
        Err(error) if failed(&error) => false,
        Err(error) => return Err(error),
    };
    Ok(Answer::of(if exists { 200 } else { 404 }, json!({ "exists": exists })))
}

/// A request that takes nothing but a query.
fn count_request(call: &mut Call, owner: &str) -> Result<(Target, SearchRequest)> {
    let target = call.target()?;
    let min_score = call.params.take_number::<f32>("min_score")?;
    let terminate_after = terminate_after(call)?;
    let content = call.content()?;
    let from_url = query_without_body(call, content.iter().all(u8::is_ascii_whitespace))?;
    call.params.finish()?;
    let dialect = call.dialect;
    let query = if content.iter().all(u8::is_ascii_whitespace) {
        None
    } else {
        let parsed = dsl::json::read(&content, call.reading()).and_then(|node| query_only(node, dialect, owner));
        match parsed {
            Err(error) if dialect.rules.shards_parse_bodies => {
                return Err(es2_errors::at_shards(error, Some(&content), index_name(&target)));
            }
            parsed => parsed.map_err(|error| failed_to_parse(error, dialect))?,
        }
    };
    let request = SearchRequest {
        query: from_url.or(query),
        size: 0,
        min_score,
        terminate_after,
        track_total_hits: TrackTotal::Exact,
        types: target.types.clone(),
        ..SearchRequest::new(call.dialect)
    };
    Ok((target, request))
}

/// `_msearch`.
#[boxed]
pub(crate) async fn msearch(call: Call) -> Result<Answer> {
    many(call, async |call, content| {
        let still_wanted = call.still_wanted();
        let check = move |_: Option<&str>| still_wanted();
        interruption::interruptible(check, || dsl::document::parse_msearch(content, call.dialect))
    })
    .await
}
