//! Searches over one or several indices: limits, passes, pages, hits.
//!
//! Not here: how clauses become scorers (`plan`), aggregations (`aggs`, told through [`collect::DocSink`]),
//! which indices a request names (`catalog`).

use crate::plan::boolean::Shared;
use crate::plan::{Context, Planned, plan, setting};
use crate::searchable::IndexView;
use collect::{Best, Collected, DocSink, Order, Ranked, Source};
use dsl::query::Query;
use dsl::search::{Aggregations, FieldSort, Hits, SearchRequest, SearchResponse, Sort, SortBy, Total, TrackTotal};
use fetch::{Fetch, Shelf};
use model::{Error, ErrorKind, Result};
use sort::{Key, Plan};
use std::sync::Arc;
use std::time::Instant;
use tantivy::{DocId, DocSet, TERMINATED};

pub mod collect;
mod expand;
pub mod fetch;
mod highlight;
mod inner_hits;
mod nested_sort;
mod profile;
pub mod sort;
mod suggest;
#[cfg(test)]
mod tests;
mod top;
mod top_hits;

/// An index to search, with the filter of the alias it was reached by.
pub type Searched = (Arc<IndexView>, Option<Query>);

/// Searches.
///
/// # Errors
/// Whatever the request gets wrong, in the words of Elasticsearch.
pub fn run(views: &[Searched], request: &SearchRequest, cx: &Context<'_>) -> Result<SearchResponse> {
    let suggest = suggest::run(views, request, cx)?;
    if request.aggs.is_empty() {
        let response = run_with(views, request, cx, None)?;
        return Ok(SearchResponse { suggest, ..response });
    }
    let indices: Vec<Arc<IndexView>> = views.iter().map(|(view, _)| view.clone()).collect();
    let fetch = top_hits::TopHits {
        cx,
        query: request.query.as_ref(),
        dialect: request.dialect,
    };
    let context = crate::aggs::Context {
        plan: cx,
        views: &indices,
        dialect: request.dialect,
        fetch: &fetch,
    };
    let mut root = crate::aggs::Root::new(&request.aggs, &context)?;
    let mut response = run_with(views, request, cx, Some(&mut root))?;
    response.aggregations = Some(Aggregations::Tree(root.finish()?));
    response.suggest = suggest;
    Ok(response)
}

/// Searches and shows every match to a sink.
///
/// # Errors
/// As [`run`], and what the sink answers.
pub fn run_with(
    views: &[Searched],
    request: &SearchRequest,
    cx: &Context<'_>,
    mut sink: Option<&mut dyn DocSink>,
) -> Result<SearchResponse> {
    let started = Instant::now();
    let deadline = request.timeout.and_then(|t| started.checked_add(t));
    check_limits(views, request)?;
    let by_score = matches!(
        request.sort.as_slice(),
        [] | [Sort {
            by: SortBy::Score,
            ascending: false
        }]
    );
    let mut found = Collected::default();
    let sorted = !by_score;
    let order = Order {
        ascending: if sorted {
            request.sort.iter().map(|s| s.ascending).collect()
        } else {
            Vec::new()
        },
    };
    let window = request.from.saturating_add(request.size);
    let deepest = request.rescore.iter().map(|r| r.window_size).max().unwrap_or(0).max(window);
    let mut best = Best::new(&order, deepest);
    let mut compiled: Vec<(Planned, Option<Planned>, Vec<Plan>, Option<Plan>)> = Vec::new();
    for (view, filter) in views {
        let planned = plan(view, request.query.as_ref(), filter.as_ref(), cx)?;
        let post = request
            .post_filter
            .as_ref()
            .map(|q| plan(view, Some(q), None, cx))
            .transpose()?;
        let sort = if sorted {
            request
                .sort
                .iter()
                .map(|s| Plan::new(view, s, cx))
                .collect::<Result<Vec<_>>>()?
        } else {
            Vec::new()
        };
        let collapse = match &request.collapse {
            None => None,
            Some(collapse) => Some(collapse_key(view, &collapse.field, cx)?),
        };
        compiled.push((planned, post, sort, collapse));
    }
    for (no, ((view, _), (planned, post, sort, collapse))) in views.iter().zip(&compiled).enumerate() {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            found.timed_out = true;
            break;
        }
        let after: Option<Vec<Key>> = match &request.search_after {
            None => None,
            Some(values) if sorted => Some(
                sort.iter()
                    .zip(values)
                    .map(|(p, v)| p.after(view, v, cx))
                    .collect::<Result<_>>()?,
            ),
            Some(values) => values
                .first()
                .and_then(serde_json::Value::as_f64)
                .map(|s| vec![Key::Score(s as f32)]),
        };
        let source = Source {
            no,
            view,
            planned,
            post_filter: post.as_ref(),
            sort,
            after: after.as_deref(),
            collapse: collapse.as_ref(),
            boost: index_boost(request, view),
        };
        let entered = Instant::now();
        if sink.is_none() && top::applies(&source, request) {
            top::top(&source, request, cx, &mut best, &mut found)?;
        } else {
            collect::collect(&source, request, cx, deadline, &mut best, &mut sink, &mut found)?;
        }
        found.took.push(entered.elapsed());
        if found.timed_out || found.terminated {
            break;
        }
    }
    let mut ranked = best.into_sorted();
    for rescore in &request.rescore {
        rescored(views, &mut ranked, rescore, cx)?;
    }
    let mut hits = Vec::new();
    let mut group_keys = Vec::new();
    let wanted = inner_hits::wanted(request)?;
    let inner = views
        .iter()
        .map(|(view, _)| inner_hits::Compiled::all(view, &wanted, None, cx))
        .collect::<Result<Vec<_>>>()?;
    let fetches = views
        .iter()
        .map(|(view, _)| Fetch::new(view, request, cx))
        .collect::<Result<Vec<_>>>()?;
    let shows_scores = by_score || request.track_scores || request.sort.iter().any(|s| s.by == SortBy::Score);
    for one in ranked.iter().skip(request.from).take(request.size) {
        let view = &views[one.view].0;
        let segment = &view.segments[one.segment];
        let shelf = Shelf::of(view, segment);
        let (planned, _, sort, group) = &compiled[one.view];
        let (mut hit, _source) = fetches[one.view].hit(segment, &shelf, one.doc, shows_scores.then_some(one.score))?;
        hit.sort = sort.iter().zip(&one.keys).map(|(p, k)| p.render(k)).collect();
        if by_score && !request.sort.is_empty() {
            hit.sort = vec![Key::Score(one.score).render()];
        }
        if planned.has_names() {
            hit.matched_queries = planned.matched(segment, one.doc)?;
            if request.named_scores {
                hit.matched_scores = planned.matched_scores(segment, one.doc)?;
            }
        }
        if request.explain {
            hit.explanation = Some(planned.explain(segment, one.doc)?.to_json());
        }
        if let (Some(collapse), Some(plan)) = (&request.collapse, group) {
            let key = plan.open(view, segment, 0)?.read(one.doc, one.score)?;
            if !matches!(key, Key::None { .. }) {
                hit.fields.insert(collapse.field.clone(), vec![key.render()].into());
            }
            group_keys.push(key);
        }
        for inner in &inner[one.view] {
            inner.add(&mut hit, one.segment, one.doc, one.doc)?;
        }
        hits.push(hit);
    }
    if let Some(collapse) = &request.collapse {
        let page = ranked.iter().skip(request.from).take(request.size);
        let groups: Vec<expand::Group> = page.map(|one| one.group.clone().unwrap_or(expand::Group::None)).collect();
        let sources: Vec<expand::Compiled<'_>> = compiled
            .iter()
            .filter_map(|(planned, post, _, group)| {
                Some(expand::Compiled {
                    planned,
                    post_filter: post.as_ref(),
                    collapse: group.as_ref()?,
                })
            })
            .collect();
        expand::expand(views, &sources, request, collapse, (&groups, &group_keys), &mut hits, cx)?;
    }
    // 2015 counted without scores, and said 0.
    let counted_then = request.size == 0 && request.dialect.typed && request.dialect.persona == model::Persona::Es2;
    let max_score = if counted_then {
        Some(0.0)
    } else if by_score && !ranked.is_empty() {
        ranked.iter().map(|r| r.score).reduce(f32::max)
    } else if request.track_scores {
        found.max_score
    } else if views.iter().all(|(v, _)| v.segments.is_empty()) && views.is_empty() {
        Some(0.0)
    } else {
        None
    };
    Ok(SearchResponse {
        took_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        timed_out: found.timed_out,
        terminated_early: (request.terminate_after > 0).then_some(found.terminated),
        shards: views
            .iter()
            .map(|(view, _)| u32::try_from(view.number("index.number_of_shards").unwrap_or(1)).unwrap_or(1))
            .sum(),
        hits: Hits {
            total: total(found.count, request.track_total_hits),
            max_score,
            hits,
        },
        profile: request.profile.then(|| profile::render(views, request, &found.took)),
        ..SearchResponse::default()
    })
}

/// What the scores of an index are multiplied with.
fn index_boost(request: &SearchRequest, view: &IndexView) -> f32 {
    let mut boosts = request.indices_boost.iter();
    boosts
        .find(|(name, _)| model::path::matches(name, view.name.as_str()))
        .map_or(1.0, |(_, boost)| *boost)
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

fn collapse_key(view: &IndexView, field: &str, cx: &Context<'_>) -> Result<Plan> {
    let Some((_, kind)) = view.mapping.resolve(field) else {
        return Err(Error::illegal(format!(
            "no mapping found for `{field}` in order to collapse on"
        )));
    };
    if !kind.kind.is_keyword() && !kind.kind.is_numeric() {
        return Err(Error::illegal(format!(
            "unknown type for collapse field `{field}`, only keywords and numbers are accepted"
        )));
    }
    let by = FieldSort {
        unmapped_type: Some("keyword".into()),
        ..FieldSort::new(field)
    };
    Plan::new(
        view,
        &Sort {
            by: SortBy::Field(by),
            ascending: true,
        },
        cx,
    )
}

fn check_limits(views: &[Searched], request: &SearchRequest) -> Result<()> {
    for (view, _) in views {
        if !request.fields.is_empty() && !view.mapping.source_enabled() {
            return Err(Error::illegal(format!(
                "Unable to retrieve the requested [fields] since _source is disabled in the mappings for index [{}]",
                view.name
            )));
        }
        let max = setting(view, "index.max_result_window", 10_000);
        let window = request.from.saturating_add(request.size);
        if window > max {
            return Err(Error::illegal(format!(
                "Result window is too large, from + size must be less than or equal to: [{max}] but was [{window}]. \
                 See the scroll api for a more efficient way to request large data sets. This limit can be set by changing \
                 the [index.max_result_window] index level setting."
            )));
        }
        let max = setting(view, "index.max_rescore_window", max);
        if let Some(rescore) = request.rescore.iter().find(|r| r.window_size > max) {
            return Err(Error::illegal(format!(
                "Rescore window [{}] is too large. It must be less than [{max}]. This prevents allocating massive heaps for \
                 storing the results to be rescored. This limit can be set by changing the [index.max_rescore_window] index \
                 level setting.",
                rescore.window_size
            )));
        }
    }
    if let Some(after) = &request.search_after {
        if request.from > 0 {
            return Err(Error::illegal(
                "`from` parameter must be set to 0 when `search_after` is used.",
            ));
        }
        let keys = request.sort.len().max(1);
        if request.sort.is_empty() {
            return Err(Error::illegal("Sort must contain at least one field."));
        }
        if after.len() != keys {
            return Err(Error::illegal(format!(
                "search_after has {} value(s) but sort has {keys}.",
                after.len()
            )));
        }
    }
    if request.collapse.is_some() && !request.rescore.is_empty() {
        return Err(Error::illegal("cannot use `collapse` in conjunction with `rescore`"));
    }
    if !request.rescore.is_empty() && request.sort.iter().any(|s| s.by != SortBy::Score) {
        return Err(Error::new(
            ErrorKind::QueryShard,
            "Cannot use [sort] option in conjunction with [rescore].",
        ));
    }
    Ok(())
}

/// Scores the best documents anew.
fn rescored(views: &[Searched], ranked: &mut [Ranked], rescore: &dsl::search::Rescore, cx: &Context<'_>) -> Result<()> {
    let mut nodes: Vec<Shared> = Vec::new();
    for (view, _) in views {
        nodes.push(crate::plan::compile(view, &rescore.query, cx, None)?);
    }
    let window = rescore.window_size.min(ranked.len());
    for one in &mut ranked[..window] {
        let segment = &views[one.view].0.segments[one.segment];
        let first = one.score * rescore.query_weight;
        let second = crate::plan::node::score_at(nodes[one.view].scorer(segment)?, one.doc);
        one.score = match second.map(|s| s * rescore.rescore_query_weight) {
            None => first,
            Some(second) => match rescore.score_mode.as_str() {
                "multiply" => first * second,
                "avg" => (first + second) / 2.0,
                "max" => first.max(second),
                "min" => first.min(second),
                _ => first + second,
            },
        };
    }
    ranked[..window].sort_by(|a, b| {
        b.score
            .total_cmp(&a.score)
            .then_with(|| (a.view, a.segment, a.doc).cmp(&(b.view, b.segment, b.doc)))
    });
    Ok(())
}

/// How many documents match.
///
/// # Errors
/// As [`run`].
pub fn count(views: &[Searched], query: Option<&Query>, cx: &Context<'_>) -> Result<u64> {
    let mut sum = 0;
    for (view, filter) in views {
        let planned = plan(view, query, filter.as_ref(), cx)?;
        for segment in &view.segments {
            cx.check_cancelled()?;
            if planned.all_score(segment).is_some() {
                sum += planned.sight(segment)?.count();
                continue;
            }
            let mut set = planned.scorer(segment)?;
            while set.doc() != TERMINATED {
                sum += 1;
                set.advance();
            }
        }
        planned.check()?;
    }
    Ok(sum)
}

/// Calls `f` with every matching document of an index in order: segment number and document. `false` stops.
///
/// # Errors
/// As [`run`], and what `f` answers.
pub fn scan(
    view: &IndexView,
    query: Option<&Query>,
    filter: Option<&Query>,
    cx: &Context<'_>,
    f: &mut dyn FnMut(usize, DocId) -> Result<bool>,
) -> Result<()> {
    let planned = plan(view, query, filter, cx)?;
    for (no, segment) in view.segments.iter().enumerate() {
        let mut set = planned.scorer(segment)?;
        while set.doc() != TERMINATED {
            if !f(no, set.doc())? {
                return Ok(());
            }
            set.advance();
        }
        cx.check_cancelled()?;
    }
    planned.check()
}

/// Why a document has its score for a query, or that it does not match.
///
/// # Errors
/// As [`run`].
pub fn explain(view: &IndexView, query: &Query, segment: usize, doc: DocId, cx: &Context<'_>) -> Result<crate::plan::Explained> {
    let planned = plan(view, Some(query), None, cx)?;
    planned.explain(&view.segments[segment], doc)
}

/// Whether a query would work; in words what it is.
///
/// # Errors
/// Why it would not.
pub fn validate(view: &IndexView, query: &Query, cx: &Context<'_>) -> Result<String> {
    let planned = plan(view, Some(query), None, cx)?;
    Ok(if planned.is_none() {
        "MatchNoDocsQuery".to_owned()
    } else {
        format!("{:?}", query.clause)
    })
}
