//! `missing` of 2015 with `null_value`: documents with the value that stands for null.
//!
//! Not here: documents without a value (`exists`).

use super::Planner;
use crate::scorers::bool::BoolNode;
use crate::scorers::match_all::AllNode;
use crate::scorers::node::Shared;
use dsl::query::{Clause, TermQuery};
use model::Result;
use std::sync::Arc;

impl Planner<'_> {
    /// Documents whose field has its `null_value`; with `existence` also those in which the field has no value. Without `existence` every
    /// document matches if the mapping has no `null_value` for the field: 2015 dropped such a clause. Objects and patterns have none.
    pub(super) fn null_value(&self, name: &str, existence: bool, boost: f32) -> Result<Shared> {
        let value = self.view.mapping.field(name).and_then(|field| field.null_value.clone());
        let mut should = Vec::new();
        if let Some(value) = value {
            let term = TermQuery {
                field: name.to_owned(),
                value,
                case_insensitive: false,
            };
            should.push(self.term(&term, boost)?);
        }
        if existence {
            let exists = Clause::Exists { field: name.to_owned() };
            should.push(Arc::new(BoolNode {
                must_not: vec![self.filtering(&exists.into())?],
                ..BoolNode::default()
            }));
        }
        if should.is_empty() {
            return Ok(Arc::new(AllNode(boost)));
        }
        Ok(Arc::new(BoolNode {
            should,
            least: 1,
            ..BoolNode::default()
        }))
    }
}
