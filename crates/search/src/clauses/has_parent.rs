//! `has_parent`: children of matching parents.

use super::Planner;
use crate::scorers::family_walk::Toward;
use crate::scorers::live_docs::Visible;
use crate::scorers::node::{Node as _, Shared};
use crate::scorers::parent_child::Family;
use crate::scorers::parent_child_ordinals::ParentChildOrdinals;
use crate::scorers::relatives::{Relatives, RelativesNode};
use crate::scorers::split_families::split_families;
use dsl::query::HasParentQuery;
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::DocBits;
use segment::key_columns::{ByKey, Keys};
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;
use tantivy::{DocId, TERMINATED};

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
        if !q.score
            && let Some(node) = self.relatives(&parent, (&family, &q.parent_type), Toward::Children, boost)?
        {
            return Ok(node);
        }
        let parent = self.of_relation(parent, &family, &[&q.parent_type]);
        let sights = self.sights()?;
        let split = split_families(self.view, &family, &q.parent_type, &sights)?;
        let orphans = match &split {
            Some(_) => Vec::new(),
            None => self.orphans(&family, &q.parent_type)?,
        };
        let mut children = MatchedChildren::default();
        for (segment, sight) in self.view.segments.iter().zip(&sights) {
            self.cx.check_cancelled()?;
            let ordinals = ParentChildOrdinals::of(segment, &family, &q.parent_type)?;
            let parents = Visible::of(parent.scorer(segment)?, sight.clone());
            let keys = if orphans.is_empty() { None } else { family.ids(segment)? };
            children.add_segment(&ordinals, (segment, keys), parents, q.score, boost);
        }
        if let Some(split) = split {
            self.each_from_afar(&parent, split, Toward::Children, &sights, &mut |(no, child), parent| {
                let score = if q.score { parent.score() * boost } else { boost };
                children.add(&self.view.segments[no], child, q.score.then_some(score));
            })?;
        }
        self.failure.check()?;
        if !children.afar.is_empty() {
            for (segment, orphans) in &orphans {
                self.cx.check_cancelled()?;
                children.add_orphans(segment, orphans, &family, q.score)?;
            }
        }
        let by_segment = children.by_segment;
        let by_segment = by_segment.into_iter().map(|(segment, (docs, scores))| {
            let relatives = Relatives::Found {
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

    /// The segments with children whose parents may live in another one, and these children.
    fn orphans(&self, family: &Family, parent_type: &str) -> Result<Vec<(Arc<SegmentView>, Vec<DocId>)>> {
        let mut all = Vec::new();
        if self.view.segments.len() == 1 {
            return Ok(all);
        }
        for segment in &self.view.segments {
            self.cx.check_cancelled()?;
            let orphans = ParentChildOrdinals::of(segment, family, parent_type)?.orphans_of(segment);
            if !orphans.is_empty() {
                all.push((segment.clone(), orphans));
            }
        }
        Ok(all)
    }
}

/// The children of parents that match, segment by segment.
#[derive(Default)]
struct MatchedChildren {
    by_segment: FxHashMap<u64, (DocBits, FxHashMap<DocId, f32>)>,
    /// The scores of parents whose children may live in another segment.
    afar: ByKey<f32>,
}

impl MatchedChildren {
    /// Adds one child, with its score where it has one of its own.
    fn add(&mut self, segment: &SegmentView, child: DocId, score: Option<f32>) {
        let (docs, scores) = self
            .by_segment
            .entry(segment.id)
            .or_insert_with(|| (DocBits::new(segment.reader.max_doc()), FxHashMap::default()));
        docs.insert(child);
        scores.extend(score.map(|score| (child, score)));
    }

    /// Adds those that live beside their parents. `keys`: of the parents, where children may live in other segments.
    fn add_segment(
        &mut self,
        kin: &ParentChildOrdinals,
        (segment, keys): (&SegmentView, Option<Keys>),
        mut parents: Box<dyn Scorer>,
        scored: bool,
        boost: f32,
    ) {
        let mut docs = DocBits::new(segment.reader.max_doc());
        let mut scores = FxHashMap::default();
        while parents.doc() != TERMINATED {
            let score = if scored { parents.score() * boost } else { boost };
            for child in kin.children(parents.doc()) {
                docs.insert(*child);
                if scored {
                    scores.insert(*child, score);
                }
            }
            if let Some((_, key)) = keys.as_ref().and_then(|keys| keys.of(parents.doc())) {
                self.afar.insert(key, score);
            }
            parents.advance();
        }
        self.by_segment.insert(segment.id, (docs, scores));
    }

    /// Adds those of `orphans` whose parents match in another segment.
    fn add_orphans(&mut self, segment: &SegmentView, orphans: &[DocId], family: &Family, scored: bool) -> Result<()> {
        let (Some(keys), Some((docs, scores))) = (family.parents(segment)?, self.by_segment.get_mut(&segment.id)) else {
            return Ok(());
        };
        for child in orphans {
            if let Some(score) = keys.of(*child).and_then(|(_, key)| self.afar.get(&key)) {
                docs.insert(*child);
                if scored {
                    scores.insert(*child, *score);
                }
            }
        }
        Ok(())
    }
}
