//! Running jobs: each on a thread of its own, as a task, remembered so that a restarted server goes on with it.
//!
//! Not here: reading requests (`by_query`), batches and records (`relations::jobs`).

use crate::Rest;
use crate::actions::by_query::{Api, JobRequest, read};
use crate::actions::writes::with_warnings;
use crate::call::Call;
use crate::envelope;
use crate::path_args::PathArgs;
use crate::query_params::Params;
use crate::respond::Answer;
use engine::tasks::Task;
use model::{Dialect, Error, ErrorKind, Persona, Result, settings};
use relations::jobs::{Begun, Counts, Found, Job, JobStep, Order, Run, TaskState};
use relations::leases::Caller;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How an answer is put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobAnswerForm {
    /// Only a reindex creates.
    pub(crate) creates: bool,
    /// A deletion updates nothing.
    pub(crate) deletes: bool,
    /// In the words of 2015.
    pub(crate) of_2015: bool,
    /// Which slice of what matched it was about, if it said so.
    pub(crate) slice: Option<u32>,
}

/// A request as it is kept, to be read again after a restart.
///
/// A job that goes on after a restart is the server's and would find what is withheld from its user, so it does not go on.
pub(crate) fn replayable_request(call: &Call) -> Value {
    let personas = Persona::NAMES.iter();
    let persona = personas.clone().find(|(_, persona)| *persona == call.dialect.persona);
    let args: Map<String, Value> = call
        .args
        .iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    json!({
        "api": call.params.api(), "path": call.params.path(), "args": args, "params": call.params.remaining(),
        "body": String::from_utf8_lossy(&call.body), "persona": persona.map(|(name, _)| *name), "typed": call.dialect.rules.has_types,
        "caller": call.caller.to_json(), "restricted": call.withholds(),
    })
}

/// The request again, and which it was.
fn call_again(rest: &Arc<Rest>, request: &Value) -> Option<(Call, Api)> {
    let text = |name: &str| request[name].as_str();
    let (api, name) = Api::by_name(text("api")?)?;
    let given: BTreeMap<String, String> = serde_json::from_value(request["params"].clone()).ok()?;
    let mut args = PathArgs::default();
    for (name, value) in request["args"].as_object()? {
        let known = ["index", "type"].into_iter().find(|known| known == name)?;
        args.insert(known, value.as_str()?.to_owned());
    }
    let dialect = Dialect {
        depths: rest.limits.depths,
        ..Dialect::of(text("persona").and_then(Persona::from_name)?)
    }
    .with_types(request["typed"].as_bool()?);
    let call = Call {
        rest: rest.clone(),
        method: hyper::Method::POST,
        args,
        params: Params::again(text("path")?, given, name, dialect.rules.skips_unknown_parameters),
        body: text("body")?.to_owned().into(),
        dialect,
        listener: dialect.persona,
        wants_json: true,
        wanted: crate::call::AnswerForm::Json,
        last_event_id: None,
        caller: Caller::from_json(&request["caller"]),
        trace: None,
        plain: false,
        style: crate::respond::Style::default(),
        booking: std::sync::Mutex::new(rest.limits.breakers.open(engine::breaker::Breaker::Request, "<task>")),
        begun: std::time::Instant::now(),
        client_gone: model::Cancellation::default(),
        running: None,
        home: None,
    };
    Some((call, api))
}

/// Runs a job, and answers when it has ended, or at once with its task.
pub(crate) async fn carry_out(
    call: &Call,
    job: Job,
    order: Order,
    shape: JobAnswerForm,
    of_task: (&str, String),
    wait: bool,
) -> Result<Answer> {
    let rest = &call.rest;
    if let Some(key) = &order.key
        && let Some(number) = rest.relations.task_of(key).await?
    {
        return answer_replay(rest, number, wait).await;
    }
    let keep = order.keep;
    let (task, run) = match begin(call, job, order, of_task).await? {
        Ok(begun) => begun,
        Err(number) => return answer_replay(rest, number, wait).await,
    };
    let id = format!("{}:{}", rest.names.node_id, task.id);
    // A lost connection stops nothing that was begun.
    let running = tokio::spawn(to_end(rest.clone(), run, task, shape, keep));
    if !wait {
        return Ok(Answer::ok(json!({ "task": id })));
    }
    let counts = flatten_join(running.await)?;
    let answer = Answer::of(status(&counts.failures), render(&counts, shape, true));
    Ok(with_warnings(answer, &counts.warnings))
}

/// Runs a job to its end.
pub(crate) async fn run_to_end(call: &Call, job: Job, order: Order, of_task: (&str, String)) -> Result<Counts> {
    let shape = JobAnswerForm {
        creates: false,
        deletes: true,
        of_2015: true,
        slice: None,
    };
    match begin(call, job, order, of_task).await? {
        Ok((task, run)) => flatten_join(tokio::spawn(to_end(call.rest.clone(), run, task, shape, false)).await),
        Err(number) => Err(Error::new(
            ErrorKind::Internal,
            format!("task [{number}] for a request without a key"),
        )),
    }
}

type Running = (Arc<Task>, Box<Run>);

/// Begins a job as a task; the number of another task if its key leads there.
async fn begin(call: &Call, job: Job, order: Order, (action, description): (&str, String)) -> Result<Result<Running, u64>> {
    let rest = &call.rest;
    let most = settings::node(settings::TASKS_MAX_RUNNING);
    let running = rest
        .tasks
        .list()
        .iter()
        .filter(|task| is_job(task) && !task.is_over())
        .count();
    if running as u64 >= most {
        let reason = format!(
            "[{running}] jobs are running already; the limit is the setting [{}]",
            settings::TASKS_MAX_RUNNING.name
        );
        return Err(Error::new(ErrorKind::RejectedExecution, reason));
    }
    let task = call.start_task(action, description);
    let begun = rest.relations.begin(job, &task, &order).await;
    match begun {
        Ok(Begun::Run(run)) => {
            task.progress(Value::Object(run.counts.to_json()));
            return Ok(Ok((task, run)));
        }
        _ => rest.tasks.finish(&task, Ok(Value::Null), false, rest.clock.wall_ms()),
    }
    match begun {
        Ok(Begun::Known(number)) => Ok(Err(number)),
        Ok(Begun::Run(_)) => Err(Error::new(ErrorKind::Internal, "a job was begun twice")),
        Err(e) if is_about_query(&e) => Err(envelope::all_shards_failed(
            e,
            call.arg("index").unwrap_or("_all"),
            call.dialect,
        )),
        Err(e) => Err(e),
    }
}

fn is_job(task: &Task) -> bool {
    task.action.starts_with("indices:data/write/")
}

/// Did a search fail, not the job?
fn is_about_query(error: &Error) -> bool {
    !matches!(
        error.kind(),
        ErrorKind::LockMissing
            | ErrorKind::LockExpired
            | ErrorKind::LockBroken
            | ErrorKind::Security
            | ErrorKind::ContentTooLong
            | ErrorKind::TransactionFailed
            | ErrorKind::IdempotencyKeyReused
            | ErrorKind::UnsupportedOperation
            | ErrorKind::LogFailed
            | ErrorKind::DiskFull
    )
}

/// The answer of a task that a key leads to.
async fn answer_replay(rest: &Arc<Rest>, number: u64, wait: bool) -> Result<Answer> {
    let id = format!("{}:{number}", rest.names.node_id);
    if !wait {
        return Ok(Answer::ok(json!({ "task": id, "replayed": true })));
    }
    loop {
        let Some(task) = rest.tasks.get(number) else {
            let reason = format!("task [{id}] isn't running and hasn't stored its results");
            return Err(Error::new(ErrorKind::ResourceNotFound, reason));
        };
        match task.outcome() {
            None => tokio::time::sleep(Duration::from_millis(10)).await,
            Some(Err(error)) => return Err(error),
            Some(Ok(mut response)) => {
                let failures = response["failures"].as_array().cloned().unwrap_or_default();
                response["replayed"] = true.into();
                return Ok(Answer::of(status(&failures), response));
            }
        }
    }
}

fn flatten_join(done: std::result::Result<Result<Counts>, tokio::task::JoinError>) -> Result<Counts> {
    done.unwrap_or_else(|e| Err(fault(&e)))
}

fn fault(cause: &tokio::task::JoinError) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("the job ended by a fault of the server: {cause}"),
    )
}

/// Runs a job to its end, and writes the end down.
async fn to_end(rest: Arc<Rest>, run: Box<Run>, task: Arc<Task>, shape: JobAnswerForm, keep: bool) -> Result<Counts> {
    let runtime = tokio::runtime::Handle::current();
    let (shared, own) = (rest.clone(), task.clone());
    // Scripts may compute for long: not where requests are served.
    let ran = tokio::task::spawn_blocking(move || {
        let mut run = run;
        let result = runtime.block_on(drive(&shared, &mut run, &own));
        (run, result)
    });
    let (mut recorded, mut makes) = (true, false);
    let done = match ran.await {
        Err(e) => Err(fault(&e)),
        Ok((mut run, result)) => {
            for failure in &mut run.counts.failures {
                let dialect = Dialect::default().with_types(shape.of_2015);
                envelope::with_uuids(&rest, &mut failure["cause"], dialect).await;
            }
            recorded = run.is_recorded();
            makes = shape.creates;
            task.progress(Value::Object(run.counts.to_json()));
            result.map(|()| run.counts)
        }
    };
    if makes {
        // It may have made an index that was known to be missing.
        rest.forget_known();
    }
    if rest.tasks.is_stopping() && done.is_err() {
        return done;
    }
    let outcome = done.as_ref().map(|counts| render(counts, shape, false)).map_err(Clone::clone);
    if recorded && !done.as_ref().is_err_and(goes_on_later) {
        // If this cannot be written now, the next start finds the job and ends it.
        let _ = rest.relations.end_job(&task, keep, &outcome).await;
    }
    rest.tasks.finish(&task, outcome, keep, rest.clock.wall_ms());
    done
}

/// The server could not; the job can.
fn goes_on_later(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::LogFailed | ErrorKind::Internal)
}

async fn drive(rest: &Rest, run: &mut Run, task: &Task) -> Result<()> {
    const TRIES: u32 = 200;
    let mut refused = 0;
    let result = loop {
        if rest.tasks.is_stopping() {
            let reason = "the server is stopping; a task that was begun goes on after its restart";
            break Err(Error::new(ErrorKind::Internal, reason).status_of(503));
        }
        match rest.relations.step(run, task).await {
            Ok(step) => {
                refused = 0;
                task.progress(Value::Object(run.counts.to_json()));
                if step == JobStep::Ended {
                    break Ok(());
                }
            }
            // The store is full of what is not yet in segments, or memory of what others ask for: they go first.
            Err(e) if matches!(e.kind(), ErrorKind::RejectedExecution | ErrorKind::CircuitBreaking) && refused < TRIES => {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(u64::from(refused.min(20)) * 10)).await;
            }
            Err(e) => break Err(e),
        }
    };
    let closed = rest.relations.close(run).await;
    result.and(closed)
}

/// The highest status among the failures.
fn status(failures: &[Value]) -> u16 {
    let statuses = failures.iter().filter_map(|failure| failure["status"].as_u64());
    statuses.max().and_then(|status| u16::try_from(status).ok()).unwrap_or(200)
}

/// The answer of a job. Warnings stand in a header where there is one.
fn render(counts: &Counts, shape: JobAnswerForm, has_header: bool) -> Value {
    let mut out = Map::new();
    out.insert("took".into(), counts.took_ms.into());
    out.insert("timed_out".into(), false.into());
    if let (Some(slice), false) = (shape.slice, shape.of_2015) {
        out.insert("slice_id".into(), slice.into());
    }
    let mut body = counts.to_json();
    if shape.deletes {
        body.remove("updated");
    }
    if !shape.creates {
        body.remove("created");
    }
    out.extend(body);
    if shape.of_2015 {
        out.remove("deleted");
        out.insert("retries".into(), 0.into());
        out.insert("requests_per_second".into(), "unlimited".into());
    }
    if let Some(commit_seq) = counts.commit_seq {
        out.insert("atomic".into(), true.into());
        out.insert("commit_seq".into(), commit_seq.into());
    }
    if counts.cancelled {
        out.insert("canceled".into(), "by user request".into());
    }
    if !has_header && !counts.warnings.is_empty() {
        out.insert("warnings".into(), json!(counts.warnings));
    }
    out.insert("failures".into(), Value::Array(counts.failures.clone()));
    Value::Object(out)
}

/// A task that a restarted server goes on with.
#[derive(Debug)]
pub(crate) struct UnfinishedTask {
    task: Arc<Task>,
    request: Value,
    keep: bool,
    kept: Box<relations::jobs::Kept>,
}

/// Puts the tasks of an earlier process into the registry; those that have not ended are answered.
pub(crate) fn restore_tasks(rest: &Rest, found: Vec<Found>) -> Vec<UnfinishedTask> {
    let mut left = Vec::new();
    for found in found {
        let task = rest
            .tasks
            .restore(found.number, &found.action, found.description, found.start_ms);
        match found.state {
            TaskState::Unfinished { request, keep, kept } => left.push(UnfinishedTask {
                task,
                request,
                keep,
                kept,
            }),
            TaskState::Ended {
                ended_ms,
                status,
                outcome,
            } => {
                task.progress(status);
                rest.tasks.finish(&task, outcome, true, ended_ms);
            }
        }
    }
    left
}

/// Goes on with what an earlier process left.
pub(crate) fn go_on(rest: &Arc<Rest>, left: Vec<UnfinishedTask>) {
    for left in left {
        let rest = rest.clone();
        tokio::spawn(async move {
            let task = left.task.clone();
            let keep = left.keep;
            if let Err(error) = resume(&rest, left).await {
                let later = goes_on_later(&error);
                let outcome = Err(error);
                if !later {
                    // If this cannot be written now, the next start finds the job and ends it.
                    let _ = rest.relations.end_job(&task, keep, &outcome).await;
                }
                rest.tasks.finish(&task, outcome, keep, rest.clock.wall_ms());
            }
        });
    }
}

async fn resume(rest: &Arc<Rest>, left: UnfinishedTask) -> Result<()> {
    if left.request["restricted"] == true {
        let reason = "the server was restarted: the job of a user from whom documents or fields are withheld does not go on";
        return Err(Error::new(ErrorKind::Security, reason));
    }
    let Some((mut call, api)) = call_again(rest, &left.request) else {
        let reason = format!("the request of task [{}] cannot be read", left.task.id);
        return Err(Error::new(ErrorKind::Corruption, reason));
    };
    let JobRequest { job, slice, .. } = read(&mut call, api, Some(&left.request)).await?;
    let run = rest.relations.resume(job, &left.task, &left.kept).await?;
    let shape = JobAnswerForm {
        creates: api == Api::Reindex,
        deletes: api == Api::Delete && !call.dialect.rules.deletions_count_updates,
        of_2015: call.dialect.rules.former_job_answers,
        slice,
    };
    // It finishes the task itself, whatever comes of it.
    let _ = to_end(rest.clone(), Box::new(run), left.task, shape, left.keep).await;
    Ok(())
}
