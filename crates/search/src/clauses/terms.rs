//! `terms`: documents that have any of several values.

use super::{Planner, minimum_should_match};
use crate::fields::target::Target;
use crate::scorers::bool::BoolNode;
use crate::scorers::constant_score::ConstantNode;
use crate::scorers::node::Shared;
use dsl::query::TermsQuery;
use mapping::Kind;
use model::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

/// `index.max_terms_count`.
const MAX_TERMS: usize = 65_536;

impl Planner<'_> {
    pub(super) fn terms(&self, q: &TermsQuery, boost: f32) -> Result<Shared> {
        let max = crate::fields::target::setting(self.view, "index.max_terms_count", MAX_TERMS);
        if q.values.len() > max {
            return Err(Error::illegal(format!(
                "The number of terms [{}] used in the Terms Query request has exceeded the allowed maximum of [{max}]. \
                 This maximum can be set by changing the [index.max_terms_count] index level setting.",
                q.values.len()
            )));
        }
        let values: Vec<&Value> = q.values.iter().collect();
        if let Some(node) = self.meta_term(&q.field, &values, boost)? {
            return Ok(node);
        }
        let Some(target) = Target::of(self.view, &q.field) else {
            return Ok(self.nothing(format!("unmapped field [{}]", q.field)));
        };
        if let Some(spec) = &q.minimum_should_match {
            let should = q
                .values
                .iter()
                .map(|v| self.term_value(&target, v, boost))
                .collect::<Result<Vec<_>>>()?;
            let least = minimum_should_match::minimum_should_match(spec, should.len())?.max(1);
            if least > should.len() {
                return Ok(self.nothing("No matching clauses"));
            }
            return Ok(Arc::new(BoolNode {
                should,
                least,
                ..BoolNode::default()
            }));
        }
        // Where 2015 scored several terms, it scored them as a choice.
        let few = q.values.len() <= self.cx.max_clause_count;
        if self.classic() && self.scores_matter() && few {
            let should = q.values.iter().map(|v| self.term_value(&target, v, boost));
            return Ok(Arc::new(BoolNode {
                should: should.collect::<Result<_>>()?,
                least: 1,
                coordinated: !q.disable_coord,
                ..BoolNode::default()
            }));
        }
        // 2015 took dates among several for the moment they begin.
        let dates = target.kind.kind.is_date() && !self.view.rules().dates_are_moments && q.values.iter().any(Value::is_string);
        if !target.kind.index || target.kind.kind == Kind::Ip || dates {
            let should = q
                .values
                .iter()
                .map(|v| self.term_value(&target, v, 1.0))
                .collect::<Result<Vec<_>>>()?;
            if should.is_empty() {
                return Ok(self.nothing("no terms"));
            }
            let any = Arc::new(BoolNode {
                should,
                least: 1,
                ..BoolNode::default()
            });
            return Ok(Arc::new(ConstantNode { filter: any, boost }));
        }
        let mut terms = Vec::with_capacity(values.len());
        for value in values {
            if let Some(value) = self.parse_term(&target, value)? {
                terms.extend(target.term(&value));
            }
        }
        terms.sort_unstable();
        terms.dedup();
        Ok(self.filter(terms, boost, format!("{}:({} terms)", target.path, q.values.len())))
    }
}
