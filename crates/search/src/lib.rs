//! Searches over one or several indices, counts, scans, explanations.
//!
//! Not here: how a search goes (`pass`), how clauses become scorers (`clauses`), aggregations (`aggs`, through
//! `doc_sink`), which indices a request names (`catalog`).

use crate::clauses::plan;
use crate::context::Context;
use crate::interrupt::is_timeout;
use crate::phases::Phases;
use dsl::query::Query;
use dsl::search::{Aggregations, SearchRequest, SearchResponse};
use model::Result;
pub use pass::{compiles, run_with};
use segment::searchable::IndexView;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tantivy::{DocId, DocSet, TERMINATED};

pub mod aggs;
mod automata;
mod child_score;
pub mod clauses;
pub mod collect;
pub mod context;
mod decimal_format;
mod doc_sink;
mod document_reader;
pub mod fetch;
mod fields;
mod hashes;
pub mod helpers;
mod highlight;
pub mod interrupt;
pub mod joins;
mod limits;
mod pass;
pub mod phases;
mod profile;
#[cfg(test)]
mod pruning_tests;
pub mod scorers;
mod scripts;
mod seen;
pub mod sort;
mod suggest;
pub mod term_vectors;
#[cfg(test)]
mod tests;

/// An index to search, with the filter of the alias it was reached by.
pub type Searched = (Arc<IndexView>, Option<Query>);

/// Searches.
///
/// # Errors
/// Whatever the request gets wrong, in the words of Elasticsearch.
///
/// A search whose deadline comes before it is through answers what it has, and that it timed out.
pub fn run(views: &[Searched], request: &SearchRequest, cx: &Context<'_>) -> Result<SearchResponse> {
    match run_through(views, request, cx) {
        Err(error) if is_timeout(&error) && request.cancellation.deadline().is_some() => Ok(SearchResponse {
            shards: views
                .iter()
                .map(|(view, filter)| crate::clauses::routed::shard_count(view, request.query.iter().chain(filter)))
                .sum(),
            ..SearchResponse::late(request)
        }),
        Ok(mut response) => {
            if let Some(profile) = &mut response.profile {
                profile::hide_counts(views, profile);
            }
            Ok(response)
        }
        refused => refused,
    }
}

fn run_through(views: &[Searched], request: &SearchRequest, cx: &Context<'_>) -> Result<SearchResponse> {
    let suggest = match request.suggest.is_empty() {
        false => Phases::time(&cx.phases.suggest, || suggest::run(views, request, cx))?,
        true => None,
    };
    cx.profile.store(request.profile, Ordering::Relaxed);
    let groups = request.collapse.iter().flat_map(|collapse| &collapse.inner_hits);
    let explained = request.explain || groups.into_iter().any(|of| of.page.explain);
    cx.filters_score.store(explained || request.named_scores, Ordering::Relaxed);
    // Who asks for suggestions alone is told of no hits.
    let alone = suggest.is_some() && request.query.is_none() && request.aggs.is_empty();
    if alone && !request.dialect.rules.shows_hits_of_suggestions {
        return Ok(only_suggestions(views, request, suggest));
    }
    if request.aggs.is_empty() {
        let response = run_with(views, request, cx, None)?;
        return Ok(SearchResponse { suggest, ..response });
    }
    let indices: Vec<Arc<IndexView>> = views.iter().map(|(view, _)| view.clone()).collect();
    let fetch = crate::fetch::top_hits::TopHitsFetch {
        cx,
        query: request.query.as_ref(),
        dialect: request.dialect,
        named: request.query.as_ref().is_some_and(has_name),
    };
    let context = crate::aggs::AggregationContext {
        plan: cx,
        views: &indices,
        dialect: request.dialect,
        fetch: &fetch,
        profile: request.profile,
    };
    let mut root = crate::aggs::Root::new(&request.aggs, &context)?;
    let mut response = run_with(views, request, cx, Some(&mut root))?;
    let aggregated = match root.finish() {
        Err(error) if is_timeout(&error) => {
            response.timed_out = true;
            serde_json::Map::new()
        }
        aggregated => aggregated?,
    };
    response.aggregations = Some(Aggregations::Tree(aggregated));
    if let Some(shards) = response.profile.as_mut().and_then(|profile| profile["shards"].as_array_mut()) {
        for (at, shard) in shards.iter_mut().enumerate() {
            shard["aggregations"] = root.profile(at);
        }
    }
    response.suggest = suggest;
    Ok(response)
}

/// Whether a clause of the query has a name.
fn has_name(query: &Query) -> bool {
    let mut any = false;
    query.visit(&mut |clause| any |= clause.name.is_some());
    any
}

fn only_suggestions(views: &[Searched], request: &SearchRequest, suggest: Option<serde_json::Value>) -> SearchResponse {
    let total = dsl::search::Total { value: 0, exact: true };
    SearchResponse {
        shards: views
            .iter()
            .map(|(view, _)| crate::clauses::routed::shard_count(view, []))
            .sum(),
        hits: dsl::search::Hits {
            total: (request.track_total_hits != dsl::search::TrackTotal::No).then_some(total),
            ..dsl::search::Hits::default()
        },
        suggest,
        ..SearchResponse::default()
    }
}

/// How many documents match.
///
/// # Errors
/// As [`run`].
pub fn count(views: &[Searched], query: Option<&Query>, cx: &Context<'_>) -> Result<u64> {
    let mut sum = 0_u64;
    for (view, filter) in views {
        let planned = plan(view, query, filter.as_ref(), cx)?;
        for segment in &view.segments {
            cx.check_cancelled()?;
            if let Some(count) = planned.quick_count(segment, &planned.sight(segment)?, u64::MAX)? {
                sum += count;
                continue;
            }
            scorers::fill::each_length(&mut *planned.scorer(segment)?, &mut |len| {
                sum += len;
                cx.check_cancelled()?;
                Ok(true)
            })?;
        }
        planned.check()?;
    }
    Ok(sum)
}

/// Documents that a scan passes between two looks at the clock: `f` may read each of them.
const SCANNED_BETWEEN: u64 = 256;

/// Calls `f` with every matching document of an index in order: segment number and document. `false` stops. The first is that of
/// `from`, or the next one.
///
/// # Errors
/// As [`run`], and what `f` answers.
pub fn scan(
    view: &IndexView,
    query: Option<&Query>,
    filter: Option<&Query>,
    cx: &Context<'_>,
    from: (usize, DocId),
    f: &mut dyn FnMut(usize, DocId) -> Result<bool>,
) -> Result<()> {
    let planned = plan(view, query, filter, cx)?;
    for (no, segment) in view.segments.iter().enumerate().skip(from.0) {
        cx.check_cancelled()?;
        let mut set = planned.scorer(segment)?;
        if no == from.0 && set.doc() < from.1 {
            set.seek(from.1);
        }
        let mut seen = 0_u64;
        while set.doc() != TERMINATED {
            if !f(no, set.doc())? {
                return Ok(());
            }
            seen += 1;
            if seen.is_multiple_of(SCANNED_BETWEEN) {
                cx.check_cancelled()?;
            }
            set.advance();
        }
    }
    planned.check()
}

/// Why a document has its score for a query, or that it does not match.
///
/// # Errors
/// As [`run`].
pub fn explain(
    view: &IndexView,
    query: &Query,
    segment: usize,
    doc: DocId,
    cx: &Context<'_>,
) -> Result<crate::scorers::explain::Explained> {
    let planned = plan(view, Some(query), None, cx)?;
    planned.explain(&view.segments[segment], doc)
}

/// Whether a query would work; in words what it is.
///
/// # Errors
/// Why it would not.
pub fn validate((view, filter): &Searched, query: &Query, cx: &Context<'_>) -> Result<String> {
    crate::clauses::describe(view, query, filter.as_ref(), cx)
}
