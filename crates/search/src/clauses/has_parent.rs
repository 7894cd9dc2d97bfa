//! `has_parent`: children of matching parents.

use super::Planner;
use crate::scorers::live_docs::{LiveDocs, Visible};
use crate::scorers::node::{Node as _, Shared};
use crate::scorers::parent_child_ordinals::{ParentChildOrdinals, Relatives, RelativesNode};
use dsl::query::HasParentQuery;
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::DocBits;
use segment::key_columns::ByKey;
use std::sync::Arc;
use tantivy::TERMINATED;
use tantivy::query::Scorer;

impl Planner<'_> {
    pub(super) fn has_parent(&self, q: &HasParentQuery, boost: f32) -> Result<Shared> {
        let Some(family) = self.family("has_parent", q.ignore_unmapped)? else {
            return Ok(self.nothing("no join field"));
        };
        let children = family.children_of(&q.parent_type);
        if children.is_empty() {
            if q.ignore_unmapped {
                return Ok(self.nothing("no such relation"));
            }
            return Err(self.no_relation(&family, "has_parent", &q.parent_type, "parent"));
        }
        let parent = match q.score {
            false => self.filtering(&q.query)?,
            true => self.whole(&q.query)?,
        };
        let parent = self.of_relation(parent, &family, &[&q.parent_type]);
        let mut by_segment = FxHashMap::default();
        // Parents whose children may live in another segment.
        let mut afar: ByKey<f32> = ByKey::default();
        for segment in &self.view.segments {
            self.cx.check_cancelled()?;
            let kin = ParentChildOrdinals::of(segment, &family, &q.parent_type)?;
            let keys = if self.view.segments.len() > 1 {
                family.ids(segment)?
            } else {
                None
            };
            let mut docs = DocBits::new(segment.reader.max_doc());
            let mut scores = FxHashMap::default();
            let sight = LiveDocs::open(segment, &self.view.schema, self.cx.see)?;
            let mut set = Visible::of(parent.scorer(segment)?, sight);
            while set.doc() != TERMINATED {
                let score = if q.score { set.score() * boost } else { boost };
                for child in kin.children(set.doc()) {
                    docs.insert(*child);
                    if q.score {
                        scores.insert(*child, score);
                    }
                }
                if let Some((_, key)) = keys.as_ref().and_then(|keys| keys.of(set.doc())) {
                    afar.insert(key, score);
                }
                set.advance();
            }
            by_segment.insert(segment.id, (docs, scores));
        }
        self.failure.check()?;
        if !afar.is_empty() {
            for segment in &self.view.segments {
                self.cx.check_cancelled()?;
                let (Some(keys), Some((docs, scores))) = (family.parents(segment)?, by_segment.get_mut(&segment.id)) else {
                    continue;
                };
                for child in ParentChildOrdinals::of(segment, &family, &q.parent_type)?.orphans_of(segment) {
                    if let Some(score) = keys.of(child).and_then(|(_, key)| afar.get(&key)) {
                        docs.insert(child);
                        if q.score {
                            scores.insert(child, *score);
                        }
                    }
                }
            }
        }
        let by_segment = by_segment.into_iter().map(|(segment, (docs, scores))| {
            let relatives = Relatives {
                docs: Some(Arc::new(docs)),
                scores: Arc::new(scores),
            };
            (segment, relatives)
        });
        let node = RelativesNode {
            by_segment: by_segment.collect(),
            score: boost,
        };
        if node.is_none() {
            return Ok(self.nothing("no relatives"));
        }
        Ok(Arc::new(node))
    }
}
