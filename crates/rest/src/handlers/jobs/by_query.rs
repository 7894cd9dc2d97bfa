//! Delete, update and reindex by query: requests to jobs, at once or as a task.
//!
//! Not here: running them (`jobs`), what a batch is (`relations::jobs`).

use crate::actions::by_query::{Api, handle};
use crate::actions::jobs;
use crate::call::Call;
use crate::es2_errors;
use crate::respond::Answer;
use async_recursion::async_recursion as boxed;
use dsl::query::Query;
use model::{Error, ErrorKind, Result};
use relations::jobs::{Job, JobAction, Order};
use serde_json::json;

/// `POST /i/_delete_by_query`.
#[boxed]
pub(crate) async fn delete(call: Call) -> Result<Answer> {
    if call.dialect.rules.lacks_delete_by_query {
        return Err(Error::new(
            ErrorKind::InvalidTypeName,
            "Document mapping type name can't start with '_'",
        ));
    }
    handle(call, Api::Delete).await
}

/// `POST /i/_update_by_query`.
#[boxed]
pub(crate) async fn update(call: Call) -> Result<Answer> {
    handle(call, Api::Update).await
}

/// `POST /_reindex`.
#[boxed]
pub(crate) async fn reindex(call: Call) -> Result<Answer> {
    handle(call, Api::Reindex).await
}

/// `DELETE /i/t/_query` of 2015.
#[boxed]
pub(crate) async fn delete_2015(mut call: Call) -> Result<Answer> {
    let mut request = jobs::replayable_request(&call);
    let target = call.target()?;
    let from_url = crate::actions::search::take_query(&mut call.params)?;
    let routing = call.params.take_2015("routing");
    let content = call.content()?;
    call.params.finish()?;
    let given = !content.iter().all(u8::is_ascii_whitespace);
    let name = call.arg("index").unwrap_or("_all").to_owned();
    let body = if given {
        dsl::json::read(&content, call.reading())
            .and_then(|node| crate::actions::search::query_only(node, call.dialect, "search"))
            .map_err(|error| es2_errors::at_shards(error, Some(&content), &name))?
    } else {
        None
    };
    // A body without a query meant every document.
    let Some(query) = from_url.or(body).or_else(|| given.then(Query::all)) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: source is missing;",
        ));
    };
    let query = match routing {
        Some(routing) => crate::actions::search::with_routing(Some(query), &routing),
        None => query,
    };
    let must_be_there = |e: &str| !e.contains('*') && e != "_all";
    if target.expressions.iter().any(|e| must_be_there(e)) && call.rest.indices(&target).await?.is_empty() {
        return Err(es2_errors::as_expression(crate::missing_index(&name)));
    }
    let job = Job {
        target,
        query,
        action: JobAction::Delete,
        proceed: true,
        max_docs: None,
        batch: 1000,
        refresh: false,
        guards: Vec::new(),
        whole: None,
        free: Vec::new(),
        caller: call.caller.clone(),
    };
    // After a restart it goes on as today's request of the same meaning.
    request["api"] = "delete_by_query".into();
    request["params"]["conflicts"] = "proceed".into();
    let order = Order {
        request,
        key: None,
        keep: false,
    };
    let start = call.rest.clock.wall_ms();
    let row = Api::Delete.row();
    let counts = jobs::run_to_end(&call, job, order, (row.2, "delete by query".to_owned())).await?;
    let mut indices = serde_json::Map::new();
    let entry = |found: u64, deleted: u64| json!({ "found": found, "deleted": deleted, "missing": 0, "failed": found - deleted.min(found) });
    let (found, deleted) = counts.by_index.values().fold((0, 0), |(f, d), (x, y)| (f + x, d + y));
    indices.insert("_all".into(), entry(found, deleted));
    for (index, (found, deleted)) in &counts.by_index {
        indices.insert(index.clone(), entry(*found, *deleted));
    }
    Ok(Answer::ok(
        json!({ "took": call.rest.clock.wall_ms() - start, "timed_out": false, "_indices": indices, "failures": [] }),
    ))
}
