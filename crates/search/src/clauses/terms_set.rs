//! `terms_set`: the terms, and how many of them a document must have.

use super::Planner;
use crate::fields::target::{Owned, Target, query_shard};
use crate::scorers::node::Shared;
use crate::scorers::terms_set::{CoveringNode, Least};
use crate::scripts::Script;
use dsl::query::TermsSetQuery;
use model::Result;
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn terms_set(&self, q: &TermsSetQuery, boost: f32) -> Result<Shared> {
        if q.terms.is_empty() {
            return Ok(self.nothing("No terms supplied for \"terms_set\" query."));
        }
        self.count_clauses(q.terms.len())?;
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        let least = match (&q.minimum_field, &q.minimum_script) {
            (None, None) => {
                return Err(query_shard(
                    self.view,
                    "failed to create query: No minimum should match has been specified",
                ));
            }
            (Some(field), _) => match Target::of(self.view, field) {
                Some(target) if target.kind.kind.is_numeric() => Some(Least::Field(Box::new(Owned::of(&target)))),
                Some(target) => {
                    return Err(query_shard(
                        self.view,
                        format!(
                            "failed to create query: [{field}] of type [{}] cannot say how many terms must match",
                            target.kind.wire()
                        ),
                    ));
                }
                None => None,
            },
            (None, Some(source)) => {
                let mut source = source.clone();
                source.params.insert("num_terms".into(), q.terms.len().into());
                Some(Least::Script(Script::new(self.view, &source, self.cx)?))
            }
        };
        let Some(least) = least else {
            return Err(query_shard(
                self.view,
                format!(
                    "failed to find minimum_should_match field [{}]",
                    q.minimum_field.as_deref().unwrap_or_default()
                ),
            ));
        };
        let mut nodes = Vec::new();
        for value in &q.terms {
            nodes.push(self.term_value(&target, value, boost)?);
        }
        Ok(Arc::new(CoveringNode {
            nodes,
            least,
            failure: self.failure(),
            level: self.level(),
        }))
    }
}
