//! `parent_id`: children of one parent.

use super::Planner;
use crate::fields::target::query_shard;
use crate::scorers::node::Shared;
use model::Result;
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn parent_id(&self, child_type: &str, id: &str, ignore_unmapped: bool, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("parent_id", ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let Some(parent_type) = family.parent_of(child_type).map(str::to_owned) else {
            if ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            let children = family.pairs.iter().map(|(child, _)| child.as_str());
            let hint = model::nearest::hint(child_type, children);
            return Err(query_shard(
                self.view,
                format!("[parent_id] no relation found for child [{child_type}]{hint}"),
            ));
        };
        let term = family.parent_term(id);
        let mut doc_freq = self.statistics.doc_freq(&term)?;
        let mut docs = 0;
        if family.typed {
            for segment in &self.view.segments {
                docs += segment.core.doc_count(&segment.reader, family.parent.0)?;
            }
        } else if doc_freq > 0 {
            // The field of a relation's ids is the parents' as well: each has its own.
            let relations = family.children_of(&parent_type);
            for name in relations.into_iter().chain([parent_type.as_str()]) {
                docs += self.statistics.doc_freq(&family.relation_term(name))?;
            }
            doc_freq += self.statistics.doc_freq(&family.id_term(self.view, &parent_type, id))?.min(1);
            docs = docs.max(doc_freq);
        }
        if doc_freq == 0 {
            return Ok(self.nothing("no such parent"));
        }
        let field = crate::scorers::similarity::FieldStatistics { docs, tokens: docs };
        let rarity = crate::scorers::similarity::Rarity {
            term: id.to_owned(),
            doc_freq,
        };
        let by_parent: Shared = Arc::new(crate::scorers::term::TermNode {
            filters: self.view.filters.clone(),
            similarity: self.similarity_of(None, field, vec![rarity], boost),
            term,
            norms: false,
            what: format!("parent:{id}"),
            of_roots: true,
        });
        Ok(self.of_relation(by_parent, &family, &[child_type]))
    }
}
