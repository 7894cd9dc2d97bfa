//! `bool`: which of its clauses are needed.

use super::{Planner, minimum_should_match};
use crate::scorers::bool::BoolNode;
use crate::scorers::match_all::{AllNode, NoneNode};
use crate::scorers::node::Shared;
use dsl::query::{BoolQuery, Query};
use model::Result;
use std::sync::Arc;

impl<'a> Planner<'a> {
    pub(super) fn bool(&self, q: &BoolQuery, boost: f32) -> Result<Shared> {
        let scored = |list: &[Query]| -> Result<Vec<Shared>> {
            self.count_clauses(list.len())?;
            list.iter().map(|q| self.compile(q, boost)).collect()
        };
        let filters = |list: &[Query]| -> Result<Vec<Shared>> {
            self.count_clauses(list.len())?;
            list.iter().map(|q| self.filtering(q)).collect()
        };
        let mut node = BoolNode {
            must: scored(&q.must)?,
            filter: filters(&q.filter)?,
            should: scored(&q.should)?,
            must_not: filters(&q.must_not)?,
            least: 0,
            coordinated: self.classic() && !q.disable_coord,
        };
        let empty = |node: &BoolNode| {
            node.must.is_empty() && node.filter.is_empty() && node.should.is_empty() && node.must_not.is_empty()
        };
        if self.absent.get() && !empty(&node) {
            for list in [&mut node.must, &mut node.filter, &mut node.should, &mut node.must_not] {
                list.retain(|n| !n.is_absent());
            }
            if empty(&node) {
                return Ok(Arc::new(NoneNode::absent()));
            }
        }
        if empty(&node) {
            return Ok(Arc::new(AllNode(boost)));
        }
        let excludes = node.must.is_empty() && node.filter.is_empty() && node.should.is_empty();
        if q.nothing_of_exclusions && excludes {
            return Ok(self.nothing("No matching clauses"));
        }
        node.least = match &q.minimum_should_match {
            // Exclusions alone stand beside all documents, in a query that says nothing of options.
            Some(_) if excludes => 0,
            Some(text) => minimum_should_match::minimum_should_match(text, node.should.len())?,
            None => usize::from(node.must.is_empty() && node.filter.is_empty() && !node.should.is_empty()),
        };
        if node.least == 0 && node.must.is_empty() && node.filter.is_empty() && !node.should.is_empty() {
            // Lucene needs one of the options where nothing else is required.
            node.least = 1;
        }
        if node.least > node.should.len() {
            return Ok(self.nothing("No matching clauses"));
        }
        if node.must.iter().chain(&node.filter).any(|n| n.is_none()) {
            return Ok(self.nothing("No matching clauses"));
        }
        assert!(
            !empty(&node) && node.least <= node.should.len(),
            "a clause that can match has clauses, and no more of its options are needed than it has"
        );
        Ok(Arc::new(node))
    }
}
