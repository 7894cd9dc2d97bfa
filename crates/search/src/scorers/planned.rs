//! A compiled query, restricted to the documents that the request may see.

use super::explain::Explained;
use super::node::{self, Shared};
use super::{conjunction, live_docs, profile, prune, term_set};
use crate::scripts;
use model::Result;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::query::Scorer;

/// A query compiled for one index, restricted to what the request may see.
pub struct Planned {
    pub(crate) node: Shared,
    pub(crate) types: Vec<tantivy::Term>,
    pub(crate) see: engine::See,
    pub(crate) schema: Arc<segment::schema::IndexSchema>,
    pub(crate) named: Vec<(String, Shared)>,
    pub(crate) failure: scripts::Failure,
    pub(crate) profile: Vec<Arc<profile::ProfiledNode>>,
}

/// Builds with assertions count the matches of segments of so many documents again.
const COUNTED_AGAIN_MOST: u32 = 256;

impl Planned {
    /// The times of its clauses, if the request is profiled.
    pub fn profile(&self) -> Vec<serde_json::Value> {
        self.profile.iter().map(|node| node.render()).collect()
    }

    /// The visible root documents of a segment that match, with their scores.
    ///
    /// # Errors
    /// Unreadable files; scripts that fail at once.
    pub fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let set = self.node.scorer(segment)?;
        self.failure.check()?;
        let mut sets = vec![(set, true)];
        if !self.types.is_empty() {
            sets.push((term_set::any_of(segment, &self.types)?, false));
        }
        let set = if sets.len() == 1 {
            sets.remove(0).0
        } else {
            conjunction::and(sets)
        };
        Ok(live_docs::Visible::of(set, self.sight(segment)?))
    }

    /// The error of a script that failed while documents were collected.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<()> {
        self.failure.check()
    }

    /// Why a document has its score.
    ///
    /// # Errors
    /// As [`Planned::scorer`].
    pub fn explain(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Explained> {
        self.node.explain(segment, doc)
    }

    /// The names of the clauses that match a document.
    ///
    /// # Errors
    /// As [`Planned::scorer`].
    pub fn matched_names(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<String>> {
        names_at(&self.named, segment, doc)
    }

    /// The same with their scores.
    ///
    /// # Errors
    /// As [`Planned::scorer`].
    pub fn matched_scores(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<f32>> {
        let names = self.matched_names(segment, doc)?;
        let mut scores = Vec::with_capacity(names.len());
        for name in names {
            let mut of_name = None;
            for (_, node) in self.named.iter().filter(|(own, _)| *own == name) {
                of_name = of_name.or(node::score_at(node.scorer(segment)?, doc));
            }
            scores.push(of_name.unwrap_or_default());
        }
        Ok(scores)
    }

    /// Whether any clause has a name.
    pub fn has_names(&self) -> bool {
        !self.named.is_empty()
    }

    /// Every visible document matches, with one score.
    pub fn all_score(&self, segment: &SegmentView) -> Option<f32> {
        if !self.node.is_all() || !self.types.is_empty() {
            return None;
        }
        self.node.scorer(segment).ok().map(|mut scorer| scorer.score())
    }

    /// The same as a query that prunes, if there is one and there is enough to prune.
    pub fn pruning(&self) -> Option<prune::Pruning> {
        let scored = self.node.scored_clauses().filter(|_| self.types.is_empty())?;
        prune::Pruning::new(scored, self.node.restrictions())
    }

    /// How many visible documents of a segment match, where that is known quickly; beyond `most` any larger number
    /// will do.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn quick_count(&self, segment: &SegmentView, sight: &live_docs::LiveDocs, most: u64) -> Result<Option<u64>> {
        if !self.types.is_empty() {
            return Ok(None);
        }
        if self.node.is_all() {
            return Ok(Some(sight.count()));
        }
        let count = self.node.quick_count(segment, sight, most)?;
        debug_assert!(
            count.is_none_or(|count| segment.reader.max_doc() > COUNTED_AGAIN_MOST || self.is_count(segment, count, most)),
            "search.md S13: {count:?} is the number of matches, or more than {most}"
        );
        Ok(count)
    }

    /// Is it the number of visible matches, as the scorer finds them? Beyond `most` any larger number is.
    fn is_count(&self, segment: &SegmentView, count: u64, most: u64) -> bool {
        let Ok(mut scorer) = self.scorer(segment) else { return true };
        let mut all = 0;
        while scorer.doc() != tantivy::TERMINATED {
            all += 1;
            scorer.advance();
        }
        count == all || count > most && all > most
    }

    /// How many visible documents of a segment match, where that is at hand without reading a list.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn count_at_hand(&self, segment: &SegmentView) -> Result<Option<u64>> {
        let sight = self.sight(segment)?;
        let at_hand = match self.node.as_term() {
            Some(term) => term.sees_all_of(&sight),
            None => self.node.is_all(),
        };
        if at_hand {
            self.quick_count(segment, &sight, u64::MAX)
        } else {
            Ok(None)
        }
    }

    /// The documents of a segment that the request may see.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn sight(&self, segment: &SegmentView) -> Result<live_docs::LiveDocs> {
        live_docs::LiveDocs::open(segment, &self.schema, self.see)
    }

    /// The query matches nothing.
    pub fn is_none(&self) -> bool {
        self.node.is_none()
    }

    /// The compiled clause without the restriction, for parts of queries (function filters, aggregations).
    pub fn node(&self) -> &Shared {
        &self.node
    }
}

/// A clause compiled with what it says of itself: names, failures of scripts.
pub struct Part {
    /// The clause, not restricted to what is visible.
    pub node: Shared,
    pub(crate) named: Vec<(String, Shared)>,
    pub(crate) failure: scripts::Failure,
}

impl Part {
    /// The error of a script that failed while documents were looked at.
    ///
    /// # Errors
    /// That error.
    pub fn check(&self) -> Result<()> {
        self.failure.check()
    }
    /// The names of the clauses that match a document.
    ///
    /// # Errors
    /// Unreadable files.
    pub fn matched_names(&self, segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<String>> {
        names_at(&self.named, segment, doc)
    }
}

fn names_at(named: &[(String, Shared)], segment: &SegmentView, doc: tantivy::DocId) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, node) in named {
        if !names.contains(name) && node::score_at(node.scorer(segment)?, doc).is_some() {
            names.push(name.clone());
        }
    }
    Ok(names)
}
