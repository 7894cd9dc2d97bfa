//! `dis_max`: the best score of several clauses.

use super::disjunction::{Sum, or};
use super::explain::Explained;
use super::lucene_string;
use super::match_all::NoneNode;
use super::node::{Node, Shared};
use model::Result;
use segment::segment_view::SegmentView;
use std::sync::Arc;
use tantivy::DocId;
use tantivy::query::Scorer;

/// The best of several, with a part of the others.
pub(crate) struct DisMaxNode {
    /// Any of them matches.
    pub nodes: Vec<Shared>,
    /// Part of the others.
    pub tie_breaker: f32,
    /// The clause that it stands for, for explanations.
    pub what: Option<String>,
}

impl Node for DisMaxNode {
    fn says(&self) -> Option<String> {
        self.what
            .clone()
            .or_else(|| lucene_string::of_best(&self.nodes, self.tie_breaker))
    }
    fn squares(&self) -> f32 {
        let squares = self.nodes.iter().map(|node| node.squares());
        let (sum, best) = squares.fold((0f32, 0f32), |(sum, best), one| (sum + one, best.max(one)));
        (sum - best) * self.tie_breaker * self.tie_breaker + best
    }

    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let sets = self
            .nodes
            .iter()
            .map(|node| node.scorer(segment))
            .collect::<Result<Vec<_>>>()?;
        Ok(or(sets, 1, Sum::Best(self.tie_breaker)))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let mut details = Vec::new();
        let (mut best, mut sum) = (0f64, 0f64);
        for node in &self.nodes {
            let one = node.explain(segment, doc)?;
            if one.matched {
                best = best.max(f64::from(one.value));
                sum += f64::from(one.value);
                details.push(one);
            }
        }
        if details.is_empty() {
            return Ok(Explained::no_match("No matching clause"));
        }
        let value = (best + (sum - best) * f64::from(self.tie_breaker)) as f32;
        let what = if self.tie_breaker == 0.0 {
            "max of:".to_owned()
        } else {
            format!("max plus {:?} times others of:", self.tie_breaker)
        };
        Ok(Explained::new(value, what).of(details))
    }
}

/// The best of several clauses.
pub(crate) fn dis_max(mut nodes: Vec<Shared>, tie_breaker: f32) -> Shared {
    match nodes.len() {
        0 => Arc::new(NoneNode("empty dis_max".into())),
        1 => nodes.remove(0),
        _ => Arc::new(DisMaxNode {
            nodes,
            tie_breaker,
            what: None,
        }),
    }
}
