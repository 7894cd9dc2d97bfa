//! `script_score`: scores that a script computes.

use super::explain::Explained;
use super::live_docs::LiveLevel;
use super::node::{Node, Shared};
use super::rescored::from_least;
use crate::scripts::{Failure, Script};
use model::{Error, Result};
use segment::segment_view::SegmentView;
use tantivy::DocId;
use tantivy::query::Scorer;

pub(crate) struct ScriptNode {
    pub(crate) query: Shared,
    pub(crate) script: Script,
    pub(crate) min_score: Option<f32>,
    pub(crate) boost: f32,
    pub(crate) failure: Failure,
    pub(crate) level: LiveLevel,
    /// For explanations.
    pub(crate) what: String,
}

impl Node for ScriptNode {
    fn scorer(&self, segment: &SegmentView) -> Result<Box<dyn Scorer>> {
        let bound = self.script.open(segment)?;
        let (min_score, boost, failure) = (self.min_score, self.boost, self.failure.clone());
        // Its number tells who sees a part how many documents lie before it.
        let shows_number = !segment.is_part();
        let set = self.level.restrict(segment, self.query.scorer(segment)?)?;
        let value = move |doc, set: &mut dyn Scorer| {
            let score = set.score();
            failure.run(|| match bound.number(doc, score)? {
                value if value < 0.0 || value.is_nan() => {
                    let doc = if shows_number {
                        format!(" for doc [{doc}]")
                    } else {
                        String::new()
                    };
                    let reason =
                        format!("script_score script returned an invalid score [{value}]{doc}. Must be a non-negative score!");
                    Err(Error::illegal(reason))
                }
                value => Ok(Some(value as f32 * boost)),
            })
        };
        Ok(from_least(set, min_score, value))
    }

    fn explain(&self, segment: &SegmentView, doc: DocId) -> Result<Explained> {
        let query = self.query.explain(segment, doc)?;
        if !query.matched {
            return Ok(query);
        }
        let value = self.script.open(segment)?.number(doc, query.value)? as f32;
        let score = value * self.boost;
        let seen = Explained::new(query.value, "_score: ").of(vec![query]);
        let mut explained = Explained::new(value, self.what.clone()).of(vec![seen]);
        if self.boost != 1.0 {
            let parts = vec![Explained::new(self.boost, "boost"), explained];
            explained = Explained::new(score, "Boosted score, product of:").of(parts);
        }
        Ok(match self.min_score {
            Some(min) if score < min => {
                let what = format!("Score value is too low, expected at least {min:?} but got {score:?}");
                Explained::no_match(what).of(vec![explained])
            }
            _ => explained,
        })
    }
}
