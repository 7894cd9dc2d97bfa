//! Plans a whole query, with the norm that the similarity of 2015 multiplies scores with.
//!
//! Most queries are compiled twice: once to find the norm, once with the norm as their boost, so that score functions see the
//! scores of that time. Joins search while they are compiled, so a query with joins is compiled once and its scores are multiplied.

use super::Planner;
use crate::scorers::node::Shared;
use crate::scorers::query_norm::{Normalized, norm_of};
use dsl::query::{Clause, Query};
use model::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Planner<'_> {
    /// Compiles a query whose scores are asked for as a whole.
    pub(super) fn whole(&self, query: &Query) -> Result<Shared> {
        if !self.classic() || !self.statistics.is_needed() {
            return self.compile(query, 1.0);
        }
        let mut joins = false;
        query.visit(&mut |query| {
            joins |= matches!(
                query.clause,
                Clause::HasChild(_) | Clause::HasParent(_) | Clause::ParentId { .. }
            );
        });
        if joins {
            let inner = self.compile(query, 1.0)?;
            let norm = norm_of(&inner);
            return Ok(match norm {
                1.0 => inner,
                norm => Arc::new(Normalized { inner, norm }),
            });
        }
        let tried = Planner {
            path: self.path.clone(),
            ..Planner::new(self.view, self.cx)
        };
        let profiled = self.cx.profile.swap(false, Ordering::Relaxed);
        let norm = tried.compile(query, 1.0).map(|node| norm_of(&node));
        self.cx.profile.store(profiled, Ordering::Relaxed);
        let norm = norm?;
        let around = self.query_norm.replace(norm);
        let node = self.compile(query, norm);
        self.query_norm.set(around);
        node
    }
}
