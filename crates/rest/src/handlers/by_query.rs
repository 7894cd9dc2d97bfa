//! Delete, update and reindex by query, at once or as a task.

use super::writes::compile;
use crate::Rest;
use crate::call::Call;
use crate::envelope;
use crate::params::Params;
use crate::respond::Answer;
use crate::words_2015;
use dsl::document::{ByQueryBody, ReindexBody};
use dsl::query::Query;
use engine::tasks::Task;
use model::{Error, ErrorKind, Result, Target};
use relations::jobs::{Action, Counts, Job};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What the URL says about a job.
struct Options {
    proceed: bool,
    refresh: bool,
    wait: bool,
    max_docs: Option<u64>,
    batch: usize,
}

fn options(params: &mut Params) -> Result<Options> {
    let conflicts = params.take("conflicts");
    let proceed = match conflicts.as_deref() {
        None | Some("abort") => false,
        Some("proceed") => true,
        Some(other) => {
            return Err(Error::illegal(format!(
                "conflicts may only be \"proceed\" or \"abort\" but was [{other}]"
            )));
        }
    };
    let size: Option<u64> = params.take_number("size")?;
    Ok(Options {
        proceed,
        refresh: params.flag("refresh")?,
        wait: params.take_bool("wait_for_completion")?.unwrap_or(true),
        max_docs: params.take_number("max_docs")?.or(size),
        batch: params.take_number::<usize>("scroll_size")?.unwrap_or(1000).clamp(1, 10_000),
    })
}

/// `POST /i/_delete_by_query`.
pub(crate) async fn delete(mut call: Call) -> Result<Answer> {
    if call.dialect.typed && call.dialect.persona == model::Persona::Es2 {
        return Err(Error::new(
            ErrorKind::InvalidTypeName,
            "Document mapping type name can't start with '_'",
        ));
    }
    let target = call.target()?;
    let options = options(&mut call.params)?;
    let from_url = super::search::take_query(&mut call.params)?;
    let content = call.json()?;
    call.params.finish()?;
    let body = content
        .map(|n| ByQueryBody::parse(n, call.dialect))
        .transpose()?
        .unwrap_or_default();
    let Some(query) = from_url.or(body.query) else {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: query is missing;",
        ));
    };
    let query = super::search::sliced(Some(query), body.slice).unwrap_or_else(Query::all);
    let job = job(target, query, Action::Delete, &options, body.proceed, body.max_docs);
    finish(
        call,
        job,
        options.wait,
        "indices:data/write/delete/byquery",
        "delete-by-query",
    )
    .await
}

/// `POST /i/_update_by_query`.
pub(crate) async fn update(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let options = options(&mut call.params)?;
    let from_url = super::search::take_query(&mut call.params)?;
    if let Some(pipeline) = call.params.take("pipeline") {
        return Err(Error::illegal(format!(
            "pipeline [{pipeline}]: ingest pipelines are not supported yet"
        )));
    }
    let content = call.json()?;
    call.params.finish()?;
    let body = content
        .map(|n| ByQueryBody::parse(n, call.dialect))
        .transpose()?
        .unwrap_or_default();
    let script = match &body.script {
        Some(source) => Some(compile(&call.rest, source).await?),
        None => None,
    };
    let query = super::search::sliced(from_url.or(body.query), body.slice).unwrap_or_else(Query::all);
    let job = job(
        target,
        query,
        Action::Update { script },
        &options,
        body.proceed,
        body.max_docs,
    );
    finish(
        call,
        job,
        options.wait,
        "indices:data/write/update/byquery",
        "update-by-query",
    )
    .await
}

/// `POST /_reindex`.
pub(crate) async fn reindex(mut call: Call) -> Result<Answer> {
    let options = options(&mut call.params)?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let body = ReindexBody::parse(node, call.dialect)?;
    if body.remote.is_some() {
        return Err(Error::illegal("[reindex] from a remote host is not supported yet"));
    }
    if body.dest.pipeline.is_some() {
        return Err(Error::illegal("[reindex] ingest pipelines are not supported yet"));
    }
    let script = match &body.script {
        Some(source) => Some(compile(&call.rest, source).await?),
        None => None,
    };
    if body.source_indices.contains(&body.dest.index) {
        let reason = format!(
            "Validation Failed: 1: reindex cannot write into an index its reading from [{}];",
            body.dest.index
        );
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    let mut target = Target::of(body.source_indices.clone());
    target.types = body.source_types.clone();
    let typed = match call.rest.known(&body.dest.index).await {
        Some(known) => known.typed,
        None => {
            let typed = call.rest.indices(&target).await?.iter().any(|i| i.typed);
            let dialect = model::Dialect { typed, ..call.dialect };
            call.rest
                .auto_create(&model::IndexName::new(body.dest.index.as_str()), dialect)
                .await?;
            typed
        }
    };
    let action = Action::Reindex {
        index: body.dest.index.clone(),
        create: body.dest.create,
        external: matches!(
            body.dest.version_type.as_deref(),
            Some("external" | "external_gt" | "external_gte")
        ),
        script,
        routing: body.dest.routing.clone(),
        typed,
    };
    let query = super::search::sliced(body.search.query.clone(), body.search.slice).unwrap_or_else(Query::all);
    let job = job(target, query, action, &options, body.proceed, body.max_docs);
    finish(call, job, options.wait, "indices:data/write/reindex", "reindex").await
}

fn job(target: Target, query: Query, action: Action, options: &Options, proceed: bool, max_docs: Option<usize>) -> Job {
    Job {
        target,
        query,
        action,
        proceed: options.proceed || proceed,
        max_docs: options.max_docs.or(max_docs.and_then(|n| u64::try_from(n).ok())),
        batch: options.batch,
        refresh: options.refresh,
        requests_per_second: None,
    }
}

/// Runs a job on a thread of its own: scripts may compute for long, and requests are to be answered meanwhile.
async fn run(rest: Arc<Rest>, job: Job, task: Arc<Task>) -> Result<Counts> {
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(rest.relations.run(job, task)));
    done.await.unwrap_or_else(|e| {
        Err(Error::new(
            ErrorKind::Internal,
            format!("the job ended by a fault of the server: {e}"),
        ))
    })
}

async fn finish(call: Call, job: Job, wait: bool, action: &str, name: &str) -> Result<Answer> {
    let rest = call.rest.clone();
    let description = format!("{name} [{}]", job.target.expressions.join(", "));
    let task = rest.tasks.start(action, description, rest.clock.wall_ms());
    let created = (
        matches!(job.action, Action::Reindex { .. }),
        matches!(job.action, Action::Delete) && !call.dialect.typed,
    );
    let of_2015 = crate::answers_of_2015(call.dialect);
    if wait {
        let done = run(rest.clone(), job, task.clone()).await;
        rest.tasks.finish(&task, Ok(Value::Null), false, rest.clock.wall_ms());
        let counts = done.map_err(|e| envelope::all_shards_failed(e, call.arg("index").unwrap_or("_all"), call.dialect))?;
        let status = if counts.failures.is_empty() { 200 } else { 409 };
        return Ok(Answer::of(status, render(&counts, created, of_2015)));
    }
    let id = format!("{}:{}", rest.names.node_id, task.id);
    // Scripts run for long: not where connections are served.
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        let done = runtime.block_on(run(rest.clone(), job, task.clone()));
        let outcome = done.map(|counts| render(&counts, created, of_2015));
        rest.tasks.finish(&task, outcome, true, rest.clock.wall_ms());
    });
    Ok(Answer::ok(json!({ "task": id })))
}

/// What a job came to: only a reindex creates, and a deletion updates nothing.
fn render(counts: &Counts, (created, deletes): (bool, bool), of_2015: bool) -> Value {
    let mut out = Map::new();
    out.insert("took".into(), counts.took_ms.into());
    out.insert("timed_out".into(), false.into());
    let mut body = counts.to_json();
    if deletes {
        body.remove("updated");
    }
    if !created {
        body.remove("created");
    }
    out.extend(body);
    if of_2015 {
        out.insert("retries".into(), 0.into());
        out.insert("requests_per_second".into(), "unlimited".into());
    }
    if counts.cancelled {
        out.insert("canceled".into(), "by user request".into());
    }
    out.insert("failures".into(), Value::Array(counts.failures.clone()));
    Value::Object(out)
}

/// `DELETE /i/t/_query` of 2015.
pub(crate) async fn delete_2015(mut call: Call) -> Result<Answer> {
    let target = call.target()?;
    let from_url = super::search::take_query(&mut call.params)?;
    let content = call.content();
    call.params.finish()?;
    let given = !content.iter().all(u8::is_ascii_whitespace);
    let name = call.arg("index").unwrap_or("_all").to_owned();
    let body = if given {
        dsl::json::read(&content, call.reading())
            .and_then(|node| super::search::query_only(node, call.dialect, "search"))
            .map_err(|error| words_2015::at_shards(error, Some(&content), &name))?
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
    let must_be_there = |e: &str| !e.contains('*') && e != "_all";
    if target.expressions.iter().any(|e| must_be_there(e)) && call.rest.indices(&target).await?.is_empty() {
        return Err(words_2015::as_expression(crate::missing_index(&name)));
    }
    let rest = call.rest.clone();
    let options = Options {
        proceed: true,
        refresh: false,
        wait: true,
        max_docs: None,
        batch: 1000,
    };
    let job = job(target, query, Action::Delete, &options, true, None);
    let task = rest.tasks.start(
        "indices:data/write/delete/byquery",
        "delete by query".into(),
        rest.clock.wall_ms(),
    );
    let start = rest.clock.wall_ms();
    let done = run(rest.clone(), job, task.clone()).await;
    rest.tasks.finish(&task, Ok(Value::Null), false, rest.clock.wall_ms());
    let counts = done.map_err(|e| envelope::all_shards_failed(e, call.arg("index").unwrap_or("_all"), call.dialect))?;
    let mut indices = Map::new();
    let entry = |found: u64, deleted: u64| json!({ "found": found, "deleted": deleted, "missing": 0, "failed": found - deleted.min(found) });
    let (found, deleted) = counts.by_index.values().fold((0, 0), |(f, d), (x, y)| (f + x, d + y));
    indices.insert("_all".into(), entry(found, deleted));
    for (index, (found, deleted)) in &counts.by_index {
        indices.insert(index.clone(), entry(*found, *deleted));
    }
    Ok(Answer::ok(
        json!({ "took": rest.clock.wall_ms() - start, "timed_out": false, "_indices": indices, "failures": [] }),
    ))
}
