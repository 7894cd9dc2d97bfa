//! The request of a by-query job, read from its URL and body.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::jobs;
use crate::actions::jobs::JobAnswerForm;
use crate::actions::transaction::TransactionLimits;
use crate::actions::writes::compile;
use crate::call::Call;
use crate::query_params::Params;
use crate::respond::Answer;
use dsl::document::{ByQueryBody, ReindexBody};
use dsl::query::script_source::{ScriptSource, ScriptText};
use dsl::query::{BoolQuery, BoostMode, Clause, FunctionScoreQuery, Query, ScoreMode, TermQuery};
use dsl::search::{SearchRequest, Sort, SourceSpec};
use engine::{Inspected, Inspection};
use model::path::SourceFilter;
use model::{Error, ErrorKind, Result, Target};
use relations::jobs::{Job, JobAction, Order};
use relations::transactions::Digest;
use relations::transactions::interactive::ByQuery;
use script::{Params as ScriptParams, Program};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Delete,
    Update,
    Reindex,
}

impl Api {
    /// Each with its name in `ENDPOINTS`, the action of its task, and its word in descriptions.
    const ALL: [(Api, &'static str, &'static str, &'static str); 3] = [
        (
            Api::Delete,
            "delete_by_query",
            "indices:data/write/delete/byquery",
            "delete-by-query",
        ),
        (
            Api::Update,
            "update_by_query",
            "indices:data/write/update/byquery",
            "update-by-query",
        ),
        (Api::Reindex, "reindex", "indices:data/write/reindex", "reindex"),
    ];
    /// By its name in `ENDPOINTS`.
    pub(crate) fn by_name(name: &str) -> Option<(Api, &'static str)> {
        let row = Api::ALL.iter().find(|row| row.1 == name)?;
        Some((row.0, row.1))
    }
    pub(crate) fn row(self) -> &'static (Api, &'static str, &'static str, &'static str) {
        // Each is in the table: a lookup by the first column finds it.
        Api::ALL.iter().find(|row| row.0 == self).unwrap_or(&Api::ALL[0])
    }
}

const _: () = {
    let mut at = 0;
    while at < Api::ALL.len() {
        assert!(
            Api::ALL[at].0 as usize == at,
            "each request has a row, or the first one would stand for it"
        );
        at += 1;
    }
};

/// The most documents of a batch.
pub(crate) const BATCH_MAX: usize = 10_000;

/// The options of a job in its URL.
pub(crate) struct JobOptions {
    pub(crate) wait: bool,
    key: Option<String>,
    proceed: bool,
    refresh: bool,
    max_docs: Option<u64>,
    batch: usize,
    atomic: bool,
    locks: Vec<String>,
}

/// Checks a pace, which has no effect: a word that is none is refused.
pub(crate) fn check_slices(params: &Params) -> Result<()> {
    if let Some(given) = params.peek("slices").filter(|given| *given != "auto")
        && !given.parse::<u32>().is_ok_and(|slices| slices > 0)
    {
        return Err(Error::illegal(format!(
            "[slices] must be a positive integer or the string \"auto\", but was [{given}]"
        )));
    }
    if let Some(given) = params.peek("requests_per_second")
        && !given.parse::<f32>().is_ok_and(|pace| pace > 0.0 || pace == -1.0)
    {
        return Err(Error::illegal(
            "[requests_per_second] must be a float greater than 0. Use -1 to disable throttling.",
        ));
    }
    if params.peek("scroll_size") == Some("0") {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: [size] cannot be [0] in a scroll context;",
        ));
    }
    if params.peek("max_docs") == Some("0") {
        return Err(Error::illegal("[max_docs] should be >= [slices]"));
    }
    Ok(())
}

pub(crate) fn options(call: &mut Call) -> Result<JobOptions> {
    let locks = call.take_locks()?;
    let params: &mut Params = &mut call.params;
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
    check_slices(params)?;
    Ok(JobOptions {
        proceed,
        refresh: params.flag("refresh")?,
        wait: params.take_bool("wait_for_completion")?.unwrap_or(true),
        max_docs: params.take_number("max_docs")?.or(size),
        batch: params
            .take_number::<usize>("scroll_size")?
            .unwrap_or(1000)
            .clamp(1, BATCH_MAX),
        atomic: params.flag("atomic")?,
        key: params.take("idempotency_key"),
        locks,
    })
}

/// A request read: the job, and what the request says besides.
pub(crate) struct JobRequest {
    pub(crate) job: Job,
    pub(crate) options: JobOptions,
    /// The text of a stored script as it was.
    script: Option<ScriptSource>,
    /// The documents that a sort chose.
    chosen: Option<Value>,
    /// The slice that a request was about.
    pub(crate) slice: Option<u32>,
}

pub(crate) async fn handle(mut call: Call, api: Api) -> Result<Answer> {
    let transaction = match api {
        Api::Delete | Api::Update => call.params.take("transaction"),
        Api::Reindex => None,
    };
    let mut request = jobs::replayable_request(&call);
    let digest = Digest::of(&[call.params.path().as_bytes(), &call.body]);
    let JobRequest {
        job,
        options,
        script,
        chosen,
        slice,
    } = read(&mut call, api, None).await?;
    if let Some(chosen) = chosen {
        if transaction.is_some() {
            let reason = "[sort] with [max_docs] has no place in a transaction: what it chooses is read outside of it";
            return Err(Error::illegal(reason));
        }
        request["chosen"] = chosen;
    }
    if let Some(id) = transaction {
        if options.key.is_some() || options.atomic || !options.locks.is_empty() {
            let reason = "[idempotency_key], [atomic] and [lock] of a job have no place in a transaction: it has them itself";
            return Err(Error::illegal(reason));
        }
        let what = match job.action {
            JobAction::Update { source: Some(_), .. } => {
                let reason = "[_source] of a job has no place in a transaction: let a script remove what is to go";
                return Err(Error::illegal(reason));
            }
            JobAction::Update { script, source: None } => ByQuery::Update(script),
            _ => ByQuery::Delete,
        };
        return crate::actions::transaction_stage::by_query(
            &call,
            id,
            (job.target, job.query),
            what,
            (job.max_docs, options.wait),
        )
        .await;
    }
    if let Some(script) = script {
        request["script"] = json!({ "source": text_of(&script), "lang": script.lang });
    }
    let key = call.key(options.key.as_deref(), || digest)?;
    let row = api.row();
    let description = format!("{} [{}]", row.3, job.target.expressions.join(", "));
    let shape = JobAnswerForm {
        creates: api == Api::Reindex,
        deletes: api == Api::Delete && !call.dialect.rules.deletions_count_updates,
        of_2015: call.dialect.rules.former_job_answers,
        slice,
    };
    let order = Order {
        request,
        keep: !options.wait || key.is_some(),
        key,
    };
    jobs::carry_out(&call, job, order, shape, (row.2, description), options.wait).await
}

/// Reads a request; `saved` is the request as it is kept, if it was read before.
pub(crate) async fn read(call: &mut Call, api: Api, saved: Option<&Value>) -> Result<JobRequest> {
    match api {
        Api::Delete | Api::Update => by_query(call, api, saved).await,
        Api::Reindex => copying(call, saved).await,
    }
}

pub(crate) async fn by_query(call: &mut Call, api: Api, saved: Option<&Value>) -> Result<JobRequest> {
    let target = call.target()?;
    let sized = call.params.is_given("scroll_size");
    let options = options(call)?;
    let from_url = crate::actions::search::take_query(&mut call.params)?;
    if api == Api::Update
        && let Some(pipeline) = call.params.take("pipeline")
    {
        return Err(Error::illegal(format!(
            "pipeline [{pipeline}]: ingest pipelines are not supported yet"
        )));
    }
    let content = call.json()?;
    let mut body = content
        .map(|n| ByQueryBody::parse(n, call.dialect))
        .transpose()?
        .unwrap_or_default();
    search_of_url(call, api, &mut body)?;
    call.params.finish()?;
    check_search(&body, api)?;
    let mut options = options;
    options.batch = match body.batch {
        // A size in the URL goes first.
        Some(batch) if !sized => batch.clamp(1, BATCH_MAX),
        _ => options.batch,
    };
    let query = from_url.or(body.search.query.take());
    if api == Api::Delete && query.is_none() {
        return Err(Error::new(
            ErrorKind::ActionRequestValidation,
            "Validation Failed: 1: query is missing;",
        ));
    }
    let script = with_text(call, body.script, saved.and_then(|kept| kept.get("script"))).await?;
    let action = match api {
        Api::Update => JobAction::Update {
            script: compile_script(call, script.as_ref()).await?,
            source: match body.search.source.clone() {
                SourceSpec::Filtered { includes, excludes } => Some(SourceFilter { includes, excludes }),
                _ => None,
            },
        },
        _ => JobAction::Delete,
    };
    let slice = body.search.slice.as_ref().map(|slice| slice.id);
    let query = crate::actions::search::with_slice(query, body.search.slice.take()).unwrap_or_else(Query::all);
    let query = with_bounds(query, body.search.post_filter.take(), body.search.min_score);
    if let Some(ends) = u64::try_from(body.search.terminate_after).ok().filter(|ends| *ends > 0) {
        let asked = options.max_docs.or(body.max_docs.and_then(|most| u64::try_from(most).ok()));
        options.max_docs = Some(asked.map_or(ends, |most| most.min(ends)));
    }
    let mut job = job(call, target, query, action, &options, body.proceed, body.max_docs).await?;
    let chosen = choose(call, &mut job, body.search.sort, saved).await?;
    Ok(JobRequest {
        job,
        options,
        script,
        chosen,
        slice,
    })
}

/// The parameters of a search in the URL, which go before those of the body.
pub(crate) fn search_of_url(call: &mut Call, api: Api, body: &mut ByQueryBody) -> Result<()> {
    if api == Api::Update {
        let source = crate::actions::read::source_params(call)?;
        if source != SourceSpec::Default {
            body.search.source = source;
        }
    }
    body.has_from |= call.params.is_given("from");
    if let Some(from) = call.params.take_number::<usize>("from")? {
        body.search.from = from;
    }
    if let Some(sort) = call.params.take("sort") {
        body.search.sort = Sort::parse_url(&sort);
    }
    if let Some(most) = call.params.take_number::<i64>("terminate_after")? {
        body.search.terminate_after = usize::try_from(most).map_err(|_| Error::illegal("terminateAfter must be > 0"))?;
    }
    call.params.check_bool("version")
}

/// Options of a search that a job refuses.
pub(crate) fn check_search(body: &ByQueryBody, api: Api) -> Result<()> {
    let search = &body.search;
    let mut problems = Vec::new();
    if search.from > 0 {
        problems.push("using [from] is not allowed in a scroll context");
    }
    if body.has_from {
        problems.push("from is not supported in this context");
    }
    if search.stored_fields.is_some() {
        problems.push("stored_fields is not supported in this context");
    }
    if search.collects_nothing {
        problems.push("terminate_after must be > 0");
    }
    if !problems.is_empty() {
        let listed: Vec<String> = problems
            .iter()
            .zip(1..)
            .map(|(problem, n)| format!("{n}: {problem};"))
            .collect();
        let reason = format!("Validation Failed: {}", listed.concat());
        return Err(Error::new(ErrorKind::ActionRequestValidation, reason));
    }
    if search.search_after.is_some() {
        return Err(Error::illegal("`search_after` cannot be used in a scroll context."));
    }
    // A deletion reads no sources, and Java's client says so.
    if api != Api::Delete && search.source == SourceSpec::None {
        return Err(Error::illegal("[_source] is false, and a job writes sources: leave it out"));
    }
    Ok(())
}

/// A query with the other bounds that a search can have.
pub(crate) fn with_bounds(query: Query, post_filter: Option<Query>, min_score: Option<f32>) -> Query {
    let query = match min_score {
        None => query,
        Some(_) => Clause::FunctionScore(FunctionScoreQuery {
            query: Box::new(query),
            functions: Vec::new(),
            score_mode: ScoreMode::Multiply,
            boost_mode: BoostMode::Multiply,
            max_boost: None,
            min_score,
        })
        .into(),
    };
    match post_filter {
        None => query,
        Some(filter) => Clause::Bool(BoolQuery {
            must: vec![query],
            filter: vec![filter],
            ..BoolQuery::default()
        })
        .into(),
    }
}

/// With `max_docs` a sort decides which documents a job is about: the first ones, chosen once. Without it all are, and
/// their order changes nothing.
pub(crate) async fn choose(call: &Call, job: &mut Job, sort: Vec<Sort>, saved: Option<&Value>) -> Result<Option<Value>> {
    let chosen = match (saved.and_then(|kept| kept.get("chosen")), job.max_docs) {
        (Some(chosen), _) => chosen.clone(),
        (None, Some(max)) if !sort.is_empty() => {
            let request = SearchRequest {
                query: Some(job.query.clone()),
                sort,
                size: usize::try_from(max).unwrap_or(usize::MAX),
                source: SourceSpec::None,
                allow_partial: false,
                types: job.target.types.clone(),
                ..SearchRequest::new(call.dialect)
            };
            let found = crate::actions::search::run_search(call, &job.target, request).await?;
            assert!(
                found.hits.hits.len() as u64 <= max,
                "no more documents are chosen than [max_docs] says"
            );
            let one = |hit: dsl::search::Hit| json!([hit.index.as_str(), hit.id.doc_type.as_deref(), &*hit.id.id]);
            Value::Array(found.hits.hits.into_iter().map(one).collect())
        }
        _ => return Ok(None),
    };
    let mut by_place: BTreeMap<(String, Option<String>), Vec<String>> = BTreeMap::new();
    for one in chosen.as_array().into_iter().flatten() {
        let text = |at: usize| one[at].as_str().map(str::to_owned);
        if let (Some(index), Some(id)) = (text(0), text(2)) {
            by_place.entry((index, text(1))).or_default().push(id);
        }
    }
    let of_place = |((index, doc_type), values): ((String, Option<String>), Vec<String>)| -> Query {
        let index = Clause::Term(TermQuery {
            field: "_index".into(),
            value: index.into(),
            case_insensitive: false,
        });
        let ids = Clause::Ids {
            values,
            types: doc_type.into_iter().collect(),
        };
        Clause::Bool(BoolQuery {
            filter: vec![index.into(), ids.into()],
            ..BoolQuery::default()
        })
        .into()
    };
    let places: Vec<Query> = by_place.into_iter().map(of_place).collect();
    let any = if places.is_empty() {
        Clause::MatchNone.into()
    } else {
        Clause::Bool(BoolQuery {
            should: places,
            ..BoolQuery::default()
        })
        .into()
    };
    let all = std::mem::replace(&mut job.query, Query::all());
    job.query = Clause::Bool(BoolQuery {
        filter: vec![all, any],
        ..BoolQuery::default()
    })
    .into();
    Ok(Some(chosen))
}

fn reads_from_destination(index: &str) -> Error {
    let reason = format!("Validation Failed: 1: reindex cannot write into an index its reading from [{index}];");
    Error::new(ErrorKind::ActionRequestValidation, reason)
}

/// Makes the index that a reindex writes to, if it is missing. Tells whether it has types.
///
/// # Errors
/// The source leads to it, be it by a pattern or an alias.
async fn destination(call: &Call, index: &str, source: &Target) -> Result<bool> {
    if let Some(known) = call.rest.index_facts(index).await {
        let infos = call.rest.indices(source).await?;
        if infos.iter().any(|info| info.name.as_str() == index) {
            return Err(reads_from_destination(index));
        }
        return Ok(known.typed);
    }
    let typed = call.rest.indices(source).await?.iter().any(|i| i.typed);
    let dialect = call.dialect.with_types(typed);
    call.rest.auto_create(&model::IndexName::new(index), dialect).await?;
    Ok(typed)
}

pub(crate) async fn copying(call: &mut Call, saved: Option<&Value>) -> Result<JobRequest> {
    let mut options = options(call)?;
    let node = call.json_needed()?;
    call.params.finish()?;
    let body = ReindexBody::parse(node, call.dialect)?;
    if let Some(batch) = body.batch {
        options.batch = batch.clamp(1, BATCH_MAX);
    }
    if body.remote.is_some() {
        return Err(Error::illegal("[reindex] from a remote host is not supported yet"));
    }
    if body.dest.pipeline.is_some() {
        return Err(Error::illegal("[reindex] ingest pipelines are not supported yet"));
    }
    let script = with_text(call, body.script, saved.and_then(|kept| kept.get("script"))).await?;
    if body.source_indices.contains(&body.dest.index) {
        return Err(reads_from_destination(&body.dest.index));
    }
    if relations::schema::is_system(&body.dest.index) {
        return Err(relations::schema::forbidden(&body.dest.index));
    }
    let mut target = Target::of(body.source_indices.clone());
    target.types = body.source_types.clone();
    let typed = destination(call, &body.dest.index, &target).await?;
    let external = match body.dest.version_type.as_deref() {
        Some("external" | "external_gt") => Some(false),
        Some("external_gte") => Some(true),
        _ => None,
    };
    if options.atomic && external.is_some() {
        return Err(Error::illegal(
            "external versions are not supported inside a change: reindex without [atomic], or without [version_type]",
        ));
    }
    let source = match body.search.source.clone() {
        SourceSpec::Filtered { includes, excludes } => Some(SourceFilter { includes, excludes }),
        _ => None,
    };
    let action = JobAction::Reindex {
        index: body.dest.index.clone(),
        create: body.dest.create,
        external,
        script: compile_script(call, script.as_ref()).await?,
        routing: body.dest.routing.clone(),
        typed,
        source,
        makes: TransactionLimits::of(call).await?.auto_create,
    };
    let slice = body.search.slice.as_ref().map(|slice| slice.id);
    let query = crate::actions::search::with_slice(body.search.query.clone(), body.search.slice).unwrap_or_else(Query::all);
    let mut job = job(call, target, query, action, &options, body.proceed, body.max_docs).await?;
    let chosen = choose(call, &mut job, body.search.sort, saved).await?;
    Ok(JobRequest {
        job,
        options,
        script,
        chosen,
        slice,
    })
}

pub(crate) async fn job(
    call: &Call,
    target: Target,
    query: Query,
    action: JobAction,
    options: &JobOptions,
    proceed: bool,
    max_docs: Option<usize>,
) -> Result<Job> {
    let limits = TransactionLimits::of(call).await?;
    limits.check_bytes(call.body.len())?;
    let proceed = options.proceed || proceed;
    if max_docs == Some(0) && !call.dialect.rules.tolerates_value_bounds {
        return Err(Error::illegal("[max_docs] should be >= [slices]"));
    }
    if options.atomic && proceed {
        return Err(Error::illegal(
            "[conflicts=proceed] makes no sense with [atomic=true]: a change is made whole or not at all",
        ));
    }
    Ok(Job {
        target,
        query,
        action,
        proceed,
        max_docs: options.max_docs.or(max_docs.and_then(|n| u64::try_from(n).ok())),
        batch: options.batch,
        refresh: options.refresh,
        guards: options.locks.clone(),
        whole: options.atomic.then(|| limits.whole()),
        free: Vec::new(),
        caller: call.caller.clone(),
    })
}

/// A script with its text in it: a stored one may be another by the time that the job goes on.
pub(crate) async fn with_text(call: &Call, script: Option<ScriptSource>, saved: Option<&Value>) -> Result<Option<ScriptSource>> {
    let Some(mut script) = script else { return Ok(None) };
    let kept = match (&script.text, saved) {
        (ScriptText::Inline(_), _) => return Ok(Some(script)),
        (ScriptText::Stored(_), Some(saved)) => Some(saved.clone()),
        (ScriptText::Stored(id), None) => match call.rest.engine.inspect(Inspection::Script(id.clone())).await? {
            Inspected::Script(found) => found,
            _ => None,
        },
    };
    if let Some(kept) = kept {
        let text = |name: &str| kept.get(name).and_then(Value::as_str).map(str::to_owned);
        script.lang = text("lang").or(script.lang);
        script.text = ScriptText::Inline(text("source").unwrap_or_default());
    }
    Ok(Some(script))
}

pub(crate) async fn compile_script(call: &Call, script: Option<&ScriptSource>) -> Result<Option<(Program, ScriptParams)>> {
    match script {
        Some(script) => compile(&call.rest, script).await.map(Some),
        None => Ok(None),
    }
}

pub(crate) fn text_of(script: &ScriptSource) -> Value {
    match &script.text {
        ScriptText::Inline(text) => text.as_str().into(),
        ScriptText::Stored(_) => Value::Null,
    }
}
