//! The clause of `has_child` and `has_parent`: documents of each segment that have a relative that matches.
//!
//! Not here: whose relatives they are (`clauses::has_child`, `clauses::has_parent`), walks along families (`family_walk`).

use super::constant::{ConstantScorer, NoScorer};
use super::family_walk::FamilyWalk;
use super::live_docs::LiveDocs;
use super::node::Node;
use super::rescored::rescore;
use model::Result;
use rustc_hash::FxHashMap;
use segment::doc_bits::{BitsDocs, DocBits};
use segment::segment_view::SegmentView;
use std::sync::{Arc, OnceLock};
use tantivy::DocId;
use tantivy::query::Scorer;

/// Counts beyond it are taken from sets of all relatives; a walk counts up to it.
const WALKED_MAX: u64 = 100_000;

/// Documents of one segment.
pub(crate) enum Relatives {
    /// All are known, with a score each where they differ.
    Found {
        docs: Option<Arc<DocBits>>,
        /// Documents without a score of their own have the one of the clause.
        scores: Arc<FxHashMap<DocId, f32>>,
    },
    /// They are looked for as far as somebody asks. The set of all is made once it is needed.
    Sought { walk: FamilyWalk, all: OnceLock<Arc<DocBits>> },
}

impl Relatives {
    /// Documents of one score.
    pub(crate) fn of_docs(docs: DocBits) -> Relatives {
        Relatives::Found {
            docs: Some(Arc::new(docs)),
            scores: Arc::default(),
        }
    }

    /// Documents that a walk finds.
    pub(crate) fn along(walk: FamilyWalk) -> Relatives {
        Relatives::Sought {
            walk,
            all: OnceLock::new(),
        }
    }

    /// All of them.
    fn docs(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        let (walk, all) = match self {
            Relatives::Found { docs, .. } => return Ok(docs.clone()),
            Relatives::Sought { walk, all } => (walk, all),
        };
        if let Some(all) = all.get() {
            return Ok(Some(all.clone()));
        }
        let found = Arc::new(walk.all(segment)?);
        Ok(Some(all.get_or_init(|| found).clone()))
    }
}

/// The relatives of each segment.
pub(crate) struct RelativesNode {
    /// By the segment's id.
    pub(crate) by_segment: FxHashMap<u64, Relatives>,
    /// The score of those without their own.
    pub(crate) score: f32,
}

impl Node for RelativesNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let (docs, scores) = match self.by_segment.get(&segment.id) {
            None => return Ok(Box::new(NoScorer)),
            Some(Relatives::Found { docs, scores }) => (docs.clone(), scores),
            Some(Relatives::Sought { walk, all }) => match all.get() {
                Some(all) => (Some(all.clone()), &Arc::default()),
                None => return Ok(Box::new(walk.open(segment, self.score)?)),
            },
        };
        let Some(docs) = docs.filter(|docs| !docs.is_empty()) else {
            return Ok(Box::new(NoScorer));
        };
        let set = Box::new(ConstantScorer::new(BitsDocs::new(docs), self.score));
        if scores.is_empty() {
            return Ok(set);
        }
        let (scores, common) = (scores.clone(), self.score);
        Ok(rescore(set, move |doc, _| Some(scores.get(&doc).copied().unwrap_or(common))))
    }

    fn bits(&self, segment: &SegmentView) -> Result<Option<Arc<DocBits>>> {
        self.by_segment
            .get(&segment.id)
            .map_or(Ok(None), |relatives| relatives.docs(segment))
    }

    fn most_score(&self) -> Option<f32> {
        let has_one_score = |relatives: &Relatives| match relatives {
            Relatives::Found { scores, .. } => scores.is_empty(),
            Relatives::Sought { .. } => true,
        };
        self.by_segment.values().all(has_one_score).then_some(self.score)
    }

    fn quick_count(&self, segment: &SegmentView, sight: &LiveDocs, most: u64) -> Result<Option<u64>> {
        let Some(relatives) = self.by_segment.get(&segment.id) else {
            return Ok(Some(0));
        };
        if let Relatives::Sought { walk, all } = relatives
            && all.get().is_none()
            && most <= WALKED_MAX
        {
            // Where it takes long to open the clause, matches are counted while they are collected.
            return match walk.opens_quickly() {
                true => Ok(Some(walk.open(segment, self.score)?.count(sight, most))),
                false => Ok(None),
            };
        }
        let docs = relatives.docs(segment)?;
        Ok(Some(docs.map_or(0, |docs| sight.count_in_all(&[docs], most))))
    }

    fn is_none(&self) -> bool {
        let none = |relatives: &Relatives| match relatives {
            Relatives::Found { docs, .. } => docs.as_ref().is_none_or(|docs| docs.is_empty()),
            Relatives::Sought { .. } => false,
        };
        self.by_segment.values().all(none)
    }
}
