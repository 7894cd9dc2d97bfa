//! The norm of a query, which made the scores of 2015 comparable: one over the root of the sum of the squares of what its
//! clauses weigh.
//!
//! Most queries are compiled once to know it and once with it as their boost, so that functions of scores see what they
//! saw then. Joins go through documents when they are compiled, so a query with joins is compiled once, and its scores
//! are multiplied.

use super::Planner;
use super::boolean::Shared;
use super::combine::scored_late;
use super::explain::Explained;
use super::live_docs::LiveDocs;
use super::node::Node;
use dsl::query::{Clause, Query};
use model::Result;
use segment::doc_bits::DocBits;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// A clause whose scores are multiplied by a norm.
struct Normalized {
    inner: Shared,
    norm: f32,
}

impl Node for Normalized {
    fn says(&self) -> Option<String> {
        self.inner.says()
    }
    fn is_several(&self) -> bool {
        self.inner.is_several()
    }
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let norm = self.norm;
        Ok(scored_late(self.inner.scorer(segment)?, move |_, set| set.score() * norm))
    }
    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let one = self.inner.explain(segment, doc)?;
        if !one.matched {
            return Ok(one);
        }
        let norm = Explained::new(self.norm, "queryNorm");
        Ok(Explained::new(one.value * self.norm, "product of:").of(vec![one, norm]))
    }
    fn most_score(&self) -> Option<f32> {
        self.inner.most_score().map(|most| most * self.norm)
    }
    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        self.inner.bits(segment)
    }
    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        self.inner.quick_count(segment, sight, most)
    }
    fn is_none(&self) -> bool {
        self.inner.is_none()
    }
}

fn norm_of(node: &Shared) -> f32 {
    let norm = 1.0 / node.squares().sqrt();
    if norm.is_finite() { norm } else { 1.0 }
}

impl Planner<'_> {
    /// Compiles a query whose scores are asked for as a whole.
    pub(super) fn whole(&self, query: &Query) -> Result<Shared> {
        if !self.classic() || !self.statistics.needed() {
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
        let profiled = self.cx.profile.replace(false);
        let norm = tried.compile(query, 1.0).map(|node| norm_of(&node));
        self.cx.profile.set(profiled);
        let norm = norm?;
        let around = self.query_norm.replace(norm);
        let node = self.compile(query, norm);
        self.query_norm.set(around);
        node
    }
}
