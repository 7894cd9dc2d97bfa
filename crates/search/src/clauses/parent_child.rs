//! The join field of an index, as `has_child`, `has_parent` and `parent_id` use it.
//!
//! Each collects the documents of one side by key first. The other side is then a set that looks its keys up.

use super::Planner;
use crate::fields::target::query_shard;
use crate::scorers::bool::BoolNode;
use crate::scorers::node::Shared;
use crate::scorers::parent_child::Family;
use model::{Error, Result};
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn family(&self, what: &str, ignore_unmapped: bool) -> Result<Option<Family>> {
        match Family::of(self.view) {
            Some(family) => Ok(Some(family)),
            None if ignore_unmapped => Ok(None),
            None => Err(query_shard(self.view, format!("[{what}] no join field has been configured"))),
        }
    }

    pub(super) fn no_relation(&self, family: &Family, what: &str, name: &str, role: &str) -> Error {
        let known = family
            .pairs
            .iter()
            .flat_map(|(child, parent)| [child.as_str(), parent.as_str()]);
        let hint = model::nearest::hint(name, known.filter(|known| *known != name));
        query_shard(
            self.view,
            format!("[{what}] {} doesn't hold [{name}] as a {role}{hint}", family.describe()),
        )
    }

    /// A clause restricted to the documents of a relation.
    pub(super) fn of_relation(&self, node: Shared, family: &Family, relations: &[&str]) -> Shared {
        let terms = relations.iter().map(|name| family.relation_term(name)).collect();
        let filter = self.filter(terms, 1.0, relations.join(","));
        Arc::new(BoolNode {
            must: vec![node],
            filter: vec![filter],
            ..BoolNode::default()
        })
    }
}
