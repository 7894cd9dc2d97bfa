//! The queries of a request in one list: a rewrite reaches them wherever they stand.
//!
//! Not here: clauses inside clauses and their inner hits (`Query::children_mut`, `Query::inner_hits_mut`).

use super::{Highlight, NestedSort, Page, Sort, SortBy};
use crate::query::Query;
use model::Result;

/// The purpose of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It finds hits, which may show inner hits of its clauses: `query`, `post_filter`.
    Finds,
    /// It scores, counts, sorts or marks.
    Serves,
}

/// Sees, and may change, each query of a request.
pub type Visitor<'f> = dyn FnMut(Role, &mut Query) -> Result<()> + 'f;

/// A request that has queries.
pub trait QueriesMut {
    /// Calls `f` with every query, always in the same order.
    ///
    /// # Errors
    /// `f` fails.
    fn queries_mut(&mut self, f: &mut Visitor<'_>) -> Result<()>;
}

impl QueriesMut for Page {
    fn queries_mut(&mut self, f: &mut Visitor<'_>) -> Result<()> {
        in_sort(&mut self.sort, f)?;
        in_highlight(self.highlight.as_mut(), f)
    }
}

/// The filters of sort keys in nested documents.
pub(crate) fn in_sort(sort: &mut [Sort], f: &mut Visitor<'_>) -> Result<()> {
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

/// The queries that highlights mark.
pub(crate) fn in_highlight(highlight: Option<&mut Highlight>, f: &mut Visitor<'_>) -> Result<()> {
    let Some(highlight) = highlight else { return Ok(()) };
    let own = highlight.fields.iter_mut().map(|(_, options)| options);
    for options in own.chain(std::iter::once(&mut highlight.common)) {
        if let Some(query) = &mut options.highlight_query {
            f(Role::Serves, query)?;
        }
    }
    Ok(())
}
