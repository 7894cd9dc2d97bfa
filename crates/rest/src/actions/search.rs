//! One search: parameters, body, target, and its run.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::read::source_params;
use crate::actions::scroll;
use crate::actions::visibility::Visibility;
use crate::answer_room::AnswerRoom;
use crate::call::Call;
use crate::envelope;
use crate::es2_errors;
use crate::query_params::{Params, split_list};
use crate::respond::Answer;
use crate::running::Running;
use dsl::query::{BoolQuery, Clause, Operator, Query, QueryStringQuery};
use dsl::search::{
    FieldAndFormat, SearchRequest, SearchResponse, Sort, SourceSpec, SuggestMode, Suggester, Suggestion, TermSuggester,
    TrackTotal,
};
use model::{Dialect, Error, ErrorKind, Result, Target};
use serde_json::{Map, Value, json};

/// The name of the index in errors of a body.
pub(crate) fn named_target(call: &Call) -> Target {
    Target::of(call.arg("index").map(split_list).unwrap_or_default())
}

/// A search with a body that has been read, and the parameters of its URL.
pub(crate) async fn run_body(mut call: Call, mut request: Box<SearchRequest>) -> Result<Answer> {
    if request.fingerprint != 0 && !call.params.remaining().is_empty() {
        request.distinguish(call.params.remaining());
    }
    let scroll = call.params.take_duration("scroll")?;
    if scroll.is_some() && !call.dialect.rules.tolerates_conflicting_options && call.params.peek("request_cache") == Some("true")
    {
        return Err(invalid("[request_cache] cannot be used in a scroll context"));
    }
    let search_type = call.params.take("search_type");
    let visibility = Visibility::take(&mut call)?;
    let target = call.target()?;
    let source = source_params(&mut call)?;
    if request.pit.is_some() {
        refuse_beside_pit(&call, &target, scroll.is_some())?;
    }
    if request.slice.is_some() && scroll.is_none() && request.pit.is_none() {
        return Err(invalid("`slice` cannot be used outside of a scroll context or PIT context"));
    }
    for (name, least, shown) in [
        ("batched_reduce_size", 2, "batchedReduceSize"),
        ("pre_filter_shard_size", 1, "preFilterShardSize"),
    ] {
        if let Some(given) = call.params.peek(name).and_then(|text| text.parse::<i64>().ok())
            && given < least
            && !call.dialect.rules.tolerates_value_bounds
        {
            return Err(Error::illegal(format!("{shown} must be >= {least}")));
        }
    }
    url_into(&mut call.params, &mut request, call.dialect)?;
    no_shards_asked(&mut call, &mut request)?;
    if source != SourceSpec::Default {
        request.source = source;
    }
    call.params.finish()?;
    if visibility.transaction.is_some() && (scroll.is_some() || request.pit.is_some()) {
        let reason = "a transaction reads one moment by itself: [transaction] has no place beside a scroll or a point in time";
        return Err(Error::illegal(reason));
    }
    if request.pit.is_none() {
        check_shard_doc(&call, &request, &target)?;
    }
    request.view = visibility.before_search(&call, &target).await?;
    apply_search_type(search_type.as_deref(), &mut request, scroll.is_some())?;
    request.types = target.types.clone();
    if let Some(keep_alive) = scroll {
        // Its own moment is opened while the look lasts.
        let look = visibility.look(&call, &target, None).await?;
        let scan = search_type.as_deref() == Some("scan");
        // Boxed: every request has room for the largest future of its handler.
        let answer = Box::pin(scroll::start(&call, target, *request, keep_alive, scan)).await;
        return look.over(&call, answer).await;
    }
    let look = visibility.look(&call, &target, Some(&request)).await?;
    request.view = request.view.or_else(|| look.view());
    let answer = run(&call, &target, request).await;
    look.over(&call, answer).await
}

/// Only Elasticsearch sorts by `_shard_doc`.
pub(crate) fn check_shard_doc(call: &Call, request: &SearchRequest, target: &Target) -> Result<()> {
    let asked = request.sort.iter().any(|sort| sort.by == dsl::search::SortBy::ShardDoc);
    if !asked || !call.dialect.persona.is_opensearch() {
        return Ok(());
    }
    let cause = Error::new(ErrorKind::QueryShard, "No mapping found for [_shard_doc] in order to sort on");
    Err(envelope::all_shards_failed(cause, index_name(target), call.dialect))
}

pub(crate) fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::ActionRequestValidation, format!("Validation Failed: 1: {what};"))
}

/// A point in time says itself which indices are meant.
pub(crate) fn refuse_beside_pit(call: &Call, target: &Target, scroll: bool) -> Result<()> {
    if scroll {
        return Err(invalid("using [point in time] is not allowed in a scroll context"));
    }
    for name in ["routing", "preference"] {
        if call.params.peek(name).is_some() {
            return Err(invalid(&format!("[{name}] cannot be used with point in time")));
        }
    }
    if target.ignore_unavailable && !call.dialect.rules.views_take_index_options {
        return Err(invalid("[indicesOptions] cannot be used with point in time"));
    }
    Ok(())
}

/// A body that was made, not sent.
pub(crate) fn body_from(call: &Call, content: &[u8]) -> Result<SearchRequest> {
    let dialect = call.dialect;
    let parsed = SearchRequest::read(content, call.reading(), dialect);
    match parsed {
        Err(error) if dialect.rules.shards_parse_bodies => {
            Err(es2_errors::at_shards(error, Some(content), index_name(&named_target(call))))
        }
        other => other,
    }
}

/// Does a target name the index that an error is about?
pub(crate) fn names(target: &Target, error: &Error) -> bool {
    let index = error.details().get("index").and_then(Value::as_str).unwrap_or_default();
    target.expressions.iter().any(|named| named == index || named.contains('*'))
}

/// The name of a target's index in errors.
pub(crate) fn index_name(target: &Target) -> &str {
    target.expressions.first().map_or("_all", String::as_str)
}

/// Shards chosen by `preference` or an empty `routing` of 2015 may be none.
pub(crate) fn no_shards_asked(call: &mut Call, request: &mut SearchRequest) -> Result<()> {
    if !call.dialect.rules.searches_chosen_shards {
        return Ok(());
    }
    let preference = call.params.take_2015("preference");
    let routing = call.params.take_2015("routing");
    let none = match preference.as_deref() {
        Some(p) => match p.strip_prefix("_shards:") {
            // All documents are in the first of the shards that we report.
            Some(list) => !list.split([',', ';']).any(|n| n == "0"),
            None if p.starts_with('_') && !PREFERENCES.iter().any(|known| p.starts_with(known)) => {
                return Err(Error::illegal(format!("no Preference for [{p}]")));
            }
            None => false,
        },
        None => false,
    };
    match routing.as_deref() {
        Some("") => request.query = Some(Clause::MatchNone.into()),
        Some(routing) => request.query = Some(with_routing(request.query.take(), routing)),
        None => {}
    }
    if none {
        request.query = Some(Clause::MatchNone.into());
    }
    Ok(())
}

/// A query, or everything, in the shards that a list of routings leads to.
pub(crate) fn with_routing(query: Option<Query>, routing: &str) -> Query {
    let routings = routing.split(',').map(str::to_owned).collect();
    let within = BoolQuery {
        must: vec![query.unwrap_or_else(Query::all)],
        filter: vec![Clause::Routed { routings }.into()],
        ..BoolQuery::default()
    };
    Clause::Bool(within).into()
}

/// Copies that a search may prefer; there is one.
pub(crate) const PREFERENCES: &[&str] = &[
    "_local",
    "_primary",
    "_primary_first",
    "_replica",
    "_replica_first",
    "_only_local",
    "_only_node",
    "_only_nodes",
    "_prefer_node",
    "_prefer_nodes",
];

/// `count` and `scan` are of 2015; the others choose how statistics are gathered, which is one way here.
pub(crate) fn apply_search_type(search_type: Option<&str>, request: &mut SearchRequest, scroll: bool) -> Result<()> {
    match search_type {
        None | Some("query_then_fetch" | "dfs_query_then_fetch") => Ok(()),
        Some(other @ ("query_and_fetch" | "dfs_query_and_fetch")) if request.dialect.rules.has_former_search_types => {
            Err(Error::illegal(format!("Unsupported search type [{other}]")))
        }
        Some("count") if request.dialect.rules.has_former_search_types => {
            request.size = 0;
            Ok(())
        }
        Some("scan") if request.dialect.rules.has_former_search_types && scroll => Ok(()),
        Some(other) => Err(Error::illegal(format!("No search type for [{other}]"))),
    }
}

/// Runs one search and renders it.
pub(crate) async fn run(call: &Call, target: &Target, mut request: Box<SearchRequest>) -> Result<Answer> {
    let pit = request.pit.take();
    let mut target = target.clone();
    if let Some(pit) = &pit {
        if call.arg("index").is_some() {
            return Err(invalid(if call.dialect.persona.is_opensearch() {
                "[indices] cannot be used with point in time"
            } else {
                "[indices] cannot be used with point in time. Do not specify any index with point in time."
            }));
        }
        scroll::check_view_id(&pit.id)?;
        if let Some(keep_alive) = pit.keep_alive {
            let renewed = call.rest.engine.renew_view(&pit.id, keep_alive).await;
            renewed.map_err(|e| scroll::unless_missing(e, &pit.id))?;
        }
        let now = call.rest.clock.monotonic();
        call.rest.points_in_time.touch(&pit.id, pit.keep_alive, now);
        request.view = Some(pit.id.clone());
        check_shard_doc(call, &request, &target)?;
        target = Target::of(Vec::new());
        if !request.sort.is_empty()
            && !request.sort.iter().any(|s| s.by == dsl::search::SortBy::ShardDoc)
            && !call.dialect.persona.is_opensearch()
        {
            request.sort.push(Sort {
                by: dsl::search::SortBy::ShardDoc,
                ascending: true,
            });
        }
    }
    let dialect = request.dialect;
    let warnings = match dialect.persona {
        model::Persona::Es7 => deprecations(&request),
        _ => Vec::new(),
    };
    let response = run_search(call, &target, *request).await?;
    call.admit_response(&response).await?;
    let warned = |answer: Answer| warnings.iter().fold(answer, |answer, text| answer.warning(dialect, text));
    if call.plain {
        let before: Vec<(&str, &str)> = pit.iter().map(|pit| ("pit_id", pit.id.as_str())).collect();
        return Ok(warned(Answer::raw(response.text(dialect, &before))));
    }
    let mut out = response.render(dialect);
    if let Some(pit) = pit {
        let mut with = Map::new();
        with.insert("pit_id".into(), pit.id.into());
        with.extend(out);
        out = with;
    }
    Ok(warned(Answer::ok(Value::Object(out))))
}

/// The deprecation warnings of Elasticsearch 7 for a search.
pub(crate) fn deprecations(request: &SearchRequest) -> Vec<String> {
    let mut out = Vec::new();
    let default = |field: &FieldAndFormat| field.format.as_deref() == Some("use_field_mapping");
    if request.docvalue_fields.iter().any(default) {
        out.push(
            "[use_field_mapping] is a special format that was only used to ease the transition to 7.x. \
             It has become the default and shouldn't be set explicitly anymore."
                .to_owned(),
        );
    }
    let mut todo: Vec<&dsl::aggs::Agg> = request.aggs.iter().collect();
    while let Some(agg) = todo.pop() {
        todo.extend(&agg.subs);
        let replaced = agg.kind.orders().iter().filter_map(|order| order.replaced);
        out.extend(replaced.map(|word| format!("Deprecated aggregation order key [{word}] used, replaced by [_key]")));
    }
    out.dedup();
    out
}

/// One search; what fails at the shards is wrapped as Elasticsearch wraps it.
pub(crate) async fn run_search(call: &Call, target: &Target, mut request: SearchRequest) -> Result<SearchResponse> {
    request.query = with_slice(request.query, request.slice.take());
    without_kept_queries(call, target, &mut request).await;
    let partial = request.allow_partial;
    let start = call.rest.clock.monotonic();
    // The task of the request, or one for this search alone.
    let own = call
        .running
        .is_none()
        .then(|| Running::begin(&call.rest, call.task_headers(), &call.body, target));
    if let Some(running) = own.as_ref().or(call.running.as_ref()) {
        running.tie(&mut request, call.begun);
    }
    let mut late = SearchResponse::late(&request);
    let found = call.rest.relations.search(target, request).await;
    drop(own);
    let mut response = match found {
        // Joins and lookups took all the time, or the search never looked at its clock.
        Err(error) if error.kind() == ErrorKind::SearchTimeout => {
            let infos = call.rest.indices(target).await?;
            let shards = crate::render::indices::shards_of(&infos, false)["successful"].as_u64();
            late.shards = shards.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
            late
        }
        found => found.map_err(|e| match e.kind() {
            ErrorKind::SearchContextMissing => scroll::missing_context(e),
            ErrorKind::IndexNotFound if call.dialect.rules.lookups_fail_at_shards && !names(target, &e) => {
                es2_errors::lookup_failed(e)
            }
            _ => envelope::all_shards_failed(e, index_name(target), call.dialect),
        })?,
    };
    if response.timed_out && !partial {
        let error = Error::new(ErrorKind::QueryPhaseExecution, "Time exceeded").status_of(503);
        return Err(envelope::all_shards_failed(error, index_name(target), call.dialect));
    }
    // Every begun millisecond counts, so no search takes 0.
    let took = call.rest.clock.monotonic() - start;
    response.took_ms = u64::try_from(took.as_nanos().div_ceil(1_000_000)).unwrap_or(0);
    crate::slow_log::search(call, target, &response, took).await;
    Ok(response)
}

/// Queries that are kept for percolation are found by who names their type.
pub(crate) async fn without_kept_queries(call: &Call, target: &Target, request: &mut SearchRequest) {
    let named = !request.types.is_empty() || !target.types.is_empty();
    if named || !call.dialect.rules.has_percolator_type || request.view.is_some() {
        return;
    }
    let mut any = false;
    let all = ["_all".to_owned()];
    let names = if target.expressions.is_empty() {
        &all[..]
    } else {
        &target.expressions[..]
    };
    for name in names {
        any |= call.rest.index_facts(name).await.is_some_and(|known| known.percolates);
    }
    if !any {
        return;
    }
    let kept = json!({ "term": { "_type": relations::percolation::TYPE } });
    let kept = Query::parse(dsl::json::Node::from_value(kept), &mut dsl::query::Parsing::new(call.dialect));
    let Ok(kept) = kept else { return };
    let within = BoolQuery {
        must: vec![request.query.take().unwrap_or_else(Query::all)],
        must_not: vec![kept],
        ..BoolQuery::default()
    };
    request.query = Some(Clause::Bool(within).into());
}

/// A query, or everything, within one part of the documents.
pub(crate) fn with_slice(query: Option<Query>, slice: Option<dsl::search::Slice>) -> Option<Query> {
    let Some(slice) = slice else { return query };
    let within = BoolQuery {
        must: vec![query.unwrap_or_else(Query::all)],
        filter: vec![Clause::Slice(slice).into()],
        ..BoolQuery::default()
    };
    Some(Clause::Bool(within).into())
}

/// Takes which hits are shown.
fn take_page(params: &mut Params, request: &mut SearchRequest, dialect: Dialect) -> Result<()> {
    for (name, slot, default) in [("from", &mut request.from, 0), ("size", &mut request.size, 10)] {
        let Some(given) = params.take_number::<i64>(name)? else {
            continue;
        };
        *slot = match usize::try_from(given) {
            Ok(number) => number,
            Err(_) if dialect.rules.tolerates_value_bounds => default,
            Err(_) => {
                let reason = format!("[{name}] parameter cannot be negative, found [{given}]");
                return Err(Error::illegal(reason));
            }
        };
    }
    Ok(())
}

/// Parameters of the URL over those of the body.
pub(crate) fn url_into(params: &mut Params, request: &mut SearchRequest, dialect: Dialect) -> Result<()> {
    let queried = params.peek("q").map(str::to_owned);
    if let Some(query) = take_query(params)? {
        request.query = Some(query);
    }
    take_page(params, request, dialect)?;
    if let Some(sort) = params.take("sort") {
        request.sort = Sort::parse_url(&sort);
    }
    // The second names are of 2015.
    if let Some(fields) = params.take("stored_fields").or(params.take_2015("fields")) {
        request.stored_fields = Some(split_list(&fields));
    }
    if let Some(fields) = params.take("docvalue_fields").or(params.take_2015("fielddata_fields")) {
        request.docvalue_fields = split_list(&fields)
            .into_iter()
            .map(|field| FieldAndFormat {
                field,
                format: None,
                include_unmapped: false,
            })
            .collect();
    }
    if let Some(text) = params.take("track_total_hits") {
        request.track_total_hits = TrackTotal::parse_text(&text).map_err(|e| match e.kind() {
            ErrorKind::NumberFormat => crate::query_params::no_number("int", "track_total_hits", &text),
            _ => e,
        })?;
    }
    for (name, slot) in [
        ("track_scores", &mut request.track_scores),
        ("version", &mut request.version),
        ("explain", &mut request.explain),
        ("include_named_queries_score", &mut request.named_scores),
        ("allow_partial_search_results", &mut request.allow_partial),
    ] {
        if let Some(value) = params.take_bool(name)? {
            *slot = value;
        }
    }
    if let Some(value) = params.take_bool("seq_no_primary_term")? {
        request.seq_no_primary_term = value;
    }
    if params.peek("timeout") == Some("-1") {
        params.take("timeout");
        request.timeout = None;
    } else if let Some(timeout) = params.take_duration("timeout")? {
        request.timeout = Some(timeout);
    }
    if let Some(n) = params.take_number::<i64>("terminate_after")? {
        request.terminate_after = usize::try_from(n).map_err(|_| Error::illegal("terminateAfter must be > 0"))?;
    }
    count_hits_exactly(request, dialect)?;
    if let Some(name) = params.take("search_pipeline").filter(|name| name != "_none") {
        return Err(Error::illegal(format!(
            "Pipeline {name} is not defined: search pipelines are not supported yet"
        )));
    }
    if let Some(field) = params.take("suggest_field") {
        request.suggest.push(suggestion_of_url(params, field, queried)?);
    }
    Ok(())
}

/// Counts all hits where the answer or the dialect wants a number.
///
/// # Errors
/// The answer is to have a number, and the request limits the count.
fn count_hits_exactly(request: &mut SearchRequest, dialect: Dialect) -> Result<()> {
    if request.dialect.total_as_int {
        if let TrackTotal::UpTo(n) = request.track_total_hits
            && n != 10_000
        {
            return Err(Error::illegal(format!(
                "[rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got {n}"
            )));
        }
        if request.track_total_hits != TrackTotal::No {
            request.track_total_hits = TrackTotal::Exact;
        }
    }
    if dialect.rules.counts_all_hits {
        request.track_total_hits = TrackTotal::Exact;
    }
    Ok(())
}

/// The term suggestion for `suggest_field`, with `q` for its text where none is given.
fn suggestion_of_url(params: &mut Params, field: String, queried: Option<String>) -> Result<Suggestion> {
    let (text, mode) = (params.take("suggest_text"), params.take("suggest_mode"));
    let size = params.take_number::<usize>("suggest_size")?;
    let mut term = TermSuggester::new(field.as_str());
    term.size = size.unwrap_or(term.size).max(1);
    if let Some(mode) = mode {
        term.mode = SuggestMode::parse(&mode)?;
    }
    Ok(Suggestion {
        text: text
            .or(queried)
            .ok_or_else(|| Error::illegal("The required text option is missing"))?,
        name: field,
        by: Suggester::Term(term),
    })
}

/// `q=` with its options.
pub(crate) fn take_query(params: &mut Params) -> Result<Option<Query>> {
    if params.peek("q").is_none() && !params.is_lenient() {
        // Without a query nobody asks for what goes with it.
        return Ok(None);
    }
    let df = params.take("df");
    let analyzer = params.take("analyzer");
    let lenient = params.take_bool("lenient")?;
    let analyze_wildcard = params.take_bool("analyze_wildcard")?;
    let lowercase = params
        .take_2015("lowercase_expanded_terms")
        .map(|v| !matches!(v.as_str(), "false" | "0" | "no" | "off"));
    let operator = match params.take("default_operator").as_deref() {
        None | Some("OR") => Operator::Or,
        Some("AND") => Operator::And,
        Some("or") if !params.is_lenient() => Operator::Or,
        Some("and") if !params.is_lenient() => Operator::And,
        // In 2015 nobody looked at it where there was no query.
        Some(_) if params.is_lenient() && params.peek("q").is_none() => Operator::Or,
        Some(other) => {
            return Err(Error::illegal(format!(
                "Unsupported defaultOperator [{other}], can either be [OR] or [AND]"
            )));
        }
    };
    let Some(text) = params.take("q") else { return Ok(None) };
    let mut query = QueryStringQuery::new(text);
    query.fields = df.into_iter().map(|f| (f, 1.0)).collect();
    query.analyzer = analyzer;
    query.lenient = lenient;
    query.analyze_wildcard = analyze_wildcard.unwrap_or(false);
    query.default_operator = operator;
    query.lowercase_expanded = lowercase.unwrap_or(params.is_lenient());
    query.split_on_whitespace = params.is_lenient();
    Ok(Some(Clause::QueryString(query).into()))
}

/// `q=` where a body would win: beside one there is no such parameter.
pub(crate) fn query_without_body(call: &mut Call, no_body: bool) -> Result<Option<Query>> {
    if no_body || call.dialect.rules.takes_query_beside_body {
        take_query(&mut call.params)
    } else {
        Ok(None)
    }
}

/// `terminate_after=` of the URL.
pub(crate) fn terminate_after(call: &mut Call) -> Result<usize> {
    if call.dialect.rules.tolerates_value_bounds {
        return Ok(call.params.take_number("terminate_after")?.unwrap_or(0));
    }
    let given: i32 = call.params.take_number("terminate_after")?.unwrap_or(0);
    usize::try_from(given).map_err(|_| Error::illegal("terminateAfter must be > 0"))
}

/// Keys that could stand beside a query in Elasticsearch 2, without effect where only the query counts.
pub(crate) const SOURCE_OF_2015: &[&str] = &[
    "query_binary",
    "queryBinary",
    "min_score",
    "minScore",
    "timeout",
    "terminate_after",
    "from",
    "size",
    "sort",
    "fields",
    "_source",
    "aggs",
    "aggregations",
    "highlight",
    "post_filter",
    "filter",
    "explain",
    "version",
    "track_scores",
    "stats",
    "script_fields",
];

/// What a body that is a query and nothing else is refused for today: whatever was no fault of its grammar could not be
/// parsed as one.
pub(crate) fn failed_to_parse(error: Error, dialect: Dialect) -> Error {
    if dialect.rules.refusals_are_unwrapped || error.kind() == ErrorKind::Parsing {
        return error;
    }
    Error::parsing("Failed to parse", 1, 1).with_cause(error)
}

/// A body with `query` and nothing else.
pub(crate) fn query_only(node: dsl::json::Node, dialect: Dialect, owner: &str) -> Result<Option<Query>> {
    if !node.is_object() && !dialect.rules.tolerates_value_types {
        let found = node.kind_name();
        return Err(node.error(format!("Expected [START_OBJECT] but found [{found}]")));
    }
    let mut fields = node.fields(owner)?;
    let query = fields.take("query");
    if let Some((name, value)) = fields.next_field() {
        if !dialect.rules.skips_unknown_keys {
            return Err(value.error(format!("request does not support [{name}]")));
        }
        if !SOURCE_OF_2015.contains(&name.as_str()) {
            let reason = format!("failed to parse search source. unknown search element [{name}]");
            return Err(Error::new(ErrorKind::SearchParse, reason));
        }
    }
    query
        .map(|q| Query::parse(q, &mut dsl::query::Parsing::new(dialect)))
        .transpose()
}

/// One search of an `_msearch`.
pub(crate) async fn one_of_many(
    call: &Call,
    base: &Target,
    search_type: Option<&str>,
    visibility: &Visibility,
    view: Option<&str>,
    item: dsl::document::MsearchItem,
) -> Result<Answer> {
    let mut target = base.clone();
    if !item.indices.is_empty() {
        target.expressions = item.indices;
    }
    if let Some(v) = item.ignore_unavailable {
        target.ignore_unavailable = v;
    }
    if let Some(v) = item.allow_no_indices {
        target.allow_no_indices = v;
    }
    if !item.types.is_empty() {
        target.types = item.types;
    }
    let mut request = item.request;
    if view.is_some() && request.pit.is_some() {
        let reason = "a transaction reads one moment by itself: [transaction] has no place beside a point in time";
        return Err(Error::illegal(reason));
    }
    request.view = view.map(str::to_owned);
    request.types = target.types.clone();
    request.dialect = call.dialect;
    if call.dialect.rules.counts_all_hits || call.dialect.total_as_int {
        request.track_total_hits = TrackTotal::Exact;
    }
    apply_search_type(item.search_type.as_deref().or(search_type), &mut request, false)?;
    visibility.reach(call, &target).await?;
    let look = visibility.look(call, &target, Some(&request)).await?;
    request.view = request.view.or_else(|| look.view());
    let answer = run(call, &target, Box::new(request)).await;
    look.over(call, answer).await
}

/// One of several responses: the body of an answer, or a refusal, with its status where the dialect shows it.
async fn response_of_many(call: &Call, done: Result<Answer>) -> Value {
    let shows_status = !call.dialect.rules.omits_later_members;
    match done {
        Ok(Answer {
            body: crate::respond::Body::Json(Value::Object(mut body)),
            ..
        }) => {
            if shows_status {
                body.insert("status".into(), 200.into());
            }
            Value::Object(body)
        }
        Ok(_) => Value::Null,
        Err(error) => {
            let mut body = envelope::render(&error, call.dialect);
            envelope::with_uuids(&call.rest, &mut body["error"], call.dialect).await;
            if let Some(map) = body.as_object_mut().filter(|_| !shows_status) {
                map.remove("status");
            }
            body
        }
    }
}

/// The searches of one request, as `read` finds them in its body, answered one after the other.
pub(crate) async fn many(
    mut call: Call,
    read: impl AsyncFnOnce(&Call, &[u8]) -> Result<Vec<Result<dsl::document::MsearchItem>>>,
) -> Result<Answer> {
    let start = call.rest.clock.monotonic();
    let search_type = call.params.take("search_type");
    let visibility = Visibility::take(&mut call)?;
    let base = call.target()?;
    let content = call.content()?;
    call.params.finish()?;
    // Each answer is put into another.
    let plain = std::mem::replace(&mut call.plain, false);
    if content.is_empty() {
        return Err(Error::new(ErrorKind::Parse, "request body or source parameter is required"));
    }
    crate::actions::locks::check_alive(&call, &visibility.locks)?;
    // One view: in a transaction all searches of the request see the same.
    let view = match &visibility.transaction {
        Some(id) => Some(call.rest.relations.view_in(id).await?.0),
        None => None,
    };
    let (mut responses, mut room) = (Vec::new(), AnswerRoom::new(&call.rest));
    let running = Running::begin_many(&call.rest, call.task_headers(), &call.body, &base);
    let cancellation = running.cancellation().clone();
    call.running = Some(running);
    let items = read(&call, &content).await;
    Running::check(&cancellation)?;
    // Each search is a task of its own.
    call.running = None;
    let items = items?;
    let count = items.len();
    for item in items {
        // Each has its time for itself.
        call.begun = std::time::Instant::now();
        let done = match item.and_then(|item| room.check().map(|()| item)) {
            Ok(item) => one_of_many(&call, &base, search_type.as_deref(), &visibility, view.as_deref(), item).await,
            Err(error) if call.dialect.rules.shards_parse_items => Err(es2_errors::at_shards(error, None, index_name(&base))),
            Err(error) => Err(error),
        };
        // As text at once: a tree takes several times as much.
        let text = response_of_many(&call, done).await.to_string();
        room.take(text.len());
        responses.push(text);
    }
    assert_eq!(responses.len(), count, "each search of a request has its answer");
    let took = u64::try_from((call.rest.clock.monotonic() - start).as_millis()).unwrap_or(0);
    let took = if call.dialect.rules.omits_later_members {
        String::new()
    } else {
        format!("\"took\":{took},")
    };
    call.plain = plain;
    call.raw_answer(format!("{{{took}\"responses\":[{}]}}", responses.join(",")))
}
