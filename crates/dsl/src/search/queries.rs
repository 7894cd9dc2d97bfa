//! Every query of a request, in one list: what is replaced in queries is replaced wherever they stand.
//!
//! Not here: clauses inside clauses and their inner hits ([`Query::children_mut`], [`Query::inner_hits_mut`]).

use super::{FreeInnerHits, Highlight, NestedSort, SearchRequest, Sort, SortBy};
use crate::aggs::{Agg, AggKind};
use crate::query::Query;
use model::Result;

/// What a query is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It finds hits, which may show inner hits of its clauses: `query`, `post_filter`.
    Finds,
    /// It scores, counts, sorts or marks.
    Serves,
}

type See<'f> = dyn FnMut(Role, &mut Query) -> Result<()> + 'f;

impl SearchRequest {
    /// Calls `f` with every query, always in the same order.
    ///
    /// # Errors
    /// What `f` answers.
    pub fn queries_mut(&mut self, f: &mut See<'_>) -> Result<()> {
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
            spec.request.queries_mut(f)?;
        }
        self.inner_hits.iter_mut().try_for_each(|one| in_free(one, f))
    }
}

/// Inner hits beside the query: what they find is shown in the hits, not found by them.
fn in_free(one: &mut FreeInnerHits, f: &mut See<'_>) -> Result<()> {
    one.request.queries_mut(&mut |_, query| f(Role::Serves, query))?;
    one.inner.iter_mut().try_for_each(|inner| in_free(inner, f))
}

fn in_sort(sort: &mut [Sort], f: &mut See<'_>) -> Result<()> {
    for key in sort {
        let mut level: Option<&mut NestedSort> = match &mut key.by {
            SortBy::Field(field) => field.nested.as_mut(),
            SortBy::Script { nested, .. } | SortBy::GeoDistance { nested, .. } => nested.as_mut(),
            SortBy::Score | SortBy::Doc | SortBy::ShardDoc => None,
        };
        while let Some(nested) = level {
            if let Some(filter) = &mut nested.filter {
                f(Role::Serves, filter)?;
            }
            level = nested.nested.as_deref_mut();
        }
    }
    Ok(())
}

fn in_highlight(highlight: Option<&mut Highlight>, f: &mut See<'_>) -> Result<()> {
    let Some(highlight) = highlight else { return Ok(()) };
    let own = highlight.fields.iter_mut().map(|(_, options)| options);
    for options in own.chain(std::iter::once(&mut highlight.common)) {
        if let Some(query) = &mut options.highlight_query {
            f(Role::Serves, query)?;
        }
    }
    Ok(())
}

/// The depth of aggregations is bounded by their parser.
fn in_agg(agg: &mut Agg, f: &mut See<'_>) -> Result<()> {
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
