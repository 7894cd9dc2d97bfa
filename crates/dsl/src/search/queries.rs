//! The queries of a search, in one list.

use super::{FreeInnerHits, SearchRequest};
use crate::aggs::{Agg, AggKind};
use crate::query::hits::{QueriesMut, Role, Visitor, in_highlight, in_sort};
use model::Result;

impl QueriesMut for SearchRequest {
    fn queries_mut(&mut self, f: &mut Visitor<'_>) -> Result<()> {
        for query in self.query.iter_mut().chain(&mut self.post_filter) {
            f(Role::Finds, query)?;
        }
        for rescore in &mut self.rescore {
            f(Role::Serves, &mut rescore.query)?;
        }
        in_sort(&mut self.sort, f)?;
        in_highlight(self.highlight.as_mut(), f)?;
        for agg in &mut self.aggs {
            in_agg(agg, f)?;
        }
        for spec in self.collapse.iter_mut().flat_map(|collapse| &mut collapse.inner_hits) {
            spec.page.queries_mut(f)?;
        }
        self.inner_hits.iter_mut().try_for_each(|one| in_free(one, f))
    }
}

/// Inner hits beside the query are shown in the hits, and find none.
fn in_free(one: &mut FreeInnerHits, f: &mut Visitor<'_>) -> Result<()> {
    one.request.queries_mut(&mut |_, query| f(Role::Serves, query))?;
    one.inner.iter_mut().try_for_each(|inner| in_free(inner, f))
}

/// The depth of aggregations is bounded by their parser.
fn in_agg(agg: &mut Agg, f: &mut Visitor<'_>) -> Result<()> {
    match &mut agg.kind {
        AggKind::Filter(query) => f(Role::Serves, query)?,
        AggKind::Filters { filters, .. } | AggKind::AdjacencyMatrix { filters, .. } => {
            for (_, query) in filters {
                f(Role::Serves, query)?;
            }
        }
        AggKind::SignificantTerms(significant) => {
            if let Some(query) = &mut significant.background {
                f(Role::Serves, query)?;
            }
        }
        AggKind::SignificantText(significant) => {
            if let Some(query) = &mut significant.background {
                f(Role::Serves, query)?;
            }
        }
        AggKind::TopHits(top) => {
            in_sort(&mut top.sort, f)?;
            in_highlight(top.highlight.as_mut(), f)?;
        }
        AggKind::TopMetrics { sort, .. } => in_sort(sort, f)?,
        _ => {}
    }
    agg.subs.iter_mut().try_for_each(|sub| in_agg(sub, f))
}
