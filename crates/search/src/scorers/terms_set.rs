//! `terms_set`: documents with as many of the terms as a field or a script of theirs says.

use super::disjunction::{Sum, or};
use super::explain::Explained;
use super::live_docs::LiveLevel;
use super::node::{Node, Shared, score_at, seek_to};
use super::rescored::rescore;
use crate::fields::target::Owned;
use crate::scripts::{Failure, Script};
use model::Result;
use segment::segment_view::SegmentView;
use tantivy::DocId;
use tantivy::query::Scorer;

/// How many terms a document must have.
pub(crate) enum Least {
    Field(Box<Owned>),
    Script(Script),
}

/// `terms_set`.
pub(crate) struct CoveringNode {
    pub(crate) nodes: Vec<Shared>,
    pub(crate) least: Least,
    pub(crate) failure: Failure,
    pub(crate) level: LiveLevel,
}

impl Node for CoveringNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let mut any = Vec::new();
        let mut each = Vec::new();
        for node in &self.nodes {
            any.push(node.scorer(segment)?);
            each.push(node.scorer(segment)?);
        }
        let set = self.level.restrict(segment, or(any, 1, Sum::Added))?;
        let failure = self.failure.clone();
        let mut wanted: Box<dyn FnMut(DocId) -> Result<Option<f64>> + Send> = match &self.least {
            Least::Field(field) => {
                let column = field.open(segment)?;
                let mut buffer = Vec::new();
                Box::new(move |doc| {
                    let Some(column) = &column else { return Ok(None) };
                    column.numbers(doc, &mut buffer);
                    Ok(buffer.iter().copied().reduce(f64::min))
                })
            }
            Least::Script(script) => {
                let bound = script.open(segment)?;
                Box::new(move |doc| bound.number(doc, 0.0).map(Some))
            }
        };
        Ok(rescore(set, move |doc, _| {
            let least = failure.run(|| wanted(doc))?.trunc().max(1.0);
            let (mut found, mut sum) = (0u32, 0f64);
            for set in &mut each {
                if seek_to(set.as_mut(), doc) == doc {
                    found += 1;
                    sum += f64::from(set.score());
                }
            }
            (f64::from(found) >= least).then_some(sum as f32)
        }))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let Some(score) = score_at(self.scorer(segment)?, doc) else {
            return Ok(Explained::no_match("too few matching terms"));
        };
        let mut details = Vec::new();
        for node in &self.nodes {
            let one = node.explain(segment, doc)?;
            if one.matched {
                details.push(one);
            }
        }
        Ok(Explained::new(score, "sum of:").of(details))
    }
}
