//! One search: compiled for each index, collected over all of them, rescored, and its page fetched.
//!
//! Not here: how an index is gone through (`collect`, `top`), what a hit shows (`fetch`), inner hits (`fetch::inner_hits`, `fetch::collapse`).

use crate::clauses::plan;
use crate::collect::collapse::{Group, Members, collapse_key};
use crate::collect::{self, Best, Collected, Order, Ranked, Source, index_boost, rescore, top};
use crate::context::Context;
use crate::doc_sink::DocSink;
use crate::document_reader::DocumentReader;
use crate::fetch::{Fetch, collapse, inner_hits};
use crate::interrupt::is_timeout;
use crate::phases::Phases;
use crate::scorers::planned::Planned;
use crate::scorers::prune::Pruning;
use crate::sort::{Key, Plan, SortReader};
use crate::{Searched, limits, profile};
use dsl::query::Query;
use dsl::search::{Hit, Hits, SearchRequest, SearchResponse, Sort, SortBy, Total, TrackTotal};
use model::{Error, Result};
use rustc_hash::FxHashMap;
use segment::searchable::IndexView;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

/// A request, compiled for one index.
struct CompiledRequest {
    planned: Arc<Planned>,
    post_filter: Option<Planned>,
    explained: Option<Planned>,
    /// Sort keys; empty for scores alone.
    sort: Vec<Plan>,
    collapse: Option<Plan>,
}

impl CompiledRequest {
    fn new(view: &IndexView, filter: Option<&Query>, request: &SearchRequest, cx: &Context<'_>) -> Result<CompiledRequest> {
        let post_filter = request.post_filter.as_ref();
        let explained = request.explained.as_ref();
        let sort = if by_score(request) { &[][..] } else { &request.sort };
        let collapse = request.collapse.as_ref();
        Ok(CompiledRequest {
            planned: Arc::new(plan(view, request.query.as_ref(), filter, cx)?),
            post_filter: post_filter.map(|q| plan(view, Some(q), None, cx)).transpose()?,
            explained: explained.map(|q| plan(view, Some(q), None, cx)).transpose()?,
            sort: sort.iter().map(|s| Plan::new(view, s, cx)).collect::<Result<_>>()?,
            collapse: collapse.map(|c| collapse_key(view, &c.field, cx)).transpose()?,
        })
    }

    /// Profiles of clauses: the post filter's come first.
    fn profile(&self) -> Vec<serde_json::Value> {
        let all = self.post_filter.iter().chain([&*self.planned]);
        all.flat_map(Planned::profile).collect()
    }

    /// The keys of `search_after`.
    fn after(&self, view: &IndexView, request: &SearchRequest, cx: &Context<'_>) -> Result<Option<Vec<Key>>> {
        let Some(values) = &request.search_after else {
            return Ok(None);
        };
        if by_score(request) {
            let score = values.first().and_then(serde_json::Value::as_f64);
            return Ok(score.map(|s| vec![Key::Score(s as f32)]));
        }
        debug_assert_eq!(
            self.sort.len(),
            values.len(),
            "search.md S9: [limits] has refused a place in another order"
        );
        let keys = self.sort.iter().zip(values).map(|(p, v)| p.after(view, v, cx));
        keys.collect::<Result<_>>().map(Some)
    }
}

/// Keys of `unsigned_long` stand for themselves: they are compared with no other numbers.
fn alike(compiled: &[CompiledRequest]) -> Result<()> {
    for key in 0..compiled.first().map_or(0, |first| first.sort.len()) {
        let mut kinds = compiled.iter().filter_map(|one| one.sort.get(key)?.is_unsigned());
        let first = kinds.next();
        if kinds.any(|kind| Some(kind) != first) {
            let reason = "Can't do sort across indices, as a field has [unsigned_long] type in one index, and different type in another index!";
            return Err(Error::illegal(reason));
        }
    }
    Ok(())
}

/// Hits come by falling score and nothing else.
fn by_score(request: &SearchRequest) -> bool {
    matches!(
        request.sort.as_slice(),
        [] | [Sort {
            by: SortBy::Score,
            ascending: false
        }]
    )
}

/// Searches and shows every match to a sink.
///
/// # Errors
/// As [`super::run`], and what the sink answers.
pub fn run_with(
    views: &[Searched],
    request: &SearchRequest,
    cx: &Context<'_>,
    sink: Option<&mut dyn DocSink>,
) -> Result<SearchResponse> {
    let started = Instant::now();
    limits::check(views, request)?;
    let mut order = Order::default();
    if !by_score(request) {
        order.ascending = request.sort.iter().map(|s| s.ascending).collect();
    }
    let compiled = views
        .iter()
        .map(|(view, filter)| CompiledRequest::new(view, filter.as_ref(), request, cx))
        .collect::<Result<Vec<_>>>()?;
    alike(&compiled)?;
    let window = request.from.saturating_add(request.size);
    let deepest = request.rescore.iter().map(|r| r.window_size).max().unwrap_or(0).max(window);
    let mut best = Best::new(&order, deepest);
    let mut found = gather(views, &compiled, request, cx, &mut best, sink)?;
    let mut ranked = match request.rescore.is_empty() {
        true => best.into_sorted_from(request.from),
        false => best.into_sorted(),
    };
    for one in &request.rescore {
        if found.timed_out {
            break;
        }
        found.timed_out = unless_late(rescore::rescore(views, &mut ranked, one, cx))?.is_none();
    }
    if found.timed_out {
        cx.interrupt.grant_grace();
    }
    let rest = ranked.get(request.from..).unwrap_or_default();
    // A search that ended early has not seen all members.
    let members = found.members.take().filter(|_| !found.timed_out && !found.terminated);
    let page = &rest[..request.size.min(rest.len())];
    let fetched = || fetch(views, &compiled, page, members.as_ref(), request, cx);
    let (hits, all_shown) = Phases::time(&cx.phases.fetch, fetched)?;
    found.timed_out |= !all_shown;
    Ok(SearchResponse {
        took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        timed_out: found.timed_out,
        terminated_early: (request.terminate_after > 0 || request.collects_nothing)
            .then_some(found.terminated || request.collects_nothing),
        shards: views
            .iter()
            .map(|(view, filter)| crate::clauses::routed::shard_count(view, request.query.iter().chain(filter)))
            .sum(),
        hits: Hits {
            total: total(found.count, request.track_total_hits),
            max_score: max_score(views, request, &ranked, &found),
            hits,
        },
        profile: request.profile.then(|| {
            let clauses: Vec<_> = compiled.iter().map(CompiledRequest::profile).collect();
            profile::render(views, request, clauses, &found.took)
        }),
        ..SearchResponse::default()
    })
}

/// Whether an index could answer a request: what it asks of fields, and no more, is compiled.
///
/// # Errors
/// The index refuses the request.
pub fn compiles((view, filter): &Searched, request: &SearchRequest, cx: &Context<'_>) -> Result<()> {
    let compiled = CompiledRequest::new(view, filter.as_ref(), request, cx)?;
    compiled.after(view, request, cx)?;
    let wanted = inner_hits::clauses_with_inner_hits(request)?;
    inner_hits::CompiledInnerHits::all(view, &wanted, None, cx)?;
    Fetch::new(view, request, cx)?;
    Ok(())
}

/// `None` for what the deadline of the search has stopped.
fn unless_late<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(error) if is_timeout(&error) => Ok(None),
        done => done.map(Some),
    }
}

/// Whether so much may match that the best groups are found by the bounds of blocks. Members are asked for again then.
fn finds_groups_by_bounds(compiled: &CompiledRequest) -> bool {
    let many = |pruning: Pruning| !pruning.is_conjunction() && pruning.docs() > Members::MOST;
    compiled.sort.is_empty() && compiled.planned.pruning().is_some_and(many)
}

/// Goes through index after index until time or `terminate_after` is up.
fn gather(
    views: &[Searched],
    compiled: &[CompiledRequest],
    request: &SearchRequest,
    cx: &Context<'_>,
    best: &mut Best<'_>,
    mut sink: Option<&mut dyn DocSink>,
) -> Result<Collected> {
    let window = request.from.saturating_add(request.size);
    debug_assert_eq!(views.len(), compiled.len(), "search.md S4: a query is planned for each index");
    let mut found = Collected {
        members: collapse::members(request).filter(|_| !compiled.iter().any(finds_groups_by_bounds)),
        ..Collected::default()
    };
    for (no, ((view, _), compiled)) in views.iter().zip(compiled).enumerate() {
        let after = compiled.after(view, request, cx)?;
        let source = Source {
            no,
            view,
            planned: &compiled.planned,
            post_filter: compiled.post_filter.as_ref(),
            sort: &compiled.sort,
            after: after.as_deref(),
            collapse: compiled.collapse.as_ref(),
            boost: index_boost(request, view),
        };
        let entered = Instant::now();
        let before = found.count;
        let collected = cx.check_cancelled().and_then(|()| {
            if sink.is_none() && top::applies(&source, request, &found) {
                top::top(&source, request, cx, best, &mut found)
            } else if sink.is_some() && finds_hits_apart(&source, request, cx, best, &found) {
                collect_apart(&source, request, cx, best, &mut sink, &mut found)
            } else {
                collect::collect(&source, request, cx, best, &mut sink, &mut found)
            }
        });
        found.timed_out |= unless_late(collected)?.is_none();
        found.took.push(entered.elapsed());
        // Who wants no hits is told what is known without going through them.
        if found.terminated
            && window == 0
            && !request.dialect.rules.terminates_across_indices
            && let Some(all) = known_count(&source, request)?
        {
            found.count = before + all;
        }
        if found.timed_out || found.terminated && request.dialect.rules.terminates_across_indices {
            break;
        }
    }
    Ok(found)
}

/// In an index with fewer documents one pass for hits and sink takes less time than two.
const APART_MIN: u64 = if cfg!(test) { 1 } else { 1 << 14 };

/// Whether the hits of a search with a sink are found in a pass of their own, which skips most matches. The sink sees every match in
/// the other pass, by blocks and on several threads.
fn finds_hits_apart(source: &Source<'_>, request: &SearchRequest, cx: &Context<'_>, best: &Best<'_>, found: &Collected) -> bool {
    let node = source.planned.node();
    let segments = source.view.segments.iter();
    let is_plain = best.limit() > 0 && request.collapse.is_none() && request.timeout.is_none() && !cx.is_profiled();
    is_plain
        && segments.map(|segment| u64::from(segment.reader.max_doc())).sum::<u64>() >= APART_MIN
        && if source.sort.is_empty() {
            let has_one_score = node.most_score().is_some() && node.opens_quickly();
            top::applies(source, request, found) && (has_one_score || source.planned.pruning().is_some())
        } else {
            let have_ranks = source.sort.iter().all(Plan::may_have_ranks);
            collect::by_rank::applies(source, request) && have_ranks && node.opens_quickly()
        }
}

/// Shows all matches of an index to the sink, which counts them, and then finds the best.
fn collect_apart(
    source: &Source<'_>,
    request: &SearchRequest,
    cx: &Context<'_>,
    best: &mut Best<'_>,
    sink: &mut Option<&mut dyn DocSink>,
    found: &mut Collected,
) -> Result<()> {
    let before = found.count;
    collect::collect(source, request, cx, &mut Best::new(&Order::default(), 0), sink, found)?;
    let counted = found.count;
    if counted > before {
        let uncounted = SearchRequest {
            track_total_hits: TrackTotal::No,
            ..request.clone()
        };
        match source.sort.is_empty() {
            true => top::top(source, &uncounted, cx, best, found)?,
            false => collect::collect(source, &uncounted, cx, best, &mut None, found)?,
        }
    }
    found.count = counted;
    Ok(())
}

/// How many documents of an index match, where every segment knows it without going through them.
fn known_count(source: &Source<'_>, request: &SearchRequest) -> Result<Option<u64>> {
    if source.post_filter.is_some() || request.min_score.is_some() {
        return Ok(None);
    }
    let mut all = 0;
    for segment in &source.view.segments {
        let sight = source.planned.sight(segment)?;
        let Some(count) = source.planned.quick_count(segment, &sight, u64::MAX)? else {
            return Ok(None);
        };
        all += count;
    }
    Ok(Some(all))
}

/// The keys of the groups of a page, in the order of its hits.
#[derive(Default)]
struct GroupKeys {
    keys: Vec<Key>,
    /// By index and segment.
    readers: FxHashMap<(usize, usize), SortReader>,
}

impl GroupKeys {
    /// The key of the next hit.
    fn read(&mut self, plan: &Plan, view: &IndexView, one: &Ranked) -> Result<&Key> {
        let reader = match self.readers.entry((one.view, one.segment)) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => place.insert(plan.open(view, &view.segments[one.segment], 0)?),
        };
        let key = reader.read(one.doc, one.score)?;
        Ok(self.keys.push_mut(key))
    }
}

/// The hits of a page, with their inner hits; and whether there was time for all of them.
fn fetch(
    views: &[Searched],
    compiled: &[CompiledRequest],
    page: &[Ranked],
    members: Option<&Members>,
    request: &SearchRequest,
    cx: &Context<'_>,
) -> Result<(Vec<Hit>, bool)> {
    let wanted = inner_hits::clauses_with_inner_hits(request)?;
    let inner = views
        .iter()
        .map(|(view, _)| inner_hits::CompiledInnerHits::all(view, &wanted, None, cx))
        .collect::<Result<Vec<_>>>()?;
    let fetches = views
        .iter()
        .map(|(view, _)| Fetch::new(view, request, cx))
        .collect::<Result<Vec<_>>>()?;
    let mut hits = Vec::with_capacity(page.len());
    let mut group_keys = GroupKeys::default();
    for one in page {
        let view = &views[one.view].0;
        let read = cx
            .check_cancelled()
            .and_then(|()| fetch_hit(view, &compiled[one.view], &fetches[one.view], one, request));
        let Some(mut hit) = unless_late(read)? else {
            return Ok((hits, false));
        };
        if let (Some(collapse), Some(plan)) = (&request.collapse, &compiled[one.view].collapse) {
            let key = group_keys.read(plan, view, one)?;
            if !matches!(key, Key::None { .. }) {
                hit.fields.insert(collapse.field.clone(), vec![key.render()].into());
            }
        }
        for inner in &inner[one.view] {
            if unless_late(inner.add(&mut hit, one.segment, one.doc, one.doc))?.is_none() {
                return Ok((hits, false));
            }
        }
        hits.push(hit);
    }
    if let Some(collapse) = &request.collapse {
        let groups: Vec<Group> = page.iter().map(|one| one.group.clone().unwrap_or(Group::None)).collect();
        let sources: Vec<collapse::CompiledCollapse<'_>> = compiled
            .iter()
            .filter_map(|compiled| {
                Some(collapse::CompiledCollapse {
                    planned: &compiled.planned,
                    post_filter: compiled.post_filter.as_ref(),
                    collapse: compiled.collapse.as_ref()?,
                })
            })
            .collect();
        let expanded = collapse::expand(
            views,
            &sources,
            request,
            collapse,
            (&groups, &group_keys.keys, members.and_then(Members::all)),
            (&mut hits, &inner),
            cx,
        );
        if unless_late(expanded)?.is_none() {
            return Ok((hits, false));
        }
    }
    debug_assert_eq!(
        hits.len(),
        page.len(),
        "search.md S23: a search that does not say that its time was over has a hit for each place of its page"
    );
    Ok((hits, true))
}

/// One hit, without what hangs on it.
fn fetch_hit(
    view: &IndexView,
    compiled: &CompiledRequest,
    fetch: &Fetch<'_>,
    one: &Ranked,
    request: &SearchRequest,
) -> Result<Hit> {
    let segment = &view.segments[one.segment];
    let by_score = by_score(request);
    let score = by_score || request.track_scores || request.sort.iter().any(|s| s.by == SortBy::Score);
    debug_assert!(
        segment.is_root(one.doc) && segment.is_alive(one.doc),
        "search.md S5: a hit is a root that is alive"
    );
    let shelf = DocumentReader::of(view, segment);
    let (mut hit, _source) = fetch.hit(segment, &shelf, one.doc, score.then_some(one.score))?;
    hit.sort = compiled.sort.iter().zip(&one.keys).map(|(p, k)| p.render(k)).collect();
    // Sorted by score alone is not sorted, says Lucene; only who goes on from a hit has to see where it stands.
    if by_score && !request.sort.is_empty() && request.search_after.is_some() {
        hit.sort = vec![Key::Score(one.score).render()];
    }
    if compiled.planned.has_names() {
        hit.matched_queries = compiled.planned.matched_names(segment, one.doc)?;
        if request.named_scores {
            hit.matched_scores = compiled.planned.matched_scores(segment, one.doc)?;
        }
    }
    if request.explain {
        let planned = compiled.explained.as_ref().unwrap_or(&compiled.planned);
        hit.explanation = Some(planned.explain(segment, one.doc)?.to_json());
    }
    Ok(hit)
}

fn max_score(views: &[Searched], request: &SearchRequest, ranked: &[Ranked], found: &Collected) -> Option<f32> {
    if request.size == 0 && request.dialect.rules.counts_without_scores {
        Some(0.0)
    } else if request.size == 0 && !request.dialect.rules.scores_without_hits && !views.is_empty() {
        // Who wants no hits is told nothing of the best one.
        None
    } else if by_score(request) && !ranked.is_empty() {
        ranked.iter().map(|r| r.score).reduce(f32::max)
    } else if request.track_scores {
        found.max_score
    } else {
        views.is_empty().then_some(0.0)
    }
}

fn total(count: u64, track: TrackTotal) -> Option<Total> {
    match track {
        TrackTotal::Exact => Some(Total {
            value: count,
            exact: true,
        }),
        TrackTotal::UpTo(max) if count > max as u64 => Some(Total {
            value: max as u64,
            exact: false,
        }),
        TrackTotal::UpTo(_) => Some(Total {
            value: count,
            exact: true,
        }),
        TrackTotal::No => None,
    }
}
