//! Scrolls and views that are kept between requests.
//!
//! Not here: the endpoints that use it (`handlers`).

use crate::actions::search::run_search;
use crate::call::Call;
use crate::respond::Answer;
use dsl::search::{SearchRequest, Sort, SortBy, Total, TrackTotal};
use engine::IndexStats;
use model::{Error, ErrorKind, Result, Target};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Every open scroll. Views bound their number and end them; entries of ended views are dropped on use.
#[derive(Debug, Default)]
pub(crate) struct Scrolls {
    pub(crate) open: Mutex<HashMap<String, Scroll>>,
    /// By the uuids of indices.
    pub(crate) counts: Mutex<HashMap<Arc<str>, ScrollCounts>>,
}

/// The scrolls over one index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScrollCounts {
    pub(crate) begun: u64,
    /// How long those that ended were open.
    pub(crate) time: Duration,
}

/// Indices whose scrolls are counted; beyond that counting begins anew.
pub(crate) const COUNTED_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Scroll {
    pub(crate) target: Target,
    pub(crate) request: SearchRequest,
    /// Sort keys that the client asked for; the tie-breaker after them is ours.
    pub(crate) shown: usize,
    pub(crate) keep_alive: Duration,
    /// When it began and was used last, on the monotonic clock.
    pub(crate) begun: Duration,
    pub(crate) used: Duration,
    /// The uuids of its indices.
    pub(crate) indices: Vec<Arc<str>>,
    /// How many match, once a page has counted them: the view of a scroll does not change.
    pub(crate) total: Option<Total>,
}

impl Scrolls {
    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Scroll>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn counts(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, ScrollCounts>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one that begins over these indices.
    pub(crate) fn count(&self, indices: &[Arc<str>]) {
        let mut counts = self.counts();
        if counts.len() >= COUNTED_MAX {
            counts.clear();
        }
        for uuid in indices {
            counts.entry(uuid.clone()).or_default().begun += 1;
        }
    }

    /// Drops one that has ended, and counts how long it was open.
    pub(crate) fn end(&self, view: &str, now: Duration) {
        let Some(ended) = self.lock().remove(view) else { return };
        let mut counts = self.counts();
        for uuid in &ended.indices {
            counts.entry(uuid.clone()).or_default().time += now.saturating_sub(ended.begun);
        }
    }

    /// The counts of an index.
    pub(crate) fn count_into(&self, uuid: &str, stats: &mut IndexStats, now: Duration) {
        let counted = self.counts().get(uuid).copied().unwrap_or_default();
        let open = self.lock();
        let current = open.values().filter(|one| one.indices.iter().any(|of| **of == *uuid));
        // One whose time has come is over, whether or not anybody has looked since.
        let current = current.filter(|one| now.saturating_sub(one.used) <= one.keep_alive);
        (stats.scroll_total, stats.scroll_time) = (counted.begun, counted.time);
        stats.scroll_current = current.count() as u64;
    }
}

/// The first page.
pub(crate) async fn start(
    call: &Call,
    target: Target,
    mut request: SearchRequest,
    keep_alive: Duration,
    scan: bool,
) -> Result<Answer> {
    if !call.dialect.rules.tolerates_value_bounds {
        refuse_options(call, &request)?;
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
    make_resumable(&mut request, scan);
    let view = call.rest.relations.open_view(&target, &request, keep_alive).await?;
    request.view = Some(view.id.clone());
    let mut indices = Vec::with_capacity(view.indices.len());
    for index in &view.indices {
        indices.extend(call.rest.index_facts(index.as_str()).await.map(|known| known.uuid.clone()));
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
        total: None,
    };
    call.rest.scrolls.count(&scroll.indices);
    let page = page(call, &view.id, scroll, scan).await;
    if page.is_err() {
        call.rest.engine.close_view(&view.id).await?;
    }
    page
}

/// Refuses options that mean nothing where pages follow each other.
fn refuse_options(call: &Call, request: &SearchRequest) -> Result<()> {
    let counts = [TrackTotal::Exact, SearchRequest::new(call.dialect).track_total_hits];
    let problem = if request.size == 0 {
        "[size] cannot be [0] in a scroll context"
    } else if request.from > 0 {
        "using [from] is not allowed in a scroll context"
    } else if request.search_after.is_some() {
        "`search_after` cannot be used in a scroll context."
    } else if request.collapse.is_some() {
        "cannot use `collapse` in a scroll context"
    } else if !request.rescore.is_empty() {
        "using [rescore] is not allowed in a scroll context"
    } else if !counts.contains(&request.track_total_hits) {
        "disabling [track_total_hits] is not allowed in a scroll context"
    } else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::ActionRequestValidation,
        format!("Validation Failed: 1: {problem};"),
    ))
}

/// Sorts so that no two hits are equal: the next page begins behind the last hit.
fn make_resumable(request: &mut SearchRequest, scan: bool) {
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
}

/// A page is bounded as the window of a search is.
pub(crate) async fn check_batch(call: &Call, target: &Target, size: usize) -> Result<()> {
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
pub(crate) async fn check_keep_alive(call: &Call, wanted: Duration) -> Result<()> {
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
pub(crate) async fn page(call: &Call, id: &str, mut scroll: Scroll, empty: bool) -> Result<Answer> {
    let mut request = scroll.request.clone();
    if empty {
        request.size = 0;
    }
    if request.search_after.is_some() {
        request.aggs.clear();
    }
    request.dialect = call.dialect;
    // Whoever has documents withheld may not be who the first page was for.
    let known = scroll.total.filter(|_| !call.withholds());
    if known.is_some() {
        request.track_total_hits = TrackTotal::No;
    }
    let mut response = run_search(call, &scroll.target, request).await?;
    match known {
        Some(total) => response.hits.total = Some(total),
        None if !call.withholds() && !response.timed_out && response.failures.is_empty() => scroll.total = response.hits.total,
        None => {}
    }
    assert!(
        scroll.shown < scroll.request.sort.len(),
        "a scroll sorts by one key more than its client sees"
    );
    if let Some(last) = response.hits.hits.last() {
        assert_eq!(
            last.sort.len(),
            scroll.request.sort.len(),
            "a hit of a scroll has each key that the next page begins behind"
        );
        scroll.request.search_after = Some(last.sort.clone());
    }
    for hit in &mut response.hits.hits {
        hit.sort.truncate(scroll.shown);
    }
    // A page that is refused is not passed.
    call.admit_response(&response).await?;
    call.rest.scrolls.lock().insert(id.to_owned(), scroll);
    if call.plain {
        return Ok(Answer::raw(response.text(call.dialect, &[("_scroll_id", &scroll_id(id))])));
    }
    let mut out = Map::new();
    out.insert("_scroll_id".into(), scroll_id(id).into());
    out.extend(response.render(call.dialect));
    Ok(Answer::ok(Value::Object(out)))
}

/// The id that a client sees: base64, so that no one builds on its content.
pub(crate) fn scroll_id(view: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE.encode(format!("scroll:{view}"))
}

pub(crate) fn missing(view: &str) -> Error {
    missing_context(Error::new(
        ErrorKind::SearchContextMissing,
        format!("No search context found for id [{view}]"),
    ))
}

/// A view that is gone, as what the search at its shards came to; other errors stay.
pub(crate) fn unless_missing(error: Error, view: &str) -> Error {
    match error.kind() {
        ErrorKind::SearchContextMissing => missing(view),
        _ => error,
    }
}

/// A missing search context, as what the search at its shards came to.
pub(crate) fn missing_context(cause: Error) -> Error {
    Error::new(ErrorKind::SearchPhaseExecution, "all shards failed")
        .status_of(404)
        .with("phase", "query")
        .with("grouped", true)
        .with(
            "failed_shards",
            json!([{ "shard": -1, "index": Value::Null, "reason": cause.to_json() }]),
        )
        .with_root_cause(cause.clone())
        .with_cause(cause)
}

/// Refuses an id that no view ever had: they are two numbers of 128 bits in letters and digits.
pub(crate) fn check_view_id(id: &str) -> Result<()> {
    let letters = id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if id.len() < 40 || !letters {
        return Err(Error::illegal(format!("invalid id: [{id}]")));
    }
    Ok(())
}
