//! `nested`: a query of the documents of a path, joined to those around them.

use super::Planner;
use crate::fields::target::query_shard;
use crate::scorers::bool::BoolNode;
use crate::scorers::nested::NestedNode;
use crate::scorers::node::Shared;
use dsl::query::{Clause, NestedQuery, Query, ScoreMode, ZeroTerms};
use mapping::{Kind, Mapping};
use model::{Error, ErrorKind, Result, nearest};
use segment::searchable::IndexView;
use std::sync::Arc;
use tantivy::Term;

/// Why a path is none of nested objects.
pub(crate) fn no_nested(view: &IndexView, path: &str) -> String {
    if view.mapping.is_object(path) {
        return format!("[nested] nested object under path [{path}] is not of nested type");
    }
    // Clients of 2015 read the sentence as it was.
    let hint = match view.rules().refuses_in_former_words {
        true => String::new(),
        false => nearest::hint(path, view.mapping.nested_paths()),
    };
    format!("[nested] failed to find nested object under path [{path}]{hint}")
}

/// The kind of a field that has values in documents of the nested path alone.
fn kind_only_in(mapping: &Mapping, field: &str, path: &str) -> Option<Kind> {
    let (own, field) = mapping.resolve(field)?;
    let object = mapping.object(path)?;
    let is_copied = object.include_in_parent || object.include_in_root;
    (mapping.nested_path_of(own) == Some(path) && !is_copied).then_some(field.kind)
}

/// Whether a query can only find documents of the nested path, so that no filter is needed for it. It says so of the clauses for which
/// Lucene's `NestedHelper` does; of no other.
fn finds_only_nested(mapping: &Mapping, query: &Query, path: &str) -> bool {
    let all = |queries: &[Query]| queries.iter().all(|query| finds_only_nested(mapping, query, path));
    let any = |queries: &[Query]| queries.iter().any(|query| finds_only_nested(mapping, query, path));
    let kind = |field: &str| kind_only_in(mapping, field, path);
    match &query.clause {
        Clause::MatchNone => true,
        Clause::Term(q) => kind(&q.field).is_some(),
        Clause::Terms(q) => kind(&q.field).is_some(),
        Clause::Match(q) => q.fuzziness.is_none() && q.zero_terms_query == ZeroTerms::None && kind(&q.field).is_some(),
        Clause::Range(q) => kind(&q.field).is_some_and(|kind| kind.is_numeric() || kind.is_date()),
        Clause::ConstantScore { filter } => finds_only_nested(mapping, filter, path),
        // Options are required where nothing else is.
        Clause::Bool(q) if q.must.is_empty() && q.filter.is_empty() => !q.should.is_empty() && all(&q.should),
        Clause::Bool(q) => any(&q.must) || any(&q.filter),
        _ => false,
    }
}

impl Planner<'_> {
    pub(super) fn nested(&self, q: &NestedQuery, boost: f32) -> Result<Shared> {
        if !self.view.mapping.is_nested(&q.path) {
            if q.ignore_unmapped {
                return Ok(self.nothing(format!("unmapped nested path [{}]", q.path)));
            }
            let why = no_nested(self.view, &q.path);
            let cause = Error::new(ErrorKind::IllegalState, why.clone());
            return Err(query_shard(self.view, format!("failed to create query: {why}")).with_cause(cause));
        }
        let child = self.inside(&q.path, |planner| {
            let node = match q.score_mode {
                ScoreMode::None => planner.filtering(&q.query)?,
                _ => planner.compile(&q.query, boost)?,
            };
            Ok((node, planner.named.borrow().clone()))
        })?;
        let (child, _names) = child;
        let child: Shared = if finds_only_nested(&self.view.mapping, &q.query, &q.path) {
            child
        } else {
            let path = Term::from_field_text(self.view.schema.nested_path, &q.path);
            let filter = self.filter(vec![path], 1.0, format!("_nested_path:{}", q.path));
            Arc::new(BoolNode {
                must: vec![child],
                filter: vec![filter],
                ..BoolNode::default()
            })
        };
        // In the objects of the path itself it asks each for itself: there is nothing to join.
        if self.path.as_deref() == Some(q.path.as_str()) {
            return Ok(match q.score_mode {
                ScoreMode::None => Arc::new(crate::scorers::constant_score::ConstantNode {
                    filter: child,
                    boost: 0.0,
                }),
                _ => child,
            });
        }
        Ok(Arc::new(NestedNode {
            child,
            schema: self.view.schema.clone(),
            parent_path: self.path.clone(),
            mode: q.score_mode,
        }))
    }
}
