//! Scrolls and points in time: one view of the engine, read page by page.

use super::search::found;
use crate::Rest;
use crate::call::Call;
use crate::respond::Answer;
use dsl::search::{SearchRequest, Sort, SortBy, TrackTotal};
use engine::IndexStats;
use model::{Error, ErrorKind, Result, Target};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Every open scroll. Views bound their number and end them; entries of ended views are dropped on use.
#[derive(Debug, Default)]
pub(crate) struct Scrolls {
    open: Mutex<HashMap<String, Scroll>>,
    /// By the uuids of indices.
    counts: Mutex<HashMap<Arc<str>, ScrollCounts>>,
}

/// The scrolls over one index.
#[derive(Clone, Copy, Debug, Default)]
struct ScrollCounts {
    begun: u64,
    /// How long those that ended were open.
    time: Duration,
}

/// Indices whose scrolls are counted; beyond that counting begins anew.
const COUNTED_MAX: usize = 10_000;

#[derive(Clone, Debug)]
struct Scroll {
    target: Target,
    request: SearchRequest,
    /// Sort keys that the client asked for; the tie-breaker after them is ours.
    shown: usize,
    keep_alive: Duration,
    /// When it began and was used last, on the monotonic clock.
    begun: Duration,
    used: Duration,
    /// The uuids of its indices.
    indices: Vec<Arc<str>>,
}

impl Scrolls {
    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, Scroll>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, ScrollCounts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one that begins over these indices.
    fn count(&self, indices: &[Arc<str>]) {
        let mut counts = self.counts();
        if counts.len() >= COUNTED_MAX {
            counts.clear();
        }
        for uuid in indices {
            counts.entry(uuid.clone()).or_default().begun += 1;
        }
    }

    /// Drops one that has ended, and counts how long it was open.
    fn end(&self, view: &str, now: Duration) {
        let Some(ended) = self.locked().remove(view) else { return };
        let mut counts = self.counts();
        for uuid in &ended.indices {
            counts.entry(uuid.clone()).or_default().time += now.saturating_sub(ended.begun);
        }
    }

    /// What is counted of an index.
    pub(crate) fn count_into(&self, uuid: &str, stats: &mut IndexStats, now: Duration) {
        let counted = self.counts().get(uuid).copied().unwrap_or_default();
        let open = self.locked();
        let current = open.values().filter(|one| one.indices.iter().any(|of| **of == *uuid));
        // One whose time has come is over, whether or not anybody has looked since.
        let current = current.filter(|one| now.saturating_sub(one.used) <= one.keep_alive);
        (stats.scroll_total, stats.scroll_time) = (counted.begun, counted.time);
        stats.scroll_current = current.count() as u64;
    }
}

/// The first page.
pub(super) async fn start(
    call: &Call,
    target: Target,
    mut request: SearchRequest,
    keep_alive: Duration,
    scan: bool,
) -> Result<Answer> {
    let invalid = |what: &str| {
        Err(Error::new(
            ErrorKind::ActionRequestValidation,
            format!("Validation Failed: 1: {what};"),
        ))
    };
    if !call.dialect.rules.tolerates_value_bounds {
        if request.size == 0 {
            return invalid("[size] cannot be [0] in a scroll context");
        }
        if request.from > 0 {
            return invalid("using [from] is not allowed in a scroll context");
        }
        if request.search_after.is_some() {
            return invalid("`search_after` cannot be used in a scroll context.");
        }
        if request.collapse.is_some() {
            return invalid("cannot use `collapse` in a scroll context");
        }
        if !request.rescore.is_empty() {
            return invalid("using [rescore] is not allowed in a scroll context");
        }
        let counts = [TrackTotal::Exact, SearchRequest::new(call.dialect).track_total_hits];
        if !counts.contains(&request.track_total_hits) {
            return invalid("disabling [track_total_hits] is not allowed in a scroll context");
        }
    }
    if let Err(cause) = check_keep_alive(call, keep_alive).await {
        // Each shard that is to keep something refuses it.
        let infos = call.rest.indices(&target).await?;
        return Err(match infos.first() {
            Some(info) if !call.dialect.rules.refusals_are_unwrapped => {
                crate::envelope::all_shards_failed(cause, info.name.as_str(), call.dialect)
            }
            _ => cause,
        });
    }
    if !call.dialect.rules.tolerates_value_bounds {
        check_batch(call, &target, request.size).await?;
    }
    request.from = 0;
    request.track_total_hits = TrackTotal::Exact;
    let shown = request.sort.len();
    if scan {
        request.sort = vec![Sort {
            by: SortBy::Doc,
            ascending: true,
        }];
    } else if request.sort.is_empty() {
        request.sort.push(Sort {
            by: SortBy::Score,
            ascending: false,
        });
        request.track_scores = true;
    }
    request.sort.push(Sort {
        by: SortBy::ShardDoc,
        ascending: true,
    });
    let view = call.rest.relations.open_view(&target, &request, keep_alive).await?;
    request.view = Some(view.id.clone());
    let mut indices = Vec::with_capacity(view.indices.len());
    for index in &view.indices {
        indices.extend(call.rest.known(index.as_str()).await.map(|known| known.uuid));
    }
    let now = call.rest.clock.monotonic();
    let scroll = Scroll {
        target,
        request,
        shown: if scan { 0 } else { shown },
        keep_alive,
        begun: now,
        used: now,
        indices,
    };
    call.rest.scrolls.count(&scroll.indices);
    let page = page(call, &view.id, scroll, scan).await;
    if page.is_err() {
        call.rest.engine.close_view(&view.id).await?;
    }
    page
}

/// A page is bounded as the window of a search is.
async fn check_batch(call: &Call, target: &Target, size: usize) -> Result<()> {
    for info in call.rest.indices(target).await? {
        let most = model::settings::number(&info.settings, model::settings::MAX_RESULT_WINDOW);
        if u64::try_from(size).unwrap_or(u64::MAX) > most {
            let cause = Error::illegal(format!(
                "Batch size is too large, size must be less than or equal to: [{most}] but was [{size}]. Scroll batch sizes cost \
                 as much memory as result windows so they are controlled by the [index.max_result_window] index level setting."
            ));
            return Err(crate::envelope::all_shards_failed(cause, info.name.as_str(), call.dialect));
        }
    }
    Ok(())
}

/// Refuses what would keep a view longer than the setting allows.
async fn check_keep_alive(call: &Call, wanted: Duration) -> Result<()> {
    let settings = call.rest.cluster_settings().await?;
    let most = model::settings::text(&settings, model::settings::MAX_KEEP_ALIVE);
    let limit = model::units::parse_duration(&most, model::settings::MAX_KEEP_ALIVE.name)?;
    if wanted <= limit {
        return Ok(());
    }
    let wanted = model::units::render_duration(wanted);
    Err(Error::illegal(format!(
        "Keep alive for request ({wanted}) is too large. It must be less than ({most}). \
         This limit can be set by changing the [search.max_keep_alive] cluster level setting."
    )))
}

/// One page; the scroll moves behind its last hit.
async fn page(call: &Call, id: &str, mut scroll: Scroll, empty: bool) -> Result<Answer> {
    let mut request = scroll.request.clone();
    if empty {
        request.size = 0;
    }
    if request.search_after.is_some() {
        request.aggs.clear();
    }
    request.dialect = call.dialect;
    let mut response = found(call, &scroll.target, request).await?;
    if let Some(last) = response.hits.hits.last() {
        scroll.request.search_after = Some(last.sort.clone());
    }
    for hit in &mut response.hits.hits {
        hit.sort.truncate(scroll.shown);
    }
    // A page that is refused is not passed.
    call.book_response(&response)?;
    call.rest.scrolls.locked().insert(id.to_owned(), scroll);
    if call.plain {
        return Ok(Answer::raw(response.text(call.dialect, &[("_scroll_id", &scroll_id(id))])));
    }
    let mut out = Map::new();
    out.insert("_scroll_id".into(), scroll_id(id).into());
    out.extend(response.render(call.dialect));
    Ok(Answer::ok(Value::Object(out)))
}

/// What a client sees: base64, so that no one builds on its content.
fn scroll_id(view: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE.encode(format!("scroll:{view}"))
}

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
    let known = call.rest.scrolls.locked().get(&view).cloned();
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

fn missing(view: &str) -> Error {
    missing_context(Error::new(
        ErrorKind::SearchContextMissing,
        format!("No search context found for id [{view}]"),
    ))
}

/// A view that is gone, as what the search at its shards came to; other errors stay.
pub(super) fn unless_missing(error: Error, view: &str) -> Error {
    match error.kind() {
        ErrorKind::SearchContextMissing => missing(view),
        _ => error,
    }
}

/// A missing search context, as what the search at its shards came to.
pub(super) fn missing_context(cause: Error) -> Error {
    Error::new(ErrorKind::SearchPhaseExecution, "all shards failed")
        .status_of(404)
        .with("phase", "query")
        .with("grouped", true)
        .with(
            "failed_shards",
            json!([{ "shard": -1, "index": Value::Null, "reason": cause.to_json() }]),
        )
        .rooted_in(cause.clone())
        .caused_by(cause)
}

/// `DELETE /_search/scroll`.
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
        call.rest.scrolls.locked().keys().cloned().collect()
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
pub(crate) async fn open_pit(mut call: Call) -> Result<Answer> {
    let keep_alive = call.params.take_duration("keep_alive")?;
    let target = call.target()?;
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
    let view = call.rest.engine.open_view(&target, keep_alive).await?;
    if view.indices.is_empty() && call.dialect.persona.is_opensearch() {
        // There is no id for a moment of nothing.
        call.rest.engine.close_view(&view.id).await?;
        return Err(Error::illegal("invalid id: [null]"));
    }
    let mut uuids = Vec::with_capacity(view.indices.len());
    for index in &view.indices {
        uuids.extend(call.rest.known(index.as_str()).await.map(|known| known.uuid));
    }
    let now = call.rest.clock.monotonic();
    call.rest.points_in_time.open(&view.id, uuids, keep_alive, now);
    let shards = json!({ "total": view.indices.len(), "successful": view.indices.len(), "skipped": 0, "failed": 0 });
    Ok(Answer::ok(if call.dialect.persona.is_opensearch() {
        json!({ "pit_id": view.id, "_shards": shards, "creation_time": view.created_ms })
    } else {
        json!({ "id": view.id, "_shards": shards })
    }))
}

/// `DELETE /_pit`.
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

/// Refuses an id that no view ever had: they are two numbers of 128 bits in letters and digits.
pub(super) fn check_view_id(id: &str) -> Result<()> {
    let letters = id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if id.len() < 40 || !letters {
        return Err(Error::illegal(format!("invalid id: [{id}]")));
    }
    Ok(())
}

async fn pits(rest: &Rest) -> Result<Vec<engine::View>> {
    let scrolls: Vec<String> = rest.scrolls.locked().keys().cloned().collect();
    Ok(rest
        .engine
        .views()
        .await?
        .into_iter()
        .filter(|v| !scrolls.contains(&v.id))
        .collect())
}

/// `GET /_search/point_in_time/_all`.
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
