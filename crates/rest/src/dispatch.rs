//! From a request to an answer: its parameters, its dialect, the row of the table of endpoints, the handler.
//!
//! Not here: reading and sending (`exchange`), paths that no row has (`no_route`).

use crate::actions::locks::{is_about_locks, write_ends};
use crate::authorize::{audit, authorize};
use crate::blocking::{beside_requests, is_carried_through};
use crate::body::{Request, check_encoding, check_media_type, inflate, inflated_bytes};
use crate::call::{AnswerForm, Call};
use crate::handlers::es2::{apis, cat};
use crate::handlers::transactions::transaction_session;
use crate::no_route::no_route;
use crate::path_args::PathArgs;
use crate::query_params::{Params, split_list};
use crate::respond::{Answer, Body, Style};
use crate::routes::{Matched, find};
use crate::{Rest, dialect, envelope, first_type};
use bytes::Bytes;
use engine::breaker::Breaker;
use futures::FutureExt as _;
use model::{Cancellation, Dialect, Error, Result};
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// From a request to an answer. Every refusal is already an envelope.
pub(crate) async fn dispatch(rest: &Arc<Rest>, request: &mut Request) -> (Answer, Style) {
    let mut style = Style::default();
    let mut dialect = Dialect::of(request.persona);
    let routed = route(rest, request, &mut style, &mut dialect).await;
    if let (Some(security), Some(principal)) = (&rest.security, &request.principal) {
        audit(rest, security, request, principal, routed.as_ref().err());
    }
    match routed {
        Ok(mut answer) => {
            if let (Body::Json(body), true) = (&mut answer.body, answer.status >= 400)
                && let Some(error) = body.get_mut("error")
            {
                envelope::with_uuids(rest, error, dialect).await;
            }
            (answer, style)
        }
        Err(error) => {
            rest.metrics.count_error(error.kind());
            // A refusal is told whole.
            style.filter_path.clear();
            let mut body = envelope::render(&error, dialect);
            envelope::with_uuids(rest, &mut body["error"], dialect).await;
            if style.trace {
                body["error"]["stack_trace"] = envelope::trace(&error).into();
            }
            (Answer::of(envelope::status(&error, dialect), body), style)
        }
    }
}

/// Takes the parameters that say how the answer is written.
fn take_style(style: &mut Style, request: &Request, params: &mut Params, dialect: Dialect) -> Result<()> {
    style.pretty = if dialect.rules.reads_boolean_words {
        params.take("pretty").is_some_and(|v| v != "false")
    } else {
        params.flag("pretty")?
    };
    style.filter_path = params.take_list("filter_path").unwrap_or_default();
    style.human = params.flag("human")?;
    style.trace = params.flag("error_trace")?;
    let accepts_yaml = request.accept.as_deref().is_some_and(|a| a.contains("application/yaml"));
    // In 2015 an answer was of the type that the request said it was of.
    let sent_yaml = dialect.rules.answers_in_request_format
        && request
            .content_type
            .as_deref()
            .is_some_and(|t| t.starts_with("application/yaml"));
    style.yaml = params.peek("format") == Some("yaml") || accepts_yaml || sent_yaml;
    Ok(())
}

/// Takes the format of an answer that is no table.
fn take_format(params: &mut Params, dialect: Dialect) -> Result<()> {
    match params.take("format").as_deref() {
        None | Some("json" | "yaml") => Ok(()),
        Some(_) if dialect.rules.tolerates_unknown_words => Ok(()),
        Some(other) => Err(Error::illegal(format!("format [{other}] is not supported: use json or yaml"))),
    }
}

/// The index and the features of a request of [`feature_of_index`], which no row of the table of endpoints has.
fn index_feature(request: &Request, dialect: Dialect) -> Option<(&str, &str)> {
    let (index, feature) = request.path.trim_matches('/').split_once('/')?;
    let is_one = !feature.contains('/') && !index.starts_with('_');
    (dialect.rules.has_index_features && request.method == "GET" && is_one).then_some((index, feature))
}

/// `GET /i/_settings,_mappings` and the like, which only Elasticsearch 2 has.
async fn feature_of_index(
    rest: &Arc<Rest>,
    request: &Request,
    style: &Style,
    mut params: Params,
    dialect: Dialect,
    (index, feature): (&str, &str),
) -> Result<Answer> {
    let mut args = PathArgs::default();
    args.insert("index", crate::query_params::decode(index, false)?);
    let feature = crate::query_params::decode(feature, false)?;
    params.set_lenient(true);
    params.set_api("indices.get");
    let rest = &authorize(rest, request, ("indices.get", crate::right::VIEW_METADATA), &args, &params).await?;
    let call = call_of(rest, request, style, args, params, dialect);
    apis::feature(call, &feature).boxed().await
}

async fn route(rest: &Arc<Rest>, request: &mut Request, style: &mut Style, dialect: &mut Dialect) -> Result<Answer> {
    let mut params = Params::parse(&request.path, &request.query)?;
    take_style(style, request, &mut params, *dialect)?;
    check_encoding(request)?;
    check_media_type(request)?;
    if request.gzipped {
        // A short one may be a thousand times as long inside.
        let most = rest.limits.body_max_bytes;
        if let Some(home) = &request.home {
            home.prolong(inflated_bytes(&request.body)).await;
        }
        request.body = beside_requests(|| inflate(&request.body, most, &mut request.booking))?;
    }
    if dialect.rules.checks_escapes {
        crate::query_params::check_escapes(&request.path)?;
    }
    if dialect.rules.former_cat_tables
        && let Some(path) = request.path.strip_prefix("/_cat")
        && request.method == "GET"
    {
        request.api = Some("cat.indices");
        let none = PathArgs::default();
        let rest = &authorize(rest, request, ("cat.indices", crate::right::SEE_INDICES), &none, &params).await?;
        return cat_of_2015(rest, request, style, params, path).boxed().await;
    }
    let (endpoint, args) = match find(request.method.as_str(), &request.path, dialect.persona) {
        Matched::Found(endpoint, args) => (endpoint, args),
        other => match index_feature(request, *dialect) {
            Some(named) => return feature_of_index(rest, request, style, params, *dialect, named).await,
            None => return Ok(no_route(request, other, *dialect)),
        },
    };
    params.set_api(endpoint.api);
    request.api = Some(endpoint.api);
    let acting = match rest.security.is_some() {
        true => authorize(rest, request, (endpoint.api, endpoint.right), &args, &params).await?,
        false => rest.clone(),
    };
    let rest = &acting;
    *dialect = dialect::choose(rest, request, &args).await;
    dialect.clauses_max = dialect::clauses_max(rest, request.body.len()).await;
    let mut has_flag = |name: &'static str| Result::Ok(params.is_given(name) && params.has_row(name) && params.flag(name)?);
    dialect.total_as_int = has_flag("rest_total_hits_as_int")?;
    dialect.typed_keys = has_flag("typed_keys")?;
    params.set_lenient(dialect.rules.skips_unknown_parameters);
    transaction_session::check_api(endpoint.api, &params)?;
    if !request.path.starts_with("/_cat") {
        take_format(&mut params, *dialect)?;
    }
    if let (Some(index), Some(doc_type), true) = (args.get("index"), args.get("type"), dialect.rules.has_types)
        && matches!(endpoint.api, "index" | "create" | "update")
        && first_type::applies(request.persona)
    {
        first_type::adopt(rest, index, doc_type).boxed().await?;
    }
    let locks: Vec<String> = params.peek("lock").map(split_list).unwrap_or_default();
    let bytes = request.body.len();
    let call = call_of(rest, request, style, args, params, *dialect);
    // The call alone holds the body: to free a long one takes milliseconds, and its handler runs beside short requests.
    request.body = Bytes::new();
    let client_gone = call.client_gone.clone();
    let carried = is_carried_through(endpoint.api);
    let answered = (endpoint.handler)(call);
    let answer = rest.long_requests.run(bytes, carried, &client_gone, answered).await;
    settle_locks(rest, locks, answer.as_ref().err()).await?;
    answer
}

/// Where locks of a request are over, that is written down before its answer leaves.
async fn settle_locks(rest: &Arc<Rest>, mut locks: Vec<String>, error: Option<&Error>) -> Result<()> {
    let refusal = error.filter(|error| is_about_locks(error.kind()));
    if let Some(error) = refusal {
        locks.extend(error.details().get("lock").and_then(Value::as_str).map(str::to_owned));
    }
    // Parts of an answer may be refused as well.
    if refusal.is_some() || !rest.relations.are_alive(&locks) {
        write_ends(rest, &locks).await?;
    }
    Ok(())
}

fn call_of(rest: &Arc<Rest>, request: &Request, style: &Style, args: PathArgs, params: Params, dialect: Dialect) -> Call {
    let accepts = |part: &str| request.accept.as_deref().is_some_and(|a| a.contains(part));
    let json = ["application/json", "application/vnd.elasticsearch+json", "application/yaml"];
    Call {
        rest: rest.clone(),
        method: request.method.clone(),
        args,
        params,
        body: request.body.clone(),
        dialect,
        listener: request.persona,
        plain: style.is_plain(),
        style: style.clone(),
        wants_json: json.into_iter().any(accepts),
        wanted: AnswerForm::of(request.accept.as_deref()),
        last_event_id: request.last_event_id.clone(),
        caller: request.caller.clone(),
        trace: request.trace.clone(),
        booking: Mutex::new(rest.limits.breakers.open(Breaker::Request, "<http_request>")),
        begun: request.begun.unwrap_or_else(Instant::now),
        client_gone: Cancellation::default(),
        running: None,
        home: request.home.clone(),
    }
}

/// `_cat` of 2015 has tables of its own.
async fn cat_of_2015(rest: &Arc<Rest>, request: &Request, style: &Style, mut params: Params, path: &str) -> Result<Answer> {
    let mut parts = path.trim_matches('/').split('/');
    let (name, rest_of_path) = (parts.next().unwrap_or_default(), parts.next());
    if name.is_empty() {
        return Ok(cat::help());
    }
    let argument = match name {
        "aliases" => "name",
        "allocation" => "node_id",
        "fielddata" => "fields",
        _ => "index",
    };
    let mut args = PathArgs::default();
    if let Some(value) = rest_of_path {
        args.insert(argument, crate::query_params::decode(value, false)?);
    }
    params.set_lenient(true);
    params.set_api("cat.indices");
    let call = call_of(rest, request, style, args, params, Dialect::of(request.persona));
    cat::table(call, name).await
}
